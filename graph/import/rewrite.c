/* The fusing table: ONNX nodes that spell out an operator are replaced by one node of that
   operator, before the graph is imported.

   A pattern is matched from its last node back.  The new node stands where the last one stood and
   has its name.  Values that the pattern computes on the way and something else reads, or that are
   outputs of the graph, prevent the replacing.  The table belongs to CLEAVE_GRAPH_VERSION:
   operators, and so layouts, depend on it.

     LayerNormalization    (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) x scale [+ bias]
     Gelu                  0.5 x (1 + erf(x / sqrt(2)))
     Gelu, tanh            0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
     Swish                 x sigmoid(alpha x)
     HardSwish             x hardsigmoid(x), x clip(x + 3, 0, 6) / 6
     Mish                  x tanh(softplus(x))

   Products may have their factors in any order and grouping. */
#include "graph/import/internal.h"

#include <math.h>
#include <string.h>

enum { MOST_NODES = 24, MOST_FACTORS = 3 };

/* The nodes of a pattern as far as it has been matched; the last one of the graph comes first. */
typedef struct match {
    cleave_importer *im;
    bool *live;
    int n;
    int32_t nodes[MOST_NODES];
} match;

/* ---- looking back ---------------------------------------------------------------------------- */

static cleave_value *value_named(const match *m, const char *name) {
    int32_t id = cleave_name_map_find(&m->im->names, name);
    return id >= 0 ? &m->im->values.items[id] : NULL;
}

/* The live node of ONNX's own domain that makes a value, or null. */
static const cleave_onnx_node *maker(const match *m, const char *name) {
    const cleave_value *value = value_named(m, name);
    if (value == NULL || value->producer < 0 || !m->live[value->producer])
        return NULL;
    const cleave_onnx_node *node = &m->im->graph.nodes[value->producer];
    bool standard = node->domain[0] == '\0' || strcmp(node->domain, "ai.onnx") == 0;
    return standard && node->n_outputs > 0 && strcmp(node->outputs[0], name) == 0 ? node : NULL;
}

/* Is it of that type, and has it its first n inputs? */
static bool is_type(const cleave_onnx_node *node, const char *type, int n_inputs) {
    bool is = node != NULL && strcmp(node->type, type) == 0 && node->n_inputs >= n_inputs;
    for (int i = 0; is && i < n_inputs; i++)
        is = node->inputs[i][0] != '\0';
    return is;
}

/* Makes a node part of the match. */
static bool take(match *m, const cleave_onnx_node *node) {
    int32_t id = (int32_t)(node - m->im->graph.nodes);
    for (int i = 0; i < m->n; i++)
        if (m->nodes[i] == id)
            return true;
    if (m->n == MOST_NODES)
        return false;
    m->nodes[m->n++] = id;
    return true;
}

/* The node of that type which makes a value, taken; or null. */
static const cleave_onnx_node *take_maker(match *m, const char *name, const char *type,
                                          int n_inputs) {
    const cleave_onnx_node *node = maker(m, name);
    return is_type(node, type, n_inputs) && take(m, node) ? node : NULL;
}

static const cleave_onnx_attribute *attribute_of(const cleave_onnx_node *node, const char *name) {
    for (int32_t i = 0; i < node->n_attributes; i++)
        if (strcmp(node->attributes[i].name, name) == 0)
            return &node->attributes[i];
    return NULL;
}

/* The constant that a value is, or null. */
static const cleave_onnx_tensor *constant_of(const match *m, const char *name) {
    const cleave_value *value = value_named(m, name);
    if (value == NULL)
        return NULL;
    if (value->state == CLEAVE_VALUE_CONSTANT)
        return &value->constant;
    if (value->initializer != NULL)
        return value->initializer;
    const cleave_onnx_node *node = maker(m, name);
    const cleave_onnx_attribute *attribute =
        is_type(node, "Constant", 0) ? attribute_of(node, "value") : NULL;
    return attribute != NULL ? attribute->tensor : NULL;
}

static bool is_number(const match *m, const char *name, double *number) {
    const cleave_onnx_tensor *constant = constant_of(m, name);
    const cleave_onnx_node *node = maker(m, name);
    const cleave_onnx_attribute *attribute =
        is_type(node, "Constant", 0) ? attribute_of(node, "value_float") : NULL;
    if (attribute != NULL) {
        *number = (double)attribute->number;
        return true;
    }
    if (constant == NULL || constant->n != 1)
        return false;
    *number =
        constant->floats != NULL ? (double)constant->floats[0] : (double)constant->integers[0];
    return true;
}

