/* Attention in the forms that importing fuses: under any layout, with its keys split among devices
   too, it learns what one device does.  Each part then has a maximum, a sum and a weighted sum of
   values of its own keys only, some of which a mask may hide altogether.  And so it does as one
   nest that stores no scores (graph/model/attention.h). */
#include "../support/draws.h"
#include "../support/interpreter.h"
#include "../support/ok.h"
#include "../support/onnx_writer.h"
#include "base/random.h"
#include "graph/import/import.h"
#include "graph/lower/lower.h"
#include "graph/model/attention.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 3, QUERIES = 5, KEYS = 7, HEADS = 2, WIDTH = 4, CLASSES = 3 };
enum { FEATURES = HEADS * WIDTH, N_DEVICES = 6, N_LAYOUTS = 60, N_STEPS = 3 };

typedef enum mask { NO_MASK, CAUSAL, CAUSAL_INFINITE, PADDING, WHERE } mask;

typedef struct form {
    const char *what;
    mask mask;
    bool crosses;   /* keys and values are of another sequence, of another length */
    bool one_key;   /* all heads share keys */
    bool drops;     /* weights */
    bool shifts;    /* adds a parameter to the sums of values: a tail of the second product */
    bool unbatched; /* no dimension of samples */
    bool sinks;     /* of heads, which take a share of every row */
    bool caps;      /* scores, by a hyperbolic tangent */
} form;

static float data[4096];
static int64_t targets[BATCH * QUERIES];

static const void *datum(void *context, const char *name) {
    (void)context;
    return strcmp(name, "targets") == 0 ? (const void *)targets : data;
}

static void parameter(bytes *graph, const char *name, int64_t rows, int64_t columns) {
    float values[1024];
    for (int64_t i = 0; i < rows * columns; i++)
        values[i] = (float)cleave_random_uniform(cleave_hash_string(name), (uint64_t)i) - 0.5f;
    initializer(graph, name, 2, (int64_t[]){rows, columns}, 1, values,
                (size_t)(rows * columns) * sizeof *values);
}

static int64_t n_keys(const form *f) { return f->crosses ? KEYS : QUERIES; }

/* What a query may not see: later keys. */
static void causal_mask(bytes *graph, const form *f, float hidden) {
    float values[QUERIES * KEYS];
    int64_t n = n_keys(f);
    bytes constant = {.n = 0};
    for (int64_t q = 0; q < QUERIES; q++)
        for (int64_t k = 0; k < n; k++)
            values[q * n + k] = k > q ? hidden : 0;
    attribute_tensor(&constant, "value", 2, (int64_t[]){QUERIES, n}, 1, values,
                     (size_t)(QUERIES * n) * sizeof *values);
    node(graph, "Constant", "mask", "", "mask", &constant);
}

static void add_mask(bytes *graph, const form *f) {
    bytes constant = {.n = 0};
    bool seen[QUERIES * KEYS];
    float low = -1e4f;
    switch (f->mask) {
    case NO_MASK:
        node(graph, "Identity", "masked", "scaled", "masked", NULL);
        return;
    case CAUSAL:
    case CAUSAL_INFINITE:
        causal_mask(graph, f, f->mask == CAUSAL ? -1e4f : -INFINITY);
        break;
    case PADDING:
        graph_input(graph, "mask", f->crosses ? "3 1 1 7" : "3 1 1 5");
        break;
    case WHERE:
        for (int64_t i = 0; i < QUERIES * n_keys(f); i++)
            seen[i] = i % 3 != 1;
        attribute_tensor(&constant, "value", 2, (int64_t[]){QUERIES, n_keys(f)}, 9, seen,
                         (size_t)(QUERIES * n_keys(f)));
        node(graph, "Constant", "seen", "", "seen", &constant);
        initializer(graph, "low", 0, NULL, 1, &low, sizeof low);
        node(graph, "Where", "masked", "seen scaled low", "masked", NULL);
        return;
    }
    node(graph, "Add", "masked", "scaled mask", "masked", NULL);
}

