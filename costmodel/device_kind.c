/* The measured kernels of a device kind: an array sorted by key. */
#include "costmodel/machine.h"

#include <stdlib.h>
#include <string.h>

/* First kernel whose key is not before `key`. */
static int32_t lower_bound(const cleave_device_kind *kind, const char *key) {
    int32_t lo = 0, hi = kind->n_kernels;
    while (lo < hi) {
        int32_t middle = lo + (hi - lo) / 2;
        if (strcmp(kind->kernels[middle].key, key) < 0)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

const cleave_kernel_time *cleave_device_kind_find_kernel(const cleave_device_kind *kind,
                                                         const char *key) {
    int32_t at = lower_bound(kind, key);
    bool found = at < kind->n_kernels && strcmp(kind->kernels[at].key, key) == 0;
    return found ? &kind->kernels[at] : NULL;
}

/* Room for one more kernel. */
static bool reserve_one(cleave_device_kind *kind, cleave_arena *arena) {
    int32_t n = kind->n_kernels;
    if (n < kind->kernel_capacity)
        return true;
    int32_t capacity = n < 32 ? 64 : 2 * n;
    cleave_kernel_time *grown = CLEAVE_ARENA_ARRAY(arena, cleave_kernel_time, capacity);
    if (grown == NULL)
        return false;
    if (n > 0)
        memcpy(grown, kind->kernels, (size_t)n * sizeof *grown);
    kind->kernels = grown;
    kind->kernel_capacity = capacity;
    return true;
}

cleave_status cleave_device_kind_add_kernel(cleave_device_kind *kind,
                                            const cleave_kernel_time *kernel, cleave_arena *arena,
                                            cleave_error *error) {
    cleave_kernel_time added = *kernel;
    added.key = cleave_arena_string(arena, kernel->key);
    added.family = cleave_arena_string(arena, kernel->family);
    int32_t at = lower_bound(kind, kernel->key), n = kind->n_kernels;
    bool replaces = at < n && strcmp(kind->kernels[at].key, kernel->key) == 0;
    if (added.key == NULL || added.family == NULL || (!replaces && !reserve_one(kind, arena)))
        return cleave_fail_memory(error, "keeping a kernel's time");
    if (!replaces) {
        memmove(kind->kernels + at + 1, kind->kernels + at, (size_t)(n - at) * sizeof added);
        kind->n_kernels = n + 1;
    }
    kind->kernels[at] = added;
    return CLEAVE_OK;
}
