/* Attention as one nest: what masks are seen to hide, when there is one nest and when five, and
   that nothing counts scores which nobody stores. */
#include "graph/model/attention.h"
#include "../../support/config_request.h"
#include "../../support/ok.h"
#include "graph/import/import.h"
#include "graph/lower/lower.h"
#include "graph/program/work.h"

#include <criterion/criterion.h>
#include <string.h>

enum { TOKENS = 256 };

static const char gpt[] = "{\"model_type\": \"gpt2\", \"vocab_size\": 11, \"n_positions\": 256,"
                          "\"n_embd\": 16, \"n_layer\": 2, \"n_head\": 4}";
static const char t5[] = "{\"model_type\": \"t5\", \"vocab_size\": 11, \"d_model\": 8, \"d_kv\": 4,"
                         "\"d_ff\": 8, \"num_layers\": 1, \"num_heads\": 2}";

static const char windowed[] =
    "{\"model_type\": \"mistral\", \"vocab_size\": 11, \"hidden_size\": 16,"
    "\"intermediate_size\": 16, \"num_hidden_layers\": 1, \"num_attention_heads\": 4,"
    "\"num_key_value_heads\": 2, \"sliding_window\": 100}";

static cleave_arena arena;

static cleave_model import_length(const char *config, int64_t length) {
    cleave_model model;
    const cleave_import_request request = config_request(config, 2, length);
    OK(cleave_model_import_as, &request, &arena, &model);
    return model;
}

static cleave_model import(const char *config) { return import_length(config, TOKENS); }

static cleave_model fuse(const cleave_model *model, const cleave_layout *layout) {
    cleave_model fused;
    OK(cleave_model_fuse_attention, model, layout, &arena, &fused);
    return fused;
}

/* The i-th nest of the kind, or null. */
static const cleave_nest *attention_of(const cleave_model *model, int i) {
    for (int32_t n = 0; n < model->n_nests; n++)
        if (model->nests[n].attention != NULL && i-- == 0)
            return &model->nests[n];
    return NULL;
}

static void free_arena(void) { cleave_arena_free(&arena); }

TestSuite(attention, .fini = free_arena);

/* 256 tokens are 4 x 4 blocks of 64: those above the diagonal are hidden, those below it are
   products over the root of the width, 4, and those on it are both. */
Test(attention, of_a_gpt_hides_what_comes_later) {
    cleave_model stored = import(gpt), fused = fuse(&stored, NULL);
    const cleave_nest *nest = attention_of(&fused, 1);
    cr_assert_not_null(nest);
    const cleave_attention *of = nest->attention;
    cr_assert_eq(of->n_row_grains, 4);
    cr_assert_eq(of->n_key_grains, 4);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            cr_expect_eq(of->seen[4 * i + j], j > i   ? CLEAVE_SEEN_HIDDEN
                                              : j < i ? CLEAVE_SEEN_PLAIN
                                                      : CLEAVE_SEEN_MIXED);
    cr_expect_float_eq(of->plain_scale, 0.5, 1e-12);
    cr_expect(of->seen == attention_of(&fused, 0)->attention->seen, "layers have one mask");
}

/* A query at i sees keys from i - 99 to i. */
Test(attention, with_a_window_hides_what_lies_before_it) {
    cleave_model stored = import(windowed), fused = fuse(&stored, NULL);
    const cleave_nest *nest = attention_of(&fused, 0);
    cr_assert_not_null(nest);
    for (int block = 0; block < 16; block++) {
        int n_seen = 0;
        for (int row = block / 4 * 64; row < block / 4 * 64 + 64; row++)
            for (int key = block % 4 * 64; key < block % 4 * 64 + 64; key++)
                n_seen += key <= row && key > row - 100;
        cr_expect_eq(nest->attention->seen[block], n_seen == 0         ? CLEAVE_SEEN_HIDDEN
                                                   : n_seen == 64 * 64 ? CLEAVE_SEEN_PLAIN
                                                                       : CLEAVE_SEEN_MIXED);
    }
    cr_expect(nest->attention->shows_all);
}

/* A mask of 131,072 x 131,072 would be 64 GiB. */
Test(attention, of_a_long_text_has_no_mask_in_memory) {
    cleave_model stored = import_length(windowed, 1 << 17), fused = fuse(&stored, NULL);
    const cleave_nest *nest = attention_of(&fused, 0);
    cr_assert_not_null(nest);
    cr_expect_eq(nest->n_inputs, 3);
    /* The last 64 queries see keys from 131,072 - 64 - 99 on: those of three blocks. */
    int64_t last = 2047 * 2048;
    for (int64_t j = 0; j < 2048; j++)
        cr_expect_eq(nest->attention->seen[last + j] == CLEAVE_SEEN_HIDDEN, j < 2045);
    cr_expect_lt(arena.used_bytes, (size_t)1 << 28);
}

