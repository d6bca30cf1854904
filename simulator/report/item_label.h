/* What people are told that an item is. */
#ifndef CLEAVE_SIMULATOR_REPORT_ITEM_LABEL_H
#define CLEAVE_SIMULATOR_REPORT_ITEM_LABEL_H

#include "graph/program/program.h"

/* The parts of a label; live as long as the model. */
typedef struct cleave_item_label {
    const char *kind; /* "compute", "update", "load", "copy", "send", "receive", "wait", ... */
    const char *name; /* of the nest of a compute and of a copy, of the tensor of the others; "?"
                         where it is not known, "" of a SYNC */
    const char *pass; /* in which the item runs; "" where it is not known */
} cleave_item_label;

cleave_item_label cleave_item_label_of(const cleave_program *program, const cleave_item *item);

/* The whole label, such as "conv1 forward" or "wait conv1.weight 0 -> 1". */
void cleave_item_label_format(const cleave_program *program, const cleave_item *item, char *text,
                              size_t bytes);

/* Of a slot the name of its nest, or of the tensor that is updated. */
const char *cleave_item_label_slot(const cleave_program *program, int32_t slot);

/* The name of a tensor; "?" where there is none of that number. */
const char *cleave_item_label_tensor(const cleave_program *program, int32_t tensor);

#endif
