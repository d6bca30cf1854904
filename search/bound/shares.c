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
#include "search/bound/shares.h"

#include <stdlib.h>
#include <string.h>

enum { NO = -1, MAX_RUN_PASSES = 48, MAX_RUN_MOVES = 24 };

/* A tensor from the nest that writes it to one that reads it: places are [n_nests][passes] of their
   operators, as in a list's `least`. */
typedef struct exchange {
    int32_t tensor, writer, reader; /* nests */
    int input;
    const bound_port *write, *read; /* by ways of the writer's and of the reader's operator */
    bound_moved forward, backward;
    bool moves_back;                    /* the reader gives all of the gradient */
    bool chain_forward, chain_backward; /* the chain goes this way */
    bool follows;                       /* and does so once the chain is forward */
    bool counts;                        /* its bytes do */
    const double *after_forward,
        *after_backward; /* by ways of where the chain comes from; null: none
                          */
    int32_t next;        /* of the same edge or operator */
} exchange;

struct bound_edge {
    int32_t a, b;  /* operators, the writer first */
    int32_t first; /* exchange */
    const struct building *of;
};

typedef struct run {
    int32_t op;
    int32_t first, last; /* elements of the chain */
    int32_t first_nest;
    int32_t n_forward; /* of `chain`: the first ones */
    int32_t n_chain, n_through, n_after, n_moves;
    int32_t chain[MAX_RUN_PASSES], through[MAX_RUN_PASSES], after[MAX_RUN_PASSES]; /* places */
    int32_t nest_of[2][MAX_RUN_PASSES]; /* of through and after */
    int32_t moves[MAX_RUN_MOVES];       /* exchanges within the operator */
    bool move_is_back[MAX_RUN_MOVES];
    double *after_time; /* [n_ways]; null: nothing comes after */
    bool joined;        /* an edge weighs that against a wait; else it is the run's own */
} run;

typedef struct building {
    const cleave_model *model;
    const cleave_candidates *candidates;
    const bound_chain *chain;
    cleave_arena *arena;
    bound_network network;
    bool links;
    int32_t *place;           /* [n_nests] in its operator */
    const bound_port **ports; /* [n_lists][nests of an operator][inputs + 1] or null */
    int32_t most_nests;
    exchange *exchanges; /* [n_exchanges] */
    int32_t n_exchanges, capacity;
    int32_t *inner;    /* [n_operators] exchanges within; NO: none */
    bool *counted;     /* [n_tensors] some exchange counts its bytes */
    int32_t *parent;   /* [n_operators] of the forest, by joining */
    bound_edge *edges; /* [n_edges] */
    int32_t n_edges;
    run *runs; /* [n_runs] */
    int32_t n_runs;
} building;

static const cleave_candidate_list *list_of(const building *b, int32_t op) {
    return &b->candidates->lists[b->candidates->list_of[op]];
}

static cleave_status short_of_memory(cleave_error *error) {
    return cleave_fail_memory(error, "bounding the step");
}

/* ---- exchanges ------------------------------------------------------------------------------- */

/* By the ways of the nest's operator; null when memory is short. */
static const bound_port *ports_of(building *b, int32_t nest, int input) {
    int32_t op = b->model->nests[nest].op, l = b->candidates->list_of[op];
    size_t at =
        ((size_t)l * (size_t)b->most_nests + (size_t)b->place[nest]) * (CLEAVE_MAX_INPUTS + 1) +
        (size_t)(input + 1);
    if (b->ports[at] != NULL)
        return b->ports[at];
    const cleave_candidate_list *list = list_of(b, op);
    bound_port *ports = CLEAVE_ARENA_ARRAY(b->arena, bound_port, list->n_ways);
    for (int32_t w = 0; ports != NULL && w < list->n_ways; w++)
        bound_port_of(b->model, &b->model->nests[nest], input, &list->ways[w], &ports[w]);
    return b->ports[at] = ports;
}

static bool gives_gradient(const building *b, int32_t nest, int input, int pass) {
    const cleave_nest *of = &b->model->nests[nest];
    return of->differentiable && b->model->loss >= 0 &&
           (cleave_nest_pass_inputs(b->model, of, (cleave_pass)pass) >> input & 1) != 0;
}

