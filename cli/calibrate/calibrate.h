/* `cleave calibrate`: what its files share. */
#ifndef CLEAVE_CLI_CALIBRATE_CALIBRATE_H
#define CLEAVE_CLI_CALIBRATE_CALIBRATE_H

#include "cli/inputs.h"
#include "cli/options.h"
#include "costmodel/machine.h"
#include "exec/world/world.h"
#include "graph/model/model.h"

typedef struct calibrate_values {
    common_options common;
    const char *output, *name;
    const char *list, *import, *through, *python, *device; /* another one measures */
    bool compile;
    option_texts models, inputs, dimensions, layouts;
    option_integers batches, sequences;
    double time;
    bool again; /* the given layouts' kernels, whatever is known of them, and no others */
} calibrate_values;

cleave_status calibrate_import(const calibrate_values *values, int i, cleave_arena *arena,
                               cleave_model *model, cleave_error *error);

/* Devices alike, every two joined, of which nothing is measured. */
cleave_status calibrate_plain_machine(const char *name, int32_t n_devices, cleave_arena *arena,
                                      cleave_machine *machine, cleave_error *error);

/* What every rank does; rank 0 writes the machine file and prints what it found. */
cleave_status calibrate_rank(const calibrate_values *values, cleave_world *world,
                             cleave_arena *arena, cleave_error *error);

#endif
