/* From what a program of a few equal blocks does to what one of many does, item by item.

   Where block after block of a model is split alike, its program repeats, too: forward, backward
   and among the updates there is a run of items for each block, and the runs of two inner blocks
   differ in nothing but that what they refer to lies one block further on, or is the same for both.
   So the run of one inner block, the *middle*, is put in as many more times, in each of the three
   places, and all that comes out is what lowering the whole model would have given: every price,
   wait, link and buffer, in the order of the whole program.  That the runs of the middle and of
   both its neighbours are alike in this sense is checked item by item; where they aren't, nothing
   is extended. */
#ifndef CLEAVE_SEARCH_PRICE_EXTEND_H
#define CLEAVE_SEARCH_PRICE_EXTEND_H

#include "graph/program/program.h"
#include "simulator/step/engine.h"

typedef struct cleave_extension {
    const cleave_program *program;        /* of a few blocks */
    const cleave_engine_problem *problem; /* that it makes, with prices */
    const int32_t *block_of_slot;         /* [n_slots] -1: of none */
    const int32_t *block_of_tensor;       /* [n_tensors] of base tensors; -1: of none, or several */
    int32_t middle; /* this block comes again: blocks middle - 1 .. middle + 1 are there */
    int32_t more;   /* so many times, 1 or more */
} cleave_extension;

typedef struct cleave_extended {
    cleave_program program;        /* devices, windows, all counts, messages, collectives, and the
                                      memory plan's peaks: what a price asks for */
    cleave_engine_problem problem; /* to be run by scan */
    const int32_t *origin; /* [n_items] the item of the few blocks that it is, or is a copy of */
} cleave_extended;

/* Lives in the arena.  `alike` false, and nothing else, where the blocks are not. */
cleave_status cleave_program_extend(const cleave_extension *by, cleave_arena *arena, bool *alike,
                                    cleave_extended *extended, cleave_error *error);

#endif
