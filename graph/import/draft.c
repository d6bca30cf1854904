/* Tensors, views and operators under construction. */
#include "base/checked.h"
#include "graph/import/internal.h"

#include <string.h>

int64_t cleave_shape_size(int rank, const int64_t *shape) {
    int64_t size = 1;
    for (int d = 0; d < rank; d++)
        size *= shape[d];
    return size;
}

/* Every tensor passes here, so sizes of tensors of the model may be multiplied without checks. */
static cleave_status check_shape(cleave_importer *im, const char *name, int rank,
                                 const int64_t *shape) {
    int64_t size = 1;
    if (rank > CLEAVE_MAX_RANK)
        return cleave_import_fail(im, "%s has rank %d, at most %d is supported", name, rank,
                                  CLEAVE_MAX_RANK);
    for (int d = 0; d < rank; d++) {
        if (shape[d] < 1)
            return cleave_import_fail(im, "dimension %d of %s is %lld, it has to be 1 or more", d,
                                      name, (long long)shape[d]);
        if (!cleave_int64_multiply(size, shape[d], &size) || size > CLEAVE_MOST_ELEMENTS)
            return cleave_import_fail(im, "%s has more than 2^46 elements", name);
    }
    return CLEAVE_OK;
}

const char *cleave_import_axis_name(int rank, int dimension) {
    static const char *const names[][5] = {
        {"n"}, {"n", "c"}, {"n", "c", "w"}, {"n", "c", "h", "w"}, {"n", "c", "d", "h", "w"}};
    static const char *const many[] = {"d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7"};
    return rank <= 5 ? names[rank - 1][dimension] : many[dimension];
}

static void set_order(cleave_tensor *tensor, bool channels_last) {
    bool last = channels_last && tensor->rank >= 4;
    for (int i = 0; i < tensor->rank; i++)
        tensor->order[i] = !last || i == 0 ? i : i == tensor->rank - 1 ? 1 : i + 1;
}

static cleave_status check_room(cleave_importer *im, int32_t n, const char *what) {
    if (n >= CLEAVE_MOST_DRAFTS)
        return cleave_import_fail(im, "up to here the model has more than %d %s",
                                  CLEAVE_MOST_DRAFTS, what);
    return CLEAVE_OK;
}

/* Walks through views cost what they have in depth and in pieces. */
static cleave_status measure_views(cleave_importer *im, cleave_draft_tensor *draft) {
    const cleave_view *view = &draft->tensor.view;
    draft->depth = 0;
    draft->leaves = view->kind == CLEAVE_VIEW_NONE ? 1 : 0;
    for (int32_t i = 0; view->kind != CLEAVE_VIEW_NONE && i < view->n_sources; i++) {
        const cleave_draft_tensor *source = &im->tensors.items[view->sources[i]];
        draft->depth = source->depth >= draft->depth ? source->depth + 1 : draft->depth;
        draft->leaves += source->leaves;
    }
    if (draft->depth > CLEAVE_MAX_VIEW_DEPTH || draft->leaves > CLEAVE_MAX_VIEW_LEAVES)
        return cleave_import_fail(im,
                                  "makes a view that is stacked %d deep over %lld pieces, "
                                  "supported are %d and %d",
                                  (int)draft->depth, (long long)draft->leaves,
                                  CLEAVE_MAX_VIEW_DEPTH, CLEAVE_MAX_VIEW_LEAVES);
    return CLEAVE_OK;
}

static cleave_status push_tensor(cleave_importer *im, cleave_draft_tensor *draft, int32_t *id) {
    const char *name = draft->tensor.name != NULL ? draft->tensor.name : draft->suffix;
    CLEAVE_TRY(check_shape(im, name, draft->tensor.rank, draft->tensor.shape));
    CLEAVE_TRY(check_room(im, im->tensors.n, "tensors"));
    CLEAVE_TRY(measure_views(im, draft));
    int32_t at = im->tensors.n;
    if (!CLEAVE_LIST_PUSH(&im->tensors, *draft))
        return cleave_import_no_memory(im);
    *id = at;
    return CLEAVE_OK;
}

