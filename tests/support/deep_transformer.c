/* Nodes are written one after the other into a stream, since a graph of a thousand layers does not
   fit a message of onnx_writer.h.  Names are those of the layer, L0.q, so that a file of more
   layers begins and ends like one of fewer. */
#include "deep_transformer.h"

#include "onnx_writer.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct maker {
    const deep_transformer *shape;
    FILE *nodes, *inputs;
    char prefix[16], last[32]; /* of names; the last value */
} maker;

static void flush_bytes(FILE *file, const bytes *b) { fwrite(b->data, 1, b->n, file); }

/* A node that writes PREFIX.NAME; '%' in the inputs is the last value, '.' begins a name of the
   prefix. */
static const char *add(maker *m, const char *type, const char *name, const char *inputs,
                       const bytes *attributes) {
    char words[160] = "", result[32];
    bytes b;
    b.n = 0;
    for (const char *c = inputs; *c != '\0'; c++) {
        size_t used = strlen(words);
        bool begins = c == inputs || c[-1] == ' ';
        if (*c == '%')
            snprintf(words + used, sizeof words - used, "%s", m->last);
        else if (*c == '.' && begins)
            snprintf(words + used, sizeof words - used, "%s.", m->prefix);
        else
            snprintf(words + used, sizeof words - used, "%c", *c);
    }
    snprintf(result, sizeof result, "%s.%s", m->prefix, name);
    node(&b, type, result, words, result, attributes);
    memcpy(m->last, result, sizeof result);
    flush_bytes(m->nodes, &b);
    return m->last;
}

static void add_weight(maker *m, const char *name, int rows, int columns) {
    char full[48], shape[32] = "";
    bytes b;
    b.n = 0;
    snprintf(full, sizeof full, "%s.%s", m->prefix, name);
    if (rows > 0)
        snprintf(shape, sizeof shape, "%d %d", rows, columns);
    else
        snprintf(shape, sizeof shape, "%d", columns);
    graph_input(&b, full, shape);
    flush_bytes(m->inputs, &b);
}

/* PREFIX.NAME: a product of a value with a weight of its own, PREFIX.NAME_w. */
static void add_dense(maker *m, const char *from, const char *name, int rows, int columns) {
    char weight[32], inputs[80];
    snprintf(weight, sizeof weight, "%s_w", name);
    add_weight(m, weight, rows, columns);
    snprintf(inputs, sizeof inputs, "%s .%s", from, weight);
    add(m, "MatMul", name, inputs, NULL);
}

static void add_transposed(maker *m, const char *name, int64_t c, int64_t d) {
    bytes attributes;
    attributes.n = 0;
    attribute_integers(&attributes, "perm", 4, (int64_t[]){0, 2, c, d});
    add(m, "Transpose", name, "%", &attributes);
}

/* [N, T, width] to [N, heads, T, width / heads]; of keys the last two swapped. */
static void add_heads(maker *m, const char *from, const char *name) {
    char reshaped[32], transposed[32];
    bool keys = strcmp(name, "k") == 0;
    add_dense(m, from, name, m->shape->width, m->shape->width);
    snprintf(reshaped, sizeof reshaped, "%s_r", name);
    add(m, "Reshape", reshaped, "% to_heads", NULL);
    snprintf(transposed, sizeof transposed, "%s_t", name);
    add_transposed(m, transposed, keys ? 3 : 1, keys ? 1 : 3);
}

static void add_normalisation(maker *m, const char *name, const char *from) {
    char scale[32], shift[32], inputs[100];
    bytes attributes;
    attributes.n = 0;
    attribute_integer(&attributes, "axis", -1);
    snprintf(scale, sizeof scale, "%s_s", name);
    snprintf(shift, sizeof shift, "%s_b", name);
    add_weight(m, scale, 0, m->shape->width);
    add_weight(m, shift, 0, m->shape->width);
    snprintf(inputs, sizeof inputs, "%s .%s .%s", from, scale, shift);
    add(m, "LayerNormalization", name, inputs, &attributes);
}

