#include "search/improve/in_steps.h"

#include "search/improve/parallel.h"

/* Of changes of the best start: values of each operator, and the share of the synchronisation of
   parameters that is not hidden, as in the model that it was found by. */
enum { VALUES_AROUND = 40 };
static const double exposed_sync = 0.5;

typedef struct wanted {
    const cleave_improvement *with;
    int32_t n;
    cleave_improve_start *items[CLEAVE_MOST_STARTS];
} wanted;

static cleave_status price_one(void *context, int32_t worker, int32_t task, cleave_error *error) {
    const wanted *w = context;
    const cleave_price_subject what = {
        .layout = w->items[task]->layout, .in_steps = true, .memory = CLEAVE_MEMORY_IN_DOUBT};
    return cleave_pricer_price(&w->with->pricers[worker], &what, NULL, &w->items[task]->full,
                               error);
}

cleave_status improve_price_in_steps(const cleave_improvement *with, cleave_improve_start *starts,
                                     int32_t n_starts, const cleave_price *best,
                                     cleave_error *error) {
    wanted w = {.with = with};
    for (int32_t i = 0; i < n_starts; i++) {
        cleave_improve_start *start = &starts[i];
        if (start->has_full ||
            (!start->was_found && cleave_price_is_far_behind(&start->price, best)))
            continue;
        w.items[w.n++] = start;
        start->has_full = true;
    }
    const cleave_parallel parallel = {
        .n_threads = with->n_threads, .n_tasks = w.n, .task = price_one, .context = &w};
    return cleave_parallel_run(&parallel, error);
}

cleave_status improve_look_around(const cleave_improvement *with, const cleave_choices *choices,
                                  const cleave_layout *like, cleave_additive_model *around,
                                  cleave_error *error) {
    cleave_layout layout;
    if (with->additive == NULL)
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_choices_layout(with->model, with->candidates, choices, like, with->arena,
                                     &layout, error));
    const cleave_additive_options options = {.optimizer_states = with->optimizer_states,
                                             .memory_limit_bytes = with->memory_limit_bytes,
                                             .most_values = VALUES_AROUND,
                                             .exposed_sync = exposed_sync,
                                             .around = &layout};
    return cleave_additive_model_create(with->model, with->machine, with->candidates, &options,
                                        with->arena, around, error);
}
