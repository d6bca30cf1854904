/* What the files of the lower bound share. */
#ifndef CLEAVE_SEARCH_BOUND_INTERNAL_H
#define CLEAVE_SEARCH_BOUND_INTERNAL_H

#include "graph/model/view.h"
#include "search/bound/bound.h"

/* Passes of nests that follow one another in every layout: of element e the nest is
   e / CLEAVE_N_COMPUTE_PASSES, the pass what remains. */
typedef struct bound_chain {
    int32_t n;
    int32_t *elements; /* [n] in order, distinct */
    int32_t n_forward; /* so many of them are forward: the first ones */
    bool *follows;     /* [n_nests][CLEAVE_N_COMPUTE_PASSES] every part of the pass begins after
                          some part of the last forward element has ended */
} bound_chain;

/* path.c.  `time`, [n_nests][CLEAVE_N_COMPUTE_PASSES], is what no part of a pass is quicker
   than. */
/* No step is shorter, picoseconds. */
cleave_status bound_longest_path(const cleave_model *model, const int64_t *time, int64_t *path,
                                 cleave_error *error);
/* The chain that takes longest, by these times. */
cleave_status bound_longest_chain(const cleave_model *model, const int64_t *time,
                                  cleave_arena *arena, bound_chain *chain, cleave_error *error);

/* work.c: picoseconds that the main lanes of all devices together take for other things than the
   computes of nests, in every layout; `in_steps`: whose collectives are in steps. */
cleave_status bound_other_work(const cleave_model *model, const cleave_machine *machine,
                               int optimizer_states, bool in_steps, int64_t *work,
                               cleave_error *error);

/* Is an operand's clipped box non-empty for every non-empty part? */
bool bound_reads_always(const cleave_model *model, const cleave_nest *nest,
                        const cleave_operand *operand);
/* Do the boxes of all parts together cover the tensor, even where parts are single points of the
   split axes? */
bool bound_covers_always(const cleave_model *model, const cleave_nest *nest,
                         const cleave_operand *operand);

/* What the boxes of all parts together cover, even where parts are single points of the split axes;
   false where that is no box, or none is known. */
bool bound_covered_box(const cleave_model *model, const cleave_nest *nest,
                       const cleave_operand *operand, cleave_box *box);

/* Appends the pieces of base tensors that those boxes of a nest's inputs are; `inputs`: their bits.
 */
cleave_status bound_covered_pieces(const cleave_model *model, const cleave_nest *nest,
                                   uint32_t inputs, cleave_piece_list *pieces, cleave_error *error);

/* loss.c: of which nests every backward compute begins after some part of the last nest of
   the loss has ended, in all layouts of the splits `values`, [n_operators][n_values].  `follows` is
   [n_nests]. */
cleave_status bound_follow_loss(const cleave_model *model, const int32_t *n_values,
                                cleave_split *const *values, bool *follows, cleave_error *error);

#endif
