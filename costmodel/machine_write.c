/* The one writer of machine files; the format is described in machine_read.c. */
#include "base/json.h"
#include "costmodel/machine.h"
#include "graph/model/precision.h"

static void put_kernels(cleave_json_writer *w, const cleave_device_kind *kind) {
    cleave_json_open_array(w, "kernels", false);
    for (int32_t i = 0; i < kind->n_kernels; i++) {
        const cleave_kernel_time *kernel = &kind->kernels[i];
        cleave_json_begin_object(w, true);
        cleave_json_set_string(w, "key", kernel->key);
        cleave_json_set_string(w, "family", kernel->family);
        if (kernel->seconds > 0) {
            cleave_json_set_number(w, "seconds", kernel->seconds);
            cleave_json_set_number(w, "spread", kernel->spread);
        }
        cleave_json_set_number(w, "flops", kernel->flops);
        cleave_json_set_number(w, "bytes", kernel->bytes);
        cleave_json_set_integer(w, "workspace", kernel->workspace_bytes);
        if (kernel->alone_seconds > 0)
            cleave_json_set_number(w, "alone", kernel->alone_seconds);
        cleave_json_end_object(w);
    }
    cleave_json_end_array(w);
}

static void put_fits(cleave_json_writer *w, const cleave_device_kind *kind) {
    cleave_json_open_array(w, "fits", false);
    for (int32_t i = 0; i < kind->n_fits; i++) {
        const cleave_family_fit *fit = &kind->fits[i];
        cleave_json_begin_object(w, true);
        cleave_json_set_string(w, "family", fit->family);
        cleave_json_set_number(w, "launch_seconds", fit->launch_seconds);
        cleave_json_set_number(w, "seconds_per_flop", fit->seconds_per_flop);
        cleave_json_set_number(w, "seconds_per_byte", fit->seconds_per_byte);
        cleave_json_set_number(w, "spread", fit->spread);
        cleave_json_set_integer(w, "workspace", fit->workspace_bytes);
        cleave_json_set_number(w, "largest", fit->largest_bytes);
        if (fit->near_bytes > 0) {
            cleave_json_set_number(w, "near", fit->near_bytes);
            cleave_json_set_number(w, "far_seconds_per_byte", fit->far_seconds_per_byte);
        }
        if (fit->alone > 0)
            cleave_json_set_number(w, "alone", fit->alone);
        cleave_json_end_object(w);
    }
    cleave_json_end_array(w);
}

static void put_quantity(cleave_json_writer *w, const char *key, double value, cleave_unit unit) {
    cleave_json_key(w, key);
    cleave_json_put_quantity(w, value, unit);
}

/* A number, where all sizes are alike. */
static void put_efficiency(cleave_json_writer *w, const char *name, const cleave_efficiency *of) {
    if (of->n == 0)
        return;
    cleave_json_key(w, name);
    if (of->n == 1) {
        cleave_json_put_number(w, of->share[0]);
        return;
    }
    cleave_json_begin_array(w, true);
    for (int i = 0; i < of->n; i++) {
        cleave_json_begin_array(w, true);
        cleave_json_put_number(w, of->size[i]);
        cleave_json_put_number(w, of->share[i]);
        cleave_json_end_array(w);
    }
    cleave_json_end_array(w);
}

static void put_rates(cleave_json_writer *w, const cleave_device_kind *kind) {
    bool any = false;
    for (cleave_type type = 0; type < CLEAVE_N_TYPES; type++) {
        if (kind->rates[type] <= 0)
            continue;
        if (!any)
            cleave_json_open_object(w, "rates", true);
        any = true;
        put_quantity(w, cleave_precision_name(type), kind->rates[type], CLEAVE_UNIT_FLOPS);
    }
    if (any)
        cleave_json_end_object(w);
}

