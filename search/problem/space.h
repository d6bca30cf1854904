/* The space of layouts that fold to a window (search/improve/window.h): operators that change
   together, and for each the splits over all devices in order that are equal in all windows. */
#ifndef CLEAVE_SEARCH_PROBLEM_SPACE_H
#define CLEAVE_SEARCH_PROBLEM_SPACE_H

#include "search/problem/candidates.h"

typedef struct cleave_window_space {
    int32_t n_devices, window_devices;
    cleave_candidates candidates;
    int32_t n_groups;
    int32_t *group_of; /* [n_operators]: those in one place of the repeated blocks, or one */
    int32_t *first_op; /* [n_groups] */
} cleave_window_space;

/* Devices of the windows that are the next larger ones which a machine lets fold, the smallest
   after 0; 0: there are none. */
int32_t cleave_window_next(const cleave_machine *machine, int32_t window_devices);
/* Of the largest, whose splits have those of all others among them; 0: none fold. */
int32_t cleave_window_largest(const cleave_machine *machine);

/* `blocks` change together; n 0: none.  NO_LAYOUT as cleave_candidates_list_windows. */
cleave_status cleave_window_space_create(const cleave_problem *problem, const cleave_blocks *blocks,
                                         int32_t window_devices, cleave_arena *arena,
                                         cleave_window_space *space, cleave_error *error);

/* Groups with the same list are alike. */
static inline const cleave_candidate_list *cleave_window_list(const cleave_window_space *space,
                                                              int32_t group) {
    return &space->candidates.lists[space->candidates.list_of[space->first_op[group]]];
}

#endif
