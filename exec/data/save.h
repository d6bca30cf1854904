/* What a run leaves in files: parameters and buffers, a value of the optimizer's state beside every
   parameter, or the outputs of a forward run.  One writer of them all, for --save and checkpoints.

   A tensor is written row-major in pieces of about a megabyte: whoever holds a part of the next
   piece sends it to rank 0, which appends it.  So no rank needs room for a tensor, and a file does
   not depend on the layout. */
#ifndef CLEAVE_EXEC_DATA_SAVE_H
#define CLEAVE_EXEC_DATA_SAVE_H

#include "exec/data/safetensors.h"
#include "exec/data/values.h"

typedef enum cleave_saved {
    CLEAVE_SAVED_STATE0, /* of the optimizer, under the names of the parameters */
    CLEAVE_SAVED_STATE1,
    CLEAVE_SAVED_VALUES, /* parameters and buffers */
    CLEAVE_SAVED_OUTPUTS /* of a forward program */
} cleave_saved;

/* A piece of a tensor, row-major, in its order: on rank 0 with its elements, on the others with
   room for them.  `i` counts the tensors, `first` is the first element in the tensor's row-major
   order. */
typedef struct cleave_saved_piece {
    int32_t tensor, i;
    int64_t first, n;
    cleave_box box;
    void *data;
} cleave_saved_piece;
typedef cleave_status cleave_visit_piece(void *context, const cleave_saved_piece *piece,
                                         cleave_error *error);

/* To be called by every rank: goes over all pieces of what would be saved, in its order. */
cleave_status cleave_visit_saved(const cleave_values *values, const cleave_rank *rank,
                                 cleave_saved what, cleave_visit_piece *visit, void *context,
                                 cleave_error *error);

/* To be called by every rank.  Rank 0 has opened `writer` and commits it; after a failure it is
   abandoned.  The others pass null.  `nan_in` (null where none is asked for) becomes the name of
   the first tensor that has a NaN, on rank 0. */
cleave_status cleave_save(const cleave_values *values, const cleave_rank *rank, cleave_saved what,
                          cleave_file_writer *writer, const char **nan_in, cleave_error *error);

/* The same into one file of its own, under a temporary name until it is whole. */
cleave_status cleave_save_file(const cleave_values *values, const cleave_rank *rank,
                               cleave_saved what, const char *path, cleave_error *error);

#endif
