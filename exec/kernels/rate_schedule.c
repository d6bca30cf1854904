#include "exec/kernels/rate_schedule.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const cleave_rate_names[CLEAVE_N_RATES] = {"constant", "linear", "cosine"};

cleave_status cleave_rate_schedule_make(const char *name, const cleave_rate_schedule *asked,
                                        int64_t all_steps, double rate,
                                        cleave_rate_schedule *schedule, cleave_error *error) {
    cleave_rate_schedule made = *asked;
    made.kind = CLEAVE_RATE_CONSTANT;
    while (name != NULL && made.kind < CLEAVE_N_RATES &&
           strcmp(name, cleave_rate_names[made.kind]) != 0)
        made.kind++;
    if (made.kind == CLEAVE_N_RATES)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "schedule \"%.64s\" of the learning rate: constant, linear and cosine "
                           "are known",
                           name);
    if (made.kind == CLEAVE_RATE_CONSTANT && (made.steps > 0 || made.final > 0))
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "the learning rate is constant: linear and cosine have a last step and "
                           "a final rate");
    if (made.kind != CLEAVE_RATE_CONSTANT && made.steps == 0)
        made.steps = all_steps;
    if (made.kind != CLEAVE_RATE_CONSTANT && made.warmup >= made.steps)
        return cleave_fail(
            error, CLEAVE_BAD_INPUT,
            "the learning rate rises for %lld steps of the %lld in which it is to have fallen",
            (long long)made.warmup, (long long)made.steps);
    if (made.final > rate)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "the learning rate falls from %g to %g, which is more", rate,
                           made.final);
    *schedule = made;
    return CLEAVE_OK;
}

bool cleave_rate_schedule_equal(const cleave_rate_schedule *a, const cleave_rate_schedule *b) {
    return a->kind == b->kind && a->warmup == b->warmup && a->steps == b->steps &&
           a->final == b->final;
}

void cleave_rate_schedule_format(const cleave_rate_schedule *schedule, char *text, size_t bytes) {
    int n = snprintf(text, bytes, "%s, --warmup %lld", cleave_rate_names[schedule->kind],
                     (long long)schedule->warmup);
    if (schedule->kind != CLEAVE_RATE_CONSTANT && n >= 0 && (size_t)n < bytes)
        snprintf(text + n, bytes - (size_t)n, ", --lr-steps %lld, --lr-final %g",
                 (long long)schedule->steps, schedule->final);
}

double cleave_rate_at(const cleave_rate_schedule *schedule, double rate, int64_t step) {
    static const double pi = 3.14159265358979323846;
    const cleave_rate_schedule *s = schedule;
    if (step <= s->warmup)
        return rate * (double)step / (double)s->warmup;
    if (s->kind == CLEAVE_RATE_CONSTANT)
        return rate;
    double done = fmin(1, (double)(step - 1 - s->warmup) / (double)(s->steps - s->warmup));
    double fallen = s->kind == CLEAVE_RATE_LINEAR ? done : (1 - cos(pi * done)) / 2;
    return rate + (s->final - rate) * fallen;
}
