/* Finds whether an operator is attention; for attention.c alone. */
#ifndef CLEAVE_GRAPH_MODEL_ATTENTION_FIND_H
#define CLEAVE_GRAPH_MODEL_ATTENTION_FIND_H

#include "graph/model/attention.h"

/* Makes one nest of the nests of an operator, where `found`.  `readers` [n_tensors]: nests, views
   and outputs that read a tensor; `before` [op]: what was made of the operators before, or null.
   False when memory is short. */
bool cleave_attention_find(const cleave_model *model, int32_t op, const int32_t *readers,
                           const cleave_nest *const *before, cleave_nest *nest, bool *found);

#endif
