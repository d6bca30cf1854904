/* Options of a subcommand: parsing and help from one table. */
#include "cli/options.h"

#include "base/file.h"
#include "base/nearest_word.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const option_row *find_row(const option_table *table, const char *name, size_t length) {
    for (int i = 0; i < table->n_rows; i++)
        if (strlen(table->rows[i].name) == length &&
            strncmp(table->rows[i].name, name, length) == 0)
            return &table->rows[i];
    return NULL;
}

static const char *name_positional(const option_table *table) {
    for (int i = 0; i < table->n_rows; i++)
        if (table->rows[i].kind == OPTION_POSITIONAL)
            return table->rows[i].name;
    return NULL;
}

/* Dashes say nothing about which option is meant. */
static cleave_status fail_unknown(const option_table *table, const char *argument, size_t length,
                                  cleave_error *error) {
    const char *positional = name_positional(table);
    size_t dashes = strspn(argument, "-");
    cleave_nearest_word nearest = {.text = argument + dashes,
                                   .length = length > dashes ? length - dashes : 0};
    for (int i = 0; i < table->n_rows; i++)
        if (strncmp(table->rows[i].name, "--", 2) == 0)
            cleave_nearest_word_offer(&nearest, table->rows[i].name + 2);
    if (nearest.word != NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "unknown option %.200s: is it --%s? (--help lists them)", argument,
                           nearest.word);
    if (positional != NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "unknown option %.200s: %s stands by itself, without an option (--help "
                           "lists them)",
                           argument, positional);
    return cleave_fail(error, CLEAVE_BAD_INPUT, "unknown option %.200s (--help lists them)",
                       argument);
}

static cleave_status check_range(const option_row *row, const char *text, double value,
                                 cleave_error *error) {
    bool any = row->least == 0 && row->most == 0;
    if (value >= row->least && (any || value <= row->most))
        return CLEAVE_OK;
    if (any || row->most >= 0x1p53)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: %.64s is %s %.15g", row->name, text,
                           value > row->least ? "above" : "below",
                           value > row->least ? row->most : row->least);
    return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: %.64s is not in the range %.15g to %.15g",
                       row->name, text, row->least, row->most);
}

static cleave_status parse_integer(const option_row *row, const char *text, int64_t *value,
                                   cleave_error *error) {
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || strchr(" \t\n\v\f\r", text[0]) != NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: \"%.64s\" is not an integer", row->name,
                           text);
    if (errno == ERANGE)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: %.64s is out of range", row->name, text);
    CLEAVE_TRY(check_range(row, text, (double)number, error));
    *value = number;
    return CLEAVE_OK;
}

/* A number; where a unit is allowed, a plain one is in the plain unit of its kind. */
static cleave_status parse_number(const option_row *row, const char *text, const cleave_unit *unit,
                                  double *value, cleave_error *error) {
    char *end;
    double number = strtod(text, &end);
    bool plain = end != text && *end == '\0' && strpbrk(text, " \t\nxX") == NULL;
    if (!plain && unit != NULL) {
        cleave_error reason;
        if (cleave_unit_parse(text, *unit, &number, &reason) != CLEAVE_OK)
            return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: %s", row->name, reason.message);
    } else if (!plain || !isfinite(number)) {
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: \"%.64s\" is not a number", row->name,
                           text);
    }
    CLEAVE_TRY(check_range(row, text, number, error));
    *value = number;
    return CLEAVE_OK;
}

cleave_status options_set(const option_row *row, const char *text, void *values,
                          cleave_error *error) {
    static const cleave_unit bytes = CLEAVE_UNIT_BYTES, seconds = CLEAVE_UNIT_SECONDS;
    void *place = (char *)values + row->offset;
    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)place = true;
        return CLEAVE_OK;
    case OPTION_TEXT:
    case OPTION_OUTPUT:
    case OPTION_POSITIONAL:
        *(const char **)place = text;
        return CLEAVE_OK;
    case OPTION_INTEGER:
        return parse_integer(row, text, place, error);
    case OPTION_NUMBER:
        return parse_number(row, text, NULL, place, error);
    case OPTION_BYTES:
        return parse_number(row, text, &bytes, place, error);
    case OPTION_SECONDS:
        return parse_number(row, text, &seconds, place, error);
    case OPTION_TEXT_LIST: {
        option_texts *list = place;
        if (list->n == OPTION_LIST_MAX)
            break;
        list->items[list->n++] = text;
        return CLEAVE_OK;
    }
    case OPTION_INTEGER_LIST: {
        option_integers *list = place;
        if (list->n == OPTION_LIST_MAX)
            break;
        return parse_integer(row, text, &list->items[list->n++], error);
    }
    }
    return cleave_fail(error, CLEAVE_BAD_INPUT, "%s is given more than %d times", row->name,
                       OPTION_LIST_MAX);
}

