/* Fuzzes the reader of layouts against two small models, one of which takes statistics over the
   batch and can't be cut into micro-batches: a layout that is accepted is legal, and so is one of
   some operators; a layout of all is one of some, too, and lists them all. */
#include "fuzz.h"

#include "graph/import/import.h"
#include "graph/model/layout.h"

#include <stdlib.h>

enum { N_MODELS = 2 };

/* The models are read once; a fuzz target has no other place to keep them. */
static const cleave_model *small_model(int which) {
    static const char *const paths[N_MODELS] = {
        CLEAVE_SOURCE_DIR "/tests/data/oracles/tiny_cnn.onnx",
        CLEAVE_SOURCE_DIR "/tests/data/oracles/tiny_mlp.onnx"};
    static cleave_arena arena;
    static cleave_model models[N_MODELS];
    static int n_loaded;
    for (; n_loaded < N_MODELS; n_loaded++)
        if (cleave_model_import_as(
                &(cleave_import_request){.file = paths[n_loaded], .batch = 8, .with_loss = true},
                &arena, &models[n_loaded], NULL) != CLEAVE_OK)
            abort();
    return &models[which];
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

static void read_all(const uint8_t *data, size_t size, const cleave_model *model) {
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
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    for (int which = 0; which < N_MODELS; which++)
        read_all(data, size, small_model(which));
    return 0;
}
