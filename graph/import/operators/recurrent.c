/* LSTM, GRU and RNN.

   One product gives what the inputs of all steps add to all gates: [t, n, gate, k].  Then comes an
   operator for each step, a cell, named NAME@t=7 (cells.c).  Both see the weights with the
   gates as a dimension of their own, so that a split of the hidden units k takes its share of every
   gate.  The outputs are views of the cells' states. */
#include "graph/import/operators/recurrent.h"
#include "graph/import/draft_views.h"

#include <string.h>

typedef struct recurrent_row {
    const char *type, *cell_type;
    int n_gates, n_activations;
    const char *activations[CLEAVE_MAX_ACTIVATIONS];
    cleave_status (*add_cell)(cleave_importer *im, cleave_cells *cells);
} recurrent_row;

static const recurrent_row rows[] = {
    {"LSTM", "LSTM cell", 4, 3, {"Sigmoid", "Tanh", "Tanh"}, cleave_import_lstm_cell},
    {"GRU", "GRU cell", 3, 2, {"Sigmoid", "Tanh"}, cleave_import_gru_cell},
    {"RNN", "RNN cell", 1, 1, {"Tanh"}, cleave_import_rnn_cell}};

/* ---- attributes and inputs ------------------------------------------------------------------- */

typedef enum direction { FORWARD, REVERSE, BIDIRECTIONAL } direction;

static cleave_status read_direction(cleave_importer *im, direction *which) {
    static const char *const names[] = {"forward", "reverse", "bidirectional"};
    const char *name;
    CLEAVE_TRY(cleave_import_string(im, "direction", "forward", &name));
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            *which = (direction)i;
            return CLEAVE_OK;
        }
    return cleave_import_fail(
        im, "attribute direction is %.64s, supported are forward, reverse and bidirectional", name);
}

static cleave_status refuse_attributes(cleave_importer *im) {
    int64_t couples;
    CLEAVE_TRY(cleave_import_integer(im, "input_forget", 0, &couples));
    if (couples != 0)
        return cleave_import_fail(im, "attribute input_forget is %lld, supported is 0",
                                  (long long)couples);
    if (cleave_import_attribute(im, "clip") != NULL)
        return cleave_import_fail(im, "attribute clip is not supported");
    return CLEAVE_OK;
}

/* Input i, a weight of this shape in the file; -1 where the node lacks it. */
static cleave_status weight(cleave_importer *im, int i, int rank, const int64_t *shape,
                            int32_t *tensor) {
    *tensor = -1;
    if (!cleave_import_has_input(im, i))
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_import_tensor(im, i, tensor));
    const cleave_tensor *from = &im->tensors.items[*tensor].tensor;
    if (from->type == CLEAVE_F32 && cleave_has_shape(from, rank, shape))
        return CLEAVE_OK;
    return cleave_import_fail(im, "input %s is not f32 of shape %lld x %lld%s%.0lld",
                              im->node->inputs[i], (long long)shape[0], (long long)shape[1],
                              rank > 2 ? " x " : "", rank > 2 ? (long long)shape[2] : 0);
}

static cleave_status read_peepholes(cleave_importer *im, cleave_recurrence *r) {
    const int64_t shape[] = {r->n_directions, 3, r->hidden};
    static const int order[] = {0, 1, 2};
    CLEAVE_TRY(weight(im, 7, 2, (int64_t[]){r->n_directions, 3 * r->hidden}, &r->peepholes));
    if (r->peepholes < 0)
        return CLEAVE_OK;
    cleave_import_initialise(im, r->peepholes, r->hidden, 0);
    return cleave_import_refine(im, 7, 3, shape, order, &r->peepholes);
}

static cleave_status read_weights(cleave_importer *im, cleave_recurrence *r, bool has_peepholes) {
    int64_t d = r->n_directions, all = r->n_gates * r->hidden;
    const int64_t of_inputs[] = {d, all, r->features}, of_state[] = {d, all, r->hidden};
    const int64_t *shapes[] = {of_inputs, of_state, (int64_t[]){d, 2 * all}};
    int32_t tensor;
    for (int i = 0; i < 3; i++) {
        CLEAVE_TRY(weight(im, 1 + i, i < 2 ? 3 : 2, shapes[i], &tensor));
        if (tensor >= 0)
            cleave_import_initialise(im, tensor, r->hidden, 0);
    }
    CLEAVE_TRY(cleave_import_gates(im, r));
    r->peepholes = -1;
    return has_peepholes ? read_peepholes(im, r) : CLEAVE_OK;
}

