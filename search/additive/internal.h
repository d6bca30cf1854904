/* What the parts of making an additive model share. */
#ifndef CLEAVE_SEARCH_ADDITIVE_INTERNAL_H
#define CLEAVE_SEARCH_ADDITIVE_INTERNAL_H

#include "search/additive/model.h"
#include "search/additive/port.h"
#include "search/additive/resharding.h"

/* The values of operators that are alike: some of their candidates. */
typedef struct additive_values {
    int32_t n;
    int32_t *candidate;   /* [n] of the list, ascending */
    cleave_split *splits; /* [n] at the first block */
} additive_values;

/* What an operator costs by itself under each of its values. */
typedef struct additive_own {
    uint64_t key;
    int64_t *cost, *bytes; /* [n_values] picoseconds; of a device */
} additive_own;

typedef struct additive_making {
    const cleave_model *model;
    const cleave_machine *machine;
    const cleave_candidates *candidates;
    const cleave_additive_options *options;
    cleave_arena *arena, scratch; /* scratch lives until the model is made */
    cleave_collective_rules rules;
    cleave_resharder *resharder;
    cleave_port_maker *maker;
    additive_values *values;      /* [n_lists] */
    cleave_operator_ports *ports; /* [n_operators] */
    additive_own *own;            /* [n_operators] */
    int32_t *first_reader;        /* [n_tensors] operator; -1: none */
    int32_t *first_read, *reads;  /* [n_tensors + 1]; operators that read each tensor */
    bool *kept;                   /* [n_tensors] from forward for backward */
} additive_making;

static inline const additive_values *additive_values_of(const additive_making *m, int32_t op) {
    return &m->values[m->candidates->list_of[op]];
}

cleave_status additive_choose_values(additive_making *m, cleave_error *error);
/* Once ports, first readers and what is kept are known. */
cleave_status additive_price_own(additive_making *m, int32_t op, cleave_error *error);

#endif
