/* A schedule says when, not what: for the same splits, stages and micro-batches the updated
   parameters and the losses are equal to the bit under every kind, every limit of what is in flight
   and orders of one's own.  And what a device keeps is what is in flight: its memory falls with the
   size of a micro-batch, gpipe keeps all of them, 1f1b of stage s at most P - s. */
#include "../support/drawn_schedule.h"
#include "../support/draws.h"
#include "../support/interpreter.h"
#include "../support/models.h"
#include "../support/perceptron.h"
#include "../support/shipped.h"
#include "base/order.h"
#include "base/random.h"
#include "graph/import/import.h"
#include "graph/lower/lower.h"
#include "graph/program/memory_plan.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { N_DEVICES = 4, N_STEPS = 2, MOST_STAGES = 8 };

static void ok(cleave_status status, const cleave_error *error, const char *what) {
    cr_assert_eq(status, CLEAVE_OK, "%s: %s", what, error->message);
}

static void lower(const cleave_model *model, const cleave_layout *layout, cleave_arena *arena,
                  cleave_program *program, const char *what) {
    const cleave_lower_options options = {.training = true, .optimizer_states = 1};
    cleave_error error = {""};
    ok(cleave_layout_check(model, layout, &error), &error, what);
    ok(cleave_lower(model, layout, &options, arena, program, &error), &error, what);
    ok(cleave_program_check(program, &error), &error, what);
}

/* ---- what lives at once ---------------------------------------------------------------------- */

/* The most bytes of a device that live at once: of each piece of memory from the first use of any
   buffer in it to the last. */
static int64_t most_live(const cleave_program *program, int32_t device, cleave_arena *scratch) {
    int64_t *change = CLEAVE_ARENA_ARRAY(scratch, int64_t, program->n_items + 2);
    int32_t *first = CLEAVE_ARENA_ARRAY(scratch, int32_t, program->n_buffers);
    int32_t *last = CLEAVE_ARENA_ARRAY(scratch, int32_t, program->n_buffers);
    cr_assert(change != NULL && first != NULL && last != NULL);
    for (int32_t b = 0; b < program->n_buffers; b++) {
        first[b] = INT32_MAX;
        last[b] = -1;
    }
    for (int32_t b = 0; b < program->n_buffers; b++) {
        const cleave_buffer *buffer = &program->buffers[b];
        int32_t root = b;
        while (program->buffers[root].storage != root)
            root = program->buffers[root].storage;
        const cleave_life life = cleave_buffer_life(&program->buffers[root]);
        int32_t from = life.lane_only ? life.lane_first : buffer->first;
        int32_t to = life.lane_only ? life.lane_last : buffer->last;
        first[root] = from < first[root] ? from : first[root];
        last[root] = to > last[root] ? to : last[root];
    }
    for (int32_t b = 0; b < program->n_buffers; b++) {
        const cleave_buffer *buffer = &program->buffers[b];
        if (buffer->device != device || buffer->storage != b || last[b] < 0)
            continue;
        int64_t bytes = cleave_buffer_aligned(buffer->bytes);
        change[first[b] < 0 ? 0 : first[b]] += bytes;
        change[last[b] + 1] -= bytes;
    }
    int64_t live = 0, most = 0;
    for (int32_t i = 0; i <= program->n_items; i++) {
        live += change[i];
        most = live > most ? live : most;
    }
    return most;
}

/* The worst of all devices; 1 is what no plan can be below. */
static double arena_over_live(const cleave_program *program, cleave_arena *scratch) {
    double worst = 1;
    for (int32_t d = 0; d < program->n_devices; d++) {
        int64_t most = most_live(program, d, scratch);
        double ratio = most > 0 ? (double)program->peak_bytes[d] / (double)most : 1;
        cr_assert_geq(program->peak_bytes[d], most, "the arena of device %d is too small", d);
        worst = ratio > worst ? ratio : worst;
    }
    return worst;
}

