/* What a collective costs whatever its bytes: from its kind, algorithm and devices.  Many tensors
   are combined by the same devices, so this is worked out once for all of them. */
#ifndef CLEAVE_COSTMODEL_COLLECTIVE_ROUNDS_H
#define CLEAVE_COSTMODEL_COLLECTIVE_ROUNDS_H

#include "costmodel/byte_price.h"
#include "costmodel/cost.h"

/* Seconds that are linear in the bytes of the vector, but for the protocols of links and for sums
   of what is in no cache. */
typedef struct cleave_round_line {
    double fixed, per_byte;
} cleave_round_line;

/* Steps that are alike; bytes as shares of the vector. */
typedef struct cleave_round_cost {
    double times, latency;
    double load_per_byte;    /* of the link that all messages together take longest, */
    double message_per_byte; /* and of one message alone */
    double work_per_byte;    /* of a member's processor meanwhile */
    double largest_share;
    const cleave_link *link;           /* the slowest that a message crosses */
    cleave_round_line post, processor; /* of one message; of a member, with posts and sums */
    double sums;                       /* of what a member receives, and what each */
    cleave_byte_price sum;             /* takes longer beside `processor` where it is large */
    /* Rounds with equal ones have the same messages; a distance of -1 has no equal. */
    int32_t distance, size, member_stride;
} cleave_round_cost;

enum { CLEAVE_MAX_ROUNDS = 128 }; /* four phases of at most 31 steps */

typedef struct cleave_collective_rounds {
    bool is_choice; /* they are ways of which the quickest is taken; else one after the other */
    int n;
    cleave_round_cost items[CLEAVE_MAX_ROUNDS];
} cleave_collective_rounds;

/* Two devices or more; `load` is scratch, [machine's n_links], all 0 before and after. */
void cleave_collective_rounds_find(const cleave_machine *machine,
                                   const cleave_collective *collective, double *load,
                                   cleave_collective_rounds *rounds);
/* What so many bytes have a part in, of a vector of so many: all of it, where they are the same. */
cleave_collective_cost cleave_collective_rounds_price(const cleave_collective_rounds *rounds,
                                                      int64_t bytes, int64_t vector_bytes);

#endif
