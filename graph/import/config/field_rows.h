/* Rows of a family's fields, and what they are when left out, as the classes of the framework have
   it; for fields_*.c alone. */
#ifndef CLEAVE_GRAPH_IMPORT_FIELD_ROWS_H
#define CLEAVE_GRAPH_IMPORT_FIELD_ROWS_H

#include "graph/import/config/families.h"

#include <stddef.h>

/* The list of a family, of the rows that follow. */
#define FIELDS_OF(family, ...)                                                                     \
    static const cleave_field rows_##family[] = {__VA_ARGS__};                                     \
    const cleave_fields cleave_fields_##family = {rows_##family,                                   \
                                                  sizeof rows_##family / sizeof *rows_##family}

#define MEMBER(member) offsetof(cleave_config, member)
#define NEEDED(name, member)                                                                       \
    { name, CLEAVE_FIELD_EXTENT, MEMBER(member), true, 0, NULL }
#define EXTENT(name, member, standard)                                                             \
    { name, CLEAVE_FIELD_EXTENT, MEMBER(member), false, standard, NULL }
#define COUNT(name, member, standard)                                                              \
    { name, CLEAVE_FIELD_COUNT, MEMBER(member), false, standard, NULL }
#define NUMBER(name, member, standard)                                                             \
    { name, CLEAVE_FIELD_NUMBER, MEMBER(member), false, standard, NULL }
#define CAP(name, member, standard)                                                                \
    { name, CLEAVE_FIELD_CAP, MEMBER(member), false, standard, NULL }
#define RATE(name, member, standard)                                                               \
    { name, CLEAVE_FIELD_RATE, MEMBER(member), false, standard, NULL }
#define FLAG(name, member, standard)                                                               \
    { name, CLEAVE_FIELD_FLAG, MEMBER(member), false, standard, NULL }
#define NOT(name)                                                                                  \
    { name, CLEAVE_FIELD_NOT, 0, false, 0, NULL }
#define YES(name)                                                                                  \
    { name, CLEAVE_FIELD_YES, 0, false, 0, NULL }
#define EMPTY(name)                                                                                \
    { name, CLEAVE_FIELD_EMPTY, 0, false, 0, NULL }
#define ZERO(name) EXACT(name, 0)
/* The family's own number is another. */
#define NEEDED_ZERO(name)                                                                          \
    { name, CLEAVE_FIELD_EXACT, 0, true, 0, NULL }
#define EXACT(name, number)                                                                        \
    { name, CLEAVE_FIELD_EXACT, 0, false, number, NULL }
#define IDLE(name)                                                                                 \
    { name, CLEAVE_FIELD_IDLE, 0, false, 0, NULL }
#define ALIKE(name, member, standard)                                                              \
    { name, CLEAVE_FIELD_ALIKE, MEMBER(member), false, standard, NULL }
#define IS(name, text)                                                                             \
    { name, CLEAVE_FIELD_IS, 0, false, 0, text }
#define EITHER(name, member, texts)                                                                \
    { name, CLEAVE_FIELD_EITHER, MEMBER(member), false, 0, texts }
#define ONE(name, member)                                                                          \
    { name, CLEAVE_FIELD_ONE, MEMBER(member), false, 1, NULL }
#define LAYERS                                                                                     \
    {                                                                                              \
        "layer_types", CLEAVE_FIELD_LAYERS, MEMBER(windowed), false, 0,                            \
            "full_attention sliding_attention"                                                     \
    }
#define LAST(name, member)                                                                         \
    { name, CLEAVE_FIELD_LAST, MEMBER(member), false, -1, NULL }
#define FUNCTION(name, standard)                                                                   \
    { name, CLEAVE_FIELD_FUNCTION, MEMBER(activation), false, 0, standard }
#define ROTARY(name)                                                                               \
    { name, CLEAVE_FIELD_ROTARY, MEMBER(rotary), false, 0, NULL }

/* Texts of a model of images, which have positions of their own. */
#define TURNED_BESIDE_IMAGES(theta_standard)                                                       \
    NUMBER("rope_theta", rotary[0].theta, theta_standard),                                         \
        {"rope_scaling", CLEAVE_FIELD_ROTARY, MEMBER(rotary), false, 0, "mrope_section"}, {        \
        "rope_parameters", CLEAVE_FIELD_ROTARY, MEMBER(rotary), false, 0, "mrope_section"          \
    }

#define NEEDED_ROTARY(name)                                                                        \
    { name, CLEAVE_FIELD_ROTARY, MEMBER(rotary), true, 0, NULL }
#define ROTARIES(name)                                                                             \
    { name, CLEAVE_FIELD_ROTARIES, MEMBER(rotary), false, 0, NULL }

/* What all models of one stack call alike. */
#define SIZES                                                                                      \
    NEEDED("hidden_size", width), NEEDED("num_hidden_layers", layers),                             \
        NEEDED("num_attention_heads", heads)
#define TURNED(theta_name, theta_standard)                                                         \
    NUMBER(theta_name, rotary[0].theta, theta_standard), ROTARY("rope_scaling"),                   \
        ROTARY("rope_parameters")
#define LLAMA(kv_standard, positions_standard)                                                     \
    LLAMA_SIZES(kv_standard, positions_standard), TURNED("rope_theta", 10000),                     \
        NUMBER("rms_norm_eps", epsilon, 1e-6)
#define LLAMA_SIZES(kv_standard, positions_standard)                                               \
    SIZES, NEEDED("vocab_size", vocabulary), NEEDED("intermediate_size", inner),                   \
        EXTENT("num_key_value_heads", kv_heads, kv_standard),                                      \
        EXTENT("max_position_embeddings", positions, positions_standard),                          \
        RATE("attention_dropout", attention_dropout, 0)
#define WINDOWS                                                                                    \
    COUNT("sliding_window", window, 4096), FLAG("use_sliding_window", uses_window, 0),             \
        COUNT("max_window_layers", first_windowed_layer, 28), LAYERS
/* What Hunyuan's models have, dense or not.  The tokens of its files are many. */
#define HUNYUAN                                                                                    \
    LLAMA_SIZES(0, 2048), NUMBER("rope_theta", rotary[0].theta, 10000),                            \
        {"rope_scaling", CLEAVE_FIELD_ROTARY, MEMBER(rotary), false, 0, "alpha"},                  \
        {"rope_parameters", CLEAVE_FIELD_ROTARY, MEMBER(rotary), false, 0, "alpha"},               \
        NUMBER("rms_norm_eps", epsilon, 1e-5), EXTENT("head_dim", head, 0),                        \
        EXTENT("attention_head_dim", head, 0), FLAG("attention_bias", attention_bias, 0),          \
        FLAG("tie_word_embeddings", tied, 0), FUNCTION("hidden_act", "silu"),                      \
        IS("norm_type", "rms"), YES("use_qk_norm"), YES("use_rotary_pos_emb"), NOT("use_cla"),     \
        IDLE("cla_share_factor"), NOT("use_mla"), NOT("add_classification_head"),                  \
        IDLE("class_num"), IDLE("pool_type"), IDLE("dense_list"), IDLE("org_vocab_size"),          \
        IDLE("eod_token_id"), IDLE("pad_id"), IDLE("mask_init_id"), IDLE("im_end_id"),             \
        IDLE("im_newline_id"), IDLE("im_start_id"), IDLE("image_token_id"), IDLE("text_end_id"),   \
        IDLE("text_start_id")

#endif
