/* Arena, lists, files, errors and random numbers. */
#include "../../support/ok.h"
#include "base/arena.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "base/list.h"
#include "base/random.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Test(arena, sizes_that_overflow_give_null) {
    cleave_arena arena = {0};
    cr_expect_null(cleave_arena_alloc(&arena, SIZE_MAX / 2, 3));
    cr_expect_null(cleave_arena_alloc(&arena, SIZE_MAX, 1));
    cr_expect_not_null(cleave_arena_alloc(&arena, 0, 8));
    cleave_arena_free(&arena);
}

Test(arena, pieces_are_zeroed_aligned_and_apart) {
    cleave_arena arena = {0};
    enum { N = 2000 };
    unsigned char *pieces[N];
    for (size_t i = 0; i < N; i++) {
        size_t bytes = 1 + i * 7 % 300;
        pieces[i] = cleave_arena_alloc(&arena, bytes, 1);
        cr_assert_not_null(pieces[i]);
        cr_assert_eq((uintptr_t)pieces[i] % (bytes >= 64 ? 64 : 16), 0);
        for (size_t b = 0; b < bytes; b++)
            cr_assert_eq(pieces[i][b], 0);
        memset(pieces[i], (int)(i % 251 + 1), bytes);
    }
    for (size_t i = 0; i < N; i++)
        for (size_t b = 0; b < 1 + i * 7 % 300; b++)
            cr_assert_eq(pieces[i][b], i % 251 + 1, "piece %zu was written over", i);
    cleave_arena_free(&arena);
    cr_expect_eq(arena.used_bytes, 0);
}

Test(list, elements_stay_in_order_while_it_grows) {
    CLEAVE_LIST(int32_t) list = {0};
    for (int32_t i = 0; i < 1000; i++)
        cr_assert(CLEAVE_LIST_PUSH(&list, i));
    for (int32_t i = 0; i < 1000; i++)
        cr_assert_eq(list.items[i], i);
    CLEAVE_LIST_FREE(&list);
    cr_expect_eq(list.n, 0);
}

Test(error, a_long_message_is_cut_and_a_prefix_goes_before_it) {
    cleave_error error = {""};
    cr_expect_eq(cleave_fail(&error, CLEAVE_BAD_INPUT, "%05000d", 1), CLEAVE_BAD_INPUT);
    cr_expect_eq(strlen(error.message), sizeof error.message - 1);
    cleave_fail(&error, CLEAVE_FAILED, "no room");
    cleave_error_prefix(&error, "%s: line %d", "a.json", 3);
    cr_expect_str_eq(error.message, "a.json: line 3: no room");
}

Test(checked, overflow_is_seen) {
    size_t size;
    int64_t product;
    cr_expect_not(cleave_size_multiply(SIZE_MAX, 2, &size));
    cr_expect_not(cleave_int64_multiply(INT64_C(1) << 62, 2, &product));
    cr_expect_not(cleave_int64_add(INT64_MAX, 1, &product));
    cr_expect(cleave_int64_multiply(INT64_C(1) << 31, INT64_C(1) << 31, &product));
    cr_expect_eq(product, INT64_C(1) << 62);
}

Test(file, a_reader_sees_the_old_file_until_the_new_one_is_whole) {
    char folder[] = "/tmp/cleave-file-XXXXXX", path[64], *data;
    size_t bytes;
    cleave_arena arena = {0};
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/data", folder);
    OK(cleave_file_write, path, "old", 3);
    cleave_file_writer writer;
    OK(cleave_file_writer_open, &writer, path);
    fputs("newer", writer.stream);
    OK(cleave_file_read, path, &arena, &data, &bytes);
    cr_expect_str_eq(data, "old");
    OK(cleave_file_writer_commit, &writer);
    OK(cleave_file_read, path, &arena, &data, &bytes);
    cr_expect_str_eq(data, "newer");
    cr_expect_eq(bytes, 5);
    OK(cleave_file_writer_open, &writer, path);
    cleave_file_writer_abandon(&writer);
    cr_expect_eq(unlink(path), 0);
    cr_expect_eq(rmdir(folder), 0, "temporary files are left");
    cleave_arena_free(&arena);
}

