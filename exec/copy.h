/* Copies: the strided blocks that all movement of data is made of. */
#ifndef CLEAVE_EXEC_COPY_H
#define CLEAVE_EXEC_COPY_H

#include "graph/program.h"

/* Runs one piece.  `destination` and `source` are the starts of its buffers (source: null for
   FILL); the blocks do not overlap, or are the same. */
void cleave_copy_piece_run(const cleave_copy_piece *piece, void *destination, const void *source);

#endif
