/* Which experts a token goes to, and where it lies there.

   TopK ranks the elements of a row by counting those that come before each, and picks the one of
   each rank by a sum in which all others are 0: both are nests, so a row may be split, and a picked
   value has the gradient that it should have.

   Route gives every choice of a token a row in a table of `capacity` rows for each expert and
   sample.  Tokens take rows in their order, whatever other samples do, so micro-batches and splits
   of samples change nothing.  What finds its expert full is dropped: it has no row. */
#include "graph/import/operators/pointwise.h"

#include <string.h>

/* ---- TopK ------------------------------------------------------------------------------------ */

typedef struct top {
    int32_t input, op, rank; /* rank: tensor of how many come before each element */
    int axis;
    int64_t k;
    bool largest;
} top;

static cleave_status read_top(cleave_importer *im, top *t) {
    int64_t axis, largest;
    double k;
    CLEAVE_TRY(cleave_import_tensor(im, 0, &t->input));
    const cleave_tensor from = im->tensors.items[t->input].tensor;
    CLEAVE_TRY(cleave_import_integer(im, "axis", -1, &axis));
    CLEAVE_TRY(cleave_import_integer(im, "largest", 1, &largest));
    CLEAVE_TRY(cleave_import_axis(im, axis, from.rank, &t->axis));
    CLEAVE_TRY(cleave_import_scalar(im, 1, 0, &k));
    int64_t extent = from.shape[t->axis];
    if (!(k >= 1 && k <= (double)extent) || extent > CLEAVE_MOST_EXACT_INTEGER)
        return cleave_import_fail(im, "takes %g of %lld elements, supported are 1 to all of 2^24",
                                  k, (long long)extent);
    t->k = (int64_t)k;
    t->largest = largest != 0;
    return CLEAVE_OK;
}

/* How many elements of the row come before this one: larger ones, and equal ones to its left. */
static cleave_status add_rank(cleave_importer *im, top *t) {
    const cleave_tensor from = im->tensors.items[t->input].tensor;
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){NULL, t->op, ".rank", from.rank, from.shape, t->input}, &t->rank));
    cleave_nest nest = {.kind = CLEAVE_NEST_REDUCE, .op = t->op, .combiner = CLEAVE_COMBINE_SUM};
    cleave_nest_take_axes(&nest, &im->operators.items[t->op]);
    int i = cleave_nest_add_axis(&nest, "i", from.shape[t->axis], true, -1);
    int x = cleave_nest_add_whole_input(&nest, t->input, from.rank);
    int other = cleave_nest_add_whole_input(&nest, t->input, from.rank);
    cleave_map_axis(&nest.inputs[other], t->axis, i);
    nest.output = cleave_whole_operand(t->rank, from.rank);
    int better = cleave_nest_emit(&nest, CLEAVE_OP_LESS, t->largest ? x : other,
                                  t->largest ? other : x, 0, 0);
    int same = cleave_nest_emit(&nest, CLEAVE_OP_EQUAL, x, other, 0, 0);
    int here = cleave_nest_emit(&nest, CLEAVE_OP_INDEX, t->axis, 0, 0, 0);
    int there = cleave_nest_emit(&nest, CLEAVE_OP_INDEX, i, 0, 0, 0);
    int left = cleave_nest_emit(&nest, CLEAVE_OP_LESS, there, here, 0, 0);
    int tie = cleave_nest_emit(&nest, CLEAVE_OP_MASK, left, same, 0, 0);
    cleave_nest_emit(&nest, CLEAVE_OP_ADD, better, tie, 0, 0);
    return cleave_import_add_nest(im, &nest, ".rank", NULL);
}

