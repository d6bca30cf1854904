/* The scan of a step of many micro-batches by three of them (simulator/scan/turns.h) gives the time
   of the whole scan, to the picosecond, and takes few turns: of drawn pipelines of every kind, with
   unequal stages, links of their own or shared, collectives within stages, second forwards, and
   gradients that are added up among the devices of a stage beside the last micro-batches, once they
   are there or as what is gathered: ready long before, on a link that messages come by.

   CLEAVE_TEST_TIMES draws more of them. */
#include "../support/draws.h"
#include "../support/ok.h"
#include "base/order.h"
#include "base/random.h"
#include "graph/model/schedule.h"
#include "simulator/scan/turns.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- drawn ----------------------------------------------------------------------------------- */

/* Stage s on group s mod P; each group has so many devices, each of which does the same. */
typedef struct drawn {
    cleave_arena arena;
    cleave_schedule schedule;
    int32_t P, n_each, n_links;
    int32_t *group;                                          /* [n_stages] */
    int64_t *work[CLEAVE_N_BLOCK_KINDS];                     /* [n_stages] picoseconds */
    int64_t first_work, update, post, sent, latency, summed; /* of once, and of messages */
    int64_t combined; /* of a collective in each block; 0: there is none */
    bool waits_to_leave, is_shared, synchronises, gathers;
    cleave_stage_block *sequence;
    int32_t n_blocks;
    char text[120];
} drawn;

static void *array(cleave_arena *arena, int64_t n, size_t size) {
    void *made = cleave_arena_alloc(arena, (size_t)n, size);
    cr_assert_not_null(made);
    return made;
}

static int64_t below(cleave_random *random, int64_t n) {
    return (int64_t)cleave_random_below(random, (uint32_t)n);
}

static void draw_times(drawn *of, cleave_random *random) {
    static const int64_t spreads[] = {0, 1, 10, 300}, messages[] = {1, 50, 500, 1500};
    int64_t spread = spreads[below(random, 4)];
    for (int k = 0; k < CLEAVE_N_BLOCK_KINDS; k++)
        for (int32_t s = 0; s < of->schedule.n_stages; s++)
            of->work[k][s] = (k == 1 ? 2 : 1) * (1000 - spread + below(random, 2 * spread + 1));
    if (below(random, 3) == 0) /* some recompute */
        for (int32_t s = 0; s < of->schedule.n_stages; s++)
            of->work[1][s] += below(random, 2) * of->work[0][s];
    of->first_work = below(random, 2) * 777;
    of->update = 1 + below(random, 500);
    of->post = below(random, 2) * below(random, 40);
    of->sent = messages[below(random, 4)];
    of->latency = below(random, 2) * 25;
    of->summed = 1 + below(random, 3000);
    of->combined = below(random, 2) * (1 + below(random, 200));
    of->waits_to_leave = below(random, 2) == 0;
    of->is_shared = below(random, 2) == 0;
    of->synchronises = below(random, 2) == 0;
    of->gathers = below(random, 2) == 0;
}

static void draw(drawn *of, uint64_t seed, int32_t P, int32_t m) {
    static const cleave_schedule_kind kinds[] = {
        CLEAVE_SCHEDULE_1F1B,  CLEAVE_SCHEDULE_1F1B,  CLEAVE_SCHEDULE_INTERLEAVED,
        CLEAVE_SCHEDULE_ZB_H1, CLEAVE_SCHEDULE_GPIPE, CLEAVE_SCHEDULE_ZB_INTERLEAVED};
    cleave_random random = {.key = seed_from(seed)};
    int k = (int)below(&random, P > 1 ? 6 : 2);
    *of = (drawn){.schedule = {.micro_batches = m, .kind = kinds[k]}, .P = P};
    int32_t v =
        cleave_schedule_kind_goes_round(of->schedule.kind) ? 2 + (int32_t)below(&random, 2) : 1;
    of->schedule.n_stages = P * v;
    of->n_each = P > 8 ? 1 : 1 + (int32_t)below(&random, 3);
    of->n_links = P * P;
    of->group = array(&of->arena, P * v, sizeof *of->group);
    for (int32_t s = 0; s < P * v; s++)
        of->group[s] = s % P;
    if (v > 1)
        of->schedule.micro_batches -= m % P;
    if (k == 1) { /* more ahead than others */
        of->schedule.in_flight = array(&of->arena, P, sizeof *of->schedule.in_flight);
        for (int32_t g = 0; g < P; g++)
            of->schedule.in_flight[g] = 2 * (P - g) - 1;
    }
    if (cleave_schedule_kind_parts_weights(of->schedule.kind))
        of->schedule.sooner = (int32_t)below(&random, P);
    for (int i = 0; i < CLEAVE_N_BLOCK_KINDS; i++)
        of->work[i] = array(&of->arena, P * v, sizeof **of->work);
    draw_times(of, &random);
    OK(cleave_schedule_sequence, &of->schedule, of->group, &of->arena, &of->sequence,
       &of->n_blocks);
    snprintf(of->text, sizeof of->text, "seed %d: %s%s, P = %d, v = %d, m = %d, %d devices each",
             (int)seed, cleave_schedule_names[of->schedule.kind], k == 1 ? " (eager)" : "", P, v,
             of->schedule.micro_batches, of->n_each);
}

