#include "graph/program/allocations.h"

#include "graph/program/caching_allocator.h"

#include <stdlib.h>

static int64_t rounded(int64_t bytes) {
    int64_t unit = CLEAVE_CACHED_ROUNDING;
    return (bytes + unit - 1) / unit * unit;
}

static void push(cleave_allocations *all, cleave_allocation_change change) {
    all->failed = all->failed || !CLEAVE_LIST_PUSH(&all->changes, change);
}

void cleave_allocations_add(cleave_allocations *all, int32_t device, cleave_stream stream,
                            int64_t from, int64_t until, int64_t bytes) {
    if (until <= from || bytes == 0)
        return;
    cleave_allocation_change change = {.moment = from,
                                       .bytes = rounded(bytes),
                                       .id = all->n++,
                                       .device = device,
                                       .stream = stream};
    push(all, change);
    change.moment = until;
    change.bytes = -change.bytes;
    push(all, change);
}

void cleave_allocations_hold(cleave_allocations *all, int32_t device, int64_t from, int64_t until,
                             int64_t free_from, int64_t bytes) {
    int32_t before = all->changes.n;
    cleave_allocations_add(all, device, CLEAVE_STREAM_COMPUTE, from, until, bytes);
    if (all->failed || all->changes.n == before || free_from <= until)
        return;
    cleave_allocation_change *gone = &all->changes.items[all->changes.n - 1];
    gone->is_held = true;
    cleave_allocation_change freed = *gone;
    freed.moment = free_from;
    freed.is_held = false;
    freed.frees_block = true;
    push(all, freed);
}

void cleave_allocations_keep(cleave_allocations *all, int32_t device, int64_t from, int64_t bytes) {
    if (bytes == 0)
        return;
    push(all, (cleave_allocation_change){.moment = from,
                                         .bytes = rounded(bytes),
                                         .id = all->n++,
                                         .device = device,
                                         .stream = CLEAVE_STREAM_COMPUTE,
                                         .is_kept = true});
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
