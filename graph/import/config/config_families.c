/* Fields of families and what they are when left out, as the classes of the framework have it. */
#include "graph/import/config/config_fields.h"

#include <stddef.h>

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
#define ZERO(name)                                                                                 \
    { name, CLEAVE_FIELD_ZERO, 0, false, 0, NULL }
#define IS(name, text)                                                                             \
    { name, CLEAVE_FIELD_IS, 0, false, 0, text }
#define EITHER(name, member, texts)                                                                \
    { name, CLEAVE_FIELD_EITHER, MEMBER(member), false, 0, texts }
#define ONE(name, member)                                                                          \
    { name, CLEAVE_FIELD_ONE, MEMBER(member), false, 1, NULL }
#define LAYERS                                                                                     \
    { "layer_types", CLEAVE_FIELD_LAYERS, MEMBER(windowed), false, 0, NULL }
#define LAST(name, member)                                                                         \
    { name, CLEAVE_FIELD_LAST, MEMBER(member), false, -1, NULL }
#define FUNCTION(name, standard)                                                                   \
    { name, CLEAVE_FIELD_FUNCTION, MEMBER(activation), false, 0, standard }
#define ROTARY(name)                                                                               \
    { name, CLEAVE_FIELD_ROTARY, MEMBER(rotary), false, 0, NULL }

#define NEEDED_ROTARY(name)                                                                        \
    { name, CLEAVE_FIELD_ROTARY, MEMBER(rotary), true, 0, NULL }
#define ROTARIES(name)                                                                             \
    { name, CLEAVE_FIELD_ROTARIES, MEMBER(rotary), false, 0, NULL }

/* What all models of one stack call alike. */
#define SIZES                                                                                      \
    NEEDED("hidden_size", width), NEEDED("num_hidden_layers", layers),                             \
        NEEDED("num_attention_heads", heads), NOT("is_decoder"), NOT("add_cross_attention"),       \
        NOT("is_encoder_decoder")
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

static const cleave_field llama[] = {LLAMA(0, 2048),
                                     EXTENT("head_dim", head, 0),
                                     FLAG("tie_word_embeddings", tied, 0),
                                     FLAG("attention_bias", attention_bias, 0),
                                     FLAG("mlp_bias", mlp_bias, 0),
                                     NOT("rope_interleaved"),
                                     FUNCTION("hidden_act", "silu")};

static const cleave_field ministral[] = {LLAMA(8, 131072),
                                         EXTENT("head_dim", head, 0),
                                         FLAG("tie_word_embeddings", tied, 0),
                                         COUNT("sliding_window", window, 4096),
                                         LAYERS,
                                         FUNCTION("hidden_act", "silu")};

static const cleave_field mistral[] = {
    LLAMA(8, 131072), EXTENT("head_dim", head, 0), FLAG("tie_word_embeddings", tied, 0),
    COUNT("sliding_window", window, 4096), FUNCTION("hidden_act", "silu")};

static const cleave_field qwen2[] = {LLAMA(32, 32768), FLAG("tie_word_embeddings", tied, 0),
                                     WINDOWS, FUNCTION("hidden_act", "silu")};

static const cleave_field qwen3[] = {LLAMA(32, 32768),
                                     EXTENT("head_dim", head, 128),
                                     FLAG("tie_word_embeddings", tied, 0),
                                     FLAG("attention_bias", attention_bias, 0),
                                     WINDOWS,
                                     FUNCTION("hidden_act", "silu")};

static const cleave_field granite[] = {LLAMA(0, 2048),
                                       FLAG("tie_word_embeddings", tied, 0),
                                       FLAG("attention_bias", attention_bias, 0),
                                       FLAG("mlp_bias", mlp_bias, 0),
                                       NUMBER("embedding_multiplier", embedding_scale, 1),
                                       NUMBER("residual_multiplier", residual_scale, 1),
                                       NUMBER("attention_multiplier", score_scale, 1),
                                       NUMBER("logits_scaling", logit_scale, 1),
                                       FUNCTION("hidden_act", "silu")};

static const cleave_field smollm3[] = {
    LLAMA_SIZES(4, 32768),
    TURNED("rope_theta", 2e6),
    NUMBER("rms_norm_eps", epsilon, 1e-6),
    EXTENT("no_rope_layer_interval", unturned_every, 4),
    {"no_rope_layers", CLEAVE_FIELD_SWITCHES, MEMBER(turned), false, 0, NULL},
    NOT("use_sliding_window"),
    COUNT("sliding_window", window, 0),
    COUNT("max_window_layers", first_windowed_layer, 0),
    LAYERS,
    FLAG("tie_word_embeddings", tied, 1),
    FLAG("attention_bias", attention_bias, 0),
    FLAG("mlp_bias", mlp_bias, 0),
    FUNCTION("hidden_act", "silu")};

static const cleave_field starcoder2[] = {LLAMA_SIZES(2, 4096),
                                          TURNED("rope_theta", 10000),
                                          NUMBER("norm_epsilon", epsilon, 1e-5),
                                          COUNT("sliding_window", window, 0),
                                          RATE("residual_dropout", dropout, 0),
                                          RATE("embedding_dropout", embedding_dropout, 0),
                                          FLAG("use_bias", attention_bias, 1),
                                          FLAG("tie_word_embeddings", tied, 1),
                                          FUNCTION("hidden_act", "gelu_pytorch_tanh")};

