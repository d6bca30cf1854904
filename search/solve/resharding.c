/* Which cells go where. */
#include "search/solve/resharding.h"

#include "base/order.h"
#include "search/solve/resharding_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- cells ----------------------------------------------------------------------------------- */

/* A cell, what a box has in common with another, lies in one piece in the box if it is as long in
   all dimensions within the outermost one that it is longer than one element in.  Else it has a row
   for each run of elements that the box does not break. */
double reshard_rows(const cleave_sharding *s, const cleave_box *box, const cleave_box *other) {
    double rows = 1, outer = 1; /* so far, and without dimensions that the box has whole */
    for (int i = 0; i < s->rank; i++) {
        int d = s->order[i];
        int64_t lo = box->lo[d] > other->lo[d] ? box->lo[d] : other->lo[d];
        int64_t extent = (box->hi[d] < other->hi[d] ? box->hi[d] : other->hi[d]) - lo;
        if (extent != box->hi[d] - box->lo[d])
            rows = outer;
        outer *= (double)extent;
    }
    return rows > 1 ? rows : 0;
}

double reshard_common(int rank, const cleave_box *a, const cleave_box *b) {
    double elements = 1;
    for (int d = 0; d < rank; d++) {
        int64_t lo = a->lo[d] > b->lo[d] ? a->lo[d] : b->lo[d];
        int64_t hi = a->hi[d] < b->hi[d] ? a->hi[d] : b->hi[d];
        if (lo >= hi)
            return 0;
        elements *= (double)(hi - lo);
    }
    return elements;
}

static void add_cell(cleave_resharder *r, int32_t from, int32_t to) {
    const cleave_box *a = &r->from->shards[from].box, *b = &r->to->shards[to].box;
    double size = (double)r->from->element_bytes * reshard_common(r->from->rank, a, b);
    if (size == 0)
        return;
    double density = r->from->density < r->to->density ? r->from->density : r->to->density;
    const reshard_cell made = {.from = from,
                               .to = to,
                               .bytes = size * density,
                               .packs = reshard_rows(r->from, a, b),
                               .unpacks = fmax(density < 1, reshard_rows(r->to, b, a))};
    r->failed = r->failed || !CLEAVE_LIST_PUSH(&r->cells, made);
}

/* A shard at the other end of the cells of one that is looked at: of `from`, or (`to_side`) of
   `to`, where it is not looked at itself. */
static void add_other(cleave_resharder *r, bool to_side, int32_t shard, int32_t other) {
    if (!to_side)
        add_cell(r, other, shard);
    else if (!r->to_in_focus[other])
        add_cell(r, shard, other);
}

/* The shards of the grid at the other end that overlap a box, dimension by dimension. */
static void descend(cleave_resharder *r, bool to_side, int32_t shard, int d, int64_t at) {
    const cleave_sharding *grid = to_side ? r->to : r->from, *own = to_side ? r->from : r->to;
    if (d == grid->rank) {
        if (grid->grid[at] >= 0)
            add_other(r, to_side, shard, grid->grid[at]);
        return;
    }
    const cleave_box *box = &own->shards[shard].box;
    const cleave_range *ranges = grid->ranges[d];
    int32_t n = grid->n_ranges[d], first = 0;
    while (first < n && ranges[first].hi <= box->lo[d])
        first++;
    for (int32_t i = first; i < n && ranges[i].lo < box->hi[d]; i++)
        descend(r, to_side, shard, d + 1, at * n + i);
}

static void find_cells_of(cleave_resharder *r, bool to_side, int32_t shard) {
    const cleave_sharding *others = to_side ? r->to : r->from;
    if (others->grid != NULL && others->n_shards > 0) {
        descend(r, to_side, shard, 0, 0);
        return;
    }
    for (int32_t s = 0; s < others->n_shards; s++)
        add_other(r, to_side, shard, s);
}

