#include "search/pipeline/pipeline.h"

#include "base/list.h"
#include "base/progress.h"
#include "graph/model/axis_sort.h"
#include "graph/model/micro_batch.h"
#include "graph/model/precision.h"
#include "search/pipeline/stages.h"
#include "search/problem/baselines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of so many micro-batches the bubble of the kinds there are is some per cent; and of each number
   of groups no more layouts than so many are simulated, unless none has fitted yet. */
enum { MOST_MICRO_BATCHES = 256, MOST_TRIED = 6, MOST_TRIED_IN_VAIN = 16 };
/* Parts of all operators in all micro-batches, beyond which a layout is not lowered: about a GiB.
 */
enum { MOST_PARTS = 1 << 18 };

typedef struct candidate {
    const char *baseline;
    int32_t n_groups, n_virtual, tensor, micro_batches;
    cleave_schedule_kind kind;
    cleave_recompute recompute;
    cleave_sharded sharded;
    double least_seconds; /* that it may take, as far as is known from work alone */
} candidate;

typedef CLEAVE_LIST(candidate) candidate_list;

typedef struct finder {
    cleave_pricer *pricer;
    cleave_node_costs *costs;
    const cleave_pipeline_options *options;
    cleave_arena *arena;
    cleave_arena work; /* of the whole search */
    int64_t batch;
    int64_t *op_work, *sends; /* [n_operators] picoseconds, of the whole batch on one device */
    int64_t *parameters;      /* [n_operators] bytes of those that it is the first to read */
    int32_t *reader;          /* [n_tensors] 1 + that operator, of a parameter; 0: none */
    double slowest, quickest; /* links, bytes a second; 0: there are none */
    cleave_axis_sorts sorts;
    candidate_list candidates, failed; /* did not fit */
    cleave_pipelines *found;
    cleave_error *error;
} finder;

/* ---- shapes ---------------------------------------------------------------------------------- */

static bool is_wanted(int32_t wish, int32_t value) { return wish == 0 || wish == value; }

/* A schedule with its stages cut. */
static cleave_status make_schedule(finder *f, const candidate *of, cleave_arena *arena,
                                   cleave_schedule *schedule) {
    int32_t n_stages = of->n_groups * of->n_virtual;
    *schedule = (cleave_schedule){
        .micro_batches = of->micro_batches, .n_stages = n_stages, .kind = of->kind};
    if (n_stages == 1)
        return CLEAVE_OK;
    schedule->first_operator = CLEAVE_ARENA_ARRAY(arena, int32_t, n_stages);
    if (schedule->first_operator == NULL)
        return cleave_fail_memory(f->error, "cutting a model into stages");
    return cleave_stages_cut(f->pricer->model->n_operators, f->op_work, f->sends, n_stages,
                             schedule->first_operator, f->error);
}

/* `fits` false: the baseline has no such layout here. */
static cleave_status make_layout(finder *f, const candidate *of, cleave_arena *arena,
                                 cleave_layout *layout, bool *fits, cleave_error *error) {
    cleave_schedule schedule;
    CLEAVE_TRY(make_schedule(f, of, arena, &schedule));
    const cleave_baseline_shape shape = {.schedule = &schedule,
                                         .n_groups = of->n_groups,
                                         .tensor = of->tensor,
                                         .sharded = of->sharded};
    CLEAVE_TRY(cleave_baseline_in_stages(f->pricer->model, f->pricer->machine, of->baseline, &shape,
                                         arena, layout, fits, error));
    layout->collectives = *f->options->collectives;
    CLEAVE_TRY(cleave_recompute_mark(f->pricer->model, of->recompute, layout, error));
    if (*fits)
        return cleave_layout_check(f->pricer->model, layout, error);
    return CLEAVE_OK;
}

/* ---- times from work alone ------------------------------------------------------------------- */

/* What one micro-batch of an operator takes on its busiest device, picoseconds. */
static cleave_status time_operator(finder *f, const cleave_layout *layout, int32_t op,
                                   int64_t *time) {
    cleave_split split = layout->splits[op];
    const cleave_operator *of = &f->pricer->model->operators[op];
    cleave_node_cost cost = {0};
    for (int a = 0; a < of->n_axes; a++)
        if (f->sorts.of[op][a] == CLEAVE_SORT_SAMPLE && !of->axes[a].whole) {
            split.degree[a] *= layout->schedule.micro_batches;
            split.n_parts *= layout->schedule.micro_batches;
            break;
        }
    CLEAVE_TRY(cleave_node_cost_of(f->costs, op, &split, &cost, NULL, f->error));
    *time = cost.largest;
    return CLEAVE_OK;
}

