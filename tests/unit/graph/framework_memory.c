/* What a framework allocates for a program. */
#include "graph/program/framework_memory.h"

#include <criterion/criterion.h>
#include <string.h>

enum { KIB = 1024, MIB = 1024 * KIB };

static cleave_buffer buffers[16];
static cleave_model model = {.n_tensors = 2};
static cleave_program program = {.model = &model, .n_devices = 2, .buffers = buffers};

static int32_t add(cleave_buffer_kind kind, int32_t device, int32_t first, int32_t last,
                   int64_t bytes) {
    int32_t b = program.n_buffers++;
    buffers[b] = (cleave_buffer){.kind = kind,
                                 .device = device,
                                 .tensor = 0,
                                 .first = first,
                                 .last = last,
                                 .bytes = bytes,
                                 .storage = b};
    return b;
}

static cleave_framework framework;

static cleave_framework_memory memory(void) {
    cleave_framework_memory found;
    cr_assert_eq(cleave_program_framework_memory(&program, framework, &found, NULL), CLEAVE_OK);
    return found;
}
static int64_t bytes(void) { return memory().allocated_bytes; }

/* The second begins where the first has ended, the third meets both: 4 + 3, not 4 + 2 + 3.  Of the
   devices the fuller one counts. */
Test(framework_memory, what_lives_at_once_adds_up) {
    add(CLEAVE_BUFFER_ACTIVATION, 0, 0, 4, 4 * KIB);
    add(CLEAVE_BUFFER_ACTIVATION, 0, 5, 9, 2 * KIB);
    add(CLEAVE_BUFFER_ACTIVATION, 0, 3, 6, 3 * KIB);
    add(CLEAVE_BUFFER_ACTIVATION, 1, 0, 9, 6 * KIB);
    cr_expect_eq(bytes(), 7 * KIB);
}

/* 1 byte takes 512. */
Test(framework_memory, allocations_are_rounded) {
    add(CLEAVE_BUFFER_ACTIVATION, 0, 0, 4, 1);
    add(CLEAVE_BUFFER_ACTIVATION, 0, 0, 4, 513);
    cr_expect_eq(bytes(), 3 * 512);
}

/* A message takes nothing, unless an activation lies in it; a share of a gradient lies in the
   whole, whichever comes first, but for another tensor or device. */
Test(framework_memory, messages_and_shares_take_nothing) {
    add(CLEAVE_BUFFER_MESSAGE, 0, 0, 4, 64 * KIB);
    int32_t held = add(CLEAVE_BUFFER_MESSAGE, 0, 0, 4, 2 * KIB);
    buffers[add(CLEAVE_BUFFER_ACTIVATION, 0, 0, 4, 2 * KIB)].storage = held;
    cr_expect_eq(bytes(), 2 * KIB);
    add(CLEAVE_BUFFER_GRADIENT, 0, 0, 4, 1 * KIB);
    add(CLEAVE_BUFFER_GRADIENT, 0, 0, 4, 8 * KIB);
    add(CLEAVE_BUFFER_GRADIENT, 0, 0, 4, 4 * KIB);
    cr_expect_eq(bytes(), 10 * KIB);
    buffers[add(CLEAVE_BUFFER_GRADIENT, 0, 0, 4, 4 * KIB)].tensor = 1;
    cr_expect_eq(bytes(), 14 * KIB);
}

/* 1 MiB is of a segment of 2, 3 MiB of one of 20 and 11 MiB one of 12.  When these 11 go, 10 MiB
   find the 12 too large by more than 1 MiB, whose rest is split off and takes 1.5 MiB more; 12 MiB
   that come then need a segment of their own. */
