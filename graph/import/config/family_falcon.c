/* BLOOM, MPT and Falcon: layer norms, a unit of two products, and one product for queries, keys and
   values.  Positions of BLOOM and MPT are slopes: what a key adds to a score grows with its place,
   in each head at a rate of its own (Press et al., 2022).  MPT has no biases.  Falcon turns its
   heads, which share keys, and adds attention and unit to the same x. */
#include "graph/import/config/families.h"
#include "graph/import/config/sides.h"

#include <math.h>

typedef struct decoder {
    cleave_composer *c;
    const cleave_config *config;
    const char *slopes; /* [heads, 1, length] added to scores; null: none */
    cleave_rotary_tables rotary;
} decoder;

static const char *norm(const decoder *d, const char *scope, const char *module, const char *x) {
    return cleave_compose_norm(d->c, cleave_compose_name(d->c, "%s.%s", scope, module), x,
                               d->config->width, d->config->epsilon, CLEAVE_NORM_LAYER);
}

static const char *product(const decoder *d, const char *scope, const char *module, const char *x,
                           int64_t n_in, int64_t n_out) {
    return cleave_compose_linear(d->c, cleave_compose_name(d->c, "%s.%s", scope, module), x, n_in,
                                 n_out, d->config->attention_bias);
}

static const char *feed(const decoder *d, const char *block, const char *x) {
    const int64_t width = d->config->width, inner = d->config->inner;
    const char *scope = cleave_compose_name(d->c, "%s.mlp", block);
    x = product(d, scope, "dense_h_to_4h", x, width, inner);
    x = cleave_compose_activation(d->c, cleave_activation_find(d->config->activation),
                                  cleave_compose_name(d->c, "%s.act", scope), x);
    return product(d, scope, "dense_4h_to_h", x, inner, width);
}

/* Some of what lies side by side in a group of heads, [batch, length, groups, each, head], as
   [batch, heads, length, head]. */
static const char *take_heads(const decoder *d, const char *name, const char *x, int64_t first,
                              int64_t end) {
    cleave_composer *c = d->c;
    const cleave_config *config = d->config;
    x = cleave_compose_slice(c, cleave_compose_name(c, "%s.part", name), x, 3, first, end);
    x = cleave_compose_reshape(
        c, cleave_compose_name(c, "%s.heads", name), x, 4,
        (int64_t[]){0, config->sequence, config->kv_heads * (end - first), config->head});
    return cleave_compose_turn_heads(c, name, x);
}

/* A group is the heads of queries that share a key, and then that key and its value. */
static const char *attend(const decoder *d, const char *block, const char *x) {
    static const char *const which[] = {"q", "k", "v"};
    cleave_composer *c = d->c;
    const cleave_config *config = d->config;
    const int64_t each = config->heads / config->kv_heads;
    const char *scope = cleave_compose_name(c, "%s.self_attention", block), *parts[3];
    const cleave_composed_attention how = {
        .heads = {config->sequence, config->heads, config->kv_heads, config->head},
        .scale = 1 / sqrt((double)config->head),
        .bias = d->slopes,
        .is_causal = true,
        .dropout = config->attention_dropout};
    x = product(d, scope, "query_key_value", x, config->width,
                config->kv_heads * (each + 2) * config->head);
    x = cleave_compose_reshape(
        c, cleave_compose_name(c, "%s.groups", scope), x, 5,
        (int64_t[]){0, config->sequence, config->kv_heads, each + 2, config->head});
    for (int i = 0; i < 3; i++) {
        const char *name = cleave_compose_name(c, "%s.%s", scope, which[i]);
        parts[i] = take_heads(d, name, x, i == 0 ? 0 : each + i - 1, each + i);
        if (i < 2 && d->rotary.cosines != NULL)
            parts[i] = cleave_compose_rotary(c, cleave_compose_name(c, "%s_turned", name), parts[i],
                                             &d->rotary, config->head);
    }
    x = cleave_compose_attention(c, scope, &how, parts[0], parts[1], parts[2]);
    return product(d, scope, "dense", x, config->heads * config->head, config->width);
}

