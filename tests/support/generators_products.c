/* Products and recurrences. */
#include "generators.h"

#include <string.h>

static void gemm(drawn_model *m, const char *type) {
    int64_t n = draw_between(m, 1, 5), k = draw_between(m, 1, 5), c = draw_between(m, 1, 5);
    bool first = draw_chance(m, 0.4), second = draw_chance(m, 0.4);
    drawn_shape result = shape_of(2, (int64_t[]){n, k});
    const char *a =
        draw_operand(m, shape_of(2, first ? (int64_t[]){c, n} : (int64_t[]){n, c}), DRAWN_ANY);
    const char *b =
        draw_operand(m, shape_of(2, second ? (int64_t[]){k, c} : (int64_t[]){c, k}), DRAWN_ANY);
    const char *bias = m->opset < 11 || draw_chance(m, 0.7)
                           ? draw_operand(m, draw_broadcast(m, result), DRAWN_ANY)
                           : "";
    if (first || draw_chance(m, 0.2))
        set_integer(m, "transA", first);
    if (second || draw_chance(m, 0.2))
        set_integer(m, "transB", second);
    if (draw_chance(m, 0.4))
        set_number(m, "alpha", draw_number(m, 0.3, 1.5));
    if (draw_chance(m, 0.4))
        set_number(m, "beta", draw_number(m, 0.3, 1.5));
    put_output(m, put_node(m, type, "%s %s%s%s", a, b, bias[0] != '\0' ? " " : "", bias));
}

static void matmul(drawn_model *m, const char *type) {
    int64_t n = draw_between(m, 1, 4), k = draw_between(m, 1, 4), c = draw_between(m, 1, 4);
    drawn_shape batch = draw_chance(m, 0.5) ? draw_shape(m, 1, 2) : (drawn_shape){0}, sides[2];
    int64_t rows[2] = {n, c}, columns[2] = {c, k};
    for (int s = 0; s < 2; s++) {
        sides[s] = batch;
        if (batch.rank > 0 && draw_chance(m, 0.5))
            sides[s] = draw_chance(m, 0.4) ? (drawn_shape){0} : draw_broadcast(m, batch);
        bool vector = sides[s].rank == 0 && draw_chance(m, 0.2);
        if (!vector || s == 1)
            sides[s].extent[sides[s].rank++] = rows[s];
        if (!vector || s == 0)
            sides[s].extent[sides[s].rank++] = columns[s];
    }
    const char *a = draw_operand(m, sides[0], DRAWN_ANY), *b = draw_operand(m, sides[1], DRAWN_ANY);
    put_output(m, put_node(m, type, "%s %s", a, b));
}

static void einsum(drawn_model *m, const char *type) {
    static const struct {
        const char *equation, *first, *second;
    } table[] = {{"ij,jk->ik", "ij", "jk"},
                 {"bij,bjk->bik", "bij", "bjk"},
                 {"bhqd,bhkd->bhqk", "bhqd", "bhkd"},
                 {"ij->ji", "ij", ""},
                 {"ij->i", "ij", ""},
                 {"i,j->ij", "i", "j"},
                 {"bij,bij->b", "bij", "bij"},
                 {"ij,kj->ki", "ij", "kj"},
                 {"ij,jk", "ij", "jk"},
                 {"bnd,ndh->bnh", "bnd", "ndh"}};
    int i = (int)draw_between(m, 0, (int64_t)(sizeof table / sizeof *table) - 1);
    int64_t extent['z' + 1];
    const char *words = "";
    for (int letter = 'a'; letter <= 'z'; letter++)
        extent[letter] = draw_between(m, 1, 3);
    for (int s = 0; s < 2; s++) {
        const char *letters = s == 0 ? table[i].first : table[i].second;
        drawn_shape shape = {.rank = (int)strlen(letters)};
        if (shape.rank == 0)
            continue;
        for (int d = 0; d < shape.rank; d++)
            shape.extent[d] = extent[(int)letters[d]];
        words = cleave_arena_printf(m->arena, "%s%s%s", words, s > 0 ? " " : "",
                                    draw_operand(m, shape, DRAWN_ANY));
    }
    set_text(m, "equation", table[i].equation);
    put_output(m, put_node(m, type, "%s", words));
}

/* ---- recurrences: inputs X W R B sequence_lens initial_h initial_c P ------------------------- */

static void recurrence(drawn_model *m, const char *type) {
    static const char *const directions[] = {"forward", "reverse", "bidirectional"};
    int gates = type[0] == 'L' ? 4 : type[0] == 'G' ? 3 : 1, which = (int)draw_between(m, 0, 2);
    int64_t d = which == 2 ? 2 : 1, t = draw_between(m, 1, 3), n = draw_between(m, 1, 3),
            c = draw_between(m, 1, 3), h = draw_between(m, 1, 3), g = gates * h;
    drawn_shape state = shape_of(3, (int64_t[]){d, n, h});
    const char *x = draw_operand(m, shape_of(3, (int64_t[]){t, n, c}), DRAWN_ANY);
    const char *w = draw_operand(m, shape_of(3, (int64_t[]){d, g, c}), DRAWN_ANY);
    const char *r = draw_operand(m, shape_of(3, (int64_t[]){d, g, h}), DRAWN_ANY);
    const char *b =
        draw_chance(m, 0.7) ? draw_operand(m, shape_of(2, (int64_t[]){d, 2 * g}), DRAWN_ANY) : "-";
    const char *initial = draw_chance(m, 0.6) ? draw_operand(m, state, DRAWN_ANY) : "-";
    const char *words = cleave_arena_printf(m->arena, "%s %s %s %s - %s", x, w, r, b, initial);
    if (gates == 4 && draw_chance(m, 0.6))
        words = cleave_arena_printf(m->arena, "%s %s", words, draw_operand(m, state, DRAWN_ANY));
    set_integer(m, "hidden_size", h);
    if (which > 0 || draw_chance(m, 0.3))
        set_text(m, "direction", directions[which]);
    if (gates == 3)
        set_integer(m, "linear_before_reset", draw_between(m, 0, 1));
    if (gates == 1 && draw_chance(m, 0.3))
        set_texts(m, "activations", d == 2 ? "Relu Relu" : "Relu");
    const char *outputs[3] = {NULL};
    int n_outputs = gates == 4 ? 3 : 2, first = (int)draw_between(m, 0, n_outputs - 1);
    for (int i = 0; i < n_outputs; i++)
        if (i == first || draw_chance(m, 0.6))
            outputs[i] = cleave_arena_printf(m->arena, "y%d", ++m->n_names);
    put_node_outputs(m, type, words, n_outputs, outputs);
    for (int i = 0; i < n_outputs; i++)
        if (outputs[i] != NULL)
            put_output(m, outputs[i]);
}

const generator product_generators[] = {{"Einsum", 12, einsum, true},
                                        {"GRU", 7, recurrence, true},
                                        {"Gemm", 7, gemm, true},
                                        {"LSTM", 7, recurrence, true},
                                        {"MatMul", 7, matmul, true},
                                        {"RNN", 7, recurrence, true},
                                        {0}};
