/* Initializers that lie in files beside the model's.

   The location comes from a file that may be anybody's, so what is opened must lie in the model's
   folder or below it, also after links are followed. */
#include "graph/import/onnx/onnx_file.h"

#include "base/checked.h"
#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const char *model;
    const cleave_onnx_tensor *tensor;
    cleave_error *error;
} reader;

static cleave_status refuse(const reader *r, const char *what) {
    return cleave_fail(r->error, CLEAVE_BAD_INPUT, "%s: tensor %s keeps its data in \"%s\", %s",
                       r->model, r->tensor->name, r->tensor->external->location, what);
}

static bool has_parent_step(const char *location) {
    for (const char *at = location; at != NULL; at = strchr(at, '/')) {
        at += *at == '/';
        if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || at[2] == '\0'))
            return true;
    }
    return false;
}

/* The location as a path, without links; to be freed. */
static cleave_status find_file(const reader *r, cleave_arena *arena, char **path) {
    const char *location = r->tensor->external->location;
    const char *slash = strrchr(r->model, '/');
    int folder_length = slash != NULL ? (int)(slash - r->model) + 1 : 2;
    const char *folder = cleave_arena_printf(arena, "%.*s", folder_length,
                                             slash != NULL ? r->model : "./"),
               *joined =
                   folder != NULL ? cleave_arena_printf(arena, "%s%s", folder, location) : NULL;
    if (joined == NULL)
        return cleave_fail_memory(r->error, "reading external data");
    if (location[0] == '/' || has_parent_step(location))
        return refuse(r, "which is not a path within the model's folder");
    char *real_folder = realpath(folder, NULL), *real = realpath(joined, NULL);
    size_t length = real_folder != NULL ? strlen(real_folder) : 0;
    /* The root folder alone ends in a slash. */
    bool inside = real != NULL && real_folder != NULL && strncmp(real, real_folder, length) == 0 &&
                  (real[length] == '/' || (length > 0 && real[length - 1] == '/'));
    cleave_status status = CLEAVE_OK;
    if (real == NULL)
        status = refuse(r, "which is not there or can't be opened");
    else if (!inside)
        status = refuse(r, "which is a link to outside of the model's folder");
    free(real_folder);
    if (status == CLEAVE_OK)
        *path = real;
    else
        free(real);
    return status;
}

static cleave_status check_size(const reader *r, int64_t file_bytes, int64_t bytes) {
    const cleave_onnx_external *external = r->tensor->external;
    int64_t end;
    if (external->length >= 0 && external->length != bytes)
        return cleave_fail(r->error, CLEAVE_BAD_INPUT,
                           "%s: tensor %s takes %lld bytes, but its external data have %lld",
                           r->model, r->tensor->name, (long long)bytes,
                           (long long)external->length);
    if (!cleave_int64_add(external->offset, bytes, &end) || end > file_bytes)
        return cleave_fail(
            r->error, CLEAVE_BAD_INPUT,
            "%s: tensor %s takes %lld bytes from byte %lld of \"%s\", which has %lld", r->model,
            r->tensor->name, (long long)bytes, (long long)external->offset, external->location,
            (long long)file_bytes);
    return CLEAVE_OK;
}

static cleave_status read_stream(const reader *r, FILE *stream, int64_t file_bytes,
                                 cleave_onnx_tensor *tensor, cleave_arena *arena) {
    int64_t bytes;
    if (!cleave_int64_multiply(tensor->n, (int64_t)cleave_onnx_element_bytes(tensor->type), &bytes))
        return cleave_fail_memory(r->error, "reading external data");
    CLEAVE_TRY(check_size(r, file_bytes, bytes));
    char *raw = malloc((size_t)bytes + 1);
    if (raw == NULL)
        return cleave_fail_memory(r->error, "reading external data");
    cleave_status status = CLEAVE_OK;
    if (fseeko(stream, (off_t)tensor->external->offset, SEEK_SET) != 0 ||
        fread(raw, 1, (size_t)bytes, stream) != (size_t)bytes)
        status = refuse(r, "which can't be read");
    else if (!cleave_onnx_tensor_fill(tensor, tensor->type, raw, arena))
        status = cleave_fail_memory(r->error, "reading external data");
    free(raw);
    return status;
}

static cleave_status read_tensor(const char *path, cleave_onnx_tensor *tensor, cleave_arena *arena,
                                 cleave_error *error) {
    reader r = {path, tensor, error};
    char *file = NULL;
    CLEAVE_TRY(find_file(&r, arena, &file));
    FILE *stream;
    int64_t file_bytes;
    cleave_status status = cleave_file_open(file, &stream, &file_bytes, error);
    free(file);
    if (status != CLEAVE_OK) {
        cleave_error_prefix(error, "%s: tensor %s: ", path, tensor->name);
        return status;
    }
    status = read_stream(&r, stream, file_bytes, tensor, arena);
    fclose(stream);
    return status;
}

cleave_status cleave_onnx_read_external(cleave_onnx_graph *graph, const char *path,
                                        cleave_arena *arena, cleave_error *error) {
    for (int32_t i = 0; i < graph->n_initializers; i++) {
        cleave_onnx_tensor *tensor = &graph->initializers[i];
        if (tensor->external == NULL)
            continue;
        if (path == NULL)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "tensor %s keeps its data in \"%s\", but the model was not read "
                               "from a file, so that has no place",
                               tensor->name, tensor->external->location);
        CLEAVE_TRY(read_tensor(path, tensor, arena, error));
    }
    return CLEAVE_OK;
}
