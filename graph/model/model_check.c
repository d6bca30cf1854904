/* The invariants of a model, each with a message that names the tensor, nest or operator.

   First the references (model_references.c), so that everything after may follow them; then shapes,
   views, maps, combiners and who writes what. */
#include "base/checked.h"
#include "base/order.h"
#include "graph/model/gather.h"
#include "graph/model/model_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- tensors and views ------------------------------------------------------------------- */

static bool is_permutation(const int *values, int n) {
    unsigned seen = 0;
    for (int i = 0; i < n; i++) {
        if (values[i] < 0 || values[i] >= n)
            return false;
        seen |= 1u << values[i];
    }
    return seen == (1u << n) - 1u;
}

static bool shape_size(int rank, const int64_t *shape, int64_t *size) {
    *size = 1;
    for (int d = 0; d < rank; d++)
        if (shape[d] < 1 || !cleave_int64_multiply(*size, shape[d], size) ||
            *size > CLEAVE_MOST_ELEMENTS)
            return false;
    return true;
}

static bool transpose_fits(const cleave_tensor *view, const cleave_tensor *source) {
    if (view->rank != source->rank || !is_permutation(view->view.permutation, view->rank))
        return false;
    for (int d = 0; d < view->rank; d++)
        if (view->shape[d] != source->shape[view->view.permutation[d]])
            return false;
    return true;
}

static bool concat_fits(const cleave_model *model, const cleave_tensor *view) {
    int axis = view->view.axis;
    if (axis < 0 || axis >= view->rank)
        return false;
    int64_t along = 0;
    for (int32_t i = 0; i < view->view.n_sources; i++) {
        const cleave_tensor *source = &model->tensors[view->view.sources[i]];
        if (source->rank != view->rank || source->type != view->type)
            return false;
        for (int d = 0; d < view->rank; d++)
            if (d != axis && source->shape[d] != view->shape[d])
                return false;
        along += source->shape[axis];
    }
    return along == view->shape[axis];
}

static bool slice_fits(const cleave_tensor *view, const cleave_tensor *source) {
    if (view->rank != source->rank)
        return false;
    for (int d = 0; d < view->rank; d++) {
        int64_t reach, last;
        if (view->view.begin[d] < 0 || view->view.step[d] < 1 ||
            !cleave_int64_multiply(view->shape[d] - 1, view->view.step[d], &reach) ||
            !cleave_int64_add(reach, view->view.begin[d], &last) || last >= source->shape[d])
            return false;
    }
    return true;
}

static bool pad_fits(const cleave_tensor *view, const cleave_tensor *source) {
    if (view->rank != source->rank)
        return false;
    for (int d = 0; d < view->rank; d++)
        if (view->view.begin[d] < 0 || view->view.begin[d] > view->shape[d] ||
            source->shape[d] > view->shape[d] - view->view.begin[d])
            return false;
    return true;
}

static bool view_fits(const cleave_model *model, const cleave_tensor *view) {
    const cleave_tensor *source = &model->tensors[view->view.sources[0]];
    switch (view->view.kind) {
    case CLEAVE_VIEW_RESHAPE:
        return cleave_tensor_size(view) == cleave_tensor_size(source);
    case CLEAVE_VIEW_TRANSPOSE:
        return transpose_fits(view, source);
    case CLEAVE_VIEW_CONCAT:
        return concat_fits(model, view);
    case CLEAVE_VIEW_SLICE:
        return slice_fits(view, source);
    case CLEAVE_VIEW_PAD:
        return pad_fits(view, source);
    case CLEAVE_VIEW_NONE:
        break;
    }
    return true;
}

