/* The machine format, version 1.

   {"cleave_machine": 1, "name": NAME, "kinds": {NAME: KIND, ...},
    "node": NODE or "nodes": [NODE, ...], "network": NETWORK (needed from two nodes on),
    "collectives": COLLECTIVES, where a library's were measured}

   KIND      "memory", "flops" (of f32), "memory_bandwidth": quantities ("16 GiB",
             "9.5 TFLOP/s", "732 GB/s"); "rates": {"bf16", "fp16", "fp8": quantity}, of what it
             multiplies; "efficiency": {NAME: SHARE, ...}, shares of the peaks in (0, 1], or tables
             [[SIZE, SHARE], ...] of them, sizes ascending (costmodel/efficiency.h): "product" and
             "bf16 product" by the smallest extent, "attention" and "attention backward" by flops,
             "memory" by bytes; or, of a kind that is described and not measured, "array": {"cores",
             "rows", "columns": of multipliers, "clock": "1.4 GHz", "on_chip": bytes of a core,
             "sustained": SHARE, 1 if left out}, from which the rate of bf16 and the efficiency of
             its products follow (costmodel/array.h); "launch": seconds of every item, 0 if left
             out; "source": where the figures come from.  After calibration also "runtime":
             resident bytes of a rank beside arena and program; "kernel_version": libraries that
             the times are of; "threads": of a device, 1 if left out; "kernels": [{"key", "family",
             "seconds", "spread", "flops", "bytes", "workspace", "alone"}, ...] in seconds and
             bytes, without "seconds" and "spread" where only the workspace is known, and without
             "alone" (seconds while the other devices did nothing) where that was not measured;
             "fits": [{"family", "launch_seconds", "seconds_per_flop", "seconds_per_byte", "spread",
             "workspace", "largest", "alone", "near", "far_seconds_per_byte"}], "alone" a share of
             the seconds; "near", left out where all bytes go alike: those beyond so many take the
             far ones.  Of the family "copy rows" the flops are rows.

   NODE      "count": nodes, 1 if left out; "devices": in each; "kind": NAME, or "kinds": one NAME
             per device; "links": [LINK, ...].  Devices are numbered in the order of the nodes.

   LINK      "join": [[VERTEX, ...], ...]: groups of two or more vertices of the node.  A vertex is
             a device's number, or the name of a switch or card, which exists by being named.
             Without "through" every two members of a group are joined directly; with "through":
             NAME every member is joined with a switch of that name of its own group: NAME where
             there is one group, else "NAME 0" for the first, "NAME 1" for the next.  "bandwidth"
             and "latency" hold for each direction on its own.  A message also costs its two
             devices' processors "overhead" (seconds) each before it goes, and its bytes over
             "copy_bandwidth" while it is on its way; 0 where left out.  Over several links the
             largest of each counts.  "protocol", which calibration adds: {"large_from": bytes
             from which a message sets out "large_latency" later (or, by its bytes, [{"bytes",
             "latency"}, ...] with what is between linear), "first": bytes of a message that go
             at "first_bandwidth", "send_polls" and "receive_polls": {"small",
             "large", "per_byte"}: pieces that an end computes until a message is through}, see
             cleave_protocol; 0 where left out.

   NETWORK   One LEVEL, or a list of them from the nodes up.  The first has "join": VERTEX of every
             node, or [VERTEX, ...], all to one switch, or groups [[VERTEX, ...], ...], each to a
             switch of its own (rails); a node joins those that it has.  With "through": NAME they
             are joined with switches; without it every two nodes directly, or, with "torus": [SIZE,
             ...], neighbours on a grid that closes on itself, nodes in row-major order.  Figures as
             of a LINK.

   LEVEL     "nodes": so many consecutive nodes are under each switch, all if left out.  After the
             first: the switches of the level before are joined with each of "switches" (1 if left
             out) named "through"; "oversubscription": what comes into a switch from below over
             what goes up from it, instead of "bandwidth".

   COLLECTIVES  "within": [{"devices", "bandwidth", "latency", "kind", "collective"}, ...],
             devices of a node, ascending (of a kind and of a collective, where they are said, side
             by side), the bandwidth that of the bus as nccl-tests say it; "between": {"share",
             "latency"} or {"share", "library"}: which share of the links between nodes is reached,
             1 if left out, and what each node after the first adds to the latency, or whose tables
             say it (costmodel/collective_library.h); "source" (costmodel/machine_collectives.h).
             Where a framework was timed, of "latency" and of the bytes' time each processor's own
             share, "overhead" (seconds) and "copy_bandwidth" of "within", 0 where left out;
             "least": devices of a collective, 3 if left out; "together": bytes of gradients that
             one all-reduce sums up. */
