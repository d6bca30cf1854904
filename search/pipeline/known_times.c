/* What a baseline in stages is expected to take, before it is lowered: its work, or its messages
   where these take longer. */
#include "search/pipeline/internal.h"

#include "search/problem/group_split.h"
#include "search/problem/state_chores.h"

#include <math.h>
#include <string.h>

/* ---- times from work alone ------------------------------------------------------------------- */

/* What one micro-batch of an operator takes on its busiest device, which is the first, picoseconds.
   Only its part is derived. */
static cleave_status time_operator(pipeline_finder *f, const cleave_layout *layout, int32_t op,
                                   int64_t *time) {
    cleave_split split = layout->splits[op];
    const cleave_operator *of = &f->pricer->model->operators[op];
    cleave_node_cost cost = {0};
    split.n_parts = 1;
    for (int a = 0; a < of->n_axes; a++)
        if (f->sorts.of[op][a] == CLEAVE_SORT_SAMPLE && !of->axes[a].whole) {
            split.degree[a] *= layout->schedule.micro_batches;
            break;
        }
    CLEAVE_TRY(cleave_node_cost_of(f->costs, op, &split, &cost, NULL, f->error));
    *time = cost.largest;
    return CLEAVE_OK;
}

/* Of its kind the last operator before it that is split alike takes as long. */
static bool takes_as_long(const pipeline_finder *f, const cleave_layout *layout, int32_t op,
                          const int32_t *last, int32_t *like) {
    *like = last[f->options->problem->class_of[op]] - 1;
    if (*like < 0)
        return false;
    const cleave_split *a = &layout->splits[op], *b = &layout->splits[*like];
    return a->replicas == b->replicas && a->n_parts == b->n_parts &&
           memcmp(a->degree, b->degree, sizeof a->degree) == 0;
}

cleave_status pipeline_time_known(pipeline_finder *f, const cleave_layout *layout, int64_t **time) {
    const cleave_problem *problem = f->options->problem;
    cleave_arena *arena = &f->pricer->arena;
    int64_t *made = CLEAVE_ARENA_ARRAY(arena, int64_t, layout->n_operators);
    int32_t *last = CLEAVE_ARENA_ARRAY(arena, int32_t, problem->n_classes), like;
    if (made == NULL || last == NULL)
        return cleave_fail_memory(f->error, "searching");
    for (int32_t op = 0; op < layout->n_operators; op++) {
        if (takes_as_long(f, layout, op, last, &like))
            made[op] = made[like];
        else
            CLEAVE_TRY(time_operator(f, layout, op, &made[op]));
        last[problem->class_of[op]] = op + 1;
    }
    *time = made;
    return CLEAVE_OK;
}

/* Of what an operator takes, its forward, about. */
static const double forward_share = 0.3;

double pipeline_count_parts(const pipeline_finder *f, const cleave_layout *layout, int32_t op,
                            const cleave_operand *operand) {
    const cleave_model *model = f->pricer->model;
    const cleave_nest *nest = &model->nests[model->operators[op].main_nest];
    double n = 1;
    for (int d = 0; d < model->tensors[operand->tensor].rank; d++)
        for (int t = 0; t < operand->map[d].n_terms; t++) {
            int a = nest->operator_axis[operand->map[d].terms[t].axis];
            n *= a >= 0 ? layout->splits[op].degree[a] : 1;
        }
    return n;
}

double pipeline_share_of_parameters(const pipeline_finder *f, const cleave_layout *layout,
                                    int32_t op) {
    const cleave_model *model = f->pricer->model;
    const cleave_nest *nest = &model->nests[model->operators[op].main_nest];
    double n = 1;
    for (int i = 0; i < nest->n_inputs; i++)
        if (cleave_tensor_writer(model, nest->inputs[i].tensor) < 0)
            n = fmax(n, pipeline_count_parts(f, layout, op, &nest->inputs[i]));
    return 1 / n;
}

/* Adds what is done for parameters in each micro-batch to the groups that have them, and gives the
   most of a group that is done once, seconds. */
