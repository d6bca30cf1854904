/* Measured against predicted on timelines made by hand, and the shares of a step by what its prices
   rest on. */
#include "simulator/report/timeline_errors.h"
#include "../../support/ok.h"

#include "simulator/report/critical_path.h"
#include "simulator/report/item_label.h"
#include "simulator/report/price_shares.h"
#include "simulator/report/trace.h"

#include "base/json.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const int64_t us = 1000000; /* picoseconds */
static cleave_arena arena;
static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(timeline_errors, .fini = tear_down);

/* Device 0: compute A (10 us), send (1 us), wait until sent.  Device 1: receive (1 us), wait,
   compute B (20 us), update (4 us).  The message takes 50 us; a copy of 3 us runs in device 0's
   communication lane from the start.

   Predicted:  device 0  copy 0-3 (communication), A 0-13 (slowed by the copy), send 13-14;
               device 1  receive 0-1, wait 1-64 (posted at 14, arrives at 64), B 64-84,
               update 84-88.  Step 88. */
enum { COPY, A, SEND, RECEIVE, RELEASE, ARRIVAL, B, UPDATE, N_ITEMS };

static cleave_tensor tensors[] = {{.name = "w"}, {.name = "x"}};
static cleave_nest nests[] = {{.name = "a"}, {.name = "b"}};
static const cleave_model model = {
    .n_tensors = 2, .tensors = tensors, .n_nests = 2, .nests = nests};
static cleave_slot slots[] = {{.nest = 0, .tensor = -1, .pass = CLEAVE_PASS_FORWARD},
                              {.nest = 1, .tensor = -1, .pass = CLEAVE_PASS_WEIGHT_GRADIENT},
                              {.nest = -1, .tensor = 0, .pass = CLEAVE_PASS_UPDATE}};
static cleave_item items[N_ITEMS] = {
    [COPY] = {CLEAVE_ITEM_COPY, CLEAVE_LANE_COMMUNICATION, 0, 0, 0, 0},
    [A] = {CLEAVE_ITEM_COMPUTE, CLEAVE_LANE_MAIN, 0, 0, 0, 0},
    [SEND] = {CLEAVE_ITEM_SEND, CLEAVE_LANE_MAIN, 0, 0, 0, 0},
    [RECEIVE] = {CLEAVE_ITEM_RECEIVE, CLEAVE_LANE_MAIN, 0, 1, 0, 0},
    [RELEASE] = {CLEAVE_ITEM_WAIT, CLEAVE_LANE_MAIN, 0, 0, 0, 0},
    [ARRIVAL] = {CLEAVE_ITEM_WAIT, CLEAVE_LANE_MAIN, 0, 1, 1, 0},
    [B] = {CLEAVE_ITEM_COMPUTE, CLEAVE_LANE_MAIN, 0, 1, 1, 1},
    [UPDATE] = {CLEAVE_ITEM_UPDATE, CLEAVE_LANE_MAIN, 0, 1, 2, 0},
};
static cleave_compute computes[] = {{.nest = 0, .pass = CLEAVE_PASS_FORWARD},
                                    {.nest = 1, .pass = CLEAVE_PASS_WEIGHT_GRADIENT}};
static cleave_update updates[] = {{.tensor = 0}};
static cleave_copy copies[] = {{.bytes = 4096}};
static cleave_message messages[] = {{.source = 0,
                                     .destination = 1,
                                     .bytes = 1000,
                                     .tensor = 1,
                                     .send_item = SEND,
                                     .receive_item = RECEIVE}};
static const cleave_program program = {.model = &model,
                                       .n_devices = 2,
                                       .n_items = N_ITEMS,
                                       .items = items,
                                       .n_slots = 3,
                                       .slots = slots,
                                       .n_computes = 2,
                                       .computes = computes,
                                       .n_updates = 1,
                                       .updates = updates,
                                       .n_copies = 1,
                                       .copies = copies,
                                       .n_messages = 1,
                                       .messages = messages};
static const int64_t price_us[N_ITEMS] = {
    [COPY] = 3, [A] = 10, [SEND] = 1, [RECEIVE] = 1, [B] = 20, [UPDATE] = 4};
