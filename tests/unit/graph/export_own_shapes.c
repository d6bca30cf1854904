/* Parameters in shapes of a person's own, of which a reshape makes what is multiplied. */
#include "graph/export/plan.h"
#include "imported.h"

TestSuite(export_own_shapes, .fini = tear_down);

static cleave_export_plan plan;

/* x [8, 12] times a kernel of 4 heads, each 8 wide: [12, 4, 8], seen as [12, 32]; its columns k
   over so many devices. */
static void plan_columns(int32_t n_devices) {
    static const float w[12 * 32] = {0};
    const int32_t devices[] = {0, 1, 2, 3, 4, 5, 6, 7}, whole[CLEAVE_MAX_AXES] = {0};
    int32_t degree[CLEAVE_MAX_AXES] = {0};
    cleave_layout layout;
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 12");
    initializer(&graph, "query.kernel", 3, (int64_t[]){12, 4, 8}, 1, w, sizeof w);
    integers(&graph, "two", 2, (int64_t[]){12, 32});
    graph_output(&graph, "y");
    node(&graph, "Reshape", "reshape", "query.kernel two", "w", NULL);
    node(&graph, "MatMul", "product", "x w", "y", NULL);
    import(&graph, 17, 8, true);
    int32_t op = cleave_model_find_operator(&model, "product");
    int k = 0;
    while (strcmp(model.operators[op].axes[k].name, "k") != 0)
        k++;
    degree[k] = n_devices;
    OK(cleave_layout_create, &model, n_devices, &arena, &layout);
    for (int32_t other = 0; other < model.n_operators; other++)
        OK(cleave_layout_set, &layout, other, n_devices, whole, devices, &arena);
    OK(cleave_layout_set, &layout, op, 1, degree, devices, &arena);
    OK(cleave_export_make, &model, &layout, CLEAVE_TARGET_JAX, &arena, &plan);
}

static int stored(void) {
    return plan.parameters[cleave_model_find_tensor(&model, "query.kernel")].stored[0];
}

Test(export_own_shapes, columns_are_cut_where_heads_are) {
    plan_columns(4);
    cr_expect_eq(stored(), 1);
    cr_expect_eq(plan.n_lost, 0);
}

/* 32 columns are 8 times 4, but 4 heads are no 8 blocks. */
Test(export_own_shapes, columns_of_less_than_a_head_are_lost) {
    plan_columns(8);
    cr_expect_eq(stored(), CLEAVE_FRAME_APART);
    cr_assert_eq(plan.n_lost, 1);
    cr_expect_str_eq(plan.lost[0].what, "k");
}

Test(export_own_shapes, shapes_are_those_that_a_module_sees) {
    plan_columns(4);
    const cleave_frame *frame =
        &plan.operators[cleave_model_find_operator(&model, "product")].frame;
    cr_assert_eq(frame->input_rank, 2);
    cr_assert_eq(frame->rank, 2);
    cr_expect_arr_eq(frame->input_shape, ((int64_t[]){8, 12}), 2 * sizeof(int64_t));
    cr_expect_arr_eq(frame->output_shape, ((int64_t[]){8, 32}), 2 * sizeof(int64_t));
}
