/* Every pair p of a and b has, beside its costs, an amount for each value of a and of b: what has
   been moved to it from the variables.  A variable is visited by pulling from each of its pairs the
   least cost that goes with each value, and then pushing what is above its own least cost on to the
   pairs that are visited later, in equal parts.  Amounts are integers, so nothing is lost in
   rounding.

   Sizes: after the least cost of each pair has been set aside, costs of pairs never fall below 0,
   nor a variable's least cost below what it was; with the bound these sums can't rise above the
   total of any choice.  So what is moved stays within the sum of the largest costs, a few times. */
#include "search/solve/tighten.h"

#include "search/solve/moves.h"

#include <stdlib.h>
#include <string.h>

typedef struct tightener {
    const cleave_additive *additive;
    int32_t *start, *pair_of; /* of cleave_additive_list_pairs */
    int64_t **cost;           /* [n_variables][n_values] */
    int64_t **to_a, **to_b;   /* [n_pairs][n_values] moved to a pair */
    int64_t constant;         /* set aside */
    int64_t *least, *part;    /* [largest n_values] */
    cleave_additive_moves moves;
    int32_t *trial, *value;
    int64_t total, bound;
} tightener;

/* ---- rows ------------------------------------------------------------------------------------ */

/* least[i] = least over j of cost[i][j] + add[j] */
static void least_of_rows(int32_t n, int32_t m, const int64_t *restrict cost,
                          const int64_t *restrict add, int64_t *restrict least) {
    for (int32_t i = 0; i < n; i++) {
        const int64_t *row = cost + (int64_t)i * m;
        int64_t found = row[0] + add[0];
        for (int32_t j = 1; j < m; j++) {
            int64_t sum = row[j] + add[j];
            found = sum < found ? sum : found;
        }
        least[i] = found;
    }
}

/* least[j] = least over i of cost[i][j] + add[i] */
static void least_of_columns(int32_t n, int32_t m, const int64_t *restrict cost,
                             const int64_t *restrict add, int64_t *restrict least) {
    for (int32_t j = 0; j < m; j++)
        least[j] = cost[j] + add[0];
    for (int32_t i = 1; i < n; i++)
        for (int32_t j = 0; j < m; j++) {
            int64_t sum = cost[(int64_t)i * m + j] + add[i];
            least[j] = sum < least[j] ? sum : least[j];
        }
}

