/* Encoders: BERT, RoBERTa, DistilBERT, ELECTRA and ALBERT, which norm behind attention and unit and
   predict masked tokens.  ALBERT goes through one layer again and again. */
#include "graph/import/config/family_encoder.h"
#include "graph/import/config/families.h"
#include "graph/import/config/sides.h"

#include <math.h>

const cleave_encoder_names cleave_bert_names = {.attention = "attention.self",
                                                .query = "query",
                                                .key = "key",
                                                .value = "value",
                                                .attended = "attention.output.dense",
                                                .attention_norm = "attention.output.LayerNorm",
                                                .wide = "intermediate.dense",
                                                .act = "intermediate.act",
                                                .narrow = "output.dense",
                                                .unit_norm = "output.LayerNorm",
                                                .attended_dropout = "attention.output.dropout",
                                                .dropout = "output.dropout"};

static const cleave_encoder_names distilbert_names = {.attention = "attention",
                                                      .query = "q_lin",
                                                      .key = "k_lin",
                                                      .value = "v_lin",
                                                      .attended = "attention.out_lin",
                                                      .attention_norm = "sa_layer_norm",
                                                      .wide = "ffn.lin1",
                                                      .act = "ffn.activation",
                                                      .narrow = "ffn.lin2",
                                                      .unit_norm = "output_layer_norm",
                                                      .dropout = "ffn.dropout"};

static const cleave_encoder_names albert_names = {.attention = "attention",
                                                  .query = "query",
                                                  .key = "key",
                                                  .value = "value",
                                                  .attended = "attention.dense",
                                                  .attention_norm = "attention.LayerNorm",
                                                  .wide = "ffn",
                                                  .act = "activation",
                                                  .narrow = "ffn_output",
                                                  .unit_norm = "full_layer_layer_norm",
                                                  .attended_dropout = "attention.output_dropout"};

const char *cleave_encoder_name(const cleave_encoder *e, const char *scope, const char *what) {
    return cleave_compose_name(e->c, "%s.%s", scope, what);
}

const char *cleave_encoder_norm(const cleave_encoder *e, const char *scope, const char *what,
                                const char *x) {
    return cleave_compose_norm(e->c, cleave_encoder_name(e, scope, what), x, e->config->width,
                               e->config->epsilon, CLEAVE_NORM_LAYER);
}

/* A linear layer of the block, as wide as x where nothing else is said. */
static const char *linear(const cleave_encoder *e, const char *scope, const char *what,
                          const char *x, int64_t n_in, int64_t n_out) {
    return cleave_compose_linear(e->c, cleave_encoder_name(e, scope, what), x, n_in, n_out, true);
}

static const char *drop(const cleave_encoder *e, const char *block, const char *what,
                        const char *x) {
    return what == NULL ? x
                        : cleave_compose_dropout(e->c, cleave_encoder_name(e, block, what), x,
                                                 e->config->dropout);
}

static const char *attend(const cleave_encoder *e, const char *block, const char *x) {
    const cleave_encoder_names *names = e->names;
    const char *const modules[] = {names->query, names->key, names->value};
    static const char *const heads[] = {"queries", "keys_of_heads", "values"};
    cleave_composer *c = e->c;
    const cleave_config *config = e->config;
    const char *scope = cleave_encoder_name(e, block, names->attention), *parts[3];
    cleave_composed_attention how = {
        .heads = {e->length, config->heads, config->heads, config->head},
        .scale = e->scale > 0 ? e->scale : 1 / sqrt((double)config->head),
        .bias = e->bias,
        .is_causal = e->is_causal,
        .dropout = config->attention_dropout};
    for (int i = 0; i < 3; i++) {
        parts[i] = cleave_compose_linear(c, cleave_encoder_name(e, scope, modules[i]), x,
                                         config->width, config->width, e->biases);
        parts[i] = cleave_compose_split_heads(c, cleave_encoder_name(e, scope, heads[i]), parts[i],
                                              &how.heads, i == 0);
        if (e->rotary != NULL && i < 2)
            parts[i] =
                cleave_compose_rotary(c, cleave_compose_name(c, "%s.%s_turned", scope, heads[i]),
                                      parts[i], e->rotary, config->head);
    }
    if (e->score != NULL)
        how.bias = e->score(e, scope, parts[0], parts[1]);
    x = cleave_compose_attention(c, scope, &how, parts[0], parts[1], parts[2]);
    x = linear(e, block, names->attended, x, config->width, config->width);
    return drop(e, block, names->attended_dropout, x);
}

