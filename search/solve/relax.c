/* Lagrange's relaxation of the limits.  For multipliers m >= 0, one for each limit,

       least over all choices of  cost + sum of m (weight - most)

   is a bound of what is within the limits, and elimination finds it.  As a function of m it is
   concave, and every choice z gives a plane above it, cost(z) + sum of m (weight(z) - most).  The
   next multipliers are where the planes so far are highest (Kelley, SIAM Journal 8, 1960): for one
   limit that is where the lines of the last choice within it and the last one beyond it cross.
   Choices beyond the limits are repaired, those within them improved, and the best is kept.

   Bounds are exact: a multiplier is a double, that is, an integer over a power of two, and products
   with weights are rounded down in integers, which can only lower the bound. */
#include "search/solve/additive.h"
#include "search/solve/moves.h"
#include "search/solve/prune.h"

#include "base/linear_program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 40 };

typedef struct plane {
    double cost;  /* above `base`, in units of `cost_unit` */
    double *over; /* [n_limits] weight less most, in units of weight_unit */
} plane;

typedef struct relaxation {
    const cleave_additive *additive;
    int32_t n_limits; /* of those that bind at all */
    cleave_additive_limit *limits;
    int64_t most_entries;
    cleave_arena *arena, round; /* the latter is reset for every elimination */
    cleave_additive_moves moves;
    int64_t **shifted;  /* [n_variables][n_values] costs with multipliers */
    double *multiplier; /* [n_limits] */
    double *most_multiplier;
    int64_t base, ceiling; /* the bound without limits; no total is above the ceiling */
    double cost_unit, *weight_unit;
    plane planes[ROUNDS + 2];
    int32_t n_planes;
    int32_t *best, *trial; /* [n_variables] */
    bool found;
    int64_t total, bound;
} relaxation;

/* ---- multipliers ----------------------------------------------------------------------------- */

/* Rounded down, exactly; both are at least 0, and the product is below 2^62. */
static int64_t multiply(double multiplier, int64_t weight) {
    int exponent;
    int64_t mantissa = (int64_t)ldexp(frexp(multiplier, &exponent), 53);
    __int128 product = (__int128)mantissa * weight;
    int shift = 53 - exponent;
    if (shift <= 0)
        return (int64_t)(product << -shift);
    return shift < 127 ? (int64_t)(product >> shift) : 0;
}

static void shift_costs(relaxation *r) {
    for (int32_t v = 0; v < r->additive->n_variables; v++)
        for (int32_t x = 0; x < r->additive->n_values[v]; x++) {
            int64_t cost = r->additive->cost[v][x];
            for (int32_t k = 0; k < r->n_limits; k++)
                cost += multiply(r->multiplier[k], r->limits[k].weight[v][x]);
            r->shifted[v][x] = cost;
        }
}

/* ---- choices --------------------------------------------------------------------------------- */

static void keep_better(relaxation *r, const int32_t *value) {
    int64_t total = cleave_additive_total(r->additive, value);
    if (r->found && total >= r->total)
        return;
    memcpy(r->best, value, (size_t)r->additive->n_variables * sizeof *value);
    r->total = total;
    r->found = true;
}

static void consider(relaxation *r, const int32_t *value) {
    memcpy(r->trial, value, (size_t)r->additive->n_variables * sizeof *value);
    if (!cleave_additive_is_within(r->additive, r->n_limits, r->limits, value)) {
        if (!r->found)
            return;
        cleave_additive_repair(&r->moves, r->best, r->trial);
    }
    cleave_additive_improve(&r->moves, r->trial);
    keep_better(r, r->trial);
}

/* The values that weigh least, as shares of the limits; of several those that cost least. */
static void consider_lightest(relaxation *r, int32_t *value) {
    for (int32_t v = 0; v < r->additive->n_variables; v++) {
        double least = (double)INFINITY;
        for (int32_t x = 0; x < r->additive->n_values[v]; x++) {
            double share = 0;
            for (int32_t k = 0; k < r->n_limits; k++)
                share += (double)r->limits[k].weight[v][x] / ((double)r->limits[k].most + 1);
            if (share < least ||
                (share <= least && r->additive->cost[v][x] < r->additive->cost[v][value[v]])) {
                least = share;
                value[v] = x;
            }
        }
    }
    if (cleave_additive_is_within(r->additive, r->n_limits, r->limits, value))
        consider(r, value);
}

