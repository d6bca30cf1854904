/* Units of experts: the router, the experts, and what lies between. */
#include "graph/import/config/experts.h"

#include <float.h>
#include <math.h>

/* One layer's experts and their router. */
typedef struct unit {
    cleave_composer *c;
    const cleave_config *config;
    const cleave_expert_style *style;
    const char *scope;
    int64_t capacity;
} unit;

static const char *named(const unit *u, const char *part) {
    return cleave_compose_name(u->c, "%s.%s", u->scope, part);
}

/* A list of one number. */
static const char *one_id(cleave_composer *c, const char *name, int64_t value) {
    static const int64_t one = 1;
    int64_t *list = CLEAVE_ARENA_ARRAY(c->arena, int64_t, 1);
    if (list == NULL) {
        c->failed = true;
        return NULL;
    }
    *list = value;
    return cleave_compose_ids(c, name, 1, &one, list);
}

/* ---- the router ------------------------------------------------------------------------------ */

/* The k largest of each row, the largest first; `places` may be null. */
static const char *largest(const unit *u, const char *name, const char *x, int64_t k,
                           const char **places) {
    const char *n = one_id(u->c, cleave_compose_name(u->c, "%s.k", name), k);
    const char *values = CLEAVE_COMPOSE(u->c, "TopK", name, x, n);
    const char *indices =
        cleave_compose_output(u->c, cleave_compose_name(u->c, "%s.indices", name));
    if (places != NULL)
        *places = indices;
    return values;
}

static const char *sum_last(const unit *u, const char *name, const char *x, bool keeps) {
    const char *axes = one_id(u->c, cleave_compose_name(u->c, "%s.axes", name), -1);
    const char *sum = CLEAVE_COMPOSE(u->c, "ReduceSum", name, x, axes);
    cleave_compose_integer(u->c, "keepdims", keeps);
    return sum;
}

/* Scores [n, t, e], with those of experts outside of the best groups below all others.  A group is
   as good as so many of its best experts. */
static const char *of_best_groups(const unit *u, const char *scores, int64_t n_judged) {
    cleave_composer *c = u->c;
    const cleave_config *config = u->config;
    int64_t groups = config->groups, each = config->experts / groups, best = config->group_choices;
    if (best == groups)
        return scores;
    const char *parted = cleave_compose_reshape(c, named(u, "gate.groups"), scores, 4,
                                                (int64_t[]){0, config->sequence, groups, each});
    const char *judged =
        largest(u, named(u, "gate.judged"), parted, each < n_judged ? each : n_judged, NULL);
    const char *of_group = sum_last(u, named(u, "gate.group_scores"), judged, true);
    const char *flat = cleave_compose_reshape(c, named(u, "gate.group_score"), of_group, 3,
                                              (int64_t[]){0, config->sequence, groups});
    const char *chosen = largest(u, named(u, "gate.best_groups"), flat, best, NULL);
    const char *least = cleave_compose_slice(c, named(u, "gate.least"), chosen, -1, best - 1, best);
    least = cleave_compose_reshape(c, named(u, "gate.bar"), least, 4,
                                   (int64_t[]){0, config->sequence, 1, 1});
    const char *good = CLEAVE_COMPOSE(c, "GreaterOrEqual", named(u, "gate.good"), of_group, least);
    const char *none = cleave_compose_scalar(c, named(u, "gate.none"), -(double)FLT_MAX);
    scores = CLEAVE_COMPOSE(c, "Where", named(u, "gate.grouped"), good, parted, none);
    return cleave_compose_reshape(c, named(u, "gate.of_groups"), scores, 3,
                                  (int64_t[]){0, config->sequence, config->experts});
}

/* Scores with what is added where experts are chosen. */
static const char *corrected(const unit *u, const char *scores) {
    const int64_t shape[] = {1, u->config->experts};
    bool is_row = u->style->correction_rank == 2;
    if (u->style->correction == NULL)
        return scores;
    const char *bias = cleave_compose_parameter(u->c, named(u, u->style->correction),
                                                is_row ? 2 : 1, is_row ? shape : shape + 1);
    return CLEAVE_COMPOSE(u->c, "Add", named(u, "gate.biased"), scores, bias);
}

