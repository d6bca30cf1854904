/* Checkpoints: written, and dropped when they are old. */
#include "exec/training/checkpoint.h"

#include "base/file.h"
#include "base/progress.h"
#include "exec/data/identity.h"
#include "exec/data/save.h"
#include "exec/training/checkpoint_match.h"
#include "exec/training/checkpoint_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char dropping_prefix[] = "dropping-";

static cleave_status fail_folder(const char *path, int reason, cleave_error *error) {
    return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: no folder for checkpoints: %s", path,
                       strerror(reason));
}

static cleave_status make_folder(const char *path, cleave_error *error) {
    struct stat info;
    if (mkdir(path, 0777) == 0 || (errno == EEXIST && stat(path, &info) == 0 &&
                                   S_ISDIR(info.st_mode) && access(path, W_OK | X_OK) == 0))
        return CLEAVE_OK;
    return fail_folder(path, errno, error);
}

/* Could it be made, or written to?  Nothing is made yet: all else may be wrong. */
static cleave_status check_folder(const char *path, bool *is_there, cleave_error *error) {
    char place[4096];
    struct stat info;
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    snprintf(place, sizeof place, "%.*s", (int)n, path);
    *is_there = stat(place, &info) == 0;
    if (*is_there && !S_ISDIR(info.st_mode))
        return fail_folder(path, ENOTDIR, error);
    char *slash = strrchr(place, '/');
    if (!*is_there && slash == NULL)
        strcpy(place, ".");
    else if (!*is_there)
        slash[slash == place] = '\0';
    return access(place, W_OK | X_OK) == 0 ? CLEAVE_OK : fail_folder(path, errno, error);
}

cleave_status cleave_checkpoint_check(const cleave_run_options *options, cleave_error *error) {
    checkpoint_steps steps = {0};
    const char *folder = options->checkpoint;
    if (folder == NULL)
        return CLEAVE_OK;
    if (options->forward)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: forward has nothing to go on from",
                           folder);
    if (strlen(folder) + 64 > sizeof((cleave_resumed *)0)->folder)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: the path is too long", folder);
    bool is_there;
    CLEAVE_TRY(check_folder(folder, &is_there, error));
    cleave_status status = CLEAVE_OK;
    if (is_there && !checkpoint_list(folder, CHECKPOINT_PREFIX, &steps))
        status = cleave_fail(error, CLEAVE_BAD_INPUT, "%s: %s", folder, strerror(errno));
    else if (steps.n > 0 && options->from == NULL)
        status = cleave_fail(error, CLEAVE_BAD_INPUT,
                             "%s: has checkpoints, the newest of step %lld: --from %s goes on from "
                             "it, another folder begins anew",
                             folder, (long long)steps.items[0], folder);
    CLEAVE_LIST_FREE(&steps);
    return status;
}

cleave_status cleave_checkpoints_open(cleave_checkpoints *checkpoints, const cleave_rank *rank,
                                      cleave_error *error) {
    const cleave_run_options *options = rank->options;
    *checkpoints = (cleave_checkpoints){
        .descriptor = -1, .written_seconds = cleave_clock_seconds(), .last_step = -1};
    if (options->checkpoint == NULL || rank->device != 0)
        return CLEAVE_OK;
    CLEAVE_TRY(make_folder(options->checkpoint, error));
    CLEAVE_TRY(cleave_data_identify(options, &checkpoints->arena, &checkpoints->data, error));
    checkpoints->descriptor = open(options->checkpoint, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (checkpoints->descriptor < 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: %s", options->checkpoint, strerror(errno));
    if (flock(checkpoints->descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        cleave_checkpoints_close(checkpoints);
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: another run writes its checkpoints there",
                           options->checkpoint);
    }
    return CLEAVE_OK;
}

void cleave_checkpoints_close(cleave_checkpoints *checkpoints) {
    if (checkpoints->descriptor >= 0)
        close(checkpoints->descriptor);
    checkpoints->descriptor = -1;
    cleave_arena_free(&checkpoints->arena);
}

/* Deletes what a manifest lists, the manifest, and the folder if nothing else is in it. */
static bool delete_listed(const char *folder, const cleave_manifest *manifest) {
    char path[4096 + 256];
    bool done = true;
    for (int32_t i = 0; i < manifest->n_files && done; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, manifest->files[i].name);
        done = unlink(path) == 0 || errno == ENOENT;
    }
    snprintf(path, sizeof path, "%s/manifest.json", folder);
    return done && (unlink(path) == 0 || errno == ENOENT) && rmdir(folder) == 0;
}

/* Under another name first, so that what is half deleted can't be taken for a checkpoint. */
static bool drop(const cleave_run_options *options, const char *folder,
                 const cleave_manifest *manifest) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s%lld", options->checkpoint, dropping_prefix,
             (long long)manifest->step);
    return rename(folder, path) == 0 && delete_listed(path, manifest);
}