/* x + y, y being dropped out first. */
static const char *add(const decoder *d, const char *block, const char *sum, const char *x,
                       const char *y) {
    const char *name = cleave_compose_name(d->c, "%s.%s", block, sum);
    y = cleave_compose_dropout(d->c, cleave_compose_name(d->c, "%s.dropout", name), y,
                               d->config->dropout);
    return CLEAVE_COMPOSE(d->c, "Add", name, x, y);
}

static const char *head_of(const decoder *d, const char *x, const char *table) {
    return d->config->tied ? cleave_compose_tied(d->c, "lm_head", x, table)
                           : cleave_compose_linear(d->c, "lm_head", x, d->config->width,
                                                   d->config->vocabulary, false);
}

/* ---- BLOOM ----------------------------------------------------------------------------------- */

/* Powers of the largest power of two that is no more than the heads; where there are more heads,
   theirs lie between. */
static double slope_of(int64_t head, int64_t heads) {
    int64_t whole = 1;
    while (2 * whole <= heads)
        whole *= 2;
    return head < whole ? exp2(-8.0 * (double)(head + 1) / (double)whole)
                        : exp2(-4.0 * (double)(2 * (head - whole) + 1) / (double)whole);
}

static const char *slopes_of(cleave_composer *c, const cleave_config *config) {
    const int64_t shape[] = {config->heads, 1, config->sequence};
    float *values = CLEAVE_ARENA_ARRAY(c->arena, float, shape[0] * shape[2]);
    c->failed = c->failed || values == NULL;
    for (int64_t h = 0; values != NULL && h < shape[0]; h++)
        for (int64_t k = 0; k < shape[2]; k++)
            values[h * shape[2] + k] = (float)(slope_of(h, shape[0]) * (double)k);
    return cleave_compose_floats(c, "slopes", 3, shape, values);
}

const char *cleave_compose_bloom(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.attention_bias = true;
    own.activation = "gelu_pytorch_tanh";
    const decoder d = {.c = c, .config = &own, .slopes = slopes_of(c, config)};
    const char *table;
    const char *ids = cleave_compose_data(c, "input_ids", CLEAVE_ONNX_INT64, 1, &config->sequence);
    const char *x = cleave_compose_embedding(c, "transformer.word_embeddings", ids,
                                             config->vocabulary, config->width, &table);
    x = norm(&d, "transformer", "word_embeddings_layernorm", x);
    for (int64_t i = 0; i < config->layers; i++) {
        const char *block = cleave_compose_name(c, "transformer.h.%lld", (long long)i);
        x = add(&d, block, "attended", x, attend(&d, block, norm(&d, block, "input_layernorm", x)));
        x = add(&d, block, "output", x,
                feed(&d, block, norm(&d, block, "post_attention_layernorm", x)));
    }
    return head_of(&d, norm(&d, "transformer", "ln_f", x), table);
}

/* ---- MPT ------------------------------------------------------------------------------------- */

static const char *mpt_norm(const decoder *d, const char *scope, const char *module,
                            const char *x) {
    return cleave_compose_norm(d->c, cleave_compose_name(d->c, "%s.%s", scope, module), x,
                               d->config->width, d->config->epsilon, CLEAVE_NORM_LAYER_UNBIASED);
}

