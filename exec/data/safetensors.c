/* Numbers in the format are little-endian, and so are the machines that this runs on. */
#include "exec/data/safetensors.h"

#include "base/checked.h"
#include "base/file.h"
#include "base/json.h"
#include "base/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_HEADER_BYTES = 100 * 1000 * 1000 };

/* Types in files. */
static const struct {
    const char *name;
    cleave_type type;
    cleave_stored stored;
} types[] = {{"F32", CLEAVE_F32, CLEAVE_STORED_WHOLE},  {"I64", CLEAVE_I64, CLEAVE_STORED_WHOLE},
             {"BOOL", CLEAVE_I64, CLEAVE_STORED_TRUTH}, {"F16", CLEAVE_F32, CLEAVE_STORED_F16},
             {"BF16", CLEAVE_F32, CLEAVE_STORED_BF16},  {"I32", CLEAVE_I64, CLEAVE_STORED_I32},
             {"U8", CLEAVE_I64, CLEAVE_STORED_U8}};

const char *cleave_safetensors_type_name(const cleave_safetensors_entry *entry) {
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        if (types[t].stored == entry->stored &&
            (types[t].type == entry->type || entry->stored == CLEAVE_STORED_TRUTH))
            return types[t].name;
    return "";
}

static int64_t element_bytes(const cleave_safetensors_entry *entry) {
    switch (entry->stored) {
    case CLEAVE_STORED_TRUTH:
    case CLEAVE_STORED_U8:
        return 1;
    case CLEAVE_STORED_I32:
        return 4;
    case CLEAVE_STORED_F16:
    case CLEAVE_STORED_BF16:
        return 2;
    case CLEAVE_STORED_WHOLE:
        break;
    }
    return cleave_type_bytes(entry->type);
}

int64_t cleave_safetensors_bytes(const cleave_safetensors_entry *entry) {
    return entry->n_elements * element_bytes(entry);
}

static cleave_status read_type(const cleave_json_cursor *at, cleave_safetensors_entry *entry,
                               cleave_error *error) {
    const char *name;
    CLEAVE_TRY(cleave_json_string(at, &name, error));
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        if (strcmp(name, types[t].name) == 0) {
            entry->type = types[t].type;
            entry->stored = types[t].stored;
            return CLEAVE_OK;
        }
    return cleave_json_fail(
        at, error, "type \"%s\" is not supported (only F32, F16, BF16, I64, I32, U8 and BOOL are)",
        name);
}

static cleave_status read_shape(const cleave_json_cursor *at, cleave_safetensors_entry *entry,
                                cleave_error *error) {
    CLEAVE_TRY(cleave_json_expect_array(at, error));
    int32_t rank = cleave_json_count(at);
    if (rank > CLEAVE_MAX_RANK)
        return cleave_json_fail(at, error, "rank %d is more than %d", (int)rank,
                                (int)CLEAVE_MAX_RANK);
    entry->rank = (int)rank;
    entry->n_elements = 1;
    for (int32_t d = 0; d < rank; d++) {
        cleave_json_cursor extent = cleave_json_element(at, d);
        CLEAVE_TRY(cleave_json_integer(&extent, 0, INT64_MAX, &entry->shape[d], error));
        if (!cleave_int64_multiply(entry->n_elements, entry->shape[d], &entry->n_elements))
            return cleave_json_fail(at, error, "the shape has more than 2^63 elements");
    }
    return CLEAVE_OK;
}

static cleave_status read_entry(const cleave_json_cursor *at, int64_t data_bytes,
                                cleave_safetensors_entry *entry, cleave_error *error) {
    static const char *const keys[] = {"dtype", "shape", "data_offsets", NULL};
    cleave_json_cursor member;
    int64_t begin, end, bytes;
    CLEAVE_TRY(cleave_json_expect_object(at, error));
    CLEAVE_TRY(cleave_json_expect_keys(at, keys, error));
    CLEAVE_TRY(cleave_json_get(at, "dtype", &member, error));
    CLEAVE_TRY(read_type(&member, entry, error));
    CLEAVE_TRY(cleave_json_get(at, "shape", &member, error));
    CLEAVE_TRY(read_shape(&member, entry, error));
    CLEAVE_TRY(cleave_json_get_array(at, "data_offsets", &member, error));
    if (cleave_json_count(&member) != 2)
        return cleave_json_fail(&member, error, "expected a begin and an end");
    cleave_json_cursor from = cleave_json_element(&member, 0), to = cleave_json_element(&member, 1);
    CLEAVE_TRY(cleave_json_integer(&from, 0, data_bytes, &begin, error));
    CLEAVE_TRY(cleave_json_integer(&to, begin, data_bytes, &end, error));
    if (!cleave_int64_multiply(entry->n_elements, element_bytes(entry), &bytes) ||
        bytes != end - begin)
        return cleave_json_fail(&member, error, "%lld bytes for %lld elements of type %s",
                                (long long)(end - begin), (long long)entry->n_elements,
                                cleave_safetensors_type_name(entry));
    entry->offset = begin;
    return CLEAVE_OK;
}