const char *cleave_encoder_feed(const cleave_encoder *e, const char *block, const char *x) {
    const cleave_config *config = e->config;
    const cleave_encoder_names *names = e->names;
    if (names->is_gated) {
        x = cleave_compose_gated_sides(e->c, block, x,
                                       &(cleave_gated_sides){.module = names->wide,
                                                             .function = names->act,
                                                             .activation = config->activation,
                                                             .length = e->length,
                                                             .width = config->width,
                                                             .inner = config->inner,
                                                             .bias = true});
    } else {
        x = linear(e, block, names->wide, x, config->width, config->inner);
        x = cleave_compose_activation(e->c, cleave_activation_find(config->activation),
                                      cleave_encoder_name(e, block, names->act), x);
    }
    x = linear(e, block, names->narrow, x, config->inner, config->width);
    return drop(e, block, names->dropout, x);
}

/* Times a number for each element of the width, a parameter; x itself where there is no module. */
static const char *scale(const cleave_encoder *e, const char *block, const char *module,
                         const char *x) {
    if (module == NULL)
        return x;
    const char *factors =
        cleave_compose_parameter(e->c, cleave_encoder_name(e, block, module), 1, &e->config->width);
    return CLEAVE_COMPOSE(
        e->c, "Mul", cleave_encoder_name(e, block, cleave_compose_name(e->c, "%s.scaled", module)),
        x, factors);
}

static const char *add_block(const cleave_encoder *e, const char *block, const char *x) {
    const cleave_encoder_names *names = e->names;
    const char *y = cleave_encoder_norm(e, block, names->attention_norm, x);
    y = scale(e, block, names->attention_scale, attend(e, block, y));
    x = CLEAVE_COMPOSE(e->c, "Add", cleave_encoder_name(e, block, "attended"), x, y);
    y = cleave_encoder_norm(e, block, names->unit_norm, x);
    y = scale(e, block, names->unit_scale, cleave_encoder_feed(e, block, y));
    return CLEAVE_COMPOSE(e->c, "Add", cleave_encoder_name(e, block, "sum"), x, y);
}

const char *cleave_encoder_run(const cleave_encoder *e, const char *blocks, const char *x) {
    for (int64_t i = 0; i < e->config->layers; i++)
        x = add_block(e, cleave_compose_name(e->c, "%s.%lld", blocks, (long long)i), x);
    return x;
}

const char *cleave_encoder_row(const cleave_encoder *e, const char *name, const char *x,
                               int64_t row) {
    x = cleave_compose_slice(e->c, cleave_encoder_name(e, name, "row"), x, 1, row, row + 1);
    return cleave_compose_reshape(e->c, name, x, 2, (int64_t[]){0, e->config->width});
}

/* ---- BERT, RoBERTa, DistilBERT, ELECTRA and ALBERT ------------------------------------------- */

static int64_t embedded_width(const cleave_config *config) {
    return config->embedded_width > 0 ? config->embedded_width : config->width;
}

const char *cleave_encoder_normed_block(const cleave_encoder *e, const char *block, const char *x) {
    const char *y = attend(e, block, x);
    x = CLEAVE_COMPOSE(e->c, "Add", cleave_encoder_name(e, block, "attended"), x, y);
    x = cleave_encoder_norm(e, block, e->names->attention_norm, x);
    y = cleave_encoder_feed(e, block, x);
    x = CLEAVE_COMPOSE(e->c, "Add", cleave_encoder_name(e, block, "sum"), x, y);
    return cleave_encoder_norm(e, block, e->names->unit_norm, x);
}

