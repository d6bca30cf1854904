#include "search/problem/choices.h"

#include <string.h>

cleave_status cleave_choices_create(const cleave_model *model, cleave_arena *arena,
                                    cleave_choices *choices, cleave_error *error) {
    choices->of = CLEAVE_ARENA_ARRAY(arena, cleave_choice, model->n_operators);
    choices->sharded = CLEAVE_ARENA_ARRAY(arena, uint8_t, model->n_tensors);
    return choices->of != NULL && choices->sharded != NULL ? CLEAVE_OK
                                                           : cleave_fail_memory(error, "searching");
}

void cleave_choices_copy(const cleave_model *model, const cleave_choices *from,
                         cleave_choices *to) {
    memcpy(to->of, from->of, (size_t)model->n_operators * sizeof *to->of);
    memcpy(to->sharded, from->sharded, (size_t)model->n_tensors * sizeof *to->sharded);
}

bool cleave_choices_equal(const cleave_model *model, const cleave_choices *a,
                          const cleave_choices *b) {
    for (int32_t op = 0; op < model->n_operators; op++)
        if (!cleave_same_choice(a->of[op], b->of[op]))
            return false;
    return memcmp(a->sharded, b->sharded, (size_t)model->n_tensors * sizeof *a->sharded) == 0;
}

static cleave_choice nearest(const cleave_candidate_list *list, const cleave_split *split,
                             bool *exact) {
    cleave_choice found = {0, 0};
    int64_t least = INT64_MAX;
    for (int32_t i = 0; i < list->n; i++) {
        const cleave_candidate *c = &list->items[i];
        int32_t start = cleave_candidate_find_start(c, split);
        if (start >= 0)
            return (cleave_choice){i, start};
        int64_t apart =
            c->n_parts > split->n_parts ? c->n_parts - split->n_parts : split->n_parts - c->n_parts;
        if (apart < least) { /* of one size the first has the least node cost */
            least = apart;
            start = split->devices[0] / c->n_parts;
            found = (cleave_choice){i, start < c->n_starts ? start : 0};
        }
    }
    *exact = false;
    return found;
}

bool cleave_choices_of(const cleave_model *model, const cleave_candidates *candidates,
                       const cleave_layout *layout, cleave_choices *choices) {
    bool exact = true;
    for (int32_t op = 0; op < model->n_operators; op++)
        choices->of[op] = nearest(cleave_list_of(candidates, op), &layout->splits[op], &exact);
    memcpy(choices->sharded, layout->sharded, (size_t)model->n_tensors * sizeof *layout->sharded);
    return exact;
}

cleave_status cleave_choices_layout(const cleave_model *model, const cleave_candidates *candidates,
                                    const cleave_choices *choices, const cleave_layout *like,
                                    cleave_arena *arena, cleave_layout *layout,
                                    cleave_error *error) {
    size_t n_ops = (size_t)model->n_operators, n_devices = (size_t)like->n_devices;
    cleave_layout result = *like;
    int32_t *devices = cleave_arena_alloc(arena, n_ops, n_devices * sizeof *devices);
    result.n_operators = model->n_operators;
    result.splits = CLEAVE_ARENA_ARRAY(arena, cleave_split, n_ops);
    result.sharded = CLEAVE_ARENA_ARRAY(arena, uint8_t, model->n_tensors);
    if (devices == NULL || result.splits == NULL || result.sharded == NULL)
        return cleave_fail_memory(error, "searching");
    memcpy(result.sharded, choices->sharded, (size_t)model->n_tensors * sizeof *result.sharded);
    for (size_t op = 0; op < n_ops; op++) {
        const cleave_candidate_list *list = cleave_list_of(candidates, (int32_t)op);
        result.splits[op].devices = devices + op * n_devices;
        cleave_candidate_place(&list->items[choices->of[op].candidate], choices->of[op].start,
                               &result.splits[op]);
    }
    *layout = result;
    return CLEAVE_OK;
}
