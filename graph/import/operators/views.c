/* Operators that only say where elements are: they become views, or nothing. */
#include "base/checked.h"
#include "graph/import/operators/movement.h"

#include <string.h>

cleave_status cleave_import_identity(cleave_importer *im) {
    int32_t tensor;
    bool shared = cleave_import_is_shared(im, 0);
    CLEAVE_TRY(cleave_import_value_tensor(im, cleave_import_input(im, 0), &tensor));
    cleave_import_set_output(im, 0, tensor, shared);
    return CLEAVE_OK;
}

/* ---- target shapes -------------------------------------------------------------------------- */

static cleave_status flatten_shape(cleave_importer *im, int rank, const int64_t *shape,
                                   int *target_rank, int64_t *target) {
    int64_t axis;
    CLEAVE_TRY(cleave_import_integer(im, "axis", 1, &axis));
    if (axis < -rank || axis > rank)
        return cleave_import_fail(im, "axis %lld is outside the %d dimensions", (long long)axis,
                                  rank);
    int cut = (int)(axis < 0 ? axis + rank : axis);
    *target_rank = 2;
    target[0] = cleave_shape_size(cut, shape);
    target[1] = cleave_shape_size(rank - cut, shape + cut);
    return CLEAVE_OK;
}

static cleave_status reshape_shape(cleave_importer *im, int rank, const int64_t *shape,
                                   int *target_rank, int64_t *target) {
    int64_t list[2 * CLEAVE_MAX_RANK], keep_zero, known = 1;
    const int64_t size = cleave_shape_size(rank, shape), least = size > 0;
    int n, unknown = -1;
    CLEAVE_TRY(cleave_import_integer(im, "allowzero", 0, &keep_zero));
    CLEAVE_TRY(cleave_import_list(im, "shape", 1, &n, list));
    if (n < 0 || n > CLEAVE_MAX_RANK)
        return cleave_import_fail(im, "its target shape has %d dimensions, supported are 0 to %d",
                                  n, CLEAVE_MAX_RANK);
    for (int d = 0; d < n; d++) {
        target[d] = list[d] == 0 && keep_zero == 0 && d < rank ? shape[d] : list[d];
        if (target[d] == -1 && unknown >= 0)
            return cleave_import_fail(im, "its target shape has -1 twice");
        if (target[d] == -1)
            unknown = d;
        else if (target[d] < least || !cleave_int64_multiply(known, target[d], &known))
            return cleave_import_fail(im, "dimension %d of its target shape is %lld", d,
                                      (long long)list[d]);
    }
    if (unknown >= 0 && known > 0 && size % known == 0)
        target[unknown] = size / known;
    if ((known > 0 && size % known != 0) || (known == 0 && unknown >= 0) ||
        (unknown < 0 && size != known))
        return cleave_import_fail(im, "%lld elements do not fit a target shape of %s%lld",
                                  (long long)size, unknown >= 0 ? "a multiple of " : "",
                                  (long long)known);
    *target_rank = n;
    return CLEAVE_OK;
}

/* Bits of the dimensions named by a list of axes that may count from the end of `rank`. */
static cleave_status axes_mask(cleave_importer *im, int rank, unsigned *mask, int *n) {
    int64_t list[2 * CLEAVE_MAX_RANK];
    CLEAVE_TRY(cleave_import_list(im, "axes", 1, n, list));
    *mask = 0;
    /* Unsqueeze counts in its result, whose rank grows by the length of the list. */
    int of = strcmp(im->node->type, "Unsqueeze") == 0 && *n > 0 ? rank + *n : rank;
    if (of > CLEAVE_MAX_RANK)
        return cleave_import_fail(im, "rank %d is above the %d supported", of, CLEAVE_MAX_RANK);
    for (int i = 0; i < *n; i++) {
        int axis;
        CLEAVE_TRY(cleave_import_axis(im, list[i], of, &axis));
        if ((*mask >> axis & 1u) != 0)
            return cleave_import_fail(im, "names axis %d twice", axis);
        *mask |= 1u << axis;
    }
    return CLEAVE_OK;
}

static cleave_status squeeze_shape(cleave_importer *im, int rank, const int64_t *shape,
                                   int *target_rank, int64_t *target) {
    unsigned mask;
    int n;
    CLEAVE_TRY(axes_mask(im, rank, &mask, &n));
    *target_rank = 0;
    for (int d = 0; d < rank; d++) {
        bool named = n < 0 ? shape[d] == 1 : (mask >> d & 1u) != 0;
        if (named && shape[d] != 1)
            return cleave_import_fail(im, "dimension %d is %lld, only 1 can be squeezed", d,
                                      (long long)shape[d]);
        if (!named)
            target[(*target_rank)++] = shape[d];
    }
    return CLEAVE_OK;
}

static cleave_status unsqueeze_shape(cleave_importer *im, int rank, const int64_t *shape,
                                     int *target_rank, int64_t *target) {
    unsigned mask;
    int n, from = 0;
    CLEAVE_TRY(axes_mask(im, rank, &mask, &n));
    if (n < 0)
        return cleave_import_fail(im, "axes are missing");
    *target_rank = rank + n;
    for (int d = 0; d < *target_rank; d++)
        target[d] = (mask >> d & 1u) != 0 ? 1 : shape[from++];
    return CLEAVE_OK;
}