/* Of 16 blocks 10 are seen; of the first row of them 1, of the last one 4.  So a part's work, and
   its name, depend on where it lies. */
Test(attention, takes_as_long_as_what_is_seen) {
    cleave_model stored = import(gpt), fused = fuse(&stored, NULL);
    const cleave_nest *nest = attention_of(&fused, 0);
    cleave_part whole = cleave_part_whole(nest, 0), first = whole, last = whole;
    int rows = nest->attention->rows;
    first.hi[rows] = 64;
    last.lo[rows] = 192;
    cleave_work of_whole, of_first, of_last;
    cleave_work_describe(&fused, nest, CLEAVE_PASS_FORWARD, &whole, &of_whole);
    cleave_work_describe(&fused, nest, CLEAVE_PASS_FORWARD, &first, &of_first);
    cleave_work_describe(&fused, nest, CLEAVE_PASS_FORWARD, &last, &of_last);
    /* 2 x (4 + 4) flops for each of 2 samples x 4 heads x 64 x 64 scores of a block */
    double block = 2.0 * 8 * 2 * 4 * 64 * 64;
    cr_expect_float_eq(of_whole.flops, 10 * block, 1);
    cr_expect_float_eq(of_first.flops, block, 1);
    cr_expect_float_eq(of_last.flops, 4 * block, 1);
    cr_expect_str_neq(of_first.key, of_last.key);
    cr_expect_eq(cleave_nest_padded_axes(&fused, nest) >> rows & 1, 1);
}

/* A bias that is trained is not known, but what is hidden stays hidden. */
Test(attention, with_a_bias_is_still_hidden_by_a_mask) {
    cleave_model stored = import(t5), fused = fuse(&stored, NULL);
    int n_hidden = 0, n_without = 0;
    for (int i = 0; attention_of(&fused, i) != NULL; i++) {
        const cleave_attention *of = attention_of(&fused, i)->attention;
        n_hidden += of->seen[1] == CLEAVE_SEEN_HIDDEN && of->seen[4] == CLEAVE_SEEN_MIXED;
        n_without += !cleave_attention_hides(of);
    }
    cr_expect_eq(n_hidden, 1);  /* of the decoder itself; */
    cr_expect_eq(n_without, 2); /* the encoder and what attends to it see all */
}

Test(attention, is_as_a_layout_has_it) {
    cleave_model stored = import(gpt);
    cleave_layout layout;
    OK(cleave_layout_create, &stored, 2, &arena, &layout);
    cleave_model fused = fuse(&stored, &layout);
    const cleave_nest *nest = attention_of(&fused, 0);
    cr_assert_not_null(nest);
    const cleave_operator *op = &fused.operators[nest->op];
    cr_expect_eq(op->n_nests, 1);
    cr_expect_str_eq(fused.hash, stored.hash);
    cr_expect_eq(fused.n_operators, stored.n_operators);
    cr_expect_eq(fused.n_tensors, stored.n_tensors);
    layout.stores_scores = true;
    fused = fuse(&stored, &layout);
    cr_expect_null(attention_of(&fused, 0));
}

static int64_t largest_buffer(const cleave_model *model, const cleave_layout *layout,
                              int64_t *peak) {
    cleave_program program;
    const cleave_lower_options options = {.training = true};
    OK(cleave_lower, model, layout, &options, &arena, &program);
    int64_t largest = 0;
    for (int32_t b = 0; b < program.n_buffers; b++)
        largest = program.buffers[b].bytes > largest ? program.buffers[b].bytes : largest;
    *peak = program.peak_bytes[0];
    return largest;
}

/* 2 samples x 4 heads x 256 x 256 scores are 2 MiB; 2 samples of 256 rows of a unit of 64, 128 KiB,
   are the largest thing that is left. */
Test(attention, leaves_no_buffer_for_scores) {
    cleave_model stored = import(gpt), fused = fuse(&stored, NULL);
    cleave_layout layout;
    int64_t with, without;
    OK(cleave_layout_create, &stored, 1, &arena, &layout);
    cr_expect_eq(largest_buffer(&stored, &layout, &with), 2 << 20);
    cr_expect_eq(largest_buffer(&fused, &layout, &without), 128 << 10);
    cr_expect_lt(without, with / 4);
}
