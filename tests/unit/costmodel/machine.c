/* Machine files: the ones that ship, what routes they give, what is refused, and the round trip. */
#include "costmodel/machine.h"
#include "../../support/ok.h"
#include "../../support/shipped.h"

#include "base/file.h"
#include "graph/model/collective_steps.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static cleave_arena arena;
static cleave_machine machine;

static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(machine, .fini = tear_down);

static void load(const char *name, int32_t n_devices) {
    OK(shipped_machine, name, n_devices, &arena, &machine);
}

/* A route as its vertices: "device 0 > node 0 card > switch". */
static void expect_route(int32_t from, int32_t to, const char *wanted) {
    int32_t links[CLEAVE_MAX_ROUTE];
    int32_t n = cleave_machine_route(&machine, from, to, links);
    char text[1024];
    int length = snprintf(text, sizeof text, "%s", machine.vertex_name[from]);
    int32_t at = from;
    for (int32_t l = 0; l < n; l++) {
        cr_assert_geq(links[l], 0);
        cr_expect_eq(machine.links[links[l]].from, at, "the links of a route follow one another");
        at = machine.links[links[l]].to;
        length +=
            snprintf(text + length, sizeof text - (size_t)length, " > %s", machine.vertex_name[at]);
    }
    cr_expect_str_eq(text, wanted);
}

static cleave_status parse(const char *text, int32_t n_devices, cleave_error *error) {
    error->message[0] = '\0';
    return cleave_machine_parse(text, strlen(text), "test.json", n_devices, &arena, &machine,
                                error);
}

#define KINDS                                                                                      \
    "{\"cleave_machine\": 1, \"name\": \"t\", \"kinds\": {\"k\": {\"memory\": \"1 GiB\", "         \
    "\"flops\": \"1 TFLOP/s\", \"memory_bandwidth\": \"10 GB/s\"}}, "

static void expect_bisection(double bytes_per_second) {
    double found = 0;
    OK(cleave_machine_bisection, &machine, &found);
    cr_expect_float_eq(found, bytes_per_second, 1e-6 * bytes_per_second, "%g", found);
}

Test(machine, two_cores_share_memory) {
    load("two-cores", 0);
    cr_expect_eq(machine.n_devices, 2);
    expect_route(0, 1, "device 0 > device 1");
    expect_route(1, 0, "device 1 > device 0");
    expect_route(0, 0, "device 0");
}

Test(machine, p100s_talk_over_nvlink_and_infiniband) {
    load("p100-4x4", 0);
    cr_expect_eq(machine.n_devices, 16);
    cr_expect_eq(machine.kinds[0].memory_bytes, INT64_C(16) << 30);
    cr_expect_float_eq(machine.kinds[0].flops_per_second, 9.5e12, 1);
    expect_route(4, 6, "device 4 > device 6");
    expect_route(3, 4, "device 3 > node 0 card > switch > node 1 card > device 4");
    int32_t links[CLEAVE_MAX_ROUTE];
    cleave_machine_route(&machine, 3, 4, links);
    cr_expect_float_eq(machine.links[links[1]].bytes_per_second, 12.5e9, 1); /* 100 Gbit/s */
}

Test(machine, k80s_share_switches_and_a_card) {
    load("k80-16x4", 0);
    cr_expect_eq(machine.n_devices, 64);
    expect_route(0, 1, "device 0 > node 0 pcie switch 0 > device 1");
    expect_route(0, 2, "device 0 > node 0 pcie switch 0 > node 0 pcie switch 1 > device 2");
    expect_route(63, 0,
                 "device 63 > node 15 pcie switch 1 > node 15 card > switch > node 0 card > "
                 "node 0 pcie switch 0 > device 0");
}

Test(machine, every_pair_of_every_file_has_a_route) {
    static const char *const names[] = {"two-cores", "p100-4x4",   "k80-16x4",
                                        "v100-32x8", "tpu4-4x4x4", "mixed-1x4-2x4"};
    for (int k = 0; k < 6; k++) {
        load(names[k], 0);
        int32_t links[CLEAVE_MAX_ROUTE];
        for (int32_t a = 0; a < machine.n_devices; a++)
            for (int32_t b = 0; b < machine.n_devices; b++)
                cr_expect_eq(cleave_machine_route(&machine, a, b, links) > 0, a != b);
    }
}

/* Two NVLinks join 0 and 3, none joins 0 and 5; each device has a card behind its own PCIe switch.
   Nodes 0..7 are under leaf 0; the spine is chosen by the destination: card 1 of node 9 is port
   4 x 9 + 1 = 37 of the rail, and 37 modulo 8 spines is 5.  A leaf gets 8 nodes x 4 cards x 12.5
   GB/s from below and has half of that over 8 links up: 25 GB/s each.  Two leaves of four send 2 x
   200 GB/s across the middle. */
