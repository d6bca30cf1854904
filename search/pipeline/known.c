/* What people run: the machine in equal groups, within a group data parallel, or megatron's
   products shared by some neighbours and the samples by the rest. */
#include "search/pipeline/internal.h"

#include "graph/model/precision.h"
#include "search/pipeline/stages.h"
#include "search/problem/baselines.h"

#include <math.h>
#include <string.h>

/* ---- shapes ---------------------------------------------------------------------------------- */

/* A schedule with its stages cut. */
static cleave_status make_schedule(pipeline_finder *f, const pipeline_candidate *of,
                                   cleave_schedule *schedule) {
    int32_t n_stages = of->n_groups * of->n_virtual;
    *schedule = (cleave_schedule){.micro_batches = of->micro_batches,
                                  .n_stages = n_stages,
                                  .kind = of->kind,
                                  .sooner = of->sooner};
    if (n_stages == 1)
        return CLEAVE_OK;
    for (int32_t i = 0; i < f->cuts.n; i++) {
        const pipeline_cut *cut = &f->cuts.items[i];
        if (cut->n_stages == n_stages && cut->by_room == of->by_room &&
            (f->kind_work == NULL || cut->n_groups == of->n_groups)) {
            schedule->first_operator = cut->first_operator;
            return CLEAVE_OK;
        }
    }
    schedule->first_operator = CLEAVE_ARENA_ARRAY(&f->work, int32_t, n_stages);
    if (schedule->first_operator == NULL ||
        !CLEAVE_LIST_PUSH(&f->cuts, (pipeline_cut){of->n_groups, n_stages, schedule->first_operator,
                                                   of->by_room}))
        return cleave_fail_memory(f->error, "cutting a model into stages");
    if (f->options->wish.layers != NULL && f->options->wish.stages == n_stages)
        return cleave_stages_of_layers(f->pricer->model, f->options->wish.layers, n_stages,
                                       schedule->first_operator, f->error);
    return pipeline_cut_stages(f, of, schedule->first_operator);
}

cleave_status pipeline_known_layout(pipeline_finder *f, const pipeline_candidate *of,
                                    cleave_arena *arena, cleave_layout *layout, bool *fits,
                                    cleave_error *error) {
    cleave_schedule schedule;
    CLEAVE_TRY(make_schedule(f, of, &schedule));
    const cleave_baseline_shape shape = {.schedule = &schedule,
                                         .n_groups = of->n_groups,
                                         .neighbours = of->neighbours,
                                         .tensor = of->tensor,
                                         .context = f->options->wish.context,
                                         .expert = of->expert,
                                         .ring = f->options->wish.ring,
                                         .whole_tokens = f->options->wish.whole_tokens,
                                         .sharded = of->sharded};
    CLEAVE_TRY(cleave_baseline_in_stages(f->pricer->model, f->pricer->machine, of->baseline, &shape,
                                         arena, layout, fits, error));
    layout->collectives = *f->options->collectives;
    CLEAVE_TRY(cleave_recompute_mark(f->pricer->model, of->recompute, layout, error));
    if (*fits)
        return cleave_layout_check(f->pricer->model, layout, error);
    return CLEAVE_OK;
}

/* ---- what follows from the shape alone --------------------------------------------------------
 */

double pipeline_least_state(const pipeline_finder *f, const pipeline_candidate *of) {
    const cleave_model *model = f->pricer->model;
    double weights = 0, states = 0, n = f->pricer->machine->n_devices;
    double copies = (double)of->n_groups * (of->tensor > 0 ? of->tensor : 1) *
                    (of->expert > 0 ? of->expert : 1);
    for (int32_t t = 0; t < model->n_tensors; t++) {
        const cleave_tensor *tensor = &model->tensors[t];
        if (tensor->kind != CLEAVE_TENSOR_PARAMETER || tensor->view.kind != CLEAVE_VIEW_NONE)
            continue;
        double elements = (double)cleave_tensor_size(tensor);
        weights += elements * (double)cleave_stored_bytes(tensor);
        if (tensor->needs_gradient)
            states += elements * (double)cleave_type_bytes(cleave_exact_type(tensor)) *
                      (f->pricer->lower.optimizer_states + cleave_has_master(tensor));
    }
    return weights / (of->sharded >= CLEAVE_SHARDED_WEIGHT ? n : copies) +
           states / (of->sharded >= CLEAVE_SHARDED_UPDATE ? n : copies);
}

