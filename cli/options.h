/* Options of a subcommand: one table says what there is; parsing, defaults, errors and help all
   come from it.  Values land in a plain struct of the subcommand, at the offset that the row names.
 */
#ifndef CLEAVE_CLI_OPTIONS_H
#define CLEAVE_CLI_OPTIONS_H

#include "base/error.h"
#include "base/units.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum option_kind {
    OPTION_FLAG,         /* bool */
    OPTION_TEXT,         /* const char *, null when not given */
    OPTION_OUTPUT,       /* the same, a file that the command will write */
    OPTION_INTEGER,      /* int64_t in least..most */
    OPTION_NUMBER,       /* double in least..most */
    OPTION_BYTES,        /* double, bytes: "2 GiB", or a plain number */
    OPTION_SECONDS,      /* double, seconds: "30", "2 min" */
    OPTION_TEXT_LIST,    /* option_texts: the option may be repeated */
    OPTION_INTEGER_LIST, /* option_integers */
    OPTION_POSITIONAL    /* const char *: an argument without a name, in the order of the rows;
                            always required */
} option_kind;

enum { OPTION_LIST_MAX = 32 };
typedef struct option_texts {
    int n;
    const char *items[OPTION_LIST_MAX];
} option_texts;
typedef struct option_integers {
    int n;
    int64_t items[OPTION_LIST_MAX];
} option_integers;

typedef struct option_row {
    const char *name;  /* "--batch", "-o"; "FILE" of a positional argument */
    const char *value; /* what help calls the value: "N"; null for a flag */
    option_kind kind;
    size_t offset; /* of the value in the options struct */
    bool required;
    bool may_lack;        /* a number that is NaN when it is not given */
    double least, most;   /* of numbers; both 0: any value of 0 or more */
    const char *standard; /* default, parsed like a given value; null: zero */
    const char *help;
} option_row;

typedef struct option_table {
    const option_row *rows;
    int n_rows;
} option_table;

/* Parses arguments into `values` (zeroed here, then filled with the defaults).  `*help` is true
   when
   --help was among them; then nothing else is checked.  BAD_INPUT names the option and its value.
 */
cleave_status options_parse(const option_table *table, int n_arguments, char *const *arguments,
                            void *values, size_t value_bytes, bool *help, cleave_error *error);

/* The arguments of the rows of a table whose names `others` has, in that one's order and each value
   apart from its name: to start another subcommand with them.  They were parsed before.  Returns
   how many there are, `most` at most. */
int options_repeat(const option_table *table, const option_table *others, int n_arguments,
                   char *const *arguments, const char **repeated, int most);

/* One value of a row, as options_parse reads it: for tables whose columns are rows. */
cleave_status options_set(const option_row *row, const char *text, void *values,
                          cleave_error *error);

/* Whether the files that are to be written can be, before any work is done for them.  BAD_INPUT. */
cleave_status options_check_outputs(const option_table *table, const void *values,
                                    cleave_error *error);

/* The usage line's options, then a line for each option with its default. */
void options_print_usage(const option_table *table, const char *command, FILE *stream);
void options_print_help(const option_table *table, FILE *stream);

#endif
