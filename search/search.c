/* The search: price what is known by name, search by the method, and take the best of all by full
   simulation with collectives in their steps (search/report.c). */
#include "search/bound/least_memory.h"
#include "search/price/repeat.h"
#include "search/problem/space.h"
#include "search/session.h"

#include <math.h>
#include <string.h>

bool session_interrupted(const session *s) {
    return s->options->interrupted != NULL && *s->options->interrupted != 0;
}

/* Of the time of a search for throughput: methods go by the time of one batch, and stages, which
   are looked for after them, are mostly what is best. */
static const double share_of_methods = 0.5;

double session_seconds_left(const session *s) {
    if (s->options->time_seconds <= 0)
        return 0;
    bool is_first = s->options->throughput && (s->pricer == NULL || !s->pricer->is_stream);
    double left = s->started_seconds +
                  s->options->time_seconds * (is_first ? share_of_methods : 1) - s->report_seconds -
                  s->stage_seconds - cleave_clock_seconds();
    return left > 1e-6 ? left : 1e-6;
}

/* ---- methods --------------------------------------------------------------------------------- */

/* Methods that search; the others are layouts known by name. */
static const struct {
    const char *name;
    bool solves; /* the additive model, before it is run */
    cleave_status (*run)(session *s, cleave_error *error);
} methods[] = {{"auto", true, session_refine},
               {"exact", false, session_solve},
               {"mcmc", false, session_walk},
               {"branch-and-bound", true, session_certify}};
enum { N_METHODS = sizeof methods / sizeof methods[0] };

static int find_method(const char *name) {
    for (int m = 0; m < N_METHODS; m++)
        if (strcmp(methods[m].name, name) == 0)
            return m;
    return -1;
}

bool session_searches(const session *s) { return find_method(s->options->method) >= 0; }

bool session_is_alone(const session *s) { return s->options->alone && !session_searches(s); }

cleave_bound_forms session_reported_forms(const session *s) {
    return s->reach.only_folds                            ? CLEAVE_BOUND_FOLDED
           : cleave_machine_knows_collectives(s->machine) ? CLEAVE_BOUND_ALL_FORMS
                                                          : CLEAVE_BOUND_STEPS;
}

static bool is_method(const char *method) {
    for (int i = 0; cleave_baseline_names[i] != NULL; i++)
        if (strcmp(cleave_baseline_names[i], method) == 0)
            return true;
    return find_method(method) >= 0 || strcmp(method, "random") == 0;
}

/* ---- running --------------------------------------------------------------------------------- */

/* The rest of the space, and a bound of it. */
static cleave_status bound_all(session *s, cleave_bound *bound, cleave_error *error) {
    const cleave_layout *given[SESSION_MAX_GIVEN];
    for (int32_t g = 0; g < s->n_given; g++)
        given[g] = s->given[g].layout;
    CLEAVE_TRY(cleave_candidates_add(&s->problem, s->costs, given, s->n_given, &s->space,
                                     &s->candidates, error));
    s->result.truncated = s->candidates.truncated;
    return cleave_lower_bound_of(s->model, s->machine, &s->candidates, s->options->optimizer_states,
                                 session_reported_forms(s), bound, error);
}

/* Where nothing else than layouts that fold is searched. */
static cleave_status bound_folds(session *s, cleave_bound *bound, cleave_error *error) {
    CLEAVE_TRY(cleave_node_costs_create(s->model, s->machine, &s->costs, error));
    if (s->reach.has_windows)
        CLEAVE_TRY(cleave_candidates_price_windows(s->costs, cleave_window_largest(s->machine),
                                                   &s->space, &s->candidates, error));
    else
        CLEAVE_TRY(cleave_candidates_begin(&s->problem, &s->space, &s->candidates, error));
    bool has_layouts = s->reach.has_windows;
    for (int32_t g = 0; g < s->n_given; g++) {
        if (s->given[g].method == NULL) /* it is of the space */
            continue;
        has_layouts = true;
        CLEAVE_TRY(cleave_candidates_add_ways(s->costs, s->given[g].layout, &s->space,
                                              &s->candidates, error));
    }
    if (!has_layouts)
        return CLEAVE_OK;
    return cleave_lower_bound_of(s->model, s->machine, &s->candidates, s->options->optimizer_states,
                                 CLEAVE_BOUND_FOLDED, bound, error);
}

static cleave_status prepare(session *s, cleave_error *error) {
    cleave_bound bound = {0};
    if (!session_is_alone(s))
        CLEAVE_TRY(s->reach.only_folds ? bound_folds(s, &bound, error)
                                       : bound_all(s, &bound, error));
    s->result.lower_bound_seconds = bound.seconds;
    s->result.bound_binds = bound.binds;
    return CLEAVE_OK;
}

/* Of the time of a search, for its last descent; and for stages, which end by themselves, so many
   times what a full simulation takes, but at most so much. */
static const double polish_share = 0.2, simulations_of_stages = 200, share_of_stages = 0.5;

