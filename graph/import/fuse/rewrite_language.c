/* Rows of the fusing table that came with language models, whose operators the exporters spell out
   in several ways:

     RMSNormalization      x / sqrt(mean(x^2) + epsilon) x scale, the scale perhaps 1 + weight
     RotaryEmbedding       x cos + concat(-right, left) sin, both cut from x; perhaps with a rest of
                           the dimensions behind it
     Softmax               where what comes out is no number, 0: rows that are masked whole

   The last two have no node of ONNX's own. */
#include "graph/import/fuse/match.h"

#include <string.h>

/* Models with one of these rows have this version. */
static void note_version(cleave_importer *im) {
    cleave_import_note_version(im, CLEAVE_LANGUAGE_GRAPH_VERSION);
}

/* ---- norms by the mean square ---------------------------------------------------------------- */

typedef struct rms {
    const char *x, *scale;
    int n_axes; /* the last ones */
    double epsilon;
} rms;

/* What a value is 1 / sqrt of; or null. */
static const char *take_inverse_root(cleave_match *m, const char *name) {
    const cleave_onnx_node *node = cleave_match_maker(m, name);
    if (cleave_match_is_type(node, "Pow", 2))
        return cleave_match_take(m, node) && cleave_match_is_number(m, node->inputs[1], -0.5)
                   ? node->inputs[0]
                   : NULL;
    const char *root = cleave_match_is_type(node, "Reciprocal", 1) ? node->inputs[0] : NULL;
    if (cleave_match_is_type(node, "Div", 2) && cleave_match_is_number(m, node->inputs[0], 1))
        root = node->inputs[1];
    if (root == NULL || !cleave_match_take(m, node))
        return NULL;
    node = cleave_match_take_maker(m, root, "Sqrt", 1);
    return node != NULL ? node->inputs[0] : NULL;
}

/* mean(x^2) + epsilon */
static bool is_mean_square(cleave_match *m, const char *name, rms *r) {
    const cleave_onnx_node *sum = cleave_match_take_maker(m, name, "Add", 2);
    const char *squares = NULL;
    for (int i = 0; sum != NULL && i < 2 && squares == NULL; i++)
        if (cleave_match_number(m, sum->inputs[i], &r->epsilon))
            squares = cleave_match_take_mean(m, sum->inputs[1 - i], &r->n_axes);
    return squares != NULL && cleave_match_is_power(m, squares, 1, r->x, 2);
}

/* x / sqrt(mean(x^2) + epsilon) */
static bool is_unit(cleave_match *m, const char *name, rms *r) {
    name = cleave_match_through_cast(m, name);
    const cleave_onnx_node *node = cleave_match_maker(m, name);
    if (cleave_match_is_type(node, "Div", 2)) {
        const cleave_onnx_node *root = cleave_match_take(m, node)
                                           ? cleave_match_take_maker(m, node->inputs[1], "Sqrt", 1)
                                           : NULL;
        r->x = node->inputs[0];
        return root != NULL && is_mean_square(m, root->inputs[0], r);
    }
    if (!cleave_match_is_type(node, "Mul", 2) || !cleave_match_take(m, node))
        return false;
    cleave_match before = *m;
    for (int i = 0; i < 2; i++) {
        *m = before;
        r->x = node->inputs[i];
        const char *square = take_inverse_root(m, node->inputs[1 - i]);
        if (square != NULL && is_mean_square(m, square, r))
            return true;
    }
    return false;
}

/* A weight, or 1 + a weight, which stays a node of its own that the norm reads through. */
static bool is_scale(const cleave_match *m, const char *name, int n_axes) {
    cleave_match apart = *m;
    const char *weight = cleave_match_take_addend(&apart, name, 1);
    return cleave_match_is_weight(m, weight != NULL ? weight : name, n_axes);
}

static cleave_status rewrite_rms(cleave_match *m, const cleave_onnx_node *last, bool *replaced) {
    rms r = {.n_axes = 0};
    for (int i = 0; cleave_match_is_type(last, "Mul", 2) && i < 2; i++) {
        m->n = r.n_axes = 0;
        r.scale = last->inputs[i];
        if (!cleave_match_take(m, last) || !is_unit(m, last->inputs[1 - i], &r) ||
            !is_scale(m, r.scale, r.n_axes) || !cleave_match_is_closed(m))
            continue;
        const cleave_onnx_attribute attributes[] = {
            {.name = "axis", .kind = CLEAVE_ONNX_ATTRIBUTE_INTEGER, .integer = -r.n_axes},
            {.name = "epsilon", .kind = CLEAVE_ONNX_ATTRIBUTE_FLOAT, .number = (float)r.epsilon}};
        note_version(m->im);
        *replaced = true;
        return cleave_match_replace(m, "RMSNormalization", 2, (const char *[]){r.x, r.scale}, 2,
                                    attributes);
    }
    return CLEAVE_OK;
}

