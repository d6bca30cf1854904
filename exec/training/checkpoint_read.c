/* Checkpoints that are there: found, and read whole before a run goes on from one. */
#include "exec/training/checkpoint_read.h"

#include "base/file.h"
#include "base/order.h"
#include "exec/training/checkpoint.h"
#include "exec/training/checkpoint_match.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void cleave_checkpoint_path(const char *folder, int64_t step, char *path, size_t bytes) {
    snprintf(path, bytes, "%s/%s%lld", folder, CHECKPOINT_PREFIX, (long long)step);
}

static int compare_steps(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return CLEAVE_ORDER(y, x);
}

bool checkpoint_list(const char *folder, const char *prefix, checkpoint_steps *steps) {
    DIR *opened = opendir(folder);
    size_t n_prefix = strlen(prefix);
    bool fits = opened != NULL;
    for (struct dirent *entry; fits && (entry = readdir(opened)) != NULL;) {
        const char *digits = entry->d_name + n_prefix;
        if (strncmp(entry->d_name, prefix, n_prefix) != 0)
            continue;
        size_t n = strspn(digits, "0123456789");
        if (n > 0 && n < 14 && digits[n] == '\0' && (digits[0] != '0' || n == 1))
            fits = CLEAVE_LIST_PUSH(steps, strtoll(digits, NULL, 10));
    }
    if (opened != NULL)
        closedir(opened);
    CLEAVE_SORT(steps->items, steps->n, compare_steps);
    return fits;
}

int64_t cleave_checkpoint_newest(const char *folder) {
    checkpoint_steps steps = {0};
    int64_t newest =
        checkpoint_list(folder, CHECKPOINT_PREFIX, &steps) && steps.n > 0 ? steps.items[0] : -1;
    CLEAVE_LIST_FREE(&steps);
    return newest;
}

cleave_status checkpoint_read_manifest(const char *folder, cleave_arena *arena,
                                       cleave_manifest *manifest, cleave_error *error) {
    const char *path = cleave_arena_printf(arena, "%s/manifest.json", folder);
    struct stat info;
    char *text;
    size_t bytes;
    if (path == NULL)
        return cleave_fail_memory(error, "reading a checkpoint");
    if (lstat(path, &info) == 0 &&
        (!S_ISREG(info.st_mode) || info.st_size > CLEAVE_MOST_MANIFEST_BYTES))
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: no manifest of a checkpoint", path);
    CLEAVE_TRY(cleave_file_read(path, arena, &text, &bytes, error));
    return cleave_manifest_parse(text, bytes, path, arena, manifest, error);
}

/* Is every file there, as long as it was and with the same contents? */
static cleave_status check_files(const char *folder, const cleave_manifest *manifest,
                                 cleave_arena *arena, cleave_error *error) {
    for (int32_t i = 0; i < manifest->n_files; i++) {
        const cleave_manifest_file *file = &manifest->files[i];
        const char *path = cleave_arena_printf(arena, "%s/%s", folder, file->name);
        struct stat info;
        int64_t bytes;
        uint64_t checksum;
        if (path == NULL)
            return cleave_fail_memory(error, "reading a checkpoint");
        if (lstat(path, &info) != 0)
            return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: %s", path, strerror(errno));
        if (!S_ISREG(info.st_mode) || (int64_t)info.st_size != file->bytes)
            return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: has %lld bytes, but %lld were written",
                               path, (long long)info.st_size, (long long)file->bytes);
        CLEAVE_TRY(cleave_file_checksum(path, INT64_MAX, &bytes, &checksum, error));
        if (bytes != file->bytes || checksum != file->checksum)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "%s: was changed: its checksum is not right", path);
    }
    return CLEAVE_OK;
}

static cleave_status read_whole(const char *folder, cleave_arena *arena, cleave_manifest *manifest,
                                cleave_error *error) {
    CLEAVE_TRY(checkpoint_read_manifest(folder, arena, manifest, error));
    return check_files(folder, manifest, arena, error);
}

/* The newest that is whole of a folder of checkpoints. */
static cleave_status choose(const char *from, cleave_arena *arena, cleave_resumed *resumed,
                            cleave_manifest *manifest, cleave_error *error) {
    checkpoint_steps steps = {0};
    cleave_error wrong = {""};
    cleave_status status = CLEAVE_BAD_INPUT;
    if (!checkpoint_list(from, CHECKPOINT_PREFIX, &steps))
        cleave_fail(error, CLEAVE_BAD_INPUT, "%s: %s", from, strerror(errno));
    else if (steps.n == 0)
        cleave_fail(error, CLEAVE_BAD_INPUT, "%s: has no checkpoint", from);
    for (int32_t i = 0; i < steps.n && status == CLEAVE_BAD_INPUT; i++) {
        cleave_checkpoint_path(from, steps.items[i], resumed->folder, sizeof resumed->folder);
        status = read_whole(resumed->folder, arena, manifest, &wrong);
        if (status != CLEAVE_OK && resumed->skipped[0] == '\0')
            snprintf(resumed->skipped, sizeof resumed->skipped, "%s", wrong.message);
    }
    if (status != CLEAVE_OK && steps.n > 0)
        cleave_fail(error, status, "%s: no checkpoint there is whole: %s", from, resumed->skipped);
    CLEAVE_LIST_FREE(&steps);
    return status;
}

cleave_status cleave_checkpoint_find(const cleave_model *model, const cleave_run_options *options,
                                     cleave_resumed *resumed, cleave_error *error) {
    cleave_arena arena = {0};
    cleave_resumed found = {.folder = ""};
    cleave_manifest manifest;
    char path[4096 + 16];
    struct stat info;
    if (options->from == NULL) {
        *resumed = found;
        return CLEAVE_OK;
    }
    if (strlen(options->from) + 64 > sizeof found.folder)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: the path is too long", options->from);
    if (options->weights != NULL || options->forward)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: a checkpoint is for training, and has the weights itself",
                           options->from);
    snprintf(path, sizeof path, "%s/manifest.json", options->from);
    cleave_status status;
    if (lstat(path, &info) == 0) {
        strcpy(found.folder, options->from);
        status = read_whole(found.folder, &arena, &manifest, error);
    } else {
        status = choose(options->from, &arena, &found, &manifest, error);
    }
    if (status == CLEAVE_OK)
        status = checkpoint_check_matches(found.folder, &manifest, model, options, &arena, error);
    if (status == CLEAVE_OK) {
        found.step = manifest.step;
        *resumed = found;
    }
    cleave_arena_free(&arena);
    return status;
}
