/* A perceptron built by hand, for tests that must not depend on the importer: `layers` dense layers
   without bias of `width` features, each with a rectifier, and the sum of squares as loss. */
#ifndef CLEAVE_TESTS_SUPPORT_PERCEPTRON_H
#define CLEAVE_TESTS_SUPPORT_PERCEPTRON_H

#include "graph/model/model.h"

#include <criterion/criterion.h>

static inline int32_t add_tensor(cleave_model *model, cleave_tensor_kind kind, const char *name,
                                 int rank, int64_t rows, int64_t columns) {
    cleave_tensor *tensor = &model->tensors[model->n_tensors];
    *tensor = (cleave_tensor){.name = name, .kind = kind, .rank = rank, .shape = {rows, columns}};
    tensor->order[1] = 1;
    return model->n_tensors++;
}

static inline cleave_operand operand_of(int32_t tensor, int row_axis, int column_axis) {
    cleave_operand operand = {.tensor = tensor};
    int axes[2] = {row_axis, column_axis};
    for (int d = 0; d < 2; d++)
        if (axes[d] >= 0) {
            operand.map[d].n_terms = 1;
            operand.map[d].terms[0].axis = axes[d];
            operand.map[d].terms[0].stride = 1;
        }
    return operand;
}

/* An operator of one nest with axes n, k and maybe c. */
static inline cleave_nest *add_operator(cleave_model *model, const char *name,
                                        cleave_nest_kind kind, int n_axes, const int64_t *extents) {
    static const char *const names[] = {"n", "k", "c"}, *const roles[] = {"sample", "parameter",
                                                                          "reduction"};
    int32_t id = model->n_operators++;
    cleave_operator *op = &model->operators[id];
    cleave_nest *nest = &model->nests[model->n_nests++];
    int32_t *nests = CLEAVE_ARENA_ARRAY(model->arena, int32_t, 1);
    nests[0] = id;
    *op = (cleave_operator){
        .name = name, .type = "Test", .n_axes = n_axes, .main_nest = id, .n_nests = 1};
    op->nests = nests;
    *nest = (cleave_nest){.name = name, .kind = kind, .op = id, .n_axes = n_axes};
    for (int a = 0; a < n_axes; a++) {
        op->axes[a] = nest->axes[a] = (cleave_axis){.name = names[a], .extent = extents[a]};
        op->roles[a] = roles[a];
        nest->operator_axis[a] = a;
    }
    nest->n_instructions = 1;
    return nest;
}

static inline cleave_model make_perceptron(cleave_arena *arena, int layers, int64_t batch,
                                           int64_t width) {
    cleave_model model = {
        .file = "perceptron", .batch = batch, .graph_version = 1, .targets = -1, .arena = arena};
    model.tensors = CLEAVE_ARENA_ARRAY(arena, cleave_tensor, 3 * layers + 2);
    model.nests = CLEAVE_ARENA_ARRAY(arena, cleave_nest, 2 * layers + 1);
    model.operators = CLEAVE_ARENA_ARRAY(arena, cleave_operator, 2 * layers + 1);
    int32_t x = add_tensor(&model, CLEAVE_TENSOR_DATA, "x", 2, batch, width);
    for (int l = 0; l < layers; l++) {
        int32_t w = add_tensor(&model, CLEAVE_TENSOR_PARAMETER,
                               cleave_arena_printf(arena, "weight%d", l), 2, width, width);
        int32_t y = add_tensor(&model, CLEAVE_TENSOR_ACTIVATION,
                               cleave_arena_printf(arena, "y%d", l), 2, batch, width);
        int32_t r = add_tensor(&model, CLEAVE_TENSOR_ACTIVATION,
                               cleave_arena_printf(arena, "r%d", l), 2, batch, width);
        cleave_nest *dense =
            add_operator(&model, cleave_arena_printf(arena, "dense%d", l), CLEAVE_NEST_PRODUCT, 3,
                         (int64_t[3]){batch, width, width});
        dense->n_inputs = 2;
        dense->inputs[0] = operand_of(x, 0, 2);
        dense->inputs[1] = operand_of(w, 1, 2);
        dense->output = operand_of(y, 0, 1);
        dense->combiner = CLEAVE_COMBINE_SUM;
        dense->tape[0] = (cleave_instruction){.opcode = CLEAVE_OP_MUL, .a = 0, .b = 1};
        cleave_nest *relu = add_operator(&model, cleave_arena_printf(arena, "relu%d", l),
                                         CLEAVE_NEST_POINTWISE, 2, (int64_t[2]){batch, width});
        relu->n_inputs = 1;
        relu->inputs[0] = operand_of(y, 0, 1);
        relu->output = operand_of(r, 0, 1);
        relu->tape[0] = (cleave_instruction){.opcode = CLEAVE_OP_RELU};
        x = r;
    }
    model.loss = add_tensor(&model, CLEAVE_TENSOR_ACTIVATION, "loss", 0, 0, 0);
    cleave_nest *loss =
        add_operator(&model, "@loss", CLEAVE_NEST_REDUCE, 2, (int64_t[2]){batch, width});
    loss->n_inputs = 1;
    loss->inputs[0] = operand_of(x, 0, 1);
    loss->output = (cleave_operand){.tensor = model.loss};
    loss->combiner = CLEAVE_COMBINE_SUM;
    loss->tape[0] = (cleave_instruction){.opcode = CLEAVE_OP_MUL, .a = 0, .b = 0};
    cleave_error error = {""};
    cr_assert_eq(cleave_model_finish(&model, &error), CLEAVE_OK, "%s", error.message);
    return model;
}

#endif
