/* Writing JSON: a text that grows.  Containers on several lines indent by two spaces and have one
   member a line; a container on one line keeps everything within it on that line. */
#include "base/json.h"

#include "base/file.h"
#include "base/list.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void append(cleave_json_writer *writer, const char *text, size_t length) {
    writer->failed = writer->failed || !cleave_bytes_reserve(&writer->text, &writer->capacity,
                                                             writer->n + length + 1);
    if (writer->failed)
        return;
    memcpy(writer->text + writer->n, text, length);
    writer->n += length;
    writer->text[writer->n] = '\0';
}

static void append_string(cleave_json_writer *writer, const char *text) {
    append(writer, text, strlen(text));
}

static void new_line(cleave_json_writer *writer) {
    append(writer, "\n", 1);
    for (int i = 0; i < writer->depth; i++)
        append(writer, "  ", 2);
}

/* What comes before a value or a key: a comma, and its line. */
static void separate(cleave_json_writer *writer) {
    if (writer->after_key) {
        writer->after_key = false;
        return;
    }
    if (writer->depth == 0)
        return;
    if (!writer->first)
        append(writer, ",", 1);
    if (writer->flat == 0)
        new_line(writer);
    else if (!writer->first)
        append(writer, " ", 1);
    writer->first = false;
}

static void begin(cleave_json_writer *writer, const char *bracket, bool one_line) {
    separate(writer);
    append_string(writer, bracket);
    writer->depth++;
    if (writer->flat > 0 || one_line)
        writer->flat++;
    writer->first = true;
}

static void finish_document(cleave_json_writer *writer) {
    if (writer->depth == 0)
        append(writer, "\n", 1);
}

static void end(cleave_json_writer *writer, const char *bracket) {
    writer->depth--;
    if (writer->flat > 0)
        writer->flat--;
    else if (!writer->first)
        new_line(writer);
    append_string(writer, bracket);
    writer->first = false;
    finish_document(writer);
}

void cleave_json_begin_object(cleave_json_writer *writer, bool one_line) {
    begin(writer, "{", one_line);
}
void cleave_json_end_object(cleave_json_writer *writer) { end(writer, "}"); }
void cleave_json_begin_array(cleave_json_writer *writer, bool one_line) {
    begin(writer, "[", one_line);
}
void cleave_json_end_array(cleave_json_writer *writer) { end(writer, "]"); }

static void append_escaped(cleave_json_writer *writer, const char *text) {
    append(writer, "\"", 1);
    for (const char *c = text; *c != '\0'; c++) {
        char escaped[8];
        if (*c == '"' || *c == '\\')
            snprintf(escaped, sizeof escaped, "\\%c", *c);
        else if ((unsigned char)*c < 0x20)
            snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned char)*c);
        else
            snprintf(escaped, sizeof escaped, "%c", *c);
        append_string(writer, escaped);
    }
    append(writer, "\"", 1);
}

void cleave_json_key(cleave_json_writer *writer, const char *key) {
    separate(writer);
    append_escaped(writer, key);
    append(writer, ": ", 2);
    writer->after_key = true;
}

static void put(cleave_json_writer *writer, const char *text) {
    separate(writer);
    append_string(writer, text);
    finish_document(writer);
}

void cleave_json_put_string(cleave_json_writer *writer, const char *value) {
    separate(writer);
    append_escaped(writer, value);
    finish_document(writer);
}

/* Digit by digit: a layout of many operators on many devices is millions of integers. */
void cleave_json_put_integer(cleave_json_writer *writer, int64_t value) {
    char text[32];
    size_t at = sizeof text - 1;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    text[at] = '\0';
    do
        text[--at] = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (value < 0)
        text[--at] = '-';
    put(writer, text + at);
}

void cleave_json_put_number(cleave_json_writer *writer, double value) {
    char text[40];
    if (!isfinite(value)) {
        put(writer, "null");
        return;
    }
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(text, sizeof text, "%.*g", precision, value);
        if (strtod(text, NULL) == value)
            break;
    }
    /* A real stays a real: "2" would come back as an integer, and "-0" without its sign. */
    if (strpbrk(text, ".e") == NULL)
        strcat(text, ".0");
    put(writer, text);
}

void cleave_json_put_null(cleave_json_writer *writer) { put(writer, "null"); }

void cleave_json_put_quantity(cleave_json_writer *writer, double value, cleave_unit unit) {
    char text[64];
    cleave_unit_format_exact(value, unit, text, sizeof text);
    cleave_json_put_string(writer, text);
}

void cleave_json_open_object(cleave_json_writer *writer, const char *key, bool one_line) {
    cleave_json_key(writer, key);
    cleave_json_begin_object(writer, one_line);
}
void cleave_json_open_array(cleave_json_writer *writer, const char *key, bool one_line) {
    cleave_json_key(writer, key);
    cleave_json_begin_array(writer, one_line);
}
void cleave_json_set_string(cleave_json_writer *writer, const char *key, const char *value) {
    cleave_json_key(writer, key);
    cleave_json_put_string(writer, value);
}
void cleave_json_set_integer(cleave_json_writer *writer, const char *key, int64_t value) {
    cleave_json_key(writer, key);
    cleave_json_put_integer(writer, value);
}
void cleave_json_set_number(cleave_json_writer *writer, const char *key, double value) {
    cleave_json_key(writer, key);
    cleave_json_put_number(writer, value);
}
void cleave_json_set_known(cleave_json_writer *writer, const char *key, bool is_known,
                           double value) {
    cleave_json_set_number(writer, key, is_known ? value : HUGE_VAL);
}
void cleave_json_set_truth(cleave_json_writer *writer, const char *key, bool value) {
    cleave_json_key(writer, key);
    put(writer, value ? "true" : "false");
}

cleave_status cleave_json_write_file(cleave_json_writer *writer, const char *path, const char *what,
                                     cleave_error *error) {
    cleave_status status = writer->failed ? cleave_fail_memory(error, what)
                                          : cleave_file_write(path, writer->text, writer->n, error);
    cleave_json_writer_free(writer);
    return status;
}

void cleave_json_writer_free(cleave_json_writer *writer) {
    free(writer->text);
    *writer = (cleave_json_writer){0};
}
