/* Repeated blocks: a network of a thousand equal layers is searched as one of a few.

   Operators in the order of the model are told apart by what they compute on what shapes
   (graph/model/alike.h).  Where the same sequence of p operators comes again and again, and each
   reads of the one before what that one reads of the one before it, the model can be made shorter
   by leaving out blocks in the middle: what follows the last block then reads the last one kept.
   Costs of a step are, but for its ends, the same for each block, so costs of two such models of
   some and of one more block tell those of the whole one. */
#ifndef CLEAVE_SEARCH_PROBLEM_BLOCKS_H
#define CLEAVE_SEARCH_PROBLEM_BLOCKS_H

#include "graph/model/alike.h"

/* Block b has the operators first + b x period ... first + (b + 1) x period - 1. */
typedef struct cleave_blocks {
    int32_t first, period;
    int32_t n; /* 0: nothing repeats */
} cleave_blocks;

/* The repetition that covers most operators, of those the one with the shortest period; blocks of
   more than some hundred operators, or fewer than five of them, are not looked for.  `class_of` is
   [n_operators], by first occurrence. */
cleave_blocks cleave_blocks_find(const cleave_model *model, const int32_t *class_of);

/* The model with the first `keep` blocks (2 or more, fewer than there are).  It lives in the arena
   and refers to the names and values of the model; of every operator of the whole model,
   [n_operators], `stands_for` gets the one of the shorter model that is in the same place of its
   block: of blocks left out, in the last one.  NO_LAYOUT where the blocks are connected in another
   way than one to the next. */
cleave_status cleave_blocks_shorten(const cleave_model *model, const cleave_blocks *blocks,
                                    int32_t keep, cleave_arena *arena, cleave_model *shorter,
                                    int32_t *stands_for, cleave_error *error);

#endif