Test(file, of_a_folder_it_is_not_written_through_a_link_and_its_checksum_is_known) {
    char folder[] = "/tmp/cleave-file-XXXXXX", path[64], link[64], *data;
    int64_t bytes;
    size_t read;
    uint64_t checksum;
    cleave_arena arena = {0};
    cleave_error error = {""};
    cleave_file_writer writer;
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/data", folder);
    snprintf(link, sizeof link, "%s/link", folder);
    cr_assert_eq(symlink("data", link), 0);
    cr_expect_eq(cleave_file_writer_open_within(&writer, folder, "link", &error), CLEAVE_FAILED);
    cr_expect_eq(access(path, F_OK), -1);
    OK(cleave_file_writer_open_within, &writer, folder, "data");
    OK(cleave_file_writer_put, &writer, "wh", 2);
    OK(cleave_file_writer_put, &writer, "ole", 3);
    OK(cleave_file_writer_commit, &writer);
    OK(cleave_file_read, path, &arena, &data, &read);
    cr_expect_str_eq(data, "whole");
    OK(cleave_file_checksum, path, INT64_MAX, &bytes, &checksum);
    cr_expect_eq(bytes, 5);
    cr_expect_eq(checksum, cleave_checksum_value(&writer.sum));
    unlink(link);
    unlink(path);
    cr_expect_eq(rmdir(folder), 0, "something is left");
    cleave_arena_free(&arena);
}

Test(file, that_it_was_written_to_is_seen) {
    char path[] = "/tmp/cleave-file-XXXXXX";
    cleave_error error = {""};
    int descriptor = mkstemp(path);
    cr_assert(descriptor >= 0 && write(descriptor, "a", 1) == 1);
    cleave_file_stamp stamp = cleave_file_stamp_take(descriptor);
    OK(cleave_file_stamp_check, &stamp, descriptor, path);
    cr_assert_eq(write(descriptor, "b", 1), 1);
    cr_expect_eq(cleave_file_stamp_check(&stamp, descriptor, path, &error), CLEAVE_FAILED);
    cr_expect_not_null(strstr(error.message, "it had 1 bytes and has 2"));
    close(descriptor);
    unlink(path);
}

Test(file, folders_and_missing_files_are_refused_by_name) {
    cleave_arena arena = {0};
    cleave_error error = {""};
    char *data;
    size_t bytes;
    cr_expect_eq(cleave_file_read("/nowhere/x", &arena, &data, &bytes, &error), CLEAVE_BAD_INPUT);
    cr_expect_not_null(strstr(error.message, "/nowhere/x"));
    cr_expect_eq(cleave_file_read("/tmp", &arena, &data, &bytes, &error), CLEAVE_BAD_INPUT);
    cr_expect_eq(cleave_file_write("/nowhere/x", "", 0, &error), CLEAVE_BAD_INPUT);
    cleave_arena_free(&arena);
}

Test(random, below_stays_below_and_reaches_everything) {
    cleave_random random = {0};
    int seen[7] = {0};
    for (int i = 0; i < 7000; i++) {
        int64_t value = cleave_random_below(&random, 7);
        cr_assert(value >= 0 && value < 7);
        seen[value]++;
    }
    /* 1000 expected of each, standard deviation below 30: six of them is never seen by chance. */
    for (int i = 0; i < 7; i++)
        cr_expect(seen[i] > 820 && seen[i] < 1180, "%d came %d times", i, seen[i]);
}

Test(random, a_value_depends_on_its_key_alone) {
    uint64_t key = cleave_hash_string("conv1.weight");
    double first = cleave_random_uniform(key, 5);
    cleave_random_uniform(key, 6);
    cr_expect_eq(first, cleave_random_uniform(key, 5));
    cr_expect_neq(first, cleave_random_uniform(cleave_hash_string("conv2.weight"), 5));
}
