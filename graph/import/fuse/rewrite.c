/* The fusing table: ONNX nodes that spell out an operator are replaced by one node of that
   operator, before the graph is imported.

   A pattern is matched from its last node back.  The new node stands where the last one stood and
   has its name.  Values that the pattern computes on the way and something else reads, or that are
   outputs of the graph, prevent the replacing.  The table belongs to CLEAVE_GRAPH_VERSION:
   operators, and so layouts, depend on it.  A model has the version that its newest row has, so
   that layouts of other models stay valid when rows are added.

     LayerNormalization    (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) x scale [+ bias]
     Gelu                  0.5 x (1 + erf(x / sqrt(2)))
     Gelu, tanh            0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
     Swish                 x sigmoid(alpha x)
     HardSwish             x hardsigmoid(x), x clip(x + 3, 0, 6) / 6
     Mish                  x tanh(softplus(x))
     RMSNormalization      x / sqrt(mean(x^2) + epsilon) x scale

   Rows of language models are in rewrite_language.c.

   Products may have their factors in any order and grouping. */
#include "graph/import/fuse/match.h"

#include <math.h>
#include <string.h>

/* ---- gates: x times a function of x ---------------------------------------------------------- */

typedef struct gate {
    const char *type, *approximate; /* the operator that x times the gate is; "": no attribute */
    double alpha;                   /* of Swish */
} gate;

static bool is_erf(cleave_match *m, const char *name, const char *x) {
    const cleave_onnx_node *node = cleave_match_take_maker(m, name, "Erf", 1);
    return node != NULL && cleave_match_is_power(m, node->inputs[0], sqrt(0.5), x, 1);
}

/* sqrt(2 / pi) (x + 0.044715 x^3), or sqrt(2 / pi) x (1 + 0.044715 x^2) */
static bool is_tanh(cleave_match *m, const char *name, const char *x) {
    const double cubic = 0.044715;
    const cleave_onnx_node *node = cleave_match_take_maker(m, name, "Tanh", 1);
    cleave_factors f;
    if (node == NULL || !cleave_match_take_factors(m, node->inputs[0], &f) ||
        !cleave_match_is_near(f.scale, sqrt(2 / M_PI)))
        return false;
    if (f.n == 1) {
        const cleave_onnx_node *sum = cleave_match_take_maker(m, f.names[0], "Add", 2);
        const char *other = sum != NULL ? cleave_match_other_input(sum, x) : NULL;
        return other != NULL && cleave_match_is_power(m, other, cubic, x, 3);
    }
    for (int i = 0; f.n == 2 && i < 2; i++) {
        const char *addend =
            strcmp(f.names[i], x) == 0 ? cleave_match_take_addend(m, f.names[1 - i], 1) : NULL;
        if (addend != NULL)
            return cleave_match_is_power(m, addend, cubic, x, 2);
    }
    return false;
}

static bool is_gelu(cleave_match *m, const char *name, const char *x, double scale, gate *g) {
    if (!cleave_match_is_near(scale, 0.5))
        return false;
    const char *bent = cleave_match_take_addend(m, name, 1);
    if (bent == NULL)
        return false;
    cleave_match before = *m;
    *g = (gate){.type = "Gelu", .approximate = "none"};
    if (is_erf(m, bent, x))
        return true;
    *m = before;
    g->approximate = "tanh";
    return is_tanh(m, bent, x);
}

static bool is_swish(cleave_match *m, const char *name, const char *x, double scale, gate *g) {
    const cleave_onnx_node *node = cleave_match_take_maker(m, name, "Sigmoid", 1);
    cleave_factors f;
    if (node == NULL || !cleave_match_is_near(scale, 1) ||
        !cleave_match_take_factors(m, node->inputs[0], &f) || f.n != 1 ||
        strcmp(f.names[0], x) != 0)
        return false;
    *g = (gate){.type = "Swish", .approximate = "", .alpha = f.scale};
    return true;
}

