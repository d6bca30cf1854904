/* The cells of LSTM, GRU and RNN: what one step computes.

   A cell is one operator over n and k, the hidden units of this step, and c, those of the step
   before, which are summed.  Its product gives z[n, gate, k]; pointwise nests make the states of
   it.  The sum is complete before the gates' non-linearities, in the same part, so c is whole.
   A state that is known to be zero takes its product and its terms with it. */
#include "graph/import/operators/recurrent.h"

/* Gates as ONNX orders them; the weights may have them in another order. */
enum { LSTM_INPUT, LSTM_OUTPUT, LSTM_FORGET, LSTM_CELL };
enum { GRU_UPDATE, GRU_RESET, GRU_HIDDEN };

enum { N, K, C }; /* axes of the operator; of pointwise nests the first two */

static void add_axes(cleave_importer *im, const cleave_cells *cells) {
    cleave_import_add_axis(im, cells->op, "n", cells->of->batch, false);
    cleave_import_add_axis(im, cells->op, "k", cells->of->hidden, false);
    if (cells->h.tensor >= 0)
        cleave_import_add_axis(im, cells->op, "c", cells->of->hidden, true);
}

/* The first nest of an operator is its main one. */
static cleave_status add_nest(cleave_importer *im, const cleave_cells *cells,
                              const cleave_nest *nest, const char *suffix) {
    int32_t *main_nest = &im->operators.items[cells->op].main_nest, id;
    CLEAVE_TRY(cleave_import_add_nest(im, nest, *main_nest < 0 ? "" : suffix, &id));
    if (*main_nest < 0)
        *main_nest = id;
    return CLEAVE_OK;
}

/* The weights' gates from `first_gate` on, in their order, applied to a state: z[n, gate, k]. */
static cleave_status add_product(cleave_importer *im, const cleave_cells *cells,
                                 cleave_cell_state state, int first_gate, int64_t n_gates,
                                 const char *suffix, int32_t *z) {
    const cleave_recurrence *r = cells->of;
    int64_t shape[3] = {r->batch, n_gates, r->hidden};
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){NULL, cells->op, suffix, 3, shape, -1}, z));
    cleave_nest nest = {
        .kind = CLEAVE_NEST_PRODUCT, .op = cells->op, .combiner = CLEAVE_COMBINE_SUM};
    nest.output.tensor = *z;
    cleave_nest_take_axes(&nest, &im->operators.items[cells->op]);
    int gate = cleave_nest_add_axis(&nest, "gate", n_gates, true, -1);
    cleave_map_axis(&nest.output, 0, N);
    cleave_map_axis(&nest.output, 1, gate);
    cleave_map_axis(&nest.output, 2, K);
    int h = cleave_nest_add_input(&nest, state.tensor);
    const cleave_gates *of = &r->gates[cells->direction][CLEAVE_WEIGHT_OF_STATE];
    int weights = cleave_nest_add_input(&nest, of->tensor);
    cleave_operand *of_state = &nest.inputs[h], *of_weights = &nest.inputs[weights];
    cleave_map_axis(of_state, state.initial && !r->batch_first ? 1 : 0, N);
    if (state.initial)
        cleave_map_offset(of_state, r->batch_first ? 1 : 0, cells->direction);
    cleave_map_axis(of_state, state.initial ? 2 : 1, C);
    cleave_map_offset(of_weights, 0, of->place);
    cleave_map_offset(of_weights, 1, first_gate);
    cleave_map_term(of_weights, 1, gate, 1);
    cleave_map_axis(of_weights, 2, K);
    cleave_map_axis(of_weights, 3, C);
    cleave_nest_emit(&nest, CLEAVE_OP_MUL, h, weights, 0, 0);
    return add_nest(im, cells, &nest, suffix);
}

/* ---- pointwise nests ------------------------------------------------------------------------- */

