/* Task graphs against the rules written down as plainly as they can be: of all that waits to be
   served, the least by (readiness, id) is next, found by looking at everything.  Graphs are drawn
   with few and with many different times, with and without work that takes none, over direct links
   and over one or two switches; and in levels, where a breadth-first order is the right one. */
#include "../support/draws.h"
#include "../support/ok.h"
#include "base/random.h"
#include "simulator/events/tasks.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_TASKS = 240, MOST_DEVICES = 6, N_GRAPHS = 6000, MOST_HOPS = 3 };

/* ---- the rules ---- */

typedef struct reference {
    const cleave_tasks *tasks;
    int64_t event[MOST_TASKS];           /* when it reaches its next server; -1: it does not */
    int64_t left[MOST_TASKS][MOST_HOPS]; /* when it has left each of its links */
    int64_t start[MOST_TASKS], end[MOST_TASKS], ready[MOST_TASKS];
    int32_t before[MOST_TASKS], hops[MOST_TASKS]; /* still to end; crossed */
    int64_t *device_free, *link_free;
} reference;

static void reference_end(reference *r, int32_t task, int64_t end) {
    const cleave_tasks *tasks = r->tasks;
    r->end[task] = end;
    for (int32_t e = tasks->next_start[task]; e < tasks->next_start[task + 1]; e++) {
        int32_t next = tasks->next[e];
        if (end > r->ready[next])
            r->ready[next] = end;
        if (--r->before[next] == 0)
            r->event[next] = r->ready[next];
    }
}

static void reference_exec(reference *r, int32_t task, int64_t now) {
    int64_t *free_at = &r->device_free[r->tasks->device[task]];
    r->start[task] = now > *free_at ? now : *free_at;
    *free_at = r->start[task] + r->tasks->duration[task];
    reference_end(r, task, *free_at);
}

/* It has arrived when the last byte has crossed from each of the links on. */
static int64_t reference_arrival(const reference *r, int32_t task) {
    const cleave_tasks *tasks = r->tasks;
    int32_t n = r->hops[task];
    int64_t latencies = 0, arrival = 0;
    for (int32_t k = n - 1; k >= 0; k--) {
        latencies += tasks->link_latency[tasks->hop_link[tasks->hop_start[task] + k]];
        if (r->left[task][k] + latencies > arrival)
            arrival = r->left[task][k] + latencies;
    }
    return arrival;
}

static void reference_comm(reference *r, int32_t task, int64_t now) {
    const cleave_tasks *tasks = r->tasks;
    int32_t k = r->hops[task]++, hop = tasks->hop_start[task] + k, link = tasks->hop_link[hop];
    int64_t begin = now > r->link_free[link] ? now : r->link_free[link];
    r->left[task][k] = r->link_free[link] = begin + tasks->hop_serialization[hop];
    if (k == 0)
        r->start[task] = begin;
    if (hop + 1 < tasks->hop_start[task + 1])
        r->event[task] = begin + tasks->link_latency[link];
    else
        reference_end(r, task, reference_arrival(r, task));
}

static void reference_run(reference *r, const cleave_tasks *tasks, cleave_arena *arena) {
    *r = (reference){.tasks = tasks};
    r->device_free = CLEAVE_ARENA_ARRAY(arena, int64_t, tasks->n_devices);
    r->link_free = CLEAVE_ARENA_ARRAY(arena, int64_t, tasks->n_links);
    for (int32_t t = 0; t < tasks->n_tasks; t++) {
        r->before[t] = tasks->n_before[t];
        r->event[t] = r->before[t] == 0 ? 0 : -1;
    }
    for (;;) {
        int32_t least = -1;
        for (int32_t t = 0; t < tasks->n_tasks; t++)
            if (r->event[t] >= 0 && (least < 0 || r->event[t] < r->event[least]))
                least = t;
        if (least < 0)
            return;
        int64_t now = r->event[least];
        r->event[least] = -1;
        if (tasks->device[least] >= 0)
            reference_exec(r, least, now);
        else
            reference_comm(r, least, now);
    }
}

/* ---- graphs ---- */

typedef struct drawing {
    cleave_random random;
    FILE *out;
    int32_t n_devices, n_switches, n_tasks;
    int64_t least, most; /* times, picoseconds */
    int32_t id[MOST_TASKS];
} drawing;

static int64_t draw(drawing *d, int64_t least, int64_t most) {
    return least + cleave_random_below(&d->random, most - least + 1);
}

/* 1e12 bytes a second: as many picoseconds as bytes. */
static void draw_link(drawing *d, int32_t from, int32_t to) {
    fprintf(d->out, "link %d %d 1e12 %de-12\n", from, to, (int)draw(d, d->least, d->most));
}

static void draw_links(drawing *d) {
    fprintf(d->out, "node %d\n", d->n_devices);
    for (int32_t a = 0; a < d->n_devices; a++) {
        for (int32_t b = 0; b < d->n_devices; b++)
            if (a != b && d->n_switches == 0)
                draw_link(d, a, b);
        if (d->n_switches > 0) { /* a device is on the first switch or on the last */
            int32_t at = d->n_devices + (a % 2) * (d->n_switches - 1);
            draw_link(d, a, at);
            draw_link(d, at, a);
        }
    }
    if (d->n_switches == 2) {
        draw_link(d, d->n_devices, d->n_devices + 1);
        draw_link(d, d->n_devices + 1, d->n_devices);
    }
}

