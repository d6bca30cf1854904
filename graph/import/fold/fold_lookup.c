/* Look-ups and scattering among constants. */
#include "graph/import/fold/fold.h"

#include <string.h>

/* An index that may count from the end. */
static cleave_status read_index(cleave_importer *im, const cleave_onnx_tensor *indices, int64_t at,
                                int64_t extent, int64_t *index) {
    *index = indices->integers[at];
    if (*index < -extent || *index >= extent)
        return cleave_import_fail(im, "index %lld is outside the %lld elements of its dimension",
                                  (long long)*index, (long long)extent);
    *index += *index < 0 ? extent : 0;
    return CLEAVE_OK;
}

static cleave_status read_indices(cleave_importer *im, const cleave_onnx_tensor **indices) {
    *indices = cleave_import_constant(im, 1);
    return *indices != NULL && (*indices)->integers != NULL
               ? CLEAVE_OK
               : cleave_import_fail(im, "its indices are not integers");
}

cleave_status cleave_fold_gather_elements(cleave_importer *im) {
    const cleave_onnx_tensor *data = cleave_import_constant(im, 0), *indices;
    int64_t wanted, stride[CLEAVE_MAX_RANK];
    int axis;
    cleave_folded out;
    CLEAVE_TRY(read_indices(im, &indices));
    CLEAVE_TRY(cleave_import_integer(im, "axis", 0, &wanted));
    CLEAVE_TRY(cleave_import_axis(im, wanted, data->rank, &axis));
    bool fits = indices->rank == data->rank;
    for (int d = 0; fits && d < data->rank; d++)
        fits = d == axis || indices->shape[d] <= data->shape[d];
    if (!fits)
        return cleave_import_fail(im, "its indices do not fit its data beside axis %d", axis);
    cleave_fold_strides(data->rank, data->shape, stride);
    CLEAVE_TRY(cleave_fold_new(im, data->type, data->rank, indices->shape, &out));
    for (int64_t i = 0; i < out.tensor.n; i++) {
        int64_t rest = i, at = 0, index;
        CLEAVE_TRY(read_index(im, indices, i, data->shape[axis], &index));
        for (int d = data->rank - 1; d >= 0; d--) {
            at += (d == axis ? index : rest % indices->shape[d]) * stride[d];
            rest /= indices->shape[d];
        }
        cleave_fold_copy(&out, i, data, at);
    }
    return cleave_fold_deliver(im, 0, &out.tensor);
}

/* Index tuples: the last dimension of the indices names so many first dimensions of the data, and
   each tuple a run of elements. */
typedef struct tuples {
    const cleave_onnx_tensor *indices;
    int length;
    int64_t n, run;
    int64_t stride[CLEAVE_MAX_RANK];
} tuples;

static cleave_status read_tuples(cleave_importer *im, const cleave_onnx_tensor *data, tuples *t) {
    CLEAVE_TRY(read_indices(im, &t->indices));
    int last = t->indices->rank - 1;
    if (last < 0 || t->indices->shape[last] < 1 || t->indices->shape[last] > data->rank)
        return cleave_import_fail(im, "its indices do not name 1 to %d dimensions", data->rank);
    t->length = (int)t->indices->shape[last];
    t->n = t->indices->n / t->length;
    t->run = cleave_shape_size(data->rank - t->length, data->shape + t->length);
    cleave_fold_strides(data->rank, data->shape, t->stride);
    return CLEAVE_OK;
}

static cleave_status find_tuple(cleave_importer *im, const cleave_onnx_tensor *data,
                                const tuples *t, int64_t i, int64_t *at) {
    *at = 0;
    for (int k = 0; k < t->length; k++) {
        int64_t index;
        CLEAVE_TRY(read_index(im, t->indices, i * t->length + k, data->shape[k], &index));
        *at += index * t->stride[k];
    }
    return CLEAVE_OK;
}

