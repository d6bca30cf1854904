/* For every operator that the importer knows, random models around it: their outputs and loss by
   the reference kernels equal an evaluation in doubles, gradients of all parameters equal central
   differences of that evaluation, and under random layouts, by either set of kernels, both equal
   the unsplit reference.

   CLEAVE_TEST_CASE=TYPE:SEED draws one alone. */
#include "../support/double_evaluator.h"
#include "../support/draws.h"
#include "../support/generators.h"
#include "../support/interpreter.h"
#include "../support/ok.h"
#include "base/random.h"
#include "exec/kernels/dropout.h"
#include "graph/import/import.h"
#include "graph/lower/lower.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_DEVICES = 6, N_LAYOUTS = 4, MOST_OPERATORS = 512, MOST_DIFFERENCES = 24 };

/* A large rate makes parameters forget what they were, so that the gradient stands in the bits. */
static const double RATE = 1024;
static const uint64_t SEED = 3;

typedef struct drawn_case {
    cleave_arena arena;
    drawn_model *drawn;
    cleave_model model; /* with a loss */
    cleave_kernels *kernels;
    double_evaluator evaluator;
    int64_t n_differences, n_kinks;
    char name[64];
} drawn_case;

#define EXPECT_OK(c, call)                                                                         \
    do {                                                                                           \
        cleave_error error = {""};                                                                 \
        cleave_status status = (call);                                                             \
        cr_assert_eq(status, CLEAVE_OK, "%s: %s\n%s", (c)->name, error.message, (c)->drawn->text); \
    } while (0)

/* ---- drawing --------------------------------------------------------------------------------- */

static void import(drawn_case *c, const bytes *graph, bool with_loss, cleave_model *model) {
    bytes file = model_file(graph, c->drawn->opset);
    EXPECT_OK(c, cleave_model_import_as(&(cleave_import_request){.file = c->name,
                                                                 .data = file.data,
                                                                 .bytes = file.n,
                                                                 .with_loss = with_loss},
                                        &c->arena, model, &error));
}

/* The model with the outputs drawn so far, without a loss. */
static void import_outputs(drawn_case *c, cleave_model *model) {
    bytes *graph = CLEAVE_ARENA_ARRAY(&c->arena, bytes, 1);
    *graph = c->drawn->graph;
    for (int i = 0; i < c->drawn->n_outputs; i++)
        value_info(graph, 12, c->drawn->outputs[i].name, c->drawn->outputs[i].is_float ? 1 : 7, "");
    import(c, graph, false, model);
}

static const cleave_tensor *output_tensor(const cleave_model *model, int i) {
    return &model->tensors[model->outputs[i]];
}

static bool is_imported(const char *type) {
    bool constant_only;
    const char *known;
    for (int i = 0; (known = cleave_import_operator_type(i, &constant_only)) != NULL; i++)
        if (strcmp(known, type) == 0)
            return !constant_only;
    return false;
}

static const void *datum(void *context, const char *name) {
    const drawn_model *m = context;
    for (int i = 0; i < m->n_data; i++)
        if (strcmp(m->data[i].name, name) == 0)
            return m->data[i].values;
    return NULL;
}

static double drawn(void *context, const cleave_instruction *it, const cleave_tensor *output,
                    int64_t index) {
    (void)context;
    uint64_t key = cleave_dropout_key(SEED, 0, output->name);
    if (it->opcode == CLEAVE_OP_UNIFORM)
        return cleave_uniform_draw(key, it->p, index);
    bool kept = cleave_dropout_keeps(cleave_dropout_stream(key, it->q), index,
                                     cleave_dropout_threshold(it->p));
    return kept ? 1 / (1 - it->p) : 0;
}

static void evaluate(drawn_case *c, const cleave_model *model, double_evaluator *e) {
    cr_assert(double_evaluator_create(model, &c->arena, e));
    e->draw = drawn;
    for (int32_t t = 0; t < model->n_tensors; t++) {
        const void *values = datum(c->drawn, model->tensors[t].name);
        if (values != NULL && model->tensors[t].type == CLEAVE_I64)
            double_evaluator_set_integers(e, t, values);
        else if (values != NULL)
            double_evaluator_set_floats(e, t, values);
    }
    double_evaluator_run(e);
}

