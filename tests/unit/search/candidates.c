/* Candidates: which ways there are, that all are legal, and where their parts stand. */
#include "search/problem/candidates.h"
#include "search/problem/drafts.h"
#include "search/problem/goes_with.h"

#include "../../support/perceptron.h"
#include "../../support/test_machine.h"

static cleave_arena arena;
static cleave_model model;
static cleave_machine machine;
static cleave_node_costs *costs;
static cleave_candidates candidates;

/* Candidates of a perceptron of one layer: dense n=8 k=4 c=4, relu n=8 k=4, loss n=8 k=4. */
static void list(int32_t nodes, int32_t devices, const cleave_layout *const *given,
                 int32_t n_given) {
    cleave_error error = {""};
    model = make_perceptron(&arena, 1, 8, 4);
    machine = make_machine(&arena, nodes, devices, "1 GiB");
    cr_assert_eq(cleave_node_costs_create(&model, &machine, &costs, &error), CLEAVE_OK, "%s",
                 error.message);
    cr_assert_eq(cleave_candidates_create(&model, &machine, costs, given, n_given, &arena,
                                          &candidates, &error),
                 CLEAVE_OK, "%s", error.message);
}

static void tear_down(void) {
    cleave_node_costs_destroy(costs);
    cleave_arena_free(&arena);
}
TestSuite(candidates, .fini = tear_down);

static const cleave_candidate_list *of(int32_t op) {
    return &candidates.lists[candidates.list_of[op]];
}

/* On two devices: one device, or two by one of n, k, c or as replicas. */
Test(candidates, two_devices_give_one_way_per_axis_and_one_for_replicas) {
    list(1, 2, NULL, 0);
    cr_expect_eq(of(0)->n, 5);
    cr_expect_eq(of(0)->items[0].n_parts, 1);
    cr_expect_eq(of(0)->items[0].n_starts, 2);
    cr_expect_eq(of(1)->n, 4); /* relu has no c */
    cr_expect_not(candidates.truncated);
}

/* 2 nodes of 2, dense with targets {replicas, n, k, c}: 1 for a single device, 4 for a pair in a
   node, 4 x 4 for all four, since the two factors belong to different levels. */
Test(candidates, levels_are_handed_out_apart) {
    list(2, 2, NULL, 0);
    cr_expect_eq(of(0)->n, 1 + 4 + 16);
}

/* 1 node of 4: the factors 2 and 2 belong to one level, so a choice of targets is a multiset:
   4 + 6 = 10 for all four. */
Test(candidates, devices_of_one_level_are_alike) {
    list(1, 4, NULL, 0);
    cr_expect_eq(of(0)->n, 1 + 4 + 10);
}

static int32_t find(const cleave_candidate_list *l, int32_t n_parts, int32_t n, int32_t k,
                    int32_t second_device) {
    for (int32_t i = 0; i < l->n; i++)
        if (l->items[i].n_parts == n_parts && l->items[i].degree[0] == n &&
            l->items[i].degree[1] == k && l->items[i].offsets[1] == second_device)
            return i;
    return -1;
}

/* n=2 k=2 on 2 nodes of 2.  Parts are row-major: (n0,k0) (n0,k1) (n1,k0) (n1,k1).  With n over
   nodes they stand on 0 1 2 3; with k over nodes and n within them on 0 2 1 3. */
Test(candidates, an_axis_spans_nodes_or_devices_within_one) {
    list(2, 2, NULL, 0);
    int32_t outer = find(of(0), 4, 2, 2, 1), inner = find(of(0), 4, 2, 2, 2);
    cr_assert(outer >= 0 && inner >= 0);
    cr_expect_arr_eq(of(0)->items[outer].offsets, ((int32_t[4]){0, 1, 2, 3}), 4 * sizeof(int32_t));
    cr_expect_arr_eq(of(0)->items[inner].offsets, ((int32_t[4]){0, 2, 1, 3}), 4 * sizeof(int32_t));
}

/* n=4 over 2 nodes of 2: neighbouring blocks of samples stay in a node. */
Test(candidates, one_axis_over_all_levels_is_in_device_order) {
    list(2, 2, NULL, 0);
    int32_t i = find(of(0), 4, 4, 1, 1);
    cr_assert(i >= 0);
    cr_expect_arr_eq(of(0)->items[i].offsets, ((int32_t[4]){0, 1, 2, 3}), 4 * sizeof(int32_t));
}

