/* Boxes of tensors from memory to memory. */
#include "exec/data/copy_box.h"

#include "exec/kernels/copy.h"

cleave_tensor cleave_row_major(const cleave_tensor *tensor) {
    cleave_tensor plain = *tensor;
    for (int d = 0; d < tensor->rank; d++)
        plain.order[d] = d;
    return plain;
}

void cleave_copy_box(const cleave_box *box, const cleave_dense *from, const cleave_dense *to) {
    cleave_copy_piece piece = {.mode = CLEAVE_COPY_ASSIGN,
                               .type = to->type,
                               .source_type = from->type,
                               .rank = to->tensor->rank};
    cleave_tensor_strides(from->tensor, from->box, piece.source_stride);
    cleave_tensor_strides(to->tensor, to->box, piece.destination_stride);
    for (int d = 0; d < piece.rank; d++) {
        piece.extent[d] = box->hi[d] - box->lo[d];
        piece.source_offset += (box->lo[d] - from->box->lo[d]) * piece.source_stride[d];
        piece.destination_offset += (box->lo[d] - to->box->lo[d]) * piece.destination_stride[d];
    }
    cleave_copy_piece_run(&piece, to->data, from->data);
}