static bool is_hard_swish(cleave_match *m, const char *name, const char *x, double scale, gate *g) {
    const cleave_onnx_node *node = cleave_match_maker(m, name);
    *g = (gate){.type = "HardSwish", .approximate = ""};
    if (cleave_match_is_type(node, "HardSigmoid", 1))
        return cleave_match_take(m, node) && cleave_match_is_near(scale, 1) &&
               strcmp(node->inputs[0], x) == 0 &&
               cleave_match_is_near(cleave_match_parameter(m, node, "alpha", 9, 0.2), 1.0 / 6) &&
               cleave_match_is_near(cleave_match_parameter(m, node, "beta", 9, 0.5), 0.5);
    if (!cleave_match_is_type(node, "Clip", 1) || !cleave_match_take(m, node) ||
        !cleave_match_is_near(scale, 1.0 / 6))
        return false;
    double low = cleave_match_parameter(m, node, "min", 1, (double)NAN),
           high = cleave_match_parameter(m, node, "max", 2, (double)NAN);
    const char *addend = cleave_match_take_addend(m, node->inputs[0], 3);
    return fabs(low) <= 0 && cleave_match_is_near(high, 6) && addend != NULL &&
           strcmp(addend, x) == 0;
}

static bool is_mish(cleave_match *m, const char *name, const char *x, double scale, gate *g) {
    const cleave_onnx_node *node = cleave_match_take_maker(m, name, "Tanh", 1);
    node = node != NULL ? cleave_match_take_maker(m, node->inputs[0], "Softplus", 1) : NULL;
    *g = (gate){.type = "Mish", .approximate = ""};
    return node != NULL && cleave_match_is_near(scale, 1) && strcmp(node->inputs[0], x) == 0;
}

/* Is the value x times a gate? */
static bool match_gate(cleave_match *m, const char *name, const char **x, gate *g) {
    static bool (*const gates[])(cleave_match * m, const char *name, const char *x, double scale,
                                 gate *g) = {is_gelu, is_swish, is_hard_swish, is_mish};
    cleave_factors f;
    if (!cleave_match_take_factors(m, name, &f) || f.n != 2)
        return false;
    cleave_match before = *m;
    for (size_t k = 0; k < sizeof gates / sizeof *gates; k++)
        for (int i = 0; i < 2; i++) {
            *m = before;
            *x = f.names[i];
            if (gates[k](m, f.names[1 - i], *x, f.scale, g))
                return true;
        }
    return false;
}

/* ---- layer normalisation --------------------------------------------------------------------- */

typedef struct layer {
    const char *x, *scale, *bias; /* bias: null where there is none */
    int n_axes;                   /* the last ones */
    double epsilon;
} layer;

/* Is a value x - mean, computed by this node or by another one of the same inputs? */
static bool is_difference(cleave_match *m, const char *name, const cleave_onnx_node *difference) {
    const cleave_onnx_node *node =
        cleave_match_take_maker(m, cleave_match_through_cast(m, name), "Sub", 2);
    return node != NULL && strcmp(node->inputs[0], difference->inputs[0]) == 0 &&
           strcmp(node->inputs[1], difference->inputs[1]) == 0;
}

/* sqrt(mean(difference^2) + epsilon) */
static bool is_deviation(cleave_match *m, const char *name, const cleave_onnx_node *difference,
                         layer *l) {
    const cleave_onnx_node *root = cleave_match_take_maker(m, name, "Sqrt", 1);
    const cleave_onnx_node *sum =
        root != NULL ? cleave_match_take_maker(m, root->inputs[0], "Add", 2) : NULL;
    const char *squares = NULL;
    cleave_factors f;
    for (int i = 0; sum != NULL && i < 2 && squares == NULL; i++)
        if (cleave_match_number(m, sum->inputs[i], &l->epsilon))
            squares = cleave_match_take_mean(m, sum->inputs[1 - i], &l->n_axes);
    return squares != NULL && cleave_match_take_factors(m, squares, &f) && f.n == 2 &&
           cleave_match_is_near(f.scale, 1) && is_difference(m, f.names[0], difference) &&
           is_difference(m, f.names[1], difference);
}

