/* What a config.json says and leaves out, in the graph that it becomes. */
#include "configs.h"
#include "graph/import/onnx/onnx_encode.h"

TestSuite(config, .fini = tear_down);

static int count_type(const cleave_onnx_graph *graph, const char *type) {
    int n = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++)
        n += strcmp(graph->nodes[i].type, type) == 0;
    return n;
}

/* LLaVA 1.5 has of its texts what is not as of Llama's class: 6,738,415,616 parameters of Llama 7B,
   and 64 rows more of 4096 in each of two tables.  The others' numbers are the framework's: places
   of Blenderbot, units of DeBERTa and ELECTRA, latents of GLM; heads of keys, and a head, that null
   says are those of queries and a share of the width; what null says nothing of; and units of Llama
   4, where layers have no experts. */
Test(config, sizes_that_are_left_out_are_those_of_the_class) {
    static const struct {
        const char *text;
        int64_t parameters;
    } cases[] = {
        {"{\"_name_or_path\": \"lmsys/vicuna-7b-v1.5\", \"architectures\": [\"LlamaForCausalLM\"], "
         "\"max_position_embeddings\": 4096, \"model_type\": \"llama\", \"rms_norm_eps\": 1e-05, "
         "\"torch_dtype\": \"float16\", \"vocab_size\": 32064}",
         INT64_C(6738415616) + 2 * 64 * 4096},
        {"{\"model_type\": \"blenderbot\", \"d_model\": 16, \"vocab_size\": 20, "
         "\"encoder_layers\": 1, \"decoder_layers\": 1, \"encoder_attention_heads\": 4, "
         "\"decoder_attention_heads\": 4, \"encoder_ffn_dim\": 24, \"decoder_ffn_dim\": 24}",
         9520},
        {"{\"model_type\": \"deberta-v2\", \"relative_attention\": true, "
         "\"pos_att_type\": \"p2c|c2p\", " SIZES_OF_OPT "}",
         434180},
        {"{\"model_type\": \"electra\", " SIZES_OF_OPT "}", 143044},
        {"{\"model_type\": \"glm4_moe_lite\", \"n_routed_experts\": 4, " SIZES "}", 3856784},
        {"{\"model_type\": \"ernie4_5\", \"num_key_value_heads\": null, \"head_dim\": null, " SIZES
         "}",
         4752},
        {"{\"model_type\": \"internlm3\", \"num_key_value_heads\": null, " SIZES "}", 68560},
        {"{" LLAMA ", \"sliding_window\": null, \"quantization_config\": null}", 5072},
        {"{\"model_type\": \"llama4_text\", \"num_local_experts\": 2, \"num_key_value_heads\": 4, "
         "\"layer_types\": [\"chunked_attention\", \"full_attention\"], " SIZES "}",
         73232},
        {"{\"model_type\": \"llama4_text\", \"num_local_experts\": 2, \"num_key_value_heads\": 4, "
         "\"moe_layers\": [1], " SIZES "}",
         856176},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const cleave_import_request request = {.file = "hand.json",
                                               .data = cases[i].text,
                                               .bytes = strlen(cases[i].text),
                                               .batch = 2,
                                               .sequence = 8,
                                               .with_loss = true};
        cleave_error error = {""};
        cr_assert_eq(cleave_model_import_as(&request, &arena, &model, &error), CLEAVE_OK, "%s",
                     error.message);
        cr_expect_eq(cleave_model_parameter_count(&model), cases[i].parameters, "%s: %lld",
                     cases[i].text, (long long)cleave_model_parameter_count(&model));
    }
}

/* Of the embedding, the weights of attention, and behind attention and unit. */
Test(config, rates_that_are_left_out_are_the_familys_and_drop_in_training_alone) {
    cleave_onnx_graph graph = graph_of("{" GPT2 "}", 8, true);
    cr_expect_eq(count_type(&graph, "Dropout"), 4);
    graph = graph_of("{" GPT2 "}", 8, false);
    cr_expect_eq(count_type(&graph, "Dropout"), 0);
    graph = graph_of("{" GPT2 ", \"attn_pdrop\": 0}", 8, true);
    cr_expect_eq(count_type(&graph, "Dropout"), 3);
}

