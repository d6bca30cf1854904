/* What the files of slots.h share: a schedule while it is made. */
#ifndef CLEAVE_GRAPH_LOWER_SLOTS_INTERNAL_H
#define CLEAVE_GRAPH_LOWER_SLOTS_INTERNAL_H

#include "graph/lower/slots.h"

typedef struct lower_planner {
    const cleave_model *model;
    bool training;
    const cleave_micro_batches *micro; /* or null */
    const cleave_schedule *of;         /* whose blocks part gradients of weights; null: none does */
    const cleave_layout *layout;       /* or null */
    bool *needed;                      /* [n_tensors] backward needs it, or what comes again does */
    bool *again;                       /* [n_nests] its forward comes again ... */
    bool *is_there;                    /* [n_nests] ... and has its slot */
    cleave_block_kind in;              /* that the slots that follow belong to */
    int32_t *block; /* [n_tensors] 1 + that of the passes that contribute; 0: none yet */
    lower_schedule *schedule;
    CLEAVE_LIST(cleave_slot) slots;
    lower_event_list events;
    int32_t *pending;             /* [n_tensors] backward passes that have not contributed yet */
    CLEAVE_LIST(int32_t) updated; /* as their gradients get whole, ... */
    int32_t *whole_in;            /* [n_tensors] ... in these slots */
    int64_t together_bytes;
    bool failed;
} lower_planner;

/* slots_families.c: false when memory is short. */
bool lower_find_families(const cleave_model *model, cleave_arena *arena, lower_schedule *s);

/* slots.c: the slots are made in order, and every event is one of the last slot. */
void lower_begin_slot(lower_planner *p, int32_t nest, int32_t tensor, cleave_pass pass);
typedef void lower_event_adder(lower_planner *p, lower_event_kind kind, int32_t rank, int32_t nest,
                               int32_t input, int32_t tensor);
lower_event_adder lower_add_event;
/* The last event is of keys that go round: from the second turn on something comes there. */
void lower_number_ring(lower_planner *p, int32_t n, int input);
/* What a nest reads and writes; of one in turns, what the first is said to have written is there
   with the last. */
void lower_forward_of_nest(lower_planner *p, int32_t n, lower_event_adder *add);

/* slots_again.c: the nests whose forward comes again; and an event of what comes again. */
void lower_find_again(lower_planner *p);
lower_event_adder lower_add_again;
/* All that a nest's backward needs comes again before its first slot. */
void lower_prepare_backward(lower_planner *p, int32_t n);
/* What came again the first pass reads then, unless the nest's own forward has come again and read
   it; and of weights that are sharded, and keys that go round, nothing is there that a pass does
   not read itself. */
void lower_read_again(lower_planner *p, int32_t n, cleave_pass pass, bool first);

/* visit.c: makes the schedule's visits, once all slots are there; marks their events, of which
   those that read and give ascend by slots, and adds those that gather, reduce and settle.  False
   when memory is short. */
bool lower_visits_find(lower_planner *p, cleave_arena *arena);

/* slots_index.c: puts the slots and events into the schedule, and lists where to find them.  False
   when memory is short. */
bool lower_index_schedule(lower_planner *p, cleave_arena *arena);

#endif
