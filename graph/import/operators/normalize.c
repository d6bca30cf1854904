/* Normalisations by statistics of the samples themselves: layer, instance and group normalisation,
   and those without parameters. */
#include "graph/import/operators/pointwise.h"
#include "graph/import/operators/rows.h"
#include "graph/import/operators/statistics.h"

/* Adds scale or bias, broadcast to the last of the nest's first `rank` axes. */
static cleave_status add_broadcast(cleave_importer *im, cleave_nest *nest, int i, int rank,
                                   float initial, int *input) {
    int32_t tensor;
    int64_t shape[CLEAVE_MAX_RANK];
    CLEAVE_TRY(cleave_import_tensor(im, i, &tensor));
    cleave_tensor parameter = im->tensors.items[tensor].tensor;
    bool fits = parameter.rank <= rank;
    for (int d = 0; d < rank; d++)
        shape[d] = nest->axes[d].extent;
    for (int d = 0; fits && d < parameter.rank; d++)
        fits = parameter.shape[d] == 1 || parameter.shape[d] == shape[rank - parameter.rank + d];
    if (!fits)
        return cleave_import_fail(im, "input %s does not fit the normalised shape",
                                  im->node->inputs[i]);
    cleave_import_initialise(im, tensor, 0, initial);
    *input = cleave_nest_add_input(nest, tensor);
    cleave_map_broadcast(&nest->inputs[*input], &parameter, rank, shape);
    return CLEAVE_OK;
}

/* Emits the normalised value from the statistics of the nest's input 0. */
static int emit_normal(const cleave_importer *im, const cleave_statistics *statistics,
                       double epsilon, cleave_nest *nest) {
    int mean = cleave_statistics_input(im, statistics, nest, CLEAVE_STATISTIC_MEAN);
    int m2 = cleave_statistics_input(im, statistics, nest, CLEAVE_STATISTIC_M2);
    return cleave_statistics_emit(nest, mean, m2, 1 / (double)statistics->count, epsilon);
}

static void emit_affine(cleave_nest *nest, int normal, int scale, int bias) {
    int scaled = cleave_nest_emit(nest, CLEAVE_OP_MUL, normal, scale, 0, 0);
    if (bias >= 0)
        cleave_nest_emit(nest, CLEAVE_OP_ADD, scaled, bias, 0, 0);
}

/* Outputs 1 and 2 of a layer normalisation: the mean of every row, and 1 over its deviation. */
static cleave_status add_row_statistic(cleave_importer *im, const cleave_statistics *statistics,
                                       int output, int axis, double epsilon) {
    if (!cleave_import_uses_output(im, output))
        return CLEAVE_OK;
    cleave_nest nest = {.kind = CLEAVE_NEST_POINTWISE, .op = statistics->op};
    cleave_tensor shape = im->tensors.items[statistics->input.tensor].tensor;
    for (int d = axis; d < shape.rank; d++)
        shape.shape[d] = 1;
    cleave_new_tensor what = {
        im->node->outputs[output], statistics->op, "", shape.rank, shape.shape, -1};
    CLEAVE_TRY(cleave_import_new_tensor(im, what, &nest.output.tensor));
    int input = cleave_nest_add_input(&nest, statistics->record);
    cleave_map_offset(&nest.inputs[input], 0,
                      output == 1 ? CLEAVE_STATISTIC_MEAN : CLEAVE_STATISTIC_M2);
    for (int d = 0; d < axis; d++) {
        cleave_nest_add_axis(&nest, im->operators.items[statistics->op].axes[d].name,
                             shape.shape[d], false, d);
        cleave_map_axis(&nest.inputs[input], d + 1, d);
        cleave_map_axis(&nest.output, d, d);
    }
    if (output == 1) {
        cleave_nest_emit(&nest, CLEAVE_OP_COPY, input, 0, 0, 0);
    } else {
        int shifted = cleave_nest_emit(&nest, CLEAVE_OP_SCALE, input, 0,
                                       1 / (double)statistics->count, epsilon);
        cleave_nest_emit(&nest, CLEAVE_OP_RSQRT, shifted, 0, 0, 0);
    }
    CLEAVE_TRY(cleave_import_add_nest(im, &nest, output == 1 ? ".mean" : ".inverse", NULL));
    cleave_import_set_output(im, output, nest.output.tensor, false);
    return CLEAVE_OK;
}