static const cleave_field seed_oss[] = {LLAMA_SIZES(8, 524288),
                                        TURNED("rope_theta", 10000),
                                        NUMBER("rms_norm_eps", epsilon, 1e-6),
                                        RATE("attention_dropout", attention_dropout, 0.1),
                                        RATE("residual_dropout", dropout, 0.1),
                                        EXTENT("head_dim", head, 128),
                                        FLAG("attention_bias", attention_bias, 1),
                                        FLAG("attention_out_bias", output_bias, 0),
                                        FLAG("mlp_bias", mlp_bias, 0),
                                        FLAG("tie_word_embeddings", tied, 0),
                                        FUNCTION("hidden_act", "silu")};

static const cleave_field ernie4_5[] = {LLAMA_SIZES(2, 131072),
                                        TURNED("rope_theta", 500000),
                                        NUMBER("rms_norm_eps", epsilon, 1e-5),
                                        EXTENT("head_dim", head, 128),
                                        FLAG("use_bias", attention_bias, 0),
                                        FLAG("tie_word_embeddings", tied, 1),
                                        FUNCTION("hidden_act", "silu")};

static const cleave_field arcee[] = {LLAMA_SIZES(0, 4096),
                                     TURNED("rope_theta", 10000),
                                     NUMBER("rms_norm_eps", epsilon, 1e-5),
                                     EXTENT("head_dim", head, 0),
                                     FLAG("attention_bias", attention_bias, 0),
                                     FLAG("mlp_bias", mlp_bias, 0),
                                     FLAG("tie_word_embeddings", tied, 0),
                                     FUNCTION("hidden_act", "relu2")};

static const cleave_field nemotron[] = {LLAMA_SIZES(0, 4096),
                                        TURNED("rope_theta", 10000),
                                        NUMBER("partial_rotary_factor", rotary[0].share, 0.5),
                                        NUMBER("rope_percent", rotary[0].share, 0.5),
                                        NUMBER("norm_eps", epsilon, 1e-5),
                                        EXTENT("head_dim", head, 0),
                                        FLAG("attention_bias", attention_bias, 0),
                                        FLAG("mlp_bias", mlp_bias, 0),
                                        FLAG("tie_word_embeddings", tied, 0),
                                        FUNCTION("hidden_act", "relu2")};

#define GLM                                                                                        \
    LLAMA_SIZES(2, 131072), TURNED("rope_theta", 10000),                                           \
        NUMBER("partial_rotary_factor", rotary[0].share, 0.5),                                     \
        NUMBER("rms_norm_eps", epsilon, 1.5625e-7), EXTENT("head_dim", head, 128),                 \
        FLAG("attention_bias", attention_bias, 1), FLAG("tie_word_embeddings", tied, 0),           \
        FUNCTION("hidden_act", "silu")

static const cleave_field glm[] = {GLM};

static const cleave_field cohere2[] = {LLAMA_SIZES(0, 8192),
                                       TURNED("rope_theta", 10000),
                                       NUMBER("rotary_pct", rotary[0].share, 1),
                                       NUMBER("layer_norm_eps", epsilon, 1e-5),
                                       NUMBER("logit_scale", logit_scale, 0.0625),
                                       EXTENT("head_dim", head, 0),
                                       COUNT("sliding_window", window, 4096),
                                       EXTENT("sliding_window_pattern", whole_every, 4),
                                       EXTENT("_sliding_window_pattern", whole_every, 4),
                                       EXTENT("layer_switch", whole_every, 4),
                                       LAYERS,
                                       FLAG("attention_bias", attention_bias, 0),
                                       FLAG("tie_word_embeddings", tied, 1),
                                       FLAG("use_embedding_sharing", tied, 1),
                                       YES("use_gated_activation"),
                                       YES("use_parallel_block"),
                                       NOT("use_parallel_embedding"),
                                       NOT("use_qk_norm"),
                                       IS("order_of_interleaved_layers", "local_attn_first"),
                                       IS("position_embedding_type", "rope_gptj"),
                                       FUNCTION("hidden_act", "silu")};

static const cleave_field cohere[] = {LLAMA_SIZES(0, 8192),
                                      TURNED("rope_theta", 500000),
                                      NUMBER("layer_norm_eps", epsilon, 1e-5),
                                      NUMBER("logit_scale", logit_scale, 0.0625),
                                      EXTENT("head_dim", head, 0),
                                      FLAG("attention_bias", attention_bias, 0),
                                      FLAG("tie_word_embeddings", tied, 1),
                                      NOT("use_qk_norm"),
                                      FUNCTION("hidden_act", "silu")};

static const cleave_field stablelm[] = {LLAMA_SIZES(32, 4096),
                                        TURNED("rope_theta", 10000),
                                        NUMBER("partial_rotary_factor", rotary[0].share, 0.25),
                                        NUMBER("rope_pct", rotary[0].share, 0.25),
                                        NUMBER("layer_norm_eps", epsilon, 1e-5),
                                        NUMBER("norm_eps", epsilon, 1e-5),
                                        FLAG("use_qkv_bias", attention_bias, 0),
                                        FLAG("use_parallel_residual", parallel, 0),
                                        FLAG("tie_word_embeddings", tied, 0),
                                        NOT("qk_layernorm"),
                                        ZERO("hidden_dropout"),
                                        FUNCTION("hidden_act", "silu")};

