/* Machines. */
#include "library/objects.h"

#include <stdlib.h>

/* What was read, or nothing of it. */
static cleave_status conclude(cleave_status status, door_machine *made, cleave_machine **machine) {
    if (status == CLEAVE_OK)
        *machine = &made->machine;
    else
        cleave_machine_free(&made->machine);
    return status;
}

cleave_status cleave_machine_load(const char *path, int32_t n_devices, cleave_machine **machine,
                                  cleave_error *error) {
    door_machine *made = calloc(1, sizeof *made);
    if (made == NULL)
        return cleave_fail_memory(error, "reading a machine");
    return conclude(cleave_machine_read(path, n_devices, &made->arena, &made->machine, error), made,
                    machine);
}

cleave_status cleave_machine_load_text(const char *text, size_t bytes, const char *name,
                                       int32_t n_devices, cleave_machine **machine,
                                       cleave_error *error) {
    door_machine *made = calloc(1, sizeof *made);
    if (made == NULL)
        return cleave_fail_memory(error, "reading a machine");
    return conclude(
        cleave_machine_parse(text, bytes, name, n_devices, &made->arena, &made->machine, error),
        made, machine);
}

void cleave_machine_free(cleave_machine *machine) {
    door_machine *made = (door_machine *)machine;
    if (made != NULL)
        cleave_arena_free(&made->arena);
    free(made);
}

int32_t cleave_machine_device_count(const cleave_machine *machine) { return machine->n_devices; }
