/* External data of a model that is in memory: there is no place where it could lie, and no file is
   opened.  (From files: tests/integration/weights.py.) */
#include "../../support/onnx_writer.h"
#include "graph/import/import.h"

#include <criterion/criterion.h>
#include <stdio.h>

/* y = x w; w lies in `location`, key by key.  TensorProto: external_data 13 { key 1, value 2 },
   data_location 14. */
static bytes model_with(const char *location, bool in_attribute) {
    bytes graph = {.n = 0}, tensor = {.n = 0}, entry = {.n = 0};
    put_integer(&tensor, 1, 4);
    put_integer(&tensor, 1, 4);
    put_integer(&tensor, 2, 1);
    put_text(&tensor, 8, "w");
    put_text(&entry, 1, "location");
    put_text(&entry, 2, location);
    put_message(&tensor, 13, &entry);
    put_integer(&tensor, 14, 1);
    if (in_attribute) {
        bytes attribute = {.n = 0};
        put_text(&attribute, 1, "value");
        put_message(&attribute, 5, &tensor);
        put_integer(&attribute, 20, 4);
        bytes attributes = {.n = 0};
        put_message(&attributes, 5, &attribute);
        node(&graph, "Constant", "constant", "", "w", &attributes);
    } else {
        put_message(&graph, 5, &tensor);
    }
    node(&graph, "MatMul", "product", "x w", "y", NULL);
    graph_input(&graph, "x", "batch 4");
    graph_output(&graph, "y");
    return model_file(&graph, 13);
}

static void expect_refusal(const bytes *file, const char *reason) {
    cleave_arena arena = {0};
    cleave_model model;
    cleave_error error = {{0}};
    cr_expect(cleave_model_import_as(
                  &(cleave_import_request){
                      .file = "m.onnx", .data = file->data, .bytes = file->n, .batch = 2},
                  &arena, &model, &error) == CLEAVE_BAD_INPUT);
    cr_expect(strstr(error.message, reason) != NULL, "\"%s\" lacks \"%s\"", error.message, reason);
    cleave_arena_free(&arena);
}

Test(external, data_of_a_model_in_memory_have_no_place) {
    bytes file = model_with("/dev/zero", false);
    expect_refusal(&file, "tensor w keeps its data in \"/dev/zero\"");
}

Test(external, only_initializers_may_have_them) {
    bytes file = model_with("w.bin", true);
    expect_refusal(&file, "only initializers");
}