/* Over n and k, into a new tensor [n, k]; its tape is still to be written. */
static cleave_status begin_pointwise(cleave_importer *im, const cleave_cells *cells,
                                     const char *suffix, cleave_nest *nest) {
    const cleave_draft_operator *op = &im->operators.items[cells->op];
    int64_t shape[2] = {cells->of->batch, cells->of->hidden};
    *nest = (cleave_nest){.kind = CLEAVE_NEST_POINTWISE, .op = cells->op};
    for (int a = N; a <= K; a++) {
        cleave_nest_add_axis(nest, op->axes[a].name, op->axes[a].extent, false, a);
        cleave_map_axis(&nest->output, a, a);
    }
    return cleave_import_new_tensor(im, (cleave_new_tensor){NULL, cells->op, suffix, 2, shape, -1},
                                    &nest->output.tensor);
}

static int add_state(cleave_nest *nest, const cleave_cells *cells, cleave_cell_state state) {
    int input = cleave_nest_add_input(nest, state.tensor);
    cleave_operand *operand = &nest->inputs[input];
    if (!state.initial) {
        cleave_map_axis(operand, 0, N);
        cleave_map_axis(operand, 1, K);
        return input;
    }
    cleave_map_axis(operand, cells->of->batch_first ? 0 : 1, N);
    cleave_map_offset(operand, cells->of->batch_first ? 1 : 0, cells->direction);
    cleave_map_axis(operand, 2, K);
    return input;
}

/* Where the weights, and so all products, have one of ONNX's gates. */
static int position(const cleave_cells *cells, int gate) {
    return cells->of->position[cells->direction][gate];
}

/* One gate of z[n, gate, k], by its position. */
static int add_gate(cleave_nest *nest, int32_t z, int gate) {
    int input = cleave_nest_add_input(nest, z);
    cleave_map_axis(&nest->inputs[input], 0, N);
    cleave_map_offset(&nest->inputs[input], 1, gate);
    cleave_map_axis(&nest->inputs[input], 2, K);
    return input;
}

/* One gate of what the inputs of this step give. */
static int add_input_gate(cleave_nest *nest, const cleave_cells *cells, int gate) {
    int input = cleave_nest_add_input(nest, cells->inputs);
    cleave_map_offset(&nest->inputs[input], 0, cells->t);
    cleave_map_axis(&nest->inputs[input], 1, N);
    cleave_map_offset(&nest->inputs[input], 2, position(cells, gate));
    cleave_map_axis(&nest->inputs[input], 3, K);
    return input;
}

/* A gate whose inputs and hidden state have been added up already; where there is no state, of the
   inputs. */
static int add_sum(cleave_nest *nest, const cleave_cells *cells, int32_t sums, int gate) {
    return sums >= 0 ? add_gate(nest, sums, position(cells, gate))
                     : add_input_gate(nest, cells, gate);
}

/* z plus something else, over n, gate and k, into a new tensor: input 0 is z, the rest is still to
   be written. */
static cleave_status begin_gates(cleave_importer *im, const cleave_cells *cells, int32_t z,
                                 const char *suffix, cleave_nest *nest) {
    const cleave_draft_operator *op = &im->operators.items[cells->op];
    cleave_tensor like = im->tensors.items[z].tensor;
    *nest = (cleave_nest){.kind = CLEAVE_NEST_POINTWISE, .op = cells->op};
    cleave_nest_add_axis(nest, op->axes[N].name, like.shape[0], false, N);
    cleave_nest_add_axis(nest, "gate", like.shape[1], true, -1);
    cleave_nest_add_axis(nest, op->axes[K].name, like.shape[2], false, K);
    cleave_nest_add_input(nest, z);
    for (int d = 0; d < 3; d++) {
        cleave_map_axis(&nest->inputs[0], d, d);
        cleave_map_axis(&nest->output, d, d);
    }
    return cleave_import_new_tensor(
        im, (cleave_new_tensor){NULL, cells->op, suffix, 3, like.shape, z}, &nest->output.tensor);
}

/* z plus the inputs of this step, for the gates from 0 on that z has. */
static cleave_status add_sums(cleave_importer *im, const cleave_cells *cells, int32_t z,
                              int32_t *sums) {
    cleave_nest nest;
    CLEAVE_TRY(begin_gates(im, cells, z, ".gates", &nest));
    int inputs = cleave_nest_add_input(&nest, cells->inputs);
    cleave_map_offset(&nest.inputs[inputs], 0, cells->t);
    for (int d = 0; d < 3; d++)
        cleave_map_axis(&nest.inputs[inputs], 1 + d, d);
    cleave_nest_emit(&nest, CLEAVE_OP_ADD, 0, inputs, 0, 0);
    *sums = nest.output.tensor;
    return add_nest(im, cells, &nest, ".gates");
}

