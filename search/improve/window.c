/* Windows of a node, of two, of four ...: the splits of smaller windows are among those of larger
   ones, so each size starts from what the one before has come to, and tries what is new in it; when
   that is nothing, larger ones are not looked at.  Baselines of a window are starts, too, since a
   pair of operators may only be better when both change (the columns and rows of Megatron). */
#include "search/improve/window.h"

#include "base/progress.h"
#include "search/improve/window_internal.h"
#include "search/problem/baselines.h"

#include <stdio.h>
#include <string.h>

enum { N_STARTS = 3 };
static const char *const starts[N_STARTS] = {"data-parallel", "one-weird-trick", "megatron"};

/* ---- starts ---------------------------------------------------------------------------------- */

/* What of the window a candidate gives to an axis. */
static int32_t share_of(const cleave_window_space *space, int outer,
                        const cleave_candidate *candidate, int axis) {
    int32_t windows = space->n_devices / space->window_devices;
    return axis == outer ? candidate->degree[axis] / windows : candidate->degree[axis];
}

/* The split nearest to one of a single window: the axis that it cuts most is cut as much. */
static int32_t nearest(const window_search *s, int32_t group, const cleave_split *wanted) {
    const cleave_candidate_list *list = cleave_window_list(&s->space, group);
    const cleave_operator *op = &s->pricer->model->operators[s->space.first_op[group]];
    int outer = cleave_outer_axis(op), most = -1;
    int32_t best = 0;
    for (int a = 0; a < op->n_axes; a++)
        if (wanted->degree[a] > (most < 0 ? 1 : wanted->degree[most]))
            most = a;
    for (int32_t i = 1; i < list->n && most >= 0; i++) {
        int32_t share = share_of(&s->space, outer, &list->items[i], most);
        int32_t before = share_of(&s->space, outer, &list->items[best], most);
        if (share > before && share <= wanted->degree[most])
            best = i;
    }
    return best;
}

/* A baseline of the first `n_devices` of a window, the rest of it data parallel. */
static cleave_status start_from(window_search *s, const char *name, int32_t n_devices,
                                int32_t *choice, bool *applies, cleave_error *error) {
    cleave_arena scratch = {0};
    cleave_machine window = *s->pricer->machine; /* only the number of its devices is looked at */
    cleave_layout layout;
    window.n_devices = n_devices;
    cleave_status status = cleave_baseline_layout(s->pricer->model, &window, name, 0, &scratch,
                                                  &layout, applies, error);
    for (int32_t g = 0; g < s->space.n_groups && status == CLEAVE_OK; g++)
        choice[g] = nearest(s, g, &layout.splits[s->space.first_op[g]]);
    cleave_arena_free(&scratch);
    return status;
}

/* The candidate of the same degrees in another list. */
static int32_t find_alike(const cleave_candidate_list *list, const cleave_candidate *candidate) {
    for (int32_t i = 0; i < list->n; i++)
        if (list->items[i].replicas == candidate->replicas &&
            memcmp(list->items[i].degree, candidate->degree, sizeof candidate->degree) == 0)
            return i;
    return 0;
}

/* ---- whole models ---------------------------------------------------------------------------- */

static cleave_status make_layout(window_search *s, const int32_t *choice, cleave_arena *arena,
                                 cleave_layout *layout, cleave_error *error) {
    const cleave_model *model = s->pricer->model;
    const cleave_machine *machine = s->pricer->machine;
    cleave_layout made;
    CLEAVE_TRY(cleave_layout_create(model, machine->n_devices, arena, &made, error));
    int32_t *devices = CLEAVE_ARENA_ARRAY(arena, int32_t, machine->n_devices);
    if (devices == NULL)
        return cleave_fail_memory(error, "making a layout");
    for (int32_t d = 0; d < machine->n_devices; d++)
        devices[d] = d;
    for (int32_t op = 0; op < model->n_operators; op++) {
        made.splits[op] = cleave_window_split(&s->space, op, choice);
        made.splits[op].devices = devices;
    }
    made.collectives = *s->rules;
    snprintf(made.machine, sizeof made.machine, "%s", machine->name);
    *layout = made;
    return CLEAVE_OK;
}

