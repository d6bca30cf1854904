/* What of a config.json is refused, and what is said of it. */
#include "configs.h"

TestSuite(config_refused, .fini = tear_down);

#define MIXTRAL "\"model_type\": \"mixtral\", \"num_key_value_heads\": 2, " SIZES
#define MPT                                                                                        \
    "\"model_type\": \"mpt\", \"d_model\": 16, \"n_heads\": 4, \"n_layers\": 1, \"vocab_size\": "  \
    "20"
#define GPT_NEO                                                                                    \
    "\"model_type\": \"gpt_neo\", \"hidden_size\": 16, \"num_heads\": 4, \"num_layers\": 2, "      \
    "\"vocab_size\": 20"
#define HUNYUAN "\"model_type\": \"hunyuan_v1_moe\", \"num_experts\": 4, " SIZES
#define BART                                                                                       \
    "\"d_model\": 16, \"vocab_size\": 20, \"encoder_layers\": 1, \"decoder_layers\": 1, "          \
    "\"encoder_attention_heads\": 4, \"encoder_ffn_dim\": 24"
#define DBRX                                                                                       \
    "\"model_type\": \"dbrx\", \"d_model\": 16, \"n_heads\": 4, \"n_layers\": 1, \"vocab_size\": " \
    "20"
#define DEEPSEEK "\"model_type\": \"deepseek_v3\", " SIZES

