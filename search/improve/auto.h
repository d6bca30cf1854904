/* The state of the method "auto": rounds of refinements that have nothing to do with each other.

   Round 0 descends from every start (in steps, from the best in lanes); round 1 anneals from the
   best of what that gave, each chain with a seed of its own; round 2 descends from the best.  What
   a round begins with follows from what the one before has left, so that a state between any two
   proposals can be kept and gone on with (search/improve/resume.c), and threads only decide how
   many refinements of a round run at once, not what comes of them. */
#ifndef CLEAVE_SEARCH_IMPROVE_AUTO_H
#define CLEAVE_SEARCH_IMPROVE_AUTO_H

#include "search/improve/improve.h"
#include "search/improve/refine.h"

enum {
    AUTO_N_ROUNDS = 3,
    AUTO_MAX_TASKS = CLEAVE_MOST_STARTS,
    AUTO_MAX_POOL = CLEAVE_MOST_IMPROVED
};

/* A layout that some refinement has come to. */
typedef struct auto_entry {
    cleave_choices choices;
    cleave_price price;
    bool is_local_optimum;
    bool is_near; /* the price is that of a layout that choices only come near to: of starts */
} auto_entry;

typedef struct auto_state {
    int32_t round;
    int32_t n_tasks;
    cleave_refine_state *tasks; /* [AUTO_MAX_TASKS], n_tasks of this round */
    int32_t n_pool;             /* best first, from the rounds before */
    auto_entry pool[AUTO_MAX_POOL];
    int64_t proposals, accepted, work; /* of the rounds before */
} auto_state;

cleave_status auto_state_create(const cleave_model *model, cleave_arena *arena, auto_state *state,
                                cleave_error *error);
/* Keeps the entry's place in a pool of [AUTO_MAX_POOL], best first; all its entries have room for
   choices. */
void auto_pool_add(const cleave_model *model, const auto_entry *entry, int32_t *n_pool,
                   auto_entry *pool);

/* The file to resume from (search/improve/resume.c).  Writing is atomic.  Reading, into a state
   that was created: `found` is false where there is no file; BAD_INPUT where it is not a state of
   this very search: model, machine, space and options that decide what is found. */
cleave_status auto_state_write(const cleave_improvement *with, const auto_state *state,
                               cleave_error *error);
cleave_status auto_state_read(const cleave_improvement *with, auto_state *state, bool *found,
                              cleave_error *error);

#endif
