/* Products: Gemm and MatMul over merged rows and shared weights, and Einsum. */
#include "imported.h"

TestSuite(import_products, .fini = tear_down);

/* ---- Gemm and MatMul ------------------------------------------------------------------------- */

Test(import_products, gemm_transposes_by_maps_and_scales_in_its_tail) {
    /* A' = [[1 3], [2 4]] from x = [[1 2], [3 4]]; B' = [[1 4], [2 5], [3 6]]' from w = 1 .. 6 read
       as [3, 2] transposed: B = [[1 3 5], [2 4 6]]; 2 A'B + 3 c with c = 1 2 3. */
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 2");
    graph_input(&graph, "w", "3 2");
    graph_input(&graph, "c", "3");
    graph_output(&graph, "y");
    attribute_integer(&attributes, "transA", 1);
    attribute_integer(&attributes, "transB", 1);
    attribute_float(&attributes, "alpha", 2);
    attribute_float(&attributes, "beta", 3);
    node(&graph, "Gemm", "op", "x w c", "y", &attributes);
    import(&graph, 13, 2, false);
    expect_axes("op", "n=2 k=3 c=2");
    expect_values("y", 6,
                  (double[]){2 * (1 * 1 + 3 * 2) + 3, 2 * (1 * 3 + 3 * 4) + 6,
                             2 * (1 * 5 + 3 * 6) + 9, 2 * (2 * 1 + 4 * 2) + 3,
                             2 * (2 * 3 + 4 * 4) + 6, 2 * (2 * 5 + 4 * 6) + 9});
}

Test(import_products, matmul_broadcasts_its_batch) {
    /* [2, 1, 2] x [3, 2, 1] = [2, 3, 1] rows: x_i . w_j with x = (1 2), (3 4), w = (1 2), (3 4),
       (5 6). */
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 1 1 2");
    graph_input(&graph, "w", "3 2 1");
    graph_output(&graph, "y");
    node(&graph, "MatMul", "op", "x w", "y", NULL);
    import(&graph, 13, 2, false);
    expect_axes("op", "b0=2 b1=3 m=1 k=1 c=2");
    expect_values("y", 6, (double[]){5, 11, 17, 11, 25, 39});
}

Test(import_products, a_weight_with_two_readers_is_refined_by_a_view) {
    /* Both products read w; the first one through a flatten of [2, 2, 2]. */
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 2 2");
    graph_input(&graph, "u", "batch 4");
    graph_input(&graph, "w", "4 1");
    graph_output(&graph, "y");
    graph_output(&graph, "v");
    node(&graph, "Flatten", "flat", "x", "f", NULL);
    node(&graph, "MatMul", "first", "f w", "y", NULL);
    node(&graph, "MatMul", "second", "u w", "v", NULL);
    import(&graph, 13, 1, false);
    expect_axes("first", "n=1 k=1 c=2 w=2");
    expect_shape("w", 2, (int64_t[]){4, 1});
    cr_expect_eq(find_tensor("w.refined")->view.kind, CLEAVE_VIEW_RESHAPE);
    expect_values("y", 1, (double[]){1 + 4 + 9 + 16});
    expect_values("v", 1, (double[]){1 + 4 + 9 + 16});
}

/* [1, 2, 2] as 2 rows of 2: 1 2 / 3 4 times 1 2 / 3 4 is 7 10 / 15 22. */
Test(import_products, merged_rows_stay_apart) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 2 2");
    graph_output(&graph, "y");
    initializer(&graph, "w", 2, (int64_t[]){2, 2}, 1, (float[]){1, 2, 3, 4}, 16);
    integers(&graph, "flat", 2, (int64_t[]){-1, 2});
    integers(&graph, "back", 3, (int64_t[]){-1, 2, 2});
    node(&graph, "Reshape", "r", "x flat", "r", NULL);
    node(&graph, "Gemm", "g", "r w", "g", NULL);
    node(&graph, "Reshape", "s", "g back", "s", NULL);
    node(&graph, "Relu", "t", "s", "y", NULL);
    import(&graph, 13, 3, false);
    expect_axes("g", "b0=3 m=2 k=2 c=2");
    cr_expect_eq(find_tensor("y")->view.kind, CLEAVE_VIEW_NONE);
    import(&graph, 13, 1, false);
    expect_values("y", 4, (double[]){7, 10, 15, 22});
}

