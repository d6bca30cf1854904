/* What transformers are made of: operators that are spelled out by several nodes, and attention. */
#include "../../support/ok.h"
#include "graph/model/layout.h"
#include "imported.h"

TestSuite(import_transformer, .fini = tear_down);

static void number(bytes *graph, const char *name, float value) {
    initializer(graph, name, 0, NULL, 1, &value, sizeof value);
}

static bytes begin(void) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 2");
    graph_output(&graph, "y");
    number(&graph, "half", 0.5f);
    number(&graph, "one", 1);
    number(&graph, "two", 2);
    number(&graph, "three", 3);
    number(&graph, "six", 6);
    number(&graph, "root2", 1.4142135f);
    number(&graph, "rsqrt2", 0.70710677f);
    number(&graph, "cubic", 0.044715f);
    number(&graph, "root", 0.7978845608f);
    return graph;
}

/* The graph is one operator of this type, named by its last node; x is 1, 2. */
static void expect_replaced(const bytes *graph, const char *name, const char *type,
                            double (*function)(double)) {
    import(graph, 13, 1, false);
    cr_assert_eq(model.n_operators, 1, "%d operators", model.n_operators);
    cr_expect_str_eq(model.operators[0].name, name);
    cr_expect_str_eq(model.operators[0].type, type);
    expect_values("y", 2, (double[]){function(1), function(2)});
}

static double gelu(double x) { return x * (1 + erf(x / sqrt(2))) / 2; }
static double tanh_gelu(double x) {
    return x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) / 2;
}
static double swish(double x) { return x / (1 + exp(-x)); }
static double mish(double x) { return x * tanh(log1p(exp(x))); }
static double hard_swish(double x) { return x * fmin(fmax(x + 3, 0), 6) / 6; }

Test(import_transformer, gelu_by_erf_is_one_operator) {
    bytes graph = begin();
    node(&graph, "Div", "a", "x root2", "a", NULL);
    node(&graph, "Erf", "b", "a", "b", NULL);
    node(&graph, "Add", "c", "b one", "c", NULL);
    node(&graph, "Mul", "d", "x c", "d", NULL);
    node(&graph, "Mul", "e", "d half", "y", NULL);
    expect_replaced(&graph, "e", "Gelu", gelu);
}

Test(import_transformer, factors_of_gelu_come_in_any_order) {
    bytes graph = begin();
    node(&graph, "Mul", "a", "rsqrt2 x", "a", NULL);
    node(&graph, "Erf", "b", "a", "b", NULL);
    node(&graph, "Add", "c", "one b", "c", NULL);
    node(&graph, "Div", "d", "c two", "d", NULL);
    node(&graph, "Mul", "e", "d x", "y", NULL);
    expect_replaced(&graph, "e", "Gelu", gelu);
}

Test(import_transformer, gelu_by_tanh_is_one_operator) {
    bytes graph = begin();
    node(&graph, "Mul", "a", "x half", "a", NULL);
    node(&graph, "Pow", "b", "x three", "b", NULL);
    node(&graph, "Mul", "c", "b cubic", "c", NULL);
    node(&graph, "Add", "d", "x c", "d", NULL);
    node(&graph, "Mul", "e", "d root", "e", NULL);
    node(&graph, "Tanh", "f", "e", "f", NULL);
    node(&graph, "Add", "g", "f one", "g", NULL);
    node(&graph, "Mul", "h", "a g", "y", NULL);
    expect_replaced(&graph, "h", "Gelu", tanh_gelu);
}

Test(import_transformer, gelu_by_tanh_may_have_x_taken_out) {
    bytes graph = begin();
    node(&graph, "Mul", "a", "x x", "a", NULL);
    node(&graph, "Mul", "b", "a cubic", "b", NULL);
    node(&graph, "Add", "c", "one b", "c", NULL);
    node(&graph, "Mul", "d", "x root", "d", NULL);
    node(&graph, "Mul", "e", "d c", "e", NULL);
    node(&graph, "Tanh", "f", "e", "f", NULL);
    node(&graph, "Add", "g", "f one", "g", NULL);
    node(&graph, "Mul", "h", "half g", "h", NULL);
    node(&graph, "Mul", "i", "x h", "y", NULL);
    expect_replaced(&graph, "i", "Gelu", tanh_gelu);
}

