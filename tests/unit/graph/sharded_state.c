/* Sharded gradients and weights on a perceptron of `LAYERS` weights of WIDTH x WIDTH floats, data
   parallel over P devices: what is sent, what is kept, and what is there at once. */
#include "../../support/ok.h"
#include "../../support/perceptron.h"
#include "graph/lower/lower.h"

#include <string.h>

enum { P = 4, LAYERS = 16, WIDTH = 32, BATCH = 16, WEIGHT_BYTES = WIDTH * WIDTH * 4 };

typedef struct lowered {
    cleave_arena arena;
    cleave_model model;
    cleave_layout layout;
    cleave_program program;
} lowered;

/* Of every parameter so much is sharded; with one optimizer state.  All is split along the axis. */
static void lower_along(lowered *of, int axis, cleave_sharded sharded, int32_t micro_batches,
                        bool recomputes) {
    static int32_t devices[P] = {0, 1, 2, 3};
    int32_t degree[CLEAVE_MAX_AXES] = {0};
    degree[axis] = P;
    *of = (lowered){0};
    of->model = make_perceptron(&of->arena, LAYERS, BATCH, WIDTH);
    OK(cleave_layout_create, &of->model, P, &of->arena, &of->layout);
    for (int32_t op = 0; op < of->model.n_operators; op++) {
        OK(cleave_layout_set, &of->layout, op, 1, degree, devices, &of->arena);
        of->layout.recompute[op] = recomputes;
    }
    for (int32_t t = 0; t < of->model.n_tensors; t++)
        if (of->model.tensors[t].kind == CLEAVE_TENSOR_PARAMETER)
            of->layout.sharded[t] = (uint8_t)sharded;
    of->layout.schedule.micro_batches = micro_batches;
    OK(cleave_layout_check, &of->model, &of->layout);
    cleave_lower_options options = {.training = true, .optimizer_states = 1};
    OK(cleave_lower, &of->model, &of->layout, &options, &of->arena, &of->program);
    OK(cleave_program_check, &of->program);
}

static void lower(lowered *of, cleave_sharded sharded, int32_t micro_batches, bool recomputes) {
    lower_along(of, 0, sharded, micro_batches, recomputes);
}

/* Of parameters: in units of a reduce-scatter, or an all-gather, of one weight. */
static double sent(const lowered *of) {
    int64_t bytes = 0;
    for (int32_t i = 0; i < of->program.n_messages; i++)
        if (of->model.tensors[of->program.messages[i].tensor].kind == CLEAVE_TENSOR_PARAMETER)
            bytes += of->program.messages[i].bytes;
    return (double)bytes / ((P - 1) * WEIGHT_BYTES);
}

/* On a device, in weights. */
static double kept(const lowered *of, int32_t device) {
    int64_t bytes = 0;
    for (int32_t b = 0; b < of->program.n_buffers; b++) {
        const cleave_buffer *buffer = &of->program.buffers[b];
        bool is_state =
            buffer->kind == CLEAVE_BUFFER_PARAMETER || buffer->kind == CLEAVE_BUFFER_STATE;
        bytes += buffer->device == device && buffer->persistent && is_state ? buffer->bytes : 0;
    }
    return (double)bytes / WEIGHT_BYTES;
}

/* The most whole weights, or gradients of such, of a kind that are there at once on a device. */
static int most_at_once(const lowered *of, cleave_buffer_kind kind) {
    const cleave_program *program = &of->program;
    int most = 0;
    for (int32_t a = 0; a < program->n_buffers; a++) {
        const cleave_buffer *at = &program->buffers[a];
        int n = 0;
        for (int32_t b = 0; b < program->n_buffers && at->kind == kind; b++) {
            const cleave_buffer *other = &program->buffers[b];
            n += other->kind == kind && other->device == at->device &&
                 other->bytes == WEIGHT_BYTES && other->first <= at->first &&
                 other->last >= at->first;
        }
        most = n > most ? n : most;
    }
    return most;
}

