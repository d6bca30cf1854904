#include "tests/bench/estimate/folds.h"

#include "tests/support/window_split.h"

static cleave_split split_of(const fold_walk *w, int32_t op) {
    return window_split(&w->space, op, w->choice); /* every operator is a group */
}

static cleave_status find_fold(fold_walk *w, cleave_arena *arena, cleave_fold *fold,
                               cleave_error *error) {
    cleave_arena_reset(arena);
    CLEAVE_TRY(cleave_fold_find(w->model, &w->layout, w->space.window_devices, arena, fold, error));
    if (fold->n_devices != w->space.window_devices)
        return cleave_fail(error, CLEAVE_NO_LAYOUT, "windows of %d devices", fold->n_devices);
    return CLEAVE_OK;
}

static cleave_status find_space(fold_walk *w, const cleave_machine *machine, cleave_error *error) {
    const cleave_blocks none = {0};
    cleave_problem problem;
    CLEAVE_TRY(cleave_problem_create(w->model, machine, NULL, &w->arena, &problem, error));
    return cleave_window_space_create(&problem, &none, machine->devices_per_node, &w->arena,
                                      &w->space, error);
}

cleave_status fold_walk_begin(fold_walk *w, const cleave_machine *machine, cleave_error *error) {
    CLEAVE_TRY(find_space(w, machine, error));
    CLEAVE_TRY(cleave_layout_create(w->model, machine->n_devices, &w->arena, &w->layout, error));
    w->choice = CLEAVE_ARENA_ARRAY(&w->arena, int32_t, w->model->n_operators);
    if (w->choice == NULL)
        return cleave_fail_memory(error, "preparing a bench");
    for (int32_t op = 0; op < w->model->n_operators; op++)
        w->layout.splits[op] = split_of(w, op);
    CLEAVE_TRY(find_fold(w, &w->arenas[0], &w->here, error));
    w->fold = w->here;
    return cleave_estimate_create_window(w->model, &w->fold, w->options, w->cache, &w->estimate,
                                         error);
}

void fold_walk_end(fold_walk *w) {
    cleave_estimate_destroy(w->estimate);
    cleave_arena_free(&w->arenas[0]);
    cleave_arena_free(&w->arenas[1]);
    cleave_arena_free(&w->arena);
}

static cleave_status choose(fold_walk *w, int32_t choice, cleave_error *error) {
    w->choice[w->op] = choice;
    w->layout.splits[w->op] = split_of(w, w->op);
    cleave_split of_window = w->layout.splits[w->op];
    of_window.n_parts = w->space.window_devices;
    return cleave_estimate_change(w->estimate, w->op, &of_window, error);
}

/* From what does not fold. */
static cleave_status go_back(fold_walk *w, cleave_error *error) {
    int64_t step;
    CLEAVE_TRY(choose(w, w->tried, error));
    w->fold = w->here;
    CLEAVE_TRY(cleave_estimate_run(w->estimate, &step, error));
    return cleave_estimate_accept(w->estimate, error);
}

cleave_status fold_walk_change(fold_walk *w, cleave_random *random, bool *folds,
                               cleave_error *error) {
    w->op = (int32_t)cleave_random_below(random, w->model->n_operators);
    int32_t n = cleave_window_list(&w->space, w->op)->n;
    w->tried = w->choice[w->op];
    CLEAVE_TRY(choose(w, (int32_t)cleave_random_below(random, n), error));
    cleave_status status = find_fold(w, &w->arenas[1], &w->fold, error);
    *folds = status == CLEAVE_OK;
    return status == CLEAVE_NO_LAYOUT ? go_back(w, error) : status;
}

cleave_status fold_walk_prepare(fold_walk *w, bool *folds, cleave_error *error) {
    cleave_status status = cleave_estimate_prepare(w->estimate, error);
    *folds = status == CLEAVE_OK;
    return status == CLEAVE_NO_LAYOUT ? go_back(w, error) : status;
}

cleave_status fold_walk_decide(fold_walk *w, bool accepts, cleave_error *error) {
    if (accepts) {
        cleave_arena kept = w->arenas[0];
        w->arenas[0] = w->arenas[1];
        w->arenas[1] = kept;
        w->here = w->fold;
        return cleave_estimate_accept(w->estimate, error);
    }
    w->choice[w->op] = w->tried;
    w->layout.splits[w->op] = split_of(w, w->op);
    w->fold = w->here;
    return cleave_estimate_reject(w->estimate, error);
}

cleave_status fold_walk_from_scratch(fold_walk *w, int64_t *step, cleave_error *error) {
    cleave_estimate *fresh;
    CLEAVE_TRY(
        cleave_estimate_create_window(w->model, &w->fold, w->options, w->cache, &fresh, error));
    cleave_status status = cleave_estimate_full(fresh, step, error);
    cleave_estimate_destroy(fresh);
    return status;
}
