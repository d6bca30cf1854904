/* Constant folding: what shape arithmetic consists of is computed while importing. */
#include "base/checked.h"
#include "graph/import_internal.h"

#include <math.h>
#include <string.h>

enum { MOST_ELEMENTS = 1 << 24 }; /* of what folding makes */

static bool is_float_type(int32_t type) {
    return type == CLEAVE_ONNX_FLOAT || type == CLEAVE_ONNX_DOUBLE;
}

/* A constant under construction: one of floats and integers is set, by its type. */
typedef struct result {
    cleave_onnx_tensor tensor;
    float *floats;
    int64_t *integers;
} result;

static cleave_status new_result(cleave_importer *im, int32_t type, int rank, const int64_t *shape,
                                result *out) {
    *out = (result){.tensor = {.name = im->node->outputs[0], .type = type, .rank = rank, .n = 1}};
    if (rank > CLEAVE_MAX_RANK)
        return cleave_import_fail(im, "rank %d is above the %d supported", rank, CLEAVE_MAX_RANK);
    /* Dimensions of 0 count as 1 here, so that no product of some of them can overflow. */
    int64_t bound = 1;
    for (int d = 0; d < rank; d++) {
        if (shape[d] < 0 || !cleave_int64_multiply(bound, shape[d] > 0 ? shape[d] : 1, &bound) ||
            bound > MOST_ELEMENTS)
            return cleave_import_fail(im, "makes a constant of more than %d elements",
                                      MOST_ELEMENTS);
        out->tensor.shape[d] = shape[d];
        out->tensor.n *= shape[d];
    }
    if (is_float_type(type))
        out->floats = CLEAVE_ARENA_ARRAY(im->arena, float, out->tensor.n);
    else
        out->integers = CLEAVE_ARENA_ARRAY(im->arena, int64_t, out->tensor.n);
    out->tensor.floats = out->floats;
    out->tensor.integers = out->integers;
    return out->floats != NULL || out->integers != NULL ? CLEAVE_OK : cleave_import_no_memory(im);
}

static void copy_element(result *out, int64_t to, const cleave_onnx_tensor *from, int64_t at) {
    if (out->floats != NULL)
        out->floats[to] = from->floats[at];
    else
        out->integers[to] = from->integers[at];
}

static cleave_status deliver(cleave_importer *im, const cleave_onnx_tensor *tensor) {
    cleave_value *value = cleave_import_output(im, 0);
    value->state = CLEAVE_VALUE_CONSTANT;
    value->constant = *tensor;
    return CLEAVE_OK;
}

/* ---- makers ---------------------------------------------------------------------------------- */

static cleave_status fold_constant(cleave_importer *im) {
    const cleave_onnx_attribute *attribute = cleave_import_attribute(im, "value");
    result out;
    if (attribute != NULL && attribute->tensor != NULL)
        return deliver(im, attribute->tensor);
    if (im->node->n_attributes != 1)
        return cleave_import_fail(im, "has %d attributes, one is needed",
                                  (int)im->node->n_attributes);
    attribute = &im->node->attributes[0];
    int64_t n = attribute->n;
    switch (attribute->kind) {
    case CLEAVE_ONNX_ATTRIBUTE_FLOAT:
        CLEAVE_TRY(new_result(im, CLEAVE_ONNX_FLOAT, 0, NULL, &out));
        out.floats[0] = attribute->number;
        break;
    case CLEAVE_ONNX_ATTRIBUTE_INTEGER:
        CLEAVE_TRY(new_result(im, CLEAVE_ONNX_INT64, 0, NULL, &out));
        out.integers[0] = attribute->integer;
        break;
    case CLEAVE_ONNX_ATTRIBUTE_FLOATS:
        CLEAVE_TRY(new_result(im, CLEAVE_ONNX_FLOAT, 1, &n, &out));
        for (int64_t i = 0; i < n; i++)
            out.floats[i] = attribute->numbers[i];
        break;
    case CLEAVE_ONNX_ATTRIBUTE_INTEGERS:
        CLEAVE_TRY(new_result(im, CLEAVE_ONNX_INT64, 1, &n, &out));
        for (int64_t i = 0; i < n; i++)
            out.integers[i] = attribute->integers[i];
        break;
    default:
        return cleave_import_fail(im,
                                  "attribute %s is not supported, supported are value, "
                                  "value_float, value_floats, value_int and value_ints",
                                  attribute->name);
    }
    return deliver(im, &out.tensor);
}

