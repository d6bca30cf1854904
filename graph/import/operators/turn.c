/* Rotary positions: x cos + (-right, left) sin along the last dimension, what is behind the turned
   dimensions unchanged.

   One pointwise nest over x and over x with its halves exchanged, which is a view; the sign is in
   the table of sines, and what is not turned has cosine 1 and sine 0.  So it may join the operator
   that makes x (fuse_language.c).

   Where pairs are neighbours, x is parted into first and second elements before it is turned.  Read
   so, it would be copied element by element; one nest takes it as it lay, and adds up the two
   elements of each pair times a table of rotations. */
#include "graph/import/draft_views.h"
#include "graph/import/operators/pointwise.h"

#include <string.h>

typedef struct turn {
    int32_t whole, exchanged; /* tensors of one shape: x, and x with its halves exchanged */
    int64_t turned;           /* columns of x that are turned; the tables have as many */
    int64_t negative;         /* the first columns of `exchanged` that count negatively */
    int cosine, sine;         /* inputs of the node */
} turn;

/* Elements that are known: a constant, or an initializer, which as a table is not trained. */
static const cleave_onnx_tensor *known_table(const cleave_value *value) {
    const cleave_onnx_tensor *table =
        value->state == CLEAVE_VALUE_CONSTANT ? &value->constant : value->initializer;
    bool is_free = value->state == CLEAVE_VALUE_CONSTANT || value->state == CLEAVE_VALUE_SOURCE;
    return is_free && table != NULL && table->floats != NULL && table->rank > 0 ? table : NULL;
}

/* A table that is there already with these elements, so that all layers read one. */
static int32_t find_table(const cleave_importer *im, int rank, const int64_t *shape,
                          const float *values) {
    size_t bytes = (size_t)cleave_shape_size(rank, shape) * sizeof *values;
    for (int32_t i = 0; i < im->n_tables; i++) {
        const cleave_tensor *tensor = &im->tensors.items[im->tables[i].tensor].tensor;
        if (cleave_has_shape(tensor, rank, shape) && memcmp(tensor->value, values, bytes) == 0)
            return im->tables[i].tensor;
    }
    return -1;
}

static cleave_status keep_table(cleave_importer *im, cleave_turned_table table) {
    if (im->n_tables == CLEAVE_MOST_TABLES)
        return CLEAVE_OK;
    im->tables[im->n_tables++] = table;
    return CLEAVE_OK;
}

/* One that was made of the same. */
static int32_t find_made(const cleave_importer *im, const cleave_turned_table *like, int rank,
                         const int64_t *shape) {
    for (int32_t i = 0; i < im->n_tables; i++) {
        const cleave_turned_table *of = &im->tables[i];
        if (of->from == like->from && of->negative == like->negative &&
            of->is_filled == like->is_filled &&
            cleave_has_shape(&im->tensors.items[of->tensor].tensor, rank, shape))
            return of->tensor;
    }
    return -1;
}

/* A table with `width` columns, the first `negative` of which change their sign, the rest 1 if it
   is filled, else 0. */
static cleave_status widen(cleave_importer *im, const cleave_onnx_tensor *from, int64_t width,
                           int64_t negative, bool is_filled, const char *name, int32_t *tensor) {
    cleave_turned_table table = {
        .from = from->floats, .negative = negative, .is_filled = is_filled};
    int64_t shape[CLEAVE_MAX_RANK], have = from->shape[from->rank - 1];
    memcpy(shape, from->shape, sizeof shape);
    shape[from->rank - 1] = width;
    *tensor = find_made(im, &table, from->rank, shape);
    if (*tensor >= 0)
        return CLEAVE_OK;
    int64_t rows = cleave_shape_size(from->rank - 1, shape);
    CLEAVE_TRY(cleave_import_spend(im, rows, width));
    float *values = CLEAVE_ARENA_ARRAY(im->arena, float, rows *width);
    if (values == NULL)
        return cleave_import_no_memory(im);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < width; c++) {
            float value = c < have ? from->floats[r * have + c] : is_filled ? 1.0f : 0.0f;
            values[r * width + c] = c < negative ? -value : value;
        }
    *tensor = find_table(im, from->rank, shape, values);
    if (*tensor >= 0)
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_import_constant_tensor(
        im, (cleave_new_tensor){name, -1, "", from->rank, shape, -1}, values, tensor));
    table.tensor = *tensor;
    return keep_table(im, table);
}

