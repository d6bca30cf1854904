/* What all solvers of the additive model share: its rules, costs that add up without overflow, and
   the total of a choice.

   Some splits are so bad, as a tensor of all tokens and words over a slow link, that they take
   hours, where the good ones take milliseconds.  Such costs are cut, not refused: a split that is
   never the answer must not be the end of a search. */
#include "search/solve/additive.h"

#include <stdlib.h>

static const int64_t most_sum = INT64_C(1) << 61;

/* ---- rules ----------------------------------------------------------------------------------- */

static cleave_status check_pair(const cleave_additive *additive, const cleave_additive_pair *pair,
                                cleave_error *error) {
    if (pair->a < 0 || pair->a >= pair->b || pair->b >= additive->n_variables)
        return cleave_fail(error, CLEAVE_FAILED,
                           "a pair of the variables %d and %d of %d in an additive model",
                           (int)pair->a, (int)pair->b, (int)additive->n_variables);
    return CLEAVE_OK;
}

static cleave_status check_limit(const cleave_additive *additive,
                                 const cleave_additive_limit *limit, cleave_error *error) {
    int64_t sum = 0;
    for (int32_t v = 0; v < additive->n_variables; v++) {
        int64_t largest = 0;
        for (int32_t x = 0; x < additive->n_values[v]; x++) {
            int64_t weight = limit->weight[v][x];
            if (weight < 0)
                return cleave_fail(error, CLEAVE_FAILED,
                                   "variable %d of an additive model weighs %lld with value %d",
                                   (int)v, (long long)weight, (int)x);
            largest = weight > largest ? weight : largest;
        }
        if (largest >= most_sum - sum)
            return cleave_fail(error, CLEAVE_FAILED,
                               "the weights of an additive model add up beyond 2^61");
        sum += largest;
    }
    return CLEAVE_OK;
}

static cleave_status check(const cleave_additive *additive, int32_t n_limits,
                           const cleave_additive_limit *limits, cleave_error *error) {
    for (int32_t v = 0; v < additive->n_variables; v++)
        if (additive->n_values[v] < 1)
            return cleave_fail(error, CLEAVE_FAILED,
                               "variable %d of an additive model has %d values", (int)v,
                               (int)additive->n_values[v]);
    for (int32_t i = 0; i < additive->n_pairs; i++)
        CLEAVE_TRY(check_pair(additive, &additive->pairs[i], error));
    for (int32_t i = 0; i < n_limits; i++)
        CLEAVE_TRY(check_limit(additive, &limits[i], error));
    return CLEAVE_OK;
}

/* ---- costs that add up ----------------------------------------------------------------------- */

typedef struct range {
    int64_t least, most;
} range;

static range range_of(const int64_t *cost, int64_t n) {
    range r = {cost[0], cost[0]};
    for (int64_t i = 1; i < n; i++) {
        r.least = cost[i] < r.least ? cost[i] : r.least;
        r.most = cost[i] > r.most ? cost[i] : r.most;
    }
    return r;
}

/* The most above the least, and no more than `room`. */
static int64_t cut_of(const range *r, int64_t room) {
    int64_t above = r->most - r->least;
    return above < room ? above : room;
}

static bool adds_up(const range *ranges, int64_t n, int64_t room) {
    unsigned __int128 sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (unsigned __int128)cut_of(&ranges[i], room);
    return sum < (unsigned __int128)most_sum;
}

/* As they are. */
static bool add_up(const range *ranges, int64_t n) {
    unsigned __int128 sum = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t least = llabs(ranges[i].least), most = llabs(ranges[i].most);
        sum += (unsigned __int128)(least > most ? least : most);
    }
    return sum < (unsigned __int128)most_sum;
}

/* What all choices have in common. */
static int64_t sum_of_least(const range *ranges, int64_t n) {
    static const __int128 most = (__int128)1 << 62;
    __int128 sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += ranges[i].least;
    return (int64_t)(sum < -most ? -most : sum < most ? sum : most);
}

static const int64_t *cut_table(const int64_t *cost, int64_t n, const range *r, int64_t room,
                                cleave_arena *arena) {
    int64_t *made = CLEAVE_ARENA_ARRAY(arena, int64_t, n);
    for (int64_t i = 0; i < n && made != NULL; i++)
        made[i] = cost[i] - r->least < room ? cost[i] - r->least : room;
    return made;
}

