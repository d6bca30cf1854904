/* How far apart two uses of the same memory are in a step: the bytes that a device touches in
   between, each counted once.  That decides in which cache an operand is when a kernel wants it. It
   follows from the program alone: its order, and the memory plan, which gives what was freed last
   to what comes to life next, so that results are often written to memory that is near. */
#ifndef CLEAVE_GRAPH_REUSE_H
#define CLEAVE_GRAPH_REUSE_H

#include "graph/program.h"

/* Of a pass of a nest, bytes touched since each operand's memory was last; 0 of operands that the
   pass does not use. */
typedef struct cleave_reuse {
    int64_t step; /* what is touched in a whole step, each byte once: the arena; -1: the device does
                     not run the pass */
    int64_t inputs[CLEAVE_MAX_INPUTS], input_gradients[CLEAVE_MAX_INPUTS];
    int64_t output, output_gradient;
} cleave_reuse;

/* Of all passes of all nests on a device, [n_nests x 3] by nest and pass, in one step after another
   one.  Linear in the pages of all buffers that items
   use, and in computes times pages, of which there are at most 16,384. */
cleave_status cleave_program_reuse(const cleave_program *program, int32_t device,
                                   cleave_arena *arena, cleave_reuse **reuse, cleave_error *error);

#endif
