/* Cutting a tensor into cells, dimension by dimension: the edges of all boxes that are left make
   slabs, and every slab goes on with the boxes that lie over it. */
#include "graph/lower/cut.h"

#include "graph/lower/cell.h"

#include <string.h>

/* One level of the recursion; where a dimension has two edges there is nothing to list. */
typedef struct level {
    int32_t two[2];
    uint64_t *used;         /* [words of n_edges] edges of the boxes that are left */
    int32_t *edges;         /* [n_edges] those, ascending: slab s is from s to s + 1 of them */
    int32_t *rank_of;       /* [n_edges] the other way round */
    int32_t *start;         /* [n_edges + 1] of the members of a slab */
    int32_t *contributions; /* [n_edges] where the demands among a slab's members begin */
    int32_t *members;       /* [room] contributions, then demands of each slab */
    int32_t room;
} level;

/* A box by the ids of its edges in one dimension. */
typedef struct extent {
    int32_t lo, hi;
} extent;

/* The edges of all boxes in one dimension, distinct and ascending. */
typedef struct dimension {
    int64_t *edges;
    int32_t n_edges;
    extent *extents; /* [boxes] */
} dimension;

/* Contributions, or demands, of one box are cut as one: the box, and who has it. */
typedef struct shared_box {
    const cleave_box *box;
    int32_t first, n; /* of members, ascending */
    int32_t next;     /* while they are found: of the same hash, or -1 */
} shared_box;

typedef struct cutter {
    lower_builder *builder;
    movement *move;
    int rank;
    cleave_box box; /* of the cell that is cut out */
    int32_t n_boxes, n_contribution_boxes;
    shared_box *boxes; /* [n_boxes] of contributions, then of demands */
    int32_t *members;  /* ids of contributions, and of demands */
    int32_t *merged_contributions, *merged_demands; /* of a cell that several boxes lie over */
    dimension dimensions[CLEAVE_MAX_RANK];
    level levels[CLEAVE_MAX_RANK];
} cutter;

/* The boxes that are left. */
typedef struct slab {
    int32_t n, n_contributions;
    const int32_t *boxes; /* [n] of contributions, then of demands */
} slab;

/* ---- boxes ----------------------------------------------------------------------------------- */

static const cleave_box *box_of(const movement *move, bool demand, int32_t id) {
    return demand ? &move->demands.items[id].at.box : &move->contributions.items[id].at.box;
}

/* Finds the distinct boxes of `n` contributions or demands and lists the members of each. */
static void find_boxes(cutter *c, bool demand, int32_t n, const int32_t *ids, int32_t *members) {
    int32_t size = 16;
    while (size < 2 * n)
        size *= 2;
    int32_t *table = LOWER_ARRAY(c->builder, int32_t, size); /* box + 1 */
    int32_t *of = LOWER_ARRAY(c->builder, int32_t, n), first = c->n_boxes;
    for (int32_t i = 0; i < n; i++) {
        const cleave_box *box = box_of(c->move, demand, ids[i]);
        int32_t *head = &table[cleave_box_hash(c->rank, box) & (uint64_t)(size - 1)], b = *head - 1;
        while (b >= 0 && !cleave_box_equal(c->rank, c->boxes[b].box, box))
            b = c->boxes[b].next;
        if (b < 0) {
            b = c->n_boxes++;
            c->boxes[b] = (shared_box){.box = box, .next = *head - 1};
            *head = b + 1;
        }
        c->boxes[b].n++;
        of[i] = b;
    }
    int32_t start = (int32_t)(members - c->members);
    for (int32_t b = first; b < c->n_boxes; b++) {
        c->boxes[b].first = start;
        start += c->boxes[b].n;
        c->boxes[b].n = 0;
    }
    for (int32_t i = 0; i < n; i++)
        c->members[c->boxes[of[i]].first + c->boxes[of[i]].n++] = ids[i];
}

/* ---- edges ----------------------------------------------------------------------------------- */

/* The first edge that is not before `value`.  Blocks come side by side, and row by row. */
static int32_t find_edge(const dimension *of, int64_t value, int32_t hint) {
    const int64_t *edges = of->edges;
    int32_t low = 0, n = of->n_edges;
    if (hint < n && edges[hint] == value)
        return hint;
    if (n == 0 || edges[0] >= value)
        return 0;
    while (n > 0) {
        int32_t half = n / 2;
        bool after = edges[low + half] < value;
        low = after ? low + half + 1 : low;
        n = after ? n - half - 1 : half;
    }
    return low;
}

