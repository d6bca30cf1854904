/* Points of a sweep, what each begins with, its file, and the knees of its curves. */
#include "../../support/ok.h"
#include "cli/sweep/knee.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const option_row rows[] = {SEARCH_ROWS};
static const option_table options = COMMAND_OPTIONS(rows);
static cleave_arena arena;
static search_request request;
static sweep of;

static void set_up(void) {
    request =
        (search_request){.common.model = "m.onnx",
                         .common.machine = CLEAVE_SOURCE_DIR "/configs/machines/p100-4x4.json",
                         .common.batch = 64};
    of = (sweep){.plan.request = &request, .model_hash = "f00d"};
}
static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(sweep, .init = set_up, .fini = tear_down);

static cleave_status plan(int n, const char *const *varied, cleave_error *error) {
    option_texts texts = {.n = n};
    for (int i = 0; i < n; i++)
        texts.items[i] = varied[i];
    CLEAVE_TRY(sweep_plan_create(&options, &texts, &arena, &of.plan, error));
    of.records = CLEAVE_ARENA_ARRAY(&arena, sweep_record, of.plan.n_points);
    return CLEAVE_OK;
}
#define PLAN(...)                                                                                  \
    do {                                                                                           \
        static const char *const texts[] = {__VA_ARGS__};                                          \
        cleave_error error = {""};                                                                 \
        cr_assert_eq(plan((int)(sizeof texts / sizeof *texts), texts, &error), CLEAVE_OK, "%s",    \
                     error.message);                                                               \
    } while (0)

static void refuse(const char *first, const char *second, const char *said) {
    const char *const texts[] = {first, second};
    cleave_error error = {""};
    set_up();
    cr_expect_eq(plan(second != NULL ? 2 : 1, texts, &error), CLEAVE_BAD_INPUT, "%s", first);
    cr_expect(strstr(error.message, said) != NULL, "no \"%s\" in: %s", said, error.message);
}

Test(sweep, points_are_all_combinations_the_last_axis_the_quickest) {
    PLAN("devices=2,4", "network.bandwidth=1,2,3GB/s");
    static const char *const names[] = {"0-devices-2-network.bandwidth-1GBs.layout.json",
                                        "1-devices-2-network.bandwidth-2GBs.layout.json",
                                        "2-devices-2-network.bandwidth-3GBs.layout.json",
                                        "3-devices-4-network.bandwidth-1GBs.layout.json"};
    cr_assert_eq(of.plan.n_points, 6);
    for (int p = 0; p < 4; p++)
        cr_expect_str_eq(of.plan.points[p].name, names[p]);
    char text[128];
    sweep_plan_describe(&of.plan, &of.plan.points[4], -1, text, sizeof text);
    cr_expect_str_eq(text, "devices=4, network.bandwidth=2 GB/s");
    sweep_plan_describe(&of.plan, &of.plan.points[4], 1, text, sizeof text);
    cr_expect_str_eq(text, "devices=4");
}

Test(sweep, each_point_has_the_machine_of_its_figures_and_its_own_request) {
    PLAN("network.bandwidth=1,2GB/s", "memory-limit=1,4GiB", "node.count=2,4");
    cr_assert_eq(of.plan.n_machines, 4);
    const sweep_point *point = &of.plan.points[4 + 2 + 1]; /* 2 GB/s, 4 GiB, 4 nodes */
    const sweep_machine *machine = &of.plan.machines[point->machine];
    cr_expect_eq(machine->machine->network.levels[0].links.bytes_per_second, 2e9);
    cr_expect_eq(machine->n_devices, 16);
    cr_expect_eq(point->n_devices, 16);
    cr_expect_str_eq(machine->name, "network.bandwidth-2GBs-node.count-4.machine.json");
    search_request asked;
    cr_assert_eq(sweep_plan_request(&of.plan, point, &asked, NULL), CLEAVE_OK);
    cr_expect_eq(asked.memory_limit, 4 * 0x1p30);
    cr_expect_eq(asked.common.batch, 64);
}

