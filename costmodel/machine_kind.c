#include "costmodel/machine_kind.h"

#include <string.h>

void cleave_machine_count_kinds(const cleave_machine *machine, int32_t *n_devices) {
    memset(n_devices, 0, (size_t)machine->n_kinds * sizeof *n_devices);
    for (int32_t d = 0; d < machine->n_devices; d++)
        n_devices[machine->device_kind[d]]++;
}

/* What becomes of the vertices of a node: devices of the kind come first, in their order, then all
   inner ones; -1: it is left out. */
static int32_t renumber(const cleave_node_type *type, int32_t kind, int32_t *number) {
    int32_t n = 0;
    for (int32_t d = 0; d < type->n_devices; d++)
        number[d] = type->kinds[d] == kind ? n++ : -1;
    for (int32_t i = 0; i < type->n_inner; i++)
        number[type->n_devices + i] = n + i;
    return n;
}

static bool keep_links(const cleave_link_class *of, const int32_t *number, cleave_arena *arena,
                       cleave_link_class *kept) {
    int32_t *start = CLEAVE_ARENA_ARRAY(arena, int32_t, of->n_groups + 1);
    int32_t *members = CLEAVE_ARENA_ARRAY(arena, int32_t, of->group_start[of->n_groups]);
    int32_t n = 0, groups = 0;
    if (start == NULL || members == NULL)
        return false;
    for (int32_t g = 0; g < of->n_groups; g++) {
        for (int32_t i = of->group_start[g]; i < of->group_start[g + 1]; i++)
            if (number[of->members[i]] >= 0)
                members[n++] = number[of->members[i]];
        if (n > start[groups] + (of->through == NULL)) /* two that are joined directly, or one */
            start[++groups] = n;
        else
            n = start[groups];
    }
    *kept = *of;
    kept->n_groups = groups;
    kept->group_start = start;
    kept->members = members;
    return true;
}

/* `number` [vertices of the node] is filled. */
static bool keep_node(const cleave_node_type *of, int32_t kind, cleave_arena *arena,
                      int32_t *number, cleave_node_type *kept) {
    *kept = *of;
    kept->n_devices = renumber(of, kind, number);
    kept->n_link_classes = 0;
    kept->kinds = CLEAVE_ARENA_ARRAY(arena, int32_t, of->n_devices);
    kept->link_classes = CLEAVE_ARENA_ARRAY(arena, cleave_link_class, of->n_link_classes);
    if (kept->kinds == NULL || kept->link_classes == NULL)
        return false;
    for (int32_t d = 0; d < kept->n_devices; d++)
        kept->kinds[d] = kind;
    for (int32_t l = 0; l < of->n_link_classes; l++) {
        cleave_link_class *links = &kept->link_classes[kept->n_link_classes];
        if (!keep_links(&of->link_classes[l], number, arena, links))
            return false;
        kept->n_link_classes += links->n_groups > 0;
    }
    return true;
}

/* Devices that nodes are joined by: the same of all nodes, and of the kind; all others leave.
   False: they are not. */
static bool keep_joins(const cleave_node_type *type, const int32_t *number, bool is_first,
                       cleave_network *network) {
    for (int32_t q = 0; q < network->n_joins; q++) {
        cleave_join *join = &network->joins[q];
        if (join->name != NULL)
            continue;
        int32_t device = join->device < type->n_devices ? number[join->device] : -1;
        if (device < 0 || (!is_first && device != join->device))
            return false;
        join->device = device;
    }
    return true;
}

static bool copy_joins(cleave_arena *arena, cleave_network *network) {
    cleave_join *joins = CLEAVE_ARENA_ARRAY(arena, cleave_join, network->n_joins);
    if (joins != NULL && network->n_joins > 0)
        memcpy(joins, network->joins, (size_t)network->n_joins * sizeof *joins);
    network->joins = joins;
    return joins != NULL || network->n_joins == 0;
}

cleave_status cleave_machine_of_kind(const cleave_machine *machine, int32_t kind,
                                     cleave_arena *arena, cleave_machine *of_kind, int32_t *kept,
                                     bool *made, cleave_error *error) {
    cleave_machine some = *machine;
    int32_t n_devices = 0;
    some.arena = arena;
    some.n_node_types = 0;
    some.node_types = CLEAVE_ARENA_ARRAY(arena, cleave_node_type, machine->n_node_types);
    bool ready = some.node_types != NULL && copy_joins(arena, &some.network), fits = true;
    for (int32_t d = 0; d < machine->n_devices; d++)
        if (machine->device_kind[d] == kind) {
            if (kept != NULL)
                kept[n_devices] = d;
            n_devices++;
        }
    for (int32_t t = 0; t < machine->n_node_types && ready && fits; t++) {
        const cleave_node_type *type = &machine->node_types[t];
        int32_t *number = CLEAVE_ARENA_ARRAY(arena, int32_t, type->n_devices + type->n_inner);
        cleave_node_type *node = &some.node_types[some.n_node_types];
        ready = number != NULL && keep_node(type, kind, arena, number, node);
        if (ready && node->n_devices > 0)
            fits = keep_joins(type, number, some.n_node_types++ == 0, &some.network);
    }
    if (!ready)
        return cleave_fail_memory(error, "taking devices of one kind");
    *made = fits && n_devices > 0 && machine->network.shape != CLEAVE_NETWORK_TORUS;
    if (!*made)
        return CLEAVE_OK;
    cleave_error why = {""};
    cleave_status status = cleave_machine_build(&some, n_devices, &why);
    *made = status == CLEAVE_OK;
    if (*made)
        *of_kind = some;
    else if (status != CLEAVE_BAD_INPUT && error != NULL)
        *error = why;
    return status == CLEAVE_BAD_INPUT ? CLEAVE_OK : status;
}

cleave_status cleave_machine_as_kind(const cleave_machine *machine, int32_t kind,
                                     cleave_arena *arena, cleave_machine *as_kind,
                                     cleave_error *error) {
    cleave_machine alike = *machine;
    alike.device_kind = CLEAVE_ARENA_ARRAY(arena, int32_t, machine->n_devices);
    alike.node_types = CLEAVE_ARENA_ARRAY(arena, cleave_node_type, machine->n_node_types);
    bool ready = alike.device_kind != NULL && alike.node_types != NULL;
    for (int32_t t = 0; t < machine->n_node_types && ready; t++) {
        alike.node_types[t] = machine->node_types[t];
        int32_t n = alike.node_types[t].n_devices, *kinds = CLEAVE_ARENA_ARRAY(arena, int32_t, n);
        for (int32_t d = 0; d < n && kinds != NULL; d++)
            kinds[d] = kind;
        alike.node_types[t].kinds = kinds;
        ready = kinds != NULL;
    }
    if (!ready)
        return cleave_fail_memory(error, "taking all devices as one kind");
    for (int32_t d = 0; d < machine->n_devices; d++)
        alike.device_kind[d] = kind;
    *as_kind = alike;
    return CLEAVE_OK;
}