Test(machine, a_fat_tree_is_crossed_by_way_of_the_destinations_spine) {
    load("v100-32x8", 0);
    expect_route(0, 3, "device 0 > device 3");
    expect_route(0, 5,
                 "device 0 > node 0 pcie switch 0 > node 0 socket 0 > node 0 socket 1 > "
                 "node 0 pcie switch 2 > device 5");
    expect_route(2, 8,
                 "device 2 > node 0 pcie switch 1 > node 0 card 1 > leaf 0 > node 1 card 0 > "
                 "node 1 pcie switch 0 > device 8");
    expect_route(2, 74,
                 "device 2 > node 0 pcie switch 1 > node 0 card 1 > leaf 0 > spine 5 > leaf 1 > "
                 "node 9 card 1 > node 9 pcie switch 1 > device 74");
    int32_t links[CLEAVE_MAX_ROUTE];
    cr_assert_eq(cleave_machine_route(&machine, 2, 74, links), 8);
    cr_expect_float_eq(machine.links[links[3]].bytes_per_second, 25e9, 1);
    expect_bisection(400e9);
}

/* Rails: device 1 of a node uses card 1, and cards 2 and 3 are behind another PCIe switch.  Between
   leaves of different rails only the spine leads; with it (8 links) the way from device 1 to device
   2 of a node under another leaf is shorter than by one rail (10).  Node 33 is the 33rd of its
   rail: spine 33 mod 32 = 1.  Node 161 is under another spine: 161 mod 32 = 1, and of the 8 leaves
   of each 32 nodes leaf 2 of the fifth, 5 x 8 + 2 = 42, is behind core 42 mod 32 = 10.  Across the
   middle: 256 nodes x 8 cards x 50 GB/s. */
Test(machine, rails_lead_to_the_card_that_is_nearest) {
    load("h100-512x8", 0);
    cr_expect_eq(machine.n_devices, 4096);
    expect_route(1, 7, "device 1 > node 0 nvswitch > device 7");
    expect_route(1, 9,
                 "device 1 > node 0 pcie switch 0 > node 0 card 1 > leaf 1 > node 1 card 1 > "
                 "node 1 pcie switch 0 > device 9");
    expect_route(1, 33 * 8 + 2,
                 "device 1 > node 0 pcie switch 0 > node 0 card 1 > leaf 1 > spine 1 > leaf 10 > "
                 "node 33 card 2 > node 33 pcie switch 1 > device 266");
    expect_route(2, 161 * 8 + 2,
                 "device 2 > node 0 pcie switch 1 > node 0 card 2 > leaf 2 > spine 1 > core 10 > "
                 "spine 33 > leaf 42 > node 161 card 2 > node 161 pcie switch 1 > device 1290");
    expect_bisection(256 * 8 * 50e9);
}

/* What all devices send to their like 1,024 devices further, across three levels: each of the 32 x
   32 links from spines to cores, and down again, has the message of one of them. */
Test(machine, what_a_group_of_nodes_sends_to_the_next_meets_nowhere) {
    load("h100-512x8", 0);
    int32_t links[CLEAVE_MAX_ROUTE];
    int *taken = calloc((size_t)machine.n_links, sizeof *taken);
    cr_assert_not_null(taken);
    for (int32_t d = 0; d < 1024; d++) {
        int32_t n = cleave_machine_route(&machine, d, d + 1024, links);
        cr_assert_eq(n, 10);
        for (int32_t l = 2; l < n - 2; l++) /* between leaves */
            cr_expect_eq(taken[links[l]]++, 0, "device %d, link %d of its way", d, l);
    }
    free(taken);
}

/* 27 = (1, 2, 3) from (0, 0, 0): one forward, two forward (as far as backward), one backward.
   Across the middle: 16 rows of four chips, cut at two places. */
Test(machine, a_torus_is_crossed_dimension_by_dimension) {
    load("tpu4-4x4x4", 0);
    expect_route(0, 27, "device 0 > device 16 > device 20 > device 24 > device 27");
    expect_route(27, 0, "device 27 > device 11 > device 15 > device 3 > device 0");
    expect_bisection(2 * 16 * 50e9);
}

/* 5 x 2: around the back where that is shorter; one link where both ways lead to the same node. */
Test(machine, a_torus_of_two_has_one_link_each_way) {
    OK(parse,
       KINDS "\"node\": {\"count\": 10, \"devices\": 1, \"kind\": \"k\"}, "
             "\"network\": {\"join\": 0, \"torus\": [5, 2], \"bandwidth\": "
             "\"1 GB/s\", \"latency\": \"1 us\"}}",
       0);
    cr_expect_eq(machine.n_links, 10 * 3);
    expect_route(0, 7, "device 0 > device 8 > device 6 > device 7");
    expect_route(7, 0, "device 7 > device 9 > device 1 > device 0");
}

