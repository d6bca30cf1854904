/* Small machines for tests: nodes of 1, 2 or 4 devices on a card each, the cards on a switch. */
#ifndef CLEAVE_TESTS_SUPPORT_TEST_MACHINE_H
#define CLEAVE_TESTS_SUPPORT_TEST_MACHINE_H

#include "costmodel/machine.h"
#include "ok.h"

#include <criterion/criterion.h>
#include <string.h>

static inline cleave_machine parse_machine(cleave_arena *arena, int32_t nodes, int32_t devices,
                                           const char *memory, const char *bandwidth,
                                           const char *launch, const char *links) {
    const char *text = cleave_arena_printf(
        arena,
        "{\"cleave_machine\": 1, \"name\": \"test\", \"kinds\": {\"k\": {\"memory\": \"%s\", "
        "\"flops\": \"1 TFLOP/s\", \"rates\": {\"bf16\": \"1 TFLOP/s\"}, \"memory_bandwidth\": "
        "\"%s\", \"efficiency\": "
        "{\"product\": 0.5, \"memory\": 0.5}, \"launch\": \"%s\", \"source\": \"test\"}}, "
        "\"node\": {\"count\": %d, \"devices\": %d, \"kind\": \"k\", \"links\": [{\"join\": "
        "[[%s\"card\"]], %s}]}, \"network\": {\"join\": \"card\", \"through\": \"switch\", %s}}",
        memory, bandwidth, launch, nodes, devices,
        devices == 1   ? "0, "
        : devices == 2 ? "0, 1, "
                       : "0, 1, 2, 3, ",
        links, links);
    cleave_machine machine;
    OK(cleave_machine_parse, text, strlen(text), "test", 0, arena, &machine);
    return machine;
}

/* Nodes of two devices: one as above, and one that is so many times slower in all. */
static inline cleave_machine parse_two_kinds(cleave_arena *arena, int32_t nodes, double slower,
                                             const char *memory, double gigabytes_per_second,
                                             const char *launch, const char *links) {
    const char *text = cleave_arena_printf(
        arena,
        "{\"cleave_machine\": 1, \"name\": \"test\", \"kinds\": {\"k\": {\"memory\": \"%s\", "
        "\"flops\": \"1 TFLOP/s\", \"rates\": {\"bf16\": \"1 TFLOP/s\"}, \"memory_bandwidth\": "
        "\"%g GB/s\", \"efficiency\": {\"product\": 0.5, \"memory\": 0.5}, \"launch\": \"%s\", "
        "\"source\": \"test\"}, \"slow\": {\"memory\": \"%s\", \"flops\": \"%g TFLOP/s\", "
        "\"rates\": {\"bf16\": \"%g TFLOP/s\"}, \"memory_bandwidth\": \"%g GB/s\", "
        "\"efficiency\": {\"product\": 0.5, \"memory\": 0.5}, \"launch\": \"%s\", \"source\": "
        "\"test\"}}, \"node\": {\"count\": %d, \"devices\": 2, \"kinds\": [\"k\", \"slow\"], "
        "\"links\": [{\"join\": [[0, 1, \"card\"]], %s}]}, \"network\": {\"join\": \"card\", "
        "\"through\": \"switch\", %s}}",
        memory, gigabytes_per_second, launch, memory, 1 / slower, 1 / slower,
        gigabytes_per_second / slower, launch, nodes, links, links);
    cleave_machine machine;
    OK(cleave_machine_parse, text, strlen(text), "test", 0, arena, &machine);
    return machine;
}

/* Roofline 0.5 TFLOP/s and 50 GB/s, 1 us per launch; links of 10 GB/s and 1 us. */
static inline cleave_machine make_machine(cleave_arena *arena, int32_t nodes, int32_t devices,
                                          const char *memory) {
    return parse_machine(arena, nodes, devices, memory, "100 GB/s", "1 us",
                         "\"bandwidth\": \"10 GB/s\", \"latency\": \"1 us\"");
}

/* Nothing but arithmetic takes a time worth mentioning. */
static inline cleave_machine make_ideal_machine(cleave_arena *arena, int32_t nodes,
                                                int32_t devices) {
    return parse_machine(arena, nodes, devices, "1024 TiB", "1000000 TB/s", "0 us",
                         "\"bandwidth\": \"1000000 TB/s\", \"latency\": \"0 us\"");
}

#endif
