/* More encoders of masked tokens (family_encoder.h): MPNet's scores have a bias by distances, as
   T5's; Megatron's BERT norms what attention and unit read, as ESM-2 does, which has rotary
   positions and treats masked tokens as dropped ones. */
#include "graph/import/config/distances.h"
#include "graph/import/config/families.h"
#include "graph/import/config/family_encoder.h"

const char *cleave_compose_mpnet(cleave_composer *c, const cleave_config *config) {
    static const cleave_encoder_names names = {.attention = "attention.attn",
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
                                               .dropout = "output.dropout"};
    cleave_config own = *config;
    own.buckets = 32;
    own.distance = 128;
    cleave_encoder e = {
        .c = c, .config = &own, .length = own.sequence, .names = &names, .biases = true};
    const cleave_masked_head head = cleave_roberta_head();
    const char *table, *x = cleave_encoder_embed(&e, "mpnet", &table);
    e.bias = cleave_compose_distance_bias(c, &own, "mpnet.encoder.relative_attention_bias", true);
    for (int64_t i = 0; i < own.layers; i++)
        x = cleave_encoder_normed_block(
            &e, cleave_compose_name(c, "mpnet.encoder.layer.%lld", (long long)i), x);
    return cleave_encoder_predict(&e, &head, table, x);
}

const char *cleave_compose_megatron_bert(cleave_composer *c, const cleave_config *config) {
    cleave_encoder_names names = cleave_bert_names;
    names.attention_norm = "attention.ln";
    names.unit_norm = "ln";
    cleave_config own = *config;
    own.norms_before = true;
    const cleave_encoder e = {
        .c = c, .config = &own, .length = own.sequence, .names = &names, .biases = true};
    const cleave_masked_head head = cleave_bert_head(config);
    const char *table, *x = cleave_encoder_embed(&e, "bert", &table);
    x = cleave_encoder_run(&e, "bert.encoder.layer", x);
    x = cleave_encoder_norm(&e, "bert.encoder", "ln", x);
    return cleave_encoder_predict(&e, &head, table, x);
}

/* ---- ESM-2 ----------------------------------------------------------------------------------- */

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
    cleave_encoder_names names = cleave_bert_names;
    names.attention_norm = "attention.LayerNorm";
    names.unit_norm = "LayerNorm";
    cleave_config own = *config;
    own.activation = "gelu";
    const cleave_rotary_tables rotary = cleave_compose_rotary_tables(c, "rotary", &own);
    const cleave_encoder e = {.c = c,
                              .config = &own,
                              .length = own.sequence,
                              .names = &names,
                              .biases = true,
                              .rotary = &rotary};
    const cleave_masked_head head = cleave_roberta_head();
    const char *table;
    const char *ids = cleave_compose_data(c, "input_ids", CLEAVE_ONNX_INT64, 1, &own.sequence);
    const char *x = cleave_compose_embedding(c, "esm.embeddings.word_embeddings", ids,
                                             own.vocabulary, own.width, &table);
    if (config->drops_masked)
        x = drop_masked(c, &own, ids, x);
    x = cleave_encoder_run(&e, "esm.encoder.layer", x);
    x = cleave_encoder_norm(&e, "esm.encoder", "emb_layer_norm_after", x);
    return cleave_encoder_predict(&e, &head, table, x);
}