#include "costmodel/machine_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NODE_TYPES = 64 };

static const char *const root_keys[] = {"cleave_machine", "name",    "kinds",       "node",
                                        "nodes",          "network", "collectives", NULL};
static const char *const node_keys[] = {"count", "devices", "kind", "kinds", "links", NULL};
static const char *const link_keys[] = {"join",     "through",        "bandwidth", "latency",
                                        "overhead", "copy_bandwidth", "protocol",  NULL};
static const char *const protocol_keys[] = {
    "large_from", "large_latency", "first", "first_bandwidth", "send_polls", "receive_polls", NULL};
static const char *const agreement_keys[] = {"bytes", "latency", NULL};
static const char *const polls_keys[] = {"small", "large", "per_byte", NULL};

cleave_status machine_read_short_of_memory(const machine_reader *r) {
    return cleave_fail_memory(r->error, "reading a machine");
}

cleave_status machine_read_string(const machine_reader *r, const cleave_json_cursor *at,
                                  const char *key, const char **value) {
    const char *text;
    CLEAVE_TRY(cleave_json_get_string(at, key, &text, r->error));
    *value = cleave_arena_string(r->arena, text);
    return *value == NULL ? machine_read_short_of_memory(r) : CLEAVE_OK;
}

cleave_status machine_read_quantity(const machine_reader *r, const cleave_json_cursor *at,
                                    const char *key, cleave_unit unit, bool required,
                                    double *value) {
    cleave_json_cursor member;
    *value = 0;
    if (!required && !cleave_json_find(at, key, &member))
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_json_get(at, key, &member, r->error));
    CLEAVE_TRY(cleave_json_quantity(&member, unit, value, r->error));
    /* No device is as small or slow as that: the unit is a slip, and no step of it would end. */
    if (required && unit != CLEAVE_UNIT_SECONDS && *value < 1)
        return cleave_json_fail(&member, r->error, "%g is less than 1", *value);
    if (unit == CLEAVE_UNIT_SECONDS && *value > 3600)
        return cleave_json_fail(&member, r->error, "%g s are more than an hour", *value);
    return CLEAVE_OK;
}

cleave_status machine_read_kind(const machine_reader *r, const cleave_json_cursor *at,
                                int32_t *kind) {
    const char *name;
    CLEAVE_TRY(cleave_json_string(at, &name, r->error));
    for (*kind = 0; *kind < r->machine->n_kinds; (*kind)++)
        if (strcmp(r->machine->kinds[*kind].name, name) == 0)
            return CLEAVE_OK;
    return cleave_json_fail(at, r->error, "there is no kind \"%s\"", name);
}

static cleave_status read_node_kinds(const machine_reader *r, const cleave_json_cursor *node,
                                     cleave_node_type *type) {
    cleave_json_cursor at;
    type->kinds = CLEAVE_ARENA_ARRAY(r->arena, int32_t, type->n_devices);
    if (type->kinds == NULL)
        return machine_read_short_of_memory(r);
    if (cleave_json_find(node, "kinds", &at)) {
        CLEAVE_TRY(cleave_json_expect_array(&at, r->error));
        if (cleave_json_count(&at) != type->n_devices)
            return cleave_json_fail(&at, r->error, "%d kinds for %d devices",
                                    cleave_json_count(&at), type->n_devices);
        for (int32_t d = 0; d < type->n_devices; d++) {
            cleave_json_cursor element = cleave_json_element(&at, d);
            CLEAVE_TRY(machine_read_kind(r, &element, &type->kinds[d]));
        }
        return CLEAVE_OK;
    }
    int32_t kind;
    CLEAVE_TRY(cleave_json_get(node, "kind", &at, r->error));
    CLEAVE_TRY(machine_read_kind(r, &at, &kind));
    for (int32_t d = 0; d < type->n_devices; d++)
        type->kinds[d] = kind;
    return CLEAVE_OK;
}