/* An addend that differs from row to row keeps the rows merged. */
Test(import_products, rows_with_an_addend_each_stay_merged) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "1 2 2");
    graph_output(&graph, "y");
    initializer(&graph, "w", 2, (int64_t[]){2, 2}, 1, (float[]){1, 2, 3, 4}, 16);
    initializer(&graph, "c", 2, (int64_t[]){2, 1}, 1, (float[]){100, 200}, 8);
    integers(&graph, "flat", 2, (int64_t[]){-1, 2});
    node(&graph, "Reshape", "r", "x flat", "r", NULL);
    node(&graph, "Gemm", "g", "r w c", "y", NULL);
    import(&graph, 13, 0, false);
    expect_axes("g", "n=2 k=2 c=2");
    expect_values("y", 4, (double[]){107, 110, 215, 222});
}

/* ---- Einsum ---------------------------------------------------------------------------------- */

static bytes einsum(const char *equation, const char *inputs) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "2 2");
    graph_input(&graph, "v", "2");
    graph_input(&graph, "u", "3 2 2");
    graph_output(&graph, "y");
    attribute_text(&attributes, "equation", equation);
    node(&graph, "Einsum", "e", inputs, "y", &attributes);
    return graph;
}

/* x is 1 2 / 3 4, v is 1 2, u counts from 1 to 12. */
Test(import_products, einsum_is_any_product_and_sum) {
    static const struct {
        const char *equation, *inputs;
        int n;
        double y[12];
    } rows[] = {{"ij->ji", "x", 4, {1, 3, 2, 4}},
                {"ij -> i", "x", 2, {3, 7}},
                {"ii->i", "x", 2, {1, 4}},
                {"ii", "x", 1, {5}},
                {"ba", "x", 4, {1, 3, 2, 4}},
                {"ij,j->i", "x v", 2, {5, 11}},
                {"i,j->ij", "v v", 4, {1, 2, 2, 4}},
                {"ij,jk", "x x", 4, {7, 10, 15, 22}},
                {"i,ij,j->", "v x v", 1, {27}},
                {"...i,i->...", "u v", 6, {5, 11, 17, 23, 29, 35}},
                {"...ij,...jk->...ik", "u x", 12, {7, 10, 15, 22, 23, 34, 31, 46, 39, 58, 47, 70}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bytes graph = einsum(rows[i].equation, rows[i].inputs);
        import(&graph, 13, 0, false);
        cr_log_info("%s", rows[i].equation);
        expect_values("y", rows[i].n, rows[i].y);
    }
}

Test(import_products, equations_that_do_not_fit_are_refused) {
    bytes graph = einsum("ij,jk->ik", "x");
    expect_refused(&graph, 13, 0, "more terms than it has inputs");
    graph = einsum("ijk->i", "x");
    expect_refused(&graph, 13, 0, "input x has rank 2, its term 3 letters");
    graph = einsum("ij->ik", "x");
    expect_refused(&graph, 13, 0, "a letter that no input has");
    graph = einsum("ij->ii", "x");
    expect_refused(&graph, 13, 0, "a letter twice");
    graph = einsum("i1->i", "x");
    expect_refused(&graph, 13, 0, "where a letter should be");
    graph = einsum("ij,i->j", "x u");
    expect_refused(&graph, 13, 0, "input u has rank 3");
    graph = einsum("ijk,k->i", "u u");
    expect_refused(&graph, 13, 0, "input u has rank 3, its term 1 letters");
}
