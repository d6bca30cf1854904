/* Which operators of a model compute the same.  This is the one place that says so: lowering asks
   it which families give the same fragments, the search which blocks repeat and which operators
   have the same candidates.

   Whatever lowering, costs and legality look at of a thing goes into a digest of 128 bits, ids as
   places rather than as they are.  Equal digests: alike. */
#ifndef CLEAVE_GRAPH_MODEL_ALIKE_H
#define CLEAVE_GRAPH_MODEL_ALIKE_H

#include "base/random.h"
#include "graph/model/model.h"

typedef struct cleave_digest {
    uint64_t a, b;
    int32_t place; /* of the thing among all that are compared */
} cleave_digest;

static inline cleave_digest cleave_digest_begin(int32_t place) {
    return (cleave_digest){1, 1, place};
}

static inline void cleave_digest_put(cleave_digest *digest, int64_t value) {
    digest->a = cleave_hash_join(digest->a, (uint64_t)value);
    digest->b = (digest->b ^ (uint64_t)value) * UINT64_C(0x9ddfea08eb382d69);
    digest->b ^= digest->b >> 29;
}

/* Kind, type, shape and order of a tensor, and what sort of view it is. */
void cleave_digest_put_tensor(cleave_digest *digest, const cleave_tensor *tensor);

/* What a nest is, but for its axes, operands and tape: what is kept, reused and differentiated. */
void cleave_digest_put_facts(cleave_digest *digest, const cleave_model *model,
                             const cleave_nest *nest);

/* Where a nest stands among those of an operator; -1: it is not one of them. */
int32_t cleave_operator_find_nest(const cleave_operator *op, int32_t nest);

/* Each place, [n] of them, gets in `like` the first one with the same digest; sorts the digests. */
void cleave_digests_find_alike(cleave_digest *digests, int32_t n, int32_t *like);

/* Operators all nests of which compute the same on tensors of the same shapes get the same number,
   [n_operators] in the arena, rising by first occurrence.  Which index is read of a dimension that
   no axis goes along, such as the step of a cell, costs nothing: it counts only with `boxes`, where
   operators have to read and write the same boxes of their tensors.  Linear in the nests. */
cleave_status cleave_operator_classes(const cleave_model *model, bool boxes, cleave_arena *arena,
                                      int32_t **class_of, cleave_error *error);

#endif