/* ---- rotary positions ------------------------------------------------------------------------ */

typedef struct turn {
    const char *x, *cosines, *sines, *right, *left;
} turn;

/* The last dimension, of [batch, heads, length, size] where it counts from the front. */
static bool joins_last(const cleave_onnx_node *concat) {
    const cleave_onnx_attribute *axis = cleave_match_attribute(concat, "axis");
    return concat->n_inputs == 2 && axis != NULL && (axis->integer == -1 || axis->integer == 3);
}

/* concat(-right, left) sin */
static bool is_across(cleave_match *m, const cleave_onnx_node *product, turn *t) {
    for (int i = 0; i < 2; i++) {
        cleave_match before = *m;
        const cleave_onnx_node *concat =
            cleave_match_take_maker(m, product->inputs[i], "Concat", 2);
        const cleave_onnx_node *negative =
            concat != NULL ? cleave_match_take_maker(m, concat->inputs[0], "Neg", 1) : NULL;
        if (negative != NULL && joins_last(concat)) {
            t->right = negative->inputs[0];
            t->left = concat->inputs[1];
            t->sines = product->inputs[1 - i];
            return true;
        }
        *m = before;
    }
    return false;
}

static bool is_turn(cleave_match *m, const char *name, turn *t) {
    const cleave_onnx_node *sum = cleave_match_take_maker(m, name, "Add", 2);
    for (int i = 0; sum != NULL && i < 2; i++) {
        cleave_match before = *m;
        const cleave_onnx_node *straight = cleave_match_take_maker(m, sum->inputs[i], "Mul", 2);
        const cleave_onnx_node *across = cleave_match_take_maker(m, sum->inputs[1 - i], "Mul", 2);
        if (straight != NULL && across != NULL && is_across(m, across, t)) {
            const cleave_onnx_node *half = cleave_match_maker(m, t->left);
            if (cleave_match_is_type(half, "SequenceAt", 2))
                half = cleave_match_maker(m, half->inputs[0]);
            bool is_cut = cleave_match_is_type(half, "Slice", 1) ||
                          cleave_match_is_type(half, "Split", 1) ||
                          cleave_match_is_type(half, "SplitToSequence", 1);
            t->x = is_cut ? half->inputs[0] : "";
            t->cosines = cleave_match_other_input(straight, t->x);
            if (t->cosines != NULL)
                return true;
        }
        *m = before;
    }
    return false;
}

static cleave_status rewrite_turn(cleave_match *m, const cleave_onnx_node *last, bool *replaced) {
    turn t;
    const char *name = last->outputs[0], *rest = NULL;
    m->n = 0;
    if (cleave_match_is_type(last, "Concat", 2) && joins_last(last)) {
        cleave_match_take(m, last);
        name = last->inputs[0];
        rest = last->inputs[1];
    } else if (!cleave_match_is_type(last, "Add", 2)) {
        return CLEAVE_OK;
    }
    if (!is_turn(m, name, &t) || !cleave_match_is_closed(m))
        return CLEAVE_OK;
    note_version(m->im);
    *replaced = true;
    return cleave_match_replace_fused(
        m, "RotaryEmbedding", rest != NULL ? 6 : 5,
        (const char *[]){t.x, t.cosines, t.sines, t.right, t.left, rest});
}

/* ---- rows without a number ------------------------------------------------------------------- */

static cleave_status rewrite_guard(cleave_match *m, const cleave_onnx_node *last, bool *replaced) {
    m->n = 0;
    if (!cleave_match_is_type(last, "Where", 3) || !cleave_match_take(m, last))
        return CLEAVE_OK;
    const char *rows = last->inputs[2];
    const cleave_onnx_node *test = cleave_match_take_maker(m, last->inputs[0], "IsNaN", 1);
    if (test == NULL || strcmp(test->inputs[0], rows) != 0 ||
        !cleave_match_is_number(m, last->inputs[1], 0) ||
        !cleave_match_is_type(cleave_match_maker(m, rows), "Softmax", 1) ||
        !cleave_match_is_closed(m))
        return CLEAVE_OK;
    note_version(m->im);
    *replaced = true;
    return cleave_match_replace_fused(m, "Softmax", 1, &rows);
}

cleave_status cleave_rewrite_language(cleave_match *m, const cleave_onnx_node *last,
                                      bool *replaced) {
    static cleave_status (*const rows[])(cleave_match * m, const cleave_onnx_node *last,
                                         bool *replaced) = {rewrite_rms, rewrite_turn,
                                                            rewrite_guard};
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !*replaced; i++)
        CLEAVE_TRY(rows[i](m, last, replaced));
    return CLEAVE_OK;
}
