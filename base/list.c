/* A growing list on the heap. */
#include "base/list.h"

#include "base/checked.h"

#include <stdlib.h>

bool cleave_list_grow(void **items, int32_t *capacity, int32_t n, size_t size) {
    if (n < *capacity)
        return true;
    if (*capacity > INT32_MAX / 2)
        return false;
    int32_t wanted = *capacity < 8 ? 8 : 2 * *capacity;
    size_t bytes;
    if (!cleave_size_multiply((size_t)wanted, size, &bytes))
        return false;
    void *grown = realloc(*items, bytes);
    if (grown == NULL)
        return false;
    *items = grown;
    *capacity = wanted;
    return true;
}

void cleave_list_release(void **items, int32_t *capacity, int32_t *n) {
    free(*items);
    *items = NULL;
    *capacity = *n = 0;
}
