/* Constraints are asked about one axis, one split or one layout at a time; whoever makes layouts
   either asks, or lets a layout be changed into one that keeps to them. */
#include "search/problem/constraints.h"

#include "base/file.h"
#include "graph/model/part.h"
#include "graph/model/precision.h"

#include <stdio.h>
#include <string.h>

/* ---- what the user said ---- */

static cleave_status check_devices(const char *path, const cleave_model *model,
                                   const cleave_layout *fixed, const bool *is_fixed,
                                   int32_t n_devices, cleave_error *error) {
    for (int32_t op = 0; op < model->n_operators; op++)
        for (int32_t p = 0; is_fixed[op] && p < fixed->splits[op].n_parts; p++)
            if (fixed->splits[op].devices[p] >= n_devices)
                return cleave_fail(error, CLEAVE_BAD_INPUT,
                                   "--fix %s keeps operator \"%s\" on device %d, but there are "
                                   "%d devices here, 0 to %d (--devices)",
                                   path, model->operators[op].name, fixed->splits[op].devices[p],
                                   n_devices, n_devices - 1);
    return CLEAVE_OK;
}

cleave_status cleave_constraints_fix(cleave_constraints *constraints, const char *path,
                                     const cleave_model *model, int32_t n_devices,
                                     cleave_arena *arena, cleave_error *error) {
    cleave_layout *fixed = CLEAVE_ARENA_ARRAY(arena, cleave_layout, 1);
    const char *from = cleave_arena_string(arena, path);
    cleave_layout_listed listed;
    char *text;
    size_t bytes;
    if (fixed == NULL || from == NULL)
        return cleave_fail_memory(error, "reading constraints");
    CLEAVE_TRY(cleave_file_read(path, arena, &text, &bytes, error));
    CLEAVE_TRY(cleave_layout_parse_some(text, bytes, path, model, arena, fixed, &listed, error));
    CLEAVE_TRY(check_devices(path, model, fixed, listed.operators, n_devices, error));
    constraints->fixed = fixed;
    constraints->fixed_from = from;
    constraints->is_fixed = listed.operators;
    constraints->is_update_fixed = listed.updates;
    constraints->n_fixed = 0;
    for (int32_t op = 0; op < model->n_operators; op++)
        constraints->n_fixed += listed.operators[op];
    return CLEAVE_OK;
}

cleave_status cleave_constraints_restrict(cleave_constraints *constraints, const char *only,
                                          const cleave_model *model, cleave_arena *arena,
                                          cleave_error *error) {
    uint32_t sorts = 0;
    for (const char *word = only;; word++) {
        size_t length = strcspn(word, ",");
        int sort = 0;
        while (sort < CLEAVE_N_SORTS && (strncmp(cleave_axis_sort_names[sort], word, length) != 0 ||
                                         cleave_axis_sort_names[sort][length] != '\0'))
            sort++;
        if (sort == CLEAVE_N_SORTS)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "--only: \"%.*s\" is none of sample, operator, attribute, "
                               "parameter, reduction",
                               length < 64 ? (int)length : 64, word);
        sorts |= UINT32_C(1) << sort;
        word += length;
        if (*word == '\0')
            break;
    }
    const char *copy = cleave_arena_string(arena, only);
    if (copy == NULL)
        return cleave_fail_memory(error, "reading constraints");
    CLEAVE_TRY(cleave_axis_sorts_find(model, arena, &constraints->axis_sorts, error));
    constraints->only = copy;
    constraints->sorts = sorts;
    return CLEAVE_OK;
}

cleave_status cleave_constraints_for(cleave_constraints *constraints, cleave_target target,
                                     const cleave_model *model, int32_t n_devices,
                                     cleave_arena *arena, cleave_error *error) {
    cleave_sayable *sayable;
    CLEAVE_TRY(cleave_sayable_find(model, target, arena, &sayable, error));
    constraints->sayable = sayable;
    constraints->target = target;
    constraints->narrows = cleave_target_narrows[target];
    constraints->n_devices = n_devices;
    return CLEAVE_OK;
}