/* A part of a torus keeps its other nodes, which messages cross. */
Test(machine, the_first_devices_of_a_torus_use_its_ways_around) {
    load("tpu4-4x4x4", 4);
    cr_expect_eq(machine.n_devices, 4);
    expect_route(0, 3, "device 0 > device 3");
    load("tpu4-4x4x4", 64 - 1);
    int32_t links[CLEAVE_MAX_ROUTE];
    for (int32_t d = 1; d < machine.n_devices; d++)
        cr_expect_gt(cleave_machine_route(&machine, 0, d, links), 0);
}

/* Nodes of two sorts: the kinds follow the nodes, and so do the ways to the switch. */
Test(machine, nodes_of_several_sorts_follow_one_another) {
    load("mixed-1x4-2x4", 0);
    cr_expect_eq(machine.n_devices, 12);
    cr_expect_eq(machine.devices_per_node, 4);
    static const char *const kinds[] = {"a100", "a100", "a100", "a100", "v100", "v100",
                                        "p100", "p100", "v100", "v100", "p100", "p100"};
    for (int32_t d = 0; d < 12; d++)
        cr_expect_str_eq(machine.kinds[machine.device_kind[d]].name, kinds[d]);
    expect_route(0, 3, "device 0 > device 3");
    expect_route(4, 6, "device 4 > node 1 pcie switch > device 6");
    expect_route(0, 11,
                 "device 0 > node 0 pcie switch > node 0 card > switch > node 2 card > "
                 "node 2 pcie switch > device 11");
    load("mixed-1x4-2x4", 6);
    expect_route(5, 0,
                 "device 5 > node 1 pcie switch > node 1 card > switch > node 0 card > "
                 "node 0 pcie switch > device 0");
}

/* Nodes of 6 and 4 devices: two consecutive devices always share one. */
Test(machine, devices_that_always_share_a_node_are_counted) {
    OK(parse,
       KINDS "\"nodes\": [{\"devices\": 6, \"kind\": \"k\", \"links\": [{\"join\": [[0, 1, 2, "
             "3, 4, 5, \"card\"]], \"through\": \"bus\", \"bandwidth\": \"1 GB/s\", \"latency\": "
             "\"0 s\"}]}, {\"count\": 2, \"devices\": 4, \"kind\": \"k\", \"links\": [{\"join\": "
             "[[0, 1, 2, 3, \"card\"]], \"bandwidth\": \"1 GB/s\", \"latency\": \"0 s\"}]}], "
             "\"network\": {\"join\": \"card\", \"bandwidth\": \"1 GB/s\", \"latency\": \"0 s\"}}",
       0);
    cr_expect_eq(machine.n_devices, 14);
    cr_expect_eq(machine.devices_per_node, 2);
    expect_route(5, 6, "device 5 > node 0 bus > node 0 card > node 1 card > device 6");
    expect_route(13, 9, "device 13 > node 2 card > node 1 card > device 9");
}

/* Four devices, two cards behind one bus: devices take the cards in turn. */
Test(machine, devices_take_equal_cards_in_turn) {
    OK(parse,
       KINDS "\"node\": {\"count\": 2, \"devices\": 4, \"kind\": \"k\", \"links\": [{\"join\": "
             "[[0, 1, 2, 3, \"a\", \"b\"]], \"through\": \"bus\", \"bandwidth\": \"1 GB/s\", "
             "\"latency\": \"0 s\"}]}, \"network\": {\"join\": [[\"a\"], [\"b\"]], \"through\": "
             "\"rail\", \"bandwidth\": \"1 GB/s\", \"latency\": \"0 s\"}}",
       0);
    expect_route(0, 5,
                 "device 0 > node 0 bus > node 0 a > rail 0 > node 1 a > node 1 bus > device 5");
    expect_route(3, 4,
                 "device 3 > node 0 bus > node 0 b > rail 1 > node 1 b > node 1 bus > device 4");
    expect_bisection(2e9);
}

/* The first 6 of 16: a whole node and half of another; a part of one node needs no network. */
Test(machine, the_first_devices_are_kept) {
    load("p100-4x4", 6);
    cr_expect_eq(machine.n_devices, 6);
    expect_route(5, 0, "device 5 > node 1 card > switch > node 0 card > device 0");
    for (int32_t l = 0; l < machine.n_links; l++)
        cr_expect(machine.links[l].from < machine.n_vertices &&
                  machine.links[l].to < machine.n_vertices);
    load("p100-4x4", 3);
    expect_route(0, 2, "device 0 > device 2");
}

