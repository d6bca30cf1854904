/* Attention whose keys go round (Liu, Zaharia and Abbeel, "Ring Attention with Blockwise
   Transformers for Near-Infinite Context", 2023).

   Where a split says so, keys and values are cut into as many blocks as queries are, T, and each
   part of the queries goes over one block after the other: in turn j, part i of the queries has
   block i - j (modulo T), which the part before it had in the turn before.  So no device ever has
   all keys, and the next block is on its way while one is worked on.

   A turn is a nest: the operator's nests, in this order, read the same queries, each its own block
   of keys and values, and write the same output and statistics, where each goes on from what the
   ones before left.  They count as written by the first, the `lead`, which is never empty.  Parts
   are those of any nest, but for their range of keys.  How blocks move is said in
   graph/lower/ring.c; to prices, memory, kernels and reports turns are nests like others.

   Where constants leave every row a score, a block goes round no further than to the last that sees
   any of it: parts beyond are empty.  Of a causal mask that is half of all. */
#ifndef CLEAVE_GRAPH_MODEL_RING_H
#define CLEAVE_GRAPH_MODEL_RING_H

#include "graph/model/attention.h"

/* Inputs of an attention that go round; all others are read where they are. */
static inline bool cleave_ring_passes(const cleave_nest *nest, int input) {
    return nest->n_turns > 0 && (input == 1 || input == 2);
}

/* Makes turns of the nests of a model of which the layout wants that.  In the model's arena; ids of
   operators and tensors stay, those of nests do not.  BAD_INPUT, naming the operator, where it is
   not attention in one nest, its keys are split, or its queries are not. */
cleave_status cleave_model_take_turns(cleave_model *model, const cleave_layout *layout,
                                      cleave_error *error);

bool cleave_model_has_turns(const cleave_model *model);

/* Could keys of an operator go round under this split? */
bool cleave_ring_fits(const cleave_model *model, int32_t op, const cleave_split *split);

/* Is this the last turn of the block of keys that a part has? */
bool cleave_ring_ends(const cleave_nest *nest, const cleave_part *part);

/* Gives part i of the queries, whose other ranges are there, its keys in the nest's turn. */
void cleave_ring_take_keys(const cleave_nest *nest, int32_t i, cleave_part *part);

#endif
