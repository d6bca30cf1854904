/* A machine is nodes of some types and a network that joins vertices of each.  From that
   declaration follow vertices (devices first), directed links and routes.  A route between nodes is
   the way to a vertex that the network joins, the network, and the way from one, so a table for
   each type of nodes serves all. */
#include "costmodel/machine.h"

#include "base/checked.h"
#include "costmodel/machine_routes.h"

#include <stdio.h>
#include <string.h>

enum { MAX_LINKS = 1 << 22 };

static cleave_status count_nodes(cleave_machine *machine, int32_t n_devices, cleave_error *error) {
    int64_t n_nodes = 0, declared = 0;
    machine->devices_per_node = 0;
    for (int32_t t = 0; t < machine->n_node_types; t++) {
        const cleave_node_type *type = &machine->node_types[t];
        n_nodes += type->count;
        declared += (int64_t)type->count * type->n_devices;
        if (type->count < 1 || type->n_devices < 1 || type->n_devices > CLEAVE_MAX_NODE_DEVICES ||
            declared > CLEAVE_MAX_DEVICES)
            return cleave_fail(
                error, CLEAVE_BAD_INPUT, "%d nodes of %d devices: at most %d devices, %d in a node",
                type->count, type->n_devices, CLEAVE_MAX_DEVICES, CLEAVE_MAX_NODE_DEVICES);
        machine->devices_per_node =
            (int32_t)cleave_common_divisor(machine->devices_per_node, type->n_devices);
    }
    if (n_devices < 0 || n_devices > declared)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%d devices are asked for, and there are %lld",
                           n_devices, (long long)declared);
    machine->n_nodes = (int32_t)n_nodes;
    machine->n_devices = n_devices == 0 ? (int32_t)declared : n_devices;
    return CLEAVE_OK;
}

/* Nodes with devices in use, and all others of a torus that messages between those may cross. */
static cleave_status place_nodes(cleave_machine *machine, cleave_error *error) {
    cleave_machine_routes *routes = machine->routes;
    int64_t n_locals = 0;
    int32_t node = 0, device = 0, inner = machine->n_devices;
    routes->nodes = CLEAVE_ARENA_ARRAY(machine->arena, cleave_node_place, machine->n_nodes);
    routes->node_of = CLEAVE_ARENA_ARRAY(machine->arena, int32_t, machine->n_devices);
    if (routes->nodes == NULL || routes->node_of == NULL)
        return cleave_fail_memory(error, "placing nodes");
    bool whole = machine->network.shape == CLEAVE_NETWORK_TORUS &&
                 machine->n_devices > machine->node_types[0].n_devices;
    for (int32_t t = 0; t < machine->n_node_types; t++) {
        const cleave_node_type *type = &machine->node_types[t];
        for (int32_t i = 0; i < type->count && (whole || device < machine->n_devices); i++) {
            routes->nodes[node] = (cleave_node_place){t, device, inner, n_locals, 0};
            for (int32_t d = 0; d < type->n_devices && device + d < machine->n_devices; d++)
                routes->node_of[device + d] = node;
            device += type->n_devices;
            inner += type->n_inner;
            n_locals += routes->types[t].n_links;
            node++;
        }
    }
    routes->n_used_nodes = node;
    machine->n_vertices = inner;
    if (n_locals > MAX_LINKS)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "the nodes have %lld links, more than %d",
                           (long long)n_locals, MAX_LINKS);
    routes->link_of_local = CLEAVE_ARENA_ARRAY(machine->arena, int32_t, n_locals);
    return routes->link_of_local != NULL ? CLEAVE_OK : cleave_fail_memory(error, "placing nodes");
}

static bool is_reachable(const cleave_node_routes *routes, int32_t from, int32_t to) {
    return from == to || cleave_local_hops(routes, from, to) > 0;
}

/* Every two devices of a node, and each device and the network: by one rail that all have, or,
   where a second level joins the rails, by any. */
static cleave_status check_reachable(const cleave_machine *machine, int32_t type_id,
                                     cleave_error *error) {
    const cleave_node_routes *routes = &machine->routes->types[type_id];
    const cleave_network *network = &machine->network;
    int32_t n = machine->node_types[type_id].n_devices;
    if (machine->routes->n_used_nodes == 1 && machine->n_devices < n)
        n = machine->n_devices;
    for (int32_t a = 0; a < n; a++)
        for (int32_t b = 0; b < n; b++)
            if (!is_reachable(routes, a, b))
                return cleave_fail(error, CLEAVE_BAD_INPUT,
                                   "no route from device %d to device %d of a node: routes pass "
                                   "through switches and cards, not through devices",
                                   a, b);
    for (int32_t a = 0; a < n && machine->routes->n_used_nodes > 1; a++) {
        bool any = false, all = true;
        for (int32_t r = 0; r < network->n_rails; r++) {
            bool has = routes->ports[(int64_t)a * network->n_rails + r].join >= 0;
            any = any || has;
            all = all && has;
        }
        if (!any || (!all && network->n_levels < 2))
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               any ? "device %d of a node reaches some rails of the network only, "
                                     "and no level of switches joins them"
                                   : "no route from device %d of a node to the network",
                               a);
    }
    return CLEAVE_OK;
}

