#include "folded.h"
#include "shipped.h"

#include "graph/lower/lower.h"
#include "graph/program/traffic.h"
#include "simulator/step/simulate.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

int32_t fold_below(fold_trial *t, int64_t n) { return (int32_t)cleave_random_below(&t->random, n); }

void fold_ok(const fold_trial *t, cleave_status status) {
    cr_assert_eq(status, CLEAVE_OK, "%s: %s", t->name, t->error.message);
}

void make_fold_machine(fold_trial *t, int32_t n_nodes, int32_t per_node, bool direct, bool mixed) {
    char links[600] = "", other[800] = "", text[2400];
    if (per_node > 1)
        snprintf(links, sizeof links,
                 "{\"join\": [[0, 1]%s], \"through\": \"pcie\", \"bandwidth\": \"12 GB/s\","
                 " \"latency\": \"3 us\", \"overhead\": \"2 us\"}, "
                 "{\"join\": [[\"%s\", \"card\"]%s], \"bandwidth\": \"11 GB/s\", \"latency\": "
                 "\"2 us\"}%s",
                 per_node == 4 ? ", [2, 3]" : "", per_node == 4 ? "pcie 0" : "pcie",
                 per_node == 4 ? ", [\"pcie 1\", \"card\"]" : "",
                 per_node == 4 ? ", {\"join\": [[\"pcie 0\", \"pcie 1\"]], \"bandwidth\": \"9 "
                                 "GB/s\", \"latency\": \"2 us\"}"
                               : "");
    else
        snprintf(links, sizeof links,
                 "{\"join\": [[0, \"card\"]], \"bandwidth\": \"12 GB/s\", \"latency\": \"3 us\","
                 " \"overhead\": \"2 us\"}");
    if (mixed)
        snprintf(other, sizeof other,
                 ", {\"count\": 1, \"devices\": %d, \"kind\": \"slow\", \"links\": [%s]}", per_node,
                 links);
    const char *library =
        fold_below(t, 3) > 0
            ? ""
            : ", \"collectives\": {\"within\": [{\"devices\": 2, \"bandwidth\": \"8 GB/s\", "
              "\"latency\": \"9 us\"}], \"between\": {\"share\": 0.8, \"latency\": \"5 us\"}, "
              "\"source\": \"drawn\"}";
    snprintf(text, sizeof text,
             "{\"cleave_machine\": 1, \"name\": \"drawn\", \"kinds\": {\"k\": {\"memory\": \"1 "
             "TiB\", \"flops\": \"9.5 TFLOP/s\", \"memory_bandwidth\": \"732 GB/s\", \"launch\": "
             "\"8 us\"}, \"slow\": {\"memory\": \"1 TiB\", \"flops\": \"1 TFLOP/s\", "
             "\"memory_bandwidth\": \"300 GB/s\"}}, "
             "\"nodes\": [{\"count\": %d, \"devices\": %d, \"kind\": \"k\", \"links\": [%s]}%s], "
             "\"network\": {\"join\": \"card\"%s, \"bandwidth\": \"25 Gbit/s\", \"latency\": \"4 "
             "us\"}%s}",
             mixed ? n_nodes - 1 : n_nodes, per_node, links, other,
             direct ? "" : ", \"through\": \"switch\"", library);
    fold_ok(
        t, cleave_machine_parse(text, strlen(text), "drawn", 0, &t->arena, &t->machine, &t->error));
}

int sample_axis(const cleave_operator *op) {
    for (int a = 0; a < op->n_axes; a++)
        if (strcmp(op->roles[a], "sample") == 0)
            return a;
    return -1;
}

void draw_fold_split(fold_trial *t, int32_t op) {
    const cleave_operator *of = &t->model.operators[op];
    int32_t n_devices = t->machine.n_devices, degree[CLEAVE_MAX_AXES] = {0}, inner = 1;
    int32_t *devices = CLEAVE_ARENA_ARRAY(&t->arena, int32_t, n_devices);
    int sample = sample_axis(of);
    for (int32_t d = 0; d < n_devices; d++)
        devices[d] = d;
    for (int a = sample + 1; a < of->n_axes && sample >= 0; a++) {
        int32_t by = 1 << fold_below(t, 3);
        if (of->axes[a].whole || of->axes[a].extent < by || n_devices / inner % (2 * by) != 0 ||
            fold_below(t, 2) == 0)
            continue;
        degree[a] = by;
        inner *= by;
    }
    if (sample >= 0)
        degree[sample] = n_devices / inner;
    fold_ok(t, cleave_layout_set(&t->layout, op, sample < 0 ? n_devices : 1, degree, devices,
                                 &t->arena, &t->error));
}