Test(sharded_state, moves_for_every_micro_batch_and_no_more) {
    static const int32_t counts[] = {1, 2, 4};
    for (int i = 0; i < 3; i++) {
        static lowered of;
        int32_t m = counts[i];
        /* Once a step a reduce-scatter and an all-gather, whether the update is sharded or not. */
        lower(&of, CLEAVE_SHARDED_NOTHING, m, false);
        cr_expect_float_eq(sent(&of), 2 * LAYERS, 0);
        cleave_arena_free(&of.arena);
        lower(&of, CLEAVE_SHARDED_UPDATE, m, false);
        cr_expect_float_eq(sent(&of), 2 * LAYERS, 0);
        cleave_arena_free(&of.arena);
        lower(&of, CLEAVE_SHARDED_GRADIENT, m, false);
        cr_expect_float_eq(sent(&of), m * LAYERS + LAYERS, 0);
        cleave_arena_free(&of.arena);
        /* Gathered for forward and for backward, but the first: no gradient of the data is asked
           for. */
        lower(&of, CLEAVE_SHARDED_WEIGHT, m, false);
        cr_expect_float_eq(sent(&of), m * (LAYERS + LAYERS + LAYERS - 1), 0, "%g", sent(&of));
        cleave_arena_free(&of.arena);
        /* And for the second forward; the last layer then goes right on with its backward. */
        lower(&of, CLEAVE_SHARDED_WEIGHT, m, true);
        cr_expect_float_eq(sent(&of), m * (LAYERS + LAYERS + LAYERS + LAYERS - 2), 0, "%g",
                           sent(&of));
        cleave_arena_free(&of.arena);
    }
}

Test(sharded_state, leaves_each_device_its_share) {
    static lowered of;
    static const double expected[CLEAVE_N_SHARDED] = {
        2.0 * LAYERS, LAYERS + (double)LAYERS / P, LAYERS + (double)LAYERS / P, 2.0 * LAYERS / P};
    for (int sharded = 0; sharded < CLEAVE_N_SHARDED; sharded++) {
        lower(&of, (cleave_sharded)sharded, 2, false);
        for (int32_t d = 0; d < P; d++)
            cr_expect_float_eq(kept(&of, d), expected[sharded], 0, "%s: %g weights and states",
                               cleave_sharded_names[sharded], kept(&of, d));
        cleave_arena_free(&of.arena);
    }
}

/* While a layer runs the next one's weight comes, and the gradient of the one before goes. */
Test(sharded_state, has_no_more_than_two_layers_there_at_once) {
    static lowered of;
    for (int32_t m = 1; m <= 4; m *= 2)
        for (int recomputes = 0; recomputes < 2; recomputes++) {
            lower(&of, CLEAVE_SHARDED_UPDATE, m, recomputes);
            cr_expect_eq(most_at_once(&of, CLEAVE_BUFFER_GRADIENT), LAYERS);
            cleave_arena_free(&of.arena);
            lower(&of, CLEAVE_SHARDED_WEIGHT, m, recomputes);
            cr_expect_eq(most_at_once(&of, CLEAVE_BUFFER_PARAMETER), 2, "%d weights, m = %d",
                         most_at_once(&of, CLEAVE_BUFFER_PARAMETER), m);
            cr_expect_eq(most_at_once(&of, CLEAVE_BUFFER_GRADIENT), 2, "%d gradients, m = %d",
                         most_at_once(&of, CLEAVE_BUFFER_GRADIENT), m);
            cleave_arena_free(&of.arena);
        }
}

/* Weights, states and gradients are 16 (1 + 1/4 + 1) weights with the update sharded; the gradient,
   too, 16 (1 + 1/4 + 1/4) and what of two layers is on its way; and all, 16 x 3/4 and that. */
Test(sharded_state, lets_the_peak_fall) {
    int64_t peak[CLEAVE_N_SHARDED][2];
    for (int sharded = 0; sharded < CLEAVE_N_SHARDED; sharded++)
        for (int more = 0; more < 2; more++) {
            static lowered of;
            lower(&of, (cleave_sharded)sharded, more ? 4 : 1, false);
            peak[sharded][more] = of.program.peak_bytes[0];
            cleave_arena_free(&of.arena);
        }
    for (int more = 0; more < 2; more++) {
        cr_expect_lt(peak[CLEAVE_SHARDED_GRADIENT][more],
                     peak[CLEAVE_SHARDED_UPDATE][more] - 6 * WEIGHT_BYTES);
        cr_expect_lt(peak[CLEAVE_SHARDED_WEIGHT][more],
                     peak[CLEAVE_SHARDED_GRADIENT][more] - 6 * WEIGHT_BYTES);
    }
}

/* Split by features each device has a block of every weight that no other uses. */
Test(sharded_state, moves_nothing_where_no_element_has_two_users) {
    for (int sharded = 0; sharded < CLEAVE_N_SHARDED; sharded++) {
        static lowered of;
        lower_along(&of, 1, (cleave_sharded)sharded, 2, false);
        cr_expect_float_eq(sent(&of), 0, 0, "%s", cleave_sharded_names[sharded]);
        cr_expect_float_eq(kept(&of, 0), 2.0 * LAYERS / P, 0);
        for (int32_t b = 0; b < of.program.n_buffers; b++)
            cr_expect(of.program.buffers[b].persistent ||
                      of.program.buffers[b].kind != CLEAVE_BUFFER_PARAMETER);
        cleave_arena_free(&of.arena);
    }
}
