/* Operators that put elements elsewhere: DepthToSpace, SpaceToDepth, ReverseSequence, OneHot and
   scattering by constant indices. */
#include "graph/import/operators/movement.h"

#include <string.h>

/* ---- depth and space ------------------------------------------------------------------------- */

/* Input 0 as `rank` dimensions, transposed, then as a tensor of rank 4. */
static cleave_status shuffle(cleave_importer *im, const int64_t *inner, const int *permutation,
                             const int64_t *outer) {
    int32_t tensor;
    const char *split = cleave_arena_printf(im->arena, "%s.split", im->node->outputs[0]);
    const char *moved = cleave_arena_printf(im->arena, "%s.moved", im->node->outputs[0]);
    if (split == NULL || moved == NULL)
        return cleave_import_no_memory(im);
    CLEAVE_TRY(cleave_import_tensor(im, 0, &tensor));
    CLEAVE_TRY(cleave_import_reshape(im, split, tensor, 6, inner, &tensor));
    CLEAVE_TRY(cleave_import_permute(im, moved, tensor, permutation, &tensor));
    CLEAVE_TRY(cleave_import_reshape(im, im->node->outputs[0], tensor, 4, outer, &tensor));
    cleave_import_set_output(im, 0, tensor, false);
    return CLEAVE_OK;
}

/* The block size and the shape [n, c, h, w] of input 0. */
static cleave_status read_blocks(cleave_importer *im, int64_t *block, int64_t *shape) {
    int32_t tensor;
    CLEAVE_TRY(cleave_import_integer(im, "blocksize", 0, block));
    CLEAVE_TRY(cleave_import_tensor(im, 0, &tensor));
    const cleave_tensor *from = &im->tensors.items[tensor].tensor;
    if (from->rank != 4)
        return cleave_import_fail(im, "its input has rank %d, it has to be 4", from->rank);
    if (*block < 1 || *block > INT64_C(1) << 20)
        return cleave_import_fail(im, "attribute blocksize is %lld", (long long)*block);
    memcpy(shape, from->shape, 4 * sizeof *shape);
    return CLEAVE_OK;
}

cleave_status cleave_import_depth_to_space(cleave_importer *im) {
    static const int depth_first[] = {0, 3, 4, 1, 5, 2}, columns_first[] = {0, 1, 4, 2, 5, 3};
    const char *mode;
    int64_t b, s[4];
    CLEAVE_TRY(cleave_import_string(im, "mode", "DCR", &mode));
    CLEAVE_TRY(read_blocks(im, &b, s));
    bool columns = strcmp(mode, "CRD") == 0;
    if (!columns && strcmp(mode, "DCR") != 0)
        return cleave_import_fail(im, "attribute mode is %s, supported are DCR and CRD", mode);
    if (s[1] % (b * b) != 0)
        return cleave_import_fail(im, "%lld channels are no multiple of %lld x %lld",
                                  (long long)s[1], (long long)b, (long long)b);
    int64_t c = s[1] / (b * b);
    return shuffle(im,
                   columns ? (int64_t[]){s[0], c, b, b, s[2], s[3]}
                           : (int64_t[]){s[0], b, b, c, s[2], s[3]},
                   columns ? columns_first : depth_first, (int64_t[]){s[0], c, s[2] * b, s[3] * b});
}

cleave_status cleave_import_space_to_depth(cleave_importer *im) {
    int64_t b, s[4];
    CLEAVE_TRY(read_blocks(im, &b, s));
    if (s[2] % b != 0 || s[3] % b != 0)
        return cleave_import_fail(im, "%lld x %lld is no multiple of blocks of %lld",
                                  (long long)s[2], (long long)s[3], (long long)b);
    return shuffle(im, (int64_t[]){s[0], s[1], s[2] / b, b, s[3] / b, b}, (int[]){0, 3, 5, 1, 2, 4},
                   (int64_t[]){s[0], s[1] * b * b, s[2] / b, s[3] / b});
}

/* ---- ReverseSequence ------------------------------------------------------------------------- */