static bool is_zero(const cleave_onnx_tensor *constant) {
    for (int64_t i = 0; constant->floats != NULL && i < constant->n; i++)
        if (constant->floats[i] < 0 || constant->floats[i] > 0)
            return false;
    return constant->floats != NULL;
}

/* An initial state; -1 where it is zero. */
static cleave_status read_state(cleave_importer *im, const cleave_recurrence *r, int i,
                                int32_t *tensor) {
    int64_t shape[3] = {r->n_directions, r->batch, r->hidden};
    *tensor = -1;
    if (r->batch_first) {
        shape[0] = r->batch;
        shape[1] = r->n_directions;
    }
    if (cleave_import_has_input(im, i) &&
        cleave_import_input(im, i)->state == CLEAVE_VALUE_CONSTANT &&
        is_zero(cleave_import_constant(im, i)))
        return CLEAVE_OK;
    return weight(im, i, 3, shape, tensor);
}

/* Sequences of full length only. */
static cleave_status check_lengths(cleave_importer *im, const cleave_recurrence *r) {
    if (!cleave_import_has_input(im, 4))
        return CLEAVE_OK;
    const cleave_onnx_tensor *lengths = cleave_import_constant(im, 4);
    bool full = lengths != NULL && lengths->integers != NULL && lengths->n == r->batch;
    for (int64_t i = 0; full && i < lengths->n; i++)
        full = lengths->integers[i] == r->steps;
    return full ? CLEAVE_OK
                : cleave_import_fail(im,
                                     "sequence_lens (input %s) is supported where it is constant "
                                     "and all its %lld lengths are %lld",
                                     im->node->inputs[4], (long long)r->batch, (long long)r->steps);
}

static cleave_status read_node(cleave_importer *im, const recurrent_row *row, cleave_recurrence *r,
                               direction *which) {
    int64_t layout, before_reset, hidden;
    int32_t recurrent;
    bool is_lstm = row->n_gates == 4;
    CLEAVE_TRY(refuse_attributes(im));
    CLEAVE_TRY(read_direction(im, which));
    CLEAVE_TRY(cleave_import_integer(im, "layout", 0, &layout));
    CLEAVE_TRY(cleave_import_integer(im, "linear_before_reset", 0, &before_reset));
    CLEAVE_TRY(cleave_import_tensor(im, 0, &r->inputs));
    CLEAVE_TRY(cleave_import_tensor(im, 2, &recurrent));
    const cleave_tensor *x = &im->tensors.items[r->inputs].tensor;
    const cleave_tensor *weights = &im->tensors.items[recurrent].tensor;
    if (x->rank != 3 || x->type != CLEAVE_F32 || weights->rank != 3)
        return cleave_import_fail(im, "inputs %s and %s have ranks %d and %d, 3 is needed",
                                  im->node->inputs[0], im->node->inputs[2], x->rank, weights->rank);
    r->n_gates = row->n_gates;
    r->n_activations = row->n_activations;
    r->n_directions = *which == BIDIRECTIONAL ? 2 : 1;
    r->batch_first = layout != 0;
    r->linear_before_reset = before_reset != 0;
    r->steps = x->shape[r->batch_first ? 1 : 0];
    r->batch = x->shape[r->batch_first ? 0 : 1];
    r->features = x->shape[2];
    if (r->steps > CLEAVE_MAX_VIEW_LEAVES / r->n_directions)
        return cleave_import_fail(im, "has %lld steps, at most %lld are supported",
                                  (long long)r->steps,
                                  (long long)(CLEAVE_MAX_VIEW_LEAVES / r->n_directions));
    CLEAVE_TRY(cleave_import_integer(im, "hidden_size", weights->shape[2], &hidden));
    if (hidden != weights->shape[2])
        return cleave_import_fail(im, "attribute hidden_size is %lld, but input %s has %lld",
                                  (long long)hidden, im->node->inputs[2],
                                  (long long)weights->shape[2]);
    r->hidden = hidden;
    CLEAVE_TRY(read_weights(im, r, is_lstm));
    CLEAVE_TRY(check_lengths(im, r));
    CLEAVE_TRY(read_state(im, r, 5, &r->initial_h));
    r->initial_c = -1;
    if (is_lstm)
        CLEAVE_TRY(read_state(im, r, 6, &r->initial_c));
    return cleave_import_activations(im, r, row->activations);
}

/* ---- the product of all inputs --------------------------------------------------------------- */

