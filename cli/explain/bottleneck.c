/* The resource that is busiest during a step. */
#include "cli/explain/bottleneck.h"

#include "graph/program/program.h"

#include <stdio.h>

cleave_status bottleneck_find(const cleave_engine_problem *problem, const cleave_machine *machine,
                              cleave_arena *arena, bottleneck *busiest, cleave_error *error) {
    int32_t n_devices = problem->n_queues / 2;
    double *of_device = CLEAVE_ARENA_ARRAY(arena, double, n_devices);
    double *of_link = CLEAVE_ARENA_ARRAY(arena, double, machine->n_links);
    if (of_device == NULL || of_link == NULL)
        return cleave_fail_memory(error, "looking for the bottleneck");
    int64_t main_lanes = 0; /* picoseconds */
    for (int32_t i = 0; i < problem->step.n_items; i++) {
        double seconds = 1e-12 * (double)problem->step.duration[i];
        of_device[problem->step.queue[i] / 2] += seconds;
        main_lanes +=
            problem->step.queue[i] % 2 == CLEAVE_LANE_MAIN ? problem->step.duration[i] : 0;
    }
    for (int32_t h = 0; h < problem->step.hop_start[problem->step.n_messages]; h++)
        of_link[problem->step.hop_link[h]] += 1e-12 * (double)problem->step.hop_serialization[h];
    bottleneck found = {.busy_seconds = -1, .main_seconds = 1e-12 * (double)main_lanes / n_devices};
    for (int32_t d = 0; d < n_devices; d++)
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
