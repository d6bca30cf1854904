/* Deciding, cell by cell, who combines and who sends what to whom. */
#include "graph/lower/cell.h"

#include "base/random.h"

#include <string.h>

/* A record of moments is never cut. */
static bool is_record_dimension(const movement *move, int d) {
    return move->combiner == CLEAVE_COMBINE_MOMENTS && d == 0;
}

static int32_t holder_of(const movement *move, const lower_cell *at, int32_t i) {
    return move->cutting->holder[at->contributions[i]];
}

static int64_t key_of(const movement *move, const lower_cell *at, int32_t i) {
    return move->cutting->key[at->contributions[i]];
}

/* Dimensions past the rank are left as they are: boxes are large and many. */
static void copy_box(int rank, const cleave_box *box, cleave_box *to) {
    for (int d = 0; d < rank; d++) {
        to->lo[d] = box->lo[d];
        to->hi[d] = box->hi[d];
    }
}

static int32_t add_box(lower_builder *builder, movement *move, const cleave_box *box) {
    int rank = builder->model->tensors[move->tensor].rank;
    LOWER_PUSH(builder, &move->sizes, cleave_box_size(rank, box));
    copy_box(rank, box, LOWER_ROOM(builder, &move->boxes));
    return move->boxes.n++;
}

/* Notes the devices that read the cell, and each one's demands. */
static void mark_readers(movement *move, const lower_cell *at) {
    lower_cutting *c = move->cutting;
    if (at->readers >= 0 && at->readers == c->known_readers)
        return;
    c->known_readers = at->readers;
    if (!c->one_each)
        c->known_speaking = -1; /* who speaks for a key depends on who reads */
    for (int32_t r = 0; r < c->n_readers; r++)
        c->reads[c->readers[r]] = false;
    c->n_readers = 0;
    c->readers_hash = 0;
    for (int32_t i = at->n_demands - 1; i >= 0; i--) {
        int32_t reader = c->reader[at->demands[i]];
        c->next_demand[i] = c->reads[reader] ? c->first_demand[reader] : -1;
        c->first_demand[reader] = i;
        c->reads[reader] = true;
    }
    for (int32_t i = 0; i < at->n_demands; i++) {
        int32_t reader = c->reader[at->demands[i]];
        if (c->first_demand[reader] != i)
            continue;
        c->readers[c->n_readers++] = reader;
        c->readers_hash += cleave_hash64((uint64_t)reader);
    }
}

/* Delivers what lies at `from` on device `source` to all demands of one reader. */
static void deliver(lower_builder *builder, movement *move, const lower_cell *at, int32_t box,
                    move_stage stage, int32_t source, move_place from, int32_t reader) {
    const lower_cutting *c = move->cutting;
    if (reader == source) { /* results wait for combining, so they are copied with it */
        for (int32_t i = c->first_demand[reader]; i >= 0; i = c->next_demand[i])
            LOWER_PUSH(builder, &move->locals,
                       (move_local){.device = reader,
                                    .demand = at->demands[i],
                                    .mode = CLEAVE_COPY_ASSIGN,
                                    .box = box,
                                    .from = from});
        return;
    }
    int32_t first_target = move->targets.n;
    for (int32_t i = c->first_demand[reader]; i >= 0; i = c->next_demand[i])
        LOWER_PUSH(builder, &move->targets, (move_target){.demand = at->demands[i]});
    LOWER_PUSH(builder, &move->places, from);
    if (from >= 0)
        move->contributions.items[from].sent[MOVE_VALUE] = true;
    else
        move->sums.items[~from].sent = true;
    move_add_flow(builder, move, stage, source, reader,
                  &(move_flow){.box = box,
                               .first_source = move->places.n - 1,
                               .n_sources = 1,
                               .first_target = first_target,
                               .n_targets = move->targets.n - first_target});
}

