/* Cutting a tensor into cells and deciding, cell by cell, who combines and who sends what to whom.
 */
#include "graph/lower_cut.h"

#include <stdlib.h>
#include <string.h>

/* A record of moments is never cut. */
static bool is_record_dimension(const movement *move, int d) {
    return move->combiner == CLEAVE_COMBINE_MOMENTS && d == 0;
}

static int compare_int64(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void add_local(lower_builder *builder, movement *move, int32_t device, int32_t demand,
                      cleave_copy_mode mode, const cleave_box *box, const lower_region *to,
                      const lower_region *from) {
    LOWER_PUSH(builder, &move->locals,
               (move_local){.device = device,
                            .demand = demand,
                            .mode = mode,
                            .box = *box,
                            .to = *to,
                            .from = from != NULL ? *from : *to,
                            .fill = from == NULL});
}

/* The contributions and demands of one cell. */
typedef struct cell {
    const cleave_box *box;
    int32_t n_contributions, n_demands;
    const int32_t *contributions, *demands;
} cell;

static const move_contribution *contribution_of(const movement *move, const cell *at, int32_t i) {
    return &move->contributions.items[at->contributions[i]];
}

static void add_flow(lower_builder *builder, movement *move, move_flow flow) {
    flow.order = move->flows.n;
    LOWER_PUSH(builder, &move->flows, flow);
}

/* Delivers a region on device `source` to all demands of the cell. */
static void deliver(lower_builder *builder, movement *move, const cell *at, int32_t source,
                    const lower_region *region, move_stage stage, int32_t only_reader) {
    for (int32_t i = 0; i < at->n_demands; i++) {
        int32_t reader = move->demands.items[at->demands[i]].device;
        bool seen = false;
        for (int32_t j = 0; j < i && !seen; j++)
            seen = move->demands.items[at->demands[j]].device == reader;
        if (seen || (only_reader >= 0 && reader != only_reader))
            continue;
        move_flow flow = {.stage = stage,
                          .source = source,
                          .destination = reader,
                          .box = *at->box,
                          .first_source = move->regions.n,
                          .n_sources = 1,
                          .first_target = move->targets.n};
        for (int32_t j = i; j < at->n_demands; j++) {
            int32_t demand = at->demands[j];
            if (move->demands.items[demand].device != reader)
                continue;
            if (reader == source) /* results wait for combining, so they are copied with it */
                add_local(builder, move, reader, demand, CLEAVE_COPY_ASSIGN, at->box,
                          &move->demands.items[demand].at, region);
            else
                LOWER_PUSH(builder, &move->targets, demand);
        }
        if (reader == source)
            continue;
        flow.n_targets = move->targets.n - flow.first_target;
        LOWER_PUSH(builder, &move->regions, *region);
        add_flow(builder, move, flow);
    }
}

/* One key: every reader takes the copy of a holder, its own where it has one. */
static void deliver_value(lower_builder *builder, movement *move, const cell *at) {
    for (int32_t i = 0; i < at->n_demands; i++) {
        int32_t reader = move->demands.items[at->demands[i]].device;
        bool seen = false;
        for (int32_t j = 0; j < i && !seen; j++)
            seen = move->demands.items[at->demands[j]].device == reader;
        if (seen)
            continue;
        const move_contribution *from = NULL;
        for (int32_t j = 0; j < at->n_contributions; j++)
            if (contribution_of(move, at, j)->device == reader)
                from = contribution_of(move, at, j);
        if (from == NULL && builder->fold != NULL &&
            (move->repeats || builder->n_devices % at->n_contributions != 0))
            lower_fail_fold(builder, move->tensor, "readers choose among holders by their numbers");
        if (from == NULL) /* spread readers over the holders */
            from = contribution_of(move, at, (reader + i) % at->n_contributions);
        lower_region region = from->at;
        deliver(builder, move, at, from->device, &region, MOVE_VALUE, reader);
    }
}

/* Who speaks for the key of contribution i: `owner` where it holds the key, else the first reader
   that does, else the first device. */
static bool speaks(const movement *move, const cell *at, int32_t i, int32_t owner,
                   const bool *reads) {
    const move_contribution *mine = contribution_of(move, at, i);
    if (mine->device == owner)
        return true;
    for (int32_t j = 0; j < at->n_contributions; j++) {
        const move_contribution *other = contribution_of(move, at, j);
        if (j == i || other->key != mine->key)
            continue;
        if (other->device == owner)
            return false;
        bool better = reads[other->device] != reads[mine->device] ? reads[other->device]
                                                                  : other->device < mine->device;
        if (better)
            return false;
    }
    return true;
}

/* Owner of a block of a cell: adds up what it has and what comes, in a fixed order: its own
   contributions in the order of keys, then the other devices in ascending order, each summed at
   home first. */
static void combine_block(lower_builder *builder, movement *move, const cell *at,
                          const cleave_box *block, int32_t owner, const bool *reads) {
    int rank = builder->model->tensors[move->tensor].rank;
    lower_region sum = {.buffer = -1};
    for (int32_t i = 0; i < at->n_demands && sum.buffer < 0; i++)
        if (move->demands.items[at->demands[i]].device == owner)
            sum = move->demands.items[at->demands[i]].at;
    if (sum.buffer < 0) {
        int32_t buffer = lower_buffer(builder, CLEAVE_BUFFER_MESSAGE, owner, move->tensor, block);
        sum = lower_region_of(builder, buffer);
    }
    sum = lower_region_within(rank, &sum, block);
    bool started = false;
    for (int pass = 0; pass < 2;
         pass++) /* a contribution that lies in the sum's place comes first */
        for (int32_t i = 0; i < at->n_contributions; i++) {
            const move_contribution *mine = contribution_of(move, at, i);
            if (mine->device != owner)
                continue;
            lower_region from = lower_region_within(rank, &mine->at, block);
            bool in_place = lower_region_same_place(rank, &from, &sum);
            if (in_place != (pass == 0))
                continue;
            if (!in_place)
                add_local(builder, move, owner, -1, started ? move_mode(move) : CLEAVE_COPY_ASSIGN,
                          block, &sum, &from);
            started = true;
        }
    move_flow flow = {.stage = MOVE_PARTIAL, .source = -1, .destination = owner, .box = *block};
    for (int32_t device = 0; device < builder->n_devices; device++) {
        flow.n_sources = 0;
        flow.first_source = move->regions.n;
        if (device == owner || move->first_of_device[device] < 0)
            continue;
        for (int32_t i = move->first_of_device[device]; i < at->n_contributions; i++) {
            const move_contribution *mine = contribution_of(move, at, i);
            if (mine->device != device || !speaks(move, at, i, owner, reads))
                continue;
            LOWER_PUSH(builder, &move->regions, lower_region_within(rank, &mine->at, block));
            flow.n_sources++;
        }
        if (flow.n_sources == 0)
            continue;
        flow.source = device;
        flow.first_target = started ? 1 : 0;      /* 0: the first to arrive is assigned */
        LOWER_PUSH(builder, &move->regions, sum); /* just behind the sources */
        started = true;
        add_flow(builder, move, flow);
    }
    cell part = *at;
    part.box = block;
    deliver(builder, move, &part, owner, &sum, MOVE_RESULT, -1);
}

/* Owners of a partial cell: the sole reader; else the sole contributor; else devices that are both;
   else the smaller side. */
static int32_t choose_owners(const lower_builder *builder, const bool *reads,
                             const bool *speaks_for_key, int32_t *owners) {
    int32_t n_readers = 0, n_sources = 0, n_both = 0;
    for (int32_t d = 0; d < builder->n_devices; d++) {
        n_readers += reads[d];
        n_sources += speaks_for_key[d];
        n_both += reads[d] && speaks_for_key[d];
    }
    const bool *side = n_readers == 1           ? reads
                       : n_sources == 1         ? speaks_for_key
                       : n_both > 0             ? NULL
                       : n_readers <= n_sources ? reads
                                                : speaks_for_key;
    int32_t n = 0;
    for (int32_t d = 0; d < builder->n_devices; d++)
        if (side != NULL ? side[d] : reads[d] && speaks_for_key[d])
            owners[n++] = d;
    return n;
}

/* Puts the cell into the bucket of its kind and group, to wait there.  The group is where
 * `in_group` says. */
static void bucket_cell(lower_builder *builder, movement *move, const cell *at,
                        cleave_collective_kind kind, const bool *in_group, int32_t n,
                        int32_t root) {
    int32_t n_windows = move->repeats ? builder->fold->n_windows : 1;
    move_bucket *bucket = NULL;
    for (int32_t b = 0; b < move->buckets.n && bucket == NULL; b++) {
        bucket = &move->buckets.items[b];
        bool same = bucket->kind == kind && bucket->n_devices == n;
        for (int32_t i = 0; i < n && same; i++)
            same = in_group[bucket->devices[i]];
        if (!same)
            bucket = NULL;
    }
    if (bucket == NULL) {
        int32_t *devices = LOWER_ARRAY(builder, int32_t, n);
        for (int32_t d = 0, i = 0; d < builder->n_devices; d++)
            if (in_group[d])
                devices[i++] = d;
        LOWER_PUSH(builder, &move->buckets,
                   (move_bucket){
                       .kind = kind, .n_devices = n, .devices = devices, .n_windows = n_windows});
        bucket = &move->buckets.items[move->buckets.n - 1];
    }
    LOWER_PUSH(builder, &move->cells,
               (move_cell){.box = *at->box,
                           .root = root,
                           .first_member = move->cell_members.n,
                           .n_demands = at->n_demands});
    for (int32_t i = 0; i < at->n_contributions; i++) {
        if (!speaks(move, at, i, -1, move->reads))
            continue;
        LOWER_PUSH(builder, &move->cell_members, at->contributions[i]);
        move->cells.items[move->cells.n - 1].n_contributions++;
    }
    for (int32_t i = 0; i < at->n_demands; i++)
        LOWER_PUSH(builder, &move->cell_members, at->demands[i]);
    LOWER_PUSH(builder, &bucket->cells, move->cells.n - 1);
}

/* Marks and counts the devices that read the cell. */
static int32_t mark_readers(lower_builder *builder, movement *move, const cell *at) {
    int32_t n = 0;
    memset(move->reads, 0, (size_t)builder->n_devices * sizeof *move->reads);
    for (int32_t i = 0; i < at->n_demands; i++) {
        bool *reads = &move->reads[move->demands.items[at->demands[i]].device];
        n += !*reads;
        *reads = true;
    }
    return n;
}

/* A value that one device has and a group with that device in it reads may be part of an
 * all-gather. */
static void cell_value(lower_builder *builder, movement *move, const cell *at) {
    int32_t n = mark_readers(builder, move, at), source = contribution_of(move, at, 0)->device;
    if (at->n_contributions == 1 && move->reads[source] && move_group_is_collective(builder, n))
        bucket_cell(builder, move, at, CLEAVE_ALL_GATHER, move->reads, n, source);
    else
        deliver_value(builder, move, at);
}

/* Partial results that are combined by owners, block by block. */
static void combine_cell(lower_builder *builder, movement *move, const cell *at) {
    bool *reads = move->reads;
    for (int32_t d = 0; d < builder->n_devices; d++)
        move->first_of_device[d] = -1;
    for (int32_t i = at->n_contributions - 1; i >= 0; i--)
        move->first_of_device[contribution_of(move, at, i)->device] = i;
    int32_t n = choose_owners(builder, reads, move->speaks, move->owners);
    const cleave_tensor *tensor = &builder->model->tensors[move->tensor];
    int longest = -1; /* outermost in memory among the longest, so that blocks are contiguous */
    for (int i = 0; i < tensor->rank; i++) {
        int d = tensor->order[i];
        if (!is_record_dimension(move, d) &&
            (longest < 0 ||
             at->box->hi[d] - at->box->lo[d] > at->box->hi[longest] - at->box->lo[longest]))
            longest = d;
    }
    for (int32_t i = 0; i < (longest < 0 ? 1 : n); i++) {
        cleave_box block = *at->box;
        if (longest >= 0) {
            int64_t extent = at->box->hi[longest] - at->box->lo[longest];
            block.lo[longest] = at->box->lo[longest] + cleave_block_start(extent, n, i);
            block.hi[longest] = at->box->lo[longest] + cleave_block_start(extent, n, i + 1);
            if (block.lo[longest] >= block.hi[longest])
                continue;
        }
        combine_block(builder, move, at, &block, move->owners[i], reads);
    }
}

/* Marks the devices that read the cell and those that speak for its keys; the number of the latter.
 */
static int32_t mark_partial(lower_builder *builder, movement *move, const cell *at,
                            int32_t *n_readers) {
    int32_t n = 0;
    *n_readers = mark_readers(builder, move, at);
    memset(move->speaks, 0, (size_t)builder->n_devices * sizeof *move->speaks);
    for (int32_t i = 0; i < at->n_contributions; i++) {
        bool *speaking = &move->speaks[contribution_of(move, at, i)->device];
        if (*speaking || !speaks(move, at, i, -1, move->reads))
            continue;
        *speaking = true;
        n++;
    }
    return n;
}

static void check_combines(lower_builder *builder, const movement *move) {
    if (move->combiner == CLEAVE_COMBINE_NONE)
        lower_fail(builder, CLEAVE_FAILED, "tensor %s: an element is written twice",
                   builder->model->tensors[move->tensor].name);
}

/* Several keys: partial results.  A group that contributes and reads alike makes an all-reduce; a
   group in which one reads may be part of a reduce-scatter. */
static void cell_partial(lower_builder *builder, movement *move, const cell *at) {
    check_combines(builder, move);
    int32_t n_readers, n = mark_partial(builder, move, at, &n_readers), reader = -1;
    bool alike = true;
    for (int32_t d = 0; d < builder->n_devices; d++) {
        alike = alike && move->reads[d] == move->speaks[d];
        reader = move->reads[d] ? d : reader;
    }
    if (alike && move_group_is_collective(builder, n))
        bucket_cell(builder, move, at, CLEAVE_ALL_REDUCE, move->speaks, n, -1);
    else if (n_readers == 1 && move->speaks[reader] && move_group_is_collective(builder, n))
        bucket_cell(builder, move, at, CLEAVE_REDUCE_SCATTER, move->speaks, n, reader);
    else
        combine_cell(builder, move, at);
}

/* A reduce-scatter or an all-gather is one only when every device of the group is the root of some
   cell; else its cells move one by one. */
static void settle_bucket(lower_builder *builder, movement *move, move_bucket *bucket) {
    int32_t roots = 0;
    memset(move->reads, 0, (size_t)builder->n_devices * sizeof *move->reads);
    for (int32_t i = 0; i < bucket->cells.n && bucket->kind != CLEAVE_ALL_REDUCE; i++) {
        bool *root = &move->reads[move->cells.items[bucket->cells.items[i]].root];
        roots += !*root;
        *root = true;
    }
    if (bucket->kind == CLEAVE_ALL_REDUCE || roots == bucket->n_devices)
        return;
    for (int32_t i = 0; i < bucket->cells.n; i++) {
        const move_cell *waiting = &move->cells.items[bucket->cells.items[i]];
        const int32_t *members = &move->cell_members.items[waiting->first_member];
        cell at = {.box = &waiting->box,
                   .n_contributions = waiting->n_contributions,
                   .n_demands = waiting->n_demands,
                   .contributions = members,
                   .demands = members + waiting->n_contributions};
        if (bucket->kind == CLEAVE_ALL_GATHER) {
            deliver_value(builder, move, &at);
        } else {
            int32_t n_readers;
            mark_partial(builder, move, &at, &n_readers);
            combine_cell(builder, move, &at);
        }
    }
    bucket->cells.n = 0;
}

/* A cell that all windows have alike.  Where none has keys of its own they are replicas, and every
   reader must have what it reads.  Else all must be partial results, of those that read the sum: an
   all-reduce of all windows. */
static void cell_of_windows(lower_builder *builder, movement *move, const cell *at) {
    int32_t n_own = 0, n_readers;
    bool one_key = true;
    for (int32_t i = 0; i < at->n_contributions; i++) {
        n_own += contribution_of(move, at, i)->every_window;
        one_key = one_key && contribution_of(move, at, i)->key == contribution_of(move, at, 0)->key;
    }
    if (n_own == 0 && one_key) {
        deliver_value(builder, move, at);
        return;
    }
    if (n_own < at->n_contributions)
        lower_fail_fold(builder, move->tensor, "replicas combine in one window for all");
    check_combines(builder, move);
    int32_t n = mark_partial(builder, move, at, &n_readers);
    bool alike = true;
    for (int32_t d = 0; d < builder->n_devices; d++)
        alike = alike && move->reads[d] == move->speaks[d];
    if (!alike || !move_group_is_collective(builder, n * builder->fold->n_windows))
        lower_fail_fold(builder, move->tensor, "windows combine it otherwise than by an all-reduce");
    bucket_cell(builder, move, at, CLEAVE_ALL_REDUCE, move->speaks, n, -1);
}

static void cell_done(lower_builder *builder, movement *move, const cell *at) {
    const cleave_tensor *tensor = &builder->model->tensors[move->tensor];
    if (at->n_contributions == 0) {
        if (!move->zero_where_unwritten)
            lower_fail(builder, CLEAVE_FAILED, "tensor %s: an element is read that nobody writes",
                       tensor->name);
        for (int32_t i = 0; i < at->n_demands; i++) {
            const move_demand *demand = &move->demands.items[at->demands[i]];
            add_local(builder, move, demand->device, at->demands[i], CLEAVE_COPY_FILL, at->box,
                      &demand->at, NULL);
        }
        return;
    }
    if (move->repeats) {
        cell_of_windows(builder, move, at);
        return;
    }
    bool one_key = true;
    for (int32_t i = 1; i < at->n_contributions && one_key; i++)
        one_key = contribution_of(move, at, i)->key == contribution_of(move, at, 0)->key;
    if (one_key)
        cell_value(builder, move, at);
    else
        cell_partial(builder, move, at);
}

/* Room for one level of the recursion: edges, and the boxes that lie over a slab. */
static void reserve(lower_builder *builder, movement *move, int d, int32_t n) {
    if (move->level[d].capacity >= n)
        return;
    size_t count = (size_t)n;
    move->level[d].edges = LOWER_ARRAY(builder, int64_t, 2 * count);
    move->level[d].contributions = LOWER_ARRAY(builder, int32_t, count);
    move->level[d].demands = LOWER_ARRAY(builder, int32_t, count);
    move->level[d].capacity = n;
}

static void cut_dimension(lower_builder *builder, movement *move, int d, cleave_box *box,
                          const cell *active) {
    int rank = builder->model->tensors[move->tensor].rank;
    if (active->n_demands == 0)
        return;
    if (d == rank) {
        cell leaf = *active;
        leaf.box = box;
        cell_done(builder, move, &leaf);
        return;
    }
    int32_t n = active->n_contributions + active->n_demands;
    reserve(builder, move, d, n);
    int64_t *edges = move->level[d].edges;
    int32_t n_edges = 0;
    for (int32_t i = 0; i < n; i++) {
        const cleave_box *other =
            i < active->n_contributions
                ? &move->contributions.items[active->contributions[i]].at.box
                : &move->demands.items[active->demands[i - active->n_contributions]].at.box;
        if (n_edges >= 2 && edges[n_edges - 2] == other->lo[d] &&
            edges[n_edges - 1] == other->hi[d])
            continue; /* as the one before: common, and then there is nothing to cut */
        edges[n_edges++] = other->lo[d];
        edges[n_edges++] = other->hi[d];
    }
    if (n_edges == 2) {
        box->lo[d] = edges[0];
        box->hi[d] = edges[1];
        cut_dimension(builder, move, d + 1, box, active);
        return;
    }
    qsort(edges, (size_t)n_edges, sizeof *edges, compare_int64);
    for (int32_t e = 0; e + 1 < n_edges; e++) {
        if (edges[e] == edges[e + 1])
            continue;
        box->lo[d] = edges[e];
        box->hi[d] = edges[e + 1];
        cell slab = {.contributions = move->level[d].contributions,
                     .demands = move->level[d].demands};
        for (int32_t i = 0; i < active->n_contributions; i++) {
            const cleave_box *other = &move->contributions.items[active->contributions[i]].at.box;
            if (other->lo[d] <= box->lo[d] && other->hi[d] >= box->hi[d])
                move->level[d].contributions[slab.n_contributions++] = active->contributions[i];
        }
        for (int32_t i = 0; i < active->n_demands; i++) {
            const cleave_box *other = &move->demands.items[active->demands[i]].at.box;
            if (other->lo[d] <= box->lo[d] && other->hi[d] >= box->hi[d])
                move->level[d].demands[slab.n_demands++] = active->demands[i];
        }
        cut_dimension(builder, move, d + 1, box, &slab);
    }
}

void lower_cut(lower_builder *builder, movement *move, int32_t n_contributions,
               const int32_t *contributions, int32_t n_demands, const int32_t *demands) {
    move->repeats =
        builder->fold != NULL && builder->fold->tensor_dimension[move->tensor] < 0;
    move->reads = LOWER_ARRAY(builder, bool, builder->n_devices);
    move->speaks = LOWER_ARRAY(builder, bool, builder->n_devices);
    move->owners = LOWER_ARRAY(builder, int32_t, builder->n_devices);
    move->first_of_device = LOWER_ARRAY(builder, int32_t, builder->n_devices);
    cell all = {.n_contributions = n_contributions,
                .contributions = contributions,
                .n_demands = n_demands,
                .demands = demands};
    cleave_box box = {{0}, {0}};
    cut_dimension(builder, move, 0, &box, &all);
    for (int32_t b = 0; b < move->buckets.n; b++)
        settle_bucket(builder, move, &move->buckets.items[b]);
}
