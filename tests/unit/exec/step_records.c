/* Which steps of a run are kept. */
#include "exec/step_records.h"
#include "../../support/ok.h"

#include "base/random.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

/* A rank of two items of its own among three; a step that took s seconds has its times from it. */
typedef struct records_test {
    cleave_arena arena;
    cleave_program program;
    cleave_rank rank;
    cleave_step_records records;
    int64_t start[3], end[3];
    int32_t main_lane[1], communication_lane[1];
} records_test;

static records_test *begin(int64_t n_steps) {
    records_test *t = calloc(1, sizeof *t);
    cr_assert_not_null(t);
    t->main_lane[0] = 2;
    t->communication_lane[0] = 0;
    t->program.n_items = 3;
    t->rank = (cleave_rank){.program = &t->program,
                            .n_lane_items = {1, 1},
                            .lane_items = {t->main_lane, t->communication_lane},
                            .start = t->start,
                            .end = t->end};
    OK(cleave_step_records_create, &t->records, &t->rank, n_steps, &t->arena);
    return t;
}

static void offer(records_test *t, int64_t step, int64_t milliseconds) {
    for (int i = 0; i < 3; i++) {
        t->start[i] = i == 1 ? -1 : i;
        t->end[i] = i == 1 ? -1 : i + milliseconds * (i + 1);
    }
    t->rank.step_started = 100.0 + (double)step;
    cleave_step_records_offer(&t->records, &t->rank, step, 1e-3 * (double)milliseconds);
}

static void end(records_test *t) {
    cleave_arena_free(&t->arena);
    free(t);
}

/* The first step is left out; of 10, 50, 20, 40, 30 the median is 30, the step of number 5. */
Test(step_records, the_median_step_is_restored_and_the_first_is_not_counted) {
    static const int64_t took[] = {900, 10, 50, 20, 40, 30};
    records_test *t = begin(6);
    for (int64_t s = 0; s < 6; s++)
        offer(t, s, took[s]);
    offer(t, 0, 7); /* other times in the rank now */
    cr_expect_eq(cleave_step_records_restore(&t->records, &t->rank, 0.030), 105);
    cr_expect_eq(t->start[0], 0);
    cr_expect_eq(t->end[0], 30);
    cr_expect_eq(t->end[1], -1);
    cr_expect_eq(t->start[2], 2);
    cr_expect_eq(t->end[2], 92);
    int64_t duration[3];
    cleave_step_records_durations(&t->records, &t->rank, duration);
    cr_expect_eq(duration[0], 30);
    cr_expect_eq(duration[1], -1);
    cr_expect_eq(duration[2], 90);
    end(t);
}

Test(step_records, a_single_step_is_recorded) {
    records_test *t = begin(1);
    offer(t, 0, 70);
    cr_expect_eq(cleave_step_records_restore(&t->records, &t->rank, 0.070), 100);
    cr_expect_eq(t->end[0], 70);
    end(t);
}

/* Many more steps than records: what is restored is within the middle tenth of all steps. */
Test(step_records, of_a_long_run_a_step_near_the_median_is_left) {
    enum { N = 1000 };
    for (uint64_t seed = 0; seed < 20; seed++) {
        records_test *t = begin(N + 1);
        cleave_random random = {.key = seed};
        int below = 0;
        int64_t took[N];
        for (int s = 0; s < N; s++) {
            took[s] = 1000 + (int64_t)cleave_random_below(&random, 1000000);
            offer(t, s + 1, took[s]);
        }
        cleave_step_records_restore(&t->records, &t->rank, 501.0);
        for (int s = 0; s < N; s++)
            below += took[s] < t->end[0];
        cr_expect(below > 450 && below < 550, "seed %llu: %d of %d are shorter",
                  (unsigned long long)seed, below, N);
        end(t);
    }
}