/* A value with elements of moderate size: scaled where they are not. */
static const char *moderate(drawn_case *c, const cleave_model *model, const double_evaluator *e,
                            int output) {
    enum { MOST = 3 };
    const char *name = c->drawn->outputs[output].name;
    double largest = 0;
    for (int64_t i = 0; i < cleave_tensor_size(output_tensor(model, output)); i++)
        largest = fmax(largest, fabs(double_evaluator_element(e, model->outputs[output], i)));
    if (!(largest > MOST))
        return name;
    return put_node(c->drawn, "Mul", "%s %s", name, put_scalar(c->drawn, MOST / largest));
}

/* Another operator before the one under test, which then reads its output. */
static void draw_predecessor(drawn_case *c) {
    drawn_model *m = c->drawn;
    const generator *found = NULL;
    while (found == NULL) {
        int n = 0;
        while (generator_at(n) != NULL)
            n++;
        const generator *g = generator_at((int)draw_between(m, 0, n - 1));
        if (g->smooth && g->least_opset <= m->opset && is_imported(g->type))
            found = g;
    }
    cleave_model model;
    double_evaluator e;
    found->draw(m, found->type);
    import_outputs(c, &model);
    evaluate(c, &model, &e);
    m->source = moderate(c, &model, &e, 0);
    m->source_size = cleave_tensor_size(output_tensor(&model, 0));
    m->n_outputs = 0;
}

/* Something element-wise behind an output, which may join the operator. */
static const char *draw_tail(drawn_model *m, const char *value, const cleave_tensor *tensor) {
    drawn_shape shape = shape_of(tensor->rank, tensor->shape);
    switch (draw_between(m, 0, 5)) {
    case 0:
        return put_node(m, "Sigmoid", "%s", value);
    case 1:
        return put_node(m, "Relu", "%s", value);
    case 2: {
        const char *scale = draw_parameter(m, draw_broadcast(m, shape), DRAWN_POSITIVE);
        return shape.rank > 0 ? put_node(m, "Mul", "%s %s", value, scale) : value;
    }
    case 3: {
        const char *bias = draw_parameter(m, draw_broadcast(m, shape), DRAWN_ANY);
        return shape.rank > 0 ? put_node(m, "Add", "%s %s", bias, value) : value;
    }
    case 4: { /* read twice */
        const char *squashed = put_node(m, "Tanh", "%s", value);
        return put_node(m, "Add", "%s %s", value, squashed);
    }
    default:
        return value;
    }
}

/* Logits [rows, 3] of outputs, through a product whose matrix is constant, so that any gradient
   can come back; and of the parameter that is always there. */
static void draw_head(drawn_case *c, const cleave_model *model, const double_evaluator *e) {
    drawn_model *m = c->drawn;
    const char *words = m->anchor, *all;
    int64_t total = 2, rows;
    for (int i = 0; i < m->n_outputs; i++) {
        const char *value;
        if (!m->outputs[i].is_float) {
            set_integer(m, "to", 1);
            value = put_node(m, "Cast", "%s", m->outputs[i].name);
        } else {
            value = moderate(c, model, e, i);
        }
        value = draw_tail(m, value, output_tensor(model, i));
        value = put_reshape(m, value, shape_of(2, (int64_t[]){1, -1}));
        words = cleave_arena_printf(m->arena, "%s %s", words, value);
        total += cleave_tensor_size(output_tensor(model, i));
    }
    set_integer(m, "axis", 1);
    all = put_node(m, "Concat", "%s", words);
    for (rows = draw_between(m, 1, 5); total % rows != 0;)
        rows--;
    if (rows > 1)
        all = put_reshape(m, all, shape_of(2, (int64_t[]){rows, total / rows}));
    const char *matrix = draw_constant(m, shape_of(2, (int64_t[]){total / rows, 3}), DRAWN_UNIT);
    graph_output(&m->graph, put_node(m, "MatMul", "%s %s", all, matrix));
}

/* ---- running --------------------------------------------------------------------------------- */

