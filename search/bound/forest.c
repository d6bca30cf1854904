/* The least weighted load of any choice of ways, by dynamic programming over the forest of edges.

   A child tells its parent, for each way of the parent, the least that it and all below it take.
   An edge takes no less than both its ends make of it alone, so a child's ways are looked at in the
   order of what they take with all below them and their side of the edge, and the rest is left out
   as soon as that is more than the best so far.  When no more pairs may be looked at, an edge takes
   just that, which bounds it as well; so it does for ways of the parent that are too costly by
   themselves to be part of a choice that is as good as one that is known. */
#include "base/order.h"
#include "search/bound/shares.h"

#include <math.h>

typedef struct ranked {
    double cost; /* with its side of the edge */
    int32_t way;
} ranked;

typedef struct solver {
    const bound_problem *problem;
    const double *weight;
    cleave_arena arena;
    int64_t *most_pairs;
    int32_t *first_edge, *edge_of; /* [n_operators + 1], [2 n_edges] edges of every operator */
    int32_t *parent_edge;          /* [n_operators] -1: a root */
    int32_t *order;                /* [n_operators] parents first */
    double **cost;                 /* [n_operators][n_ways] with all below that is known */
    double *most;                  /* [n_operators] what is above it by itself is too costly */
    int32_t **best;                /* [n_operators][n_ways of the parent] */
} solver;

static double weigh(const double *weight, const bound_loads *loads) {
    double sum = 0;
    for (int i = 0; i < BOUND_N_LOADS; i++)
        sum += weight[i] * loads->of[i];
    return sum;
}

static bool list_edges(solver *s) {
    const bound_problem *p = s->problem;
    int32_t a, b;
    s->first_edge = CLEAVE_ARENA_ARRAY(&s->arena, int32_t, p->n_operators + 2);
    s->edge_of = CLEAVE_ARENA_ARRAY(&s->arena, int32_t, 2 * (int64_t)p->n_edges + 1);
    if (s->first_edge == NULL || s->edge_of == NULL)
        return false;
    int32_t *next = s->first_edge + 1;
    for (int32_t e = 0; e < p->n_edges; e++) {
        bound_edge_ends(p, e, &a, &b);
        next[a + 1]++;
        next[b + 1]++;
    }
    for (int32_t op = 0; op < p->n_operators; op++)
        next[op + 1] += next[op];
    for (int32_t e = 0; e < p->n_edges; e++) {
        bound_edge_ends(p, e, &a, &b);
        s->edge_of[next[a]++] = e;
        s->edge_of[next[b]++] = e;
    }
    return true;
}

static int32_t other_end(const bound_problem *p, int32_t edge, int32_t op) {
    int32_t a, b;
    bound_edge_ends(p, edge, &a, &b);
    return a == op ? b : a;
}

/* Breadth first, from the first operator of every tree. */
static bool order_operators(solver *s) {
    int32_t n = s->problem->n_operators, n_ordered = 0;
    bool *seen = CLEAVE_ARENA_ARRAY(&s->arena, bool, n);
    s->order = CLEAVE_ARENA_ARRAY(&s->arena, int32_t, n);
    s->parent_edge = CLEAVE_ARENA_ARRAY(&s->arena, int32_t, n);
    if (seen == NULL || s->order == NULL || s->parent_edge == NULL)
        return false;
    for (int32_t root = 0, next = 0; root < n; root++) {
        if (seen[root])
            continue;
        seen[root] = true;
        s->parent_edge[root] = -1;
        s->order[n_ordered++] = root;
        for (; next < n_ordered; next++)
            for (int32_t i = s->first_edge[s->order[next]]; i < s->first_edge[s->order[next] + 1];
                 i++) {
                int32_t child = other_end(s->problem, s->edge_of[i], s->order[next]);
                if (seen[child])
                    continue;
                seen[child] = true;
                s->parent_edge[child] = s->edge_of[i];
                s->order[n_ordered++] = child;
            }
    }
    return true;
}

static void add_up(const bound_problem *p, const int32_t *choice, bound_loads *loads) {
    bound_loads sum = p->fixed, of;
    int32_t a, b;
    for (int32_t op = 0; op < p->n_operators; op++)
        for (int i = 0; i < BOUND_N_LOADS; i++)
            sum.of[i] += p->own[op][choice[op]].of[i];
    for (int32_t e = 0; e < p->n_edges; e++) {
        bound_edge_ends(p, e, &a, &b);
        bound_edge_loads(p, e, choice[a], choice[b], &of);
        for (int i = 0; i < BOUND_N_LOADS; i++)
            sum.of[i] += of.of[i];
    }
    *loads = sum;
}

/* All ways by themselves, with what their ends of edges take, are above `least` together by no more
   than a known choice is. */