/* Heads of a sequence, projected: [batch, heads, tokens, width], or the last two the other way. */
static void project(bytes *graph, const form *f, const char *name, const char *of, int64_t heads,
                    bool transposed) {
    char own[16], words[48];
    bytes permutation = {.n = 0};
    const int64_t with_batch[] = {0, 2, transposed ? 3 : 1, transposed ? 1 : 3};
    const int64_t without[] = {1, transposed ? 2 : 0, transposed ? 0 : 2};
    snprintf(own, sizeof own, "w_%s", name);
    parameter(graph, own, FEATURES, heads * WIDTH);
    snprintf(words, sizeof words, "%s %s", of, own);
    snprintf(own, sizeof own, "%s_flat", name);
    node(graph, "MatMul", own, words, own, NULL);
    snprintf(words, sizeof words, "%s_shape", name);
    if (f->unbatched)
        integers(graph, words, 3, (int64_t[]){-1, heads, WIDTH});
    else
        integers(graph, words, 4, (int64_t[]){BATCH, -1, heads, WIDTH});
    snprintf(words, sizeof words, "%s_flat %s_shape", name, name);
    snprintf(own, sizeof own, "%s_heads", name);
    node(graph, "Reshape", own, words, own, NULL);
    attribute_integers(&permutation, "perm", f->unbatched ? 3 : 4,
                       f->unbatched ? without : with_batch);
    node(graph, "Transpose", name, own, name, &permutation);
}

static void mix(bytes *graph, const form *f) {
    const float scale = 0.6f, ratio = 0.25f;
    const bool yes = true;
    bytes axis = {.n = 0};
    attribute_integer(&axis, "axis", -1);
    initializer(graph, "scale", 0, NULL, 1, &scale, sizeof scale);
    node(graph, "MatMul", "scores", "q k", "scores", NULL);
    if (f->caps) {
        node(graph, "Mul", "scaled", "scores scale", "uncapped", NULL);
        node(graph, "Tanh", "capped", "uncapped", "scaled", NULL);
    } else {
        node(graph, "Mul", "scaled", "scores scale", "scaled", NULL);
    }
    add_mask(graph, f);
    if (f->sinks) {
        const float sinks[HEADS] = {0.75f, -0.5f};
        initializer(graph, "sinks", 1, (int64_t[]){HEADS}, 1, sinks, sizeof sinks);
        node(graph, "SinkSoftmax", "softmax", "masked sinks", "weights", NULL);
    } else {
        node(graph, "Softmax", "softmax", "masked", "weights", &axis);
    }
    if (f->drops) {
        initializer(graph, "ratio", 0, NULL, 1, &ratio, sizeof ratio);
        initializer(graph, "yes", 0, NULL, 9, &yes, sizeof yes);
        node(graph, "Dropout", "drop", "weights ratio yes", "dropped", NULL);
    }
    node(graph, "MatMul", "mixed", f->drops ? "dropped v" : "weights v",
         f->shifts ? "plain" : "mixed", NULL);
    if (f->shifts) {
        parameter(graph, "shift", QUERIES, WIDTH);
        node(graph, "Add", "shifted", "plain shift", "mixed", NULL);
    }
}

static void import(const form *f, cleave_arena *arena, cleave_model *model) {
    static bytes graph;
    bytes permutation = {.n = 0};
    cleave_error error = {""};
    graph.n = 0;
    graph_input(&graph, "x", f->unbatched ? "5 8" : "3 5 8");
    if (f->crosses)
        graph_input(&graph, "memory", f->unbatched ? "7 8" : "3 7 8");
    graph_output(&graph, "logits");
    project(&graph, f, "q", "x", HEADS, false);
    project(&graph, f, "k", f->crosses ? "memory" : "x", f->one_key ? 1 : HEADS, true);
    project(&graph, f, "v", f->crosses ? "memory" : "x", f->one_key ? 1 : HEADS, false);
    mix(&graph, f);
    attribute_integers(&permutation, "perm", f->unbatched ? 3 : 4,
                       f->unbatched ? (int64_t[]){1, 0, 2} : (int64_t[]){0, 2, 1, 3});
    node(&graph, "Transpose", "back", "mixed", "back", &permutation);
    integers(&graph, "joined_shape", 2, (int64_t[]){-1, FEATURES});
    node(&graph, "Reshape", "joined", "back joined_shape", "joined", NULL);
    parameter(&graph, "w_out", FEATURES, CLASSES);
    node(&graph, "MatMul", "out", "joined w_out", "logits", NULL);
    bytes file = model_file(&graph, 14);
    cr_assert_eq(cleave_model_import_as(
                     &(cleave_import_request){
                         .file = f->what, .data = file.data, .bytes = file.n, .with_loss = true},
                     arena, model, &error),
                 CLEAVE_OK, "%s: %s", f->what, error.message);
}

