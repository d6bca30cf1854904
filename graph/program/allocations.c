#include "graph/program/allocations.h"

#include "graph/program/caching_allocator.h"

#include <stdlib.h>

static int64_t rounded(int64_t bytes) {
    int64_t unit = CLEAVE_CACHED_ROUNDING;
    return (bytes + unit - 1) / unit * unit;
}

void cleave_allocations_add(cleave_allocations *all, int32_t device, cleave_stream stream,
                            int64_t from, int64_t until, int64_t bytes) {
    if (until <= from || bytes == 0)
        return;
    const cleave_allocation_change taken = {from, rounded(bytes), all->n, device, stream};
    const cleave_allocation_change given = {until, -rounded(bytes), all->n, device, stream};
    all->n++;
    all->failed = all->failed || !CLEAVE_LIST_PUSH(&all->changes, taken) ||
                  !CLEAVE_LIST_PUSH(&all->changes, given);
}

static int compare(const void *a, const void *b) {
    const cleave_allocation_change *x = a, *y = b;
    if (x->moment != y->moment)
        return x->moment < y->moment ? -1 : 1;
    if ((x->bytes > 0) != (y->bytes > 0))
        return x->bytes > 0 ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

void cleave_allocations_sort(cleave_allocations *all) {
    if (all->changes.n > 0)
        qsort(all->changes.items, (size_t)all->changes.n, sizeof *all->changes.items, compare);
}
