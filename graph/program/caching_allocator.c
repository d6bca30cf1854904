#include "graph/program/caching_allocator.h"

static const int64_t mib = INT64_C(1) << 20;

static int64_t segment_for(int64_t bytes) {
    return bytes <= mib       ? 2 * mib
           : bytes < 10 * mib ? 20 * mib
                              : (bytes + 2 * mib - 1) / (2 * mib) * 2 * mib;
}

static int32_t add_block(cleave_caching_allocator *a, cleave_cached_block block) {
    return CLEAVE_LIST_PUSH(&a->blocks, block) ? a->blocks.n - 1 : -1;
}

/* Out of the list of free ones; of blocks that are equally large the older comes first. */
static int32_t take_best(cleave_caching_allocator *a, int64_t bytes, bool is_small,
                         cleave_stream stream) {
    int32_t best = -1;
    for (int32_t i = 0; i < a->free.n; i++) {
        const cleave_cached_block *x = &a->blocks.items[a->free.items[i]];
        if (x->is_small != is_small || x->stream != stream || x->bytes < bytes)
            continue;
        const cleave_cached_block *y = best < 0 ? NULL : &a->blocks.items[a->free.items[best]];
        if (y == NULL || x->bytes < y->bytes ||
            (x->bytes == y->bytes && a->free.items[i] < a->free.items[best]))
            best = i;
    }
    if (best < 0)
        return -1;
    int32_t block = a->free.items[best];
    a->free.items[best] = a->free.items[--a->free.n];
    return block;
}

/* What the block has beyond `bytes` becomes one of its own. */
static bool split(cleave_caching_allocator *a, int32_t block, int64_t bytes) {
    cleave_cached_block *of = &a->blocks.items[block];
    int64_t rest = of->bytes - bytes;
    if (rest < (of->is_small ? CLEAVE_CACHED_ROUNDING : mib + 1))
        return true;
    int32_t made = add_block(a, (cleave_cached_block){.bytes = rest,
                                                      .before = block,
                                                      .after = of->after,
                                                      .is_free = true,
                                                      .is_small = of->is_small,
                                                      .stream = of->stream});
    if (made < 0)
        return false;
    of = &a->blocks.items[block];
    if (of->after >= 0)
        a->blocks.items[of->after].before = made;
    of->after = made;
    of->bytes = bytes;
    return CLEAVE_LIST_PUSH(&a->free, made);
}

int32_t cleave_caching_allocate(cleave_caching_allocator *a, int64_t bytes, cleave_stream stream) {
    bool is_small = bytes <= mib;
    int32_t block = take_best(a, bytes, is_small, stream);
    if (block < 0) {
        block = add_block(a, (cleave_cached_block){.bytes = segment_for(bytes),
                                                   .before = -1,
                                                   .after = -1,
                                                   .is_small = is_small,
                                                   .stream = stream});
        a->reserved_bytes += segment_for(bytes);
    }
    if (block < 0 || !split(a, block, bytes))
        return -1;
    a->blocks.items[block].is_free = false;
    return block;
}

static void forget_free(cleave_caching_allocator *a, int32_t block) {
    int32_t i = 0;
    while (a->free.items[i] != block)
        i++;
    a->free.items[i] = a->free.items[--a->free.n];
}

/* The second, behind the first, becomes part of it. */
static void join(cleave_caching_allocator *a, int32_t first, int32_t second) {
    cleave_cached_block *x = &a->blocks.items[first], *y = &a->blocks.items[second];
    x->bytes += y->bytes;
    x->after = y->after;
    if (y->after >= 0)
        a->blocks.items[y->after].before = first;
    y->bytes = 0;
    y->is_free = false;
}

bool cleave_caching_release(cleave_caching_allocator *a, int32_t block) {
    int32_t after = a->blocks.items[block].after, before = a->blocks.items[block].before;
    if (after >= 0 && a->blocks.items[after].is_free) {
        forget_free(a, after);
        join(a, block, after);
    }
    if (before >= 0 && a->blocks.items[before].is_free) {
        join(a, before, block);
        return true; /* it is in the list */
    }
    a->blocks.items[block].is_free = true;
    return CLEAVE_LIST_PUSH(&a->free, block);
}

void cleave_caching_allocator_end(cleave_caching_allocator *a) {
    CLEAVE_LIST_FREE(&a->blocks);
    CLEAVE_LIST_FREE(&a->free);
}
