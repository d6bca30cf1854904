/* Encoders that predict masked tokens, a row each in what they differ: BERT, Megatron's, which
   norms what attention and unit read, RoBERTa, DistilBERT, ELECTRA's generator, whose tables may be
   narrower than the stream (what tells its tokens from a text's own is not put together), and
   ALBERT, which goes through one layer again and again.  MPNet's scores have a bias by distances,
   as T5's; ESM-2 has rotary positions and treats masked tokens as dropped ones; Nomic's BERT and
   Jina's encoder have these positions, too, and Nomic's a gated unit. */
#include "graph/import/config/family_masked.h"
#include "graph/import/config/distances.h"
#include "graph/import/config/families.h"

/* ---- what they are called -------------------------------------------------------------------- */

/* A block in files like BERT's, which call norms as they like. */
#define BERT_BLOCK(norm_of_attention, norm_of_unit)                                                \
    {                                                                                              \
        .attention = "attention.self", .query = "query", .key = "key", .value = "value",           \
        .attended = "attention.output.dense", .attention_norm = norm_of_attention,                 \
        .wide = "intermediate.dense", .act = "intermediate.act", .narrow = "output.dense",         \
        .unit_norm = norm_of_unit, .attended_dropout = "attention.output.dropout",                 \
        .dropout = "output.dropout"                                                                \
    }
#define BERT_HEAD                                                                                  \
    {                                                                                              \
        .layer = "cls.predictions.transform.dense", .act = "cls.predictions.act",                  \
        .norm = "cls.predictions.transform.LayerNorm", .decoder = "cls.predictions.decoder",       \
        .bias = "cls.predictions.bias", .logits = "cls.predictions.logits"                         \
    }
#define ROBERTA_HEAD                                                                               \
    {                                                                                              \
        .layer = "lm_head.dense", .act = "lm_head.act", .norm = "lm_head.layer_norm",              \
        .decoder = "lm_head.decoder", .bias = "lm_head.bias", .logits = "lm_head.logits",          \
        .activation = "gelu"                                                                       \
    }

const cleave_masked cleave_masked_bert = {
    .model = "bert",
    .blocks = "encoder.layer",
    .names = BERT_BLOCK("attention.output.LayerNorm", "output.LayerNorm"),
    .head = BERT_HEAD};

const cleave_masked cleave_masked_megatron_bert = {.model = "bert",
                                                   .blocks = "encoder.layer",
                                                   .last_norm = "encoder.ln",
                                                   .names = BERT_BLOCK("attention.ln", "ln"),
                                                   .head = BERT_HEAD};

const cleave_masked cleave_masked_roberta = {
    .model = "roberta",
    .blocks = "encoder.layer",
    .names = BERT_BLOCK("attention.output.LayerNorm", "output.LayerNorm"),
    .head = ROBERTA_HEAD};

const cleave_masked cleave_masked_data2vec_text = {
    .model = "data2vec_text",
    .blocks = "encoder.layer",
    .names = BERT_BLOCK("attention.output.LayerNorm", "output.LayerNorm"),
    .head = ROBERTA_HEAD};

const cleave_masked cleave_masked_electra = {
    .model = "electra",
    .blocks = "encoder.layer",
    .widening = "embeddings_project",
    .names = BERT_BLOCK("attention.output.LayerNorm", "output.LayerNorm"),
    .head = {.layer = "generator_predictions.dense",
             .act = "generator_predictions.activation",
             .norm = "generator_predictions.LayerNorm",
             .decoder = "generator_lm_head",
             .bias = "generator_lm_head.bias",
             .logits = "generator_lm_head.logits",
             .activation = "gelu"}};

