/* The resource that is busiest during a step. */
#include "cli/bottleneck.h"

#include <stdio.h>

static cleave_status device_seconds(const cleave_program *program, cleave_cost_cache *cache,
                                    cleave_arena *arena, double *seconds, cleave_error *error) {
    int64_t *duration = CLEAVE_ARENA_ARRAY(arena, int64_t, program->n_items);
    if (duration == NULL)
        return cleave_fail_memory(error, "looking for the bottleneck");
    CLEAVE_TRY(cleave_cost_items(program, cache, duration, error));
    for (int32_t i = 0; i < program->n_items; i++)
        seconds[program->items[i].device] += 1e-12 * (double)duration[i];
    return CLEAVE_OK;
}

static void link_seconds(const cleave_program *program, const cleave_machine *machine,
                         double *seconds) {
    for (int32_t m = 0; m < program->n_messages; m++) {
        const cleave_message *message = &program->messages[m];
        int32_t links[CLEAVE_MAX_ROUTE];
        int32_t n = cleave_machine_route(machine, message->source, message->destination, links);
        for (int32_t r = 0; r < n; r++)
            seconds[links[r]] += (double)message->bytes / machine->links[links[r]].bytes_per_second;
    }
}

cleave_status bottleneck_find(const cleave_program *program, const cleave_machine *machine,
                              cleave_cost_cache *cache, cleave_arena *arena, bottleneck *busiest,
                              cleave_error *error) {
    double *of_device = CLEAVE_ARENA_ARRAY(arena, double, program->n_devices);
    double *of_link = CLEAVE_ARENA_ARRAY(arena, double, machine->n_links);
    if (of_device == NULL || of_link == NULL)
        return cleave_fail_memory(error, "looking for the bottleneck");
    CLEAVE_TRY(device_seconds(program, cache, arena, of_device, error));
    link_seconds(program, machine, of_link);
    bottleneck found = {.busy_seconds = -1};
    for (int32_t d = 0; d < program->n_devices; d++)
        if (of_device[d] > found.busy_seconds) {
            found.busy_seconds = of_device[d];
            snprintf(found.name, sizeof found.name, "device %d", d);
        }
    for (int32_t l = 0; l < machine->n_links; l++)
        if (of_link[l] > found.busy_seconds) {
            found.busy_seconds = of_link[l];
            snprintf(found.name, sizeof found.name, "link %.50s -> %.50s",
                     machine->vertex_name[machine->links[l].from],
                     machine->vertex_name[machine->links[l].to]);
        }
    *busiest = found;
    return CLEAVE_OK;
}
