/* One baseline is made, priced and forgotten after the other: a layout lists every device for every
   operator, and of thousands of devices and operators there is room for few. */
#include "search/many.h"

#include "base/progress.h"
#include "base/units.h"
#include "search/bound/bound.h"
#include "search/improve/window.h"
#include "search/price/repeat.h"
#include "search/price/used_rules.h"
#include "search/problem/space.h"

#include <stdio.h>
#include <string.h>

/* Parts of all operators, beyond which a layout that does not fold is not priced. */
enum { MOST_PARTS = 1 << 12 };
/* Operators x devices up to which all devices are lowered where nothing folds: half a minute and
   3 GiB. */
enum { MOST_LOWERED_PARTS = 1 << 15 };

typedef struct many_search {
    const cleave_model *model;
    const cleave_machine *machine;
    const cleave_search_options *options;
    cleave_arena *arena; /* of the result */
    cleave_arena work;
    cleave_pricer pricer;
    cleave_collective_rules rules;
    cleave_problem problem;
    cleave_node_costs *costs;
    cleave_candidates candidates; /* of the bound: the largest windows, and baselines */
    cleave_progress progress;
    double started_seconds;
    cleave_search_result result;
    int32_t n_applied; /* baselines that apply, priced or not */
} many_search;

/* Methods that are no baseline are all this one. */
static bool searches(const cleave_search_options *options) {
    for (int b = 0; cleave_baseline_names[b] != NULL; b++)
        if (strcmp(options->method, cleave_baseline_names[b]) == 0)
            return false;
    return true;
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* Splits on the same devices share one list of them. */
static cleave_status copy_sharing(const many_search *s, const cleave_layout *layout,
                                  cleave_layout *copy, cleave_error *error) {
    cleave_layout made;
    const int32_t *before = NULL, *shared = NULL;
    int32_t n_before = 0;
    CLEAVE_TRY(cleave_layout_create(s->model, layout->n_devices, s->arena, &made, error));
    for (int32_t op = 0; op < layout->n_operators; op++) {
        const cleave_split *split = &layout->splits[op];
        size_t bytes = (size_t)split->n_parts * sizeof *split->devices;
        if (before == NULL || split->n_parts > n_before ||
            memcmp(before, split->devices, bytes) != 0) {
            int32_t *devices = CLEAVE_ARENA_ARRAY(s->arena, int32_t, split->n_parts);
            if (devices == NULL)
                return cleave_fail_memory(error, "searching");
            memcpy(devices, split->devices, bytes);
            before = split->devices;
            n_before = split->n_parts;
            shared = devices;
        }
        made.splits[op] = *split;
        made.splits[op].devices = (int32_t *)(uintptr_t)shared;
    }
    memcpy(made.sharded, layout->sharded, (size_t)s->model->n_tensors * sizeof *made.sharded);
    CLEAVE_TRY(
        cleave_collective_rules_copy(&layout->collectives, s->arena, &made.collectives, error));
    *copy = made;
    return CLEAVE_OK;
}

static cleave_status take_if_better(many_search *s, const cleave_layout *layout,
                                    const cleave_plan *plan, cleave_error *error) {
    if (!plan->applies ||
        (s->result.best.applies && plan->step_seconds >= s->result.best.step_seconds))
        return CLEAVE_OK;
    cleave_plan best = *plan;
    CLEAVE_TRY(copy_sharing(s, layout, &best.layout, error));
    best.layout.predicted_step_seconds = best.step_seconds;
    snprintf(best.layout.machine, sizeof best.layout.machine, "%s", s->machine->name);
    snprintf(best.layout.method, sizeof best.layout.method, "%s", best.method);
    s->result.best = best;
    return CLEAVE_OK;
}

static void fill_plan(const cleave_price *price, const char *method, cleave_plan *plan) {
    *plan = (cleave_plan){.method = method, .applies = price->excess_bytes == 0};
    if (!plan->applies)
        return;
    plan->step_seconds = (double)price->step * 1e-12;
    plan->peak_bytes = price->peak_bytes;
    plan->bytes_sent = price->bytes_sent;
}

/* ---- baselines ------------------------------------------------------------------------------- */

/* Folded, or in full where that takes no more than a few seconds; else the plan says why not. */
static cleave_status price_baseline(many_search *s, const char *name, const cleave_layout *layout,
                                    cleave_plan *plan, cleave_error *error) {
    cleave_price price;
    int64_t n_parts = 0;
    *plan = (cleave_plan){.method = name};
    cleave_status status = cleave_price_folded(&s->pricer, layout, &price, error);
    for (int32_t op = 0; op < layout->n_operators; op++)
        n_parts += layout->splits[op].n_parts;
    if (status == CLEAVE_NO_LAYOUT && n_parts > MOST_PARTS + layout->n_operators) {
        plan->unpriced = cleave_arena_printf(
            s->arena, "it does not fold (%s) and has %lld parts, too many to price them all",
            error->message, (long long)n_parts);
        return plan->unpriced != NULL ? CLEAVE_OK : cleave_fail_memory(error, "searching");
    }
    if (status == CLEAVE_NO_LAYOUT)
        status = cleave_price_all_devices(&s->pricer, layout, &price, error);
    CLEAVE_TRY(status);
    fill_plan(&price, name, plan);
    return CLEAVE_OK;
}

static cleave_status try_baseline(many_search *s, const char *name, cleave_plan *plan,
                                  cleave_arena *scratch, cleave_error *error) {
    cleave_layout layout;
    bool applies;
    plan->method = name;
    CLEAVE_TRY(cleave_baseline_layout(s->model, s->machine, name, s->options->seed, scratch,
                                      &layout, &applies, error));
    if (!applies || !cleave_constraints_allow_layout(s->options->constraints, s->model, &layout))
        return CLEAVE_OK;
    s->n_applied++;
    layout.collectives = s->rules;
    CLEAVE_TRY(cleave_candidates_add_ways(s->costs, &layout, &s->work, &s->candidates, error));
    CLEAVE_TRY(price_baseline(s, name, &layout, plan, error));
    if (!searches(s->options) && strcmp(s->options->method, name) != 0)
        return CLEAVE_OK;
    return take_if_better(s, &layout, plan, error);
}

static cleave_status try_baselines(many_search *s, cleave_error *error) {
    CLEAVE_TRY(cleave_search_result_list_baselines(&s->result, s->arena, error));
    for (int32_t i = 0; i < s->result.n_baselines; i++) {
        cleave_arena scratch = {0};
        cleave_progress_update(&s->progress, -1, cleave_baseline_names[i]);
        cleave_status status =
            try_baseline(s, cleave_baseline_names[i], &s->result.baselines[i], &scratch, error);
        cleave_arena_free(&scratch);
        CLEAVE_TRY(status);
    }
    return CLEAVE_OK;
}

/* ---- the search ------------------------------------------------------------------------------ */

/* Do constraints leave layouts that fold? */
static cleave_status find_folds(const cleave_model *model, const cleave_machine *machine,
                                const cleave_search_options *options, bool *folds,
                                cleave_error *error) {
    cleave_arena scratch = {0};
    cleave_problem problem;
    cleave_candidates candidates;
    cleave_status status =
        cleave_problem_create(model, machine, options->constraints, &scratch, &problem, error);
    if (status == CLEAVE_OK)
        status = cleave_candidates_list_windows(&problem, cleave_window_largest(machine), &scratch,
                                                &candidates, error);
    cleave_arena_free(&scratch);
    *folds = status == CLEAVE_OK;
    return status == CLEAVE_NO_LAYOUT ? CLEAVE_OK : status;
}

cleave_status cleave_search_is_many(const cleave_model *model, const cleave_machine *machine,
                                    const cleave_search_options *options, bool *is_many,
                                    cleave_error *error) {
    *is_many = machine->n_devices > CLEAVE_MOST_LOWERED && strcmp(options->method, "random") != 0 &&
               cleave_machine_may_fold(machine, NULL);
    const cleave_constraints *c = options->constraints;
    bool constrains = c != NULL && (c->n_fixed > 0 || c->sorts != 0);
    bool can_lower = (int64_t)model->n_operators * machine->n_devices <= MOST_LOWERED_PARTS;
    if (*is_many && can_lower && constrains && searches(options))
        return find_folds(model, machine, options, is_many, error);
    return CLEAVE_OK;
}

static cleave_status begin_bound(many_search *s, cleave_error *error) {
    int32_t window_devices = cleave_window_largest(s->machine);
    CLEAVE_TRY(cleave_node_costs_create(s->model, s->machine, &s->costs, error));
    cleave_status status = cleave_candidates_list_windows(&s->problem, window_devices, &s->work,
                                                          &s->candidates, error);
    if (status == CLEAVE_NO_LAYOUT)
        return cleave_candidates_begin(&s->problem, &s->work, &s->candidates, error);
    CLEAVE_TRY(status);
    return cleave_candidates_price_windows(s->costs, window_devices, &s->work, &s->candidates,
                                           error);
}

/* The error says why no window was found. */
static cleave_status fail_without_window(const many_search *s, cleave_error *error) {
    char under[300];
    cleave_error why = {""};
    if (error != NULL)
        why = *error;
    cleave_constraints_describe(s->options->constraints, under, sizeof under);
    return cleave_fail(
        error, CLEAVE_NO_LAYOUT,
        "%s%s; layouts that don't fold are searched for up to %d operators x devices, "
        "and here are %d x %d",
        why.message, under, (int)MOST_LOWERED_PARTS, s->model->n_operators, s->machine->n_devices);
}

static cleave_status search_windows(many_search *s, cleave_error *error) {
    cleave_window_found found;
    const cleave_window_options options = {
        .most_proposals = s->options->proposals,
        .until_seconds =
            s->options->time_seconds > 0 ? s->started_seconds + s->options->time_seconds : 0,
        .interrupted = s->options->interrupted};
    cleave_progress_update(&s->progress, -1, "windows");
    cleave_status status =
        cleave_window_search(&s->problem, &s->pricer, &s->rules, &options, &s->work, &found, error);
    if (status == CLEAVE_NO_LAYOUT)
        return s->result.best.applies ? CLEAVE_OK : fail_without_window(s, error);
    CLEAVE_TRY(status);
    cleave_plan plan;
    fill_plan(&found.price, s->options->method, &plan);
    s->result.proposals = found.proposals;
    return take_if_better(s, &found.layout, &plan, error);
}

/* A program that has a collective of each sort that the layout's has. */
static cleave_status lower_sorts(many_search *s, const cleave_layout *layout,
                                 cleave_program *program, cleave_error *error) {
    bool known = false;
    for (int folded = 1; folded >= 0 && s->pricer.repeats != NULL && !known; folded--)
        CLEAVE_TRY(cleave_repeats_lower(s->pricer.repeats, layout, folded, &known, program, error));
    return known ? CLEAVE_OK : cleave_lower_closed_form(&s->pricer, layout, program, error);
}

/* Leaves in the layout the rules that its own collectives run by. */
static cleave_status keep_used_rules(many_search *s, cleave_error *error) {
    cleave_layout *layout = &s->result.best.layout;
    cleave_program program;
    CLEAVE_TRY(lower_sorts(s, layout, &program, error));
    return cleave_keep_used_rules(&program, &s->work, &layout->collectives, error);
}

static cleave_status fail_without_plan(const many_search *s, cleave_error *error) {
    char least[32], under[300];
    cleave_constraints_describe(s->options->constraints, under, sizeof under);
    if (s->pricer.least_peak_bytes == INT64_MAX)
        return cleave_fail(error, CLEAVE_NO_LAYOUT,
                           "method \"%s\" gives no layout of %s on %d devices that can be priced%s",
                           s->options->method, s->model->file, s->machine->n_devices, under);
    cleave_unit_format((double)s->pricer.least_peak_bytes, CLEAVE_UNIT_BYTES, least, sizeof least);
    return cleave_fail(error, CLEAVE_NO_LAYOUT,
                       "no layout fits in the memory of a device: the least that any of %lld "
                       "layouts tried needs is %s%s",
                       (long long)s->pricer.n_priced, least, under);
}

static cleave_status run(many_search *s, cleave_error *error) {
    CLEAVE_TRY(cleave_constraints_check_memory(s->options->constraints, s->model, s->machine,
                                               s->options->memory_limit_bytes, error));
    CLEAVE_TRY(cleave_pricer_create(s->model, s->machine, s->options, &s->pricer, error));
    CLEAVE_TRY(cleave_choose_collectives(s->machine, false, &s->work, &s->rules, error));
    CLEAVE_TRY(cleave_problem_create(s->model, s->machine, s->options->constraints, &s->work,
                                     &s->problem, error));
    CLEAVE_TRY(cleave_repeats_create(&s->pricer, &s->problem.blocks, &s->pricer.repeats, error));
    CLEAVE_TRY(begin_bound(s, error));
    CLEAVE_TRY(try_baselines(s, error));
    if (searches(s->options))
        CLEAVE_TRY(search_windows(s, error));
    if (!s->result.best.applies)
        return fail_without_plan(s, error);
    cleave_bound bound;
    CLEAVE_TRY(cleave_lower_bound_of(s->model, s->machine, &s->candidates,
                                     s->options->optimizer_states, CLEAVE_BOUND_FOLDED, &bound,
                                     error));
    s->result.lower_bound_seconds = bound.seconds;
    return keep_used_rules(s, error);
}

cleave_status cleave_search_many(const cleave_model *model, const cleave_machine *machine,
                                 const cleave_search_options *options, cleave_arena *arena,
                                 cleave_search_result *result, cleave_error *error) {
    /* Operators that are alike share what they may be split into where nobody said otherwise. */
    const cleave_constraints *given = options->constraints;
    cleave_search_options own = *options;
    if (given != NULL && given->fixed == NULL && given->sorts == 0)
        own.constraints = NULL;
    many_search s = {.model = model, .machine = machine, .options = &own, .arena = arena};
    s.started_seconds = cleave_clock_seconds();
    cleave_progress_begin(&s.progress, "searching", options->quiet);
    cleave_status status = run(&s, error);
    cleave_progress_end(&s.progress, NULL);
    cleave_node_costs_destroy(s.costs);
    cleave_repeats_destroy(s.pricer.repeats);
    cleave_pricer_destroy(&s.pricer);
    cleave_arena_free(&s.work);
    if (status != CLEAVE_OK)
        return status;
    s.result.search_seconds = cleave_clock_seconds() - s.started_seconds;
    *result = s.result;
    return CLEAVE_OK;
}
