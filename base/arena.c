/* An arena: memory that is taken piece by piece and given back all at once. */
#include "base/arena.h"

#include "base/checked.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 1 << 16, ALIGNMENT = 64 };

struct cleave_arena_block {
    cleave_arena_block *next;
    size_t capacity, used;
};

/* Lies in a block. */
struct cleave_arena_adopted {
    cleave_arena_adopted *next;
    void *memory;
};

static const size_t header_bytes =
    (sizeof(cleave_arena_block) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;

static void free_adopted(cleave_arena *arena) {
    for (const cleave_arena_adopted *a = arena->adopted; a != NULL; a = a->next)
        free(a->memory);
    arena->adopted = NULL;
}

void cleave_arena_free(cleave_arena *arena) {
    free_adopted(arena);
    for (cleave_arena_block *block = arena->blocks; block != NULL;) {
        cleave_arena_block *next = block->next;
        free(block);
        block = next;
    }
    *arena = (cleave_arena){0};
}

static cleave_arena_block *add_block(cleave_arena *arena, size_t bytes) {
    /* Blocks grow with the arena, so that a large result takes few of them. */
    size_t capacity = arena->used_bytes / 4 > BLOCK_BYTES ? arena->used_bytes / 4 : BLOCK_BYTES;
    if (bytes > capacity)
        capacity = bytes;
    if (capacity > SIZE_MAX - header_bytes - ALIGNMENT)
        return NULL;
    capacity = (capacity + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    cleave_arena_block *block = aligned_alloc(ALIGNMENT, header_bytes + capacity);
    if (block == NULL)
        return NULL;
    *block = (cleave_arena_block){.next = arena->blocks, .capacity = capacity};
    arena->blocks = block;
    return block;
}

void cleave_arena_reset(cleave_arena *arena) {
    size_t capacity = 0;
    free_adopted(arena);
    for (const cleave_arena_block *block = arena->blocks; block != NULL; block = block->next)
        capacity += block->capacity;
    if (arena->blocks != NULL && arena->blocks->next != NULL) {
        cleave_arena_free(arena);
        /* Without memory for it the arena is empty, and grows again block by block. */
        add_block(arena, capacity);
    } else if (arena->blocks != NULL) {
        arena->blocks->used = 0;
    }
    arena->used_bytes = 0;
}

void *cleave_arena_alloc(cleave_arena *arena, size_t count, size_t size) {
    size_t bytes;
    if (!cleave_size_multiply(count, size, &bytes) || bytes > SIZE_MAX / 2)
        return NULL;
    size_t align = bytes >= ALIGNMENT ? ALIGNMENT : 16;
    cleave_arena_block *block = arena->blocks;
    size_t start = block != NULL ? (block->used + align - 1) & ~(align - 1) : 0;
    if (block == NULL || start > block->capacity || bytes > block->capacity - start) {
        block = add_block(arena, bytes);
        if (block == NULL)
            return NULL;
        start = 0;
    }
    block->used = start + bytes;
    arena->used_bytes += bytes;
    return memset((char *)block + header_bytes + start, 0, bytes);
}

bool cleave_arena_adopt(cleave_arena *arena, void *memory, size_t bytes) {
    cleave_arena_adopted *adopted = CLEAVE_ARENA_ARRAY(arena, cleave_arena_adopted, 1);
    if (adopted == NULL)
        return false;
    *adopted = (cleave_arena_adopted){arena->adopted, memory};
    arena->adopted = adopted;
    arena->used_bytes += bytes;
    return true;
}

char *cleave_arena_string_n(cleave_arena *arena, const char *string, size_t length) {
    char *copy = length < SIZE_MAX ? cleave_arena_alloc(arena, length + 1, 1) : NULL;
    if (copy != NULL && length > 0)
        memcpy(copy, string, length);
    return copy;
}

char *cleave_arena_string(cleave_arena *arena, const char *string) {
    return cleave_arena_string_n(arena, string, strlen(string));
}

char *cleave_arena_printf(cleave_arena *arena, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = length < 0 ? NULL : cleave_arena_alloc(arena, (size_t)length + 1, 1);
    if (text != NULL)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}
