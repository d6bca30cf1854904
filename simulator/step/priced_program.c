#include "simulator/step/priced_program.h"

#include "graph/lower/lower.h"
#include "graph/model/fold.h"
#include "graph/program/traffic.h"

/* The memory of a rank is its arena, the program and what the runtime itself takes. */
static cleave_status count_peaks(const cleave_machine *machine, const cleave_program *program,
                                 int32_t n_devices, cleave_arena *arena, int64_t **peak_bytes,
                                 cleave_error *error) {
    int64_t own_bytes = cleave_program_own_bytes(program);
    int64_t *peaks = CLEAVE_ARENA_ARRAY(arena, int64_t, n_devices);
    if (peaks == NULL)
        return cleave_fail_memory(error, "counting memory");
    for (int32_t d = 0; d < n_devices; d++)
        peaks[d] = program->peak_bytes[cleave_program_stands_for(program, d)] +
                   cleave_machine_runtime_bytes(machine, d, own_bytes);
    *peak_bytes = peaks;
    return CLEAVE_OK;
}

static cleave_status lower_folded(const cleave_model *model, const cleave_machine *machine,
                                  const cleave_layout *layout, const cleave_lower_options *options,
                                  cleave_arena *arena, cleave_program *program,
                                  cleave_error *error) {
    cleave_fold fold;
    CLEAVE_TRY(cleave_fold_find(model, layout, machine->devices_per_node, arena, &fold, error));
    return cleave_lower_window(model, &fold, options, arena, program, error);
}

cleave_status cleave_priced_program_make(const cleave_model *model, const cleave_machine *machine,
                                         const cleave_layout *layout, const cleave_pricing *how,
                                         cleave_arena *arena, cleave_priced_program *priced,
                                         cleave_error *error) {
    cleave_machine context = *machine; /* the workspace function takes a plain pointer */
    bool closed_form = how->closed_form || layout->n_devices > CLEAVE_MOST_LOWERED ||
                       cleave_machine_knows_collectives(machine);
    const cleave_lower_options options = {.training = cleave_model_trains(model),
                                          .symbolic_collectives = closed_form,
                                          .least_collective = machine->collectives.least_devices,
                                          .together_bytes = machine->collectives.together_bytes,
                                          .optimizer_states = how->optimizer_states,
                                          .workspace = cleave_cost_workspace,
                                          .workspace_context = &context};
    cleave_priced_program result = {.n_devices = layout->n_devices};
    cleave_program *program = &result.program;
    cleave_status status = CLEAVE_NO_LAYOUT;
    if (closed_form && !how->all_devices)
        status = lower_folded(model, machine, layout, &options, arena, program, error);
    result.is_folded = status == CLEAVE_OK;
    if (status == CLEAVE_NO_LAYOUT)
        status = cleave_lower(model, layout, &options, arena, program, error);
    CLEAVE_TRY(status);
    CLEAVE_TRY(count_peaks(machine, program, result.n_devices, arena, &result.peak_bytes, error));
    result.bytes_sent = cleave_program_bytes_sent(program, NULL);
    CLEAVE_TRY(cleave_cost_cache_create(model, machine, &result.cache, error));
    *priced = result;
    return CLEAVE_OK;
}
