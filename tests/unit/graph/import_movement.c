/* Operators that move elements, in numbers worked out by hand: inputs are 1, 2, 3 ... in row-major
   order.  ONNX's own tests (tests/onnx) say the rest. */
#include "../../support/ok.h"
#include "exec/data/id_range.h"
#include "imported.h"

TestSuite(import_movement, .fini = tear_down);

/* ---- look-ups -------------------------------------------------------------------------------- */

Test(import_movement, an_embedding_is_n_t_k_v_and_its_ids_lie_in_the_table) {
    /* Rows 1, 2, 3, 4 of w = 1 .. 10 as [5, 2]. */
    bytes graph = {.n = 0};
    float w[10] = {0};
    value_info(&graph, 11, "ids", 7, "batch 2");
    initializer(&graph, "w", 2, (int64_t[]){5, 2}, 1, w, sizeof w);
    graph_output(&graph, "y");
    node(&graph, "Gather", "op", "w ids", "y", NULL);
    import(&graph, 13, 2, false);
    expect_axes("op", "n=2 t=2 k=2 v=5");
    expect_roles("op", "sample attribute parameter reduction");
    cr_expect_eq(find_tensor("ids")->below, 5);
    cr_expect_eq(find_tensor("w")->fan_in, 2);
    model.tensors[cleave_model_find_tensor(&model, "w")].value = NULL; /* 1, 2, 3 ... instead */
    expect_values("y", 8, (double[]){3, 4, 5, 6, 7, 8, 9, 10});
}

Test(import_movement, constant_ids_are_slices_where_they_come_in_a_few_runs) {
    /* x = 1 .. 8 as [2, 4], along its dimension 1; ids of each case, and what is read of row 0. */
    static const struct {
        int rank, n;
        int64_t ids[4];
        double expected[4];
    } cases[] = {{0, 1, {-1}, {4}},
                 {1, 2, {1, -1}, {2, 4}},
                 {1, 4, {0, 1, 2, 3}, {1, 2, 3, 4}},
                 {2, 4, {0, 1, 2, 3}, {1, 2, 3, 4}},
                 {1, 3, {3, 2, 1}, {4, 3, 2}},
                 {1, 3, {1, 1, -4}, {2, 2, 1}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes graph = {.n = 0}, attributes = {.n = 0};
        int n = cases[i].n;
        int64_t shape[2] = {cases[i].rank == 2 ? 2 : n, n / 2};
        double expected[8];
        graph_input(&graph, "x", "batch 4");
        initializer(&graph, "ids", cases[i].rank, shape, 7, cases[i].ids,
                    (size_t)n * sizeof(int64_t));
        graph_output(&graph, "z");
        attribute_integer(&attributes, "axis", -1);
        node(&graph, "Gather", "op", "x ids", "y", &attributes);
        node(&graph, "Relu", "relu", "y", "z", NULL);
        import(&graph, 13, 2, false);
        cr_expect_lt(cleave_model_find_operator(&model, "op"), 0, "case %zu looks up", i);
        for (int k = 0; k < n; k++) {
            expected[k] = cases[i].expected[k];
            expected[n + k] = cases[i].expected[k] + 4;
        }
        expect_values("z", 2 * n, expected);
    }
}

Test(import_movement, ids_are_looked_up_along_any_axis) {
    /* x[n, 3] = 1 .. 6, ids 1 2 along its last dimension: columns 1 and 2. */
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    value_info(&graph, 11, "ids", 7, "2");
    graph_output(&graph, "y");
    attribute_integer(&attributes, "axis", 1);
    node(&graph, "Gather", "op", "x ids", "y", &attributes);
    import(&graph, 13, 2, false);
    expect_axes("op", "n=2 c=2 v=3");
    expect_values("y", 4, (double[]){2, 3, 5, 6});
}

Test(import_movement, ids_of_several_tables_lie_in_the_smallest_whatever_view_of_them_is_read) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    int64_t zero = 0, one = 1;
    value_info(&graph, 11, "ids", 7, "batch 2");
    graph_input(&graph, "unused", "batch 2");
    initializer(&graph, "w0", 2, (int64_t[]){7, 1}, 1, (float[7]){0}, sizeof(float[7]));
    initializer(&graph, "w1", 2, (int64_t[]){5, 1}, 1, (float[5]){0}, sizeof(float[5]));
    initializer(&graph, "zero", 0, NULL, 7, &zero, sizeof zero);
    initializer(&graph, "one", 0, NULL, 7, &one, sizeof one);
    graph_output(&graph, "y");
    attribute_integer(&attributes, "axis", 1);
    node(&graph, "Gather", "first", "ids zero", "i0", &attributes);
    node(&graph, "Gather", "second", "ids one", "i1", &attributes);
    node(&graph, "Gather", "e0", "w0 i0", "y0", NULL);
    node(&graph, "Gather", "e1", "w1 i1", "y1", NULL);
    node(&graph, "Add", "add", "y0 y1", "y", NULL);
    import(&graph, 13, 2, false);
    expect_axes("e1", "n=2 k=1 v=5");
    cr_expect_eq(find_tensor("ids")->below, 5);
}

