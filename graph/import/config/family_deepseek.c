/* DeepSeek's attention makes queries, keys and values from narrow latents; its units are experts.
   MiniCPM3 and Youtu have the same attention before a dense unit. */
#include "graph/import/config/experts.h"
#include "graph/import/config/families.h"

#include <math.h>

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

static const char *feed_deepseek_v2(const cleave_decoder *d, const char *block, const char *x,
                                    int64_t layer) {
    static const cleave_expert_style how = {.routing = CLEAVE_ROUTING_SOFTMAX};
    return cleave_feed_beside_shared(d, block, x, layer, &how);
}

const char *cleave_compose_deepseek_v2(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.rotary[0].interleaved = true;
    return cleave_compose_decoder(
        c, &own, &(cleave_decoder_style){.attend = attend_latent, .feed = feed_deepseek_v2});
}

const char *cleave_compose_deepseek_v3(cleave_composer *c, const cleave_config *config) {
    return cleave_compose_decoder(
        c, config, &(cleave_decoder_style){.attend = attend_latent, .feed = cleave_feed_deepseek});
}

const char *cleave_compose_youtu(cleave_composer *c, const cleave_config *config) {
    return cleave_compose_decoder(c, config, &(cleave_decoder_style){.attend = attend_latent});
}

/* What is added to the stream is the smaller the more layers there are. */
const char *cleave_compose_minicpm3(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    if (own.value_head == 0)
        own.value_head = config->width / config->heads;
    own.residual_scale = config->residual_scale / sqrt((double)config->layers);
    own.logit_scale = (double)config->logit_width / (double)config->width;
    return cleave_compose_decoder(c, &own, &(cleave_decoder_style){.attend = attend_latent});
}
