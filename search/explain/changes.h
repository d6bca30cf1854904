/* What a layout would cost with one operator split otherwise, by the estimate of the step that the
   search asks (collectives in closed form, links in program order). */
#ifndef CLEAVE_SEARCH_EXPLAIN_CHANGES_H
#define CLEAVE_SEARCH_EXPLAIN_CHANGES_H

#include "search/price/price.h"
#include "search/problem/candidates.h"
#include "simulator/step/priced_program.h"

typedef struct explain_changes {
    cleave_pricer pricer;
    cleave_estimate *estimate; /* of `layout` */
    cleave_node_costs *costs;
    cleave_candidates candidates;
    cleave_layout layout; /* a copy */
    cleave_price price;   /* of it */
    int32_t *devices;     /* scratch, [n_devices] */
} explain_changes;

/* `memory_limit_bytes` per device; 0: the machine's.  Destroy it, also after a failure. */
cleave_status explain_changes_create(const cleave_pricing *of, int64_t memory_limit_bytes,
                                     cleave_arena *arena, explain_changes *changes,
                                     cleave_error *error);
void explain_changes_destroy(explain_changes *changes);

/* Lists the candidates, for the functions below that ask for them. */
cleave_status explain_changes_list(explain_changes *changes, cleave_arena *arena,
                                   cleave_error *error);

/* The price of the layout with another split of one operator, or with another update of a
   parameter; the layout stays as it is. */
cleave_status explain_changes_try(explain_changes *changes, int32_t op, const cleave_split *split,
                                  cleave_price *price, cleave_error *error);

cleave_status explain_changes_shard(explain_changes *changes, int32_t tensor, bool sharded,
                                    cleave_price *price, cleave_error *error);

typedef struct explain_alternative {
    cleave_split split; /* its devices are in the arena */
    int64_t step;       /* picoseconds, of the estimate */
} explain_alternative;

enum { EXPLAIN_ALTERNATIVES = 8 };

typedef struct explain_choice {
    int64_t tried; /* other splits than the one that the operator has */
    int32_t n;
    explain_alternative
        best[EXPLAIN_ALTERNATIVES]; /* of those that fit in memory, the best first */
    bool is_held_back;              /* some split would be better than all that fit, but does not */
    explain_alternative held_back;  /* the best of those */
} explain_choice;

/* Which candidates of an operator are tried. */
typedef struct explain_extent {
    bool all_blocks; /* at every block of devices, else at that which has the first device of the
                        operator's split */
    int64_t most;    /* candidates: so many, an equal number of each size of block, those with the
                        least costs of their own; 0: all */
    int32_t keep;    /* alternatives, 1 .. EXPLAIN_ALTERNATIVES: fewer are quicker, since whether a
                        split fits is not looked at where it is no better than these */
} explain_extent;

cleave_status explain_changes_choose(explain_changes *changes, int32_t op, explain_extent extent,
                                     cleave_arena *arena, explain_choice *choice,
                                     cleave_error *error);
/* The same of an operator that is alike another one and has the same split: tries the alternatives
   that were found best for that. */
cleave_status explain_changes_follow(explain_changes *changes, int32_t op,
                                     const explain_choice *other, cleave_arena *arena,
                                     explain_choice *choice, cleave_error *error);
bool explain_changes_alike(const explain_changes *changes, int32_t a, int32_t b);
/* How many that are, the operator's own split among them. */
int64_t explain_changes_count(const explain_changes *changes, int32_t op, explain_extent extent);

#endif
