/* If, whose condition is known when importing. */
#include "../../support/ok.h"
#include "imported.h"

TestSuite(import_branches, .fini = tear_down);

static bytes inner_graph(const char *type, const char *inputs, const char *output) {
    bytes graph = {.n = 0};
    node(&graph, type, output, inputs, output, NULL);
    graph_output(&graph, output);
    return graph;
}

static void put_if(bytes *graph, const char *condition, const char *outputs, const bytes *yes,
                   const bytes *no) {
    bytes attributes = {.n = 0};
    if (yes != NULL)
        attribute_graph(&attributes, "then_branch", yes);
    if (no != NULL)
        attribute_graph(&attributes, "else_branch", no);
    node(graph, "If", "choice", condition, outputs, &attributes);
}

/* x [2, 3]; is_wide: whether dimension 1 of x is `wide`. */
static bytes begin(int64_t wide) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "2 3");
    integers(&graph, "one", 1, (int64_t[]){1});
    integers(&graph, "wide", 1, &wide);
    node(&graph, "Shape", "shape", "x", "shape", NULL);
    node(&graph, "Gather", "width", "shape one", "width", NULL);
    node(&graph, "Equal", "is_wide", "width wide", "is_wide", NULL);
    return graph;
}

Test(import_branches, the_branch_that_is_taken_stands_in_the_place_of_the_node) {
    static const double sums[] = {2, 4, 6, 8, 10, 12}, negatives[] = {-1, -2, -3, -4, -5, -6};
    bytes yes = inner_graph("Add", "x x", "sum"), no = inner_graph("Neg", "x", "negative");
    bytes graph = begin(3);
    put_if(&graph, "is_wide", "y", &yes, &no);
    graph_output(&graph, "y");
    import(&graph, 14, 0, false);
    expect_values("y", 6, sums);
    cr_expect_eq(cleave_model_find_operator(&model, "negative"), -1);
    graph = begin(4);
    put_if(&graph, "is_wide", "y", &yes, &no);
    graph_output(&graph, "y");
    import(&graph, 14, 0, false);
    expect_values("y", 6, negatives);
}

/* relu(x) is read twice in a branch of a branch, and outside: nobody else may write to it. */
Test(import_branches, branches_in_branches_read_what_is_around_them) {
    static const double products[] = {3, 12, 27, 48, 75, 108}, relus[] = {1, 2, 3, 4, 5, 6};
    static const float three = 3;
    bytes deep = {.n = 0}, no = inner_graph("Neg", "relu", "negative"), yes = {.n = 0};
    initializer(&deep, "three", 0, NULL, 1, &three, sizeof three);
    node(&deep, "Mul", "square", "relu relu", "square", NULL);
    node(&deep, "Mul", "unused", "square square", "unused", NULL);
    node(&deep, "Mul", "triple", "square three", "triple", NULL);
    graph_output(&deep, "triple");
    put_if(&yes, "is_wide", "inner", &deep, &no);
    graph_output(&yes, "inner");
    bytes graph = begin(3), other = inner_graph("Abs", "relu", "absolute");
    put_if(&graph, "is_wide", "y", &yes, &other);
    node(&graph, "Relu", "relu", "x", "relu", NULL); /* before the If, by what that reads */
    node(&graph, "Identity", "same", "relu", "z", NULL);
    graph_output(&graph, "y");
    graph_output(&graph, "z");
    import(&graph, 14, 0, false);
    expect_values("y", 6, products);
    expect_values("z", 6, relus);
    cr_expect_eq(cleave_model_find_operator(&model, "unused"), -1);
}

/* Of what is read twice within, once from outside, no reader is the only one. */
Test(import_branches, what_is_read_twice_within_is_kept) {
    static const double products[] = {-1, -4, -9, -16, -25, -36};
    bytes yes = {.n = 0}, no = inner_graph("Abs", "relu", "absolute"), graph = begin(3);
    node(&yes, "Neg", "negative", "relu", "negative", NULL);
    node(&yes, "Mul", "product", "relu negative", "product", NULL);
    graph_output(&yes, "product");
    node(&graph, "Relu", "relu", "x", "relu", NULL);
    put_if(&graph, "is_wide", "y", &yes, &no);
    graph_output(&graph, "y");
    import(&graph, 14, 0, false);
    expect_values("y", 6, products);
}

Test(import_branches, constants_and_outer_values_come_out_of_them) {
    bytes yes = {.n = 0}, no = {.n = 0};
    integers(&yes, "flat", 1, (int64_t[]){6});
    graph_output(&yes, "flat");
    graph_output(&yes, "x");
    integers(&no, "whole", 2, (int64_t[]){2, 3});
    graph_output(&no, "whole");
    graph_output(&no, "x");
    bytes graph = begin(3);
    put_if(&graph, "is_wide", "target same", &yes, &no);
    node(&graph, "Reshape", "reshape", "same target", "r", NULL);
    node(&graph, "Neg", "negative", "r", "y", NULL);
    graph_output(&graph, "y");
    import(&graph, 14, 0, false);
    expect_shape("y", 1, (int64_t[]){6});
}

Test(import_branches, what_can_not_be_followed_is_refused) {
    bytes yes = inner_graph("Add", "x x", "sum"), no = inner_graph("Neg", "x", "negative");
    bytes lost = inner_graph("Neg", "nowhere", "negative"), late = {.n = 0};
    node(&late, "Neg", "first", "second", "first", NULL);
    node(&late, "Abs", "second", "x", "second", NULL);
    graph_output(&late, "first");
    const struct {
        const char *condition;
        const bytes *yes, *no;
        const char *outputs, *reason;
    } cases[] = {{"data", &yes, &no, "y", "which branch is taken follows from data (data)"},
                 {"is_wide", NULL, &no, "y", "node choice (If): has no then_branch"},
                 {"is_wide", &yes, &no, "y z", "its then_branch has 1 outputs, and it has 2"},
                 {"is_wide", &lost, &no, "y", "input nowhere is not defined"},
                 {"is_wide", &late, &no, "y", "node first (Neg): input second is not defined"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes graph = begin(3);
        value_info(&graph, 11, "data", 9, "1");
        put_if(&graph, cases[i].condition, cases[i].outputs, cases[i].yes, cases[i].no);
        graph_output(&graph, "y");
        expect_refused(&graph, 14, 0, cases[i].reason);
    }
}