/* ---- a program of it ------------------------------------------------------------------------- */

/* Of all micro-batches, or of three: what is asked for by a number below n_windows. */
typedef struct made {
    const drawn *of;
    cleave_arena *arena;
    int32_t n_windows;
    cleave_program program;
    cleave_engine_problem problem;
    cleave_turns turns;
    int32_t *message; /* [2][n_stages][n_each][n_windows] */
    int32_t
        *gradients; /* [n_stages][n_each] the item that ends the sum of the device's gradients */
} made;

static int32_t put(made *to, cleave_item_kind kind, int lane, cleave_when when, int32_t device,
                   int32_t subject, int64_t duration) {
    static const uint8_t priced[] = {
        [CLEAVE_ITEM_COMPUTE] = CLEAVE_PRICED_WORK, [CLEAVE_ITEM_SEND] = CLEAVE_PRICED_POST,
        [CLEAVE_ITEM_RECEIVE] = CLEAVE_PRICED_POST, [CLEAVE_ITEM_WAIT] = CLEAVE_PRICED_WAIT_ARRIVAL,
        [CLEAVE_ITEM_SYNC] = CLEAVE_PRICED_SYNC,    [CLEAVE_ITEM_JOIN] = CLEAVE_PRICED_JOIN,
        [CLEAVE_ITEM_AWAIT] = CLEAVE_PRICED_AWAIT,
    };
    cleave_priced_fragment *step = &to->problem.step;
    int32_t i = step->n_items++;
    step->kind[i] = priced[kind];
    step->queue[i] = 2 * device + lane;
    step->subject[i] = subject;
    step->duration[i] = duration;
    to->program.items[i] = (cleave_item){.kind = (uint8_t)kind,
                                         .lane = (uint8_t)lane,
                                         .when = (uint8_t)when,
                                         .device = device,
                                         .subject = subject};
    to->program.n_items = step->n_items;
    return i;
}

/* By all devices of a group, in a lane. */
static int32_t put_collective(made *to, int lane, cleave_when when, int32_t group, int64_t busy) {
    cleave_priced_fragment *step = &to->problem.step;
    int32_t c = step->n_collectives++, last = -1;
    step->collective_joins[c] = to->of->n_each;
    step->collective_busy[c] = busy;
    step->collective_rest[c] = 3;
    int32_t P = to->of->P, from = lane == 1 && to->of->gathers ? (group + P - 1) % P : group;
    step->collective_links[c] = to->of->is_shared ? 0 : from * P + group;
    step->collective_link_start[c + 1] = c + 1;
    to->program.n_collectives = step->n_collectives;
    for (int32_t r = 0; r < to->of->n_each; r++)
        put(to, CLEAVE_ITEM_JOIN, lane, when, group * to->of->n_each + r, c, 2);
    for (int32_t r = 0; r < to->of->n_each; r++)
        last = put(to, CLEAVE_ITEM_AWAIT, lane, when, group * to->of->n_each + r, c, 0);
    return last;
}

static int32_t *message_of(const made *to, int kind, int32_t stage, int32_t r, int32_t window) {
    const drawn *of = to->of;
    return &to->message[((int64_t)(kind * of->schedule.n_stages + stage) * of->n_each + r) *
                            to->n_windows +
                        window];
}

static bool goes_on(const drawn *of, int kind, int32_t stage) {
    int32_t next = kind == CLEAVE_BLOCK_FORWARD ? stage + 1 : stage - 1;
    return kind != CLEAVE_BLOCK_WEIGHT && next >= 0 && next < of->schedule.n_stages &&
           of->group[next] != of->group[stage];
}

