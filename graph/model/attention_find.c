/* Finds whether an operator is attention, by its nests alone, and makes one nest of it. */
#include "graph/model/attention_find.h"

typedef struct maker {
    const cleave_model *model;
    const int32_t *readers; /* [n_tensors] nests, views, outputs that read it */
    const cleave_operator *op;
    cleave_nest *nest; /* under construction */
    cleave_attention *of;
    cleave_nest *members;                      /* [n_members] */
    int (*axis)[CLEAVE_MAX_AXES];              /* [n_members] */
    int (*input)[CLEAVE_MAX_INPUTS];           /* [n_members] */
    int32_t written[CLEAVE_ATTENTION_MEMBERS]; /* output of each member */
} maker;

/* ---- what tapes say -------------------------------------------------------------------------- */

static bool is(const cleave_instruction *it, cleave_opcode opcode, int a, int b) {
    int operands = cleave_opcode_operands(opcode);
    return it->opcode == opcode && (operands < 1 || it->a == a) && (operands < 2 || it->b == b);
}

static bool only_scales(const cleave_instruction *it, int of) {
    return it->opcode == CLEAVE_OP_SCALE && it->a == of && !(it->q < 0 || it->q > 0);
}

/* A product of two, and of a number. */
static bool is_product(const cleave_nest *nest, double *scale) {
    *scale = 1;
    if (nest->kind != CLEAVE_NEST_PRODUCT || nest->combiner != CLEAVE_COMBINE_SUM ||
        nest->n_inputs != 2 || nest->derivation != CLEAVE_DERIVE_OPERATOR ||
        !(is(&nest->tape[0], CLEAVE_OP_MUL, 0, 1) || is(&nest->tape[0], CLEAVE_OP_MUL, 1, 0)))
        return false;
    for (int i = 1; i < nest->n_instructions; i++) {
        if (!only_scales(&nest->tape[i], 1 + i))
            return false;
        *scale *= nest->tape[i].p;
    }
    return true;
}

static bool is_reduction(const cleave_nest *nest, cleave_combiner combiner, int n_inputs) {
    return nest->kind == CLEAVE_NEST_REDUCE && nest->combiner == combiner &&
           nest->n_inputs == n_inputs && nest->derivation == CLEAVE_DERIVE_OPERATOR;
}

static bool is_maximum(const cleave_nest *nest, bool has_sinks) {
    return is_reduction(nest, CLEAVE_COMBINE_MAX, has_sinks ? 2 : 1) && nest->n_instructions == 1 &&
           (has_sinks ? is(&nest->tape[0], CLEAVE_OP_MAX, 0, 1)
                      : is(&nest->tape[0], CLEAVE_OP_COPY, 0, 0));
}

static bool is_sum(const cleave_nest *nest) {
    return is_reduction(nest, CLEAVE_COMBINE_SUM, 2) && nest->n_instructions == 2 &&
           is(&nest->tape[0], CLEAVE_OP_SUB, 0, 1) && is(&nest->tape[1], CLEAVE_OP_EXP, 2, 0);
}

/* Instructions of exp(s - m) / l; with sinks, c, of exp(s - m) / (l + exp(c - m)).  0: others. */
static int count_of_weights(const cleave_nest *nest) {
    const cleave_instruction *tape = nest->tape;
    if (nest->n_inputs == 3 && nest->n_instructions >= 3 && is(&tape[0], CLEAVE_OP_SUB, 0, 1) &&
        is(&tape[1], CLEAVE_OP_EXP, 3, 0) && is(&tape[2], CLEAVE_OP_DIV, 4, 2))
        return 3;
    if (nest->n_inputs == 4 && nest->n_instructions >= 6 && is(&tape[0], CLEAVE_OP_SUB, 0, 1) &&
        is(&tape[1], CLEAVE_OP_EXP, 4, 0) && is(&tape[2], CLEAVE_OP_SUB, 3, 1) &&
        is(&tape[3], CLEAVE_OP_EXP, 6, 0) && is(&tape[4], CLEAVE_OP_ADD, 2, 7) &&
        is(&tape[5], CLEAVE_OP_DIV, 5, 8))
        return 6;
    return 0;
}

