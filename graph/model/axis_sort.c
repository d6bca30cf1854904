/* The batch is followed through the model.  It lies in one dimension of a tensor, maybe beside
   other things that a reshape has joined to it: the sample of index i is i / inner mod extent.  An
   axis that walks over that dimension walks over the samples; where they are the outermost of what
   it walks over, to split it is to split the batch. */
#include "graph/model/axis_sort.h"

const char *const cleave_axis_sort_names[CLEAVE_N_SORTS] = {"sample", "operator", "attribute",
                                                            "parameter", "reduction"};

/* Where the batch lies in a tensor, or (without `dimension`) in an axis. */
typedef struct place {
    int dimension; /* -1: nowhere */
    int64_t inner, extent;
} place;

static const place nowhere = {.dimension = -1};

typedef struct walk {
    const cleave_model *model;
    place *of;   /* [n_tensors] */
    bool *known; /* [n_tensors] */
} walk;

static int64_t size_from(const cleave_tensor *tensor, int d) {
    int64_t size = 1;
    for (; d < tensor->rank; d++)
        size *= tensor->shape[d];
    return size;
}

/* Nothing but the batch lies in its dimension of a tensor. */
static bool is_alone(const place *p, int64_t extent) {
    return p->inner == 1 && p->extent == extent;
}

/* ---- through views ---- */

/* Row-major positions stay: a sample is position / step mod extent. */
static place reshaped(const place *from, const cleave_tensor *source, const cleave_tensor *view) {
    int64_t step = from->inner * size_from(source, from->dimension + 1);
    for (int d = 0; d < view->rank; d++) {
        int64_t stride = size_from(view, d + 1);
        if (view->shape[d] > 0 && step % stride == 0 &&
            view->shape[d] % (step / stride * from->extent) == 0 &&
            (view->shape[d] > 1 || from->extent == 1))
            return (place){d, step / stride, from->extent};
    }
    return nowhere;
}

/* A dimension that kept its indices, or of which the batch is all: a part of the batch then. */
static place resized(const place *from, bool same, int64_t before, int64_t after) {
    if (same)
        return *from;
    return is_alone(from, before) ? (place){from->dimension, 1, after} : nowhere;
}

static place through_view(const cleave_tensor *source, const cleave_tensor *tensor,
                          const place *from) {
    const cleave_view *view = &tensor->view;
    int d = from->dimension;
    switch (view->kind) {
    case CLEAVE_VIEW_RESHAPE:
        return reshaped(from, source, tensor);
    case CLEAVE_VIEW_TRANSPOSE:
        for (int e = 0; e < tensor->rank; e++)
            if (view->permutation[e] == d)
                return (place){e, from->inner, from->extent};
        return nowhere;
    case CLEAVE_VIEW_CONCAT:
        return resized(from, view->axis != d, source->shape[d], tensor->shape[d]);
    case CLEAVE_VIEW_SLICE:
    case CLEAVE_VIEW_PAD:
        return resized(from, source->shape[d] == tensor->shape[d], source->shape[d],
                       tensor->shape[d]);
    case CLEAVE_VIEW_NONE:
        break;
    }
    return nowhere;
}

static place place_of(walk *w, int32_t id) {
    const cleave_tensor *tensor = &w->model->tensors[id];
    if (w->known[id] || tensor->view.kind == CLEAVE_VIEW_NONE)
        return w->of[id];
    w->known[id] = true;
    for (int32_t i = 0; i < tensor->view.n_sources && w->of[id].dimension < 0; i++) {
        place from = place_of(w, tensor->view.sources[i]);
        if (from.dimension >= 0)
            w->of[id] = through_view(&w->model->tensors[tensor->view.sources[i]], tensor, &from);
    }
    return w->of[id];
}

/* ---- through nests ---- */

/* The batch in an axis that an operand's map walks over a dimension with. */
static place in_axis(const cleave_dimension_map *map, const place *p, int64_t shape,
                     int64_t extent) {
    bool walks_all = map->terms[0].stride == 1 && map->offset == 0 && extent == shape;
    if (walks_all)
        return *p;
    return is_alone(p, shape) ? (place){p->dimension, 1, extent} : nowhere;
}

/* Of all axes of a nest, from what it reads; then of its output. */
static void through_nest(walk *w, const cleave_nest *nest, place *axes) {
    for (int a = 0; a < nest->n_axes; a++)
        axes[a] = nowhere;
    for (int i = 0; i < nest->n_inputs; i++) {
        const cleave_operand *input = &nest->inputs[i];
        place p = place_of(w, input->tensor);
        if (p.dimension < 0 || input->map[p.dimension].n_terms != 1)
            continue;
        const cleave_dimension_map *map = &input->map[p.dimension];
        int a = map->terms[0].axis;
        if (axes[a].dimension < 0)
            axes[a] = in_axis(map, &p, w->model->tensors[input->tensor].shape[p.dimension],
                              nest->axes[a].extent);
    }
    const cleave_tensor *output = &w->model->tensors[nest->output.tensor];
    for (int d = 0; d < output->rank; d++) {
        const cleave_dimension_map *map = &nest->output.map[d];
        if (map->n_terms == 1 && axes[map->terms[0].axis].dimension >= 0 &&
            output->shape[d] == nest->axes[map->terms[0].axis].extent) {
            w->of[nest->output.tensor] = axes[map->terms[0].axis];
            w->of[nest->output.tensor].dimension = d;
            return;
        }
    }
}

