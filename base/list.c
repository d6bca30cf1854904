/* A growing list on the heap. */
#include "base/list.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

/* From so many bytes on a list is copied here: realloc may copy while it keeps other threads from
   any memory. */
static const size_t large = 1 << 16;

static void *resize(void *items, size_t used, size_t bytes) {
    if (bytes < large)
        return realloc(items, bytes);
    void *grown = malloc(bytes);
    if (grown != NULL && used > 0)
        memcpy(grown, items, used);
    if (grown != NULL)
        free(items);
    return grown;
}

bool cleave_list_reserve(void **items, int32_t *capacity, int32_t n, int32_t wanted, size_t size) {
    size_t bytes;
    if (wanted <= *capacity)
        return true;
    if (!cleave_size_multiply((size_t)wanted, size, &bytes))
        return false;
    void *grown = resize(*items, (size_t)n * size, bytes);
    if (grown == NULL)
        return false;
    *items = grown;
    *capacity = wanted;
    return true;
}

bool cleave_list_grow(void **items, int32_t *capacity, int32_t n, size_t size) {
    if (n < *capacity)
        return true;
    return *capacity <= INT32_MAX / 2 &&
           cleave_list_reserve(items, capacity, n, *capacity < 8 ? 8 : 2 * *capacity, size);
}

bool cleave_bytes_reserve(char **bytes, size_t *capacity, size_t wanted) {
    if (wanted <= *capacity)
        return true;
    size_t larger = *capacity + wanted + 256;
    char *grown = realloc(*bytes, larger);
    if (grown == NULL)
        return false;
    *bytes = grown;
    *capacity = larger;
    return true;
}

void cleave_list_release(void **items, int32_t *capacity, int32_t *n) {
    free(*items);
    *items = NULL;
    *capacity = *n = 0;
}
