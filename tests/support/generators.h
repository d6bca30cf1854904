/* Generators: one per ONNX operator.  Each draws shapes, attributes and operands, appends the node
   to a model and says which values are its outputs. */
#ifndef CLEAVE_TESTS_SUPPORT_GENERATORS_H
#define CLEAVE_TESTS_SUPPORT_GENERATORS_H

#include "drawn_model.h"

typedef struct generator {
    const char *type; /* of ONNX; null behind the last of a table */
    int least_opset;
    void (*draw)(drawn_model *m, const char *type);
    bool smooth; /* gives floats, and takes any floats first: may follow, and be followed */
} generator;

/* Tables by topic. */
extern const generator elementwise_generators[], view_generators[], reduction_generators[],
    window_generators[], product_generators[], lookup_generators[];

/* Null: there is none for this operator. */
const generator *generator_find(const char *type);
/* The i-th of all; null behind the last. */
const generator *generator_at(int i);

#endif