static int32_t add_edge(dimension *of, int64_t value, int32_t hint) {
    int32_t n = of->n_edges,
            at = n > 0 && of->edges[n - 1] < value ? n : find_edge(of, value, hint);
    if (at < n && of->edges[at] == value)
        return at;
    memmove(of->edges + at + 1, of->edges + at, (size_t)(n - at) * sizeof *of->edges);
    of->edges[at] = value;
    of->n_edges++;
    return at;
}

/* Is the box the one before it in this dimension?  So are most. */
static bool is_as_before(const cutter *c, int32_t i, int d) {
    if (i == 0)
        return false;
    const cleave_box *a = c->boxes[i - 1].box, *b = c->boxes[i].box;
    return a->lo[d] == b->lo[d] && a->hi[d] == b->hi[d];
}

static void index_dimension(cutter *c, int d) {
    dimension *of = &c->dimensions[d];
    of->edges = LOWER_ARRAY(c->builder, int64_t, 2 * (size_t)c->n_boxes);
    of->extents = LOWER_ARRAY(c->builder, extent, c->n_boxes);
    for (int32_t i = 0, hint = 0; i < c->n_boxes; i++) {
        if (is_as_before(c, i, d))
            continue;
        hint = add_edge(of, c->boxes[i].box->lo[d], hint);
        hint = add_edge(of, c->boxes[i].box->hi[d], hint + 1);
    }
    for (int32_t i = 0, hint = 0; i < c->n_boxes; i++) {
        if (is_as_before(c, i, d)) {
            of->extents[i] = of->extents[i - 1];
            continue;
        }
        of->extents[i].lo = find_edge(of, c->boxes[i].box->lo[d], hint);
        of->extents[i].hi = hint = find_edge(of, c->boxes[i].box->hi[d], of->extents[i].lo + 1);
    }
}

static void begin_level(cutter *c, int d) {
    level *l = &c->levels[d];
    size_t n_edges = (size_t)c->dimensions[d].n_edges;
    l->edges = l->two;
    if (n_edges == 2)
        return;
    l->used = LOWER_ARRAY(c->builder, uint64_t, (n_edges + 63) / 64);
    int32_t *rows = LOWER_ARRAY(c->builder, int32_t, 4 * n_edges + 1);
    l->edges = rows;
    l->rank_of = rows + n_edges;
    l->contributions = rows + 2 * n_edges;
    l->start = rows + 3 * n_edges;
}

/* Lists the edges of the boxes that are left and returns their number: 2 where all are alike. */
static int32_t find_edges(const dimension *of, const slab *left, level *l) {
    int32_t n_words = (of->n_edges + 63) / 64;
    extent first = of->extents[left->boxes[0]];
    bool alike = true;
    l->edges[0] = first.lo;
    l->edges[1] = first.hi;
    if (of->n_edges == 2)
        return 2;
    for (int32_t i = 1; i < left->n && alike; i++) {
        extent other = of->extents[left->boxes[i]];
        alike = other.lo == first.lo && other.hi == first.hi;
    }
    if (alike)
        return 2;
    memset(l->used, 0, (size_t)n_words * sizeof *l->used);
    for (int32_t i = 0; i < left->n; i++) {
        extent box = of->extents[left->boxes[i]];
        l->used[box.lo >> 6] |= (uint64_t)1 << (box.lo & 63);
        l->used[box.hi >> 6] |= (uint64_t)1 << (box.hi & 63);
    }
    int32_t n_edges = 0;
    for (int32_t w = 0; w < n_words; w++)
        for (uint64_t rest = l->used[w]; rest != 0; rest &= rest - 1) {
            int32_t edge = 64 * w + __builtin_ctzll(rest);
            l->rank_of[edge] = n_edges;
            l->edges[n_edges++] = edge;
        }
    return n_edges;
}

/* ---- cutting --------------------------------------------------------------------------------- */

/* Lists, slab by slab, the boxes that lie over it. */
static void list_members(cutter *c, const dimension *of, level *l, const slab *left,
                         int32_t n_edges) {
    int32_t n_members = 0;
    memset(l->start, 0, (size_t)(n_edges + 1) * sizeof *l->start);
    for (int32_t i = 0; i < left->n; i++) {
        extent box = of->extents[left->boxes[i]];
        int32_t first = l->rank_of[box.lo], last = l->rank_of[box.hi];
        for (int32_t s = first; s < last; s++)
            l->start[s + 1]++;
        n_members += last - first;
    }
    for (int32_t s = 0; s + 1 < n_edges; s++)
        l->start[s + 1] += l->start[s];
    if (n_members > l->room) {
        l->room = 2 * n_members;
        l->members = LOWER_ARRAY(c->builder, int32_t, l->room);
    }
    /* `start` runs ahead while a slab is filled, so in the end it is the start of the next one. */
    for (int32_t i = 0; i < left->n; i++) {
        if (i == left->n_contributions)
            memcpy(l->contributions, l->start, (size_t)(n_edges - 1) * sizeof *l->start);
        extent box = of->extents[left->boxes[i]];
        int32_t last = l->rank_of[box.hi];
        for (int32_t s = l->rank_of[box.lo]; s < last; s++)
            l->members[l->start[s]++] = left->boxes[i];
    }
}