static cleave_status fold_shape(cleave_importer *im) {
    int64_t start, end, length;
    int32_t tensor = -1;
    cleave_value *value = cleave_import_input(im, 0);
    if (value->state != CLEAVE_VALUE_CONSTANT)
        CLEAVE_TRY(cleave_import_value_tensor(im, value, &tensor));
    const int64_t *shape =
        tensor < 0 ? value->constant.shape : im->tensors.items[tensor].tensor.shape;
    int rank = tensor < 0 ? value->constant.rank : im->tensors.items[tensor].tensor.rank;
    CLEAVE_TRY(cleave_import_integer(im, "start", 0, &start));
    CLEAVE_TRY(cleave_import_integer(im, "end", rank, &end));
    start = start < 0 ? start + rank : start;
    end = end < 0 ? end + rank : end;
    start = start < 0 ? 0 : start > rank ? rank : start;
    end = end < 0 ? 0 : end > rank ? rank : end;
    length = end > start ? end - start : 0;
    result out;
    CLEAVE_TRY(new_result(im, CLEAVE_ONNX_INT64, 1, &length, &out));
    for (int64_t i = 0; i < length; i++)
        out.integers[i] = shape[start + i];
    return deliver(im, &out.tensor);
}

static cleave_status fold_range(cleave_importer *im) {
    const cleave_onnx_tensor *start = cleave_import_constant(im, 0);
    const cleave_onnx_tensor *limit = cleave_import_constant(im, 1);
    const cleave_onnx_tensor *delta = cleave_import_constant(im, 2);
    if (start == NULL || limit == NULL || delta == NULL || start->integers == NULL ||
        limit->integers == NULL || delta->integers == NULL || start->n != 1 || limit->n != 1 ||
        delta->n != 1 || delta->integers[0] == 0)
        return cleave_import_fail(im, "needs three integer scalars, the last one not 0");
    __int128 by = delta->integers[0], span = (__int128)limit->integers[0] - start->integers[0];
    __int128 count = span / by + (span % by != 0 && (span < 0) == (by < 0));
    if (count > MOST_ELEMENTS)
        return cleave_import_fail(im, "makes a constant of more than %d elements", MOST_ELEMENTS);
    int64_t n = count < 0 ? 0 : (int64_t)count;
    result out;
    CLEAVE_TRY(new_result(im, CLEAVE_ONNX_INT64, 1, &n, &out));
    for (int64_t i = 0; i < n; i++)
        out.integers[i] = (int64_t)(start->integers[0] + (__int128)i * by);
    return deliver(im, &out.tensor);
}

static cleave_status fold_constant_of_shape(cleave_importer *im) {
    const cleave_onnx_attribute *attribute = cleave_import_attribute(im, "value");
    int64_t shape[2 * CLEAVE_MAX_RANK];
    int rank;
    CLEAVE_TRY(cleave_import_list(im, "shape", 0, &rank, shape));
    const cleave_onnx_tensor *fill = attribute != NULL ? attribute->tensor : NULL;
    if (attribute != NULL && (fill == NULL || fill->n != 1))
        return cleave_import_fail(im, "attribute value is not one element");
    result out;
    CLEAVE_TRY(new_result(im, fill != NULL ? fill->type : CLEAVE_ONNX_FLOAT, rank < 0 ? 0 : rank,
                          shape, &out));
    for (int64_t i = 0; fill != NULL && i < out.tensor.n; i++)
        copy_element(&out, i, fill, 0);
    return deliver(im, &out.tensor);
}

/* ---- movers ---------------------------------------------------------------------------------- */

static cleave_status fold_reshape(cleave_importer *im) {
    cleave_onnx_tensor tensor = *cleave_import_constant(im, 0);
    int rank;
    int64_t shape[CLEAVE_MAX_RANK] = {0};
    CLEAVE_TRY(cleave_import_target_shape(im, tensor.rank, tensor.shape, &rank, shape));
    tensor.rank = rank;
    memcpy(tensor.shape, shape, sizeof shape);
    return deliver(im, &tensor);
}

static cleave_status fold_gather(cleave_importer *im) {
    const cleave_onnx_tensor *data = cleave_import_constant(im, 0);
    const cleave_onnx_tensor *indices = cleave_import_constant(im, 1);
    int64_t wanted, shape[2 * CLEAVE_MAX_RANK];
    int axis, rank = 0;
    if (indices == NULL || indices->integers == NULL)
        return cleave_import_fail(im, "its indices are not integers");
    CLEAVE_TRY(cleave_import_integer(im, "axis", 0, &wanted));
    CLEAVE_TRY(cleave_import_axis(im, wanted, data->rank, &axis));
    for (int d = 0; d < axis; d++)
        shape[rank++] = data->shape[d];
    for (int d = 0; d < indices->rank; d++)
        shape[rank++] = indices->shape[d];
    for (int d = axis + 1; d < data->rank; d++)
        shape[rank++] = data->shape[d];
    result out;
    CLEAVE_TRY(new_result(im, data->type, rank, shape, &out));
    int64_t inner = cleave_shape_size(data->rank - axis - 1, data->shape + axis + 1);
    int64_t extent = data->shape[axis];
    for (int64_t i = 0; i < out.tensor.n; i++) {
        int64_t index = indices->integers[i / inner % indices->n];
        if (index < -extent || index >= extent)
            return cleave_import_fail(im, "index %lld is outside the %lld elements of axis %d",
                                      (long long)index, (long long)extent, axis);
        index += index < 0 ? extent : 0;
        copy_element(&out, i, data, (i / inner / indices->n * extent + index) * inner + i % inner);
    }
    return deliver(im, &out.tensor);
}

