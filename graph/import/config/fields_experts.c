/* Fields of families whose units are experts. */
#include "graph/import/config/field_rows.h"

/* Experts; `expert_capacity` and `capacity_factor` are no fields of these families, but of others
   that drop tokens. */
#define ROOM                                                                                       \
    NOT("output_router_logits"), COUNT("expert_capacity", capacity, 0),                            \
        NUMBER("capacity_factor", capacity_factor, 0)
#define MLP_TYPES                                                                                  \
    { "mlp_layer_types", CLEAVE_FIELD_LAYERS, MEMBER(routed), false, 0, "dense sparse" }
#define EXPERTS(choices_standard) EXTENT("num_experts_per_tok", choices, choices_standard), ROOM

FIELDS_OF(mixtral, LLAMA_SIZES(8, 131072), TURNED("rope_theta", 1e6),
          NUMBER("rms_norm_eps", epsilon, 1e-5), EXPERTS(2),
          EXTENT("num_local_experts", experts, 8), EXTENT("num_experts", experts, 8),
          EXTENT("head_dim", head, 0), FLAG("tie_word_embeddings", tied, 0),
          COUNT("sliding_window", window, 0), ZERO("router_jitter_noise"),
          FUNCTION("hidden_act", "silu"));

FIELDS_OF(qwen3_moe, LLAMA(4, 32768), EXPERTS(8), EXTENT("num_experts", experts, 128),
          EXTENT("num_local_experts", experts, 128),
          EXTENT("moe_intermediate_size", expert_inner, 768),
          EXTENT("decoder_sparse_step", sparse_step, 1), FLAG("norm_topk_prob", normalises, 0),
          EXTENT("head_dim", head, 0), FLAG("tie_word_embeddings", tied, 0),
          FLAG("attention_bias", attention_bias, 0), WINDOWS, EMPTY("mlp_only_layers"),
          FUNCTION("hidden_act", "silu"));

FIELDS_OF(qwen3_vl_moe_text, LLAMA_SIZES(16, 128000), TURNED_BESIDE_IMAGES(500000),
          NUMBER("rms_norm_eps", epsilon, 1e-6), EXPERTS(4), EXTENT("num_experts", experts, 60),
          EXTENT("num_local_experts", experts, 60),
          EXTENT("moe_intermediate_size", expert_inner, 1408),
          EXTENT("decoder_sparse_step", sparse_step, 1), YES("norm_topk_prob"),
          EXTENT("head_dim", head, 0), FLAG("tie_word_embeddings", tied, 0),
          FLAG("attention_bias", attention_bias, 0), EMPTY("mlp_only_layers"),
          FUNCTION("hidden_act", "silu"));

FIELDS_OF(qwen2_moe, LLAMA(16, 32768), EXPERTS(4), EXTENT("num_experts", experts, 60),
          EXTENT("moe_intermediate_size", expert_inner, 1408),
          EXTENT("shared_expert_intermediate_size", shared_inner, 5632),
          EXTENT("decoder_sparse_step", sparse_step, 1), FLAG("norm_topk_prob", normalises, 0),
          FLAG("tie_word_embeddings", tied, 0), FLAG("qkv_bias", qkv_bias, 1),
          NOT("use_sliding_window"), COUNT("sliding_window", window, 0),
          COUNT("max_window_layers", first_windowed_layer, 28), LAYERS, EMPTY("mlp_only_layers"),
          FUNCTION("hidden_act", "silu"));

FIELDS_OF(olmoe, LLAMA_SIZES(0, 4096), TURNED("rope_theta", 10000),
          NUMBER("rms_norm_eps", epsilon, 1e-5), EXPERTS(8), EXTENT("num_experts", experts, 64),
          EXTENT("num_local_experts", experts, 64), FLAG("norm_topk_prob", normalises, 0),
          CAP("clip_qkv", projection_clip, 0), FLAG("tie_word_embeddings", tied, 0),
          FLAG("attention_bias", attention_bias, 0), FUNCTION("hidden_act", "silu"));