/* How many pieces of an activation live at once on a device. */
static int32_t most_kept(const cleave_program *program, int32_t tensor, int32_t device) {
    int32_t most = 0;
    for (int32_t a = 0; a < program->n_buffers; a++) {
        const cleave_buffer *at = &program->buffers[a];
        int32_t n = 0;
        if (at->tensor != tensor || at->device != device || at->kind != CLEAVE_BUFFER_ACTIVATION)
            continue;
        for (int32_t b = 0; b < program->n_buffers; b++) {
            const cleave_buffer *of = &program->buffers[b];
            n += of->tensor == tensor && of->device == device &&
                 of->kind == CLEAVE_BUFFER_ACTIVATION && of->first <= at->first &&
                 at->first <= of->last;
        }
        most = n > most ? n : most;
    }
    return most;
}

/* ---- the same bytes -------------------------------------------------------------------------- */

typedef struct subject {
    const cleave_model *model;
    cleave_layout layout; /* whose schedule is tried */
    cleave_arena scratch;
    interpreter_result first; /* by the first schedule that was tried */
    int n_tried;
    double worst; /* arena over what lives at once */
    char what[128];
} subject;

static void compare(subject *s, const interpreter_result *result) {
    for (int step = 0; step < N_STEPS; step++)
        cr_assert_eq(memcmp(&result->loss[step], &s->first.loss[step], sizeof(double)), 0,
                     "%s: loss %d is %.17g, not %.17g", s->what, step, result->loss[step],
                     s->first.loss[step]);
    for (int32_t t = 0; t < s->model->n_tensors; t++) {
        const cleave_tensor *tensor = &s->model->tensors[t];
        if (s->first.values[t] == NULL)
            continue;
        for (int64_t i = 0; i < cleave_tensor_size(tensor); i++)
            cr_assert_eq(memcmp(&result->values[t][i], &s->first.values[t][i], sizeof(float)), 0,
                         "%s: %s[%lld] is %.9g, not %.9g", s->what, tensor->name, (long long)i,
                         (double)result->values[t][i], (double)s->first.values[t][i]);
    }
}

static void try_schedule(subject *s, const cleave_schedule *schedule, const char *name) {
    cleave_program program;
    interpreter_result result;
    cleave_error error = {""};
    interpreter_options options = {.seed = 3,
                                   .timing_seed = 17 + (uint64_t)s->n_tried,
                                   .steps = N_STEPS,
                                   .optimizer = cleave_optimizer_default(CLEAVE_OPTIMIZER_SGD)};
    char *rest = strstr(s->what, " as ");
    snprintf(rest != NULL ? rest : s->what + strlen(s->what), 32, " as %.20s", name);
    s->layout.schedule = *schedule;
    lower(s->model, &s->layout, &s->scratch, &program, s->what);
    options.optimizer.learning_rate = 0.1;
    options.optimizer.momentum = 0.9;
    ok(interpreter_run(&program, &options, &s->scratch, &result, &error), &error, s->what);
    if (s->n_tried++ == 0)
        s->first = result;
    else
        compare(s, &result);
    double ratio = arena_over_live(&program, &s->scratch);
    s->worst = ratio > s->worst ? ratio : s->worst;
}

/* One micro-batch after the other goes through all stages and back; gradients of weights are all
   made at once or at the end. */