Test(import_transformer, gates_are_one_operator) {
    bytes graph = begin();
    node(&graph, "Sigmoid", "a", "x", "a", NULL);
    node(&graph, "Mul", "b", "x a", "y", NULL);
    expect_replaced(&graph, "b", "Swish", swish);
    graph = begin();
    node(&graph, "Softplus", "a", "x", "a", NULL);
    node(&graph, "Tanh", "b", "a", "b", NULL);
    node(&graph, "Mul", "c", "b x", "y", NULL);
    expect_replaced(&graph, "c", "Mish", mish);
    graph = begin();
    number(&graph, "zero", 0);
    node(&graph, "Add", "a", "x three", "a", NULL);
    node(&graph, "Clip", "b", "a zero six", "b", NULL);
    node(&graph, "Mul", "c", "x b", "c", NULL);
    node(&graph, "Div", "d", "c six", "y", NULL);
    expect_replaced(&graph, "d", "HardSwish", hard_swish);
}

/* The same nodes with another number are something else, and stay what they are. */
Test(import_transformer, other_numbers_are_no_gelu) {
    bytes graph = begin();
    node(&graph, "Div", "a", "x two", "a", NULL);
    node(&graph, "Erf", "b", "a", "b", NULL);
    node(&graph, "Add", "c", "b one", "c", NULL);
    node(&graph, "Mul", "d", "x c", "d", NULL);
    node(&graph, "Mul", "e", "d half", "y", NULL);
    import(&graph, 13, 1, false);
    cr_expect_str_neq(model.operators[model.n_operators - 1].type, "Gelu");
    expect_values("y", 2, (double[]){(1 + erf(0.5)) / 2, 1 + erf(1)});
}

Test(import_transformer, what_others_read_is_not_replaced) {
    bytes graph = begin();
    graph_output(&graph, "b");
    node(&graph, "Div", "a", "x root2", "a", NULL);
    node(&graph, "Erf", "b", "a", "b", NULL);
    node(&graph, "Add", "c", "b one", "c", NULL);
    node(&graph, "Mul", "d", "x c", "d", NULL);
    node(&graph, "Mul", "e", "d half", "y", NULL);
    import(&graph, 13, 1, false);
    expect_values("y", 2, (double[]){gelu(1), gelu(2)});
    expect_values("b", 2, (double[]){erf(1 / sqrt(2)), erf(sqrt(2))});
}

/* Rows 1 2 have mean 1.5 and variance 1/4; with epsilon 3/4 they become -1/2 1/2. */
Test(import_transformer, layer_normalisation_that_is_spelled_out_is_one_operator) {
    bytes graph = begin(), last = {.n = 0};
    number(&graph, "epsilon", 0.75f);
    initializer(&graph, "scale", 1, (int64_t[]){2}, 1, (float[]){2, 4}, 8);
    initializer(&graph, "bias", 1, (int64_t[]){2}, 1, (float[]){10, 20}, 8);
    attribute_integers(&last, "axes", 1, (int64_t[]){-1});
    node(&graph, "ReduceMean", "a", "x", "a", &last);
    node(&graph, "Sub", "b", "x a", "b", NULL);
    node(&graph, "Pow", "c", "b two", "c", NULL);
    node(&graph, "ReduceMean", "d", "c", "d", &last);
    node(&graph, "Add", "e", "d epsilon", "e", NULL);
    node(&graph, "Sqrt", "f", "e", "f", NULL);
    node(&graph, "Div", "g", "b f", "g", NULL);
    node(&graph, "Mul", "h", "g scale", "h", NULL);
    node(&graph, "Add", "i", "h bias", "y", NULL);
    import(&graph, 13, 1, false);
    cr_assert_eq(model.n_operators, 1);
    cr_expect_str_eq(model.operators[0].name, "i");
    cr_expect_str_eq(model.operators[0].type, "LayerNormalization");
    expect_values("y", 2, (double[]){9, 22});
}