static const cleave_activation *activation(const cleave_cells *cells, int i) {
    return &cells->of->activations[cells->direction * cells->of->n_activations + i];
}

static int emit(cleave_nest *nest, cleave_opcode opcode, int a, int b) {
    return cleave_nest_emit(nest, opcode, a, b, 0, 0);
}

/* ---- LSTM ------------------------------------------------------------------------------------ */

/* A peephole looks at a cell state from a gate. */
static int add_peephole(cleave_nest *nest, const cleave_cells *cells, int gate) {
    int input = cleave_nest_add_input(nest, cells->of->peepholes);
    cleave_map_offset(&nest->inputs[input], 0, cells->direction);
    cleave_map_offset(&nest->inputs[input], 1, gate);
    cleave_map_axis(&nest->inputs[input], 2, K);
    return input;
}

/* activation(gate + peephole x state); inputs of -1 are left out. */
static int emit_gate(cleave_nest *nest, const cleave_activation *f, int gate, int peephole,
                     int state) {
    int sum = gate;
    if (peephole >= 0 && state >= 0)
        sum = emit(nest, CLEAVE_OP_ADD, sum, emit(nest, CLEAVE_OP_MUL, peephole, state));
    return cleave_nest_activate(nest, f, sum);
}

/* c = f(forget) c_before + f(input) g(cell) */
static cleave_status add_cell_state(cleave_importer *im, const cleave_cells *cells, int32_t sums,
                                    int32_t *c) {
    cleave_nest nest;
    CLEAVE_TRY(begin_pointwise(im, cells, ".c", &nest));
    bool has_state = cells->c.tensor >= 0, peeps = has_state && cells->of->peepholes >= 0;
    int input = add_sum(&nest, cells, sums, LSTM_INPUT);
    int cell = add_sum(&nest, cells, sums, LSTM_CELL);
    int forget = has_state ? add_sum(&nest, cells, sums, LSTM_FORGET) : -1;
    int before = has_state ? add_state(&nest, cells, cells->c) : -1;
    int input_peephole = peeps ? add_peephole(&nest, cells, LSTM_INPUT) : -1;
    int forget_peephole = peeps ? add_peephole(&nest, cells, LSTM_FORGET) : -1;
    int i = emit_gate(&nest, activation(cells, 0), input, input_peephole, before);
    int g = cleave_nest_activate(&nest, activation(cells, 1), cell);
    int value = emit(&nest, CLEAVE_OP_MUL, i, g);
    if (has_state) {
        int f = emit_gate(&nest, activation(cells, 0), forget, forget_peephole, before);
        emit(&nest, CLEAVE_OP_ADD, value, emit(&nest, CLEAVE_OP_MUL, f, before));
    }
    *c = nest.output.tensor;
    return add_nest(im, cells, &nest, ".c");
}

/* h = f(output) h(c) */
static cleave_status add_hidden_state(cleave_importer *im, const cleave_cells *cells, int32_t sums,
                                      int32_t c, int32_t *h) {
    cleave_nest nest;
    CLEAVE_TRY(begin_pointwise(im, cells, "", &nest));
    int gate = add_sum(&nest, cells, sums, LSTM_OUTPUT);
    int state = add_state(&nest, cells, (cleave_cell_state){c, false});
    int peephole = cells->of->peepholes >= 0 ? add_peephole(&nest, cells, LSTM_OUTPUT) : -1;
    int o = emit_gate(&nest, activation(cells, 0), gate, peephole, state);
    emit(&nest, CLEAVE_OP_MUL, o, cleave_nest_activate(&nest, activation(cells, 2), state));
    *h = nest.output.tensor;
    return add_nest(im, cells, &nest, ".h");
}

