/* Replays files without libFuzzer: each as it is, cut short at 32 places, and with 64 bytes changed
   by a fixed rule.  Arguments are files and folders. */
#include "base/file.h"
#include "base/random.h"
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Each input on the heap in its exact size, so that a sanitizer sees reads past the end. */
static void feed(const char *data, size_t bytes) {
    uint8_t *copy = malloc(bytes > 0 ? bytes : 1);
    if (copy == NULL)
        abort();
    memcpy(copy, data, bytes);
    LLVMFuzzerTestOneInput(copy, bytes);
    free(copy);
}

static int replay_file(const char *path) {
    enum { LARGEST = 1 << 20, N_CUTS = 32, N_CHANGES = 64 };
    cleave_arena arena = {0};
    cleave_error error;
    char *data;
    size_t bytes;
    if (cleave_file_read(path, &arena, &data, &bytes, &error) != CLEAVE_OK) {
        fprintf(stderr, "%s\n", error.message);
        cleave_arena_free(&arena);
        return 0;
    }
    feed(data, bytes);
    /* A large file would take long and shows nothing that a small one does not. */
    if (bytes > 0 && bytes <= LARGEST) {
        for (size_t i = 0; i < N_CUTS; i++)
            feed(data, bytes * i / N_CUTS);
        cleave_random random = {.key = cleave_hash_string("replay")};
        for (int i = 0; i < N_CHANGES; i++) {
            char *byte = &data[cleave_random_below(&random, (int64_t)bytes)], before = *byte;
            *byte = (char)cleave_random_below(&random, 256);
            feed(data, bytes);
            *byte = before;
        }
    }
    cleave_arena_free(&arena);
    return 1;
}

static int replay_folder(const char *path) {
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort), n = 0;
    for (int i = 0; i < count; i++) {
        char file[4096];
        snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
        struct stat info;
        if (stat(file, &info) == 0 && S_ISREG(info.st_mode))
            n += replay_file(file);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return n;
}

int main(int n_arguments, char **arguments) {
    int n = 0;
    for (int i = 1; i < n_arguments; i++) {
        struct stat info;
        if (stat(arguments[i], &info) == 0 && S_ISDIR(info.st_mode))
            n += replay_folder(arguments[i]);
        else
            n += replay_file(arguments[i]);
    }
    printf("%d files replayed\n", n);
    return n > 0 ? 0 : 1; /* a test that replays nothing is no test */
}