/* Up to rounding to f32. */
static bool is_near(double a, double b) { return fabs(a - b) <= 1e-6 * fabs(b); }

static bool is_this_number(const match *m, const char *name, double number) {
    double found;
    return is_number(m, name, &found) && is_near(found, number);
}

/* An attribute, or an input where later operator sets have it. */
static double parameter(const match *m, const cleave_onnx_node *node, const char *name, int input,
                        double otherwise) {
    const cleave_onnx_attribute *attribute = attribute_of(node, name);
    const double unknown = (double)NAN;
    double number;
    if (attribute != NULL)
        return (double)attribute->number;
    if (input >= node->n_inputs || node->inputs[input][0] == '\0')
        return otherwise;
    return is_number(m, node->inputs[input], &number) ? number : unknown;
}

/* An operator of two inputs in either order: with which input is `this`, the other one; or null. */
static const char *other_input(const cleave_onnx_node *node, const char *this) {
    if (strcmp(node->inputs[0], this) == 0)
        return node->inputs[1];
    return strcmp(node->inputs[1], this) == 0 ? node->inputs[0] : NULL;
}

/* What is added to a number by the node that makes a value, taken; or null. */
static const char *take_addend(match *m, const char *name, double number) {
    const cleave_onnx_node *node = take_maker(m, name, "Add", 2);
    for (int i = 0; node != NULL && i < 2; i++)
        if (is_this_number(m, node->inputs[i], number))
            return node->inputs[1 - i];
    return NULL;
}

/* ---- products -------------------------------------------------------------------------------- */

typedef struct factors {
    double scale;
    int n;
    const char *names[MOST_FACTORS];
} factors;

static bool add_factor(factors *f, const char *name) {
    if (f->n == MOST_FACTORS)
        return false;
    f->names[f->n++] = name;
    return true;
}

static bool collect_factors(match *m, const char *name, bool outermost, factors *f) {
    const cleave_onnx_node *node = maker(m, name);
    double number;
    if (is_number(m, name, &number)) {
        f->scale *= number;
        return true;
    }
    if (!outermost && value_named(m, name)->n_uses > 1)
        return add_factor(f, name);
    if (is_type(node, "Mul", 2))
        return take(m, node) && collect_factors(m, node->inputs[0], false, f) &&
               collect_factors(m, node->inputs[1], false, f);
    if (is_type(node, "Div", 2) && is_number(m, node->inputs[1], &number) && number != 0) {
        f->scale /= number;
        return take(m, node) && collect_factors(m, node->inputs[0], false, f);
    }
    if (is_type(node, "Pow", 2) && is_number(m, node->inputs[1], &number) &&
        (is_near(number, 2) || is_near(number, 3))) {
        bool added = take(m, node);
        for (int i = 0; added && i < (is_near(number, 2) ? 2 : 3); i++)
            added = add_factor(f, node->inputs[0]);
        return added;
    }
    return add_factor(f, name);
}

/* The factors of a value, all products on the way taken; false where there are too many. */
static bool take_factors(match *m, const char *name, factors *f) {
    *f = (factors){.scale = 1};
    return collect_factors(m, name, true, f);
}

/* Is a value scale x x^n? */
static bool is_power(match *m, const char *name, double scale, const char *x, int n) {
    factors f;
    if (!take_factors(m, name, &f) || f.n != n || !is_near(f.scale, scale))
        return false;
    for (int i = 0; i < n; i++)
        if (strcmp(f.names[i], x) != 0)
            return false;
    return true;
}

/* ---- gates: x times a function of x ---------------------------------------------------------- */

typedef struct gate {
    const char *type, *approximate; /* the operator that x times the gate is; "": no attribute */
    double alpha;                   /* of Swish */
} gate;

static bool is_erf(match *m, const char *name, const char *x) {
    const cleave_onnx_node *node = take_maker(m, name, "Erf", 1);
    return node != NULL && is_power(m, node->inputs[0], sqrt(0.5), x, 1);
}

