/* ModernBERT: an encoder with rotary positions, norms before attention and a gated unit, and no
   biases but of the logits.  Most layers see keys that are near on both sides, and have rotary
   positions of their own; what the first layer reads was normed with the embedding.  The decoder
   sees what is before, by weights of their own for queries, keys and values. */
#include "graph/import/config/families.h"
#include "graph/import/config/sides.h"

#include <math.h>

typedef struct encoder {
    cleave_composer *c;
    const cleave_config *config;
    cleave_rotary_tables rotary, local_rotary; /* local: of layers with a window */
    bool is_causal;
} encoder;

static const char *name_of(const encoder *e, const char *scope, const char *what) {
    return cleave_compose_name(e->c, "%s.%s", scope, what);
}

static const char *norm(const encoder *e, const char *scope, const char *what, const char *x) {
    return cleave_compose_norm(e->c, name_of(e, scope, what), x, e->config->width,
                               e->config->epsilon, CLEAVE_NORM_LAYER_UNBIASED);
}

/* Of so many layers the first has no window. */
static bool is_local(const cleave_config *config, int64_t layer) {
    return config->windowed.n > 0 ? config->windowed.has[layer] : layer % config->whole_every != 0;
}

/* Queries, keys and values, [batch, length, width] each. */
static void project(const encoder *e, const char *scope, const char *x, const char *parts[3]) {
    static const char *const which[] = {"q", "k", "v"}, *const apart[] = {"q_proj", "k_proj",
                                                                          "v_proj"};
    cleave_composer *c = e->c;
    const cleave_config *config = e->config;
    if (!e->is_causal)
        x = cleave_compose_sides(c, name_of(e, scope, "Wqkv"), x, "ntc,shdc->ntshd", 4,
                                 (int64_t[]){3, config->heads, config->head, config->width});
    for (int i = 0; i < 3; i++)
        parts[i] =
            e->is_causal
                ? cleave_compose_linear(c, name_of(e, scope, apart[i]), x, config->width,
                                        config->width, false)
                : cleave_compose_side(c, cleave_compose_name(c, "%s.%s_part", scope, which[i]), x,
                                      2, i, config->sequence, config->width);
}

static const char *attend(const encoder *e, const char *block, const char *x, int64_t layer) {
    static const char *const which[] = {"q", "k", "v"};
    cleave_composer *c = e->c;
    const cleave_config *config = e->config;
    const bool local = is_local(config, layer);
    const int64_t near = config->window / 2;   /* keys that are seen on each side, */
    const int64_t seen = near + !e->is_causal; /* and up to its own */
    const bool hides = local && seen < config->sequence;
    const char *scope = name_of(e, block, "attn"), *parts[3];
    const cleave_composed_attention how = {
        .heads = {config->sequence, config->heads, config->heads, config->head},
        .scale = 1 / sqrt((double)config->head),
        .is_causal = e->is_causal,
        .window = hides ? seen : 0,
        .ahead = hides && !e->is_causal ? near : 0,
        .dropout = config->attention_dropout};
    project(e, scope, x, parts);
    for (int i = 0; i < 3; i++) {
        const char *name = name_of(e, scope, which[i]);
        parts[i] = cleave_compose_split_heads(c, name, parts[i], &how.heads, i == 0);
        if (i < 2)
            parts[i] = cleave_compose_rotary(c, cleave_compose_name(c, "%s_turned", name), parts[i],
                                             local ? &e->local_rotary : &e->rotary, config->head);
    }
    x = cleave_compose_attention(c, scope, &how, parts[0], parts[1], parts[2]);
    x = cleave_compose_linear(c, name_of(e, scope, "Wo"), x, config->width, config->width, false);
    return cleave_compose_dropout(c, name_of(e, scope, "out_drop"), x, config->attention_dropout);
}

static const char *feed(const encoder *e, const char *block, const char *x) {
    cleave_composer *c = e->c;
    const cleave_config *config = e->config;
    const char *scope = name_of(e, block, "mlp");
    x = cleave_compose_gated_sides(c, scope, x,
                                   &(cleave_gated_sides){.module = "Wi",
                                                         .function = "act",
                                                         .activation = config->activation,
                                                         .length = config->sequence,
                                                         .width = config->width,
                                                         .inner = config->inner});
    x = cleave_compose_dropout(c, name_of(e, scope, "drop"), x, config->dropout);
    return cleave_compose_linear(c, name_of(e, scope, "Wo"), x, config->inner, config->width,
                                 false);
}

static const char *encode(const encoder *e, const char *x) {
    cleave_composer *c = e->c;
    x = norm(e, "model.embeddings", "norm", x);
    x = cleave_compose_dropout(c, "model.embeddings.drop", x, e->config->embedding_dropout);
    for (int64_t i = 0; i < e->config->layers; i++) {
        const char *block = cleave_compose_name(c, "model.layers.%lld", (long long)i);
        const char *y = attend(e, block, i > 0 ? norm(e, block, "attn_norm", x) : x, i);
        x = CLEAVE_COMPOSE(c, "Add", name_of(e, block, "attended"), x, y);
        y = feed(e, block, norm(e, block, "mlp_norm", x));
        x = CLEAVE_COMPOSE(c, "Add", name_of(e, block, "output"), x, y);
    }
    return norm(e, "model", "final_norm", x);
}

/* `head` is the module between the last norm and what gives logits. */
static const char *compose(cleave_composer *c, const cleave_config *config, bool is_causal,
                           const char *head) {
    cleave_config local = *config;
    if (config->rotary[1].theta > 0)
        local.rotary[0] = config->rotary[1];
    const encoder e = {.c = c,
                       .config = config,
                       .rotary = cleave_compose_rotary_tables(c, "rotary", config),
                       .local_rotary = cleave_compose_rotary_tables(c, "rotary.local", &local),
                       .is_causal = is_causal};
    const int64_t width = config->width;
    const char *table;
    const char *ids = cleave_compose_data(c, "input_ids", CLEAVE_ONNX_INT64, 1, &config->sequence);
    const char *x = cleave_compose_embedding(c, "model.embeddings.tok_embeddings", ids,
                                             config->vocabulary, width, &table);
    x = encode(&e, x);
    x = cleave_compose_linear(c, name_of(&e, head, "dense"), x, width, width, false);
    x = cleave_compose_activation(c, cleave_activation_find("gelu"), name_of(&e, head, "act"), x);
    x = norm(&e, head, "norm", x);
    if (!config->tied)
        return cleave_compose_linear(c, "decoder", x, width, config->vocabulary, true);
    x = cleave_compose_tied(c, "decoder", x, table);
    return CLEAVE_COMPOSE(c, "Add", "decoder.biased", x,
                          cleave_compose_parameter(c, "decoder.bias", 1, &config->vocabulary));
}

const char *cleave_compose_modernbert(cleave_composer *c, const cleave_config *config) {
    return compose(c, config, false, "head");
}

const char *cleave_compose_modernbert_decoder(cleave_composer *c, const cleave_config *config) {
    return compose(c, config, true, "lm_head");
}