/* Ids in no order, so that the smaller id is not always the one that is there first. */
static void draw_ids(drawing *d) {
    for (int32_t t = 0; t < d->n_tasks; t++) {
        int32_t other = (int32_t)draw(d, 0, t);
        d->id[t] = d->id[other];
        d->id[other] = t;
    }
}

static void draw_exec(drawing *d, int32_t task, int32_t device) {
    fprintf(d->out, "exec %d %d %de-12\n", d->id[task], device, (int)draw(d, d->least, d->most));
}

static void draw_comm(drawing *d, int32_t task, int32_t from, int32_t to) {
    int32_t first = d->n_devices, last = first + d->n_switches - 1;
    fprintf(d->out, "comm %d %d %d %d", d->id[task], from, to, (int)draw(d, d->least, d->most));
    if (d->n_switches == 1 || (d->n_switches == 2 && from % 2 == to % 2))
        fprintf(d->out, " %d", from % 2 == 0 ? first : last);
    else if (d->n_switches == 2)
        fprintf(d->out, from % 2 == 0 ? " %d %d" : " %2$d %1$d", first, last);
    fprintf(d->out, "\n");
}

/* Anything after anything that comes before it in an order. */
static void draw_free(drawing *d) {
    d->n_tasks = (int32_t)draw(d, 1, 40);
    draw_ids(d);
    for (int32_t t = 0; t < d->n_tasks; t++) {
        int32_t from = (int32_t)draw(d, 0, d->n_devices - 1);
        int32_t to = (int32_t)draw(d, 0, d->n_devices - 1);
        if (from == to)
            draw_exec(d, t, from);
        else
            draw_comm(d, t, from, to);
        for (int64_t k = draw(d, 0, 2); k > 0 && t > 0; k--)
            fprintf(d->out, "dep %d %d\n", d->id[draw(d, 0, t - 1)], d->id[t]);
    }
}

/* Level by level: an exec on every device after the one before it there, and after a transfer from
   the device before it on the last level. */
static void draw_levels(drawing *d) {
    int32_t n = d->n_devices, n_levels = (int32_t)draw(d, 1, MOST_TASKS / (2 * n));
    d->n_tasks = 2 * n * n_levels;
    draw_ids(d);
    for (int32_t level = 0; level < n_levels; level++)
        for (int32_t k = 0; k < n; k++) {
            int32_t exec = 2 * (level * n + k), from = (k + 1) % n;
            int32_t before = exec - 2 * n, before_there = before + 2 * (from - k);
            draw_exec(d, exec, k);
            draw_comm(d, exec + 1, from, k);
            if (level > 0) {
                fprintf(d->out, "dep %d %d\n", d->id[before], d->id[exec]);
                fprintf(d->out, "dep %d %d\n", d->id[before_there], d->id[exec + 1]);
            }
            fprintf(d->out, "dep %d %d\n", d->id[exec + 1], d->id[exec]);
        }
}

static char *draw_graph(uint64_t seed, size_t *bytes) {
    static const int64_t most[] = {1, 3, 1000, 1000000};
    char *text = NULL;
    drawing d = {.random = {.key = seed}, .out = open_memstream(&text, bytes)};
    cr_assert_not_null(d.out);
    d.n_devices = (int32_t)draw(&d, 2, MOST_DEVICES);
    d.n_switches = (int32_t)draw(&d, 0, 2);
    d.least = draw(&d, 0, 1);
    d.most = most[draw(&d, 0, 3)];
    draw_links(&d);
    if (draw(&d, 0, 1) == 0)
        draw_free(&d);
    else
        draw_levels(&d);
    fclose(d.out);
    return text;
}

Test(tasks_match_reference, every_start_and_end_is_that_of_the_rules) {
    static reference expected;
    for (uint64_t seed = seed_from(0); seed < seed_end(N_GRAPHS); seed++) {
        cleave_arena arena = {0};
        cleave_error error = {""};
        cleave_tasks tasks;
        cleave_tasks_timeline found;
        size_t bytes;
        char *text = draw_graph(seed, &bytes);
        cr_assert_eq(cleave_tasks_parse(text, bytes, "drawn", &arena, &tasks, &error), CLEAVE_OK,
                     "seed %d: %s", (int)seed, error.message);
        OK(cleave_tasks_simulate, &tasks, &arena, &found);
        reference_run(&expected, &tasks, &arena);
        int64_t makespan = 0;
        for (int32_t t = 0; t < tasks.n_tasks; t++) {
            cr_assert(found.start[t] == expected.start[t] && found.end[t] == expected.end[t],
                      "seed %d, task %d: %lld..%lld, not %lld..%lld", (int)seed, t,
                      (long long)found.start[t], (long long)found.end[t],
                      (long long)expected.start[t], (long long)expected.end[t]);
            makespan = expected.end[t] > makespan ? expected.end[t] : makespan;
        }
        cr_assert_eq(found.makespan, makespan);
        cleave_arena_free(&arena);
        free(text);
    }
}