/* Keeps the newest `keep` of a sort of folders, 0: none; what can't be read is left alone. */
static cleave_status drop_beyond(const cleave_run_options *options, const char *prefix,
                                 int64_t keep, cleave_arena *arena, cleave_error *error) {
    checkpoint_steps steps = {0};
    char folder[4096];
    int64_t kept = 0;
    cleave_status status = CLEAVE_OK;
    if (!checkpoint_list(options->checkpoint, prefix, &steps))
        status = cleave_fail_memory(error, "looking for old checkpoints");
    for (int32_t i = 0; i < steps.n && status == CLEAVE_OK; i++) {
        cleave_manifest manifest;
        snprintf(folder, sizeof folder, "%s/%s%lld", options->checkpoint, prefix,
                 (long long)steps.items[i]);
        if (checkpoint_read_manifest(folder, arena, &manifest, NULL) == CLEAVE_OK && ++kept > keep)
            drop(options, folder, &manifest);
    }
    CLEAVE_LIST_FREE(&steps);
    return status;
}

/* What is old, and before it what a run that was killed had not dropped wholly. */
static cleave_status drop_old(const cleave_run_options *options, cleave_arena *arena,
                              cleave_error *error) {
    CLEAVE_TRY(drop_beyond(options, dropping_prefix, 0, arena, error));
    return drop_beyond(options, CHECKPOINT_PREFIX, options->keep > 0 ? options->keep : INT64_MAX,
                       arena, error);
}

/* Makes room for a checkpoint of the same step: one that is of this kind is dropped, anything else
   keeps its contents under another name. */
static cleave_status make_way(const cleave_run_options *options, const char *folder,
                              cleave_arena *arena, cleave_error *error) {
    cleave_manifest manifest;
    struct stat info;
    if (lstat(folder, &info) != 0)
        return CLEAVE_OK;
    if (checkpoint_read_manifest(folder, arena, &manifest, NULL) == CLEAVE_OK &&
        drop(options, folder, &manifest))
        return CLEAVE_OK;
    for (int i = 1; i < 1000; i++) {
        const char *aside = cleave_arena_printf(arena, "%s.broken-%d", folder, i);
        if (aside == NULL)
            return cleave_fail_memory(error, "writing a checkpoint");
        if (lstat(aside, &info) != 0)
            return rename(folder, aside) == 0
                       ? CLEAVE_OK
                       : cleave_fail(error, CLEAVE_FAILED, "%s: is in the way: %s", folder,
                                     strerror(errno));
    }
    return cleave_fail(error, CLEAVE_FAILED, "%s: is in the way", folder);
}

/* One file of tensors, and its place in the manifest. */
static cleave_status write_tensors(const cleave_values *values, const cleave_rank *rank,
                                   cleave_saved what, const char *folder, const char *name,
                                   cleave_manifest *manifest, const char **nan_in,
                                   cleave_error *error) {
    cleave_file_writer writer;
    if (rank->device != 0)
        return cleave_save(values, rank, what, NULL, NULL, error);
    CLEAVE_TRY(cleave_file_writer_open_within(&writer, folder, name, error));
    cleave_manifest_file *file = &manifest->files[manifest->n_files++];
    file->name = name;
    CLEAVE_TRY(cleave_save(values, rank, what, &writer, nan_in, error));
    file->bytes = (int64_t)writer.sum.bytes;
    file->checksum = cleave_checksum_value(&writer.sum);
    return cleave_file_writer_commit(&writer, error);
}

