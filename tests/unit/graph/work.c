/* Keys of work: equal exactly where a kernel's time is, flops and bytes counted by hand. */
#include "graph/program/work.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* x [2, 3, 8, 8] convolved with w [4, 3, 3, 3], stride 1, one row and column of padding all round,
   gives y [2, 4, 8, 8]; then relu y -> z. */
enum { N, K, H, WIDTH, C, R, S, N_AXES };
static cleave_tensor tensors[] = {
    {.name = "x", .rank = 4, .shape = {2, 3, 8, 8}, .order = {0, 2, 3, 1}},
    {.name = "w",
     .kind = CLEAVE_TENSOR_PARAMETER,
     .rank = 4,
     .shape = {4, 3, 3, 3},
     .order = {0, 1, 2, 3}},
    {.name = "y", .rank = 4, .shape = {2, 4, 8, 8}, .order = {0, 2, 3, 1}},
    {.name = "z", .rank = 4, .shape = {2, 4, 8, 8}, .order = {0, 2, 3, 1}},
};

#define ONE(axis_id)                                                                               \
    {                                                                                              \
        .n_terms = 1, .terms = { {axis_id, 1} }                                                    \
    }
#define WINDOW(a, b)                                                                               \
    {                                                                                              \
        .offset = -1, .n_terms = 2, .terms = { {a, 1}, {b, 1} }                                    \
    }

static cleave_nest convolution = {
    .name = "conv",
    .kind = CLEAVE_NEST_CONVOLUTION,
    .combiner = CLEAVE_COMBINE_SUM,
    .n_axes = N_AXES,
    .axes = {{"n", 2, false},
             {"k", 4, false},
             {"h", 8, false},
             {"w", 8, false},
             {"c", 3, false},
             {"r", 3, true},
             {"s", 3, true}},
    .n_inputs = 2,
    .inputs = {{.tensor = 0, .map = {ONE(N), ONE(C), WINDOW(H, R), WINDOW(WIDTH, S)}},
               {.tensor = 1, .map = {ONE(K), ONE(C), ONE(R), ONE(S)}}},
    .output = {.tensor = 2, .map = {ONE(N), ONE(K), ONE(H), ONE(WIDTH)}},
    .differentiable = true,
    .gradient_inputs = 3,
    .kept_inputs = 3,
};
static cleave_nest relu = {
    .name = "relu",
    .kind = CLEAVE_NEST_POINTWISE,
    .combiner = CLEAVE_COMBINE_NONE,
    .n_axes = 4,
    .axes = {{"n", 2, false}, {"k", 4, false}, {"h", 8, false}, {"w", 8, false}},
    .n_inputs = 1,
    .inputs = {{.tensor = 2, .map = {ONE(0), ONE(1), ONE(2), ONE(3)}}},
    .output = {.tensor = 3, .map = {ONE(0), ONE(1), ONE(2), ONE(3)}},
    .n_instructions = 1,
    .tape = {{.opcode = CLEAVE_OP_RELU, .a = 0}},
    .differentiable = true,
    .gradient_inputs = 1,
    .kept_output = true,
};
static cleave_operator operators[] = {{.type = "Test"}};
static const cleave_model model = {
    .n_tensors = 4, .tensors = tensors, .n_operators = 1, .operators = operators};

static cleave_part rows(int64_t lo, int64_t hi) {
    cleave_part part = cleave_part_whole(&convolution, 0);
    part.lo[H] = lo;
    part.hi[H] = hi;
    return part;
}

static cleave_work describe(const cleave_nest *nest, cleave_pass pass, cleave_part part) {
    cleave_work work;
    cleave_work_describe(&model, nest, pass, &part, &work);
    return work;
}

