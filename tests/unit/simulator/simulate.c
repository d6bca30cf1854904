/* From programs to timelines, task graphs and traces, on machines that ship. */
#include "simulator/step/simulate.h"
#include "../../support/ok.h"
#include "../../support/shipped.h"

#include "base/json.h"
#include "base/list.h"
#include "base/random.h"
#include "simulator/events/tasks.h"
#include "simulator/report/trace.h"

#include "../../support/collective_cost.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const cleave_tensor tensors[] = {{.name = "t"}};
static const cleave_model model = {.n_tensors = 1, .tensors = (cleave_tensor *)tensors};

typedef struct maker {
    cleave_arena arena;
    cleave_machine machine;
    cleave_cost_cache *cache;
    CLEAVE_LIST(cleave_item) items;
    CLEAVE_LIST(cleave_copy) copies;
    CLEAVE_LIST(cleave_message) messages;
    cleave_program program;
} maker;

static maker *maker_create(const char *machine, int32_t n_devices) {
    maker *m = calloc(1, sizeof *m);
    cr_assert_not_null(m);
    OK(shipped_machine, machine, n_devices, &m->arena, &m->machine);
    OK(cleave_cost_cache_create, &model, &m->machine, &m->cache);
    return m;
}

static void maker_destroy(maker *m) {
    cleave_cost_cache_destroy(m->cache);
    CLEAVE_LIST_FREE(&m->items);
    CLEAVE_LIST_FREE(&m->copies);
    CLEAVE_LIST_FREE(&m->messages);
    cleave_arena_free(&m->arena);
    free(m);
}

static int32_t put(maker *m, int kind, int32_t device, int32_t lane, int32_t subject) {
    cleave_item item = {
        .kind = (uint8_t)kind, .lane = (uint8_t)lane, .device = device, .subject = subject};
    cr_assert(CLEAVE_LIST_PUSH(&m->items, item));
    return m->items.n - 1;
}

static int32_t put_copy(maker *m, int32_t device, int32_t lane, int64_t bytes) {
    cleave_copy copy = {.bytes = bytes};
    cr_assert(CLEAVE_LIST_PUSH(&m->copies, copy));
    return put(m, CLEAVE_ITEM_COPY, device, lane, m->copies.n - 1);
}

static int32_t make_message(maker *m, int32_t source, int32_t destination, int64_t bytes) {
    cleave_message message = {.source = source, .destination = destination, .bytes = bytes};
    cr_assert(CLEAVE_LIST_PUSH(&m->messages, message));
    return m->messages.n - 1;
}

static const cleave_program *finish(maker *m) {
    m->program = (cleave_program){.model = &model,
                                  .n_devices = m->machine.n_devices,
                                  .n_items = m->items.n,
                                  .items = m->items.items,
                                  .n_copies = m->copies.n,
                                  .copies = m->copies.items,
                                  .n_messages = m->messages.n,
                                  .messages = m->messages.items};
    return &m->program;
}

/* two-cores: a copy costs 2 us of launch and bytes / (12 GB/s x 0.8); posting 1 us; the link has 6
   GB/s and 1 us of latency, the processors work for bytes / 6 GB/s.  Device 0 copies 96,000 bytes:
   2 + 10 = 12 us; posts 6,000 bytes, ends at 13.  Device 1 posts at 0..1.  The link takes 13..14,
   and what comes out of it is worked on at 14..15: arrival and, as the sender's processor is done
   by then, release at 15.  Device 1 copies 9,600 bytes, 3 us: 18. */
Test(simulate, a_small_program_takes_what_its_prices_say) {
    maker *m = maker_create("two-cores", 0);
    int32_t message = make_message(m, 0, 1, 6000);
    put_copy(m, 0, 0, 96000);
    put(m, CLEAVE_ITEM_RECEIVE, 1, 0, message);
    put(m, CLEAVE_ITEM_SEND, 0, 0, message);
    int32_t release = put(m, CLEAVE_ITEM_WAIT, 0, 0, message);
    put(m, CLEAVE_ITEM_WAIT, 1, 0, message);
    put_copy(m, 1, 0, 9600);
    const cleave_program *program = finish(m);
    for (int rule = CLEAVE_RULE_EVENTS; rule <= CLEAVE_RULE_SCAN; rule++) {
        cleave_timeline timeline;
        OK(cleave_simulate, program, m->cache, (cleave_rule)rule, &m->arena, &timeline);
        cr_expect_eq(timeline.step, 18000000);
        cr_expect_eq(timeline.arrival[message], 15000000);
        cr_expect_eq(timeline.end[release], 15000000);
    }
    maker_destroy(m);
}

