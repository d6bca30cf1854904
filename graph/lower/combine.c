/* Partial results of a cell: who speaks for each key, and adding up at owners, block by block. */
#include "graph/lower/cell.h"

#include "base/random.h"

#include <string.h>

/* Of a device that would be an owner and has no sum yet; no place is this. */
enum { NO_SUM = 1 };

/* A record of moments is never cut. */
static bool is_record_dimension(const movement *move, int d) {
    return move->combiner == CLEAVE_COMBINE_MOMENTS && d == 0;
}

/* Does j speak for the key that both have rather than i: `owner` where it holds the key, else the
   first reader that does, else the first device. */
static bool is_better(const movement *move, const lower_cell *at, int32_t j, int32_t i,
                      int32_t owner) {
    const bool *reads = move->cutting->reads;
    int32_t other = lower_cell_holder(move, at, j), mine = lower_cell_holder(move, at, i);
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
        c->one_each = lower_cell_key(move, at, i) != lower_cell_key(move, at, i - 1);
}

bool lower_cell_speaks(const movement *move, const lower_cell *at, int32_t i, int32_t owner) {
    if (move->cutting->one_each || lower_cell_holder(move, at, i) == owner)
        return true;
    int64_t key = lower_cell_key(move, at, i);
    for (int32_t j = i - 1; j >= 0 && lower_cell_key(move, at, j) == key; j--)
        if (is_better(move, at, j, i, owner))
            return false;
    for (int32_t j = i + 1; j < at->n_contributions && lower_cell_key(move, at, j) == key; j++)
        if (is_better(move, at, j, i, owner))
            return false;
    return true;
}

int32_t lower_mark_speakers(const lower_builder *builder, movement *move, const lower_cell *at) {
    lower_cutting *c = move->cutting;
    compare_keys(move, at);
    if (at->contributors >= 0 && at->contributors == c->known_speaking)
        return c->n_speaking;
    c->known_speaking = at->contributors;
    c->n_speaking = 0;
    c->speaking_hash = 0;
    memset(c->speaks, 0, (size_t)builder->n_devices * sizeof *c->speaks);
    for (int32_t i = 0; i < at->n_contributions; i++) {
        int32_t device = lower_cell_holder(move, at, i);
        if (c->speaks[device] || !lower_cell_speaks(move, at, i, -1))
            continue;
        c->speaks[device] = true;
        c->speaking_hash += cleave_hash64((uint64_t)device);
        c->n_speaking++;
    }
    return c->n_speaking;
}

/* ---- combining at owners --------------------------------------------------------------------- */

/* A contribution of the owner that may be added to. */
static const lower_region *own_place(const lower_builder *builder, const movement *move,
                                     const lower_cell *at, int32_t owner) {
    const lower_cutting *c = move->cutting;
    for (int32_t i = c->listed[owner] == c->n_listed ? c->first_contribution[owner] : -1; i >= 0;
         i = c->next_contribution[i]) {
        const move_contribution *from = &move->contributions.items[at->contributions[i]];
        if (from->may_take && !from->taken &&
            lower_type_of(builder, from->at.buffer) == move->sum_type)
            return &from->at;
    }
    return NULL;
}

/* Where the owner adds up a block: its first demand; where that is less exact than the sum, a
   contribution; or memory of its own. */
