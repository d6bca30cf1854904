/* Finding a fold: windows from the splits, then what each nest and each tensor shares out. */
#include "graph/model/fold.h"

#include "base/checked.h"
#include "graph/model/micro_batch.h"

#include <string.h>

typedef struct finder {
    const cleave_model *model;
    const cleave_layout *layout;
    cleave_fold *fold;
    int32_t run; /* devices of a group that are neighbours: all, or those of a window */
    cleave_error *error;
} finder;

/* ---- windows --------------------------------------------------------------------------------- */

/* What lies outermost in a split: its replicas (-1), else the first axis that is cut. */
static int outermost(const cleave_split *split, int n_axes) {
    if (split->replicas > 1)
        return -1;
    for (int a = 0; a < n_axes; a++)
        if (split->degree[a] > 1)
            return a;
    return -1;
}

static int32_t degree_of(const cleave_split *split, int axis) {
    return axis < 0 ? split->replicas : split->degree[axis];
}

/* Which device part p of a group is on, whose first one is `first`. */
static int32_t device_in_order(const finder *f, int32_t first, int32_t p) {
    int32_t run = f->run, n_groups = f->fold->n_groups;
    return first + p / run * run * n_groups + p % run;
}

/* Is it the first device of a group of so many? */
static bool begins_group(const finder *f, int32_t first, int32_t n) {
    return first % f->run == 0 &&
           (f->run < n ? first < f->run * f->fold->n_groups : first % n == 0);
}

/* `known`: a row of as many devices in order, or null; this one is, if it is in order. */
static cleave_status check_order(const finder *f, const cleave_split *split, const char *name,
                                 const int32_t **known) {
    size_t size = (size_t)split->n_parts * sizeof *split->devices;
    int32_t first = split->devices[0];
    if (*known != NULL && memcmp(*known, split->devices, size) == 0)
        return CLEAVE_OK;
    for (int32_t p = 0; p < split->n_parts; p++)
        if (split->devices[p] != device_in_order(f, first, p) ||
            !begins_group(f, first, split->n_parts))
            return cleave_fail(f->error, CLEAVE_NO_LAYOUT,
                               "the devices of %s are not in order: part %d is on %d", name, p,
                               split->devices[p]);
    *known = split->devices;
    return CLEAVE_OK;
}

/* Devices of each of the equal groups that stages have. */
static cleave_status find_groups(finder *f, int32_t *of_group) {
    const cleave_layout *layout = f->layout;
    int32_t n = layout->schedule.n_stages > 1 ? layout->splits[0].n_parts : layout->n_devices;
    if (layout->n_devices % n != 0)
        return cleave_fail(f->error, CLEAVE_NO_LAYOUT,
                           "%d devices are not several groups of %d, as the first stage has",
                           layout->n_devices, n);
    f->fold->n_groups = layout->n_devices / n;
    f->run = 1;
    while (f->run < layout->splits[0].n_parts &&
           layout->splits[0].devices[f->run] == layout->splits[0].devices[0] + f->run)
        f->run++;
    if (f->run < n && (n % f->run != 0 || f->fold->n_groups == 1))
        f->run = n;
    *of_group = n;
    return CLEAVE_OK;
}

/* Parts are row-major and devices in order, so a window has the parts of a run of outermost blocks.
 */
static cleave_status find_windows(finder *f, int32_t node_devices) {
    const cleave_layout *layout = f->layout;
    const int32_t *in_order = NULL;
    int32_t n_devices = 0;
    CLEAVE_TRY(find_groups(f, &n_devices));
    int32_t windows = n_devices % node_devices == 0 ? n_devices / node_devices : 1;
    if (windows < 2)
        return cleave_fail(f->error, CLEAVE_NO_LAYOUT, "%d devices are not several whole nodes",
                           n_devices);
    for (int32_t op = 0; op < layout->n_operators; op++) {
        const cleave_split *split = &layout->splits[op];
        const char *name = f->model->operators[op].name;
        if (split->n_parts != n_devices)
            return cleave_fail(f->error, CLEAVE_NO_LAYOUT, "%s is on %d of %d devices", name,
                               split->n_parts, n_devices);
        CLEAVE_TRY(check_order(f, split, name, &in_order));
        int outer = outermost(split, f->model->operators[op].n_axes);
        windows = (int32_t)cleave_common_divisor(degree_of(split, outer), windows);
        if (windows < 2)
            return cleave_fail(
                f->error, CLEAVE_NO_LAYOUT,
                "what lies outermost in the split of %s (%d-fold) does not give each "
                "node the same",
                name, degree_of(split, outer));
    }
    f->fold->n_windows = windows;
    f->fold->n_devices = n_devices / windows;
    f->fold->windows_outermost = f->run < n_devices;
    if (f->fold->windows_outermost && f->run != f->fold->n_devices)
        return cleave_fail(f->error, CLEAVE_NO_LAYOUT,
                           "%d devices that do the same are not the %d of a group that are "
                           "neighbours",
                           f->fold->n_devices, f->run);
    int32_t node_of_rules = layout->collectives.node_devices;
    if (node_of_rules > 0 && f->fold->n_devices % node_of_rules != 0)
        return cleave_fail(
            f->error, CLEAVE_NO_LAYOUT,
            "the rules for collectives take %d devices for a node, and %d do the same",
            node_of_rules, f->fold->n_devices);
    return CLEAVE_OK;
}