/* A: measured kernel 0, off by a tenth; B: the fit, source 1, off by a half; copy and update: the
   fits 2 and 3, off by a third and a quarter. */
static const cleave_price_basis basis[N_ITEMS] = {
    [COPY] = {CLEAVE_PROVENANCE_PREDICTED, 2, 1.0 / 3},
    [A] = {CLEAVE_PROVENANCE_MEASURED, 0, 0.1},
    [SEND] = {CLEAVE_PROVENANCE_MEASURED, -1, 0},
    [RECEIVE] = {CLEAVE_PROVENANCE_MEASURED, -1, 0},
    [RELEASE] = {CLEAVE_PROVENANCE_MEASURED, -1, 0},
    [ARRIVAL] = {CLEAVE_PROVENANCE_MEASURED, -1, 0},
    [B] = {CLEAVE_PROVENANCE_PREDICTED, 1, 0.5},
    [UPDATE] = {CLEAVE_PROVENANCE_PREDICTED, 3, 0.25}};

static int64_t *scaled(const int64_t *values, int n) {
    int64_t *made = CLEAVE_ARENA_ARRAY(&arena, int64_t, n);
    for (int i = 0; i < n; i++)
        made[i] = values[i] < 0 ? -1 : values[i] * us;
    return made;
}

static cleave_timeline timeline_of(const int64_t start_us[], const int64_t end_us[],
                                   int64_t step_us) {
    return (cleave_timeline){
        .start = scaled(start_us, N_ITEMS), .end = scaled(end_us, N_ITEMS), .step = step_us * us};
}

/* The engine's own timeline; the walk-through above says what it is for a link of 50 us. */
static cleave_timeline predict_over(int64_t link_us, cleave_engine_problem *problem,
                                    cleave_engine_workspace **workspace) {
    static uint8_t kind[N_ITEMS] = {CLEAVE_PRICED_WORK,         CLEAVE_PRICED_WORK,
                                    CLEAVE_PRICED_POST,         CLEAVE_PRICED_POST,
                                    CLEAVE_PRICED_WAIT_RELEASE, CLEAVE_PRICED_WAIT_ARRIVAL,
                                    CLEAVE_PRICED_WORK,         CLEAVE_PRICED_WORK};
    static int32_t queue[N_ITEMS] = {1, 0, 0, 2, 0, 2, 2, 2};
    static int32_t subject[N_ITEMS] = {-1, -1, 0, 0, 0, 0, -1, -1};
    static int32_t hop_start[] = {0, 1}, hop_link[] = {0};
    static int64_t serialization[1], latency[1];
    serialization[0] = link_us * us;
    *problem = (cleave_engine_problem){.step = {.n_items = N_ITEMS,
                                                .n_messages = 1,
                                                .kind = kind,
                                                .queue = queue,
                                                .subject = subject,
                                                .duration = scaled(price_us, N_ITEMS),
                                                .hop_start = hop_start,
                                                .hop_link = hop_link,
                                                .hop_serialization = serialization,
                                                .collective_link_start = hop_start},
                                       .n_queues = 4,
                                       .n_links = 1,
                                       .link_latency = latency};
    cleave_timeline timeline;
    OK(cleave_engine_finish, problem, &arena);
    OK(cleave_engine_workspace_create, problem, &arena, workspace);
    OK(cleave_engine_timeline_create, problem, &arena, &timeline);
    OK(cleave_engine_run_events, problem, *workspace, &timeline);
    cr_assert_eq(timeline.step, (38 + link_us) * us);
    cr_assert_eq(timeline.end[A], 13 * us);
    cr_assert_eq(timeline.arrival[0], (14 + link_us) * us);
    return timeline;
}

static cleave_timeline predict(cleave_engine_problem *problem,
                               cleave_engine_workspace **workspace) {
    return predict_over(50, problem, workspace);
}

/* Measured: A takes 40 (+30), the copy 2 (-1), B 19 (-1), the update 14 (+10); the message is
   posted at 45 and seen at 155: 110 instead of 50 (+60).  Step 190. */