/* Of what an operator takes, its forward, about. */
static const double forward_share = 0.3;

/* The slowest group does all its micro-batches, and before and after them the others do one: about
   what is left of that by gradients of weights that fill it. */
static cleave_status foresee(finder *f, const cleave_layout *layout, candidate *of) {
    const cleave_schedule *schedule = &layout->schedule;
    double slowest = 0, all = 0, m = schedule->micro_batches;
    double *group = CLEAVE_ARENA_ARRAY(&f->pricer->arena, double, of->n_groups);
    if (group == NULL)
        return cleave_fail_memory(f->error, "searching");
    for (int32_t op = 0; op < layout->n_operators; op++) {
        int64_t time;
        CLEAVE_TRY(time_operator(f, layout, op, &time));
        double again = layout->recompute[op] ? 1 + forward_share : 1;
        group[cleave_schedule_stage_of(schedule, op) % of->n_groups] +=
            (double)time * 1e-12 * again;
    }
    for (int32_t g = 0; g < of->n_groups; g++) {
        all += group[g];
        slowest = group[g] > slowest ? group[g] : slowest;
    }
    double bubble = (all - slowest) / of->n_virtual;
    of->least_seconds = m * slowest + (of->kind == CLEAVE_SCHEDULE_ZB_H1 ? bubble / 3 : bubble);
    return CLEAVE_OK;
}

/* ---- times from messages alone --------------------------------------------------------------- */

/* How often all of a group send their weights, or gradients of them, once around: forward, for what
   is recomputed, backward and the gradients in every micro-batch, or these and the new values once.
 */
static double count_rounds(const candidate *of) {
    double m = of->micro_batches;
    return of->sharded == CLEAVE_SHARDED_WEIGHT
               ? m * (of->recompute == CLEAVE_RECOMPUTE_FULL ? 4 : 3)
           : of->sharded == CLEAVE_SHARDED_GRADIENT ? m + 1
                                                    : 2;
}

/* Gradients of a group go round all that share its samples, over the network where the group is
   more than a node; what is sent on from group to group, over as many cards as a group has nodes.
   Either may be hidden behind work, but takes as long as it takes. */
static double time_messages(const finder *f, const cleave_layout *layout, const candidate *of) {
    const cleave_machine *machine = f->pricer->machine;
    const cleave_schedule *schedule = &layout->schedule;
    int32_t n = machine->n_devices / of->n_groups, n_tensor = of->tensor > 0 ? of->tensor : 1;
    int32_t n_nodes = machine->devices_per_node > 0 ? n / machine->devices_per_node : 0;
    double shares = (double)n / n_tensor, most = 0, bytes = 0;
    double rate = n_nodes > 1 ? f->slowest : f->quickest;
    if (rate <= 0)
        return 0;
    for (int32_t op = 0; op < layout->n_operators; op++) {
        bool ends = op + 1 == layout->n_operators || cleave_schedule_stage_of(schedule, op) !=
                                                         cleave_schedule_stage_of(schedule, op + 1);
        bytes += (double)f->parameters[op];
        if (!ends)
            continue;
        double apart = n_nodes > 1 && shares > n_nodes ? n_nodes : shares; /* nodes add up first */
        double sync = count_rounds(of) * bytes / n_tensor * (apart - 1) / apart / rate;
        /* Of groups within a node, some neighbours are in two. */
        int32_t behind = (cleave_schedule_stage_of(schedule, op) % of->n_groups + 1) * n;
        bool leaves = n_nodes > 0 ||
                      (machine->devices_per_node > 0 && behind % machine->devices_per_node == 0);
        double on = leaves ? (double)f->sends[op] * 1e-12 / (n_nodes > 1 ? n_nodes : 1) / 2 : 0;
        most = sync > most ? sync : most;
        most = on > most ? on : most;
        bytes = 0;
    }
    return most;
}

/* ---- candidates ------------------------------------------------------------------------------ */

static bool is_too_large(const finder *f, const cleave_layout *layout) {
    int64_t n_parts = 0;
    for (int32_t op = 0; op < layout->n_operators; op++)
        n_parts += layout->splits[op].n_parts;
    if (n_parts * layout->schedule.micro_batches <= MOST_PARTS)
        return false;
    snprintf(f->found->why_none, sizeof f->found->why_none,
             "%lld parts of operators in %d micro-batches are more than are lowered (%d)",
             (long long)n_parts, layout->schedule.micro_batches, MOST_PARTS);
    return true;
}