/* Output 0, the values, or 1, their places: of each rank below k. */
static cleave_status add_picked(cleave_importer *im, const top *t, int which) {
    const cleave_tensor from = im->tensors.items[t->input].tensor;
    int64_t shape[CLEAVE_MAX_RANK];
    int32_t output, *main_nest = &im->operators.items[t->op].main_nest;
    memcpy(shape, from.shape, sizeof shape);
    shape[t->axis] = t->k;
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){im->node->outputs[which], t->op, "", from.rank, shape, t->input},
        &output));
    im->tensors.items[output].axes[t->axis] = "j";
    cleave_nest nest = {.kind = CLEAVE_NEST_REDUCE, .op = t->op, .combiner = CLEAVE_COMBINE_SUM};
    cleave_nest_take_axes(&nest, &im->operators.items[t->op]);
    int j = cleave_nest_add_axis(&nest, "j", t->k, true, -1);
    int rank = cleave_nest_add_whole_input(&nest, t->rank, from.rank);
    int x = which == 0 ? cleave_nest_add_whole_input(&nest, t->input, from.rank) : -1;
    nest.output = cleave_whole_operand(output, from.rank);
    cleave_map_axis(&nest.output, t->axis, j);
    int wanted = cleave_nest_emit(&nest, CLEAVE_OP_INDEX, j, 0, 0, 0);
    int hit = cleave_nest_emit(&nest, CLEAVE_OP_EQUAL, rank, wanted, 0, 0);
    if (which == 1)
        x = cleave_nest_emit(&nest, CLEAVE_OP_INDEX, t->axis, 0, 0, 0);
    cleave_nest_emit(&nest, CLEAVE_OP_MASK, x, hit, 0, 0);
    bool is_main = *main_nest < 0;
    CLEAVE_TRY(
        cleave_import_add_nest(im, &nest, is_main ? "" : ".indices", is_main ? main_nest : NULL));
    cleave_import_set_output(im, which, output, false);
    if (which == 1)
        cleave_import_set_type(im, which, CLEAVE_ONNX_INT64);
    return CLEAVE_OK;
}

cleave_status cleave_import_top_k(cleave_importer *im) {
    top t = {0};
    bool indices = cleave_import_uses_output(im, 1);
    CLEAVE_TRY(read_top(im, &t));
    CLEAVE_TRY(cleave_import_open_over(im, t.input, true, &t.op));
    CLEAVE_TRY(add_rank(im, &t));
    if (cleave_import_uses_output(im, 0) || !indices)
        CLEAVE_TRY(add_picked(im, &t, 0));
    return indices ? add_picked(im, &t, 1) : CLEAVE_OK;
}

/* ---- Route ----------------------------------------------------------------------------------- */

typedef struct route {
    int32_t op, choices; /* choices: [n, t, j] experts */
    int32_t position;    /* [n, t, j] in the expert's queue */
    int32_t slots;       /* [n, t, j] rows; experts x capacity: dropped */
    int64_t samples, tokens, k, experts, capacity;
} route;

enum { N, T, J }; /* axes of nests over choices */

static cleave_status read_route(cleave_importer *im, route *r) {
    CLEAVE_TRY(cleave_import_tensor(im, 0, &r->choices));
    const cleave_tensor from = im->tensors.items[r->choices].tensor;
    CLEAVE_TRY(cleave_import_integer(im, "experts", 0, &r->experts));
    CLEAVE_TRY(cleave_import_integer(im, "capacity", 0, &r->capacity));
    if (from.rank != 3)
        return cleave_import_fail(im, "its choices have rank %d, supported is 3", from.rank);
    if (r->experts < 1 || r->capacity < 1 || r->capacity > CLEAVE_MOST_EXACT_INTEGER / r->experts)
        return cleave_import_fail(im, "%lld experts with room for %lld are not 1 to 2^24 rows",
                                  (long long)r->experts, (long long)r->capacity);
    r->samples = from.shape[0];
    r->tokens = from.shape[1];
    r->k = from.shape[2];
    return CLEAVE_OK;
}