static void put_message(made *to, int kind, int32_t stage, int32_t r, int32_t window) {
    const drawn *of = to->of;
    cleave_priced_fragment *step = &to->problem.step;
    int32_t a = of->group[stage], b = of->group[kind == 0 ? stage + 1 : stage - 1];
    int32_t m = step->n_messages++;
    step->hop_link[m] = of->is_shared ? (a + b) % 2 : a * of->P + b;
    step->hop_serialization[m] = of->sent;
    step->hop_start[m + 1] = m + 1;
    to->program.n_messages = step->n_messages;
    *message_of(to, kind, stage, r, window) = m;
    put(to, CLEAVE_ITEM_SEND, 0, CLEAVE_WHEN_EVERY, a * of->n_each + r, m, of->post);
    put(to, CLEAVE_ITEM_RECEIVE, 0, CLEAVE_WHEN_EVERY, b * of->n_each + r, m, of->post);
}

static void put_wait(made *to, int kind, int32_t stage, int32_t r, int32_t window, bool arrives) {
    int32_t reader = !arrives ? stage : kind == CLEAVE_BLOCK_FORWARD ? stage + 1 : stage - 1;
    int32_t i =
        put(to, CLEAVE_ITEM_WAIT, 0, CLEAVE_WHEN_EVERY, to->of->group[reader] * to->of->n_each + r,
            *message_of(to, kind, stage, r, window), 0);
    if (!arrives)
        to->problem.step.kind[i] = CLEAVE_PRICED_WAIT_RELEASE;
}

/* Gradients are complete: their sum goes on beside what comes next. */
static void put_sum(made *to, int32_t stage, const int32_t *work) {
    const drawn *of = to->of;
    int32_t g = of->group[stage];
    for (int32_t r = 0; r < of->n_each && !of->gathers; r++)
        put(to, CLEAVE_ITEM_SYNC, 1, CLEAVE_WHEN_LAST, g * of->n_each + r, work[r], 0);
    int32_t last = put_collective(to, 1, CLEAVE_WHEN_LAST, g, of->summed);
    for (int32_t r = 0; r < of->n_each; r++)
        to->gradients[stage * of->n_each + r] = last - of->n_each + 1 + r;
}

static void put_block(made *to, const cleave_stage_block *block, int32_t window) {
    const drawn *of = to->of;
    int kind = block->kind;
    int32_t s = block->stage, g = of->group[s], before = kind == 0 ? s - 1 : s + 1;
    bool last = block->micro_batch + 1 == of->schedule.micro_batches,
         parts = cleave_schedule_parts_weights(&of->schedule);
    int32_t work[3];
    for (int32_t r = 0; r < of->n_each; r++) {
        int32_t device = g * of->n_each + r;
        if (before >= 0 && before < of->schedule.n_stages && goes_on(of, kind, before))
            put_wait(to, kind, before, r, window, true);
        if (kind == 1 && of->waits_to_leave && goes_on(of, 0, s))
            put_wait(to, 0, s, r, window, false);
        if (kind == 0 && block->micro_batch == 0)
            put(to, CLEAVE_ITEM_COMPUTE, 0, CLEAVE_WHEN_FIRST, device, -1, of->first_work);
        work[r] = put(to, CLEAVE_ITEM_COMPUTE, 0, CLEAVE_WHEN_EVERY, device, -1,
                      of->work[kind][s] + (r == 1 ? 5 : 0));
    }
    if (of->combined > 0 && of->n_each > 1 && kind < 2)
        put_collective(to, 0, CLEAVE_WHEN_EVERY, g, of->combined);
    for (int32_t r = 0; r < of->n_each && goes_on(of, kind, s); r++)
        put_message(to, kind, s, r, window);
    if (last && of->synchronises && of->n_each > 1 && kind == (parts ? 2 : 1))
        put_sum(to, s, work);
}

static void put_updates(made *to) {
    const drawn *of = to->of;
    for (int32_t s = 0; s < of->schedule.n_stages; s++)
        for (int32_t r = 0; r < of->n_each; r++) {
            int32_t device = of->group[s] * of->n_each + r;
            if (of->synchronises && of->n_each > 1)
                put(to, CLEAVE_ITEM_SYNC, 0, CLEAVE_WHEN_LAST, device,
                    to->gradients[s * of->n_each + r], 0);
            put(to, CLEAVE_ITEM_COMPUTE, 0, CLEAVE_WHEN_LAST, device, -1, of->update);
        }
}

