/* Gather: a view where the ids are constant and evenly spaced, else a nest that looks up by data
   (graph/gather.h).

   The dimensions of the ids stand where the gathered one was.  The operator's axes are those of the
   output, then the gathered one, v, which is summed: an embedding, ids [n, t] into a parameter
   [v, k], is n t k v.  An embedding starts uniform in +-1/sqrt(k): of the size that transformers
   use, and the same as the product gives it that it may be tied to. */
#include "graph/import_internal.h"

#include "graph/gather.h"

#include <string.h>

typedef struct look_up {
    int32_t ids, table;
    int axis; /* of the table */
} look_up;

/* ---- constant ids ---------------------------------------------------------------------------- */

static cleave_status check_constant_ids(cleave_importer *im, const cleave_onnx_tensor *ids,
                                        int64_t extent) {
    if (ids->integers == NULL || ids->n == 0)
        return cleave_import_fail(im, "its ids, %s, are %s", im->node->inputs[1],
                                  ids->n == 0 ? "empty" : "not integers");
    for (int64_t i = 0; i < ids->n; i++)
        if (ids->integers[i] < -extent || ids->integers[i] >= extent)
            return cleave_import_fail(im, "index %lld is outside the %lld elements of its axis",
                                      (long long)ids->integers[i], (long long)extent);
    return CLEAVE_OK;
}

