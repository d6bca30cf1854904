/* A growing list: `struct { T *items; int32_t n, capacity; }` declared with CLEAVE_LIST(T).  It is
   on the heap while it grows; free it, or copy it into an arena, when it is done. */
#ifndef CLEAVE_BASE_LIST_H
#define CLEAVE_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLEAVE_LIST(T)                                                                             \
    struct {                                                                                       \
        T *items;                                                                                  \
        int32_t n, capacity;                                                                       \
    }

/* Makes room for one more element; false when memory is short or 2^31 elements are reached. */
bool cleave_list_grow(void **items, int32_t *capacity, int32_t n, size_t size);

/* Makes room for `wanted` elements, of which n are there; false when memory is short. */
bool cleave_list_reserve(void **items, int32_t *capacity, int32_t n, int32_t wanted, size_t size);
#define CLEAVE_LIST_RESERVE(list, wanted)                                                          \
    cleave_list_reserve((void **)&(list)->items, &(list)->capacity, (list)->n, (wanted),           \
                        sizeof *(list)->items)

/* Appends `...` (a value of the element type); true on success. */
#define CLEAVE_LIST_PUSH(list, ...)                                                                \
    (((list)->n < (list)->capacity || cleave_list_grow((void **)&(list)->items, &(list)->capacity, \
                                                       (list)->n, sizeof *(list)->items)) &&       \
     (((list)->items[(list)->n++] = __VA_ARGS__), true))

#define CLEAVE_LIST_FREE(list)                                                                     \
    cleave_list_release((void **)&(list)->items, &(list)->capacity, &(list)->n)
void cleave_list_release(void **items, int32_t *capacity, int32_t *n);

/* Bytes on the heap that grow, of texts and files, which may be more than a list has: makes room
   for `wanted`, and for about as many more as there are; false when memory is short. */
bool cleave_bytes_reserve(char **bytes, size_t *capacity, size_t wanted);

#endif