/* Its rotary positions are scaled where nothing is said of them, so something has to be said. */
FIELDS_OF(gpt_oss, LLAMA_SIZES(8, 131072), NUMBER("rope_theta", rotary[0].theta, 150000),
          NEEDED_ROTARY("rope_scaling"), NEEDED_ROTARY("rope_parameters"),
          NUMBER("rms_norm_eps", epsilon, 1e-5), EXPERTS(4),
          EXTENT("experts_per_token", choices, 4), EXTENT("num_local_experts", experts, 128),
          EXTENT("num_experts", experts, 128), EXTENT("head_dim", head, 64),
          FLAG("attention_bias", attention_bias, 1), FLAG("tie_word_embeddings", tied, 0),
          COUNT("sliding_window", window, 128), LAYERS, NUMBER("swiglu_alpha", gate_scale, 1.702),
          NUMBER("swiglu_limit", gate_limit, 7), FUNCTION("hidden_act", "silu"));

/* Its experts have the width that is called as that of dense layers is elsewhere.  What attention
   in chunks sees is what any does, of texts no longer than a chunk. */
FIELDS_OF(llama4, SIZES, NEEDED("vocab_size", vocabulary),
          NEEDED("intermediate_size", expert_inner), EXTENT("intermediate_size_mlp", inner, 16384),
          EXTENT("num_key_value_heads", kv_heads, 8),
          EXTENT("max_position_embeddings", positions, 131072),
          RATE("attention_dropout", attention_dropout, 0), TURNED("rope_theta", 500000),
          NUMBER("rms_norm_eps", epsilon, 1e-5), EXTENT("head_dim", head, 128),
          EXTENT("num_local_experts", experts, 16), EXTENT("num_experts", experts, 16),
          ONE("num_experts_per_tok", choices), ROOM, ZERO("router_jitter_noise"),
          EXTENT("interleave_moe_layer_step", sparse_step, 1),
          {"moe_layers", CLEAVE_FIELD_PLACES, MEMBER(routed), false, 0, NULL},
          FLAG("use_qk_norm", qk_norm, 1), EXTENT("no_rope_layer_interval", unturned_every, 4),
          {"no_rope_layers", CLEAVE_FIELD_SWITCHES, MEMBER(turned), false, 0, NULL},
          COUNT("attention_chunk_size", chunk, 8192), IDLE("layer_types"),
          FLAG("attn_temperature_tuning", scales, 1), NUMBER("floor_scale", place_step, 8192),
          NUMBER("attn_scale", place_scale, 0.1), NOT("for_llm_compressor"),
          FLAG("attention_bias", attention_bias, 0), FLAG("tie_word_embeddings", tied, 0),
          FUNCTION("hidden_act", "silu"));

#define GRANITEMOE                                                                                 \
    LLAMA(0, 2048), ROOM, FLAG("tie_word_embeddings", tied, 0),                                    \
        FLAG("attention_bias", attention_bias, 0),                                                 \
        NUMBER("embedding_multiplier", embedding_scale, 1),                                        \
        NUMBER("residual_multiplier", residual_scale, 1),                                          \
        NUMBER("attention_multiplier", score_scale, 1), NUMBER("logits_scaling", logit_scale, 1),  \
        FUNCTION("hidden_act", "silu")
#define GRANITE_EXPERTS                                                                            \
    EXTENT("num_experts_per_tok", choices, 2), EXTENT("num_local_experts", experts, 8)

FIELDS_OF(granitemoe, GRANITEMOE, GRANITE_EXPERTS);

FIELDS_OF(granitemoeshared, GRANITEMOE, GRANITE_EXPERTS,
          COUNT("shared_intermediate_size", shared_inner, 0));

/* The class has state-space layers where nothing else is said. */
FIELDS_OF(granitemoehybrid, GRANITEMOE, COUNT("num_experts_per_tok", choices, 2),
          COUNT("num_local_experts", experts, 8),
          EXTENT("shared_intermediate_size", shared_inner, 1024),
          {"layer_types", CLEAVE_FIELD_LAYERS, MEMBER(attending), true, 0,
           "attention full_attention"},
          EITHER("position_embedding_type", turns_heads, "nope rope"),
          IS("normalization_function", "rmsnorm"), IDLE("init_method"), IDLE("mamba_chunk_size"),
          IDLE("mamba_conv_bias"), IDLE("mamba_d_conv"), IDLE("mamba_d_head"),
          IDLE("mamba_d_state"), IDLE("mamba_expand"), IDLE("mamba_n_groups"),
          IDLE("mamba_n_heads"), IDLE("mamba_proj_bias"), IDLE("time_step_limit"));

