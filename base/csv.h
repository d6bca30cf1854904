/* Tables as comma-separated values (RFC 4180), one row after the other.

   A field may stand in quotes, and then have commas, line ends and doubled quotes in it.  Rows end
   in LF or CRLF; blank rows, and those that begin with '#', are skipped; spaces around a field
   without quotes do not count.  Each field knows the line and the column where it begins, for
   errors. */
#ifndef CLEAVE_BASE_CSV_H
#define CLEAVE_BASE_CSV_H

#include "base/arena.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cleave_csv_field {
    const char *text;
    int32_t line, column; /* from 1; columns count bytes */
} cleave_csv_field;

typedef struct cleave_csv_row {
    int32_t n; /* 1 or more; 0: there are no more rows */
    const cleave_csv_field *fields;
} cleave_csv_row;

/* A place in a text, which must outlive it. */
typedef struct cleave_csv {
    const char *name; /* of the file, for errors */
    const char *text;
    size_t bytes, at;
    int32_t line;
    size_t line_start;
} cleave_csv;

/* A byte order mark is skipped. */
cleave_csv cleave_csv_begin(const char *text, size_t bytes, const char *name);

/* The next row, in the arena.  BAD_INPUT, "FILE:LINE:COLUMN: ...", for a quote that is not closed,
   or has something behind it, and for bytes that are no text. */
cleave_status cleave_csv_next(cleave_csv *csv, cleave_arena *arena, cleave_csv_row *row,
                              cleave_error *error);

#endif
