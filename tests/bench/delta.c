/* Delta simulation against whole passes, on synthetic networks: a chain of operators with skips,
   sample and parameter splits on blocks of devices, collectives of gradients in closed form on the
   communication lane.  A Metropolis walk changes one operator at a time from mixed layouts; each
   proposal is also simulated in full.  Processor time; building the fragments is not in it.
     usage: bench_delta [PROPOSALS [SEED [OPERATORS DEVICES]]]
   1000 proposals; 100 or 350 operators, 4, 16 or 64 devices.  Of each network: how many times as
   long a whole pass takes as the delta simulation (in all, and percentiles 10, 50 and 90 of single
   proposals); what a whole pass takes, items a second, and the share of proposals that was
   accepted; proposals a second by delta, and the share of slots that it jumped over. */
#include "arguments.h"
#include "base/arena.h"
#include "base/random.h"
#include "row.h"
#include "simulator/delta/checks.h"

#include <math.h>
#include <string.h>

enum { NODE = 4, MAX_CANDIDATES = 12, MAX_OPERATORS = 350, MAX_PROPOSALS = 100000 };
enum { WAITS, COMPUTES, POSTS, GRADIENTS, COLLECTIVES }; /* ranks of chunks in a slot */
static const int64_t POST_PS = 1500000, LAUNCH_PS = 5000000;
static const double DEVICE_LINK = 150e9, NODE_LINK = 25e9; /* bytes per second */

/* Parts: samples x parameters, on consecutive devices. */
typedef struct config {
    int32_t samples, parameters, first;
} config;

typedef struct operation {
    double flops, activation_bytes, weight_bytes;
    int32_t n_producers, producers[2], n_consumers, consumers[2];
    config config;
} operation;

typedef struct network {
    int32_t n_operators, n_devices, n_nodes, n_links;
    operation operators[MAX_OPERATORS];
    config candidates[MAX_CANDIDATES];
    int32_t n_candidates;
    cleave_random random;
} network;

/* --- Building fragments --------------------------------------------------------------------------
 */

/* A fragment under construction, with room to spare, and one that is done, in an arena of its own.
 */
typedef struct sketch {
    cleave_priced_fragment f;
    int32_t room_items, room_subjects, room_chunks, room_links;
} sketch;

typedef struct built {
    cleave_arena arena;
    cleave_priced_fragment f;
    cleave_delta_made *made; /* when it is first put */
} built;

static void *room_for(void *array, int32_t n, size_t size) {
    void *made = realloc(array, (size_t)n * size);
    if (made == NULL)
        exit(1);
    return made;
}

static void begin_chunk(sketch *s, int32_t slot, int32_t rank) {
    cleave_priced_fragment *f = &s->f;
    if (f->n_chunks == s->room_chunks) {
        s->room_chunks = 2 * s->room_chunks + 16;
        f->chunks = room_for(f->chunks, s->room_chunks, sizeof *f->chunks);
    }
    f->chunks[f->n_chunks++] =
        (cleave_priced_chunk){.slot = slot, .rank = rank, .first_item = f->n_items};
}

static void add(sketch *s, int kind, int32_t queue, int32_t subject, int64_t duration) {
    cleave_priced_fragment *f = &s->f;
    if (f->n_items == s->room_items) {
        s->room_items = 2 * s->room_items + 256;
        f->kind = room_for(f->kind, s->room_items, sizeof *f->kind);
        f->queue = room_for(f->queue, s->room_items, sizeof *f->queue);
        f->subject = room_for(f->subject, s->room_items, sizeof *f->subject);
        f->duration = room_for(f->duration, s->room_items, sizeof *f->duration);
    }
    f->kind[f->n_items] = (uint8_t)kind;
    f->queue[f->n_items] = queue;
    f->subject[f->n_items] = subject;
    f->duration[f->n_items++] = duration;
    f->chunks[f->n_chunks - 1].n_items++;
}

static int64_t picoseconds(double seconds) { return (int64_t)ceil(seconds * 1e12); }

