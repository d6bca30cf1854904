/* Constant folding: what shape and mask arithmetic consists of is computed while importing.  Here
   are the table and what makes constants out of little; element-wise operators are not in it, they
   evaluate their fragments (evaluate.c). */
#include "graph/import/fold/fold.h"

#include "base/checked.h"

#include <math.h>
#include <string.h>

static bool is_float_type(int32_t type) {
    return type == CLEAVE_ONNX_FLOAT || type == CLEAVE_ONNX_DOUBLE;
}

cleave_status cleave_fold_new(cleave_importer *im, int32_t type, int rank, const int64_t *shape,
                              cleave_folded *out) {
    *out = (cleave_folded){.tensor = {.type = type, .rank = rank, .n = 1}};
    if (rank > CLEAVE_MAX_RANK)
        return cleave_import_fail(im, "rank %d is above the %d supported", rank, CLEAVE_MAX_RANK);
    /* Dimensions of 0 count as 1 here, so that no product of some of them can overflow. */
    int64_t bound = 1;
    for (int d = 0; d < rank; d++) {
        if (shape[d] < 0 || !cleave_int64_multiply(bound, shape[d] > 0 ? shape[d] : 1, &bound) ||
            bound > CLEAVE_MOST_FOLDED)
            return cleave_import_fail(im, "makes a constant of more than %d elements",
                                      CLEAVE_MOST_FOLDED);
        out->tensor.shape[d] = shape[d];
        out->tensor.n *= shape[d];
    }
    CLEAVE_TRY(cleave_import_spend(im, out->tensor.n, 1));
    if (is_float_type(type))
        out->floats = CLEAVE_ARENA_ARRAY(im->arena, float, out->tensor.n);
    else
        out->integers = CLEAVE_ARENA_ARRAY(im->arena, int64_t, out->tensor.n);
    out->tensor.floats = out->floats;
    out->tensor.integers = out->integers;
    return out->floats != NULL || out->integers != NULL ? CLEAVE_OK : cleave_import_no_memory(im);
}

cleave_status cleave_fold_deliver(cleave_importer *im, int i, const cleave_onnx_tensor *tensor) {
    cleave_value *value = cleave_import_output(im, i);
    value->state = CLEAVE_VALUE_CONSTANT;
    value->constant = *tensor;
    value->constant.name = value->name;
    value->type = 0; /* that of the constant */
    return CLEAVE_OK;
}

cleave_status cleave_fold_write(cleave_importer *im, cleave_folded *out, int64_t to,
                                long double value) {
    if (out->floats != NULL) {
        out->floats[to] = (float)value;
        return CLEAVE_OK;
    }
    if (!(value >= -0x1p63L && value < 0x1p63L))
        return cleave_import_fail(im, "its result %Lg does not fit an integer of 64 bits", value);
    out->integers[to] = (int64_t)value;
    return CLEAVE_OK;
}

void cleave_fold_strides(int rank, const int64_t *shape, int64_t *stride) {
    int64_t run = 1;
    for (int d = rank - 1; d >= 0; d--) {
        stride[d] = run;
        run *= shape[d];
    }
}

void cleave_fold_gather(cleave_folded *out, const cleave_onnx_tensor *from, int64_t base,
                        const int64_t *stride) {
    int64_t index[CLEAVE_MAX_RANK] = {0}, at = base, run = 1;
    int outer = out->tensor.rank;
    /* Dimensions that lie densely in `from` are copied at once. */
    while (outer > 0 && stride[outer - 1] == run)
        run *= out->tensor.shape[--outer];
    for (int64_t i = 0; i < out->tensor.n; i += run) {
        if (out->floats != NULL)
            memcpy(out->floats + i, from->floats + at, (size_t)run * sizeof *out->floats);
        else
            memcpy(out->integers + i, from->integers + at, (size_t)run * sizeof *out->integers);
        for (int d = outer - 1; d >= 0; d--) {
            at += stride[d];
            if (++index[d] < out->tensor.shape[d])
                break;
            at -= index[d] * stride[d];
            index[d] = 0;
        }
    }
}