static void put_kind(cleave_json_writer *w, const cleave_device_kind *kind) {
    cleave_json_open_object(w, kind->name, false);
    put_quantity(w, "memory", (double)kind->memory_bytes, CLEAVE_UNIT_BYTES);
    put_quantity(w, "flops", kind->flops_per_second, CLEAVE_UNIT_FLOPS);
    put_rates(w, kind);
    put_quantity(w, "memory_bandwidth", kind->bytes_per_second, CLEAVE_UNIT_BYTES_PER_SECOND);
    cleave_json_open_object(w, "efficiency", true);
    for (int of = 0; of < CLEAVE_N_EFFICIENCIES; of++)
        put_efficiency(w, cleave_efficiency_names[of], &kind->efficiency[of]);
    cleave_json_end_object(w);
    put_quantity(w, "launch", kind->launch_seconds, CLEAVE_UNIT_SECONDS);
    cleave_json_set_string(w, "source", kind->source);
    if (kind->runtime_bytes > 0)
        put_quantity(w, "runtime", (double)kind->runtime_bytes, CLEAVE_UNIT_BYTES);
    if (kind->kernel_version != NULL)
        cleave_json_set_string(w, "kernel_version", kind->kernel_version);
    if (cleave_device_kind_threads(kind) > 1)
        cleave_json_set_integer(w, "threads", kind->threads);
    if (kind->n_kernels > 0)
        put_kernels(w, kind);
    if (kind->n_fits > 0)
        put_fits(w, kind);
    cleave_json_end_object(w);
}

static void put_vertex(cleave_json_writer *w, const cleave_node_type *type, int32_t vertex) {
    if (vertex < type->n_devices)
        cleave_json_put_integer(w, vertex);
    else
        cleave_json_put_string(w, type->inner_names[vertex - type->n_devices]);
}

static bool has_polls(const cleave_polls *polls) {
    return polls->small > 0 || polls->large > 0 || polls->per_byte > 0;
}

static void put_polls(cleave_json_writer *w, const char *key, const cleave_polls *polls) {
    if (!has_polls(polls))
        return;
    cleave_json_open_object(w, key, true);
    cleave_json_set_number(w, "small", polls->small);
    cleave_json_set_number(w, "large", polls->large);
    cleave_json_set_number(w, "per_byte", polls->per_byte);
    cleave_json_end_object(w);
}

static void put_agreements(cleave_json_writer *w, const cleave_protocol *protocol) {
    if (protocol->n_agreements == 0)
        return;
    cleave_json_open_array(w, "large_latency", true);
    for (int i = 0; i < protocol->n_agreements; i++) {
        cleave_json_begin_object(w, true);
        put_quantity(w, "bytes", protocol->agreements[i].bytes, CLEAVE_UNIT_BYTES);
        put_quantity(w, "latency", protocol->agreements[i].seconds, CLEAVE_UNIT_SECONDS);
        cleave_json_end_object(w);
    }
    cleave_json_end_array(w);
}

static void put_protocol(cleave_json_writer *w, const cleave_protocol *protocol) {
    if (protocol->large_from_bytes <= 0 && protocol->first_bytes <= 0 &&
        !has_polls(&protocol->sending) && !has_polls(&protocol->receiving))
        return;
    cleave_json_open_object(w, "protocol", true);
    if (protocol->large_from_bytes > 0)
        put_quantity(w, "large_from", protocol->large_from_bytes, CLEAVE_UNIT_BYTES);
    put_agreements(w, protocol);
    if (protocol->first_bytes > 0) {
        put_quantity(w, "first", protocol->first_bytes, CLEAVE_UNIT_BYTES);
        put_quantity(w, "first_bandwidth", protocol->first_bytes_per_second,
                     CLEAVE_UNIT_BYTES_PER_SECOND);
    }
    put_polls(w, "send_polls", &protocol->sending);
    put_polls(w, "receive_polls", &protocol->receiving);
    cleave_json_end_object(w);
}

