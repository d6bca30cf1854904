/* Deciding, cell by cell, who combines and who sends what to whom. */
#include "graph/lower/cell.h"

#include "base/random.h"

#include <string.h>

int32_t lower_add_box(lower_builder *builder, movement *move, const cleave_box *box) {
    int rank = builder->model->tensors[move->tensor].rank;
    LOWER_PUSH(builder, &move->sizes, cleave_box_size(rank, box));
    lower_copy_box(rank, box, LOWER_ROOM(builder, &move->boxes));
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

void lower_deliver(lower_builder *builder, movement *move, const lower_cell *at,
                   const lower_held *held, int32_t reader) {
    const lower_cutting *c = move->cutting;
    bool is_value = held->place >= 0;
    if (reader == held->device) { /* results wait for combining, so they are copied with it */
        for (int32_t i = c->first_demand[reader]; i >= 0; i = c->next_demand[i])
            LOWER_PUSH(builder, &move->locals,
                       (move_local){.device = reader,
                                    .demand = at->demands[i],
                                    .mode = CLEAVE_COPY_ASSIGN,
                                    .box = held->box,
                                    .from = held->place});
        return;
    }
    int32_t first_target = move->targets.n;
    for (int32_t i = c->first_demand[reader]; i >= 0; i = c->next_demand[i])
        LOWER_PUSH(builder, &move->targets, (move_target){.demand = at->demands[i]});
    LOWER_PUSH(builder, &move->places, held->place);
    if (is_value)
        move->contributions.items[held->place].sent[MOVE_VALUE] = true;
    else
        move->sums.items[~held->place].sent = true;
    move_add_value(builder, move, is_value ? MOVE_VALUE : MOVE_RESULT, held->device, reader,
                   held->box, move->targets.n - first_target);
}

/* One key: every reader takes the copy of a holder, its own where it has one. */
static void deliver_value(lower_builder *builder, movement *move, const lower_cell *at) {
    lower_cutting *c = move->cutting;
    int32_t box = lower_add_box(builder, move, at->box);
    if (at->contributors < 0 || at->contributors != c->known_holders)
        for (int32_t i = 0; i < at->n_contributions; i++) /* the last of each device */
            c->first_contribution[lower_cell_holder(move, at, i)] = i;
    c->known_holders = at->contributors;
    c->known_speakers = -1;
    for (int32_t r = 0; r < c->n_readers; r++) {
        int32_t reader = c->readers[r], from = c->first_contribution[reader];
        /* What stands there of another cell names another device. */
        if (from < 0 || from >= at->n_contributions ||
            lower_cell_holder(move, at, from) != reader) {
            if (builder->fold != NULL &&
                (move->repeats || builder->fold->n_devices % at->n_contributions != 0))
                lower_fail_fold(builder, move->tensor,
                                "readers choose among holders by their numbers");
            from = r % at->n_contributions; /* spread readers */
        }
        const lower_held held = {lower_cell_holder(move, at, from), box, at->contributions[from]};
        lower_deliver(builder, move, at, &held, reader);
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
                        cleave_collective_kind kind, group of, int32_t root, int32_t window) {
    move_bucket *bucket = find_bucket(move, kind, of);
    if (bucket == NULL)
        bucket = add_bucket(builder, move, kind, of);
    move_cell *cell = LOWER_ROOM(builder, &move->cells);
    move->cells.n++;
    lower_copy_box(builder->model->tensors[move->tensor].rank, at->box, &cell->box);
    cell->root = root;
    cell->window = window;
    cell->first_member = move->cell_members.n;
    cell->n_contributions = 0;
    cell->n_demands = at->n_demands;
    for (int32_t i = 0; i < at->n_contributions; i++) {
        if (!lower_cell_speaks(move, at, i, -1))
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
    int32_t source = lower_cell_holder(move, at, 0);
    if (at->n_contributions == 1 && c->reads[source] &&
        move_group_is_collective(builder, c->n_readers))
        bucket_cell(builder, move, at, CLEAVE_ALL_GATHER, group_of_readers(c), source, 0);
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
    int32_t n = lower_mark_speakers(builder, move, at);
    bool alike = reads_alike(c, n);
    if (alike && move_group_is_collective(builder, n))
        bucket_cell(builder, move, at, CLEAVE_ALL_REDUCE, group_of_speakers(c), -1, 0);
    else if (c->n_readers == 1 && c->speaks[c->readers[0]] && move_group_is_collective(builder, n))
        bucket_cell(builder, move, at, CLEAVE_REDUCE_SCATTER, group_of_speakers(c), c->readers[0],
                    0);
    else
        lower_combine_cell(builder, move, at);
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
    if (bucket->n_windows > 1 && bucket->cells.n > 0)
        lower_fail_fold(builder, move->tensor, "not all devices have shares of it");
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
            lower_mark_speakers(builder, move, &at);
            lower_combine_cell(builder, move, &at);
        }
    }
    bucket->cells.n = 0;
}

/* A share that one device of a window has, and all devices read: of an all-gather of all windows.
 */
static void cell_of_share(lower_builder *builder, movement *move, const lower_cell *at) {
    const lower_cutting *c = move->cutting;
    int32_t source = lower_cell_holder(move, at, 0);
    if (at->n_contributions > 1 || !c->reads[source] ||
        !move_group_is_collective(builder, c->n_readers * builder->fold->n_windows))
        lower_fail_fold(builder, move->tensor, "windows share it otherwise than by an all-gather");
    bucket_cell(builder, move, at, CLEAVE_ALL_GATHER, group_of_readers(c), source,
                move->contributions.items[at->contributions[0]].of_window - 1);
}

/* Partial results of all windows: an all-reduce where those read the sum that give to it, a
   reduce-scatter where one does, for its share. */
static void partial_of_windows(lower_builder *builder, movement *move, const lower_cell *at,
                               int32_t of_window) {
    const lower_cutting *c = move->cutting;
    int32_t n = lower_mark_speakers(builder, move, at);
    bool scatters = of_window > 0 && c->n_readers == 1 && c->speaks[c->readers[0]];
    if (!(scatters || (of_window == 0 && reads_alike(c, n))) ||
        !move_group_is_collective(builder, n * builder->fold->n_windows))
        lower_fail_fold(builder, move->tensor,
                        "windows combine it otherwise than by an all-reduce or a reduce-scatter");
    bucket_cell(builder, move, at, scatters ? CLEAVE_REDUCE_SCATTER : CLEAVE_ALL_REDUCE,
                group_of_speakers(c), scatters ? c->readers[0] : -1, scatters ? of_window - 1 : 0);
}

/* A cell that all windows have alike, or that is a share of one of them.  Where none has keys of
   its own they are replicas, and every reader must have what it reads.  Else all must be partial
   results. */
static void cell_of_windows(lower_builder *builder, movement *move, const lower_cell *at,
                            bool one_key) {
    int32_t n_own = 0, of_window = move->demands.items[at->demands[0]].of_window;
    if (move->contributions.items[at->contributions[0]].of_window > 0) {
        cell_of_share(builder, move, at);
        return;
    }
    for (int32_t i = 0; i < at->n_contributions; i++)
        n_own += move->contributions.items[at->contributions[i]].every_window;
    if (n_own == 0 && one_key) {
        if (of_window <= 1) /* else another window's device does */
            deliver_value(builder, move, at);
        return;
    }
    if (n_own < at->n_contributions)
        lower_fail_fold(builder, move->tensor, "replicas combine in one window for all");
    check_combines(builder, move);
    partial_of_windows(builder, move, at, of_window);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void fill_with_zero(lower_builder *builder, movement *move, const lower_cell *at) {
    if (!move->zero_where_unwritten)
        lower_fail(builder, CLEAVE_FAILED, "tensor %s: an element is read that nobody writes",
                   builder->model->tensors[move->tensor].name);
    int32_t box = lower_add_box(builder, move, at->box);
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
    bool one_key = lower_cell_key(move, at, 0) == lower_cell_key(move, at, at->n_contributions - 1);
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

static void take_row(int32_t **rest, int32_t **row, int32_t n) {
    *row = *rest;
    *rest += n;
}

void lower_cells_begin(lower_builder *builder, movement *move) {
    lower_cutting *c = LOWER_ARRAY(builder, lower_cutting, 1);
    int32_t n_devices = builder->n_devices;
    c->key = LOWER_ARRAY(builder, int64_t, move->contributions.n);
    /* Movements are many and mostly small: all rows in one. */
    int32_t *row = LOWER_ARRAY(builder, int32_t,
                               2 * ((size_t)move->contributions.n + (size_t)move->demands.n) +
                                   7 * (size_t)n_devices);
    take_row(&row, &c->holder, move->contributions.n);
    take_row(&row, &c->next_contribution, move->contributions.n);
    take_row(&row, &c->reader, move->demands.n);
    take_row(&row, &c->next_demand, move->demands.n);
    take_row(&row, &c->readers, n_devices);
    take_row(&row, &c->first_demand, n_devices);
    take_row(&row, &c->first_contribution, n_devices);
    take_row(&row, &c->speakers, n_devices);
    take_row(&row, &c->listed, n_devices);
    take_row(&row, &c->owners, n_devices);
    take_row(&row, &c->sum_of, n_devices);
    c->reads = LOWER_ARRAY(builder, bool, 2 * (size_t)n_devices);
    c->speaks = c->reads + n_devices;
    for (int32_t i = 0; i < move->contributions.n; i++) {
        c->key[i] = move->contributions.items[i].key;
        c->holder[i] = move->contributions.items[i].device;
    }
    for (int32_t i = 0; i < move->demands.n; i++)
        c->reader[i] = move->demands.items[i].device;
    c->known_readers = c->known_holders = c->known_speakers = c->known_speaking = c->known_keys =
        -1;
    move->cutting = c;
    move->repeats =
        builder->fold != NULL && builder->fold->sharing.tensor_dimension[move->tensor] < 0;
}
