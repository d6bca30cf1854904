/* Element-wise operators, selections, reductions and scans behind a product whose weights are
   trained: any layout of each little network learns what one device learns, and the gradient of one
   step is the slope of the loss, by finite differences along a random direction. */
#include "../support/draws.h"
#include "../support/interpreter.h"
#include "../support/ok.h"
#include "../support/onnx_writer.h"
#include "base/random.h"
#include "graph/import/import.h"
#include "graph/lower/lower.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 4, N_DEVICES = 6, N_STEPS = 2, N_LAYOUTS = 25, MOST_NODES = 16 };

/* x [4, 11, 6] times w [6, 5] is h; the last output is y.  Parameters: p [5], q [11, 1]; constants:
   zero, one, two, tenth; axes a0, a1, a2, all; data: c, booleans of the shape of h. */
typedef struct network {
    const char *name;
    struct {
        const char *type, *inputs, *outputs,
            *flag; /* flag: an attribute that is 1, or "!name": 0 */
    } nodes[MOST_NODES];
} network;

static const network networks[] = {
    {"layer_norm",
     {{"ReduceMean", "h a2", "m", NULL},
      {"Sub", "h m", "d", NULL},
      {"Pow", "d two", "e", NULL},
      {"ReduceMean", "e a2", "v", NULL},
      {"Add", "v tenth", "f", NULL},
      {"Sqrt", "f", "s", NULL},
      {"Div", "d s", "n", NULL},
      {"Mul", "n p", "o", NULL},
      {"Add", "h o", "y", NULL}}},
    {"norms",
     {{"ReduceL2", "h a1", "l", NULL},
      {"Softplus", "l", "k", NULL},
      {"ReduceL1", "h a2", "m", NULL},
      {"Mul", "k m", "n", NULL},
      {"ReduceSumSquare", "n a1", "y", "!keepdims"}}},
    {"log_sums",
     {{"ReduceLogSumExp", "h a1", "l", NULL},
      {"Mish", "l", "k", NULL},
      {"Sub", "h k", "n", NULL},
      {"Exp", "n", "e", NULL},
      {"ReduceLogSum", "e a1", "y", "!keepdims"}}},
    {"maxima",
     {{"ReduceMax", "h a1", "l", NULL},
      {"ReduceMin", "h a2", "m", NULL},
      {"Mul", "l m", "n", NULL},
      {"ReduceMax", "n a1", "y", "!keepdims"}}},
    {"products",
     {{"Mul", "h tenth", "s", NULL},
      {"Add", "s one", "t", NULL},
      {"ReduceProd", "t a1", "l", NULL},
      {"Tanh", "l", "k", NULL},
      {"Mul", "k h", "y", NULL}}},
    {"product_without_its_axis",
     {{"Mul", "h tenth", "s", NULL},
      {"Add", "s one", "t", NULL},
      {"ReduceProd", "t a1", "l", "!keepdims"},
      {"Exp", "l", "y", NULL}}},
    {"scans",
     {{"CumSum", "h a1", "l", NULL},
      {"CumSum", "l a2", "k", "reverse"},
      {"CumSum", "h a2", "j", "exclusive"},
      {"Add", "k j", "n", NULL},
      {"Trilu", "n one_i", "t", "!upper"},
      {"Mul", "t tenth", "u", NULL},
      {"Add", "u h", "y", NULL}}},
    {"selections",
     {{"Where", "c h p", "l", NULL},
      {"Greater", "l zero", "g", NULL},
      {"Not", "g", "n", NULL},
      {"Where", "n l two", "k", NULL},
      {"PRelu", "h q", "r", NULL},
      {"Add", "k r", "y", NULL}}},
    {"a_mean_of_everything",
     {{"ReduceMean", "h all", "m", "!keepdims"},
      {"Exp", "m", "e", NULL},
      {"Neg", "e", "f", NULL},
      {"Mul", "f h", "g", NULL},
      {"ReduceMax", "h all", "x1", "!keepdims"},
      {"Mul", "x1 m", "z", NULL},
      {"Add", "g z", "y", NULL}}},
    {"a_tail_too_long_for_one_tape",
     {{"Elu", "h", "b1", NULL},
      {"Selu", "b1", "b2", NULL},
      {"HardSwish", "b2", "b3", NULL},
      {"Gelu", "b3", "b4", NULL},
      {"Mish", "b4", "b5", NULL},
      {"Softsign", "b5", "b6", NULL},
      {"Celu", "b6", "b7", NULL},
      {"Softplus", "b7", "b8", NULL},
      {"Shrink", "b8", "b9", NULL},
      {"ThresholdedRelu", "h", "c1", NULL},
      {"HardSigmoid", "h", "c2", NULL},
      {"Sum", "b9 c1 c2 p", "y", NULL}}},
    {"many_inputs",
     {{"Max", "h p zero", "l", NULL},
      {"Mean", "l h q", "m", NULL},
      {"Sin", "m", "s", NULL},
      {"Cos", "h", "t", NULL},
      {"Min", "s t l", "n", NULL},
      {"Clip", "n zero two", "o", NULL},
      {"Div", "o two", "r", NULL},
      {"Sub", "one r", "y", NULL}}},
};

