/* What a network can carry at most, and what moving a tensor takes at least.

   Rates.  What a device receives crosses the links that end at it, so in a time t it receives no
   more than t times their bytes per second together; so does a node from others, through the links
   that begin outside of it.  A link may carry first bytes of a message at another rate; the higher
   of its two counts.  Messages have their sender post them, which takes its processor the overhead
   of the link that it sends by, and then the latency of that link and of the one that ends at the
   receiver, or of the one link that is both.

   Moves (graph/lower/move.h).  Every device has one part of an operator at most, so of the boxes
   that contributors have a device has one at most, under one key.  Let a device want a box of w
   elements.

   - Of values, it has as many of them already as its own part's box and that one have in common:
     along each dimension no more than the shorter of both, and no more than either in all.  The
     rest comes in messages.
   - Of partial results, under two keys or more over every element, it has one key's at most.  So
     for every element something must come: another's partial result, or the sum.
   - A node, likewise, has as many of the boxes as it has devices.

   Nothing of that is sent before the first contributor has ended.

   Of all devices together: an element with q keys is combined at one owner.  q devices speak for
   the keys, or more, and all but the owner send; m devices want the sum, and to all but the owner
   it is sent: q + m - 2 elements, or more.  All steps of a collective together send as many: of a
   ring, of halving and doubling, of a tree and of two levels, an all-reduce among r has every
   element combined by r - 1 messages and spread by r - 1, and the other two kinds have one of both.
   Between nodes the same holds of nodes that have speakers and of nodes that want it: those q
   devices are in q / g nodes or more, of g devices each. */
#include "search/bound/shares.h"

#include "costmodel/machine_routes.h"

#include <math.h>
#include <stdlib.h>

/* Times of messages that have a protocol are rounded to the nearest picosecond, so that a message
   of four bytes may take half a picosecond less. */
static double rate_of(const cleave_link *link) {
    const cleave_protocol *protocol = &link->protocol;
    double rate = link->bytes_per_second * 1e-12;
    if (protocol->first_bytes > 0)
        rate = fmax(rate, protocol->first_bytes_per_second * 1e-12);
    return rate < 1 ? rate / (1 - rate / 8) : HUGE_VAL;
}

/* The node of every vertex; -1: of none. */
static void find_nodes(const cleave_machine *machine, int32_t *node_of) {
    const cleave_machine_routes *routes = machine->routes;
    for (int32_t v = 0; v < machine->n_vertices; v++)
        node_of[v] = v < machine->n_devices ? routes->node_of[v] : -1;
    for (int32_t n = 0; n < routes->n_used_nodes; n++) {
        const cleave_node_type *type = &machine->node_types[routes->nodes[n].type];
        for (int32_t i = 0; i < type->n_inner; i++)
            node_of[routes->nodes[n].first_inner + i] = n;
    }
}

/* Links of a torus may lead to devices that are not in use: no vertex, and outside of every node.
 */
static int32_t node_at(const int32_t *node_of, int32_t vertex) {
    return vertex < 0 ? -1 : node_of[vertex];
}

static void add_rates(const cleave_machine *machine, const int32_t *node_of, double *into_vertex,
                      double *into_node) {
    for (int32_t l = 0; l < machine->n_links; l++) {
        const cleave_link *link = &machine->links[l];
        int32_t to = node_at(node_of, link->to);
        if (link->to >= 0 && link->to < machine->n_devices)
            into_vertex[link->to] += rate_of(link);
        if (to >= 0 && to != node_at(node_of, link->from))
            into_node[to] += rate_of(link);
    }
}

static double least_message(const cleave_machine *machine) {
    double direct = HUGE_VAL, up = HUGE_VAL, down = HUGE_VAL, post = HUGE_VAL;
    for (int32_t l = 0; l < machine->n_links; l++) {
        const cleave_link *link = &machine->links[l];
        bool from = link->from < machine->n_devices, to = link->to < machine->n_devices;
        double latency = link->latency_seconds;
        if (from && to)
            direct = fmin(direct, latency);
        else if (from)
            up = fmin(up, latency);
        else if (to)
            down = fmin(down, latency);
        if (from)
            post = fmin(post, link->overhead_seconds);
    }
    double least = (fmin(direct, up + down) + post) * 1e12;
    return isfinite(least) ? fmax(least * (1 - 1e-9) - 4, 0) : 0; /* roundings */
}

cleave_status bound_network_find(const cleave_machine *machine, bound_network *network,
                                 cleave_error *error) {
    int32_t n_nodes = machine->routes->n_used_nodes;
    int32_t *node_of = calloc((size_t)machine->n_vertices + 1, sizeof *node_of);
    int32_t *size = calloc((size_t)n_nodes + 1, sizeof *size);
    double *into = calloc((size_t)machine->n_devices + (size_t)n_nodes + 1, sizeof *into);
    bound_network found = {.n_devices = machine->n_devices, .message = least_message(machine)};
    bool made = node_of != NULL && size != NULL && into != NULL;
    if (made) {
        find_nodes(machine, node_of);
        add_rates(machine, node_of, into, into + machine->n_devices);
        for (int32_t d = 0; d < machine->n_devices; d++) {
            int32_t in_node = ++size[node_of[d]];
            found.device_rate = fmax(found.device_rate, into[d]);
            found.devices_rate += into[d];
            found.node_devices = in_node > found.node_devices ? in_node : found.node_devices;
        }
        for (int32_t n = 0; n < n_nodes; n++) {
            double rate = into[machine->n_devices + n];
            found.node_rate = fmax(found.node_rate, rate);
            found.nodes_rate += rate;
        }
        /* Of what a framework's calls were found to take links say nothing, also of two devices. */
        *network =
            machine->collectives.least_devices > 0
                ? (bound_network){.n_devices = found.n_devices, .node_devices = found.node_devices}
                : found;
    }
    free(node_of);
    free(size);
    free(into);
    return made ? CLEAVE_OK : cleave_fail_memory(error, "bounding the step");
}

static double in_common(const bound_port *a, const bound_port *b, int rank) {
    double elements = 1;
    for (int d = 0; d < rank; d++)
        elements *= (double)(a->most[d] < b->most[d] ? a->most[d] : b->most[d]);
    return fmin(elements, fmin((double)a->largest, (double)b->largest));
}

static double in_groups(double n, double of) { return ceil(n / of - 1e-9); }

bound_move bound_move_of(const bound_network *network, const bound_port *from, const bound_port *to,
                         const bound_moved *moved) {
    double group = network->node_devices, least, outside, devices, nodes;
    if (from->n_keys > 1) {
        least = (double)to->least;
        outside = from->n_keys > network->node_devices ? least : 0;
        devices = moved->elements * (from->n_keys + to->n_devices - 2);
        nodes = moved->elements *
                (in_groups(from->n_keys, group) + in_groups(to->n_devices, group) - 2);
        if (!moved->all_wanted)
            devices = nodes = 0;
    } else {
        double common = in_common(from, to, moved->rank);
        least = fmax((double)to->least - common, 0);
        outside = fmax((double)to->least - group * common, 0);
        devices = least * to->n_parts;
        nodes = outside * in_groups(to->n_parts, group);
    }
    bound_move move = {.device_bytes = devices * moved->element_bytes,
                       .node_bytes = nodes * moved->element_bytes};
    if (least > 0 && network->device_rate > 0) {
        double wait = least / network->device_rate;
        if (outside > 0 && network->node_rate > 0)
            wait = fmax(wait, outside / network->node_rate);
        move.wait = network->message + wait * moved->element_bytes * (1 - 1e-6);
    }
    return move;
}