/* Three ways from 0 to 1 of two hops each: the one whose narrowest link is widest is taken. */
Test(machine, of_equally_short_routes_the_widest_is_taken) {
    OK(parse,
       KINDS "\"node\": {\"devices\": 2, \"kind\": \"k\", \"links\": ["
             "{\"join\": [[0, 1]], \"through\": \"a\", \"bandwidth\": \"1 GB/s\", "
             "\"latency\": \"1 us\"},"
             "{\"join\": [[0, 1]], \"through\": \"b\", \"bandwidth\": \"3 GB/s\", "
             "\"latency\": \"1 us\"},"
             "{\"join\": [[0, \"c\"]], \"bandwidth\": \"9 GB/s\", \"latency\": \"1 us\"},"
             "{\"join\": [[\"c\", 1]], \"bandwidth\": \"2 GB/s\", \"latency\": \"1 "
             "us\"}]}}",
       0);
    expect_route(0, 1, "device 0 > node 0 b > device 1");
}

Test(machine, a_network_without_a_switch_joins_nodes_directly) {
    OK(parse,
       KINDS "\"node\": {\"count\": 3, \"devices\": 1, \"kind\": \"k\"}, "
             "\"network\": {\"join\": 0, \"bandwidth\": \"1 GB/s\", \"latency\": "
             "\"1 us\"}}",
       0);
    expect_route(2, 0, "device 2 > device 0");
    expect_route(0, 1, "device 0 > device 1");
}

static void expect_refused(const char *text, const char *place, const char *what) {
    cleave_error error;
    cr_expect_eq(parse(text, 0, &error), CLEAVE_BAD_INPUT, "%s", text);
    cr_expect_eq(strncmp(error.message, "test.json: ", 11), 0, "%s", error.message);
    cr_expect_neq(strstr(error.message, place), NULL, "%s: %s", place, error.message);
    cr_expect_neq(strstr(error.message, what), NULL, "%s: %s", what, error.message);
}

#define LINK(bandwidth)                                                                            \
    KINDS "\"node\": {\"devices\": 2, \"kind\": \"k\", \"links\": [{\"join\": [[0, 1]], "          \
          "\"bandwidth\": " bandwidth ", \"latency\": \"1 us\"}]}}"
#define NODE(text) KINDS "\"node\": {" text "}}"
#define JOIN(groups)                                                                               \
    NODE("\"devices\": 2, \"kind\": \"k\", \"links\": [{\"join\": " groups                         \
         ", \"bandwidth\": \"1 GB/s\", \"latency\": \"0 s\"}]")

#define NETWORK(text)                                                                              \
    KINDS "\"node\": {\"count\": 2, \"devices\": 2, \"kind\": \"k\", \"links\": [{\"join\": [[0, " \
          "1]], " FIGURES "}]}, \"network\": " text "}"
#define FIGURES "\"bandwidth\": \"1 GB/s\", \"latency\": \"0 s\""
#define LEAF "{\"join\": 0, \"through\": \"leaf\", \"nodes\": 1, " FIGURES "}"

#define EFFICIENCY(value)                                                                          \
    "{\"cleave_machine\": 1, \"name\": \"t\", \"kinds\": {\"k\": {\"memory\": \"1 GiB\", "         \
    "\"flops\": \"1 TFLOP/s\", \"memory_bandwidth\": \"10 GB/s\", \"efficiency\": {" value         \
    "}}}, \"node\": {\"devices\": 1, \"kind\": \"k\"}}"
#define COLLECTIVES(value)                                                                         \
    KINDS "\"node\": {\"devices\": 1, \"kind\": \"k\"}, \"collectives\": {" value "}}"
#define SPAN(n) "{\"devices\": " #n ", \"bandwidth\": \"1 GB/s\"}"
#define GATHER(n, seconds)                                                                         \
    "{\"devices\": " #n                                                                            \
    ", \"bandwidth\": \"1 GB/s\", \"collective\": \"all-gather\", \"latency\": "                   \
    "\"" #seconds " s\"}"

Test(machine, tables_of_efficiency_ascend_and_are_shares) {
    const char *at = "$.kinds.k.efficiency";
    expect_refused(EFFICIENCY("\"products\": 1"), at, "products");
    expect_refused(EFFICIENCY("\"product\": 0"), at, "0 is not above 0 and at most 1");
    expect_refused(EFFICIENCY("\"memory\": []"), at, "0 points");
    expect_refused(EFFICIENCY("\"memory\": [[1, 0.5, 2]]"), at, "[SIZE, SHARE]");
    expect_refused(EFFICIENCY("\"memory\": [[1, 0.5], [1, 0.6]]"), at, "1 is not above 1");
    expect_refused(EFFICIENCY("\"memory\": [[1, 1.5]]"), at, "1.5");
    expect_refused(EFFICIENCY("\"memory\": \"much\""), at, "memory");
}

