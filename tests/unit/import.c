/* The importer: what it makes of models that ship, of small ones written here byte by byte, and of
   files that are wrong.  Values are checked by walking the nests, against PyTorch's numbers and
   against sums done by hand. */
#include "base/file.h"
#include "imported.h"

#include <criterion/criterion.h>
#include <stdio.h>

TestSuite(import, .fini = tear_down);

/* ---- the models that ship -------------------------------------------------------------------- */

Test(import, parameter_counts_are_those_of_the_models_authors) {
    static const struct {
        const char *path;
        int64_t count;
    } expected[] = {{"configs/models/mlp.onnx", 535818},
                    {"configs/models/lenet5.onnx", 61706},
                    {"configs/models/alexnet.onnx", 61100840},
                    {"configs/models/resnet50.onnx", 25557032},
                    {"configs/models/resnet101.onnx", 44549160},
                    {"configs/models/inception_v3.onnx", 23834568},
                    {"configs/models/bert_base.onnx", 109512762},
                    {"configs/models/gpt2_small.onnx", 124439808},
                    {"configs/models/dlrm.onnx", 515020866},
                    {"configs/models/rnnlm.onnx", 108111632},
                    {"configs/models/rnntc.onnx", 64309250},
                    {"configs/models/nmt.onnx", 135069952}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        read_model(expected[i].path, 8, true);
        cr_expect_eq(cleave_model_parameter_count(&model), expected[i].count, "%s",
                     expected[i].path);
        cr_expect_eq(model.batch, 8);
    }
}

Test(import, alexnet_has_its_operators_with_their_axes) {
    read_model("configs/models/alexnet.onnx", 32, true);
    /* 5 convolutions, 3 pools (the last one with the dropout that follows the flatten), 3 dense
       layers, the loss; the 1 x 1 average pool is an identity. */
    cr_expect_eq(model.n_operators, 12);
    expect_axes("/features/features.0/Conv", "n=32 k=64 h=55 w=55 c=3 r=11! s=11!");
    expect_roles("/features/features.0/Conv",
                 "sample parameter attribute attribute reduction reduction reduction");
    expect_axes("/features/features.2/MaxPool", "n=32 c=64 h=27 w=27");
    expect_axes("/classifier/classifier.4/Gemm", "n=32 k=4096 c=4096");
    expect_axes("@loss", "n=32 v=1000");
    expect_roles("@loss", "sample reduction");
}

Test(import, a_dense_layer_after_a_flatten_sums_over_c_h_w) {
    read_model("configs/models/alexnet.onnx", 32, true);
    expect_axes("/classifier/classifier.1/Gemm", "n=32 k=4096 c=256 h=6 w=6");
    /* Stored as k c h w, and in memory like the activations, channels innermost. */
    expect_shape("classifier.1.weight", 4, (int64_t[]){4096, 256, 6, 6});
    const cleave_tensor *weight = find_tensor("classifier.1.weight");
    cr_expect_eq(weight->file_rank, 2);
    cr_expect_eq(weight->file_shape[0], 4096);
    cr_expect_eq(weight->file_shape[1], 9216);
    for (int d = 0; d < 4; d++)
        cr_expect_eq(weight->order[d], ((int[]){0, 2, 3, 1})[d]);
    cr_expect_eq(weight->fan_in, 9216);
    cr_expect_eq(find_tensor("classifier.1.bias")->fan_in, 9216);
}

