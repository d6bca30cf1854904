#include "graph/model/precision.h"

#include "graph/model/model_internal.h"

#include <string.h>

static bool is_statistic(const cleave_model *model, const cleave_operand *operand) {
    const cleave_tensor *tensor = &model->tensors[operand->tensor];
    return tensor->kind == CLEAVE_TENSOR_ACTIVATION && tensor->real && tensor->stored == CLEAVE_F32;
}

/* Point by point: of statistics and parameters alone, a statistic. */
static bool reads_statistics_alone(const cleave_model *model, const cleave_nest *nest) {
    bool reads = false;
    for (int i = 0; i < nest->n_inputs; i++) {
        int32_t tensor = nest->inputs[i].tensor;
        if (cleave_type_is_short(model->tensors[tensor].stored) &&
            !cleave_tensor_sees_parameter(model, tensor))
            return false;
        reads = reads || is_statistic(model, &nest->inputs[i]);
    }
    return reads;
}

static bool gives_statistics(const cleave_model *model, const cleave_nest *nest) {
    int32_t last = model->loss >= 0 ? model->writer[model->loss] : -1;
    switch (nest->kind) {
    case CLEAVE_NEST_MOMENTS:
    case CLEAVE_NEST_REDUCE:
        return true;
    case CLEAVE_NEST_POINTWISE:
        return (last >= 0 && nest->op == model->nests[last].op) ||
               reads_statistics_alone(model, nest);
    case CLEAVE_NEST_CONVOLUTION:
    case CLEAVE_NEST_PRODUCT:
    case CLEAVE_NEST_POOL:
    case CLEAVE_NEST_GATHER:
    case CLEAVE_NEST_ATTENTION:
        break;
    }
    return last >= 0 && nest->op == model->nests[last].op;
}

/* A view is stored as its sources are; of several that differ it is a value. */
static cleave_type stored_of(cleave_model *model, int32_t id) {
    cleave_tensor *tensor = &model->tensors[id];
    if (tensor->view.kind == CLEAVE_VIEW_NONE)
        return tensor->stored;
    cleave_type stored = stored_of(model, tensor->view.sources[0]);
    for (int32_t s = 1; s < tensor->view.n_sources; s++)
        if (stored_of(model, tensor->view.sources[s]) != stored)
            stored = !tensor->real                   ? tensor->type
                     : model->precision == CLEAVE_F8 ? CLEAVE_BF16
                                                     : model->precision;
    tensor->stored = tensor->type == CLEAVE_F32 ? stored : tensor->type;
    return tensor->stored;
}

/* Marks base tensors under one that something else than a product with a parameter reads. */
static void mark_read(cleave_model *model, int32_t id) {
    const cleave_view *view = &model->tensors[id].view;
    for (int32_t s = 0; s < view->n_sources; s++)
        mark_read(model, view->sources[s]);
    if (view->n_sources == 0 && model->tensors[id].stored == CLEAVE_F8)
        model->tensors[id].stored = CLEAVE_BF16;
}

static bool multiplies_parameter(const cleave_model *model, const cleave_nest *nest) {
    return (nest->kind == CLEAVE_NEST_PRODUCT || nest->kind == CLEAVE_NEST_CONVOLUTION) &&
           nest->n_inputs == 2 &&
           cleave_tensor_sees_parameter(model, nest->inputs[0].tensor) !=
               cleave_tensor_sees_parameter(model, nest->inputs[1].tensor);
}

/* Under f8 only what products with parameters take is as short as that. */
static void lengthen_others(cleave_model *model) {
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (model->tensors[t].kind == CLEAVE_TENSOR_PARAMETER)
            mark_read(model, t);
    for (int32_t n = 0; n < model->n_nests; n++) {
        const cleave_nest *nest = &model->nests[n];
        for (int i = 0; i < nest->n_inputs && !multiplies_parameter(model, nest); i++)
            mark_read(model, nest->inputs[i].tensor);
        bool attends = nest->kind == CLEAVE_NEST_PRODUCT && !multiplies_parameter(model, nest);
        if (nest->kept_output || nest->kept_combined || attends) /* backward reads it */
            mark_read(model, nest->output.tensor);
    }
    for (int32_t o = 0; o < model->n_outputs; o++)
        mark_read(model, model->outputs[o]);
}

