#include "exec/measure/repeats.h"

#include "base/order.h"
#include "base/progress.h"

#include <stdlib.h>

enum { FEWEST_REPEATS = 3, MOST_REPEATS = 101 };

/* What is quick gets its fewest repeats whatever the budget: one alone may be anything. */
static const double few_repeats_seconds = 0.02;

cleave_status cleave_measure_repeats(cleave_measured_run *run, void *context, void *before,
                                     const cleave_surroundings *of, double budget,
                                     cleave_measurement *result, cleave_error *error) {
    cleave_other_memory other;
    double seconds[MOST_REPEATS];
    int n = 0;
    CLEAVE_TRY(cleave_other_memory_create(&other, of, error));
    /* The first walk finds its pages. */
    cleave_status status = cleave_surroundings_set(of, &other, error);
    if (status == CLEAVE_OK)
        status = run(context, error);
    double started = cleave_clock_seconds(), spent = 0;
    while (status == CLEAVE_OK && n < MOST_REPEATS &&
           (n == 0 || spent < budget ||
            (n < FEWEST_REPEATS && (spent < 2 * budget || spent < few_repeats_seconds)))) {
        if ((status = cleave_surroundings_set(of, &other, error)) != CLEAVE_OK ||
            (before != NULL && (status = run(before, error)) != CLEAVE_OK))
            break;
        double begun = cleave_clock_seconds();
        status = run(context, error);
        double ended = cleave_clock_seconds();
        seconds[n++] = ended - begun;
        spent = ended - started;
    }
    free(other.memory);
    if (status != CLEAVE_OK)
        return status;
    double median = cleave_median(seconds, n);
    result->seconds = median;
    result->least_seconds = seconds[0];
    result->spread = median > 0 ? (seconds[(3 * n) / 4] - seconds[n / 4]) / median : 0;
    result->repeats = n;
    return CLEAVE_OK;
}
