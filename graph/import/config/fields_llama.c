/* Fields of families that are made like Llama (family_llama.h), with a dense unit. */
#include "graph/import/config/field_rows.h"

/* Files of models that have images, too, leave out what is as of the class. */
#define STANDARD_SIZES(width_, layers_, heads_, kv_heads_, inner_, vocabulary_, positions_)        \
    EXTENT("hidden_size", width, width_), EXTENT("num_hidden_layers", layers, layers_),            \
        EXTENT("num_attention_heads", heads, heads_), EXTENT("intermediate_size", inner, inner_),  \
        EXTENT("vocab_size", vocabulary, vocabulary_),                                             \
        EXTENT("num_key_value_heads", kv_heads, kv_heads_),                                        \
        EXTENT("max_position_embeddings", positions, positions_),                                  \
        RATE("attention_dropout", attention_dropout, 0)

FIELDS_OF(llama, STANDARD_SIZES(4096, 32, 32, 0, 11008, 32000, 2048), TURNED("rope_theta", 10000),
          NUMBER("rms_norm_eps", epsilon, 1e-6), EXTENT("head_dim", head, 0),
          FLAG("tie_word_embeddings", tied, 0), FLAG("attention_bias", attention_bias, 0),
          FLAG("mlp_bias", mlp_bias, 0), NOT("rope_interleaved"), FUNCTION("hidden_act", "silu"));

FIELDS_OF(exaone, LLAMA_SIZES(8, 4096), NEEDED("num_layers", layers), TURNED("rope_theta", 500000),
          NUMBER("rms_norm_eps", epsilon, 1e-5), NUMBER("layer_norm_epsilon", epsilon, 1e-5),
          EXTENT("head_dim", head, 0), FLAG("tie_word_embeddings", tied, 0),
          FLAG("attention_bias", attention_bias, 0), FLAG("mlp_bias", mlp_bias, 0),
          ZERO("embed_dropout"), FUNCTION("hidden_act", "silu"),
          FUNCTION("activation_function", "silu"));

FIELDS_OF(iquestcoder, STANDARD_SIZES(5120, 80, 40, 8, 27648, 76800, 131072),
          TURNED("rope_theta", 10000), NUMBER("rms_norm_eps", epsilon, 1e-5),
          EXTENT("head_dim", head, 128), FLAG("tie_word_embeddings", tied, 0),
          FLAG("attention_bias", attention_bias, 0), FLAG("mlp_bias", mlp_bias, 0),
          NOT("use_sliding_window"), EMPTY("clip_qkv"), FUNCTION("hidden_act", "silu"));

FIELDS_OF(ministral, LLAMA(8, 131072), EXTENT("head_dim", head, 0),
          FLAG("tie_word_embeddings", tied, 0), COUNT("sliding_window", window, 4096), LAYERS,
          FUNCTION("hidden_act", "silu"));

FIELDS_OF(mistral, STANDARD_SIZES(4096, 32, 32, 8, 14336, 32000, 131072),
          TURNED("rope_theta", 10000), NUMBER("rms_norm_eps", epsilon, 1e-6),
          EXTENT("head_dim", head, 0), FLAG("tie_word_embeddings", tied, 0),
          COUNT("sliding_window", window, 4096), FUNCTION("hidden_act", "silu"));

/* As of gpt-oss, its rotary positions are scaled where nothing is said of them. */
FIELDS_OF(ministral3, LLAMA_SIZES(8, 262144), NUMBER("rope_theta", rotary[0].theta, 1e6),
          {"rope_scaling", CLEAVE_FIELD_ROTARY, MEMBER(rotary), true, 0, "llama_4_scaling_beta"},
          {"rope_parameters", CLEAVE_FIELD_ROTARY, MEMBER(rotary), true, 0, "llama_4_scaling_beta"},
          NUMBER("rms_norm_eps", epsilon, 1e-5), EXTENT("head_dim", head, 128),
          FLAG("tie_word_embeddings", tied, 0), COUNT("sliding_window", window, 0),
          FUNCTION("hidden_act", "silu"));

FIELDS_OF(qwen2, LLAMA(32, 32768), FLAG("tie_word_embeddings", tied, 0), WINDOWS,
          FUNCTION("hidden_act", "silu"));

