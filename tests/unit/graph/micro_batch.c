/* Which models can be cut into micro-batches, and that those that can learn the same. */
#include "graph/model/micro_batch.h"
#include "../../support/ok.h"

#include "../../support/interpreter.h"
#include "graph/lower/lower.h"
#include "imported.h"

enum { BATCH = 8 };

TestSuite(micro_batch, .fini = tear_down);

/* ---- what is refused ------------------------------------------------------------------------- */

static void expect_not_cut(int32_t n, const char *message) {
    cleave_micro_batches found = {.n = 77};
    cleave_error error = {""};
    cr_expect_eq(cleave_micro_batches_find(&model, n, &arena, &found, &error), CLEAVE_BAD_INPUT);
    cr_expect_str_eq(error.message, message);
    cr_expect_eq(found.n, 77, "what is found is written on success only");
}

static void import_batch(const bytes *graph) { import(graph, 13, BATCH, true); }

Test(micro_batch, statistics_over_the_batch_are_refused) {
    read_model("tests/data/oracles/tiny_cnn.onnx", BATCH, true);
    expect_not_cut(2, "the batch can't be cut into micro-batches: operator "
                      "\"/bn1/BatchNormalization\" (BatchNormalization) takes statistics over the "
                      "batch (tensor /bn1/BatchNormalization.statistics)");
}

Test(micro_batch, a_batch_is_cut_into_equal_ones) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    graph_input(&graph, "w", "3 5");
    graph_output(&graph, "y");
    node(&graph, "MatMul", "product", "x w", "y", NULL);
    import(&graph, 13, 10, true);
    expect_not_cut(4, "a batch of 10 can't be cut into 4 equal micro-batches");
    expect_not_cut(20, "a batch of 10 can't be cut into 20 equal micro-batches");
    expect_not_cut(0, "a batch of 10 can't be cut into 0 equal micro-batches");
    expect_not_cut(-2, "a batch of 10 can't be cut into -2 equal micro-batches");
    cleave_micro_batches found;
    OK(cleave_micro_batches_find, &model, 5, &arena, &found);
    cr_expect_eq(found.n, 5);
    cr_expect_eq(found.value[cleave_model_find_tensor(&model, "y")], CLEAVE_WHEN_EVERY);
    cr_expect_eq(found.value[cleave_model_find_tensor(&model, "w")], CLEAVE_WHEN_FIRST);
    cr_expect_eq(found.value[model.loss], CLEAVE_WHEN_LAST);
}

/* y = x w and what is made of it: "NODE INPUTS OUTPUT", the loss being z. */
static void begin_graph(bytes *graph) {
    *graph = (bytes){.n = 0};
    graph_input(graph, "x", "batch 3");
    graph_input(graph, "w", "3 5");
    graph_output(graph, "z");
    node(graph, "MatMul", "product", "x w", "y", NULL);
}

static void put_all(bytes *graph, const char *type, const char *name, const char *input,
                    const char *output) {
    bytes attributes = {.n = 0};
    attribute_integer(&attributes, "keepdims", 0);
    node(graph, type, name, input, output, &attributes);
}

/* Backward asks for the root, before it is there. */
Test(micro_batch, a_root_of_a_mean_over_the_batch_is_refused) {
    bytes graph;
    begin_graph(&graph);
    node(&graph, "Mul", "square", "y y", "squares", NULL);
    put_all(&graph, "ReduceMean", "mean", "squares", "m");
    node(&graph, "Sqrt", "root", "m", "z", NULL);
    import_batch(&graph);
    expect_not_cut(2, "the batch can't be cut into micro-batches: operator \"root\" (Sqrt) is not "
                      "linear in what adds up over the batch (tensor root.z)");
}

Test(micro_batch, a_softmax_over_the_batch_is_refused) {
    bytes graph, attributes = {.n = 0};
    begin_graph(&graph);
    attribute_integer(&attributes, "axis", 0);
    node(&graph, "Softmax", "soft", "y", "z", &attributes);
    import_batch(&graph);
    expect_not_cut(2, "the batch can't be cut into micro-batches: operator \"soft\" (Softmax) "
                      "takes statistics over the batch (tensor soft.max)");
}

/* Samples less their mean. */
Test(micro_batch, what_follows_from_the_whole_batch_is_not_read_for_a_sample) {
    bytes graph, attributes = {.n = 0};
    begin_graph(&graph);
    attribute_integers(&attributes, "axes", 1, (int64_t[]){0});
    node(&graph, "ReduceMean", "mean", "y", "m", &attributes);
    node(&graph, "Sub", "centre", "y m", "z", NULL);
    import_batch(&graph);
    expect_not_cut(2, "the batch can't be cut into micro-batches: operator \"centre\" (Sub) reads "
                      "for every sample what follows from the whole batch (tensor m)");
}

