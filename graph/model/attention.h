/* Attention whose scores are not stored.

   An operator of the nests

       z = sum of q x k over their width [x a number]      product
       s = f(z, masks, biases)                             pointwise, any number of them
       m = max s,  l = sum exp(s - m)  over the keys       reduce
       w = exp(s - m) / l [x a number, dropped out]        pointwise
       y = sum of w x v over the keys                      product

   where nothing else reads what is between can be one nest of kind ATTENTION.  The nests stay its
   meaning, and the reference kernel runs them; the kernel goes over blocks of scores, and backward
   computes them again from m and l of each row, its `statistics`.  What is between is then written
   and read by nobody.

   Where keys are split, each part has statistics and an output of its own keys alone.  Statistics
   are merged (CLEAVE_COMBINE_STATISTICS) and come back; each part then scales the rows of its
   output by its share of l, so what moves of the output is a sum like any other; and backward reads
   the whole output, not the part's own.

   Heads may have a sink c, a score of no key that takes its share of a row:
   m = max(max s, c) and w = exp(s - m) / (l + exp(c - m)).  In statistics it is one key more, whose
   value is zero.  The part that has the first key counts it, or the first turn. */
#ifndef CLEAVE_GRAPH_MODEL_ATTENTION_H
#define CLEAVE_GRAPH_MODEL_ATTENTION_H

#include "graph/model/layout.h"
#include "graph/model/model.h"
#include "graph/model/part.h"

/* What masks that are known since the import do to a block of scores. */
typedef enum cleave_seen {
    CLEAVE_SEEN_HIDDEN, /* they are so small that none counts, where a row has any other */
    CLEAVE_SEEN_PLAIN,  /* they are `plain_scale` x the product of query and key */
    CLEAVE_SEEN_MIXED
} cleave_seen;

/* No operator has more nests. */
enum { CLEAVE_ATTENTION_MEMBERS = 12 };

enum { CLEAVE_SEEN_GRAIN = 64 }; /* rows, and keys, of a block that `seen` tells of */

/* A hidden score is at most this; so where the maximum of a row is not far above it, nothing is
   hidden from it.  (Weights of exp(-100) and below are zero.) */
#define CLEAVE_MOST_HIDDEN_SCORE (-5000.0)

typedef struct cleave_attention {
    int n_members;              /* the nests, in their order: */
    const cleave_nest *members; /* the first is the product, the last the one with the values */
    const int (*axis)[CLEAVE_MAX_AXES];    /* [n_members] axis of the one nest, by own axis */
    const int (*input)[CLEAVE_MAX_INPUTS]; /* [n_members] input of the one nest; -1: the output of
                                              a member */
    int n_pointwise;                       /* members 1 .. n_pointwise make the scores */
    int maximum, sum, weights;             /* members */
    int sinks;                             /* input of the one nest; -1: none */
    int rows, keys, width, value_width;    /* axes of the one nest, whose inputs 0 to 2 are queries,
                                              keys, values; the others are masks, biases, sinks */
    double scale;                          /* of the product */
    cleave_nest tail; /* pointwise and linear, what becomes of a weight; no instructions: nothing */
    double plain_scale; /* where there is a PLAIN block */
    int64_t n_row_grains, n_key_grains;
    const uint8_t *seen;     /* [n_row_grains][n_key_grains] */
    const int32_t *n_hidden; /* [n_row_grains + 1][n_key_grains + 1] of those before */
    bool shows_all;          /* constants leave every row a score that nothing else can hide */
} cleave_attention;

/* Of a row, of the scores of a part's keys or of all: an element of CLEAVE_STATISTICS.  Without a
   score: minus infinity and 0. */
typedef struct cleave_row_statistics {
    float maximum, sum; /* of exponentials of scores less the maximum */
} cleave_row_statistics;

/* Has the part some of the keys alone? */
static inline bool cleave_attention_splits_keys(const cleave_nest *nest, const cleave_part *part) {
    int keys = nest->attention->keys;
    return part->lo[keys] > 0 || part->hi[keys] < nest->axes[keys].extent;
}

/* Is it the part, of those that have keys of a row, that counts its sink? */
static inline bool cleave_attention_counts_sinks(const cleave_nest *nest, const cleave_part *part) {
    return nest->attention->sinks >= 0 &&
           (nest->n_turns > 0 ? nest->turn == 0 : part->lo[nest->attention->keys] == 0);
}

/* The model as a layout has it: of each operator that is of this form one nest is made, or turns
   where the layout has its keys go round (ring.h), unless the layout wants scores stored.  Without
   a layout (null) the model says that.  It must be finished; what is new lives in the arena,
   `fused` refers to all else of it, and may be the model itself.  Ids of operators and tensors, and
   the hash, stay.  FAILED when memory is short; BAD_INPUT where keys can't go round. */
cleave_status cleave_model_fuse_attention(const cleave_model *model, const cleave_layout *layout,
                                          cleave_arena *arena, cleave_model *fused,
                                          cleave_error *error);

/* Fills in what is kept for backward of such a nest, which reads all of it again. */
void cleave_attention_keep(cleave_nest *nest);

/* The worst that is in a range of rows and keys, both not empty. */
cleave_seen cleave_attention_seen(const cleave_attention *attention, int64_t row, int64_t row_end,
                                  int64_t key, int64_t key_end);
/* The share of blocks of scores that are not hidden, (0, 1], in ranges of the axes. */
double cleave_attention_seen_share(const cleave_attention *attention, const int64_t *lo,
                                   const int64_t *hi);
/* Is any block not hidden, in ranges of the axes? */
bool cleave_attention_sees(const cleave_attention *attention, const int64_t *lo, const int64_t *hi);
/* Is any hidden? */
bool cleave_attention_hides(const cleave_attention *attention);

/* attention_seen.c: fills in what is hidden and plain, or takes it from one of those before that
   has the same masks.  False when memory is short. */
bool cleave_attention_find_seen(const cleave_model *model, const cleave_nest *nest,
                                int32_t n_before, const cleave_nest *const *before,
                                cleave_attention *attention);

#endif