/* What the norms over the last dimensions have in common: their input, its first dimension that is
   normalised, and epsilon. */
static cleave_status read_layer(cleave_importer *im, int32_t *input, int *axis, double *epsilon) {
    int64_t wanted, stash;
    CLEAVE_TRY(cleave_import_integer(im, "axis", -1, &wanted));
    CLEAVE_TRY(cleave_import_integer(im, "stash_type", 1, &stash));
    CLEAVE_TRY(cleave_import_number(im, "epsilon", 1e-5, epsilon));
    if (stash != CLEAVE_ONNX_FLOAT)
        return cleave_import_fail(im, "attribute stash_type is %lld, supported is 1",
                                  (long long)stash);
    CLEAVE_TRY(cleave_import_tensor(im, 0, input));
    return cleave_import_axis(im, wanted, im->tensors.items[*input].tensor.rank, axis);
}

/* The scale of a norm: an input, or p x that + q. */
typedef struct norm_scale {
    int input;
    bool is_line;
    double p, q;
} norm_scale;

/* Where input 1 is p x a parameter + q, as in Gemma's 1 + weight, the nest reads the parameter and
   computes that itself. */
static cleave_status add_scale(cleave_importer *im, cleave_nest *nest, int rank,
                               norm_scale *scale) {
    int32_t tensor;
    CLEAVE_TRY(cleave_import_tensor(im, 1, &tensor));
    int32_t op = im->tensors.items[tensor].op;
    int32_t from = op >= 0 ? im->operators.items[op].main_nest : -1;
    const cleave_nest *line = from >= 0 ? &im->nests.items[from].nest : NULL;
    *scale = (norm_scale){.is_line = false};
    if (line == NULL || line->output.tensor != tensor || line->n_inputs != 1 ||
        line->n_instructions != 1 || line->tape[0].opcode != CLEAVE_OP_SCALE ||
        im->tensors.items[line->inputs[0].tensor].tensor.kind != CLEAVE_TENSOR_PARAMETER)
        return add_broadcast(im, nest, 1, rank, 1, &scale->input);
    const cleave_instruction it = line->tape[0];
    int32_t weight = line->inputs[0].tensor;
    const cleave_tensor *of = &im->tensors.items[weight].tensor;
    int64_t shape[CLEAVE_MAX_RANK];
    for (int d = 0; d < rank; d++)
        shape[d] = nest->axes[d].extent;
    if (of->rank > rank || !cleave_has_shape(of, of->rank, shape + rank - of->rank))
        return add_broadcast(im, nest, 1, rank, 1, &scale->input);
    cleave_import_initialise(im, weight, 0, (float)((1 - it.q) / it.p));
    *scale = (norm_scale){cleave_nest_add_input(nest, weight), true, it.p, it.q};
    cleave_map_broadcast(&nest->inputs[scale->input], of, rank, shape);
    im->operators.items[op].bypassed = true;
    return CLEAVE_OK;
}

/* Behind all inputs, which have the first numbers. */
static int emit_scale(cleave_nest *nest, const norm_scale *scale) {
    return scale->is_line
               ? cleave_nest_emit(nest, CLEAVE_OP_SCALE, scale->input, 0, scale->p, scale->q)
               : scale->input;
}

cleave_status cleave_import_layer_normalization(cleave_importer *im) {
    cleave_statistics statistics = {0};
    double epsilon;
    int axis, bias = -1;
    norm_scale scale;
    cleave_nest nest;
    int32_t input;
    CLEAVE_TRY(read_layer(im, &input, &axis, &epsilon));
    int rank = im->tensors.items[input].tensor.rank;
    statistics.input = cleave_whole_operand(input, rank);
    for (int d = axis; d < rank; d++)
        statistics.reduced |= 1u << d;
    CLEAVE_TRY(cleave_import_open_over(im, input, true, &statistics.op));
    CLEAVE_TRY(cleave_statistics_add(im, &statistics));
    for (int output = 1; output <= 2; output++)
        CLEAVE_TRY(add_row_statistic(im, &statistics, output, axis, epsilon));
    CLEAVE_TRY(cleave_import_begin_result(im, statistics.op, &statistics.input, &nest));
    CLEAVE_TRY(add_scale(im, &nest, rank, &scale));
    if (cleave_import_has_input(im, 2))
        CLEAVE_TRY(add_broadcast(im, &nest, 2, rank, 0, &bias));
    int normal = emit_normal(im, &statistics, epsilon, &nest);
    emit_affine(&nest, normal, emit_scale(&nest, &scale), bias);
    return cleave_import_end_result(im, &nest);
}