cleave_status cleave_fold_gather_nd(cleave_importer *im) {
    const cleave_onnx_tensor *data = cleave_import_constant(im, 0);
    int64_t batch, shape[2 * CLEAVE_MAX_RANK];
    tuples t;
    int rank = 0;
    cleave_folded out;
    CLEAVE_TRY(cleave_import_integer(im, "batch_dims", 0, &batch));
    if (batch != 0)
        return cleave_import_fail(im, "attribute batch_dims is %lld, supported for constants is 0",
                                  (long long)batch);
    CLEAVE_TRY(read_tuples(im, data, &t));
    for (int d = 0; d < t.indices->rank - 1; d++)
        shape[rank++] = t.indices->shape[d];
    for (int d = t.length; d < data->rank; d++)
        shape[rank++] = data->shape[d];
    CLEAVE_TRY(cleave_fold_new(im, data->type, rank, shape, &out));
    for (int64_t i = 0; i < t.n; i++) {
        int64_t at;
        CLEAVE_TRY(find_tuple(im, data, &t, i, &at));
        for (int64_t k = 0; k < t.run; k++)
            cleave_fold_copy(&out, i * t.run + k, data, at + k);
    }
    return cleave_fold_deliver(im, 0, &out.tensor);
}

cleave_status cleave_fold_scatter_nd(cleave_importer *im) {
    const cleave_onnx_tensor *data = cleave_import_constant(im, 0);
    const cleave_onnx_tensor *updates = cleave_import_constant(im, 2);
    const char *reduction;
    tuples t;
    cleave_folded out;
    CLEAVE_TRY(cleave_import_string(im, "reduction", "none", &reduction));
    if (strcmp(reduction, "none") != 0)
        return cleave_import_fail(im, "attribute reduction is %s, supported is none", reduction);
    CLEAVE_TRY(read_tuples(im, data, &t));
    if (updates->n != t.n * t.run || (updates->floats == NULL) != (data->floats == NULL))
        return cleave_import_fail(im, "has %lld updates, %lld are needed", (long long)updates->n,
                                  (long long)(t.n * t.run));
    CLEAVE_TRY(cleave_fold_new(im, data->type, data->rank, data->shape, &out));
    for (int64_t i = 0; i < data->n; i++)
        cleave_fold_copy(&out, i, data, i);
    for (int64_t i = 0; i < t.n; i++) {
        int64_t at;
        CLEAVE_TRY(find_tuple(im, data, &t, i, &at));
        for (int64_t k = 0; k < t.run; k++)
            cleave_fold_copy(&out, at + k, updates, i * t.run + k);
    }
    return cleave_fold_deliver(im, 0, &out.tensor);
}

/* Inputs: indices, depth, values [off, on]. */
cleave_status cleave_fold_one_hot(cleave_importer *im) {
    const cleave_onnx_tensor *indices = cleave_import_constant(im, 0);
    const cleave_onnx_tensor *values = cleave_import_constant(im, 2);
    double number;
    int64_t wanted, shape[2 * CLEAVE_MAX_RANK];
    int axis;
    cleave_folded out;
    CLEAVE_TRY(cleave_import_scalar(im, 1, 0, &number));
    CLEAVE_TRY(cleave_import_integer(im, "axis", -1, &wanted));
    CLEAVE_TRY(cleave_import_axis(im, wanted, indices->rank + 1, &axis));
    if (values->n != 2 || !(number >= 1 && number <= CLEAVE_MOST_FOLDED))
        return cleave_import_fail(im, "has %lld values and a depth of %g", (long long)values->n,
                                  number);
    int64_t depth = (int64_t)number;
    for (int d = 0; d <= indices->rank; d++)
        shape[d] = d == axis ? depth : indices->shape[d < axis ? d : d - 1];
    CLEAVE_TRY(cleave_fold_new(im, values->type, indices->rank + 1, shape, &out));
    int64_t inner = cleave_shape_size(indices->rank - axis, indices->shape + axis);
    for (int64_t i = 0; i < out.tensor.n; i++) {
        long double index = cleave_fold_read(indices, i / inner / depth * inner + i % inner);
        int64_t place = i / inner % depth;
        bool hit = index == place || index + depth == place;
        cleave_fold_copy(&out, i, values, hit ? 1 : 0);
    }
    return cleave_fold_deliver(im, 0, &out.tensor);
}