static bool fits(const cleave_tensor *table, const cleave_tensor *x) {
    bool fit = table->rank <= x->rank;
    for (int d = 0; fit && d < table->rank; d++)
        fit = table->shape[d] == 1 || table->shape[d] == x->shape[x->rank - table->rank + d];
    return fit;
}

static cleave_status read_table(cleave_importer *im, const turn *t, int i, int64_t negative,
                                bool is_filled, int32_t *tensor) {
    const cleave_value *value = cleave_import_input(im, i);
    const cleave_onnx_tensor *known = known_table(value);
    const cleave_tensor *x = &im->tensors.items[t->whole].tensor;
    const int64_t width = x->shape[x->rank - 1];
    if (known != NULL && known->shape[known->rank - 1] == t->turned)
        return widen(im, known, width, negative, is_filled, value->name, tensor);
    CLEAVE_TRY(cleave_import_tensor(im, i, tensor));
    const cleave_tensor table = im->tensors.items[*tensor].tensor;
    int64_t begin[CLEAVE_MAX_RANK] = {0}, shape[CLEAVE_MAX_RANK];
    if (table.rank == 0 || table.shape[table.rank - 1] != t->turned)
        return cleave_import_fail(im, "input %s does not have the %lld columns that are turned",
                                  value->name, (long long)t->turned);
    memcpy(shape, table.shape, sizeof shape);
    shape[table.rank - 1] = width;
    return t->turned == width
               ? CLEAVE_OK
               : cleave_import_pad_to(im, cleave_arena_printf(im->arena, "%s.wide", value->name),
                                      *tensor, begin, shape, is_filled ? 1 : 0, tensor);
}

/* -1 for the first dimensions, which are exchanged with the others. */
static cleave_status add_signs(cleave_importer *im, int64_t width, int64_t negative,
                               int32_t *tensor) {
    float *signs = CLEAVE_ARENA_ARRAY(im->arena, float, width);
    if (signs == NULL)
        return cleave_import_no_memory(im);
    for (int64_t i = 0; i < width; i++)
        signs[i] = i < negative ? -1.0f : 1.0f;
    const char *name = cleave_arena_printf(im->arena, "%s.signs", im->node->outputs[0]);
    return name == NULL ? cleave_import_no_memory(im)
                        : cleave_import_constant_tensor(
                              im, (cleave_new_tensor){name, -1, "", 1, &width, -1}, signs, tensor);
}

static cleave_status add_table(cleave_importer *im, cleave_nest *nest, int32_t table, int32_t like,
                               int *input) {
    const cleave_tensor *of = &im->tensors.items[table].tensor;
    const cleave_tensor *x = &im->tensors.items[like].tensor;
    if (!fits(of, x))
        return cleave_import_fail(im, "table %s does not fit what it turns", of->name);
    *input = cleave_nest_add_input(nest, table);
    cleave_map_broadcast(&nest->inputs[*input], of, x->rank, x->shape);
    return CLEAVE_OK;
}