/* Of EXAONE 4 the layers with a window alone are turned, queries and keys. */
Test(config, windows_come_in_periods_by_a_number_or_by_letters) {
    static const struct {
        const char *period;
        int n_turned;
    } periods[] = {{"\"LLLG\"", 6}, {"4", 6}, {"\"LG\"", 4}, {"2", 4}};
    for (size_t i = 0; i < sizeof periods / sizeof *periods; i++) {
        char text[512];
        snprintf(
            text, sizeof text,
            "{\"model_type\": \"exaone4\", \"hidden_size\": 16, \"num_hidden_layers\": 8, "
            "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": 20, "
            "\"intermediate_size\": 24, \"sliding_window\": 4, \"sliding_window_pattern\": %s}",
            periods[i].period);
        cleave_onnx_graph graph = graph_of(text, 8, true);
        cr_expect_eq(count_type(&graph, "Neg"), 2 * periods[i].n_turned, "%s", periods[i].period);
    }
}

static const cleave_onnx_tensor *constant(const cleave_onnx_graph *graph, const char *name) {
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (strcmp(graph->nodes[i].name, name) == 0)
            return graph->nodes[i].attributes[0].tensor;
    return NULL;
}

/* The window of each layer's mask; 0: it has none. */
static void expect_windows(const cleave_onnx_graph *graph, int64_t first, int64_t second) {
    int64_t windows[2];
    int n = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const cleave_onnx_node *node = &graph->nodes[i];
        if (strcmp(node->type, "CausalMask") != 0)
            continue;
        cr_assert_lt(n, 2);
        windows[n++] = node->n_attributes > 0 ? node->attributes[0].integer : 0;
    }
    cr_assert_eq(n, 2);
    cr_expect(windows[0] == first && windows[1] == second);
}

Test(config, windows_are_of_the_layers_that_the_file_says) {
    cleave_onnx_graph graph =
        graph_of("{\"model_type\": \"mistral\", " SIZES ", \"num_key_value_heads\": 2, "
                 "\"sliding_window\": 2}",
                 5, true);
    expect_windows(&graph, 2, 2);
    static const char qwen[] = "{\"model_type\": \"qwen2\", " SIZES ", \"num_key_value_heads\": 2, "
                               "\"sliding_window\": 3, \"use_sliding_window\": %s, %s}";
    char text[512];
    snprintf(text, sizeof text, qwen, "true", "\"max_window_layers\": 1");
    graph = graph_of(text, 5, true);
    expect_windows(&graph, 0, 3);
    snprintf(text, sizeof text, qwen, "true",
             "\"layer_types\": [\"sliding_attention\", \"sliding_attention\"]");
    graph = graph_of(text, 5, true);
    expect_windows(&graph, 3, 3);
    snprintf(text, sizeof text, qwen, "false", "\"max_window_layers\": 0");
    graph = graph_of(text, 5, true);
    expect_windows(&graph, 0, 0);
}