/* Adds the biases; those of the hidden state only where they add to the same sum. */
static cleave_status add_biases(cleave_importer *im, const cleave_cells *cells, int32_t op) {
    int n_biases = cells->of->linear_before_reset ? 1 : 2;
    int32_t tail;
    const cleave_gates *biases = cells->of->gates[cells->direction];
    if (biases[CLEAVE_BIAS_OF_INPUTS].tensor < 0)
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_import_tail(im, op, n_biases, n_biases, &tail));
    cleave_nest *nest = &im->nests.items[tail].nest;
    for (int i = 0; i < n_biases; i++) {
        const cleave_gates *bias = &biases[CLEAVE_BIAS_OF_INPUTS + i];
        int input = cleave_nest_add_input(nest, bias->tensor), value = cleave_nest_value(nest);
        cleave_map_offset(&nest->inputs[input], 0, bias->place);
        cleave_map_axis(&nest->inputs[input], 1, 2);
        cleave_map_axis(&nest->inputs[input], 2, 3);
        cleave_nest_emit(nest, CLEAVE_OP_ADD, value, input, 0, 0);
    }
    return CLEAVE_OK;
}

static cleave_status add_inputs(cleave_importer *im, cleave_cells *cells, const char *suffix) {
    enum { T, N, K, C };
    const cleave_recurrence *r = cells->of;
    static const char *const names[] = {"t", "n", "gate", "k"};
    int64_t shape[4] = {r->steps, r->batch, r->n_gates, r->hidden};
    int32_t op;
    CLEAVE_TRY(cleave_import_new_operator(im, true, &op));
    im->operators.items[op].suffix = suffix;
    CLEAVE_TRY(cleave_import_new_tensor(im, (cleave_new_tensor){NULL, op, ".inputs", 4, shape, -1},
                                        &cells->inputs));
    memcpy(im->tensors.items[cells->inputs].axes, names, sizeof names);
    cleave_import_add_axis(im, op, "t", r->steps, false);
    cleave_import_add_axis(im, op, "n", r->batch, false);
    cleave_import_add_axis(im, op, "k", r->hidden, false);
    cleave_import_add_axis(im, op, "c", r->features, false);
    cleave_nest nest = {.kind = CLEAVE_NEST_PRODUCT, .op = op, .combiner = CLEAVE_COMBINE_SUM};
    nest.output.tensor = cells->inputs;
    cleave_nest_take_axes(&nest, &im->operators.items[op]);
    int gate = cleave_nest_add_axis(&nest, "gate", r->n_gates, true, -1);
    const int output[] = {T, N, gate, K};
    int x = cleave_nest_add_input(&nest, r->inputs);
    const cleave_gates *of = &r->gates[cells->direction][CLEAVE_WEIGHT_OF_INPUTS];
    int weights = cleave_nest_add_input(&nest, of->tensor);
    cleave_map_offset(&nest.inputs[weights], 0, of->place);
    const int of_weights[] = {gate, K, C};
    const int of_x[] = {r->batch_first ? N : T, r->batch_first ? T : N, C};
    for (int d = 0; d < 4; d++)
        cleave_map_axis(&nest.output, d, output[d]);
    for (int d = 0; d < 3; d++) {
        cleave_map_axis(&nest.inputs[x], d, of_x[d]);
        cleave_map_axis(&nest.inputs[weights], 1 + d, of_weights[d]);
    }
    cleave_nest_emit(&nest, CLEAVE_OP_MUL, x, weights, 0, 0);
    CLEAVE_TRY(cleave_import_add_nest(im, &nest, "", &im->operators.items[op].main_nest));
    im->operators.items[op].output = cells->inputs;
    CLEAVE_TRY(add_biases(im, cells, op));
    im->operators.items[op].output = -1; /* takes no further tail */
    return CLEAVE_OK;
}

/* ---- steps and outputs ----------------------------------------------------------------------- */

/* The states of both directions that the outputs are made of. */
typedef struct recurrent_states {
    int32_t *h[2];     /* [steps], in the order of time */
    int32_t last_h[2]; /* of the last step that was taken */
    int32_t last_c[2];
} recurrent_states;