/* whole x cosines + exchanged x sines, with the signs: output 0 of the node. */
static cleave_status import_turn(cleave_importer *im, const turn *t) {
    const cleave_tensor x = im->tensors.items[t->whole].tensor;
    cleave_nest nest;
    int32_t cosines, sines, signs;
    int cosine, sine, sign;
    bool known = known_table(cleave_import_input(im, t->sine)) != NULL;
    CLEAVE_TRY(read_table(im, t, t->cosine, 0, true, &cosines));
    CLEAVE_TRY(read_table(im, t, t->sine, known ? t->negative : 0, false, &sines));
    CLEAVE_TRY(
        cleave_import_begin_pointwise(im, im->node->outputs[0], x.rank, x.shape, t->whole, &nest));
    cleave_nest_add_whole_input(&nest, t->whole, x.rank);
    cleave_nest_add_whole_input(&nest, t->exchanged, x.rank);
    CLEAVE_TRY(add_table(im, &nest, cosines, t->whole, &cosine));
    CLEAVE_TRY(add_table(im, &nest, sines, t->whole, &sine));
    if (!known) {
        CLEAVE_TRY(add_signs(im, x.shape[x.rank - 1], t->negative, &signs));
        CLEAVE_TRY(add_table(im, &nest, signs, t->whole, &sign));
    }
    int straight = cleave_nest_emit(&nest, CLEAVE_OP_MUL, 0, cosine, 0, 0);
    int across = cleave_nest_emit(&nest, CLEAVE_OP_MUL, 1, sine, 0, 0);
    if (!known)
        across = cleave_nest_emit(&nest, CLEAVE_OP_MUL, across, sign, 0, 0);
    cleave_nest_emit(&nest, CLEAVE_OP_ADD, straight, across, 0, 0);
    CLEAVE_TRY(cleave_import_end_pointwise(im, &nest));
    im->operators.items[nest.op].type = "RotaryEmbedding";
    im->operators.items[nest.op].turns = true;
    cleave_import_set_output(im, 0, nest.output.tensor, false);
    return CLEAVE_OK;
}

/* ---- pairs of neighbours --------------------------------------------------------------------- */

/* What x [.., 2 n] was parted from, seen as [.., n, 2]; -1: nothing. */
static int32_t find_pairs(const cleave_importer *im, int32_t x) {
    const cleave_tensor *flat = &im->tensors.items[x].tensor, *parted, *pairs;
    if (flat->view.kind != CLEAVE_VIEW_RESHAPE)
        return -1;
    parted = &im->tensors.items[flat->view.sources[0]].tensor;
    int n = flat->rank;
    if (parted->view.kind != CLEAVE_VIEW_TRANSPOSE || parted->rank != n + 1 ||
        parted->shape[n - 1] != 2 || parted->view.permutation[n - 1] != n ||
        parted->view.permutation[n] != n - 1)
        return -1;
    pairs = &im->tensors.items[parted->view.sources[0]].tensor;
    for (int d = 0; d < n - 1; d++)
        if (parted->view.permutation[d] != d || pairs->shape[d] != flat->shape[d])
            return -1;
    return parted->view.sources[0];
}

/* [.., 2, n, 2]: what each element of a pair gives to each of what it becomes. */
static cleave_status add_rotations(cleave_importer *im, const cleave_onnx_tensor *cosines,
                                   const cleave_onnx_tensor *sines, int32_t *tensor) {
    int rank = cosines->rank;
    int64_t shape[CLEAVE_MAX_RANK], width = cosines->shape[rank - 1], half = width / 2;
    memcpy(shape, cosines->shape, sizeof shape);
    shape[rank - 1] = shape[rank + 1] = 2;
    shape[rank] = half;
    int64_t rows = cleave_shape_size(rank - 1, shape);
    CLEAVE_TRY(cleave_import_spend(im, rows, 2 * width));
    float *values = CLEAVE_ARENA_ARRAY(im->arena, float, 2 * rows * width);
    if (values == NULL)
        return cleave_import_no_memory(im);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < width; i++) {
            float cosine = cosines->floats[r * width + i], sine = sines->floats[r * width + i];
            float *to = &values[2 * (r * width + i)];
            to[0] = i < half ? cosine : sine;
            to[1] = i < half ? -sine : cosine;
        }
    *tensor = find_table(im, rank + 2, shape, values);
    if (*tensor >= 0)
        return CLEAVE_OK;
    const char *name = cleave_arena_printf(im->arena, "%s.rotations", im->node->outputs[0]);
    if (name == NULL)
        return cleave_import_no_memory(im);
    CLEAVE_TRY(cleave_import_constant_tensor(
        im, (cleave_new_tensor){name, -1, "", rank + 2, shape, -1}, values, tensor));
    return keep_table(im, (cleave_turned_table){.tensor = *tensor});
}

