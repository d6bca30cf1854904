/* What plans of stages count is what their layouts need: the memory of the program that each is
   lowered to, as its memory plan has it. */
#include "../../support/config_request.h"
#include "../../support/ok.h"
#include "../../support/shipped.h"
#include "costmodel/cost.h"
#include "graph/import/import.h"
#include "graph/lower/lower.h"
#include "graph/model/attention.h"
#include "search/pipeline/joint.h"
#include "search/pipeline/stages.h"
#include "search/problem/problem.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N_DEVICES = 8, MICRO_BATCHES = 8 };

static cleave_arena arena;
static cleave_model model;
static cleave_machine machine;
static cleave_problem problem;
static cleave_few_blocks few;
static int32_t *joined;

/* A GPT whose activations weigh as much as its state; its table is read by the first and by the
   last stage. */
static void set_up(void) {
    static const char config[] =
        "{\"architectures\": [\"GPT2LMHeadModel\"], \"model_type\": \"gpt2\", \"n_embd\": 256, "
        "\"n_inner\": 1024, \"n_head\": 8, \"n_layer\": 8, \"vocab_size\": 1024, "
        "\"n_positions\": 256, \"activation_function\": \"gelu_new\", \"attn_pdrop\": 0.0, "
        "\"resid_pdrop\": 0.0, \"embd_pdrop\": 0.0, \"layer_norm_epsilon\": 1e-05}";
    cleave_import_request request = config_request(config, 64, 256);
    request.precision = "bf16";
    OK(cleave_model_import_as, &request, &arena, &model);
    OK(cleave_model_fuse_attention, &model, NULL, &arena, &model);
    OK(shipped_machine, "a100-128x8", N_DEVICES, &arena, &machine);
    OK(cleave_problem_create, &model, &machine, NULL, &arena, &problem);
    OK(cleave_few_blocks_make, &model, &problem.blocks, &arena, &few);
    OK(cleave_stage_joined, &model, &arena, &joined);
}

static void tear_down(void) { cleave_arena_free(&arena); }

TestSuite(joint_plans, .init = set_up, .fini = tear_down);

/* Bytes of the fullest device's arena. */
static int64_t needs(const cleave_joint_plan *plan) {
    const cleave_lower_options lower = {.training = true,
                                        .symbolic_collectives = true,
                                        .optimizer_states = 2,
                                        .workspace = cleave_cost_workspace,
                                        .workspace_context = &machine};
    cleave_arena scratch = {0};
    cleave_layout layout;
    cleave_program program;
    int64_t most = 0;
    OK(cleave_joint_plan_layout, &model, plan, N_DEVICES, &scratch, &layout);
    OK(cleave_layout_check, &model, &layout);
    OK(cleave_lower, &model, &layout, &lower, &scratch, &program);
    for (int32_t d = 0; d < program.n_devices; d++)
        most = program.peak_bytes[d] > most ? program.peak_bytes[d] : most;
    cleave_arena_free(&scratch);
    return most;
}

/* On its fullest device. */
static int64_t counted_of(const cleave_joint_plan *plan) {
    int64_t most = 0;
    for (int32_t g = 0; g < plan->n_groups; g++)
        most = plan->bytes[g] > most ? plan->bytes[g] : most;
    return most;
}

/* Data parallel and products of 2 and 4 devices, from the quickest plan to the leanest, on two
   groups of four devices: products that are shared gather what they read, and keep it. */
