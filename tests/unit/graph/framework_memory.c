/* What a framework allocates for a program. */
#include "graph/program/framework_memory.h"

#include <criterion/criterion.h>

enum { KIB = 1024 };

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

static int64_t bytes(void) {
    int64_t found;
    cr_assert_eq(cleave_program_framework_bytes(&program, &found, NULL), CLEAVE_OK);
    return found;
}

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
