/* Megatron with sequence parallelism: what each operator splits, and the bytes that it sends. */
#include "graph/import/import.h"
#include "graph/lower/lower.h"
#include "search/problem/baselines.h"

#include "../../support/test_machine.h"

enum { N = 4, T = 8, WIDTH = 16, LAYERS = 2, VOCABULARY = 64, D = 2 };

static cleave_arena arena;
static cleave_model model;
static cleave_layout layout;

static void import_llama(void) {
    cleave_error error = {""};
    const char *text = cleave_arena_printf(
        &arena,
        "{\"model_type\": \"llama\", \"hidden_size\": %d, \"intermediate_size\": 32, "
        "\"num_hidden_layers\": %d, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
        "\"vocab_size\": %d, \"rms_norm_eps\": 1e-5, \"hidden_act\": \"silu\", "
        "\"max_position_embeddings\": 64, \"tie_word_embeddings\": false}",
        WIDTH, LAYERS, VOCABULARY);
    const cleave_import_request request = {.file = "llama/config.json",
                                           .data = text,
                                           .bytes = strlen(text),
                                           .batch = N,
                                           .sequence = T,
                                           .with_loss = true};
    cr_assert_eq(cleave_model_import_as(&request, &arena, &model, &error), CLEAVE_OK, "%s",
                 error.message);
}

static void set_up(void) {
    cleave_error error = {""};
    bool applies = false;
    import_llama();
    cleave_machine machine = make_machine(&arena, 1, D, "1 GiB");
    cr_assert_eq(
        cleave_baseline_layout(&model, &machine, "megatron", 0, &arena, &layout, &applies, &error),
        CLEAVE_OK, "%s", error.message);
    cr_assert(applies);
    cr_assert_eq(cleave_layout_check(&model, &layout, &error), CLEAVE_OK, "%s", error.message);
}
static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(megatron, .init = set_up, .fini = tear_down);

/* The axis that an operator splits over both devices. */
static const char *axis_of(const char *name) {
    int32_t op = cleave_model_find_operator(&model, name);
    cr_assert_geq(op, 0, "no operator %s", name);
    for (int a = 0; a < model.operators[op].n_axes; a++)
        if (layout.splits[op].degree[a] == D)
            return model.operators[op].axes[a].name;
    return "none";
}

Test(megatron, columns_then_rows_and_tokens_outside_of_them) {
    static const char *const expected[][2] = {{"model.embed_tokens", "v"},
                                              {"model.layers.1.input_layernorm", "t"},
                                              {"model.layers.1.self_attn.q_proj", "h"},
                                              {"model.layers.1.self_attn.v_proj", "k"},
                                              {"model.layers.1.self_attn", "h"},
                                              {"model.layers.1.self_attn.o_proj", "h"},
                                              {"model.layers.1.attended", "t"},
                                              {"model.layers.1.mlp.gate_proj", "k"},
                                              {"model.layers.1.mlp.down_proj", "c"},
                                              {"model.layers.1.output", "t"},
                                              {"model.norm", "t"},
                                              {"lm_head", "k"},
                                              {"@loss", "v"}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        cr_expect_str_eq(axis_of(expected[i][0]), expected[i][1], "%s splits %s", expected[i][0],
                         axis_of(expected[i][0]));
}

/* A layer gathers twice and scatters twice, forward and backward alike; so do the look-up, which
   scatters and then gathers, and the head, which gathers and then scatters.  Each sends what the
   other devices lack of the activations: (D - 1) N T WIDTH floats.  Besides come the sums of the
   norms' weights, there and back; of the loss three values a token, and its own sum. */
Test(megatron, sends_what_the_paper_says) {
    cleave_program program;
    cleave_error error = {""};
    const cleave_lower_options options = {.training = true};
    cr_assert_eq(cleave_lower(&model, &layout, &options, &arena, &program, &error), CLEAVE_OK, "%s",
                 error.message);
    int64_t activations = (8 * LAYERS + 4) * (D - 1) * N * T * WIDTH * 4;
    int64_t norms = (2 * LAYERS + 1) * 2 * (D - 1) * WIDTH * 4;
    int64_t loss = 3 * 2 * (D - 1) * N * T * 4 + 2 * (D - 1) * 4;
    cr_expect_eq(cleave_program_bytes_sent(&program), activations + norms + loss);
}
