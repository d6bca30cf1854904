#include "search/problem/structure.h"

#include "base/list.h"
#include "base/order.h"

#include <string.h>

typedef struct edge {
    int32_t from, to;
} edge;

typedef CLEAVE_LIST(edge) edge_list;

/* Edges from the operators that write what a tensor shows, whatever views lie between. */
static bool add_writers(const cleave_model *model, int32_t tensor, int32_t op, edge_list *edges) {
    const cleave_tensor *of = &model->tensors[tensor];
    bool done = true;
    if (of->view.kind == CLEAVE_VIEW_NONE) {
        int32_t writer = model->writer[tensor];
        if (writer >= 0 && model->nests[writer].op != op)
            done = CLEAVE_LIST_PUSH(edges, (edge){model->nests[writer].op, op}) &&
                   CLEAVE_LIST_PUSH(edges, (edge){op, model->nests[writer].op});
        return done;
    }
    for (int32_t i = 0; i < of->view.n_sources && done; i++)
        done = add_writers(model, of->view.sources[i], op, edges);
    return done;
}

static int by_ends(const void *a, const void *b) {
    const edge *x = a, *y = b;
    CLEAVE_ORDER_BY(x->from, y->from);
    return CLEAVE_ORDER(x->to, y->to);
}

static bool collect_edges(const cleave_model *model, edge_list *edges) {
    for (int32_t n = 0; n < model->n_nests; n++)
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            if (!add_writers(model, model->nests[n].inputs[i].tensor, model->nests[n].op, edges))
                return false;
    CLEAVE_SORT(edges->items, edges->n, by_ends);
    return true;
}

static bool list_neighbors(const cleave_model *model, const edge_list *edges, cleave_arena *arena,
                           cleave_structure *s) {
    s->first_neighbor = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_operators + 1);
    s->neighbors = CLEAVE_ARENA_ARRAY(arena, int32_t, edges->n);
    if (s->first_neighbor == NULL || s->neighbors == NULL)
        return false;
    int32_t n = 0, at = 0;
    for (int32_t op = 0; op < model->n_operators; op++) {
        s->first_neighbor[op] = n;
        for (; at < edges->n && edges->items[at].from == op; at++)
            if (n == s->first_neighbor[op] || s->neighbors[n - 1] != edges->items[at].to)
                s->neighbors[n++] = edges->items[at].to;
    }
    s->first_neighbor[model->n_operators] = n;
    return true;
}

/* An operator's results are counted as one activation, whose last reader is the last neighbour
   after it.  Operators are numbered in topological order, but for those whose nests interleave with
   others', where a cut is a guess: it serves to draw moves, nothing rests on it. */
static bool find_cuts(const cleave_model *model, cleave_arena *arena, cleave_structure *s) {
    int32_t n_ops = model->n_operators;
    int32_t *open = CLEAVE_ARENA_ARRAY(arena, int32_t, n_ops + 2);
    s->cuts = CLEAVE_ARENA_ARRAY(arena, int32_t, n_ops + 1);
    if (open == NULL || s->cuts == NULL)
        return false;
    for (int32_t op = 0; op < n_ops; op++) {
        int32_t last = op;
        for (int32_t i = s->first_neighbor[op]; i < s->first_neighbor[op + 1]; i++)
            last = s->neighbors[i] > last ? s->neighbors[i] : last;
        open[op + 1]++;
        open[last + 1]--;
    }
    for (int32_t at = 0, n = 0; at <= n_ops; at++) {
        n += open[at];
        if (n <= 1 || at == 0 || at == n_ops)
            s->cuts[s->n_cuts++] = at;
    }
    return true;
}

static bool list_parameters(const cleave_model *model, const cleave_constraints *constraints,
                            cleave_arena *arena, cleave_structure *s) {
    const bool *fixed = constraints != NULL ? constraints->is_update_fixed : NULL;
    s->parameters = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    if (s->parameters == NULL)
        return false;
    for (int32_t t = 0; t < model->n_tensors && cleave_model_trains(model); t++)
        if (model->tensors[t].kind == CLEAVE_TENSOR_PARAMETER && model->tensors[t].needs_gradient &&
            (fixed == NULL || !fixed[t]))
            s->parameters[s->n_parameters++] = t;
    return true;
}

