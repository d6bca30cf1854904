/* How long a framework has what the buffers of a program hold: what the parts of adding up its
   memory share. */
#ifndef CLEAVE_GRAPH_PROGRAM_FRAMEWORK_LIVES_H
#define CLEAVE_GRAPH_PROGRAM_FRAMEWORK_LIVES_H

#include "graph/program/allocations.h"
#include "graph/program/program.h"

/* What computes do with the memory of a buffer; items, -1: none. */
typedef struct framework_use {
    int32_t forward_last, backward_first, backward_last;
    int32_t message_last; /* posted from it */
    int32_t loss_first;   /* of a loss over classes that reads it, the first of forward */
    int32_t logits;       /* 1 + the buffer of the logits whose gradient it is */
    int32_t made_from; /* the first item of its layer that is made again; -1: it is not, or later */
    bool is_made_again; /* what backward reads is */
    int32_t own;     /* 1 + the buffer of this device that it was gathered from; 0: not gathered */
    bool is_written; /* by a compute */
    bool is_let_go;  /* backward reads what came of it: of scores, or of what a norm read */
    bool is_added;   /* computes write gradients there, not copies of others' */
} framework_use;

typedef struct framework_lives {
    const cleave_program *program;
    const cleave_framework_row *framework;
    int32_t *parameter;      /* 1 + the persistent buffer with most, [n_tensors x n_devices]; */
    int64_t *largest;        /* elements of the largest piece of an activation, likewise; */
    int32_t *written;        /* 1 + the buffer that a compute wrote last, [n_tensors x n_devices] */
    int32_t *waiting, *next; /* for backward: first item of [n_nests x n_devices], [n_items] */
    framework_use *uses;     /* [n_buffers] */
    bool *again;             /* [n_nests] it is recomputed */
    bool *is_read;           /* [n_nests] backward of another reads what it gives */
    bool *is_inside;         /* [n_nests] in a checkpoint, and made again although we keep it */
    bool *is_sent;           /* [n_tensors x n_devices] by a collective of the main lane */
    int32_t *run, *run_end;  /* [n_items] in which run of a device's computes forward, or backward,
                                of one micro-batch an item is; and the last item of each run */
    int32_t *layer, *made_from; /* [n_devices] 1 + the operator with which what is made again of a
                                   layer began, and the item */
    cleave_allocations all;
} framework_lives;

static inline int64_t framework_place(const framework_lives *l, int32_t tensor, int32_t device) {
    return (int64_t)tensor * l->program->n_devices + device;
}

/* Elements of a piece. */
static inline int64_t framework_size_of(const cleave_program *program, int32_t b) {
    const cleave_buffer *of = &program->buffers[b];
    return cleave_box_size(program->model->tensors[of->tensor].rank, &of->box);
}

/* From an item to another, with what they need. */
static inline void framework_put(framework_lives *l, int32_t device, int32_t first, int32_t last,
                                 int64_t bytes) {
    cleave_allocations_add(&l->all, device, CLEAVE_STREAM_COMPUTE,
                           cleave_moment(first, CLEAVE_STEPS_OF_ITEM - 1),
                           cleave_moment(last + 1, 0), bytes);
}

/* From an item of the first step on. */
static inline void framework_keep(framework_lives *l, int32_t device, int32_t first,
                                  int64_t bytes) {
    cleave_allocations_keep(&l->all, device, cleave_moment(first, CLEAVE_STEPS_OF_ITEM - 1), bytes);
}

/* framework_uses.c: what the computes of the program, in their order, do with its buffers, and what
   waits from forward until backward besides these.  False when memory is short. */
bool framework_note_uses(framework_lives *l, cleave_arena *scratch);

#endif