/* Of what is recomputed in one way, if it is at all: a model may have nothing of the kind. */
static cleave_status add_one(finder *f, candidate of) {
    cleave_arena *arena = &f->pricer->arena;
    cleave_layout layout;
    cleave_error why = {""};
    bool fits = false;
    cleave_arena_reset(arena);
    cleave_status status = make_layout(f, &of, arena, &layout, &fits, &why);
    if (status == CLEAVE_BAD_INPUT || (status == CLEAVE_OK && !fits)) {
        if (why.message[0] != '\0')
            memcpy(f->found->why_none, why.message, sizeof why.message);
        return CLEAVE_OK;
    }
    if (status != CLEAVE_OK && f->error != NULL)
        *f->error = why;
    CLEAVE_TRY(status);
    bool recomputes = false;
    for (int32_t op = 0; op < layout.n_operators; op++)
        recomputes = recomputes || layout.recompute[op];
    bool is_known = cleave_layout_is_plain(&layout) && f->options->wish.zero == 0;
    if (recomputes != (of.recompute != CLEAVE_RECOMPUTE_NONE) || is_known)
        return CLEAVE_OK;
    if (is_too_large(f, &layout))
        return CLEAVE_OK;
    CLEAVE_TRY(foresee(f, &layout, &of));
    double messages = time_messages(f, &layout, &of);
    of.least_seconds = messages > of.least_seconds ? messages : of.least_seconds;
    return CLEAVE_LIST_PUSH(&f->candidates, of) ? CLEAVE_OK
                                                : cleave_fail_memory(f->error, "searching");
}

/* Sharded state costs messages: where it is not asked for it is offered where memory may be short.
 */
static bool may_shard(const finder *f, const candidate *of) {
    int32_t n_tensor = of->tensor > 0 ? of->tensor : 1;
    if (f->options->wish.zero > 0)
        return (int)of->sharded == f->options->wish.zero - 1;
    return of->sharded == CLEAVE_SHARDED_NOTHING ||
           (f->pricer->machine->n_devices / of->n_groups / n_tensor > 1 &&
            cleave_pricer_state_is_large(f->pricer, 1.0 / ((double)n_tensor * of->n_groups)));
}

static cleave_status add(finder *f, candidate of) {
    int wish = f->options->wish.recompute;
    for (int what = 0; what < CLEAVE_N_RECOMPUTES; what++) {
        of.recompute = (cleave_recompute)what;
        for (of.sharded = CLEAVE_SHARDED_NOTHING; of.sharded < CLEAVE_N_SHARDED; of.sharded++)
            if ((wish < 0 || wish == what) && may_shard(f, &of))
                CLEAVE_TRY(add_one(f, of));
    }
    return CLEAVE_OK;
}

static cleave_status add_kinds(finder *f, candidate of) {
    static const cleave_schedule_kind kinds[] = {CLEAVE_SCHEDULE_1F1B, CLEAVE_SCHEDULE_ZB_H1,
                                                 CLEAVE_SCHEDULE_GPIPE};
    const cleave_schedule_wish *wish = &f->options->wish;
    for (int i = 0; i < 3; i++) {
        of.kind = kinds[i];
        of.n_virtual = 1;
        /* Of one group all are alike; gpipe keeps more than 1f1b and is no quicker. */
        bool is_usual = kinds[i] == CLEAVE_SCHEDULE_1F1B ||
                        (kinds[i] == CLEAVE_SCHEDULE_ZB_H1 && of.n_groups > 1);
        if ((wish->kind < 0 ? is_usual : wish->kind == (int)kinds[i]) &&
            is_wanted(wish->virtual_stages, 1) && is_wanted(wish->stages, of.n_groups))
            CLEAVE_TRY(add(f, of));
    }
    of.kind = CLEAVE_SCHEDULE_INTERLEAVED;
    for (of.n_virtual = 2; of.n_virtual <= 4 && of.n_groups > 1; of.n_virtual *= 2)
        if ((wish->kind < 0 || wish->kind == CLEAVE_SCHEDULE_INTERLEAVED) &&
            is_wanted(wish->virtual_stages, of.n_virtual) &&
            is_wanted(wish->stages, of.n_groups * of.n_virtual) &&
            of.micro_batches % of.n_groups == 0 &&
            of.n_groups * of.n_virtual <= f->pricer->model->n_operators)
            CLEAVE_TRY(add(f, of));
    return CLEAVE_OK;
}

