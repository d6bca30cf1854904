#include "graph/model/filled.h"

#include <tgmath.h>

/* The axis along which an operand is filled; -1: none. */
static int filled_axis(const cleave_model *model, const cleave_operand *operand) {
    const cleave_tensor *tensor = &model->tensors[operand->tensor];
    const cleave_dimension_map *map = &operand->map[tensor->filled_dimension];
    bool plain = map->n_terms == 1 && map->terms[0].stride == 1 && map->offset == 0;
    return tensor->filled_rows > 0 && plain ? map->terms[0].axis : -1;
}

/* Is the tape 0 where inputs that are filled are, whatever the others are?  They are tried as one
   number. */
static bool keeps_zero(const cleave_nest *nest, uint32_t filled, double other) {
    double registers[CLEAVE_MAX_INPUTS + CLEAVE_MAX_TAPE] = {0}, v = 0;
    for (int i = 0; i < nest->n_inputs; i++)
        registers[i] = (filled >> i & 1) != 0 ? 0 : other;
    for (int i = 0; i < nest->n_instructions; i++) {
        const cleave_instruction *at = &nest->tape[i];
        double a = registers[at->a], b = registers[at->b], p = at->p, q = at->q;
        switch (at->opcode) {
#define ROW(name, operands, value, ...)                                                            \
    case CLEAVE_OP_##name:                                                                         \
        v = (double)(value);                                                                       \
        break;
            CLEAVE_OPCODES(ROW, double, a, b, v, p, q, 1)
#undef ROW
        case CLEAVE_N_OPCODES:
            break;
        }
        registers[nest->n_inputs + i] = v;
    }
    return v >= 0 && v <= 0;
}

static int passes_on_pointwise(const cleave_model *model, const cleave_nest *nest) {
    uint32_t filled = 0;
    int first = -1, axis = -1;
    for (int i = 0; i < nest->n_inputs; i++) {
        int of = filled_axis(model, &nest->inputs[i]);
        if (of >= 0 && first < 0) {
            first = i;
            axis = of;
        }
        filled |= (uint32_t)(of >= 0 && of == axis) << i;
    }
    bool keeps = first >= 0 && keeps_zero(nest, filled, 1.25) && keeps_zero(nest, filled, -2.5);
    return keeps ? first : -1;
}

/* The input whose empty rows are empty rows of the output; -1: none. */
static int passes_on(const cleave_model *model, const cleave_nest *nest) {
    int axis = filled_axis(model, &nest->inputs[0]);
    switch (nest->kind) {
    case CLEAVE_NEST_GATHER:
        return axis >= 0 ? 0 : -1;
    case CLEAVE_NEST_PRODUCT:
        return axis >= 0                                                          ? 0
               : nest->n_inputs == 2 && filled_axis(model, &nest->inputs[1]) >= 0 ? 1
                                                                                  : -1;
    case CLEAVE_NEST_POINTWISE:
        return passes_on_pointwise(model, nest);
    default:
        return -1;
    }
}

static void derive_nest(cleave_model *model, const cleave_nest *nest) {
    int from = nest->n_inputs > 0 ? passes_on(model, nest) : -1;
    if (from < 0)
        return;
    cleave_tensor *output = &model->tensors[nest->output.tensor];
    int axis = filled_axis(model, &nest->inputs[from]);
    for (int d = 0; d < output->rank; d++)
        if (nest->output.map[d].n_terms == 1 && nest->output.map[d].terms[0].axis == axis) {
            output->filled_dimension = d;
            output->filled_rows = model->tensors[nest->inputs[from].tensor].filled_rows;
        }
}

/* Another shape whose dimensions are the same up to those rows has the same rows. */
static void derive_view(cleave_model *model, int32_t t) {
    cleave_tensor *tensor = &model->tensors[t];
    if (tensor->view.kind != CLEAVE_VIEW_RESHAPE)
        return;
    const cleave_tensor *source = &model->tensors[tensor->view.sources[0]];
    for (int d = 0; d <= source->filled_dimension; d++)
        if (d >= tensor->rank || tensor->shape[d] != source->shape[d])
            return;
    tensor->filled_rows = source->filled_rows;
    tensor->filled_dimension = source->filled_dimension;
}

/* Views stand on tensors of smaller ids, and nests are in order; so views are looked at again
   before every nest that reads one. */
static void derive_views_of(cleave_model *model, int32_t t) {
    if (model->tensors[t].view.kind != CLEAVE_VIEW_RESHAPE)
        return;
    derive_views_of(model, model->tensors[t].view.sources[0]);
    derive_view(model, t);
}

void cleave_model_derive_filled(cleave_model *model) {
    bool any = false;
    for (int32_t t = 0; t < model->n_tensors; t++)
        any = any || model->tensors[t].filled_rows > 0;
    for (int32_t n = 0; any && n < model->n_nests; n++) {
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            derive_views_of(model, model->nests[n].inputs[i].tensor);
        derive_nest(model, &model->nests[n]);
    }
}

int cleave_nest_filled_axis(const cleave_model *model, const cleave_nest *nest) {
    int from = nest->kind == CLEAVE_NEST_PRODUCT ? passes_on(model, nest) : -1;
    return from < 0 ? -1 : filled_axis(model, &nest->inputs[from]);
}

double cleave_filled_share(const cleave_model *model, const cleave_nest *nest,
                           const cleave_part *part) {
    int axis = cleave_nest_filled_axis(model, nest);
    if (axis < 0)
        return 1;
    int64_t rows = model->tensors[nest->inputs[passes_on(model, nest)].tensor].filled_rows;
    int64_t end = rows < part->hi[axis] ? rows : part->hi[axis];
    return end <= part->lo[axis]
               ? 0
               : (double)(end - part->lo[axis]) / (double)cleave_part_extent(part, axis);
}

double cleave_model_most_room(const cleave_model *model) {
    double most = 1;
    for (int32_t t = 0; t < model->n_tensors; t++) {
        const cleave_tensor *tensor = &model->tensors[t];
        if (tensor->filled_rows > 0)
            most = fmax(most, (double)tensor->shape[tensor->filled_dimension] /
                                  (double)tensor->filled_rows);
    }
    return most;
}
