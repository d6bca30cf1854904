/* GPT-2, GPTBigCode and GPT-Neo: layer norms with biases, a unit of two products, and a table of
   positions.  GPT-2 keeps its weights transposed; the heads of GPTBigCode share a key; GPT-Neo has
   windows in turns, and scores that nothing scales. */
#include "graph/import/config/family_gpt.h"
#include "graph/import/config/families.h"

#include <math.h>

const char *cleave_gpt_activate(cleave_composer *c, const cleave_config *config, const char *scope,
                                const char *x) {
    return cleave_compose_activation(c, cleave_activation_find(config->activation),
                                     cleave_compose_name(c, "%s.act", scope), x);
}

cleave_composed_attention cleave_gpt_attention(const cleave_config *config) {
    return (cleave_composed_attention){
        .heads = {config->sequence, config->heads, config->kv_heads, config->head},
        .scale = 1 / sqrt((double)config->head),
        .is_causal = true,
        .dropout = config->attention_dropout};
}

const char *cleave_gpt_add(cleave_composer *c, const cleave_config *config, const char *name,
                           const char *x, const char *y) {
    y = cleave_compose_dropout(c, cleave_compose_name(c, "%s.dropout", name), y, config->dropout);
    return CLEAVE_COMPOSE(c, "Add", name, x, y);
}

const char *cleave_gpt_norm(cleave_composer *c, const cleave_config *config, const char *block,
                            const char *which, const char *x) {
    return cleave_compose_norm(c, cleave_compose_name(c, "%s.%s", block, which), x, config->width,
                               config->epsilon, CLEAVE_NORM_LAYER);
}

/* ---- GPT-2 and GPTBigCode -------------------------------------------------------------------- */

/* A layer with a bias, by its scope. */
typedef const char *(*biased_layer)(cleave_composer *c, const char *scope, const char *x,
                                    int64_t n_in, int64_t n_out);

static const char *biased_linear(cleave_composer *c, const char *scope, const char *x, int64_t n_in,
                                 int64_t n_out) {
    return cleave_compose_linear(c, scope, x, n_in, n_out, true);
}

/* One product gives all queries, and behind them keys and values. */
static const char *fused_attend(cleave_composer *c, const cleave_config *config, const char *block,
                                const char *x, int64_t layer, biased_layer product) {
    static const char *const which[] = {"q", "k", "v"};
    const char *scope = cleave_compose_name(c, "%s.attn", block), *parts[3];
    cleave_composed_attention how = cleave_gpt_attention(config);
    const int64_t wide = config->width, narrow = config->kv_heads * config->head;
    const int64_t ends[] = {0, wide, wide + narrow, wide + 2 * narrow};
    how.scale = config->scales ? how.scale : 1;
    how.scale /= config->scales_by_layer ? (double)(layer + 1) : 1;
    x = product(c, cleave_compose_name(c, "%s.c_attn", scope), x, wide, ends[3]);
    for (int i = 0; i < 3; i++) {
        parts[i] = cleave_compose_slice(c, cleave_compose_name(c, "%s.%s_part", scope, which[i]), x,
                                        2, ends[i], ends[i + 1]);
        parts[i] = cleave_compose_split_heads(c, cleave_compose_name(c, "%s.%s", scope, which[i]),
                                              parts[i], &how.heads, i == 0);
    }
    x = cleave_compose_attention(c, scope, &how, parts[0], parts[1], parts[2]);
    return product(c, cleave_compose_name(c, "%s.c_proj", scope), x, wide, wide);
}

static const char *fused_block(cleave_composer *c, const cleave_config *config, const char *x,
                               int64_t layer, biased_layer product) {
    const char *block = cleave_compose_name(c, "transformer.h.%lld", (long long)layer);
    const char *mlp = cleave_compose_name(c, "%s.mlp", block);
    const char *y = cleave_gpt_norm(c, config, block, "ln_1", x);
    y = fused_attend(c, config, block, y, layer, product);
    x = cleave_gpt_add(c, config, cleave_compose_name(c, "%s.attended", block), x, y);
    y = cleave_gpt_norm(c, config, block, "ln_2", x);
    y = product(c, cleave_compose_name(c, "%s.c_fc", mlp), y, config->width, config->inner);
    y = cleave_gpt_activate(c, config, mlp, y);
    y = product(c, cleave_compose_name(c, "%s.c_proj", mlp), y, config->inner, config->width);
    return cleave_gpt_add(c, config, cleave_compose_name(c, "%s.output", block), x, y);
}