/* 4 devices are half-way from 2 to 6 of the span that is of their collective, if any is. */
Test(machine, collectives_go_by_spans_of_their_own) {
    OK(parse,
       COLLECTIVES(
           "\"source\": \"\", \"within\": [" SPAN(4) ", " GATHER(2, 1) ", " GATHER(6, 3) "]"),
       0);
    const cleave_machine_collectives *known = &machine.collectives;
    cleave_collective_span gather =
        cleave_machine_collectives_within(known, 0, CLEAVE_ALL_GATHER, 4);
    cr_expect(gather.latency_seconds == 2 && gather.collective == CLEAVE_ALL_GATHER);
    cr_expect_eq(cleave_machine_collectives_within(known, 0, CLEAVE_ALL_REDUCE, 4).latency_seconds,
                 0);
}

Test(machine, collectives_are_by_ascending_spans_of_a_node) {
    expect_refused(COLLECTIVES("\"within\": []"), "$.collectives", "source");
    expect_refused(COLLECTIVES("\"source\": \"\", \"within\": []"), "$.collectives.within",
                   "0 spans");
    expect_refused(COLLECTIVES("\"source\": \"\", \"within\": [" SPAN(1) "]"), "within[0]", "1");
    expect_refused(COLLECTIVES("\"source\": \"\", \"least\": 4, \"within\": [" SPAN(2) "]"),
                   "collectives.least", "4");
    expect_refused(COLLECTIVES("\"source\": \"\", \"within\": [{\"devices\": 2, \"bandwidth\": "
                               "\"1 GB/s\", \"overhead\": \"1 us\"}]"),
                   "within[0]", "its overhead is more than its latency");
    expect_refused(COLLECTIVES("\"source\": \"\", \"within\": [{\"devices\": 2, \"bandwidth\": "
                               "\"1 GB/s\", \"copy_bandwidth\": \"1 MB/s\"}]"),
                   "within[0]", "its copy_bandwidth is less than its bandwidth");
    expect_refused(COLLECTIVES("\"source\": \"\", \"within\": [" GATHER(2, 1) ", " SPAN(
                       2) ", " GATHER(4, 1) "]"),
                   "within[2]", "side by side");
    expect_refused(COLLECTIVES("\"source\": \"\", \"within\": [{\"devices\": 2, \"bandwidth\": "
                               "\"1 GB/s\", \"collective\": \"broadcast\"}]"),
                   "within[0].collective", "\"broadcast\" is none of all-reduce");
    expect_refused(COLLECTIVES("\"source\": \"\", \"within\": [" SPAN(4) ", " SPAN(4) "]"),
                   "within[1].devices", "4");
    expect_refused(COLLECTIVES("\"source\": \"\", \"within\": [" SPAN(2) "], \"between\": {"
                                                                         "\"share\": 2}"),
                   "between.share", "2 is not above 0 and at most 1");
    expect_refused(COLLECTIVES("\"source\": \"\", \"within\": [" SPAN(2) "], \"between\": {"
                                                                         "\"share\": 1, "
                                                                         "\"library\": \"mpi\"}"),
                   "collectives.between",
                   "library \"mpi\" is not known: it is \"nccl over nvlink\"");
    expect_refused(COLLECTIVES("\"source\": \"\", \"within\": [" SPAN(
                       2) "], \"between\": {"
                          "\"share\": 1, \"latency\": \"1 us\", "
                          "\"library\": \"nccl over pcie\"}"),
                   "between.latency", "exclude each other");
}