/* ---- attention ------------------------------------------------------------------------------- */

enum { T = 3, H = 2, D = 2 };

/* Heads of x [batch, T, H D] as queries, keys and values; softmax(scale q k + mask) v. */
static bytes attention(bool masked, bool keeps_weights) {
    static const float mask[T * T] = {0, -100, -100, 0, 0, -100, 0, 0, 0};
    bytes graph = {.n = 0}, heads = {.n = 0}, keys = {.n = 0}, axis = {.n = 0};
    graph_input(&graph, "x", "batch 3 4");
    graph_output(&graph, "y");
    if (keeps_weights)
        graph_output(&graph, "p");
    number(&graph, "ten", 10);
    initializer(&graph, "w", 2, (int64_t[]){4, 1}, 1, (float[]){1, 10, 100, 1000}, 16);
    integers(&graph, "split", 4, (int64_t[]){-1, T, H, D});
    integers(&graph, "merge", 3, (int64_t[]){-1, T, H * D});
    attribute_integers(&heads, "perm", 4, (int64_t[]){0, 2, 1, 3});
    attribute_integers(&keys, "perm", 4, (int64_t[]){0, 2, 3, 1});
    attribute_integer(&axis, "axis", -1);
    node(&graph, "Reshape", "r", "x split", "r", NULL);
    node(&graph, "Transpose", "q", "r", "q", &heads);
    node(&graph, "Transpose", "k", "r", "k", &keys);
    node(&graph, "Transpose", "v", "r", "v", &heads);
    node(&graph, "MatMul", "scores", "q k", "s", NULL);
    node(&graph, "Div", "scale", "s ten", masked ? "t" : "u", NULL);
    if (masked) {
        bytes constant = {.n = 0};
        attribute_tensor(&constant, "value", 4, (int64_t[]){1, 1, T, T}, 1, mask, sizeof mask);
        node(&graph, "Constant", "mask", "", "m", &constant);
        node(&graph, "Add", "add", "t m", "u", NULL);
    }
    node(&graph, "Softmax", "softmax", "u", "p", &axis);
    node(&graph, "MatMul", "values", "p v", "o", NULL);
    node(&graph, "Transpose", "back", "o", "a", &heads);
    node(&graph, "Reshape", "join", "a merge", "b", NULL);
    node(&graph, "MatMul", "out", "b w", "y", NULL);
    return graph;
}

/* Element (t, h, d) of x is 1 + 4 t + 2 h + d. */
static double x_at(int t, int h, int d) { return 1 + H * D * t + D * h + d; }

static void expect_attention(bool causal) {
    double y[T] = {0};
    for (int h = 0; h < H; h++)
        for (int q = 0; q < T; q++) {
            double sum = 0, value[D] = {0};
            for (int k = 0; k < (causal ? q + 1 : T); k++) {
                double score = 0;
                for (int d = 0; d < D; d++)
                    score += x_at(q, h, d) * x_at(k, h, d) / 10;
                sum += exp(score);
                for (int d = 0; d < D; d++)
                    value[d] += exp(score) * x_at(k, h, d);
            }
            for (int d = 0; d < D; d++)
                y[q] += value[d] / sum * pow(10, D * h + d);
        }
    expect_values("y", T, y);
}

Test(import_transformer, attention_is_one_operator_over_samples_heads_queries_and_keys) {
    bytes graph = attention(false, false);
    import(&graph, 13, 1, false);
    cr_expect_eq(model.n_operators, 2);
    expect_axes("values", "n=1 h=2 q=3 k=3");
    expect_roles("values", "sample attribute attribute reduction");
    cr_expect_str_eq(find_operator("values")->type, "Attention");
    /* What follows sums over heads and their width, and reads them where they lie. */
    expect_axes("out", "b0=1 m=3 k=1 h=2 d=2");
    expect_attention(false);
}

