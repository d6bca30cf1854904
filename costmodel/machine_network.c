/* The network between nodes: ids of its switches and links are arithmetic, so a route needs no
   table.

   Level k of switches has groups of so many consecutive nodes; a group has n_switches.  A node's
   port goes to its group's switch of its rail at level 0; from there on every switch is joined with
   each one of its group at the next level.  A route goes up to the first level whose group has both
   ends, and down.  Which of several switches it takes, the destination decides (D-mod-k: Zahavi,
   2010): of level 1 the number of its port in its rail modulo the switches there; of each level
   above what is left of that number, with the switch below in place of the rail.  So what goes to
   different ports at once keeps apart wherever there are enough links, and what many nodes send to
   their like, each a group of nodes further, meets nothing of another's. */
#include "base/order.h"
#include "costmodel/machine_routes.h"

#include <stdio.h>
#include <string.h>

enum { MAX_TABLE_DEVICES = 128 }; /* of one node of each type: half a megabyte of ways */

/* ---- what is declared ---- */

static int32_t nodes_under(const cleave_machine *machine, int32_t level) {
    int32_t nodes = machine->network.levels[level].nodes;
    return nodes > 0 && nodes < machine->n_nodes ? nodes : machine->n_nodes;
}

/* The most vertices of a node that go to one switch of the first level. */
static int32_t joins_of_a_rail(const cleave_network *network) {
    int32_t most = 0, count = 0;
    for (int32_t q = 0; q < network->n_joins; q++) {
        count = q > 0 && network->joins[q].rail == network->joins[q - 1].rail ? count + 1 : 1;
        most = count > most ? count : most;
    }
    return most;
}

/* The bandwidth of each link up to a level so that what comes into a switch from below is
   `oversubscription` times what goes up from it. */
static double derive_bandwidth(const cleave_machine *machine, int32_t level) {
    const cleave_network *network = &machine->network;
    int32_t below = nodes_under(machine, level - 1), members = below * joins_of_a_rail(network);
    if (level > 1)
        members = below / nodes_under(machine, level - 2) * network->levels[level - 2].n_switches;
    return members * network->levels[level - 1].links.bytes_per_second /
           (network->levels[level].oversubscription * network->levels[level].n_switches);
}

static cleave_status check_switches(cleave_machine *machine, cleave_error *error) {
    cleave_network *network = &machine->network;
    for (int32_t k = 0; k < network->n_levels; k++) {
        cleave_network_level *level = &network->levels[k];
        int32_t nodes = nodes_under(machine, k), below = k > 0 ? nodes_under(machine, k - 1) : 1;
        if (k > 0 && (nodes <= below || (nodes % below != 0 && nodes != machine->n_nodes)))
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "level %d of the network has %d nodes under a switch, level %d has "
                               "%d: no larger multiple",
                               k, nodes, k - 1, below);
        if (k > 0 && level->oversubscription > 0)
            level->links.bytes_per_second = derive_bandwidth(machine, k);
    }
    if (nodes_under(machine, network->n_levels - 1) < machine->n_nodes)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "no route from node 0 to node %d: the network's last level has %d of %d "
                           "nodes under a switch",
                           machine->n_nodes - 1, nodes_under(machine, network->n_levels - 1),
                           machine->n_nodes);
    return CLEAVE_OK;
}

static cleave_status check_torus(const cleave_machine *machine, cleave_error *error) {
    const cleave_network *network = &machine->network;
    int64_t nodes = 1, hops = 0;
    for (int32_t d = 0; d < network->n_dimensions; d++) {
        nodes *= network->size[d];
        hops += network->size[d] / 2;
    }
    if (nodes != machine->n_nodes)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "a torus of %lld nodes, and there are %d",
                           (long long)nodes, machine->n_nodes);
    if (hops > CLEAVE_MAX_NETWORK_ROUTE)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "a route on the torus has %lld links, more than %d", (long long)hops,
                           CLEAVE_MAX_NETWORK_ROUTE);
    return CLEAVE_OK;
}

cleave_status cleave_network_check(cleave_machine *machine, cleave_error *error) {
    const cleave_network *network = &machine->network;
    if (network->shape == CLEAVE_NETWORK_NONE && machine->n_nodes > 1)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "no route from device 0 to device %d: %d nodes but no \"network\"",
                           machine->node_types[0].n_devices, machine->n_nodes);
    if (network->shape == CLEAVE_NETWORK_SWITCHES)
        return check_switches(machine, error);
    return network->shape == CLEAVE_NETWORK_TORUS ? check_torus(machine, error) : CLEAVE_OK;
}

