/* GPT-2, OPT, GPT-NeoX and Phi: layer norms with biases and a unit of two products.  GPT-2 and OPT
   have a table of positions, and GPT-2 keeps its weights transposed; the others turn a share of
   each head, and may add attention and unit to the same x. */
#include "graph/import/config/families.h"

#include <math.h>

static const char *activate(cleave_composer *c, const cleave_config *config, const char *scope,
                            const char *x) {
    return cleave_compose_activation(c, cleave_activation_find(config->activation),
                                     cleave_compose_name(c, "%s.act", scope), x);
}

static cleave_composed_attention attention_of(const cleave_config *config) {
    return (cleave_composed_attention){
        .heads = {config->sequence, config->heads, config->kv_heads, config->head},
        .scale = 1 / sqrt((double)config->head),
        .is_causal = true,
        .dropout = config->attention_dropout};
}

/* x + y, y being dropped out first. */
static const char *add_residual(cleave_composer *c, const cleave_config *config, const char *name,
                                const char *x, const char *y) {
    y = cleave_compose_dropout(c, cleave_compose_name(c, "%s.dropout", name), y, config->dropout);
    return CLEAVE_COMPOSE(c, "Add", name, x, y);
}

static const char *layer_norm(cleave_composer *c, const cleave_config *config, const char *block,
                              const char *which, const char *x) {
    return cleave_compose_norm(c, cleave_compose_name(c, "%s.%s", block, which), x, config->width,
                               config->epsilon, CLEAVE_NORM_LAYER);
}

/* ---- GPT-2 ----------------------------------------------------------------------------------- */

static const char *gpt2_attend(cleave_composer *c, const cleave_config *config, const char *block,
                               const char *x, int64_t layer) {
    const char *scope = cleave_compose_name(c, "%s.attn", block);
    const char *which[] = {"q", "k", "v"}, *parts[3];
    cleave_composed_attention how = attention_of(config);
    how.scale = config->scales ? how.scale : 1;
    how.scale /= config->scales_by_layer ? (double)(layer + 1) : 1;
    x = cleave_compose_conv1d(c, cleave_compose_name(c, "%s.c_attn", scope), x, config->width,
                              3 * config->width);
    for (int i = 0; i < 3; i++) {
        parts[i] = cleave_compose_slice(c, cleave_compose_name(c, "%s.%s_part", scope, which[i]), x,
                                        2, i * config->width, (i + 1) * config->width);
        parts[i] = cleave_compose_split_heads(c, cleave_compose_name(c, "%s.%s", scope, which[i]),
                                              parts[i], &how.heads, i == 0);
    }
    x = cleave_compose_attention(c, scope, &how, parts[0], parts[1], parts[2]);
    return cleave_compose_conv1d(c, cleave_compose_name(c, "%s.c_proj", scope), x, config->width,
                                 config->width);
}

static const char *gpt2_block(cleave_composer *c, const cleave_config *config, const char *x,
                              int64_t layer) {
    const char *block = cleave_compose_name(c, "transformer.h.%lld", (long long)layer);
    const char *mlp = cleave_compose_name(c, "%s.mlp", block);
    const char *y = layer_norm(c, config, block, "ln_1", x);
    y = gpt2_attend(c, config, block, y, layer);
    x = add_residual(c, config, cleave_compose_name(c, "%s.attended", block), x, y);
    y = layer_norm(c, config, block, "ln_2", x);
    y = cleave_compose_conv1d(c, cleave_compose_name(c, "%s.c_fc", mlp), y, config->width,
                              config->inner);
    y = activate(c, config, mlp, y);
    y = cleave_compose_conv1d(c, cleave_compose_name(c, "%s.c_proj", mlp), y, config->inner,
                              config->width);
    return add_residual(c, config, cleave_compose_name(c, "%s.output", block), x, y);
}