Test(import_transformer, an_added_mask_belongs_to_attention) {
    bytes graph = attention(true, false);
    import(&graph, 13, 1, false);
    cr_expect_eq(model.n_operators, 2);
    expect_axes("values", "n=1 h=2 q=3 k=3");
    expect_attention(true);
}

Test(import_transformer, attention_whose_weights_are_an_output_is_not_fused) {
    bytes graph = attention(false, true);
    import(&graph, 13, 1, false);
    cr_expect_gt(model.n_operators, 2);
    expect_attention(false);
}

/* ---- whole models ---------------------------------------------------------------------------- */

/* A block: query, key, value, attention, output, sum, norm, two dense layers, sum, norm.  Around
   them the embedding with positions, its norm, two dense layers, a norm and the loss. */
Test(import_transformer, a_block_of_bert_is_eleven_operators) {
    read_model("configs/models/bert_base.onnx", 2, true);
    cr_expect_eq(model.n_operators, 12 * 11 + 6);
    expect_axes("/layer.3/attention/MatMul_1", "n=2 h=12 q=128 k=128");
    expect_axes("/layer.3/attention/output/MatMul", "b0=2 m=128 k=768 h=12 d=64");
}

/* Queries, keys, values and the result of attention lie where they are read: by no view but a
   reshape of their own. */
Test(import_transformer, attention_of_bert_copies_nothing) {
    read_model("configs/models/bert_base.onnx", 2, true);
    const cleave_operator *op = find_operator("/layer.3/attention/MatMul_1");
    for (int32_t i = 0; i < op->n_nests; i++) {
        const cleave_nest *nest = &model.nests[op->nests[i]];
        for (int k = 0; k < nest->n_inputs; k++) {
            const cleave_view *view = &model.tensors[nest->inputs[k].tensor].view;
            cr_expect(view->kind == CLEAVE_VIEW_NONE || view->kind == CLEAVE_VIEW_RESHAPE);
            if (view->kind == CLEAVE_VIEW_RESHAPE)
                cr_expect_eq(model.tensors[view->sources[0]].view.kind, CLEAVE_VIEW_NONE);
        }
    }
    const cleave_nest *out =
        &model.nests[find_operator("/layer.3/attention/output/MatMul")->main_nest];
    const cleave_tensor *result = &model.tensors[out->inputs[0].tensor];
    cr_expect_eq(result->view.kind, CLEAVE_VIEW_NONE);
    for (int d = 0; d < 4; d++)
        cr_expect_eq(result->order[d], ((int[]){0, 2, 1, 3})[d]);
}

/* Layouts from before keys could be split, with the hash that such a version printed, are valid and
   leave keys whole. */
Test(import_transformer, layouts_that_know_of_no_keys_are_valid) {
    static const char text[] =
        "{\"cleave_layout\": 1, \"model\": {\"file\": \"tiny_transformer.onnx\", \"hash\": "
        "\"e5d0a8dce6838ca34f96b9a12346f80d\", \"batch\": 4, \"graph\": 3}, \"machine\": \"any\", "
        "\"devices\": 4, \"operators\": {\"/layer.0/attention/MatMul_1\": "
        "{\"split\": {\"h\": 2, \"q\": 2}, \"devices\": [3, 1, 0, 2]}}}";
    cleave_layout layout;
    cleave_layout_listed listed;
    read_model("tests/data/oracles/tiny_transformer.onnx", 4, true);
    expect_axes("/layer.0/attention/MatMul_1", "n=4 h=4 q=10 k=10");
    OK(cleave_layout_parse_some, text, sizeof text - 1, "old.json", &model, &arena, &layout,
       &listed);
    const cleave_split *split =
        &layout.splits[cleave_model_find_operator(&model, "/layer.0/attention/MatMul_1")];
    cr_expect_arr_eq(split->degree, ((int32_t[]){1, 2, 2, 1}), 4 * sizeof(int32_t));
    cr_expect_arr_eq(split->devices, ((int32_t[]){3, 1, 0, 2}), 4 * sizeof(int32_t));
}
