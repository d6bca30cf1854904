/* Integers beyond +-2^24, which f32 rounds: they are refused where they come in, as data and as
   constants of integer arithmetic. */
#include "../../support/ok.h"
#include "exec/data/id_range.h"
#include "exec/data/safetensors.h"
#include "exec/data/values.h"
#include "exec/run.h"
#include "imported.h"

#include <unistd.h>

enum { FLOAT = 1, INT64 = 7 };
static const int64_t most = INT64_C(1) << 24;

TestSuite(integers, .fini = tear_down);

/* ---- constants ------------------------------------------------------------------------------- */

/* y = x op c, or c op x, where c has two elements or is a scalar of the last one. */
static bytes with_constant(const char *type, int x_type, bool constant_first, bool scalar,
                           int64_t c) {
    bytes graph = {.n = 0};
    value_info(&graph, 11, "x", x_type, "3 2");
    initializer(&graph, "c", scalar ? 0 : 1, (int64_t[]){2}, INT64, scalar ? &c : (int64_t[]){1, c},
                scalar ? 8 : 16);
    graph_output(&graph, "y");
    node(&graph, type, "op", constant_first ? "c x" : "x c", "y", NULL);
    return graph;
}

static void expect_imported(const bytes *graph) {
    import(graph, 13, 0, false);
    tear_down();
}

Test(integers, arithmetic_with_constants_beyond_f32_is_refused) {
    static const char *const types[] = {"Add", "Sub", "Mul", "Div", "Mod", "Pow"};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int way = 0; way < 4; way++)
            for (int sign = -1; sign <= 1; sign += 2) {
                char message[160];
                int64_t beyond = sign * (most + 1);
                snprintf(message, sizeof message,
                         "node op (%s): computes integers with %lld (in c)", types[t],
                         (long long)beyond);
                bytes graph = with_constant(types[t], INT64, way & 1, way & 2, beyond);
                expect_refused(&graph, 13, 0, message);
                graph = with_constant(types[t], INT64, way & 1, way & 2, sign * most);
                expect_imported(&graph);
            }
}

Test(integers, sums_of_many_are_arithmetic_too) {
    bytes graph = {.n = 0};
    value_info(&graph, 11, "x", INT64, "2");
    integers(&graph, "c", 2, (int64_t[]){INT64_MIN, 0});
    graph_output(&graph, "y");
    node(&graph, "Sum", "op", "x x c", "y", NULL);
    expect_refused(&graph, 13, 0, "node op (Sum): computes integers with -9223372036854775808");
}

Test(integers, limits_and_comparisons_may_be_of_any_size) {
    static const char *const types[] = {"Min", "Max", "Less", "Equal", "GreaterOrEqual"};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        bytes graph = with_constant(types[t], INT64, false, false, INT64_MAX);
        expect_imported(&graph);
    }
}

Test(integers, powers_of_floats_are_no_integers) {
    bytes graph = with_constant("Pow", FLOAT, false, false, most + 1);
    expect_imported(&graph);
}

Test(integers, indices_beyond_f32_are_refused) {
    static const char *const types[] = {"ArgMax", "ArgMin", "Hardmax"};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int64_t extent = most; extent <= most + 1; extent++) {
            bytes graph = {.n = 0}, attributes = {.n = 0};
            char shape[32];
            snprintf(shape, sizeof shape, "2 %lld", (long long)extent);
            graph_input(&graph, "x", shape);
            graph_output(&graph, "y");
            attribute_integer(&attributes, "axis", 1);
            node(&graph, types[t], "op", "x", "y", &attributes);
            if (extent == most)
                expect_imported(&graph);
            else
                expect_refused(&graph, 13, 0, "): its rows have 16777217 elements");
        }
}

