/* Models of matrices made by hand, for tests and benches that must not depend on the importer:
   every operator has one nest, with axes n, k and maybe c.  Memory is taken to be there. */
#ifndef CLEAVE_TESTS_SUPPORT_HAND_MODEL_H
#define CLEAVE_TESTS_SUPPORT_HAND_MODEL_H

#include "graph/model/model.h"

static inline cleave_model begin_model(const char *file, int64_t batch, int32_t most_tensors,
                                       int32_t most_nests, cleave_arena *arena) {
    cleave_model model = {.file = file,
                          .batch = batch,
                          .graph_version = 1,
                          .targets = -1,
                          .loss = -1,
                          .arena = arena};
    model.tensors = CLEAVE_ARENA_ARRAY(arena, cleave_tensor, most_tensors);
    model.nests = CLEAVE_ARENA_ARRAY(arena, cleave_nest, most_nests);
    model.operators = CLEAVE_ARENA_ARRAY(arena, cleave_operator, most_nests);
    return model;
}

static inline int32_t add_tensor(cleave_model *model, cleave_tensor_kind kind, const char *name,
                                 int rank, int64_t rows, int64_t columns) {
    cleave_tensor *tensor = &model->tensors[model->n_tensors];
    *tensor = (cleave_tensor){
        .name = name, .kind = kind, .rank = rank, .shape = {rows, columns}, .order = {0, 1}};
    return model->n_tensors++;
}

/* A [row axis][column axis] operand; -1: no such dimension. */
static inline cleave_operand operand_of(int32_t tensor, int row_axis, int column_axis) {
    cleave_operand operand = {.tensor = tensor};
    const int axes[2] = {row_axis, column_axis};
    for (int d = 0; d < 2; d++)
        if (axes[d] >= 0) {
            operand.map[d].n_terms = 1;
            operand.map[d].terms[0].axis = axes[d];
            operand.map[d].terms[0].stride = 1;
        }
    return operand;
}

static inline cleave_nest *add_operator(cleave_model *model, const char *name,
                                        cleave_nest_kind kind, int n_axes, const int64_t *extents) {
    static const char *const names[] = {"n", "k", "c"};
    static const char *const roles[] = {"sample", "parameter", "reduction"};
    int32_t id = model->n_operators++, *nests = CLEAVE_ARENA_ARRAY(model->arena, int32_t, 1);
    cleave_operator *op = &model->operators[id];
    cleave_nest *nest = &model->nests[model->n_nests++];
    nests[0] = id;
    *op = (cleave_operator){.name = name,
                            .type = "Test",
                            .n_axes = n_axes,
                            .main_nest = id,
                            .n_nests = 1,
                            .nests = nests};
    *nest =
        (cleave_nest){.name = name, .kind = kind, .op = id, .n_axes = n_axes, .n_instructions = 1};
    for (int a = 0; a < n_axes; a++) {
        op->axes[a] = nest->axes[a] = (cleave_axis){.name = names[a], .extent = extents[a]};
        op->roles[a] = roles[a];
        nest->operator_axis[a] = a;
    }
    return nest;
}

/* y = x w', of x [n, c] and w [k, c]. */
static inline void add_product(cleave_model *model, const char *name, int32_t x, int32_t w,
                               int32_t y) {
    const int64_t *extent = model->tensors[w].shape;
    cleave_nest *nest =
        add_operator(model, name, CLEAVE_NEST_PRODUCT, 3,
                     (const int64_t[]){model->tensors[x].shape[0], extent[0], extent[1]});
    nest->n_inputs = 2;
    nest->inputs[0] = operand_of(x, 0, 2);
    nest->inputs[1] = operand_of(w, 1, 2);
    nest->output = operand_of(y, 0, 1);
    nest->combiner = CLEAVE_COMBINE_SUM;
    nest->tape[0] = (cleave_instruction){.opcode = CLEAVE_OP_MUL, .a = 0, .b = 1};
}

/* y = a function of x. */
static inline cleave_nest *add_pointwise(cleave_model *model, const char *name, int32_t x,
                                         int32_t y, cleave_opcode opcode) {
    cleave_nest *nest =
        add_operator(model, name, CLEAVE_NEST_POINTWISE, 2, model->tensors[y].shape);
    nest->n_inputs = 1;
    nest->inputs[0] = operand_of(x, 0, 1);
    nest->output = operand_of(y, 0, 1);
    nest->tape[0] = (cleave_instruction){.opcode = opcode};
    return nest;
}

/* The loss: the sum of the squares of x. */
static inline void add_loss(cleave_model *model, int32_t x) {
    model->loss = add_tensor(model, CLEAVE_TENSOR_ACTIVATION, "loss", 0, 0, 0);
    cleave_nest *nest =
        add_operator(model, "@loss", CLEAVE_NEST_REDUCE, 2, model->tensors[x].shape);
    nest->n_inputs = 1;
    nest->inputs[0] = operand_of(x, 0, 1);
    nest->output = (cleave_operand){.tensor = model->loss};
    nest->combiner = CLEAVE_COMBINE_SUM;
    nest->tape[0] = (cleave_instruction){.opcode = CLEAVE_OP_MUL, .a = 0, .b = 0};
}

#endif
