/* What tests of the importer share: a model is imported from bytes or a file, looked at by name,
   and evaluated by walking its nests. */
#ifndef CLEAVE_TESTS_UNIT_GRAPH_IMPORTED_H
#define CLEAVE_TESTS_UNIT_GRAPH_IMPORTED_H

#include "../../support/config_request.h"
#include "../../support/double_evaluator.h"
#include "../../support/ok.h"
#include "../../support/onnx_writer.h"
#include "graph/import/import.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cleave_arena arena;
static cleave_model model;

static inline void tear_down(void) { cleave_arena_free(&arena); }

static inline void read_model(const char *path, int64_t batch, bool with_loss) {
    char full[4096];
    snprintf(full, sizeof full, "%s/%s", CLEAVE_SOURCE_DIR, path);
    OK(cleave_model_import_as,
       &(cleave_import_request){.file = full, .batch = batch, .with_loss = with_loss}, &arena,
       &model);
}

static inline void import(const bytes *graph, int opset, int64_t batch, bool with_loss) {
    bytes file = model_file(graph, opset);
    OK(cleave_model_import_as,
       &(cleave_import_request){.file = "hand",
                                .data = file.data,
                                .bytes = file.n,
                                .batch = batch,
                                .with_loss = with_loss},
       &arena, &model);
}

/* A config.json, with a loss. */
static inline void import_config(const char *text, int64_t batch, int64_t sequence) {
    const cleave_import_request request = config_request(text, batch, sequence);
    OK(cleave_model_import_as, &request, &arena, &model);
}

static inline void expect_bytes_refused(const void *data, size_t n, int64_t batch,
                                        const char *message) {
    cleave_error error = {""};
    cleave_model untouched = {.n_nests = 77};
    cr_expect_eq(
        cleave_model_import_as(
            &(cleave_import_request){
                .file = "hand", .data = data, .bytes = n, .batch = batch, .with_loss = true},
            &arena, &untouched, &error),
        CLEAVE_BAD_INPUT);
    cr_expect_eq(untouched.n_nests, 77, "the model is written on success only");
    cr_expect_not_null(strstr(error.message, message), "'%s' is not in: %s", message,
                       error.message);
}

static inline void expect_refused(const bytes *graph, int opset, int64_t batch,
                                  const char *message) {
    bytes file = model_file(graph, opset);
    expect_bytes_refused(file.data, file.n, batch, message);
}

static inline const cleave_operator *find_operator(const char *name) {
    int32_t id = cleave_model_find_operator(&model, name);
    cr_assert_geq(id, 0, "no operator %s", name);
    return &model.operators[id];
}

static inline const cleave_tensor *find_tensor(const char *name) {
    int32_t id = cleave_model_find_tensor(&model, name);
    cr_assert_geq(id, 0, "no tensor %s", name);
    return &model.tensors[id];
}

/* "n=32 k=64 r=3!", where ! marks an axis that is whole. */
static inline void expect_axes(const char *name, const char *expected) {
    const cleave_operator *op = find_operator(name);
    char text[512] = "";
    for (int i = 0; i < op->n_axes; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s=%lld%s", i > 0 ? " " : "",
                 op->axes[i].name, (long long)op->axes[i].extent, op->axes[i].whole ? "!" : "");
    cr_expect_str_eq(text, expected);
}

static inline void expect_roles(const char *name, const char *expected) {
    const cleave_operator *op = find_operator(name);
    char text[256] = "";
    for (int i = 0; i < op->n_axes; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i > 0 ? " " : "",
                 op->roles[i]);
    cr_expect_str_eq(text, expected);
}

static inline void expect_shape(const char *name, int rank, const int64_t *shape) {
    const cleave_tensor *tensor = find_tensor(name);
    cr_assert_eq(tensor->rank, rank, "%s has rank %d", name, tensor->rank);
    for (int d = 0; d < rank; d++)
        cr_expect_eq(tensor->shape[d], shape[d], "dimension %d of %s", d, name);
}

/* Evaluates the model on inputs of 1, 2, 3 ... and compares an output. */
static inline void expect_values(const char *output, int n, const double *expected) {
    double_evaluator e;
    cr_assert(double_evaluator_create(&model, &arena, &e));
    for (int32_t t = 0; t < model.n_tensors; t++) {
        const cleave_tensor *tensor = &model.tensors[t];
        if (tensor->value != NULL || tensor->kind == CLEAVE_TENSOR_ACTIVATION)
            continue;
        for (int64_t i = 0; i < cleave_tensor_size(tensor); i++)
            double_evaluator_values(&e, t)[i] = (double)(i + 1);
    }
    double_evaluator_run(&e);
    int32_t id = cleave_model_find_tensor(&model, output);
    cr_assert_geq(id, 0);
    cr_assert_eq(cleave_tensor_size(&model.tensors[id]), n);
    for (int i = 0; i < n; i++) {
        double value = double_evaluator_element(&e, id, i);
        cr_expect(fabs(value - expected[i]) < 1e-6, "element %d of %s is %g, not %g", i, output,
                  value, expected[i]);
    }
}

/* A graph of one node from x to y. */
static inline void one_node(const char *type, const char *shape, const bytes *attributes,
                            int opset) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", shape);
    graph_output(&graph, "y");
    node(&graph, type, "op", "x", "y", attributes);
    import(&graph, opset, 1, false);
}

#endif
