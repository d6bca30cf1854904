/* How the tape kernel walks a nest: see kernel_tile_plan.c. */
#ifndef CLEAVE_EXEC_KERNELS_KERNEL_TILE_H
#define CLEAVE_EXEC_KERNELS_KERNEL_TILE_H

#include "exec/kernels/kernel_table.h"
#include "exec/kernels/tape.h"

/* Values and gradients of all inputs, the indices of INDEX and DROPOUT, the output, the seed and a
   record. */
enum { CLEAVE_MAX_TILE_STREAMS = 2 * CLEAVE_MAX_INPUTS + CLEAVE_MAX_TAPE + 6 };

/* An instruction, and its operand that varies by column; -1: it has one operand. */
typedef struct cleave_tile_link {
    int instruction, other;
} cleave_tile_link;

/* A nest over rows of channels: see kernel_tile_channels.h. */
typedef struct cleave_tile_channels_plan {
    bool fits;
    const cleave_instruction
        *bound;  /* RELU or CLIP of the line, the last instruction; null: none */
    int matrix;  /* input */
    int centre;  /* register that is subtracted from it first; -1: none */
    int n_links; /* what is done to the rest, each to the one before */
    cleave_tile_link link[CLEAVE_MAX_TAPE];
} cleave_tile_channels_plan;

/* A stream is an operand, its gradient, or an index: something with a stride along every axis. */
typedef struct cleave_tile_plan {
    cleave_tape_plan tape;
    cleave_combiner combiner;
    uint32_t gradients; /* bits of the inputs whose gradient is asked for */
    int n_streams;
    cleave_reach reach[CLEAVE_MAX_TILE_STREAMS];
    /* Stream ids, -1: none. */
    int input[CLEAVE_MAX_INPUTS], gradient[CLEAVE_MAX_INPUTS], index[CLEAVE_MAX_TAPE];
    int output, seed;
    int record[4];                  /* backward of moments: count, mean, d mean, d M2 */
    bool summed[CLEAVE_MAX_INPUTS]; /* several points share an element of the gradient */
    /* Registers that vary along the columns alone, and, backward, those of them that are operands
       of an instruction that varies otherwise too; none where the value itself is of them. */
    uint64_t by_column, frontier;
    cleave_tile_channels_plan channels;
    int n_loops; /* 2 or more; the last two are rows and columns of tiles */
    int64_t extent[CLEAVE_MAX_AXES + 2];
    int64_t stride[CLEAVE_MAX_TILE_STREAMS][CLEAVE_MAX_AXES + 2]; /* per stream and loop */
    int64_t tile, rows, columns; /* most elements, and shape, of a tile */
} cleave_tile_plan;

/* False where the kernel does not fit: padding, the gradient of a maximum, an integer output. */
bool cleave_tile_plan_make(const cleave_kernel_call *call, cleave_tile_plan *plan);

/* Is the stream the same for all rows and in all outer loops? */
bool cleave_tile_is_by_column(const cleave_tile_plan *plan, int stream);
/* Registers that vary along the columns alone, given the inputs among them. */
uint64_t cleave_tile_by_column(const cleave_nest *nest, const cleave_tile_plan *plan,
                               uint64_t inputs);

#endif
