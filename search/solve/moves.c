#include "search/solve/moves.h"

#include <math.h>
#include <string.h>

cleave_status cleave_additive_moves_create(const cleave_additive *additive, int32_t n_limits,
                                           const cleave_additive_limit *limits, cleave_arena *arena,
                                           cleave_additive_moves *moves, cleave_error *error) {
    int32_t most_values = 1, n = additive->n_variables;
    for (int32_t v = 0; v < n; v++)
        most_values = additive->n_values[v] > most_values ? additive->n_values[v] : most_values;
    cleave_additive_moves made = {
        .additive = additive,
        .n_limits = n_limits,
        .limits = limits,
        .start = CLEAVE_ARENA_ARRAY(arena, int32_t, (size_t)n + 2),
        .pair_of = CLEAVE_ARENA_ARRAY(arena, int32_t, 2 * (size_t)additive->n_pairs),
        .sums = CLEAVE_ARENA_ARRAY(arena, int64_t, most_values),
        .weight = CLEAVE_ARENA_ARRAY(arena, int64_t, n_limits),
        .order = CLEAVE_ARENA_ARRAY(arena, int32_t, n),
        .ratio = CLEAVE_ARENA_ARRAY(arena, double, n)};
    if (made.start == NULL || made.pair_of == NULL || made.sums == NULL || made.weight == NULL ||
        made.order == NULL || made.ratio == NULL)
        return cleave_fail_memory(error, "improving a choice");
    cleave_additive_list_pairs(additive, made.start, made.pair_of);
    *moves = made;
    return CLEAVE_OK;
}

/* Fills `sums` with what each value of a variable costs beside its neighbours' values. */
static void sum_up(cleave_additive_moves *m, int32_t variable, const int32_t *value) {
    const cleave_additive *additive = m->additive;
    int32_t n = additive->n_values[variable];
    memcpy(m->sums, additive->cost[variable], (size_t)n * sizeof *m->sums);
    for (int32_t k = m->start[variable]; k < m->start[variable + 1]; k++) {
        const cleave_additive_pair *pair = &additive->pairs[m->pair_of[k]];
        int64_t n_b = additive->n_values[pair->b];
        for (int32_t x = 0; x < n; x++)
            m->sums[x] += pair->a == variable ? pair->cost[x * n_b + value[pair->b]]
                                              : pair->cost[value[pair->a] * n_b + x];
    }
}

static void weigh(cleave_additive_moves *m, const int32_t *value) {
    for (int32_t i = 0; i < m->n_limits; i++) {
        m->weight[i] = 0;
        for (int32_t v = 0; v < m->additive->n_variables; v++)
            m->weight[i] += m->limits[i].weight[v][value[v]];
    }
}

static void change(cleave_additive_moves *m, int32_t variable, int32_t x, int32_t *value) {
    for (int32_t i = 0; i < m->n_limits; i++)
        m->weight[i] +=
            m->limits[i].weight[variable][x] - m->limits[i].weight[variable][value[variable]];
    value[variable] = x;
}

static bool is_within(const cleave_additive_moves *m) {
    for (int32_t i = 0; i < m->n_limits; i++)
        if (m->weight[i] > m->limits[i].most)
            return false;
    return true;
}

static bool stays_within(const cleave_additive_moves *m, int32_t variable, int32_t from,
                         int32_t to) {
    for (int32_t i = 0; i < m->n_limits; i++) {
        const int64_t *weight = m->limits[i].weight[variable];
        if (m->weight[i] + weight[to] - weight[from] > m->limits[i].most)
            return false;
    }
    return true;
}

void cleave_additive_improve(cleave_additive_moves *moves, int32_t *value) {
    weigh(moves, value);
    for (bool changed = true; changed;) {
        changed = false;
        for (int32_t v = 0; v < moves->additive->n_variables; v++) {
            int32_t best = value[v];
            sum_up(moves, v, value);
            for (int32_t x = 0; x < moves->additive->n_values[v]; x++)
                if (moves->sums[x] < moves->sums[best] && stays_within(moves, v, value[v], x))
                    best = x;
            if (best != value[v]) {
                change(moves, v, best, value);
                changed = true;
            }
        }
    }
}

/* What a change takes off the weights that are over their limits, each as a share of its limit. */
static double relief(const cleave_additive_moves *m, int32_t variable, int32_t from, int32_t to) {
    double sum = 0;
    for (int32_t i = 0; i < m->n_limits; i++) {
        const int64_t *weight = m->limits[i].weight[variable];
        if (m->weight[i] > m->limits[i].most)
            sum += (double)(weight[from] - weight[to]) / ((double)m->limits[i].most + 1);
    }
    return sum;
}

/* Sifts a heap's root down: the least ratio on top, of several the smaller variable. */
static void sift(cleave_additive_moves *m, int32_t n, int32_t at) {
    for (;;) {
        int32_t least = at;
        for (int32_t child = 2 * at + 1; child <= 2 * at + 2 && child < n; child++) {
            double a = m->ratio[m->order[child]], b = m->ratio[m->order[least]];
            if (a < b || (a <= b && m->order[child] < m->order[least]))
                least = child;
        }
        if (least == at)
            return;
        int32_t kept = m->order[at];
        m->order[at] = m->order[least];
        m->order[least] = kept;
        at = least;
    }
}

void cleave_additive_repair(cleave_additive_moves *moves, const int32_t *within, int32_t *value) {
    const cleave_additive *additive = moves->additive;
    int32_t n = 0;
    weigh(moves, value);
    for (int32_t v = 0; v < additive->n_variables; v++) {
        if (value[v] == within[v])
            continue;
        double taken = relief(moves, v, value[v], within[v]);
        sum_up(moves, v, value);
        double more = (double)(moves->sums[within[v]] - moves->sums[value[v]]);
        /* What takes nothing off comes last, unless it costs less. */
        moves->ratio[v] = taken > 0  ? more / taken
                          : more < 0 ? -(double)INFINITY
                                     : (double)INFINITY;
        moves->order[n++] = v;
    }
    for (int32_t i = n / 2 - 1; i >= 0; i--)
        sift(moves, n, i);
    while (n > 0 && !is_within(moves)) {
        int32_t v = moves->order[0];
        change(moves, v, within[v], value);
        moves->order[0] = moves->order[--n];
        sift(moves, n, 0);
    }
}
