/* A box is an integer hyper-rectangle: the piece of a tensor that a part reads or writes.  Its rank
   is that of its tensor and is passed beside it; dimensions from the rank on are not looked at. */
#ifndef CLEAVE_GRAPH_MODEL_BOX_H
#define CLEAVE_GRAPH_MODEL_BOX_H

#include "base/random.h"

#include <stdbool.h>
#include <stdint.h>

enum { CLEAVE_MAX_RANK = 8 };
/* Of a tensor, so that sums of bytes over all tensors of a model stay far from what 64 bits hold.
 */
#define CLEAVE_MOST_ELEMENTS (INT64_C(1) << 46)

typedef struct cleave_box {
    int64_t lo[CLEAVE_MAX_RANK], hi[CLEAVE_MAX_RANK]; /* [lo, hi) in each dimension */
} cleave_box;

static inline bool cleave_box_is_empty(int rank, const cleave_box *box) {
    for (int d = 0; d < rank; d++)
        if (box->lo[d] >= box->hi[d])
            return true;
    return false;
}

/* Number of elements; 1 at rank 0, 0 when empty. */
static inline int64_t cleave_box_size(int rank, const cleave_box *box) {
    int64_t size = 1;
    for (int d = 0; d < rank; d++)
        size *= box->hi[d] > box->lo[d] ? box->hi[d] - box->lo[d] : 0;
    return size;
}

static inline bool cleave_box_equal(int rank, const cleave_box *a, const cleave_box *b) {
    for (int d = 0; d < rank; d++)
        if (a->lo[d] != b->lo[d] || a->hi[d] != b->hi[d])
            return false;
    return true;
}

/* For tables of boxes. */
static inline uint64_t cleave_box_hash(int rank, const cleave_box *box) {
    uint64_t hash = 0;
    for (int d = 0; d < rank; d++)
        hash = (hash ^ (uint64_t)box->lo[d] * 0x9e3779b97f4a7c15u ^ (uint64_t)box->hi[d]) *
               0xbf58476d1ce4e5b9u;
    return cleave_hash64(hash);
}

/* Is `inner` within `outer`? */
static inline bool cleave_box_contains(int rank, const cleave_box *outer, const cleave_box *inner) {
    for (int d = 0; d < rank; d++)
        if (inner->lo[d] < outer->lo[d] || inner->hi[d] > outer->hi[d])
            return false;
    return true;
}

/* What is in both; empty where nothing is. */
static inline cleave_box cleave_box_intersect(int rank, const cleave_box *a, const cleave_box *b) {
    cleave_box both = *a;
    for (int d = 0; d < rank; d++) {
        both.lo[d] = a->lo[d] > b->lo[d] ? a->lo[d] : b->lo[d];
        both.hi[d] = a->hi[d] < b->hi[d] ? a->hi[d] : b->hi[d];
    }
    return both;
}

/* Have they an element in common?  Neither is empty. */
static inline bool cleave_box_overlap(int rank, const cleave_box *a, const cleave_box *b) {
    for (int d = 0; d < rank; d++)
        if (a->hi[d] <= b->lo[d] || b->hi[d] <= a->lo[d])
            return false;
    return true;
}

static inline cleave_box cleave_box_of_shape(int rank, const int64_t *shape) {
    cleave_box box = {{0}, {0}};
    for (int d = 0; d < rank; d++)
        box.hi[d] = shape[d];
    return box;
}

/* Start of block `i` of `degree` balanced blocks of `extent`: the first extent mod degree get one
 * more. */
static inline int64_t cleave_block_start(int64_t extent, int64_t degree, int64_t i) {
    int64_t rest = extent % degree;
    return extent / degree * i + (i < rest ? i : rest);
}

#endif
