/* Slice, Split and Compress: parts of axes. */
#include "graph/import/fold/fold.h"
#include "graph/import/operators/movement.h"

/* ---- Slice ----------------------------------------------------------------------------------- */

/* An end of a range: counted from the front, and no further outside than one element. */
static int64_t clamp_index(int64_t index, int64_t extent, int64_t least, int64_t most) {
    if (index < 0)
        index += extent;
    return index < least ? least : index > most ? most : index;
}

/* begin, begin + step ... before `end`, or above it where the step is negative. */
static void find_range(int64_t start, int64_t end, int64_t by, int64_t extent, int64_t *begin,
                       int64_t *length) {
    bool up = by > 0;
    int64_t first = clamp_index(start, extent, 0, up ? extent : extent - 1);
    int64_t last = clamp_index(end, extent, up ? 0 : -1, up ? extent : extent - 1);
    int64_t span = up ? last - first : first - last, size = up ? by : -by;
    *begin = first;
    *length = span > 0 ? (span - 1) / size + 1 : 0;
}

cleave_status cleave_import_slice_ranges(cleave_importer *im, int rank, const int64_t *shape,
                                         int64_t *begin, int64_t *step, int64_t *result) {
    int64_t starts[2 * CLEAVE_MAX_RANK], ends[2 * CLEAVE_MAX_RANK], axes[2 * CLEAVE_MAX_RANK],
        steps[2 * CLEAVE_MAX_RANK];
    int n, n_ends, n_axes, n_steps;
    unsigned seen = 0;
    CLEAVE_TRY(cleave_import_list(im, "starts", 1, &n, starts));
    CLEAVE_TRY(cleave_import_list(im, "ends", 2, &n_ends, ends));
    CLEAVE_TRY(cleave_import_list(im, "axes", 3, &n_axes, axes));
    CLEAVE_TRY(cleave_import_list(im, "steps", 4, &n_steps, steps));
    if (n < 0 || n_ends != n || (n_axes >= 0 && n_axes != n) || (n_steps >= 0 && n_steps != n))
        return cleave_import_fail(im, "%d starts, %d ends, %d axes and %d steps do not match", n,
                                  n_ends, n_axes, n_steps);
    for (int d = 0; d < rank; d++) {
        begin[d] = 0;
        step[d] = 1;
        result[d] = shape[d];
    }
    for (int i = 0; i < n; i++) {
        int axis;
        CLEAVE_TRY(cleave_import_axis(im, n_axes >= 0 ? axes[i] : i, rank, &axis));
        int64_t by = n_steps >= 0 ? steps[i] : 1;
        if (by == 0 || by == INT64_MIN || (seen >> axis & 1u) != 0)
            return cleave_import_fail(im,
                                      by == 0 || by == INT64_MIN
                                          ? "the step along axis %d is not possible"
                                          : "names axis %d twice",
                                      axis);
        seen |= 1u << axis;
        step[axis] = by;
        find_range(starts[i], ends[i], by, shape[axis], &begin[axis], &result[axis]);
    }
    return CLEAVE_OK;
}

/* Index begin, begin + step ... along an axis. */
static cleave_status take_steps(cleave_importer *im, int32_t source, int axis, int64_t begin,
                                int64_t step, int64_t n, int32_t *result) {
    CLEAVE_TRY(cleave_import_spend(im, n, 1));
    int64_t *ids = CLEAVE_ARENA_ARRAY(&im->scratch, int64_t, n);
    if (ids == NULL)
        return cleave_import_no_memory(im);
    for (int64_t i = 0; i < n; i++)
        ids[i] = begin + i * step;
    return cleave_import_take(im, source, axis, n, ids, result);
}

/* What has no elements is a constant: a concatenation leaves it out, as files do that roll a
   tensor by nothing. */
static cleave_status deliver_empty(cleave_importer *im, int rank, const int64_t *shape) {
    cleave_folded empty;
    CLEAVE_TRY(
        cleave_fold_new(im, cleave_import_type(cleave_import_input(im, 0)), rank, shape, &empty));
    return cleave_fold_deliver(im, 0, &empty.tensor);
}

cleave_status cleave_import_slice(cleave_importer *im) {
    int32_t source, result;
    const char *name = cleave_arena_printf(im->arena, "%s.forward", im->node->outputs[0]);
    int64_t begin[CLEAVE_MAX_RANK], step[CLEAVE_MAX_RANK], shape[CLEAVE_MAX_RANK] = {0};
    CLEAVE_TRY(cleave_import_value_tensor(im, cleave_import_input(im, 0), &source));
    cleave_tensor from = im->tensors.items[source].tensor;
    cleave_view view = {.kind = CLEAVE_VIEW_SLICE, .n_sources = 1, .sources = &source};
    CLEAVE_TRY(cleave_import_slice_ranges(im, from.rank, from.shape, begin, step, shape));
    for (int d = 0; d < from.rank; d++)
        if (shape[d] == 0)
            return deliver_empty(im, from.rank, shape);
    bool moves = false;
    for (int d = 0; d < from.rank; d++) {
        bool up = step[d] > 0;
        moves = moves || (up && shape[d] != from.shape[d]);
        view.begin[d] = up ? begin[d] : 0;
        view.step[d] = up && shape[d] > 1 ? step[d] : 1;
        from.shape[d] = up ? shape[d] : from.shape[d];
    }
    if (name == NULL)
        return cleave_import_no_memory(im);
    result = source;
    if (moves)
        CLEAVE_TRY(cleave_import_new_view(im, name, view, from.rank, from.shape, &result));
    for (int d = 0; d < from.rank; d++)
        if (step[d] < 0)
            CLEAVE_TRY(take_steps(im, result, d, begin[d], step[d], shape[d], &result));
    return cleave_import_deliver(im, result, from.rank, shape, source);
}