static void add_constants(bytes *graph) {
    static const float numbers[] = {0, 1, 2, 0.1f};
    static const char *const names[] = {"zero", "one", "two", "tenth"};
    for (int i = 0; i < 4; i++)
        initializer(graph, names[i], 0, NULL, 1, &numbers[i], 4);
    integers(graph, "a1", 1, (int64_t[]){1});
    integers(graph, "a2", 1, (int64_t[]){-1});
    integers(graph, "all", 0, NULL);
    initializer(graph, "one_i", 0, NULL, 7, (int64_t[]){1}, 8);
}

static void add_parameter(bytes *graph, const char *name, int rank, const int64_t *shape) {
    float values[64];
    int64_t n = 1;
    for (int d = 0; d < rank; d++)
        n *= shape[d];
    cleave_random random = {.key = cleave_hash_join(7, cleave_hash_string(name))};
    for (int64_t i = 0; i < n; i++)
        values[i] = (float)(cleave_random_next_uniform(&random) * 1.6 - 0.8);
    initializer(graph, name, rank, shape, 1, values, (size_t)n * 4);
}

static void build(const network *net, cleave_arena *arena, cleave_model *model) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 11 6");
    value_info(&graph, 11, "c", 9, "batch 11 5");
    graph_output(&graph, "y");
    add_constants(&graph);
    add_parameter(&graph, "w", 2, (int64_t[]){6, 5});
    add_parameter(&graph, "p", 1, (int64_t[]){5});
    add_parameter(&graph, "q", 2, (int64_t[]){11, 1});
    node(&graph, "MatMul", "product", "x w", "h", NULL);
    for (int i = 0; i < MOST_NODES && net->nodes[i].type != NULL; i++) {
        bytes attributes = {.n = 0};
        const char *flag = net->nodes[i].flag;
        if (flag != NULL)
            attribute_integer(&attributes, flag + (flag[0] == '!'), flag[0] != '!');
        node(&graph, net->nodes[i].type, net->nodes[i].outputs, net->nodes[i].inputs,
             net->nodes[i].outputs, &attributes);
    }
    bytes file = model_file(&graph, 20);
    OK(cleave_model_import_as,
       &(cleave_import_request){.file = net->name,
                                .data = file.data,
                                .bytes = file.n,
                                .batch = BATCH,
                                .with_loss = true},
       arena, model);
}

static int64_t booleans[BATCH * 11 * 5];

static const void *datum(void *context, const char *name) {
    (void)context;
    return strcmp(name, "c") == 0 ? booleans : NULL;
}

static void run(const cleave_model *model, const cleave_layout *layout, uint64_t timing,
                int64_t steps, cleave_arena *arena, interpreter_result *result) {
    cleave_error error = {""};
    cleave_lower_options lower = {.training = true, .optimizer_states = 1};
    cleave_program program;
    cr_assert_eq(cleave_lower(model, layout, &lower, arena, &program, &error), CLEAVE_OK, "%s: %s",
                 model->file, error.message);
    cr_assert_eq(cleave_program_check(&program, &error), CLEAVE_OK, "%s: %s", model->file,
                 error.message);
    interpreter_options options = {.seed = 3,
                                   .timing_seed = timing,
                                   .steps = steps,
                                   .datum = datum,
                                   .optimizer = cleave_optimizer_default(CLEAVE_OPTIMIZER_SGD)};
    options.optimizer.learning_rate = 0.1;
    options.optimizer.momentum = 0;
    for (size_t i = 0; i < sizeof booleans / sizeof *booleans; i++)
        booleans[i] = i * 7 % 3 == 0;
    cr_assert_eq(interpreter_run(&program, &options, arena, result, &error), CLEAVE_OK, "%s: %s",
                 model->file, error.message);
}

