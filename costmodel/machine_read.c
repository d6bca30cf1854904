/* The machine format, version 1.

   {"cleave_machine": 1, "name": NAME,
    "kinds": {NAME: KIND, ...}, "node": NODE, "network": NETWORK (needed from two nodes on)}

   KIND      "memory", "flops", "memory_bandwidth": quantities ("16 GiB", "9.5 TFLOP/s", "732
   GB/s"); "efficiency": {"product": F, "memory": F}, shares of the peaks in (0, 1], 1 if left out;
             "launch": seconds of every item, 0 if left out; "source": where the figures come from.
             After calibration also "runtime": resident bytes of a rank beside arena and program;
             "kernel_version": libraries that the times are of; "kernels": [{"key", "family",
             "seconds", "spread", "flops", "bytes", "workspace"}, ...] in seconds and bytes, without
             "seconds" and "spread" where only the workspace is known;
             "fits": [{"family", "launch_seconds", "seconds_per_flop", "seconds_per_byte",
   "spread", "workspace", "largest"}]. NODE      "count": nodes, 1 if left out;
   "devices": in each; "kind": NAME, or "kinds": one NAME per device; "links": [LINK, ...]. LINK
   "join": [[VERTEX, ...], ...]: groups of two or more vertices of the node.  A vertex is a device's
   number, or the name of a switch or card, which exists by being named. Without "through" every two
   members of a group are joined directly; with "through": NAME every member is joined with a switch
   of that name of its own group: NAME where there is one group, else "NAME 0" for the first, "NAME
   1" for the next. "bandwidth" and "latency" hold for each direction on its own.  A message also
   costs its two devices' processors "overhead" (seconds) plus its bytes over "copy_bandwidth" each;
   0 where left out.  Over several links the largest of each counts. NETWORK   "join": VERTEX of
   every node; "through": NAME of one switch for all, else every two nodes are joined directly; the
   rest as of a LINK. */
#include "costmodel/machine.h"

#include "base/json.h"
#include "base/list.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const root_keys[] = {"cleave_machine", "name", "kinds", "node", "network", NULL};
static const char *const kind_keys[] = {
    "memory",  "flops",          "memory_bandwidth", "efficiency", "launch", "source",
    "runtime", "kernel_version", "kernels",          "fits",       NULL};
static const char *const efficiency_keys[] = {"product", "memory", NULL};
static const char *const kernel_keys[] = {"key",   "family", "seconds",   "spread",
                                          "flops", "bytes",  "workspace", NULL};
static const char *const fit_keys[] = {
    "family", "launch_seconds", "seconds_per_flop", "seconds_per_byte",
    "spread", "workspace",      "largest",          NULL};
static const char *const node_keys[] = {"count", "devices", "kind", "kinds", "links", NULL};
static const char *const link_keys[] = {"join",     "through",        "bandwidth", "latency",
                                        "overhead", "copy_bandwidth", NULL};

typedef struct reader {
    cleave_machine *machine;
    cleave_arena *arena;
    cleave_error *error;
    CLEAVE_LIST(const char *) inner;
} reader;

static cleave_status short_of_memory(const reader *r) {
    return cleave_fail_memory(r->error, "reading a machine");
}

static cleave_status get_string(const reader *r, const cleave_json_cursor *at, const char *key,
                                const char **value) {
    cleave_json_cursor member;
    const char *text;
    CLEAVE_TRY(cleave_json_get(at, key, &member, r->error));
    CLEAVE_TRY(cleave_json_string(&member, &text, r->error));
    *value = cleave_arena_string(r->arena, text);
    return *value == NULL ? short_of_memory(r) : CLEAVE_OK;
}

/* A quantity above 0, or, if it may be left out, 0 or more. */
static cleave_status get_quantity(const reader *r, const cleave_json_cursor *at, const char *key,
                                  cleave_unit unit, bool required, double *value) {
    cleave_json_cursor member;
    *value = 0;
    if (!required && !cleave_json_find(at, key, &member))
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_json_get(at, key, &member, r->error));
    CLEAVE_TRY(cleave_json_quantity(&member, unit, value, r->error));
    if (required && *value <= 0)
        return cleave_json_fail(&member, r->error, "%g is not more than 0", *value);
    return CLEAVE_OK;
}