/* (x - mean(x)) / deviation */
static bool is_normal(cleave_match *m, const char *name, layer *l) {
    const cleave_onnx_node *quotient = cleave_match_take_maker(m, name, "Div", 2);
    const cleave_onnx_node *difference =
        quotient != NULL ? cleave_match_take_maker(
                               m, cleave_match_through_cast(m, quotient->inputs[0]), "Sub", 2)
                         : NULL;
    if (difference == NULL)
        return false;
    l->x = difference->inputs[0];
    const char *of = cleave_match_take_mean(m, difference->inputs[1], &l->n_axes);
    return of != NULL && strcmp(of, l->x) == 0 &&
           is_deviation(m, quotient->inputs[1], difference, l);
}

static bool is_scaled(cleave_match *m, const char *name, layer *l) {
    const cleave_onnx_node *product = cleave_match_take_maker(m, name, "Mul", 2);
    cleave_match before = *m;
    for (int i = 0; product != NULL && i < 2; i++) {
        *m = before;
        l->scale = product->inputs[i];
        l->n_axes = 0;
        if (is_normal(m, product->inputs[1 - i], l) &&
            cleave_match_is_weight(m, l->scale, l->n_axes))
            return true;
    }
    return false;
}

static bool match_layer(cleave_match *m, const char *name, layer *l) {
    const cleave_onnx_node *sum = cleave_match_maker(m, name);
    l->bias = NULL;
    if (!cleave_match_is_type(sum, "Add", 2))
        return is_scaled(m, name, l);
    for (int i = 0; i < 2; i++) {
        m->n = 0;
        cleave_match_take(m, sum);
        l->bias = sum->inputs[i];
        if (is_scaled(m, sum->inputs[1 - i], l) && cleave_match_is_weight(m, l->bias, l->n_axes))
            return true;
    }
    return false;
}

static cleave_status replace_gate(cleave_match *m, const char *x, const gate *g) {
    cleave_onnx_attribute attribute = {
        .name = "approximate", .kind = CLEAVE_ONNX_ATTRIBUTE_STRING, .string = g->approximate};
    int n_attributes = g->approximate[0] != '\0';
    if (strcmp(g->type, "Swish") == 0) {
        attribute = (cleave_onnx_attribute){
            .name = "alpha", .kind = CLEAVE_ONNX_ATTRIBUTE_FLOAT, .number = (float)g->alpha};
        n_attributes = 1;
    }
    return cleave_match_replace(m, g->type, 1, &x, n_attributes, &attribute);
}

static cleave_status replace_layer(cleave_match *m, const layer *l) {
    const char *inputs[] = {l->x, l->scale, l->bias};
    const cleave_onnx_attribute attributes[] = {
        {.name = "axis", .kind = CLEAVE_ONNX_ATTRIBUTE_INTEGER, .integer = -l->n_axes},
        {.name = "epsilon", .kind = CLEAVE_ONNX_ATTRIBUTE_FLOAT, .number = (float)l->epsilon}};
    return cleave_match_replace(m, "LayerNormalization", l->bias != NULL ? 3 : 2, inputs, 2,
                                attributes);
}

cleave_status cleave_import_rewrite(cleave_importer *im, const int32_t *order, bool *live) {
    for (int32_t i = im->graph.n_nodes - 1; i >= 0; i--) {
        const cleave_onnx_node *node = &im->graph.nodes[order[i]];
        cleave_match m = {.im = im, .live = live};
        const char *x;
        gate g;
        layer l;
        bool may_end = cleave_match_is_type(node, "Mul", 2) ||
                       cleave_match_is_type(node, "Add", 2) || cleave_match_is_type(node, "Div", 2);
        bool replaced = false;
        if (!live[order[i]] || node->n_outputs == 0 ||
            cleave_match_maker(&m, node->outputs[0]) != node)
            continue;
        CLEAVE_TRY(cleave_rewrite_language(&m, node, &replaced));
        if (replaced || !may_end)
            continue;
        m.n = 0;
        if (match_gate(&m, node->outputs[0], &x, &g) && cleave_match_is_closed(&m)) {
            CLEAVE_TRY(replace_gate(&m, x, &g));
            continue;
        }
        m.n = 0;
        if (match_layer(&m, node->outputs[0], &l) && cleave_match_is_closed(&m))
            CLEAVE_TRY(replace_layer(&m, &l));
    }
    return CLEAVE_OK;
}
