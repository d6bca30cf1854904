/* Simulation: one step by the rule of the prediction, and its timeline in seconds. */
#include "graph/program/program.h"
#include "library/objects.h"
#include "simulator/report/item_label.h"
#include "simulator/report/trace.h"
#include "simulator/step/priced_program.h"
#include "simulator/step/simulated_step.h"

#include <stdlib.h>
#include <string.h>

typedef struct door_simulation {
    cleave_simulation simulation;
    cleave_arena arena;
} door_simulation;

static double seconds(int64_t picoseconds) { return 1e-12 * (double)picoseconds; }

/* Items stand in the global order of the program, so a device's are in the order that it does them,
   once they are sorted by device without changing what else is before what. */
static cleave_status take_timeline(const cleave_program *program, const cleave_timeline *timeline,
                                   door_simulation *made, cleave_error *error) {
    cleave_timed_item *items =
        CLEAVE_ARENA_ARRAY(&made->arena, cleave_timed_item, program->n_items);
    if (items == NULL)
        return cleave_fail_memory(error, "keeping a timeline");
    int32_t n = 0;
    for (int32_t d = 0; d < program->n_devices; d++)
        for (int32_t i = 0; i < program->n_items; i++) {
            const cleave_item *item = &program->items[i];
            char label[256];
            if (item->device != d)
                continue;
            cleave_item_label_format(program, item, label, sizeof label);
            items[n] = (cleave_timed_item){.device = d,
                                           .lane = item->lane,
                                           .start_seconds = seconds(timeline->start[i]),
                                           .end_seconds = seconds(timeline->end[i]),
                                           .label = cleave_arena_string(&made->arena, label)};
            if (items[n++].label == NULL)
                return cleave_fail_memory(error, "keeping a timeline");
        }
    made->simulation.n_items = n;
    made->simulation.items = items;
    return CLEAVE_OK;
}

static cleave_status take(const cleave_priced_program *priced, const cleave_simulated_step *step,
                          door_simulation *made, cleave_error *error) {
    int64_t *peaks = CLEAVE_ARENA_ARRAY(&made->arena, int64_t, priced->n_devices);
    if (peaks == NULL)
        return cleave_fail_memory(error, "simulating a layout");
    memcpy(peaks, priced->peak_bytes, (size_t)priced->n_devices * sizeof *peaks);
    const cleave_price_shares *shares = &step->prices.shares;
    made->simulation = (cleave_simulation){
        .step_seconds = seconds(step->timeline.step),
        .spread_seconds = shares->step_spread_seconds,
        .measured = shares->share[CLEAVE_PROVENANCE_MEASURED],
        .predicted = shares->share[CLEAVE_PROVENANCE_PREDICTED],
        .data_sheet = shares->share[CLEAVE_PROVENANCE_DATA_SHEET],
        .bytes_sent = priced->bytes_sent,
        .n_devices = priced->n_devices,
        .peak_bytes = peaks,
    };
    return CLEAVE_OK;
}

static cleave_status simulate(const cleave_model *model, const cleave_machine *machine,
                              const cleave_layout *layout,
                              const cleave_simulation_settings *settings, cleave_arena *scratch,
                              cleave_priced_program *priced, door_simulation *made,
                              cleave_error *error) {
    cleave_simulated_step step;
    cleave_pricing how = {.training = model->loss >= 0, .closed_form = settings->closed_form};
    CLEAVE_TRY(door_optimizer_states(settings->optimizer, settings->momentum, &how.optimizer_states,
                                     error));
    CLEAVE_TRY(cleave_priced_program_make(model, machine, layout, &how, scratch, priced, error));
    CLEAVE_TRY(cleave_simulated_step_make(&priced->program, priced->cache, scratch, &step, error));
    CLEAVE_TRY(take(priced, &step, made, error));
    if (settings->timeline)
        CLEAVE_TRY(take_timeline(&priced->program, &step.timeline, made, error));
    const cleave_trace_links links = {machine, &step.problem,
                                      cleave_engine_hop_begin(step.workspace)};
    const cleave_trace trace = {
        .program = &priced->program, .predicted = &step.timeline, .links = &links};
    return settings->trace != NULL ? cleave_trace_write(settings->trace, &trace, error) : CLEAVE_OK;
}

cleave_status cleave_layout_simulate(const cleave_model *model, const cleave_machine *machine,
                                     const cleave_layout *layout,
                                     const cleave_simulation_settings *given,
                                     cleave_simulation **simulation, cleave_error *error) {
    cleave_simulation_settings settings = CLEAVE_SIMULATION_SETTINGS_INIT;
    cleave_arena scratch = {0};
    cleave_priced_program priced = {0};
    CLEAVE_TRY(door_take_settings(&settings, sizeof settings, given, error));
    CLEAVE_TRY(door_check_layout(model, machine, layout, error));
    door_simulation *made = calloc(1, sizeof *made);
    if (made == NULL)
        return cleave_fail_memory(error, "simulating a layout");
    cleave_status status =
        simulate(model, machine, layout, &settings, &scratch, &priced, made, error);
    cleave_cost_cache_destroy(priced.cache);
    cleave_arena_free(&scratch);
    if (status == CLEAVE_OK)
        *simulation = &made->simulation;
    else
        cleave_simulation_free(&made->simulation);
    return status;
}

void cleave_simulation_free(cleave_simulation *simulation) {
    door_simulation *made = (door_simulation *)simulation;
    if (made != NULL)
        cleave_arena_free(&made->arena);
    free(made);
}