static bool is_parameter(const cleave_model *model, int32_t t) {
    return model->tensors[t].kind == CLEAVE_TENSOR_PARAMETER;
}

static void expect_same(const cleave_model *model, int seed, const interpreter_result *result,
                        const interpreter_result *expected) {
    for (int32_t t = 0; t < model->n_tensors; t++)
        for (int64_t i = 0; is_parameter(model, t) && i < cleave_tensor_size(&model->tensors[t]);
             i++) {
            double got = (double)result->values[t][i], want = (double)expected->values[t][i];
            cr_assert(fabs(got - want) <= 1e-5 + 1e-4 * fabs(want),
                      "%s, layout %d: %s[%lld] is %g, not %g", model->file, seed,
                      model->tensors[t].name, (long long)i, got, want);
        }
    for (int step = 0; step < N_STEPS; step++)
        cr_assert_float_eq(result->loss[step], expected->loss[step],
                           1e-5 + 1e-5 * fabs(expected->loss[step]), "%s, layout %d: %g, not %g",
                           model->file, seed, result->loss[step], expected->loss[step]);
}

/* Loss of the parameters moved by `by` along the direction. */
static double moved_loss(const cleave_model *model, const cleave_layout *single, double by) {
    cleave_arena arena = {0};
    cleave_model moved = *model;
    interpreter_result result;
    moved.tensors = CLEAVE_ARENA_ARRAY(&arena, cleave_tensor, model->n_tensors);
    memcpy(moved.tensors, model->tensors, (size_t)model->n_tensors * sizeof *moved.tensors);
    for (int32_t t = 0; t < model->n_tensors; t++) {
        cleave_random random = {
            .key = cleave_hash_join(11, cleave_hash_string(model->tensors[t].name))};
        int64_t n = is_parameter(model, t) ? cleave_tensor_size(&model->tensors[t]) : 0;
        float *values = CLEAVE_ARENA_ARRAY(&arena, float, n);
        for (int64_t i = 0; i < n; i++)
            values[i] = ((const float *)model->tensors[t].value)[i] +
                        (float)(by * (cleave_random_next_uniform(&random) - 0.5));
        if (n > 0)
            moved.tensors[t].value = values;
    }
    run(&moved, single, 1, 1, &arena, &result);
    double loss = result.loss[0];
    cleave_arena_free(&arena);
    return loss;
}

static void expect_slope(const cleave_model *model, const cleave_layout *single) {
    cleave_arena arena = {0};
    interpreter_result result;
    const double by = 5e-4;
    double slope = 0;
    run(model, single, 1, 1, &arena, &result);
    for (int32_t t = 0; t < model->n_tensors; t++) {
        cleave_random random = {
            .key = cleave_hash_join(11, cleave_hash_string(model->tensors[t].name))};
        int64_t n = is_parameter(model, t) ? cleave_tensor_size(&model->tensors[t]) : 0;
        for (int64_t i = 0; i < n; i++) {
            double before = (double)((const float *)model->tensors[t].value)[i];
            double gradient = (before - (double)result.values[t][i]) / 0.1;
            slope += gradient * (cleave_random_next_uniform(&random) - 0.5);
        }
    }
    double difference = (moved_loss(model, single, by) - moved_loss(model, single, -by)) / (2 * by);
    cr_expect(fabs(slope - difference) <= 4e-4 + 1e-2 * fabs(difference),
              "%s: the gradient's slope is %g, that of the loss %g", model->file, slope,
              difference);
    cleave_arena_free(&arena);
}

Test(elementwise, any_layout_learns_the_same_by_the_slope_of_the_loss) {
    for (size_t k = 0; k < sizeof networks / sizeof *networks; k++) {
        cleave_arena arena = {0};
        cleave_model model;
        cleave_layout single;
        interpreter_result expected;
        build(&networks[k], &arena, &model);
        OK(cleave_layout_create, &model, 1, &arena, &single);
        expect_slope(&model, &single);
        run(&model, &single, 1, N_STEPS, &arena, &expected);
        for (uint64_t seed = seed_from(0); seed < seed_end(N_LAYOUTS); seed++) {
            cleave_arena scratch = {0};
            cleave_layout layout;
            interpreter_result result;
            OK(cleave_layout_random, &model, N_DEVICES, seed, &scratch, &layout);
            run(&model, &layout, seed + 100, N_STEPS, &scratch, &result);
            expect_same(&model, (int)seed, &result, &expected);
            cleave_arena_free(&scratch);
        }
        cleave_arena_free(&arena);
    }
}
