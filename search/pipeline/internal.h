/* What the parts of a search for stages share. */
#ifndef CLEAVE_SEARCH_PIPELINE_INTERNAL_H
#define CLEAVE_SEARCH_PIPELINE_INTERNAL_H

#include "base/list.h"
#include "graph/model/axis_sort.h"
#include "search/pipeline/joint.h"
#include "search/pipeline/pipeline.h"

#include <string.h>

/* Of so many micro-batches the bubble of the kinds there are is some per cent; and so many numbers
   of them are looked at. */
enum { PIPELINE_MOST_MICRO_BATCHES = 256, PIPELINE_MOST_CUTS = 32 };

enum { PIPELINE_FREE = -1 };

/* A layout that may be tried: of a baseline, or of a plan. */
typedef struct pipeline_candidate {
    const char *baseline;                                       /* null: of the plan */
    int32_t n_groups, n_virtual, tensor, expert, micro_batches; /* expert: 0 as 1 */
    cleave_schedule_kind kind;
    int32_t sooner;                   /* of a baseline, see cleave_schedule */
    cleave_recompute recompute;       /* of a baseline */
    cleave_sharded sharded;           /* of a baseline */
    int32_t family;                   /* of a plan, of its group's */
    int32_t neighbours;               /* see cleave_group_device */
    const cleave_joint_place *places; /* of a plan, see cleave_joint_shape */
    int32_t arrangement;              /* of places: which groups of which devices; else 0 */
    const cleave_joint_plan *plan;
    bool by_room;         /* of a baseline: stages are cut by the memory of their devices, too */
    bool is_doubtful;     /* of a baseline: it comes when all others have been tried */
    bool is_done;         /* it was tried, and will not be again */
    bool is_put_off;      /* of a plan: it has more parts than are lowered for what is in doubt */
    int32_t tries;        /* how often it has been planned with less memory */
    double least_bytes;   /* of a baseline, that some device holds at once at least */
    double least_seconds; /* of a baseline, that it may take, as far as is known from work alone; of
                             a plan, what it is expected to take; infinite: it did not fit */
} pipeline_candidate;

typedef CLEAVE_LIST(pipeline_candidate) pipeline_candidates;

/* How many times the expected a candidate has come out to take, and the memory that it needs. */
typedef struct pipeline_lesson {
    pipeline_candidate of;
    double ratio;
    int64_t peak_bytes;
} pipeline_lesson;

typedef CLEAVE_LIST(pipeline_lesson) pipeline_lessons;

/* Stages of baselines, cut by work, or by that and by memory. */
typedef struct pipeline_cut {
    int32_t n_groups, n_stages, *first_operator;
    bool by_room;
} pipeline_cut;

/* Plans of so many groups and micro-batches (planned.c). */
typedef struct pipeline_numbers {
    int32_t n_groups, micro_batches, neighbours;
    double least_seconds;       /* of its work alone */
    double expected_seconds;    /* of its best plan; infinite: none has room */
    double known_seconds;       /* of its best plan of splits of baselines, as foreseen */
    bool is_free;               /* it has plans of free splits, */
    bool stays_behind;          /* or these won't help, by what they did beside it */
    bool only_updates;          /* with more of the state sharded than updates it is not lowered */
    cleave_group *groups[2][2]; /* [free splits][nothing sharded]; null: not made */
} pipeline_numbers;

/* The best that was tried of so many groups and its micro-batches, with splits as people have them
   or with free ones; in the finder's arena. */
typedef struct pipeline_start {
    int32_t n_groups;
    const int32_t *order; /* [n_devices] group by group; null: as they are numbered */
    bool is_free;
    cleave_layout layout;
    cleave_price price;
} pipeline_start;

typedef struct pipeline_finder {
    cleave_pricer *pricer;
    cleave_node_costs *costs;
    const cleave_pipeline_options *options;
    cleave_arena *arena;
    cleave_arena work; /* of the whole search */
    int64_t batch;
    int64_t *op_work, *sends; /* [n_operators] picoseconds, of the whole batch on one device; sends
                                 there and back */
    int32_t *joined;          /* [n_operators] see cleave_stage_joined; null: it does not train */
    int64_t *kind_work;       /* [n_kinds][n_operators] the same on one of each kind; null: of one
                                 kind are all */
    int32_t *n_of_kind;       /* [n_kinds] devices in use */
    int32_t n_used_kinds;
    double all_work;     /* seconds */
    int64_t *parameters; /* [n_operators] bytes of those that it is the first to read, */
    int32_t *largest;    /* and the largest that it reads; -1: none */
    int32_t *reader;     /* [n_tensors] 1 + that operator, of a parameter; 0: none */
    int64_t *kept;       /* [n_operators] bytes that it writes and backward reads, of the batch */
    int64_t experts;     /* 0: none */
    double slowest, quickest; /* links, bytes a second; 0: there are none */
    cleave_axis_sorts sorts;
    pipeline_candidates planned, known;
    CLEAVE_LIST(pipeline_numbers) numbers; /* of plans */
    int32_t n_looked_at;                   /* of these the first have been looked at */
    const cleave_few_blocks *few;          /* of the model, for plans, */
    cleave_node_costs *few_costs;          /* and what their operators cost */
    CLEAVE_LIST(pipeline_cut) cuts;
    bool is_little, is_small;           /* so few operators and devices that more is looked at */
    CLEAVE_LIST(pipeline_start) starts; /* of what is small */
    pipeline_lessons lessons, known_lessons, failed; /* of plans; of baselines; these did not fit */
    bool lacks_fold, lacks_lowering;                 /* what was not priced last, for that */
    int64_t *over; /* [n_devices of the machine] of what was priced last, bytes over the limit,
                      below 0 what is left; INT64_MIN: not known */
    int64_t most_lowered; /* parts of what is tried from now on; what has more is not */
    cleave_pipelines *found;
    cleave_error *error;
} pipeline_finder;