static cleave_status add_micro_batches(finder *f, candidate of) {
    int32_t wish = f->options->wish.micro_batches;
    if (wish > 0) {
        of.micro_batches = wish;
        return add_kinds(f, of);
    }
    for (int32_t m = 1; m <= MOST_MICRO_BATCHES && m <= f->batch; m *= 2) {
        of.micro_batches = m;
        if (f->batch % m == 0)
            CLEAVE_TRY(add_kinds(f, of));
    }
    return CLEAVE_OK;
}

static bool is_asked_for(const finder *f, const char *baseline) {
    return f->options->baseline == NULL || strcmp(f->options->baseline, baseline) == 0;
}

static cleave_status add_groups(finder *f, int32_t n_groups) {
    int32_t n = f->pricer->machine->n_devices / n_groups;
    candidate of = {.baseline = "data-parallel", .n_groups = n_groups};
    if (f->options->wish.tensor <= 1 && is_asked_for(f, of.baseline))
        CLEAVE_TRY(add_micro_batches(f, of));
    of.baseline = "megatron";
    for (of.tensor = 2; of.tensor <= n && is_asked_for(f, of.baseline); of.tensor++)
        if (n % of.tensor == 0 && is_wanted(f->options->wish.tensor, of.tensor))
            CLEAVE_TRY(add_micro_batches(f, of));
    return CLEAVE_OK;
}

static int compare_candidates(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    return (x->least_seconds > y->least_seconds) - (x->least_seconds < y->least_seconds);
}

/* ---- trying them ----------------------------------------------------------------------------- */

static cleave_status keep(finder *f, const cleave_layout *layout, const cleave_price *price) {
    cleave_pipelines *found = f->found;
    int32_t place = 0;
    while (place < found->n && !cleave_price_better(price, &found->items[place].price))
        place++;
    if (place == CLEAVE_MOST_PIPELINES)
        return CLEAVE_OK;
    found->n += found->n < CLEAVE_MOST_PIPELINES;
    for (int32_t i = found->n - 1; i > place; i--)
        found->items[i] = found->items[i - 1];
    found->items[place].price = *price;
    return cleave_layout_copy(layout, f->pricer->model, f->arena, &found->items[place].layout,
                              f->error);
}

static bool is_over(const finder *f) {
    return (f->options->interrupted != NULL && *f->options->interrupted != 0) ||
           (f->options->until_seconds > 0 && cleave_clock_seconds() > f->options->until_seconds);
}

/* Is one like it, of no fewer micro-batches, among those that did not fit? */
static bool has_failed(const finder *f, const candidate *of) {
    for (int32_t i = 0; i < f->failed.n; i++) {
        const candidate *other = &f->failed.items[i];
        if (strcmp(other->baseline, of->baseline) == 0 && other->n_groups == of->n_groups &&
            other->n_virtual == of->n_virtual && other->tensor == of->tensor &&
            other->kind == of->kind && other->recompute >= of->recompute &&
            other->sharded >= of->sharded && other->micro_batches >= of->micro_batches)
            return true;
    }
    return false;
}

static cleave_status try_one(finder *f, const candidate *of) {
    cleave_arena scratch = {0};
    cleave_layout layout;
    bool applies;
    cleave_price price = {0};
    cleave_status status = make_layout(f, of, &scratch, &layout, &applies, f->error);
    const cleave_price_subject what = {.layout = &layout};
    if (status == CLEAVE_OK)
        status = cleave_pricer_price(f->pricer, &what, NULL, &price, f->error);
    if (status == CLEAVE_OK)
        status = keep(f, &layout, &price);
    if (status == CLEAVE_OK && price.excess_bytes > 0 && !CLEAVE_LIST_PUSH(&f->failed, *of))
        status = cleave_fail_memory(f->error, "searching");
    f->found->n_tried++;
    cleave_arena_free(&scratch);
    return status;
}

