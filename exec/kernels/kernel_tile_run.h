/* A tile at work: where its streams stand, and how they are read and written.

   An operand that lies contiguously in a tile is used in place; any other is brought into a row of
   scratch, and not again while it stays the same (a bias under channels-last activations is spread
   out once).  Results are stored, or summed in double over the points that share an element, in the
   order of the walk. */
#ifndef CLEAVE_EXEC_KERNELS_KERNEL_TILE_RUN_H
#define CLEAVE_EXEC_KERNELS_KERNEL_TILE_RUN_H

#include "exec/kernels/kernel_tile.h"

typedef struct tile_loaded {
    int64_t at; /* offset of what the scratch holds, -1: nothing */
    void *scratch;
} tile_loaded;

/* What kernel_tile_channels.h works in, [columns] each. */
typedef struct tile_channels {
    float *factor, *centre, *shift; /* factor (x - centre) + shift */
    float *factor_before[CLEAVE_MAX_TAPE], *shift_before[CLEAVE_MAX_TAPE]; /* of each link */
    float *part[2];                                                        /* sums of some rows, */
    double *sum[2];                                                        /* and of all */
    float *row[4]; /* some rows of the matrix, of the output's gradient, of the result and of the
                      output, where bf16 */
} tile_channels;

typedef struct tile_run {
    const cleave_kernel_call *call;
    const cleave_tile_plan *plan;
    int rows, columns; /* of this tile */
    bool first;        /* no point of the tile's elements of the sink has been before it, but for
                          those in loops of the tile */
    int64_t row, column;
    int64_t at[CLEAVE_MAX_TILE_STREAMS]; /* offset of every stream at the tile's first element */
    tile_loaded cache[CLEAVE_MAX_TILE_STREAMS];
    cleave_tape_tile tile;
    float *value[CLEAVE_MAX_REGISTERS], *adjoint[CLEAVE_MAX_REGISTERS]; /* scratch */
    double *sums[CLEAVE_MAX_INPUTS];                                    /* of summed gradients */
    double *column_sums[CLEAVE_MAX_REGISTERS]; /* of the frontier's adjoints, per column, */
    float *column_parts[CLEAVE_MAX_REGISTERS]; /* and of some rows of them */
    double *total, *square;                    /* of the output */
    float *shift;
    tile_channels channels;
    cleave_kernel_pace pace;
} tile_run;

static inline int64_t tile_column_stride(const tile_run *run, int stream) {
    return run->plan->stride[stream][run->plan->n_loops - 1];
}
static inline int64_t tile_row_stride(const tile_run *run, int stream) {
    return run->plan->stride[stream][run->plan->n_loops - 2];
}

static inline bool tile_lies_contiguously(const tile_run *run, int stream) {
    return (tile_column_stride(run, stream) == 1 || run->columns == 1) &&
           (run->rows == 1 || tile_row_stride(run, stream) == run->columns);
}

/* The stream's elements under the tile; `*fresh` where they may differ from the tile before. */
float *tile_load(tile_run *run, int stream, const cleave_array *array, cleave_type type,
                 bool *fresh);
/* Count, mean, d mean and d M2 of the moments under the tile. */
void tile_load_record(tile_run *run, const float *record[4]);
/* The offsets of a stream's elements. */
const int64_t *tile_load_index(tile_run *run, int stream, bool *fresh);

/* To and from elements of bf16. */
void tile_widen_row(int n, const uint16_t *restrict from, float *restrict to);
void tile_round_row(int n, const float *restrict from, uint16_t *restrict to);

/* The tile's values x, row by row, to the stream's elements in memory. */
void tile_scatter(const tile_run *run, int stream, const float *x, const cleave_array *to);
/* Added to them. */
void tile_add_to(const tile_run *run, int stream, const float *x, const cleave_array *to);
/* sums[element of the stream] += x */
void tile_add(const tile_run *run, int stream, const float *x, double *sums);
void tile_max(const tile_run *run, int stream, const float *x, float *best);
/* Sums of x - shift and of its square, where shift is the first value of each element: near enough
   to the mean for the difference of the two to be exact in double. */
void tile_moments(const tile_run *run, int stream, const float *x);
/* Adds the rows of a tile to the sums of its columns: some rows in float, those sums in double. */
void tile_add_rows(const tile_run *run, const float *x, float *part, double *sums);

#endif
