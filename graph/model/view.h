/* Views: the box of a view is pulled back to pieces of base tensors. */
#ifndef CLEAVE_GRAPH_MODEL_VIEW_H
#define CLEAVE_GRAPH_MODEL_VIEW_H

#include "base/list.h"
#include "graph/model/model.h"

/* A box of a base tensor, and where its elements lie in a local buffer: element x is at
   offset + sum over d of (x[d] - box.lo[d]) x stride[d]. */
typedef struct cleave_piece {
    int32_t tensor;
    int32_t index; /* among all pieces of the box that was pulled back */
    cleave_box box;
    int64_t offset, stride[CLEAVE_MAX_RANK]; /* elements */
} cleave_piece;

typedef struct cleave_piece_list { /* a CLEAVE_LIST, and what is put on it */
    cleave_piece *items;
    int32_t n, capacity;
    const int32_t *only; /* the base tensor whose pieces are listed; null: all are */
    int32_t n_met;       /* pieces of the present box, listed or not */
} cleave_piece_list;

/* Appends the pieces of `box` of `tensor` that lie in base tensors, for a local buffer that holds
   the box densely in the tensor's memory order.  A base tensor gives one piece, itself; what a pad
   adds gives none. */
cleave_status cleave_view_pull(const cleave_model *model, int32_t tensor, const cleave_box *box,
                               cleave_piece_list *pieces, cleave_error *error);

/* What the elements are that no piece covers: the fill of the outermost pad, else 0. */
float cleave_view_fill(const cleave_model *model, int32_t tensor);

#endif
