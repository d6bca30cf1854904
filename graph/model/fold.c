/* Finding a fold: windows from the splits, then what each nest and each tensor shares out. */
#include "graph/model/fold.h"

#include <string.h>

typedef struct finder {
    const cleave_model *model;
    const cleave_layout *layout;
    cleave_fold *fold;
    cleave_error *error;
} finder;

/* ---- windows --------------------------------------------------------------------------------- */

static int32_t common_divisor(int32_t a, int32_t b) {
    while (b != 0) {
        int32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

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

/* `known`: a row of so many devices in order, or null; this one is, if it is in order. */
static cleave_status check_order(const finder *f, const cleave_split *split, const char *name,
                                 const int32_t **known) {
    size_t size = (size_t)split->n_parts * sizeof *split->devices;
    if (*known != NULL && memcmp(*known, split->devices, size) == 0)
        return CLEAVE_OK;
    for (int32_t p = 0; p < split->n_parts; p++)
        if (split->devices[p] != p)
            return cleave_fail(f->error, CLEAVE_NO_LAYOUT,
                               "the devices of %s are not in order: part %d is on %d", name, p,
                               split->devices[p]);
    *known = split->devices;
    return CLEAVE_OK;
}

/* Parts are row-major and devices in order, so a window has the parts of a run of outermost blocks.
 */
static cleave_status find_windows(finder *f, int32_t node_devices) {
    const cleave_layout *layout = f->layout;
    int32_t n_devices = layout->n_devices;
    int32_t windows = n_devices % node_devices == 0 ? n_devices / node_devices : 1;
    const int32_t *in_order = NULL;
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
        windows = common_divisor(degree_of(split, outer), windows);
        if (windows < 2)
            return cleave_fail(
                f->error, CLEAVE_NO_LAYOUT,
                "what lies outermost in the split of %s (%d-fold) does not give each "
                "node the same",
                name, degree_of(split, outer));
    }
    f->fold->n_windows = windows;
    f->fold->n_devices = n_devices / windows;
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
    *window = *f->layout;
    window->n_devices = f->fold->n_devices;
    window->splits = CLEAVE_ARENA_ARRAY(arena, cleave_split, f->layout->n_operators);
    if (window->splits == NULL)
        return cleave_fail_memory(f->error, "folding a layout");
    for (int32_t op = 0; op < f->layout->n_operators; op++) {
        window->splits[op] = f->layout->splits[op];
        window->splits[op].n_parts = f->fold->n_devices;
    }
    return CLEAVE_OK;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static cleave_status not_even(const finder *f, int32_t tensor) {
    return cleave_fail(f->error, CLEAVE_NO_LAYOUT,
                       "tensor %s is not cut into %d equal ranges, one for each window",
                       f->model->tensors[tensor].name, f->fold->n_windows);
}

/* The dimension of the source whose ranges are those of dimension d of a reshape: outermost in
   runs of dimensions that begin at the same place of the row-major order.  -1: none is. */
static int reshaped_dimension(const cleave_tensor *view, const cleave_tensor *source, int d) {
    int64_t before = 1, product = 1;
    for (int e = 0; e < d; e++)
        before *= view->shape[e];
    for (int e = 0; e < source->rank && product <= before; e++) {
        if (product == before && source->shape[e] > 1)
            return e;
        product *= source->shape[e];
    }
    return -1;
}

/* The dimension of source s of a view whose ranges are those of dimension d of the view. */
static int source_dimension(const cleave_model *model, int32_t tensor, int32_t s, int d) {
    const cleave_tensor *view = &model->tensors[tensor];
    const cleave_tensor *source = &model->tensors[view->view.sources[s]];
    switch (view->view.kind) {
    case CLEAVE_VIEW_NONE:
        break;
    case CLEAVE_VIEW_RESHAPE:
        return reshaped_dimension(view, source, d);
    case CLEAVE_VIEW_TRANSPOSE:
        return view->view.permutation[d];
    case CLEAVE_VIEW_CONCAT:
        return d == view->view.axis ? -1 : d;
    case CLEAVE_VIEW_SLICE:
        return view->view.begin[d] == 0 && view->view.step[d] == 1 &&
                       view->shape[d] == source->shape[d]
                   ? d
                   : -1;
    case CLEAVE_VIEW_PAD:
        return view->view.begin[d] == 0 && view->shape[d] == source->shape[d] ? d : -1;
    }
    return -1;
}

/* The base tensors under a tensor are shared out by this dimension of it, or repeated: all that is
   done to one must say the same. */
static cleave_status mark_tensor(const finder *f, int32_t tensor, int dimension) {
    const cleave_tensor *of = &f->model->tensors[tensor];
    int *mark = &f->fold->tensor_dimension[tensor];
    if (dimension >= 0 && of->shape[dimension] % f->fold->n_windows != 0)
        return not_even(f, tensor);
    if (of->view.kind == CLEAVE_VIEW_NONE) {
        if (of->kind == CLEAVE_TENSOR_DATA || of->kind == CLEAVE_TENSOR_CONSTANT)
            return CLEAVE_OK; /* every device loads what it reads */
        if (*mark != CLEAVE_FOLD_UNUSED && *mark != dimension)
            return cleave_fail(f->error, CLEAVE_NO_LAYOUT,
                               "tensor %s is shared out among the windows in one place, and not in "
                               "another",
                               of->name);
        *mark = dimension;
        return CLEAVE_OK;
    }
    for (int32_t s = 0; s < of->view.n_sources; s++) {
        int under =
            dimension < 0 ? CLEAVE_FOLD_REPEATED : source_dimension(f->model, tensor, s, dimension);
        if (dimension >= 0 && under < 0)
            return not_even(f, tensor);
        CLEAVE_TRY(mark_tensor(f, of->view.sources[s], under));
    }
    return CLEAVE_OK;
}

/* The dimension of an operand that an axis of its nest cuts into equal ranges.  Box j of a range is
   [j r, (j + 1) r), r = stride x (extent / W): there is no offset, the rest of the map adds less
   than one stride, and all ranges together are the dimension, so that nothing is ever clipped. */
static cleave_status operand_dimension(const finder *f, const cleave_nest *nest,
                                       const cleave_operand *operand, int axis, int *dimension) {
    const cleave_tensor *tensor = &f->model->tensors[operand->tensor];
    *dimension = CLEAVE_FOLD_REPEATED;
    for (int d = 0; d < tensor->rank && axis >= 0; d++) {
        const cleave_dimension_map *map = &operand->map[d];
        int64_t stride = 0, rest = 0;
        bool twice = false;
        for (int t = 0; t < map->n_terms; t++) {
            if (map->terms[t].axis == axis) {
                twice = twice || stride != 0;
                stride = map->terms[t].stride;
            } else {
                rest += map->terms[t].stride * (nest->axes[map->terms[t].axis].extent - 1);
            }
        }
        if (stride == 0)
            continue;
        if (twice || *dimension >= 0 || map->offset != 0 || rest >= stride ||
            stride * nest->axes[axis].extent != tensor->shape[d])
            return not_even(f, operand->tensor);
        *dimension = d;
    }
    return CLEAVE_OK;
}

/* ---- nests ----------------------------------------------------------------------------------- */

/* The axis of a nest that its operator's outermost axis is. */
static cleave_status axis_of_operator(const finder *f, int32_t n) {
    const cleave_nest *nest = &f->model->nests[n];
    const cleave_split *split = &f->layout->splits[nest->op];
    int outer = outermost(split, f->model->operators[nest->op].n_axes);
    int *axis = &f->fold->nest_axis[n];
    *axis = CLEAVE_FOLD_REPEATED;
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

/* Owners cut what they wrote together.  Those of one box are of one window where the box is, or
   where the windows are replicas to the nest that wrote it. */
static cleave_status axis_of_owners(const finder *f, int32_t n) {
    const cleave_nest *nest = &f->model->nests[n];
    const cleave_nest *source = &f->model->nests[nest->owners_of];
    int dimension, axis = f->fold->nest_axis[nest->owners_of];
    CLEAVE_TRY(operand_dimension(f, source, &source->output, axis, &dimension));
    if (axis >= 0 && dimension < 0)
        return cleave_fail(f->error, CLEAVE_NO_LAYOUT, "%s is cut among the devices of all windows",
                           nest->name);
    f->fold->nest_axis[n] = dimension;
    return CLEAVE_OK;
}

static cleave_status mark_operand(const finder *f, const cleave_nest *nest, int axis,
                                  const cleave_operand *operand) {
    int dimension;
    CLEAVE_TRY(operand_dimension(f, nest, operand, axis, &dimension));
    return mark_tensor(f, operand->tensor, dimension);
}

static cleave_status mark_nest(const finder *f, int32_t n) {
    const cleave_nest *nest = &f->model->nests[n];
    CLEAVE_TRY(nest->derivation == CLEAVE_DERIVE_OPERATOR ? axis_of_operator(f, n)
                                                          : axis_of_owners(f, n));
    for (int i = 0; i < nest->n_inputs; i++)
        CLEAVE_TRY(mark_operand(f, nest, f->fold->nest_axis[n], &nest->inputs[i]));
    return mark_operand(f, nest, f->fold->nest_axis[n], &nest->output);
}

/* Both ends of an assignment are read by the devices that hold its target. */
static cleave_status mark_assignment(const finder *f, const cleave_assignment *assignment) {
    int *target = &f->fold->tensor_dimension[assignment->target];
    if (*target >= 0)
        return not_even(f, assignment->target);
    *target = CLEAVE_FOLD_REPEATED;
    return mark_tensor(f, assignment->source, CLEAVE_FOLD_REPEATED);
}

static cleave_status mark_everything(finder *f, cleave_arena *arena) {
    const cleave_model *model = f->model;
    cleave_fold *fold = f->fold;
    fold->nest_axis = CLEAVE_ARENA_ARRAY(arena, int, model->n_nests);
    fold->tensor_dimension = CLEAVE_ARENA_ARRAY(arena, int, model->n_tensors);
    if (fold->nest_axis == NULL || fold->tensor_dimension == NULL)
        return cleave_fail_memory(f->error, "folding a layout");
    for (int32_t t = 0; t < model->n_tensors; t++) {
        fold->tensor_dimension[t] = CLEAVE_FOLD_UNUSED;
        if (f->layout->sharded[t])
            return cleave_fail(f->error, CLEAVE_NO_LAYOUT, "the update of %s is sharded",
                               model->tensors[t].name);
    }
    for (int32_t n = 0; n < model->n_nests; n++)
        CLEAVE_TRY(mark_nest(f, n));
    for (int32_t a = 0; a < model->n_assignments; a++)
        CLEAVE_TRY(mark_assignment(f, &model->assignments[a]));
    return CLEAVE_OK;
}

cleave_status cleave_fold_find(const cleave_model *model, const cleave_layout *layout,
                               int32_t node_devices, cleave_arena *arena, cleave_fold *fold,
                               cleave_error *error) {
    cleave_fold found = {0};
    finder f = {model, layout, &found, error};
    CLEAVE_TRY(find_windows(&f, node_devices));
    CLEAVE_TRY(cut_window(&f, arena));
    CLEAVE_TRY(mark_everything(&f, arena));
    *fold = found;
    return CLEAVE_OK;
}
