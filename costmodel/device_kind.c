/* The measured kernels of a device kind: an array sorted by key, and what they tell of others. */
#include "base/order.h"
#include "costmodel/machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* First kernel whose key is not before `key`. */
static int32_t lower_bound(const cleave_device_kind *kind, const char *key) {
    int32_t at = 0;
    CLEAVE_BISECT(at, kind->n_kernels, middle, strcmp(kind->kernels[middle].key, key) < 0);
    return at;
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

/* Those of one family, from `n` on. */
static int32_t liken_family(const cleave_device_kind *kind, const cleave_family_fit *fit,
                            cleave_likened *likened, int32_t n) {
    for (int32_t k = 0; k < kind->n_kernels; k++) {
        const cleave_kernel_time *kernel = &kind->kernels[k];
        if (kernel->seconds <= 0 || strcmp(kernel->family, fit->family) != 0)
            continue;
        likened[n] = cleave_liken(kernel, fit);
        n += likened[n].of.n_axes > 0;
    }
    return n;
}

cleave_likened cleave_liken(const cleave_kernel_time *kernel, const cleave_family_fit *fit) {
    double fitted = cleave_family_fit_seconds(fit, kernel->flops, kernel->bytes);
    cleave_likened likened = {.of = cleave_likeness_read(kernel->key)};
    if (fitted > 0)
        likened.off = log(kernel->seconds / fitted);
    return likened;
}

cleave_status cleave_device_kind_liken(cleave_device_kind *kind, cleave_arena *arena,
                                       cleave_error *error) {
    int32_t n = 0;
    cleave_likened *likened = CLEAVE_ARENA_ARRAY(arena, cleave_likened, kind->n_kernels + 1);
    int32_t *first = CLEAVE_ARENA_ARRAY(arena, int32_t, kind->n_fits + 1);
    if (likened == NULL || first == NULL)
        return cleave_fail_memory(error, "comparing kernels");
    for (int32_t f = 0; f < kind->n_fits; f++) {
        first[f] = n;
        n = liken_family(kind, &kind->fits[f], likened, n);
    }
    first[kind->n_fits] = n;
    kind->likened = likened;
    kind->first_likened = n > 0 ? first : NULL;
    return CLEAVE_OK;
}
