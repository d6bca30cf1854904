/* Which weights give the largest bound.

   A step is no shorter than any load, so than any weighted mean of loads, and so than the least
   that a weighted mean takes over all choices of ways: for every choice of weights a bound.  As a
   function of the weights that is concave.  Every solution says what it is at most, linear in the
   weights; a small linear program finds where the lowest of these is highest, near the best weights
   so far, and there it is solved again. */
#include "search/bound/shares.h"

#include "base/linear_program.h"

#include <math.h>
#include <string.h>

enum { MOST_ROUNDS = 24, N = BOUND_N_LOADS };

/* Pairs of ways that all rounds together may look at. */
enum { MOST_PAIRS = 1 << 20 };

typedef struct planes {
    int n;
    double of[MOST_ROUNDS][N]; /* loads of solutions */
    double center[N], reach;   /* weights to stay near */
    const bool *is_used;
} planes;

/* Columns: the weights, and what the lowest plane is, to be highest. */
static cleave_status highest_point(const planes *p, double *weight, double *height,
                                   cleave_error *error) {
    double objective[N + 1] = {0}, lower[N + 1], upper[N + 1], x[N + 1];
    double row_lower[MOST_ROUNDS + 1], row_upper[MOST_ROUNDS + 1];
    double value[(MOST_ROUNDS + 1) * (N + 1)];
    int32_t row_start[MOST_ROUNDS + 2] = {0}, column[(MOST_ROUNDS + 1) * (N + 1)], n = 0;
    double scale = 0;
    for (int s = 0; s < p->n; s++)
        for (int i = 0; i < N; i++)
            scale = fmax(scale, p->of[s][i]);
    for (int i = 0; i < N; i++) {
        lower[i] = p->is_used[i] ? fmax(0, p->center[i] - p->reach) : 0;
        upper[i] = p->is_used[i] ? fmin(1, p->center[i] + p->reach) : 0;
        column[n] = i;
        value[n++] = 1;
    }
    objective[N] = -1;
    lower[N] = 0;
    upper[N] = HUGE_VAL;
    row_lower[0] = row_upper[0] = 1;
    row_start[1] = n;
    for (int s = 0; s < p->n; s++) { /* the plane less the height is 0 or more */
        for (int i = 0; i < N; i++) {
            column[n] = i;
            value[n++] = p->of[s][i] / scale;
        }
        column[n] = N;
        value[n++] = -1;
        row_lower[s + 1] = 0;
        row_upper[s + 1] = HUGE_VAL;
        row_start[s + 2] = n;
    }
    const cleave_linear_program program = {.n_columns = N + 1,
                                           .n_rows = p->n + 1,
                                           .objective = objective,
                                           .lower = lower,
                                           .upper = upper,
                                           .row_lower = row_lower,
                                           .row_upper = row_upper,
                                           .row_start = row_start,
                                           .column = column,
                                           .value = value};
    cleave_linear_result result;
    *height = 0;
    if (!(scale > 0))
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_linear_program_solve(&program, 0, x, &result, error));
    if (result.outcome != CLEAVE_LINEAR_OPTIMAL)
        return CLEAVE_OK;
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += fmax(x[i], 0);
    for (int i = 0; i < N; i++)
        weight[i] = fmax(x[i], 0) / sum;
    *height = x[N] * scale;
    return CLEAVE_OK;
}

/* A hair less, so that weights whose sum rounds to more than 1 do no harm. */
static double at_most_one(const double *weight) {
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += weight[i];
    return (1 - 1e-12) / fmax(sum, 1);
}

static cleave_status climb(const bound_problem *problem, planes *p, int32_t *choice, double *bound,
                           bound_loads *loads_at_best, cleave_error *error) {
    int64_t most_pairs = MOST_PAIRS;
    double weight[N];
    memcpy(weight, p->center, sizeof weight);
    while (p->n < MOST_ROUNDS && p->reach > 0.0005 && most_pairs > 0) {
        bound_loads loads;
        double least, height;
        CLEAVE_TRY(bound_forest_least(problem, weight, &most_pairs, choice, &loads, &least, error));
        least *= at_most_one(weight);
        memcpy(p->of[p->n++], loads.of, sizeof loads.of);
        if (p->n == 1 || least > *bound) {
            *bound = least;
            *loads_at_best = loads;
            memcpy(p->center, weight, sizeof weight);
            p->reach = fmin(p->n == 1 ? p->reach : 2 * p->reach, 0.5);
        } else {
            p->reach /= 2;
        }
        CLEAVE_TRY(highest_point(p, weight, &height, error));
        if (height < *bound * 1.0005)
            break;
    }
    return CLEAVE_OK;
}

cleave_status bound_weigh(const bound_problem *problem, bool links, double *bound, int *load,
                          cleave_error *error) {
    const bool is_used[N] = {true, true, links, links, links, links};
    planes p = {.center = {0.99, links ? 0.006 : 0.01, links ? 0.001 : 0, links ? 0.001 : 0,
                           links ? 0.001 : 0, links ? 0.001 : 0},
                .reach = 0.02,
                .is_used = is_used};
    cleave_arena scratch = {0};
    bound_loads loads = {{0}};
    int32_t *choice = CLEAVE_ARENA_ARRAY(&scratch, int32_t, problem->n_operators);
    *bound = 0;
    cleave_status status = choice == NULL ? cleave_fail_memory(error, "bounding the step")
                                          : climb(problem, &p, choice, bound, &loads, error);
    cleave_arena_free(&scratch);
    *load = 0;
    for (int i = 1; i < N; i++)
        if (p.center[i] * loads.of[i] > p.center[*load] * loads.of[*load])
            *load = i;
    return status;
}