static const cleave_field olmo[] = {LLAMA_SIZES(0, 2048),
                                    TURNED("rope_theta", 10000),
                                    CAP("clip_qkv", projection_clip, 0),
                                    FLAG("attention_bias", attention_bias, 0),
                                    FLAG("tie_word_embeddings", tied, 0),
                                    FUNCTION("hidden_act", "silu")};

static const cleave_field exaone4[] = {
    LLAMA_SIZES(32, 2048),
    TURNED("rope_theta", 10000),
    NUMBER("rms_norm_eps", epsilon, 1e-5),
    EXTENT("head_dim", head, 0),
    COUNT("sliding_window", window, 4096),
    {"sliding_window_pattern", CLEAVE_FIELD_PERIOD, MEMBER(whole_every), false, 4, NULL},
    LAYERS,
    FLAG("tie_word_embeddings", tied, 0),
    FUNCTION("hidden_act", "silu")};

/* Experts; `expert_capacity` and `capacity_factor` are no fields of these families, but of others
   that drop tokens. */
#define ROOM                                                                                       \
    NOT("output_router_logits"), COUNT("expert_capacity", capacity, 0),                            \
        NUMBER("capacity_factor", capacity_factor, 0)
#define EXPERTS(choices_standard) EXTENT("num_experts_per_tok", choices, choices_standard), ROOM

static const cleave_field mixtral[] = {LLAMA_SIZES(8, 131072),
                                       TURNED("rope_theta", 1e6),
                                       NUMBER("rms_norm_eps", epsilon, 1e-5),
                                       EXPERTS(2),
                                       EXTENT("num_local_experts", experts, 8),
                                       EXTENT("num_experts", experts, 8),
                                       EXTENT("head_dim", head, 0),
                                       FLAG("tie_word_embeddings", tied, 0),
                                       COUNT("sliding_window", window, 0),
                                       ZERO("router_jitter_noise"),
                                       FUNCTION("hidden_act", "silu")};

static const cleave_field qwen3_moe[] = {LLAMA(4, 32768),
                                         EXPERTS(8),
                                         EXTENT("num_experts", experts, 128),
                                         EXTENT("num_local_experts", experts, 128),
                                         EXTENT("moe_intermediate_size", expert_inner, 768),
                                         EXTENT("decoder_sparse_step", sparse_step, 1),
                                         FLAG("norm_topk_prob", normalises, 0),
                                         EXTENT("head_dim", head, 0),
                                         FLAG("tie_word_embeddings", tied, 0),
                                         FLAG("attention_bias", attention_bias, 0),
                                         WINDOWS,
                                         EMPTY("mlp_only_layers"),
                                         FUNCTION("hidden_act", "silu")};

static const cleave_field qwen2_moe[] = {
    LLAMA(16, 32768),
    EXPERTS(4),
    EXTENT("num_experts", experts, 60),
    EXTENT("moe_intermediate_size", expert_inner, 1408),
    EXTENT("shared_expert_intermediate_size", shared_inner, 5632),
    EXTENT("decoder_sparse_step", sparse_step, 1),
    FLAG("norm_topk_prob", normalises, 0),
    FLAG("tie_word_embeddings", tied, 0),
    FLAG("qkv_bias", attention_bias, 1),
    NOT("use_sliding_window"),
    COUNT("sliding_window", window, 0),
    COUNT("max_window_layers", first_windowed_layer, 28),
    LAYERS,
    EMPTY("mlp_only_layers"),
    FUNCTION("hidden_act", "silu")};

static const cleave_field olmoe[] = {LLAMA_SIZES(0, 4096),
                                     TURNED("rope_theta", 10000),
                                     NUMBER("rms_norm_eps", epsilon, 1e-5),
                                     EXPERTS(8),
                                     EXTENT("num_experts", experts, 64),
                                     EXTENT("num_local_experts", experts, 64),
                                     FLAG("norm_topk_prob", normalises, 0),
                                     CAP("clip_qkv", projection_clip, 0),
                                     FLAG("tie_word_embeddings", tied, 0),
                                     FLAG("attention_bias", attention_bias, 0),
                                     FUNCTION("hidden_act", "silu")};

/* Its rotary positions are scaled where nothing is said of them, so something has to be said. */
static const cleave_field gpt_oss[] = {LLAMA_SIZES(8, 131072),
                                       NUMBER("rope_theta", rotary[0].theta, 150000),
                                       NEEDED_ROTARY("rope_scaling"),
                                       NEEDED_ROTARY("rope_parameters"),
                                       NUMBER("rms_norm_eps", epsilon, 1e-5),
                                       EXPERTS(4),
                                       EXTENT("experts_per_token", choices, 4),
                                       EXTENT("num_local_experts", experts, 128),
                                       EXTENT("num_experts", experts, 128),
                                       EXTENT("head_dim", head, 64),
                                       FLAG("attention_bias", attention_bias, 1),
                                       FLAG("tie_word_embeddings", tied, 0),
                                       COUNT("sliding_window", window, 128),
                                       LAYERS,
                                       NUMBER("swiglu_alpha", gate_scale, 1.702),
                                       NUMBER("swiglu_limit", gate_limit, 7),
                                       FUNCTION("hidden_act", "silu")};