/* ---- planes ---------------------------------------------------------------------------------- */

/* False where the same plane is there already: nothing new is to be learnt. */
static bool add_plane(relaxation *r, const int32_t *value) {
    plane *p = &r->planes[r->n_planes];
    p->cost = (double)(cleave_additive_total(r->additive, value) - r->base) / r->cost_unit;
    for (int32_t k = 0; k < r->n_limits; k++) {
        int64_t weight = -r->limits[k].most;
        for (int32_t v = 0; v < r->additive->n_variables; v++)
            weight += r->limits[k].weight[v][value[v]];
        p->over[k] = (double)weight / r->weight_unit[k];
    }
    for (int32_t i = 0; i < r->n_planes; i++) {
        bool same = fabs(r->planes[i].cost - p->cost) <= 0;
        for (int32_t k = 0; k < r->n_limits; k++)
            same = same && fabs(r->planes[i].over[k] - p->over[k]) <= 0;
        if (same)
            return false;
    }
    r->n_planes++;
    return true;
}

/* Where the lowest of the planes is highest; its height, above the base in units. */
static cleave_status climb(relaxation *r, double *height, cleave_error *error) {
    int32_t n = r->n_limits, rows = r->n_planes, entries = rows * (n + 1);
    cleave_arena *arena = &r->round;
    double *numbers = CLEAVE_ARENA_ARRAY(arena, double, 4 * (n + 1) + 2 * rows + entries);
    int32_t *row_start = CLEAVE_ARENA_ARRAY(arena, int32_t, rows + 1);
    int32_t *column = CLEAVE_ARENA_ARRAY(arena, int32_t, entries);
    if (numbers == NULL || row_start == NULL || column == NULL)
        return cleave_fail_memory(error, "relaxing limits");
    double *objective = numbers, *lower = objective + n + 1, *upper = lower + n + 1;
    double *x = upper + n + 1, *row_lower = x + n + 1, *row_upper = row_lower + rows;
    double *entry = row_upper + rows;
    objective[n] = -1;
    lower[n] = -(double)INFINITY;
    upper[n] = (double)INFINITY;
    for (int32_t k = 0; k < n; k++)
        upper[k] = r->most_multiplier[k] * r->weight_unit[k] / r->cost_unit;
    for (int32_t i = 0; i < rows; i++) {
        row_lower[i] = -(double)INFINITY;
        row_upper[i] = r->planes[i].cost;
        row_start[i + 1] = (i + 1) * (n + 1);
        for (int32_t k = 0; k <= n; k++) {
            column[i * (n + 1) + k] = k;
            entry[i * (n + 1) + k] = k < n ? -r->planes[i].over[k] : 1;
        }
    }
    cleave_linear_program program = {n + 1,     rows,      objective, lower,  upper, NULL,
                                     row_lower, row_upper, row_start, column, entry};
    cleave_linear_result result;
    CLEAVE_TRY(cleave_linear_program_solve(&program, 0, x, &result, error));
    if (result.outcome != CLEAVE_LINEAR_OPTIMAL)
        return cleave_fail(error, CLEAVE_FAILED,
                           "the planes of a relaxation have no highest place");
    for (int32_t k = 0; k < n; k++)
        r->multiplier[k] =
            fmin(fmax(0, x[k]) * r->cost_unit / r->weight_unit[k], r->most_multiplier[k]);
    *height = x[n];
    return CLEAVE_OK;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

/* Solves with the multipliers at hand; the values are in `round`. */
static cleave_status solve(relaxation *r, const int32_t **value, cleave_error *error) {
    cleave_additive additive = *r->additive;
    cleave_additive_solution solution;
    cleave_arena_reset(&r->round);
    shift_costs(r);
    additive.cost = (const int64_t *const *)r->shifted;
    CLEAVE_TRY(cleave_additive_eliminate(&additive, r->most_entries, &r->round, &solution, error));
    int64_t bound = solution.bound;
    for (int32_t k = 0; k < r->n_limits; k++)
        bound -= multiply(r->multiplier[k], r->limits[k].most);
    r->bound = bound > r->bound ? bound : r->bound;
    *value = solution.value;
    return CLEAVE_OK;
}

static bool is_done(const relaxation *r) {
    return (r->found && r->bound >= r->total) || r->bound > r->ceiling;
}

/* Units in which multipliers and planes are about 1, from the choice that ignores the limits. */
static void set_units(relaxation *r, const int32_t *value) {
    r->base = r->bound;
    r->cost_unit = fmax(1, (double)((r->found ? r->total : r->ceiling) - r->base));
    for (int32_t k = 0; k < r->n_limits; k++) {
        double weight = 0, most = 1;
        for (int32_t v = 0; v < r->additive->n_variables; v++) {
            int64_t largest = 0;
            for (int32_t x = 0; x < r->additive->n_values[v]; x++)
                largest = r->limits[k].weight[v][x] > largest ? r->limits[k].weight[v][x] : largest;
            most += (double)largest;
            weight += (double)r->limits[k].weight[v][value[v]];
        }
        r->weight_unit[k] = fmax(1, fabs(weight - (double)r->limits[k].most));
        r->most_multiplier[k] =
            fmin(0x1p58 / most / r->n_limits, 1e6 * r->cost_unit / r->weight_unit[k]);
    }
}

static cleave_status relax(relaxation *r, cleave_error *error) {
    const int32_t *value;
    int32_t *lightest = CLEAVE_ARENA_ARRAY(r->arena, int32_t, r->additive->n_variables);
    if (lightest == NULL)
        return cleave_fail_memory(error, "relaxing limits");
    consider_lightest(r, lightest);
    CLEAVE_TRY(solve(r, &value, error));
    consider(r, value);
    set_units(r, value);
    add_plane(r, value);
    add_plane(r, lightest);
    for (int32_t round = 0; round < ROUNDS && !is_done(r); round++) {
        double height = 0;
        CLEAVE_TRY(climb(r, &height, error));
        if (height * r->cost_unit <= (double)(r->bound - r->base) + 0.5)
            break;
        CLEAVE_TRY(solve(r, &value, error));
        consider(r, value);
        if (!add_plane(r, value))
            break;
    }
    return CLEAVE_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool take_memory(relaxation *r) {
    int32_t n = r->additive->n_variables;
    r->shifted = CLEAVE_ARENA_ARRAY(r->arena, int64_t *, n);
    r->best = CLEAVE_ARENA_ARRAY(r->arena, int32_t, n);
    r->trial = CLEAVE_ARENA_ARRAY(r->arena, int32_t, n);
    r->multiplier = CLEAVE_ARENA_ARRAY(r->arena, double, r->n_limits);
    r->most_multiplier = CLEAVE_ARENA_ARRAY(r->arena, double, r->n_limits);
    r->weight_unit = CLEAVE_ARENA_ARRAY(r->arena, double, r->n_limits);
    if (r->shifted == NULL || r->best == NULL || r->trial == NULL || r->multiplier == NULL ||
        r->most_multiplier == NULL || r->weight_unit == NULL)
        return false;
    for (int32_t v = 0; v < n; v++) {
        r->shifted[v] = CLEAVE_ARENA_ARRAY(r->arena, int64_t, r->additive->n_values[v]);
        if (r->shifted[v] == NULL)
            return false;
    }
    for (int32_t i = 0; i < ROUNDS + 2; i++) {
        r->planes[i].over = CLEAVE_ARENA_ARRAY(r->arena, double, r->n_limits);
        if (r->planes[i].over == NULL)
            return false;
    }
    return true;
}

/* Sums over the variables of the least and of the largest number. */
static void extremes(const cleave_additive *additive, const int64_t *const *number, int64_t *least,
                     int64_t *most) {
    *least = *most = 0;
    for (int32_t v = 0; v < additive->n_variables; v++) {
        int64_t low = number[v][0], high = number[v][0];
        for (int32_t x = 1; x < additive->n_values[v]; x++) {
            low = number[v][x] < low ? number[v][x] : low;
            high = number[v][x] > high ? number[v][x] : high;
        }
        *least += low;
        *most += high;
    }
}

static int64_t find_ceiling(const cleave_additive *additive) {
    int64_t least, most;
    extremes(additive, additive->cost, &least, &most);
    for (int32_t i = 0; i < additive->n_pairs; i++) {
        const cleave_additive_pair *pair = &additive->pairs[i];
        int64_t largest = pair->cost[0];
        for (int64_t k = 1; k < (int64_t)additive->n_values[pair->a] * additive->n_values[pair->b];
             k++)
            largest = pair->cost[k] > largest ? pair->cost[k] : largest;
        most += largest;
    }
    return most;
}

/* Leaves out limits that nothing exceeds; false where one is exceeded by everything. */
static bool keep_binding(relaxation *r, int32_t n_limits) {
    for (int32_t i = 0; i < n_limits; i++) {
        int64_t least, most;
        extremes(r->additive, r->limits[i].weight, &least, &most);
        if (least > r->limits[i].most)
            return false;
        if (most > r->limits[i].most)
            r->limits[r->n_limits++] = r->limits[i];
    }
    return true;
}

static void conclude(const relaxation *r, int32_t *const *kept, int32_t *value,
                     cleave_additive_solution *solution) {
    *solution = (cleave_additive_solution){.outcome = CLEAVE_ADDITIVE_UNKNOWN, .bound = r->bound};
    if (r->found) {
        for (int32_t v = 0; v < r->additive->n_variables; v++)
            value[v] = kept[v][r->best[v]];
        *solution = (cleave_additive_solution){
            .outcome = r->bound >= r->total ? CLEAVE_ADDITIVE_OPTIMAL : CLEAVE_ADDITIVE_FEASIBLE,
            .value = value,
            .total = r->total,
            .bound = r->bound};
    } else if (r->bound > r->ceiling) {
        solution->outcome = CLEAVE_ADDITIVE_INFEASIBLE;
        solution->bound = INT64_MAX;
    }
}

static cleave_status relax_pruned(relaxation *r, const cleave_additive *additive, int32_t n_limits,
                                  const cleave_additive_limit *limits, int32_t *value,
                                  cleave_additive_solution *solution, cleave_error *error) {
    cleave_additive_pruned pruned;
    CLEAVE_TRY(cleave_additive_prune(additive, n_limits, limits, r->arena, &pruned, error));
    r->additive = &pruned.additive;
    r->limits = pruned.limits;
    r->ceiling = find_ceiling(r->additive);
    r->bound = INT64_MIN;
    if (!keep_binding(r, n_limits)) {
        *solution =
            (cleave_additive_solution){.outcome = CLEAVE_ADDITIVE_INFEASIBLE, .bound = INT64_MAX};
        return CLEAVE_OK;
    }
    if (!take_memory(r))
        return cleave_fail_memory(error, "relaxing limits");
    CLEAVE_TRY(cleave_additive_moves_create(r->additive, r->n_limits, r->limits, r->arena,
                                            &r->moves, error));
    CLEAVE_TRY(relax(r, error));
    conclude(r, pruned.kept, value, solution);
    return CLEAVE_OK;
}

cleave_status cleave_additive_relax(const cleave_additive *additive, int32_t n_limits,
                                    const cleave_additive_limit *limits, int64_t most_entries,
                                    cleave_arena *arena, cleave_additive_solution *solution,
                                    cleave_error *error) {
    int32_t *value = CLEAVE_ARENA_ARRAY(arena, int32_t, additive->n_variables);
    if (value == NULL)
        return cleave_fail_memory(error, "relaxing limits");
    cleave_arena scratch = {0};
    relaxation r = {.most_entries = most_entries, .arena = &scratch};
    cleave_additive_fitted fitted;
    cleave_additive_solution found;
    cleave_status status =
        cleave_additive_fit(additive, n_limits, limits, &scratch, &fitted, error);
    if (status == CLEAVE_OK)
        status = relax_pruned(&r, &fitted.additive, n_limits, limits, value, &found, error);
    cleave_arena_free(&r.round);
    cleave_arena_free(&scratch);
    if (status != CLEAVE_OK)
        return status;
    found.total += fitted.common;
    found.bound += found.outcome == CLEAVE_ADDITIVE_INFEASIBLE ? 0 : fitted.common;
    *solution = found;
    return status;
}