static void try_orders(subject *s, const cleave_schedule *drawn, bool parts) {
    cleave_schedule schedule = *drawn;
    int32_t *group, m = drawn->micro_batches, S = drawn->n_stages;
    cleave_error error = {""};
    ok(cleave_layout_groups(&s->layout, &s->scratch, &group, &error), &error, s->what);
    schedule.kind = CLEAVE_SCHEDULE_ORDERS;
    schedule.in_flight = NULL;
    schedule.n_orders = 0;
    for (int32_t i = 0; i < S; i++)
        schedule.n_orders = group[i] >= schedule.n_orders ? group[i] + 1 : schedule.n_orders;
    schedule.n_blocks = CLEAVE_ARENA_ARRAY(&s->scratch, int32_t, schedule.n_orders);
    schedule.orders =
        cleave_arena_alloc(&s->scratch, (size_t)schedule.n_orders, sizeof(cleave_stage_block *));
    for (int32_t g = 0; g < schedule.n_orders; g++) {
        cleave_stage_block *order = schedule.orders[g] =
            CLEAVE_ARENA_ARRAY(&s->scratch, cleave_stage_block, 3 * S * m);
        int32_t n = 0;
        for (int32_t u = 0; u < m; u++) {
            for (int32_t i = 0; i < S; i++)
                if (group[i] == g)
                    order[n++] = (cleave_stage_block){CLEAVE_BLOCK_FORWARD, i, u};
            for (int32_t i = S - 1; i >= 0; i--)
                if (group[i] == g)
                    order[n++] = (cleave_stage_block){CLEAVE_BLOCK_BACKWARD, i, u};
        }
        for (int32_t i = 0; i < S && parts; i++)
            for (int32_t u = 0; u < m && group[i] == g; u++)
                order[n++] = (cleave_stage_block){CLEAVE_BLOCK_WEIGHT, i, u};
        schedule.n_blocks[g] = n;
    }
    try_schedule(s, &schedule, parts ? "orders with weights apart" : "orders");
}

/* Forwards ahead that never grow from group to group don't wait for each other. */
static void try_in_flight(subject *s, const cleave_schedule *drawn, cleave_schedule_kind kind,
                          cleave_random *random) {
    cleave_schedule schedule = *drawn;
    int32_t most = drawn->n_stages + 2;
    schedule.kind = kind;
    schedule.in_flight = CLEAVE_ARENA_ARRAY(&s->scratch, int32_t, drawn->n_stages);
    for (int32_t i = 0; i < drawn->n_stages; i++)
        schedule.in_flight[i] = most = 1 + (int32_t)cleave_random_below(random, most);
    try_schedule(s, &schedule, kind == CLEAVE_SCHEDULE_1F1B ? "1f1b in flight" : "zb-h1 in flight");
}

/* The second forward gives what the first gave. */
static void try_recomputation(subject *s, const cleave_schedule *drawn) {
    for (int all = 0; all < 2; all++) {
        for (int32_t op = 0; op < s->model->n_operators; op++)
            s->layout.recompute[op] = all == 1;
        try_schedule(s, drawn, all == 1 ? "drawn, recomputed" : "drawn, kept");
    }
}

static void try_kinds(subject *s, const cleave_schedule *drawn, cleave_random *random) {
    static const cleave_schedule_kind kinds[] = {CLEAVE_SCHEDULE_GPIPE, CLEAVE_SCHEDULE_1F1B,
                                                 CLEAVE_SCHEDULE_ZB_H1, CLEAVE_SCHEDULE_INTERLEAVED,
                                                 CLEAVE_SCHEDULE_ZB_INTERLEAVED};
    cleave_schedule schedule = *drawn;
    bool goes_round = cleave_schedule_kind_goes_round(drawn->kind);
    for (int k = goes_round ? 3 : 0; k < (goes_round ? 5 : 3); k++) {
        schedule.kind = kinds[k];
        schedule.sooner = 0;
        try_schedule(s, &schedule, cleave_schedule_names[kinds[k]]);
        schedule.sooner = 1;
        if (cleave_schedule_kind_parts_weights(kinds[k]))
            try_schedule(s, &schedule, "weights sooner");
    }
    if (!goes_round) {
        try_in_flight(s, drawn, CLEAVE_SCHEDULE_1F1B, random);
        try_in_flight(s, drawn, CLEAVE_SCHEDULE_ZB_H1, random);
    }
    try_orders(s, drawn, false);
    try_orders(s, drawn, true);
    try_recomputation(s, drawn);
}

