/* Encoders of images that classify them: ViT, and DeiT and DINOv2, which are made like it.  An
   image is cut into patches, which stand in a row behind a token that its class is read from. */
#include "graph/import/config/family_vision.h"
#include "graph/import/config/families.h"

/* ---- what blocks read ------------------------------------------------------------------------ */

static int64_t count_patches(const cleave_config *config) {
    const int64_t side = config->image / config->patch;
    return side * side;
}

/* Rows that have a position. */
static int64_t count_placed(const cleave_config *config, const cleave_image_names *image) {
    return count_patches(config) + (image->tokens[0] != NULL) + (image->tokens[1] != NULL);
}

cleave_encoder cleave_image_encoder(cleave_composer *c, const cleave_config *config,
                                    const cleave_encoder_names *names,
                                    const cleave_image_names *image) {
    const int64_t registers = image->registers != NULL ? config->registers : 0;
    return (cleave_encoder){.c = c,
                            .config = config,
                            .length = count_placed(config, image) + registers,
                            .names = names,
                            .biases = config->attention_bias};
}

/* [batch, patches, width] */
static const char *cut(const cleave_encoder *e, const char *scope,
                       const cleave_image_names *names) {
    cleave_composer *c = e->c;
    const cleave_config *config = e->config;
    const int64_t patch[] = {config->patch, config->patch};
    const char *bias = NULL;
    const char *image =
        cleave_compose_data(c, "pixel_values", CLEAVE_ONNX_FLOAT, 3,
                            (int64_t[]){config->channels, config->image, config->image});
    const char *module = cleave_encoder_name(e, scope, names->patches);
    const char *weight = cleave_compose_parameter(
        c, cleave_encoder_name(e, module, "weight"), 4,
        (int64_t[]){config->width, config->channels, config->patch, config->patch});
    if (!names->plain_patches)
        bias =
            cleave_compose_parameter(c, cleave_encoder_name(e, module, "bias"), 1, &config->width);
    const char *x = CLEAVE_COMPOSE(c, "Conv", module, image, weight, bias);
    cleave_compose_integers(c, "kernel_shape", 2, patch);
    cleave_compose_integers(c, "strides", 2, patch);
    x = cleave_compose_reshape(c, cleave_encoder_name(e, scope, "columns"), x, 3,
                               (int64_t[]){0, config->width, count_patches(config)});
    return cleave_compose_transpose(c, cleave_encoder_name(e, scope, "patches"), x, 3,
                                    (int64_t[]){0, 2, 1});
}

/* `rows` rows of a parameter, called `token`, for each sample of x, before x [batch, length,
   width]; a parameter that is flat has one, and no other dimension than the width. */
static const char *put_before(const cleave_encoder *e, const char *token, bool is_flat,
                              int64_t rows, const char *x) {
    cleave_composer *c = e->c;
    const int64_t two = 2, width = e->config->width, shape[] = {1, rows, width};
    int64_t *row = CLEAVE_ARENA_ARRAY(c->arena, int64_t, 2);
    c->failed = c->failed || row == NULL;
    if (row == NULL)
        return NULL;
    row[0] = rows;
    row[1] = width;
    const char *values =
        cleave_compose_parameter(c, token, is_flat ? 1 : 3, is_flat ? &width : shape);
    const char *samples = CLEAVE_COMPOSE(c, "Shape", cleave_encoder_name(e, token, "samples"), x);
    cleave_compose_integer(c, "start", 0);
    cleave_compose_integer(c, "end", 1);
    const char *rest = cleave_compose_ids(c, cleave_encoder_name(e, token, "row"), 1, &two, row);
    const char *all =
        cleave_compose_concat(c, cleave_encoder_name(e, token, "shape"), 0, samples, rest);
    values = CLEAVE_COMPOSE(c, "Expand", cleave_encoder_name(e, token, "of_samples"), values, all);
    return cleave_compose_concat(c, cleave_encoder_name(e, token, "and_rest"), 1, values, x);
}

/* Registers behind the first row of x. */
static const char *insert_registers(const cleave_encoder *e, const char *name, const char *x) {
    cleave_composer *c = e->c;
    const int64_t rows = e->config->registers, placed = e->length - rows;
    const char *first = cleave_compose_slice(c, cleave_encoder_name(e, name, "before"), x, 1, 0, 1);
    x = cleave_compose_slice(c, cleave_encoder_name(e, name, "behind"), x, 1, 1, placed);
    x = put_before(e, name, false, rows, x);
    return cleave_compose_concat(c, cleave_encoder_name(e, name, "all"), 1, first, x);
}

const char *cleave_embed_image(const cleave_encoder *e, const char *scope,
                               const cleave_image_names *names) {
    cleave_composer *c = e->c;
    const int64_t width = e->config->width, placed = count_placed(e->config, names);
    const char *x = cut(e, scope, names);
    for (int i = 1; i >= 0; i--)
        if (names->tokens[i] != NULL)
            x = put_before(e, cleave_encoder_name(e, scope, names->tokens[i]), names->is_flat, 1,
                           x);
    const char *where = cleave_encoder_name(e, scope, names->positions);
    const char *positions =
        names->is_flat ? cleave_compose_rows(c, where, placed, width, 0, placed)
                       : cleave_compose_parameter(c, where, 3, (int64_t[]){1, placed, width});
    x = CLEAVE_COMPOSE(c, "Add", cleave_encoder_name(e, scope, "with_positions"), x, positions);
    if (names->registers != NULL)
        x = insert_registers(e, cleave_encoder_name(e, scope, names->registers), x);
    return cleave_compose_dropout(c, cleave_encoder_name(e, scope, "dropout"), x,
                                  e->config->dropout);
}