double pipeline_least_seconds(const pipeline_finder *f, const pipeline_candidate *of) {
    double bubble = (of->n_groups - 1.0) / of->micro_batches / of->n_virtual;
    if (cleave_schedule_kind_parts_weights(of->kind))
        bubble /= 3;
    return f->all_work / f->pricer->machine->n_devices * (1 + (f->pricer->is_stream ? 0 : bubble));
}

/* ---- candidates ------------------------------------------------------------------------------ */

/* Sharded state costs messages: where it is not asked for it is offered where memory may be short.
 */
static bool may_shard(const pipeline_finder *f, const pipeline_candidate *of) {
    int32_t n_tensor = of->tensor > 0 ? of->tensor : 1;
    if (!cleave_model_trains(f->pricer->model))
        return of->sharded == CLEAVE_SHARDED_NOTHING;
    if (f->options->wish.zero > 0)
        return (int)of->sharded == f->options->wish.zero - 1;
    if (of->sharded == CLEAVE_SHARDED_NOTHING)
        return true;
    return f->pricer->machine->n_devices / of->n_groups / n_tensor > 1 &&
           cleave_pricer_state_is_large(f->pricer, 1.0 / ((double)n_tensor * of->n_groups));
}

/* Updates may be quicker so even where there is memory for all of them, as messages are few. */
static bool may_shard_in_doubt(const pipeline_finder *f, const pipeline_candidate *of) {
    return f->options->baseline == NULL && f->options->wish.zero == 0 &&
           cleave_model_trains(f->pricer->model) && of->sharded == CLEAVE_SHARDED_UPDATE;
}

/* Can it not be the best? */
static bool is_hopeless(const pipeline_finder *f, const pipeline_candidate *of) {
    return pipeline_least_seconds(f, of) > pipeline_seconds_to_beat(f);
}

/* A layout of that shape, of which nothing is recomputed and no more state is sharded than must be;
   `fits` false: there is none, or it is too large. */
static cleave_status begin_shape(pipeline_finder *f, const pipeline_candidate *of,
                                 cleave_layout *layout, bool *fits) {
    cleave_error why = {""};
    pipeline_candidate bare = *of;
    bare.recompute = CLEAVE_RECOMPUTE_NONE;
    bare.sharded = CLEAVE_SHARDED_NOTHING;
    *fits = false;
    cleave_arena_reset(&f->pricer->arena);
    cleave_status status = pipeline_known_layout(f, &bare, &f->pricer->arena, layout, fits, &why);
    if (status != CLEAVE_OK)
        *fits = false;
    if (status == CLEAVE_BAD_INPUT || (status == CLEAVE_OK && !*fits)) {
        const cleave_schedule_wish *wish = &f->options->wish;
        if (status == CLEAVE_OK)
            cleave_fail(&why, CLEAVE_BAD_INPUT, "the model has %s",
                        of->expert > 1      ? "no experts"
                        : wish->context > 1 ? "too few heads"
                                            : "no products that so many devices share by pairs");
        if (why.message[0] != '\0' && f->found->why_none[0] == '\0') /* of the simplest shape */
            memcpy(f->found->why_none, why.message, sizeof why.message);
        return CLEAVE_OK;
    }
    if (status != CLEAVE_OK && f->error != NULL)
        *f->error = why;
    return status;
}

/* With as much state sharded as may be.  What recomputes a part is for those who gather besides:
   else plans have what lies between nothing and all. */
