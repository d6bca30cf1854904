/* What a framework calls things: the module that an operator is, by the names that its parameters
   and its node have.  What has no module of its own is told, never guessed. */
#ifndef CLEAVE_GRAPH_EXPORT_NAMES_H
#define CLEAVE_GRAPH_EXPORT_NAMES_H

#include "graph/export/frame.h"

typedef enum cleave_named {
    CLEAVE_NAMED_MODULE,   /* `module` does the work of this operator and of no other */
    CLEAVE_NAMED_FUNCTION, /* a function that `module` calls once */
    CLEAVE_NAMED_LOSS,     /* of the model, which gives logits */
    CLEAVE_NAMED_NOTHING,  /* a function without parameters: it follows what it reads */
    CLEAVE_NAMED_UNKNOWN   /* it has parameters, and no module is known by them */
} cleave_named;

typedef struct cleave_module_name {
    cleave_named named;
    const char *module; /* "features.0"; "" where there is none */
    const char
        *within; /* the module in which it is called, itself where it is one; "" is the model */
    int32_t first_call; /* the operator that is the first call of the module (or of the one that
                           calls the function), where there are several, all alike; else -1 */
} cleave_module_name;

/* Of all operators, [n_operators] in the arena; `frames` are theirs. */
cleave_status cleave_export_names(const cleave_model *model, const cleave_frame *frames,
                                  cleave_arena *arena, cleave_module_name **names,
                                  cleave_error *error);

/* "weight" of "features.0.weight" */
const char *cleave_export_own_name(const char *parameter);

#endif