static const char *gpt2_block(cleave_composer *c, const cleave_config *config, const char *x,
                              int64_t layer) {
    return fused_block(c, config, x, layer, cleave_compose_conv1d);
}

static const char *bigcode_block(cleave_composer *c, const cleave_config *config, const char *x,
                                 int64_t layer) {
    return fused_block(c, config, x, layer, biased_linear);
}

/* The whole, of such blocks. */
static const char *compose_blocks(cleave_composer *c, const cleave_config *config,
                                  const char *(*block)(cleave_composer *c,
                                                       const cleave_config *config, const char *x,
                                                       int64_t layer)) {
    const char *table;
    const char *ids = cleave_compose_data(c, "input_ids", CLEAVE_ONNX_INT64, 1, &config->sequence);
    const char *x = cleave_compose_embedding(c, "transformer.wte", ids, config->vocabulary,
                                             config->width, &table);
    const char *positions = cleave_compose_rows(c, "transformer.wpe", config->positions,
                                                config->width, 0, config->sequence);
    x = CLEAVE_COMPOSE(c, "Add", "transformer.embedded", x, positions);
    x = cleave_compose_dropout(c, "transformer.drop", x, config->embedding_dropout);
    for (int64_t i = 0; i < config->layers; i++)
        x = block(c, config, x, i);
    x = cleave_gpt_norm(c, config, "transformer", "ln_f", x);
    return config->tied
               ? cleave_compose_tied(c, "lm_head", x, table)
               : cleave_compose_linear(c, "lm_head", x, config->width, config->vocabulary, false);
}

const char *cleave_compose_gpt2(cleave_composer *c, const cleave_config *config) {
    return compose_blocks(c, config, gpt2_block);
}

const char *cleave_compose_gpt_bigcode(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.kv_heads = 1;
    return compose_blocks(c, &own, bigcode_block);
}

/* ---- GPT-Neo --------------------------------------------------------------------------------- */

static const char *neo_attend(cleave_composer *c, const cleave_config *config, const char *block,
                              const char *x, int64_t layer) {
    static const char *const which[] = {"q", "k", "v"};
    const char *scope = cleave_compose_name(c, "%s.attn.attention", block), *parts[3];
    cleave_composed_attention how = cleave_gpt_attention(config);
    how.scale = 1;
    how.window = config->windowed.has[layer] ? config->window : 0;
    for (int i = 0; i < 3; i++) {
        parts[i] = cleave_compose_linear(c, cleave_compose_name(c, "%s.%s_proj", scope, which[i]),
                                         x, config->width, config->width, false);
        parts[i] = cleave_compose_split_heads(c, cleave_compose_name(c, "%s.%s", scope, which[i]),
                                              parts[i], &how.heads, i == 0);
    }
    x = cleave_compose_attention(c, scope, &how, parts[0], parts[1], parts[2]);
    return cleave_compose_linear(c, cleave_compose_name(c, "%s.out_proj", scope), x, config->width,
                                 config->width, true);
}

static const char *neo_block(cleave_composer *c, const cleave_config *config, const char *x,
                             int64_t layer) {
    const char *block = cleave_compose_name(c, "transformer.h.%lld", (long long)layer);
    const char *mlp = cleave_compose_name(c, "%s.mlp", block);
    const char *y =
        neo_attend(c, config, block, cleave_gpt_norm(c, config, block, "ln_1", x), layer);
    x = cleave_gpt_add(c, config, cleave_compose_name(c, "%s.attended", block), x, y);
    y = cleave_gpt_norm(c, config, block, "ln_2", x);
    y = cleave_compose_linear(c, cleave_compose_name(c, "%s.c_fc", mlp), y, config->width,
                              config->inner, true);
    y = cleave_gpt_activate(c, config, mlp, y);
    y = cleave_compose_linear(c, cleave_compose_name(c, "%s.c_proj", mlp), y, config->inner,
                              config->width, true);
    return cleave_gpt_add(c, config, cleave_compose_name(c, "%s.output", block), x, y);
}

const char *cleave_compose_gpt_neo(cleave_composer *c, const cleave_config *config) {
    return compose_blocks(c, config, neo_block);
}