FIELDS_OF(minimax_m2, LLAMA_SIZES(8, 196608), TURNED("rope_theta", 5e6),
          NUMBER("partial_rotary_factor", rotary[0].share, 1), COUNT("rotary_dim", turned_width, 0),
          NUMBER("rms_norm_eps", epsilon, 1e-6), EXPERTS(8),
          EXTENT("num_local_experts", experts, 256), EXTENT("num_experts", experts, 256),
          EXTENT("head_dim", head, 128), FLAG("tie_word_embeddings", tied, 0),
          ZERO("router_jitter_noise"), YES("use_qk_norm"), YES("use_routing_bias"),
          IS("qk_norm_type", "per_layer"), IS("scoring_func", "sigmoid"),
          FUNCTION("hidden_act", "silu"));

FIELDS_OF(ernie4_5_moe, LLAMA_SIZES(4, 131072), TURNED("rope_theta", 500000),
          NUMBER("rms_norm_eps", epsilon, 1e-5), EXTENT("head_dim", head, 0), EXPERTS(6),
          EXTENT("moe_k", choices, 6), EXTENT("moe_num_experts", experts, 64),
          EXTENT("num_experts", experts, 64), COUNT("moe_num_shared_experts", shared_experts, 2),
          EXTENT("moe_intermediate_size", expert_inner, 1536),
          COUNT("moe_layer_start_index", dense_layers, 1), LAST("moe_layer_end_index", last_sparse),
          EXTENT("moe_layer_interval", sparse_step, 1), NUMBER("moe_norm_min", least_sum, 1e-12),
          FLAG("use_bias", attention_bias, 0), FLAG("tie_word_embeddings", tied, 1),
          FUNCTION("hidden_act", "silu"));

/* DeepSeek's experts: dense layers before them, some that all tokens go through, choices among the
   best groups. */
#define ROUTED(n_experts, n_shared, inner_standard, n_dense, n_groups, n_open, scale)              \
    EXTENT("n_routed_experts", experts, n_experts),                                                \
        EXTENT("num_local_experts", experts, n_experts),                                           \
        EXTENT("n_shared_experts", shared_experts, n_shared),                                      \
        EXTENT("moe_intermediate_size", expert_inner, inner_standard),                             \
        COUNT("first_k_dense_replace", dense_layers, n_dense),                                     \
        EXTENT("n_group", groups, n_groups), EXTENT("topk_group", group_choices, n_open),          \
        NUMBER("routed_scaling_factor", expert_scale, scale)
/* And its attention, whose queries, keys and values come from latents. */
#define LATENT_HEADS(query_standard, value_standard, turned_standard, plain_standard,              \
                     head_standard)                                                                \
    COUNT("q_lora_rank", query_rank, query_standard),                                              \
        EXTENT("kv_lora_rank", value_rank, value_standard),                                        \
        EXTENT("qk_rope_head_dim", head, turned_standard),                                         \
        EXTENT("head_dim", head, turned_standard),                                                 \
        EXTENT("qk_nope_head_dim", plain_head, plain_standard),                                    \
        EXTENT("v_head_dim", value_head, head_standard), IDLE("qk_head_dim"),                      \
        FLAG("attention_bias", attention_bias, 0), FUNCTION("hidden_act", "silu")
#define LATENT(query_standard, plain_standard, head_standard)                                      \
    LATENT_HEADS(query_standard, 512, 64, plain_standard, head_standard),                          \
        FLAG("tie_word_embeddings", tied, 0), EXTENT("moe_layer_freq", sparse_step, 1)

FIELDS_OF(glm4_moe, LLAMA_SIZES(8, 131072), TURNED("rope_theta", 10000),
          NUMBER("partial_rotary_factor", rotary[0].share, 0.5),
          NUMBER("rms_norm_eps", epsilon, 1e-5), EXPERTS(8), ROUTED(128, 1, 1408, 1, 1, 1, 1),
          FLAG("norm_topk_prob", normalises, 1), EXTENT("head_dim", head, 0),
          FLAG("use_qk_norm", qk_norm, 0), FLAG("attention_bias", qkv_bias, 0),
          FLAG("tie_word_embeddings", tied, 0), FUNCTION("hidden_act", "silu"));