/* [.., 2, n], seen as x was. */
static cleave_status turn_pairs(cleave_importer *im, int32_t x, int32_t pairs, int32_t rotations,
                                int32_t *turned) {
    const cleave_tensor flat = im->tensors.items[x].tensor;
    const cleave_tensor table = im->tensors.items[rotations].tensor;
    const char *name = cleave_arena_printf(im->arena, "%s.pairs", im->node->outputs[0]);
    int64_t shape[CLEAVE_MAX_RANK];
    int n = flat.rank;
    cleave_nest nest;
    if (name == NULL)
        return cleave_import_no_memory(im);
    memcpy(shape, flat.shape, sizeof shape);
    shape[n - 1] = 2;
    shape[n] = flat.shape[n - 1] / 2;
    CLEAVE_TRY(cleave_import_begin_pointwise(im, name, n + 1, shape, -1, &nest));
    nest.kind = CLEAVE_NEST_REDUCE;
    nest.combiner = CLEAVE_COMBINE_SUM;
    int of = cleave_nest_add_axis(&nest, "pair", 2, true, -1);
    cleave_nest_add_whole_input(&nest, pairs, n + 1);
    cleave_map_axis(&nest.inputs[0], n - 1, n);
    cleave_map_axis(&nest.inputs[0], n, of);
    cleave_nest_add_input(&nest, rotations);
    for (int d = 0; d < table.rank; d++)
        if (d == table.rank - 1 || table.shape[d] > 1)
            cleave_map_axis(&nest.inputs[1], d, n + 2 - table.rank + d);
    cleave_nest_emit(&nest, CLEAVE_OP_MUL, 0, 1, 0, 0);
    cleave_import_note_version(im, CLEAVE_PLACES_GRAPH_VERSION);
    CLEAVE_TRY(cleave_import_end_pointwise(im, &nest));
    im->operators.items[nest.op].tail_nest = -1;
    im->operators.items[nest.op].type = "RotaryEmbedding";
    return cleave_import_reshape(im, cleave_arena_printf(im->arena, "%s.turned", name),
                                 nest.output.tensor, n, flat.shape, turned);
}

/* Where x is parted; else *turned stays as it is. */
static cleave_status turn_neighbours(cleave_importer *im, int32_t x, const turn *t,
                                     int32_t *turned) {
    const cleave_onnx_tensor *cosines = known_table(cleave_import_input(im, t->cosine));
    const cleave_onnx_tensor *sines = known_table(cleave_import_input(im, t->sine));
    const cleave_tensor *flat = &im->tensors.items[x].tensor;
    int32_t pairs = find_pairs(im, x), rotations;
    bool fits = pairs >= 0 && cosines != NULL && sines != NULL && cosines->rank == sines->rank &&
                cosines->rank <= flat->rank && 2 * t->negative == t->turned &&
                flat->rank + 2 <= CLEAVE_MAX_RANK;
    for (int d = 0; fits && d < cosines->rank; d++) {
        int64_t extent = flat->shape[flat->rank - cosines->rank + d];
        fits = cosines->shape[d] == sines->shape[d] &&
               (cosines->shape[d] == extent || (cosines->shape[d] == 1 && d < cosines->rank - 1));
    }
    if (!fits)
        return CLEAVE_OK;
    CLEAVE_TRY(add_rotations(im, cosines, sines, &rotations));
    return turn_pairs(im, x, pairs, rotations, turned);
}

/* ---- as exporters spell it ---------------------------------------------------------------------
 */

