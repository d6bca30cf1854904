/* What plans of groups of devices of several kinds share (search/pipeline/mixed.c). */
#ifndef CLEAVE_SEARCH_PIPELINE_MIXED_INTERNAL_H
#define CLEAVE_SEARCH_PIPELINE_MIXED_INTERNAL_H

#include "costmodel/machine_kind.h"
#include "search/pipeline/foresight.h"
#include "search/pipeline/internal.h"

#include <math.h>

/* Kinds of devices, and arrangements of them: eight of one, sixteen of another and eight of a third
   have 606. */
enum { MOST_POOLS = 3, MOST_ARRANGEMENTS = 2048 };

/* Devices of one kind, or all as the slowest. */
typedef struct pool {
    cleave_machine machine;
    int32_t n_devices, *devices;
    int64_t memory_bytes;
    double seconds; /* of the whole batch on one of them */
} pool;

/* What a family's plan takes in all, and keeps. */
typedef struct plan_sums {
    double time, stays, kept;
} plan_sums;

typedef struct pool_group {
    int32_t pool, n_devices, micro_batches;
    bool is_free;
    cleave_group *group;                        /* null: the batch can't be cut so */
    plan_sums (*sums)[CLEAVE_MOST_GROUP_PLANS]; /* [n_families] */
} pool_group;

/* Groups of one pool that follow each other. */
typedef struct run {
    int32_t pool, n_groups;
} run;

typedef struct arrangement {
    int32_t n_runs, n_groups;
    int32_t place; /* of all, as they are listed */
    run runs[MOST_POOLS];
    double *slowness; /* [n_groups] see cleave_joint_place */
    double work;      /* seconds of all work, each device at its own pace */
} arrangement;

typedef struct shape_of {
    int32_t arrangement, micro_batches, n_virtual, family[MOST_POOLS];
    cleave_schedule_kind kind;
    bool only_updates;
    double seconds; /* that it may come to */
} shape_of;

typedef struct mixing {
    pipeline_finder *f;
    cleave_few_blocks few;
    int32_t n_kinds;
    pool pools[MOST_POOLS + 1]; /* [n_kinds + 1] with that of all devices */
    CLEAVE_LIST(arrangement) arrangements;
    CLEAVE_LIST(pool_group) groups;
    CLEAVE_LIST(shape_of) shapes;
    /* Picoseconds of the whole batch over the slowest link, wherever it is cut. */
    double least_sent;
} mixing;

static inline cleave_status short_of_memory(const mixing *x) {
    return cleave_fail_memory(x->f->error, "searching");
}

/* mixed_groups.c */
/* `made` false: devices of some kind are no machine by themselves, or there are too many kinds. */
cleave_status mixed_make_pools(mixing *x, bool *made);
/* All of kinds in any order, and one of all devices as the slowest; where these are too many, those
   of fewest groups. */
cleave_status mixed_list_arrangements(mixing *x);
/* Devices of a group. */
int32_t mixed_group_size(const mixing *x, const run *of);
/* The devices of a group, and how many. */
const int32_t *mixed_devices_of(const mixing *x, const arrangement *a, int32_t g, int32_t *n);
/* The place among `groups` of a run's, which is made where it is not there. */
cleave_status mixed_find_group(mixing *x, const run *of, int32_t micro_batches, bool is_free,
                               bool only_updates, int32_t *found);

/* mixed_outlook.c */
/* Of all arrangements, numbers of micro-batches and kinds of schedule what each may come to. */
cleave_status mixed_list_shapes(mixing *x);
/* The groups of a shape's runs; `fit` false: some have no plan. */
cleave_status mixed_find_groups(mixing *x, const shape_of *shape, bool is_free,
                                const pool_group **groups, bool *fit);

#endif