const char *cleave_compose_gpt2(cleave_composer *c, const cleave_config *config) {
    const char *table;
    const char *ids = cleave_compose_data(c, "input_ids", CLEAVE_ONNX_INT64, 1, &config->sequence);
    const char *x = cleave_compose_embedding(c, "transformer.wte", ids, config->vocabulary,
                                             config->width, &table);
    const char *positions = cleave_compose_rows(c, "transformer.wpe", config->positions,
                                                config->width, 0, config->sequence);
    x = CLEAVE_COMPOSE(c, "Add", "transformer.embedded", x, positions);
    x = cleave_compose_dropout(c, "transformer.drop", x, config->embedding_dropout);
    for (int64_t i = 0; i < config->layers; i++)
        x = gpt2_block(c, config, x, i);
    x = layer_norm(c, config, "transformer", "ln_f", x);
    return config->tied
               ? cleave_compose_tied(c, "lm_head", x, table)
               : cleave_compose_linear(c, "lm_head", x, config->width, config->vocabulary, false);
}

/* ---- OPT ------------------------------------------------------------------------------------- */

static const char *opt_linear(cleave_composer *c, const cleave_config *config, const char *block,
                              const char *what, const char *x, int64_t n_in, int64_t n_out) {
    return cleave_compose_linear(c, cleave_compose_name(c, "%s.%s", block, what), x, n_in, n_out,
                                 config->attention_bias);
}

static const char *opt_attend(cleave_composer *c, const cleave_config *config, const char *block,
                              const char *x) {
    static const char *const modules[] = {"q_proj", "k_proj", "v_proj"};
    static const char *const heads[] = {"q", "k", "v"};
    const char *scope = cleave_compose_name(c, "%s.self_attn", block), *parts[3];
    const cleave_composed_attention how = attention_of(config);
    for (int i = 0; i < 3; i++) {
        parts[i] = opt_linear(c, config, scope, modules[i], x, config->width, config->width);
        parts[i] = cleave_compose_split_heads(c, cleave_compose_name(c, "%s.%s", scope, heads[i]),
                                              parts[i], &how.heads, i == 0);
    }
    x = cleave_compose_attention(c, scope, &how, parts[0], parts[1], parts[2]);
    return opt_linear(c, config, scope, "out_proj", x, config->width, config->width);
}

static const char *opt_block(cleave_composer *c, const cleave_config *config, const char *x,
                             int64_t layer) {
    const char *block = cleave_compose_name(c, "model.decoder.layers.%lld", (long long)layer);
    bool before = config->norms_before;
    const char *y = before ? layer_norm(c, config, block, "self_attn_layer_norm", x) : x;
    y = opt_attend(c, config, block, y);
    x = add_residual(c, config, cleave_compose_name(c, "%s.attended", block), x, y);
    x = before ? x : layer_norm(c, config, block, "self_attn_layer_norm", x);
    y = before ? layer_norm(c, config, block, "final_layer_norm", x) : x;
    y = opt_linear(c, config, block, "fc1", y, config->width, config->inner);
    y = activate(c, config, block, y);
    y = opt_linear(c, config, block, "fc2", y, config->inner, config->width);
    x = add_residual(c, config, cleave_compose_name(c, "%s.output", block), x, y);
    return before ? x : layer_norm(c, config, block, "final_layer_norm", x);
}