Test(framework_memory, segments_are_kept_and_split) {
    add(CLEAVE_BUFFER_ACTIVATION, 0, 0, 9, 1 * MIB);
    cr_expect_eq(memory().reserved_bytes, 2 * MIB);
    add(CLEAVE_BUFFER_ACTIVATION, 0, 0, 9, 3 * MIB);
    cr_expect_eq(memory().reserved_bytes, 22 * MIB);
    add(CLEAVE_BUFFER_ACTIVATION, 0, 0, 9, 16 * MIB);
    add(CLEAVE_BUFFER_ACTIVATION, 0, 0, 4, 11 * MIB);
    cr_expect_eq(memory().reserved_bytes, 34 * MIB, "3 + 16 leave 1 of 20");
    add(CLEAVE_BUFFER_ACTIVATION, 0, 5, 9, 10 * MIB);
    add(CLEAVE_BUFFER_ACTIVATION, 0, 5, 9, 3 * MIB / 2);
    cr_expect_eq(memory().reserved_bytes, 34 * MIB);
    add(CLEAVE_BUFFER_ACTIVATION, 0, 6, 9, 12 * MIB);
    cr_expect_eq(memory().reserved_bytes, 46 * MIB);
}

/* Two of 10 MiB that lie side by side in one of 20 are one again when both have gone. */
Test(framework_memory, free_neighbours_are_joined) {
    add(CLEAVE_BUFFER_ACTIVATION, 0, 0, 1, 20 * MIB);
    add(CLEAVE_BUFFER_ACTIVATION, 0, 2, 4, 10 * MIB);
    add(CLEAVE_BUFFER_ACTIVATION, 0, 2, 3, 10 * MIB);
    add(CLEAVE_BUFFER_ACTIVATION, 0, 6, 9, 20 * MIB);
    cr_expect_eq(memory().reserved_bytes, 20 * MIB);
    cr_expect_eq(memory().allocated_bytes, 20 * MIB);
}

/* ---- a step of ten items --------------------------------------------------------------------- */

/* At 0 nest 0 runs forward, at 1 nest 1, at 8 nest 1 runs backward.  From 3 to 5 there are 20 KiB
   of something else, which is then the most that lives at once. */
enum { N_ITEMS = 10, EXTENT = 1024 };
static cleave_tensor tensors[] = {{.rank = 1, .shape = {EXTENT}}, {.rank = 1, .shape = {EXTENT}}};
static cleave_nest nests[] = {{.n_inputs = 0}, {.kind = CLEAVE_NEST_POINTWISE, .n_inputs = 1}};
static const int32_t nests_of_it[] = {0, 1};
static cleave_operator operators[] = {{.n_nests = 2, .nests = nests_of_it}};
static cleave_item items[N_ITEMS];
static cleave_slot slots[1];
static cleave_compute computes[3];

static int32_t add_box(cleave_buffer_kind kind, int32_t first, int32_t last, int64_t extent) {
    int32_t b = add(kind, 0, first, last, 4 * extent);
    buffers[b].box.hi[0] = extent;
    return b;
}

static void begin_step(void) {
    model.tensors = tensors;
    model.nests = nests;
    model.n_nests = 2;
    model.operators = operators;
    program.items = items;
    program.n_items = N_ITEMS;
    program.slots = slots;
    program.n_slots = 1;
    program.computes = computes;
    program.n_computes = 3;
    for (int i = 0; i < N_ITEMS; i++)
        items[i].kind = CLEAVE_ITEM_SYNC;
    static const int at[] = {0, 1, 8};
    for (int i = 0; i < 3; i++) {
        items[at[i]] = (cleave_item){.kind = CLEAVE_ITEM_COMPUTE, .subject = i};
        computes[i] =
            (cleave_compute){.nest = i > 0,
                             .pass = i < 2 ? CLEAVE_PASS_FORWARD : CLEAVE_PASS_INPUT_GRADIENT,
                             .inputs = {-1},
                             .output = -1,
                             .input_gradients = {-1}};
    }
    buffers[add(CLEAVE_BUFFER_ACTIVATION, 0, 3, 5, 20 * KIB)].tensor = 1;
}

/* Of 4 KiB that were put together of this device's 1 and those of others, that 1 is kept. */
Test(framework_memory, what_is_gathered_is_gathered_again) {
    begin_step();
    computes[0].output = add_box(CLEAVE_BUFFER_ACTIVATION, 0, 0, EXTENT / 4);
    computes[1].inputs[0] = computes[2].inputs[0] = add_box(CLEAVE_BUFFER_ACTIVATION, 1, 9, EXTENT);
    cr_expect_eq(bytes(), 21 * KIB);
    buffers[computes[0].output].box.hi[0] = EXTENT + 1; /* no part of it */
    cr_expect_eq(bytes(), 24 * KIB);
}