/* Layouts carry over along the bandwidth, in either direction, and not along the devices. */
Test(sweep, points_of_the_second_wave_are_offered_what_all_their_neighbours_of_the_first_found) {
    PLAN("devices=2,4", "network.bandwidth=1,2,3,4GB/s");
    static const int32_t waves[] = {0, 1, 0, 1, 0, 1, 0, 1};
    int32_t neighbours[SWEEP_MOST_NEIGHBOURS];
    for (int32_t p = 0; p < 8; p++) {
        int32_t n = sweep_plan_neighbours(&of.plan, p, neighbours);
        cr_expect_eq(of.plan.points[p].wave, waves[p]);
        cr_expect_eq(n, waves[p] == 0 ? 0 : p % 4 == 3 ? 1 : 2);
        for (int32_t i = 0; i < n; i++) {
            cr_expect_eq(of.plan.points[neighbours[i]].wave, 0);
            cr_expect_eq(of.plan.points[neighbours[i]].at[0], of.plan.points[p].at[0]);
        }
    }
    sweep_plan_neighbours(&of.plan, 5, neighbours);
    cr_expect_eq(neighbours[0], 4);
    cr_expect_eq(neighbours[1], 6);
}

/* 4 and 8 devices, all of the machine, as its nodes are 1 and 2: no layout is for both. */
Test(sweep, machines_of_other_devices_are_no_neighbours) {
    PLAN("node.count=1,2");
    int32_t neighbours[SWEEP_MOST_NEIGHBOURS];
    cr_expect_eq(sweep_plan_neighbours(&of.plan, 1, neighbours), 0);
    request.common.devices = 4;
    PLAN("node.count=1,2");
    cr_expect_eq(sweep_plan_neighbours(&of.plan, 1, neighbours), 1);
}

Test(sweep, what_can_not_be_swept_is_refused) {
    refuse("devices=1,17", NULL, "17 are more than the 16");
    refuse("devices=1", "devices=2", "given twice");
    refuse("zero=1", "network.bandwidth=1", "no unit");
    refuse("batch=0", NULL, "--batch: 0 is not in the range");
    refuse("devices=1..4+1", "batch=1..2000+1", "1024 values");
    refuse("batch=1..100+1", "sequence=1..100+1", "4096 are the most");
}

/* ---- what came of the points ----------------------------------------------------------------- */

static void found(int32_t p, double step_seconds) {
    of.records[p] = (sweep_record){.is_done = true,
                                   .method = "auto",
                                   .batch = 64,
                                   .micro_batches = 2,
                                   .stages = 1,
                                   .step_seconds = step_seconds,
                                   .links = 0.25,
                                   .peak_bytes = 1 << 20,
                                   .bytes_sent = -1};
}

/* 64 samples in half a second are 128 a second; 11,059,200 of them take a day; 4 devices at 2.5 an
   hour cost 240. */
Test(sweep, days_and_cost_follow_from_the_step) {
    PLAN("devices=4");
    found(0, 0.5);
    of.question.price_per_device_hour = 2.5;
    cr_expect_float_eq(sweep_throughput(&of, 0), 128, 1e-9);
    cr_expect_float_eq(sweep_days(&of, 0, 11059200), 1, 1e-12);
    cr_expect_float_eq(sweep_cost(&of, 0, 11059200), 240, 1e-9);
}

static char *written(void) {
    cleave_json_writer w = {0};
    sweep_put(&of, &w);
    cr_assert_not(w.failed);
    char *text = cleave_arena_string(&arena, w.text);
    cleave_json_writer_free(&w);
    return text;
}

static cleave_status read_back(const char *text, cleave_error *error) {
    memset(of.records, 0, (size_t)of.plan.n_points * sizeof *of.records);
    return sweep_parse(text, strlen(text), "s.json", &arena, &of, error);
}

