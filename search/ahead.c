/* What one thread has to do by itself, at the begin of a search, leaves the others idle, and the
   baselines that come near the best take long to simulate in steps.  So they are simulated then.
   Which they are follows from the layouts, never from what is done by when; one that what is found
   leaves far behind has been simulated for nothing, and is reported as ever. */
#include "search/improve/parallel.h"
#include "search/session.h"

typedef struct ahead {
    session *session;
    cleave_status (*first)(session *s, cleave_error *error);
    int32_t n;
    session_given *wanted[SESSION_MAX_GIVEN];
} ahead;

static cleave_status run_task(void *context, int32_t worker, int32_t task, cleave_error *error) {
    ahead *a = context;
    if (task == 0)
        return a->first(a->session, error);
    session_given *given = a->wanted[task - 1];
    if (session_interrupted(a->session))
        return CLEAVE_OK;
    cleave_pricer *pricer = &a->session->pricers[worker];
    const cleave_price_subject what = {
        .layout = given->layout, .in_steps = true, .memory = CLEAVE_MEMORY_IN_DOUBT};
    CLEAVE_TRY(cleave_pricer_price(pricer, &what, NULL, &given->full, error));
    given->has_full = true;
    cleave_arena_free(&pricer->arena); /* others need as much */
    return CLEAVE_OK;
}

static void choose(ahead *a) {
    session *s = a->session;
    const cleave_price *best = &s->given[0].price;
    for (int32_t g = 1; g < s->n_given; g++)
        best = cleave_price_better(&s->given[g].price, best) ? &s->given[g].price : best;
    for (int32_t g = 0; g < s->n_given; g++)
        if (s->given[g].method != NULL && !cleave_price_is_far_behind(&s->given[g].price, best))
            a->wanted[a->n++] = &s->given[g];
}

cleave_status session_report_ahead(session *s, cleave_status (*first)(session *s, cleave_error *),
                                   cleave_error *error) {
    ahead a = {.session = s, .first = first};
    /* A search whose time is limited can't foresee what threads take from one another. */
    if (s->n_threads < 2 || s->options->time_seconds > 0 || s->n_given == 0)
        return first(s, error);
    choose(&a);
    const cleave_parallel parallel = {
        .n_threads = s->n_threads, .n_tasks = 1 + a.n, .task = run_task, .context = &a};
    return cleave_parallel_run(&parallel, error);
}