/* In the order of the times that they may take; those that may not be the best are left out. */
static cleave_status try_all(finder *f) {
    const cleave_price *best = f->options->best;
    int32_t n_counts = f->pricer->machine->n_devices + 1;
    int32_t *tried = CLEAVE_ARENA_ARRAY(&f->work, int32_t, n_counts); /* by groups */
    bool fitted = false;
    if (tried == NULL)
        return cleave_fail_memory(f->error, "searching");
    if (f->candidates.n > 0)
        qsort(f->candidates.items, (size_t)f->candidates.n, sizeof *f->candidates.items,
              compare_candidates);
    for (int32_t i = 0; i < f->candidates.n && !is_over(f); i++) {
        const candidate *of = &f->candidates.items[i];
        if (f->found->n > 0 &&
            (best == NULL || cleave_price_better(&f->found->items[0].price, best)))
            best = &f->found->items[0].price;
        bool fits = best != NULL && best->excess_bytes == 0;
        if (fits && !fitted)
            memset(tried, 0, (size_t)n_counts * sizeof *tried);
        fitted = fits;
        if (fits && of->least_seconds > (double)best->step * 1e-12)
            break;
        if (tried[of->n_groups] >= (fits ? MOST_TRIED : MOST_TRIED_IN_VAIN) || has_failed(f, of))
            continue;
        tried[of->n_groups]++;
        CLEAVE_TRY(try_one(f, of));
    }
    return CLEAVE_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* A parameter under what an operator reads is counted there, and no longer where it was. */
static void note_parameter(finder *f, int32_t tensor, int32_t op) {
    const cleave_tensor *of = &f->pricer->model->tensors[tensor];
    for (int32_t s = 0; s < of->view.n_sources; s++)
        note_parameter(f, of->view.sources[s], op);
    if (of->kind != CLEAVE_TENSOR_PARAMETER || of->view.kind != CLEAVE_VIEW_NONE)
        return;
    int64_t bytes = cleave_tensor_size(of) * cleave_stored_bytes(of);
    if (f->reader[tensor] > 0)
        f->parameters[f->reader[tensor] - 1] -= bytes;
    f->parameters[op] += bytes;
    f->reader[tensor] = op + 1;
}

/* Work of operators, and what it takes to send on what is written before each cut, there and back.
 */
static cleave_status weigh(finder *f) {
    const cleave_model *model = f->pricer->model;
    const cleave_machine *machine = f->pricer->machine;
    int64_t *bytes;
    f->op_work = CLEAVE_ARENA_ARRAY(&f->work, int64_t, model->n_operators);
    f->parameters = CLEAVE_ARENA_ARRAY(&f->work, int64_t, model->n_operators);
    f->reader = CLEAVE_ARENA_ARRAY(&f->work, int32_t, model->n_tensors);
    if (f->op_work == NULL || f->parameters == NULL || f->reader == NULL)
        return cleave_fail_memory(f->error, "searching");
    CLEAVE_TRY(cleave_stage_bytes(model, &f->work, &bytes, f->error));
    for (int32_t l = 0; l < machine->n_links; l++) {
        double rate = machine->links[l].bytes_per_second;
        f->slowest = f->slowest <= 0 || rate < f->slowest ? rate : f->slowest;
        f->quickest = rate > f->quickest ? rate : f->quickest;
    }
    for (int32_t op = 0; op < model->n_operators; op++) {
        cleave_node_cost cost = {0};
        CLEAVE_TRY(cleave_node_cost_whole(f->costs, op, &cost, f->error));
        f->op_work[op] = cost.total;
        if (f->slowest > 0)
            bytes[op] = (int64_t)((double)bytes[op] * 2 / f->slowest * 1e12);
    }
    for (int32_t n = model->n_nests - 1; n >= 0; n--) /* the first reader comes last */
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            note_parameter(f, model->nests[n].inputs[i].tensor, model->nests[n].op);
    f->sends = bytes;
    return CLEAVE_OK;
}

static cleave_status find(finder *f) {
    const cleave_model *model = f->pricer->model;
    int32_t n_devices = f->pricer->machine->n_devices;
    CLEAVE_TRY(weigh(f));
    CLEAVE_TRY(cleave_axis_sorts_find(model, &f->work, &f->sorts, f->error));
    f->batch = f->sorts.batch;
    for (int32_t g = 1; g <= n_devices && g <= model->n_operators; g++)
        if (n_devices % g == 0)
            CLEAVE_TRY(add_groups(f, g));
    return try_all(f);
}

cleave_status cleave_pipeline_search(cleave_pricer *pricer, cleave_node_costs *costs,
                                     const cleave_pipeline_options *options, cleave_arena *arena,
                                     cleave_pipelines *found, cleave_error *error) {
    *found = (cleave_pipelines){0};
    finder f = {.pricer = pricer,
                .costs = costs,
                .options = options,
                .arena = arena,
                .found = found,
                .error = error};
    cleave_status status = find(&f);
    bool none = f.candidates.n == 0;
    CLEAVE_LIST_FREE(&f.candidates);
    CLEAVE_LIST_FREE(&f.failed);
    cleave_arena_free(&f.work);
    CLEAVE_TRY(status);
    if (none && !cleave_schedule_wish_allows_plain(&options->wish))
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "no layout has the stages and micro-batches that "
                           "are asked for%s%s",
                           found->why_none[0] != '\0' ? ": " : "", found->why_none);
    return CLEAVE_OK;
}