Test(candidates, every_candidate_at_every_start_is_legal) {
    list(4, 4, NULL, 0);
    int32_t devices[16];
    cleave_error error = {""};
    for (int32_t op = 0; op < model.n_operators; op++)
        for (int32_t i = 0; i < of(op)->n; i++)
            for (int32_t start = 0; start < of(op)->items[i].n_starts; start++) {
                cleave_split split = {.devices = devices};
                cleave_candidate_place(&of(op)->items[i], start, &split);
                cr_assert_eq(cleave_split_check(&model.operators[op], &split, 16, &error),
                             CLEAVE_OK, "%s", error.message);
            }
}

/* k=4 is at most 4 ways, so 16 devices by k alone are no candidate. */
Test(candidates, degrees_stay_within_extents) {
    list(4, 4, NULL, 0);
    for (int32_t i = 0; i < of(0)->n; i++)
        cr_expect(of(0)->items[i].degree[0] <= 8 && of(0)->items[i].degree[1] <= 4);
}

/* Blocks of 3 samples and of 1 feature do not fit a product of prime factors of 4. */
Test(candidates, splits_of_given_layouts_are_added_once) {
    cleave_layout given;
    cleave_arena local = {0};
    cleave_model same = make_perceptron(&local, 1, 8, 4);
    cr_assert_eq(cleave_layout_create(&same, 4, &local, &given, NULL), CLEAVE_OK);
    cleave_layout_set(&given, 0, 1, (int32_t[CLEAVE_MAX_AXES]){3}, (int32_t[3]){3, 0, 1}, &local,
                      NULL);
    cleave_layout_set(&given, 1, 1, (int32_t[CLEAVE_MAX_AXES]){2}, (int32_t[2]){2, 3}, &local,
                      NULL);
    const cleave_layout *both[2] = {&given, &given};
    list(1, 4, both, 2);
    cr_expect_eq(of(0)->n, 1 + 4 + 10 + 1);
    cr_expect_eq(of(1)->n, 1 + 3 + 6); /* n=2 on devices 2, 3 is the second block: known */
    cleave_arena_free(&local);
}

Test(candidates, operators_that_are_alike_share_a_list) {
    cleave_error error = {""};
    model = make_perceptron(&arena, 4, 8, 4);
    machine = make_machine(&arena, 1, 2, "1 GiB");
    cr_assert_eq(cleave_node_costs_create(&model, &machine, &costs, &error), CLEAVE_OK);
    cr_assert_eq(
        cleave_candidates_create(&model, &machine, costs, NULL, 0, &arena, &candidates, &error),
        CLEAVE_OK);
    /* The first layer gives no gradient of its input and stands alone; the others are alike. */
    cr_expect_eq(candidates.list_of[2], candidates.list_of[4]);
    cr_expect_neq(candidates.list_of[0], candidates.list_of[2]);
    cr_expect_eq(candidates.list_of[1], candidates.list_of[3]);
}

/* Roofline of the test machine: 0.5 TFLOP/s, 50 GB/s, 1 us per launch.  dense n=8 k=4 c=4 in one
   piece: forward and weight gradient, 256 flops (0.5 ns) and 8x4 + 4x4 + 8x4 = 80 floats = 320
   bytes, 6.4 ns: 1 us + 6.4 ns each; the first layer needs no input gradient. */
Test(candidates, node_cost_is_the_sum_of_the_passes) {
    list(1, 2, NULL, 0);
    cleave_node_cost cost;
    cr_assert_eq(cleave_node_cost_whole(costs, 0, &cost, NULL), CLEAVE_OK);
    cr_expect_eq(cost.total, 2 * (1000000 + 6400));
    cr_expect_eq(cost.largest, cost.total);
}

/* n=2: each part has 4x4 + 4x4 + 4x4 = 48 floats = 192 bytes, 3.84 ns, a pass. */
Test(candidates, node_cost_of_a_split_is_over_all_parts_and_of_the_busiest) {
    list(1, 2, NULL, 0);
    cleave_node_cost cost;
    cleave_split split = {
        .replicas = 1, .n_parts = 2, .degree = {2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}};
    cr_assert_eq(cleave_node_cost_of(costs, 0, &split, &cost, NULL, NULL), CLEAVE_OK);
    cr_expect_eq(cost.total, 4 * (1000000 + 3840));
    cr_expect_eq(cost.largest, 2 * (1000000 + 3840));
}

