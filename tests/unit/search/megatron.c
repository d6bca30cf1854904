/* Megatron's rule: what each operator splits, and the bytes that it sends; with sequence
   parallelism, without it, over contexts, and over experts. */
#include "../../support/config_request.h"
#include "../../support/ok.h"
#include "graph/import/import.h"
#include "graph/lower/lower.h"
#include "graph/model/fold.h"
#include "graph/program/traffic.h"
#include "search/problem/baselines.h"

#include "../../support/test_machine.h"

enum { N = 4, T = 8, WIDTH = 16, LAYERS = 2, VOCABULARY = 64, D = 2 };

static cleave_arena arena;
static cleave_model model;
static cleave_layout layout;

#define SIZES_OF_NORMS                                                                             \
    "\"hidden_size\": 16, \"intermediate_size\": 32, \"num_hidden_layers\": 2, "                   \
    "\"num_attention_heads\": 4, \"vocab_size\": 64}"
#define SIZES_OF(KV_HEADS)                                                                         \
    "\"hidden_size\": 16, \"intermediate_size\": 32, \"num_hidden_layers\": 2, "                   \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": " KV_HEADS ", \"vocab_size\": 64, "      \
    "\"rms_norm_eps\": 1e-5, \"hidden_act\": \"silu\", \"max_position_embeddings\": 64, "          \
    "\"tie_word_embeddings\": false}"
#define SIZES SIZES_OF("2")

static void import(const char *text) {
    const cleave_import_request request = config_request(text, N, T);
    OK(cleave_model_import_as, &request, &arena, &model);
}
static void import_llama(void) { import("{\"model_type\": \"llama\", " SIZES); }

/* In one stage, on D devices or on `devices`. */
static cleave_status make(cleave_baseline_shape shape, int32_t devices, bool *applies,
                          cleave_error *error) {
    const cleave_schedule plain = {.micro_batches = 1, .n_stages = 1};
    cleave_machine machine = make_machine(&arena, devices / 2, 2, "1 GiB");
    shape.schedule = &plain;
    shape.n_groups = 1;
    CLEAVE_TRY(cleave_baseline_in_stages(&model, &machine, "megatron", &shape, &arena, &layout,
                                         applies, error));
    return cleave_layout_check(&model, &layout, error);
}

static void expect_made(cleave_baseline_shape shape, int32_t devices) {
    bool applies = false;
    OK(make, shape, devices, &applies);
    cr_assert(applies);
}

static void set_up(void) {
    import_llama();
    expect_made((cleave_baseline_shape){.tensor = D}, D);
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

static void expect_axes(int n, const char *const expected[][2]) {
    for (int i = 0; i < n; i++)
        cr_expect_str_eq(axis_of(expected[i][0]), expected[i][1], "%s splits %s", expected[i][0],
                         axis_of(expected[i][0]));
}
#define EXPECT_AXES(expected) expect_axes((int)(sizeof expected / sizeof *expected), expected)

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
    EXPECT_AXES(expected);
}

static int64_t bytes_sent(void) {
    cleave_program program;
    const cleave_lower_options options = {.training = true};
    OK(cleave_lower, &model, &layout, &options, &arena, &program);
    return cleave_program_bytes_sent(&program, NULL);
}

/* A layer gathers twice and scatters twice, forward and backward alike; so do the look-up, which
   scatters and then gathers, and the head, which gathers and then scatters.  Each sends what the
   other devices lack of the activations: (D - 1) N T WIDTH floats.  Besides come the sums of the
   norms' weights, there and back; of the loss three values a token, and its own sum. */
Test(megatron, sends_what_the_paper_says) {
    int64_t activations = (8 * LAYERS + 4) * (D - 1) * N * T * WIDTH * 4;
    int64_t norms = (2 * LAYERS + 1) * 2 * (D - 1) * WIDTH * 4;
    int64_t loss = 3 * 2 * (D - 1) * N * T * 4 + 2 * (D - 1) * 4;
    cr_expect_eq(bytes_sent(), activations + norms + loss);
}

/* One weight of queries, keys and values, and one of both sides of the unit: a split by columns
   leaves each device some heads of all three, and the same part of both sides. */