static cleave_status fold_concat(cleave_importer *im) {
    const cleave_onnx_tensor *first = cleave_import_constant(im, 0);
    int64_t wanted, shape[CLEAVE_MAX_RANK], total = 0;
    int axis;
    CLEAVE_TRY(cleave_import_integer(im, "axis", 0, &wanted));
    CLEAVE_TRY(cleave_import_axis(im, wanted, first->rank, &axis));
    memcpy(shape, first->shape, sizeof shape);
    for (int k = 0; k < im->node->n_inputs; k++) {
        const cleave_onnx_tensor *part = cleave_import_constant(im, k);
        bool fits = part->rank == first->rank && part->type == first->type;
        for (int d = 0; fits && d < first->rank; d++)
            fits = d == axis || part->shape[d] == first->shape[d];
        if (!fits || !cleave_int64_add(total, part->shape[axis], &total))
            return cleave_import_fail(im, "input %s does not fit input %s beside axis %d",
                                      im->node->inputs[k], im->node->inputs[0], axis);
    }
    shape[axis] = total;
    result out;
    CLEAVE_TRY(new_result(im, first->type, first->rank, shape, &out));
    int64_t inner = cleave_shape_size(first->rank - axis - 1, first->shape + axis + 1), before = 0;
    for (int k = 0; k < im->node->n_inputs; k++) {
        const cleave_onnx_tensor *part = cleave_import_constant(im, k);
        int64_t run = part->shape[axis] * inner;
        for (int64_t i = 0; i < part->n; i++)
            copy_element(&out, i / run * total * inner + before + i % run, part, i);
        before += run;
    }
    return deliver(im, &out.tensor);
}