static bool repeats(const option_row *row) {
    return row->kind == OPTION_TEXT_LIST || row->kind == OPTION_INTEGER_LIST;
}

/* The row of an argument and its value; `*i` moves over a value that stands apart. */
static cleave_status match(const option_table *table, int n_arguments, char *const *arguments,
                           int *i, const option_row **row, const char **value,
                           cleave_error *error) {
    const char *argument = arguments[*i];
    if (argument[0] != '-' || argument[1] == '\0') {
        *value = argument;
        *row = NULL;
        for (int r = 0; r < table->n_rows && *row == NULL; r++)
            if (table->rows[r].kind == OPTION_POSITIONAL)
                *row = &table->rows[r];
        if (*row == NULL)
            return cleave_fail(error, CLEAVE_BAD_INPUT, "unexpected argument \"%.200s\"", argument);
        return CLEAVE_OK;
    }
    const char *equals = strncmp(argument, "--", 2) == 0 ? strchr(argument, '=') : NULL;
    size_t length = equals != NULL ? (size_t)(equals - argument) : strlen(argument);
    *row = find_row(table, argument, length);
    if (*row == NULL)
        return fail_unknown(table, argument, length, error);
    *value = equals != NULL ? equals + 1 : NULL;
    if ((*row)->kind == OPTION_FLAG)
        return equals == NULL
                   ? CLEAVE_OK
                   : cleave_fail(error, CLEAVE_BAD_INPUT, "%s takes no value", (*row)->name);
    if (equals == NULL) {
        if (*i + 1 >= n_arguments || strncmp(arguments[*i + 1], "--", 2) == 0)
            return cleave_fail(error, CLEAVE_BAD_INPUT, "%s needs a value: %s %s", (*row)->name,
                               (*row)->name, (*row)->value);
        *value = arguments[++*i];
    }
    return CLEAVE_OK;
}

/* Arguments without a name go to the positional rows in turn; one too many to the last again. */
static const option_row *next_positional(const option_table *table, const bool *seen) {
    const option_row *row = NULL;
    for (int r = 0; r < table->n_rows && (row == NULL || seen[row - table->rows]); r++)
        if (table->rows[r].kind == OPTION_POSITIONAL)
            row = &table->rows[r];
    return row;
}

static bool is_given(int n_arguments, char *const *arguments, const char *name) {
    size_t length = strlen(name);
    for (int i = 0; i < n_arguments; i++)
        if (strncmp(arguments[i], name, length) == 0 &&
            (arguments[i][length] == '\0' || arguments[i][length] == '='))
            return true;
    return false;
}

cleave_status options_parse(const option_table *table, int n_arguments, char *const *arguments,
                            void *values, size_t value_bytes, bool *help, cleave_error *error) {
    enum { MAX_ROWS = 64 };
    bool seen[MAX_ROWS] = {false};
    memset(values, 0, value_bytes);
    *help = is_given(n_arguments, arguments, "--help") || is_given(n_arguments, arguments, "-h");
    if (*help)
        return CLEAVE_OK;
    for (int r = 0; r < table->n_rows; r++) {
        if (table->rows[r].standard != NULL)
            CLEAVE_TRY(options_set(&table->rows[r], table->rows[r].standard, values, error));
        if (table->rows[r].may_lack)
            *(double *)((char *)values + table->rows[r].offset) = NAN;
    }
    for (int i = 0; i < n_arguments; i++) {
        const option_row *row = NULL;
        const char *value = NULL;
        CLEAVE_TRY(match(table, n_arguments, arguments, &i, &row, &value, error));
        if (row->kind == OPTION_POSITIONAL)
            row = next_positional(table, seen);
        if (seen[row - table->rows] && !repeats(row))
            return cleave_fail(error, CLEAVE_BAD_INPUT, "%s is given twice", row->name);
        seen[row - table->rows] = true;
        CLEAVE_TRY(options_set(row, value, values, error));
    }
    for (int r = 0; r < table->n_rows; r++)
        if (table->rows[r].required && !seen[r])
            return cleave_fail(error, CLEAVE_BAD_INPUT, "%s%s%s is missing (--help explains)",
                               table->rows[r].name, table->rows[r].value != NULL ? " " : "",
                               table->rows[r].value != NULL ? table->rows[r].value : "");
    return CLEAVE_OK;
}

