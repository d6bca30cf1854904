/* The closed form of an all-reduce against its steps, simulated by events on a machine that does
   nothing else, with what they differ by; and the rules of the choice against all algorithms. */
#include "../../support/ok.h"
#include "../../support/shipped.h"
#include "graph/lower/lower.h"
#include "simulator/step/simulate.h"

#include "../../support/collective_cost.h"
#include "../../support/perceptron.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static cleave_arena arena;
static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(collective_prices, .fini = tear_down);

static cleave_machine load(const char *name, int32_t n_devices) {
    cleave_machine machine;
    OK(shipped_machine, name, n_devices, &arena, &machine);
    machine.collectives.n_spans = 0; /* these are of steps */
    return machine;
}

static cleave_machine parse(const char *text) {
    cleave_machine machine;
    OK(cleave_machine_parse, text, strlen(text), "t", 0, &arena, &machine);
    return machine;
}

static cleave_collective all_reduce_of_eight(int64_t bytes, int32_t node_members) {
    static int32_t all[] = {0, 1, 2, 3, 4, 5, 6, 7};
    return (cleave_collective){.kind = CLEAVE_ALL_REDUCE,
                               .algorithm = CLEAVE_ALGORITHM_RING,
                               .bytes = bytes,
                               .n_devices = 8,
                               .devices = all,
                               .node_members = node_members};
}

/* A dense layer, data parallel: its weights' gradient is one all-reduce of width x width floats. */
static void lower(const cleave_machine *machine, int64_t width,
                  cleave_collective_algorithm algorithm, cleave_model *model,
                  cleave_program *program) {
    cleave_layout layout;
    int32_t degree[CLEAVE_MAX_AXES] = {machine->n_devices};
    int32_t *devices = CLEAVE_ARENA_ARRAY(&arena, int32_t, machine->n_devices);
    for (int32_t d = 0; d < machine->n_devices; d++)
        devices[d] = d;
    *model = make_perceptron(&arena, 1, machine->n_devices, width);
    OK(cleave_layout_create, model, machine->n_devices, &arena, &layout);
    for (int32_t op = 0; op < model->n_operators - 1; op++)
        OK(cleave_layout_set, &layout, op, 1, degree, devices, &arena);
    /* Every device computes the loss, or the one that reports it would start late. */
    OK(cleave_layout_set, &layout, model->n_operators - 1, machine->n_devices,
       (int32_t[CLEAVE_MAX_AXES]){0}, devices, &arena);
    cleave_collective_rule *rule = CLEAVE_ARENA_ARRAY(&arena, cleave_collective_rule, 1);
    *rule = (cleave_collective_rule){.kind = CLEAVE_ALL_REDUCE, .algorithm = algorithm};
    layout.collectives =
        (cleave_collective_rules){.node_devices = machine->devices_per_node, .n = 1, .items = rule};
    cleave_lower_options options = {.training = true};
    OK(cleave_lower, model, &layout, &options, &arena, program);
}

/* From when all are ready for the first message of the collective to the end of its last item. */
static double expanded_seconds(const cleave_program *program, const cleave_collective *collective,
                               const cleave_timeline *timeline) {
    int64_t begin = 0, end = 0;
    for (int32_t d = 0; d < program->n_devices; d++) {
        bool first = true;
        for (int32_t i = 0; i < program->n_items; i++) {
            const cleave_item *item = &program->items[i];
            bool of_message = item->kind == CLEAVE_ITEM_SEND || item->kind == CLEAVE_ITEM_RECEIVE ||
                              item->kind == CLEAVE_ITEM_WAIT;
            if (item->device != d || !of_message ||
                program->messages[item->subject].tensor != collective->tensor)
                continue;
            if (first && timeline->start[i] > begin)
                begin = timeline->start[i];
            first = false;
            end = timeline->end[i] > end ? timeline->end[i] : end;
        }
    }
    return (double)(end - begin) * 1e-12;
}

