/* What a family does at its events, by phase: forward is in forward.c, backward in
   backward.c, the end of the step in share.c and update.c. */
#ifndef CLEAVE_GRAPH_LOWER_EVENTS_H
#define CLEAVE_GRAPH_LOWER_EVENTS_H

#include "graph/lower/operand.h"

/* Who needs what of the family's tensors: before any event. */
void lower_plan_needs(lowering *state);

void lower_read(lowering *state, const lower_event *event);
void lower_write(lowering *state, const lower_event *event);
void lower_read_final(lowering *state, const lower_event *event); /* loss, outputs */

void lower_read_gradient(lowering *state, const lower_event *event);
void lower_write_gradient(lowering *state, const lower_event *event);

/* Every pass has given its share of a gradient: it moves to those that ask for it. */
void lower_begin_gradient(lowering *state, int32_t tensor);

/* That of a parameter which waited for others that go with it. */
void lower_set_out(lowering *state, const lower_event *event);

/* Who updates the family's parameters: before any backward event. */
void lower_plan_shares(lowering *state);
/* A buffer of the box of a share gets as much memory as the first block takes, the largest. */
void lower_pad_share(lower_builder *builder, const lower_share *share, int32_t buffer);
/* Of a fold: adds to a movement what the other windows have of a tensor's shares, or ask for. */
void lower_contribute_shares(lowering *state, movement *move);
void lower_demand_like_shares(lowering *state, movement *move);
/* Adds a demand for each of the boxes of a holder that operators use, in its memory `region`. */
void lower_demand_uses(lowering *state, movement *move, const lower_holder *holder,
                       const lower_region *region);
/* Of gradients that are reduced for one visit after the other (shard.c): how many base tensors
   under a tensor have such ones, and how many others; where they are all summed for a share, at the
   update. */
void lower_count_reduced(const lowering *state, int32_t tensor, int32_t *n_reduced,
                         int32_t *n_others);
lower_region lower_sum_of_visits(lowering *state, int32_t tensor, int32_t share);
void lower_begin_visits(lowering *state);
void lower_visits_free(lowering *state);
void lower_visit_event(lowering *state, const lower_event *event); /* gather, reduce, settle */

/* Keys that go round (ring.h): they are read, and passed on; and what a turn gave is added to the
   gradient of its block, which goes on, or is contributed where nobody adds to it any more. */
void lower_ring_read(lowering *state, const lower_event *event);
void lower_ring_gradient(lowering *state, const lower_event *event);
/* What one part gives, in the buffer, to the gradient of an input. */
void lower_contribute_gradient(lowering *state, const lower_event *event, int32_t part,
                               int32_t buffer, bool is_carried);

/* The norm of all gradients, by which updates clip them (norm.c). */
void lower_norm_begin(lowering *state, const lower_event *event);
void lower_norm_add(lowering *state, const lower_event *event);
void lower_norm_end(lowering *state, const lower_event *event);

/* From here on the gradient of a share is whole in the main lane: where it lies, in the order of
   the parameter, with nothing between. */
lower_region lower_whole_gradient(lowering *state, int32_t tensor, int32_t share);

/* Lists for each share, in state->counted, boxes that cover all that is updated of a parameter. */
void lower_count_updated(lowering *state, int32_t tensor);

void lower_update(lowering *state, const lower_event *event);
void lower_assign(lowering *state, const lower_event *event);
void lower_list_held(lowering *state);

/* Inputs that a pass reads: a product needs, for each gradient, the other factors. */
uint32_t lower_inputs_read(const cleave_nest *nest, uint32_t gradients);

#endif
