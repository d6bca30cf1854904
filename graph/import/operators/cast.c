/* Types and truth: casts, and functions whose value is a boolean. */
#include "graph/import/operators/fragment.h"

#include <math.h>
#include <string.h>

enum { X = CLEAVE_ARGUMENT_0 };

static cleave_status apply_to_input(cleave_importer *im, const cleave_fragment *code,
                                    int32_t type) {
    return cleave_import_apply(im, 1, (int[]){0}, code, type);
}

/* ---- casts ----------------------------------------------------------------------------------- */

static bool is_known_type(int64_t type, bool constant) {
    return type == CLEAVE_ONNX_FLOAT || type == CLEAVE_ONNX_INT32 || type == CLEAVE_ONNX_INT64 ||
           type == CLEAVE_ONNX_BOOL || (constant && type == CLEAVE_ONNX_DOUBLE);
}

/* Does a cast change what is kept?  Integers that are given from outside become f32 when they are
   cast to it. */
static cleave_status changes(cleave_importer *im, int32_t from, int64_t to, bool *changed) {
    int32_t tensor;
    CLEAVE_TRY(cleave_import_value_tensor(im, cleave_import_input(im, 0), &tensor));
    bool kept_as_integer = im->tensors.items[tensor].tensor.type == CLEAVE_I64;
    bool to_float = to == CLEAVE_ONNX_FLOAT;
    *changed = (to == CLEAVE_ONNX_BOOL && from != CLEAVE_ONNX_BOOL) ||
               (to_float && kept_as_integer) || (!to_float && from == CLEAVE_ONNX_FLOAT);
    return CLEAVE_OK;
}

/* What ONNX leaves open becomes the nearest float that has an integer: models take logarithms of
   distances, 0 among them, for all and select afterwards. */
static void saturate(cleave_fragment *code, int value) {
    int least = cleave_fragment_constant(code, -0x1p63);
    int most = cleave_fragment_constant(code, 0x1.fffffep62);
    value = cleave_fragment_binary(code, CLEAVE_OP_MAX, value, least);
    cleave_fragment_binary(code, CLEAVE_OP_MIN, value, most);
}

static cleave_status cast(cleave_importer *im, int64_t to) {
    cleave_fragment code = {0};
    int32_t from = cleave_import_input_type(im, 0);
    bool constant = cleave_import_input(im, 0)->state == CLEAVE_VALUE_CONSTANT;
    if (!is_known_type(from, constant) || !is_known_type(to, constant))
        return cleave_import_fail(
            im, "casts %s to %s, supported are FLOAT, INT32, INT64 and BOOL",
            cleave_onnx_type_name(from),
            cleave_onnx_type_name(to > 0 && to < INT32_MAX ? (int32_t)to : 0));
    if (!constant) {
        bool changed;
        CLEAVE_TRY(changes(im, from, to, &changed));
        if (!changed) {
            CLEAVE_TRY(cleave_import_identity(im));
            cleave_import_set_type(im, 0, (int32_t)to);
            return CLEAVE_OK;
        }
    }
    if (to == CLEAVE_ONNX_BOOL) {
        int zero = cleave_fragment_constant(&code, 0);
        int is_zero = cleave_fragment_binary(&code, CLEAVE_OP_EQUAL, X, zero);
        cleave_fragment_scale(&code, is_zero, -1, 1);
    } else {
        bool truncates = cleave_onnx_type_is_integer((int32_t)to);
        int value = cleave_fragment_unary(&code, truncates ? CLEAVE_OP_TRUNC : CLEAVE_OP_COPY, X);
        if (truncates && constant && !cleave_onnx_type_is_integer(from))
            saturate(&code, value);
    }
    return apply_to_input(im, &code, (int32_t)to);
}

cleave_status cleave_import_cast(cleave_importer *im) {
    int64_t to;
    CLEAVE_TRY(cleave_import_integer(im, "to", 0, &to));
    return cast(im, to);
}

cleave_status cleave_import_cast_like(cleave_importer *im) {
    return cast(im, cleave_import_input_type(im, 1));
}

/* ---- booleans -------------------------------------------------------------------------------- */

cleave_status cleave_import_not(cleave_importer *im) {
    cleave_fragment code = {0};
    cleave_fragment_scale(&code, X, -1, 1);
    return apply_to_input(im, &code, CLEAVE_ONNX_BOOL);
}

cleave_status cleave_import_is_nan(cleave_importer *im) {
    cleave_fragment code = {0};
    int is_number = cleave_fragment_binary(&code, CLEAVE_OP_EQUAL, X, X);
    cleave_fragment_scale(&code, is_number, -1, 1);
    return apply_to_input(im, &code, CLEAVE_ONNX_BOOL);
}

cleave_status cleave_import_is_inf(cleave_importer *im) {
    int64_t negative, positive;
    cleave_fragment code = {0};
    CLEAVE_TRY(cleave_import_integer(im, "detect_negative", 1, &negative));
    CLEAVE_TRY(cleave_import_integer(im, "detect_positive", 1, &positive));
    int value = cleave_fragment_constant(&code, negative != 0 ? -INFINITY : INFINITY);
    if (negative == 0 && positive == 0)
        cleave_fragment_constant(&code, 0);
    else
        value = cleave_fragment_binary(&code, CLEAVE_OP_EQUAL, X, value);
    if (negative != 0 && positive != 0) {
        int most = cleave_fragment_constant(&code, INFINITY);
        int is_most = cleave_fragment_binary(&code, CLEAVE_OP_EQUAL, X, most);
        cleave_fragment_binary(&code, CLEAVE_OP_ADD, value, is_most);
    }
    return apply_to_input(im, &code, CLEAVE_ONNX_BOOL);
}
