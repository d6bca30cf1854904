/* What the files of the lower bound share. */
#ifndef CLEAVE_SEARCH_BOUND_INTERNAL_H
#define CLEAVE_SEARCH_BOUND_INTERNAL_H

#include "search/bound.h"

/* Passes of nests that follow one another in every layout: of element e the nest is
   e / CLEAVE_N_COMPUTE_PASSES, the pass what remains. */
typedef struct bound_chain {
    int32_t n;
    int32_t *elements; /* [n] in order, distinct */
} bound_chain;

/* bound_path.c.  `time`, [n_nests][CLEAVE_N_COMPUTE_PASSES], is what no part of a pass is quicker
   than. */
/* No step is shorter, picoseconds. */
cleave_status bound_longest_path(const cleave_model *model, const int64_t *time, int64_t *path,
                                 cleave_error *error);
/* The chain that takes longest, by these times. */
cleave_status bound_longest_chain(const cleave_model *model, const int64_t *time,
                                  cleave_arena *arena, bound_chain *chain, cleave_error *error);

/* bound_work.c: picoseconds that the main lanes of all devices together take for other things than
   the computes of nests, in every layout. */
cleave_status bound_other_work(const cleave_model *model, const cleave_machine *machine,
                               int optimizer_states, int64_t *work, cleave_error *error);

/* Is an operand's clipped box non-empty for every non-empty part? */
bool bound_reads_always(const cleave_model *model, const cleave_nest *nest,
                        const cleave_operand *operand);
/* Do the boxes of all parts together cover the tensor, even where parts are single points of the
   split axes? */
bool bound_covers_always(const cleave_model *model, const cleave_nest *nest,
                         const cleave_operand *operand);

#endif