/* Scores of 4 KiB give weights of 4: the scores go.  Where the weights are dropped out at once, the
   scores stand for what they were, and each of 1,024 elements has a byte in a mask. */
Test(framework_memory, softmaxes_keep_what_they_give) {
    static const cleave_opcode tape[] = {CLEAVE_OP_SUB, CLEAVE_OP_EXP, CLEAVE_OP_DIV,
                                         CLEAVE_OP_DROPOUT};
    begin_step();
    for (int i = 0; i < 4; i++)
        nests[1].tape[i].opcode = tape[i];
    nests[1].n_instructions = 3;
    computes[0].output = add_box(CLEAVE_BUFFER_ACTIVATION, 0, 9, EXTENT);
    computes[1].inputs[0] = computes[2].inputs[0] = computes[0].output;
    computes[1].output = add_box(CLEAVE_BUFFER_ACTIVATION, 1, 9, EXTENT);
    cr_expect_eq(bytes(), 24 * KIB);
    nests[1].n_instructions = 4;
    cr_expect_eq(bytes(), 29 * KIB);
}

/* Parameters of 4 KiB and their gradient, which is there from the beginning where the device has
   them whole; in bf16 where gradients are added up so. */
Test(framework_memory, whole_gradients_have_a_place_of_their_own) {
    begin_step();
    int32_t parameter = add_box(CLEAVE_BUFFER_PARAMETER, 0, 9, EXTENT);
    buffers[parameter].persistent = true;
    computes[2].input_gradients[0] = add_box(CLEAVE_BUFFER_GRADIENT, 8, 9, EXTENT);
    cr_expect_eq(bytes(), 28 * KIB);
    model.reduce_precision = CLEAVE_BF16;
    cr_expect_eq(bytes(), 26 * KIB);
    buffers[parameter].box.hi[0] = EXTENT / 2; /* a share */
    cr_expect_eq(bytes(), 24 * KIB);
}

/* Nest 0 is recomputed, and the product of what it gives is not: its 4 KiB, which go at 1, stay
   until its backward at 8 where no compiler sees that they are not read. */
Test(framework_memory, checkpoints_keep_products_that_nothing_reads) {
    static int32_t writer[] = {0, 1};
    begin_step();
    model.writer = writer;
    nests[1].kind = CLEAVE_NEST_PRODUCT;
    operators[0].main_nest = 1;
    tensors[0].kind = tensors[1].kind = CLEAVE_TENSOR_ACTIVATION;
    slots[0] = (cleave_slot){.nest = 0, .generation = 1};
    computes[1].output = add_box(CLEAVE_BUFFER_ACTIVATION, 1, 1, EXTENT);
    cr_expect_eq(bytes(), 20 * KIB);
    framework = CLEAVE_EAGER;
    cr_expect_eq(bytes(), 24 * KIB);
    slots[0].generation = 0;
    cr_expect_eq(bytes(), 20 * KIB);
}

/* The same where a third nest keeps it, in a copy of its own. */
Test(framework_memory, what_is_read_has_its_own_place) {
    static int32_t writer[] = {0, 1};
    static cleave_nest three[3];
    begin_step();
    memcpy(three, nests, sizeof nests);
    three[1].kind = CLEAVE_NEST_PRODUCT;
    three[2] = (cleave_nest){.n_inputs = 1, .inputs = {{.tensor = 1}}, .kept_inputs = 1};
    model.nests = three;
    model.n_nests = 3;
    model.writer = writer;
    operators[0].main_nest = 1;
    tensors[0].kind = tensors[1].kind = CLEAVE_TENSOR_ACTIVATION;
    slots[0] = (cleave_slot){.nest = 0, .generation = 1};
    computes[1].output = add_box(CLEAVE_BUFFER_ACTIVATION, 1, 1, EXTENT);
    framework = CLEAVE_EAGER;
    cr_expect_eq(bytes(), 20 * KIB);
    three[2].kept_inputs = 0;
    cr_expect_eq(bytes(), 24 * KIB);
}