/* That, and then what is linear in it, element by element. */
static bool is_weights(const cleave_nest *nest) {
    int n = count_of_weights(nest);
    bool fits =
        nest->kind == CLEAVE_NEST_POINTWISE && nest->derivation == CLEAVE_DERIVE_OPERATOR && n > 0;
    for (int i = n; fits && i < nest->n_instructions; i++) {
        const cleave_instruction *it = &nest->tape[i];
        int before = nest->n_inputs + i - 1;
        fits = only_scales(it, before) || is(it, CLEAVE_OP_COPY, before, 0) ||
               is(it, CLEAVE_OP_DROPOUT, before, 0);
    }
    return fits;
}

/* ---- what maps say --------------------------------------------------------------------------- */

/* Dimension d is axis d of the operator, from the first on. */
static bool is_plain(const cleave_dimension_map *map) {
    return map->n_terms == 0 ? map->offset == 0
                             : map->n_terms == 1 && map->offset == 0 && map->terms[0].stride == 1;
}

/* Do all dimensions follow axes of the operator, or of the member alone, without windows? */
static bool is_plain_operand(const cleave_model *model, const cleave_operand *operand) {
    for (int d = 0; d < model->tensors[operand->tensor].rank; d++)
        if (!is_plain(&operand->map[d]))
            return false;
    return true;
}

/* The axis of the one nest that a member maps dimension d with; -1: none. */
static int axis_at(const maker *m, int member, const cleave_operand *operand, int d) {
    const cleave_dimension_map *map = &operand->map[d];
    return map->n_terms == 0 ? -1 : m->axis[member][map->terms[0].axis];
}

static bool reads_alike(const maker *m, int member, const cleave_operand *operand, int writer) {
    const cleave_operand *output = &m->members[writer].output;
    int rank = m->model->tensors[operand->tensor].rank;
    bool alike = operand->tensor == output->tensor;
    for (int d = 0; alike && d < rank; d++)
        alike = axis_at(m, member, operand, d) == axis_at(m, writer, output, d);
    return alike;
}

static bool maps(const maker *m, int member, const cleave_operand *operand, int axis) {
    for (int d = 0; d < m->model->tensors[operand->tensor].rank; d++)
        if (axis_at(m, member, operand, d) == axis)
            return true;
    return false;
}

/* ---- the pattern ----------------------------------------------------------------------------- */

/* The output of member i is read by so many nests, and by nothing else. */
static bool is_between(const maker *m, int i, int n_readers) {
    const cleave_tensor *tensor = &m->model->tensors[m->written[i]];
    return tensor->type == CLEAVE_F32 && m->readers[m->written[i]] == n_readers;
}

static bool copy_members(maker *m) {
    int n = m->op->n_nests;
    m->of->n_members = n;
    for (int i = 0; i < n; i++) {
        m->members[i] = m->model->nests[m->op->nests[i]];
        m->written[i] = m->members[i].output.tensor;
        if (m->members[i].derivation != CLEAVE_DERIVE_OPERATOR || m->members[i].attention != NULL ||
            !is_plain_operand(m->model, &m->members[i].output))
            return false;
        for (int k = 0; k < m->members[i].n_inputs; k++)
            if (!is_plain_operand(m->model, &m->members[i].inputs[k]))
                return false;
    }
    return true;
}

