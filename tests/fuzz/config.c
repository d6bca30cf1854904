/* Fuzzes the reader of language models' configurations: whatever the text is, there is a graph that
   the importer takes, or says with a message why not; and the file that is written of it is the
   same model. */
#include "graph/import/config/config.h"
#include "fuzz.h"
#include "graph/import/import.h"
#include "graph/import/onnx/onnx_encode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(bool holds, const char *what, const cleave_error *error) {
    if (holds)
        return;
    fprintf(stderr, "%s: %s\n", what, error->message);
    abort();
}

static cleave_status import(const cleave_import_request *request, cleave_arena *arena,
                            cleave_model *model) {
    cleave_error error = {""};
    cleave_status status = cleave_model_import_as(request, arena, model, &error);
    must(status == CLEAVE_OK || error.message[0] != '\0', "no message", &error);
    if (status == CLEAVE_OK)
        must(cleave_model_check(model, &error) == CLEAVE_OK, "check", &error);
    return status;
}

/* Importing takes longer with every node. */
static void compare(const cleave_import_request *request, const cleave_onnx_graph *graph,
                    cleave_arena *arena) {
    enum { MOST_NODES = 1000 };
    cleave_model model, again;
    cleave_error error = {""};
    cleave_import_request written = *request;
    const char *bytes;
    if (graph->n_nodes > MOST_NODES || import(request, arena, &model) != CLEAVE_OK)
        return;
    must(cleave_onnx_encode(graph, arena, &bytes, &written.bytes, &error) == CLEAVE_OK, "encode",
         &error);
    written.data = bytes;
    written.sequence = 0;
    must(import(&written, arena, &again) == CLEAVE_OK, "import", &error);
    must(strcmp(model.hash, again.hash) == 0, "another model", &error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int64_t sequences[] = {0, 1, 6};
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++) {
        cleave_arena arena = {0};
        cleave_onnx_graph graph;
        cleave_error error = {""};
        const cleave_config_request config = {.file = "fuzz.json",
                                              .data = data,
                                              .bytes = size,
                                              .sequence = sequences[i],
                                              .trains = true};
        const cleave_import_request request = {.file = "fuzz.json",
                                               .data = data,
                                               .bytes = size,
                                               .batch = 2,
                                               .sequence = sequences[i],
                                               .with_loss = true};
        cleave_status status = cleave_config_decode(&config, &arena, &graph, &error);
        must(status == CLEAVE_OK || error.message[0] != '\0', "no message", &error);
        if (status == CLEAVE_OK && cleave_json_begins(data, size))
            compare(&request, &graph, &arena);
        cleave_arena_free(&arena);
    }
    return 0;
}
