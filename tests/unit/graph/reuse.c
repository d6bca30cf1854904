/* Reuse distances of a step worked out by hand. */
#include "graph/program/reuse.h"
#include "../../support/ok.h"

#include <criterion/criterion.h>
#include <string.h>

/* Blocks are 4 KiB: a weight of three, its gradient, an input of two, a result of one. */
enum { WEIGHT, GRADIENT, X, Y, N_BUFFERS };
enum { FORWARD, BACKWARD, N_COMPUTES };
enum { BLOCK = 4096 };

static cleave_buffer buffer(int64_t first_block, int64_t blocks) {
    return (cleave_buffer){.bytes = blocks * BLOCK, .offset = first_block * BLOCK};
}

static cleave_compute compute_of_none(cleave_pass pass) {
    cleave_compute compute = {
        .pass = pass, .output = -1, .combined = -1, .output_gradient = -1, .workspace = -1};
    for (int i = 0; i < CLEAVE_MAX_INPUTS; i++)
        compute.inputs[i] = compute.input_gradients[i] = -1;
    return compute;
}

typedef struct sample {
    cleave_buffer buffers[N_BUFFERS];
    cleave_compute computes[N_COMPUTES];
    cleave_update update;
    cleave_load load;
    cleave_item items[4];
    int64_t peak;
    cleave_program program;
} sample;

/* Load x; y = x w; the weight's gradient from x and y's, which lies where y was; update. */
static void make(sample *s) {
    *s = (sample){.buffers = {buffer(0, 3), buffer(3, 3), buffer(6, 2), buffer(8, 1)},
                  .computes = {compute_of_none(CLEAVE_PASS_FORWARD),
                               compute_of_none(CLEAVE_PASS_WEIGHT_GRADIENT)},
                  .update = {.parameter = WEIGHT,
                             .gradient = GRADIENT,
                             .master = -1,
                             .state = {-1, -1},
                             .squares = -1},
                  .load = {.buffer = X},
                  .items = {{.kind = CLEAVE_ITEM_LOAD},
                            {.kind = CLEAVE_ITEM_COMPUTE, .subject = FORWARD},
                            {.kind = CLEAVE_ITEM_COMPUTE, .subject = BACKWARD},
                            {.kind = CLEAVE_ITEM_UPDATE}},
                  .peak = INT64_C(9) * BLOCK};
    s->computes[FORWARD].inputs[0] = s->computes[BACKWARD].inputs[0] = X;
    s->computes[FORWARD].inputs[1] = WEIGHT;
    s->computes[FORWARD].output = s->computes[BACKWARD].output_gradient = Y;
    s->computes[BACKWARD].input_gradients[1] = GRADIENT;
    s->program = (cleave_program){.n_devices = 1,
                                  .n_items = 4,
                                  .n_buffers = N_BUFFERS,
                                  .n_computes = N_COMPUTES,
                                  .n_updates = 1,
                                  .n_loads = 1,
                                  .items = s->items,
                                  .buffers = s->buffers,
                                  .computes = s->computes,
                                  .updates = &s->update,
                                  .loads = &s->load,
                                  .peak_bytes = &s->peak};
}

/* Before the forward pass: x was just loaded; the weight was updated, with its gradient, before x;
   y was last touched by the backward pass, and since then the gradient, the weight and x. */
Test(reuse, what_was_touched_since_is_counted_once) {
    sample s;
    cleave_arena arena = {0};
    cleave_reuse *reuses;
    make(&s);
    OK(cleave_reuse_find, &s.program, &arena, &reuses);
    const int64_t *forward = reuses[FORWARD].bytes, *backward = reuses[BACKWARD].bytes;
    cr_expect_eq(forward[CLEAVE_REUSE_INPUT], 0);
    cr_expect_eq(forward[CLEAVE_REUSE_INPUT + 1], (3 + 2) * BLOCK);
    cr_expect_eq(forward[CLEAVE_REUSE_OUTPUT], (3 + 3 + 2) * BLOCK);
    cr_expect_eq(backward[CLEAVE_REUSE_OUTPUT_GRADIENT], 0);
    cr_expect_eq(backward[CLEAVE_REUSE_INPUT], (3 + 1) * BLOCK);
    cr_expect_eq(backward[CLEAVE_REUSE_INPUT_GRADIENT + 1], (3 + 2 + 1) * BLOCK);
    cr_expect_eq(backward[CLEAVE_REUSE_INPUT_GRADIENT], 0); /* it has none */
    cleave_arena_free(&arena);
}

/* Another device touches nothing of it. */
Test(reuse, devices_have_memory_of_their_own) {
    sample s;
    cleave_arena arena = {0};
    cleave_reuse *reuses;
    int64_t peaks[2] = {INT64_C(9) * BLOCK, INT64_C(9) * BLOCK};
    make(&s);
    s.program.n_devices = 2;
    s.program.peak_bytes = peaks;
    s.items[3].device = 1;
    OK(cleave_reuse_find, &s.program, &arena, &reuses);
    cr_expect_eq(reuses[FORWARD].bytes[CLEAVE_REUSE_INPUT + 1], (3 + 1 + 2) * BLOCK);
    cleave_arena_free(&arena);
}

/* Where y lies on x forward is in place, and backward, whose y is a gradient, never is. */
Test(reuse, forward_is_in_place_where_its_output_lies_on_its_input) {
    for (int on_x = 0; on_x < 2; on_x++) {
        sample s;
        cleave_arena arena = {0};
        cleave_reuse *reuses;
        make(&s);
        s.buffers[Y] = on_x ? s.buffers[X] : s.buffers[Y];
        OK(cleave_reuse_find, &s.program, &arena, &reuses);
        cr_expect_float_eq(reuses[FORWARD].in_place, on_x, 0);
        cr_expect_float_eq(reuses[BACKWARD].in_place, 0, 0);
        cleave_arena_free(&arena);
    }
}