cleave_status cleave_constraints_in_stage(const cleave_constraints *constraints, int32_t n_devices,
                                          const cleave_model *model, const int32_t *stands_for,
                                          cleave_arena *arena, const cleave_constraints **result,
                                          cleave_error *error) {
    *result = constraints;
    if (!cleave_constraints_have_target(constraints))
        return CLEAVE_OK;
    cleave_constraints *made = CLEAVE_ARENA_ARRAY(arena, cleave_constraints, 1);
    cleave_sayable *sayable = CLEAVE_ARENA_ARRAY(arena, cleave_sayable, model->n_operators);
    if (made == NULL || sayable == NULL)
        return cleave_fail_memory(error, "keeping to constraints");
    for (int32_t op = 0; op < model->n_operators; op++)
        sayable[stands_for != NULL ? stands_for[op] : op] = constraints->sayable[op];
    *made = *constraints;
    made->n_devices = n_devices;
    made->narrows = false;
    made->sayable = sayable;
    *result = made;
    return CLEAVE_OK;
}

void cleave_constraints_describe(const cleave_constraints *constraints, char *text, size_t bytes) {
    char parts[3][256];
    int n = 0;
    if (constraints != NULL && constraints->n_fixed > 0)
        snprintf(parts[n++], sizeof parts[0], "--fix %.200s (%d operator%s)",
                 constraints->fixed_from, constraints->n_fixed,
                 constraints->n_fixed == 1 ? "" : "s");
    if (constraints != NULL && constraints->sorts != 0)
        snprintf(parts[n++], sizeof parts[0], "--only %.100s", constraints->only);
    if (constraints != NULL && constraints->sayable != NULL)
        snprintf(parts[n++], sizeof parts[0], "--for %s", cleave_target_names[constraints->target]);
    text[0] = '\0';
    for (int i = 0; i < n; i++) {
        size_t at = strlen(text);
        snprintf(text + at, bytes - at, "%s%s", i == 0 ? " under " : " and ", parts[i]);
    }
}

/* ---- what is allowed ---- */

const cleave_split *cleave_constraints_fixed_split(const cleave_constraints *constraints,
                                                   int32_t op) {
    bool is_fixed = constraints != NULL && constraints->n_fixed > 0 && constraints->is_fixed[op];
    return is_fixed ? &constraints->fixed->splits[op] : NULL;
}

bool cleave_constraints_allow_axis(const cleave_constraints *constraints, int32_t op, int axis) {
    if (constraints == NULL)
        return true;
    bool sayable = constraints->sayable == NULL || constraints->sayable[op].cut[axis];
    return sayable && (constraints->sorts == 0 ||
                       (constraints->sorts >> constraints->axis_sorts.of[op][axis] & 1) != 0);
}

bool cleave_constraints_have_target(const cleave_constraints *constraints) {
    return constraints != NULL && constraints->sayable != NULL;
}

bool cleave_constraints_take_all_for(const cleave_constraints *constraints, int32_t op) {
    return cleave_constraints_have_target(constraints) &&
           (!constraints->narrows || constraints->sayable[op].everywhere);
}

bool cleave_constraints_allow_stages(const cleave_constraints *constraints) {
    return !cleave_constraints_have_target(constraints) ||
           cleave_target_stages[constraints->target];
}

bool cleave_constraints_allow_stage(const cleave_constraints *constraints, int32_t op) {
    return !cleave_constraints_have_target(constraints) || constraints->sayable[op].begins;
}

bool cleave_constraints_allow_blocks(const cleave_constraints *constraints) {
    bool all = cleave_constraints_have_target(constraints) && !constraints->narrows;
    return constraints == NULL || (!all && constraints->sorts == 0) ||
           (!all && (constraints->sorts >> CLEAVE_SORT_OPERATOR & 1) != 0);
}

bool cleave_constraints_alike(const cleave_constraints *constraints, const cleave_model *model,
                              int32_t a, int32_t b) {
    const cleave_split *x = cleave_constraints_fixed_split(constraints, a);
    const cleave_split *y = cleave_constraints_fixed_split(constraints, b);
    if (cleave_constraints_take_all_for(constraints, a) !=
        cleave_constraints_take_all_for(constraints, b))
        return false;
    for (int axis = 0; axis < model->operators[a].n_axes; axis++)
        if (cleave_constraints_allow_axis(constraints, a, axis) !=
            cleave_constraints_allow_axis(constraints, b, axis))
            return false;
    return x == NULL || y == NULL ? x == y : cleave_split_same(x, y);
}

/* Parts have distinct devices, so none beyond the first n_parts means all of these. */
static bool has_first_devices(const cleave_split *split) {
    for (int32_t p = 0; p < split->n_parts; p++)
        if (split->devices[p] >= split->n_parts)
            return false;
    return true;
}

