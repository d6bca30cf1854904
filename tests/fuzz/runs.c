/* Fuzzes the reader of tables of runs: what is accepted has numbers that go together, and what is
   refused says where. */
#include "cli/validate/runs.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    cleave_arena arena = {0};
    cleave_error error = {""};
    run_table table = {0};
    cleave_status status =
        runs_parse((const char *)data, size, "fuzz/runs.csv", &arena, &table, &error);
    if ((status == CLEAVE_OK) != (error.message[0] == '\0'))
        abort();
    if (status == CLEAVE_BAD_INPUT && strncmp(error.message, "fuzz/runs.csv:", 14) != 0)
        abort();
    for (int32_t i = 0; i < table.n; i++) {
        const run_record *run = &table.rows[i];
        if (run->devices != run->data * run->tensor * run->pipeline * run->context ||
            run->batch != run->data * run->micro_batch * run->micro_batches ||
            run->model[0] == '\0' || run->machine[0] == '\0' || run->step + run->memory <= 0)
            abort();
    }
    cleave_arena_free(&arena);
    return 0;
}
