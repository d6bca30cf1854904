#include "graph/import/config/compose_layers.h"

#include <math.h>
#include <string.h>

static const char *part(cleave_composer *c, const char *scope, const char *what) {
    return scope != NULL ? cleave_compose_name(c, "%s.%s", scope, what) : NULL;
}

static const char *vector(cleave_composer *c, const char *scope, const char *what, int64_t n) {
    return cleave_compose_parameter(c, part(c, scope, what), 1, &n);
}

static const char *matrix(cleave_composer *c, const char *scope, int64_t rows, int64_t columns) {
    return cleave_compose_parameter(c, part(c, scope, "weight"), 2, (int64_t[]){rows, columns});
}

/* ---- products -------------------------------------------------------------------------------- */

static const char *add_bias(cleave_composer *c, const char *scope, const char *product, int64_t n) {
    return CLEAVE_COMPOSE(c, "Add", part(c, scope, "biased"), product, vector(c, scope, "bias", n));
}

const char *cleave_compose_tied(cleave_composer *c, const char *name, const char *x,
                                const char *weight) {
    const char *turned =
        cleave_compose_transpose(c, part(c, name, "transposed"), weight, 2, (int64_t[]){1, 0});
    return CLEAVE_COMPOSE(c, "MatMul", name, x, turned);
}

const char *cleave_compose_linear(cleave_composer *c, const char *scope, const char *x,
                                  int64_t n_in, int64_t n_out, bool bias) {
    const char *y = cleave_compose_tied(c, scope, x, matrix(c, scope, n_out, n_in));
    return bias ? add_bias(c, scope, y, n_out) : y;
}

const char *cleave_compose_conv1d(cleave_composer *c, const char *scope, const char *x,
                                  int64_t n_in, int64_t n_out) {
    const char *y = CLEAVE_COMPOSE(c, "MatMul", scope, x, matrix(c, scope, n_in, n_out));
    return add_bias(c, scope, y, n_out);
}

/* ---- normalisation --------------------------------------------------------------------------- */

/* Ones, where a norm has no weight. */
static const char *ones(cleave_composer *c, const char *scope, int64_t width) {
    float *values = CLEAVE_ARENA_ARRAY(c->arena, float, width);
    c->failed = c->failed || values == NULL;
    for (int64_t i = 0; values != NULL && i < width; i++)
        values[i] = 1;
    return cleave_compose_floats(c, part(c, scope, "ones"), 1, &width, values);
}

static const char *norm_weight(cleave_composer *c, const char *scope, int64_t width,
                               cleave_norm norm) {
    if (norm == CLEAVE_NORM_RMS_BARE || norm == CLEAVE_NORM_LAYER_BARE)
        return ones(c, scope, width);
    const char *weight = vector(c, scope, "weight", width);
    return norm == CLEAVE_NORM_RMS_PLUS_ONE || norm == CLEAVE_NORM_LAYER_PLUS_ONE
               ? CLEAVE_COMPOSE(c, "Add", part(c, scope, "factor"), weight,
                                cleave_compose_scalar(c, part(c, scope, "one"), 1))
               : weight;
}

static const char *rms_norm(cleave_composer *c, const char *scope, const char *x, int64_t width,
                            double epsilon, cleave_norm norm) {
    const int64_t one = 1;
    static const int64_t last = -1;
    const char *two = cleave_compose_scalar(c, part(c, scope, "two"), 2);
    const char *square = CLEAVE_COMPOSE(c, "Pow", part(c, scope, "square"), x, two);
    const char *axes = cleave_compose_ids(c, part(c, scope, "axes"), 1, &one, &last);
    const char *mean = CLEAVE_COMPOSE(c, "ReduceMean", part(c, scope, "mean"), square, axes);
    cleave_compose_integer(c, "keepdims", 1);
    const char *small = cleave_compose_scalar(c, part(c, scope, "epsilon"), epsilon);
    const char *sum = CLEAVE_COMPOSE(c, "Add", part(c, scope, "variance"), mean, small);
    const char *root = CLEAVE_COMPOSE(c, "Sqrt", part(c, scope, "root"), sum);
    const char *inverse = CLEAVE_COMPOSE(c, "Reciprocal", part(c, scope, "inverse"), root);
    const char *normal = CLEAVE_COMPOSE(c, "Mul", part(c, scope, "normal"), x, inverse);
    return CLEAVE_COMPOSE(c, "Mul", scope, normal, norm_weight(c, scope, width, norm));
}

const char *cleave_compose_norm(cleave_composer *c, const char *scope, const char *x, int64_t width,
                                double epsilon, cleave_norm norm) {
    if (norm == CLEAVE_NORM_RMS || norm == CLEAVE_NORM_RMS_BARE || norm == CLEAVE_NORM_RMS_PLUS_ONE)
        return rms_norm(c, scope, x, width, epsilon, norm);
    const char *weight = norm_weight(c, scope, width, norm);
    const bool is_biased = norm != CLEAVE_NORM_LAYER_UNBIASED && norm != CLEAVE_NORM_LAYER_BARE;
    const char *bias = is_biased ? vector(c, scope, "bias", width) : NULL;
    const char *y = CLEAVE_COMPOSE(c, "LayerNormalization", scope, x, weight, bias);
    cleave_compose_number(c, "epsilon", epsilon);
    return y;
}

