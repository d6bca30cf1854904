/* Reductions.

   Sums can be split in every axis: what has to be done with the sum (a root, a logarithm) is an
   epilogue on the owners of its parts.  A maximum with a gradient is a pool whose places are not
   split; the maximum that keeps the exponents of a logarithm of sums small needs none.  The index
   of a maximum is a maximum of indices, where the element equals the maximum.  Products are a tree
   of element-wise products of slices. */
#include "graph/import/operators/reduce.h"
#include "graph/import/draft_views.h"
#include "graph/import/operators/rows.h"

#include <float.h>
#include <string.h>

/* ---- the node -------------------------------------------------------------------------------- */

static cleave_reduction_kind find_kind(const char *type) {
    static const char *const names[] = {
        "ReduceL1",  "ReduceL2",   "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
        "ReduceMin", "ReduceProd", "ReduceSum",    "ReduceSumSquare", "ArgMax",    "ArgMin"};
    int kind = 0;
    while (kind < CLEAVE_REDUCTION_ARG_MIN && strcmp(names[kind], type) != 0)
        kind++;
    return (cleave_reduction_kind)kind;
}

static cleave_status read_axes(cleave_importer *im, cleave_reduction *r) {
    int64_t list[2 * CLEAVE_MAX_RANK], noop;
    int n;
    CLEAVE_TRY(cleave_import_list(im, "axes", 1, &n, list));
    CLEAVE_TRY(cleave_import_integer(im, "noop_with_empty_axes", 0, &noop));
    r->is_identity = n <= 0 && noop != 0;
    if (n <= 0)
        r->reduced = r->is_identity ? 0 : (1u << r->rank) - 1u;
    for (int i = 0; i < n; i++) {
        int axis;
        CLEAVE_TRY(cleave_import_axis(im, list[i], r->rank, &axis));
        r->reduced |= 1u << axis;
    }
    return CLEAVE_OK;
}

static cleave_status read_arg_axis(cleave_importer *im, cleave_reduction *r) {
    int64_t wanted, last;
    int axis;
    CLEAVE_TRY(cleave_import_integer(im, "axis", 0, &wanted));
    CLEAVE_TRY(cleave_import_integer(im, "select_last_index", 0, &last));
    CLEAVE_TRY(cleave_import_axis(im, wanted, r->rank, &axis));
    r->reduced = 1u << axis;
    r->last = last != 0;
    return CLEAVE_OK;
}

cleave_status cleave_reduction_read(cleave_importer *im, int rank, const int64_t *shape,
                                    cleave_reduction *r) {
    int64_t keeps;
    *r = (cleave_reduction){.kind = find_kind(im->node->type), .rank = rank, .count = 1};
    CLEAVE_TRY(cleave_import_integer(im, "keepdims", 1, &keeps));
    r->keeps = keeps != 0;
    CLEAVE_TRY(r->kind >= CLEAVE_REDUCTION_ARG_MAX ? read_arg_axis(im, r) : read_axes(im, r));
    for (int d = 0; d < rank; d++) {
        bool reduced = cleave_reduces(r, d);
        if (reduced)
            r->count *= shape[d];
        if (!reduced || r->keeps)
            r->out_shape[r->out_rank++] = reduced ? 1 : shape[d];
    }
    return CLEAVE_OK;
}

/* ---- nests ----------------------------------------------------------------------------------- */

/* A reduction that is being built. */
typedef struct work {
    cleave_reduction r;
    int32_t op, input, output;
    int op_axis[CLEAVE_MAX_RANK]; /* of each dimension of the input; -1: none */
} work;

static const char *const place_names[CLEAVE_MAX_RANK] = {"r0", "r1", "r2", "r3",
                                                         "r4", "r5", "r6", "r7"};

