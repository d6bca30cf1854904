/* Checkpoints: found, checked, written, and dropped when they are old. */
#include "exec/checkpoint.h"

#include "base/file.h"
#include "base/list.h"
#include "base/progress.h"
#include "exec/data/identity.h"
#include "exec/data/save.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char step_prefix[] = "step-", dropping_prefix[] = "dropping-";

typedef CLEAVE_LIST(int64_t) step_list;

void cleave_checkpoint_path(const char *folder, int64_t step, char *path, size_t bytes) {
    snprintf(path, bytes, "%s/%s%lld", folder, step_prefix, (long long)step);
}

static int compare_steps(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* Steps of which there is a folder whose name begins so, the newest first.  False when it can't be
   read. */
static bool list_steps(const char *folder, const char *prefix, step_list *steps) {
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
    if (steps->n > 1)
        qsort(steps->items, (size_t)steps->n, sizeof *steps->items, compare_steps);
    return fits;
}

int64_t cleave_checkpoint_newest(const char *folder) {
    step_list steps = {0};
    int64_t newest = list_steps(folder, step_prefix, &steps) && steps.n > 0 ? steps.items[0] : -1;
    CLEAVE_LIST_FREE(&steps);
    return newest;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

static cleave_status read_manifest(const char *folder, cleave_arena *arena,
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
    CLEAVE_TRY(read_manifest(folder, arena, manifest, error));
    return check_files(folder, manifest, arena, error);
}

/* The newest that is whole of a folder of checkpoints. */
static cleave_status choose(const char *from, cleave_arena *arena, cleave_resumed *resumed,
                            cleave_manifest *manifest, cleave_error *error) {
    step_list steps = {0};
    cleave_error wrong = {""};
    cleave_status status = CLEAVE_BAD_INPUT;
    if (!list_steps(from, step_prefix, &steps))
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

/* ---- does it belong to this run? --------------------------------------------------------------
 */

static const char *name_of(cleave_type precision) {
    return precision == CLEAVE_BF16 ? "bf16" : "f32";
}

/* Without its folder: the same model elsewhere gives the same bytes. */
static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* What a checkpoint of this run says of it, but for what it holds. */
static cleave_manifest describe(const cleave_model *model, const cleave_run_options *options,
                                int64_t step) {
    return (cleave_manifest){.step = step,
                             .seed = options->seed,
                             .shuffled = options->shuffle,
                             .model_file = base_name(model->file),
                             .model_hash = model->hash,
                             .precision = name_of(model->precision),
                             .reduce_precision = name_of(model->reduce_precision),
                             .optimizer = cleave_optimizer_name(&options->optimizer),
                             .optimizer_states = cleave_optimizer_states(&options->optimizer),
                             .schedule = options->optimizer.schedule};
}

static cleave_status fail_to_match(const char *folder, const char *what, const char *there,
                                   const char *here, cleave_error *error) {
    return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: the checkpoint is of another %s: %s, not %s",
                       folder, what, there, here);
}

static cleave_status check_schedule(const char *folder, const cleave_rate_schedule *there,
                                    const cleave_rate_schedule *here, cleave_error *error) {
    char was[128], is[128];
    if (cleave_rate_schedule_equal(there, here))
        return CLEAVE_OK;
    cleave_rate_schedule_format(there, was, sizeof was);
    cleave_rate_schedule_format(here, is, sizeof is);
    return fail_to_match(folder, "schedule of the learning rate", was, is, error);
}

static cleave_status check_data(const char *folder, const cleave_manifest_file *there,
                                const cleave_run_options *options, cleave_arena *arena,
                                cleave_error *error) {
    cleave_manifest_file here;
    CLEAVE_TRY(cleave_data_identify(options, arena, &here, error));
    if ((there->name == NULL) != (here.name == NULL))
        return fail_to_match(folder, "data", there->name != NULL ? there->name : "made up",
                             here.name != NULL ? here.name : "made up", error);
    if (here.name != NULL && (here.bytes != there->bytes || here.checksum != there->checksum))
        return cleave_fail(
            error, CLEAVE_BAD_INPUT,
            "%s: the data %s are not those of the checkpoint, %s of %lld bytes: they "
            "were changed",
            folder, here.name, there->name, (long long)there->bytes);
    return CLEAVE_OK;
}

static cleave_status check_matches(const char *folder, const cleave_manifest *there,
                                   const cleave_model *model, const cleave_run_options *options,
                                   cleave_arena *arena, cleave_error *error) {
    const cleave_manifest here = describe(model, options, 0);
    if (strcmp(there->model_hash, here.model_hash) != 0)
        return cleave_fail(
            error, CLEAVE_BAD_INPUT,
            "%s: the checkpoint is of another model, or of another batch: %s with hash "
            "%s, not %s with %s",
            folder, there->model_file, there->model_hash, here.model_file, here.model_hash);
    if (strcmp(there->precision, here.precision) != 0)
        return fail_to_match(folder, "precision", there->precision, here.precision, error);
    if (strcmp(there->reduce_precision, here.reduce_precision) != 0)
        return fail_to_match(folder, "precision of sums", there->reduce_precision,
                             here.reduce_precision, error);
    if (strcmp(there->optimizer, here.optimizer) != 0)
        return fail_to_match(folder, "optimizer", there->optimizer, here.optimizer, error);
    if (there->optimizer_states != here.optimizer_states)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: the checkpoint was made %s momentum",
                           folder, there->optimizer_states > 0 ? "with" : "without");
    CLEAVE_TRY(check_schedule(folder, &there->schedule, &here.schedule, error));
    if (there->seed != here.seed)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: the checkpoint was made with --seed %llu",
                           folder, (unsigned long long)there->seed);
    if (there->step > options->steps)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: %lld steps are done there already, which --steps %lld counts, too",
                           folder, (long long)there->step, (long long)options->steps);
    if (there->shuffled != here.shuffled)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: the checkpoint was made %s --shuffle",
                           folder, there->shuffled ? "with" : "without");
    return check_data(folder, &there->data, options, arena, error);
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
        status = check_matches(found.folder, &manifest, model, options, &arena, error);
    if (status == CLEAVE_OK) {
        found.step = manifest.step;
        *resumed = found;
    }
    cleave_arena_free(&arena);
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------
 */

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
    step_list steps = {0};
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
    if (is_there && !list_steps(folder, step_prefix, &steps))
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
    step_list steps = {0};
    char folder[4096];
    int64_t kept = 0;
    cleave_status status = CLEAVE_OK;
    if (!list_steps(options->checkpoint, prefix, &steps))
        status = cleave_fail_memory(error, "looking for old checkpoints");
    for (int32_t i = 0; i < steps.n && status == CLEAVE_OK; i++) {
        cleave_manifest manifest;
        snprintf(folder, sizeof folder, "%s/%s%lld", options->checkpoint, prefix,
                 (long long)steps.items[i]);
        if (read_manifest(folder, arena, &manifest, NULL) == CLEAVE_OK && ++kept > keep)
            drop(options, folder, &manifest);
    }
    CLEAVE_LIST_FREE(&steps);
    return status;
}

/* What is old, and before it what a run that was killed had not dropped wholly. */
static cleave_status drop_old(const cleave_run_options *options, cleave_arena *arena,
                              cleave_error *error) {
    CLEAVE_TRY(drop_beyond(options, dropping_prefix, 0, arena, error));
    return drop_beyond(options, step_prefix, options->keep > 0 ? options->keep : INT64_MAX, arena,
                       error);
}

/* Makes room for a checkpoint of the same step: one that is of this kind is dropped, anything else
   keeps its contents under another name. */
static cleave_status make_way(const cleave_run_options *options, const char *folder,
                              cleave_arena *arena, cleave_error *error) {
    cleave_manifest manifest;
    struct stat info;
    if (lstat(folder, &info) != 0)
        return CLEAVE_OK;
    if (read_manifest(folder, arena, &manifest, NULL) == CLEAVE_OK &&
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
    for (int k = 0; k < manifest->optimizer_states; k++)
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
    cleave_manifest manifest = describe(rank->program->model, options, step);
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