Test(megatron, weights_side_by_side_send_what_weights_apart_send) {
    import("{\"model_type\": \"llama\", " SIZES_OF("4"));
    expect_made((cleave_baseline_shape){.tensor = D}, D);
    int64_t apart = bytes_sent();
    import("{\"model_type\": \"phi3\", \"pad_token_id\": null, " SIZES_OF("4"));
    expect_made((cleave_baseline_shape){.tensor = D}, D);
    cr_expect_str_eq(axis_of("model.layers.1.mlp.gate_up_proj"), "f");
    cr_expect_str_eq(axis_of("model.layers.1.self_attn.qkv_proj"), "h");
    cr_expect_eq(bytes_sent(), apart);
}

/* In memory from the first step on. */
static int64_t bytes_of_parameters(void) {
    cleave_program program;
    const cleave_lower_options options = {.training = true};
    int64_t bytes = 0;
    OK(cleave_lower, &model, &layout, &options, &arena, &program);
    for (int32_t b = 0; b < program.n_buffers; b++)
        if (program.buffers[b].kind == CLEAVE_BUFFER_PARAMETER)
            bytes += program.buffers[b].bytes;
    return bytes;
}

Test(megatron, weights_side_by_side_take_what_weights_apart_take) {
    import("{\"model_type\": \"llama\", " SIZES_OF("4"));
    expect_made((cleave_baseline_shape){.tensor = D}, D);
    int64_t apart = bytes_of_parameters();
    import("{\"model_type\": \"phi3\", \"pad_token_id\": null, " SIZES_OF("4"));
    expect_made((cleave_baseline_shape){.tensor = D}, D);
    cr_expect_eq(bytes_of_parameters(), apart);
}

/* The same by kind: as many gathers as scatters of activations, each of a whole one, that every
   device lacks all but a D-th of; all-reduces of the norms, and of a token's maximum, sum and
   target. */
Test(megatron, sends_what_the_paper_says_by_kind) {
    cleave_program program;
    cleave_sent *sent;
    int32_t n, n_kinds[CLEAVE_ALL_TO_ALL + 1] = {0};
    const cleave_lower_options options = {.training = true, .symbolic_collectives = true};
    import("{\"model_type\": \"llama\", " SIZES_OF("4"));
    expect_made((cleave_baseline_shape){.tensor = 4}, 4);
    OK(cleave_lower, &model, &layout, &options, &arena, &program);
    OK(cleave_program_sent_by_kind, &program, NULL, &arena, &sent, &n);
    int64_t times = 4 * LAYERS + 2 + 2,
            bytes = (4 * LAYERS + 2) * N * T * WIDTH * 4 + 2 * N * T * 4;
    for (int32_t i = 0; i < n; i++) {
        n_kinds[sent[i].kind] += !sent[i].messages;
        if (sent[i].messages || sent[i].kind == CLEAVE_ALL_REDUCE)
            continue;
        cr_expect_eq(sent[i].n_devices, 4);
        cr_expect_eq(sent[i].times, times, "%lld", (long long)sent[i].times);
        cr_expect_eq(sent[i].bytes, bytes, "%lld", (long long)sent[i].bytes);
        cr_expect_eq(sent[i].bytes_sent, 3 * bytes, "%lld", (long long)sent[i].bytes_sent);
    }
    cr_expect_eq(n_kinds[CLEAVE_ALL_GATHER], 1);
    cr_expect_eq(n_kinds[CLEAVE_REDUCE_SCATTER], 1);
    cr_expect_eq(n_kinds[CLEAVE_ALL_TO_ALL], 0);
}

Test(megatron, without_sequence_parallelism_all_do_the_same_outside) {
    static const char *const expected[][2] = {{"model.embed_tokens", "v"},
                                              {"model.layers.1.input_layernorm", "none"},
                                              {"model.layers.1.self_attn.q_proj", "h"},
                                              {"model.layers.1.self_attn.o_proj", "h"},
                                              {"model.layers.1.attended", "none"},
                                              {"model.norm", "none"},
                                              {"@loss", "v"}};
    expect_made((cleave_baseline_shape){.tensor = D, .whole_tokens = true}, D);
    EXPECT_AXES(expected);
}

/* Sums are added up and go to all, which is as much as a scatter and a gather; norms have nothing
   to add up. */
