/* Sorts of axes, from nests and operands: what a person who knows the operators would say. */
#include "../../support/ok.h"
#include "graph/model/axis_sort.h"

#include "../graph/imported.h"

TestSuite(axis_sorts, .fini = tear_down);

/* One letter an axis, in the order that `show` prints. */
static void expect_sorts(const cleave_axis_sorts *sorts, const char *name, const char *expected) {
    static const char letters[CLEAVE_N_SORTS + 1] = "soapr";
    int32_t op = cleave_model_find_operator(&model, name);
    cr_assert_geq(op, 0, "no operator %s", name);
    char text[CLEAVE_MAX_AXES + 1] = "";
    for (int a = 0; a < model.operators[op].n_axes; a++)
        text[a] = letters[sorts->of[op][a]];
    cr_expect_str_eq(text, expected, "%s: %s", name, text);
}

typedef struct expectation {
    const char *model, *op, *sorts;
} expectation;

/* By hand.  Convolution n k h w c r s: the weight is k c r s, of which the output lacks the last
   three.  Pools n c h w read no parameter; a global one sums h and w.  Normalisations scale what
   they have a parameter for: c of a batch norm, k of a layer norm.  Dense layers n k c.  Look-ups
   n t k v sum over the rows v of a table of v x k; where positions are added, t is an axis of
   their table.  Attention n h q k has no parameter, and sums over its keys k.  A recurrence is a
   product t n k c for all steps and a cell a step, n k (c); the first has no product with a weight,
   as its state is zero.  The loss n v or n t v is a sum over the classes. */
static const expectation by_hand[] = {
    {"lenet5", "/c1/Conv", "spaarrr"},
    {"lenet5", "/AveragePool", "saaa"},
    {"lenet5", "/f1/Gemm", "sprrr"}, /* after a flatten: n k c h w */
    {"lenet5", "@loss", "sr"},
    {"inception_v3", "/Conv2d_1a_3x3/conv/Conv", "spaarrr"},
    {"inception_v3", "/Conv2d_1a_3x3/bn/BatchNormalization", "spaa"},
    {"inception_v3", "/maxpool1/MaxPool", "saaa"},
    {"inception_v3", "/dropout/Dropout", "sarr"}, /* and the global pool before it */
    {"resnet50", "/avgpool/GlobalAveragePool", "sarr"},
    {"resnet50", "/layer1/layer1.0/relu_2/Relu", "saaa"},
    {"resnet50", "/fc/Gemm", "spr"},
    {"rnnlm", "/embedding/Gather", "sapr"},
    {"rnnlm", "/lstm/LSTM", "aspr"},
    {"rnnlm", "/lstm/LSTM@t=0", "sa"},
    {"rnnlm", "/lstm/LSTM@t=1", "spr"},
    {"nmt", "/attn/MatMul", "sapr"}, /* b m k c */
    {"nmt", "/MatMul_1", "sar"},     /* attention of one head: n q k */
    {"nmt", "@loss", "sar"},
    {"bert_base", "/word_embeddings/Gather", "sppr"},
    {"bert_base", "/ln/Add_1", "sap"},
    {"bert_base", "/layer.0/attention/query/MatMul", "sapr"},
    {"bert_base", "/layer.0/attention/MatMul_1", "saar"},
    {"bert_base", "/layer.0/attention/output/MatMul", "saprr"}, /* b m k h d */
    {"bert_base", "/layer.0/Add", "saa"},
    {"bert_base", "/layer.11/ln2/Add_1", "sap"},
    {"gpt2_small", "/lm_head/MatMul", "sapr"},
    {"dlrm", "/emb.0/Gather", "spr"},
    {"dlrm", "/bot/bot.0/Gemm", "spr"},
};

Test(axis_sorts, are_those_of_the_operators_of_shipped_models) {
    const char *read = "";
    cleave_axis_sorts sorts = {.of = NULL};
    for (size_t i = 0; i < sizeof by_hand / sizeof *by_hand; i++) {
        char path[256];
        if (strcmp(read, by_hand[i].model) != 0) {
            cleave_arena_free(&arena);
            snprintf(path, sizeof path, "configs/models/%s.onnx", by_hand[i].model);
            read_model(path, 8, true);
            OK(cleave_axis_sorts_find, &model, &arena, &sorts);
            read = by_hand[i].model;
        }
        expect_sorts(&sorts, by_hand[i].op, by_hand[i].sorts);
    }
}

/* The batch has another extent, or one that other dimensions have, too: the sorts are the same. */
Test(axis_sorts, do_not_depend_on_the_batch) {
    cleave_axis_sorts first = {.of = NULL};
    static const int64_t batches[] = {8, 40, 1024, 3};
    for (size_t b = 0; b < 4; b++) {
        cleave_axis_sorts sorts;
        read_model("configs/models/nmt.onnx", batches[b], true);
        OK(cleave_axis_sorts_find, &model, &arena, &sorts);
        for (int32_t op = 0; op < model.n_operators && b > 0; op++)
            cr_expect_arr_eq(sorts.of[op], first.of[op], (size_t)model.operators[op].n_axes, "%s",
                             model.operators[op].name);
        first = b == 0 ? sorts : first;
    }
}

/* x [n, t, k] -> [n t, k] -> [n, t k] -> transposed [t k, n]: samples are the outermost of n t and
   all of n; of t k they are nothing. */
Test(axis_sorts, follow_the_batch_through_reshapes_and_transposes) {
    bytes graph = {.n = 0};
    const int64_t joined[] = {-1, 6}, apart[] = {-1, 30};
    graph_input(&graph, "x", "N 5 6");
    graph_output(&graph, "d");
    integers(&graph, "joined", 2, joined);
    integers(&graph, "apart", 2, apart);
    node(&graph, "Reshape", "reshape1", "x joined", "a0", NULL);
    node(&graph, "Softmax", "softmax1", "a0", "a", NULL);
    node(&graph, "Reshape", "reshape2", "a apart", "b0", NULL);
    node(&graph, "Softmax", "softmax2", "b0", "b", NULL);
    node(&graph, "Transpose", "transpose", "b", "c", NULL);
    node(&graph, "Softmax", "softmax", "c", "d", NULL);
    import(&graph, 13, 4, false);
    cleave_axis_sorts sorts;
    OK(cleave_axis_sorts_find, &model, &arena, &sorts);
    int seen = 0;
    for (int32_t op = 0; op < model.n_operators; op++)
        for (int a = 0; a < model.operators[op].n_axes; a++) {
            int64_t extent = model.operators[op].axes[a].extent;
            bool sample = extent == 4 || extent == 20;
            seen |= sample ? (int)extent : 0;
            cr_expect_eq(sorts.of[op][a] == CLEAVE_SORT_SAMPLE, sample, "%s: %s=%lld is %s",
                         model.operators[op].name, model.operators[op].axes[a].name,
                         (long long)extent, cleave_axis_sort_names[sorts.of[op][a]]);
        }
    cr_expect_eq(seen, 4 | 20, "both were there");
}
