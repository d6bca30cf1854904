/* Gather, and its kin: a view where the ids are constant and follow each other, else a nest that
   looks up by data (graph/model/gather.h).

   The dimensions of the ids stand where the gathered one was.  The operator's axes are those of the
   output, then the gathered one, v, which is summed: an embedding, ids [n, t] into a parameter
   [v, k], is n t k v.  An embedding starts uniform in +-1/sqrt(k): of the size that transformers
   use, and the same as the product gives it that it may be tied to. */
#include "graph/model/gather.h"
#include "graph/import/operators/movement.h"

#include <string.h>

/* ---- constant ids ---------------------------------------------------------------------------- */

/* Lets all count from the front. */
static cleave_status read_constant_ids(cleave_importer *im, const cleave_onnx_tensor *ids,
                                       int64_t extent, int64_t **result) {
    if (ids->integers == NULL || ids->n == 0)
        return cleave_import_fail(im, "its ids, %s, are %s", im->node->inputs[1],
                                  ids->n == 0 ? "empty" : "not integers");
    CLEAVE_TRY(cleave_import_spend(im, ids->n, 1));
    int64_t *read = CLEAVE_ARENA_ARRAY(&im->scratch, int64_t, ids->n);
    if (read == NULL)
        return cleave_import_no_memory(im);
    for (int64_t i = 0; i < ids->n; i++) {
        read[i] = ids->integers[i] + (ids->integers[i] < 0 ? extent : 0);
        if (read[i] < 0 || read[i] >= extent)
            return cleave_import_fail(im, "index %lld is outside the %lld elements of its axis",
                                      (long long)ids->integers[i], (long long)extent);
    }
    *result = read;
    return CLEAVE_OK;
}

static int output_shape(const cleave_tensor *table, int axis, int ids_rank,
                        const int64_t *ids_shape, int64_t *shape) {
    int rank = 0;
    for (int d = 0; d < axis; d++)
        shape[rank++] = table->shape[d];
    for (int d = 0; d < ids_rank; d++)
        shape[rank++] = ids_shape[d];
    for (int d = axis + 1; d < table->rank; d++)
        shape[rank++] = table->shape[d];
    return rank;
}

static cleave_status gather_constant(cleave_importer *im, int32_t table, int axis,
                                     const cleave_onnx_tensor *ids) {
    cleave_tensor of = im->tensors.items[table].tensor;
    int64_t shape[2 * CLEAVE_MAX_RANK] = {0}, *read = NULL;
    int32_t taken;
    int rank = output_shape(&of, axis, ids->rank, ids->shape, shape);
    if (rank > CLEAVE_MAX_RANK)
        return cleave_import_fail(im, "its result has rank %d, at most %d is supported", rank,
                                  CLEAVE_MAX_RANK);
    CLEAVE_TRY(read_constant_ids(im, ids, of.shape[axis], &read));
    CLEAVE_TRY(cleave_import_take(im, table, axis, ids->n, read, &taken));
    return cleave_import_deliver(im, taken, rank, shape, table);
}

/* ---- the nest -------------------------------------------------------------------------------- */

/* Data that are ids lie below the extent of every table that they are looked up in. */
static void bound_ids(cleave_importer *im, int32_t ids, int64_t extent) {
    cleave_tensor *tensor = &im->tensors.items[ids].tensor;
    for (int32_t i = 0; tensor->view.kind != CLEAVE_VIEW_NONE && i < tensor->view.n_sources; i++)
        bound_ids(im, tensor->view.sources[i], extent);
    if (tensor->kind == CLEAVE_TENSOR_DATA && tensor->type == CLEAVE_I64 &&
        (tensor->below == 0 || tensor->below > extent))
        tensor->below = extent;
}

/* What dimension d of the ids and dimension d of the table are called in the output. */
static const char *ids_axis(const cleave_importer *im, const cleave_look_up *of, int d) {
    const cleave_draft_tensor *table = &im->tensors.items[of->table];
    if (of->axis == 0 && table->tensor.rank == 2)
        return d == 0 ? "n" : "t";
    if (table->tensor.rank == 1 && im->tensors.items[of->ids].axes[d] != NULL)
        return im->tensors.items[of->ids].axes[d];
    return im->tensors.items[of->ids].tensor.rank == 1 ? table->axes[of->axis] : "t";
}