typedef struct ranked {
    int64_t picoseconds;
    int32_t candidate;
} ranked;

static int by_cost(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    CLEAVE_ORDER_BY(x->picoseconds, y->picoseconds);
    return CLEAVE_ORDER(x->candidate, y->candidate);
}

static bool rank_list(const cleave_candidate_list *list, cleave_arena *arena, int32_t **order) {
    ranked *ranks = CLEAVE_ARENA_ARRAY(arena, ranked, list->n);
    *order = CLEAVE_ARENA_ARRAY(arena, int32_t, list->n);
    if (ranks == NULL || *order == NULL)
        return false;
    for (int32_t i = 0; i < list->n; i++)
        ranks[i] = (ranked){list->items[i].picoseconds, i};
    CLEAVE_SORT(ranks, list->n, by_cost);
    for (int32_t i = 0; i < list->n; i++)
        (*order)[i] = ranks[i].candidate;
    return true;
}

cleave_status cleave_structure_create(const cleave_model *model,
                                      const cleave_candidates *candidates,
                                      const cleave_constraints *constraints, cleave_arena *arena,
                                      cleave_structure *structure, cleave_error *error) {
    cleave_structure s = {0};
    edge_list edges = {0};
    bool made = collect_edges(model, &edges) && list_neighbors(model, &edges, arena, &s) &&
                find_cuts(model, arena, &s) && list_parameters(model, constraints, arena, &s);
    CLEAVE_LIST_FREE(&edges);
    s.by_cost = CLEAVE_ARENA_ARRAY(arena, int32_t *, candidates->n_lists);
    made = made && s.by_cost != NULL;
    for (int32_t l = 0; l < candidates->n_lists && made; l++)
        made = rank_list(&candidates->lists[l], arena, &s.by_cost[l]);
    if (!made)
        return cleave_fail_memory(error, "searching");
    *structure = s;
    return CLEAVE_OK;
}

/* ---- kinds ----------------------------------------------------------------------------------- */

/* How many devices of `of` are accounted for by axes of `like` that have the same name and degree;
   0: replicas differ. */
static int64_t agreement(const cleave_operator *op, const cleave_candidate *of,
                         const cleave_operator *like_op, const cleave_candidate *like) {
    if (of->replicas != like->replicas)
        return 0;
    int64_t agreed = of->replicas;
    for (int a = 0; a < op->n_axes; a++)
        for (int b = 0; b < like_op->n_axes && of->degree[a] > 1; b++)
            if (of->degree[a] == like->degree[b] &&
                strcmp(op->axes[a].name, like_op->axes[b].name) == 0)
                agreed *= of->degree[a];
    return agreed;
}

static bool same_places(const cleave_candidate *a, const cleave_candidate *b) {
    return memcmp(a->offsets, b->offsets, (size_t)a->n_parts * sizeof *a->offsets) == 0;
}

bool cleave_choice_alike(const cleave_model *model, const cleave_candidates *candidates,
                         int32_t from, cleave_choice choice, int32_t to, cleave_choice *alike) {
    const cleave_candidate *like = &cleave_list_of(candidates, from)->items[choice.candidate];
    const cleave_candidate_list *list = cleave_list_of(candidates, to);
    if (candidates->list_of[from] == candidates->list_of[to]) {
        *alike = choice;
        return true;
    }
    int64_t most = 0;
    for (int32_t i = 0; i < list->n; i++) {
        const cleave_candidate *c = &list->items[i];
        if (c->n_parts != like->n_parts || choice.start >= c->n_starts)
            continue;
        int64_t agreed = 2 * agreement(&model->operators[to], c, &model->operators[from], like);
        if (agreed > 0 && same_places(c, like))
            agreed++;
        if (agreed > most) {
            most = agreed;
            *alike = (cleave_choice){i, choice.start};
        }
    }
    return most > 0;
}
