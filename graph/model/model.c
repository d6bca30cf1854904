/* A model's small questions: sizes, strides, names, and which inputs a backward pass is about. */
#include "graph/model/model_internal.h"

#include <string.h>

const char *const cleave_pass_names[4] = {"forward", "input-gradient", "weight-gradient", "update"};

int64_t cleave_tensor_size(const cleave_tensor *tensor) {
    int64_t size = 1;
    for (int d = 0; d < tensor->rank; d++)
        size *= tensor->shape[d];
    return size;
}

bool cleave_tensor_sees_parameter(const cleave_model *model, int32_t tensor) {
    const cleave_tensor *of = &model->tensors[tensor];
    if (of->view.kind == CLEAVE_VIEW_NONE)
        return of->kind == CLEAVE_TENSOR_PARAMETER;
    for (int32_t i = 0; i < of->view.n_sources; i++)
        if (cleave_tensor_sees_parameter(model, of->view.sources[i]))
            return true;
    return false;
}

bool cleave_tensor_sees(const cleave_model *model, int32_t tensor, int32_t of) {
    const cleave_view *view = &model->tensors[tensor].view;
    bool sees = tensor == of;
    for (int32_t i = 0; i < view->n_sources && !sees; i++)
        sees = cleave_tensor_sees(model, view->sources[i], of);
    return sees;
}

int32_t cleave_tensor_base(const cleave_model *model, int32_t tensor) {
    while (model->tensors[tensor].view.kind != CLEAVE_VIEW_NONE)
        tensor = model->tensors[tensor].view.sources[0];
    return tensor;
}

int32_t cleave_tensor_writer(const cleave_model *model, int32_t tensor) {
    return model->writer[cleave_tensor_base(model, tensor)];
}

static void note_reader(const cleave_model *model, int32_t tensor, int32_t op, int32_t *last) {
    const cleave_tensor *of = &model->tensors[tensor];
    if (of->view.kind == CLEAVE_VIEW_NONE && op > last[tensor])
        last[tensor] = op;
    for (int32_t s = 0; s < of->view.n_sources; s++)
        note_reader(model, of->view.sources[s], op, last);
}

void cleave_model_count_readers(const cleave_model *model, int32_t *readers) {
    for (int32_t n = 0; n < model->n_nests; n++)
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            readers[model->nests[n].inputs[i].tensor]++;
    for (int32_t t = 0; t < model->n_tensors; t++)
        for (int32_t s = 0; s < model->tensors[t].view.n_sources; s++)
            readers[model->tensors[t].view.sources[s]]++;
    for (int32_t o = 0; o < model->n_outputs; o++)
        readers[model->outputs[o]]++;
    for (int32_t a = 0; a < model->n_assignments; a++)
        readers[model->assignments[a].source]++;
}

void cleave_model_last_readers(const cleave_model *model, int32_t *last) {
    for (int32_t t = 0; t < model->n_tensors; t++)
        last[t] = -1;
    for (int32_t n = 0; n < model->n_nests; n++)
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            note_reader(model, model->nests[n].inputs[i].tensor, model->nests[n].op, last);
}

bool cleave_operand_maps_axis(const cleave_operand *operand, int rank, int axis) {
    for (int d = 0; d < rank; d++)
        for (int t = 0; t < operand->map[d].n_terms; t++)
            if (operand->map[d].terms[t].axis == axis)
                return true;
    return false;
}

void cleave_tensor_strides(const cleave_tensor *tensor, const cleave_box *box, int64_t *strides) {
    int64_t stride = 1;
    for (int i = tensor->rank - 1; i >= 0; i--) {
        int d = tensor->order[i];
        strides[d] = stride;
        stride *= box->hi[d] > box->lo[d] ? box->hi[d] - box->lo[d] : 0;
    }
}

int64_t cleave_model_parameter_count(const cleave_model *model) {
    int64_t count = 0;
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (model->tensors[t].kind == CLEAVE_TENSOR_PARAMETER)
            count += cleave_tensor_size(&model->tensors[t]);
    return count;
}

int32_t cleave_model_find_operator(const cleave_model *model, const char *name) {
    for (int32_t i = 0; i < model->n_operators; i++)
        if (strcmp(model->operators[i].name, name) == 0)
            return i;
    return -1;
}

int32_t cleave_model_find_tensor(const cleave_model *model, const char *name) {
    for (int32_t i = 0; i < model->n_tensors; i++)
        if (strcmp(model->tensors[i].name, name) == 0)
            return i;
    return -1;
}

/* A parameter, or a view with nothing but parameters behind it.  A concatenation is looked at
   through its first source that decides: views are trees, and sources have smaller ids. */
static bool is_parameter(const cleave_model *model, int32_t id) {
    const cleave_tensor *tensor = &model->tensors[id];
    if (tensor->view.kind == CLEAVE_VIEW_NONE)
        return tensor->kind == CLEAVE_TENSOR_PARAMETER;
    for (int32_t i = 0; i < tensor->view.n_sources; i++)
        if (!is_parameter(model, tensor->view.sources[i]))
            return false;
    return tensor->view.n_sources > 0;
}

uint32_t cleave_nest_pass_inputs(const cleave_model *model, const cleave_nest *nest,
                                 cleave_pass pass) {
    if (pass != CLEAVE_PASS_INPUT_GRADIENT && pass != CLEAVE_PASS_WEIGHT_GRADIENT)
        return 0;
    bool weights = pass == CLEAVE_PASS_WEIGHT_GRADIENT;
    if (nest->kind != CLEAVE_NEST_CONVOLUTION && nest->kind != CLEAVE_NEST_PRODUCT)
        return weights ? 0 : nest->gradient_inputs;
    uint32_t inputs = 0;
    for (int i = 0; i < nest->n_inputs; i++)
        if (is_parameter(model, nest->inputs[i].tensor) == weights)
            inputs |= UINT32_C(1) << i;
    return inputs & nest->gradient_inputs;
}

bool cleave_nest_adds(const cleave_model *model, const cleave_nest *nest, int input,
                      cleave_pass pass) {
    switch (nest->kind) {
    case CLEAVE_NEST_PRODUCT:
        return pass == CLEAVE_PASS_WEIGHT_GRADIENT ||
               !cleave_type_is_short(model->tensors[nest->inputs[input].tensor].stored);
    case CLEAVE_NEST_MOMENTS:
    case CLEAVE_NEST_POINTWISE:
    case CLEAVE_NEST_REDUCE:
    case CLEAVE_NEST_GATHER:
        return true;
    case CLEAVE_NEST_CONVOLUTION:
    case CLEAVE_NEST_POOL:
    case CLEAVE_NEST_ATTENTION:
        return false;
    }
    return false;
}
