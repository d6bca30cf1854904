/* Operators that look at positions: cumulative sums, triangles, and masks of attention. */
#include "graph/import/operators/pointwise.h"

#include <float.h>

/* ---- cumulative sums ------------------------------------------------------------------------- */

/* y[j] = sum over i of x[i] where i <= j (i < j if exclusive, the other way round if reverse). */
cleave_status cleave_import_cumsum(cleave_importer *im) {
    int32_t input, output, op;
    int64_t exclusive, reverse;
    double wanted;
    int axis;
    CLEAVE_TRY(cleave_import_tensor(im, 0, &input));
    cleave_tensor from = im->tensors.items[input].tensor;
    CLEAVE_TRY(cleave_import_integer(im, "exclusive", 0, &exclusive));
    CLEAVE_TRY(cleave_import_integer(im, "reverse", 0, &reverse));
    CLEAVE_TRY(cleave_import_scalar(im, 1, 0, &wanted));
    CLEAVE_TRY(cleave_import_axis(
        im,
        wanted < -CLEAVE_MAX_RANK || wanted > CLEAVE_MAX_RANK ? CLEAVE_MAX_RANK : (int64_t)wanted,
        from.rank, &axis));
    CLEAVE_TRY(cleave_import_new_operator(im, false, &op));
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){im->node->outputs[0], op, "", from.rank, from.shape, input},
        &output));
    im->operators.items[op].output = output;
    cleave_nest nest = {.kind = CLEAVE_NEST_REDUCE, .op = op, .combiner = CLEAVE_COMBINE_SUM};
    nest.output.tensor = output;
    for (int d = 0; d <= from.rank; d++) { /* the last one is i */
        const char *name = d < from.rank ? im->tensors.items[output].axes[d] : "i";
        int64_t extent = from.shape[d < from.rank ? d : axis];
        if (cleave_import_add_axis(im, op, name, extent, false) < 0)
            return cleave_import_no_memory(im);
    }
    cleave_nest_take_axes(&nest, &im->operators.items[op]);
    cleave_nest_add_input(&nest, input);
    for (int d = 0; d < from.rank; d++) {
        cleave_map_axis(&nest.output, d, d);
        cleave_map_axis(&nest.inputs[0], d, d == axis ? from.rank : d);
    }
    int i = cleave_nest_emit(&nest, CLEAVE_OP_INDEX, from.rank, 0, 0, 0);
    int j = cleave_nest_emit(&nest, CLEAVE_OP_INDEX, axis, 0, 0, 0);
    int counts = cleave_nest_emit(&nest, exclusive != 0 ? CLEAVE_OP_LESS : CLEAVE_OP_LESS_EQUAL,
                                  reverse != 0 ? j : i, reverse != 0 ? i : j, 0, 0);
    cleave_nest_emit(&nest, CLEAVE_OP_MASK, 0, counts, 0, 0);
    CLEAVE_TRY(cleave_import_add_nest(im, &nest, "", &im->operators.items[op].main_nest));
    cleave_import_set_output(im, 0, output, false);
    return CLEAVE_OK;
}

/* ---- triangles ------------------------------------------------------------------------------- */

/* Keeps what is on or above diagonal k (column - row >= k), or on or below it. */
cleave_status cleave_import_trilu(cleave_importer *im) {
    int32_t input;
    int64_t upper;
    double k;
    cleave_nest nest;
    CLEAVE_TRY(cleave_import_tensor(im, 0, &input));
    cleave_tensor from = im->tensors.items[input].tensor;
    CLEAVE_TRY(cleave_import_integer(im, "upper", 1, &upper));
    CLEAVE_TRY(cleave_import_scalar(im, 1, 0, &k));
    if (from.rank < 2)
        return cleave_import_fail(im, "its input has rank %d, at least 2 is needed", from.rank);
    CLEAVE_TRY(cleave_import_begin_pointwise(im, im->node->outputs[0], from.rank, from.shape, input,
                                             &nest));
    cleave_nest_add_whole_input(&nest, input, from.rank);
    int row = cleave_nest_emit(&nest, CLEAVE_OP_INDEX, from.rank - 2, 0, 0, 0);
    int column = cleave_nest_emit(&nest, CLEAVE_OP_INDEX, from.rank - 1, 0, 0, 0);
    int diagonal = cleave_nest_emit(&nest, CLEAVE_OP_SCALE, row, 0, 1, k);
    int kept = cleave_nest_emit(&nest, CLEAVE_OP_LESS_EQUAL, upper != 0 ? diagonal : column,
                                upper != 0 ? column : diagonal, 0, 0);
    cleave_nest_emit(&nest, CLEAVE_OP_MASK, 0, kept, 0, 0);
    CLEAVE_TRY(cleave_import_end_pointwise(im, &nest));
    cleave_import_set_output(im, 0, nest.output.tensor, false);
    return CLEAVE_OK;
}

/* ---- masks of attention ---------------------------------------------------------------------- */

/* x [.., queries, keys] where the query at i may see the key at j, which is j <= i + ahead and,
   with a window above 0, i - window < j; elsewhere with the least number of f32 added.  By their
   places, so that no mask lies in memory. */
cleave_status cleave_import_causal_mask(cleave_importer *im) {
    int32_t input;
    int64_t window, ahead;
    cleave_nest nest;
    CLEAVE_TRY(cleave_import_tensor(im, 0, &input));
    cleave_tensor from = im->tensors.items[input].tensor;
    CLEAVE_TRY(cleave_import_integer(im, "window", 0, &window));
    CLEAVE_TRY(cleave_import_integer(im, "ahead", 0, &ahead));
    if (from.rank < 2 || window < 0 || ahead < 0)
        return cleave_import_fail(
            im,
            "its input has rank %d, its window is %lld and what it sees ahead "
            "%lld, at least 2, 0 and 0 are needed",
            from.rank, (long long)window, (long long)ahead);
    CLEAVE_TRY(cleave_import_begin_pointwise(im, im->node->outputs[0], from.rank, from.shape, input,
                                             &nest));
    cleave_nest_add_whole_input(&nest, input, from.rank);
    int query = cleave_nest_emit(&nest, CLEAVE_OP_INDEX, from.rank - 2, 0, 0, 0);
    int key = cleave_nest_emit(&nest, CLEAVE_OP_INDEX, from.rank - 1, 0, 0, 0);
    int last =
        ahead > 0 ? cleave_nest_emit(&nest, CLEAVE_OP_SCALE, query, 0, 1, (double)ahead) : query;
    int seen = cleave_nest_emit(&nest, CLEAVE_OP_LESS_EQUAL, key, last, 0, 0);
    if (window > 0) {
        int before = cleave_nest_emit(&nest, CLEAVE_OP_SCALE, query, 0, 1, -(double)window);
        int near = cleave_nest_emit(&nest, CLEAVE_OP_LESS, before, key, 0, 0);
        seen = cleave_nest_emit(&nest, CLEAVE_OP_MASK, near, seen, 0, 0);
    }
    int added = cleave_nest_emit(&nest, CLEAVE_OP_SCALE, seen, 0, FLT_MAX, -FLT_MAX);
    cleave_nest_emit(&nest, CLEAVE_OP_ADD, 0, added, 0, 0);
    cleave_import_note_version(im, CLEAVE_PLACES_GRAPH_VERSION);
    CLEAVE_TRY(cleave_import_end_pointwise(im, &nest));
    cleave_import_set_output(im, 0, nest.output.tensor, false);
    return CLEAVE_OK;
}