/* Layouts by chance until so many have micro-batches. */
static void check_model(const cleave_model *model, int usually) {
    int n = 0, n_staged = 0, n_interleaved = 0, n_wanted = n_draws(usually);
    double worst = 1;
    for (uint64_t seed = seed_from(0); n < n_wanted; seed++) {
        subject s = {.model = model, .worst = 1};
        cleave_random random = {.key = seed};
        cleave_error error = {""};
        cr_assert_lt(seed, seed_from(100 * (uint64_t)n_wanted), "%s is never cut", model->file);
        snprintf(s.what, sizeof s.what, "%s, seed %d", model->file, (int)seed);
        ok(cleave_layout_random(model, N_DEVICES, seed, &s.scratch, &s.layout, &error), &error,
           s.what);
        if (draw_schedule(model, seed, 8, &s.scratch, &s.layout) &&
            s.layout.schedule.micro_batches > 1) {
            const cleave_schedule drawn = s.layout.schedule;
            n++;
            n_staged += drawn.n_stages > 1;
            n_interleaved += cleave_schedule_kind_goes_round(drawn.kind) && drawn.n_stages > 2;
            try_kinds(&s, &drawn, &random);
            worst = s.worst > worst ? s.worst : worst;
        }
        cleave_arena_free(&s.scratch);
    }
    printf("%s: %d layouts, %d of several stages, %d of virtual ones; arenas are at most %.4f of "
           "what lives at once\n",
           model->file, n, n_staged, n_interleaved, worst);
    cr_assert_gt(n_staged, 0);
}

static void check_hand_model(int which) {
    cleave_arena arena = {0};
    cleave_model model;
    cleave_error error = {""};
    cr_assert(hand_model(which, &arena, &model, &error), "%s", error.message);
    check_model(&model, 24);
    cleave_arena_free(&arena);
}

static void check_imported(const char *name, int64_t batch, int usually) {
    char path[4096];
    cleave_arena arena = {0};
    cleave_model model;
    cleave_error error = {""};
    snprintf(path, sizeof path, "%s/tests/data/oracles/%s.onnx", CLEAVE_SOURCE_DIR, name);
    ok(cleave_model_import_as(
           &(cleave_import_request){.file = path, .batch = batch, .with_loss = true}, &arena,
           &model, &error),
       &error, name);
    check_model(&model, usually);
    cleave_arena_free(&arena);
}

Test(schedules, keep_the_bytes_of_a_perceptron) { check_hand_model(MODEL_MLP); }
Test(schedules, keep_the_bytes_of_a_recurrence) { check_hand_model(MODEL_RECURRENT); }
Test(schedules, keep_the_bytes_of_an_embedding_tied_to_its_head) {
    check_hand_model(MODEL_EMBEDDING);
    check_hand_model(MODEL_EXPERTS);
}
Test(schedules, keep_the_bytes_of_an_imported_transformer) { check_imported("tiny_llama", 4, 6); }
Test(schedules, keep_the_bytes_of_an_imported_perceptron) { check_imported("tiny_mlp", 8, 12); }

/* ---- memory ---------------------------------------------------------------------------------- */

enum { LAYERS = 8, BATCH = 64, WIDTH = 64 };

/* Equal numbers of layers on each device. */
static cleave_layout staged(const cleave_model *model, int32_t P, cleave_schedule_kind kind,
                            int32_t m, cleave_arena *arena) {
    cleave_layout layout;
    int32_t first[MOST_STAGES];
    cleave_error error = {""};
    ok(cleave_layout_create(model, P, arena, &layout, &error), &error, "layout");
    for (int32_t s = 0; s < P; s++)
        first[s] = 2 * LAYERS / P * s;
    const cleave_schedule schedule = {
        .micro_batches = m, .n_stages = P, .kind = kind, .first_operator = first};
    ok(cleave_schedule_copy(&schedule, arena, &layout.schedule, &error), &error, "schedule");
    for (int32_t op = 0; op < model->n_operators; op++)
        layout.splits[op].devices[0] = cleave_schedule_stage_of(&schedule, op);
    return layout;
}

/* What stays from step to step: parameters, states of the optimizer, and the data of the whole
   batch. */
