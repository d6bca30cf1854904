/* Numbers in these files are little-endian, as in safetensors. */
#include "exec/data/npy.h"

#include "base/checked.h"
#include "base/file.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    cleave_type type;
    cleave_stored stored;
    int64_t bytes;
} types[] = {
    {"<f4", CLEAVE_F32, CLEAVE_STORED_WHOLE, 4}, {"<f2", CLEAVE_F32, CLEAVE_STORED_F16, 2},
    {"<i8", CLEAVE_I64, CLEAVE_STORED_WHOLE, 8}, {"<i4", CLEAVE_I64, CLEAVE_STORED_I32, 4},
    {"|u1", CLEAVE_I64, CLEAVE_STORED_U8, 1},    {"|b1", CLEAVE_I64, CLEAVE_STORED_TRUTH, 1}};

/* ---- lists ------------------------------------------------------------------------------------
 */

bool cleave_npy_is_list(const char *text) {
    size_t n = strlen(text);
    return n > 4 && strcmp(text + n - 4, ".npy") == 0;
}

cleave_status cleave_npy_list_parse(const char *text, cleave_arena *arena, cleave_npy_file *files,
                                    int32_t *n, cleave_error *error) {
    *n = 0;
    char *rest = cleave_arena_string(arena, text), *saved = NULL;
    if (rest == NULL)
        return cleave_fail_memory(error, "reading a list of files");
    for (char *part = strtok_r(rest, ",", &saved); part != NULL;
         part = strtok_r(NULL, ",", &saved)) {
        char *equals = strchr(part, '=');
        if (equals == NULL || equals == part || !cleave_npy_is_list(equals + 1))
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "%s: \"%.200s\" is not NAME=FILE.npy: the tensor that it is is to "
                               "be said",
                               text, part);
        if (*n == CLEAVE_MOST_NPY_FILES)
            return cleave_fail(error, CLEAVE_BAD_INPUT, "%.200s: more than %d files", text,
                               (int)CLEAVE_MOST_NPY_FILES);
        *equals = '\0';
        files[(*n)++] = (cleave_npy_file){.name = part, .path = equals + 1};
        for (int32_t i = 0; i + 1 < *n; i++)
            if (strcmp(files[i].name, part) == 0)
                return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: %.200s is there twice", text,
                                   part);
    }
    return CLEAVE_OK;
}

/* ---- headers ----------------------------------------------------------------------------------
 */

/* Where the reading of a header stands; at the end is a zero byte. */
typedef struct reader {
    const char *at, *path;
    cleave_safetensors_entry *entry;
    int64_t element_bytes; /* 0: the type was not there yet */
    bool has_order, has_shape;
} reader;

static cleave_status fail_at(const reader *r, const char *what, cleave_error *error) {
    char text[32];
    size_t n = 0;
    for (; n + 1 < sizeof text && r->at[n] != '\0' && isprint((unsigned char)r->at[n]); n++)
        text[n] = r->at[n];
    text[n] = '\0';
    return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: %s in the header of an array, at \"%s\"",
                       r->path, what, text);
}

static void skip_blanks(reader *r) { r->at += strspn(r->at, " \t\n"); }

static bool take(reader *r, char c) {
    skip_blanks(r);
    bool there = *r->at == c;
    r->at += there;
    return there;
}

/* A text between quotes, without escapes. */
static bool take_text(reader *r, char *text, size_t bytes) {
    if (!take(r, '\'') && !take(r, '"'))
        return false;
    char quote = r->at[-1];
    size_t n = 0;
    for (; *r->at != quote && *r->at != '\0' && n + 1 < bytes; r->at++)
        text[n++] = *r->at;
    text[n] = '\0';
    return take(r, quote);
}

static bool take_word(reader *r, const char *word) {
    skip_blanks(r);
    size_t n = strlen(word);
    bool there = strncmp(r->at, word, n) == 0;
    r->at += there ? n : 0;
    return there;
}

static cleave_status read_type(reader *r, cleave_error *error) {
    char name[16];
    if (!take_text(r, name, sizeof name))
        return fail_at(r, "no simple type", error);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        if (strcmp(name, types[t].name) == 0) {
            r->entry->type = types[t].type;
            r->entry->stored = types[t].stored;
            r->element_bytes = types[t].bytes;
            return CLEAVE_OK;
        }
    return cleave_fail(error, CLEAVE_BAD_INPUT,
                       "%s: type \"%s\" is not supported (only <f4, <f2, <i8, <i4, |u1 and |b1 "
                       "are: astype(\"float32\") in NumPy makes one of them)",
                       r->path, name);
}

static cleave_status read_order(reader *r, cleave_error *error) {
    r->has_order = true;
    if (take_word(r, "False"))
        return CLEAVE_OK;
    if (!take_word(r, "True"))
        return fail_at(r, "neither True nor False", error);
    return cleave_fail(error, CLEAVE_BAD_INPUT,
                       "%s: lies in Fortran's order, its first index running fastest: "
                       "numpy.ascontiguousarray makes it one that can be read",
                       r->path);
}

