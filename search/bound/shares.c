/* What loads there are, and why the step is no shorter than each.

   Work and chains are those of bound.c.  To a chain come three things that depend on ways.

   Waits.  Where an element of the chain reads what the one before wrote, or wants the gradient that
   it gives, no part of it starts before its device has received what it lacks (network.c).

   All devices.  Of an operator that has a part on every device, each device's main lane runs all of
   its passes one after the other in the order of slots.  A run is what the chain visits of one
   operator without leaving it.  Let no part of the run's first element start before t.  If that
   nest has a part on every device, then every device comes to the slot of the run's last element
   after t, and has worked off the passes of the operator between, on the chain or not, before it
   ends it; and before any later slot those in front of that slot.  So the next run of the chain
   starts no sooner than that, nor than the wait after the last element: whichever is later.

   The end.  After the last element, if it gives partial results of a parameter, some message must
   bring them together.

   Links.  All that devices receive in a step crosses links into them, and likewise into nodes. What
   moves is added up over the tensors: of every activation there and of its gradient back, between
   its writer and one of its readers, since others only add; of every parameter's gradient, among
   the parts of one of its readers.  What goes back and comes from passes that follow the chain's
   last forward element crosses links after that, so the chain forward may be added to it.  Closed
   forms of all-to-alls hide a part of what links carry behind the processors, so these two hold for
   collectives in steps. */
#include "graph/model/precision.h"
#include "search/bound/building.h"

/* ---- what ways take by themselves ------------------------------------------------------------ */

static double time_of(const cleave_candidate_way *way, int32_t place) {
    return way->least[place] == INT64_MAX ? 0 : (double)way->least[place];
}

/* `after`: nothing of it is sent before the chain is forward. */
static void add_bytes(const bound_building *b, const bound_move *move, bool after,
                      bound_loads *loads) {
    double devices = 0, nodes = 0;
    if (b->network.devices_rate > 0)
        devices = move->device_bytes / b->network.devices_rate;
    if (b->network.nodes_rate > 0)
        nodes = move->node_bytes / b->network.nodes_rate;
    loads->of[BOUND_DEVICES] += devices;
    loads->of[BOUND_NODES] += nodes;
    loads->of[BOUND_AFTER_DEVICES] += after ? devices : 0;
    loads->of[BOUND_AFTER_NODES] += after ? nodes : 0;
}

static void add_forward(double chain, bound_loads *loads) {
    loads->of[BOUND_AFTER_DEVICES] += chain;
    loads->of[BOUND_AFTER_NODES] += chain;
}

static double sum_everywhere(const bound_building *b, const cleave_candidate_way *way, int32_t n,
                             const int32_t *places, const int32_t *nests) {
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        if (bound_runs_everywhere(b->model, &b->model->nests[nests[i]], way, b->network.n_devices))
            sum += time_of(way, places[i]);
    return sum;
}

static bound_move move_forward(const bound_building *b, const bound_exchange *e, int32_t from,
                               int32_t to) {
    return bound_move_of(&b->network, &e->write[from], &e->read[to], &e->forward);
}

static bound_move move_backward(const bound_building *b, const bound_exchange *e, int32_t from,
                                int32_t to) {
    return bound_move_of(&b->network, &e->read[to], &e->write[from], &e->backward);
}

/* Of a run: the chain through it; what comes after is kept for an edge, or added. */
static void add_run(const bound_building *b, bound_run *r, int32_t w, bound_loads *own) {
    const cleave_candidate_way *way = &bound_list_of(b, r->op)->ways[w];
    double chain = 0, all = 0, after = 0, forward = 0;
    for (int32_t i = 0; i < r->n_chain; i++) {
        chain += time_of(way, r->chain[i]);
        forward += i < r->n_forward ? time_of(way, r->chain[i]) : 0;
    }
    for (int32_t i = 0; i < r->n_moves; i++) {
        const bound_exchange *e = &b->exchanges[r->moves[i]];
        chain += (r->move_is_back[i] ? move_backward(b, e, w, w) : move_forward(b, e, w, w)).wait;
    }
    if (bound_runs_everywhere(b->model, &b->model->nests[r->first_nest], way,
                              b->network.n_devices)) {
        all = sum_everywhere(b, way, r->n_through, r->through, r->nest_of[0]);
        after = sum_everywhere(b, way, r->n_after, r->after, r->nest_of[1]);
    }
    double through = chain > all ? chain : all;
    double rest = all + after > through ? all + after - through : 0;
    if (r->joined && r->after_time != NULL)
        r->after_time[w] = rest;
    through += r->joined ? 0 : rest;
    own->of[BOUND_CHAIN] += through;
    add_forward(r->n_forward == r->n_chain ? through : forward, own);
}

