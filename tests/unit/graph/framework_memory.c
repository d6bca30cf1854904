/* What a framework allocates for a program. */
#include "graph/program/framework_memory.h"
#include "../../support/ok.h"
#include "graph/program/caching_allocator.h"

#include <criterion/criterion.h>
#include <string.h>

enum { KIB = 1024, MIB = 1024 * KIB };

static cleave_buffer buffers[32];
static cleave_tensor plain[2];
static cleave_model model = {.n_tensors = 2, .tensors = plain};
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
    OK(cleave_program_framework_memory, &program, framework, &found);
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

/* A framework's sender waits at once: what is sent at 3 lives no longer, wherever ours waits, but
   where something else needs it. */
Test(framework_memory, what_is_sent_to_a_stage_goes_when_it_has_left) {
    cleave_item ten[10] = {[8] = {.kind = CLEAVE_ITEM_WAIT}};
    cleave_message message = {.destination = 1, .send_item = 3};
    message.source_buffer = add(CLEAVE_BUFFER_ACTIVATION_GRADIENT, 0, 2, 8, 8 * KIB);
    add(CLEAVE_BUFFER_ACTIVATION, 0, 5, 7, 20 * KIB);
    program.items = ten;
    program.messages = &message;
    cr_expect_eq(bytes(), 28 * KIB);
    program.n_messages = 1;
    cr_expect_eq(bytes(), 20 * KIB);
    ten[8].kind = CLEAVE_ITEM_COPY;
    cr_expect_eq(bytes(), 28 * KIB);
}

/* 1 MiB is of a segment of 2, 3 MiB of one of 20 and 11 MiB one of 12.  When these 11 go, 10 MiB
   find the 12 too large by more than 1 MiB, whose rest is split off and takes 1.5 MiB more; 12 MiB
   that come then need a segment of their own. */
Test(framework_memory, segments_are_kept_and_split) {
    static const struct {
        int64_t bytes, reserved;
    } asked[] = {{1 * MIB, 2 * MIB},   {3 * MIB, 22 * MIB},  {16 * MIB, 22 * MIB},
                 {11 * MIB, 34 * MIB}, {10 * MIB, 34 * MIB}, {3 * MIB / 2, 34 * MIB},
                 {12 * MIB, 46 * MIB}};
    cleave_caching_allocator allocator = {0};
    for (int i = 0; i < 7; i++) {
        int32_t block = cleave_caching_allocate(&allocator, asked[i].bytes, CLEAVE_STREAM_COMPUTE);
        cr_assert_geq(block, 0);
        cr_expect_eq(allocator.reserved_bytes, asked[i].reserved, "%d", i);
        if (asked[i].bytes == 11 * MIB)
            cr_assert(cleave_caching_release(&allocator, block));
    }
    cleave_caching_allocator_end(&allocator);
}

/* The next step takes the smallest that fits, and so 3 MiB of the 12, behind which 11 find no room;
   from then on it is the same again. */