Test(micro_batch, a_largest_of_the_batch_is_refused) {
    bytes graph;
    begin_graph(&graph);
    put_all(&graph, "ReduceMax", "most", "y", "z");
    import_batch(&graph);
    expect_not_cut(
        2, "the batch can't be cut into micro-batches at operator \"most\" (ReduceMax): tensor y "
           "is shared out, one range for each sample, in one place, and not in another");
}

Test(micro_batch, a_sum_over_the_batch_times_itself_is_refused) {
    bytes graph;
    begin_graph(&graph);
    put_all(&graph, "ReduceSum", "sum", "y", "s");
    node(&graph, "Mul", "square", "s s", "z", NULL);
    import_batch(&graph);
    expect_not_cut(2, "the batch can't be cut into micro-batches: operator \"square\" (Mul) is not "
                      "linear in what adds up over the batch (tensor s)");
}

/* ---- what learns the same -------------------------------------------------------------------- */

typedef struct given {
    const char *name;
    const void *values;
} given;

static const void *find_given(void *context, const char *name) {
    const given *of = context;
    return of->name != NULL && strcmp(name, of->name) == 0 ? of->values : NULL;
}

static void train_layout(const cleave_layout *layout, given data, interpreter_result *result) {
    const cleave_lower_options lowering = {.training = true};
    int32_t m = layout->schedule.micro_batches;
    cleave_program program;
    OK(cleave_layout_check, &model, layout);
    OK(cleave_lower, &model, layout, &lowering, &arena, &program);
    OK(cleave_program_check, &program);
    interpreter_options options = {.seed = 5,
                                   .timing_seed = (uint64_t)m,
                                   .steps = 3,
                                   .optimizer = cleave_optimizer_default(CLEAVE_OPTIMIZER_SGD),
                                   .datum = find_given,
                                   .context = &data};
    options.optimizer.learning_rate = 0.5;
    OK(interpreter_run, &program, &options, &arena, result);
}

static void train(int32_t m, given data, interpreter_result *result) {
    cleave_layout layout;
    OK(cleave_layout_create, &model, 1, &arena, &layout);
    layout.schedule.micro_batches = m;
    train_layout(&layout, data, result);
}

/* On three devices, split in some way, each of which has its share of all that parameters have.
   False where that is no layout of so many micro-batches. */
static bool train_sharded(int32_t m, uint64_t seed, given data, interpreter_result *result) {
    cleave_layout layout;
    OK(cleave_layout_random, &model, 3, seed, &arena, &layout);
    layout.schedule.micro_batches = m;
    for (int32_t t = 0; t < model.n_tensors; t++)
        if (model.tensors[t].kind == CLEAVE_TENSOR_PARAMETER)
            layout.sharded[t] = CLEAVE_SHARDED_WEIGHT;
    if (cleave_layout_check(&model, &layout, NULL) != CLEAVE_OK)
        return false;
    train_layout(&layout, data, result);
    return true;
}

/* The largest difference of a parameter after three steps. */
static double difference(const interpreter_result *a, const interpreter_result *b) {
    double most = 0;
    for (int32_t t = 0; t < model.n_tensors; t++)
        for (int64_t i = 0; a->values[t] != NULL && i < cleave_tensor_size(&model.tensors[t]);
             i++) {
            double d = fabs((double)a->values[t][i] - (double)b->values[t][i]);
            most = d > most ? d : most;
        }
    return most;
}

/* ... and they have learned something. */
static void expect_same(given data) {
    interpreter_result whole, cut;
    train(1, data, &whole);
    cr_expect_neq(whole.loss[0], whole.loss[2]);
    for (int32_t m = 2; m <= BATCH; m *= 2) {
        train(m, data, &cut);
        cr_expect_lt(difference(&whole, &cut), 2e-6, "m = %d: %g", m, difference(&whole, &cut));
        for (int step = 0; step < 3; step++)
            cr_expect_float_eq(cut.loss[step], whole.loss[step], 2e-6);
        int n_sharded = 0;
        for (uint64_t seed = 0; seed < 40 && n_sharded < 8; seed++) {
            if (!train_sharded(m, seed, data, &cut))
                continue;
            n_sharded++;
            cr_expect_lt(difference(&whole, &cut), 4e-6, "m = %d, seed %d: %g", m, (int)seed,
                         difference(&whole, &cut));
        }
        cr_expect_gt(n_sharded, 0);
    }
}

/* Of two samples a micro-batch (m = 4) there are 2, 1, 0 and 2 that count: a mean of means would be
   another one. */
