/* Copies: the strided blocks that all movement of data is made of. */
#ifndef CLEAVE_EXEC_KERNELS_COPY_H
#define CLEAVE_EXEC_KERNELS_COPY_H

#include "graph/program/program.h"

/* Runs one piece.  `destination` and `source` are the starts of its buffers (source: null for
   FILL); the blocks do not overlap, or are the same. */
void cleave_copy_piece_run(const cleave_copy_piece *piece, void *destination, const void *source);

/* Into how many pieces of its own, at most `wanted`, the piece can be cut: the extent of its
   longest dimension (of moments, that is none of the record) is the limit.  1 or more.  Cut is
   where steps are long, so rows stay as long as they are. */
int32_t cleave_copy_piece_cuts(const cleave_copy_piece *piece, int32_t wanted);

/* Piece `i` of `n` cuts; run one after the other, they do what the whole does. */
void cleave_copy_piece_cut(const cleave_copy_piece *piece, int32_t n, int32_t i,
                           cleave_copy_piece *cut);

#endif