static void focus_on_node(cleave_resharder *r, int32_t device) {
    int32_t from = r->everywhere ? 0 : r->node_start[device];
    int32_t end = r->everywhere ? r->machine->n_devices : r->node_end[device];
    for (int32_t d = from; d < end && !r->in_focus[d]; d++) {
        r->in_focus[d] = true;
        r->failed = r->failed || !CLEAVE_LIST_PUSH(&r->focus, d);
    }
}

/* Looks at one node in the middle: the corners of a tensor mostly stay where they are, at both
   ends. Where one sharding is on fewer devices than the other, also at where they begin and end:
   the further from what both have, the more has to move.  Where several devices hold the same,
   readers choose among them by number, which is not even: at all four. */
static void set_focus(cleave_resharder *r) {
    const cleave_sharding *from = r->from, *to = r->to;
    for (int32_t i = 0; i < r->focus.n; i++)
        r->in_focus[r->focus.items[i]] = false;
    r->focus.n = 0;
    if (from->n_members == 0 || to->n_members == 0)
        return;
    const cleave_sharding *wide = from->n_members > to->n_members ? from : to;
    int32_t third = (wide->last_device - wide->first_device + 1) / 3;
    focus_on_node(r, wide->first_device + third);
    if (from->has_replicas)
        focus_on_node(r, wide->first_device + 2 * third);
    if (!from->has_replicas && from->first_device == to->first_device &&
        from->last_device == to->last_device)
        return;
    focus_on_node(r, from->first_device);
    focus_on_node(r, to->first_device);
    focus_on_node(r, from->last_device);
    focus_on_node(r, to->last_device);
}

/* The cells that devices in focus have to do with: of the shards that they read, which stand side
   by side, then of those that they hold. */