FIELDS_OF(dots1, LLAMA_SIZES(32, 2048), TURNED("rope_theta", 10000),
          NUMBER("rms_norm_eps", epsilon, 1e-6), NEEDED("num_experts_per_tok", choices), ROOM,
          NEEDED("n_routed_experts", experts), NEEDED("num_local_experts", experts),
          EXTENT("moe_layer_freq", sparse_step, 1), COUNT("n_shared_experts", shared_experts, 0),
          EXTENT("moe_intermediate_size", expert_inner, 1408),
          COUNT("first_k_dense_replace", dense_layers, 0), EXTENT("n_group", groups, 1),
          EXTENT("topk_group", group_choices, 1), NUMBER("routed_scaling_factor", expert_scale, 1),
          FLAG("norm_topk_prob", normalises, 0), EXTENT("head_dim", head, 0),
          COUNT("sliding_window", window, 4096),
          COUNT("max_window_layers", first_windowed_layer, 62), LAYERS,
          FLAG("attention_bias", attention_bias, 0), FLAG("tie_word_embeddings", tied, 0),
          IS("scoring_func", "noaux_tc"), FUNCTION("hidden_act", "silu"));

FIELDS_OF(deepseek_v2, LLAMA(0, 2048), EXPERTS(6), ROUTED(64, 2, 1407, 0, 1, 1, 1),
          EXTENT("num_experts", experts, 64), LATENT(1536, 128, 128), NOT("norm_topk_prob"),
          NOT("mlp_bias"), IS("scoring_func", "softmax"),
          EITHER("topk_method", limits_groups, "greedy group_limited_greedy"));

FIELDS_OF(deepseek_v3, LLAMA(0, 4096), EXPERTS(8), ROUTED(256, 1, 2048, 3, 8, 4, 2.5),
          LATENT(1536, 128, 128), FLAG("norm_topk_prob", normalises, 1),
          FLAG("rope_interleave", rotary[0].interleaved, 1), IS("scoring_func", "sigmoid"),
          IS("topk_method", "noaux_tc"));

/* GLM-4.7-Flash: the first layer is dense where the file does not say how many are. */
FIELDS_OF(glm4_moe_lite, LLAMA_SIZES(0, 202752), TURNED("rope_theta", 10000),
          NUMBER("partial_rotary_factor", rotary[0].share, 1),
          NUMBER("rms_norm_eps", epsilon, 1e-5), EXPERTS(4), ROUTED(64, 1, 1536, 1, 1, 1, 1.8),
          LATENT(768, 192, 256), MLP_TYPES, FLAG("norm_topk_prob", normalises, 1),
          FLAG("rope_interleave", rotary[0].interleaved, 1), IS("scoring_func", "sigmoid"),
          IS("topk_method", "noaux_tc"));

/* The class has experts, and the unit beside them, of `intermediate_size`. */
FIELDS_OF(hunyuan_v1_moe, HUNYUAN, NOT("mlp_bias"), ROOM, NEEDED("num_experts", experts),
          NEEDED("num_local_experts", experts), ALIKE("moe_topk", choices, 1),
          ALIKE("num_experts_per_tok", choices, 1), ALIKE("moe_intermediate_size", inner, 0),
          EXACT("num_shared_expert", 1), YES("use_mixed_mlp_moe"), ZERO("moe_layer_num_skipped"),
          YES("norm_topk_prob"), NOT("moe_drop_tokens"), NOT("moe_random_routing_dropped_token"),
          NOT("group_limited_greedy"), IDLE("n_group"), IDLE("topk_group"),
          IDLE("routed_scaling_factor"));

