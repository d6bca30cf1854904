/* A head of attention at work, block of scores by block: see kernel_attention.c. */
#ifndef CLEAVE_EXEC_KERNELS_KERNEL_ATTENTION_H
#define CLEAVE_EXEC_KERNELS_KERNEL_ATTENTION_H

#include "exec/kernels/kernel_table.h"
#include "graph/model/attention.h"

/* Scores of so many rows and keys at once, which stay in the second cache. */
enum { CLEAVE_ATTENTION_ROWS = 128, CLEAVE_ATTENTION_KEYS = 256 };
enum { CLEAVE_ATTENTION_TILE = CLEAVE_ATTENTION_ROWS * CLEAVE_ATTENTION_KEYS };

/* A matrix of rows that are contiguous. */
typedef struct attention_matrix {
    float *data; /* [rows of the part][width] */
    int64_t row; /* elements from a row to the next */
} attention_matrix;

/* A block of scores: dense, n_keys from row to row. */
typedef struct attention_block {
    int64_t row, key; /* where it begins, by the nest's axes */
    int64_t n_rows, n_keys;
    cleave_seen seen;
} attention_block;

typedef struct attention_run {
    cleave_kernels *kernels;
    const cleave_kernel_call *call;
    const cleave_attention *of;
    bool backward;
    int64_t
        at[CLEAVE_MAX_AXES]; /* of the head: where the axes other than rows, keys, widths stand */
    attention_block block;
    /* Dense, [CLEAVE_ATTENTION_TILE] each.  scores[i]: as they are after member i; in backward
       several, where a member's gradient needs what it read or wrote, else the same one. */
    float *scores[CLEAVE_ATTENTION_MEMBERS];
    float *exponentials; /* exp(s - m) [/ l]: in the place of scores that nothing reads again, */
    float *weights;      /* and behind the tail; the same where there is none */
    float *gradient, *spare; /* backward: of what is at hand, and room for the next */
    float *of_input;         /* backward: of a mask or bias, under a block */
    void *workspace;         /* of the tape kernel */
    int64_t workspace_bytes;
} attention_run;

enum { QUERY = 0, KEY = 1, VALUE = 2, N_MATRICES = 8 }; /* inputs; matrices */

/* Operands of a head; those whose rows are not contiguous in the part have copies. */
typedef enum attention_matrix_id {
    QUERIES,
    KEYS,
    VALUES,
    OUTPUT,
    OF_QUERIES,
    OF_KEYS,
    OF_VALUES,
    OF_OUTPUT
} attention_matrix_id;

typedef struct attention_operand {
    const cleave_array *array;
    cleave_reach reach;
    int along, width_axis; /* axes: rows or keys; width */
    int64_t n, width, row, column;
    float *copy; /* [n][width] where `column` is not 1 */
    bool used;
} attention_operand;

typedef struct attention {
    attention_run run;
    attention_operand operands[N_MATRICES];
    attention_matrix head[N_MATRICES];
    cleave_reach statistics;
    const float *sink; /* of the head, where the part counts it; else null */
    float *of_sink;    /* backward: its gradient, or null */
    int64_t n_rows, n_keys, width, value_width;
    float *sums;                    /* [rows of a block][value_width] forward */
    float *maximum, *total, *along; /* [rows]: m and 1 / l, and sum of y dy of each row */
    cleave_kernel_pace pace;
} attention;

/* Takes what it needs of the memory from `base` on, or (null) only counts: bytes. */
int64_t attention_lay_out_tiles(attention_run *run, char *base);

/* From products of queries and keys to scores, in run->scores[n_pointwise]. */
cleave_status attention_make_scores(attention_run *run, cleave_error *error);
/* From run->exponentials to run->weights. */
cleave_status attention_make_weights(attention_run *run, cleave_error *error);
/* In run->gradient: of what values are weighted with into that of exp(s - m) / l; and of scores
   into that of products, while gradients of masks and biases are added up. */
cleave_status attention_unmake_weights(attention_run *run, cleave_error *error);
cleave_status attention_unmake_scores(attention_run *run, cleave_error *error);

/* kernel_attention_head.c: the operands of a call, at its first head, without memory. */
attention attention_begin(cleave_kernels *kernels, const cleave_kernel_call *call);
/* The same as attention_lay_out_tiles, for all that a call needs. */
int64_t attention_lay_out(attention *a, char *base);
/* Where the operands of the head at run.at lie, from their copies where they have one; */
void attention_find_head(attention *a);
/* what was written goes back from its copy; */
void attention_leave_head(attention *a);
/* and the next head; false: that was the last. */
bool attention_next_head(attention *a);

#endif