static int64_t bytes_that_stay(const cleave_program *program, int32_t device) {
    int64_t bytes = 0;
    for (int32_t b = 0; b < program->n_buffers; b++) {
        const cleave_buffer *buffer = &program->buffers[b];
        if (buffer->device == device &&
            (buffer->kind == CLEAVE_BUFFER_PARAMETER || buffer->kind == CLEAVE_BUFFER_STATE ||
             buffer->kind == CLEAVE_BUFFER_DATA))
            bytes += cleave_buffer_aligned(buffer->bytes);
    }
    return bytes;
}

/* Activations of 64 times the size of the weights.  Of m micro-batches there is an m-th of them at
   a time, and beside them the gradients of all weights. */
Test(schedules, memory_falls_with_the_size_of_a_micro_batch) {
    cleave_arena arena = {0};
    cleave_model model = make_perceptron(&arena, LAYERS, 64 * BATCH, WIDTH);
    int64_t before = 0, gradients = 4 * (int64_t)LAYERS * WIDTH * WIDTH;
    for (int32_t m = 1; m <= 16; m *= 2) {
        cleave_program program;
        cleave_layout layout = staged(&model, 1, CLEAVE_SCHEDULE_1F1B, m, &arena);
        lower(&model, &layout, &arena, &program, "one stage");
        int64_t own = bytes_that_stay(&program, 0);
        int64_t live = most_live(&program, 0, &arena) - own, peak = program.peak_bytes[0] - own;
        printf("m = %2d: %lld bytes beside parameters and data, %lld of which live at once\n", m,
               (long long)peak, (long long)live);
        if (m > 1) {
            cr_expect_leq(live - gradients, (before - gradients) * 51 / 100, "m = %d: live", m);
            cr_expect_leq(peak + own, (live + own) * 21 / 20, "m = %d: peak", m);
        }
        before = m == 1 ? live + gradients : live; /* most live before there are gradients */
    }
    cleave_arena_free(&arena);
}

/* Of the activations that backward reads, an instance for each micro-batch in flight. */
Test(schedules, what_is_kept_is_what_is_in_flight) {
    cleave_arena arena = {0};
    cleave_model model = make_perceptron(&arena, LAYERS, BATCH, WIDTH);
    int less = 0, cases = 0; /* of the latter all but those where gradients are most of it */
    for (int32_t P = 1; P <= 4; P *= 2)
        for (int32_t m = 2; m <= 16; m *= 2) {
            cleave_program gpipe, one_f_one_b;
            cleave_layout layout = staged(&model, P, CLEAVE_SCHEDULE_GPIPE, m, &arena);
            lower(&model, &layout, &arena, &gpipe, "gpipe");
            layout = staged(&model, P, CLEAVE_SCHEDULE_1F1B, m, &arena);
            lower(&model, &layout, &arena, &one_f_one_b, "1f1b");
            for (int32_t s = 0; s < P; s++) { /* the rectifier of the first layer of the stage */
                int32_t op = layout.schedule.first_operator[s] + 1;
                int32_t tensor = model.nests[op].output.tensor, most = P - s < m ? P - s : m;
                cr_expect_eq(most_kept(&gpipe, tensor, s), m, "gpipe, stage %d of %d, m = %d: %d",
                             s, P, m, most_kept(&gpipe, tensor, s));
                cr_expect_eq(most_kept(&one_f_one_b, tensor, s), most,
                             "1f1b, stage %d of %d, m = %d: %d", s, P, m,
                             most_kept(&one_f_one_b, tensor, s));
                cr_expect_leq(one_f_one_b.peak_bytes[s], gpipe.peak_bytes[s]);
                less += one_f_one_b.peak_bytes[s] < gpipe.peak_bytes[s];
                cases += m > P;
            }
        }
    cr_expect_geq(less, cases * 3 / 4, "%d of %d", less, cases);
    cleave_arena_free(&arena);
}

