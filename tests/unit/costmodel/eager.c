/* What a framework without a compiler runs as several kernels: a norm by the mean square of N x T
   rows of WIDTH numbers in bf16. */
#include "costmodel/cost.h"
#include "graph/import/import.h"

#include "../../support/test_machine.h"

enum { N = 2, T = 8, WIDTH = 16, ROWS = N * T, E = ROWS * WIDTH };

static cleave_arena arena;
static cleave_model model;

static void set_up(void) {
    cleave_error error = {""};
    static const char text[] =
        "{\"model_type\": \"llama\", \"hidden_size\": 16, \"intermediate_size\": 32, "
        "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"vocab_size\": 64, "
        "\"max_position_embeddings\": 64}";
    const cleave_import_request request = {.file = "llama/config.json",
                                           .data = text,
                                           .bytes = sizeof text - 1,
                                           .batch = N,
                                           .sequence = T,
                                           .precision = "bf16",
                                           .with_loss = true};
    cr_assert_eq(cleave_model_import_as(&request, &arena, &model, &error), CLEAVE_OK, "%s",
                 error.message);
}
static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(eager, .init = set_up, .fini = tear_down);

static cleave_work work_of(const char *operator, int nest, cleave_pass pass) {
    cleave_work work;
    const cleave_operator *op = &model.operators[cleave_model_find_operator(&model, operator)];
    const cleave_nest *of = &model.nests[op->nests[nest]];
    const cleave_part whole = cleave_part_whole(of, 0);
    cleave_work_describe(&model, of, pass, &whole, &work);
    return work;
}

/* To f32: 2 read, 4 written; x times x: 4 read once, 4 written; their sum: 4 read, 4 a row. */
Test(eager, mean_squares_are_a_conversion_a_product_and_a_sum) {
    cleave_work work = work_of("model.norm", 0, CLEAVE_PASS_FORWARD);
    cr_expect_eq(work.eager.n, 3);
    cr_expect_float_eq(work.eager.bytes, 18.0 * E + 4 * ROWS, 0.5);
}

/* The mean and its root: 8 a row each; x times it: 8 and 4 a row; times the weight: 8 and the
   weight; back to bf16: 6.  What came before has converted x. */
Test(eager, what_is_normal_is_five_kernels_and_backward_twice_as_many) {
    cleave_work work = work_of("model.norm", 1, CLEAVE_PASS_FORWARD);
    cr_expect_eq(work.eager.n, 5);
    cr_expect_float_eq(work.eager.bytes, 22.0 * E + 20 * ROWS + 4 * WIDTH, 0.5);
    cleave_work backward = work_of("model.norm", 1, CLEAVE_PASS_INPUT_GRADIENT);
    cr_expect_eq(backward.eager.n, 10);
    cr_expect_float_eq(backward.eager.bytes, 2 * work.eager.bytes, 0.5);
}

Test(eager, what_frameworks_have_a_kernel_for_is_one) {
    static const char *const operators[] = {"model.layers.0.attended", "lm_head"};
    for (int i = 0; i < 2; i++) {
        cleave_work work = work_of(operators[i], 0, CLEAVE_PASS_FORWARD);
        cr_expect_eq(work.eager.n, 1);
        cr_expect_float_eq(work.eager.bytes, work.bytes, 0.5);
    }
}

/* 5 launches of 1 ms, and bytes at 1 GB/s; flops take no time. */
Test(eager, data_sheets_price_each_kernel_and_measured_ones_are_as_they_are) {
    cleave_work work = work_of("model.norm", 1, CLEAVE_PASS_FORWARD);
    cleave_provenance provenance;
    cleave_device_kind kind = {.name = "some",
                               .flops_per_second = 1e30,
                               .bytes_per_second = 1e9,
                               .launch_seconds = 1e-3,
                               .is_eager = true};
    cr_expect_float_eq(cleave_cost_compute(&kind, &work, &provenance),
                       5e-3 + work.eager.bytes * 1e-9, 1e-12);
    kind.is_eager = false; /* what adds up squares has launched it */
    cr_expect_float_eq(cleave_cost_compute(&kind, &work, &provenance), work.compiled.bytes * 1e-9,
                       1e-12);
    cleave_kernel_time measured = {.key = work.key, .seconds = 2e-3};
    kind.kernels = &measured;
    kind.n_kernels = 1;
    kind.is_eager = true;
    cr_expect_float_eq(cleave_cost_compute(&kind, &work, &provenance), 2e-3, 1e-12);
    cleave_work other = work_of("model.norm", 0, CLEAVE_PASS_FORWARD);
    cr_expect_float_eq(cleave_cost_compute(&kind, &other, &provenance),
                       3e-3 + other.eager.bytes * 1e-9, 1e-12);
    kind.is_eager = false; /* where kernels are ours all are nests of their own */
    cr_expect_float_eq(cleave_cost_compute(&kind, &other, &provenance), 1e-3 + other.bytes * 1e-9,
                       1e-12);
}

/* ---- adding gradients ------------------------------------------------------------------------ */

static cleave_additions additions_of(const char *operator, int nest) {
    const cleave_operator *op = &model.operators[cleave_model_find_operator(&model, operator)];
    const cleave_nest *of = &model.nests[op->nests[nest]];
    const cleave_part whole = cleave_part_whole(of, 0);
    return cleave_additions_of(&model, of, CLEAVE_PASS_INPUT_GRADIENT, &whole, 0);
}

/* A norm and its statistics are one kernel, which writes one gradient; where they are spelled out
   each has one of its own. */
Test(eager, what_one_kernel_gives_for_a_tensor_it_adds_on_the_chip) {
    cleave_additions scales = additions_of("model.norm", 1), counts = additions_of("model.norm", 0);
    cr_expect(scales.compiled && scales.eager);
    cr_expect(!counts.compiled && counts.eager);
}

static int64_t price_of_addition(const cleave_machine *machine, cleave_additions of) {
    cleave_copy copy = {.n_copies = 1, .added_bytes = 1000000, .additions = of};
    cleave_item item = {.kind = CLEAVE_ITEM_COPY};
    const cleave_program program = {.model = &model,
                                    .n_devices = 1,
                                    .n_items = 1,
                                    .items = &item,
                                    .n_copies = 1,
                                    .copies = &copy};
    cleave_cost_cache *cache;
    int64_t duration;
    cr_assert_eq(cleave_cost_cache_create(&model, machine, &cache, NULL), CLEAVE_OK);
    cr_assert_eq(cleave_cost_items(&program, cache, &duration, NULL), CLEAVE_OK);
    cleave_cost_cache_destroy(cache);
    return duration;
}

/* 1 MB at 50 GB/s: read once more by who reads the sum, 20 us; or launched, 1 us, two read and one
   written, 60 us; our own kernels add as they write. */
Test(eager, a_gradient_is_added_by_a_kernel_or_on_the_way) {
    cleave_machine machine = make_machine(&arena, 1, 1, "1 GiB");
    const cleave_additions both = {true, true}, spelled_out = {false, true};
    cr_expect_eq(price_of_addition(&machine, both), 20000000);
    cr_expect_eq(price_of_addition(&machine, spelled_out), 0);
    machine.kinds[0].is_eager = true;
    cr_expect_eq(price_of_addition(&machine, both), 61000000);
    cr_expect_eq(price_of_addition(&machine, spelled_out), 61000000);
    cleave_kernel_time measured = {.key = "some", .seconds = 2e-3};
    machine.kinds[0].kernels = &measured;
    machine.kinds[0].n_kernels = 1;
    machine.kinds[0].is_eager = false;
    cr_expect_eq(price_of_addition(&machine, both), 0);
}