/* ids[t, b] = t < length[b] ? length[b] - 1 - t : t */
static cleave_status reversed_ids(cleave_importer *im, int32_t lengths, int64_t steps,
                                  int32_t *ids) {
    int64_t shape[2] = {steps, im->tensors.items[lengths].tensor.shape[0]};
    const char *name = cleave_arena_printf(im->arena, "%s.steps", im->node->outputs[0]);
    cleave_nest nest;
    if (name == NULL)
        return cleave_import_no_memory(im);
    CLEAVE_TRY(cleave_import_begin_pointwise(im, name, 2, shape, -1, &nest));
    int length = cleave_nest_add_input(&nest, lengths);
    cleave_map_axis(&nest.inputs[length], 0, 1);
    int t = cleave_nest_emit(&nest, CLEAVE_OP_INDEX, 0, 0, 0, 0);
    int within = cleave_nest_emit(&nest, CLEAVE_OP_LESS, t, length, 0, 0);
    int beyond = cleave_nest_emit(&nest, CLEAVE_OP_LESS_EQUAL, length, t, 0, 0);
    int left = cleave_nest_emit(&nest, CLEAVE_OP_SUB, length, t, 0, 0);
    int mirrored = cleave_nest_emit(&nest, CLEAVE_OP_SCALE, left, 0, 1, -1);
    int moved = cleave_nest_emit(&nest, CLEAVE_OP_MASK, mirrored, within, 0, 0);
    int kept = cleave_nest_emit(&nest, CLEAVE_OP_MASK, t, beyond, 0, 0);
    cleave_nest_emit(&nest, CLEAVE_OP_ADD, moved, kept, 0, 0);
    *ids = nest.output.tensor;
    return cleave_import_end_pointwise(im, &nest);
}

cleave_status cleave_import_reverse_sequence(cleave_importer *im) {
    int64_t batch_wanted, time_wanted;
    int batch, time;
    int32_t lengths, output;
    cleave_look_up of = {.name = im->node->outputs[0]};
    CLEAVE_TRY(cleave_import_integer(im, "batch_axis", 1, &batch_wanted));
    CLEAVE_TRY(cleave_import_integer(im, "time_axis", 0, &time_wanted));
    CLEAVE_TRY(cleave_import_tensor(im, 0, &of.table));
    CLEAVE_TRY(cleave_import_tensor(im, 1, &lengths));
    cleave_tensor from = im->tensors.items[of.table].tensor;
    const cleave_tensor *by = &im->tensors.items[lengths].tensor;
    CLEAVE_TRY(cleave_import_axis(im, batch_wanted, from.rank, &batch));
    CLEAVE_TRY(cleave_import_axis(im, time_wanted, from.rank, &time));
    if (batch == time || by->rank != 1 || by->shape[0] != from.shape[batch])
        return cleave_import_fail(im, "time axis %d, batch axis %d and its lengths do not fit",
                                  time, batch);
    CLEAVE_TRY(reversed_ids(im, lengths, from.shape[time], &of.ids));
    of.axis = time;
    of.rank = from.rank;
    of.ids_map[0] = time;
    of.ids_map[1] = batch;
    for (int d = 0; d < from.rank; d++) {
        of.shape[d] = from.shape[d];
        of.table_map[d] = d;
        of.axes[d] = im->tensors.items[of.table].axes[d];
    }
    CLEAVE_TRY(cleave_import_look_up(im, &of, &output));
    cleave_import_set_output(im, 0, output, false);
    return CLEAVE_OK;
}

/* ---- OneHot ---------------------------------------------------------------------------------- */

/* The second value where the index along the new axis is the id, which may count from the end; the
   first one elsewhere. */