static cleave_status get_number(const reader *r, const cleave_json_cursor *at, const char *key,
                                bool positive, double *value) {
    cleave_json_cursor member;
    CLEAVE_TRY(cleave_json_get(at, key, &member, r->error));
    CLEAVE_TRY(cleave_json_number(&member, value, r->error));
    if (!(*value >= 0) || (positive && *value <= 0) || !isfinite(*value))
        return cleave_json_fail(&member, r->error, "%g is not %s", *value,
                                positive ? "more than 0" : "0 or more");
    return CLEAVE_OK;
}

static cleave_status get_bytes(const reader *r, const cleave_json_cursor *at, const char *key,
                               bool required, int64_t *value) {
    double bytes;
    CLEAVE_TRY(get_quantity(r, at, key, CLEAVE_UNIT_BYTES, required, &bytes));
    if (bytes > 0x1p62)
        return cleave_json_fail(at, r->error, "\"%s\" is %g bytes: too many", key, bytes);
    *value = (int64_t)bytes;
    return CLEAVE_OK;
}

static int compare_kernels(const void *a, const void *b) {
    return strcmp(((const cleave_kernel_time *)a)->key, ((const cleave_kernel_time *)b)->key);
}

static int compare_fits(const void *a, const void *b) {
    return strcmp(((const cleave_family_fit *)a)->family, ((const cleave_family_fit *)b)->family);
}

static cleave_status read_kernel(const reader *r, const cleave_json_cursor *at,
                                 cleave_kernel_time *kernel) {
    cleave_json_cursor member;
    CLEAVE_TRY(cleave_json_expect_object(at, r->error));
    CLEAVE_TRY(cleave_json_expect_keys(at, kernel_keys, r->error));
    CLEAVE_TRY(get_string(r, at, "key", &kernel->key));
    CLEAVE_TRY(get_string(r, at, "family", &kernel->family));
    if (cleave_json_find(at, "seconds", &member)) {
        CLEAVE_TRY(get_number(r, at, "seconds", true, &kernel->seconds));
        CLEAVE_TRY(get_number(r, at, "spread", false, &kernel->spread));
    }
    CLEAVE_TRY(get_number(r, at, "flops", false, &kernel->flops));
    CLEAVE_TRY(get_number(r, at, "bytes", false, &kernel->bytes));
    CLEAVE_TRY(cleave_json_get(at, "workspace", &member, r->error));
    return cleave_json_integer(&member, 0, INT64_MAX, &kernel->workspace_bytes, r->error);
}

static cleave_status read_kernels(const reader *r, const cleave_json_cursor *at,
                                  cleave_device_kind *kind) {
    CLEAVE_TRY(cleave_json_expect_array(at, r->error));
    kind->n_kernels = cleave_json_count(at);
    kind->kernels = CLEAVE_ARENA_ARRAY(r->arena, cleave_kernel_time, kind->n_kernels);
    if (kind->kernels == NULL)
        return short_of_memory(r);
    for (int32_t i = 0; i < kind->n_kernels; i++) {
        cleave_json_cursor element = cleave_json_element(at, i);
        CLEAVE_TRY(read_kernel(r, &element, &kind->kernels[i]));
    }
    qsort(kind->kernels, (size_t)kind->n_kernels, sizeof *kind->kernels, compare_kernels);
    for (int32_t i = 1; i < kind->n_kernels; i++)
        if (strcmp(kind->kernels[i - 1].key, kind->kernels[i].key) == 0)
            return cleave_json_fail(at, r->error, "the kernel \"%s\" is there twice",
                                    kind->kernels[i].key);
    return CLEAVE_OK;
}

