/* Reading a table of runs. */
#include "cli/validate/runs.h"

#include "base/csv.h"
#include "base/file.h"
#include "base/list.h"
#include "base/nearest_word.h"

#include <string.h>

#define COUNT(column, member, largest, standard_value, text)                                       \
    {                                                                                              \
        column, "N", OPTION_INTEGER, offsetof(run_record, member),                                 \
            .least = 1, .most = (largest), .standard = standard_value, .help = text                \
    }
#define WORD(column, member, standard_value, text)                                                 \
    {                                                                                              \
        column, "TEXT", OPTION_TEXT, offsetof(run_record, member), .standard = standard_value,     \
                                                                   .help = text                    \
    }

static const option_row columns[] = {
    WORD("group", group, "", "runs of one model on one machine, which are ranked"),
    WORD("name", name, "", "of the run, for people"),
    {"model", "FILE", OPTION_TEXT, offsetof(run_record, model), .required = true,
     .help = "as --model, or the text of a config.json itself"},
    {"machine", "FILE", OPTION_TEXT, offsetof(run_record, machine), .required = true,
     .help = "as --machine"},
    COUNT("devices", devices, 1 << 20, NULL, "default data x tensor x pipeline x context"),
    COUNT("sequence", sequence, 1 << 20, NULL, "as --sequence"),
    {"batch", "N", OPTION_INTEGER, offsetof(run_record, batch), .required = true, .least = 1,
     .most = 1LL << 31, .help = "global"},
    COUNT("micro_batch", micro_batch, 1 << 20, NULL, "samples of one of data's shares at a time"),
    COUNT("micro_batches", micro_batches, 1 << 20, NULL, "instead of micro_batch (default 1)"),
    COUNT("data", data, 1 << 20, NULL, "degree (default the devices / tensor / pipeline)"),
    COUNT("tensor", tensor, 65536, "1", "degree"),
    COUNT("pipeline", pipeline, 4096, "1", "groups of devices, one after the other"),
    COUNT("virtual", virtual_stages, 4096, "1", "stages of a group, of an interleaved pipeline"),
    WORD("layers", layers, NULL, "of each stage (13|11; default as takes least)"),
    COUNT("context", context, 65536, "1", "as --context"),
    COUNT("expert", expert, 65536, "1", "as --expert"),
    {"capacity_factor", "F", OPTION_NUMBER, offsetof(run_record, capacity_factor), .least = 0,
     .most = 65536, .help = "as --capacity-factor"},
    WORD("sequence_parallel", sequence_parallel, "yes", "no: as --no-sequence-parallel"),
    WORD("schedule", schedule, NULL, "as --schedule (default 1f1b or interleaved)"),
    WORD("recompute", recompute, "none", "as --recompute"),
    WORD("sharding", sharding, "0", "as --zero: 1 of the update, 2 and gradient, 3 and weight"),
    WORD("precision", precision, NULL, "as --precision"),
    WORD("reduce_precision", reduce_precision, NULL, "as --reduce-precision"),
    WORD("attention", attention, "fused", "as --attention"),
    WORD("framework", framework, "compiled", "as --framework"),
    WORD("optimizer", optimizer, "adam", "as --optimizer"),
    WORD("besides", besides, NULL, "what else the run did: it is then not priced"),
    {"step", "SECONDS", OPTION_SECONDS, offsetof(run_record, step), .help = "measured"},
    {"memory", "BYTES", OPTION_BYTES, offsetof(run_record, memory),
     .help = "measured: allocated on the fullest device"},
    {"reserved", "BYTES", OPTION_BYTES, offsetof(run_record, reserved),
     .help = "measured: reserved there by the allocator"},
};
enum { N_COLUMNS = sizeof columns / sizeof columns[0] };

typedef struct reading {
    const char *path;
    cleave_arena *arena;
    int32_t n_columns;
    const option_row *of[N_COLUMNS]; /* by place in a row */
    cleave_error *error;
} reading;

static cleave_status fail_at(const reading *r, const cleave_csv_field *at) {
    if (r->error != NULL)
        cleave_error_prefix(r->error, "%s:%d:%d", r->path, at->line, at->column);
    return CLEAVE_BAD_INPUT;
}

