/* Explanations: the house's, in seconds. */
#include "search/explain/explain.h"
#include "graph/model/attention.h"
#include "library/objects.h"

#include <stdlib.h>

typedef struct door_explanation {
    cleave_explanation explanation;
    cleave_arena arena;
} door_explanation;

static double seconds(int64_t picoseconds) { return 1e-12 * (double)picoseconds; }

static cleave_critical_time critical_of(const int64_t *picoseconds) {
    return (cleave_critical_time){
        .compute_seconds = seconds(explain_computing(picoseconds)),
        .exchange_seconds = seconds(picoseconds[EXPLAIN_EXCHANGE]),
        .sync_seconds = seconds(picoseconds[EXPLAIN_SYNC]),
        .waiting_seconds = seconds(picoseconds[EXPLAIN_WAITING]),
    };
}

/* What was found is in the arena already, but for texts. */
static cleave_status take_operator(const explanation *e, int32_t op, cleave_arena *arena,
                                   cleave_explained_operator *to, cleave_error *error) {
    const explain_choice *choice = &e->choices[op];
    char binds[192];
    explain_binds(e, op, binds, sizeof binds);
    *to = (cleave_explained_operator){.op = op,
                                      .critical = critical_of(e->path.operators[op].picoseconds),
                                      .memory_bytes = e->path.operators[op].memory_bytes,
                                      .bound_by = cleave_arena_string(arena, binds)};
    if (to->bound_by == NULL)
        return cleave_fail_memory(error, "explaining a layout");
    if (choice->n == 0)
        return CLEAVE_OK;
    const explain_alternative *other = &choice->best[0];
    to->other_step_seconds = explain_step_with(e, other);
    to->other_replicas = other->split.replicas;
    to->other_n_parts = other->split.n_parts;
    to->other_degree = other->split.degree;
    to->other_devices = other->split.devices;
    return CLEAVE_OK;
}

static cleave_status take(const explanation *e, door_explanation *made, cleave_error *error) {
    char link[160];
    cleave_explained_operator *operators =
        CLEAVE_ARENA_ARRAY(&made->arena, cleave_explained_operator, e->n);
    explain_link_name(e->machine, e->path.busiest_link, link, sizeof link);
    const char *busiest_link = cleave_arena_string(&made->arena, link);
    if (operators == NULL || busiest_link == NULL)
        return cleave_fail_memory(error, "explaining a layout");
    for (int32_t i = 0; i < e->n; i++)
        CLEAVE_TRY(take_operator(e, e->order[i], &made->arena, &operators[i], error));
    made->explanation = (cleave_explanation){
        .step_seconds = seconds(e->path.step),
        .critical = critical_of(e->path.picoseconds),
        .busiest_device = e->path.busiest_device,
        .fullest_device = e->path.fullest_device,
        .busiest_device_seconds = seconds(e->path.device_busy),
        .busiest_link = busiest_link,
        .busiest_link_seconds = seconds(e->path.link_busy),
        .peak_bytes = e->path.peak_bytes,
        .n_operators = e->n,
        .operators = operators,
    };
    return CLEAVE_OK;
}

static cleave_status explain(const cleave_model *model, const cleave_machine *machine,
                             const cleave_layout *layout,
                             const cleave_explanation_settings *settings, door_explanation *made,
                             cleave_error *error) {
    explanation e;
    cleave_model fused;
    explain_question asked = {.model = &fused,
                              .machine = machine,
                              .layout = layout,
                              .most_splits = settings->splits == 0  ? 64
                                             : settings->splits < 0 ? 0
                                                                    : settings->splits,
                              .memory_limit_bytes = settings->memory_limit_bytes,
                              .quiet = !settings->progress};
    CLEAVE_TRY(door_optimizer_states(settings->optimizer, settings->momentum,
                                     &asked.optimizer_states, error));
    CLEAVE_TRY(cleave_model_fuse_attention(model, layout, &made->arena, &fused, error));
    CLEAVE_TRY(explain_layout(&asked, &made->arena, &e, error));
    return take(&e, made, error);
}

cleave_status cleave_layout_explain(const cleave_model *model, const cleave_machine *machine,
                                    const cleave_layout *layout,
                                    const cleave_explanation_settings *given,
                                    cleave_explanation **result, cleave_error *error) {
    cleave_explanation_settings settings = CLEAVE_EXPLANATION_SETTINGS_INIT;
    CLEAVE_TRY(door_take_settings(&settings, sizeof settings, given, error));
    CLEAVE_TRY(door_check_layout(model, machine, layout, error));
    door_explanation *made = calloc(1, sizeof *made);
    if (made == NULL)
        return cleave_fail_memory(error, "explaining a layout");
    cleave_status status = explain(model, machine, layout, &settings, made, error);
    if (status == CLEAVE_OK)
        *result = &made->explanation;
    else
        cleave_explanation_free(&made->explanation);
    return status;
}

void cleave_explanation_free(cleave_explanation *result) {
    door_explanation *made = (door_explanation *)result;
    if (made != NULL)
        cleave_arena_free(&made->arena);
    free(made);
}