/* Adds what tells apart the segments of a text; where there is one kind only, its row. */
static const char *add_segments(const cleave_encoder *e, const char *scope, const char *x) {
    cleave_composer *c = e->c;
    const cleave_config *config = e->config;
    const char *module = cleave_encoder_name(e, scope, "token_type_embeddings"), *y;
    if (config->types == 1)
        y = cleave_compose_parameter(c, cleave_encoder_name(e, module, "weight"), 2,
                                     (int64_t[]){1, embedded_width(config)});
    else
        y = cleave_compose_embedding(
            c, module,
            cleave_compose_data(c, "token_type_ids", CLEAVE_ONNX_INT64, 1, &config->sequence),
            config->types, embedded_width(config), NULL);
    return CLEAVE_COMPOSE(c, "Add", cleave_encoder_name(e, scope, "with_segments"), x, y);
}

/* What blocks read of texts. */
const char *cleave_encoder_embed(const cleave_encoder *e, const char *model, const char **table) {
    cleave_composer *c = e->c;
    const cleave_config *config = e->config;
    const int64_t width = embedded_width(config);
    const char *scope = cleave_encoder_name(e, model, "embeddings");
    const char *ids = cleave_compose_data(c, "input_ids", CLEAVE_ONNX_INT64, 1, &config->sequence);
    const char *x = cleave_compose_embedding(c, cleave_encoder_name(e, scope, "word_embeddings"),
                                             ids, config->vocabulary, width, table);
    if (config->types > 0)
        x = add_segments(e, scope, x);
    if (!config->scores_places) {
        const char *positions =
            cleave_compose_rows(c, cleave_encoder_name(e, scope, "position_embeddings"),
                                config->positions, width, config->first_position, config->sequence);
        x = CLEAVE_COMPOSE(c, "Add", cleave_encoder_name(e, scope, "with_positions"), x, positions);
    }
    if (!config->norms_before)
        x = cleave_compose_norm(c, cleave_encoder_name(e, scope, "LayerNorm"), x, width,
                                config->epsilon, CLEAVE_NORM_LAYER);
    return cleave_compose_dropout(c, cleave_encoder_name(e, scope, "dropout"), x, config->dropout);
}

/* What the blocks give of texts; `blocks`: the module that has them. */
static const char *encode(const cleave_encoder *e, const char *model, const char *blocks,
                          const char **table) {
    cleave_composer *c = e->c;
    const cleave_config *config = e->config;
    const int64_t width = embedded_width(config);
    const char *x = cleave_encoder_embed(e, model, table);
    if (width != config->width)
        x = linear(e, model, "embeddings_project", x, width, config->width);
    for (int64_t i = 0; i < config->layers; i++)
        x = cleave_encoder_normed_block(
            e, cleave_compose_name(c, "%s.%s.layer.%lld", model, blocks, (long long)i), x);
    return x;
}

const char *cleave_encoder_predict(const cleave_encoder *e, const cleave_masked_head *head,
                                   const char *table, const char *x) {
    cleave_composer *c = e->c;
    const cleave_config *config = e->config;
    const int64_t width = embedded_width(config);
    x = cleave_compose_linear(c, head->layer, x, config->width, width, true);
    x = cleave_compose_activation(c, cleave_activation_find(head->activation), head->act, x);
    x = cleave_compose_norm(c, head->norm, x, width, config->epsilon, CLEAVE_NORM_LAYER);
    if (!config->tied)
        table = cleave_compose_parameter(c, cleave_encoder_name(e, head->decoder, "weight"), 2,
                                         (int64_t[]){config->vocabulary, width});
    x = cleave_compose_tied(c, head->decoder, x, table);
    const char *bias = cleave_compose_parameter(c, head->bias, 1, &config->vocabulary);
    return CLEAVE_COMPOSE(c, "Add", head->logits, x, bias);
}

cleave_masked_head cleave_bert_head(const cleave_config *config) {
    return (cleave_masked_head){.layer = "cls.predictions.transform.dense",
                                .act = "cls.predictions.act",
                                .norm = "cls.predictions.transform.LayerNorm",
                                .decoder = "cls.predictions.decoder",
                                .bias = "cls.predictions.bias",
                                .logits = "cls.predictions.logits",
                                .activation = config->activation};
}

