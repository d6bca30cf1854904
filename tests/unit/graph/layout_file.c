/* The layout file: what is written reads back to the same bytes, and every error names its place.
 */
#include "../../support/drawn_schedule.h"
#include "../../support/ok.h"
#include "../../support/perceptron.h"
#include "base/file.h"
#include "graph/model/layout.h"
#include "graph/model/precision.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static cleave_operator operators[] = {
    {.name = "/features/conv.1", .n_axes = 2, .axes = {{"n", 8, false}, {"r", 3, true}}},
    {.name = "dense", .n_axes = 2, .axes = {{"n", 8, false}, {"k", 4, false}}}};
static cleave_tensor tensors[] = {{.name = "x", .kind = CLEAVE_TENSOR_DATA},
                                  {.name = "dense.weight", .kind = CLEAVE_TENSOR_PARAMETER}};
static const cleave_model model = {.file = "models/hand.onnx",
                                   .hash = "abc",
                                   .batch = 8,
                                   .graph_version = 1,
                                   .n_operators = 2,
                                   .operators = operators,
                                   .n_tensors = 2,
                                   .tensors = tensors};

static cleave_arena arena;
static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(layout_file, .fini = tear_down);

#define MODEL "\"model\": {\"file\": \"hand.onnx\", \"hash\": \"abc\", \"batch\": 8, \"graph\": 1}"
#define CONV "\"/features/conv.1\": {\"split\": {\"n\": 2}, \"devices\": [1, 0]}"
#define DENSE "\"dense\": {\"split\": {}, \"devices\": [0]}"
#define REST "\"devices\": 2, \"operators\": {}"
#define HEAD "{\"cleave_layout\": 1, " MODEL ", \"devices\": 2"
#define OPERATORS(...) HEAD ", \"operators\": {" __VA_ARGS__ "}}"

static cleave_status parse(const char *text, cleave_layout *layout, cleave_error *error) {
    return cleave_layout_parse(text, strlen(text), "p.json", &model, &arena, layout, error);
}

static void expect_refused(const char *text, const char *message) {
    cleave_layout layout;
    cleave_error error = {""};
    cr_expect_eq(parse(text, &layout, &error), CLEAVE_BAD_INPUT, "%s", text);
    cr_expect_str_eq(error.message, message);
}

Test(layout_file, a_small_file_reads) {
    cleave_layout layout;
    OK(parse, OPERATORS(CONV ", " DENSE), &layout);
    cr_expect_eq(layout.splits[0].degree[0], 2);
    cr_expect_eq(layout.splits[0].degree[1], 1);
    cr_expect_eq(layout.splits[0].replicas, 1);
    cr_expect_eq(layout.splits[0].devices[0], 1);
    cr_expect_eq(layout.splits[0].devices[1], 0);
    cr_expect_eq(layout.splits[1].n_parts, 1);
    cr_expect_eq(layout.predicted_step_seconds, 0);
}