static cleave_status add_chores(const pipeline_finder *f, const cleave_layout *layout,
                                const pipeline_candidate *of, double *group, double *once) {
    const cleave_model *model = f->pricer->model;
    double n = f->pricer->machine->n_devices / of->n_groups;
    double *bucketing = CLEAVE_ARENA_ARRAY(&f->pricer->arena, double, of->n_groups);
    double *share = CLEAVE_ARENA_ARRAY(&f->pricer->arena, double, layout->n_operators);
    if (bucketing == NULL || share == NULL)
        return cleave_fail_memory(f->error, "searching");
    for (int32_t t = 0; t < model->n_tensors && cleave_model_trains(model); t++) {
        const cleave_tensor *tensor = &model->tensors[t];
        int32_t op = f->reader[t] - 1;
        if (op < 0 || !tensor->needs_gradient)
            continue;
        if (share[op] <= 0)
            share[op] = pipeline_share_of_parameters(f, layout, op);
        int32_t g = cleave_schedule_stage_of(&layout->schedule, op) % of->n_groups;
        cleave_state_chores chores = cleave_state_chores_of(
            f->pricer->machine, model, op, t, of->sharded,
            (double)cleave_tensor_size(tensor) * share[op], floor(n * share[op] + 0.5));
        group[g] +=
            cleave_state_chores_each(&chores, of->micro_batches, layout->recompute[op]) * 1e-12;
        bucketing[g] += (double)chores.bucketing * 1e-12;
        *once = fmax(*once, bucketing[g]);
    }
    return CLEAVE_OK;
}

/* The slowest group does all its micro-batches, and before and after them the others do one: about
   what is left of that by gradients of weights that fill it. */
static cleave_status foresee_work(pipeline_finder *f, const cleave_layout *layout,
                                  const int64_t *time, pipeline_candidate *of) {
    const cleave_schedule *schedule = &layout->schedule;
    double slowest = 0, all = 0, once = 0, m = schedule->micro_batches;
    double *group = CLEAVE_ARENA_ARRAY(&f->pricer->arena, double, of->n_groups);
    if (group == NULL)
        return cleave_fail_memory(f->error, "searching");
    for (int32_t op = 0; op < layout->n_operators; op++) {
        double again = layout->recompute[op] ? 1 + forward_share : 1;
        group[cleave_schedule_stage_of(schedule, op) % of->n_groups] +=
            (double)time[op] * 1e-12 * again;
    }
    CLEAVE_TRY(add_chores(f, layout, of, group, &once));
    for (int32_t g = 0; g < of->n_groups; g++) {
        all += group[g];
        slowest = group[g] > slowest ? group[g] : slowest;
    }
    double bubble = (all - slowest) / of->n_virtual;
    bubble = f->pricer->is_stream                           ? 0
             : cleave_schedule_kind_parts_weights(of->kind) ? bubble * (of->sooner > 0 ? 2 : 1) / 3
                                                            : bubble;
    of->least_seconds = m * slowest + bubble + once;
    return CLEAVE_OK;
}

/* ---- times from messages alone --------------------------------------------------------------- */

static double bytes_of_parameters(const pipeline_finder *f, const cleave_layout *layout,
                                  int32_t op) {
    return (double)f->parameters[op] * pipeline_share_of_parameters(f, layout, op);
}

/* How often all of a group send their weights, or gradients of them, once around: forward, for what
   is recomputed, backward and the gradients in every micro-batch, or these and the new values once.
 */
static double count_rounds(const pipeline_finder *f, const pipeline_candidate *of) {
    double m = of->micro_batches;
    if (!cleave_model_trains(f->pricer->model))
        return 0;
    return of->sharded == CLEAVE_SHARDED_WEIGHT
               ? m * (of->recompute == CLEAVE_RECOMPUTE_FULL ? 4 : 3)
           : of->sharded == CLEAVE_SHARDED_GRADIENT ? m + 1
                                                    : 2;
}

/* What collectives of the parameters of one operator take, by the devices that share them; they go
   as the largest does. */
typedef struct round_prices {
    pipeline_finder *f;
    cleave_collective collective;
    int n;
    int64_t bytes[32], vector[32];
    double seconds[32];
} round_prices;

static cleave_status begin_rounds(pipeline_finder *f, const pipeline_candidate *of,
                                  round_prices *prices) {
    int32_t n_tensor = of->tensor > 0 ? of->tensor : 1;
    int32_t n = f->pricer->machine->n_devices / of->n_groups / n_tensor;
    int32_t *devices = CLEAVE_ARENA_ARRAY(&f->pricer->arena, int32_t, n);
    if (devices == NULL)
        return cleave_fail_memory(f->error, "searching");
    for (int32_t d = 0; d < n; d++)
        devices[d] = cleave_group_device(d * n_tensor, 0, of->n_groups, of->neighbours);
    *prices = (round_prices){
        .f = f,
        .collective = {
            .kind = CLEAVE_ALL_GATHER, .node_members = 1, .n_devices = n, .devices = devices}};
    return CLEAVE_OK;
}

