/* A layout of the space: a choice for every operator.

   A choice is a candidate and a block of devices: two numbers that say all about a split, so that a
   search can be written down and gone on with (search/improve/resume.c). */
#ifndef CLEAVE_SEARCH_PROBLEM_CHOICES_H
#define CLEAVE_SEARCH_PROBLEM_CHOICES_H

#include "search/problem/candidates.h"

typedef struct cleave_choice {
    int32_t candidate; /* of the operator's list */
    int32_t start;     /* block */
} cleave_choice;

/* A layout of the space: what the candidates don't say of it is the same for all of a search. */
typedef struct cleave_choices {
    cleave_choice *of; /* [n_operators] */
    uint8_t *sharded;  /* [n_tensors] */
} cleave_choices;

/* FAILED when memory is short. */
cleave_status cleave_choices_create(const cleave_model *model, cleave_arena *arena,
                                    cleave_choices *choices, cleave_error *error);
void cleave_choices_copy(const cleave_model *model, const cleave_choices *from, cleave_choices *to);
bool cleave_choices_equal(const cleave_model *model, const cleave_choices *a,
                          const cleave_choices *b);
/* The choices that make a layout; where the space has not got a split, the nearest: as many parts,
   the same start, the least node cost.  True where they say that very layout. */
bool cleave_choices_of(const cleave_model *model, const cleave_candidates *candidates,
                       const cleave_layout *layout, cleave_choices *choices);
/* The layout of choices, with the collectives of `like`. */
cleave_status cleave_choices_layout(const cleave_model *model, const cleave_candidates *candidates,
                                    const cleave_choices *choices, const cleave_layout *like,
                                    cleave_arena *arena, cleave_layout *layout,
                                    cleave_error *error);

static inline const cleave_candidate_list *cleave_list_of(const cleave_candidates *candidates,
                                                          int32_t op) {
    return &candidates->lists[candidates->list_of[op]];
}
static inline bool cleave_same_choice(cleave_choice a, cleave_choice b) {
    return a.candidate == b.candidate && a.start == b.start;
}

#endif