/* ---- makers ---------------------------------------------------------------------------------- */

static cleave_status fold_constant(cleave_importer *im) {
    const cleave_onnx_attribute *attribute = cleave_import_attribute(im, "value");
    cleave_folded out;
    if (attribute != NULL && attribute->tensor != NULL)
        return cleave_fold_deliver(im, 0, attribute->tensor);
    if (im->node->n_attributes != 1)
        return cleave_import_fail(im, "has %d attributes, one is needed",
                                  (int)im->node->n_attributes);
    attribute = &im->node->attributes[0];
    int64_t n = attribute->n;
    switch (attribute->kind) {
    case CLEAVE_ONNX_ATTRIBUTE_FLOAT:
        CLEAVE_TRY(cleave_fold_new(im, CLEAVE_ONNX_FLOAT, 0, NULL, &out));
        out.floats[0] = attribute->number;
        break;
    case CLEAVE_ONNX_ATTRIBUTE_INTEGER:
        CLEAVE_TRY(cleave_fold_new(im, CLEAVE_ONNX_INT64, 0, NULL, &out));
        out.integers[0] = attribute->integer;
        break;
    case CLEAVE_ONNX_ATTRIBUTE_FLOATS:
        CLEAVE_TRY(cleave_fold_new(im, CLEAVE_ONNX_FLOAT, 1, &n, &out));
        for (int64_t i = 0; i < n; i++)
            out.floats[i] = attribute->numbers[i];
        break;
    case CLEAVE_ONNX_ATTRIBUTE_INTEGERS:
        CLEAVE_TRY(cleave_fold_new(im, CLEAVE_ONNX_INT64, 1, &n, &out));
        for (int64_t i = 0; i < n; i++)
            out.integers[i] = attribute->integers[i];
        break;
    default:
        return cleave_import_fail(im,
                                  "attribute %s is not supported, supported are value, "
                                  "value_float, value_floats, value_int and value_ints",
                                  attribute->name);
    }
    return cleave_fold_deliver(im, 0, &out.tensor);
}

/* The shape of input 0, whatever that is. */
cleave_status cleave_import_shape(cleave_importer *im, int32_t *tensor, int *rank, int64_t *shape) {
    cleave_value *value = cleave_import_input(im, 0);
    *tensor = -1;
    if (value->state != CLEAVE_VALUE_CONSTANT)
        CLEAVE_TRY(cleave_import_value_tensor(im, value, tensor));
    const int64_t *from =
        *tensor < 0 ? value->constant.shape : im->tensors.items[*tensor].tensor.shape;
    *rank = *tensor < 0 ? value->constant.rank : im->tensors.items[*tensor].tensor.rank;
    memcpy(shape, from, (size_t)*rank * sizeof *shape);
    return CLEAVE_OK;
}

static cleave_status fold_shape(cleave_importer *im) {
    int64_t start, end, length, shape[CLEAVE_MAX_RANK];
    int32_t tensor;
    int rank;
    CLEAVE_TRY(cleave_import_shape(im, &tensor, &rank, shape));
    CLEAVE_TRY(cleave_import_integer(im, "start", 0, &start));
    CLEAVE_TRY(cleave_import_integer(im, "end", rank, &end));
    start = start < 0 ? start + rank : start;
    end = end < 0 ? end + rank : end;
    start = start < 0 ? 0 : start > rank ? rank : start;
    end = end < 0 ? 0 : end > rank ? rank : end;
    length = end > start ? end - start : 0;
    cleave_folded out;
    CLEAVE_TRY(cleave_fold_new(im, CLEAVE_ONNX_INT64, 1, &length, &out));
    for (int64_t i = 0; i < length; i++)
        out.integers[i] = shape[start + i];
    return cleave_fold_deliver(im, 0, &out.tensor);
}

