/* Scalar functions that are both operators and activations of recurrent cells. */
#ifndef CLEAVE_GRAPH_IMPORT_FUNCTIONS_H
#define CLEAVE_GRAPH_IMPORT_FUNCTIONS_H

#include "graph/import/operators/fragment.h"

/* Each appends a function of register x to a fragment, in at most 6 instructions, and returns its
   register. */

/* x > 0 ? scale x : p (exp(x / width) - 1) */
int cleave_fragment_exponential(cleave_fragment *code, int x, double scale, double p, double width);
/* x > alpha ? x : 0 */
int cleave_fragment_threshold(cleave_fragment *code, int x, double alpha);
/* alpha x + beta, cut to [0, 1] */
int cleave_fragment_hard_sigmoid(cleave_fragment *code, int x, double alpha, double beta);
/* log(1 + exp(x)) */
int cleave_fragment_softplus(cleave_fragment *code, int x);
/* x / (1 + |x|) */
int cleave_fragment_softsign(cleave_fragment *code, int x);
int cleave_fragment_leaky_relu(cleave_fragment *code, int x, double alpha);

#endif
