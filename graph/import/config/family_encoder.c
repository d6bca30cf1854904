/* Encoders: BERT, RoBERTa, DistilBERT, ELECTRA and ALBERT, which norm behind attention and unit and
   predict masked tokens, and ViT, which norms before them and classifies images.  ALBERT goes
   through one layer again and again. */
#include "graph/import/config/families.h"

#include <math.h>

/* The modules of a block. */
typedef struct encoder_names {
    const char *attention, *query, *key, *value; /* the last three in the first */
    const char *attended, *attended_norm, *wide, *act, *narrow, *norm;
    const char *attended_dropout, *dropout; /* null: none */
} encoder_names;

typedef struct encoder {
    cleave_composer *c;
    const cleave_config *config;
    int64_t length; /* of the texts, or patches and one */
    const encoder_names *names;
    bool biases; /* of queries, keys and values */
} encoder;

static const encoder_names bert_names = {.attention = "attention.self",
                                         .query = "query",
                                         .key = "key",
                                         .value = "value",
                                         .attended = "attention.output.dense",
                                         .attended_norm = "attention.output.LayerNorm",
                                         .wide = "intermediate.dense",
                                         .act = "intermediate.act",
                                         .narrow = "output.dense",
                                         .norm = "output.LayerNorm",
                                         .attended_dropout = "attention.output.dropout",
                                         .dropout = "output.dropout"};

static const encoder_names distilbert_names = {.attention = "attention",
                                               .query = "q_lin",
                                               .key = "k_lin",
                                               .value = "v_lin",
                                               .attended = "attention.out_lin",
                                               .attended_norm = "sa_layer_norm",
                                               .wide = "ffn.lin1",
                                               .act = "ffn.activation",
                                               .narrow = "ffn.lin2",
                                               .norm = "output_layer_norm",
                                               .dropout = "ffn.dropout"};

static const encoder_names albert_names = {.attention = "attention",
                                           .query = "query",
                                           .key = "key",
                                           .value = "value",
                                           .attended = "attention.dense",
                                           .attended_norm = "attention.LayerNorm",
                                           .wide = "ffn",
                                           .act = "activation",
                                           .narrow = "ffn_output",
                                           .norm = "full_layer_layer_norm",
                                           .attended_dropout = "attention.output_dropout"};

static const char *name_of(const encoder *e, const char *scope, const char *what) {
    return cleave_compose_name(e->c, "%s.%s", scope, what);
}

static const char *norm(const encoder *e, const char *scope, const char *what, const char *x) {
    return cleave_compose_norm(e->c, name_of(e, scope, what), x, e->config->width,
                               e->config->epsilon, CLEAVE_NORM_LAYER);
}

/* A linear layer of the block, as wide as x where nothing else is said. */
static const char *linear(const encoder *e, const char *scope, const char *what, const char *x,
                          int64_t n_in, int64_t n_out) {
    return cleave_compose_linear(e->c, name_of(e, scope, what), x, n_in, n_out, true);
}

static const char *drop(const encoder *e, const char *block, const char *what, const char *x) {
    return what == NULL
               ? x
               : cleave_compose_dropout(e->c, name_of(e, block, what), x, e->config->dropout);
}

static const char *attend(const encoder *e, const char *block, const char *x) {
    const encoder_names *names = e->names;
    const char *const modules[] = {names->query, names->key, names->value};
    static const char *const heads[] = {"queries", "keys_of_heads", "values"};
    cleave_composer *c = e->c;
    const cleave_config *config = e->config;
    const char *scope = name_of(e, block, names->attention), *parts[3];
    const cleave_composed_attention how = {
        .heads = {e->length, config->heads, config->heads, config->head},
        .scale = 1 / sqrt((double)config->head),
        .dropout = config->attention_dropout};
    for (int i = 0; i < 3; i++) {
        parts[i] = cleave_compose_linear(c, name_of(e, scope, modules[i]), x, config->width,
                                         config->width, e->biases);
        parts[i] = cleave_compose_split_heads(c, name_of(e, scope, heads[i]), parts[i], &how.heads,
                                              i == 0);
    }
    x = cleave_compose_attention(c, scope, &how, parts[0], parts[1], parts[2]);
    x = linear(e, block, names->attended, x, config->width, config->width);
    return drop(e, block, names->attended_dropout, x);
}