FIELDS_OF(qwen3, LLAMA(32, 32768), EXTENT("head_dim", head, 128),
          FLAG("tie_word_embeddings", tied, 0), FLAG("attention_bias", attention_bias, 0), WINDOWS,
          FUNCTION("hidden_act", "silu"));

/* The texts of Qwen2-VL and Qwen2.5-VL. */
FIELDS_OF(qwen2_vl_text, LLAMA_SIZES(8, 32768), TURNED_BESIDE_IMAGES(1e6),
          NUMBER("rms_norm_eps", epsilon, 1e-5), FLAG("tie_word_embeddings", tied, 0), WINDOWS,
          FUNCTION("hidden_act", "silu"));

FIELDS_OF(qwen3_vl_text, LLAMA_SIZES(32, 128000), TURNED_BESIDE_IMAGES(500000),
          NUMBER("rms_norm_eps", epsilon, 1e-6), EXTENT("head_dim", head, 128),
          FLAG("tie_word_embeddings", tied, 0), FLAG("attention_bias", attention_bias, 0),
          FUNCTION("hidden_act", "silu"));

FIELDS_OF(granite, LLAMA(0, 2048), FLAG("tie_word_embeddings", tied, 0),
          FLAG("attention_bias", attention_bias, 0), FLAG("mlp_bias", mlp_bias, 0),
          NUMBER("embedding_multiplier", embedding_scale, 1),
          NUMBER("residual_multiplier", residual_scale, 1),
          NUMBER("attention_multiplier", score_scale, 1), NUMBER("logits_scaling", logit_scale, 1),
          FUNCTION("hidden_act", "silu"));

FIELDS_OF(smollm3, LLAMA_SIZES(4, 32768), TURNED("rope_theta", 2e6),
          NUMBER("rms_norm_eps", epsilon, 1e-6),
          EXTENT("no_rope_layer_interval", unturned_every, 4),
          {"no_rope_layers", CLEAVE_FIELD_SWITCHES, MEMBER(turned), false, 0, NULL},
          NOT("use_sliding_window"), COUNT("sliding_window", window, 0),
          COUNT("max_window_layers", first_windowed_layer, 0), LAYERS,
          FLAG("tie_word_embeddings", tied, 1), FLAG("attention_bias", attention_bias, 0),
          FLAG("mlp_bias", mlp_bias, 0), FUNCTION("hidden_act", "silu"));

FIELDS_OF(starcoder2, LLAMA_SIZES(2, 4096), TURNED("rope_theta", 10000),
          NUMBER("norm_epsilon", epsilon, 1e-5), COUNT("sliding_window", window, 0),
          RATE("residual_dropout", dropout, 0), RATE("embedding_dropout", embedding_dropout, 0),
          FLAG("use_bias", attention_bias, 1), FLAG("tie_word_embeddings", tied, 1),
          FUNCTION("hidden_act", "gelu_pytorch_tanh"));

FIELDS_OF(seed_oss, LLAMA_SIZES(8, 524288), TURNED("rope_theta", 10000),
          NUMBER("rms_norm_eps", epsilon, 1e-6), RATE("attention_dropout", attention_dropout, 0.1),
          RATE("residual_dropout", dropout, 0.1), EXTENT("head_dim", head, 128),
          FLAG("attention_bias", qkv_bias, 1), FLAG("attention_out_bias", output_bias, 0),
          FLAG("mlp_bias", mlp_bias, 0), FLAG("tie_word_embeddings", tied, 0),
          FUNCTION("hidden_act", "silu"));

FIELDS_OF(ernie4_5, LLAMA_SIZES(2, 131072), TURNED("rope_theta", 500000),
          NUMBER("rms_norm_eps", epsilon, 1e-5), EXTENT("head_dim", head, 128),
          FLAG("use_bias", attention_bias, 0), FLAG("tie_word_embeddings", tied, 1),
          FUNCTION("hidden_act", "silu"));

FIELDS_OF(arcee, LLAMA_SIZES(0, 4096), TURNED("rope_theta", 10000),
          NUMBER("rms_norm_eps", epsilon, 1e-5), EXTENT("head_dim", head, 0),
          FLAG("attention_bias", attention_bias, 0), FLAG("mlp_bias", mlp_bias, 0),
          FLAG("tie_word_embeddings", tied, 0), FUNCTION("hidden_act", "relu2"));