static move_place begin_sum(lower_builder *builder, movement *move, const lower_cell *at,
                            const cleave_box *block, int32_t owner) {
    const lower_cutting *c = move->cutting;
    move_sum *sum = LOWER_ROOM(builder, &move->sums);
    move->sums.n++;
    sum->device = owner;
    sum->receives = sum->sent = false;
    bool reads = c->reads[owner] && move->value_type == move->sum_type;
    const lower_region *own =
        c->reads[owner] && !reads ? own_place(builder, move, at, owner) : NULL;
    if (reads)
        sum->at = move->demands.items[at->demands[c->first_demand[owner]]].at;
    else if (own != NULL)
        sum->at = *own;
    else
        sum->at =
            lower_region_of(builder, lower_buffer_of_type(builder, CLEAVE_BUFFER_MESSAGE, owner,
                                                          move->tensor, move->sum_type, block));
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
static move_place add_up(lower_builder *builder, movement *move, const lower_cell *at, int32_t box,
                         int32_t owner) {
    const lower_cutting *c = move->cutting;
    move_place sum = begin_sum(builder, move, at, &move->boxes.items[box], owner);
    bool started = combine_own(builder, move, at, box, sum, owner);
    LOWER_RESERVE(builder, &move->places, (int64_t)at->n_contributions + c->n_speakers);
    for (int32_t s = 0; s < c->n_speakers; s++) {
        int32_t device = c->speakers[s], first_source = move->places.n;
        for (int32_t i = device == owner ? -1 : c->first_contribution[device]; i >= 0;
             i = c->next_contribution[i]) {
            if (!lower_cell_speaks(move, at, i, owner))
                continue;
            move->places.items[move->places.n++] = at->contributions[i];
            move->contributions.items[at->contributions[i]].sent[MOVE_PARTIAL] = true;
        }
        int32_t n_sources = move->places.n - first_source;
        if (n_sources == 0)
            continue;
        move->places.items[move->places.n++] = sum; /* just behind the sources */
        move_add_partial(builder, move, device, owner, box, n_sources, !started);
        started = true;
        move->sums.items[~sum].receives = true;
    }
    return sum;
}

static void combine_block(lower_builder *builder, movement *move, const lower_cell *at,
                          const cleave_box *block, int32_t owner) {
    const lower_cutting *c = move->cutting;
    int32_t box = lower_add_box(builder, move, block);
    const lower_held sum = {owner, box, add_up(builder, move, at, box, owner)};
    for (int32_t r = 0; r < c->n_readers; r++)
        lower_deliver(builder, move, at, &sum, c->readers[r]);
}

/* ---- replicas that have all of it ------------------------------------------------------------ */

/* How many keys a device contributes to. */
static int32_t count_keys(const movement *move, const lower_cell *at, int32_t device) {
    const lower_cutting *c = move->cutting;
    int32_t n = 1;
    for (int32_t i = c->first_contribution[device], next; (next = c->next_contribution[i]) >= 0;
         i = next)
        n += lower_cell_key(move, at, next) != lower_cell_key(move, at, i);
    return n;
}

/* The devices that have a contribution of every key, as owners; ascending. */
static int32_t list_complete(const movement *move, const lower_cell *at) {
    const lower_cutting *c = move->cutting;
    int32_t n_keys = 1, n = 0;
    for (int32_t i = 1; i < at->n_contributions; i++)
        n_keys += lower_cell_key(move, at, i) != lower_cell_key(move, at, i - 1);
    for (int32_t s = 0; s < c->n_speakers && 2 * n_keys <= at->n_contributions; s++)
        if (count_keys(move, at, c->speakers[s]) == n_keys)
            c->owners[n++] = c->speakers[s];
    return n;
}

/* Each adds up its own, in the one order, so what they get is the same; a reader that is none of
   them takes it from one, each from another. */
static void combine_at_replicas(lower_builder *builder, movement *move, const lower_cell *at,
                                int32_t n) {
    const lower_cutting *c = move->cutting;
    int32_t box = lower_add_box(builder, move, at->box), n_own = 0;
    for (int32_t i = 0; i < n; i++)
        c->sum_of[c->owners[i]] = NO_SUM;
    for (int32_t r = 0; r < c->n_readers; r++) {
        int32_t reader = c->readers[r];
        bool own = c->sum_of[reader] != 0;
        int32_t owner = own ? reader : c->owners[r % n];
        n_own += own;
        if (c->sum_of[owner] == NO_SUM)
            c->sum_of[owner] = add_up(builder, move, at, box, owner);
        const lower_held sum = {owner, box, c->sum_of[owner]};
        lower_deliver(builder, move, at, &sum, reader);
    }
    for (int32_t i = 0; i < n; i++)
        c->sum_of[c->owners[i]] = 0;
    if (n_own < c->n_readers && builder->fold != NULL && builder->fold->n_devices % n != 0)
        lower_fail_fold(builder, move->tensor, "readers choose among owners by their numbers");
}

/* ---- two devices that both add up ------------------------------------------------------------ */

/* Do two devices want the sum of what each has of a cell that is small?  Then each sends the other
   all that it has and both add up, which is the same whoever comes first: as many bytes as by
   owners of a half each, in one turn of messages in place of two. */
static bool is_for_both(const lower_builder *builder, const movement *move, const lower_cell *at) {
    enum { MOST_BYTES = 1 << 14 };
    const lower_cutting *c = move->cutting;
    bool commutes = move->combiner == CLEAVE_COMBINE_SUM || move->combiner == CLEAVE_COMBINE_MAX;
    return commutes && c->n_speakers == 2 && c->n_speaking == 2 && c->n_readers == 2 &&
           c->reads[c->speakers[0]] && c->reads[c->speakers[1]] && at->n_contributions == 2 &&
           move->partial_type == move->sum_type &&
           cleave_box_size(builder->model->tensors[move->tensor].rank, at->box) *
                   cleave_type_bytes(move->sum_type) <=
               MOST_BYTES;
}

/* What an owner has is packed where its sum begins in it. */
static void combine_at_both(lower_builder *builder, movement *move, const lower_cell *at) {
    const cleave_tensor *tensor = &builder->model->tensors[move->tensor];
    memcpy(move->cutting->owners, move->cutting->speakers, 2 * sizeof *move->cutting->owners);
    combine_at_replicas(builder, move, at, 2);
    for (int32_t i = 0; i < 2; i++) {
        move_contribution *has = &move->contributions.items[at->contributions[i]];
        for (int32_t s = move->sums.n - 2; s < move->sums.n; s++)
            has->becomes_sum =
                has->becomes_sum ||
                (move->sums.items[s].device == has->device &&
                 lower_region_same_place(tensor->rank, at->box, &has->at, &move->sums.items[s].at));
    }
}

/* ---- one owner for each block ---------------------------------------------------------------- */

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
        int32_t device = lower_cell_holder(move, at, i);
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

void lower_combine_cell(lower_builder *builder, movement *move, const lower_cell *at) {
    list_speakers(builder, move, at);
    int32_t n_complete = move->cutting->n_readers > 1 ? list_complete(move, at) : 0;
    if (n_complete < 2 && is_for_both(builder, move, at)) {
        combine_at_both(builder, move, at);
        return;
    }
    if (n_complete > 1) {
        combine_at_replicas(builder, move, at, n_complete);
        return;
    }
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
