/* The search as a whole: operators are weighed, plans tried, then baselines, and what is small is
   polished. */
#include "search/pipeline/pipeline.h"

#include "base/progress.h"
#include "search/pipeline/internal.h"

#include <stdio.h>
#include <string.h>

/* Operators x devices for which baselines are tried beside plans, and free splits of more of these;
   and for which still more plans are made, and simulated. */
enum { LITTLE_WORK = 1024, SMALL_WORK = 64 };

cleave_status cleave_schedule_wish_begin(const char *kind, const char *recompute, const char *zero,
                                         cleave_schedule_wish *wish, cleave_error *error) {
    cleave_schedule_wish begun = {.kind = -1, .recompute = -1};
    for (int k = 0; k < CLEAVE_SCHEDULE_ORDERS && kind != NULL; k++)
        if (strcmp(kind, cleave_schedule_names[k]) == 0)
            begun.kind = k;
    for (int what = 0; what < CLEAVE_N_RECOMPUTES && recompute != NULL; what++)
        if (strcmp(recompute, cleave_recompute_names[what]) == 0)
            begun.recompute = what;
    if (kind != NULL && begun.kind < 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "schedule \"%.64s\" is none of: 1f1b, gpipe, interleaved, zb-h1, "
                           "zb-interleaved",
                           kind);
    if (recompute != NULL && begun.recompute < 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "recompute \"%.64s\" is none of: none, selective, alternate, full",
                           recompute);
    if (zero != NULL && (strlen(zero) != 1 || strchr("0123", *zero) == NULL))
        return cleave_fail(error, CLEAVE_BAD_INPUT, "zero \"%.64s\" is none of: 0, 1, 2, 3", zero);
    begun.zero = zero != NULL ? 1 + (*zero - '0') : 0;
    *wish = begun;
    return CLEAVE_OK;
}

int32_t pipeline_list_micro_batches(const pipeline_finder *f, int32_t most, int32_t *m) {
    int32_t wish = f->options->wish.micro_batches, n = 0;
    if (wish > 0) {
        m[0] = wish;
        return 1;
    }
    for (int32_t k = 1; k <= PIPELINE_MOST_MICRO_BATCHES && k <= f->batch && n < most; k++)
        if (f->batch % k == 0)
            m[n++] = k;
    return n;
}

bool pipeline_is_over(const pipeline_finder *f) {
    return (f->options->interrupted != NULL && *f->options->interrupted != 0) ||
           (f->options->until_seconds > 0 && cleave_clock_seconds() > f->options->until_seconds);
}

static cleave_status find(pipeline_finder *f) {
    const cleave_model *model = f->pricer->model;
    CLEAVE_TRY(pipeline_weigh(f));
    CLEAVE_TRY(cleave_axis_sorts_find(model, &f->work, &f->sorts, f->error));
    f->batch = f->sorts.batch;
    const int64_t size = (int64_t)model->n_operators * f->pricer->machine->n_devices;
    f->is_small = size <= SMALL_WORK;
    f->is_little = size <= LITTLE_WORK;
    bool is_mixed = f->n_used_kinds > 1;
    if (pipeline_may_plan(f))
        CLEAVE_TRY(is_mixed ? pipeline_plan_mixed(f) : pipeline_plan_shapes(f));
    /* Plans have what baselines have, and more, as far as formulas can tell, but groups of several
       kinds of devices. */
    if (f->planned.n == 0 || f->is_little || is_mixed)
        CLEAVE_TRY(pipeline_add_known(f));
    CLEAVE_TRY(pipeline_try_known(f));
    if (pipeline_may_plan(f) && !f->is_small)
        CLEAVE_TRY(pipeline_try_doubtful(f));
    return f->is_small && pipeline_may_plan(f) ? pipeline_polish(f) : CLEAVE_OK;
}

/* Stages that no equal groups of devices have, one or several each. */
static bool are_uncut(int32_t stages, int32_t n_devices) {
    bool cuts = stages <= 1;
    for (int32_t g = 2; g <= n_devices && !cuts; g++)
        cuts = n_devices % g == 0 && stages % g == 0;
    return !cuts;
}

/* Can stages go round: two groups or more, of two stages or more each, whose number divides that of
   micro-batches? */
static bool may_go_round(const cleave_schedule_wish *wish, int32_t n_devices) {
    bool may = false;
    for (int32_t g = 2; g <= n_devices && !may; g++)
        may = n_devices % g == 0 && wish->micro_batches % g == 0 && wish->stages % g == 0 &&
              wish->stages != g;
    return may;
}