Test(import_movement, constant_ids_outside_of_their_table_are_refused) {
    bytes graph = {.n = 0};
    int64_t ids[2] = {1, -3};
    graph_input(&graph, "x", "2 4");
    integers(&graph, "ids", 2, ids);
    graph_output(&graph, "y");
    node(&graph, "Gather", "op", "x ids", "y", NULL);
    expect_refused(&graph, 13, 0, "node op (Gather): index -3 is outside the 2 elements");
}

Test(import_movement, constant_ids_that_jump_about_are_looked_up) {
    /* x = 1 2 3 4; 40 descending ids are 31 runs, more than a view is made of. */
    bytes graph = {.n = 0}, attributes = {.n = 0};
    int64_t ids[40];
    double expected[40];
    for (int i = 0; i < 40; i++) {
        ids[i] = 3 - i % 4;
        expected[i] = 4 - i % 4;
    }
    graph_input(&graph, "x", "batch 4");
    integers(&graph, "ids", 40, ids);
    graph_output(&graph, "y");
    attribute_integer(&attributes, "axis", 1);
    node(&graph, "Gather", "op", "x ids", "y", &attributes);
    import(&graph, 13, 1, false);
    expect_axes("op", "n=1 c=40 v=4");
    expect_values("y", 40, expected);
}

Test(import_movement, elements_are_gathered_by_ids_of_their_own) {
    /* x[2, 3] = 1 2 3, 4 5 6 with ids 2 0, -1 1 along dimension 1. */
    bytes graph = {.n = 0}, attributes = {.n = 0};
    int64_t ids[4] = {2, 0, -1, 1};
    graph_input(&graph, "x", "batch 3");
    initializer(&graph, "ids", 2, (int64_t[]){2, 2}, 7, ids, sizeof ids);
    graph_output(&graph, "y");
    attribute_integer(&attributes, "axis", 1);
    node(&graph, "GatherElements", "op", "x ids", "y", &attributes);
    import(&graph, 13, 2, false);
    expect_axes("op", "n=2 c=2 v=3");
    expect_values("y", 4, (double[]){3, 1, 6, 5});
}

Test(import_movement, tuples_of_ids_name_slices) {
    /* x[2, 3, 2] = 1 .. 12; (1, -1) is [1, 2, :] = 11 12, (0, 1) is 3 4. */
    bytes graph = {.n = 0};
    int64_t ids[4] = {1, -1, 0, 1};
    graph_input(&graph, "x", "batch 3 2");
    initializer(&graph, "ids", 2, (int64_t[]){2, 2}, 7, ids, sizeof ids);
    graph_output(&graph, "y");
    node(&graph, "GatherND", "op", "x ids", "y", NULL);
    import(&graph, 13, 2, false);
    expect_values("y", 4, (double[]){11, 12, 3, 4});
}

