/* Cutting a tensor into cells, dimension by dimension: the edges of all boxes that are left make
   slabs, and every slab goes on with the boxes that lie over it. */
#include "graph/lower/cut.h"

#include "graph/lower/cell.h"

#include <string.h>

/* One level of the recursion. */
typedef struct level {
    uint64_t *used;         /* [words of n_edges] edges of the boxes that are left */
    int32_t *edges;         /* [n_edges] those, ascending: slab s is from s to s + 1 of them */
    int32_t *rank_of;       /* [n_edges] the other way round */
    int32_t *start;         /* [n_edges + 1] of the members of a slab */
    int32_t *contributions; /* [n_edges] where the demands among a slab's members begin */
    int32_t *members;       /* [room] contributions, then demands of each slab */
    int32_t room;
} level;

/* Boxes of a dimension by the ids of their edges. */
typedef struct extent {
    int32_t lo, hi;
} extent;

/* The edges of all boxes in one dimension, distinct and ascending. */
typedef struct dimension {
    int64_t *edges;
    int32_t n_edges;
    extent *contributions, *demands; /* [contributions], [demands] */
} dimension;

typedef struct cutter {
    lower_builder *builder;
    movement *move;
    int rank;
    cleave_box box; /* of the cell that is cut out */
    dimension dimensions[CLEAVE_MAX_RANK];
    level levels[CLEAVE_MAX_RANK];
} cutter;

/* The first edge that is not before `value`. */
static int32_t find_edge(const int64_t *edges, int32_t n, int64_t value) {
    int32_t low = 0;
    while (n > 0) {
        int32_t half = n / 2;
        bool after = edges[low + half] < value;
        low = after ? low + half + 1 : low;
        n = after ? n - half - 1 : half;
    }
    return low;
}

static void add_edge(dimension *of, int64_t value) {
    int32_t n = of->n_edges,
            at = n > 0 && of->edges[n - 1] < value ? n : find_edge(of->edges, n, value);
    if (at < n && of->edges[at] == value)
        return;
    memmove(of->edges + at + 1, of->edges + at, (size_t)(n - at) * sizeof *of->edges);
    of->edges[at] = value;
    of->n_edges++;
}

static const cleave_box *box_of(const movement *move, int32_t i) {
    return i < move->contributions.n ? &move->contributions.items[i].at.box
                                     : &move->demands.items[i - move->contributions.n].at.box;
}

static void index_dimension(cutter *c, int d) {
    const movement *move = c->move;
    int32_t n = move->contributions.n + move->demands.n;
    dimension *of = &c->dimensions[d];
    of->edges = LOWER_ARRAY(c->builder, int64_t, 2 * (size_t)n);
    extent *extents = LOWER_ARRAY(c->builder, extent, n);
    const cleave_box *before = NULL, *box;
    for (int32_t i = 0; i < n; i++, before = box) {
        box = box_of(move, i);
        if (before != NULL && before->lo[d] == box->lo[d] && before->hi[d] == box->hi[d])
            continue;
        add_edge(of, box->lo[d]);
        add_edge(of, box->hi[d]);
    }
    for (int32_t i = 0; i < n; i++) {
        box = box_of(move, i);
        extents[i].lo = find_edge(of->edges, of->n_edges, box->lo[d]);
        extents[i].hi = find_edge(of->edges, of->n_edges, box->hi[d]);
    }
    of->contributions = extents;
    of->demands = extents + move->contributions.n;
}

static void begin_level(cutter *c, int d) {
    level *l = &c->levels[d];
    size_t n_edges = (size_t)c->dimensions[d].n_edges;
    l->used = LOWER_ARRAY(c->builder, uint64_t, (n_edges + 63) / 64);
    l->edges = LOWER_ARRAY(c->builder, int32_t, n_edges);
    l->rank_of = LOWER_ARRAY(c->builder, int32_t, n_edges);
    l->start = LOWER_ARRAY(c->builder, int32_t, n_edges + 1);
    l->contributions = LOWER_ARRAY(c->builder, int32_t, n_edges);
}

/* Of the i-th box of the active ones, contributions first. */
static inline extent extent_of(const dimension *of, const lower_cell *active, int32_t i) {
    return i < active->n_contributions ? of->contributions[active->contributions[i]]
                                       : of->demands[active->demands[i - active->n_contributions]];
}