static cleave_status write_manifest(const char *folder, const cleave_manifest *manifest,
                                    cleave_arena *arena, cleave_error *error) {
    cleave_file_writer writer;
    const char *text;
    CLEAVE_TRY(cleave_manifest_format(manifest, arena, &text, error));
    CLEAVE_TRY(cleave_file_writer_open_within(&writer, folder, "manifest.json", error));
    cleave_status status = cleave_file_writer_put(&writer, text, strlen(text), error);
    if (status == CLEAVE_OK)
        return cleave_file_writer_commit(&writer, error);
    cleave_file_writer_abandon(&writer);
    return status;
}

/* Rank 0: from `writing` to its name. */
static cleave_status give_name(const cleave_run_options *options, const char *writing,
                               const cleave_manifest *manifest, cleave_arena *arena,
                               cleave_error *error) {
    char folder[4096];
    cleave_checkpoint_path(options->checkpoint, manifest->step, folder, sizeof folder);
    CLEAVE_TRY(write_manifest(writing, manifest, arena, error));
    CLEAVE_TRY(make_way(options, folder, arena, error));
    if (rename(writing, folder) != 0)
        return cleave_fail(error, CLEAVE_FAILED, "%s: could not be written: %s", folder,
                           strerror(errno));
    CLEAVE_TRY(cleave_folder_sync(options->checkpoint, error));
    return drop_old(options, arena, error);
}

static cleave_status write_all(const cleave_values *values, const cleave_rank *rank,
                               const char *writing, cleave_manifest *manifest, const char **nan_in,
                               cleave_error *error) {
    CLEAVE_TRY(write_tensors(values, rank, CLEAVE_SAVED_VALUES, writing, CLEAVE_FILE_OF_VALUES,
                             manifest, nan_in, error));
    for (int k = 0; k < cleave_optimizer_states(&manifest->optimizer); k++)
        CLEAVE_TRY(write_tensors(values, rank, (cleave_saved)(CLEAVE_SAVED_STATE0 + k), writing,
                                 cleave_files_of_states[k], manifest, nan_in, error));
    return CLEAVE_OK;
}

cleave_status cleave_checkpoints_write(cleave_checkpoints *checkpoints, const cleave_values *values,
                                       const cleave_rank *rank, int64_t step, const char **nan_in,
                                       cleave_error *error) {
    const cleave_run_options *options = rank->options;
    cleave_arena arena = {0};
    char writing[4096];
    double begun = cleave_clock_seconds();
    cleave_manifest manifest = checkpoint_describe(rank->program->model, options, step);
    manifest.data = checkpoints->data;
    snprintf(writing, sizeof writing, "%s/writing", options->checkpoint);
    cleave_status status = rank->device == 0 ? make_folder(writing, error) : CLEAVE_OK;
    if (status == CLEAVE_OK)
        status = write_all(values, rank, writing, &manifest, nan_in, error);
    bool whole = status == CLEAVE_OK && *nan_in == NULL;
    if (rank->device == 0 && whole)
        status = give_name(options, writing, &manifest, &arena, error);
    if (rank->device == 0 && (!whole || status != CLEAVE_OK))
        delete_listed(writing, &manifest);
    checkpoints->written_seconds = cleave_clock_seconds();
    checkpoints->took_seconds = checkpoints->written_seconds - begun;
    checkpoints->bytes = 0;
    for (int32_t i = 0; i < manifest.n_files; i++)
        checkpoints->bytes += manifest.files[i].bytes;
    if (whole)
        checkpoints->last_step = step;
    cleave_arena_free(&arena);
    return status;
}