Test(joint_plans, count_the_memory_that_their_layouts_need) {
    static const cleave_schedule_kind kinds[] = {CLEAVE_SCHEDULE_1F1B, CLEAVE_SCHEDULE_ZB_H1,
                                                 CLEAVE_SCHEDULE_GPIPE, CLEAVE_SCHEDULE_INTERLEAVED,
                                                 CLEAVE_SCHEDULE_ZB_INTERLEAVED};
    const cleave_group_problem of = {.model = &model,
                                     .few = &few,
                                     .machine = &machine,
                                     .optimizer_states = 2,
                                     .recompute = -1,
                                     .sharded = CLEAVE_SHARDED_UPDATE,
                                     .memory_bytes = INT64_C(64) << 20};
    cleave_group group = {0};
    int64_t *sends = CLEAVE_ARENA_ARRAY(&arena, int64_t, model.n_operators);
    OK(cleave_group_create, &of, N_DEVICES / 2, MICRO_BATCHES, 2, false, &arena, &group);
    cr_assert_geq(group.n_families, 3);
    for (int32_t op = 0; op < model.n_operators; op++)
        sends[op] = (1 + op % 3) * INT64_C(1000000000);
    for (int32_t f = 0; f < group.n_families; f++)
        for (int k = 0; k < 5; k++)
            for (int lean = 0; lean < 2; lean++) {
                cleave_joint_shape shape = {.n_groups = 2,
                                            .n_virtual =
                                                1 + cleave_schedule_kind_goes_round(kinds[k]),
                                            .kind = kinds[k],
                                            .family = f,
                                            .most_bytes = INT64_C(1) << 40,
                                            .sends = sends,
                                            .joined = joined};
                cleave_joint_plan plan;
                bool fits;
                OK(cleave_joint_plan_make, &model, &group, &shape, &arena, &plan, &fits);
                cr_assert(fits);
                shape.most_bytes = counted_of(&plan) * 3 / 4;
                if (lean)
                    OK(cleave_joint_plan_make, &model, &group, &shape, &arena, &plan, &fits);
                if (!fits)
                    continue;
                double least;
                OK(cleave_joint_least_seconds, &model, &group, &shape, &least);
                cr_expect(least > 0 && least <= plan.seconds * (1 + 1e-9),
                          "family %d, %s, %d: %g s foreseen, and no less than %g", f,
                          cleave_schedule_names[kinds[k]], lean, plan.seconds, least);
                double counted = (double)counted_of(&plan), needed = (double)needs(&plan);
                printf("family %d, %s%s: %.1f MB counted, %.1f needed; %g s, at least %g\n", f,
                       cleave_schedule_names[kinds[k]], lean ? ", lean" : "", counted / 1e6,
                       needed / 1e6, plan.seconds, least);
                cr_expect(fabs(counted / needed - 1) < 0.13, "family %d, %s, %d: %.0f of %.0f", f,
                          cleave_schedule_names[kinds[k]], lean, counted, needed);
            }
}

/* Left out for their work, the least of them as soon as that is allowed, and all in the end. */
Test(joint_plans, families_that_come_later_are_as_made_at_once) {
    cleave_group_problem of = {.model = &model,
                               .few = &few,
                               .machine = &machine,
                               .optimizer_states = 2,
                               .recompute = -1,
                               .sharded = -1,
                               .memory_bytes = INT64_C(64) << 20};
    cleave_group at_once = {0}, later = {0};
    int32_t n_there = 0;
    OK(cleave_group_create, &of, N_DEVICES / 2, MICRO_BATCHES, 2, false, &arena, &at_once);
    cr_expect_eq(at_once.least_seconds, 0);
    of.most_seconds = 1e-12;
    OK(cleave_group_create, &of, N_DEVICES / 2, MICRO_BATCHES, 2, false, &arena, &later);
    cr_assert_eq(later.n_families, at_once.n_families);
    for (int32_t f = 0; f < later.n_families; f++)
        cr_expect_eq(later.families[f].n_plans, 0);
    of.most_seconds = later.least_seconds;
    OK(cleave_group_create, &of, N_DEVICES / 2, MICRO_BATCHES, 2, false, &arena, &later);
    const cleave_group some = later;
    for (int32_t f = 0; f < some.n_families; f++)
        n_there += some.families[f].n_plans > 0;
    cr_assert(n_there > 0 && n_there < some.n_families, "%d of %d", n_there, some.n_families);
    cr_expect_gt(some.least_seconds, of.most_seconds);
    of.most_seconds = some.least_seconds * 1e6;
    OK(cleave_group_create, &of, N_DEVICES / 2, MICRO_BATCHES, 2, false, &arena, &later);
    cr_expect_eq(later.least_seconds, 0);
    for (int32_t f = 0; f < later.n_families; f++) {
        const cleave_group_family *made = &later.families[f], *as = &at_once.families[f];
        cr_assert_eq(made->n_plans, as->n_plans, "family %d", f);
        cr_expect(some.families[f].n_plans == 0 ||
                  made->plans[0].time == some.families[f].plans[0].time);
        for (int32_t i = 0; i < made->n_plans; i++)
            cr_expect_arr_eq(made->plans[i].time, as->plans[i].time,
                             (size_t)few.model.n_operators * sizeof *as->plans[i].time);
    }
}