/* Its experts have the width that is called as that of dense layers is elsewhere. */
static const cleave_field llama4[] = {
    SIZES,
    NEEDED("vocab_size", vocabulary),
    NEEDED("intermediate_size", expert_inner),
    EXTENT("intermediate_size_mlp", inner, 16384),
    EXTENT("num_key_value_heads", kv_heads, 8),
    EXTENT("max_position_embeddings", positions, 131072),
    RATE("attention_dropout", attention_dropout, 0),
    TURNED("rope_theta", 500000),
    NUMBER("rms_norm_eps", epsilon, 1e-5),
    EXTENT("head_dim", head, 128),
    EXTENT("num_local_experts", experts, 16),
    EXTENT("num_experts", experts, 16),
    ONE("num_experts_per_tok", choices),
    ROOM,
    ZERO("router_jitter_noise"),
    EXTENT("interleave_moe_layer_step", sparse_step, 1),
    FLAG("use_qk_norm", qk_norm, 1),
    EXTENT("no_rope_layer_interval", unturned_every, 4),
    {"no_rope_layers", CLEAVE_FIELD_SWITCHES, MEMBER(turned), false, 0, NULL},
    COUNT("attention_chunk_size", chunk, 8192),
    FLAG("attn_temperature_tuning", scales, 1),
    NUMBER("floor_scale", place_step, 8192),
    NUMBER("attn_scale", place_scale, 0.1),
    NOT("for_llm_compressor"),
    FLAG("attention_bias", attention_bias, 0),
    FLAG("tie_word_embeddings", tied, 0),
    FUNCTION("hidden_act", "silu")};

static const cleave_field granitemoe[] = {LLAMA(0, 2048),
                                          EXPERTS(2),
                                          EXTENT("num_local_experts", experts, 8),
                                          FLAG("tie_word_embeddings", tied, 0),
                                          FLAG("attention_bias", attention_bias, 0),
                                          NUMBER("embedding_multiplier", embedding_scale, 1),
                                          NUMBER("residual_multiplier", residual_scale, 1),
                                          NUMBER("attention_multiplier", score_scale, 1),
                                          NUMBER("logits_scaling", logit_scale, 1),
                                          FUNCTION("hidden_act", "silu")};

static const cleave_field minimax_m2[] = {LLAMA_SIZES(8, 196608),
                                          TURNED("rope_theta", 5e6),
                                          NUMBER("partial_rotary_factor", rotary[0].share, 1),
                                          COUNT("rotary_dim", turned_width, 0),
                                          NUMBER("rms_norm_eps", epsilon, 1e-6),
                                          EXPERTS(8),
                                          EXTENT("num_local_experts", experts, 256),
                                          EXTENT("num_experts", experts, 256),
                                          EXTENT("head_dim", head, 128),
                                          FLAG("tie_word_embeddings", tied, 0),
                                          ZERO("router_jitter_noise"),
                                          YES("use_qk_norm"),
                                          YES("use_routing_bias"),
                                          IS("qk_norm_type", "per_layer"),
                                          IS("scoring_func", "sigmoid"),
                                          FUNCTION("hidden_act", "silu")};

static const cleave_field ernie4_5_moe[] = {LLAMA_SIZES(4, 131072),
                                            TURNED("rope_theta", 500000),
                                            NUMBER("rms_norm_eps", epsilon, 1e-5),
                                            EXTENT("head_dim", head, 0),
                                            EXPERTS(6),
                                            EXTENT("moe_k", choices, 6),
                                            EXTENT("moe_num_experts", experts, 64),
                                            EXTENT("num_experts", experts, 64),
                                            COUNT("moe_num_shared_experts", shared_experts, 2),
                                            EXTENT("moe_intermediate_size", expert_inner, 1536),
                                            COUNT("moe_layer_start_index", dense_layers, 1),
                                            LAST("moe_layer_end_index", last_sparse),
                                            EXTENT("moe_layer_interval", sparse_step, 1),
                                            NUMBER("moe_norm_min", least_sum, 1e-12),
                                            FLAG("use_bias", attention_bias, 0),
                                            FLAG("tie_word_embeddings", tied, 1),
                                            FUNCTION("hidden_act", "silu")};

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
#define LATENT                                                                                     \
    COUNT("q_lora_rank", query_rank, 1536), EXTENT("kv_lora_rank", value_rank, 512),               \
        EXTENT("qk_rope_head_dim", head, 64), EXTENT("head_dim", head, 64),                        \
        EXTENT("qk_nope_head_dim", plain_head, 128), EXTENT("v_head_dim", value_head, 128),        \
        FLAG("tie_word_embeddings", tied, 0), FLAG("attention_bias", attention_bias, 0),           \
        EXTENT("moe_layer_freq", sparse_step, 1), FUNCTION("hidden_act", "silu")

static const cleave_field glm4_moe[] = {LLAMA_SIZES(8, 131072),
                                        TURNED("rope_theta", 10000),
                                        NUMBER("partial_rotary_factor", rotary[0].share, 0.5),
                                        NUMBER("rms_norm_eps", epsilon, 1e-5),
                                        EXPERTS(8),
                                        ROUTED(128, 1, 1408, 1, 1, 1, 1),
                                        FLAG("norm_topk_prob", normalises, 1),
                                        EXTENT("head_dim", head, 0),
                                        FLAG("use_qk_norm", qk_norm, 0),
                                        FLAG("attention_bias", attention_bias, 0),
                                        FLAG("tie_word_embeddings", tied, 0),
                                        FUNCTION("hidden_act", "silu")};

