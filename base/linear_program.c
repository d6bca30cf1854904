/* The one home of GLPK.  Its library aborts on misuse and prints as it goes: the program is checked
   first, printing is off, and what GLPK still finds wrong comes back by a jump from its error hook,
   after which its environment is given back whole. */
#include "base/linear_program.h"

#include "base/progress.h"

#include <glpk.h>
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>

/* GLPK counts from 1. */
typedef struct triples {
    int *row, *column;
    double *value;
} triples;

static cleave_status check_bounds(const char *what, int32_t index, double lower, double upper,
                                  cleave_error *error) {
    if (isnan(lower) || isnan(upper) || lower > upper || (isinf(lower) && lower > 0) ||
        (isinf(upper) && upper < 0))
        return cleave_fail(error, CLEAVE_FAILED,
                           "%s %d of a linear program is bounded by %g and %g", what, index, lower,
                           upper);
    return CLEAVE_OK;
}

static cleave_status check_row(const cleave_linear_program *program, int32_t row, int32_t *seen,
                               cleave_error *error) {
    for (int32_t e = program->row_start[row]; e < program->row_start[row + 1]; e++) {
        int32_t column = program->column[e];
        if (column < 0 || column >= program->n_columns)
            return cleave_fail(error, CLEAVE_FAILED,
                               "row %d of a linear program has column %d of %d", row, column,
                               program->n_columns);
        if (seen[column] == row + 1)
            return cleave_fail(error, CLEAVE_FAILED,
                               "row %d of a linear program has column %d twice", row, column);
        seen[column] = row + 1;
        if (!isfinite(program->value[e]))
            return cleave_fail(error, CLEAVE_FAILED, "row %d of a linear program has the value %g",
                               row, program->value[e]);
    }
    return check_bounds("row", row, program->row_lower[row], program->row_upper[row], error);
}

static cleave_status check(const cleave_linear_program *program, cleave_error *error) {
    if (program->n_columns < 1 || program->n_rows < 0 || program->row_start[0] != 0)
        return cleave_fail(error, CLEAVE_FAILED, "a linear program of %d columns and %d rows",
                           program->n_columns, program->n_rows);
    for (int32_t c = 0; c < program->n_columns; c++) {
        CLEAVE_TRY(check_bounds("column", c, program->lower[c], program->upper[c], error));
        if (!isfinite(program->objective[c]))
            return cleave_fail(error, CLEAVE_FAILED, "column %d of a linear program costs %g", c,
                               program->objective[c]);
    }
    int32_t *seen = calloc((size_t)program->n_columns, sizeof *seen);
    if (seen == NULL)
        return cleave_fail_memory(error, "checking a linear program");
    cleave_status status = CLEAVE_OK;
    for (int32_t r = 0; r < program->n_rows && status == CLEAVE_OK; r++) {
        if (program->row_start[r + 1] < program->row_start[r])
            status = cleave_fail(error, CLEAVE_FAILED,
                                 "row %d of a linear program ends before it starts", r);
        else
            status = check_row(program, r, seen, error);
    }
    free(seen);
    return status;
}

static int bound_type(double lower, double upper) {
    if (isinf(lower))
        return isinf(upper) ? GLP_FR : GLP_UP;
    if (isinf(upper))
        return GLP_LO;
    return lower < upper ? GLP_DB : GLP_FX;
}

static void load(glp_prob *problem, const cleave_linear_program *program, const triples *entries) {
    glp_set_obj_dir(problem, GLP_MIN);
    glp_add_cols(problem, program->n_columns);
    for (int32_t c = 0; c < program->n_columns; c++) {
        glp_set_col_bnds(problem, c + 1, bound_type(program->lower[c], program->upper[c]),
                         program->lower[c], program->upper[c]);
        glp_set_obj_coef(problem, c + 1, program->objective[c]);
        if (program->integer != NULL && program->integer[c])
            glp_set_col_kind(problem, c + 1, GLP_IV);
    }
    if (program->n_rows == 0)
        return;
    glp_add_rows(problem, program->n_rows);
    for (int32_t r = 0; r < program->n_rows; r++) {
        glp_set_row_bnds(problem, r + 1, bound_type(program->row_lower[r], program->row_upper[r]),
                         program->row_lower[r], program->row_upper[r]);
        for (int32_t e = program->row_start[r]; e < program->row_start[r + 1]; e++) {
            entries->row[e + 1] = r + 1;
            entries->column[e + 1] = program->column[e] + 1;
            entries->value[e + 1] = program->value[e];
        }
    }
    glp_load_matrix(problem, program->row_start[program->n_rows], entries->row, entries->column,
                    entries->value);
}

static int limit_milliseconds(double seconds) {
    return seconds > 0 && seconds < 2e6 ? (int)ceil(seconds * 1e3) : INT32_MAX;
}