static cleave_status check_tensor(const cleave_model *model, const cleave_tensor *tensor,
                                  cleave_error *error) {
    int64_t size, file_size;
    if ((int)tensor->kind < 0 || tensor->kind > CLEAVE_TENSOR_CONSTANT || (int)tensor->type < 0 ||
        tensor->type > CLEAVE_I64)
        return cleave_fail(error, CLEAVE_FAILED, "tensor %s has kind %d and type %d", tensor->name,
                           (int)tensor->kind, (int)tensor->type);
    if (!shape_size(tensor->rank, tensor->shape, &size))
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "tensor %s has an empty dimension or more than 2^46 elements",
                           tensor->name);
    if (!is_permutation(tensor->order, tensor->rank))
        return cleave_fail(error, CLEAVE_FAILED,
                           "tensor %s has a memory order that leaves out a "
                           "dimension",
                           tensor->name);
    if (tensor->file_rank < 0 || tensor->file_rank > CLEAVE_MAX_RANK ||
        (tensor->file_rank > 0 &&
         (!shape_size(tensor->file_rank, tensor->file_shape, &file_size) || file_size != size)))
        return cleave_fail(error, CLEAVE_FAILED,
                           "tensor %s has another number of elements in its file", tensor->name);
    if (tensor->kind == CLEAVE_TENSOR_CONSTANT && tensor->value == NULL)
        return cleave_fail(error, CLEAVE_FAILED, "constant %s has no value", tensor->name);
    if (tensor->kind == CLEAVE_TENSOR_PARAMETER && tensor->type != CLEAVE_F32)
        return cleave_fail(error, CLEAVE_FAILED, "parameter %s is not of type f32", tensor->name);
    if (tensor->view.kind == CLEAVE_VIEW_NONE)
        return CLEAVE_OK;
    if (tensor->kind != CLEAVE_TENSOR_ACTIVATION ||
        model->tensors[tensor->view.sources[0]].type != tensor->type || !view_fits(model, tensor))
        return cleave_fail(error, CLEAVE_FAILED, "view %s does not fit its source %s", tensor->name,
                           model->tensors[tensor->view.sources[0]].name);
    return CLEAVE_OK;
}

