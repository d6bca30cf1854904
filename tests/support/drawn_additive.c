#include "drawn_additive.h"

#include <criterion/criterion.h>

enum { MOST_VARIABLES = 4096 };

additive_shape additive_small_shape(cleave_random *random) {
    static const int64_t spreads[] = {0, 1, 3, 1000, INT64_C(1) << 50};
    return (additive_shape){.graph = (drawn_graph)cleave_random_below(random, N_DRAWN_GRAPHS),
                            .n_variables = 1 + (int32_t)cleave_random_below(random, 7),
                            .most_values = 1 + (int32_t)cleave_random_below(random, 3),
                            .spread = spreads[cleave_random_below(random, 5)]};
}

static int64_t *draw_numbers(int64_t n, int64_t least, int64_t most, cleave_random *random,
                             cleave_arena *arena) {
    int64_t *numbers = CLEAVE_ARENA_ARRAY(arena, int64_t, n);
    cr_assert_not_null(numbers);
    for (int64_t i = 0; i < n; i++)
        numbers[i] = least + cleave_random_below(random, most - least + 1);
    return numbers;
}

/* Do two variables meet, a < b? */
static bool meet(const additive_shape *shape, int32_t a, int32_t b, cleave_random *random) {
    switch (shape->graph) {
    case DRAWN_CYCLE:
        return b == a + 1 || (a == 0 && b == shape->n_variables - 1);
    case DRAWN_CLIQUE:
        return true;
    case DRAWN_GRID:
        return b == a + 2 || (b == a + 1 && a % 2 == 0);
    case DRAWN_SKIPS:
        return b == a + 1 || (b == a + 2 && a % 2 == 0);
    default:
        return cleave_random_below(random, 4) == 0;
    }
}

static void add_pair(cleave_additive *additive, cleave_additive_pair *pairs, int32_t a, int32_t b,
                     int64_t spread, cleave_random *random, cleave_arena *arena) {
    int64_t n = (int64_t)additive->n_values[a] * additive->n_values[b];
    pairs[additive->n_pairs++] =
        (cleave_additive_pair){a, b, draw_numbers(n, -spread, spread, random, arena)};
}

cleave_additive drawn_additive(const additive_shape *shape, cleave_random *random,
                               cleave_arena *arena) {
    int32_t n = shape->n_variables;
    int32_t *n_values = CLEAVE_ARENA_ARRAY(arena, int32_t, n);
    const int64_t **cost = CLEAVE_ARENA_ARRAY(arena, const int64_t *, n);
    cleave_additive_pair *pairs = CLEAVE_ARENA_ARRAY(arena, cleave_additive_pair, n * n);
    cr_assert(n <= MOST_VARIABLES && n_values != NULL && cost != NULL && pairs != NULL);
    cleave_additive additive = {
        .n_variables = n, .n_values = n_values, .cost = cost, .pairs = pairs};
    for (int32_t v = 0; v < n; v++) {
        n_values[v] = 1 + (int32_t)cleave_random_below(random, shape->most_values);
        cost[v] = draw_numbers(n_values[v], -shape->spread, shape->spread, random, arena);
    }
    for (int32_t b = 1; b < n; b++) {
        if (shape->graph == DRAWN_TREE) {
            int32_t a = (int32_t)cleave_random_below(random, b);
            add_pair(&additive, pairs, a, b, shape->spread, random, arena);
            continue;
        }
        for (int32_t a = 0; a < b; a++) {
            if (!meet(shape, a, b, random))
                continue;
            add_pair(&additive, pairs, a, b, shape->spread, random, arena);
            if (shape->graph == DRAWN_SPARSE && cleave_random_below(random, 4) == 0)
                add_pair(&additive, pairs, a, b, shape->spread, random, arena);
        }
    }
    return additive;
}

cleave_additive_limit drawn_limit(const cleave_additive *additive, int64_t most_weight,
                                  cleave_random *random, cleave_arena *arena) {
    const int64_t **weight = CLEAVE_ARENA_ARRAY(arena, const int64_t *, additive->n_variables);
    cr_assert_not_null(weight);
    int64_t sum = 0;
    for (int32_t v = 0; v < additive->n_variables; v++) {
        int64_t *of = draw_numbers(additive->n_values[v], 0, most_weight, random, arena), most = 0;
        for (int32_t x = 0; x < additive->n_values[v]; x++) {
            if (cleave_random_below(random, 4) == 0)
                of[x] = 0;
            most = of[x] > most ? of[x] : most;
        }
        weight[v] = of;
        sum += most;
    }
    /* The larger of two, so that most are wide enough for something. */
    int64_t most = cleave_random_below(random, sum + 1),
            other = cleave_random_below(random, sum + 1);
    most = most > other ? most : other;
    return (cleave_additive_limit){.weight = weight, .most = most};
}

int64_t drawn_weight(const cleave_additive *additive, const cleave_additive_limit *limit,
                     const int32_t *value) {
    int64_t sum = 0;
    for (int32_t v = 0; v < additive->n_variables; v++)
        sum += limit->weight[v][value[v]];
    return sum;
}

static int64_t total_of(const cleave_additive *additive, const int32_t *value) {
    int64_t total = 0;
    for (int32_t v = 0; v < additive->n_variables; v++)
        total += additive->cost[v][value[v]];
    for (const cleave_additive_pair *pair = additive->pairs;
         pair < additive->pairs + additive->n_pairs; pair++)
        total += pair->cost[value[pair->a] * additive->n_values[pair->b] + value[pair->b]];
    return total;
}

bool drawn_count_on(const cleave_additive *additive, int32_t *value) {
    for (int32_t v = 0; v < additive->n_variables; v++) {
        if (++value[v] < additive->n_values[v])
            return true;
        value[v] = 0;
    }
    return false;
}

bool drawn_optimum(const cleave_additive *additive, int32_t n_limits,
                   const cleave_additive_limit *limits, int64_t *least) {
    int32_t value[MOST_VARIABLES] = {0};
    bool found = false;
    do {
        bool within = true;
        for (int32_t i = 0; i < n_limits; i++)
            within = within && drawn_weight(additive, &limits[i], value) <= limits[i].most;
        int64_t total = total_of(additive, value);
        if (within && (!found || total < *least)) {
            *least = total;
            found = true;
        }
    } while (drawn_count_on(additive, value));
    return found;
}

bool drawn_is_choice(const cleave_additive *additive, const cleave_additive_solution *solution) {
    if (solution->value == NULL)
        return false;
    for (int32_t v = 0; v < additive->n_variables; v++)
        if (solution->value[v] < 0 || solution->value[v] >= additive->n_values[v])
            return false;
    return total_of(additive, solution->value) == solution->total;
}
