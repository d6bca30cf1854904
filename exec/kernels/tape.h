/* Tapes over tiles: every register of a tape becomes a row of floats, and each instruction one
   loop over it that the compiler vectorises.  A tile is small enough for its registers to stay in
   the nearest caches, so a tape of many instructions still passes over memory once.

   A plan says what a pass has to compute: which registers' values (in backward only those that some
   derivative reads) and which registers' adjoints. */
#ifndef CLEAVE_EXEC_KERNELS_TAPE_H
#define CLEAVE_EXEC_KERNELS_TAPE_H

#include "graph/model/model.h"

enum { CLEAVE_MAX_TILE = 4096, CLEAVE_MAX_REGISTERS = CLEAVE_MAX_INPUTS + CLEAVE_MAX_TAPE };

static inline uint64_t cleave_register_bit(int r) { return (uint64_t)1 << r; }

typedef struct cleave_tape_plan {
    const cleave_nest *nest;
    int n_registers;
    uint64_t values;   /* bit r: the value of register r is needed */
    uint64_t adjoints; /* bit r: the adjoint of register r is needed, and something reaches it */
    bool from_output;  /* the last instruction is differentiated from the output's value */
} cleave_tape_plan;

/* The value of the last register, and what it takes. */
void cleave_tape_plan_forward(const cleave_nest *nest, cleave_tape_plan *plan);

/* Gradients of the inputs in `inputs`.  `last_value`: the seed itself reads the tape's value. */
void cleave_tape_plan_backward(const cleave_nest *nest, uint32_t inputs, bool last_value,
                               cleave_tape_plan *plan);

/* The registers of one tile, each [n].  Values of inputs and adjoints may lie in the operands. */
typedef struct cleave_tape_tile {
    int n;
    float *value[CLEAVE_MAX_REGISTERS];
    float *adjoint[CLEAVE_MAX_REGISTERS]; /* written, but for the last one, which is given */
    /* INDEX, DROPOUT and UNIFORM instructions: the logical index of every element, else null. */
    const int64_t *index[CLEAVE_MAX_TAPE];
    uint64_t dropout_key;
    const float *output; /* for from_output */
    /* Bit r: register r differs from what the tile before had in it.  Instructions whose operands
       have not changed are not computed again. */
    uint64_t changed;
    uint64_t skipped; /* bit r: the instruction that writes register r is left out, both ways */
    uint64_t given;   /* backward: bit r: adjoint[r] has a value to begin with, to be added to */
} cleave_tape_tile;

void cleave_tape_forward(const cleave_tape_plan *plan, cleave_tape_tile *tile);
void cleave_tape_backward(const cleave_tape_plan *plan, cleave_tape_tile *tile);

#endif
