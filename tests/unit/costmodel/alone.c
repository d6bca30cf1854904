/* How much quicker a family is where the other devices do nothing. */
#include "../../support/ok.h"
#include "costmodel/cost.h"

#include <criterion/criterion.h>

#include <stdio.h>

static cleave_arena arena;
static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(alone, .fini = tear_down);

typedef struct timed {
    double seconds, share, spread;
} timed;

/* Of one family, the n-th of n + 1 times as many bytes as the first. */
static double alone_of(const char *family, double flops, const timed *of, int n) {
    cleave_device_kind kind = {.flops_per_second = 1e12, .bytes_per_second = 1e10};
    for (int i = 0; i < n; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s %d", family, i);
        const cleave_kernel_time kernel = {.key = key,
                                           .family = family,
                                           .seconds = of[i].seconds,
                                           .spread = of[i].spread,
                                           .flops = flops,
                                           .bytes = 1e4 * (i + 1),
                                           .alone_seconds = of[i].share * of[i].seconds};
        OK(cleave_device_kind_add_kernel, &kind, &kernel, &arena);
    }
    OK(cleave_device_kind_fit, &kind, &arena);
    cr_assert_eq(kind.n_fits, 1);
    return kind.fits[0].alone;
}

/* Updates of six sizes, of which the largest takes 19 times as long as all others together and
   varies by 2 %: that it takes .64 alone counts, and not that two of six sizes take all. */
Test(alone, of_moved_bytes_those_that_take_time_count) {
    static const timed updates[] = {{4e-7, 1, 0.3},    {6e-7, 0.63, 0.03}, {4e-6, 0.57, 0.5},
                                    {2e-5, 0.56, 0.4}, {3.25e-4, 1, 0.02}, {6.65e-3, 0.64, 0.02}};
    cr_expect_float_eq(alone_of("update", 0, updates, 6), 0.66, 0.002);
}

/* What is less than the repeats of one kernel differ by is nothing. */
Test(alone, of_moved_bytes_noise_does_not_count) {
    static const timed copies[] = {{1e-6, 0.5, 0.1}, {1e-5, 0.7, 0.1}, {1e-3, 0.92, 0.1}};
    cr_expect_float_eq(alone_of("copy", 0, copies, 3), 1, 0);
}

/* Nine kernels: the median and a place and a half of standard error, whatever the largest does. */
Test(alone, of_kernels_each_counts_once) {
    static const timed kernels[] = {{1e-3, 0.90, 0}, {1e-3, 0.91, 0}, {1e-3, 0.92, 0},
                                    {1e-3, 0.93, 0}, {1e-3, 0.94, 0}, {1e-3, 0.95, 0},
                                    {1e-3, 0.96, 0}, {1e-3, 0.97, 0}, {1.0, 0.5, 0}};
    cr_expect_float_eq(alone_of("product forward", 1e9, kernels, 9), 0.95, 1e-9);
}

Test(alone, nothing_is_known_where_nothing_was_timed_alone) {
    static const timed kernels[] = {{1e-3, 0, 0}, {2e-3, 0, 0}};
    cr_expect_float_eq(alone_of("copy", 0, kernels, 2), 0, 0);
}
