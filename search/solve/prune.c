#include "search/solve/prune.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A pair as one of its variables sees it; values are counted among those that are left. */
typedef struct side {
    int32_t pair;
    int64_t *cost;         /* [n_left of this one][n_left of the other] */
    int64_t *least, *most; /* [n_left of this one] of the row */
} side;

typedef struct pruner {
    const cleave_additive *additive;
    int32_t n_limits;
    const cleave_additive_limit *limits;
    int32_t *n_left;  /* [n_variables] */
    int32_t **kept;   /* [n_variables][n_left] rising */
    int32_t *start;   /* [n_variables + 2] in `pair_of` */
    int32_t *pair_of; /* the pairs of every variable */
    side *sides;      /* of the variable at hand */
    int32_t n_sides;
    cleave_arena scratch; /* reset for every variable */
} pruner;

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- one variable ---------------------------------------------------------------------------- */

static bool see_side(pruner *p, int32_t variable, int32_t index, side *seen) {
    const cleave_additive_pair *pair = &p->additive->pairs[index];
    int32_t other = pair->a == variable ? pair->b : pair->a;
    int32_t n = p->n_left[variable], n_other = p->n_left[other];
    int64_t n_b = p->additive->n_values[pair->b];
    *seen = (side){
        .pair = index,
        .cost = cleave_arena_alloc(&p->scratch, (size_t)n * (size_t)n_other, sizeof *seen->cost),
        .least = CLEAVE_ARENA_ARRAY(&p->scratch, int64_t, n),
        .most = CLEAVE_ARENA_ARRAY(&p->scratch, int64_t, n)};
    if (seen->cost == NULL || seen->least == NULL || seen->most == NULL)
        return false;
    for (int32_t i = 0; i < n; i++) {
        int64_t *row = seen->cost + (int64_t)i * n_other, x = p->kept[variable][i];
        seen->least[i] = INT64_MAX;
        seen->most[i] = INT64_MIN;
        for (int32_t j = 0; j < n_other; j++) {
            int64_t y = p->kept[other][j];
            row[j] = pair->a == variable ? pair->cost[x * n_b + y] : pair->cost[y * n_b + x];
            seen->least[i] = row[j] < seen->least[i] ? row[j] : seen->least[i];
            seen->most[i] = larger(row[j], seen->most[i]);
        }
    }
    return true;
}

static bool see(pruner *p, int32_t variable) {
    cleave_arena_reset(&p->scratch);
    p->n_sides = p->start[variable + 1] - p->start[variable];
    p->sides = CLEAVE_ARENA_ARRAY(&p->scratch, side, p->n_sides);
    if (p->sides == NULL)
        return false;
    for (int32_t k = 0; k < p->n_sides; k++)
        if (!see_side(p, variable, p->pair_of[p->start[variable] + k], &p->sides[k]))
            return false;
    return true;
}

static int64_t most_difference(int32_t n, const int64_t *restrict a, const int64_t *restrict b) {
    int64_t most = a[0] - b[0];
    for (int32_t j = 1; j < n; j++)
        most = larger(a[j] - b[j], most);
    return most;
}

/* Can value `by` stand for value `of` whatever the neighbours are?  What it costs more is first
   bounded from below by the ends of the rows, which is enough for most. */
static bool replaces(const pruner *p, int32_t variable, int32_t by, int32_t of) {
    int32_t x = p->kept[variable][by], y = p->kept[variable][of];
    for (int32_t i = 0; i < p->n_limits; i++)
        if (p->limits[i].weight[variable][x] > p->limits[i].weight[variable][y])
            return false;
    int64_t more = p->additive->cost[variable][x] - p->additive->cost[variable][y];
    for (int32_t k = 0; k < p->n_sides; k++) {
        const side *s = &p->sides[k];
        more += larger(s->least[by] - s->least[of], s->most[by] - s->most[of]);
    }
    for (int32_t k = 0; k < p->n_sides && more <= 0; k++) {
        const side *s = &p->sides[k];
        const cleave_additive_pair *pair = &p->additive->pairs[s->pair];
        int64_t n = p->n_left[pair->a == variable ? pair->b : pair->a];
        more -= larger(s->least[by] - s->least[of], s->most[by] - s->most[of]);
        more += most_difference((int32_t)n, s->cost + by * n, s->cost + of * n);
    }
    return more <= 0;
}