static void run(drawn_case *c, const cleave_model *model, const cleave_layout *layout,
                cleave_kernels *kernels, cleave_arena *arena, interpreter_result *result) {
    cleave_program program;
    cleave_lower_options lower = {.training = model->loss >= 0,
                                  .workspace = kernels != NULL ? cleave_kernel_workspace : NULL,
                                  .workspace_context = kernels};
    EXPECT_OK(c, cleave_lower(model, layout, &lower, arena, &program, &error));
    EXPECT_OK(c, cleave_program_check(&program, &error));
    interpreter_options options = {.seed = SEED,
                                   .timing_seed = cleave_random_next(&c->drawn->random),
                                   .steps = 1,
                                   .kernels = kernels,
                                   .datum = datum,
                                   .context = c->drawn,
                                   .optimizer = cleave_optimizer_default(CLEAVE_OPTIMIZER_SGD)};
    options.optimizer.learning_rate = RATE;
    EXPECT_OK(c, interpreter_run(&program, &options, arena, result, &error));
}

/* ---- comparing ------------------------------------------------------------------------------- */

static void expect_close(const drawn_case *c, const char *what, int64_t i, double got, double want,
                         double relative, double absolute) {
    cr_assert(fabs(got - want) <= absolute + relative * fabs(want),
              "%s: %s[%lld] is %.9g, not %.9g\n%s", c->name, what, (long long)i, got, want,
              c->drawn->text);
}

/* A mean of nothing is no number: such a model says nothing about gradients. */
static bool has_numbers(const cleave_model *model, const double_evaluator *e) {
    for (int32_t o = 0; o < model->n_outputs; o++)
        for (int64_t i = 0; i < cleave_tensor_size(output_tensor(model, o)); i++)
            if (isnan(double_evaluator_element(e, model->outputs[o], i)))
                return false;
    return true;
}

static void check_outputs(drawn_case *c, const cleave_model *model, const double_evaluator *e) {
    cleave_layout layout;
    interpreter_result result;
    EXPECT_OK(c, cleave_layout_create(model, 1, &c->arena, &layout, &error));
    run(c, model, &layout, NULL, &c->arena, &result);
    for (int32_t o = 0; o < model->n_outputs; o++)
        for (int64_t i = 0; i < cleave_tensor_size(output_tensor(model, o)); i++)
            expect_close(c, output_tensor(model, o)->name, i, (double)result.outputs[o][i],
                         double_evaluator_element(e, model->outputs[o], i), 2e-5, 2e-6);
}

/* The gradient of an element is what an update took from it. */
static double gradient(const drawn_case *c, const interpreter_result *result, int32_t t,
                       int64_t i) {
    const float *before = c->model.tensors[t].value;
    return ((double)before[i] - (double)result->values[t][i]) / RATE;
}

static double loss_at(drawn_case *c, double *x, double value, int32_t n, const int32_t *nests) {
    double before = *x;
    *x = value;
    double_evaluator_run_some(&c->evaluator, n, nests);
    *x = before;
    return double_evaluator_element(&c->evaluator, c->model.loss, 0);
}

/* Central differences with two steps tell kinks from derivatives. */
static void check_gradient(drawn_case *c, const interpreter_result *result, int32_t t, int64_t i,
                           int32_t n, const int32_t *nests) {
    double *x = &double_evaluator_values(&c->evaluator, t)[i], difference[2];
    for (int k = 0; k < 2; k++) {
        double h = k == 0 ? 2e-5 : 1e-5;
        difference[k] =
            (loss_at(c, x, *x + h, n, nests) - loss_at(c, x, *x - h, n, nests)) / (2 * h);
    }
    c->n_differences++;
    if (fabs(difference[0] - difference[1]) > 1e-7 + 1e-4 * fabs(difference[1])) {
        c->n_kinks++;
        return;
    }
    char what[128];
    snprintf(what, sizeof what, "gradient of %s", c->model.tensors[t].name);
    expect_close(c, what, i, gradient(c, result, t, i), difference[1], 5e-4, 5e-6);
}

static void check_gradients(drawn_case *c, const interpreter_result *result) {
    int32_t *nests = CLEAVE_ARENA_ARRAY(&c->arena, int32_t, c->model.n_nests);
    for (int32_t t = 0; t < c->model.n_tensors; t++) {
        const cleave_tensor *tensor = &c->model.tensors[t];
        if (tensor->kind != CLEAVE_TENSOR_PARAMETER)
            continue;
        int32_t n = double_evaluator_influence(&c->evaluator, t, nests);
        int64_t size = cleave_tensor_size(tensor);
        for (int64_t k = 0; k < size && k < MOST_DIFFERENCES; k++)
            check_gradient(c, result, t,
                           size <= MOST_DIFFERENCES ? k : draw_between(c->drawn, 0, size - 1), n,
                           nests);
        double_evaluator_run_some(&c->evaluator, n, nests);
    }
}