FIELDS_OF(nemotron, LLAMA_SIZES(0, 4096), TURNED("rope_theta", 10000),
          NUMBER("partial_rotary_factor", rotary[0].share, 0.5),
          NUMBER("rope_percent", rotary[0].share, 0.5), NUMBER("norm_eps", epsilon, 1e-5),
          EXTENT("head_dim", head, 0), FLAG("attention_bias", attention_bias, 0),
          FLAG("mlp_bias", mlp_bias, 0), FLAG("tie_word_embeddings", tied, 0),
          FUNCTION("hidden_act", "relu2"));

#define GLM                                                                                        \
    LLAMA_SIZES(2, 131072), TURNED("rope_theta", 10000),                                           \
        NUMBER("partial_rotary_factor", rotary[0].share, 0.5),                                     \
        NUMBER("rms_norm_eps", epsilon, 1.5625e-7), EXTENT("head_dim", head, 128),                 \
        FLAG("attention_bias", qkv_bias, 1), FLAG("tie_word_embeddings", tied, 0),                 \
        FUNCTION("hidden_act", "silu")

FIELDS_OF(glm, GLM);

FIELDS_OF(cohere2, LLAMA_SIZES(0, 8192), TURNED("rope_theta", 10000),
          NUMBER("rotary_pct", rotary[0].share, 1), NUMBER("layer_norm_eps", epsilon, 1e-5),
          NUMBER("logit_scale", logit_scale, 0.0625), EXTENT("head_dim", head, 0),
          COUNT("sliding_window", window, 4096), EXTENT("sliding_window_pattern", whole_every, 4),
          EXTENT("_sliding_window_pattern", whole_every, 4), EXTENT("layer_switch", whole_every, 4),
          LAYERS, FLAG("attention_bias", attention_bias, 0), FLAG("tie_word_embeddings", tied, 1),
          FLAG("use_embedding_sharing", tied, 1), YES("use_gated_activation"),
          YES("use_parallel_block"), NOT("use_parallel_embedding"), NOT("use_qk_norm"),
          IS("order_of_interleaved_layers", "local_attn_first"),
          IS("position_embedding_type", "rope_gptj"), FUNCTION("hidden_act", "silu"));

FIELDS_OF(cohere, LLAMA_SIZES(0, 8192), TURNED("rope_theta", 500000),
          NUMBER("layer_norm_eps", epsilon, 1e-5), NUMBER("logit_scale", logit_scale, 0.0625),
          EXTENT("head_dim", head, 0), FLAG("attention_bias", attention_bias, 0),
          FLAG("tie_word_embeddings", tied, 1), NOT("use_qk_norm"), FUNCTION("hidden_act", "silu"));

FIELDS_OF(stablelm, LLAMA_SIZES(32, 4096), TURNED("rope_theta", 10000),
          NUMBER("partial_rotary_factor", rotary[0].share, 0.25),
          NUMBER("rope_pct", rotary[0].share, 0.25), NUMBER("layer_norm_eps", epsilon, 1e-5),
          NUMBER("norm_eps", epsilon, 1e-5), FLAG("use_qkv_bias", qkv_bias, 0),
          FLAG("use_parallel_residual", parallel, 0), FLAG("tie_word_embeddings", tied, 0),
          FLAG("qk_layernorm", qk_norm, 0), ZERO("hidden_dropout"), FUNCTION("hidden_act", "silu"));

FIELDS_OF(olmo, LLAMA_SIZES(0, 2048), TURNED("rope_theta", 10000),
          CAP("clip_qkv", projection_clip, 0), FLAG("attention_bias", attention_bias, 0),
          FLAG("tie_word_embeddings", tied, 0), FUNCTION("hidden_act", "silu"));

FIELDS_OF(exaone4, LLAMA_SIZES(32, 2048), TURNED("rope_theta", 10000),
          NUMBER("rms_norm_eps", epsilon, 1e-5), EXTENT("head_dim", head, 0),
          COUNT("sliding_window", window, 4096),
          {"sliding_window_pattern", CLEAVE_FIELD_PERIOD, MEMBER(whole_every), false, 4, NULL},
          LAYERS, FLAG("tie_word_embeddings", tied, 0), FUNCTION("hidden_act", "silu"));