/* A nest whose first axes are those of the choices; samples alone can be split. */
static cleave_nest over_choices(const route *r, cleave_combiner combiner) {
    cleave_nest nest = {.kind = combiner == CLEAVE_COMBINE_NONE ? CLEAVE_NEST_POINTWISE
                                                                : CLEAVE_NEST_REDUCE,
                        .op = r->op,
                        .combiner = combiner};
    cleave_nest_add_axis(&nest, "n", r->samples, false, 0);
    cleave_nest_add_axis(&nest, "t", r->tokens, true, -1);
    cleave_nest_add_axis(&nest, "j", r->k, true, -1);
    return nest;
}

static cleave_status new_of_choices(cleave_importer *im, const route *r, const char *name,
                                    const char *suffix, int32_t *tensor) {
    return cleave_import_new_tensor(im,
                                    (cleave_new_tensor){name, r->op, suffix, 3,
                                                        (int64_t[]){r->samples, r->tokens, r->k},
                                                        r->choices},
                                    tensor);
}

/* How many choices of the same expert tokens before this one made. */
static cleave_status add_position(cleave_importer *im, route *r) {
    CLEAVE_TRY(new_of_choices(im, r, NULL, ".position", &r->position));
    cleave_nest nest = over_choices(r, CLEAVE_COMBINE_SUM);
    int i = cleave_nest_add_axis(&nest, "i", r->tokens, true, -1);
    int l = cleave_nest_add_axis(&nest, "l", r->k, true, -1);
    int mine = cleave_nest_add_whole_input(&nest, r->choices, 3);
    int other = cleave_nest_add_whole_input(&nest, r->choices, 3);
    cleave_map_axis(&nest.inputs[other], T, i);
    cleave_map_axis(&nest.inputs[other], J, l);
    nest.output = cleave_whole_operand(r->position, 3);
    int same = cleave_nest_emit(&nest, CLEAVE_OP_EQUAL, mine, other, 0, 0);
    int there = cleave_nest_emit(&nest, CLEAVE_OP_INDEX, i, 0, 0, 0);
    int here = cleave_nest_emit(&nest, CLEAVE_OP_INDEX, T, 0, 0, 0);
    int before = cleave_nest_emit(&nest, CLEAVE_OP_LESS, there, here, 0, 0);
    cleave_nest_emit(&nest, CLEAVE_OP_MASK, before, same, 0, 0);
    return cleave_import_add_nest(im, &nest, ".position", NULL);
}

/* Row expert x capacity + position, where there is room; else the one behind the last. */
static cleave_status add_slots(cleave_importer *im, route *r) {
    double end = (double)(r->experts * r->capacity);
    CLEAVE_TRY(new_of_choices(im, r, im->node->outputs[0], "", &r->slots));
    cleave_nest nest = over_choices(r, CLEAVE_COMBINE_NONE);
    int expert = cleave_nest_add_whole_input(&nest, r->choices, 3);
    int position = cleave_nest_add_whole_input(&nest, r->position, 3);
    nest.output = cleave_whole_operand(r->slots, 3);
    int room = cleave_nest_emit(&nest, CLEAVE_OP_CONSTANT, 0, 0, (double)r->capacity, 0);
    int fits = cleave_nest_emit(&nest, CLEAVE_OP_LESS, position, room, 0, 0);
    int first = cleave_nest_emit(&nest, CLEAVE_OP_SCALE, expert, 0, (double)r->capacity, -end);
    int row = cleave_nest_emit(&nest, CLEAVE_OP_ADD, first, position, 0, 0);
    row = cleave_nest_emit(&nest, CLEAVE_OP_MASK, row, fits, 0, 0);
    cleave_nest_emit(&nest, CLEAVE_OP_SCALE, row, 0, 1, end);
    if (r->capacity < r->tokens)
        im->tensors.items[r->slots].tensor.dropped_from = r->experts * r->capacity;
    CLEAVE_TRY(cleave_import_add_nest(im, &nest, "", &im->operators.items[r->op].main_nest));
    cleave_import_set_output(im, 0, r->slots, false);
    cleave_import_set_type(im, 0, CLEAVE_ONNX_INT64);
    return CLEAVE_OK;
}