const cleave_masked cleave_masked_distilbert = {.model = "distilbert",
                                                .blocks = "transformer.layer",
                                                .epsilon = 1e-12,
                                                .names = {.attention = "attention",
                                                          .query = "q_lin",
                                                          .key = "k_lin",
                                                          .value = "v_lin",
                                                          .attended = "attention.out_lin",
                                                          .attention_norm = "sa_layer_norm",
                                                          .wide = "ffn.lin1",
                                                          .act = "ffn.activation",
                                                          .narrow = "ffn.lin2",
                                                          .unit_norm = "output_layer_norm",
                                                          .dropout = "ffn.dropout"},
                                                .head = {.layer = "vocab_transform",
                                                         .act = "vocab_transform.act",
                                                         .norm = "vocab_layer_norm",
                                                         .decoder = "vocab_projector",
                                                         .bias = "vocab_projector.bias",
                                                         .logits = "vocab_projector.logits"}};

const cleave_masked cleave_masked_albert = {
    .model = "albert",
    .blocks = "encoder.albert_layer_groups.0.albert_layers.0",
    .repeats = true,
    .widening = "encoder.embedding_hidden_mapping_in",
    .names = {.attention = "attention",
              .query = "query",
              .key = "key",
              .value = "value",
              .attended = "attention.dense",
              .attention_norm = "attention.LayerNorm",
              .wide = "ffn",
              .act = "activation",
              .narrow = "ffn_output",
              .unit_norm = "full_layer_layer_norm",
              .attended_dropout = "attention.output_dropout"},
    .head = {.layer = "predictions.dense",
             .act = "predictions.activation",
             .norm = "predictions.LayerNorm",
             .decoder = "predictions.decoder",
             .bias = "predictions.bias",
             .logits = "predictions.logits"}};

static const cleave_masked mpnet = {.model = "mpnet",
                                    .blocks = "encoder.layer",
                                    .names = {.attention = "attention.attn",
                                              .query = "q",
                                              .key = "k",
                                              .value = "v",
                                              .attended = "attention.attn.o",
                                              .attention_norm = "attention.LayerNorm",
                                              .wide = "intermediate.dense",
                                              .act = "intermediate.act",
                                              .narrow = "output.dense",
                                              .unit_norm = "output.LayerNorm",
                                              .attended_dropout = "attention.dropout",
                                              .dropout = "output.dropout"},
                                    .head = ROBERTA_HEAD};

static const cleave_masked esm = {.model = "esm",
                                  .blocks = "encoder.layer",
                                  .last_norm = "encoder.emb_layer_norm_after",
                                  .names = BERT_BLOCK("attention.LayerNorm", "LayerNorm"),
                                  .head = ROBERTA_HEAD};

static const cleave_masked nomic_bert = {.model = "nomic_bert",
                                         .blocks = "layers",
                                         .names = {.attention = "self_attn",
                                                   .query = "q_proj",
                                                   .key = "k_proj",
                                                   .value = "v_proj",
                                                   .attended = "self_attn.o_proj",
                                                   .attention_norm = "post_attention_layernorm",
                                                   .wide = "mlp.gate_proj",
                                                   .up = "mlp.up_proj",
                                                   .act = "mlp.act_fn",
                                                   .narrow = "mlp.down_proj",
                                                   .unit_norm = "post_mlp_layernorm",
                                                   .attended_dropout = "post_attention_dropout",
                                                   .dropout = "post_mlp_dropout",
                                                   .is_plain = true},
                                         .head = {.layer = "cls.predictions.transform.dense",
                                                  .act = "cls.predictions.act",
                                                  .norm = "cls.predictions.transform.layer_norm",
                                                  .decoder = "cls.predictions.decoder",
                                                  .bias = "cls.predictions.bias",
                                                  .logits = "cls.predictions.logits"}};

static const cleave_masked jina = {.model = "roberta",
                                   .blocks = "layers",
                                   .names = {.attention = "self_attn",
                                             .query = "q_proj",
                                             .key = "k_proj",
                                             .value = "v_proj",
                                             .attended = "self_attn.o_proj",
                                             .attention_norm = "post_attention_layernorm",
                                             .wide = "mlp.fc1",
                                             .act = "mlp.activation_fn",
                                             .narrow = "mlp.fc2",
                                             .unit_norm = "post_mlp_layernorm",
                                             .attended_dropout = "post_attention_dropout",
                                             .dropout = "post_mlp_dropout"},
                                   .head = ROBERTA_HEAD};

