/* What a pipeline of equal stages takes is published (Huang et al. 2019, Narayanan et al. 2021, Qi
   et al. 2024): with P groups of devices, m micro-batches, and f, b, w for what a group does of one
   micro-batch,

     gpipe, 1f1b    (m + P - 1) (f + b)
     interleaved    m (f + b) + (P - 1) (f + b) / v, with v stages a group
     zb-h1          m (f + b + w) + (P - 1) (f + b - w), with w apart and m >= P
     zb-interleaved m (f + b + w) + (P - 1) (f + b - w) / v

   where the last group puts w off by P - 1 micro-batches; each that it comes sooner is one more w,
   or w / v, in the bubble.

   Both engines give these for blocks put down in the order of the sequence, whose messages take one
   picosecond, and for whole lowered programs on a machine where nothing but arithmetic takes time.
   With unequal stages and links of their own both engines agree to the picosecond. */
#include "../support/draws.h"
#include "../support/ok.h"
#include "../support/perceptron.h"
#include "base/order.h"
#include "base/random.h"
#include "costmodel/machine.h"
#include "graph/lower/lower.h"
#include "simulator/step/engine_workspace.h"
#include "simulator/step/simulate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const cleave_schedule_kind kinds[] = {CLEAVE_SCHEDULE_GPIPE, CLEAVE_SCHEDULE_1F1B,
                                             CLEAVE_SCHEDULE_INTERLEAVED, CLEAVE_SCHEDULE_ZB_H1,
                                             CLEAVE_SCHEDULE_ZB_INTERLEAVED};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* f, b and w of one micro-batch on one group; w is 0 where b has it. */
static double formula(int32_t P, int32_t v, int32_t m, double f, double b, double w,
                      int32_t sooner) {
    int32_t put_off = sooner < P - 1 ? P - 1 - sooner : 0;
    return m * (f + b + w) + ((P - 1) * (f + b) - put_off * w) / v;
}

/* ---- blocks in the order of the sequence ----------------------------------------------------- */

/* Stage s on group s mod P, every group a device. */
typedef struct pipeline {
    cleave_schedule schedule;
    int32_t n_groups;
    int32_t *group;                      /* [n_stages] */
    int64_t *work[CLEAVE_N_BLOCK_KINDS]; /* [n_stages] picoseconds */
    int64_t serialization;               /* of a message on its link */
    bool
        posts_early; /* receives stand with their sends, as lowering has them, and not with waits */
    bool is_shared;  /* two groups are a node, with one link for all that leaves it */
    cleave_arena arena;
    cleave_engine_problem problem;
} pipeline;

static void *array(pipeline *of, int64_t n, size_t size) {
    void *made = cleave_arena_alloc(&of->arena, (size_t)n, size);
    cr_assert_not_null(made);
    return made;
}

static void begin(pipeline *of, cleave_schedule_kind kind, int32_t P, int32_t v, int32_t m) {
    int32_t S = P * v;
    *of = (pipeline){.schedule = {.micro_batches = m, .n_stages = S, .kind = kind},
                     .n_groups = P,
                     .serialization = 1};
    of->group = array(of, S, sizeof *of->group);
    for (int k = 0; k < CLEAVE_N_BLOCK_KINDS; k++)
        of->work[k] = array(of, S, sizeof **of->work);
    for (int32_t s = 0; s < S; s++)
        of->group[s] = s % P;
}

static void put(pipeline *of, int32_t group, int kind, int32_t subject, int64_t duration) {
    cleave_priced_fragment *step = &of->problem.step;
    int32_t i = step->n_items++;
    step->kind[i] = (uint8_t)kind;
    step->queue[i] = 2 * group;
    step->subject[i] = subject;
    step->duration[i] = duration;
}

/* From stage to stage, one group to another: posted by its source behind the block that makes it,
   by its destination there, too, or before the block that reads it.  The one of a forward has the
   number s m + u, that of a backward S m more. */
