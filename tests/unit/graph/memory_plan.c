/* The memory plan: what lives at once lies apart, and little is lost. */
#include "graph/program/memory_plan.h"
#include "../../support/ok.h"

#include "base/random.h"

#include <criterion/criterion.h>
#include <string.h>

enum { N_CASES = 300, MOST_BUFFERS = 60, N_DEVICES = 2 };

static cleave_arena arena;
static cleave_buffer buffers[MOST_BUFFERS];
static cleave_program program;

static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(memory_plan, .fini = tear_down);

static void begin(int32_t n_items) {
    memset(buffers, 0, sizeof buffers);
    program = (cleave_program){.n_devices = N_DEVICES, .n_items = n_items, .buffers = buffers};
}

static void add(int32_t device, int32_t first, int32_t last, int64_t bytes) {
    int32_t b = program.n_buffers++;
    buffers[b] = (cleave_buffer){
        .device = device, .first = first, .last = last, .bytes = bytes, .storage = b};
}

static void plan(void) { OK(cleave_memory_plan, &program, NULL, &arena); }

/* Most bytes that live at once on a device: no plan can do with less. */
static int64_t most_alive(int32_t device) {
    int64_t most = 0;
    for (int32_t i = 0; i < program.n_items; i++) {
        int64_t alive = 0;
        for (int32_t b = 0; b < program.n_buffers; b++)
            if (buffers[b].device == device && buffers[b].first <= i && buffers[b].last >= i)
                alive += cleave_buffer_aligned(buffers[b].bytes);
        most = alive > most ? alive : most;
    }
    return most;
}

static bool lie_apart(const cleave_buffer *a, const cleave_buffer *b) {
    return a->device != b->device || a->last < b->first || b->last < a->first ||
           a->offset + cleave_buffer_aligned(a->bytes) <= b->offset ||
           b->offset + cleave_buffer_aligned(b->bytes) <= a->offset;
}

static void expect_sound(const char *what, int seed) {
    for (int32_t a = 0; a < program.n_buffers; a++) {
        cr_assert_eq(buffers[a].offset % CLEAVE_BUFFER_ALIGNMENT, 0);
        cr_assert_geq(buffers[a].offset, 0);
        cr_assert_leq(buffers[a].offset + buffers[a].bytes, program.peak_bytes[buffers[a].device]);
        for (int32_t b = 0; b < a; b++)
            cr_assert(buffers[a].bytes == 0 || buffers[b].bytes == 0 ||
                          lie_apart(&buffers[a], &buffers[b]),
                      "%s %d: buffers %d and %d overlap", what, seed, a, b);
    }
    for (int32_t d = 0; d < N_DEVICES; d++)
        cr_assert_geq(program.peak_bytes[d], most_alive(d), "%s %d", what, seed);
}

Test(memory_plan, what_lives_at_once_lies_apart) {
    for (uint64_t seed = 0; seed < N_CASES; seed++) {
        cleave_random random = {.key = cleave_hash64(seed)};
        begin(1 + (int32_t)cleave_random_below(&random, 40));
        int n = (int)cleave_random_below(&random, MOST_BUFFERS + 1);
        for (int i = 0; i < n; i++) {
            int32_t a = (int32_t)cleave_random_below(&random, program.n_items);
            int32_t b = (int32_t)cleave_random_below(&random, program.n_items);
            add((int32_t)cleave_random_below(&random, N_DEVICES), a < b ? a : b, a < b ? b : a,
                cleave_random_below(&random, 2) * cleave_random_below(&random, 1000));
        }
        plan();
        expect_sound("case", (int)seed);
    }
}

/* A large buffer passes, a small one that lives on goes into its place, and the next large one does
   not fit there any more: in the order of time they take 100 + 10 + 100 blocks, of which 120 live
   at most. */
Test(memory_plan, small_buffers_do_not_stand_in_the_way_of_large_ones) {
    enum { BLOCK = CLEAVE_BUFFER_ALIGNMENT };
    begin(5);
    for (int32_t d = 0; d < N_DEVICES; d++) {
        add(d, 0, 1, 100 * BLOCK);
        add(d, 0, 4, 10 * BLOCK);
        add(d, 2, 4, 10 * BLOCK);
        add(d, 3, 4, 100 * BLOCK);
    }
    plan();
    expect_sound("hand", 0);
    for (int32_t d = 0; d < N_DEVICES; d++)
        cr_expect_eq(program.peak_bytes[d], 120 * BLOCK);
}

/* Largest first, not smallest: by time, and from the smallest on, the one of 20 that lives to the
   end lies above the other two, and the one of 100 above that: 150. */
Test(memory_plan, the_largest_buffers_are_placed_first) {
    enum { BLOCK = CLEAVE_BUFFER_ALIGNMENT };
    begin(5);
    for (int32_t d = 0; d < N_DEVICES; d++) {
        add(d, 0, 1, 10 * BLOCK);
        add(d, 0, 1, 20 * BLOCK);
        add(d, 1, 4, 20 * BLOCK);
        add(d, 3, 4, 100 * BLOCK);
    }
    plan();
    expect_sound("hand", 1);
    for (int32_t d = 0; d < N_DEVICES; d++)
        cr_expect_eq(program.peak_bytes[d], 120 * BLOCK);
}
