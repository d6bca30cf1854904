/* What the kernels share among themselves: the rows of their table, and how the elements of a local
   operand are reached from the axes.  Not for others: see kernel.h. */
#ifndef CLEAVE_EXEC_KERNELS_KERNEL_TABLE_H
#define CLEAVE_EXEC_KERNELS_KERNEL_TABLE_H

#include "exec/kernels/kernel.h"
#include "exec/kernels/onednn.h"

struct cleave_kernels {
    cleave_onednn *onednn;
    bool small_products_by_blas, large_products_by_blas; /* by OpenBLAS, else by oneDNN */
    bool multiplies_bf16;                                /* else what is bf16 is widened */
    cleave_team *team;                                   /* null: one thread, else */
    cleave_kernels **shares; /* [threads] each one's, for its part of a call */
};

/* A fast kernel.  `fits` and `workspace` look at maps and boxes only, never at data. */
typedef struct cleave_kernel_row {
    const char *name;
    uint32_t kinds, passes; /* bits of cleave_nest_kind and cleave_pass */
    bool accumulates;       /* can add to gradients */
    bool takes_bf16;        /* asked whether it fits calls with operands of bf16; others, and where
                               it does not, are asked of calls that are widened: widen.h */
    bool takes_gaps; /* and calls with operands that have gaps, in which it leaves what is there;
                        of others these are closed first */
    bool (*fits)(cleave_kernels *kernels, const cleave_kernel_call *call);
    int64_t (*workspace)(cleave_kernels *kernels, const cleave_kernel_call *call); /* null: none */
    cleave_status (*run)(cleave_kernels *kernels, const cleave_kernel_call *call,
                         cleave_error *error);
} cleave_kernel_row;

extern const cleave_kernel_row cleave_product_kernel, cleave_winograd_kernel,
    cleave_depthwise_kernel, cleave_im2col_kernel, cleave_convolution_kernel, cleave_pool_kernel,
    cleave_gather_kernel, cleave_attention_kernel, cleave_tile_kernel;

/* A row, and without which obstacles (widen.h) it is given the call. */
typedef struct cleave_kernel_taken {
    const cleave_kernel_row *row; /* null: the reference */
    unsigned without;
} cleave_kernel_taken;

cleave_kernel_taken cleave_kernel_take(cleave_kernels *kernels, const cleave_kernel_call *call);

/* The cut of a call along an axis for the threads that the kernels have, and what its largest part
   costs, in bytes that a core moves in the same time; 0: it can't be cut so. */
double cleave_kernel_cut_along(cleave_kernels *kernels, const cleave_kernel_call *call, int axis,
                               cleave_kernel_cut *found);

/* Part i of a call that is cut, without workspace; of its polls the first one has its share. */
void cleave_kernel_cut_part(const cleave_kernel_call *call, int32_t i, cleave_kernel_call *part);

/* The convolution that a call asks for; false where its nest is none. */
bool cleave_kernel_describe_convolution(const cleave_kernel_call *call, cleave_convolution *c);

/* What it reads and writes: in place of what it gives the gradient of, that gradient, and in
   backward passes the output's. */
typedef struct cleave_convolution_operands {
    const cleave_array *x, *w, *y;
} cleave_convolution_operands;

cleave_convolution_operands cleave_kernel_convolution_operands(const cleave_kernel_call *call);

/* Offset, in elements of a local array, of the element that an operand has at a point of the axes:
   base + sum of stride x (axis - its lower end), wherever the map is inside the tensor. */
typedef struct cleave_reach {
    int64_t base;
    int64_t stride[CLEAVE_MAX_AXES];
    bool inside; /* for every point of the part */
} cleave_reach;

cleave_reach cleave_kernel_reach(const cleave_kernel_call *call, const cleave_operand *operand,
                                 const cleave_array *array);

/* Elements of a local array. */
int64_t cleave_kernel_array_size(const cleave_kernel_call *call, const cleave_operand *operand,
                                 const cleave_array *array);

/* The inputs whose gradient this call gives. */
uint32_t cleave_kernel_gradients(const cleave_kernel_call *call);

/* The axis of the record (count, mean, M2) of a MOMENTS nest: it is not walked.  -1: none. */
int cleave_kernel_record_axis(const cleave_nest *nest);

/* Between two pieces. */
cleave_status cleave_kernel_poll_now(const cleave_kernel_call *call, cleave_error *error);

/* Cuts a walk of `steps` steps into the pieces of a call: polls when a step ends a piece that is
   not the last. */
typedef struct cleave_kernel_pace {
    const cleave_kernel_call *call;
    int64_t steps, done, next; /* `next`: steps done at the end of this piece */
    int32_t pieces, piece;
} cleave_kernel_pace;

cleave_kernel_pace cleave_kernel_pace_start(const cleave_kernel_call *call, int64_t steps);
cleave_status cleave_kernel_pace_piece(cleave_kernel_pace *pace, cleave_error *error);

static inline cleave_status cleave_kernel_pace_step(cleave_kernel_pace *pace, cleave_error *error) {
    return ++pace->done < pace->next ? CLEAVE_OK : cleave_kernel_pace_piece(pace, error);
}

/* kernel_attention_reference.c: the nests that an ATTENTION is, one after the other. */
cleave_status cleave_kernel_run_attention_reference(const cleave_kernel_call *call,
                                                    cleave_error *error);

/* Sets all elements to zero. */
void cleave_kernel_zero(const cleave_kernel_call *call, const cleave_operand *operand,
                        const cleave_array *array);

/* The next `bytes` of a workspace, of which so many are in use, at a cache line; null where it is
   only counted: `base` is null. */
static inline void *cleave_kernel_carve(char *base, int64_t *used, int64_t bytes) {
    void *at = base == NULL ? NULL : base + *used;
    *used += (bytes + 63) / 64 * 64;
    return at;
}

#endif
