/* Which algorithm is the quickest, for each group and size.  The price of every algorithm is a line
   over the bytes, so the choice is the lower envelope of a few lines: its pieces are the rules,
   with their ends moved to the next power of two, for people. */
#include "base/list.h"
#include "costmodel/cost.h"

#include <math.h>

enum { LEAST_BYTES = 1024 }; /* smaller ones are not told apart */

typedef struct chooser {
    const cleave_machine *machine;
    double *load; /* [n_links] all 0 */
    int32_t *devices;
    CLEAVE_LIST(cleave_collective_rule) rules;
    bool failed;
} chooser;

typedef struct offer {
    cleave_collective_algorithm algorithm;
    double seconds, seconds_per_byte;
} offer;

/* A size, rounded to a power of two, of at most 2^40. */
static int64_t round_size(double bytes) {
    double power = round(log2(fmax(bytes, 1)));
    return power > 40 ? INT64_C(1) << 41 : INT64_C(1) << (int)power;
}

/* The quickest from `bytes` on: of equal ones the first. */
static const offer *quickest_at(const offer *offers, int n, double bytes) {
    const offer *best = NULL;
    double least = 0;
    for (int i = 0; i < n; i++) {
        double seconds = offers[i].seconds + offers[i].seconds_per_byte * bytes;
        if (best == NULL || seconds < least * (1 - 1e-6)) {
            best = &offers[i];
            least = seconds;
        }
    }
    return best;
}

/* Where another offer gets quicker than this one, and which; null: nowhere. */
static const offer *next_offer(const offer *offers, int n, const offer *now, double *bytes) {
    const offer *next = NULL;
    for (int i = 0; i < n; i++) {
        double slope = now->seconds_per_byte - offers[i].seconds_per_byte;
        if (slope <= 1e-6 * now->seconds_per_byte)
            continue;
        double crossing = (offers[i].seconds - now->seconds) / slope;
        if (next == NULL || crossing < *bytes) {
            next = &offers[i];
            *bytes = crossing;
        }
    }
    return next;
}

static void add_rule(chooser *c, cleave_collective_rule rule) {
    c->failed = c->failed || !CLEAVE_LIST_PUSH(&c->rules, rule);
}

/* The rules of one group and kind; none where the default is the quickest for every size. */
static void add_envelope(chooser *c, cleave_collective_rule shape, const offer *offers, int n) {
    const offer *now = quickest_at(offers, n, LEAST_BYTES);
    int64_t from = 0;
    bool only_default = now == &offers[0];
    for (;;) {
        double bytes = 0;
        const offer *next = next_offer(offers, n, now, &bytes);
        int64_t size = next != NULL ? round_size(bytes) : 0;
        shape.algorithm = now->algorithm;
        shape.up_to_bytes = size > INT64_C(1) << 40 ? 0 : size;
        if (shape.up_to_bytes == 0) {
            if (!only_default)
                add_rule(c, shape);
            return;
        }
        only_default = false;
        if (size > from)
            add_rule(c, shape);
        from = size > from ? size : from;
        now = next;
    }
}

/* The first offer is the default's. */
static void choose_kind(chooser *c, cleave_collective_kind kind, int32_t n_devices,
                        int32_t n_nodes) {
    static const cleave_collective_algorithm algorithms[] = {
        CLEAVE_ALGORITHM_RING, CLEAVE_ALGORITHM_HALVING_DOUBLING, CLEAVE_ALGORITHM_TWO_LEVEL,
        CLEAVE_ALGORITHM_TREE};
    enum { N = sizeof algorithms / sizeof algorithms[0] };
    offer offers[N];
    int n = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int a = 0; a < N; a++) {
            bool is_default = algorithms[a] == cleave_collective_default(n_devices);
            cleave_collective collective = {.kind = kind,
                                            .algorithm = algorithms[a],
                                            .n_devices = n_devices,
                                            .devices = c->devices,
                                            .node_members = n_devices / n_nodes};
            if (is_default != (pass == 0) ||
                !cleave_collective_has_plan(kind, algorithms[a], n_devices, n_devices / n_nodes))
                continue;
            offer *made = &offers[n++];
            made->algorithm = algorithms[a];
            cleave_cost_collective_line(c->machine, &collective, c->load, &made->seconds,
                                        &made->seconds_per_byte);
        }
    add_envelope(c,
                 (cleave_collective_rule){.kind = kind, .n_devices = n_devices, .n_nodes = n_nodes},
                 offers, n);
}

/* The first `per_node` devices of the first nodes. */
static void choose_group(chooser *c, int32_t per_node, int32_t n_nodes) {
    int32_t n = 0;
    for (int32_t node = 0; node < n_nodes; node++)
        for (int32_t i = 0; i < per_node; i++)
            c->devices[n++] = node * c->machine->devices_per_node + i;
    if (n < 3) /* what two exchange is no collective */
        return;
    for (int kind = CLEAVE_ALL_REDUCE; kind <= CLEAVE_ALL_GATHER; kind++)
        choose_kind(c, (cleave_collective_kind)kind, n, n_nodes);
}

/* Groups that fill their nodes' share evenly; a machine cut off within a node has none. */
static void choose_all(chooser *c, bool whole_only) {
    int32_t within = c->machine->devices_per_node, n = c->machine->n_devices;
    if (n < within)
        within = n;
    if (n % within != 0)
        return;
    for (int32_t per_node = 1; per_node <= within; per_node++)
        for (int32_t n_nodes = 1; n_nodes <= n / within; n_nodes++)
            if (within % per_node == 0 && n / within % n_nodes == 0 &&
                (!whole_only || per_node * n_nodes == n))
                choose_group(c, per_node, n_nodes);
}

cleave_status cleave_choose_collectives(const cleave_machine *machine, bool whole_only,
                                        cleave_arena *arena, cleave_collective_rules *rules,
                                        cleave_error *error) {
    cleave_arena scratch = {0};
    chooser c = {.machine = machine,
                 .load = CLEAVE_ARENA_ARRAY(&scratch, double, machine->n_links),
                 .devices = CLEAVE_ARENA_ARRAY(&scratch, int32_t, machine->n_devices)};
    c.failed = c.load == NULL || c.devices == NULL;
    if (!c.failed)
        choose_all(&c, whole_only);
    cleave_status status = c.failed ? cleave_fail_memory(error, "choosing collectives") : CLEAVE_OK;
    if (status == CLEAVE_OK) {
        const cleave_collective_rules made = {
            .node_devices = machine->devices_per_node, .n = c.rules.n, .items = c.rules.items};
        status = cleave_collective_rules_copy(&made, arena, rules, error);
    }
    CLEAVE_LIST_FREE(&c.rules);
    cleave_arena_free(&scratch);
    return status;
}