/* Ties (of empty tensors) by name, so that the order is one. */
static int compare_entries(const void *a, const void *b) {
    const cleave_safetensors_entry *x = a, *y = b;
    CLEAVE_ORDER_BY(x->offset, y->offset);
    if ((x->n_elements == 0) != (y->n_elements == 0))
        return x->n_elements == 0 ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* The format wants neither holes nor overlaps. */
static cleave_status check_places(const cleave_safetensors *file, int64_t data_bytes,
                                  cleave_error *error) {
    int64_t end = 0;
    for (int32_t i = 0; i < file->n_entries; i++) {
        const cleave_safetensors_entry *entry = &file->entries[i];
        if (entry->offset != end)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "%s: data of %s starts at %lld, but what is before it ends at %lld",
                               file->path, entry->name, (long long)entry->offset, (long long)end);
        end += cleave_safetensors_bytes(entry);
    }
    if (end != data_bytes)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: tensors take %lld bytes, but the file has %lld of data", file->path,
                           (long long)end, (long long)data_bytes);
    return CLEAVE_OK;
}

static cleave_status read_entries(const cleave_json *document, int64_t data_bytes,
                                  cleave_arena *arena, cleave_safetensors *file,
                                  cleave_error *error) {
    cleave_json_cursor root = cleave_json_root(document);
    CLEAVE_TRY(cleave_json_expect_object(&root, error));
    int32_t n = cleave_json_count(&root);
    file->entries = CLEAVE_ARENA_ARRAY(arena, cleave_safetensors_entry, n);
    if (file->entries == NULL)
        return cleave_fail_memory(error, "reading a safetensors header");
    for (int32_t i = 0; i < n; i++) {
        const char *name;
        cleave_json_cursor member = cleave_json_member(&root, i, &name);
        if (strcmp(name, "__metadata__") == 0)
            continue;
        cleave_safetensors_entry *entry = &file->entries[file->n_entries];
        entry->name = cleave_arena_string(arena, name);
        if (entry->name == NULL)
            return cleave_fail_memory(error, "reading a safetensors header");
        CLEAVE_TRY(read_entry(&member, data_bytes, entry, error));
        file->n_entries++;
    }
    CLEAVE_SORT(file->entries, file->n_entries, compare_entries);
    return check_places(file, data_bytes, error);
}

cleave_status cleave_safetensors_parse(const char *header, size_t header_bytes, int64_t data_bytes,
                                       const char *path, cleave_arena *arena,
                                       cleave_safetensors *file, cleave_error *error) {
    cleave_json *document = NULL;
    cleave_safetensors read = {.path = cleave_arena_string(arena, path)};
    if (read.path == NULL)
        return cleave_fail_memory(error, "reading a safetensors header");
    CLEAVE_TRY(cleave_json_parse(header, header_bytes, path, &document, error));
    cleave_status status = read_entries(document, data_bytes, arena, &read, error);
    cleave_json_free(document);
    if (status == CLEAVE_OK)
        *file = read;
    return status;
}

static cleave_status read_header(FILE *stream, int64_t file_bytes, const char *path,
                                 cleave_arena *arena, cleave_safetensors *file,
                                 cleave_error *error) {
    uint64_t length = 0;
    if (fread(&length, 1, sizeof length, stream) != sizeof length)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: not a safetensors file: it has %lld bytes",
                           path, (long long)file_bytes);
    if (length > MOST_HEADER_BYTES || (int64_t)length > file_bytes - 8)
        return cleave_fail(
            error, CLEAVE_BAD_INPUT,
            "%s: not a safetensors file: a header of %llu bytes in a file of %lld bytes", path,
            (unsigned long long)length, (long long)file_bytes);
    char *header = malloc((size_t)length + 1);
    if (header == NULL)
        return cleave_fail_memory(error, "reading a safetensors header");
    int64_t data_start = 8 + (int64_t)length;
    cleave_status status =
        fread(header, 1, (size_t)length, stream) == (size_t)length
            ? cleave_safetensors_parse(header, (size_t)length, file_bytes - data_start, path, arena,
                                       file, error)
            : cleave_fail(error, CLEAVE_BAD_INPUT, "%s can't be read", path);
    free(header);
    if (status == CLEAVE_OK) {
        file->stream = stream;
        file->data_start = data_start;
    }
    return status;
}