/* Where the last dimension of a slice begins in what it is cut from, whole otherwise; -1: it is
   none. */
static int64_t begin_of_slice(const cleave_importer *im, int32_t tensor, int32_t *source) {
    const cleave_tensor *at = &im->tensors.items[tensor].tensor;
    if (at->view.kind != CLEAVE_VIEW_SLICE || at->view.step[at->rank - 1] != 1)
        return -1;
    *source = at->view.sources[0];
    for (int d = 0; d < at->rank - 1; d++)
        if (at->shape[d] != im->tensors.items[*source].tensor.shape[d])
            return -1;
    return at->view.begin[at->rank - 1];
}

/* x and what is behind it: the tensor that both are cut from, else one that joins them. */
static cleave_status join_rest(cleave_importer *im, int32_t x, int32_t rest, int32_t *whole) {
    int32_t from = -1, of = -1, both[] = {x, rest};
    const cleave_tensor *first = &im->tensors.items[x].tensor,
                        *second = &im->tensors.items[rest].tensor;
    int last = first->rank - 1;
    int64_t begin = begin_of_slice(im, x, &from), behind = begin_of_slice(im, rest, &of);
    if (begin == 0 && from == of && behind == first->shape[last] &&
        im->tensors.items[from].tensor.shape[last] == behind + second->shape[last]) {
        *whole = from;
        return CLEAVE_OK;
    }
    const char *name = cleave_arena_printf(im->arena, "%s.whole", im->node->outputs[0]);
    return name == NULL ? cleave_import_no_memory(im)
                        : cleave_import_join(im, name, 2, both, last, whole);
}

static cleave_status check_part(cleave_importer *im, const cleave_tensor *part,
                                const cleave_tensor *x) {
    bool same = part->rank == x->rank && x->rank > 0;
    for (int d = 0; same && d < x->rank - 1; d++)
        same = part->shape[d] == x->shape[d];
    return same
               ? CLEAVE_OK
               : cleave_import_fail(im, "%s is no part of what is turned, %s", part->name, x->name);
}

/* Inputs: x, cosines, sines, right, left, and perhaps the rest. */
cleave_status cleave_import_turned(cleave_importer *im) {
    int32_t x, parts[3];
    turn t = {.cosine = 1, .sine = 2};
    int n = im->node->n_inputs - 3;
    CLEAVE_TRY(cleave_import_tensor(im, 0, &x));
    for (int i = 0; i < n; i++) {
        CLEAVE_TRY(cleave_import_tensor(im, 3 + i, &parts[i]));
        CLEAVE_TRY(
            check_part(im, &im->tensors.items[parts[i]].tensor, &im->tensors.items[x].tensor));
    }
    int last = im->tensors.items[x].tensor.rank - 1;
    t.turned = im->tensors.items[x].tensor.shape[last];
    t.negative = im->tensors.items[parts[0]].tensor.shape[last];
    if (t.negative + im->tensors.items[parts[1]].tensor.shape[last] != t.turned)
        return cleave_import_fail(im, "its halves are not all of what is turned");
    t.whole = x;
    int32_t both[] = {-1, parts[n - 1]};
    CLEAVE_TRY(turn_neighbours(im, x, &t, &both[0]));
    if (both[0] >= 0 && n == 3)
        CLEAVE_TRY(cleave_import_join(im, im->node->outputs[0], 2, both, last, &both[0]));
    if (both[0] >= 0) {
        cleave_import_set_output(im, 0, both[0], false);
        return CLEAVE_OK;
    }
    if (n == 3)
        CLEAVE_TRY(join_rest(im, x, parts[2], &t.whole));
    const char *name = cleave_arena_printf(im->arena, "%s.exchanged", im->node->outputs[0]);
    if (name == NULL)
        return cleave_import_no_memory(im);
    CLEAVE_TRY(cleave_import_join(im, name, n, parts, last, &t.exchanged));
    return import_turn(im, &t);
}