/* Both posts of a message; two hops, through the node or between the nodes' shared cards. */
static int32_t add_message(const network *net, sketch *s, int32_t from, int32_t to, double bytes) {
    cleave_priced_fragment *f = &s->f;
    if (f->n_messages == s->room_subjects) {
        s->room_subjects = 2 * s->room_subjects + 64;
        f->hop_start = room_for(f->hop_start, s->room_subjects + 1, sizeof *f->hop_start);
        f->hop_link = room_for(f->hop_link, 2 * s->room_subjects, sizeof *f->hop_link);
        f->hop_serialization =
            room_for(f->hop_serialization, 2 * s->room_subjects, sizeof *f->hop_serialization);
    }
    int32_t m = f->n_messages++, n = net->n_devices;
    bool near = from / NODE == to / NODE;
    f->hop_link[2 * m] = near ? from : 2 * n + from / NODE;
    f->hop_link[2 * m + 1] = near ? n + to : 2 * n + net->n_nodes + to / NODE;
    f->hop_serialization[2 * m] = f->hop_serialization[2 * m + 1] =
        picoseconds(bytes / (near ? DEVICE_LINK : NODE_LINK)) + 1;
    f->hop_start[m] = 2 * m;
    f->hop_start[m + 1] = 2 * m + 2;
    add(s, CLEAVE_PRICED_POST, 2 * from, m, POST_PS);
    add(s, CLEAVE_PRICED_POST, 2 * to, m, POST_PS);
    return m;
}

#define COPY(member, type, count)                                                                  \
    b->f.member = CLEAVE_ARENA_ARRAY(&b->arena, type, count);                                      \
    if ((count) > 0)                                                                               \
    memcpy(b->f.member, s->f.member, (size_t)(count) * sizeof(type))

static built *finish(sketch *s, built **spare) {
    built *b = *spare;
    *spare = NULL;
    if (b == NULL && (b = calloc(1, sizeof *b)) == NULL)
        exit(1);
    cleave_arena_reset(&b->arena);
    cleave_delta_unmake(b->made);
    b->made = NULL;
    b->f = s->f;
    int32_t n_messages = s->f.n_messages, n_collectives = s->f.n_collectives;
    COPY(chunks, cleave_priced_chunk, s->f.n_chunks);
    COPY(kind, uint8_t, s->f.n_items);
    COPY(queue, int32_t, s->f.n_items);
    COPY(subject, int32_t, s->f.n_items);
    COPY(duration, int64_t, s->f.n_items);
    COPY(hop_start, int32_t, n_messages > 0 ? n_messages + 1 : 0);
    COPY(hop_link, int32_t, 2 * n_messages);
    COPY(hop_serialization, int64_t, 2 * n_messages);
    COPY(collective_joins, int32_t, n_collectives);
    COPY(collective_busy, int64_t, n_collectives);
    COPY(collective_rest, int64_t, n_collectives);
    COPY(collective_link_start, int32_t, n_collectives + 1);
    COPY(collective_links, int32_t, s->f.collective_link_start[n_collectives]);
    return b;
}

static void restart(sketch *s) {
    s->f.n_chunks = s->f.n_items = s->f.n_messages = s->f.n_collectives = s->f.n_marks = 0;
    if (s->f.collective_link_start == NULL) {
        s->f.collective_joins = room_for(NULL, 64, sizeof(int32_t));
        s->f.collective_busy = room_for(NULL, 64, sizeof(int64_t));
        s->f.collective_rest = room_for(NULL, 64, sizeof(int64_t));
        s->f.collective_link_start = room_for(NULL, 65, sizeof(int32_t));
        s->f.collective_links = room_for(NULL, 64 * 256, sizeof(int32_t));
    }
    s->f.collective_link_start[0] = 0;
}

static int32_t backward_slot(const network *net, int32_t l) { return 2 * net->n_operators - 1 - l; }
static int32_t update_slot(const network *net, int32_t l) { return 3 * net->n_operators - 1 - l; }

/* Forward, input gradient, weight gradient, update. */
static void sketch_nest(const network *net, sketch *s, int32_t l) {
    const operation *op = &net->operators[l];
    config c = op->config;
    double parts = (double)(c.samples * c.parameters);
    double bytes = op->activation_bytes / c.samples + op->weight_bytes / c.parameters;
    int64_t work = picoseconds(fmax(op->flops / parts / 60e12, bytes / 1.5e12)) + LAUNCH_PS;
    int64_t update = picoseconds(op->weight_bytes / c.parameters * 5 / 1.5e12) + LAUNCH_PS;
    const struct {
        int32_t slot, rank;
        int64_t duration;
    } passes[] = {{l, COMPUTES, work},
                  {backward_slot(net, l), COMPUTES, work},
                  {backward_slot(net, l), GRADIENTS, work},
                  {update_slot(net, l), COMPUTES, update}};
    for (int p = 0; p < 4; p++) {
        begin_chunk(s, passes[p].slot, passes[p].rank);
        for (int32_t i = 0; i < c.samples * c.parameters; i++)
            add(s, CLEAVE_PRICED_WORK, 2 * (c.first + i), -1, passes[p].duration);
    }
}

