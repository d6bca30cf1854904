#include "graph/import/fuse/match.h"

#include <math.h>
#include <string.h>

/* ---- looking back ---------------------------------------------------------------------------- */

static cleave_value *value_of(const cleave_match *m, const char *name) {
    int32_t id = cleave_name_map_find(&m->im->names, name);
    return id >= 0 ? &m->im->values.items[id] : NULL;
}

/* The live node of ONNX's own domain that makes a value, or null. */
const cleave_onnx_node *cleave_match_maker(const cleave_match *m, const char *name) {
    const cleave_value *value = value_of(m, name);
    if (value == NULL || value->producer < 0 || !m->live[value->producer])
        return NULL;
    const cleave_onnx_node *node = &m->im->graph.nodes[value->producer];
    bool standard = node->domain[0] == '\0' || strcmp(node->domain, "ai.onnx") == 0;
    return standard && node->n_outputs > 0 && strcmp(node->outputs[0], name) == 0 ? node : NULL;
}

/* Is it of that type, and has it its first n inputs? */
bool cleave_match_is_type(const cleave_onnx_node *node, const char *type, int n_inputs) {
    bool is = node != NULL && strcmp(node->type, type) == 0 && node->n_inputs >= n_inputs;
    for (int i = 0; is && i < n_inputs; i++)
        is = node->inputs[i][0] != '\0';
    return is;
}

/* Makes a node part of the match. */
bool cleave_match_take(cleave_match *m, const cleave_onnx_node *node) {
    int32_t id = (int32_t)(node - m->im->graph.nodes);
    for (int i = 0; i < m->n; i++)
        if (m->nodes[i] == id)
            return true;
    if (m->n == CLEAVE_MOST_MATCHED)
        return false;
    m->nodes[m->n++] = id;
    return true;
}

/* The node of that type which makes a value, taken; or null. */
const cleave_onnx_node *cleave_match_take_maker(cleave_match *m, const char *name, const char *type,
                                                int n_inputs) {
    const cleave_onnx_node *node = cleave_match_maker(m, name);
    return cleave_match_is_type(node, type, n_inputs) && cleave_match_take(m, node) ? node : NULL;
}

const cleave_onnx_attribute *cleave_match_attribute(const cleave_onnx_node *node,
                                                    const char *name) {
    for (int32_t i = 0; i < node->n_attributes; i++)
        if (strcmp(node->attributes[i].name, name) == 0)
            return &node->attributes[i];
    return NULL;
}

/* The constant that a value is, or null. */
static const cleave_onnx_tensor *constant_of(const cleave_match *m, const char *name) {
    const cleave_value *value = value_of(m, name);
    if (value == NULL)
        return NULL;
    if (value->state == CLEAVE_VALUE_CONSTANT)
        return &value->constant;
    if (value->initializer != NULL)
        return value->initializer;
    const cleave_onnx_node *node = cleave_match_maker(m, name);
    const cleave_onnx_attribute *attribute =
        cleave_match_is_type(node, "Constant", 0) ? cleave_match_attribute(node, "value") : NULL;
    return attribute != NULL ? attribute->tensor : NULL;
}