static cleave_status fold_slice(cleave_importer *im) {
    const cleave_onnx_tensor *data = cleave_import_constant(im, 0);
    int64_t begin[CLEAVE_MAX_RANK], step[CLEAVE_MAX_RANK], shape[CLEAVE_MAX_RANK];
    CLEAVE_TRY(cleave_import_slice_ranges(im, data->rank, data->shape, begin, step, shape));
    result out;
    CLEAVE_TRY(new_result(im, data->type, data->rank, shape, &out));
    for (int64_t i = 0; i < out.tensor.n; i++) {
        int64_t rest = i, at = 0, stride = 1;
        for (int d = data->rank - 1; d >= 0; d--) {
            at += (begin[d] + rest % shape[d] * step[d]) * stride;
            rest /= shape[d];
            stride *= data->shape[d];
        }
        copy_element(&out, i, data, at);
    }
    return deliver(im, &out.tensor);
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

static cleave_status fold_cast(cleave_importer *im) {
    const cleave_onnx_tensor *from = cleave_import_constant(im, 0);
    int64_t to;
    CLEAVE_TRY(cleave_import_integer(im, "to", 0, &to));
    if (to != CLEAVE_ONNX_FLOAT && to != CLEAVE_ONNX_DOUBLE && to != CLEAVE_ONNX_INT32 &&
        to != CLEAVE_ONNX_INT64 && to != CLEAVE_ONNX_BOOL)
        return cleave_import_fail(im,
                                  "casts to data type %lld, supported are FLOAT, DOUBLE, "
                                  "INT32, INT64 and BOOL",
                                  (long long)to);
    result out;
    CLEAVE_TRY(new_result(im, (int32_t)to, from->rank, from->shape, &out));
    for (int64_t i = 0; i < from->n; i++) {
        if (out.floats != NULL) {
            out.floats[i] = from->floats != NULL ? from->floats[i] : (float)from->integers[i];
            continue;
        }
        double number = from->floats != NULL ? (double)from->floats[i] : 0;
        if (!(fabs(number) < 9e18))
            return cleave_import_fail(im, "%g does not fit an integer", number);
        int64_t integer = from->floats != NULL ? (int64_t)number : from->integers[i];
        out.integers[i] =
            to == CLEAVE_ONNX_BOOL ? (from->floats != NULL ? number != 0 : integer != 0) : integer;
    }
    return deliver(im, &out.tensor);
}

static cleave_status integer_arithmetic(cleave_importer *im, char kind, int64_t a, int64_t b,
                                        int64_t *value) {
    bool fits = kind == 'A'   ? cleave_int64_add(a, b, value)
                : kind == 'S' ? !__builtin_sub_overflow(a, b, value)
                : kind == 'M' ? cleave_int64_multiply(a, b, value)
                              : b != 0 && !(a == INT64_MIN && b == -1);
    if (!fits)
        return cleave_import_fail(im, "%lld and %lld have no result in 64 bits", (long long)a,
                                  (long long)b);
    if (kind == 'D')
        *value = a / b;
    return CLEAVE_OK;
}

static float float_arithmetic(char kind, float a, float b) {
    return kind == 'A' ? a + b : kind == 'S' ? a - b : kind == 'M' ? a * b : a / b;
}

/* Index of an operand's element for element i of the broadcast result. */
static int64_t broadcast_index(const cleave_onnx_tensor *operand, const result *out, int64_t i) {
    int64_t at = 0, stride = 1;
    for (int d = out->tensor.rank - 1; d >= 0; d--) {
        int od = d - (out->tensor.rank - operand->rank);
        if (od >= 0) {
            at += operand->shape[od] == 1 ? 0 : i % out->tensor.shape[d] * stride;
            stride *= operand->shape[od];
        }
        i /= out->tensor.shape[d];
    }
    return at;
}

static cleave_status fold_arithmetic(cleave_importer *im) {
    const cleave_onnx_tensor *a = cleave_import_constant(im, 0), *b = cleave_import_constant(im, 1);
    int rank = a->rank > b->rank ? a->rank : b->rank;
    int64_t shape[CLEAVE_MAX_RANK];
    if ((a->floats == NULL) != (b->floats == NULL))
        return cleave_import_fail(im, "its inputs have different types");
    for (int d = 0; d < rank; d++) {
        int ad = d - (rank - a->rank), bd = d - (rank - b->rank);
        int64_t x = ad >= 0 ? a->shape[ad] : 1, y = bd >= 0 ? b->shape[bd] : 1;
        if (x != y && x != 1 && y != 1)
            return cleave_import_fail(im, "dimensions %lld and %lld do not fit", (long long)x,
                                      (long long)y);
        shape[d] = x == 1 ? y : x;
    }
    char kind = im->node->type[0]; /* Add, Sub, Mul, Div */
    result out;
    CLEAVE_TRY(new_result(im, a->type, rank, shape, &out));
    for (int64_t i = 0; i < out.tensor.n; i++) {
        int64_t x = broadcast_index(a, &out, i), y = broadcast_index(b, &out, i);
        if (out.floats != NULL)
            out.floats[i] = float_arithmetic(kind, a->floats[x], b->floats[y]);
        else
            CLEAVE_TRY(
                integer_arithmetic(im, kind, a->integers[x], b->integers[y], &out.integers[i]));
    }
    return deliver(im, &out.tensor);
}

static cleave_status fold_identity(cleave_importer *im) {
    return deliver(im, cleave_import_constant(im, 0));
}

/* ---- the table ------------------------------------------------------------------------------- */

cleave_status cleave_import_fold(cleave_importer *im, bool *folded) {
    static const struct {
        const char *type;
        bool always; /* whatever its inputs are */
        cleave_status (*fold)(cleave_importer *im);
    } table[] = {
        {"Constant", true, fold_constant}, {"Shape", true, fold_shape},
        {"Range", false, fold_range},      {"ConstantOfShape", false, fold_constant_of_shape},
        {"Reshape", false, fold_reshape},  {"Flatten", false, fold_reshape},
        {"Squeeze", false, fold_reshape},  {"Unsqueeze", false, fold_reshape},
        {"Gather", false, fold_gather},    {"Concat", false, fold_concat},
        {"Slice", false, fold_slice},      {"Cast", false, fold_cast},
        {"Add", false, fold_arithmetic},   {"Sub", false, fold_arithmetic},
        {"Mul", false, fold_arithmetic},   {"Div", false, fold_arithmetic},
        {"Identity", false, fold_identity}};
    *folded = false;
    bool constant = im->node->n_inputs > 0;
    for (int i = 0; i < im->node->n_inputs; i++)
        if (cleave_import_has_input(im, i) &&
            cleave_import_input(im, i)->state != CLEAVE_VALUE_CONSTANT)
            constant = false;
    for (size_t k = 0; k < sizeof table / sizeof *table; k++)
        if (strcmp(im->node->type, table[k].type) == 0 && (constant || table[k].always)) {
            *folded = true;
            return table[k].fold(im);
        }
    return CLEAVE_OK;
}