/* Splits with all their degrees, but with the parts of window 0 alone. */
static cleave_status cut_window(finder *f, cleave_arena *arena) {
    cleave_layout *window = &f->fold->window;
    int32_t n = f->fold->n_devices, of_group = f->run;
    *window = *f->layout;
    window->n_devices = n * f->fold->n_groups;
    window->splits = CLEAVE_ARENA_ARRAY(arena, cleave_split, f->layout->n_operators);
    int32_t *devices = CLEAVE_ARENA_ARRAY(arena, int32_t, window->n_devices);
    if (window->splits == NULL || devices == NULL)
        return cleave_fail_memory(f->error, "folding a layout");
    for (int32_t d = 0; d < window->n_devices; d++)
        devices[d] = d;
    for (int32_t op = 0; op < f->layout->n_operators; op++) {
        cleave_split *split = &window->splits[op];
        *split = f->layout->splits[op];
        split->devices = devices + split->devices[0] / of_group * n;
        split->n_parts = n;
    }
    return CLEAVE_OK;
}

/* ---- nests ----------------------------------------------------------------------------------- */

/* The axis of a nest that its operator's outermost axis is. */
static cleave_status axis_of_operator(const finder *f, int32_t n) {
    const cleave_nest *nest = &f->model->nests[n];
    const cleave_split *split = &f->layout->splits[nest->op];
    int outer = outermost(split, f->model->operators[nest->op].n_axes);
    int *axis = &f->fold->sharing.nest_axis[n];
    for (int a = 0; a < nest->n_axes && outer >= 0; a++) {
        if (nest->operator_axis[a] != outer)
            continue;
        if (*axis >= 0 || nest->axes[a].extent % split->degree[outer] != 0)
            return cleave_fail(f->error, CLEAVE_NO_LAYOUT,
                               "%s: %d blocks of axis %s (extent %lld) are not equal", nest->name,
                               split->degree[outer], nest->axes[a].name,
                               (long long)nest->axes[a].extent);
        *axis = a;
    }
    return CLEAVE_OK;
}

/* Within a micro-batch: what it has of a tensor is shared out. */
static cleave_status take_micro_batch(finder *f, cleave_arena *arena, cleave_model *small) {
    cleave_micro_batches micro;
    if (f->layout->schedule.micro_batches <= 1)
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_micro_batches_find(f->model, f->layout->schedule.micro_batches, arena, &micro,
                                         f->error));
    CLEAVE_TRY(cleave_micro_batches_model(f->model, &micro, arena, small, f->error));
    f->model = small;
    return CLEAVE_OK;
}

static cleave_status mark_everything(finder *f, cleave_arena *arena) {
    const cleave_model *model = f->model;
    cleave_sharing *sharing = &f->fold->sharing;
    *sharing = (cleave_sharing){.n_windows = f->fold->n_windows, .window = "window"};
    CLEAVE_TRY(cleave_sharing_create(model, arena, sharing, f->error));
    for (int32_t n = 0; n < model->n_nests; n++) {
        if (model->nests[n].n_turns > 0)
            return cleave_fail(f->error, CLEAVE_NO_LAYOUT, "the keys of %s go round",
                               model->nests[n].name);
        if (model->nests[n].derivation == CLEAVE_DERIVE_OPERATOR)
            CLEAVE_TRY(axis_of_operator(f, n));
        CLEAVE_TRY(cleave_share_out_nest(model, n, sharing, f->error));
    }
    return cleave_share_out_assignments(model, sharing, f->error);
}

cleave_status cleave_fold_find(const cleave_model *model, const cleave_layout *layout,
                               int32_t node_devices, cleave_arena *arena, cleave_fold *fold,
                               cleave_error *error) {
    cleave_fold found = {0};
    finder f = {.model = model, .layout = layout, .fold = &found, .error = error};
    cleave_model small;
    CLEAVE_TRY(find_windows(&f, node_devices));
    CLEAVE_TRY(cut_window(&f, arena));
    CLEAVE_TRY(take_micro_batch(&f, arena, &small));
    CLEAVE_TRY(mark_everything(&f, arena));
    *fold = found;
    return CLEAVE_OK;
}