/* (2^40 + 1) - 2^40 = 1, which f32 would not give; then y = x + 1. */
Test(integers, constants_alone_are_computed_in_64_bits) {
    bytes graph = {.n = 0};
    int64_t large = INT64_C(1) << 40, larger = large + 1;
    value_info(&graph, 11, "x", INT64, "2");
    initializer(&graph, "large", 0, NULL, INT64, &large, 8);
    initializer(&graph, "larger", 0, NULL, INT64, &larger, 8);
    graph_output(&graph, "y");
    node(&graph, "Sub", "less", "larger large", "one", NULL);
    node(&graph, "Add", "op", "x one", "y", NULL);
    import(&graph, 13, 0, false);
    expect_values("y", 2, (double[]){2, 3});
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Elements 0, 2, 4 ... are ids of a table of 7, the others are none. */
Test(integers, ids_go_by_their_tables_and_the_rest_by_f32) {
    const int64_t above[2] = {7, INT64_MAX};
    const cleave_id_range plain = {.n = 2, .above = above},
                          from_end = {.n = 2, .above = above, .from_end = true};
    const struct {
        const cleave_id_range *range;
        int64_t also, first, value;
        const char *message; /* null: it is allowed */
    } rows[] = {
        {&plain, 0, 0, 6, NULL},
        {&plain, 0, 0, 7, "f: element 0 of x is 7, not in 0..6"},
        {&plain, 0, 4, -1, "f: element 4 of x is -1, not in 0..6"},
        {&plain, -100, 4, -100, NULL},
        {&from_end, 0, 2, -7, NULL},
        {&from_end, 0, 2, -8, "f: element 2 of x is -8, not in -7..6"},
        {&plain, 0, 3, most, NULL},
        {&from_end, 0, 3, -most, NULL},
        {&from_end, 0, 3, most + 1,
         "f: element 3 of x is 16777217, not in -16777216..16777216, where f32 holds every "
         "integer"},
        {&plain, 0, 5, INT64_MIN,
         "f: element 5 of x is -9223372036854775808, not in -16777216..16777216, where f32 holds "
         "every integer"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cleave_error error = {""};
        cleave_status status = cleave_id_range_check(rows[i].range, rows[i].also, "f", "x",
                                                     rows[i].first, 1, &rows[i].value, &error);
        cr_expect_eq(status, rows[i].message == NULL ? CLEAVE_OK : CLEAVE_BAD_INPUT, "row %zu", i);
        cr_expect_str_eq(error.message, rows[i].message == NULL ? "" : rows[i].message);
    }
}

static cleave_status open_with(const char *path, const int64_t values[4], cleave_error *error) {
    cleave_safetensors_entry entry = {.name = "x", .type = CLEAVE_I64, .rank = 1, .shape = {4}};
    cleave_safetensors_writer writer;
    cr_assert_eq(cleave_file_writer_open(&writer.file, path, error), CLEAVE_OK);
    cr_assert_eq(cleave_safetensors_writer_begin(&writer, 1, &entry, error), CLEAVE_OK);
    cr_assert_eq(cleave_safetensors_write(&writer, &entry, 0, 4, values, error), CLEAVE_OK);
    cr_assert_eq(cleave_file_writer_commit(&writer.file, error), CLEAVE_OK);
    cleave_run_options options = {.steps = 1, .forward = true, .data = path};
    cleave_values *opened = NULL;
    cleave_status status = cleave_values_open(&model, &options, NULL, &opened, error);
    cleave_values_close(opened);
    return status;
}

/* Two batches of two. */
Test(integers, data_beyond_f32_are_refused_with_file_tensor_element_and_value) {
    bytes graph = {.n = 0};
    value_info(&graph, 11, "x", INT64, "2");
    graph_output(&graph, "y");
    node(&graph, "Neg", "op", "x", "y", NULL);
    import(&graph, 13, 0, false);
    char path[] = "/tmp/cleave_integers_XXXXXX", expected[200];
    int descriptor = mkstemp(path);
    cr_assert(descriptor >= 0);
    close(descriptor);
    cleave_error error = {""};
    OK(open_with, path, (int64_t[]){most, -most, 0, most});
    cr_expect_eq(open_with(path, (int64_t[]){0, 0, 0, -most - 1}, &error), CLEAVE_BAD_INPUT);
    snprintf(expected, sizeof expected, "%s: element 3 of x is -16777217, not in", path);
    cr_expect(strncmp(error.message, expected, strlen(expected)) == 0, "%s", error.message);
    unlink(path);
}