static void name_axes(cleave_draft_tensor *draft) {
    for (int d = 0; d < draft->tensor.rank; d++)
        draft->axes[d] = cleave_import_axis_name(draft->tensor.rank, d);
}

static cleave_draft_tensor draft_of(const char *name, int rank, const int64_t *shape) {
    cleave_draft_tensor draft = {.tensor = {.name = name, .rank = rank}, .op = -1};
    for (int d = 0; d < rank && rank <= CLEAVE_MAX_RANK; d++)
        draft.tensor.shape[d] = shape[d];
    if (rank <= CLEAVE_MAX_RANK) {
        name_axes(&draft);
        set_order(&draft.tensor, false);
    }
    return draft;
}

cleave_status cleave_import_new_tensor(cleave_importer *im, cleave_new_tensor what,
                                       int32_t *tensor) {
    cleave_draft_tensor draft = draft_of(what.name, what.rank, what.shape);
    draft.tensor.kind = CLEAVE_TENSOR_ACTIVATION;
    draft.op = what.op;
    draft.suffix = what.suffix;
    if (what.like >= 0 && im->tensors.items[what.like].tensor.rank == what.rank) {
        const cleave_draft_tensor *like = &im->tensors.items[what.like];
        memcpy(draft.axes, like->axes, sizeof draft.axes);
        draft.channels_last = like->channels_last;
        memcpy(draft.tensor.order, like->tensor.order, sizeof draft.tensor.order);
    }
    return push_tensor(im, &draft, tensor);
}

cleave_status cleave_import_constant_tensor(cleave_importer *im, cleave_new_tensor what,
                                            const float *values, int32_t *tensor) {
    CLEAVE_TRY(cleave_import_new_tensor(im, what, tensor));
    im->tensors.items[*tensor].tensor.kind = CLEAVE_TENSOR_CONSTANT;
    im->tensors.items[*tensor].tensor.value = values;
    return CLEAVE_OK;
}

/* A constant of the file, or a parameter or buffer with its value. */
static void take_value(cleave_draft_tensor *draft, const cleave_onnx_tensor *from) {
    bool is_float = from->floats != NULL;
    draft->tensor.type = is_float ? CLEAVE_F32 : CLEAVE_I64;
    draft->tensor.value = is_float ? (const void *)from->floats : (const void *)from->integers;
}

static cleave_status source_tensor(cleave_importer *im, const cleave_value *value,
                                   cleave_draft_tensor *draft) {
    if (value->initializer != NULL) {
        *draft = draft_of(value->name, value->initializer->rank, value->initializer->shape);
        take_value(draft, value->initializer);
        draft->tensor.kind =
            value->running || value->chooses ? CLEAVE_TENSOR_BUFFER : CLEAVE_TENSOR_PARAMETER;
    } else {
        const cleave_onnx_value *input = value->input;
        if (input->type != CLEAVE_ONNX_FLOAT && input->type != CLEAVE_ONNX_INT64 &&
            input->type != CLEAVE_ONNX_INT32 && input->type != CLEAVE_ONNX_BOOL)
            return cleave_import_fail(
                im, "graph input %s has type %s, supported are FLOAT, INT64, INT32 and BOOL",
                value->name, cleave_onnx_type_name(input->type));
        if (!input->has_shape)
            return cleave_import_fail(im, "graph input %s has no shape", value->name);
        int64_t shape[CLEAVE_MAX_RANK] = {0};
        const char *why;
        for (int d = 0; d < input->rank; d++)
            shape[d] = input->symbols[d] != NULL ? im->batch : input->shape[d];
        *draft = draft_of(value->name, input->rank, shape);
        draft->tensor.type = input->type == CLEAVE_ONNX_FLOAT ? CLEAVE_F32 : CLEAVE_I64;
        draft->tensor.truth = input->type == CLEAVE_ONNX_BOOL;
        draft->tensor.kind = cleave_import_input_kind(im, value, &why);
        draft->channels_last = draft->tensor.kind == CLEAVE_TENSOR_DATA && im->is_convolutional;
        set_order(&draft->tensor, draft->channels_last);
    }
    if (value->running)
        draft->tensor.initial_value = value->starts_at_one ? 1.0f : 0.0f;
    return CLEAVE_OK;
}

