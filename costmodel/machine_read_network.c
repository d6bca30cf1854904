/* The network in a machine file; the format is described in machine_read.c. */
#include "costmodel/machine_read.h"

#include <string.h>

enum { MAX_JOINS = 256, MAX_TORUS_SIZE = 1 << 16, MAX_SWITCHES = 1 << 12 };

static const char *const first_keys[] = {"join",      "through", "torus",    "nodes",
                                         "bandwidth", "latency", "overhead", "copy_bandwidth",
                                         "protocol",  NULL};
static const char *const further_keys[] = {"through",   "nodes",   "switches", "oversubscription",
                                           "bandwidth", "latency", "overhead", "copy_bandwidth",
                                           "protocol",  NULL};

static cleave_status read_join_vertex(const machine_reader *r, const cleave_json_cursor *at,
                                      int32_t rail) {
    cleave_network *network = &r->machine->network;
    cleave_join join = {.rail = rail};
    if (cleave_json_type_of(at) == CLEAVE_JSON_INTEGER) {
        int64_t number;
        CLEAVE_TRY(cleave_json_integer(at, 0, CLEAVE_MAX_NODE_DEVICES - 1, &number, r->error));
        join.device = (int32_t)number;
    } else {
        const char *name;
        CLEAVE_TRY(cleave_json_string(at, &name, r->error));
        join.name = cleave_arena_string(r->arena, name);
        if (join.name == NULL)
            return machine_read_short_of_memory(r);
    }
    bool known = false;
    for (int32_t t = 0; t < r->machine->n_node_types; t++) {
        const cleave_node_type *type = &r->machine->node_types[t];
        known = known || (join.name == NULL && join.device < type->n_devices);
        for (int32_t i = 0; i < type->n_inner && join.name != NULL; i++)
            known = known || strcmp(type->inner_names[i], join.name) == 0;
    }
    if (!known && join.name != NULL)
        return cleave_json_fail(at, r->error, "a node has no \"%s\"", join.name);
    if (!known)
        return cleave_json_fail(at, r->error, "a node has no device %d", join.device);
    for (int32_t q = 0; q < network->n_joins; q++) {
        const cleave_join *other = &network->joins[q];
        if (join.name == NULL || other->name == NULL
                ? join.name == other->name && join.device == other->device
                : strcmp(join.name, other->name) == 0)
            return cleave_json_fail(at, r->error, "the network joins a vertex twice");
    }
    if (network->n_joins == MAX_JOINS)
        return cleave_json_fail(at, r->error, "more than %d vertices of a node", MAX_JOINS);
    network->joins[network->n_joins++] = join;
    return CLEAVE_OK;
}

/* One vertex, a list of them, or a list of lists. */
static cleave_status read_joins(const machine_reader *r, const cleave_json_cursor *at) {
    cleave_network *network = &r->machine->network;
    network->joins = CLEAVE_ARENA_ARRAY(r->arena, cleave_join, MAX_JOINS);
    if (network->joins == NULL)
        return machine_read_short_of_memory(r);
    network->n_rails = 1;
    if (cleave_json_type_of(at) != CLEAVE_JSON_ARRAY)
        return read_join_vertex(r, at, 0);
    int32_t n = cleave_json_count(at);
    if (n < 1)
        return cleave_json_fail(at, r->error, "there is nothing to join");
    cleave_json_cursor first = cleave_json_element(at, 0);
    bool rails = cleave_json_type_of(&first) == CLEAVE_JSON_ARRAY;
    for (int32_t g = 0; g < n; g++) {
        cleave_json_cursor group = cleave_json_element(at, g);
        if (!rails) {
            CLEAVE_TRY(read_join_vertex(r, &group, 0));
            continue;
        }
        CLEAVE_TRY(cleave_json_expect_array(&group, r->error));
        if (cleave_json_count(&group) < 1)
            return cleave_json_fail(&group, r->error, "there is nothing to join");
        for (int32_t i = 0; i < cleave_json_count(&group); i++) {
            cleave_json_cursor vertex = cleave_json_element(&group, i);
            CLEAVE_TRY(read_join_vertex(r, &vertex, g));
        }
    }
    network->n_rails = rails ? n : 1;
    return CLEAVE_OK;
}

static cleave_status read_torus(const machine_reader *r, const cleave_json_cursor *at) {
    cleave_network *network = &r->machine->network;
    CLEAVE_TRY(cleave_json_expect_array(at, r->error));
    int32_t n = cleave_json_count(at);
    if (n < 1 || n > CLEAVE_MAX_TORUS_DIMENSIONS)
        return cleave_json_fail(at, r->error, "%d dimensions are not in the range 1 to %d", n,
                                CLEAVE_MAX_TORUS_DIMENSIONS);
    for (int32_t d = 0; d < n; d++) {
        cleave_json_cursor element = cleave_json_element(at, d);
        int64_t size;
        CLEAVE_TRY(cleave_json_integer(&element, 2, MAX_TORUS_SIZE, &size, r->error));
        network->size[d] = (int32_t)size;
    }
    network->n_dimensions = n;
    return CLEAVE_OK;
}