/* One key: every reader takes the copy of a holder, its own where it has one. */
static void deliver_value(lower_builder *builder, movement *move, const lower_cell *at) {
    lower_cutting *c = move->cutting;
    int32_t box = add_box(builder, move, at->box);
    if (at->contributors < 0 || at->contributors != c->known_holders)
        for (int32_t i = 0; i < at->n_contributions; i++) /* the last of each device */
            c->first_contribution[holder_of(move, at, i)] = i;
    c->known_holders = at->contributors;
    c->known_speakers = -1;
    for (int32_t r = 0; r < c->n_readers; r++) {
        int32_t reader = c->readers[r], from = c->first_contribution[reader];
        /* What stands there of another cell names another device. */
        if (from < 0 || from >= at->n_contributions || holder_of(move, at, from) != reader) {
            if (builder->fold != NULL &&
                (move->repeats || builder->n_devices % at->n_contributions != 0))
                lower_fail_fold(builder, move->tensor,
                                "readers choose among holders by their numbers");
            from = reader + c->first_demand[reader]; /* spread readers */
            from = at->n_contributions == 1 ? 0 : from % at->n_contributions;
        }
        deliver(builder, move, at, box, MOVE_VALUE, holder_of(move, at, from),
                at->contributions[from], reader);
    }
}

/* Does j speak for the key that both have rather than i: `owner` where it holds the key, else the
   first reader that does, else the first device. */
static bool is_better(const movement *move, const lower_cell *at, int32_t j, int32_t i,
                      int32_t owner) {
    const bool *reads = move->cutting->reads;
    int32_t other = holder_of(move, at, j), mine = holder_of(move, at, i);
    if (other == owner)
        return true;
    return reads[other] != reads[mine] ? reads[other] : other < mine;
}

/* Notes whether every contribution of a cell has a key of its own. */
static void compare_keys(movement *move, const lower_cell *at) {
    lower_cutting *c = move->cutting;
    if (at->contributors >= 0 && at->contributors == c->known_keys)
        return;
    c->known_keys = at->contributors;
    c->one_each = true;
    for (int32_t i = 1; i < at->n_contributions && c->one_each; i++)
        c->one_each = key_of(move, at, i) != key_of(move, at, i - 1);
}

/* Does contribution i speak for its key?  Those of one key stand side by side. */
static bool speaks(const movement *move, const lower_cell *at, int32_t i, int32_t owner) {
    if (move->cutting->one_each || holder_of(move, at, i) == owner)
        return true;
    int64_t key = key_of(move, at, i);
    for (int32_t j = i - 1; j >= 0 && key_of(move, at, j) == key; j--)
        if (is_better(move, at, j, i, owner))
            return false;
    for (int32_t j = i + 1; j < at->n_contributions && key_of(move, at, j) == key; j++)
        if (is_better(move, at, j, i, owner))
            return false;
    return true;
}

/* Marks the devices that speak for the cell's keys, once its readers are; returns their number. */
static int32_t mark_speakers(const lower_builder *builder, movement *move, const lower_cell *at) {
    lower_cutting *c = move->cutting;
    compare_keys(move, at);
    if (at->contributors >= 0 && at->contributors == c->known_speaking)
        return c->n_speaking;
    c->known_speaking = at->contributors;
    c->n_speaking = 0;
    c->speaking_hash = 0;
    memset(c->speaks, 0, (size_t)builder->n_devices * sizeof *c->speaks);
    for (int32_t i = 0; i < at->n_contributions; i++) {
        int32_t device = holder_of(move, at, i);
        if (c->speaks[device] || !speaks(move, at, i, -1))
            continue;
        c->speaks[device] = true;
        c->speaking_hash += cleave_hash64((uint64_t)device);
        c->n_speaking++;
    }
    return c->n_speaking;
}

/* ---- combining at owners --------------------------------------------------------------------- */

/* Where the owner adds up a block: its first demand, or memory of its own. */
static move_place begin_sum(lower_builder *builder, movement *move, const lower_cell *at,
                            const cleave_box *block, int32_t owner) {
    const lower_cutting *c = move->cutting;
    move_sum *sum = LOWER_ROOM(builder, &move->sums);
    move->sums.n++;
    sum->device = owner;
    sum->receives = sum->sent = false;
    if (c->reads[owner])
        sum->at = move->demands.items[at->demands[c->first_demand[owner]]].at;
    else
        sum->at = lower_region_of(
            builder, lower_buffer(builder, CLEAVE_BUFFER_MESSAGE, owner, move->tensor, block));
    return ~(move->sums.n - 1);
}

/* The owner's own contributions; one that lies in the sum's place comes first.  Returns whether
   there are any. */