static const char *feed(const encoder *e, const char *block, const char *x) {
    const cleave_config *config = e->config;
    const encoder_names *names = e->names;
    x = linear(e, block, names->wide, x, config->width, config->inner);
    x = cleave_compose_activation(e->c, cleave_activation_find(config->activation),
                                  name_of(e, block, names->act), x);
    x = linear(e, block, names->narrow, x, config->inner, config->width);
    return drop(e, block, names->dropout, x);
}

/* ---- BERT, RoBERTa, DistilBERT, ELECTRA and ALBERT ------------------------------------------- */

static int64_t embedded_width(const cleave_config *config) {
    return config->embedded_width > 0 ? config->embedded_width : config->width;
}

static const char *normed_block(const encoder *e, const char *block, const char *x) {
    const char *y = attend(e, block, x);
    x = CLEAVE_COMPOSE(e->c, "Add", name_of(e, block, "attended"), x, y);
    x = norm(e, block, e->names->attended_norm, x);
    y = feed(e, block, x);
    x = CLEAVE_COMPOSE(e->c, "Add", name_of(e, block, "sum"), x, y);
    return norm(e, block, e->names->norm, x);
}

/* Adds what tells apart the segments of a text; where there is one kind only, its row. */
static const char *add_segments(const encoder *e, const char *scope, const char *x) {
    cleave_composer *c = e->c;
    const cleave_config *config = e->config;
    const char *module = name_of(e, scope, "token_type_embeddings"), *y;
    if (config->types == 1)
        y = cleave_compose_parameter(c, name_of(e, module, "weight"), 2,
                                     (int64_t[]){1, embedded_width(config)});
    else
        y = cleave_compose_embedding(
            c, module,
            cleave_compose_data(c, "token_type_ids", CLEAVE_ONNX_INT64, 1, &config->sequence),
            config->types, embedded_width(config), NULL);
    return CLEAVE_COMPOSE(c, "Add", name_of(e, scope, "with_segments"), x, y);
}

/* What blocks read of texts. */
static const char *embed(const encoder *e, const char *model, const char **table) {
    cleave_composer *c = e->c;
    const cleave_config *config = e->config;
    const int64_t width = embedded_width(config);
    const char *scope = name_of(e, model, "embeddings");
    const char *ids = cleave_compose_data(c, "input_ids", CLEAVE_ONNX_INT64, 1, &config->sequence);
    const char *x = cleave_compose_embedding(c, name_of(e, scope, "word_embeddings"), ids,
                                             config->vocabulary, width, table);
    if (config->types > 0)
        x = add_segments(e, scope, x);
    const char *positions =
        cleave_compose_rows(c, name_of(e, scope, "position_embeddings"), config->positions, width,
                            config->first_position, config->sequence);
    x = CLEAVE_COMPOSE(c, "Add", name_of(e, scope, "with_positions"), x, positions);
    x = cleave_compose_norm(c, name_of(e, scope, "LayerNorm"), x, width, config->epsilon,
                            CLEAVE_NORM_LAYER);
    return cleave_compose_dropout(c, name_of(e, scope, "dropout"), x, config->dropout);
}

/* What the blocks give of texts; `blocks`: the module that has them. */
static const char *encode(const encoder *e, const char *model, const char *blocks,
                          const char **table) {
    cleave_composer *c = e->c;
    const cleave_config *config = e->config;
    const int64_t width = embedded_width(config);
    const char *x = embed(e, model, table);
    if (width != config->width)
        x = linear(e, model, "embeddings_project", x, width, config->width);
    for (int64_t i = 0; i < config->layers; i++)
        x = normed_block(e, cleave_compose_name(c, "%s.%s.layer.%lld", model, blocks, (long long)i),
                         x);
    return x;
}

/* What gives logits over tokens: a layer, a norm, and the embedding's table or one like it. */
typedef struct masked_head {
    const char *layer, *act, *norm, *decoder, *bias, *logits, *activation;
} masked_head;

