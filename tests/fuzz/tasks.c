/* Fuzzes the reader of task graphs: an accepted one can be simulated, and no task ends after the
   makespan. */
#include "fuzz.h"

#include "simulator/events/tasks.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    cleave_arena arena = {0};
    cleave_tasks tasks;
    cleave_tasks_timeline timeline;
    cleave_error error = {""};
    cleave_status status =
        cleave_tasks_parse((const char *)data, size, "fuzz.dag", &arena, &tasks, &error);
    if (status == CLEAVE_OK) {
        if (cleave_tasks_simulate(&tasks, &arena, &timeline, &error) != CLEAVE_OK)
            abort();
        for (int32_t t = 0; t < tasks.n_tasks; t++)
            if (timeline.end[t] < timeline.start[t] || timeline.end[t] > timeline.makespan)
                abort();
    } else if (error.message[0] == '\0') {
        abort();
    }
    cleave_arena_free(&arena);
    return 0;
}