/* sqrt(2 / pi) (x + 0.044715 x^3), or sqrt(2 / pi) x (1 + 0.044715 x^2) */
static bool is_tanh(match *m, const char *name, const char *x) {
    const double cubic = 0.044715;
    const cleave_onnx_node *node = take_maker(m, name, "Tanh", 1);
    factors f;
    if (node == NULL || !take_factors(m, node->inputs[0], &f) || !is_near(f.scale, sqrt(2 / M_PI)))
        return false;
    if (f.n == 1) {
        const cleave_onnx_node *sum = take_maker(m, f.names[0], "Add", 2);
        const char *other = sum != NULL ? other_input(sum, x) : NULL;
        return other != NULL && is_power(m, other, cubic, x, 3);
    }
    for (int i = 0; f.n == 2 && i < 2; i++) {
        const char *addend = strcmp(f.names[i], x) == 0 ? take_addend(m, f.names[1 - i], 1) : NULL;
        if (addend != NULL)
            return is_power(m, addend, cubic, x, 2);
    }
    return false;
}

static bool is_gelu(match *m, const char *name, const char *x, double scale, gate *g) {
    if (!is_near(scale, 0.5))
        return false;
    const char *bent = take_addend(m, name, 1);
    if (bent == NULL)
        return false;
    match before = *m;
    *g = (gate){.type = "Gelu", .approximate = "none"};
    if (is_erf(m, bent, x))
        return true;
    *m = before;
    g->approximate = "tanh";
    return is_tanh(m, bent, x);
}

static bool is_swish(match *m, const char *name, const char *x, double scale, gate *g) {
    const cleave_onnx_node *node = take_maker(m, name, "Sigmoid", 1);
    factors f;
    if (node == NULL || !is_near(scale, 1) || !take_factors(m, node->inputs[0], &f) || f.n != 1 ||
        strcmp(f.names[0], x) != 0)
        return false;
    *g = (gate){.type = "Swish", .approximate = "", .alpha = f.scale};
    return true;
}

static bool is_hard_swish(match *m, const char *name, const char *x, double scale, gate *g) {
    const cleave_onnx_node *node = maker(m, name);
    *g = (gate){.type = "HardSwish", .approximate = ""};
    if (is_type(node, "HardSigmoid", 1))
        return take(m, node) && is_near(scale, 1) && strcmp(node->inputs[0], x) == 0 &&
               is_near(parameter(m, node, "alpha", 9, 0.2), 1.0 / 6) &&
               is_near(parameter(m, node, "beta", 9, 0.5), 0.5);
    if (!is_type(node, "Clip", 1) || !take(m, node) || !is_near(scale, 1.0 / 6))
        return false;
    double low = parameter(m, node, "min", 1, (double)NAN),
           high = parameter(m, node, "max", 2, (double)NAN);
    const char *addend = take_addend(m, node->inputs[0], 3);
    return fabs(low) <= 0 && is_near(high, 6) && addend != NULL && strcmp(addend, x) == 0;
}

static bool is_mish(match *m, const char *name, const char *x, double scale, gate *g) {
    const cleave_onnx_node *node = take_maker(m, name, "Tanh", 1);
    node = node != NULL ? take_maker(m, node->inputs[0], "Softplus", 1) : NULL;
    *g = (gate){.type = "Mish", .approximate = ""};
    return node != NULL && is_near(scale, 1) && strcmp(node->inputs[0], x) == 0;
}

