/* `cleave calibrate`: what its files share. */
#ifndef CLEAVE_CLI_CALIBRATE_CALIBRATE_H
#define CLEAVE_CLI_CALIBRATE_CALIBRATE_H

#include "cli/options.h"
#include "costmodel/machine.h"
#include "exec/world/world.h"
#include "graph/model/model.h"

typedef struct calibrate_values {
    const char *output, *name, *precision, *reduce_precision;
    const char *list, *import, *through, *machine, *python, *device; /* another one measures */
    int64_t device_threads;
    bool compile;
    option_texts models, inputs, layouts;
    option_integers batches, sequences;
    int64_t devices;
    double time, capacity_factor;
    bool again; /* the given layouts' kernels, whatever is known of them, and no others */
    bool forward, quiet;
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