/* Points: 2 x 4 x 8 x 8 x 3 x 3 x 3 = 13,824, two flops each.  Floats: x 384, w 108, y 512. */
Test(work, flops_and_bytes_of_a_convolution) {
    cleave_part whole = cleave_part_whole(&convolution, 0);
    cleave_work forward = describe(&convolution, CLEAVE_PASS_FORWARD, whole);
    cr_expect_float_eq(forward.flops, 27648, 0);
    cr_expect_float_eq(forward.bytes, 4 * (384 + 108 + 512), 0);
    cr_expect_str_eq(forward.family, "convolution forward");
    /* The input gradient reads dy and w and writes dx; the weight gradient reads dy, x, writes dw.
     */
    cleave_work input = describe(&convolution, CLEAVE_PASS_INPUT_GRADIENT, whole);
    cleave_work weight = describe(&convolution, CLEAVE_PASS_WEIGHT_GRADIENT, whole);
    cr_expect_float_eq(input.flops, 27648, 0);
    cr_expect_float_eq(input.bytes, 4 * (512 + 108 + 384), 0);
    cr_expect_float_eq(weight.bytes, 4 * (512 + 384 + 108), 0);
    cr_expect_str_neq(input.key, weight.key);
}

/* 512 points of one instruction.  Forward reads y and writes z; backward reads dz and z, writes dy,
   at two flops a point. */
Test(work, flops_and_bytes_of_an_activation) {
    cleave_part whole = cleave_part_whole(&relu, 0);
    cleave_work forward = describe(&relu, CLEAVE_PASS_FORWARD, whole);
    cr_expect_float_eq(forward.flops, 512, 0);
    cr_expect_float_eq(forward.bytes, 4 * 1024, 0);
    cleave_work backward = describe(&relu, CLEAVE_PASS_INPUT_GRADIENT, whole);
    cr_expect_float_eq(backward.flops, 1024, 0);
    cr_expect_float_eq(backward.bytes, 4 * 1536, 0);
}

/* Rows 2..4 and 4..6 have no padding above or below; rows 0..2 have a row above. */
Test(work, keys_differ_by_padding_but_not_by_place) {
    cleave_work a = describe(&convolution, CLEAVE_PASS_FORWARD, rows(2, 4));
    cleave_work b = describe(&convolution, CLEAVE_PASS_FORWARD, rows(4, 6));
    cleave_work top = describe(&convolution, CLEAVE_PASS_FORWARD, rows(0, 2));
    cleave_work bottom = describe(&convolution, CLEAVE_PASS_FORWARD, rows(6, 8));
    cr_expect_str_eq(a.key, b.key);
    cr_expect_str_neq(a.key, top.key);
    cr_expect_str_neq(top.key, bottom.key);
    cr_expect_float_eq(top.bytes, a.bytes - 4 * 2 * 3 * 8, 0); /* a row of x less */
}

Test(work, keys_do_not_depend_on_names_of_operators) {
    cleave_nest other = convolution;
    other.name = "another";
    cleave_part whole = cleave_part_whole(&convolution, 3);
    cr_expect_str_eq(describe(&other, CLEAVE_PASS_FORWARD, whole).key,
                     describe(&convolution, CLEAVE_PASS_FORWARD, whole).key);
}

Test(work, keys_differ_by_what_a_kernel_sees) {
    cleave_part whole = cleave_part_whole(&convolution, 0);
    cleave_work plain = describe(&convolution, CLEAVE_PASS_FORWARD, whole);
    cleave_nest strided = convolution;
    strided.inputs[0].map[2].terms[0].stride = 2;
    cr_expect_str_neq(describe(&strided, CLEAVE_PASS_FORWARD, rows(0, 4)).key,
                      describe(&convolution, CLEAVE_PASS_FORWARD, rows(0, 4)).key);
    tensors[0].order[1] = 1; /* channels not last */
    tensors[0].order[3] = 2;
    cr_expect_str_neq(describe(&convolution, CLEAVE_PASS_FORWARD, whole).key, plain.key);
    cleave_part relu_part = cleave_part_whole(&relu, 0);
    cleave_nest tanh = relu;
    tanh.tape[0].opcode = CLEAVE_OP_TANH;
    cr_expect_str_neq(describe(&tanh, CLEAVE_PASS_FORWARD, relu_part).key,
                      describe(&relu, CLEAVE_PASS_FORWARD, relu_part).key);
}