static bool allows_degree(const cleave_constraints *constraints, const cleave_model *model,
                          int32_t op, int axis, int32_t degree) {
    bool uneven = model->operators[op].axes[axis].extent % degree != 0;
    return degree == 1 || (cleave_constraints_allow_axis(constraints, op, axis) &&
                           !(uneven && cleave_constraints_have_target(constraints)));
}

bool cleave_constraints_allow(const cleave_constraints *constraints, const cleave_model *model,
                              int32_t op, const cleave_split *split) {
    if (constraints == NULL)
        return true;
    const cleave_split *fixed = cleave_constraints_fixed_split(constraints, op);
    if (fixed != NULL)
        return cleave_split_same(split, fixed);
    for (int a = 0; a < model->operators[op].n_axes; a++)
        if (!allows_degree(constraints, model, op, a, split->degree[a]))
            return false;
    if (cleave_constraints_take_all_for(constraints, op) &&
        split->n_parts != constraints->n_devices)
        return false;
    return cleave_constraints_allow_blocks(constraints) || has_first_devices(split);
}

static bool is_update_fixed(const cleave_constraints *constraints, int32_t tensor) {
    return constraints->is_update_fixed != NULL && constraints->is_update_fixed[tensor];
}

bool cleave_constraints_allow_layout(const cleave_constraints *constraints,
                                     const cleave_model *model, const cleave_layout *layout) {
    if (constraints == NULL)
        return true;
    for (int32_t op = 0; op < model->n_operators; op++)
        if (!cleave_constraints_allow(constraints, model, op, &layout->splits[op]))
            return false;
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (is_update_fixed(constraints, t) && layout->sharded[t] != constraints->fixed->sharded[t])
            return false;
    return true;
}

/* ---- making a layout keep to them ---- */

static int32_t count_below(const cleave_split *split, int32_t device) {
    int32_t n = 0;
    for (int32_t p = 0; p < split->n_parts; p++)
        n += split->devices[p] < device;
    return n;
}

/* Repeats a split, or as much of it as fits, on all devices. */
static void take_all(const cleave_constraints *constraints, const cleave_split *old,
                     cleave_split *made) {
    int32_t n = constraints->n_devices, width = old->n_parts;
    if (n % width != 0) { /* nothing of it does */
        for (int a = 0; a < CLEAVE_MAX_AXES; a++)
            made->degree[a] = 1;
        width = 1;
    }
    int32_t degrees = 1;
    for (int a = 0; a < CLEAVE_MAX_AXES; a++)
        degrees *= made->degree[a];
    made->replicas = n / degrees;
    made->n_parts = n;
    for (int32_t d = 0; d < n; d++)
        made->devices[d] =
            width == 1 ? d : count_below(old, old->devices[d % width]) + d / width * width;
}

static cleave_status impose_on(const cleave_constraints *constraints, const cleave_model *model,
                               int32_t op, cleave_layout *layout, cleave_arena *arena,
                               cleave_error *error) {
    const cleave_split *fixed = cleave_constraints_fixed_split(constraints, op);
    const cleave_split *old = fixed != NULL ? fixed : &layout->splits[op];
    bool all = fixed == NULL && cleave_constraints_take_all_for(constraints, op);
    cleave_split made = *old;
    made.devices = CLEAVE_ARENA_ARRAY(arena, int32_t, all ? constraints->n_devices : made.n_parts);
    if (made.devices == NULL)
        return cleave_fail_memory(error, "keeping to constraints");
    memcpy(made.devices, old->devices, (size_t)made.n_parts * sizeof *made.devices);
    for (int a = 0; a < model->operators[op].n_axes && fixed == NULL; a++)
        if (!allows_degree(constraints, model, op, a, made.degree[a])) {
            made.replicas *= made.degree[a]; /* no more than n_parts in all */
            made.degree[a] = 1;
        }
    if (all)
        take_all(constraints, old, &made);
    else if (fixed == NULL && !cleave_constraints_allow_blocks(constraints))
        for (int32_t p = 0; p < made.n_parts; p++)
            made.devices[p] = count_below(old, old->devices[p]);
    layout->splits[op] = made;
    return CLEAVE_OK;
}