Test(import, a_tail_joins_its_operator) {
    read_model("configs/models/alexnet.onnx", 32, true);
    const cleave_operator *op = find_operator("/classifier/classifier.1/Gemm");
    cr_assert_eq(op->n_nests, 2);
    const cleave_nest *main_nest = &model.nests[op->main_nest];
    const cleave_nest *tail = &model.nests[op->nests[1]];
    cr_expect_str_eq(main_nest->name, "/classifier/classifier.1/Gemm");
    cr_expect_str_eq(model.tensors[main_nest->output.tensor].name,
                     "/classifier/classifier.1/Gemm.z");
    cr_expect_str_eq(tail->name, "/classifier/classifier.1/Gemm.epilogue");
    cr_expect_eq(tail->derivation, CLEAVE_DERIVE_OWNERS);
    cr_expect_eq(tail->owners_of, op->main_nest);
    cr_expect_str_eq(model.tensors[tail->output.tensor].name,
                     "/classifier/classifier.3/Dropout_output_0");
    /* + bias, relu, dropout */
    cr_assert_eq(tail->n_instructions, 3);
    cr_expect_eq(tail->tape[0].opcode, CLEAVE_OP_ADD);
    cr_expect_eq(tail->tape[1].opcode, CLEAVE_OP_RELU);
    cr_expect_eq(tail->tape[2].opcode, CLEAVE_OP_DROPOUT);
}

Test(import, a_residual_sum_is_an_operator_with_its_activation) {
    read_model("tests/data/oracles/tiny_resnet.onnx", 4, true);
    const cleave_operator *op = find_operator("/b1/Relu_1");
    cr_expect_str_eq(op->type, "Relu");
    const cleave_nest *nest = &model.nests[op->main_nest];
    cr_expect_eq(nest->n_inputs, 2);
    cr_expect_eq(nest->n_instructions, 2);
    cr_expect(cleave_nest_backward_from_output(nest));
}

Test(import, running_statistics_are_buffers_and_are_assigned) {
    read_model("configs/models/resnet50.onnx", 8, true);
    cr_expect_eq(find_tensor("bn1.running_mean")->kind, CLEAVE_TENSOR_BUFFER);
    cr_expect_eq(find_tensor("bn1.running_mean")->initial_value, 0.0f);
    cr_expect_eq(find_tensor("bn1.running_var")->initial_value, 1.0f);
    cr_expect_eq(find_tensor("bn1.weight")->initial_value, 1.0f);
    cr_expect_eq(model.n_assignments, 2 * 53);
}

Test(import, a_hash_covers_the_graph_and_the_batch_but_not_the_name) {
    read_model("configs/models/mlp.onnx", 8, true);
    char hash[33];
    memcpy(hash, model.hash, sizeof hash);
    cr_expect_eq(strlen(hash), 32u);
    char full[4096], *data;
    size_t n;
    snprintf(full, sizeof full, "%s/configs/models/mlp.onnx", CLEAVE_SOURCE_DIR);
    cr_assert_eq(cleave_file_read(full, &arena, &data, &n, NULL), CLEAVE_OK);
    cr_assert_eq(cleave_model_import_memory(data, n, "other", 8, true, &arena, &model, NULL),
                 CLEAVE_OK);
    cr_expect_str_eq(model.hash, hash);
    cr_assert_eq(cleave_model_import_memory(data, n, "other", 9, true, &arena, &model, NULL),
                 CLEAVE_OK);
    cr_expect_str_neq(model.hash, hash);
}

/* ---- against PyTorch ------------------------------------------------------------------------- */

/* Bytes of a tensor in a safetensors file: 8 bytes of header length, a JSON header, data. */
static const char *tensor_data(const char *file, const char *name) {
    char key[128];
    uint64_t header;
    memcpy(&header, file, sizeof header);
    snprintf(key, sizeof key, "\"%s\":{", name);
    const char *at = strstr(file + 8, key);
    cr_assert_not_null(at, "%s", name);
    at = strstr(at, "\"data_offsets\":[") + strlen("\"data_offsets\":[");
    return file + 8 + header + strtoull(at, NULL, 10);
}