static double closed_seconds(const cleave_machine *machine, const cleave_collective *collective) {
    cleave_collective_cost cost = collective_cost_parts(machine, collective);
    return (double)(cost.processor + cost.busy + cost.rest) * 1e-12;
}

/* An all-reduce of width x width floats over all devices: both prices. */
typedef struct prices {
    double closed, expanded; /* seconds */
} prices;

static prices price(const cleave_machine *machine, int64_t width,
                    cleave_collective_algorithm algorithm) {
    cleave_model model;
    cleave_program program;
    cleave_cost_cache *cache;
    cleave_timeline timeline;
    lower(machine, width, algorithm, &model, &program);
    const cleave_collective *collective = NULL;
    for (int32_t c = 0; c < program.n_collectives && collective == NULL; c++)
        if (program.collectives[c].kind == CLEAVE_ALL_REDUCE &&
            program.collectives[c].bytes == width * width * 4)
            collective = &program.collectives[c];
    cr_assert_not_null(collective);
    cr_assert_eq(collective->algorithm, algorithm);
    OK(cleave_cost_cache_create, &model, machine, &cache);
    OK(cleave_simulate, &program, cache, CLEAVE_RULE_EVENTS, &arena, &timeline);
    cleave_cost_cache_destroy(cache);
    return (prices){closed_seconds(machine, collective),
                    expanded_seconds(&program, collective, &timeline)};
}

static bool has_plan(const cleave_machine *machine, cleave_collective_algorithm algorithm) {
    return cleave_collective_has_plan(CLEAVE_ALL_REDUCE, algorithm, machine->n_devices,
                                      machine->devices_per_node);
}

static const struct {
    const char *name;
    int32_t n_devices;
} machines[] = {{"p100-4x4", 4},   {"p100-4x4", 16},   {"k80-16x4", 32}, {"a100-128x8", 16},
                {"v100-32x8", 16}, {"tpu4-4x4x4", 64}, {"p100-4x4", 12}};
static const char *const names[] = {"", "ring", "halving-doubling", "tree", "two-level"};

/* Processors work on every message for a share of what its slowest link takes, on two messages at a
   time but in a tree.  Whichever takes longer, the form is nearly that of the steps where no link
   is shared. */
Test(collective_prices, closed_forms_have_the_work_of_processors_beside_links) {
    static const double shares[] = {0.3, 0.8, 1.5};
    for (int s = 0; s < 3; s++)
        for (int a = CLEAVE_ALGORITHM_RING; a <= CLEAVE_ALGORITHM_TREE; a++) {
            cleave_machine machine = load("p100-4x4", 4);
            prices without = price(&machine, 2048, (cleave_collective_algorithm)a);
            for (int32_t l = 0; l < machine.n_links; l++)
                machine.links[l].overhead_seconds_per_byte =
                    shares[s] / machine.links[l].bytes_per_second;
            prices of = price(&machine, 2048, (cleave_collective_algorithm)a);
            double deviation = of.closed / of.expanded - 1;
            cr_expect_lt(fabs(deviation), 0.01, "share %g, %s: %g", shares[s], names[a], deviation);
            bool takes_longer = shares[s] > (a == CLEAVE_ALGORITHM_TREE ? 1 : 0.5);
            cr_expect_eq(of.closed > 1.01 * without.closed, takes_longer, "share %g, %s", shares[s],
                         names[a]);
        }
}

/* Where no link is shared the two are equal; where some are, who crosses first decides what the
   rest of the step hides. */
