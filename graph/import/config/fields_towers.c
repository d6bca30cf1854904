/* Fields of one tower of a model of images and texts, which is a model of its own here. */
#include "graph/import/config/field_rows.h"

#define TOWER(width_standard, inner_standard, heads_standard, epsilon_standard, function)          \
    EXTENT("hidden_size", width, width_standard),                                                  \
        EXTENT("intermediate_size", inner, inner_standard),                                        \
        EXTENT("num_hidden_layers", layers, 12),                                                   \
        EXTENT("num_attention_heads", heads, heads_standard),                                      \
        NUMBER("layer_norm_eps", epsilon, epsilon_standard),                                       \
        RATE("attention_dropout", attention_dropout, 0), ZERO("dropout"),                          \
        IDLE("tie_word_embeddings"), FUNCTION("hidden_act", function)
#define TEXTS(vocabulary_standard, positions_standard)                                             \
    EXTENT("vocab_size", vocabulary, vocabulary_standard),                                         \
        EXTENT("max_position_embeddings", positions, positions_standard)
/* LLaVA's files say of images how many tokens there are, too. */
#define IMAGES(patch_standard)                                                                     \
    {"image_size", CLEAVE_FIELD_SQUARE, MEMBER(image), false, 224, NULL},                          \
        {"patch_size", CLEAVE_FIELD_SQUARE, MEMBER(patch), false, patch_standard, NULL},           \
        EXTENT("num_channels", channels, 3), IDLE("vocab_size")

FIELDS_OF(clip_text_model, TOWER(512, 2048, 8, 1e-5, "quick_gelu"), TEXTS(49408, 77),
          EXTENT("projection_dim", labels, 512));

FIELDS_OF(clip_vision_model, TOWER(768, 3072, 12, 1e-5, "quick_gelu"), IMAGES(32),
          EXTENT("projection_dim", labels, 512));

FIELDS_OF(siglip_text_model, TOWER(768, 3072, 12, 1e-6, "gelu_pytorch_tanh"), TEXTS(32000, 64),
          EXTENT("projection_size", labels, 0));

FIELDS_OF(siglip_vision_model, TOWER(768, 3072, 12, 1e-6, "gelu_pytorch_tanh"), IMAGES(16),
          YES("vision_use_head"), IDLE("projection_dim"));