Test(machine, wrong_files_are_refused_with_place_and_value) {
    expect_refused(LINK("\"-1 GB/s\""), "$.node.links[0].bandwidth", "-1 GB/s");
    expect_refused(LINK("\"0 GB/s\""), "$.node.links[0].bandwidth", "0");
    expect_refused(LINK("\"5 GiB\""), "$.node.links[0].bandwidth", "5 GiB");
    expect_refused(LINK("5"), "$.node.links[0].bandwidth", "5");
    expect_refused(
        LINK("\"5 GB/s\", \"protocol\": {\"large_from\": \"1 KiB\", \"large_latency\": []}"),
        "large_latency", "1 to 6");
    expect_refused(LINK("\"5 GB/s\", \"protocol\": {\"large_latency\": ["
                        "{\"bytes\": \"2 KiB\", \"latency\": \"1 us\"},"
                        "{\"bytes\": \"2 KiB\", \"latency\": \"2 us\"}]}"),
                   "large_latency[1]", "ascend");
    expect_refused(LINK("\"5 GB/s\", \"protocol\": {\"large_latency\": [{\"bytes\": \"0 B\"}]}"),
                   "large_latency[0].bytes", "0");
    expect_refused(LINK("\"1 GB/s\", \"speed\": 3"), "$.node.links[0]", "speed");
    expect_refused(LINK("\"1 GB/s\", \"copy_bandwidth\": \"0 B/s\""), "copy_bandwidth", "0");
    expect_refused(JOIN("[[0, 2]]"), "$.node.links[0].join[0][1]", "2");
    expect_refused(JOIN("[[0, 0]]"), "$.node.links[0].join[0][1]", "twice");
    expect_refused(JOIN("[[0]]"), "$.node.links[0].join[0]", "a group of 1");
    expect_refused(JOIN("[]"), "$.node.links[0].join", "no group");
    expect_refused(JOIN("[[0, 1], [0, \"crad\"]]"), "$.node", "\"crad\" leads nowhere");
    expect_refused(NODE("\"devices\": 3, \"kind\": \"k\", \"links\": [{\"join\": [[0, 1], [1, 2]], "
                        "\"bandwidth\": \"1 GB/s\", \"latency\": \"0 s\"}]"),
                   "$.node", "no route from device 0 to device 2");
    expect_refused(NODE("\"count\": 2, \"devices\": 1, \"kind\": \"k\""), "$.node", "network");
    expect_refused(NODE("\"devices\": 0, \"kind\": \"k\""), "$.node.devices", "0");
    expect_refused(NODE("\"devices\": 1, \"kind\": \"q\""), "$.node.kind", "\"q\"");
    expect_refused(NODE("\"count\": 65, \"devices\": 1024, \"kind\": \"k\""), "$.node", "65536");
    expect_refused(NODE("\"count\": 1e3, \"devices\": 1, \"kind\": \"k\""), "$.node.count", "");
    expect_refused(NETWORK("{\"join\": \"crad\", " FIGURES "}"), "$.network.join", "\"crad\"");
    expect_refused(NETWORK("{\"join\": [0, 0], \"through\": \"s\", " FIGURES "}"),
                   "$.network.join[1]", "twice");
    expect_refused(NETWORK("{\"join\": [0, 1], " FIGURES "}"), "$.network.join", "2 vertices");
    expect_refused(NETWORK("{\"join\": 0, \"torus\": [3], " FIGURES "}"), "$.node", "torus of 3");
    expect_refused(NETWORK("{\"join\": 0, \"torus\": [2, 1], " FIGURES "}"), "$.network.torus[1]",
                   "1");
    expect_refused(NETWORK("{\"join\": 0, \"torus\": [2], \"through\": \"s\", " FIGURES "}"),
                   "$.network.torus", "through");
    expect_refused(NETWORK("[]"), "$.network", "0 levels");
    expect_refused(NETWORK("[{\"join\": 0, " FIGURES "}, {\"through\": \"s\", " FIGURES "}]"),
                   "$.network[0]", "through");
    expect_refused(NETWORK("{\"join\": 0, \"through\": \"leaf\", \"nodes\": 1, " FIGURES "}"),
                   "$.node", "1 of 2 nodes");
    expect_refused(NETWORK("[" LEAF ", {\"through\": \"s\", \"nodes\": 1, " FIGURES "}]"), "$.node",
                   "no larger multiple");
    expect_refused(
        NETWORK("[" LEAF ", {\"through\": \"s\", \"oversubscription\": 0, " FIGURES "}]"),
        "$.network[1].oversubscription", "0");
    expect_refused(
        NETWORK("[" LEAF ", {\"through\": \"s\", \"oversubscription\": 2, " FIGURES "}]"),
        "$.network[1].bandwidth", "oversubscription");
    expect_refused(NETWORK("[" LEAF ", {" FIGURES "}]"), "$.network[1]", "through");
    expect_refused(KINDS "\"node\": {\"devices\": 1, \"kind\": \"k\"}, \"nodes\": []}", "$.node",
                   "already");
    expect_refused(KINDS "\"nodes\": []}", "$.nodes", "0 sorts");
    expect_refused(KINDS "\"nodes\": [{\"devices\": 1, \"kind\": \"q\"}]}", "$.nodes[0].kind",
                   "\"q\"");
    expect_refused("{\"cleave_machine\": 2}", "$.cleave_machine", "2");
    expect_refused("{}", "cleave_machine", "missing");
    expect_refused("[]", "$", "object");
}

Test(machine, more_devices_than_there_are_is_an_error) {
    cleave_error error;
    cr_expect_eq(parse(LINK("\"1 GB/s\""), 3, &error), CLEAVE_BAD_INPUT);
    cr_expect_neq(strstr(error.message, "3 devices are asked for"), NULL, "%s", error.message);
}