static const cleave_field dots1[] = {LLAMA_SIZES(32, 2048),
                                     TURNED("rope_theta", 10000),
                                     NUMBER("rms_norm_eps", epsilon, 1e-6),
                                     NEEDED("num_experts_per_tok", choices),
                                     ROOM,
                                     NEEDED("n_routed_experts", experts),
                                     NEEDED("num_local_experts", experts),
                                     EXTENT("moe_layer_freq", sparse_step, 1),
                                     COUNT("n_shared_experts", shared_experts, 0),
                                     EXTENT("moe_intermediate_size", expert_inner, 1408),
                                     COUNT("first_k_dense_replace", dense_layers, 0),
                                     EXTENT("n_group", groups, 1),
                                     EXTENT("topk_group", group_choices, 1),
                                     NUMBER("routed_scaling_factor", expert_scale, 1),
                                     FLAG("norm_topk_prob", normalises, 0),
                                     EXTENT("head_dim", head, 0),
                                     COUNT("sliding_window", window, 4096),
                                     COUNT("max_window_layers", first_windowed_layer, 62),
                                     LAYERS,
                                     FLAG("attention_bias", attention_bias, 0),
                                     FLAG("tie_word_embeddings", tied, 0),
                                     IS("scoring_func", "noaux_tc"),
                                     FUNCTION("hidden_act", "silu")};

static const cleave_field deepseek_v2[] = {
    LLAMA(0, 2048),
    EXPERTS(6),
    ROUTED(64, 2, 1407, 0, 1, 1, 1),
    EXTENT("num_experts", experts, 64),
    LATENT,
    NOT("norm_topk_prob"),
    NOT("mlp_bias"),
    IS("scoring_func", "softmax"),
    EITHER("topk_method", limits_groups, "greedy group_limited_greedy")};

static const cleave_field deepseek_v3[] = {LLAMA(0, 4096),
                                           EXPERTS(8),
                                           ROUTED(256, 1, 2048, 3, 8, 4, 2.5),
                                           LATENT,
                                           FLAG("norm_topk_prob", normalises, 1),
                                           FLAG("rope_interleave", rotary[0].interleaved, 1),
                                           IS("scoring_func", "sigmoid"),
                                           IS("topk_method", "noaux_tc")};

static const cleave_field gemma[] = {LLAMA(16, 8192),
                                     EXTENT("head_dim", head, 256),
                                     FLAG("tie_word_embeddings", tied, 1),
                                     FLAG("attention_bias", attention_bias, 0),
                                     IS("hidden_activation", "gelu_pytorch_tanh"),
                                     FUNCTION("hidden_act", "gelu_pytorch_tanh"),
                                     NOT("use_bidirectional_attention")};

/* From Gemma 2 on. */
#define GEMMA(positions_standard)                                                                  \
    LLAMA_SIZES(4, positions_standard), NUMBER("rms_norm_eps", epsilon, 1e-6),                     \
        EXTENT("head_dim", head, 256), FLAG("tie_word_embeddings", tied, 1),                       \
        FLAG("attention_bias", attention_bias, 0), IS("hidden_act", "gelu_pytorch_tanh"),          \
        FUNCTION("hidden_activation", "gelu_pytorch_tanh"), NOT("use_bidirectional_attention"),    \
        NUMBER("query_pre_attn_scalar", query_scale, 256), COUNT("sliding_window", window, 4096),  \
        LAYERS

static const cleave_field gemma2[] = {
    GEMMA(8192), TURNED("rope_theta", 10000), COUNT("sliding_window_size", window, 4096),
    CAP("attn_logit_softcapping", score_cap, 50), CAP("final_logit_softcapping", logit_cap, 30)};

static const cleave_field gemma3_text[] = {GEMMA(131072),
                                           NUMBER("rope_theta", rotary[0].theta, 1e6),
                                           NUMBER("rope_local_base_freq", rotary[1].theta, 10000),
                                           ROTARY("rope_scaling"),
                                           ROTARIES("rope_parameters"),
                                           EXTENT("sliding_window_pattern", whole_every, 6),
                                           EXTENT("_sliding_window_pattern", whole_every, 6),
                                           CAP("attn_logit_softcapping", score_cap, 0),
                                           CAP("final_logit_softcapping", logit_cap, 0)};

static const cleave_field olmo2[] = {LLAMA_SIZES(0, 2048),
                                     TURNED("rope_theta", 10000),
                                     NUMBER("rms_norm_eps", epsilon, 1e-5),
                                     FLAG("tie_word_embeddings", tied, 0),
                                     FLAG("attention_bias", attention_bias, 0),
                                     FUNCTION("hidden_act", "silu")};

static const cleave_field olmo3[] = {LLAMA_SIZES(0, 2048),
                                     NUMBER("rope_theta", rotary[0].theta, 500000),
                                     ROTARY("rope_scaling"),
                                     ROTARIES("rope_parameters"),
                                     NUMBER("rms_norm_eps", epsilon, 1e-5),
                                     COUNT("sliding_window", window, 4096),
                                     LAYERS,
                                     FLAG("tie_word_embeddings", tied, 0),
                                     FLAG("attention_bias", attention_bias, 0),
                                     FUNCTION("hidden_act", "silu")};

static const cleave_field phi3[] = {
    LLAMA_SIZES(0, 4096),
    TURNED("rope_theta", 10000),
    NUMBER("partial_rotary_factor", rotary[0].share, 1),
    EXTENT("original_max_position_embeddings", rotary[0].original_positions, 4096),
    NUMBER("rms_norm_eps", epsilon, 1e-5),
    RATE("resid_pdrop", dropout, 0),
    ZERO("embd_pdrop"),
    COUNT("sliding_window", window, 0),
    FLAG("tie_word_embeddings", tied, 0),
    NOT("attention_bias"),
    NOT("mlp_bias"),
    NOT("lm_head_bias"),
    FUNCTION("hidden_act", "silu")};

