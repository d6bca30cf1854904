/* What a framework without a compiler runs as several kernels: a norm by the mean square of N x T
   rows of WIDTH numbers in bf16. */
#include "../../support/config_request.h"
#include "../../support/ok.h"
#include "costmodel/cost.h"
#include "graph/import/import.h"

#include "../../support/test_machine.h"

#include <math.h>

enum { N = 2, T = 8, WIDTH = 16, ROWS = N * T, E = ROWS * WIDTH };

static cleave_arena arena;
static cleave_model model;

static void set_up(void) {
    static const char text[] =
        "{\"model_type\": \"llama\", \"hidden_size\": 16, \"intermediate_size\": 32, "
        "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"vocab_size\": 64, "
        "\"max_position_embeddings\": 64}";
    cleave_import_request request = config_request(text, N, T);
    request.precision = "bf16";
    OK(cleave_model_import_as, &request, &arena, &model);
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
    cr_expect_eq(work.kernels[CLEAVE_EAGER].n, 3);
    cr_expect_float_eq(work.kernels[CLEAVE_EAGER].bytes, 18.0 * E + 4 * ROWS, 0.5);
}

/* The mean and its root: 8 a row each; x times it: 8 and 4 a row; times the weight: 8 and the
   weight; back to bf16: 6.  What came before has converted x. */
Test(eager, what_is_normal_is_five_kernels_and_backward_twice_as_many) {
    cleave_work work = work_of("model.norm", 1, CLEAVE_PASS_FORWARD);
    cr_expect_eq(work.kernels[CLEAVE_EAGER].n, 5);
    cr_expect_float_eq(work.kernels[CLEAVE_EAGER].bytes, 22.0 * E + 20 * ROWS + 4 * WIDTH, 0.5);
    cleave_work backward = work_of("model.norm", 1, CLEAVE_PASS_INPUT_GRADIENT);
    cr_expect_eq(backward.kernels[CLEAVE_EAGER].n, 10);
    cr_expect_float_eq(backward.kernels[CLEAVE_EAGER].bytes, 2 * work.kernels[CLEAVE_EAGER].bytes,
                       0.5);
}