Test(collective_prices, closed_forms_are_near_their_steps) {
    double sum = 0;
    int n = 0;
    for (size_t m = 0; m < sizeof machines / sizeof machines[0]; m++) {
        cleave_machine machine = load(machines[m].name, machines[m].n_devices);
        for (int a = CLEAVE_ALGORITHM_RING; a <= CLEAVE_ALGORITHM_TWO_LEVEL; a++) {
            if (!has_plan(&machine, (cleave_collective_algorithm)a))
                continue;
            printf("%-11s %2d devices, %-16s", machines[m].name, machine.n_devices, names[a]);
            for (int64_t width = 128; width <= 8192; width *= 4) { /* 64 KiB to 256 MiB */
                prices of = price(&machine, width, (cleave_collective_algorithm)a);
                double deviation = of.closed / of.expanded - 1;
                printf(" %+6.2f %%", 100 * deviation);
                cr_expect_lt(fabs(deviation), 0.1, "%s, %d devices, %s, width %d: %g",
                             machines[m].name, machine.n_devices, names[a], (int)width, deviation);
                sum += fabs(deviation);
                n++;
            }
            printf("\n");
        }
    }
    cr_expect_lt(sum / n, 0.01);
}

/* What the rules say for the group of all devices is by its steps within 5 % of the quickest. */
Test(collective_prices, rules_name_the_quickest_algorithm) {
    bool chosen[CLEAVE_N_ALGORITHMS] = {false};
    for (size_t m = 0; m < sizeof machines / sizeof machines[0]; m++) {
        cleave_machine machine = load(machines[m].name, machines[m].n_devices);
        cleave_collective_rules rules;
        OK(cleave_choose_collectives, &machine, true, &arena, &rules);
        int32_t devices[64], node_members;
        for (int32_t d = 0; d < machine.n_devices; d++)
            devices[d] = d;
        for (int64_t width = 64; width <= 4096; width *= 4) {
            cleave_collective_algorithm named =
                cleave_collective_rules_choose(&rules, CLEAVE_ALL_REDUCE, machine.n_devices,
                                               devices, width * width * 4, &node_members);
            double seconds = price(&machine, width, named).expanded;
            chosen[named] = true;
            for (int a = CLEAVE_ALGORITHM_RING; a <= CLEAVE_ALGORITHM_TWO_LEVEL; a++)
                if (has_plan(&machine, (cleave_collective_algorithm)a))
                    cr_expect_leq(
                        seconds,
                        1.05 * price(&machine, width, (cleave_collective_algorithm)a).expanded,
                        "%s, %d devices, width %d: %s against %s", machines[m].name,
                        machine.n_devices, (int)width, names[named], names[a]);
        }
    }
    for (int a = CLEAVE_ALGORITHM_RING; a <= CLEAVE_ALGORITHM_TWO_LEVEL; a++)
        cr_expect(chosen[a], "%s is never the quickest here", names[a]);
}

/* What a library does on two nodes of four, each device with a way out of 10 GB/s of which 0.8 are
   reached: eight share 40 GB/s x 0.8, less than the 100 GB/s within, and the second node is 7 us
   more.  An all-reduce sends 2 x 7 / 8 of its vector, an all-gather half of that; three of a node,
   half way between two and four, have 150 GB/s and 40 us.  No processor takes part. */
Test(collective_prices, what_a_library_was_measured_to_do_is_the_price) {
    static const char text[] =
        "{\"cleave_machine\": 1, \"name\": \"t\", \"kinds\": {\"k\": {\"memory\": \"1 GiB\", "
        "\"flops\": "
        "\"1 TFLOP/s\", \"memory_bandwidth\": \"10 GB/s\", \"launch\": \"9 us\"}}, \"node\": "
        "{\"count\": 2, "
        "\"devices\": 4, \"kind\": \"k\", \"links\": [{\"join\": [[0, 1, 2, 3]], \"bandwidth\": "
        "\"300 GB/s\", \"latency\": \"2 us\", \"overhead\": \"3 us\"}]}, \"network\": {\"join\": "
        "[[0], [1], [2], [3]], "
        "\"through\": \"switch\", \"bandwidth\": \"10 GB/s\", \"latency\": \"1 us\"}, "
        "\"collectives\": "
        "{\"source\": \"s\", \"within\": [{\"devices\": 2, \"bandwidth\": \"200 GB/s\", "
        "\"latency\": \"30 us\"}, "
        "{\"devices\": 4, \"bandwidth\": \"100 GB/s\", \"latency\": \"50 us\"}], "
        "\"between\": {\"share\": 0.8, \"latency\": \"7 us\"}}}";
    const cleave_machine machine = parse(text);
    cleave_collective of = all_reduce_of_eight(32000000, 4);
    cleave_collective_cost cost = collective_cost_parts(&machine, &of);
    cr_expect_eq(cost.busy, 1750 * INT64_C(1000000)); /* 56 MB at 32 GB/s */
    cr_expect_eq(cost.rest, 57 * INT64_C(1000000));
    cr_expect_eq(cost.processor, 0);
    of.kind = CLEAVE_ALL_GATHER;
    cr_expect_eq(collective_cost_parts(&machine, &of).busy, 875 * INT64_C(1000000));
    of.n_devices = of.node_members = 3;
    of.bytes = 45000000; /* 30 MB at 150 GB/s */
    cost = collective_cost_parts(&machine, &of);
    cr_expect_eq(cost.busy, 200 * INT64_C(1000000));
    cr_expect_eq(cost.rest, 40 * INT64_C(1000000));
}