cleave_status cleave_constraints_impose(const cleave_constraints *constraints,
                                        const cleave_model *model, cleave_layout *layout,
                                        cleave_arena *arena, cleave_error *error) {
    if (constraints == NULL)
        return CLEAVE_OK;
    for (int32_t op = 0; op < model->n_operators; op++)
        if (!cleave_constraints_allow(constraints, model, op, &layout->splits[op]))
            CLEAVE_TRY(impose_on(constraints, model, op, layout, arena, error));
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (is_update_fixed(constraints, t))
            layout->sharded[t] = constraints->fixed->sharded[t];
    return CLEAVE_OK;
}

/* ---- memory ---- */

static int64_t box_bytes(const cleave_model *model, const cleave_part *part,
                         const cleave_operand *operand) {
    return cleave_part_size(model, part, operand) *
           cleave_stored_bytes(&model->tensors[operand->tensor]);
}

/* What a part of a nest needs at once in forward: its inputs, those of one base tensor once, since
   they may lie in one another, and its output, unless that may lie in an input. */
static int64_t part_bytes(const cleave_model *model, const cleave_nest *nest,
                          const cleave_part *part) {
    int32_t bases[CLEAVE_MAX_INPUTS];
    int64_t largest[CLEAVE_MAX_INPUTS], bytes = 0;
    int n = 0;
    for (int i = 0; i < nest->n_inputs; i++) {
        int32_t base = cleave_tensor_base(model, nest->inputs[i].tensor);
        int64_t needed = box_bytes(model, part, &nest->inputs[i]);
        int k = 0;
        while (k < n && bases[k] != base)
            k++;
        if (k == n) {
            bases[n] = base;
            largest[n++] = 0;
        }
        largest[k] = needed > largest[k] ? needed : largest[k];
    }
    for (int k = 0; k < n; k++)
        bytes += largest[k];
    return bytes + (nest->in_place ? 0 : box_bytes(model, part, &nest->output));
}

/* Checks one fixed operator; `all` is scratch, [n_nests]. */
static cleave_status check_operator(const cleave_constraints *constraints,
                                    const cleave_model *model, const cleave_machine *machine,
                                    int64_t memory_limit_bytes, int32_t op, cleave_parts *all,
                                    cleave_arena *scratch, cleave_error *error) {
    const cleave_operator *of = &model->operators[op];
    CLEAVE_TRY(cleave_parts_derive_operator(model, op, &constraints->fixed->splits[op], NULL,
                                            scratch, all, error));
    for (int32_t i = 0; i < of->n_nests; i++) {
        const cleave_parts *parts = &all[of->nests[i]];
        for (int32_t p = 0; p < parts->n; p++) {
            const cleave_part *part = &parts->items[p];
            int64_t limit = memory_limit_bytes > 0
                                ? memory_limit_bytes
                                : machine->kinds[machine->device_kind[part->device]].memory_bytes;
            int64_t bytes = part->empty ? 0 : part_bytes(model, &model->nests[of->nests[i]], part);
            char needs[32], has[32];
            if (bytes <= limit)
                continue;
            cleave_unit_format((double)bytes, CLEAVE_UNIT_BYTES, needs, sizeof needs);
            cleave_unit_format((double)limit, CLEAVE_UNIT_BYTES, has, sizeof has);
            return cleave_fail(error, CLEAVE_NO_LAYOUT,
                               "no layout fits: operator \"%s\", as --fix %s splits it, needs "
                               "%s at once on device %d alone, but the memory limit is %s%s",
                               of->name, constraints->fixed_from, needs, part->device, has,
                               memory_limit_bytes > 0 ? " (--memory-limit)" : "");
        }
    }
    return CLEAVE_OK;
}

cleave_status cleave_constraints_check_memory(const cleave_constraints *constraints,
                                              const cleave_model *model,
                                              const cleave_machine *machine,
                                              int64_t memory_limit_bytes, cleave_error *error) {
    if (constraints == NULL || constraints->n_fixed == 0)
        return CLEAVE_OK;
    cleave_arena scratch = {0};
    cleave_parts *all = CLEAVE_ARENA_ARRAY(&scratch, cleave_parts, model->n_nests);
    cleave_status status =
        all == NULL ? cleave_fail_memory(error, "checking constraints") : CLEAVE_OK;
    for (int32_t op = 0; op < model->n_operators && status == CLEAVE_OK; op++)
        if (constraints->is_fixed[op])
            status = check_operator(constraints, model, machine, memory_limit_bytes, op, all,
                                    &scratch, error);
    cleave_arena_free(&scratch);
    return status;
}
