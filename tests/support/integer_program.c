/* The additive model as an integer program over its local polytope:

       minimise   sum of cost[v][i] x[v,i]  +  sum of cost[p][i,j] y[p,i,j]
       with       sum over i of x[v,i]   = 1          for every variable v
                  sum over j of y[p,i,j] = x[a,i]     for every pair p of a and b, and i
                  sum over i of y[p,i,j] = x[b,j]     for every pair p of a and b, and j
                  sum of weight[v][i] x[v,i] <= most  for every limit
                  x in {0, 1}, y >= 0.

   Where x is integral y has only one choice, so y needs not be declared integer.  Costs are taken
   above the least one of their variable or pair, which shifts every total alike, and divided by a
   scale, so that the solver's tolerances mean the same for all models. */
#include "integer_program.h"

#include "base/linear_program.h"
#include "search/solve/prune.h"

#include <math.h>

/* The largest coefficient of the objective and of a limit. */
static const double largest_coefficient = 1e6;

typedef struct formulation {
    const cleave_additive *additive;
    int32_t n_limits;
    const cleave_additive_limit *limits;
    int64_t **cost;     /* [n_variables][n_values] with pairs that are sums */
    bool *is_sum;       /* [n_pairs] */
    int32_t *column_of; /* [n_variables] its first */
    int64_t base;       /* sum of the least costs */
    double scale;       /* of the objective */
    int32_t n_columns, n_rows;
    int64_t n_entries;
    double *objective, *lower, *upper, *row_lower, *row_upper, *entry;
    bool *integer;
    int32_t *row_start, *column;
} formulation;

/* ---- costs ----------------------------------------------------------------------------------- */

/* Is every cost one of the row plus one of the column? */
static bool is_sum(const int64_t *cost, int32_t n_a, int32_t n_b) {
    for (int64_t i = 1; i < n_a; i++)
        for (int64_t j = 1; j < n_b; j++)
            if (cost[i * n_b + j] - cost[i * n_b] != cost[j] - cost[0])
                return false;
    return true;
}

static bool fold_sums(formulation *f, cleave_arena *arena) {
    const cleave_additive *additive = f->additive;
    f->cost = CLEAVE_ARENA_ARRAY(arena, int64_t *, additive->n_variables);
    f->is_sum = CLEAVE_ARENA_ARRAY(arena, bool, additive->n_pairs);
    if (f->cost == NULL || f->is_sum == NULL)
        return false;
    for (int32_t v = 0; v < additive->n_variables; v++) {
        f->cost[v] = CLEAVE_ARENA_ARRAY(arena, int64_t, additive->n_values[v]);
        if (f->cost[v] == NULL)
            return false;
        for (int32_t x = 0; x < additive->n_values[v]; x++)
            f->cost[v][x] = additive->cost[v][x];
    }
    for (int32_t p = 0; p < additive->n_pairs; p++) {
        const cleave_additive_pair *pair = &additive->pairs[p];
        int64_t n_a = additive->n_values[pair->a], n_b = additive->n_values[pair->b];
        f->is_sum[p] = is_sum(pair->cost, (int32_t)n_a, (int32_t)n_b);
        for (int64_t i = 0; i < n_a && f->is_sum[p]; i++)
            f->cost[pair->a][i] += pair->cost[i * n_b];
        for (int64_t j = 0; j < n_b && f->is_sum[p]; j++)
            f->cost[pair->b][j] += pair->cost[j] - pair->cost[0];
    }
    return true;
}

static int64_t least_of(const int64_t *cost, int64_t n) {
    int64_t least = cost[0];
    for (int64_t i = 1; i < n; i++)
        least = cost[i] < least ? cost[i] : least;
    return least;
}

/* Costs above the least, as coefficients that are not scaled yet; the largest of them so far. */
static double write_costs(formulation *f, const int64_t *cost, int64_t n, int32_t column,
                          double largest) {
    int64_t least = least_of(cost, n);
    f->base += least;
    for (int64_t i = 0; i < n; i++) {
        f->objective[column + i] = (double)(cost[i] - least);
        largest = fmax(largest, f->objective[column + i]);
    }
    return largest;
}

