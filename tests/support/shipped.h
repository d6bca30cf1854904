/* Models and machines that ship, by their names: NAME.onnx and NAME.json below configs/. */
#ifndef CLEAVE_TESTS_SUPPORT_SHIPPED_H
#define CLEAVE_TESTS_SUPPORT_SHIPPED_H

#include "costmodel/machine.h"
#include "graph/import/import.h"

#include <stdio.h>

/* With a loss. */
static inline cleave_status shipped_model(const char *name, int64_t batch, cleave_arena *arena,
                                          cleave_model *model, cleave_error *error) {
    char path[4096];
    snprintf(path, sizeof path, "%s/configs/models/%s.onnx", CLEAVE_SOURCE_DIR, name);
    return cleave_model_import_as(
        &(cleave_import_request){.file = path, .batch = batch, .with_loss = true}, arena, model,
        error);
}

static inline cleave_status shipped_machine(const char *name, int32_t n_devices,
                                            cleave_arena *arena, cleave_machine *machine,
                                            cleave_error *error) {
    char path[4096];
    snprintf(path, sizeof path, "%s/configs/machines/%s.json", CLEAVE_SOURCE_DIR, name);
    return cleave_machine_read(path, n_devices, arena, machine, error);
}

#endif