/* Running statistics take the value of what is assigned to them. */
static void check_assignments(drawn_case *c, const interpreter_result *result) {
    for (int32_t a = 0; a < c->model.n_assignments; a++) {
        int32_t target = c->model.assignments[a].target, source = c->model.assignments[a].source;
        for (int64_t i = 0; i < cleave_tensor_size(&c->model.tensors[target]); i++)
            expect_close(c, c->model.tensors[target].name, i, (double)result->values[target][i],
                         double_evaluator_element(&c->evaluator, source, i), 2e-5, 2e-6);
    }
}

static void compare(drawn_case *c, const interpreter_result *result,
                    const interpreter_result *expected) {
    expect_close(c, "loss", 0, result->loss[0], expected->loss[0], 2e-5, 2e-6);
    for (int32_t t = 0; t < c->model.n_tensors; t++) {
        if (expected->values[t] == NULL)
            continue;
        const cleave_tensor *tensor = &c->model.tensors[t];
        bool trained = tensor->kind == CLEAVE_TENSOR_PARAMETER;
        for (int64_t i = 0; i < cleave_tensor_size(tensor); i++)
            expect_close(c, tensor->name, i,
                         trained ? gradient(c, result, t, i) : (double)result->values[t][i],
                         trained ? gradient(c, expected, t, i) : (double)expected->values[t][i],
                         2e-4, 5e-6);
    }
}

/* The layout as text, for whoever looks for the reason. */
static void note_layout(drawn_case *c, const cleave_layout *layout) {
    for (int32_t o = 0; o < c->model.n_operators; o++) {
        const cleave_operator *op = &c->model.operators[o];
        const cleave_split *split = &layout->splits[o];
        put_note(c->drawn, "%s: replicas %d", op->name, (int)split->replicas);
        for (int a = 0; a < op->n_axes; a++)
            put_note(c->drawn, " %s %d/%lld", op->axes[a].name, (int)split->degree[a],
                     (long long)op->axes[a].extent);
        put_note(c->drawn, " on");
        for (int32_t p = 0; p < split->n_parts; p++)
            put_note(c->drawn, " %d", (int)split->devices[p]);
        put_note(c->drawn, "\n");
    }
}

static void check_layouts(drawn_case *c, const interpreter_result *expected) {
    size_t text_end = strlen(c->drawn->text);
    for (uint64_t k = 0; k < N_LAYOUTS; k++) {
        cleave_arena scratch = {0};
        cleave_layout layout;
        interpreter_result result;
        int32_t n_devices = k == 0 ? 1 : (int32_t)draw_between(c->drawn, 2, N_DEVICES);
        bool fast = k == 0 || k % 2 == 1;
        EXPECT_OK(c, cleave_layout_random(&c->model, n_devices, k, &scratch, &layout, &error));
        put_note(c->drawn, "layout %d, %s kernels\n", (int)k, fast ? "fast" : "reference");
        note_layout(c, &layout);
        run(c, &c->model, &layout, fast ? c->kernels : NULL, &scratch, &result);
        compare(c, &result, expected);
        c->drawn->text[text_end] = '\0';
        cleave_arena_free(&scratch);
    }
}

/* ---- a case ---------------------------------------------------------------------------------- */

static drawn_model *new_drawn_model(drawn_case *c, const generator *g, uint64_t seed) {
    static const int opsets[] = {9, 11, 12, 13, 14, 15, 17, 18, 20, 21, 23};
    drawn_model *m = c->drawn = CLEAVE_ARENA_ARRAY(&c->arena, drawn_model, 1);
    m->arena = &c->arena;
    m->random.key = cleave_hash_join(cleave_hash_string(g->type), seed);
    do
        m->opset = opsets[draw_between(m, 0, (int64_t)(sizeof opsets / sizeof *opsets) - 1)];
    while (m->opset < g->least_opset);
    put_note(m, "operator set %d\n", m->opset);
    /* Of a model without initializers all inputs would be parameters. */
    m->anchor = draw_parameter(m, shape_of(2, (int64_t[]){1, 2}), DRAWN_ANY);
    m->last = NULL;
    return m;
}

typedef struct tally {
    int64_t n_cases, n_void, n_differences, n_kinks;
} tally;