/* ---- columns and rows ------------------------------------------------------------------------ */

static bool count(formulation *f) {
    const cleave_additive *additive = f->additive;
    int64_t columns = 0, rows = additive->n_variables + (int64_t)f->n_limits, entries = 0;
    for (int32_t v = 0; v < additive->n_variables; v++)
        columns += additive->n_values[v];
    entries = columns * (1 + (int64_t)f->n_limits);
    for (int32_t p = 0; p < additive->n_pairs; p++) {
        int64_t n_a = additive->n_values[additive->pairs[p].a];
        int64_t n_b = additive->n_values[additive->pairs[p].b];
        if (f->is_sum[p])
            continue;
        columns += n_a * n_b;
        rows += n_a + n_b;
        entries += 2 * n_a * n_b + n_a + n_b;
        if (entries > INT32_MAX)
            return false;
    }
    f->n_columns = (int32_t)columns;
    f->n_rows = (int32_t)rows;
    f->n_entries = entries;
    return entries <= INT32_MAX;
}

static bool take_memory(formulation *f, cleave_arena *arena) {
    f->column_of = CLEAVE_ARENA_ARRAY(arena, int32_t, f->additive->n_variables);
    f->objective = CLEAVE_ARENA_ARRAY(arena, double, f->n_columns);
    f->lower = CLEAVE_ARENA_ARRAY(arena, double, f->n_columns);
    f->upper = CLEAVE_ARENA_ARRAY(arena, double, f->n_columns);
    f->integer = CLEAVE_ARENA_ARRAY(arena, bool, f->n_columns);
    f->row_lower = CLEAVE_ARENA_ARRAY(arena, double, f->n_rows);
    f->row_upper = CLEAVE_ARENA_ARRAY(arena, double, f->n_rows);
    f->row_start = CLEAVE_ARENA_ARRAY(arena, int32_t, f->n_rows + 1);
    f->column = CLEAVE_ARENA_ARRAY(arena, int32_t, f->n_entries);
    f->entry = CLEAVE_ARENA_ARRAY(arena, double, f->n_entries);
    return f->column_of != NULL && f->objective != NULL && f->lower != NULL && f->upper != NULL &&
           f->integer != NULL && f->row_lower != NULL && f->row_upper != NULL &&
           f->row_start != NULL && f->column != NULL && f->entry != NULL;
}

/* Rows are written one after the other: entries first, then this. */
typedef struct writer {
    int32_t n_rows, n_entries;
} writer;

static void put(formulation *f, writer *w, int32_t column, double value) {
    f->column[w->n_entries] = column;
    f->entry[w->n_entries++] = value;
}

static void end_row(formulation *f, writer *w, double lower, double upper) {
    f->row_lower[w->n_rows] = lower;
    f->row_upper[w->n_rows++] = upper;
    f->row_start[w->n_rows] = w->n_entries;
}

static void write_pair(formulation *f, writer *w, const cleave_additive_pair *pair,
                       int32_t column) {
    int32_t n_a = f->additive->n_values[pair->a], n_b = f->additive->n_values[pair->b];
    for (int32_t i = 0; i < n_a; i++) {
        for (int32_t j = 0; j < n_b; j++)
            put(f, w, column + i * n_b + j, 1);
        put(f, w, f->column_of[pair->a] + i, -1);
        end_row(f, w, 0, 0);
    }
    for (int32_t j = 0; j < n_b; j++) {
        for (int32_t i = 0; i < n_a; i++)
            put(f, w, column + i * n_b + j, 1);
        put(f, w, f->column_of[pair->b] + j, -1);
        end_row(f, w, 0, 0);
    }
}

/* `share` of the limit is allowed. */
static void write_limit(formulation *f, writer *w, const cleave_additive_limit *limit,
                        double share) {
    const cleave_additive *additive = f->additive;
    double largest = 1;
    for (int32_t v = 0; v < additive->n_variables; v++)
        for (int32_t x = 0; x < additive->n_values[v]; x++)
            largest = fmax(largest, (double)limit->weight[v][x]);
    double scale = fmax(1, largest / largest_coefficient);
    for (int32_t v = 0; v < additive->n_variables; v++)
        for (int32_t x = 0; x < additive->n_values[v]; x++)
            if (limit->weight[v][x] > 0)
                put(f, w, f->column_of[v] + x, (double)limit->weight[v][x] / scale);
    end_row(f, w, -(double)INFINITY, (double)limit->most * share / scale);
}