static void make_group(int32_t n_groups, int32_t micro_batches, cleave_group *group) {
    const cleave_group_problem of = {.model = &model,
                                     .few = &few,
                                     .machine = &machine,
                                     .optimizer_states = 2,
                                     .recompute = -1,
                                     .sharded = -1,
                                     .memory_bytes = INT64_C(64) << 20};
    OK(cleave_group_create, &of, N_DEVICES / n_groups, micro_batches, n_groups, false, &arena,
       group);
}

/* A group that has turned out to need more than is counted has less room, and the others keep
   theirs. */
Test(joint_plans, only_groups_without_room_are_leaner) {
    cleave_group group = {0};
    int64_t *zero = calloc((size_t)model.n_operators, sizeof *zero);
    make_group(2, MICRO_BATCHES, &group);
    for (int32_t lacks = 0; lacks < 2; lacks++) {
        cleave_joint_shape shape = {.n_groups = 2,
                                    .n_virtual = 1,
                                    .kind = CLEAVE_SCHEDULE_1F1B,
                                    .most_bytes = INT64_C(1) << 40,
                                    .sends = zero};
        cleave_joint_plan all, leaner;
        bool fits;
        OK(cleave_joint_plan_make, &model, &group, &shape, &arena, &all, &fits);
        cr_assert(fits);
        int64_t most_of[] = {all.bytes[0], all.bytes[1]};
        most_of[lacks] = most_of[lacks] / 10 * 9;
        shape.most_of = most_of;
        OK(cleave_joint_plan_make, &model, &group, &shape, &arena, &leaner, &fits);
        cr_assert(fits, "group %d", lacks);
        cr_expect_leq(leaner.bytes[lacks], most_of[lacks], "group %d", lacks);
        cr_expect_leq(leaner.bytes[1 - lacks], most_of[1 - lacks], "group %d", lacks);
        cr_expect_geq(leaner.seconds, all.seconds, "group %d", lacks);
    }
    free(zero);
}

/* The least memory that a plan of a kind is made for, of all recomputed. */
static int64_t least_memory(const cleave_group *group, cleave_schedule_kind kind,
                            const int64_t *sends, cleave_joint_plan *plan) {
    int64_t least = 0, most = INT64_C(1) << 40;
    while (most - least > 100000) {
        cleave_joint_shape shape = {.n_groups = N_DEVICES,
                                    .n_virtual = 1,
                                    .kind = kind,
                                    .most_bytes = least + (most - least) / 2,
                                    .sends = sends,
                                    .joined = joined};
        cleave_joint_plan made;
        bool fits;
        OK(cleave_joint_plan_make, &model, group, &shape, &arena, &made, &fits);
        *(fits ? &most : &least) = shape.most_bytes;
        *plan = fits ? made : *plan;
    }
    return most;
}

/* What gradients of weights read is recomputed for them: the last of eight groups would keep all
   of it of eight micro-batches, where it has one in flight.  Where nothing is put off that is one,
   of a layer's recomputation all of a stage's. */
Test(joint_plans, put_off_no_more_gradients_of_weights_than_have_room) {
    const cleave_group_problem of = {.model = &model,
                                     .few = &few,
                                     .machine = &machine,
                                     .optimizer_states = 2,
                                     .recompute = CLEAVE_RECOMPUTE_FULL,
                                     .sharded = CLEAVE_SHARDED_NOTHING,
                                     .memory_bytes = INT64_C(64) << 20};
    cleave_group group = {0};
    cleave_joint_plan usual, parted = {0};
    int64_t *sends = CLEAVE_ARENA_ARRAY(&arena, int64_t, model.n_operators);
    OK(cleave_group_create, &of, 1, MICRO_BATCHES, N_DEVICES, false, &arena, &group);
    int64_t least = least_memory(&group, CLEAVE_SCHEDULE_1F1B, sends, &usual);
    int64_t with = least_memory(&group, CLEAVE_SCHEDULE_ZB_H1, sends, &parted);
    int64_t needed = needs(&parted);
    cr_expect_eq(parted.sooner, N_DEVICES - 1);
    cr_expect_lt(with, least * 8 / 5);
    cr_expect_lt(needed, with);
    parted.sooner = 0;
    cr_expect_gt(needs(&parted), 2 * needed, "%lld, and %lld", (long long)needs(&parted),
                 (long long)needed);
}

static void make_whole(cleave_group *group) { make_group(1, 1, group); }