/* A graph of one node from x and constant integers. */
static void with_integers(const char *type, const char *x, int n, const int64_t *values,
                          const bytes *attributes) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", x);
    integers(&graph, "k", n, values);
    graph_output(&graph, "y");
    node(&graph, type, "op", "x k", "y", attributes);
    import(&graph, 18, 1, false);
}

Test(import_movement, slices_go_backwards_and_beyond_the_ends) {
    /* x = 1 .. 6; start, end and step of each case. */
    static const struct {
        int64_t start, end, step;
        int n;
        double expected[6];
    } cases[] = {{INT64_MAX, INT64_MIN, -1, 6, {6, 5, 4, 3, 2, 1}},
                 {-2, -7, -2, 3, {5, 3, 1}},
                 {4, 1, -2, 2, {5, 3}},
                 {-100, 100, 4, 2, {1, 5}},
                 {1, INT64_MAX, INT64_MAX, 1, {2}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes graph = {.n = 0};
        graph_input(&graph, "x", "batch 6");
        integers(&graph, "starts", 1, &cases[i].start);
        integers(&graph, "ends", 1, &cases[i].end);
        integers(&graph, "axes", 1, (int64_t[]){-1});
        integers(&graph, "steps", 1, &cases[i].step);
        graph_output(&graph, "y");
        node(&graph, "Slice", "op", "x starts ends axes steps", "y", NULL);
        import(&graph, 13, 1, false);
        expect_values("y", cases[i].n, cases[i].expected);
    }
}

/* As exporters write a roll by 2, and by 0: the last of 5 elements, none of them, before the
 * others. */
Test(import_movement, what_a_slice_has_none_of_is_left_out) {
    for (int64_t by = 0; by <= 2; by += 2) {
        const int64_t kept = 5 - by;
        bytes graph = {.n = 0};
        graph_input(&graph, "x", "batch 5");
        integers(&graph, "zero", 1, &(int64_t){0});
        integers(&graph, "kept", 1, &kept);
        integers(&graph, "many", 1, &(int64_t){INT64_MAX});
        integers(&graph, "one", 1, &(int64_t){1});
        graph_output(&graph, "y");
        bytes attributes = {.n = 0};
        attribute_integer(&attributes, "axis", 1);
        node(&graph, "Slice", "s", "x kept many one", "last", NULL);
        node(&graph, "Slice", "u", "x zero kept one", "first", NULL);
        node(&graph, "Concat", "c", "last first", "z", &attributes);
        node(&graph, "Neg", "n", "z", "y", NULL);
        import(&graph, 13, 1, false);
        expect_values("y", 5,
                      by == 0 ? (double[]){-1, -2, -3, -4, -5} : (double[]){-4, -5, -1, -2, -3});
    }
}

Test(import_movement, splits_are_equal_but_for_the_last_where_that_is_said) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 5");
    graph_output(&graph, "a");
    graph_output(&graph, "c");
    attribute_integer(&attributes, "axis", 1);
    attribute_integer(&attributes, "num_outputs", 3);
    node(&graph, "Split", "op", "x", "a b c", &attributes);
    import(&graph, 18, 1, false);
    expect_values("a", 2, (double[]){1, 2});
    expect_values("c", 1, (double[]){5});
}

Test(import_movement, splits_that_do_not_add_up_are_refused) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 5");
    graph_output(&graph, "a");
    attribute_integer(&attributes, "axis", 1);
    attribute_integers(&attributes, "split", 2, (int64_t[]){2, 2});
    node(&graph, "Split", "op", "x", "a b", &attributes);
    expect_refused(&graph, 11, 1, "split has 2 sizes that do not add up to 5");
}

/* Part `at` of x [batch, 5]; the sizes are an initializer of this rank, or left out. */
static bytes sequence(int rank, int64_t n, const int64_t *sizes, int64_t keeps, int64_t at) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 5");
    graph_output(&graph, "y");
    if (n > 0)
        initializer(&graph, "sizes", rank, &n, 7, sizes, (size_t)n * sizeof *sizes);
    initializer(&graph, "at", 0, NULL, 7, &at, sizeof at);
    attribute_integer(&attributes, "axis", -1);
    attribute_integer(&attributes, "keepdims", keeps);
    node(&graph, "SplitToSequence", "split", n > 0 ? "x sizes" : "x", "parts", &attributes);
    node(&graph, "SequenceAt", "op", "parts at", "y", NULL);
    return graph;
}