cleave_status cleave_import_lstm_cell(cleave_importer *im, cleave_cells *cells) {
    int32_t z, sums = -1, c, h;
    add_axes(im, cells);
    if (cells->h.tensor >= 0) {
        CLEAVE_TRY(add_product(im, cells, cells->h, 0, cells->of->n_gates, ".z", &z));
        CLEAVE_TRY(add_sums(im, cells, z, &sums));
    }
    CLEAVE_TRY(add_cell_state(im, cells, sums, &c));
    CLEAVE_TRY(add_hidden_state(im, cells, sums, c, &h));
    cells->c = (cleave_cell_state){c, false};
    cells->h = (cleave_cell_state){h, false};
    return CLEAVE_OK;
}

/* ---- GRU ------------------------------------------------------------------------------------- */

/* h = (1 - z) candidate + z h_before */
static void emit_update(cleave_nest *nest, int update, int candidate, int before) {
    int rest = cleave_nest_emit(nest, CLEAVE_OP_SCALE, update, 0, -1, 1);
    int value = emit(nest, CLEAVE_OP_MUL, rest, candidate);
    if (before >= 0)
        emit(nest, CLEAVE_OP_ADD, value, emit(nest, CLEAVE_OP_MUL, update, before));
}

/* The reset gate is applied to the hidden state, before its product with the weights:
   candidate = g(inputs + weights (f(reset) h_before)).  Its gate is the last one. */
static cleave_status gru_reset_first(cleave_importer *im, const cleave_cells *cells, int32_t *h) {
    cleave_nest nest;
    int32_t z, sums = -1, candidate = -1;
    bool has_state = cells->h.tensor >= 0;
    if (has_state) {
        CLEAVE_TRY(add_product(im, cells, cells->h, 0, 2, ".z", &z));
        CLEAVE_TRY(add_sums(im, cells, z, &sums));
        CLEAVE_TRY(begin_pointwise(im, cells, ".reset", &nest));
        int gate = add_sum(&nest, cells, sums, GRU_RESET);
        int before = add_state(&nest, cells, cells->h);
        emit(&nest, CLEAVE_OP_MUL, cleave_nest_activate(&nest, activation(cells, 0), gate), before);
        CLEAVE_TRY(add_nest(im, cells, &nest, ".reset"));
        cleave_cell_state reset = {nest.output.tensor, false};
        CLEAVE_TRY(add_product(im, cells, reset, GRU_HIDDEN, 1, ".candidate", &candidate));
    }
    CLEAVE_TRY(begin_pointwise(im, cells, "", &nest));
    int update = add_sum(&nest, cells, sums, GRU_UPDATE);
    int value = add_input_gate(&nest, cells, GRU_HIDDEN);
    int hidden = has_state ? add_gate(&nest, candidate, 0) : -1;
    int before = has_state ? add_state(&nest, cells, cells->h) : -1;
    if (has_state)
        value = emit(&nest, CLEAVE_OP_ADD, value, hidden);
    value = cleave_nest_activate(&nest, activation(cells, 1), value);
    emit_update(&nest, cleave_nest_activate(&nest, activation(cells, 0), update), value, before);
    *h = nest.output.tensor;
    return add_nest(im, cells, &nest, ".h");
}

/* The bias that the product with the hidden state has of its own; -1 for `gate`: all gates, in the
   order of the weights. */
static int add_hidden_bias(cleave_nest *nest, const cleave_cells *cells, int gate, int k) {
    const cleave_gates *bias = &cells->of->gates[cells->direction][CLEAVE_BIAS_OF_STATE];
    int input = cleave_nest_add_input(nest, bias->tensor);
    cleave_map_offset(&nest->inputs[input], 0, bias->place);
    if (gate >= 0)
        cleave_map_offset(&nest->inputs[input], 1, position(cells, gate));
    else
        cleave_map_axis(&nest->inputs[input], 1, 1);
    cleave_map_axis(&nest->inputs[input], 2, k);
    return input;
}

static bool has_hidden_bias(const cleave_cells *cells) {
    return cells->of->gates[cells->direction][CLEAVE_BIAS_OF_STATE].tensor >= 0;
}