Test(micro_batch, ignored_targets_count_in_the_whole_batch) {
    static const int64_t labels[BATCH] = {1, 4, 2, 9, 9, 9, 0, 3};
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    graph_input(&graph, "w", "3 5");
    value_info(&graph, 11, "labels", 7, "batch"); /* int64 */
    graph_output(&graph, "z");
    attribute_integer(&attributes, "ignore_index", 9);
    node(&graph, "MatMul", "product", "x w", "y", NULL);
    node(&graph, "SoftmaxCrossEntropyLoss", "loss", "y labels", "z", &attributes);
    import_batch(&graph);
    expect_same((given){"labels", labels});
}

/* A token that is the same for all samples stands before each of them. */
Test(micro_batch, a_class_token_is_made_for_every_sample) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 2 3");
    graph_input(&graph, "token", "1 1 3");
    graph_input(&graph, "w", "3 5");
    graph_output(&graph, "y");
    initializer(&graph, "shape", 1, (int64_t[]){3}, 7, (int64_t[]){BATCH, 1, 3}, 24);
    node(&graph, "Expand", "expand", "token shape", "tokens", NULL);
    attribute_integer(&attributes, "axis", 1);
    node(&graph, "Concat", "join", "tokens x", "joined", &attributes);
    node(&graph, "MatMul", "product", "joined w", "y", NULL);
    import_batch(&graph);
    expect_same((given){NULL, NULL});
}

Test(micro_batch, a_vision_transformer_learns_the_same) {
    read_model("tests/data/oracles/tiny_vit.onnx", BATCH, true);
    expect_same((given){NULL, NULL});
}

/* Were the first samples' draws taken for all, the parameters would be far off. */
Test(micro_batch, dropout_draws_what_it_draws_for_the_whole_batch) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    graph_input(&graph, "w", "3 5");
    graph_output(&graph, "z");
    initializer(&graph, "ratio", 0, NULL, 1, (float[]){0.5f}, 4);
    initializer(&graph, "training", 0, NULL, 9, (uint8_t[]){1}, 1);
    node(&graph, "MatMul", "product", "x w", "y", NULL);
    node(&graph, "Dropout", "drop", "y ratio training", "z", NULL);
    import_batch(&graph);
    expect_same((given){NULL, NULL});
}

/* x (w + a b): the sum has no samples, its backward runs once, on the gradient of all of them. */
Test(micro_batch, what_is_made_of_parameters_alone_has_one_gradient) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    graph_input(&graph, "w", "3 5");
    graph_input(&graph, "a", "3 2");
    graph_input(&graph, "b", "2 5");
    graph_output(&graph, "z");
    node(&graph, "MatMul", "low", "a b", "ab", NULL);
    node(&graph, "Add", "sum", "w ab", "s", NULL);
    node(&graph, "MatMul", "product", "x s", "z", NULL);
    import_batch(&graph);
    cleave_micro_batches found;
    OK(cleave_micro_batches_find, &model, 2, &arena, &found);
    cr_expect_eq(found.value[cleave_model_find_tensor(&model, "s")], CLEAVE_WHEN_FIRST);
    expect_same((given){NULL, NULL});
}

/* Mean of squares over the batch and half the sum of squares of w: the penalty counts once. */
Test(micro_batch, a_penalty_on_parameters_counts_once) {
    bytes graph;
    begin_graph(&graph);
    node(&graph, "Mul", "square", "y y", "squares", NULL);
    put_all(&graph, "ReduceMean", "mean", "squares", "m");
    node(&graph, "Mul", "squares of w", "w w", "ww", NULL);
    put_all(&graph, "ReduceMean", "penalty", "ww", "p");
    node(&graph, "Add", "sum", "m p", "z", NULL);
    import_batch(&graph);
    expect_same((given){NULL, NULL});
}

/* The limit is of several: one micro-batch is lowered, whatever it has. */
Test(micro_batch, too_many_records_are_no_layout) {
    cleave_layout layout;
    cleave_program program = {.n_items = 77};
    cleave_lower_options options = {.training = true};
    cleave_error error = {""};
    read_model("tests/data/oracles/tiny_vit.onnx", BATCH, true);
    OK(cleave_layout_create, &model, 1, &arena, &layout);
    layout.schedule.micro_batches = 2;
    OK(cleave_lower, &model, &layout, &options, &arena, &program);
    options.most_records = 2 * (program.n_items + program.n_buffers + program.n_copy_pieces);
    OK(cleave_lower, &model, &layout, &options, &arena, &program);
    options.most_records /= 4;
    cr_expect_eq(cleave_lower(&model, &layout, &options, &arena, &program, &error),
                 CLEAVE_NO_LAYOUT);
    cr_expect_not_null(strstr(error.message, "2 micro-batches of "), "%s", error.message);
    layout.schedule.micro_batches = 1;
    OK(cleave_lower, &model, &layout, &options, &arena, &program);
}
