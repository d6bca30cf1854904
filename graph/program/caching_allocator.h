/* PyTorch's caching allocator, as far as it decides how much of a device it reserves.

   It takes segments from the device and gives none back: blocks that were released are joined with
   free neighbours of their segment, and the smallest free one that is large enough is taken again.
   What asks for up to 1 MiB has segments of its own, of 2 MiB; below 10 MiB one takes 20 MiB,
   beyond a multiple of 2.  What is left of a block is split off where it is worth it: of small ones
   always, of large ones more than 1 MiB.  What a stream has let go is taken by itself alone.
   (PyTorch 2: <c10/cuda/CUDACachingAllocator.cpp>.) */
#ifndef CLEAVE_GRAPH_PROGRAM_CACHING_ALLOCATOR_H
#define CLEAVE_GRAPH_PROGRAM_CACHING_ALLOCATOR_H

#include "base/list.h"
#include "graph/program/allocations.h"

typedef struct cleave_cached_block {
    int64_t bytes;
    int32_t before, after; /* neighbours in the segment; -1: none */
    bool is_free, is_small;
    cleave_stream stream; /* that it is of */
} cleave_cached_block;

/* All 0 in the beginning. */
typedef struct cleave_caching_allocator {
    CLEAVE_LIST(cleave_cached_block) blocks; /* a block that was joined has 0 bytes */
    CLEAVE_LIST(int32_t) free;
    int64_t reserved_bytes;
} cleave_caching_allocator;

enum { CLEAVE_CACHED_ROUNDING = 512 };

/* A multiple of the rounding, at least one; -1 when memory is short. */
int32_t cleave_caching_allocate(cleave_caching_allocator *allocator, int64_t bytes,
                                cleave_stream stream);
/* False when memory is short. */
bool cleave_caching_release(cleave_caching_allocator *allocator, int32_t block);
void cleave_caching_allocator_end(cleave_caching_allocator *allocator);

#endif