static cleave_status read_fits(const reader *r, const cleave_json_cursor *at,
                               cleave_device_kind *kind) {
    CLEAVE_TRY(cleave_json_expect_array(at, r->error));
    kind->n_fits = cleave_json_count(at);
    kind->fits = CLEAVE_ARENA_ARRAY(r->arena, cleave_family_fit, kind->n_fits);
    if (kind->fits == NULL)
        return short_of_memory(r);
    for (int32_t i = 0; i < kind->n_fits; i++) {
        cleave_json_cursor element = cleave_json_element(at, i), member;
        cleave_family_fit *fit = &kind->fits[i];
        CLEAVE_TRY(cleave_json_expect_object(&element, r->error));
        CLEAVE_TRY(cleave_json_expect_keys(&element, fit_keys, r->error));
        CLEAVE_TRY(get_string(r, &element, "family", &fit->family));
        CLEAVE_TRY(get_number(r, &element, "launch_seconds", false, &fit->launch_seconds));
        CLEAVE_TRY(get_number(r, &element, "seconds_per_flop", false, &fit->seconds_per_flop));
        CLEAVE_TRY(get_number(r, &element, "seconds_per_byte", false, &fit->seconds_per_byte));
        CLEAVE_TRY(get_number(r, &element, "spread", false, &fit->spread));
        if (cleave_json_find(&element, "workspace", &member))
            CLEAVE_TRY(cleave_json_integer(&member, 0, INT64_MAX, &fit->workspace_bytes, r->error));
        if (cleave_json_find(&element, "largest", &member))
            CLEAVE_TRY(get_number(r, &element, "largest", false, &fit->largest_bytes));
    }
    qsort(kind->fits, (size_t)kind->n_fits, sizeof *kind->fits, compare_fits);
    for (int32_t i = 1; i < kind->n_fits; i++)
        if (strcmp(kind->fits[i - 1].family, kind->fits[i].family) == 0)
            return cleave_json_fail(at, r->error, "the family \"%s\" is there twice",
                                    kind->fits[i].family);
    return CLEAVE_OK;
}

static cleave_status read_efficiency(const reader *r, const cleave_json_cursor *at,
                                     cleave_device_kind *kind) {
    CLEAVE_TRY(cleave_json_expect_object(at, r->error));
    CLEAVE_TRY(cleave_json_expect_keys(at, efficiency_keys, r->error));
    double *const values[] = {&kind->product_efficiency, &kind->memory_efficiency};
    for (int i = 0; efficiency_keys[i] != NULL; i++) {
        cleave_json_cursor member;
        if (!cleave_json_find(at, efficiency_keys[i], &member))
            continue;
        CLEAVE_TRY(cleave_json_number(&member, values[i], r->error));
        if (!(*values[i] > 0 && *values[i] <= 1))
            return cleave_json_fail(&member, r->error, "%g is not above 0 and at most 1",
                                    *values[i]);
    }
    return CLEAVE_OK;
}

static cleave_status read_kind(const reader *r, const cleave_json_cursor *at,
                               cleave_device_kind *kind) {
    cleave_json_cursor member;
    kind->product_efficiency = kind->memory_efficiency = 1;
    kind->source = "";
    CLEAVE_TRY(cleave_json_expect_object(at, r->error));
    CLEAVE_TRY(cleave_json_expect_keys(at, kind_keys, r->error));
    CLEAVE_TRY(get_bytes(r, at, "memory", true, &kind->memory_bytes));
    CLEAVE_TRY(get_quantity(r, at, "flops", CLEAVE_UNIT_FLOPS, true, &kind->flops_per_second));
    CLEAVE_TRY(get_quantity(r, at, "memory_bandwidth", CLEAVE_UNIT_BYTES_PER_SECOND, true,
                            &kind->bytes_per_second));
    CLEAVE_TRY(get_quantity(r, at, "launch", CLEAVE_UNIT_SECONDS, false, &kind->launch_seconds));
    CLEAVE_TRY(get_bytes(r, at, "runtime", false, &kind->runtime_bytes));
    if (cleave_json_find(at, "efficiency", &member))
        CLEAVE_TRY(read_efficiency(r, &member, kind));
    if (cleave_json_find(at, "source", &member))
        CLEAVE_TRY(get_string(r, at, "source", &kind->source));
    if (cleave_json_find(at, "kernel_version", &member))
        CLEAVE_TRY(get_string(r, at, "kernel_version", &kind->kernel_version));
    if (cleave_json_find(at, "kernels", &member))
        CLEAVE_TRY(read_kernels(r, &member, kind));
    if (cleave_json_find(at, "fits", &member))
        CLEAVE_TRY(read_fits(r, &member, kind));
    return CLEAVE_OK;
}

