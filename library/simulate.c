/* Simulation: one step by the rule of the prediction, and its timeline in seconds. */
#include "graph/model/attention.h"
#include "graph/program/program.h"
#include "library/objects.h"
#include "simulator/report/item_label.h"
#include "simulator/report/trace.h"
#include "simulator/step/layout_step.h"

#include <stdlib.h>
#include <string.h>

typedef struct door_simulation {
    cleave_simulation simulation;
    cleave_arena arena;
} door_simulation;

static double seconds(int64_t picoseconds) { return 1e-12 * (double)picoseconds; }

/* Items stand in the global order of the program; here each device's stand together, in that order.
 */
static cleave_status take_timeline(const cleave_program *program, const cleave_timeline *timeline,
                                   door_simulation *made, cleave_arena *scratch,
                                   cleave_error *error) {
    cleave_timed_item *items =
        CLEAVE_ARENA_ARRAY(&made->arena, cleave_timed_item, program->n_items);
    int32_t *next = CLEAVE_ARENA_ARRAY(scratch, int32_t, program->n_devices + 1);
    if (items == NULL || next == NULL)
        return cleave_fail_memory(error, "keeping a timeline");
    for (int32_t i = 0; i < program->n_items; i++)
        next[program->items[i].device + 1]++;
    for (int32_t d = 0; d < program->n_devices; d++)
        next[d + 1] += next[d];
    for (int32_t i = 0; i < program->n_items; i++) {
        const cleave_item *item = &program->items[i];
        char label[256];
        cleave_item_label_format(program, item, label, sizeof label);
        cleave_timed_item *to = &items[next[item->device]++];
        *to = (cleave_timed_item){.device = item->device,
                                  .lane = item->lane,
                                  .start_seconds = seconds(timeline->start[i]),
                                  .end_seconds = seconds(timeline->end[i]),
                                  .label = cleave_arena_string(&made->arena, label)};
        if (to->label == NULL)
            return cleave_fail_memory(error, "keeping a timeline");
    }
    made->simulation.n_items = program->n_items;
    made->simulation.items = items;
    return CLEAVE_OK;
}

static cleave_status take(const cleave_layout_step *step, door_simulation *made,
                          cleave_error *error) {
    const cleave_priced_program *priced = &step->priced;
    int64_t *peaks = CLEAVE_ARENA_ARRAY(&made->arena, int64_t, priced->n_devices);
    if (peaks == NULL)
        return cleave_fail_memory(error, "simulating a layout");
    memcpy(peaks, priced->peak_bytes, (size_t)priced->n_devices * sizeof *peaks);
    const cleave_price_shares *shares = &step->simulated.prices.shares;
    made->simulation = (cleave_simulation){
        .step_seconds = cleave_layout_step_seconds(step),
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

/* In closed form one window stands for all where the layout folds, and all devices where each is
   wanted. */
static cleave_status make_step(cleave_pricing of, const cleave_simulation_settings *settings,
                               cleave_arena *scratch, cleave_layout_step *step,
                               cleave_error *error) {
    of.closed_form = settings->closed_form;
    of.all_devices = settings->timeline || settings->trace != NULL;
    of.all_micro_batches = of.all_devices;
    CLEAVE_TRY(door_optimizer_states(settings->optimizer, settings->momentum, &of.optimizer_states,
                                     error));
    cleave_model *fused = CLEAVE_ARENA_ARRAY(scratch, cleave_model, 1);
    if (fused == NULL)
        return cleave_fail_memory(error, "simulating a layout");
    CLEAVE_TRY(cleave_model_fuse_attention(of.model, of.layout, scratch, fused, error));
    of.model = fused;
    return cleave_layout_step_make(&of, scratch, step, error);
}

static cleave_status simulate(const cleave_pricing *of, const cleave_simulation_settings *settings,
                              cleave_arena *scratch, cleave_layout_step *step,
                              door_simulation *made, cleave_error *error) {
    CLEAVE_TRY(make_step(*of, settings, scratch, step, error));
    CLEAVE_TRY(take(step, made, error));
    const cleave_program *program = &step->priced.program;
    const cleave_simulated_step *simulated = &step->simulated;
    if (settings->timeline)
        CLEAVE_TRY(take_timeline(program, &simulated->timeline, made, scratch, error));
    const cleave_trace_links links = {of->machine, &simulated->problem,
                                      cleave_engine_hop_begin(simulated->workspace)};
    const cleave_trace trace = {
        .program = program, .predicted = &simulated->timeline, .links = &links};
    return settings->trace != NULL ? cleave_trace_write(settings->trace, &trace, error) : CLEAVE_OK;
}

cleave_status cleave_layout_simulate(const cleave_model *model, const cleave_machine *machine,
                                     const cleave_layout *layout,
                                     const cleave_simulation_settings *given,
                                     cleave_simulation **simulation, cleave_error *error) {
    cleave_simulation_settings settings = CLEAVE_SIMULATION_SETTINGS_INIT;
    cleave_arena scratch = {0};
    cleave_layout_step step = {0};
    const cleave_pricing of = {.model = model, .machine = machine, .layout = layout};
    CLEAVE_TRY(door_take_settings(&settings, sizeof settings, given, error));
    CLEAVE_TRY(door_check_layout(model, machine, layout, error));
    door_simulation *made = calloc(1, sizeof *made);
    if (made == NULL)
        return cleave_fail_memory(error, "simulating a layout");
    cleave_status status = simulate(&of, &settings, &scratch, &step, made, error);
    cleave_layout_step_destroy(&step);
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