static void compare_with_pytorch(const char *name, const char *input, int64_t batch) {
    char path[4096], *io, *expect;
    size_t n;
    snprintf(path, sizeof path, "%s/tests/data/oracles/%s.io.safetensors", CLEAVE_SOURCE_DIR, name);
    cr_assert_eq(cleave_file_read(path, &arena, &io, &n, NULL), CLEAVE_OK);
    snprintf(path, sizeof path, "%s/tests/data/oracles/%s.expect.safetensors", CLEAVE_SOURCE_DIR,
             name);
    cr_assert_eq(cleave_file_read(path, &arena, &expect, &n, NULL), CLEAVE_OK);
    snprintf(path, sizeof path, "tests/data/oracles/%s.onnx", name);
    read_model(path, batch, true);
    double_evaluator e;
    cr_assert(double_evaluator_create(&model, &arena, &e));
    double_evaluator_set_floats(&e, cleave_model_find_tensor(&model, input),
                                (const void *)tensor_data(io, input));
    for (int64_t i = 0; i < batch; i++) {
        int64_t target;
        memcpy(&target, tensor_data(io, "targets") + i * 8, sizeof target);
        double_evaluator_values(&e, model.targets)[i] = (double)target;
    }
    double_evaluator_run(&e);
    float loss, logit;
    memcpy(&loss, tensor_data(expect, "loss"), sizeof loss);
    double got = double_evaluator_element(&e, model.loss, 0);
    cr_expect(fabs(got - (double)loss) < 1e-6, "%s: loss %g, not %g", name, got, (double)loss);
    int32_t logits = cleave_model_find_tensor(&model, "logits");
    for (int64_t i = 0; i < cleave_tensor_size(&model.tensors[logits]); i++) {
        memcpy(&logit, tensor_data(expect, "logits") + i * 4, sizeof logit);
        cr_expect(fabs(double_evaluator_element(&e, logits, i) - (double)logit) < 1e-5,
                  "%s: logit %lld", name, (long long)i);
    }
}

Test(import, logits_and_loss_of_a_perceptron_equal_pytorch) {
    compare_with_pytorch("tiny_mlp", "x", 8);
}
Test(import, logits_and_loss_with_pools_and_normalisation_equal_pytorch) {
    compare_with_pytorch("tiny_cnn", "x", 6);
}
Test(import, logits_and_loss_of_a_residual_network_equal_pytorch) {
    compare_with_pytorch("tiny_resnet", "x", 4);
}

/* ---- single operators ------------------------------------------------------------------------ */

Test(import, an_average_leaves_padding_out_unless_told) {
    /* 1 2 3 4 padded by one on both sides, windows of 3. */
    bytes attributes = {.n = 0};
    attribute_integers(&attributes, "kernel_shape", 1, (int64_t[]){3});
    attribute_integers(&attributes, "pads", 2, (int64_t[]){1, 1});
    one_node("AveragePool", "batch 1 4", &attributes, 13);
    expect_values("y", 4, (double[]){1.5, 2, 3, 3.5});
    attribute_integer(&attributes, "count_include_pad", 1);
    one_node("AveragePool", "batch 1 4", &attributes, 13);
    expect_values("y", 4, (double[]){1, 2, 3, 7. / 3});
}

Test(import, ceil_mode_adds_a_window_of_what_is_left) {
    /* 1 2 | 3 4 | 5 */
    bytes attributes = {.n = 0};
    attribute_integers(&attributes, "kernel_shape", 1, (int64_t[]){2});
    attribute_integers(&attributes, "strides", 1, (int64_t[]){2});
    one_node("AveragePool", "batch 1 5", &attributes, 13);
    expect_values("y", 2, (double[]){1.5, 3.5});
    attribute_integer(&attributes, "ceil_mode", 1);
    one_node("AveragePool", "batch 1 5", &attributes, 13);
    expect_values("y", 3, (double[]){1.5, 3.5, 5});
    one_node("MaxPool", "batch 1 5", &attributes, 13);
    expect_values("y", 3, (double[]){2, 4, 5});
}

Test(import, a_pad_of_zeros_becomes_padding_of_the_average_and_counts) {
    /* 0 1 2 3 4 0, windows of 2, stride 2: (0 + 1) / 2, (2 + 3) / 2, (4 + 0) / 2 */
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 1 4");
    graph_output(&graph, "y");
    integers(&graph, "pads", 6, (int64_t[]){0, 0, 1, 0, 0, 1});
    node(&graph, "Pad", "pad", "x pads", "p", NULL);
    attribute_integers(&attributes, "kernel_shape", 1, (int64_t[]){2});
    attribute_integers(&attributes, "strides", 1, (int64_t[]){2});
    node(&graph, "AveragePool", "pool", "p", "y", &attributes);
    import(&graph, 13, 1, false);
    cr_expect_eq(cleave_model_find_tensor(&model, "p"), -1, "the pad is no tensor any more");
    expect_values("y", 3, (double[]){0.5, 2.5, 2});
}