static cleave_status name_inner(machine_reader *r, const cleave_json_cursor *at, const char *name) {
    if (r->inner.n >= CLEAVE_MAX_INNER_VERTICES)
        return cleave_json_fail(at, r->error, "more than %d switches and cards in a node",
                                CLEAVE_MAX_INNER_VERTICES);
    char *copy = cleave_arena_string(r->arena, name);
    if (copy == NULL || !CLEAVE_LIST_PUSH(&r->inner, copy))
        return machine_read_short_of_memory(r);
    return CLEAVE_OK;
}

/* A vertex of a node by number or name, which exists by being named. */
static cleave_status read_vertex(machine_reader *r, const cleave_json_cursor *at, int32_t n_devices,
                                 int32_t *vertex) {
    if (cleave_json_type_of(at) == CLEAVE_JSON_INTEGER) {
        int64_t number;
        CLEAVE_TRY(cleave_json_integer(at, 0, n_devices - 1, &number, r->error));
        *vertex = (int32_t)number;
        return CLEAVE_OK;
    }
    const char *name;
    CLEAVE_TRY(cleave_json_string(at, &name, r->error));
    for (int32_t i = 0; i < r->inner.n; i++)
        if (strcmp(r->inner.items[i], name) == 0) {
            *vertex = n_devices + i;
            return CLEAVE_OK;
        }
    *vertex = n_devices + r->inner.n;
    return name_inner(r, at, name);
}

static cleave_status read_group(machine_reader *r, const cleave_json_cursor *at,
                                const cleave_link_class *class, int32_t n_devices,
                                int32_t *members) {
    int32_t n = cleave_json_count(at);
    if (n < (class->through != NULL ? 1 : 2))
        return cleave_json_fail(at, r->error, "a group of %d joins nothing", n);
    for (int32_t i = 0; i < n; i++) {
        cleave_json_cursor element = cleave_json_element(at, i);
        CLEAVE_TRY(read_vertex(r, &element, n_devices, &members[i]));
        for (int32_t j = 0; j < i; j++)
            if (members[j] == members[i])
                return cleave_json_fail(&element, r->error, "a group names a vertex twice");
    }
    return CLEAVE_OK;
}

static cleave_status create_switches(machine_reader *r, const cleave_json_cursor *at,
                                     const cleave_link_class *class) {
    for (int32_t g = 0; g < class->n_groups; g++) {
        char name[160];
        if (class->n_groups == 1)
            snprintf(name, sizeof name, "%s", class->through);
        else
            snprintf(name, sizeof name, "%s %d", class->through, g);
        for (int32_t i = 0; i < r->inner.n; i++)
            if (strcmp(r->inner.items[i], name) == 0)
                return cleave_json_fail(at, r->error, "there is a \"%s\" already", name);
        CLEAVE_TRY(name_inner(r, at, name));
    }
    return CLEAVE_OK;
}

static cleave_status read_join(machine_reader *r, const cleave_json_cursor *at, int32_t n_devices,
                               cleave_link_class *class) {
    CLEAVE_TRY(cleave_json_expect_array(at, r->error));
    class->n_groups = cleave_json_count(at);
    if (class->n_groups < 1)
        return cleave_json_fail(at, r->error, "there is no group to join");
    int32_t *start = CLEAVE_ARENA_ARRAY(r->arena, int32_t, (size_t) class->n_groups + 1);
    if (start == NULL)
        return machine_read_short_of_memory(r);
    for (int32_t g = 0; g < class->n_groups; g++) {
        cleave_json_cursor group = cleave_json_element(at, g);
        CLEAVE_TRY(cleave_json_expect_array(&group, r->error));
        int32_t n = cleave_json_count(&group);
        if (n > CLEAVE_MAX_NODE_DEVICES + CLEAVE_MAX_INNER_VERTICES)
            return cleave_json_fail(&group, r->error, "a group of %d vertices is too large", n);
        if (start[g] > INT32_MAX - n)
            return cleave_json_fail(at, r->error, "there are too many groups");
        start[g + 1] = start[g] + n;
    }
    if (class->through != NULL)
        CLEAVE_TRY(create_switches(r, at, class));
    int32_t *members = CLEAVE_ARENA_ARRAY(r->arena, int32_t, start[class->n_groups]);
    if (members == NULL)
        return machine_read_short_of_memory(r);
    for (int32_t g = 0; g < class->n_groups; g++) {
        cleave_json_cursor group = cleave_json_element(at, g);
        CLEAVE_TRY(read_group(r, &group, class, n_devices, members + start[g]));
    }
    class->group_start = start;
    class->members = members;
    return CLEAVE_OK;
}