/* The first two rows of its table of positions are no positions. */
const char *cleave_compose_opt(cleave_composer *c, const cleave_config *config) {
    enum { FIRST = 2 };
    cleave_config own = *config;
    own.epsilon = 1e-5;
    int64_t width = config->width,
            embedded = config->embedded_width > 0 ? config->embedded_width : width;
    const char *table;
    const char *ids = cleave_compose_data(c, "input_ids", CLEAVE_ONNX_INT64, 1, &config->sequence);
    const char *x = cleave_compose_embedding(c, "model.decoder.embed_tokens", ids,
                                             config->vocabulary, embedded, &table);
    if (embedded != width)
        x = cleave_compose_linear(c, "model.decoder.project_in", x, embedded, width, false);
    const char *positions =
        cleave_compose_rows(c, "model.decoder.embed_positions", config->positions + FIRST, width,
                            FIRST, config->sequence);
    x = CLEAVE_COMPOSE(c, "Add", "model.decoder.embedded", x, positions);
    for (int64_t i = 0; i < config->layers; i++)
        x = opt_block(c, &own, x, i);
    if (config->norms_before)
        x = layer_norm(c, &own, "model.decoder", "final_layer_norm", x);
    if (embedded != width)
        x = cleave_compose_linear(c, "model.decoder.project_out", x, width, embedded, false);
    return config->tied
               ? cleave_compose_tied(c, "lm_head", x, table)
               : cleave_compose_linear(c, "lm_head", x, embedded, config->vocabulary, false);
}

/* ---- what the other two share ---------------------------------------------------------------- */

typedef struct turned {
    cleave_composer *c;
    const cleave_config *config;
    cleave_rotary_tables rotary;
} turned;

static const char *turn(const turned *t, const char *scope, const char *which, const char *x) {
    return cleave_compose_rotary(t->c, cleave_compose_name(t->c, "%s.%s_turned", scope, which), x,
                                 &t->rotary, t->config->head);
}

static const char *feed(const turned *t, const char *scope, const char *wide, const char *narrow,
                        const char *x) {
    cleave_composer *c = t->c;
    x = cleave_compose_linear(c, cleave_compose_name(c, "%s.%s", scope, wide), x, t->config->width,
                              t->config->inner, true);
    x = activate(c, t->config, scope, x);
    return cleave_compose_linear(c, cleave_compose_name(c, "%s.%s", scope, narrow), x,
                                 t->config->inner, t->config->width, true);
}

static turned begin(cleave_composer *c, const cleave_config *config) {
    return (turned){
        .c = c, .config = config, .rotary = cleave_compose_rotary_tables(c, "rotary", config)};
}

/* ---- Phi ------------------------------------------------------------------------------------- */

static const char *phi_heads(const turned *t, const char *scope, const char *which, const char *x,
                             const cleave_heads *heads) {
    cleave_composer *c = t->c;
    bool is_query = which[0] == 'q';
    int64_t n = (is_query ? heads->heads : heads->kv_heads) * heads->size;
    x = cleave_compose_linear(c, cleave_compose_name(c, "%s.%s_proj", scope, which), x,
                              t->config->width, n, true);
    x = cleave_compose_split_heads(c, cleave_compose_name(c, "%s.%s", scope, which), x, heads,
                                   is_query);
    if (which[0] == 'v')
        return x;
    if (t->config->qk_norm)
        x = cleave_compose_norm(c, cleave_compose_name(c, "%s.%s_layernorm", scope, which), x,
                                heads->size, t->config->epsilon, CLEAVE_NORM_LAYER);
    return turn(t, scope, which, x);
}

static const char *phi_block(const turned *t, const char *x, int64_t layer) {
    cleave_composer *c = t->c;
    const cleave_config *config = t->config;
    const cleave_composed_attention how = attention_of(config);
    const char *block = cleave_compose_name(c, "model.layers.%lld", (long long)layer);
    const char *scope = cleave_compose_name(c, "%s.self_attn", block);
    const char *y = layer_norm(c, config, block, "input_layernorm", x);
    const char *q = phi_heads(t, scope, "q", y, &how.heads);
    const char *k = phi_heads(t, scope, "k", y, &how.heads);
    const char *v = phi_heads(t, scope, "v", y, &how.heads);
    const char *attended = cleave_compose_attention(c, scope, &how, q, k, v);
    attended = cleave_compose_linear(c, cleave_compose_name(c, "%s.dense", scope), attended,
                                     config->heads * config->head, config->width, true);
    y = feed(t, cleave_compose_name(c, "%s.mlp", block), "fc1", "fc2", y);
    x = add_residual(c, config, cleave_compose_name(c, "%s.attended", block), x, attended);
    return add_residual(c, config, cleave_compose_name(c, "%s.output", block), x, y);
}