static cleave_status add_shards(pipeline_finder *f, const cleave_layout *layout,
                                const int64_t *time, pipeline_candidate of) {
    bool recomputes = of.recompute != CLEAVE_RECOMPUTE_NONE;
    bool is_between = of.recompute == CLEAVE_RECOMPUTE_ALTERNATE && f->options->wish.recompute < 0;
    cleave_layout now = *layout;
    pipeline_held held;
    now.schedule.sooner = of.sooner;
    CLEAVE_TRY(pipeline_find_held(f, &now, of.n_groups, &held));
    of.sharded = is_between ? CLEAVE_SHARDED_GRADIENT : CLEAVE_SHARDED_NOTHING;
    for (; of.sharded < CLEAVE_N_SHARDED; of.sharded++) {
        bool is_known = cleave_schedule_is_plain(&layout->schedule) && !recomputes &&
                        of.sharded <= CLEAVE_SHARDED_UPDATE &&
                        cleave_schedule_wish_allows_plain(&f->options->wish);
        of.is_doubtful = !may_shard(f, &of);
        if (is_known || (of.is_doubtful && !may_shard_in_doubt(f, &of)) ||
            pipeline_is_too_large(f, layout, (int)of.sharded))
            continue;
        CLEAVE_TRY(pipeline_foresee_known(f, layout, time, &of));
        CLEAVE_TRY(pipeline_find_least_bytes(f, layout, &held, &of));
        if (!CLEAVE_LIST_PUSH(&f->known, of))
            return cleave_fail_memory(f->error, "searching");
    }
    return CLEAVE_OK;
}

static cleave_status add(pipeline_finder *f, pipeline_candidate of) {
    int wish = f->options->wish.recompute;
    cleave_layout layout;
    int64_t *time = NULL;
    bool fits;
    if (is_hopeless(f, &of))
        return CLEAVE_OK;
    CLEAVE_TRY(begin_shape(f, &of, &layout, &fits));
    if (!fits)
        return CLEAVE_OK;
    CLEAVE_TRY(pipeline_time_known(f, &layout, &time));
    for (int what = 0; what < CLEAVE_N_RECOMPUTES; what++) {
        bool recomputes = false;
        if (wish >= 0 && wish != what)
            continue;
        if (what != CLEAVE_RECOMPUTE_NONE && !cleave_model_trains(f->pricer->model))
            continue;
        of.recompute = (cleave_recompute)what;
        CLEAVE_TRY(cleave_recompute_mark(f->pricer->model, of.recompute, &layout, f->error));
        for (int32_t op = 0; op < layout.n_operators; op++)
            recomputes = recomputes || (layout.recompute[op] && f->kept[op] > 0);
        /* A model may have nothing of the kind that is kept, as attention that stores no scores:
           then that is none, where it is asked for. */
        if (!recomputes && what != CLEAVE_RECOMPUTE_NONE && wish < 0)
            continue;
        of.recompute = recomputes ? of.recompute : CLEAVE_RECOMPUTE_NONE;
        of.sooner = 0;
        CLEAVE_TRY(add_shards(f, &layout, time, of));
        /* What is recomputed for gradients of weights that are put off may have no room. */
        of.sooner = of.n_groups - 1;
        if (recomputes && cleave_schedule_kind_parts_weights(of.kind) && of.sooner > 0)
            CLEAVE_TRY(add_shards(f, &layout, time, of));
    }
    return CLEAVE_OK;
}

static cleave_status add_kinds(pipeline_finder *f, pipeline_candidate of) {
    static const cleave_schedule_kind kinds[] = {CLEAVE_SCHEDULE_1F1B, CLEAVE_SCHEDULE_ZB_H1,
                                                 CLEAVE_SCHEDULE_GPIPE};
    const cleave_schedule_wish *wish = &f->options->wish;
    for (int i = 0; i < 3; i++) {
        of.kind = kinds[i];
        of.n_virtual = 1;
        /* Of one group all are alike; gpipe keeps more than 1f1b and is no quicker. */
        bool is_usual = kinds[i] == CLEAVE_SCHEDULE_1F1B ||
                        (kinds[i] == CLEAVE_SCHEDULE_ZB_H1 && of.n_groups > 1 &&
                         cleave_model_trains(f->pricer->model));
        if ((wish->kind < 0 ? is_usual : wish->kind == (int)kinds[i]) &&
            pipeline_is_wanted(wish->virtual_stages, 1) &&
            pipeline_is_wanted(wish->stages, of.n_groups))
            CLEAVE_TRY(add(f, of));
    }
    int32_t asked = wish->virtual_stages > 1 ? wish->virtual_stages : 0; /* else some powers of 2 */
    int32_t most = asked > 0 ? asked : 4;
    for (of.n_virtual = asked > 0 ? asked : 2; of.n_virtual <= most && of.n_groups > 1;
         of.n_virtual *= 2)
        for (int i = 0; i < (cleave_model_trains(f->pricer->model) ? 2 : 1); i++) {
            of.kind = i == 0 ? CLEAVE_SCHEDULE_INTERLEAVED : CLEAVE_SCHEDULE_ZB_INTERLEAVED;
            if ((wish->kind < 0 || wish->kind == (int)of.kind) &&
                pipeline_is_wanted(wish->virtual_stages, of.n_virtual) &&
                pipeline_is_wanted(wish->stages, of.n_groups * of.n_virtual) &&
                of.micro_batches % of.n_groups == 0 &&
                of.n_groups * of.n_virtual <= f->pricer->model->n_operators)
                CLEAVE_TRY(add(f, of));
        }
    return CLEAVE_OK;
}