static void write(formulation *f, double share) {
    const cleave_additive *additive = f->additive;
    writer w = {0};
    int32_t column = 0;
    double largest = 0;
    f->base = 0;
    for (int32_t v = 0; v < additive->n_variables; v++) {
        f->column_of[v] = column;
        largest = write_costs(f, f->cost[v], additive->n_values[v], column, largest);
        for (int32_t x = 0; x < additive->n_values[v]; x++) {
            f->integer[column] = true;
            f->upper[column] = 1;
            put(f, &w, column++, 1);
        }
        end_row(f, &w, 1, 1);
    }
    for (int32_t p = 0; p < additive->n_pairs; p++) {
        const cleave_additive_pair *pair = &additive->pairs[p];
        int32_t n = additive->n_values[pair->a] * additive->n_values[pair->b];
        if (f->is_sum[p])
            continue;
        largest = write_costs(f, pair->cost, n, column, largest);
        write_pair(f, &w, pair, column);
        for (int32_t i = 0; i < n; i++)
            f->upper[column++] = (double)INFINITY;
    }
    for (int32_t i = 0; i < f->n_limits; i++)
        write_limit(f, &w, &f->limits[i], share);
    f->scale = largest > largest_coefficient ? largest / largest_coefficient : 1;
    for (int32_t c = 0; c < f->n_columns; c++)
        f->objective[c] /= f->scale;
}

/* ---- solving --------------------------------------------------------------------------------- */

/* In each variable the value of the largest column. */
static void round_values(const formulation *f, const double *x, int32_t *value) {
    for (int32_t v = 0; v < f->additive->n_variables; v++) {
        const double *of = x + f->column_of[v];
        value[v] = 0;
        for (int32_t i = 1; i < f->additive->n_values[v]; i++)
            if (of[i] > of[value[v]])
                value[v] = i;
    }
}

/* What the solver's bound says about whole totals, with its tolerance taken off. */
static int64_t bound_of(const formulation *f, double bound) {
    double above = (bound - 1e-7 * fabs(bound)) * f->scale - 1e-6;
    return above > 0 && above < 0x1p61 ? f->base + (int64_t)ceil(above) : f->base;
}

static cleave_status solve(formulation *f, double share, double seconds, cleave_arena *arena,
                           int32_t *value, cleave_linear_result *result, cleave_error *error) {
    write(f, share);
    cleave_linear_program program = {.n_columns = f->n_columns,
                                     .n_rows = f->n_rows,
                                     .objective = f->objective,
                                     .lower = f->lower,
                                     .upper = f->upper,
                                     .integer = f->integer,
                                     .row_lower = f->row_lower,
                                     .row_upper = f->row_upper,
                                     .row_start = f->row_start,
                                     .column = f->column,
                                     .value = f->entry};
    double *x = CLEAVE_ARENA_ARRAY(arena, double, f->n_columns);
    if (x == NULL)
        return cleave_fail_memory(error, "making an integer program");
    CLEAVE_TRY(cleave_linear_program_solve(&program, seconds, x, result, error));
    if (result->outcome == CLEAVE_LINEAR_OPTIMAL || result->outcome == CLEAVE_LINEAR_FEASIBLE)
        round_values(f, x, value);
    return CLEAVE_OK;
}

/* The values found, as values of the whole model; null where there are none. */
static int32_t *restore(const cleave_additive_pruned *pruned, const cleave_linear_result *result,
                        int32_t *value) {
    if (result->outcome != CLEAVE_LINEAR_OPTIMAL && result->outcome != CLEAVE_LINEAR_FEASIBLE)
        return NULL;
    for (int32_t v = 0; v < pruned->additive.n_variables; v++)
        value[v] = pruned->kept[v][value[v]];
    return value;
}

/* What the solver takes for within a limit may be over it by a hair; then it tries again with a
   millionth less room, and what it finds is no longer known to be optimal. */
