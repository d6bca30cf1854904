/* How far predictions are off, and how they rank. */
#include "base/accuracy.h"
#include "../../support/ok.h"

#include <criterion/criterion.h>
#include <math.h>

static cleave_accuracy find(const cleave_compared *compared, int32_t n) {
    cleave_accuracy found;
    OK(cleave_accuracy_find, compared, n, &found);
    return found;
}

/* Errors -20, -10, +10, +30, +50 %: by size 10, 10, 20, 30, 50.  The ninth decile is at place
   0.9 x 4 = 3.6, so 30 + 0.6 x 20. */
Test(accuracy, errors_are_quantiles_of_their_sizes) {
    static const cleave_compared compared[] = {
        {0.8, 1, 0}, {1.8, 2, 0}, {1.1, 1, 0}, {1.3, 1, 0}, {1.5, 1, 0}};
    cleave_accuracy found = find(compared, 5);
    cr_expect_eq(found.n, 5);
    cr_expect_float_eq(found.median_error, 0.2, 1e-12);
    cr_expect_float_eq(found.ninth_decile_error, 0.42, 1e-12);
    cr_expect_float_eq(found.median_bias, 0.1, 1e-12);
}

/* Of group 0 the pairs (1, 2), (1, 3) and (2, 3) differ; 2 and 3 are ranked the other way, and 3
   and 3.1 are too near.  Those with 3.1: 1 and 3.1 alike, 2 and 3.1 predicted equal.  So (1 + 1 - 1
   + 1
   + 0) / 5.  Group 1 has no pair. */
Test(accuracy, tau_counts_pairs_of_a_group_that_differ) {
    static const cleave_compared compared[] = {
        {1, 1, 0}, {5, 2, 0}, {4, 3, 0}, {5, 3.1, 0}, {9, 1, 1}};
    cleave_accuracy found = find(compared, 5);
    cr_expect_eq(found.n_pairs, 5);
    cr_expect_float_eq(found.tau, 0.4, 1e-12);
}

Test(accuracy, of_nothing_there_is_none) {
    cleave_accuracy found = find(NULL, 0);
    cr_expect_eq(found.n_pairs, 0);
    cr_expect_eq(found.median_error, 0);
    cr_expect_eq(found.tau, 0);
}
