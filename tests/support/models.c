/* Small models built by hand. */
#include "models.h"

#include "graph/import/import.h"
#include "graph/model/attention.h"
#include "graph/model/gather.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const hand_model_names[N_MODELS] = {"mlp",       "cnn",       "tied",
                                                "recurrent", "embedding", "experts"};

typedef struct draft {
    cleave_arena *arena;
    cleave_model *model;
} draft;

static int32_t tensor(draft *d, cleave_tensor_kind kind, cleave_type type, const char *name,
                      int rank, ...) {
    cleave_tensor *t = &d->model->tensors[d->model->n_tensors];
    *t = (cleave_tensor){.name = name, .kind = kind, .type = type, .rank = rank, .file_rank = rank};
    va_list shape;
    va_start(shape, rank);
    for (int i = 0; i < rank; i++) {
        t->shape[i] = t->file_shape[i] = va_arg(shape, int);
        t->order[i] = i;
    }
    va_end(shape);
    if (rank == 4 && kind == CLEAVE_TENSOR_ACTIVATION) { /* channels last */
        t->order[1] = 2;
        t->order[2] = 3;
        t->order[3] = 1;
    }
    return d->model->n_tensors++;
}

static int32_t param(draft *d, const char *name, int rank, int a, int b, int c, int e,
                     int64_t fan_in) {
    int32_t id = tensor(d, CLEAVE_TENSOR_PARAMETER, CLEAVE_F32, name, rank, a, b, c, e);
    d->model->tensors[id].fan_in = fan_in;
    d->model->tensors[id].initial_value = 1;
    return id;
}

static int32_t like(draft *d, const char *name, int32_t other) {
    cleave_tensor copy = d->model->tensors[other];
    copy.name = name;
    copy.kind = CLEAVE_TENSOR_ACTIVATION;
    copy.view = (cleave_view){0};
    d->model->tensors[d->model->n_tensors] = copy;
    return d->model->n_tensors++;
}

static const char *join(draft *d, const char *a, const char *b) {
    return cleave_arena_printf(d->arena, "%s%s", a, b);
}

/* A map by axes' letters, one word a dimension: "n k", "2h+r-1", "=1" is a constant offset. */
static cleave_operand operand(const cleave_nest *nest, int32_t id, const char *text) {
    cleave_operand result = {.tensor = id};
    int dimension = -1;
    int64_t number = 0;
    bool fresh = true, negative = false, constant = false;
    for (const char *c = text; *text != '\0'; c++) {
        if (fresh) {
            dimension++;
            fresh = false;
            number = 0;
            negative = constant = false;
        }
        cleave_dimension_map *map = &result.map[dimension];
        if (*c >= '0' && *c <= '9') {
            number = number * 10 + (*c - '0');
        } else if (*c == '-' || *c == '+' || *c == ' ' || *c == '\0') {
            if (number != 0 || constant)
                map->offset += negative ? -number : number;
            number = 0;
            negative = *c == '-';
            if (*c == ' ')
                fresh = true;
            if (*c == '\0')
                break;
        } else if (*c == '=') {
            constant = true;
        } else {
            for (int a = 0; a < nest->n_axes; a++)
                if (nest->axes[a].name[0] == *c) {
                    map->terms[map->n_terms].axis = a;
                    map->terms[map->n_terms++].stride = number == 0 ? 1 : number;
                }
            number = 0;
        }
    }
    return result;
}

static int32_t add_operator(draft *d, const char *name, const char *type) {
    cleave_operator *op = &d->model->operators[d->model->n_operators];
    *op = (cleave_operator){
        .name = name, .type = type, .nests = CLEAVE_ARENA_ARRAY(d->arena, int32_t, 8)};
    return d->model->n_operators++;
}

