/* The layouts that ship with Cleave fit the models that ship with it.  One that does not is made
   again by `cleave search`, with the method, machine and devices that it names. */
#include "../../support/ok.h"
#include "base/file.h"
#include "base/json.h"
#include "graph/import/import.h"
#include "graph/model/layout.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* The model and the batch that a layout names. */
static void read_model_of(const char *path, cleave_arena *arena, cleave_model *model) {
    cleave_json *document = NULL;
    OK(cleave_json_read, path, &document);
    cleave_json_cursor root = cleave_json_root(document), at, file, batch;
    const char *name;
    int64_t size;
    OK(cleave_json_get, &root, "model", &at);
    OK(cleave_json_get, &at, "file", &file);
    OK(cleave_json_string, &file, &name);
    OK(cleave_json_get, &at, "batch", &batch);
    OK(cleave_json_integer, &batch, 0, INT64_MAX, &size);
    const char *model_path =
        cleave_arena_printf(arena, "%s/configs/models/%s", CLEAVE_SOURCE_DIR, name);
    OK(cleave_model_import_as,
       &(cleave_import_request){.file = model_path, .batch = size, .with_loss = true}, arena,
       model);
    cleave_json_free(document);
}

Test(shipped_layouts, every_one_is_legal_for_its_model_and_is_what_the_writer_writes) {
    DIR *folder = opendir(CLEAVE_SOURCE_DIR "/configs/layouts");
    cr_assert_not_null(folder);
    int n = 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (strstr(entry->d_name, ".layout.json") == NULL)
            continue;
        cleave_arena arena = {0};
        cleave_model model;
        cleave_layout layout;
        const char *path =
            cleave_arena_printf(&arena, "%s/configs/layouts/%s", CLEAVE_SOURCE_DIR, entry->d_name);
        const char *copy =
            cleave_arena_printf(&arena, "%s/copy-%s", CLEAVE_BINARY_DIR, entry->d_name);
        read_model_of(path, &arena, &model);
        OK(cleave_layout_read, path, &model, &arena, &layout);
        OK(cleave_layout_write, copy, &model, &layout);
        char *shipped, *written;
        size_t shipped_bytes, written_bytes;
        OK(cleave_file_read, path, &arena, &shipped, &shipped_bytes);
        OK(cleave_file_read, copy, &arena, &written, &written_bytes);
        cr_expect_str_eq(shipped, written);
        remove(copy);
        cleave_arena_free(&arena);
        n++;
    }
    closedir(folder);
    cr_expect_geq(n, 3);
}
