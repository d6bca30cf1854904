#include "exec/world/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { PAGE = 4096, LARGE_PAGE = 2 << 20, FEW = 64 << 10 };

void *cleave_memory_allocate(size_t bytes) {
    size_t page = bytes < FEW ? PAGE : LARGE_PAGE;
    if (bytes > SIZE_MAX - page)
        return NULL;
    size_t rounded = (bytes / page + 1) * page;
    void *memory = aligned_alloc(page, rounded);
#ifdef MADV_HUGEPAGE
    if (memory != NULL && page == LARGE_PAGE)
        madvise(memory, rounded, MADV_HUGEPAGE); /* a wish */
#endif
    return memory;
}