/* Calls for every piece that a part of the consumer reads of a part of the producer elsewhere. */
typedef struct piece {
    int32_t source, destination;
    double bytes;
} piece;

static int32_t pieces_of(const operation *from, const operation *to, piece *pieces) {
    config p = from->config, c = to->config;
    int32_t n = 0;
    for (int32_t i = 0; i < c.samples; i++)
        for (int32_t q = 0; q < p.samples; q++) {
            double low = fmax((double)i / c.samples, (double)q / p.samples);
            double high = fmin((double)(i + 1) / c.samples, (double)(q + 1) / p.samples);
            if (high - low < 1e-9)
                continue;
            for (int32_t j = 0; j < c.parameters; j++)
                for (int32_t k = 0; k < p.parameters; k++) {
                    int32_t source = p.first + q * p.parameters + k;
                    int32_t destination = c.first + i * c.parameters + j;
                    if (source != destination)
                        pieces[n++] = (piece){source, destination,
                                              (high - low) / p.parameters * from->activation_bytes};
                }
        }
    return n;
}

/* The activations of an operator, and their gradients back. */
static void sketch_tensor(const network *net, sketch *s, int32_t l) {
    static piece pieces[2][64 * 64];
    const operation *op = &net->operators[l];
    int32_t n[2] = {0}, first[2], back[2];
    begin_chunk(s, l, POSTS);
    for (int32_t k = 0; k < op->n_consumers; k++) {
        n[k] = pieces_of(op, &net->operators[op->consumers[k]], pieces[k]);
        first[k] = s->f.n_messages;
        for (int32_t i = 0; i < n[k]; i++)
            add_message(net, s, pieces[k][i].source, pieces[k][i].destination, pieces[k][i].bytes);
    }
    for (int32_t k = 0; k < op->n_consumers; k++) {
        begin_chunk(s, op->consumers[k], WAITS);
        for (int32_t i = 0; i < n[k]; i++) {
            add(s, CLEAVE_PRICED_WAIT_ARRIVAL, 2 * pieces[k][i].destination, first[k] + i, 0);
            add(s, CLEAVE_PRICED_WAIT_RELEASE, 2 * pieces[k][i].source, first[k] + i, 0);
        }
    }
    for (int32_t k = op->n_consumers - 1; k >= 0; k--) {
        begin_chunk(s, backward_slot(net, op->consumers[k]), POSTS);
        back[k] = s->f.n_messages;
        for (int32_t i = 0; i < n[k]; i++)
            add_message(net, s, pieces[k][i].destination, pieces[k][i].source, pieces[k][i].bytes);
    }
    begin_chunk(s, backward_slot(net, l), WAITS);
    for (int32_t k = 0; k < op->n_consumers; k++)
        for (int32_t i = 0; i < n[k]; i++) {
            add(s, CLEAVE_PRICED_WAIT_ARRIVAL, 2 * pieces[k][i].source, back[k] + i, 0);
            add(s, CLEAVE_PRICED_WAIT_RELEASE, 2 * pieces[k][i].destination, back[k] + i, 0);
        }
}

/* The collective of one block of the weights: over the cards of its nodes, or within its node. */
static void set_collective(const network *net, sketch *s, config c, int32_t block, double bytes) {
    cleave_priced_fragment *f = &s->f;
    int32_t n = c.samples, id = f->n_collectives++, at = f->collective_link_start[id];
    int32_t last = c.first + (n - 1) * c.parameters + block;
    bool near = c.first / NODE == last / NODE;
    double latencies = 2 * ceil(log2(n)) * (near ? 2e-6 : 6e-6);
    f->collective_joins[id] = n;
    f->collective_busy[id] =
        picoseconds(2.0 * (n - 1) / n * bytes / (near ? DEVICE_LINK : NODE_LINK));
    f->collective_rest[id] = picoseconds(latencies);
    int32_t previous = -1;
    for (int32_t i = 0; i < n; i++) {
        int32_t d = c.first + i * c.parameters + block;
        int32_t out = near ? d : 2 * net->n_devices + d / NODE;
        if (out == previous)
            continue;
        previous = out;
        f->collective_links[at++] = out;
        f->collective_links[at++] = out + (near ? net->n_devices : net->n_nodes);
    }
    f->collective_link_start[id + 1] = at;
}