bool cleave_match_number(const cleave_match *m, const char *name, double *number) {
    const cleave_onnx_tensor *constant = constant_of(m, name);
    const cleave_onnx_node *node = cleave_match_maker(m, name);
    const cleave_onnx_attribute *attribute = cleave_match_is_type(node, "Constant", 0)
                                                 ? cleave_match_attribute(node, "value_float")
                                                 : NULL;
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
bool cleave_match_is_near(double a, double b) { return fabs(a - b) <= 1e-6 * fabs(b); }

bool cleave_match_is_number(const cleave_match *m, const char *name, double number) {
    double found;
    return cleave_match_number(m, name, &found) && cleave_match_is_near(found, number);
}

/* An attribute, or an input where later operator sets have it. */
double cleave_match_parameter(const cleave_match *m, const cleave_onnx_node *node, const char *name,
                              int input, double otherwise) {
    const cleave_onnx_attribute *attribute = cleave_match_attribute(node, name);
    const double unknown = (double)NAN;
    double number;
    if (attribute != NULL)
        return (double)attribute->number;
    if (input >= node->n_inputs || node->inputs[input][0] == '\0')
        return otherwise;
    return cleave_match_number(m, node->inputs[input], &number) ? number : unknown;
}

/* An operator of two inputs in either order: with which input is `this`, the other one; or null. */
const char *cleave_match_other_input(const cleave_onnx_node *node, const char *this) {
    if (strcmp(node->inputs[0], this) == 0)
        return node->inputs[1];
    return strcmp(node->inputs[1], this) == 0 ? node->inputs[0] : NULL;
}

/* What is added to a number by the node that makes a value, taken; or null. */
const char *cleave_match_take_addend(cleave_match *m, const char *name, double number) {
    const cleave_onnx_node *node = cleave_match_take_maker(m, name, "Add", 2);
    for (int i = 0; node != NULL && i < 2; i++)
        if (cleave_match_is_number(m, node->inputs[i], number))
            return node->inputs[1 - i];
    return NULL;
}

/* ---- products -------------------------------------------------------------------------------- */

static bool add_factor(cleave_factors *f, const char *name) {
    if (f->n == CLEAVE_MOST_FACTORS)
        return false;
    f->names[f->n++] = name;
    return true;
}

static bool collect_factors(cleave_match *m, const char *name, bool outermost, cleave_factors *f) {
    const cleave_onnx_node *node = cleave_match_maker(m, name);
    double number;
    if (cleave_match_number(m, name, &number)) {
        f->scale *= number;
        return true;
    }
    if (!outermost && value_of(m, name)->n_uses > 1)
        return add_factor(f, name);
    if (cleave_match_is_type(node, "Mul", 2))
        return cleave_match_take(m, node) && collect_factors(m, node->inputs[0], false, f) &&
               collect_factors(m, node->inputs[1], false, f);
    if (cleave_match_is_type(node, "Div", 2) && cleave_match_number(m, node->inputs[1], &number) &&
        number != 0) {
        f->scale /= number;
        return cleave_match_take(m, node) && collect_factors(m, node->inputs[0], false, f);
    }
    if (cleave_match_is_type(node, "Pow", 2) && cleave_match_number(m, node->inputs[1], &number) &&
        (cleave_match_is_near(number, 2) || cleave_match_is_near(number, 3))) {
        bool added = cleave_match_take(m, node);
        for (int i = 0; added && i < (cleave_match_is_near(number, 2) ? 2 : 3); i++)
            added = add_factor(f, node->inputs[0]);
        return added;
    }
    return add_factor(f, name);
}

/* The factors of a value, all products on the way taken; false where there are too many. */
bool cleave_match_take_factors(cleave_match *m, const char *name, cleave_factors *f) {
    *f = (cleave_factors){.scale = 1};
    return collect_factors(m, name, true, f);
}

/* Is a value scale x x^n? */
bool cleave_match_is_power(cleave_match *m, const char *name, double scale, const char *x, int n) {
    cleave_factors f;
    if (!cleave_match_take_factors(m, name, &f) || f.n != n ||
        !cleave_match_is_near(f.scale, scale))
        return false;
    for (int i = 0; i < n; i++)
        if (strcmp(f.names[i], x) != 0)
            return false;
    return true;
}

/* Is it the mean over the last n dimensions (any number of them where *n is 0, which is set), kept
   with extent 1?  Returns what it is the mean of, or null. */
const char *cleave_match_take_mean(cleave_match *m, const char *name, int *n) {
    const cleave_onnx_node *node = cleave_match_take_maker(m, name, "ReduceMean", 1);
    if (node == NULL)
        return NULL;
    const cleave_onnx_attribute *axes = cleave_match_attribute(node, "axes"),
                                *keep = cleave_match_attribute(node, "keepdims");
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

const char *cleave_match_through_cast(cleave_match *m, const char *name) {
    const cleave_onnx_node *node = cleave_match_maker(m, name);
    if (!cleave_match_is_type(node, "Cast", 1))
        return name;
    const cleave_onnx_attribute *to = cleave_match_attribute(node, "to");
    bool to_float = to != NULL && to->integer == CLEAVE_ONNX_FLOAT;
    return to_float && cleave_match_take(m, node) ? node->inputs[0] : name;
}

/* Something of the file that has as many dimensions as are normalised. */
bool cleave_match_is_weight(const cleave_match *m, const char *name, int rank) {
    const cleave_onnx_node *node = cleave_match_maker(m, name);
    const cleave_value *value =
        value_of(m, cleave_match_is_type(node, "Identity", 1) ? node->inputs[0] : name);
    if (value == NULL || value->state != CLEAVE_VALUE_SOURCE)
        return false;
    return (value->initializer != NULL ? value->initializer->rank : value->input->rank) == rank;
}

/* ---- replacing ------------------------------------------------------------------------------- */

/* Does only the match read what its nodes but the last one make? */
bool cleave_match_is_closed(const cleave_match *m) {
    for (int i = 1; i < m->n; i++) {
        const cleave_onnx_node *node = &m->im->graph.nodes[m->nodes[i]];
        for (int32_t k = 0; k < node->n_outputs; k++) {
            const cleave_value *value = value_of(m, node->outputs[k]);
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
cleave_status cleave_match_replace(cleave_match *m, const char *type, int n_inputs,
                                   const char *const *inputs, int n_attributes,
                                   const cleave_onnx_attribute *attributes) {
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
                value_of(m, node->inputs[k])->n_uses--;
    }
    for (int i = 0; i < n_inputs; i++) {
        names[i] = inputs[i];
        value_of(m, inputs[i])->n_uses++;
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

const char *const cleave_fused_domain = "cleave.fused";

cleave_status cleave_match_replace_fused(cleave_match *m, const char *type, int n_inputs,
                                         const char *const *inputs) {
    m->im->graph.nodes[m->nodes[0]].domain = cleave_fused_domain;
    return cleave_match_replace(m, type, n_inputs, inputs, 0, NULL);
}
