/* What several subcommands read and derive from their options. */
#include "cli/inputs.h"

#include "exec/kernels/optimizer.h"
#include "graph/model/filled.h"

#include <stdio.h>
#include <string.h>

cleave_import_request inputs_request(const common_options *common) {
    return (cleave_import_request){.file = common->model,
                                   .batch = common->batch,
                                   .sequence = common->sequence,
                                   .capacity_factor = common->capacity_factor,
                                   .inputs = common->inputs,
                                   .dimensions = common->dimensions,
                                   .precision = common->precision,
                                   .reduce_precision = common->reduce_precision,
                                   .frozen = common->frozen,
                                   .clips = common->clip_norm > 0,
                                   .with_loss = !common->forward};
}

/* An export for decoding takes what was computed for the tokens before, under names that begin so.
 */
static cleave_status check_no_cache(const cleave_model *model, cleave_error *error) {
    for (int32_t i = 0; i < model->n_inputs; i++)
        if (strcmp(model->inputs[i].name, "past") == 0 ||
            strncmp(model->inputs[i].name, "past_", strlen("past_")) == 0)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "%s: input %.128s is a cache: decoding with one is not planned, "
                               "only one pass over a given length; export the model without",
                               model->file, model->inputs[i].name);
    return CLEAVE_OK;
}

cleave_status inputs_model(const common_options *common, cleave_arena *arena, cleave_model *model,
                           cleave_error *error) {
    const cleave_import_request request = inputs_request(common);
    CLEAVE_TRY(cleave_model_import_as(&request, arena, model, error));
    return request.with_loss ? CLEAVE_OK : check_no_cache(model, error);
}

cleave_status inputs_attention(const char *attention, cleave_model *model, cleave_error *error) {
    model->stores_scores = strcmp(attention, "stored") == 0;
    if (!model->stores_scores && strcmp(attention, "fused") != 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "--attention %s: fused and stored are known",
                           attention);
    return CLEAVE_OK;
}

cleave_status inputs_framework(const char *framework, cleave_machine *machine,
                               cleave_error *error) {
    int found = 0;
    while (found < CLEAVE_N_FRAMEWORKS && strcmp(framework, cleave_frameworks[found].name) != 0)
        found++;
    if (found == CLEAVE_N_FRAMEWORKS)
        return cleave_fail(
            error, CLEAVE_BAD_INPUT,
            "--framework %s: compiled, eager, torchtitan, llm-foundry, megatron, "
            "megatron-fused, megatron-deepspeed, megatron-deepspeed-torch-norm and mist are known",
            framework);
    for (int32_t k = 0; k < machine->n_kinds; k++)
        machine->kinds[k].framework = (cleave_framework)found;
    return CLEAVE_OK;
}

cleave_status inputs_target(const char *option, const char *name, cleave_target *target,
                            cleave_error *error) {
    for (int t = 0; t < CLEAVE_N_TARGETS; t++)
        if (strcmp(name, cleave_target_names[t]) == 0) {
            *target = (cleave_target)t;
            return CLEAVE_OK;
        }
    return cleave_fail(error, CLEAVE_BAD_INPUT, "%s %s: torch and jax are known", option, name);
}

cleave_status inputs_optimizer_states(const common_options *common, int *states,
                                      cleave_error *error) {
    cleave_optimizer optimizer;
    CLEAVE_TRY(cleave_optimizer_find(common->optimizer, &optimizer, error));
    optimizer.momentum = common->momentum;
    *states = cleave_optimizer_states(&optimizer);
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
    cleave_json_open_array(writer, key, true);
    for (int32_t d = 0; d < n_devices; d++)
        cleave_json_put_integer(writer, bytes[d]);
    cleave_json_end_array(writer);
}

void inputs_put_bytes_between(cleave_json_writer *writer, const int64_t *bytes, int32_t n_devices) {
    cleave_json_open_array(writer, "bytes_between", false);
    for (int32_t source = 0; source < n_devices; source++) {
        cleave_json_begin_array(writer, true);
        for (int32_t destination = 0; destination < n_devices; destination++)
            cleave_json_put_integer(
                writer, bytes[(size_t)source * (size_t)n_devices + (size_t)destination]);
        cleave_json_end_array(writer);
    }
    cleave_json_end_array(writer);
}

void inputs_print_room(const cleave_model *model) {
    double room = cleave_model_most_room(model);
    if (room >= 2)
        printf("Experts have room for %.3g x the rows of an even choice, and all of it is kept and "
               "sent; frameworks that drop nothing keep and send chosen rows alone: "
               "--capacity-factor 1 plans for these.\n",
               room);
}

const char *inputs_provenance_note(const cleave_machine *machine) {
    for (int32_t k = 0; k < machine->n_kinds; k++)
        if (machine->kinds[k].n_kernels == 0)
            return "Times rest on data-sheet figures: this machine file was not calibrated.";
    return "";
}

cleave_status inputs_device_threads(const cleave_machine *machine, const char *path,
                                    int64_t device_threads, cleave_error *error) {
    int64_t asked = device_threads > 1 ? device_threads : 1;
    for (int32_t k = 0; k < machine->n_kinds; k++) {
        int32_t threads = cleave_device_kind_threads(&machine->kinds[k]);
        if (machine->kinds[k].n_kernels > 0 && threads != asked)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "%s: \"%s\" was calibrated with %d thread%s a device, and "
                               "--device-threads is %lld",
                               path, machine->kinds[k].name, threads, threads == 1 ? "" : "s",
                               (long long)asked);
    }
    return CLEAVE_OK;
}
