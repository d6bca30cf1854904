/* Small spans go into what the large ones leave, whenever they live; in the order of time they come
   to lie where a large one wants to be later.

   Where a span may lie depends on those alone that live when it does.  So time is cut into halves,
   these into halves, and so on, and every such window has a list of what was placed and lives in
   it: a span looks through the list of the smallest window that it lives in. */
#include "graph/program/memory_by_size.h"

#include <stdlib.h>
#include <string.h>

/* Halvings of time at most, and spans of a smallest window below which there is none. */
enum { MOST_HALVINGS = 6, FEW_SPANS = 32 };

typedef struct windows {
    cleave_span *spans;
    int bits, halvings; /* moments are below 2^bits */
    struct {
        int32_t *placed, n;   /* by offset */
    } of[2 << MOST_HALVINGS]; /* windows of h halvings are 2^h .. 2^(h + 1) - 1 */
} windows;

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

static int window_at(const windows *w, int halvings, int32_t moment) {
    return (1 << halvings) + (moment >> (w->bits - halvings));
}

/* The smallest that it lives in, from its first moment to its last. */
static int smallest_window(const windows *w, const cleave_span *of) {
    int halvings = w->halvings;
    while (window_at(w, halvings, of->begin) != window_at(w, halvings, of->end))
        halvings--;
    return window_at(w, halvings, of->begin);
}

/* Counts what each window will have, with one more halving as long as the lists have room. */
static void cut_time(windows *w, int32_t n, int32_t *lists) {
    int32_t last = 0, n_listed = 0;
    for (int32_t k = 0; k < n; k++)
        last = w->spans[k].end > last ? w->spans[k].end : last;
    while (w->bits < 31 && last >> w->bits > 0)
        w->bits++;
    for (int h = 0; h <= MOST_HALVINGS && h <= w->bits && (h == 0 || n >> h > FEW_SPANS); h++) {
        int32_t before = n_listed;
        for (int32_t k = 0; k < n; k++) {
            int first = window_at(w, h, w->spans[k].begin), end = window_at(w, h, w->spans[k].end);
            for (int i = first; i <= end; i++)
                w->of[i].n++;
            n_listed += end - first + 1;
        }
        if (n_listed > CLEAVE_LISTED_OF_SPAN * n)
            break;
        w->halvings = h;
        for (int i = 1 << h; i < 2 << h; i++) {
            w->of[i].placed = lists + before;
            before += w->of[i].n;
            w->of[i].n = 0;
        }
    }
}

/* The lowest offset for a span among what is placed. */
static int64_t lowest_offset(const windows *w, const cleave_span *of) {
    int64_t offset = 0;
    int window = smallest_window(w, of);
    for (int32_t i = 0; i < w->of[window].n; i++) {
        const cleave_span *other = &w->spans[w->of[window].placed[i]];
        if (!at_once(other, of))
            continue;
        if (other->offset - offset >= of->bytes)
            break;
        if (other->offset + other->bytes > offset)
            offset = other->offset + other->bytes;
    }
    return offset;
}

static void insert(windows *w, int window, int32_t span) {
    int32_t *placed = w->of[window].placed, n = w->of[window].n++, at = 0;
    for (int32_t left = n; left > 0;) {
        int32_t half = left / 2;
        bool before = w->spans[placed[at + half]].offset <= w->spans[span].offset;
        at += before ? half + 1 : 0;
        left = before ? left - half - 1 : half;
    }
    memmove(&placed[at + 1], &placed[at], (size_t)(n - at) * sizeof *placed);
    placed[at] = span;
}

static void place(windows *w, int32_t span) {
    const cleave_span *of = &w->spans[span];
    for (int h = 0; h <= w->halvings; h++)
        for (int i = window_at(w, h, of->begin); i <= window_at(w, h, of->end); i++)
            insert(w, i, span);
}

bool cleave_place_by_size(cleave_span *spans, int32_t n, int64_t limit, int32_t *lists,
                          int64_t *top) {
    windows w = {.spans = spans};
    *top = 0;
    qsort(spans, (size_t)n, sizeof *spans, larger_first);
    cut_time(&w, n, lists);
    for (int32_t k = 0; k < n; k++) {
        spans[k].offset = lowest_offset(&w, &spans[k]);
        int64_t end = spans[k].offset + spans[k].bytes;
        if (end >= limit)
            return false;
        *top = end > *top ? end : *top;
        place(&w, k);
    }
    return true;
}
