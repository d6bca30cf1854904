/* Two formats behind one list of entries. */
#include "exec/data/tensor_file.h"

#include "graph/import/onnx_file.h"

#include <string.h>

static bool is_onnx(const char *path) {
    size_t n = strlen(path);
    return n > 5 && strcmp(path + n - 5, ".onnx") == 0;
}

static cleave_status list_initializers(const cleave_onnx_graph *graph, cleave_arena *arena,
                                       cleave_tensor_file *file, cleave_error *error) {
    int32_t n = graph->n_initializers;
    file->values = CLEAVE_ARENA_ARRAY(arena, const void *, n);
    file->file.entries = CLEAVE_ARENA_ARRAY(arena, cleave_safetensors_entry, n);
    if (file->values == NULL || file->file.entries == NULL)
        return cleave_fail_memory(error, "reading the initializers of an ONNX file");
    file->file.n_entries = n;
    for (int32_t i = 0; i < n; i++) {
        const cleave_onnx_tensor *tensor = &graph->initializers[i];
        bool is_float = tensor->floats != NULL;
        cleave_safetensors_entry *entry = &file->file.entries[i];
        *entry = (cleave_safetensors_entry){.name = tensor->name,
                                            .type = is_float ? CLEAVE_F32 : CLEAVE_I64,
                                            .truth = tensor->type == CLEAVE_ONNX_BOOL,
                                            .rank = tensor->rank,
                                            .n_elements = tensor->n};
        memcpy(entry->shape, tensor->shape, sizeof tensor->shape);
        file->values[i] = is_float ? (const void *)tensor->floats : (const void *)tensor->integers;
    }
    return CLEAVE_OK;
}

static cleave_status open_onnx(const char *path, cleave_arena *arena, cleave_tensor_file *file,
                               cleave_error *error) {
    cleave_arena scratch = {0};
    cleave_onnx_graph graph;
    char *data;
    size_t bytes;
    cleave_tensor_file opened = {.file = {.path = cleave_arena_string(arena, path)}};
    if (opened.file.path == NULL)
        return cleave_fail_memory(error, "reading the initializers of an ONNX file");
    cleave_status status = cleave_file_read(path, &scratch, &data, &bytes, error);
    if (status == CLEAVE_OK)
        status = cleave_onnx_decode(data, bytes, path, arena, &graph, error);
    cleave_arena_free(&scratch);
    CLEAVE_TRY(status);
    CLEAVE_TRY(cleave_onnx_read_external(&graph, path, arena, error));
    CLEAVE_TRY(list_initializers(&graph, arena, &opened, error));
    *file = opened;
    return CLEAVE_OK;
}

cleave_status cleave_tensor_file_open(const char *path, cleave_arena *arena,
                                      cleave_tensor_file *file, cleave_error *error) {
    if (is_onnx(path))
        return open_onnx(path, arena, file, error);
    cleave_tensor_file opened = {.values = NULL};
    CLEAVE_TRY(cleave_safetensors_open(path, arena, &opened.file, error));
    *file = opened;
    return CLEAVE_OK;
}

void cleave_tensor_file_close(cleave_tensor_file *file) {
    if (file->file.stream != NULL)
        cleave_safetensors_close(&file->file);
}

cleave_status cleave_tensor_file_read(const cleave_tensor_file *file,
                                      const cleave_safetensors_entry *entry, int64_t first,
                                      int64_t count, void *data, cleave_error *error) {
    if (file->values == NULL)
        return cleave_safetensors_read(&file->file, entry, first, count, data, error);
    if (first < 0 || count < 0 || first > entry->n_elements || count > entry->n_elements - first)
        return cleave_fail(error, CLEAVE_FAILED, "elements %lld to %lld of %s, which has %lld",
                           (long long)first, (long long)(first + count), entry->name,
                           (long long)entry->n_elements);
    size_t element = (size_t)cleave_type_bytes(entry->type);
    const char *from = file->values[entry - file->file.entries];
    if (count > 0)
        memcpy(data, from + (size_t)first * element, (size_t)count * element);
    return CLEAVE_OK;
}