Test(import, a_pad_before_a_maximum_stays_a_view) {
    /* 0 1 2 3 4 -> windows of 3: 2, 3, 4, and with negative inputs the 0 would win. */
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 1 4");
    graph_output(&graph, "y");
    integers(&graph, "pads", 6, (int64_t[]){0, 0, 1, 0, 0, 0});
    node(&graph, "Neg", "neg", "x", "m", NULL);
    node(&graph, "Pad", "pad", "m pads", "p", NULL);
    attribute_integers(&attributes, "kernel_shape", 1, (int64_t[]){3});
    node(&graph, "MaxPool", "pool", "p", "y", &attributes);
    import(&graph, 13, 1, false);
    cr_expect_eq(find_tensor("p")->view.kind, CLEAVE_VIEW_PAD);
    expect_values("y", 3, (double[]){0, -1, -2});
}

Test(import, a_global_average_can_be_split_along_its_sums) {
    one_node("GlobalAveragePool", "batch 2 2 2", NULL, 13);
    expect_axes("op", "n=1 c=2 h=2 w=2");
    expect_values("y", 2, (double[]){2.5, 6.5});
}

Test(import, softmax_reduces_one_axis_or_everything_behind_it_by_operator_set) {
    /* x = 1 .. 4 as [1, 2, 2].  From set 13 on, over the last axis: 1 / (1 + e), e / (1 + e).
       Before, axis 1 began a row of all four. */
    double e = exp(1), row = 1 + e + e * e + e * e * e;
    bytes attributes = {.n = 0};
    one_node("Softmax", "batch 2 2", NULL, 13);
    expect_values("y", 4, (double[]){1 / (1 + e), e / (1 + e), 1 / (1 + e), e / (1 + e)});
    one_node("Softmax", "batch 2 2", NULL, 12);
    expect_values("y", 4, (double[]){1 / row, e / row, e * e / row, e * e * e / row});
    attribute_integer(&attributes, "axis", 1);
    one_node("Softmax", "batch 2 2", &attributes, 13);
    double f = 1 + e * e;
    expect_values("y", 4, (double[]){1 / f, 1 / f, e * e / f, e * e / f});
    cr_expect_eq(find_operator("op")->n_nests, 3);
    cr_expect_not(find_operator("op")->axes[1].whole);
}