static cleave_status run_direction(cleave_importer *im, const recurrent_row *row,
                                   const cleave_recurrence *r, int at, bool reverse,
                                   recurrent_states *states) {
    cleave_cells cells = {
        .of = r, .direction = at, .h = {r->initial_h, true}, .c = {r->initial_c, true}};
    /* In a node of both directions the second one needs another name. */
    const char *prefix = at > 0 ? "/reverse" : "";
    CLEAVE_TRY(add_inputs(im, &cells, prefix));
    states->h[at] = CLEAVE_ARENA_ARRAY(&im->scratch, int32_t, r->steps);
    if (states->h[at] == NULL)
        return cleave_import_no_memory(im);
    for (int64_t i = 0; i < r->steps; i++) {
        cells.t = reverse ? r->steps - 1 - i : i;
        const char *suffix =
            cleave_arena_printf(im->arena, "%s@t=%lld", prefix, (long long)cells.t);
        if (suffix == NULL)
            return cleave_import_no_memory(im);
        CLEAVE_TRY(cleave_import_new_operator(im, true, &cells.op));
        im->operators.items[cells.op].suffix = suffix;
        im->operators.items[cells.op].type = row->cell_type;
        CLEAVE_TRY(row->add_cell(im, &cells));
        states->h[at][cells.t] = cells.h.tensor;
    }
    states->last_h[at] = cells.h.tensor;
    states->last_c[at] = cells.c.tensor;
    return CLEAVE_OK;
}

/* States [n, h], each reshaped to `shape`, one after the other along `axis`. */
static cleave_status join(cleave_importer *im, const char *name, int32_t n, const int32_t *states,
                          int rank, const int64_t *shape, int axis, int32_t *result) {
    int32_t *parts = CLEAVE_ARENA_ARRAY(&im->scratch, int32_t, n);
    const char *part_name = cleave_arena_printf(im->arena, "%s.part", name);
    if (parts == NULL || part_name == NULL)
        return cleave_import_no_memory(im);
    for (int32_t i = 0; i < n; i++)
        CLEAVE_TRY(cleave_import_reshape(im, part_name, states[i], rank, shape, &parts[i]));
    return cleave_import_join(im, name, n, parts, axis, result);
}

/* Y [t, d, n, h]; [n, t, d, h] where the batch comes first. */
static cleave_status make_sequence(cleave_importer *im, const cleave_recurrence *r,
                                   const recurrent_states *states) {
    int32_t sides[2], result;
    const char *name = im->node->outputs[0], *side_name = name;
    int64_t shape[4] = {1, 1, r->batch, r->hidden};
    int time = 0, side = 1;
    if (r->batch_first) {
        shape[0] = r->batch;
        shape[2] = 1;
        time = 1;
        side = 2;
    }
    if (r->n_directions > 1)
        side_name = cleave_arena_printf(im->arena, "%s.direction", name);
    if (side_name == NULL)
        return cleave_import_no_memory(im);
    for (int i = 0; i < r->n_directions; i++)
        CLEAVE_TRY(join(im, side_name, (int32_t)r->steps, states->h[i], 4, shape, time, &sides[i]));
    shape[time] = r->steps;
    CLEAVE_TRY(join(im, name, (int32_t)r->n_directions, sides, 4, shape, side, &result));
    cleave_import_set_output(im, 0, result, false);
    return CLEAVE_OK;
}

/* Y_h and Y_c [d, n, h]; [n, d, h] where the batch comes first. */
static cleave_status make_last(cleave_importer *im, const cleave_recurrence *r, int output,
                               const int32_t *states) {
    int64_t shape[3] = {1, r->batch, r->hidden};
    int side = r->batch_first ? 1 : 0;
    int32_t result;
    if (r->batch_first) {
        shape[0] = r->batch;
        shape[1] = 1;
    }
    CLEAVE_TRY(join(im, im->node->outputs[output], (int32_t)r->n_directions, states, 3, shape, side,
                    &result));
    cleave_import_set_output(im, output, result, false);
    return CLEAVE_OK;
}

cleave_status cleave_import_recurrent(cleave_importer *im) {
    cleave_recurrence r = {0};
    recurrent_states states = {{0}, {0}, {0}};
    direction which = {0};
    const recurrent_row *row = rows;
    while (strcmp(row->type, im->node->type) != 0)
        row++;
    CLEAVE_TRY(read_node(im, row, &r, &which));
    for (int i = 0; i < r.n_directions; i++)
        CLEAVE_TRY(run_direction(im, row, &r, i, i > 0 || which == REVERSE, &states));
    if (cleave_import_uses_output(im, 0))
        CLEAVE_TRY(make_sequence(im, &r, &states));
    if (cleave_import_uses_output(im, 1))
        CLEAVE_TRY(make_last(im, &r, 1, states.last_h));
    if (row->n_gates == 4 && cleave_import_uses_output(im, 2))
        CLEAVE_TRY(make_last(im, &r, 2, states.last_c));
    return CLEAVE_OK;
}