int32_t cleave_machine_vertex(const cleave_machine *machine, int32_t node, int32_t local) {
    const cleave_node_place *place = &machine->routes->nodes[node];
    int32_t n_devices = machine->node_types[place->type].n_devices;
    if (local >= n_devices)
        return place->first_inner + local - n_devices;
    return place->first_device + local < machine->n_devices ? place->first_device + local : -1;
}

static cleave_status name_vertices(cleave_machine *machine, cleave_error *error) {
    machine->vertex_name = CLEAVE_ARENA_ARRAY(machine->arena, const char *, machine->n_vertices);
    machine->device_kind = CLEAVE_ARENA_ARRAY(machine->arena, int32_t, machine->n_devices);
    if (machine->vertex_name == NULL || machine->device_kind == NULL)
        return cleave_fail_memory(error, "naming vertices");
    bool short_of_memory = false;
    for (int32_t node = 0; node < machine->routes->n_used_nodes; node++) {
        const cleave_node_place *place = &machine->routes->nodes[node];
        const cleave_node_type *type = &machine->node_types[place->type];
        for (int32_t local = 0; local < type->n_devices + type->n_inner; local++) {
            int32_t v = cleave_machine_vertex(machine, node, local), i = local - type->n_devices;
            if (v < 0)
                continue;
            if (i < 0)
                machine->device_kind[v] = type->kinds[local];
            machine->vertex_name[v] = i < 0 ? cleave_arena_printf(machine->arena, "device %d", v)
                                            : cleave_arena_printf(machine->arena, "node %d %s",
                                                                  node, type->inner_names[i]);
            short_of_memory |= machine->vertex_name[v] == NULL;
        }
    }
    return short_of_memory ? cleave_fail_memory(error, "naming vertices") : CLEAVE_OK;
}

void cleave_machine_add_link(cleave_machine *machine, int32_t from, int32_t to,
                             const cleave_link_class *class) {
    machine->links[machine->n_links++] = (cleave_link){
        .from = from,
        .to = to,
        .bytes_per_second = class->bytes_per_second,
        .latency_seconds = class->latency_seconds,
        .overhead_seconds = class->overhead_seconds,
        .overhead_seconds_per_byte =
            class->copy_bytes_per_second > 0 ? 1 / class->copy_bytes_per_second : 0,
        .protocol = class->protocol,
    };
}

static void add_local_links(cleave_machine *machine) {
    cleave_machine_routes *routes = machine->routes;
    for (int32_t node = 0; node < routes->n_used_nodes; node++) {
        const cleave_node_place *place = &routes->nodes[node];
        const cleave_node_routes *local = &routes->types[place->type];
        for (int32_t l = 0; l < local->n_links; l++) {
            const cleave_local_link *link = &local->local_links[l];
            int32_t from = cleave_machine_vertex(machine, node, link->from);
            int32_t to = cleave_machine_vertex(machine, node, link->to);
            bool used = from >= 0 && to >= 0;
            routes->link_of_local[place->first_link + l] = used ? machine->n_links : -1;
            if (used)
                cleave_machine_add_link(
                    machine, from, to,
                    &machine->node_types[place->type].link_classes[link->class_id]);
        }
    }
}

static cleave_status make_vertices_and_links(cleave_machine *machine, cleave_error *error) {
    cleave_machine_routes *routes = machine->routes;
    const cleave_node_place *last = &routes->nodes[routes->n_used_nodes - 1];
    int64_t n_locals = last->first_link + routes->types[last->type].n_links, n_network;
    int32_t n_switches, first_switch = machine->n_vertices;
    cleave_network_count(machine, &n_switches, &n_network);
    if (n_locals + n_network > MAX_LINKS)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "the machine has %lld links, more than %d",
                           (long long)(n_locals + n_network), MAX_LINKS);
    machine->n_vertices += n_switches;
    machine->n_links = 0;
    machine->links = CLEAVE_ARENA_ARRAY(machine->arena, cleave_link, n_locals + n_network);
    if (machine->links == NULL)
        return cleave_fail_memory(error, "making links");
    CLEAVE_TRY(name_vertices(machine, error));
    add_local_links(machine);
    return cleave_network_build(machine, first_switch, error);
}

cleave_status cleave_machine_build(cleave_machine *machine, int32_t n_devices,
                                   cleave_error *error) {
    CLEAVE_TRY(count_nodes(machine, n_devices, error));
    CLEAVE_TRY(cleave_network_check(machine, error));
    cleave_machine_routes *routes = CLEAVE_ARENA_ARRAY(machine->arena, cleave_machine_routes, 1);
    if (routes != NULL)
        routes->types =
            CLEAVE_ARENA_ARRAY(machine->arena, cleave_node_routes, machine->n_node_types);
    if (routes == NULL || routes->types == NULL)
        return cleave_fail_memory(error, "building a machine");
    for (int32_t t = 0; t < machine->n_node_types; t++)
        CLEAVE_TRY(
            cleave_machine_route_node(machine, &machine->node_types[t], &routes->types[t], error));
    machine->routes = routes;
    CLEAVE_TRY(place_nodes(machine, error));
    for (int32_t t = 0; t <= routes->nodes[routes->n_used_nodes - 1].type; t++)
        CLEAVE_TRY(check_reachable(machine, t, error));
    CLEAVE_TRY(cleave_network_tabulate(machine, error));
    return make_vertices_and_links(machine, error);
}