Test(import, transposes_slices_and_concatenations_are_views) {
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

Test(import, shape_arithmetic_is_folded) {
    /* Reshape to [Shape(x)[0], -1] of a [2, 3, 2] tensor. */
    bytes graph = {.n = 0}, axis = {.n = 0};
    graph_input(&graph, "x", "batch 3 2");
    graph_output(&graph, "y");
    initializer(&graph, "zero", 0, NULL, 7, (int64_t[]){0}, 8);
    integers(&graph, "axes", 1, (int64_t[]){0});
    integers(&graph, "rest", 1, (int64_t[]){-1});
    node(&graph, "Shape", "shape", "x", "s", NULL);
    node(&graph, "Gather", "gather", "s zero", "n", NULL);
    node(&graph, "Unsqueeze", "unsqueeze", "n axes", "n1", NULL);
    attribute_integer(&axis, "axis", 0);
    node(&graph, "Concat", "concat", "n1 rest", "target", &axis);
    node(&graph, "Reshape", "reshape", "x target", "flat", NULL);
    node(&graph, "Relu", "relu", "flat", "y", NULL);
    import(&graph, 13, 2, false);
    cr_expect_eq(model.n_operators, 1);
    expect_shape("y", 2, (int64_t[]){2, 6});
}

Test(import, a_grouped_convolution_has_an_axis_of_groups) {
    /* 4 channels in 2 groups of 2, 2 outputs a group, windows of 1 x 1, weights 1 .. 8:
       output g k = weight[2g + k] . x[2g .. 2g + 1], x = 1 2 3 4. */
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 4 1 1");
    graph_input(&graph, "w", "4 2 1 1");
    graph_output(&graph, "y");
    attribute_integer(&attributes, "group", 2);
    node(&graph, "Conv", "op", "x w", "y", &attributes);
    import(&graph, 13, 1, false);
    expect_axes("op", "n=1 g=2 k=2! h=1 w=1 c=2! r=1! s=1!");
    expect_shape("w", 5, (int64_t[]){2, 2, 2, 1, 1});
    cr_expect_eq(find_tensor("w")->fan_in, 2);
    expect_values("y", 4, (double[]){1 * 1 + 2 * 2, 3 * 1 + 4 * 2, 5 * 3 + 6 * 4, 7 * 3 + 8 * 4});
}

Test(import, a_convolution_strides_dilates_and_pads) {
    /* x = 1 .. 5, weight 1 2, stride 2, dilation 2, one zero in front: positions -1 and 1, 1 and 3
       of x (counted from 0): 0 + 2 * 2, 2 + 2 * 4. */
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 1 5");
    graph_input(&graph, "w", "1 1 2");
    graph_output(&graph, "y");
    attribute_integers(&attributes, "strides", 1, (int64_t[]){2});
    attribute_integers(&attributes, "dilations", 1, (int64_t[]){2});
    attribute_integers(&attributes, "pads", 2, (int64_t[]){1, 0});
    node(&graph, "Conv", "op", "x w", "y", &attributes);
    import(&graph, 13, 1, false);
    expect_axes("op", "n=1 k=1 w=2 c=1 s=2!");
    expect_values("y", 2, (double[]){4, 10});
}

Test(import, same_padding_puts_the_odd_element_behind_or_in_front) {
    /* x = 1 2 3, weight 1 2: SAME_UPPER pads behind, SAME_LOWER in front. */
    for (int lower = 0; lower < 2; lower++) {
        bytes graph = {.n = 0}, attributes = {.n = 0};
        graph_input(&graph, "x", "batch 1 3");
        graph_input(&graph, "w", "1 1 2");
        graph_output(&graph, "y");
        attribute_text(&attributes, "auto_pad", lower ? "SAME_LOWER" : "SAME_UPPER");
        node(&graph, "Conv", "op", "x w", "y", &attributes);
        import(&graph, 13, 1, false);
        expect_values("y", 3, lower ? (double[]){2, 5, 8} : (double[]){5, 8, 3});
    }
}

Test(import, gemm_transposes_by_maps_and_scales_in_its_tail) {
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

Test(import, matmul_broadcasts_its_batch) {
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

Test(import, a_vector_added_to_a_product_is_its_bias) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 2 3");
    graph_input(&graph, "w", "3 4");
    graph_input(&graph, "b", "4");
    graph_output(&graph, "y");
    node(&graph, "MatMul", "op", "x w", "z", NULL);
    node(&graph, "Add", "add", "b z", "s", NULL);
    node(&graph, "Sigmoid", "act", "s", "y", NULL);
    import(&graph, 13, 5, false);
    cr_expect_eq(model.n_operators, 1);
    expect_axes("op", "b0=5 m=2 k=4 c=3");
    cr_expect_eq(find_tensor("b")->fan_in, 3);
    const cleave_nest *tail = &model.nests[find_operator("op")->nests[1]];
    cr_expect(cleave_nest_backward_from_output(tail));
    cr_expect(tail->in_place);
}

Test(import, an_activation_with_another_reader_stays_alone) {
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

Test(import, a_weight_with_two_readers_is_refined_by_a_view) {
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

Test(import, scalars_go_into_the_tape_and_broadcasts_into_maps) {
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

Test(import, dropout_without_training_is_nothing) {
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

Test(import, inference_normalisation_uses_the_running_statistics) {
    /* (x - mean) / sqrt(variance + epsilon) x scale + bias; mean 0, variance 1, epsilon 3. */
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 1 2");
    graph_output(&graph, "y");
    const char *const names[] = {"scale", "bias", "mean", "variance"};
    for (int i = 0; i < 4; i++)
        initializer(&graph, names[i], 1, (int64_t[]){1}, 1, (float[]){(float[]){4, 1, 0, 1}[i]}, 4);
    attribute_float(&attributes, "epsilon", 3);
    node(&graph, "BatchNormalization", "op", "x scale bias mean variance", "y", &attributes);
    import(&graph, 15, 1, false);
    cr_expect_eq(find_operator("op")->n_nests, 1);
    expect_values("y", 2, (double[]){3, 5});
}

Test(import, training_normalisation_updates_by_the_population_variance) {
    /* x = 1 2 3 4: mean 2.5, variance 1.25; running mean 0 and variance 1, momentum 0.5. */
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 1 2");
    graph_output(&graph, "y");
    const char *const names[] = {"scale", "bias", "mean", "variance"};
    for (int i = 0; i < 4; i++)
        initializer(&graph, names[i], 1, (int64_t[]){1}, 1, (float[]){(float[]){1, 0, 0, 1}[i]}, 4);
    attribute_float(&attributes, "momentum", 0.5f);
    attribute_float(&attributes, "epsilon", 0);
    attribute_integer(&attributes, "training_mode", 1);
    node(&graph, "BatchNormalization", "op", "x scale bias mean variance", "y m v", &attributes);
    import(&graph, 15, 2, false);
    double s = sqrt(1.25);
    expect_values("y", 4, (double[]){-1.5 / s, -0.5 / s, 0.5 / s, 1.5 / s});
    expect_values("m", 1, (double[]){0.5 * 2.5});
    expect_values("v", 1, (double[]){0.5 * 1 + 0.5 * 1.25});
    cr_expect_eq(model.n_assignments, 2);
}

Test(import, the_loss_goes_over_the_last_axis_at_rank_3_and_over_axis_1_else) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 5 7");
    graph_output(&graph, "y");
    node(&graph, "Relu", "relu", "x", "y", NULL);
    import(&graph, 13, 3, true);
    expect_axes("@loss", "n=3 t=5 v=7");
    expect_shape("targets", 2, (int64_t[]){3, 5});
    cr_expect_eq(find_tensor("targets")->below, 7);
    graph = (bytes){.n = 0};
    graph_input(&graph, "x", "batch 5 7 2");
    graph_output(&graph, "y");
    node(&graph, "Relu", "relu", "x", "y", NULL);
    import(&graph, 13, 3, true);
    expect_axes("@loss", "n=3 v=5 h=7 w=2");
    expect_shape("targets", 3, (int64_t[]){3, 7, 2});
}

Test(import, two_nodes_of_one_name_are_told_apart) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    graph_output(&graph, "y");
    graph_output(&graph, "z");
    node(&graph, "Relu", "same", "x", "y", NULL);
    node(&graph, "Tanh", "same", "x", "z", NULL);
    import(&graph, 13, 2, false);
    cr_expect_str_eq(model.operators[0].name, "same");
    cr_expect_str_eq(model.operators[1].name, "same#2");
}

Test(import, nodes_need_not_be_in_order_and_dead_ones_are_left_out) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    graph_output(&graph, "y");
    node(&graph, "LSTM", "dead", "b", "unused", NULL);
    node(&graph, "Tanh", "second", "a", "y", NULL);
    node(&graph, "Exp", "first", "x", "a", NULL);
    node(&graph, "Exp", "dead2", "x", "b", NULL);
    import(&graph, 13, 2, false);
    cr_expect_eq(model.n_operators, 1);
    expect_values("y", 6,
                  (double[]){tanh(exp(1)), tanh(exp(2)), tanh(exp(3)), tanh(exp(4)), tanh(exp(5)),
                             tanh(exp(6))});
}

/* ---- what is refused ------------------------------------------------------------------------- */

static bytes relu_graph(const char *shape) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", shape);
    graph_output(&graph, "y");
    node(&graph, "Relu", "relu", "x", "y", NULL);
    return graph;
}

Test(import, empty_random_and_truncated_files_are_refused) {
    bytes graph = relu_graph("batch 3"), file = model_file(&graph, 13);
    expect_bytes_refused("", 0, 2, "hand: the file is empty");
    expect_bytes_refused("\x89PNG\r\n\x1a\n", 8, 2, "not an ONNX model");
    expect_bytes_refused(file.data, file.n - 3, 2, "not an ONNX model");
    /* Whatever is cut off or changed, nothing crashes. */
    for (size_t n = 0; n < file.n; n++) {
        bytes broken = file;
        broken.data[n] ^= 0x55;
        cleave_model any;
        cleave_error error = {""};
        cleave_model_import_memory(file.data, n, "hand", 2, true, &arena, &any, &error);
        cleave_model_import_memory(broken.data, file.n, "hand", 2, true, &arena, &any, &error);
    }
}

Test(import, messages_nested_without_end_are_refused) {
    /* An attribute that holds a graph (6) whose node (1) has an attribute (5), and so on. */
    bytes inner = {.n = 0};
    for (int i = 0; i < 50; i++) {
        static const unsigned fields[] = {5, 1, 6};
        bytes outer = {.n = 0};
        put_message(&outer, fields[i % 3], &inner);
        inner = outer;
    }
    bytes graph = {.n = 0}, attribute = {.n = 0}, holder = {.n = 0};
    put_message(&attribute, 6, &inner);
    put_message(&holder, 5, &attribute);
    put_message(&graph, 1, &holder);
    expect_refused(&graph, 13, 2, "not an ONNX model");
}

Test(import, an_operator_that_is_not_supported_is_named) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    graph_output(&graph, "y");
    node(&graph, "Loop", "cell", "x", "y", NULL);
    expect_refused(
        &graph, 13, 2,
        "hand: node cell (Loop): operator Loop is not supported; `cleave show operators` lists "
        "those that are");
}

Test(import, an_attribute_that_is_not_supported_is_named) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    graph_output(&graph, "y");
    attribute_integer(&attributes, "twist", 1);
    node(&graph, "Relu", "relu", "x", "y", &attributes);
    expect_refused(&graph, 13, 2, "hand: node relu (Relu): attribute twist is not supported");
}

