/* Llama's kin whose units are experts: a router chooses some of them for each token.

   Chosen tokens are copied to a table of rows, `capacity` for each expert and sample (Route, in
   graph/import/operators/routing.c); the experts are products over it; the rows come back to the
   tokens, weighed.  So experts are an axis, `e`, and what moves between devices that have samples
   and devices that have experts is those rows.  Without a capacity there are rows for every token
   at every expert: nothing is dropped.

   DeepSeek's attention makes queries, keys and values from narrow latents. */
#include "graph/import/config/family_llama.h"

#include <float.h>
#include <math.h>

/* One layer's experts and their router. */
typedef struct unit {
    cleave_composer *c;
    const cleave_config *config;
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

/* Weights [n, t, j] of a token's choices, and their experts. */
static const char *choose(const unit *u, const char *x, bool by_sigmoid, const char **choices) {
    cleave_composer *c = u->c;
    const cleave_config *config = u->config;
    const char *weights, *scores = cleave_compose_linear(c, named(u, "gate"), x, config->width,
                                                         config->experts, false);
    if (by_sigmoid) {
        scores = CLEAVE_COMPOSE(c, "Sigmoid", named(u, "gate.scores"), scores);
        const char *bias = cleave_compose_parameter(c, named(u, "gate.e_score_correction_bias"), 1,
                                                    &config->experts);
        const char *biased = CLEAVE_COMPOSE(c, "Add", named(u, "gate.biased"), scores, bias);
        largest(u, named(u, "gate.choices"), of_best_groups(u, biased, 2), config->choices,
                choices);
        weights = CLEAVE_COMPOSE(c, "GatherElements", named(u, "gate.weights"), scores, *choices);
        cleave_compose_integer(c, "axis", -1);
    } else {
        scores = CLEAVE_COMPOSE(c, "Softmax", named(u, "gate.scores"), scores);
        cleave_compose_integer(c, "axis", -1);
        if (config->limits_groups)
            scores = of_best_groups(u, scores, 1);
        weights = largest(u, named(u, "gate.choices"), scores, config->choices, choices);
    }
    if (config->normalises)
        weights = CLEAVE_COMPOSE(c, "Div", named(u, "gate.normal"), weights,
                                 sum_last(u, named(u, "gate.sum"), weights, true));
    if (config->expert_scale != 1)
        weights =
            CLEAVE_COMPOSE(c, "Mul", named(u, "gate.scaled"), weights,
                           cleave_compose_scalar(c, named(u, "gate.scale"), config->expert_scale));
    return weights;
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

/* Rows [n, e, c, d] through each one's expert. */
static const char *transform(const unit *u, const char *rows) {
    cleave_composer *c = u->c;
    const cleave_config *config = u->config;
    int64_t inner = config->expert_inner;
    const char *both =
        cleave_compose_parameter(c, named(u, "experts.gate_up_proj"), 3,
                                 (int64_t[]){config->experts, 2 * inner, config->width});
    const char *down = cleave_compose_parameter(c, named(u, "experts.down_proj"), 3,
                                                (int64_t[]){config->experts, config->width, inner});
    const char *gate_weight =
        cleave_compose_slice(c, named(u, "experts.gate_weight"), both, 1, 0, inner);
    const char *up_weight =
        cleave_compose_slice(c, named(u, "experts.up_weight"), both, 1, inner, 2 * inner);
    const char *gate = einsum(u, "experts.gate", "necd,efd->necf", rows, gate_weight);
    const char *up = einsum(u, "experts.up", "necd,efd->necf", rows, up_weight);
    gate = cleave_compose_activation(c, cleave_activation_find(config->activation),
                                     named(u, "experts.act_fn"), gate);
    rows = CLEAVE_COMPOSE(c, "Mul", named(u, "experts.gated"), gate, up);
    return einsum(u, "experts.down", "necf,edf->necd", rows, down);
}

static const char *compose_experts(const cleave_decoder *d, const char *scope, const char *x,
                                   bool by_sigmoid) {
    cleave_composer *c = d->c;
    const cleave_config *config = d->config;
    bool drops = config->capacity > 0 && config->capacity < config->sequence;
    const unit u = {c, config, scope, drops ? config->capacity : config->sequence};
    const char *choices;
    const char *weights = choose(&u, x, by_sigmoid, &choices);
    const char *slots = CLEAVE_COMPOSE(c, "Route", named(&u, "route"), choices);
    const char *sources = cleave_compose_output(c, named(&u, "route.sources"));
    cleave_compose_as_own(c);
    cleave_compose_integer(c, "experts", config->experts);
    cleave_compose_integer(c, "capacity", u.capacity);
    const char *rows =
        take_rows(&u, named(&u, "dispatch"), x, sources, config->experts, u.capacity);
    rows = transform(&u, rows);
    rows = cleave_compose_reshape(c, named(&u, "experts.rows"), rows, 3,
                                  (int64_t[]){0, config->experts * u.capacity, config->width});
    rows = take_rows(&u, named(&u, "collect"), rows, slots, config->sequence, config->choices);
    return einsum(&u, "combine", "ntjd,ntj->ntd", rows, weights);
}

static const char *feed_experts(const cleave_decoder *d, const char *block, const char *x,
                                int64_t layer) {
    const char *scope = cleave_compose_name(d->c, "%s.mlp", block);
    if ((layer + 1) % d->config->sparse_step != 0)
        return cleave_compose_gated(d->c, d->config, scope, x, d->config->inner);
    return compose_experts(d, scope, x, false);
}

const char *cleave_compose_mixtral(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.expert_inner = own.inner;
    own.sparse_step = 1;
    own.expert_scale = 1;
    own.normalises = true;
    return cleave_compose_decoder(c, &own, &(cleave_decoder_style){.feed = feed_experts});
}

const char *cleave_compose_qwen3_moe(cleave_composer *c, const cleave_config *config) {
    cleave_config own = cleave_with_switched_window(config);
    own.expert_scale = 1;
    return cleave_compose_decoder(
        c, &own, &(cleave_decoder_style){.head_norms = true, .feed = feed_experts});
}

/* OLMoE: norms over all heads at once, and what they give may be clipped. */
const char *cleave_compose_olmoe(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.expert_inner = own.inner;
    own.sparse_step = 1;
    own.expert_scale = 1;
    return cleave_compose_decoder(
        c, &own, &(cleave_decoder_style){.wide_norms = true, .feed = feed_experts});
}

/* Beside the experts one that all tokens go through, weighed by a gate of its own. */
static const char *feed_qwen2_moe(const cleave_decoder *d, const char *block, const char *x,
                                  int64_t layer) {
    cleave_composer *c = d->c;
    const cleave_config *config = d->config;
    const char *y = feed_experts(d, block, x, layer);
    if ((layer + 1) % config->sparse_step != 0)
        return y;
    const char *scope = cleave_compose_name(c, "%s.mlp.shared_expert", block);
    const char *shared = cleave_compose_gated(c, config, scope, x, config->shared_inner);
    const char *gate = cleave_compose_linear(c, cleave_compose_name(c, "%s_gate", scope), x,
                                             config->width, 1, false);
    gate = CLEAVE_COMPOSE(c, "Sigmoid", cleave_compose_name(c, "%s_weight", scope), gate);
    shared = CLEAVE_COMPOSE(c, "Mul", cleave_compose_name(c, "%s_weighed", scope), shared, gate);
    return CLEAVE_COMPOSE(c, "Add", cleave_compose_name(c, "%s.mlp.sum", block), y, shared);
}

const char *cleave_compose_qwen2_moe(cleave_composer *c, const cleave_config *config) {
    cleave_config own = cleave_with_switched_window(config);
    own.expert_scale = 1;
    own.attention_bias = false; /* of queries, keys and values alone */
    return cleave_compose_decoder(
        c, &own, &(cleave_decoder_style){.biases = config->attention_bias, .feed = feed_qwen2_moe});
}

/* ---- DeepSeek -------------------------------------------------------------------------------- */

static const char *feed_beside_shared(const cleave_decoder *d, const char *block, const char *x,
                                      int64_t layer, bool by_sigmoid) {
    cleave_composer *c = d->c;
    const cleave_config *config = d->config;
    const char *scope = cleave_compose_name(c, "%s.mlp", block);
    if (layer < config->dense_layers)
        return cleave_compose_gated(c, config, scope, x, config->inner);
    const char *shared =
        cleave_compose_gated(c, config, cleave_compose_name(c, "%s.shared_experts", scope), x,
                             config->expert_inner * config->shared_experts);
    return CLEAVE_COMPOSE(c, "Add", cleave_compose_name(c, "%s.sum", scope),
                          compose_experts(d, scope, x, by_sigmoid), shared);
}

static const char *feed_deepseek(const cleave_decoder *d, const char *block, const char *x,
                                 int64_t layer) {
    return feed_beside_shared(d, block, x, layer, true);
}

static const char *feed_deepseek_v2(const cleave_decoder *d, const char *block, const char *x,
                                    int64_t layer) {
    return feed_beside_shared(d, block, x, layer, false);
}

/* Queries [batch, heads, length, plain + turned]. */
static const char *latent_queries(const cleave_decoder *d, const char *scope, const char *x) {
    cleave_composer *c = d->c;
    const cleave_config *config = d->config;
    int64_t plain = config->plain_head, head = plain + config->head;
    int64_t from = config->query_rank > 0 ? config->query_rank : config->width;
    const cleave_heads heads = {config->sequence, config->heads, config->heads, head};
    if (config->query_rank > 0) {
        x = cleave_compose_linear(c, cleave_compose_name(c, "%s.q_a_proj", scope), x, config->width,
                                  from, config->attention_bias);
        x = cleave_compose_norm(c, cleave_compose_name(c, "%s.q_a_layernorm", scope), x, from, 1e-6,
                                CLEAVE_NORM_RMS);
    }
    x = cleave_compose_linear(
        c, cleave_compose_name(c, "%s.%s", scope, config->query_rank > 0 ? "q_b_proj" : "q_proj"),
        x, from, config->heads * head, false);
    x = cleave_compose_split_heads(c, cleave_compose_name(c, "%s.q", scope), x, &heads, true);
    const char *left =
        cleave_compose_slice(c, cleave_compose_name(c, "%s.q_plain", scope), x, -1, 0, plain);
    const char *right =
        cleave_compose_slice(c, cleave_compose_name(c, "%s.q_rotary", scope), x, -1, plain, head);
    right = cleave_compose_rotary(c, cleave_compose_name(c, "%s.q_turned", scope), right,
                                  &d->rotary, config->head);
    return cleave_compose_concat(c, cleave_compose_name(c, "%s.queries", scope), -1, left, right);
}

/* The part of keys that is turned is the same for all heads: [batch, heads, length, turned]. */
static const char *shared_keys(const cleave_decoder *d, const char *scope, const char *latent) {
    static const int64_t rank = 4;
    cleave_composer *c = d->c;
    const cleave_config *config = d->config;
    int64_t *shape = CLEAVE_ARENA_ARRAY(c->arena, int64_t, rank);
    if (shape == NULL) {
        c->failed = true;
        return NULL;
    }
    const char *k = cleave_compose_slice(c, cleave_compose_name(c, "%s.k_rotary", scope), latent,
                                         -1, config->value_rank, config->value_rank + config->head);
    k = cleave_compose_reshape(c, cleave_compose_name(c, "%s.k_one", scope), k, 4,
                               (int64_t[]){0, 1, config->sequence, config->head});
    k = cleave_compose_rotary(c, cleave_compose_name(c, "%s.k_turned", scope), k, &d->rotary,
                              config->head);
    shape[0] = shape[2] = shape[3] = 1;
    shape[1] = config->heads;
    const char *target =
        cleave_compose_ids(c, cleave_compose_name(c, "%s.k_shape", scope), 1, &rank, shape);
    return CLEAVE_COMPOSE(c, "Expand", cleave_compose_name(c, "%s.k_shared", scope), k, target);
}

static const char *attend_latent(cleave_decoder *d, const char *block, const char *x,
                                 int64_t layer) {
    cleave_composer *c = d->c;
    const cleave_config *config = d->config;
    const cleave_rotary *r = &config->rotary[0];
    const char *scope = cleave_compose_name(c, "%s.self_attn", block);
    int64_t plain = config->plain_head, both = plain + config->value_head;
    double scale = 1 / sqrt((double)(plain + config->head));
    if (r->kind != CLEAVE_ROTARY_DEFAULT && r->magnitude_of_all > 0)
        scale *= pow(cleave_yarn_magnitude(r, r->magnitude_of_all), 2);
    const cleave_heads made = {config->sequence, config->heads, config->heads, both};
    const cleave_composed_attention how = {
        .heads = {config->sequence, config->heads, config->heads, config->value_head},
        .scale = scale,
        .is_causal = true,
        .window = cleave_layer_window(config, layer),
        .dropout = config->attention_dropout};
    const char *q = latent_queries(d, scope, x);
    const char *latent = cleave_compose_linear(
        c, cleave_compose_name(c, "%s.kv_a_proj_with_mqa", scope), x, config->width,
        config->value_rank + config->head, config->attention_bias);
    const char *turned = shared_keys(d, scope, latent);
    latent = cleave_compose_slice(c, cleave_compose_name(c, "%s.kv_latent", scope), latent, -1, 0,
                                  config->value_rank);
    latent = cleave_compose_norm(c, cleave_compose_name(c, "%s.kv_a_layernorm", scope), latent,
                                 config->value_rank, 1e-6, CLEAVE_NORM_RMS);
    latent = cleave_compose_linear(c, cleave_compose_name(c, "%s.kv_b_proj", scope), latent,
                                   config->value_rank, config->heads * both, false);
    latent =
        cleave_compose_split_heads(c, cleave_compose_name(c, "%s.kv", scope), latent, &made, false);
    const char *k =
        cleave_compose_slice(c, cleave_compose_name(c, "%s.k_plain", scope), latent, -1, 0, plain);
    const char *v =
        cleave_compose_slice(c, cleave_compose_name(c, "%s.v", scope), latent, -1, plain, both);
    k = cleave_compose_concat(c, cleave_compose_name(c, "%s.keys_of_heads", scope), -1, k, turned);
    x = cleave_compose_attention(c, scope, &how, q, k, v);
    return cleave_compose_linear(c, cleave_compose_name(c, "%s.o_proj", scope), x,
                                 config->heads * config->value_head, config->width,
                                 config->attention_bias);
}

const char *cleave_compose_deepseek_v2(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.rotary[0].interleaved = true;
    return cleave_compose_decoder(
        c, &own, &(cleave_decoder_style){.attend = attend_latent, .feed = feed_deepseek_v2});
}

const char *cleave_compose_deepseek_v3(cleave_composer *c, const cleave_config *config) {
    return cleave_compose_decoder(
        c, config, &(cleave_decoder_style){.attend = attend_latent, .feed = feed_deepseek});
}

/* GLM-4.5: DeepSeek's experts behind Llama's attention. */
const char *cleave_compose_glm4_moe(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.attention_bias = false; /* of queries, keys and values alone */
    return cleave_compose_decoder(c, &own,
                                  &(cleave_decoder_style){.biases = config->attention_bias,
                                                          .head_norms = config->qk_norm,
                                                          .feed = feed_deepseek});
}
