/* Fields of decoders with layer norms and a unit of two products. */
#include "graph/import/config/field_rows.h"

FIELDS_OF(phi, SIZES, NEEDED("vocab_size", vocabulary), NEEDED("intermediate_size", inner),
          EXTENT("num_key_value_heads", kv_heads, 0), TURNED("rope_theta", 10000),
          NUMBER("partial_rotary_factor", rotary[0].share, 0.5),
          NUMBER("layer_norm_eps", epsilon, 1e-5),
          EXTENT("max_position_embeddings", positions, 2048),
          RATE("attention_dropout", attention_dropout, 0), RATE("resid_pdrop", dropout, 0),
          RATE("embd_pdrop", embedding_dropout, 0), FLAG("qk_layernorm", qk_norm, 0),
          NOT("tie_word_embeddings"), FUNCTION("hidden_act", "gelu_new"));

FIELDS_OF(gpt_neox, SIZES, NEEDED("vocab_size", vocabulary), NEEDED("intermediate_size", inner),
          TURNED("rotary_emb_base", 10000), NUMBER("rotary_pct", rotary[0].share, 0.25),
          NUMBER("rope_theta", rotary[0].theta, 10000),
          NUMBER("partial_rotary_factor", rotary[0].share, 0.25),
          NUMBER("layer_norm_eps", epsilon, 1e-5),
          EXTENT("max_position_embeddings", positions, 2048),
          RATE("attention_dropout", attention_dropout, 0),
          RATE("attention_probs_dropout_prob", attention_dropout, 0),
          RATE("hidden_dropout", dropout, 0), RATE("hidden_dropout_prob", dropout, 0),
          FLAG("use_parallel_residual", parallel, 1), FLAG("attention_bias", attention_bias, 1),
          FLAG("tie_word_embeddings", tied, 0), FUNCTION("hidden_act", "gelu"));

FIELDS_OF(persimmon, SIZES, NEEDED("vocab_size", vocabulary), NEEDED("intermediate_size", inner),
          TURNED("rope_theta", 10000), NUMBER("partial_rotary_factor", rotary[0].share, 0.5),
          NUMBER("layer_norm_eps", epsilon, 1e-5),
          EXTENT("max_position_embeddings", positions, 16384),
          RATE("attention_dropout", attention_dropout, 0), ZERO("hidden_dropout"),
          FLAG("qk_layernorm", qk_norm, 1), FLAG("tie_word_embeddings", tied, 0),
          FUNCTION("hidden_act", "relu2"));

FIELDS_OF(bloom, NEEDED("hidden_size", width), NEEDED("n_embed", width), NEEDED("n_layer", layers),
          NEEDED("num_hidden_layers", layers), NEEDED("n_head", heads),
          NEEDED("num_attention_heads", heads), NEEDED("vocab_size", vocabulary),
          EXTENT("n_inner", inner, 0), NUMBER("layer_norm_epsilon", epsilon, 1e-5),
          RATE("hidden_dropout", dropout, 0), RATE("attention_dropout", attention_dropout, 0),
          FLAG("tie_word_embeddings", tied, 1), NOT("apply_residual_connection_post_layernorm"),
          NOT("slow_but_exact"));

FIELDS_OF(falcon, SIZES, NEEDED("n_layer", layers), NEEDED("n_head", heads),
          NEEDED("vocab_size", vocabulary), EXTENT("num_kv_heads", kv_heads, 0),
          EXTENT("n_head_kv", kv_heads, 0), EXTENT("ffn_hidden_size", inner, 0),
          EXTENT("max_position_embeddings", positions, 2048), TURNED("rope_theta", 10000),
          NUMBER("layer_norm_epsilon", epsilon, 1e-5),
          FLAG("new_decoder_architecture", groups_heads, 0), FLAG("multi_query", shares_keys, 1),
          EXTENT("num_ln_in_parallel_attn", n_norms, 0), FLAG("bias", attention_bias, 0),
          FLAG("tie_word_embeddings", tied, 1), YES("parallel_attn"), NOT("alibi"),
          ZERO("hidden_dropout"), ZERO("attention_dropout"), FUNCTION("activation", "gelu"));

#define GPT2_SIZES                                                                                 \
    NEEDED("n_embd", width), NEEDED("n_layer", layers), NEEDED("n_head", heads),                   \
        NEEDED("hidden_size", width), NEEDED("num_hidden_layers", layers),                         \
        NEEDED("num_attention_heads", heads), NEEDED("vocab_size", vocabulary),                    \
        EXTENT("n_inner", inner, 0)

#define GPT2                                                                                       \
    GPT2_SIZES, EXTENT("n_positions", positions, 1024),                                            \
        EXTENT("max_position_embeddings", positions, 1024),                                        \
        NUMBER("layer_norm_epsilon", epsilon, 1e-5), RATE("attn_pdrop", attention_dropout, 0.1),   \
        RATE("resid_pdrop", dropout, 0.1), RATE("embd_pdrop", embedding_dropout, 0.1),             \
        FLAG("scale_attn_weights", scales, 1), FLAG("tie_word_embeddings", tied, 1)

FIELDS_OF(gpt2, GPT2, FLAG("scale_attn_by_inverse_layer_idx", scales_by_layer, 0),
          FUNCTION("activation_function", "gelu_new"));

/* What its files say of how it is run changes nothing. */
FIELDS_OF(gpt_bigcode, GPT2, YES("multi_query"), IDLE("num_key_value_heads"),
          IDLE("scale_attention_softmax_in_fp32"), IDLE("inference_runner"), IDLE("max_batch_size"),
          IDLE("max_sequence_length"), IDLE("pad_key_length"), IDLE("pre_allocate_kv_cache"),
          IDLE("validate_runner_input"), FUNCTION("activation_function", "gelu_pytorch_tanh"));

