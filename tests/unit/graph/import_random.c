/* Nodes that draw random numbers: what they draw, and that no layout changes it. */
#include "../../support/ok.h"
#include "imported.h"

#include "../../support/interpreter.h"
#include "graph/lower/lower.h"

TestSuite(import_random, .fini = tear_down);

enum { SAMPLES = 12, FEATURES = 4, MANY = 20000, N_DEVICES = 5, N_LAYOUTS = 40 };

static float features[SAMPLES * FEATURES];

static float ones[MANY];

static const void *datum(void *context, const char *name) {
    (void)context;
    return strcmp(name, "ones") == 0 ? ones : features;
}

/* Trains for some steps; 0: runs forward. */
static interpreter_result run(const cleave_layout *layout, int64_t steps, uint64_t seed,
                              uint64_t timing, cleave_arena *scratch) {
    cleave_program program;
    interpreter_result result;
    cleave_lower_options lower = {.training = steps > 0};
    interpreter_options options = {.seed = seed,
                                   .timing_seed = timing,
                                   .steps = steps > 0 ? steps : 1,
                                   .optimizer = cleave_optimizer_default(CLEAVE_OPTIMIZER_SGD),
                                   .datum = datum};
    OK(cleave_lower, &model, layout, &lower, scratch, &program);
    OK(interpreter_run, &program, &options, scratch, &result);
    return result;
}

static const float *draw(uint64_t seed) {
    cleave_layout layout;
    OK(cleave_layout_create, &model, 1, &arena, &layout);
    return run(&layout, 0, seed, 0, &arena).outputs[0];
}

/* A node over MANY elements, by itself. */
static const float *draw_many(const char *type, const bytes *attributes, uint64_t seed) {
    bytes graph = {.n = 0}, all = attributes != NULL ? *attributes : (bytes){.n = 0};
    if (strstr(type, "Like") == NULL)
        attribute_integers(&all, "shape", 1, (int64_t[]){MANY});
    graph_input(&graph, "x", "20000");
    graph_output(&graph, "y");
    node(&graph, type, "op", strstr(type, "Like") != NULL ? "x" : "", "y", &all);
    import(&graph, 15, 0, false);
    return draw(seed);
}

/* Of 20000 numbers the mean is within 5 deviations, which are `deviation` / sqrt(20000). */
static void expect_mean(const float *y, double mean, double deviation) {
    double sum = 0, squares = 0;
    for (int i = 0; i < MANY; i++) {
        sum += (double)y[i];
        squares += ((double)y[i] - mean) * ((double)y[i] - mean);
    }
    cr_expect_float_eq(sum / MANY, mean, 5 * deviation / sqrt(MANY));
    cr_expect_float_eq(sqrt(squares / MANY), deviation, 0.02 * deviation);
}

/* A uniform number over [-1, 3) has the variance 16 / 12. */
Test(import_random, uniform_and_normal_numbers_have_their_moments) {
    bytes uniform = {.n = 0}, normal = {.n = 0};
    attribute_float(&uniform, "low", -1);
    attribute_float(&uniform, "high", 3);
    attribute_float(&normal, "mean", 2);
    attribute_float(&normal, "scale", 0.5f);
    const float *y = draw_many("RandomUniformLike", &uniform, 1);
    for (int i = 0; i < MANY; i++)
        cr_assert(y[i] >= -1 && y[i] < 3);
    expect_mean(y, 1, sqrt(16.0 / 12));
    expect_mean(draw_many("RandomUniform", NULL, 1), 0.5, sqrt(1.0 / 12));
    expect_mean(draw_many("RandomNormal", &normal, 1), 2, 0.5);
    expect_mean(draw_many("RandomNormalLike", NULL, 1), 0, 1);
}

Test(import_random, numbers_follow_from_the_run_s_seed_and_the_node_s) {
    bytes seeded = {.n = 0};
    attribute_float(&seeded, "seed", 7);
    const float *first = draw_many("RandomUniform", NULL, 1);
    const float *again = draw_many("RandomUniform", NULL, 1);
    const float *other = draw_many("RandomUniform", NULL, 2);
    const float *by_node = draw_many("RandomUniform", &seeded, 1);
    int n_other = 0, n_by_node = 0;
    for (int i = 0; i < MANY; i++) {
        cr_assert_eq(first[i], again[i]);
        n_other += first[i] == other[i];
        n_by_node += first[i] == by_node[i];
    }
    cr_expect_leq(n_other, 3);
    cr_expect_leq(n_by_node, 3);
}

/* Two that are read together, and so may end up in one nest, are not the same numbers. */
Test(import_random, two_nodes_draw_apart) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "20000");
    graph_output(&graph, "y");
    node(&graph, "RandomUniformLike", "first", "x", "u", NULL);
    node(&graph, "Bernoulli", "second", "u", "y", NULL);
    import(&graph, 15, 0, false);
    expect_mean(draw(1), 0.5, 0.5);
}