/* Is the value x times a gate? */
static bool match_gate(match *m, const char *name, const char **x, gate *g) {
    static bool (*const gates[])(match * m, const char *name, const char *x, double scale,
                                 gate *g) = {is_gelu, is_swish, is_hard_swish, is_mish};
    factors f;
    if (!take_factors(m, name, &f) || f.n != 2)
        return false;
    match before = *m;
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

/* Is it the mean over the last n dimensions (any number of them where *n is 0, which is set), kept
   with extent 1?  Returns what it is the mean of, or null. */
static const char *take_mean(match *m, const char *name, int *n) {
    const cleave_onnx_node *node = take_maker(m, name, "ReduceMean", 1);
    if (node == NULL)
        return NULL;
    const cleave_onnx_attribute *axes = attribute_of(node, "axes"),
                                *keep = attribute_of(node, "keepdims");
    const cleave_onnx_tensor *input = node->n_inputs > 1 ? constant_of(m, node->inputs[1]) : NULL;
    const int64_t *list = axes != NULL ? axes->integers : input != NULL ? input->integers : NULL;
    int64_t length = axes != NULL ? axes->n : input != NULL ? input->n : 0;
    if (list == NULL || length < 1 || length > CLEAVE_MAX_RANK || (*n > 0 && length != *n) ||
        (keep != NULL && keep->integer != 1))
        return NULL;
    unsigned seen = 0;
    for (int64_t i = 0; i < length; i++)
        if (list[i] < 0 && list[i] >= -length)
            seen |= 1u << -list[i];
    *n = (int)length;
    return seen == (1u << (length + 1)) - 2u ? node->inputs[0] : NULL;
}

static const char *through_cast(match *m, const char *name) {
    const cleave_onnx_node *node = maker(m, name);
    if (!is_type(node, "Cast", 1))
        return name;
    const cleave_onnx_attribute *to = attribute_of(node, "to");
    bool to_float = to != NULL && to->integer == CLEAVE_ONNX_FLOAT;
    return to_float && take(m, node) ? node->inputs[0] : name;
}

/* Is a value x - mean, computed by this node or by another one of the same inputs? */
static bool is_difference(match *m, const char *name, const cleave_onnx_node *difference) {
    const cleave_onnx_node *node = take_maker(m, through_cast(m, name), "Sub", 2);
    return node != NULL && strcmp(node->inputs[0], difference->inputs[0]) == 0 &&
           strcmp(node->inputs[1], difference->inputs[1]) == 0;
}

/* sqrt(mean(difference^2) + epsilon) */
static bool is_deviation(match *m, const char *name, const cleave_onnx_node *difference, layer *l) {
    const cleave_onnx_node *root = take_maker(m, name, "Sqrt", 1);
    const cleave_onnx_node *sum = root != NULL ? take_maker(m, root->inputs[0], "Add", 2) : NULL;
    const char *squares = NULL;
    factors f;
    for (int i = 0; sum != NULL && i < 2 && squares == NULL; i++)
        if (is_number(m, sum->inputs[i], &l->epsilon))
            squares = take_mean(m, sum->inputs[1 - i], &l->n_axes);
    return squares != NULL && take_factors(m, squares, &f) && f.n == 2 && is_near(f.scale, 1) &&
           is_difference(m, f.names[0], difference) && is_difference(m, f.names[1], difference);
}

/* (x - mean(x)) / deviation */
static bool is_normal(match *m, const char *name, layer *l) {
    const cleave_onnx_node *quotient = take_maker(m, name, "Div", 2);
    const cleave_onnx_node *difference =
        quotient != NULL ? take_maker(m, through_cast(m, quotient->inputs[0]), "Sub", 2) : NULL;
    if (difference == NULL)
        return false;
    l->x = difference->inputs[0];
    const char *of = take_mean(m, difference->inputs[1], &l->n_axes);
    return of != NULL && strcmp(of, l->x) == 0 &&
           is_deviation(m, quotient->inputs[1], difference, l);
}

/* Something of the file that has as many dimensions as are normalised. */
static bool is_weight(const match *m, const char *name, int rank) {
    const cleave_onnx_node *node = maker(m, name);
    const cleave_value *value =
        value_named(m, is_type(node, "Identity", 1) ? node->inputs[0] : name);
    if (value == NULL || value->state != CLEAVE_VALUE_SOURCE)
        return false;
    return (value->initializer != NULL ? value->initializer->rank : value->input->rank) == rank;
}

static bool is_scaled(match *m, const char *name, layer *l) {
    const cleave_onnx_node *product = take_maker(m, name, "Mul", 2);
    match before = *m;
    for (int i = 0; product != NULL && i < 2; i++) {
        *m = before;
        l->scale = product->inputs[i];
        l->n_axes = 0;
        if (is_normal(m, product->inputs[1 - i], l) && is_weight(m, l->scale, l->n_axes))
            return true;
    }
    return false;
}

static bool match_layer(match *m, const char *name, layer *l) {
    const cleave_onnx_node *sum = maker(m, name);
    l->bias = NULL;
    if (!is_type(sum, "Add", 2))
        return is_scaled(m, name, l);
    for (int i = 0; i < 2; i++) {
        m->n = 0;
        take(m, sum);
        l->bias = sum->inputs[i];
        if (is_scaled(m, sum->inputs[1 - i], l) && is_weight(m, l->bias, l->n_axes))
            return true;
    }
    return false;
}

/* ---- replacing ------------------------------------------------------------------------------- */

/* Does only the match read what its nodes but the last one make? */
static bool is_closed(const match *m) {
    for (int i = 1; i < m->n; i++) {
        const cleave_onnx_node *node = &m->im->graph.nodes[m->nodes[i]];
        for (int32_t k = 0; k < node->n_outputs; k++) {
            const cleave_value *value = value_named(m, node->outputs[k]);
            int32_t inside = 0;
            for (int j = 0; value != NULL && j < m->n; j++) {
                const cleave_onnx_node *reader = &m->im->graph.nodes[m->nodes[j]];
                for (int32_t r = 0; r < reader->n_inputs; r++)
                    inside += strcmp(reader->inputs[r], node->outputs[k]) == 0;
            }
            if (value != NULL && value->n_uses != inside)
                return false;
        }
    }
    return true;
}

/* Puts a node of this type in the place of a match. */
static cleave_status replace(match *m, const char *type, int n_inputs, const char *const *inputs,
                             int n_attributes, const cleave_onnx_attribute *attributes) {
    cleave_onnx_node *last = &m->im->graph.nodes[m->nodes[0]];
    const char **names = CLEAVE_ARENA_ARRAY(m->im->arena, const char *, n_inputs);
    cleave_onnx_attribute *copies =
        CLEAVE_ARENA_ARRAY(m->im->arena, cleave_onnx_attribute, n_attributes);
    if (names == NULL || copies == NULL)
        return cleave_import_no_memory(m->im);
    for (int i = 0; i < m->n; i++) {
        const cleave_onnx_node *node = &m->im->graph.nodes[m->nodes[i]];
        m->live[m->nodes[i]] = i == 0;
        for (int32_t k = 0; k < node->n_inputs; k++)
            if (node->inputs[k][0] != '\0')
                value_named(m, node->inputs[k])->n_uses--;
    }
    for (int i = 0; i < n_inputs; i++) {
        names[i] = inputs[i];
        value_named(m, inputs[i])->n_uses++;
    }
    for (int i = 0; i < n_attributes; i++)
        copies[i] = attributes[i];
    last->type = type;
    last->n_inputs = n_inputs;
    last->inputs = names;
    last->n_attributes = n_attributes;
    last->attributes = copies;
    return CLEAVE_OK;
}

static cleave_status replace_gate(match *m, const char *x, const gate *g) {
    cleave_onnx_attribute attribute = {
        .name = "approximate", .kind = CLEAVE_ONNX_ATTRIBUTE_STRING, .string = g->approximate};
    int n_attributes = g->approximate[0] != '\0';
    if (strcmp(g->type, "Swish") == 0) {
        attribute = (cleave_onnx_attribute){
            .name = "alpha", .kind = CLEAVE_ONNX_ATTRIBUTE_FLOAT, .number = (float)g->alpha};
        n_attributes = 1;
    }
    return replace(m, g->type, 1, &x, n_attributes, &attribute);
}

static cleave_status replace_layer(match *m, const layer *l) {
    const char *inputs[] = {l->x, l->scale, l->bias};
    const cleave_onnx_attribute attributes[] = {
        {.name = "axis", .kind = CLEAVE_ONNX_ATTRIBUTE_INTEGER, .integer = -l->n_axes},
        {.name = "epsilon", .kind = CLEAVE_ONNX_ATTRIBUTE_FLOAT, .number = (float)l->epsilon}};
    return replace(m, "LayerNormalization", l->bias != NULL ? 3 : 2, inputs, 2, attributes);
}

cleave_status cleave_import_rewrite(cleave_importer *im, const int32_t *order, bool *live) {
    for (int32_t i = im->graph.n_nodes - 1; i >= 0; i--) {
        const cleave_onnx_node *node = &im->graph.nodes[order[i]];
        match m = {.im = im, .live = live};
        const char *x;
        gate g;
        layer l;
        bool may_end =
            is_type(node, "Mul", 2) || is_type(node, "Add", 2) || is_type(node, "Div", 2);
        if (!live[order[i]] || !may_end || maker(&m, node->outputs[0]) != node)
            continue;
        if (match_gate(&m, node->outputs[0], &x, &g) && is_closed(&m)) {
            CLEAVE_TRY(replace_gate(&m, x, &g));
            continue;
        }
        m.n = 0;
        if (match_layer(&m, node->outputs[0], &l) && is_closed(&m))
            CLEAVE_TRY(replace_layer(&m, &l));
    }
    return CLEAVE_OK;
}
