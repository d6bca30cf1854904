/* Safetensors: what is written is read back, and nothing in a header is believed unchecked. */
#include "exec/data/safetensors.h"
#include "../../support/ok.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static cleave_status parse(const char *header, int64_t data_bytes, cleave_error *error) {
    cleave_arena arena = {0};
    cleave_safetensors file = {0};
    cleave_status status =
        cleave_safetensors_parse(header, strlen(header), data_bytes, "x", &arena, &file, error);
    cleave_arena_free(&arena);
    return status;
}

Test(safetensors, what_is_written_in_pieces_is_read_in_pieces) {
    char path[] = "/tmp/cleave_safetensors_XXXXXX";
    int descriptor = mkstemp(path);
    cr_assert(descriptor >= 0);
    close(descriptor);
    cleave_error error = {{0}};
    cleave_safetensors_entry entries[] = {
        {.name = "w\"eight", .type = CLEAVE_F32, .rank = 2, .shape = {3, 2}},
        {.name = "scalar", .type = CLEAVE_F32, .rank = 0},
        {.name = "ids", .type = CLEAVE_I64, .rank = 1, .shape = {2}}};
    float weight[6] = {1, 2, 3, 4, 5, 6}, scalar = 7, got[6];
    int64_t ids[2] = {INT64_MIN, 9}, got_ids[2];
    cleave_safetensors_writer writer;
    OK(cleave_file_writer_open, &writer.file, path);
    OK(cleave_safetensors_writer_begin, &writer, 3, entries);
    cr_expect(cleave_safetensors_write(&writer, &entries[0], 1, 2, weight, &error) != CLEAVE_OK);
    OK(cleave_safetensors_write, &writer, &entries[0], 0, 4, weight);
    cr_expect(cleave_safetensors_write(&writer, &entries[0], 5, 2, weight, &error) != CLEAVE_OK);
    cr_expect(cleave_safetensors_write(&writer, &entries[1], 0, 1, &scalar, &error) != CLEAVE_OK);
    cleave_safetensors_write(&writer, &entries[0], 4, 2, weight + 4, &error);
    cleave_safetensors_write(&writer, &entries[1], 0, 1, &scalar, &error);
    cleave_safetensors_write(&writer, &entries[2], 0, 2, ids, &error);
    OK(cleave_file_writer_commit, &writer.file);

    cleave_arena arena = {0};
    cleave_safetensors file = {0};
    OK(cleave_safetensors_open, path, &arena, &file);
    cr_expect(file.n_entries == 3);
    const cleave_safetensors_entry *w = cleave_safetensors_find(&file, "w\"eight"),
                                   *i = cleave_safetensors_find(&file, "ids");
    cr_assert(w != NULL && i != NULL && cleave_safetensors_find(&file, "other") == NULL);
    cr_expect(w->rank == 2 && w->shape[0] == 3 && w->shape[1] == 2 && w->n_elements == 6);
    OK(cleave_safetensors_read, &file, w, 0, 6, got);
    cr_expect(memcmp(got, weight, sizeof weight) == 0);
    OK(cleave_safetensors_read, &file, w, 2, 3, got);
    cr_expect(memcmp(got, weight + 2, 12) == 0);
    OK(cleave_safetensors_read, &file, i, 0, 2, got_ids);
    cr_expect(memcmp(got_ids, ids, sizeof ids) == 0);
    cr_expect(cleave_safetensors_read(&file, w, 5, 2, got, &error) == CLEAVE_FAILED);
    cleave_safetensors_close(&file);
    cleave_arena_free(&arena);
    unlink(path);
}

/* Written from floats or integers, read as integers, a byte each: 7 after the header of one, whose
   data another program may have left at any other value but 0. */
Test(safetensors, truth_values_are_bytes_of_0_and_1) {
    char path[] = "/tmp/cleave_safetensors_XXXXXX";
    int descriptor = mkstemp(path);
    cr_assert(descriptor >= 0);
    close(descriptor);
    cleave_error error = {{0}};
    cleave_safetensors_entry entries[] = {{.name = "floats",
                                           .type = CLEAVE_F32,
                                           .stored = CLEAVE_STORED_TRUTH,
                                           .rank = 1,
                                           .shape = {5}},
                                          {.name = "integers",
                                           .type = CLEAVE_I64,
                                           .stored = CLEAVE_STORED_TRUTH,
                                           .rank = 2,
                                           .shape = {1, 2}}};
    const float floats[5] = {0, 1, 1, 0, 1};
    const int64_t integers[2] = {1, 0};
    cleave_safetensors_writer writer;
    OK(cleave_file_writer_open, &writer.file, path);
    OK(cleave_safetensors_writer_begin, &writer, 2, entries);
    OK(cleave_safetensors_write, &writer, &entries[0], 0, 2, floats);
    OK(cleave_safetensors_write, &writer, &entries[0], 2, 3, floats + 2);
    OK(cleave_safetensors_write, &writer, &entries[1], 0, 2, integers);
    OK(cleave_file_writer_commit, &writer.file);
    FILE *stream = fopen(path, "r+b");
    char bytes[7];
    cr_assert(stream != NULL && fseek(stream, -7, SEEK_END) == 0);
    cr_assert(fread(bytes, 1, 7, stream) == 7);
    cr_expect(memcmp(bytes, "\0\1\1\0\1\1\0", 7) == 0);
    cr_assert(fseek(stream, -5, SEEK_END) == 0 && fputc(0xff, stream) == 0xff);
    fclose(stream);

    cleave_arena arena = {0};
    cleave_safetensors file = {0};
    int64_t got[4];
    OK(cleave_safetensors_open, path, &arena, &file);
    const cleave_safetensors_entry *entry = cleave_safetensors_find(&file, "floats");
    cr_assert(entry != NULL && entry->stored == CLEAVE_STORED_TRUTH && entry->type == CLEAVE_I64);
    cr_expect(entry->n_elements == 5 && cleave_safetensors_bytes(entry) == 5);
    OK(cleave_safetensors_read, &file, entry, 1, 4, got);
    cr_expect(memcmp(got, (int64_t[]){1, 1, 0, 1}, sizeof got) == 0);
    cr_expect(cleave_safetensors_read(&file, entry, 2, 4, got, &error) == CLEAVE_FAILED);
    cleave_safetensors_close(&file);
    cleave_arena_free(&arena);
    unlink(path);
}

