#include "search/problem/space.h"

#include "costmodel/machine_fold.h"

enum { MOST_WINDOW = 64 };

int32_t cleave_window_next(const cleave_machine *machine, int32_t window_devices) {
    int32_t next = window_devices == 0 ? machine->devices_per_node : 2 * window_devices;
    bool too_large = next > MOST_WINDOW && window_devices > 0;
    if (too_large || next > machine->n_devices / 2 || machine->n_devices % next != 0 ||
        cleave_machine_fold_check(machine, next, NULL) != CLEAVE_OK)
        return 0;
    return next;
}

int32_t cleave_window_largest(const cleave_machine *machine) {
    int32_t largest = 0, next;
    while ((next = cleave_window_next(machine, largest)) > 0)
        largest = next;
    return largest;
}

/* The operators before the blocks are groups of their own, then come the places in a block. */
static int32_t group_operators(const cleave_blocks *blocks, int32_t n_operators,
                               cleave_window_space *space) {
    int32_t end = blocks->first + blocks->n * blocks->period, n = 0;
    for (int32_t op = 0; op < n_operators; op++) {
        bool repeats = op >= blocks->first + blocks->period && op < end;
        space->group_of[op] = repeats ? space->group_of[op - blocks->period] : n;
        if (!repeats)
            space->first_op[n++] = op;
    }
    return n;
}

cleave_status cleave_window_space_create(const cleave_problem *problem, const cleave_blocks *blocks,
                                         int32_t window_devices, cleave_arena *arena,
                                         cleave_window_space *space, cleave_error *error) {
    int32_t n_operators = problem->model->n_operators;
    cleave_window_space made = {.n_devices = problem->machine->n_devices,
                                .window_devices = window_devices,
                                .group_of = CLEAVE_ARENA_ARRAY(arena, int32_t, n_operators),
                                .first_op = CLEAVE_ARENA_ARRAY(arena, int32_t, n_operators)};
    if (made.group_of == NULL || made.first_op == NULL)
        return cleave_fail_memory(error, "listing splits of a window");
    made.n_groups = group_operators(blocks, n_operators, &made);
    CLEAVE_TRY(
        cleave_candidates_list_windows(problem, window_devices, arena, &made.candidates, error));
    *space = made;
    return CLEAVE_OK;
}