static cleave_status solve_relaxed(glp_prob *problem, double seconds, cleave_linear_result *result,
                                   cleave_error *error) {
    glp_smcp control;
    glp_init_smcp(&control);
    control.msg_lev = GLP_MSG_OFF;
    control.tm_lim = limit_milliseconds(seconds);
    glp_scale_prob(problem, GLP_SF_AUTO);
    glp_adv_basis(problem, 0);
    int code = glp_simplex(problem, &control);
    if (code == GLP_ETMLIM) {
        bool feasible = glp_get_status(problem) == GLP_FEAS;
        *result = (cleave_linear_result){
            .outcome = feasible ? CLEAVE_LINEAR_FEASIBLE : CLEAVE_LINEAR_UNKNOWN,
            .objective = glp_get_obj_val(problem),
            .bound = -INFINITY,
        };
        return CLEAVE_OK;
    }
    if (code != 0)
        return cleave_fail(error, CLEAVE_FAILED, "the simplex method failed with code %d", code);
    switch (glp_get_status(problem)) {
    case GLP_OPT:
        *result = (cleave_linear_result){CLEAVE_LINEAR_OPTIMAL, glp_get_obj_val(problem),
                                         glp_get_obj_val(problem)};
        return CLEAVE_OK;
    case GLP_UNBND:
        *result = (cleave_linear_result){CLEAVE_LINEAR_UNBOUNDED, -INFINITY, -INFINITY};
        return CLEAVE_OK;
    case GLP_NOFEAS:
        *result = (cleave_linear_result){CLEAVE_LINEAR_INFEASIBLE, INFINITY, INFINITY};
        return CLEAVE_OK;
    default:
        return cleave_fail(error, CLEAVE_FAILED, "the simplex method ended with status %d",
                           glp_get_status(problem));
    }
}

/* The best bound of the branches that are open when the search is stopped. */
static void watch_bound(glp_tree *tree, void *bound) {
    int node = glp_ios_best_node(tree);
    if (node != 0)
        *(double *)bound = glp_ios_node_bound(tree, node);
}

static cleave_status solve_integer(glp_prob *problem, double seconds, cleave_linear_result *result,
                                   cleave_error *error) {
    double bound = result->bound;
    glp_iocp control;
    glp_init_iocp(&control);
    control.msg_lev = GLP_MSG_OFF;
    control.tm_lim = limit_milliseconds(seconds);
    control.tol_obj = 1e-9;
    control.cb_func = watch_bound;
    control.cb_info = &bound;
    int code = glp_intopt(problem, &control);
    if (code != 0 && code != GLP_ETMLIM)
        return cleave_fail(error, CLEAVE_FAILED, "branch and bound failed with code %d", code);
    int status = glp_mip_status(problem);
    if (status == GLP_OPT)
        *result = (cleave_linear_result){CLEAVE_LINEAR_OPTIMAL, glp_mip_obj_val(problem),
                                         glp_mip_obj_val(problem)};
    else if (status == GLP_FEAS)
        *result = (cleave_linear_result){CLEAVE_LINEAR_FEASIBLE, glp_mip_obj_val(problem), bound};
    else if (status == GLP_NOFEAS)
        *result = (cleave_linear_result){CLEAVE_LINEAR_INFEASIBLE, INFINITY, INFINITY};
    else
        *result = (cleave_linear_result){CLEAVE_LINEAR_UNKNOWN, INFINITY, bound};
    return CLEAVE_OK;
}

/* What is left of a budget, where 0 is none: a millisecond at least. */
static double left_of(double seconds, double begun) {
    double left = seconds - (cleave_clock_seconds() - begun);
    return seconds <= 0 ? 0 : left > 1e-3 ? left : 1e-3;
}

static cleave_status solve(const cleave_linear_program *program, const triples *entries,
                           double seconds, double *x, cleave_linear_result *result,
                           cleave_error *error) {
    double begun = cleave_clock_seconds();
    glp_prob *problem = glp_create_prob();
    load(problem, program, entries);
    cleave_linear_result found;
    cleave_status status = solve_relaxed(problem, seconds, &found, error);
    bool integer = glp_get_num_int(problem) > 0;
    if (status == CLEAVE_OK && integer && found.outcome == CLEAVE_LINEAR_FEASIBLE)
        found.outcome = CLEAVE_LINEAR_UNKNOWN; /* the relaxation took all the time */
    else if (status == CLEAVE_OK && integer && found.outcome == CLEAVE_LINEAR_OPTIMAL)
        status = solve_integer(problem, left_of(seconds, begun), &found, error);
    if (status == CLEAVE_OK) {
        bool has_x =
            found.outcome == CLEAVE_LINEAR_OPTIMAL || found.outcome == CLEAVE_LINEAR_FEASIBLE;
        for (int32_t c = 0; c < program->n_columns && has_x; c++)
            x[c] = integer ? glp_mip_col_val(problem, c + 1) : glp_get_col_prim(problem, c + 1);
        *result = found;
    }
    glp_delete_prob(problem);
    return status;
}

static void jump_back(void *place) { longjmp(*(jmp_buf *)place, 1); }

static cleave_status solve_guarded(const cleave_linear_program *program, const triples *entries,
                                   double seconds, double *x, cleave_linear_result *result,
                                   cleave_error *error) {
    jmp_buf place;
    if (setjmp(place) != 0) {
        glp_error_hook(NULL, NULL);
        glp_free_env();
        return cleave_fail(error, CLEAVE_FAILED, "the linear program solver gave up");
    }
    glp_term_out(GLP_OFF);
    glp_error_hook(jump_back, &place);
    cleave_status status = solve(program, entries, seconds, x, result, error);
    glp_error_hook(NULL, NULL);
    glp_free_env();
    return status;
}

cleave_status cleave_linear_program_solve(const cleave_linear_program *program, double seconds,
                                          double *x, cleave_linear_result *result,
                                          cleave_error *error) {
    CLEAVE_TRY(check(program, error));
    size_t n = program->n_rows > 0 ? (size_t)program->row_start[program->n_rows] + 1 : 1;
    triples entries = {malloc(n * sizeof(int)), malloc(n * sizeof(int)),
                       malloc(n * sizeof(double))};
    cleave_status status;
    if (entries.row == NULL || entries.column == NULL || entries.value == NULL)
        status = cleave_fail_memory(error, "solving a linear program");
    else
        status = solve_guarded(program, &entries, seconds, x, result, error);
    free(entries.row);
    free(entries.column);
    free(entries.value);
    return status;
}