/* Prices a choice on the whole model; it is kept if it is the best that fits. */
static cleave_status price_whole(window_search *s, const int32_t *choice, cleave_arena *arena,
                                 cleave_error *error) {
    cleave_layout layout;
    cleave_price price;
    double start = cleave_clock_seconds();
    CLEAVE_TRY(make_layout(s, choice, arena, &layout, error));
    const cleave_price_subject what = {.layout = &layout, .view = CLEAVE_VIEW_WINDOW};
    cleave_status status = cleave_pricer_price(s->pricer, &what, NULL, &price, error);
    s->found.pricing_seconds += cleave_clock_seconds() - start;
    if (status == CLEAVE_NO_LAYOUT) { /* not all blocks are as those that were kept */
        snprintf(s->why_not, sizeof s->why_not, "%s", error->message);
        return CLEAVE_OK;
    }
    CLEAVE_TRY(status);
    if (price.excess_bytes > 0 || (s->found.price.step > 0 && price.step >= s->found.price.step))
        return CLEAVE_OK;
    s->found.price = price;
    s->found.layout = layout;
    s->found.n_devices = s->space.window_devices;
    return CLEAVE_OK;
}

/* ---- sizes of windows ------------------------------------------------------------------------ */

/* The first choice of a size that folds is begun with; from there the pricer moves on. */
static cleave_status go_to(window_search *s, const int32_t *choice, cleave_window_price *price,
                           cleave_error *error) {
    if (s->n_starts > 0)
        return cleave_window_pricer_run(s->window_pricer, choice, true, price, error);
    return cleave_window_pricer_begin(s->window_pricer, &s->space, choice, price, error);
}

/* Prices a start; the best one so far is kept in `best`. */
static cleave_status try_start(window_search *s, const int32_t *choice, int32_t *best,
                               cleave_error *error) {
    cleave_window_price price;
    size_t n = (size_t)s->space.n_groups;
    s->proposals++;
    CLEAVE_TRY(go_to(s, choice, &price, error));
    if (price.folds && s->whole_work <= 0)
        s->whole_work = (double)cleave_window_pricer_work(s->window_pricer) * s->space.n_devices /
                        s->space.window_devices;
    if (price.folds && s->n_starts < WINDOW_MOST_STARTS) {
        int32_t *kept = CLEAVE_ARENA_ARRAY(&s->work, int32_t, n);
        if (kept == NULL)
            return cleave_fail_memory(error, "searching");
        memcpy(kept, choice, n * sizeof *kept);
        s->starts[s->n_starts++] = kept;
    }
    if (window_price_is_better(&price, &s->price)) {
        s->price = price;
        memcpy(best, choice, n * sizeof *choice);
    }
    return CLEAVE_OK;
}

/* Baselines of a window, of half of it, a quarter ... */
static cleave_status try_baselines(window_search *s, int32_t *choice, int32_t *best,
                                   cleave_error *error) {
    for (int i = 0; i < N_STARTS; i++)
        for (int32_t n = s->space.window_devices; n > 1 && !window_search_is_over(s);
             n = n % 2 == 0 ? n / 2 : 1) {
            bool applies;
            CLEAVE_TRY(start_from(s, starts[i], n, choice, &applies, error));
            if (applies)
                CLEAVE_TRY(try_start(s, choice, best, error));
            if (i == 0 || !applies)
                break; /* data parallel it is anyway */
        }
    return CLEAVE_OK;
}

/* The best of the starts: what the size before has come to, and baselines. */
static cleave_status choose_start(window_search *s, const cleave_window_space *before,
                                  cleave_error *error) {
    size_t n = (size_t)s->space.n_groups;
    int32_t *choice = CLEAVE_ARENA_ARRAY(&s->work, int32_t, n);
    int32_t *best = CLEAVE_ARENA_ARRAY(&s->work, int32_t, n);
    if (choice == NULL || best == NULL)
        return cleave_fail_memory(error, "searching");
    for (int32_t g = 0; g < s->space.n_groups && before != NULL; g++) {
        const cleave_candidate *candidate = &cleave_window_list(before, g)->items[s->choice[g]];
        choice[g] = find_alike(cleave_window_list(&s->space, g), candidate);
    }
    s->price = (cleave_window_price){0};
    s->n_starts = 0;
    if (before != NULL)
        CLEAVE_TRY(try_start(s, choice, best, error));
    CLEAVE_TRY(try_baselines(s, choice, best, error));
    memcpy(s->choice, best, n * sizeof *best);
    return s->n_starts > 0 ? go_to(s, best, &s->price, error) : CLEAVE_OK;
}