/* Lists the edges of the active boxes and returns their number: 2 where all boxes are alike. */
static int32_t find_edges(const dimension *of, const lower_cell *active, level *l) {
    int32_t n = active->n_contributions + active->n_demands, n_words = (of->n_edges + 63) / 64;
    extent first = extent_of(of, active, 0);
    bool alike = true;
    for (int32_t i = 1; i < n && alike; i++) {
        extent other = extent_of(of, active, i);
        alike = other.lo == first.lo && other.hi == first.hi;
    }
    l->edges[0] = first.lo;
    l->edges[1] = first.hi;
    if (alike)
        return 2;
    memset(l->used, 0, (size_t)n_words * sizeof *l->used);
    for (int32_t i = 0; i < n; i++) {
        extent box = extent_of(of, active, i);
        l->used[box.lo >> 6] |= (uint64_t)1 << (box.lo & 63);
        l->used[box.hi >> 6] |= (uint64_t)1 << (box.hi & 63);
    }
    int32_t n_edges = 0;
    for (int32_t w = 0; w < n_words; w++)
        for (uint64_t left = l->used[w]; left != 0; left &= left - 1) {
            int32_t edge = 64 * w + __builtin_ctzll(left);
            l->rank_of[edge] = n_edges;
            l->edges[n_edges++] = edge;
        }
    return n_edges;
}

/* Lists, slab by slab, the boxes that lie over it. */
static void list_members(cutter *c, const dimension *of, level *l, const lower_cell *active,
                         int32_t n_edges) {
    int32_t n = active->n_contributions + active->n_demands, n_members = 0;
    memset(l->start, 0, (size_t)(n_edges + 1) * sizeof *l->start);
    for (int32_t i = 0; i < n; i++) {
        extent box = extent_of(of, active, i);
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
    for (int32_t i = 0; i < active->n_contributions; i++) {
        extent box = of->contributions[active->contributions[i]];
        for (int32_t s = l->rank_of[box.lo]; s < l->rank_of[box.hi]; s++)
            l->members[l->start[s]++] = active->contributions[i];
    }
    memcpy(l->contributions, l->start, (size_t)(n_edges - 1) * sizeof *l->start);
    for (int32_t i = 0; i < active->n_demands; i++) {
        extent box = of->demands[active->demands[i]];
        for (int32_t s = l->rank_of[box.lo]; s < l->rank_of[box.hi]; s++)
            l->members[l->start[s]++] = active->demands[i];
    }
}

static void cut_dimension(cutter *c, int d, const lower_cell *active) {
    if (active->n_demands == 0)
        return;
    if (d == c->rank) {
        lower_cell_done(c->builder, c->move, active);
        return;
    }
    const dimension *of = &c->dimensions[d];
    level *l = &c->levels[d];
    int32_t n_edges = find_edges(of, active, l);
    if (n_edges == 2) {
        c->box.lo[d] = of->edges[l->edges[0]];
        c->box.hi[d] = of->edges[l->edges[1]];
        cut_dimension(c, d + 1, active);
        return;
    }
    list_members(c, of, l, active, n_edges);
    for (int32_t s = 0, from = 0; s + 1 < n_edges; from = l->start[s++]) {
        lower_cell slab = {.box = &c->box,
                           .n_contributions = l->contributions[s] - from,
                           .contributions = l->members + from,
                           .n_demands = l->start[s] - l->contributions[s],
                           .demands = l->members + l->contributions[s]};
        c->box.lo[d] = of->edges[l->edges[s]];
        c->box.hi[d] = of->edges[l->edges[s + 1]];
        cut_dimension(c, d + 1, &slab);
    }
}

void lower_cut(lower_builder *builder, movement *move, int32_t n_contributions,
               const int32_t *contributions, int32_t n_demands, const int32_t *demands) {
    cutter c = {
        .builder = builder, .move = move, .rank = builder->model->tensors[move->tensor].rank};
    lower_cell all = {.box = &c.box,
                      .n_contributions = n_contributions,
                      .contributions = contributions,
                      .n_demands = n_demands,
                      .demands = demands};
    lower_cells_begin(builder, move);
    for (int d = 0; d < c.rank && n_demands > 0; d++) {
        index_dimension(&c, d);
        begin_level(&c, d);
    }
    cut_dimension(&c, 0, &all);
    lower_cells_settle(builder, move);
}
