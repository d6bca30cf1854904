/* Values around a layout: a table of all pairs of all candidates would take too long, and the
   candidates that are cheapest by themselves are not those that go well with what is beside them.
   So candidates of an operator are priced with the splits that the others have in the layout, and
   those that change the total least become values. */
#include "base/order.h"
#include "search/solve/pairs.h"

#include <string.h>

/* So many, by what is known of them without boxes: making their shardings is what takes time. */
enum { MOST_SCORED = 192 };

typedef struct scoring {
    additive_making all; /* with all that are scored for values */
    additive_pairs pairs;
    const cleave_layout *around;
    cleave_operator_ports *present; /* [n_operators] of one value: what the layout has */
    int64_t **score;                /* [n_operators][values of `all`] */
} scoring;

static bool is_of(const cleave_candidate *c, const cleave_split *split) {
    if (c->n_parts != split->n_parts || c->replicas != split->replicas)
        return false;
    for (int a = 0; a < CLEAVE_MAX_AXES; a++)
        if ((c->degree[a] > 1 ? c->degree[a] : 1) != (split->degree[a] > 1 ? split->degree[a] : 1))
            return false;
    for (int32_t p = 1; p < c->n_parts; p++)
        if (split->devices[p] - split->devices[0] != c->offsets[p] - c->offsets[0])
            return false;
    return true;
}

/* ---- scores ---------------------------------------------------------------------------------- */

static void add_to(int64_t *score, const additive_table *table, int32_t n) {
    for (int32_t i = 0; i < n; i++)
        score[i] += table->cost[i];
}

/* What the second one's candidates cost with what the first one has, and the other way round. */
static cleave_status score_one(void *context, const additive_encounter *met, cleave_error *error) {
    scoring *s = context;
    const additive_making *all = &s->all;
    int32_t tensor = met->of_second->tensor;
    additive_encounter of_second = *met, of_first = *met;
    const additive_table *table;
    of_second.of_first = additive_find_set(&s->present[met->first], tensor);
    of_first.of_second = additive_find_set(&s->present[met->second], tensor);
    CLEAVE_TRY(additive_price_encounter(&s->pairs, &of_second, &table, error));
    add_to(s->score[met->second], table, additive_values_of(all, met->second)->n);
    CLEAVE_TRY(additive_price_encounter(&s->pairs, &of_first, &table, error));
    add_to(s->score[met->first], table, additive_values_of(all, met->first)->n);
    return CLEAVE_OK;
}

static cleave_status present_ports(scoring *s, int32_t op, cleave_error *error) {
    cleave_split split = s->around->splits[op];
    for (int a = 0; a < CLEAVE_MAX_AXES; a++)
        split.degree[a] = split.degree[a] > 1 ? split.degree[a] : 1;
    return cleave_ports_of(s->all.maker, op, s->all.candidates->n_lists + op, 1, &split,
                           &s->present[op], error);
}

static cleave_status score_all(scoring *s, cleave_error *error) {
    additive_making *all = &s->all;
    int32_t n_ops = all->model->n_operators;
    CLEAVE_TRY(additive_choose_values(all, error));
    CLEAVE_TRY(additive_know_values(all, error));
    s->present = CLEAVE_ARENA_ARRAY(&all->scratch, cleave_operator_ports, n_ops);
    s->score = CLEAVE_ARENA_ARRAY(&all->scratch, int64_t *, n_ops);
    if (s->present == NULL || s->score == NULL)
        return cleave_fail_memory(error, "making the additive model");
    for (int32_t op = 0; op < n_ops; op++) {
        int32_t n = additive_values_of(all, op)->n;
        CLEAVE_TRY(present_ports(s, op, error));
        s->score[op] = CLEAVE_ARENA_ARRAY(&all->scratch, int64_t, n);
        if (s->score[op] == NULL)
            return cleave_fail_memory(error, "making the additive model");
        memcpy(s->score[op], all->own[op].cost, (size_t)n * sizeof *s->score[op]);
    }
    return additive_for_each_encounter(all, score_one, s, error);
}

/* ---- values ---------------------------------------------------------------------------------- */

typedef struct scored {
    int64_t score; /* above the best of an operator's, of those with the list the least */
    int32_t candidate;
} scored;

static int by_score(const void *a, const void *b) {
    const scored *x = a, *y = b;
    CLEAVE_ORDER_BY(x->score, y->score);
    return CLEAVE_ORDER(x->candidate, y->candidate);
}

/* What an operator of the list has in the layout comes before all others. */
static void add_operator(const scoring *s, int32_t op, scored *of_list) {
    const cleave_candidate_list *list = &s->all.candidates->lists[s->all.candidates->list_of[op]];
    int64_t least = INT64_MAX;
    const additive_values *values = additive_values_of(&s->all, op);
    for (int32_t v = 0; v < values->n; v++)
        least = s->score[op][v] < least ? s->score[op][v] : least;
    for (int32_t v = 0; v < values->n; v++) {
        scored *of = &of_list[values->candidate[v]];
        int64_t above = s->score[op][v] - least;
        of->score = above < of->score ? above : of->score;
    }
    for (int32_t i = 0; i < list->n; i++)
        if (is_of(&list->items[i], &s->around->splits[op]))
            of_list[i].score = -1;
}

static bool choose(additive_making *m, const scoring *s, int32_t l) {
    const cleave_candidate_list *list = &m->candidates->lists[l];
    additive_values *values = &m->values[l];
    scored *all = CLEAVE_ARENA_ARRAY(&m->scratch, scored, list->n);
    int32_t most = m->options->most_values;
    values->n = most > 0 && most < list->n ? most : list->n;
    values->candidate = CLEAVE_ARENA_ARRAY(m->arena, int32_t, values->n);
    if (all == NULL || values->candidate == NULL)
        return false;
    for (int32_t i = 0; i < list->n; i++)
        all[i] = (scored){INT64_MAX, i};
    for (int32_t op = 0; op < m->model->n_operators; op++)
        if (m->candidates->list_of[op] == l)
            add_operator(s, op, all);
    CLEAVE_SORT(all, list->n, by_score);
    for (int32_t v = 0; v < values->n; v++)
        values->candidate[v] = all[v].candidate;
    cleave_sort_int32(values->candidate, values->n);
    return additive_place_values(m, l, values);
}

cleave_status additive_choose_around(additive_making *m, cleave_error *error) {
    cleave_additive_options options = *m->options;
    scoring s = {.all = *m, .around = options.around};
    options.most_values = MOST_SCORED;
    s.all.options = &options;
    s.all.scratch = (cleave_arena){0};
    s.all.arena = &s.all.scratch;
    s.all.maker = NULL;
    s.pairs.making = &s.all;
    m->values = CLEAVE_ARENA_ARRAY(&m->scratch, additive_values, m->candidates->n_lists);
    bool chosen = m->values != NULL;
    cleave_status status =
        cleave_port_maker_create(m->model, m->machine->n_devices, &s.all.maker, error);
    if (status == CLEAVE_OK)
        status = score_all(&s, error);
    for (int32_t l = 0; l < m->candidates->n_lists && chosen && status == CLEAVE_OK; l++)
        chosen = choose(m, &s, l);
    cleave_port_maker_destroy(s.all.maker);
    cleave_arena_free(&s.all.scratch);
    CLEAVE_TRY(status);
    return chosen ? CLEAVE_OK : cleave_fail_memory(error, "choosing the values of operators");
}
