/* Law 3: one window of a layout that folds, lowered and simulated alone, has the times of all
   devices, bit for bit, by both rules, with collectives in closed form and expanded; its items side
   by side are those of the whole program, and so are its bytes and its memory: with stages,
   micro-batches, recomputation and sharded state, too.  Layouts that are symmetric but for one
   thing are not taken for symmetric. */
#include "../support/config_request.h"
#include "../support/models.h"
#include "../support/shipped.h"
#include "graph/import/import.h"
#include "graph/lower/lower.h"
#include "graph/program/traffic.h"
#include "simulator/step/few.h"
#include "simulator/step/simulate.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

typedef struct trial {
    cleave_arena arena;
    cleave_error error;
    cleave_model model;
    cleave_machine machine;
    cleave_layout layout;
    cleave_random random;
    bool windows_outermost; /* of stages: each window has a node of every group */
    char name[200];
} trial;

/* What came of simulating a program. */
typedef struct outcome {
    cleave_status status;
    cleave_program program;
    int64_t step[2], *ends[2]; /* by rule; [n_queues] end of the last item */
    int64_t *between;
    char why[300];
} outcome;

static int32_t below(trial *t, int64_t n) { return (int32_t)cleave_random_below(&t->random, n); }

static void ok(const trial *t, cleave_status status) {
    cr_assert_eq(status, CLEAVE_OK, "%s: %s", t->name, t->error.message);
}

/* Nodes of one, two or four devices: joined by a switch or directly, each device with a link of its
   own to the card, or two on one PCIe switch.  On some a library's collectives were measured. */
static void make_fold_machine(trial *t, int32_t n_nodes, int32_t per_node, bool direct,
                              bool mixed) {
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
        below(t, 3) > 0
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
    ok(t, cleave_machine_parse(text, strlen(text), "drawn", 0, &t->arena, &t->machine, &t->error));
}

static int sample_axis(const cleave_operator *op) {
    for (int a = 0; a < op->n_axes; a++)
        if (strcmp(op->roles[a], "sample") == 0)
            return a;
    return -1;
}

/* Samples outermost, the rest of the devices to any axes that come after; the devices in order. */
static void draw_split(trial *t, int32_t op) {
    const cleave_operator *of = &t->model.operators[op];
    int32_t n_devices = t->machine.n_devices, degree[CLEAVE_MAX_AXES] = {0}, inner = 1;
    int32_t *devices = CLEAVE_ARENA_ARRAY(&t->arena, int32_t, n_devices);
    int sample = sample_axis(of);
    for (int32_t d = 0; d < n_devices; d++)
        devices[d] = d;
    for (int a = sample + 1; a < of->n_axes && sample >= 0; a++) {
        int32_t by = 1 << below(t, 3);
        if (of->axes[a].whole || of->axes[a].extent < by || n_devices / inner % (2 * by) != 0 ||
            below(t, 2) == 0)
            continue;
        degree[a] = by;
        inner *= by;
    }
    if (sample >= 0)
        degree[sample] = n_devices / inner;
    ok(t, cleave_layout_set(&t->layout, op, sample < 0 ? n_devices : 1, degree, devices, &t->arena,
                            &t->error));
}

/* Any algorithm for all collectives. */
static void draw_rules(trial *t) {
    static const cleave_collective_algorithm algorithms[] = {
        CLEAVE_ALGORITHM_DEFAULT, CLEAVE_ALGORITHM_RING, CLEAVE_ALGORITHM_HALVING_DOUBLING,
        CLEAVE_ALGORITHM_TREE, CLEAVE_ALGORITHM_TWO_LEVEL};
    int32_t chosen = below(t, 5);
    cleave_collective_rules *rules = &t->layout.collectives;
    rules->node_devices = t->machine.devices_per_node;
    if (chosen == 0)
        return;
    rules->items = cleave_arena_alloc(&t->arena, 1, sizeof *rules->items);
    rules->n = 1;
    rules->items[0] =
        (cleave_collective_rule){.kind = CLEAVE_ALL_REDUCE, .algorithm = algorithms[chosen]};
}

static bool draw_layout(trial *t) {
    ok(t, cleave_layout_create(&t->model, t->machine.n_devices, &t->arena, &t->layout, &t->error));
    for (int32_t op = 0; op < t->model.n_operators; op++)
        draw_split(t, op);
    draw_rules(t);
    return cleave_layout_check(&t->model, &t->layout, NULL) == CLEAVE_OK;
}