void draw_fold_rules(fold_trial *t) {
    static const cleave_collective_algorithm algorithms[] = {
        CLEAVE_ALGORITHM_DEFAULT, CLEAVE_ALGORITHM_RING, CLEAVE_ALGORITHM_HALVING_DOUBLING,
        CLEAVE_ALGORITHM_TREE, CLEAVE_ALGORITHM_TWO_LEVEL};
    int32_t chosen = fold_below(t, 5);
    cleave_collective_rules *rules = &t->layout.collectives;
    rules->node_devices = t->machine.devices_per_node;
    if (chosen == 0)
        return;
    rules->items = cleave_arena_alloc(&t->arena, 1, sizeof *rules->items);
    rules->n = 1;
    rules->items[0] =
        (cleave_collective_rule){.kind = CLEAVE_ALL_REDUCE, .algorithm = algorithms[chosen]};
}

bool draw_fold_layout(fold_trial *t) {
    fold_ok(
        t, cleave_layout_create(&t->model, t->machine.n_devices, &t->arena, &t->layout, &t->error));
    for (int32_t op = 0; op < t->model.n_operators; op++)
        draw_fold_split(t, op);
    draw_fold_rules(t);
    return cleave_layout_check(&t->model, &t->layout, NULL) == CLEAVE_OK;
}

static void find_ends(fold_trial *t, const cleave_engine_problem *problem,
                      const cleave_timeline *timeline, int64_t **ends) {
    *ends = CLEAVE_ARENA_ARRAY(&t->arena, int64_t, problem->n_queues);
    for (int32_t i = 0; i < problem->step.n_items; i++)
        if (timeline->end[i] > (*ends)[problem->step.queue[i]])
            (*ends)[problem->step.queue[i]] = timeline->end[i];
}

fold_outcome simulate_fold(fold_trial *t, bool folded, bool expanded) {
    fold_outcome result = {.status = CLEAVE_OK};
    cleave_lower_options options = {
        .training = true, .symbolic_collectives = !expanded, .optimizer_states = 1};
    cleave_fold fold;
    cleave_cost_cache *cache;
    cleave_engine_problem problem;
    fold_ok(t, cleave_cost_cache_create(&t->model, &t->machine, &cache, &t->error));
    if (folded)
        result.status = cleave_fold_find(&t->model, &t->layout, t->machine.devices_per_node,
                                         &t->arena, &fold, &t->error);
    if (result.status == CLEAVE_OK)
        result.status = folded ? cleave_lower_window(&t->model, &fold, &options, &t->arena,
                                                     &result.program, &t->error)
                               : cleave_lower(&t->model, &t->layout, &options, &t->arena,
                                              &result.program, &t->error);
    if (result.status == CLEAVE_OK)
        result.status =
            cleave_simulate_prepare(&result.program, cache, &t->arena, &problem, &t->error);
    snprintf(result.why, sizeof result.why, "%s", t->error.message);
    for (int rule = 0; rule < 2 && result.status == CLEAVE_OK; rule++) {
        cleave_engine_workspace *workspace;
        cleave_timeline timeline;
        fold_ok(t, cleave_engine_workspace_create(&problem, &t->arena, &workspace, &t->error));
        fold_ok(t, cleave_engine_timeline_create(&problem, &t->arena, &timeline, &t->error));
        fold_ok(t,
                cleave_simulate_run(&problem, (cleave_rule)rule, workspace, &timeline, &t->error));
        result.step[rule] = timeline.step;
        find_ends(t, &problem, &timeline, &result.ends[rule]);
    }
    if (result.status == CLEAVE_OK)
        fold_ok(t, cleave_program_bytes_between(&result.program, NULL, &t->arena, &result.between,
                                                &t->error));
    cleave_cost_cache_destroy(cache);
    return result;
}

/* That of the window which does what a device does. */
static int32_t image_of(const cleave_program *window, int32_t device) {
    int32_t m = cleave_program_window(window), group = m * window->n_windows;
    return window->windows_outermost ? device % window->n_devices : device / group * m + device % m;
}

