/* What is free of an arena that grows: memory is taken by best fit, and given back. */
#ifndef CLEAVE_GRAPH_PROGRAM_FREE_RANGES_H
#define CLEAVE_GRAPH_PROGRAM_FREE_RANGES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct cleave_free_range {
    int64_t offset, bytes;
} cleave_free_range;

/* Deep models leave thousands of free ranges, so these are listed in two orders. */
typedef struct cleave_free_ranges {
    cleave_free_range *by_offset;
    cleave_free_range *by_size; /* the same by bytes, then offset */
    int32_t n;
    int64_t top; /* end of the arena so far */
} cleave_free_ranges;

/* For at most so many pieces of memory at once; false where memory is short. */
bool cleave_free_ranges_create(cleave_free_ranges *ranges, int32_t n_pieces);
void cleave_free_ranges_free(cleave_free_ranges *ranges);
/* An empty arena again. */
void cleave_free_ranges_clear(cleave_free_ranges *ranges);

/* Returns an offset: of the smallest ranges that are large enough the first, or at the top, with
   what is free there. */
int64_t cleave_free_ranges_take(cleave_free_ranges *ranges, int64_t bytes);
void cleave_free_ranges_give(cleave_free_ranges *ranges, int64_t offset, int64_t bytes);

#endif
