/* Boxes of tensors from memory to memory, which may lie differently and be of other types. */
#ifndef CLEAVE_EXEC_DATA_COPY_BOX_H
#define CLEAVE_EXEC_DATA_COPY_BOX_H

#include "graph/model/model.h"

/* Memory that is dense over a box of a tensor. */
typedef struct cleave_dense {
    const cleave_tensor *tensor; /* in whose memory order it lies */
    cleave_type type;            /* of its elements */
    const cleave_box *box;
    void *data;
} cleave_dense;

/* The tensor as it lies in files. */
cleave_tensor cleave_row_major(const cleave_tensor *tensor);

/* The elements of a box that lies within both. */
void cleave_copy_box(const cleave_box *box, const cleave_dense *from, const cleave_dense *to);

#endif