/* Merges the members of several boxes, ascending. */
static int32_t merge(const cutter *c, int32_t n, const int32_t *boxes, int32_t *merged) {
    int32_t total = 0;
    for (int32_t i = 0; i < n; i++) {
        const shared_box *box = &c->boxes[boxes[i]];
        const int32_t *members = c->members + box->first;
        int32_t a = total - 1, b = box->n - 1, to = total + box->n - 1;
        while (b >= 0)
            merged[to--] = a >= 0 && merged[a] > members[b] ? merged[a--] : members[b--];
        total += box->n;
    }
    return total;
}

static void finish_cell(cutter *c, const slab *left) {
    int32_t n_demands = left->n - left->n_contributions;
    lower_cell cell = {.box = &c->box, .contributors = -1, .readers = -1};
    if (left->n_contributions == 1) {
        const shared_box *box = &c->boxes[left->boxes[0]];
        cell.n_contributions = box->n;
        cell.contributions = c->members + box->first;
        cell.contributors = left->boxes[0];
    } else {
        cell.n_contributions =
            merge(c, left->n_contributions, left->boxes, c->merged_contributions);
        cell.contributions = c->merged_contributions;
    }
    if (n_demands == 1) {
        const shared_box *box = &c->boxes[left->boxes[left->n_contributions]];
        cell.n_demands = box->n;
        cell.demands = c->members + box->first;
        cell.readers = left->boxes[left->n_contributions];
    } else {
        cell.n_demands =
            merge(c, n_demands, left->boxes + left->n_contributions, c->merged_demands);
        cell.demands = c->merged_demands;
    }
    lower_cell_done(c->builder, c->move, &cell);
}

static void cut_dimension(cutter *c, int d, const slab *left) {
    if (left->n == left->n_contributions) /* nobody reads it */
        return;
    if (d == c->rank) {
        finish_cell(c, left);
        return;
    }
    const dimension *of = &c->dimensions[d];
    level *l = &c->levels[d];
    int32_t n_edges = find_edges(of, left, l);
    if (n_edges == 2) {
        c->box.lo[d] = of->edges[l->edges[0]];
        c->box.hi[d] = of->edges[l->edges[1]];
        cut_dimension(c, d + 1, left);
        return;
    }
    list_members(c, of, l, left, n_edges);
    for (int32_t s = 0, from = 0; s + 1 < n_edges; from = l->start[s++]) {
        slab within = {.n = l->start[s] - from,
                       .n_contributions = l->contributions[s] - from,
                       .boxes = l->members + from};
        c->box.lo[d] = of->edges[l->edges[s]];
        c->box.hi[d] = of->edges[l->edges[s + 1]];
        cut_dimension(c, d + 1, &within);
    }
}

void lower_cut(lower_builder *builder, movement *move, int32_t n_contributions,
               const int32_t *contributions, int32_t n_demands, const int32_t *demands) {
    int32_t n = n_contributions + n_demands;
    cutter c = {.builder = builder,
                .move = move,
                .rank = builder->model->tensors[move->tensor].rank,
                .boxes = LOWER_ARRAY(builder, shared_box, n),
                .members = LOWER_ARRAY(builder, int32_t, n),
                .merged_contributions = LOWER_ARRAY(builder, int32_t, n_contributions),
                .merged_demands = LOWER_ARRAY(builder, int32_t, n_demands)};
    find_boxes(&c, false, n_contributions, contributions, c.members);
    c.n_contribution_boxes = c.n_boxes;
    find_boxes(&c, true, n_demands, demands, c.members + n_contributions);
    lower_cells_begin(builder, move);
    for (int d = 0; d < c.rank && n_demands > 0; d++) {
        index_dimension(&c, d);
        begin_level(&c, d);
    }
    int32_t *boxes = LOWER_ARRAY(builder, int32_t, c.n_boxes);
    for (int32_t b = 0; b < c.n_boxes; b++)
        boxes[b] = b;
    const slab all = {.n = c.n_boxes, .n_contributions = c.n_contribution_boxes, .boxes = boxes};
    cut_dimension(&c, 0, &all);
    lower_cells_settle(builder, move);
}