static const char *predict(const encoder *e, const masked_head *head, const char *table,
                           const char *x) {
    cleave_composer *c = e->c;
    const cleave_config *config = e->config;
    const int64_t width = embedded_width(config);
    x = cleave_compose_linear(c, head->layer, x, config->width, width, true);
    x = cleave_compose_activation(c, cleave_activation_find(head->activation), head->act, x);
    x = cleave_compose_norm(c, head->norm, x, width, config->epsilon, CLEAVE_NORM_LAYER);
    if (!config->tied)
        table = cleave_compose_parameter(c, name_of(e, head->decoder, "weight"), 2,
                                         (int64_t[]){config->vocabulary, width});
    x = cleave_compose_tied(c, head->decoder, x, table);
    const char *bias = cleave_compose_parameter(c, head->bias, 1, &config->vocabulary);
    return CLEAVE_COMPOSE(c, "Add", head->logits, x, bias);
}

const char *cleave_compose_bert(cleave_composer *c, const cleave_config *config) {
    const encoder e = {c, config, config->sequence, &bert_names, true};
    const masked_head head = {.layer = "cls.predictions.transform.dense",
                              .act = "cls.predictions.act",
                              .norm = "cls.predictions.transform.LayerNorm",
                              .decoder = "cls.predictions.decoder",
                              .bias = "cls.predictions.bias",
                              .logits = "cls.predictions.logits",
                              .activation = config->activation};
    const char *table;
    const char *x = encode(&e, "bert", "encoder", &table);
    return predict(&e, &head, table, x);
}

const char *cleave_compose_roberta(cleave_composer *c, const cleave_config *config) {
    const encoder e = {c, config, config->sequence, &bert_names, true};
    const masked_head head = {.layer = "lm_head.dense",
                              .act = "lm_head.act",
                              .norm = "lm_head.layer_norm",
                              .decoder = "lm_head.decoder",
                              .bias = "lm_head.bias",
                              .logits = "lm_head.logits",
                              .activation = "gelu"};
    const char *table;
    const char *x = encode(&e, "roberta", "encoder", &table);
    return predict(&e, &head, table, x);
}

const char *cleave_compose_distilbert(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.epsilon = 1e-12;
    const encoder e = {c, &own, config->sequence, &distilbert_names, true};
    const masked_head head = {.layer = "vocab_transform",
                              .act = "vocab_transform.act",
                              .norm = "vocab_layer_norm",
                              .decoder = "vocab_projector",
                              .bias = "vocab_projector.bias",
                              .logits = "vocab_projector.logits",
                              .activation = config->activation};
    const char *table;
    const char *x = encode(&e, "distilbert", "transformer", &table);
    return predict(&e, &head, table, x);
}

/* The generator, which predicts masked tokens; what tells them from a text's own is not put
   together. Tables may be narrower than the stream. */
const char *cleave_compose_electra(cleave_composer *c, const cleave_config *config) {
    const encoder e = {c, config, config->sequence, &bert_names, true};
    const masked_head head = {.layer = "generator_predictions.dense",
                              .act = "generator_predictions.activation",
                              .norm = "generator_predictions.LayerNorm",
                              .decoder = "generator_lm_head",
                              .bias = "generator_lm_head.bias",
                              .logits = "generator_lm_head.logits",
                              .activation = "gelu"};
    const char *table;
    const char *x = encode(&e, "electra", "encoder", &table);
    return predict(&e, &head, table, x);
}

const char *cleave_compose_albert(cleave_composer *c, const cleave_config *config) {
    const encoder e = {c, config, config->sequence, &albert_names, true};
    const masked_head head = {.layer = "predictions.dense",
                              .act = "predictions.activation",
                              .norm = "predictions.LayerNorm",
                              .decoder = "predictions.decoder",
                              .bias = "predictions.bias",
                              .logits = "predictions.logits",
                              .activation = config->activation};
    const char *table, *x = embed(&e, "albert", &table);
    x = linear(&e, "albert.encoder", "embedding_hidden_mapping_in", x, embedded_width(config),
               config->width);
    for (int64_t i = 0; i < config->layers; i++) {
        c->again = cleave_compose_name(c, "@layer=%lld", (long long)i);
        x = normed_block(&e, "albert.encoder.albert_layer_groups.0.albert_layers.0", x);
    }
    c->again = NULL;
    return predict(&e, &head, table, x);
}

/* ---- ViT ------------------------------------------------------------------------------------- */