cleave_status cleave_import_one_hot(cleave_importer *im) {
    int64_t wanted, shape[2 * CLEAVE_MAX_RANK];
    double depth;
    int32_t ids, values;
    int axis;
    cleave_nest nest;
    CLEAVE_TRY(cleave_import_integer(im, "axis", -1, &wanted));
    CLEAVE_TRY(cleave_import_scalar(im, 1, 0, &depth));
    CLEAVE_TRY(cleave_import_tensor(im, 0, &ids));
    CLEAVE_TRY(cleave_import_tensor(im, 2, &values));
    cleave_tensor by = im->tensors.items[ids].tensor;
    const cleave_tensor *pair = &im->tensors.items[values].tensor;
    CLEAVE_TRY(cleave_import_axis(im, wanted, by.rank + 1, &axis));
    if (!(depth >= 1 && depth < 0x1p40) || pair->rank != 1 || pair->shape[0] != 2)
        return cleave_import_fail(im, "a depth of %g, or values that are not two", depth);
    memcpy(shape, by.shape, (size_t)axis * sizeof *shape);
    shape[axis] = (int64_t)depth;
    memcpy(shape + axis + 1, by.shape + axis, (size_t)(by.rank - axis) * sizeof *shape);
    CLEAVE_TRY(
        cleave_import_begin_pointwise(im, im->node->outputs[0], by.rank + 1, shape, -1, &nest));
    int id = cleave_nest_add_input(&nest, ids);
    for (int d = 0; d < by.rank; d++)
        cleave_map_axis(&nest.inputs[id], d, d < axis ? d : d + 1);
    int off = cleave_nest_add_input(&nest, values), on = cleave_nest_add_input(&nest, values);
    cleave_map_offset(&nest.inputs[off], 0, 0);
    cleave_map_offset(&nest.inputs[on], 0, 1);
    int zero = cleave_nest_emit(&nest, CLEAVE_OP_CONSTANT, 0, 0, 0, 0);
    int negative = cleave_nest_emit(&nest, CLEAVE_OP_LESS, id, zero, 0, 0);
    int wrap = cleave_nest_emit(&nest, CLEAVE_OP_SCALE, negative, 0, (double)shape[axis], 0);
    int found = cleave_nest_emit(&nest, CLEAVE_OP_ADD, id, wrap, 0, 0);
    int index = cleave_nest_emit(&nest, CLEAVE_OP_INDEX, axis, 0, 0, 0);
    int hot = cleave_nest_emit(&nest, CLEAVE_OP_EQUAL, found, index, 0, 0);
    int cold = cleave_nest_emit(&nest, CLEAVE_OP_EQUAL, hot, zero, 0, 0);
    int one = cleave_nest_emit(&nest, CLEAVE_OP_MASK, on, hot, 0, 0);
    int other = cleave_nest_emit(&nest, CLEAVE_OP_MASK, off, cold, 0, 0);
    cleave_nest_emit(&nest, CLEAVE_OP_ADD, one, other, 0, 0);
    CLEAVE_TRY(cleave_import_end_pointwise(im, &nest));
    cleave_import_set_output(im, 0, nest.output.tensor, false);
    cleave_import_set_type(im, 0, cleave_import_type(cleave_import_input(im, 2)));
    return CLEAVE_OK;
}

/* ---- scattering ------------------------------------------------------------------------------ */

/* Data and updates one behind the other, as lists; and for every element of the result, which of
   them it is. */
static cleave_status scatter(cleave_importer *im, int64_t *ids) {
    int32_t data, sources[2], table, positions, result;
    CLEAVE_TRY(cleave_import_tensor(im, 0, &data));
    CLEAVE_TRY(cleave_import_tensor(im, 2, &sources[1]));
    cleave_tensor from = im->tensors.items[data].tensor;
    int64_t size = cleave_tensor_size(&from);
    int64_t n_updates = cleave_tensor_size(&im->tensors.items[sources[1]].tensor);
    const char *list = cleave_arena_printf(im->arena, "%s.data", im->node->outputs[0]);
    const char *updates = cleave_arena_printf(im->arena, "%s.updates", im->node->outputs[0]);
    const char *both = cleave_arena_printf(im->arena, "%s.table", im->node->outputs[0]);
    const char *where = cleave_arena_printf(im->arena, "%s.ids", im->node->outputs[0]);
    if (list == NULL || updates == NULL || both == NULL || where == NULL)
        return cleave_import_no_memory(im);
    CLEAVE_TRY(cleave_import_reshape(im, list, data, 1, &size, &sources[0]));
    CLEAVE_TRY(cleave_import_reshape(im, updates, sources[1], 1, &n_updates, &sources[1]));
    CLEAVE_TRY(cleave_import_join(im, both, 2, sources, 0, &table));
    CLEAVE_TRY(cleave_import_constant_ids(im, where, from.rank, from.shape, ids, &positions));
    CLEAVE_TRY(cleave_import_look_up_axis(im, im->node->outputs[0], positions, table, 0, &result));
    cleave_import_set_output(im, 0, result, false);
    return CLEAVE_OK;
}

