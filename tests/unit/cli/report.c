/* What the panels of a page are made of: traffic, timelines, and a sweep's points. */
#include "../../support/ok.h"
#include "cli/report/panels.h"
#include "graph/import/import.h"

#include "../../support/test_machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { NODES = 4, PER_NODE = 4, D = NODES * PER_NODE };

static cleave_arena arena;
static cleave_model model;
static cleave_machine machine;
static cleave_layout layout;

static void set_up(void) {
    bool applies = false;
    const cleave_import_request request = {
        .file = CLEAVE_SOURCE_DIR "/configs/models/mlp.onnx", .batch = 64, .with_loss = true};
    OK(cleave_model_import_as, &request, &arena, &model);
    machine = make_machine(&arena, NODES, PER_NODE, "1 GiB");
    OK(cleave_baseline_layout, &model, &machine, "data-parallel", 0, &arena, &layout, &applies);
    OK(cleave_choose_collectives, &machine, true, &arena, &layout.collectives);
}
static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(report, .init = set_up, .fini = tear_down);

/* The step as many devices are priced. */
static report_step fold(void) {
    const cleave_pricing of = {&model, &machine, &layout, .closed_form = true};
    report_step step = {
        .model = model, .machine = &machine, .layout = &layout, .of.priced.program.symbolic = true};
    OK(cleave_priced_program_make, &of, &arena, &step.of.priced);
    cr_assert_gt(step.of.priced.program.n_windows, 1);
    cr_assert_gt(step.of.priced.program.n_collectives, 0);
    cr_assert_eq(step.of.priced.program.n_messages, 0);
    return step;
}

/* The program refers to the step's own model, so the step stays where it is made. */
static void simulate(report_step *step) {
    const cleave_pricing of = {&model, &machine, &layout, .all_micro_batches = true};
    OK(report_step_make, &of, &arena, step);
    cr_assert_not(step->of.priced.is_folded);
}

/* Lowered whole, a collective is messages; of a window and a closed form nothing but its plan is
   left.  Closed forms take blocks as equal, so biases are off by some elements. */
Test(report, a_window_and_closed_forms_send_from_device_to_device_what_all_messages_do) {
    report_step whole, folded = fold();
    simulate(&whole);
    report_traffic a, b;
    OK(report_traffic_find, &whole, &arena, &a);
    OK(report_traffic_find, &folded, &arena, &b);
    cr_assert_eq(a.n_cells, D);
    cr_assert_eq(b.n_cells, D);
    cr_expect_float_eq(a.total_bytes, (double)whole.of.priced.bytes_sent, 0.5);
    for (int32_t i = 0; i < D * D; i++)
        cr_expect_leq(fabs(a.bytes[i] - b.bytes[i]), 0.001 * a.bytes[i] + 256,
                      "%d -> %d: %.0f bytes, not %.0f", i / D, i % D, b.bytes[i], a.bytes[i]);
    report_step_destroy(&whole);
    report_step_destroy(&folded);
}

/* As `explain` has it, which adds up what the links of messages were busy. */
Test(report, the_busiest_link_is_that_of_the_path) {
    report_step whole;
    simulate(&whole);
    report_traffic traffic;
    OK(report_traffic_find, &whole, &arena, &traffic);
    cr_expect_eq(traffic.links[0].link, whole.path.busiest_link);
    cr_expect_float_eq(traffic.links[0].busy_seconds, 1e-12 * (double)whole.path.link_busy, 1e-12);
    report_step_destroy(&whole);
}

static double number_of(const cleave_json_cursor *of, const char *key) {
    cleave_json_cursor at;
    double value;
    OK(cleave_json_get, of, key, &at);
    OK(cleave_json_number, &at, &value);
    return value;
}

/* Ticks of a lane in which something is drawn, and where its last span ends. */
static int64_t drawn(const cleave_json_cursor *lane, int64_t *end) {
    cleave_json_cursor spans;
    int64_t sum = 0, numbers[4];
    OK(cleave_json_get, lane, "spans", &spans);
    *end = 0;
    for (int32_t i = 0; i < cleave_json_count(&spans); i += 4) {
        for (int k = 0; k < 4; k++) {
            cleave_json_cursor at = cleave_json_element(&spans, i + k);
            OK(cleave_json_integer, &at, 0, INT32_MAX, &numbers[k]);
        }
        cr_expect_lt(numbers[2] & 7, EXPLAIN_N_SORTS);
        sum += numbers[1];
        *end += numbers[0] + numbers[1];
    }
    return sum;
}

/* Every device is shown or does as much as one that is; what is drawn of one is what its items
   take, but for a tick at the ends of each. */