static bool combine_own(lower_builder *builder, movement *move, const lower_cell *at, int32_t box,
                        move_place sum, int32_t owner) {
    const lower_cutting *c = move->cutting;
    int rank = builder->model->tensors[move->tensor].rank;
    bool started = false;
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = c->listed[owner] == c->n_listed ? c->first_contribution[owner] : -1;
             i >= 0; i = c->next_contribution[i]) {
            bool in_place = lower_region_same_place(
                rank, &move->boxes.items[box], &move->contributions.items[at->contributions[i]].at,
                &move->sums.items[~sum].at);
            if (in_place != (pass == 0))
                continue;
            if (!in_place)
                LOWER_PUSH(builder, &move->locals,
                           (move_local){.device = owner,
                                        .demand = -1,
                                        .mode = started ? move_mode(move) : CLEAVE_COPY_ASSIGN,
                                        .box = box,
                                        .to = sum,
                                        .from = at->contributions[i]});
            started = true;
        }
    return started;
}

/* Owner of a block of a cell: adds up what it has and what comes, in a fixed order: its own
   contributions in the order of keys, then the other devices in ascending order, each summed at
   home first. */
static void combine_block(lower_builder *builder, movement *move, const lower_cell *at,
                          const cleave_box *block, int32_t owner) {
    const lower_cutting *c = move->cutting;
    int32_t box = add_box(builder, move, block);
    move_place sum = begin_sum(builder, move, at, block, owner);
    bool started = combine_own(builder, move, at, box, sum, owner);
    LOWER_RESERVE(builder, &move->places, (int64_t)at->n_contributions + c->n_speakers);
    for (int32_t s = 0; s < c->n_speakers; s++) {
        int32_t device = c->speakers[s], first_source = move->places.n;
        for (int32_t i = device == owner ? -1 : c->first_contribution[device]; i >= 0;
             i = c->next_contribution[i]) {
            if (!speaks(move, at, i, owner))
                continue;
            move->places.items[move->places.n++] = at->contributions[i];
            move->contributions.items[at->contributions[i]].sent[MOVE_PARTIAL] = true;
        }
        int32_t n_sources = move->places.n - first_source;
        if (n_sources == 0)
            continue;
        move->places.items[move->places.n++] = sum; /* just behind the sources */
        move_add_flow(builder, move, MOVE_PARTIAL, device, owner,
                      &(move_flow){.box = box,
                                   .starts = !started,
                                   .first_source = first_source,
                                   .n_sources = n_sources});
        started = true;
        move->sums.items[~sum].receives = true;
    }
    for (int32_t r = 0; r < c->n_readers; r++)
        deliver(builder, move, at, box, MOVE_RESULT, owner, sum, c->readers[r]);
}

/* Owners of a partial cell: the sole reader; else the sole contributor; else devices that are both;
   else the smaller side.  Ascending. */
static int32_t choose_owners(const lower_builder *builder, lower_cutting *c) {
    const bool *reads = c->reads, *speaks_for_key = c->speaks;
    int32_t n = 0, n_both = 0;
    if (c->n_readers == 1) {
        c->owners[0] = c->readers[0];
        return 1;
    }
    for (int32_t s = 0; s < c->n_speakers; s++)
        n_both += reads[c->speakers[s]] && speaks_for_key[c->speakers[s]];
    if (c->n_speaking > 1 && n_both == 0 && c->n_readers <= c->n_speaking) {
        for (int32_t d = 0; d < builder->n_devices; d++)
            if (reads[d])
                c->owners[n++] = d;
        return n;
    }
    for (int32_t s = 0; s < c->n_speakers; s++) {
        int32_t device = c->speakers[s];
        if (speaks_for_key[device] && (c->n_speaking == 1 || n_both == 0 || reads[device]))
            c->owners[n++] = device;
    }
    return n;
}

/* By looking at all devices, where many speak. */
static void sort_speakers(const lower_builder *builder, lower_cutting *c) {
    int32_t n = 0;
    if (c->n_speakers <= 8) {
        for (int32_t i = 1; i < c->n_speakers; i++) {
            int32_t device = c->speakers[i], s = i;
            for (; s > 0 && c->speakers[s - 1] > device; s--)
                c->speakers[s] = c->speakers[s - 1];
            c->speakers[s] = device;
        }
        return;
    }
    for (int32_t d = 0; d < builder->n_devices; d++)
        if (c->listed[d] == c->n_listed)
            c->speakers[n++] = d;
}