static int32_t message_of(const pipeline *of, int kind, int32_t stage, int32_t u) {
    int32_t m = of->schedule.micro_batches, S = of->schedule.n_stages;
    int32_t reader = kind == CLEAVE_BLOCK_FORWARD ? stage + 1 : stage - 1;
    bool none = kind == CLEAVE_BLOCK_WEIGHT || reader < 0 || reader >= S ||
                of->group[stage] == of->group[reader];
    return none ? -1 : (kind * S + stage) * m + u;
}

static void put_block(pipeline *of, const cleave_stage_block *block) {
    int32_t s = block->stage, u = block->micro_batch, g = of->group[s];
    int32_t before = block->kind == CLEAVE_BLOCK_FORWARD ? s - 1 : s + 1;
    int32_t read =
        before < 0 || before >= of->schedule.n_stages || block->kind == CLEAVE_BLOCK_WEIGHT
            ? -1
            : message_of(of, block->kind, before, u);
    int32_t sent = message_of(of, block->kind, s, u);
    int32_t reader = block->kind == CLEAVE_BLOCK_FORWARD ? s + 1 : s - 1;
    if (read >= 0 && !of->posts_early)
        put(of, g, CLEAVE_PRICED_POST, read, 0);
    if (read >= 0)
        put(of, g, CLEAVE_PRICED_WAIT_ARRIVAL, read, 0);
    put(of, g, CLEAVE_PRICED_WORK, -1, of->work[block->kind][s]);
    if (sent >= 0)
        put(of, g, CLEAVE_PRICED_POST, sent, 0);
    if (sent >= 0 && of->posts_early)
        put(of, of->group[reader], CLEAVE_PRICED_POST, sent, 0);
}

/* Numbers that are of no message are of one that nobody posts: they are left out. */
static void make_messages(pipeline *of) {
    cleave_priced_fragment *step = &of->problem.step;
    int32_t m = of->schedule.micro_batches, S = of->schedule.n_stages, n = 0;
    int32_t *number = array(of, 2 * (int64_t)S * m, sizeof *number);
    for (int kind = 0; kind < 2; kind++)
        for (int32_t s = 0; s < S; s++)
            for (int32_t u = 0; u < m; u++) {
                if (message_of(of, kind, s, u) < 0)
                    continue;
                int32_t reader = kind == CLEAVE_BLOCK_FORWARD ? s + 1 : s - 1;
                number[message_of(of, kind, s, u)] = n;
                step->hop_link[n] = of->is_shared ? of->group[s] / 2
                                                  : of->group[s] * of->n_groups + of->group[reader];
                step->hop_serialization[n] = of->serialization;
                step->hop_start[n + 1] = n + 1;
                n++;
            }
    step->n_messages = n;
    for (int32_t i = 0; i < step->n_items; i++)
        if (step->subject[i] >= 0)
            step->subject[i] = number[step->subject[i]];
}

static void make_problem(pipeline *of) {
    cleave_engine_problem *problem = &of->problem;
    cleave_stage_block *sequence;
    int32_t n_blocks, n_links = of->n_groups * of->n_groups;
    OK(cleave_schedule_sequence, &of->schedule, of->group, &of->arena, &sequence, &n_blocks);
    int64_t n_items = 4 * (int64_t)n_blocks;
    problem->step =
        (cleave_priced_fragment){.kind = array(of, n_items, sizeof(uint8_t)),
                                 .queue = array(of, n_items, sizeof(int32_t)),
                                 .subject = array(of, n_items, sizeof(int32_t)),
                                 .duration = array(of, n_items, sizeof(int64_t)),
                                 .hop_start = array(of, n_blocks + 1, sizeof(int32_t)),
                                 .hop_link = array(of, n_blocks, sizeof(int32_t)),
                                 .hop_serialization = array(of, n_blocks, sizeof(int64_t)),
                                 .collective_link_start = array(of, 1, sizeof(int32_t))};
    problem->n_queues = 2 * of->n_groups;
    problem->n_links = n_links;
    problem->link_latency = array(of, n_links, sizeof(int64_t));
    for (int32_t b = 0; b < n_blocks; b++)
        put_block(of, &sequence[b]);
    make_messages(of);
}

