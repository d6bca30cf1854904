/* What the files of LSTM, GRU and RNN share: recurrent.c reads the node and makes the
   product of all inputs, cells.c a cell for each step, gates.c finds the gates of their
   weights, recurrent_activations.c the scalar functions. */
#ifndef CLEAVE_GRAPH_IMPORT_RECURRENT_H
#define CLEAVE_GRAPH_IMPORT_RECURRENT_H

#include "graph/import/internal.h"

enum { CLEAVE_MAX_ACTIVATIONS = 3 }; /* of one direction */
enum { CLEAVE_MAX_GATES = 4 };

/* What has gates: the weights and biases of the inputs, then of the hidden state. */
typedef enum cleave_gated {
    CLEAVE_WEIGHT_OF_INPUTS,
    CLEAVE_WEIGHT_OF_STATE,
    CLEAVE_BIAS_OF_INPUTS,
    CLEAVE_BIAS_OF_STATE,
    CLEAVE_N_GATED
} cleave_gated;

typedef struct cleave_activation {
    int32_t row; /* of the table of activations */
    double alpha, beta;
} cleave_activation;

/* Where one of them lies, for one direction: a tensor of several such places. */
typedef struct cleave_gates {
    int32_t tensor; /* [places, g, h, c] of inputs, [places, g, h, h] of the state, a bias
                       [places, g, h]; -1: none */
    int64_t place;
} cleave_gates;

typedef struct cleave_recurrence {
    int64_t n_gates, steps, batch, features, hidden, n_directions;
    bool batch_first; /* layout 1 */
    bool linear_before_reset;
    int n_activations; /* of one direction */
    cleave_activation activations[2 * CLEAVE_MAX_ACTIVATIONS];
    /* Tensors, -1: none.  g: gates, h: hidden, c: features, d: directions. */
    int32_t inputs;                        /* [t, n, c]; [n, t, c] where the batch comes first */
    cleave_gates gates[2][CLEAVE_N_GATED]; /* of each direction */
    int position[2][CLEAVE_MAX_GATES];     /* where there ONNX's gates are among the g */
    int32_t peepholes;                     /* [d, 3, h]: of the input, output and forget gates */
    int32_t initial_h, initial_c;          /* [d, n, h]; [n, d, h] where the batch comes first */
} cleave_recurrence;

/* A hidden state or cell state between two steps. */
typedef struct cleave_cell_state {
    int32_t tensor; /* [n, h], or an initial state; -1: zero */
    bool initial;
} cleave_cell_state;

/* One direction of a recurrence, on its way through time. */
typedef struct cleave_cells {
    const cleave_recurrence *of;
    int64_t direction, t;
    int32_t inputs;         /* [t, n, g, h]: what the inputs, and most biases, add to the gates */
    cleave_cell_state h, c; /* after the step before this one; then after this one */
    int32_t op;             /* operator of the step at hand */
} cleave_cells;

/* Fills in `gates` and `position`; the inputs of the node have the shapes that ONNX wants. */
cleave_status cleave_import_gates(cleave_importer *im, cleave_recurrence *r);

/* Makes the nests of step `t` in operator `op`, which has no axes yet, and moves the states on. */
cleave_status cleave_import_lstm_cell(cleave_importer *im, cleave_cells *cells);
cleave_status cleave_import_gru_cell(cleave_importer *im, cleave_cells *cells);
cleave_status cleave_import_rnn_cell(cleave_importer *im, cleave_cells *cells);

/* Reads activations, activation_alpha and activation_beta; `defaults`: [n_activations] names. */
cleave_status cleave_import_activations(cleave_importer *im, cleave_recurrence *r,
                                        const char *const *defaults);
/* Appends an activation to a tape and returns its register; at most 6 instructions. */
int cleave_nest_activate(cleave_nest *nest, const cleave_activation *activation, int value);

#endif