/* ---- Split ----------------------------------------------------------------------------------- */

/* Without sizes the parts are equal; from operator set 18 on the last one may be smaller. */
static cleave_status equal_parts(cleave_importer *im, int64_t extent, int n, int64_t *sizes) {
    int64_t parts;
    CLEAVE_TRY(cleave_import_integer(im, "num_outputs", n, &parts));
    bool may_differ = cleave_import_attribute(im, "num_outputs") != NULL;
    if (parts != n || (extent % n != 0 && !may_differ))
        return cleave_import_fail(im,
                                  "%lld elements can't be split into %lld equal parts for %d "
                                  "outputs",
                                  (long long)extent, (long long)parts, n);
    int64_t size = (extent + n - 1) / n;
    for (int i = 0; i < n; i++)
        sizes[i] = i + 1 < n ? size : extent - size * (n - 1);
    return CLEAVE_OK;
}

cleave_status cleave_import_split_sizes(cleave_importer *im, int rank, const int64_t *shape,
                                        int *axis, int64_t **sizes) {
    const cleave_onnx_attribute *attribute = cleave_import_attribute(im, "split");
    const cleave_onnx_tensor *constant = cleave_import_constant(im, 1);
    const int64_t *list = attribute != NULL  ? attribute->integers
                          : constant != NULL ? constant->integers
                                             : NULL;
    int64_t wanted, n = im->node->n_outputs, sum = 0;
    CLEAVE_TRY(cleave_import_integer(im, "axis", 0, &wanted));
    CLEAVE_TRY(cleave_import_axis(im, wanted, rank, axis));
    *sizes = CLEAVE_ARENA_ARRAY(&im->scratch, int64_t, n);
    if (*sizes == NULL)
        return cleave_import_no_memory(im);
    if (list == NULL && (attribute != NULL || cleave_import_has_input(im, 1)))
        return cleave_import_fail(im, "split has to be a constant list of integers");
    if (list == NULL)
        return equal_parts(im, shape[*axis], (int)n, *sizes);
    int64_t length = attribute != NULL ? attribute->n : constant->n;
    for (int64_t i = 0; i < n && length == n; i++) {
        (*sizes)[i] = list[i];
        bool fits = list[i] >= 0 && list[i] <= shape[*axis] - sum;
        sum = fits ? sum + list[i] : -1;
        if (!fits)
            break;
    }
    return sum == shape[*axis]
               ? CLEAVE_OK
               : cleave_import_fail(im,
                                    "split has %lld sizes that do not add up to %lld for %lld "
                                    "outputs",
                                    (long long)length, (long long)shape[*axis], (long long)n);
}

cleave_status cleave_import_split(cleave_importer *im) {
    int32_t source, part;
    int axis;
    int64_t *sizes, begin = 0;
    bool shared = cleave_import_is_shared(im, 0);
    CLEAVE_TRY(cleave_import_value_tensor(im, cleave_import_input(im, 0), &source));
    cleave_tensor from = im->tensors.items[source].tensor;
    CLEAVE_TRY(cleave_import_split_sizes(im, from.rank, from.shape, &axis, &sizes));
    for (int i = 0; i < im->node->n_outputs; i++) {
        if (cleave_import_uses_output(im, i)) {
            CLEAVE_TRY(cleave_import_range(im, im->node->outputs[i], source, axis, begin, sizes[i],
                                           &part));
            cleave_import_set_output(im, i, part, shared);
        }
        begin += sizes[i];
    }
    return CLEAVE_OK;
}

/* ---- Compress -------------------------------------------------------------------------------- */

cleave_status cleave_import_compress(cleave_importer *im) {
    const cleave_onnx_tensor *condition = cleave_import_constant(im, 1);
    int32_t source, result;
    int axis = 0;
    int64_t wanted, n = 0;
    CLEAVE_TRY(cleave_import_value_tensor(im, cleave_import_input(im, 0), &source));
    cleave_tensor from = im->tensors.items[source].tensor;
    if (condition == NULL || condition->integers == NULL)
        return cleave_import_fail(im,
                                  "its condition %s is not constant: its result would have no "
                                  "known shape",
                                  im->node->inputs[1]);
    if (cleave_import_attribute(im, "axis") == NULL) {
        int64_t size = cleave_tensor_size(&from);
        const char *name = cleave_arena_printf(im->arena, "%s.flat", im->node->outputs[0]);
        if (name == NULL)
            return cleave_import_no_memory(im);
        CLEAVE_TRY(cleave_import_reshape(im, name, source, 1, &size, &source));
        from = im->tensors.items[source].tensor;
    } else {
        CLEAVE_TRY(cleave_import_integer(im, "axis", 0, &wanted));
        CLEAVE_TRY(cleave_import_axis(im, wanted, from.rank, &axis));
    }
    CLEAVE_TRY(cleave_import_spend(im, condition->n, 1));
    int64_t *ids = CLEAVE_ARENA_ARRAY(&im->scratch, int64_t, condition->n);
    if (ids == NULL)
        return cleave_import_no_memory(im);
    if (condition->n > from.shape[axis])
        return cleave_import_fail(im, "its condition has %lld elements for %lld",
                                  (long long)condition->n, (long long)from.shape[axis]);
    for (int64_t i = 0; i < condition->n; i++)
        if (condition->integers[i] != 0)
            ids[n++] = i;
    CLEAVE_TRY(cleave_import_take(im, source, axis, n, ids, &result));
    from.shape[axis] = n;
    return cleave_import_deliver(im, result, from.rank, from.shape, source);
}