/* By the scan and by events. */
typedef struct makespans {
    int64_t scan, events;
} makespans;

static makespans run_both(pipeline *of, const char *what) {
    cleave_engine_workspace *workspace;
    cleave_timeline timeline;
    makespans made;
    cleave_error error = {""};
    make_problem(of);
    cr_assert_eq(cleave_engine_finish(&of->problem, &of->arena, &error), CLEAVE_OK, "%s: %s", what,
                 error.message);
    cr_assert_eq(cleave_engine_workspace_create(&of->problem, &of->arena, &workspace, &error), 0);
    cr_assert_eq(cleave_engine_timeline_create(&of->problem, &of->arena, &timeline, &error), 0);
    cr_assert_eq(cleave_engine_run_scan(&of->problem, workspace, &timeline, &error), CLEAVE_OK,
                 "%s: %s", what, error.message);
    made.scan = timeline.step;
    cr_assert_eq(cleave_engine_run_events(&of->problem, workspace, &timeline, &error), CLEAVE_OK,
                 "%s: %s", what, error.message);
    made.events = timeline.step;
    return made;
}

/* Of both, which have to agree. */
static int64_t makespan(pipeline *of, const char *what) {
    makespans made = run_both(of, what);
    cr_assert_eq(made.events, made.scan, "%s: %lld by events, %lld by the scan", what,
                 (long long)made.events, (long long)made.scan);
    return made.scan;
}

static void expect_formula(cleave_schedule_kind kind, int32_t P, int32_t v, int32_t m,
                           int32_t sooner) {
    bool is_plain = P * v == 1 && m == 1; /* which has no kind */
    bool parts = cleave_schedule_kind_parts_weights(kind) && !is_plain;
    const int64_t f = 600000000, b = parts ? f : 2 * f, w = parts ? f : 0; /* of a group */
    char what[64];
    pipeline of;
    snprintf(what, sizeof what, "%s, P = %d, v = %d, m = %d", cleave_schedule_names[kind], P, v, m);
    begin(&of, kind, P, v, m);
    of.schedule.sooner = sooner;
    for (int32_t s = 0; s < P * v; s++) {
        of.work[CLEAVE_BLOCK_FORWARD][s] = f / v;
        of.work[CLEAVE_BLOCK_BACKWARD][s] = b / v;
        of.work[CLEAVE_BLOCK_WEIGHT][s] = w / v;
    }
    int64_t step = makespan(&of, what);
    int64_t expected = (int64_t)formula(P, v, m, (double)f, (double)b, (double)w, sooner);
    /* A chain of blocks crosses a message at most twice a stage and micro-batch. */
    cr_assert(step >= expected && step <= expected + 2 * (int64_t)P * v * m, "%s: %lld, not %lld",
              what, (long long)step, (long long)expected);
    cleave_arena_free(&of.arena);
}

Test(textbook, equal_blocks_take_the_published_times) {
    static const int32_t groups[] = {1, 2, 3, 4, 8, 16, 64}, times[] = {1, 2, 4};
    for (int k = 0; k < N_KINDS; k++)
        for (int p = 0; p < 7; p++)
            for (int i = 0; i < 3; i++)
                for (int32_t v = 1; v <= 4; v *= 2) {
                    int32_t P = groups[p];
                    bool parts = cleave_schedule_kind_parts_weights(kinds[k]);
                    if (v == 1 || (cleave_schedule_kind_goes_round(kinds[k]) && P > 1))
                        for (int32_t sooner = 0; sooner < (parts ? P + 1 : 1); sooner++)
                            expect_formula(kinds[k], P, v, times[i] * P, sooner);
                }
    for (int k = 0; k < N_KINDS; k++)
        expect_formula(kinds[k], 4, cleave_schedule_kind_goes_round(kinds[k]) ? 2 : 1, 256, 0);
    expect_formula(CLEAVE_SCHEDULE_GPIPE, 8, 1, 3, 0); /* fewer than stages */
    expect_formula(CLEAVE_SCHEDULE_1F1B, 8, 1, 3, 0);
    expect_formula(CLEAVE_SCHEDULE_1F1B, 8, 1, 1, 0);
}