/* The output, and what has its shape: its dimensions are called like those of the input. */
static cleave_status new_output(cleave_importer *im, const work *w, const char *name,
                                const char *suffix, int32_t *tensor) {
    int32_t like = w->r.keeps ? w->input : -1;
    int at = 0;
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){name, w->op, suffix, w->r.out_rank, w->r.out_shape, like}, tensor));
    for (int d = 0; d < w->r.rank && !w->r.keeps; d++)
        if (!cleave_reduces(&w->r, d))
            im->tensors.items[*tensor].axes[at++] =
                im->operators.items[w->op].axes[w->op_axis[d]].name;
    return CLEAVE_OK;
}

/* Opens the operator; its axes are all dimensions, or those that stay. */
static cleave_status open_reduction(cleave_importer *im, work *w, bool with_reduced) {
    CLEAVE_TRY(cleave_import_new_operator(im, false, &w->op));
    for (int d = 0; d < w->r.rank; d++) {
        w->op_axis[d] = -1;
        if (cleave_reduces(&w->r, d) && !with_reduced)
            continue;
        w->op_axis[d] = cleave_import_add_axis(im, w->op, im->tensors.items[w->input].axes[d],
                                               im->tensors.items[w->input].tensor.shape[d], false);
        if (w->op_axis[d] < 0)
            return cleave_import_no_memory(im);
    }
    CLEAVE_TRY(new_output(im, w, im->node->outputs[0], "", &w->output));
    im->operators.items[w->op].output = w->output;
    return CLEAVE_OK;
}

/* Maps the dimensions of the output to those of the input; axes: [rank] of the nest. */
static void map_output(const work *w, const int *axes, cleave_operand *operand) {
    int at = 0;
    for (int d = 0; d < w->r.rank; d++) {
        if (!cleave_reduces(&w->r, d))
            cleave_map_axis(operand, at++, axes[d]);
        else if (w->r.keeps)
            cleave_map_offset(operand, at++, 0);
    }
}

/* A nest from the whole input to a tensor of the output's shape, its tape still to be written. */
static cleave_nest reduce_nest(const cleave_importer *im, const work *w, cleave_nest_kind kind,
                               cleave_combiner combiner, int32_t output, int *axes) {
    cleave_nest nest = {.kind = kind, .op = w->op, .combiner = combiner};
    cleave_nest_take_axes(&nest, &im->operators.items[w->op]);
    cleave_nest_add_input(&nest, w->input);
    for (int d = 0; d < w->r.rank; d++) {
        int64_t extent = im->tensors.items[w->input].tensor.shape[d];
        axes[d] = w->op_axis[d] >= 0
                      ? w->op_axis[d]
                      : cleave_nest_add_axis(&nest, place_names[d], extent, true, -1);
        cleave_map_axis(&nest.inputs[0], d, axes[d]);
    }
    nest.output.tensor = output;
    map_output(w, axes, &nest.output);
    return nest;
}

static cleave_status close_reduction(cleave_importer *im, work *w, const cleave_nest *nest) {
    CLEAVE_TRY(cleave_import_add_nest(im, nest, "", &im->operators.items[w->op].main_nest));
    cleave_import_set_output(im, 0, w->output, false);
    return CLEAVE_OK;
}

/* The epilogue of the operator, which has room: it is new. */
static cleave_status add_epilogue(cleave_importer *im, const work *w, cleave_nest **nest) {
    int32_t id;
    CLEAVE_TRY(cleave_import_tail(im, w->op, 0, 0, &id));
    *nest = &im->nests.items[id].nest;
    return CLEAVE_OK;
}

static cleave_status finish_with(cleave_importer *im, const work *w, cleave_opcode opcode) {
    cleave_nest *nest;
    CLEAVE_TRY(add_epilogue(im, w, &nest));
    cleave_nest_emit(nest, opcode, cleave_nest_value(nest), 0, 0, 0);
    return CLEAVE_OK;
}

/* ---- sums and maxima ------------------------------------------------------------------------- */

