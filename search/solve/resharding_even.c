/* Values between even shardings.  What a device reads from its own node is looked at one by one;
   of all else only the sum is wanted, which is arithmetic: ranges overlap dimension by dimension,
   and what a grid of shards has of a box is the product. */
#include "search/solve/resharding_internal.h"

#include <math.h>

static const cleave_shard_member *members_of(const cleave_sharding *s, int32_t shard) {
    return s->members + s->shards[shard].first_member;
}

/* The first range that ends behind a position; of many equal ones it is where it would be. */
enum { FEW_RANGES = 4 };
static int32_t find_range(const cleave_sharding *s, int d, int64_t position) {
    const cleave_range *ranges = s->ranges[d];
    int32_t n = s->n_ranges[d];
    int32_t i = n <= FEW_RANGES ? 0 : (int32_t)((double)position * n / (double)ranges[n - 1].hi);
    i = i >= n ? n - 1 : i;
    while (i > 0 && ranges[i - 1].hi > position)
        i--;
    while (i < n && ranges[i].hi <= position)
        i++;
    return i;
}

/* What the shards of a grid have of a box; nothing: `first` is -1. */
static reshard_overlap find_overlap(const cleave_sharding *s, const cleave_box *box) {
    reshard_overlap found = {.elements = 1, .n_shards = 1};
    int64_t at = 0;
    for (int d = 0; d < s->rank; d++) {
        const cleave_range *ranges = s->ranges[d];
        int32_t n = s->n_ranges[d], first = n == 1 ? 0 : find_range(s, d, box->lo[d]), i = first;
        int64_t sum = 0;
        for (; i < n && ranges[i].lo < box->hi[d]; i++) {
            int64_t lo = ranges[i].lo > box->lo[d] ? ranges[i].lo : box->lo[d];
            int64_t hi = ranges[i].hi < box->hi[d] ? ranges[i].hi : box->hi[d];
            sum += hi > lo ? hi - lo : 0;
            if (s->tiles[d] && ranges[n - 1].hi >= box->hi[d] && i == first && n > 2) {
                i = find_range(s, d, box->hi[d] - 1); /* all between is covered */
                sum = box->hi[d] - lo;
            }
        }
        if (sum == 0)
            return (reshard_overlap){.first = -1};
        found.elements *= (double)sum;
        found.n_shards *= i - first;
        at = at * n + first;
    }
    found.first = s->grid[at];
    return found;
}

typedef struct even {
    cleave_resharder *r;
    const cleave_sharding *from, *to;
    double element_bytes; /* as far as elements are there */
    int32_t n_holders, n_readers;
    bool gathers; /* readers of a shard are more than two, and shards have one holder each */
} even;

/* Elements that a device holds of what another reads. */
static double held_of(const even *e, int32_t holder, int32_t reader) {
    int32_t from = e->from->shard_of[holder], to = e->to->shard_of[reader];
    if (from < 0 || to < 0)
        return 0;
    return reshard_common(e->from->rank, &e->from->shards[from].box, &e->to->shards[to].box);
}

/* The holder of a shard that a reader takes it from, as lowering spreads readers. */
static int32_t source_of(const even *e, int32_t from, int32_t reader) {
    int32_t i = (reader + e->to->rank_of[reader]) % e->n_holders;
    return members_of(e->from, from)[i].device;
}

static void cut(const even *e, int32_t from, int32_t to, double *packs, double *unpacks) {
    const cleave_box *a = &e->from->shards[from].box, *b = &e->to->shards[to].box;
    *packs = reshard_rows(e->from, a, b);
    *unpacks = fmax(e->from->density < 1 || e->to->density < 1, reshard_rows(e->to, b, a));
}

/* Do all that read a shard have some of it?  Then that is gathered among them. */
static void find_gathered(const even *e, reshard_reading *of, int32_t to) {
    const cleave_shard_member *readers = members_of(e->to, to);
    of->gathers = e->gathers;
    for (int32_t i = 0; i < e->n_readers && of->gathers; i++) {
        double held = held_of(e, readers[i].device, readers[i].device);
        of->gathers = held > 0;
        of->gathered += held;
    }
}

/* What is alike for all that read a shard. */
static const reshard_reading *reading_of(const even *e, int32_t to) {
    reshard_reading *of = &e->r->readings[to];
    if (of->resharding == e->r->n_reshardings)
        return of;
    *of = (reshard_reading){.resharding = e->r->n_reshardings};
    of->all = find_overlap(e->from, &e->to->shards[to].box);
    if (of->all.first >= 0)
        cut(e, of->all.first, to, &of->packs, &of->unpacks);
    find_gathered(e, of, to);
    return of;
}

static bool is_gathered(const even *e, int32_t to) {
    return e->gathers && to >= 0 && reading_of(e, to)->gathers;
}

/* One collective for the group, when its first device in focus is looked at. */
static void gather(const even *e, int32_t device, int32_t to, double bytes, double unpacks) {
    const cleave_shard_member *readers = members_of(e->to, to);
    double packed = bytes / e->n_readers;
    reshard_copy(e->r, device, 2 * (unpacks > 0 ? bytes + packed : packed), unpacks * e->n_readers);
    for (int32_t i = 0; readers[i].device != device; i++)
        if (e->r->in_focus[readers[i].device])
            return;
    reshard_collective(e->r, CLEAVE_ALL_GATHER, e->n_readers,
                       reshard_list_group(e->r, readers, e->n_readers), bytes);
}

