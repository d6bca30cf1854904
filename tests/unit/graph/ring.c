/* Keys that go round: which part has which block when, how often a block is sent, and what can't go
   round. */
#include "graph/model/ring.h"
#include "../../support/config_request.h"
#include "../../support/ok.h"
#include "graph/import/import.h"
#include "graph/lower/lower.h"

#include <criterion/criterion.h>
#include <string.h>

enum { TOKENS = 256, N = 4, BATCH = 2 };

static const char gpt[] = "{\"model_type\": \"gpt2\", \"vocab_size\": 11, \"n_positions\": 256,"
                          "\"n_embd\": 16, \"n_layer\": 1, \"n_head\": 4}";
static const char bert[] = "{\"model_type\": \"bert\", \"vocab_size\": 11, \"hidden_size\": 16,"
                           "\"num_hidden_layers\": 1, \"num_attention_heads\": 4,"
                           "\"intermediate_size\": 16, \"max_position_embeddings\": 256,"
                           "\"type_vocab_size\": 2}";

static cleave_arena arena;

static cleave_model import(const char *config) {
    cleave_model model;
    const cleave_import_request request = config_request(config, BATCH, TOKENS);
    OK(cleave_model_import_as, &request, &arena, &model);
    return model;
}

static int32_t find_attention(const cleave_model *model) {
    int32_t op = 0;
    while (strcmp(model->operators[op].type, "Attention") != 0)
        op++;
    return op;
}

/* All on device 0, but attention, whose axes are n, h, q and k: its queries and keys are split so.
 */
static cleave_layout split(const cleave_model *model, int32_t queries, int32_t keys) {
    cleave_layout layout;
    int32_t op = find_attention(model), n = model->operators[op].n_axes,
            degree[CLEAVE_MAX_AXES] = {0}, devices[N * N];
    degree[n - 2] = queries;
    degree[n - 1] = keys;
    for (int32_t d = 0; d < N * N; d++)
        devices[d] = d;
    OK(cleave_layout_create, model, N * N, &arena, &layout);
    OK(cleave_layout_set, &layout, op, 1, degree, devices, &arena);
    layout.splits[op].ring = true;
    return layout;
}

static cleave_program lower(const cleave_model *model, const cleave_layout *layout,
                            cleave_model *turned) {
    cleave_program program;
    const cleave_lower_options options = {.training = true};
    OK(cleave_model_fuse_attention, model, layout, &arena, turned);
    OK(cleave_lower, turned, layout, &options, &arena, &program);
    OK(cleave_program_check, &program);
    return program;
}

/* Messages of an attention's keys and values in the communication lane, each of one block: of all
   samples and heads 64 tokens x 4, f32. */
static int32_t count_hops(const cleave_program *program, const cleave_nest *lead) {
    int32_t n = 0;
    for (int32_t m = 0; m < program->n_messages; m++) {
        const cleave_message *message = &program->messages[m];
        if (message->lane != CLEAVE_LANE_COMMUNICATION ||
            (message->tensor != lead->inputs[1].tensor &&
             message->tensor != lead->inputs[2].tensor))
            continue;
        cr_expect_eq(message->bytes, BATCH * 4 * 64 * 4 * 4);
        cr_expect_eq(message->destination, (message->source + 1) % N, "they go to the next part");
        n++;
    }
    return n;
}

static void free_arena(void) { cleave_arena_free(&arena); }

TestSuite(ring, .fini = free_arena);

/* Block b is seen by parts b to 3: in turn j parts j to 3 have a block, part i that of i - j. */
Test(ring, of_a_causal_mask_ends_with_the_last_part) {
    cleave_model model = import(gpt), turned;
    cleave_layout layout = split(&model, N, 1);
    cleave_program program = lower(&model, &layout, &turned);
    const cleave_operator *op = &turned.operators[find_attention(&turned)];
    cr_assert_eq(op->n_nests, N);
    for (int32_t j = 0; j < N; j++) {
        const cleave_nest *nest = &turned.nests[op->nests[j]];
        int rows = nest->attention->rows, keys = nest->attention->keys;
        cr_expect_eq(nest->turn, j);
        for (int32_t i = 0; i < N; i++) {
            const cleave_part *part = &program.parts[op->nests[j]].items[i];
            cr_expect_eq(part->empty, i < j, "part %d, turn %d", i, j);
            cr_expect_eq(part->lo[rows], 64 * i);
            cr_expect(i < j ||
                          (part->lo[keys] == 64 * (i - j) && part->hi[keys] == 64 * (i - j + 1)),
                      "part %d, turn %d", i, j);
        }
    }
    /* 3 + 2 + 1 hops, of keys and of values: forward, backward, and of gradients. */
    cr_expect_eq(count_hops(&program, &turned.nests[op->main_nest]), 6 * 2 * 3);
}

Test(ring, of_all_keys_goes_round_once) {
    cleave_model model = import(bert), turned;
    cleave_layout layout = split(&model, N, 1);
    cleave_program program = lower(&model, &layout, &turned);
    const cleave_operator *op = &turned.operators[find_attention(&turned)];
    cr_expect_eq(count_hops(&program, &turned.nests[op->main_nest]), N * (N - 1) * 2 * 3);
}

static void expect_refused(const cleave_model *model, const cleave_layout *layout,
                           const char *what) {
    cleave_model turned;
    cleave_error error = {""};
    cr_expect_eq(cleave_model_fuse_attention(model, layout, &arena, &turned, &error),
                 CLEAVE_BAD_INPUT, "%s", what);
    cr_expect(strstr(error.message, "\"ring\"") != NULL, "%s: %s", what, error.message);
}

Test(ring, of_split_keys_or_whole_queries_is_refused) {
    cleave_model model = import(gpt);
    cleave_layout layout = split(&model, N, N);
    expect_refused(&model, &layout, "split keys");
    layout = split(&model, 1, 1);
    expect_refused(&model, &layout, "whole queries");
    layout = split(&model, N, 1);
    layout.stores_scores = true;
    expect_refused(&model, &layout, "stored scores");
    layout.stores_scores = false;
    layout.splits[0].ring = true;
    expect_refused(&model, &layout, "a look-up");
}

/* A layout whose keys go round, and a model whose do not, make no program. */
Test(ring, needs_a_model_with_turns) {
    cleave_model model = import(gpt), fused;
    cleave_layout layout = split(&model, N, 1);
    cleave_program program;
    cleave_error error = {""};
    const cleave_lower_options options = {.training = true};
    OK(cleave_model_fuse_attention, &model, NULL, &arena, &fused);
    cr_expect_eq(cleave_lower(&fused, &layout, &options, &arena, &program, &error), CLEAVE_FAILED);
}