/* ---- tables ---------------------------------------------------------------------------------- */

const char *cleave_compose_embedding(cleave_composer *c, const char *scope, const char *ids,
                                     int64_t rows, int64_t width, const char **weight) {
    const char *table = matrix(c, scope, rows, width);
    if (weight != NULL)
        *weight = table;
    return CLEAVE_COMPOSE(c, "Gather", scope, table, ids);
}

const char *cleave_compose_rows(cleave_composer *c, const char *scope, int64_t rows, int64_t width,
                                int64_t first, int64_t length) {
    const char *table = matrix(c, scope, rows, width);
    return length < rows
               ? cleave_compose_slice(c, part(c, scope, "used"), table, 0, first, first + length)
               : table;
}

/* ---- functions ------------------------------------------------------------------------------- */

const cleave_activation *cleave_activation_find(const char *name) {
    static const cleave_activation table[] = {
        {"gelu", "Gelu", "none", 0},
        {"gelu_fast", "Gelu", "tanh", 0},
        {"gelu_new", "Gelu", "tanh", 0},
        {"gelu_python", "Gelu", "none", 0},
        {"gelu_pytorch_tanh", "Gelu", "tanh", 0},
        {"mish", "Mish", "", 0},
        {"quick_gelu", "Swish", "", 1.702},
        {"relu", "Relu", "", 0},
        {"relu2", "SquaredRelu", "", 0},
        {"sigmoid", "Sigmoid", "", 0},
        {"silu", "Swish", "", 1},
        {"swish", "Swish", "", 1},
        {"tanh", "Tanh", "", 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

const char *cleave_compose_activation(cleave_composer *c, const cleave_activation *activation,
                                      const char *name, const char *x) {
    if (strcmp(activation->type, "SquaredRelu") == 0) {
        x = CLEAVE_COMPOSE(c, "Relu", part(c, name, "root"), x);
        return CLEAVE_COMPOSE(c, "Mul", name, x, x);
    }
    if (strcmp(activation->type, "Swish") != 0) {
        const char *y = CLEAVE_COMPOSE(c, activation->type, name, x);
        if (activation->approximate[0] != '\0')
            cleave_compose_text(c, "approximate", activation->approximate);
        return y;
    }
    const char *scaled = x;
    if (activation->scale != 1)
        scaled =
            CLEAVE_COMPOSE(c, "Mul", part(c, name, "scaled"), x,
                           cleave_compose_scalar(c, part(c, name, "scale"), activation->scale));
    return CLEAVE_COMPOSE(c, "Mul", name, x,
                          CLEAVE_COMPOSE(c, "Sigmoid", part(c, name, "sigmoid"), scaled));
}

const char *cleave_compose_dropout(cleave_composer *c, const char *name, const char *x,
                                   double rate) {
    static const int64_t yes = 1;
    if (!(rate > 0) || !c->trains)
        return x;
    const char *ratio = cleave_compose_scalar(c, part(c, name, "rate"), rate);
    const char *training = cleave_compose_ids(c, part(c, name, "trains"), 0, NULL, &yes);
    const char *as_flag = CLEAVE_COMPOSE(c, "Cast", part(c, name, "training"), training);
    cleave_compose_integer(c, "to", CLEAVE_ONNX_BOOL);
    return CLEAVE_COMPOSE(c, "Dropout", name, x, ratio, as_flag);
}

const char *cleave_compose_scaled(cleave_composer *c, const char *name, const char *x,
                                  double scale) {
    if (!(scale > 0) || (scale >= 1 && scale <= 1))
        return x;
    return CLEAVE_COMPOSE(c, "Mul", part(c, name, "scaled"), x,
                          cleave_compose_scalar(c, part(c, name, "scale"), scale));
}

const char *cleave_compose_clip(cleave_composer *c, const char *name, const char *x, double most) {
    if (!(most > 0))
        return x;
    return CLEAVE_COMPOSE(c, "Clip", name, x,
                          cleave_compose_scalar(c, part(c, name, "least"), -most),
                          cleave_compose_scalar(c, part(c, name, "most"), most));
}

const char *cleave_compose_soft_cap(cleave_composer *c, const char *name, const char *x,
                                    double cap) {
    if (!(cap > 0))
        return x;
    const char *most = cleave_compose_scalar(c, part(c, name, "cap"), cap);
    x = CLEAVE_COMPOSE(c, "Div", part(c, name, "of_cap"), x, most);
    x = CLEAVE_COMPOSE(c, "Tanh", part(c, name, "bent"), x);
    return CLEAVE_COMPOSE(c, "Mul", name, x, most);
}

/* ---- attention ------------------------------------------------------------------------------- */

const char *cleave_compose_cut_heads(cleave_composer *c, const char *name, const char *x,
                                     const cleave_heads *of, bool is_query) {
    int64_t heads = is_query ? of->heads : of->kv_heads;
    return cleave_compose_reshape(c, name, x, 4, (int64_t[]){0, of->length, heads, of->size});
}

const char *cleave_compose_turn_heads(cleave_composer *c, const char *name, const char *x) {
    return cleave_compose_transpose(c, name, x, 4, (int64_t[]){0, 2, 1, 3});
}

const char *cleave_compose_split_heads(cleave_composer *c, const char *name, const char *x,
                                       const cleave_heads *of, bool is_query) {
    x = cleave_compose_cut_heads(c, part(c, name, "parts"), x, of, is_query);
    return cleave_compose_turn_heads(c, name, x);
}

static const char *join_heads(cleave_composer *c, const char *scope, const char *x,
                              const cleave_heads *of) {
    x = cleave_compose_turn_heads(c, part(c, scope, "turned"), x);
    return cleave_compose_reshape(c, part(c, scope, "joined"), x, 3,
                                  (int64_t[]){0, of->length, of->heads * of->size});
}

/* Keys or values, once for each head of queries; one head broadcasts as it is. */
static const char *repeat(cleave_composer *c, const char *name, const char *x,
                          const cleave_heads *of, int64_t length) {
    static const int64_t n_dimensions = 5;
    if (of->kv_heads == 1 || of->kv_heads == of->heads)
        return x;
    int64_t *times = CLEAVE_ARENA_ARRAY(c->arena, int64_t, n_dimensions);
    if (times == NULL) {
        c->failed = true;
        return x;
    }
    for (int d = 0; d < n_dimensions; d++)
        times[d] = d == 2 ? of->heads / of->kv_heads : 1;
    x = cleave_compose_reshape(c, part(c, name, "apart"), x, 5,
                               (int64_t[]){0, of->kv_heads, 1, length, of->size});
    x = CLEAVE_COMPOSE(c, "Expand", part(c, name, "repeated"), x,
                       cleave_compose_ids(c, part(c, name, "times"), 1, &n_dimensions, times));
    return cleave_compose_reshape(c, name, x, 4, (int64_t[]){0, of->heads, length, of->size});
}

static const char *mask(cleave_composer *c, const char *name, const char *scores, int64_t window,
                        int64_t ahead) {
    scores = CLEAVE_COMPOSE(c, "CausalMask", name, scores);
    cleave_compose_as_own(c);
    if (window > 0)
        cleave_compose_integer(c, "window", window);
    if (ahead > 0)
        cleave_compose_integer(c, "ahead", ahead);
    return scores;
}

static const char *softmax(cleave_composer *c, const char *name, const char *scores,
                           const char *sinks) {
    if (sinks != NULL) {
        const char *weights = CLEAVE_COMPOSE(c, "SinkSoftmax", name, scores, sinks);
        cleave_compose_as_own(c);
        return weights;
    }
    const char *weights = CLEAVE_COMPOSE(c, "Softmax", name, scores);
    cleave_compose_integer(c, "axis", -1);
    return weights;
}

const char *cleave_compose_attention(cleave_composer *c, const char *scope,
                                     const cleave_composed_attention *a, const char *q,
                                     const char *k, const char *v) {
    k = repeat(c, part(c, scope, "all_keys"), k, &a->heads, a->heads.length);
    v = repeat(c, part(c, scope, "all_values"), v, &a->heads, a->heads.length);
    const char *keys =
        cleave_compose_transpose(c, part(c, scope, "keys"), k, 4, (int64_t[]){0, 1, 3, 2});
    const char *scores = CLEAVE_COMPOSE(c, "MatMul", part(c, scope, "scores"), q, keys);
    if (a->scale != 1)
        scores = CLEAVE_COMPOSE(c, "Mul", part(c, scope, "scaled"), scores,
                                cleave_compose_scalar(c, part(c, scope, "scale"), a->scale));
    scores = cleave_compose_soft_cap(c, part(c, scope, "capped"), scores, a->cap);
    if (a->bias != NULL)
        scores = CLEAVE_COMPOSE(c, "Add", part(c, scope, "biased_scores"), scores, a->bias);
    if (a->is_causal || a->ahead > 0)
        scores = mask(c, part(c, scope, "masked"), scores, a->window, a->ahead);
    const char *weights = softmax(c, part(c, scope, "weights"), scores, a->sinks);
    weights = cleave_compose_dropout(c, part(c, scope, "dropout"), weights, a->dropout);
    const char *y = CLEAVE_COMPOSE(c, "MatMul", scope, weights, v);
    return join_heads(c, scope, y, &a->heads);
}
