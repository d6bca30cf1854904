/* The importer: what it makes of models that ship, and of graphs as such.  Values are checked by
   walking the nests, against PyTorch's numbers and against sums done by hand. */
#include "../../support/ok.h"
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
    OK(cleave_file_read, full, &arena, &data, &n);
    OK(cleave_model_import_as,
       &(cleave_import_request){
           .file = "other", .data = data, .bytes = n, .batch = 8, .with_loss = true},
       &arena, &model);
    cr_expect_str_eq(model.hash, hash);
    OK(cleave_model_import_as,
       &(cleave_import_request){
           .file = "other", .data = data, .bytes = n, .batch = 9, .with_loss = true},
       &arena, &model);
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
    OK(cleave_file_read, path, &arena, &io, &n);
    snprintf(path, sizeof path, "%s/tests/data/oracles/%s.expect.safetensors", CLEAVE_SOURCE_DIR,
             name);
    OK(cleave_file_read, path, &arena, &expect, &n);
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

/* ---- graphs ---------------------------------------------------------------------------------- */

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