/* names is sorted in place. */
static cleave_status check_unique(const char **names, int32_t n, const char *what,
                                  cleave_error *error) {
    CLEAVE_SORT(names, n, cleave_order_strings);
    for (int32_t i = 1; i < n; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return cleave_fail(error, CLEAVE_FAILED, "two %s are named %s", what, names[i]);
    return CLEAVE_OK;
}

static cleave_status check_names(const cleave_model *model, cleave_error *error) {
    int32_t most = model->n_tensors > model->n_nests ? model->n_tensors : model->n_nests;
    most = most > model->n_operators ? most : model->n_operators;
    const char **names = calloc((size_t)most + 1, sizeof *names);
    if (names == NULL)
        return cleave_fail_memory(error, "checking a model");
    for (int32_t i = 0; i < model->n_tensors; i++)
        names[i] = model->tensors[i].name;
    cleave_status status = check_unique(names, model->n_tensors, "tensors", error);
    for (int32_t i = 0; i < model->n_nests; i++)
        names[i] = model->nests[i].name;
    if (status == CLEAVE_OK)
        status = check_unique(names, model->n_nests, "nests", error);
    for (int32_t i = 0; i < model->n_operators; i++)
        names[i] = model->operators[i].name;
    if (status == CLEAVE_OK)
        status = check_unique(names, model->n_operators, "operators", error);
    free(names);
    return status;
}

/* ---- nests ------------------------------------------------------------------------------- */

static cleave_status check_axes(const char *owner, const cleave_axis *axes, int n,
                                cleave_error *error) {
    for (int i = 0; i < n; i++) {
        if (axes[i].name == NULL || axes[i].extent < 1 || axes[i].extent > CLEAVE_MOST_ELEMENTS)
            return cleave_fail(error, CLEAVE_FAILED, "axis %d of %s has extent %lld", i, owner,
                               (long long)axes[i].extent);
        for (int j = 0; j < i; j++)
            if (strcmp(axes[i].name, axes[j].name) == 0)
                return cleave_fail(error, CLEAVE_FAILED, "%s has two axes %s", owner, axes[i].name);
    }
    return CLEAVE_OK;
}

static cleave_status check_derivation(const cleave_model *model, const cleave_nest *nest,
                                      cleave_error *error) {
    if (nest->derivation == CLEAVE_DERIVE_OWNERS) {
        const cleave_nest *from = &model->nests[nest->owners_of];
        const cleave_tensor *output = &model->tensors[from->output.tensor];
        bool fits = from->op == nest->op && nest->n_axes == output->rank;
        for (int i = 0; fits && i < nest->n_axes; i++)
            fits = nest->axes[i].extent == output->shape[i];
        return fits ? CLEAVE_OK
                    : cleave_fail(error, CLEAVE_FAILED,
                                  "axes of nest %s are not the dimensions of %s, which it follows",
                                  nest->name, output->name);
    }
    const cleave_operator *op = &model->operators[nest->op];
    unsigned seen = 0;
    for (int i = 0; i < nest->n_axes; i++) {
        int axis = nest->operator_axis[i];
        if (axis == -1 && nest->axes[i].whole)
            continue;
        if (axis < 0 || axis >= op->n_axes || (seen >> axis & 1u) != 0 ||
            op->axes[axis].extent != nest->axes[i].extent ||
            (nest->axes[i].whole && !op->axes[axis].whole))
            return cleave_fail(error, CLEAVE_FAILED, "axis %s of nest %s does not fit operator %s",
                               nest->axes[i].name, nest->name, op->name);
        seen |= 1u << axis;
    }
    return CLEAVE_OK;
}

/* Least and greatest index of a map; false when they do not fit 64 bits. */
static bool map_range(const cleave_nest *nest, const cleave_dimension_map *map, int64_t *least,
                      int64_t *greatest) {
    *least = *greatest = map->offset;
    for (int t = 0; t < map->n_terms; t++) {
        int64_t reach;
        if (!cleave_int64_multiply(nest->axes[map->terms[t].axis].extent - 1, map->terms[t].stride,
                                   &reach) ||
            !cleave_int64_add(*greatest, reach, greatest))
            return false;
    }
    return map->offset > -CLEAVE_MOST_ELEMENTS && *greatest < 4 * CLEAVE_MOST_ELEMENTS;
}

static cleave_status check_input_maps(const cleave_model *model, const cleave_nest *nest,
                                      cleave_error *error) {
    bool windows = nest->kind == CLEAVE_NEST_CONVOLUTION || nest->kind == CLEAVE_NEST_POOL;
    for (int i = 0; i < nest->n_inputs; i++) {
        const cleave_tensor *tensor = &model->tensors[nest->inputs[i].tensor];
        for (int d = 0; d < tensor->rank; d++) {
            int64_t least, greatest;
            bool fits = map_range(nest, &nest->inputs[i].map[d], &least, &greatest);
            if (!fits || (!windows && (least < 0 || greatest >= tensor->shape[d])))
                return cleave_fail(error, CLEAVE_FAILED,
                                   "nest %s reads dimension %d of %s (%lld) from %lld to %lld",
                                   nest->name, d, tensor->name, (long long)tensor->shape[d],
                                   (long long)least, (long long)greatest);
        }
    }
    return CLEAVE_OK;
}

/* A map of the output is a mixed radix of its axes: every index is met exactly once. */
static bool map_covers(const cleave_nest *nest, const cleave_dimension_map *map, int64_t extent) {
    int64_t radix = 1;
    if (map->offset != 0)
        return false;
    for (int t = map->n_terms - 1; t >= 0; t--) {
        if (map->terms[t].stride != radix)
            return false;
        if (!cleave_int64_multiply(radix, nest->axes[map->terms[t].axis].extent, &radix) ||
            radix > CLEAVE_MOST_ELEMENTS || radix < 1)
            return false;
    }
    return radix == extent;
}

static cleave_status check_output(const cleave_model *model, const cleave_nest *nest,
                                  cleave_error *error) {
    const cleave_tensor *output = &model->tensors[nest->output.tensor];
    if (output->kind != CLEAVE_TENSOR_ACTIVATION || output->view.kind != CLEAVE_VIEW_NONE)
        return cleave_fail(error, CLEAVE_FAILED, "nest %s writes %s, which is no base activation",
                           nest->name, output->name);
    unsigned mapped = 0;
    for (int d = 0; d < output->rank; d++) {
        const cleave_dimension_map *map = &nest->output.map[d];
        bool fits = map_covers(nest, map, output->shape[d]);
        for (int t = 0; t < map->n_terms; t++) {
            fits = fits && (mapped >> map->terms[t].axis & 1u) == 0;
            mapped |= 1u << map->terms[t].axis;
        }
        if (!fits)
            return cleave_fail(error, CLEAVE_FAILED,
                               "nest %s does not write every index of dimension %d of %s once",
                               nest->name, d, output->name);
    }
    bool missing = mapped != (1u << nest->n_axes) - 1u;
    if (nest->combiner == CLEAVE_COMBINE_NONE ? missing
                                              : !missing && nest->kind == CLEAVE_NEST_POINTWISE)
        return cleave_fail(error, CLEAVE_FAILED,
                           "nest %s has combiner %d, but its output lacks %s axis", nest->name,
                           (int)nest->combiner, missing ? "an" : "no");
    if (nest->kind == CLEAVE_NEST_POINTWISE && nest->combiner != CLEAVE_COMBINE_NONE)
        return cleave_fail(error, CLEAVE_FAILED, "pointwise nest %s has a combiner", nest->name);
    if ((nest->kind == CLEAVE_NEST_MOMENTS) != (nest->combiner == CLEAVE_COMBINE_MOMENTS))
        return cleave_fail(error, CLEAVE_FAILED, "nest %s combines moments and is of kind %d",
                           nest->name, (int)nest->kind);
    return CLEAVE_OK;
}

static cleave_status check_gather(const cleave_nest *nest, cleave_error *error) {
    int v = nest->kind == CLEAVE_NEST_GATHER ? cleave_gather_axis(nest) : 0;
    return v >= 0 ? CLEAVE_OK
                  : cleave_fail(error, CLEAVE_FAILED, "nest %s gathers, but not by the tape for it",
                                nest->name);
}

/* Dimension 0 of moments is the record, on an axis that nothing else has. */
static cleave_status check_moments(const cleave_model *model, const cleave_nest *nest,
                                   cleave_error *error) {
    const cleave_tensor *output = &model->tensors[nest->output.tensor];
    if (nest->combiner != CLEAVE_COMBINE_MOMENTS)
        return CLEAVE_OK;
    bool fits = output->rank >= 1 && output->shape[0] == 3 && nest->output.map[0].n_terms == 1 &&
                nest->derivation == CLEAVE_DERIVE_OPERATOR;
    int record = fits ? nest->output.map[0].terms[0].axis : 0;
    fits = fits && nest->operator_axis[record] == -1;
    for (int i = 0; fits && i < nest->n_inputs; i++)
        for (int d = 0; d < model->tensors[nest->inputs[i].tensor].rank; d++)
            for (int t = 0; t < nest->inputs[i].map[d].n_terms; t++)
                fits = fits && nest->inputs[i].map[d].terms[t].axis != record;
    return fits ? CLEAVE_OK
                : cleave_fail(error, CLEAVE_FAILED,
                              "nest %s combines moments, but dimension 0 of %s is no record of 3",
                              nest->name, output->name);
}

/* Marks what nests read, and what views see. */
static void mark_read(const cleave_model *model, bool *is_read) {
    for (int32_t n = 0; n < model->n_nests; n++)
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            is_read[model->nests[n].inputs[i].tensor] = true;
    for (int32_t t = 0; t < model->n_tensors; t++)
        for (int32_t i = 0; i < model->tensors[t].view.n_sources; i++)
            is_read[model->tensors[t].view.sources[i]] = true;
    for (int32_t i = 0; i < model->n_outputs; i++)
        is_read[model->outputs[i]] = true;
    for (int32_t i = 0; i < model->n_assignments; i++)
        is_read[model->assignments[i].source] = true;
}

static cleave_status check_written(const cleave_model *model, const bool *is_read,
                                   cleave_error *error) {
    for (int32_t n = 0; n < model->n_nests; n++) {
        const cleave_nest *nest = &model->nests[n];
        if (model->writer[nest->output.tensor] != n - nest->turn ||
            model->writer[cleave_nest_combined(nest)->tensor] != n - nest->turn)
            return cleave_fail(error, CLEAVE_FAILED, "tensor %s is written by two nests",
                               model->tensors[nest->output.tensor].name);
    }
    for (int32_t t = 0; t < model->n_tensors; t++) {
        const cleave_tensor *tensor = &model->tensors[t];
        bool base =
            tensor->kind == CLEAVE_TENSOR_ACTIVATION && tensor->view.kind == CLEAVE_VIEW_NONE;
        if (base != (model->writer[t] >= 0) && (!base || is_read[t]))
            return cleave_fail(error, CLEAVE_FAILED, "tensor %s is %s by a nest", tensor->name,
                               base ? "an activation and not written" : "written");
    }
    return CLEAVE_OK;
}

/* Nests read only what earlier ones have written.  last: [n_tensors], the latest nest behind each
   tensor, views included. */
static cleave_status check_order(const cleave_model *model, int32_t *last, cleave_error *error) {
    for (int32_t t = 0; t < model->n_tensors; t++) {
        const cleave_view *view = &model->tensors[t].view;
        last[t] = model->writer[t];
        for (int32_t i = 0; view->kind != CLEAVE_VIEW_NONE && i < view->n_sources; i++)
            if (last[view->sources[i]] > last[t])
                last[t] = last[view->sources[i]];
    }
    for (int32_t n = 0; n < model->n_nests; n++)
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            if (last[model->nests[n].inputs[i].tensor] >= n)
                return cleave_fail(error, CLEAVE_FAILED, "nest %s reads %s before it is written",
                                   model->nests[n].name,
                                   model->tensors[model->nests[n].inputs[i].tensor].name);
    return CLEAVE_OK;
}

static cleave_status check_ends(const cleave_model *model, cleave_error *error) {
    for (int32_t i = 0; i < model->n_assignments; i++) {
        const cleave_tensor *target = &model->tensors[model->assignments[i].target];
        const cleave_tensor *source = &model->tensors[model->assignments[i].source];
        bool fits = target->kind == CLEAVE_TENSOR_BUFFER &&
                    source->kind == CLEAVE_TENSOR_ACTIVATION && target->rank == source->rank;
        for (int d = 0; fits && d < target->rank; d++)
            fits = target->shape[d] == source->shape[d];
        if (!fits)
            return cleave_fail(error, CLEAVE_FAILED, "%s can't be assigned to %s", source->name,
                               target->name);
    }
    if (model->loss >= 0 &&
        (model->tensors[model->loss].rank != 0 || model->writer[model->loss] < 0))
        return cleave_fail(error, CLEAVE_FAILED, "the loss %s is not a scalar that a nest writes",
                           model->tensors[model->loss].name);
    return CLEAVE_OK;
}

cleave_status cleave_model_check(const cleave_model *model, cleave_error *error) {
    CLEAVE_TRY(cleave_model_check_references(model, error));
    CLEAVE_TRY(check_names(model, error));
    for (int32_t t = 0; t < model->n_tensors; t++)
        CLEAVE_TRY(check_tensor(model, &model->tensors[t], error));
    for (int32_t i = 0; i < model->n_operators; i++)
        CLEAVE_TRY(check_axes(model->operators[i].name, model->operators[i].axes,
                              model->operators[i].n_axes, error));
    for (int32_t n = 0; n < model->n_nests; n++) {
        const cleave_nest *nest = &model->nests[n];
        CLEAVE_TRY(check_axes(nest->name, nest->axes, nest->n_axes, error));
        CLEAVE_TRY(check_derivation(model, nest, error));
        CLEAVE_TRY(check_input_maps(model, nest, error));
        CLEAVE_TRY(check_output(model, nest, error));
        CLEAVE_TRY(check_moments(model, nest, error));
        CLEAVE_TRY(check_gather(nest, error));
    }
    CLEAVE_TRY(check_ends(model, error));
    int32_t *last = calloc((size_t)model->n_tensors + 1, sizeof *last);
    bool *is_read = calloc((size_t)model->n_tensors + 1, sizeof *is_read);
    cleave_status status =
        last != NULL && is_read != NULL ? CLEAVE_OK : cleave_fail_memory(error, "checking a model");
    if (status == CLEAVE_OK) {
        mark_read(model, is_read);
        status = check_written(model, is_read, error);
    }
    if (status == CLEAVE_OK)
        status = check_order(model, last, error);
    free(is_read);
    free(last);
    return status;
}
