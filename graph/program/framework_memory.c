#include "graph/program/framework_memory.h"

#include <stdlib.h>

enum { ALLOCATION = 512 };

typedef struct change {
    int32_t item; /* before which it happens */
    int32_t device;
    int64_t bytes;
} change;

static int64_t allocation(int64_t bytes) {
    return (bytes + ALLOCATION - 1) / ALLOCATION * ALLOCATION;
}

/* Lets go before it allocates. */
static int compare_changes(const void *a, const void *b) {
    const change *x = a, *y = b;
    if (x->item != y->item)
        return x->item < y->item ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Marks the buffers whose memory a framework has: those in which something lies that is no message,
   and of gradients of a parameter on a device the largest.  `largest` [n_tensors x n_devices] has 1
   + a buffer. */
static void mark(const cleave_program *program, int32_t *largest, bool *has) {
    for (int32_t b = 0; b < program->n_buffers; b++) {
        const cleave_buffer *of = &program->buffers[b];
        if (of->kind != CLEAVE_BUFFER_MESSAGE)
            has[of->storage] = true;
        if (of->kind != CLEAVE_BUFFER_GRADIENT || of->storage != b)
            continue;
        int32_t *known = &largest[(int64_t)of->tensor * program->n_devices + of->device];
        if (*known > 0 && program->buffers[*known - 1].bytes >= of->bytes) {
            has[b] = false;
        } else {
            if (*known > 0)
                has[*known - 1] = false;
            *known = b + 1;
        }
    }
}

static int32_t list_changes(const cleave_program *program, const bool *has, change *changes) {
    int32_t n = 0;
    for (int32_t b = 0; b < program->n_buffers; b++) {
        const cleave_buffer *of = &program->buffers[b];
        if (!has[b] || of->storage != b || of->last < of->first)
            continue;
        changes[n++] = (change){of->first, of->device, allocation(of->bytes)};
        changes[n++] = (change){of->last + 1, of->device, -allocation(of->bytes)};
    }
    return n;
}

cleave_status cleave_program_framework_bytes(const cleave_program *program, int64_t *bytes,
                                             cleave_error *error) {
    size_t n_buffers = (size_t)program->n_buffers, n_devices = (size_t)program->n_devices;
    bool *has = calloc(n_buffers + 1, sizeof *has);
    change *changes = calloc(2 * n_buffers + 1, sizeof *changes);
    int64_t *live = calloc(n_devices, sizeof *live);
    int32_t *largest = calloc((size_t)program->model->n_tensors * n_devices + 1, sizeof *largest);
    bool made = has != NULL && changes != NULL && live != NULL && largest != NULL;
    if (made) {
        int64_t most = 0;
        mark(program, largest, has);
        int32_t n = list_changes(program, has, changes);
        qsort(changes, (size_t)n, sizeof *changes, compare_changes);
        for (int32_t i = 0; i < n; i++) {
            int64_t *of = &live[changes[i].device];
            *of += changes[i].bytes;
            most = *of > most ? *of : most;
        }
        *bytes = most;
    }
    free(has);
    free(changes);
    free(live);
    free(largest);
    return made ? CLEAVE_OK : cleave_fail_memory(error, "adding up memory");
}
