/* Going on with fewer hosts. */
#include "cli/run/fewer.h"

#include "cli/child.h"
#include "cli/run/placement.h"

#include <string.h>

static bool is_among(const cleave_hosts *hosts, const char *name) {
    for (int32_t i = 0; i < hosts->n; i++)
        if (strcmp(hosts->items[i].name, name) == 0)
            return true;
    return false;
}

/* Takes a node, counted from 0 over all types, away from its type. */
static void drop_node(cleave_machine *machine, int32_t node) {
    int32_t t = 0;
    for (; node >= machine->node_types[t].count; t++)
        node -= machine->node_types[t].count;
    if (--machine->node_types[t].count > 0)
        return;
    machine->n_node_types--;
    memmove(&machine->node_types[t], &machine->node_types[t + 1],
            (size_t)(machine->n_node_types - t) * sizeof *machine->node_types);
}

/* From the last node on, until there is a host for each. */
static cleave_status drop_nodes(cleave_machine *machine, const cleave_hosts *hosts,
                                const cleave_hosts *left, cleave_error *error) {
    int32_t n = machine->n_nodes;
    for (int32_t i = n - 1; i >= 0 && n > left->n; i--)
        if (i >= hosts->n || !is_among(left, hosts->items[i].name)) {
            drop_node(machine, i);
            n--;
        }
    return cleave_machine_build(machine, 0, error);
}

static cleave_status search_layout(const fewer_search *search, const fewer_found *found,
                                   cleave_error *error) {
    child_arguments child = {
        .words = {"search", "--machine", found->machine, "-o", found->layout, "--json"}, .n = 6};
    for (int i = 0; i < search->n_options; i++)
        child_add(&child, search->options[i]);
    if (search->quiet)
        child_add(&child, "--quiet");
    cleave_json *document;
    CLEAVE_TRY(child_run_json(child.words, &document, error));
    cleave_json_free(document);
    return CLEAVE_OK;
}

cleave_status fewer_find(const fewer_search *search, const cleave_hosts *hosts,
                         const cleave_hosts *left, cleave_arena *arena, fewer_found *found,
                         cleave_error *error) {
    cleave_machine machine;
    fewer_found made = {0};
    if (search->machine == NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%d of %d hosts are left, for which a layout can be searched only with "
                           "--machine, which says what the nodes are",
                           left->n, hosts->n);
    CLEAVE_TRY(cleave_machine_read(search->machine, 0, arena, &machine, error));
    CLEAVE_TRY(drop_nodes(&machine, hosts, left, error));
    made.n_devices = machine.n_devices;
    made.machine =
        cleave_arena_printf(arena, "%s/on-%d-hosts.machine.json", search->folder, machine.n_nodes);
    made.layout =
        cleave_arena_printf(arena, "%s/on-%d-hosts.layout.json", search->folder, machine.n_nodes);
    if (made.machine == NULL || made.layout == NULL)
        return cleave_fail_memory(error, "going on with fewer hosts");
    CLEAVE_TRY(placement_make(left, &machine, made.n_devices, arena, &made.placement, error));
    CLEAVE_TRY(cleave_machine_write(made.machine, &machine, error));
    CLEAVE_TRY(search_layout(search, &made, error));
    *found = made;
    return CLEAVE_OK;
}
