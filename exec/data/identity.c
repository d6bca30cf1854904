/* What tells data from others. */
#include "exec/data/identity.h"

#include "base/file.h"
#include "base/random.h"
#include "exec/data/image_folder.h"
#include "exec/data/npy.h"

#include <string.h>

/* Of what is larger only so many bytes are read, all over it. */
static const int64_t most_bytes = INT64_C(1) << 30;

static cleave_status identify_file(const char *path, cleave_manifest_file *identity,
                                   cleave_error *error) {
    identity->name = cleave_file_name(path);
    return cleave_file_checksum(path, most_bytes, &identity->bytes, &identity->checksum, error);
}

static cleave_status identify_arrays(const char *list, cleave_arena *arena,
                                     cleave_manifest_file *identity, cleave_error *error) {
    cleave_npy_file arrays[CLEAVE_MOST_NPY_FILES];
    cleave_manifest_file all = {.name = "", .bytes = 0}, one;
    int32_t n;
    CLEAVE_TRY(cleave_npy_list_parse(list, arena, arrays, &n, error));
    for (int32_t i = 0; i < n; i++) {
        CLEAVE_TRY(identify_file(arrays[i].path, &one, error));
        all.name = cleave_arena_printf(arena, "%s%s%s=%s", all.name, i > 0 ? "," : "",
                                       arrays[i].name, one.name);
        if (all.name == NULL)
            return cleave_fail_memory(error, "reading data");
        all.bytes += one.bytes;
        all.checksum = cleave_hash_join(
            cleave_hash_join(all.checksum, cleave_hash_string(arrays[i].name)), one.checksum);
    }
    *identity = all;
    return CLEAVE_OK;
}

static cleave_status identify_images(const char *path, cleave_manifest_file *identity,
                                     cleave_error *error) {
    cleave_arena arena = {0};
    cleave_image_folder folder;
    identity->name = cleave_file_name(path);
    cleave_status status = cleave_image_folder_list(path, &arena, &folder, error);
    if (status == CLEAVE_OK)
        status = cleave_image_folder_checksum(&folder, most_bytes, &identity->bytes,
                                              &identity->checksum, error);
    cleave_arena_free(&arena);
    return status;
}

cleave_status cleave_data_identify(const cleave_run_options *options, cleave_arena *arena,
                                   cleave_manifest_file *identity, cleave_error *error) {
    *identity = (cleave_manifest_file){0};
    if (options->images != NULL)
        return identify_images(options->images, identity, error);
    if (options->text != NULL)
        return identify_file(options->text, identity, error);
    if (options->data == NULL)
        return CLEAVE_OK;
    return cleave_npy_is_list(options->data)
               ? identify_arrays(options->data, arena, identity, error)
               : identify_file(options->data, identity, error);
}