static int64_t entries_of(const cleave_additive *additive, int32_t pair) {
    const cleave_additive_pair *p = &additive->pairs[pair];
    return (int64_t)additive->n_values[p->a] * additive->n_values[p->b];
}

/* Ranges are those of the variables, and then of the pairs. */
static bool cut(const cleave_additive *additive, const range *ranges, int64_t room,
                cleave_arena *arena, cleave_additive *fitted) {
    int32_t n = additive->n_variables;
    const int64_t **cost = CLEAVE_ARENA_ARRAY(arena, const int64_t *, n);
    cleave_additive_pair *pairs =
        CLEAVE_ARENA_ARRAY(arena, cleave_additive_pair, additive->n_pairs);
    bool made = cost != NULL && pairs != NULL;
    for (int32_t v = 0; v < n && made; v++) {
        cost[v] = cut_table(additive->cost[v], additive->n_values[v], &ranges[v], room, arena);
        made = cost[v] != NULL;
    }
    for (int32_t i = 0; i < additive->n_pairs && made; i++) {
        pairs[i] = additive->pairs[i];
        pairs[i].cost =
            cut_table(pairs[i].cost, entries_of(additive, i), &ranges[n + i], room, arena);
        made = pairs[i].cost != NULL;
    }
    *fitted = *additive;
    fitted->cost = cost;
    fitted->pairs = pairs;
    return made;
}

cleave_status cleave_additive_fit(const cleave_additive *additive, int32_t n_limits,
                                  const cleave_additive_limit *limits, cleave_arena *arena,
                                  cleave_additive_fitted *fitted, cleave_error *error) {
    CLEAVE_TRY(check(additive, n_limits, limits, error));
    int64_t n = additive->n_variables, n_ranges = n + additive->n_pairs, room = most_sum;
    range *ranges = CLEAVE_ARENA_ARRAY(arena, range, n_ranges);
    if (ranges == NULL)
        return cleave_fail_memory(error, "making costs add up");
    for (int32_t v = 0; v < n; v++)
        ranges[v] = range_of(additive->cost[v], additive->n_values[v]);
    for (int32_t i = 0; i < additive->n_pairs; i++)
        ranges[n + i] = range_of(additive->pairs[i].cost, entries_of(additive, i));
    *fitted = (cleave_additive_fitted){.additive = *additive};
    if (add_up(ranges, n_ranges))
        return CLEAVE_OK;
    while (!adds_up(ranges, n_ranges, room))
        room /= 2;
    fitted->common = sum_of_least(ranges, n_ranges);
    return cut(additive, ranges, room, arena, &fitted->additive)
               ? CLEAVE_OK
               : cleave_fail_memory(error, "making costs add up");
}

/* ---- choices --------------------------------------------------------------------------------- */

void cleave_additive_list_pairs(const cleave_additive *additive, int32_t *start, int32_t *pair_of) {
    /* start[v + 1] is first how many come before v, then where the next pair of v goes. */
    for (int32_t i = 0; i < additive->n_pairs; i++) {
        start[additive->pairs[i].a + 2]++;
        start[additive->pairs[i].b + 2]++;
    }
    for (int32_t v = 0; v < additive->n_variables; v++)
        start[v + 2] += start[v + 1];
    for (int32_t i = 0; i < additive->n_pairs; i++) {
        pair_of[start[additive->pairs[i].a + 1]++] = i;
        pair_of[start[additive->pairs[i].b + 1]++] = i;
    }
}

int64_t cleave_additive_total(const cleave_additive *additive, const int32_t *value) {
    int64_t total = 0;
    for (int32_t v = 0; v < additive->n_variables; v++)
        total += additive->cost[v][value[v]];
    for (int32_t i = 0; i < additive->n_pairs; i++) {
        const cleave_additive_pair *pair = &additive->pairs[i];
        total += pair->cost[(int64_t)value[pair->a] * additive->n_values[pair->b] + value[pair->b]];
    }
    return total;
}

bool cleave_additive_is_within(const cleave_additive *additive, int32_t n_limits,
                               const cleave_additive_limit *limits, const int32_t *value) {
    for (int32_t i = 0; i < n_limits; i++) {
        int64_t sum = 0;
        for (int32_t v = 0; v < additive->n_variables; v++)
            sum += limits[i].weight[v][value[v]];
        if (sum > limits[i].most)
            return false;
    }
    return true;
}
