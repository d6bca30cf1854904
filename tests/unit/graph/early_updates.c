/* When parameters are updated: of a perceptron of `LAYERS` weights of WIDTH x WIDTH floats, with
   one optimizer state. */
#include "../../support/ok.h"
#include "../../support/perceptron.h"
#include "graph/lower/lower.h"

#include <string.h>

enum { P = 4, LAYERS = 16, WIDTH = 32, BATCH = 4 };
enum { WEIGHT_BYTES = WIDTH * WIDTH * 4, ACTIVATION_BYTES = BATCH * WIDTH * 4 };

typedef struct lowered {
    cleave_arena arena;
    cleave_model model;
    cleave_layout layout;
    cleave_program program;
} lowered;

static void begin(lowered *of, int32_t n_devices) {
    *of = (lowered){0};
    of->model = make_perceptron(&of->arena, LAYERS, BATCH, WIDTH);
    OK(cleave_layout_create, &of->model, n_devices, &of->arena, &of->layout);
}

/* All operators, or those from `first` on, over the devices from `device` on, along an axis. */
static void split(lowered *of, int32_t first, int axis, int32_t n, int32_t device) {
    static int32_t devices[P] = {0, 1, 2, 3};
    int32_t degree[CLEAVE_MAX_AXES] = {0};
    degree[axis] = n;
    for (int32_t op = first; op < of->model.n_operators; op++)
        OK(cleave_layout_set, &of->layout, op, 1, degree, devices + device, &of->arena);
}

static void lower(lowered *of) {
    const cleave_lower_options options = {.training = true, .optimizer_states = 1};
    OK(cleave_lower, &of->model, &of->layout, &options, &of->arena, &of->program);
    OK(cleave_program_check, &of->program);
}

/* The most gradients of weights, or of parts of them, that are there at once on the last device. */
static int most_at_once(const lowered *of) {
    const cleave_program *program = &of->program;
    int most = 0;
    for (int32_t i = 0; i < program->n_items; i++) {
        int n = 0;
        for (int32_t b = 0; b < program->n_buffers; b++) {
            const cleave_buffer *at = &program->buffers[b];
            n += at->kind == CLEAVE_BUFFER_GRADIENT && at->device == program->n_devices - 1 &&
                 at->first <= i && at->last >= i;
        }
        most = n > most ? n : most;
    }
    return most;
}

/* Clipped, all gradients are there at the end of backward, when no activation but the last ones is;
   else one is at a time, and the peak is there or where backward begins, with all activations: two
   for each layer at most. */
Test(early_updates, let_gradients_go_one_by_one) {
    static lowered early, clipped;
    begin(&early, 1);
    lower(&early);
    begin(&clipped, 1);
    OK(cleave_model_clip, &clipped.model);
    lower(&clipped);
    cr_expect_eq(most_at_once(&early), 1, "%d gradients", most_at_once(&early));
    cr_expect_eq(most_at_once(&clipped), LAYERS, "%d gradients", most_at_once(&clipped));
    int64_t less = clipped.program.peak_bytes[0] - early.program.peak_bytes[0];
    cr_expect_leq(less, (LAYERS - 1) * WEIGHT_BYTES + 4 * ACTIVATION_BYTES, "%d", (int)less);
    cr_expect_geq(less, (LAYERS - 1) * WEIGHT_BYTES - 2 * LAYERS * ACTIVATION_BYTES, "%d",
                  (int)less);
    cleave_arena_free(&early.arena);
    cleave_arena_free(&clipped.arena);
}

Test(early_updates, come_where_each_device_has_a_part_of_its_own) {
    static lowered of;
    begin(&of, P);
    split(&of, 0, 1, P, 0);
    lower(&of);
    cr_expect_eq(most_at_once(&of), 1, "split by features: %d gradients", most_at_once(&of));
    cleave_arena_free(&of.arena);
}

/* Sums of gradients go on beside backward until the end of the step. */
Test(early_updates, wait_for_sums_over_devices) {
    static lowered of;
    begin(&of, P);
    split(&of, 0, 0, P, 0);
    lower(&of);
    cr_expect_geq(most_at_once(&of), LAYERS, "data parallel: %d gradients", most_at_once(&of));
    cleave_arena_free(&of.arena);
}

/* What the first devices do in backward would wait for the updates of the last ones. */
Test(early_updates, keep_no_other_device_waiting) {
    static lowered of;
    begin(&of, P);
    split(&of, 0, 1, P / 2, 0);
    split(&of, LAYERS, 1, P / 2, P / 2);
    lower(&of);
    cr_expect_eq(most_at_once(&of), LAYERS / 2, "in halves: %d gradients", most_at_once(&of));
    cleave_arena_free(&of.arena);
}

Test(early_updates, are_checked_to_come_behind_all_that_reads) {
    static lowered of;
    cleave_error error = {""};
    begin(&of, 1);
    lower(&of);
    const cleave_program *program = &of.program;
    int32_t updated = -1;
    for (int32_t i = 0; i < program->n_items; i++) {
        const cleave_item *item = &program->items[i];
        if (item->kind == CLEAVE_ITEM_UPDATE)
            updated = program->updates[item->subject].parameter;
        else if (item->kind == CLEAVE_ITEM_COMPUTE && updated >= 0)
            program->computes[item->subject].inputs[0] = updated;
    }
    cr_assert_geq(updated, 0);
    cr_expect_eq(cleave_program_check(program, &error), CLEAVE_FAILED);
    cr_expect_not_null(strstr(error.message, "a parameter that is updated"), "%s", error.message);
    cleave_arena_free(&of.arena);
}
