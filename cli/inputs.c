/* What several subcommands read and derive from their options. */
#include "cli/inputs.h"

#include "graph/import/import.h"

#include <stdio.h>
#include <string.h>

cleave_status inputs_trained_model(const char *file, int64_t batch, const char *inputs,
                                   cleave_arena *arena, cleave_model *model, cleave_error *error) {
    const cleave_import_request request = {
        .file = file, .batch = batch, .with_loss = true, .inputs = inputs};
    return cleave_model_import_as(&request, arena, model, error);
}

cleave_status inputs_optimizer_states(const char *optimizer, double momentum, int *states,
                                      cleave_error *error) {
    if (strcmp(optimizer, "sgd") == 0)
        *states = momentum > 0 ? 1 : 0;
    else if (strcmp(optimizer, "adam") == 0)
        *states = 2;
    else
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "--optimizer: \"%.64s\" is neither \"sgd\" nor \"adam\"", optimizer);
    return CLEAVE_OK;
}

/* The memory of a rank is its arena, the program and what the runtime itself takes. */
static cleave_status count_peaks(const cleave_machine *machine, const cleave_program *program,
                                 int32_t n_devices, cleave_arena *arena, int64_t **peak_bytes,
                                 cleave_error *error) {
    int64_t own_bytes = cleave_program_own_bytes(program);
    int64_t *peaks = CLEAVE_ARENA_ARRAY(arena, int64_t, n_devices);
    if (peaks == NULL)
        return cleave_fail_memory(error, "counting memory");
    for (int32_t d = 0; d < n_devices; d++)
        peaks[d] = program->peak_bytes[d % program->n_devices] +
                   cleave_machine_runtime_bytes(machine, d, own_bytes);
    *peak_bytes = peaks;
    return CLEAVE_OK;
}

cleave_status inputs_price(const cleave_model *model, const cleave_machine *machine,
                           const cleave_layout *layout, const inputs_pricing *how,
                           cleave_arena *arena, priced_program *priced, cleave_error *error) {
    cleave_machine context = *machine; /* the workspace function takes a plain pointer */
    const cleave_lower_options options = {.training = how->training,
                                          .symbolic_collectives = how->closed_form,
                                          .optimizer_states = how->optimizer_states,
                                          .workspace = cleave_cost_workspace,
                                          .workspace_context = &context};
    priced_program result = {.n_devices = layout->n_devices};
    cleave_program *program = &result.program;
    cleave_fold fold;
    if (how->folded) {
        CLEAVE_TRY(cleave_fold_find(model, layout, machine->devices_per_node, arena, &fold, error));
        CLEAVE_TRY(cleave_lower_window(model, &fold, &options, arena, program, error));
    } else {
        CLEAVE_TRY(cleave_lower(model, layout, &options, arena, program, error));
    }
    CLEAVE_TRY(count_peaks(machine, program, result.n_devices, arena, &result.peak_bytes, error));
    result.bytes_sent = cleave_program_bytes_sent(program);
    CLEAVE_TRY(cleave_cost_cache_create(model, machine, &result.cache, error));
    *priced = result;
    return CLEAVE_OK;
}

cleave_status inputs_print_json(cleave_json_writer *writer, cleave_error *error) {
    bool failed = writer->failed;
    if (!failed)
        fputs(writer->text, stdout);
    cleave_json_writer_free(writer);
    return failed ? cleave_fail_memory(error, "writing JSON") : CLEAVE_OK;
}

void inputs_put_per_device(cleave_json_writer *writer, const char *key, const int64_t *bytes,
                           int32_t n_devices) {
    cleave_json_key(writer, key);
    cleave_json_begin_array(writer, true);
    for (int32_t d = 0; d < n_devices; d++)
        cleave_json_put_integer(writer, bytes[d]);
    cleave_json_end_array(writer);
}

void inputs_put_bytes_between(cleave_json_writer *writer, const int64_t *bytes, int32_t n_devices) {
    cleave_json_key(writer, "bytes_between");
    cleave_json_begin_array(writer, false);
    for (int32_t source = 0; source < n_devices; source++) {
        cleave_json_begin_array(writer, true);
        for (int32_t destination = 0; destination < n_devices; destination++)
            cleave_json_put_integer(
                writer, bytes[(size_t)source * (size_t)n_devices + (size_t)destination]);
        cleave_json_end_array(writer);
    }
    cleave_json_end_array(writer);
}

const char *inputs_provenance_note(const cleave_machine *machine) {
    for (int32_t k = 0; k < machine->n_kinds; k++)
        if (machine->kinds[k].n_kernels == 0)
            return "Times rest on data-sheet figures: this machine file was not calibrated.";
    return "";
}