static cleave_status add_sum(cleave_importer *im, work *w) {
    int axes[CLEAVE_MAX_RANK];
    CLEAVE_TRY(open_reduction(im, w, true));
    cleave_nest nest = reduce_nest(im, w, CLEAVE_NEST_REDUCE, CLEAVE_COMBINE_SUM, w->output, axes);
    switch (w->r.kind) {
    case CLEAVE_REDUCTION_L1:
        cleave_nest_emit(&nest, CLEAVE_OP_ABS, 0, 0, 0, 0);
        break;
    case CLEAVE_REDUCTION_L2:
    case CLEAVE_REDUCTION_SUM_SQUARE:
        cleave_nest_emit(&nest, CLEAVE_OP_MUL, 0, 0, 0, 0);
        break;
    case CLEAVE_REDUCTION_MEAN:
        cleave_nest_emit(&nest, CLEAVE_OP_SCALE, 0, 0, 1 / (double)w->r.count, 0);
        break;
    default:
        cleave_nest_emit(&nest, CLEAVE_OP_COPY, 0, 0, 0, 0);
        break;
    }
    CLEAVE_TRY(close_reduction(im, w, &nest));
    if (w->r.kind == CLEAVE_REDUCTION_L2)
        return finish_with(im, w, CLEAVE_OP_SQRT);
    return w->r.kind == CLEAVE_REDUCTION_LOG_SUM ? finish_with(im, w, CLEAVE_OP_LOG) : CLEAVE_OK;
}

static cleave_status add_maximum(cleave_importer *im, work *w) {
    int axes[CLEAVE_MAX_RANK];
    bool least = w->r.kind == CLEAVE_REDUCTION_MIN;
    CLEAVE_TRY(open_reduction(im, w, false));
    cleave_nest nest = reduce_nest(im, w, CLEAVE_NEST_POOL, CLEAVE_COMBINE_MAX, w->output, axes);
    cleave_nest_emit(&nest, least ? CLEAVE_OP_NEG : CLEAVE_OP_COPY, 0, 0, 0, 0);
    CLEAVE_TRY(close_reduction(im, w, &nest));
    return least ? finish_with(im, w, CLEAVE_OP_NEG) : CLEAVE_OK;
}

/* The maximum (of the negated input) beside the output, without a gradient. */
static cleave_status add_side_maximum(cleave_importer *im, const work *w, bool negated,
                                      int32_t *maximum) {
    int axes[CLEAVE_MAX_RANK];
    CLEAVE_TRY(new_output(im, w, NULL, ".max", maximum));
    cleave_nest nest = reduce_nest(im, w, CLEAVE_NEST_REDUCE, CLEAVE_COMBINE_MAX, *maximum, axes);
    cleave_nest_emit(&nest, negated ? CLEAVE_OP_NEG : CLEAVE_OP_COPY, 0, 0, 0, 0);
    return cleave_import_add_nest(im, &nest, ".max", NULL);
}

/* log(sum of exp(x - m)) + m, where m is the maximum, made finite: it is only there to keep the
   exponents small. */
static cleave_status add_log_sum_exp(cleave_importer *im, work *w) {
    int axes[CLEAVE_MAX_RANK];
    int32_t maximum;
    const double most = (double)FLT_MAX;
    CLEAVE_TRY(open_reduction(im, w, true));
    CLEAVE_TRY(add_side_maximum(im, w, false, &maximum));
    cleave_nest nest = reduce_nest(im, w, CLEAVE_NEST_REDUCE, CLEAVE_COMBINE_SUM, w->output, axes);
    int m = cleave_nest_add_input(&nest, maximum);
    map_output(w, axes, &nest.inputs[m]);
    int finite = cleave_nest_emit(&nest, CLEAVE_OP_CLIP, m, 0, -most, most);
    int shifted = cleave_nest_emit(&nest, CLEAVE_OP_SUB, 0, finite, 0, 0);
    cleave_nest_emit(&nest, CLEAVE_OP_EXP, shifted, 0, 0, 0);
    CLEAVE_TRY(close_reduction(im, w, &nest));
    cleave_nest *tail;
    CLEAVE_TRY(add_epilogue(im, w, &tail));
    m = cleave_nest_add_input(tail, maximum);
    for (int d = 0; d < w->r.out_rank; d++)
        cleave_map_axis(&tail->inputs[m], d, d);
    int logarithm = cleave_nest_emit(tail, CLEAVE_OP_LOG, 0, 0, 0, 0);
    finite = cleave_nest_emit(tail, CLEAVE_OP_CLIP, m, 0, -most, most);
    cleave_nest_emit(tail, CLEAVE_OP_ADD, logarithm, finite, 0, 0);
    return CLEAVE_OK;
}

