/* The walk of a rank's lanes, over a world that is made here: a message arrives when it has been
   tested some times, so what happens when is counted and takes no clock.  What arrives is zeros.

   One rank of a perceptron's data-parallel step over two devices, with reference kernels. */
#include "exec/rank.h"
#include "../../support/ok.h"
#include "../../support/perceptron.h"
#include "base/progress.h"
#include "graph/lower/lower.h"

#include <criterion/criterion.h>
#include <string.h>

enum { TESTS_UNTIL_ARRIVAL = 3, PIECES = 5, MOST_REQUESTS = 256 };

struct cleave_world {
    int32_t rank;
    int64_t progressed; /* times that messages under way were carried on */
    int tests[MOST_REQUESTS];
    int64_t bytes[MOST_REQUESTS];
    bool posted[MOST_REQUESTS], receives[MOST_REQUESTS];
};

int32_t cleave_world_rank(const cleave_world *world) { return world->rank; }
void cleave_world_beat(cleave_world *world) { (void)world; }

cleave_status cleave_world_reserve(cleave_world *world, int32_t n_requests, cleave_error *error) {
    (void)world;
    (void)error;
    cr_assert(n_requests <= MOST_REQUESTS);
    return CLEAVE_OK;
}

static void post(cleave_world *world, int32_t request, int64_t bytes) {
    cr_expect(!world->posted[request], "request %d is posted twice", request);
    world->posted[request] = true;
    world->bytes[request] = bytes;
}

void cleave_world_send(cleave_world *world, int32_t request, const void *data, int64_t bytes,
                       int32_t to, int tag) {
    (void)data;
    (void)to;
    (void)tag;
    post(world, request, bytes);
}

void cleave_world_receive(cleave_world *world, int32_t request, void *data, int64_t bytes,
                          int32_t from, int tag) {
    (void)from;
    (void)tag;
    memset(data, 0, (size_t)bytes);
    post(world, request, bytes);
    world->receives[request] = true;
}

bool cleave_world_test(cleave_world *world, int32_t request, int64_t *received) {
    cr_expect(world->posted[request], "request %d is tested before it is posted", request);
    if (++world->tests[request] < TESTS_UNTIL_ARRIVAL)
        return false;
    cr_expect_eq(received != NULL, world->receives[request],
                 "request %d: MPI says of receives alone how long they are", request);
    if (received != NULL)
        *received = world->bytes[request];
    return true;
}

static const double progress_seconds = 1e-3;

void cleave_world_progress(cleave_world *world) {
    double begun = cleave_clock_seconds();
    while (cleave_clock_seconds() < begun + progress_seconds)
        ;
    world->progressed++;
}

typedef struct walked {
    int64_t polls, moved, sent, progressed;
    double polled_seconds;
    int32_t n_long;            /* computes of this rank that have pieces */
    int32_t n_main, n_forward; /* items of the main lane, computes before any message is posted */
    int32_t begun_within;      /* communication items that began while a compute ran */
    unsigned char *memory;     /* of the rank at the end */
    int64_t bytes;
} walked;

static cleave_status load(void *context, const cleave_buffer *buffer, int64_t step, void *data,
                          cleave_error *error) {
    (void)context;
    (void)step;
    (void)error;
    for (int64_t i = 0; i < buffer->bytes / 4; i++)
        ((float *)data)[i] = (float)(i % 17) / 16;
    return CLEAVE_OK;
}

static int32_t count_forward(const cleave_rank *rank) {
    int32_t n = 0;
    for (int32_t i = 0; i < rank->n_lane_items[CLEAVE_LANE_MAIN]; i++) {
        int32_t id = rank->lane_items[CLEAVE_LANE_MAIN][i];
        const cleave_item *item = &rank->program->items[id];
        n += item->kind == CLEAVE_ITEM_COMPUTE &&
             rank->program->computes[item->subject].pass == CLEAVE_PASS_FORWARD;
    }
    return n;
}