FIELDS_OF(gemma, LLAMA(16, 8192), EXTENT("head_dim", head, 256),
          FLAG("tie_word_embeddings", tied, 1), FLAG("attention_bias", attention_bias, 0),
          IS("hidden_activation", "gelu_pytorch_tanh"), FUNCTION("hidden_act", "gelu_pytorch_tanh"),
          NOT("use_bidirectional_attention"));

/* From Gemma 2 on. */
#define GEMMA(...)                                                                                 \
    __VA_ARGS__, NUMBER("rms_norm_eps", epsilon, 1e-6), EXTENT("head_dim", head, 256),             \
        FLAG("tie_word_embeddings", tied, 1), FLAG("attention_bias", attention_bias, 0),           \
        IS("hidden_act", "gelu_pytorch_tanh"), FUNCTION("hidden_activation", "gelu_pytorch_tanh"), \
        NOT("use_bidirectional_attention"), NUMBER("query_pre_attn_scalar", query_scale, 256),     \
        COUNT("sliding_window", window, 4096), LAYERS

FIELDS_OF(gemma2, GEMMA(LLAMA_SIZES(4, 8192)), TURNED("rope_theta", 10000),
          COUNT("sliding_window_size", window, 4096), CAP("attn_logit_softcapping", score_cap, 50),
          CAP("final_logit_softcapping", logit_cap, 30));

FIELDS_OF(gemma3_text, GEMMA(STANDARD_SIZES(2304, 26, 8, 4, 9216, 262208, 131072)),
          NUMBER("rope_theta", rotary[0].theta, 1e6),
          NUMBER("rope_local_base_freq", rotary[1].theta, 10000), ROTARY("rope_scaling"),
          ROTARIES("rope_parameters"), EXTENT("sliding_window_pattern", whole_every, 6),
          EXTENT("_sliding_window_pattern", whole_every, 6),
          CAP("attn_logit_softcapping", score_cap, 0),
          CAP("final_logit_softcapping", logit_cap, 0));

FIELDS_OF(olmo2, LLAMA_SIZES(0, 2048), TURNED("rope_theta", 10000),
          NUMBER("rms_norm_eps", epsilon, 1e-5), FLAG("tie_word_embeddings", tied, 0),
          FLAG("attention_bias", attention_bias, 0), FUNCTION("hidden_act", "silu"));

FIELDS_OF(olmo3, LLAMA_SIZES(0, 2048), NUMBER("rope_theta", rotary[0].theta, 500000),
          ROTARY("rope_scaling"), ROTARIES("rope_parameters"),
          NUMBER("rms_norm_eps", epsilon, 1e-5), COUNT("sliding_window", window, 4096), LAYERS,
          FLAG("tie_word_embeddings", tied, 0), FLAG("attention_bias", attention_bias, 0),
          FUNCTION("hidden_act", "silu"));

FIELDS_OF(phi3, LLAMA_SIZES(0, 4096), TURNED("rope_theta", 10000),
          NUMBER("partial_rotary_factor", rotary[0].share, 1),
          EXTENT("original_max_position_embeddings", rotary[0].original_positions, 4096),
          NUMBER("rms_norm_eps", epsilon, 1e-5), RATE("resid_pdrop", dropout, 0),
          ZERO("embd_pdrop"), COUNT("sliding_window", window, 0),
          FLAG("tie_word_embeddings", tied, 0), NOT("attention_bias"), NOT("mlp_bias"),
          NOT("lm_head_bias"), IDLE("full_attn_mod"), IDLE("interpolate_factor"),
          FUNCTION("hidden_act", "silu"));

FIELDS_OF(helium, LLAMA_SIZES(20, 4096), TURNED("rope_theta", 100000),
          NUMBER("rms_norm_eps", epsilon, 1e-8), EXTENT("head_dim", head, 128),
          FLAG("attention_bias", qkv_bias, 0), FLAG("mlp_bias", mlp_bias, 0),
          FLAG("tie_word_embeddings", tied, 0), FUNCTION("hidden_act", "silu"));

