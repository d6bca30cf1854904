/* Operands are used once more in the order in which a step used them last, and as much other memory
   is walked in between as the step touches there.  After the walk, in which a processor with wide
   vectors comes to turn quicker than it does in a step, it multiplies matrices for a while. */
#include "exec/measure/surroundings.h"

#include "base/progress.h"
#include "exec/kernels/blas.h"
#include "exec/kernels/onednn.h"
#include "exec/world/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEAST_EVICTION = 32 << 20, MOST_EVICTION = 256 << 20 };

void cleave_surroundings_add(cleave_surroundings *of, cleave_used_memory with) {
    int at = of->n++;
    for (; at > 0 && of->items[at - 1].touched_since < with.touched_since; at--)
        of->items[at] = of->items[at - 1];
    of->items[at] = with;
}

/* More than twice the last cache, where the system says how large that is, evicts no better. */
static size_t most_eviction(void) {
    long cache = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
    cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    size_t most = cache > 0 ? 2 * (size_t)cache : (size_t)LEAST_EVICTION;
    return most > MOST_EVICTION ? (size_t)MOST_EVICTION : most;
}

cleave_status cleave_other_memory_create(cleave_other_memory *made, const cleave_surroundings *of,
                                         cleave_error *error) {
    size_t most = most_eviction(), asked = of->n > 0 ? of->items[0].touched_since : 0;
    *made = (cleave_other_memory){.bytes = asked < most ? asked : most, .most = most};
    made->memory = cleave_memory_allocate(made->bytes + 1);
    if (made->memory == NULL)
        return cleave_fail_memory(error, "measuring kernels");
    memset(made->memory, 1, made->bytes + 1); /* pages that are only read may all be the same one */
    return CLEAVE_OK;
}

/* Writing to a line makes each cache give it up. */
static void touch(char *memory, size_t bytes) {
    volatile char *lines = memory;
    for (size_t i = 0; i < bytes; i += 64)
        lines[i] = lines[i];
}

/* As a step does, which reads most of what it touches, and writes some.  Goes on where the last
   walk ended. */
static void walk(cleave_other_memory *other, size_t bytes) {
    const volatile char *lines = other->memory;
    for (size_t i = 0; i < bytes; i += 64) {
        other->at = other->at + 64 < other->bytes ? other->at + 64 : 0;
        (void)lines[other->at];
    }
}

enum { PRODUCT_SIZE = 96 }; /* three such matrices stay in the second cache */

/* Processors with AVX-512 turn slower while these units are at work, as in a step they mostly are,
   and quicker again some milliseconds later: right after a walk kernels took up to a fifth less
   than they do in a step.  So many times as long as the walk takes, up to so long. */
static const double working_times = 4, most_working_seconds = 5e-3;

static cleave_status work_as_in_a_step(double seconds, cleave_error *error) {
    static const float factor[PRODUCT_SIZE * PRODUCT_SIZE];
    float result[PRODUCT_SIZE * PRODUCT_SIZE];
    const cleave_blas_product product = {.m = PRODUCT_SIZE,
                                         .n = PRODUCT_SIZE,
                                         .k = PRODUCT_SIZE,
                                         .a = factor,
                                         .b = factor,
                                         .c = result,
                                         .a_row = PRODUCT_SIZE,
                                         .b_row = PRODUCT_SIZE,
                                         .c_row = PRODUCT_SIZE,
                                         .alpha = 1};
    double until = cleave_clock_seconds() + fmin(seconds, most_working_seconds);
    while (cleave_blas_has_wide_vectors() && cleave_clock_seconds() < until)
        CLEAVE_TRY(cleave_onednn_multiply(&product, error));
    return CLEAVE_OK;
}

/* Memory is used again, where any of it will still be in a cache. */
static void use(const cleave_used_memory *of, const cleave_other_memory *other) {
    if (of->values != NULL)
        memcpy(of->memory, of->values, of->bytes);
    else if (of->memory != NULL && of->touched_since < other->most)
        touch(of->memory, of->bytes);
}

/* Bytes to walk between the use of one and of the next, of which that one's are some. */
static size_t bytes_between(const cleave_surroundings *of, int i,
                            const cleave_other_memory *other) {
    size_t since = of->items[i].touched_since, after = 0;
    since = since < other->most ? since : other->most;
    if (i + 1 < of->n && of->items[i + 1].touched_since >= since)
        return 0;
    if (i + 1 < of->n)
        after = of->items[i + 1].touched_since + of->items[i + 1].bytes;
    return since > after ? since - after : 0;
}

/* What was used so shortly before is used again after the products, whose matrices take less. */
static const size_t short_bytes = 1 << 20;

cleave_status cleave_surroundings_set(const cleave_surroundings *of, cleave_other_memory *other,
                                      cleave_error *error) {
    double start = cleave_clock_seconds();
    bool worked = false;
    for (int i = 0; i < of->n; i++) {
        if (!worked && of->items[i].touched_since < short_bytes) {
            CLEAVE_TRY(work_as_in_a_step(working_times * (cleave_clock_seconds() - start), error));
            worked = true;
        }
        use(&of->items[i], other);
        walk(other, bytes_between(of, i, other));
    }
    return worked ? CLEAVE_OK
                  : work_as_in_a_step(working_times * (cleave_clock_seconds() - start), error);
}