/* Lists the contributing devices, and what each has. */
static void list_speakers(const lower_builder *builder, movement *move, const lower_cell *at) {
    lower_cutting *c = move->cutting;
    if (at->contributors >= 0 && at->contributors == c->known_speakers)
        return;
    c->known_speakers = at->contributors;
    c->known_holders = -1;
    c->n_listed++;
    c->n_speakers = 0;
    for (int32_t i = at->n_contributions - 1; i >= 0; i--) {
        int32_t device = holder_of(move, at, i);
        bool first = c->listed[device] != c->n_listed;
        c->next_contribution[i] = first ? -1 : c->first_contribution[device];
        c->first_contribution[device] = i;
        c->listed[device] = c->n_listed;
        if (first)
            c->speakers[c->n_speakers++] = device;
    }
    sort_speakers(builder, c);
}

/* The dimension that is cut for the owners: outermost in memory among the longest, so that blocks
   are contiguous; -1: none. */
static int longest_dimension(const lower_builder *builder, const movement *move,
                             const cleave_box *box) {
    const cleave_tensor *tensor = &builder->model->tensors[move->tensor];
    int longest = -1;
    for (int i = 0; i < tensor->rank; i++) {
        int d = tensor->order[i];
        if (!is_record_dimension(move, d) &&
            (longest < 0 || box->hi[d] - box->lo[d] > box->hi[longest] - box->lo[longest]))
            longest = d;
    }
    return longest;
}

/* Partial results that are combined by owners, block by block. */
static void combine_cell(lower_builder *builder, movement *move, const lower_cell *at) {
    list_speakers(builder, move, at);
    int32_t n = choose_owners(builder, move->cutting);
    int longest = longest_dimension(builder, move, at->box);
    for (int32_t i = 0; i < (longest < 0 ? 1 : n); i++) {
        cleave_box block = *at->box;
        if (longest >= 0) {
            int64_t extent = at->box->hi[longest] - at->box->lo[longest];
            block.lo[longest] = at->box->lo[longest] + cleave_block_start(extent, n, i);
            block.hi[longest] = at->box->lo[longest] + cleave_block_start(extent, n, i + 1);
            if (block.lo[longest] >= block.hi[longest])
                continue;
        }
        combine_block(builder, move, at, &block, move->cutting->owners[i]);
    }
}

/* ---- collectives ----------------------------------------------------------------------------- */

/* Devices that share cells. */
typedef struct group {
    const bool *has; /* [n_devices] */
    int32_t n;
    uint64_t hash;
} group;

static group group_of_readers(const lower_cutting *c) {
    return (group){c->reads, c->n_readers, c->readers_hash};
}

static group group_of_speakers(const lower_cutting *c) {
    return (group){c->speaks, c->n_speaking, c->speaking_hash};
}

static bool is_of(const move_bucket *bucket, cleave_collective_kind kind, group of) {
    bool same = bucket->kind == kind && bucket->n_devices == of.n && bucket->hash == of.hash;
    for (int32_t i = 0; i < of.n && same; i++)
        same = of.has[bucket->devices[i]];
    return same;
}

/* Cells of one bucket come again and again, so each hash remembers the last one. */
static move_bucket *find_bucket(movement *move, cleave_collective_kind kind, group of) {
    int32_t *last = &move->cutting->last_bucket[of.hash % LOWER_LAST_BUCKETS];
    if (*last < move->buckets.n && is_of(&move->buckets.items[*last], kind, of))
        return &move->buckets.items[*last];
    for (int32_t b = move->buckets.n - 1; b >= 0; b--) {
        *last = b;
        if (is_of(&move->buckets.items[b], kind, of))
            return &move->buckets.items[b];
    }
    *last = move->buckets.n; /* where it will be */
    return NULL;
}

static move_bucket *add_bucket(lower_builder *builder, movement *move, cleave_collective_kind kind,
                               group of) {
    int32_t *devices = LOWER_ARRAY(builder, int32_t, of.n);
    for (int32_t d = 0, i = 0; d < builder->n_devices; d++)
        if (of.has[d])
            devices[i++] = d;
    LOWER_PUSH(builder, &move->buckets,
               (move_bucket){.kind = kind,
                             .n_devices = of.n,
                             .devices = devices,
                             .hash = of.hash,
                             .n_windows = move->repeats ? builder->fold->n_windows : 1});
    return &move->buckets.items[move->buckets.n - 1];
}