/* Of weights that are there whole, but updated in shares, each share is sent behind its update. */
Test(joint_plans, send_behind_updates_what_is_there_whole) {
    cleave_group group = {0};
    int n_behind = 0;
    make_whole(&group);
    for (int32_t i = 0; i < group.families[0].n_plans; i++) {
        const cleave_group_plan *plan = &group.families[0].plans[i];
        for (int32_t op = 0; op < model.n_operators; op++) {
            int32_t at = group.stands_for[op];
            bool is_whole = plan->sharded[at] == CLEAVE_SHARDED_UPDATE ||
                            plan->sharded[at] == CLEAVE_SHARDED_GRADIENT;
            if (plan->sharded[at] == CLEAVE_SHARDED_WEIGHT)
                continue; /* but its bias is whole */
            cr_expect(is_whole == (plan->behind[at] > 0), "plan %d, %s, sharded %d: %lld ps", i,
                      model.operators[op].name, plan->sharded[at], (long long)plan->behind[at]);
            n_behind += is_whole;
        }
    }
    cr_expect_gt(n_behind, 0);
}

/* Two plans of n operators: one of 100 ps and bytes each, with 100 ps left behind updates, and one
   of 101 ps and 50 bytes with nothing left.  The second takes 101 n ps, the first, where all of it
   has room, 200 n, and half of each, where there is room for 75 n bytes, 150.5 n. */
Test(joint_plans, mix_no_more_than_is_quicker) {
    cleave_group group = {0};
    int32_t n = model.n_operators;
    int64_t *zero = CLEAVE_ARENA_ARRAY(&arena, int64_t, n);
    make_whole(&group);
    group.families[0].n_plans = 2;
    for (int i = 0; i < 2; i++) {
        cleave_group_plan *plan = &group.families[0].plans[i];
        plan->beside = plan->once = plan->kept = plan->tied = plan->across = plan->late =
            plan->wrote = plan->passing = zero;
        for (int32_t op = 0; op < n; op++) {
            int32_t at = group.stands_for[op];
            plan->time[at] = i == 0 ? 100 : 101;
            plan->behind[at] = i == 0 ? 100 : 0;
            plan->stays[at] = i == 0 ? 100 : 50;
        }
    }
    for (int32_t each = 50; each <= 125; each += 25) {
        const cleave_joint_shape shape = {
            .n_groups = 1, .n_virtual = 1, .most_bytes = (int64_t)each * n, .sends = zero};
        cleave_joint_plan plan;
        bool fits;
        OK(cleave_joint_plan_make, &model, &group, &shape, &arena, &plan, &fits);
        cr_expect(fits && fabs(plan.seconds / (101e-12 * n) - 1) < 1e-9, "%d bytes: %g, not %g",
                  each, plan.seconds, 101e-12 * n);
    }
}

/* What two groups are foreseen to take, ps, whose operators take 1000 each and who wait so long for
   each other in each micro-batch; `slowest`, where not null: the larger one's operators. */
static double foresee(const cleave_group *group, cleave_schedule_kind kind, int64_t waits,
                      double *slowest) {
    cleave_joint_plan plan;
    bool fits;
    int32_t n = model.n_operators;
    int64_t *sends = CLEAVE_ARENA_ARRAY(&arena, int64_t, n);
    for (int32_t op = 0; op < n; op++)
        sends[op] = MICRO_BATCHES * waits;
    const cleave_joint_shape shape = {.n_groups = 2,
                                      .n_virtual = 1,
                                      .kind = kind,
                                      .most_bytes = 1,
                                      .sends = sends,
                                      .joined = joined};
    OK(cleave_joint_plan_make, &model, group, &shape, &arena, &plan, &fits);
    cr_assert(fits);
    if (slowest != NULL)
        *slowest = 1000 * fmax(plan.first_operator[1], n - plan.first_operator[1]);
    return 1e12 * plan.seconds;
}

/* Forward alone a message goes from group to group once before all micro-batches have what they
   wait for; and where batch follows batch, and a message takes longer than what a group does, it is
   what each micro-batch takes. */
