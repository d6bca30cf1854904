/* A node of one type: its links from the declared groups, and how each device reaches the network.
 */
#include "costmodel/machine_routes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_LOCAL_LINKS = 1 << 21 };

static int64_t group_links(const cleave_link_class *class, int32_t group) {
    int64_t n = class->group_start[group + 1] - class->group_start[group];
    return class->through != NULL ? 2 * n : n * (n - 1);
}

static int32_t find_inner(const cleave_node_type *type, const char *name) {
    for (int32_t v = 0; v < type->n_inner; v++)
        if (strcmp(type->inner_names[v], name) == 0)
            return type->n_devices + v;
    return -1;
}

static int32_t find_switch(const cleave_node_type *type, const cleave_link_class *class,
                           int32_t group) {
    char name[160];
    if (class->n_groups == 1)
        return find_inner(type, class->through);
    snprintf(name, sizeof name, "%s %d", class->through, group);
    return find_inner(type, name);
}

static cleave_status expand_group(const cleave_node_type *type, int32_t class_id, int32_t group,
                                  cleave_node_routes *routes, cleave_error *error) {
    const cleave_link_class *class = &type->link_classes[class_id];
    int32_t first = class->group_start[group], end = class->group_start[group + 1];
    int32_t hub = class->through != NULL ? find_switch(type, class, group) : -1;
    if (class->through != NULL && hub < 0)
        return cleave_fail(error, CLEAVE_FAILED, "the links through \"%s\" lack their switch %d",
                           class->through, group);
    for (int32_t i = first; i < end; i++) {
        int32_t a = class->members[i];
        int32_t others = class->through != NULL ? i + 2 : end;
        for (int32_t j = i + 1; j < others; j++) {
            int32_t b = class->through != NULL ? hub : class->members[j];
            routes->local_links[routes->n_links++] = (cleave_local_link){a, b, class_id};
            routes->local_links[routes->n_links++] = (cleave_local_link){b, a, class_id};
        }
    }
    return CLEAVE_OK;
}

static cleave_status expand(const cleave_machine *machine, const cleave_node_type *type,
                            cleave_node_routes *routes, cleave_error *error) {
    int64_t n_links = 0;
    for (int32_t c = 0; c < type->n_link_classes; c++)
        for (int32_t g = 0; g < type->link_classes[c].n_groups; g++)
            n_links += group_links(&type->link_classes[c], g);
    if (n_links > MAX_LOCAL_LINKS)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "a node has %lld links, more than %d",
                           (long long)n_links, MAX_LOCAL_LINKS);
    routes->local_links = CLEAVE_ARENA_ARRAY(machine->arena, cleave_local_link, n_links);
    if (routes->local_links == NULL)
        return cleave_fail_memory(error, "joining the vertices of a node");
    routes->n_vertices = type->n_devices + type->n_inner;
    for (int32_t c = 0; c < type->n_link_classes; c++)
        for (int32_t g = 0; g < type->link_classes[c].n_groups; g++)
            CLEAVE_TRY(expand_group(type, c, g, routes, error));
    return CLEAVE_OK;
}

/* Which vertices of the node the network joins. */
static cleave_status find_joins(const cleave_machine *machine, const cleave_node_type *type,
                                cleave_node_routes *routes, cleave_error *error) {
    const cleave_network *network = &machine->network;
    routes->join_vertex = CLEAVE_ARENA_ARRAY(machine->arena, int32_t, network->n_joins);
    routes->port_of = CLEAVE_ARENA_ARRAY(machine->arena, int32_t, network->n_joins);
    if (routes->join_vertex == NULL || routes->port_of == NULL)
        return cleave_fail_memory(error, "joining nodes");
    for (int32_t q = 0; q < network->n_joins; q++) {
        const cleave_join *join = &network->joins[q];
        int32_t vertex = join->device < type->n_devices ? join->device : -1;
        if (join->name != NULL)
            vertex = find_inner(type, join->name);
        routes->join_vertex[q] = vertex;
        routes->port_of[q] = vertex >= 0 ? routes->n_ports++ : -1;
    }
    if (network->shape != CLEAVE_NETWORK_NONE && routes->n_ports == 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "a node has no \"%s\" for the network to join",
                           network->joins[0].name != NULL ? network->joins[0].name : "device");
    return CLEAVE_OK;
}