/* The first index is extent - (maximum of places from the end), the last one (maximum of places) -
   1, of the elements that are the maximum. */
static cleave_status add_arg(cleave_importer *im, work *w) {
    int axes[CLEAVE_MAX_RANK];
    int32_t maximum;
    bool negated = w->r.kind == CLEAVE_REDUCTION_ARG_MIN, last = w->r.last;
    double extent = (double)w->r.count;
    CLEAVE_TRY(open_reduction(im, w, true));
    cleave_rows rows = {.op = w->op, .input = w->input, .rank = w->r.rank, .reduced = w->r.reduced};
    CLEAVE_TRY(cleave_rows_check_places(im, &rows));
    CLEAVE_TRY(add_side_maximum(im, w, negated, &maximum));
    cleave_nest nest = reduce_nest(im, w, CLEAVE_NEST_REDUCE, CLEAVE_COMBINE_MAX, w->output, axes);
    int m = cleave_nest_add_input(&nest, maximum);
    map_output(w, axes, &nest.inputs[m]);
    int x = negated ? cleave_nest_emit(&nest, CLEAVE_OP_NEG, 0, 0, 0, 0) : 0;
    cleave_rows_emit_place_of_equal(im, &rows, &nest, x, m, !last);
    CLEAVE_TRY(close_reduction(im, w, &nest));
    cleave_nest *tail;
    CLEAVE_TRY(add_epilogue(im, w, &tail));
    cleave_nest_emit(tail, CLEAVE_OP_SCALE, 0, 0, last ? 1 : -1, last ? -1 : extent);
    cleave_import_set_type(im, 0, CLEAVE_ONNX_INT64);
    return CLEAVE_OK;
}

/* ---- products -------------------------------------------------------------------------------- */

/* Pads dimension d with ones up to an extent. */
static cleave_status pad_with_ones(cleave_importer *im, int d, int64_t extent, int32_t *tensor) {
    static const int64_t begin[CLEAVE_MAX_RANK];
    cleave_tensor from = im->tensors.items[*tensor].tensor;
    const char *name = cleave_arena_printf(im->arena, "%s.padded", im->node->outputs[0]);
    if (name == NULL)
        return cleave_import_no_memory(im);
    from.shape[d] = extent;
    return cleave_import_pad_to(im, name, *tensor, begin, from.shape, 1, tensor);
}