/* The scores of a token's choices, which others than the scores say. */
static const char *scores_of_choices(const unit *u, const char *scores, const char **choices) {
    int64_t n_judged = u->style->routing == CLEAVE_ROUTING_SIGMOID ? 2 : 1;
    bool is_judged = u->style->routing == CLEAVE_ROUTING_SIGMOID || u->config->limits_groups;
    const char *judged = corrected(u, scores);
    if (is_judged)
        judged = of_best_groups(u, judged, n_judged);
    if (u->style->correction == NULL)
        return largest(u, named(u, "gate.choices"), judged, u->config->choices, choices);
    largest(u, named(u, "gate.choices"), judged, u->config->choices, choices);
    const char *weights =
        CLEAVE_COMPOSE(u->c, "GatherElements", named(u, "gate.weights"), scores, *choices);
    cleave_compose_integer(u->c, "axis", -1);
    return weights;
}

static const char *softmax(const unit *u, const char *name, const char *x) {
    const char *y = CLEAVE_COMPOSE(u->c, "Softmax", name, x);
    cleave_compose_integer(u->c, "axis", -1);
    return y;
}

/* Weights [n, t, j] of a token's choices, and their experts. */
static const char *choose(const unit *u, const char *x, const char **choices) {
    cleave_composer *c = u->c;
    const cleave_config *config = u->config;
    const char *router = u->style->router != NULL ? u->style->router : "gate";
    const char *weights, *scores = cleave_compose_linear(c, named(u, router), x, config->width,
                                                         config->experts, u->style->biases);
    if (u->style->routing == CLEAVE_ROUTING_SIGMOID_OF_CHOSEN)
        return CLEAVE_COMPOSE(
            c, "Sigmoid", named(u, "gate.weights"),
            largest(u, named(u, "gate.choices"), scores, config->choices, choices));
    if (u->style->routing == CLEAVE_ROUTING_OF_CHOSEN)
        return softmax(u, named(u, "gate.weights"),
                       largest(u, named(u, "gate.choices"), scores, config->choices, choices));
    scores = u->style->routing == CLEAVE_ROUTING_SIGMOID
                 ? CLEAVE_COMPOSE(c, "Sigmoid", named(u, "gate.scores"), scores)
                 : softmax(u, named(u, "gate.scores"), scores);
    weights = scores_of_choices(u, scores, choices);
    if (config->normalises) {
        const char *sum = sum_last(u, named(u, "gate.sum"), weights, true);
        if (config->least_sum > 0)
            sum = CLEAVE_COMPOSE(
                c, "Clip", named(u, "gate.divisor"), sum,
                cleave_compose_scalar(c, named(u, "gate.least_sum"), config->least_sum));
        weights = CLEAVE_COMPOSE(c, "Div", named(u, "gate.normal"), weights, sum);
    }
    return cleave_compose_scaled(c, named(u, "gate"), weights, config->expert_scale);
}

/* ---- the experts ----------------------------------------------------------------------------- */

/* Rows of a table [n, rows, width] by ids [n, a, b]: [n, a, b, width]; an id behind the last row
   gives zeros. */
static const char *take_rows(const unit *u, const char *name, const char *table, const char *ids,
                             int64_t a, int64_t b) {
    ids = cleave_compose_reshape(u->c, cleave_compose_name(u->c, "%s.ids", name), ids, 4,
                                 (int64_t[]){0, a, b, 1});
    const char *rows = CLEAVE_COMPOSE(u->c, "GatherND", name, table, ids);
    cleave_compose_integer(u->c, "batch_dims", 1);
    return rows;
}

static const char *einsum(const unit *u, const char *part, const char *equation, const char *a,
                          const char *b) {
    const char *made = CLEAVE_COMPOSE(u->c, "Einsum", named(u, part), a, b);
    cleave_compose_text(u->c, "equation", equation);
    return made;
}

/* A parameter of the experts, [e, outputs, inputs], or [e, inputs, outputs]. */
static const char *expert_weight(const unit *u, const char *name, int64_t outputs, int64_t inputs) {
    bool transposed = u->style->transposed;
    return cleave_compose_parameter(u->c, named(u, name), 3,
                                    (int64_t[]){u->config->experts, transposed ? inputs : outputs,
                                                transposed ? outputs : inputs});
}