/* axes: letters; a capital letter is a whole axis. */
static cleave_nest *add_nest(draft *d, int32_t op, const char *name, cleave_nest_kind kind,
                             const char *axes, ...) {
    cleave_nest *nest = &d->model->nests[d->model->n_nests];
    *nest = (cleave_nest){.name = name, .kind = kind, .op = op};
    va_list extents;
    va_start(extents, axes);
    cleave_operator *of = &d->model->operators[op];
    for (const char *c = axes; *c != '\0'; c++) {
        bool whole = *c >= 'A' && *c <= 'Z';
        char letter = (char)(whole ? *c + 32 : *c);
        cleave_axis axis = {cleave_arena_printf(d->arena, "%c", letter), va_arg(extents, int),
                            whole};
        nest->axes[nest->n_axes] = axis;
        int at = 0;
        while (at < of->n_axes && of->axes[at].name[0] != letter)
            at++;
        if (at == of->n_axes && of->n_nests == 0) {
            of->roles[of->n_axes] = "sample";
            of->axes[of->n_axes++] = axis;
        }
        nest->operator_axis[nest->n_axes++] = at < of->n_axes ? at : -1;
    }
    va_end(extents);
    ((int32_t *)(uintptr_t)of->nests)[of->n_nests++] = d->model->n_nests++;
    return nest;
}

static void input(cleave_nest *nest, int32_t id, const char *map) {
    nest->inputs[nest->n_inputs++] = operand(nest, id, map);
}

static void output(cleave_nest *nest, int32_t id, const char *map, cleave_combiner combiner) {
    nest->output = operand(nest, id, map);
    nest->combiner = combiner;
}

static int step(cleave_nest *nest, cleave_opcode opcode, int a, int b, double p, double q) {
    nest->tape[nest->n_instructions] = (cleave_instruction){opcode, a, b, p, q};
    return nest->n_inputs + nest->n_instructions++;
}

static int extent(const draft *d, int32_t id, int dimension) {
    return (int)d->model->tensors[id].shape[dimension];
}

/* bias (-1: none) and ReLU on the owners of a sum. */
static int32_t epilogue(draft *d, int32_t op, const char *name, int32_t main_nest, int32_t z,
                        const char *letters, int32_t bias) {
    int32_t y = like(d, name, z);
    int rank = d->model->tensors[z].rank;
    cleave_nest *nest = &d->model->nests[d->model->n_nests];
    *nest = (cleave_nest){.name = join(d, name, ".epilogue"),
                          .kind = CLEAVE_NEST_POINTWISE,
                          .op = op,
                          .derivation = CLEAVE_DERIVE_OWNERS,
                          .owners_of = main_nest,
                          .n_axes = rank};
    char map[32] = "";
    for (int i = 0; i < rank; i++) {
        nest->axes[i] =
            (cleave_axis){cleave_arena_printf(d->arena, "%c", letters[i]), extent(d, z, i), false};
        snprintf(map + 2 * i, sizeof map - 2 * (size_t)i, "%c%s", letters[i],
                 i + 1 < rank ? " " : "");
    }
    input(nest, z, map);
    if (bias >= 0)
        input(nest, bias, "k");
    output(nest, y, map, CLEAVE_COMBINE_NONE);
    int value = bias >= 0 ? step(nest, CLEAVE_OP_ADD, 0, 1, 0, 0) : 0;
    step(nest, CLEAVE_OP_RELU, value, 0, 0, 0);
    cleave_operator *of = &d->model->operators[op];
    ((int32_t *)(uintptr_t)of->nests)[of->n_nests++] = d->model->n_nests++;
    return y;
}

static int32_t dense(draft *d, const char *name, int32_t x, int32_t w, int32_t bias, bool relu) {
    int32_t op = add_operator(d, name, "Gemm");
    bool convolved = d->model->tensors[x].rank == 4; /* sums over the refined features c h w */
    int n = extent(d, x, 0), k = extent(d, w, 0);
    int32_t z =
        tensor(d, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, relu ? join(d, name, ".z") : name, 2, n, k);
    cleave_nest *nest =
        convolved ? add_nest(d, op, name, CLEAVE_NEST_PRODUCT, "nkchw", n, k, extent(d, x, 1),
                             extent(d, x, 2), extent(d, x, 3))
                  : add_nest(d, op, name, CLEAVE_NEST_PRODUCT, "nkc", n, k, extent(d, x, 1));
    input(nest, x, convolved ? "n c h w" : "n c");
    input(nest, w, convolved ? "k c h w" : "k c");
    output(nest, z, "n k", CLEAVE_COMBINE_SUM);
    step(nest, CLEAVE_OP_MUL, 0, 1, 0, 0);
    int32_t main_nest = d->model->n_nests - 1;
    d->model->operators[op].main_nest = main_nest;
    return relu ? epilogue(d, op, name, main_nest, z, "nk", bias) : z;
}

