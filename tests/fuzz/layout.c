/* Fuzzes the reader of layouts against one small model: a layout that is accepted is legal. */
#include "fuzz.h"

#include "graph/import.h"
#include "graph/layout.h"

#include <stdlib.h>

/* The model is read once; a fuzz target has no other place to keep it. */
static const cleave_model *small_model(void) {
    static cleave_arena arena;
    static cleave_model model;
    static int loaded;
    if (!loaded && cleave_model_import(CLEAVE_SOURCE_DIR "/tests/data/oracles/tiny_cnn.onnx", 8,
                                       true, &arena, &model, NULL) != CLEAVE_OK)
        abort();
    loaded = 1;
    return &model;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const cleave_model *model = small_model();
    cleave_arena arena = {0};
    cleave_layout layout;
    cleave_error error = {""};
    cleave_status status = cleave_layout_parse((const char *)data, size, "fuzz.layout.json", model,
                                               &arena, &layout, &error);
    if (status == CLEAVE_OK ? cleave_layout_check(model, &layout, &error) != CLEAVE_OK
                            : error.message[0] == '\0')
        abort();
    cleave_arena_free(&arena);
    return 0;
}