/* Checks what both have in common. */
static cleave_status begin_scatter(cleave_importer *im, const cleave_tensor **data,
                                   const cleave_tensor **updates) {
    const char *reduction;
    int32_t of, with;
    const cleave_onnx_tensor *constant = cleave_import_constant(im, 1);
    CLEAVE_TRY(cleave_import_string(im, "reduction", "none", &reduction));
    if (strcmp(reduction, "none") != 0)
        return cleave_import_fail(im, "attribute reduction is %s, supported is none", reduction);
    if (constant == NULL || constant->integers == NULL || constant->rank == 0)
        return cleave_import_fail(im,
                                  "its indices %s are not constant integers, others are not "
                                  "supported",
                                  im->node->inputs[1]);
    CLEAVE_TRY(cleave_import_tensor(im, 0, &of));
    CLEAVE_TRY(cleave_import_tensor(im, 2, &with));
    *data = &im->tensors.items[of].tensor;
    *updates = &im->tensors.items[with].tensor;
    return CLEAVE_OK;
}

/* 0, 1, 2 ...: all of the data. */
static cleave_status list_ids(cleave_importer *im, const cleave_tensor *data, int64_t **ids) {
    int64_t size = cleave_tensor_size(data);
    if (size > INT64_C(1) << 24)
        return cleave_import_fail(im, "scatters into %lld elements, at most 2^24 are supported",
                                  (long long)size);
    CLEAVE_TRY(cleave_import_spend(im, size, 1));
    *ids = CLEAVE_ARENA_ARRAY(im->arena, int64_t, size);
    if (*ids == NULL)
        return cleave_import_no_memory(im);
    for (int64_t i = 0; i < size; i++)
        (*ids)[i] = i;
    return CLEAVE_OK;
}

static cleave_status wrap_index(cleave_importer *im, int64_t extent, int64_t *index) {
    int64_t wrapped = *index + (*index < 0 ? extent : 0);
    if (wrapped < 0 || wrapped >= extent)
        return cleave_import_fail(im, "index %lld is outside the %lld elements of its axis",
                                  (long long)*index, (long long)extent);
    *index = wrapped;
    return CLEAVE_OK;
}

cleave_status cleave_import_scatter_elements(cleave_importer *im) {
    const cleave_tensor *data, *updates;
    int64_t wanted, *ids;
    int axis;
    CLEAVE_TRY(begin_scatter(im, &data, &updates));
    CLEAVE_TRY(list_ids(im, data, &ids));
    const cleave_onnx_tensor *at = cleave_import_constant(im, 1);
    CLEAVE_TRY(cleave_import_integer(im, "axis", 0, &wanted));
    CLEAVE_TRY(cleave_import_axis(im, wanted, data->rank, &axis));
    bool fits = at->rank == data->rank && updates->rank == at->rank;
    for (int d = 0; d < data->rank && fits; d++)
        fits = at->shape[d] == updates->shape[d] && (d == axis || at->shape[d] <= data->shape[d]);
    if (!fits)
        return cleave_import_fail(im, "its indices and updates do not fit its data");
    int64_t size = cleave_tensor_size(data);
    for (int64_t i = 0; i < at->n; i++) {
        int64_t to = 0, rest = i, stride = 1;
        for (int d = at->rank - 1; d >= 0; d--) {
            int64_t index = d == axis ? at->integers[i] : rest % at->shape[d];
            CLEAVE_TRY(wrap_index(im, data->shape[d], &index));
            to += index * stride;
            stride *= data->shape[d];
            rest /= at->shape[d];
        }
        ids[to] = size + i;
    }
    return scatter(im, ids);
}

