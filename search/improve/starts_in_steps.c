#include "search/improve/starts_in_steps.h"

#include "search/improve/parallel.h"

/* Of changes of the best start: values of each operator, and the share of the synchronisation of
   parameters that is not hidden, as in the model that it was found by. */
enum { VALUES_AROUND = 40 };
static const double exposed_sync = 0.5;

typedef struct wanted {
    session *session;
    int32_t n;
    struct {
        const cleave_layout *layout;
        cleave_price *price;
    } items[SESSION_MAX_FOUND + SESSION_MAX_GIVEN];
} wanted;

static void add(wanted *w, const cleave_layout *layout, cleave_price *price) {
    w->items[w->n].layout = layout;
    w->items[w->n++].price = price;
}

static cleave_status price_one(void *context, int32_t worker, int32_t task, cleave_error *error) {
    const wanted *w = context;
    const cleave_price_subject what = {.layout = w->items[task].layout, .in_steps = true};
    return cleave_pricer_price(&w->session->pricers[worker], &what, NULL, w->items[task].price,
                               error);
}

static void sort_found(session *s) {
    for (int32_t i = 1; i < s->n_found; i++)
        for (int32_t k = i;
             k > 0 && cleave_price_better(&s->found[k].price, &s->found[k - 1].price); k--) {
            session_found other = s->found[k];
            s->found[k] = s->found[k - 1];
            s->found[k - 1] = other;
        }
}

cleave_status session_price_in_steps(session *s, const cleave_price *best, cleave_error *error) {
    wanted w = {.session = s};
    for (int32_t f = 0; f < s->n_found; f++)
        add(&w, &s->found[f].layout, &s->found[f].price);
    for (int32_t g = 0; g < s->n_given; g++) {
        session_given *given = &s->given[g];
        if (given->has_full || session_is_far_behind(&given->price, best))
            continue;
        add(&w, given->layout, &given->full);
        given->has_full = true;
    }
    const cleave_parallel parallel = {
        .n_threads = s->n_threads, .n_tasks = w.n, .task = price_one, .context = &w};
    CLEAVE_TRY(cleave_parallel_run(&parallel, error));
    sort_found(s);
    return CLEAVE_OK;
}

cleave_status session_look_around(session *s, const cleave_choices *choices,
                                  const cleave_layout *like, cleave_additive_model *around,
                                  cleave_error *error) {
    cleave_layout layout;
    if (!s->has_costs)
        return CLEAVE_OK;
    CLEAVE_TRY(
        cleave_choices_layout(s->model, &s->candidates, choices, like, &s->work, &layout, error));
    const cleave_additive_options options = {.optimizer_states = s->options->optimizer_states,
                                             .memory_limit_bytes = s->options->memory_limit_bytes,
                                             .most_values = VALUES_AROUND,
                                             .exposed_sync = exposed_sync,
                                             .around = &layout};
    return cleave_additive_model_create(s->model, s->machine, &s->candidates, &options, &s->work,
                                        around, error);
}
