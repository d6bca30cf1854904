/* Boxes of tensors out of files, where they lie row-major, into memory, where they lie as the
   tensor does there.  Read by pieces, so that no tensor is in memory twice. */
#ifndef CLEAVE_EXEC_DATA_READ_BOX_H
#define CLEAVE_EXEC_DATA_READ_BOX_H

#include "exec/data/id_range.h"
#include "exec/data/tensor_file.h"
#include "graph/model/box.h"

typedef struct cleave_box_source {
    const cleave_tensor_file *file;
    const cleave_safetensors_entry *entry;
    int64_t first; /* element of the entry that is the tensor's element 0 */
    const cleave_tensor *tensor;
    const cleave_id_range *range; /* of integers that are looked at as they come; null: of none */
} cleave_box_source;

/* Fills `box` of memory that is dense over `piece`, which holds the box. */
cleave_status cleave_read_box(const cleave_box_source *source, const cleave_box *piece,
                              const cleave_box *box, void *data, cleave_error *error);

#endif
