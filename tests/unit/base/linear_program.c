/* Linear and integer programs with optima known by hand. */
#include "base/linear_program.h"
#include "../../support/ok.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static const double none = (double)INFINITY;

/* minimise -x - y  with  x + 2y <= 4, 3x + y <= 6, x, y >= 0: the corner where both hold with
   equality, x = 8/5, y = 6/5, objective -14/5. */
static const int32_t row_start[] = {0, 2, 4}, column[] = {0, 1, 0, 1};
static const double value[] = {1, 2, 3, 1}, objective[] = {-1, -1}, lower[] = {0, 0};
static cleave_linear_program corner(const double *upper, const bool *integer,
                                    const double row_bounds[2][2]) {
    return (cleave_linear_program){.n_columns = 2,
                                   .n_rows = 2,
                                   .objective = objective,
                                   .lower = lower,
                                   .upper = upper,
                                   .integer = integer,
                                   .row_lower = row_bounds[0],
                                   .row_upper = row_bounds[1],
                                   .row_start = row_start,
                                   .column = column,
                                   .value = value};
}

Test(linear_program, optimum_is_at_the_corner) {
    double upper[] = {none, none}, rows[2][2] = {{-none, -none}, {4, 6}}, x[2];
    cleave_linear_program program = corner(upper, NULL, rows);
    cleave_linear_result result;
    OK(cleave_linear_program_solve, &program, 0, x, &result);
    cr_assert_eq(result.outcome, CLEAVE_LINEAR_OPTIMAL);
    cr_expect_float_eq(x[0], 1.6, 1e-9);
    cr_expect_float_eq(x[1], 1.2, 1e-9);
    cr_expect_float_eq(result.objective, -2.8, 1e-9);
}

/* In integers: (1, 1), (2, 0), (0, 2) reach -2; -3 is out of reach since -2.8 bounds it. */
Test(linear_program, integer_columns_are_whole) {
    double upper[] = {none, none}, rows[2][2] = {{-none, -none}, {4, 6}}, x[2];
    bool integer[] = {true, true};
    cleave_linear_program program = corner(upper, integer, rows);
    cleave_linear_result result;
    OK(cleave_linear_program_solve, &program, 0, x, &result);
    cr_expect_eq(result.outcome, CLEAVE_LINEAR_OPTIMAL);
    cr_expect_float_eq(result.objective, -2, 1e-9);
    cr_expect_float_eq(result.bound, -2, 1e-9);
    cr_expect_float_eq(x[0], round(x[0]), 1e-9);
}

Test(linear_program, infeasible_and_unbounded_are_outcomes) {
    double upper[] = {none, none}, x[2];
    double impossible[2][2] = {{-none, 7}, {1, 7}}; /* x + 2y <= 1 but 3x + y = 7 */
    double open[2][2] = {{1, 1}, {none, none}};
    cleave_linear_program program = corner(upper, NULL, impossible);
    cleave_linear_result result;
    OK(cleave_linear_program_solve, &program, 0, x, &result);
    cr_expect_eq(result.outcome, CLEAVE_LINEAR_INFEASIBLE);
    program = corner(upper, NULL, open);
    OK(cleave_linear_program_solve, &program, 0, x, &result);
    cr_expect_eq(result.outcome, CLEAVE_LINEAR_UNBOUNDED);
}

/* Each of these would make GLPK abort; afterwards it still works. */
Test(linear_program, misuse_is_an_error_and_leaves_the_solver_usable) {
    double upper[] = {none, none}, rows[2][2] = {{-none, -none}, {4, 6}}, x[2];
    int32_t twice[] = {0, 0, 0, 1}, outside[] = {0, 9, 0, 1};
    double not_finite[] = {1, (double)NAN, 3, 1}, crossed[] = {-1, none};
    cleave_linear_result result;
    cleave_error error;
    for (int wrong = 0; wrong < 4; wrong++) {
        cleave_linear_program program = corner(wrong == 3 ? crossed : upper, NULL, rows);
        program.column = wrong == 0 ? twice : wrong == 1 ? outside : column;
        program.value = wrong == 2 ? not_finite : value;
        error.message[0] = '\0';
        cr_expect_eq(cleave_linear_program_solve(&program, 0, x, &result, &error), CLEAVE_FAILED);
        cr_expect_neq(strlen(error.message), 0);
    }
    cleave_linear_program program = corner(upper, NULL, rows);
    OK(cleave_linear_program_solve, &program, 0, x, &result);
    cr_expect_float_eq(result.objective, -2.8, 1e-9);
}