static cleave_status fold_size(cleave_importer *im) {
    int64_t shape[CLEAVE_MAX_RANK];
    int32_t tensor;
    int rank;
    cleave_folded out;
    CLEAVE_TRY(cleave_import_shape(im, &tensor, &rank, shape));
    CLEAVE_TRY(cleave_fold_new(im, CLEAVE_ONNX_INT64, 0, NULL, &out));
    out.integers[0] = cleave_shape_size(rank, shape);
    return cleave_fold_deliver(im, 0, &out.tensor);
}

static cleave_status fold_eye_like(cleave_importer *im) {
    int64_t shape[CLEAVE_MAX_RANK], type, k;
    int32_t tensor;
    int rank;
    cleave_folded out;
    CLEAVE_TRY(cleave_import_shape(im, &tensor, &rank, shape));
    CLEAVE_TRY(
        cleave_import_integer(im, "dtype", cleave_import_type(cleave_import_input(im, 0)), &type));
    CLEAVE_TRY(cleave_import_integer(im, "k", 0, &k));
    if (type != CLEAVE_ONNX_FLOAT && type != CLEAVE_ONNX_DOUBLE && type != CLEAVE_ONNX_INT32 &&
        type != CLEAVE_ONNX_INT64 && type != CLEAVE_ONNX_BOOL)
        return cleave_import_fail(im,
                                  "attribute dtype is %lld, supported are FLOAT, DOUBLE, "
                                  "INT32, INT64 and BOOL",
                                  (long long)type);
    if (rank != 2)
        return cleave_import_fail(im, "its input has rank %d, 2 is needed", rank);
    CLEAVE_TRY(cleave_fold_new(im, (int32_t)type, rank, shape, &out));
    for (int64_t i = 0; i < shape[0] && k > -shape[0] && k < shape[1]; i++)
        if (i + k >= 0 && i + k < shape[1])
            CLEAVE_TRY(cleave_fold_write(im, &out, i * shape[1] + i + k, 1));
    return cleave_fold_deliver(im, 0, &out.tensor);
}

static cleave_status fold_range(cleave_importer *im) {
    long double at[3]; /* start, limit, step */
    for (int i = 0; i < 3; i++) {
        const cleave_onnx_tensor *constant = cleave_import_constant(im, i);
        if (constant == NULL || constant->n != 1)
            return cleave_import_fail(im, "needs three scalars, the last one not 0");
        at[i] = cleave_fold_read(constant, 0);
    }
    if (at[2] == 0)
        return cleave_import_fail(im, "needs three scalars, the last one not 0");
    /* Exact for integers of 64 bits: a quotient just below an integer differs from it. */
    long double count = ceill((at[1] - at[0]) / at[2]);
    if (!(count <= CLEAVE_MOST_FOLDED))
        return cleave_import_fail(im, "makes a constant of more than %d elements",
                                  CLEAVE_MOST_FOLDED);
    int64_t n = count > 0 ? (int64_t)count : 0;
    cleave_folded out;
    CLEAVE_TRY(cleave_fold_new(im, cleave_import_constant(im, 0)->type, 1, &n, &out));
    for (int64_t i = 0; i < n; i++)
        CLEAVE_TRY(cleave_fold_write(im, &out, i, at[0] + (long double)i * at[2]));
    return cleave_fold_deliver(im, 0, &out.tensor);
}

