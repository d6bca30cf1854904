/* An arena: memory that is taken piece by piece and given back all at once.  Results live in an
   arena that the caller passes in, so nothing has to be freed one by one. */
#ifndef CLEAVE_BASE_ARENA_H
#define CLEAVE_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

typedef struct cleave_arena_block cleave_arena_block;
typedef struct cleave_arena_adopted cleave_arena_adopted;

typedef struct cleave_arena {
    cleave_arena_block *blocks; /* newest first */
    cleave_arena_adopted *adopted;
    size_t used_bytes; /* of all of it, for reports */
} cleave_arena;

/* A zeroed arena is an empty one. */
void cleave_arena_free(cleave_arena *arena);

/* Takes everything back but keeps the memory, save what was adopted, for what comes next, in one
   block as large as all were: after a few rounds of the same work nothing is asked of the system.
 */
void cleave_arena_reset(cleave_arena *arena);

/* `count` zeroed elements of `size` bytes, aligned to 64 bytes where they are 64 or more; null when
   the product overflows or memory is short.  A count of 0 gives a valid pointer. */
void *cleave_arena_alloc(cleave_arena *arena, size_t count, size_t size);

/* Takes over `bytes` that came from malloc, to be freed with the rest: what has grown elsewhere
   need not be copied.  False when memory is short; then it is still the caller's. */
bool cleave_arena_adopt(cleave_arena *arena, void *memory, size_t bytes);

#define CLEAVE_ARENA_ARRAY(arena, type, count)                                                     \
    ((type *)cleave_arena_alloc((arena), (size_t)(count), sizeof(type)))

/* A copy of a string, or of its first `length` bytes; null when memory is short. */
char *cleave_arena_string(cleave_arena *arena, const char *string);
char *cleave_arena_string_n(cleave_arena *arena, const char *string, size_t length);
char *cleave_arena_printf(cleave_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
