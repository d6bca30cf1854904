/* JSON values and their reader, over jansson, which only json.c includes.  A cursor knows the path
   by which it was reached, so that every error names the file, the place and the value. */
#ifndef CLEAVE_BASE_JSON_H
#define CLEAVE_BASE_JSON_H

#include "base/arena.h"
#include "base/error.h"
#include "base/units.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct cleave_json cleave_json;

/* Does a text begin as JSON does, with a brace or a bracket, be it behind blanks or a mark of its
   encoding?  No ONNX file does. */
bool cleave_json_begins(const void *text, size_t bytes);

/* Reads a file or a text; `name` stands for the file in errors.  Free the result. */
cleave_status cleave_json_read(const char *path, cleave_json **document, cleave_error *error);
cleave_status cleave_json_parse(const char *text, size_t bytes, const char *name,
                                cleave_json **document, cleave_error *error);
void cleave_json_free(cleave_json *document);

/* A place in a document.  Lives as long as the document. */
typedef struct cleave_json_cursor {
    const cleave_json *document;
    const void *value;
    char path[256]; /* "$.operators.conv1.split.n" */
} cleave_json_cursor;

cleave_json_cursor cleave_json_root(const cleave_json *document);

typedef enum cleave_json_type {
    CLEAVE_JSON_OBJECT,
    CLEAVE_JSON_ARRAY,
    CLEAVE_JSON_STRING,
    CLEAVE_JSON_INTEGER,
    CLEAVE_JSON_REAL,
    CLEAVE_JSON_BOOLEAN,
    CLEAVE_JSON_NULL
} cleave_json_type;
cleave_json_type cleave_json_type_of(const cleave_json_cursor *at);

/* Members and elements.  `get` fails when the member is missing; `find` returns false. */
cleave_status cleave_json_get(const cleave_json_cursor *at, const char *key,
                              cleave_json_cursor *member, cleave_error *error);
bool cleave_json_find(const cleave_json_cursor *at, const char *key, cleave_json_cursor *member);
/* The first key of an object that begins with "cleave_", as one of each kind of file of ours does;
   null: none does. */
const char *cleave_json_own_key(const cleave_json_cursor *at);
int32_t cleave_json_count(const cleave_json_cursor *at); /* members or elements, else 0 */
cleave_json_cursor cleave_json_element(const cleave_json_cursor *at, int32_t index);
/* The index-th member in file order; its key lives as long as the document.  O(1) on average. */
cleave_json_cursor cleave_json_member(const cleave_json_cursor *at, int32_t index,
                                      const char **key);

/* Values, each with an error that names file, path and value when the type or the range is wrong.
 */
cleave_status cleave_json_string(const cleave_json_cursor *at, const char **value,
                                 cleave_error *error);
/* Which of so many words a string is. */
cleave_status cleave_json_word(const cleave_json_cursor *at, const char *const *words, int n_words,
                               int *which, cleave_error *error);
cleave_status cleave_json_truth(const cleave_json_cursor *at, bool *value, cleave_error *error);
cleave_status cleave_json_integer(const cleave_json_cursor *at, int64_t least, int64_t most,
                                  int64_t *value, cleave_error *error);
cleave_status cleave_json_number(const cleave_json_cursor *at, double *value, cleave_error *error);
cleave_status cleave_json_quantity(const cleave_json_cursor *at, cleave_unit unit, double *value,
                                   cleave_error *error);
cleave_status cleave_json_expect_object(const cleave_json_cursor *at, cleave_error *error);
cleave_status cleave_json_expect_array(const cleave_json_cursor *at, cleave_error *error);
/* A member's value at once: `get`, then the value. */
cleave_status cleave_json_get_string(const cleave_json_cursor *at, const char *key,
                                     const char **value, cleave_error *error);
cleave_status cleave_json_get_truth(const cleave_json_cursor *at, const char *key, bool *value,
                                    cleave_error *error);
cleave_status cleave_json_get_integer(const cleave_json_cursor *at, const char *key, int64_t least,
                                      int64_t most, int64_t *value, cleave_error *error);
cleave_status cleave_json_get_number(const cleave_json_cursor *at, const char *key, double *value,
                                     cleave_error *error);
/* A number of 0 or more, or of more than 0, and not infinite. */
cleave_status cleave_json_get_amount(const cleave_json_cursor *at, const char *key, bool positive,
                                     double *value, cleave_error *error);
cleave_status cleave_json_get_array(const cleave_json_cursor *at, const char *key,
                                    cleave_json_cursor *array, cleave_error *error);
/* An error at this place: "FILE: PATH: ...". */
cleave_status cleave_json_fail(const cleave_json_cursor *at, cleave_error *error,
                               const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Fails on a member whose key is not in the null-terminated list: catches misspelt keys. */
cleave_status cleave_json_expect_keys(const cleave_json_cursor *at, const char *const *keys,
                                      cleave_error *error);

/* Puts another value in the place of a member that is there: "what if".  Cursors to the member are
   void then. */
cleave_status cleave_json_replace_string(const cleave_json_cursor *object, const char *key,
                                         const char *text, cleave_error *error);
cleave_status cleave_json_replace_number(const cleave_json_cursor *object, const char *key,
                                         double value, cleave_error *error);

/* Writing: a text builder that escapes and indents; numbers round-trip.  One writer for every file.
 */
typedef struct cleave_json_writer {
    char *text; /* zero-terminated; owned */
    size_t n, capacity;
    int depth;
    int flat;   /* > 0: inside a container that is written on one line */
    bool first; /* nothing written yet in the current container */
    bool after_key;
    bool failed; /* memory was short: text is not to be used */
} cleave_json_writer;

void cleave_json_begin_object(cleave_json_writer *writer, bool one_line);
void cleave_json_end_object(cleave_json_writer *writer);
void cleave_json_begin_array(cleave_json_writer *writer, bool one_line);
void cleave_json_end_array(cleave_json_writer *writer);
void cleave_json_key(cleave_json_writer *writer, const char *key);
void cleave_json_put_string(cleave_json_writer *writer, const char *value);
void cleave_json_put_integer(cleave_json_writer *writer, int64_t value);
void cleave_json_put_number(cleave_json_writer *writer, double value); /* null when not finite */
void cleave_json_put_null(cleave_json_writer *writer);
void cleave_json_put_quantity(cleave_json_writer *writer, double value,
                              cleave_unit unit); /* exact */
/* A member at once: its key, then its value; what is opened is ended as what was begun. */
void cleave_json_open_object(cleave_json_writer *writer, const char *key, bool one_line);
void cleave_json_open_array(cleave_json_writer *writer, const char *key, bool one_line);
void cleave_json_set_string(cleave_json_writer *writer, const char *key, const char *value);
void cleave_json_set_integer(cleave_json_writer *writer, const char *key, int64_t value);
void cleave_json_set_number(cleave_json_writer *writer, const char *key, double value);
/* Null where it is not known. */
void cleave_json_set_known(cleave_json_writer *writer, const char *key, bool is_known,
                           double value);
void cleave_json_set_truth(cleave_json_writer *writer, const char *key, bool value);
/* Writes the finished text to a file, and frees the writer in any case; `what` is said where memory
   was short, such as "writing a plan". */
cleave_status cleave_json_write_file(cleave_json_writer *writer, const char *path, const char *what,
                                     cleave_error *error);
void cleave_json_writer_free(cleave_json_writer *writer);

#endif
