/* A step of many micro-batches, told by three of them.

   What a block does is the same in every micro-batch but the first and the last, so of these and of
   one in between the blocks are lowered, in the order in which they stand among all; the turns of
   the step say which of them comes when.  Where all micro-batches are lowered a block has one turn,
   which nobody writes down. */
#ifndef CLEAVE_GRAPH_LOWER_TURNS_H
#define CLEAVE_GRAPH_LOWER_TURNS_H

#include "graph/lower/assemble.h"

/* Before the first turn. */
void lower_turns_begin(lower_assembly *assembly);

/* The micro-batch of those that are lowered which stands for one. */
int32_t lower_turns_window(const lower_assembly *assembly, int32_t micro_batch);

/* Blocks of the schedule are told apart by kind and stage. */
static inline int32_t lower_turns_list(const cleave_schedule *schedule, int kind, int32_t stage) {
    return kind * schedule->n_stages + stage;
}
/* And what comes behind one, by itself. */
static inline int32_t lower_turns_partings(const cleave_schedule *schedule, int32_t list) {
    return CLEAVE_N_BLOCK_KINDS * schedule->n_stages + list;
}
enum { LOWER_TURN_OF_PROLOGUE = -1, LOWER_TURN_OF_UPDATES = -2 };

/* The next turn of the step is that of a block, by its list or one of the two above.  Is the block
   to be placed now? */
bool lower_turns_take(lower_assembly *assembly, int32_t list, int32_t micro_batch);

/* Whose the last buffer is: a window's, or CLEAVE_WINDOW_NONE's. */
void lower_turns_note_buffer(lower_assembly *assembly, int32_t owner);

/* An item by which a use of a buffer has ended. */
void lower_turns_note_use(lower_assembly *assembly, int32_t buffer, int32_t item);

/* Buffers have got other ids, [buffers before], -1 of one that is gone.  All uses are noted. */
void lower_turns_rename_buffers(lower_assembly *assembly, const int32_t *renamed);

/* Hands over what was written down. */
void lower_turns_finish(lower_assembly *assembly);
void lower_turns_free(lower_assembly *assembly);

#endif
