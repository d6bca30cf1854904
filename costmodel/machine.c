/* A machine is equal nodes and a network over one vertex of each.  From that declaration follow
   vertices (devices first), directed links and routes.  A route between nodes is the way to the
   network's vertex, the network, and the way from it, so one node's table serves all. */
#include "costmodel/machine.h"

#include "base/checked.h"
#include "costmodel/machine_routes.h"

#include <stdio.h>
#include <string.h>

enum { MAX_LOCAL_LINKS = 1 << 21, MAX_LINKS = 1 << 22 };

static int64_t group_links(const cleave_link_class *class, int32_t group) {
    int64_t n = class->group_start[group + 1] - class->group_start[group];
    return class->through != NULL ? 2 * n : n * (n - 1);
}

/* Inner vertices that classes create come in the order of classes and groups; see find_switch. */
static int32_t find_switch(const cleave_machine *machine, const cleave_link_class *class,
                           int32_t group) {
    char name[160];
    if (class->n_groups == 1)
        snprintf(name, sizeof name, "%s", class->through);
    else
        snprintf(name, sizeof name, "%s %d", class->through, group);
    for (int32_t v = 0; v < machine->n_inner; v++)
        if (strcmp(machine->inner_names[v], name) == 0)
            return machine->devices_per_node + v;
    return -1;
}

static cleave_status expand_group(const cleave_machine *machine, int32_t class_id, int32_t group,
                                  cleave_machine_routes *routes, cleave_error *error) {
    const cleave_link_class *class = &machine->link_classes[class_id];
    int32_t first = class->group_start[group], end = class->group_start[group + 1];
    int32_t hub = class->through != NULL ? find_switch(machine, class, group) : -1;
    if (class->through != NULL && hub < 0)
        return cleave_fail(error, CLEAVE_FAILED, "the links through \"%s\" lack their switch %d",
                           class->through, group);
    for (int32_t i = first; i < end; i++) {
        int32_t a = class->members[i];
        int32_t others = class->through != NULL ? i + 2 : end;
        for (int32_t j = i + 1; j < others; j++) {
            int32_t b = class->through != NULL ? hub : class->members[j];
            routes->local_links[routes->n_local_links++] = (cleave_local_link){a, b, class_id};
            routes->local_links[routes->n_local_links++] = (cleave_local_link){b, a, class_id};
        }
    }
    return CLEAVE_OK;
}

static cleave_status expand_node(const cleave_machine *machine, cleave_machine_routes *routes,
                                 cleave_error *error) {
    int64_t n_links = 0;
    for (int32_t c = 0; c < machine->n_link_classes; c++)
        for (int32_t g = 0; g < machine->link_classes[c].n_groups; g++)
            n_links += group_links(&machine->link_classes[c], g);
    if (n_links > MAX_LOCAL_LINKS)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "a node has %lld links, more than %d",
                           (long long)n_links, MAX_LOCAL_LINKS);
    routes->local_links = CLEAVE_ARENA_ARRAY(machine->arena, cleave_local_link, n_links);
    if (routes->local_links == NULL)
        return cleave_fail_memory(error, "joining the vertices of a node");
    routes->n_local_vertices = machine->devices_per_node + machine->n_inner;
    for (int32_t c = 0; c < machine->n_link_classes; c++)
        for (int32_t g = 0; g < machine->link_classes[c].n_groups; g++)
            CLEAVE_TRY(expand_group(machine, c, g, routes, error));
    return CLEAVE_OK;
}

/* A vertex that only one other vertex joins is most often a misspelt name. */
static cleave_status check_inner(const cleave_machine *machine, const cleave_machine_routes *routes,
                                 cleave_error *error) {
    for (int32_t i = 0; i < machine->n_inner; i++) {
        int32_t v = machine->devices_per_node + i, neighbour = -1;
        bool several = machine->has_network && machine->network_join == v;
        for (int32_t l = 0; l < routes->n_local_links && !several; l++)
            if (routes->local_links[l].from == v) {
                several = neighbour >= 0 && routes->local_links[l].to != neighbour;
                neighbour = routes->local_links[l].to;
            }
        if (!several)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "\"%s\" leads nowhere: links join it to no more than one vertex",
                               machine->inner_names[i]);
    }
    return CLEAVE_OK;
}

