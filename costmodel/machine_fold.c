#include "costmodel/machine_fold.h"

#include "costmodel/machine_routes.h"

#include <stdlib.h>

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

bool cleave_machine_may_fold(const cleave_machine *machine, cleave_error *error) {
    cleave_error ignored;
    error = error != NULL ? error : &ignored;
    if (machine->devices_per_node < 1 || machine->n_devices < 2 * machine->devices_per_node) {
        cleave_fail(error, CLEAVE_NO_LAYOUT, "%d devices are not several whole nodes",
                    machine->n_devices);
        return false;
    }
    return cleave_machine_fold_check(machine, machine->devices_per_node, error) == CLEAVE_OK;
}

cleave_status cleave_machine_fold_links(const cleave_machine *machine, int32_t window,
                                        int32_t n_windows, cleave_arena *arena, int32_t **image,
                                        cleave_error *error) {
    const cleave_machine_routes *routes = machine->routes;
    int32_t of_window = window / machine->devices_per_node, of_group = of_window * n_windows;
    int32_t *made = CLEAVE_ARENA_ARRAY(arena, int32_t, machine->n_links);
    if (made == NULL)
        return cleave_fail_memory(error, "folding a machine");
    for (int32_t l = 0; l < machine->n_links; l++)
        made[l] = l;
    for (int32_t n = 0; n < routes->n_used_nodes; n++) {
        const cleave_node_place *node = &routes->nodes[n],
                                *first = &routes->nodes[n / of_group * of_group + n % of_window];
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

typedef struct finder {
    const cleave_machine *machine;
    int32_t *image;
    int32_t *like;  /* [n_links] of window 0: the link that is as it is in the present window, */
    int32_t *known; /* [n_links] which that window is */
    int32_t *taken; /* [n_links] 1 + the window whose messages take it; 0: none's */
} finder;

static bool are_alike(const cleave_link *a, const cleave_link *b) {
    return a->bytes_per_second == b->bytes_per_second && a->latency_seconds == b->latency_seconds &&
           a->overhead_seconds == b->overhead_seconds &&
           a->overhead_seconds_per_byte == b->overhead_seconds_per_byte &&
           a->protocol.first_bytes == b->protocol.first_bytes &&
           a->protocol.first_bytes_per_second == b->protocol.first_bytes_per_second;
}

/* `link` of window 0 is as `other` of window `j`, from now on. */
static bool match(finder *f, int32_t link, int32_t other, int32_t j) {
    if (f->known[link] == j)
        return f->like[link] == other;
    f->known[link] = j;
    f->like[link] = other;
    if (f->image[other] == link && other != link)
        return true; /* at a node */
    if (f->taken[other] != 0 || f->image[other] != other)
        return false;
    f->taken[other] = j + 1;
    f->image[other] = link;
    return are_alike(&f->machine->links[link], &f->machine->links[other]);
}

static bool take_way(finder *f, const cleave_fold_way *way, int32_t j, int32_t by) {
    int32_t first[CLEAVE_MAX_ROUTE], other[CLEAVE_MAX_ROUTE];
    int32_t n = cleave_machine_route(f->machine, way->source, way->destination, first);
    if (j == 0) {
        for (int32_t l = 0; l < n; l++)
            f->taken[first[l]] = 1;
        return true;
    }
    bool alike =
        cleave_machine_route(f->machine, way->source + by, way->destination + by, other) == n;
    for (int32_t l = 0; l < n && alike; l++)
        alike = match(f, first[l], other[l], j);
    return alike;
}

cleave_status cleave_machine_fold_ways(const cleave_machine *machine, int32_t window,
                                       int32_t n_windows, int32_t n_ways,
                                       const cleave_fold_way *ways, int32_t *image,
                                       cleave_error *error) {
    size_t n = (size_t)machine->n_links;
    int32_t *rows = calloc(3 * n + 1, sizeof *rows);
    finder f = {machine, image, rows, rows + n, rows + 2 * n};
    bool alike = true;
    if (rows == NULL)
        return cleave_fail_memory(error, "folding a machine");
    for (int32_t j = 0; j < n_windows && alike; j++)
        for (int32_t w = 0; w < n_ways && alike; w++)
            alike = take_way(&f, &ways[w], j, j * window);
    free(rows);
    return alike ? CLEAVE_OK
                 : cleave_fail(error, CLEAVE_NO_LAYOUT,
                               "messages between groups of %d devices of %s meet otherwise in one "
                               "window than in another",
                               window * n_windows, machine->name);
}

cleave_status cleave_machine_fold_groups(const cleave_machine *machine, int32_t window,
                                         int32_t n_windows, int32_t n_groups,
                                         bool windows_outermost, cleave_error *error) {
    cleave_arena scratch = {0};
    int32_t *image = NULL, n = 0, of_group = windows_outermost ? window : window * n_windows;
    int32_t all = windows_outermost ? window * n_groups : window;
    cleave_fold_way *ways = CLEAVE_ARENA_ARRAY(&scratch, cleave_fold_way, 2 * window * n_groups);
    cleave_status status = ways != NULL ? cleave_machine_fold_check(machine, window, error)
                                        : cleave_fail_memory(error, "folding a machine");
    for (int32_t g = 0; g + 1 < n_groups && status == CLEAVE_OK; g++)
        for (int32_t d = g * of_group; d < g * of_group + window; d++) {
            ways[n++] = (cleave_fold_way){d, d + of_group};
            ways[n++] = (cleave_fold_way){d + of_group, d};
        }
    if (status == CLEAVE_OK)
        status = cleave_machine_fold_links(machine, all, n_windows, &scratch, &image, error);
    if (status == CLEAVE_OK)
        status = cleave_machine_fold_ways(machine, all, n_windows, n, ways, image, error);
    cleave_arena_free(&scratch);
    return status;
}