/* [batch, patches, width] */
static const char *patches_of(const encoder *e, const char *scope) {
    cleave_composer *c = e->c;
    const cleave_config *config = e->config;
    const int64_t patch[] = {config->patch, config->patch};
    const char *image =
        cleave_compose_data(c, "pixel_values", CLEAVE_ONNX_FLOAT, 3,
                            (int64_t[]){config->channels, config->image, config->image});
    const char *module = name_of(e, scope, "patch_embeddings.projection");
    const char *weight = cleave_compose_parameter(
        c, name_of(e, module, "weight"), 4,
        (int64_t[]){config->width, config->channels, config->patch, config->patch});
    const char *bias = cleave_compose_parameter(c, name_of(e, module, "bias"), 1, &config->width);
    const char *x = CLEAVE_COMPOSE(c, "Conv", module, image, weight, bias);
    cleave_compose_integers(c, "kernel_shape", 2, patch);
    cleave_compose_integers(c, "strides", 2, patch);
    x = cleave_compose_reshape(c, name_of(e, scope, "columns"), x, 3,
                               (int64_t[]){0, config->width, e->length - 1});
    return cleave_compose_transpose(c, name_of(e, scope, "patches"), x, 3, (int64_t[]){0, 2, 1});
}

/* With a class token in front, one for each sample. */
static const char *embed_image(const encoder *e, const char *scope) {
    cleave_composer *c = e->c;
    const int64_t one = 1, two = 2, width = e->config->width;
    int64_t *row = CLEAVE_ARENA_ARRAY(c->arena, int64_t, 2);
    c->failed = c->failed || row == NULL;
    if (row == NULL)
        return NULL;
    row[0] = 1;
    row[1] = width;
    const char *x = patches_of(e, scope);
    const char *token =
        cleave_compose_parameter(c, name_of(e, scope, "cls_token"), 3, (int64_t[]){1, 1, width});
    const char *samples = CLEAVE_COMPOSE(c, "Shape", name_of(e, scope, "samples"), x);
    cleave_compose_integer(c, "start", 0);
    cleave_compose_integer(c, "end", one);
    const char *rest = cleave_compose_ids(c, name_of(e, scope, "token_shape"), 1, &two, row);
    const char *shape =
        cleave_compose_concat(c, name_of(e, scope, "tokens_shape"), 0, samples, rest);
    token = CLEAVE_COMPOSE(c, "Expand", name_of(e, scope, "tokens"), token, shape);
    x = cleave_compose_concat(c, name_of(e, scope, "with_token"), 1, token, x);
    const char *positions = cleave_compose_parameter(c, name_of(e, scope, "position_embeddings"), 3,
                                                     (int64_t[]){1, e->length, width});
    x = CLEAVE_COMPOSE(c, "Add", name_of(e, scope, "with_positions"), x, positions);
    return cleave_compose_dropout(c, name_of(e, scope, "dropout"), x, e->config->dropout);
}

static const char *vit_block(const encoder *e, const char *block, const char *x) {
    const char *y = attend(e, block, norm(e, block, "layernorm_before", x));
    x = CLEAVE_COMPOSE(e->c, "Add", name_of(e, block, "attended"), x, y);
    y = feed(e, block, norm(e, block, "layernorm_after", x));
    return CLEAVE_COMPOSE(e->c, "Add", name_of(e, block, "sum"), x, y);
}

const char *cleave_compose_vit(cleave_composer *c, const cleave_config *config) {
    static const int64_t first = 0;
    encoder_names names = bert_names;
    names.attention = "attention.attention";
    const int64_t side = config->image / config->patch;
    const encoder e = {c, config, side * side + 1, &names, config->attention_bias};
    const char *x = embed_image(&e, "vit.embeddings");
    for (int64_t i = 0; i < config->layers; i++)
        x = vit_block(&e, cleave_compose_name(c, "vit.encoder.layer.%lld", (long long)i), x);
    x = norm(&e, "vit", "layernorm", x);
    const char *zero = cleave_compose_ids(c, "classifier.token", 0, NULL, &first);
    x = CLEAVE_COMPOSE(c, "Gather", "classifier.class", x, zero);
    cleave_compose_integer(c, "axis", 1);
    return cleave_compose_linear(c, "classifier", x, config->width, config->labels, true);
}
