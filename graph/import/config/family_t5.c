/* T5: an encoder and a decoder that attends to it.  Norms are RMS norms; scores are not scaled, but
   have a bias that is looked up by how far key and query are apart, in a table that all layers of a
   side share, or in one of each layer. */
#include "graph/import/config/distances.h"
#include "graph/import/config/families.h"

#include <math.h>
#include <string.h>

typedef struct side {
    cleave_composer *c;
    const cleave_config *config;
    const char *name; /* "encoder" or "decoder" */
    bool is_decoder;
    const char *bias;   /* [heads, queries, keys]; null until the first layer has been made */
    const char *memory; /* what the encoder gave; null for itself */
} side;

static const char *norm(const side *s, const char *scope, const char *x) {
    return cleave_compose_norm(s->c, scope, x, s->config->width, s->config->epsilon,
                               CLEAVE_NORM_RMS);
}

static const char *drop(const side *s, const char *scope, const char *x) {
    return cleave_compose_dropout(s->c, cleave_compose_name(s->c, "%s.dropout", scope), x,
                                  s->config->dropout);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static const char *attend(side *s, const char *layer, const char *module, const char *x,
                          const char *memory) {
    cleave_composer *c = s->c;
    const cleave_config *config = s->config;
    const char *scope = cleave_compose_name(c, "%s.%s", layer, module);
    const char *normal = norm(s, cleave_compose_name(c, "%s.layer_norm", layer), x), *parts[3];
    bool of_itself = memory == NULL;
    int64_t inner = config->heads * config->head;
    if (of_itself && (s->bias == NULL || s->config->biases_by_layer))
        s->bias = cleave_compose_distance_bias(
            c, s->config, cleave_compose_name(c, "%s.relative_attention_bias", scope),
            !s->is_decoder);
    const cleave_composed_attention how = {
        .heads = {config->sequence, config->heads, config->heads, config->head},
        .scale = 1,
        .bias = of_itself ? s->bias : NULL,
        .is_causal = of_itself && s->is_decoder,
        .dropout = config->dropout};
    for (int i = 0; i < 3; i++) {
        const char *from = i > 0 && !of_itself ? memory : normal;
        parts[i] = cleave_compose_linear(c, cleave_compose_name(c, "%s.%c", scope, "qkv"[i]), from,
                                         config->width, inner, false);
        parts[i] =
            cleave_compose_split_heads(c, cleave_compose_name(c, "%s.%c_heads", scope, "qkv"[i]),
                                       parts[i], &how.heads, i == 0);
    }
    const char *y = cleave_compose_attention(c, scope, &how, parts[0], parts[1], parts[2]);
    y = cleave_compose_linear(c, cleave_compose_name(c, "%s.o", scope), y, inner, config->width,
                              false);
    y = drop(s, layer, y);
    return CLEAVE_COMPOSE(c, "Add", cleave_compose_name(c, "%s.output", layer), x, y);
}

/* "gated-gelu" is gated by GELU in its form with tanh. */
static const cleave_activation *function_of(const cleave_config *config, bool *is_gated) {
    static const char gated[] = "gated-";
    *is_gated = strncmp(config->activation, gated, sizeof gated - 1) == 0;
    const char *name = config->activation + (*is_gated ? sizeof gated - 1 : 0);
    return cleave_activation_find(*is_gated && strcmp(name, "gelu") == 0 ? "gelu_new" : name);
}

static const char *feed(const side *s, const char *layer, const char *x) {
    cleave_composer *c = s->c;
    const cleave_config *config = s->config;
    bool is_gated;
    const cleave_activation *function = function_of(config, &is_gated);
    const char *scope = cleave_compose_name(c, "%s.DenseReluDense", layer);
    const char *normal = norm(s, cleave_compose_name(c, "%s.layer_norm", layer), x);
    const char *y =
        cleave_compose_linear(c, cleave_compose_name(c, is_gated ? "%s.wi_0" : "%s.wi", scope),
                              normal, config->width, config->inner, false);
    y = cleave_compose_activation(c, function, cleave_compose_name(c, "%s.act", scope), y);
    if (is_gated) {
        const char *up = cleave_compose_linear(c, cleave_compose_name(c, "%s.wi_1", scope), normal,
                                               config->width, config->inner, false);
        y = CLEAVE_COMPOSE(c, "Mul", cleave_compose_name(c, "%s.gated", scope), y, up);
    }
    y = drop(s, scope, y);
    y = cleave_compose_linear(c, cleave_compose_name(c, "%s.wo", scope), y, config->inner,
                              config->width, false);
    y = drop(s, layer, y);
    return CLEAVE_COMPOSE(c, "Add", cleave_compose_name(c, "%s.output", layer), x, y);
}

static const char *run_side(side *s, const char *x, int64_t layers) {
    cleave_composer *c = s->c;
    x = drop(s, s->name, x);
    for (int64_t i = 0; i < layers; i++) {
        const char *block = cleave_compose_name(c, "%s.block.%lld", s->name, (long long)i);
        x = attend(s, cleave_compose_name(c, "%s.layer.0", block), "SelfAttention", x, NULL);
        if (s->is_decoder)
            x = attend(s, cleave_compose_name(c, "%s.layer.1", block), "EncDecAttention", x,
                       s->memory);
        x = feed(s, cleave_compose_name(c, "%s.layer.%d", block, s->is_decoder ? 2 : 1), x);
    }
    x = norm(s, cleave_compose_name(c, "%s.final_layer_norm", s->name), x);
    return drop(s, cleave_compose_name(c, "%s.final", s->name), x);
}

/* Where the embedding's table gives the logits, what they are made of is scaled. */
static const char *predict(cleave_composer *c, const cleave_config *config, const char *table,
                           const char *x) {
    if (!config->tied)
        return cleave_compose_linear(c, "lm_head", x, config->width, config->vocabulary, false);
    if (!config->scales)
        return cleave_compose_tied(c, "lm_head", x, table);
    x = CLEAVE_COMPOSE(c, "Mul", "decoder.scaled", x,
                       cleave_compose_scalar(c, "decoder.scale", 1 / sqrt((double)config->width)));
    return cleave_compose_tied(c, "lm_head", x, table);
}

const char *cleave_compose_t5(cleave_composer *c, const cleave_config *config) {
    const char *table;
    const char *ids = cleave_compose_data(c, "input_ids", CLEAVE_ONNX_INT64, 1, &config->sequence);
    const char *made =
        cleave_compose_data(c, "decoder_input_ids", CLEAVE_ONNX_INT64, 1, &config->sequence);
    const char *x =
        cleave_compose_embedding(c, "shared", ids, config->vocabulary, config->width, &table);
    side encoder = {.c = c, .config = config, .name = "encoder"};
    x = run_side(&encoder, x, config->layers);
    side decoder = {.c = c, .config = config, .name = "decoder", .is_decoder = true, .memory = x};
    x = CLEAVE_COMPOSE(c, "Gather", "decoder.embed_tokens", table, made);
    x = run_side(&decoder, x, config->decoder_layers > 0 ? config->decoder_layers : config->layers);
    return predict(c, config, table, x);
}

/* Each layer has a table of its own, and what gives the logits is scaled unless the file says that
   the tables are two, which they never are. */
const char *cleave_compose_umt5(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.biases_by_layer = own.tied = true;
    own.scales = config->tied;
    return cleave_compose_t5(c, &own);
}