/* The token of each row [n, e, c]; `tokens`, which names none, where the row is empty. */
static cleave_status add_sources(cleave_importer *im, const route *r) {
    const int64_t shape[] = {r->samples, r->experts, r->capacity};
    static const char *const names[] = {"n", "e", "c"};
    int32_t found, sources;
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){NULL, r->op, ".found", 3, shape, -1}, &found));
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){im->node->outputs[1], r->op, "", 3, shape, found}, &sources));
    memcpy(im->tensors.items[sources].axes, names, sizeof names);
    /* An even choice; without a capacity all experts together have just so many for sure. */
    int64_t even = (r->tokens * r->k + r->experts - 1) / r->experts;
    im->tensors.items[sources].tensor.filled_dimension = 2;
    im->tensors.items[sources].tensor.filled_rows = even < r->capacity ? even : r->capacity;
    cleave_nest nest = over_choices(r, CLEAVE_COMBINE_SUM);
    int e = cleave_nest_add_axis(&nest, "e", r->experts, true, -1);
    int c = cleave_nest_add_axis(&nest, "c", r->capacity, true, -1);
    int slot = cleave_nest_add_whole_input(&nest, r->slots, 3);
    nest.output.tensor = found;
    cleave_map_axis(&nest.output, 0, N);
    cleave_map_axis(&nest.output, 1, e);
    cleave_map_axis(&nest.output, 2, c);
    int expert = cleave_nest_emit(&nest, CLEAVE_OP_INDEX, e, 0, 0, 0);
    int first = cleave_nest_emit(&nest, CLEAVE_OP_SCALE, expert, 0, (double)r->capacity, 0);
    int place = cleave_nest_emit(&nest, CLEAVE_OP_INDEX, c, 0, 0, 0);
    int row = cleave_nest_emit(&nest, CLEAVE_OP_ADD, first, place, 0, 0);
    int hit = cleave_nest_emit(&nest, CLEAVE_OP_EQUAL, slot, row, 0, 0);
    int token = cleave_nest_emit(&nest, CLEAVE_OP_INDEX, T, 0, 0, 0);
    token = cleave_nest_emit(&nest, CLEAVE_OP_SCALE, token, 0, 1, -(double)r->tokens);
    cleave_nest_emit(&nest, CLEAVE_OP_MASK, token, hit, 0, 0);
    CLEAVE_TRY(cleave_import_add_nest(im, &nest, ".found", NULL));
    cleave_nest last = {.kind = CLEAVE_NEST_POINTWISE, .op = r->op};
    for (int d = 0; d < 3; d++)
        cleave_nest_add_axis(&last, names[d], shape[d], d > 0, d > 0 ? -1 : 0);
    int token_of = cleave_nest_add_whole_input(&last, found, 3);
    last.output = cleave_whole_operand(sources, 3);
    cleave_nest_emit(&last, CLEAVE_OP_SCALE, token_of, 0, 1, (double)r->tokens);
    CLEAVE_TRY(cleave_import_add_nest(im, &last, ".sources", NULL));
    cleave_import_set_output(im, 1, sources, false);
    cleave_import_set_type(im, 1, CLEAVE_ONNX_INT64);
    return CLEAVE_OK;
}

cleave_status cleave_import_route(cleave_importer *im) {
    route r = {0};
    CLEAVE_TRY(read_route(im, &r));
    CLEAVE_TRY(cleave_import_new_operator(im, true, &r.op));
    if (cleave_import_add_axis(im, r.op, "n", r.samples, false) < 0)
        return cleave_import_no_memory(im);
    CLEAVE_TRY(add_position(im, &r));
    CLEAVE_TRY(add_slots(im, &r));
    return cleave_import_uses_output(im, 1) ? add_sources(im, &r) : CLEAVE_OK;
}
