/* The towers of CLIP and SigLIP, each a model of its own that gives an embedding of an image or of
   a text.  CLIP reads a token before the patches, or the last of a text, and SigLIP pools an
   image's patches by one query of attention. */
#include "graph/import/config/families.h"
#include "graph/import/config/family_vision.h"

#include <math.h>

static const cleave_encoder_names names = {.attention = "self_attn",
                                           .query = "q_proj",
                                           .key = "k_proj",
                                           .value = "v_proj",
                                           .attended = "self_attn.out_proj",
                                           .attention_norm = "layer_norm1",
                                           .wide = "mlp.fc1",
                                           .act = "mlp.activation_fn",
                                           .narrow = "mlp.fc2",
                                           .unit_norm = "layer_norm2"};

/* ---- texts ----------------------------------------------------------------------------------- */

/* What is read of a text's last token, which ends it: [batch, width]. */
static const char *read_text(cleave_composer *c, const cleave_config *config, bool is_causal) {
    const cleave_encoder e = {.c = c,
                              .config = config,
                              .length = config->sequence,
                              .names = &names,
                              .biases = true,
                              .is_causal = is_causal};
    const char *ids = cleave_compose_data(c, "input_ids", CLEAVE_ONNX_INT64, 1, &config->sequence);
    const char *x = cleave_compose_embedding(c, "text_model.embeddings.token_embedding", ids,
                                             config->vocabulary, config->width, NULL);
    const char *positions =
        cleave_compose_rows(c, "text_model.embeddings.position_embedding", config->positions,
                            config->width, 0, config->sequence);
    x = CLEAVE_COMPOSE(c, "Add", "text_model.embeddings.with_positions", x, positions);
    x = cleave_encoder_run(&e, "text_model.encoder.layers", x);
    x = cleave_encoder_norm(&e, "text_model", "final_layer_norm", x);
    return cleave_encoder_row(&e, "text_model.pooled", x, config->sequence - 1);
}

const char *cleave_compose_clip_text(cleave_composer *c, const cleave_config *config) {
    const char *x = read_text(c, config, true);
    return cleave_compose_linear(c, "text_projection", x, config->width, config->labels, false);
}

const char *cleave_compose_siglip_text(cleave_composer *c, const cleave_config *config) {
    const char *x = read_text(c, config, false);
    return cleave_compose_linear(c, "text_model.head", x, config->width, config->labels, true);
}

/* ---- images ---------------------------------------------------------------------------------- */

const char *cleave_compose_clip_vision(cleave_composer *c, const cleave_config *config) {
    static const cleave_image_names image = {.patches = "patch_embedding",
                                             .tokens = {"class_embedding"},
                                             .positions = "position_embedding",
                                             .is_flat = true,
                                             .plain_patches = true};
    cleave_encoder e = cleave_image_encoder(c, config, &names, &image);
    e.biases = true;
    const char *x = cleave_embed_image(&e, "vision_model.embeddings", &image);
    x = cleave_encoder_norm(&e, "vision_model", "pre_layrnorm", x);
    x = cleave_encoder_run(&e, "vision_model.encoder.layers", x);
    x = cleave_encoder_row(&e, "vision_model.pooled", x, 0);
    x = cleave_encoder_norm(&e, "vision_model", "post_layernorm", x);
    return cleave_compose_linear(c, "visual_projection", x, config->width, config->labels, false);
}

/* Side `side` of the weight that has those of queries, keys and values below each other: `name` of
   x. */
static const char *project(const cleave_encoder *e, const char *scope, const char *name,
                           const char *x, const char *const all[2], int64_t side) {
    cleave_composer *c = e->c;
    const int64_t width = e->config->width;
    const char *scoped = cleave_encoder_name(e, scope, name);
    const char *weight = cleave_compose_slice(c, cleave_encoder_name(e, scoped, "weight"), all[0],
                                              0, side * width, (side + 1) * width);
    const char *bias = cleave_compose_slice(c, cleave_encoder_name(e, scoped, "bias"), all[1], 0,
                                            side * width, (side + 1) * width);
    return CLEAVE_COMPOSE(c, "Add", cleave_encoder_name(e, scoped, "biased"),
                          cleave_compose_tied(c, scoped, x, weight), bias);
}

/* One query, a parameter, attends to the patches: [batch, 1, width]. */
static const char *probe(const cleave_encoder *e, const char *head, const char *x) {
    static const char *const modules[] = {"q", "k", "v"};
    cleave_composer *c = e->c;
    const cleave_config *config = e->config;
    const int64_t width = config->width;
    const char *scope = cleave_encoder_name(e, head, "attention"), *parts[3];
    const char *const all[] = {
        cleave_compose_parameter(c, cleave_encoder_name(e, scope, "in_proj_weight"), 2,
                                 (int64_t[]){3 * width, width}),
        cleave_compose_parameter(c, cleave_encoder_name(e, scope, "in_proj_bias"), 1,
                                 (int64_t[]){3 * width})};
    const cleave_heads seen = {e->length, config->heads, config->heads, config->head};
    cleave_composed_attention how = {.heads = seen, .scale = 1 / sqrt((double)config->head)};
    how.heads.length = 1;
    const char *query = cleave_compose_parameter(c, cleave_encoder_name(e, head, "probe"), 3,
                                                 (int64_t[]){1, 1, width});
    for (int i = 0; i < 3; i++) {
        const char *part = cleave_compose_name(c, "%s_proj", modules[i]);
        parts[i] = project(e, scope, part, i == 0 ? query : x, all, i);
        parts[i] = cleave_compose_split_heads(c, cleave_encoder_name(e, scope, modules[i]),
                                              parts[i], i == 0 ? &how.heads : &seen, i == 0);
    }
    x = cleave_compose_attention(c, scope, &how, parts[0], parts[1], parts[2]);
    return cleave_compose_linear(c, cleave_encoder_name(e, scope, "out_proj"), x, width, width,
                                 true);
}

const char *cleave_compose_siglip_vision(cleave_composer *c, const cleave_config *config) {
    static const cleave_image_names image = {
        .patches = "patch_embedding", .positions = "position_embedding", .is_flat = true};
    static const char head[] = "vision_model.head";
    cleave_encoder e = cleave_image_encoder(c, config, &names, &image);
    e.biases = true;
    const char *x = cleave_embed_image(&e, "vision_model.embeddings", &image);
    x = cleave_encoder_run(&e, "vision_model.encoder.layers", x);
    x = cleave_encoder_norm(&e, "vision_model", "post_layernorm", x);
    x = probe(&e, head, x);
    const char *y = cleave_encoder_feed(&e, head, cleave_encoder_norm(&e, head, "layernorm", x));
    x = CLEAVE_COMPOSE(c, "Add", "vision_model.head.sum", x, y);
    return cleave_encoder_row(&e, "vision_model.pooled", x, 0);
}