/* The axes are those of the operator, and the two widths behind them. */
static bool find_axes(maker *m) {
    int n = m->op->n_axes, last = m->of->n_members - 1;
    m->of->width = n;
    m->of->value_width = n + 1;
    if (n + 2 > CLEAVE_MAX_AXES)
        return false;
    for (int i = 0; i < m->of->n_members; i++) {
        int n_own = 0;
        for (int a = 0; a < m->members[i].n_axes; a++) {
            int axis = m->members[i].operator_axis[a];
            n_own += axis < 0;
            m->axis[i][a] = axis >= 0 ? axis : i == 0 ? n : n + 1;
            if (axis < 0)
                m->nest->axes[m->axis[i][a]].extent = m->members[i].axes[a].extent;
        }
        if (n_own != (i == 0 || i == last))
            return false;
    }
    m->nest->n_axes = n + 2;
    for (int a = 0; a < n; a++) {
        m->nest->axes[a] = m->op->axes[a];
        m->nest->operator_axis[a] = a;
    }
    for (int a = n; a < n + 2; a++) {
        m->nest->axes[a].name = a == n ? "width" : "d";
        m->nest->axes[a].whole = true;
        m->nest->operator_axis[a] = -1;
    }
    return true;
}

/* The axis that the maximum is over, of those that the scores have; -1: not one alone. */
static int find_keys(const maker *m, int maximum) {
    int keys = -1;
    for (int a = 0; a < m->members[maximum].n_axes; a++) {
        int axis = m->axis[maximum][a];
        if (maps(m, maximum, &m->members[maximum].output, axis))
            continue;
        if (keys >= 0)
            return -1;
        keys = axis;
    }
    return keys;
}

/* Scores from the product through what is point by point: each reads the one before once. */
static bool find_scores(maker *m) {
    cleave_attention *of = m->of;
    if (of->n_members < 5 || !is_product(&m->members[0], &of->scale))
        return false;
    of->n_pointwise = of->n_members - 5;
    for (int i = 1; i <= of->n_pointwise; i++) {
        int n_read = 0;
        const cleave_nest *nest = &m->members[i];
        for (int k = 0; k < nest->n_inputs; k++) {
            bool before = nest->inputs[k].tensor == m->written[i - 1];
            m->input[i][k] = before ? -1 : 0;
            n_read += before && reads_alike(m, i, &nest->inputs[k], i - 1);
        }
        if (nest->kind != CLEAVE_NEST_POINTWISE || n_read != 1 || !is_between(m, i - 1, 1))
            return false;
    }
    return true;
}

/* Do these inputs of a member read these members' outputs, as they were written? */
static bool reads(maker *m, int member, int n, const int *writers) {
    for (int k = 0; k < n; k++) {
        m->input[member][k] = -1;
        if (!reads_alike(m, member, &m->members[member].inputs[k], writers[k]))
            return false;
    }
    return true;
}

static bool find_softmax(maker *m) {
    cleave_attention *of = m->of;
    int scores = of->n_pointwise;
    of->maximum = scores + 1;
    of->sum = scores + 2;
    of->weights = scores + 3;
    const cleave_nest *members = m->members;
    of->keys = find_keys(m, of->maximum);
    return is_maximum(&members[of->maximum], members[of->weights].n_inputs == 4) &&
           is_sum(&members[of->sum]) && is_weights(&members[of->weights]) && of->keys >= 0 &&
           find_keys(m, of->sum) == of->keys && reads(m, of->maximum, 1, (int[]){scores}) &&
           reads(m, of->sum, 2, (int[]){scores, of->maximum}) &&
           reads(m, of->weights, 3, (int[]){scores, of->maximum, of->sum}) &&
           is_between(m, scores, 3) && is_between(m, of->maximum, 2) && is_between(m, of->sum, 1) &&
           is_between(m, of->weights, 1);
}

/* An operand of a member, by the axes of the one nest. */
static cleave_operand by_its_axes(const maker *m, int member, const cleave_operand *of) {
    cleave_operand made = *of;
    for (int d = 0; d < m->model->tensors[of->tensor].rank; d++)
        for (int t = 0; t < made.map[d].n_terms; t++)
            made.map[d].terms[t].axis = m->axis[member][made.map[d].terms[t].axis];
    return made;
}