/* x = 1 2 3 4 5 */
Test(import_movement, parts_of_a_sequence_are_ranges_of_what_was_split) {
    bytes graph = sequence(1, 3, (int64_t[]){1, 3, 1}, 0, 1);
    import(&graph, 18, 1, false);
    expect_values("y", 3, (double[]){2, 3, 4});
    graph = sequence(0, 1, (int64_t[]){2}, 1, -1);
    import(&graph, 18, 1, false);
    expect_values("y", 1, (double[]){5});
    for (int keeps = 0; keeps < 2; keeps++) {
        graph = sequence(0, 0, NULL, keeps, 3);
        import(&graph, 18, 1, false);
        expect_values("y", 1, (double[]){4});
        cr_expect_eq(find_tensor("y")->rank, 1 + keeps);
    }
}

Test(import_movement, other_sequences_are_refused) {
    bytes graph = sequence(1, 2, (int64_t[]){2, 2}, 1, 0);
    expect_refused(&graph, 18, 1, "its 2 sizes leave 1 of 5 elements");
    graph = sequence(1, 2, (int64_t[]){4, 2}, 1, 0);
    expect_refused(&graph, 18, 1, "its 2 sizes are not those of parts of 5 elements");
    graph = sequence(0, 1, (int64_t[]){0}, 1, 0);
    expect_refused(&graph, 18, 1, "parts of 0 elements are not possible");
    graph = sequence(0, 1, (int64_t[]){2}, 1, 3);
    expect_refused(&graph, 18, 1, "takes part 3 of 3");
    graph = sequence(0, 1, (int64_t[]){2}, 1, 0);
    graph_output(&graph, "parts");
    expect_refused(&graph, 18, 1, "the sequence parts is an output of the graph");
    graph = (bytes){.n = 0};
    graph_input(&graph, "x", "batch 5");
    initializer(&graph, "at", 0, NULL, 7, &(int64_t){0}, 8);
    graph_output(&graph, "y");
    node(&graph, "SequenceAt", "op", "x at", "y", NULL);
    expect_refused(&graph, 18, 1, "takes from x, which no SplitToSequence makes");
}