/* x / sqrt(mean(x^2) + epsilon) x scale */
cleave_status cleave_import_rms_normalization(cleave_importer *im) {
    cleave_rows rows = {0};
    norm_scale line;
    double epsilon;
    int axis;
    int64_t count = 1;
    cleave_nest nest;
    CLEAVE_TRY(read_layer(im, &rows.input, &axis, &epsilon));
    const cleave_tensor from = im->tensors.items[rows.input].tensor;
    rows.rank = from.rank;
    for (int d = axis; d < from.rank; d++) {
        rows.reduced |= 1u << d;
        count *= from.shape[d];
    }
    CLEAVE_TRY(cleave_import_open_over(im, rows.input, true, &rows.op));
    CLEAVE_TRY(cleave_rows_new_tensor(im, &rows, ".squares", &rows.sum));
    cleave_nest squares = cleave_rows_reduce(im, &rows, CLEAVE_COMBINE_SUM, rows.sum);
    cleave_nest_emit(&squares, CLEAVE_OP_MUL, 0, 0, 0, 0);
    CLEAVE_TRY(cleave_import_add_nest(im, &squares, ".squares", NULL));
    cleave_operand input = cleave_whole_operand(rows.input, from.rank);
    CLEAVE_TRY(cleave_import_begin_result(im, rows.op, &input, &nest));
    int sum = cleave_rows_add_input(&rows, &nest, rows.sum);
    CLEAVE_TRY(add_scale(im, &nest, from.rank, &line));
    int scale = emit_scale(&nest, &line);
    int shifted = cleave_nest_emit(&nest, CLEAVE_OP_SCALE, sum, 0, 1 / (double)count, epsilon);
    int inverse = cleave_nest_emit(&nest, CLEAVE_OP_RSQRT, shifted, 0, 0, 0);
    int unit = cleave_nest_emit(&nest, CLEAVE_OP_MUL, 0, inverse, 0, 0);
    cleave_nest_emit(&nest, CLEAVE_OP_MUL, unit, scale, 0, 0);
    return cleave_import_end_result(im, &nest);
}

/* ---- instances and groups -------------------------------------------------------------------- */

/* The axes n, g, c and positions of a tensor [n, g c, positions...], and an operand with them.  A
   part of the channels of every group would not be one box, so c is whole. */
static cleave_status open_over_groups(cleave_importer *im, int32_t tensor, int64_t groups,
                                      cleave_statistics *statistics) {
    const cleave_draft_tensor from = im->tensors.items[tensor];
    int64_t per_group = from.tensor.shape[1] / groups;
    cleave_operand *input = &statistics->input;
    CLEAVE_TRY(cleave_import_new_operator(im, true, &statistics->op));
    input->tensor = tensor;
    for (int d = 0; d < from.tensor.rank; d++) {
        int axis;
        if (d == 1) {
            int g = cleave_import_add_axis(im, statistics->op, "g", groups, false);
            axis = cleave_import_add_axis(im, statistics->op, "c", per_group, true);
            cleave_map_term(input, d, g, per_group);
        } else {
            axis = cleave_import_add_axis(im, statistics->op, from.axes[d], from.tensor.shape[d],
                                          false);
        }
        if (axis < 0)
            return cleave_import_no_memory(im);
        cleave_map_term(input, d, axis, 1);
        if (d > 0)
            statistics->reduced |= 1u << axis;
    }
    return CLEAVE_OK;
}