static void find_cells(cleave_resharder *r) {
    r->cells.n = 0;
    for (int32_t i = 0; i < r->focus.n; i++) {
        int32_t to = r->to->shard_of[r->focus.items[i]];
        if (to >= 0 && !r->to_in_focus[to]) {
            r->to_in_focus[to] = true;
            find_cells_of(r, false, to);
        }
    }
    for (int32_t i = 0; i < r->focus.n; i++) {
        int32_t from = r->from->shard_of[r->focus.items[i]];
        if (from >= 0 && !r->from_in_focus[from]) {
            r->from_in_focus[from] = true;
            find_cells_of(r, true, from);
        }
    }
    for (int32_t i = 0; i < r->focus.n; i++) {
        int32_t to = r->to->shard_of[r->focus.items[i]];
        int32_t from = r->from->shard_of[r->focus.items[i]];
        if (to >= 0)
            r->to_in_focus[to] = false;
        if (from >= 0)
            r->from_in_focus[from] = false;
    }
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

/* One message, if a device in focus has to do with it. */
static void send(cleave_resharder *r, int32_t source, int32_t destination, double bytes,
                 const reshard_cell *cell) {
    if (r->in_focus[source] || r->in_focus[destination])
        reshard_send(r, source, destination, bytes, cell->packs, cell->unpacks);
}

/* Every reader takes the copy of a holder, its own where it has one. */
static void deliver(cleave_resharder *r, const reshard_cell *cell) {
    const cleave_shard *shard = &r->from->shards[cell->from], *to = &r->to->shards[cell->to];
    const cleave_shard_member *holders = members_of(r->from, cell->from);
    const cleave_shard_member *readers = members_of(r->to, cell->to);
    for (int32_t i = 0; i < to->n_members; i++) {
        int32_t reader = readers[i].device;
        if (r->from->shard_of[reader] != cell->from)
            send(r, holders[(reader + i) % shard->n_members].device, reader, cell->bytes, cell);
        else if (r->in_focus[reader] && !same_box(r, cell))
            reshard_copy(r, reader, 2 * cell->bytes, fmax(cell->packs, cell->unpacks));
    }
}

/* A group of devices, ascending. */
const int32_t *reshard_list_group(cleave_resharder *r, const cleave_shard_member *members,
                                  int32_t n) {
    bool ascending = true;
    for (int32_t i = 0; i < n; i++) {
        r->group[i] = members[i].device;
        ascending = ascending && (i == 0 || r->group[i - 1] < r->group[i]);
    }
    if (!ascending)
        cleave_sort_int32(r->group, n);
    return r->group;
}

/* May a value be part of an all-gather among the readers of its cell? */
static bool is_gathered(const cleave_resharder *r, const reshard_cell *cell) {
    const cleave_shard *shard = &r->from->shards[cell->from];
    return keys_of(r, cell) == 1 &&
           r->to->shards[cell->to].n_members >= reshard_least_collective(r) && !r->to->overlaps &&
           shard->n_members == 1 &&
           r->to->shard_of[members_of(r->from, cell->from)->device] == cell->to;
}

/* An all-gather where each of the readers has some of the box. */
static bool gather(cleave_resharder *r, const reshard_cell *cells, int32_t n) {
    const cleave_shard *to = &r->to->shards[cells[0].to];
    const cleave_shard_member *readers = members_of(r->to, cells[0].to);
    int32_t n_roots = 0;
    double bytes = 0;
    double unpacks = 0;
    for (int32_t i = 0; i < n; i++) {
        if (!is_gathered(r, &cells[i]))
            continue;
        n_roots++;
        bytes += cells[i].bytes;
        unpacks += cells[i].unpacks;
    }
    if (n_roots < to->n_members)
        return false;
    reshard_collective(r, CLEAVE_ALL_GATHER, to->n_members,
                       reshard_list_group(r, readers, to->n_members), bytes);
    double packed = bytes / to->n_members;
    for (int32_t i = 0; i < to->n_members; i++)
        if (r->in_focus[readers[i].device])
            reshard_copy(r, readers[i].device, 2 * (unpacks > 0 ? bytes + packed : packed),
                         unpacks);
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

/* What goes to one owner, and from it to the readers in the second stage. */
static void combine_block(cleave_resharder *r, const reshard_cell *cell, int32_t owner,
                          int32_t n_speakers, double bytes) {
    const cleave_shard *to = &r->to->shards[cell->to];
    const cleave_shard_member *readers = members_of(r->to, cell->to);
    for (int32_t s = 0; s < n_speakers; s++) {
        if (r->speakers[s] == owner)
            continue;
        send(r, r->speakers[s], owner, bytes, cell);
        if (r->in_focus[owner])
            reshard_sum(r, owner, 3 * bytes, cell->unpacks * bytes / cell->bytes);
    }
    for (int32_t i = 0; i < to->n_members; i++) {
        const reshard_flow flow = {owner, readers[i].device, bytes, cell->unpacks};
        if (flow.source != flow.destination &&
            (r->in_focus[flow.source] || r->in_focus[flow.destination]))
            r->failed = r->failed || !CLEAVE_LIST_PUSH(&r->results, flow);
    }
}

/* Owners add up a block each. */
static void combine(cleave_resharder *r, const reshard_cell *cell) {
    int32_t n_speakers = list_speakers(r, cell), n = choose_owners(r, cell, n_speakers);
    double n_elements = cell->bytes / (double)r->from->element_bytes;
    if ((double)n > n_elements)
        n = n_elements < 1 ? 1 : (int32_t)n_elements;
    for (int32_t o = 0; o < n; o++)
        combine_block(r, cell, r->owners[o], n_speakers, cell->bytes / n);
}

/* Does a device speak for one of the cell's keys, which are listed? */
static bool speaks(const cleave_resharder *r, const reshard_cell *cell, int32_t n_speakers,
                   int32_t device) {
    if (r->from->shard_of[device] != cell->from)
        return false;
    if (r->from->shards[cell->from].n_members == n_speakers)
        return true;
    for (int32_t i = 0; i < n_speakers; i++)
        if (r->speakers[i] == device)
            return true;
    return false;
}

/* May a partial result be a share of a reduce-scatter: read by one of those that add to it? */
static bool is_scattered(const cleave_resharder *r, const reshard_cell *cell) {
    const cleave_shard *from = &r->from->shards[cell->from];
    return keys_of(r, cell) >= reshard_least_collective(r) &&
           r->to->shards[cell->to].n_members == 1 && from->n_members == from->n_keys &&
           r->from->shard_of[members_of(r->to, cell->to)->device] == cell->from;
}

/* An all-reduce; or a share of a reduce-scatter, for later; or combined by owners. */
static void reduce(cleave_resharder *r, const reshard_cell *cell) {
    if (is_scattered(r, cell)) {
        r->scattered[cell->from] += cell->bytes;
        r->n_roots[cell->from]++;
        return;
    }
    const cleave_shard *to = &r->to->shards[cell->to];
    const cleave_shard_member *readers = members_of(r->to, cell->to);
    int32_t n_speakers = keys_of(r, cell), n_read = 0;
    if (n_speakers >= reshard_least_collective(r) && n_speakers == to->n_members) {
        list_speakers(r, cell);
        for (int32_t i = 0; i < to->n_members; i++)
            n_read += speaks(r, cell, n_speakers, readers[i].device);
    }
    if (n_read > 1 && n_read == n_speakers)
        reshard_collective(r, CLEAVE_ALL_REDUCE, n_read, reshard_list_group(r, readers, n_read),
                           cell->bytes);
    else
        combine(r, cell);
}

/* Cells that were left for a reduce-scatter, which is one where each of the group gets some. */
static void settle(cleave_resharder *r) {
    for (int32_t c = 0; c < r->cells.n; c++) {
        const reshard_cell *cell = &r->cells.items[c];
        const cleave_shard *shard = &r->from->shards[cell->from];
        if (r->n_roots[cell->from] == 0 || !is_scattered(r, cell))
            continue;
        if (r->n_roots[cell->from] < shard->n_members) {
            combine(r, cell);
            continue;
        }
        const cleave_shard_member *members = members_of(r->from, cell->from);
        double bytes = r->scattered[cell->from];
        reshard_collective(r, CLEAVE_REDUCE_SCATTER, shard->n_members,
                           reshard_list_group(r, members, shard->n_members), bytes);
        for (int32_t i = 0; i < shard->n_members; i++)
            if (r->in_focus[members[i].device])
                reshard_copy(r, members[i].device, 2 * bytes, 0);
        r->n_roots[cell->from] = 0;
    }
    for (int32_t c = 0; c < r->cells.n; c++)
        r->n_roots[r->cells.items[c].from] = 0, r->scattered[r->cells.items[c].from] = 0;
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

/* Does every device in focus have all that it reads, and nobody there anything to add? */
static bool is_aligned(const cleave_resharder *r) {
    if (r->from->overlaps)
        return false;
    for (int32_t i = 0; i < r->focus.n; i++) {
        int32_t device = r->focus.items[i];
        int32_t there = r->to->shard_of[device], own = r->from->shard_of[device];
        if (own >= 0 && r->sort == CLEAVE_RESHARD_RESULTS && r->from->shards[own].n_keys > 1)
            return false;
        if (there >= 0 && (own < 0 || !cleave_box_equal(r->to->rank, &r->to->shards[there].box,
                                                        &r->from->shards[own].box)))
            return false;
    }
    return true;
}

cleave_status cleave_resharding_cost(cleave_resharder *r, const cleave_sharding *from,
                                     const cleave_sharding *to, cleave_resharding_sort sort,
                                     int64_t *picoseconds, cleave_error *error) {
    *picoseconds = 0;
    r->from = from;
    r->to = to;
    r->sort = sort;
    r->results.n = 0;
    r->n_reshardings++;
    set_focus(r);
    if (is_aligned(r))
        return CLEAVE_OK;
    if (reshard_even(r)) {
        *picoseconds = cleave_picoseconds(reshard_end_stage(r));
        return CLEAVE_OK;
    }
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
        reshard_send(r, flow->source, flow->destination, flow->bytes, 0, flow->unpacks);
    }
    seconds += reshard_end_stage(r);
    if (r->failed) {
        r->failed = false;
        return cleave_fail_memory(error, "pricing transfers");
    }
    *picoseconds = cleave_picoseconds(seconds);
    return CLEAVE_OK;
}