static const char *table_axis(const cleave_importer *im, const cleave_look_up *of, int d) {
    const cleave_draft_tensor *table = &im->tensors.items[of->table];
    return of->axis == 0 && table->tensor.rank == 2 ? "k" : table->axes[d];
}

cleave_status cleave_import_look_up(cleave_importer *im, const cleave_look_up *of,
                                    int32_t *output) {
    cleave_tensor ids = im->tensors.items[of->ids].tensor;
    cleave_tensor table = im->tensors.items[of->table].tensor;
    int64_t extent = table.shape[of->axis];
    int32_t op;
    bound_ids(im, of->ids, extent);
    cleave_import_initialise(im, of->table, cleave_tensor_size(&table) / extent, 0);
    CLEAVE_TRY(cleave_import_new_operator(im, true, &op));
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){of->name, op, "", of->rank, of->shape, -1}, output));
    for (int d = 0; d < of->rank; d++)
        cleave_import_add_axis(im, op, of->axes[d], of->shape[d], false);
    if (cleave_import_add_axis(im, op, "v", extent, false) < 0)
        return cleave_import_fail(im, "has more than %d axes", CLEAVE_MAX_AXES);
    cleave_nest nest = {.kind = CLEAVE_NEST_GATHER, .op = op, .combiner = CLEAVE_COMBINE_SUM};
    cleave_nest_take_axes(&nest, &im->operators.items[op]);
    cleave_nest_add_input(&nest, of->ids);
    cleave_nest_add_input(&nest, of->table);
    cleave_gather_emit(&nest, of->rank);
    nest.output.tensor = *output;
    for (int d = 0; d < of->rank; d++) {
        cleave_map_axis(&nest.output, d, d);
        im->tensors.items[*output].axes[d] = im->operators.items[op].axes[d].name;
    }
    for (int d = 0; d < ids.rank; d++)
        cleave_map_axis(&nest.inputs[0], d, of->ids_map[d]);
    for (int d = 0; d < table.rank; d++)
        cleave_map_axis(&nest.inputs[1], d, d == of->axis ? of->rank : of->table_map[d]);
    CLEAVE_TRY(cleave_import_add_nest(im, &nest, "", &im->operators.items[op].main_nest));
    im->operators.items[op].output = *output;
    return CLEAVE_OK;
}

cleave_status cleave_import_look_up_axis(cleave_importer *im, const char *name, int32_t ids,
                                         int32_t table, int axis, int32_t *output) {
    cleave_tensor from = im->tensors.items[table].tensor, by = im->tensors.items[ids].tensor;
    int64_t shape[2 * CLEAVE_MAX_RANK] = {0};
    cleave_look_up of = {.name = name, .ids = ids, .table = table, .axis = axis};
    of.rank = output_shape(&from, axis, by.rank, by.shape, shape);
    if (of.rank > CLEAVE_MAX_RANK)
        return cleave_import_fail(im, "its result has rank %d, at most %d is supported", of.rank,
                                  CLEAVE_MAX_RANK);
    memcpy(of.shape, shape, sizeof of.shape);
    for (int d = 0; d < by.rank; d++) {
        of.ids_map[d] = axis + d;
        of.axes[axis + d] = ids_axis(im, &of, d);
    }
    for (int d = 0; d < from.rank; d++) {
        of.table_map[d] = d < axis ? d : d - 1 + by.rank;
        if (d != axis)
            of.axes[of.table_map[d]] = table_axis(im, &of, d);
    }
    return cleave_import_look_up(im, &of, output);
}