cleave_status cleave_safetensors_open(const char *path, cleave_arena *arena,
                                      cleave_safetensors *file, cleave_error *error) {
    FILE *stream;
    int64_t bytes;
    CLEAVE_TRY(cleave_file_open(path, &stream, &bytes, error));
    cleave_status status = read_header(stream, bytes, path, arena, file, error);
    if (status != CLEAVE_OK)
        fclose(stream);
    return status;
}

void cleave_safetensors_close(cleave_safetensors *file) {
    if (file->stream != NULL)
        fclose(file->stream);
    file->stream = NULL;
}

const cleave_safetensors_entry *cleave_safetensors_find(const cleave_safetensors *file,
                                                        const char *name) {
    for (int32_t i = 0; i < file->n_entries; i++)
        if (strcmp(file->entries[i].name, name) == 0)
            return &file->entries[i];
    return NULL;
}

static bool in_range(const cleave_safetensors_entry *entry, int64_t first, int64_t count) {
    return first >= 0 && count >= 0 && first <= entry->n_elements &&
           count <= entry->n_elements - first;
}

static cleave_status fail_range(const cleave_safetensors_entry *entry, int64_t first, int64_t count,
                                cleave_error *error) {
    return cleave_fail(error, CLEAVE_FAILED, "elements %lld to %lld of %s, which has %lld",
                       (long long)first, (long long)(first + count), entry->name,
                       (long long)entry->n_elements);
}

/* As of IEEE 754: 5 bits of exponent and 10 of fraction. */
static float of_f16(uint16_t half) {
    int exponent = half >> 10 & 31, fraction = half & 1023;
    float size = exponent == 31  ? (fraction == 0 ? INFINITY : NAN)
                 : exponent == 0 ? ldexpf((float)fraction, -24)
                                 : ldexpf((float)(1024 + fraction), exponent - 25);
    return half >> 15 != 0 ? -size : size;
}

