#include "graph/program/free_ranges.h"

#include <stdlib.h>
#include <string.h>

bool cleave_free_ranges_create(cleave_free_ranges *of, int32_t n_pieces) {
    size_t n = (size_t)n_pieces + 2;
    *of = (cleave_free_ranges){.by_offset = malloc(n * sizeof *of->by_offset),
                               .by_size = malloc(n * sizeof *of->by_size)};
    return of->by_offset != NULL && of->by_size != NULL;
}

void cleave_free_ranges_free(cleave_free_ranges *of) {
    free(of->by_offset);
    free(of->by_size);
}

void cleave_free_ranges_clear(cleave_free_ranges *of) {
    of->n = 0;
    of->top = 0;
}

/* Of the ranges by size from one place to another the first that is as large and, of those that are
   no larger, at `offset` or beyond.  Which half it is in nothing foretells, so it is chosen without
   a jump. */
static int32_t size_place(const cleave_free_ranges *of, int32_t from, int32_t end, int64_t bytes,
                          int64_t offset) {
    const cleave_free_range *first = &of->by_size[from];
    for (int32_t n = end - from; n > 0;) {
        int32_t half = n / 2;
        const cleave_free_range *range = &first[half];
        bool before = (range->bytes < bytes) | ((range->bytes == bytes) & (range->offset < offset));
        first = before ? range + 1 : first;
        n = before ? n - half - 1 : half;
    }
    return (int32_t)(first - of->by_size);
}

/* The first range at `offset` or beyond. */
static int32_t offset_place(const cleave_free_ranges *of, int64_t offset) {
    const cleave_free_range *first = of->by_offset;
    for (int32_t n = of->n; n > 0;) {
        int32_t half = n / 2;
        const cleave_free_range *range = &first[half];
        bool before = range->offset < offset;
        first = before ? range + 1 : first;
        n = before ? n - half - 1 : half;
    }
    return (int32_t)(first - of->by_offset);
}

/* Moves `n` ranges from place `from` on to place `to`. */
static void shift(cleave_free_range *ranges, int32_t to, int32_t from, int32_t n) {
    memmove(&ranges[to], &ranges[from], (size_t)n * sizeof *ranges);
}

static void insert(cleave_free_ranges *of, int32_t at, cleave_free_range range) {
    int32_t place = size_place(of, 0, of->n, range.bytes, range.offset);
    shift(of->by_size, place + 1, place, of->n - place);
    shift(of->by_offset, at + 1, at, of->n - at);
    of->by_size[place] = of->by_offset[at] = range;
    of->n++;
}

static int32_t place_of(const cleave_free_ranges *of, int32_t at) {
    return size_place(of, 0, of->n, of->by_offset[at].bytes, of->by_offset[at].offset);
}

static void erase(cleave_free_ranges *of, int32_t at, int32_t place) {
    of->n--;
    shift(of->by_size, place, place + 1, of->n - place);
    shift(of->by_offset, at, at + 1, of->n - at);
}

/* Ranges that stay between the same neighbours: only their places by size change, from `from` on.
 */
static void enlarge(cleave_free_ranges *of, int32_t at, int32_t from, cleave_free_range range) {
    int32_t to = size_place(of, from + 1, of->n, range.bytes, range.offset) - 1;
    shift(of->by_size, from, from + 1, to - from);
    of->by_size[to] = of->by_offset[at] = range;
}

static void lessen(cleave_free_ranges *of, int32_t at, int32_t from, cleave_free_range range) {
    int32_t to = size_place(of, 0, from, range.bytes, range.offset);
    shift(of->by_size, to + 1, to, from - to);
    of->by_size[to] = of->by_offset[at] = range;
}

/* Of ranges of one size the first by offset. */
int64_t cleave_free_ranges_take(cleave_free_ranges *of, int64_t bytes) {
    int32_t place = size_place(of, 0, of->n, bytes, -1);
    if (place == of->n) {
        /* Grow; a free range at the very end grows with it. */
        int64_t offset = of->top;
        if (of->n > 0) {
            const cleave_free_range *last = &of->by_offset[of->n - 1];
            if (last->offset + last->bytes == of->top) {
                offset = last->offset;
                erase(of, of->n - 1, place_of(of, of->n - 1));
            }
        }
        of->top = offset + bytes;
        return offset;
    }
    const cleave_free_range best = of->by_size[place];
    int32_t at = offset_place(of, best.offset);
    if (best.bytes > bytes)
        lessen(of, at, place, (cleave_free_range){best.offset + bytes, best.bytes - bytes});
    else
        erase(of, at, place);
    return best.offset;
}

void cleave_free_ranges_give(cleave_free_ranges *of, int64_t offset, int64_t bytes) {
    int32_t at = offset_place(of, offset);
    const cleave_free_range *list = of->by_offset;
    bool joins_before = at > 0 && list[at - 1].offset + list[at - 1].bytes == offset;
    bool joins_after = at < of->n && offset + bytes == list[at].offset;
    int64_t begin = joins_before ? list[at - 1].offset : offset;
    int64_t end = joins_after ? list[at].offset + list[at].bytes : offset + bytes;
    const cleave_free_range range = {begin, end - begin};
    if (joins_before && joins_after)
        erase(of, at, place_of(of, at));
    if (joins_before)
        enlarge(of, at - 1, place_of(of, at - 1), range);
    else if (joins_after)
        enlarge(of, at, place_of(of, at), range);
    else
        insert(of, at, range);
}
