/* Fuzzes the reader of states of searches (`--resume`): a search goes on from whatever lies in the
   file, or refuses it with a message; where it goes on it ends with a legal layout, leaves a state
   that the next search takes, and that one ends the same.

   What a state is of has to be told by the state, and the space changes with the costs: so its hash
   in the input is replaced by that of the search. */
#include "../support/shipped.h"
#include "fuzz.h"

#include "base/file.h"
#include "graph/import/import.h"
#include "search/search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROPOSALS = 24, HASH_DIGITS = 16 };
static const char key_of_space[] = "\"space\": \"";

/* The search is set up once; a fuzz target has no other place to keep it. */
typedef struct searched {
    cleave_arena arena;
    cleave_model model;
    cleave_machine machine;
    char path[64], space[HASH_DIGITS];
} searched;

static cleave_status search(const searched *of, cleave_arena *arena, cleave_search_result *result,
                            cleave_error *error) {
    const cleave_search_options options = {
        .method = "auto", .proposals = PROPOSALS, .resume_file = of->path, .quiet = true};
    return cleave_search(&of->model, &of->machine, &options, arena, result, error);
}

static char *find_space(char *text, size_t bytes) {
    size_t n = sizeof key_of_space - 1;
    for (size_t i = 0; i + n + HASH_DIGITS <= bytes; i++)
        if (memcmp(text + i, key_of_space, n) == 0)
            return text + i + n;
    return NULL;
}

static void learn_space(searched *of) {
    cleave_arena arena = {0};
    cleave_search_result result;
    char *text, *space = NULL;
    size_t bytes;
    unlink(of->path);
    if (search(of, &arena, &result, NULL) == CLEAVE_OK &&
        cleave_file_read(of->path, &arena, &text, &bytes, NULL) == CLEAVE_OK)
        space = find_space(text, bytes);
    if (space == NULL)
        abort();
    memcpy(of->space, space, HASH_DIGITS);
    cleave_arena_free(&arena);
}

static const searched *small_search(void) {
    static searched of;
    static int ready;
    if (ready)
        return &of;
    if (cleave_model_import_as(
            &(cleave_import_request){.file = CLEAVE_SOURCE_DIR "/tests/data/oracles/tiny_mlp.onnx",
                                     .batch = 8,
                                     .with_loss = true},
            &of.arena, &of.model, NULL) != CLEAVE_OK ||
        shipped_machine("two-cores", 2, &of.arena, &of.machine, NULL) != CLEAVE_OK)
        abort();
    snprintf(of.path, sizeof of.path, "/tmp/cleave_fuzz_resume_%d.json", (int)getpid());
    learn_space(&of);
    ready = 1;
    return &of;
}

static void write_state(const searched *of, const uint8_t *data, size_t size) {
    char *text = malloc(size + 1), *space;
    if (text == NULL)
        abort();
    if (size > 0)
        memcpy(text, data, size);
    space = find_space(text, size);
    if (space != NULL)
        memcpy(space, of->space, HASH_DIGITS);
    if (cleave_file_write(of->path, text, size, NULL) != CLEAVE_OK)
        abort();
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const searched *of = small_search();
    cleave_arena arena = {0};
    cleave_search_result first, second;
    cleave_error error = {""};
    write_state(of, data, size);
    cleave_status status = search(of, &arena, &first, &error);
    if (status != CLEAVE_OK && (status != CLEAVE_BAD_INPUT || error.message[0] == '\0'))
        abort();
    if (status == CLEAVE_OK &&
        (cleave_layout_check(&of->model, &first.best.layout, &error) != CLEAVE_OK ||
         search(of, &arena, &second, &error) != CLEAVE_OK ||
         memcmp(&first.best.step_seconds, &second.best.step_seconds,
                sizeof first.best.step_seconds) != 0))
        abort();
    unlink(of->path);
    cleave_arena_free(&arena);
    return 0;
}
