/* The split of an operator in a choice, [n_groups], of layouts that fold to a window. */
#ifndef CLEAVE_TESTS_WINDOW_SPLIT_H
#define CLEAVE_TESTS_WINDOW_SPLIT_H

#include "search/problem/space.h"

static inline cleave_split window_split(const cleave_window_space *space, int32_t op,
                                        const int32_t *choice) {
    int32_t group = space->group_of[op];
    return cleave_candidate_split(&cleave_window_list(space, group)->items[choice[group]]);
}

#endif
