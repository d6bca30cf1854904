#include "costmodel/machine_fold.h"

#include "costmodel/machine_routes.h"

cleave_status cleave_machine_fold_check(const cleave_machine *machine, int32_t window,
                                        cleave_error *error) {
    const cleave_network *network = &machine->network;
    int32_t node = machine->devices_per_node;
    if (machine->n_node_types != 1)
        return cleave_fail(error, CLEAVE_NO_LAYOUT, "the nodes of %s are not all alike",
                           machine->name);
    if (window % node != 0 || machine->n_devices % window != 0)
        return cleave_fail(error, CLEAVE_NO_LAYOUT,
                           "%d of %d devices of %s are not a share of whole nodes", window,
                           machine->n_devices, machine->name);
    bool flat = network->shape == CLEAVE_NETWORK_DIRECT ||
                (network->shape == CLEAVE_NETWORK_SWITCHES && network->n_levels == 1);
    if (!flat && window != node)
        return cleave_fail(error, CLEAVE_NO_LAYOUT,
                           "the nodes of a window of %d devices of %s meet at links that other "
                           "windows use",
                           window, machine->name);
    return CLEAVE_OK;
}

cleave_status cleave_machine_fold_links(const cleave_machine *machine, int32_t window,
                                        cleave_arena *arena, int32_t **image, cleave_error *error) {
    const cleave_machine_routes *routes = machine->routes;
    int32_t *made = CLEAVE_ARENA_ARRAY(arena, int32_t, machine->n_links);
    if (made == NULL)
        return cleave_fail_memory(error, "folding a machine");
    for (int32_t l = 0; l < machine->n_links; l++)
        made[l] = l;
    for (int32_t n = 0; n < routes->n_used_nodes; n++) {
        const cleave_node_place *node = &routes->nodes[n],
                                *first = &routes->nodes[n % (window / machine->devices_per_node)];
        const cleave_node_routes *type = &routes->types[node->type];
        for (int32_t l = 0; l < type->n_links; l++) {
            int32_t link = routes->link_of_local[node->first_link + l];
            if (link >= 0)
                made[link] = routes->link_of_local[first->first_link + l];
        }
        bool switched = machine->network.shape == CLEAVE_NETWORK_SWITCHES;
        for (int32_t p = 0; p < 2 * type->n_ports && switched; p++)
            made[node->first_port + p] = first->first_port + p;
    }
    *image = made;
    return CLEAVE_OK;
}