const char *cleave_compose_phi(cleave_composer *c, const cleave_config *config) {
    const char *table;
    const char *ids = cleave_compose_data(c, "input_ids", CLEAVE_ONNX_INT64, 1, &config->sequence);
    const char *x = cleave_compose_embedding(c, "model.embed_tokens", ids, config->vocabulary,
                                             config->width, &table);
    x = cleave_compose_dropout(c, "model.embed_dropout", x, config->embedding_dropout);
    const turned t = begin(c, config);
    for (int64_t i = 0; i < config->layers; i++)
        x = phi_block(&t, x, i);
    x = layer_norm(c, config, "model", "final_layernorm", x);
    return cleave_compose_linear(c, "lm_head", x, config->width, config->vocabulary, true);
}

/* ---- GPT-NeoX -------------------------------------------------------------------------------- */

/* One product gives query, key and value of each head side by side. */
static const char *neox_attend(const turned *t, const char *block, const char *x) {
    cleave_composer *c = t->c;
    const cleave_config *config = t->config;
    const char *scope = cleave_compose_name(c, "%s.attention", block);
    const char *which[] = {"q", "k", "v"}, *parts[3];
    const cleave_composed_attention how = attention_of(config);
    cleave_heads triple = how.heads;
    triple.size *= 3;
    x = cleave_compose_linear(c, cleave_compose_name(c, "%s.query_key_value", scope), x,
                              config->width, 3 * config->width, config->attention_bias);
    x = cleave_compose_split_heads(c, cleave_compose_name(c, "%s.qkv", scope), x, &triple, true);
    for (int i = 0; i < 3; i++) {
        parts[i] = cleave_compose_slice(c, cleave_compose_name(c, "%s.%s", scope, which[i]), x, 3,
                                        i * config->head, (i + 1) * config->head);
        if (i < 2)
            parts[i] = turn(t, scope, which[i], parts[i]);
    }
    x = cleave_compose_attention(c, scope, &how, parts[0], parts[1], parts[2]);
    return cleave_compose_linear(c, cleave_compose_name(c, "%s.dense", scope), x, config->width,
                                 config->width, config->attention_bias);
}

static const char *neox_block(const turned *t, const char *x, int64_t layer) {
    cleave_composer *c = t->c;
    const cleave_config *config = t->config;
    const char *block = cleave_compose_name(c, "gpt_neox.layers.%lld", (long long)layer);
    const char *y = layer_norm(c, config, block, "input_layernorm", x);
    y = neox_attend(t, block, y);
    const char *attended =
        add_residual(c, config, cleave_compose_name(c, "%s.attended", block), x, y);
    y = layer_norm(c, config, block, "post_attention_layernorm", config->parallel ? x : attended);
    y = feed(t, cleave_compose_name(c, "%s.mlp", block), "dense_h_to_4h", "dense_4h_to_h", y);
    return add_residual(c, config, cleave_compose_name(c, "%s.output", block), attended, y);
}

const char *cleave_compose_gpt_neox(cleave_composer *c, const cleave_config *config) {
    const char *table;
    const char *ids = cleave_compose_data(c, "input_ids", CLEAVE_ONNX_INT64, 1, &config->sequence);
    const char *x = cleave_compose_embedding(c, "gpt_neox.embed_in", ids, config->vocabulary,
                                             config->width, &table);
    x = cleave_compose_dropout(c, "gpt_neox.emb_dropout", x, config->dropout);
    const turned t = begin(c, config);
    for (int64_t i = 0; i < config->layers; i++)
        x = neox_block(&t, x, i);
    x = layer_norm(c, config, "gpt_neox", "final_layer_norm", x);
    return config->tied
               ? cleave_compose_tied(c, "embed_out", x, table)
               : cleave_compose_linear(c, "embed_out", x, config->width, config->vocabulary, false);
}
