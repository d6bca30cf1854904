/* Fuzzes the reader of layouts against one small model: a layout that is accepted is legal, and so
   is one of some operators; a layout of all is one of some, too, and lists them all. */
#include "fuzz.h"

#include "graph/import/import.h"
#include "graph/model/layout.h"

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

static void read_some(const uint8_t *data, size_t size, const cleave_model *model, bool is_layout) {
    cleave_arena arena = {0};
    cleave_layout layout;
    cleave_layout_listed listed;
    cleave_error error = {""};
    cleave_status status = cleave_layout_parse_some((const char *)data, size, "fuzz.layout.json",
                                                    model, &arena, &layout, &listed, &error);
    if (status == CLEAVE_OK ? cleave_layout_check(model, &layout, &error) != CLEAVE_OK
                            : error.message[0] == '\0' || is_layout)
        abort();
    for (int32_t op = 0; op < model->n_operators && status == CLEAVE_OK; op++)
        if (!listed.operators[op] && (is_layout || layout.splits[op].n_parts != 1))
            abort();
    for (int32_t t = 0; t < model->n_tensors && status == CLEAVE_OK; t++)
        if (layout.sharded[t] && !listed.updates[t])
            abort();
    cleave_arena_free(&arena);
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
    read_some(data, size, model, status == CLEAVE_OK);
    return 0;
}
