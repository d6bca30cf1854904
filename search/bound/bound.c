/* Three bounds, of which the largest is taken.  The head of path.c says what a path is, that
   of work.c what devices do beside the computes of nests.

   Work.  A device runs the items of its main lane one after the other, so the step is at least what
   the busiest device does there, which is at least the sum over all devices divided by their
   number.  That sum is a sum over operators, and each operator's term is at least the least one
   over its candidates (least_total), the least of its chores included
   (search/problem/state_chores.c), plus other work.  More sums, copies and messages only add.

   Path.  No pass of a nest takes less than its quickest non-empty part over all candidates.

   Both at once.  The two above let one operator be in one piece where its work counts (few
   launches) and in many where its part of the path does.  But it has one split.  For any l in [0,
   1] and any chain (a path that is the same in every layout), step >= (1 - l) x work / devices + l
   x chain, and both are sums over operators of what the same split takes.  So the right side is at
   least the sum over operators of the least over its ways of splitting of (1 - l) x its work /
   devices + l x its part of the chain, namely its quickest part in each of its passes that are on
   the chain. As a function of l this is concave, a least of straight lines for each operator; its
   largest value is searched for, and any value of l gives a valid bound.  Of an operator's ways
   only the corners of their lower convex hull can be the least for some l.  Operators with the same
   list and the same passes on the chain have the same term. */
#include "base/order.h"
#include "search/bound/shares.h"

#include <stdlib.h>
#include <string.h>

typedef struct bounding {
    cleave_bound_forms forms;
    int64_t other_work;
} bounding;

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static const cleave_candidate_list *list_of(const cleave_candidates *candidates, int32_t op) {
    return &candidates->lists[candidates->list_of[op]];
}

static int64_t or_none(int64_t picoseconds) { return picoseconds == INT64_MAX ? 0 : picoseconds; }

/* The quickest parts over all ways. */
static void collect_least(const cleave_model *model, const cleave_candidates *candidates,
                          int64_t *time) {
    for (int32_t op = 0; op < model->n_operators; op++)
        for (int32_t i = 0; i < model->operators[op].n_nests; i++)
            for (int pass = 0; pass < CLEAVE_N_COMPUTE_PASSES; pass++)
                time[model->operators[op].nests[i] * CLEAVE_N_COMPUTE_PASSES + pass] =
                    or_none(list_of(candidates, op)->least[i * CLEAVE_N_COMPUTE_PASSES + pass]);
}

/* Those of the way with the least work among those with the most parts: splits that a good layout
   is likely to have. */
static void collect_likely(const cleave_model *model, const cleave_candidates *candidates,
                           int64_t *time) {
    for (int32_t op = 0; op < model->n_operators; op++) {
        const cleave_candidate_list *list = list_of(candidates, op);
        const cleave_candidate_way *likely = NULL;
        for (int32_t w = 0; w < list->n_ways; w++) {
            const cleave_candidate_way *way = &list->ways[w];
            if (likely == NULL || way->n_parts > likely->n_parts ||
                (way->n_parts == likely->n_parts && way->total < likely->total))
                likely = way;
        }
        for (int32_t i = 0; i < model->operators[op].n_nests; i++)
            for (int pass = 0; pass < CLEAVE_N_COMPUTE_PASSES; pass++)
                time[model->operators[op].nests[i] * CLEAVE_N_COMPUTE_PASSES + pass] =
                    likely == NULL ? 0 : or_none(likely->least[i * CLEAVE_N_COMPUTE_PASSES + pass]);
    }
}

/* ---- both at once ---------------------------------------------------------------------------- */

typedef struct point {
    double work, part;
} point;

/* Operators with one list and the same of their passes on the chain. */
typedef struct group {
    int32_t list, n_operators;
    uint64_t on_chain; /* bits of places in `least`; what has no bit is left out, which is valid */
    int32_t n_points;
    point *points; /* corners of the lower hull, ascending by work */
} group;

static int by_list(const void *a, const void *b) {
    const group *x = a, *y = b;
    CLEAVE_ORDER_BY(x->list, y->list);
    return CLEAVE_ORDER(x->on_chain, y->on_chain);
}

static int by_work(const void *a, const void *b) {
    const point *x = a, *y = b;
    CLEAVE_ORDER_BY(x->work, y->work);
    return CLEAVE_ORDER(x->part, y->part);
}