static bool is_outermost(const place *p, int64_t extent) {
    return p->dimension >= 0 && p->inner * p->extent == extent && (p->extent > 1 || extent == 1);
}

/* ---- the other sorts ---- */

/* The axis of a nest that is an axis of its operator; -1: none is.  Where parts follow the owners
   of an earlier output, an axis is a dimension of that output. */
static int axis_in(const cleave_model *model, const cleave_nest *nest, int axis) {
    if (nest->derivation == CLEAVE_DERIVE_OPERATOR) {
        for (int i = 0; i < nest->n_axes; i++)
            if (nest->operator_axis[i] == axis)
                return i;
        return -1;
    }
    const cleave_nest *owner = &model->nests[nest->owners_of];
    int of_owner = axis_in(model, owner, axis);
    for (int d = 0; d < nest->n_axes && of_owner >= 0; d++)
        for (int t = 0; t < owner->output.map[d].n_terms; t++)
            if (owner->output.map[d].terms[t].axis == of_owner)
                return d;
    return -1;
}

static bool is_in_parameter(const cleave_model *model, const cleave_operator *op, int axis) {
    for (int32_t n = 0; n < op->n_nests; n++) {
        const cleave_nest *nest = &model->nests[op->nests[n]];
        int own = axis_in(model, nest, axis);
        for (int i = 0; i < nest->n_inputs && own >= 0; i++)
            if (cleave_operand_maps_axis(&nest->inputs[i],
                                         model->tensors[nest->inputs[i].tensor].rank, own) &&
                cleave_tensor_sees_parameter(model, nest->inputs[i].tensor))
                return true;
    }
    return false;
}

static bool is_in_output(const cleave_model *model, const cleave_operator *op, int axis) {
    const cleave_nest *nest = &model->nests[op->main_nest];
    int own = axis_in(model, nest, axis);
    return own >= 0 &&
           cleave_operand_maps_axis(&nest->output, model->tensors[nest->output.tensor].rank, own);
}

static void sort_axes(const cleave_model *model, const cleave_operator *op, uint8_t *sorts) {
    for (int a = 0; a < op->n_axes; a++) {
        if (sorts[a] == CLEAVE_SORT_SAMPLE)
            continue;
        sorts[a] = (uint8_t)(!is_in_output(model, op, a)     ? CLEAVE_SORT_REDUCTION
                             : is_in_parameter(model, op, a) ? CLEAVE_SORT_PARAMETER
                                                             : CLEAVE_SORT_ATTRIBUTE);
    }
}

/* ---- all of it ---- */

/* Dimension 0 of data is the batch where it is as large as that. */
static int64_t begin(walk *w) {
    const cleave_model *model = w->model;
    int64_t batch = model->batch;
    if (batch == 0 && model->targets >= 0 && model->tensors[model->targets].rank > 0)
        batch = model->tensors[model->targets].shape[0];
    for (int32_t t = 0; t < model->n_tensors; t++) {
        const cleave_tensor *tensor = &model->tensors[t];
        w->of[t] = nowhere;
        if (tensor->kind != CLEAVE_TENSOR_DATA || tensor->view.kind != CLEAVE_VIEW_NONE ||
            tensor->rank == 0)
            continue;
        batch = batch > 0 ? batch : tensor->shape[0];
        if (tensor->shape[0] == batch)
            w->of[t] = (place){0, 1, batch};
    }
    return batch;
}

cleave_status cleave_axis_sorts_find(const cleave_model *model, cleave_arena *arena,
                                     cleave_axis_sorts *sorts, cleave_error *error) {
    cleave_arena scratch = {0};
    walk w = {.model = model,
              .of = CLEAVE_ARENA_ARRAY(&scratch, place, model->n_tensors),
              .known = CLEAVE_ARENA_ARRAY(&scratch, bool, model->n_tensors)};
    cleave_axis_sorts result = {
        .of = cleave_arena_alloc(arena, (size_t)model->n_operators, sizeof *result.of)};
    if (w.of == NULL || w.known == NULL || result.of == NULL) {
        cleave_arena_free(&scratch);
        return cleave_fail_memory(error, "sorting axes");
    }
    for (int32_t op = 0; op < model->n_operators; op++)
        for (int a = 0; a < CLEAVE_MAX_AXES; a++)
            result.of[op][a] = CLEAVE_N_SORTS; /* not known */
    result.batch = begin(&w);
    for (int32_t n = 0; n < model->n_nests; n++) {
        const cleave_nest *nest = &model->nests[n];
        place axes[CLEAVE_MAX_AXES];
        through_nest(&w, nest, axes);
        for (int i = 0; i < nest->n_axes && nest->derivation == CLEAVE_DERIVE_OPERATOR; i++)
            if (nest->operator_axis[i] >= 0 && is_outermost(&axes[i], nest->axes[i].extent))
                result.of[nest->op][nest->operator_axis[i]] = CLEAVE_SORT_SAMPLE;
    }
    for (int32_t op = 0; op < model->n_operators; op++)
        sort_axes(model, &model->operators[op], result.of[op]);
    cleave_arena_free(&scratch);
    *sorts = result;
    return CLEAVE_OK;
}