/* Appends the way between two vertices of a node. */
static int32_t append_local(const cleave_machine_routes *routes, int32_t node, int32_t from,
                            int32_t to, int32_t *links) {
    const cleave_node_place *place = &routes->nodes[node];
    const cleave_node_routes *local = &routes->types[place->type];
    int64_t cell = (int64_t)from * local->n_vertices + to;
    int32_t n = 0;
    for (int64_t l = local->start[cell]; l < local->start[cell + 1]; l++)
        links[n++] = routes->link_of_local[place->first_link + local->links[l]];
    return n;
}

static cleave_network_end end_at(const cleave_machine_routes *routes, int32_t device) {
    int32_t node = routes->node_of[device];
    return (cleave_network_end){.node = node, .device = device - routes->nodes[node].first_device};
}

int32_t cleave_machine_route(const cleave_machine *machine, int32_t source, int32_t destination,
                             int32_t links[CLEAVE_MAX_ROUTE]) {
    const cleave_machine_routes *routes = machine->routes;
    cleave_network_end a = end_at(routes, source), b = end_at(routes, destination);
    if (a.node == b.node)
        return append_local(routes, a.node, a.device, b.device, links);
    int32_t between[CLEAVE_MAX_NETWORK_ROUTE];
    int32_t n_between = cleave_network_route(machine, &a, &b, between);
    int32_t n = append_local(routes, a.node, a.device, a.port, links);
    memcpy(links + n, between, (size_t)n_between * sizeof *between);
    n += n_between;
    return n + append_local(routes, b.node, b.port, b.device, links + n);
}

cleave_status cleave_machine_create_node(const char *name, const cleave_device_kind *kind,
                                         int32_t n_devices, const cleave_link *links,
                                         int32_t n_links, cleave_arena *arena,
                                         cleave_machine *machine, cleave_error *error) {
    cleave_machine made = {
        .name = cleave_arena_string(arena, name),
        .n_kinds = 1,
        .kinds = CLEAVE_ARENA_ARRAY(arena, cleave_device_kind, 1),
        .n_node_types = 1,
        .node_types = CLEAVE_ARENA_ARRAY(arena, cleave_node_type, 1),
        .arena = arena,
    };
    cleave_node_type node = {
        .count = 1,
        .n_devices = n_devices,
        .kinds = CLEAVE_ARENA_ARRAY(arena, int32_t, n_devices),
        .n_link_classes = n_links,
        .link_classes = CLEAVE_ARENA_ARRAY(arena, cleave_link_class, n_links),
    };
    int32_t *members = CLEAVE_ARENA_ARRAY(arena, int32_t, 2 * (size_t)n_links);
    int32_t *group_start = CLEAVE_ARENA_ARRAY(arena, int32_t, 2);
    if (made.name == NULL || made.kinds == NULL || made.node_types == NULL || node.kinds == NULL ||
        node.link_classes == NULL || members == NULL || group_start == NULL)
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
        node.link_classes[l] = (cleave_link_class){
            .bytes_per_second = links[l].bytes_per_second,
            .latency_seconds = links[l].latency_seconds,
            .overhead_seconds = links[l].overhead_seconds,
            .copy_bytes_per_second = per_byte > 0 ? 1 / per_byte : 0,
            .protocol = links[l].protocol,
            .n_groups = 1,
            .group_start = group_start,
            .members = members + 2 * (size_t)l,
        };
    }
    made.node_types[0] = node;
    CLEAVE_TRY(cleave_machine_build(&made, 0, error));
    *machine = made;
    return CLEAVE_OK;
}

bool cleave_machine_same_node(const cleave_machine *machine, int32_t a, int32_t b) {
    return machine->routes->node_of[a] == machine->routes->node_of[b];
}

bool cleave_machine_ends_work(const cleave_machine *machine) {
    for (int32_t k = 0; k < machine->n_kinds; k++)
        if (cleave_frameworks[machine->kinds[k].framework].holds_for_messages)
            return true;
    for (int32_t l = 0; l < machine->n_links; l++)
        if (machine->links[l].overhead_seconds_per_byte > 0 ||
            machine->links[l].protocol.n_agreements > 0)
            return true;
    return false;
}

int64_t cleave_machine_runtime_bytes(const cleave_machine *machine, int32_t d,
                                     int64_t program_bytes) {
    int64_t runtime_bytes = machine->kinds[machine->device_kind[d]].runtime_bytes;
    return runtime_bytes > 0 ? runtime_bytes + program_bytes : 0;
}