/* Puts the cell into the bucket of its kind and group, to wait there. */
static void bucket_cell(lower_builder *builder, movement *move, const lower_cell *at,
                        cleave_collective_kind kind, group of, int32_t root) {
    move_bucket *bucket = find_bucket(move, kind, of);
    if (bucket == NULL)
        bucket = add_bucket(builder, move, kind, of);
    move_cell *cell = LOWER_ROOM(builder, &move->cells);
    move->cells.n++;
    copy_box(builder->model->tensors[move->tensor].rank, at->box, &cell->box);
    cell->root = root;
    cell->first_member = move->cell_members.n;
    cell->n_contributions = 0;
    cell->n_demands = at->n_demands;
    for (int32_t i = 0; i < at->n_contributions; i++) {
        if (!speaks(move, at, i, -1))
            continue;
        LOWER_PUSH(builder, &move->cell_members, at->contributions[i]);
        cell->n_contributions++;
    }
    LOWER_RESERVE(builder, &move->cell_members, at->n_demands);
    memcpy(move->cell_members.items + move->cell_members.n, at->demands,
           (size_t)at->n_demands * sizeof *at->demands);
    move->cell_members.n += at->n_demands;
    LOWER_PUSH(builder, &bucket->cells, move->cells.n - 1);
}

/* A value that one device has and a group with that device in it reads may be part of an
 * all-gather. */
static void cell_value(lower_builder *builder, movement *move, const lower_cell *at) {
    const lower_cutting *c = move->cutting;
    int32_t source = holder_of(move, at, 0);
    if (at->n_contributions == 1 && c->reads[source] &&
        move_group_is_collective(builder, c->n_readers))
        bucket_cell(builder, move, at, CLEAVE_ALL_GATHER, group_of_readers(c), source);
    else
        deliver_value(builder, move, at);
}

static void check_combines(lower_builder *builder, const movement *move) {
    if (move->combiner == CLEAVE_COMBINE_NONE)
        lower_fail(builder, CLEAVE_FAILED, "tensor %s: an element is written twice",
                   builder->model->tensors[move->tensor].name);
}

/* Do just the `n_speakers` devices that speak for the cell read it? */
static bool reads_alike(const lower_cutting *c, int32_t n_speakers) {
    bool alike = n_speakers == c->n_readers;
    for (int32_t r = 0; r < c->n_readers && alike; r++)
        alike = c->speaks[c->readers[r]];
    return alike;
}

/* Several keys: partial results.  A group that contributes and reads alike makes an all-reduce; a
   group in which one reads may be part of a reduce-scatter. */
static void cell_partial(lower_builder *builder, movement *move, const lower_cell *at) {
    const lower_cutting *c = move->cutting;
    check_combines(builder, move);
    int32_t n = mark_speakers(builder, move, at);
    bool alike = reads_alike(c, n);
    if (alike && move_group_is_collective(builder, n))
        bucket_cell(builder, move, at, CLEAVE_ALL_REDUCE, group_of_speakers(c), -1);
    else if (c->n_readers == 1 && c->speaks[c->readers[0]] && move_group_is_collective(builder, n))
        bucket_cell(builder, move, at, CLEAVE_REDUCE_SCATTER, group_of_speakers(c), c->readers[0]);
    else
        combine_cell(builder, move, at);
}

/* A reduce-scatter or an all-gather is one only when every device of the group is the root of some
   cell; else its cells move one by one. */
static void settle_bucket(lower_builder *builder, movement *move, move_bucket *bucket) {
    bool *is_root = move->cutting->speaks;
    int32_t roots = 0;
    memset(is_root, 0, (size_t)builder->n_devices * sizeof *is_root);
    for (int32_t i = 0; i < bucket->cells.n && bucket->kind != CLEAVE_ALL_REDUCE; i++) {
        bool *root = &is_root[move->cells.items[bucket->cells.items[i]].root];
        roots += !*root;
        *root = true;
    }
    move->cutting->known_speaking = -1;
    if (bucket->kind == CLEAVE_ALL_REDUCE || roots == bucket->n_devices)
        return;
    for (int32_t i = 0; i < bucket->cells.n; i++) {
        const move_cell *waiting = &move->cells.items[bucket->cells.items[i]];
        const int32_t *members = &move->cell_members.items[waiting->first_member];
        lower_cell at = {.box = &waiting->box,
                         .n_contributions = waiting->n_contributions,
                         .n_demands = waiting->n_demands,
                         .contributions = members,
                         .demands = members + waiting->n_contributions,
                         .contributors = -1,
                         .readers = -1};
        mark_readers(move, &at);
        if (bucket->kind == CLEAVE_ALL_GATHER) {
            deliver_value(builder, move, &at);
        } else {
            mark_speakers(builder, move, &at);
            combine_cell(builder, move, &at);
        }
    }
    bucket->cells.n = 0;
}