static const char *mpt_attend(const decoder *d, const char *block, const char *x) {
    static const char *const which[] = {"q", "k", "v"};
    cleave_composer *c = d->c;
    const cleave_config *config = d->config;
    const char *scope = cleave_compose_name(c, "%s.attn", block), *parts[3];
    const cleave_composed_attention how = {
        .heads = {config->sequence, config->heads, config->heads, config->head},
        .scale = config->score_scale > 0 ? config->score_scale : 1 / sqrt((double)config->head),
        .bias = d->slopes,
        .is_causal = true,
        .dropout = config->attention_dropout};
    x = cleave_compose_sides(c, cleave_compose_name(c, "%s.Wqkv", scope), x, "ntc,shdc->ntshd", 4,
                             (int64_t[]){3, config->heads, config->head, config->width});
    x = cleave_compose_clip(c, cleave_compose_name(c, "%s.clipped", scope), x,
                            config->projection_clip);
    for (int i = 0; i < 3; i++) {
        const char *name = cleave_compose_name(c, "%s.%s", scope, which[i]);
        parts[i] = cleave_compose_side(c, cleave_compose_name(c, "%s_part", name), x, 2, i,
                                       config->sequence, config->width);
        parts[i] = cleave_compose_split_heads(c, name, parts[i], &how.heads, i == 0);
    }
    x = cleave_compose_attention(c, scope, &how, parts[0], parts[1], parts[2]);
    return product(d, scope, "out_proj", x, config->width, config->width);
}

static const char *mpt_feed(const decoder *d, const char *block, const char *x) {
    const int64_t width = d->config->width, inner = d->config->inner;
    const char *scope = cleave_compose_name(d->c, "%s.ffn", block);
    x = product(d, scope, "up_proj", x, width, inner);
    x = cleave_compose_activation(d->c, cleave_activation_find("gelu"),
                                  cleave_compose_name(d->c, "%s.act", scope), x);
    return product(d, scope, "down_proj", x, inner, width);
}

/* What is dropped of weights is dropped of what is added to the stream, too. */
const char *cleave_compose_mpt(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.dropout = config->attention_dropout;
    const decoder d = {.c = c, .config = &own, .slopes = slopes_of(c, config)};
    const char *table;
    const char *ids = cleave_compose_data(c, "input_ids", CLEAVE_ONNX_INT64, 1, &config->sequence);
    const char *x = cleave_compose_embedding(c, "transformer.wte", ids, config->vocabulary,
                                             config->width, &table);
    for (int64_t i = 0; i < config->layers; i++) {
        const char *block = cleave_compose_name(c, "transformer.blocks.%lld", (long long)i);
        x = add(&d, block, "attended", x, mpt_attend(&d, block, mpt_norm(&d, block, "norm_1", x)));
        x = add(&d, block, "output", x, mpt_feed(&d, block, mpt_norm(&d, block, "norm_2", x)));
    }
    return head_of(&d, mpt_norm(&d, "transformer", "norm_f", x), table);
}

/* ---- Falcon ---------------------------------------------------------------------------------- */

/* From Falcon 40B on attention and unit have a norm each. */
const char *cleave_compose_falcon(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    if (!config->groups_heads)
        own.kv_heads = config->shares_keys ? 1 : config->heads;
    const bool two = config->groups_heads && config->n_norms != 1;
    const decoder d = {
        .c = c, .config = &own, .rotary = cleave_compose_rotary_tables(c, "rotary", config)};
    const char *table;
    const char *ids = cleave_compose_data(c, "input_ids", CLEAVE_ONNX_INT64, 1, &config->sequence);
    const char *x = cleave_compose_embedding(c, "transformer.word_embeddings", ids,
                                             config->vocabulary, config->width, &table);
    for (int64_t i = 0; i < config->layers; i++) {
        const char *block = cleave_compose_name(c, "transformer.h.%lld", (long long)i);
        const char *y = norm(&d, block, two ? "ln_attn" : "input_layernorm", x);
        const char *fed = feed(&d, block, two ? norm(&d, block, "ln_mlp", x) : y);
        x = add(&d, block, "attended", x, attend(&d, block, y));
        x = add(&d, block, "output", x, fed);
    }
    return head_of(&d, norm(&d, "transformer", "ln_f", x), table);
}