static int32_t count_begun_within(const cleave_rank *rank) {
    int32_t n = 0;
    const cleave_program *program = rank->program;
    for (int32_t c = 0; c < program->n_items; c++) {
        const cleave_item *item = &program->items[c];
        for (int32_t i = 0;
             item->device == 0 && item->lane == CLEAVE_LANE_COMMUNICATION && i < program->n_items;
             i++)
            n += program->items[i].device == 0 && program->items[i].kind == CLEAVE_ITEM_COMPUTE &&
                 rank->end[c] > rank->start[i] && rank->end[c] < rank->end[i];
    }
    return n;
}

/* The perceptron's step on two devices, each with half of the samples, or every other operator's
   with half of another axis. */
static cleave_program lower(bool by_turns, cleave_arena *arena) {
    cleave_model *model = CLEAVE_ARENA_ARRAY(arena, cleave_model, 1);
    *model = make_perceptron(arena, 4, 8, 6);
    cleave_layout layout;
    OK(cleave_layout_create, model, 2, arena, &layout);
    for (int32_t op = 0; op < model->n_operators; op++) {
        bool turned = by_turns && op % 2 != 0 && model->operators[op].n_axes > 1;
        layout.splits[op].degree[turned ? 1 : 0] = layout.splits[op].n_parts = 2;
        layout.splits[op].devices = CLEAVE_ARENA_ARRAY(arena, int32_t, 2);
        layout.splits[op].devices[1] = 1;
    }
    cleave_lower_options options = {.training = true};
    cleave_program program;
    OK(cleave_lower, model, &layout, &options, arena, &program);
    return program;
}

static walked walk_as(int32_t pieces, int64_t copied_bytes, bool no_overlap, cleave_arena *arena) {
    cleave_error error = {""};
    cleave_program program = lower(false, arena);
    walked result = {0};
    for (int32_t c = 0; c < program.n_computes; c++) {
        program.computes[c].pieces = pieces;
        result.n_long += program.computes[c].part.device == 0;
    }
    for (int32_t c = 0; c < program.n_copies; c++)
        program.copies[c].bytes += copied_bytes; /* which only says where it is cut */
    cleave_world world = {0};
    cleave_run_options options = {.reference_kernels = true,
                                  .no_overlap = no_overlap,
                                  .optimizer = cleave_optimizer_default(CLEAVE_OPTIMIZER_SGD)};
    cleave_rank rank;
    OK(cleave_rank_create_within, &rank, &world, &program, &options, arena);
    OK(cleave_rank_new_memory, &rank, &rank.memory);
    rank.load = load;
    for (int32_t b = 0; b < program.n_buffers; b++)
        if (program.buffers[b].device == 0 && program.buffers[b].kind == CLEAVE_BUFFER_PARAMETER)
            load(NULL, &program.buffers[b], 0, cleave_rank_buffer(&rank, b), &error);
    OK(cleave_rank_step, &rank, 0);
    result.polls = rank.n_polls;
    result.moved = rank.n_polls_that_moved;
    result.progressed = world.progressed;
    result.polled_seconds = rank.polled_seconds;
    result.sent = rank.sent[1];
    result.begun_within = count_begun_within(&rank);
    result.n_main = rank.n_lane_items[CLEAVE_LANE_MAIN];
    result.n_forward = count_forward(&rank);
    result.bytes = program.peak_bytes[0];
    result.memory = cleave_arena_alloc(arena, (size_t)result.bytes, 1);
    memcpy(result.memory, rank.memory, (size_t)result.bytes);
    cleave_rank_destroy(&rank);
    return result;
}

static walked walk(int32_t pieces, cleave_arena *arena) { return walk_as(pieces, 0, false, arena); }

/* Every product has at least 5 points, so 4 polls each. */
Test(rank, the_communication_lane_advances_within_a_long_kernel) {
    cleave_arena arena = {0};
    walked cut = walk(PIECES, &arena);
    cr_expect_eq(cut.polls, (int64_t)(PIECES - 1) * cut.n_long);
    cr_expect(cut.moved > 0, "no poll carried the lane on");
    cr_expect(cut.begun_within > 0, "no item of the lane ended while a kernel ran");
    cr_expect(cut.sent > 0);
    cr_expect(cut.polled_seconds >= progress_seconds * (double)cut.polls, "taken for kernels");
    cleave_arena_free(&arena);
}

Test(rank, whole_kernels_are_not_interrupted) {
    cleave_arena arena = {0};
    walked whole = walk(1, &arena);
    cr_expect_eq(whole.polls, 0);
    cr_expect_eq(whole.begun_within, 0);
    cleave_arena_free(&arena);
}

