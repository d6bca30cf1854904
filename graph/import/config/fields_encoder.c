/* Fields of encoders, and of what has one beside a decoder. */
#include "graph/import/config/field_rows.h"

#define ENCODER(inner_standard)                                                                    \
    SIZES, EXTENT("intermediate_size", inner, inner_standard),                                     \
        NUMBER("layer_norm_eps", epsilon, 1e-12), FUNCTION("hidden_act", "gelu")
#define MASKED(inner_standard)                                                                     \
    ENCODER(inner_standard), NEEDED("vocab_size", vocabulary),                                     \
        EXTENT("type_vocab_size", types, 2), EXTENT("max_position_embeddings", positions, 512),    \
        RATE("hidden_dropout_prob", dropout, 0.1),                                                 \
        RATE("attention_probs_dropout_prob", attention_dropout, 0.1),                              \
        FLAG("tie_word_embeddings", tied, 1), IS("position_embedding_type", "absolute")

#define IMAGES(patch_standard)                                                                     \
    {"image_size", CLEAVE_FIELD_SQUARE, MEMBER(image), false, 224, NULL},                          \
        {"patch_size", CLEAVE_FIELD_SQUARE, MEMBER(patch), false, patch_standard, NULL},           \
        EXTENT("num_channels", channels, 3)
#define CLASSES(patch_standard)                                                                    \
    IMAGES(patch_standard), RATE("hidden_dropout_prob", dropout, 0),                               \
        RATE("attention_probs_dropout_prob", attention_dropout, 0),                                \
        {"id2label", CLEAVE_FIELD_LABELS, MEMBER(labels), false, 2, NULL},                         \
        FLAG("qkv_bias", attention_bias, 1)

FIELDS_OF(bert, MASKED(3072));

FIELDS_OF(roberta, MASKED(3072), COUNT("pad_token_id", padding, 1));

FIELDS_OF(electra, MASKED(1024), EXTENT("embedding_size", embedded_width, 128),
          IDLE("summary_last_dropout"));

#define MASKED_ALONE(epsilon_standard, inner_standard)                                             \
    SIZES, EXTENT("intermediate_size", inner, inner_standard), NEEDED("vocab_size", vocabulary),   \
        NUMBER("layer_norm_eps", epsilon, epsilon_standard),                                       \
        RATE("hidden_dropout_prob", dropout, 0.1),                                                 \
        RATE("attention_probs_dropout_prob", attention_dropout, 0.1),                              \
        FLAG("tie_word_embeddings", tied, 1), FUNCTION("hidden_act", "gelu")

FIELDS_OF(mpnet, MASKED_ALONE(1e-12, 3072), EXTENT("max_position_embeddings", positions, 512),
          COUNT("pad_token_id", padding, 1), EXACT("relative_attention_num_buckets", 32));

/* Places that are rows of a table alone, or tokens that are not masked as in training, are what the
   class has where nothing is said of them. */
FIELDS_OF(esm, MASKED_ALONE(1e-12, 3072), IDLE("max_position_embeddings"),
          NUMBER("rope_theta", rotary[0].theta, 10000),
          {"position_embedding_type", CLEAVE_FIELD_IS, 0, true, 0, "rotary"},
          NOT("emb_layer_norm_before"), FLAG("token_dropout", drops_masked, 0),
          {"mask_token_id", CLEAVE_FIELD_COUNT, MEMBER(masked), true, 0, NULL},
          NOT("is_folding_model"), IDLE("esmfold_config"), IDLE("vocab_list"));