/* Samples over the devices of every stage, stages of about equal numbers of operators. */
static cleave_layout by_samples(const cleave_model *model, int32_t P, cleave_schedule_kind kind,
                                int32_t m, cleave_arena *arena) {
    cleave_layout layout;
    int32_t first[MOST_STAGES], S = cleave_schedule_kind_goes_round(kind) ? 2 * P : P;
    int32_t devices[N_DEVICES], n = N_DEVICES / P;
    cleave_error error = {""};
    ok(cleave_layout_create(model, N_DEVICES, arena, &layout, &error), &error, "layout");
    for (int32_t s = 0; s < S; s++)
        first[s] = model->n_operators / S * s;
    const cleave_schedule schedule = {
        .micro_batches = m, .n_stages = S, .kind = kind, .first_operator = first};
    ok(cleave_schedule_copy(&schedule, arena, &layout.schedule, &error), &error, "schedule");
    for (int32_t op = 0; op < model->n_operators; op++) {
        int32_t degree[CLEAVE_MAX_AXES] = {n}, replicas = 1;
        for (int a = 1; a < CLEAVE_MAX_AXES; a++)
            degree[a] = 1;
        for (int32_t d = 0; d < n; d++)
            devices[d] = cleave_schedule_stage_of(&schedule, op) % P * n + d;
        if (strcmp(model->operators[op].axes[0].name, "n") != 0) { /* made for all samples alike */
            degree[0] = 1;
            replicas = n;
        }
        ok(cleave_layout_set(&layout, op, replicas, degree, devices, arena, &error), &error, "set");
    }
    return layout;
}

/* Of layouts that people would make, and half of those by chance: uneven pieces don't always fit
   into each other, with a schedule or without. */
Test(schedules, arenas_are_near_what_lives_at_once) {
    static const cleave_schedule_kind kinds[] = {CLEAVE_SCHEDULE_GPIPE, CLEAVE_SCHEDULE_1F1B,
                                                 CLEAVE_SCHEDULE_ZB_H1, CLEAVE_SCHEDULE_INTERLEAVED,
                                                 CLEAVE_SCHEDULE_ZB_INTERLEAVED};
    enum { MOST_DRAWN = 24, N_KINDS = sizeof kinds / sizeof *kinds };
    cleave_arena arena = {0};
    cleave_model model;
    cleave_error error = {""};
    double worst = 1, drawn[MOST_DRAWN];
    int n_drawn = 0;
    ok(shipped_model("byte_gpt", 16, &arena, &model, &error), &error, "byte_gpt");
    for (int32_t P = 1; P <= N_DEVICES; P *= 2)
        for (int i = 0; i < N_KINDS * 2; i++) {
            cleave_arena scratch = {0};
            cleave_program program;
            cleave_layout layout =
                by_samples(&model, P, kinds[i % N_KINDS], i < N_KINDS ? 4 : 2, &scratch);
            if (layout.schedule.micro_batches % P == 0) {
                lower(&model, &layout, &scratch, &program, "byte_gpt");
                double ratio = arena_over_live(&program, &scratch);
                cr_expect_leq(ratio, 1.05, "%s, P = %d, m = %d: %.4f",
                              cleave_schedule_names[kinds[i % N_KINDS]], P,
                              layout.schedule.micro_batches, ratio);
                worst = ratio > worst ? ratio : worst;
            }
            cleave_arena_free(&scratch);
        }
    for (uint64_t seed = seed_from(0); n_drawn < MOST_DRAWN; seed++) {
        cleave_arena scratch = {0};
        cleave_program program;
        cleave_layout layout;
        ok(cleave_layout_random(&model, N_DEVICES, seed, &scratch, &layout, &error), &error,
           "byte_gpt");
        if (draw_schedule(&model, seed, 16, &scratch, &layout)) {
            lower(&model, &layout, &scratch, &program, "byte_gpt");
            drawn[n_drawn++] = arena_over_live(&program, &scratch);
        }
        cleave_arena_free(&scratch);
    }
    cleave_sort_doubles(drawn, MOST_DRAWN);
    printf("byte_gpt: arenas are at most %.4f of what lives at once; by chance %.4f in the middle, "
           "%.4f at most\n",
           worst, drawn[MOST_DRAWN / 2], drawn[MOST_DRAWN - 1]);
    cr_expect_leq(drawn[MOST_DRAWN / 2], 1.05);
    cleave_arena_free(&arena);
}