static const struct {
    const char *text, *message;
    int64_t sequence;
} refused[] = {
    {"{}", "no model_type", 8},
    {"{\"model_type\": 3}", "$.model_type", 8},
    {"{\"model_type\": \"mamba\", " SIZES "}",
     "\"mamba\" is not supported: it has state-space layers", 8},
    {"{\"model_type\": \"gpt_oss\", " SIZES "}", "$: has no rope_scaling", 8},
    {"{\"model_type\": \"gpt5\", " SIZES "}",
     "\"gpt5\" is not supported (is it gpt2?): docs/models.md lists", 8},
    {"{\"model_type\": \"whispr\"}", "\"whispr\" is not supported (is it whisper?)", 8},
    {"{\"model_type\": \"perceiver\", " SIZES "}",
     "\"perceiver\" is not supported: docs/models.md lists", 8},
    {"{\"model_type\": \"hunyuan_v1_dence\", " SIZES "}", "(is it hunyuan_v1_dense?)", 8},
    {"{\"cleave_machine\": 1}",
     "$: is no model: it has no model_type, and there is \"cleave_machine\": is it another file?",
     8},
    {"{\"_class_name\": \"UNet2DConditionModel\", \"sample_size\": 64}",
     "is of Diffusers, by its _class_name \"UNet2DConditionModel\", and no language model", 8},
    {"{\"model_type\": \"mistral3\", \"text_config\": {\"model_type\": \"mistral\"}, "
     "\"vision_config\": {\"model_type\": \"pixtral\"}}",
     "$.model_type: \"mistral3\" has several parts, which are not planned together; supported as a "
     "model is, written to a file of its own: text_config (\"mistral\")",
     8},
    {"{\"model_type\": \"clip\", \"text_config\": {\"model_type\": \"clip_text_model\"}, "
     "\"vision_config\": {\"model_type\": \"clip_vision_model\"}}",
     "of its own: text_config (\"clip_text_model\"), vision_config (\"clip_vision_model\")", 8},
    {"{\"model_type\": \"clip\"}", "it has similarities over the batch; its towers alone are", 8},
    {"{\"model_type\": \"dia\", \"text_config\": {\"model_type\": \"dia_text\"}}",
     "\"dia\" has several parts, and none of them is supported: text_config (\"dia_text\")", 8},
    {"{\"model_type\": \"qwen2_5_vl\", \"vision_config\": {\"model_type\": \"qwen2_5_vl\"}}",
     "\"qwen2_5_vl\" is not supported: it has several parts; its texts alone are qwen2_5_vl_text",
     8},
    {"{" LLAMA ", \"rope_scaling\": {\"type\": \"mrope\"}}", "\"mrope\" is not supported", 8},
    {"{\"model_type\": \"siglip_vision_model\", \"vision_use_head\": false}",
     "$.vision_use_head: is false", 0},
    {"{" LLAMA ", \"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 2]}}",
     "$.rope_scaling: has no short_factor, or no long_factor", 8},
    {"{" LLAMA ", \"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1], "
     "\"long_factor\": [1, 2], \"original_max_position_embeddings\": 4}}",
     "$.rope_scaling.long_factor: has 2 numbers, and short_factor 1", 8},
    {"{" LLAMA ", \"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 2, 3], "
     "\"long_factor\": [1, 2, 3], \"original_max_position_embeddings\": 4}}",
     "has 3 factors for 2 pairs that are turned", 8},
    {"{" LLAMA ", \"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, -2], "
     "\"long_factor\": [1, 2], \"original_max_position_embeddings\": 4}}",
     "$.rope_scaling.short_factor[1]: -2 is not above 0", 8},
    {"{" LLAMA ", \"is_decoder\": true}", "$.is_decoder: is true, which is not supported", 8},
    {"{" LLAMA ", \"pruned_heads\": {\"0\": [1]}}", "$.pruned_heads: is not empty", 8},
    {"{\"model_type\": \"gemma3\", \"vision_config\": {}}", "its texts alone are gemma3_text", 8},
    {"{\"model_type\": \"llama4_text\", \"num_key_value_heads\": 2, \"attention_chunk_size\": "
     "4, " SIZES "}",
     "a sequence of 8 is longer than 4: attention in chunks is not supported", 8},
    {"{\"model_type\": \"llama4_text\", \"num_experts_per_tok\": 2, " SIZES "}",
     "$.num_experts_per_tok: 2 is not supported, but 1", 8},
    {"{\"model_type\": \"phimoe\", " SIZES "}",
     "\"phimoe\" is not supported: it has a router that draws experts at random", 8},
    {"{\"model_type\": \"qwen3_5\", \"text_config\": {\"model_type\": \"qwen3_5_text\"}}",
     "\"qwen3_5\" is not supported: it has linear attention", 8},
    {"{\"model_type\": \"qwen3_next\", " SIZES "}",
     "\"qwen3_next\" is not supported: it has linear attention", 8},
    {"{\"model_type\": \"smollm3\", " SIZES ", \"no_rope_layers\": [1]}",
     "has 1 no_rope_layers for 2 layers", 8},
    {"{\"model_type\": \"smollm3\", " SIZES ", \"no_rope_layers\": [1, 2]}",
     "$.no_rope_layers[1]: 2 is not in the range 0 to 1", 8},
    {"{\"model_type\": \"qwen2_moe\", " SIZES ", \"use_sliding_window\": true}",
     "$.use_sliding_window: is true", 8},
    {"{\"model_type\": \"granite\", " SIZES ", \"logits_scaling\": 0}",
     "$.logits_scaling: 0 is not above 0", 8},
    {"{\"model_type\": \"glm4_moe\", " SIZES ", \"num_key_value_heads\": 4, \"n_group\": 3}",
     "groups of 128 experts", 8},
    {"{\"model_type\": \"deepseek_v2\", " SIZES ", \"topk_method\": \"noaux_tc\"}",
     "\"noaux_tc\" is not supported, but greedy and group_limited_greedy", 8},
    {"{\"model_type\": \"opt\", \"ffn_dim\": 24, " SIZES_OF_OPT ", \"layerdrop\": 0.1}",
     "$.layerdrop: 0.1 is not supported", 8},
    {"{" MIXTRAL ", \"num_local_experts\": 1}", "2 experts for each token are more than 1", 8},
    {"{" MIXTRAL ", \"capacity_factor\": 0}", "$.capacity_factor: 0 is not above 0", 8},
    {"{" MIXTRAL ", \"capacity_factor\": 1.25, \"expert_capacity\": 3}", "one of them is enough",
     8},
    {"{" MIXTRAL ", \"num_local_experts\": 5000}", "5000 experts are more than 4096", 8},
    {"{" MIXTRAL ", \"output_router_logits\": true}", "$.output_router_logits: is true", 8},
    {"{" MIXTRAL ", \"router_jitter_noise\": 0.1}", "$.router_jitter_noise: 0.1", 8},
    {"{\"model_type\": \"qwen3_moe\", " SIZES ", \"mlp_only_layers\": [1]}",
     "$.mlp_only_layers: is not empty", 8},
    {"{" DEEPSEEK ", \"n_group\": 3}", "groups of 256 experts", 8},
    {"{" DEEPSEEK ", \"topk_group\": 9}", "9 of 8 groups", 8},
    {"{" DEEPSEEK ", \"num_key_value_heads\": 2}", "4 heads of queries and 2 of keys", 8},
    {"{" DEEPSEEK ", \"scoring_func\": \"softmax\"}", "$.scoring_func", 8},
    {"{" DEEPSEEK ", \"topk_method\": \"greedy\"}", "$.topk_method", 8},
    {"{" LLAMA ", \"mixes_in\": 2}", "$.mixes_in: is no field that is known", 8},
    {"{" LLAMA ", \"quantization_config\": {}}", "without the field the model is planned", 8},
    {"{" LLAMA ", \"vision_config\": {}}", "$.vision_config", 8},
    {"{" LLAMA ", \"num_key_value_heads\": 3}", "4 heads of queries are no multiple of 3", 8},
    {"{\"model_type\": \"qwen2\", \"hidden_size\": 18, \"num_hidden_layers\": 2, "
     "\"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"vocab_size\": 20, "
     "\"intermediate_size\": 24}",
     "a width of 18 is no multiple of 4 heads", 8},
    {"{\"model_type\": \"qwen2\", \"hidden_size\": 16}", "has no num_hidden_layers", 8},
    {"{\"model_type\": \"deberta-v2\", " SIZES "}", "has no relative_attention", 8},
    {"{\"model_type\": \"deberta-v2\", " SIZES
     ", \"relative_attention\": true, \"pos_att_type\": [\"c2p\"]}",
     "\"c2p\" is not supported, but \"p2c|c2p\"", 8},
    {"{\"model_type\": \"deberta-v2\", " SIZES
     ", \"relative_attention\": true, \"pos_att_type\": \"p2c|c2p\", "
     "\"position_buckets\": 16, \"max_relative_positions\": 9}",
     "16 buckets up to a distance of 8 are too few, or too many", 8},
    {"{\"model_type\": \"esm\", " SIZES ", \"mask_token_id\": 3}", "has no position_embedding_type",
     8},
    {"{\"model_type\": \"convnext\"}",
     "convolutions of images: such models are taken as ONNX files", 8},
    {"{\"model_type\": \"cwm\", " SIZES
     ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}",
     "has no layer_types", 8},
    {"{\"model_type\": \"internlm3\", " SIZES ", \"qkv_bias\": true, \"bias\": false}",
     "$.bias: says something else than qkv_bias", 8},
    {"{\"model_type\": \"exaone_moe\", " SIZES
     ", \"num_key_value_heads\": 2, \"mlp_layer_types\": [\"dense\"]}",
     "has 1 mlp_layer_types for 2 layers", 8},
    {"{" LLAMA "}", "--sequence N", 0},
    {"{" LLAMA "}", "not in the range 1 to 262144", 262145},
    {"{\"model_type\": \"gemma2\", " SIZES ", \"num_key_value_heads\": 2, "
     "\"attn_logit_softcapping\": 0}",
     "$.attn_logit_softcapping: 0 is not above 0", 8},
    {"{\"model_type\": \"gemma3_text\", " SIZES ", \"num_key_value_heads\": 2, "
     "\"rope_parameters\": {\"rope_theta\": 100}}",
     "$.rope_parameters", 8},
    {"{\"model_type\": \"phi3\", " SIZES ", \"embd_pdrop\": 0.1}", "$.embd_pdrop: 0.1", 8},
    {"{" GPT2 ", \"n_positions\": 7}", "longer than its 7 positions", 8},
    {"{" LLAMA ", \"head_dim\": 3}", "3 of a head's 3 dimensions, which are no pairs", 8},
    {"{" LLAMA ", \"partial_rotary_factor\": 0.5}", "$.partial_rotary_factor", 8},
    {"{" LLAMA ", \"rope_scaling\": {\"partial_rotary_factor\": 0.5}}", "nothing that llama has",
     8},
    {"{\"model_type\": \"phi\", " SIZES ", \"partial_rotary_factor\": 1.5}", "no pairs", 8},
    {"{" LLAMA ", \"hidden_act\": \"snake\"}", "$.hidden_act: \"snake\" is no function", 8},
    {"{" LLAMA ", \"rope_scaling\": {\"type\": \"ntk\"}}", "\"ntk\" is not", 8},
    {"{" LLAMA ", \"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8}}",
     "original_max_position_embeddings", 8},
    {"{" LLAMA ", \"rope_scaling\": {\"type\": \"yarn\", \"short_factor\": 8}}", "short_factor", 8},
    {"{" LLAMA ", \"hidden_act\": null, \"is_decoder\": true}", "$.is_decoder: is true", 8},
    {"{" LLAMA ", \"head_dim\": 1048576}", "are more than 1048576 in all", 8},
    {"{" LLAMA ", \"head_dim\": 9223372036854775807}", "not in the range 1 to 1048576", 8},
    {"{" LLAMA ", \"attention_dropout\": 1}", "1 is not in [0, 1)", 8},
    {"{" LLAMA ", \"tie_word_embeddings\": 1}", "true or false", 8},
    {"{\"model_type\": \"vit\", " SIZES "}", "$.vocab_size: is no field", 0},
    {"{\"model_type\": \"vit\", \"hidden_size\": 16, \"num_hidden_layers\": 1, "
     "\"num_attention_heads\": 4, \"image_size\": [8, 9]}",
     "8 x 9 is no square", 0},
    {"{\"model_type\": \"vit\", \"hidden_size\": 16, \"num_hidden_layers\": 1, "
     "\"num_attention_heads\": 4, \"image_size\": 10, \"patch_size\": 14}",
     "an image of 10 has no patch of 14", 0},
    {"{\"model_type\": \"dinov2_with_registers\", \"hidden_size\": 16, \"num_hidden_layers\": 1, "
     "\"num_attention_heads\": 4, \"num_register_tokens\": 300000}",
     "16 x 16 patches and 300000 registers are more than 262143", 0},
    {"{\"model_type\": \"dinov2\", \"hidden_size\": 16, \"num_hidden_layers\": 1, "
     "\"num_attention_heads\": 4, \"drop_path_rate\": 0.1}",
     "$.drop_path_rate: 0.1 is not supported", 0},
    {"{\"model_type\": \"vit\", \"hidden_size\": 16, \"num_hidden_layers\": 1, "
     "\"num_attention_heads\": 4}",
     "has no texts", 8},
    {"{\"model_type\": \"qwen3\", " SIZES ", \"num_key_value_heads\": 2, \"layer_types\": "
     "[\"full_attention\"]}",
     "has 1 layer_types for 2 layers", 8},
    {"{\"model_type\": \"qwen3\", " SIZES ", \"num_key_value_heads\": 2, \"layer_types\": "
     "[\"chunked_attention\"]}",
     "$.layer_types[0]", 8},
    {"{\"model_type\": \"vit_mae\"}", "it has patches that are hidden at random in training", 0},
    {"{\"model_type\": \"granitemoehybrid\", " SIZES "}", "$: has no layer_types", 8},
    {"{\"model_type\": \"granitemoehybrid\", " SIZES ", \"layer_types\": [\"mamba\"]}",
     "$.layer_types[0]: \"mamba\" is not supported, but attention", 8},
    {"{\"model_type\": \"lfm2\", \"num_key_value_heads\": 2, " SIZES
     ", \"layer_types\": [\"conv\"]}",
     "has 1 layer_types for 2 layers", 8},
    {"{\"model_type\": \"lfm2\", \"num_key_value_heads\": 2, " SIZES ", \"full_attn_idxs\": [-1]}",
     "$.full_attn_idxs[0]: -1 is not in the range", 8},
    {"{\"model_type\": \"lfm2\", \"num_key_value_heads\": 2, " SIZES
     ", \"block_ffn_dim_multiplier\": 1e9}",
     "a block_ffn_dim_multiplier of 1e+09 is too large", 8},
    {"{\"model_type\": \"lfm2\", \"num_key_value_heads\": 2, " SIZES ", \"conv_bias\": true}",
     "$.conv_bias: is true", 8},
    {"{\"model_type\": \"exaone4\", " SIZES ", \"num_key_value_heads\": 2, "
     "\"sliding_window_pattern\": \"LGLG\"}",
     "$.sliding_window_pattern: \"LGLG\" is not supported, but such as LLLG", 8},
    {"{\"model_type\": \"olmo3\", " SIZES ", \"rope_parameters\": {\"rope_theta\": 100}}",
     "$.rope_parameters", 8},
    {"{\"model_type\": \"cohere2\", " SIZES ", \"use_qk_norm\": true}", "$.use_qk_norm: is true",
     8},
    {"{\"model_type\": \"apertus\", " SIZES "}", "$: has no rope_scaling", 8},
    {"{\"model_type\": \"modernbert\", " SIZES ", \"norm_bias\": true}", "$.norm_bias: is true", 8},
    {"{" MPT ", \"attn_config\": {\"qk_ln\": true}}", "$.attn_config.qk_ln: is true", 8},
    {"{" MPT ", \"attn_config\": {\"rope\": true}}", "$.attn_config.rope: is no field", 8},
    {"{" MPT ", \"attn_config\": []}", "$.attn_config", 8},
    {"{" MPT ", \"qk_ln\": false}", "$.qk_ln: is no field", 8},
    {"{" MPT ", \"expansion_ratio\": 3}", "$.expansion_ratio: 3 is not supported, but 4", 8},
    {"{" GPT_NEO "}", "has no attention_types", 8},
    {"{" GPT_NEO ", \"attention_types\": [[[\"global\", \"sparse\"], 1]]}",
     "$.attention_types[0][0][1]: \"sparse\" is not supported, but global and local", 8},
    {"{" GPT_NEO ", \"attention_types\": [[[\"global\"], 3]]}",
     "has 3 attention_types for 2 layers", 8},
    {"{" GPT_NEO ", \"attention_types\": [[[], 2]]}", "$.attention_types: has no layers", 8},
    {"{" GPT_NEO ", \"attention_types\": [[[\"global\"]]]}", "$.attention_types[0]", 8},
    {"{" GPT_NEO ", \"attention_types\": [[[\"local\", \"local\"], 4096]]}", "more than 4096", 8},
    {"{\"model_type\": \"codegen\", \"n_embd\": 18, \"n_head\": 6, \"n_layer\": 1, "
     "\"vocab_size\": 20}",
     "6 heads are no multiple of 4", 8},
    {"{\"model_type\": \"gptj\", \"n_embd\": 16, \"n_head\": 4, \"n_layer\": 1, \"vocab_size\": "
     "20}",
     "64 of a head's 4 dimensions", 8},
    {"{" HUNYUAN ", \"moe_topk\": [1, 2]}", "$.moe_topk[1]: 2 is another than 1", 8},
    {"{" HUNYUAN ", \"num_shared_expert\": [1, 2]}", "$.num_shared_expert", 8},
    {"{" HUNYUAN ", \"use_cla\": true}", "$.use_cla: is true", 8},
    {"{\"model_type\": \"bart\", " BART ", \"tie_word_embeddings\": false}",
     "$.tie_word_embeddings: is false", 8},
    {"{\"model_type\": \"bart\", " BART ", \"decoder_ffn_dim\": 32}",
     "$.decoder_ffn_dim: says something else than encoder_ffn_dim", 8},
    {"{" DBRX ", \"ffn_config\": {\"moe_normalize_expert_weights\": 2}}", "2-norm", 8},
    {"{" DBRX ", \"ffn_config\": {\"moe_top_k\": 5}}", "5 experts for each token are more than 4",
     8},
    {"{\"model_type\": \"m2m_100\", " BART "}", "$: has no encoder_layerdrop", 8},
    {"{\"model_type\": \"whisper\", " BART ", \"max_source_positions\": 262145}",
     "262145 max_source_positions are more than 262144", 8},
    {"{\"model_type\": \"whisper\", " BART ", \"apply_spec_augment\": true}",
     "$.apply_spec_augment: is true", 8},
    {"{" LLAMA ", \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 1, \"alpha\": 9}}", "alpha",
     8},
};