static bool is_reachable(const cleave_machine_routes *routes, int32_t from, int32_t to) {
    int64_t cell = (int64_t)from * routes->n_local_vertices + to;
    return from == to || routes->start[cell] < routes->start[cell + 1];
}

static cleave_status check_reachable(const cleave_machine *machine,
                                     const cleave_machine_routes *routes, cleave_error *error) {
    int32_t n = machine->n_devices < machine->devices_per_node ? machine->n_devices
                                                               : machine->devices_per_node;
    for (int32_t a = 0; a < n; a++)
        for (int32_t b = 0; b < n; b++)
            if (!is_reachable(routes, a, b))
                return cleave_fail(error, CLEAVE_BAD_INPUT,
                                   "no route from device %d to device %d of a node: routes pass "
                                   "through switches and cards, not through devices",
                                   a, b);
    if (routes->n_used_nodes == 1)
        return CLEAVE_OK;
    if (!machine->has_network)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "no route from device 0 to device %d: %d nodes but no \"network\"",
                           machine->devices_per_node, machine->n_nodes);
    for (int32_t a = 0; a < n; a++)
        if (!is_reachable(routes, a, machine->network_join) ||
            !is_reachable(routes, machine->network_join, a))
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "no route from device %d of a node to the network", a);
    return CLEAVE_OK;
}

static int32_t global_vertex(const cleave_machine *machine, int32_t node, int32_t local) {
    if (local >= machine->devices_per_node)
        return machine->n_devices + node * machine->n_inner + local - machine->devices_per_node;
    int32_t device = node * machine->devices_per_node + local;
    return device < machine->n_devices ? device : -1;
}

static cleave_status name_vertices(cleave_machine *machine, int32_t n_used_nodes,
                                   cleave_error *error) {
    bool has_switch = n_used_nodes > 1 && machine->network.through != NULL;
    machine->n_vertices = machine->n_devices + n_used_nodes * machine->n_inner + has_switch;
    machine->vertex_name = CLEAVE_ARENA_ARRAY(machine->arena, const char *, machine->n_vertices);
    machine->device_kind = CLEAVE_ARENA_ARRAY(machine->arena, int32_t, machine->n_devices);
    if (machine->vertex_name == NULL || machine->device_kind == NULL)
        return cleave_fail_memory(error, "naming vertices");
    bool short_of_memory = false;
    for (int32_t d = 0; d < machine->n_devices; d++) {
        machine->device_kind[d] = machine->node_kinds[d % machine->devices_per_node];
        machine->vertex_name[d] = cleave_arena_printf(machine->arena, "device %d", d);
        short_of_memory |= machine->vertex_name[d] == NULL;
    }
    for (int32_t node = 0; node < n_used_nodes; node++)
        for (int32_t i = 0; i < machine->n_inner; i++) {
            int32_t v = global_vertex(machine, node, machine->devices_per_node + i);
            machine->vertex_name[v] =
                cleave_arena_printf(machine->arena, "node %d %s", node, machine->inner_names[i]);
            short_of_memory |= machine->vertex_name[v] == NULL;
        }
    if (has_switch)
        machine->vertex_name[machine->n_vertices - 1] = machine->network.through;
    return short_of_memory ? cleave_fail_memory(error, "naming vertices") : CLEAVE_OK;
}

static void add_link(cleave_machine *machine, int32_t from, int32_t to,
                     const cleave_link_class *class) {
    machine->links[machine->n_links++] = (cleave_link){
        .from = from,
        .to = to,
        .bytes_per_second = class->bytes_per_second,
        .latency_seconds = class->latency_seconds,
        .overhead_seconds = class->overhead_seconds,
        .overhead_seconds_per_byte =
            class->copy_bytes_per_second > 0 ? 1 / class->copy_bytes_per_second : 0,
    };
}

