/* Nests under construction: axes, operands, maps and tape. */
#include "graph/import/internal.h"

int cleave_nest_add_axis(cleave_nest *nest, const char *name, int64_t extent, bool whole,
                         int operator_axis) {
    nest->axes[nest->n_axes] = (cleave_axis){.name = name, .extent = extent, .whole = whole};
    nest->operator_axis[nest->n_axes] = operator_axis;
    return nest->n_axes++;
}

void cleave_nest_take_axes(cleave_nest *nest, const cleave_draft_operator *op) {
    for (int i = 0; i < op->n_axes; i++)
        cleave_nest_add_axis(nest, op->axes[i].name, op->axes[i].extent, op->axes[i].whole, i);
}

int cleave_nest_add_input(cleave_nest *nest, int32_t tensor) {
    for (int i = 0; i < nest->n_instructions; i++) {
        cleave_instruction *it = &nest->tape[i];
        it->a += it->opcode != CLEAVE_OP_INDEX && it->a >= nest->n_inputs;
        it->b += it->b >= nest->n_inputs;
    }
    nest->inputs[nest->n_inputs] = (cleave_operand){.tensor = tensor};
    return nest->n_inputs++;
}

void cleave_map_axis(cleave_operand *operand, int dimension, int axis) {
    operand->map[dimension] = (cleave_dimension_map){0};
    cleave_map_term(operand, dimension, axis, 1);
}

cleave_operand cleave_whole_operand(int32_t tensor, int rank) {
    cleave_operand operand = {.tensor = tensor};
    for (int d = 0; d < rank; d++)
        cleave_map_axis(&operand, d, d);
    return operand;
}

int cleave_nest_add_whole_input(cleave_nest *nest, int32_t tensor, int rank) {
    int input = cleave_nest_add_input(nest, tensor);
    nest->inputs[input] = cleave_whole_operand(tensor, rank);
    return input;
}

void cleave_map_broadcast(cleave_operand *operand, const cleave_tensor *tensor, int rank,
                          const int64_t *shape) {
    for (int d = 0; d < tensor->rank; d++) {
        int axis = rank - tensor->rank + d;
        if (tensor->shape[d] == 1 && shape[axis] != 1)
            cleave_map_offset(operand, d, 0);
        else
            cleave_map_axis(operand, d, axis);
    }
}

void cleave_map_offset(cleave_operand *operand, int dimension, int64_t offset) {
    operand->map[dimension] = (cleave_dimension_map){.offset = offset};
}

void cleave_map_term(cleave_operand *operand, int dimension, int axis, int64_t stride) {
    cleave_dimension_map *map = &operand->map[dimension];
    map->terms[map->n_terms].axis = axis;
    map->terms[map->n_terms].stride = stride;
    map->n_terms++;
}

int cleave_nest_emit(cleave_nest *nest, cleave_opcode opcode, int a, int b, double p, double q) {
    nest->tape[nest->n_instructions] =
        (cleave_instruction){.opcode = opcode, .a = a, .b = b, .p = p, .q = q};
    return nest->n_inputs + nest->n_instructions++;
}

int cleave_nest_value(const cleave_nest *nest) {
    return nest->n_instructions == 0 ? 0 : nest->n_inputs + nest->n_instructions - 1;
}
