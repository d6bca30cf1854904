/* A map from strings to small integers, for names. */
#ifndef CLEAVE_GRAPH_MODEL_NAME_MAP_H
#define CLEAVE_GRAPH_MODEL_NAME_MAP_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

/* A zeroed map is an empty one; its memory comes from the arena and goes with it.  Keys are not
   copied. */
typedef struct cleave_name_map {
    cleave_arena *arena;
    int32_t n, capacity; /* capacity is 0 or a power of two above n */
    const char **keys;   /* [capacity], null: free */
    int32_t *values;     /* [capacity] */
} cleave_name_map;

/* The value of a key, or -1. */
int32_t cleave_name_map_find(const cleave_name_map *map, const char *key);

/* Sets the value (0 or more) of a key; false when memory is short. */
bool cleave_name_map_set(cleave_name_map *map, const char *key, int32_t value);

#endif
