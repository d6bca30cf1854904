/* What the files share that find out whether a slot follows. */
#ifndef CLEAVE_SIMULATOR_DELTA_JUMP_H
#define CLEAVE_SIMULATOR_DELTA_JUMP_H

#include "simulator/delta/internal.h"

/* A question: does slot `slot`, not changed, follow the base, every part moved by its amount? */
typedef struct question {
    cleave_delta *delta;
    int32_t slot;
    int64_t shift; /* of the base: to be added to the slot's record */
    const delta_record *record;
    const uint64_t *uses;
    bool is_one; /* all its main lanes have one amount: */
    int64_t by;
    bool unsettles; /* main lanes that are moved by another amount than what they wait for */
} question;

/* jump.c */
/* The state of a resource is that of the record, moved. */
void delta_make_lazy(const question *q, int32_t resource, int64_t by);
/* Has the state of a resource, whatever it was moved by. */
void delta_make_known(const question *q, int32_t resource);
/* What is settled has no effect on the slot but for being moved by an amount; it is written down in
   which state it met the slot.  False: there is no room for that. */
bool delta_settle(const question *q, int32_t resource, int64_t by);
/* All main lanes of a set have one amount. */
bool delta_are_one(const cleave_delta *delta, const uint64_t *uses, int64_t by);

/* joint.c: each of the chunks that join resources has one amount, and its links follow. */
bool delta_chunks_follow(const question *q);

#endif
