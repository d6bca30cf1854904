/* Of a model that repeats blocks, one of four: what operators cost, and which splits are best, is
   found for the first two, one in between, and the last, and holds for all others. */
#ifndef CLEAVE_SEARCH_PROBLEM_FEW_BLOCKS_H
#define CLEAVE_SEARCH_PROBLEM_FEW_BLOCKS_H

#include "search/problem/blocks.h"

typedef struct cleave_few_blocks {
    cleave_model model;  /* where too few blocks repeat, the model itself */
    int32_t *stands_for; /* [n_operators] of the whole model, the operator of this one */
} cleave_few_blocks;

/* In the arena. */
cleave_status cleave_few_blocks_make(const cleave_model *model, const cleave_blocks *blocks,
                                     cleave_arena *arena, cleave_few_blocks *few,
                                     cleave_error *error);

#endif
