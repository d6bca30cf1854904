/* Search: the house's, with constraints from files and with an outcome that lives by itself. */
#include "search/search.h"
#include "base/process.h"
#include "graph/model/attention.h"
#include "library/objects.h"

#include <stdlib.h>

typedef struct door_search {
    cleave_search_outcome outcome;
    cleave_arena arena;
} door_search;

static cleave_status read_wish(const cleave_search_settings *settings, cleave_schedule_wish *wish,
                               cleave_error *error) {
    CLEAVE_TRY(cleave_schedule_wish_begin(settings->schedule, settings->recompute, settings->zero,
                                          wish, error));
    wish->micro_batches = settings->micro_batches;
    wish->stages = settings->stages;
    wish->virtual_stages = settings->virtual_stages;
    wish->tensor = settings->tensor;
    if (wish->micro_batches < 0 || wish->stages < 0 || wish->virtual_stages < 0 || wish->tensor < 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%d micro-batches, %d stages, %d of a group, %d devices that share "
                           "products: none may be below 0",
                           wish->micro_batches, wish->stages, wish->virtual_stages, wish->tensor);
    return CLEAVE_OK;
}

static cleave_status set_up(const cleave_search_settings *settings, const cleave_model *model,
                            const cleave_machine *machine, cleave_arena *arena,
                            cleave_constraints *constraints, cleave_search_options *options,
                            cleave_error *error) {
    *constraints = (cleave_constraints){0};
    *options = (cleave_search_options){
        .method = settings->method != NULL ? settings->method : "auto",
        .time_seconds = settings->time_seconds,
        .proposals = settings->proposals,
        .seed = settings->seed,
        .n_threads = settings->threads > 0 ? settings->threads : cleave_process_cores(),
        .memory_limit_bytes = settings->memory_limit_bytes,
        .constraints = constraints,
        .resume_file = settings->resume,
        .throughput = settings->throughput,
        .quiet = !settings->progress,
        .interrupted = settings->interrupted,
    };
    CLEAVE_TRY(door_optimizer_states(settings->optimizer, settings->momentum,
                                     &options->optimizer_states, error));
    if (settings->fix != NULL)
        CLEAVE_TRY(cleave_constraints_fix(constraints, settings->fix, model, machine->n_devices,
                                          arena, error));
    return settings->only != NULL
               ? cleave_constraints_restrict(constraints, settings->only, model, arena, error)
               : CLEAVE_OK;
}

/* Copies, since `found` is gone afterwards. */
static cleave_status take(const cleave_search_result *found, cleave_layout *layout,
                          cleave_arena *arena, cleave_search_outcome *outcome,
                          cleave_error *error) {
    *layout = found->best.layout;
    cleave_baseline *baselines = CLEAVE_ARENA_ARRAY(arena, cleave_baseline, found->n_baselines);
    const char *method = cleave_arena_string(arena, found->best.method);
    if (baselines == NULL || method == NULL)
        return cleave_fail_memory(error, "searching");
    for (int32_t b = 0; b < found->n_baselines; b++) {
        const cleave_plan *plan = &found->baselines[b];
        baselines[b] = (cleave_baseline){.name = cleave_baseline_names[b]};
        if (!plan->applies)
            continue;
        baselines[b].applies = true;
        baselines[b].step_seconds = plan->step_seconds;
        baselines[b].peak_bytes = plan->peak_bytes;
    }
    *outcome = (cleave_search_outcome){
        .layout = layout,
        .method = method,
        .step_seconds = found->best.step_seconds,
        .lower_bound_seconds = found->lower_bound_seconds,
        .peak_bytes = found->best.peak_bytes,
        .bytes_sent = found->best.bytes_sent,
        .search_seconds = found->search_seconds,
        .proposals = found->proposals,
        .is_local_optimum = found->is_local_optimum,
        .n_baselines = found->n_baselines,
        .baselines = baselines,
    };
    return CLEAVE_OK;
}

static cleave_status search(const cleave_model *model, const cleave_machine *machine,
                            const cleave_search_settings *settings, door_search *made,
                            cleave_error *error) {
    cleave_constraints constraints;
    cleave_search_options options;
    cleave_search_result found;
    cleave_schedule_wish wish;
    cleave_layout *layout = CLEAVE_ARENA_ARRAY(&made->arena, cleave_layout, 1);
    cleave_model *fused = CLEAVE_ARENA_ARRAY(&made->arena, cleave_model, 1);
    if (layout == NULL || fused == NULL)
        return cleave_fail_memory(error, "searching");
    CLEAVE_TRY(cleave_model_fuse_attention(model, NULL, &made->arena, fused, error));
    CLEAVE_TRY(set_up(settings, fused, machine, &made->arena, &constraints, &options, error));
    CLEAVE_TRY(read_wish(settings, &wish, error));
    options.schedule = &wish;
    if (!settings->leave_malloc)
        cleave_process_keep_memory();
    cleave_status status = cleave_search(fused, machine, &options, &made->arena, &found, error);
    if (status == CLEAVE_OK)
        status = take(&found, layout, &made->arena, &made->outcome, error);
    if (!settings->leave_malloc)
        cleave_process_release_memory();
    return status;
}

cleave_status cleave_layout_search(const cleave_model *model, const cleave_machine *machine,
                                   const cleave_search_settings *given,
                                   cleave_search_outcome **outcome, cleave_error *error) {
    cleave_search_settings settings = CLEAVE_SEARCH_SETTINGS_INIT;
    CLEAVE_TRY(door_take_settings(&settings, sizeof settings, given, error));
    door_search *made = calloc(1, sizeof *made);
    if (made == NULL)
        return cleave_fail_memory(error, "searching");
    cleave_status status = search(model, machine, &settings, made, error);
    if (status == CLEAVE_OK)
        *outcome = &made->outcome;
    else
        cleave_search_outcome_free(&made->outcome);
    return status;
}

void cleave_search_outcome_free(cleave_search_outcome *outcome) {
    door_search *made = (door_search *)outcome;
    if (made != NULL)
        cleave_arena_free(&made->arena);
    free(made);
}
