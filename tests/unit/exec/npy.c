/* NumPy's arrays: headers as NumPy writes them, and nothing in them believed unchecked. */
#include "exec/data/npy.h"
#include "../../support/ok.h"

#include "exec/data/tensor_file.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static cleave_status parse(const char *header, int64_t data_bytes, cleave_safetensors_entry *entry,
                           cleave_error *error) {
    return cleave_npy_parse(header, strlen(header), data_bytes, "x.npy", entry, error);
}

Test(npy, headers_say_type_and_shape) {
    cleave_error error = {{0}};
    cleave_safetensors_entry entry = {.name = "x"};
    OK(parse, "{'descr': '<f4', 'fortran_order': False, 'shape': (6, 2), }      \n", 48, &entry);
    cr_assert(entry.type == CLEAVE_F32 && entry.stored == CLEAVE_STORED_WHOLE);
    cr_assert(entry.rank == 2 && entry.shape[0] == 6 && entry.shape[1] == 2);
    cr_assert_str_eq(entry.name, "x");
    cr_assert_eq(
        parse("{\"shape\":(7,),\"descr\":\"|u1\",\"fortran_order\":False}", 7, &entry, &error),
        CLEAVE_OK);
    cr_assert(entry.type == CLEAVE_I64 && entry.stored == CLEAVE_STORED_U8 && entry.rank == 1);
    cr_assert_eq(parse("{'descr': '<i8', 'fortran_order': False, 'shape': ()}", 8, &entry, &error),
                 CLEAVE_OK);
    cr_assert(entry.rank == 0 && entry.n_elements == 1);
}

Test(npy, bad_headers_are_refused_in_a_line) {
    const struct {
        const char *header, *says;
    } bad[] = {
        {"", "no dictionary"},
        {"{'descr': '<f4'", "no key"},
        {"{'descr': '<f4', 'fortran_order': False}", "missing"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (6,)}", "astype(\"float32\")"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,)}", "no simple type"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (6,)}", "Fortran"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-6,)}", "no extent"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6", "no end of the shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", "2^63"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "no extent"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1)}", "too many"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (7,)}", "24 bytes for 7 elements"},
        {"{'descr': '<f4', 'size': 3}", "an unknown key"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cleave_error error = {{0}};
        cleave_safetensors_entry entry = {.name = "x", .rank = -1};
        cr_assert_eq(parse(bad[i].header, 24, &entry, &error), CLEAVE_BAD_INPUT, "%s",
                     bad[i].header);
        cr_assert(strstr(error.message, bad[i].says) != NULL && strchr(error.message, '\n') == NULL,
                  "%s: %s", bad[i].header, error.message);
        cr_assert_eq(entry.rank, -1, "something was written");
    }
}

Test(npy, arrays_are_read_by_their_names) {
    char path[] = "/tmp/cleave_XXXXXX.npy", list[256];
    int descriptor = mkstemps(path, 4);
    char header[] = "\x93NUMPY\x01\x00..{'descr': '<i4', 'fortran_order': False, 'shape': (3,)}";
    header[8] = sizeof header - 1 - 10; /* bytes behind the length */
    header[9] = 0;
    const int32_t values[3] = {-1, 0, 70000};
    cr_assert(write(descriptor, header, sizeof header - 1) == (ssize_t)sizeof header - 1);
    cr_assert(write(descriptor, values, sizeof values) == (ssize_t)sizeof values);
    close(descriptor);
    cleave_arena arena = {0};
    cleave_error error = {{0}};
    cleave_tensor_file file;
    snprintf(list, sizeof list, "ids=%s", path);
    OK(cleave_tensor_file_open, list, &arena, &file);
    const cleave_safetensors_entry *entry = cleave_safetensors_find(&file.file, "ids");
    int64_t got[2];
    cr_assert(entry != NULL);
    OK(cleave_tensor_file_read, &file, entry, 1, 2, got);
    cr_assert(got[0] == 0 && got[1] == 70000);
    cr_assert_neq(cleave_tensor_file_read(&file, entry, 2, 2, got, &error), CLEAVE_OK);
    cleave_tensor_file_close(&file);
    const char *const wrong[][3] = {
        {"", path, ""}, {"=", path, ""}, {"ids=", path, ",ids=a.npy"}, {"ids=", path, ".npy"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(list, sizeof list, "%s%s%s", wrong[i][0], wrong[i][1], wrong[i][2]);
        cr_assert_eq(cleave_tensor_file_open(list, &arena, &file, &error), CLEAVE_BAD_INPUT, "%s",
                     list);
    }
    unlink(path);
    cleave_arena_free(&arena);
}