static void begin(made *to, const drawn *of, cleave_arena *arena, int32_t n_windows) {
    int64_t S = of->schedule.n_stages, n = of->n_each, blocks = 3 * S * n_windows + 1;
    int64_t n_items = blocks * n * 12, n_links = of->n_links;
    *to = (made){.of = of, .arena = arena, .n_windows = n_windows};
    to->problem = (cleave_engine_problem){
        .step = {.kind = array(arena, n_items, 1),
                 .queue = array(arena, n_items, sizeof(int32_t)),
                 .subject = array(arena, n_items, sizeof(int32_t)),
                 .duration = array(arena, n_items, sizeof(int64_t)),
                 .hop_start = array(arena, blocks * n + 1, sizeof(int32_t)),
                 .hop_link = array(arena, blocks * n, sizeof(int32_t)),
                 .hop_serialization = array(arena, blocks * n, sizeof(int64_t)),
                 .collective_joins = array(arena, 2 * blocks, sizeof(int32_t)),
                 .collective_busy = array(arena, 2 * blocks, sizeof(int64_t)),
                 .collective_rest = array(arena, 2 * blocks, sizeof(int64_t)),
                 .collective_link_start = array(arena, 2 * blocks + 1, sizeof(int32_t)),
                 .collective_links = array(arena, 2 * blocks, sizeof(int32_t))},
        .n_queues = 2 * of->P * of->n_each,
        .n_links = of->n_links,
        .has_stages = true,
        .link_latency = array(arena, n_links, sizeof(int64_t))};
    for (int64_t l = 0; l < n_links; l++)
        to->problem.link_latency[l] = of->latency;
    to->program = (cleave_program){.n_devices = of->P * of->n_each,
                                   .items = array(arena, n_items, sizeof(cleave_item))};
    to->message = array(arena, 2 * S * n * n_windows, sizeof(int32_t));
    to->gradients = array(arena, S * n, sizeof(int32_t));
    to->turns = (cleave_turns){.micro_batches = of->schedule.micro_batches,
                               .first_item = array(arena, blocks + 1, sizeof(int32_t)),
                               .window = array(arena, blocks, 1),
                               .turns = array(arena, of->n_blocks + 1, sizeof(cleave_turn))};
}

static void finish(made *to) {
    cleave_error error = {""};
    to->turns.first_item[to->turns.n_blocks] = to->program.n_items;
    to->problem.cuts = to->turns.first_item;
    to->problem.n_cuts = to->turns.n_blocks + (to->turns.n_blocks > 0);
    cr_assert_eq(cleave_engine_finish(&to->problem, to->arena, &error), CLEAVE_OK, "%s: %s",
                 to->of->text, error.message);
}

static void make_all(made *to, const drawn *of, cleave_arena *arena) {
    begin(to, of, arena, of->schedule.micro_batches);
    for (int32_t b = 0; b < of->n_blocks; b++)
        put_block(to, &of->sequence[b], of->sequence[b].micro_batch);
    put_updates(to);
    finish(to);
}

static void take_turn(made *to, int32_t *block, int32_t window, int32_t u) {
    cleave_turns *turns = &to->turns;
    if (*block == 0) {
        turns->first_item[turns->n_blocks] = to->program.n_items;
        turns->window[turns->n_blocks] = (uint8_t)window;
        *block = ++turns->n_blocks;
    }
    turns->turns[turns->n_turns++] = (cleave_turn){*block - 1, u};
}

static void make_few(made *to, const drawn *of, cleave_arena *arena) {
    begin(to, of, arena, CLEAVE_FEW_MICRO_BATCHES);
    int32_t S = of->schedule.n_stages, m = of->schedule.micro_batches, updates = 0;
    int32_t *block = array(arena, (int64_t)3 * S * 3, sizeof *block);
    for (int32_t b = 0; b < of->n_blocks; b++) {
        const cleave_stage_block *at = &of->sequence[b];
        int32_t window = at->micro_batch == 0 ? 0 : at->micro_batch + 1 < m ? 1 : 2;
        int32_t *is = &block[(at->kind * S + at->stage) * 3 + window], known = *is;
        take_turn(to, is, window, at->micro_batch);
        if (known == 0)
            put_block(to, at, window);
    }
    take_turn(to, &updates, CLEAVE_WINDOW_NONE, m - 1);
    put_updates(to);
    finish(to);
}