static void put_link_figures(cleave_json_writer *w, const cleave_link_class *class,
                             double oversubscription) {
    if (class->through != NULL)
        cleave_json_set_string(w, "through", class->through);
    if (oversubscription > 0) {
        cleave_json_set_number(w, "oversubscription", oversubscription);
    } else {
        put_quantity(w, "bandwidth", class->bytes_per_second, CLEAVE_UNIT_BYTES_PER_SECOND);
    }
    put_quantity(w, "latency", class->latency_seconds, CLEAVE_UNIT_SECONDS);
    if (class->overhead_seconds > 0)
        put_quantity(w, "overhead", class->overhead_seconds, CLEAVE_UNIT_SECONDS);
    if (class->copy_bytes_per_second > 0)
        put_quantity(w, "copy_bandwidth", class->copy_bytes_per_second,
                     CLEAVE_UNIT_BYTES_PER_SECOND);
    put_protocol(w, &class->protocol);
}

static void put_link(cleave_json_writer *w, const cleave_node_type *type,
                     const cleave_link_class *class) {
    cleave_json_begin_object(w, true);
    cleave_json_open_array(w, "join", true);
    for (int32_t g = 0; g < class->n_groups; g++) {
        cleave_json_begin_array(w, true);
        for (int32_t i = class->group_start[g]; i < class->group_start[g + 1]; i++)
            put_vertex(w, type, class->members[i]);
        cleave_json_end_array(w);
    }
    cleave_json_end_array(w);
    put_link_figures(w, class, 0);
    cleave_json_end_object(w);
}

static void put_node(cleave_json_writer *w, const cleave_machine *machine,
                     const cleave_node_type *type) {
    cleave_json_begin_object(w, false);
    cleave_json_set_integer(w, "count", type->count);
    cleave_json_set_integer(w, "devices", type->n_devices);
    cleave_json_open_array(w, "kinds", true);
    for (int32_t d = 0; d < type->n_devices; d++)
        cleave_json_put_string(w, machine->kinds[type->kinds[d]].name);
    cleave_json_end_array(w);
    cleave_json_open_array(w, "links", false);
    for (int32_t c = 0; c < type->n_link_classes; c++)
        put_link(w, type, &type->link_classes[c]);
    cleave_json_end_array(w);
    cleave_json_end_object(w);
}

static void put_nodes(cleave_json_writer *w, const cleave_machine *machine) {
    bool several = machine->n_node_types > 1;
    cleave_json_key(w, several ? "nodes" : "node");
    if (several)
        cleave_json_begin_array(w, false);
    for (int32_t t = 0; t < machine->n_node_types; t++)
        put_node(w, machine, &machine->node_types[t]);
    if (several)
        cleave_json_end_array(w);
}

/* As groups where there are several, as a list where one group has several. */
static void put_joins(cleave_json_writer *w, const cleave_network *network) {
    cleave_json_key(w, "join");
    bool rails = network->n_rails > 1, list = rails || network->n_joins > 1;
    if (list)
        cleave_json_begin_array(w, true);
    for (int32_t q = 0; q < network->n_joins; q++) {
        const cleave_join *join = &network->joins[q];
        if (rails && (q == 0 || join->rail != join[-1].rail))
            cleave_json_begin_array(w, true);
        if (join->name != NULL)
            cleave_json_put_string(w, join->name);
        else
            cleave_json_put_integer(w, join->device);
        if (rails && (q + 1 == network->n_joins || join[1].rail != join->rail))
            cleave_json_end_array(w);
    }
    if (list)
        cleave_json_end_array(w);
}

