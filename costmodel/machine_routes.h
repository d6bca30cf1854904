/* The tables that routes are put together from. */
#ifndef CLEAVE_COSTMODEL_MACHINE_ROUTES_H
#define CLEAVE_COSTMODEL_MACHINE_ROUTES_H

#include "costmodel/machine.h"

/* A link of a node, before nodes are numbered. */
typedef struct cleave_local_link {
    int32_t from, to; /* vertices of the node */
    int32_t class_id;
} cleave_local_link;

struct cleave_machine_routes {
    int32_t n_local_vertices, n_local_links;
    cleave_local_link *local_links; /* [n_local_links] */
    /* Route between two vertices of a node: local links. */
    int64_t *start; /* [n_local_vertices squared + 1] */
    int32_t *links;
    int32_t n_used_nodes;
    int32_t *node_link;    /* [n_used_nodes x n_local_links] id in the machine; -1: not in use */
    int32_t first_network; /* link ids: with a switch, up and down of node i are first + 2 i and
                              first + 2 i + 1; without, i -> j is first + i x n_used_nodes + j */
};

/* Fills start and links; a pair without a route has none.  FAILED when memory is short, BAD_INPUT
   when a route is longer than a machine's may be. */
cleave_status cleave_machine_find_local_routes(const cleave_machine *machine,
                                               cleave_machine_routes *routes, cleave_error *error);

#endif
