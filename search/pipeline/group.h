/* How the operators of a model are best split over the devices of one group, for one micro-batch.

   A group of a pipeline is a small machine, and a micro-batch a small model: so the additive model
   (search/solve/model.h) says what operators cost there, value by value.  Each value comes in two
   modes: with its forward done once, or again before its backward, which then need not be kept.
   Of parameters as much state is sharded as is best for the value, which is no matter of others.
   Least of  time + multiplier x memory  is found exactly, by elimination, for some multipliers:
   that makes plans from the quickest to the leanest, each the quickest of those that need no more
   memory.  Beside these there are plans with the splits of each baseline, whose modes alone are
   free: what is known by name is known to be priced well.  A stage that has room for some of a
   leaner kind takes a mixture of two neighbours (search/pipeline/joint.h). */
#ifndef CLEAVE_SEARCH_PIPELINE_GROUP_H
#define CLEAVE_SEARCH_PIPELINE_GROUP_H

#include "graph/model/layout.h"
#include "search/pipeline/recompute.h"
#include "search/problem/constraints.h"
#include "search/problem/few_blocks.h"
#include "search/problem/node_cost.h"

/* What is the same for all groups of a search. */
typedef struct cleave_group_problem {
    const cleave_model *model;
    const cleave_few_blocks *few; /* of it */
    const cleave_machine *machine;
    cleave_node_costs *costs; /* of the few blocks on devices of one kind, which groups leave with a
                                 model that is gone; null: each has its own */
    const cleave_constraints *constraints; /* null: none; no operator is fixed */
    int optimizer_states;
    int recompute;        /* cleave_recompute; -1: as it turns out best, operator by operator */
    int sharded;          /* cleave_sharded, of all parameters; -1: as it turns out best, */
    bool only_updates;    /* and then nothing but updates */
    int64_t memory_bytes; /* of a device, which tells what memory may cost */
    int32_t n_groups;     /* of the pipeline; 0: as many as the machine has */
    bool folds;           /* of a group of several nodes, splits are alike in all of them */
    bool is_stream;       /* batch follows batch, without a bubble */
    double most_seconds;  /* of plans with splits of baselines; 0: any */
} cleave_group_problem;

/* Splits of operators on the first devices of the machine, and what each of them takes of its
   busiest device: [operators of the few blocks] each. */
typedef struct cleave_group_plan {
    cleave_split *splits;
    bool *again;           /* it is recomputed */
    uint8_t *sharded;      /* cleave_sharded, of the parameters that it is the first to read */
    int64_t *time;         /* picoseconds of a micro-batch, with what it reads from others */
    int64_t *beside;       /* picoseconds of a micro-batch: weights gathered, gradients reduced */
    int64_t *once;         /* picoseconds: updates, and what is sent before them; */
    int64_t *behind;       /* and behind them */
    int64_t *kept, *stays; /* bytes of a micro-batch in flight; for good, */
    int64_t *tied; /* of parameters besides that another operator reads before it, were that not on
                      the same devices */
    int64_t *across;  /* bytes of a micro-batch more, where a stage begins less than so many */
    int32_t *back;    /* operators before it: what is recomputed in another stage is kept here */
    int64_t *late;    /* bytes of a micro-batch that gradients of weights read */
    int64_t *wrote;   /* bytes of a micro-batch, kept or not */
    int64_t *passing; /* bytes of weights and gradients that are there while it works */
} cleave_group_plan;

enum { CLEAVE_MOST_GROUP_PLANS = 12, CLEAVE_MOST_GROUP_FAMILIES = 10 };

/* Plans whose splits are free, or those of a baseline. */
typedef struct cleave_group_family {
    int32_t n_plans; /* from the quickest to the leanest; 0: it was left out */
    cleave_group_plan plans[CLEAVE_MOST_GROUP_PLANS];
} cleave_group_family;

typedef struct cleave_group {
    int32_t n_devices, micro_batches;
    bool folds;                /* see the problem */
    const int32_t *stands_for; /* [n_operators] of the model, that of the few blocks */
    double least_seconds; /* of families that were left out for it, by their work alone; else 0 */
    int32_t n_families;   /* data parallel, and megatron of every degree; or one of free splits */
    cleave_group_family families[CLEAVE_MOST_GROUP_FAMILIES];
} cleave_group;

/* Of free splits, or else those of baselines, which takes a small part of that.  `in_flight`
   micro-batches weigh what is kept against what stays.  `group` is zero, or made before for the
   same but with less `most_seconds`, and keeps its families.  BAD_INPUT where the batch can't be
   cut so, NO_LAYOUT where the constraints leave nothing. */
cleave_status cleave_group_create(const cleave_group_problem *problem, int32_t n_devices,
                                  int32_t micro_batches, int32_t in_flight, bool is_free,
                                  cleave_arena *arena, cleave_group *group, cleave_error *error);

#endif
