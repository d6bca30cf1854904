/* Small spans go into what the large ones leave, whenever they live; in the order of time they come
   to lie where a large one wants to be later. */
#include "graph/program/memory_by_size.h"

#include <stdlib.h>
#include <string.h>

static int larger_first(const void *left, const void *right) {
    const cleave_span *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return a->begin < b->begin ? -1 : a->begin > b->begin ? 1 : 0;
}

static bool at_once(const cleave_span *a, const cleave_span *b) {
    if (a->end < b->begin || b->end < a->begin)
        return false;
    return !a->lane_only || !b->lane_only ||
           (a->lane_begin <= b->lane_end && b->lane_begin <= a->lane_end);
}

/* The lowest offset for `of` among what is placed, which is sorted by offset, and in `*at` where it
   comes there. */
static int64_t lowest_offset(const cleave_span *placed, int32_t n_placed, const cleave_span *of,
                             int32_t *at) {
    int64_t offset = 0;
    int32_t i = 0;
    for (; i < n_placed; i++) {
        const cleave_span *other = &placed[i];
        if (!at_once(other, of))
            continue;
        if (other->offset - offset >= of->bytes)
            break;
        if (other->offset + other->bytes > offset)
            offset = other->offset + other->bytes;
    }
    while (i > 0 && placed[i - 1].offset > offset)
        i--;
    *at = i;
    return offset;
}

bool cleave_place_by_size(cleave_span *spans, int32_t n, int64_t limit, cleave_span *placed,
                          int64_t *top) {
    int32_t at;
    *top = 0;
    qsort(spans, (size_t)n, sizeof *spans, larger_first);
    for (int32_t k = 0; k < n; k++) {
        spans[k].offset = lowest_offset(placed, k, &spans[k], &at);
        int64_t end = spans[k].offset + spans[k].bytes;
        if (end >= limit)
            return false;
        *top = end > *top ? end : *top;
        memmove(&placed[at + 1], &placed[at], (size_t)(k - at) * sizeof *placed);
        placed[at] = spans[k];
    }
    return true;
}
