/* One sample whose sequence is long, on many devices: what there is to split is the context. */
#include "../../support/deep_transformer.h"
#include "../../support/ok.h"
#include "../../support/test_machine.h"
#include "graph/model/attention.h"
#include "search/search.h"

/* Behind all others, which call arguments as it calls its type. */
#include "../../support/onnx_writer.h"

#include <stdio.h>

enum { FEW = 8, MANY = 8192, WIDTH = 64, N_DEVICES = 8 };

static cleave_arena arena;
static cleave_model model;
static cleave_machine machine;
static cleave_search_result result;

static void set_up(void) { machine = make_machine(&arena, 2, N_DEVICES / 2, "4 GiB"); }
static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(long_sequences, .init = set_up, .fini = tear_down);

/* Gives the step; `only` names the sorts of axes that may be split, null: all. */
static double search(const char *only) {
    cleave_constraints constraints = {0};
    cleave_search_options options = {.method = "auto", .n_threads = 2, .quiet = true};
    if (only != NULL) {
        OK(cleave_constraints_restrict, &constraints, only, &model, &arena);
        options.constraints = &constraints;
    }
    OK(cleave_search, &model, &machine, &options, &arena, &result);
    return result.best.step_seconds;
}

/* The degree of an axis of the first operator of a type. */
static int32_t degree_of(const char *type, const char *axis) {
    for (int32_t op = 0; op < model.n_operators; op++)
        for (int a = 0; a < model.operators[op].n_axes; a++)
            if (strcmp(model.operators[op].type, type) == 0 &&
                strcmp(model.operators[op].axes[a].name, axis) == 0)
                return result.best.layout.splits[op].degree[a];
    cr_assert(false, "no %s has an axis %s", type, axis);
    return 0;
}

/* A few queries, which are no more than devices, look at many keys: one head, one sample. */
static void import_few_queries(void) {
    static bytes graph;
    bytes swap = {.n = 0}, axis = {.n = 0};
    char shape[32];
    graph.n = 0;
    snprintf(shape, sizeof shape, "N %d %d", FEW, WIDTH);
    graph_input(&graph, "x", shape);
    snprintf(shape, sizeof shape, "N %d %d", MANY, WIDTH);
    graph_input(&graph, "memory", shape);
    snprintf(shape, sizeof shape, "%d %d", WIDTH, WIDTH);
    graph_input(&graph, "w_q", shape);
    graph_input(&graph, "w_k", shape);
    graph_input(&graph, "w_v", shape);
    graph_input(&graph, "w_o", shape);
    graph_output(&graph, "y");
    attribute_integers(&swap, "perm", 3, (int64_t[]){0, 2, 1});
    attribute_integer(&axis, "axis", -1);
    node(&graph, "MatMul", "q", "x w_q", "q", NULL);
    node(&graph, "MatMul", "k", "memory w_k", "k", NULL);
    node(&graph, "MatMul", "v", "memory w_v", "v", NULL);
    node(&graph, "Transpose", "swap", "k", "k_t", &swap);
    node(&graph, "MatMul", "scores", "q k_t", "s", NULL);
    node(&graph, "Softmax", "softmax", "s", "p", &axis);
    node(&graph, "MatMul", "mixed", "p v", "m", NULL);
    node(&graph, "MatMul", "out", "m w_o", "y", NULL);
    bytes file = model_file(&graph, 17);
    OK(cleave_model_import_as,
       &(cleave_import_request){.file = "few queries",
                                .data = file.data,
                                .bytes = file.n,
                                .batch = 1,
                                .with_loss = true},
       &arena, &model);
}

/* Keys and values of a device then need not leave it, while queries that are split want all. */
static void check_few_queries(void) {
    double without = search("sample,attribute,parameter");
    double all = search(NULL);
    cr_expect_eq(degree_of("Attention", "k"), N_DEVICES);
    cr_expect_lt(all, 0.7 * without, "%g and %g", all, without);
}

static void fuse(void) { OK(cleave_model_fuse_attention, &model, NULL, &arena, &model); }

Test(long_sequences, few_queries_have_their_keys_split) {
    import_few_queries();
    check_few_queries();
}
Test(long_sequences, few_queries_have_their_keys_split_without_scores) {
    import_few_queries();
    fuse();
    check_few_queries();
}

/* One head and one sample: layers are split by tokens, attention by queries or keys.  Whole on each
   device is what a baseline could do at best. */
static void check_transformer(bool fused) {
    const deep_transformer shape = {
        .layers = 1, .width = WIDTH, .heads = 1, .tokens = 1024, .vocabulary = 64};
    OK(deep_transformer_import, &shape, 1, &arena, &model);
    if (fused)
        fuse();
    double step = search(NULL);
    cr_expect_eq(degree_of("Attention", "q") * degree_of("Attention", "k"), N_DEVICES);
    for (int32_t i = 0; i < result.n_baselines; i++)
        if (result.baselines[i].applies)
            cr_expect_lt(step, 0.5 * result.baselines[i].step_seconds, "%s",
                         result.baselines[i].method);
}
Test(long_sequences, a_transformer_is_split_along_its_context) { check_transformer(false); }
Test(long_sequences, without_scores_a_transformer_is_split_along_its_context) {
    check_transformer(true);
}
