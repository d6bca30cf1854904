/* Names that are alike but for one number, such as those of the layers of a model, told once:
   "model.layers.[0-15].mlp.up_proj". */
#ifndef CLEAVE_CLI_REPEATS_H
#define CLEAVE_CLI_REPEATS_H

#include "base/arena.h"
#include "base/error.h"

typedef struct repeat {
    const char *name; /* the range in brackets; of one alone, its own */
    int32_t first;    /* of those that it stands for */
    int32_t count;
} repeat;

typedef struct repeats {
    int32_t n;
    const repeat *items; /* [n] by their first */
    const int32_t *of;   /* of each name */
} repeats;

/* Groups names [n] of equal `kinds` [n], texts of whatever else is to be alike.  Two alone stay
   apart, since they are read as quickly.  Everything lives in the arena. */
cleave_status repeats_find(const char *const *names, const char *const *kinds, int32_t n,
                           cleave_arena *arena, repeats *found, cleave_error *error);

#endif