Test(import, a_cycle_is_refused) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    graph_output(&graph, "b");
    node(&graph, "Add", "one", "x b", "a", NULL);
    node(&graph, "Relu", "two", "a", "b", NULL);
    expect_refused(&graph, 13, 2, "hand: node one (Add): lies on a cycle");
}

Test(import, what_is_not_defined_or_defined_twice_is_refused) {
    bytes graph = {.n = 0};
    graph_output(&graph, "y");
    node(&graph, "Relu", "relu", "nowhere", "y", NULL);
    expect_refused(&graph, 13, 2, "hand: node relu (Relu): input nowhere is not defined");
    graph = relu_graph("batch 3");
    node(&graph, "Tanh", "again", "x", "y", NULL);
    expect_refused(&graph, 13, 2, "hand: node again (Tanh): y is defined twice");
}

Test(import, a_tensor_of_2_to_the_62_is_refused) {
    bytes graph = relu_graph("batch 4611686018427387904");
    expect_refused(&graph, 13, 2, "hand: node relu (Relu): x has more than 2^40 elements");
    graph = relu_graph("batch 4294967296 4294967296");
    expect_refused(&graph, 13, 2, "x has more than 2^40 elements");
    graph = relu_graph("batch 3");
    initializer(&graph, "big", 1, (int64_t[]){INT64_C(1) << 62}, 1, "", 0);
    expect_refused(&graph, 13, 2, "dimension 0 of big is 4611686018427387904");
}

