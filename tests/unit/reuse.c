/* How far apart uses of memory are, of programs made by hand. */
#include "graph/reuse.h"

#include <criterion/criterion.h>

enum { A, B, C, N_BUFFERS, PAGE = 4096 };

static cleave_compute compute(int32_t nest, cleave_pass pass, int32_t input, int32_t output) {
    cleave_compute made = {.nest = nest,
                           .pass = pass,
                           .output = output,
                           .combined = -1,
                           .output_gradient = -1,
                           .workspace = -1};
    for (int i = 0; i < CLEAVE_MAX_INPUTS; i++)
        made.inputs[i] = made.input_gradients[i] = -1;
    made.inputs[0] = input;
    return made;
}

/* A > B by nest 0, B > C by nest 1, then a copy of one page, from C to C, that reads and writes. */
Test(reuse, counts_what_is_touched_between_two_uses) {
    cleave_arena arena = {0};
    cleave_reuse *reuse;
    cleave_model model = {.n_nests = 3};
    cleave_buffer buffers[N_BUFFERS] = {{.bytes = PAGE, .storage = A},
                                        {.bytes = 2 * PAGE, .storage = B, .offset = PAGE},
                                        {.bytes = PAGE, .storage = C, .offset = 3 * PAGE}};
    cleave_compute computes[] = {compute(0, CLEAVE_PASS_FORWARD, A, B),
                                 compute(1, CLEAVE_PASS_FORWARD, B, C)};
    cleave_copy_piece piece = {.destination = C, .source = C};
    cleave_copy copy = {.n_pieces = 1, .bytes = 2 * PAGE, .n_copies = 1};
    cleave_item items[] = {{.kind = CLEAVE_ITEM_COMPUTE, .subject = 0},
                           {.kind = CLEAVE_ITEM_COMPUTE, .subject = 1, .device = 1},
                           {.kind = CLEAVE_ITEM_COMPUTE, .subject = 1},
                           {.kind = CLEAVE_ITEM_COPY, .subject = 0}};
    int64_t peak[] = {4 * PAGE, 0};
    cleave_program program = {.model = &model,
                              .n_devices = 2,
                              .n_items = 4,
                              .items = items,
                              .n_buffers = N_BUFFERS,
                              .buffers = buffers,
                              .n_computes = 2,
                              .computes = computes,
                              .n_copies = 1,
                              .copies = &copy,
                              .n_copy_pieces = 1,
                              .copy_pieces = &piece,
                              .peak_bytes = peak};
    cr_assert_eq(cleave_program_reuse(&program, 0, &arena, &reuse, NULL), CLEAVE_OK);
    const cleave_reuse *first = &reuse[0], *second = &reuse[3];
    cr_expect_eq(first->step, 4 * PAGE);
    cr_expect_eq(first->inputs[0], 3 * PAGE); /* nest 1: B and C; C again by the copy */
    cr_expect_eq(first->output, PAGE);        /* the copy */
    cr_expect_eq(second->inputs[0], 0);       /* what was just written */
    cr_expect_eq(second->output, 3 * PAGE);   /* nest 0: A and B */
    cr_expect_eq(second->output_gradient, 0);
    cr_expect_eq(reuse[1].step, -1, "a pass that is not run");
    cr_expect_eq(reuse[6].step, -1, "a nest that is not run");
    cleave_arena_free(&arena);
}