/* ---- vertices and links ---- */

static int32_t groups_in_use(const cleave_machine *machine, int32_t level) {
    int32_t nodes = nodes_under(machine, level);
    return (machine->routes->n_used_nodes + nodes - 1) / nodes;
}

/* Switches of a level that are in use. */
static int32_t switches(const cleave_machine *machine, int32_t level) {
    return groups_in_use(machine, level) * machine->network.levels[level].n_switches;
}

/* Links that leave a node of a torus: two for each dimension, but one where both ways around lead
   to the same neighbour. */
static int32_t torus_links(const cleave_network *network) {
    int32_t n = 0;
    for (int32_t d = 0; d < network->n_dimensions; d++)
        n += network->size[d] > 2 ? 2 : 1;
    return n;
}

void cleave_network_count(const cleave_machine *machine, int32_t *n_vertices, int64_t *n_links) {
    const cleave_network *network = &machine->network;
    const cleave_machine_routes *routes = machine->routes;
    int64_t n_nodes = routes->n_used_nodes;
    *n_vertices = 0;
    *n_links = 0;
    if (n_nodes < 2 || network->shape == CLEAVE_NETWORK_NONE)
        return;
    if (network->shape == CLEAVE_NETWORK_DIRECT)
        *n_links = n_nodes * (n_nodes - 1);
    if (network->shape == CLEAVE_NETWORK_TORUS)
        *n_links = n_nodes * torus_links(network);
    if (network->shape != CLEAVE_NETWORK_SWITCHES)
        return;
    for (int32_t a = 0; a < n_nodes; a++)
        *n_links += 2 * routes->types[routes->nodes[a].type].n_ports;
    for (int32_t k = 0; k < network->n_levels; k++) {
        *n_vertices += switches(machine, k);
        if (k > 0)
            *n_links += 2 * (int64_t)switches(machine, k - 1) * network->levels[k].n_switches;
    }
}

static int32_t switch_vertex(const cleave_machine *machine, int32_t level, int32_t group,
                             int32_t number) {
    return machine->routes->level_vertex[level] +
           group * machine->network.levels[level].n_switches + number;
}

/* The link from a switch of the level before, counted over all groups, up to one of its own; the
   next is down. */
static int32_t level_link(const cleave_machine *machine, int32_t level, int32_t below,
                          int32_t number) {
    return machine->routes->level_link[level] +
           2 * (below * machine->network.levels[level].n_switches + number);
}

static cleave_status name_switches(cleave_machine *machine, int32_t first_vertex,
                                   cleave_error *error) {
    const cleave_network *network = &machine->network;
    for (int32_t k = 0, vertex = first_vertex; k < network->n_levels; k++) {
        const cleave_network_level *level = &network->levels[k];
        bool one = nodes_under(machine, k) == machine->n_nodes && level->n_switches == 1;
        machine->routes->level_vertex[k] = vertex;
        for (int32_t s = 0; s < switches(machine, k); s++, vertex++) {
            const char *name =
                one ? level->links.through
                    : cleave_arena_printf(machine->arena, "%s %d", level->links.through, s);
            if (name == NULL)
                return cleave_fail_memory(error, "naming switches");
            machine->vertex_name[vertex] = name;
        }
    }
    return CLEAVE_OK;
}

static void add_pair(cleave_machine *machine, int32_t a, int32_t b,
                     const cleave_link_class *links) {
    cleave_machine_add_link(machine, a, b, links);
    cleave_machine_add_link(machine, b, a, links);
}