/* For who asks for numbers that not even shapes can be made of. */
static void say_why_none(const pipeline_finder *f) {
    const cleave_schedule_wish *wish = &f->options->wish;
    const char *baseline = f->options->baseline != NULL ? f->options->baseline : "megatron";
    int32_t n_devices = f->pricer->machine->n_devices, group = wish->neighbours;
    char *why = f->found->why_none;
    const size_t bytes = sizeof f->found->why_none;
    bool is_data_parallel = strcmp(baseline, "data-parallel") == 0;
    if (group == 0)
        group = wish->tensor > 0 ? wish->tensor : 1;
    if (why[0] != '\0')
        return;
    if (!is_data_parallel && strcmp(baseline, "megatron") != 0)
        snprintf(why, bytes,
                 "method \"%s\" takes the whole batch at once, with all that is kept and no state "
                 "sharded; data-parallel and megatron can have more",
                 baseline);
    else if (is_data_parallel && (wish->tensor > 1 || cleave_schedule_wish_is_megatron(wish)))
        snprintf(why, bytes, "by method \"%s\" devices share no product, as by megatron", baseline);
    else if (n_devices % group != 0)
        snprintf(why, bytes, "%d devices can't be cut into groups of %d", n_devices, group);
    else if (are_uncut(wish->stages, n_devices / group))
        snprintf(why, bytes, "%d devices can't be cut into equal groups for %d stages", n_devices,
                 wish->stages);
    else if (wish->kind >= 0 && cleave_schedule_kind_goes_round((cleave_schedule_kind)wish->kind) &&
             !may_go_round(wish, n_devices / group))
        snprintf(why, bytes,
                 "it takes two groups of devices or more, of two stages or more each, whose number "
                 "divides that of micro-batches");
}

/* ", stages 3, micro-batches 2, schedule zb-h1, recompute full, zero 2" */
static void describe_wish(const cleave_schedule_wish *wish, char *text, size_t bytes) {
    const struct {
        const char *of;
        int32_t n, least;
    } wishes[] = {{"stages", wish->stages, 1},
                  {"virtual", wish->virtual_stages, 2},
                  {"tensor", wish->tensor, 1},
                  {"context", wish->context, 2},
                  {"expert", wish->expert, 2},
                  {"tensor x expert", wish->neighbours, 1},
                  {"micro-batches", wish->micro_batches, 1},
                  {"zero", wish->zero - 1, 0}};
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++)
        if (wishes[i].n >= wishes[i].least && at < bytes)
            at += (size_t)snprintf(text + at, bytes - at, ", %s %d", wishes[i].of, wishes[i].n);
    if (wish->kind >= 0 && at < bytes)
        at += (size_t)snprintf(text + at, bytes - at, ", schedule %s",
                               cleave_schedule_names[wish->kind]);
    if (wish->recompute >= 0 && at < bytes)
        snprintf(text + at, bytes - at, ", recompute %s", cleave_recompute_names[wish->recompute]);
}

cleave_status cleave_pipeline_search(cleave_pricer *pricer, cleave_node_costs *costs,
                                     const cleave_pipeline_options *options, cleave_arena *arena,
                                     cleave_pipelines *found, cleave_error *error) {
    *found = (cleave_pipelines){0};
    pipeline_finder f = {.pricer = pricer,
                         .costs = costs,
                         .options = options,
                         .arena = arena,
                         .most_lowered = INT64_MAX,
                         .found = found,
                         .error = error};
    cleave_status status = find(&f);
    bool none = found->n_tried == 0 && !pipeline_is_over(&f) &&
                (found->why_none[0] != '\0' || (f.known.n == 0 && f.planned.n == 0));
    if (none)
        say_why_none(&f);
    cleave_node_costs_destroy(f.few_costs);
    CLEAVE_LIST_FREE(&f.known);
    CLEAVE_LIST_FREE(&f.planned);
    CLEAVE_LIST_FREE(&f.numbers);
    CLEAVE_LIST_FREE(&f.starts);
    CLEAVE_LIST_FREE(&f.lessons);
    CLEAVE_LIST_FREE(&f.failed);
    CLEAVE_LIST_FREE(&f.known_lessons);
    CLEAVE_LIST_FREE(&f.cuts);
    cleave_arena_free(&f.work);
    CLEAVE_TRY(status);
    if (!none || cleave_schedule_wish_allows_plain(&options->wish))
        return CLEAVE_OK;
    char asked[256]; /* something is, or a plain one would do */
    describe_wish(&options->wish, asked, sizeof asked);
    return cleave_fail(error, CLEAVE_BAD_INPUT, "no layout is as it is asked for (%s)%s%s",
                       asked + 2, found->why_none[0] != '\0' ? ": " : "", found->why_none);
}
