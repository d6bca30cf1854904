/* Runs: what a chain visits of one operator without leaving it.  The head of shares.c says what
   they are for. */
#include "search/bound/building.h"

static int32_t nest_of(int32_t element) { return element / CLEAVE_N_COMPUTE_PASSES; }
static int pass_of(int32_t element) { return element % CLEAVE_N_COMPUTE_PASSES; }

static int64_t slot_of(const cleave_model *model, int32_t nest, int pass) {
    if (pass == CLEAVE_PASS_FORWARD)
        return nest;
    return model->n_nests + 2 * (int64_t)(model->n_nests - 1 - nest) +
           (pass == CLEAVE_PASS_WEIGHT_GRADIENT);
}

static void note(int32_t *list, int32_t *nests, int32_t *n, int32_t place, int32_t nest) {
    if (*n < BOUND_MAX_RUN_PASSES) {
        list[*n] = place;
        nests[(*n)++] = nest;
    }
}

static void fill_run(bound_building *b, bound_run *r, int32_t end) {
    const cleave_model *model = b->model;
    const int32_t *element = b->chain->elements;
    const cleave_operator *op = &model->operators[r->op];
    int32_t first = element[r->first], last = element[r->last], unused[BOUND_MAX_RUN_PASSES];
    int64_t from = slot_of(model, nest_of(first), pass_of(first));
    if (pass_of(first) == CLEAVE_PASS_WEIGHT_GRADIENT)
        from--; /* the other gradient waits for no less */
    int64_t through = slot_of(model, nest_of(last), pass_of(last)), until = INT64_MAX;
    if (end < b->chain->n)
        until = slot_of(model, nest_of(element[end]), pass_of(element[end]));
    r->first_nest = nest_of(first);
    for (int32_t c = r->first; c <= r->last; c++)
        note(r->chain, unused, &r->n_chain,
             b->place[nest_of(element[c])] * CLEAVE_N_COMPUTE_PASSES + pass_of(element[c]),
             nest_of(element[c]));
    r->n_forward = b->chain->n_forward - r->first;
    r->n_forward = r->n_forward < 0 ? 0 : r->n_forward;
    r->n_forward = r->n_forward < r->n_chain ? r->n_forward : r->n_chain;
    for (int32_t i = 0; i < op->n_nests; i++)
        for (int pass = 0; pass < CLEAVE_N_COMPUTE_PASSES; pass++) {
            int64_t slot = slot_of(model, op->nests[i], pass);
            int32_t place = i * CLEAVE_N_COMPUTE_PASSES + pass;
            if (slot >= from && slot <= through)
                note(r->through, r->nest_of[0], &r->n_through, place, op->nests[i]);
            else if (slot > through && slot < until)
                note(r->after, r->nest_of[1], &r->n_after, place, op->nests[i]);
        }
}

/* The exchange by which the chain goes from one element to the next; BOUND_NO: none that is known.
 */
static cleave_status bound_find_transition(bound_building *b, int32_t before, int32_t after,
                                           int32_t *found, bool *back, cleave_error *error) {
    *found = BOUND_NO;
    *back = pass_of(before) != CLEAVE_PASS_FORWARD;
    if (!*back && pass_of(after) != CLEAVE_PASS_FORWARD)
        return CLEAVE_OK;
    int32_t writer = nest_of(*back ? after : before), reader = nest_of(*back ? before : after);
    const cleave_nest *nest = &b->model->nests[reader];
    for (int i = 0; i < nest->n_inputs && *found == BOUND_NO; i++) {
        if (!bound_is_direct(b, reader, i) || b->model->writer[nest->inputs[i].tensor] != writer ||
            (*back && !bound_gives_gradient(b, reader, i, pass_of(before))) ||
            (!*back && !bound_reads_always(b->model, nest, &nest->inputs[i])))
            continue;
        int32_t e = bound_find_exchange(b, reader, i);
        if (e == BOUND_NO)
            return bound_short_of_memory(error);
        if (!*back || b->exchanges[e].moves_back)
            *found = e;
    }
    return CLEAVE_OK;
}

static cleave_status find_moves(bound_building *b, bound_run *r, cleave_error *error) {
    for (int32_t c = r->first; c < r->last; c++) {
        int32_t found;
        bool back;
        CLEAVE_TRY(bound_find_transition(b, b->chain->elements[c], b->chain->elements[c + 1],
                                         &found, &back, error));
        if (found == BOUND_NO || r->n_moves == BOUND_MAX_RUN_MOVES || !bound_attach(b, found))
            continue;
        r->move_is_back[r->n_moves] = back;
        r->moves[r->n_moves++] = found;
    }
    return CLEAVE_OK;
}

cleave_status bound_find_runs(bound_building *b, cleave_error *error) {
    const bound_chain *chain = b->chain;
    b->runs = CLEAVE_ARENA_ARRAY(b->arena, bound_run, chain->n);
    if (b->runs == NULL)
        return bound_short_of_memory(error);
    for (int32_t first = 0, end; first < chain->n; first = end) {
        int32_t op = b->model->nests[nest_of(chain->elements[first])].op;
        for (end = first + 1;
             end < chain->n && b->model->nests[nest_of(chain->elements[end])].op == op;)
            end++;
        bound_run *r = &b->runs[b->n_runs++];
        *r = (bound_run){.op = op, .first = first, .last = end - 1};
        fill_run(b, r, end);
        CLEAVE_TRY(find_moves(b, r, error));
        if (r->n_after > 0)
            r->after_time = CLEAVE_ARENA_ARRAY(b->arena, double, bound_list_of(b, op)->n_ways);
        if (r->n_after > 0 && r->after_time == NULL)
            return bound_short_of_memory(error);
    }
    return CLEAVE_OK;
}

/* Where the chain goes on by an exchange that an edge has, what comes after the run is weighed
   against the wait there; else it is the run's own. */
cleave_status bound_join_runs(bound_building *b, cleave_error *error) {
    for (int32_t r = 0; r + 1 < b->n_runs; r++) {
        int32_t found;
        bool back;
        CLEAVE_TRY(bound_find_transition(b, b->chain->elements[b->runs[r].last],
                                         b->chain->elements[b->runs[r + 1].first], &found, &back,
                                         error));
        if (found == BOUND_NO || !bound_attach(b, found))
            continue;
        bound_exchange *e = &b->exchanges[found];
        bool *on_chain = back ? &e->chain_backward : &e->chain_forward;
        if (*on_chain)
            continue;
        *on_chain = b->runs[r].joined = true;
        *(back ? &e->after_backward : &e->after_forward) = b->runs[r].after_time;
    }
    return CLEAVE_OK;
}
