/* Cutting a tensor into cells, dimension by dimension: the edges of all boxes that are left make
   slabs, and every slab goes on with the boxes that lie over it. */
#include "graph/lower_cut.h"

#include "graph/lower_cell.h"

#include <string.h>

/* One level of the recursion. */
typedef struct level {
    int64_t *edges; /* [room edges] distinct, ascending; slab s is [edges[s], edges[s + 1]) */
    int32_t *first, *last;  /* [room boxes] edges of a box */
    int32_t *start;         /* [room edges + 1] of the members of a slab */
    int32_t *contributions; /* [room edges] how many of a slab's members are contributions */
    int32_t *members;       /* [room members] contributions, then demands of each slab */
    int32_t room_boxes, room_members;
} level;

typedef struct cutter {
    lower_builder *builder;
    movement *move;
    int rank;
    cleave_box box; /* of the cell that is cut out */
    level levels[CLEAVE_MAX_RANK];
    int64_t *contributions[CLEAVE_MAX_RANK]; /* [2 x contributions] lo and hi of each box */
    int64_t *demands[CLEAVE_MAX_RANK];       /* [2 x demands] */
} cutter;

static int64_t *spread(lower_builder *builder, int32_t n) {
    return LOWER_ARRAY(builder, int64_t, 2 * (size_t)n);
}

static void begin(cutter *c) {
    const movement *move = c->move;
    for (int d = 0; d < c->rank; d++) {
        c->contributions[d] = spread(c->builder, move->contributions.n);
        c->demands[d] = spread(c->builder, move->demands.n);
    }
    for (int32_t i = 0; i < move->contributions.n; i++)
        for (int d = 0; d < c->rank; d++) {
            c->contributions[d][2 * i] = move->contributions.items[i].at.box.lo[d];
            c->contributions[d][2 * i + 1] = move->contributions.items[i].at.box.hi[d];
        }
    for (int32_t i = 0; i < move->demands.n; i++)
        for (int d = 0; d < c->rank; d++) {
            c->demands[d][2 * i] = move->demands.items[i].at.box.lo[d];
            c->demands[d][2 * i + 1] = move->demands.items[i].at.box.hi[d];
        }
}

/* lo and hi of the i-th box of the active ones, contributions first. */
static const int64_t *extent_of(const cutter *c, int d, const lower_cell *active, int32_t i) {
    return i < active->n_contributions
               ? &c->contributions[d][2 * active->contributions[i]]
               : &c->demands[d][2 * active->demands[i - active->n_contributions]];
}

static void reserve_boxes(cutter *c, level *l, int32_t n) {
    if (n <= l->room_boxes)
        return;
    l->room_boxes = 2 * n;
    size_t room = 2 * (size_t)l->room_boxes;
    l->edges = LOWER_ARRAY(c->builder, int64_t, room);
    l->start = LOWER_ARRAY(c->builder, int32_t, room + 1);
    l->contributions = LOWER_ARRAY(c->builder, int32_t, room);
    l->first = LOWER_ARRAY(c->builder, int32_t, l->room_boxes);
    l->last = LOWER_ARRAY(c->builder, int32_t, l->room_boxes);
}

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

static int32_t add_edge(int64_t *edges, int32_t n, int64_t value) {
    int32_t at = n > 0 && edges[n - 1] < value ? n : find_edge(edges, n, value);
    if (at < n && edges[at] == value)
        return n;
    memmove(edges + at + 1, edges + at, (size_t)(n - at) * sizeof *edges);
    edges[at] = value;
    return n + 1;
}

static int32_t find_edges(const cutter *c, int d, const lower_cell *active, int64_t *edges) {
    int32_t n_edges = 0;
    const int64_t *before = NULL;
    for (int32_t i = 0; i < active->n_contributions + active->n_demands; i++) {
        const int64_t *extent = extent_of(c, d, active, i);
        if (before != NULL && before[0] == extent[0] && before[1] == extent[1])
            continue; /* common */
        before = extent;
        n_edges = add_edge(edges, n_edges, extent[0]);
        n_edges = add_edge(edges, n_edges, extent[1]);
    }
    return n_edges;
}

/* Lists, slab by slab, the boxes that lie over it. */
static void list_members(cutter *c, int d, level *l, const lower_cell *active, int32_t n_edges) {
    int32_t n = active->n_contributions + active->n_demands, n_members = 0;
    memset(l->start, 0, (size_t)(n_edges + 1) * sizeof *l->start);
    for (int32_t i = 0; i < n; i++) {
        const int64_t *extent = extent_of(c, d, active, i);
        l->first[i] = find_edge(l->edges, n_edges, extent[0]);
        l->last[i] = l->first[i] + 1;
        if (l->edges[l->last[i]] != extent[1])
            l->last[i] = find_edge(l->edges, n_edges, extent[1]);
        for (int32_t s = l->first[i]; s < l->last[i]; s++)
            l->start[s + 1]++;
        n_members += l->last[i] - l->first[i];
    }
    for (int32_t s = 0; s + 1 < n_edges; s++)
        l->start[s + 1] += l->start[s];
    if (n_members > l->room_members) {
        l->room_members = 2 * n_members;
        l->members = LOWER_ARRAY(c->builder, int32_t, l->room_members);
    }
    /* `start` runs ahead while a slab is filled, so in the end it is the start of the next one. */
    for (int32_t i = 0; i < n; i++) {
        bool contributes = i < active->n_contributions;
        int32_t id =
            contributes ? active->contributions[i] : active->demands[i - active->n_contributions];
        for (int32_t s = l->first[i]; s < l->last[i]; s++)
            l->members[l->start[s]++] = id;
        if (i + 1 == active->n_contributions)
            for (int32_t s = 0; s + 1 < n_edges; s++)
                l->contributions[s] = l->start[s];
    }
}

static void cut_dimension(cutter *c, int d, const lower_cell *active) {
    if (active->n_demands == 0)
        return;
    if (d == c->rank) {
        lower_cell_done(c->builder, c->move, active);
        return;
    }
    level *l = &c->levels[d];
    reserve_boxes(c, l, active->n_contributions + active->n_demands);
    int32_t n_edges = find_edges(c, d, active, l->edges);
    if (n_edges == 2) {
        c->box.lo[d] = l->edges[0];
        c->box.hi[d] = l->edges[1];
        cut_dimension(c, d + 1, active);
        return;
    }
    list_members(c, d, l, active, n_edges);
    for (int32_t s = 0; s + 1 < n_edges; s++) {
        int32_t begin_of = s == 0 ? 0 : l->start[s - 1];
        int32_t first_demand = active->n_contributions > 0 ? l->contributions[s] : begin_of;
        lower_cell slab = {.box = &c->box,
                           .n_contributions = first_demand - begin_of,
                           .contributions = l->members + begin_of,
                           .n_demands = l->start[s] - first_demand,
                           .demands = l->members + first_demand};
        c->box.lo[d] = l->edges[s];
        c->box.hi[d] = l->edges[s + 1];
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
    begin(&c);
    cut_dimension(&c, 0, &all);
    lower_cells_settle(builder, move);
}