static cleave_timeline measured_timeline(void) {
    static const int64_t start[N_ITEMS] = {
        [COPY] = 0,     [A] = 3,       [SEND] = 43, [RECEIVE] = 0,
        [RELEASE] = 45, [ARRIVAL] = 1, [B] = 155,   [UPDATE] = 175};
    static const int64_t end[N_ITEMS] = {
        [COPY] = 2,     [A] = 43,        [SEND] = 45, [RECEIVE] = 1,
        [RELEASE] = 46, [ARRIVAL] = 155, [B] = 174,   [UPDATE] = 189};
    return timeline_of(start, end, 190);
}

static void expect_error(const cleave_item_error *e, int32_t item, bool is_message,
                         int64_t predicted_us, int64_t measured_us) {
    cr_expect_eq(e->item, item, "item %d instead of %d", e->item, item);
    cr_expect_eq(e->is_message, is_message);
    cr_expect_eq(e->predicted, predicted_us * us);
    cr_expect_eq(e->measured, measured_us * us);
}

Test(timeline_errors, largest_errors_come_first_and_a_slowed_item_counts_by_its_work) {
    cleave_engine_problem problem;
    cleave_engine_workspace *workspace;
    cleave_timeline predicted = predict(&problem, &workspace), measured = measured_timeline();
    const cleave_timeline_pair pair = {
        &program, problem.step.duration, basis, &predicted, &measured, NULL};
    cleave_timeline_errors errors;
    cleave_timeline_compare(&pair, &errors);
    cr_assert_eq(errors.n_largest, 5);
    expect_error(&errors.largest[0], ARRIVAL, true, 50, 110);
    expect_error(&errors.largest[1], A, false, 10, 40); /* not 13, its span */
    expect_error(&errors.largest[2], UPDATE, false, 4, 14);
    expect_error(&errors.largest[3], COPY, false, 3, 2); /* a tie: the earlier item first */
    expect_error(&errors.largest[4], B, false, 20, 19);
    cr_expect_eq(errors.n_messages_compared, 1);
}

/* Work adds up by kind, and the rest of both devices' steps is waiting: 2 x 88 - 39, 2 x 190 - 78.
 */
Test(timeline_errors, kinds_add_up_to_the_step_of_all_devices) {
    cleave_engine_problem problem;
    cleave_engine_workspace *workspace;
    cleave_timeline predicted = predict(&problem, &workspace), measured = measured_timeline();
    const cleave_timeline_pair pair = {
        &program, problem.step.duration, basis, &predicted, &measured, NULL};
    cleave_timeline_errors errors;
    cleave_timeline_compare(&pair, &errors);
    static const cleave_time_total expected_us[CLEAVE_N_TIME_ROWS] = {
        [CLEAVE_TIME_COMPUTE_MEASURED] = {1, 10, 40},
        [CLEAVE_TIME_COMPUTE_PREDICTED] = {1, 20, 19},
        [CLEAVE_TIME_UPDATE] = {1, 4, 14},
        [CLEAVE_TIME_COPY] = {1, 3, 2},
        [CLEAVE_TIME_POST] = {2, 2, 3},
        [CLEAVE_TIME_WAITING] = {0, 2 * 88 - 39, 2 * 190 - 78}};
    for (int row = 0; row < CLEAVE_N_TIME_ROWS; row++) {
        cr_expect_eq(errors.totals[row].n, expected_us[row].n, "%s", cleave_time_row_names[row]);
        cr_expect_eq(errors.totals[row].predicted, expected_us[row].predicted * us, "%s",
                     cleave_time_row_names[row]);
        cr_expect_eq(errors.totals[row].measured, expected_us[row].measured * us, "%s",
                     cleave_time_row_names[row]);
    }
}

Test(timeline_errors, typical_durations_replace_those_of_the_step) {
    cleave_engine_problem problem;
    cleave_engine_workspace *workspace;
    cleave_timeline predicted = predict(&problem, &workspace), measured = measured_timeline();
    static const int64_t typical_us[N_ITEMS] = {
        [COPY] = 3, [A] = 11, [SEND] = 1, [RECEIVE] = 1, [B] = 20, [UPDATE] = 4};
    const cleave_timeline_pair pair = {&program,  problem.step.duration,      basis, &predicted,
                                       &measured, scaled(typical_us, N_ITEMS)};
    cleave_timeline_errors errors;
    cleave_timeline_compare(&pair, &errors);
    expect_error(&errors.largest[0], ARRIVAL, true, 50, 110);
    expect_error(&errors.largest[1], A, false, 10, 11);
    cr_expect_eq(errors.largest[2].predicted, errors.largest[2].measured);
}