/* Is all that a nest gives to the gradient of an input given once the chain is forward? */
static bool follows_for(const building *b, int32_t nest, int input) {
    bool follows = true;
    for (int pass = CLEAVE_PASS_INPUT_GRADIENT; pass <= CLEAVE_PASS_WEIGHT_GRADIENT; pass++)
        if (gives_gradient(b, nest, input, pass))
            follows = follows && b->chain->follows[nest * CLEAVE_N_COMPUTE_PASSES + pass];
    return follows;
}

/* Finds or makes it; NO when memory is short. */
static int32_t find_exchange(building *b, int32_t reader, int input) {
    const cleave_nest *nest = &b->model->nests[reader];
    int32_t t = nest->inputs[input].tensor;
    for (int32_t e = 0; e < b->n_exchanges; e++)
        if (b->exchanges[e].reader == reader && b->exchanges[e].input == input)
            return e;
    if (b->n_exchanges == b->capacity) {
        int32_t capacity = 2 * b->capacity + 64;
        exchange *grown = CLEAVE_ARENA_ARRAY(b->arena, exchange, capacity);
        if (grown == NULL)
            return NO;
        if (b->n_exchanges > 0)
            memcpy(grown, b->exchanges, (size_t)b->n_exchanges * sizeof *grown);
        b->exchanges = grown;
        b->capacity = capacity;
    }
    const cleave_tensor *tensor = &b->model->tensors[t];
    bool covers = bound_covers_always(b->model, nest, &nest->inputs[input]);
    bound_moved moved = {.rank = tensor->rank,
                         .elements = (double)cleave_tensor_size(tensor),
                         .element_bytes = (double)cleave_type_bytes(tensor->type),
                         .all_wanted = true};
    exchange e = {.tensor = t,
                  .writer = b->model->writer[t],
                  .reader = reader,
                  .input = input,
                  .forward = moved,
                  .backward = moved,
                  .next = NO};
    e.forward.all_wanted = covers;
    e.moves_back = covers && tensor->needs_gradient &&
                   (gives_gradient(b, reader, input, CLEAVE_PASS_INPUT_GRADIENT) ||
                    gives_gradient(b, reader, input, CLEAVE_PASS_WEIGHT_GRADIENT));
    e.follows = e.moves_back && follows_for(b, reader, input);
    e.write = ports_of(b, e.writer, -1);
    e.read = ports_of(b, reader, input);
    if (e.write == NULL || e.read == NULL)
        return NO;
    b->exchanges[b->n_exchanges] = e;
    return b->n_exchanges++;
}

/* Does the nest read a base activation that another nest writes? */
static bool is_direct(const building *b, int32_t reader, int input) {
    int32_t t = b->model->nests[reader].inputs[input].tensor;
    return b->model->tensors[t].view.kind == CLEAVE_VIEW_NONE && b->model->writer[t] >= 0 &&
           b->model->writer[t] != reader;
}

static int32_t root_of(int32_t *parent, int32_t op) {
    while (parent[op] != op)
        op = parent[op] = parent[parent[op]];
    return op;
}

/* The edge between the two operators of an exchange; NO where it would close a circle. */
static int32_t find_edge(building *b, int32_t from, int32_t to) {
    for (int32_t e = 0; e < b->n_edges; e++)
        if ((b->edges[e].a == from && b->edges[e].b == to) ||
            (b->edges[e].a == to && b->edges[e].b == from))
            return b->edges[e].a == from ? e : NO; /* the other way around is rare */
    int32_t x = root_of(b->parent, from), y = root_of(b->parent, to);
    if (x == y)
        return NO;
    b->parent[x] = y;
    b->edges[b->n_edges] = (bound_edge){.a = from, .b = to, .first = NO, .of = b};
    return b->n_edges++;
}

