/* Fuzzes the reader of manifests of checkpoints: what is accepted names files of its folder and is
   written as it was read. */
#include "exec/data/manifest.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    cleave_arena arena = {0};
    cleave_manifest manifest = {0}, again;
    cleave_error error = {""};
    const char *text, *second;
    cleave_status status =
        cleave_manifest_parse((const char *)data, size, "fuzz.json", &arena, &manifest, &error);
    if ((status == CLEAVE_OK) != (error.message[0] == '\0'))
        abort();
    for (int32_t i = 0; i < manifest.n_files; i++)
        if (strchr(manifest.files[i].name, '/') != NULL || manifest.files[i].name[0] == '.' ||
            manifest.files[i].bytes < 0)
            abort();
    if (status == CLEAVE_OK &&
        (cleave_manifest_format(&manifest, &arena, &text, &error) != CLEAVE_OK ||
         cleave_manifest_parse(text, strlen(text), "fuzz.json", &arena, &again, &error) !=
             CLEAVE_OK ||
         cleave_manifest_format(&again, &arena, &second, &error) != CLEAVE_OK ||
         strcmp(text, second) != 0))
        abort();
    cleave_arena_free(&arena);
    return 0;
}
