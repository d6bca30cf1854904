/* Local response normalisation, across channels:

   y[c] = x[c] / (bias + alpha / size x sum of squares of the channels around c) ^ beta.  The sum is
   a product with a constant matrix of ones about its diagonal. */
#include "graph/import/operators/pointwise.h"

enum { MOST_CHANNELS = 8192 };

typedef struct response {
    int32_t op, input, squares, sums;
    cleave_tensor from;
    int64_t size;
    double alpha, beta, bias;
} response;

static cleave_status add_squares(cleave_importer *im, response *r) {
    cleave_nest nest = {.kind = CLEAVE_NEST_POINTWISE, .op = r->op};
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){NULL, r->op, ".squares", r->from.rank, r->from.shape, r->input},
        &r->squares));
    cleave_nest_take_axes(&nest, &im->operators.items[r->op]);
    nest.output = cleave_whole_operand(r->squares, r->from.rank);
    cleave_nest_add_whole_input(&nest, r->input, r->from.rank);
    cleave_nest_emit(&nest, CLEAVE_OP_MUL, 0, 0, 0, 0);
    return cleave_import_add_nest(im, &nest, ".squares", NULL);
}

static cleave_status add_neighbours(cleave_importer *im, const response *r, int32_t *tensor) {
    int64_t n = r->from.shape[1], shape[] = {n, n};
    CLEAVE_TRY(cleave_import_spend(im, n, n));
    float *ones = CLEAVE_ARENA_ARRAY(im->arena, float, n *n);
    if (ones == NULL)
        return cleave_import_no_memory(im);
    for (int64_t c = 0; c < n; c++)
        for (int64_t i = 0; i < n; i++)
            ones[c * n + i] = i >= c - (r->size - 1) / 2 && i <= c + r->size / 2;
    return cleave_import_constant_tensor(
        im, (cleave_new_tensor){NULL, r->op, ".neighbours", 2, shape, -1}, ones, tensor);
}

static cleave_status add_sums(cleave_importer *im, response *r) {
    cleave_nest nest = {.kind = CLEAVE_NEST_PRODUCT, .op = r->op, .combiner = CLEAVE_COMBINE_SUM};
    int32_t neighbours;
    CLEAVE_TRY(add_neighbours(im, r, &neighbours));
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){NULL, r->op, ".sums", r->from.rank, r->from.shape, r->input},
        &r->sums));
    cleave_nest_take_axes(&nest, &im->operators.items[r->op]);
    int summed = cleave_nest_add_axis(&nest, "i", r->from.shape[1], true, -1);
    nest.output = cleave_whole_operand(r->sums, r->from.rank);
    cleave_nest_add_whole_input(&nest, r->squares, r->from.rank);
    cleave_map_axis(&nest.inputs[0], 1, summed);
    int ones = cleave_nest_add_input(&nest, neighbours);
    cleave_map_axis(&nest.inputs[ones], 0, 1);
    cleave_map_axis(&nest.inputs[ones], 1, summed);
    cleave_nest_emit(&nest, CLEAVE_OP_MUL, 0, ones, 0, 0);
    return cleave_import_add_nest(im, &nest, ".sums", NULL);
}

cleave_status cleave_import_local_response(cleave_importer *im) {
    response r = {0};
    cleave_nest nest;
    CLEAVE_TRY(cleave_import_number(im, "alpha", 1e-4, &r.alpha));
    CLEAVE_TRY(cleave_import_number(im, "beta", 0.75, &r.beta));
    CLEAVE_TRY(cleave_import_number(im, "bias", 1, &r.bias));
    CLEAVE_TRY(cleave_import_integer(im, "size", 0, &r.size));
    CLEAVE_TRY(cleave_import_tensor(im, 0, &r.input));
    r.from = im->tensors.items[r.input].tensor;
    if (r.size < 1 || r.size > INT32_MAX)
        return cleave_import_fail(im, "attribute size is %lld, at least 1 is needed",
                                  (long long)r.size);
    if (r.from.rank < 2 || r.from.shape[1] > MOST_CHANNELS)
        return cleave_import_fail(im, "input %s has no channels, or more than %d",
                                  im->node->inputs[0], MOST_CHANNELS);
    CLEAVE_TRY(cleave_import_open_over(im, r.input, true, &r.op));
    CLEAVE_TRY(add_squares(im, &r));
    CLEAVE_TRY(add_sums(im, &r));
    cleave_operand operand = cleave_whole_operand(r.input, r.from.rank);
    CLEAVE_TRY(cleave_import_begin_result(im, r.op, &operand, &nest));
    int sum = cleave_nest_add_whole_input(&nest, r.sums, r.from.rank);
    int base = cleave_nest_emit(&nest, CLEAVE_OP_SCALE, sum, 0, r.alpha / (double)r.size, r.bias);
    int exponent = cleave_nest_emit(&nest, CLEAVE_OP_CONSTANT, 0, 0, -r.beta, 0);
    int factor = cleave_nest_emit(&nest, CLEAVE_OP_POW, base, exponent, 0, 0);
    cleave_nest_emit(&nest, CLEAVE_OP_MUL, 0, factor, 0, 0);
    return cleave_import_end_result(im, &nest);
}
