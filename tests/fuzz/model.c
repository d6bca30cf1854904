/* Fuzzes the importer, and lowering behind it: whatever the bytes are, there is a model that passes
   its own check, and whose program under a random layout does; or an error with a message. */
#include "base/random.h"
#include "fuzz.h"
#include "graph/import/import.h"
#include "graph/lower/lower.h"
#include "graph/model/layout.h"

#include <stdio.h>
#include <stdlib.h>

static void must(cleave_status status, const cleave_error *error) {
    if (status == CLEAVE_OK)
        return;
    fprintf(stderr, "%s\n", error->message);
    abort();
}

/* Lowering takes longer with every part and piece; what it does is seen on small models. */
static bool is_small(const cleave_model *model) {
    enum { MOST_NESTS = 60, MOST_TENSORS = 200 };
    return model->n_nests <= MOST_NESTS && model->n_tensors <= MOST_TENSORS;
}

static void lower(const cleave_model *model, uint64_t seed, cleave_arena *arena) {
    cleave_random random = {.key = seed};
    cleave_error error = {""};
    cleave_layout layout;
    cleave_program program;
    int32_t n_devices = 2 + (int32_t)cleave_random_below(&random, 2);
    cleave_lower_options options = {.training = model->loss >= 0,
                                    .symbolic_collectives = cleave_random_below(&random, 4) == 0,
                                    .optimizer_states = 1};
    must(cleave_layout_random(model, n_devices, seed, arena, &layout, &error), &error);
    cleave_status status = cleave_lower(model, &layout, &options, arena, &program, &error);
    if (status == CLEAVE_OK)
        must(cleave_program_check(&program, &error), &error);
    else if (error.message[0] == '\0')
        abort();
}

/* And once more with only the first input as data. */
static void import(const uint8_t *data, size_t size, int64_t batch, bool with_loss,
                   const char *inputs) {
    cleave_arena arena = {0};
    cleave_model model;
    cleave_error error = {""};
    const cleave_import_request request = {.file = "fuzz.onnx",
                                           .data = data,
                                           .bytes = size,
                                           .batch = batch,
                                           .with_loss = with_loss,
                                           .inputs = inputs};
    cleave_status status = cleave_model_import_as(&request, &arena, &model, &error);
    if (status == CLEAVE_OK)
        must(cleave_model_check(&model, &error), &error);
    else if (error.message[0] == '\0')
        abort();
    if (status == CLEAVE_OK && is_small(&model))
        lower(&model, cleave_hash_join(size, (uint64_t)batch), &arena);
    if (status == CLEAVE_OK && inputs == NULL && model.n_inputs > 0)
        import(data, size, batch, with_loss, model.inputs[0].name);
    cleave_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int64_t batches[] = {0, 1, 3};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
        for (int with_loss = 0; with_loss < 2; with_loss++)
            import(data, size, batches[i], with_loss != 0, NULL);
    return 0;
}