/* Do the indices name slices that follow each other, from `begin` on? */
static bool are_in_a_row(const cleave_onnx_tensor *at, int64_t extent, int64_t *begin) {
    *begin = at->n > 0 ? at->integers[0] + (at->integers[0] < 0 ? extent : 0) : 0;
    bool in_a_row = at->shape[at->rank - 1] == 1 && *begin >= 0 && at->n <= extent - *begin;
    for (int64_t i = 1; i < at->n && in_a_row; i++)
        in_a_row = at->integers[i] + (at->integers[i] < 0 ? extent : 0) == *begin + i;
    return in_a_row;
}

/* Input i, copied where it is in pieces already: what is put into a tensor again and again would
   have more of them each time than all before together. */
static cleave_status read_whole(cleave_importer *im, int i, int32_t *tensor) {
    enum { MOST_PIECES = 4 };
    CLEAVE_TRY(cleave_import_tensor(im, i, tensor));
    return im->tensors.items[*tensor].leaves <= MOST_PIECES
               ? CLEAVE_OK
               : cleave_import_copy(im, NULL, *tensor, tensor);
}

/* The data before them, the updates, and the data behind them, one behind the other: views, however
   large.  So exporters write what is put into a part of a tensor. */
static cleave_status put_in_a_row(cleave_importer *im, int64_t begin, int64_t n) {
    int32_t data, updates, sources[3], result;
    int n_sources = 0;
    CLEAVE_TRY(read_whole(im, 0, &data));
    CLEAVE_TRY(read_whole(im, 2, &updates));
    cleave_tensor row = im->tensors.items[data].tensor;
    const int64_t parts[] = {0, begin, begin + n, row.shape[0]};
    for (int p = 0; p < 3; p++) {
        const char *name = cleave_arena_printf(im->arena, "%s.part%d", im->node->outputs[0], p);
        int32_t *source = &sources[n_sources];
        row.shape[0] = parts[p + 1] - parts[p];
        if (name == NULL)
            return cleave_import_no_memory(im);
        if (row.shape[0] == 0)
            continue;
        if (p == 1)
            CLEAVE_TRY(cleave_import_reshape(im, name, updates, row.rank, row.shape, source));
        else
            CLEAVE_TRY(cleave_import_range(im, name, data, 0, parts[p], row.shape[0], source));
        n_sources++;
    }
    CLEAVE_TRY(cleave_import_join(im, im->node->outputs[0], n_sources, sources, 0, &result));
    cleave_import_set_output(im, 0, result, false);
    return CLEAVE_OK;
}

/* Every tuple of indices names a slice of the data. */
cleave_status cleave_import_scatter_nd(cleave_importer *im) {
    const cleave_tensor *data, *updates;
    int64_t *ids, size, inner, begin;
    CLEAVE_TRY(begin_scatter(im, &data, &updates));
    const cleave_onnx_tensor *at = cleave_import_constant(im, 1);
    int64_t tuple = at->shape[at->rank - 1];
    if (tuple < 1 || tuple > data->rank)
        return cleave_import_fail(im, "its indices have %lld components, its data %d dimensions",
                                  (long long)tuple, data->rank);
    size = cleave_tensor_size(data);
    inner = cleave_shape_size(data->rank - (int)tuple, data->shape + tuple);
    if (at->n / tuple * inner != cleave_tensor_size(updates))
        return cleave_import_fail(im, "its indices and updates do not fit its data");
    if (are_in_a_row(at, data->shape[0], &begin))
        return put_in_a_row(im, begin, at->n);
    CLEAVE_TRY(list_ids(im, data, &ids));
    for (int64_t i = 0; i < at->n / tuple; i++) {
        int64_t to = 0;
        for (int k = 0; k < (int)tuple; k++) {
            int64_t index = at->integers[i * tuple + k];
            CLEAVE_TRY(wrap_index(im, data->shape[k], &index));
            to = to * data->shape[k] + index;
        }
        for (int64_t j = 0; j < inner; j++)
            ids[to * inner + j] = size + i * inner + j;
    }
    return scatter(im, ids);
}