/* The upper half of an f32. */
static float of_bf16(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static int64_t integer_at(cleave_stored stored, int64_t i, const uint8_t *from) {
    int32_t value;
    if (stored == CLEAVE_STORED_I32) {
        memcpy(&value, from + 4 * i, sizeof value);
        return value;
    }
    return stored == CLEAVE_STORED_U8 ? from[i] : from[i] != 0;
}

static float float_at(cleave_stored stored, int64_t i, const uint8_t *from) {
    uint16_t half;
    memcpy(&half, from + 2 * i, sizeof half);
    return stored == CLEAVE_STORED_F16 ? of_f16(half) : of_bf16(half);
}

/* `from` lies at the end of `to`: no element is overwritten before it was read. */
static void widen(const cleave_safetensors_entry *entry, int64_t count, const uint8_t *from,
                  uint8_t *to) {
    if (entry->stored == CLEAVE_STORED_WHOLE)
        return;
    for (int64_t i = 0; i < count; i++) {
        int64_t integer = entry->type == CLEAVE_I64 ? integer_at(entry->stored, i, from) : 0;
        float real = entry->type == CLEAVE_I64 ? 0 : float_at(entry->stored, i, from);
        if (entry->type == CLEAVE_I64)
            memcpy(to + i * (int64_t)sizeof integer, &integer, sizeof integer);
        else
            memcpy(to + i * (int64_t)sizeof real, &real, sizeof real);
    }
}

cleave_status cleave_safetensors_read(const cleave_safetensors *file,
                                      const cleave_safetensors_entry *entry, int64_t first,
                                      int64_t count, void *data, cleave_error *error) {
    int64_t size = element_bytes(entry);
    if (!in_range(entry, first, count))
        return fail_range(entry, first, count, error);
    if (count == 0)
        return CLEAVE_OK;
    /* Shorter elements go where the last whole ones will lie, and become whole from the first on.
     */
    uint8_t *into = (uint8_t *)data + count * (cleave_type_bytes(entry->type) - size);
    CLEAVE_TRY(cleave_file_read_at(fileno(file->stream), file->path,
                                   file->data_start + entry->offset + first * size, into,
                                   (size_t)count * (size_t)size, error));
    widen(entry, count, into, data);
    return CLEAVE_OK;
}

static void write_entry(cleave_json_writer *json, const cleave_safetensors_entry *entry) {
    cleave_json_open_object(json, entry->name, true);
    cleave_json_set_string(json, "dtype", cleave_safetensors_type_name(entry));
    cleave_json_open_array(json, "shape", true);
    for (int d = 0; d < entry->rank; d++)
        cleave_json_put_integer(json, entry->shape[d]);
    cleave_json_end_array(json);
    cleave_json_open_array(json, "data_offsets", true);
    cleave_json_put_integer(json, entry->offset);
    cleave_json_put_integer(json, entry->offset + cleave_safetensors_bytes(entry));
    cleave_json_end_array(json);
    cleave_json_end_object(json);
}

static cleave_status place_entries(int32_t n, cleave_safetensors_entry *entries, int64_t *bytes,
                                   cleave_error *error) {
    *bytes = 0;
    for (int32_t i = 0; i < n; i++) {
        cleave_safetensors_entry *entry = &entries[i];
        int64_t size;
        bool fits = true;
        entry->n_elements = 1;
        entry->offset = *bytes;
        for (int d = 0; d < entry->rank && fits; d++)
            fits = cleave_int64_multiply(entry->n_elements, entry->shape[d], &entry->n_elements);
        if (!fits || !cleave_int64_multiply(entry->n_elements, element_bytes(entry), &size) ||
            !cleave_int64_add(*bytes, size, bytes))
            return cleave_fail(error, CLEAVE_FAILED, "tensor %s is too large for a file",
                               entry->name);
    }
    return CLEAVE_OK;
}

/* The header is padded with blanks so that data are aligned to 8 bytes. */
static cleave_status write_header(cleave_safetensors_writer *writer, cleave_json_writer *json,
                                  cleave_error *error) {
    static const char blanks[8] = "       ";
    if (json->failed)
        return cleave_fail_memory(error, "writing a safetensors header");
    uint64_t length = (json->n + 7) / 8 * 8;
    CLEAVE_TRY(cleave_file_writer_put(&writer->file, &length, sizeof length, error));
    CLEAVE_TRY(cleave_file_writer_put(&writer->file, json->text, json->n, error));
    return cleave_file_writer_put(&writer->file, blanks, (size_t)(length - json->n), error);
}

cleave_status cleave_safetensors_writer_begin(cleave_safetensors_writer *writer, int32_t n_entries,
                                              cleave_safetensors_entry *entries,
                                              cleave_error *error) {
    cleave_json_writer json = {0};
    int64_t bytes;
    cleave_status status = place_entries(n_entries, entries, &bytes, error);
    writer->written = 0;
    cleave_json_begin_object(&json, false);
    for (int32_t i = 0; i < n_entries && status == CLEAVE_OK; i++)
        write_entry(&json, &entries[i]);
    cleave_json_end_object(&json);
    if (status == CLEAVE_OK)
        status = write_header(writer, &json, error);
    cleave_json_writer_free(&json);
    if (status != CLEAVE_OK)
        cleave_file_writer_abandon(&writer->file);
    return status;
}

static cleave_status write_truths(cleave_safetensors_writer *writer, cleave_type type,
                                  int64_t count, const void *data, cleave_error *error) {
    bool truths[4096];
    for (int64_t i = 0; i < count;) {
        size_t n = 0;
        for (; n < sizeof truths && i < count; i++)
            truths[n++] = type == CLEAVE_I64 ? ((const int64_t *)data)[i] != 0
                                             : ((const float *)data)[i] != 0.0f;
        CLEAVE_TRY(cleave_file_writer_put(&writer->file, truths, n, error));
    }
    return CLEAVE_OK;
}

cleave_status cleave_safetensors_write(cleave_safetensors_writer *writer,
                                       const cleave_safetensors_entry *entry, int64_t first,
                                       int64_t count, const void *data, cleave_error *error) {
    int64_t size = element_bytes(entry);
    if (!in_range(entry, first, count))
        return fail_range(entry, first, count, error);
    if (count == 0)
        return CLEAVE_OK;
    if (entry->offset + first * size != writer->written)
        return cleave_fail(error, CLEAVE_FAILED, "%s: %s is written out of order",
                           writer->file.path, entry->name);
    CLEAVE_TRY(entry->stored == CLEAVE_STORED_TRUTH
                   ? write_truths(writer, entry->type, count, data, error)
                   : cleave_file_writer_put(&writer->file, data, (size_t)(count * size), error));
    writer->written += count * size;
    return CLEAVE_OK;
}