/* Of so many bytes; equal operators are many. */
static cleave_status price_round(round_prices *prices, int32_t tensor, int64_t bytes,
                                 double *seconds) {
    const cleave_collective_rules *rules = prices->f->options->collectives;
    cleave_cost_cache *cache = prices->f->pricer->cache;
    cleave_collective *of = &prices->collective;
    cleave_collective_cost cost = {0};
    int i = 0;
    of->bytes = bytes;
    of->tensor = tensor;
    int64_t vector = cleave_cost_cache_vector_bytes(cache, of);
    while (i < prices->n && (prices->bytes[i] != bytes || prices->vector[i] != vector))
        i++;
    if (i == prices->n) {
        of->algorithm = cleave_collective_rules_choose(rules, of->kind, of->n_devices, of->devices,
                                                       bytes, &of->node_members);
        CLEAVE_TRY(cleave_cost_cache_collective(cache, of, &cost, prices->f->error));
        *seconds = (double)(cost.busy + cost.rest) * 1e-12;
        if (i == 32)
            return CLEAVE_OK;
        prices->bytes[prices->n] = bytes;
        prices->vector[prices->n] = vector;
        prices->seconds[prices->n++] = *seconds;
    }
    *seconds = prices->seconds[i];
    return CLEAVE_OK;
}

/* Weights are gathered, and gradients reduced, operator after operator; the slowest group's.  Less
   than three devices exchange them otherwise. */
static cleave_status time_shards(pipeline_finder *f, const cleave_layout *layout,
                                 const pipeline_candidate *of, double *seconds) {
    const cleave_schedule *schedule = &layout->schedule;
    round_prices prices;
    double *group = CLEAVE_ARENA_ARRAY(&f->pricer->arena, double, of->n_groups);
    if (group == NULL)
        return cleave_fail_memory(f->error, "searching");
    CLEAVE_TRY(begin_rounds(f, of, &prices));
    for (int32_t op = 0; op < layout->n_operators && prices.collective.n_devices > 2; op++) {
        double *sum = &group[cleave_schedule_stage_of(schedule, op) % of->n_groups], round = 0;
        if (f->parameters[op] > 0)
            CLEAVE_TRY(price_round(&prices, f->largest[op],
                                   (int64_t)bytes_of_parameters(f, layout, op), &round));
        *sum += count_rounds(f, of) * round;
        *seconds = fmax(*seconds, *sum);
    }
    return CLEAVE_OK;
}

/* Gradients of a group go round all that share its samples, over the network where the group is
   more than a node; what is sent on from group to group, of all stages of a group, over as many
   cards as a group has nodes.  Either may be hidden behind work, but takes as long as it takes. */
static cleave_status time_messages(const pipeline_finder *f, const cleave_layout *layout,
                                   const pipeline_candidate *of, double *seconds) {
    const cleave_machine *machine = f->pricer->machine;
    const cleave_schedule *schedule = &layout->schedule;
    int32_t n = machine->n_devices / of->n_groups, n_tensor = of->tensor > 0 ? of->tensor : 1;
    int32_t n_nodes = machine->devices_per_node > 0 ? n / machine->devices_per_node : 0;
    double shares = (double)n / n_tensor, most = 0, bytes = 0;
    double rate = n_nodes > 1 ? f->slowest : f->quickest;
    double *on = CLEAVE_ARENA_ARRAY(&f->pricer->arena, double, of->n_groups);
    if (on == NULL)
        return cleave_fail_memory(f->error, "searching");
    if (rate <= 0)
        return CLEAVE_OK;
    for (int32_t op = 0; op < layout->n_operators; op++) {
        bool ends = op + 1 == layout->n_operators || cleave_schedule_stage_of(schedule, op) !=
                                                         cleave_schedule_stage_of(schedule, op + 1);
        bytes += bytes_of_parameters(f, layout, op);
        if (!ends)
            continue;
        double apart = n_nodes > 1 && shares > n_nodes ? n_nodes : shares; /* nodes add up first */
        double sync = count_rounds(f, of) * bytes * (apart - 1) / apart / rate;
        /* Of groups within a node, some neighbours are in two. */
        int32_t g = cleave_schedule_stage_of(schedule, op) % of->n_groups, behind = (g + 1) * n;
        bool leaves = n_nodes > 0 ||
                      (machine->devices_per_node > 0 && behind % machine->devices_per_node == 0);
        on[g] += leaves ? (double)f->sends[op] * 1e-12 / (n_nodes > 1 ? n_nodes : 1) / 2 : 0;
        most = fmax(most, fmax(sync, on[g]));
        bytes = 0;
    }
    *seconds = fmax(*seconds, most);
    return CLEAVE_OK;
}

cleave_status pipeline_foresee_known(pipeline_finder *f, const cleave_layout *layout,
                                     const int64_t *time, pipeline_candidate *of) {
    CLEAVE_TRY(foresee_work(f, layout, time, of));
    CLEAVE_TRY(time_messages(f, layout, of, &of->least_seconds));
    return of->sharded >= CLEAVE_SHARDED_GRADIENT ? time_shards(f, layout, of, &of->least_seconds)
                                                  : CLEAVE_OK;
}
