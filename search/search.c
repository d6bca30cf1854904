/* The search: price the baselines, walk from each of them and from a random layout, and take the
   best of all by full simulation with collectives in their steps.

   Whatever the walks do, the best of the baselines stands among what is compared at the end, so a
   result of `auto` or `mcmc` is never worse than a baseline. */
#include "search/search.h"

#include "base/progress.h"
#include "search/bound.h"
#include "search/candidates.h"
#include "search/mcmc.h"
#include "search/price.h"

#include <stdio.h>
#include <string.h>

enum { MAX_BASELINES = 8, MAX_WALKS = MAX_BASELINES + 2, PROPOSALS_PER_OPERATOR = 250 };

typedef struct search {
    const cleave_model *model;
    const cleave_machine *machine;
    const cleave_search_options *options;
    cleave_arena *arena; /* of the result */
    cleave_arena work;
    cleave_pricer pricer;
    cleave_node_costs *costs;
    cleave_candidates candidates;
    cleave_collective_rules collectives; /* of every layout but a drawn one */
    cleave_progress progress;
    double started_seconds;
    cleave_search_result result;
    const cleave_layout
        *given[MAX_BASELINES + 1]; /* baselines that apply, whether or not they fit */
    bool given_fits[MAX_BASELINES + 1];
    int32_t n_given;
} search;

static bool interrupted(const search *s) {
    return s->options->interrupted != NULL && *s->options->interrupted != 0;
}

/* Prices a layout in full.  A plan that does not fit does not apply. */
static cleave_status make_plan(search *s, const char *method, const cleave_layout *layout,
                               cleave_plan *plan, cleave_error *error) {
    cleave_price price;
    CLEAVE_TRY(cleave_price_layout(&s->pricer, layout, true, &price, error));
    if (price.excess_bytes > 0)
        return CLEAVE_OK;
    cleave_plan result = {.method = method,
                          .applies = true,
                          .step_seconds = (double)price.step * 1e-12,
                          .peak_bytes = price.peak_bytes,
                          .bytes_sent = price.bytes_sent};
    CLEAVE_TRY(cleave_layout_copy(layout, s->model, s->arena, &result.layout, error));
    result.layout.predicted_step_seconds = result.step_seconds;
    snprintf(result.layout.machine, sizeof result.layout.machine, "%s", s->machine->name);
    snprintf(result.layout.method, sizeof result.layout.method, "%s", method);
    *plan = result;
    return CLEAVE_OK;
}

static void take_if_better(search *s, const cleave_plan *plan) {
    if (plan->applies &&
        (!s->result.best.applies || plan->step_seconds < s->result.best.step_seconds))
        s->result.best = *plan;
}

/* A layout that breaks a constraint is made to keep to it: it is that baseline no more, but a
   start. */
static cleave_status constrain(search *s, cleave_layout *layout, bool *keeps, cleave_error *error) {
    const cleave_constraints *constraints = s->options->constraints;
    *keeps = cleave_constraints_allow_layout(constraints, s->model, layout);
    if (!*keeps)
        layout->method[0] = '\0';
    return cleave_constraints_impose(constraints, s->model, layout, &s->work, error);
}

static cleave_status make_given(search *s, const char *name, cleave_layout **layout, bool *keeps,
                                cleave_error *error) {
    bool applies;
    *layout = CLEAVE_ARENA_ARRAY(&s->work, cleave_layout, 1);
    if (*layout == NULL)
        return cleave_fail_memory(error, "searching");
    CLEAVE_TRY(cleave_baseline_layout(s->model, s->machine, name, s->options->seed, &s->work,
                                      *layout, &applies, error));
    if (strcmp(name, "random") != 0)
        (*layout)->collectives = s->collectives;
    CLEAVE_TRY(constrain(s, *layout, keeps, error));
    if (!applies)
        *layout = NULL;
    else
        s->given[s->n_given++] = *layout;
    return CLEAVE_OK;
}