Test(import_movement, pads_reflect_repeat_wrap_and_cut) {
    /* x = 1 2 3; 2 before and 1 behind, then 1 cut off in front and 2 behind. */
    static const struct {
        const char *mode;
        double both[6], cut[4];
    } cases[] = {{"reflect", {3, 2, 1, 2, 3, 2}, {2, 3, 2, 1}},
                 {"edge", {1, 1, 1, 2, 3, 3}, {2, 3, 3, 3}},
                 {"wrap", {2, 3, 1, 2, 3, 1}, {2, 3, 1, 2}},
                 {"constant", {0, 0, 1, 2, 3, 0}, {2, 3, 0, 0}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes attributes = {.n = 0};
        attribute_text(&attributes, "mode", cases[i].mode);
        with_integers("Pad", "batch 3", 4, (int64_t[]){0, 2, 0, 1}, &attributes);
        expect_values("y", 6, cases[i].both);
        with_integers("Pad", "batch 3", 4, (int64_t[]){0, -1, 0, 2}, &attributes);
        expect_values("y", 4, cases[i].cut);
    }
}

Test(import_movement, paddings_of_several_values_keep_theirs) {
    /* x = 1 2: a 7 behind it, x itself, and a 9 around both. */
    bytes graph = {.n = 0}, first = {.n = 0}, second = {.n = 0}, axis = {.n = 0};
    graph_input(&graph, "x", "batch 2");
    graph_output(&graph, "y");
    attribute_integers(&first, "pads", 4, (int64_t[]){0, 0, 0, 1});
    attribute_float(&first, "value", 7);
    attribute_integers(&second, "pads", 4, (int64_t[]){0, 1, 0, 1});
    attribute_float(&second, "value", 9);
    attribute_integer(&axis, "axis", 1);
    node(&graph, "Pad", "p", "x", "a", &first);
    node(&graph, "Concat", "c", "x a", "b", &axis);
    node(&graph, "Pad", "q", "b", "y", &second);
    import(&graph, 9, 1, false);
    expect_values("y", 7, (double[]){9, 1, 2, 1, 2, 7, 9});
}

Test(import_movement, tiles_repeat_and_expansions_broadcast) {
    with_integers("Tile", "batch 2", 2, (int64_t[]){2, 2}, NULL);
    expect_values("y", 8, (double[]){1, 2, 1, 2, 1, 2, 1, 2});
    with_integers("Expand", "batch 2 1", 3, (int64_t[]){1, 1, 3}, NULL);
    expect_values("y", 6, (double[]){1, 1, 1, 2, 2, 2});
    with_integers("Expand", "batch 2", 3, (int64_t[]){2, 1, 2}, NULL);
    expect_values("y", 4, (double[]){1, 2, 1, 2});
}

Test(import_movement, depth_becomes_space_and_back) {
    /* Channels of one pixel, 1 .. 8: two output channels in blocks of 2 x 2; DCR has them inner. */
    bytes attributes = {.n = 0};
    attribute_integer(&attributes, "blocksize", 2);
    one_node("DepthToSpace", "batch 8 1 1", &attributes, 13);
    expect_values("y", 8, (double[]){1, 3, 5, 7, 2, 4, 6, 8});
    one_node("SpaceToDepth", "batch 2 2 2", &attributes, 13);
    expect_values("y", 8, (double[]){1, 5, 2, 6, 3, 7, 4, 8});
    attribute_text(&attributes, "mode", "CRD");
    one_node("DepthToSpace", "batch 8 1 1", &attributes, 13);
    expect_values("y", 8, (double[]){1, 2, 3, 4, 5, 6, 7, 8});
}

Test(import_movement, one_hot_counts_from_the_end_too) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    int64_t ids[3] = {1, -1, 5}, depth = 3;
    float values[2] = {-1, 2};
    graph_input(&graph, "x", "batch 3 3");
    integers(&graph, "ids", 3, ids);
    initializer(&graph, "depth", 0, NULL, 7, &depth, sizeof depth);
    initializer(&graph, "values", 1, (int64_t[]){2}, 1, values, sizeof values);
    graph_output(&graph, "y");
    attribute_integer(&attributes, "axis", 0);
    node(&graph, "OneHot", "op", "ids depth values", "h", &attributes);
    node(&graph, "Sub", "sub", "x h", "y", NULL);
    import(&graph, 13, 1, false);
    /* Columns of h are id 1, id 2 and nothing: -1 -1 -1, 2 -1 -1, -1 2 -1 in rows. */
    expect_values("y", 9, (double[]){2, 3, 4, 2, 6, 7, 8, 6, 10});
}

Test(import_movement, updates_go_where_constant_indices_say) {
    /* x = 1 .. 6 as [2, 3]; columns 1 and 0 of rows 0 and 1 become 1 and 2. */
    bytes graph = {.n = 0}, attributes = {.n = 0};
    int64_t ids[2] = {1, 0};
    graph_input(&graph, "x", "batch 3");
    graph_input(&graph, "u", "batch 1");
    initializer(&graph, "ids", 2, (int64_t[]){2, 1}, 7, ids, sizeof ids);
    graph_output(&graph, "y");
    attribute_integer(&attributes, "axis", 1);
    node(&graph, "ScatterElements", "op", "x ids u", "y", &attributes);
    import(&graph, 13, 2, false);
    expect_values("y", 6, (double[]){1, 1, 3, 2, 5, 6});
}

/* x = 1 .. 8 as [4, 2], rows of which become -1 -2, -3 -4 ...: views alone where they are in a row,
   the third time they are not. */