/* The class has scores of contents alone where nothing else is said. */
FIELDS_OF(deberta_v2, MASKED_ALONE(1e-7, 6144), COUNT("type_vocab_size", types, 0),
          EXTENT("max_position_embeddings", positions, 512),
          {"relative_attention", CLEAVE_FIELD_YES, 0, true, 0, NULL},
          {"pos_att_type", CLEAVE_FIELD_IS, 0, true, 0, "p2c|c2p"},
          LAST("max_relative_positions", distance), LAST("position_buckets", place_buckets),
          FLAG("share_att_key", shares_projections, 0),
          EITHER("norm_rel_ebd", norms_behind, "none layer_norm"),
          FLAG("position_biased_input", scales, 1), ZERO("conv_kernel_size"), YES("legacy"),
          IDLE("pooler_dropout"), IDLE("pooler_hidden_act"), IDLE("pooler_hidden_size"));

/* The class has a size where nothing is said of one. */
FIELDS_OF(nomic_bert, EXTENT("hidden_size", width, 768), EXTENT("num_hidden_layers", layers, 12),
          EXTENT("num_attention_heads", heads, 12), EXTENT("intermediate_size", inner, 3072),
          EXTENT("vocab_size", vocabulary, 30528), EXTENT("type_vocab_size", types, 2),
          EXTENT("max_position_embeddings", positions, 2048), EXTENT("head_dim", head, 0),
          NUMBER("layer_norm_eps", epsilon, 1e-12), TURNED("rope_theta", 1000),
          RATE("hidden_dropout_prob", dropout, 0),
          RATE("attention_probs_dropout_prob", attention_dropout, 0), YES("tie_word_embeddings"),
          FUNCTION("hidden_act", "silu"));

/* The same of Jina's encoder, whose adapters are no part of the class. */
FIELDS_OF(jina_embeddings_v3, EXTENT("hidden_size", width, 1024),
          EXTENT("num_hidden_layers", layers, 24), EXTENT("num_attention_heads", heads, 16),
          EXTENT("intermediate_size", inner, 4096), EXTENT("vocab_size", vocabulary, 250002),
          EXTENT("type_vocab_size", types, 1), EXTENT("max_position_embeddings", positions, 8194),
          EXTENT("head_dim", head, 0), NUMBER("layer_norm_eps", epsilon, 1e-5),
          TURNED("rope_theta", 20000), RATE("hidden_dropout_prob", dropout, 0.1),
          RATE("attention_probs_dropout_prob", attention_dropout, 0.1),
          FLAG("tie_word_embeddings", tied, 1), FUNCTION("hidden_act", "gelu"));

/* Layers are one, whose parameters all share. */
FIELDS_OF(albert, SIZES, EXTENT("intermediate_size", inner, 16384),
          NUMBER("layer_norm_eps", epsilon, 1e-12), NEEDED("vocab_size", vocabulary),
          EXTENT("embedding_size", embedded_width, 128), EXTENT("type_vocab_size", types, 2),
          EXTENT("max_position_embeddings", positions, 512),
          RATE("hidden_dropout_prob", dropout, 0),
          RATE("attention_probs_dropout_prob", attention_dropout, 0),
          FLAG("tie_word_embeddings", tied, 1), IS("position_embedding_type", "absolute"),
          EXACT("num_hidden_groups", 1), EXACT("inner_group_num", 1),
          IDLE("classifier_dropout_prob"), IDLE("down_scale_factor"), IDLE("gap_size"),
          IDLE("net_structure_type"), IDLE("num_memory_blocks"), EMPTY("layers_to_keep"),
          FUNCTION("hidden_act", "gelu_new"));

