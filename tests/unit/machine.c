/* Machine files: the ones that ship, what routes they give, what is refused, and the round trip. */
#include "costmodel/machine.h"

#include "base/file.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static cleave_arena arena;
static cleave_machine machine;

static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(machine, .fini = tear_down);

static void load(const char *name, int32_t n_devices) {
    char path[512];
    cleave_error error = {""};
    snprintf(path, sizeof path, CLEAVE_SOURCE_DIR "/configs/machines/%s.json", name);
    cr_assert_eq(cleave_machine_read(path, n_devices, &arena, &machine, &error), CLEAVE_OK, "%s",
                 error.message);
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
    static const char *const names[] = {"two-cores", "p100-4x4", "k80-16x4"};
    for (int k = 0; k < 3; k++) {
        load(names[k], 0);
        int32_t links[CLEAVE_MAX_ROUTE];
        for (int32_t a = 0; a < machine.n_devices; a++)
            for (int32_t b = 0; b < machine.n_devices; b++)
                cr_expect_eq(cleave_machine_route(&machine, a, b, links) > 0, a != b);
    }
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

static cleave_status parse(const char *text, int32_t n_devices, cleave_error *error) {
    error->message[0] = '\0';
    return cleave_machine_parse(text, strlen(text), "test.json", n_devices, &arena, &machine,
                                error);
}

#define KINDS                                                                                      \
    "{\"cleave_machine\": 1, \"name\": \"t\", \"kinds\": {\"k\": {\"memory\": \"1 GiB\", "         \
    "\"flops\": \"1 TFLOP/s\", \"memory_bandwidth\": \"10 GB/s\"}}, "

/* Three ways from 0 to 1 of two hops each: the one whose narrowest link is widest is taken. */
Test(machine, of_equally_short_routes_the_widest_is_taken) {
    cleave_error error;
    cr_assert_eq(parse(KINDS
                       "\"node\": {\"devices\": 2, \"kind\": \"k\", \"links\": ["
                       "{\"join\": [[0, 1]], \"through\": \"a\", \"bandwidth\": \"1 GB/s\", "
                       "\"latency\": \"1 us\"},"
                       "{\"join\": [[0, 1]], \"through\": \"b\", \"bandwidth\": \"3 GB/s\", "
                       "\"latency\": \"1 us\"},"
                       "{\"join\": [[0, \"c\"]], \"bandwidth\": \"9 GB/s\", \"latency\": \"1 us\"},"
                       "{\"join\": [[\"c\", 1]], \"bandwidth\": \"2 GB/s\", \"latency\": \"1 "
                       "us\"}]}}",
                       0, &error),
                 CLEAVE_OK, "%s", error.message);
    expect_route(0, 1, "device 0 > node 0 b > device 1");
}

Test(machine, a_network_without_a_switch_joins_nodes_directly) {
    cleave_error error;
    cr_assert_eq(parse(KINDS "\"node\": {\"count\": 3, \"devices\": 1, \"kind\": \"k\"}, "
                             "\"network\": {\"join\": 0, \"bandwidth\": \"1 GB/s\", \"latency\": "
                             "\"1 us\"}}",
                       0, &error),
                 CLEAVE_OK, "%s", error.message);
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

Test(machine, wrong_files_are_refused_with_place_and_value) {
    expect_refused(LINK("\"-1 GB/s\""), "$.node.links[0].bandwidth", "-1 GB/s");
    expect_refused(LINK("\"0 GB/s\""), "$.node.links[0].bandwidth", "0");
    expect_refused(LINK("\"5 GiB\""), "$.node.links[0].bandwidth", "5 GiB");
    expect_refused(LINK("5"), "$.node.links[0].bandwidth", "5");
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
    cleave_error error = {""};
    snprintf(path, sizeof path, CLEAVE_BINARY_DIR "/machine-test-%ld.json", (long)getpid());
    cr_assert_eq(cleave_machine_write(path, &machine, &error), CLEAVE_OK, "%s", error.message);
    cr_assert_eq(cleave_machine_read(path, 0, &arena, again, &error), CLEAVE_OK, "%s",
                 error.message);
    cr_assert_eq(cleave_file_read(path, &arena, text, &bytes, &error), CLEAVE_OK);
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
                  same(x->overhead_seconds_per_byte, y->overhead_seconds_per_byte));
    }
    for (int32_t k = 0; k < a->n_kinds; k++) {
        const cleave_device_kind *x = &a->kinds[k], *y = &b->kinds[k];
        cr_expect_str_eq(x->name, y->name);
        cr_expect_str_eq(x->source, y->source);
        cr_expect(x->memory_bytes == y->memory_bytes && x->runtime_bytes == y->runtime_bytes &&
                  same(x->flops_per_second, y->flops_per_second) &&
                  same(x->bytes_per_second, y->bytes_per_second) &&
                  same(x->launch_seconds, y->launch_seconds) &&
                  same(x->product_efficiency, y->product_efficiency) &&
                  same(x->memory_efficiency, y->memory_efficiency));
        cr_assert_eq(x->n_kernels, y->n_kernels);
        cr_assert_eq(x->n_fits, y->n_fits);
        for (int32_t i = 0; i < x->n_kernels; i++)
            cr_expect(strcmp(x->kernels[i].key, y->kernels[i].key) == 0 &&
                      same(x->kernels[i].seconds, y->kernels[i].seconds) &&
                      same(x->kernels[i].spread, y->kernels[i].spread) &&
                      same(x->kernels[i].flops, y->kernels[i].flops) &&
                      same(x->kernels[i].bytes, y->kernels[i].bytes) &&
                      x->kernels[i].workspace_bytes == y->kernels[i].workspace_bytes);
        for (int32_t i = 0; i < x->n_fits; i++)
            cr_expect(strcmp(x->fits[i].family, y->fits[i].family) == 0 &&
                      same(x->fits[i].launch_seconds, y->fits[i].launch_seconds) &&
                      same(x->fits[i].seconds_per_flop, y->fits[i].seconds_per_flop) &&
                      same(x->fits[i].seconds_per_byte, y->fits[i].seconds_per_byte) &&
                      same(x->fits[i].spread, y->fits[i].spread) &&
                      same(x->fits[i].largest_bytes, y->fits[i].largest_bytes) &&
                      x->fits[i].workspace_bytes == y->fits[i].workspace_bytes);
    }
}

