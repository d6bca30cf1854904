/* Ranks on hosts. */
#include "cli/run/placement.h"

#include "base/file.h"

#include <string.h>

cleave_status placement_find_hosts(const char *file, cleave_arena *arena, cleave_hosts *hosts,
                                   cleave_error *error) {
    char *text;
    size_t bytes;
    if (file != NULL) {
        CLEAVE_TRY(cleave_file_read(file, arena, &text, &bytes, error));
        return cleave_hosts_parse(text, bytes, file, arena, hosts, error);
    }
    CLEAVE_TRY(cleave_hosts_find(arena, hosts, error));
    if (hosts->n == 1)
        hosts->n = 0;
    return CLEAVE_OK;
}

/* Devices of a node of the machine, the nodes counted from 0; 0: there is no such node. */
static int32_t count_devices(const cleave_machine *machine, int32_t node) {
    for (int32_t t = 0; t < machine->n_node_types; t++) {
        if (node < machine->node_types[t].count)
            return machine->node_types[t].n_devices;
        node -= machine->node_types[t].count;
    }
    return 0;
}

/* How many of the ranks that are left go to host i. */
static cleave_status take(const cleave_hosts *hosts, const cleave_machine *machine, int32_t i,
                          int32_t n_left, int32_t *n, cleave_error *error) {
    const cleave_host *host = &hosts->items[i];
    int32_t wanted = machine != NULL ? count_devices(machine, i) : host->slots;
    *n = wanted < n_left ? wanted : n_left;
    if (*n > host->slots)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: %s has %d slot%s, but node %d of the machine %s has %d devices: "
                           "ranks are where the machine file has their devices",
                           hosts->from, host->name, host->slots, host->slots == 1 ? "" : "s", i,
                           machine->name, wanted);
    return CLEAVE_OK;
}

cleave_status placement_make(const cleave_hosts *hosts, const cleave_machine *machine,
                             int32_t n_ranks, cleave_arena *arena, const char **text,
                             cleave_error *error) {
    int32_t n_left = n_ranks, n, i = 0;
    size_t bytes = 1, at = 0;
    for (int32_t h = 0; h < hosts->n; h++)
        bytes += strlen(hosts->items[h].name) + 16;
    char *words = CLEAVE_ARENA_ARRAY(arena, char, bytes);
    if (words == NULL)
        return cleave_fail_memory(error, "placing ranks");
    for (; i < hosts->n && n_left > 0; i++) {
        CLEAVE_TRY(take(hosts, machine, i, n_left, &n, error));
        at += (size_t)snprintf(words + at, bytes - at, "%s%s:%d", i > 0 ? "," : "",
                               hosts->items[i].name, n);
        n_left -= n;
    }
    if (n_left > 0 && machine != NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: has %d host%s, but the %d devices of the machine %s are on more "
                           "nodes",
                           hosts->from, hosts->n, hosts->n == 1 ? "" : "s", n_ranks, machine->name);
    if (n_left > 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: its %d host%s have %d slots, but the layout is for %d devices",
                           hosts->from, hosts->n, hosts->n == 1 ? "" : "s", n_ranks - n_left,
                           n_ranks);
    *text = words;
    return CLEAVE_OK;
}
