/* Figures of a machine file are found by their names, and changed there and nowhere else. */
#include "costmodel/machine_figures.h"
#include "../../support/ok.h"
#include "costmodel/machine.h"

#include <criterion/criterion.h>
#include <string.h>

static const char text[] =
    "{\"cleave_machine\": 1, \"name\": \"m\","
    " \"kinds\": {\"a.b\": {\"memory\": \"1 GiB\", \"flops\": \"1 TFLOP/s\","
    "   \"memory_bandwidth\": \"10 GB/s\", \"efficiency\": {\"product\": 0.5}},"
    "  \"timed\": {\"memory\": \"1 GiB\", \"flops\": \"1 TFLOP/s\", \"memory_bandwidth\": \"10 "
    "GB/s\","
    "   \"kernels\": [{\"key\": \"k\", \"family\": \"f\", \"flops\": 1, \"bytes\": 1,"
    "                \"workspace\": 0}]}},"
    " \"node\": {\"count\": 4, \"devices\": 2, \"kind\": \"a.b\", \"links\": ["
    "   {\"join\": [[0, 1]], \"through\": \"wide\", \"bandwidth\": \"8 GB/s\", \"latency\": \"1 "
    "us\"},"
    "   {\"join\": [[0, 1]], \"bandwidth\": \"1 GB/s\", \"latency\": \"2 us\"}]},"
    " \"network\": [{\"join\": 0, \"through\": \"leaf\", \"nodes\": 2, \"bandwidth\": \"1 GB/s\","
    "               \"latency\": \"1 us\"},"
    "              {\"through\": \"spine\", \"oversubscription\": 2, \"latency\": \"3 us\"}]}";

static cleave_json *document;
static cleave_arena arena;
static void set_up(void) { OK(cleave_json_parse, text, strlen(text), "m.json", &document); }
static void tear_down(void) {
    cleave_json_free(document);
    cleave_arena_free(&arena);
}
TestSuite(machine_figures, .init = set_up, .fini = tear_down);

static cleave_machine changed(const char *name, const char *value) {
    cleave_machine machine;
    bool is_quantity;
    OK(cleave_machine_figure_find, document, name, &is_quantity);
    OK(cleave_machine_figure_set, document, name, value);
    OK(cleave_machine_take, document, 0, &arena, &machine);
    return machine;
}

static void expect_no_figure(const char *name, const char *said) {
    cleave_error error = {""};
    bool is_quantity;
    cr_expect_eq(cleave_machine_figure_find(document, name, &is_quantity, &error), CLEAVE_BAD_INPUT,
                 "%s", name);
    cr_expect(strstr(error.message, said) != NULL, "no \"%s\" in: %s", said, error.message);
}

Test(machine_figures, figure_of_a_kind_is_changed_and_no_other) {
    cleave_machine machine = changed("kinds.a.b.flops", "3 TFLOP/s");
    cr_expect_eq(machine.kinds[0].flops_per_second, 3e12);
    cr_expect_eq(machine.kinds[1].flops_per_second, 1e12);
    machine = changed("kinds.a.b.efficiency.product", "0.25");
    cr_expect_eq(machine.kinds[0].efficiency[CLEAVE_EFFICIENCY_PRODUCT].share[0], 0.25);
}

Test(machine_figures, whole_numbers_stay_whole) {
    cleave_machine machine = changed("node.count", "3");
    cr_expect_eq(machine.n_devices, 6);
}

/* 100 Gbit/s are 12.5 GB/s. */
Test(machine_figures, elements_of_a_list_go_by_what_they_lead_through_or_by_number) {
    cleave_machine machine = changed("node.links.wide.bandwidth", "100 Gbit/s");
    cr_expect_eq(machine.node_types[0].link_classes[0].bytes_per_second, 12.5e9);
    cr_expect_eq(machine.node_types[0].link_classes[1].bytes_per_second, 1e9);
    machine = changed("node.links.1.bandwidth", "4 GB/s");
    cr_expect_eq(machine.node_types[0].link_classes[0].bytes_per_second, 12.5e9);
    cr_expect_eq(machine.node_types[0].link_classes[1].bytes_per_second, 4e9);
}

Test(machine_figures, name_that_says_no_element_is_of_all_that_have_the_figure) {
    cleave_machine machine = changed("network.latency", "7 us");
    cr_expect_float_eq(machine.network.levels[0].links.latency_seconds, 7e-6, 1e-15);
    cr_expect_float_eq(machine.network.levels[1].links.latency_seconds, 7e-6, 1e-15);
    machine = changed("network.bandwidth", "2 GB/s"); /* the second level has none of its own */
    cr_expect_eq(machine.network.levels[0].links.bytes_per_second, 2e9);
    machine = changed("network.spine.oversubscription", "4");
    cr_expect_eq(machine.network.levels[1].oversubscription, 4);
}

Test(machine_figures, what_the_file_has_not_is_refused_with_what_it_has) {
    expect_no_figure("network.bandwith", "network.bandwidth");
    expect_no_figure("kinds.a.b", "kinds.a.b.memory");
    expect_no_figure("", "node.count");
    expect_no_figure("name", "node.count");
    expect_no_figure("cleave_machine", "node.count");
    expect_no_figure("kinds.a.b.flops.", "kinds.a.b.flops");
}

/* A measured time stays what it was, whatever the data sheet says. */
Test(machine_figures, rates_of_a_calibrated_kind_are_refused_but_its_memory_is_not) {
    expect_no_figure("kinds.timed.flops", "calibrated");
    cleave_machine machine = changed("kinds.timed.memory", "2 GiB");
    cr_expect_eq(machine.kinds[1].memory_bytes, INT64_C(2) << 30);
}
