/* Which algorithm is the quickest, for each group and size: every one is priced at the powers of
   two, and where the quickest changes a rule ends. */
#include "base/list.h"
#include "costmodel/cost.h"

/* From 1 KiB to 64 GiB: smaller and larger ones are not told apart. */
enum { LEAST_POWER = 10, N_SIZES = 27, MAX_OFFERS = 4 };

typedef struct chooser {
    const cleave_machine *machine;
    double *load; /* [n_links] all 0 */
    int32_t *devices;
    CLEAVE_LIST(cleave_collective_rule) rules;
    bool failed;
} chooser;

typedef struct offer {
    cleave_collective_algorithm algorithm;
    double seconds[N_SIZES];
} offer;

/* Of offers that are equally quick the first. */
static int quickest(const offer *offers, int n, int size) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (offers[i].seconds[size] < offers[best].seconds[size] * (1 - 1e-6))
            best = i;
    return best;
}

static void add_rule(chooser *c, cleave_collective_rule rule) {
    c->failed = c->failed || !CLEAVE_LIST_PUSH(&c->rules, rule);
}

/* The rules of one group and kind; none where the default is the quickest for every size. */
static void add_rules(chooser *c, cleave_collective_rule shape, const offer *offers, int n) {
    int now = quickest(offers, n, 0);
    bool only_default = now == 0;
    for (int size = 1; size < N_SIZES; size++) {
        int next = quickest(offers, n, size);
        if (next == now)
            continue;
        shape.algorithm = offers[now].algorithm;
        shape.up_to_bytes = INT64_C(1) << (LEAST_POWER + size - 1);
        add_rule(c, shape);
        only_default = false;
        now = next;
    }
    shape.algorithm = offers[now].algorithm;
    shape.up_to_bytes = 0;
    if (!only_default)
        add_rule(c, shape);
}

/* The first offer is the default's. */
static void choose_kind(chooser *c, cleave_collective_kind kind, int32_t n_devices,
                        int32_t n_nodes) {
    static const cleave_collective_algorithm algorithms[MAX_OFFERS] = {
        CLEAVE_ALGORITHM_RING, CLEAVE_ALGORITHM_HALVING_DOUBLING, CLEAVE_ALGORITHM_TWO_LEVEL,
        CLEAVE_ALGORITHM_TREE};
    offer offers[MAX_OFFERS];
    int64_t sizes[N_SIZES];
    int n = 0;
    for (int i = 0; i < N_SIZES; i++)
        sizes[i] = INT64_C(1) << (LEAST_POWER + i);
    for (int pass = 0; pass < 2; pass++)
        for (int a = 0; a < MAX_OFFERS; a++) {
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
            cleave_cost_collective_sizes(c->machine, &collective, c->load, N_SIZES, sizes,
                                         made->seconds);
        }
    add_rules(c, (cleave_collective_rule){.kind = kind, .n_devices = n_devices, .n_nodes = n_nodes},
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