/* ---- ViT and DeiT ---------------------------------------------------------------------------- */

static const cleave_encoder_names vit_names = {.attention = "attention.attention",
                                               .query = "query",
                                               .key = "key",
                                               .value = "value",
                                               .attended = "attention.output.dense",
                                               .attention_norm = "layernorm_before",
                                               .wide = "intermediate.dense",
                                               .act = "intermediate.act",
                                               .narrow = "output.dense",
                                               .unit_norm = "layernorm_after",
                                               .attended_dropout = "attention.output.dropout",
                                               .dropout = "output.dropout"};

/* What the last norm gives of an image, by the blocks of `model`. */
static const char *encode(const cleave_encoder *e, const char *model,
                          const cleave_image_names *names) {
    const char *x = cleave_embed_image(e, cleave_encoder_name(e, model, "embeddings"), names);
    x = cleave_encoder_run(e, cleave_encoder_name(e, model, "encoder.layer"), x);
    return cleave_encoder_norm(e, model, "layernorm", x);
}

/* Logits by one token's row. */
static const char *classify(const cleave_encoder *e, const char *module, const char *x,
                            int64_t token) {
    x = cleave_encoder_row(e, cleave_encoder_name(e, module, "class"), x, token);
    return cleave_compose_linear(e->c, module, x, e->config->width, e->config->labels, true);
}

const char *cleave_compose_vit(cleave_composer *c, const cleave_config *config) {
    static const cleave_image_names image = {.patches = "patch_embeddings.projection",
                                             .tokens = {"cls_token"},
                                             .positions = "position_embeddings"};
    const cleave_encoder e = cleave_image_encoder(c, config, &vit_names, &image);
    return classify(&e, "classifier", encode(&e, "vit", &image), 0);
}

/* A second token learns what a teacher says; logits are the mean of both tokens'. */
const char *cleave_compose_deit(cleave_composer *c, const cleave_config *config) {
    static const cleave_image_names image = {.patches = "patch_embeddings.projection",
                                             .tokens = {"cls_token", "distillation_token"},
                                             .positions = "position_embeddings"};
    const cleave_encoder e = cleave_image_encoder(c, config, &vit_names, &image);
    const char *x = encode(&e, "deit", &image);
    const char *own = classify(&e, "cls_classifier", x, 0);
    const char *taught = classify(&e, "distillation_classifier", x, 1);
    return cleave_compose_scaled(c, "logits", CLEAVE_COMPOSE(c, "Add", "logits", own, taught), 0.5);
}

/* ---- DINOv2 ---------------------------------------------------------------------------------- */

/* The mean of a sample's patches, which are behind all else: [batch, width]. */
static const char *mean_of_patches(const cleave_encoder *e, const char *x) {
    static const int64_t one = 1;
    x = cleave_compose_slice(e->c, "classifier.patches", x, 1, e->length - count_patches(e->config),
                             e->length);
    x = CLEAVE_COMPOSE(e->c, "ReduceMean", "classifier.mean", x,
                       cleave_compose_ids(e->c, "classifier.axes", 1, &one, &one));
    cleave_compose_integer(e->c, "keepdims", 0);
    return x;
}

/* What attention and unit give is scaled by trained numbers; the class is read from the token and
   the mean of the patches.  The widest of them have a gated unit, of two thirds of the width. */
static const char *compose_dinov2(cleave_composer *c, const cleave_config *config,
                                  const char *model, const char *registers) {
    const cleave_image_names image = {.patches = "patch_embeddings.projection",
                                      .tokens = {"cls_token"},
                                      .registers = registers,
                                      .positions = "position_embeddings"};
    const bool gated = config->gated;
    const cleave_encoder_names names = {.attention = "attention.attention",
                                        .query = "query",
                                        .key = "key",
                                        .value = "value",
                                        .attended = "attention.output.dense",
                                        .attention_norm = "norm1",
                                        .attention_scale = "layer_scale1.lambda1",
                                        .wide = gated ? "mlp.weights_in" : "mlp.fc1",
                                        .act = "mlp.activation",
                                        .narrow = gated ? "mlp.weights_out" : "mlp.fc2",
                                        .unit_norm = "norm2",
                                        .unit_scale = "layer_scale2.lambda1",
                                        .is_gated = gated};
    cleave_config own = *config;
    if (gated) {
        own.inner = (config->inner * 2 / 3 + 7) / 8 * 8;
        own.activation = "silu";
    }
    const cleave_encoder e = cleave_image_encoder(c, &own, &names, &image);
    const char *x = encode(&e, model, &image);
    const char *token = cleave_encoder_row(&e, "classifier.class", x, 0);
    x = cleave_compose_concat(c, "classifier.both", 1, token, mean_of_patches(&e, x));
    return cleave_compose_linear(c, "classifier", x, 2 * config->width, config->labels, true);
}

const char *cleave_compose_dinov2(cleave_composer *c, const cleave_config *config) {
    return compose_dinov2(c, config, "dinov2", NULL);
}

const char *cleave_compose_dinov2_with_registers(cleave_composer *c, const cleave_config *config) {
    return compose_dinov2(c, config, "dinov2_with_registers", "register_tokens");
}