static void link_switches(cleave_machine *machine) {
    const cleave_network *network = &machine->network;
    cleave_machine_routes *routes = machine->routes;
    for (int32_t a = 0; a < routes->n_used_nodes; a++) {
        const cleave_node_routes *type = &routes->types[routes->nodes[a].type];
        routes->nodes[a].first_port = machine->n_links;
        for (int32_t q = 0; q < network->n_joins; q++)
            if (type->port_of[q] >= 0)
                add_pair(
                    machine, cleave_machine_vertex(machine, a, type->join_vertex[q]),
                    switch_vertex(machine, 0, a / nodes_under(machine, 0), network->joins[q].rail),
                    &network->levels[0].links);
    }
    for (int32_t k = 1; k < network->n_levels; k++) {
        int32_t per_group = network->levels[k - 1].n_switches;
        routes->level_link[k] = machine->n_links;
        for (int32_t below = 0; below < switches(machine, k - 1); below++) {
            int32_t node = below / per_group * nodes_under(machine, k - 1);
            for (int32_t s = 0; s < network->levels[k].n_switches; s++)
                add_pair(machine, routes->level_vertex[k - 1] + below,
                         switch_vertex(machine, k, node / nodes_under(machine, k), s),
                         &network->levels[k].links);
        }
    }
}

/* Nodes along a dimension before it moves by one: sizes of those within it. */
static int32_t torus_stride(const cleave_network *network, int32_t dimension) {
    int32_t stride = 1;
    for (int32_t d = dimension + 1; d < network->n_dimensions; d++)
        stride *= network->size[d];
    return stride;
}

/* The next node along a dimension, forward or backward. */
static int32_t torus_next(const cleave_network *network, int32_t node, int32_t dimension,
                          bool forward) {
    int32_t stride = torus_stride(network, dimension), size = network->size[dimension];
    int32_t at = node / stride % size, to = (at + (forward ? 1 : size - 1)) % size;
    return node + (to - at) * stride;
}

/* The join's vertex of a node: networks without switches have one. */
static int32_t joined_vertex(const cleave_machine *machine, int32_t node) {
    const cleave_machine_routes *routes = machine->routes;
    return cleave_machine_vertex(machine, node,
                                 routes->types[routes->nodes[node].type].join_vertex[0]);
}

static void link_nodes(cleave_machine *machine) {
    const cleave_network *network = &machine->network;
    const cleave_link_class *links = &network->levels[0].links;
    int32_t n = machine->routes->n_used_nodes;
    machine->routes->level_link[0] = machine->n_links;
    for (int32_t a = 0; a < n; a++) {
        int32_t from = joined_vertex(machine, a);
        for (int32_t b = 0; b < n && network->shape == CLEAVE_NETWORK_DIRECT; b++)
            if (a != b)
                cleave_machine_add_link(machine, from, joined_vertex(machine, b), links);
        for (int32_t d = 0; d < network->n_dimensions; d++)
            for (int back = 0; back < (network->size[d] > 2 ? 2 : 1); back++)
                cleave_machine_add_link(
                    machine, from, joined_vertex(machine, torus_next(network, a, d, back == 0)),
                    links);
    }
}

cleave_status cleave_network_build(cleave_machine *machine, int32_t first_vertex,
                                   cleave_error *error) {
    if (machine->routes->n_used_nodes < 2)
        return CLEAVE_OK;
    machine->routes->torus_links = torus_links(&machine->network);
    machine->routes->joins_of_a_rail = joins_of_a_rail(&machine->network);
    if (machine->network.shape == CLEAVE_NETWORK_SWITCHES) {
        CLEAVE_TRY(name_switches(machine, first_vertex, error));
        link_switches(machine);
    } else if (machine->network.shape != CLEAVE_NETWORK_NONE) {
        link_nodes(machine);
    }
    return CLEAVE_OK;
}

/* ---- routes ---- */

static int32_t cross_torus(const cleave_machine *machine, int32_t a, int32_t b,
                           int32_t links[CLEAVE_MAX_NETWORK_ROUTE]) {
    const cleave_network *network = &machine->network;
    int32_t n = 0, out = 0;
    for (int32_t d = 0; d < network->n_dimensions; d++) {
        int32_t stride = torus_stride(network, d), size = network->size[d];
        int32_t ahead = (b / stride % size - a / stride % size + size) % size;
        bool forward = 2 * ahead <= size;
        for (int32_t hops = forward ? ahead : size - ahead; hops > 0; hops--) {
            links[n++] = machine->routes->level_link[0] + a * machine->routes->torus_links + out +
                         (forward ? 0 : 1);
            a = torus_next(network, a, d, forward);
        }
        out += size > 2 ? 2 : 1;
    }
    return n;
}

/* The level whose group has both nodes. */
static int32_t meeting_level(const cleave_machine *machine, int32_t a, int32_t b) {
    int32_t level = 0;
    while (a / nodes_under(machine, level) != b / nodes_under(machine, level))
        level++;
    return level;
}

