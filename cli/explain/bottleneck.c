/* The resource that is busiest during a step. */
#include "cli/explain/bottleneck.h"

#include "simulator/step/busy.h"

#include <stdio.h>

cleave_status bottleneck_find(const cleave_engine_problem *problem, const cleave_turned *turned,
                              const cleave_machine *machine, cleave_arena *arena,
                              bottleneck *busiest, cleave_error *error) {
    cleave_busy busy;
    int64_t most = -1;
    CLEAVE_TRY(cleave_busy_find(problem, turned, arena, &busy, error));
    bottleneck found = {.main_seconds = 1e-12 * (double)busy.main_lanes / busy.n_devices};
    for (int32_t d = 0; d < busy.n_devices; d++)
        if (busy.device[d] > most) {
            most = busy.device[d];
            snprintf(found.name, sizeof found.name, "device %d", d);
        }
    for (int32_t l = 0; l < busy.n_links; l++)
        if (busy.link[l] > most) {
            most = busy.link[l];
            snprintf(found.name, sizeof found.name, "link %.50s -> %.50s",
                     machine->vertex_name[machine->links[l].from],
                     machine->vertex_name[machine->links[l].to]);
        }
    found.busy_seconds = 1e-12 * (double)most;
    *busiest = found;
    return CLEAVE_OK;
}