/* Of two layers. */
Test(config, convolutions_are_of_the_layers_that_the_file_says) {
    static const char lfm2[] =
        "{\"model_type\": \"lfm2\", " SIZES ", \"num_key_value_heads\": 2%s}";
    static const struct {
        const char *said;
        int convolutions;
    } cases[] = {{"", 0},
                 {", \"full_attn_idxs\": []", 2},
                 {", \"full_attn_idxs\": [1, 7]", 1},
                 {", \"full_attn_idxs\": [], \"layer_types\": [\"conv\", \"full_attention\"]", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        snprintf(text, sizeof text, lfm2, cases[i].said);
        const cleave_onnx_graph graph = graph_of(text, 5, true);
        cr_expect_eq(count_type(&graph, "Conv"), cases[i].convolutions, "%s", cases[i].said);
        cr_expect_eq(count_type(&graph, "CausalMask"), 2 - cases[i].convolutions);
    }
}

/* Heads of 4 turn by 1 and theta^(-1/2) per position; half of them by 1 alone. */
Test(config, positions_turn_pairs_of_a_share_of_the_head) {
    cleave_onnx_graph graph = graph_of("{" LLAMA ", \"rope_theta\": 100}", 3, true);
    const cleave_onnx_tensor *cosines = constant(&graph, "rotary.cosines");
    const double expected[] = {cos(2), cos(0.2), cos(2), cos(0.2)};
    for (int i = 0; i < 4; i++)
        cr_expect_float_eq((double)cosines->floats[2 * 4 + i], expected[i], 1e-6);
    graph = graph_of("{\"model_type\": \"phi\", " SIZES ", "
                     "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 4}}",
                     3, true);
    const cleave_onnx_tensor *sines = constant(&graph, "rotary.sines");
    cr_assert_eq(sines->shape[1], 2);
    cr_expect_float_eq((double)sines->floats[2 * 2], sin(0.5), 1e-6);
}

/* Whisper's encoder turns 2 of 4 by 1 and 1/10000 per place, Pegasus' by 1 and 1/100; NLLB's
   first place is behind the id that pads. */
Test(config, waves_are_the_slower_the_further_back) {
    static const struct {
        const char *text, *constant;
        double place, slow;
    } waves[] = {
        {"\"model_type\": \"whisper\", \"max_source_positions\": 5", "model.encoder", 3, 1e-4},
        {"\"model_type\": \"pegasus\"", "model.decoder", 3, 1e-2},
        {"\"model_type\": \"m2m_100\", \"encoder_layerdrop\": 0, \"decoder_layerdrop\": 0, "
         "\"pad_token_id\": 4",
         "model.encoder", 8, 1e-4},
    };
    for (size_t i = 0; i < sizeof waves / sizeof *waves; i++) {
        char text[512], name[64];
        snprintf(text, sizeof text,
                 "{%s, \"d_model\": 4, \"vocab_size\": 20, \"encoder_layers\": 1, "
                 "\"decoder_layers\": 1, \"encoder_attention_heads\": 2, \"encoder_ffn_dim\": 8}",
                 waves[i].text);
        cleave_onnx_graph graph = graph_of(text, 5, true);
        snprintf(name, sizeof name, "%s.embed_positions", waves[i].constant);
        const float *row = constant(&graph, name)->floats + 3 * 4;
        const double expected[] = {sin(waves[i].place), sin(waves[i].place * waves[i].slow),
                                   cos(waves[i].place), cos(waves[i].place * waves[i].slow)};
        for (int k = 0; k < 4; k++)
            cr_expect_float_eq((double)row[k], expected[k], 1e-6);
    }
}

/* A base of 10000 grows for 8 of 4 positions by (2 x 8 / 4 - 1)^(4 / 2) = 9: pair 1 turns by
   90000^(-1/2) = 1/300 per position. */
Test(config, positions_beyond_the_models_own_stretch_where_the_file_says_dynamic) {
    cleave_onnx_graph graph = graph_of("{" LLAMA ", \"max_position_embeddings\": 4, "
                                       "\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}}",
                                       8, true);
    const cleave_onnx_tensor *sines = constant(&graph, "rotary.sines");
    cr_expect_float_eq((double)sines->floats[6 * 4 + 1], sin(6.0 / 300), 1e-6);
}

/* A base of 10000 grows by 9^(4 / 2): pair 1 turns by 810000^(-1/2) = 1/900 per position. */
Test(config, positions_stretch_for_texts_of_any_length_by_an_alpha) {
    cleave_onnx_graph graph =
        graph_of("{\"model_type\": \"hunyuan_v1_dense\", " SIZES ", "
                 "\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 1, \"alpha\": 9}}",
                 8, true);
    const cleave_onnx_tensor *sines = constant(&graph, "rotary.sines");
    cr_expect_float_eq((double)sines->floats[6 * 4 + 1], sin(6.0 / 900), 1e-6);
}

/* Of 4 dimensions pair 1 turns by 10000^(-1/2) / 2 per position of texts of 4, and by a quarter of
   that of longer ones; 64 positions are 16 x as many: all is times (1 + log 16 / log 4)^(1/2). */
Test(config, positions_beyond_the_models_own_have_factors_of_their_own) {
    static const struct {
        int64_t sequence;
        double factor;
    } texts[] = {{4, 2}, {5, 8}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        cleave_onnx_graph graph =
            graph_of("{" LLAMA ", \"max_position_embeddings\": 64, \"rope_scaling\": {\"type\": "
                     "\"longrope\", \"original_max_position_embeddings\": 4, "
                     "\"short_factor\": [1, 2], \"long_factor\": [1, 8]}}",
                     texts[i].sequence, true);
        const cleave_onnx_tensor *sines = constant(&graph, "rotary.sines");
        cr_expect_float_eq((double)sines->floats[3 * 4 + 1],
                           sqrt(3) * sin(3 * 0.01 / texts[i].factor), 1e-6);
    }
}

Test(config, windows_come_in_runs_of_layers) {
    cleave_onnx_graph graph =
        graph_of("{\"model_type\": \"gpt_neo\", \"hidden_size\": 16, \"num_heads\": 4, "
                 "\"num_layers\": 2, \"vocab_size\": 20, \"window_size\": 3, "
                 "\"attention_types\": [[[\"local\"], 1], [[\"global\"], 1]]}",
                 5, true);
    expect_windows(&graph, 3, 0);
}

/* As a part of another model's file has it. */
Test(config, what_is_switched_off_changes_nothing) {
    const cleave_onnx_graph graphs[] = {
        graph_of("{" LLAMA "}", 8, true),
        graph_of("{" LLAMA ", \"is_decoder\": false, \"add_cross_attention\": false, "
                 "\"cross_attention_hidden_size\": null, \"pruned_heads\": {}, "
                 "\"tie_encoder_decoder\": false, \"is_encoder_decoder\": false}",
                 8, true)};
    const char *data[2];
    size_t n_bytes[2];
    for (int i = 0; i < 2; i++)
        OK(cleave_onnx_encode, &graphs[i], &arena, &data[i], &n_bytes[i]);
    cr_assert_eq(n_bytes[0], n_bytes[1]);
    cr_expect_arr_eq(data[0], data[1], n_bytes[0]);
}

Test(config, two_names_of_a_field_may_agree) {
    graph_of("{" GPT2 ", \"n_positions\": 16, \"max_position_embeddings\": 16}", 16, true);
    cleave_onnx_graph graph;
    cleave_error error = {""};
    cr_expect_eq(decode("{" GPT2 ", \"n_positions\": 16, \"max_position_embeddings\": 8}", 8, true,
                        &graph, &error),
                 CLEAVE_BAD_INPUT);
    cr_expect_not_null(strstr(error.message, "something else than n_positions"), "%s",
                       error.message);
}

Test(config, the_written_file_is_the_same_model) {
    static const char *const names[] = {"llama", "gpt2", "bert", "vit", "t5"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *text = read_text("tests/data/oracles/family_%s.json", names[i]);
        int64_t sequence = strcmp(names[i], "vit") == 0 ? 0 : 6;
        cleave_model written;
        cleave_import_request request = config_request(text, 4, sequence);
        OK(cleave_model_import_as, &request, &arena, &model);
        cleave_onnx_graph graph = graph_of(text, sequence, true);
        const char *data;
        OK(cleave_onnx_encode, &graph, &arena, &data, &request.bytes);
        request.data = data;
        request.sequence = 0;
        OK(cleave_model_import_as, &request, &arena, &written);
        cr_expect_str_eq(written.hash, model.hash);
    }
}

/* ---- caps ------------------------------------------------------------------------------------ */

static int tanhs_of(const char *caps) {
    char text[512];
    snprintf(text, sizeof text, "{\"model_type\": \"gemma2\", \"num_key_value_heads\": 2, %s%s}",
             SIZES, caps);
    cleave_onnx_graph graph = graph_of(text, 8, true);
    return count_type(&graph, "Tanh");
}

/* Two layers cap their scores, and the model its logits. */
Test(config, a_cap_that_is_null_is_none_and_one_left_out_is_the_familys) {
    cr_expect_eq(tanhs_of(""), 3);
    cr_expect_eq(tanhs_of(", \"attn_logit_softcapping\": null"), 1);
    cr_expect_eq(tanhs_of(", \"final_logit_softcapping\": null"), 2);
}