/* The newest classes pass over attn_config.rope_theta; the checkpoints are of it. */
FIELDS_OF(dbrx, NEEDED("d_model", width), NEEDED("hidden_size", width), NEEDED("n_layers", layers),
          NEEDED("num_hidden_layers", layers), NEEDED("n_heads", heads),
          NEEDED("num_attention_heads", heads), NEEDED("vocab_size", vocabulary),
          EXTENT("max_seq_len", positions, 2048),
          EXTENT("max_position_embeddings", positions, 2048), RATE("resid_pdrop", dropout, 0),
          IDLE("emb_pdrop"), TURNED("rope_theta", 10000), ROOM, NOT("tie_word_embeddings"),
          RATE("attn_config.attn_pdrop", attention_dropout, 0),
          CAP("attn_config.clip_qkv", projection_clip, 0),
          EXTENT("attn_config.kv_n_heads", kv_heads, 1), IDLE("num_key_value_heads"),
          NUMBER("attn_config.rope_theta", rotary[0].theta, 10000),
          EXTENT("ffn_config.ffn_hidden_size", expert_inner, 3584),
          EXTENT("ffn_config.moe_num_experts", experts, 4),
          EXTENT("ffn_config.moe_top_k", choices, 1),
          RATE("ffn_config.moe_jitter_eps", router_jitter, 0), IDLE("ffn_config.moe_loss_weight"),
          CAP("ffn_config.moe_normalize_expert_weights", choice_norm, 1),
          IDLE("ffn_config.hidden_size"), IS("ffn_config.ffn_act_fn", "silu"));

FIELDS_OF(youtu, LLAMA(0, 131072), LATENT_HEADS(1536, 512, 64, 128, 128),
          FLAG("tie_word_embeddings", tied, 1), FLAG("rope_interleave", rotary[0].interleaved, 1),
          NOT("mlp_bias"), IDLE("embedding_initializer_range"));

FIELDS_OF(minicpm3, LLAMA_SIZES(0, 32768), TURNED("rope_theta", 10000),
          NUMBER("rms_norm_eps", epsilon, 1e-5), LATENT_HEADS(768, 256, 32, 64, 0),
          FLAG("tie_word_embeddings", tied, 1), NOT("mlp_bias"),
          NUMBER("scale_emb", embedding_scale, 12), NUMBER("scale_depth", residual_scale, 1.4),
          EXTENT("dim_model_base", logit_width, 256));

FIELDS_OF(flex_olmo, LLAMA_SIZES(0, 4096), TURNED("rope_theta", 500000),
          NUMBER("rms_norm_eps", epsilon, 1e-6), EXPERTS(5), EXTENT("num_experts", experts, 7),
          EXTENT("num_local_experts", experts, 7), FLAG("norm_topk_prob", normalises, 0),
          FLAG("tie_word_embeddings", tied, 0), FLAG("attention_bias", attention_bias, 0),
          FUNCTION("hidden_act", "silu"));

/* Fields of routers that its class has not. */
FIELDS_OF(afmoe, LLAMA_SIZES(0, 16384), TURNED("rope_theta", 10000),
          NUMBER("rms_norm_eps", epsilon, 1e-5), EXTENT("head_dim", head, 128), EXPERTS(6),
          EXTENT("num_experts", experts, 64), COUNT("num_shared_experts", shared_experts, 2),
          EXTENT("moe_intermediate_size", expert_inner, 1408),
          COUNT("num_dense_layers", dense_layers, 1), NUMBER("route_scale", expert_scale, 1),
          EXTENT("global_attn_every_n_layers", whole_every, 4),
          COUNT("sliding_window", window, 1024), LAYERS, FLAG("mup_enabled", scales, 0),
          FLAG("attention_bias", attention_bias, 0), FLAG("tie_word_embeddings", tied, 0),
          YES("route_norm"), IS("score_func", "sigmoid"), EXACT("n_group", 1),
          EXACT("topk_group", 1), EXACT("num_expert_groups", 1), EXACT("num_limited_groups", 1),
          IDLE("load_balance_coeff"), IDLE("use_grouped_mm"), FUNCTION("hidden_act", "silu"));