static cleave_status read_nodes_under(const machine_reader *r, const cleave_json_cursor *at,
                                      cleave_network_level *level) {
    cleave_json_cursor member;
    int64_t number = 0;
    if (cleave_json_find(at, "nodes", &member))
        CLEAVE_TRY(cleave_json_integer(&member, 1, CLEAVE_MAX_DEVICES, &number, r->error));
    level->nodes = (int32_t)number;
    return CLEAVE_OK;
}

static cleave_status read_first(const machine_reader *r, const cleave_json_cursor *at) {
    cleave_network *network = &r->machine->network;
    cleave_network_level *level = &network->levels[0];
    cleave_json_cursor member, torus, nodes;
    CLEAVE_TRY(cleave_json_expect_object(at, r->error));
    CLEAVE_TRY(cleave_json_expect_keys(at, first_keys, r->error));
    CLEAVE_TRY(cleave_json_get(at, "join", &member, r->error));
    CLEAVE_TRY(read_joins(r, &member));
    CLEAVE_TRY(machine_read_figures(r, at, false, &level->links));
    CLEAVE_TRY(read_nodes_under(r, at, level));
    network->shape = level->links.through != NULL ? CLEAVE_NETWORK_SWITCHES : CLEAVE_NETWORK_DIRECT;
    level->n_switches = network->n_rails;
    network->n_levels = 1;
    if (cleave_json_find(at, "torus", &torus)) {
        if (network->shape == CLEAVE_NETWORK_SWITCHES)
            return cleave_json_fail(&torus, r->error, "a torus goes without \"through\"");
        network->shape = CLEAVE_NETWORK_TORUS;
        CLEAVE_TRY(read_torus(r, &torus));
    }
    if (network->shape == CLEAVE_NETWORK_SWITCHES)
        return CLEAVE_OK;
    if (network->n_joins > 1)
        return cleave_json_fail(&member, r->error,
                                "%d vertices of a node: without \"through\" one is joined",
                                network->n_joins);
    if (cleave_json_find(at, "nodes", &nodes))
        return cleave_json_fail(&nodes, r->error, "without \"through\" nodes are under no switch");
    return CLEAVE_OK;
}

static cleave_status read_further(const machine_reader *r, const cleave_json_cursor *at,
                                  cleave_network_level *level) {
    cleave_json_cursor member;
    int64_t number = 1;
    CLEAVE_TRY(cleave_json_expect_object(at, r->error));
    CLEAVE_TRY(cleave_json_expect_keys(at, further_keys, r->error));
    CLEAVE_TRY(cleave_json_get(at, "through", &member, r->error));
    if (cleave_json_find(at, "switches", &member))
        CLEAVE_TRY(cleave_json_integer(&member, 1, MAX_SWITCHES, &number, r->error));
    level->n_switches = (int32_t)number;
    CLEAVE_TRY(read_nodes_under(r, at, level));
    bool derived = cleave_json_find(at, "oversubscription", &member);
    if (derived) {
        CLEAVE_TRY(cleave_json_number(&member, &level->oversubscription, r->error));
        if (!(level->oversubscription > 0 && level->oversubscription <= 1e6))
            return cleave_json_fail(&member, r->error, "%g is not above 0 and at most 1000000",
                                    level->oversubscription);
        if (cleave_json_find(at, "bandwidth", &member))
            return cleave_json_fail(&member, r->error, "the oversubscription says it already");
    }
    return machine_read_figures(r, at, derived, &level->links);
}

cleave_status machine_read_network(const machine_reader *r, const cleave_json_cursor *root) {
    cleave_network *network = &r->machine->network;
    cleave_json_cursor at;
    if (!cleave_json_find(root, "network", &at))
        return CLEAVE_OK;
    if (cleave_json_type_of(&at) != CLEAVE_JSON_ARRAY)
        return read_first(r, &at);
    int32_t n = cleave_json_count(&at);
    if (n < 1 || n > CLEAVE_MAX_NETWORK_LEVELS)
        return cleave_json_fail(&at, r->error, "%d levels are not in the range 1 to %d", n,
                                CLEAVE_MAX_NETWORK_LEVELS);
    cleave_json_cursor first = cleave_json_element(&at, 0);
    CLEAVE_TRY(read_first(r, &first));
    if (n > 1 && network->shape != CLEAVE_NETWORK_SWITCHES)
        return cleave_json_fail(&first, r->error,
                                "a level over another needs switches there: \"through\"");
    for (int32_t k = 1; k < n; k++) {
        cleave_json_cursor element = cleave_json_element(&at, k);
        CLEAVE_TRY(read_further(r, &element, &network->levels[k]));
    }
    network->n_levels = n;
    return CLEAVE_OK;
}