static cleave_status read_shape(reader *r, cleave_error *error) {
    cleave_safetensors_entry *entry = r->entry;
    entry->n_elements = 1;
    entry->rank = 0;
    r->has_shape = true;
    if (!take(r, '('))
        return fail_at(r, "no shape", error);
    while (!take(r, ')')) {
        char *end;
        errno = 0;
        long long extent = isdigit((unsigned char)*r->at) ? strtoll(r->at, &end, 10) : -1;
        if (extent < 0 || errno != 0)
            return fail_at(r, "no extent", error);
        if (entry->rank == CLEAVE_MAX_RANK)
            return fail_at(r, "too many dimensions", error);
        if (!cleave_int64_multiply(entry->n_elements, extent, &entry->n_elements))
            return fail_at(r, "more than 2^63 elements", error);
        entry->shape[entry->rank++] = extent;
        r->at = end;
        bool more = take(r, ',');
        skip_blanks(r);
        if (!more && *r->at != ')')
            return fail_at(r, "no end of the shape", error);
    }
    return CLEAVE_OK;
}

static cleave_status read_members(reader *r, cleave_error *error) {
    char key[32];
    if (!take(r, '{'))
        return fail_at(r, "no dictionary", error);
    while (!take(r, '}')) {
        if (!take_text(r, key, sizeof key) || !take(r, ':'))
            return fail_at(r, "no key", error);
        if (strcmp(key, "descr") == 0)
            CLEAVE_TRY(read_type(r, error));
        else if (strcmp(key, "fortran_order") == 0)
            CLEAVE_TRY(read_order(r, error));
        else if (strcmp(key, "shape") == 0)
            CLEAVE_TRY(read_shape(r, error));
        else
            return fail_at(r, "an unknown key", error);
        take(r, ',');
    }
    if (r->element_bytes == 0 || !r->has_order || !r->has_shape)
        return fail_at(r, "type, order or shape missing", error);
    return CLEAVE_OK;
}

cleave_status cleave_npy_parse(const char *header, size_t header_bytes, int64_t data_bytes,
                               const char *path, cleave_safetensors_entry *entry,
                               cleave_error *error) {
    cleave_safetensors_entry read = {.name = entry->name};
    int64_t bytes;
    if (header_bytes > CLEAVE_MOST_NPY_HEADER_BYTES)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: a header of %zu bytes is too long", path,
                           header_bytes);
    char *text = malloc(header_bytes + 1);
    if (text == NULL)
        return cleave_fail_memory(error, "reading the header of an array");
    memcpy(text, header, header_bytes);
    text[header_bytes] = '\0';
    reader r = {.at = text, .path = path, .entry = &read};
    cleave_status status = read_members(&r, error);
    free(text);
    CLEAVE_TRY(status);
    if (!cleave_int64_multiply(read.n_elements, r.element_bytes, &bytes) || bytes != data_bytes)
        return cleave_fail(
            error, CLEAVE_BAD_INPUT, "%s: %lld bytes for %lld elements of %lld bytes each", path,
            (long long)data_bytes, (long long)read.n_elements, (long long)r.element_bytes);
    *entry = read;
    return CLEAVE_OK;
}

/* ---- files ------------------------------------------------------------------------------------
 */

/* The header of an open file, by its versions 1, 2 and 3. */
static cleave_status read_header(FILE *stream, int64_t bytes, cleave_safetensors *file,
                                 cleave_error *error) {
    uint8_t start[12];
    size_t got = fread(start, 1, sizeof start, stream);
    if (got != sizeof start || memcmp(start, "\x93NUMPY", 6) != 0 || start[6] < 1 || start[6] > 3)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: not a file of a NumPy array", file->path);
    int64_t begin = start[6] == 1 ? 10 : 12;
    int64_t length = start[8] | start[9] << 8;
    if (start[6] > 1)
        length |= (int64_t)start[10] << 16 | (int64_t)start[11] << 24;
    if (length > CLEAVE_MOST_NPY_HEADER_BYTES || length > bytes - begin)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: a header of %lld bytes in a file of %lld bytes", file->path,
                           (long long)length, (long long)bytes);
    char *header = malloc((size_t)length + 1);
    if (header == NULL)
        return cleave_fail_memory(error, "reading the header of an array");
    file->data_start = begin + length;
    cleave_status status =
        cleave_file_read_at(fileno(stream), file->path, begin, header, (size_t)length, error);
    if (status == CLEAVE_OK)
        status = cleave_npy_parse(header, (size_t)length, bytes - file->data_start, file->path,
                                  file->entries, error);
    free(header);
    return status;
}

cleave_status cleave_npy_open(const cleave_npy_file *npy, cleave_arena *arena,
                              cleave_safetensors *file, cleave_error *error) {
    cleave_safetensors opened = {.path = npy->path,
                                 .n_entries = 1,
                                 .entries = CLEAVE_ARENA_ARRAY(arena, cleave_safetensors_entry, 1)};
    if (opened.entries == NULL)
        return cleave_fail_memory(error, "reading an array");
    opened.entries[0].name = npy->name;
    FILE *stream;
    int64_t bytes;
    CLEAVE_TRY(cleave_file_open(npy->path, &stream, &bytes, error));
    cleave_status status = read_header(stream, bytes, &opened, error);
    if (status != CLEAVE_OK) {
        fclose(stream);
        return status;
    }
    opened.stream = stream;
    *file = opened;
    return CLEAVE_OK;
}