/* A matrix of all experts, [e x inner, width], as [e, inner, width]. */
static const char *matrix_of(const unit *u, const char *name) {
    const int64_t experts = u->config->experts, inner = u->config->expert_inner,
                  width = u->config->width;
    const char *all =
        cleave_compose_parameter(u->c, named(u, name), 2, (int64_t[]){experts * inner, width});
    return cleave_compose_reshape(u->c, cleave_compose_name(u->c, "%s.%s.apart", u->scope, name),
                                  all, 3, (int64_t[]){experts, inner, width});
}

/* Of a dimension that has gate and up the elements of one of them. */
static const char *side_of(const unit *u, const char *name, const char *both, int axis,
                           bool is_up) {
    cleave_composer *c = u->c;
    const int64_t inner = u->config->expert_inner;
    if (!u->style->interleaved)
        return cleave_compose_slice(c, named(u, name), both, axis, is_up ? inner : 0,
                                    is_up ? 2 * inner : inner);
    int64_t apart[4] = {0}, alone[4] = {0};
    apart[axis] = alone[axis] = inner;
    apart[axis + 1] = 2;
    both = cleave_compose_reshape(c, cleave_compose_name(c, "%s.%s.pairs", u->scope, name), both,
                                  axis + 2, apart);
    both = cleave_compose_slice(c, cleave_compose_name(c, "%s.%s.part", u->scope, name), both,
                                axis + 1, is_up, is_up + 1);
    return cleave_compose_reshape(c, named(u, name), both, axis + 1, alone);
}

/* 1 in rows that a token has, 0 in others: [n, e, c, 1]. */
static const char *occupied_rows(const unit *u, const char *sources) {
    cleave_composer *c = u->c;
    const int64_t length = u->config->sequence;
    float *ones = CLEAVE_ARENA_ARRAY(c->arena, float, length);
    for (int64_t i = 0; ones != NULL && i < length; i++)
        ones[i] = 1;
    c->failed = c->failed || ones == NULL;
    const char *table = cleave_compose_floats(c, named(u, "experts.ones"), 1, &length, ones);
    const char *rows = CLEAVE_COMPOSE(c, "Gather", named(u, "experts.occupied"), table, sources);
    return cleave_compose_reshape(c, named(u, "experts.is_occupied"), rows, 4,
                                  (int64_t[]){0, u->config->experts, u->capacity, 1});
}

/* Adds a bias [e, n] of experts to rows [n, e, c, n]. */
static const char *add_bias(const unit *u, const char *name, const char *rows, const char *bias,
                            int64_t n) {
    cleave_composer *c = u->c;
    bias = cleave_compose_reshape(c, cleave_compose_name(c, "%s.%s.bias", u->scope, name), bias, 3,
                                  (int64_t[]){u->config->experts, 1, n});
    return CLEAVE_COMPOSE(c, "Add", cleave_compose_name(c, "%s.%s.biased", u->scope, name), rows,
                          bias);
}

/* The gate's and the up's products of rows [n, e, c, d], with their biases. */
static void project(const unit *u, const char *rows, const char *sides[2]) {
    static const char *const names[] = {"experts.gate", "experts.up"};
    cleave_composer *c = u->c;
    const int64_t inner = u->config->expert_inner;
    if (u->style->in_matrices) {
        sides[0] =
            einsum(u, "experts.mlp.gate", "necd,efd->necf", rows, matrix_of(u, "experts.mlp.w1"));
        sides[1] =
            einsum(u, "experts.mlp.up", "necd,efd->necf", rows, matrix_of(u, "experts.mlp.v1"));
        return;
    }
    const char *equation = u->style->transposed ? "necd,edf->necf" : "necd,efd->necf";
    const char *both = expert_weight(u, "experts.gate_up_proj", 2 * inner, u->config->width);
    const char *biases = NULL;
    if (u->style->biases)
        biases = cleave_compose_parameter(c, named(u, "experts.gate_up_proj_bias"), 2,
                                          (int64_t[]){u->config->experts, 2 * inner});
    for (int i = 0; i < 2; i++) {
        const char *weight = side_of(u, cleave_compose_name(c, "%s_weight", names[i]), both,
                                     u->style->transposed ? 2 : 1, i == 1);
        sides[i] = einsum(u, names[i], equation, rows, weight);
        if (biases == NULL)
            continue;
        const char *bias =
            side_of(u, cleave_compose_name(c, "%s_bias", names[i]), biases, 1, i == 1);
        sides[i] = add_bias(u, names[i], sides[i], bias, inner);
    }
}