Test(import_movement, rows_that_are_put_in_a_row_are_views) {
    static const struct {
        int64_t n, rows[4];
        double expected[8];
        int look_ups;
    } cases[] = {{2, {1, 2}, {-1, -2, 1, 2, 3, 4, -7, -8}, 0},
                 {2, {-4, -3}, {1, 2, 3, 4, -5, -6, -7, -8}, 0},
                 {2, {0, 2}, {1, 2, -3, -4, 3, 4, -7, -8}, 1},
                 {4, {0, 1, 2, 3}, {1, 2, 3, 4, 5, 6, 7, 8}, 0}};
    static const float updates[] = {-1, -2, -3, -4, -5, -6, -7, -8};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t n = cases[i].n;
        bytes graph = {.n = 0};
        graph_input(&graph, "x", "batch 2");
        initializer(&graph, "rows", 2, (int64_t[]){n, 1}, 7, cases[i].rows, (size_t)n * 8);
        initializer(&graph, "u", 2, (int64_t[]){n, 2}, 1, updates, (size_t)n * 8);
        graph_output(&graph, "y");
        node(&graph, "ScatterND", "op", "x rows u", "z", NULL);
        node(&graph, "Neg", "neg", "z", "y", NULL);
        import(&graph, 13, 4, false);
        expect_values("y", 8, cases[i].expected);
        int look_ups = 0;
        for (int32_t k = 0; k < model.n_nests; k++)
            look_ups += model.nests[k].kind == CLEAVE_NEST_GATHER;
        cr_expect_eq(look_ups, cases[i].look_ups, "case %zu", i);
    }
}

/* Row k % 4 becomes k + 1, 40 times. */
Test(import_movement, rows_may_be_put_again_and_again) {
    static const int64_t rows[] = {0, 1, 2, 3};
    char before[16] = "x", name[16], inputs[64], node_name[16];
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 2");
    for (int k = 0; k < 4; k++) {
        snprintf(name, sizeof name, "row%d", k);
        initializer(&graph, name, 2, (int64_t[]){1, 1}, 7, &rows[k], 8);
    }
    graph_output(&graph, "y");
    for (int k = 0; k < 40; k++) {
        const float update[] = {(float)(k + 1), (float)(k + 1)};
        snprintf(name, sizeof name, "u%d", k);
        initializer(&graph, name, 2, (int64_t[]){1, 2}, 1, update, 8);
        snprintf(inputs, sizeof inputs, "%s row%d u%d", before, k % 4, k);
        snprintf(before, sizeof before, "z%d", k);
        snprintf(node_name, sizeof node_name, "put%d", k);
        node(&graph, "ScatterND", node_name, inputs, before, NULL);
    }
    node(&graph, "Neg", "neg", before, "y", NULL);
    import(&graph, 13, 4, false);
    expect_values("y", 8, (double[]){-37, -37, -38, -38, -39, -39, -40, -40});
}

/* 2^25 elements, a row of which is put there. */
Test(import_movement, what_is_put_in_a_row_may_be_large) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 8192");
    graph_input(&graph, "u", "batch 8192");
    integers(&graph, "zero", 1, &(int64_t){0});
    integers(&graph, "one", 1, &(int64_t){1});
    initializer(&graph, "row", 2, (int64_t[]){1, 1}, 7, &(int64_t){3}, 8);
    graph_output(&graph, "y");
    node(&graph, "Slice", "s", "u zero one zero", "r", NULL);
    node(&graph, "ScatterND", "op", "x row r", "z", NULL);
    node(&graph, "Neg", "neg", "z", "y", NULL);
    import(&graph, 13, 4096, false);
    cr_expect_eq(model.n_operators, 1);
}