static void add_layer(maker *m, int layer) {
    char x[32], inputs[100];
    bytes axis;
    axis.n = 0;
    attribute_integer(&axis, "axis", -1);
    memcpy(x, m->last, sizeof x);
    snprintf(m->prefix, sizeof m->prefix, "L%d", layer);
    add_normalisation(m, "n1", x);
    add_heads(m, ".n1", "q");
    add_heads(m, ".n1", "k");
    add_heads(m, ".n1", "v");
    add(m, "MatMul", "scores", ".q_t .k_t", NULL);
    add(m, "Div", "scaled", "% eight", NULL);
    add(m, "Softmax", "weights", "%", &axis);
    add(m, "MatMul", "mixed", "% .v_t", NULL);
    add_transposed(m, "mixed_t", 1, 3);
    add(m, "Reshape", "joined", "% from_heads", NULL);
    add_dense(m, "%", "o", m->shape->width, m->shape->width);
    snprintf(inputs, sizeof inputs, "%% %s", x);
    add(m, "Add", "a", inputs, NULL);
    add_normalisation(m, "n2", ".a");
    add_dense(m, "%", "f", m->shape->width, 4 * m->shape->width);
    add(m, "Relu", "g", "%", NULL);
    add_dense(m, "%", "h", 4 * m->shape->width, m->shape->width);
    add(m, "Add", "b", "% .a", NULL);
}

static void add_ends(maker *m, bytes *b) {
    const deep_transformer *s = m->shape;
    const float eight = 8;
    char shape[40];
    snprintf(m->prefix, sizeof m->prefix, "end");
    add_dense(m, "%", "logits", s->width, s->vocabulary);
    initializer(b, "eight", 0, NULL, 1, &eight, sizeof eight);
    integers(b, "to_heads", 4, (int64_t[]){0, 0, s->heads, s->width / s->heads});
    integers(b, "from_heads", 3, (int64_t[]){0, 0, s->width});
    snprintf(shape, sizeof shape, "N %d %d", s->tokens, s->width);
    graph_input(b, "x", shape);
    graph_output(b, m->last);
}

static void put_varint_to(FILE *file, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        putc((int)(value & 0x7f) | 0x80, file);
    putc((int)value, file);
}

/* ModelProto: ir_version 1, opset_import 8 { version 2 }, graph 7. */
static char *make_file(const deep_transformer *shape, size_t *n_bytes) {
    char *nodes = NULL, *inputs = NULL, *file = NULL;
    size_t node_bytes = 0, input_bytes = 0;
    maker m = {.shape = shape,
               .nodes = open_memstream(&nodes, &node_bytes),
               .inputs = open_memstream(&inputs, &input_bytes),
               .last = "x"};
    FILE *whole = open_memstream(&file, n_bytes);
    bytes ends;
    ends.n = 0;
    if (m.nodes == NULL || m.inputs == NULL || whole == NULL)
        abort();
    for (int layer = 0; layer < shape->layers; layer++)
        add_layer(&m, layer);
    add_ends(&m, &ends);
    fclose(m.nodes);
    fclose(m.inputs);
    fwrite("\x08\x08\x42\x02\x10\x11\x3a", 1, 7, whole);
    put_varint_to(whole, node_bytes + ends.n + input_bytes);
    fwrite(nodes, 1, node_bytes, whole);
    fwrite(ends.data, 1, ends.n, whole);
    fwrite(inputs, 1, input_bytes, whole);
    fclose(whole);
    free(nodes);
    free(inputs);
    return file;
}

cleave_status deep_transformer_import(const deep_transformer *shape, int64_t batch,
                                      cleave_arena *arena, cleave_model *model,
                                      cleave_error *error) {
    size_t n_bytes;
    char *file = make_file(shape, &n_bytes);
    cleave_status status = cleave_model_import_as(
        &(cleave_import_request){
            .file = "deep", .data = file, .bytes = n_bytes, .batch = batch, .with_loss = true},
        arena, model, error);
    free(file);
    return status;
}