static inline void pipeline_progress(const pipeline_finder *f, double share, const char *note) {
    if (f->options->progress != NULL)
        cleave_progress_update(f->options->progress, share, note);
}

static inline bool pipeline_is_wanted(int32_t wish, int32_t value) {
    return wish == 0 || wish == value;
}

/* Numbers of micro-batches that are looked at: the one that is wished for, or divisors of the
   batch, ascending; at most `most`. */
int32_t pipeline_list_micro_batches(const pipeline_finder *f, int32_t most, int32_t *m);

/* Interrupted, or is the time up? */
bool pipeline_is_over(const pipeline_finder *f);

/* weigh.c: what the finder knows of operators by themselves. */
cleave_status pipeline_weigh(pipeline_finder *f);

/* cut.c: the first operators of the stages of a baseline. */
cleave_status pipeline_cut_stages(pipeline_finder *f, const pipeline_candidate *of,
                                  int32_t *first_operator);
/* Has a machine devices with more memory than others? */
bool pipeline_rooms_differ(const pipeline_finder *f);

/* lessons.c: candidates, from the most promising to where none may be the best. */
cleave_status pipeline_try_planned(pipeline_finder *f);
/* What a plan is expected to take by what was learnt so far; infinite where it did not fit. */
double pipeline_expect(const pipeline_finder *f, const pipeline_candidate *of);
cleave_status pipeline_try_known(pipeline_finder *f);
/* Then those of both that are expected to be a little behind, as far as it costs little. */
cleave_status pipeline_try_doubtful(pipeline_finder *f);

/* try.c.  The best of what is known; null: nothing is. */
const cleave_price *pipeline_best(const pipeline_finder *f);

/* What is expected to take longer than this is not the best; infinite: nothing is known that fits.
 */
double pipeline_seconds_to_beat(const pipeline_finder *f);

/* So many parts of operators in so many micro-batches, with so much of the state sharded: no more
   than are lowered?  Else says so in `why_none`. */
bool pipeline_is_lowered(const pipeline_finder *f, int64_t n_parts, int32_t micro_batches,
                         int sharded);
bool pipeline_is_too_large(const pipeline_finder *f, const cleave_layout *layout, int sharded);
/* The most that a layout shards of any parameter, cleave_sharded. */
int pipeline_most_sharded(const cleave_layout *layout);
/* Can devices be cut into so many groups, and these have the stages that are asked for? */
bool pipeline_wants_groups(const pipeline_finder *f, int32_t n_groups);
/* So many devices of a group are neighbours: all of them where stages on so many groups are small,
   or their messages fold, or those of a node, with the nodes of other groups behind them; 0:
   neither folds, and `why_none` says so. */
int32_t pipeline_neighbours(const pipeline_finder *f, int32_t n_groups);
/* Of a group of so many devices those that are lowered, where its nodes do alike. */
int32_t pipeline_window(const pipeline_finder *f, int32_t n_devices);

/* Prices a legal layout and keeps it if it is one of the best; `tried` false: it does not fold, and
   is too large. */
cleave_status pipeline_try_layout(pipeline_finder *f, const cleave_layout *layout, bool *tried,
                                  cleave_price *price);
/* The same of a candidate; `tried` false: or it is not legal, or too large, or has more parts than
   may still be lowered, of which none may be then. */
cleave_status pipeline_try_candidate(pipeline_finder *f, const pipeline_candidate *of, bool *tried,
                                     cleave_price *price);

/* known.c: layouts of baselines in stages and micro-batches. */
cleave_status pipeline_add_known(pipeline_finder *f);
/* `fits` false: the baseline has no such layout here. */
cleave_status pipeline_known_layout(pipeline_finder *f, const pipeline_candidate *of,
                                    cleave_arena *arena, cleave_layout *layout, bool *fits,
                                    cleave_error *error);

/* known_times.c: what one micro-batch of each operator of such a layout takes on its busiest
   device, picoseconds, in the pricer's arena; and `least_seconds` of a candidate, from these. */
cleave_status pipeline_time_known(pipeline_finder *f, const cleave_layout *layout, int64_t **time);
cleave_status pipeline_foresee_known(pipeline_finder *f, const cleave_layout *layout,
                                     const int64_t *time, pipeline_candidate *of);