Test(megatron, without_sequence_parallelism_sends_as_much_but_for_norms) {
    expect_made((cleave_baseline_shape){.tensor = D, .whole_tokens = true}, D);
    int64_t activations = (8 * LAYERS + 4) * (D - 1) * N * T * WIDTH * 4;
    int64_t loss = 3 * 2 * (D - 1) * N * T * 4 + 2 * (D - 1) * 4;
    cr_expect_eq(bytes_sent(), activations + loss, "%lld", (long long)bytes_sent());
}

/* Without sequence parallelism both devices of a stage have what the other stage's need, forward
   activations and backward all parts of their gradients: each sends to its like alone. */
Test(megatron, replicas_of_two_stages_send_pair_by_pair) {
    bool applies = false;
    int32_t first[] = {0, cleave_model_find_operator(&model, "model.layers.1.input_layernorm")};
    const cleave_schedule schedule = {
        .micro_batches = 2, .n_stages = 2, .kind = CLEAVE_SCHEDULE_1F1B, .first_operator = first};
    const cleave_baseline_shape shape = {
        .schedule = &schedule, .n_groups = 2, .tensor = 2, .whole_tokens = true};
    cleave_machine machine = make_machine(&arena, 2, 2, "1 GiB");
    cleave_program program;
    OK(cleave_baseline_in_stages, &model, &machine, "megatron", &shape, &arena, &layout, &applies);
    const cleave_lower_options options = {.training = true};
    OK(cleave_lower, &model, &layout, &options, &arena, &program);
    int32_t n_between = 0;
    for (int32_t m = 0; m < program.n_messages; m++) {
        int32_t from = program.messages[m].source, to = program.messages[m].destination;
        n_between += from / 2 != to / 2;
        cr_expect(from / 2 == to / 2 || from % 2 == to % 2, "%d to %d", from, to);
    }
    cr_expect_eq(n_between, 8, "%d", n_between); /* 2 micro-batches, 2 devices, there and back */
}

Test(megatron, contexts_split_tokens_and_the_heads_of_attention) {
    static const char *const expected[][2] = {{"model.embed_tokens", "t"},
                                              {"model.layers.1.input_layernorm", "t"},
                                              {"model.layers.1.self_attn.q_proj", "m"},
                                              {"model.layers.1.self_attn.v_proj", "m"},
                                              {"model.layers.1.self_attn", "h"},
                                              {"model.layers.1.self_attn.o_proj", "m"},
                                              {"model.layers.1.attended", "t"},
                                              {"model.layers.1.mlp.down_proj", "m"},
                                              {"lm_head", "m"},
                                              {"@loss", "t"}};
    expect_made((cleave_baseline_shape){.tensor = 1, .context = D}, D);
    EXPECT_AXES(expected);
}

/* Forward half of all queries and outputs (WIDTH each), keys and values (WIDTH / 2 each) is not
   where it is needed, and backward half of their gradients; besides come gradients of parameters,
   there and back, and the loss. */
Test(megatron, contexts_send_half_of_what_attention_reads_and_writes) {
    expect_made((cleave_baseline_shape){.tensor = 1, .context = D}, D);
    int64_t attention = 2 * LAYERS * N * T * (3 * WIDTH) / 2 * 4, parameters = 0;
    for (int32_t t = 0; t < model.n_tensors; t++)
        if (model.tensors[t].kind == CLEAVE_TENSOR_PARAMETER)
            parameters += cleave_tensor_size(&model.tensors[t]);
    cr_expect_eq(bytes_sent(), attention + 2 * (D - 1) * parameters * 4 + 2 * (D - 1) * 4);
}

/* Tensor outside, context inside: the second device of the first head's group is device 2. */
Test(megatron, heads_of_contexts_lie_within_those_of_products) {
    import("{\"model_type\": \"llama\", \"head_dim\": 4, \"num_key_value_heads\": 4, "
           "\"hidden_size\": 16, \"intermediate_size\": 32, \"num_hidden_layers\": 1, "
           "\"num_attention_heads\": 4, \"vocab_size\": 64, \"max_position_embeddings\": 64}");
    expect_made((cleave_baseline_shape){.tensor = 2, .context = 2}, 4);
    const cleave_split *heads =
        &layout.splits[cleave_model_find_operator(&model, "model.layers.0.self_attn")];
    const cleave_split *tokens =
        &layout.splits[cleave_model_find_operator(&model, "model.layers.0.attended")];
    static const int32_t of_heads[] = {0, 2, 1, 3}, of_tokens[] = {0, 1, 2, 3};
    cr_assert_eq(heads->n_parts, 4);
    cr_assert_eq(tokens->n_parts, 4);
    cr_expect_arr_eq(heads->devices, of_heads, sizeof of_heads);
    cr_expect_arr_eq(tokens->devices, of_tokens, sizeof of_tokens);
}