static void write_and_read(cleave_machine *again, char **text) {
    char path[512];
    size_t bytes;
    snprintf(path, sizeof path, CLEAVE_BINARY_DIR "/machine-test-%ld.json", (long)getpid());
    OK(cleave_machine_write, path, &machine);
    OK(cleave_machine_read, path, 0, &arena, again);
    OK(cleave_file_read, path, &arena, text, &bytes);
    unlink(path);
}

static bool same(double a, double b) { return memcmp(&a, &b, sizeof a) == 0; }

static void expect_same_machine(const cleave_machine *a, const cleave_machine *b) {
    cr_assert_eq(a->n_devices, b->n_devices);
    cr_assert_eq(a->n_links, b->n_links);
    cr_assert_eq(a->n_vertices, b->n_vertices);
    for (int32_t l = 0; l < a->n_links; l++) {
        const cleave_link *x = &a->links[l], *y = &b->links[l];
        cr_expect(x->from == y->from && x->to == y->to &&
                  same(x->bytes_per_second, y->bytes_per_second) &&
                  same(x->latency_seconds, y->latency_seconds) &&
                  same(x->overhead_seconds, y->overhead_seconds) &&
                  same(x->overhead_seconds_per_byte, y->overhead_seconds_per_byte) &&
                  memcmp(&x->protocol, &y->protocol, sizeof x->protocol) == 0);
    }
    const cleave_machine_collectives *c = &a->collectives, *d = &b->collectives;
    cr_assert(c->n_spans == d->n_spans && same(c->between_share, d->between_share) &&
              c->library == d->library && c->least_devices == d->least_devices &&
              c->together_bytes == d->together_bytes &&
              same(c->between_latency_seconds, d->between_latency_seconds));
    for (int32_t i = 0; i < c->n_spans; i++)
        cr_expect(
            c->spans[i].n_devices == d->spans[i].n_devices &&
            cleave_collective_spans_alike(&c->spans[i], &d->spans[i]) &&
            same(c->spans[i].bytes_per_second, d->spans[i].bytes_per_second) &&
            same(c->spans[i].latency_seconds, d->spans[i].latency_seconds) &&
            same(c->spans[i].overhead_seconds, d->spans[i].overhead_seconds) &&
            same(c->spans[i].overhead_seconds_per_byte, d->spans[i].overhead_seconds_per_byte));
    for (int32_t k = 0; k < a->n_kinds; k++) {
        const cleave_device_kind *x = &a->kinds[k], *y = &b->kinds[k];
        cr_expect_str_eq(x->name, y->name);
        cr_expect_str_eq(x->source, y->source);
        cr_expect(x->memory_bytes == y->memory_bytes && x->runtime_bytes == y->runtime_bytes &&
                  same(x->flops_per_second, y->flops_per_second) &&
                  same(x->bytes_per_second, y->bytes_per_second) &&
                  same(x->launch_seconds, y->launch_seconds) &&
                  memcmp(x->efficiency, y->efficiency, sizeof x->efficiency) == 0);
        for (int type = 0; type < CLEAVE_N_TYPES; type++)
            cr_expect(same(x->rates[type], y->rates[type]), "rate %d", type);
        cr_assert_eq(x->n_kernels, y->n_kernels);
        cr_assert_eq(x->n_fits, y->n_fits);
        for (int32_t i = 0; i < x->n_kernels; i++)
            cr_expect(strcmp(x->kernels[i].key, y->kernels[i].key) == 0 &&
                      same(x->kernels[i].seconds, y->kernels[i].seconds) &&
                      same(x->kernels[i].spread, y->kernels[i].spread) &&
                      same(x->kernels[i].flops, y->kernels[i].flops) &&
                      same(x->kernels[i].bytes, y->kernels[i].bytes) &&
                      same(x->kernels[i].alone_seconds, y->kernels[i].alone_seconds) &&
                      x->kernels[i].workspace_bytes == y->kernels[i].workspace_bytes);
        for (int32_t i = 0; i < x->n_fits; i++)
            cr_expect(strcmp(x->fits[i].family, y->fits[i].family) == 0 &&
                      same(x->fits[i].launch_seconds, y->fits[i].launch_seconds) &&
                      same(x->fits[i].seconds_per_flop, y->fits[i].seconds_per_flop) &&
                      same(x->fits[i].seconds_per_byte, y->fits[i].seconds_per_byte) &&
                      same(x->fits[i].spread, y->fits[i].spread) &&
                      same(x->fits[i].largest_bytes, y->fits[i].largest_bytes) &&
                      same(x->fits[i].alone, y->fits[i].alone) &&
                      same(x->fits[i].near_bytes, y->fits[i].near_bytes) &&
                      same(x->fits[i].far_seconds_per_byte, y->fits[i].far_seconds_per_byte) &&
                      x->fits[i].workspace_bytes == y->fits[i].workspace_bytes);
    }
}

