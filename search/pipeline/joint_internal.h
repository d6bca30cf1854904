/* What the parts of a joint plan share (search/pipeline/joint.h). */
#ifndef CLEAVE_SEARCH_PIPELINE_JOINT_INTERNAL_H
#define CLEAVE_SEARCH_PIPELINE_JOINT_INTERNAL_H

#include "search/pipeline/foresight.h"
#include "search/pipeline/joint.h"

typedef struct planning {
    const cleave_group *group; /* any of them, where only what all have in common is asked for */
    const cleave_joint_place *places; /* [n_groups] */
    const cleave_joint_shape *shape;
    int32_t n_operators, n_stages, n_kinds; /* of places */
    int64_t *work;                          /* [n_kinds][n_operators] of a micro-batch */
    int64_t *sends;                         /* [n_operators] of a micro-batch */
    int64_t *waits;                         /* [n_operators] see pipeline_count_waits */
    int64_t *hops;     /* [n_operators] that, and for messages, of a cut behind it */
    int64_t *hops_of;  /* [n_groups][n_operators] the same of one group, as a share of what is
                          under way; null: of all alike */
    int64_t *sends_of; /* [n_groups][n_operators] */
    int32_t *row_of, *group_of; /* [n_stages] kind and group */
    double *time_of;            /* [n_groups] of a micro-batch, as they are cut */
    double *sent_behind;        /* [n_stages] of a micro-batch, as they are cut */
    int32_t *stage_of;          /* [n_operators] */
    const int32_t *tied; /* [n_operators] the first that reads a parameter that it reads; or it */
    double over;         /* bytes that groups lack for their leanest plans */
    cleave_joint_plan now;
} planning;

static inline int32_t joint_group_of(const planning *p, int32_t stage) {
    return stage % p->shape->n_groups;
}

static inline const cleave_group_family *joint_family_of(const planning *p, int32_t g) {
    return &p->places[g].group->families[p->places[g].family];
}

/* The operators of a stage are [first, end). */
static inline int32_t joint_end_of(const planning *p, int32_t stage) {
    return stage + 1 < p->n_stages ? p->now.first_operator[stage + 1] : p->n_operators;
}

static inline double joint_room_of(const planning *p, int32_t g) {
    return p->shape->most_of != NULL ? (double)p->shape->most_of[g]
                                     : (double)p->shape->most_bytes * p->places[g].room;
}

/* joint_ties.c, of `tied`; false: memory is short. */
bool joint_tie(planning *p, const cleave_model *model, cleave_arena *scratch);

/* joint_fill.c: fills groups, cut as they are; false: some have no room. */
bool joint_fill(planning *p);
/* Bytes of an operator by a plan. */
double joint_bytes_on(const planning *p, const cleave_group_family *family, int32_t op,
                      int32_t plan);

/* joint_seconds.c */
/* Sums over the operators of a group, picoseconds: of a micro-batch, and of what it does not hide
   of what happens once. */
void joint_add_times(const planning *p, int32_t g, double *time, double *left);
/* Of groups, as they are cut and filled. */
double joint_foresee(planning *p);

/* joint_cuts.c */
/* Cuts stages and fills groups, as well as is found; the best that has room is kept, unless a plan
   that fits is better. */
cleave_status joint_cut(planning *p, cleave_joint_plan *plan, bool *fits, cleave_arena *scratch,
                        cleave_error *error);

#endif
