/* Scalar functions that element-wise operators are made of.

   A fragment is a piece of tape over arguments.  Applied to inputs of a node it joins the tail of
   the operator before them where it can, or becomes an operator of its own; over constants alone it
   is evaluated. */
#ifndef CLEAVE_GRAPH_IMPORT_FRAGMENT_H
#define CLEAVE_GRAPH_IMPORT_FRAGMENT_H

#include "graph/import/internal.h"

enum { CLEAVE_MOST_FRAGMENT = 24, CLEAVE_MOST_ARGUMENTS = CLEAVE_MAX_INPUTS };

/* Registers of a fragment: its arguments, and k >= 0 for its own instruction k. */
enum { CLEAVE_ARGUMENT_0 = -1, CLEAVE_ARGUMENT_1 = -2, CLEAVE_ARGUMENT_2 = -3 };
static inline int cleave_argument(int i) { return -1 - i; }

typedef struct cleave_fragment {
    int n;
    cleave_instruction code[CLEAVE_MOST_FRAGMENT]; /* the last one is the value */
    float initial; /* of parameters without a value among its arguments */
} cleave_fragment;

/* Each appends an instruction and returns its register. */
int cleave_fragment_unary(cleave_fragment *code, cleave_opcode opcode, int a);
int cleave_fragment_binary(cleave_fragment *code, cleave_opcode opcode, int a, int b);
int cleave_fragment_scale(cleave_fragment *code, int a, double p, double q); /* p x a + q */
int cleave_fragment_clip(cleave_fragment *code, int a, double p, double q);
int cleave_fragment_constant(cleave_fragment *code, double p);
int cleave_fragment_uniform(cleave_fragment *code, double stream);

/* Appends the fragment to a nest's tape and returns the register of its value; registers: those of
   the nest that its arguments are. */
int cleave_fragment_append(const cleave_fragment *code, const int *registers, cleave_nest *nest);

/* Applies a fragment to inputs[0..n) of the node being imported, broadcast against each other, and
   makes the result, of ONNX type `type`, its output 0.  BAD_INPUT where an integer result would be
   computed with a constant beyond CLEAVE_MOST_EXACT_INTEGER and something that is none. */
cleave_status cleave_import_apply(cleave_importer *im, int n, const int *inputs,
                                  const cleave_fragment *code, int32_t type);

/* The same where all the inputs are constants; evaluate.c.  Computed in long double, so
   integers of 64 bits are exact. */
cleave_status cleave_import_evaluate(cleave_importer *im, int n, const int *inputs,
                                     const cleave_fragment *code, int32_t type);

/* The ONNX type of input i. */
int32_t cleave_import_input_type(cleave_importer *im, int i);
/* The rank of a value that is known; -1 of others. */
int cleave_import_value_rank(const cleave_importer *im, const cleave_value *value);

#endif