FIELDS_OF(exaone_moe, LLAMA_SIZES(32, 2048), TURNED("rope_theta", 10000),
          NUMBER("rms_norm_eps", epsilon, 1e-5), EXTENT("head_dim", head, 0), EXPERTS(8),
          EXTENT("num_experts", experts, 64), COUNT("num_shared_experts", shared_experts, 1),
          EXTENT("moe_intermediate_size", expert_inner, 1024),
          COUNT("first_k_dense_replace", dense_layers, 1), MLP_TYPES, EXTENT("n_group", groups, 1),
          EXTENT("topk_group", group_choices, 1),
          NUMBER("routed_scaling_factor", expert_scale, 2.5), FLAG("norm_topk_prob", normalises, 1),
          COUNT("sliding_window", window, 4096),
          {"sliding_window_pattern", CLEAVE_FIELD_PERIOD, MEMBER(whole_every), false, 4, NULL},
          LAYERS, FLAG("tie_word_embeddings", tied, 0), IS("scoring_func", "sigmoid"),
          IS("topk_method", "noaux_tc"), FUNCTION("hidden_act", "silu"));

FIELDS_OF(solar_open, SIZES, NEEDED("vocab_size", vocabulary),
          EXTENT("num_key_value_heads", kv_heads, 8),
          EXTENT("max_position_embeddings", positions, 131072),
          RATE("attention_dropout", attention_dropout, 0), TURNED("rope_theta", 1e6),
          NUMBER("partial_rotary_factor", rotary[0].share, 1),
          NUMBER("rms_norm_eps", epsilon, 1e-5), EXPERTS(8), ROUTED(128, 1, 1280, 0, 1, 1, 1),
          FLAG("norm_topk_prob", normalises, 1), EXTENT("head_dim", head, 128),
          FLAG("attention_bias", qkv_bias, 0), FLAG("tie_word_embeddings", tied, 0),
          NOT("use_qk_norm"), IDLE("intermediate_size"), FUNCTION("hidden_act", "silu"));

/* What LFM2's classes have alike.  Their files say of the convolution what they don't read. */
#define LFM2(width_, inner_)                                                                       \
    EXTENT("hidden_size", width, width_), EXTENT("num_hidden_layers", layers, 32),                 \
        EXTENT("num_attention_heads", heads, 32), EXTENT("num_key_value_heads", kv_heads, 8),      \
        EXTENT("intermediate_size", inner, inner_), EXTENT("vocab_size", vocabulary, 65536),       \
        EXTENT("max_position_embeddings", positions, 128000), EXTENT("head_dim", head, 0),         \
        TURNED("rope_theta", 1e6), NUMBER("norm_eps", epsilon, 1e-5),                              \
        EXTENT("conv_L_cache", taps, 3), NOT("conv_bias"), FLAG("tie_word_embeddings", tied, 1),   \
        FLAG("tie_embedding", tied, 1), IDLE("theta"), IDLE("attention_dropout")
#define ATTENDING                                                                                  \
    { "layer_types", CLEAVE_FIELD_LAYERS, MEMBER(attending), false, 0, "conv full_attention" }

/* Layers by their types go before those by their numbers. */
FIELDS_OF(lfm2, LFM2(2560, 12288), EXTENT("block_ff_dim", inner, 12288),
          FLAG("block_auto_adjust_ff_dim", fits_inner, 1),
          CAP("block_ffn_dim_multiplier", inner_scale, 1),
          EXTENT("block_multiple_of", inner_multiple, 256),
          {"full_attn_idxs", CLEAVE_FIELD_PLACES, MEMBER(attending), false, 0, NULL}, ATTENDING,
          IDLE("block_dim"), IDLE("block_mlp_init_scale"), IDLE("block_norm_eps"),
          IDLE("block_out_init_scale"), YES("block_use_swiglu"), IDLE("block_use_xavier_init"),
          IDLE("conv_dim"), IDLE("conv_dim_out"), IDLE("conv_use_xavier_init"), IDLE("num_heads"),
          YES("use_pos_enc"));

FIELDS_OF(lfm2_moe, LFM2(2048, 7168), ATTENDING, EXPERTS(4), EXTENT("num_experts", experts, 32),
          EXTENT("moe_intermediate_size", expert_inner, 1792),
          COUNT("num_dense_layers", dense_layers, 2), FLAG("use_expert_bias", corrects, 1),
          NUMBER("routed_scaling_factor", expert_scale, 1), FLAG("norm_topk_prob", normalises, 1));