/* Adds an input of a member to those of the one nest. */
static bool add_input(maker *m, int member, int k) {
    cleave_nest *nest = m->nest;
    const cleave_nest *of = &m->members[member];
    if (nest->n_inputs == CLEAVE_MAX_INPUTS)
        return false;
    nest->inputs[nest->n_inputs] = by_its_axes(m, member, &of->inputs[k]);
    nest->gradient_inputs |= (of->gradient_inputs >> k & 1) << nest->n_inputs;
    m->input[member][k] = nest->n_inputs++;
    return true;
}

/* The maximum and the weights read one vector of sinks, a number for each of some heads. */
static bool find_sinks(maker *m) {
    cleave_attention *of = m->of;
    const cleave_nest *maximum = &m->members[of->maximum], *weights = &m->members[of->weights];
    of->sinks = -1;
    if (weights->n_inputs < 4)
        return true;
    const cleave_operand *x = &maximum->inputs[1], *y = &weights->inputs[3];
    bool fits = x->tensor == y->tensor && m->model->tensors[x->tensor].type == CLEAVE_F32;
    for (int d = 0; fits && d < m->model->tensors[x->tensor].rank; d++) {
        int axis = axis_at(m, of->maximum, x, d);
        fits = axis == axis_at(m, of->weights, y, d) && axis != of->keys;
    }
    if (!fits || !add_input(m, of->weights, 3))
        return false;
    of->sinks = m->input[of->maximum][1] = m->input[of->weights][3];
    return true;
}

/* Has each index of an axis a sink of its own? */
static bool maps_sinks(const maker *m, int axis) {
    int i = m->of->weights;
    const cleave_nest *weights = &m->members[i];
    return weights->n_inputs > 3 && maps(m, i, &weights->inputs[3], axis);
}

/* Queries and keys; the rows are the longest axis that the scores and the output have, and neither
   keys nor values, nor sinks: along it all are used again. */
static bool find_operands(maker *m) {
    cleave_attention *of = m->of;
    int last = of->n_members - 1;
    double scale;
    const cleave_nest *product = &m->members[0], *values = &m->members[last];
    int key = maps(m, 0, &product->inputs[1], of->keys) ? 1 : 0;
    if (!is_product(values, &scale) || values->n_instructions != 1 ||
        !maps(m, 0, &product->inputs[key], of->keys) ||
        maps(m, 0, &product->inputs[1 - key], of->keys))
        return false;
    int weights = reads_alike(m, last, &values->inputs[0], of->weights) ? 0 : 1;
    if (!reads_alike(m, last, &values->inputs[weights], of->weights) ||
        !maps(m, last, &values->inputs[1 - weights], of->keys) ||
        maps(m, last, &values->output, of->keys) ||
        maps(m, last, &values->inputs[weights], of->value_width) ||
        !maps(m, last, &values->inputs[1 - weights], of->value_width))
        return false;
    m->input[last][weights] = -1;
    of->rows = -1;
    for (int a = 0; a < m->op->n_axes; a++)
        if (a != of->keys && maps(m, 0, &product->inputs[1 - key], a) &&
            maps(m, 0, &product->output, a) && maps(m, last, &values->output, a) &&
            !maps(m, 0, &product->inputs[key], a) && !maps_sinks(m, a) &&
            !maps(m, last, &values->inputs[1 - weights], a) &&
            (of->rows < 0 || m->op->axes[a].extent >= m->op->axes[of->rows].extent))
            of->rows = a;
    if (of->rows < 0 || !add_input(m, 0, 1 - key) || !add_input(m, 0, key) ||
        !add_input(m, last, 1 - weights))
        return false;
    for (int i = 1; i <= of->n_pointwise; i++)
        for (int k = 0; k < m->members[i].n_inputs; k++)
            if (m->input[i][k] >= 0 && !add_input(m, i, k))
                return false;
    if (!find_sinks(m))
        return false;
    m->nest->output = by_its_axes(m, last, &m->members[last].output);
    m->nest->statistics = by_its_axes(m, of->sum, &m->members[of->sum].output);
    return true;
}