Test(framework_memory, steps_follow_until_they_ask_for_nothing_more) {
    add(CLEAVE_BUFFER_ACTIVATION, 0, 0, 9, 3 * MIB);
    add(CLEAVE_BUFFER_ACTIVATION, 0, 0, 9, 16 * MIB);
    cr_expect_eq(memory().reserved_bytes, 20 * MIB);
    add(CLEAVE_BUFFER_ACTIVATION, 0, 0, 4, 11 * MIB);
    cr_expect_eq(memory().reserved_bytes, 44 * MIB);
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

/* What a stream has let go, its own next one finds, and another's does not. */
Test(framework_memory, streams_have_blocks_of_their_own) {
    cleave_caching_allocator allocator = {0};
    cr_assert(cleave_caching_release(&allocator, cleave_caching_allocate(&allocator, 30 * MIB, 0)));
    cr_assert_geq(cleave_caching_allocate(&allocator, 30 * MIB, 1), 0);
    cr_expect_eq(allocator.reserved_bytes, 60 * MIB);
    cr_assert_geq(cleave_caching_allocate(&allocator, 30 * MIB, 0), 0);
    cr_expect_eq(allocator.reserved_bytes, 60 * MIB);
    cleave_caching_allocator_end(&allocator);
}

/* ---- a step of ten items --------------------------------------------------------------------- */

/* At 0 nest 0 runs forward, at 1 nest 1, at 8 nest 1 runs backward.  From 3 to 5 there are 20 KiB
   of something else, which is then the most that lives at once. */
enum { N_ITEMS = 10, EXTENT = 1024 };
static cleave_tensor tensors[] = {{.rank = 1, .shape = {EXTENT}}, {.rank = 1, .shape = {EXTENT}}};
static cleave_nest nests[] = {{.n_inputs = 0}, {.kind = CLEAVE_NEST_POINTWISE, .n_inputs = 1}};
static const int32_t nests_of_it[] = {0, 1};
static cleave_operator operators[] = {{.name = "", .type = "", .n_nests = 2, .nests = nests_of_it}};
static cleave_item items[N_ITEMS];
static cleave_slot slots[2];
static cleave_compute computes[3];

static int32_t no_writer[] = {-1, -1, -1};

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
    model.writer = no_writer;
    program.items = items;
    program.n_items = N_ITEMS;
    program.slots = slots;
    program.n_slots = 2;
    program.computes = computes;
    program.n_computes = 3;
    for (int i = 0; i < N_ITEMS; i++)
        items[i].kind = CLEAVE_ITEM_SYNC;
    static const int at[] = {0, 1, 8};
    for (int i = 0; i < 3; i++) {
        items[at[i]] = (cleave_item){.kind = CLEAVE_ITEM_COMPUTE, .slot = 1, .subject = i};
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
    add_box(CLEAVE_BUFFER_ACTIVATION, 9, 9, 2 * EXTENT); /* of the same, with what others gave */
    cr_expect_eq(bytes(), 30 * KIB);
}

/* Backward of the norm reads 4 KiB that were written here, or its result; what came from elsewhere
   stays. */
Test(framework_memory, norms_may_keep_what_they_give) {
    begin_step();
    operators[0].type = "LayerNormalization";
    computes[0].output = add_box(CLEAVE_BUFFER_ACTIVATION, 0, 9, EXTENT);
    computes[1].inputs[0] = computes[2].inputs[0] = computes[0].output;
    framework = CLEAVE_MEGATRON_DEEPSPEED_TORCH_NORM;
    cr_expect_eq(bytes(), 24 * KIB);
    framework = CLEAVE_MEGATRON_DEEPSPEED;
    cr_expect_eq(bytes(), 20 * KIB);
    computes[0].output = -1;
    cr_expect_eq(bytes(), 24 * KIB);
}

/* 40 MiB that go leave a block in which the optimizer makes its 30; the next step's 40 need
   another. Where states are there from the beginning these are the only one. */
Test(framework_memory, states_are_made_by_the_first_update) {
    begin_step();
    program.n_buffers = 0;
    buffers[add(CLEAVE_BUFFER_STATE, 0, 0, 9, 30 * MIB)].persistent = true;
    add(CLEAVE_BUFFER_ACTIVATION, 0, 0, 4, 40 * MIB);
    framework = CLEAVE_EAGER;
    cr_expect_eq(bytes(), 70 * MIB);
    cr_expect_eq(memory().reserved_bytes, 80 * MIB);
    framework = CLEAVE_MIST;
    cr_expect_eq(memory().reserved_bytes, 70 * MIB);
}

/* 30 MiB that are all-reduced at 0 leave a block that 30 others at 1 can't have, while forward goes
   on; those at 9 can. */
Test(framework_memory, what_is_sent_is_held_while_the_host_is_ahead) {
    static const int32_t all[] = {0};
    static cleave_collective reduced = {.n_devices = 1, .devices = all, .tensor = 0};
    begin_step();
    program.n_buffers = 0;
    program.collectives = &reduced;
    add(CLEAVE_BUFFER_ACTIVATION, 0, 0, 0, 30 * MIB);
    buffers[add(CLEAVE_BUFFER_ACTIVATION, 0, 1, 1, 30 * MIB)].tensor = 1;
    framework = CLEAVE_MEGATRON_DEEPSPEED;
    cr_expect_eq(memory().reserved_bytes, 30 * MIB);
    program.n_collectives = 1;
    cr_expect_eq(memory().reserved_bytes, 60 * MIB);
    cr_expect_eq(bytes(), 30 * MIB);
    buffers[add(CLEAVE_BUFFER_ACTIVATION, 0, 9, 9, 30 * MIB)].tensor = 1;
    cr_expect_eq(memory().reserved_bytes, 60 * MIB);
}

/* Parameters of 4 KiB and their gradient, which is there from the beginning where the device has
   them whole; in bf16 where gradients are added up so. */
Test(framework_memory, whole_gradients_have_a_place_of_their_own) {
    begin_step();
    framework = CLEAVE_MEGATRON;
    int32_t parameter = add_box(CLEAVE_BUFFER_PARAMETER, 0, 9, EXTENT);
    buffers[parameter].persistent = true;
    computes[2].input_gradients[0] = add_box(CLEAVE_BUFFER_GRADIENT, 8, 9, EXTENT);
    cr_expect_eq(bytes(), 28 * KIB);
    model.reduce_precision = CLEAVE_BF16;
    cr_expect_eq(bytes(), 26 * KIB);
    buffers[parameter].box.hi[0] = EXTENT / 2; /* a share */
    cr_expect_eq(bytes(), 24 * KIB);
}

/* A gradient of 4 KiB beside parameters of 4: at 8 it comes, and DDP has a copy of it all the time,
   DeepSpeed where it has all-reduced it, at 9. */
Test(framework_memory, gradients_are_copied_where_they_are_reduced) {
    static cleave_copy copies[1] = {{.chore = CLEAVE_CHORE_BUCKET, .chore_bytes = 8 * EXTENT}};
    begin_step();
    program.copies = copies;
    program.n_copies = 1;
    buffers[add_box(CLEAVE_BUFFER_PARAMETER, 0, 9, EXTENT)].persistent = true;
    computes[2].input_gradients[0] = add_box(CLEAVE_BUFFER_GRADIENT, 8, 9, EXTENT);
    buffers[add(CLEAVE_BUFFER_ACTIVATION, 0, 8, 8, 30 * KIB)].tensor = 1;
    framework = CLEAVE_COMPILED;
    cr_expect_eq(bytes(), 38 * KIB, "nothing is reduced");
    items[9] = (cleave_item){.kind = CLEAVE_ITEM_COPY, .subject = 0};
    cr_expect_eq(bytes(), 42 * KIB);
    framework = CLEAVE_MEGATRON_DEEPSPEED;
    model.writer = no_writer;
    cr_expect_eq(bytes(), 38 * KIB);
    buffers[add(CLEAVE_BUFFER_ACTIVATION, 0, 9, 9, 30 * KIB)].tensor = 1;
    cr_expect_eq(bytes(), 42 * KIB);
    items[9].kind = CLEAVE_ITEM_SYNC;
    cr_expect_eq(bytes(), 42 * KIB, "with one replica, too");
}

/* Scores of 4 KiB have a gradient of 4, before and behind a mask that is filled in a view: two more
   of these at once, or three where both lie in one place. */
Test(framework_memory, masks_that_are_filled_copy_their_gradient) {
    begin_step();
    program.n_buffers = 0;
    model.writer = no_writer;
    nests[1].n_instructions = 1;
    nests[1].tape[0].opcode = CLEAVE_OP_INDEX;
    int32_t in = add_box(CLEAVE_BUFFER_ACTIVATION_GRADIENT, 7, 8, EXTENT);
    int32_t out = add_box(CLEAVE_BUFFER_ACTIVATION_GRADIENT, 8, 9, EXTENT);
    computes[0].output_gradient = computes[1].output_gradient = -1;
    computes[2].output_gradient = in;
    computes[2].input_gradients[0] = out;
    framework = CLEAVE_EAGER;
    cr_expect_eq(bytes(), 8 * KIB);
    framework = CLEAVE_MEGATRON_DEEPSPEED;
    cr_expect_eq(bytes(), 16 * KIB);
    buffers[out].storage = in;
    buffers[in].last = 9;
    cr_expect_eq(bytes(), 16 * KIB);
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

/* ---- losses ---------------------------------------------------------------------------------- */

/* 2 KiB of logits in bf16 that nest 1 reads, and their gradient, from 8 on.  Forward ends at 1. */
static void begin_loss(void) {
    begin_step();
    program.n_buffers = 0; /* nothing else */
    operators[0].type = "SoftmaxCrossEntropy";
    for (int i = 0; i < 2; i++)
        nests[i].n_inputs = 1;
    int32_t logits = add_box(CLEAVE_BUFFER_ACTIVATION, 0, 8, EXTENT);
    int32_t gradient = add_box(CLEAVE_BUFFER_ACTIVATION_GRADIENT, 8, 9, EXTENT);
    for (int32_t b = logits; b <= gradient; b++) {
        buffers[b].type = CLEAVE_BF16;
        buffers[b].bytes = 2 * KIB;
    }
    for (int i = 0; i < 3; i++)
        computes[i].inputs[0] = logits;
    computes[2].input_gradients[0] = gradient;
}

/* In KiB: torch makes 4 of the 2 and 4 more of these, which wait; then there are 3 x 4, and the
   gradient of 2 comes when they go.  Of torchtitan's logits none are left by then. */
Test(framework_memory, losses_of_torch_are_in_f32) {
    begin_loss();
    framework = CLEAVE_TORCHTITAN;
    cr_expect_eq(bytes(), 12 * KIB);
    add(CLEAVE_BUFFER_ACTIVATION, 0, 1, 1, 3 * KIB);
    cr_expect_eq(bytes(), 13 * KIB, "2 + 4 + 4 + 3");
}

/* Megatron-core works in the 4 that 2 became; older ones make 4 of these; fused ones in the 2. */
Test(framework_memory, losses_of_megatron_give_the_gradient_in_their_place) {
    begin_loss();
    framework = CLEAVE_MEGATRON;
    cr_expect_eq(bytes(), 6 * KIB);
    framework = CLEAVE_MEGATRON_DEEPSPEED;
    cr_expect_eq(bytes(), 12 * KIB, "2 + 4 + 4, and 2 of the step before");
    framework = CLEAVE_MEGATRON_FUSED;
    cr_expect_eq(bytes(), 2 * KIB);
    add(CLEAVE_BUFFER_ACTIVATION, 0, 5, 5, 20 * KIB);
    cr_expect_eq(bytes(), 22 * KIB);
    framework = CLEAVE_MEGATRON_DEEPSPEED;
    cr_expect_eq(bytes(), 26 * KIB, "the 2 wait, too");
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

/* Of a layer the first and the last operator are recomputed, and an element-wise one between them
   is not: what it gives, 4 KiB, goes behind forward, and is there again when backward begins. */
Test(framework_memory, layers_keep_what_products_give_alone) {
    static const int32_t of_each[] = {0, 1, 2};
    static cleave_nest three[3];
    static cleave_operator layer[3] = {
        {.name = "h.0.a", .type = "", .n_nests = 1, .nests = of_each},
        {.name = "h.0.b", .type = "", .n_nests = 1, .nests = of_each + 1},
        {.name = "h.0.c", .type = "", .n_nests = 1, .nests = of_each + 2}};
    begin_step();
    for (int i = 0; i < 3; i++)
        three[i] = (cleave_nest){.kind = CLEAVE_NEST_POINTWISE, .op = i, .n_inputs = i > 0};
    model.nests = three;
    model.n_nests = 3;
    model.operators = layer;
    model.n_operators = 3;
    program.n_slots = 2;
    slots[0] = (cleave_slot){.nest = 2, .generation = 1};
    slots[1] = (cleave_slot){.nest = 0, .generation = 1};
    static cleave_slot forward[3];
    program.slots = forward;
    program.n_slots = 3;
    forward[0] = slots[0];
    forward[1] = (cleave_slot){.nest = 1};
    forward[2] = slots[1];
    computes[0].nest = computes[1].nest = 1;
    computes[0].output = computes[2].inputs[0] = add_box(CLEAVE_BUFFER_ACTIVATION, 0, 9, EXTENT);
    computes[2].nest = 2;
    cr_expect_eq(bytes(), 20 * KIB, "20 that are there meanwhile");
    three[1].kind = CLEAVE_NEST_PRODUCT;
    cr_expect_eq(bytes(), 24 * KIB);
}

/* ---- weights that are gathered --------------------------------------------------------------- */

/* Two layers and a head of 1,024 weights each, of which a device has 256 in f32; forward reads the
   head's at 0 and 6 (it is tied), the layers' at 2 and 4, backward at 8, 10 and 12, and the head's
   until 14.  Gradients are of bf16 and summed in f32. */
enum { N_STEPS = 20 };
static cleave_tensor weights[] = {
    {.name = "head", .kind = CLEAVE_TENSOR_PARAMETER, .rank = 1, .shape = {EXTENT}},
    {.name = "h.0.w", .kind = CLEAVE_TENSOR_PARAMETER, .rank = 1, .shape = {EXTENT}},
    {.name = "h.1.w", .kind = CLEAVE_TENSOR_PARAMETER, .rank = 1, .shape = {EXTENT}}};
static cleave_item steps[N_STEPS];
static cleave_slot passes[2] = {{.nest = 0}, {.nest = 0}};
static cleave_compute reads[8];
static cleave_nest reader[] = {{.n_inputs = 1}};

static int32_t add_weights(cleave_buffer_kind kind, int32_t tensor, int32_t first, int32_t last) {
    int32_t b = add(kind, 0, first, last, 2 * EXTENT);
    buffers[b].tensor = tensor;
    buffers[b].box.hi[0] = EXTENT;
    buffers[b].type = CLEAVE_BF16;
    return b;
}

static void begin_gathering(void) {
    static const struct {
        int item, tensor;
        bool backward;
    } at[] = {{0, 0, false}, {2, 1, false}, {4, 2, false}, {6, 0, false},
              {8, 0, true},  {10, 2, true}, {12, 1, true}, {14, 0, true}};
    framework = CLEAVE_EAGER;
    model = (cleave_model){.n_tensors = 3,
                           .tensors = weights,
                           .nests = reader,
                           .n_nests = 1,
                           .operators = operators,
                           .writer = no_writer};
    program.items = steps;
    program.n_items = N_STEPS;
    program.slots = passes;
    program.n_slots = 2;
    program.computes = reads;
    program.n_computes = 8;
    for (int t = 0; t < 3; t++) {
        weights[t].stored = CLEAVE_BF16;
        weights[t].needs_gradient = true;
    }
    for (int i = 0; i < N_STEPS; i++)
        steps[i].kind = CLEAVE_ITEM_SYNC;
    for (int i = 0; i < 8; i++) {
        int32_t item = at[i].item;
        steps[item] = (cleave_item){.kind = CLEAVE_ITEM_COMPUTE, .subject = i};
        reads[i] = (cleave_compute){
            .pass = at[i].backward ? CLEAVE_PASS_INPUT_GRADIENT : CLEAVE_PASS_FORWARD,
            .inputs = {add_weights(CLEAVE_BUFFER_PARAMETER, at[i].tensor, item, item)},
            .output = -1,
            .input_gradients = {-1}};
        if (at[i].backward && i != 4)
            reads[i].input_gradients[0] =
                add_weights(CLEAVE_BUFFER_GRADIENT, at[i].tensor, item, item);
    }
}

/* What lives at an item besides what something of 100 KiB there is. */
static int64_t kib_at(int32_t item) {
    add(CLEAVE_BUFFER_ACTIVATION, 0, item, item, 100 * KIB);
    int64_t found = bytes() / KIB - 100;
    program.n_buffers--;
    return found;
}

/* In KiB, of 2 a layer and 2 the head.  FSDP2 has the vector beside the copies: 2 + 2 of the head,
   then its copies and 4 of a layer.  When forward of the layers is over the last vector stays until
   the head is through: 2 + 2.  Backward of layer 1 (10) there are its copies, its gradient and the
   vector of layer 0; of layer 0 its copies and gradient, and 4 that layer 1 sums.  The head's
   gradient comes beside 4 that layer 0 sums; then its own 4 are summed. */
Test(framework_memory, fsdp_gathers_layers_and_the_rest_as_one) {
    begin_gathering();
    cr_expect_eq(kib_at(0), 4);
    cr_expect_eq(kib_at(2), 6);
    cr_expect_eq(kib_at(3), 4, "the vector of layer 0 stays");
    cr_expect_eq(kib_at(6), 4);
    cr_expect_eq(kib_at(7), 2);
    cr_expect_eq(kib_at(8), 4, "that of layer 1 is asked for");
    cr_expect_eq(kib_at(10), 8);
    cr_expect_eq(kib_at(12), 10);
    cr_expect_eq(kib_at(14), 8);
    cr_expect_eq(kib_at(15), 4);
    cr_expect_eq(kib_at(16), 0);
}

/* torchtitan's last layer stays for its backward, and need not be asked for. */
Test(framework_memory, a_last_layer_may_stay) {
    begin_gathering();
    framework = CLEAVE_TORCHTITAN;
    cr_expect_eq(kib_at(5), 6);
    cr_expect_eq(kib_at(7), 4);
    cr_expect_eq(kib_at(10), 8);
}

/* Views of the vector take nothing; backward the next layer's vector is there beside. */
Test(framework_memory, views_need_no_copies) {
    begin_gathering();
    framework = CLEAVE_LLM_FOUNDRY;
    cr_expect_eq(kib_at(0), 2);
    cr_expect_eq(kib_at(2), 4);
    cr_expect_eq(kib_at(3), 2);
    cr_expect_eq(kib_at(10), 8);
}

/* A share that is computed with is made of the exact one when it is gathered. */
Test(framework_memory, shares_lie_in_the_exact_type_alone) {
    begin_gathering();
    int64_t without = bytes();
    int32_t share = add_weights(CLEAVE_BUFFER_PARAMETER, 1, 0, N_STEPS - 1);
    buffers[share].persistent = true;
    cr_expect_eq(bytes(), without);
    buffers[share].type = CLEAVE_F32;
    cr_expect_eq(bytes(), without + 2 * KIB);
}
