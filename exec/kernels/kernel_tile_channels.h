/* Nests over rows of channels: one operand is a matrix, all others vary along its columns alone,
   and what is done to an element is a line, a (x - m) + b, with an a, m and b for each column.
   Batch normalisation under channels-last activations is of this form, forward and backward, and so
   are the statistics that it takes.

   Whatever the tape, a pass over the matrix then takes a multiplication and an addition an element;
   backward sums the output's gradient g and g (x - m) over the rows, of which the gradients of all
   that varies by column follow: they are linear in these two. */
#ifndef CLEAVE_EXEC_KERNELS_KERNEL_TILE_CHANNELS_H
#define CLEAVE_EXEC_KERNELS_KERNEL_TILE_CHANNELS_H

#include "exec/kernels/kernel_tile_run.h"

/* Sets plan->channels where a planned nest is of this form. */
void tile_channels_plan(const cleave_kernel_call *call, cleave_tile_plan *plan);

/* Bytes of the workspace from `base` on, which may be null. */
int64_t tile_channels_lay_out(const cleave_tile_plan *plan, char *base, tile_channels *channels);

/* Into how many steps a walk is cut at most. */
int64_t tile_channels_steps(const cleave_tile_plan *plan);

/* The lines of the columns from run->column on, run->columns of them; their registers that vary by
   column have their values. */
void tile_channels_find_lines(tile_run *run);

/* All rows of these columns: the output, or statistics' sums. */
cleave_status tile_channels_forward(tile_run *run, cleave_error *error);
/* The matrix' gradient, and column_sums of the frontier. */
cleave_status tile_channels_backward(tile_run *run, cleave_error *error);

#endif
