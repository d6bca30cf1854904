/* The same with stages, micro-batches, recomputation and sharded state. */
#include "../support/config_request.h"
#include "../support/draws.h"
#include "../support/folded.h"
#include "simulator/step/few.h"
#include "simulator/step/simulate.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Nodes of two or four, on a switch of the first level for each two or four of them, of two or
   three levels: joined by so many that what goes to different nodes keeps apart, or by half as
   many. */
static void make_rails_of(fold_trial *t, int32_t n_nodes, int32_t per_node) {
    char text[1400], core[200] = "";
    int32_t of_leaf = 2 << fold_below(t, 2), spines = fold_below(t, 3) > 0 ? of_leaf : of_leaf / 2;
    bool has_core = n_nodes > 2 * of_leaf && fold_below(t, 2) == 0;
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
    fold_ok(
        t, cleave_machine_parse(text, strlen(text), "rails", 0, &t->arena, &t->machine, &t->error));
}

static void make_rails(fold_trial *t, int32_t n_nodes) { make_rails_of(t, n_nodes, 2); }

/* On the devices of its group, as draw_fold_split on all. */
static void draw_staged_split(fold_trial *t, int32_t op, int32_t group, int32_t n_groups) {
    int32_t n_all = t->machine.n_devices, n = n_all / n_groups;
    t->machine.n_devices = n;
    draw_fold_split(t, op);
    t->machine.n_devices = n_all;
    int32_t *devices = t->layout.splits[op].devices, run = t->machine.devices_per_node;
    for (int32_t d = 0; d < n; d++)
        devices[d] = t->windows_outermost ? (d / run * n_groups + group) * run + d % run
                                          : devices[d] + group * n;
}

/* Equal groups of devices, one stage each or two by turns. */
static bool draw_stages(fold_trial *t, int32_t n_groups) {
    static const cleave_schedule_kind kinds[] = {CLEAVE_SCHEDULE_1F1B, CLEAVE_SCHEDULE_GPIPE,
                                                 CLEAVE_SCHEDULE_ZB_H1,
                                                 CLEAVE_SCHEDULE_INTERLEAVED};
    cleave_schedule *schedule = &t->layout.schedule;
    fold_ok(
        t, cleave_layout_create(&t->model, t->machine.n_devices, &t->arena, &t->layout, &t->error));
    schedule->kind = kinds[fold_below(t, 4)];
    schedule->n_stages = schedule->kind == CLEAVE_SCHEDULE_INTERLEAVED ? 2 * n_groups : n_groups;
    schedule->first_operator = CLEAVE_ARENA_ARRAY(&t->arena, int32_t, schedule->n_stages);
    if (schedule->n_stages > t->model.n_operators)
        return false;
    for (int32_t s = 0; s < schedule->n_stages; s++)
        schedule->first_operator[s] = t->model.n_operators * s / schedule->n_stages;
    for (int32_t op = 0; op < t->model.n_operators; op++)
        draw_staged_split(t, op, cleave_schedule_stage_of(schedule, op) % n_groups, n_groups);
    draw_fold_rules(t);
    schedule->micro_batches = n_groups * (1 + fold_below(t, 4));
    for (int32_t op = 0; op < t->model.n_operators; op++) {
        t->layout.recompute[op] = fold_below(t, 3) == 0;
        if (t->layout.recompute[op] &&
            cleave_layout_check(&t->model, &t->layout, NULL) != CLEAVE_OK)
            t->layout.recompute[op] = false;
    }
    return cleave_layout_check(&t->model, &t->layout, NULL) == CLEAVE_OK;
}

/* Three micro-batches of the window tell what all of it do. */
static void compare_few(fold_trial *t) {
    cleave_lower_options options = {
        .training = true, .symbolic_collectives = true, .optimizer_states = 1};
    cleave_fold fold;
    cleave_few few;
    cleave_cost_cache *cache;
    int64_t step = 0;
    if (!cleave_few_tell(&t->layout))
        return;
    fold_outcome all = simulate_fold(t, true, false);
    fold_ok(t, cleave_cost_cache_create(&t->model, &t->machine, &cache, &t->error));
    fold_ok(t, cleave_fold_find(&t->model, &t->layout, t->machine.devices_per_node, &t->arena,
                                &fold, &t->error));
    fold_ok(t, cleave_few_lower(&t->model, &t->layout, &fold, &options, NULL, &t->arena, &few,
                                &t->error));
    fold_ok(t, cleave_few_simulate(&few, cache, &t->arena, &step, &t->error));
    if (step >= 0)
        cr_assert_eq(step, all.step[CLEAVE_RULE_SCAN], "%s: by three", t->name);
    cr_assert_eq(cleave_program_own_bytes(&few.whole), cleave_program_own_bytes(&all.program), "%s",
                 t->name);
    for (int32_t d = 0; d < all.program.n_devices; d++)
        cr_assert_eq(few.whole.peak_bytes[d], all.program.peak_bytes[d], "%s", t->name);
    cleave_cost_cache_destroy(cache);
}

