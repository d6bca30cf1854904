/* What extending items and extending buffers share. */
#ifndef CLEAVE_SEARCH_PRICE_EXTEND_INTERNAL_H
#define CLEAVE_SEARCH_PRICE_EXTEND_INTERNAL_H

#include "search/price/extend.h"

/* An item of the middle block stands for `more` + 1 items, its copies 0 .. more, of which the first
   belongs to the earliest block. */
typedef struct extender {
    const cleave_extension *by;
    cleave_arena *arena;
    cleave_error *error;
    int32_t *block; /* [n_items] -1: of none */
    int32_t *twin;  /* [n_items] of items of the blocks before the middle and of the middle: the one
                       in the same place of the next block; else -1 */
    int32_t *before; /* [n_items] the other way round, of the middle and of the block after it */
    int32_t *place;  /* [n_items] in the extended order; of the middle block's items, of copy 0 */
    int32_t *step;   /* [n_items] from copy to copy: of backward items it is negative; else 0 */
    int32_t n_items; /* extended */
    cleave_program *program;
    cleave_engine_problem *problem;
    int32_t *origin; /* [n_items extended] */
} extender;

/* What something in a block refers to, by its relation to it. */
typedef enum extend_relation {
    EXTEND_FIXED,  /* the same item, whichever copy asks: `end`, of which copy `copy` */
    EXTEND_WITHIN, /* of the same copy: `inner` */
    EXTEND_BEFORE, /* of the copy before it: `inner`, but of copy 0 `end` */
    EXTEND_AFTER   /* of the copy after it: `inner`, but of the last copy `end` */
} extend_relation;

typedef struct extend_reference {
    extend_relation relation;
    int32_t end, copy, inner;
} extend_reference;

/* An item that a thing refers to, and those that its counterparts in the blocks after and before it
   refer to; they count for things of the middle block only. */
typedef struct extend_target {
    int32_t item, next, before;
} extend_target;

/* False where it follows no rule. */
bool extend_refer(const extender *e, int32_t block, extend_target target,
                  extend_reference *reference);
/* The item that copy `copy` refers to, and which copy of it. */
int32_t extend_resolve(const extender *e, const extend_reference *reference, int32_t copy,
                       int32_t *of_copy);

static inline int32_t extend_place(const extender *e, int32_t item, int32_t copy) {
    return e->place[item] + copy * e->step[item];
}

/* Of so many things, `middle` of them in the middle block; false where that is more than 2^31. */
bool extend_count(const extender *e, int32_t n, int32_t middle, int32_t *extended);

/* How often an item that `maker` makes, or -1, stands in the extended program. */
static inline int32_t extend_copies(const extender *e, int32_t maker) {
    return maker >= 0 && e->block[maker] == e->by->middle ? e->by->more + 1 : 1;
}

typedef struct extend_subjects {
    int32_t *sender, *message;      /* [n_messages] the item that sends it; new id */
    int32_t *first_join, *combined; /* [n_collectives] the first item that joins it; new id */
} extend_subjects;

cleave_status extend_find_subjects(extender *e, extend_subjects *s);
/* What an item waits for or belongs to, as an item; -1: nothing. */
int32_t extend_item_refers_to(const extender *e, const extend_subjects *s, int32_t item);
cleave_status extend_messages(extender *e, const extend_subjects *s);
cleave_status extend_collectives(extender *e, const extend_subjects *s);

cleave_status extend_too_large(const extender *e);
cleave_status extend_short_of_memory(const extender *e);

/* Buffers, and the memory plan. */
cleave_status extend_buffers(extender *e, bool *alike);

#endif
