/* Llama's kin whose units are experts (experts.h).  DeepSeek's attention makes queries, keys and
   values from narrow latents. */
#include "graph/import/config/experts.h"
#include "graph/import/config/families.h"
#include "graph/import/config/sides.h"

#include <math.h>

static const cleave_expert_style by_softmax = {.routing = CLEAVE_ROUTING_SOFTMAX};
static const cleave_expert_style by_sigmoid = {.routing = CLEAVE_ROUTING_SIGMOID,
                                               .correction = "gate.e_score_correction_bias"};

static const char *feed_experts(const cleave_decoder *d, const char *block, const char *x,
                                int64_t layer) {
    const char *scope = cleave_compose_name(d->c, "%s.mlp", block);
    if ((layer + 1) % d->config->sparse_step != 0)
        return cleave_compose_gated(d->c, d->config, scope, x, d->config->inner);
    return cleave_compose_experts(d, scope, x, &by_softmax);
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

/* Of a model of images and texts. */
const char *cleave_compose_qwen3_vl_moe(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.expert_scale = 1;
    own.normalises = true;
    return cleave_compose_decoder(c, &own,
                                  &(cleave_decoder_style){.model = "model.language_model",
                                                          .head_norms = true,
                                                          .feed = feed_experts});
}

/* gpt-oss: heads have sinks, every other layer a window, and experts biases and a clipped unit of
   their own. */
static const char *feed_gpt_oss(const cleave_decoder *d, const char *block, const char *x,
                                int64_t layer) {
    const cleave_expert_style how = {.routing = CLEAVE_ROUTING_OF_CHOSEN,
                                     .router = "router",
                                     .biases = true,
                                     .transposed = true,
                                     .interleaved = true,
                                     .up_shift = 1,
                                     .limit = d->config->gate_limit,
                                     .gate_scale = d->config->gate_scale};
    (void)layer;
    return cleave_compose_experts(d, cleave_compose_name(d->c, "%s.mlp", block), x, &how);
}

const char *cleave_compose_gpt_oss(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.expert_inner = own.inner;
    own.whole_every = 2;
    return cleave_compose_decoder(c, &own,
                                  &(cleave_decoder_style){.sinks = true, .feed = feed_gpt_oss});
}

/* Beside the experts there may be one that all tokens go through. */
static const char *feed_granitemoe(const cleave_decoder *d, const char *block, const char *x,
                                   int64_t layer) {
    static const cleave_expert_style how = {.routing = CLEAVE_ROUTING_OF_CHOSEN,
                                            .router = "router"};
    cleave_composer *c = d->c;
    const cleave_config *config = d->config;
    const char *scope = cleave_compose_name(c, "%s.shared_mlp", block);
    (void)layer;
    const char *y =
        cleave_compose_experts(d, cleave_compose_name(c, "%s.block_sparse_moe", block), x, &how);
    if (config->shared_inner == 0)
        return y;
    x = cleave_compose_gated_sides(c, scope, x,
                                   &(cleave_gated_sides){.module = "input_linear",
                                                         .function = "activation",
                                                         .activation = config->activation,
                                                         .length = config->sequence,
                                                         .width = config->width,
                                                         .inner = config->shared_inner});
    x = cleave_compose_linear(c, cleave_compose_name(c, "%s.output_linear", scope), x,
                              config->shared_inner, config->width, false);
    return CLEAVE_COMPOSE(c, "Add", cleave_compose_name(c, "%s.sum", scope), y, x);
}

/* Its logits are divided. */
const char *cleave_compose_granitemoe(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.expert_inner = own.inner;
    own.logit_scale = 1 / config->logit_scale;
    return cleave_compose_decoder(c, &own, &(cleave_decoder_style){.feed = feed_granitemoe});
}

/* MiniMax M2: norms over all heads at once, and experts by sigmoids. */
static const char *feed_minimax_m2(const cleave_decoder *d, const char *block, const char *x,
                                   int64_t layer) {
    static const cleave_expert_style how = {.routing = CLEAVE_ROUTING_SIGMOID,
                                            .correction = "e_score_correction_bias"};
    (void)layer;
    return cleave_compose_experts(d, cleave_compose_name(d->c, "%s.mlp", block), x, &how);
}

const char *cleave_compose_minimax_m2(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.expert_inner = own.inner;
    own.normalises = true;
    own.groups = own.group_choices = 1;
    return cleave_compose_decoder(
        c, &own, &(cleave_decoder_style){.wide_norms = true, .feed = feed_minimax_m2});
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
                                      int64_t layer, const cleave_expert_style *how) {
    cleave_composer *c = d->c;
    const cleave_config *config = d->config;
    const char *scope = cleave_compose_name(c, "%s.mlp", block);
    if (layer < config->dense_layers)
        return cleave_compose_gated(c, config, scope, x, config->inner);
    if (config->shared_experts == 0)
        return cleave_compose_experts(d, scope, x, how);
    const char *shared =
        cleave_compose_gated(c, config, cleave_compose_name(c, "%s.shared_experts", scope), x,
                             config->expert_inner * config->shared_experts);
    return CLEAVE_COMPOSE(c, "Add", cleave_compose_name(c, "%s.sum", scope),
                          cleave_compose_experts(d, scope, x, how), shared);
}

/* ERNIE 4.5: what is added where experts are chosen is added to a softmax; pairs of neighbours are
   turned. */
static const char *feed_ernie4_5_moe(const cleave_decoder *d, const char *block, const char *x,
                                     int64_t layer) {
    static const cleave_expert_style how = {.routing = CLEAVE_ROUTING_SOFTMAX,
                                            .correction =
                                                "gate.moe_statics.e_score_correction_bias",
                                            .correction_rank = 2};
    const cleave_config *config = d->config;
    bool is_dense = (layer + 1) % config->sparse_step != 0 ||
                    (config->last_sparse >= 0 && layer > config->last_sparse);
    if (is_dense)
        return cleave_compose_gated(d->c, config, cleave_compose_name(d->c, "%s.mlp", block), x,
                                    config->inner);
    return feed_beside_shared(d, block, x, layer, &how);
}

const char *cleave_compose_ernie4_5_moe(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.rotary[0].interleaved = true;
    own.mlp_bias = own.head_bias = config->attention_bias;
    own.normalises = true;
    return cleave_compose_decoder(c, &own, &(cleave_decoder_style){.feed = feed_ernie4_5_moe});
}

static const char *feed_deepseek(const cleave_decoder *d, const char *block, const char *x,
                                 int64_t layer) {
    return feed_beside_shared(d, block, x, layer, &by_sigmoid);
}

static const char *feed_deepseek_v2(const cleave_decoder *d, const char *block, const char *x,
                                    int64_t layer) {
    return feed_beside_shared(d, block, x, layer, &by_softmax);
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

/* dots.llm1: DeepSeek's experts behind Qwen3's attention. */
const char *cleave_compose_dots1(cleave_composer *c, const cleave_config *config) {
    return cleave_compose_decoder(
        c, config, &(cleave_decoder_style){.head_norms = true, .feed = feed_deepseek});
}
