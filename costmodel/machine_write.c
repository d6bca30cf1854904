/* The one writer of machine files; the format is described in machine_read.c. */
#include "base/file.h"
#include "base/json.h"
#include "costmodel/machine.h"

static void put_kernels(cleave_json_writer *w, const cleave_device_kind *kind) {
    cleave_json_key(w, "kernels");
    cleave_json_begin_array(w, false);
    for (int32_t i = 0; i < kind->n_kernels; i++) {
        const cleave_kernel_time *kernel = &kind->kernels[i];
        cleave_json_begin_object(w, true);
        cleave_json_key(w, "key");
        cleave_json_put_string(w, kernel->key);
        cleave_json_key(w, "family");
        cleave_json_put_string(w, kernel->family);
        if (kernel->seconds > 0) {
            cleave_json_key(w, "seconds");
            cleave_json_put_number(w, kernel->seconds);
            cleave_json_key(w, "spread");
            cleave_json_put_number(w, kernel->spread);
        }
        cleave_json_key(w, "flops");
        cleave_json_put_number(w, kernel->flops);
        cleave_json_key(w, "bytes");
        cleave_json_put_number(w, kernel->bytes);
        cleave_json_key(w, "workspace");
        cleave_json_put_integer(w, kernel->workspace_bytes);
        cleave_json_end_object(w);
    }
    cleave_json_end_array(w);
}

static void put_fits(cleave_json_writer *w, const cleave_device_kind *kind) {
    cleave_json_key(w, "fits");
    cleave_json_begin_array(w, false);
    for (int32_t i = 0; i < kind->n_fits; i++) {
        const cleave_family_fit *fit = &kind->fits[i];
        cleave_json_begin_object(w, true);
        cleave_json_key(w, "family");
        cleave_json_put_string(w, fit->family);
        cleave_json_key(w, "launch_seconds");
        cleave_json_put_number(w, fit->launch_seconds);
        cleave_json_key(w, "seconds_per_flop");
        cleave_json_put_number(w, fit->seconds_per_flop);
        cleave_json_key(w, "seconds_per_byte");
        cleave_json_put_number(w, fit->seconds_per_byte);
        cleave_json_key(w, "spread");
        cleave_json_put_number(w, fit->spread);
        cleave_json_key(w, "workspace");
        cleave_json_put_integer(w, fit->workspace_bytes);
        cleave_json_key(w, "largest");
        cleave_json_put_number(w, fit->largest_bytes);
        cleave_json_end_object(w);
    }
    cleave_json_end_array(w);
}

static void put_quantity(cleave_json_writer *w, const char *key, double value, cleave_unit unit) {
    cleave_json_key(w, key);
    cleave_json_put_quantity(w, value, unit);
}

static void put_kind(cleave_json_writer *w, const cleave_device_kind *kind) {
    cleave_json_key(w, kind->name);
    cleave_json_begin_object(w, false);
    put_quantity(w, "memory", (double)kind->memory_bytes, CLEAVE_UNIT_BYTES);
    put_quantity(w, "flops", kind->flops_per_second, CLEAVE_UNIT_FLOPS);
    put_quantity(w, "memory_bandwidth", kind->bytes_per_second, CLEAVE_UNIT_BYTES_PER_SECOND);
    cleave_json_key(w, "efficiency");
    cleave_json_begin_object(w, true);
    cleave_json_key(w, "product");
    cleave_json_put_number(w, kind->product_efficiency);
    cleave_json_key(w, "memory");
    cleave_json_put_number(w, kind->memory_efficiency);
    cleave_json_end_object(w);
    put_quantity(w, "launch", kind->launch_seconds, CLEAVE_UNIT_SECONDS);
    cleave_json_key(w, "source");
    cleave_json_put_string(w, kind->source);
    if (kind->runtime_bytes > 0)
        put_quantity(w, "runtime", (double)kind->runtime_bytes, CLEAVE_UNIT_BYTES);
    if (kind->kernel_version != NULL) {
        cleave_json_key(w, "kernel_version");
        cleave_json_put_string(w, kind->kernel_version);
    }
    if (kind->n_kernels > 0)
        put_kernels(w, kind);
    if (kind->n_fits > 0)
        put_fits(w, kind);
    cleave_json_end_object(w);
}