/* Gradients of the weights: summed on the communication lane, then updated on the main lane. */
static void sketch_weights(const network *net, sketch *s, int32_t l) {
    const operation *op = &net->operators[l];
    config c = op->config;
    if (c.samples < 2)
        return;
    double bytes = op->weight_bytes / c.parameters;
    begin_chunk(s, backward_slot(net, l), COLLECTIVES);
    for (int32_t block = 0; block < c.parameters; block++)
        set_collective(net, s, c, block, bytes);
    int32_t n = c.samples * c.parameters;
    s->f.n_marks = 2 * n;
    for (int32_t i = 0; i < n; i++) {
        add(s, CLEAVE_PRICED_MARK, 2 * (c.first + i), i, 0);
        add(s, CLEAVE_PRICED_SYNC, 2 * (c.first + i) + 1, i, 0);
    }
    for (int32_t i = 0; i < n; i++)
        add(s, CLEAVE_PRICED_JOIN, 2 * (c.first + i) + 1, i % c.parameters, POST_PS);
    for (int32_t i = 0; i < n; i++) {
        add(s, CLEAVE_PRICED_AWAIT, 2 * (c.first + i) + 1, i % c.parameters, 0);
        add(s, CLEAVE_PRICED_WORK, 2 * (c.first + i) + 1, -1, picoseconds(bytes * 3 / 1.5e12));
        add(s, CLEAVE_PRICED_MARK, 2 * (c.first + i) + 1, n + i, 0);
    }
    begin_chunk(s, update_slot(net, l), WAITS);
    for (int32_t i = 0; i < n; i++)
        add(s, CLEAVE_PRICED_SYNC, 2 * (c.first + i), n + i, 0);
}

/* --- Networks ------------------------------------------------------------------------------------
 */

static void list_candidates(network *net) {
    for (int32_t n = net->n_devices; n >= 1 && n >= net->n_devices / 4; n /= 2)
        for (int32_t parameters = 1; parameters <= n && parameters <= 8; parameters *= 2)
            for (int32_t b = 0; b < net->n_devices / n && b < 2; b++)
                if (net->n_candidates < MAX_CANDIDATES)
                    net->candidates[net->n_candidates++] =
                        (config){n / parameters, parameters, b == 0 ? 0 : net->n_devices - n};
}

static void connect(network *net, int32_t from, int32_t to) {
    operation *p = &net->operators[from], *c = &net->operators[to];
    p->consumers[p->n_consumers++] = to;
    c->producers[c->n_producers++] = from;
}

static void draw_network(network *net, int32_t n_operators, int32_t n_devices, uint64_t seed) {
    *net = (network){.n_operators = n_operators, .n_devices = n_devices, .random = {.key = seed}};
    net->n_nodes = (n_devices + NODE - 1) / NODE;
    net->n_links = 2 * n_devices + 2 * net->n_nodes;
    list_candidates(net);
    for (int32_t l = 0; l < n_operators; l++) {
        operation *op = &net->operators[l];
        double depth = (double)l / n_operators;
        double u = cleave_random_next_uniform(&net->random);
        op->activation_bytes = (4e6 + 20e6 * (1 - depth)) * (0.5 + u) * n_devices / 4;
        u = cleave_random_next_uniform(&net->random);
        op->weight_bytes = (1e6 + 20e6 * depth) * (0.3 + 1.4 * u);
        op->flops = (20e9 + 100e9 * cleave_random_next_uniform(&net->random)) * n_devices;
        bool is_plain = cleave_random_next_uniform(&net->random) < 0.85;
        op->config =
            net->candidates[is_plain ? 0 : cleave_random_below(&net->random, net->n_candidates)];
        if (l > 0)
            connect(net, l - 1, l);
    }
    for (int32_t l = 3; l < n_operators; l += 3) /* consumers of l - 3 stay ascending */
        connect(net, l - 3, l);
}

/* --- The walk ------------------------------------------------------------------------------------
 */

typedef struct walk {
    network net;
    sketch sketch;
    built *at[3 * MAX_OPERATORS]; /* by place: nest, tensor and weights of each operator */
    struct {
        int32_t place;
        built *before;
    } put[5];
    int32_t n_put;
    built *spare[8];
    int32_t n_spare;
    cleave_delta *delta;
} walk;