static cleave_status read_count(const machine_reader *r, const cleave_json_cursor *at,
                                const char *key, double *value) {
    cleave_json_cursor member;
    if (!cleave_json_find(at, key, &member))
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_json_number(&member, value, r->error));
    return *value >= 0 && *value <= 1e6
               ? CLEAVE_OK
               : cleave_json_fail(&member, r->error, "%g is not in the range 0 to 1000000", *value);
}

static cleave_status read_polls(const machine_reader *r, const cleave_json_cursor *at,
                                const char *key, cleave_polls *polls) {
    cleave_json_cursor member;
    if (!cleave_json_find(at, key, &member))
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_json_expect_object(&member, r->error));
    CLEAVE_TRY(cleave_json_expect_keys(&member, polls_keys, r->error));
    CLEAVE_TRY(read_count(r, &member, "small", &polls->small));
    CLEAVE_TRY(read_count(r, &member, "large", &polls->large));
    return read_count(r, &member, "per_byte", &polls->per_byte);
}

static cleave_status read_agreement(const machine_reader *r, const cleave_json_cursor *at,
                                    cleave_protocol *protocol) {
    cleave_agreement *made = &protocol->agreements[protocol->n_agreements++];
    CLEAVE_TRY(cleave_json_expect_object(at, r->error));
    CLEAVE_TRY(cleave_json_expect_keys(at, agreement_keys, r->error));
    CLEAVE_TRY(machine_read_quantity(r, at, "bytes", CLEAVE_UNIT_BYTES, true, &made->bytes));
    CLEAVE_TRY(machine_read_quantity(r, at, "latency", CLEAVE_UNIT_SECONDS, false, &made->seconds));
    return protocol->n_agreements < 2 || made[-1].bytes < made->bytes
               ? CLEAVE_OK
               : cleave_json_fail(at, r->error, "sizes of messages must ascend");
}

/* One for all large messages, or some by their bytes. */
static cleave_status read_agreements(const machine_reader *r, const cleave_json_cursor *at,
                                     cleave_protocol *protocol) {
    cleave_json_cursor member;
    if (!cleave_json_find(at, "large_latency", &member))
        return CLEAVE_OK;
    if (cleave_json_type_of(&member) != CLEAVE_JSON_ARRAY) {
        protocol->n_agreements = 1;
        protocol->agreements[0].bytes = protocol->large_from_bytes;
        return cleave_json_quantity(&member, CLEAVE_UNIT_SECONDS, &protocol->agreements[0].seconds,
                                    r->error);
    }
    int32_t n = cleave_json_count(&member);
    if (n < 1 || n > CLEAVE_MAX_AGREEMENTS)
        return cleave_json_fail(&member, r->error, "there must be 1 to %d sizes",
                                CLEAVE_MAX_AGREEMENTS);
    for (int32_t i = 0; i < n; i++) {
        cleave_json_cursor element = cleave_json_element(&member, i);
        CLEAVE_TRY(read_agreement(r, &element, protocol));
    }
    return CLEAVE_OK;
}

static cleave_status read_protocol(const machine_reader *r, const cleave_json_cursor *at,
                                   cleave_protocol *protocol) {
    CLEAVE_TRY(cleave_json_expect_object(at, r->error));
    CLEAVE_TRY(cleave_json_expect_keys(at, protocol_keys, r->error));
    CLEAVE_TRY(machine_read_quantity(r, at, "large_from", CLEAVE_UNIT_BYTES, false,
                                     &protocol->large_from_bytes));
    CLEAVE_TRY(read_agreements(r, at, protocol));
    CLEAVE_TRY(
        machine_read_quantity(r, at, "first", CLEAVE_UNIT_BYTES, false, &protocol->first_bytes));
    CLEAVE_TRY(machine_read_quantity(r, at, "first_bandwidth", CLEAVE_UNIT_BYTES_PER_SECOND,
                                     protocol->first_bytes > 0, &protocol->first_bytes_per_second));
    CLEAVE_TRY(read_polls(r, at, "send_polls", &protocol->sending));
    return read_polls(r, at, "receive_polls", &protocol->receiving);
}

