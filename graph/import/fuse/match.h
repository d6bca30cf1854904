/* Matching of ONNX nodes that spell out an operator, from the last one back: for the rows of the
   fusing table, in rewrite.c and rewrite_language.c. */
#ifndef CLEAVE_GRAPH_IMPORT_MATCH_H
#define CLEAVE_GRAPH_IMPORT_MATCH_H

#include "graph/import/internal.h"

enum { CLEAVE_MOST_MATCHED = 24, CLEAVE_MOST_FACTORS = 3 };

/* The nodes of a pattern as far as it has been matched; the last one of the graph comes first. */
typedef struct cleave_match {
    cleave_importer *im;
    bool *live;
    int n;
    int32_t nodes[CLEAVE_MOST_MATCHED];
} cleave_match;

typedef struct cleave_factors {
    double scale;
    int n;
    const char *names[CLEAVE_MOST_FACTORS];
} cleave_factors;

/* ---- looking back: null and false where there is no such thing ---- */

/* The live node of ONNX's own domain that makes a value as its first output. */
const cleave_onnx_node *cleave_match_maker(const cleave_match *m, const char *name);
/* Is it of that type, and has it its first n inputs? */
bool cleave_match_is_type(const cleave_onnx_node *node, const char *type, int n_inputs);
/* Makes a node part of the match. */
bool cleave_match_take(cleave_match *m, const cleave_onnx_node *node);
/* The node of that type which makes a value, taken. */
const cleave_onnx_node *cleave_match_take_maker(cleave_match *m, const char *name, const char *type,
                                                int n_inputs);
/* What a cast to floats is of, the cast taken; else the value itself. */
const char *cleave_match_through_cast(cleave_match *m, const char *name);

/* ---- numbers, equal up to rounding to f32 ---- */

bool cleave_match_number(const cleave_match *m, const char *name, double *number);
bool cleave_match_is_near(double a, double b);
bool cleave_match_is_number(const cleave_match *m, const char *name, double number);
const cleave_onnx_attribute *cleave_match_attribute(const cleave_onnx_node *node, const char *name);
/* An attribute, or an input where later operator sets have it. */
double cleave_match_parameter(const cleave_match *m, const cleave_onnx_node *node, const char *name,
                              int input, double otherwise);

/* ---- sums, products, means ---- */

/* An operator of two inputs in either order: with which input is `this`, the other one. */
const char *cleave_match_other_input(const cleave_onnx_node *node, const char *this);
/* What is added to a number by the node that makes a value, taken. */
const char *cleave_match_take_addend(cleave_match *m, const char *name, double number);
/* The factors of a value, all products on the way taken; false where there are too many. */
bool cleave_match_take_factors(cleave_match *m, const char *name, cleave_factors *f);
/* Is a value scale x x^n? */
bool cleave_match_is_power(cleave_match *m, const char *name, double scale, const char *x, int n);
/* Is it the mean over the last n dimensions (any number of them where *n is 0, which is set), kept
   with extent 1?  Returns what it is the mean of. */
const char *cleave_match_take_mean(cleave_match *m, const char *name, int *n);
/* Something of the file that has as many dimensions. */
bool cleave_match_is_weight(const cleave_match *m, const char *name, int rank);

/* ---- replacing ---- */

/* Does only the match read what its nodes but the last one make? */
bool cleave_match_is_closed(const cleave_match *m);
/* Puts a node of this type in the place of a match. */
cleave_status cleave_match_replace(cleave_match *m, const char *type, int n_inputs,
                                   const char *const *inputs, int n_attributes,
                                   const cleave_onnx_attribute *attributes);

/* The same with a node that only this importer knows; graph/import/operators.c. */
cleave_status cleave_match_replace_fused(cleave_match *m, const char *type, int n_inputs,
                                         const char *const *inputs);

/* ---- rewrite_language.c ---- */

/* Matches what language models are made of at a node, and replaces it. */
cleave_status cleave_rewrite_language(cleave_match *m, const cleave_onnx_node *last,
                                      bool *replaced);

#endif