Test(machine, what_is_written_reads_back_the_same) {
    static const char *const names[] = {"two-cores", "p100-4x4", "k80-16x4"};
    for (int k = 0; k < 3; k++) {
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
    cleave_error error = {""};
    cleave_device_kind kind = {.name = "core",
                               .source = "calibrated",
                               .memory_bytes = 8123456789,
                               .flops_per_second = 1e11 / 3,
                               .bytes_per_second = 1e10 / 7,
                               .product_efficiency = 1,
                               .memory_efficiency = 2.0 / 3,
                               .launch_seconds = 1e-6 / 3,
                               .runtime_bytes = 34567891,
                               .kernel_version = "oneDNN 2.6.3"};
    const cleave_kernel_time times[] = {
        {"product b", "product", 1e-3 / 3, 0.01, 1e9, 1e6, 0},
        {"product a", "product", 2e-3 / 3, 0.01, 2e9, 1e6, 4096},
        {"product b", "product", 1e-3 / 7, 0.02, 1e9, 1e6, 64},
        {"product d", "product", 0, 0, 1e9, 1e6 / 3, 128}, /* not timed */
    };
    for (int i = 0; i < 4; i++)
        cr_assert_eq(cleave_device_kind_add_kernel(&kind, &times[i], &arena, &error), CLEAVE_OK);
    cr_expect_eq(kind.n_kernels, 3);
    cr_expect_str_eq(kind.kernels[0].key, "product a");
    cr_expect(same(cleave_device_kind_find_kernel(&kind, "product b")->seconds, 1e-3 / 7));
    cr_expect_null(cleave_device_kind_find_kernel(&kind, "product c"));
    cr_assert_eq(cleave_device_kind_fit(&kind, &arena, &error), CLEAVE_OK, "%s", error.message);
    cleave_link links[3] = {{0, 1, 1e9 / 3, 1e-6 / 7, 1e-7 / 3, 1e-10 / 3},
                            {1, 2, 1e9 / 7, 1e-6 / 3, 0, 0},
                            {0, 2, 1e9 / 9, 1e-6 / 9, 1e-7, 1e-10}};
    cr_assert_eq(cleave_machine_create_node("here", &kind, 3, links, 3, &arena, &machine, &error),
                 CLEAVE_OK, "%s", error.message);
    expect_route(2, 0, "device 2 > device 0");
    cr_expect_eq(cleave_machine_runtime_bytes(&machine, 2, 1000), 34567891 + 1000);
    cleave_machine again;
    char *text;
    write_and_read(&again, &text);
    expect_same_machine(&machine, &again);
    cr_expect_str_eq(again.kinds[0].kernel_version, "oneDNN 2.6.3");
}
