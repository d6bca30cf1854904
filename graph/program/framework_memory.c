#include "graph/program/framework_memory.h"

#include "graph/program/caching_allocator.h"

#include <stdlib.h>

typedef struct change {
    int32_t item; /* before which it happens */
    int32_t device;
    int32_t buffer;
    int64_t bytes;
} change;

static int64_t allocation(int64_t bytes) {
    int64_t unit = CLEAVE_CACHED_ROUNDING;
    return (bytes + unit - 1) / unit * unit;
}

/* Lets go before it allocates; else in the order of buffers. */
static int compare_changes(const void *a, const void *b) {
    const change *x = a, *y = b;
    if (x->item != y->item)
        return x->item < y->item ? -1 : 1;
    if ((x->bytes > 0) != (y->bytes > 0))
        return x->bytes > 0 ? 1 : -1;
    return (x->buffer > y->buffer) - (x->buffer < y->buffer);
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
        changes[n++] = (change){of->first, of->device, b, allocation(of->bytes)};
        changes[n++] = (change){of->last + 1, of->device, b, -allocation(of->bytes)};
    }
    return n;
}

/* The device on which most lives at once, and how much that is. */
static int32_t find_fullest(const change *changes, int32_t n, int64_t *live, int64_t *most) {
    int32_t fullest = 0;
    *most = 0;
    for (int32_t i = 0; i < n; i++) {
        int64_t *of = &live[changes[i].device];
        *of += changes[i].bytes;
        if (*of > *most) {
            *most = *of;
            fullest = changes[i].device;
        }
    }
    return fullest;
}

/* What it reserves for that; -1 when memory is short.  `block` is [n_buffers]. */
static int64_t reserve(const change *changes, int32_t n, int32_t device, int32_t *block) {
    cleave_caching_allocator allocator = {0};
    bool made = true;
    for (int32_t i = 0; i < n && made; i++) {
        const change *of = &changes[i];
        if (of->device != device || of->bytes == 0)
            continue;
        if (of->bytes < 0) {
            made = cleave_caching_release(&allocator, block[of->buffer]);
            continue;
        }
        block[of->buffer] = cleave_caching_allocate(&allocator, of->bytes);
        made = block[of->buffer] >= 0;
    }
    int64_t reserved = made ? allocator.reserved_bytes : -1;
    cleave_caching_allocator_end(&allocator);
    return reserved;
}

cleave_status cleave_program_framework_memory(const cleave_program *program,
                                              cleave_framework_memory *memory,
                                              cleave_error *error) {
    size_t n_buffers = (size_t)program->n_buffers, n_devices = (size_t)program->n_devices;
    bool *has = calloc(n_buffers + 1, sizeof *has);
    change *changes = calloc(2 * n_buffers + 1, sizeof *changes);
    int64_t *live = calloc(n_devices, sizeof *live);
    int32_t *largest = calloc((size_t)program->model->n_tensors * n_devices + 1, sizeof *largest);
    int32_t *block = calloc(n_buffers + 1, sizeof *block);
    bool made = has != NULL && changes != NULL && live != NULL && largest != NULL && block != NULL;
    if (made) {
        cleave_framework_memory found;
        mark(program, largest, has);
        int32_t n = list_changes(program, has, changes);
        qsort(changes, (size_t)n, sizeof *changes, compare_changes);
        int32_t fullest = find_fullest(changes, n, live, &found.allocated_bytes);
        found.reserved_bytes = reserve(changes, n, fullest, block);
        made = found.reserved_bytes >= 0;
        if (made)
            *memory = found;
    }
    free(has);
    free(changes);
    free(live);
    free(largest);
    free(block);
    return made ? CLEAVE_OK : cleave_fail_memory(error, "adding up memory");
}
