/* Language models by their config.json: parameters as the framework has them, and what is refused.
   That they compute what the framework's classes do is tested by tests/integration/oracles.c. */
#include "graph/import/config/config.h"
#include "base/file.h"
#include "graph/import/onnx/onnx_encode.h"
#include "graph/model/attention.h"
#include "imported.h"

#include <criterion/parameterized.h>

TestSuite(config, .fini = tear_down);

static cleave_status decode(const char *text, int64_t sequence, bool trains,
                            cleave_onnx_graph *graph, cleave_error *error) {
    const cleave_config_request request = {.file = "hand.json",
                                           .data = text,
                                           .bytes = strlen(text),
                                           .sequence = sequence,
                                           .trains = trains};
    return cleave_config_decode(&request, &arena, graph, error);
}

static char *read_text(const char *format, const char *name) {
    char path[512], full[1024], *text;
    size_t size;
    cleave_error error = {""};
    snprintf(path, sizeof path, format, name);
    snprintf(full, sizeof full, "%s/%s", CLEAVE_SOURCE_DIR, path);
    cr_assert_eq(cleave_file_read(full, &arena, &text, &size, &error), CLEAVE_OK, "%s",
                 error.message);
    return text;
}

/* ---- parameters ------------------------------------------------------------------------------ */

enum { MOST_LINES = 64 };

/* "model.layers.3.mlp" becomes "model.layers.*.mlp". */
static void fold_layer(const char *name, char *folded, size_t size) {
    static const char *const lists[] = {".block.", ".blocks.", ".layers.", ".layer.", ".h."};
    snprintf(folded, size, "%s", name);
    const char *first = NULL;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const char *at = strstr(name, lists[i]);
        const char *number = at != NULL ? at + strlen(lists[i]) : NULL;
        if (number != NULL && *number >= '0' && *number <= '9' && (first == NULL || at < first)) {
            first = at;
            snprintf(folded, size, "%.*s*%s", (int)(number - name), name,
                     number + strspn(number, "0123456789"));
        }
    }
}

/* "4096x1024 NAME" */
static void describe(const cleave_onnx_value *value, char *text, size_t size) {
    char folded[256];
    fold_layer(value->name, folded, sizeof folded);
    text[0] = '\0';
    for (int d = 0; d < value->rank; d++)
        snprintf(text + strlen(text), size - strlen(text), "%s%lld", d > 0 ? "x" : "",
                 (long long)value->shape[d]);
    snprintf(text + strlen(text), size - strlen(text), " %s", folded);
}