Test(report, a_timeline_has_all_that_items_take) {
    report_step whole;
    simulate(&whole);
    report_rows rows;
    int64_t shortest = -1, latest = 0, of_all = 0;
    cleave_json_writer w = {0};
    cleave_json *document;
    OK(report_rows_choose, &whole, &rows);
    for (int32_t r = 0; r < rows.n; r++)
        of_all += rows.alike[r];
    cr_expect(rows.n == rows.n_sorts ? of_all == D : of_all < D);
    cleave_json_begin_object(&w, true);
    OK(report_spans_put, &w, "a", &whole, &rows, &shortest);
    cleave_json_end_object(&w);
    cr_expect_eq(shortest, 0);
    OK(cleave_json_parse, w.text, w.n, "spans", &document);
    cleave_json_cursor root = cleave_json_root(document), timeline, lanes;
    OK(cleave_json_get, &root, "a", &timeline);
    OK(cleave_json_get, &timeline, "lanes", &lanes);
    cr_assert_eq(cleave_json_count(&lanes), 2 * rows.n);
    double tick = number_of(&timeline, "tick_seconds");
    const cleave_timeline *items = &whole.of.simulated.timeline;
    for (int32_t l = 0; l < 2 * rows.n; l++) {
        cleave_json_cursor lane = cleave_json_element(&lanes, l);
        int64_t end, wanted = 0, n = 0, sum = drawn(&lane, &end);
        for (int32_t i = 0; i < whole.of.priced.program.n_items; i++) {
            const cleave_item *item = &whole.of.priced.program.items[i];
            if (item->device == rows.device[l / 2] && item->lane == l % 2) {
                wanted += items->end[i] - items->start[i];
                n += items->end[i] > items->start[i];
            }
        }
        cr_expect_float_eq(tick * (double)sum, 1e-12 * (double)wanted, tick * (double)(n + 1));
        latest = end > latest ? end : latest;
    }
    cr_expect_leq(tick * (double)latest, 1e-12 * (double)items->step + tick);
    cleave_json_free(document);
    cleave_json_writer_free(&w);
    report_step_destroy(&whole);
}

/* ---- a sweep of the memory limit ---- */

static cleave_status put_limits(const report_step *step, const char *text, cleave_markup *page,
                                cleave_error *error) {
    char path[] = "/tmp/cleave-sweep-XXXXXX";
    int descriptor = mkstemp(path);
    FILE *file = fdopen(descriptor, "w");
    fputs(text, file);
    fclose(file);
    const report of = {.step = step, .sweep = path, .arena = &arena};
    cleave_status status = report_put_limits(page, &of, error);
    remove(path);
    return status;
}

#define SWEEP(points)                                                                              \
    "{\"vary\": [{\"name\": \"memory-limit\", \"unit\": \"MiB\"}], \"points\": [" points "]}"

/* Of 16 devices; one point does not fit, one is not searched yet, one is on other devices. */
Test(report, a_sweep_gives_a_point_for_each_limit_that_fits) {
    report_step whole;
    simulate(&whole);
    cleave_markup page = {0};
    OK(put_limits, &whole,
       SWEEP("{\"at\": {\"memory-limit\": 8}, \"n_devices\": 16, \"why\": \"-\"},"
             "{\"at\": {\"memory-limit\": 16}, \"n_devices\": 16, \"step_seconds\": 2},"
             "{\"at\": {\"memory-limit\": 32}, \"n_devices\": 16, \"step_seconds\": 1},"
             "{\"at\": {\"memory-limit\": 32}, \"n_devices\": 8, \"step_seconds\": 4},"
             "{\"at\": {\"memory-limit\": 64}, \"n_devices\": 16, \"done\": false}"),
       &page);
    cr_expect_not_null(strstr(page.text, "memory limit 16.0 MiB, step 2.00 s"));
    cr_expect_not_null(strstr(page.text, "memory limit 32.0 MiB, step 1.00 s"));
    cr_expect_null(strstr(page.text, "step 4.00 s"));
    cleave_markup_free(&page);
    report_step_destroy(&whole);
}

Test(report, a_sweep_of_something_else_is_refused) {
    static const char *const others[][2] = {
        {"{\"vary\": [{\"name\": \"devices\", \"unit\": \"\"}], \"points\": []}",
         "does not vary memory-limit"},
        {SWEEP("{\"at\": {\"memory-limit\": 8}, \"n_devices\": 2, \"step_seconds\": 1}"),
         "no point of it is on 16 devices"},
        {SWEEP("{\"n_devices\": 16, \"step_seconds\": 1}"), "at"},
        {SWEEP("{\"at\": {\"memory-limit\": \"x\"}, \"n_devices\": 16, \"step_seconds\": 1}"),
         "memory-limit"},
        {"[]", "object"}};
    report_step whole;
    simulate(&whole);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        cleave_error error = {""};
        cleave_markup page = {0};
        cr_expect_eq(put_limits(&whole, others[i][0], &page, &error), CLEAVE_BAD_INPUT);
        cr_expect_not_null(strstr(error.message, others[i][1]), "%s", error.message);
        cr_expect_null(page.text);
    }
    report_step_destroy(&whole);
}