static const cleave_field phi[] = {SIZES,
                                   NEEDED("vocab_size", vocabulary),
                                   NEEDED("intermediate_size", inner),
                                   EXTENT("num_key_value_heads", kv_heads, 0),
                                   TURNED("rope_theta", 10000),
                                   NUMBER("partial_rotary_factor", rotary[0].share, 0.5),
                                   NUMBER("layer_norm_eps", epsilon, 1e-5),
                                   EXTENT("max_position_embeddings", positions, 2048),
                                   RATE("attention_dropout", attention_dropout, 0),
                                   RATE("resid_pdrop", dropout, 0),
                                   RATE("embd_pdrop", embedding_dropout, 0),
                                   FLAG("qk_layernorm", qk_norm, 0),
                                   NOT("tie_word_embeddings"),
                                   FUNCTION("hidden_act", "gelu_new")};

static const cleave_field gpt_neox[] = {SIZES,
                                        NEEDED("vocab_size", vocabulary),
                                        NEEDED("intermediate_size", inner),
                                        TURNED("rotary_emb_base", 10000),
                                        NUMBER("rotary_pct", rotary[0].share, 0.25),
                                        NUMBER("rope_theta", rotary[0].theta, 10000),
                                        NUMBER("partial_rotary_factor", rotary[0].share, 0.25),
                                        NUMBER("layer_norm_eps", epsilon, 1e-5),
                                        EXTENT("max_position_embeddings", positions, 2048),
                                        RATE("attention_dropout", attention_dropout, 0),
                                        RATE("attention_probs_dropout_prob", attention_dropout, 0),
                                        RATE("hidden_dropout", dropout, 0),
                                        RATE("hidden_dropout_prob", dropout, 0),
                                        FLAG("use_parallel_residual", parallel, 1),
                                        FLAG("attention_bias", attention_bias, 1),
                                        FLAG("tie_word_embeddings", tied, 0),
                                        FUNCTION("hidden_act", "gelu")};

static const cleave_field bloom[] = {NEEDED("hidden_size", width),
                                     NEEDED("n_embed", width),
                                     NEEDED("n_layer", layers),
                                     NEEDED("num_hidden_layers", layers),
                                     NEEDED("n_head", heads),
                                     NEEDED("num_attention_heads", heads),
                                     NEEDED("vocab_size", vocabulary),
                                     EXTENT("n_inner", inner, 0),
                                     NUMBER("layer_norm_epsilon", epsilon, 1e-5),
                                     RATE("hidden_dropout", dropout, 0),
                                     RATE("attention_dropout", attention_dropout, 0),
                                     FLAG("tie_word_embeddings", tied, 1),
                                     NOT("apply_residual_connection_post_layernorm"),
                                     NOT("slow_but_exact")};

static const cleave_field falcon[] = {SIZES,
                                      NEEDED("n_layer", layers),
                                      NEEDED("n_head", heads),
                                      NEEDED("vocab_size", vocabulary),
                                      EXTENT("num_kv_heads", kv_heads, 0),
                                      EXTENT("n_head_kv", kv_heads, 0),
                                      EXTENT("ffn_hidden_size", inner, 0),
                                      EXTENT("max_position_embeddings", positions, 2048),
                                      TURNED("rope_theta", 10000),
                                      NUMBER("layer_norm_epsilon", epsilon, 1e-5),
                                      FLAG("new_decoder_architecture", groups_heads, 0),
                                      FLAG("multi_query", shares_keys, 1),
                                      EXTENT("num_ln_in_parallel_attn", n_norms, 0),
                                      FLAG("bias", attention_bias, 0),
                                      FLAG("tie_word_embeddings", tied, 1),
                                      YES("parallel_attn"),
                                      NOT("alibi"),
                                      ZERO("hidden_dropout"),
                                      ZERO("attention_dropout"),
                                      FUNCTION("activation", "gelu")};

static const cleave_field gpt2[] = {NEEDED("n_embd", width),
                                    NEEDED("n_layer", layers),
                                    NEEDED("n_head", heads),
                                    NEEDED("hidden_size", width),
                                    NEEDED("num_hidden_layers", layers),
                                    NEEDED("num_attention_heads", heads),
                                    NEEDED("vocab_size", vocabulary),
                                    EXTENT("n_positions", positions, 1024),
                                    EXTENT("max_position_embeddings", positions, 1024),
                                    EXTENT("n_inner", inner, 0),
                                    NUMBER("layer_norm_epsilon", epsilon, 1e-5),
                                    RATE("attn_pdrop", attention_dropout, 0.1),
                                    RATE("resid_pdrop", dropout, 0.1),
                                    RATE("embd_pdrop", embedding_dropout, 0.1),
                                    FLAG("scale_attn_weights", scales, 1),
                                    FLAG("scale_attn_by_inverse_layer_idx", scales_by_layer, 0),
                                    FLAG("tie_word_embeddings", tied, 1),
                                    NOT("is_decoder"),
                                    NOT("add_cross_attention"),
                                    NOT("is_encoder_decoder"),
                                    FUNCTION("activation_function", "gelu_new")};

