/* Constants moved about: shapes, slices, look-ups. */
#include "base/checked.h"
#include "graph/import/fold/fold.h"

#include <string.h>

cleave_status cleave_fold_reshape(cleave_importer *im) {
    cleave_onnx_tensor tensor = *cleave_import_constant(im, 0);
    int rank;
    int64_t shape[CLEAVE_MAX_RANK] = {0};
    CLEAVE_TRY(cleave_import_target_shape(im, tensor.rank, tensor.shape, &rank, shape));
    tensor.rank = rank;
    memcpy(tensor.shape, shape, sizeof shape);
    return cleave_fold_deliver(im, 0, &tensor);
}

cleave_status cleave_fold_gather_node(cleave_importer *im) {
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
    cleave_folded out;
    CLEAVE_TRY(cleave_fold_new(im, data->type, rank, shape, &out));
    int64_t inner = cleave_shape_size(data->rank - axis - 1, data->shape + axis + 1);
    int64_t extent = data->shape[axis];
    for (int64_t i = 0; i < out.tensor.n; i++) {
        int64_t index = indices->integers[i / inner % indices->n];
        if (index < -extent || index >= extent)
            return cleave_import_fail(im, "index %lld is outside the %lld elements of axis %d",
                                      (long long)index, (long long)extent, axis);
        index += index < 0 ? extent : 0;
        cleave_fold_copy(&out, i, data,
                         (i / inner / indices->n * extent + index) * inner + i % inner);
    }
    return cleave_fold_deliver(im, 0, &out.tensor);
}

cleave_status cleave_fold_concat(cleave_importer *im) {
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
    cleave_folded out;
    CLEAVE_TRY(cleave_fold_new(im, first->type, first->rank, shape, &out));
    int64_t inner = cleave_shape_size(first->rank - axis - 1, first->shape + axis + 1), before = 0;
    for (int k = 0; k < im->node->n_inputs; k++) {
        const cleave_onnx_tensor *part = cleave_import_constant(im, k);
        int64_t run = part->shape[axis] * inner;
        for (int64_t i = 0; i < part->n; i++)
            cleave_fold_copy(&out, i / run * total * inner + before + i % run, part, i);
        before += run;
    }
    return cleave_fold_deliver(im, 0, &out.tensor);
}

cleave_status cleave_fold_slice(cleave_importer *im) {
    const cleave_onnx_tensor *data = cleave_import_constant(im, 0);
    int64_t begin[CLEAVE_MAX_RANK], step[CLEAVE_MAX_RANK], shape[CLEAVE_MAX_RANK];
    CLEAVE_TRY(cleave_import_slice_ranges(im, data->rank, data->shape, begin, step, shape));
    cleave_folded out;
    CLEAVE_TRY(cleave_fold_new(im, data->type, data->rank, shape, &out));
    int64_t dense[CLEAVE_MAX_RANK], stride[CLEAVE_MAX_RANK], first = 0;
    cleave_fold_strides(data->rank, data->shape, dense);
    for (int d = 0; d < data->rank; d++) {
        first += begin[d] * dense[d];
        stride[d] = step[d] * dense[d];
    }
    cleave_fold_gather(&out, data, first, stride);
    return cleave_fold_deliver(im, 0, &out.tensor);
}

cleave_status cleave_fold_transpose(cleave_importer *im) {
    const cleave_onnx_tensor *data = cleave_import_constant(im, 0);
    int64_t list[CLEAVE_MAX_RANK], shape[CLEAVE_MAX_RANK], dense[CLEAVE_MAX_RANK];
    int64_t stride[CLEAVE_MAX_RANK];
    unsigned seen = 0;
    for (int d = 0; d < data->rank; d++)
        list[d] = data->rank - 1 - d;
    if (cleave_import_attribute(im, "perm") != NULL)
        CLEAVE_TRY(cleave_import_integers(im, "perm", data->rank, 0, data->rank - 1, 0, list));
    cleave_fold_strides(data->rank, data->shape, dense);
    for (int d = 0; d < data->rank; d++) {
        shape[d] = data->shape[list[d]];
        stride[d] = dense[list[d]];
        seen |= 1u << list[d];
    }
    if (seen != (1u << data->rank) - 1u)
        return cleave_import_fail(im, "attribute perm is no permutation of %d dimensions",
                                  data->rank);
    cleave_folded out;
    CLEAVE_TRY(cleave_fold_new(im, data->type, data->rank, shape, &out));
    cleave_fold_gather(&out, data, 0, stride);
    return cleave_fold_deliver(im, 0, &out.tensor);
}

