#include "base/accuracy.h"

#include "base/order.h"

#include <math.h>
#include <stdlib.h>

static double quantile(const double *ascending, int32_t n, double q) {
    double place = q * (n - 1);
    int32_t below = (int32_t)place;
    int32_t above = below + 1 < n ? below + 1 : below;
    return ascending[below] + (place - below) * (ascending[above] - ascending[below]);
}

static int sign(double x) { return (x > 0) - (x < 0); }

static void rank_pairs(const cleave_compared *of, int32_t n, cleave_accuracy *found) {
    int64_t alike = 0;
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < i; j++) {
            double least = fmin(of[i].measured, of[j].measured);
            double apart = of[i].measured - of[j].measured;
            if (of[i].group != of[j].group || fabs(apart) <= cleave_accuracy_apart * least)
                continue;
            alike += sign(apart) * sign(of[i].predicted - of[j].predicted);
            found->n_pairs++;
        }
    found->tau = found->n_pairs > 0 ? (double)alike / (double)found->n_pairs : 0;
}

cleave_status cleave_accuracy_find(const cleave_compared *compared, int32_t n,
                                   cleave_accuracy *accuracy, cleave_error *error) {
    cleave_accuracy found = {.n = n};
    double *errors = malloc((size_t)(n > 0 ? n : 1) * sizeof *errors);
    if (errors == NULL)
        return cleave_fail_memory(error, "comparing predictions");
    for (int32_t i = 0; i < n; i++)
        errors[i] = compared[i].predicted / compared[i].measured - 1;
    cleave_sort_doubles(errors, n);
    if (n > 0)
        found.median_bias = quantile(errors, n, 0.5);
    for (int32_t i = 0; i < n; i++)
        errors[i] = fabs(errors[i]);
    cleave_sort_doubles(errors, n);
    if (n > 0) {
        found.median_error = quantile(errors, n, 0.5);
        found.ninth_decile_error = quantile(errors, n, 0.9);
    }
    rank_pairs(compared, n, &found);
    free(errors);
    *accuracy = found;
    return CLEAVE_OK;
}