static cleave_status price_baselines(search *s, cleave_error *error) {
    int32_t n = 0;
    while (cleave_baseline_names[n] != NULL)
        n++;
    s->result.baselines = CLEAVE_ARENA_ARRAY(s->arena, cleave_plan, n);
    if (s->result.baselines == NULL)
        return cleave_fail_memory(error, "searching");
    s->result.n_baselines = n;
    for (int32_t i = 0; i < n; i++) {
        cleave_layout *layout;
        cleave_plan plan = {0};
        bool keeps;
        s->result.baselines[i].method = cleave_baseline_names[i];
        CLEAVE_TRY(make_given(s, cleave_baseline_names[i], &layout, &keeps, error));
        /* When interrupted, the first one that fits is enough. */
        bool skip = interrupted(s) && s->result.best.applies;
        if (layout == NULL || skip)
            continue;
        cleave_progress_update(&s->progress, -1, cleave_baseline_names[i]);
        CLEAVE_TRY(make_plan(s, keeps ? cleave_baseline_names[i] : s->options->method, layout,
                             &plan, error));
        s->given_fits[s->n_given - 1] = plan.applies;
        take_if_better(s, &plan);
        if (keeps && plan.applies)
            s->result.baselines[i] = plan;
    }
    return CLEAVE_OK;
}

/* Products a second of the kind of device d. */
static double product_rate(const cleave_machine *machine, int32_t d) {
    const cleave_device_kind *kind = &machine->kinds[machine->device_kind[d]];
    return kind->flops_per_second * kind->product_efficiency;
}

/* Of devices of several kinds the slowest sets the pace of even blocks, and one operator at a time
   the walks don't get away from it: so they also start from data parallel over those that are at
   least as quick as some device. */
static cleave_status add_quick_starts(search *s, cleave_error *error) {
    const cleave_machine *machine = s->machine;
    int32_t *quick = CLEAVE_ARENA_ARRAY(&s->work, int32_t, machine->n_devices);
    bool *seen = CLEAVE_ARENA_ARRAY(&s->work, bool, machine->n_kinds);
    if (quick == NULL || seen == NULL)
        return cleave_fail_memory(error, "searching");
    for (int32_t slowest = 0; slowest < machine->n_devices && s->n_given < MAX_BASELINES;
         slowest++) {
        int32_t n = 0;
        cleave_price price;
        if (seen[machine->device_kind[slowest]])
            continue;
        seen[machine->device_kind[slowest]] = true;
        for (int32_t d = 0; d < machine->n_devices; d++)
            if (product_rate(machine, d) >= product_rate(machine, slowest))
                quick[n++] = d;
        cleave_layout *layout = CLEAVE_ARENA_ARRAY(&s->work, cleave_layout, 1);
        if (layout == NULL)
            return cleave_fail_memory(error, "searching");
        if (n == machine->n_devices)
            continue; /* the baseline */
        CLEAVE_TRY(
            cleave_data_parallel_layout(s->model, machine, n, quick, &s->work, layout, error));
        layout->collectives = s->collectives;
        bool keeps;
        CLEAVE_TRY(constrain(s, layout, &keeps, error));
        CLEAVE_TRY(cleave_price_layout(&s->pricer, layout, false, &price, error));
        s->given_fits[s->n_given] = price.excess_bytes == 0;
        s->given[s->n_given++] = layout;
    }
    return CLEAVE_OK;
}

/* Collectives in closed form are within some percent of their steps.  What is far behind even so is
   not worth the larger program that has them in steps. */
static bool is_promising(const search *s, const cleave_price *price) {
    return price->excess_bytes == 0 &&
           (!s->result.best.applies ||
            (double)price->step * 1e-12 < 1.25 * s->result.best.step_seconds);
}

/* The baselines and a random layout; where one of them fits, only those that do. */
static cleave_status collect_starts(search *s, cleave_mcmc *mcmc, const cleave_layout **starts,
                                    int32_t *n_starts, cleave_error *error) {
    cleave_price price;
    cleave_layout *random = CLEAVE_ARENA_ARRAY(&s->work, cleave_layout, 1);
    if (random == NULL)
        return cleave_fail_memory(error, "searching");
    *n_starts = 0;
    for (int32_t g = 0; g < s->n_given; g++)
        if (s->given_fits[g] || !s->result.best.applies)
            starts[(*n_starts)++] = s->given[g];
    CLEAVE_TRY(cleave_mcmc_random_start(mcmc, s->given[0], &s->work, random, error));
    CLEAVE_TRY(
        cleave_constraints_impose(s->options->constraints, s->model, random, &s->work, error));
    CLEAVE_TRY(cleave_price_layout(&s->pricer, random, false, &price, error));
    if (price.excess_bytes == 0 || !s->result.best.applies)
        starts[(*n_starts)++] = random;
    return CLEAVE_OK;
}

/* One walk for each start and one from the best of them all.  Each gets an equal share of what is
   left, so that what one leaves goes to the others. */
