/* Fuzzes the reader of times that a framework took: what is accepted makes a machine whose prices
   are finite, and what is refused has a message. */
#include "cli/calibrate/times.h"
#include "fuzz.h"

#include <math.h>
#include <stdlib.h>

static void check_machine(const cleave_machine *machine) {
    const cleave_device_kind *kind = &machine->kinds[0];
    if (!isfinite(kind->flops_per_second) || !isfinite(kind->bytes_per_second))
        abort();
    for (int32_t f = 0; f < kind->n_fits; f++)
        if (!(kind->fits[f].launch_seconds >= 0) || !(kind->fits[f].seconds_per_flop >= 0) ||
            !(kind->fits[f].seconds_per_byte >= 0))
            abort();
    for (int i = 0; i < machine->collectives.n_spans; i++)
        if (!(machine->collectives.spans[i].bytes_per_second > 0) ||
            !isfinite(machine->collectives.spans[i].bytes_per_second) ||
            !(machine->collectives.spans[i].latency_seconds >= 0))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    cleave_arena arena = {0};
    cleave_error error = {""};
    calibrate_times times;
    cleave_machine machine;
    cleave_status status =
        calibrate_times_parse((const char *)data, size, "fuzz.json", &arena, &times, &error);
    if ((status == CLEAVE_OK) != (error.message[0] == '\0'))
        abort();
    if (status == CLEAVE_OK &&
        calibrate_plain_machine("fuzz", 2, &arena, &machine, &error) == CLEAVE_OK &&
        calibrate_times_apply(&times, &arena, &machine, &error) == CLEAVE_OK)
        check_machine(&machine);
    cleave_arena_free(&arena);
    return 0;
}
