/* A table for people: columns as wide as their widest cell, the first to the left, numbers to the
   right. */
#ifndef CLEAVE_CLI_TABLE_H
#define CLEAVE_CLI_TABLE_H

#include "base/arena.h"
#include "base/error.h"
#include "base/list.h"
#include "base/units.h"

#include <stdio.h>

enum { TABLE_MAX_COLUMNS = 16 };

typedef struct table {
    cleave_arena *arena; /* of the cells */
    int n_columns;
    const char *align; /* one character per column: 'l' to the left, 'r' to the right */
    CLEAVE_LIST(const char *) cells; /* row by row; the first row is the heading */
} table;

/* Appends a cell; the text is copied.  A table that ran out of memory prints what it has. */
void table_text(table *t, const char *text);
/* Appends a cell for each column. */
void table_heads(table *t, const char *const *heads);
void table_format(table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void table_quantity(table *t, double value, cleave_unit unit);

/* Prints and frees. */
void table_print(table *t, FILE *stream);
/* Tells rows once that are alike but for one number in their first cell (cli/repeats.h). */
void table_print_repeats(table *t, FILE *stream);

#endif
