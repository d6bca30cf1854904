/* Rows of the fusing table that came with language models, whose operators the exporters spell out
   in several ways:

     RMSNormalization      x / sqrt(mean(x^2) + epsilon) x scale, the scale perhaps 1 + weight */
#include "graph/import/match.h"

#include <string.h>

/* Models with one of these rows have this version. */
static void note_version(cleave_importer *im) { im->graph_version = CLEAVE_GRAPH_VERSION; }

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

cleave_status cleave_rewrite_language(cleave_match *m, const cleave_onnx_node *last,
                                      bool *replaced) {
    return rewrite_rms(m, last, replaced);
}