/* Rotary positions may be stretched for texts of any length, by `alpha`. */
FIELDS_OF(hunyuan_v1_dense, HUNYUAN, NOT("mlp_bias"));

/* Here, too, something has to be said of rotary positions. */
FIELDS_OF(apertus, LLAMA_SIZES(0, 65536), NUMBER("rope_theta", rotary[0].theta, 12e6),
          NEEDED_ROTARY("rope_scaling"), NEEDED_ROTARY("rope_parameters"),
          NUMBER("rms_norm_eps", epsilon, 1e-5), EXTENT("head_dim", head, 0),
          FLAG("attention_bias", attention_bias, 0), FLAG("tie_word_embeddings", tied, 0),
          NOT("mlp_bias"), NOT("post_norm"), YES("qk_norm"), ZERO("hidden_dropout"),
          IS("hidden_act", "xielu"));

FIELDS_OF(internlm3, LLAMA_SIZES(2, 32768), TURNED("rope_theta", 10000),
          NUMBER("rms_norm_eps", epsilon, 1e-5), EXTENT("head_dim", head, 128),
          FLAG("tie_word_embeddings", tied, 0), FLAG("qkv_bias", attention_bias, 0),
          FLAG("attention_bias", attention_bias, 0), FLAG("bias", attention_bias, 0),
          FLAG("mlp_bias", attention_bias, 0), FUNCTION("hidden_act", "silu"));

/* Something has to be said of rotary positions, and of the layers that have a window. */
FIELDS_OF(cwm, LLAMA_SIZES(8, 131072), NUMBER("rope_theta", rotary[0].theta, 1e6),
          NEEDED_ROTARY("rope_scaling"), NEEDED_ROTARY("rope_parameters"),
          NUMBER("rms_norm_eps", epsilon, 1e-5), EXTENT("head_dim", head, 128),
          COUNT("sliding_window", window, 8192),
          {"layer_types", CLEAVE_FIELD_LAYERS, MEMBER(windowed), true, 0,
           "full_attention sliding_attention"},
          FLAG("tie_word_embeddings", tied, 0), FLAG("mlp_bias", mlp_bias, 0),
          FUNCTION("hidden_act", "silu"));

FIELDS_OF(eurobert, LLAMA_SIZES(0, 8192), TURNED("rope_theta", 10000),
          NUMBER("rms_norm_eps", epsilon, 1e-5), EXTENT("head_dim", head, 0),
          FLAG("tie_word_embeddings", tied, 0), FLAG("attention_bias", attention_bias, 0),
          FLAG("mlp_bias", mlp_bias, 0), ZERO("hidden_dropout"), IDLE("classifier_pooling"),
          IDLE("clf_pooling"), IDLE("bos_token"), IDLE("eos_token"), IDLE("mask_token"),
          IDLE("pad_token"), FUNCTION("hidden_act", "silu"));

FIELDS_OF(jais2, LLAMA_SIZES(0, 8192), TURNED("rope_theta", 10000),
          NUMBER("layer_norm_eps", epsilon, 1e-5), EXTENT("head_dim", head, 0),
          FLAG("tie_word_embeddings", tied, 0), FLAG("attention_bias", attention_bias, 1),
          FLAG("mlp_bias", mlp_bias, 1), FUNCTION("hidden_act", "relu2"));

FIELDS_OF(hyperclovax, LLAMA(0, 2048), EXTENT("head_dim", head, 0),
          FLAG("tie_word_embeddings", tied, 0), FLAG("attention_bias", attention_bias, 0),
          FLAG("mlp_bias", mlp_bias, 0), NUMBER("embedding_multiplier", embedding_scale, 1),
          NUMBER("residual_multiplier", residual_scale, 1),
          CAP("attention_multiplier", score_scale, 0), NUMBER("logits_scaling", logit_scale, 1),
          FLAG("use_post_norm", norms_behind, 1), FUNCTION("hidden_act", "silu"));

FIELDS_OF(vaultgemma, GEMMA(LLAMA_SIZES(4, 8192)), TURNED("rope_theta", 10000),
          CAP("attn_logit_softcapping", score_cap, 50),
          CAP("final_logit_softcapping", logit_cap, 30));
