/* Open addressing with linear probing, at most half full. */
#include "graph/model/name_map.h"

#include "base/random.h"

#include <string.h>

static int32_t find_slot(const cleave_name_map *map, const char *key) {
    uint32_t mask = (uint32_t)map->capacity - 1;
    uint32_t slot = (uint32_t)cleave_hash_string(key) & mask;
    while (map->keys[slot] != NULL && strcmp(map->keys[slot], key) != 0)
        slot = (slot + 1) & mask;
    return (int32_t)slot;
}

int32_t cleave_name_map_find(const cleave_name_map *map, const char *key) {
    if (map->capacity == 0)
        return -1;
    int32_t slot = find_slot(map, key);
    return map->keys[slot] != NULL ? map->values[slot] : -1;
}

static bool grow(cleave_name_map *map) {
    if (map->capacity > INT32_MAX / 4)
        return false;
    cleave_name_map larger = {.arena = map->arena, .n = map->n};
    larger.capacity = map->capacity == 0 ? 64 : 2 * map->capacity;
    larger.keys = CLEAVE_ARENA_ARRAY(map->arena, const char *, larger.capacity);
    larger.values = CLEAVE_ARENA_ARRAY(map->arena, int32_t, larger.capacity);
    if (larger.keys == NULL || larger.values == NULL)
        return false;
    for (int32_t i = 0; i < map->capacity; i++) {
        if (map->keys[i] == NULL)
            continue;
        int32_t slot = find_slot(&larger, map->keys[i]);
        larger.keys[slot] = map->keys[i];
        larger.values[slot] = map->values[i];
    }
    *map = larger;
    return true;
}

bool cleave_name_map_set(cleave_name_map *map, const char *key, int32_t value) {
    if (map->n >= map->capacity / 2 && !grow(map))
        return false;
    int32_t slot = find_slot(map, key);
    map->n += map->keys[slot] == NULL;
    map->keys[slot] = key;
    map->values[slot] = value;
    return true;
}
