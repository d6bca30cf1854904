/* Exchanges: tensors on their way from the nest that writes them to one that reads them, and their
   gradients back; within an operator, or on an edge between two.  Edges are kept only as long as
   they are a forest, those of the chain first, and what moves between two operators without one
   counts nothing. */
#include "graph/model/precision.h"
#include "search/bound/building.h"

#include <string.h>

/* By the ways of the nest's operator; null when memory is short. */
const bound_port *bound_ports_of(bound_building *b, int32_t nest, int input) {
    int32_t op = b->model->nests[nest].op, l = b->candidates->list_of[op];
    size_t at =
        ((size_t)l * (size_t)b->most_nests + (size_t)b->place[nest]) * (CLEAVE_MAX_INPUTS + 1) +
        (size_t)(input + 1);
    if (b->ports[at] != NULL)
        return b->ports[at];
    const cleave_candidate_list *list = bound_list_of(b, op);
    bound_port *ports = CLEAVE_ARENA_ARRAY(b->arena, bound_port, list->n_ways);
    for (int32_t w = 0; ports != NULL && w < list->n_ways; w++)
        bound_port_of(b->model, &b->model->nests[nest], input, &list->ways[w], &ports[w]);
    return b->ports[at] = ports;
}

bool bound_gives_gradient(const bound_building *b, int32_t nest, int input, int pass) {
    const cleave_nest *of = &b->model->nests[nest];
    return of->differentiable && cleave_model_trains(b->model) &&
           (cleave_nest_pass_inputs(b->model, of, (cleave_pass)pass) >> input & 1) != 0;
}

/* Is all that a nest gives to the gradient of an input given once the chain is forward? */
bool bound_gives_after(const bound_building *b, int32_t nest, int input) {
    bool follows = true;
    for (int pass = CLEAVE_PASS_INPUT_GRADIENT; pass <= CLEAVE_PASS_WEIGHT_GRADIENT; pass++)
        if (bound_gives_gradient(b, nest, input, pass))
            follows = follows && b->chain->follows[nest * CLEAVE_N_COMPUTE_PASSES + pass];
    return follows;
}

/* Finds or makes it; BOUND_NO when memory is short. */
int32_t bound_find_exchange(bound_building *b, int32_t reader, int input) {
    const cleave_nest *nest = &b->model->nests[reader];
    int32_t t = nest->inputs[input].tensor;
    for (int32_t e = 0; e < b->n_exchanges; e++)
        if (b->exchanges[e].reader == reader && b->exchanges[e].input == input)
            return e;
    if (b->n_exchanges == b->capacity) {
        int32_t capacity = 2 * b->capacity + 64;
        bound_exchange *grown = CLEAVE_ARENA_ARRAY(b->arena, bound_exchange, capacity);
        if (grown == NULL)
            return BOUND_NO;
        if (b->n_exchanges > 0)
            memcpy(grown, b->exchanges, (size_t)b->n_exchanges * sizeof *grown);
        b->exchanges = grown;
        b->capacity = capacity;
    }
    const cleave_tensor *tensor = &b->model->tensors[t];
    bool covers = bound_covers_always(b->model, nest, &nest->inputs[input]);
    bound_moved moved = {.rank = tensor->rank,
                         .elements = (double)cleave_tensor_size(tensor),
                         .element_bytes = (double)cleave_stored_bytes(tensor),
                         .all_wanted = true};
    bound_exchange e = {.tensor = t,
                        .writer = b->model->writer[t],
                        .reader = reader,
                        .input = input,
                        .forward = moved,
                        .backward = moved,
                        .next = BOUND_NO};
    e.forward.all_wanted = covers;
    e.moves_back = covers && tensor->needs_gradient &&
                   (bound_gives_gradient(b, reader, input, CLEAVE_PASS_INPUT_GRADIENT) ||
                    bound_gives_gradient(b, reader, input, CLEAVE_PASS_WEIGHT_GRADIENT));
    e.follows = e.moves_back && bound_gives_after(b, reader, input);
    e.write = bound_ports_of(b, e.writer, -1);
    e.read = bound_ports_of(b, reader, input);
    if (e.write == NULL || e.read == NULL)
        return BOUND_NO;
    b->exchanges[b->n_exchanges] = e;
    return b->n_exchanges++;
}

/* Does the nest read a base activation that another nest writes? */
bool bound_is_direct(const bound_building *b, int32_t reader, int input) {
    int32_t t = b->model->nests[reader].inputs[input].tensor;
    return b->model->tensors[t].view.kind == CLEAVE_VIEW_NONE && b->model->writer[t] >= 0 &&
           b->model->writer[t] != reader;
}

static int32_t root_of(int32_t *parent, int32_t op) {
    while (parent[op] != op)
        op = parent[op] = parent[parent[op]];
    return op;
}

/* The edge between the two operators of an exchange; BOUND_NO where it would close a circle. */
static int32_t find_edge(bound_building *b, int32_t from, int32_t to) {
    for (int32_t e = 0; e < b->n_edges; e++)
        if ((b->edges[e].a == from && b->edges[e].b == to) ||
            (b->edges[e].a == to && b->edges[e].b == from))
            return b->edges[e].a == from ? e : BOUND_NO; /* the other way around is rare */
    int32_t x = root_of(b->parent, from), y = root_of(b->parent, to);
    if (x == y)
        return BOUND_NO;
    b->parent[x] = y;
    b->edges[b->n_edges] = (bound_edge){.a = from, .b = to, .first = BOUND_NO, .of = b};
    return b->n_edges++;
}

/* Puts an exchange where it belongs; false where it has no place. */
bool bound_attach(bound_building *b, int32_t e) {
    bound_exchange *x = &b->exchanges[e];
    int32_t from = b->model->nests[x->writer].op, to = b->model->nests[x->reader].op;
    int32_t *first = &b->inner[to];
    if (from != to) {
        int32_t edge = find_edge(b, from, to);
        if (edge == BOUND_NO)
            return false;
        first = &b->edges[edge].first;
    }
    for (int32_t other = *first; other != BOUND_NO; other = b->exchanges[other].next)
        if (other == e)
            return true;
    x->next = *first;
    *first = e;
    if (b->links && !b->counted[x->tensor])
        x->counts = b->counted[x->tensor] = true;
    return true;
}