/* Each keeps half of the elements, and both a quarter. */
Test(import_random, dropouts_of_one_operator_draw_apart) {
    bytes graph = {.n = 0};
    const float *y;
    int n_kept = 0;
    for (int i = 0; i < MANY; i++)
        ones[i] = 1;
    graph_input(&graph, "ones", "batch 20");
    graph_output(&graph, "y");
    initializer(&graph, "ratio", 0, NULL, 1, (float[]){0.5f}, 4);
    initializer(&graph, "training", 0, NULL, 9, (unsigned char[]){1}, 1);
    node(&graph, "Dropout", "first", "ones ratio training", "x", NULL);
    node(&graph, "Dropout", "second", "x ratio training", "y", NULL);
    import(&graph, 15, MANY / 20, false);
    cr_expect_eq(model.n_operators, 1);
    y = draw(1);
    for (int i = 0; i < MANY; i++)
        n_kept += y[i] == 4;
    cr_expect_float_eq((double)n_kept / MANY, 0.25, 5 * sqrt(0.25 * 0.75 / MANY));
}

Test(import_random, types_that_are_not_kept_are_refused) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    attribute_integer(&attributes, "dtype", 11);
    graph_input(&graph, "x", "batch 3");
    graph_output(&graph, "y");
    node(&graph, "RandomUniformLike", "op", "x", "y", &attributes);
    expect_refused(&graph, 15, 2, "draws numbers of type DOUBLE, supported is FLOAT");
    graph = (bytes){.n = 0};
    graph_output(&graph, "y");
    node(&graph, "RandomUniform", "op", "", "y", NULL);
    expect_refused(&graph, 15, 2, "attribute shape is missing");
}

/* ---- stochastic depth ------------------------------------------------------------------------ */

/* loss = mean of (x + branch) where branch = x w * floor(keep + u) / keep, a number u for each
   sample, as vision transformers are exported: the shape of x, with ones behind the batch. */
static void import_stochastic_depth(void) {
    bytes graph = {.n = 0}, axis = {.n = 0}, flat = {.n = 0};
    for (int i = 0; i < SAMPLES * FEATURES; i++)
        features[i] = (float)(i % 7) - 2;
    graph_input(&graph, "x", "batch 4");
    graph_output(&graph, "loss");
    graph_output(&graph, "mask");
    initializer(&graph, "w", 2, (int64_t[]){4, 4}, 1,
                (float[16]){1, 2, 0, 1, 0, 1, -1, 0, 2, 1, 1, 0, 1, 0, 0, 1}, 64);
    initializer(&graph, "keep", 0, NULL, 1, (float[]){0.75f}, 4);
    integers(&graph, "zero", 1, (int64_t[]){0});
    integers(&graph, "one", 1, (int64_t[]){1});
    attribute_integer(&axis, "axis", 0);
    attribute_integer(&flat, "keepdims", 0);
    node(&graph, "MatMul", "product", "x w", "branch", NULL);
    node(&graph, "Shape", "shape", "branch", "whole", NULL);
    node(&graph, "Gather", "rows", "whole zero", "batch", &axis);
    node(&graph, "Concat", "concat", "batch one", "by_sample", &axis);
    node(&graph, "ConstantOfShape", "zeros", "by_sample", "like", NULL);
    node(&graph, "RandomUniformLike", "random", "like", "u", NULL);
    node(&graph, "Add", "add", "u keep", "shifted", NULL);
    node(&graph, "Floor", "floor", "shifted", "mask", NULL);
    node(&graph, "Div", "scale", "branch keep", "scaled", NULL);
    node(&graph, "Mul", "drop", "scaled mask", "dropped", NULL);
    node(&graph, "Add", "residual", "x dropped", "sum", NULL);
    node(&graph, "ReduceMean", "mean", "sum", "loss", &flat);
    import(&graph, 13, SAMPLES, true);
}

/* d loss / d w[i][j] = sum over the samples that are kept of x[s][i] / keep, over the elements. */
Test(import_random, stochastic_depth_gives_gradients_to_what_it_keeps_under_any_layout) {
    import_stochastic_depth();
    int32_t w = cleave_model_find_tensor(&model, "w");
    cleave_layout single;
    OK(cleave_layout_create, &model, 1, &arena, &single);
    interpreter_result expected = run(&single, 1, 3, 0, &arena);
    const float *mask = run(&single, 0, 3, 0, &arena).outputs[1], *before = model.tensors[w].value;
    double rate = cleave_optimizer_default(CLEAVE_OPTIMIZER_SGD).learning_rate, kept = 0;
    for (int s = 0; s < SAMPLES; s++) {
        cr_assert(mask[s] == 0 || mask[s] == 1);
        kept += (double)mask[s];
    }
    cr_expect(kept > 0 && kept < SAMPLES, "%g kept: nothing is tested", kept);
    for (int i = 0; i < 16; i++) {
        double gradient = 0;
        for (int s = 0; s < SAMPLES; s++)
            gradient += (double)mask[s] * (double)features[s * FEATURES + i / 4] / 0.75 /
                        (SAMPLES * FEATURES);
        cr_expect_float_eq(((double)before[i] - (double)expected.values[w][i]) / rate, gradient,
                           1e-4);
    }
    expected = run(&single, 3, 3, 0, &arena);
    cr_expect_neq(expected.loss[0], expected.loss[1], "a step draws what the one before drew");
    for (uint64_t k = 0; k < N_LAYOUTS; k++) {
        cleave_arena scratch = {0};
        cleave_layout layout;
        OK(cleave_layout_random, &model, N_DEVICES, k, &scratch, &layout);
        interpreter_result result = run(&layout, 3, 3, k, &scratch);
        for (int step = 0; step < 3; step++)
            cr_expect_float_eq(result.loss[step], expected.loss[step], 1e-5);
        cleave_arena_free(&scratch);
    }
}