/* Four nodes of two, each device with a way out of 10 GB/s.  A small all-reduce goes by a tree in
   LL: 6.8 + 2 x (0.6 + 2 x 5) us; a large one by a ring in Simple, 8.4 + 2 x (4 x 3.4 + 3 x 14) us,
   and its bytes at 8 of 10 GB/s each way; an all-gather has no trees: a small one is a ring in LL,
   6.6 + 4 x 1 + 3 x 2.7 us. */
Test(collective_prices, a_library_takes_the_quickest_of_its_ways_between_nodes) {
    static const char text[] =
        "{\"cleave_machine\": 1, \"name\": \"t\", \"kinds\": {\"k\": {\"memory\": \"1 GiB\", "
        "\"flops\": \"1 TFLOP/s\", \"memory_bandwidth\": \"10 GB/s\"}}, \"node\": "
        "{\"count\": 4, \"devices\": 2, \"kind\": \"k\", \"links\": [{\"join\": [[0, 1]], "
        "\"bandwidth\": \"300 GB/s\", \"latency\": \"2 us\"}]}, \"network\": {\"join\": [[0], "
        "[1]], \"through\": \"switch\", \"bandwidth\": \"10 GB/s\", \"latency\": \"1 us\"}, "
        "\"collectives\": {\"source\": \"s\", \"within\": [{\"devices\": 2, \"bandwidth\": "
        "\"200 GB/s\", \"latency\": \"30 us\"}], \"between\": {\"share\": 0.8, \"library\": "
        "\"nccl over nvlink\"}}}";
    const cleave_machine machine = parse(text);
    cleave_collective of = all_reduce_of_eight(8, 2);
    cleave_collective_cost cost = collective_cost_parts(&machine, &of);
    cr_expect_float_eq((double)cost.rest, 28.0e6, 1e3);
    of.bytes = INT64_C(16) << 30;
    cost = collective_cost_parts(&machine, &of);
    cr_expect_float_eq((double)cost.rest, 119.6e6, 1e3);
    cr_expect_float_eq((double)cost.busy, 1e12 * 1.75 * 0x1p34 / 16e9, 1e6);
    of.kind = CLEAVE_ALL_GATHER;
    of.bytes = 8;
    cr_expect_float_eq((double)collective_cost_parts(&machine, &of).rest, 18.7e6, 1e3);
    of.n_devices = of.node_members = 2; /* of a node what was measured */
    cr_expect_float_eq((double)collective_cost_parts(&machine, &of).rest, 30e6, 1e3);
}

/* A node of two cards with 20 GB/s and one of two others, which have 5 GB/s by their kind: 10 MB
   take 0.5 and 2 ms.  Of both nodes the slowest way counts, 1 GB/s, which the second one has: a
   ring of one of each node sends 10 MB each way. */
