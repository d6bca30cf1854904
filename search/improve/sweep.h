/* Changes that can be made to a layout, the promising ones first: what refinement goes through
   until none improves anything. */
#ifndef CLEAVE_SEARCH_IMPROVE_SWEEP_H
#define CLEAVE_SEARCH_IMPROVE_SWEEP_H

#include "search/problem/structure.h"
#include "search/solve/model.h"

/* Which operators change with one. */
typedef enum cleave_move_scope {
    CLEAVE_MOVE_PLACE, /* those in its place of repeated blocks, where these change together */
    CLEAVE_MOVE_GROUP, /* all that are alike and have the same choice */
    CLEAVE_MOVE_RUN    /* those of them that stand side by side with it, nothing between them: a
                          layer of a recurrence, where the group is all layers */
} cleave_move_scope;

typedef struct cleave_move {
    int64_t promise; /* picoseconds by which the step changes, as far as costs say; in a lean
                        sweep, its place */
    int64_t bytes;   /* in a lean sweep: by which all devices change, as far as sizes of
                        operands say */
    int32_t op;      /* -1: not of a split, but whether the update of `tensor` is sharded */
    int32_t tensor;  /* -1: of a split */
    cleave_move_scope scope;
    cleave_choice choice; /* for op */
    int32_t with;         /* a neighbour that changes at once; -1: none */
    cleave_choice with_choice;
    const cleave_choices *like; /* null; else n_places from op's on become as they are there */
    int32_t n_places;
} cleave_move;

typedef struct cleave_sweep {
    int32_t n;
    cleave_move *moves;
    bool complete; /* none was left out */
} cleave_sweep;

/* What a sweep is made from. */
typedef struct cleave_sweep_source {
    const cleave_model *model;
    const cleave_candidates *candidates;
    const cleave_structure *structure;
    const cleave_additive_model *additive; /* a variable for every operator; may be null: node costs
                                              alone */
    int optimizer_states;
    /* Of windows (search/improve/window.h); elsewhere null and 0: */
    const int32_t *place_of;   /* [n_operators] of repeated blocks, rising by first occurrence */
    int32_t windows_before;    /* splits of so many windows have been tried */
    const cleave_sweep *given; /* the moves, in their order; null: they are made */
} cleave_sweep_source;

typedef struct cleave_sweep_kind {
    bool groups;
    bool lean;  /* the layout does not fit: what takes most memory off comes first, and what takes
                   most time off, in turn; of groups, their runs are moves of their own */
    bool pairs; /* of single changes, those of two neighbours at once, too (search/improve/pairs.c)
                 */
} cleave_sweep_kind;

/* Single changes of `base`: every choice for every operator, its own among them, which is a change
   once another one has been taken, and the other update for every parameter; or (`groups`) every
   choice for the first operator of those that are alike and have equal choices, which stands for
   all of them; of windows both, those of operators with the largest parameters first.  With
   `pairs`, to every value of an operator in the additive model the one of a neighbour that goes
   with it best, both at once, comes to single changes.  Of candidates with many blocks, and of
   operators with many choices, only some are tried; the sweep is then not complete.  Ties in
   promise are broken by operator and choice. FAILED when memory is short. */
cleave_status cleave_sweep_create(const cleave_sweep_source *source, const cleave_choices *base,
                                  cleave_sweep_kind kind, cleave_arena *arena, cleave_sweep *sweep,
                                  cleave_error *error);

/* The operators that change with op, in ascending order; returns how many.  `members` has room for
   all. */
int32_t cleave_sweep_members(const cleave_sweep_source *source, const cleave_choices *choices,
                             int32_t op, cleave_move_scope scope, int32_t *members);

#endif