void cleave_model_set_precision(cleave_model *model, cleave_type precision,
                                cleave_type reduce_precision) {
    model->precision = precision;
    model->reduce_precision = reduce_precision;
    for (int32_t t = 0; t < model->n_tensors; t++) {
        cleave_tensor *tensor = &model->tensors[t];
        bool value = tensor->type == CLEAVE_F32 && (tensor->kind == CLEAVE_TENSOR_PARAMETER ||
                                                    tensor->kind == CLEAVE_TENSOR_ACTIVATION);
        tensor->stored = value && (tensor->real || tensor->kind == CLEAVE_TENSOR_PARAMETER)
                             ? precision
                             : tensor->type;
    }
    if (precision == CLEAVE_F8)
        lengthen_others(model);
    for (int32_t n = 0; n < model->n_nests; n++) {
        const cleave_nest *nest = &model->nests[n];
        for (int i = 0; i < nest->n_inputs; i++)
            stored_of(model, nest->inputs[i].tensor);
        cleave_tensor *output = &model->tensors[nest->output.tensor];
        if (cleave_type_is_short(output->stored) && gives_statistics(model, nest))
            output->stored = output->type;
    }
    for (int32_t t = 0; t < model->n_tensors; t++)
        stored_of(model, t);
    for (int32_t n = 0; n < model->n_nests; n++)
        if (model->nests[n].attention != NULL)
            model->tensors[model->nests[n].statistics.tensor].stored = CLEAVE_STATISTICS;
    for (int32_t n = 0; n < model->n_nests; n++)
        model->nests[n].in_place = cleave_nest_can_run_in_place(model, &model->nests[n]);
}

static bool is_whole(const cleave_nest *nest, const cleave_part *part, int axis) {
    return part->lo[axis] == 0 && part->hi[axis] == nest->axes[axis].extent;
}

/* Do boxes of an operand overlap where this axis of one of its dimensions is cut? */
static bool overlaps(const cleave_nest *nest, const cleave_dimension_map *map, int t) {
    for (int i = 0; i < map->n_terms; i++)
        if (i != t && map->terms[i].stride * (nest->axes[map->terms[i].axis].extent - 1) >=
                          map->terms[t].stride)
            return true;
    return false;
}

/* May parts beside this one have more of what is summed over the axes that an operand lacks? */
static bool is_partial(const cleave_model *model, const cleave_nest *nest, const cleave_part *part,
                       const cleave_operand *operand) {
    int rank = model->tensors[operand->tensor].rank;
    for (int a = 0; a < nest->n_axes; a++)
        if (!is_whole(nest, part, a) && !cleave_operand_maps_axis(operand, rank, a))
            return true;
    for (int d = 0; d < rank; d++)
        for (int t = 0; t < operand->map[d].n_terms; t++)
            if (!is_whole(nest, part, operand->map[d].terms[t].axis) &&
                overlaps(nest, &operand->map[d], t))
                return true;
    return false;
}

/* What is sent in short numbers arises in them, as a framework's products give it; what several
   devices have of attention is weighed and merged, and stays exact. */
static cleave_type partial_type(const cleave_model *model, const cleave_nest *nest,
                                int32_t tensor) {
    cleave_type exact = model->tensors[tensor].type;
    return nest->attention != NULL ? exact : cleave_reduce_type(model, tensor, exact);
}

cleave_type cleave_output_type(const cleave_model *model, const cleave_nest *nest,
                               const cleave_part *part) {
    const cleave_tensor *tensor = &model->tensors[nest->output.tensor];
    return cleave_type_is_short(tensor->stored) && is_partial(model, nest, part, &nest->output)
               ? partial_type(model, nest, nest->output.tensor)
               : tensor->stored;
}

cleave_type cleave_gradient_type(const cleave_model *model, const cleave_nest *nest,
                                 const cleave_part *part, int input) {
    const cleave_operand *operand = &nest->inputs[input];
    const cleave_tensor *tensor = &model->tensors[operand->tensor];
    if (!cleave_type_is_short(tensor->stored))
        return tensor->stored;
    if (cleave_tensor_sees_parameter(model, operand->tensor))
        return cleave_exact_type(tensor);
    return is_partial(model, nest, part, operand) ? partial_type(model, nest, operand->tensor)
                                                  : cleave_value_gradient_type(tensor);
}

