/* Read and written by the same functions on both sides of the checksum: what was read is written
   again, and its checksum is that of what was written first. */
#include "exec/data/manifest.h"

#include "base/checksum.h"
#include "base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char kind[] = "cleave_checkpoint";
static const int64_t version = 2, most_steps = INT64_C(1) << 40, most_bytes = INT64_C(1) << 50;

/* ---- writing ----------------------------------------------------------------------------------
 */

static void put_checksum(cleave_json_writer *w, uint64_t checksum) {
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, checksum);
    cleave_json_set_string(w, "xxh64", text);
}

static void put_file(cleave_json_writer *w, const char *key, const cleave_manifest_file *file,
                     bool shuffled) {
    cleave_json_begin_object(w, true);
    cleave_json_set_string(w, key, file->name);
    cleave_json_set_integer(w, "bytes", file->bytes);
    put_checksum(w, file->checksum);
    if (shuffled)
        cleave_json_set_truth(w, "shuffled", true);
    cleave_json_end_object(w);
}

static bool is_constant(const cleave_rate_schedule *schedule) {
    return schedule->kind == CLEAVE_RATE_CONSTANT && schedule->warmup == 0;
}

static void put_schedule(cleave_json_writer *w, const cleave_rate_schedule *schedule) {
    if (is_constant(schedule))
        return;
    cleave_json_open_object(w, "schedule", true);
    cleave_json_set_string(w, "name", cleave_rate_names[schedule->kind]);
    cleave_json_set_integer(w, "warmup", schedule->warmup);
    cleave_json_set_integer(w, "steps", schedule->steps);
    cleave_json_set_number(w, "final", schedule->final);
    cleave_json_end_object(w);
}

static void put_optimizer(cleave_json_writer *w, const cleave_manifest *manifest) {
    cleave_optimizer optimizer = manifest->optimizer;
    cleave_json_open_object(w, "optimizer", true);
    cleave_json_set_string(w, "name", cleave_optimizer_name(&optimizer));
    for (int i = 0; i < CLEAVE_N_OPTIMIZER_FIGURES; i++) {
        const double *value = cleave_optimizer_figure_of(&optimizer, &cleave_optimizer_figures[i]);
        if (value == NULL)
            continue;
        cleave_json_set_number(w, cleave_optimizer_figures[i].key, *value);
    }
    if (manifest->no_decay != NULL)
        cleave_json_set_string(w, "no_decay", manifest->no_decay);
    cleave_json_end_object(w);
}

/* All but the end. */
static void put_manifest(cleave_json_writer *w, const cleave_manifest *manifest) {
    char seed[24];
    snprintf(seed, sizeof seed, "%" PRIu64, manifest->seed);
    cleave_json_begin_object(w, false);
    cleave_json_set_integer(w, kind, version);
    cleave_json_set_integer(w, "step", manifest->step);
    cleave_json_set_string(w, "seed", seed);
    cleave_json_open_object(w, "model", true);
    cleave_json_set_string(w, "file", manifest->model_file);
    cleave_json_set_string(w, "hash", manifest->model_hash);
    cleave_json_end_object(w);
    cleave_json_set_string(w, "precision", manifest->precision);
    cleave_json_set_string(w, "reduce_precision", manifest->reduce_precision);
    put_optimizer(w, manifest);
    put_schedule(w, &manifest->optimizer.schedule);
    if (manifest->data.name != NULL) {
        cleave_json_key(w, "data");
        put_file(w, "file", &manifest->data, manifest->shuffled);
    }
    cleave_json_open_array(w, "files", false);
    for (int32_t i = 0; i < manifest->n_files; i++)
        put_file(w, "name", &manifest->files[i], false);
    cleave_json_end_array(w);
}

static cleave_status format(const cleave_manifest *manifest, const uint64_t *checksum,
                            cleave_json_writer *w, cleave_error *error) {
    put_manifest(w, manifest);
    if (checksum != NULL)
        put_checksum(w, *checksum);
    cleave_json_end_object(w);
    return w->failed ? cleave_fail_memory(error, "writing a manifest") : CLEAVE_OK;
}

static cleave_status own_checksum(const cleave_manifest *manifest, uint64_t *checksum,
                                  cleave_error *error) {
    cleave_json_writer w = {0};
    cleave_checksum sum;
    cleave_status status = format(manifest, NULL, &w, error);
    if (status == CLEAVE_OK) {
        cleave_checksum_begin(&sum);
        cleave_checksum_add(&sum, w.text, w.n);
        *checksum = cleave_checksum_value(&sum);
    }
    cleave_json_writer_free(&w);
    return status;
}

