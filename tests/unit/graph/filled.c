/* Rows of experts' tables that are filled in the mean, and the work that is left. */
#include "graph/model/filled.h"

#include "graph/program/work.h"
#include "imported.h"

TestSuite(filled, .fini = tear_down);

/* 8 tokens choose 2 of 4 experts: an even choice fills 4 rows of each. */
static void import_with(const char *capacity) {
    char text[512];
    snprintf(text, sizeof text,
             "{\"model_type\": \"mixtral\", \"hidden_size\": 16, \"num_hidden_layers\": 1, "
             "\"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"vocab_size\": 20, "
             "\"intermediate_size\": 24, \"num_local_experts\": 4, \"num_experts_per_tok\": 2, "
             "%s}",
             capacity);
    import_config(text, 2, 8);
}

static void import_experts(int capacity) {
    char field[64];
    snprintf(field, sizeof field, "\"expert_capacity\": %d", capacity);
    import_with(field);
}

static const cleave_nest *main_nest(const char *name) {
    int32_t op = cleave_model_find_operator(&model, name);
    cr_assert_geq(op, 0, "%s", name);
    return &model.nests[model.operators[op].main_nest];
}

static const char *const products[] = {"model.layers.0.mlp.experts.gate",
                                       "model.layers.0.mlp.experts.up",
                                       "model.layers.0.mlp.experts.down"};

/* 2 texts x 4 experts x 8 rows x 16 x 24 multiply-adds, of which half. */
Test(filled, experts_with_room_for_all_are_priced_by_the_tokens_that_choose_them) {
    import_experts(0);
    for (int i = 0; i < 3; i++) {
        const cleave_nest *nest = main_nest(products[i]);
        int c = cleave_nest_filled_axis(&model, nest);
        cr_assert_geq(c, 0, "%s", products[i]);
        cr_expect_str_eq(nest->axes[c].name, "c");
        cleave_part part = cleave_part_whole(nest, 0);
        cleave_work work;
        for (int pass = CLEAVE_PASS_FORWARD; pass <= CLEAVE_PASS_WEIGHT_GRADIENT; pass++) {
            cleave_work_describe(&model, nest, (cleave_pass)pass, &part, &work);
            cr_expect_float_eq(work.flops, 2.0 * 2 * 4 * 8 * 16 * 24 / 2, 1e-9);
            cr_expect_not_null(strstr(work.key, "filled=0.5000"), "%s", work.key);
        }
    }
    const cleave_nest *dense = main_nest("model.layers.0.self_attn.q_proj");
    cleave_part part = cleave_part_whole(dense, 0);
    cr_expect_eq(cleave_nest_filled_axis(&model, dense), -1);
    cr_expect_float_eq(cleave_filled_share(&model, dense, &part), 1, 1e-12);
}

/* One kernel for all experts, whose rows of the left factor each have a weight of their own; one
   expert alone is a product as any other. */
Test(filled, products_of_several_experts_are_grouped) {
    import_experts(0);
    for (int i = 0; i < 3; i++) {
        const cleave_nest *nest = main_nest(products[i]);
        cleave_part part = cleave_part_whole(nest, 0);
        cleave_work work;
        cleave_work_measure(&model, nest, CLEAVE_PASS_WEIGHT_GRADIENT, &part, &work);
        cr_expect_eq(work.sort, CLEAVE_WORK_GROUPED_PRODUCT);
        cr_expect_gt(work.smallest, 0);
        for (int a = 0; a < nest->n_axes; a++)
            if (strcmp(nest->axes[a].name, "e") == 0)
                part.hi[a] = 1;
        cleave_work_measure(&model, nest, CLEAVE_PASS_WEIGHT_GRADIENT, &part, &work);
        cr_expect_eq(work.sort, CLEAVE_WORK_PRODUCT);
    }
    const cleave_nest *dense = main_nest("model.layers.0.self_attn.q_proj");
    cleave_part part = cleave_part_whole(dense, 0);
    cleave_work work;
    cleave_work_measure(&model, dense, CLEAVE_PASS_FORWARD, &part, &work);
    cr_expect_eq(work.sort, CLEAVE_WORK_PRODUCT);
}

/* A bias is no row: what it is added to stays zero where nobody has a row, or the products behind
   it would be of whole tables. */
Test(filled, biases_of_experts_leave_empty_rows_empty) {
    import_config(
        "{\"model_type\": \"gpt_oss\", \"hidden_size\": 16, \"num_hidden_layers\": 1, "
        "\"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"vocab_size\": 20, "
        "\"intermediate_size\": 24, \"num_local_experts\": 4, \"num_experts_per_tok\": 2, "
        "\"rope_parameters\": {\"rope_type\": \"default\"}}",
        2, 8);
    for (int i = 0; i < 3; i++) {
        const cleave_nest *nest = main_nest(products[i]);
        cleave_part part = cleave_part_whole(nest, 0);
        cr_expect_float_eq(cleave_filled_share(&model, nest, &part), 0.5, 1e-12, "%s", products[i]);
    }
}

/* In rows of an even choice, rounded up: 1.4 times 4 is 6 rows, and never more than all tokens. */
Test(filled, a_capacity_factor_is_that_capacity) {
    char hash[sizeof model.hash];
    import_experts(6);
    snprintf(hash, sizeof hash, "%s", model.hash);
    cr_expect_float_eq(cleave_model_most_room(&model), 1.5, 1e-12);
    import_with("\"capacity_factor\": 1.4");
    cr_expect_str_eq(model.hash, hash);
    import_experts(0);
    snprintf(hash, sizeof hash, "%s", model.hash);
    cr_expect_float_eq(cleave_model_most_room(&model), 2, 1e-12);
    import_with("\"capacity_factor\": 100");
    cr_expect_str_eq(model.hash, hash);
}

/* The first rows are filled, so parts that have them do all of the work. */
Test(filled, it_matters_where_a_part_lies_along_the_rows) {
    import_experts(0);
    const cleave_nest *nest = main_nest(products[0]);
    int c = cleave_nest_filled_axis(&model, nest);
    static const struct {
        int64_t lo, hi;
        double share;
    } cuts[] = {{0, 4, 1}, {4, 8, 0}, {2, 6, 0.5}, {0, 8, 0.5}};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        cleave_part part = cleave_part_whole(nest, 0);
        part.lo[c] = cuts[i].lo;
        part.hi[c] = cuts[i].hi;
        cr_expect_float_eq(cleave_filled_share(&model, nest, &part), cuts[i].share, 1e-12);
    }
    cr_expect((cleave_nest_padded_axes(&model, nest) >> c & 1) != 0);
}

Test(filled, a_capacity_below_an_even_choice_is_full) {
    import_experts(3);
    const cleave_nest *nest = main_nest(products[0]);
    cleave_part part = cleave_part_whole(nest, 0);
    cr_expect_float_eq(cleave_filled_share(&model, nest, &part), 1, 1e-12);
}