#define MODERNBERT                                                                                 \
    SIZES, NEEDED("vocab_size", vocabulary), NEEDED("intermediate_size", inner),                   \
        EXTENT("max_position_embeddings", positions, 8192),                                        \
        EXTENT("global_attn_every_n_layers", whole_every, 3), LAYERS,                              \
        EXTENT("local_attention", window, 128),                                                    \
        NUMBER("global_rope_theta", rotary[0].theta, 160000),                                      \
        NUMBER("local_rope_theta", rotary[1].theta, 10000), ROTARIES("rope_parameters"),           \
        NUMBER("norm_eps", epsilon, 1e-5), NUMBER("layer_norm_eps", epsilon, 1e-5),                \
        RATE("attention_dropout", attention_dropout, 0),                                           \
        RATE("embedding_dropout", embedding_dropout, 0), RATE("mlp_dropout", dropout, 0),          \
        FLAG("tie_word_embeddings", tied, 1), NOT("attention_bias"), NOT("mlp_bias"),              \
        NOT("norm_bias"), NOT("classifier_bias"), YES("decoder_bias"),                             \
        IS("classifier_activation", "gelu"), IDLE("classifier_pooling"),                           \
        IDLE("deterministic_flash_attn"), IDLE("initializer_cutoff_factor"),                       \
        IDLE("position_embedding_type"), IDLE("reference_compile"),                                \
        IDLE("repad_logits_with_grad"), IDLE("sparse_prediction"),                                 \
        IDLE("sparse_pred_ignore_index"), FUNCTION("hidden_activation", "gelu")

FIELDS_OF(modernbert, MODERNBERT);

/* Its window is half of what a file says, as of the encoder on each side. */
FIELDS_OF(modernbert_decoder, MODERNBERT, IDLE("sliding_window"));

FIELDS_OF(distilbert, NEEDED("dim", width), NEEDED("n_layers", layers), NEEDED("n_heads", heads),
          NEEDED("hidden_size", width), NEEDED("num_hidden_layers", layers),
          NEEDED("num_attention_heads", heads), NEEDED("vocab_size", vocabulary),
          EXTENT("hidden_dim", inner, 3072), EXTENT("max_position_embeddings", positions, 512),
          RATE("dropout", dropout, 0.1), RATE("attention_dropout", attention_dropout, 0.1),
          FLAG("tie_word_embeddings", tied, 1), FLAG("tie_weights_", tied, 1),
          NOT("sinusoidal_pos_embds"), FUNCTION("activation", "gelu"));

FIELDS_OF(vit, ENCODER(3072), CLASSES(16));

FIELDS_OF(deit, ENCODER(3072), CLASSES(16));

/* What it is as a part of other models changes nothing, nor the number that its scales start at. */
#define DINOV2                                                                                     \
    SIZES, CLASSES(14), NUMBER("layer_norm_eps", epsilon, 1e-6), EXACT("mlp_ratio", 4),            \
        ZERO("drop_path_rate"), FLAG("use_swiglu_ffn", gated, 0), IDLE("layerscale_value"),        \
        IDLE("apply_layernorm"), IDLE("reshape_hidden_states"), IDLE("use_mask_token"),            \
        IDLE("out_features"), IDLE("out_indices"), IDLE("stage_names"),                            \
        FUNCTION("hidden_act", "gelu")

FIELDS_OF(dinov2, DINOV2);

FIELDS_OF(dinov2_with_registers, DINOV2, EXTENT("num_register_tokens", registers, 4),
          IDLE("interpolate_antialias"), IDLE("interpolate_offset"));

#define T5(wide, function)                                                                         \
    NEEDED("d_model", width), NEEDED("num_layers", layers), NEEDED("num_heads", heads),            \
        NEEDED("vocab_size", vocabulary), EXTENT("d_kv", head, 64), EXTENT("d_ff", inner, wide),   \
        EXTENT("num_decoder_layers", decoder_layers, 0),                                           \
        EXTENT("relative_attention_num_buckets", buckets, 32),                                     \
        EXTENT("relative_attention_max_distance", distance, 128),                                  \
        NUMBER("layer_norm_epsilon", epsilon, 1e-6), RATE("dropout_rate", dropout, 0.1),           \
        FLAG("tie_word_embeddings", tied, 1),                                                      \
        {"feed_forward_proj", CLEAVE_FIELD_GATED, MEMBER(activation), false, 0, function},         \
        YES("is_encoder_decoder")

FIELDS_OF(t5, T5(2048, "relu"), FLAG("scale_decoder_outputs", scales, 1));

