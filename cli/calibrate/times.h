/* Times that a framework was found to take, TIMES.json: read, and made into a machine file. */
#ifndef CLEAVE_CLI_CALIBRATE_TIMES_H
#define CLEAVE_CLI_CALIBRATE_TIMES_H

#include "cli/calibrate/calibrate.h"

typedef struct calibrate_collective {
    int kind; /* cleave_collective_kind */
    int32_t n_devices;
    int64_t bytes;
    double seconds;
    double beside; /* seconds that it takes from what is computed meanwhile; 0: not timed */
} calibrate_collective;

typedef struct calibrate_times {
    /* By what it was measured. */
    const char *framework, *device, *precision; /* "torch 2.6.0", "cpu: AMD EPYC", "f32" */
    int64_t threads;
    bool compiled;
    int64_t memory_bytes;   /* of a device */
    int64_t together_bytes; /* of gradients that one all-reduce sums up; 0: not said */
    int32_t n_kernels, n_collectives;
    int32_t n_failed; /* what the framework could not do */
    cleave_kernel_time *kernels;
    calibrate_collective *collectives;
} calibrate_times;

/* BAD_INPUT with file, path and value for what is no such file, for times that are not above 0, and
   for keys that are there twice. */
cleave_status calibrate_times_read(const char *path, cleave_arena *arena, calibrate_times *times,
                                   cleave_error *error);
cleave_status calibrate_times_parse(const char *text, size_t bytes, const char *name,
                                    cleave_arena *arena, calibrate_times *times,
                                    cleave_error *error);

/* Puts them into a machine: kernels of its first kind, fitted, and collectives.  Kernels that
   others measured are dropped, and what the same measured before is kept.  BAD_INPUT where a
   collective has more devices than a node. */
cleave_status calibrate_times_apply(const calibrate_times *times, cleave_arena *arena,
                                    cleave_machine *machine, cleave_error *error);

/* Reads --import, and writes the machine: --machine with what was measured in it, else what the
   output file has, else devices that are joined as collectives were found to be. */
cleave_status calibrate_take(const calibrate_values *values, cleave_arena *arena,
                             cleave_error *error);

/* The three in one: lists, starts the script of the framework, and takes its times. */
cleave_status calibrate_through(const calibrate_values *values, cleave_arena *arena,
                                cleave_error *error);

#endif