/* How long the report will take, from one full simulation of a layout that it is about anyway: so
   that a search whose time is limited ends in time. */
static cleave_status foresee_report(session *s, cleave_error *error) {
    if (s->options->time_seconds <= 0 || s->n_given == 0 || s->reach.only_folds)
        return CLEAVE_OK;
    session_given *first = &s->given[0];
    const cleave_price *best = &first->price;
    double started = cleave_clock_seconds();
    const cleave_price_subject what = {.layout = first->layout, .in_steps = true};
    CLEAVE_TRY(cleave_pricer_price(s->pricer, &what, NULL, &first->full, error));
    first->has_full = true;
    cleave_arena_free(&s->pricer->arena);
    int32_t n = CLEAVE_MOST_IMPROVED; /* where programs are large no more are simulated */
    for (int32_t g = 0; g < s->n_given; g++)
        best = cleave_price_better(&s->given[g].price, best) ? &s->given[g].price : best;
    for (int32_t g = 1; g < s->n_given; g++)
        n += !cleave_price_is_far_behind(&s->given[g].price, best);
    /* What is found is about as large as data parallel; threads share it, but unevenly. */
    double each = cleave_clock_seconds() - started;
    s->report_seconds = each * n / (s->n_threads > 1 ? 1.5 : 1);
    if (session_polishes(s))
        s->polish_seconds = polish_share * s->options->time_seconds;
    if (session_stages(s) && !s->options->throughput)
        s->stage_seconds =
            fmin(simulations_of_stages * each, share_of_stages * s->options->time_seconds);
    s->report_seconds += s->polish_seconds;
    return CLEAVE_OK;
}

/* One for each worker, and one for the calling thread: the same where there are no others. */
static cleave_status create_pricers(session *s, cleave_error *error) {
    int32_t n = s->n_threads > 1 ? s->n_threads + 1 : 1;
    s->pricers = CLEAVE_ARENA_ARRAY(&s->work, cleave_pricer, n);
    if (s->pricers == NULL)
        return cleave_fail_memory(error, "searching");
    for (; s->n_pricers < n; s->n_pricers++)
        CLEAVE_TRY(cleave_pricer_create(s->model, s->machine, s->options->optimizer_states,
                                        s->options->memory_limit_bytes, &s->pricers[s->n_pricers],
                                        error));
    s->pricer = &s->pricers[n - 1];
    for (int32_t i = 0; i < n && session_is_alone(s); i++) /* of one layout all can be lowered */
        cleave_pricer_lower_all(&s->pricers[i]);
    if (!s->reach.only_folds || session_is_alone(s))
        return CLEAVE_OK;
    return cleave_repeats_create(s->pricer, &s->problem.blocks, &s->pricer->repeats, error);
}

int64_t session_n_priced(const session *s) {
    int64_t n = 0;
    for (int32_t i = 0; i < s->n_pricers; i++)
        n += s->pricers[i].n_priced;
    return n;
}

/* What has to be known before a method is run. */
static cleave_status begin(session *s, cleave_error *error) {
    int method = find_method(s->options->method);
    CLEAVE_TRY(prepare(s, error));
    if (method < 0 || s->reach.only_folds)
        return CLEAVE_OK;
    CLEAVE_TRY(foresee_report(s, error));
    /* Where nothing can fit, the additive model gives a lean layout to name. */
    bool solves = methods[method].solves && !session_interrupted(s) &&
                  cleave_schedule_wish_allows_plain(session_wish(s));
    return solves || session_is_hopeless(s) ? session_solve(s, error) : CLEAVE_OK;
}

/* Only what takes long leaves a state: who asks for one elsewhere is told, not left without. */
static cleave_status check_resume(const session *s, cleave_error *error) {
    if (s->options->resume_file == NULL)
        return CLEAVE_OK;
    if (strcmp(s->options->method, "auto") != 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "a search can be resumed by method auto alone, not by %s",
                           s->options->method);
    if (s->reach.only_folds)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "a search on %d devices can't be resumed: it looks at layouts that fold "
                           "alone, and leaves no state",
                           s->machine->n_devices);
    if (!cleave_schedule_wish_allows_plain(session_wish(s)))
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "a search can't be resumed where nothing but stages and micro-batches "
                           "is looked for: that part leaves no state");
    return CLEAVE_OK;
}