int options_repeat(const option_table *table, const option_table *others, int n_arguments,
                   char *const *arguments, const char **repeated, int most) {
    int n = 0;
    for (int r = 0; r < others->n_rows; r++)
        for (int i = 0; i < n_arguments && n + 2 <= most; i++) {
            const option_row *row = NULL;
            const char *value = NULL;
            if (match(table, n_arguments, arguments, &i, &row, &value, NULL) != CLEAVE_OK ||
                strcmp(row->name, others->rows[r].name) != 0)
                continue;
            repeated[n++] = row->name;
            if (value != NULL)
                repeated[n++] = value;
        }
    return n;
}

cleave_status options_check_outputs(const option_table *table, const void *values,
                                    cleave_error *error) {
    for (int r = 0; r < table->n_rows; r++) {
        const void *place = (const char *)values + table->rows[r].offset;
        cleave_file_writer writer;
        if (table->rows[r].kind != OPTION_OUTPUT || *(const char *const *)place == NULL)
            continue;
        CLEAVE_TRY(cleave_file_writer_open(&writer, *(const char *const *)place, error));
        cleave_file_writer_abandon(&writer);
    }
    return CLEAVE_OK;
}

/* ---- help, in lines that a terminal holds ---------------------------------------------------- */

enum { LINE_COLUMNS = 80, HELP_COLUMN = 29 };

/* Text being laid out: lines but the first begin at `indent`. */
typedef struct paragraph {
    FILE *stream;
    int indent, column;
} paragraph;

/* Puts what stays on one line behind a space, or on the next line. */
static void put_unbroken(paragraph *p, const char *text, size_t length) {
    if (p->column > p->indent && p->column + 1 + (int)length > LINE_COLUMNS)
        p->column = fprintf(p->stream, "\n%*s", p->indent, "") - 1;
    else if (p->column > p->indent)
        p->column += fprintf(p->stream, " ");
    p->column += (int)fwrite(text, 1, length, p->stream);
}

static void put_words(paragraph *p, const char *text) {
    for (size_t length; *text != '\0'; text += length, text += strspn(text, " ")) {
        length = strcspn(text, " ");
        put_unbroken(p, text, length);
    }
}

static int name_with_value(const option_row *row, char *text, size_t bytes) {
    return snprintf(text, bytes, "%s%s%s", row->name, row->value != NULL ? " " : "",
                    row->value != NULL ? row->value : "");
}

void options_print_usage(const option_table *table, const char *command, FILE *stream) {
    paragraph p = {stream, .indent = 8};
    char name[64];
    p.column = fprintf(stream, "usage: cleave %s", command);
    for (int r = 0; r < table->n_rows; r++)
        if (table->rows[r].required)
            put_unbroken(&p, name, (size_t)name_with_value(&table->rows[r], name, sizeof name));
    put_words(&p, "[OPTION]...");
    fputc('\n', stream);
}

void options_print_help(const option_table *table, FILE *stream) {
    for (int r = 0; r < table->n_rows; r++) {
        const option_row *row = &table->rows[r];
        paragraph p = {stream, .indent = HELP_COLUMN};
        char name[64], standard[64];
        name_with_value(row, name, sizeof name);
        p.column = fprintf(stream, "  %-*s ", HELP_COLUMN - 3, name);
        put_words(&p, row->help);
        if (row->standard != NULL)
            put_unbroken(
                &p, standard,
                (size_t)snprintf(standard, sizeof standard, "(default %s)", row->standard));
        if (repeats(row))
            put_words(&p, "(may be repeated)");
        fputc('\n', stream);
    }
    fprintf(stream, "  %-*s %s\n", HELP_COLUMN - 3, "--help", "this text");
}
