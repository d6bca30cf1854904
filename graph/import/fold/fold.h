/* Constants that are computed while importing. */
#ifndef CLEAVE_GRAPH_IMPORT_FOLD_H
#define CLEAVE_GRAPH_IMPORT_FOLD_H

#include "graph/import/internal.h"

enum { CLEAVE_MOST_FOLDED = 1 << 27 }; /* elements of one result */

/* A constant under construction: one of floats and integers is set, by its type. */
typedef struct cleave_folded {
    cleave_onnx_tensor tensor;
    float *floats;
    int64_t *integers;
} cleave_folded;

/* Makes room for a result, all zeros; `tensor` points at its elements. */
cleave_status cleave_fold_new(cleave_importer *im, int32_t type, int rank, const int64_t *shape,
                              cleave_folded *out);
/* Output i of the node is this constant. */
cleave_status cleave_fold_deliver(cleave_importer *im, int i, const cleave_onnx_tensor *tensor);

static inline void cleave_fold_copy(cleave_folded *out, int64_t to, const cleave_onnx_tensor *from,
                                    int64_t at) {
    if (out->floats != NULL)
        out->floats[to] = from->floats[at];
    else
        out->integers[to] = from->integers[at];
}

static inline long double cleave_fold_read(const cleave_onnx_tensor *from, int64_t at) {
    return from->floats != NULL ? (long double)from->floats[at] : (long double)from->integers[at];
}

/* Stores an element; integers are cut off towards zero.  Fails where 64 bits can't hold it. */
cleave_status cleave_fold_write(cleave_importer *im, cleave_folded *out, int64_t to,
                                long double value);

/* Element [i_0, i_1, ...] of the result is element base + sum of stride[d] x i_d of `from`. */
void cleave_fold_gather(cleave_folded *out, const cleave_onnx_tensor *from, int64_t base,
                        const int64_t *stride);
/* Strides of a dense row-major tensor. */
void cleave_fold_strides(int rank, const int64_t *shape, int64_t *stride);

/* ---- one function per operator of the table in fold.c, where that is not in the file ----
 */

cleave_status cleave_fold_reduce(cleave_importer *im);
cleave_status cleave_fold_arg(cleave_importer *im);
cleave_status cleave_fold_cumsum(cleave_importer *im);
cleave_status cleave_fold_trilu(cleave_importer *im);
cleave_status cleave_fold_nonzero(cleave_importer *im);
cleave_status cleave_fold_reshape(cleave_importer *im);
cleave_status cleave_fold_gather_node(cleave_importer *im);
cleave_status cleave_fold_gather_elements(cleave_importer *im);
cleave_status cleave_fold_gather_nd(cleave_importer *im);
cleave_status cleave_fold_scatter_nd(cleave_importer *im);
cleave_status cleave_fold_concat(cleave_importer *im);
cleave_status cleave_fold_slice(cleave_importer *im);
cleave_status cleave_fold_transpose(cleave_importer *im);
cleave_status cleave_fold_expand(cleave_importer *im);
cleave_status cleave_fold_tile(cleave_importer *im);
cleave_status cleave_fold_split(cleave_importer *im);
cleave_status cleave_fold_one_hot(cleave_importer *im);

/* The shape of input 0, and its tensor; -1 of a constant. */
cleave_status cleave_import_shape(cleave_importer *im, int32_t *tensor, int *rank, int64_t *shape);

#endif
