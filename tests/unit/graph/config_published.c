/* Published language models by their config.json: parameters as the framework has them, and what
   attention becomes.  That they compute what the framework's classes do is tested by
   tests/integration/oracles.c. */
#include "configs.h"
#include "graph/model/attention.h"

#include <criterion/parameterized.h>
#include <glob.h>

TestSuite(config_published, .fini = tear_down);

/* ---- parameters ------------------------------------------------------------------------------ */

enum { MOST_LINES = 64 };

/* "model.layers.3.mlp" becomes "model.layers.*.mlp". */
static void fold_layer(const char *name, char *folded, size_t size) {
    static const char *const lists[] = {".block.", ".blocks.", ".layers.", ".layer.", ".h."};
    snprintf(folded, size, "%s", name);
    const char *first = NULL;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const char *at = strstr(name, lists[i]);
        const char *number = at != NULL ? at + strlen(lists[i]) : NULL;
        if (number != NULL && *number >= '0' && *number <= '9' && (first == NULL || at < first)) {
            first = at;
            snprintf(folded, size, "%.*s*%s", (int)(number - name), name,
                     number + strspn(number, "0123456789"));
        }
    }
}

/* "4096x1024 NAME" */
static void describe(const cleave_onnx_value *value, char *text, size_t size) {
    char folded[256];
    fold_layer(value->name, folded, sizeof folded);
    text[0] = '\0';
    for (int d = 0; d < value->rank; d++)
        snprintf(text + strlen(text), size - strlen(text), "%s%lld", d > 0 ? "x" : "",
                 (long long)value->shape[d]);
    snprintf(text + strlen(text), size - strlen(text), " %s", folded);
}

/* Compares a graph's parameters with the lines "COUNT SHAPE NAME" of a file of them. */
static void expect_parameters(const cleave_onnx_graph *graph, char *expected) {
    char *lines[MOST_LINES];
    long long left[MOST_LINES] = {0};
    int n = 0;
    for (char *line = strtok(expected, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char *end;
        cr_assert_lt(n, MOST_LINES);
        left[n] = strtoll(line, &end, 10);
        lines[n++] = end + 1;
    }
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        char text[512];
        int k = 0;
        if (graph->inputs[i].symbols[0] != NULL)
            continue;
        describe(&graph->inputs[i], text, sizeof text);
        while (k < n && strcmp(lines[k], text) != 0)
            k++;
        cr_assert_lt(k, n, "%s is no parameter of the framework", text);
        left[k]--;
    }
    for (int k = 0; k < n; k++)
        cr_expect_eq(left[k], 0, "%lld of %s are missing", left[k], lines[k]);
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Of each attention one nest is made, which stores no scores. */
static void expect_no_scores(void) {
    cleave_model fused;
    int n = 0;
    OK(cleave_model_fuse_attention, &model, NULL, &arena, &fused);
    for (int32_t op = 0; op < fused.n_operators; op++) {
        if (strcmp(fused.operators[op].type, "Attention") != 0)
            continue;
        n++;
        cr_expect_eq(fused.operators[op].n_nests, 1, "%s stores its scores",
                     fused.operators[op].name);
    }
    cr_expect_gt(n, 0);
}

/* ---- published models ------------------------------------------------------------------------ */

typedef struct published {
    char name[32];
} published;

ParameterizedTestParameters(config_published,
                            published_models_have_the_parameters_of_the_framework) {
    static published all[256];
    static const char folder[] = CLEAVE_SOURCE_DIR "/tests/data/configs/";
    glob_t found;
    size_t n = 0;
    if (glob(CLEAVE_SOURCE_DIR "/tests/data/configs/*.parameters", 0, NULL, &found) == 0)
        for (; n < found.gl_pathc; n++) {
            const char *name = found.gl_pathv[n] + strlen(folder);
            snprintf(all[n].name, sizeof all[n].name, "%.*s", (int)strcspn(name, "."), name);
        }
    globfree(&found);
    return cr_make_param_array(published, all, n > 0 ? n : 1); /* of no name, which fails */
}

/* tests/data/make_family_names.py wrote what is expected; the counts are those that are published,
   such as 8,030,261,248 of Llama-3-8B.  No weight is made: the largest has 2.4 TiB of them. */
ParameterizedTest(published *of, config_published,
                  published_models_have_the_parameters_of_the_framework) {
    char *text = read_text("configs/models/%s.json", of->name), *rest;
    char *expected = read_text("tests/data/configs/%s.parameters", of->name);
    cleave_onnx_graph graph;
    int64_t sequence = strstr(text, "\"image_size\"") != NULL ? 0 : 64;
    long long count = strtoll(expected, &rest, 10);
    OK(decode, text, sequence, true, &graph);
    expect_parameters(&graph, rest);
    cleave_import_request request = config_request(text, 2, sequence);
    OK(cleave_model_import_as, &request, &arena, &model);
    cr_expect_eq(cleave_model_parameter_count(&model), count, "%lld parameters, not %lld",
                 (long long)cleave_model_parameter_count(&model), count);
    cr_expect_lt(arena.used_bytes, (size_t)1 << 28);
    expect_no_scores();
    /* Norms read their weights, 1 + weight, too. */
    for (int32_t op = 0; op < model.n_operators; op++)
        cr_expect(strstr(model.operators[op].name, "norm.factor") == NULL, "%s is by itself",
                  model.operators[op].name);
}