Test(machine, what_is_written_reads_back_the_same) {
    static const char *const names[] = {
        "two-cores",      "p100-4x4",      "k80-16x4",  "v100-32x8",    "tpu4-4x4x4",
        "a100-128x8",     "mixed-1x4-2x4", "b200-1x8",  "h100-512x8",   "h100-500w-64x8",
        "h200-64x8",      "gh200-64x4",    "l4-8x8",    "rtx-4x8",      "a100-40-128x8",
        "l4-1050mhz-8x8", "l40s-8x8",      "a10g-8x8",  "rtx-4090-4x8", "mi300x-16x8",
        "tpu5e-16x16",    "tpu5p-4x4x4",   "gb200-4x72"};
    for (int k = 0; k < (int)(sizeof names / sizeof names[0]); k++) {
        load(names[k], 0);
        cleave_machine again, third;
        char *text, *text_again;
        write_and_read(&again, &text);
        expect_same_machine(&machine, &again);
        machine = again;
        write_and_read(&third, &text_again);
        cr_expect_str_eq(text, text_again);
    }
}

/* What calibration makes: awkward numbers, kernels added out of order, one of them twice. */
Test(machine, a_calibrated_machine_reads_back_the_same) {
    cleave_device_kind kind = {
        .name = "core",
        .source = "calibrated",
        .memory_bytes = 8123456789,
        .flops_per_second = 1e11 / 3,
        .bytes_per_second = 1e10 / 7,
        .efficiency = {[CLEAVE_EFFICIENCY_MEMORY] = cleave_efficiency_flat(2.0 / 3)},
        .launch_seconds = 1e-6 / 3,
        .runtime_bytes = 34567891,
        .kernel_version = "oneDNN 2.6.3",
        .threads = 2};
    const cleave_kernel_time times[] = {
        {"product b", "product", 1e-3 / 3, 0.01, 1e9, 1e6, 0, 1e-3 / 9},
        {"product a", "product", 2e-3 / 3, 0.01, 2e9, 1e6, 4096, 0},
        {"product b", "product", 1e-3 / 7, 0.02, 1e9, 1e6, 64, 1e-3 / 11},
        {"product d", "product", 0, 0, 1e9, 1e6 / 3, 128, 0}, /* not timed */
    };
    for (int i = 0; i < 4; i++)
        OK(cleave_device_kind_add_kernel, &kind, &times[i], &arena);
    cr_expect_eq(kind.n_kernels, 3);
    cr_expect_str_eq(kind.kernels[0].key, "product a");
    cr_expect(same(cleave_device_kind_find_kernel(&kind, "product b")->seconds, 1e-3 / 7));
    cr_expect_null(cleave_device_kind_find_kernel(&kind, "product c"));
    OK(cleave_device_kind_fit, &kind, &arena);
    kind.fits[0].near_bytes = 1e6 / 3;
    kind.fits[0].far_seconds_per_byte = kind.fits[0].seconds_per_byte + 1e-9 / 3;
    const cleave_protocol protocol = {.large_from_bytes = 1 << 16,
                                      .n_agreements = 2,
                                      .agreements = {{1 << 16, 1e-4 / 3}, {1 << 20, 1e-4 / 7}},
                                      .first_bytes = 1 << 20,
                                      .first_bytes_per_second = 1e10 / 3,
                                      .sending = {0, 2, 0},
                                      .receiving = {0.5, 10.0 / 3, 1e-6 / 3}};
    cleave_link links[3] = {
        {0, 1, 1e9 / 3, 1e-6 / 7, 1e-7 / 3, 1e-10 / 3, protocol},
        {.from = 1, .to = 2, .bytes_per_second = 1e9 / 7, .latency_seconds = 1e-6 / 3},
        {0, 2, 1e9 / 9, 1e-6 / 9, 1e-7, 1e-10, {.sending = {.large = 2}}}};
    OK(cleave_machine_create_node, "here", &kind, 3, links, 3, &arena, &machine);
    expect_route(2, 0, "device 2 > device 0");
    cr_expect_eq(cleave_machine_runtime_bytes(&machine, 2, 1000), 34567891 + 1000);
    cleave_machine again;
    char *text;
    write_and_read(&again, &text);
    expect_same_machine(&machine, &again);
    cr_expect_str_eq(again.kinds[0].kernel_version, "oneDNN 2.6.3");
    cr_expect_eq(cleave_device_kind_threads(&again.kinds[0]), 2);
    cr_expect(same(again.links[0].protocol.receiving.large, 10.0 / 3));
    /* "product b" alone: 7/11 of its time; "product a" was not measured alone. */
    cr_expect_float_eq(again.kinds[0].fits[0].alone, 7.0 / 11, 1e-9);
}
