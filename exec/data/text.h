/* Text as training data: tokens are bytes, and every byte is to be predicted from those before it.

   A step takes one sequence of t + 1 bytes per sample, from a place drawn by (seed, step, sample):
   it does not depend on the layout, and a device reads only the bytes of its own piece.  A text
   that is held out is gone through sequence by sequence. */
#ifndef CLEAVE_EXEC_DATA_TEXT_H
#define CLEAVE_EXEC_DATA_TEXT_H

#include "base/error.h"
#include "exec/data/sample_order.h"
#include "graph/model/model.h"

enum { CLEAVE_TEXT_VOCABULARY = 256 };

typedef struct cleave_text {
    const char *path; /* null: none */
    int descriptor;
    int64_t bytes;
    int64_t length;          /* t */
    int32_t tokens, targets; /* data tensors, both [batch, t] */
    /* Null, or sequences follow each other in the file, numbered from its beginning, in this order
       of the numbers. */
    const cleave_sample_order *windows;
} cleave_text;

/* Opens a file for a model that has one data input, integers [batch, t] of at least 256 values, and
   logits [batch, t, v] with v of at least 256; of t + 1 bytes or more.  BAD_INPUT otherwise. */
cleave_status cleave_text_open(const char *path, const cleave_model *model, cleave_text *text,
                               cleave_error *error);
void cleave_text_close(cleave_text *text);

/* Where the sequence of a sample starts in the file. */
int64_t cleave_text_position(const cleave_text *text, uint64_t seed, int64_t step, int64_t sample);

/* Fills a box of the tokens or the targets, dense in the tensor's memory order. */
cleave_status cleave_text_load(const cleave_text *text, const cleave_tensor *tensor, bool is_target,
                               const cleave_box *box, uint64_t seed, int64_t step, int64_t *data,
                               cleave_error *error);

/* Entropy of the bytes of a file taken one by one, in nats per byte: the loss of whoever knows how
   frequent each byte is, and nothing else. */
cleave_status cleave_text_entropy(const char *path, double *nats, cleave_error *error);

#endif