static cleave_status find(formulation *f, const cleave_additive_pruned *pruned,
                          const cleave_additive *whole, const cleave_additive_limit *limits,
                          double seconds, cleave_arena *scratch, int32_t *value,
                          cleave_additive_solution *solution, cleave_error *error) {
    cleave_linear_result result, again;
    CLEAVE_TRY(solve(f, 1, seconds, scratch, value, &result, error));
    *solution = (cleave_additive_solution){.outcome = CLEAVE_ADDITIVE_UNKNOWN,
                                           .value = restore(pruned, &result, value),
                                           .bound = bound_of(f, result.bound)};
    bool proven = result.outcome == CLEAVE_LINEAR_OPTIMAL;
    if (result.outcome == CLEAVE_LINEAR_INFEASIBLE) {
        solution->outcome = CLEAVE_ADDITIVE_INFEASIBLE;
        solution->bound = INT64_MAX;
    } else if (solution->value != NULL &&
               !cleave_additive_is_within(whole, f->n_limits, limits, value)) {
        CLEAVE_TRY(solve(f, 1 - 1e-6, seconds, scratch, value, &again, error));
        solution->value = restore(pruned, &again, value);
        proven = false;
        if (solution->value != NULL &&
            !cleave_additive_is_within(whole, f->n_limits, limits, value))
            solution->value = NULL;
    }
    if (solution->value == NULL)
        return CLEAVE_OK;
    solution->total = cleave_additive_total(whole, value);
    if (proven || solution->bound > solution->total)
        solution->bound = solution->total;
    solution->outcome =
        solution->bound == solution->total ? CLEAVE_ADDITIVE_OPTIMAL : CLEAVE_ADDITIVE_FEASIBLE;
    return CLEAVE_OK;
}

static cleave_status formulate(const cleave_additive *given, int32_t n_limits,
                               const cleave_additive_limit *limits, double seconds,
                               cleave_arena *scratch, int32_t *value,
                               cleave_additive_solution *solution, cleave_error *error) {
    cleave_additive_fitted fitted;
    const cleave_additive *additive = &fitted.additive;
    cleave_additive_pruned pruned;
    CLEAVE_TRY(cleave_additive_fit(given, n_limits, limits, scratch, &fitted, error));
    CLEAVE_TRY(cleave_additive_prune(additive, n_limits, limits, scratch, &pruned, error));
    formulation f = {.additive = &pruned.additive, .n_limits = n_limits, .limits = pruned.limits};
    if (!fold_sums(&f, scratch))
        return cleave_fail_memory(error, "making an integer program");
    if (!count(&f))
        return cleave_fail(error, CLEAVE_FAILED,
                           "an integer program of more than 2^31 entries, for %d variables",
                           (int)additive->n_variables);
    if (!take_memory(&f, scratch))
        return cleave_fail_memory(error, "making an integer program");
    return find(&f, &pruned, additive, limits, seconds, scratch, value, solution, error);
}

cleave_status solve_integer_program(const cleave_additive *additive, int32_t n_limits,
                                    const cleave_additive_limit *limits, double seconds,
                                    cleave_arena *arena, cleave_additive_solution *solution,
                                    cleave_error *error) {
    int32_t *value = CLEAVE_ARENA_ARRAY(arena, int32_t, additive->n_variables);
    if (value == NULL)
        return cleave_fail_memory(error, "making an integer program");
    if (additive->n_variables == 0) {
        bool within = cleave_additive_is_within(additive, n_limits, limits, value);
        *solution = (cleave_additive_solution){.outcome = within ? CLEAVE_ADDITIVE_OPTIMAL
                                                                 : CLEAVE_ADDITIVE_INFEASIBLE,
                                               .value = within ? value : NULL,
                                               .bound = within ? 0 : INT64_MAX};
        return CLEAVE_OK;
    }
    cleave_arena scratch = {0};
    cleave_additive_solution found;
    cleave_status status =
        formulate(additive, n_limits, limits, seconds, &scratch, value, &found, error);
    cleave_arena_free(&scratch);
    if (status == CLEAVE_OK)
        *solution = found;
    return status;
}