/* What the hidden state gives to all gates, biases included. */
static cleave_status add_hidden_part(cleave_importer *im, const cleave_cells *cells,
                                     int32_t *part) {
    int32_t z;
    CLEAVE_TRY(add_product(im, cells, cells->h, 0, cells->of->n_gates, ".z", &z));
    *part = z;
    if (!has_hidden_bias(cells))
        return CLEAVE_OK;
    cleave_nest nest;
    CLEAVE_TRY(begin_gates(im, cells, z, ".biased", &nest));
    cleave_nest_emit(&nest, CLEAVE_OP_ADD, 0, add_hidden_bias(&nest, cells, -1, 2), 0, 0);
    *part = nest.output.tensor;
    return add_nest(im, cells, &nest, ".biased");
}

/* One gate of the hidden part; where there is no state that is the bias; -1: nothing at all. */
static int add_hidden_gate(cleave_nest *nest, const cleave_cells *cells, int32_t part, int gate) {
    if (part >= 0)
        return add_gate(nest, part, position(cells, gate));
    return has_hidden_bias(cells) ? add_hidden_bias(nest, cells, gate, K) : -1;
}

/* The reset gate is applied to the product: candidate = g(inputs + f(reset) (weights h_before)). */
static cleave_status gru_product_first(cleave_importer *im, const cleave_cells *cells, int32_t *h) {
    cleave_nest nest;
    int32_t part = -1;
    int of_inputs[3], of_hidden[3];
    if (cells->h.tensor >= 0)
        CLEAVE_TRY(add_hidden_part(im, cells, &part));
    CLEAVE_TRY(begin_pointwise(im, cells, "", &nest));
    for (int gate = GRU_UPDATE; gate <= GRU_HIDDEN; gate++)
        of_hidden[gate] = add_hidden_gate(&nest, cells, part, gate);
    for (int gate = GRU_UPDATE; gate <= GRU_HIDDEN; gate++)
        of_inputs[gate] =
            gate != GRU_RESET || of_hidden[gate] >= 0 ? add_input_gate(&nest, cells, gate) : -1;
    int before = cells->h.tensor >= 0 ? add_state(&nest, cells, cells->h) : -1;
    int update = of_inputs[GRU_UPDATE], value = of_inputs[GRU_HIDDEN];
    if (of_hidden[GRU_RESET] >= 0) {
        int reset = emit(&nest, CLEAVE_OP_ADD, of_inputs[GRU_RESET], of_hidden[GRU_RESET]);
        reset = cleave_nest_activate(&nest, activation(cells, 0), reset);
        reset = emit(&nest, CLEAVE_OP_MUL, reset, of_hidden[GRU_HIDDEN]);
        value = emit(&nest, CLEAVE_OP_ADD, value, reset);
        update = emit(&nest, CLEAVE_OP_ADD, update, of_hidden[GRU_UPDATE]);
    }
    value = cleave_nest_activate(&nest, activation(cells, 1), value);
    emit_update(&nest, cleave_nest_activate(&nest, activation(cells, 0), update), value, before);
    *h = nest.output.tensor;
    return add_nest(im, cells, &nest, ".h");
}

cleave_status cleave_import_gru_cell(cleave_importer *im, cleave_cells *cells) {
    int32_t h;
    add_axes(im, cells);
    if (cells->of->linear_before_reset)
        CLEAVE_TRY(gru_product_first(im, cells, &h));
    else
        CLEAVE_TRY(gru_reset_first(im, cells, &h));
    cells->h = (cleave_cell_state){h, false};
    return CLEAVE_OK;
}

/* ---- RNN ------------------------------------------------------------------------------------- */

cleave_status cleave_import_rnn_cell(cleave_importer *im, cleave_cells *cells) {
    cleave_nest nest;
    int32_t z = -1;
    add_axes(im, cells);
    if (cells->h.tensor >= 0)
        CLEAVE_TRY(add_product(im, cells, cells->h, 0, 1, ".z", &z));
    CLEAVE_TRY(begin_pointwise(im, cells, "", &nest));
    int hidden = z >= 0 ? add_gate(&nest, z, 0) : -1;
    int value = add_input_gate(&nest, cells, 0);
    if (hidden >= 0)
        value = emit(&nest, CLEAVE_OP_ADD, hidden, value);
    cleave_nest_activate(&nest, activation(cells, 0), value);
    cells->h = (cleave_cell_state){nest.output.tensor, false};
    return add_nest(im, cells, &nest, ".h");
}