/* The receiver comes to its wait at 155, when the message has been there for who knows how long. */
Test(timeline_errors, a_message_that_nobody_waited_for_and_unknown_times_are_left_out) {
    cleave_engine_problem problem;
    cleave_engine_workspace *workspace;
    cleave_timeline predicted = predict(&problem, &workspace), measured = measured_timeline();
    measured.start[ARRIVAL] = 154 * us;
    measured.start[A] = measured.end[A] = -1;
    const cleave_timeline_pair pair = {
        &program, problem.step.duration, basis, &predicted, &measured, NULL};
    cleave_timeline_errors errors;
    cleave_timeline_compare(&pair, &errors);
    cr_assert_eq(errors.n_largest, 3);
    cr_expect_eq(errors.n_messages_compared, 0);
    expect_error(&errors.largest[0], UPDATE, false, 4, 14);
}

/* Thirty copies, the k-th wrong by 7 k mod 30: the ten largest are 29, 28 .. 20. */
Test(timeline_errors, ten_are_kept_of_many) {
    enum { N = 30 };
    cleave_item many[N];
    cleave_price_basis of[N] = {{0}};
    int64_t price[N], start[N], end[N];
    for (int i = 0; i < N; i++) {
        many[i] = items[COPY];
        price[i] = 100;
        start[i] = 0;
        end[i] = 100 + (i % 2 == 0 ? 1 : -1) * (7 * i % N);
    }
    const cleave_program copying = {.model = &model, .n_devices = 1, .n_items = N, .items = many};
    cleave_timeline predicted = {.step = 1}, measured = {.start = start, .end = end, .step = 1};
    const cleave_timeline_pair pair = {&copying, price, of, &predicted, &measured, NULL};
    cleave_timeline_errors errors;
    cleave_timeline_compare(&pair, &errors);
    cr_assert_eq(errors.n_largest, CLEAVE_N_LARGEST_ERRORS);
    for (int k = 0; k < CLEAVE_N_LARGEST_ERRORS; k++)
        cr_expect_eq(llabs(errors.largest[k].measured - errors.largest[k].predicted), 29 - k);
}

static cleave_turned all_items(const cleave_engine_problem *problem) {
    cleave_turned turned;
    OK(cleave_turned_make, problem->step.n_items, NULL, &arena, &turned);
    return turned;
}

/* Back from the end: update 4, B 20, the message 50 (64 - 14), send 1, A 10 and the copy's 3. */
Test(timeline_errors, the_critical_path_adds_up_to_the_step) {
    static const cleave_critical_segment expected_us[] = {{UPDATE, 4}, {B, 20}, {ARRIVAL, 50},
                                                          {SEND, 1},   {A, 10}, {COPY, 3}};
    cleave_engine_problem problem;
    cleave_engine_workspace *workspace;
    cleave_timeline predicted = predict(&problem, &workspace);
    const cleave_turned turned = all_items(&problem);
    cleave_critical_path path;
    OK(cleave_critical_path_find, &problem, &turned, &predicted, &arena, &path);
    cr_assert_eq(path.n, 6);
    for (int32_t i = 0; i < path.n; i++) {
        cr_expect_eq(path.segments[i].item, expected_us[i].item);
        cr_expect_eq(path.segments[i].picoseconds, expected_us[i].picoseconds * us);
    }
}

/* Of 88 us: measured 10 of a kernel and 51 of the link; predicted 3 + 20 + 4.  Errors of the
   sources: 1, 10, 1, 1 us, independent. */