/* 32 instructions make a key too long; two tapes that differ in the last one still differ. */
Test(work, long_keys_end_in_a_hash_of_the_whole) {
    cleave_nest one = relu;
    one.n_instructions = CLEAVE_MAX_TAPE;
    for (int i = 0; i < CLEAVE_MAX_TAPE; i++)
        one.tape[i] = (cleave_instruction){.opcode = CLEAVE_OP_CLIP, .a = i, .b = i};
    cleave_nest two = one;
    two.tape[CLEAVE_MAX_TAPE - 1].opcode = CLEAVE_OP_TANH;
    cleave_part whole = cleave_part_whole(&relu, 0);
    cleave_work a = describe(&one, CLEAVE_PASS_FORWARD, whole);
    cleave_work b = describe(&two, CLEAVE_PASS_FORWARD, whole);
    cr_expect_eq(strlen(a.key), CLEAVE_WORK_KEY_BYTES - 1);
    cr_expect_str_neq(a.key, b.key);
    cr_expect_eq(strncmp(a.key, b.key, CLEAVE_WORK_KEY_BYTES - 18), 0);
}

Test(work, bytes_are_keyed_like_kernels) {
    cleave_work work;
    cleave_work_describe_bytes("copy", 4096, &work);
    cr_expect_str_eq(work.key, "copy bytes=4096");
    cr_expect_str_eq(work.family, "copy");
    /* Adam: parameter and two states read and written, gradient read. */
    cr_expect_float_eq(cleave_work_bytes_of_update(100, 2), 700, 0);
}

/* A product of 2^12 x 2^10 by 2^10 x 2^10 has 2^33 flops, 16 pieces, and 16 + 4 + 16 MiB of
   traffic, 1.1 more; half as many rows half of that.  The bytes of 3 pieces are 96 MiB. */
Test(work, long_work_is_cut_into_pieces_that_its_key_names) {
    cleave_tensor large[] = {
        {.name = "x", .rank = 2, .shape = {4096, 1024}, .order = {0, 1}},
        {.name = "w",
         .kind = CLEAVE_TENSOR_PARAMETER,
         .rank = 2,
         .shape = {1024, 1024},
         .order = {0, 1}},
        {.name = "y", .rank = 2, .shape = {4096, 1024}, .order = {0, 1}},
    };
    cleave_nest product = {
        .name = "product",
        .kind = CLEAVE_NEST_PRODUCT,
        .combiner = CLEAVE_COMBINE_SUM,
        .n_axes = 3,
        .axes = {{"n", 4096, false}, {"k", 1024, false}, {"c", 1024, false}},
        .n_inputs = 2,
        .inputs = {{.tensor = 0, .map = {ONE(0), ONE(2)}}, {.tensor = 1, .map = {ONE(1), ONE(2)}}},
        .output = {.tensor = 2, .map = {ONE(0), ONE(1)}},
    };
    cleave_model of = {.tensors = large, .n_tensors = 3, .operators = operators};
    cleave_part part = cleave_part_whole(&product, 0);
    cleave_work work;
    cr_expect_eq(cleave_work_pieces(&of, &product, CLEAVE_PASS_FORWARD, &part), 17);
    cleave_work_describe(&of, &product, CLEAVE_PASS_FORWARD, &part, &work);
    cr_expect(strstr(work.key, " / pieces=17") != NULL, "%s", work.key);
    part.hi[0] = 2048;
    cr_expect_eq(cleave_work_pieces(&of, &product, CLEAVE_PASS_FORWARD, &part), 9);
    part.hi[0] = 64;
    cleave_work_describe(&of, &product, CLEAVE_PASS_FORWARD, &part, &work);
    cr_expect(strstr(work.key, "pieces") == NULL, "%s", work.key);
    cr_expect_eq(cleave_work_pieces_of_bytes(96 * 1024 * 1024), 3);
    cr_expect_eq(cleave_work_pieces_of_bytes(0), 1);
}
