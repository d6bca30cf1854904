/* What a search begins with: the layouts known by name, and data parallel over the quick devices of
   a machine that has several kinds. */
#include "search/improve/parallel.h"
#include "search/improve/window.h"
#include "search/session.h"

#include <string.h>

static void add(session *s, const char *method, const cleave_layout *layout) {
    s->given[s->n_given++] = (session_given){.method = method, .layout = layout};
}

/* A layout that breaks a constraint is made to keep to it.  A drawn one is as good as before; a
   baseline is that baseline no more, but a start. */
static cleave_status add_constrained(session *s, const char *method, cleave_layout *layout,
                                     cleave_error *error) {
    const cleave_constraints *constraints = s->options->constraints;
    bool keeps = cleave_constraints_allow_layout(constraints, s->model, layout);
    CLEAVE_TRY(cleave_constraints_impose(constraints, s->model, layout, &s->work, error));
    bool is_drawn = method != NULL && strcmp(method, "random") == 0;
    add(s, keeps || is_drawn ? method : NULL, layout);
    return CLEAVE_OK;
}

static cleave_status add_named(session *s, const char *name, cleave_error *error) {
    bool applies;
    cleave_layout *layout = CLEAVE_ARENA_ARRAY(&s->work, cleave_layout, 1);
    if (layout == NULL)
        return cleave_fail_memory(error, "searching");
    CLEAVE_TRY(cleave_baseline_layout(s->model, s->machine, name, s->options->seed, &s->work,
                                      layout, &applies, error));
    if (!applies)
        return CLEAVE_OK;
    if (strcmp(name, "random") != 0)
        layout->collectives = s->collectives;
    cleave_progress_update(&s->progress, -1, name);
    return add_constrained(s, name, layout, error);
}

/* Products a second of the kind of device d. */
static double product_rate(const cleave_machine *machine, int32_t d) {
    const cleave_device_kind *kind = &machine->kinds[machine->device_kind[d]];
    return kind->flops_per_second * kind->product_efficiency;
}

/* Of devices of several kinds the slowest sets the pace of even blocks, and one operator at a time
   nothing gets away from it: so there are starts with those that are at least as quick as some
   device. */
static cleave_status add_quick_starts(session *s, cleave_error *error) {
    const cleave_machine *machine = s->machine;
    int32_t *quick = CLEAVE_ARENA_ARRAY(&s->work, int32_t, machine->n_devices);
    bool *seen = CLEAVE_ARENA_ARRAY(&s->work, bool, machine->n_kinds);
    if (quick == NULL || seen == NULL)
        return cleave_fail_memory(error, "searching");
    for (int32_t slowest = 0; slowest < machine->n_devices && s->n_given < SESSION_MAX_GIVEN / 2;
         slowest++) {
        int32_t n = 0;
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
        CLEAVE_TRY(add_constrained(s, NULL, layout, error));
    }
    return CLEAVE_OK;
}

/* What the search of layouts that fold may take of a search without limits: as much as lowering the
   model so many times on 64 devices. */
static const double wholes_of_folded = 1;

/* The best of the layouts that fold, which take little time to search.  They are few, but on many
   devices good ones are among them. */
static cleave_status add_folded(session *s, cleave_error *error) {
    cleave_window_options how = {.most_wholes = s->options->time_seconds > 0
                                                    ? 0
                                                    : wholes_of_folded * 64 / s->machine->n_devices,
                                 .interrupted = s->options->interrupted};
    cleave_error why_not = {""};
    cleave_window_found *found = CLEAVE_ARENA_ARRAY(&s->work, cleave_window_found, 1);
    if (found == NULL)
        return cleave_fail_memory(error, "searching");
    if (s->machine->n_devices <= SESSION_FEW_DEVICES || !cleave_machine_may_fold(s->machine, NULL))
        return CLEAVE_OK;
    if (s->options->time_seconds > 0 && s->options->resume_file == NULL)
        how.until_seconds = s->started_seconds + 0.3 * s->options->time_seconds;
    cleave_progress_update(&s->progress, -1, "searching layouts that fold");
    cleave_status status = cleave_window_search(&s->problem, &s->pricer, &s->collectives, &how,
                                                &s->work, found, &why_not);
    if (status != CLEAVE_OK && status != CLEAVE_NO_LAYOUT && error != NULL)
        *error = why_not;
    if (status != CLEAVE_OK)
        return status == CLEAVE_NO_LAYOUT ? CLEAVE_OK : status;
    cleave_layout *layout = CLEAVE_ARENA_ARRAY(&s->work, cleave_layout, 1);
    if (layout == NULL)
        return cleave_fail_memory(error, "searching");
    CLEAVE_TRY(cleave_layout_copy(&found->layout, s->model, &s->work, layout, error));
    layout->collectives = s->collectives;
    return add_constrained(s, NULL, layout, error);
}

/* Layouts known without a search. */
static cleave_status add_known(session *s, cleave_error *error) {
    for (int32_t i = 0; cleave_baseline_names[i] != NULL; i++)
        CLEAVE_TRY(add_named(s, cleave_baseline_names[i], error));
    if (strcmp(s->options->method, "random") == 0)
        return add_named(s, "random", error);
    return session_searches(s) ? add_quick_starts(s, error) : CLEAVE_OK;
}

static cleave_status price(cleave_pricer *pricer, session_given *given, cleave_error *error) {
    return cleave_price_found(pricer, given->layout, &given->price, error);
}

static cleave_status search_folded(session *s, cleave_error *error) {
    int32_t n_before = s->n_given;
    bool is_reference = strcmp(s->options->method, "mcmc") == 0;
    if (session_searches(s) && !is_reference)
        CLEAVE_TRY(add_folded(s, error));
    return s->n_given > n_before ? price(&s->pricer, &s->given[n_before], error) : CLEAVE_OK;
}

static cleave_status list_candidates(session *s, cleave_error *error) {
    CLEAVE_TRY(cleave_node_costs_create(s->model, s->machine, &s->costs, error));
    return cleave_candidates_list(&s->problem, s->costs, SESSION_MAX_GIVEN, &s->space,
                                  &s->candidates, error);
}

/* What takes longest first: tasks that have nothing to do with each other, before the prices of
   what is known without a search. */
enum { SEARCH_FOLDED, LIST_CANDIDATES, FIRST_PRICE };

static cleave_status run_task(void *context, int32_t worker, int32_t task, cleave_error *error) {
    session *s = context;
    switch (task) {
    case SEARCH_FOLDED:
        return search_folded(s, error);
    case LIST_CANDIDATES:
        return list_candidates(s, error);
    default:
        return price(&s->pricers[worker], &s->given[task - FIRST_PRICE], error);
    }
}

cleave_status session_add_givens(session *s, cleave_error *error) {
    CLEAVE_TRY(add_known(s, error));
    const cleave_parallel parallel = {.n_threads = s->n_threads,
                                      .n_tasks = FIRST_PRICE + s->n_given,
                                      .task = run_task,
                                      .context = s};
    return cleave_parallel_run(&parallel, error);
}