/* Stage times by chance; returns what it is. */
static const char *draw(pipeline *of, int i, int k, int64_t serialization, char *what, size_t n) {
    cleave_random random = {.key = seed_from((uint64_t)i)};
    cleave_schedule_kind kind = kinds[k];
    int32_t P = 2 + (int32_t)cleave_random_below(&random, 7), m = P;
    int32_t v = cleave_schedule_kind_goes_round(kind) ? 2 + (int32_t)(i & 1) : 1;
    m *= 1 + (int32_t)cleave_random_below(&random, 4);
    if (!cleave_schedule_kind_goes_round(kind))
        m += (int32_t)cleave_random_below(&random, (uint32_t)P);
    snprintf(what, n, "case %d, %s, P = %d, m = %d", i, cleave_schedule_names[kind], P, m);
    begin(of, kind, P, v, m);
    of->serialization = serialization;
    for (int32_t s = 0; s < P * v; s++)
        for (int b = 0; b < CLEAVE_N_BLOCK_KINDS; b++)
            of->work[b][s] = 1 + cleave_random_below(&random, 2000);
    return what;
}

/* Each link carries what goes from one group to another, and both ends post that in one order, so
   that the order in which a link serves can't differ; but where stages take turns on a group, early
   receives of several may wait in an order that is not that of their arrival. */
Test(textbook, engines_agree_on_unequal_stages_with_links_of_their_own) {
    cleave_random random = {.key = seed_from(5)};
    for (int i = 0; i < 1000; i++) {
        char what[64];
        pipeline of;
        int k = (int)cleave_random_below(&random, N_KINDS);
        draw(&of, i, k, 1 + cleave_random_below(&random, 3000), what, sizeof what);
        of.posts_early = i % 2 == 0 && !cleave_schedule_kind_goes_round(kinds[k]);
        makespan(&of, what);
        cleave_arena_free(&of.arena);
    }
}

/* Of blocks of 1,000 units in the mean. */
static const int64_t message_sizes[] = {10, 100, 500, 2000};
enum { N_SIZES = 4, N_DRAWN = 200 };

/* Where a link is shared the scan serves it in the order of the sequence, events by readiness. */
Test(textbook, engines_are_near_each_other_on_links_that_are_shared) {
    printf("|scan / events - 1| where two groups share a link, by messages over blocks:\n");
    for (int k = 0; k < N_KINDS; k++)
        for (int size = 0; size < N_SIZES; size++) {
            double off[N_DRAWN];
            for (int i = 0; i < N_DRAWN; i++) {
                char what[64];
                pipeline of;
                draw(&of, i, k, message_sizes[size], what, sizeof what);
                of.posts_early = of.is_shared = true;
                makespans made = run_both(&of, what);
                off[i] = fabs((double)made.scan / (double)made.events - 1);
                cleave_arena_free(&of.arena);
            }
            cleave_sort_doubles(off, N_DRAWN);
            double median = off[N_DRAWN / 2], most = off[N_DRAWN * 95 / 100];
            printf("%-12s %.2f  median %5.2f %%  95th percentile %5.2f %%  most %5.2f %%\n",
                   cleave_schedule_names[kinds[k]], (double)message_sizes[size] / 1000,
                   100 * median, 100 * most, 100 * off[N_DRAWN - 1]);
            cr_expect_leq(median, 0.06);
            cr_expect_leq(most, 0.20);
        }
}