/* ---- times ----------------------------------------------------------------------------------- */

static void prepare(const made *of, cleave_engine_workspace **workspace,
                    cleave_timeline *timeline) {
    cr_assert_eq(cleave_engine_workspace_create(&of->problem, of->arena, workspace, NULL), 0);
    cr_assert_eq(cleave_engine_timeline_create(&of->problem, of->arena, timeline, NULL), 0);
}

static int64_t step_of_all(const drawn *of) {
    cleave_arena arena = {0};
    cleave_engine_workspace *workspace;
    cleave_timeline timeline;
    made all;
    make_all(&all, of, &arena);
    prepare(&all, &workspace, &timeline);
    OK(cleave_engine_run_scan, &all.problem, workspace, &timeline);
    cleave_arena_free(&arena);
    return timeline.step;
}

static cleave_turns_time time_of_few(const drawn *of, bool goes_through_all) {
    cleave_arena arena = {0};
    cleave_timeline timeline;
    cleave_turns_time time;
    cleave_error error = {""};
    made few;
    make_few(&few, of, &arena);
    cleave_turns_subject subject = {.program = &few.program,
                                    .turns = &few.turns,
                                    .problem = &few.problem,
                                    .timeline = &timeline,
                                    .goes_through_all = goes_through_all};
    prepare(&few, &subject.workspace, &timeline);
    cr_assert_eq(cleave_engine_scan_turns(&subject, &arena, &time, &error), CLEAVE_OK, "%s: %s",
                 of->text, error.message);
    cleave_arena_free(&arena);
    return time;
}

Test(turns, times_are_those_of_the_whole_scan) {
    static const int32_t groups[] = {1, 2, 3, 4, 6, 8}, times[] = {1, 3, 10, 20, 50};
    cleave_random random = {.key = seed_from(17)};
    int n = n_draws(400), shorter = 0;
    for (int i = 0; i < n; i++) {
        int32_t P = groups[below(&random, 6)];
        int32_t m = 4 + (int32_t)below(&random, P) + P * times[below(&random, 5)];
        drawn of;
        draw(&of, (uint64_t)i, P, m + P);
        int64_t step = step_of_all(&of);
        cleave_turns_time few = time_of_few(&of, false), through = time_of_few(&of, true);
        cr_assert_eq(few.step, step, "%s: %lld, not %lld", of.text, (long long)few.step,
                     (long long)step);
        cr_assert_eq(through.step, step, "%s: %lld, not %lld", of.text, (long long)through.step,
                     (long long)step);
        shorter += few.taken < through.taken;
        cleave_arena_free(&of.arena);
    }
    printf("%d of %d drawn pipelines leave some turns out\n", shorter, n);
    cr_expect_gt(shorter, n / 3);
}

/* In periods, which are a micro-batch, or of interleaved ones as many as there are groups.  Of
   gpipe, whose forwards leave something for backwards that come long after, some are gone through
   whole: these are not counted. */
Test(turns, of_a_thousand_micro_batches_few_are_gone_through) {
    enum { P = 16, M = 1024, MOST = 4 * P + 200 };
    int n = n_draws(100), beyond = 0, counted = 0;
    double *counts = malloc((size_t)n * sizeof *counts);
    cr_assert_not_null(counts);
    for (int i = 0; counted < n / 4; i++) {
        drawn of;
        draw(&of, 1000000 + (uint64_t)i, P, M);
        bool rounds = cleave_schedule_kind_goes_round(of.schedule.kind);
        if (of.schedule.kind != CLEAVE_SCHEDULE_GPIPE) {
            cleave_turns_time few = time_of_few(&of, false);
            double periods = of.schedule.micro_batches / (rounds ? P : 1);
            counts[counted] = periods * few.taken / (of.n_blocks + 1);
            beyond += counts[counted] > MOST;
            if (counted % 8 == 0 || counts[counted] > MOST)
                cr_assert_eq(few.step, step_of_all(&of), "%s", of.text);
            if (counts[counted++] > MOST)
                printf("%s: %.0f\n", of.text, counts[counted - 1]);
        }
        cleave_arena_free(&of.arena);
    }
    cleave_sort_doubles(counts, counted);
    printf("%d stages, m = %d: %.0f periods in the middle, %.0f at most; %d of %d beyond %d\n", P,
           M, counts[counted / 2], counts[counted - 1], beyond, counted, MOST);
    cr_expect_leq(beyond, counted / 100);
    free(counts);
}
