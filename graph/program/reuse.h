/* How far from the processor a step leaves what a kernel reads and writes: of every compute, the
   bytes of other memory that its device has touched since it last touched an operand.  A cache that
   keeps what was used last still has an operand if that is less than it holds. */
#ifndef CLEAVE_GRAPH_PROGRAM_REUSE_H
#define CLEAVE_GRAPH_PROGRAM_REUSE_H

#include "graph/program/program.h"

/* The operands of a compute, as in its call. */
enum {
    CLEAVE_REUSE_INPUT = 0,
    CLEAVE_REUSE_INPUT_GRADIENT = CLEAVE_MAX_INPUTS,
    CLEAVE_REUSE_OUTPUT = 2 * CLEAVE_MAX_INPUTS,
    CLEAVE_REUSE_COMBINED,
    CLEAVE_REUSE_OUTPUT_GRADIENT,
    CLEAVE_N_REUSES
};

typedef struct cleave_reuse {
    int64_t bytes[CLEAVE_N_REUSES]; /* 0 where the pass does not use the operand */
    double in_place; /* 1 where it writes its output over its first input, else 0; of several uses
                        their mean */
} cleave_reuse;

/* [n_computes], in a step that follows another one of the same program, whose memory is planned; by
   addresses, so that memory which an earlier tenant has just left counts as near.  Of what is read
   or written in part the whole counts. */
cleave_status cleave_reuse_find(const cleave_program *program, cleave_arena *arena,
                                cleave_reuse **reuses, cleave_error *error);

#endif
