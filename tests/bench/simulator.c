/* Items a second of both engines, on a synthetic program: L layers of data-parallel compute on D
   devices in nodes of four, an activation from every device to its neighbour after each layer, and
   a ring step of a gradient beside it on the communication lane.  Posts and waits are counted, as
   they are items.  Medians and spread over repetitions; nothing is asserted here. */
#include "base/progress.h"
#include "simulator/engine.h"

#include <stdio.h>
#include <stdlib.h>

enum { REPETITIONS = 15, PER_NODE = 4 };

typedef struct synthetic {
    cleave_engine_problem problem;
    int32_t n_devices;
} synthetic;

static void add_item(cleave_engine_problem *p, int32_t queue, cleave_engine_kind kind,
                     int32_t subject, int64_t duration) {
    int32_t i = p->n_items++;
    p->kind[i] = (uint8_t)kind;
    p->queue[i] = queue;
    p->subject[i] = subject;
    p->duration[i] = duration;
}

/* Links: out of and into each device, then out of and into each node's card. */
static int32_t add_message(synthetic *s, int32_t from, int32_t to, int64_t serialization) {
    cleave_engine_problem *p = &s->problem;
    int32_t m = p->n_messages++, at = p->hop_start[m], d = s->n_devices;
    bool same_node = from / PER_NODE == to / PER_NODE;
    int32_t links[4] = {from, 2 * d + from / PER_NODE, 2 * d + (d + 3) / PER_NODE + to / PER_NODE,
                        d + to};
    for (int k = 0; k < 4; k++)
        if (!same_node || k == 0 || k == 3) {
            p->hop_link[at] = links[k];
            p->hop_serialization[at++] = k == 1 || k == 2 ? 2 * serialization : serialization;
        }
    p->hop_start[m + 1] = at;
    return m;
}

static void add_exchange(synthetic *s, int32_t lane, int32_t distance, int64_t serialization) {
    cleave_engine_problem *p = &s->problem;
    int32_t first = p->n_messages, d = s->n_devices;
    for (int32_t i = 0; i < d; i++) {
        int32_t to = (i + distance) % d, m = add_message(s, i, to, serialization + 1000 * i);
        add_item(p, 2 * i + lane, CLEAVE_ENGINE_POST, m, 1500000);
        add_item(p, 2 * to + lane, CLEAVE_ENGINE_POST, m, 1500000);
    }
    for (int32_t i = 0; i < d; i++) {
        add_item(p, 2 * i + lane, CLEAVE_ENGINE_WAIT_RELEASE, first + i, 0);
        add_item(p, 2 * ((i + distance) % d) + lane, CLEAVE_ENGINE_WAIT_ARRIVAL, first + i, 0);
    }
}

static void make(synthetic *s, int32_t n_layers, cleave_arena *arena) {
    cleave_engine_problem *p = &s->problem;
    int32_t d = s->n_devices, n_items = n_layers * d * 12, n_messages = n_layers * d * 2;
    p->n_queues = 2 * d;
    p->n_links = 2 * d + 2 * ((d + 3) / PER_NODE);
    p->kind = CLEAVE_ARENA_ARRAY(arena, uint8_t, n_items);
    p->queue = CLEAVE_ARENA_ARRAY(arena, int32_t, n_items);
    p->subject = CLEAVE_ARENA_ARRAY(arena, int32_t, n_items);
    p->duration = CLEAVE_ARENA_ARRAY(arena, int64_t, n_items);
    p->hop_start = CLEAVE_ARENA_ARRAY(arena, int32_t, n_messages + 1);
    p->hop_link = CLEAVE_ARENA_ARRAY(arena, int32_t, 4 * (size_t)n_messages);
    p->hop_serialization = CLEAVE_ARENA_ARRAY(arena, int64_t, 4 * (size_t)n_messages);
    p->link_latency = CLEAVE_ARENA_ARRAY(arena, int64_t, p->n_links);
    p->collective_link_start = CLEAVE_ARENA_ARRAY(arena, int32_t, 1);
    if (p->kind == NULL || p->queue == NULL || p->subject == NULL || p->duration == NULL ||
        p->hop_start == NULL || p->hop_link == NULL || p->hop_serialization == NULL ||
        p->link_latency == NULL || p->collective_link_start == NULL)
        exit(1);
    for (int32_t l = 0; l < p->n_links; l++)
        p->link_latency[l] = 2000000;
    for (int32_t layer = 0; layer < n_layers; layer++) {
        int32_t compute = p->n_items;
        for (int32_t i = 0; i < d; i++)
            add_item(p, 2 * i, CLEAVE_ENGINE_WORK, -1, 300000000 + 7919 * ((i * 31 + layer) % 101));
        add_exchange(s, 0, 1, 20000000);
        for (int32_t i = 0; i < d; i++) {
            add_item(p, 2 * i + 1, CLEAVE_ENGINE_SYNC, compute + i, 0);
            add_item(p, 2 * i + 1, CLEAVE_ENGINE_WORK, -1, 9000000);
        }
        add_exchange(s, 1, d > PER_NODE ? PER_NODE : 1, 3000000);
    }
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef cleave_status engine_function(const cleave_engine_problem *problem,
                                      cleave_engine_workspace *workspace, cleave_timeline *timeline,
                                      cleave_error *error);

static void measure(const char *name, engine_function *engine, const synthetic *s,
                    cleave_arena *arena) {
    cleave_engine_workspace *workspace;
    cleave_timeline timeline;
    cleave_error error = {""};
    double seconds[REPETITIONS];
    if (cleave_engine_workspace_create(&s->problem, arena, &workspace, &error) != CLEAVE_OK ||
        cleave_engine_timeline_create(&s->problem, arena, &timeline, &error) != CLEAVE_OK)
        exit(1);
    for (int r = -1; r < REPETITIONS; r++) { /* the first, -1, warms up */
        double start = cleave_clock_seconds();
        if (engine(&s->problem, workspace, &timeline, &error) != CLEAVE_OK) {
            fprintf(stderr, "%s\n", error.message);
            exit(1);
        }
        if (r >= 0)
            seconds[r] = cleave_clock_seconds() - start;
    }
    qsort(seconds, REPETITIONS, sizeof *seconds, compare_doubles);
    double millions = 1e-6 * s->problem.n_items;
    printf("%-6s %3d devices %8d items: %6.1f million items/s (%.1f..%.1f), step %.6f s\n", name,
           s->n_devices, s->problem.n_items, millions / seconds[REPETITIONS / 2],
           millions / seconds[REPETITIONS - 2], millions / seconds[1],
           1e-12 * (double)timeline.step);
}

int main(void) {
    static const int32_t devices[] = {2, 16, 64};
    for (int k = 0; k < 3; k++) {
        cleave_arena arena = {0};
        cleave_error error = {""};
        synthetic s = {.n_devices = devices[k]};
        make(&s, 300, &arena);
        if (cleave_engine_finish(&s.problem, &arena, &error) != CLEAVE_OK) {
            fprintf(stderr, "%s\n", error.message);
            return 1;
        }
        measure("events", cleave_engine_run_events, &s, &arena);
        measure("scan", cleave_engine_run_scan, &s, &arena);
        cleave_arena_free(&arena);
    }
    return 0;
}