/* Keeps the corners of the lower hull. */
static int32_t keep_hull(point *points, int32_t n) {
    int32_t kept = 0;
    CLEAVE_SORT(points, n, by_work);
    for (int32_t i = 0; i < n; i++) {
        point p = points[i];
        if (kept > 0 && p.part >= points[kept - 1].part)
            continue;
        while (kept > 1) {
            point a = points[kept - 2], b = points[kept - 1];
            if ((b.part - a.part) * (p.work - a.work) < (p.part - a.part) * (b.work - a.work))
                break;
            kept--;
        }
        points[kept++] = p;
    }
    return kept;
}

static bool find_points(const cleave_candidate_list *list, cleave_arena *arena, group *g) {
    g->points = CLEAVE_ARENA_ARRAY(arena, point, list->n_ways);
    if (g->points == NULL)
        return false;
    for (int32_t w = 0; w < list->n_ways; w++) {
        const cleave_candidate_way *way = &list->ways[w];
        int64_t part = 0;
        for (uint64_t left = g->on_chain; left != 0; left &= left - 1)
            part += or_none(way->least[__builtin_ctzll(left)]);
        g->points[w] = (point){(double)way->total, (double)part};
    }
    g->n_points = keep_hull(g->points, list->n_ways);
    return true;
}

/* One group for each operator at first, then those that are alike joined. */
static cleave_status find_groups(const cleave_model *model, const cleave_candidates *candidates,
                                 const bound_chain *chain, cleave_arena *arena, group **groups,
                                 int32_t *n_groups, cleave_error *error) {
    group *made = CLEAVE_ARENA_ARRAY(arena, group, model->n_operators);
    int32_t *place = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_nests), n = 0;
    if (made == NULL || place == NULL)
        return cleave_fail_memory(error, "bounding the step");
    for (int32_t op = 0; op < model->n_operators; op++) {
        made[op] = (group){.list = candidates->list_of[op], .n_operators = 1};
        for (int32_t i = 0; i < model->operators[op].n_nests; i++)
            place[model->operators[op].nests[i]] = i;
    }
    for (int32_t c = 0; c < chain->n; c++) {
        int32_t nest = chain->elements[c] / CLEAVE_N_COMPUTE_PASSES;
        int32_t bit =
            place[nest] * CLEAVE_N_COMPUTE_PASSES + chain->elements[c] % CLEAVE_N_COMPUTE_PASSES;
        if (bit < 64)
            made[model->nests[nest].op].on_chain |= UINT64_C(1) << bit;
    }
    CLEAVE_SORT(made, model->n_operators, by_list);
    for (int32_t op = 0; op < model->n_operators; op++)
        if (n > 0 && by_list(&made[n - 1], &made[op]) == 0)
            made[n - 1].n_operators++;
        else
            made[n++] = made[op];
    for (int32_t g = 0; g < n; g++)
        if (!find_points(&candidates->lists[made[g].list], arena, &made[g]))
            return cleave_fail_memory(error, "bounding the step");
    *groups = made;
    *n_groups = n;
    return CLEAVE_OK;
}

typedef struct mixture {
    const group *groups;
    int32_t n_groups;
    double n_devices, other_work;
} mixture;

static double mix(const mixture *m, double l) {
    double of_work = (1 - l) / m->n_devices, sum = of_work * m->other_work;
    for (int32_t g = 0; g < m->n_groups; g++) {
        double least = 0;
        for (int32_t p = 0; p < m->groups[g].n_points; p++) {
            double value = of_work * m->groups[g].points[p].work + l * m->groups[g].points[p].part;
            least = p == 0 || value < least ? value : least;
        }
        sum += m->groups[g].n_operators * least;
    }
    return sum * (1 - 1e-12); /* sums of doubles round */
}

/* The largest value of a concave function on [0, 1], nearly: thirds are left out.  The best shares
   of the path are mostly small, so the ends are looked at on their own scale, too. */
static double best_mix(const mixture *m) {
    double low = 0, high = 1, best = mix(m, 0);
    for (int round = 0; round < 80; round++) {
        double a = low + (high - low) / 3, b = high - (high - low) / 3;
        double at_a = mix(m, a), at_b = mix(m, b);
        double better = at_a > at_b ? at_a : at_b;
        best = better > best ? better : best;
        if (at_a < at_b)
            low = a;
        else
            high = b;
    }
    return best;
}