Test(sweep, file_that_is_read_is_written_the_same) {
    PLAN("devices=2,4,8", "optimizer=sgd,adam");
    found(0, 0.5);
    found(3, 0.123456789012345);
    of.records[4] = (sweep_record){.is_done = true, .why = "nothing fits, \"not\" even this"};
    const char *first = written();
    OK(read_back, first);
    cr_expect_eq(of.records[3].step_seconds, 0.123456789012345);
    cr_expect_eq(of.records[0].bytes_sent, -1);
    cr_expect_not(of.records[1].is_done);
    cr_expect_str_eq(of.records[4].why, "nothing fits, \"not\" even this");
    cr_expect_str_eq(written(), first);
}

static void refuse_changed(const char *from, const char *to, const char *said) {
    char text[8192], *at;
    cleave_error error = {""};
    found(0, 0.5);
    snprintf(text, sizeof text, "%s", written());
    at = strstr(text, from);
    cr_assert(at != NULL && strlen(to) == strlen(from), "%s", from);
    memcpy(at, to, strlen(to));
    cr_expect_eq(read_back(text, &error), CLEAVE_BAD_INPUT, "%s", to);
    cr_expect(strstr(error.message, said) != NULL, "no \"%s\" in: %s", said, error.message);
}

Test(sweep, file_of_another_sweep_is_refused_with_the_place) {
    PLAN("devices=2,4");
    refuse_changed("f00d", "beef", "s.json: $.model_hash: is of another sweep");
    refuse_changed("[\"2\", \"4\"]", "[\"2\", \"5\"]", "$.vary: is of another sweep");
    refuse_changed("\"cleave_sweep\": 1", "\"cleave_sweep\": 2", "$.cleave_sweep");
    refuse_changed("\"step_seconds\": 0.5", "\"step_seconds\": 0.0", "a step takes");
    refuse_changed("\"peak_bytes\": 1", "\"peak_bytes\":-1", "$.points[0].peak_bytes");
    refuse_changed("\"done\": true", "\"done\": 1234", "$.points[0].done");
}

/* Throughputs 100 150 200 220 of 1 2 4 8 devices: T^2 / x is 10000 11250 10000 6050.  From 2 to 4
   there are ln(200/150) / ln(2) = 0.415 of the share. */
Test(sweep, knee_is_where_more_brings_less_than_half_of_its_share) {
    PLAN("devices=1,2,4,8");
    static const double rates[] = {100, 150, 200, 220};
    for (int32_t p = 0; p < 4; p++)
        found(p, 64 / rates[p]);
    sweep_knee knee = {.axis = -1};
    cr_assert(sweep_knee_next(&of, &knee));
    cr_expect_eq(knee.knee, 1);
    cr_expect_eq(knee.next, 2);
    cr_expect_float_eq(knee.gain, 0.41503749927884376, 1e-12);
    cr_expect_not(sweep_knee_next(&of, &knee));
    /* All of the share each time: there is none. */
    for (int32_t p = 0; p < 4; p++)
        found(p, 0.1 / (1 << p));
    cr_assert(sweep_knee_find(&of, 0, 0, &knee));
    cr_expect_eq(knee.next, -1);
    char text[256];
    sweep_knee_describe(&of, &knee, text, sizeof text);
    cr_expect_str_eq(text, "devices: no knee up to 8.");
}

/* What does not fit is not on the curve, and there is one curve for each of the others' values. */
Test(sweep, knees_are_of_each_curve_without_what_does_not_fit) {
    PLAN("optimizer=sgd,adam", "devices=1,2,4");
    found(0, 1);
    found(1, 1);
    found(2, 1);
    of.records[3] = (sweep_record){.is_done = true, .why = "too large"};
    found(4, 1);
    found(5, 0.6);
    sweep_knee knee = {.axis = -1};
    cr_assert(sweep_knee_next(&of, &knee));
    cr_expect_eq(knee.knee, 0);
    cr_expect_eq(knee.next, 1);
    cr_assert(sweep_knee_next(&of, &knee));
    cr_expect_eq(knee.knee, 5); /* (64 / 0.6)^2 / 4 > 64^2 / 2 */
    cr_expect_not(sweep_knee_next(&of, &knee));
}
