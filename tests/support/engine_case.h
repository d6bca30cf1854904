/* Problems of the engines that tests put together item by item, small enough to be worked out by
   hand or to be looked at item against item. */
#ifndef CLEAVE_TESTS_SUPPORT_ENGINE_CASE_H
#define CLEAVE_TESTS_SUPPORT_ENGINE_CASE_H

#include "ok.h"
#include "simulator/step/engine_workspace.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { W = CLEAVE_PRICED_WORK, P = CLEAVE_PRICED_POST, A = CLEAVE_PRICED_WAIT_ARRIVAL };
enum { R = CLEAVE_PRICED_WAIT_RELEASE, S = CLEAVE_PRICED_SYNC };
enum { J = CLEAVE_PRICED_JOIN, T = CLEAVE_PRICED_AWAIT };

enum { ROOM = 4096 };

/* A problem under construction, with room for small cases. */
typedef struct engine_case {
    cleave_engine_problem problem;
    uint8_t kind[ROOM];
    int32_t queue[ROOM], subject[ROOM];
    int64_t duration[ROOM];
    int32_t hop_start[ROOM + 1], hop_link[ROOM];
    int64_t hop_serialization[ROOM], link_latency[64];
    cleave_message_ends ends[ROOM];
    int32_t joins[8], collective_link_start[9], collective_links[8];
    int64_t busy[8], rest[8];
    cleave_arena arena;
    cleave_engine_workspace *workspace;
    cleave_timeline timeline;
} engine_case;

static inline engine_case *engine_case_create(int32_t n_devices, int32_t n_links) {
    engine_case *c = calloc(1, sizeof *c);
    cr_assert_not_null(c);
    c->problem = (cleave_engine_problem){.step = {.kind = c->kind,
                                                  .queue = c->queue,
                                                  .subject = c->subject,
                                                  .duration = c->duration,
                                                  .hop_start = c->hop_start,
                                                  .hop_link = c->hop_link,
                                                  .hop_serialization = c->hop_serialization,
                                                  .collective_joins = c->joins,
                                                  .collective_busy = c->busy,
                                                  .collective_rest = c->rest,
                                                  .collective_link_start = c->collective_link_start,
                                                  .collective_links = c->collective_links},
                                         .n_queues = 2 * n_devices,
                                         .n_links = n_links,
                                         .link_latency = c->link_latency};
    return c;
}

static inline void engine_case_destroy(engine_case *c) {
    cleave_arena_free(&c->arena);
    free(c);
}

static inline int32_t item(engine_case *c, int32_t queue, int kind, int32_t subject,
                           int64_t duration) {
    int32_t i = c->problem.step.n_items++;
    cr_assert_lt(i, ROOM);
    c->kind[i] = (uint8_t)kind;
    c->queue[i] = queue;
    c->subject[i] = subject;
    c->duration[i] = duration;
    return i;
}

/* A message over one or two links; serialization is the same on both. */
static inline int32_t message(engine_case *c, int32_t first, int32_t second,
                              int64_t serialization) {
    int32_t m = c->problem.step.n_messages++, at = c->hop_start[m];
    c->hop_link[at] = first;
    c->hop_serialization[at++] = serialization;
    if (second >= 0) {
        c->hop_link[at] = second;
        c->hop_serialization[at++] = serialization;
    }
    c->hop_start[m + 1] = at;
    return m;
}

/* What the ends of a message do while it is on its way. */
static inline void ends(engine_case *c, int32_t m, int64_t work, int32_t source,
                        int32_t destination) {
    c->problem.step.ends = c->ends;
    c->ends[m] = (cleave_message_ends){.work = work, .source = source, .destination = destination};
}

static inline void finish(engine_case *c) {
    cleave_error error = {""};
    OK(cleave_engine_finish, &c->problem, &c->arena);
    cr_assert_eq(cleave_engine_workspace_create(&c->problem, &c->arena, &c->workspace, &error), 0);
    cr_assert_eq(cleave_engine_timeline_create(&c->problem, &c->arena, &c->timeline, &error), 0);
}

static inline int64_t events(engine_case *c) {
    OK(cleave_engine_run_events, &c->problem, c->workspace, &c->timeline);
    return c->timeline.step;
}

static inline int64_t scan(engine_case *c) {
    OK(cleave_engine_run_scan, &c->problem, c->workspace, &c->timeline);
    return c->timeline.step;
}

#endif