cleave_status cleave_import_target_shape(cleave_importer *im, int rank, const int64_t *shape,
                                         int *target_rank, int64_t *target) {
    const char *type = im->node->type;
    if (strcmp(type, "Flatten") == 0)
        return flatten_shape(im, rank, shape, target_rank, target);
    if (strcmp(type, "Reshape") == 0)
        return reshape_shape(im, rank, shape, target_rank, target);
    if (strcmp(type, "Squeeze") == 0)
        return squeeze_shape(im, rank, shape, target_rank, target);
    return unsqueeze_shape(im, rank, shape, target_rank, target);
}

cleave_status cleave_import_reshape_node(cleave_importer *im) {
    int32_t source, result;
    int rank;
    int64_t shape[CLEAVE_MAX_RANK] = {0};
    bool shared = cleave_import_is_shared(im, 0);
    CLEAVE_TRY(cleave_import_value_tensor(im, cleave_import_input(im, 0), &source));
    cleave_tensor from = im->tensors.items[source].tensor;
    CLEAVE_TRY(cleave_import_target_shape(im, from.rank, from.shape, &rank, shape));
    CLEAVE_TRY(cleave_import_reshape(im, im->node->outputs[0], source, rank, shape, &result));
    cleave_import_set_output(im, 0, result, shared);
    return CLEAVE_OK;
}

/* ---- transpose, concatenation ---------------------------------------------------------------- */

/* What only a transpose reads of a product, it may lay out transposed: rows stay rows. */
static void lay_out_transposed(cleave_importer *im, int32_t tensor, const int *permutation) {
    int rank = im->tensors.items[tensor].tensor.rank;
    int32_t base,
        op = cleave_import_open_operator(im, tensor, cleave_import_is_shared(im, 0), &base);
    if (op < 0 || base != tensor || rank < 3 || permutation[rank - 1] != rank - 1)
        return;
    const cleave_nest *nest = &im->nests.items[im->operators.items[op].main_nest].nest;
    if (nest->kind != CLEAVE_NEST_PRODUCT)
        return;
    int32_t written[] = {tensor, nest->output.tensor};
    for (int i = 0; i < 2; i++)
        memcpy(im->tensors.items[written[i]].tensor.order, permutation,
               (size_t)rank * sizeof *permutation);
}

cleave_status cleave_import_transpose(cleave_importer *im) {
    int32_t source, result;
    CLEAVE_TRY(cleave_import_value_tensor(im, cleave_import_input(im, 0), &source));
    cleave_tensor from = im->tensors.items[source].tensor;
    int64_t list[CLEAVE_MAX_RANK];
    int permutation[CLEAVE_MAX_RANK] = {0};
    for (int d = 0; d < from.rank; d++)
        list[d] = from.rank - 1 - d;
    if (cleave_import_attribute(im, "perm") != NULL)
        CLEAVE_TRY(cleave_import_integers(im, "perm", from.rank, 0, from.rank - 1, 0, list));
    unsigned seen = 0;
    for (int d = 0; d < from.rank; d++) {
        permutation[d] = (int)list[d];
        seen |= 1u << list[d];
    }
    if (seen != (1u << from.rank) - 1u)
        return cleave_import_fail(im, "attribute perm is no permutation of %d dimensions",
                                  from.rank);
    lay_out_transposed(im, source, permutation);
    CLEAVE_TRY(cleave_import_permute(im, im->node->outputs[0], source, permutation, &result));
    cleave_import_set_output(im, 0, result, false);
    return CLEAVE_OK;
}

/* Is there nothing in it?  Files join lists of shapes that may be empty. */
static bool is_empty(cleave_importer *im, int i) {
    const cleave_onnx_tensor *constant = cleave_import_constant(im, i);
    return constant != NULL && constant->n == 0;
}

cleave_status cleave_import_concat(cleave_importer *im) {
    int n = 0, axis;
    int64_t wanted;
    if (im->node->n_inputs == 1)
        return cleave_import_identity(im);
    if (cleave_import_attribute(im, "axis") == NULL)
        return cleave_import_fail(im, "attribute axis is missing");
    CLEAVE_TRY(cleave_import_integer(im, "axis", 0, &wanted));
    int32_t result, *sources = CLEAVE_ARENA_ARRAY(&im->scratch, int32_t, im->node->n_inputs);
    if (sources == NULL)
        return cleave_import_no_memory(im);
    for (int i = 0; i < im->node->n_inputs; i++)
        if (!is_empty(im, i))
            CLEAVE_TRY(cleave_import_value_tensor(im, cleave_import_input(im, i), &sources[n++]));
    cleave_tensor first = im->tensors.items[sources[0]].tensor;
    int64_t along = 0;
    CLEAVE_TRY(cleave_import_axis(im, wanted, first.rank, &axis));
    for (int i = 0; i < n; i++) {
        const cleave_tensor *other = &im->tensors.items[sources[i]].tensor;
        bool fits = other->rank == first.rank;
        for (int d = 0; fits && d < first.rank; d++)
            fits = d == axis || other->shape[d] == first.shape[d];
        if (!fits)
            return cleave_import_fail(im, "input %s differs from input %s beside axis %d",
                                      other->name, first.name, axis);
        if (!cleave_int64_add(along, other->shape[axis], &along))
            return cleave_import_fail(im, "axis %d is too long", axis);
    }
    CLEAVE_TRY(cleave_import_join(im, im->node->outputs[0], n, sources, axis, &result));
    cleave_import_set_output(im, 0, result, false);
    return CLEAVE_OK;
}

cleave_status cleave_import_only_constant(cleave_importer *im) {
    return cleave_import_fail(im, "its inputs are not constants: the shape of what it gives would "
                                  "depend on data, which is not supported");
}
