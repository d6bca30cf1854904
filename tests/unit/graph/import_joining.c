/* What joins the operator before it, and what becomes one of its own. */
#include "imported.h"

enum { BOOL = 9 };

TestSuite(import_joining, .fini = tear_down);

Test(import_joining, a_vector_added_to_a_product_is_its_bias) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 2 3");
    graph_input(&graph, "w", "3 4");
    graph_input(&graph, "b", "4");
    graph_output(&graph, "y");
    node(&graph, "MatMul", "op", "x w", "z", NULL);
    node(&graph, "Add", "add", "b z", "s", NULL);
    node(&graph, "Sigmoid", "act", "s", "y", NULL);
    import(&graph, 13, 5, true); /* its backward is asked for */
    cr_expect_eq(model.n_operators, 2);
    expect_axes("op", "b0=5 m=2 k=4 c=3");
    cr_expect_eq(find_tensor("b")->fan_in, 3);
    const cleave_nest *tail = &model.nests[find_operator("op")->nests[1]];
    cr_expect(cleave_nest_backward_from_output(tail));
    cr_expect(tail->in_place);
}

Test(import_joining, an_activation_with_another_reader_stays_alone) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    graph_input(&graph, "w", "3 3");
    graph_output(&graph, "y");
    node(&graph, "MatMul", "op", "x w", "z", NULL);
    node(&graph, "Tanh", "act", "z", "t", NULL);
    node(&graph, "Mul", "gate", "z t", "y", NULL);
    import(&graph, 13, 2, false);
    cr_expect_eq(model.n_operators, 3);
    expect_axes("act", "n=2 k=3");
}

Test(import_joining, scalars_go_into_the_tape_and_broadcasts_into_maps) {
    /* (x - 1) * [[1], [2]] with x = [[1 2 3], [4 5 6]] */
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    graph_output(&graph, "y");
    initializer(&graph, "one", 0, NULL, 1, (float[]){1}, 4);
    initializer(&graph, "column", 2, (int64_t[]){2, 1}, 1, (float[]){1, 2}, 8);
    node(&graph, "Sub", "sub", "x one", "s", NULL);
    node(&graph, "Mul", "mul", "s column", "y", NULL);
    import(&graph, 13, 2, false);
    cr_expect_eq(model.n_operators, 1);
    cr_expect_str_eq(model.operators[0].name, "mul", "named by its last node");
    expect_values("y", 6, (double[]){0, 1, 2, 6, 8, 10});
}

Test(import_joining, dropout_without_training_is_nothing) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    graph_output(&graph, "y");
    node(&graph, "Relu", "relu", "x", "r", NULL);
    node(&graph, "Dropout", "drop", "r", "y", NULL);
    import(&graph, 13, 2, false);
    cr_expect_eq(model.n_operators, 1);
    cr_expect_eq(model.nests[0].n_instructions, 1);
    cr_expect_str_eq(model.tensors[model.outputs[0]].name, "y");
}

Test(import_joining, activations_masks_and_slopes_join_the_product_before_them) {
    /* x [1, 2] times w [2, 2] of 1 2 3 4, less 20, twice where c; y = silu of it. */
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 2");
    value_info(&graph, 11, "c", BOOL, "batch 2");
    initializer(&graph, "w", 2, (int64_t[]){2, 2}, 1, (float[]){1, 2, 3, 4}, 16);
    initializer(&graph, "slope", 1, (int64_t[]){2}, 1, (float[]){1, 0.5f}, 8);
    initializer(&graph, "twenty", 0, NULL, 1, (float[]){20}, 4);
    initializer(&graph, "two", 0, NULL, 1, (float[]){2}, 4);
    graph_output(&graph, "y");
    node(&graph, "MatMul", "product", "x w", "h", NULL);
    node(&graph, "Sub", "less", "h twenty", "k", NULL);
    node(&graph, "PRelu", "slopes", "k slope", "l", NULL);
    node(&graph, "Where", "choose", "c l two", "m", NULL);
    node(&graph, "HardSwish", "gate", "m", "y", NULL);
    import(&graph, 14, 1, false);
    cr_expect_eq(model.n_operators, 1);
    /* 7 - 20 and 10 - 20, the second halved; both chosen by c = 1 2; far below -3. */
    expect_values("y", 2, (double[]){0, 0});
}

Test(import_joining, a_tail_that_is_full_is_followed_by_an_operator) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    graph_output(&graph, "y");
    node(&graph, "Mish", "m0", "x", "a", NULL);
    node(&graph, "Mish", "m1", "a", "b", NULL);
    node(&graph, "Mish", "m2", "b", "c", NULL);
    node(&graph, "Mish", "m3", "c", "d", NULL);
    node(&graph, "Mish", "m4", "d", "y", NULL);
    import(&graph, 18, 1, false);
    cr_expect_eq(model.n_operators, 2);
    double expected[3];
    for (int i = 0; i < 3; i++) {
        expected[i] = i + 1;
        for (int k = 0; k < 5; k++)
            expected[i] *= tanh(log1p(exp(expected[i])));
    }
    expect_values("y", 3, expected);
}