Test(timeline_errors, shares_follow_the_critical_path) {
    cleave_engine_problem problem;
    cleave_engine_workspace *workspace;
    cleave_timeline predicted = predict_over(5, &problem, &workspace);
    const cleave_turned turned = all_items(&problem);
    cleave_price_shares shares;
    OK(cleave_price_shares_find, &program, &problem, &turned, &predicted, basis, 4, &shares);
    cr_expect_float_eq(shares.share[CLEAVE_PROVENANCE_MEASURED], 16.0 / 43, 1e-12);
    cr_expect_float_eq(shares.share[CLEAVE_PROVENANCE_PREDICTED], 27.0 / 43, 1e-12);
    cr_expect_eq(shares.share[CLEAVE_PROVENANCE_DATA_SHEET], 0);
    cr_expect_float_eq(shares.links, 6.0 / 43, 1e-12);
    cr_expect_float_eq(shares.part[CLEAVE_PART_PRODUCTS], 30.0 / 43, 1e-12); /* A and B */
    cr_expect_float_eq(shares.part[CLEAVE_PART_UPDATES], 4.0 / 43, 1e-12);
    cr_expect_float_eq(shares.part[CLEAVE_PART_COPIES], 3.0 / 43, 1e-12);
    cr_expect_float_eq(shares.part[CLEAVE_PART_MESSAGES], 6.0 / 43, 1e-12);
    cr_expect_float_eq(shares.predicted_spread, 12.0 / 27, 1e-12);
    cr_expect_float_eq(shares.step_spread_seconds, 1e-6 * sqrt(103), 1e-15);
}

/* With B from the fit that the update rests on as well, both are wrong together: 20 x 0.25 + 1 = 6.
   With B from the kernel of A each varies by itself: 1 and 2.  And where B is from a data sheet
   nobody knows. */
Test(timeline_errors, fits_are_wrong_together_kernels_alone_and_data_sheets_have_no_spread) {
    cleave_engine_problem problem;
    cleave_engine_workspace *workspace;
    cleave_timeline predicted = predict_over(5, &problem, &workspace);
    const cleave_turned turned = all_items(&problem);
    cleave_price_basis changed[N_ITEMS];
    cleave_price_shares shares;
    memcpy(changed, basis, sizeof changed);
    changed[B] = basis[UPDATE];
    OK(cleave_price_shares_find, &program, &problem, &turned, &predicted, changed, 4, &shares);
    cr_expect_float_eq(shares.step_spread_seconds, 1e-6 * sqrt(1 + 36 + 1), 1e-15);
    changed[B] = basis[A];
    OK(cleave_price_shares_find, &program, &problem, &turned, &predicted, changed, 4, &shares);
    cr_expect_float_eq(shares.step_spread_seconds, 1e-6 * sqrt(1 + 4 + 1 + 1), 1e-15);
    changed[B] = (cleave_price_basis){CLEAVE_PROVENANCE_DATA_SHEET, -1, 0};
    OK(cleave_price_shares_find, &program, &problem, &turned, &predicted, changed, 4, &shares);
    cr_expect_float_eq(shares.share[CLEAVE_PROVENANCE_DATA_SHEET], 20.0 / 43, 1e-12);
    cr_expect_eq(shares.step_spread_seconds, -1);
}

/* The links are 51 of 88 us then, and how far they are off is not known. */
Test(timeline_errors, a_step_that_rests_on_links_has_no_spread) {
    cleave_engine_problem problem;
    cleave_engine_workspace *workspace;
    cleave_timeline predicted = predict_over(50, &problem, &workspace);
    const cleave_turned turned = all_items(&problem);
    cleave_price_shares shares;
    OK(cleave_price_shares_find, &program, &problem, &turned, &predicted, basis, 4, &shares);
    cr_expect_float_eq(shares.links, 51.0 / 88, 1e-12);
    cr_expect_eq(shares.step_spread_seconds, -1);
}

Test(timeline_errors, labels_say_kind_name_and_pass) {
    cleave_item_label label = cleave_item_label_of(&program, &items[ARRIVAL]);
    cr_expect_str_eq(label.kind, "wait");
    cr_expect_str_eq(label.name, "x");
    cr_expect_str_eq(label.pass, "weight-gradient");
    label = cleave_item_label_of(&program, &items[UPDATE]);
    cr_expect_str_eq(label.name, "w");
    cr_expect_str_eq(label.pass, "update");
    char text[64];
    cleave_item_label_format(&program, &items[COPY], text, sizeof text);
    cr_expect_str_eq(text, "copy for a forward");
    cleave_item_label_format(&program, &items[SEND], text, sizeof text);
    cr_expect_str_eq(text, "send x 0 -> 1");
}

