/* What the parts of making plans of a group share. */
#ifndef CLEAVE_SEARCH_PIPELINE_GROUP_INTERNAL_H
#define CLEAVE_SEARCH_PIPELINE_GROUP_INTERNAL_H

#include "search/pipeline/group.h"
#include "search/solve/model.h"

/* Layouts known by name whose splits are values besides. */
enum { GROUP_MOST_GIVEN = CLEAVE_MOST_GROUP_FAMILIES - 1 };

typedef struct group_making {
    const cleave_group_problem *of;
    int32_t n_devices, micro_batches, in_flight;
    bool is_free;
    cleave_arena *arena, *scratch;
    cleave_model small;
    cleave_machine machine;
    cleave_problem problem;
    cleave_node_costs *costs;
    cleave_candidates candidates;
    int32_t ***devices; /* [n_lists][n] of candidates that some plan has; null: none yet */
    cleave_additive_model model;
    bool *may_keep, *may_redo; /* [n_operators] modes */
    double *forward;           /* [n_operators] share of its work */
    double *more, *added;      /* [n_operators] gradients of what it writes that are added up, of
                                  all of it: by copies, and by the passes that give them */
    int32_t *times;            /* [n_operators] that each stands for */
    int32_t n_given, n_chosen;
    cleave_layout given[GROUP_MOST_GIVEN];
    cleave_group_family *family_of[GROUP_MOST_GIVEN]; /* null: it is not made now */
    int32_t *only;                /* [n_operators] the value that an operator has; -1: any */
    int32_t *n_values;            /* [n_operators] in both modes */
    double multiplier;            /* picoseconds a byte */
    double exposed, exposed_once; /* shares that are not hidden: of what is gathered and reduced,
                                     and of what happens once before updates */
    double *most_beside; /* [n_operators] of the last plan, were all sharded that can be; */
    double *most_once;   /* of what happens once, were nothing sharded */
    struct group_doubled *tables; /* of this multiplier */
    cleave_group_family *family;  /* that is being made */
    cleave_error *error;
} group_making;

cleave_status group_short_of_memory(const group_making *m);

/* group_costs.c: which modes there are, and which sums of gradients. */
cleave_status group_choose_modes(group_making *m);
cleave_status group_count_sums(group_making *m);
/* Which value, and in which mode, a value of both is. */
int32_t group_value_of(const group_making *m, int32_t op, int32_t x, bool *again);
/* Of its busiest device in a micro-batch, but for what it reads from others. */
int64_t group_time_of(const group_making *m, int32_t op, int32_t v, bool again);
/* [CLEAVE_N_SHARDED] of a value. */
const cleave_additive_state *group_states_of(const group_making *m, int32_t op, int32_t v);
/* Picoseconds: weights are gathered forward, once more where that is done again, and backward. */
double group_beside(const cleave_additive_state *state, bool again);
/* Where it is open, how much of the state may be sharded. */
cleave_sharded group_most_sharded(const group_making *m);
/* What weighs least now: what of the state is sharded is no matter of other operators. */
cleave_sharded group_choose_sharded(const group_making *m, int32_t op, int32_t v, bool again);
/* Bytes for good, but those of parameters. */
double group_stays(const group_making *m, int32_t op, int32_t v);
/* What two operators exchange; `x` and `y` are values in both modes. */
int64_t group_pair_cost(const group_making *m, const cleave_additive_pair *pair, int32_t x,
                        int32_t y);
/* Where a reading has those of two values; and what of a micro-batch in flight is held of it. */
int64_t group_place_of(const group_making *m, const cleave_additive_reading *reading, int32_t x,
                       int32_t y);
int64_t group_held(const group_making *m, const cleave_additive_reading *reading, int32_t x,
                   int32_t y);
/* All of them, at the multiplier of now, in scratch. */
cleave_status group_make_costs(group_making *m, cleave_additive *costs);

/* group_plan.c: `choice` [n_operators of the small model], values in both modes; in the arena. */
cleave_status group_take_plan(group_making *m, const int32_t *choice, cleave_group_plan *plan);

#endif
