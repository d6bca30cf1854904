/* An operator that only copies: for what has to be computed although views alone would do. */
#include "graph/import_internal.h"

cleave_status cleave_import_copy(cleave_importer *im, const char *name, int32_t tensor,
                                 int32_t *copy) {
    const cleave_tensor from = im->tensors.items[tensor].tensor;
    cleave_nest nest = {.kind = CLEAVE_NEST_POINTWISE};
    CLEAVE_TRY(cleave_import_new_operator(im, true, &nest.op));
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){name, nest.op, "", from.rank, from.shape, tensor}, copy));
    for (int d = 0; d < from.rank; d++)
        if (cleave_import_add_axis(im, nest.op, im->tensors.items[*copy].axes[d], from.shape[d],
                                   false) < 0)
            return cleave_import_no_memory(im);
    cleave_nest_take_axes(&nest, &im->operators.items[nest.op]);
    cleave_nest_add_input(&nest, tensor);
    nest.output.tensor = *copy;
    for (int d = 0; d < from.rank; d++) {
        cleave_map_axis(&nest.inputs[0], d, d);
        cleave_map_axis(&nest.output, d, d);
    }
    cleave_nest_emit(&nest, CLEAVE_OP_COPY, 0, 0, 0, 0);
    int32_t id;
    CLEAVE_TRY(cleave_import_add_nest(im, &nest, "", &id));
    im->operators.items[nest.op].main_nest = id;
    return CLEAVE_OK;
}
