/* Runs a program in one process, without MPI, with as hostile a timing as the rules allow: at each
   turn any lane of any device whose head could run may run next; a message is read from its source
   at the last moment that the rules allow or the first, and written to its destination likewise.
   Memory is the planned arenas, poisoned, so that overlapping buffers, missing waits and unwritten
   elements show. */
#ifndef CLEAVE_TESTS_SUPPORT_INTERPRETER_H
#define CLEAVE_TESTS_SUPPORT_INTERPRETER_H

#include "exec/kernels/kernel.h"
#include "exec/kernels/optimizer.h"
#include "graph/program/program.h"

typedef struct interpreter_options {
    uint64_t seed; /* of initial values, data and dropout */
    uint64_t timing_seed;
    cleave_optimizer optimizer;
    int64_t steps;
    cleave_kernels *kernels; /* null: the reference */
    /* Data by name, row-major and whole; null where there is none for it: made up. */
    const void *(*datum)(void *context, const char *name);
    void *context;
} interpreter_options;

typedef struct interpreter_result {
    double loss[16];    /* [steps] */
    double squares[16]; /* [steps] of all gradients, where they are clipped; else 0 */
    float **values;  /* [n_tensors] parameters and buffers at the end, row-major; null for others;
                        arena */
    float **outputs; /* [n_outputs of the model] of a forward program, row-major; arena */
    int64_t *bytes_between; /* [n_devices x n_devices] of one step */
} interpreter_result;

cleave_status interpreter_run(const cleave_program *program, const interpreter_options *options,
                              cleave_arena *arena, interpreter_result *result, cleave_error *error);

#endif
