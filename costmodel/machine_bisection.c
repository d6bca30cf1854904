/* The bisection of a machine as a maximum flow from the first half of its devices to the other
   (Dinic, 1970): layers of hops by a search from all sources, then augmenting ways along the layers
   until none is left, and again while the sinks are reached. */
#include "costmodel/machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Arc 2l is link l, arc 2l + 1 takes its flow back. */
typedef struct flow {
    const cleave_machine *machine;
    double *room;          /* [2 n_links] */
    int32_t *start, *arcs; /* arcs by the vertex that they leave */
    int32_t *layer;        /* [n_vertices] -1: not reached */
    int32_t *next;         /* [n_vertices] first arc that may still lead on */
    int32_t *queue;        /* [n_vertices] */
    int32_t *way;          /* [n_vertices] arcs of the way that is followed */
    double least;          /* room that counts as none */
    int32_t n_sources;     /* devices 0..n_sources - 1 */
} flow;

static int32_t arc_from(const flow *f, int32_t arc) {
    const cleave_link *link = &f->machine->links[arc / 2];
    return arc % 2 == 0 ? link->from : link->to;
}

static int32_t arc_to(const flow *f, int32_t arc) { return arc_from(f, arc ^ 1); }

static bool is_sink(const flow *f, int32_t vertex) {
    return vertex >= f->n_sources && vertex < f->machine->n_devices;
}

static void sort_arcs(flow *f) {
    int32_t n_arcs = 2 * f->machine->n_links;
    for (int32_t a = 0; a < n_arcs; a++)
        f->start[arc_from(f, a) + 2]++;
    for (int32_t v = 0; v < f->machine->n_vertices; v++)
        f->start[v + 2] += f->start[v + 1];
    for (int32_t a = 0; a < n_arcs; a++)
        f->arcs[f->start[arc_from(f, a) + 1]++] = a;
}

static bool find_layers(flow *f) {
    int32_t n = 0;
    bool reached = false;
    memset(f->layer, -1, (size_t)f->machine->n_vertices * sizeof *f->layer);
    for (int32_t v = 0; v < f->n_sources; v++) {
        f->layer[v] = 0;
        f->queue[n++] = v;
    }
    for (int32_t k = 0; k < n; k++) {
        int32_t v = f->queue[k];
        reached = reached || is_sink(f, v);
        for (int32_t a = f->start[v]; a < f->start[v + 1]; a++) {
            int32_t to = arc_to(f, f->arcs[a]);
            if (f->layer[to] >= 0 || f->room[f->arcs[a]] <= f->least)
                continue;
            f->layer[to] = f->layer[v] + 1;
            f->queue[n++] = to;
        }
    }
    return reached;
}

/* The next arc that leads on from a vertex, or -1. */
static int32_t lead_on(flow *f, int32_t v) {
    for (; f->next[v] < f->start[v + 1]; f->next[v]++) {
        int32_t arc = f->arcs[f->next[v]];
        if (f->room[arc] > f->least && f->layer[arc_to(f, arc)] == f->layer[v] + 1)
            return arc;
    }
    return -1;
}

/* Pushes what fits through the way of n arcs, and returns how much. */
static double push(flow *f, int32_t n) {
    double fits = HUGE_VAL;
    for (int32_t i = 0; i < n; i++)
        fits = fmin(fits, f->room[f->way[i]]);
    for (int32_t i = 0; i < n; i++) {
        f->room[f->way[i]] -= fits;
        f->room[f->way[i] ^ 1] += fits;
    }
    return fits;
}

/* All that one source can send along the layers. */
static double drain(flow *f, int32_t source) {
    double sent = 0;
    int32_t n = 0, v = source;
    for (;;) {
        int32_t arc = lead_on(f, v);
        if (arc >= 0) {
            f->way[n++] = arc;
            v = arc_to(f, arc);
            if (is_sink(f, v)) {
                sent += push(f, n);
                n = 0;
                v = source;
            }
        } else if (n > 0) { /* a dead end: not this arc again */
            v = arc_from(f, f->way[--n]);
            f->next[v]++;
        } else {
            return sent;
        }
    }
}

static double run(flow *f) {
    double total = 0;
    sort_arcs(f);
    while (find_layers(f)) {
        for (int32_t v = 0; v < f->machine->n_vertices; v++)
            f->next[v] = f->start[v];
        for (int32_t v = 0; v < f->n_sources; v++)
            total += drain(f, v);
    }
    return total;
}

cleave_status cleave_machine_bisection(const cleave_machine *machine, double *bytes_per_second,
                                       cleave_error *error) {
    size_t n = (size_t)machine->n_vertices, n_arcs = 2 * (size_t)machine->n_links;
    cleave_arena scratch = {0};
    flow f = {
        .machine = machine,
        .room = CLEAVE_ARENA_ARRAY(&scratch, double, n_arcs),
        .start = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n + 2),
        .arcs = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n_arcs),
        .layer = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n),
        .next = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n),
        .queue = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n),
        .way = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n),
        .n_sources = machine->n_devices / 2,
    };
    bool made = f.room != NULL && f.start != NULL && f.arcs != NULL && f.layer != NULL &&
                f.next != NULL && f.queue != NULL && f.way != NULL;
    for (int32_t l = 0; l < machine->n_links && made; l++) {
        f.room[2 * l] = machine->links[l].bytes_per_second;
        f.least = fmax(f.least, 1e-9 * f.room[2 * l]);
    }
    if (made)
        *bytes_per_second = run(&f);
    cleave_arena_free(&scratch);
    return made ? CLEAVE_OK : cleave_fail_memory(error, "measuring the bisection");
}