static cleave_status search_size(window_search *s, int32_t window_devices, bool *improved,
                                 cleave_arena *arena, cleave_error *error) {
    cleave_window_space before = s->space;
    cleave_window_price price_before = s->price;
    int32_t n_devices = s->pricer->machine->n_devices;
    CLEAVE_TRY(cleave_window_space_create(s->problem, &s->blocks, window_devices, &s->work,
                                          &s->space, error));
    s->windows_before = before.n_groups > 0 ? n_devices / before.window_devices : 0;
    if (s->choice == NULL) {
        s->choice = CLEAVE_ARENA_ARRAY(&s->work, int32_t, s->space.n_groups);
        s->changed = CLEAVE_ARENA_ARRAY(&s->work, int32_t, s->space.n_groups);
        if (s->choice == NULL || s->changed == NULL)
            return cleave_fail_memory(error, "searching");
        CLEAVE_TRY(window_make_order(s, error));
    }
    CLEAVE_TRY(choose_start(s, before.n_groups > 0 ? &before : NULL, error));
    CLEAVE_TRY(window_descend(s, error));
    *improved = window_price_is_better(&s->price, &price_before);
    return *improved ? price_whole(s, s->choice, arena, error) : CLEAVE_OK;
}

static cleave_status search_sizes(window_search *s, cleave_arena *arena, cleave_error *error) {
    const cleave_machine *machine = s->pricer->machine;
    bool improved = true;
    for (int32_t m = 0; (m = cleave_window_next(machine, m)) > 0 && !window_search_is_over(s);) {
        cleave_status status = search_size(s, m, &improved, arena, error);
        if (status != CLEAVE_OK && status != CLEAVE_NO_LAYOUT)
            return status;
        if (status == CLEAVE_NO_LAYOUT)
            snprintf(s->why_not, sizeof s->why_not, "%s", error->message);
        else if (s->price.folds && !improved)
            break;
    }
    return CLEAVE_OK;
}

static cleave_status run(window_search *s, cleave_arena *arena, cleave_error *error) {
    if (!cleave_machine_may_fold(s->pricer->machine, error))
        return CLEAVE_NO_LAYOUT;
    const cleave_constraints *constraints = s->problem->constraints;
    if (constraints == NULL || constraints->fixed == NULL) /* its neighbours differ from others */
        s->blocks = s->problem->blocks;
    if (s->pricer->repeats == NULL && s->blocks.n > 0) {
        CLEAVE_TRY(cleave_repeats_create(s->pricer, &s->blocks, &s->repeats, error));
        s->pricer->repeats = s->repeats;
    }
    CLEAVE_TRY(
        cleave_window_pricer_create(s->pricer, &s->blocks, s->rules, &s->window_pricer, error));
    CLEAVE_TRY(search_sizes(s, arena, error));
    if (s->found.price.step == 0)
        return cleave_fail(error, CLEAVE_NO_LAYOUT, "no layout that folds %s: %s",
                           s->price.folds ? "fits" : "was found",
                           s->why_not[0] != '\0' ? s->why_not : "memory is short on every device");
    s->found.n_blocks = s->blocks.n;
    s->found.proposals = s->proposals;
    return CLEAVE_OK;
}

cleave_status cleave_window_search(const cleave_problem *problem, cleave_pricer *pricer,
                                   const cleave_collective_rules *rules,
                                   const cleave_window_options *options, cleave_arena *arena,
                                   cleave_window_found *found, cleave_error *error) {
    window_search s = {.problem = problem, .pricer = pricer, .rules = rules, .options = options};
    cleave_status status = run(&s, arena, error);
    cleave_window_pricer_destroy(s.window_pricer);
    if (s.repeats != NULL)
        pricer->repeats = NULL;
    cleave_repeats_destroy(s.repeats);
    cleave_arena_free(&s.work);
    if (status == CLEAVE_OK)
        *found = s.found;
    return status;
}