static int32_t convolution(draft *d, const char *name, int32_t x, int32_t w, int32_t bias,
                           int stride, int pad, bool relu) {
    int32_t op = add_operator(d, name, "Conv");
    int r = extent(d, w, 2), h = (extent(d, x, 2) + 2 * pad - r) / stride + 1,
        v = (extent(d, x, 3) + 2 * pad - r) / stride + 1, n = extent(d, x, 0), k = extent(d, w, 0);
    int32_t z = tensor(d, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, relu ? join(d, name, ".z") : name,
                       4, n, k, h, v);
    cleave_nest *nest = add_nest(d, op, name, CLEAVE_NEST_CONVOLUTION, "nkhwcRS", n, k, h, v,
                                 extent(d, x, 1), r, r);
    char map[64];
    snprintf(map, sizeof map, "n c %dh+r-%d %dw+s-%d", stride, pad, stride, pad);
    input(nest, x, map);
    input(nest, w, "k c r s");
    output(nest, z, "n k h w", CLEAVE_COMBINE_SUM);
    step(nest, CLEAVE_OP_MUL, 0, 1, 0, 0);
    int32_t main_nest = d->model->n_nests - 1;
    d->model->operators[op].main_nest = main_nest;
    return relu ? epilogue(d, op, name, main_nest, z, "nkhw", bias) : z;
}

static int32_t max_pool(draft *d, const char *name, int32_t x) {
    int32_t op = add_operator(d, name, "MaxPool");
    int h = (extent(d, x, 2) - 1) / 2 + 1, w = (extent(d, x, 3) - 1) / 2 + 1;
    int32_t y = tensor(d, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, name, 4, extent(d, x, 0),
                       extent(d, x, 1), h, w);
    cleave_nest *nest = add_nest(d, op, name, CLEAVE_NEST_POOL, "nchwRS", extent(d, x, 0),
                                 extent(d, x, 1), h, w, 3, 3);
    input(nest, x, "n c 2h+r-1 2w+s-1");
    output(nest, y, "n c h w", CLEAVE_COMBINE_MAX);
    step(nest, CLEAVE_OP_COPY, 0, 0, 0, 0);
    d->model->operators[op].main_nest = d->model->n_nests - 1;
    return y;
}

static int32_t batch_norm(draft *d, const char *name, int32_t x) {
    int32_t op = add_operator(d, name, "BatchNormalization");
    int n = extent(d, x, 0), c = extent(d, x, 1), h = extent(d, x, 2), w = extent(d, x, 3),
        count = n * h * w;
    int32_t scale = param(d, join(d, name, ".scale"), 1, c, 0, 0, 0, 3);
    int32_t shift = param(d, join(d, name, ".shift"), 1, c, 0, 0, 0, 3);
    int32_t running = tensor(d, CLEAVE_TENSOR_BUFFER, CLEAVE_F32, join(d, name, ".running"), 1, c);
    int32_t statistics =
        tensor(d, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, join(d, name, ".statistics"), 2, 3, c);
    int32_t next = tensor(d, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, join(d, name, ".next"), 1, c);
    int32_t y = like(d, name, x);
    cleave_nest *nest =
        add_nest(d, op, join(d, name, ".moments"), CLEAVE_NEST_MOMENTS, "nchw", n, c, h, w);
    input(nest, x, "n c h w");
    output(nest, statistics, "=0 c", CLEAVE_COMBINE_MOMENTS);
    nest->output.map[0] = (cleave_dimension_map){0};
    nest->axes[nest->n_axes] = (cleave_axis){"q", 3, true}; /* the record, whole */
    nest->operator_axis[nest->n_axes] = -1;
    nest->output.map[0].n_terms = 1;
    nest->output.map[0].terms[0].axis = nest->n_axes++;
    nest->output.map[0].terms[0].stride = 1;
    step(nest, CLEAVE_OP_COPY, 0, 0, 0, 0);
    nest = add_nest(d, op, join(d, name, ".run"), CLEAVE_NEST_POINTWISE, "c", c);
    input(nest, running, "c");
    input(nest, statistics, "=1 c");
    output(nest, next, "c", CLEAVE_COMBINE_NONE);
    int old = step(nest, CLEAVE_OP_SCALE, 0, 0, 0.9, 0),
        mean = step(nest, CLEAVE_OP_SCALE, 1, 0, 0.1, 0);
    step(nest, CLEAVE_OP_ADD, old, mean, 0, 0);
    nest = add_nest(d, op, name, CLEAVE_NEST_POINTWISE, "nchw", n, c, h, w);
    input(nest, x, "n c h w");
    input(nest, statistics, "=1 c");
    input(nest, statistics, "=2 c");
    input(nest, scale, "c");
    input(nest, shift, "c");
    output(nest, y, "n c h w", CLEAVE_COMBINE_NONE);
    int difference = step(nest, CLEAVE_OP_SUB, 0, 1, 0, 0);
    int variance = step(nest, CLEAVE_OP_SCALE, 2, 0, 1.0 / count, 1e-5);
    int inverse = step(nest, CLEAVE_OP_RSQRT, variance, 0, 0, 0);
    int normal = step(nest, CLEAVE_OP_MUL, difference, inverse, 0, 0);
    int scaled = step(nest, CLEAVE_OP_MUL, normal, 3, 0, 0);
    step(nest, CLEAVE_OP_ADD, scaled, 4, 0, 0);
    d->model->operators[op].main_nest = d->model->n_nests - 1;
    d->model->assignments[d->model->n_assignments++] = (cleave_assignment){running, next};
    return y;
}