static void find_ends(trial *t, const cleave_engine_problem *problem,
                      const cleave_timeline *timeline, int64_t **ends) {
    *ends = CLEAVE_ARENA_ARRAY(&t->arena, int64_t, problem->n_queues);
    for (int32_t i = 0; i < problem->step.n_items; i++)
        if (timeline->end[i] > (*ends)[problem->step.queue[i]])
            (*ends)[problem->step.queue[i]] = timeline->end[i];
}

static outcome simulate(trial *t, bool folded, bool expanded) {
    outcome result = {.status = CLEAVE_OK};
    cleave_lower_options options = {
        .training = true, .symbolic_collectives = !expanded, .optimizer_states = 1};
    cleave_fold fold;
    cleave_cost_cache *cache;
    cleave_engine_problem problem;
    ok(t, cleave_cost_cache_create(&t->model, &t->machine, &cache, &t->error));
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
        ok(t, cleave_engine_workspace_create(&problem, &t->arena, &workspace, &t->error));
        ok(t, cleave_engine_timeline_create(&problem, &t->arena, &timeline, &t->error));
        ok(t, cleave_simulate_run(&problem, (cleave_rule)rule, workspace, &timeline, &t->error));
        result.step[rule] = timeline.step;
        find_ends(t, &problem, &timeline, &result.ends[rule]);
    }
    if (result.status == CLEAVE_OK)
        ok(t, cleave_program_bytes_between(&result.program, NULL, &t->arena, &result.between,
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
static bool has_less(const trial *t, const outcome *folded, const outcome *full, int32_t device) {
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

/* Of windows that have less the step is that of the others, which they wait for. */
static void expect_device(const trial *t, const outcome *folded, const outcome *full,
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
    int64_t peak = full->program.peak_bytes[device], most = window->peak_bytes[image];
    cr_assert(less ? peak <= most : peak == most, "%s: device %d", t->name, device);
}

/* Gives how many devices are of windows that have less of shares. */
static int expect_equal(const trial *t, const outcome *folded, const outcome *full) {
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

/* Folded against full, if it folds. */
static bool compare(trial *t, bool expanded, int *n_less) {
    outcome folded = simulate(t, true, expanded);
    if (folded.status == CLEAVE_NO_LAYOUT)
        return false;
    cr_assert_eq(folded.status, CLEAVE_OK, "%s: %s", t->name, folded.why);
    outcome full = simulate(t, false, expanded);
    cr_assert_eq(full.status, CLEAVE_OK, "%s: %s", t->name, full.why);
    ok(t, cleave_program_check(&full.program, &t->error));
    int found = expect_equal(t, &folded, &full);
    if (n_less != NULL)
        *n_less += found;
    else
        cr_assert_eq(found, 0, "%s", t->name);
    return true;
}

static void import(trial *t, const char *file, int64_t batch) {
    ok(t, shipped_model(file, batch, &t->arena, &t->model, &t->error));
    if (t->random.key % 3 == 2) /* gradients are clipped */
        ok(t, cleave_model_clip(&t->model, &t->error));
}

/* Of every model some layouts fold.  Expanded, none does that trains: the loss is the sum of all
   devices, and its steps are not the same for all. */
Test(folded, equals_full_bit_for_bit) {
    static const struct {
        const char *file;
        int rounds;
    } models[] = {{"mlp", 24}, {"lenet5", 24},   {"byte_gpt", 6},
                  {"dlrm", 8}, {"byte_lstm", 2}, {"resnet50", 3}};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        int symbolic_folds = 0;
        for (int round = 0; round < models[m].rounds; round++) {
            trial t = {.random = {.key = 100 * m + (uint64_t)round}};
            int32_t per_node = 1 << below(&t, 3), n_nodes = 2 + below(&t, 7);
            if (below(&t, 2) == 0)
                n_nodes = 4 << below(&t, 3);
            while (models[m].rounds < 10 && n_nodes * per_node > 16)
                n_nodes = (n_nodes + 1) / 2;
            snprintf(t.name, sizeof t.name, "%s, round %d", models[m].file, round);
            make_fold_machine(&t, n_nodes, per_node, below(&t, 4) == 0, false);
            import(&t, models[m].file, (1 + below(&t, 2)) * (int64_t)t.machine.n_devices);
            if (draw_layout(&t)) {
                symbolic_folds += compare(&t, false, NULL);
                cr_assert_not(compare(&t, true, NULL), "%s", t.name);
            }
            cleave_arena_free(&t.arena);
        }
        cr_assert_gt(symbolic_folds, 0, "%s never folds", models[m].file);
    }
}

/* One thing that is not the same in all windows. */
enum { SWAPPED, HALF, ODD_BATCH, MIXED, N_FLAWS };

static void spoil(trial *t, int flaw) {
    cleave_split *split = &t->layout.splits[t->model.n_operators / 2];
    int32_t *devices = split->devices, last = split->n_parts - 1;
    if (flaw == SWAPPED) {
        int32_t other = devices[0];
        devices[0] = devices[last];
        devices[last] = other;
    } else if (flaw == HALF) {
        split->degree[sample_axis(&t->model.operators[t->model.n_operators / 2])] /= 2;
        split->n_parts /= 2;
    }
}

/* All samples over so many devices, two to a node. */
static void share_samples(trial *t, int32_t n, int64_t batch, bool mixed) {
    make_fold_machine(t, n / 2, 2, false, mixed);
    import(t, "mlp", batch);
    ok(t, cleave_layout_create(&t->model, n, &t->arena, &t->layout, &t->error));
    for (int32_t op = 0; op < t->model.n_operators; op++) {
        int32_t degree[CLEAVE_MAX_AXES] = {0},
                devices[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
        degree[sample_axis(&t->model.operators[op])] = n;
        ok(t, cleave_layout_set(&t->layout, op, 1, degree, devices, &t->arena, &t->error));
    }
}

/* A bias of 10 elements has no share for each of 16 devices, and stays with all. */
Test(folded, what_is_too_small_is_not_sharded) {
    trial t = {.name = "small", .random = {.key = 1}};
    share_samples(&t, 16, 16, false);
    for (int sharded = CLEAVE_SHARDED_UPDATE; sharded < CLEAVE_N_SHARDED; sharded++) {
        for (int32_t p = 0; p < t.model.n_tensors; p++)
            if (t.model.tensors[p].kind == CLEAVE_TENSOR_PARAMETER)
                t.layout.sharded[p] = (uint8_t)sharded;
        cr_expect(compare(&t, false, NULL), "%s", cleave_sharded_names[sharded]);
    }
    cleave_arena_free(&t.arena);
}

Test(folded, refuses_what_is_almost_symmetric) {
    for (int flaw = -1; flaw < N_FLAWS; flaw++) {
        trial t = {.random = {.key = 1}};
        snprintf(t.name, sizeof t.name, "flaw %d", flaw);
        share_samples(&t, 8, flaw == ODD_BATCH ? 17 : 16, flaw == MIXED);
        spoil(&t, flaw);
        ok(&t, cleave_layout_check(&t.model, &t.layout, &t.error));
        outcome folded = simulate(&t, true, false);
        cr_assert_eq(folded.status, flaw < 0 ? CLEAVE_OK : CLEAVE_NO_LAYOUT, "%s: %s", t.name,
                     folded.why);
        cleave_arena_free(&t.arena);
    }
}

/* All devices, in order, to any axes and replicas. */
static void draw_any_split(trial *t, int32_t op) {
    const cleave_operator *of = &t->model.operators[op];
    const int32_t *devices = t->layout.splits[op].devices;
    int32_t degree[CLEAVE_MAX_AXES] = {0}, replicas = 1;
    for (int32_t rest = t->machine.n_devices, prime = 2; rest > 1; prime++)
        for (; rest % prime == 0; rest /= prime) {
            int a = below(t, of->n_axes + 1);
            int32_t grown = a == of->n_axes ? 0 : (degree[a] > 0 ? degree[a] : 1) * prime;
            if (a == of->n_axes || of->axes[a].whole || of->axes[a].extent < grown)
                replicas *= prime;
            else
                degree[a] = grown;
        }
    ok(t, cleave_layout_set(&t->layout, op, replicas, degree, devices, &t->arena, &t->error));
}

/* Whatever the layout: what folds is equal. */
Test(folded, equals_full_on_any_layout_that_folds) {
    for (int round = 0; round < 200; round++) {
        trial t = {.random = {.key = 5000 + (uint64_t)round}};
        snprintf(t.name, sizeof t.name, "any %d", round);
        make_fold_machine(&t, 2 + below(&t, 3), 1 << below(&t, 2), false, false);
        import(&t, below(&t, 2) == 0 ? "mlp" : "lenet5",
               t.machine.n_devices * (int64_t)(1 + below(&t, 2)) + (below(&t, 4) == 0));
        if (draw_layout(&t)) {
            for (int32_t op = 0; op < t.model.n_operators; op++)
                if (below(&t, round % 2 == 0 ? 1 : 6) == 0)
                    draw_any_split(&t, op);
            ok(&t, cleave_layout_check(&t.model, &t.layout, &t.error));
            compare(&t, false, NULL);
            compare(&t, true, NULL);
        }
        cleave_arena_free(&t.arena);
    }
}

/* ---- stages ---------------------------------------------------------------------------------- */

/* Nodes of two or four, on a switch of the first level for each two or four of them, of two or
   three levels: joined by so many that what goes to different nodes keeps apart, or by half as
   many. */
static void make_rails_of(trial *t, int32_t n_nodes, int32_t per_node) {
    char text[1400], core[200] = "";
    int32_t of_leaf = 2 << below(t, 2), spines = below(t, 3) > 0 ? of_leaf : of_leaf / 2;
    bool has_core = n_nodes > 2 * of_leaf && below(t, 2) == 0;
    if (has_core)
        snprintf(core, sizeof core,
                 ", {\"through\": \"core\", \"switches\": 4, \"oversubscription\": 1, "
                 "\"latency\": \"1 us\"}");
    snprintf(
        text, sizeof text,
        "{\"cleave_machine\": 1, \"name\": \"rails\", \"kinds\": {\"k\": {\"memory\": \"1 "
        "TiB\", \"flops\": \"9.5 TFLOP/s\", \"memory_bandwidth\": \"732 GB/s\"}}, \"nodes\": "
        "[{\"count\": %d, \"devices\": %d, \"kind\": \"k\", \"links\": [{\"join\": [[0, 1%s]], "
        "\"through\": \"all\", \"bandwidth\": \"50 GB/s\", \"latency\": \"1 us\"}, {\"join\": [[0, "
        "\"card 0\"], [1, \"card 1\"]%s], "
        "\"bandwidth\": \"12 GB/s\", \"latency\": \"1 us\"}]}], \"network\": [{\"join\": "
        "[[\"card 0\"], [\"card 1\"]], \"through\": \"leaf\", \"nodes\": %d, \"bandwidth\": "
        "\"25 Gbit/s\", \"latency\": \"4 us\"}, {\"through\": \"spine\", %s\"switches\": %d, "
        "\"oversubscription\": 1, \"latency\": \"1 us\"}%s]}",
        n_nodes, per_node, per_node == 4 ? ", 2, 3" : "",
        per_node == 4 ? ", [2, \"card 0\"], [3, \"card 1\"]" : "", of_leaf,
        !has_core      ? ""
        : of_leaf == 2 ? "\"nodes\": 4, "
                       : "\"nodes\": 8, ",
        spines, core);
    ok(t, cleave_machine_parse(text, strlen(text), "rails", 0, &t->arena, &t->machine, &t->error));
}

static void make_rails(trial *t, int32_t n_nodes) { make_rails_of(t, n_nodes, 2); }

/* On the devices of its group, as draw_split on all. */
static void draw_staged_split(trial *t, int32_t op, int32_t group, int32_t n_groups) {
    int32_t n_all = t->machine.n_devices, n = n_all / n_groups;
    t->machine.n_devices = n;
    draw_split(t, op);
    t->machine.n_devices = n_all;
    int32_t *devices = t->layout.splits[op].devices, run = t->machine.devices_per_node;
    for (int32_t d = 0; d < n; d++)
        devices[d] = t->windows_outermost ? (d / run * n_groups + group) * run + d % run
                                          : devices[d] + group * n;
}

/* Equal groups of devices, one stage each or two by turns. */
static bool draw_stages(trial *t, int32_t n_groups) {
    static const cleave_schedule_kind kinds[] = {CLEAVE_SCHEDULE_1F1B, CLEAVE_SCHEDULE_GPIPE,
                                                 CLEAVE_SCHEDULE_ZB_H1,
                                                 CLEAVE_SCHEDULE_INTERLEAVED};
    cleave_schedule *schedule = &t->layout.schedule;
    ok(t, cleave_layout_create(&t->model, t->machine.n_devices, &t->arena, &t->layout, &t->error));
    schedule->kind = kinds[below(t, 4)];
    schedule->n_stages = schedule->kind == CLEAVE_SCHEDULE_INTERLEAVED ? 2 * n_groups : n_groups;
    schedule->first_operator = CLEAVE_ARENA_ARRAY(&t->arena, int32_t, schedule->n_stages);
    if (schedule->n_stages > t->model.n_operators)
        return false;
    for (int32_t s = 0; s < schedule->n_stages; s++)
        schedule->first_operator[s] = t->model.n_operators * s / schedule->n_stages;
    for (int32_t op = 0; op < t->model.n_operators; op++)
        draw_staged_split(t, op, cleave_schedule_stage_of(schedule, op) % n_groups, n_groups);
    draw_rules(t);
    schedule->micro_batches = n_groups * (1 + below(t, 4));
    for (int32_t op = 0; op < t->model.n_operators; op++) {
        t->layout.recompute[op] = below(t, 3) == 0;
        if (t->layout.recompute[op] &&
            cleave_layout_check(&t->model, &t->layout, NULL) != CLEAVE_OK)
            t->layout.recompute[op] = false;
    }
    return cleave_layout_check(&t->model, &t->layout, NULL) == CLEAVE_OK;
}

/* Three micro-batches of the window tell what all of it do. */
static void compare_few(trial *t) {
    cleave_lower_options options = {
        .training = true, .symbolic_collectives = true, .optimizer_states = 1};
    cleave_fold fold;
    cleave_few few;
    cleave_cost_cache *cache;
    int64_t step = 0;
    if (!cleave_few_tell(&t->layout))
        return;
    outcome all = simulate(t, true, false);
    ok(t, cleave_cost_cache_create(&t->model, &t->machine, &cache, &t->error));
    ok(t, cleave_fold_find(&t->model, &t->layout, t->machine.devices_per_node, &t->arena, &fold,
                           &t->error));
    ok(t,
       cleave_few_lower(&t->model, &t->layout, &fold, &options, NULL, &t->arena, &few, &t->error));
    ok(t, cleave_few_simulate(&few, cache, &t->arena, &step, NULL, &t->error));
    if (step >= 0)
        cr_assert_eq(step, all.step[CLEAVE_RULE_SCAN], "%s: by three", t->name);
    cr_assert_eq(cleave_program_own_bytes(&few.whole), cleave_program_own_bytes(&all.program), "%s",
                 t->name);
    for (int32_t d = 0; d < all.program.n_devices; d++)
        cr_assert_eq(few.whole.peak_bytes[d], all.program.peak_bytes[d], "%s", t->name);
    cleave_cost_cache_destroy(cache);
}

/* Every operator is split by its samples alone. */
static void split_samples(trial *t) {
    for (int32_t op = 0; op < t->model.n_operators; op++) {
        cleave_split *split = &t->layout.splits[op];
        int32_t degree[CLEAVE_MAX_AXES] = {0};
        int sample = sample_axis(&t->model.operators[op]);
        if (sample >= 0)
            degree[sample] = split->n_parts;
        ok(t, cleave_layout_set(&t->layout, op, sample < 0 ? split->n_parts : 1, degree,
                                split->devices, &t->arena, &t->error));
    }
}

Test(folded, equals_full_in_stages_and_micro_batches) {
    static const char *const models[] = {"mlp", "lenet5", "byte_gpt"};
    int folds[3] = {0}, rails = 0;
    for (int round = 0; round < 160; round++) {
        trial t = {.random = {.key = 9000 + (uint64_t)round}};
        int model = round % 8 == 0 ? 2 : round % 2;
        int32_t n_groups = 1 + below(&t, 3), per_group = 3 + below(&t, model == 2 ? 1 : 3);
        bool on_rails = n_groups > 1 && below(&t, 2) == 0;
        snprintf(t.name, sizeof t.name, "%s in stages, round %d", models[model], round);
        if (on_rails)
            make_rails(&t, n_groups * (per_group = 4));
        else
            make_fold_machine(&t, n_groups * per_group, 1 << below(&t, 2), below(&t, 4) == 0,
                              false);
        import(&t, models[model], n_groups * 12 * (int64_t)t.machine.n_devices);
        bool drawn = draw_stages(&t, n_groups);
        if (drawn && on_rails && below(&t, 4) > 0)
            split_samples(&t);
        if (drawn && compare(&t, false, NULL)) {
            folds[model]++;
            rails += on_rails && n_groups > 1;
            compare_few(&t);
        }
        cleave_arena_free(&t.arena);
    }
    printf("folds: %d of mlp, %d of lenet5, %d of byte_gpt; %d on rails\n", folds[0], folds[1],
           folds[2], rails);
    for (int m = 0; m < 3; m++)
        cr_assert_gt(folds[m], 0, "%s never folds in stages", models[m]);
    cr_assert_gt(rails, 20);
}

/* ---- sharded state --------------------------------------------------------------------------- */

/* Of some parameters, or of all, so much of the state is sharded: of every one as much, or drawn.
   The mlp's last bias has 10 elements, which no windows share out evenly, and more than 10 devices
   not at all. */
static bool draw_shards(trial *t) {
    bool all = below(t, 2) == 0;
    int32_t what = 1 + below(t, 3);
    for (int32_t p = 0; p < t->model.n_tensors; p++)
        if (t->model.tensors[p].kind == CLEAVE_TENSOR_PARAMETER &&
            t->model.tensors[p].view.kind == CLEAVE_VIEW_NONE)
            t->layout.sharded[p] = (uint8_t)(all ? what : below(t, 4));
    for (int32_t p = 0; p < t->model.n_tensors && below(t, 4) > 0; p++)
        if (t->model.tensors[p].shape[0] == 10)
            t->layout.sharded[p] = 0;
    return cleave_layout_check(&t->model, &t->layout, NULL) == CLEAVE_OK;
}

/* Shares of all windows are reduced and gathered together, those of other stages by their groups.
 */
Test(folded, equals_full_with_sharded_state) {
    int folds[4] = {0}, staged = 0, n_less = 0;
    for (int round = 0; round < 60; round++) {
        trial t = {.random = {.key = 14000 + (uint64_t)round}};
        int32_t n_groups = 1 + below(&t, 2), per_node = 1 << below(&t, 2);
        const char *model = round % 2 == 0 ? "byte_gpt" : "mlp";
        snprintf(t.name, sizeof t.name, "%s sharded, round %d", model, round);
        make_fold_machine(&t, n_groups * (2 << below(&t, 3)), per_node, below(&t, 4) == 0, false);
        import(&t, model, 4 * (int64_t)t.machine.n_devices);
        bool drawn =
            n_groups == 1 && below(&t, 2) == 0 ? draw_layout(&t) : draw_stages(&t, n_groups);
        if (drawn && below(&t, 3) > 0)
            split_samples(&t);
        if (drawn && draw_shards(&t) && compare(&t, false, &n_less)) {
            uint8_t most = 0;
            for (int32_t p = 0; p < t.model.n_tensors; p++)
                most = t.layout.sharded[p] > most ? t.layout.sharded[p] : most;
            folds[most]++;
            staged += n_groups > 1;
            compare_few(&t);
        }
        cleave_arena_free(&t.arena);
    }
    printf("folds: %d with sharded updates, %d with gradients, %d with weights; %d in stages; %d "
           "devices have less than others\n",
           folds[1], folds[2], folds[3], staged, n_less);
    cr_assert_gt(n_less, 0);
    for (int what = 1; what < 4; what++)
        cr_assert_gt(folds[what], 0);
    cr_assert_gt(staged, 0);
}

/* A GPT of two layers: its first and last stages read one table, each a part of its gradient. */
static void import_tied(trial *t, int64_t batch) {
    static const char text[] =
        "{\"architectures\": [\"GPT2LMHeadModel\"], \"model_type\": \"gpt2\", \"n_embd\": 8, "
        "\"n_inner\": 16, \"n_head\": 2, \"n_layer\": 2, \"vocab_size\": 192, \"n_positions\": 4, "
        "\"activation_function\": \"gelu_new\", \"attn_pdrop\": 0.0, \"resid_pdrop\": 0.0, "
        "\"embd_pdrop\": 0.0, \"layer_norm_epsilon\": 1e-05}";
    const cleave_import_request request = config_request(text, batch, 4);
    ok(t, cleave_model_import_as(&request, &t->arena, &t->model, &t->error));
}

/* The update of the table alone. */
static void shard_table(trial *t) {
    for (int32_t p = 0; p < t->model.n_tensors; p++)
        t->layout.sharded[p] = t->model.tensors[p].kind == CLEAVE_TENSOR_PARAMETER &&
                               t->model.tensors[p].view.kind == CLEAVE_VIEW_NONE &&
                               t->model.tensors[p].shape[0] == 192;
}

/* Which all of these share out: of each group those of all windows.  On rails they
   go round over links between groups that only some windows have to take. */
Test(folded, equals_full_where_groups_share_a_table) {
    int folds = 0, rails = 0, n_less = 0;
    for (int round = 0; round < 90; round++) {
        bool on_rails = round >= 30;
        trial t = {.random = {.key = 17000 + (uint64_t)round}};
        int32_t n_groups = 2 + below(&t, 2), per_node = 1 << below(&t, 2);
        snprintf(t.name, sizeof t.name, "shared table, round %d", round);
        if (on_rails)
            make_rails(&t, n_groups * 4);
        else
            make_fold_machine(&t, n_groups * (2 << below(&t, 2)), per_node, below(&t, 4) == 0,
                              false);
        import_tied(&t, 4 * (int64_t)t.machine.n_devices);
        bool drawn = draw_stages(&t, n_groups);
        if (drawn && below(&t, 3) > 0)
            split_samples(&t);
        shard_table(&t);
        if (drawn && compare(&t, false, &n_less)) {
            folds += !on_rails;
            rails += on_rails;
            compare_few(&t);
        }
        cleave_arena_free(&t.arena);
    }
    printf("%d folds, %d on rails; %d devices have less than others\n", folds, rails, n_less);
    cr_assert_gt(folds, 10);
    cr_assert_gt(rails, 15);
}

/* Devices in the same places of their groups, group after group. */
static void place_groups_outermost(trial *t, int32_t n_groups) {
    int32_t n = t->machine.n_devices / n_groups, run = t->machine.devices_per_node;
    for (int32_t op = 0; op < t->model.n_operators; op++) {
        int32_t *devices = t->layout.splits[op].devices, first = devices[0] / run % n_groups * n;
        for (int32_t d = 0; d < n; d++)
            devices[d] = first + d;
    }
}

/* Where groups are not whole numbers of switches, messages of some windows cross other switches
   than those of others, unless windows lie outermost, each on as many. */
Test(folded, equals_full_where_windows_lie_outermost) {
    static const char *const models[] = {"mlp", "lenet5", "byte_gpt"};
    int folds = 0, alone = 0, shared = 0;
    for (int round = 0; round < 120; round++) {
        trial t = {.random = {.key = 21000 + (uint64_t)round}, .windows_outermost = true};
        int32_t n_groups = 2 << below(&t, 2), n_windows = 3, per_node = 2 << below(&t, 2);
        snprintf(t.name, sizeof t.name, "windows outermost, round %d", round);
        make_rails_of(&t, n_groups * n_windows, per_node);
        bool tied = round % 3 == 0;
        int64_t batch = n_groups * 12 * (int64_t)t.machine.n_devices;
        if (tied)
            import_tied(&t, batch);
        else
            import(&t, models[round % 8 == 1 ? 2 : round % 2], batch);
        bool drawn = draw_stages(&t, n_groups);
        if (drawn && below(&t, 4) > 0)
            split_samples(&t);
        if (tied)
            shard_table(&t);
        if (drawn && compare(&t, false, NULL)) {
            folds++;
            shared += tied;
            compare_few(&t);
            place_groups_outermost(&t, n_groups);
            alone += !compare(&t, false, NULL);
        }
        cleave_arena_free(&t.arena);
    }
    printf("%d folds, %d of a shared table; %d do not where groups lie outermost\n", folds, shared,
           alone);
    cr_assert_gt(folds, 20);
    cr_assert_gt(shared, 5);
    cr_assert_gt(alone, 5);
}