/* Parameters whose gradients it combines, if it is their first reader. */
static void add_parameters(bound_building *b, int32_t op, const int32_t *reader, const int *input,
                           int32_t w, bound_loads *loads) {
    const cleave_model *model = b->model;
    for (int32_t i = 0; i < model->operators[op].n_nests; i++) {
        int32_t n = model->operators[op].nests[i];
        for (int k = 0; k < model->nests[n].n_inputs; k++) {
            int32_t t = model->nests[n].inputs[k].tensor;
            if (reader[t] != n || input[t] != k)
                continue;
            const cleave_tensor *tensor = &model->tensors[t];
            bound_moved moved = {.rank = tensor->rank,
                                 .elements = (double)cleave_tensor_size(tensor),
                                 .element_bytes = (double)cleave_stored_bytes(tensor),
                                 .all_wanted = true};
            const bound_port *port = bound_ports_of(b, n, k);
            if (port == NULL)
                continue; /* nothing is claimed */
            bound_move move = bound_move_of(&b->network, &port[w], &port[w], &moved);
            add_bytes(b, &move, bound_gives_after(b, n, k), loads);
        }
    }
}

/* The first reader of every parameter that is trained and covered by it however it is split. */
static void find_readers(const cleave_model *model, int32_t *reader, int *input) {
    for (int32_t t = 0; t < model->n_tensors; t++)
        reader[t] = BOUND_NO;
    for (int32_t n = 0; n < model->n_nests && cleave_model_trains(model); n++) {
        const cleave_nest *nest = &model->nests[n];
        uint32_t gradients = cleave_nest_pass_inputs(model, nest, CLEAVE_PASS_INPUT_GRADIENT) |
                             cleave_nest_pass_inputs(model, nest, CLEAVE_PASS_WEIGHT_GRADIENT);
        for (int i = 0; i < nest->n_inputs && nest->differentiable; i++) {
            const cleave_tensor *tensor = &model->tensors[nest->inputs[i].tensor];
            if (tensor->kind != CLEAVE_TENSOR_PARAMETER || !tensor->needs_gradient ||
                tensor->view.kind != CLEAVE_VIEW_NONE || (gradients >> i & 1) == 0 ||
                reader[nest->inputs[i].tensor] != BOUND_NO ||
                !bound_covers_always(model, nest, &nest->inputs[i]))
                continue;
            reader[nest->inputs[i].tensor] = n;
            input[nest->inputs[i].tensor] = i;
        }
    }
}

static void add_own(bound_building *b, int32_t op, const int32_t *reader, const int *input,
                    bound_loads *own) {
    const cleave_candidate_list *list = bound_list_of(b, op);
    for (int32_t w = 0; w < list->n_ways; w++) {
        own[w].of[BOUND_WORK] = (double)list->ways[w].total / b->network.n_devices;
        for (int32_t e = b->inner[op]; e != BOUND_NO && b->links; e = b->exchanges[e].next) {
            const bound_exchange *x = &b->exchanges[e];
            bound_move there = move_forward(b, x, w, w), back = move_backward(b, x, w, w);
            if (x->counts)
                add_bytes(b, &there, false, &own[w]);
            if (x->counts && x->moves_back)
                add_bytes(b, &back, x->follows, &own[w]);
        }
        if (b->links)
            add_parameters(b, op, reader, input, w, &own[w]);
    }
}