cleave_status machine_read_figures(const machine_reader *r, const cleave_json_cursor *at,
                                   bool derived, cleave_link_class *links) {
    cleave_json_cursor member;
    if (cleave_json_find(at, "through", &member)) {
        CLEAVE_TRY(machine_read_string(r, at, "through", &links->through));
        if (strlen(links->through) > 128)
            return cleave_json_fail(&member, r->error, "the name is longer than 128 bytes");
    }
    if (!derived)
        CLEAVE_TRY(machine_read_quantity(r, at, "bandwidth", CLEAVE_UNIT_BYTES_PER_SECOND, true,
                                         &links->bytes_per_second));
    CLEAVE_TRY(machine_read_quantity(r, at, "latency", CLEAVE_UNIT_SECONDS, true,
                                     &links->latency_seconds));
    CLEAVE_TRY(machine_read_quantity(r, at, "overhead", CLEAVE_UNIT_SECONDS, false,
                                     &links->overhead_seconds));
    if (cleave_json_find(at, "protocol", &member))
        CLEAVE_TRY(read_protocol(r, &member, &links->protocol));
    bool has_copy = cleave_json_find(at, "copy_bandwidth", &member);
    return machine_read_quantity(r, at, "copy_bandwidth", CLEAVE_UNIT_BYTES_PER_SECOND, has_copy,
                                 &links->copy_bytes_per_second);
}

static cleave_status read_links(machine_reader *r, const cleave_json_cursor *node,
                                cleave_node_type *type) {
    cleave_json_cursor at;
    if (!cleave_json_find(node, "links", &at))
        return CLEAVE_OK; /* a node of one device needs none */
    CLEAVE_TRY(cleave_json_expect_array(&at, r->error));
    type->n_link_classes = cleave_json_count(&at);
    type->link_classes = CLEAVE_ARENA_ARRAY(r->arena, cleave_link_class, type->n_link_classes);
    if (type->link_classes == NULL)
        return machine_read_short_of_memory(r);
    for (int32_t c = 0; c < type->n_link_classes; c++) {
        cleave_json_cursor element = cleave_json_element(&at, c), join;
        CLEAVE_TRY(cleave_json_expect_object(&element, r->error));
        CLEAVE_TRY(cleave_json_expect_keys(&element, link_keys, r->error));
        CLEAVE_TRY(machine_read_figures(r, &element, false, &type->link_classes[c]));
        CLEAVE_TRY(cleave_json_get(&element, "join", &join, r->error));
        CLEAVE_TRY(read_join(r, &join, type->n_devices, &type->link_classes[c]));
    }
    return CLEAVE_OK;
}

static cleave_status read_node(machine_reader *r, const cleave_json_cursor *node,
                               cleave_node_type *type) {
    cleave_json_cursor at;
    int64_t number = 1;
    CLEAVE_TRY(cleave_json_expect_object(node, r->error));
    CLEAVE_TRY(cleave_json_expect_keys(node, node_keys, r->error));
    if (cleave_json_find(node, "count", &at))
        CLEAVE_TRY(cleave_json_integer(&at, 1, CLEAVE_MAX_DEVICES, &number, r->error));
    type->count = (int32_t)number;
    CLEAVE_TRY(
        cleave_json_get_integer(node, "devices", 1, CLEAVE_MAX_NODE_DEVICES, &number, r->error));
    type->n_devices = (int32_t)number;
    if (number * type->count > CLEAVE_MAX_DEVICES)
        return cleave_json_fail(node, r->error, "%d nodes of %lld devices are more than %d",
                                type->count, (long long)number, CLEAVE_MAX_DEVICES);
    CLEAVE_TRY(read_node_kinds(r, node, type));
    CLEAVE_LIST_FREE(&r->inner);
    CLEAVE_TRY(read_links(r, node, type));
    type->n_inner = r->inner.n;
    type->inner_names = CLEAVE_ARENA_ARRAY(r->arena, const char *, r->inner.n);
    if (type->inner_names == NULL)
        return machine_read_short_of_memory(r);
    for (int32_t i = 0; i < r->inner.n; i++)
        type->inner_names[i] = r->inner.items[i];
    return CLEAVE_OK;
}

