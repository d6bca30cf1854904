/* What a framework allocates for a program. */
#include "graph/program/framework_memory.h"

#include <criterion/criterion.h>

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

static cleave_framework_memory memory(void) {
    cleave_framework_memory found;
    cr_assert_eq(cleave_program_framework_memory(&program, &found, NULL), CLEAVE_OK);
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
