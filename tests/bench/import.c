/* How long it takes to import each model that ships, and deep ones that are made here: the median
   of some repetitions (5), and how many operators and nests it makes.
     usage: bench_import [REPETITIONS] */
#include "graph/import/import.h"
#include "../support/onnx_writer.h"
#include "arguments.h"
#include "base/file.h"
#include "row.h"

#include <glob.h>
#include <string.h>

enum { MOST_REPETITIONS = 101 };

typedef struct measurement {
    double seconds[MOST_REPETITIONS];
    int32_t n_operators, n_nests;
} measurement;

static cleave_status measure(const void *data, size_t n_bytes, const char *name, int repetitions,
                             measurement *m, cleave_error *error) {
    for (int r = 0; r < repetitions; r++) {
        cleave_arena arena = {0};
        cleave_model model;
        double start = cleave_clock_seconds();
        cleave_status status = cleave_model_import_as(
            &(cleave_import_request){
                .file = name, .data = data, .bytes = n_bytes, .batch = 64, .with_loss = true},
            &arena, &model, error);
        m->seconds[r] = cleave_clock_seconds() - start;
        if (status == CLEAVE_OK) {
            m->n_operators = model.n_operators;
            m->n_nests = model.n_nests;
        }
        cleave_arena_free(&arena);
        CLEAVE_TRY(status);
    }
    return CLEAVE_OK;
}

static cleave_status measure_file(const char *path, int repetitions, cleave_error *error) {
    cleave_arena arena = {0};
    measurement m;
    char *data, what[128];
    size_t n_bytes;
    const char *name = strrchr(path, '/');
    cleave_status status = cleave_file_read(path, &arena, &data, &n_bytes, error);
    if (status == CLEAVE_OK)
        status = measure(data, n_bytes, path, repetitions, &m, error);
    cleave_arena_free(&arena);
    CLEAVE_TRY(status);
    snprintf(what, sizeof what, "importing %s", name != NULL ? name + 1 : path);
    bench_row(what, "", "%.1f ms, %d operators, %d nests",
              1e3 * cleave_median(m.seconds, repetitions), m.n_operators, m.n_nests);
    return CLEAVE_OK;
}

/* ---- deep models ----------------------------------------------------------------------------- */

typedef struct maker {
    FILE *graph;
    int n_nodes;
    char value[32]; /* the last one */
} maker;

static void flush_bytes(maker *m, const bytes *b) { fwrite(b->data, 1, b->n, m->graph); }

/* A node of one output, which becomes the last value.  '%' in the inputs stands for the last one.
 */
static void add(maker *m, const char *type, const char *inputs, const bytes *attributes) {
    bytes b;
    char words[128] = "", name[32];
    b.n = 0;
    for (const char *c = inputs; *c != '\0'; c++) {
        size_t used = strlen(words);
        snprintf(words + used, sizeof words - used, *c == '%' ? "%s" : "%.1s",
                 *c == '%' ? m->value : c);
    }
    snprintf(name, sizeof name, "v%d", ++m->n_nodes);
    node(&b, type, name, words, name, attributes);
    memcpy(m->value, name, sizeof name);
    flush_bytes(m, &b);
}

static void add_chain(maker *m) {
    add(m, "Mul", "% scale", NULL);
    add(m, "Add", "% shift", NULL);
    add(m, "Tanh", "%", NULL);
    add(m, "Exp", "%", NULL);
    add(m, "Neg", "%", NULL);
}

static void add_transpose(maker *m, int a, int b, int c, int d) {
    bytes attributes;
    attributes.n = 0;
    attribute_integers(&attributes, "perm", 4, (int64_t[]){a, b, c, d});
    add(m, "Transpose", "%", &attributes);
}

/* A head's input, [n, heads, t, width] or, for keys, [n, heads, width, t]. */
static void add_heads(maker *m, const char *from, bool keys, char *result) {
    char inputs[80];
    snprintf(inputs, sizeof inputs, "%s square", from);
    add(m, "MatMul", inputs, NULL);
    add(m, "Reshape", "% to_heads", NULL);
    if (keys)
        add_transpose(m, 0, 2, 3, 1);
    else
        add_transpose(m, 0, 2, 1, 3);
    memcpy(result, m->value, sizeof m->value);
}

static void add_normalisation(maker *m, const char *x) {
    bytes axes;
    char inputs[80], difference[32];
    axes.n = 0;
    attribute_integers(&axes, "axes", 1, (int64_t[]){-1});
    add(m, "ReduceMean", x, &axes);
    snprintf(inputs, sizeof inputs, "%s %%", x);
    add(m, "Sub", inputs, NULL);
    memcpy(difference, m->value, sizeof difference);
    snprintf(inputs, sizeof inputs, "%s two", difference);
    add(m, "Pow", inputs, NULL);
    add(m, "ReduceMean", "%", &axes);
    add(m, "Add", "% epsilon", NULL);
    add(m, "Sqrt", "%", NULL);
    snprintf(inputs, sizeof inputs, "%s %%", difference);
    add(m, "Div", inputs, NULL);
    add(m, "Mul", "% scale", NULL);
    add(m, "Add", "% shift", NULL);
}