Test(collective_prices, kinds_have_collectives_of_their_own) {
    static const char text[] =
        "{\"cleave_machine\": 1, \"name\": \"t\", \"kinds\": {\"k\": {\"memory\": \"1 GiB\", "
        "\"flops\": \"1 TFLOP/s\", \"memory_bandwidth\": \"10 GB/s\"}, \"slow\": {\"memory\": "
        "\"1 GiB\", \"flops\": \"1 TFLOP/s\", \"memory_bandwidth\": \"10 GB/s\"}}, \"nodes\": ["
        "{\"count\": 1, \"devices\": 2, \"kind\": \"k\", \"links\": [{\"join\": [[0, 1, "
        "\"card\"]], \"through\": \"host\", \"bandwidth\": \"40 GB/s\", \"latency\": \"1 us\"}]}, "
        "{\"count\": 1, \"devices\": 2, \"kind\": \"slow\", \"links\": [{\"join\": [[0, 1, "
        "\"card\"]], \"through\": \"host\", \"bandwidth\": \"1 GB/s\", \"latency\": \"1 us\"}]}], "
        "\"network\": {\"join\": \"card\", \"through\": \"switch\", \"bandwidth\": "
        "\"10 GB/s\", \"latency\": \"1 us\"}, \"collectives\": {\"source\": \"s\", \"within\": ["
        "{\"kind\": \"slow\", \"devices\": 2, \"bandwidth\": \"5 GB/s\"}, "
        "{\"devices\": 2, \"bandwidth\": \"20 GB/s\"}]}}";
    static int32_t pairs[3][2] = {{0, 1}, {2, 3}, {0, 2}};
    static const int64_t milliseconds[] = {500, 2000, 10000}; /* thousandths */
    const cleave_machine machine = parse(text);
    for (int i = 0; i < 3; i++) {
        cleave_collective of = {.kind = CLEAVE_ALL_REDUCE,
                                .algorithm = CLEAVE_ALGORITHM_RING,
                                .bytes = 10000000,
                                .n_devices = 2,
                                .devices = pairs[i],
                                .node_members = i < 2 ? 2 : 1};
        cr_expect_eq(collective_cost_parts(&machine, &of).busy, milliseconds[i] * 1000000);
    }
}

/* A framework's processor launches a collective of two in 100 of its 400 us, and has a quarter of
   what its bytes take: of 10 MB, which an all-reduce sends and gets once, 2.5 of 10 ms. */
Test(collective_prices, a_framework_launches_collectives_of_two) {
    static const char text[] =
        "{\"cleave_machine\": 1, \"name\": \"t\", \"kinds\": {\"k\": {\"memory\": \"1 GiB\", "
        "\"flops\": \"1 TFLOP/s\", \"memory_bandwidth\": \"10 GB/s\"}}, \"node\": {\"devices\": "
        "2, \"kind\": \"k\", \"links\": [{\"join\": [[0, 1]], \"bandwidth\": \"1 GB/s\", "
        "\"latency\": \"1 us\"}]}, \"collectives\": {\"source\": \"s\", \"least\": 2, \"within\": "
        "[{\"devices\": 2, \"bandwidth\": \"1 GB/s\", \"latency\": \"400 us\", \"overhead\": "
        "\"100 us\", \"copy_bandwidth\": \"4 GB/s\"}]}}";
    static int32_t pair[] = {0, 1};
    const cleave_machine machine = parse(text);
    cleave_collective of = {.kind = CLEAVE_ALL_REDUCE,
                            .algorithm = CLEAVE_ALGORITHM_RING,
                            .bytes = 10000000,
                            .n_devices = 2,
                            .devices = pair,
                            .node_members = 2};
    cleave_collective_cost cost = collective_cost_parts(&machine, &of);
    cr_expect_eq(cost.busy, 7500 * INT64_C(1000000));
    cr_expect_eq(cost.rest, 300 * INT64_C(1000000));
    cr_expect_eq(cost.processor, 2600 * INT64_C(1000000));
    cr_expect_eq(machine.collectives.least_devices, 2);
}