static int32_t add(draft *d, const char *name, int32_t a, int32_t b) {
    int32_t op = add_operator(d, name, "Add");
    int32_t y = like(d, name, a);
    cleave_nest *nest = add_nest(d, op, name, CLEAVE_NEST_POINTWISE, "nchw", extent(d, a, 0),
                                 extent(d, a, 1), extent(d, a, 2), extent(d, a, 3));
    input(nest, a, "n c h w");
    input(nest, b, "n c h w");
    output(nest, y, "n c h w", CLEAVE_COMBINE_NONE);
    int sum = step(nest, CLEAVE_OP_ADD, 0, 1, 0, 0);
    step(nest, CLEAVE_OP_TANH, sum, 0, 0, 0);
    d->model->operators[op].main_nest = d->model->n_nests - 1;
    return y;
}

static int32_t view(draft *d, const char *name, cleave_view_kind kind, int32_t a, int32_t b) {
    int32_t y = like(d, name, a);
    cleave_view *of = &d->model->tensors[y].view;
    int32_t *sources = CLEAVE_ARENA_ARRAY(d->arena, int32_t, 2);
    sources[0] = a;
    sources[1] = b;
    *of = (cleave_view){.kind = kind, .n_sources = b >= 0 ? 2 : 1, .sources = sources};
    for (int i = 0; i < CLEAVE_MAX_RANK; i++) {
        of->step[i] = 1;
        of->permutation[i] = i;
    }
    return y;
}

static void shape2(draft *d, int32_t id, int a, int b) {
    cleave_tensor *t = &d->model->tensors[id];
    t->rank = t->file_rank = 2;
    t->shape[0] = t->file_shape[0] = a;
    t->shape[1] = t->file_shape[1] = b;
    t->order[0] = 0;
    t->order[1] = 1;
}