static cleave_status walk_all(search *s, cleave_mcmc *mcmc, cleave_error *error) {
    cleave_layout found[MAX_WALKS];
    cleave_price prices[MAX_WALKS];
    const cleave_layout *starts[MAX_WALKS];
    int32_t n = 0, best = 0;
    CLEAVE_TRY(collect_starts(s, mcmc, starts, &n, error));
    for (int32_t i = 0; i <= n && !interrupted(s); i++) {
        int64_t left = mcmc->most_proposals - mcmc->proposals;
        double elapsed = cleave_clock_seconds() - mcmc->started_seconds;
        cleave_mcmc_budget budget = {0};
        if (mcmc->most_proposals > 0)
            budget.proposals = (left + n - i) / (n + 1 - i);
        if (mcmc->time_seconds > 0)
            budget.seconds = (mcmc->time_seconds - elapsed) / (n + 1 - i);
        if ((mcmc->most_proposals > 0 && budget.proposals <= 0) ||
            (mcmc->time_seconds > 0 && budget.seconds <= 0))
            break;
        CLEAVE_TRY(cleave_mcmc_walk(mcmc, i < n ? starts[i] : &found[best], budget, &s->work,
                                    &found[i], &prices[i], error));
        cleave_plan plan = {0};
        if (is_promising(s, &prices[i]))
            CLEAVE_TRY(make_plan(s, "mcmc", &found[i], &plan, error));
        take_if_better(s, &plan);
        bool closer = prices[i].excess_bytes < prices[best].excess_bytes ||
                      (prices[i].excess_bytes == 0 && prices[i].step < prices[best].step);
        best = i > 0 && closer ? i : best;
    }
    return CLEAVE_OK;
}

static cleave_status walk(search *s, cleave_error *error) {
    cleave_mcmc mcmc = {.pricer = &s->pricer,
                        .candidates = &s->candidates,
                        .interrupted = s->options->interrupted,
                        .progress = &s->progress,
                        .started_seconds = s->started_seconds,
                        .time_seconds = s->options->time_seconds,
                        .most_proposals = s->options->proposals};
    mcmc.random.key = cleave_hash_join(s->options->seed, cleave_hash_string("mcmc"));
    if (mcmc.time_seconds <= 0 && mcmc.most_proposals <= 0)
        mcmc.most_proposals = (int64_t)PROPOSALS_PER_OPERATOR * s->model->n_operators;
    CLEAVE_TRY(walk_all(s, &mcmc, error));
    s->result.proposals = mcmc.proposals;
    s->result.accepted = mcmc.accepted;
    return CLEAVE_OK;
}

static cleave_status bound(search *s, cleave_error *error) {
    CLEAVE_TRY(cleave_node_costs_create(s->model, s->machine, &s->costs, error));
    const cleave_candidate_space space = {s->given, s->n_given, s->options->constraints};
    CLEAVE_TRY(cleave_candidates_create_within(s->model, s->machine, s->costs, &space, &s->work,
                                               &s->candidates, error));
    s->result.truncated = s->candidates.truncated;
    return cleave_lower_bound(s->model, s->machine, &s->candidates, s->options->optimizer_states,
                              &s->result.lower_bound_seconds, error);
}

/* The methods that are no search: the best is that one plan. */
static cleave_status take_one(search *s, const char *method, cleave_error *error) {
    cleave_plan plan = {0};
    for (int32_t i = 0; i < s->result.n_baselines; i++)
        if (strcmp(cleave_baseline_names[i], method) == 0)
            plan = s->result.baselines[i];
    if (strcmp(method, "random") == 0) {
        cleave_layout *layout;
        bool keeps;
        CLEAVE_TRY(make_given(s, method, &layout, &keeps, error));
        CLEAVE_TRY(make_plan(s, "random", layout, &plan, error));
    }
    s->result.best = plan;
    return CLEAVE_OK;
}

static bool is_method(const char *method) {
    for (int i = 0; cleave_baseline_names[i] != NULL; i++)
        if (strcmp(cleave_baseline_names[i], method) == 0)
            return true;
    return strcmp(method, "auto") == 0 || strcmp(method, "mcmc") == 0 ||
           strcmp(method, "random") == 0;
}