/* Parts of an operator that have something else than the others of what one operand of its main
   nest is. */
double pipeline_count_parts(const pipeline_finder *f, const cleave_layout *layout, int32_t op,
                            const cleave_operand *operand);

/* Of its parameters the share that each device of its group has at most, as products have them. */
double pipeline_share_of_parameters(const pipeline_finder *f, const cleave_layout *layout,
                                    int32_t op);

/* known_memory.c: bytes of values and of their gradients that a device of each group holds at some
   time at least, [n_groups], 0 of those that were not looked at; and at some time at which it has
   gradients of all its parameters, too. */
typedef struct pipeline_held {
    double *most, *beside_gradients;
} pipeline_held;
/* Of what a layout recomputes, and when its schedule does what; in the pricer's arena. */
cleave_status pipeline_find_held(pipeline_finder *f, const cleave_layout *layout, int32_t n_groups,
                                 pipeline_held *held);
/* `least_bytes` of a candidate that keeps so much. */
cleave_status pipeline_find_least_bytes(pipeline_finder *f, const cleave_layout *layout,
                                        const pipeline_held *held, pipeline_candidate *of);

/* Of all work, shared out evenly, and the bubble of even stages. */
double pipeline_least_seconds(const pipeline_finder *f, const pipeline_candidate *of);
/* Bytes of weights and states that its fullest device holds at least: of stages and shared products
   the devices of one share of the samples hold all of them once. */
double pipeline_least_state(const pipeline_finder *f, const pipeline_candidate *of);

/* say.c: a layout as the framework of the constraints runs it, in the arena; `says` false: not in
   these stages, or with nothing left that the whole batch in one stage has not, which is searched
   for elsewhere. */
cleave_status pipeline_say(pipeline_finder *f, const cleave_layout *layout, cleave_arena *arena,
                           cleave_layout *said, bool *says);

/* polish_starts.c: the device at a place of an order, and a layout to begin with. */
int32_t pipeline_device_at(const int32_t *order, int32_t place);
cleave_status pipeline_note_start(pipeline_finder *f, const pipeline_candidate *of,
                                  const cleave_layout *layout, const cleave_price *price);
/* polish.c */
cleave_status pipeline_polish(pipeline_finder *f);

/* numbers.c: plans of all shapes that may be the best are made and tried; of groups that are
   alike. */
cleave_status pipeline_plan_shapes(pipeline_finder *f);
/* Free splits besides of all numbers that are expected to take at most so long. */
cleave_status pipeline_plan_doubtful(pipeline_finder *f, double most_seconds);
/* Does a plan gather or reduce state in every micro-batch?  Where such a one is too large to be
   lowered, all of its groups and micro-batches are left out, and made anew without. */
bool pipeline_shards_more_than_updates(const pipeline_finder *f, const pipeline_candidate *of);
cleave_status pipeline_shard_updates_alone(pipeline_finder *f, pipeline_candidate too_large);
/* mixed.c: the same where devices are of several kinds. */
cleave_status pipeline_plan_mixed(pipeline_finder *f);

/* planned.c.  May plans be what is asked for? */
bool pipeline_may_plan(const pipeline_finder *f);
/* Plans of all kinds of schedule of so many groups and micro-batches, with the splits of baselines
   or free ones. */
cleave_status pipeline_plan_numbers(pipeline_finder *f, const cleave_group_problem *problem,
                                    bool is_free, pipeline_numbers *cut);
/* Of the plans from one on that are not yet tried the least seconds; infinite: none is left. */
double pipeline_best_expected(const pipeline_finder *f, int32_t from);
/* What takes longer by its work alone, or with the splits of baselines, free splits don't make the
   best; 0: of what is small all may be. */
double pipeline_most_seconds(const pipeline_finder *f);
/* Kinds of schedule, and stages of a group, that are planned; how many. */
enum { PIPELINE_MOST_TURNS = 9 };
typedef struct pipeline_turns {
    cleave_schedule_kind kind;
    int32_t n_virtual;
} pipeline_turns;
int pipeline_list_turns(const pipeline_finder *f, int32_t n_groups, int32_t micro_batches,
                        pipeline_turns turns[PIPELINE_MOST_TURNS]);
/* Seconds of the best that is known to fit; infinite: nothing is. */
double pipeline_best_known(const pipeline_finder *f);
/* A shape planned for most of a device's memory, and added to what is planned if it is more than
   the whole batch in one stage; of what is small for all of it, too, where that is quicker. */
cleave_status pipeline_plan_twice(pipeline_finder *f, const cleave_group *group,
                                  pipeline_candidate of);
/* Of a device, for an arena. */
int64_t pipeline_memory(const pipeline_finder *f);
/* The shape that was priced last once more, for the memory that each of its groups has turned out
   to lack, or to have left; `fits` false: there is none. */
cleave_status pipeline_plan_again(pipeline_finder *f, pipeline_candidate *of, bool *fits);

#endif