Test(import, data_that_does_not_fill_its_shape_is_refused) {
    bytes graph = relu_graph("batch 3");
    initializer(&graph, "w", 1, (int64_t[]){3}, 1, (float[]){1, 2}, 8);
    expect_refused(&graph, 13, 2, "w has 3 elements by its dimensions, but 2 in its data");
}

Test(import, the_batch_has_to_be_said_where_it_is_symbolic_and_only_there) {
    bytes graph = relu_graph("batch 3");
    expect_refused(&graph, 13, 0,
                   "the batch dimension (batch) is symbolic: a batch size is needed");
    expect_refused(&graph, 13, -5, "a batch of -5 is not possible");
    graph = relu_graph("batch time");
    expect_refused(&graph, 13, 2, "dimension 1 of graph input x is symbolic (time)");
    graph = relu_graph("4 3");
    initializer(&graph, "w", 1, (int64_t[]){1}, 1, (float[]){1}, 4);
    expect_refused(&graph, 13, 2, "x has a fixed batch of 4, not 2");
}

Test(import, operator_sets_out_of_range_are_refused) {
    bytes graph = relu_graph("batch 3");
    expect_refused(&graph, 22, 2, "uses ONNX operator set 22, supported are 1 to 21");
}

Test(import, operators_that_meant_something_else_in_old_sets_are_refused_there) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    graph_output(&graph, "y");
    node(&graph, "BatchNormalization", "op", "x x x x x", "y", NULL);
    expect_refused(&graph, 6, 2, "is of operator set 6, supported is this operator from 7 on");
    attribute_integers(&attributes, "consumed_inputs", 1, (int64_t[]){0});
    one_node("Relu", "1 3", &attributes, 5); /* a hint without a meaning */
    graph.n = 0;
    graph_input(&graph, "x", "batch 3");
    graph_output(&graph, "y");
    node(&graph, "Relu", "op", "x", "y", &attributes);
    expect_refused(&graph, 6, 2, "attribute consumed_inputs is not supported");
}