/* Attention and a dense layer, each with a residual: 34 nodes. */
static void add_layer(maker *m) {
    char x[32], normal[32], q[32], k[32], v[32], inputs[80];
    bytes axis;
    axis.n = 0;
    attribute_integer(&axis, "axis", -1);
    memcpy(x, m->value, sizeof x);
    add_normalisation(m, x);
    memcpy(normal, m->value, sizeof normal);
    add_heads(m, normal, false, q);
    add_heads(m, normal, true, k);
    add_heads(m, normal, false, v);
    snprintf(inputs, sizeof inputs, "%s %s", q, k);
    add(m, "MatMul", inputs, NULL);
    add(m, "Div", "% two", NULL);
    add(m, "Softmax", "%", &axis);
    snprintf(inputs, sizeof inputs, "%% %s", v);
    add(m, "MatMul", inputs, NULL);
    add_transpose(m, 0, 2, 1, 3);
    add(m, "Reshape", "% from_heads", NULL);
    add(m, "MatMul", "% square", NULL);
    snprintf(inputs, sizeof inputs, "%% %s", x);
    add(m, "Add", inputs, NULL);
    memcpy(x, m->value, sizeof x);
    add(m, "MatMul", "% square", NULL);
    add(m, "Relu", "%", NULL);
    snprintf(inputs, sizeof inputs, "%% %s", x);
    add(m, "Add", inputs, NULL);
}

static void add_weights(maker *m) {
    enum { WIDTH = 16 };
    static const float zeros[WIDTH * WIDTH];
    static const int64_t square[] = {WIDTH, WIDTH};
    const float two = 2, epsilon = 1e-5f;
    bytes b;
    b.n = 0;
    initializer(&b, "square", 2, square, 1, zeros, sizeof zeros);
    initializer(&b, "scale", 1, square, 1, zeros, WIDTH * sizeof *zeros);
    initializer(&b, "shift", 1, square, 1, zeros, WIDTH * sizeof *zeros);
    initializer(&b, "two", 0, NULL, 1, &two, sizeof two);
    initializer(&b, "epsilon", 0, NULL, 1, &epsilon, sizeof epsilon);
    integers(&b, "to_heads", 4, (int64_t[]){0, 0, 4, 4});
    integers(&b, "from_heads", 3, (int64_t[]){0, 0, WIDTH});
    graph_input(&b, "x", "N 8 16");
    graph_output(&b, m->value);
    flush_bytes(m, &b);
}

static void put_varint_to(FILE *file, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        putc((int)(value & 0x7f) | 0x80, file);
    putc((int)value, file);
}

/* ModelProto: ir_version 1, opset_import 8 { version 2 }, graph 7. */
static char *make_model(void (*add_some)(maker *m), int n_nodes, size_t *n_bytes) {
    char *graph = NULL, *file = NULL;
    size_t graph_bytes = 0;
    maker m = {.graph = open_memstream(&graph, &graph_bytes), .value = "x"};
    FILE *whole = open_memstream(&file, n_bytes);
    if (m.graph == NULL || whole == NULL)
        abort();
    while (m.n_nodes < n_nodes)
        add_some(&m);
    add_weights(&m);
    fclose(m.graph);
    fwrite("\x08\x08\x42\x02\x10\x0d\x3a", 1, 7, whole);
    put_varint_to(whole, graph_bytes);
    fwrite(graph, 1, graph_bytes, whole);
    fclose(whole);
    free(graph);
    return file;
}

static cleave_status measure_made(const char *kind, void (*add_some)(maker *m), int repetitions,
                                  cleave_error *error) {
    static const int n_nodes[] = {2000, 20000};
    for (int i = 0; i < 2; i++) {
        measurement m;
        char what[128];
        size_t n_bytes;
        char *file = make_model(add_some, n_nodes[i], &n_bytes);
        cleave_status status = measure(file, n_bytes, kind, repetitions, &m, error);
        free(file);
        CLEAVE_TRY(status);
        snprintf(what, sizeof what, "importing %s of %d nodes", kind, n_nodes[i]);
        bench_row(what, i == 0 ? "below a second" : "ten times that",
                  "%.1f ms, %d operators, %d nests", 1e3 * cleave_median(m.seconds, repetitions),
                  m.n_operators, m.n_nests);
    }
    return CLEAVE_OK;
}

int main(int argc, char **argv) {
    bench_arguments a = bench_begin(argc, argv);
    int repetitions = (int)bench_take_integer(&a, "REPETITIONS", 1, MOST_REPETITIONS, 5);
    glob_t models;
    bench_end(&a);
    if (glob(CLEAVE_SOURCE_DIR "/configs/models/*.onnx", 0, NULL, &models) != 0)
        bench_refuse(&a, "no models in " CLEAVE_SOURCE_DIR "/configs/models");
    cleave_error error = {""};
    cleave_status status = CLEAVE_OK;
    for (size_t i = 0; i < models.gl_pathc && status == CLEAVE_OK; i++)
        status = measure_file(models.gl_pathv[i], repetitions, &error);
    if (status == CLEAVE_OK)
        status = measure_made("a transformer", add_layer, repetitions, &error);
    if (status == CLEAVE_OK)
        status = measure_made("a chain", add_chain, repetitions, &error);
    if (status != CLEAVE_OK)
        fprintf(stderr, "bench_import: %s\n", error.message);
    globfree(&models);
    return status == CLEAVE_OK ? 0 : 1;
}