/* By the fast kernels, or (null) by the reference. */
static void train_by(cleave_kernels *kernels, const cleave_model *model,
                     const cleave_layout *layout, uint64_t timing, cleave_arena *arena,
                     interpreter_result *result, const char *what) {
    cleave_error error = {""};
    cleave_lower_options lower = {.training = true, .optimizer_states = 1};
    if (kernels != NULL) {
        lower.workspace = cleave_kernel_workspace;
        lower.workspace_context = kernels;
    }
    cleave_program program;
    cr_assert_eq(cleave_lower(model, layout, &lower, arena, &program, &error), CLEAVE_OK, "%s: %s",
                 what, error.message);
    cr_assert_eq(cleave_program_check(&program, &error), CLEAVE_OK, "%s: %s", what, error.message);
    interpreter_options options = {.seed = 5,
                                   .timing_seed = timing,
                                   .steps = N_STEPS,
                                   .kernels = kernels,
                                   .datum = datum,
                                   .optimizer = cleave_optimizer_default(CLEAVE_OPTIMIZER_SGD)};
    options.optimizer.learning_rate = 0.3;
    options.optimizer.momentum = 0.5;
    cr_assert_eq(interpreter_run(&program, &options, arena, result, &error), CLEAVE_OK, "%s: %s",
                 what, error.message);
}

static void train(const cleave_model *model, const cleave_layout *layout, uint64_t timing,
                  cleave_arena *arena, interpreter_result *result, const char *what) {
    train_by(NULL, model, layout, timing, arena, result, what);
}

static void compare(const cleave_model *model, const interpreter_result *result,
                    const interpreter_result *expected, const char *what) {
    for (int step = 0; step < N_STEPS; step++)
        cr_assert_float_eq(result->loss[step], expected->loss[step], 1e-5,
                           "%s: loss %d: %g, not %g", what, step, result->loss[step],
                           expected->loss[step]);
    for (int32_t t = 0; t < model->n_tensors; t++)
        for (int64_t i = 0;
             expected->values[t] != NULL && i < cleave_tensor_size(&model->tensors[t]); i++) {
            double got = (double)result->values[t][i], want = (double)expected->values[t][i];
            cr_assert(fabs(got - want) <= 1e-5 + 1e-4 * fabs(want), "%s: %s[%lld] is %g, not %g",
                      what, model->tensors[t].name, (long long)i, got, want);
        }
}

static int32_t find_attention(const cleave_model *model, const char *what) {
    for (int32_t op = 0; op < model->n_operators; op++)
        if (strcmp(model->operators[op].type, "Attention") == 0)
            return op;
    cr_assert(false, "%s: no operator is attention", what);
    return -1;
}

static int keys_of(const cleave_model *model, int32_t op, const form *f) {
    const cleave_operator *of = &model->operators[op];
    int axis = of->n_axes - 1;
    cr_assert_str_eq(of->axes[axis].name, "k", "%s", f->what);
    cr_assert_eq(of->axes[axis].extent, n_keys(f), "%s", f->what);
    return axis;
}

/* Of every third layout attention is split among its keys alone. */
static void draw(const cleave_model *model, int32_t op, int keys, uint64_t seed,
                 cleave_arena *arena, cleave_layout *layout) {
    int32_t degree[CLEAVE_MAX_AXES] = {0}, devices[N_DEVICES];
    OK(cleave_layout_random, model, N_DEVICES, seed, arena, layout);
    if (seed % 3 != 0)
        return;
    degree[keys] = 2 + (int32_t)(seed / 3 % 4);
    for (int32_t d = 0; d < N_DEVICES; d++)
        devices[d] = (int32_t)((uint64_t)d * 5 + seed) % N_DEVICES;
    OK(cleave_layout_set, layout, op, 1, degree, devices, arena);
}

/* Of every third layout keys go round among the parts of the queries, in some beside parts of heads
   and replicas. */
static bool draw_ring(const cleave_model *model, int32_t op, int keys, uint64_t seed,
                      cleave_arena *arena, cleave_layout *layout) {
    int32_t degree[CLEAVE_MAX_AXES] = {0}, devices[N_DEVICES];
    if (seed % 3 != 1)
        return false;
    int32_t n = 2 + (int32_t)(seed / 3 % 4), rest = N_DEVICES / n;
    bool heads = rest > 1 && seed % 2 == 0 && model->operators[op].axes[keys - 2].extent >= rest;
    degree[keys - 1] = n;
    degree[keys - 2] = heads ? rest : 1;
    for (int32_t d = 0; d < N_DEVICES; d++)
        devices[d] = (int32_t)((uint64_t)d * 5 + seed) % N_DEVICES;
    OK(cleave_layout_set, layout, op, heads ? 1 : rest, degree, devices, arena);
    layout->splits[op].ring = true;
    return true;
}