static const cleave_field opt[] = {SIZES,
                                   NEEDED("vocab_size", vocabulary),
                                   NEEDED("ffn_dim", inner),
                                   EXTENT("word_embed_proj_dim", embedded_width, 0),
                                   EXTENT("max_position_embeddings", positions, 2048),
                                   RATE("attention_dropout", attention_dropout, 0),
                                   RATE("dropout", dropout, 0.1),
                                   ZERO("layerdrop"),
                                   FLAG("do_layer_norm_before", norms_before, 1),
                                   NOT("_remove_final_layer_norm"),
                                   YES("layer_norm_elementwise_affine"),
                                   FLAG("enable_bias", attention_bias, 1),
                                   FLAG("tie_word_embeddings", tied, 1),
                                   FUNCTION("activation_function", "relu")};

#define ENCODER                                                                                    \
    SIZES, EXTENT("intermediate_size", inner, 3072), NUMBER("layer_norm_eps", epsilon, 1e-12),     \
        FUNCTION("hidden_act", "gelu")
#define MASKED                                                                                     \
    ENCODER, NEEDED("vocab_size", vocabulary), EXTENT("type_vocab_size", types, 2),                \
        EXTENT("max_position_embeddings", positions, 512),                                         \
        RATE("hidden_dropout_prob", dropout, 0.1),                                                 \
        RATE("attention_probs_dropout_prob", attention_dropout, 0.1),                              \
        FLAG("tie_word_embeddings", tied, 1), IS("position_embedding_type", "absolute")

static const cleave_field bert[] = {MASKED};

static const cleave_field roberta[] = {MASKED, COUNT("pad_token_id", padding, 1)};

static const cleave_field distilbert[] = {NEEDED("dim", width),
                                          NEEDED("n_layers", layers),
                                          NEEDED("n_heads", heads),
                                          NEEDED("hidden_size", width),
                                          NEEDED("num_hidden_layers", layers),
                                          NEEDED("num_attention_heads", heads),
                                          NEEDED("vocab_size", vocabulary),
                                          EXTENT("hidden_dim", inner, 3072),
                                          EXTENT("max_position_embeddings", positions, 512),
                                          RATE("dropout", dropout, 0.1),
                                          RATE("attention_dropout", attention_dropout, 0.1),
                                          FLAG("tie_word_embeddings", tied, 1),
                                          FLAG("tie_weights_", tied, 1),
                                          NOT("sinusoidal_pos_embds"),
                                          NOT("is_decoder"),
                                          NOT("is_encoder_decoder"),
                                          FUNCTION("activation", "gelu")};

static const cleave_field vit[] = {
    ENCODER,
    RATE("hidden_dropout_prob", dropout, 0),
    RATE("attention_probs_dropout_prob", attention_dropout, 0),
    {"image_size", CLEAVE_FIELD_SQUARE, MEMBER(image), false, 224, NULL},
    {"patch_size", CLEAVE_FIELD_SQUARE, MEMBER(patch), false, 16, NULL},
    {"id2label", CLEAVE_FIELD_LABELS, MEMBER(labels), false, 2, NULL},
    EXTENT("num_channels", channels, 3),
    FLAG("qkv_bias", attention_bias, 1)};

static const cleave_field t5[] = {
    NEEDED("d_model", width),
    NEEDED("num_layers", layers),
    NEEDED("num_heads", heads),
    NEEDED("vocab_size", vocabulary),
    EXTENT("d_kv", head, 64),
    EXTENT("d_ff", inner, 2048),
    EXTENT("num_decoder_layers", decoder_layers, 0),
    EXTENT("relative_attention_num_buckets", buckets, 32),
    EXTENT("relative_attention_max_distance", distance, 128),
    NUMBER("layer_norm_epsilon", epsilon, 1e-6),
    RATE("dropout_rate", dropout, 0.1),
    FLAG("tie_word_embeddings", tied, 1),
    {"feed_forward_proj", CLEAVE_FIELD_GATED, MEMBER(activation), false, 0, "relu"},
    FLAG("scale_decoder_outputs", scales, 1),
    YES("is_encoder_decoder"),
    NOT("is_decoder")};

#define FIELDS(name) name, (int)(sizeof name / sizeof *name)