/* "node", or a list of them, "nodes"; `at` gets which. */
static cleave_status read_nodes(machine_reader *r, const cleave_json_cursor *root,
                                cleave_json_cursor *at) {
    cleave_machine *machine = r->machine;
    bool several = cleave_json_find(root, "nodes", at);
    cleave_json_cursor node;
    if (several && cleave_json_find(root, "node", &node))
        return cleave_json_fail(&node, r->error, "there are \"nodes\" already");
    if (several)
        CLEAVE_TRY(cleave_json_expect_array(at, r->error));
    else
        CLEAVE_TRY(cleave_json_get(root, "node", at, r->error));
    machine->n_node_types = several ? cleave_json_count(at) : 1;
    if (machine->n_node_types < 1 || machine->n_node_types > MAX_NODE_TYPES)
        return cleave_json_fail(at, r->error, "%d sorts of nodes are not in the range 1 to %d",
                                machine->n_node_types, MAX_NODE_TYPES);
    machine->node_types = CLEAVE_ARENA_ARRAY(r->arena, cleave_node_type, machine->n_node_types);
    if (machine->node_types == NULL)
        return machine_read_short_of_memory(r);
    for (int32_t t = 0; t < machine->n_node_types; t++) {
        node = several ? cleave_json_element(at, t) : *at;
        CLEAVE_TRY(read_node(r, &node, &machine->node_types[t]));
    }
    return CLEAVE_OK;
}

static cleave_status read_root(machine_reader *r, const cleave_json_cursor *root,
                               int32_t n_devices) {
    cleave_machine *machine = r->machine;
    cleave_json_cursor at;
    int64_t version;
    CLEAVE_TRY(cleave_json_expect_object(root, r->error));
    CLEAVE_TRY(cleave_json_get(root, "cleave_machine", &at, r->error));
    CLEAVE_TRY(cleave_json_integer(&at, 1, 1, &version, r->error));
    CLEAVE_TRY(cleave_json_expect_keys(root, root_keys, r->error));
    CLEAVE_TRY(machine_read_string(r, root, "name", &machine->name));
    CLEAVE_TRY(machine_read_kinds(r, root));
    CLEAVE_TRY(read_nodes(r, root, &at));
    CLEAVE_TRY(machine_read_network(r, root));
    CLEAVE_TRY(machine_read_collectives(r, root));
    cleave_error reason = {""};
    cleave_status status = cleave_machine_build(machine, n_devices, &reason);
    if (status == CLEAVE_BAD_INPUT)
        return cleave_json_fail(&at, r->error, "%s", reason.message);
    return status == CLEAVE_OK ? status : cleave_fail(r->error, status, "%s", reason.message);
}

cleave_status cleave_machine_take(const cleave_json *document, int32_t n_devices,
                                  cleave_arena *arena, cleave_machine *machine,
                                  cleave_error *error) {
    cleave_machine made = {.arena = arena};
    machine_reader r = {.machine = &made, .arena = arena, .error = error};
    cleave_json_cursor root = cleave_json_root(document);
    cleave_status status = read_root(&r, &root, n_devices);
    CLEAVE_LIST_FREE(&r.inner);
    if (status == CLEAVE_OK)
        *machine = made;
    return status;
}

static cleave_status take_and_free(cleave_json *document, int32_t n_devices, cleave_arena *arena,
                                   cleave_machine *machine, cleave_error *error) {
    cleave_status status = cleave_machine_take(document, n_devices, arena, machine, error);
    cleave_json_free(document);
    return status;
}

cleave_status cleave_machine_read(const char *path, int32_t n_devices, cleave_arena *arena,
                                  cleave_machine *machine, cleave_error *error) {
    cleave_json *document;
    CLEAVE_TRY(cleave_json_read(path, &document, error));
    return take_and_free(document, n_devices, arena, machine, error);
}

cleave_status cleave_machine_parse(const char *text, size_t bytes, const char *name,
                                   int32_t n_devices, cleave_arena *arena, cleave_machine *machine,
                                   cleave_error *error) {
    cleave_json *document;
    CLEAVE_TRY(cleave_json_parse(text, bytes, name, &document, error));
    return take_and_free(document, n_devices, arena, machine, error);
}
