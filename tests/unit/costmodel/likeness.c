/* What timed kernels tell of those that were not: keys are read, and fits corrected by what is
 * alike. */
#include "costmodel/likeness.h"
#include "../../support/ok.h"
#include "costmodel/cost.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static cleave_arena arena;
static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(likeness, .fini = tear_down);

/* A depthwise convolution's gradient of its weights, of g groups of h x h points, with padding
 * below. */
static void key_of(int g, int h, int window, int stride, int below, char *key, size_t n) {
    const char *map = stride == 1 ? "" : "2";
    snprintf(key, n,
             "convolution weight-gradient sum / n=4 g=%d k=1 h=%d w=%d c=1 r=%d s=%d / "
             "f32.0231[n,g+c,%sh+r-%d+1,%sw+s-1+1] f32.01342p[g,k,c,r,s] > f32.0231[n,g+k,h,w] / "
             "gradient=2",
             g, h, h, window, window, map, below, map);
}

static cleave_likeness read_key(int g, int h, int window, int stride, int below) {
    char key[256];
    key_of(g, h, window, stride, below, key, sizeof key);
    return cleave_likeness_read(key);
}

Test(likeness, a_key_says_extents_and_form) {
    cleave_likeness some = read_key(64, 8, 3, 1, 1), wide = read_key(128, 4, 3, 1, 0);
    cr_assert_eq(some.n_axes, 8);
    const float extents[] = {2, 6, 0, 3, 3, 0, (float)1.5849625, (float)1.5849625};
    for (int a = 0; a < 8; a++)
        cr_expect_float_eq(some.extents[a], extents[a], 1e-6, "axis %d", a);
    cr_expect_eq(some.kin, wide.kin);
    cr_expect_eq(some.form, wide.form, "extents and padding are not of the form");
    cr_expect_neq(some.form, read_key(64, 8, 5, 1, 1).form, "windows are");
    cr_expect_neq(some.form, read_key(64, 8, 3, 2, 1).form, "strides are");
    cr_expect_eq(read_key(64, 8, 5, 1, 1).kin, some.kin);
    cr_expect_neq(
        cleave_likeness_read("pointwise forward / n=4 c=8 / f32.01[n,c] > f32.01[n,c]").kin,
        some.kin);
}

Test(likeness, pieces_are_not_of_the_form) {
    static const char key[] = "pointwise forward / n=4 / f32.0[n] > f32.0[n] / tape=3.0.1";
    static const char cut[] =
        "pointwise forward / n=4 / f32.0[n] > f32.0[n] / tape=3.0.1 / pieces=7";
    cr_expect_eq(cleave_likeness_read(key).form, cleave_likeness_read(cut).form);
}

Test(likeness, keys_of_no_nest_are_like_nothing) {
    cr_expect_eq(cleave_likeness_read("copy rows=16 bytes=2048").n_axes, 0);
    cr_expect_eq(cleave_likeness_read("operator forward Conv n=4 #0123456789abcdef").n_axes, 0);
    cr_expect_eq(cleave_likeness_read("").n_axes, 0);
    cleave_likeness none = cleave_likeness_read("a");
    const cleave_likened kernel = {.of = none, .off = 1};
    cr_expect_float_eq(cleave_likeness_correction(&kernel, 1, &none), 1, 0);
}

/* One at no distance counts 64 times as much as the fit, which is off by nothing: 2^(64 / 65).  One
   that is two powers of two away counts a quarter: 2^(16 / 17). */
Test(likeness, what_is_far_away_counts_less) {
    const cleave_likened kernel = {.of = read_key(64, 8, 3, 1, 1), .off = log(2)};
    cleave_likeness same = read_key(64, 8, 3, 1, 0), far = read_key(128, 16, 3, 1, 1),
                    other = read_key(64, 8, 3, 2, 1);
    cr_expect_float_eq(cleave_likeness_correction(&kernel, 1, &same), exp2(64. / 65), 1e-9);
    far.extents[4] -= 1; /* of g and h alone */
    cr_expect_float_eq(cleave_likeness_correction(&kernel, 1, &far), exp2(16. / 17), 1e-6);
    cr_expect_float_eq(cleave_likeness_correction(&kernel, 1, &other), exp2(4. / 5), 1e-9);
}

static void add(cleave_device_kind *kind, int g, int window, double seconds) {
    char key[256];
    key_of(g, 8, window, 1, 1, key, sizeof key);
    cleave_kernel_time kernel = {.key = key,
                                 .family = "grouped",
                                 .seconds = seconds,
                                 .flops = 1e4 * g * window * window,
                                 .bytes = 1e4 * g};
    OK(cleave_device_kind_add_kernel, kind, &kernel, &arena);
}

/* Windows of 3 x 3 take 1 us a group, those of 5 x 5 fifty times as much: no line through flops and
   bytes is near both, and those that were not timed are told by those that are alike. */
Test(likeness, a_family_of_two_sorts_has_prices_of_both) {
    cleave_device_kind kind = {.flops_per_second = 1e12, .bytes_per_second = 1e10};
    for (int g = 64; g <= 1024; g *= 4) {
        add(&kind, g, 3, 1e-6 * g);
        add(&kind, g, 5, 50e-6 * g);
    }
    OK(cleave_device_kind_fit, &kind, &arena);
    cr_assert_eq(kind.n_fits, 1);
    cr_expect_lt(kind.fits[0].spread, 0.5);
    for (int window = 3; window <= 5; window += 2) {
        cleave_work work = {.flops = 1e4 * 128 * window * window, .bytes = 1e4 * 128};
        strcpy(work.family, "grouped");
        key_of(128, 8, window, 1, 1, work.key, sizeof work.key);
        cleave_provenance provenance;
        double seconds = cleave_cost_compute(&kind, &work, &provenance);
        double expected = (window == 3 ? 1e-6 : 50e-6) * 128;
        cr_expect_eq(provenance, CLEAVE_PROVENANCE_PREDICTED);
        cr_expect_float_eq(seconds, expected, 0.3 * expected, "%d: %g", window, seconds);
    }
}