cleave_status cleave_import_value_tensor(cleave_importer *im, cleave_value *value,
                                         int32_t *tensor) {
    cleave_draft_tensor draft;
    if (value->state == CLEAVE_VALUE_TENSOR || value->has_tensor) {
        *tensor = value->tensor;
        return CLEAVE_OK;
    }
    if (value->state == CLEAVE_VALUE_UNKNOWN)
        return cleave_import_fail(im, "input %s is not defined", value->name);
    if (value->state == CLEAVE_VALUE_CONSTANT) {
        draft = draft_of(value->name, value->constant.rank, value->constant.shape);
        take_value(&draft, &value->constant);
        draft.tensor.kind = CLEAVE_TENSOR_CONSTANT;
    } else {
        CLEAVE_TRY(source_tensor(im, value, &draft));
    }
    CLEAVE_TRY(push_tensor(im, &draft, tensor));
    /* A constant stays one, so that it can be folded elsewhere too. */
    value->has_tensor = value->state == CLEAVE_VALUE_CONSTANT;
    if (value->state == CLEAVE_VALUE_SOURCE) {
        value->state = CLEAVE_VALUE_TENSOR;
        value->shared = false;
    }
    value->tensor = *tensor;
    return CLEAVE_OK;
}

cleave_status cleave_import_tensor(cleave_importer *im, int i, int32_t *tensor) {
    if (!cleave_import_has_input(im, i))
        return cleave_import_fail(im, "input %d is missing", i);
    return cleave_import_value_tensor(im, cleave_import_input(im, i), tensor);
}

int32_t cleave_import_type(const cleave_value *value) {
    if (value->type != 0)
        return value->type;
    if (value->state == CLEAVE_VALUE_CONSTANT)
        return value->constant.type;
    if (value->initializer != NULL)
        return value->initializer->type;
    return value->input != NULL ? value->input->type : 0;
}

void cleave_import_set_type(cleave_importer *im, int i, int32_t type) {
    cleave_import_output(im, i)->type = type;
}

void cleave_import_set_output(cleave_importer *im, int i, int32_t tensor, bool shared) {
    cleave_value *value = cleave_import_output(im, i);
    value->state = CLEAVE_VALUE_TENSOR;
    value->tensor = tensor;
    value->shared = shared;
    value->type = cleave_import_has_input(im, 0) ? cleave_import_type(cleave_import_input(im, 0))
                                                 : (int32_t)CLEAVE_ONNX_FLOAT;
}

/* n h w c seen as n c h w lies as a convolution likes it, without being moved. */
static bool brings_channels_forward(const cleave_tensor *source, const cleave_view *view) {
    bool plain = source->rank >= 4;
    for (int d = 0; d < source->rank; d++)
        plain = plain && source->order[d] == d &&
                view->permutation[d] == (d < 2 ? d * (source->rank - 1) : d - 1);
    return plain;
}

cleave_status cleave_import_new_view(cleave_importer *im, const char *name, cleave_view view,
                                     int rank, const int64_t *shape, int32_t *tensor) {
    const cleave_draft_tensor *source = &im->tensors.items[view.sources[0]];
    cleave_draft_tensor draft = draft_of(name, rank, shape);
    draft.tensor.kind = CLEAVE_TENSOR_ACTIVATION;
    draft.tensor.type = source->tensor.type;
    if (view.kind == CLEAVE_VIEW_TRANSPOSE) {
        for (int d = 0; d < rank; d++)
            draft.axes[d] = source->axes[view.permutation[d]];
        draft.channels_last =
            im->is_convolutional && brings_channels_forward(&source->tensor, &view);
        set_order(&draft.tensor, draft.channels_last);
    } else if (view.kind != CLEAVE_VIEW_RESHAPE) {
        memcpy(draft.axes, source->axes, sizeof draft.axes);
        draft.channels_last = source->channels_last;
        set_order(&draft.tensor, draft.channels_last);
    }
    int32_t *sources = CLEAVE_ARENA_ARRAY(im->arena, int32_t, view.n_sources);
    if (sources == NULL)
        return cleave_import_no_memory(im);
    memcpy(sources, view.sources, (size_t)view.n_sources * sizeof *sources);
    view.sources = sources;
    draft.tensor.view = view;
    return push_tensor(im, &draft, tensor);
}