/* Mean softmax cross-entropy of [n, v] or [n, t, v]. */
static void cross_entropy(draft *d, int32_t z) {
    int rank = d->model->tensors[z].rank, n = extent(d, z, 0), t = rank == 3 ? extent(d, z, 1) : 1,
        v = extent(d, z, rank - 1);
    const char *map = rank == 3 ? "n t v" : "n v", *lead = rank == 3 ? "n t" : "n";
    int32_t op = add_operator(d, "@loss", "loss");
    int32_t targets = tensor(d, CLEAVE_TENSOR_DATA, CLEAVE_I64, "targets", rank - 1, n, t);
    d->model->tensors[targets].below = v;
    int32_t most = tensor(d, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, "@loss.max", rank - 1, n, t);
    int32_t sum = tensor(d, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, "@loss.sum", rank - 1, n, t);
    int32_t target =
        tensor(d, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, "@loss.target", rank - 1, n, t);
    int32_t loss = tensor(d, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, "loss", 0);
    const char *axes = rank == 3 ? "ntv" : "nv";
    int e[3] = {n, rank == 3 ? t : v, v};
    cleave_nest *nest = add_nest(d, op, "@loss.max", CLEAVE_NEST_REDUCE, axes, e[0], e[1], e[2]);
    input(nest, z, map);
    output(nest, most, lead, CLEAVE_COMBINE_MAX);
    step(nest, CLEAVE_OP_COPY, 0, 0, 0, 0);
    nest = add_nest(d, op, "@loss.sum", CLEAVE_NEST_REDUCE, axes, e[0], e[1], e[2]);
    input(nest, z, map);
    input(nest, most, lead);
    output(nest, sum, lead, CLEAVE_COMBINE_SUM);
    int difference = step(nest, CLEAVE_OP_SUB, 0, 1, 0, 0);
    step(nest, CLEAVE_OP_EXP, difference, 0, 0, 0);
    int32_t sum_nest = d->model->n_nests - 1;
    nest = add_nest(d, op, "@loss.target", CLEAVE_NEST_REDUCE, axes, e[0], e[1], e[2]);
    input(nest, z, map);
    input(nest, targets, lead);
    output(nest, target, lead, CLEAVE_COMBINE_SUM);
    int index = step(nest, CLEAVE_OP_INDEX, rank - 1, 0, 0, 0);
    int equal = step(nest, CLEAVE_OP_EQUAL, index, 1, 0, 0);
    step(nest, CLEAVE_OP_MUL, 0, equal, 0, 0);
    nest = &d->model->nests[d->model->n_nests++];
    *nest = (cleave_nest){.name = "@loss",
                          .kind = CLEAVE_NEST_REDUCE,
                          .op = op,
                          .derivation = CLEAVE_DERIVE_OWNERS,
                          .owners_of = sum_nest,
                          .n_axes = rank - 1};
    nest->axes[0] = (cleave_axis){"n", n, false};
    nest->axes[1] = (cleave_axis){"t", t, false};
    input(nest, sum, lead);
    input(nest, most, lead);
    input(nest, target, lead);
    output(nest, loss, "", CLEAVE_COMBINE_SUM);
    int log = step(nest, CLEAVE_OP_LOG, 0, 0, 0, 0), plus = step(nest, CLEAVE_OP_ADD, log, 1, 0, 0);
    int minus = step(nest, CLEAVE_OP_SUB, plus, 2, 0, 0);
    step(nest, CLEAVE_OP_SCALE, minus, 0, 1.0 / (n * t), 0);
    cleave_operator *of = &d->model->operators[op];
    ((int32_t *)(uintptr_t)of->nests)[of->n_nests++] = d->model->n_nests - 1;
    of->main_nest = d->model->n_nests - 1;
    d->model->loss = loss;
    d->model->targets = targets;
    d->model->outputs[d->model->n_outputs++] = z;
}

static void build_mlp(draft *d) {
    int32_t x = tensor(d, CLEAVE_TENSOR_DATA, CLEAVE_F32, "x", 2, 7, 9);
    int32_t y = dense(d, "g1", x, param(d, "w1", 2, 10, 9, 0, 0, 9),
                      param(d, "b1", 1, 10, 0, 0, 0, 9), true);
    y = dense(d, "g2", y, param(d, "w2", 2, 8, 10, 0, 0, 10), param(d, "b2", 1, 8, 0, 0, 0, 10),
              true);
    cross_entropy(d, dense(d, "g3", y, param(d, "w3", 2, 11, 8, 0, 0, 8), -1, false));
}

static void build_cnn(draft *d) {
    int32_t x = tensor(d, CLEAVE_TENSOR_DATA, CLEAVE_F32, "x", 4, 5, 3, 13, 11);
    int32_t y = convolution(d, "c1", x, param(d, "cw1", 4, 6, 3, 3, 3, 27),
                            param(d, "cb1", 1, 6, 0, 0, 0, 27), 2, 1, true); /* 7 x 6 */
    y = batch_norm(d, "bn", y);
    y = max_pool(d, "mp", y); /* 4 x 3 */
    int32_t z = convolution(d, "c2", y, param(d, "cw2", 4, 6, 6, 3, 3, 54), -1, 1, 1, true);
    y = add(d, "add", y, z);
    int32_t a =
        convolution(d, "c3", y, param(d, "cw3", 4, 4, 6, 3, 3, 54), -1, 2, 1, false); /* 2 x 2 */
    /* Padding of 2: a row of windows sees nothing but padding.  Then a stride of 3 leaves rows
     * unread. */
    int32_t e =
        convolution(d, "c4", y, param(d, "cw4", 4, 5, 6, 3, 3, 54), -1, 1, 2, false); /* 6 x 5 */
    int32_t b =
        convolution(d, "c5", e, param(d, "cw5", 4, 3, 5, 1, 1, 5), -1, 3, 0, false); /* 2 x 2 */
    int32_t both = view(d, "cat", CLEAVE_VIEW_CONCAT, a, b);
    d->model->tensors[both].view.axis = 1;
    d->model->tensors[both].shape[1] = d->model->tensors[both].file_shape[1] = 7;
    int32_t w = param(d, "fw", 4, 7, 7, 2, 2, 28);
    int order[] = {0, 2, 3, 1};
    memcpy(d->model->tensors[w].order, order, sizeof order);
    cross_entropy(d, dense(d, "fc", both, w, -1, false));
}