static cleave_status read_kinds(const reader *r, const cleave_json_cursor *root) {
    cleave_machine *machine = r->machine;
    cleave_json_cursor at;
    CLEAVE_TRY(cleave_json_get(root, "kinds", &at, r->error));
    CLEAVE_TRY(cleave_json_expect_object(&at, r->error));
    machine->n_kinds = cleave_json_count(&at);
    machine->kinds = CLEAVE_ARENA_ARRAY(r->arena, cleave_device_kind, machine->n_kinds);
    if (machine->kinds == NULL)
        return short_of_memory(r);
    for (int32_t k = 0; k < machine->n_kinds; k++) {
        const char *key;
        cleave_json_cursor member = cleave_json_member(&at, k, &key);
        machine->kinds[k].name = cleave_arena_string(r->arena, key);
        if (machine->kinds[k].name == NULL)
            return short_of_memory(r);
        CLEAVE_TRY(read_kind(r, &member, &machine->kinds[k]));
    }
    return CLEAVE_OK;
}

static cleave_status find_kind(const reader *r, const cleave_json_cursor *at, int32_t *kind) {
    const char *name;
    CLEAVE_TRY(cleave_json_string(at, &name, r->error));
    for (*kind = 0; *kind < r->machine->n_kinds; (*kind)++)
        if (strcmp(r->machine->kinds[*kind].name, name) == 0)
            return CLEAVE_OK;
    return cleave_json_fail(at, r->error, "there is no kind \"%s\"", name);
}

static cleave_status read_node_kinds(const reader *r, const cleave_json_cursor *node) {
    cleave_machine *machine = r->machine;
    cleave_json_cursor at;
    machine->node_kinds = CLEAVE_ARENA_ARRAY(r->arena, int32_t, machine->devices_per_node);
    if (machine->node_kinds == NULL)
        return short_of_memory(r);
    if (cleave_json_find(node, "kinds", &at)) {
        CLEAVE_TRY(cleave_json_expect_array(&at, r->error));
        if (cleave_json_count(&at) != machine->devices_per_node)
            return cleave_json_fail(&at, r->error, "%d kinds for %d devices",
                                    cleave_json_count(&at), machine->devices_per_node);
        for (int32_t d = 0; d < machine->devices_per_node; d++) {
            cleave_json_cursor element = cleave_json_element(&at, d);
            CLEAVE_TRY(find_kind(r, &element, &machine->node_kinds[d]));
        }
        return CLEAVE_OK;
    }
    int32_t kind;
    CLEAVE_TRY(cleave_json_get(node, "kind", &at, r->error));
    CLEAVE_TRY(find_kind(r, &at, &kind));
    for (int32_t d = 0; d < machine->devices_per_node; d++)
        machine->node_kinds[d] = kind;
    return CLEAVE_OK;
}

static cleave_status name_inner(reader *r, const cleave_json_cursor *at, const char *name) {
    if (r->inner.n >= CLEAVE_MAX_INNER_VERTICES)
        return cleave_json_fail(at, r->error, "more than %d switches and cards in a node",
                                CLEAVE_MAX_INNER_VERTICES);
    char *copy = cleave_arena_string(r->arena, name);
    if (copy == NULL || !CLEAVE_LIST_PUSH(&r->inner, copy))
        return short_of_memory(r);
    return CLEAVE_OK;
}

/* A vertex of a node by number or name; a new name makes a new vertex where `may_create`. */
static cleave_status read_vertex(reader *r, const cleave_json_cursor *at, bool may_create,
                                 int32_t *vertex) {
    int32_t devices = r->machine->devices_per_node;
    if (cleave_json_type_of(at) == CLEAVE_JSON_INTEGER) {
        int64_t number;
        CLEAVE_TRY(cleave_json_integer(at, 0, devices - 1, &number, r->error));
        *vertex = (int32_t)number;
        return CLEAVE_OK;
    }
    const char *name;
    CLEAVE_TRY(cleave_json_string(at, &name, r->error));
    for (int32_t i = 0; i < r->inner.n; i++)
        if (strcmp(r->inner.items[i], name) == 0) {
            *vertex = devices + i;
            return CLEAVE_OK;
        }
    if (!may_create)
        return cleave_json_fail(at, r->error, "a node has no \"%s\"", name);
    *vertex = devices + r->inner.n;
    return name_inner(r, at, name);
}