cleave_status cleave_import_gather(cleave_importer *im) {
    int32_t table, ids, output;
    int axis;
    int64_t wanted;
    CLEAVE_TRY(cleave_import_tensor(im, 0, &table));
    CLEAVE_TRY(cleave_import_integer(im, "axis", 0, &wanted));
    CLEAVE_TRY(cleave_import_axis(im, wanted, im->tensors.items[table].tensor.rank, &axis));
    const cleave_onnx_tensor *constant = cleave_import_constant(im, 1);
    if (constant != NULL)
        return gather_constant(im, table, axis, constant);
    CLEAVE_TRY(cleave_import_tensor(im, 1, &ids));
    CLEAVE_TRY(cleave_import_look_up_axis(im, im->node->outputs[0], ids, table, axis, &output));
    cleave_import_set_output(im, 0, output, false);
    return CLEAVE_OK;
}

/* ---- GatherElements, GatherND ---------------------------------------------------------------- */

cleave_status cleave_import_gather_elements(cleave_importer *im) {
    int64_t wanted;
    int32_t output;
    cleave_look_up of = {.name = im->node->outputs[0]};
    CLEAVE_TRY(cleave_import_integer(im, "axis", 0, &wanted));
    CLEAVE_TRY(cleave_import_tensor(im, 0, &of.table));
    CLEAVE_TRY(cleave_import_tensor(im, 1, &of.ids));
    cleave_tensor table = im->tensors.items[of.table].tensor;
    cleave_tensor ids = im->tensors.items[of.ids].tensor;
    CLEAVE_TRY(cleave_import_axis(im, wanted, table.rank, &of.axis));
    if (ids.rank != table.rank)
        return cleave_import_fail(im, "its indices have rank %d, its data %d", ids.rank,
                                  table.rank);
    of.rank = ids.rank;
    memcpy(of.shape, ids.shape, sizeof of.shape);
    for (int d = 0; d < ids.rank; d++) {
        of.ids_map[d] = of.table_map[d] = d;
        of.axes[d] = im->tensors.items[of.table].axes[d];
        if (d != of.axis && ids.shape[d] > table.shape[d])
            return cleave_import_fail(im, "dimension %d of its indices is %lld, of its data %lld",
                                      d, (long long)ids.shape[d], (long long)table.shape[d]);
    }
    CLEAVE_TRY(cleave_import_check_ids(im, 1, table.shape[of.axis]));
    CLEAVE_TRY(cleave_import_look_up(im, &of, &output));
    cleave_import_set_output(im, 0, output, false);
    return CLEAVE_OK;
}

/* Row-major positions in `n` dimensions, from the index tuples in the last dimension of `ids`; an
   operator of its own. */
static cleave_status join_indices(cleave_importer *im, int32_t ids, int n, const int64_t *extents,
                                  int32_t *joined) {
    cleave_tensor of = im->tensors.items[ids].tensor;
    cleave_nest nest;
    const char *name = cleave_arena_printf(im->arena, "%s.positions", im->node->outputs[0]);
    int zero, sum = -1;
    int64_t stride = 1;
    if (name == NULL)
        return cleave_import_no_memory(im);
    if (n > 6)
        return cleave_import_fail(im, "its indices have %d components, at most 6 are supported", n);
    CLEAVE_TRY(cleave_import_begin_pointwise(im, name, of.rank - 1, of.shape, ids, &nest));
    for (int k = 0; k < n; k++) {
        cleave_nest_add_input(&nest, ids);
        for (int d = 0; d < of.rank - 1; d++)
            cleave_map_axis(&nest.inputs[k], d, d);
        cleave_map_offset(&nest.inputs[k], of.rank - 1, k);
    }
    zero = cleave_nest_emit(&nest, CLEAVE_OP_CONSTANT, 0, 0, 0, 0);
    for (int k = n - 1; k >= 0; k--) {
        int negative = cleave_nest_emit(&nest, CLEAVE_OP_LESS, k, zero, 0, 0);
        int wrap = cleave_nest_emit(&nest, CLEAVE_OP_SCALE, negative, 0, (double)extents[k], 0);
        int id = cleave_nest_emit(&nest, CLEAVE_OP_ADD, k, wrap, 0, 0);
        int term = cleave_nest_emit(&nest, CLEAVE_OP_SCALE, id, 0, (double)stride, 0);
        sum = sum < 0 ? term : cleave_nest_emit(&nest, CLEAVE_OP_ADD, sum, term, 0, 0);
        stride *= extents[k];
    }
    *joined = nest.output.tensor;
    return cleave_import_end_pointwise(im, &nest);
}