/* A vertex that only one other vertex joins is most often a misspelt name. */
static cleave_status check_inner(const cleave_machine *machine, const cleave_node_type *type,
                                 const cleave_node_routes *routes, cleave_error *error) {
    for (int32_t i = 0; i < type->n_inner; i++) {
        int32_t v = type->n_devices + i, neighbour = -1;
        bool several = false;
        for (int32_t q = 0; q < machine->network.n_joins; q++)
            several = several || routes->join_vertex[q] == v;
        for (int32_t l = 0; l < routes->n_links && !several; l++)
            if (routes->local_links[l].from == v) {
                several = neighbour >= 0 && routes->local_links[l].to != neighbour;
                neighbour = routes->local_links[l].to;
            }
        if (!several)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "\"%s\" leads nowhere: links join it to no more than one vertex",
                               type->inner_names[i]);
    }
    return CLEAVE_OK;
}

static double width_between(const cleave_node_type *type, const cleave_node_routes *routes,
                            int32_t from, int32_t to) {
    int64_t cell = (int64_t)from * routes->n_vertices + to;
    double width = HUGE_VAL;
    for (int64_t l = routes->start[cell]; l < routes->start[cell + 1]; l++)
        width = fmin(
            width,
            type->link_classes[routes->local_links[routes->links[l]].class_id].bytes_per_second);
    return width;
}

/* The way of a device to one vertex that the network joins; `join` is -1 where there is none. */
static cleave_port reach(const cleave_node_type *type, const cleave_node_routes *routes,
                         int32_t device, int32_t join) {
    int32_t vertex = routes->join_vertex[join];
    if (vertex < 0 || (vertex != device && cleave_local_hops(routes, device, vertex) == 0))
        return (cleave_port){.join = -1};
    return (cleave_port){join, vertex, cleave_local_hops(routes, device, vertex),
                         width_between(type, routes, device, vertex)};
}

/* The nearest vertex of a rail, then the widest; of equal ones, devices take them in turn. */
static cleave_port choose_port(const cleave_network *network, const cleave_node_type *type,
                               const cleave_node_routes *routes, int32_t device, int32_t rail) {
    cleave_port best = {.join = -1};
    int32_t n_equal = 0;
    for (int pass = 0; pass < 2; pass++) {
        int32_t skip = n_equal > 0 ? device % n_equal : 0;
        for (int32_t q = 0; q < network->n_joins; q++) {
            if (network->joins[q].rail != rail)
                continue;
            cleave_port port = reach(type, routes, device, q);
            if (port.join < 0)
                continue;
            int order = best.join < 0 ? -1 : cleave_port_compare(&port, &best);
            if (order < 0) {
                best = port;
                n_equal = 1;
            } else if (order == 0) {
                n_equal += pass == 0;
                if (pass == 1 && skip-- == 0)
                    return port;
            }
        }
    }
    return best;
}

static cleave_status find_ports(const cleave_machine *machine, const cleave_node_type *type,
                                cleave_node_routes *routes, cleave_error *error) {
    const cleave_network *network = &machine->network;
    routes->ports = CLEAVE_ARENA_ARRAY(machine->arena, cleave_port,
                                       (int64_t)type->n_devices * network->n_rails);
    if (routes->ports == NULL)
        return cleave_fail_memory(error, "joining nodes");
    for (int32_t d = 0; d < type->n_devices; d++)
        for (int32_t r = 0; r < network->n_rails; r++)
            routes->ports[(int64_t)d * network->n_rails + r] =
                choose_port(network, type, routes, d, r);
    return CLEAVE_OK;
}

cleave_status cleave_machine_route_node(const cleave_machine *machine, const cleave_node_type *type,
                                        cleave_node_routes *routes, cleave_error *error) {
    CLEAVE_TRY(expand(machine, type, routes, error));
    CLEAVE_TRY(find_joins(machine, type, routes, error));
    CLEAVE_TRY(check_inner(machine, type, routes, error));
    CLEAVE_TRY(cleave_machine_find_local_routes(machine, type, routes, error));
    return find_ports(machine, type, routes, error);
}