/* Copies and messages between random devices, on both lanes, with waits at both ends. */
static const cleave_program *make_random(maker *m, uint64_t seed) {
    cleave_random random = {.key = seed};
    int32_t n = m->machine.n_devices, last[128];
    memset(last, -1, sizeof last);
    for (int k = 0; k < 300; k++) {
        int32_t from = (int32_t)cleave_random_below(&random, n);
        int32_t to = (from + 1 + (int32_t)cleave_random_below(&random, n - 1)) % n;
        int32_t lane = (int32_t)cleave_random_below(&random, 2);
        int32_t message = make_message(m, from, to, 1 + cleave_random_below(&random, 1000000));
        put_copy(m, from, lane, 1 + cleave_random_below(&random, 30000000));
        put(m, CLEAVE_ITEM_RECEIVE, to, lane, message);
        last[2 * from + lane] = put(m, CLEAVE_ITEM_SEND, from, lane, message);
        put_copy(m, to, lane, 1 + cleave_random_below(&random, 30000000));
        if (cleave_random_below(&random, 2))
            put(m, CLEAVE_ITEM_WAIT, from, lane, message);
        if (last[2 * to + 1 - lane] >= 0)
            put(m, CLEAVE_ITEM_SYNC, to, lane, last[2 * to + 1 - lane]);
        last[2 * to + lane] = put(m, CLEAVE_ITEM_WAIT, to, lane, message);
    }
    return finish(m);
}

static cleave_timeline run_events(maker *m, cleave_engine_problem *problem,
                                  cleave_engine_workspace **workspace) {
    cleave_timeline timeline;
    OK(cleave_simulate_prepare, &m->program, m->cache, &m->arena, problem);
    OK(cleave_engine_workspace_create, problem, &m->arena, workspace);
    OK(cleave_engine_timeline_create, problem, &m->arena, &timeline);
    OK(cleave_simulate_run, problem, CLEAVE_RULE_EVENTS, *workspace, &timeline);
    return timeline;
}

/* Law: a dumped program is the same schedule, told in another format and run by another loop. */
Test(simulate, a_dumped_program_has_the_makespan_of_its_simulation) {
    static const char *const machines[] = {"two-cores", "p100-4x4", "k80-16x4"};
    char path[512];
    snprintf(path, sizeof path, CLEAVE_BINARY_DIR "/simulate-test-%ld.dag", (long)getpid());
    for (uint64_t seed = 0; seed < 30; seed++) {
        maker *m = maker_create(machines[seed % 3], seed % 3 == 0 ? 2 : 6 + (int32_t)(seed % 7));
        make_random(m, seed);
        cleave_engine_problem problem;
        cleave_engine_workspace *workspace;
        cleave_timeline timeline = run_events(m, &problem, &workspace);
        cleave_tasks tasks;
        cleave_tasks_timeline by_tasks;
        OK(cleave_tasks_write, path, &m->program, &m->machine, &problem, &timeline,
           cleave_engine_hop_begin(workspace));
        OK(cleave_tasks_read, path, &m->arena, &tasks);
        OK(cleave_tasks_simulate, &tasks, &m->arena, &by_tasks);
        cr_expect_eq(by_tasks.makespan, timeline.step, "seed %llu", (unsigned long long)seed);
        /* What processors take longer than links comes after all messages. */
        int32_t rest = m->program.n_items + m->program.n_messages;
        for (int32_t k = 0; k < m->program.n_messages; k++) {
            bool is_late = by_tasks.end[m->program.n_items + k] < timeline.arrival[k];
            int32_t task = is_late ? rest++ : m->program.n_items + k;
            cr_assert_lt(task, tasks.n_tasks);
            cr_expect_eq(by_tasks.end[task], timeline.arrival[k]);
        }
        cr_expect_eq(rest, tasks.n_tasks);
        maker_destroy(m);
    }
    unlink(path);
}