/* Rows of a table by one position each, behind b dimensions that both have. */
static cleave_look_up look_up_of(const cleave_importer *im, int32_t table, int32_t ids, int b,
                                 bool joined) {
    const cleave_draft_tensor *from = &im->tensors.items[table], *by = &im->tensors.items[ids];
    cleave_look_up of = {.name = im->node->outputs[0],
                         .ids = ids,
                         .table = table,
                         .axis = b,
                         .rank = by->tensor.rank};
    for (int d = 0; d < of.rank; d++) {
        of.shape[d] = by->tensor.shape[d];
        of.ids_map[d] = d;
        of.axes[d] = d < b ? from->axes[d] : by->op >= 0 && !joined ? by->axes[d] : "t";
    }
    for (int d = 0; d < b; d++)
        of.table_map[d] = d;
    for (int d = b + 1; d < from->tensor.rank; d++) {
        of.table_map[d] = of.rank;
        of.axes[of.rank] = from->axes[d];
        of.shape[of.rank++] = from->tensor.shape[d];
    }
    return of;
}

/* Batch dimensions stay; the indexed ones become one; the tuples become positions in it. */
cleave_status cleave_import_gather_nd(cleave_importer *im) {
    int64_t batch, shape[2 * CLEAVE_MAX_RANK];
    int32_t data, ids, joined, merged, output;
    CLEAVE_TRY(cleave_import_integer(im, "batch_dims", 0, &batch));
    CLEAVE_TRY(cleave_import_tensor(im, 0, &data));
    CLEAVE_TRY(cleave_import_tensor(im, 1, &ids));
    cleave_tensor from = im->tensors.items[data].tensor, by = im->tensors.items[ids].tensor;
    int64_t tuple = by.rank > 0 ? by.shape[by.rank - 1] : 0;
    if (batch < 0 || batch >= by.rank || tuple < 1 || tuple > from.rank - batch)
        return cleave_import_fail(im,
                                  "batch_dims %lld and indices of %lld components do not fit data "
                                  "of rank %d",
                                  (long long)batch, (long long)tuple, from.rank);
    int b = (int)batch, n = (int)tuple, rank = 0;
    int64_t extent = cleave_shape_size(n, from.shape + b);
    if (extent > CLEAVE_MOST_EXACT_INTEGER)
        return cleave_import_fail(im, "indexes %lld elements, at most 2^24 are supported",
                                  (long long)extent);
    for (int d = 0; d < b; d++) {
        if (by.shape[d] != from.shape[d])
            return cleave_import_fail(im, "batch dimension %d is %lld and %lld", d,
                                      (long long)from.shape[d], (long long)by.shape[d]);
        shape[rank++] = from.shape[d];
    }
    shape[rank++] = extent;
    for (int d = b + n; d < from.rank; d++)
        shape[rank++] = from.shape[d];
    if (n == 1)
        CLEAVE_TRY(cleave_import_reshape(im, by.name, ids, by.rank - 1, by.shape, &joined));
    else
        CLEAVE_TRY(join_indices(im, ids, n, from.shape + b, &joined));
    const char *name = cleave_arena_printf(im->arena, "%s.table", im->node->outputs[0]);
    if (name == NULL)
        return cleave_import_no_memory(im);
    CLEAVE_TRY(cleave_import_reshape(im, name, data, rank, shape, &merged));
    if (by.rank - 1 + rank - b - 1 > CLEAVE_MAX_RANK)
        return cleave_import_fail(im, "its result has rank %d, at most %d is supported",
                                  by.rank - 1 + rank - b - 1, CLEAVE_MAX_RANK);
    cleave_look_up of = look_up_of(im, merged, joined, b, n > 1);
    CLEAVE_TRY(cleave_import_look_up(im, &of, &output));
    cleave_import_set_output(im, 0, output, false);
    return CLEAVE_OK;
}