static cleave_status fail_nothing_fits(const search *s, cleave_error *error) {
    char least[32], limit[32], under[512];
    int64_t limit_bytes = s->options->memory_limit_bytes;
    for (int32_t k = 0; k < s->machine->n_kinds && s->options->memory_limit_bytes <= 0; k++)
        if (s->machine->kinds[k].memory_bytes > limit_bytes)
            limit_bytes = s->machine->kinds[k].memory_bytes;
    cleave_unit_format((double)s->pricer.least_peak_bytes, CLEAVE_UNIT_BYTES, least, sizeof least);
    cleave_unit_format((double)limit_bytes, CLEAVE_UNIT_BYTES, limit, sizeof limit);
    cleave_constraints_describe(s->options->constraints, under, sizeof under);
    return cleave_fail(error, CLEAVE_NO_LAYOUT,
                       "no layout fits in %s of memory per device%s: the least that any of %lld "
                       "layouts tried needs is %s",
                       limit, under, (long long)s->pricer.n_priced, least);
}

/* Leaves in the result what rules its own collectives run by. */
static cleave_status keep_used_rules(search *s, cleave_error *error) {
    cleave_collective_rules *rules = &s->result.best.layout.collectives;
    CLEAVE_TRY(cleave_collective_rules_copy(rules, s->arena, rules, error));
    cleave_lower_options options = s->pricer.lower;
    cleave_program program;
    options.symbolic_collectives = true;
    cleave_arena_free(&s->pricer.arena);
    CLEAVE_TRY(cleave_lower(s->model, &s->result.best.layout, &options, &s->pricer.arena, &program,
                            error));
    bool *used = CLEAVE_ARENA_ARRAY(&s->work, bool, rules->n);
    if (used == NULL)
        return cleave_fail_memory(error, "searching");
    for (int32_t c = 0; c < program.n_collectives; c++) {
        const cleave_collective *of = &program.collectives[c];
        int32_t rule =
            cleave_collective_rules_find(rules, of->kind, of->n_devices, of->devices, of->bytes);
        if (rule >= 0)
            used[rule] = true;
    }
    int32_t n = 0;
    for (int32_t r = 0; r < rules->n; r++)
        if (used[r])
            rules->items[n++] = rules->items[r];
    rules->n = n;
    return CLEAVE_OK;
}

static cleave_status run(search *s, cleave_error *error) {
    const char *method = s->options->method;
    bool searches = strcmp(method, "auto") == 0 || strcmp(method, "mcmc") == 0;
    CLEAVE_TRY(cleave_constraints_check_memory(s->options->constraints, s->model, s->machine,
                                               s->options->memory_limit_bytes, error));
    CLEAVE_TRY(cleave_pricer_create(s->model, s->machine, s->options, &s->pricer, error));
    CLEAVE_TRY(cleave_choose_collectives(s->machine, false, &s->work, &s->collectives, error));
    CLEAVE_TRY(price_baselines(s, error));
    if (searches)
        CLEAVE_TRY(add_quick_starts(s, error));
    else
        CLEAVE_TRY(take_one(s, method, error));
    CLEAVE_TRY(bound(s, error));
    if (searches)
        CLEAVE_TRY(walk(s, error));
    if (s->result.best.applies)
        return keep_used_rules(s, error);
    for (int32_t i = 0; i < s->n_given; i++)
        if (searches || strcmp(s->given[i]->method, method) == 0)
            return fail_nothing_fits(s, error);
    char under[512];
    cleave_constraints_describe(s->options->constraints, under, sizeof under);
    return cleave_fail(error, CLEAVE_NO_LAYOUT, "method \"%s\" does not apply to %s%s", method,
                       s->model->file, under);
}

cleave_status cleave_search(const cleave_model *model, const cleave_machine *machine,
                            const cleave_search_options *options, cleave_arena *arena,
                            cleave_search_result *result, cleave_error *error) {
    if (!is_method(options->method))
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "method \"%s\" is not known: it is auto, mcmc, random, data-parallel, "
                           "single, layer-per-device, one-weird-trick or megatron",
                           options->method);
    search s = {.model = model, .machine = machine, .options = options, .arena = arena};
    s.started_seconds = cleave_clock_seconds();
    cleave_progress_begin(&s.progress, "searching", options->quiet);
    cleave_status status = run(&s, error);
    cleave_progress_end(&s.progress, NULL);
    cleave_node_costs_destroy(s.costs);
    cleave_pricer_destroy(&s.pricer);
    cleave_arena_free(&s.work);
    if (status != CLEAVE_OK)
        return status;
    s.result.search_seconds = cleave_clock_seconds() - s.started_seconds;
    *result = s.result;
    return CLEAVE_OK;
}
