/* As a linear program, with one deviation each way per measurement i:

       minimise sum of weight_i (over_i + under_i)
       sum over f of feature_if x_f - over_i + under_i = 1 */
#include "base/least_deviations.h"

#include "base/arena.h"
#include "base/linear_program.h"

#include <math.h>
#include <string.h>

typedef struct program {
    double *objective, *lower, *upper, *x; /* [n_figures + 2 n] */
    double *one;                           /* [n] */
    double *value;                         /* [n][n_figures + 2], and its columns */
    int32_t *column, *start;               /* start: [n + 1] */
} program;

static bool allocate(program *p, size_t n, size_t n_figures, cleave_arena *arena) {
    p->objective = CLEAVE_ARENA_ARRAY(arena, double, n_figures + 2 * n);
    p->lower = CLEAVE_ARENA_ARRAY(arena, double, n_figures + 2 * n);
    p->upper = CLEAVE_ARENA_ARRAY(arena, double, n_figures + 2 * n);
    p->x = CLEAVE_ARENA_ARRAY(arena, double, n_figures + 2 * n);
    p->one = CLEAVE_ARENA_ARRAY(arena, double, n);
    p->value = CLEAVE_ARENA_ARRAY(arena, double, n *(n_figures + 2));
    p->column = CLEAVE_ARENA_ARRAY(arena, int32_t, n * (n_figures + 2));
    p->start = CLEAVE_ARENA_ARRAY(arena, int32_t, n + 1);
    return p->objective != NULL && p->lower != NULL && p->upper != NULL && p->x != NULL &&
           p->one != NULL && p->value != NULL && p->column != NULL && p->start != NULL;
}

static void fill(const cleave_least_deviations *fit, program *p) {
    int32_t figures = fit->n_figures;
    memcpy(p->lower, fit->lower, (size_t)figures * sizeof *p->lower);
    memcpy(p->upper, fit->upper, (size_t)figures * sizeof *p->upper);
    for (int32_t i = 0, e = 0; i < fit->n; i++) {
        p->one[i] = 1;
        for (int32_t f = 0; f < figures; f++, e++) {
            p->column[e] = f;
            p->value[e] = fit->features[(size_t)i * (size_t)figures + (size_t)f];
        }
        for (int32_t side = 0; side < 2; side++, e++) {
            int32_t deviation = figures + 2 * i + side;
            p->objective[deviation] = fit->weight != NULL ? fit->weight[i] : 1;
            p->upper[deviation] = INFINITY;
            p->column[e] = deviation;
            p->value[e] = side == 0 ? -1 : 1;
        }
        p->start[i + 1] = e;
    }
}

static cleave_status solve(const cleave_least_deviations *fit, cleave_arena *scratch, double *x,
                           double *off, cleave_error *error) {
    program p;
    if (fit->n > INT32_MAX / (fit->n_figures + 2) || /* entries of the program */
        !allocate(&p, (size_t)fit->n, (size_t)fit->n_figures, scratch))
        return cleave_fail_memory(error, "fitting");
    fill(fit, &p);
    cleave_linear_program linear = {.n_columns = fit->n_figures + 2 * fit->n,
                                    .n_rows = fit->n,
                                    .objective = p.objective,
                                    .lower = p.lower,
                                    .upper = p.upper,
                                    .row_lower = p.one,
                                    .row_upper = p.one,
                                    .row_start = p.start,
                                    .column = p.column,
                                    .value = p.value};
    cleave_linear_result result;
    CLEAVE_TRY(cleave_linear_program_solve(&linear, 0, p.x, &result, error));
    if (result.outcome != CLEAVE_LINEAR_OPTIMAL)
        return cleave_fail(error, CLEAVE_FAILED, "the fit of \"%s\" has no optimum", fit->of);
    memcpy(x, p.x, (size_t)fit->n_figures * sizeof *x);
    if (off != NULL)
        *off = result.objective;
    return CLEAVE_OK;
}

cleave_status cleave_least_deviations_solve(const cleave_least_deviations *fit, double *x,
                                            double *off, cleave_error *error) {
    cleave_arena scratch = {0};
    cleave_status status = solve(fit, &scratch, x, off, error);
    cleave_arena_free(&scratch);
    return status;
}