/* A cell that all windows have alike.  Where none has keys of its own they are replicas, and every
   reader must have what it reads.  Else all must be partial results, of those that read the sum: an
   all-reduce of all windows. */
static void cell_of_windows(lower_builder *builder, movement *move, const lower_cell *at,
                            bool one_key) {
    int32_t n_own = 0;
    for (int32_t i = 0; i < at->n_contributions; i++)
        n_own += move->contributions.items[at->contributions[i]].every_window;
    if (n_own == 0 && one_key) {
        deliver_value(builder, move, at);
        return;
    }
    if (n_own < at->n_contributions)
        lower_fail_fold(builder, move->tensor, "replicas combine in one window for all");
    check_combines(builder, move);
    int32_t n = mark_speakers(builder, move, at);
    if (!reads_alike(move->cutting, n) ||
        !move_group_is_collective(builder, n * builder->fold->n_windows))
        lower_fail_fold(builder, move->tensor,
                        "windows combine it otherwise than by an all-reduce");
    bucket_cell(builder, move, at, CLEAVE_ALL_REDUCE, group_of_speakers(move->cutting), -1);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void fill_with_zero(lower_builder *builder, movement *move, const lower_cell *at) {
    if (!move->zero_where_unwritten)
        lower_fail(builder, CLEAVE_FAILED, "tensor %s: an element is read that nobody writes",
                   builder->model->tensors[move->tensor].name);
    int32_t box = add_box(builder, move, at->box);
    for (int32_t i = 0; i < at->n_demands; i++)
        LOWER_PUSH(builder, &move->locals,
                   (move_local){.device = move->cutting->reader[at->demands[i]],
                                .demand = at->demands[i],
                                .mode = CLEAVE_COPY_FILL,
                                .box = box});
}

void lower_cell_done(lower_builder *builder, movement *move, const lower_cell *at) {
    if (at->n_contributions == 0) {
        fill_with_zero(builder, move, at);
        return;
    }
    mark_readers(move, at);
    /* They are sorted by key. */
    bool one_key = key_of(move, at, 0) == key_of(move, at, at->n_contributions - 1);
    if (move->repeats)
        cell_of_windows(builder, move, at, one_key);
    else if (one_key)
        cell_value(builder, move, at);
    else
        cell_partial(builder, move, at);
}

void lower_cells_settle(lower_builder *builder, movement *move) {
    for (int32_t b = 0; b < move->buckets.n; b++)
        settle_bucket(builder, move, &move->buckets.items[b]);
}

void lower_cells_begin(lower_builder *builder, movement *move) {
    lower_cutting *c = LOWER_ARRAY(builder, lower_cutting, 1);
    int32_t n_devices = builder->n_devices;
    c->key = LOWER_ARRAY(builder, int64_t, move->contributions.n);
    c->holder = LOWER_ARRAY(builder, int32_t, move->contributions.n);
    c->reader = LOWER_ARRAY(builder, int32_t, move->demands.n);
    c->reads = LOWER_ARRAY(builder, bool, n_devices);
    c->speaks = LOWER_ARRAY(builder, bool, n_devices);
    c->readers = LOWER_ARRAY(builder, int32_t, n_devices);
    c->first_demand = LOWER_ARRAY(builder, int32_t, n_devices);
    c->first_contribution = LOWER_ARRAY(builder, int32_t, n_devices);
    c->speakers = LOWER_ARRAY(builder, int32_t, n_devices);
    c->listed = LOWER_ARRAY(builder, int32_t, n_devices);
    c->owners = LOWER_ARRAY(builder, int32_t, n_devices);
    c->next_demand = LOWER_ARRAY(builder, int32_t, move->demands.n);
    c->next_contribution = LOWER_ARRAY(builder, int32_t, move->contributions.n);
    for (int32_t i = 0; i < move->contributions.n; i++) {
        c->key[i] = move->contributions.items[i].key;
        c->holder[i] = move->contributions.items[i].device;
    }
    for (int32_t i = 0; i < move->demands.n; i++)
        c->reader[i] = move->demands.items[i].device;
    c->known_readers = c->known_holders = c->known_speakers = c->known_speaking = c->known_keys =
        -1;
    move->cutting = c;
    move->repeats = builder->fold != NULL && builder->fold->tensor_dimension[move->tensor] < 0;
}