static void put_vertex(cleave_json_writer *w, const cleave_machine *machine, int32_t vertex) {
    if (vertex < machine->devices_per_node)
        cleave_json_put_integer(w, vertex);
    else
        cleave_json_put_string(w, machine->inner_names[vertex - machine->devices_per_node]);
}

static void put_link_figures(cleave_json_writer *w, const cleave_link_class *class) {
    if (class->through != NULL) {
        cleave_json_key(w, "through");
        cleave_json_put_string(w, class->through);
    }
    put_quantity(w, "bandwidth", class->bytes_per_second, CLEAVE_UNIT_BYTES_PER_SECOND);
    put_quantity(w, "latency", class->latency_seconds, CLEAVE_UNIT_SECONDS);
    if (class->overhead_seconds > 0)
        put_quantity(w, "overhead", class->overhead_seconds, CLEAVE_UNIT_SECONDS);
    if (class->copy_bytes_per_second > 0)
        put_quantity(w, "copy_bandwidth", class->copy_bytes_per_second,
                     CLEAVE_UNIT_BYTES_PER_SECOND);
}

static void put_link(cleave_json_writer *w, const cleave_machine *machine,
                     const cleave_link_class *class) {
    cleave_json_begin_object(w, true);
    cleave_json_key(w, "join");
    cleave_json_begin_array(w, true);
    for (int32_t g = 0; g < class->n_groups; g++) {
        cleave_json_begin_array(w, true);
        for (int32_t i = class->group_start[g]; i < class->group_start[g + 1]; i++)
            put_vertex(w, machine, class->members[i]);
        cleave_json_end_array(w);
    }
    cleave_json_end_array(w);
    put_link_figures(w, class);
    cleave_json_end_object(w);
}

static void put_node(cleave_json_writer *w, const cleave_machine *machine) {
    cleave_json_key(w, "node");
    cleave_json_begin_object(w, false);
    cleave_json_key(w, "count");
    cleave_json_put_integer(w, machine->n_nodes);
    cleave_json_key(w, "devices");
    cleave_json_put_integer(w, machine->devices_per_node);
    cleave_json_key(w, "kinds");
    cleave_json_begin_array(w, true);
    for (int32_t d = 0; d < machine->devices_per_node; d++)
        cleave_json_put_string(w, machine->kinds[machine->node_kinds[d]].name);
    cleave_json_end_array(w);
    cleave_json_key(w, "links");
    cleave_json_begin_array(w, false);
    for (int32_t c = 0; c < machine->n_link_classes; c++)
        put_link(w, machine, &machine->link_classes[c]);
    cleave_json_end_array(w);
    cleave_json_end_object(w);
}

static void put_machine(cleave_json_writer *w, const cleave_machine *machine) {
    cleave_json_begin_object(w, false);
    cleave_json_key(w, "cleave_machine");
    cleave_json_put_integer(w, 1);
    cleave_json_key(w, "name");
    cleave_json_put_string(w, machine->name);
    cleave_json_key(w, "kinds");
    cleave_json_begin_object(w, false);
    for (int32_t k = 0; k < machine->n_kinds; k++)
        put_kind(w, &machine->kinds[k]);
    cleave_json_end_object(w);
    put_node(w, machine);
    if (machine->has_network) {
        cleave_json_key(w, "network");
        cleave_json_begin_object(w, true);
        cleave_json_key(w, "join");
        put_vertex(w, machine, machine->network_join);
        put_link_figures(w, &machine->network);
        cleave_json_end_object(w);
    }
    cleave_json_end_object(w);
}

cleave_status cleave_machine_write(const char *path, const cleave_machine *machine,
                                   cleave_error *error) {
    cleave_json_writer writer = {0};
    put_machine(&writer, machine);
    cleave_status status = writer.failed ? cleave_fail_memory(error, "writing a machine")
                                         : cleave_file_write(path, writer.text, writer.n, error);
    cleave_json_writer_free(&writer);
    return status;
}