/* begin, begin + step, begin + 2 step ... with a step of 1 or more. */
static bool is_progression(const cleave_onnx_tensor *ids, int64_t extent, int64_t *begin,
                           int64_t *step) {
    for (int64_t i = 0; i < ids->n; i++) {
        int64_t id = ids->integers[i] + (ids->integers[i] < 0 ? extent : 0);
        if (i == 0)
            *begin = id;
        if (i == 1)
            *step = id - *begin;
        if (i >= 1 && (*step < 1 || id != *begin + i * *step))
            return false;
    }
    *step = ids->n == 1 ? 1 : *step;
    return true;
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

static cleave_status slice_table(cleave_importer *im, const look_up *of,
                                 const cleave_onnx_tensor *ids, int64_t begin, int64_t step) {
    cleave_tensor table = im->tensors.items[of->table].tensor;
    int64_t shape[2 * CLEAVE_MAX_RANK];
    int32_t result = of->table;
    bool shared = cleave_import_is_shared(im, 0);
    int rank = output_shape(&table, of->axis, ids->rank, ids->shape, shape);
    if (rank > CLEAVE_MAX_RANK)
        return cleave_import_fail(im, "its result has rank %d, at most %d is supported", rank,
                                  CLEAVE_MAX_RANK);
    if (ids->n != table.shape[of->axis]) {
        cleave_view view = {.kind = CLEAVE_VIEW_SLICE, .n_sources = 1, .sources = &of->table};
        const char *name = ids->rank == 1
                               ? im->node->outputs[0]
                               : cleave_arena_printf(im->arena, "%s.slice", im->node->outputs[0]);
        for (int d = 0; d < table.rank; d++)
            view.step[d] = 1;
        view.begin[of->axis] = begin;
        view.step[of->axis] = step;
        table.shape[of->axis] = ids->n;
        if (name == NULL)
            return cleave_import_no_memory(im);
        CLEAVE_TRY(cleave_import_new_view(im, name, view, table.rank, table.shape, &result));
        shared = false;
    }
    CLEAVE_TRY(cleave_import_reshape(im, im->node->outputs[0], result, rank, shape, &result));
    cleave_import_set_output(im, 0, result, shared);
    return CLEAVE_OK;
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
static const char *ids_axis(const cleave_importer *im, const look_up *of, int d) {
    const cleave_draft_tensor *table = &im->tensors.items[of->table];
    if (of->axis == 0 && table->tensor.rank == 2)
        return d == 0 ? "n" : "t";
    return im->tensors.items[of->ids].tensor.rank == 1 ? table->axes[of->axis] : "t";
}

static const char *table_axis(const cleave_importer *im, const look_up *of, int d) {
    const cleave_draft_tensor *table = &im->tensors.items[of->table];
    return of->axis == 0 && table->tensor.rank == 2 ? "k" : table->axes[d];
}

static cleave_status add_axes(cleave_importer *im, const look_up *of, int32_t op) {
    cleave_tensor ids = im->tensors.items[of->ids].tensor;
    cleave_tensor table = im->tensors.items[of->table].tensor;
    for (int d = 0; d < of->axis; d++)
        cleave_import_add_axis(im, op, table_axis(im, of, d), table.shape[d], false);
    for (int d = 0; d < ids.rank; d++)
        cleave_import_add_axis(im, op, ids_axis(im, of, d), ids.shape[d], false);
    for (int d = of->axis + 1; d < table.rank; d++)
        cleave_import_add_axis(im, op, table_axis(im, of, d), table.shape[d], false);
    if (cleave_import_add_axis(im, op, "v", table.shape[of->axis], false) < 0)
        return cleave_import_fail(im, "has more than %d axes", CLEAVE_MAX_AXES);
    return CLEAVE_OK;
}

static cleave_status gather(cleave_importer *im, const look_up *of) {
    cleave_tensor ids = im->tensors.items[of->ids].tensor;
    cleave_tensor table = im->tensors.items[of->table].tensor;
    int64_t shape[2 * CLEAVE_MAX_RANK];
    int rank = output_shape(&table, of->axis, ids.rank, ids.shape, shape);
    int32_t op, output;
    CLEAVE_TRY(cleave_import_new_operator(im, true, &op));
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){im->node->outputs[0], op, "", rank, shape, -1}, &output));
    CLEAVE_TRY(add_axes(im, of, op));
    cleave_nest nest = {.kind = CLEAVE_NEST_GATHER, .op = op, .combiner = CLEAVE_COMBINE_SUM};
    cleave_nest_take_axes(&nest, &im->operators.items[op]);
    cleave_nest_add_input(&nest, of->ids);
    cleave_nest_add_input(&nest, of->table);
    cleave_gather_emit(&nest, rank);
    nest.output.tensor = output;
    for (int d = 0; d < rank; d++) {
        cleave_map_axis(&nest.output, d, d);
        im->tensors.items[output].axes[d] = im->operators.items[op].axes[d].name;
    }
    for (int d = 0; d < ids.rank; d++)
        cleave_map_axis(&nest.inputs[0], d, of->axis + d);
    for (int d = 0; d < table.rank; d++)
        cleave_map_axis(&nest.inputs[1], d,
                        d < of->axis    ? d
                        : d == of->axis ? rank
                                        : d - 1 + ids.rank);
    CLEAVE_TRY(cleave_import_add_nest(im, &nest, "", &im->operators.items[op].main_nest));
    im->operators.items[op].output = output;
    cleave_import_set_output(im, 0, output, false);
    return CLEAVE_OK;
}

cleave_status cleave_import_gather(cleave_importer *im) {
    look_up of;
    int64_t wanted, begin = 0, step = 1;
    CLEAVE_TRY(cleave_import_tensor(im, 0, &of.table));
    cleave_tensor table = im->tensors.items[of.table].tensor;
    CLEAVE_TRY(cleave_import_integer(im, "axis", 0, &wanted));
    CLEAVE_TRY(cleave_import_axis(im, wanted, table.rank, &of.axis));
    int64_t extent = table.shape[of.axis];
    const cleave_onnx_tensor *constant = cleave_import_constant(im, 1);
    if (constant != NULL) {
        CLEAVE_TRY(check_constant_ids(im, constant, extent));
        if (is_progression(constant, extent, &begin, &step))
            return slice_table(im, &of, constant, begin, step);
    }
    CLEAVE_TRY(cleave_import_tensor(im, 1, &of.ids));
    bound_ids(im, of.ids, extent);
    cleave_import_initialise(im, of.table, cleave_tensor_size(&table) / extent, 0);
    return gather(im, &of);
}