/* What a gate and what it lets through come to.  With biases rows that nobody has are made zero
   again, as kernels and prices take them to be. */
static const char *unite(const unit *u, const char *gate, const char *up, const char *sources) {
    cleave_composer *c = u->c;
    const double limit = u->style->limit, shift = u->style->up_shift;
    const cleave_activation own = {"", "Swish", "", u->style->gate_scale};
    const cleave_activation *activation =
        own.scale > 0 ? &own : cleave_activation_find(u->config->activation);
    if (limit > 0)
        gate = CLEAVE_COMPOSE(c, "Clip", named(u, "experts.gate_clipped"), gate, NULL,
                              cleave_compose_scalar(c, named(u, "experts.gate_limit"), limit));
    up = cleave_compose_clip(c, named(u, "experts.up_clipped"), up, limit);
    if (shift > 0)
        up = CLEAVE_COMPOSE(c, "Add", named(u, "experts.up_shifted"), up,
                            cleave_compose_scalar(c, named(u, "experts.up_shift"), shift));
    gate = cleave_compose_activation(c, activation, named(u, "experts.act_fn"), gate);
    gate = CLEAVE_COMPOSE(c, "Mul", named(u, "experts.gated"), gate, up);
    return u->style->biases
               ? CLEAVE_COMPOSE(c, "Mul", named(u, "experts.kept"), gate, occupied_rows(u, sources))
               : gate;
}

/* Rows [n, e, c, d] through each one's expert. */
static const char *transform(const unit *u, const char *rows, const char *sources) {
    cleave_composer *c = u->c;
    const cleave_config *config = u->config;
    const char *sides[2];
    project(u, rows, sides);
    rows = unite(u, sides[0], sides[1], sources);
    if (u->style->in_matrices)
        return einsum(u, "experts.mlp.down", "necf,efd->necd", rows,
                      matrix_of(u, "experts.mlp.w2"));
    const char *down = expert_weight(u, "experts.down_proj", config->width, config->expert_inner);
    rows = einsum(u, "experts.down", u->style->transposed ? "necf,efd->necd" : "necf,edf->necd",
                  rows, down);
    if (!u->style->biases)
        return rows;
    const char *bias = cleave_compose_parameter(c, named(u, "experts.down_proj_bias"), 2,
                                                (int64_t[]){config->experts, config->width});
    return add_bias(u, "experts.down", rows, bias, config->width);
}

const char *cleave_compose_experts(const cleave_decoder *d, const char *scope, const char *x,
                                   const cleave_expert_style *style) {
    cleave_composer *c = d->c;
    const cleave_config *config = d->config;
    bool drops = config->capacity > 0 && config->capacity < config->sequence;
    const unit u = {c, config, style, scope, drops ? config->capacity : config->sequence};
    const char *choices;
    const char *weights = choose(&u, x, &choices);
    const char *slots = CLEAVE_COMPOSE(c, "Route", named(&u, "route"), choices);
    const char *sources = cleave_compose_output(c, named(&u, "route.sources"));
    cleave_compose_as_own(c);
    cleave_compose_integer(c, "experts", config->experts);
    cleave_compose_integer(c, "capacity", u.capacity);
    if (style->weighs_inputs)
        x = CLEAVE_COMPOSE(c, "Mul", named(&u, "weighed"), x, weights);
    const char *rows =
        take_rows(&u, named(&u, "dispatch"), x, sources, config->experts, u.capacity);
    rows = transform(&u, rows, sources);
    rows = cleave_compose_reshape(c, named(&u, "experts.rows"), rows, 3,
                                  (int64_t[]){0, config->experts * u.capacity, config->width});
    rows = take_rows(&u, named(&u, "collect"), rows, slots, config->sequence, config->choices);
    if (style->weighs_inputs)
        return cleave_compose_reshape(c, named(&u, "combine"), rows, 3,
                                      (int64_t[]){0, config->sequence, config->width});
    return einsum(&u, "combine", "ntjd,ntj->ntd", rows, weights);
}
