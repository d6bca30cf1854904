/* Four formats behind one list of entries. */
#include "exec/data/tensor_file.h"

#include "exec/data/npy.h"
#include "exec/data/weight_index.h"
#include "graph/import/onnx/onnx_file.h"

#include <fcntl.h>
#include <string.h>

static bool ends_with(const char *path, const char *end) {
    size_t n = strlen(path), n_end = strlen(end);
    return n > n_end && strcmp(path + n - n_end, end) == 0;
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
        *entry = (cleave_safetensors_entry){
            .name = tensor->name,
            .type = is_float ? CLEAVE_F32 : CLEAVE_I64,
            .stored = tensor->type == CLEAVE_ONNX_BOOL ? CLEAVE_STORED_TRUTH : CLEAVE_STORED_WHOLE,
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

/* ---- an index and its shards ------------------------------------------------------------------
 */

/* The name of a shard, beside the index. */
static const char *beside(const char *path, const char *name, cleave_arena *arena) {
    const char *slash = strrchr(path, '/');
    size_t folder = slash != NULL ? (size_t)(slash + 1 - path) : 0, n = strlen(name);
    char *joined = CLEAVE_ARENA_ARRAY(arena, char, folder + n + 1);
    if (joined == NULL)
        return NULL;
    memcpy(joined, path, folder);
    memcpy(joined + folder, name, n + 1);
    return joined;
}

static cleave_status open_shards(const cleave_weight_index *index, cleave_arena *arena,
                                 cleave_tensor_file *file, cleave_error *error) {
    file->shards = CLEAVE_ARENA_ARRAY(arena, cleave_safetensors, index->n_shards);
    if (file->shards == NULL)
        return cleave_fail_memory(error, "reading an index of weights");
    for (int32_t s = 0; s < index->n_shards; s++) {
        const char *path = beside(file->file.path, index->shards[s], arena);
        if (path == NULL)
            return cleave_fail_memory(error, "reading an index of weights");
        CLEAVE_TRY(cleave_safetensors_open(path, arena, &file->shards[s], error));
        file->n_shards++;
    }
    return CLEAVE_OK;
}

static cleave_status list_indexed(const cleave_weight_index *index, cleave_arena *arena,
                                  cleave_tensor_file *file, cleave_error *error) {
    file->file.entries = CLEAVE_ARENA_ARRAY(arena, cleave_safetensors_entry, index->n_tensors);
    file->shard_of = CLEAVE_ARENA_ARRAY(arena, int32_t, index->n_tensors);
    if (file->file.entries == NULL || file->shard_of == NULL)
        return cleave_fail_memory(error, "reading an index of weights");
    for (int32_t i = 0; i < index->n_tensors; i++) {
        const cleave_indexed_tensor *tensor = &index->tensors[i];
        const cleave_safetensors *shard = &file->shards[tensor->shard];
        const cleave_safetensors_entry *entry = cleave_safetensors_find(shard, tensor->name);
        if (entry == NULL)
            return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: tensor %s is not in %s",
                               file->file.path, tensor->name, shard->path);
        file->file.entries[i] = *entry;
        file->shard_of[i] = tensor->shard;
        file->file.n_entries++;
    }
    return CLEAVE_OK;
}

static cleave_status open_index(const char *path, cleave_arena *arena, cleave_tensor_file *file,
                                cleave_error *error) {
    cleave_arena scratch = {0};
    cleave_weight_index index = {0};
    char *text;
    size_t bytes;
    cleave_tensor_file opened = {.file = {.path = cleave_arena_string(arena, path)}};
    if (opened.file.path == NULL)
        return cleave_fail_memory(error, "reading an index of weights");
    cleave_status status = cleave_file_read(path, &scratch, &text, &bytes, error);
    if (status == CLEAVE_OK)
        status = cleave_weight_index_parse(text, bytes, path, &scratch, &index, error);
    if (status == CLEAVE_OK)
        status = open_shards(&index, arena, &opened, error);
    if (status == CLEAVE_OK)
        status = list_indexed(&index, arena, &opened, error);
    cleave_arena_free(&scratch);
    if (status == CLEAVE_OK)
        *file = opened;
    else
        cleave_tensor_file_close(&opened);
    return status;
}

/* ---- weights of experts -----------------------------------------------------------------------
 */

/* Lists what the file has in parts behind what it has whole. */
static cleave_status add_stacks(cleave_tensor_file *file, cleave_arena *arena,
                                cleave_error *error) {
    int32_t n = file->file.n_entries;
    file->n_plain = n;
    CLEAVE_TRY(cleave_stacks_find(file->file.entries, n, arena, &file->stacks, error));
    if (file->stacks.n == 0)
        return CLEAVE_OK;
    cleave_safetensors_entry *all =
        CLEAVE_ARENA_ARRAY(arena, cleave_safetensors_entry, n + file->stacks.n);
    if (all == NULL)
        return cleave_fail_memory(error, "stacking weights of experts");
    memcpy(all, file->file.entries, (size_t)n * sizeof *all);
    for (int32_t i = 0; i < file->stacks.n; i++)
        all[n + i] = file->stacks.items[i].entry;
    file->file.entries = all;
    file->file.n_entries += file->stacks.n;
    return CLEAVE_OK;
}

static cleave_status read_stack(const cleave_tensor_file *file, const cleave_stack *stack,
                                int64_t first, int64_t count, char *data, cleave_error *error) {
    int64_t of_a_part = stack->entry.n_elements / stack->n_parts;
    while (count > 0) {
        int64_t from = first % of_a_part;
        int64_t n = count < of_a_part - from ? count : of_a_part - from;
        CLEAVE_TRY(cleave_tensor_file_read(
            file, &file->file.entries[stack->parts[first / of_a_part]], from, n, data, error));
        data += n * cleave_type_bytes(stack->entry.type);
        first += n;
        count -= n;
    }
    return CLEAVE_OK;
}

/* ---- arrays -----------------------------------------------------------------------------------
 */

static cleave_status open_arrays(const char *list, cleave_arena *arena, cleave_tensor_file *file,
                                 cleave_error *error) {
    cleave_npy_file arrays[CLEAVE_MOST_NPY_FILES];
    int32_t n;
    cleave_tensor_file opened = {.file = {.path = cleave_arena_string(arena, list)}};
    CLEAVE_TRY(cleave_npy_list_parse(list, arena, arrays, &n, error));
    opened.shards = CLEAVE_ARENA_ARRAY(arena, cleave_safetensors, n);
    opened.shard_of = CLEAVE_ARENA_ARRAY(arena, int32_t, n);
    opened.file.entries = CLEAVE_ARENA_ARRAY(arena, cleave_safetensors_entry, n);
    if (opened.file.path == NULL || opened.shards == NULL || opened.shard_of == NULL ||
        opened.file.entries == NULL)
        return cleave_fail_memory(error, "reading arrays");
    for (int32_t i = 0; i < n; i++) {
        cleave_status status = cleave_npy_open(&arrays[i], arena, &opened.shards[i], error);
        if (status != CLEAVE_OK) {
            cleave_tensor_file_close(&opened);
            return status;
        }
        opened.n_shards++;
        opened.shard_of[i] = i;
        opened.file.entries[opened.file.n_entries++] = opened.shards[i].entries[0];
    }
    opened.n_plain = opened.file.n_entries;
    *file = opened;
    return CLEAVE_OK;
}

/* ---- any of them ------------------------------------------------------------------------------
 */

cleave_status cleave_tensor_file_open(const char *path, cleave_arena *arena,
                                      cleave_tensor_file *file, cleave_error *error) {
    if (ends_with(path, ".onnx"))
        return open_onnx(path, arena, file, error);
    if (cleave_npy_is_list(path))
        return open_arrays(path, arena, file, error);
    cleave_tensor_file opened = {.values = NULL};
    CLEAVE_TRY(ends_with(path, ".json")
                   ? open_index(path, arena, &opened, error)
                   : cleave_safetensors_open(path, arena, &opened.file, error));
    cleave_status status = add_stacks(&opened, arena, error);
    if (status == CLEAVE_OK)
        *file = opened;
    else
        cleave_tensor_file_close(&opened);
    return status;
}

void cleave_tensor_file_close(cleave_tensor_file *file) {
    cleave_safetensors_close(&file->file);
    for (int32_t s = 0; s < file->n_shards; s++)
        cleave_safetensors_close(&file->shards[s]);
}

int32_t cleave_tensor_file_n_parts(const cleave_tensor_file *file) {
    return file->n_shards > 0 ? file->n_shards : file->file.stream != NULL ? 1 : 0;
}

const cleave_safetensors *cleave_tensor_file_part(const cleave_tensor_file *file, int32_t i) {
    return file->n_shards > 0 ? &file->shards[i] : &file->file;
}

/* The part that has this tensor. */
static const cleave_safetensors *part_of(const cleave_tensor_file *file,
                                         const cleave_safetensors_entry *entry) {
    return cleave_tensor_file_part(
        file, file->n_shards > 0 ? file->shard_of[entry - file->file.entries] : 0);
}

cleave_status cleave_tensor_file_read(const cleave_tensor_file *file,
                                      const cleave_safetensors_entry *entry, int64_t first,
                                      int64_t count, void *data, cleave_error *error) {
    if (file->values == NULL) {
        int64_t i = entry - file->file.entries;
        return i < file->n_plain
                   ? cleave_safetensors_read(part_of(file, entry), entry, first, count, data, error)
                   : read_stack(file, &file->stacks.items[i - file->n_plain], first, count, data,
                                error);
    }
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

void cleave_tensor_file_expect(const cleave_tensor_file *file,
                               const cleave_safetensors_entry *entry, int64_t first,
                               int64_t count) {
    if (file->values != NULL || entry->n_elements == 0 ||
        entry - file->file.entries >= file->n_plain)
        return;
    const cleave_safetensors *part = part_of(file, entry);
    int64_t size = cleave_safetensors_bytes(entry) / entry->n_elements;
    posix_fadvise(fileno(part->stream), (off_t)(part->data_start + entry->offset + first * size),
                  (off_t)(count * size), POSIX_FADV_WILLNEED);
}