Test(import_movement, scattering_by_data_or_with_a_reduction_is_refused) {
    for (int reduced = 0; reduced < 2; reduced++) {
        bytes graph = {.n = 0}, attributes = {.n = 0};
        int64_t ids[2] = {1, 0};
        graph_input(&graph, "x", "batch 3");
        graph_input(&graph, "u", "batch 1");
        if (reduced)
            initializer(&graph, "ids", 2, (int64_t[]){2, 1}, 7, ids, sizeof ids);
        else
            value_info(&graph, 11, "ids", 7, "2 1");
        graph_output(&graph, "y");
        attribute_text(&attributes, "reduction", reduced ? "add" : "none");
        node(&graph, "ScatterElements", "op", "x ids u", "y", &attributes);
        expect_refused(&graph, 16, 2,
                       reduced ? "attribute reduction is add"
                               : "its indices ids are not constant integers");
    }
}

Test(import_movement, integers_and_floats_are_joined_as_floats) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    value_info(&graph, 11, "a", 7, "batch 2");
    value_info(&graph, 11, "b", 7, "batch 2");
    graph_output(&graph, "y");
    attribute_integer(&attributes, "axis", 1);
    node(&graph, "Neg", "neg", "a", "c", NULL);
    node(&graph, "Concat", "op", "b c", "y", &attributes);
    import(&graph, 13, 1, false);
    expect_values("y", 4, (double[]){1, 2, -1, -2});
}

/* ids[:, 0] are of a table of 7, ids[:, 1] of one of 5 and ids[:, 2] of none. */
Test(import_movement, ids_may_be_what_the_table_of_their_slice_has) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    int64_t column[2] = {0, 1};
    static float zeros[7];
    value_info(&graph, 11, "ids", 7, "batch 3");
    initializer(&graph, "w0", 2, (int64_t[]){7, 1}, 1, zeros, 7 * sizeof *zeros);
    initializer(&graph, "w1", 2, (int64_t[]){5, 1}, 1, zeros, 5 * sizeof *zeros);
    initializer(&graph, "zero", 0, NULL, 7, &column[0], sizeof *column);
    initializer(&graph, "one", 0, NULL, 7, &column[1], sizeof *column);
    graph_output(&graph, "y");
    attribute_integer(&attributes, "axis", 1);
    node(&graph, "Gather", "first", "ids zero", "i0", &attributes);
    node(&graph, "Gather", "second", "ids one", "i1", &attributes);
    node(&graph, "Gather", "e0", "w0 i0", "y0", NULL);
    node(&graph, "Gather", "e1", "w1 i1", "y1", NULL);
    node(&graph, "Add", "add", "y0 y1", "y", NULL);
    import(&graph, 13, 2, false);
    cleave_id_range range;
    OK(cleave_id_range_find, &model, cleave_model_find_tensor(&model, "ids"), &arena, &range);
    int64_t expected[6] = {7, 5, INT64_MAX, 7, 5, INT64_MAX};
    cr_assert(range.from_end && range.n == 6);
    cr_expect_arr_eq(range.above, expected, sizeof expected);
}

/* ---- views ----------------------------------------------------------------------------------- */

Test(import_movement, transposes_slices_and_concatenations_are_views) {
    /* x = [[1 2 3], [4 5 6]]; its transpose [[1 4], [2 5], [3 6]]; rows 0 and 2 of that; behind
       them 2 and 5; negated by the one operator. */
    bytes graph = {.n = 0}, axis = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    graph_output(&graph, "y");
    integers(&graph, "zero", 1, (int64_t[]){0});
    integers(&graph, "one", 1, (int64_t[]){1});
    integers(&graph, "two", 1, (int64_t[]){2});
    integers(&graph, "many", 1, (int64_t[]){INT64_MAX});
    node(&graph, "Transpose", "t", "x", "xt", NULL);
    node(&graph, "Slice", "s", "xt zero many zero two", "even", NULL);
    node(&graph, "Slice", "u", "xt one two zero", "odd", NULL);
    attribute_integer(&axis, "axis", 0);
    node(&graph, "Concat", "c", "even odd", "all", &axis);
    node(&graph, "Neg", "neg", "all", "y", NULL);
    import(&graph, 13, 2, false);
    cr_expect_eq(model.n_operators, 1);
    expect_values("y", 6, (double[]){-1, -4, -3, -6, -2, -5});
}