/* Every axis but the widths is one of the scores and, but for the keys, of the output. */
static bool covers_axes(const maker *m) {
    for (int a = 0; a < m->op->n_axes; a++)
        if (!maps(m, 0, &m->members[0].output, a) ||
            (a != m->of->keys && m->op->axes[a].extent > 1 &&
             !maps(m, m->of->n_members - 1, &m->members[m->of->n_members - 1].output, a)))
            return false;
    return true;
}

static void set_tail(maker *m) {
    const cleave_nest *weights = &m->members[m->of->weights];
    cleave_nest *tail = &m->of->tail;
    *tail = *weights;
    tail->n_inputs = 1;
    tail->inputs[0] = weights->output;
    tail->n_instructions = 0;
    int n = count_of_weights(weights);
    for (int i = n; i < weights->n_instructions; i++) {
        cleave_instruction it = weights->tape[i];
        it.a = it.b = i - n;
        tail->tape[tail->n_instructions++] = it;
    }
    tail->gradient_inputs = 1;
    tail->kept_inputs = 0;
    tail->kept_output = false;
}

void cleave_attention_keep(cleave_nest *nest) {
    nest->kept_inputs = nest->differentiable ? (UINT32_C(1) << nest->n_inputs) - 1 : 0;
    nest->kept_output = nest->kept_combined = nest->differentiable;
}

static void finish_nest(maker *m) {
    const cleave_nest *values = &m->members[m->of->n_members - 1];
    cleave_nest *nest = m->nest;
    nest->name = values->name;
    nest->kind = CLEAVE_NEST_ATTENTION;
    nest->op = values->op;
    nest->combiner = CLEAVE_COMBINE_SUM;
    nest->tape[0] = (cleave_instruction){.opcode = CLEAVE_OP_COPY};
    nest->n_instructions = 1;
    nest->attention = m->of;
    nest->differentiable = nest->gradient_inputs != 0;
    cleave_attention_keep(nest);
}

static bool find_attention(maker *m) {
    return copy_members(m) && find_axes(m) && find_scores(m) && find_softmax(m) &&
           find_operands(m) && covers_axes(m);
}

bool cleave_attention_find(const cleave_model *model, int32_t op, const int32_t *readers,
                           const cleave_nest *const *before, cleave_nest *nest, bool *found) {
    cleave_arena *arena = model->arena;
    maker m = {.model = model, .readers = readers, .op = &model->operators[op], .nest = nest};
    int n = m.op->n_nests;
    *found = false;
    if (n > CLEAVE_ATTENTION_MEMBERS)
        return true;
    *nest = (cleave_nest){.derivation = CLEAVE_DERIVE_OPERATOR};
    m.of = CLEAVE_ARENA_ARRAY(arena, cleave_attention, 1);
    m.members = CLEAVE_ARENA_ARRAY(arena, cleave_nest, n);
    m.axis = cleave_arena_alloc(arena, (size_t)n, sizeof *m.axis);
    m.input = cleave_arena_alloc(arena, (size_t)n, sizeof *m.input);
    if (m.of == NULL || m.members == NULL || m.axis == NULL || m.input == NULL)
        return false;
    *m.of = (cleave_attention){
        .members = m.members,
        .axis = (const int(*)[CLEAVE_MAX_AXES])m.axis,
        .input = (const int(*)[CLEAVE_MAX_INPUTS])m.input,
    };
    *found = find_attention(&m);
    if (!*found)
        return true;
    set_tail(&m);
    finish_nest(&m);
    return cleave_attention_find_seen(model, nest, op, before, m.of);
}