/* A receive that is posted with the block that reads lets a message begin no earlier than that: so
   lowering posts it with its send, always. */
Test(textbook, receives_posted_with_their_sends_are_never_slower) {
    printf("posted before the block that reads / with the send:\n");
    for (int k = 0; k < N_KINDS; k++)
        for (int size = 0; size < N_SIZES; size++) {
            double ratio[N_DRAWN];
            for (int i = 0; i < N_DRAWN; i++) {
                int64_t step[2];
                for (int early = 0; early < 2; early++) {
                    char what[64];
                    pipeline of;
                    draw(&of, i, k, message_sizes[size], what, sizeof what);
                    of.posts_early = early == 1;
                    step[early] = run_both(&of, what).events;
                    cleave_arena_free(&of.arena);
                }
                cr_assert_leq(step[1], step[0], "case %d", i);
                ratio[i] = (double)step[0] / (double)step[1];
            }
            cleave_sort_doubles(ratio, N_DRAWN);
            printf("%-12s %.2f  median %.3f  95th percentile %.3f  most %.3f\n",
                   cleave_schedule_names[kinds[k]], (double)message_sizes[size] / 1000,
                   ratio[N_DRAWN / 2], ratio[N_DRAWN * 95 / 100], ratio[N_DRAWN - 1]);
        }
}

/* ---- whole programs -------------------------------------------------------------------------- */

static int32_t add_activation(cleave_model *model, const char *stem, int32_t i, int64_t batch,
                              int64_t width) {
    return add_tensor(model, CLEAVE_TENSOR_ACTIVATION,
                      cleave_arena_printf(model->arena, "%s%d", stem, i), 2, batch, width);
}

/* `n` products of the same extents, a rectifier before each.  Before the first one it is a shift
   that is learned, so that what goes into it has a gradient; the loss is a sum of squares. */
static cleave_model make_chain(cleave_arena *arena, int32_t n, int64_t batch, int64_t width) {
    cleave_model model = begin_model("chain", batch, 3 * n + 3, 2 * n + 1, arena);
    int32_t before = add_tensor(&model, CLEAVE_TENSOR_DATA, "data", 2, batch, width);
    int32_t shift = add_tensor(&model, CLEAVE_TENSOR_PARAMETER, "shift", 1, width, 0);
    for (int32_t i = 0; i < n; i++) {
        int32_t x = add_activation(&model, "x", i, batch, width);
        cleave_nest *nest = add_pointwise(&model, cleave_arena_printf(arena, "before%d", i), before,
                                          x, i == 0 ? CLEAVE_OP_ADD : CLEAVE_OP_RELU);
        if (i == 0) {
            nest->n_inputs = 2;
            nest->inputs[1] = operand_of(shift, 1, -1);
            nest->tape[0].b = 1;
        }
        before = add_activation(&model, "y", i, batch, width);
        int32_t weight = add_tensor(&model, CLEAVE_TENSOR_PARAMETER,
                                    cleave_arena_printf(arena, "weight%d", i), 2, width, width);
        add_product(&model, cleave_arena_printf(arena, "dense%d", i), x, weight, before);
    }
    add_loss(&model, before);
    OK(cleave_model_finish, &model);
    return model;
}

/* Stage s begins with operator `first[s]`, on device s mod P. */
static cleave_layout make_layout(const cleave_model *model, const int32_t *first, int32_t n_stages,
                                 int32_t P, cleave_schedule_kind kind, int32_t m,
                                 cleave_arena *arena) {
    cleave_layout layout;
    OK(cleave_layout_create, model, P, arena, &layout);
    const cleave_schedule schedule = {.micro_batches = m,
                                      .n_stages = n_stages,
                                      .kind = kind,
                                      .first_operator = (int32_t *)(uintptr_t)first};
    OK(cleave_schedule_copy, &schedule, arena, &layout.schedule);
    for (int32_t op = 0; op < model->n_operators; op++)
        layout.splits[op].devices[0] = cleave_schedule_stage_of(&schedule, op) % P;
    OK(cleave_layout_check, model, &layout);
    return layout;
}