cleave_masked_head cleave_roberta_head(void) {
    return (cleave_masked_head){.layer = "lm_head.dense",
                                .act = "lm_head.act",
                                .norm = "lm_head.layer_norm",
                                .decoder = "lm_head.decoder",
                                .bias = "lm_head.bias",
                                .logits = "lm_head.logits",
                                .activation = "gelu"};
}

const char *cleave_compose_bert(cleave_composer *c, const cleave_config *config) {
    const cleave_encoder e = {.c = c,
                              .config = config,
                              .length = config->sequence,
                              .names = &cleave_bert_names,
                              .biases = true};
    const cleave_masked_head head = cleave_bert_head(config);
    const char *table;
    const char *x = encode(&e, "bert", "encoder", &table);
    return cleave_encoder_predict(&e, &head, table, x);
}

const char *cleave_compose_roberta(cleave_composer *c, const cleave_config *config) {
    const cleave_encoder e = {.c = c,
                              .config = config,
                              .length = config->sequence,
                              .names = &cleave_bert_names,
                              .biases = true};
    const cleave_masked_head head = cleave_roberta_head();
    const char *table;
    const char *x = encode(&e, "roberta", "encoder", &table);
    return cleave_encoder_predict(&e, &head, table, x);
}

const char *cleave_compose_distilbert(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.epsilon = 1e-12;
    const cleave_encoder e = {.c = c,
                              .config = &own,
                              .length = config->sequence,
                              .names = &distilbert_names,
                              .biases = true};
    const cleave_masked_head head = {.layer = "vocab_transform",
                                     .act = "vocab_transform.act",
                                     .norm = "vocab_layer_norm",
                                     .decoder = "vocab_projector",
                                     .bias = "vocab_projector.bias",
                                     .logits = "vocab_projector.logits",
                                     .activation = config->activation};
    const char *table;
    const char *x = encode(&e, "distilbert", "transformer", &table);
    return cleave_encoder_predict(&e, &head, table, x);
}

/* The generator, which predicts masked tokens; what tells them from a text's own is not put
   together. Tables may be narrower than the stream. */
const char *cleave_compose_electra(cleave_composer *c, const cleave_config *config) {
    const cleave_encoder e = {.c = c,
                              .config = config,
                              .length = config->sequence,
                              .names = &cleave_bert_names,
                              .biases = true};
    const cleave_masked_head head = {.layer = "generator_predictions.dense",
                                     .act = "generator_predictions.activation",
                                     .norm = "generator_predictions.LayerNorm",
                                     .decoder = "generator_lm_head",
                                     .bias = "generator_lm_head.bias",
                                     .logits = "generator_lm_head.logits",
                                     .activation = "gelu"};
    const char *table;
    const char *x = encode(&e, "electra", "encoder", &table);
    return cleave_encoder_predict(&e, &head, table, x);
}

const char *cleave_compose_albert(cleave_composer *c, const cleave_config *config) {
    const cleave_encoder e = {.c = c,
                              .config = config,
                              .length = config->sequence,
                              .names = &albert_names,
                              .biases = true};
    const cleave_masked_head head = {.layer = "predictions.dense",
                                     .act = "predictions.activation",
                                     .norm = "predictions.LayerNorm",
                                     .decoder = "predictions.decoder",
                                     .bias = "predictions.bias",
                                     .logits = "predictions.logits",
                                     .activation = config->activation};
    const char *table, *x = cleave_encoder_embed(&e, "albert", &table);
    x = linear(&e, "albert.encoder", "embedding_hidden_mapping_in", x, embedded_width(config),
               config->width);
    for (int64_t i = 0; i < config->layers; i++) {
        c->again = cleave_compose_name(c, "@layer=%lld", (long long)i);
        x = cleave_encoder_normed_block(&e, "albert.encoder.albert_layer_groups.0.albert_layers.0",
                                        x);
    }
    c->again = NULL;
    return cleave_encoder_predict(&e, &head, table, x);
}