/* Multiplies slices of `*tensor` along dimension d, which becomes `length` long. */
static cleave_status add_level(cleave_importer *im, work *w, int d, int64_t length, int n_slices,
                               bool is_last, int32_t *tensor) {
    cleave_tensor from = im->tensors.items[*tensor].tensor;
    cleave_nest nest = {.kind = CLEAVE_NEST_POINTWISE, .op = w->op};
    int axes[CLEAVE_MAX_RANK];
    cleave_nest_take_axes(&nest, &im->operators.items[w->op]);
    for (int i = 0; i < from.rank; i++) {
        int64_t extent = i == d ? length : from.shape[i];
        axes[i] = w->op_axis[i];
        if (axes[i] < 0 && extent > 1)
            axes[i] = cleave_nest_add_axis(&nest, place_names[i], extent, true, -1);
        from.shape[i] = extent;
    }
    for (int k = 0; k < n_slices; k++) {
        int input = cleave_nest_add_input(&nest, *tensor);
        for (int i = 0; i < from.rank; i++) {
            cleave_map_offset(&nest.inputs[input], i, i == d ? k * length : 0);
            if (axes[i] >= 0)
                cleave_map_term(&nest.inputs[input], i, axes[i], 1);
        }
    }
    int value = cleave_nest_emit(&nest, CLEAVE_OP_COPY, 0, 0, 0, 0);
    for (int k = 1; k < n_slices; k++)
        value = cleave_nest_emit(&nest, CLEAVE_OP_MUL, value, k, 0, 0);
    if (is_last) {
        nest.output.tensor = w->output;
        map_output(w, axes, &nest.output);
        CLEAVE_TRY(close_reduction(im, w, &nest));
        /* A tail has an axis for every dimension of the output; one that is kept as 1 has none. */
        if (nest.n_axes == w->r.out_rank)
            im->operators.items[w->op].tail_nest = im->operators.items[w->op].main_nest;
        return CLEAVE_OK;
    }
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){NULL, w->op, ".product", from.rank, from.shape, w->input}, tensor));
    nest.output.tensor = *tensor;
    for (int i = 0; i < from.rank; i++)
        if (axes[i] >= 0)
            cleave_map_axis(&nest.output, i, axes[i]);
    return cleave_import_add_nest(im, &nest, ".product", NULL);
}

static cleave_status add_product(cleave_importer *im, work *w) {
    int32_t tensor = w->input;
    int last = -1;
    CLEAVE_TRY(open_reduction(im, w, false));
    for (int d = 0; d < w->r.rank; d++)
        if (cleave_reduces(&w->r, d))
            last = d;
    for (int d = 0; d < w->r.rank; d++) {
        int64_t extent = im->tensors.items[tensor].tensor.shape[d];
        bool ended = !cleave_reduces(&w->r, d);
        while (!ended) {
            int n = extent < CLEAVE_MAX_INPUTS ? (int)extent : CLEAVE_MAX_INPUTS;
            int64_t length = (extent + n - 1) / n;
            if (length * n > extent)
                CLEAVE_TRY(pad_with_ones(im, d, length * n, &tensor));
            ended = length == 1;
            CLEAVE_TRY(add_level(im, w, d, length, n, ended && d == last, &tensor));
            extent = length;
        }
    }
    return CLEAVE_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

cleave_status cleave_import_reduce(cleave_importer *im) {
    work w = {0};
    CLEAVE_TRY(cleave_import_tensor(im, 0, &w.input));
    cleave_tensor from = im->tensors.items[w.input].tensor;
    int32_t type = cleave_import_type(cleave_import_input(im, 0));
    CLEAVE_TRY(cleave_reduction_read(im, from.rank, from.shape, &w.r));
    if (w.r.is_identity)
        return cleave_import_identity(im);
    switch (w.r.kind) {
    case CLEAVE_REDUCTION_LOG_SUM_EXP:
        return add_log_sum_exp(im, &w);
    case CLEAVE_REDUCTION_MAX:
    case CLEAVE_REDUCTION_MIN:
        return add_maximum(im, &w);
    case CLEAVE_REDUCTION_PROD:
        return w.r.reduced != 0 ? add_product(im, &w) : cleave_import_identity(im);
    case CLEAVE_REDUCTION_ARG_MAX:
    case CLEAVE_REDUCTION_ARG_MIN:
        return add_arg(im, &w);
    case CLEAVE_REDUCTION_MEAN:
    case CLEAVE_REDUCTION_L2:
    case CLEAVE_REDUCTION_LOG_SUM:
        if (type != CLEAVE_ONNX_FLOAT)
            return cleave_import_fail(im, "its input is of type %s, supported is FLOAT",
                                      cleave_onnx_type_name(type));
        return add_sum(im, &w);
    default:
        return add_sum(im, &w);
    }
}
