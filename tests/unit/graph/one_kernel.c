/* What nests read and write where a framework has one kernel for several: N texts of T tokens,
   WIDTH numbers each, HEADS heads and V classes, in f32, so that every number has 4 bytes. */
#include "../../support/config_request.h"
#include "../../support/ok.h"
#include "graph/import/import.h"
#include "graph/program/work.h"

#include <criterion/criterion.h>
#include <string.h>

enum { N = 2, T = 8, WIDTH = 16, HEADS = 2, V = 64, ROWS = N * T };

static cleave_arena arena;
static cleave_model model;

static void set_up(void) {
    static const char text[] = "{\"model_type\": \"gpt2\", \"n_embd\": 16, \"n_layer\": 1, "
                               "\"n_head\": 2, \"vocab_size\": 64, \"n_positions\": 64, "
                               "\"attn_pdrop\": 0, \"resid_pdrop\": 0, \"embd_pdrop\": 0}";
    const cleave_import_request request = config_request(text, N, T);
    OK(cleave_model_import_as, &request, &arena, &model);
}
static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(one_kernel, .init = set_up, .fini = tear_down);

/* All nests of an operator in a pass, but products: kernels, and numbers read and written. */
typedef struct total {
    int n_kernels;
    double numbers;
} total;

/* `whole`: else parts have half of the last axis of their operator. */
static total count(const char *operator, cleave_pass pass, bool is_eager, bool whole) {
    const cleave_operator *op = &model.operators[cleave_model_find_operator(&model, operator)];
    total found = {0};
    for (int32_t i = 0; i < op->n_nests; i++) {
        const cleave_nest *nest = &model.nests[op->nests[i]];
        if (nest->kind == CLEAVE_NEST_PRODUCT ||
            (pass != CLEAVE_PASS_FORWARD && cleave_nest_pass_inputs(&model, nest, pass) == 0))
            continue;
        cleave_part part = cleave_part_whole(nest, 0);
        for (int a = 0; a < nest->n_axes && !whole; a++)
            if (nest->derivation == CLEAVE_DERIVE_OPERATOR &&
                nest->operator_axis[a] == op->n_axes - 1)
                part.hi[a] = part.hi[a] / 2;
        cleave_work work;
        cleave_work_measure(&model, nest, pass, &part, &work);
        cleave_framework_kernels of = work.kernels[is_eager ? CLEAVE_EAGER : CLEAVE_COMPILED];
        found.n_kernels += of.n;
        found.numbers += of.bytes / 4;
    }
    return found;
}

static void expect(const char *operator, cleave_pass pass, bool is_eager, int n_kernels,
                   double numbers) {
    total found = count(operator, pass, is_eager, true);
    cr_expect_eq(found.n_kernels, n_kernels, "%s: %d kernels", operator, found.n_kernels);
    cr_expect_float_eq(found.numbers, numbers, 0.1, "%s: %.0f numbers", operator, found.numbers);
}

/* E: all numbers of an activation.  Forward x is read, y is written, and a scale and a bias are
   read.  Backward dy, x, the scale and two statistics of each row are read, and gradients of x, the
   scale and the bias are written. */
enum { E = ROWS * WIDTH };
Test(one_kernel, a_norm_reads_once_and_writes_once) {
    expect("transformer.ln_f", CLEAVE_PASS_FORWARD, false, 1, 2 * E + 2 * WIDTH);
    expect("transformer.ln_f", CLEAVE_PASS_INPUT_GRADIENT, false, 1, 3 * E + 3 * WIDTH + 2 * ROWS);
}

/* S: all scores.  The mask, the maximum, the sum and the weights together read them and write
   weights; backward they read gradients of weights, and scores with the maximum and the sum of each
   row, and write gradients. */
enum { S = N * HEADS * T * T, SUMS = N * HEADS * T };
Test(one_kernel, a_softmax_and_its_mask_read_scores_once) {
    expect("transformer.h.0.attn", CLEAVE_PASS_FORWARD, false, 1, 2 * S);
    expect("transformer.h.0.attn", CLEAVE_PASS_INPUT_GRADIENT, false, 1, 3 * S + 2 * SUMS);
}

/* The mask reads and writes, and backward, too, where the softmax is two kernels that read two and
   write one each. */
Test(one_kernel, without_a_compiler_a_mask_is_apart) {
    expect("transformer.h.0.attn", CLEAVE_PASS_FORWARD, true, 2, 4 * S);
    expect("transformer.h.0.attn", CLEAVE_PASS_INPUT_GRADIENT, true, 3, 8 * S);
}

/* Logits and targets, of 64 bits, are read, and a number is written; backward these are read again,
   with the maximum of each row and the gradient of its sum. */
Test(one_kernel, a_loss_reads_logits_once) {
    expect("@loss", CLEAVE_PASS_FORWARD, false, 1, ROWS * V + 2 * ROWS + 1);
    expect("@loss", CLEAVE_PASS_INPUT_GRADIENT, false, 1, 2 * ROWS * V + 4 * ROWS + 1);
}

/* Classes on several devices: each of the nests is a kernel that reads logits. */
Test(one_kernel, parted_rows_are_apart) {
    total found = count("@loss", CLEAVE_PASS_FORWARD, false, false);
    cr_expect_eq(found.n_kernels, 3, "%d", found.n_kernels);
    cr_expect_gt(found.numbers, 3 * ROWS * V / 2);
}

/* A bias is added by the product's kernel; its gradient is one that adds up rows. */
Test(one_kernel, a_bias_is_no_kernel) {
    expect("transformer.h.0.mlp.c_proj", CLEAVE_PASS_FORWARD, false, 0, 0);
    expect("transformer.h.0.mlp.c_proj", CLEAVE_PASS_INPUT_GRADIENT, false, 1, E + WIDTH);
}

/* What is not linear is: 4 times as wide. */
Test(one_kernel, a_bias_with_an_activation_is_a_kernel) {
    expect("transformer.h.0.mlp.c_fc", CLEAVE_PASS_FORWARD, false, 1, 8 * E + 4 * WIDTH);
}
