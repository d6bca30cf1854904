/* How many layouts of a model there are on a machine: splits per operator, and their product. */
#include "cli/show/show.h"

#include "search/problem/candidates.h"

#include <math.h>

static cleave_status count(const cleave_model *model, const cleave_machine *machine,
                           cleave_arena *arena, show_space *space, cleave_error *error) {
    cleave_candidates candidates;
    CLEAVE_TRY(cleave_candidates_create(model, machine, NULL, NULL, 0, arena, &candidates, error));
    for (int32_t op = 0; op < model->n_operators; op++) {
        const cleave_candidate_list *list = &candidates.lists[candidates.list_of[op]];
        space->splits[op] = list->n_splits;
        space->searched[op] = (double)cleave_candidates_count(list);
        space->log10_layouts += log10(space->splits[op]);
        space->log10_searched += log10(space->searched[op]);
    }
    space->truncated = candidates.truncated;
    return CLEAVE_OK;
}

cleave_status show_space_count(const cleave_model *model, const char *machine_path,
                               int32_t n_devices, cleave_arena *arena, show_space *space,
                               cleave_error *error) {
    cleave_machine machine;
    CLEAVE_TRY(cleave_machine_read(machine_path, n_devices, arena, &machine, error));
    show_space result = {.machine = machine.name,
                         .n_devices = machine.n_devices,
                         .splits = CLEAVE_ARENA_ARRAY(arena, double, model->n_operators),
                         .searched = CLEAVE_ARENA_ARRAY(arena, double, model->n_operators)};
    if (result.splits == NULL || result.searched == NULL)
        return cleave_fail_memory(error, "counting splits");
    CLEAVE_TRY(count(model, &machine, arena, &result, error));
    *space = result;
    return CLEAVE_OK;
}
