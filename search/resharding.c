/* Which cells go where. */
#include "search/resharding.h"

#include "search/resharding_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- cells ----------------------------------------------------------------------------------- */

/* Does a cell lie in one piece in a box around it?  Then it is as long as the box in all dimensions
   within the outermost one that it is longer than one element in. */
static bool is_dense(const cleave_sharding *s, const cleave_box *box, const cleave_box *cell) {
    bool within = false;
    for (int i = 0; i < s->rank; i++) {
        int d = s->order[i];
        int64_t extent = cell->hi[d] - cell->lo[d];
        if (within && extent != box->hi[d] - box->lo[d])
            return false;
        within = within || extent > 1;
    }
    return true;
}

static void add_cell(cleave_resharder *r, int32_t from, int32_t to) {
    const cleave_box *a = &r->from->shards[from].box, *b = &r->to->shards[to].box;
    cleave_box cell;
    double size = (double)r->from->element_bytes;
    for (int d = 0; d < r->from->rank; d++) {
        cell.lo[d] = a->lo[d] > b->lo[d] ? a->lo[d] : b->lo[d];
        cell.hi[d] = a->hi[d] < b->hi[d] ? a->hi[d] : b->hi[d];
        if (cell.lo[d] >= cell.hi[d])
            return;
        size *= (double)(cell.hi[d] - cell.lo[d]);
    }
    double density = r->from->density < r->to->density ? r->from->density : r->to->density;
    const reshard_cell made = {.from = from,
                               .to = to,
                               .bytes = size * density,
                               .packs = !is_dense(r->from, a, &cell),
                               .unpacks = density < 1 || !is_dense(r->to, b, &cell)};
    r->failed = r->failed || !CLEAVE_LIST_PUSH(&r->cells, made);
}

/* The shards of `from` in the grid that overlap one of `to`, dimension by dimension. */
static void descend(cleave_resharder *r, int32_t to, int d, int64_t at) {
    const cleave_sharding *from = r->from;
    if (d == from->rank) {
        if (from->grid[at] >= 0)
            add_cell(r, from->grid[at], to);
        return;
    }
    const cleave_box *box = &r->to->shards[to].box;
    const cleave_range *ranges = from->ranges[d];
    int32_t n = from->n_ranges[d], first = 0;
    while (first < n && ranges[first].hi <= box->lo[d])
        first++;
    for (int32_t i = first; i < n && ranges[i].lo < box->hi[d]; i++)
        descend(r, to, d + 1, at * n + i);
}

/* Cells stand by shards of `to`. */
static void find_cells(cleave_resharder *r) {
    r->cells.n = 0;
    for (int32_t to = 0; to < r->to->n_shards; to++)
        if (r->from->grid != NULL && r->from->n_shards > 0)
            descend(r, to, 0, 0);
        else
            for (int32_t from = 0; from < r->from->n_shards; from++)
                add_cell(r, from, to);
}

/* ---- values ---------------------------------------------------------------------------------- */

static const cleave_shard_member *members_of(const cleave_sharding *s, int32_t shard) {
    return s->members + s->shards[shard].first_member;
}

static int32_t keys_of(const cleave_resharder *r, const reshard_cell *cell) {
    return r->sort == CLEAVE_RESHARD_VALUES ? 1 : r->from->shards[cell->from].n_keys;
}

static bool same_box(const cleave_resharder *r, const reshard_cell *cell) {
    return cleave_box_equal(r->from->rank, &r->from->shards[cell->from].box,
                            &r->to->shards[cell->to].box);
}

/* Every reader takes the copy of a holder, its own where it has one. */
static void deliver(cleave_resharder *r, const reshard_cell *cell) {
    const cleave_shard *shard = &r->from->shards[cell->from], *to = &r->to->shards[cell->to];
    const cleave_shard_member *holders = members_of(r->from, cell->from);
    const cleave_shard_member *readers = members_of(r->to, cell->to);
    for (int32_t i = 0; i < to->n_members; i++) {
        int32_t reader = readers[i].device;
        if (r->from->shard_of[reader] != cell->from)
            reshard_send(r, holders[(reader + i) % shard->n_members].device, reader, cell->bytes,
                         cell->packs, cell->unpacks);
        else if (!same_box(r, cell))
            reshard_copy(r, reader, 2 * cell->bytes);
    }
}

