/* A scanner that knows as much of JSON as it takes to cut a list into its elements: strings,
   escapes and brackets.  Each element is then parsed like any other document. */
#include "cli/trace_reader.h"

#include "base/list.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_EVENT_BYTES = 1 << 20, KEY_BYTES = 64 };

static int next_visible(FILE *stream) {
    int c;
    do
        c = getc_unlocked(stream);
    while (c == ' ' || c == '\t' || c == '\r' || c == '\n');
    return c;
}

/* Where the scanner is within a value. */
typedef struct nesting {
    int64_t depth;
    bool in_string, escaped;
} nesting;

static void nesting_step(nesting *at, int c) {
    if (at->in_string) {
        if (at->escaped)
            at->escaped = false;
        else if (c == '\\')
            at->escaped = true;
        else if (c == '"')
            at->in_string = false;
    } else if (c == '"') {
        at->in_string = true;
    } else if (c == '{' || c == '[') {
        at->depth++;
    } else if (c == '}' || c == ']') {
        at->depth--;
    }
}

/* Skips the value of a member; returns what follows it: a comma, the closing brace, or EOF. */
static int skip_value(FILE *stream) {
    nesting at = {0};
    for (;;) {
        int c = getc_unlocked(stream);
        if (c == EOF || (!at.in_string && at.depth == 0 && (c == ',' || c == '}')))
            return c;
        nesting_step(&at, c);
    }
}

/* After its opening quote; a key that is longer is cut. */
static bool read_key(FILE *stream, char *key) {
    size_t n = 0;
    for (int c = getc_unlocked(stream); c != '"'; c = getc_unlocked(stream)) {
        if (c == EOF)
            return false;
        if (n + 1 < KEY_BYTES)
            key[n++] = (char)c;
        if (c == '\\' && getc_unlocked(stream) == EOF)
            return false;
    }
    key[n] = '\0';
    return true;
}

/* Reads on to the first event. */
static bool find_events(FILE *stream) {
    int c = next_visible(stream);
    if (c == '[')
        return true;
    if (c != '{')
        return false;
    do {
        char key[KEY_BYTES];
        if (next_visible(stream) != '"' || !read_key(stream, key) || next_visible(stream) != ':')
            return false;
        if (strcmp(key, "traceEvents") == 0)
            return next_visible(stream) == '[';
        c = skip_value(stream);
    } while (c == ',');
    return false;
}

bool trace_reader_open(trace_reader *reader, const char *path) {
    struct stat info;
    *reader = (trace_reader){.path = path};
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode))
        return false;
    reader->stream = fopen(path, "rb");
    if (reader->stream != NULL && find_events(reader->stream))
        return true;
    trace_reader_close(reader);
    return false;
}

void trace_reader_close(trace_reader *reader) {
    if (reader->stream != NULL)
        fclose(reader->stream);
    free(reader->text);
    *reader = (trace_reader){0};
}

static cleave_status fail_at(const trace_reader *reader, const char *what, cleave_error *error) {
    return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: event %lld: %s", reader->path,
                       (long long)reader->n_events, what);
}

static cleave_status append(trace_reader *reader, int c, cleave_error *error) {
    if (reader->n == MAX_EVENT_BYTES)
        return fail_at(reader, "longer than 1 MiB", error);
    if (!cleave_bytes_reserve(&reader->text, &reader->capacity, reader->n + 1))
        return cleave_fail_memory(error, "reading a trace");
    reader->text[reader->n++] = (char)c;
    return CLEAVE_OK;
}

/* One object, from its opening brace. */
static cleave_status read_object(trace_reader *reader, cleave_error *error) {
    nesting at = {0};
    int c = '{';
    reader->n = 0;
    do {
        if (c == EOF)
            return fail_at(reader, "the file ends within it", error);
        CLEAVE_TRY(append(reader, c, error));
        nesting_step(&at, c);
        if (at.depth > 0)
            c = getc_unlocked(reader->stream);
    } while (at.depth > 0);
    return CLEAVE_OK;
}

cleave_status trace_reader_next(trace_reader *reader, cleave_json **event, cleave_error *error) {
    int c = next_visible(reader->stream);
    *event = NULL;
    if (c == ']')
        return CLEAVE_OK;
    if (reader->n_events > 0) {
        if (c != ',')
            return fail_at(reader, "neither a comma nor the end of the list follows", error);
        c = next_visible(reader->stream);
    }
    if (c != '{')
        return fail_at(reader, c == EOF ? "the file ends before it" : "not an object", error);
    CLEAVE_TRY(read_object(reader, error));
    char name[4096 + 64];
    snprintf(name, sizeof name, "%s: event %lld", reader->path, (long long)reader->n_events);
    reader->n_events++;
    return cleave_json_parse(reader->text, reader->n, name, event, error);
}

cleave_status trace_reader_each(trace_reader *reader, trace_take take, void *context,
                                cleave_error *error) {
    for (;;) {
        cleave_json *event;
        CLEAVE_TRY(trace_reader_next(reader, &event, error));
        if (event == NULL)
            return CLEAVE_OK;
        cleave_json_cursor root = cleave_json_root(event);
        cleave_status status = take(context, &root, error);
        cleave_json_free(event);
        CLEAVE_TRY(status);
    }
}