/* The input is broadcast against the shape that input 1 says. */
cleave_status cleave_fold_expand(cleave_importer *im) {
    const cleave_onnx_tensor *data = cleave_import_constant(im, 0);
    int64_t list[2 * CLEAVE_MAX_RANK], shape[CLEAVE_MAX_RANK], dense[CLEAVE_MAX_RANK];
    int64_t stride[CLEAVE_MAX_RANK];
    int n;
    CLEAVE_TRY(cleave_import_list(im, "shape", 1, &n, list));
    int rank = n > data->rank ? n : data->rank;
    if (rank > CLEAVE_MAX_RANK)
        return cleave_import_fail(im, "rank %d is above the %d supported", rank, CLEAVE_MAX_RANK);
    cleave_fold_strides(data->rank, data->shape, dense);
    for (int d = 0; d < rank; d++) {
        int at = d - (rank - data->rank), wanted = d - (rank - n);
        int64_t extent = at >= 0 ? data->shape[at] : 1, to = wanted >= 0 ? list[wanted] : 1;
        if (extent != 1 && to != 1 && extent != to)
            return cleave_import_fail(im, "dimension %d is %lld, which does not fit %lld", at,
                                      (long long)extent, (long long)to);
        shape[d] = extent != 1 ? extent : to;
        stride[d] = at < 0 || extent == 1 ? 0 : dense[at];
    }
    cleave_folded out;
    CLEAVE_TRY(cleave_fold_new(im, data->type, rank, shape, &out));
    cleave_fold_gather(&out, data, 0, stride);
    return cleave_fold_deliver(im, 0, &out.tensor);
}

cleave_status cleave_fold_tile(cleave_importer *im) {
    const cleave_onnx_tensor *data = cleave_import_constant(im, 0);
    int64_t repeats[2 * CLEAVE_MAX_RANK], shape[CLEAVE_MAX_RANK];
    int n;
    CLEAVE_TRY(cleave_import_list(im, "repeats", 1, &n, repeats));
    if (n != data->rank)
        return cleave_import_fail(im, "has %d repeats for %d dimensions", n, data->rank);
    for (int d = 0; d < n; d++)
        if (repeats[d] < 0 || !cleave_int64_multiply(data->shape[d], repeats[d], &shape[d]))
            return cleave_import_fail(im, "repeats dimension %d %lld times", d,
                                      (long long)repeats[d]);
    cleave_folded out;
    CLEAVE_TRY(cleave_fold_new(im, data->type, n, shape, &out));
    for (int64_t i = 0; i < out.tensor.n; i++) {
        int64_t rest = i, at = 0, stride = 1;
        for (int d = n - 1; d >= 0; d--) {
            at += rest % shape[d] % data->shape[d] * stride;
            rest /= shape[d];
            stride *= data->shape[d];
        }
        cleave_fold_copy(&out, i, data, at);
    }
    return cleave_fold_deliver(im, 0, &out.tensor);
}

cleave_status cleave_fold_split(cleave_importer *im) {
    const cleave_onnx_tensor *data = cleave_import_constant(im, 0);
    int64_t shape[CLEAVE_MAX_RANK], stride[CLEAVE_MAX_RANK], begin = 0, *lengths;
    int axis;
    CLEAVE_TRY(cleave_import_split_sizes(im, data->rank, data->shape, &axis, &lengths));
    memcpy(shape, data->shape, sizeof shape);
    cleave_fold_strides(data->rank, data->shape, stride);
    for (int i = 0; i < im->node->n_outputs; i++) {
        cleave_folded out;
        shape[axis] = lengths[i];
        if (im->node->outputs[i][0] != '\0') {
            CLEAVE_TRY(cleave_fold_new(im, data->type, data->rank, shape, &out));
            cleave_fold_gather(&out, data, begin * stride[axis], stride);
            CLEAVE_TRY(cleave_fold_deliver(im, i, &out.tensor));
        }
        begin += lengths[i];
    }
    return CLEAVE_OK;
}