/* What a trace says of a process: its name, where it is sorted, and its first span of a category.
 */
typedef struct shown {
    char name[64];
    int64_t sort_index;
    double start, duration; /* microseconds, of the last span */
    int n_spans;
} shown;

static void read_event(cleave_json_cursor event, shown processes[8]) {
    cleave_error error = {""};
    cleave_json_cursor at, arguments;
    const char *what, *text;
    int64_t pid;
    OK(cleave_json_get, &event, "pid", &at);
    OK(cleave_json_integer, &at, 0, 7, &pid);
    OK(cleave_json_get, &event, "name", &at);
    OK(cleave_json_string, &at, &what);
    shown *p = &processes[pid];
    if (cleave_json_find(&event, "dur", &at)) {
        p->n_spans++;
        cleave_json_number(&at, &p->duration, &error);
        cr_assert(cleave_json_find(&event, "ts", &at));
        cleave_json_number(&at, &p->start, &error);
    } else if (strcmp(what, "process_name") == 0) {
        cr_assert(cleave_json_find(&event, "args", &arguments));
        cr_assert(cleave_json_find(&arguments, "name", &at));
        cleave_json_string(&at, &text, &error);
        snprintf(p->name, sizeof p->name, "%s", text);
    } else if (strcmp(what, "process_sort_index") == 0) {
        cr_assert(cleave_json_find(&event, "args", &arguments));
        cr_assert(cleave_json_find(&arguments, "sort_index", &at));
        cleave_json_integer(&at, 0, 7, &p->sort_index, &error);
    }
}

static void write_and_read(const cleave_trace *trace, shown processes[8]) {
    char path[512];
    cleave_json *document;
    snprintf(path, sizeof path, CLEAVE_BINARY_DIR "/trace-test-%ld.json", (long)getpid());
    OK(cleave_trace_write, path, trace);
    OK(cleave_json_read, path, &document);
    unlink(path);
    cleave_json_cursor root = cleave_json_root(document), events;
    OK(cleave_json_get, &root, "traceEvents", &events);
    for (int32_t i = 0; i < cleave_json_count(&events); i++)
        read_event(cleave_json_element(&events, i), processes);
    cleave_json_free(document);
}

/* The last span of device 1 is its update: measured 175..189, predicted 84..88. */
Test(timeline_errors, a_trace_shows_measured_above_predicted_per_device) {
    cleave_engine_problem problem;
    cleave_engine_workspace *workspace;
    cleave_timeline predicted = predict(&problem, &workspace), measured = measured_timeline();
    const cleave_trace trace = {&program, &measured, &predicted, NULL};
    static const char *const names[] = {"device 0 measured", "device 0 predicted",
                                        "device 1 measured", "device 1 predicted"};
    shown processes[8] = {{.name = ""}};
    write_and_read(&trace, processes);
    for (int p = 0; p < 4; p++) {
        cr_expect_str_eq(processes[p].name, names[p]);
        cr_expect_eq(processes[p].sort_index, p);
        cr_expect_eq(processes[p].n_spans, 4, "%s", names[p]);
    }
    cr_expect_float_eq(processes[2].start, 175, 1e-9);
    cr_expect_float_eq(processes[2].duration, 14, 1e-9);
    cr_expect_float_eq(processes[3].start, 84, 1e-9);
    cr_expect_float_eq(processes[3].duration, 4, 1e-9);
}

Test(timeline_errors, a_trace_of_one_side_has_no_process_of_the_other) {
    cleave_timeline measured = measured_timeline();
    const cleave_trace trace = {.program = &program, .measured = &measured};
    shown processes[8] = {{.name = ""}};
    write_and_read(&trace, processes);
    cr_expect_str_eq(processes[0].name, "device 0 measured");
    cr_expect_str_eq(processes[1].name, "");
    cr_expect_eq(processes[1].n_spans, 0);
}