/* The number of a port of node b in its rail. */
static int32_t number_in_rail(const cleave_machine *machine, int32_t b, int32_t join) {
    const cleave_network *network = &machine->network;
    int32_t first = join;
    while (first > 0 && network->joins[first - 1].rail == network->joins[join].rail)
        first--;
    return b * machine->routes->joins_of_a_rail + join - first;
}

/* From a port of node a up to a switch of level `top` and down to a port of node b. */
static int32_t cross_switches(const cleave_machine *machine, int32_t a, int32_t join_a, int32_t b,
                              int32_t join_b, int32_t top,
                              int32_t links[CLEAVE_MAX_NETWORK_ROUTE]) {
    const cleave_network *network = &machine->network;
    const cleave_machine_routes *routes = machine->routes;
    int32_t up = network->joins[join_a].rail, down = network->joins[join_b].rail, n = 0, n_down = 0;
    int32_t back[CLEAVE_MAX_NETWORK_LEVELS], key = 0;
    if (up != down && top == 0)
        top = 1;
    if (top > 0)
        key = number_in_rail(machine, b, join_b);
    links[n++] =
        routes->nodes[a].first_port + 2 * routes->types[routes->nodes[a].type].port_of[join_a];
    for (int32_t k = 1; k <= top; k++) {
        int32_t per_group = network->levels[k - 1].n_switches, nodes = nodes_under(machine, k - 1);
        int32_t chosen = key % network->levels[k].n_switches;
        key = key / network->levels[k].n_switches * per_group + down;
        links[n++] = level_link(machine, k, a / nodes * per_group + up, chosen);
        back[n_down++] = level_link(machine, k, b / nodes * per_group + down, chosen) + 1;
        up = down = chosen;
    }
    while (n_down > 0)
        links[n++] = back[--n_down];
    links[n++] =
        routes->nodes[b].first_port + 2 * routes->types[routes->nodes[b].type].port_of[join_b] + 1;
    return n;
}

/* A pair of ports, and what speaks for it: fewer hops in all, more bandwidth, fewer at the source.
 */
typedef struct way {
    const cleave_port *a, *b;
    int32_t n_hops;
    double width;
} way;

static int compare_ways(const way *x, const way *y) {
    CLEAVE_ORDER_BY(x->n_hops, y->n_hops);
    CLEAVE_ORDER_BY(y->width, x->width);
    return CLEAVE_ORDER(x->a->n_hops, y->a->n_hops);
}

static way make_way(const cleave_port *a, const cleave_port *b, int32_t between) {
    return (way){a, b, a->n_hops + b->n_hops + between, a->width < b->width ? a->width : b->width};
}

/* The nearest port of a device over all rails, then the widest; of equal ones, devices take them in
   turn. */
static const cleave_port *nearest(const cleave_port *ports, int32_t n_rails, int32_t device) {
    const cleave_port *best = NULL;
    int32_t n_equal = 0;
    for (int32_t r = 0; r < n_rails; r++) {
        int order = best == NULL ? -1 : cleave_port_compare(&ports[r], best);
        if (ports[r].join >= 0 && order < 0) {
            best = &ports[r];
            n_equal = 1;
        } else if (ports[r].join >= 0 && order == 0) {
            n_equal++;
        }
    }
    const cleave_port *taken = best;
    for (int32_t skip = device % n_equal; skip > 0; skip--)
        do
            taken++;
        while (taken->join < 0 || cleave_port_compare(taken, best) != 0);
    return taken;
}

/* Along one rail, or, where a second level joins them, from one to another.  Of ways that are equal
   the source's number chooses, in turn. */