/* A file of some operators: the same checks, the others unsplit on device 0. */
Test(layout_file, some_operators_read) {
    static const struct {
        const char *text;
        bool conv, dense;
    } cases[] = {{OPERATORS(CONV), true, false},
                 {OPERATORS(DENSE), false, true},
                 {OPERATORS(DENSE ", " CONV), true, true},
                 {OPERATORS(""), false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cleave_layout layout;
        cleave_layout_listed listed;
        OK(cleave_layout_parse_some, cases[i].text, strlen(cases[i].text), "p.json", &model, &arena,
           &layout, &listed);
        cr_expect_eq(listed.operators[0], cases[i].conv);
        cr_expect_eq(listed.operators[1], cases[i].dense);
        cr_expect_not(listed.updates[1]);
        cr_expect_eq(layout.splits[0].n_parts, cases[i].conv ? 2 : 1);
        cr_expect_eq(layout.splits[0].devices[0], cases[i].conv ? 1 : 0);
    }
}

Test(layout_file, some_operators_are_checked_like_all) {
    static const char *const cases[][2] = {
        {OPERATORS(CONV ", " CONV), "p.json: line 1"},
        {OPERATORS("\"stranger\": {\"split\": {}, \"devices\": [0]}"), "no operator \"stranger\""},
        {OPERATORS("\"dense\": {\"split\": {\"k\": 5}, \"devices\": [0]}"), "above the axis"},
        {HEAD "}", "operators"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cleave_layout layout = {.n_operators = 77};
        cleave_layout_listed listed;
        cleave_error error = {""};
        cr_expect_eq(cleave_layout_parse_some(cases[i][0], strlen(cases[i][0]), "p.json", &model,
                                              &arena, &layout, &listed, &error),
                     CLEAVE_BAD_INPUT);
        cr_expect_not_null(strstr(error.message, cases[i][1]), "%s", error.message);
        cr_expect_eq(layout.n_operators, 77);
    }
}

#define COLLECTIVES(text)                                                                          \
    HEAD ", \"operators\": {" CONV ", " DENSE "}, \"collectives\": {" text "}}"

static void expect_algorithm(const cleave_layout *layout, cleave_collective_kind kind, int32_t n,
                             const int32_t *devices, int64_t bytes,
                             cleave_collective_algorithm algorithm, int32_t node_members) {
    int32_t members;
    cr_expect_eq(
        cleave_collective_rules_choose(&layout->collectives, kind, n, devices, bytes, &members),
        algorithm);
    cr_expect_eq(members, node_members);
}

/* The first rule that fits counts; two levels need as many devices in every node. */
Test(layout_file, rules_choose_the_algorithm_of_a_collective) {
    cleave_layout layout;
    OK(parse,
       COLLECTIVES("\"node\": 4, \"all-gather\": \"ring\", \"all-reduce\": ["
                   "{\"devices\": 4, \"nodes\": 1, \"algorithm\": \"ring\"}, "
                   "{\"up_to\": \"64 KiB\", \"algorithm\": \"tree\"}, "
                   "{\"nodes\": 2, \"algorithm\": \"two-level\"}]"),
       &layout);
    const int32_t node[] = {4, 5, 6, 7}, two[] = {0, 1, 2, 5, 6, 7}, uneven[] = {0, 1, 4, 5, 6},
                  apart[] = {0, 4, 8, 12};
    expect_algorithm(&layout, CLEAVE_ALL_REDUCE, 4, node, 100, CLEAVE_ALGORITHM_RING, 1);
    expect_algorithm(&layout, CLEAVE_ALL_REDUCE, 6, two, 65536, CLEAVE_ALGORITHM_TREE, 1);
    expect_algorithm(&layout, CLEAVE_ALL_REDUCE, 6, two, 65537, CLEAVE_ALGORITHM_TWO_LEVEL, 3);
    expect_algorithm(&layout, CLEAVE_ALL_REDUCE, 5, uneven, 65537, CLEAVE_ALGORITHM_RING, 1);
    expect_algorithm(&layout, CLEAVE_ALL_REDUCE, 4, apart, 65537, CLEAVE_ALGORITHM_HALVING_DOUBLING,
                     1);
    expect_algorithm(&layout, CLEAVE_ALL_GATHER, 4, node, 100, CLEAVE_ALGORITHM_RING, 1);
    expect_algorithm(&layout, CLEAVE_REDUCE_SCATTER, 4, node, 100,
                     CLEAVE_ALGORITHM_HALVING_DOUBLING, 1);
}

Test(layout_file, optional_keys_read) {
    cleave_layout layout;
    OK(parse,
       HEAD ", \"machine\": \"m\", \"method\": \"mcmc\", \"predicted_step_seconds\": 0.1, "
            "\"operators\": {\"/features/conv.1\": {\"split\": {}, \"replicas\": 2, "
            "\"devices\": [0, 1]}, " DENSE "}, \"parameters\": {\"dense.weight\": "
            "{\"update\": \"sharded\"}}, \"collectives\": {\"all-reduce\": \"ring\"}}",
       &layout);
    cr_expect_str_eq(layout.machine, "m");
    cr_expect_str_eq(layout.method, "mcmc");
    cr_expect_eq(layout.predicted_step_seconds, 0.1);
    cr_expect_eq(layout.splits[0].replicas, 2);
    cr_expect(layout.sharded[1]);
    cr_assert_eq(layout.collectives.n, 1);
    cr_expect_eq(layout.collectives.items[0].algorithm, CLEAVE_ALGORITHM_RING);
}

Test(layout_file, a_gradient_is_sharded_with_its_update_and_a_weight_with_both) {
    static const char *const texts[] = {
        "{\"update\": \"replicated\"}", "{\"update\": \"sharded\"}",
        "{\"update\": \"sharded\", \"gradient\": \"sharded\", \"weight\": \"replicated\"}",
        "{\"update\": \"sharded\", \"gradient\": \"sharded\", \"weight\": \"sharded\"}"};
    for (int sharded = 0; sharded < CLEAVE_N_SHARDED; sharded++) {
        cleave_layout layout, again;
        char text[1024];
        snprintf(text, sizeof text, "%s, \"operators\": {%s, %s}, \"parameters\": {%s: %s}}", HEAD,
                 CONV, DENSE, "\"dense.weight\"", texts[sharded]);
        OK(parse, text, &layout);
        cr_expect_eq(layout.sharded[1], sharded);
        cr_expect_eq(cleave_layout_is_plain(&layout), sharded <= CLEAVE_SHARDED_UPDATE);
        OK(cleave_layout_copy, &layout, &model, &arena, &again);
        cr_expect_eq(again.sharded[1], sharded);
        cr_expect_eq(cleave_layout_is_plain(&again), sharded <= CLEAVE_SHARDED_UPDATE);
    }
}

Test(layout_file, each_error_names_file_place_and_value) {
    static const char *const cases[][2] = {
        {"{}", "p.json: $: the key \"cleave_layout\" is missing"},
        {"[]", "p.json: $: an object is expected here, not a list"},
        {"{\"cleave_layout\": 2}",
         "p.json: $.cleave_layout: version 2 of layout files is not known, only 1"},
        {"{\"cleave_layout\": 1, " REST ", \"modell\": {}}",
         "p.json: $.modell: the key \"modell\" is not known here"},
        {"{\"cleave_layout\": 1, " REST
         ", \"model\": {\"file\": \"other.onnx\", \"hash\": \"fff\", "
         "\"batch\": 8, \"graph\": 1}}",
         "p.json: $.model.hash: was made for another model: other.onnx with hash fff, but "
         "hand.onnx "
         "has hash abc"},
        {"{\"cleave_layout\": 1, " REST ", \"model\": {\"file\": \"hand.onnx\", \"hash\": \"abc\", "
         "\"batch\": 16, \"graph\": 1}}",
         "p.json: $.model.batch: was made for batch 16, but the batch is 8"},
        {"{\"cleave_layout\": 1, " REST ", \"model\": {\"file\": \"hand.onnx\", \"hash\": \"abc\", "
         "\"batch\": 8, \"graph\": 9}}",
         "p.json: $.model.graph: was made with version 9 of the operators' fusing, but this is "
         "version 1"},
        {"{\"cleave_layout\": 1, " MODEL ", \"devices\": 0, \"operators\": {}}",
         "p.json: $.devices: 0 is not in the range 1 to 65536"},
        {OPERATORS(CONV), "p.json: $.operators: operator \"dense\" of hand.onnx is missing"},
        {OPERATORS(CONV ", " DENSE ", \"pool\": {}"),
         "p.json: $.operators.pool: hand.onnx has no operator \"pool\""},
        {OPERATORS("\"dense\": {\"split\": {\"c\": 2}, \"devices\": [0, 1]}"),
         "p.json: $.operators.dense.split.c: operator \"dense\" has no axis \"c\""},
        {OPERATORS("\"dense\": {\"split\": {\"k\": 0}, \"devices\": [0]}"),
         "p.json: $.operators.dense.split.k: 0 is not in the range 1 to 2147483647"},
        {OPERATORS("\"dense\": {\"split\": {\"k\": 5}, \"devices\": [0, 1]}"),
         "p.json: $.operators.dense.split.k: degree 5 is above the axis's extent 4"},
        {OPERATORS("\"dense\": {\"split\": {\"k\": 2}, \"devices\": [0]}"),
         "p.json: $.operators.dense: operator \"dense\": 2 parts by its replicas and degrees, but "
         "it has 1 devices"},
        {OPERATORS("\"dense\": {\"split\": {\"k\": 2}, \"devices\": [0, 2]}"),
         "p.json: $.operators.dense.devices[1]: 2 is not in the range 0 to 1"},
        {OPERATORS("\"dense\": {\"split\": {\"k\": 2}, \"devices\": [1, 1]}"),
         "p.json: $.operators.dense: operator \"dense\": device 1 has two parts"},
        {OPERATORS("\"dense\": {\"split\": {}, \"replicas\": 0, \"devices\": []}"),
         "p.json: $.operators.dense.replicas: 0 is not in the range 1 to 2147483647"},
        {OPERATORS("\"dense\": {\"split\": {\"n\": 1.5}, \"devices\": [0]}"),
         "p.json: $.operators.dense.split.n: an integer is expected here, not 1.5"},
        {OPERATORS("\"/features/conv.1\": {\"split\": {\"r\": 2}, \"devices\": [0, 1]}"),
         "p.json: $.operators[\"/features/conv.1\"]: operator \"/features/conv.1\": axis r can't "
         "be "
         "split, but its degree is 2"},
        {HEAD ", \"operators\": {}, \"predicted_step_seconds\": -1}",
         "p.json: $.predicted_step_seconds: -1 seconds are below 0"},
        {HEAD ", \"operators\": {" CONV ", " DENSE "}, \"parameters\": {\"x\": {\"update\": "
              "\"sharded\"}}}",
         "p.json: $.parameters.x: hand.onnx has no parameter \"x\""},
        {HEAD ", \"operators\": {" CONV ", " DENSE "}, \"parameters\": {\"dense.weight\": "
              "{\"update\": \"half\"}}}",
         "p.json: $.parameters[\"dense.weight\"].update: \"half\" is none of: replicated, sharded"},
        {HEAD ", \"operators\": {" CONV ", " DENSE "}, \"parameters\": {\"dense.weight\": "
              "{\"update\": \"replicated\", \"gradient\": \"sharded\"}}}",
         "p.json: $.parameters[\"dense.weight\"].gradient: can't be sharded where the update is "
         "not"},
        {HEAD ", \"operators\": {" CONV ", " DENSE "}, \"parameters\": {\"dense.weight\": "
              "{\"update\": \"sharded\", \"weight\": \"sharded\"}}}",
         "p.json: $.parameters[\"dense.weight\"].weight: can't be sharded where the gradient is "
         "not"},
        {HEAD ", \"operators\": {" CONV ", " DENSE
              "}, \"collectives\": {\"all-reduce\": \"best\"}}",
         "p.json: $.collectives.all-reduce: \"best\" is none of: default, ring, halving-doubling, "
         "tree, two-level, direct"},
        {COLLECTIVES("\"all-gather\": \"direct\""),
         "p.json: $.collectives.all-gather: \"direct\" is said of \"all-reduce\", for all"},
        {COLLECTIVES("\"all-reduce\": [{\"up_to\": \"0 B\", \"algorithm\": \"ring\"}]"),
         "p.json: $.collectives.all-reduce[0].up_to: 0 bytes are not in range"},
        {COLLECTIVES("\"all-reduce\": [{\"up_to\": \"1 KiB\"}]"),
         "p.json: $.collectives.all-reduce[0]: the key \"algorithm\" is missing"},
        {COLLECTIVES("\"node\": 0"),
         "p.json: $.collectives.node: 0 is not in the range 1 to 2147483647"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refused(cases[i][0], cases[i][1]);
}

Test(layout_file, an_operator_listed_twice_is_refused) {
    cleave_layout layout;
    cleave_error error = {""};
    cr_expect_eq(parse(OPERATORS(DENSE ", " DENSE), &layout, &error), CLEAVE_BAD_INPUT);
    cr_expect_not_null(strstr(error.message, "duplicate"), "%s", error.message);
    cr_expect_not_null(strstr(error.message, "dense"), "%s", error.message);
}

/* "stored" is kept and written; "fused" is what a file means that says nothing. */
Test(layout_file, what_attention_stores_is_kept) {
    cleave_layout layout;
    cleave_error error = {""};
    cr_assert_eq(parse(OPERATORS(CONV ", " DENSE), &layout, &error), CLEAVE_OK);
    cr_expect_not(layout.stores_scores);
    OK(parse, HEAD ", \"attention\": \"fused\", \"operators\": {" CONV ", " DENSE "}}", &layout);
    cr_expect_not(layout.stores_scores);
    OK(parse, HEAD ", \"attention\": \"stored\", \"operators\": {" CONV ", " DENSE "}}", &layout);
    cr_expect(layout.stores_scores);
    expect_refused(HEAD ", \"attention\": \"flash\", \"operators\": {" CONV ", " DENSE "}}",
                   "p.json: $.attention: attention is \"fused\" or \"stored\", not \"flash\"");
}

/* ---- schedules ------------------------------------------------------------------------------- */

/* Perceptrons of two layers: dense0 relu0 dense1 relu1 @loss, 8 samples. */
#define P_MODEL                                                                                    \
    "\"model\": {\"file\": \"perceptron\", \"hash\": \"abc\", \"batch\": 8, \"graph\": 1}"
#define P_ON(name, devices) "\"" name "\": {\"split\": {}, \"devices\": [" devices "]}"
#define STAGED(schedule, second)                                                                   \
    "{\"cleave_layout\": 1, " P_MODEL ", \"devices\": 2, \"schedule\": {" schedule                 \
    "}, \"operators\": {" P_ON("dense0", "0") ", " P_ON("relu0", "0") ", " P_ON(                   \
        "dense1", second) ", " P_ON("relu1", second) ", " P_ON("@loss", second) "}}"
#define STAGES "\"stages\": [\"dense1\"]"

static cleave_model small_perceptron(int layers, int64_t batch) {
    cleave_model perceptron = make_perceptron(&arena, layers, batch, 4);
    snprintf(perceptron.hash, sizeof perceptron.hash, "abc");
    return perceptron;
}

static cleave_status parse_staged(const char *text, cleave_layout *layout, cleave_error *error) {
    const cleave_model perceptron = small_perceptron(2, 8);
    return cleave_layout_parse(text, strlen(text), "p.json", &perceptron, &arena, layout, error);
}

Test(layout_file, schedules_read) {
    cleave_layout layout;
    OK(parse_staged, STAGED("", "0"), &layout);
    cr_expect(cleave_schedule_is_plain(&layout.schedule));
    OK(parse_staged, STAGED("\"micro_batches\": 4", "1"), &layout);
    cr_expect_eq(layout.schedule.micro_batches, 4);
    cr_expect_eq(layout.schedule.kind, CLEAVE_SCHEDULE_1F1B);
    OK(parse_staged,
       STAGED("\"micro_batches\": 8, \"kind\": \"zb-h1\", " STAGES
              ", \"in_flight\": [3, 2], \"sooner\": 1",
              "1"),
       &layout);
    cr_expect_eq(layout.schedule.kind, CLEAVE_SCHEDULE_ZB_H1);
    cr_assert_eq(layout.schedule.n_stages, 2);
    cr_expect_eq(layout.schedule.first_operator[0], 0);
    cr_expect_eq(layout.schedule.first_operator[1], 2);
    cr_expect_eq(layout.schedule.in_flight[0], 3);
    cr_expect_eq(layout.schedule.in_flight[1], 2);
    OK(parse_staged,
       STAGED(STAGES ", \"orders\": [[\"F0.0\", \"B0.0\"], [\"F1.0\", "
                     "\"B1.0\"]]",
              "1"),
       &layout);
    cr_expect_eq(layout.schedule.kind, CLEAVE_SCHEDULE_ORDERS);
    cr_assert_eq(layout.schedule.n_orders, 2);
    cr_expect_eq(layout.schedule.n_blocks[1], 2);
    cr_expect_eq(layout.schedule.orders[1][1].kind, CLEAVE_BLOCK_BACKWARD);
    cr_expect_eq(layout.schedule.orders[1][1].stage, 1);
}

Test(layout_file, each_error_of_a_schedule_names_file_place_and_value) {
    static const char *const cases[][2] = {
        {STAGED("\"micro_batch\": 2", "1"),
         "p.json: $.schedule.micro_batch: the key \"micro_batch\" is not known here"},
        {STAGED("\"micro_batches\": 0", "1"),
         "p.json: $.schedule.micro_batches: 0 is not in the range 1 to 2147483647"},
        {STAGED("\"kind\": \"orders\"", "1"),
         "p.json: $.schedule.kind: \"orders\" is none of: 1f1b, gpipe, interleaved, zb-h1, "
         "zb-interleaved"},
        {STAGED("\"stages\": [\"dense2\"]", "1"),
         "p.json: $.schedule.stages[0]: the model has no operator \"dense2\""},
        {STAGED("\"stages\": [\"dense0\"]", "1"),
         "p.json: $.schedule.stages[0]: operator \"dense0\" leaves stage 0 without operators"},
        {STAGED("\"stages\": [\"dense1\", \"dense1\"]", "1"),
         "p.json: $.schedule.stages[1]: operator \"dense1\" leaves stage 1 without operators"},
        {STAGED("\"stages\": [\"a\", \"b\", \"c\", \"d\", \"e\"]", "1"),
         "p.json: $.schedule.stages: 6 stages, but the model has 5 operators"},
        {STAGED(STAGES ", \"in_flight\": [2]", "1"),
         "p.json: $.schedule.in_flight: 1 numbers for 2 stages"},
        {STAGED(STAGES ", \"in_flight\": [2, 0]", "1"),
         "p.json: $.schedule.in_flight[1]: 0 is not in the range 1 to 2147483647"},
        {STAGED(STAGES ", \"kind\": \"gpipe\", \"in_flight\": [2, 1]", "1"),
         "p.json: $: schedule: in_flight is not for gpipe"},
        {STAGED(STAGES ", \"sooner\": 1", "1"), "p.json: $: schedule: sooner is not for 1f1b"},
        {STAGED("\"micro_batches\": 4, " STAGES ", \"in_flight\": [1, 3]", "1"),
         "p.json: $: schedule: the orders of the groups wait for each other"},
        {STAGED("\"kind\": \"gpipe\", \"orders\": []", "1"),
         "p.json: $.schedule.orders: orders stand alone, without kind, in_flight, sooner"},
        {STAGED("\"orders\": []", "1"), "p.json: $.schedule.orders: 0 orders for 1 stages"},
        {STAGED("\"micro_batches\": 65, \"orders\": [[]]", "1"),
         "p.json: $.schedule.orders: orders are for at most 64 micro-batches"},
        {STAGED("\"orders\": [[\"F0.0\", \"B0.0\", \"W0.0\", \"F0.0\"]]", "0"),
         "p.json: $.schedule.orders[0]: 4 blocks, at most there are 3"},
        {STAGED("\"orders\": [[\"F0.0\"]]", "0"),
         "p.json: $: schedule: the orders have 0 of 1 micro-batches of stage 0"},
        {STAGED(STAGES, "0"), "p.json: $: schedule: 2 stages on 1 groups of devices; two stages of "
                              "one group want the kind interleaved"},
        {STAGED("\"micro_batches\": 3", "1"),
         "p.json: $: a batch of 8 can't be cut into 3 equal micro-batches"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cleave_layout layout;
        cleave_error error = {""};
        cr_expect_eq(parse_staged(cases[i][0], &layout, &error), CLEAVE_BAD_INPUT, "%s",
                     cases[i][0]);
        cr_expect_str_eq(error.message, cases[i][1]);
    }
}

Test(layout_file, what_is_no_block_is_refused) {
    static const char *const texts[] = {"",
                                        "F",
                                        "F0",
                                        "F0.",
                                        ".0",
                                        "X0.0",
                                        "f0.0",
                                        "F-1.0",
                                        "F0.-1",
                                        "F0.0 ",
                                        "F 0.0",
                                        "F0. 0",
                                        "F+0.0",
                                        "F0.+0",
                                        "F0.0.0",
                                        "F0x0",
                                        "F0000000000000000.0"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        cleave_layout layout;
        cleave_error error = {""};
        char *text =
            cleave_arena_printf(&arena, STAGED("\"orders\": [[\"%s\", \"B0.0\"]]", "0"), texts[i]);
        cr_expect_eq(parse_staged(text, &layout, &error), CLEAVE_BAD_INPUT, "\"%s\" is read",
                     texts[i]);
        cr_expect_not_null(strstr(error.message, "p.json: $.schedule.orders[0][0]: "), "%s",
                           error.message);
        cr_expect_not_null(
            strstr(error.message, "is no block, such as F0.3: F, B or W, stage, micro-batch"), "%s",
            error.message);
    }
}

/* A tensor of the second stage that the first one reads. */
Test(layout_file, stages_that_go_backward_or_share_some_devices_are_refused) {
    cleave_layout layout;
    cleave_error error = {""};
    const char *text = "{\"cleave_layout\": 1, " P_MODEL ", \"devices\": 2, \"schedule\": {" STAGES
                       "}, \"operators\": {\"dense0\": {\"split\": {\"n\": 2}, \"devices\": [0, "
                       "1]}, " P_ON("relu0", "0") ", " P_ON("dense1", "1") ", " P_ON(
                           "relu1", "1") ", " P_ON("@loss", "1") "}}";
    cr_expect_eq(parse_staged(text, &layout, &error), CLEAVE_BAD_INPUT);
    cr_expect_str_eq(
        error.message,
        "p.json: $: schedule: stages 0 and 1 have some devices in common, and not all");
}

static char *read_file(const char *path, size_t *bytes) {
    char *data = NULL;
    OK(cleave_file_read, path, &arena, &data, bytes);
    return data;
}

/* Random layouts with a random predicted time: write, read, write again, compare. */
Test(layout_file, what_was_written_reads_back_to_the_same_bytes) {
    char first[64], second[64];
    snprintf(first, sizeof first, "/tmp/cleave_layout_a_%ld.json", (long)getpid());
    snprintf(second, sizeof second, "/tmp/cleave_layout_b_%ld.json", (long)getpid());
    cleave_random random = {.key = 1};
    for (uint64_t seed = 0; seed < 50; seed++) {
        cleave_layout layout, again;
        cleave_layout_random(&model, 7, seed, &arena, &layout, NULL);
        layout.predicted_step_seconds = cleave_random_next_uniform(&random);
        OK(cleave_layout_write, first, &model, &layout);
        OK(cleave_layout_read, first, &model, &arena, &again);
        cr_expect_eq(again.predicted_step_seconds, layout.predicted_step_seconds);
        cr_expect_eq(again.splits[1].n_parts, layout.splits[1].n_parts);
        OK(cleave_layout_write, second, &model, &again);
        size_t bytes_a, bytes_b;
        char *a = read_file(first, &bytes_a), *b = read_file(second, &bytes_b);
        cr_assert_eq(bytes_a, bytes_b);
        cr_assert_arr_eq(a, b, bytes_a);
    }
    unlink(first);
    unlink(second);
}

/* The same with schedules by chance, which is all that the file has to say of them. */
Test(layout_file, schedules_read_back_to_the_same_bytes) {
    char first[64], second[64];
    snprintf(first, sizeof first, "/tmp/cleave_layout_d_%ld.json", (long)getpid());
    snprintf(second, sizeof second, "/tmp/cleave_layout_e_%ld.json", (long)getpid());
    const cleave_model perceptron = small_perceptron(3, 12);
    int n_kinds[CLEAVE_N_SCHEDULES] = {0};
    for (uint64_t seed = 0; seed < 100; seed++) {
        cleave_layout layout, again;
        OK(cleave_layout_random, &perceptron, 5, seed, &arena, &layout);
        if (!draw_schedule(&perceptron, seed, 12, &arena, &layout))
            continue;
        n_kinds[layout.schedule.kind]++;
        OK(cleave_layout_write, first, &perceptron, &layout);
        OK(cleave_layout_read, first, &perceptron, &arena, &again);
        cr_assert_eq(again.schedule.kind, layout.schedule.kind);
        cr_assert_eq(again.schedule.micro_batches, layout.schedule.micro_batches);
        cr_assert_eq(again.schedule.n_stages, layout.schedule.n_stages);
        for (int32_t s = 0; s < layout.schedule.n_stages && layout.schedule.n_stages > 1; s++)
            cr_assert_eq(again.schedule.first_operator[s], layout.schedule.first_operator[s]);
        OK(cleave_layout_write, second, &perceptron, &again);
        size_t bytes_a, bytes_b;
        char *a = read_file(first, &bytes_a), *b = read_file(second, &bytes_b);
        cr_assert_eq(bytes_a, bytes_b);
        cr_assert_arr_eq(a, b, bytes_a);
    }
    for (int kind = 0; kind < CLEAVE_SCHEDULE_ORDERS; kind++)
        cr_expect_gt(n_kinds[kind], 0, "no %s was drawn", cleave_schedule_names[kind]);
    unlink(first);
    unlink(second);
}

static void expect_written(const char *text, const char *line) {
    char path[64];
    size_t bytes;
    cleave_layout layout;
    const cleave_model perceptron = small_perceptron(2, 8);
    snprintf(path, sizeof path, "/tmp/cleave_layout_f_%ld.json", (long)getpid());
    OK(parse_staged, text, &layout);
    OK(cleave_layout_write, path, &perceptron, &layout);
    const char *written = read_file(path, &bytes);
    if (line != NULL)
        cr_expect_not_null(strstr(written, line), "%s", written);
    else
        cr_expect_null(strstr(written, "schedule"), "%s", written);
    unlink(path);
}

Test(layout_file, a_schedule_is_written_where_there_is_one) {
    expect_written(STAGED("\"kind\": \"gpipe\"", "1"), NULL);
    expect_written(STAGED("\"micro_batches\": 8, " STAGES ", \"in_flight\": [3, 2]", "1"),
                   "\n  \"schedule\": {\"micro_batches\": 8, \"kind\": \"1f1b\", \"stages\": "
                   "[\"dense1\"], \"in_flight\": [3, 2]},\n");
    expect_written(STAGED("\"kind\": \"zb-h1\", " STAGES ", \"sooner\": 1", "1"),
                   "\n  \"schedule\": {\"micro_batches\": 1, \"kind\": \"zb-h1\", \"stages\": "
                   "[\"dense1\"], \"sooner\": 1},\n");
    expect_written(STAGED(STAGES ", \"orders\": [[\"F0.0\", \"B0.0\", \"W0.0\"], [\"F1.0\", "
                                 "\"B1.0\", \"W1.0\"]]",
                          "1"),
                   "\n      [\"F0.0\", \"B0.0\", \"W0.0\"],\n      [\"F1.0\", \"B1.0\", "
                   "\"W1.0\"]\n");
}

Test(layout_file, one_operator_is_one_line) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/cleave_layout_c_%ld.json", (long)getpid());
    cleave_layout layout;
    size_t bytes;
    cr_assert_eq(parse(OPERATORS(CONV ", " DENSE), &layout, NULL), CLEAVE_OK);
    OK(cleave_layout_write, path, &model, &layout);
    const char *text = read_file(path, &bytes);
    cr_expect_not_null(
        strstr(text, "\n    \"/features/conv.1\": {\"split\": {\"n\": 2}, \"devices\": [1, 0]},\n"),
        "%s", text);
    cr_expect_not_null(strstr(text, "\n    \"dense\": {\"split\": {}, \"devices\": [0]}\n"), "%s",
                       text);
    unlink(path);
}

Test(layout_file, an_illegal_layout_is_not_written) {
    cleave_layout layout;
    OK(cleave_layout_create, &model, 2, &arena, &layout);
    layout.splits[0].devices[0] = 5;
    cr_expect_eq(cleave_layout_write("/tmp/cleave_layout_never.json", &model, &layout, NULL),
                 CLEAVE_BAD_INPUT);
    cr_expect_neq(access("/tmp/cleave_layout_never.json", F_OK), 0);
}

/* Also those that have prices, but no kernels. */
Test(layout_file, every_precision_that_is_written_is_read) {
    for (cleave_type type = 0; type < CLEAVE_N_TYPES; type++) {
        cleave_model of = model;
        cleave_layout layout, again;
        char path[64];
        if (!cleave_precision_is_known(cleave_precision_name(type)))
            continue;
        of.precision = type;
        of.reduce_precision = type == CLEAVE_F8 ? CLEAVE_BF16 : type;
        snprintf(path, sizeof path, "/tmp/cleave_layout_precision_%d.json", (int)getpid());
        OK(cleave_layout_create, &of, 2, &arena, &layout);
        OK(cleave_layout_write, path, &of, &layout);
        OK(cleave_layout_read, path, &of, &arena, &again);
        unlink(path);
    }
}