static cleave_status read_group(reader *r, const cleave_json_cursor *at,
                                const cleave_link_class *class, int32_t *members) {
    int32_t n = cleave_json_count(at);
    if (n < (class->through != NULL ? 1 : 2))
        return cleave_json_fail(at, r->error, "a group of %d joins nothing", n);
    for (int32_t i = 0; i < n; i++) {
        cleave_json_cursor element = cleave_json_element(at, i);
        CLEAVE_TRY(read_vertex(r, &element, true, &members[i]));
        for (int32_t j = 0; j < i; j++)
            if (members[j] == members[i])
                return cleave_json_fail(&element, r->error, "a group names a vertex twice");
    }
    return CLEAVE_OK;
}

static cleave_status create_switches(reader *r, const cleave_json_cursor *at,
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

static cleave_status read_join(reader *r, const cleave_json_cursor *at, cleave_link_class *class) {
    CLEAVE_TRY(cleave_json_expect_array(at, r->error));
    class->n_groups = cleave_json_count(at);
    if (class->n_groups < 1)
        return cleave_json_fail(at, r->error, "there is no group to join");
    int32_t *start = CLEAVE_ARENA_ARRAY(r->arena, int32_t, (size_t) class->n_groups + 1);
    if (start == NULL)
        return short_of_memory(r);
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
        return short_of_memory(r);
    for (int32_t g = 0; g < class->n_groups; g++) {
        cleave_json_cursor group = cleave_json_element(at, g);
        CLEAVE_TRY(read_group(r, &group, class, members + start[g]));
    }
    class->group_start = start;
    class->members = members;
    return CLEAVE_OK;
}

/* All of a link or network but what it joins. */
static cleave_status read_link_figures(const reader *r, const cleave_json_cursor *at,
                                       cleave_link_class *class) {
    cleave_json_cursor member;
    CLEAVE_TRY(cleave_json_expect_object(at, r->error));
    CLEAVE_TRY(cleave_json_expect_keys(at, link_keys, r->error));
    if (cleave_json_find(at, "through", &member)) {
        CLEAVE_TRY(get_string(r, at, "through", &class->through));
        if (strlen(class->through) > 128)
            return cleave_json_fail(&member, r->error, "the name is longer than 128 bytes");
    }
    CLEAVE_TRY(get_quantity(r, at, "bandwidth", CLEAVE_UNIT_BYTES_PER_SECOND, true,
                            &class->bytes_per_second));
    CLEAVE_TRY(cleave_json_get(at, "latency", &member, r->error));
    CLEAVE_TRY(
        cleave_json_quantity(&member, CLEAVE_UNIT_SECONDS, &class->latency_seconds, r->error));
    CLEAVE_TRY(
        get_quantity(r, at, "overhead", CLEAVE_UNIT_SECONDS, false, &class->overhead_seconds));
    bool has_copy = cleave_json_find(at, "copy_bandwidth", &member);
    return get_quantity(r, at, "copy_bandwidth", CLEAVE_UNIT_BYTES_PER_SECOND, has_copy,
                        &class->copy_bytes_per_second);
}

static cleave_status read_links(reader *r, const cleave_json_cursor *node) {
    cleave_machine *machine = r->machine;
    cleave_json_cursor at;
    if (!cleave_json_find(node, "links", &at))
        return CLEAVE_OK; /* a node of one device needs none */
    CLEAVE_TRY(cleave_json_expect_array(&at, r->error));
    machine->n_link_classes = cleave_json_count(&at);
    machine->link_classes =
        CLEAVE_ARENA_ARRAY(r->arena, cleave_link_class, machine->n_link_classes);
    if (machine->link_classes == NULL)
        return short_of_memory(r);
    for (int32_t c = 0; c < machine->n_link_classes; c++) {
        cleave_json_cursor element = cleave_json_element(&at, c), join;
        CLEAVE_TRY(read_link_figures(r, &element, &machine->link_classes[c]));
        CLEAVE_TRY(cleave_json_get(&element, "join", &join, r->error));
        CLEAVE_TRY(read_join(r, &join, &machine->link_classes[c]));
    }
    return CLEAVE_OK;
}

static cleave_status read_node(reader *r, const cleave_json_cursor *root) {
    cleave_machine *machine = r->machine;
    cleave_json_cursor node, at;
    int64_t number = 1;
    CLEAVE_TRY(cleave_json_get(root, "node", &node, r->error));
    CLEAVE_TRY(cleave_json_expect_object(&node, r->error));
    CLEAVE_TRY(cleave_json_expect_keys(&node, node_keys, r->error));
    if (cleave_json_find(&node, "count", &at))
        CLEAVE_TRY(cleave_json_integer(&at, 1, CLEAVE_MAX_DEVICES, &number, r->error));
    machine->n_nodes = (int32_t)number;
    CLEAVE_TRY(cleave_json_get(&node, "devices", &at, r->error));
    CLEAVE_TRY(cleave_json_integer(&at, 1, CLEAVE_MAX_NODE_DEVICES, &number, r->error));
    machine->devices_per_node = (int32_t)number;
    if (number * machine->n_nodes > CLEAVE_MAX_DEVICES)
        return cleave_json_fail(&node, r->error, "%d nodes of %lld devices are more than %d",
                                machine->n_nodes, (long long)number, CLEAVE_MAX_DEVICES);
    CLEAVE_TRY(read_node_kinds(r, &node));
    return read_links(r, &node);
}

static cleave_status read_network(reader *r, const cleave_json_cursor *root) {
    cleave_json_cursor at, join;
    if (!cleave_json_find(root, "network", &at))
        return CLEAVE_OK;
    CLEAVE_TRY(read_link_figures(r, &at, &r->machine->network));
    CLEAVE_TRY(cleave_json_get(&at, "join", &join, r->error));
    CLEAVE_TRY(read_vertex(r, &join, false, &r->machine->network_join));
    r->machine->has_network = true;
    return CLEAVE_OK;
}

static cleave_status read_root(reader *r, const cleave_json_cursor *root, int32_t n_devices) {
    cleave_machine *machine = r->machine;
    cleave_json_cursor at;
    int64_t version;
    CLEAVE_TRY(cleave_json_expect_object(root, r->error));
    CLEAVE_TRY(cleave_json_get(root, "cleave_machine", &at, r->error));
    CLEAVE_TRY(cleave_json_integer(&at, 1, 1, &version, r->error));
    CLEAVE_TRY(cleave_json_expect_keys(root, root_keys, r->error));
    CLEAVE_TRY(get_string(r, root, "name", &machine->name));
    CLEAVE_TRY(read_kinds(r, root));
    CLEAVE_TRY(read_node(r, root));
    CLEAVE_TRY(read_network(r, root));
    machine->n_inner = r->inner.n;
    machine->inner_names = CLEAVE_ARENA_ARRAY(r->arena, const char *, r->inner.n);
    if (machine->inner_names == NULL)
        return short_of_memory(r);
    for (int32_t i = 0; i < r->inner.n; i++)
        machine->inner_names[i] = r->inner.items[i];
    cleave_error reason = {""};
    cleave_status status = cleave_machine_build(machine, n_devices, &reason);
    if (status == CLEAVE_BAD_INPUT) {
        CLEAVE_TRY(cleave_json_get(root, "node", &at, r->error));
        return cleave_json_fail(&at, r->error, "%s", reason.message);
    }
    return status == CLEAVE_OK ? status : cleave_fail(r->error, status, "%s", reason.message);
}

static cleave_status read_document(cleave_json *document, int32_t n_devices, cleave_arena *arena,
                                   cleave_machine *machine, cleave_error *error) {
    cleave_machine made = {.arena = arena};
    reader r = {.machine = &made, .arena = arena, .error = error};
    cleave_json_cursor root = cleave_json_root(document);
    cleave_status status = read_root(&r, &root, n_devices);
    CLEAVE_LIST_FREE(&r.inner);
    cleave_json_free(document);
    if (status == CLEAVE_OK)
        *machine = made;
    return status;
}

cleave_status cleave_machine_read(const char *path, int32_t n_devices, cleave_arena *arena,
                                  cleave_machine *machine, cleave_error *error) {
    cleave_json *document;
    CLEAVE_TRY(cleave_json_read(path, &document, error));
    return read_document(document, n_devices, arena, machine, error);
}

cleave_status cleave_machine_parse(const char *text, size_t bytes, const char *name,
                                   int32_t n_devices, cleave_arena *arena, cleave_machine *machine,
                                   cleave_error *error) {
    cleave_json *document;
    CLEAVE_TRY(cleave_json_parse(text, bytes, name, &document, error));
    return read_document(document, n_devices, arena, machine, error);
}
