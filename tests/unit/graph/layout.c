/* Layouts: what the validator refuses, and that everything drawn at random is legal and varied. */
#include "graph/model/layout.h"
#include "../../support/ok.h"

#include <criterion/criterion.h>
#include <string.h>

/* A convolution n=8 k=6 h=5 r=3 (whole) and a dense layer n=8 k=4 c=3; only what layouts look at.
 */
static cleave_operator operators[] = {
    {.name = "conv",
     .n_axes = 4,
     .axes = {{"n", 8, false}, {"k", 6, false}, {"h", 5, false}, {"r", 3, true}}},
    {.name = "dense", .n_axes = 3, .axes = {{"n", 8, false}, {"k", 4, false}, {"c", 3, false}}}};
static cleave_tensor tensors[] = {{.name = "x", .kind = CLEAVE_TENSOR_DATA},
                                  {.name = "weight", .kind = CLEAVE_TENSOR_PARAMETER}};
static const cleave_model model = {.file = "hand.onnx",
                                   .hash = "0123456789abcdef0123456789abcdef",
                                   .n_operators = 2,
                                   .operators = operators,
                                   .n_tensors = 2,
                                   .tensors = tensors};

static cleave_arena arena;
static cleave_layout layout;

static void set_up(void) { OK(cleave_layout_create, &model, 4, &arena, &layout); }
static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(layout, .init = set_up, .fini = tear_down);

static void set(int32_t op, int32_t replicas, const int32_t *degree, const int32_t *devices) {
    int32_t degrees[CLEAVE_MAX_AXES] = {0};
    memcpy(degrees, degree, 4 * sizeof *degree);
    OK(cleave_layout_set, &layout, op, replicas, degrees, devices, &arena);
}

static void expect_refused(const char *message) {
    cleave_error error = {""};
    cr_expect_eq(cleave_layout_check(&model, &layout, &error), CLEAVE_BAD_INPUT);
    cr_expect_str_eq(error.message, message);
}

Test(layout, a_new_layout_is_legal_and_all_on_device_0) {
    OK(cleave_layout_check, &model, &layout);
    for (int32_t op = 0; op < 2; op++) {
        cr_expect_eq(layout.splits[op].n_parts, 1);
        cr_expect_eq(layout.splits[op].devices[0], 0);
    }
}

Test(layout, parts_are_replicas_times_degrees) {
    set(0, 2, (int32_t[4]){1, 2}, (int32_t[4]){3, 1, 0, 2});
    cr_expect_eq(layout.splits[0].n_parts, 4);
    OK(cleave_layout_check, &model, &layout);
}

Test(layout, a_count_of_parts_that_overflows_is_refused) {
    /* 65536 x 65536 = 2^32 does not fit an int32. */
    int32_t degrees[CLEAVE_MAX_AXES] = {65536, 65536}, n_parts;
    cleave_error error = {""};
    cr_expect_eq(cleave_layout_set(&layout, 0, 1, degrees, NULL, &arena, &error), CLEAVE_BAD_INPUT);
    cr_expect_not(cleave_split_count(2, 1, degrees, &n_parts));
}

Test(layout, a_degree_above_the_extent_is_refused) {
    set(1, 1, (int32_t[4]){1, 1, 4}, (int32_t[4]){0, 1, 2, 3});
    expect_refused("operator \"dense\": degree 4 of axis c is above its extent 3");
}

Test(layout, a_whole_axis_is_not_split) {
    set(0, 1, (int32_t[4]){1, 1, 1, 2}, (int32_t[2]){0, 1});
    expect_refused("operator \"conv\": axis r can't be split, but its degree is 2");
}

Test(layout, degrees_and_replicas_below_one_are_refused) {
    layout.splits[0].degree[1] = -1;
    expect_refused("operator \"conv\": degree -1 of axis k is below 1");
    layout.splits[0].replicas = 0;
    expect_refused("operator \"conv\": 0 replicas, but at least 1 is needed");
}

Test(layout, devices_out_of_range_are_refused) {
    set(1, 1, (int32_t[4]){2}, (int32_t[2]){0, 4});
    expect_refused("operator \"dense\": device 4 is not in the range 0 to 3");
    set(1, 1, (int32_t[4]){2}, (int32_t[2]){-1, 0});
    expect_refused("operator \"dense\": device -1 is not in the range 0 to 3");
}

Test(layout, a_device_with_two_parts_is_refused) {
    set(0, 1, (int32_t[4]){3}, (int32_t[3]){2, 0, 2});
    expect_refused("operator \"conv\": device 2 has two parts");
}

Test(layout, more_parts_than_devices_are_refused) {
    set(0, 1, (int32_t[4]){5}, (int32_t[5]){0, 1, 2, 3, 4});
    expect_refused("operator \"conv\": its replicas and degrees give 5 parts, more parts than "
                   "there are devices (4)");
}

Test(layout, a_count_of_devices_that_is_not_that_of_the_parts_is_refused) {
    layout.splits[0].degree[0] = 2;
    expect_refused("operator \"conv\": 2 parts by its replicas and degrees, but it has 1 devices");
}