FIELDS_OF(opt, SIZES, NEEDED("vocab_size", vocabulary), NEEDED("ffn_dim", inner),
          EXTENT("word_embed_proj_dim", embedded_width, 0),
          EXTENT("max_position_embeddings", positions, 2048),
          RATE("attention_dropout", attention_dropout, 0), RATE("dropout", dropout, 0.1),
          ZERO("layerdrop"), FLAG("do_layer_norm_before", norms_before, 1),
          NOT("_remove_final_layer_norm"), YES("layer_norm_elementwise_affine"),
          FLAG("enable_bias", attention_bias, 1), FLAG("tie_word_embeddings", tied, 1),
          FUNCTION("activation_function", "relu"));

/* GPT-2's names, which GPT-J and CodeGen have, too. */
#define GPTJ                                                                                       \
    GPT2_SIZES, EXTENT("n_positions", positions, 2048),                                            \
        EXTENT("max_position_embeddings", positions, 2048), COUNT("rotary_dim", turned_width, 64), \
        NUMBER("layer_norm_epsilon", epsilon, 1e-5), RATE("attn_pdrop", attention_dropout, 0),     \
        RATE("resid_pdrop", dropout, 0), RATE("embd_pdrop", embedding_dropout, 0),                 \
        FLAG("tie_word_embeddings", tied, 0), YES("rotary"), YES("scale_attn_weights"),            \
        FUNCTION("activation_function", "gelu_new")

FIELDS_OF(gptj, GPTJ);

FIELDS_OF(codegen, GPTJ);

FIELDS_OF(gpt_neo, NEEDED("hidden_size", width), NEEDED("num_layers", layers),
          NEEDED("num_hidden_layers", layers), NEEDED("num_heads", heads),
          NEEDED("num_attention_heads", heads), NEEDED("vocab_size", vocabulary),
          EXTENT("intermediate_size", inner, 0), EXTENT("max_position_embeddings", positions, 2048),
          EXTENT("window_size", window, 256),
          {"attention_types", CLEAVE_FIELD_RUNS, MEMBER(windowed), true, 0, "global local"},
          IDLE("attention_layers"), NUMBER("layer_norm_epsilon", epsilon, 1e-5),
          RATE("attention_dropout", attention_dropout, 0), RATE("resid_dropout", dropout, 0),
          RATE("embed_dropout", embedding_dropout, 0), FLAG("tie_word_embeddings", tied, 1),
          FUNCTION("activation_function", "gelu_new"));

/* The class has positions as slopes, and units of four widths, whatever the file says. */
FIELDS_OF(mpt, NEEDED("d_model", width), NEEDED("n_layers", layers), NEEDED("n_heads", heads),
          NEEDED("hidden_size", width), NEEDED("num_hidden_layers", layers),
          NEEDED("num_attention_heads", heads), NEEDED("vocab_size", vocabulary),
          NUMBER("layer_norm_epsilon", epsilon, 1e-5), FLAG("tie_word_embeddings", tied, 1),
          EXACT("expansion_ratio", 4), ZERO("resid_pdrop"), ZERO("emb_pdrop"), YES("no_bias"),
          EXACT("embedding_fraction", 1), ZERO("logit_scale"),
          IS("norm_type", "low_precision_layernorm"), IDLE("learned_pos_emb"), IDLE("max_seq_len"),
          IDLE("init_config"), IDLE("init_device"), IDLE("tokenizer_name"), IDLE("verbose"),
          IS("attn_config.attn_type", "multihead_attention"), IDLE("attn_config.attn_impl"),
          RATE("attn_config.attn_pdrop", attention_dropout, 0),
          CAP("attn_config.clip_qkv", projection_clip, 0),
          CAP("attn_config.softmax_scale", score_scale, 0), NOT("attn_config.prefix_lm"),
          NOT("attn_config.qk_ln"), NOT("attn_config.qk_gn"),
          NOT("attn_config.attn_uses_sequence_id"), YES("attn_config.alibi"),
          EXACT("attn_config.alibi_bias_max", 8));

FIELDS_OF(xglm, NEEDED("d_model", width), NEEDED("hidden_size", width),
          NEEDED("num_layers", layers), NEEDED("num_hidden_layers", layers),
          NEEDED("attention_heads", heads), NEEDED("num_attention_heads", heads),
          NEEDED("ffn_dim", inner), NEEDED("vocab_size", vocabulary),
          EXTENT("max_position_embeddings", positions, 2048), RATE("dropout", dropout, 0.1),
          RATE("attention_dropout", attention_dropout, 0.1),
          RATE("activation_dropout", unit_dropout, 0), ZERO("layerdrop"),
          FLAG("scale_embedding", scales, 1), FLAG("tie_word_embeddings", tied, 1),
          FUNCTION("activation_function", "gelu"));

/* The class has norms' own epsilon, whatever the file says. */
FIELDS_OF(biogpt, SIZES, NEEDED("vocab_size", vocabulary), EXTENT("intermediate_size", inner, 4096),
          EXTENT("max_position_embeddings", positions, 1024),
          RATE("hidden_dropout_prob", dropout, 0.1),
          RATE("attention_probs_dropout_prob", attention_dropout, 0.1),
          RATE("activation_dropout", unit_dropout, 0), ZERO("layerdrop"), IDLE("layer_norm_eps"),
          FLAG("scale_embedding", scales, 1), FLAG("tie_word_embeddings", tied, 1),
          FUNCTION("hidden_act", "gelu"));