static cleave_status fail(const reading *r, const run_record *run, const char *what) {
    return cleave_fail(r->error, CLEAVE_BAD_INPUT, "%s:%d: %s", r->path, run->line, what);
}

/* ---- the heading ----------------------------------------------------------------------------- */

static const option_row *find_column(const char *name) {
    for (int i = 0; i < N_COLUMNS; i++)
        if (strcmp(columns[i].name, name) == 0)
            return &columns[i];
    return NULL;
}

static cleave_status fail_unknown(const reading *r, const cleave_csv_field *at) {
    const char *separator = at->text + strcspn(at->text, ";\t|"), *near = "";
    cleave_nearest_word nearest = {.text = at->text, .length = strlen(at->text)};
    for (int i = 0; i < N_COLUMNS; i++)
        cleave_nearest_word_offer(&nearest, columns[i].name);
    if (*separator != '\0')
        near = ": columns are separated by commas";
    else if (nearest.word != NULL)
        near = cleave_arena_printf(r->arena, ": is it %s?", nearest.word);
    cleave_fail(r->error, CLEAVE_BAD_INPUT,
                "no column is called \"%.64s\"%s (docs/formats.md lists them)", at->text,
                near != NULL ? near : "");
    return fail_at(r, at);
}

static cleave_status read_heading(reading *r, const cleave_csv_row *row) {
    for (int32_t i = 0; i < row->n; i++) {
        const char *name = row->fields[i].text;
        const option_row *column = find_column(name);
        if (column == NULL)
            return fail_unknown(r, &row->fields[i]);
        for (int32_t other = 0; other < i; other++)
            if (r->of[other] == column) {
                cleave_fail(r->error, CLEAVE_BAD_INPUT, "column \"%s\" is there twice", name);
                return fail_at(r, &row->fields[i]);
            }
        r->of[r->n_columns++] = column;
    }
    for (int i = 0; i < N_COLUMNS; i++) {
        bool there = !columns[i].required;
        for (int32_t c = 0; c < r->n_columns; c++)
            there = there || r->of[c] == &columns[i];
        if (!there)
            return cleave_fail(r->error, CLEAVE_BAD_INPUT,
                               "%s:%d: the heading has no column \"%s\"", r->path,
                               row->fields[0].line, columns[i].name);
    }
    return CLEAVE_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* A path in the table is one from its folder. */
static cleave_status place(const reading *r, const char **file) {
    const char *folder_end = strrchr(r->path, '/');
    if (folder_end == NULL || (*file)[0] == '/' || (*file)[0] == '{')
        return CLEAVE_OK;
    *file = cleave_arena_printf(r->arena, "%.*s/%s", (int)(folder_end - r->path), r->path, *file);
    return *file != NULL ? CLEAVE_OK : cleave_fail_memory(r->error, "reading a table");
}

/* Devices and degrees, each from the others.  None is above 2^20, so products of three fit. */
static cleave_status complete_degrees(const reading *r, run_record *run) {
    int64_t shares = run->tensor * run->pipeline * run->context, all;
    if (run->data == 0)
        run->data = run->devices > shares ? run->devices / shares : 1;
    if (__builtin_mul_overflow(run->data, shares, &all))
        all = 0;
    if (run->devices == 0)
        run->devices = all;
    if (all > 0 && all == run->devices && all <= 1 << 20)
        return CLEAVE_OK;
    return cleave_fail(r->error, CLEAVE_BAD_INPUT,
                       "%s:%d: %lld devices are not data %lld x tensor %lld x pipeline %lld x "
                       "context %lld",
                       r->path, run->line, (long long)run->devices, (long long)run->data,
                       (long long)run->tensor, (long long)run->pipeline, (long long)run->context);
}

static cleave_status complete_batches(const reading *r, run_record *run) {
    if (run->micro_batch == 0 && run->micro_batches == 0)
        run->micro_batches = 1;
    if (run->micro_batches == 0)
        run->micro_batches = run->batch / (run->data * run->micro_batch);
    if (run->micro_batch == 0)
        run->micro_batch = run->batch / run->data / run->micro_batches;
    if (run->micro_batches <= 1 << 20 &&
        run->batch == run->data * run->micro_batch * run->micro_batches)
        return CLEAVE_OK;
    return cleave_fail(r->error, CLEAVE_BAD_INPUT,
                       "%s:%d: a batch of %lld is not data %lld x micro_batch %lld x "
                       "micro_batches %lld",
                       r->path, run->line, (long long)run->batch, (long long)run->data,
                       (long long)run->micro_batch, (long long)run->micro_batches);
}

static cleave_status complete(const reading *r, run_record *run) {
    if (run->step <= 0 && run->memory <= 0 && run->reserved <= 0)
        return fail(r, run, "neither step nor memory was measured");
    if (strcmp(run->sequence_parallel, "yes") != 0 && strcmp(run->sequence_parallel, "no") != 0)
        return fail(r, run, "sequence_parallel is neither yes nor no");
    if (run->schedule == NULL)
        run->schedule = run->virtual_stages > 1 ? "interleaved" : "1f1b";
    CLEAVE_TRY(complete_degrees(r, run));
    if (run->data % run->expert != 0)
        return fail(r, run, "expert, which shares data's devices, does not divide data");
    CLEAVE_TRY(complete_batches(r, run));
    CLEAVE_TRY(place(r, &run->model));
    return place(r, &run->machine);
}

static cleave_status read_row(const reading *r, const cleave_csv_row *row, run_record *run) {
    *run = (run_record){.line = row->fields[0].line};
    if (row->n != r->n_columns) {
        cleave_fail(r->error, CLEAVE_BAD_INPUT, "%d fields for %d columns", row->n, r->n_columns);
        return fail_at(r, &row->fields[row->n < r->n_columns ? row->n - 1 : r->n_columns]);
    }
    for (int i = 0; i < N_COLUMNS; i++)
        if (columns[i].standard != NULL)
            CLEAVE_TRY(options_set(&columns[i], columns[i].standard, run, r->error));
    for (int32_t c = 0; c < row->n; c++) {
        const char *text = row->fields[c].text;
        if (text[0] == '\0' && r->of[c]->required) {
            cleave_fail(r->error, CLEAVE_BAD_INPUT, "%s is missing", r->of[c]->name);
            return fail_at(r, &row->fields[c]);
        }
        if (text[0] != '\0' && options_set(r->of[c], text, run, r->error) != CLEAVE_OK)
            return fail_at(r, &row->fields[c]);
    }
    return complete(r, run);
}

cleave_status runs_parse(const char *text, size_t bytes, const char *path, cleave_arena *arena,
                         run_table *table, cleave_error *error) {
    cleave_csv csv = cleave_csv_begin(text, bytes, path);
    reading r = {.path = path, .arena = arena, .error = error};
    CLEAVE_LIST(run_record) runs = {0};
    cleave_csv_row row;
    CLEAVE_TRY(cleave_csv_next(&csv, arena, &row, error));
    if (row.n == 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s:1: a heading with columns is missing",
                           path);
    CLEAVE_TRY(read_heading(&r, &row));
    cleave_status status = cleave_csv_next(&csv, arena, &row, error);
    while (status == CLEAVE_OK && row.n > 0) {
        run_record run;
        status = read_row(&r, &row, &run);
        if (status == CLEAVE_OK && !CLEAVE_LIST_PUSH(&runs, run))
            status = cleave_fail_memory(error, "reading a table");
        if (status == CLEAVE_OK)
            status = cleave_csv_next(&csv, arena, &row, error);
    }
    if (status == CLEAVE_OK && runs.n == 0)
        status = cleave_fail(error, CLEAVE_BAD_INPUT, "%s: has no run below its heading", path);
    run_record *rows = status == CLEAVE_OK ? CLEAVE_ARENA_ARRAY(arena, run_record, runs.n) : NULL;
    if (status == CLEAVE_OK && rows == NULL)
        status = cleave_fail_memory(error, "reading a table");
    if (status == CLEAVE_OK) {
        memcpy(rows, runs.items, (size_t)runs.n * sizeof *rows);
        *table = (run_table){runs.n, rows};
    }
    CLEAVE_LIST_FREE(&runs);
    return status;
}

cleave_status runs_read(const char *path, cleave_arena *arena, run_table *table,
                        cleave_error *error) {
    char *text;
    size_t bytes;
    CLEAVE_TRY(cleave_file_read(path, arena, &text, &bytes, error));
    return runs_parse(text, bytes, path, arena, table, error);
}