/* One node with a link from every device to every other, so that no order of messages counts. */
static cleave_machine own_links(cleave_arena *arena, int32_t n_devices, const char *bandwidth,
                                const char *launch, const char *link) {
    const char *all = "0";
    for (int32_t d = 1; d < n_devices; d++)
        all = cleave_arena_printf(arena, "%s, %d", all, d);
    const char *text = cleave_arena_printf(
        arena,
        "{\"cleave_machine\": 1, \"name\": \"own links\", \"kinds\": {\"k\": {\"memory\": "
        "\"1024 TiB\", \"flops\": \"1 TFLOP/s\", \"memory_bandwidth\": \"%s\", "
        "\"efficiency\": {\"product\": 0.5, \"memory\": 0.5}, \"launch\": \"%s\", \"source\": "
        "\"test\"}}, \"node\": {\"count\": 1, \"devices\": %d, \"kind\": \"k\", \"links\": "
        "[{\"join\": [[%s]], %s}]}}",
        bandwidth, launch, n_devices, all, link);
    cleave_machine machine;
    OK(cleave_machine_parse, text, strlen(text), "own", 0, arena, &machine);
    return machine;
}

static int64_t step_of(const cleave_model *model, const cleave_layout *layout,
                       const cleave_machine *machine, cleave_rule rule) {
    cleave_arena scratch = {0};
    cleave_program program;
    cleave_cost_cache *cache;
    cleave_timeline timeline;
    const cleave_lower_options options = {.training = true};
    OK(cleave_lower, model, layout, &options, &scratch, &program);
    OK(cleave_program_check, &program);
    OK(cleave_cost_cache_create, model, machine, &cache);
    OK(cleave_simulate, &program, cache, rule, &scratch, &timeline);
    cleave_cost_cache_destroy(cache);
    cleave_arena_free(&scratch);
    return timeline.step;
}

/* A product on 4 samples takes 2 x 4 x width^2 operations at 0.5 TFLOP/s; the rest takes some for
   each of 4 x width elements, which is next to nothing. */
enum { SAMPLES = 4, WIDTH = 65536 };
static const double product_picoseconds = 1e12 * 2 * SAMPLES * (double)WIDTH * WIDTH / 0.5e12;

/* `skipped`: operators before the first of each stage but one. */
static void expect_program_time(cleave_schedule_kind kind, int32_t P, int32_t v, int32_t m,
                                int32_t skipped, double expected) {
    cleave_arena arena = {0};
    int32_t S = P * v, first[64] = {0};
    for (int32_t s = 1; s < S; s++)
        first[s] = 2 * s + skipped;
    cleave_machine machine = own_links(&arena, P == 1 ? 2 : P, "1000000 TB/s", "0 us",
                                       "\"bandwidth\": \"1000000 TB/s\", \"latency\": \"0 us\"");
    cleave_model model = make_chain(&arena, S, (int64_t)SAMPLES * m, WIDTH);
    cleave_layout layout = make_layout(&model, first, S, P, kind, m, &arena);
    for (int rule = CLEAVE_RULE_EVENTS; rule <= CLEAVE_RULE_SCAN; rule++) {
        double step = (double)step_of(&model, &layout, &machine, (cleave_rule)rule);
        cr_expect(fabs(step / expected - 1) < 1e-4,
                  "%s, P = %d, v = %d, m = %d, rule %d: %g, not %g", cleave_schedule_names[kind], P,
                  v, m, rule, step, expected);
    }
    cleave_arena_free(&arena);
}

static void expect_program_formula(cleave_schedule_kind kind, int32_t P, int32_t v, int32_t m) {
    double t = product_picoseconds;
    bool parts = cleave_schedule_kind_parts_weights(kind);
    expect_program_time(kind, P, v, m, 0,
                        formula(P, v, m, v * t, (parts ? v : 2 * v) * t, parts ? v * t : 0, 0));
}

