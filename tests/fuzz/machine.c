/* Fuzzes the reader of machines: an accepted one has a route between every two devices. */
#include "fuzz.h"

#include "costmodel/machine.h"

#include <stdlib.h>

static void check_routes(const cleave_machine *machine) {
    for (int32_t source = 0; source < machine->n_devices; source++)
        for (int32_t destination = 0; destination < machine->n_devices; destination++) {
            int64_t pair = (int64_t)source * machine->n_devices + destination;
            int32_t at = source;
            for (int64_t r = machine->route_start[pair]; r < machine->route_start[pair + 1]; r++) {
                const cleave_link *link = &machine->links[machine->route_links[r]];
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