/* Adds scale or bias, of `n` elements, mapped by `map`. */
static cleave_status add_vector(cleave_importer *im, cleave_nest *nest, int i, int64_t n,
                                cleave_dimension_map map, float initial, int *input) {
    int32_t tensor;
    CLEAVE_TRY(cleave_import_tensor(im, i, &tensor));
    const cleave_tensor *parameter = &im->tensors.items[tensor].tensor;
    if (parameter->rank != 1 || parameter->shape[0] != n)
        return cleave_import_fail(im, "input %s is not of %lld elements", im->node->inputs[i],
                                  (long long)n);
    cleave_import_initialise(im, tensor, 0, initial);
    *input = cleave_nest_add_input(nest, tensor);
    nest->inputs[*input].map[0] = map;
    return CLEAVE_OK;
}

/* Moments, then the affine normalisation, with scale and bias by `map`. */
static cleave_status add_affine(cleave_importer *im, cleave_statistics *statistics, int64_t n,
                                cleave_dimension_map map, double epsilon) {
    cleave_nest nest;
    int scale, bias;
    CLEAVE_TRY(cleave_statistics_add(im, statistics));
    CLEAVE_TRY(cleave_import_begin_result(im, statistics->op, &statistics->input, &nest));
    CLEAVE_TRY(add_vector(im, &nest, 1, n, map, 1, &scale));
    CLEAVE_TRY(add_vector(im, &nest, 2, n, map, 0, &bias));
    emit_affine(&nest, emit_normal(im, statistics, epsilon, &nest), scale, bias);
    return cleave_import_end_result(im, &nest);
}

static cleave_status read_instances(cleave_importer *im, int32_t *input, double *epsilon) {
    CLEAVE_TRY(cleave_import_number(im, "epsilon", 1e-5, epsilon));
    CLEAVE_TRY(cleave_import_tensor(im, 0, input));
    int rank = im->tensors.items[*input].tensor.rank;
    return rank >= 3 ? CLEAVE_OK
                     : cleave_import_fail(im, "input %s has rank %d, at least 3 is needed",
                                          im->node->inputs[0], rank);
}

cleave_status cleave_import_instance_normalization(cleave_importer *im) {
    cleave_statistics statistics = {0};
    double epsilon;
    int32_t input;
    CLEAVE_TRY(read_instances(im, &input, &epsilon));
    cleave_tensor from = im->tensors.items[input].tensor;
    statistics.input = cleave_whole_operand(input, from.rank);
    statistics.reduced = ((1u << from.rank) - 1u) & ~3u;
    CLEAVE_TRY(cleave_import_open_over(im, input, true, &statistics.op));
    return add_affine(im, &statistics, from.shape[1], statistics.input.map[1], epsilon);
}

cleave_status cleave_import_group_normalization(cleave_importer *im) {
    cleave_statistics statistics = {0};
    double epsilon;
    int64_t groups, stash;
    int32_t input;
    CLEAVE_TRY(read_instances(im, &input, &epsilon));
    CLEAVE_TRY(cleave_import_integer(im, "num_groups", 0, &groups));
    CLEAVE_TRY(cleave_import_integer(im, "stash_type", 1, &stash));
    int64_t channels = im->tensors.items[input].tensor.shape[1];
    if (groups < 1 || channels % groups != 0)
        return cleave_import_fail(im, "%lld channels cannot be cut into %lld groups",
                                  (long long)channels, (long long)groups);
    if (stash != CLEAVE_ONNX_FLOAT)
        return cleave_import_fail(im, "attribute stash_type is %lld, supported is 1",
                                  (long long)stash);
    CLEAVE_TRY(open_over_groups(im, input, groups, &statistics));
    statistics.reduced &= ~2u;
    /* Before operator set 21 scale and bias were of the groups. */
    bool by_group = im->graph.opset < 21;
    cleave_operand parameter = statistics.input;
    if (by_group)
        cleave_map_axis(&parameter, 1, 1);
    return add_affine(im, &statistics, by_group ? groups : channels, parameter.map[1], epsilon);
}

/* ---- without parameters ---------------------------------------------------------------------- */