static void find_most(solver *s, const int32_t *known) {
    const bound_problem *p = s->problem;
    bound_loads loads;
    double least = weigh(s->weight, &p->fixed), own_best = HUGE_VAL;
    int32_t *best = CLEAVE_ARENA_ARRAY(&s->arena, int32_t, p->n_operators);
    for (int32_t op = 0; op < p->n_operators; op++) {
        for (int32_t w = 1; w < p->n_ways[op] && best != NULL; w++)
            best[op] = s->cost[op][w] < s->cost[op][best[op]] ? w : best[op];
        s->most[op] = best != NULL ? s->cost[op][best[op]] : HUGE_VAL;
        least += s->most[op];
    }
    if (best != NULL) {
        add_up(p, best, &loads);
        own_best = weigh(s->weight, &loads);
    }
    add_up(p, known, &loads);
    double slack = fmin(own_best, weigh(s->weight, &loads)) - least;
    for (int32_t op = 0; op < p->n_operators; op++)
        s->most[op] += slack * (1 + 1e-9);
}

static bool begin(solver *s, const int32_t *known) {
    const bound_problem *p = s->problem;
    s->cost = CLEAVE_ARENA_ARRAY(&s->arena, double *, p->n_operators);
    s->best = CLEAVE_ARENA_ARRAY(&s->arena, int32_t *, p->n_operators);
    s->most = CLEAVE_ARENA_ARRAY(&s->arena, double, p->n_operators);
    if (s->cost == NULL || s->best == NULL || s->most == NULL || !list_edges(s) ||
        !order_operators(s))
        return false;
    for (int32_t op = 0; op < p->n_operators; op++) {
        s->cost[op] = CLEAVE_ARENA_ARRAY(&s->arena, double, p->n_ways[op]);
        if (s->cost[op] == NULL)
            return false;
        for (int32_t w = 0; w < p->n_ways[op]; w++)
            s->cost[op][w] = weigh(s->weight, &p->own[op][w]);
    }
    find_most(s, known);
    return true;
}

static int by_cost(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    CLEAVE_ORDER_BY(x->cost, y->cost);
    return CLEAVE_ORDER(x->way, y->way);
}

static double cost_of_edge(const solver *s, int32_t edge, bool child_first, int32_t of_child,
                           int32_t of_parent) {
    bound_loads loads;
    bound_edge_loads(s->problem, edge, child_first ? of_child : of_parent,
                     child_first ? of_parent : of_child, &loads);
    return weigh(s->weight, &loads);
}

static bool tell_parent(solver *s, int32_t child) {
    const bound_problem *p = s->problem;
    int32_t edge = s->parent_edge[child], parent = other_end(p, edge, child), a, b;
    int32_t n = p->n_ways[child];
    ranked *ways = CLEAVE_ARENA_ARRAY(&s->arena, ranked, n);
    s->best[child] = CLEAVE_ARENA_ARRAY(&s->arena, int32_t, p->n_ways[parent]);
    if (ways == NULL || s->best[child] == NULL)
        return false;
    bound_edge_ends(p, edge, &a, &b);
    for (int32_t w = 0; w < n; w++) {
        bound_loads side;
        bound_edge_side(p, edge, b == child, w, &side);
        ways[w] = (ranked){s->cost[child][w] + weigh(s->weight, &side), w};
    }
    CLEAVE_SORT(ways, n, by_cost);
    for (int32_t x = 0; x < p->n_ways[parent]; x++) {
        bound_loads side;
        bound_edge_side(p, edge, b == parent, x, &side);
        double other = weigh(s->weight, &side) * (1 - 1e-12);
        bool looks = *s->most_pairs > 0 && weigh(s->weight, &p->own[parent][x]) <= s->most[parent];
        double least = looks ? HUGE_VAL : ways[0].cost + other;
        int32_t best = ways[0].way, i = 0;
        for (; i < n && ways[i].cost + other < least; i++) {
            double cost =
                s->cost[child][ways[i].way] + cost_of_edge(s, edge, a == child, ways[i].way, x);
            best = cost < least ? ways[i].way : best;
            least = cost < least ? cost : least;
        }
        *s->most_pairs -= i;
        s->best[child][x] = best;
        s->cost[parent][x] += least;
    }
    return true;
}

/* From the roots down. */
static void choose(solver *s, int32_t *choice, double *least) {
    const bound_problem *p = s->problem;
    *least = weigh(s->weight, &p->fixed);
    for (int32_t i = 0; i < p->n_operators; i++) {
        int32_t op = s->order[i], edge = s->parent_edge[op], best = 0;
        if (edge >= 0) {
            choice[op] = s->best[op][choice[other_end(p, edge, op)]];
            continue;
        }
        for (int32_t w = 1; w < p->n_ways[op]; w++)
            best = s->cost[op][w] < s->cost[op][best] ? w : best;
        choice[op] = best;
        *least += p->n_ways[op] > 0 ? s->cost[op][best] : 0;
    }
}

cleave_status bound_forest_least(const bound_problem *problem, const double *weight,
                                 int64_t *most_pairs, int32_t *choice, bound_loads *loads,
                                 double *least, cleave_error *error) {
    solver s = {.problem = problem, .weight = weight, .most_pairs = most_pairs};
    bool made = begin(&s, choice);
    for (int32_t i = problem->n_operators - 1; i >= 0 && made; i--)
        if (s.parent_edge[s.order[i]] >= 0)
            made = tell_parent(&s, s.order[i]);
    if (made) {
        choose(&s, choice, least);
        *least *= 1 - 1e-9; /* sums of doubles round */
        add_up(problem, choice, loads);
    }
    cleave_arena_free(&s.arena);
    return made ? CLEAVE_OK : cleave_fail_memory(error, "bounding the step");
}