/* Two heads of keys for 4 devices: two share a head, each for half of its queries, and what makes
   keys is split by tokens. */
Test(megatron, heads_of_keys_that_are_fewer_than_devices_are_shared) {
    static const char *const by_tokens[] = {"model.layers.1.self_attn.k_proj",
                                            "model.layers.1.input_layernorm"};
    cleave_fold fold;
    expect_made((cleave_baseline_shape){.tensor = 4}, 8);
    int32_t attention = cleave_model_find_operator(&model, "model.layers.1.self_attn");
    for (int a = 0; a < model.operators[attention].n_axes; a++) {
        const char *name = model.operators[attention].axes[a].name;
        bool is_shared = strcmp(name, "n") == 0 || strcmp(name, "h") == 0 || strcmp(name, "g") == 0;
        cr_expect_eq(layout.splits[attention].degree[a], is_shared ? 2 : 1, "%s", name);
    }
    for (int i = 0; i < 2; i++) {
        int32_t op = cleave_model_find_operator(&model, by_tokens[i]);
        cr_expect_eq(layout.splits[op].degree[1], 4, "%s", by_tokens[i]);
    }
    OK(cleave_fold_find, &model, &layout, 4, &arena, &fold);
}

Test(megatron, what_is_made_of_weights_alone_has_no_samples) {
    import("{\"model_type\": \"apertus\", "
           "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, "
           "\"high_freq_factor\": 4, \"original_max_position_embeddings\": 64}, " SIZES_OF_NORMS);
    int32_t op = cleave_model_find_operator(&model, "model.layers.1.mlp.act_fn.alpha");
    cr_assert_geq(op, 0);
    cr_expect_str_eq(model.operators[op].roles[0], "parameter");
    op = cleave_model_find_operator(&model, "model.layers.1.mlp.act_fn");
    cr_expect_str_eq(model.operators[op].roles[0], "sample");
}

#define MIXTRAL                                                                                    \
    "{\"model_type\": \"mixtral\", \"num_local_experts\": 4, \"num_experts_per_tok\": 2, "         \
    "\"expert_capacity\": 4, " SIZES

Test(megatron, experts_are_shared_by_devices_that_have_samples_of_their_own) {
    static const char *const expected[][2] = {{"model.layers.1.self_attn", "n"},
                                              {"model.layers.1.mlp.gate", "b0"},
                                              {"model.layers.1.mlp.dispatch", "n"},
                                              {"model.layers.1.mlp.experts.gate", "e"},
                                              {"model.layers.1.mlp.experts.down", "e"},
                                              {"model.layers.1.mlp.collect", "n"},
                                              {"@loss", "n"}};
    import(MIXTRAL);
    expect_made((cleave_baseline_shape){.tensor = 1, .expert = D}, D);
    EXPECT_AXES(expected);
}

Test(megatron, what_has_no_experts_or_too_few_heads_is_none_of_it) {
    cleave_error error = {""};
    bool applies = true;
    cr_expect_eq(make((cleave_baseline_shape){.tensor = 1, .expert = D}, D, &applies, &error),
                 CLEAVE_OK);
    cr_expect_not(applies, "a Llama has no experts");
    applies = true;
    cr_expect_eq(make((cleave_baseline_shape){.tensor = 1, .context = 8}, 8, &applies, &error),
                 CLEAVE_OK);
    cr_expect_not(applies, "8 devices can't share 4 heads");
    cr_expect_eq(make((cleave_baseline_shape){.tensor = 1, .context = 3}, 4, &applies, &error),
                 CLEAVE_BAD_INPUT);
    cr_expect_str_eq(error.message,
                     "4 devices of a stage can't be cut into groups of tensor 1 x context 3");
}