/* Where the embedding's table gives the logits, nothing is scaled. */
FIELDS_OF(mt5, T5(1024, "gated-gelu"));

FIELDS_OF(umt5, T5(1024, "gated-gelu"), FLAG("scale_decoder_outputs", tied, 1),
          YES("scalable_attention"));

/* BART's names.  Its first files have switches of other models, which the class has not. */
#define SIDES(function)                                                                            \
    NEEDED("d_model", width), NEEDED("vocab_size", vocabulary), NEEDED("encoder_layers", layers),  \
        NEEDED("num_hidden_layers", layers), NEEDED("decoder_layers", decoder_layers),             \
        NEEDED("encoder_attention_heads", heads), NEEDED("decoder_attention_heads", heads),        \
        NEEDED("encoder_ffn_dim", inner), NEEDED("decoder_ffn_dim", inner),                        \
        RATE("activation_dropout", unit_dropout, 0), YES("tie_word_embeddings"),                   \
        YES("is_encoder_decoder"), FUNCTION("activation_function", function)
#define SIDES_OF_TEXT(function, positions_standard)                                                \
    SIDES(function), EXTENT("max_position_embeddings", positions, positions_standard),             \
        RATE("dropout", dropout, 0.1), RATE("attention_dropout", attention_dropout, 0),            \
        FLAG("scale_embedding", scales, 0), IDLE("add_bias_logits"), IDLE("add_final_layer_norm"), \
        IDLE("classif_dropout"), IDLE("extra_pos_embeddings"),                                     \
        IDLE("force_bos_token_to_be_generated"), IDLE("normalize_before"),                         \
        IDLE("normalize_embedding"), IDLE("static_position_embeddings")
#define KEEPS_LAYERS ZERO("encoder_layerdrop"), ZERO("decoder_layerdrop")

FIELDS_OF(bart, SIDES_OF_TEXT("gelu", 1024), KEEPS_LAYERS);

FIELDS_OF(blenderbot, SIDES_OF_TEXT("gelu", 128), KEEPS_LAYERS, NOT("extra_layer_norm"),
          IS("layernorm_variant", "prelayernorm"));

FIELDS_OF(blenderbot_small, SIDES_OF_TEXT("gelu", 512), KEEPS_LAYERS, NOT("extra_layer_norm"),
          IS("layernorm_variant", "xlm"));

/* The size of a vocabulary of the decoder's own is of tables that are not shared. */
FIELDS_OF(marian, SIDES_OF_TEXT("gelu", 1024), KEEPS_LAYERS, IDLE("decoder_vocab_size"),
          YES("share_encoder_decoder_embeddings"));

/* Sides of M2M-100 drop layers where nothing is said of it. */
FIELDS_OF(m2m_100, SIDES("relu"), EXTENT("max_position_embeddings", positions, 1024),
          RATE("dropout", dropout, 0.1), RATE("attention_dropout", attention_dropout, 0.1),
          FLAG("scale_embedding", scales, 1), COUNT("pad_token_id", padding, 1),
          NEEDED_ZERO("encoder_layerdrop"), NEEDED_ZERO("decoder_layerdrop"));

FIELDS_OF(whisper, SIDES("gelu"), KEEPS_LAYERS, RATE("dropout", dropout, 0),
          RATE("attention_dropout", attention_dropout, 0), EXTENT("num_mel_bins", channels, 80),
          EXTENT("max_source_positions", places, 1500),
          EXTENT("max_target_positions", positions, 448), NOT("apply_spec_augment"),
          IDLE("classifier_proj_size"), IDLE("mask_feature_length"), IDLE("mask_feature_min_masks"),
          IDLE("mask_feature_prob"), IDLE("mask_time_length"), IDLE("mask_time_min_masks"),
          IDLE("mask_time_prob"), IDLE("median_filter_width"), IDLE("scale_embedding"),
          IDLE("use_weighted_layer_sum"));
