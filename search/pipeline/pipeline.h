/* Layouts in stages and micro-batches.

   What people run is enumerated: the machine in equal groups, a stage each (or several, by turns);
   within a group data parallel, or megatron's products shared by some neighbours and the samples by
   the rest; micro-batches, and the kinds of schedule.  Each comes with a time that it is not
   expected to beat, from the work of its stages alone; by that order they are lowered, planned and
   simulated as any other layout, as long as one may still be the best. */
#ifndef CLEAVE_SEARCH_PIPELINE_PIPELINE_H
#define CLEAVE_SEARCH_PIPELINE_PIPELINE_H

#include "base/progress.h"
#include "search/pipeline/priced.h"
#include "search/pipeline/recompute.h"
#include "search/price/price.h"
#include "search/problem/constraints.h"
#include "search/problem/node_cost.h"
#include "search/problem/problem.h"

#include <signal.h>

/* What is asked for: 0, and -1 of kind and recompute, leave it open. */
typedef struct cleave_schedule_wish {
    int32_t micro_batches, stages; /* stages of a group count as several */
    int32_t virtual_stages;        /* of a group, of interleaved ones */
    int32_t tensor;                /* devices that share a product, */
    int32_t context;               /* sequences; 0 as 1, */
    int32_t expert;                /* experts */
    int32_t neighbours;            /* any of these: tensor x expert of a baseline */
    bool ring;                     /* keys go round among the devices of context */
    bool whole_tokens;             /* beside products tokens are not split */
    int kind;                      /* cleave_schedule_kind */
    int recompute;                 /* cleave_recompute */
    int zero;                      /* 1 + cleave_sharded, of all parameters */
    const int32_t *layers;         /* [stages] of each; null: cut so that stages take alike */
} cleave_schedule_wish;

/* Nothing asked for, but what has these names; null leaves it open.  BAD_INPUT for another name. */
cleave_status cleave_schedule_wish_begin(const char *kind, const char *recompute, const char *zero,
                                         cleave_schedule_wish *wish, cleave_error *error);

/* Is it one of megatron's rule alone? */
static inline bool cleave_schedule_wish_is_megatron(const cleave_schedule_wish *wish) {
    return wish->tensor > 1 || wish->context > 1 || wish->expert > 1;
}
static inline bool cleave_schedule_wish_is_open(const cleave_schedule_wish *wish) {
    return wish->micro_batches == 0 && wish->stages == 0 && wish->virtual_stages == 0 &&
           wish->tensor == 0 && !cleave_schedule_wish_is_megatron(wish) && wish->kind < 0 &&
           wish->recompute < 0 && wish->zero == 0;
}
/* May a layout of one stage, the whole batch and nothing recomputed, whose updates are sharded as
   it turns out best, be the answer? */
static inline bool cleave_schedule_wish_allows_plain(const cleave_schedule_wish *wish) {
    return wish->micro_batches <= 1 && wish->stages <= 1 && wish->virtual_stages <= 1 &&
           wish->tensor == 0 && !cleave_schedule_wish_is_megatron(wish) && wish->kind < 0 &&
           wish->recompute <= CLEAVE_RECOMPUTE_NONE && wish->zero == 0;
}

/* Of few operators on few devices closed forms may be off by a quarter between numbers of groups,
   so the best in steps may be behind ten that are quicker in closed form. */
enum { CLEAVE_MOST_PIPELINES = 12 };

typedef struct cleave_pipelines {
    int32_t n; /* best first */
    struct {
        cleave_layout layout;
        cleave_price price; /* collectives in closed form */
        cleave_price_grounds grounds;
    } items[CLEAVE_MOST_PIPELINES];
    int32_t n_tried;
    double behind_seconds; /* the least that what was left out behind a rival may take; 0: none was
                            */
    char why_none[sizeof(cleave_error)]; /* where none was tried: why the model can't be cut */
} cleave_pipelines;

typedef struct cleave_pipeline_options {
    cleave_schedule_wish wish;
    const char *baseline;                  /* that it is to be; null: any */
    const cleave_price *best;              /* of what is known so far; null: nothing is */
    const cleave_problem *problem;         /* what repeats */
    const cleave_constraints *constraints; /* null: none; what is found may break them */
    const cleave_collective_rules *collectives;
    cleave_priced_layouts *priced; /* by the search that this is a part of; what is, is added */
    bool only_folds;               /* what does not fold is not lowered, but for little */
    bool is_tight;                 /* something that is known does not fit */
    bool only_fitting;             /* nor what can't fit, though nothing is known that does */
    double rival_seconds;      /* nor what is far behind this by its work alone; 0: all may be */
    cleave_progress *progress; /* may be null */
    double until_seconds;      /* clock; 0: no limit, and the clock decides nothing */
    const volatile sig_atomic_t *interrupted; /* may be null */
} cleave_pipeline_options;

/* One drawn by chance from the seed that is as the wish has it, of several that are drawn until one
   is legal; BAD_INPUT where none is. */
cleave_status cleave_pipeline_draw(const cleave_model *model, int32_t n_devices,
                                   const cleave_schedule_wish *wish, uint64_t seed,
                                   cleave_arena *arena, cleave_layout *layout, cleave_error *error);

/* The layouts live in the arena.  Where the wish leaves something open that no layout has, `n` is
   0; BAD_INPUT where it can't be met at all, saying why. */
cleave_status cleave_pipeline_search(cleave_pricer *pricer, cleave_node_costs *costs,
                                     const cleave_pipeline_options *options, cleave_arena *arena,
                                     cleave_pipelines *found, cleave_error *error);

#endif