/* Bytes that a device keeps from step to step. */
static int64_t kept_bytes(const cleave_program *program, int32_t device) {
    int64_t bytes = 0;
    for (int32_t b = 0; b < program->n_buffers; b++)
        if (program->buffers[b].device == device && program->buffers[b].persistent)
            bytes += program->buffers[b].bytes;
    return bytes;
}

/* Has the window of a device less of some shares than window 0, and more of none? */
static bool has_less(const fold_trial *t, const fold_outcome *folded, const fold_outcome *full,
                     int32_t device) {
    const cleave_program *window = &folded->program;
    int32_t m = cleave_program_window(window), first = device / m * m;
    bool less = false;
    for (int32_t d = first; d < first + m; d++) {
        int64_t bytes = kept_bytes(&full->program, d),
                most = kept_bytes(window, image_of(window, d));
        cr_assert_leq(bytes, most, "%s: device %d", t->name, d);
        less = less || bytes < most;
    }
    return less;
}

/* Of windows that have less the step is that of the others, which they wait for, and so is their
   memory plan. */
static void expect_device(const fold_trial *t, const fold_outcome *folded, const fold_outcome *full,
                          int32_t device, int *n_less) {
    const cleave_program *window = &folded->program;
    int32_t image = image_of(window, device);
    bool less = has_less(t, folded, full, device);
    *n_less += less;
    for (int rule = 0; rule < 2; rule++)
        for (int lane = 0; lane < 2; lane++) {
            int64_t one = folded->ends[rule][2 * image + lane],
                    end = full->ends[rule][2 * device + lane];
            cr_assert(less ? end <= one : end == one, "%s: device %d, lane %d: %lld %lld", t->name,
                      device, lane, (long long)end, (long long)one);
        }
    cr_assert_eq(full->program.peak_bytes[device], window->peak_bytes[image], "%s: device %d",
                 t->name, device);
}

/* Gives how many devices are of windows that have less of shares. */
static int expect_equal(const fold_trial *t, const fold_outcome *folded, const fold_outcome *full) {
    const cleave_program *window = &folded->program, *all = &full->program;
    int32_t n = all->n_devices, m = window->n_devices, w = window->n_windows;
    int n_less = 0;
    cr_assert_eq(m * w, n, "%s", t->name);
    for (int rule = 0; rule < 2; rule++) {
        cr_assert_eq(folded->step[rule], full->step[rule],
                     "%s, %d devices by %d, rule %d: %lld %lld", t->name, n, m, rule,
                     (long long)folded->step[rule], (long long)full->step[rule]);
    }
    cr_assert_eq(window->n_items * w, all->n_items, "%s", t->name);
    cr_assert_eq(window->n_messages * w, all->n_messages, "%s", t->name);
    cr_assert_eq(cleave_program_own_bytes(window), cleave_program_own_bytes(all), "%s", t->name);
    cr_assert_arr_eq(folded->between, full->between, (size_t)n * (size_t)n * sizeof(int64_t), "%s",
                     t->name);
    for (int32_t d = 0; d < n; d++)
        expect_device(t, folded, full, d, &n_less);
    return n_less;
}

bool compare_folded(fold_trial *t, bool expanded, int *n_less) {
    fold_outcome folded = simulate_fold(t, true, expanded);
    if (folded.status == CLEAVE_NO_LAYOUT)
        return false;
    cr_assert_eq(folded.status, CLEAVE_OK, "%s: %s", t->name, folded.why);
    fold_outcome full = simulate_fold(t, false, expanded);
    cr_assert_eq(full.status, CLEAVE_OK, "%s: %s", t->name, full.why);
    fold_ok(t, cleave_program_check(&full.program, &t->error));
    int found = expect_equal(t, &folded, &full);
    if (n_less != NULL)
        *n_less += found;
    else
        cr_assert_eq(found, 0, "%s", t->name);
    return true;
}

void import_to_fold(fold_trial *t, const char *file, int64_t batch) {
    fold_ok(t, shipped_model(file, batch, &t->arena, &t->model, &t->error));
    if (t->random.key % 3 == 2) /* gradients are clipped */
        fold_ok(t, cleave_model_clip(&t->model, &t->error));
}