static cleave_status find_own(bound_building *b, bound_problem *problem, cleave_error *error) {
    const cleave_model *model = b->model;
    int32_t *n_ways = CLEAVE_ARENA_ARRAY(b->arena, int32_t, model->n_operators);
    int32_t *reader = CLEAVE_ARENA_ARRAY(b->arena, int32_t, model->n_tensors);
    int *input = CLEAVE_ARENA_ARRAY(b->arena, int, model->n_tensors);
    bound_loads **own = CLEAVE_ARENA_ARRAY(b->arena, bound_loads *, model->n_operators);
    if (n_ways == NULL || reader == NULL || input == NULL || own == NULL)
        return bound_short_of_memory(error);
    find_readers(model, reader, input);
    for (int32_t op = 0; op < model->n_operators; op++) {
        n_ways[op] = bound_list_of(b, op)->n_ways;
        own[op] = CLEAVE_ARENA_ARRAY(b->arena, bound_loads, n_ways[op]);
        if (own[op] == NULL)
            return bound_short_of_memory(error);
        add_own(b, op, reader, input, own[op]);
    }
    for (int32_t r = 0; r < b->n_runs; r++)
        for (int32_t w = 0; w < n_ways[b->runs[r].op]; w++)
            add_run(b, &b->runs[r], w, &own[b->runs[r].op][w]);
    problem->n_ways = n_ways;
    problem->own = (const bound_loads *const *)own;
    return CLEAVE_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static cleave_status begin(bound_building *b, cleave_error *error) {
    const cleave_model *model = b->model;
    size_t n = (size_t)model->n_operators;
    for (int32_t op = 0; op < model->n_operators; op++)
        if (model->operators[op].n_nests > b->most_nests)
            b->most_nests = model->operators[op].n_nests;
    b->place = CLEAVE_ARENA_ARRAY(b->arena, int32_t, model->n_nests);
    b->ports = CLEAVE_ARENA_ARRAY(
        b->arena, const bound_port *,
        (size_t)b->candidates->n_lists *(size_t)b->most_nests *(CLEAVE_MAX_INPUTS + 1));
    b->inner = CLEAVE_ARENA_ARRAY(b->arena, int32_t, n);
    b->parent = CLEAVE_ARENA_ARRAY(b->arena, int32_t, n);
    b->counted = CLEAVE_ARENA_ARRAY(b->arena, bool, model->n_tensors);
    b->edges = CLEAVE_ARENA_ARRAY(b->arena, bound_edge, n);
    if (b->place == NULL || b->ports == NULL || b->inner == NULL || b->parent == NULL ||
        b->counted == NULL || b->edges == NULL)
        return bound_short_of_memory(error);
    for (int32_t op = 0; op < model->n_operators; op++) {
        b->inner[op] = BOUND_NO;
        b->parent[op] = op;
        for (int32_t i = 0; i < model->operators[op].n_nests; i++)
            b->place[model->operators[op].nests[i]] = i;
    }
    return CLEAVE_OK;
}

/* Whatever else moves, as far as the edges remain a forest. */
static cleave_status find_other_exchanges(bound_building *b, cleave_error *error) {
    for (int32_t n = 0; n < b->model->n_nests && b->links; n++)
        for (int i = 0; i < b->model->nests[n].n_inputs; i++) {
            if (!bound_is_direct(b, n, i) || b->counted[b->model->nests[n].inputs[i].tensor])
                continue;
            int32_t e = bound_find_exchange(b, n, i);
            if (e == BOUND_NO)
                return bound_short_of_memory(error);
            bound_attach(b, e);
        }
    return CLEAVE_OK;
}

cleave_status bound_problem_create(const cleave_model *model, const cleave_machine *machine,
                                   const cleave_candidates *candidates, const bound_chain *chain,
                                   int64_t other_work, bool links, cleave_arena *arena,
                                   bound_problem *problem, cleave_error *error) {
    bound_building *b = CLEAVE_ARENA_ARRAY(arena, bound_building, 1);
    if (b == NULL)
        return bound_short_of_memory(error);
    *b = (bound_building){
        .model = model, .candidates = candidates, .chain = chain, .arena = arena, .links = links};
    bound_problem made = {.n_operators = model->n_operators};
    CLEAVE_TRY(bound_network_find(machine, &b->network, error));
    CLEAVE_TRY(begin(b, error));
    CLEAVE_TRY(bound_find_runs(b, error));
    CLEAVE_TRY(bound_join_runs(b, error));
    CLEAVE_TRY(find_other_exchanges(b, error));
    CLEAVE_TRY(find_own(b, &made, error));
    made.n_edges = b->n_edges;
    made.edges = b->edges;
    made.fixed.of[BOUND_WORK] = (double)other_work / machine->n_devices;
    *problem = made;
    return CLEAVE_OK;
}

void bound_edge_ends(const bound_problem *problem, int32_t edge, int32_t *a, int32_t *b) {
    *a = problem->edges[edge].a;
    *b = problem->edges[edge].b;
}

static double later(double wait, const double *after, int32_t way) {
    return after != NULL && after[way] > wait ? after[way] : wait;
}

void bound_edge_loads(const bound_problem *problem, int32_t edge, int32_t x, int32_t y,
                      bound_loads *loads) {
    const bound_building *b = problem->edges[edge].of;
    *loads = (bound_loads){{0}};
    for (int32_t i = problem->edges[edge].first; i != BOUND_NO; i = b->exchanges[i].next) {
        const bound_exchange *e = &b->exchanges[i];
        if (e->counts || e->chain_forward) {
            bound_move there = move_forward(b, e, x, y);
            if (e->chain_forward) {
                loads->of[BOUND_CHAIN] += later(there.wait, e->after_forward, x);
                add_forward(later(there.wait, e->after_forward, x), loads);
            }
            if (e->counts)
                add_bytes(b, &there, false, loads);
        }
        if (e->moves_back && (e->counts || e->chain_backward)) {
            bound_move back = move_backward(b, e, x, y);
            if (e->chain_backward)
                loads->of[BOUND_CHAIN] += later(back.wait, e->after_backward, y);
            if (e->counts)
                add_bytes(b, &back, e->follows, loads);
        }
    }
}

/* What comes after a run, whatever is waited for. */
void bound_edge_side(const bound_problem *problem, int32_t edge, bool of_b, int32_t way,
                     bound_loads *loads) {
    const bound_building *b = problem->edges[edge].of;
    *loads = (bound_loads){{0}};
    for (int32_t i = problem->edges[edge].first; i != BOUND_NO; i = b->exchanges[i].next) {
        const bound_exchange *e = &b->exchanges[i];
        if (!of_b && e->chain_forward) {
            loads->of[BOUND_CHAIN] += later(0, e->after_forward, way);
            add_forward(later(0, e->after_forward, way), loads);
        }
        if (of_b && e->chain_backward && e->moves_back)
            loads->of[BOUND_CHAIN] += later(0, e->after_backward, way);
    }
}