/* And no link is busy for longer than the step. */
Test(simulate, a_trace_holds_every_copy_and_every_hop_once) {
    maker *m = maker_create("p100-4x4", 8);
    make_random(m, 5);
    cleave_engine_problem problem;
    cleave_engine_workspace *workspace;
    cleave_timeline timeline = run_events(m, &problem, &workspace);
    cleave_trace_links links = {&m->machine, &problem, cleave_engine_hop_begin(workspace)};
    char path[512];
    cleave_error error = {""};
    snprintf(path, sizeof path, CLEAVE_BINARY_DIR "/simulate-test-%ld.json", (long)getpid());
    cleave_trace trace = {.program = &m->program, .predicted = &timeline, .links = &links};
    OK(cleave_trace_write, path, &trace);
    cleave_json *document;
    OK(cleave_json_read, path, &document);
    unlink(path);
    cleave_json_cursor root = cleave_json_root(document), events, member;
    OK(cleave_json_get, &root, "traceEvents", &events);
    int32_t n_copies = 0, n_hops = 0;
    double free[4096] = {0};
    for (int32_t i = 0; i < cleave_json_count(&events); i++) {
        cleave_json_cursor event = cleave_json_element(&events, i);
        const char *category;
        if (!cleave_json_find(&event, "cat", &member) ||
            cleave_json_string(&member, &category, &error) != CLEAVE_OK)
            continue;
        n_copies += strcmp(category, "copy") == 0;
        if (strcmp(category, "transfer") != 0)
            continue;
        int64_t link;
        double start, duration;
        cleave_json_get(&event, "tid", &member, &error);
        OK(cleave_json_integer, &member, 0, 4095, &link);
        cleave_json_get(&event, "ts", &member, &error);
        OK(cleave_json_number, &member, &start);
        cleave_json_get(&event, "dur", &member, &error);
        OK(cleave_json_number, &member, &duration);
        free[link] += duration;
        cr_expect_leq(free[link], (double)timeline.step * 1e-6 + 1e-3);
        n_hops++;
    }
    cr_expect_eq(n_copies, m->program.n_copies);
    cr_expect_eq(n_hops, problem.step.hop_start[problem.step.n_messages]);
    cleave_json_free(document);
    maker_destroy(m);
}

/* All join at once: the step is what a JOIN takes of its device, and the closed form. */
Test(simulate, a_symbolic_collective_takes_its_closed_form) {
    maker *m = maker_create("p100-4x4", 4);
    const int32_t devices[] = {0, 1, 2, 3};
    cleave_collective collective = {.kind = CLEAVE_ALL_REDUCE,
                                    .algorithm = CLEAVE_ALGORITHM_RING,
                                    .n_devices = 4,
                                    .devices = devices,
                                    .bytes = 80000000};
    for (int32_t d = 0; d < 4; d++)
        put(m, CLEAVE_ITEM_JOIN, d, CLEAVE_LANE_COMMUNICATION, 0);
    for (int32_t d = 0; d < 4; d++)
        put(m, CLEAVE_ITEM_AWAIT, d, CLEAVE_LANE_COMMUNICATION, 0);
    finish(m);
    m->program.n_collectives = 1;
    m->program.collectives = &collective;
    cleave_engine_problem problem;
    cleave_engine_workspace *workspace;
    cleave_timeline timeline = run_events(m, &problem, &workspace);
    /* 12 posts (send and receive in each of 6 rounds) of 3 us; three sums, each a launch of 8 us
       and three times a quarter of 80 MB at 549 GB/s. */
    int64_t join = cleave_picoseconds(36e-6 + 3 * (8e-6 + 60e6 / (732e9 * 0.75)));
    cr_expect_eq(timeline.step, join + collective_cost(&m->machine, &collective));
    maker_destroy(m);
}

Test(simulate, a_layout_for_more_devices_than_the_machine_has_is_refused) {
    maker *m = maker_create("two-cores", 0);
    put_copy(m, 0, 0, 1);
    finish(m);
    m->program.n_devices = 3;
    cleave_timeline timeline;
    cleave_error error = {""};
    cr_expect_eq(
        cleave_simulate(&m->program, m->cache, CLEAVE_RULE_SCAN, &m->arena, &timeline, &error),
        CLEAVE_BAD_INPUT);
    cr_expect_neq(strstr(error.message, "3 devices"), NULL, "%s", error.message);
    maker_destroy(m);
}