/* (x - mean) / (standard deviation + 1e-9) */
cleave_status cleave_import_mean_variance_normalization(cleave_importer *im) {
    cleave_statistics statistics = {0};
    int64_t axes[2 * CLEAVE_MAX_RANK];
    int n;
    int32_t input;
    cleave_nest nest;
    CLEAVE_TRY(cleave_import_list(im, "axes", im->node->n_inputs, &n, axes));
    CLEAVE_TRY(cleave_import_tensor(im, 0, &input));
    int rank = im->tensors.items[input].tensor.rank;
    if (n < 0) {
        n = 3;
        axes[0] = 0;
        axes[1] = 2;
        axes[2] = 3;
    }
    for (int i = 0; i < n; i++) {
        int axis;
        CLEAVE_TRY(cleave_import_axis(im, axes[i], rank, &axis));
        statistics.reduced |= 1u << axis;
    }
    statistics.input = cleave_whole_operand(input, rank);
    CLEAVE_TRY(cleave_import_open_over(im, input, true, &statistics.op));
    CLEAVE_TRY(cleave_statistics_add(im, &statistics));
    CLEAVE_TRY(cleave_import_begin_result(im, statistics.op, &statistics.input, &nest));
    int mean = cleave_statistics_input(im, &statistics, &nest, CLEAVE_STATISTIC_MEAN);
    int m2 = cleave_statistics_input(im, &statistics, &nest, CLEAVE_STATISTIC_M2);
    int centred = cleave_nest_emit(&nest, CLEAVE_OP_SUB, 0, mean, 0, 0);
    int variance = cleave_nest_emit(&nest, CLEAVE_OP_SCALE, m2, 0, 1 / (double)statistics.count, 0);
    int deviation = cleave_nest_emit(&nest, CLEAVE_OP_SQRT, variance, 0, 0, 0);
    int divisor = cleave_nest_emit(&nest, CLEAVE_OP_SCALE, deviation, 0, 1, 1e-9);
    cleave_nest_emit(&nest, CLEAVE_OP_DIV, centred, divisor, 0, 0);
    return cleave_import_end_result(im, &nest);
}

/* x divided by the sum of |x|, or by the root of that of x x, along an axis. */
cleave_status cleave_import_lp_normalization(cleave_importer *im) {
    int64_t wanted, p;
    int axis;
    int32_t input, op, sum;
    cleave_nest nest;
    CLEAVE_TRY(cleave_import_integer(im, "axis", -1, &wanted));
    CLEAVE_TRY(cleave_import_integer(im, "p", 2, &p));
    if (p != 1 && p != 2)
        return cleave_import_fail(im, "attribute p is %lld, supported are 1 and 2", (long long)p);
    CLEAVE_TRY(cleave_import_tensor(im, 0, &input));
    cleave_tensor from = im->tensors.items[input].tensor;
    CLEAVE_TRY(cleave_import_axis(im, wanted, from.rank, &axis));
    CLEAVE_TRY(cleave_import_open_over(im, input, true, &op));
    cleave_operand operand = cleave_whole_operand(input, from.rank), row = operand;
    cleave_map_offset(&row, axis, 0);
    from.shape[axis] = 1;
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){NULL, op, ".sum", from.rank, from.shape, input}, &sum));
    row.tensor = sum;
    cleave_nest reduce = {
        .kind = CLEAVE_NEST_REDUCE, .op = op, .combiner = CLEAVE_COMBINE_SUM, .output = row};
    cleave_nest_take_axes(&reduce, &im->operators.items[op]);
    cleave_nest_add_whole_input(&reduce, input, from.rank);
    cleave_nest_emit(&reduce, p == 1 ? CLEAVE_OP_ABS : CLEAVE_OP_MUL, 0, 0, 0, 0);
    CLEAVE_TRY(cleave_import_add_nest(im, &reduce, ".sum", NULL));
    CLEAVE_TRY(cleave_import_begin_result(im, op, &operand, &nest));
    int norm = cleave_nest_add_input(&nest, sum);
    nest.inputs[norm] = row;
    if (p == 2)
        norm = cleave_nest_emit(&nest, CLEAVE_OP_SQRT, norm, 0, 0, 0);
    cleave_nest_emit(&nest, CLEAVE_OP_DIV, 0, norm, 0, 0);
    return cleave_import_end_result(im, &nest);
}