/* Every operator is split by its samples alone. */
static void split_samples(fold_trial *t) {
    for (int32_t op = 0; op < t->model.n_operators; op++) {
        cleave_split *split = &t->layout.splits[op];
        int32_t degree[CLEAVE_MAX_AXES] = {0};
        int sample = sample_axis(&t->model.operators[op]);
        if (sample >= 0)
            degree[sample] = split->n_parts;
        fold_ok(t, cleave_layout_set(&t->layout, op, sample < 0 ? split->n_parts : 1, degree,
                                     split->devices, &t->arena, &t->error));
    }
}

Test(folded, equals_full_in_stages_and_micro_batches) {
    static const char *const models[] = {"mlp", "lenet5", "byte_gpt"};
    int folds[3] = {0}, rails = 0;
    for (int round = 0; round < n_draws(160); round++) {
        fold_trial t = {.random = {.key = seed_from(9000 + (uint64_t)round)}};
        int model = round % 8 == 0 ? 2 : round % 2;
        int32_t n_groups = 1 + fold_below(&t, 3),
                per_group = 3 + fold_below(&t, model == 2 ? 1 : 3);
        bool on_rails = n_groups > 1 && fold_below(&t, 2) == 0;
        snprintf(t.name, sizeof t.name, "%s in stages, round %d", models[model], round);
        if (on_rails)
            make_rails(&t, n_groups * (per_group = 4));
        else
            make_fold_machine(&t, n_groups * per_group, 1 << fold_below(&t, 2),
                              fold_below(&t, 4) == 0, false);
        import_to_fold(&t, models[model], n_groups * 12 * (int64_t)t.machine.n_devices);
        bool drawn = draw_stages(&t, n_groups);
        if (drawn && on_rails && fold_below(&t, 4) > 0)
            split_samples(&t);
        if (drawn && compare_folded(&t, false, NULL)) {
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
static bool draw_shards(fold_trial *t) {
    bool all = fold_below(t, 2) == 0;
    int32_t what = 1 + fold_below(t, 3);
    for (int32_t p = 0; p < t->model.n_tensors; p++)
        if (t->model.tensors[p].kind == CLEAVE_TENSOR_PARAMETER &&
            t->model.tensors[p].view.kind == CLEAVE_VIEW_NONE)
            t->layout.sharded[p] = (uint8_t)(all ? what : fold_below(t, 4));
    for (int32_t p = 0; p < t->model.n_tensors && fold_below(t, 4) > 0; p++)
        if (t->model.tensors[p].shape[0] == 10)
            t->layout.sharded[p] = 0;
    return cleave_layout_check(&t->model, &t->layout, NULL) == CLEAVE_OK;
}

/* Seeds of which devices with less of shares took more memory than others when each planned for
   what it has alone: less of a buffer may lie worse. */
static const uint64_t lay_worse[] = {1014045, 3014141, 3014153};
enum { N_LAY_WORSE = sizeof lay_worse / sizeof lay_worse[0] };

/* Shares of all windows are reduced and gathered together, those of other stages by their groups.
 */
Test(folded, equals_full_with_sharded_state) {
    int folds[4] = {0}, staged = 0, n_less = 0;
    for (int round = -N_LAY_WORSE; round < n_draws(60); round++) {
        fold_trial t = {.random = {.key = round < 0 ? lay_worse[round + N_LAY_WORSE]
                                                    : seed_from(14000 + (uint64_t)round)}};
        int32_t n_groups = 1 + fold_below(&t, 2), per_node = 1 << fold_below(&t, 2);
        const char *model = t.random.key % 2 == 0 ? "byte_gpt" : "mlp";
        snprintf(t.name, sizeof t.name, "%s sharded, round %d", model, round);
        make_fold_machine(&t, n_groups * (2 << fold_below(&t, 3)), per_node, fold_below(&t, 4) == 0,
                          false);
        import_to_fold(&t, model, 4 * (int64_t)t.machine.n_devices);
        bool drawn = n_groups == 1 && fold_below(&t, 2) == 0 ? draw_fold_layout(&t)
                                                             : draw_stages(&t, n_groups);
        if (drawn && fold_below(&t, 3) > 0)
            split_samples(&t);
        if (drawn && draw_shards(&t) && compare_folded(&t, false, &n_less)) {
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
static void import_tied(fold_trial *t, int64_t batch) {
    static const char text[] =
        "{\"architectures\": [\"GPT2LMHeadModel\"], \"model_type\": \"gpt2\", \"n_embd\": 8, "
        "\"n_inner\": 16, \"n_head\": 2, \"n_layer\": 2, \"vocab_size\": 192, \"n_positions\": 4, "
        "\"activation_function\": \"gelu_new\", \"attn_pdrop\": 0.0, \"resid_pdrop\": 0.0, "
        "\"embd_pdrop\": 0.0, \"layer_norm_epsilon\": 1e-05}";
    const cleave_import_request request = config_request(text, batch, 4);
    fold_ok(t, cleave_model_import_as(&request, &t->arena, &t->model, &t->error));
}

/* The update of the table alone. */
static void shard_table(fold_trial *t) {
    for (int32_t p = 0; p < t->model.n_tensors; p++)
        t->layout.sharded[p] = t->model.tensors[p].kind == CLEAVE_TENSOR_PARAMETER &&
                               t->model.tensors[p].view.kind == CLEAVE_VIEW_NONE &&
                               t->model.tensors[p].shape[0] == 192;
}

/* Which all of these share out: of each group those of all windows.  On rails they
   go round over links between groups that only some windows have to take. */
Test(folded, equals_full_where_groups_share_a_table) {
    int folds = 0, rails = 0, n_less = 0;
    for (int round = 0; round < n_draws(90); round++) {
        bool on_rails = round >= 30;
        fold_trial t = {.random = {.key = seed_from(17000 + (uint64_t)round)}};
        int32_t n_groups = 2 + fold_below(&t, 2), per_node = 1 << fold_below(&t, 2);
        snprintf(t.name, sizeof t.name, "shared table, round %d", round);
        if (on_rails)
            make_rails(&t, n_groups * 4);
        else
            make_fold_machine(&t, n_groups * (2 << fold_below(&t, 2)), per_node,
                              fold_below(&t, 4) == 0, false);
        import_tied(&t, 4 * (int64_t)t.machine.n_devices);
        bool drawn = draw_stages(&t, n_groups);
        if (drawn && fold_below(&t, 3) > 0)
            split_samples(&t);
        shard_table(&t);
        if (drawn && compare_folded(&t, false, &n_less)) {
            folds += !on_rails;
            rails += on_rails;
            compare_few(&t);
        }
        cleave_arena_free(&t.arena);
    }
    printf("%d folds, %d on rails; %d devices have less than others\n", folds, rails, n_less);
    cr_assert_geq(folds, 5);  /* 10 to 12 of 30 in most draws */
    cr_assert_geq(rails, 10); /* 16 to 21 of 60 */
}

/* Devices in the same places of their groups, group after group. */
static void place_groups_outermost(fold_trial *t, int32_t n_groups) {
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
    for (int round = 0; round < n_draws(120); round++) {
        fold_trial t = {.random = {.key = seed_from(21000 + (uint64_t)round)},
                        .windows_outermost = true};
        int32_t n_groups = 2 << fold_below(&t, 2), n_windows = 3, per_node = 2 << fold_below(&t, 2);
        snprintf(t.name, sizeof t.name, "windows outermost, round %d", round);
        make_rails_of(&t, n_groups * n_windows, per_node);
        bool tied = round % 3 == 0;
        int64_t batch = n_groups * 12 * (int64_t)t.machine.n_devices;
        if (tied)
            import_tied(&t, batch);
        else
            import_to_fold(&t, models[round % 8 == 1 ? 2 : round % 2], batch);
        bool drawn = draw_stages(&t, n_groups);
        if (drawn && fold_below(&t, 4) > 0)
            split_samples(&t);
        if (tied)
            shard_table(&t);
        if (drawn && compare_folded(&t, false, NULL)) {
            folds++;
            shared += tied;
            compare_few(&t);
            place_groups_outermost(&t, n_groups);
            alone += !compare_folded(&t, false, NULL);
        }
        cleave_arena_free(&t.arena);
    }
    printf("%d folds, %d of a shared table; %d do not where groups lie outermost\n", folds, shared,
           alone);
    cr_assert_gt(folds, 20);
    cr_assert_gt(shared, 5);
    cr_assert_gt(alone, 5);
}