cleave_status cleave_manifest_format(const cleave_manifest *manifest, cleave_arena *arena,
                                     const char **text, cleave_error *error) {
    uint64_t checksum;
    cleave_json_writer w = {0};
    CLEAVE_TRY(own_checksum(manifest, &checksum, error));
    cleave_status status = format(manifest, &checksum, &w, error);
    if (status == CLEAVE_OK && (*text = cleave_arena_string(arena, w.text)) == NULL)
        status = cleave_fail_memory(error, "writing a manifest");
    cleave_json_writer_free(&w);
    return status;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

static cleave_status read_text(const cleave_json_cursor *at, const char *key, cleave_arena *arena,
                               const char **text, cleave_error *error) {
    const char *value;
    CLEAVE_TRY(cleave_json_get_string(at, key, &value, error));
    *text = cleave_arena_string(arena, value);
    return *text != NULL ? CLEAVE_OK : cleave_fail_memory(error, "reading a manifest");
}

static cleave_status read_integer(const cleave_json_cursor *at, const char *key, int64_t most,
                                  int64_t *value, cleave_error *error) {
    return cleave_json_get_integer(at, key, 0, most, value, error);
}

/* A number of 64 bits in so many digits, or 0: any number of them. */
static cleave_status read_digits(const cleave_json_cursor *at, const char *key, int base,
                                 size_t n_digits, uint64_t *value, cleave_error *error) {
    cleave_json_cursor member;
    const char *text;
    char *end;
    CLEAVE_TRY(cleave_json_get(at, key, &member, error));
    CLEAVE_TRY(cleave_json_string(&member, &text, error));
    errno = 0;
    *value = strtoull(text, &end, base);
    size_t n = strspn(text, base == 16 ? "0123456789abcdef" : "0123456789");
    if (n == 0 || text[n] != '\0' || errno != 0 || (n_digits > 0 && n != n_digits))
        return cleave_json_fail(&member, error, "\"%.32s\" is no such number", text);
    return CLEAVE_OK;
}

/* Letters, digits, points, bars: no path, nothing hidden, and not the manifest. */
static bool is_name(const char *name) {
    size_t n = strlen(name);
    return n > 0 && n <= 100 && name[0] != '.' && strcmp(name, "manifest.json") != 0 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

/* `shuffled` is null where it can not be said. */
static cleave_status read_file(const cleave_json_cursor *at, const char *key, cleave_arena *arena,
                               cleave_manifest_file *file, bool *shuffled, cleave_error *error) {
    const char *const keys[] = {key, "bytes", "xxh64", shuffled != NULL ? "shuffled" : NULL, NULL};
    cleave_json_cursor member;
    CLEAVE_TRY(cleave_json_expect_object(at, error));
    CLEAVE_TRY(cleave_json_expect_keys(at, keys, error));
    CLEAVE_TRY(read_text(at, key, arena, &file->name, error));
    CLEAVE_TRY(read_integer(at, "bytes", most_bytes, &file->bytes, error));
    if (cleave_json_find(at, "shuffled", &member))
        CLEAVE_TRY(cleave_json_truth(&member, shuffled, error));
    return read_digits(at, "xxh64", 16, 16, &file->checksum, error);
}

static cleave_status read_files(const cleave_json_cursor *root, cleave_arena *arena,
                                cleave_manifest *manifest, cleave_error *error) {
    cleave_json_cursor files;
    CLEAVE_TRY(cleave_json_get_array(root, "files", &files, error));
    int32_t n = cleave_json_count(&files);
    if (n < 1 || n > CLEAVE_MOST_MANIFEST_FILES)
        return cleave_json_fail(&files, error, "%d files, not 1 to %d", n,
                                (int)CLEAVE_MOST_MANIFEST_FILES);
    for (int32_t i = 0; i < n; i++) {
        cleave_json_cursor at = cleave_json_element(&files, i);
        CLEAVE_TRY(read_file(&at, "name", arena, &manifest->files[i], NULL, error));
        if (!is_name(manifest->files[i].name))
            return cleave_json_fail(&at, error, "\"%.100s\" is no name of a file in its folder",
                                    manifest->files[i].name);
        for (int32_t j = 0; j < i; j++)
            if (strcmp(manifest->files[i].name, manifest->files[j].name) == 0)
                return cleave_json_fail(&at, error, "%s is there twice", manifest->files[i].name);
    }
    manifest->n_files = n;
    return CLEAVE_OK;
}

static cleave_status read_schedule(const cleave_json_cursor *root, cleave_rate_schedule *schedule,
                                   cleave_error *error) {
    static const char *const keys[] = {"name", "warmup", "steps", "final", NULL};
    cleave_json_cursor at, member;
    const char *name;
    *schedule = (cleave_rate_schedule){.kind = CLEAVE_RATE_CONSTANT};
    if (!cleave_json_find(root, "schedule", &at))
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_json_expect_object(&at, error));
    CLEAVE_TRY(cleave_json_expect_keys(&at, keys, error));
    CLEAVE_TRY(cleave_json_get(&at, "name", &member, error));
    CLEAVE_TRY(cleave_json_string(&member, &name, error));
    while (schedule->kind < CLEAVE_N_RATES && strcmp(name, cleave_rate_names[schedule->kind]) != 0)
        schedule->kind++;
    if (schedule->kind == CLEAVE_N_RATES)
        return cleave_json_fail(&member, error, "schedule \"%.64s\" is not known", name);
    CLEAVE_TRY(read_integer(&at, "warmup", most_steps, &schedule->warmup, error));
    CLEAVE_TRY(read_integer(&at, "steps", most_steps, &schedule->steps, error));
    CLEAVE_TRY(cleave_json_get(&at, "final", &member, error));
    CLEAVE_TRY(cleave_json_number(&member, &schedule->final, error));
    return schedule->final >= 0
               ? CLEAVE_OK
               : cleave_json_fail(&member, error, "%g is no learning rate", schedule->final);
}

static cleave_status read_optimizer(const cleave_json_cursor *root, cleave_arena *arena,
                                    cleave_manifest *manifest, cleave_error *error) {
    const char *keys[CLEAVE_N_OPTIMIZER_FIGURES + 3] = {"name", "no_decay"};
    cleave_optimizer *optimizer = &manifest->optimizer;
    cleave_json_cursor at, member;
    const char *name;
    int n = 2;
    CLEAVE_TRY(cleave_json_get(root, "optimizer", &at, error));
    CLEAVE_TRY(cleave_json_expect_object(&at, error));
    CLEAVE_TRY(cleave_json_get(&at, "name", &member, error));
    CLEAVE_TRY(cleave_json_string(&member, &name, error));
    if (cleave_optimizer_find(name, optimizer, NULL) != CLEAVE_OK)
        return cleave_json_fail(&member, error, "optimizer \"%.64s\" is not known", name);
    for (int i = 0; i < CLEAVE_N_OPTIMIZER_FIGURES; i++) {
        const char *key = cleave_optimizer_figures[i].key;
        double *value = cleave_optimizer_figure_of(optimizer, &cleave_optimizer_figures[i]);
        if (value == NULL)
            continue;
        CLEAVE_TRY(cleave_json_get_number(&at, key, value, error));
        keys[n++] = key;
    }
    CLEAVE_TRY(cleave_json_expect_keys(&at, keys, error));
    return cleave_json_find(&at, "no_decay", &member)
               ? read_text(&at, "no_decay", arena, &manifest->no_decay, error)
               : CLEAVE_OK;
}

static cleave_status read_root(const cleave_json_cursor *root, cleave_arena *arena,
                               cleave_manifest *manifest, uint64_t *checksum, cleave_error *error) {
    static const char *const keys[] = {
        kind,        "step",     "seed", "model", "precision", "reduce_precision",
        "optimizer", "schedule", "data", "files", "xxh64",     NULL};
    cleave_json_cursor at;
    int64_t number;
    CLEAVE_TRY(cleave_json_expect_object(root, error));
    CLEAVE_TRY(cleave_json_expect_keys(root, keys, error));
    CLEAVE_TRY(read_integer(root, kind, version, &number, error));
    if (number != version)
        return cleave_json_fail(root, error,
                                "a checkpoint of version %lld can't be gone on from, only one of "
                                "%lld; its parameters still serve as --weights",
                                (long long)number, (long long)version);
    CLEAVE_TRY(read_integer(root, "step", most_steps, &manifest->step, error));
    CLEAVE_TRY(read_digits(root, "seed", 10, 0, &manifest->seed, error));
    CLEAVE_TRY(cleave_json_get(root, "model", &at, error));
    CLEAVE_TRY(cleave_json_expect_object(&at, error));
    CLEAVE_TRY(read_text(&at, "file", arena, &manifest->model_file, error));
    CLEAVE_TRY(read_text(&at, "hash", arena, &manifest->model_hash, error));
    CLEAVE_TRY(read_text(root, "precision", arena, &manifest->precision, error));
    CLEAVE_TRY(read_text(root, "reduce_precision", arena, &manifest->reduce_precision, error));
    CLEAVE_TRY(read_optimizer(root, arena, manifest, error));
    CLEAVE_TRY(read_schedule(root, &manifest->optimizer.schedule, error));
    if (cleave_json_find(root, "data", &at))
        CLEAVE_TRY(read_file(&at, "file", arena, &manifest->data, &manifest->shuffled, error));
    CLEAVE_TRY(read_files(root, arena, manifest, error));
    return read_digits(root, "xxh64", 16, 16, checksum, error);
}

cleave_status cleave_manifest_parse(const char *text, size_t bytes, const char *path,
                                    cleave_arena *arena, cleave_manifest *manifest,
                                    cleave_error *error) {
    cleave_json *document;
    cleave_manifest read = {0};
    uint64_t told = 0, own = 0;
    if (bytes > CLEAVE_MOST_MANIFEST_BYTES)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: %zu bytes are too many for a manifest",
                           path, bytes);
    CLEAVE_TRY(cleave_json_parse(text, bytes, path, &document, error));
    cleave_json_cursor root = cleave_json_root(document);
    cleave_status status = read_root(&root, arena, &read, &told, error);
    cleave_json_free(document);
    if (status == CLEAVE_OK)
        status = own_checksum(&read, &own, error);
    CLEAVE_TRY(status);
    if (told != own)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: was changed: its checksum is not right",
                           path);
    *manifest = read;
    return CLEAVE_OK;
}
