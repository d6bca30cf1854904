/* The parts of the lowering by phase: forward is in lower.c, backward in lower_backward.c, the end
   of the step in lower_update.c. */
#ifndef CLEAVE_GRAPH_LOWER_SLOTS_H
#define CLEAVE_GRAPH_LOWER_SLOTS_H

#include "graph/lower_operand.h"

/* Buffers that are assigned, outputs of a forward program and the loss are needed too. */
typedef struct lower_final_needs {
    int32_t *assignment_operands; /* [n_assignments][n_devices], -1: the device does not hold the
                                     target */
    int32_t *output_operands;     /* [n_outputs] */
    int32_t loss_operand;
} lower_final_needs;

bool lower_runs_backward(const lowering *state, const cleave_nest *nest);

/* The operands of a part: one for every input, and the combined output. */
int32_t *lower_operand_row(const lowering *state, int32_t nest, int32_t part);

void lower_begin_slot(lowering *state, int32_t nest, int32_t tensor, cleave_pass pass);

/* A compute without operands, with its workspace; and putting it at the end of its device's main
 * lane. */
cleave_compute lower_new_compute(lowering *state, int32_t n, int32_t p, cleave_pass pass);
void lower_add_compute(lowering *state, cleave_compute compute);

/* How many passes contribute to the gradient of every tensor: before any backward slot. */
void lower_count_backward_passes(lowering *state);
/* `outputs`: buffers that the parts wrote forward. */
void lower_backward_slots(lowering *state, int32_t n, const int32_t *outputs);

/* Who updates a parameter: before any backward slot. */
void lower_plan_shards(lowering *state, int32_t tensor);
void lower_update_slot(lowering *state, int32_t tensor);
void lower_assign_buffers(lowering *state, const lower_final_needs *needs);
void lower_list_held(lowering *state);

#endif