static void put_level(cleave_json_writer *w, const cleave_network *network, int32_t k) {
    const cleave_network_level *level = &network->levels[k];
    cleave_json_begin_object(w, true);
    if (k == 0)
        put_joins(w, network);
    if (network->shape == CLEAVE_NETWORK_TORUS) {
        cleave_json_open_array(w, "torus", true);
        for (int32_t d = 0; d < network->n_dimensions; d++)
            cleave_json_put_integer(w, network->size[d]);
        cleave_json_end_array(w);
    }
    if (level->nodes > 0)
        cleave_json_set_integer(w, "nodes", level->nodes);
    if (k > 0)
        cleave_json_set_integer(w, "switches", level->n_switches);
    put_link_figures(w, &level->links, level->oversubscription);
    cleave_json_end_object(w);
}

static void put_network(cleave_json_writer *w, const cleave_network *network) {
    if (network->shape == CLEAVE_NETWORK_NONE)
        return;
    cleave_json_key(w, "network");
    if (network->n_levels > 1)
        cleave_json_begin_array(w, false);
    for (int32_t k = 0; k < network->n_levels; k++)
        put_level(w, network, k);
    if (network->n_levels > 1)
        cleave_json_end_array(w);
}

static void put_collectives(cleave_json_writer *w, const cleave_machine *machine) {
    const cleave_machine_collectives *of = &machine->collectives;
    if (of->n_spans == 0)
        return;
    cleave_json_open_object(w, "collectives", false);
    cleave_json_open_array(w, "within", false);
    for (int32_t i = 0; i < of->n_spans; i++) {
        cleave_json_begin_object(w, true);
        if (of->spans[i].kind >= 0)
            cleave_json_set_string(w, "kind", machine->kinds[of->spans[i].kind].name);
        if (of->spans[i].collective >= 0)
            cleave_json_set_string(w, "collective",
                                   cleave_collective_names[of->spans[i].collective]);
        cleave_json_set_integer(w, "devices", of->spans[i].n_devices);
        put_quantity(w, "bandwidth", of->spans[i].bytes_per_second, CLEAVE_UNIT_BYTES_PER_SECOND);
        put_quantity(w, "latency", of->spans[i].latency_seconds, CLEAVE_UNIT_SECONDS);
        if (of->spans[i].overhead_seconds > 0)
            put_quantity(w, "overhead", of->spans[i].overhead_seconds, CLEAVE_UNIT_SECONDS);
        if (of->spans[i].overhead_seconds_per_byte > 0)
            put_quantity(w, "copy_bandwidth", 1 / of->spans[i].overhead_seconds_per_byte,
                         CLEAVE_UNIT_BYTES_PER_SECOND);
        cleave_json_end_object(w);
    }
    cleave_json_end_array(w);
    cleave_json_open_object(w, "between", true);
    cleave_json_set_number(w, "share", of->between_share);
    if (of->library != NULL)
        cleave_json_set_string(w, "library", of->library->name);
    else
        put_quantity(w, "latency", of->between_latency_seconds, CLEAVE_UNIT_SECONDS);
    cleave_json_end_object(w);
    if (of->least_devices > 0)
        cleave_json_set_integer(w, "least", of->least_devices);
    if (of->together_bytes > 0)
        put_quantity(w, "together", (double)of->together_bytes, CLEAVE_UNIT_BYTES);
    cleave_json_set_string(w, "source", of->source);
    cleave_json_end_object(w);
}

static void put_machine(cleave_json_writer *w, const cleave_machine *machine) {
    cleave_json_begin_object(w, false);
    cleave_json_set_integer(w, "cleave_machine", 1);
    cleave_json_set_string(w, "name", machine->name);
    cleave_json_open_object(w, "kinds", false);
    for (int32_t k = 0; k < machine->n_kinds; k++)
        put_kind(w, &machine->kinds[k]);
    cleave_json_end_object(w);
    put_nodes(w, machine);
    put_network(w, &machine->network);
    put_collectives(w, machine);
    cleave_json_end_object(w);
}

cleave_status cleave_machine_write(const char *path, const cleave_machine *machine,
                                   cleave_error *error) {
    cleave_json_writer writer = {0};
    put_machine(&writer, machine);
    return cleave_json_write_file(&writer, path, "writing a machine", error);
}