Test(layout, a_layout_for_another_model_is_refused) {
    layout.model_hash[0] = 'f';
    expect_refused("the layout was made for another model: its hash is "
                   "f123456789abcdef0123456789abcdef, that of hand.onnx is "
                   "0123456789abcdef0123456789abcdef");
}

Test(layout, a_layout_with_another_number_of_operators_is_refused) {
    layout.n_operators = 1;
    expect_refused("the layout has 1 operators, but the model has 2");
}

Test(layout, only_parameters_have_sharded_updates) {
    layout.sharded[1] = true;
    OK(cleave_layout_check, &model, &layout);
    layout.sharded[0] = true;
    expect_refused("the update of \"x\" can't be sharded: it is no parameter");
}

Test(layout, no_devices_or_too_many_are_refused) {
    cr_expect_eq(cleave_layout_create(&model, 0, &arena, &layout, NULL), CLEAVE_BAD_INPUT);
    cr_expect_eq(cleave_layout_create(&model, CLEAVE_MAX_DEVICES + 1, &arena, &layout, NULL),
                 CLEAVE_BAD_INPUT);
}

Test(layout, a_copy_shares_nothing_that_changes) {
    set(0, 1, (int32_t[4]){2}, (int32_t[2]){0, 1});
    cleave_layout copy;
    OK(cleave_layout_copy, &layout, &model, &arena, &copy);
    layout.splits[0].devices[0] = 3;
    layout.sharded[1] = true;
    cr_expect_eq(copy.splits[0].devices[0], 0);
    cr_expect_not(copy.sharded[1]);
    OK(cleave_layout_check, &model, &copy);
}

Test(layout, random_layouts_are_legal) {
    cleave_error error = {""};
    for (uint64_t seed = 0; seed < 5000; seed++) {
        int32_t n_devices = 1 + (int32_t)(seed % 9);
        OK(cleave_layout_random, &model, n_devices, seed, &arena, &layout);
        cr_assert_eq(cleave_layout_check(&model, &layout, &error), CLEAVE_OK, "seed %llu: %s",
                     (unsigned long long)seed, error.message);
    }
}

Test(layout, equal_seeds_draw_equal_layouts_and_others_differ) {
    int differ = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        cleave_layout again, other;
        cleave_layout_random(&model, 8, seed, &arena, &layout, NULL);
        cleave_layout_random(&model, 8, seed, &arena, &again, NULL);
        cleave_layout_random(&model, 8, seed + 1000, &arena, &other, NULL);
        for (int32_t op = 0; op < 2; op++) {
            const cleave_split *a = &layout.splits[op], *b = &again.splits[op];
            cr_assert_arr_eq(a->degree, b->degree, sizeof a->degree);
            cr_assert_eq(a->replicas, b->replicas);
            cr_assert_arr_eq(a->devices, b->devices, (size_t)a->n_parts * sizeof *a->devices);
        }
        cr_assert_eq(layout.collectives.n, again.collectives.n);
        for (int32_t r = 0; r < layout.collectives.n; r++)
            cr_assert_eq(layout.collectives.items[r].algorithm,
                         again.collectives.items[r].algorithm);
        cr_assert_eq(layout.sharded[1], again.sharded[1]);
        differ += memcmp(layout.splits[0].degree, other.splits[0].degree,
                         sizeof other.splits[0].degree) != 0 ||
                  layout.splits[0].devices[0] != other.splits[0].devices[0];
    }
    cr_expect_gt(differ, 100);
}

/* Every kind of split that is promised shows up among 2000 draws for 8 devices. */
Test(layout, random_splits_reach_every_kind) {
    bool axis_split[3] = {false}, replicated = false, one_part = false, all_devices = false,
         uneven = false, unordered = false, unaligned = false, sharded = false, direct = false,
         algorithm[CLEAVE_N_ALGORITHMS] = {false};
    for (uint64_t seed = 0; seed < 2000; seed++) {
        cleave_layout_random(&model, 8, seed, &arena, &layout, NULL);
        const cleave_split *split = &layout.splits[0];
        for (int a = 0; a < 3; a++)
            axis_split[a] = axis_split[a] || split->degree[a] > 1;
        replicated = replicated || split->replicas > 1;
        one_part = one_part || split->n_parts == 1;
        all_devices = all_devices || split->n_parts == 8;
        uneven = uneven || split->degree[0] == 3;
        for (int32_t p = 1; p < split->n_parts; p++)
            unordered = unordered || split->devices[p] < split->devices[p - 1];
        unaligned = unaligned || (split->n_parts == 4 && split->devices[0] % 4 != 0);
        sharded = sharded || layout.sharded[1];
        direct = direct || layout.collectives.direct;
        for (int32_t r = 0; r < layout.collectives.n; r++)
            algorithm[layout.collectives.items[r].algorithm] = true;
    }
    cr_expect(axis_split[0] && axis_split[1] && axis_split[2]);
    cr_expect(replicated && one_part && all_devices && uneven && unordered && unaligned);
    cr_expect(sharded && direct);
    for (int a = 0; a < CLEAVE_ALGORITHM_DIRECT; a++)
        cr_expect(algorithm[a], "algorithm %d", a);
}