/* Puts an exchange where it belongs; false where it has no place. */
static bool attach(building *b, int32_t e) {
    exchange *x = &b->exchanges[e];
    int32_t from = b->model->nests[x->writer].op, to = b->model->nests[x->reader].op;
    int32_t *first = &b->inner[to];
    if (from != to) {
        int32_t edge = find_edge(b, from, to);
        if (edge == NO)
            return false;
        first = &b->edges[edge].first;
    }
    for (int32_t other = *first; other != NO; other = b->exchanges[other].next)
        if (other == e)
            return true;
    x->next = *first;
    *first = e;
    if (b->links && !b->counted[x->tensor])
        x->counts = b->counted[x->tensor] = true;
    return true;
}

/* ---- runs of the chain ----------------------------------------------------------------------- */

static int32_t nest_of(int32_t element) { return element / CLEAVE_N_COMPUTE_PASSES; }
static int pass_of(int32_t element) { return element % CLEAVE_N_COMPUTE_PASSES; }

static int64_t slot_of(const cleave_model *model, int32_t nest, int pass) {
    if (pass == CLEAVE_PASS_FORWARD)
        return nest;
    return model->n_nests + 2 * (int64_t)(model->n_nests - 1 - nest) +
           (pass == CLEAVE_PASS_WEIGHT_GRADIENT);
}

static void note(int32_t *list, int32_t *nests, int32_t *n, int32_t place, int32_t nest) {
    if (*n < MAX_RUN_PASSES) {
        list[*n] = place;
        nests[(*n)++] = nest;
    }
}

