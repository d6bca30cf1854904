/* Which tensors windows share out, and by which dimension. */
#include "graph/model/share_out.h"

typedef struct marker {
    const cleave_model *model;
    cleave_sharing *of;
    cleave_error *error;
} marker;

cleave_status cleave_sharing_create(const cleave_model *model, cleave_arena *arena,
                                    cleave_sharing *sharing, cleave_error *error) {
    sharing->nest_axis = CLEAVE_ARENA_ARRAY(arena, int, model->n_nests);
    sharing->tensor_dimension = CLEAVE_ARENA_ARRAY(arena, int, model->n_tensors);
    if (sharing->nest_axis == NULL || sharing->tensor_dimension == NULL)
        return cleave_fail_memory(error, "cutting a step into windows");
    for (int32_t n = 0; n < model->n_nests; n++)
        sharing->nest_axis[n] = CLEAVE_REPEATED;
    for (int32_t t = 0; t < model->n_tensors; t++)
        sharing->tensor_dimension[t] = CLEAVE_UNUSED;
    return CLEAVE_OK;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static cleave_status not_even(const marker *f, int32_t tensor) {
    return cleave_fail(f->error, CLEAVE_NO_LAYOUT,
                       "tensor %s is not cut into %lld equal ranges, one for each %s",
                       f->model->tensors[tensor].name, (long long)f->of->n_windows, f->of->window);
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
static cleave_status mark_tensor(const marker *f, int32_t tensor, int dimension) {
    const cleave_tensor *of = &f->model->tensors[tensor];
    int *mark = &f->of->tensor_dimension[tensor];
    if (dimension >= 0 && of->shape[dimension] % f->of->n_windows != 0)
        return not_even(f, tensor);
    if (of->view.kind == CLEAVE_VIEW_NONE) {
        if (!f->of->in_time &&
            (of->kind == CLEAVE_TENSOR_DATA || of->kind == CLEAVE_TENSOR_CONSTANT))
            return CLEAVE_OK; /* every device loads what it reads */
        if (*mark != CLEAVE_UNUSED && *mark != dimension)
            return cleave_fail(f->error, CLEAVE_NO_LAYOUT,
                               "tensor %s is shared out, one range for each %s, in one place, and "
                               "not in another",
                               of->name, f->of->window);
        *mark = dimension;
        return CLEAVE_OK;
    }
    if (f->of->in_time)
        *mark = dimension;
    for (int32_t s = 0; s < of->view.n_sources; s++) {
        int under =
            dimension < 0 ? CLEAVE_REPEATED : source_dimension(f->model, tensor, s, dimension);
        if (dimension >= 0 && under < 0)
            return not_even(f, tensor);
        CLEAVE_TRY(mark_tensor(f, of->view.sources[s], under));
    }
    return CLEAVE_OK;
}

/* The dimension of an operand that an axis of its nest cuts into equal ranges.  Box j of a range is
   [j r, (j + 1) r), r = stride x (extent / W): there is no offset, the rest of the map adds less
   than one stride, and all ranges together are the dimension, so that nothing is ever clipped. */
static cleave_status operand_dimension(const marker *f, const cleave_nest *nest,
                                       const cleave_operand *operand, int axis, int *dimension) {
    const cleave_tensor *tensor = &f->model->tensors[operand->tensor];
    *dimension = CLEAVE_REPEATED;
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

/* Owners cut what they wrote together.  Those of one box are of one window where the box is, or
   where the windows are replicas to the nest that wrote it. */
static cleave_status axis_of_owners(const marker *f, int32_t n) {
    const cleave_nest *nest = &f->model->nests[n];
    const cleave_nest *source = &f->model->nests[nest->owners_of];
    int dimension, axis = f->of->nest_axis[nest->owners_of];
    CLEAVE_TRY(operand_dimension(f, source, &source->output, axis, &dimension));
    if (axis >= 0 && dimension < 0 && !f->of->in_time)
        return cleave_fail(f->error, CLEAVE_NO_LAYOUT, "%s is cut among the devices of all windows",
                           nest->name);
    f->of->nest_axis[n] = dimension;
    return CLEAVE_OK;
}

static cleave_status mark_operand(const marker *f, const cleave_nest *nest, int axis,
                                  const cleave_operand *operand) {
    int dimension;
    CLEAVE_TRY(operand_dimension(f, nest, operand, axis, &dimension));
    return mark_tensor(f, operand->tensor, dimension);
}

cleave_status cleave_share_out_nest(const cleave_model *model, int32_t n, cleave_sharing *sharing,
                                    cleave_error *error) {
    const marker marks = {model, sharing, error}, *f = &marks;
    const cleave_nest *nest = &model->nests[n];
    if (nest->derivation != CLEAVE_DERIVE_OPERATOR)
        CLEAVE_TRY(axis_of_owners(f, n));
    for (int i = 0; i < nest->n_inputs; i++)
        CLEAVE_TRY(mark_operand(f, nest, f->of->nest_axis[n], &nest->inputs[i]));
    CLEAVE_TRY(mark_operand(f, nest, f->of->nest_axis[n], cleave_nest_combined(nest)));
    return mark_operand(f, nest, f->of->nest_axis[n], &nest->output);
}

/* Both ends of an assignment are read by the devices that hold its target. */
static cleave_status mark_assignment(const marker *f, const cleave_assignment *assignment) {
    int *target = &f->of->tensor_dimension[assignment->target];
    if (*target >= 0)
        return not_even(f, assignment->target);
    *target = CLEAVE_REPEATED;
    return mark_tensor(f, assignment->source, CLEAVE_REPEATED);
}

/* ---- what writes it -------------------------------------------------------------------------- */

static void share_out_writer(const marker *f, int32_t tensor, int dimension) {
    const cleave_tensor *of = &f->model->tensors[tensor];
    for (int32_t s = 0; s < of->view.n_sources; s++) {
        int under = source_dimension(f->model, tensor, s, dimension);
        if (under >= 0)
            share_out_writer(f, of->view.sources[s], under);
    }
    int32_t writer = of->view.kind == CLEAVE_VIEW_NONE ? f->model->writer[tensor] : -1;
    if (writer < 0 || f->of->nest_axis[writer] >= 0)
        return;
    const cleave_nest *nest = &f->model->nests[writer];
    const cleave_dimension_map *map = &nest->output.map[dimension];
    int axis = map->n_terms == 1 ? map->terms[0].axis : -1;
    if (axis < 0 || nest->derivation != CLEAVE_DERIVE_OPERATOR || nest->operator_axis[axis] < 0 ||
        f->model->operators[nest->op].axes[nest->operator_axis[axis]].whole)
        return;
    f->of->nest_axis[writer] = axis;
}

void cleave_share_out_sources(const cleave_model *model, cleave_sharing *sharing) {
    cleave_error why = {""};
    const marker marks = {model, sharing, &why}, *f = &marks;
    for (int32_t n = model->n_nests - 1; n >= 0; n--) {
        const cleave_nest *nest = &model->nests[n];
        for (int i = 0; i < nest->n_inputs && sharing->nest_axis[n] >= 0; i++) {
            int dimension;
            if (operand_dimension(f, nest, &nest->inputs[i], sharing->nest_axis[n], &dimension) ==
                    CLEAVE_OK &&
                dimension >= 0)
                share_out_writer(f, nest->inputs[i].tensor, dimension);
        }
    }
}

cleave_status cleave_share_out_assignments(const cleave_model *model, cleave_sharing *sharing,
                                           cleave_error *error) {
    const marker marks = {model, sharing, error};
    for (int32_t a = 0; a < model->n_assignments; a++)
        CLEAVE_TRY(mark_assignment(&marks, &model->assignments[a]));
    return CLEAVE_OK;
}

cleave_status cleave_share_out_outputs(const cleave_model *model, cleave_sharing *sharing,
                                       cleave_error *error) {
    cleave_error why = {""};
    const marker marks = {model, sharing, &why};
    for (int32_t o = 0; o < model->n_outputs; o++) {
        int32_t tensor = model->outputs[o];
        if (sharing->tensor_dimension[tensor] != CLEAVE_UNUSED)
            continue;
        int d = CLEAVE_REPEATED;
        while (d < model->tensors[tensor].rank && mark_tensor(&marks, tensor, d) != CLEAVE_OK)
            d++;
        if (d == model->tensors[tensor].rank) {
            sharing->tensor_dimension[tensor] = CLEAVE_UNUSED;
            return not_even(&(marker){model, sharing, error}, tensor);
        }
    }
    return CLEAVE_OK;
}