/* Compares a graph's parameters with the lines "COUNT SHAPE NAME" of a file of them. */
static void expect_parameters(const cleave_onnx_graph *graph, char *expected) {
    char *lines[MOST_LINES];
    long long left[MOST_LINES] = {0};
    int n = 0;
    for (char *line = strtok(expected, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char *end;
        cr_assert_lt(n, MOST_LINES);
        left[n] = strtoll(line, &end, 10);
        lines[n++] = end + 1;
    }
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        char text[512];
        int k = 0;
        if (graph->inputs[i].symbols[0] != NULL)
            continue;
        describe(&graph->inputs[i], text, sizeof text);
        while (k < n && strcmp(lines[k], text) != 0)
            k++;
        cr_assert_lt(k, n, "%s is no parameter of the framework", text);
        left[k]--;
    }
    for (int k = 0; k < n; k++)
        cr_expect_eq(left[k], 0, "%lld of %s are missing", left[k], lines[k]);
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Of each attention one nest is made, which stores no scores. */
static void expect_no_scores(void) {
    cleave_model fused;
    cleave_error error = {""};
    int n = 0;
    cr_assert_eq(cleave_model_fuse_attention(&model, NULL, &arena, &fused, &error), CLEAVE_OK, "%s",
                 error.message);
    for (int32_t op = 0; op < fused.n_operators; op++) {
        if (strcmp(fused.operators[op].type, "Attention") != 0)
            continue;
        n++;
        cr_expect_eq(fused.operators[op].n_nests, 1, "%s stores its scores",
                     fused.operators[op].name);
    }
    cr_expect_gt(n, 0);
}

/* ---- published models ------------------------------------------------------------------------ */

typedef struct published {
    char name[32];
} published;

ParameterizedTestParameters(config, published_models_have_the_parameters_of_the_framework) {
    static published all[] = {{"bert_base"},
                              {"deepseek_v2_lite"},
                              {"distilbert_base"},
                              {"opt_6_7b"},
                              {"deepseek_v3"},
                              {"gemma_2_2b"},
                              {"gemma_2b"},
                              {"gemma_3_1b"},
                              {"gemma_7b"},
                              {"glm_4_5_air"},
                              {"gpt2"},
                              {"gpt_neox_20b"},
                              {"granite_3_1_8b"},
                              {"llama_3_2_1b"},
                              {"llama_3_8b"},
                              {"mistral_7b"},
                              {"mixtral_8x7b"},
                              {"olmo_2_7b"},
                              {"olmoe_1b_7b"},
                              {"phi_2"},
                              {"phi_3_mini_4k"},
                              {"qwen2_57b_a14b"},
                              {"qwen2_7b"},
                              {"qwen3_0_6b"},
                              {"qwen3_30b_a3b"},
                              {"roberta_base"},
                              {"smollm3_3b"},
                              {"starcoder2_7b"},
                              {"t5_base"},
                              {"t5_v1_1_small"},
                              {"olmo_3_7b"},
                              {"exaone_4_32b"},
                              {"command_r7b"},
                              {"seed_oss_36b"},
                              {"glm_4_9b"},
                              {"nemotron_4_340b"},
                              {"ernie_4_5_0_3b"},
                              {"gpt_oss_20b"},
                              {"gpt_oss_120b"},
                              {"granite_3_1_3b_a800m"},
                              {"minimax_m2"},
                              {"ernie_4_5_21b_a3b"},
                              {"dots_llm1"},
                              {"llama_4_scout"},
                              {"bloom_7b1"},
                              {"falcon_7b"},
                              {"falcon_40b"},
                              {"command_r"},
                              {"stablelm_3b_4e1t"},
                              {"olmo_7b"},
                              {"gptj_6b"},
                              {"codegen_2b"},
                              {"gpt_neo_2_7b"},
                              {"mpt_7b"},
                              {"hunyuan_7b"},
                              {"hunyuan_a13b"},
                              {"helium_1_2b"},
                              {"electra_small"},
                              {"mt5_small"},
                              {"apertus_8b"},
                              {"modernbert_base"},
                              {"bart_large"},
                              {"mbart_large_cc25"},
                              {"pegasus_large"},
                              {"nllb_200_distilled_600m"},
                              {"whisper_large_v3"},
                              {"xglm_564m"},
                              {"biogpt"},
                              {"starcoder"},
                              {"albert_base_v2"},
                              {"dbrx_base"},
                              {"clip_vit_l_14_text"},
                              {"clip_vit_l_14_vision"},
                              {"siglip_so400m_text"},
                              {"siglip_so400m_vision"},
                              {"persimmon_8b"},
                              {"stablelm_2_12b"},
                              {"qwen3_vl_8b_text"},
                              {"glm_4_7_flash"},
                              {"gemma_3_4b_text"},
                              {"deit_base_distilled"},
                              {"dinov2_giant"},
                              {"trinity_mini"},
                              {"internlm3_8b"},
                              {"cwm_32b"},
                              {"eurobert_210m"},
                              {"minicpm3_4b"},
                              {"flex_olmo_7x7b"},
                              {"mpnet_base"},
                              {"esm2_t33_650m"},
                              {"umt5_base"},
                              {"blenderbot_3b"},
                              {"deberta_v3_base"},
                              {"vit_base"}};
    return cr_make_param_array(published, all, sizeof all / sizeof *all);
}

/* tests/data/make_family_names.py wrote what is expected; the counts are those that are published,
   such as 8,030,261,248 of Llama-3-8B.  No weight is made: the largest has 2.4 TiB of them. */
ParameterizedTest(published *of, config, published_models_have_the_parameters_of_the_framework) {
    char *text = read_text("configs/models/%s.json", of->name), *rest;
    char *expected = read_text("tests/data/configs/%s.parameters", of->name);
    cleave_onnx_graph graph;
    cleave_error error = {""};
    int64_t sequence = strstr(text, "\"image_size\"") != NULL ? 0 : 64;
    long long count = strtoll(expected, &rest, 10);
    cr_assert_eq(decode(text, sequence, true, &graph, &error), CLEAVE_OK, "%s", error.message);
    expect_parameters(&graph, rest);
    const cleave_import_request request = {.file = of->name,
                                           .data = text,
                                           .bytes = strlen(text),
                                           .batch = 2,
                                           .sequence = sequence,
                                           .with_loss = true};
    cr_assert_eq(cleave_model_import_as(&request, &arena, &model, &error), CLEAVE_OK, "%s",
                 error.message);
    cr_expect_eq(cleave_model_parameter_count(&model), count, "%lld parameters, not %lld",
                 (long long)cleave_model_parameter_count(&model), count);
    cr_expect_lt(arena.used_bytes, (size_t)1 << 28);
    expect_no_scores();
    /* Norms read their weights, 1 + weight, too. */
    for (int32_t op = 0; op < model.n_operators; op++)
        cr_expect(strstr(model.operators[op].name, "norm.factor") == NULL, "%s is by itself",
                  model.operators[op].name);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

#define SIZES                                                                                      \
    "\"hidden_size\": 16, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "                  \
    "\"vocab_size\": 20, \"intermediate_size\": 24"
#define SIZES_OF_OPT                                                                               \
    "\"hidden_size\": 16, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"vocab_size\": "  \
    "20"
#define LLAMA "\"model_type\": \"llama\", " SIZES
#define GPT2                                                                                       \
    "\"model_type\": \"gpt2\", \"n_embd\": 16, \"n_head\": 4, \"n_layer\": 1, \"vocab_size\": 20"

static int count_type(const cleave_onnx_graph *graph, const char *type) {
    int n = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++)
        n += strcmp(graph->nodes[i].type, type) == 0;
    return n;
}

static cleave_onnx_graph graph_of(const char *text, int64_t sequence, bool trains) {
    cleave_onnx_graph graph = {0};
    cleave_error error = {""};
    cr_assert_eq(decode(text, sequence, trains, &graph, &error), CLEAVE_OK, "%s", error.message);
    return graph;
}

/* LLaVA 1.5 has of its texts what is not as of Llama's class: 6,738,415,616 parameters of Llama 7B,
   and 64 rows more of 4096 in each of two tables. */
Test(config, sizes_that_are_left_out_are_those_of_the_class) {
    static const char text[] =
        "{\"_name_or_path\": \"lmsys/vicuna-7b-v1.5\", \"architectures\": [\"LlamaForCausalLM\"], "
        "\"max_position_embeddings\": 4096, \"model_type\": \"llama\", \"rms_norm_eps\": 1e-05, "
        "\"torch_dtype\": \"float16\", \"vocab_size\": 32064}";
    const cleave_import_request request = {.file = "hand.json",
                                           .data = text,
                                           .bytes = strlen(text),
                                           .batch = 2,
                                           .sequence = 8,
                                           .with_loss = true};
    cleave_error error = {""};
    cr_assert_eq(cleave_model_import_as(&request, &arena, &model, &error), CLEAVE_OK, "%s",
                 error.message);
    cr_expect_eq(cleave_model_parameter_count(&model), INT64_C(6738415616) + 2 * 64 * 4096);
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
    graph_of("{" LLAMA ", \"is_decoder\": false, \"add_cross_attention\": false, "
             "\"cross_attention_hidden_size\": null, \"pruned_heads\": {}, "
             "\"tie_encoder_decoder\": false, \"is_encoder_decoder\": false}",
             8, true);
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
        cleave_error error = {""};
        cleave_model written;
        cleave_import_request request = {.file = names[i],
                                         .data = text,
                                         .bytes = strlen(text),
                                         .batch = 4,
                                         .sequence = sequence,
                                         .with_loss = true};
        cr_assert_eq(cleave_model_import_as(&request, &arena, &model, &error), CLEAVE_OK, "%s",
                     error.message);
        cleave_onnx_graph graph = graph_of(text, sequence, true);
        const char *data;
        cr_assert_eq(cleave_onnx_encode(&graph, &arena, &data, &request.bytes, &error), CLEAVE_OK);
        request.data = data;
        request.sequence = 0;
        cr_assert_eq(cleave_model_import_as(&request, &arena, &written, &error), CLEAVE_OK, "%s",
                     error.message);
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

/* ---- what is refused ------------------------------------------------------------------------- */

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
    {"{" LLAMA ", \"quantization_config\": {}}", "$.quantization_config", 8},
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

Test(config, what_is_not_understood_is_refused_by_name) {
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
Test(config, sizes_that_do_not_fit_are_refused) {
    static const char text[] =
        "{\"model_type\": \"llama\", \"hidden_size\": 16, \"num_hidden_layers\": 1, "
        "\"num_attention_heads\": 4, \"vocab_size\": 1048576, \"intermediate_size\": 24}";
    const cleave_import_request request = {.file = "large.json",
                                           .data = text,
                                           .bytes = strlen(text),
                                           .batch = INT64_C(1) << 31,
                                           .sequence = 1 << 14,
                                           .with_loss = true};
    cleave_error error = {""};
    cr_expect_eq(cleave_model_import_as(&request, &arena, &model, &error), CLEAVE_BAD_INPUT);
    cr_expect_neq(error.message[0], '\0');
}

Test(config, a_length_of_texts_goes_with_no_other_model) {
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