static int by_device(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* A group of devices, ascending. */
static const int32_t *list_group(cleave_resharder *r, const cleave_shard_member *members,
                                 int32_t n) {
    bool ascending = true;
    for (int32_t i = 0; i < n; i++) {
        r->group[i] = members[i].device;
        ascending = ascending && (i == 0 || r->group[i - 1] < r->group[i]);
    }
    if (!ascending)
        qsort(r->group, (size_t)n, sizeof *r->group, by_device);
    return r->group;
}

/* May a value be part of an all-gather among the readers of its cell? */
static bool is_gathered(const cleave_resharder *r, const reshard_cell *cell) {
    const cleave_shard *shard = &r->from->shards[cell->from];
    return keys_of(r, cell) == 1 && r->to->shards[cell->to].n_members > 2 && !r->to->overlaps &&
           shard->n_members == 1 &&
           r->to->shard_of[members_of(r->from, cell->from)->device] == cell->to;
}

/* An all-gather where each of the readers has some of the box. */
static bool gather(cleave_resharder *r, const reshard_cell *cells, int32_t n) {
    const cleave_shard *to = &r->to->shards[cells[0].to];
    const cleave_shard_member *readers = members_of(r->to, cells[0].to);
    int32_t n_roots = 0;
    double bytes = 0;
    bool unpacks = false;
    for (int32_t i = 0; i < n; i++) {
        if (!is_gathered(r, &cells[i]))
            continue;
        n_roots++;
        bytes += cells[i].bytes;
        unpacks = unpacks || cells[i].unpacks;
    }
    if (n_roots < to->n_members)
        return false;
    reshard_collective(r, CLEAVE_ALL_GATHER, to->n_members, list_group(r, readers, to->n_members),
                       bytes);
    for (int32_t i = 0; i < to->n_members; i++)
        reshard_copy(r, readers[i].device,
                     2 * (unpacks ? bytes + bytes / to->n_members : bytes / to->n_members));
    return true;
}

/* ---- partial results ------------------------------------------------------------------------- */

/* The device that speaks for each key: a reader where one holds it, else the first.  Returns their
   number. */
static int32_t list_speakers(const cleave_resharder *r, const reshard_cell *cell) {
    const cleave_shard *shard = &r->from->shards[cell->from];
    const cleave_shard_member *holders = members_of(r->from, cell->from);
    int32_t n = 0;
    bool reads = false;
    for (int32_t i = 0; i < shard->n_members; i++) {
        int32_t device = holders[i].device;
        bool new_key = i == 0 || holders[i].key != holders[i - 1].key;
        if (new_key) {
            r->speakers[n++] = device;
            reads = r->to->shard_of[device] == cell->to;
        } else if (!reads && r->to->shard_of[device] == cell->to) {
            r->speakers[n - 1] = device;
            reads = true;
        }
    }
    return n;
}

/* The sole reader; else devices that are both; else the smaller side. */
static int32_t choose_owners(const cleave_resharder *r, const reshard_cell *cell,
                             int32_t n_speakers) {
    const cleave_shard *to = &r->to->shards[cell->to];
    const cleave_shard_member *readers = members_of(r->to, cell->to);
    int32_t n = 0;
    for (int32_t i = 0; i < n_speakers && to->n_members > 1; i++)
        if (r->to->shard_of[r->speakers[i]] == cell->to)
            r->owners[n++] = r->speakers[i];
    if (n > 0)
        return n;
    bool readers_own = to->n_members <= n_speakers;
    n = readers_own ? to->n_members : n_speakers;
    for (int32_t i = 0; i < n; i++)
        r->owners[i] = readers_own ? readers[i].device : r->speakers[i];
    return n;
}

/* Owners add up a block each, and send it to the readers in the second stage. */
static void combine(cleave_resharder *r, const reshard_cell *cell) {
    const cleave_shard *to = &r->to->shards[cell->to];
    const cleave_shard_member *readers = members_of(r->to, cell->to);
    int32_t n_speakers = list_speakers(r, cell), n = choose_owners(r, cell, n_speakers);
    double n_elements = cell->bytes / (double)r->from->element_bytes;
    if ((double)n > n_elements)
        n = n_elements < 1 ? 1 : (int32_t)n_elements;
    double bytes = cell->bytes / n;
    for (int32_t o = 0; o < n; o++) {
        for (int32_t s = 0; s < n_speakers; s++) {
            if (r->speakers[s] == r->owners[o])
                continue;
            reshard_send(r, r->speakers[s], r->owners[o], bytes, cell->packs, false);
            reshard_copy(r, r->owners[o], 3 * bytes);
        }
        for (int32_t i = 0; i < to->n_members; i++) {
            const reshard_flow flow = {r->owners[o], readers[i].device, bytes, cell->unpacks};
            if (flow.source != flow.destination)
                r->failed = r->failed || !CLEAVE_LIST_PUSH(&r->results, flow);
        }
    }
}

static bool speaks(const cleave_resharder *r, int32_t n_speakers, int32_t device) {
    for (int32_t i = 0; i < n_speakers; i++)
        if (r->speakers[i] == device)
            return true;
    return false;
}

/* An all-reduce; or a share of a reduce-scatter, for later; or combined by owners. */
static void reduce(cleave_resharder *r, const reshard_cell *cell) {
    const cleave_shard *from = &r->from->shards[cell->from], *to = &r->to->shards[cell->to];
    const cleave_shard_member *readers = members_of(r->to, cell->to);
    int32_t n_speakers = list_speakers(r, cell), n_read = 0;
    for (int32_t i = 0; i < n_speakers; i++)
        n_read += r->to->shard_of[r->speakers[i]] == cell->to;
    if (n_speakers > 2 && n_read == n_speakers && n_read == to->n_members) {
        reshard_collective(r, CLEAVE_ALL_REDUCE, n_read, list_group(r, readers, n_read),
                           cell->bytes);
    } else if (n_speakers > 2 && to->n_members == 1 && from->n_members == n_speakers &&
               speaks(r, n_speakers, readers->device)) {
        r->scattered[cell->from] += cell->bytes;
        r->n_roots[cell->from]++;
    } else {
        combine(r, cell);
    }
}

/* Cells that were left for a reduce-scatter, which is one where each of the group gets some. */
static void settle(cleave_resharder *r) {
    for (int32_t s = 0; s < r->from->n_shards; s++) {
        const cleave_shard *shard = &r->from->shards[s];
        if (r->n_roots[s] < shard->n_members)
            continue;
        const cleave_shard_member *members = members_of(r->from, s);
        reshard_collective(r, CLEAVE_REDUCE_SCATTER, shard->n_members,
                           list_group(r, members, shard->n_members), r->scattered[s]);
        for (int32_t i = 0; i < shard->n_members; i++)
            reshard_copy(r, members[i].device, 2 * r->scattered[s]);
    }
    for (int32_t c = 0; c < r->cells.n; c++) {
        const reshard_cell *cell = &r->cells.items[c];
        const cleave_shard *shard = &r->from->shards[cell->from];
        if (r->n_roots[cell->from] == 0 || r->n_roots[cell->from] >= shard->n_members ||
            r->to->shards[cell->to].n_members != 1)
            continue;
        int32_t n_speakers = list_speakers(r, cell);
        if (speaks(r, n_speakers, members_of(r->to, cell->to)->device))
            combine(r, cell);
    }
    memset(r->n_roots, 0, (size_t)r->from->n_shards * sizeof *r->n_roots);
    memset(r->scattered, 0, (size_t)r->from->n_shards * sizeof *r->scattered);
}

/* The cells of one shard of `to`. */
static void move_shard(cleave_resharder *r, const reshard_cell *cells, int32_t n) {
    bool gathered = gather(r, cells, n);
    for (int32_t i = 0; i < n; i++)
        if (keys_of(r, &cells[i]) > 1)
            reduce(r, &cells[i]);
        else if (!gathered || !is_gathered(r, &cells[i]))
            deliver(r, &cells[i]);
}

/* Does every device have all that it reads, and nobody anything to add? */
static bool is_aligned(const cleave_sharding *from, const cleave_sharding *to,
                       cleave_resharding_sort sort) {
    if (from->n_devices != to->n_devices || from->overlaps)
        return false;
    for (int32_t d = 0; d < to->n_devices; d++) {
        int32_t there = to->shard_of[d], own = from->shard_of[d];
        if (there >= 0 && (own < 0 || !cleave_box_equal(to->rank, &to->shards[there].box,
                                                        &from->shards[own].box)))
            return false;
    }
    for (int32_t s = 0; s < from->n_shards && sort == CLEAVE_RESHARD_RESULTS; s++)
        if (from->shards[s].n_keys > 1)
            return false;
    return true;
}

cleave_status cleave_resharding_cost(cleave_resharder *r, const cleave_sharding *from,
                                     const cleave_sharding *to, cleave_resharding_sort sort,
                                     int64_t *picoseconds, cleave_error *error) {
    *picoseconds = 0;
    if (is_aligned(from, to, sort))
        return CLEAVE_OK;
    r->from = from;
    r->to = to;
    r->sort = sort;
    r->results.n = 0;
    find_cells(r);
    for (int32_t c = 0, end; c < r->cells.n && !r->failed; c = end) {
        for (end = c; end < r->cells.n && r->cells.items[end].to == r->cells.items[c].to;)
            end++;
        move_shard(r, &r->cells.items[c], end - c);
    }
    settle(r);
    double seconds = reshard_end_stage(r);
    for (int32_t i = 0; i < r->results.n; i++) {
        const reshard_flow *flow = &r->results.items[i];
        reshard_send(r, flow->source, flow->destination, flow->bytes, false, flow->unpacks);
    }
    seconds += reshard_end_stage(r);
    if (r->failed) {
        r->failed = false;
        return cleave_fail_memory(error, "pricing transfers");
    }
    *picoseconds = cleave_picoseconds(seconds);
    return CLEAVE_OK;
}
