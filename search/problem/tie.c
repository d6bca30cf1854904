#include "search/problem/tie.h"

#include "base/list.h"

/* So many periods are tried from each operator, shortest first, and so many tensors under a view
   are looked at. */
enum { MOST_TRIES = 64, MOST_LEAVES = 16 };

typedef struct reader {
    int32_t first, n; /* of sources */
} reader;

typedef struct tying {
    const cleave_model *model;
    const cleave_candidates *candidates;
    reader *readers;              /* [n_operators] */
    CLEAVE_LIST(int32_t) sources; /* operator that writes each tensor read; ~tensor of others */
    int32_t *next_alike;          /* [n_operators] the next with the same candidates; -1: none */
} tying;

static bool add_sources(tying *t, int32_t tensor, int32_t *left) {
    const cleave_tensor *of = &t->model->tensors[tensor];
    bool added = true;
    for (int32_t s = 0; s < of->view.n_sources && added; s++)
        added = add_sources(t, of->view.sources[s], left);
    if (of->view.n_sources > 0 || *left == 0)
        return added;
    (*left)--;
    int32_t writer = t->model->writer[tensor];
    return CLEAVE_LIST_PUSH(&t->sources, writer >= 0 ? t->model->nests[writer].op : ~tensor);
}

static bool list_sources(tying *t, int32_t op) {
    const cleave_operator *of = &t->model->operators[op];
    bool added = true;
    t->readers[op].first = t->sources.n;
    for (int32_t k = 0; k < of->n_nests; k++) {
        const cleave_nest *nest = &t->model->nests[of->nests[k]];
        for (int i = 0; i < nest->n_inputs && added; i++) {
            int32_t left = MOST_LEAVES;
            added = add_sources(t, nest->inputs[i].tensor, &left);
        }
    }
    t->readers[op].n = t->sources.n - t->readers[op].first;
    return added;
}

/* Does operator b stand where a does, a period later?  Parameters and data may be any. */
static bool repeats(const tying *t, int32_t a, int32_t b) {
    if (t->candidates->list_of[a] != t->candidates->list_of[b] ||
        t->readers[a].n != t->readers[b].n)
        return false;
    const int32_t *x = t->sources.items + t->readers[a].first;
    const int32_t *y = t->sources.items + t->readers[b].first;
    for (int32_t i = 0; i < t->readers[a].n; i++) {
        bool outside = x[i] < 0 && y[i] < 0;
        bool along = x[i] >= 0 && y[i] >= 0 && (y[i] == x[i] || y[i] - x[i] == b - a);
        if (!outside && !along)
            return false;
    }
    return true;
}

/* The shortest period of two blocks or more that begin at an operator; 0: none does. */
static int32_t find_period(const tying *t, int32_t op) {
    int32_t next = t->next_alike[op], n = t->model->n_operators;
    for (int tries = 0; next >= 0 && tries < MOST_TRIES; tries++, next = t->next_alike[next]) {
        int32_t period = next - op, i = 0;
        if (period > n - next)
            return 0;
        while (i < period && repeats(t, op + i, next + i))
            i++;
        if (i == period)
            return period;
    }
    return 0;
}

static void classify(const tying *t, int32_t *class_of, int32_t *n_classes) {
    int32_t n = t->model->n_operators, made = 0;
    for (int32_t op = 0; op < n;) {
        int32_t period = find_period(t, op), end = op + (period > 0 ? period : 1);
        for (; op < end; op++)
            class_of[op] = made++;
        for (; period > 0 && op < n && repeats(t, op - period, op); op++)
            class_of[op] = class_of[op - period];
    }
    *n_classes = made;
}

static bool link_alike(tying *t) {
    int32_t *last = NULL;
    CLEAVE_LIST(int32_t) heads = {0};
    bool pushed = true;
    for (int32_t l = 0; l < t->candidates->n_lists && pushed; l++)
        pushed = CLEAVE_LIST_PUSH(&heads, -1);
    last = heads.items;
    for (int32_t op = t->model->n_operators - 1; op >= 0 && pushed; op--) {
        int32_t *head = &last[t->candidates->list_of[op]];
        t->next_alike[op] = *head;
        *head = op;
    }
    CLEAVE_LIST_FREE(&heads);
    return pushed;
}

cleave_status cleave_tie_operators(const cleave_model *model, const cleave_candidates *candidates,
                                   int32_t *class_of, int32_t *n_classes, cleave_error *error) {
    cleave_arena arena = {0};
    tying t = {.model = model,
               .candidates = candidates,
               .readers = CLEAVE_ARENA_ARRAY(&arena, reader, model->n_operators),
               .next_alike = CLEAVE_ARENA_ARRAY(&arena, int32_t, model->n_operators)};
    bool listed = t.readers != NULL && t.next_alike != NULL && link_alike(&t);
    for (int32_t op = 0; op < model->n_operators && listed; op++)
        listed = list_sources(&t, op);
    if (listed)
        classify(&t, class_of, n_classes);
    CLEAVE_LIST_FREE(&t.sources);
    cleave_arena_free(&arena);
    return listed ? CLEAVE_OK : cleave_fail_memory(error, "finding repeated blocks");
}
