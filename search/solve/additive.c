/* What all solvers of the additive model share: its rules, and the total of a choice. */
#include "search/solve/additive.h"

#include <stdlib.h>

static const int64_t most_cost = INT64_C(1) << 50, most_sum = INT64_C(1) << 61;

static cleave_status check_variable(const cleave_additive *additive, int32_t variable, int64_t *sum,
                                    cleave_error *error) {
    int64_t largest = 0;
    if (additive->n_values[variable] < 1)
        return cleave_fail(error, CLEAVE_FAILED, "variable %d of an additive model has %d values",
                           (int)variable, (int)additive->n_values[variable]);
    for (int32_t x = 0; x < additive->n_values[variable]; x++) {
        int64_t cost = additive->cost[variable][x];
        if (cost > most_cost || cost < -most_cost)
            return cleave_fail(error, CLEAVE_FAILED,
                               "variable %d of an additive model costs %lld with value %d, which "
                               "is beyond 2^50",
                               (int)variable, (long long)cost, (int)x);
        largest = llabs(cost) > largest ? llabs(cost) : largest;
    }
    *sum += largest;
    return CLEAVE_OK;
}

static cleave_status check_pair(const cleave_additive *additive, const cleave_additive_pair *pair,
                                int64_t *sum, cleave_error *error) {
    if (pair->a < 0 || pair->a >= pair->b || pair->b >= additive->n_variables)
        return cleave_fail(error, CLEAVE_FAILED,
                           "a pair of the variables %d and %d of %d in an additive model",
                           (int)pair->a, (int)pair->b, (int)additive->n_variables);
    int64_t largest = 0;
    int32_t n_b = additive->n_values[pair->b];
    for (int64_t i = 0; i < (int64_t)additive->n_values[pair->a] * n_b; i++) {
        int64_t cost = pair->cost[i];
        if (cost > most_cost || cost < -most_cost)
            return cleave_fail(error, CLEAVE_FAILED,
                               "variables %d and %d of an additive model cost %lld with values %d "
                               "and %d, which is beyond 2^50",
                               (int)pair->a, (int)pair->b, (long long)cost, (int)(i / n_b),
                               (int)(i % n_b));
        largest = llabs(cost) > largest ? llabs(cost) : largest;
    }
    *sum += largest;
    return CLEAVE_OK;
}

static cleave_status check_sum(int64_t sum, cleave_error *error) {
    return sum < most_sum ? CLEAVE_OK
                          : cleave_fail(error, CLEAVE_FAILED,
                                        "the costs of an additive model add up beyond 2^61");
}

static cleave_status check_limit(const cleave_additive *additive,
                                 const cleave_additive_limit *limit, cleave_error *error) {
    int64_t sum = 0;
    for (int32_t v = 0; v < additive->n_variables; v++) {
        int64_t largest = 0;
        for (int32_t x = 0; x < additive->n_values[v]; x++) {
            int64_t weight = limit->weight[v][x];
            if (weight < 0 || weight > most_cost)
                return cleave_fail(error, CLEAVE_FAILED,
                                   "variable %d of an additive model weighs %lld with value %d, "
                                   "which is not within 0..2^50",
                                   (int)v, (long long)weight, (int)x);
            largest = weight > largest ? weight : largest;
        }
        sum += largest;
        if (sum >= most_sum)
            return cleave_fail(error, CLEAVE_FAILED,
                               "the weights of an additive model add up beyond 2^61");
    }
    return CLEAVE_OK;
}

cleave_status cleave_additive_check(const cleave_additive *additive, int32_t n_limits,
                                    const cleave_additive_limit *limits, cleave_error *error) {
    int64_t sum = 0; /* each term is 2^50 at most, so it can't overflow before it is looked at */
    for (int32_t v = 0; v < additive->n_variables; v++) {
        CLEAVE_TRY(check_variable(additive, v, &sum, error));
        CLEAVE_TRY(check_sum(sum, error));
    }
    for (int32_t i = 0; i < additive->n_pairs; i++) {
        CLEAVE_TRY(check_pair(additive, &additive->pairs[i], &sum, error));
        CLEAVE_TRY(check_sum(sum, error));
    }
    for (int32_t i = 0; i < n_limits; i++)
        CLEAVE_TRY(check_limit(additive, &limits[i], error));
    return CLEAVE_OK;
}

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