/* A stage begins with a rectifier, whose gradient is the last thing that its backward gives. */
Test(textbook, programs_of_equal_stages_take_the_published_times) {
    for (int k = 0; k < N_KINDS; k++) {
        int32_t v = cleave_schedule_kind_goes_round(kinds[k]) ? 2 : 1;
        expect_program_formula(kinds[k], 1, v, 4);
        expect_program_formula(kinds[k], 2, v, 2);
        expect_program_formula(kinds[k], 2, v, 8);
        expect_program_formula(kinds[k], 4, v, 16);
        expect_program_formula(kinds[k], 8, v, 8);
        expect_program_formula(kinds[k], 8, v, 32);
        expect_program_formula(kinds[k], 16, v, 64);
    }
}

/* Where a stage begins with its product, the gradient goes on before that of the weights is made:
   of a backward of 2 t others wait for t alone. */
Test(textbook, what_the_next_stage_waits_for_does_not_wait_for_weights) {
    const double t = product_picoseconds;
    for (int32_t P = 2; P <= 8; P *= 2)
        for (int32_t m = P; m <= 4 * P; m *= 2) {
            double expected = m * 3 * t + (P - 1) * 2 * t;
            expect_program_time(CLEAVE_SCHEDULE_GPIPE, P, 1, m, 1, expected);
            expect_program_time(CLEAVE_SCHEDULE_1F1B, P, 1, m, 1, expected);
        }
}

/* Every operator by samples, on two devices in the place of each one. */
static void split_samples(const cleave_model *model, cleave_layout *layout, cleave_arena *arena) {
    layout->n_devices *= 2;
    for (int32_t op = 0; op < model->n_operators; op++) {
        int32_t first = 2 * layout->splits[op].devices[0], degree[CLEAVE_MAX_AXES] = {2};
        OK(cleave_layout_set, layout, op, 1, degree, (int32_t[2]){first, first + 1}, arena);
    }
    OK(cleave_layout_check, model, layout);
}

/* Of a device: the last message to another stage stands before the first of its sums. */
static void expect_sums_last(const cleave_program *program, int32_t device) {
    int32_t last = -1, first = program->n_items;
    for (int32_t i = program->n_items - 1; i >= 0; i--) {
        const cleave_item *item = &program->items[i];
        if (item->device != device || item->kind != CLEAVE_ITEM_SEND)
            continue;
        if (item->lane == CLEAVE_LANE_COMMUNICATION)
            first = i;
        else if (last < 0 && program->messages[item->subject].destination / 2 != device / 2)
            last = i;
    }
    cr_assert(last >= 0 && first < program->n_items);
    cr_expect_lt(last, first, "device %d: item %d is sent behind sum %d", device, last, first);
}

/* Else what the stage before waits for would stand behind sums at the links. */
Test(textbook, sums_of_gradients_are_sent_behind_what_other_stages_wait_for) {
    for (int k = 0; k < N_KINDS; k++) {
        enum { P = 4 };
        cleave_arena arena = {0};
        cleave_program program;
        int32_t S = cleave_schedule_kind_goes_round(kinds[k]) ? 2 * P : P, first[2 * P] = {0};
        for (int32_t s = 1; s < S; s++)
            first[s] = 2 * s;
        cleave_model model = make_chain(&arena, S, INT64_C(2) * P * P, 16);
        cleave_layout layout = make_layout(&model, first, S, P, kinds[k], 2 * P, &arena);
        const cleave_lower_options options = {.training = true};
        split_samples(&model, &layout, &arena);
        OK(cleave_lower, &model, &layout, &options, &arena, &program);
        OK(cleave_program_check, &program);
        for (int32_t d = 0; d < 2 * P; d++)
            expect_sums_last(&program, d);
        cleave_arena_free(&arena);
    }
}

