/* Where a simulated step goes: its critical path, by operator and by sort of work, and the memory
   that each operator holds. */
#ifndef CLEAVE_SEARCH_EXPLAIN_PATH_H
#define CLEAVE_SEARCH_EXPLAIN_PATH_H

#include "simulator/step/priced_program.h"
#include "simulator/step/simulated_step.h"

typedef enum explain_sort {
    EXPLAIN_FORWARD, /* computing, by pass */
    EXPLAIN_INPUT_GRADIENT,
    EXPLAIN_WEIGHT_GRADIENT,
    EXPLAIN_UPDATE,
    EXPLAIN_EXCHANGE, /* activations and their gradients: transfers, posts, copies, sums, loads */
    EXPLAIN_SYNC,     /* the same of parameters and their gradients */
    EXPLAIN_WAITING,  /* for latency, and for links that carry something else */
    EXPLAIN_N_SORTS
} explain_sort;
extern const char *const explain_sort_names[EXPLAIN_N_SORTS];

/* Of what sort an item is that does not wait. */
explain_sort explain_sort_of_item(const cleave_program *program, const cleave_item *item);

/* One operator's share of the critical path.  A transfer belongs to the operator whose nest it is
   moved for, an update to the first that reads the parameter. */
typedef struct explain_operator {
    int64_t picoseconds[EXPLAIN_N_SORTS];
    int64_t total;     /* of these; over all operators they add up to the step */
    int64_t transfers; /* of the total: on links, not in copies, sums and posts */
    int32_t link;      /* that these take longest; -1: none */
    int64_t link_picoseconds;
    int64_t memory_bytes; /* parameters with their gradients and state, and the activations that it
                             writes, on the device where that is most */
} explain_operator;

typedef struct explain_path {
    int64_t step;                              /* picoseconds */
    int64_t picoseconds[EXPLAIN_N_SORTS];      /* add up to the step */
    explain_operator *operators;               /* [n_operators] */
    int32_t busiest_link, busiest_device;      /* -1: no link is used */
    int64_t link_busy, device_busy;            /* picoseconds of a step */
    int32_t fullest_device;                    /* of a fold, of the program's own */
    int64_t peak_bytes;                        /* of it, with the runtime's constant */
    int64_t held_bytes[CLEAVE_N_BUFFER_KINDS]; /* in its arena where most is in use */
} explain_path;

/* Of a program with its collectives in their steps; of one with closed forms these are exchange or
   sync as a whole, links carry messages alone, and of a fold operators are those of its devices.
   In the arena. */
cleave_status explain_path_find(const cleave_model *model, const cleave_priced_program *priced,
                                const cleave_simulated_step *simulated, cleave_arena *arena,
                                explain_path *path, cleave_error *error);

#endif
