/* Stages, micro-batches, splits and recomputation at once, by formula.

   Of a number of devices a group and a number of micro-batches the plans of a group are known
   (search/pipeline/group.h).  For a kind of schedule, operators are cut into stages such that the
   slowest group is as quick as can be; each group takes the quickest plan that it has room for,
   with as many micro-batches in flight as the kind has there, or a mixture of two neighbours: its
   first operators as the leaner, the others as the quicker.  What operators take then is other
   than before, so they are cut anew, as long as that helps.  What a stage has room for changes in
   leaps with where it is cut, so of few operators single ones change stages, too.

   The step is foreseen (search/pipeline/foresight.h).  Nothing is lowered; who wants to know lowers
   the layout. */
#ifndef CLEAVE_SEARCH_PIPELINE_JOINT_H
#define CLEAVE_SEARCH_PIPELINE_JOINT_H

#include "search/pipeline/group.h"

/* One of several groups that are not alike: on devices of another kind, or on more of them. */
typedef struct cleave_joint_place {
    const cleave_group *group;
    int32_t family, kind;   /* kind: numbered as they are met, 0, 1, ...; of one kind are those that
                               have group and family in common */
    const int32_t *devices; /* [n_devices of the group] ascending */
    double room;            /* of its devices, as a share of the roomiest's */
    double slowness; /* what it sends on, or its last stage to the first group's next, takes so
                        many times what is said of sending */
} cleave_joint_place;

typedef struct cleave_joint_shape {
    int32_t n_groups, n_virtual; /* groups; stages of each */
    cleave_schedule_kind kind;
    bool is_forward;        /* one pass: nothing is kept for backward, and nothing sent back */
    bool is_stream;         /* batch follows batch, so the slowest stage alone counts */
    int32_t family;         /* of the group's */
    int32_t neighbours;     /* devices of a group one after the other, with as many of each group
                               behind them before there come more of its own; 0: all */
    int64_t most_bytes;     /* of a device, for what is counted here */
    const int64_t *most_of; /* [n_groups] the same of devices of each group; null: that share of it
                               which their room is */
    const int64_t *sends;   /* [n_operators] picoseconds of sending on what is written up to an
                               operator and read behind it, of the whole batch, one way */
    const int32_t *joined;  /* [n_operators] see cleave_stage_joined; null: nothing goes back */
    bool tries_cuts;        /* stages give operators to their neighbours as long as that helps */
    const cleave_joint_place *places; /* [n_groups] for good, with as many micro-batches all; null:
                                         all groups are alike */
} cleave_joint_shape;

typedef struct cleave_joint_plan {
    const cleave_group *group;
    const cleave_group_family *family;
    int32_t n_groups, n_virtual, neighbours;
    cleave_schedule_kind kind;
    int32_t sooner;                   /* see cleave_schedule */
    int32_t *first_operator;          /* [n_groups x n_virtual] */
    uint8_t *plan_of;                 /* [n_operators] of the family's */
    int64_t *bytes;                   /* [n_groups] of a device, as far as counted */
    const cleave_joint_place *places; /* see the shape; null, or group and family are the first's */
    double seconds;                   /* foreseen */
} cleave_joint_plan;

/* What no plan of that shape is foreseen to take less than: its operators, each as quick as any
   plan has it, shared out evenly, with the bubble of its kind, and cut where groups wait least for
   each other.  Of the shape no memory is looked at, and all groups are alike. */
cleave_status cleave_joint_least_seconds(const cleave_model *model, const cleave_group *group,
                                         const cleave_joint_shape *shape, double *seconds,
                                         cleave_error *error);

/* `fits` false: nothing found has room.  In the arena. */
cleave_status cleave_joint_plan_make(const cleave_model *model, const cleave_group *group,
                                     const cleave_joint_shape *shape, cleave_arena *arena,
                                     cleave_joint_plan *plan, bool *fits, cleave_error *error);

/* How it does an operator. */
const cleave_group_plan *cleave_joint_plan_of(const cleave_joint_plan *plan, int32_t op);

/* Its layout on a machine of so many devices, without rules for collectives. */
cleave_status cleave_joint_plan_layout(const cleave_model *model, const cleave_joint_plan *plan,
                                       int32_t n_devices, cleave_arena *arena,
                                       cleave_layout *layout, cleave_error *error);

#endif
