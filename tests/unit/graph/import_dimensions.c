/* Dimensions of a graph's inputs that the file leaves open, besides the batch. */
#include "../../support/ok.h"
#include "imported.h"

TestSuite(import_dimensions, .fini = tear_down);

static cleave_status import_with(const bytes *graph, int64_t batch, const char *dimensions,
                                 cleave_error *error) {
    bytes file = model_file(graph, 14);
    const cleave_import_request request = {.file = "hand",
                                           .data = file.data,
                                           .bytes = file.n,
                                           .batch = batch,
                                           .dimensions = dimensions};
    return cleave_model_import_as(&request, &arena, &model, error);
}

static void expect_reason(const bytes *graph, const char *dimensions, const char *reason) {
    cleave_error error = {""};
    cr_expect_eq(import_with(graph, 2, dimensions, &error), CLEAVE_BAD_INPUT, "%s", dimensions);
    cr_expect_not_null(strstr(error.message, reason), "'%s' is not in: %s", reason, error.message);
}

/* y = relu(x), a picture, and z = relu(state). */
static bytes picture(const char *x, const char *state) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", x);
    graph_input(&graph, "state", state);
    graph_output(&graph, "y");
    graph_output(&graph, "z");
    node(&graph, "Relu", "relu", "x", "y", NULL);
    node(&graph, "Relu", "other", "state", "z", NULL);
    return graph;
}

Test(import_dimensions, names_and_places_say_how_long_they_are) {
    bytes graph = picture("batch 3 height width", "batch 8");
    OK(import_with, &graph, 2, "height=5,width=7");
    expect_shape("x", 4, (int64_t[]){2, 3, 5, 7});
    expect_shape("y", 4, (int64_t[]){2, 3, 5, 7});
    OK(import_with, &graph, 2, "x:3=7,height=5");
    expect_shape("x", 4, (int64_t[]){2, 3, 5, 7});
    OK(import_with, &graph, 0, "batch=4,height=1,width=1");
    expect_shape("x", 4, (int64_t[]){4, 3, 1, 1});
    expect_shape("state", 2, (int64_t[]){4, 8});
}

Test(import_dimensions, the_batch_may_be_inside_of_other_inputs) {
    bytes graph = picture("batch 3", "2 batch 8");
    OK(import_with, &graph, 4, NULL);
    expect_shape("state", 3, (int64_t[]){2, 4, 8});
}

Test(import_dimensions, a_float_input_with_one_is_data) {
    bytes graph = picture("4 length", "4 8");
    OK(import_with, &graph, 0, "length=3");
    cr_expect_eq(find_tensor("x")->kind, CLEAVE_TENSOR_DATA);
    cr_expect_eq(find_tensor("state")->kind, CLEAVE_TENSOR_PARAMETER);
}

Test(import_dimensions, what_is_missing_is_said_as_it_is_typed) {
    bytes graph = picture("batch 3 height width", "batch height");
    expect_reason(&graph, NULL,
                  "hand: dimension 2 of graph input x is symbolic (height): say how long it is "
                  "(--dimensions height=N,width=N)");
    expect_reason(&graph, "width=7", "(--dimensions height=N)");
    graph = picture("batch 3 width h", "batch 8"); /* one name ends as the other */
    expect_reason(&graph, NULL, "(--dimensions width=N,h=N)");
    graph = picture("? 3 ? ?", "n 8"); /* one name for all that is open */
    expect_reason(&graph, NULL,
                  "dimension 2 of graph input x is symbolic (?): say how long it is (--dimensions "
                  "x:2=N,x:3=N,n=N)");
    OK(import_with, &graph, 2, "x:2=5,x:3=7,n=2");
    expect_shape("x", 4, (int64_t[]){2, 3, 5, 7});
    graph = picture("-1 3 -1 9", "-1 8");
    expect_reason(&graph, NULL, "(not said): say how long it is (--dimensions x:2=N)");
    OK(import_with, &graph, 2, "x:2=5");
    expect_shape("x", 4, (int64_t[]){2, 3, 5, 9});
}

Test(import_dimensions, what_is_no_dimension_or_no_length_is_refused) {
    static const char *const lengths[] = {"height",
                                          "height=",
                                          "height=0",
                                          "height=-1",
                                          "height=1.5",
                                          "height=5,",
                                          "height=2000000000000",
                                          "height=99999999999999999999"};
    bytes graph = picture("batch 3 height width", "batch 8");
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        expect_reason(&graph, lengths[i], "--dimensions takes NAME=N,... with lengths of 1");
    expect_reason(&graph, "depth=3", "\"depth\" is no symbolic dimension");
    expect_reason(&graph, "height=5,height=5", "\"height\" is no symbolic dimension");
    expect_reason(&graph, "x:4=3", "\"x:4\" is no symbolic dimension");
    expect_reason(&graph, "y:2=3", "\"y:2\" is no symbolic dimension");
    expect_reason(&graph, "x:2k=3", "\"x:2k\" is no symbolic dimension");
    expect_reason(&graph, "x:1=3", "dimension 1 of x is 3 already");
}