static built *build(walk *w, int32_t place) {
    static void (*const sketches[])(const network *, sketch *,
                                    int32_t) = {sketch_nest, sketch_tensor, sketch_weights};
    built *spare = w->n_spare > 0 ? w->spare[--w->n_spare] : NULL;
    restart(&w->sketch);
    sketches[place % 3](&w->net, &w->sketch, place / 3);
    return finish(&w->sketch, &spare);
}

static void change_place(walk *w, int32_t place) {
    w->put[w->n_put].place = place;
    w->put[w->n_put++].before = w->at[place];
    w->at[place] = build(w, place);
}

/* Gives an operator another layout and builds what this changes. */
static int32_t propose(walk *w, config *before) {
    network *net = &w->net;
    int32_t l = (int32_t)cleave_random_below(&net->random, net->n_operators);
    operation *op = &net->operators[l];
    *before = op->config;
    do
        op->config = net->candidates[cleave_random_below(&net->random, net->n_candidates)];
    while (memcmp(&op->config, before, sizeof *before) == 0);
    w->n_put = 0;
    for (int32_t k = 0; k < 3; k++)
        change_place(w, 3 * l + k);
    for (int32_t k = 0; k < op->n_producers; k++)
        change_place(w, 3 * op->producers[k] + 1);
    return l;
}

static void decide(walk *w, bool accept) {
    for (int32_t k = 0; k < w->n_put; k++) {
        built **at = &w->at[w->put[k].place];
        w->spare[w->n_spare++] = accept ? w->put[k].before : *at;
        if (!accept)
            *at = w->put[k].before;
    }
}

typedef struct result {
    int64_t items;
    int32_t n_accepted;
    double full, delta, all; /* seconds, means */
    double ratios[3];        /* 10th, 50th and 90th of a hundred */
    double jumped;           /* of slots after the first that is changed */
} result;

static cleave_status put(walk *w, int32_t place, cleave_error *error) {
    built *b = w->at[place];
    CLEAVE_TRY(cleave_delta_make(w->delta, place, &b->f, &b->made, error));
    return cleave_delta_put(w->delta, place, b->made, error);
}

static cleave_status put_all(walk *w, cleave_error *error) {
    for (int32_t k = 0; k < w->n_put; k++)
        CLEAVE_TRY(put(w, w->put[k].place, error));
    return CLEAVE_OK;
}

static cleave_status take_steps(walk *w, int32_t n, int64_t base, double *ratios, result *r,
                                cleave_error *error) {
    for (int32_t i = 0; i < n; i++) {
        config before;
        int64_t step, full;
        int32_t l = propose(w, &before);
        double t0 = bench_processor_seconds();
        CLEAVE_TRY(put_all(w, error));
        double t1 = bench_processor_seconds();
        CLEAVE_TRY(cleave_delta_run_below(w->delta, INT64_MAX, &step, error));
        double t2 = bench_processor_seconds();
        full = cleave_delta_full(w->delta);
        double t3 = bench_processor_seconds();
        if (step != full)
            return cleave_fail(error, CLEAVE_FAILED, "proposal %d: %lld by delta, %lld in full", i,
                               (long long)step, (long long)full);
        double worse = (double)(step - base) / (0.003 * (double)base);
        bool accept = worse <= 0 || cleave_random_next_uniform(&w->net.random) < exp(-worse);
        double t4 = bench_processor_seconds();
        if (accept)
            cleave_delta_accept(w->delta);
        else
            cleave_delta_reject(w->delta);
        double t5 = bench_processor_seconds();
        decide(w, accept);
        if (accept)
            base = step;
        else
            w->net.operators[l].config = before;
        r->n_accepted += accept;
        r->full += (t3 - t2) / n;
        r->delta += (t2 - t1) / n;
        r->all += (t2 - t0 + t5 - t4) / n;
        ratios[i] = (t3 - t2) / (t2 - t1);
    }
    return CLEAVE_OK;
}

static cleave_status walk_network(walk *w, int32_t n, result *r, cleave_error *error) {
    static double ratios[MAX_PROPOSALS];
    int64_t step;
    int32_t n_places = 3 * w->net.n_operators;
    for (int32_t p = 0; p < n_places; p++) {
        w->at[p] = build(w, p);
        r->items += w->at[p]->f.n_items;
        CLEAVE_TRY(put(w, p, error));
    }
    CLEAVE_TRY(cleave_delta_run_below(w->delta, INT64_MAX, &step, error));
    cleave_delta_accept(w->delta);
    cleave_delta_counts before = cleave_delta_count(w->delta);
    CLEAVE_TRY(take_steps(w, n, step, ratios, r, error));
    cleave_delta_counts after = cleave_delta_count(w->delta);
    int64_t jumped = after.slots_jumped - before.slots_jumped;
    r->jumped = (double)jumped / (double)(after.slots - before.slots + jumped);
    cleave_sort_doubles(ratios, n);
    for (int k = 0; k < 3; k++)
        r->ratios[k] = ratios[n * (int[]){1, 5, 9}[k] / 10];
    return CLEAVE_OK;
}

