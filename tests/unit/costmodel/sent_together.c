/* In which vectors weights and gradients are sent. */
#include "costmodel/sent_together.h"
#include "../../support/ok.h"
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
    OK(cleave_sent_together_create, &model, &machine, &arena, &together);
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

/* Of 1 Mi and 3 Mi elements, which a tensor of both has one after the other, and nothing else. */
Test(sent_together, gradients_of_what_is_concatenated_are_one_vector) {
    enum { PIECE, OTHER, WHOLE, N_TENSORS };
    static const int32_t sources[] = {PIECE, OTHER};
    static cleave_tensor pieces[N_TENSORS] = {
        {.name = "a", .kind = CLEAVE_TENSOR_ACTIVATION, .rank = 1, .shape = {NARROW}},
        {.name = "b", .kind = CLEAVE_TENSOR_ACTIVATION, .rank = 1, .shape = {3 * NARROW}},
        {.name = "ab",
         .kind = CLEAVE_TENSOR_ACTIVATION,
         .rank = 1,
         .shape = {4 * NARROW},
         .view = {.kind = CLEAVE_VIEW_CONCAT, .n_sources = 2, .sources = sources}}};
    static cleave_model both = {.n_tensors = N_TENSORS, .tensors = pieces};
    static cleave_device_kind kind;
    static cleave_machine machine = {.n_kinds = 1, .kinds = &kind};
    machine.collectives.n_spans = 1;
    machine.collectives.together_bytes = 1 << 20;
    OK(cleave_sent_together_create, &both, &machine, &arena, &together);
    cr_expect_eq(cleave_sent_together_bytes(&together, CLEAVE_REDUCE_SCATTER, PIECE, NARROW),
                 4 * NARROW);
    cr_expect_eq(cleave_sent_together_bytes(&together, CLEAVE_ALL_REDUCE, OTHER, 3 * NARROW),
                 4 * NARROW);
    cr_expect_eq(cleave_sent_together_bytes(&together, CLEAVE_ALL_GATHER, PIECE, NARROW), NARROW);
    machine.collectives.together_bytes =
        0; /* a library's collectives without a framework's times */
    OK(cleave_sent_together_create, &both, &machine, &arena, &together);
    cr_expect_eq(cleave_sent_together_bytes(&together, CLEAVE_REDUCE_SCATTER, PIECE, NARROW),
                 NARROW);
}

Test(sent_together, a_machine_file_says_of_how_many_bytes_gradients_go_together) {
    together_bytes = 4 * WIDE;
    make(CLEAVE_COMPILED, true);
    expect(CLEAVE_ALL_REDUCE, 1, 4, WIDE);
    expect(CLEAVE_ALL_GATHER, 1, 4, NARROW);
    expect(CLEAVE_REDUCE_SCATTER, 2, 4, WIDE);
}