static void add_network(cleave_machine *machine, int32_t n_used_nodes) {
    int32_t hub = machine->n_vertices - 1, join = machine->network_join;
    for (int32_t a = 0; a < n_used_nodes; a++) {
        int32_t from = global_vertex(machine, a, join);
        if (machine->network.through != NULL) {
            add_link(machine, from, hub, &machine->network);
            add_link(machine, hub, from, &machine->network);
            continue;
        }
        for (int32_t b = 0; b < n_used_nodes; b++) /* a -> a is there, unused, for its id */
            add_link(machine, from, global_vertex(machine, b, join), &machine->network);
    }
}

static cleave_status add_links(cleave_machine *machine, cleave_machine_routes *routes,
                               cleave_error *error) {
    int32_t n_nodes = routes->n_used_nodes;
    int64_t n_local = (int64_t)n_nodes * routes->n_local_links, n_network = 0;
    if (n_nodes > 1)
        n_network =
            machine->network.through != NULL ? 2 * (int64_t)n_nodes : (int64_t)n_nodes * n_nodes;
    if (n_local + n_network > MAX_LINKS)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "the machine has %lld links, more than %d",
                           (long long)(n_local + n_network), MAX_LINKS);
    machine->n_links = 0;
    machine->links = CLEAVE_ARENA_ARRAY(machine->arena, cleave_link, n_local + n_network);
    routes->node_link = CLEAVE_ARENA_ARRAY(machine->arena, int32_t, n_local);
    if (machine->links == NULL || routes->node_link == NULL)
        return cleave_fail_memory(error, "making links");
    for (int32_t node = 0; node < n_nodes; node++)
        for (int32_t l = 0; l < routes->n_local_links; l++) {
            const cleave_local_link *local = &routes->local_links[l];
            int32_t from = global_vertex(machine, node, local->from);
            int32_t to = global_vertex(machine, node, local->to);
            bool used = from >= 0 && to >= 0;
            routes->node_link[(int64_t)node * routes->n_local_links + l] =
                used ? machine->n_links : -1;
            if (used)
                add_link(machine, from, to, &machine->link_classes[local->class_id]);
        }
    routes->first_network = machine->n_links;
    if (n_nodes > 1)
        add_network(machine, n_nodes);
    return CLEAVE_OK;
}

cleave_status cleave_machine_build(cleave_machine *machine, int32_t n_devices,
                                   cleave_error *error) {
    int64_t declared = (int64_t)machine->n_nodes * machine->devices_per_node;
    if (declared < 1 || declared > CLEAVE_MAX_DEVICES ||
        machine->devices_per_node > CLEAVE_MAX_NODE_DEVICES)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%d nodes of %d devices: at most %d devices, %d in a node",
                           machine->n_nodes, machine->devices_per_node, CLEAVE_MAX_DEVICES,
                           CLEAVE_MAX_NODE_DEVICES);
    if (n_devices < 0 || n_devices > declared)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%d devices are asked for, and there are %lld",
                           n_devices, (long long)declared);
    machine->n_devices = n_devices == 0 ? (int32_t)declared : n_devices;
    cleave_machine_routes *routes = CLEAVE_ARENA_ARRAY(machine->arena, cleave_machine_routes, 1);
    if (routes == NULL)
        return cleave_fail_memory(error, "building a machine");
    routes->n_used_nodes =
        (machine->n_devices + machine->devices_per_node - 1) / machine->devices_per_node;
    CLEAVE_TRY(expand_node(machine, routes, error));
    CLEAVE_TRY(check_inner(machine, routes, error));
    CLEAVE_TRY(cleave_machine_find_local_routes(machine, routes, error));
    CLEAVE_TRY(check_reachable(machine, routes, error));
    CLEAVE_TRY(name_vertices(machine, routes->n_used_nodes, error));
    CLEAVE_TRY(add_links(machine, routes, error));
    machine->routes = routes;
    return CLEAVE_OK;
}