/* Between two items or within one: the lane does the same to the same memory. */
Test(rank, pieces_change_no_byte) {
    cleave_arena arena = {0};
    walked whole = walk(1, &arena), cut = walk(PIECES, &arena);
    cr_assert_eq(whole.bytes, cut.bytes);
    cr_expect(memcmp(whole.memory, cut.memory, (size_t)whole.bytes) == 0);
    cr_expect_eq(whole.sent, cut.sent);
    cleave_arena_free(&arena);
}

/* Also those of the communication lane, within which nothing of the lane can be done. */
Test(rank, messages_go_on_within_a_long_copy) {
    enum { LONG = 1 << 25 };
    cleave_arena arena = {0};
    walked whole = walk(1, &arena), cut = walk_as(1, LONG, false, &arena);
    cr_expect(cut.progressed > whole.progressed);
    cr_expect(cut.progressed > cut.polls, "not in the communication lane's own");
    cr_assert_eq(whole.bytes, cut.bytes);
    cr_expect(memcmp(whole.memory, cut.memory, (size_t)whole.bytes) == 0);
    cr_expect_eq(walk_as(1, LONG, true, &arena).progressed, 0);
    cleave_arena_free(&arena);
}

/* A transport works only while it is called: after each item of the main lane, as long as something
   is under way, which it is not in forward. */
Test(rank, messages_go_on_between_items) {
    cleave_arena arena = {0};
    walked whole = walk(1, &arena);
    cr_expect_gt(whole.progressed, 0);
    cr_expect_leq(whole.progressed, whole.n_main - whole.n_forward);
    cr_expect_eq(walk_as(1, 0, true, &arena).progressed, 0);
    cleave_arena_free(&arena);
}

/* How many of a rank's receives stand behind copies that come later in the program.  Every item is
   there once, in program order but for receives that a message to the same rank would follow with
   nothing between but posts and copies: they stand behind that. */
static int32_t check_order(const cleave_rank *rank) {
    int32_t n_items = 0, behind_copies = 0, n_behind = 0;
    const cleave_program *program = rank->program;
    for (int lane = 0; lane < CLEAVE_N_LANES; lane++) {
        bool receives = false; /* a receive was posted since something that may wait */
        int32_t last = -1;
        for (int32_t i = 0; i < rank->n_lane_items[lane]; i++, n_items++) {
            int32_t id = rank->lane_items[lane][i];
            const cleave_item *item = &program->items[id];
            if (item->kind == CLEAVE_ITEM_RECEIVE) {
                receives = true;
                n_behind += id < last;
                for (int32_t j = 0; j < i; j++)
                    behind_copies +=
                        rank->lane_items[lane][j] > id &&
                        program->items[rank->lane_items[lane][j]].kind == CLEAVE_ITEM_COPY;
                continue;
            }
            cr_expect(id > last, "item %d after %d", id, last);
            last = id;
            if (item->kind == CLEAVE_ITEM_SEND)
                cr_expect_not(receives);
            else if (item->kind != CLEAVE_ITEM_COPY)
                receives = false;
        }
    }
    int32_t n_own = 0;
    for (int32_t i = 0; i < program->n_items; i++)
        n_own += program->items[i].device == rank->device;
    cr_expect_eq(n_items, n_own);
    cr_expect(n_behind > 0 || rank->device == 0, "no receive had to go behind a message");
    return behind_copies;
}

Test(rank, messages_are_posted_before_receives_from_the_same_rank) {
    cleave_arena arena = {0};
    cleave_run_options options = {.reference_kernels = true};
    int32_t behind_copies = 0;
    for (int by_turns = 0; by_turns < 2; by_turns++) {
        cleave_program program = lower(by_turns != 0, &arena);
        for (int32_t device = 0; device < 2; device++) {
            cleave_world world = {.rank = device};
            cleave_rank rank;
            OK(cleave_rank_create_within, &rank, &world, &program, &options, &arena);
            behind_copies += check_order(&rank);
            cleave_rank_destroy(&rank);
        }
    }
    cr_expect(behind_copies > 0);
    cleave_arena_free(&arena);
}