static cleave_status bound_both(const cleave_model *model, const cleave_machine *machine,
                                const cleave_candidates *candidates, const int64_t *time,
                                int64_t other_work, int64_t *bound, cleave_error *error) {
    cleave_arena scratch = {0};
    bound_chain chain;
    group *groups = NULL;
    mixture m = {.n_devices = machine->n_devices, .other_work = (double)other_work};
    cleave_status status = bound_longest_chain(model, time, &scratch, &chain, error);
    if (status == CLEAVE_OK)
        status = find_groups(model, candidates, &chain, &scratch, &groups, &m.n_groups, error);
    if (status == CLEAVE_OK) {
        m.groups = groups;
        *bound = larger(*bound, (int64_t)best_mix(&m));
    }
    cleave_arena_free(&scratch);
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static const char *const load_names[BOUND_N_LOADS] = {
    "compute",        "one pass after the other", "links of devices",
    "links of nodes", "links of devices",         "links of nodes"};

/* Both at once, with what moves. */
static cleave_status bound_shares(const cleave_model *model, const cleave_machine *machine,
                                  const cleave_candidates *candidates, const int64_t *time,
                                  const bounding *of, cleave_bound *bound, cleave_error *error) {
    cleave_arena scratch = {0};
    bound_chain chain;
    bound_problem problem;
    double found = 0;
    int load = 0;
    cleave_status status = bound_longest_chain(model, time, &scratch, &chain, error);
    if (status == CLEAVE_OK)
        status = bound_problem_create(model, machine, candidates, &chain, of->other_work,
                                      of->forms == CLEAVE_BOUND_STEPS, &scratch, &problem, error);
    if (status == CLEAVE_OK)
        status = bound_weigh(&problem, of->forms == CLEAVE_BOUND_STEPS, &found, &load, error);
    cleave_arena_free(&scratch);
    CLEAVE_TRY(status);
    if (found * 1e-12 > bound->seconds)
        *bound = (cleave_bound){found * 1e-12, load_names[load]};
    return CLEAVE_OK;
}

static void take(int64_t picoseconds, const char *binds, cleave_bound *bound) {
    if ((double)picoseconds * 1e-12 > bound->seconds)
        *bound = (cleave_bound){(double)picoseconds * 1e-12, binds};
}

static cleave_status bound_all(const cleave_model *model, const cleave_machine *machine,
                               const cleave_candidates *candidates, const bounding *of,
                               int64_t *time, cleave_bound *bound, cleave_error *error) {
    int64_t work = of->other_work, path = 0, both = 0;
    for (int32_t op = 0; op < model->n_operators; op++)
        work += list_of(candidates, op)->least_total;
    collect_least(model, candidates, time);
    CLEAVE_TRY(bound_longest_path(model, time, &path, error));
    take(work / machine->n_devices, load_names[BOUND_WORK], bound);
    take(path, load_names[BOUND_CHAIN], bound);
    CLEAVE_TRY(bound_both(model, machine, candidates, time, of->other_work, &both, error));
    collect_likely(model, candidates, time);
    CLEAVE_TRY(bound_both(model, machine, candidates, time, of->other_work, &both, error));
    take(both, load_names[BOUND_WORK], bound);
    return of->forms == CLEAVE_BOUND_FOLDED
               ? CLEAVE_OK
               : bound_shares(model, machine, candidates, time, of, bound, error);
}

cleave_status cleave_lower_bound_of(const cleave_model *model, const cleave_machine *machine,
                                    const cleave_candidates *candidates, int optimizer_states,
                                    cleave_bound_forms forms, cleave_bound *bound,
                                    cleave_error *error) {
    bounding of = {.forms = forms};
    cleave_bound found = {0, load_names[BOUND_WORK]};
    CLEAVE_TRY(bound_other_work(model, machine, optimizer_states, forms == CLEAVE_BOUND_STEPS,
                                &of.other_work, error));
    int64_t *time = calloc((size_t)model->n_nests * CLEAVE_N_COMPUTE_PASSES + 1, sizeof *time);
    if (time == NULL)
        return cleave_fail_memory(error, "bounding the step");
    cleave_status status = bound_all(model, machine, candidates, &of, time, &found, error);
    free(time);
    CLEAVE_TRY(status);
    *bound = found;
    return CLEAVE_OK;
}

cleave_status cleave_lower_bound(const cleave_model *model, const cleave_machine *machine,
                                 const cleave_candidates *candidates, int optimizer_states,
                                 double *seconds, cleave_error *error) {
    cleave_bound bound;
    CLEAVE_TRY(cleave_lower_bound_of(model, machine, candidates, optimizer_states,
                                     CLEAVE_BOUND_ALL_FORMS, &bound, error));
    *seconds = bound.seconds;
    return CLEAVE_OK;
}