/* Larger numbers first, so that of equal ones the smaller stays. False without memory. */
static bool drop_values(pruner *p, int32_t variable) {
    int32_t n = p->n_left[variable], n_left = 0;
    bool *dropped = CLEAVE_ARENA_ARRAY(&p->scratch, bool, n);
    if (dropped == NULL)
        return false;
    for (int32_t of = n - 1; of >= 0; of--)
        for (int32_t by = 0; by < n && !dropped[of]; by++)
            dropped[of] = by != of && !dropped[by] && replaces(p, variable, by, of);
    for (int32_t i = 0; i < n; i++)
        if (!dropped[i])
            p->kept[variable][n_left++] = p->kept[variable][i];
    p->n_left[variable] = n_left;
    return true;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool begin(pruner *p, cleave_arena *arena) {
    const cleave_additive *additive = p->additive;
    size_t n = (size_t)additive->n_variables;
    p->n_left = CLEAVE_ARENA_ARRAY(arena, int32_t, n);
    p->kept = CLEAVE_ARENA_ARRAY(arena, int32_t *, n);
    p->start = CLEAVE_ARENA_ARRAY(arena, int32_t, n + 2);
    p->pair_of = CLEAVE_ARENA_ARRAY(arena, int32_t, 2 * (size_t)additive->n_pairs);
    if (p->n_left == NULL || p->kept == NULL || p->start == NULL || p->pair_of == NULL)
        return false;
    for (int32_t v = 0; v < additive->n_variables; v++) {
        p->n_left[v] = additive->n_values[v];
        p->kept[v] = CLEAVE_ARENA_ARRAY(arena, int32_t, p->n_left[v]);
        if (p->kept[v] == NULL)
            return false;
        for (int32_t x = 0; x < p->n_left[v]; x++)
            p->kept[v][x] = x;
    }
    cleave_additive_list_pairs(additive, p->start, p->pair_of);
    return true;
}

/* Looks at every variable, and again at those whose neighbours have become smaller. */
static bool drop_all(pruner *p, cleave_arena *arena) {
    const cleave_additive *additive = p->additive;
    bool *due = CLEAVE_ARENA_ARRAY(arena, bool, additive->n_variables);
    if (due == NULL)
        return false;
    for (int32_t v = 0; v < additive->n_variables; v++)
        due[v] = additive->n_values[v] > 1;
    for (bool again = true; again;) {
        again = false;
        for (int32_t v = 0; v < additive->n_variables; v++) {
            int32_t before = p->n_left[v];
            if (!due[v])
                continue;
            due[v] = false;
            if (!see(p, v) || !drop_values(p, v))
                return false;
            for (int32_t k = p->start[v]; k < p->start[v + 1] && p->n_left[v] < before; k++) {
                const cleave_additive_pair *pair = &additive->pairs[p->pair_of[k]];
                int32_t other = pair->a == v ? pair->b : pair->a;
                due[other] = p->n_left[other] > 1;
                again = true;
            }
        }
    }
    return true;
}

static const int64_t *pick(const int64_t *numbers, int32_t n, const int32_t *kept,
                           cleave_arena *arena) {
    int64_t *picked = CLEAVE_ARENA_ARRAY(arena, int64_t, n);
    for (int32_t x = 0; x < n && picked != NULL; x++)
        picked[x] = numbers[kept[x]];
    return picked;
}

static const int64_t *pick_pair(const pruner *p, const cleave_additive_pair *pair,
                                cleave_arena *arena) {
    int32_t n_a = p->n_left[pair->a], n_b = p->n_left[pair->b];
    int64_t row = p->additive->n_values[pair->b];
    if (n_a == p->additive->n_values[pair->a] && n_b == row)
        return pair->cost;
    int64_t *picked = cleave_arena_alloc(arena, (size_t)n_a * (size_t)n_b, sizeof *picked);
    for (int32_t x = 0; x < n_a && picked != NULL; x++)
        for (int32_t y = 0; y < n_b; y++)
            picked[(int64_t)x * n_b + y] =
                pair->cost[p->kept[pair->a][x] * row + p->kept[pair->b][y]];
    return picked;
}

/* The columns of one table per variable: costs, or weights. */
static const int64_t *const *pick_all(const pruner *p, const int64_t *const *numbers,
                                      cleave_arena *arena) {
    const int64_t **picked = CLEAVE_ARENA_ARRAY(arena, const int64_t *, p->additive->n_variables);
    for (int32_t v = 0; v < p->additive->n_variables && picked != NULL; v++) {
        picked[v] = pick(numbers[v], p->n_left[v], p->kept[v], arena);
        if (picked[v] == NULL)
            return NULL;
    }
    return picked;
}

static bool copy_what_is_left(const pruner *p, cleave_arena *arena,
                              cleave_additive_pruned *pruned) {
    const cleave_additive *additive = p->additive;
    cleave_additive_pair *pairs =
        CLEAVE_ARENA_ARRAY(arena, cleave_additive_pair, additive->n_pairs);
    *pruned = (cleave_additive_pruned){
        .additive = {additive->n_variables, p->n_left, pick_all(p, additive->cost, arena),
                     additive->n_pairs, pairs},
        .limits = CLEAVE_ARENA_ARRAY(arena, cleave_additive_limit, p->n_limits),
        .kept = p->kept};
    if (pairs == NULL || pruned->additive.cost == NULL || pruned->limits == NULL)
        return false;
    for (int32_t i = 0; i < additive->n_pairs; i++) {
        pairs[i] = additive->pairs[i];
        pairs[i].cost = pick_pair(p, &pairs[i], arena);
        if (pairs[i].cost == NULL)
            return false;
    }
    for (int32_t i = 0; i < p->n_limits; i++) {
        pruned->limits[i] =
            (cleave_additive_limit){pick_all(p, p->limits[i].weight, arena), p->limits[i].most};
        if (pruned->limits[i].weight == NULL)
            return false;
    }
    for (int32_t v = 0; v < additive->n_variables; v++)
        pruned->n_dropped += additive->n_values[v] - p->n_left[v];
    return true;
}

cleave_status cleave_additive_prune(const cleave_additive *additive, int32_t n_limits,
                                    const cleave_additive_limit *limits, cleave_arena *arena,
                                    cleave_additive_pruned *pruned, cleave_error *error) {
    pruner p = {.additive = additive, .n_limits = n_limits, .limits = limits};
    bool done = begin(&p, arena) && drop_all(&p, arena) && copy_what_is_left(&p, arena, pruned);
    cleave_arena_free(&p.scratch);
    return done ? CLEAVE_OK : cleave_fail_memory(error, "dropping values");
}
