/* Fuzzes the importer: whatever the bytes are, there is a model that passes its own check, or an
   error with a message. */
#include "fuzz.h"

#include "graph/import.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    cleave_arena arena = {0};
    cleave_model model;
    cleave_error error = {""};
    cleave_status status =
        cleave_model_import_memory(data, size, "fuzz.onnx", 4, true, &arena, &model, &error);
    if (status == CLEAVE_OK ? cleave_model_check(&model, &error) != CLEAVE_OK
                            : error.message[0] == '\0')
        abort();
    cleave_arena_free(&arena);
    return 0;
}