Test(safetensors, files_of_other_programs_are_read) {
    cleave_arena arena = {0};
    cleave_safetensors file = {0};
    OK(cleave_safetensors_open, CLEAVE_SOURCE_DIR "/tests/data/oracles/tiny_mlp.expect.safetensors",
       &arena, &file);
    cr_expect(file.n_entries > 0);
    cleave_safetensors_close(&file);
    cleave_arena_free(&arena);
}

Test(safetensors, good_headers_are_accepted) {
    cleave_error error = {{0}};
    cr_expect(parse("{}", 0, &error) == CLEAVE_OK);
    OK(parse,
       "{\"__metadata__\": {\"by\": \"me\"}, \"a\": {\"dtype\": \"F32\", \"shape\": "
       "[2], \"data_offsets\": [0, 8]}}  ",
       8);
    OK(parse, "{\"a\": {\"dtype\": \"F32\", \"shape\": [0, 3], \"data_offsets\": [0, 0]}}", 0);
}

/* Each with the text that its message must have. */
Test(safetensors, bad_headers_are_refused_with_their_reason) {
    static const struct {
        const char *header;
        int64_t data_bytes;
        const char *reason;
    } examples[] = {
        {"", 0, ""},
        {"[]", 0, ""},
        {"{\"a\": 3}", 0, "a"},
        {"{\"a\": {\"dtype\": \"F64\", \"shape\": [1], \"data_offsets\": [0, 2]}}", 2, "F64"},
        {"{\"a\": {\"dtype\": \"BOOL\", \"shape\": [2], \"data_offsets\": [0, 16]}}", 16,
         "16 bytes for 2 elements of type BOOL"},
        {"{\"a\": {\"shape\": [1], \"data_offsets\": [0, 4]}}", 4, "dtype"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [-1], \"data_offsets\": [0, 4]}}", 4, "-1"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1.5], \"data_offsets\": [0, 4]}}", 4, "1.5"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [4611686018427387904, 4], \"data_offsets\": [0, "
         "4]}}",
         4, "2^63"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1,1,1,1,1,1,1,1,1], \"data_offsets\": [0, 4]}}",
         4, "9"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 8]}}", 8, "8 bytes"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}}", 3, "4"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [4, 8]}}", 8,
         "starts at 4"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [8, 4]}}", 8, "4"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}}", 8, "8"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]}, \"b\": "
         "{\"dtype\": "
         "\"F32\", \"shape\": [1], \"data_offsets\": [4, 8]}}",
         8, "starts at 4"},
    };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        cleave_error error = {{0}};
        cr_expect(parse(examples[i].header, examples[i].data_bytes, &error) == CLEAVE_BAD_INPUT,
                  "%s", examples[i].header);
        cr_expect(strstr(error.message, examples[i].reason) != NULL, "\"%s\" lacks \"%s\"",
                  error.message, examples[i].reason);
    }
}

/* Files cut short, and a header longer than its file. */
Test(safetensors, broken_files_are_refused) {
    static const char *const contents[] = {"", "1234567", "\xff\xff\xff\xff\xff\xff\xff\xff{}",
                                           "\x09\0\0\0\0\0\0\0{}"};
    static const size_t lengths[] = {0, 7, 10, 10};
    for (int i = 0; i < 4; i++) {
        char path[] = "/tmp/cleave_safetensors_XXXXXX";
        int descriptor = mkstemp(path);
        cr_assert(descriptor >= 0);
        cr_assert(write(descriptor, contents[i], lengths[i]) == (ssize_t)lengths[i]);
        close(descriptor);
        cleave_arena arena = {0};
        cleave_safetensors file = {0};
        cleave_error error = {{0}};
        cr_expect(cleave_safetensors_open(path, &arena, &file, &error) == CLEAVE_BAD_INPUT);
        cr_expect(strstr(error.message, path) != NULL, "%s", error.message);
        cleave_arena_free(&arena);
        unlink(path);
    }
    cleave_arena arena = {0};
    cleave_safetensors file = {0};
    cleave_error error = {{0}};
    cr_expect(cleave_safetensors_open("/tmp", &arena, &file, &error) == CLEAVE_BAD_INPUT);
    cr_expect(cleave_safetensors_open("/nowhere/x", &arena, &file, &error) == CLEAVE_BAD_INPUT);
    cleave_arena_free(&arena);
}
