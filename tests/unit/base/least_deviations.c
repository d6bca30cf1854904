/* Fits by least absolute deviations, against a walk over a grid and figures known by hand. */
#include "base/least_deviations.h"
#include "../../support/ok.h"

#include "base/random.h"

#include <criterion/criterion.h>
#include <math.h>

static double off_at(const cleave_least_deviations *fit, const double *x) {
    double sum = 0;
    for (int32_t i = 0; i < fit->n; i++) {
        double value = 0;
        for (int32_t f = 0; f < fit->n_figures; f++)
            value += fit->features[i * fit->n_figures + f] * x[f];
        sum += (fit->weight != NULL ? fit->weight[i] : 1) * fabs(1 - value);
    }
    return sum;
}

/* 1 = x, measured as 1, 1, 1 and, once, as if x were 1/9: the odd one changes nothing. */
Test(least_deviations, one_odd_measurement_counts_for_nothing) {
    const double features[] = {1, 1, 9, 1}, lower[] = {0}, upper[] = {INFINITY};
    const cleave_least_deviations fit = {
        .of = "x", .n = 4, .n_figures = 1, .features = features, .lower = lower, .upper = upper};
    /* The sum is |1 - 9 x| + 3 |1 - x|: falling by 12 to x = 1/9, then rising by 6. */
    double x, off;
    OK(cleave_least_deviations_solve, &fit, &x, &off);
    cr_expect_float_eq(x, 1.0 / 9, 1e-9);
    cr_expect_float_eq(off, 3 * 8.0 / 9, 1e-9);
    /* With as much weight on each relative to its slope it is the three that count. */
    const double weight[] = {1, 1, 1.0 / 9, 1};
    cleave_least_deviations weighted = fit;
    weighted.weight = weight;
    OK(cleave_least_deviations_solve, &weighted, &x, &off);
    cr_expect_float_eq(x, 1, 1e-9);
    cr_expect_float_eq(off, 8.0 / 9, 1e-9);
}

Test(least_deviations, nothing_on_a_grid_is_nearer) {
    cleave_random random = {.key = 3};
    for (int trial = 0; trial < 40; trial++) {
        enum { N = 7, FIGURES = 2, STEPS = 40 };
        double features[N * FIGURES], weight[N], lower[FIGURES], upper[FIGURES], x[FIGURES], off;
        for (int i = 0; i < N * FIGURES; i++)
            features[i] = cleave_random_next_uniform(&random);
        for (int i = 0; i < N; i++)
            weight[i] = cleave_random_next_uniform(&random);
        for (int f = 0; f < FIGURES; f++) {
            lower[f] = cleave_random_next_uniform(&random) - 0.5;
            upper[f] = lower[f] + 2 * cleave_random_next_uniform(&random);
        }
        const cleave_least_deviations fit = {.of = "drawn",
                                             .n = N,
                                             .n_figures = FIGURES,
                                             .features = features,
                                             .weight = trial % 2 == 0 ? weight : NULL,
                                             .lower = lower,
                                             .upper = upper};
        OK(cleave_least_deviations_solve, &fit, x, &off);
        cr_expect_float_eq(off, off_at(&fit, x), 1e-7);
        for (int i = 0; i <= STEPS; i++)
            for (int j = 0; j <= STEPS; j++) {
                double at[] = {lower[0] + (upper[0] - lower[0]) * i / STEPS,
                               lower[1] + (upper[1] - lower[1]) * j / STEPS};
                cr_assert_leq(off, off_at(&fit, at) + 1e-7);
            }
        for (int f = 0; f < FIGURES; f++) {
            cr_expect_geq(x[f], lower[f] - 1e-9);
            cr_expect_leq(x[f], upper[f] + 1e-9);
        }
    }
}

Test(least_deviations, bounds_that_leave_nothing_are_refused) {
    const double features[] = {1}, lower[] = {2}, upper[] = {1};
    const cleave_least_deviations fit = {
        .of = "x", .n = 1, .n_figures = 1, .features = features, .lower = lower, .upper = upper};
    double x;
    cleave_error error = {""};
    cr_expect_eq(cleave_least_deviations_solve(&fit, &x, NULL, &error), CLEAVE_FAILED);
    cr_expect(error.message[0] != '\0');
}