/* Of those with replicas, too, which take as much each. */
Test(candidates, ways_alone_have_the_least_of_all_candidates) {
    static const int32_t shapes[][2] = {{2, 2}, {4, 4}, {1, 4}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        cleave_candidates ways;
        int64_t *unknown;
        list(shapes[i][0], shapes[i][1], NULL, 0);
        cleave_problem problem;
        cr_assert_eq(cleave_problem_create(&model, &machine, NULL, &arena, &problem, NULL),
                     CLEAVE_OK);
        cr_assert_eq(cleave_candidates_list_ways(&problem, costs, NULL, &arena, &ways, NULL),
                     CLEAVE_OK);
        for (int32_t l = 0; l < ways.n_lists; l++) {
            cr_expect_eq(ways.lists[l].least_total, candidates.lists[l].least_total);
            cr_expect_arr_eq(ways.lists[l].least, candidates.lists[l].least,
                             (size_t)ways.lists[l].n_least * sizeof *ways.lists[l].least);
            cr_expect_lt(ways.lists[l].n_ways, candidates.lists[l].n_ways);
        }
        int32_t all = ways.lists[0].n_ways;
        unknown = CLEAVE_ARENA_ARRAY(&arena, int64_t, model.n_operators);
        for (int32_t op = 0; op < model.n_operators; op++)
            unknown[op] = INT64_MAX;
        cr_assert_eq(cleave_candidates_list_ways(&problem, costs, unknown, &arena, &ways, NULL),
                     CLEAVE_OK);
        cr_expect_eq(ways.lists[0].least_total, candidates.lists[0].least_total);
        cr_expect_lt(ways.lists[0].n_ways, all);
        tear_down();
        costs = NULL;
        arena = (cleave_arena){0};
    }
}

/* dense n k c and replicas on 2^15 devices, 8 to a node: with i of the factors within nodes and j
   of those between there are C(i + 3, 3) C(j + 3, 3) ways, with 3 and 0 to 12 of them 20 C(16, 4),
   which are more than are listed.  In all there are C(i + 3, 3) with i factors, so C(19, 4). */
Test(candidates, degrees_alone_are_all_listed) {
    model = make_perceptron(&arena, 1, 1 << 16, 1 << 16);
    drafts blocks = {.op = &model.operators[0], .splits = {true, true, true}}, degrees = blocks;
    drafts_take_blocks(&blocks, 1 << 15, 8);
    drafts_take_degrees(&degrees, 1 << 15, 8);
    cr_assert(drafts_make(&blocks) && drafts_make(&degrees));
    cr_expect(blocks.truncated);
    cr_expect_not(degrees.truncated);
    cr_expect_eq(degrees.list.n, 3876);
    CLEAVE_LIST_FREE(&blocks.list);
    CLEAVE_LIST_FREE(&degrees.list);
}

Test(candidates, are_as_many_without_prices) {
    list(8, 4, NULL, 0);
    cleave_candidates unpriced;
    cr_assert_eq(cleave_candidates_create(&model, &machine, NULL, NULL, 0, &arena, &unpriced, NULL),
                 CLEAVE_OK);
    for (int32_t op = 0; op < model.n_operators; op++) {
        const cleave_candidate_list *other = &unpriced.lists[unpriced.list_of[op]];
        cr_expect_eq(cleave_candidates_count(of(op)), cleave_candidates_count(other));
        cr_expect_eq(of(op)->n_splits, other->n_splits);
        cr_expect_eq(of(op)->truncated, other->truncated);
    }
}

/* A product by rows and columns; what follows it is split as its outputs are, and the next product,
   which sums over the columns, by rows and by what it sums over (n k c).  Partial results of that
   hold all columns, so rows would be the axis of both, and nothing goes with it. */
Test(candidates, a_split_goes_with_the_one_before_it) {
    static const int32_t ways[][3] = {{2, 2, 1}, {2, 2, 1}, {2, 1, 2}};
    int32_t devices[] = {3, 1, 2, 0};
    cleave_split split = {.replicas = 1, .n_parts = 4, .devices = devices};
    cleave_error error = {""};
    bool found;
    model = make_perceptron(&arena, 2, 8, 4);
    for (int a = 0; a < CLEAVE_MAX_AXES; a++)
        split.degree[a] = a < 3 ? ways[0][a] : 1;
    for (int32_t op = 1; op < 3; op++) {
        cr_assert_eq(
            cleave_split_goes_with(&model, op - 1, &split, op, &arena, &split, &found, &error),
            CLEAVE_OK, "%s", error.message);
        cr_assert(found);
        for (int a = 0; a < 3; a++)
            cr_expect_eq(split.degree[a], ways[op][a]);
        cr_expect_arr_eq(split.devices, devices, sizeof devices);
    }
    cr_assert_eq(cleave_split_goes_with(&model, 2, &split, 3, &arena, &split, &found, &error),
                 CLEAVE_OK, "%s", error.message);
    cr_expect_not(found);
}