static void walk_free(walk *w) {
    cleave_delta_destroy(w->delta);
    for (int32_t p = 0; p < 3 * w->net.n_operators + w->n_spare; p++) {
        built *b = p < 3 * w->net.n_operators ? w->at[p] : w->spare[p - 3 * w->net.n_operators];
        if (b != NULL) {
            cleave_delta_unmake(b->made);
            cleave_arena_free(&b->arena);
        }
        free(b);
    }
    cleave_priced_fragment *f = &w->sketch.f;
    void *arrays[] = {f->chunks,
                      f->kind,
                      f->queue,
                      f->subject,
                      f->duration,
                      f->hop_start,
                      f->hop_link,
                      f->hop_serialization,
                      f->collective_joins,
                      f->collective_busy,
                      f->collective_rest,
                      f->collective_link_start,
                      f->collective_links};
    for (size_t k = 0; k < sizeof arrays / sizeof arrays[0]; k++)
        free(arrays[k]);
    free(w);
}

static cleave_status measure(int32_t n_operators, int32_t n_devices, int32_t n, uint64_t seed,
                             cleave_error *error) {
    walk *w = calloc(1, sizeof *w);
    result r = {0};
    char what[64];
    if (w == NULL)
        return cleave_fail_memory(error, "walking");
    draw_network(&w->net, n_operators, n_devices, seed);
    int64_t latency[1024];
    for (int32_t l = 0; l < w->net.n_links; l++)
        latency[l] = l < 2 * n_devices ? 1000000 : 3000000;
    const cleave_delta_shape shape = {.n_places = 3 * n_operators,
                                      .n_slots = 3 * n_operators,
                                      .n_devices = n_devices,
                                      .n_links = w->net.n_links,
                                      .link_latency = latency};
    cleave_status status = cleave_delta_create(&shape, &w->delta, error);
    if (status == CLEAVE_OK)
        status = walk_network(w, n, &r, error);
    walk_free(w);
    CLEAVE_TRY(status);
    snprintf(what, sizeof what, "delta, %d operators, %d devices", n_operators, n_devices);
    bench_row(what,
              n_devices > 16      ? "at least 1"
              : n_operators > 200 ? "at least 3"
                                  : "at least 1.5",
              "%.2f x full (%.2f %.2f %.2f)", r.full / r.delta, r.ratios[0], r.ratios[1],
              r.ratios[2]);
    bench_row("", "", "full %.1f us (%.0f M items/s), %d%% accepted", 1e6 * r.full,
              1e-6 * (double)r.items / r.full, 100 * r.n_accepted / n);
    bench_row("", "", "%.0f proposals/s, %.0f%% of slots jumped", 1 / r.all, 100 * r.jumped);
    return CLEAVE_OK;
}

int main(int argc, char **argv) {
    bench_arguments a = bench_begin(argc, argv);
    int n = (int)bench_take_integer(&a, "PROPOSALS", 1, MAX_PROPOSALS, 1000), n_cases = 0;
    uint64_t seed = (uint64_t)bench_take_integer(&a, "SEED", 0, INT64_C(1) << 53, 1);
    int64_t operators = bench_take_integer(&a, "OPERATORS", 1, MAX_OPERATORS, 0);
    int64_t devices = bench_take_integer(&a, "DEVICES", 1, 64, 0);
    bench_end(&a);
    for (int i = 0; i < 6; i++) {
        cleave_error error = {""};
        int32_t n_operators = (const int32_t[]){100, 350}[i / 3];
        int32_t n_devices = (const int32_t[]){4, 16, 64}[i % 3];
        if (operators != 0 && (operators != n_operators || devices != n_devices))
            continue;
        n_cases++;
        cleave_status status = measure(n_operators, n_devices, n, seed, &error);
        if (status != CLEAVE_OK) {
            fprintf(stderr, "bench_delta: %s\n", error.message);
            return 1;
        }
    }
    if (n_cases == 0)
        bench_refuse(&a, "OPERATORS DEVICES %d %d: 100 or 350, and 4, 16 or 64", (int)operators,
                     (int)devices);
    return 0;
}
