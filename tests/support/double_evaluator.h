/* Evaluates a model straight from its nests, forward, in doubles: every point of the axes, one
   after the other.  It shares nothing with the kernels, so a test that compares it with numbers
   from elsewhere is a test of what the importer built, and its differences are a test of gradients.

   Where every point of a nest finds its operands' elements is worked out once, so that a small
   model can be evaluated thousands of times. */
#ifndef CLEAVE_TESTS_SUPPORT_DOUBLE_EVALUATOR_H
#define CLEAVE_TESTS_SUPPORT_DOUBLE_EVALUATOR_H

#include "graph/model/model.h"

/* A nest by its points; those where an operand has no element are left out. */
typedef struct double_evaluator_nest {
    int64_t n_points;
    int32_t *point;                     /* [n_points] row-major index over the axes */
    int32_t *inputs[CLEAVE_MAX_INPUTS]; /* [n_points] element in memory, each */
    int32_t *output;                    /* [n_points] */
} double_evaluator_nest;

typedef struct double_evaluator {
    const cleave_model *model;
    double *memory;    /* the elements of all base tensors, row-major, and the fills of pads */
    int32_t **element; /* [n_tensors][elements, row-major] where in memory */
    double_evaluator_nest *nests; /* [n_nests] */
    /* What an instruction draws for an element of the output: the factor of a DROPOUT, the number
       of a UNIFORM; null: 1. */
    double (*draw)(void *context, const cleave_instruction *it, const cleave_tensor *output,
                   int64_t index);
    void *context;
} double_evaluator;

/* Parameters, buffers, data and constants have the model's values, or their initial value, or 0.
   Lives in the arena; false when memory is short. */
bool double_evaluator_create(const cleave_model *model, cleave_arena *arena, double_evaluator *e);

/* The elements of a base tensor, row-major, to be read or written. */
double *double_evaluator_values(const double_evaluator *e, int32_t tensor);
/* One element of any tensor. */
double double_evaluator_element(const double_evaluator *e, int32_t tensor, int64_t i);
void double_evaluator_set_floats(const double_evaluator *e, int32_t tensor, const float *values);
void double_evaluator_set_integers(const double_evaluator *e, int32_t tensor,
                                   const int64_t *values);

void double_evaluator_run(const double_evaluator *e);

/* The nests that a tensor has an influence on, in order; nests: [n_nests].  Returns how many. */
int32_t double_evaluator_influence(const double_evaluator *e, int32_t tensor, int32_t *nests);
void double_evaluator_run_some(const double_evaluator *e, int32_t n, const int32_t *nests);

#endif
