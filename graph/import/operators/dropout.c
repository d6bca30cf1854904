/* Dropout, and what it is when nothing is dropped. */
#include "graph/import/operators/fragment.h"

#include <string.h>

/* The mask of a dropout that drops nothing. */
static cleave_status keep_all(cleave_importer *im) {
    int32_t tensor;
    CLEAVE_TRY(cleave_import_tensor(im, 0, &tensor));
    const cleave_tensor *like = &im->tensors.items[tensor].tensor;
    cleave_value *mask = cleave_import_output(im, 1);
    mask->state = CLEAVE_VALUE_CONSTANT;
    mask->constant = (cleave_onnx_tensor){.name = mask->name,
                                          .type = CLEAVE_ONNX_BOOL,
                                          .rank = like->rank,
                                          .n = cleave_tensor_size(like)};
    memcpy(mask->constant.shape, like->shape, sizeof mask->constant.shape);
    CLEAVE_TRY(cleave_import_spend(im, mask->constant.n, 1));
    int64_t *ones = CLEAVE_ARENA_ARRAY(im->arena, int64_t, mask->constant.n);
    if (ones == NULL)
        return cleave_import_no_memory(im);
    for (int64_t i = 0; i < mask->constant.n; i++)
        ones[i] = 1;
    mask->constant.integers = ones;
    return CLEAVE_OK;
}

cleave_status cleave_import_dropout(cleave_importer *im) {
    double ratio, training = im->with_loss;
    CLEAVE_TRY(cleave_import_number(im, "ratio", 0.5, &ratio));
    CLEAVE_TRY(cleave_import_scalar(im, 1, ratio, &ratio));
    /* From operator set 12 on an input says whether it trains; before, whether the model does. */
    if (im->graph.opset >= 12)
        CLEAVE_TRY(cleave_import_scalar(im, 2, 0, &training));
    if (!(ratio >= 0 && ratio < 1))
        return cleave_import_fail(im, "ratio %g is not in [0, 1)", ratio);
    bool drops = ratio > 0 && training != 0, mask = cleave_import_uses_output(im, 1);
    if (drops && mask)
        return cleave_import_fail(im,
                                  "its mask output is used, which is not supported in training");
    if (mask)
        CLEAVE_TRY(keep_all(im));
    if (!drops)
        return cleave_import_identity(im);
    cleave_fragment code = {0};
    int value = cleave_fragment_unary(&code, CLEAVE_OP_DROPOUT, CLEAVE_ARGUMENT_0);
    code.code[value].p = im->evaluates ? 0 : ratio;
    return cleave_import_apply(im, 1, (int[]){0}, &code, cleave_import_input_type(im, 0));
}
