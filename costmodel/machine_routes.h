/* The tables that routes are put together from. */
#ifndef CLEAVE_COSTMODEL_MACHINE_ROUTES_H
#define CLEAVE_COSTMODEL_MACHINE_ROUTES_H

#include "costmodel/machine.h"

/* A link of a node, before nodes are numbered. */
typedef struct cleave_local_link {
    int32_t from, to; /* vertices of the node */
    int32_t class_id;
} cleave_local_link;

/* How a device of a node reaches a rail of the network. */
typedef struct cleave_port {
    int32_t join, vertex; /* of the network's joins, and of the node; -1: no way to this rail */
    int32_t n_hops;       /* from the device to that vertex */
    double width;         /* least bandwidth on the way */
} cleave_port;

/* Below 0 where a is nearer than b or, as near, wider: of two ports that there are. */
static inline int cleave_port_compare(const cleave_port *a, const cleave_port *b) {
    if (a->n_hops != b->n_hops)
        return a->n_hops < b->n_hops ? -1 : 1;
    return (a->width < b->width) - (a->width > b->width);
}

/* Of one type of nodes. */
typedef struct cleave_node_routes {
    int32_t n_vertices, n_links;
    cleave_local_link *local_links; /* [n_links] */
    /* Route between two vertices of a node: local links. */
    int64_t *start; /* [n_vertices squared + 1] */
    int32_t *links;
    int32_t *join_vertex; /* [network's n_joins] -1: nodes of this type lack it */
    int32_t *port_of;     /* [network's n_joins] place among those that they have */
    int32_t n_ports;
    cleave_port *ports; /* [n_devices][network's n_rails] */
} cleave_node_routes;

typedef struct cleave_node_place {
    int32_t type, first_device, first_inner; /* vertices of the machine */
    int64_t first_link; /* into link_of_local: where the node's local links begin */
    int32_t first_port; /* link of its first port up; the next is down */
} cleave_node_place;

/* The ports at both ends of a way between nodes: joins, and vertices of the nodes. */
typedef struct cleave_way {
    int32_t join_a, vertex_a, join_b, vertex_b;
} cleave_way;

struct cleave_machine_routes {
    cleave_node_routes *types; /* [n_node_types] */
    int32_t n_used_nodes;
    cleave_node_place *nodes; /* [n_used_nodes] */
    int32_t *node_of;         /* [n_devices] */
    int32_t *link_of_local; /* id in the machine of each local link of each node; -1: not in use */
    /* Vertices and links of the network's levels, or of a network without switches. */
    int32_t level_vertex[CLEAVE_MAX_NETWORK_LEVELS], level_link[CLEAVE_MAX_NETWORK_LEVELS];
    int32_t torus_links;     /* that leave a node */
    int32_t joins_of_a_rail; /* the most of a node that go to one switch of the first level */
    /* Ways by the numbers of both devices over all types (a type's first is in type_start), with
       and without a switch of the first level over both nodes; null where they would be too many.
       Above the first level the ways are the same. */
    int32_t n_locals, *type_start; /* [n_node_types] */
    cleave_way *ways;              /* [2][n_locals][n_locals] */
};

/* Joins the vertices of a node of one type and finds its routes and ports; a pair without a route
   has none.  FAILED when memory is short, BAD_INPUT when a route is longer than it may be. */
cleave_status cleave_machine_route_node(const cleave_machine *machine, const cleave_node_type *type,
                                        cleave_node_routes *routes, cleave_error *error);
/* Fills start and links of a node whose links are there. */
cleave_status cleave_machine_find_local_routes(const cleave_machine *machine,
                                               const cleave_node_type *type,
                                               cleave_node_routes *routes, cleave_error *error);
static inline int32_t cleave_local_hops(const cleave_node_routes *routes, int32_t from,
                                        int32_t to) {
    int64_t cell = (int64_t)from * routes->n_vertices + to;
    return (int32_t)(routes->start[cell + 1] - routes->start[cell]);
}

/* The network (machine_network.c): is what is declared consistent, derives bandwidths from
   oversubscription; */
cleave_status cleave_network_check(cleave_machine *machine, cleave_error *error);
/* how many switches and links it has between the nodes in use; */
void cleave_network_count(const cleave_machine *machine, int32_t *n_vertices, int64_t *n_links);
/* makes them, the vertices from `first_vertex` on; */
cleave_status cleave_network_build(cleave_machine *machine, int32_t first_vertex,
                                   cleave_error *error);
void cleave_machine_add_link(cleave_machine *machine, int32_t from, int32_t to,
                             const cleave_link_class *class);
int32_t cleave_machine_vertex(const cleave_machine *machine, int32_t node, int32_t local);
/* tabulates the ways where there is room; */
cleave_status cleave_network_tabulate(cleave_machine *machine, cleave_error *error);
/* and the way between devices of two nodes: the ports at both ends, and the links between them. */
typedef struct cleave_network_end {
    int32_t node, device; /* of the node */
    int32_t port;         /* found */
} cleave_network_end;
int32_t cleave_network_route(const cleave_machine *machine, cleave_network_end *a,
                             cleave_network_end *b, int32_t links[CLEAVE_MAX_NETWORK_ROUTE]);

#endif