static cleave_status add_micro_batches(pipeline_finder *f, pipeline_candidate of) {
    int32_t m[PIPELINE_MOST_CUTS], n = pipeline_list_micro_batches(f, PIPELINE_MOST_CUTS, m);
    for (int32_t i = 0; i < n; i++) {
        of.micro_batches = m[i];
        CLEAVE_TRY(add_kinds(f, of));
    }
    return CLEAVE_OK;
}

static bool is_asked_for(const pipeline_finder *f, const char *baseline) {
    return f->options->baseline == NULL || strcmp(f->options->baseline, baseline) == 0;
}

/* Megatron's with so many devices that share a product, and experts in all numbers that are wished
   for, or that cut those of the model evenly. */
static cleave_status add_experts(pipeline_finder *f, pipeline_candidate of) {
    const cleave_schedule_wish *wish = &f->options->wish;
    int32_t rest = f->pricer->machine->n_devices / of.n_groups / of.tensor, most = wish->expert;
    if (most == 0)
        most = wish->context > 1 ? 1 : (int32_t)fmin(rest, (double)f->experts);
    of.expert = 1;
    do {
        bool cuts = of.tensor > 1 || of.expert > 1 || wish->context > 1;
        if (cuts && pipeline_is_wanted(wish->expert, of.expert) &&
            pipeline_is_wanted(wish->neighbours, of.tensor * of.expert) &&
            (of.expert == wish->expert ||
             (rest % of.expert == 0 && (of.expert == 1 || f->experts % of.expert == 0))))
            CLEAVE_TRY(add_micro_batches(f, of));
    } while (of.expert++ < most);
    return CLEAVE_OK;
}

static cleave_status add_groups(pipeline_finder *f, int32_t n_groups, int32_t neighbours,
                                bool by_room) {
    int32_t n = f->pricer->machine->n_devices / n_groups;
    const cleave_schedule_wish *wish = &f->options->wish;
    pipeline_candidate of = {.baseline = "data-parallel",
                             .n_groups = n_groups,
                             .neighbours = neighbours,
                             .by_room = by_room};
    /* Megatron's with one device a product is that, too, where it cuts nothing else. */
    bool cuts_else = wish->context > 1 || wish->expert > 1;
    bool wanted =
        is_asked_for(f, of.baseline) || (wish->tensor == 1 && is_asked_for(f, "megatron"));
    if (wish->tensor <= 1 && wanted && !cuts_else)
        CLEAVE_TRY(add_micro_batches(f, of));
    of.baseline = "megatron";
    for (of.tensor = 1; of.tensor <= n && is_asked_for(f, of.baseline); of.tensor++)
        if (n % of.tensor == 0 && pipeline_is_wanted(wish->tensor, of.tensor))
            CLEAVE_TRY(add_experts(f, of));
    return CLEAVE_OK;
}

cleave_status pipeline_add_known(pipeline_finder *f) {
    int32_t n_devices = f->pricer->machine->n_devices;
    f->experts = cleave_baseline_experts(f->pricer->model);
    for (int32_t g = 1; g <= n_devices && g <= f->pricer->model->n_operators; g++) {
        int32_t neighbours = pipeline_wants_groups(f, g) ? pipeline_neighbours(f, g) : 0;
        if (neighbours == 0)
            continue;
        CLEAVE_TRY(add_groups(f, g, neighbours, false));
        if (g > 1 && pipeline_rooms_differ(f) && f->options->wish.layers == NULL)
            CLEAVE_TRY(add_groups(f, g, neighbours, true));
    }
    return CLEAVE_OK;
}