cleave_type cleave_reduce_type(const cleave_model *model, int32_t tensor, cleave_type type) {
    bool rounds = cleave_type_is_short(model->tensors[tensor].stored) &&
                  !(model->reduces_mixed && cleave_tensor_sees_parameter(model, tensor));
    return rounds && model->reduce_precision != CLEAVE_F32 ? model->reduce_precision : type;
}

int64_t cleave_lasting_bytes(const cleave_tensor *parameter, int optimizer_states) {
    int64_t exact = parameter->needs_gradient ? cleave_type_bytes(cleave_exact_type(parameter)) : 0;
    return cleave_stored_bytes(parameter) +
           exact * (optimizer_states + (cleave_has_master(parameter) ? 1 : 0));
}

static const char *const names[CLEAVE_N_TYPES] = {
    [CLEAVE_F32] = "f32",  [CLEAVE_I64] = "i64", [CLEAVE_BF16] = "bf16",
    [CLEAVE_F16] = "fp16", [CLEAVE_F8] = "fp8",  [CLEAVE_STATISTICS] = "statistics",
};

/* CLEAVE_N_TYPES: of none. */
static cleave_type type_of(const char *name) {
    for (cleave_type type = 0; type < CLEAVE_N_TYPES; type++)
        if ((type == CLEAVE_F32 || cleave_type_is_short(type)) && strcmp(name, names[type]) == 0)
            return type;
    return CLEAVE_N_TYPES;
}

bool cleave_precision_is_known(const char *name) { return type_of(name) != CLEAVE_N_TYPES; }

static cleave_status find(const char *option, const char *known, const char *name,
                          cleave_type *precision, cleave_error *error) {
    cleave_type type = type_of(name != NULL ? name : "f32");
    if (type != CLEAVE_N_TYPES) {
        *precision = type;
        return CLEAVE_OK;
    }
    return cleave_fail(error, CLEAVE_BAD_INPUT, "%s \"%.64s\" is none of %s", option, name, known);
}

cleave_status cleave_model_choose_precision(cleave_model *model, const char *precision,
                                            const char *reduce_precision, cleave_error *error) {
    cleave_type of_values = CLEAVE_F32, of_sums = CLEAVE_F32;
    CLEAVE_TRY(
        find("precision", "\"f32\", \"bf16\", \"fp16\" and \"fp8\"", precision, &of_values, error));
    bool mixed = reduce_precision != NULL && strcmp(reduce_precision, "mixed") == 0;
    if (!mixed)
        CLEAVE_TRY(find("reduce precision", "\"f32\", \"bf16\", \"fp16\" and \"mixed\"",
                        reduce_precision, &of_sums, error));
    cleave_type most = of_values == CLEAVE_F8 ? CLEAVE_BF16 : of_values;
    if (mixed ? of_values == CLEAVE_F32 : of_sums != CLEAVE_F32 && of_sums != most)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "reduce precision \"%s\" goes with another precision than \"%s\"",
                           reduce_precision, names[of_values]);
    of_sums = mixed ? most : of_sums;
    model->reduces_mixed = mixed;
    cleave_model_set_precision(model, of_values, of_sums);
    model->precision_asked = precision != NULL;
    return CLEAVE_OK;
}

const char *cleave_reduce_precision_name(const cleave_model *model) {
    return model->reduces_mixed ? "mixed" : cleave_precision_name(model->reduce_precision);
}

const char *cleave_precision_name(cleave_type precision) { return names[precision]; }

cleave_status cleave_model_check_runs(const cleave_model *model, cleave_error *error) {
    bool runs = model->precision != CLEAVE_F16 && model->precision != CLEAVE_F8;
    return runs ? CLEAVE_OK
                : cleave_fail(error, CLEAVE_BAD_INPUT,
                              "precision \"%s\" has a price, but no kernels: run it as \"bf16\"",
                              names[model->precision]);
}
