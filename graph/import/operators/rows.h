/* Rows of a tensor, which run over some of its dimensions, and what is known of each: its maximum
   and the sum of exp(x - maximum), and where the maximum is.  Shared by softmax, the losses and the
   reductions to an index. */
#ifndef CLEAVE_GRAPH_IMPORT_ROWS_H
#define CLEAVE_GRAPH_IMPORT_ROWS_H

#include "graph/import/internal.h"

typedef struct cleave_rows {
    int32_t op, input, maximum, sum; /* tensors beside op, whose axes are those of input */
    int rank;
    unsigned reduced; /* bits of the dimensions of a row */
} cleave_rows;

/* Maps the dimensions of a tensor of one value per row to a nest that has all axes of op. */
void cleave_rows_map(const cleave_rows *rows, cleave_operand *operand);
/* Adds such a tensor as an input of such a nest; returns its register. */
int cleave_rows_add_input(const cleave_rows *rows, cleave_nest *nest, int32_t tensor);
/* Makes a tensor of one value per row, called `suffix` after op. */
cleave_status cleave_rows_new_tensor(cleave_importer *im, const cleave_rows *rows,
                                     const char *suffix, int32_t *tensor);
/* A nest over all axes that reduces the input, its register 0, to rows; without a tape. */
cleave_nest cleave_rows_reduce(const cleave_importer *im, const cleave_rows *rows,
                               cleave_combiner combiner, int32_t output);
/* Adds the nest of the maximum. */
cleave_status cleave_rows_add_maximum(cleave_importer *im, cleave_rows *rows);
/* Adds the nest of the sum, called `suffix`, behind that of the maximum. */
cleave_status cleave_rows_add_exponentials(cleave_importer *im, cleave_rows *rows,
                                           const char *suffix, int32_t *nest);
/* Adds the nests of the maximum and of the sum, the latter called `suffix`. */
cleave_status cleave_rows_add_sum(cleave_importer *im, cleave_rows *rows, const char *suffix,
                                  int32_t *nest);
/* BAD_INPUT where rows are so long that f32 does not hold the places in them. */
cleave_status cleave_rows_check_places(cleave_importer *im, const cleave_rows *rows);
/* Appends to a nest over all axes of op the place of an element in its row: 1 of the first one; or,
   counted from the end, 1 of the last one.  Returns its register. */
int cleave_rows_emit_place(const cleave_importer *im, const cleave_rows *rows, cleave_nest *nest,
                           bool from_end);
/* That place where registers a and b are equal, else 0.  So the maximum over the row is the first
   place, counted from the end, or the last one of those where they are. */
int cleave_rows_emit_place_of_equal(const cleave_importer *im, const cleave_rows *rows,
                                    cleave_nest *nest, int a, int b, bool from_end);
/* A nest over the rows alone, on those that own the output of an earlier nest that has one value
   per row; without inputs, output and tape. */
cleave_nest cleave_rows_on_owners(const cleave_importer *im, const cleave_rows *rows,
                                  int32_t owners_of, cleave_combiner combiner);

#endif