bool cleave_has_shape(const cleave_tensor *tensor, int rank, const int64_t *shape) {
    bool same = tensor->rank == rank;
    for (int d = 0; same && d < rank; d++)
        same = tensor->shape[d] == shape[d];
    return same;
}

bool cleave_import_is_shared(cleave_importer *im, int i) {
    const cleave_value *value = cleave_import_input(im, i);
    return value->shared || value->n_uses > 1;
}

void cleave_import_channels_last(cleave_importer *im, int32_t tensor) {
    cleave_draft_tensor *draft = &im->tensors.items[tensor];
    draft->channels_last = true;
    set_order(&draft->tensor, true);
}

static void store_refined(cleave_draft_tensor *draft, int rank, const int64_t *shape) {
    draft->tensor.file_rank = draft->tensor.rank;
    memcpy(draft->tensor.file_shape, draft->tensor.shape, sizeof draft->tensor.shape);
    draft->tensor.rank = rank;
    memcpy(draft->tensor.shape, shape, (size_t)rank * sizeof *shape);
    name_axes(draft);
}

cleave_status cleave_import_refine_tensor(cleave_importer *im, int32_t source, bool shared,
                                          int rank, const int64_t *shape, const int *order,
                                          int32_t *tensor) {
    cleave_draft_tensor *draft = &im->tensors.items[source];
    bool same = cleave_has_shape(&draft->tensor, rank, shape);
    *tensor = source;
    if (draft->tensor.kind == CLEAVE_TENSOR_PARAMETER && !shared) {
        if (!same)
            store_refined(draft, rank, shape);
    } else {
        if (same)
            return CLEAVE_OK;
        const char *name = draft->tensor.name != NULL ? draft->tensor.name : im->node->outputs[0];
        name = cleave_arena_printf(im->arena, "%s.refined", name);
        cleave_view view = {.kind = CLEAVE_VIEW_RESHAPE, .n_sources = 1, .sources = &source};
        if (name == NULL)
            return cleave_import_no_memory(im);
        CLEAVE_TRY(cleave_import_new_view(im, name, view, rank, shape, tensor));
    }
    memcpy(im->tensors.items[*tensor].tensor.order, order, (size_t)rank * sizeof *order);
    return CLEAVE_OK;
}

cleave_status cleave_import_refine(cleave_importer *im, int i, int rank, const int64_t *shape,
                                   const int *order, int32_t *tensor) {
    int32_t source;
    CLEAVE_TRY(cleave_import_tensor(im, i, &source));
    return cleave_import_refine_tensor(im, source, cleave_import_is_shared(im, i), rank, shape,
                                       order, tensor);
}

void cleave_import_initialise(cleave_importer *im, int32_t tensor, int64_t fan_in, float value) {
    cleave_tensor *root = &im->tensors.items[tensor].tensor;
    for (int32_t i = 0; root->view.kind != CLEAVE_VIEW_NONE && i < root->view.n_sources; i++)
        cleave_import_initialise(im, root->view.sources[i], fan_in, value);
    if (root->kind != CLEAVE_TENSOR_PARAMETER || root->fan_in != 0 || root->initial_value != 0)
        return;
    root->fan_in = fan_in;
    root->initial_value = value;
}

/* ---- operators --------------------------------------------------------------------------- */