/* What the main lane of a device does, a letter each: (f)orward or (b)ackward of a block, (s)end,
   and (r)eceived or (w)ait until what was sent has left. */
static void tell(const cleave_program *program, int32_t device, char *told, size_t most) {
    size_t n = 0;
    for (int32_t i = 0; i < program->n_items; i++) {
        const cleave_item *item = &program->items[i];
        char letter = 0;
        if (item->device != device || item->lane != CLEAVE_LANE_MAIN)
            continue;
        if (item->kind == CLEAVE_ITEM_COMPUTE)
            letter = program->computes[item->subject].pass == CLEAVE_PASS_FORWARD ? 'f' : 'b';
        if (item->kind == CLEAVE_ITEM_SEND)
            letter = 's';
        if (item->kind == CLEAVE_ITEM_WAIT)
            letter = program->messages[item->subject].source == device ? 'w' : 'r';
        if (letter != 0 && (n == 0 || letter == 's' || letter == 'w' || told[n - 1] != letter) &&
            n + 1 < most)
            told[n++] = letter;
    }
    told[n] = '\0';
}

/* The first device does F0 F1 B0 F2 B1 F3 B2 B3: of what it has sent it waits before the backward
   of that micro-batch.  The second one, F0 B0 F1 B1 ..., gives gradients, behind which nothing of a
   micro-batch comes there: it waits before the next backward but one. */
Test(textbook, senders_wait_when_two_buffers_are_in_use_or_what_they_sent_has_come_back) {
    int32_t first[2] = {0, 2};
    cleave_arena arena = {0};
    cleave_program program;
    char told[64];
    cleave_model model = make_chain(&arena, 2, 16, 16);
    cleave_layout layout = make_layout(&model, first, 2, 2, CLEAVE_SCHEDULE_1F1B, 4, &arena);
    const cleave_lower_options options = {.training = true};
    OK(cleave_lower, &model, &layout, &options, &arena, &program);
    tell(&program, 0, told, sizeof told);
    cr_expect_str_eq(told, "fsfswrbfswrbfswrbwrb");
    tell(&program, 1, told, sizeof told);
    cr_expect_str_eq(told, "rfbsrfbsrfwbsrfwbsww");
    cleave_arena_free(&arena);
}

/* Products dealt out by chance, with launches and messages that take their time: on links of their
   own, from every device to every other, both rules give the same. */
Test(textbook, rules_agree_on_programs_of_unequal_stages_with_links_of_their_own) {
    cleave_arena arena = {0};
    cleave_random random = {.key = seed_from(7)};
    cleave_machine machine = own_links(&arena, 4, "100 GB/s", "2 us",
                                       "\"bandwidth\": \"2 GB/s\", \"latency\": \"3 us\"");
    for (int i = 0; i < 200; i++) {
        cleave_arena scratch = {0};
        cleave_schedule_kind kind = kinds[i % N_KINDS];
        int32_t P = 4, S = cleave_schedule_kind_goes_round(kind) ? 2 * P : P, n = 2 * S;
        int32_t m = P << cleave_random_below(&random, 3), first[16] = {0};
        cleave_model model = make_chain(&scratch, n, 8 * (int64_t)m, 512);
        for (int32_t s = 1; s < S; s++)
            first[s] = first[s - 1] + 1 +
                       (int32_t)cleave_random_below(
                           &random, (model.n_operators - (S - s) - first[s - 1] + 1) / 2);
        cleave_layout layout = make_layout(&model, first, S, P, kind, m, &scratch);
        int64_t scan = step_of(&model, &layout, &machine, CLEAVE_RULE_SCAN);
        int64_t events = step_of(&model, &layout, &machine, CLEAVE_RULE_EVENTS);
        cr_assert_eq(scan, events, "case %d, %s, m = %d: %lld by the scan, %lld by events", i,
                     cleave_schedule_names[kind], m, (long long)scan, (long long)events);
        cleave_arena_free(&scratch);
    }
    cleave_arena_free(&arena);
}