static void check_case(const generator *g, uint64_t seed, cleave_kernels *kernels, tally *t) {
    drawn_case c = {.kernels = kernels};
    t->n_cases++;
    snprintf(c.name, sizeof c.name, "%s:%d", g->type, (int)seed);
    drawn_model *m = new_drawn_model(&c, g, seed);
    if (g->smooth && draw_chance(m, 0.3))
        draw_predecessor(&c);
    g->draw(m, g->type);
    m->source = NULL;
    cleave_model outputs;
    double_evaluator e;
    import_outputs(&c, &outputs);
    evaluate(&c, &outputs, &e);
    if (!has_numbers(&outputs, &e)) {
        t->n_void++;
        cleave_arena_free(&c.arena);
        return;
    }
    check_outputs(&c, &outputs, &e);
    draw_head(&c, &outputs, &e);
    import(&c, &m->graph, true, &c.model);
    int64_t *targets = CLEAVE_ARENA_ARRAY(&c.arena, int64_t,
                                          cleave_tensor_size(&c.model.tensors[c.model.targets]));
    for (int64_t i = 0; i < cleave_tensor_size(&c.model.tensors[c.model.targets]); i++)
        targets[i] = draw_between(m, 0, 2);
    m->data[m->n_data].name = "targets";
    m->data[m->n_data++].values = targets;

    cleave_layout single;
    interpreter_result expected;
    evaluate(&c, &c.model, &c.evaluator);
    EXPECT_OK(&c, cleave_layout_create(&c.model, 1, &c.arena, &single, &error));
    run(&c, &c.model, &single, NULL, &c.arena, &expected);
    expect_close(&c, "loss", 0, expected.loss[0],
                 double_evaluator_element(&c.evaluator, c.model.loss, 0), 2e-5, 2e-6);
    check_assignments(&c, &expected);
    check_gradients(&c, &expected);
    check_layouts(&c, &expected);
    t->n_differences += c.n_differences;
    t->n_kinks += c.n_kinks;
    cleave_arena_free(&c.arena);
}

/* ---- the tests ------------------------------------------------------------------------------- */

ParameterizedTestParameters(operators, have_the_gradients_of_differences_under_any_layout) {
    static int indices[MOST_OPERATORS];
    bool constant_only;
    size_t n = 0;
    for (; n < MOST_OPERATORS && cleave_import_operator_type((int)n, &constant_only) != NULL; n++)
        indices[n] = (int)n;
    return cr_make_param_array(int, indices, n);
}

ParameterizedTest(int *index, operators, have_the_gradients_of_differences_under_any_layout) {
    bool constant_only;
    const char *type = cleave_import_operator_type(*index, &constant_only);
    const char *only = getenv("CLEAVE_TEST_CASE");
    size_t length = strlen(type);
    if (only != NULL && (strncmp(only, type, length) != 0 || only[length] != ':'))
        return;
    const generator *g = generator_find(type);
    if (constant_only)
        return; /* computed while importing: there is nothing to split or to differentiate */
    cr_assert_not_null(g, "nothing in tests/support/generators*.c draws models with %s", type);
    cleave_kernels *kernels;
    OK(cleave_kernels_create, &kernels);
    tally t = {0};
    uint64_t first = only != NULL ? strtoull(only + length + 1, NULL, 10) : seed_from(0);
    for (uint64_t i = 0; i < (uint64_t)(only != NULL ? 1 : n_draws(4)); i++)
        check_case(g, first + i, kernels, &t);
    cr_expect(t.n_kinks * 10 <= t.n_differences, "%s: %lld of %lld differences lie at kinks", type,
              (long long)t.n_kinks, (long long)t.n_differences);
    cr_expect(t.n_void <= 1 + t.n_cases / 10, "%s: %lld of %lld models give no number", type,
              (long long)t.n_void, (long long)t.n_cases);
    cleave_kernels_destroy(kernels);
}

/* What is drawn in vain is said, so that nobody takes it for tested. */
Test(operators, generators_without_an_operator_are_said) {
    const generator *g;
    bool constant_only = false;
    cr_expect_not_null(cleave_import_operator_type(0, &constant_only));
    for (int i = 0; (g = generator_at(i)) != NULL; i++)
        if (!is_imported(g->type))
            fprintf(stderr, "not imported, so not tested: %s\n", g->type);
}