const cleave_family cleave_families[] = {
    {"arcee", FIELDS(arcee), cleave_compose_arcee, .has_text = true, .turns = true,
     .has_own_head = true},
    {"bert", FIELDS(bert), cleave_compose_bert, .has_text = true},
    {"bloom", FIELDS(bloom), cleave_compose_bloom, .has_text = true},
    {"camembert", FIELDS(roberta), cleave_compose_roberta, .has_text = true, .skips_padding = true},
    {"cohere", FIELDS(cohere), cleave_compose_cohere, .has_text = true, .turns = true,
     .has_own_head = true},
    {"cohere2", FIELDS(cohere2), cleave_compose_cohere2, .has_text = true, .turns = true,
     .has_own_head = true},
    {"deepseek_v2", FIELDS(deepseek_v2), cleave_compose_deepseek_v2, .has_text = true,
     .turns = true, .has_own_head = true},
    {"deepseek_v3", FIELDS(deepseek_v3), cleave_compose_deepseek_v3, .has_text = true,
     .turns = true, .has_own_head = true},
    {"distilbert", FIELDS(distilbert), cleave_compose_distilbert, .has_text = true},
    {"dots1", FIELDS(dots1), cleave_compose_dots1, .has_text = true, .turns = true,
     .has_own_head = true},
    {"ernie4_5", FIELDS(ernie4_5), cleave_compose_ernie4_5, .has_text = true, .turns = true,
     .has_own_head = true},
    {"ernie4_5_moe", FIELDS(ernie4_5_moe), cleave_compose_ernie4_5_moe, .has_text = true,
     .turns = true, .has_own_head = true},
    {"exaone4", FIELDS(exaone4), cleave_compose_exaone4, .has_text = true, .turns = true,
     .has_own_head = true},
    {"falcon", FIELDS(falcon), cleave_compose_falcon, .has_text = true, .turns = true},
    {"gemma", FIELDS(gemma), cleave_compose_gemma, .has_text = true, .turns = true,
     .has_own_head = true},
    {"gemma2", FIELDS(gemma2), cleave_compose_gemma2, .has_text = true, .turns = true,
     .has_own_head = true},
    {"gemma3_text", FIELDS(gemma3_text), cleave_compose_gemma3, .has_text = true, .turns = true,
     .has_own_head = true},
    {"glm", FIELDS(glm), cleave_compose_glm, .has_text = true, .turns = true, .turns_share = true,
     .has_own_head = true},
    {"glm4", FIELDS(glm), cleave_compose_glm4, .has_text = true, .turns = true, .turns_share = true,
     .has_own_head = true},
    {"glm4_moe", FIELDS(glm4_moe), cleave_compose_glm4_moe, .has_text = true, .turns = true,
     .turns_share = true, .has_own_head = true},
    {"gpt2", FIELDS(gpt2), cleave_compose_gpt2, .has_text = true},
    {"gpt_neox", FIELDS(gpt_neox), cleave_compose_gpt_neox, .has_text = true, .turns = true,
     .turns_share = true},
    {"gpt_oss", FIELDS(gpt_oss), cleave_compose_gpt_oss, .has_text = true, .turns = true,
     .has_own_head = true},
    {"granite", FIELDS(granite), cleave_compose_granite, .has_text = true, .turns = true},
    {"granitemoe", FIELDS(granitemoe), cleave_compose_granitemoe, .has_text = true, .turns = true},
    {"llama", FIELDS(llama), cleave_compose_llama, .has_text = true, .turns = true,
     .has_own_head = true},
    {"llama4_text", FIELDS(llama4), cleave_compose_llama4, .has_text = true, .turns = true,
     .has_own_head = true},
    {"minimax_m2", FIELDS(minimax_m2), cleave_compose_minimax_m2, .has_text = true, .turns = true,
     .turns_share = true, .has_own_head = true},
    {"ministral", FIELDS(ministral), cleave_compose_llama, .has_text = true, .turns = true,
     .has_own_head = true},
    {"mistral", FIELDS(mistral), cleave_compose_llama, .has_text = true, .turns = true,
     .has_own_head = true},
    {"mixtral", FIELDS(mixtral), cleave_compose_mixtral, .has_text = true, .turns = true,
     .has_own_head = true},
    {"nemotron", FIELDS(nemotron), cleave_compose_nemotron, .has_text = true, .turns = true,
     .turns_share = true, .has_own_head = true},
    {"olmo", FIELDS(olmo), cleave_compose_olmo, .has_text = true, .turns = true},
    {"olmo2", FIELDS(olmo2), cleave_compose_olmo2, .has_text = true, .turns = true},
    {"olmo3", FIELDS(olmo3), cleave_compose_olmo3, .has_text = true, .turns = true},
    {"olmoe", FIELDS(olmoe), cleave_compose_olmoe, .has_text = true, .turns = true},
    {"opt", FIELDS(opt), cleave_compose_opt, .has_text = true},
    {"phi", FIELDS(phi), cleave_compose_phi, .has_text = true, .turns = true, .turns_share = true},
    {"phi3", FIELDS(phi3), cleave_compose_phi3, .has_text = true, .turns = true,
     .turns_share = true},
    {"qwen2", FIELDS(qwen2), cleave_compose_qwen2, .has_text = true, .turns = true,
     .has_own_head = true},
    {"qwen2_moe", FIELDS(qwen2_moe), cleave_compose_qwen2_moe, .has_text = true, .turns = true},
    {"qwen3", FIELDS(qwen3), cleave_compose_qwen3, .has_text = true, .turns = true,
     .has_own_head = true},
    {"qwen3_moe", FIELDS(qwen3_moe), cleave_compose_qwen3_moe, .has_text = true, .turns = true,
     .has_own_head = true},
    {"roberta", FIELDS(roberta), cleave_compose_roberta, .has_text = true, .skips_padding = true},
    {"seed_oss", FIELDS(seed_oss), cleave_compose_seed_oss, .has_text = true, .turns = true,
     .has_own_head = true},
    {"smollm3", FIELDS(smollm3), cleave_compose_smollm3, .has_text = true, .turns = true},
    {"stablelm", FIELDS(stablelm), cleave_compose_stablelm, .has_text = true, .turns = true,
     .turns_share = true},
    {"starcoder2", FIELDS(starcoder2), cleave_compose_starcoder2, .has_text = true, .turns = true},
    {"t5", FIELDS(t5), cleave_compose_t5, .has_text = true, .has_own_head = true},
    {"vit", FIELDS(vit), cleave_compose_vit, .has_text = false},
    {"xlm-roberta", FIELDS(roberta), cleave_compose_roberta, .has_text = true,
     .skips_padding = true},
};
const int cleave_n_families = (int)(sizeof cleave_families / sizeof *cleave_families);