static void fill_run(building *b, run *r, int32_t end) {
    const cleave_model *model = b->model;
    const int32_t *element = b->chain->elements;
    const cleave_operator *op = &model->operators[r->op];
    int32_t first = element[r->first], last = element[r->last], unused[MAX_RUN_PASSES];
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

/* The exchange by which the chain goes from one element to the next; NO: none that is known. */
static cleave_status find_transition(building *b, int32_t before, int32_t after, int32_t *found,
                                     bool *back, cleave_error *error) {
    *found = NO;
    *back = pass_of(before) != CLEAVE_PASS_FORWARD;
    if (!*back && pass_of(after) != CLEAVE_PASS_FORWARD)
        return CLEAVE_OK;
    int32_t writer = nest_of(*back ? after : before), reader = nest_of(*back ? before : after);
    const cleave_nest *nest = &b->model->nests[reader];
    for (int i = 0; i < nest->n_inputs && *found == NO; i++) {
        if (!is_direct(b, reader, i) || b->model->writer[nest->inputs[i].tensor] != writer ||
            (*back && !gives_gradient(b, reader, i, pass_of(before))) ||
            (!*back && !bound_reads_always(b->model, nest, &nest->inputs[i])))
            continue;
        int32_t e = find_exchange(b, reader, i);
        if (e == NO)
            return short_of_memory(error);
        if (!*back || b->exchanges[e].moves_back)
            *found = e;
    }
    return CLEAVE_OK;
}

static cleave_status find_moves(building *b, run *r, cleave_error *error) {
    for (int32_t c = r->first; c < r->last; c++) {
        int32_t found;
        bool back;
        CLEAVE_TRY(find_transition(b, b->chain->elements[c], b->chain->elements[c + 1], &found,
                                   &back, error));
        if (found == NO || r->n_moves == MAX_RUN_MOVES || !attach(b, found))
            continue;
        r->move_is_back[r->n_moves] = back;
        r->moves[r->n_moves++] = found;
    }
    return CLEAVE_OK;
}

static cleave_status find_runs(building *b, cleave_error *error) {
    const bound_chain *chain = b->chain;
    b->runs = CLEAVE_ARENA_ARRAY(b->arena, run, chain->n);
    if (b->runs == NULL)
        return short_of_memory(error);
    for (int32_t first = 0, end; first < chain->n; first = end) {
        int32_t op = b->model->nests[nest_of(chain->elements[first])].op;
        for (end = first + 1;
             end < chain->n && b->model->nests[nest_of(chain->elements[end])].op == op;)
            end++;
        run *r = &b->runs[b->n_runs++];
        *r = (run){.op = op, .first = first, .last = end - 1};
        fill_run(b, r, end);
        CLEAVE_TRY(find_moves(b, r, error));
        if (r->n_after > 0)
            r->after_time = CLEAVE_ARENA_ARRAY(b->arena, double, list_of(b, op)->n_ways);
        if (r->n_after > 0 && r->after_time == NULL)
            return short_of_memory(error);
    }
    return CLEAVE_OK;
}

/* Where the chain goes on by an exchange that an edge has, what comes after the run is weighed
   against the wait there; else it is the run's own. */
static cleave_status join_runs(building *b, cleave_error *error) {
    for (int32_t r = 0; r + 1 < b->n_runs; r++) {
        int32_t found;
        bool back;
        CLEAVE_TRY(find_transition(b, b->chain->elements[b->runs[r].last],
                                   b->chain->elements[b->runs[r + 1].first], &found, &back, error));
        if (found == NO || !attach(b, found))
            continue;
        exchange *e = &b->exchanges[found];
        bool *on_chain = back ? &e->chain_backward : &e->chain_forward;
        if (*on_chain)
            continue;
        *on_chain = b->runs[r].joined = true;
        *(back ? &e->after_backward : &e->after_forward) = b->runs[r].after_time;
    }
    return CLEAVE_OK;
}

/* ---- what ways take by themselves ------------------------------------------------------------ */

static double time_of(const cleave_candidate_way *way, int32_t place) {
    return way->least[place] == INT64_MAX ? 0 : (double)way->least[place];
}

/* `after`: nothing of it is sent before the chain is forward. */
static void add_bytes(const building *b, const bound_move *move, bool after, bound_loads *loads) {
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

static double sum_everywhere(const building *b, const cleave_candidate_way *way, int32_t n,
                             const int32_t *places, const int32_t *nests) {
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        if (bound_runs_everywhere(b->model, &b->model->nests[nests[i]], way, b->network.n_devices))
            sum += time_of(way, places[i]);
    return sum;
}

static bound_move move_forward(const building *b, const exchange *e, int32_t from, int32_t to) {
    return bound_move_of(&b->network, &e->write[from], &e->read[to], &e->forward);
}

static bound_move move_backward(const building *b, const exchange *e, int32_t from, int32_t to) {
    return bound_move_of(&b->network, &e->read[to], &e->write[from], &e->backward);
}

/* Of a run: the chain through it; what comes after is kept for an edge, or added. */
static void add_run(const building *b, run *r, int32_t w, bound_loads *own) {
    const cleave_candidate_way *way = &list_of(b, r->op)->ways[w];
    double chain = 0, all = 0, after = 0, forward = 0;
    for (int32_t i = 0; i < r->n_chain; i++) {
        chain += time_of(way, r->chain[i]);
        forward += i < r->n_forward ? time_of(way, r->chain[i]) : 0;
    }
    for (int32_t i = 0; i < r->n_moves; i++) {
        const exchange *e = &b->exchanges[r->moves[i]];
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
static void add_parameters(building *b, int32_t op, const int32_t *reader, const int *input,
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
                                 .element_bytes = (double)cleave_type_bytes(tensor->type),
                                 .all_wanted = true};
            const bound_port *port = ports_of(b, n, k);
            if (port == NULL)
                continue; /* nothing is claimed */
            bound_move move = bound_move_of(&b->network, &port[w], &port[w], &moved);
            add_bytes(b, &move, follows_for(b, n, k), loads);
        }
    }
}

/* The first reader of every parameter that is trained and covered by it however it is split. */
static void find_readers(const cleave_model *model, int32_t *reader, int *input) {
    for (int32_t t = 0; t < model->n_tensors; t++)
        reader[t] = NO;
    for (int32_t n = 0; n < model->n_nests && model->loss >= 0; n++) {
        const cleave_nest *nest = &model->nests[n];
        uint32_t gradients = cleave_nest_pass_inputs(model, nest, CLEAVE_PASS_INPUT_GRADIENT) |
                             cleave_nest_pass_inputs(model, nest, CLEAVE_PASS_WEIGHT_GRADIENT);
        for (int i = 0; i < nest->n_inputs && nest->differentiable; i++) {
            const cleave_tensor *tensor = &model->tensors[nest->inputs[i].tensor];
            if (tensor->kind != CLEAVE_TENSOR_PARAMETER || !tensor->needs_gradient ||
                tensor->view.kind != CLEAVE_VIEW_NONE || (gradients >> i & 1) == 0 ||
                reader[nest->inputs[i].tensor] != NO ||
                !bound_covers_always(model, nest, &nest->inputs[i]))
                continue;
            reader[nest->inputs[i].tensor] = n;
            input[nest->inputs[i].tensor] = i;
        }
    }
}

static void add_own(building *b, int32_t op, const int32_t *reader, const int *input,
                    bound_loads *own) {
    const cleave_candidate_list *list = list_of(b, op);
    for (int32_t w = 0; w < list->n_ways; w++) {
        own[w].of[BOUND_WORK] = (double)list->ways[w].total / b->network.n_devices;
        for (int32_t e = b->inner[op]; e != NO && b->links; e = b->exchanges[e].next) {
            const exchange *x = &b->exchanges[e];
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

static cleave_status find_own(building *b, bound_problem *problem, cleave_error *error) {
    const cleave_model *model = b->model;
    int32_t *n_ways = CLEAVE_ARENA_ARRAY(b->arena, int32_t, model->n_operators);
    int32_t *reader = CLEAVE_ARENA_ARRAY(b->arena, int32_t, model->n_tensors);
    int *input = CLEAVE_ARENA_ARRAY(b->arena, int, model->n_tensors);
    bound_loads **own = CLEAVE_ARENA_ARRAY(b->arena, bound_loads *, model->n_operators);
    if (n_ways == NULL || reader == NULL || input == NULL || own == NULL)
        return short_of_memory(error);
    find_readers(model, reader, input);
    for (int32_t op = 0; op < model->n_operators; op++) {
        n_ways[op] = list_of(b, op)->n_ways;
        own[op] = CLEAVE_ARENA_ARRAY(b->arena, bound_loads, n_ways[op]);
        if (own[op] == NULL)
            return short_of_memory(error);
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

static cleave_status begin(building *b, cleave_error *error) {
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
        return short_of_memory(error);
    for (int32_t op = 0; op < model->n_operators; op++) {
        b->inner[op] = NO;
        b->parent[op] = op;
        for (int32_t i = 0; i < model->operators[op].n_nests; i++)
            b->place[model->operators[op].nests[i]] = i;
    }
    return CLEAVE_OK;
}

/* Whatever else moves, as far as the edges remain a forest. */
static cleave_status find_other_exchanges(building *b, cleave_error *error) {
    for (int32_t n = 0; n < b->model->n_nests && b->links; n++)
        for (int i = 0; i < b->model->nests[n].n_inputs; i++) {
            if (!is_direct(b, n, i) || b->counted[b->model->nests[n].inputs[i].tensor])
                continue;
            int32_t e = find_exchange(b, n, i);
            if (e == NO)
                return short_of_memory(error);
            attach(b, e);
        }
    return CLEAVE_OK;
}

cleave_status bound_problem_create(const cleave_model *model, const cleave_machine *machine,
                                   const cleave_candidates *candidates, const bound_chain *chain,
                                   int64_t other_work, bool links, cleave_arena *arena,
                                   bound_problem *problem, cleave_error *error) {
    building *b = CLEAVE_ARENA_ARRAY(arena, building, 1);
    if (b == NULL)
        return short_of_memory(error);
    *b = (building){
        .model = model, .candidates = candidates, .chain = chain, .arena = arena, .links = links};
    bound_problem made = {.n_operators = model->n_operators};
    CLEAVE_TRY(bound_network_find(machine, &b->network, error));
    CLEAVE_TRY(begin(b, error));
    CLEAVE_TRY(find_runs(b, error));
    CLEAVE_TRY(join_runs(b, error));
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
    const building *b = problem->edges[edge].of;
    *loads = (bound_loads){{0}};
    for (int32_t i = problem->edges[edge].first; i != NO; i = b->exchanges[i].next) {
        const exchange *e = &b->exchanges[i];
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
