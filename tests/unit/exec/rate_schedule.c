/* Schedules of the learning rate against values by hand, and against PyTorch's recursive formulas.
 */
#include "exec/kernels/rate_schedule.h"
#include "../../support/ok.h"

#include <criterion/criterion.h>
#include <math.h>

static cleave_rate_schedule make(const char *name, int64_t warmup, int64_t steps, double final) {
    const cleave_rate_schedule asked = {.warmup = warmup, .steps = steps, .final = final};
    cleave_rate_schedule made;
    OK(cleave_rate_schedule_make, name, &asked, 10, 0.8, &made);
    return made;
}

static void expect_rates(const cleave_rate_schedule *schedule, int n, const double *expected) {
    for (int i = 0; i < n; i++) {
        double rate = cleave_rate_at(schedule, 0.8, 1 + i);
        cr_expect(fabs(rate - expected[i]) < 1e-12, "step %d: %.15g, not %.15g", 1 + i, rate,
                  expected[i]);
    }
}

Test(rate_schedule, a_constant_rate_is_warmed_up_in_equal_parts) {
    const cleave_rate_schedule none = make(NULL, 0, 0, 0), four = make("constant", 4, 0, 0);
    expect_rates(&none, 3, (const double[]){0.8, 0.8, 0.8});
    expect_rates(&four, 6, (const double[]){0.2, 0.4, 0.6, 0.8, 0.8, 0.8});
}

Test(rate_schedule, a_line_falls_in_equal_parts_and_stays_at_its_end) {
    /* from 0.8 to 0.2 in four steps behind two of warm-up: 0.15 a step */
    const cleave_rate_schedule line = make("linear", 2, 6, 0.2);
    expect_rates(&line, 8, (const double[]){0.4, 0.8, 0.8, 0.65, 0.5, 0.35, 0.2, 0.2});
}

/* cos of 0, 45, 90, 135, 180 degrees; 0.5 + 0.3 cos. */
Test(rate_schedule, half_a_wave_of_the_cosine_falls_and_stays_at_its_end) {
    const cleave_rate_schedule wave = make("cosine", 0, 4, 0.2);
    double slope = 0.3 * sqrt(0.5);
    expect_rates(&wave, 6, (const double[]){0.8, 0.5 + slope, 0.5, 0.5 - slope, 0.2, 0.2});
}

Test(rate_schedule, all_of_a_training_is_the_standard_length) {
    const cleave_rate_schedule line = make("linear", 0, 0, 0);
    cr_expect_eq(line.steps, 10);
}

Test(rate_schedule, what_makes_no_sense_is_refused) {
    static const struct {
        const char *name;
        cleave_rate_schedule asked;
        const char *says;
    } cases[] = {
        {"wsd", {0}, "constant, linear and cosine are known"},
        {"constant", {.steps = 5}, "is constant"},
        {"constant", {.final = 0.1}, "is constant"},
        {"cosine", {.warmup = 10}, "rises for 10 steps of the 10"},
        {"linear", {.final = 0.9}, "falls from 0.8 to 0.9"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cleave_rate_schedule made;
        cleave_error error;
        cr_expect_eq(
            cleave_rate_schedule_make(cases[i].name, &cases[i].asked, 10, 0.8, &made, &error),
            CLEAVE_BAD_INPUT);
        cr_expect(strstr(error.message, cases[i].says) != NULL, "%s", error.message);
    }
}
