/* Llama's kin whose units are experts (experts.h). */
#include "graph/import/config/experts.h"
#include "graph/import/config/families.h"
#include "graph/import/config/sides.h"

#include <math.h>

static const cleave_expert_style by_softmax = {.routing = CLEAVE_ROUTING_SOFTMAX};

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

/* Beside the experts there may be one that all tokens go through, or it alone. */
static const char *feed_granitemoe(const cleave_decoder *d, const char *block, const char *x,
                                   int64_t layer) {
    static const cleave_expert_style how = {.routing = CLEAVE_ROUTING_OF_CHOSEN,
                                            .router = "router"};
    cleave_composer *c = d->c;
    const cleave_config *config = d->config;
    const char *scope = cleave_compose_name(c, "%s.shared_mlp", block);
    (void)layer;
    const char *y = config->experts > 0
                        ? cleave_compose_experts(
                              d, cleave_compose_name(c, "%s.block_sparse_moe", block), x, &how)
                        : NULL;
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
    return y == NULL ? x : CLEAVE_COMPOSE(c, "Add", cleave_compose_name(c, "%s.sum", scope), y, x);
}

/* Its logits are divided. */
const char *cleave_compose_granitemoe(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.expert_inner = own.inner;
    own.logit_scale = 1 / config->logit_scale;
    return cleave_compose_decoder(c, &own, &(cleave_decoder_style){.feed = feed_granitemoe});
}

/* Granite 4, of attention alone: heads are turned where the file says so. */
const char *cleave_compose_granitemoehybrid(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.unturned_every = !config->turns_heads;
    return cleave_compose_granitemoe(c, &own);
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

/* FlexOlmo: OLMoE with norms behind attention and unit. */
const char *cleave_compose_flex_olmo(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.expert_inner = own.inner;
    own.sparse_step = 1;
    own.expert_scale = 1;
    return cleave_compose_decoder(c, &own,
                                  &(cleave_decoder_style){.wide_norms = true,
                                                          .norms = &cleave_norms_behind,
                                                          .feed = feed_experts});
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
    return cleave_compose_decoder(c, &own, &(cleave_decoder_style){.feed = feed_qwen2_moe});
}

/* ---- experts beside others that all tokens go through ---------------------------------------- */

const char *cleave_feed_beside_shared(const cleave_decoder *d, const char *block, const char *x,
                                      int64_t layer, const cleave_expert_style *how) {
    cleave_composer *c = d->c;
    const cleave_config *config = d->config;
    const char *scope = cleave_compose_name(c, "%s.mlp", block);
    if (config->routed.n > 0 ? !config->routed.has[layer] : layer < config->dense_layers)
        return cleave_compose_gated(c, config, scope, x, config->inner);
    if (config->shared_experts == 0)
        return cleave_compose_experts(d, scope, x, how);
    const char *shared =
        cleave_compose_gated(c, config, cleave_compose_name(c, "%s.shared_experts", scope), x,
                             config->expert_inner * config->shared_experts);
    return CLEAVE_COMPOSE(c, "Add", cleave_compose_name(c, "%s.sum", scope),
                          cleave_compose_experts(d, scope, x, how), shared);
}

const char *cleave_feed_deepseek(const cleave_decoder *d, const char *block, const char *x,
                                 int64_t layer) {
    static const cleave_expert_style how = {.routing = CLEAVE_ROUTING_SIGMOID,
                                            .correction = "gate.e_score_correction_bias"};
    return cleave_feed_beside_shared(d, block, x, layer, &how);
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
    return cleave_feed_beside_shared(d, block, x, layer, &how);
}

const char *cleave_compose_ernie4_5_moe(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.rotary[0].interleaved = true;
    own.mlp_bias = own.head_bias = config->attention_bias;
    own.normalises = true;
    return cleave_compose_decoder(c, &own, &(cleave_decoder_style){.feed = feed_ernie4_5_moe});
}

/* GLM-4.5: DeepSeek's experts behind Llama's attention. */
const char *cleave_compose_glm4_moe(cleave_composer *c, const cleave_config *config) {
    return cleave_compose_decoder(
        c, config,
        &(cleave_decoder_style){.head_norms = config->qk_norm, .feed = cleave_feed_deepseek});
}

/* dots.llm1: DeepSeek's experts behind Qwen3's attention. */
const char *cleave_compose_dots1(cleave_composer *c, const cleave_config *config) {
    return cleave_compose_decoder(
        c, config, &(cleave_decoder_style){.head_norms = true, .feed = cleave_feed_deepseek});
}

/* K-EXAONE: the same, where layers with a window alone have rotary positions. */
const char *cleave_compose_exaone_moe(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.turns_windowed = config->window > 0;
    return cleave_compose_dots1(c, &own);
}

/* Solar Open: all layers have experts. */
const char *cleave_compose_solar_open(cleave_composer *c, const cleave_config *config) {
    return cleave_compose_decoder(c, config, &(cleave_decoder_style){.feed = cleave_feed_deepseek});
}

/* AFMoE: what heads give is weighed, and norms are on both sides. */
static const char *feed_afmoe(const cleave_decoder *d, const char *block, const char *x,
                              int64_t layer) {
    static const cleave_expert_style how = {
        .routing = CLEAVE_ROUTING_SIGMOID, .router = "router.gate", .correction = "expert_bias"};
    return cleave_feed_beside_shared(d, block, x, layer, &how);
}

const char *cleave_compose_afmoe(cleave_composer *c, const cleave_config *config) {
    static const cleave_decoder_norms norms = {.before_attention = "input_layernorm",
                                               .after_attention = "post_attention_layernorm",
                                               .before_feed = "pre_mlp_layernorm",
                                               .after_feed = "post_mlp_layernorm"};
    cleave_config own = *config;
    own.embedding_scale = config->scales ? sqrt((double)config->width) : 0;
    own.normalises = own.turns_windowed = true;
    own.groups = own.group_choices = 1;
    return cleave_compose_decoder(
        c, &own,
        &(cleave_decoder_style){
            .head_norms = true, .gates = true, .norms = &norms, .feed = feed_afmoe});
}