Test(joint_plans, send_whole_messages_forward) {
    cleave_group group = {0};
    int32_t n = model.n_operators;
    int64_t *zero = CLEAVE_ARENA_ARRAY(&arena, int64_t, n);
    int64_t *sends = CLEAVE_ARENA_ARRAY(&arena, int64_t, n);
    double seconds[2][2];
    make_group(2, MICRO_BATCHES, &group);
    cleave_group_plan *plan = &group.families[0].plans[0];
    group.families[0].n_plans = 1;
    plan->beside = plan->once = plan->behind = plan->kept = plan->stays = plan->tied =
        plan->across = plan->late = plan->wrote = plan->passing = zero;
    for (int32_t op = 0; op < n; op++)
        plan->time[group.stands_for[op]] = 10;
    for (int is_stream = 0; is_stream < 2; is_stream++)
        for (int is_long = 0; is_long < 2; is_long++) {
            for (int32_t op = 0; op < n; op++)
                sends[op] = MICRO_BATCHES * (is_long ? 1000 * n : 5);
            const cleave_joint_shape shape = {.n_groups = 2,
                                              .n_virtual = 1,
                                              .is_forward = true,
                                              .is_stream = is_stream == 1,
                                              .most_bytes = 1,
                                              .sends = sends};
            cleave_joint_plan made;
            bool fits;
            OK(cleave_joint_plan_make, &model, &group, &shape, &arena, &made, &fits);
            cr_assert(fits);
            seconds[is_stream][is_long] = made.seconds * 1e12;
        }
    double half = 10 * ceil(n / 2.0);
    cr_expect_float_eq(seconds[0][0], MICRO_BATCHES * half + (10 * n - half) + 5, 1e-3);
    cr_expect_float_eq(seconds[1][0], MICRO_BATCHES * half, 1e-3);
    cr_expect_float_eq(seconds[1][1], MICRO_BATCHES * 1000.0 * n, 1e-3);
}

/* Groups wait for the messages of each micro-batch, and once the first goes from group to group.
   Where gradients of weights are blocks by themselves a tenth is left of the former; or, of what
   takes longer than these, the rest: .8 x .3 of what a group does is hidden, and two thirds of
   1F1B's bubble, which is what the other group does, is none. */
Test(joint_plans, hide_messages_behind_gradients_of_weights) {
    cleave_group group = {0};
    int32_t n = model.n_operators;
    int64_t *zero = CLEAVE_ARENA_ARRAY(&arena, int64_t, n);
    make_group(2, MICRO_BATCHES, &group);
    cleave_group_plan *plan = &group.families[0].plans[0];
    group.families[0].n_plans = 1;
    plan->beside = plan->once = plan->behind = plan->kept = plan->stays = plan->tied =
        plan->across = plan->late = plan->wrote = plan->passing = zero;
    for (int32_t op = 0; op < n; op++)
        plan->time[group.stands_for[op]] = 1000;
    for (int64_t waits = 10; waits <= 100; waits *= 10) {
        double whole = foresee(&group, CLEAVE_SCHEDULE_1F1B, waits, NULL) -
                       foresee(&group, CLEAVE_SCHEDULE_1F1B, 0, NULL);
        double hidden = foresee(&group, CLEAVE_SCHEDULE_ZB_H1, waits, NULL) -
                        foresee(&group, CLEAVE_SCHEDULE_ZB_H1, 0, NULL);
        cr_expect_float_eq(whole, (MICRO_BATCHES + 1) * (double)waits, 1e-3);
        cr_expect_float_eq(hidden, (0.1 * MICRO_BATCHES + 1) * (double)waits, 1e-3);
    }
    double slowest, long_waits = 1000.0 * n;
    double less = foresee(&group, CLEAVE_SCHEDULE_1F1B, (int64_t)long_waits, NULL) -
                  foresee(&group, CLEAVE_SCHEDULE_ZB_H1, (int64_t)long_waits, &slowest);
    double bubble = (1000.0 * n - slowest) * 2 / 3;
    cr_expect_float_eq(less, MICRO_BATCHES * .24 * slowest + bubble, 1e-3,
                       "%g ps less, the slowest group takes %g of %g", less, slowest, 1000.0 * n);
}

/* Of groups that are not alike each has plans of its own: the second one's second is none of the
   first one's. */
Test(joint_plans, are_those_of_their_place) {
    static cleave_group groups[2];
    int32_t first_operator[] = {0, 1, 2, 3};
    uint8_t plan_of[] = {0, 1, 0, 1};
    const cleave_joint_place places[] = {{.group = &groups[0], .family = 0},
                                         {.group = &groups[1], .family = 1}};
    const cleave_joint_plan plan = {.group = &groups[0],
                                    .family = &groups[0].families[0],
                                    .n_groups = 2,
                                    .n_virtual = 2,
                                    .first_operator = first_operator,
                                    .plan_of = plan_of,
                                    .places = places};
    for (int32_t op = 0; op < 4; op++)
        cr_expect_eq(cleave_joint_plan_of(&plan, op),
                     &groups[op % 2].families[op % 2].plans[op % 2]);
}