Test(config_refused, what_is_not_understood_is_refused_by_name) {
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        cleave_onnx_graph graph = {.n_nodes = 77};
        cleave_error error = {""};
        cr_expect_eq(decode(refused[i].text, refused[i].sequence, true, &graph, &error),
                     CLEAVE_BAD_INPUT, "%s", refused[i].text);
        cr_expect_eq(graph.n_nodes, 77, "the graph is written on success only");
        cr_expect_not_null(strstr(error.message, refused[i].message), "'%s' is not in: %s",
                           refused[i].message, error.message);
        cr_expect_not_null(strstr(error.message, "hand.json"), "no file in: %s", error.message);
    }
}

/* 2^31 texts of 2^14 tokens of a million kinds are 2^65 logits. */
Test(config_refused, sizes_that_do_not_fit_are_refused) {
    static const char text[] =
        "{\"model_type\": \"llama\", \"hidden_size\": 16, \"num_hidden_layers\": 1, "
        "\"num_attention_heads\": 4, \"vocab_size\": 1048576, \"intermediate_size\": 24}";
    cleave_import_request request = config_request(text, INT64_C(1) << 31, 1 << 14);
    cleave_error error = {""};
    cr_expect_eq(cleave_model_import_as(&request, &arena, &model, &error), CLEAVE_BAD_INPUT);
    cr_expect_neq(error.message[0], '\0');
}

Test(config_refused, a_length_of_texts_goes_with_no_other_model) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 2");
    graph_output(&graph, "y");
    node(&graph, "Relu", "a", "x", "y", NULL);
    bytes file = model_file(&graph, 13);
    const cleave_import_request request = {
        .file = "hand.onnx", .data = file.data, .bytes = file.n, .batch = 2, .sequence = 8};
    cleave_error error = {""};
    cr_expect_eq(cleave_model_import_as(&request, &arena, &model, &error), CLEAVE_BAD_INPUT);
    cr_expect_not_null(strstr(error.message, "--sequence 8 goes with"), "%s", error.message);
}