/* Views compute nothing, so something has to. */
Test(import, outputs_of_a_model_of_views_alone_are_copied) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "2 3");
    graph_output(&graph, "y");
    attribute_integers(&attributes, "perm", 2, (int64_t[]){1, 0});
    node(&graph, "Transpose", "op", "x", "y", &attributes);
    import(&graph, 13, 0, false);
    cr_assert_eq(model.n_operators, 1);
    expect_values("y", 6, (double[]){1, 4, 2, 5, 3, 6});
    cr_assert_eq(model.tensors[model.outputs[0]].view.kind, CLEAVE_VIEW_NONE);
}

Test(import, shapes_that_do_not_fit_are_refused) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    graph_input(&graph, "w", "4 2");
    graph_output(&graph, "y");
    node(&graph, "MatMul", "op", "x w", "y", NULL);
    expect_refused(&graph, 13, 2, "node op (MatMul): sums over 3 on one side and 4 on the other");
    bytes pool = {.n = 0}, attributes = {.n = 0};
    graph_input(&pool, "x", "batch 1 3");
    graph_output(&pool, "y");
    attribute_integers(&attributes, "kernel_shape", 1, (int64_t[]){5});
    node(&pool, "MaxPool", "op", "x", "y", &attributes);
    expect_refused(&pool, 13, 2, "a window of 5 does not fit the 3 positions of dimension 2");
}

Test(import, views_without_end_are_refused) {
    /* Concat(x, x) thirteen times would have 2^13 pieces. */
    bytes graph = {.n = 0}, axis = {.n = 0};
    char inputs[32], output[16];
    graph_input(&graph, "t0", "batch 1");
    graph_output(&graph, "t13");
    attribute_integer(&axis, "axis", 1);
    for (int i = 0; i < 13; i++) {
        snprintf(inputs, sizeof inputs, "t%d t%d", i, i);
        snprintf(output, sizeof output, "t%d", i + 1);
        node(&graph, "Concat", output, inputs, output, &axis);
    }
    expect_refused(&graph, 13, 1, "over 8192 pieces");
}
