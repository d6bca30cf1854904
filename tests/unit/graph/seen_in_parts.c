/* Parameters that are seen in parts are stored so that what an operator reads of them is one box.
 */
#include "../../support/ok.h"
#include "graph/model/view.h"
#include "imported.h"

TestSuite(seen_in_parts, .fini = tear_down);

static int32_t count_pieces(int32_t tensor) {
    const cleave_tensor *of = &model.tensors[tensor];
    cleave_piece_list pieces = {0};
    cleave_box all = cleave_box_of_shape(of->rank, of->shape);
    OK(cleave_view_pull, &model, tensor, &all, &pieces);
    int32_t n = pieces.n;
    CLEAVE_LIST_FREE(&pieces);
    return n;
}

static void expect_file_shape(const char *name, int rank, const int64_t *shape) {
    const cleave_tensor *tensor = find_tensor(name);
    cr_assert_eq(tensor->file_rank, rank, "%s has rank %d in files", name, tensor->file_rank);
    for (int d = 0; d < rank; d++)
        cr_expect_eq(tensor->file_shape[d], shape[d], "dimension %d of %s", d, name);
}

/* 4 experts, 16 wide, 24 inside; gate and up take turns, so each would be 24 pieces for each of the
   4 x 16 rows of the file's weight. */
Test(seen_in_parts, gate_and_up_that_take_turns_are_one_box_each) {
    import_config("{\"model_type\": \"gpt_oss\", \"hidden_size\": 16, \"num_hidden_layers\": 1, "
                  "\"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"vocab_size\": 20, "
                  "\"intermediate_size\": 24, \"num_local_experts\": 4, "
                  "\"num_experts_per_tok\": 2, \"rope_parameters\": {\"rope_type\": \"default\"}}",
                  2, 8);
    for (int32_t n = 0; n < model.n_nests; n++)
        for (int i = 0; i < model.nests[n].n_inputs; i++) {
            int32_t tensor = model.nests[n].inputs[i].tensor;
            if (cleave_tensor_sees_parameter(&model, tensor))
                cr_expect_eq(count_pieces(tensor), 1, "%s", model.tensors[tensor].name);
        }
    expect_shape("model.layers.0.mlp.experts.gate_up_proj", 4, (int64_t[]){4, 16, 24, 2});
    expect_file_shape("model.layers.0.mlp.experts.gate_up_proj", 3, (int64_t[]){4, 16, 48});
    expect_shape("model.layers.0.mlp.experts.gate_up_proj_bias", 3, (int64_t[]){4, 24, 2});
    expect_file_shape("model.layers.0.mlp.experts.gate_up_proj_bias", 2, (int64_t[]){4, 48});
    cr_expect_eq(model.graph_version, CLEAVE_PARTS_GRAPH_VERSION);
}

/* Of both sides of a unit, 24 wide each, and of the queries, keys and values of 4 heads of 4, an
   operator may read some of each: stored so, that is one box. */
Test(seen_in_parts, sides_of_one_weight_are_dimensions) {
    import_config("{\"model_type\": \"phi3\", \"pad_token_id\": null, \"hidden_size\": 16, "
                  "\"num_hidden_layers\": 1, \"num_attention_heads\": 4, "
                  "\"num_key_value_heads\": 4, \"vocab_size\": 20, \"intermediate_size\": 24}",
                  2, 8);
    expect_shape("model.layers.0.mlp.gate_up_proj.weight", 3, (int64_t[]){2, 24, 16});
    expect_file_shape("model.layers.0.mlp.gate_up_proj.weight", 2, (int64_t[]){48, 16});
    expect_shape("model.layers.0.self_attn.qkv_proj.weight", 4, (int64_t[]){3, 4, 4, 16});
    expect_file_shape("model.layers.0.self_attn.qkv_proj.weight", 2, (int64_t[]){48, 16});
}

/* y = x - w[0, 2, 4] + w[1, 3, 5], of w seen as three pairs; `also` reads w besides. */
static void import_pairs(const char *also) {
    static const float w[] = {1, 2, 3, 4, 5, 6};
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    initializer(&graph, "w", 1, (int64_t[]){6}, 1, w, sizeof w);
    graph_output(&graph, "y");
    integers(&graph, "pairs", 2, (int64_t[]){3, 2});
    integers(&graph, "halves", 2, (int64_t[]){2, 3});
    integers(&graph, "row", 1, (int64_t[]){3});
    integers(&graph, "zero", 1, (int64_t[]){0});
    integers(&graph, "one", 1, (int64_t[]){1});
    integers(&graph, "two", 1, (int64_t[]){2});
    node(&graph, "Reshape", "paired", "w pairs", "p", NULL);
    node(&graph, "Slice", "s", "p zero one one", "left", NULL);
    node(&graph, "Slice", "u", "p one two one", "right", NULL);
    node(&graph, "Reshape", "flat_left", "left row", "l", NULL);
    node(&graph, "Reshape", "flat_right", "right row", "r", NULL);
    node(&graph, "Sub", "less", "x l", "xl", NULL);
    node(&graph, "Add", "more", "xl r", also != NULL ? "xlr" : "y", NULL);
    if (also != NULL) {
        node(&graph, "Reshape", "halved", also, "h", NULL);
        node(&graph, "ReduceMax", "most", "h", "m", NULL);
        node(&graph, "Add", "last", "xlr m", "y", NULL);
    }
    import(&graph, 13, 1, false);
}

/* x is 1, 2, 3, w 1 ... 6: each pair adds 1. */
Test(seen_in_parts, what_is_computed_stays) {
    import_pairs(NULL);
    expect_shape("w", 2, (int64_t[]){3, 2});
    expect_file_shape("w", 1, (int64_t[]){6});
    expect_values("y", 3, (double[]){2, 3, 4});
}

Test(seen_in_parts, what_is_read_in_another_shape_too_stays_as_it_is) {
    import_pairs("w halves");
    expect_shape("w", 1, (int64_t[]){6});
    cr_expect_eq(find_tensor("w")->file_rank, 0);
    expect_values("y", 3, (double[]){8, 9, 10});
}
