/* What `cleave show` prints of a machine: its kinds of devices and of links. */
#include "cli/show.h"

#include "cli/table.h"
#include "costmodel/machine.h"

static void print_kinds(const cleave_machine *machine, cleave_arena *arena) {
    table t = {.arena = arena, .n_columns = 8, .align = "lrrrrrrl"};
    static const char *const heads[] = {"kind",        "devices", "memory",   "arithmetic",
                                        "memory rate", "launch",  "measured", "source"};
    for (int i = 0; i < 8; i++)
        table_text(&t, heads[i]);
    for (int32_t k = 0; k < machine->n_kinds; k++) {
        const cleave_device_kind *kind = &machine->kinds[k];
        int32_t count = 0;
        for (int32_t d = 0; d < machine->n_devices; d++)
            count += machine->device_kind[d] == k ? 1 : 0;
        table_text(&t, kind->name);
        table_format(&t, "%d", count);
        table_quantity(&t, (double)kind->memory_bytes, CLEAVE_UNIT_BYTES);
        table_quantity(&t, kind->flops_per_second, CLEAVE_UNIT_FLOPS);
        table_quantity(&t, kind->bytes_per_second, CLEAVE_UNIT_BYTES_PER_SECOND);
        table_quantity(&t, kind->launch_seconds, CLEAVE_UNIT_SECONDS);
        int32_t n_timed = 0;
        for (int32_t i = 0; i < kind->n_kernels; i++)
            n_timed += kind->kernels[i].seconds > 0;
        table_format(&t, "%d kernels", n_timed);
        table_text(&t, kind->source != NULL ? kind->source : "");
    }
    table_print(&t, stdout);
}

static bool same_link(const cleave_link *a, const cleave_link *b) {
    return a->bytes_per_second == b->bytes_per_second && a->latency_seconds == b->latency_seconds &&
           a->overhead_seconds == b->overhead_seconds &&
           a->overhead_seconds_per_byte == b->overhead_seconds_per_byte;
}

/* Links with the same figures are one row, named by the first of them. */
static void print_links(const cleave_machine *machine, cleave_arena *arena) {
    table t = {.arena = arena, .n_columns = 6, .align = "lrrrrr"};
    static const char *const heads[] = {"link",    "how many",          "bandwidth",
                                        "latency", "processor/message", "processor/MiB"};
    for (int i = 0; i < 6; i++)
        table_text(&t, heads[i]);
    for (int32_t l = 0; l < machine->n_links; l++) {
        const cleave_link *link = &machine->links[l];
        int32_t before = 0, count = 0;
        for (int32_t other = 0; other < machine->n_links; other++)
            if (same_link(link, &machine->links[other])) {
                count++;
                before += other < l ? 1 : 0;
            }
        if (before > 0)
            continue;
        table_format(&t, "%s -> %s", machine->vertex_name[link->from],
                     machine->vertex_name[link->to]);
        table_format(&t, "%d", count);
        table_quantity(&t, link->bytes_per_second, CLEAVE_UNIT_BYTES_PER_SECOND);
        table_quantity(&t, link->latency_seconds, CLEAVE_UNIT_SECONDS);
        table_quantity(&t, link->overhead_seconds, CLEAVE_UNIT_SECONDS);
        table_quantity(&t, 0x1p20 * link->overhead_seconds_per_byte, CLEAVE_UNIT_SECONDS);
    }
    table_print(&t, stdout);
}

cleave_status show_machine(const char *path, cleave_arena *arena, cleave_error *error) {
    cleave_machine machine;
    CLEAVE_TRY(cleave_machine_read(path, 0, arena, &machine, error));
    printf("machine %s: %d devices, %d a node\n\n", machine.name, machine.n_devices,
           machine.devices_per_node);
    print_kinds(&machine, arena);
    printf("\n");
    if (machine.n_links > 0)
        print_links(&machine, arena);
    return CLEAVE_OK;
}