/* Parameters used twice, directly and transposed; reshaped, sliced and padded activations. */
static void build_tied(draft *d) {
    int32_t x = tensor(d, CLEAVE_TENSOR_DATA, CLEAVE_F32, "x", 4, 6, 2, 4, 3);
    int32_t y = convolution(d, "c1", x, param(d, "cw1", 4, 4, 2, 3, 3, 18),
                            param(d, "cb1", 1, 4, 0, 0, 0, 18), 1, 1, true); /* 6 4 4 3 */
    int32_t flat = view(d, "flat", CLEAVE_VIEW_RESHAPE, y, -1);
    shape2(d, flat, 6, 48);
    int32_t slice = view(d, "slice", CLEAVE_VIEW_SLICE, flat, -1);
    shape2(d, slice, 6, 20);
    d->model->tensors[slice].view.begin[1] = 5;
    d->model->tensors[slice].view.step[1] = 2;
    int32_t padded = view(d, "padded", CLEAVE_VIEW_PAD, slice, -1);
    shape2(d, padded, 6, 24);
    d->model->tensors[padded].view.begin[1] = 3;
    d->model->tensors[padded].view.fill = 0.5f;
    int32_t w = param(d, "w", 2, 24, 24, 0, 0, 24);
    y = dense(d, "g1", padded, w, -1, false);
    int32_t transposed = view(d, "wt", CLEAVE_VIEW_TRANSPOSE, w, -1);
    d->model->tensors[transposed].view.permutation[0] = 1;
    d->model->tensors[transposed].view.permutation[1] = 0;
    y = dense(d, "g2", y, transposed, param(d, "b2", 1, 24, 0, 0, 0, 24), true);
    int32_t shaped = view(d, "shaped", CLEAVE_VIEW_RESHAPE, y, -1);
    shape2(d, shaped, 12, 12);
    cross_entropy(d, dense(d, "g3", shaped, param(d, "w3", 2, 5, 12, 0, 0, 12), -1, false));
}

/* Four steps with one weight, which is two parameters one above the other: their gradients may add
   up where they arise.  One of the steps reads the weight transposed. */
static void build_recurrent(draft *d) {
    int32_t x = tensor(d, CLEAVE_TENSOR_DATA, CLEAVE_F32, "x", 2, 6, 8);
    int32_t upper = param(d, "upper", 2, 3, 8, 0, 0, 8),
            lower = param(d, "lower", 2, 5, 8, 0, 0, 8);
    int32_t w = view(d, "w", CLEAVE_VIEW_CONCAT, upper, lower);
    shape2(d, w, 8, 8);
    int32_t transposed = view(d, "wt", CLEAVE_VIEW_TRANSPOSE, w, -1);
    d->model->tensors[transposed].view.permutation[0] = 1;
    d->model->tensors[transposed].view.permutation[1] = 0;
    int32_t bias = param(d, "b", 1, 8, 0, 0, 0, 8);
    int32_t y = dense(d, "step1", x, w, bias, true);
    y = dense(d, "step2", y, w, bias, true);
    y = dense(d, "step3", y, transposed, bias, true);
    y = dense(d, "step4", y, w, bias, true);
    cross_entropy(d, dense(d, "head", y, param(d, "wh", 2, 5, 8, 0, 0, 8), -1, false));
}

static int32_t look_up(draft *d, const char *name, int32_t ids, const char *ids_map, int32_t table,
                       const char *table_map, int v) {
    int32_t op = add_operator(d, name, "Gather");
    int32_t y = tensor(d, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, name, 3, 6, 4, 8);
    cleave_nest *nest = add_nest(d, op, name, CLEAVE_NEST_GATHER, "ntkv", 6, 4, 8, v);
    input(nest, ids, ids_map);
    input(nest, table, table_map);
    output(nest, y, "n t k", CLEAVE_COMBINE_SUM);
    cleave_gather_emit(nest, 3);
    d->model->operators[op].main_nest = d->model->n_nests - 1;
    return y;
}