/* Trains it with one nest for attention, by fast kernels in every other layout; was there one? */
static bool train_fused(cleave_kernels *kernels, const cleave_model *stored, int32_t op,
                        const cleave_layout *layout, uint64_t timing, cleave_arena *arena,
                        interpreter_result *result, const char *what) {
    cleave_error error = {""};
    cleave_model model;
    cr_assert_eq(cleave_model_fuse_attention(stored, layout, arena, &model, &error), CLEAVE_OK,
                 "%s: %s", what, error.message);
    train_by(timing % 2 == 0 ? kernels : NULL, &model, layout, timing, arena, result, what);
    return model.nests[model.operators[op].main_nest].attention != NULL;
}

static void check(form f) {
    cleave_arena arena = {0};
    cleave_model model;
    cleave_layout single;
    interpreter_result expected;
    int n_split = 0, n_fused = 0, n_rings = 0;
    cleave_kernels *kernels;
    OK(cleave_kernels_create, &kernels);
    for (size_t i = 0; i < sizeof data / sizeof *data; i++)
        data[i] = (float)cleave_random_uniform(7, i) * 2 - 1;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        targets[i] = (int64_t)i % CLASSES;
    import(&f, &arena, &model);
    int32_t op = find_attention(&model, f.what);
    int keys = keys_of(&model, op, &f);
    OK(cleave_layout_create, &model, 1, &arena, &single);
    train(&model, &single, 1, &arena, &expected, f.what);
    for (uint64_t seed = seed_from(0); seed < seed_end(N_LAYOUTS); seed++) {
        char what[96];
        cleave_arena scratch = {0};
        cleave_layout layout;
        interpreter_result result;
        snprintf(what, sizeof what, "%s, layout %d", f.what, (int)seed);
        draw(&model, op, keys, seed, &scratch, &layout);
        n_split += layout.splits[op].degree[keys] > 1;
        train(&model, &layout, seed, &scratch, &result, what);
        compare(&model, &result, &expected, what);
        n_rings += !f.shifts && draw_ring(&model, op, keys, seed, &scratch, &layout);
        bool fused = train_fused(kernels, &model, op, &layout, seed, &scratch, &result, what);
        cr_expect_eq(fused, !f.shifts, "%s", what);
        n_fused += fused && layout.splits[op].degree[keys] > 1;
        compare(&model, &result, &expected, what);
        cleave_arena_free(&scratch);
    }
    cleave_kernels_destroy(kernels);
    cr_expect_gt(n_split, N_LAYOUTS / 3);
    cr_expect(f.shifts || n_fused > 10, "%s: %d", f.what, n_fused);
    cr_expect(f.shifts || n_rings == N_LAYOUTS / 3, "%s: %d", f.what, n_rings);
    cleave_arena_free(&arena);
}

Test(attention_learns, without_a_mask) { check((form){.what = "plain"}); }
Test(attention_learns, with_later_keys_hidden) {
    check((form){.what = "causal", .mask = CAUSAL});
    check((form){.what = "causal, infinite", .mask = CAUSAL_INFINITE});
}
Test(attention_learns, with_a_mask_of_each_sample) {
    check((form){.what = "padding", .mask = PADDING});
}
Test(attention_learns, with_keys_chosen) { check((form){.what = "where", .mask = WHERE}); }
Test(attention_learns, of_another_sequence) {
    check((form){.what = "cross", .crosses = true});
    check((form){.what = "cross, padding", .crosses = true, .mask = PADDING});
}
Test(attention_learns, with_dropout) {
    check((form){.what = "dropout", .mask = CAUSAL, .drops = true});
}
Test(attention_learns, with_something_added_to_sums_of_values) {
    check((form){.what = "tail", .shifts = true});
    check((form){.what = "all", .mask = WHERE, .crosses = true, .drops = true, .shifts = true});
}
Test(attention_learns, with_keys_that_heads_share) {
    check((form){.what = "one key", .mask = CAUSAL, .one_key = true});
}
Test(attention_learns, with_sinks) {
    check((form){.what = "sinks", .sinks = true});
    check((form){.what = "causal sinks", .mask = CAUSAL_INFINITE, .sinks = true, .drops = true});
}
Test(attention_learns, with_capped_scores) {
    check((form){.what = "caps", .mask = CAUSAL, .caps = true, .drops = true});
}
Test(attention_learns, of_a_single_sample) {
    check((form){.what = "unbatched", .mask = CAUSAL, .unbatched = true});
}
