/* The items of a step one by one: those of its program, or, where a few micro-batches tell of all
   (cleave_turns), those of each turn.

   An item of a turn has a number among those of all turns, in the order in which they stand: the
   place that it would have if all micro-batches were lowered.  Who asks for a step's times asks by
   these numbers, and for anything else by the items that are there.  A program with all its items
   is one block with one turn. */
#ifndef CLEAVE_SIMULATOR_STEP_TURNED_H
#define CLEAVE_SIMULATOR_STEP_TURNED_H

#include "base/arena.h"
#include "base/error.h"
#include "graph/program/program.h"

typedef struct cleave_turned {
    int32_t n_items; /* of all turns */
    int32_t n_blocks, n_turns;
    const int32_t *first_item;     /* [n_blocks + 1] */
    const cleave_turn *turns;      /* [n_turns] */
    int32_t *begin;                /* [n_turns + 1] the number of each turn's first item */
    int32_t *first_turn, *turn_of; /* [n_blocks + 1], [n_turns] each block's turns, as they come */
} cleave_turned;

/* Of a program's items; `turns` may be null.  In the arena. */
cleave_status cleave_turned_make(int32_t n_items, const cleave_turns *turns, cleave_arena *arena,
                                 cleave_turned *turned, cleave_error *error);

/* One of them. */
typedef struct cleave_turned_item {
    int32_t number;
    int32_t turn, item; /* of the program */
} cleave_turned_item;

cleave_turned_item cleave_turned_at(const cleave_turned *turned, int32_t number);

/* What something in a turn refers to: an item of its own micro-batch, or one that is there once. */
cleave_turned_item cleave_turned_refers_to(const cleave_turned *turned, int32_t turn, int32_t item);

/* How often a block is done. */
static inline int32_t cleave_turned_times(const cleave_turned *turned, int32_t block) {
    return turned->first_turn[block + 1] - turned->first_turn[block];
}

#endif
