/* The changes that a search of windows goes through. */
#include "search/improve/window_internal.h"

enum { MOST_GROUPS_OF_RUN = 8 };

/* Elements of the parameters that an operator reads. */
static int64_t parameters_of(const cleave_model *model, const cleave_operator *op) {
    int64_t elements = 0;
    for (int32_t i = 0; i < op->n_nests; i++) {
        const cleave_nest *nest = &model->nests[op->nests[i]];
        for (int j = 0; j < nest->n_inputs; j++) {
            int32_t tensor = nest->inputs[j].tensor;
            while (model->tensors[tensor].view.n_sources > 0)
                tensor = model->tensors[tensor].view.sources[0];
            const cleave_tensor *of = &model->tensors[tensor];
            elements += of->kind == CLEAVE_TENSOR_PARAMETER ? cleave_tensor_size(of) : 0;
        }
    }
    return elements;
}

/* What is data parallel loses most where weights are large: those operators are changed first, and
   where not all can be tried, the others are not.  Ties stay in the order of the model. */
int32_t *window_order(const cleave_model *model, const cleave_window_space *space,
                      cleave_arena *arena) {
    int64_t *elements = CLEAVE_ARENA_ARRAY(arena, int64_t, space->n_groups);
    int32_t *order = CLEAVE_ARENA_ARRAY(arena, int32_t, space->n_groups);
    for (int32_t g = 0; g < space->n_groups && elements != NULL && order != NULL; g++) {
        int32_t place = g;
        elements[g] = parameters_of(model, &model->operators[space->first_op[g]]);
        for (; place > 0 && elements[order[place - 1]] < elements[g]; place--)
            order[place] = order[place - 1];
        order[place] = g;
    }
    return elements != NULL ? order : NULL;
}

/* Was a split tried with smaller windows? */
static bool is_old(const cleave_operator *op, const cleave_candidate *candidate,
                   int32_t windows_before) {
    int outer = cleave_outer_axis(op);
    int32_t degree = outer < 0 ? candidate->replicas : candidate->degree[outer];
    return windows_before > 0 && degree % windows_before == 0;
}

cleave_status window_moves_of_groups(const cleave_model *model, const cleave_window_space *space,
                                     const int32_t *order, int32_t windows_before,
                                     cleave_arena *arena, cleave_sweep *moves,
                                     cleave_error *error) {
    cleave_sweep made = {.moves = CLEAVE_ARENA_ARRAY(arena, cleave_move, 2 * space->n_groups)};
    if (made.moves == NULL)
        return cleave_fail_memory(error, "searching");
    for (int32_t i = 0; i < space->n_groups; i++) {
        const cleave_candidate_list *list = cleave_window_list(space, order[i]);
        cleave_move move = {.op = space->first_op[order[i]], .tensor = -1, .with = -1};
        int32_t *candidates = CLEAVE_ARENA_ARRAY(arena, int32_t, list->n);
        if (candidates == NULL)
            return cleave_fail_memory(error, "searching");
        for (int32_t k = 0; k < list->n; k++)
            if (!is_old(&model->operators[move.op], &list->items[k], windows_before))
                candidates[move.n++] = k;
        move.candidates = candidates;
        made.moves[made.n++] = move;
        move.scope = CLEAVE_MOVE_GROUP;
        made.moves[made.n++] = move;
    }
    *moves = made;
    return CLEAVE_OK;
}

/* Is the run, of groups from `first` on, in none of the starts before? */
static bool is_new_run(const cleave_window_space *space, const cleave_choices *starts,
                       int32_t start, int32_t first, int32_t n) {
    for (int32_t before = 0; before < start; before++) {
        bool same = true;
        for (int32_t g = first; g < first + n; g++)
            same = same && cleave_same_choice(starts[before].of[space->first_op[g]],
                                              starts[start].of[space->first_op[g]]);
        if (same)
            return false;
    }
    return true;
}

/* Such as two products of which the second undoes what the first one cuts. */
cleave_status window_moves_of_starts(const cleave_window_space *space, const cleave_choices *starts,
                                     int32_t n, cleave_arena *arena, cleave_sweep *moves,
                                     cleave_error *error) {
    size_t most = (size_t)(MOST_GROUPS_OF_RUN - 1) * (size_t)space->n_groups * (size_t)n;
    cleave_sweep made = {.moves = CLEAVE_ARENA_ARRAY(arena, cleave_move, most)};
    if (made.moves == NULL)
        return cleave_fail_memory(error, "searching");
    for (int32_t groups = 2; groups <= MOST_GROUPS_OF_RUN; groups++)
        for (int32_t first = 0; first + groups <= space->n_groups; first++)
            for (int32_t i = 0; i < n; i++)
                if (is_new_run(space, starts, i, first, groups))
                    made.moves[made.n++] = (cleave_move){.op = space->first_op[first],
                                                         .tensor = -1,
                                                         .with = -1,
                                                         .like = &starts[i],
                                                         .n = groups};
    *moves = made;
    return CLEAVE_OK;
}
