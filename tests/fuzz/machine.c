/* Fuzzes the reader of machines: an accepted one has a route between every two devices. */
#include "fuzz.h"

#include "costmodel/machine.h"

#include <stdlib.h>

static void check_routes(const cleave_machine *machine) {
    int32_t step = machine->n_devices / 64 + 1; /* all pairs of a large machine take long */
    for (int32_t source = 0; source < machine->n_devices; source += step)
        for (int32_t destination = 0; destination < machine->n_devices; destination += step) {
            int32_t links[CLEAVE_MAX_ROUTE], at = source;
            int32_t n = cleave_machine_route(machine, source, destination, links);
            for (int32_t i = 0; i < n; i++) {
                const cleave_link *link = &machine->links[links[i]];
                if (link->from != at)
                    abort();
                at = link->to;
            }
            if (at != destination)
                abort();
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    cleave_arena arena = {0};
    cleave_machine machine;
    cleave_error error = {""};
    cleave_status status =
        cleave_machine_parse((const char *)data, size, "fuzz.json", 0, &arena, &machine, &error);
    if (status == CLEAVE_OK)
        check_routes(&machine);
    else if (error.message[0] == '\0')
        abort();
    cleave_arena_free(&arena);
    return 0;
}
