/* In which vectors weights and gradients are sent. */
#include "costmodel/sent_together.h"
#include "graph/program/framework.h"

#include <criterion/criterion.h>

enum { WIDE = 6 << 20, NARROW = 1 << 20, N = 5 }; /* elements; tensors */

#define WEIGHT(name_, elements)                                                                    \
    {                                                                                              \
        .name = name_, .kind = CLEAVE_TENSOR_PARAMETER, .rank = 1, .shape = { elements }           \
    }

/* Two layers of 7 Mi elements, a head of 6 Mi, and what is no weight. */
static cleave_tensor tensors[N] = {WEIGHT("h.0.w", WIDE), WEIGHT("h.0.b", NARROW),
                                   WEIGHT("h.1.w", WIDE), WEIGHT("h.1.b", NARROW),
                                   WEIGHT("head", WIDE)};
static cleave_model model = {.n_tensors = N, .tensors = tensors};
static cleave_arena arena;
static cleave_sent_together together;

static int64_t together_bytes;

static void make(cleave_framework framework, bool knows_collectives) {
    static cleave_device_kind kind;
    static cleave_machine machine = {.n_kinds = 1, .kinds = &kind};
    kind.framework = framework;
    machine.collectives.n_spans = knows_collectives;
    machine.collectives.together_bytes = together_bytes;
    cr_assert_eq(cleave_sent_together_create(&model, &machine, &arena, &together, NULL), CLEAVE_OK);
}

/* Of all elements of a tensor, of `each` bytes. */
static void expect(cleave_collective_kind kind, int32_t tensor, int64_t each, double elements) {
    int64_t bytes = each * cleave_tensor_size(&tensors[tensor]);
    cr_expect_eq(cleave_sent_together_bytes(&together, kind, tensor, bytes),
                 (int64_t)(elements * (double)each), "tensor %d, kind %d", tensor, kind);
}

Test(sent_together, fsdp_gathers_and_scatters_a_layer) {
    make(CLEAVE_COMPILED, true);
    expect(CLEAVE_ALL_GATHER, 1, 2, WIDE + NARROW);
    expect(CLEAVE_REDUCE_SCATTER, 2, 4, WIDE + NARROW);
    expect(CLEAVE_ALL_GATHER, 4, 2, WIDE); /* what is in no layer */
}

/* 25 MiB, or what is larger by itself. */
Test(sent_together, gradients_go_in_the_buckets_of_the_framework) {
    make(CLEAVE_COMPILED, true);
    expect(CLEAVE_ALL_REDUCE, 1, 4, 25 * 0x1p20 / 4);
    expect(CLEAVE_ALL_REDUCE, 0, 8, WIDE);
    make(CLEAVE_MEGATRON, true); /* 40 million elements are more than there are */
    expect(CLEAVE_ALL_REDUCE, 1, 4, 3 * WIDE + 2 * NARROW);
    expect(CLEAVE_ALL_GATHER, 1, 4, 3 * WIDE + 2 * NARROW);
    tensors[4].shape[0] = 8 * WIDE;
    make(CLEAVE_MEGATRON, true);
    expect(CLEAVE_ALL_REDUCE, 1, 4, 40e6);
    make(CLEAVE_MEGATRON_DEEPSPEED, true);
    expect(CLEAVE_ALL_REDUCE, 1, 4, 10 * WIDE + 2 * NARROW);
}

Test(sent_together, what_is_no_weight_and_our_own_steps_go_alone) {
    tensors[1].kind = CLEAVE_TENSOR_ACTIVATION;
    make(CLEAVE_COMPILED, true);
    expect(CLEAVE_ALL_REDUCE, 1, 4, NARROW);
    expect(CLEAVE_ALL_GATHER, 0, 4, WIDE);
    tensors[1].kind = CLEAVE_TENSOR_PARAMETER;
    make(CLEAVE_COMPILED, false);
    expect(CLEAVE_ALL_GATHER, 1, 4, NARROW);
}

Test(sent_together, a_machine_file_says_of_how_many_bytes_gradients_go_together) {
    together_bytes = 4 * WIDE;
    make(CLEAVE_COMPILED, true);
    expect(CLEAVE_ALL_REDUCE, 1, 4, WIDE);
    expect(CLEAVE_ALL_GATHER, 1, 4, NARROW);
    expect(CLEAVE_REDUCE_SCATTER, 2, 4, WIDE);
}
