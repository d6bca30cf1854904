/* Kernels: the computation of one pass of a nest over one part, on local pieces of its operands. */
#ifndef CLEAVE_EXEC_KERNELS_KERNEL_H
#define CLEAVE_EXEC_KERNELS_KERNEL_H

#include "exec/kernels/team.h"
#include "graph/model/model.h"
#include "graph/model/part.h"

/* A local piece: dense in the memory order of its tensor, over the clipped box of its operand; or a
   box of such a one, with gaps where the rest of it is. */
typedef struct cleave_array {
    void *data;       /* null: the pass does not use it */
    cleave_type type; /* of its elements: float, int64_t, or uint16_t that hold bf16 */
    cleave_box box;
    int64_t strides[CLEAVE_MAX_RANK]; /* elements */
} cleave_array;

/* What a long kernel calls between two of its pieces.  Nothing that the kernel reads or writes may
   change meanwhile. */
typedef cleave_status cleave_kernel_poll(void *context, cleave_error *error);

/* A call cut along an axis, for threads that each write a box of their own: no sum is cut. */
typedef struct cleave_kernel_cut {
    int16_t axis, n; /* parts; 1: it is not cut, 0: that is to be found */
    int32_t grain;   /* cuts are at multiples of it, from the call's part on */
} cleave_kernel_cut;

typedef struct cleave_kernel_call {
    const cleave_model *model;
    const cleave_nest *nest;
    cleave_pass pass;
    cleave_part part; /* not empty */
    cleave_array inputs[CLEAVE_MAX_INPUTS];
    cleave_array output;          /* forward: written; backward: read, where kept */
    cleave_array combined;        /* backward of moments; statistics of attention: forward writes */
    cleave_array output_gradient; /* backward: read */
    cleave_array input_gradients[CLEAVE_MAX_INPUTS]; /* backward: overwritten, */
    uint32_t accumulated; /* or, with bit i, added to; not by convolutions and pools */
    void *workspace;
    int64_t workspace_bytes;
    bool widened;  /* from operands of bf16, for a kernel that knows f32 alone */
    uint64_t seed; /* of dropout */
    int64_t step;
    /* The kernel cuts its work into so many pieces, or as many as its shapes allow, whether there
       is something to call between them or not. */
    int32_t pieces;
    cleave_kernel_poll *poll; /* may be null */
    void *poll_context;
    cleave_kernel_cut cut; /* a function of all above but the data, and of the kernels' threads */
} cleave_kernel_call;

/* A call with the boxes and strides of every operand under this part, and no data yet.  Gradients,
   `combined` and the output have the boxes of their operands.  Pieces are as graph/program/work.h
   has them. */
void cleave_kernel_call_describe(const cleave_model *model, const cleave_nest *nest,
                                 cleave_pass pass, const cleave_part *part,
                                 cleave_kernel_call *call);

/* What keeps compiled primitives from call to call.  Not shared between threads. */
typedef struct cleave_kernels cleave_kernels;
cleave_status cleave_kernels_create(cleave_kernels **kernels,
                                    cleave_error *error); /* sets flush-to-zero too */
void cleave_kernels_destroy(cleave_kernels *kernels);

/* The same with threads (1 or less: one) that share every call out among them.  Results are
   functions of how many there are, too, and never of which of them is quick; those of sums differ
   by it only as the libraries' products of other shapes do.  All calls are of the thread that
   created them. */
cleave_status cleave_kernels_create_threads(int32_t n_threads, cleave_kernels **kernels,
                                            cleave_error *error);
/* These threads, for other work between calls and in polls; null: there is one. */
cleave_team *cleave_kernels_team(const cleave_kernels *kernels);

/* How the kernels would cut a call: for one that is made often.  Needs no data. */
cleave_kernel_cut cleave_kernel_find_cut(cleave_kernels *kernels, const cleave_kernel_call *call);

/* Runs the fastest kernel there is for this call, else the reference. */
cleave_status cleave_kernel_run(cleave_kernels *kernels, const cleave_kernel_call *call,
                                cleave_error *error);

/* The name of the kernel that cleave_kernel_run takes for this call, which needs no data:
   "product", "winograd", "depthwise", "im2col", "convolution", "pool", "gather", "attention",
   "tape" or "reference". */
const char *cleave_kernel_choice(cleave_kernels *kernels, const cleave_kernel_call *call);

/* Straight from the nest: walks every point of the axes, evaluates the tape and combines.  Slow,
   and the oracle of all the others.  Any nest, any pass. */
cleave_status cleave_kernel_run_reference(const cleave_kernel_call *call, cleave_error *error);

/* Scratch bytes that cleave_kernel_run needs; a cleave_workspace_function with the kernels as
 * context. */
int64_t cleave_kernel_workspace(void *kernels, const cleave_model *model, const cleave_nest *nest,
                                cleave_pass pass, const cleave_part *part);

/* The same for a call that is described, whatever its pieces. */
int64_t cleave_kernel_call_workspace(cleave_kernels *kernels, const cleave_kernel_call *call);

/* Names and versions of the kernels, such as "OpenBLAS 0.3.21 and oneDNN 2.6.3, own kernels 2";
   part of calibration. */
const char *cleave_kernels_version(void);

#endif