/* Does a device take some of what it reads from another one of its node?  Not what all of its group
   gather. */
static double taken(const even *e, int32_t holder, int32_t reader, bool gathered) {
    int32_t from = e->from->shard_of[holder], to = e->to->shard_of[reader];
    if (holder == reader || from < 0 || to < 0 || from == e->from->shard_of[reader] ||
        (gathered && e->to->shard_of[holder] == to) || source_of(e, from, reader) != holder)
        return 0;
    return held_of(e, holder, reader);
}

static void read_shard(const even *e, int32_t device) {
    int32_t to = e->to->shard_of[device];
    const cleave_box *box = &e->to->shards[to].box;
    const reshard_reading *of = reading_of(e, to);
    double packs = of->packs, unpacks = of->unpacks, own = held_of(e, device, device);
    if (of->all.first < 0)
        return;
    if (of->gathers)
        gather(e, device, to, of->gathered * e->element_bytes, unpacks);
    else if (own > 0 &&
             !cleave_box_equal(e->to->rank, box, &e->from->shards[e->from->shard_of[device]].box))
        reshard_copy(e->r, device, 2 * own * e->element_bytes, fmax(packs, unpacks));
    double left = of->all.elements - (of->gathers ? of->gathered : own);
    double messages = of->all.n_shards - (of->gathers ? e->n_readers : own > 0);
    for (int32_t d = e->r->node_start[device]; d < e->r->node_end[device]; d++) {
        double elements = taken(e, d, device, of->gathers);
        if (elements == 0)
            continue;
        reshard_send(e->r, d, device, elements * e->element_bytes, packs, unpacks);
        left -= elements;
        messages--;
    }
    if (left > 0.5 && messages > 0.5)
        reshard_remote(e->r, device, false, left * e->element_bytes / e->n_holders, messages,
                       unpacks);
}

/* What stays of a shard on one that holds it, is gathered, or goes to its own node: elements, and
   how many read them. */
static double kept_near(const even *e, int32_t holder, double *n_readers) {
    double own = held_of(e, holder, holder), elements = 0;
    int32_t to = e->to->shard_of[holder];
    *n_readers = 0;
    if (own > 0) {
        *n_readers = is_gathered(e, to) ? e->n_readers : 1;
        elements = own * *n_readers;
    }
    for (int32_t d = e->r->node_start[holder]; d < e->r->node_end[holder]; d++) {
        to = e->to->shard_of[d];
        double read = taken(e, holder, d, is_gathered(e, to));
        elements += read;
        *n_readers += read > 0;
    }
    return elements;
}

/* What the holders of a shard send to other nodes: of all that is read of it and is not kept near
   those that hold it, an equal share. */
static void send_shard(const even *e, int32_t from) {
    reshard_overlap all = find_overlap(e->to, &e->from->shards[from].box);
    const cleave_shard_member *holders = members_of(e->from, from);
    double left = all.elements * e->n_readers, messages = all.n_shards * e->n_readers, n_readers;
    double packs, unpacks;
    if (all.first < 0)
        return;
    for (int32_t i = 0; i < e->n_holders; i++) {
        left -= kept_near(e, holders[i].device, &n_readers);
        messages -= n_readers;
    }
    if (left <= 0.5 || messages <= 0.5)
        return;
    cut(e, from, all.first, &packs, &unpacks);
    for (int32_t i = 0; i < e->n_holders; i++)
        if (e->r->in_focus[holders[i].device])
            reshard_remote(e->r, holders[i].device, true, left * e->element_bytes / e->n_holders,
                           messages / e->n_holders, packs);
}

/* Where all devices are of one node, nothing goes to others. */
static void send_shards(const even *e) {
    cleave_resharder *r = e->r;
    for (int32_t i = 0; i < r->focus.n && r->node_end[0] < r->machine->n_devices; i++) {
        int32_t from = e->from->shard_of[r->focus.items[i]];
        if (from < 0 || r->from_in_focus[from])
            continue;
        r->from_in_focus[from] = true;
        send_shard(e, from);
    }
    for (int32_t i = 0; i < r->focus.n; i++)
        if (e->from->shard_of[r->focus.items[i]] >= 0)
            r->from_in_focus[e->from->shard_of[r->focus.items[i]]] = false;
}

bool reshard_even(cleave_resharder *r) {
    const cleave_sharding *from = r->from, *to = r->to;
    if (!from->is_even || !to->is_even || from->n_shards == 0 || to->n_shards == 0 ||
        (r->everywhere && !r->few) ||
        (r->sort == CLEAVE_RESHARD_RESULTS && from->shards[0].n_keys > 1))
        return false;
    double density = from->density < to->density ? from->density : to->density;
    even e = {.r = r,
              .from = from,
              .to = to,
              .element_bytes = density * (double)from->element_bytes,
              .n_holders = from->shards[0].n_members,
              .n_readers = to->shards[0].n_members};
    e.gathers = e.n_readers >= reshard_least_collective(r) && e.n_holders == 1 && !to->overlaps;
    for (int32_t i = 0; i < r->focus.n; i++) {
        int32_t device = r->focus.items[i];
        if (to->shard_of[device] >= 0)
            read_shard(&e, device);
    }
    send_shards(&e);
    return true;
}
