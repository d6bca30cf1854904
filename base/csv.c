/* Reading comma-separated values. */
#include "base/csv.h"

#include "base/list.h"

#include <string.h>

typedef struct reader {
    cleave_csv *csv;
    cleave_arena *arena;
    CLEAVE_LIST(cleave_csv_field) fields;
    cleave_error *error;
} reader;

cleave_csv cleave_csv_begin(const char *text, size_t bytes, const char *name) {
    bool marked = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0;
    size_t first = marked ? 3 : 0;
    return (cleave_csv){name, text, bytes, first, 1, first};
}

static bool is_over(const cleave_csv *csv) { return csv->at == csv->bytes; }
static char peek(const cleave_csv *csv) { return is_over(csv) ? '\n' : csv->text[csv->at]; }

static int32_t column_of(const cleave_csv *csv) {
    size_t column = csv->at - csv->line_start + 1;
    return column < INT32_MAX ? (int32_t)column : INT32_MAX;
}

static cleave_status fail(const reader *r, const char *what) {
    return cleave_fail(r->error, CLEAVE_BAD_INPUT, "%s:%d:%d: %s", r->csv->name, r->csv->line,
                       column_of(r->csv), what);
}

static const char no_text[] = "a byte 0: the file is no text, or not as UTF-8";

static void step(cleave_csv *csv) {
    if (csv->text[csv->at++] == '\n') {
        csv->line_start = csv->at;
        csv->line += csv->line < INT32_MAX;
    }
}

static bool ends_row(const cleave_csv *csv) {
    return peek(csv) == '\n' ||
           (peek(csv) == '\r' && (csv->at + 1 == csv->bytes || csv->text[csv->at + 1] == '\n'));
}

static void skip_blanks(cleave_csv *csv) {
    while (!is_over(csv) && (peek(csv) == ' ' || peek(csv) == '\t'))
        csv->at++;
}

static void skip_row(cleave_csv *csv) {
    while (!is_over(csv) && csv->text[csv->at] != '\n')
        csv->at++;
    if (!is_over(csv))
        step(csv);
}

/* Behind a quote, up to the one that closes it. */
static cleave_status read_quoted(reader *r, char *text, size_t *n) {
    cleave_csv *csv = r->csv;
    const cleave_csv opened = *csv;
    for (csv->at++;; step(csv)) {
        if (is_over(csv)) {
            *csv = opened;
            return fail(r, "this quote is not closed");
        }
        if (peek(csv) == '\0')
            return fail(r, no_text);
        if (peek(csv) == '"') {
            csv->at++;
            if (is_over(csv) || csv->text[csv->at] != '"')
                break; /* else it was doubled */
        }
        text[(*n)++] = csv->text[csv->at];
    }
    skip_blanks(csv);
    if (peek(csv) != ',' && !ends_row(csv))
        return fail(r, "something follows a closing quote; a quote within a field is doubled");
    return CLEAVE_OK;
}

static cleave_status read_plain(reader *r, char *text, size_t *n) {
    cleave_csv *csv = r->csv;
    for (; peek(csv) != ',' && !ends_row(csv); csv->at++) {
        if (peek(csv) == '"')
            return fail(r, "a quote within a field: the field goes in quotes, and its own doubled");
        if (peek(csv) == '\0')
            return fail(r, no_text);
        text[(*n)++] = peek(csv);
    }
    while (*n > 0 && (text[*n - 1] == ' ' || text[*n - 1] == '\t'))
        (*n)--;
    return CLEAVE_OK;
}

/* How long a field is at most: up to the next comma without a quote, or what quotes may hold. */
static size_t room_of(const cleave_csv *csv) {
    size_t at = csv->at;
    bool quoted = peek(csv) == '"';
    for (at += quoted; at < csv->bytes; at++) {
        if (quoted && csv->text[at] == '"') {
            if (at + 1 == csv->bytes || csv->text[at + 1] != '"')
                break;
            at++;
        } else if (!quoted && (csv->text[at] == ',' || csv->text[at] == '\n')) {
            break;
        }
    }
    return at - csv->at + 1;
}

static cleave_status read_field(reader *r) {
    cleave_csv *csv = r->csv;
    skip_blanks(csv);
    cleave_csv_field field = {.line = csv->line, .column = column_of(csv)};
    char *text = cleave_arena_alloc(r->arena, room_of(csv), 1);
    size_t n = 0;
    if (text == NULL)
        return cleave_fail_memory(r->error, "reading a table");
    CLEAVE_TRY(peek(csv) == '"' ? read_quoted(r, text, &n) : read_plain(r, text, &n));
    text[n] = '\0';
    field.text = text;
    return CLEAVE_LIST_PUSH(&r->fields, field) ? CLEAVE_OK
                                               : cleave_fail_memory(r->error, "reading a table");
}

static cleave_status read_fields(reader *r) {
    cleave_csv *csv = r->csv;
    for (;; csv->at++) {
        CLEAVE_TRY(read_field(r));
        if (ends_row(csv))
            break;
    }
    skip_row(csv);
    return CLEAVE_OK;
}

cleave_status cleave_csv_next(cleave_csv *csv, cleave_arena *arena, cleave_csv_row *row,
                              cleave_error *error) {
    reader r = {.csv = csv, .arena = arena, .error = error};
    for (; !is_over(csv); skip_row(csv)) {
        size_t first = csv->at;
        skip_blanks(csv);
        if (!ends_row(csv) && peek(csv) != '#') {
            csv->at = first;
            break;
        }
    }
    cleave_status status = is_over(csv) ? CLEAVE_OK : read_fields(&r);
    cleave_csv_field *fields = CLEAVE_ARENA_ARRAY(arena, cleave_csv_field, r.fields.n);
    if (status == CLEAVE_OK && fields == NULL)
        status = cleave_fail_memory(error, "reading a table");
    if (status == CLEAVE_OK) {
        if (r.fields.n > 0)
            memcpy(fields, r.fields.items, (size_t)r.fields.n * sizeof *fields);
        *row = (cleave_csv_row){r.fields.n, fields};
    }
    CLEAVE_LIST_FREE(&r.fields);
    return status;
}
