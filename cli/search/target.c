#include "cli/search/target.h"

#include "cli/predict.h"

#include <string.h>

typedef struct ending {
    const cleave_model *model;
    const cleave_machine *machine;
    const cleave_search_options *options;
    cleave_constraints wanted; /* of the user, besides the framework */
    int64_t limit_bytes;
    cleave_arena *arena;
} ending;

/* A layout as the framework will run it, priced. */
static cleave_status take(const ending *e, const cleave_layout *layout, cleave_plan *plan,
                          cleave_error *error) {
    cleave_export_plan exported;
    cleave_layout back;
    prediction predicted;
    CLEAVE_TRY(cleave_export_make_exact(e->model, layout, e->options->constraints->target, e->arena,
                                        &exported, error));
    CLEAVE_TRY(cleave_export_read_back(e->model, layout, &exported, e->arena, &back, error));
    const cleave_pricing of = {e->model, e->machine, &back,
                               .optimizer_states = e->options->optimizer_states};
    CLEAVE_TRY(predict_layout(&of, &predicted, error));
    back.predicted_step_seconds = plan->step_seconds = predicted.step_seconds;
    plan->peak_bytes = predicted.peak_bytes;
    plan->bytes_sent = predicted.bytes_sent;
    plan->layout = back;
    return CLEAVE_OK;
}

/* Those that fit come first. */
static bool is_better(const ending *e, const cleave_plan *a, const cleave_plan *b) {
    bool a_fits = a->peak_bytes <= e->limit_bytes, b_fits = b->peak_bytes <= e->limit_bytes;
    return a_fits != b_fits ? a_fits : a_fits && a->step_seconds < b->step_seconds;
}

static cleave_status hold_against(const ending *e, const char *name, cleave_plan *best,
                                  cleave_error *error) {
    cleave_layout layout;
    cleave_plan plan = {.method = name, .applies = true};
    bool applies;
    CLEAVE_TRY(
        cleave_baseline_layout(e->model, e->machine, name, 0, e->arena, &layout, &applies, error));
    if (!applies)
        return CLEAVE_OK;
    layout.collectives = best->layout.collectives;
    CLEAVE_TRY(take(e, &layout, &plan, error));
    if (is_better(e, &plan, best) &&
        cleave_constraints_allow_layout(&e->wanted, e->model, &plan.layout))
        *best = plan;
    return CLEAVE_OK;
}

bool search_method_looks(const char *method) {
    bool is_named = strcmp(method, "random") == 0;
    for (int b = 0; cleave_baseline_names[b] != NULL; b++)
        is_named = is_named || strcmp(method, cleave_baseline_names[b]) == 0;
    return !is_named;
}

cleave_status search_for_take_back(const cleave_model *model, const cleave_machine *machine,
                                   const cleave_search_options *options, cleave_arena *arena,
                                   cleave_plan *best, cleave_error *error) {
    ending e = {.model = model,
                .machine = machine,
                .options = options,
                .wanted = *options->constraints,
                .limit_bytes = options->memory_limit_bytes,
                .arena = arena};
    e.wanted.sayable = NULL; /* what is taken back is sayable */
    for (int32_t k = 0; k < machine->n_kinds && options->memory_limit_bytes == 0; k++)
        if (k == 0 || machine->kinds[k].memory_bytes < e.limit_bytes)
            e.limit_bytes = machine->kinds[k].memory_bytes;
    CLEAVE_TRY(take(&e, &best->layout, best, error));
    bool may_be_other = search_method_looks(options->method) &&
                        cleave_schedule_wish_allows_plain(options->schedule);
    for (int b = 0; cleave_baseline_names[b] != NULL && may_be_other; b++)
        CLEAVE_TRY(hold_against(&e, cleave_baseline_names[b], best, error));
    return CLEAVE_OK;
}