/* z[n, t, k] = sum over c of x[n, t, c] w[k, c]. */
static int32_t dense_steps(draft *d, const char *name, int32_t x, int32_t w, bool relu) {
    int k = extent(d, w, 0);
    int32_t op = add_operator(d, name, "Gemm"), main_nest = d->model->n_nests;
    int32_t z = tensor(d, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, join(d, name, ".z"), 3, 6, 4, k);
    cleave_nest *nest = add_nest(d, op, name, CLEAVE_NEST_PRODUCT, "ntkc", 6, 4, k, 8);
    input(nest, x, "n t c");
    input(nest, w, "k c");
    output(nest, z, "n t k", CLEAVE_COMBINE_SUM);
    step(nest, CLEAVE_OP_MUL, 0, 1, 0, 0);
    d->model->operators[op].main_nest = main_nest;
    return relu ? epilogue(d, op, name, main_nest, z, "ntk", -1) : z;
}

/* An embedding whose table is the head's weight too, steps taken in another order by constant ids,
   and one of them twice. */
static void build_embedding(draft *d) {
    static const int64_t order[4] = {3, 1, -3, 0};
    int32_t ids = tensor(d, CLEAVE_TENSOR_DATA, CLEAVE_I64, "ids", 2, 6, 4);
    d->model->tensors[ids].below = 11;
    int32_t constant = tensor(d, CLEAVE_TENSOR_CONSTANT, CLEAVE_I64, "order", 1, 4);
    d->model->tensors[constant].value = order;
    int32_t table = param(d, "table", 2, 11, 8, 0, 0, 8);
    int32_t y = look_up(d, "embedding", ids, "n t", table, "v k", 11);
    y = dense_steps(d, "g1", y, param(d, "w1", 2, 8, 8, 0, 0, 8), true);
    y = look_up(d, "reorder", constant, "t", y, "n v k", 4);
    cross_entropy(d, dense_steps(d, "head", y, table, false));
}

/* A block of Mixtral: two heads share keys, every token goes to one of two experts. */
static bool import_experts(cleave_arena *arena, cleave_model *model, cleave_error *error) {
    static const char config[] =
        "{\"model_type\": \"mixtral\", \"vocab_size\": 11, \"hidden_size\": 8,"
        "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"num_key_value_heads\": 1,"
        "\"intermediate_size\": 6, \"max_position_embeddings\": 8, \"num_local_experts\": 2,"
        "\"num_experts_per_tok\": 1}";
    const cleave_import_request request = {.file = hand_model_names[MODEL_EXPERTS],
                                           .data = config,
                                           .bytes = strlen(config),
                                           .batch = 8,
                                           .sequence = 6,
                                           .with_loss = true};
    return cleave_model_import_as(&request, arena, model, error) == CLEAVE_OK &&
           cleave_model_fuse_attention(model, NULL, arena, model, error) == CLEAVE_OK;
}

bool hand_model(int which, cleave_arena *arena, cleave_model *model, cleave_error *error) {
    if (which == MODEL_EXPERTS)
        return import_experts(arena, model, error);
    *model = (cleave_model){.file = hand_model_names[which],
                            .loss = -1,
                            .targets = -1,
                            .arena = arena,
                            .graph_version = CLEAVE_GRAPH_VERSION};
    model->tensors = CLEAVE_ARENA_ARRAY(arena, cleave_tensor, 64);
    model->nests = CLEAVE_ARENA_ARRAY(arena, cleave_nest, 64);
    model->operators = CLEAVE_ARENA_ARRAY(arena, cleave_operator, 32);
    model->assignments = CLEAVE_ARENA_ARRAY(arena, cleave_assignment, 8);
    model->outputs = CLEAVE_ARENA_ARRAY(arena, int32_t, 4);
    draft d = {arena, model};
    static void (*const build[MODEL_EXPERTS])(draft *) = {build_mlp, build_cnn, build_tied,
                                                          build_recurrent, build_embedding};
    build[which](&d);
    return cleave_model_finish(model, error) == CLEAVE_OK;
}