static int64_t least_of(int32_t n, const int64_t *numbers) {
    int64_t least = numbers[0];
    for (int32_t i = 1; i < n; i++)
        least = numbers[i] < least ? numbers[i] : least;
    return least;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* What has been moved to a pair from one of its variables. */
static int64_t *moved_to(const tightener *t, int32_t pair, int32_t variable) {
    return t->additive->pairs[pair].a == variable ? t->to_a[pair] : t->to_b[pair];
}

static int32_t other_of(const tightener *t, int32_t pair, int32_t variable) {
    const cleave_additive_pair *of = &t->additive->pairs[pair];
    return of->a == variable ? of->b : of->a;
}

/* Fills `least` with what the pair costs at least with each value of the variable. */
static void find_least(tightener *t, int32_t pair, int32_t variable) {
    const cleave_additive_pair *of = &t->additive->pairs[pair];
    int32_t n_a = t->additive->n_values[of->a], n_b = t->additive->n_values[of->b];
    if (of->a == variable)
        least_of_rows(n_a, n_b, of->cost, t->to_b[pair], t->least);
    else
        least_of_columns(n_a, n_b, of->cost, t->to_a[pair], t->least);
    const int64_t *own = moved_to(t, pair, variable);
    for (int32_t x = 0; x < t->additive->n_values[variable]; x++)
        t->least[x] += own[x];
}

static void pull(tightener *t, int32_t variable) {
    for (int32_t k = t->start[variable]; k < t->start[variable + 1]; k++) {
        int64_t *moved = moved_to(t, t->pair_of[k], variable);
        find_least(t, t->pair_of[k], variable);
        for (int32_t x = 0; x < t->additive->n_values[variable]; x++) {
            t->cost[variable][x] += t->least[x];
            moved[x] -= t->least[x];
        }
    }
}

/* To the pairs with later variables, or with earlier ones.  Where there are more on the other side
   a part stays, for these. */
static void push(tightener *t, int32_t variable, bool forward) {
    int32_t n = t->additive->n_values[variable], n_to = 0, n_other = 0;
    for (int32_t k = t->start[variable]; k < t->start[variable + 1]; k++)
        *((other_of(t, t->pair_of[k], variable) > variable) == forward ? &n_to : &n_other) += 1;
    if (n_to == 0)
        return;
    int64_t *cost = t->cost[variable], least = least_of(n, cost);
    for (int32_t x = 0; x < n; x++) {
        t->part[x] = (cost[x] - least) / (n_to > n_other ? n_to : n_other);
        cost[x] -= n_to * t->part[x];
    }
    for (int32_t k = t->start[variable]; k < t->start[variable + 1]; k++) {
        if ((other_of(t, t->pair_of[k], variable) > variable) != forward)
            continue;
        int64_t *moved = moved_to(t, t->pair_of[k], variable);
        for (int32_t x = 0; x < n; x++)
            moved[x] += t->part[x];
    }
}

/* The best value of a variable from which all has been pulled, beside the values of the earlier
   ones. */
static void choose(tightener *t, int32_t variable) {
    int32_t n = t->additive->n_values[variable];
    memcpy(t->part, t->cost[variable], (size_t)n * sizeof *t->part);
    for (int32_t k = t->start[variable]; k < t->start[variable + 1]; k++) {
        int32_t pair = t->pair_of[k], other = other_of(t, pair, variable);
        const cleave_additive_pair *of = &t->additive->pairs[pair];
        const int64_t *moved = moved_to(t, pair, variable);
        int64_t n_b = t->additive->n_values[of->b];
        if (other > variable)
            continue;
        for (int32_t x = 0; x < n; x++)
            t->part[x] += moved[x] + of->cost[t->trial[other] * n_b + x];
    }
    t->trial[variable] = 0;
    for (int32_t x = 1; x < n; x++)
        if (t->part[x] < t->part[t->trial[variable]])
            t->trial[variable] = x;
}

static void pass(tightener *t) {
    int32_t n = t->additive->n_variables;
    for (int32_t v = 0; v < n; v++) {
        pull(t, v);
        choose(t, v);
        push(t, v, true);
    }
    for (int32_t v = n - 1; v >= 0; v--) {
        pull(t, v);
        push(t, v, false);
    }
    cleave_additive_improve(&t->moves, t->trial);
    int64_t total = cleave_additive_total(t->additive, t->trial);
    if (total < t->total) {
        memcpy(t->value, t->trial, (size_t)n * sizeof *t->value);
        t->total = total;
    }
}

/* ---- what is left ---------------------------------------------------------------------------- */

static int64_t least_of_pair(tightener *t, int32_t pair) {
    int32_t a = t->additive->pairs[pair].a;
    find_least(t, pair, a);
    return least_of(t->additive->n_values[a], t->least);
}

/* Marks the values that may be in a choice as cheap as the best known one: with everything pulled
   to their variable they don't raise the bound above it.  Nothing is moved. */
static int32_t mark_kept(tightener *t, int32_t variable, const int64_t *least_of_pairs,
                         int32_t *kept) {
    int32_t n = t->additive->n_values[variable], n_kept = 0;
    int64_t others = t->bound - least_of(n, t->cost[variable]);
    memcpy(t->part, t->cost[variable], (size_t)n * sizeof *t->part);
    for (int32_t k = t->start[variable]; k < t->start[variable + 1]; k++) {
        others -= least_of_pairs[t->pair_of[k]];
        find_least(t, t->pair_of[k], variable);
        for (int32_t x = 0; x < n; x++)
            t->part[x] += t->least[x];
    }
    for (int32_t x = 0; x < n; x++)
        if (others + t->part[x] <= t->total)
            kept[n_kept++] = x;
    return n_kept;
}

static const int64_t *copy_cost(const tightener *t, int32_t variable, int32_t n,
                                const int32_t *kept, cleave_arena *arena) {
    int64_t *cost = CLEAVE_ARENA_ARRAY(arena, int64_t, n);
    for (int32_t x = 0; x < n && cost != NULL; x++)
        cost[x] = t->cost[variable][kept[x]] + (variable == 0 ? t->constant : 0);
    return cost;
}

static const int64_t *copy_pair(const tightener *t, int32_t pair, const int32_t *n_values,
                                int32_t *const *kept, cleave_arena *arena) {
    const cleave_additive_pair *of = &t->additive->pairs[pair];
    int32_t n_a = n_values[of->a], n_b = n_values[of->b];
    int64_t *cost = cleave_arena_alloc(arena, (size_t)n_a * (size_t)n_b, sizeof *cost);
    for (int32_t i = 0; i < n_a && cost != NULL; i++) {
        int32_t x = kept[of->a][i];
        const int64_t *row = of->cost + (int64_t)x * t->additive->n_values[of->b];
        for (int32_t j = 0; j < n_b; j++) {
            int32_t y = kept[of->b][j];
            cost[(int64_t)i * n_b + j] = row[y] + t->to_a[pair][x] + t->to_b[pair][y];
        }
    }
    return cost;
}

static bool copy_what_is_left(tightener *t, cleave_arena *arena, cleave_additive_tightened *made) {
    const cleave_additive *additive = t->additive;
    int32_t n = additive->n_variables;
    int32_t *n_values = CLEAVE_ARENA_ARRAY(arena, int32_t, n);
    int32_t **kept = CLEAVE_ARENA_ARRAY(arena, int32_t *, n);
    int64_t *least_of_pairs = CLEAVE_ARENA_ARRAY(arena, int64_t, additive->n_pairs);
    const int64_t **cost = CLEAVE_ARENA_ARRAY(arena, const int64_t *, n);
    cleave_additive_pair *pairs =
        CLEAVE_ARENA_ARRAY(arena, cleave_additive_pair, additive->n_pairs);
    if (n_values == NULL || kept == NULL || least_of_pairs == NULL || cost == NULL || pairs == NULL)
        return false;
    t->bound = t->constant;
    for (int32_t v = 0; v < n; v++)
        t->bound += least_of(additive->n_values[v], t->cost[v]);
    for (int32_t p = 0; p < additive->n_pairs; p++) {
        least_of_pairs[p] = least_of_pair(t, p);
        t->bound += least_of_pairs[p];
    }
    for (int32_t v = 0; v < n; v++) {
        kept[v] = CLEAVE_ARENA_ARRAY(arena, int32_t, additive->n_values[v]);
        if (kept[v] == NULL)
            return false;
        n_values[v] = mark_kept(t, v, least_of_pairs, kept[v]);
        cost[v] = copy_cost(t, v, n_values[v], kept[v], arena);
        if (cost[v] == NULL)
            return false;
    }
    for (int32_t p = 0; p < additive->n_pairs; p++) {
        pairs[p] = additive->pairs[p];
        pairs[p].cost = copy_pair(t, p, n_values, kept, arena);
        if (pairs[p].cost == NULL)
            return false;
    }
    *made = (cleave_additive_tightened){
        {n, n_values, cost, additive->n_pairs, pairs}, kept, t->bound, t->value, t->total};
    return true;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int64_t largest_of(int64_t n, const int64_t *cost) {
    int64_t largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = llabs(cost[i]) > largest ? llabs(cost[i]) : largest;
    return largest;
}

bool cleave_additive_can_tighten(const cleave_additive *additive) {
    int64_t sum = 0, n = (int64_t)additive->n_variables + additive->n_pairs;
    for (int32_t v = 0; v < additive->n_variables; v++)
        sum += largest_of(additive->n_values[v], additive->cost[v]);
    for (int32_t i = 0; i < additive->n_pairs; i++) {
        const cleave_additive_pair *pair = &additive->pairs[i];
        sum += largest_of((int64_t)additive->n_values[pair->a] * additive->n_values[pair->b],
                          pair->cost);
    }
    return sum < INT64_C(1) << 48 && (n == 0 || sum < (INT64_C(1) << 59) / n);
}

static bool take_memory(tightener *t, cleave_arena *scratch, cleave_arena *arena) {
    const cleave_additive *additive = t->additive;
    int32_t n = additive->n_variables, most_values = 1;
    t->start = CLEAVE_ARENA_ARRAY(scratch, int32_t, (size_t)n + 2);
    t->pair_of = CLEAVE_ARENA_ARRAY(scratch, int32_t, 2 * (size_t)additive->n_pairs);
    t->cost = CLEAVE_ARENA_ARRAY(scratch, int64_t *, n);
    t->to_a = CLEAVE_ARENA_ARRAY(scratch, int64_t *, additive->n_pairs);
    t->to_b = CLEAVE_ARENA_ARRAY(scratch, int64_t *, additive->n_pairs);
    t->trial = CLEAVE_ARENA_ARRAY(scratch, int32_t, n);
    t->value = CLEAVE_ARENA_ARRAY(arena, int32_t, n);
    if (t->start == NULL || t->pair_of == NULL || t->cost == NULL || t->to_a == NULL ||
        t->to_b == NULL || t->trial == NULL || t->value == NULL)
        return false;
    for (int32_t v = 0; v < n; v++) {
        t->cost[v] = CLEAVE_ARENA_ARRAY(scratch, int64_t, additive->n_values[v]);
        most_values = additive->n_values[v] > most_values ? additive->n_values[v] : most_values;
        if (t->cost[v] == NULL)
            return false;
        memcpy(t->cost[v], additive->cost[v], (size_t)additive->n_values[v] * sizeof **t->cost);
    }
    for (int32_t p = 0; p < additive->n_pairs; p++) {
        const cleave_additive_pair *pair = &additive->pairs[p];
        t->to_a[p] = CLEAVE_ARENA_ARRAY(scratch, int64_t, additive->n_values[pair->a]);
        t->to_b[p] = CLEAVE_ARENA_ARRAY(scratch, int64_t, additive->n_values[pair->b]);
        if (t->to_a[p] == NULL || t->to_b[p] == NULL)
            return false;
    }
    t->least = CLEAVE_ARENA_ARRAY(scratch, int64_t, most_values);
    t->part = CLEAVE_ARENA_ARRAY(scratch, int64_t, most_values);
    cleave_additive_list_pairs(additive, t->start, t->pair_of);
    return t->least != NULL && t->part != NULL;
}

static void set_least_aside(tightener *t) {
    for (int32_t p = 0; p < t->additive->n_pairs; p++) {
        int64_t least = least_of_pair(t, p);
        for (int32_t x = 0; x < t->additive->n_values[t->additive->pairs[p].a]; x++)
            t->to_a[p][x] -= least;
        t->constant += least;
    }
}

cleave_status cleave_additive_tighten(const cleave_additive *additive, int32_t times,
                                      cleave_arena *arena, cleave_additive_tightened *tightened,
                                      cleave_error *error) {
    cleave_arena scratch = {0};
    tightener t = {.additive = additive, .total = INT64_MAX};
    cleave_status status = CLEAVE_OK;
    if (!take_memory(&t, &scratch, arena))
        status = cleave_fail_memory(error, "passing messages");
    if (status == CLEAVE_OK)
        status = cleave_additive_moves_create(additive, 0, NULL, &scratch, &t.moves, error);
    if (status == CLEAVE_OK) {
        set_least_aside(&t);
        for (int32_t i = 0; i < times; i++)
            pass(&t);
        if (!copy_what_is_left(&t, arena, tightened))
            status = cleave_fail_memory(error, "passing messages");
    }
    cleave_arena_free(&scratch);
    return status;
}