static cleave_status fold_constant_of_shape(cleave_importer *im) {
    const cleave_onnx_attribute *attribute = cleave_import_attribute(im, "value");
    int64_t shape[2 * CLEAVE_MAX_RANK];
    int rank;
    CLEAVE_TRY(cleave_import_list(im, "shape", 0, &rank, shape));
    const cleave_onnx_tensor *fill = attribute != NULL ? attribute->tensor : NULL;
    if (attribute != NULL && (fill == NULL || fill->n != 1))
        return cleave_import_fail(im, "attribute value is not one element");
    cleave_folded out;
    CLEAVE_TRY(cleave_fold_new(im, fill != NULL ? fill->type : CLEAVE_ONNX_FLOAT,
                               rank < 0 ? 0 : rank, shape, &out));
    for (int64_t i = 0; fill != NULL && i < out.tensor.n; i++)
        cleave_fold_copy(&out, i, fill, 0);
    return cleave_fold_deliver(im, 0, &out.tensor);
}

static cleave_status fold_identity(cleave_importer *im) {
    return cleave_fold_deliver(im, 0, cleave_import_constant(im, 0));
}

/* ---- the table ------------------------------------------------------------------------------- */

typedef struct fold_row {
    const char *type;
    bool always; /* whatever its inputs are */
    cleave_status (*fold)(cleave_importer *im);
} fold_row;

static const fold_row table[] = {
    {"ArgMax", false, cleave_fold_arg},
    {"ArgMin", false, cleave_fold_arg},
    {"Concat", false, cleave_fold_concat},
    {"Constant", true, fold_constant},
    {"ConstantOfShape", false, fold_constant_of_shape},
    {"CumSum", false, cleave_fold_cumsum},
    {"Expand", false, cleave_fold_expand},
    {"EyeLike", true, fold_eye_like},
    {"Flatten", false, cleave_fold_reshape},
    {"Gather", false, cleave_fold_gather_node},
    {"GatherElements", false, cleave_fold_gather_elements},
    {"GatherND", false, cleave_fold_gather_nd},
    {"Identity", false, fold_identity},
    {"NonZero", false, cleave_fold_nonzero},
    {"OneHot", false, cleave_fold_one_hot},
    {"Range", false, fold_range},
    {"ReduceL1", false, cleave_fold_reduce},
    {"ReduceL2", false, cleave_fold_reduce},
    {"ReduceLogSum", false, cleave_fold_reduce},
    {"ReduceLogSumExp", false, cleave_fold_reduce},
    {"ReduceMax", false, cleave_fold_reduce},
    {"ReduceMean", false, cleave_fold_reduce},
    {"ReduceMin", false, cleave_fold_reduce},
    {"ReduceProd", false, cleave_fold_reduce},
    {"ReduceSum", false, cleave_fold_reduce},
    {"ReduceSumSquare", false, cleave_fold_reduce},
    {"Reshape", false, cleave_fold_reshape},
    {"ScatterND", false, cleave_fold_scatter_nd},
    {"Shape", true, fold_shape},
    {"Size", true, fold_size},
    {"Slice", false, cleave_fold_slice},
    {"Split", false, cleave_fold_split},
    {"Squeeze", false, cleave_fold_reshape},
    {"Tile", false, cleave_fold_tile},
    {"Transpose", false, cleave_fold_transpose},
    {"Trilu", false, cleave_fold_trilu},
    {"Unsqueeze", false, cleave_fold_reshape},
};

cleave_status cleave_import_fold(cleave_importer *im, bool *folded) {
    *folded = false;
    bool constant = im->node->n_inputs > 0;
    for (int i = 0; i < im->node->n_inputs; i++)
        if (cleave_import_has_input(im, i) &&
            cleave_import_input(im, i)->state != CLEAVE_VALUE_CONSTANT)
            constant = false;
    for (size_t k = 0; k < sizeof table / sizeof *table; k++)
        if (strcmp(im->node->type, table[k].type) == 0 && (constant || table[k].always)) {
            *folded = true;
            for (int i = 0; constant && i < im->node->n_inputs; i++)
                if (cleave_import_has_input(im, i))
                    CLEAVE_TRY(cleave_import_spend(im, cleave_import_constant(im, i)->n, 1));
            return table[k].fold(im);
        }
    return CLEAVE_OK;
}
