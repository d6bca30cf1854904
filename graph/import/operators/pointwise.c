/* Operators over all dimensions of a tensor, and pointwise nests, which most operators end in. */
#include "graph/import/operators/pointwise.h"

/* ---- operators over all dimensions ----------------------------------------------------------- */

static cleave_status add_dimensions(cleave_importer *im, int32_t op, int32_t tensor) {
    const cleave_draft_tensor *of = &im->tensors.items[tensor];
    for (int d = 0; d < of->tensor.rank; d++)
        if (cleave_import_add_axis(im, op, of->axes[d], of->tensor.shape[d], false) < 0)
            return cleave_import_no_memory(im);
    return CLEAVE_OK;
}

cleave_status cleave_import_open_over(cleave_importer *im, int32_t tensor, bool main_is_fixed,
                                      int32_t *op) {
    CLEAVE_TRY(cleave_import_new_operator(im, main_is_fixed, op));
    return add_dimensions(im, *op, tensor);
}

/* ---- of a single nest ------------------------------------------------------------------------ */

cleave_status cleave_import_begin_pointwise(cleave_importer *im, const char *name, int rank,
                                            const int64_t *shape, int32_t like, cleave_nest *nest) {
    int32_t op, output;
    CLEAVE_TRY(cleave_import_new_operator(im, false, &op));
    CLEAVE_TRY(cleave_import_new_tensor(im, (cleave_new_tensor){name, op, "", rank, shape, like},
                                        &output));
    CLEAVE_TRY(add_dimensions(im, op, output));
    *nest = (cleave_nest){.kind = CLEAVE_NEST_POINTWISE, .op = op};
    nest->output = cleave_whole_operand(output, rank);
    cleave_nest_take_axes(nest, &im->operators.items[op]);
    return CLEAVE_OK;
}

cleave_status cleave_import_end_pointwise(cleave_importer *im, const cleave_nest *nest) {
    int32_t id;
    CLEAVE_TRY(cleave_import_add_nest(im, nest, "", &id));
    cleave_draft_operator *op = &im->operators.items[nest->op];
    op->main_nest = op->tail_nest = id;
    op->output = nest->output.tensor;
    return CLEAVE_OK;
}

cleave_status cleave_import_copy(cleave_importer *im, const char *name, int32_t tensor,
                                 int32_t *copy) {
    const cleave_tensor from = im->tensors.items[tensor].tensor;
    cleave_nest nest;
    int32_t id;
    CLEAVE_TRY(cleave_import_begin_pointwise(im, name, from.rank, from.shape, tensor, &nest));
    cleave_nest_add_whole_input(&nest, tensor, from.rank);
    cleave_nest_emit(&nest, CLEAVE_OP_COPY, 0, 0, 0, 0);
    CLEAVE_TRY(cleave_import_add_nest(im, &nest, "", &id));
    im->operators.items[nest.op].main_is_fixed = true;
    im->operators.items[nest.op].main_nest = id;
    *copy = nest.output.tensor;
    return CLEAVE_OK;
}

/* ---- last of several nests ------------------------------------------------------------------- */

cleave_status cleave_import_begin_result(cleave_importer *im, int32_t op,
                                         const cleave_operand *input, cleave_nest *nest) {
    cleave_tensor from = im->tensors.items[input->tensor].tensor;
    *nest = (cleave_nest){.kind = CLEAVE_NEST_POINTWISE, .op = op};
    nest->output = *input;
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){im->node->outputs[0], op, "", from.rank, from.shape, input->tensor},
        &nest->output.tensor));
    cleave_nest_take_axes(nest, &im->operators.items[op]);
    cleave_nest_add_input(nest, input->tensor);
    nest->inputs[0] = *input;
    return CLEAVE_OK;
}

cleave_status cleave_import_end_result(cleave_importer *im, const cleave_nest *nest) {
    int32_t id;
    CLEAVE_TRY(cleave_import_add_nest(im, nest, "", &id));
    cleave_draft_operator *op = &im->operators.items[nest->op];
    bool plain = nest->n_axes == im->tensors.items[nest->output.tensor].tensor.rank;
    op->main_nest = id;
    op->tail_nest = plain ? id : -1;
    op->output = nest->output.tensor;
    cleave_import_set_output(im, 0, nest->output.tensor, false);
    return CLEAVE_OK;
}
