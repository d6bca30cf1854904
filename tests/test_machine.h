/* A small machine for tests: nodes of 1, 2 or 4 devices on a card each, the cards on a switch.
   Roofline 0.5 TFLOP/s and 50 GB/s, 1 us per launch; links of 10 GB/s and 1 us. */
#ifndef CLEAVE_TESTS_TEST_MACHINE_H
#define CLEAVE_TESTS_TEST_MACHINE_H

#include "costmodel/machine.h"

#include <criterion/criterion.h>
#include <string.h>

static inline cleave_machine make_machine(cleave_arena *arena, int32_t nodes, int32_t devices,
                                          const char *memory) {
    const char *text = cleave_arena_printf(
        arena,
        "{\"cleave_machine\": 1, \"name\": \"test\", \"kinds\": {\"k\": {\"memory\": \"%s\", "
        "\"flops\": \"1 TFLOP/s\", \"memory_bandwidth\": \"100 GB/s\", \"efficiency\": "
        "{\"product\": 0.5, \"memory\": 0.5}, \"launch\": \"1 us\", \"source\": \"test\"}}, "
        "\"node\": {\"count\": %d, \"devices\": %d, \"kind\": \"k\", \"links\": [{\"join\": "
        "[[%s\"card\"]], \"bandwidth\": \"10 GB/s\", \"latency\": \"1 us\"}]}, \"network\": "
        "{\"join\": \"card\", \"through\": \"switch\", \"bandwidth\": \"10 GB/s\", \"latency\": "
        "\"1 us\"}}",
        memory, nodes, devices,
        devices == 1   ? "0, "
        : devices == 2 ? "0, 1, "
                       : "0, 1, 2, 3, ");
    cleave_machine machine;
    cleave_error error = {""};
    cr_assert_eq(cleave_machine_parse(text, strlen(text), "test", 0, arena, &machine, &error),
                 CLEAVE_OK, "%s", error.message);
    return machine;
}

#endif