/* Appends the way between two vertices of a node. */
static int32_t append_local(const cleave_machine_routes *routes, int32_t node, int32_t from,
                            int32_t to, int32_t *links) {
    int64_t cell = (int64_t)from * routes->n_local_vertices + to;
    int32_t n = 0;
    for (int64_t l = routes->start[cell]; l < routes->start[cell + 1]; l++)
        links[n++] = routes->node_link[(int64_t)node * routes->n_local_links + routes->links[l]];
    return n;
}

int32_t cleave_machine_route(const cleave_machine *machine, int32_t source, int32_t destination,
                             int32_t links[CLEAVE_MAX_ROUTE]) {
    const cleave_machine_routes *routes = machine->routes;
    int32_t per_node = machine->devices_per_node, join = machine->network_join;
    int32_t a = source / per_node, b = destination / per_node;
    if (a == b)
        return append_local(routes, a, source % per_node, destination % per_node, links);
    int32_t n = append_local(routes, a, source % per_node, join, links);
    if (machine->network.through != NULL) {
        links[n++] = routes->first_network + 2 * a;
        links[n++] = routes->first_network + 2 * b + 1;
    } else {
        links[n++] = routes->first_network + a * routes->n_used_nodes + b;
    }
    return n + append_local(routes, b, join, destination % per_node, links + n);
}

cleave_status cleave_machine_create_node(const char *name, const cleave_device_kind *kind,
                                         int32_t n_devices, const cleave_link *links,
                                         int32_t n_links, cleave_arena *arena,
                                         cleave_machine *machine, cleave_error *error) {
    cleave_machine made = {
        .name = cleave_arena_string(arena, name),
        .n_kinds = 1,
        .kinds = CLEAVE_ARENA_ARRAY(arena, cleave_device_kind, 1),
        .n_nodes = 1,
        .devices_per_node = n_devices,
        .node_kinds = CLEAVE_ARENA_ARRAY(arena, int32_t, n_devices),
        .n_link_classes = n_links,
        .link_classes = CLEAVE_ARENA_ARRAY(arena, cleave_link_class, n_links),
        .arena = arena,
    };
    int32_t *members = CLEAVE_ARENA_ARRAY(arena, int32_t, 2 * (size_t)n_links);
    int32_t *group_start = CLEAVE_ARENA_ARRAY(arena, int32_t, 2);
    if (made.name == NULL || made.kinds == NULL || made.node_kinds == NULL ||
        made.link_classes == NULL || members == NULL || group_start == NULL)
        return cleave_fail_memory(error, "making a machine");
    made.kinds[0] = *kind;
    group_start[1] = 2;
    for (int32_t l = 0; l < n_links; l++) {
        if (links[l].from < 0 || links[l].from >= n_devices || links[l].to < 0 ||
            links[l].to >= n_devices || links[l].from == links[l].to)
            return cleave_fail(error, CLEAVE_BAD_INPUT, "a link joins devices %d and %d of %d",
                               links[l].from, links[l].to, n_devices);
        members[2 * l] = links[l].from;
        members[2 * l + 1] = links[l].to;
        double per_byte = links[l].overhead_seconds_per_byte;
        made.link_classes[l] = (cleave_link_class){
            .bytes_per_second = links[l].bytes_per_second,
            .latency_seconds = links[l].latency_seconds,
            .overhead_seconds = links[l].overhead_seconds,
            .copy_bytes_per_second = per_byte > 0 ? 1 / per_byte : 0,
            .n_groups = 1,
            .group_start = group_start,
            .members = members + 2 * (size_t)l,
        };
    }
    CLEAVE_TRY(cleave_machine_build(&made, 0, error));
    *machine = made;
    return CLEAVE_OK;
}

int64_t cleave_machine_runtime_bytes(const cleave_machine *machine, int32_t d,
                                     int64_t program_bytes) {
    int64_t runtime_bytes = machine->kinds[machine->device_kind[d]].runtime_bytes;
    return runtime_bytes > 0 ? runtime_bytes + program_bytes : 0;
}