Test(eager, what_frameworks_have_a_kernel_for_is_one) {
    static const char *const operators[] = {"model.layers.0.attended", "lm_head"};
    for (int i = 0; i < 2; i++) {
        cleave_work work = work_of(operators[i], 0, CLEAVE_PASS_FORWARD);
        cr_expect_eq(work.kernels[CLEAVE_EAGER].n, 1);
        cr_expect_float_eq(work.kernels[CLEAVE_EAGER].bytes, work.bytes, 0.5);
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
                               .framework = CLEAVE_EAGER};
    cr_expect_float_eq(cleave_cost_compute(&kind, &work, &provenance),
                       5e-3 + work.kernels[CLEAVE_EAGER].bytes * 1e-9, 1e-12);
    kind.framework = CLEAVE_COMPILED; /* what adds up squares has launched it */
    cr_expect_float_eq(cleave_cost_compute(&kind, &work, &provenance),
                       work.kernels[CLEAVE_COMPILED].bytes * 1e-9, 1e-12);
    cleave_kernel_time measured = {.key = work.key, .seconds = 2e-3};
    kind.kernels = &measured;
    kind.n_kernels = 1;
    kind.framework = CLEAVE_EAGER;
    cr_expect_float_eq(cleave_cost_compute(&kind, &work, &provenance), 2e-3, 1e-12);
    cleave_work other = work_of("model.norm", 0, CLEAVE_PASS_FORWARD);
    cr_expect_float_eq(cleave_cost_compute(&kind, &other, &provenance),
                       3e-3 + other.kernels[CLEAVE_EAGER].bytes * 1e-9, 1e-12);
    kind.framework = CLEAVE_COMPILED; /* where kernels are ours all are nests of their own */
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

static int64_t price_of(const cleave_machine *machine, cleave_copy copy) {
    cleave_item item = {.kind = CLEAVE_ITEM_COPY};
    copy.n_copies = 1;
    const cleave_program program = {.model = &model,
                                    .n_devices = 1,
                                    .n_items = 1,
                                    .items = &item,
                                    .n_copies = 1,
                                    .copies = &copy};
    cleave_cost_cache *cache;
    int64_t duration;
    OK(cleave_cost_cache_create, &model, machine, &cache);
    OK(cleave_cost_items, &program, cache, &duration);
    cleave_cost_cache_destroy(cache);
    return duration;
}

static int64_t price_of_addition(const cleave_machine *machine, cleave_additions of) {
    return price_of(
        machine, (cleave_copy){.chore = CLEAVE_CHORE_ADD, .chore_bytes = 1000000, .additions = of});
}

/* 1 MB at 50 GB/s: read once more by who reads the sum, 20 us; or launched, 1 us, two read and one
   written, 60 us; our own kernels add as they write. */
Test(eager, a_gradient_is_added_by_a_kernel_or_on_the_way) {
    cleave_machine machine = make_machine(&arena, 1, 1, "1 GiB");
    const cleave_additions both = {true, true}, spelled_out = {false, true};
    cr_expect_eq(price_of_addition(&machine, both), 20000000);
    cr_expect_eq(price_of_addition(&machine, spelled_out), 0);
    machine.kinds[0].framework = CLEAVE_EAGER;
    cr_expect_eq(price_of_addition(&machine, both), 61000000);
    cr_expect_eq(price_of_addition(&machine, spelled_out), 61000000);
    cleave_kernel_time measured = {.key = "some", .seconds = 2e-3};
    machine.kinds[0].kernels = &measured;
    machine.kinds[0].n_kernels = 1;
    machine.kinds[0].framework = CLEAVE_COMPILED;
    cr_expect_eq(price_of_addition(&machine, both), 0);
}

/* ---- frameworks ------------------------------------------------------------------------------ */

static cleave_framework_kernels count_all(const char *operator, cleave_pass pass,
                                          cleave_framework framework) {
    const cleave_operator *op = &model.operators[cleave_model_find_operator(&model, operator)];
    cleave_framework_kernels sum = {0};
    for (int32_t i = 0; i < op->n_nests; i++) {
        const cleave_nest *nest = &model.nests[op->nests[i]];
        const cleave_part whole = cleave_part_whole(nest, 0);
        cleave_framework_kernels of;
        if (cleave_kernels_spelled_out(&model, nest, pass, &whole, &cleave_frameworks[framework],
                                       &of)) {
            sum.n += of.n;
            sum.bytes += of.bytes;
        }
    }
    return sum;
}

/* Queries have E numbers of 2 bytes.  A function each: times cosines and times sines (4 and the
   tables, T x a head's 8 numbers), their sum (6); a half with its sign changed (2) and both put
   together (4).  As complex numbers: converted (6), multiplied (8) and converted (6).  Without
   either positions are one kernel with what goes before or after them. */
Test(eager, rotary_positions_are_spelled_out_behind_the_product_that_they_join) {
    const cleave_operator *op =
        &model.operators[cleave_model_find_operator(&model, "model.layers.0.self_attn.q_proj")];
    int n = 0;
    for (int32_t i = 0; i < op->n_nests; i++) {
        const cleave_nest *nest = &model.nests[op->nests[i]];
        if (!cleave_nest_turns(&model, nest))
            continue;
        for (int pass = 0; pass < 2; pass++) {
            cleave_work work =
                work_of("model.layers.0.self_attn.q_proj", i,
                        pass == 0 ? CLEAVE_PASS_FORWARD : CLEAVE_PASS_INPUT_GRADIENT);
            int times = pass == 0 ? 1 : 2;
            cr_expect_eq(work.kernels[CLEAVE_EAGER].n, 5 * times);
            cr_expect_float_eq(work.kernels[CLEAVE_EAGER].bytes, times * (20.0 * E + 4.0 * T * 8),
                               0.5);
            cr_expect_eq(work.kernels[CLEAVE_TORCHTITAN].n, 3);
            cr_expect_float_eq(work.kernels[CLEAVE_TORCHTITAN].bytes, 20.0 * E, 0.5);
            cr_expect_leq(work.kernels[CLEAVE_COMPILED].n, 1);
        }
        n++;
    }
    cr_expect_eq(n, 1);
}

/* Of 16 x 64 logits, which bf16 makes 2 + 4 bytes each to convert and as many back.  Megatron: 8
   passes of 4 bytes and back 2, Mist of 2 bytes; torch: 2 and back 4.  Fused, 3 of 2 and back 2. */
Test(eager, a_loss_is_as_many_kernels_as_its_framework_has) {
    enum { LOGITS = ROWS * 64 };
    const struct {
        cleave_framework framework;
        cleave_pass pass;
        int n;
        double bytes;
    } cases[] = {{CLEAVE_MEGATRON, CLEAVE_PASS_FORWARD, 6, 38.0 * LOGITS},
                 {CLEAVE_MEGATRON, CLEAVE_PASS_INPUT_GRADIENT, 2, 14.0 * LOGITS},
                 {CLEAVE_MEGATRON_FUSED, CLEAVE_PASS_FORWARD, 2, 6.0 * LOGITS},
                 {CLEAVE_MEGATRON_FUSED, CLEAVE_PASS_INPUT_GRADIENT, 1, 4.0 * LOGITS},
                 {CLEAVE_TORCHTITAN, CLEAVE_PASS_FORWARD, 2, 14.0 * LOGITS},
                 {CLEAVE_TORCHTITAN, CLEAVE_PASS_INPUT_GRADIENT, 3, 22.0 * LOGITS},
                 {CLEAVE_MIST, CLEAVE_PASS_FORWARD, 5, 16.0 * LOGITS},
                 {CLEAVE_COMPILED, CLEAVE_PASS_FORWARD, 0, 0},
                 {CLEAVE_LLM_FOUNDRY, CLEAVE_PASS_FORWARD, 0, 0}};
    for (int i = 0; i < 7; i++) {
        cleave_framework_kernels of = count_all("@loss", cases[i].pass, cases[i].framework);
        cr_expect_eq(of.n, cases[i].n);
        cr_expect_float_eq(of.bytes, cases[i].bytes, 0.5);
    }
}

/* 2 texts x 2 heads x 8 x 8 scores in bf16, ten times. */
Test(eager, a_mask_that_is_filled_in_a_view_copies_its_gradient) {
    int n = 0;
    for (int32_t i = 0; i < model.n_operators; i++) {
        cleave_framework_kernels of = count_all(model.operators[i].name, CLEAVE_PASS_INPUT_GRADIENT,
                                                CLEAVE_MEGATRON_DEEPSPEED);
        if (of.n == 0 || strcmp(model.operators[i].name, "@loss") == 0)
            continue;
        cr_expect_eq(of.n, 5 + 2); /* and the softmax behind it */
        cr_expect_float_eq(of.bytes, (10.0 + 6.0) * N * 2 * T * T * 2, 0.5);
        n++;
    }
    cr_expect_eq(n, 1);
}

/* Back a softmax of PyTorch is multiplied by its gradient (2 are read and 1 is written), and that
   with it gives the gradient (the same again).  Megatron-LM has a kernel of its own. */
Test(eager, a_softmax_of_torch_is_two_kernels_backward) {
    int n = 0;
    for (int32_t i = 0; i < model.n_nests; i++) {
        const cleave_nest *nest = &model.nests[i];
        const cleave_part whole = cleave_part_whole(nest, 0);
        cleave_framework_kernels of;
        if (!cleave_nest_gives_softmax(nest))
            continue;
        cr_expect(cleave_kernels_spelled_out(&model, nest, CLEAVE_PASS_INPUT_GRADIENT, &whole,
                                             &cleave_frameworks[CLEAVE_EAGER], &of));
        cr_expect_eq(of.n, 2);
        cr_expect_float_eq(of.bytes, 6.0 * N * 2 * T * T * 2, 0.5);
        cr_expect_not(cleave_kernels_spelled_out(&model, nest, CLEAVE_PASS_INPUT_GRADIENT, &whole,
                                                 &cleave_frameworks[CLEAVE_MEGATRON], &of));
        cr_expect_not(cleave_kernels_spelled_out(&model, nest, CLEAVE_PASS_FORWARD, &whole,
                                                 &cleave_frameworks[CLEAVE_EAGER], &of));
        n++;
    }
    cr_expect_eq(n, 1);
}

static int64_t price_of_chore(cleave_framework framework, cleave_copy copy) {
    cleave_machine machine = make_machine(&arena, 1, 1, "1 GiB");
    machine.kinds[0].framework = framework;
    return price_of(&machine, copy);
}

/* 1 MB at 50 GB/s is 20 us, a launch 1 us.  In the first micro-batch there is nothing to add to. */
Test(eager, chores_are_those_of_the_framework) {
    const cleave_copy unpack = {.chore = CLEAVE_CHORE_UNPACK, .chore_bytes = 1000000},
                      bucket = {.chore = CLEAVE_CHORE_BUCKET, .chore_bytes = 1000000};
    cleave_copy accumulate = {.chore = CLEAVE_CHORE_ACCUMULATE, .chore_bytes = 1000000};
    cr_expect_eq(price_of_chore(CLEAVE_TORCHTITAN, unpack), 21000000);
    cr_expect_eq(price_of_chore(CLEAVE_LLM_FOUNDRY, unpack), 0);
    cr_expect_eq(price_of_chore(CLEAVE_EAGER, bucket), 42000000);
    cr_expect_eq(price_of_chore(CLEAVE_MEGATRON, bucket), 0);
    cr_expect_eq(price_of_chore(CLEAVE_MEGATRON, accumulate), 0);
    cr_expect_eq(price_of_chore(CLEAVE_EAGER, accumulate), 61000000);
    accumulate.carries = true;
    cr_expect_eq(price_of_chore(CLEAVE_EAGER, accumulate), 0);
}

/* Stages that send by calls for which kernels wait are held up as long as the slowest link of the
   way is taken; others are not, over links that ask nothing of processors. */
Test(eager, messages_hold_up_those_whose_calls_wait_for_them) {
    const cleave_framework frameworks[] = {CLEAVE_MEGATRON, CLEAVE_MEGATRON_DEEPSPEED};
    for (int f = 0; f < 2; f++) {
        cleave_machine machine = make_machine(&arena, 1, 2, "1 GiB");
        cleave_cost_cache *cache;
        for (int32_t k = 0; k < machine.n_kinds; k++)
            machine.kinds[k].framework = frameworks[f];
        OK(cleave_cost_cache_create, &model, &machine, &cache);
        const cleave_route_price *route = cleave_cost_route(cache, 0, 1);
        double slowest = 0;
        for (int32_t l = 0; l < route->n_links; l++)
            slowest = fmax(slowest, 1 / machine.links[route->links[l]].bytes_per_second);
        cr_expect_float_eq(route->overhead_seconds_per_byte, f == 0 ? 0 : slowest, 1e-15);
        cr_expect_eq(cleave_machine_ends_work(&machine), f == 1);
        cleave_cost_cache_destroy(cache);
    }
}