/* ---- what blocks read ------------------------------------------------------------------------ */

static int64_t embedded_width(const cleave_config *config) {
    return config->embedded_width > 0 ? config->embedded_width : config->width;
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

const char *cleave_masked_embed(const cleave_encoder *e, const cleave_masked *of,
                                const char **table) {
    cleave_composer *c = e->c;
    const cleave_config *config = e->config;
    const int64_t width = embedded_width(config);
    const char *scope = cleave_encoder_name(e, of->model, "embeddings");
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
    if (of->last_norm == NULL)
        x = cleave_compose_norm(c, cleave_encoder_name(e, scope, "LayerNorm"), x, width,
                                config->epsilon, CLEAVE_NORM_LAYER);
    x = cleave_compose_dropout(c, cleave_encoder_name(e, scope, "dropout"), x, config->dropout);
    return of->widening != NULL && (of->repeats || width != config->width)
               ? cleave_compose_linear(c, cleave_encoder_name(e, of->model, of->widening), x, width,
                                       config->width, true)
               : x;
}

/* ---- what becomes of it ---------------------------------------------------------------------- */

static const char *run_blocks(const cleave_encoder *e, const cleave_masked *of, const char *x) {
    const char *blocks = cleave_encoder_name(e, of->model, of->blocks);
    if (of->last_norm != NULL)
        return cleave_encoder_norm(e, of->model, of->last_norm, cleave_encoder_run(e, blocks, x));
    for (int64_t i = 0; i < e->config->layers; i++) {
        const char *number = cleave_compose_name(e->c, "%lld", (long long)i);
        if (of->repeats)
            e->c->again = cleave_compose_name(e->c, "@layer=%s", number);
        x = cleave_encoder_normed_block(
            e, of->repeats ? blocks : cleave_encoder_name(e, blocks, number), x);
    }
    e->c->again = NULL;
    return x;
}

const char *cleave_masked_logits(const cleave_encoder *e, const cleave_masked *of,
                                 const char *table, const char *x) {
    cleave_composer *c = e->c;
    const cleave_config *config = e->config;
    const cleave_masked_head *head = &of->head;
    const int64_t width = embedded_width(config);
    x = run_blocks(e, of, x);
    x = cleave_compose_linear(c, head->layer, x, config->width, width, true);
    x = cleave_compose_activation(
        c, cleave_activation_find(head->activation != NULL ? head->activation : config->activation),
        head->act, x);
    x = cleave_compose_norm(c, head->norm, x, width, config->epsilon, CLEAVE_NORM_LAYER);
    if (!config->tied)
        table = cleave_compose_parameter(c, cleave_encoder_name(e, head->decoder, "weight"), 2,
                                         (int64_t[]){config->vocabulary, width});
    x = cleave_compose_tied(c, head->decoder, x, table);
    const char *bias = cleave_compose_parameter(c, head->bias, 1, &config->vocabulary);
    return CLEAVE_COMPOSE(c, "Add", head->logits, x, bias);
}

cleave_encoder cleave_masked_encoder(cleave_composer *c, const cleave_config *config,
                                     const cleave_masked *of) {
    return (cleave_encoder){
        .c = c, .config = config, .length = config->sequence, .names = &of->names, .biases = true};
}

const char *cleave_compose_masked(cleave_composer *c, const cleave_config *config,
                                  const cleave_masked *of) {
    cleave_config own = *config;
    if (of->epsilon > 0)
        own.epsilon = of->epsilon;
    const cleave_encoder e = cleave_masked_encoder(c, &own, of);
    const char *table, *x = cleave_masked_embed(&e, of, &table);
    return cleave_masked_logits(&e, of, table, x);
}

/* ---- MPNet, ESM-2, Nomic's BERT and Jina's encoder ------------------------------------------- */

const char *cleave_compose_mpnet(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.buckets = 32;
    own.distance = 128;
    cleave_encoder e = cleave_masked_encoder(c, &own, &mpnet);
    const char *table, *x = cleave_masked_embed(&e, &mpnet, &table);
    e.bias = cleave_compose_distance_bias(c, &own, "mpnet.encoder.relative_attention_bias", true);
    return cleave_masked_logits(&e, &mpnet, table, x);
}

/* Rows of masked tokens are zeros, and the others are scaled as if a text had as many of them as it
   has on average: 15 in 100 are chosen, of which 8 in 10 are masked. */
static const char *drop_masked(cleave_composer *c, const cleave_config *config, const char *ids,
                               const char *x) {
    static const int64_t one = 1, axis = 1;
    static const double kept_on_average = 1 - 0.15 * 0.8;
    static const char scope[] = "esm.embeddings";
    const char *masked = cleave_compose_scalar(c, "esm.embeddings.mask", (double)config->masked);
    const char *real = CLEAVE_COMPOSE(c, "Cast", "esm.embeddings.ids", ids);
    cleave_compose_integer(c, "to", CLEAVE_ONNX_FLOAT);
    const char *is_masked = CLEAVE_COMPOSE(c, "Equal", "esm.embeddings.is_masked", real, masked);
    const char *kept = CLEAVE_COMPOSE(c, "Where", "esm.embeddings.kept", is_masked,
                                      cleave_compose_scalar(c, "esm.embeddings.zero", 0),
                                      cleave_compose_scalar(c, "esm.embeddings.one", 1));
    const char *share = CLEAVE_COMPOSE(
        c, "ReduceMean", "esm.embeddings.share", kept,
        cleave_compose_ids(c, cleave_compose_name(c, "%s.axes", scope), 1, &one, &axis));
    cleave_compose_integer(c, "keepdims", 1);
    kept = CLEAVE_COMPOSE(c, "Div", "esm.embeddings.factor", kept, share);
    kept = cleave_compose_scaled(c, "esm.embeddings.factor", kept, kept_on_average);
    kept = cleave_compose_reshape(c, "esm.embeddings.factors", kept, 3,
                                  (int64_t[]){0, config->sequence, 1});
    return CLEAVE_COMPOSE(c, "Mul", "esm.embeddings.dropped", x, kept);
}

const char *cleave_compose_esm(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.activation = "gelu";
    const cleave_rotary_tables rotary = cleave_compose_rotary_tables(c, "rotary", &own);
    cleave_encoder e = cleave_masked_encoder(c, &own, &esm);
    e.rotary = &rotary;
    const char *table;
    const char *ids = cleave_compose_data(c, "input_ids", CLEAVE_ONNX_INT64, 1, &own.sequence);
    const char *x = cleave_compose_embedding(c, "esm.embeddings.word_embeddings", ids,
                                             own.vocabulary, own.width, &table);
    if (config->drops_masked)
        x = drop_masked(c, &own, ids, x);
    return cleave_masked_logits(&e, &esm, table, x);
}

/* Blocks whose queries and keys are turned; these have a bias, or none. */
static const char *compose_turned(cleave_composer *c, const cleave_config *config,
                                  const cleave_masked *of, bool biases) {
    cleave_config own = *config;
    own.scores_places = true;
    const cleave_rotary_tables rotary = cleave_compose_rotary_tables(c, "rotary", &own);
    cleave_encoder e = cleave_masked_encoder(c, &own, of);
    e.rotary = &rotary;
    e.biases = biases;
    const char *table, *x = cleave_masked_embed(&e, of, &table);
    return cleave_masked_logits(&e, of, table, x);
}

const char *cleave_compose_nomic_bert(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.tied = true;
    return compose_turned(c, &own, &nomic_bert, false);
}

const char *cleave_compose_jina_embeddings_v3(cleave_composer *c, const cleave_config *config) {
    return compose_turned(c, config, &jina, true);
}