static cleave_status run(session *s, cleave_error *error) {
    int method = find_method(s->options->method);
    CLEAVE_TRY(cleave_constraints_check_memory(s->constraints, s->model, s->machine,
                                               s->options->memory_limit_bytes, error));
    CLEAVE_TRY(
        cleave_problem_create(s->model, s->machine, s->constraints, &s->work, &s->problem, error));
    s->most_bytes = cleave_most_memory(s->machine, s->options->memory_limit_bytes);
    CLEAVE_TRY(cleave_least_memory(s->model, s->options->optimizer_states, &s->least_bytes, error));
    CLEAVE_TRY(session_find_reach(s, error));
    CLEAVE_TRY(check_resume(s, error));
    CLEAVE_TRY(create_pricers(s, error));
    CLEAVE_TRY(cleave_choose_collectives(s->machine, false, &s->work, &s->collectives, error));
    CLEAVE_TRY(session_add_givens(s, error));
    CLEAVE_TRY(method >= 0 ? session_report_ahead(s, begin, error) : begin(s, error));
    bool allows_plain = cleave_schedule_wish_allows_plain(session_wish(s));
    if (method >= 0 && !s->reach.only_folds && !session_is_hopeless(s) && allows_plain)
        CLEAVE_TRY(methods[method].run(s, error));
    CLEAVE_TRY(session_begin_stream(s, error));
    CLEAVE_TRY(session_add_late_givens(s, error));
    s->stage_seconds = 0;
    CLEAVE_TRY(session_stage(s, error));
    CLEAVE_TRY(session_add_known(s, error));
    CLEAVE_TRY(session_report(s, error));
    CLEAVE_TRY(session_bound_staged(s, error));
    return s->result.best.applies ? CLEAVE_OK : session_fail_nothing_fits(s, error);
}

static void end(session *s) {
    cleave_progress_end(&s->progress);
    cleave_node_costs_destroy(s->costs);
    CLEAVE_LIST_FREE(&s->priced);
    for (int32_t i = 0; i < s->n_pricers; i++) {
        cleave_repeats_destroy(s->pricers[i].repeats);
        cleave_pricer_destroy(&s->pricers[i]);
    }
    cleave_arena_free(&s->space);
    cleave_arena_free(&s->work);
}

/* A method that says by its name what is sharded can't be told otherwise. */
static cleave_status check_zero(const cleave_search_options *options, cleave_error *error) {
    if (!session_is_told_otherwise(options->method, options->schedule))
        return CLEAVE_OK;
    return cleave_fail(error, CLEAVE_BAD_INPUT, "method %s is one of zero %d, not of zero %d",
                       options->method, (int)cleave_baseline_shards(options->method),
                       options->schedule->zero - 1);
}

/* What goes with the kind of step. */
static cleave_status check_step(const cleave_model *model, const cleave_search_options *options,
                                cleave_error *error) {
    const cleave_schedule_wish *wish = options->schedule;
    if (cleave_model_trains(model))
        return options->throughput
                   ? cleave_fail(error, CLEAVE_BAD_INPUT,
                                 "throughput goes with one pass forward (--forward) alone")
                   : CLEAVE_OK;
    if (cleave_baseline_shards(options->method) != CLEAVE_SHARDED_NOTHING)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "method %s goes with training alone: one pass forward (--forward) "
                           "updates nothing",
                           options->method);
    if (wish != NULL && wish->zero > 1)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "zero %d goes with training alone: one pass forward (--forward) updates "
                           "nothing",
                           wish->zero - 1);
    if (wish != NULL && wish->recompute > CLEAVE_RECOMPUTE_NONE)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "recompute %s goes with training alone: one pass forward (--forward) "
                           "keeps nothing",
                           cleave_recompute_names[wish->recompute]);
    return CLEAVE_OK;
}

/* Stages are blocks of devices. */
static cleave_status check_stages(const cleave_search_options *options, cleave_error *error) {
    const cleave_constraints *given = options->constraints;
    const cleave_schedule_wish *wish = options->schedule;
    if (given == NULL || wish == NULL || wish->stages < 2 || cleave_constraints_allow_blocks(given))
        return CLEAVE_OK;
    return cleave_fail(error, CLEAVE_BAD_INPUT,
                       "%d stages are blocks of devices: they go with --only %s,operator",
                       wish->stages, given->only);
}

cleave_status cleave_search(const cleave_model *model, const cleave_machine *machine,
                            const cleave_search_options *options, cleave_arena *arena,
                            cleave_search_result *result, cleave_error *error) {
    if (!is_method(options->method))
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "method \"%s\" is not known: it is auto, exact, mcmc, branch-and-bound, "
                           "%sor random",
                           options->method, cleave_baseline_list);
    CLEAVE_TRY(check_zero(options, error));
    CLEAVE_TRY(check_step(model, options, error));
    CLEAVE_TRY(check_stages(options, error));
    const cleave_constraints *given = options->constraints;
    bool constrains = given != NULL && (given->fixed != NULL || given->sorts != 0 ||
                                        cleave_constraints_have_target(given));
    session s = {.model = model,
                 .machine = machine,
                 .options = options,
                 .constraints = constrains ? given : NULL,
                 .arena = arena,
                 .n_threads = options->n_threads > 1 ? options->n_threads : 1};
    s.started_seconds = cleave_clock_seconds();
    cleave_progress_begin(&s.progress, "searching", options->quiet);
    cleave_status status = run(&s, error);
    end(&s);
    if (status != CLEAVE_OK)
        return status;
    s.result.search_seconds = cleave_clock_seconds() - s.started_seconds;
    *result = s.result;
    return CLEAVE_OK;
}