static way choose_way(const cleave_machine *machine, const cleave_port *from, const cleave_port *to,
                      int32_t level, int32_t i, int32_t j) {
    int32_t n_rails = machine->network.n_rails, n_equal = 0;
    way best = {0};
    for (int pass = 0; pass < 2; pass++) {
        int32_t skip = n_equal > 0 ? i % n_equal : 0;
        for (int32_t r = 0; r < n_rails; r++) {
            if (from[r].join < 0 || to[r].join < 0)
                continue;
            way along = make_way(&from[r], &to[r], 2 * (level + 1));
            int order = best.a == NULL ? -1 : compare_ways(&along, &best);
            if (pass == 0 && order < 0) {
                best = along;
                n_equal = 1;
            } else if (order == 0) {
                n_equal += pass == 0;
                if (pass == 1 && skip-- == 0) {
                    best = along;
                    break;
                }
            }
        }
    }
    if (n_rails > 1 && machine->network.n_levels > 1) {
        way across = make_way(nearest(from, n_rails, i), nearest(to, n_rails, j),
                              2 * ((level > 0 ? level : 1) + 1));
        if (best.a == NULL || compare_ways(&across, &best) < 0)
            best = across;
    }
    return best;
}

static cleave_way find_way(const cleave_machine *machine, int32_t type_a, int32_t i, int32_t type_b,
                           int32_t j, int32_t level) {
    const cleave_machine_routes *routes = machine->routes;
    int32_t n_rails = machine->network.n_rails;
    way chosen = choose_way(machine, &routes->types[type_a].ports[(int64_t)i * n_rails],
                            &routes->types[type_b].ports[(int64_t)j * n_rails], level, i, j);
    if (chosen.a == NULL) /* never asked for: nodes that no route joins are refused */
        return (cleave_way){0};
    return (cleave_way){chosen.a->join, chosen.a->vertex, chosen.b->join, chosen.b->vertex};
}

cleave_status cleave_network_tabulate(cleave_machine *machine, cleave_error *error) {
    cleave_machine_routes *routes = machine->routes;
    routes->type_start = CLEAVE_ARENA_ARRAY(machine->arena, int32_t, machine->n_node_types);
    if (routes->type_start == NULL)
        return cleave_fail_memory(error, "finding routes");
    for (int32_t t = 0; t < machine->n_node_types; t++) {
        routes->type_start[t] = routes->n_locals;
        routes->n_locals += machine->node_types[t].n_devices;
    }
    if (machine->network.shape != CLEAVE_NETWORK_SWITCHES || routes->n_used_nodes < 2 ||
        routes->n_locals > MAX_TABLE_DEVICES)
        return CLEAVE_OK;
    routes->ways = CLEAVE_ARENA_ARRAY(machine->arena, cleave_way,
                                      2 * (int64_t)routes->n_locals * routes->n_locals);
    if (routes->ways == NULL)
        return cleave_fail_memory(error, "finding routes");
    cleave_way *next = routes->ways;
    for (int32_t level = 0; level < 2; level++)
        for (int32_t a = 0; a < machine->n_node_types; a++)
            for (int32_t i = 0; i < machine->node_types[a].n_devices; i++)
                for (int32_t b = 0; b < machine->n_node_types; b++)
                    for (int32_t j = 0; j < machine->node_types[b].n_devices; j++)
                        *next++ = find_way(machine, a, i, b, j, level);
    return CLEAVE_OK;
}

int32_t cleave_network_route(const cleave_machine *machine, cleave_network_end *a,
                             cleave_network_end *b, int32_t links[CLEAVE_MAX_NETWORK_ROUTE]) {
    const cleave_network *network = &machine->network;
    const cleave_machine_routes *routes = machine->routes;
    int32_t type_a = routes->nodes[a->node].type, type_b = routes->nodes[b->node].type;
    if (network->shape != CLEAVE_NETWORK_SWITCHES) {
        a->port = routes->types[type_a].join_vertex[0];
        b->port = routes->types[type_b].join_vertex[0];
        if (network->shape == CLEAVE_NETWORK_TORUS)
            return cross_torus(machine, a->node, b->node, links);
        links[0] = routes->level_link[0] + a->node * (routes->n_used_nodes - 1) + b->node -
                   (b->node > a->node);
        return 1;
    }
    int32_t level = meeting_level(machine, a->node, b->node);
    cleave_way chosen;
    if (routes->ways != NULL) {
        int64_t row = (level > 0 ? routes->n_locals : 0) + routes->type_start[type_a] + a->device;
        chosen = routes->ways[row * routes->n_locals + routes->type_start[type_b] + b->device];
    } else {
        chosen = find_way(machine, type_a, a->device, type_b, b->device, level);
    }
    a->port = chosen.vertex_a;
    b->port = chosen.vertex_b;
    return cross_switches(machine, a->node, chosen.join_a, b->node, chosen.join_b, level, links);
}
