/* What the parts of making an additive model share. */
#ifndef CLEAVE_SEARCH_SOLVE_INTERNAL_H
#define CLEAVE_SEARCH_SOLVE_INTERNAL_H

#include "search/solve/model.h"
#include "search/solve/port.h"
#include "search/solve/resharding.h"

/* The values of operators that are alike: some of their candidates. */
typedef struct additive_values {
    int32_t n;
    int32_t *candidate;   /* [n] of the list, ascending */
    cleave_split *splits; /* [n] at the first block */
} additive_values;

/* What an operator costs by itself under each of its values. */
typedef struct additive_own {
    uint64_t key;
    int64_t *cost, *bytes;              /* [n_values] picoseconds; of a device */
    int64_t *once, *kept, *own, *wrote; /* [n_values] see cleave_additive_model */
    cleave_additive_state *state;       /* [n_values x CLEAVE_N_SHARDED] */
    cleave_additive_state *tied;        /* the same, bytes alone */
} additive_own;

typedef struct additive_making {
    const cleave_model *model;
    const cleave_machine *machine;
    const cleave_candidates *candidates;
    const cleave_additive_options *options;
    cleave_arena *arena, scratch; /* scratch lives until the model is made */
    cleave_collective_rules rules;
    cleave_resharder *resharder;
    cleave_sent_together together; /* what it sends of weights */
    cleave_port_maker *maker;
    additive_values *values;      /* [n_lists] */
    cleave_operator_ports *ports; /* [n_operators] */
    additive_own *own;            /* [n_operators] */
    int32_t *first_reader;        /* [n_tensors] operator; -1: none */
    int32_t *first_read, *reads;  /* [n_tensors + 1]; operators that read each tensor */
    bool *kept;                   /* [n_tensors] from forward for backward */
} additive_making;

/* Two operators that a tensor lies between: the first writes what the second reads; or both read a
   parameter and give a gradient of it (n_alike is 0). */
typedef struct additive_encounter {
    int32_t first, second;
    int32_t n_alike; /* operators that read the same as the second one */
    const cleave_port_set *of_first, *of_second;
} additive_encounter;

typedef cleave_status additive_meeting_function(void *context, const additive_encounter *met,
                                                cleave_error *error);

static inline const additive_values *additive_values_of(const additive_making *m, int32_t op) {
    return &m->values[m->candidates->list_of[op]];
}

cleave_status additive_choose_values(additive_making *m, cleave_error *error);
/* Those around the layout of the options. */
cleave_status additive_choose_around(additive_making *m, cleave_error *error);
/* The same for a list whose candidates are chosen: where they stand. */
bool additive_place_values(additive_making *m, int32_t list, additive_values *values);
/* Ports, readers and own costs of all values. */
cleave_status additive_know_values(additive_making *m, cleave_error *error);
/* Once these are known. */
cleave_status additive_for_each_encounter(additive_making *m, additive_meeting_function *meet,
                                          void *context, cleave_error *error);
/* What an operator has to do with a tensor; null: nothing. */
const cleave_port_set *additive_find_set(const cleave_operator_ports *ports, int32_t tensor);
/* Does backward of an operator read a tensor: its own, or what another one wrote? */
bool additive_backward_reads(const additive_making *m, int32_t op, int32_t tensor);
/* Of the fullest device. */
int64_t additive_bytes_of(const cleave_sharding *s);
/* Once ports, first readers and what is kept are known. */
cleave_status additive_price_own(additive_making *m, int32_t op, cleave_error *error);

#endif
