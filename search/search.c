/* The search: price what is known by name, search by the method, and take the best of all by full
   simulation with collectives in their steps (search/report.c). */
#include "search/bound/bound.h"
#include "search/bound/least_memory.h"
#include "search/improve/polish.h"
#include "search/many.h"
#include "search/session.h"

#include <string.h>

bool session_interrupted(const session *s) {
    return s->options->interrupted != NULL && *s->options->interrupted != 0;
}

double session_seconds_left(const session *s) {
    if (s->options->time_seconds <= 0)
        return 0;
    double left =
        s->started_seconds + s->options->time_seconds - s->report_seconds - cleave_clock_seconds();
    return left > 1e-6 ? left : 1e-6;
}

double session_polish_seconds_left(const session *s) {
    double used = cleave_clock_seconds() - s->started_seconds;
    double left = s->options->time_seconds - used;
    left = left < s->polish_seconds ? left : s->polish_seconds;
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

static bool is_method(const char *method) {
    for (int i = 0; cleave_baseline_names[i] != NULL; i++)
        if (strcmp(cleave_baseline_names[i], method) == 0)
            return true;
    return find_method(method) >= 0 || strcmp(method, "random") == 0;
}

/* ---- what is found --------------------------------------------------------------------------- */

static bool same_layout(const cleave_model *model, const cleave_layout *a, const cleave_layout *b) {
    for (int32_t op = 0; op < model->n_operators; op++) {
        const cleave_split *x = &a->splits[op], *y = &b->splits[op];
        if (x->n_parts != y->n_parts || x->replicas != y->replicas ||
            memcmp(x->degree, y->degree, sizeof x->degree) != 0 ||
            memcmp(x->devices, y->devices, (size_t)x->n_parts * sizeof *x->devices) != 0)
            return false;
    }
    return memcmp(a->sharded, b->sharded, (size_t)model->n_tensors * sizeof *a->sharded) == 0;
}

bool session_knows_price(const session *s, const cleave_layout *layout, cleave_price *price) {
    for (int32_t g = 0; g < s->n_given; g++)
        if (same_layout(s->model, layout, s->given[g].layout)) {
            *price = s->given[g].price;
            return true;
        }
    for (int32_t i = 0; i < s->n_found; i++)
        if (same_layout(s->model, layout, &s->found[i].layout)) {
            *price = s->found[i].price;
            return true;
        }
    return false;
}

cleave_status session_add_found(session *s, const char *method, const cleave_layout *layout,
                                const cleave_price *price, cleave_error *error) {
    int32_t place = 0;
    for (int32_t g = 0; g < s->n_given; g++)
        if (s->given[g].method != NULL && same_layout(s->model, layout, s->given[g].layout))
            return CLEAVE_OK;
    for (int32_t i = 0; i < s->n_found; i++)
        if (same_layout(s->model, layout, &s->found[i].layout))
            return CLEAVE_OK;
    while (place < s->n_found && !cleave_price_better(price, &s->found[place].price))
        place++;
    if (place == SESSION_MAX_FOUND)
        return CLEAVE_OK;
    session_found found = {.method = method, .price = *price};
    CLEAVE_TRY(cleave_layout_copy(layout, s->model, &s->work, &found.layout, error));
    if (s->n_found < SESSION_MAX_FOUND)
        s->n_found++;
    for (int32_t i = s->n_found - 1; i > place; i--)
        s->found[i] = s->found[i - 1];
    s->found[place] = found;
    return CLEAVE_OK;
}

void session_mark_optimum(session *s, const cleave_layout *layout, bool is_local_optimum) {
    for (int32_t i = 0; i < s->n_found; i++)
        if (same_layout(s->model, layout, &s->found[i].layout))
            s->found[i].is_local_optimum = is_local_optimum;
    for (int32_t g = 0; g < s->n_given; g++)
        if (same_layout(s->model, layout, s->given[g].layout))
            s->given[g].is_local_optimum = is_local_optimum;
}

/* ---- running --------------------------------------------------------------------------------- */

/* The rest of the space, and a bound of it. */
static cleave_status prepare(session *s, cleave_error *error) {
    const cleave_layout *given[SESSION_MAX_GIVEN];
    for (int32_t g = 0; g < s->n_given; g++)
        given[g] = s->given[g].layout;
    CLEAVE_TRY(cleave_candidates_add(&s->problem, s->costs, given, s->n_given, &s->space,
                                     &s->candidates, error));
    s->result.truncated = s->candidates.truncated;
    s->most_bytes = cleave_most_memory(s->machine, s->options->memory_limit_bytes);
    CLEAVE_TRY(cleave_least_memory(s->model, s->options->optimizer_states, &s->least_bytes, error));
    cleave_bound bound;
    CLEAVE_TRY(cleave_lower_bound_of(s->model, s->machine, &s->candidates,
                                     s->options->optimizer_states, CLEAVE_BOUND_STEPS, &bound,
                                     error));
    s->result.lower_bound_seconds = bound.seconds;
    s->result.bound_binds = bound.binds;
    return CLEAVE_OK;
}

/* Of the time of a search, for its last descent. */
static const double polish_share = 0.2;

/* How long the report will take, from one full simulation of a layout that it is about anyway: so
   that a search whose time is limited ends in time. */
static cleave_status foresee_report(session *s, cleave_error *error) {
    if (s->options->time_seconds <= 0 || s->n_given == 0)
        return CLEAVE_OK;
    session_given *first = &s->given[0];
    const cleave_price *best = &first->price;
    double started = cleave_clock_seconds();
    CLEAVE_TRY(cleave_price_layout(&s->pricer, first->layout, true, &first->full, error));
    first->has_full = true;
    cleave_arena_free(&s->pricer.arena);
    int32_t n = SESSION_MAX_FOUND;
    for (int32_t g = 0; g < s->n_given; g++)
        best = cleave_price_better(&s->given[g].price, best) ? &s->given[g].price : best;
    for (int32_t g = 1; g < s->n_given; g++)
        n += !session_is_far_behind(&s->given[g].price, best);
    /* What is found is about as large as data parallel; threads share it, but unevenly. */
    double each = cleave_clock_seconds() - started;
    s->report_seconds = each * n / (s->n_threads > 1 ? 1.5 : 1);
    if (session_polishes(s))
        s->polish_seconds = polish_share * s->options->time_seconds;
    s->report_seconds += s->polish_seconds;
    return CLEAVE_OK;
}

static bool is_baseline_that_applies(const session *s) {
    for (int32_t g = 0; g < s->n_given; g++)
        if (s->given[g].method != NULL && strcmp(s->given[g].method, s->options->method) == 0)
            return true;
    return false;
}

static cleave_status create_pricers(session *s, cleave_error *error) {
    s->pricers = CLEAVE_ARENA_ARRAY(&s->work, cleave_pricer, s->n_threads);
    if (s->pricers == NULL)
        return cleave_fail_memory(error, "searching");
    for (int32_t i = 0; i < s->n_threads; i++)
        CLEAVE_TRY(cleave_pricer_create(s->model, s->machine, s->options, &s->pricers[i], error));
    return cleave_pricer_create(s->model, s->machine, s->options, &s->pricer, error);
}

int64_t session_n_priced(const session *s) {
    int64_t n = s->pricer.n_priced;
    for (int32_t i = 0; i < s->n_threads; i++)
        n += s->pricers[i].n_priced;
    return n;
}

/* What has to be known before a method is run. */
static cleave_status begin(session *s, cleave_error *error) {
    int method = find_method(s->options->method);
    CLEAVE_TRY(prepare(s, error));
    if (method < 0)
        return CLEAVE_OK;
    CLEAVE_TRY(foresee_report(s, error));
    /* Where nothing can fit, the additive model gives a lean layout to name. */
    bool solves = methods[method].solves && !session_interrupted(s);
    return solves || session_is_hopeless(s) ? session_solve(s, error) : CLEAVE_OK;
}

static cleave_status run(session *s, cleave_error *error) {
    int method = find_method(s->options->method);
    CLEAVE_TRY(cleave_constraints_check_memory(s->options->constraints, s->model, s->machine,
                                               s->options->memory_limit_bytes, error));
    CLEAVE_TRY(cleave_problem_create(s->model, s->machine, s->options->constraints, &s->work,
                                     &s->problem, error));
    CLEAVE_TRY(create_pricers(s, error));
    CLEAVE_TRY(cleave_choose_collectives(s->machine, false, &s->work, &s->collectives, error));
    CLEAVE_TRY(session_add_givens(s, error));
    CLEAVE_TRY(method >= 0 ? session_report_ahead(s, begin, error) : begin(s, error));
    if (method >= 0 && !session_is_hopeless(s))
        CLEAVE_TRY(methods[method].run(s, error));
    CLEAVE_TRY(session_report(s, error));
    if (s->result.best.applies)
        return CLEAVE_OK;
    if (method >= 0 || is_baseline_that_applies(s))
        return session_fail_nothing_fits(s, error);
    char under[512];
    cleave_constraints_describe(s->options->constraints, under, sizeof under);
    return cleave_fail(error, CLEAVE_NO_LAYOUT, "method \"%s\" does not apply to %s%s",
                       s->options->method, s->model->file, under);
}

cleave_status cleave_search(const cleave_model *model, const cleave_machine *machine,
                            const cleave_search_options *options, cleave_arena *arena,
                            cleave_search_result *result, cleave_error *error) {
    if (!is_method(options->method))
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "method \"%s\" is not known: it is auto, exact, mcmc, branch-and-bound, "
                           "random, data-parallel, "
                           "single, layer-per-device, one-weird-trick or megatron",
                           options->method);
    bool is_many;
    CLEAVE_TRY(cleave_search_is_many(model, machine, options, &is_many, error));
    if (is_many)
        return cleave_search_many(model, machine, options, arena, result, error);
    session s = {.model = model,
                 .machine = machine,
                 .options = options,
                 .arena = arena,
                 .n_threads = options->n_threads > 1 ? options->n_threads : 1};
    s.started_seconds = cleave_clock_seconds();
    cleave_progress_begin(&s.progress, "searching", options->quiet);
    cleave_status status = run(&s, error);
    cleave_progress_end(&s.progress, NULL);
    cleave_node_costs_destroy(s.costs);
    for (int32_t i = 0; s.pricers != NULL && i < s.n_threads; i++)
        cleave_pricer_destroy(&s.pricers[i]);
    cleave_pricer_destroy(&s.pricer);
    cleave_arena_free(&s.space);
    cleave_arena_free(&s.work);
    if (status != CLEAVE_OK)
        return status;
    s.result.search_seconds = cleave_clock_seconds() - s.started_seconds;
    *result = s.result;
    return CLEAVE_OK;
}