cleave_status cleave_import_new_operator(cleave_importer *im, bool main_is_fixed, int32_t *op) {
    int32_t at = im->operators.n;
    cleave_draft_operator draft = {.main = im->node,
                                   .suffix = "",
                                   .main_is_fixed = main_is_fixed,
                                   .main_nest = -1,
                                   .tail_nest = -1,
                                   .output = -1};
    if (!CLEAVE_LIST_PUSH(&im->operators, draft))
        return cleave_import_no_memory(im);
    *op = at;
    return CLEAVE_OK;
}

static bool has_axis(const cleave_draft_operator *op, const char *name) {
    for (int i = 0; i < op->n_axes; i++)
        if (strcmp(op->axes[i].name, name) == 0)
            return true;
    return false;
}

int cleave_import_add_axis(cleave_importer *im, int32_t op, const char *name, int64_t extent,
                           bool whole) {
    cleave_draft_operator *draft = &im->operators.items[op];
    const char *unique = name;
    for (int i = 2; unique != NULL && has_axis(draft, unique); i++)
        unique = cleave_arena_printf(im->arena, "%s%d", name, i);
    if (unique == NULL || draft->n_axes == CLEAVE_MAX_AXES)
        return -1;
    draft->axes[draft->n_axes] = (cleave_axis){.name = unique, .extent = extent, .whole = whole};
    return draft->n_axes++;
}

cleave_status cleave_import_add_nest(cleave_importer *im, const cleave_nest *nest,
                                     const char *suffix, int32_t *id) {
    int32_t at = im->nests.n;
    CLEAVE_TRY(check_room(im, at, "nests"));
    if (!CLEAVE_LIST_PUSH(&im->nests, (cleave_draft_nest){.nest = *nest, .suffix = suffix}))
        return cleave_import_no_memory(im);
    if (id != NULL)
        *id = at;
    return CLEAVE_OK;
}

int32_t cleave_import_open_operator(const cleave_importer *im, int32_t tensor, bool shared,
                                    int32_t *base) {
    *base = tensor;
    const cleave_draft_tensor *draft = &im->tensors.items[tensor];
    if (draft->tensor.view.kind == CLEAVE_VIEW_RESHAPE) {
        *base = draft->tensor.view.sources[0]; /* itself no reshape */
        draft = &im->tensors.items[*base];
    }
    if (shared || draft->op < 0 || im->operators.items[draft->op].output != *base)
        return -1;
    return draft->op;
}

/* Puts a pointwise nest after the main one: on the owners of its sum. */
static cleave_status add_epilogue(cleave_importer *im, int32_t op) {
    int32_t output = im->operators.items[op].output, main_nest = im->operators.items[op].main_nest;
    cleave_tensor shape = im->tensors.items[output].tensor;
    int32_t sum;
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){NULL, op, ".z", shape.rank, shape.shape, output}, &sum));
    im->nests.items[main_nest].nest.output.tensor = sum;
    cleave_nest nest = {.kind = CLEAVE_NEST_POINTWISE,
                        .op = op,
                        .derivation = CLEAVE_DERIVE_OWNERS,
                        .owners_of = main_nest};
    cleave_nest_add_input(&nest, sum);
    nest.output.tensor = output;
    for (int d = 0; d < shape.rank; d++) {
        int axis = cleave_nest_add_axis(&nest, im->tensors.items[output].axes[d], shape.shape[d],
                                        false, -1);
        cleave_map_axis(&nest.inputs[0], d, axis);
        cleave_map_axis(&nest.output, d, axis);
    }
    return cleave_import_add_nest(im, &nest, ".epilogue", &im->operators.items[op].tail_nest);
}

cleave_status cleave_import_tail(cleave_importer *im, int32_t op, int n_instructions, int n_inputs,
                                 int32_t *nest) {
    *nest = -1;
    if (im->operators.items[op].tail_nest < 0)
        CLEAVE_TRY(add_epilogue(im, op));
    const cleave_nest *tail = &im->nests.items[im->operators.items[op].tail_nest].nest;
    if (tail->n_instructions + n_instructions <= CLEAVE_MAX_TAPE &&
        tail->n_inputs + n_inputs <= CLEAVE_MAX_INPUTS)
        *nest = im->operators.items[op].tail_nest;
    return CLEAVE_OK;
}
