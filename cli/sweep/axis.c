/* Reading what a sweep varies. */
#include "cli/sweep/axis.h"

#include "base/list.h"
#include "base/order.h"
#include "costmodel/machine_figures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Options of which a layout that was found with one value is legal with any other. */
static const char *const carrying[] = {"--memory-limit", "--optimizer", "--momentum", NULL};

typedef struct reading {
    const char *name, *values; /* for errors */
    bool is_whole;             /* numbers are integers */
    char unit[32];
    CLEAVE_LIST(double) numbers;
    cleave_arena *arena;
    cleave_error *error;
} reading;

static cleave_status fail(const reading *r, const char *what) {
    return cleave_fail(r->error, CLEAVE_BAD_INPUT, "--vary %.64s=%.128s: %s", r->name, r->values,
                       what);
}

/* ---- numbers and ranges ---------------------------------------------------------------------- */

static void skip_blanks(const char **at) { *at += strspn(*at, " "); }

/* A plain decimal number; where "..", which begins like a fraction, follows, it ends there. */
static bool scan_number(const char **at, double *value) {
    static const char digits[] = "0123456789";
    char text[64];
    size_t n = strspn(*at, digits), whole = n;
    if ((*at)[n] == '.' && (*at)[n + 1] != '.')
        n += 1 + strspn(*at + n + 1, digits);
    if (whole == 0 || n >= sizeof text - 8)
        return false;
    if (((*at)[n] == 'e' || (*at)[n] == 'E') && strspn(*at + n + 1, "+-0123456789") > 0) {
        size_t sign = (*at)[n + 1] == '+' || (*at)[n + 1] == '-';
        size_t exponent = strspn(*at + n + 1 + sign, digits);
        n += exponent > 0 && exponent < 4 ? 1 + sign + exponent : 0;
    }
    snprintf(text, sizeof text, "%.*s", (int)n, *at);
    *value = strtod(text, NULL);
    *at += n;
    return isfinite(*value);
}

/* The first unit that is met is that of all. */
static cleave_status read_unit(reading *r, const char **at) {
    char unit[sizeof r->unit];
    skip_blanks(at);
    size_t n = strcspn(*at, ",. ");
    if (n == 0)
        return CLEAVE_OK;
    if (n >= sizeof unit)
        return fail(r, "the unit is too long");
    snprintf(unit, sizeof unit, "%.*s", (int)n, *at);
    if (r->unit[0] != '\0' && strcmp(unit, r->unit) != 0)
        return fail(r, "all values have one unit");
    snprintf(r->unit, sizeof r->unit, "%s", unit);
    *at += n;
    skip_blanks(at);
    return CLEAVE_OK;
}

static cleave_status add(reading *r, double value) {
    if (r->is_whole && value != floor(value))
        return fail(r, "these are whole numbers");
    if (r->numbers.n == SWEEP_MOST_VALUES)
        return fail(r, "there are more than 1024 values");
    return CLEAVE_LIST_PUSH(&r->numbers, value) ? CLEAVE_OK : fail(r, "out of memory");
}

/* Whole numbers that a factor leads between are the nearest ones. */
static cleave_status add_range(reading *r, double low, double high, bool times, double by) {
    if (high < low)
        return fail(r, "a range goes from the smaller number to the larger one");
    if (times ? by <= 1 || low <= 0 : by <= 0)
        return fail(r, times ? "a range of factors needs one above 1, and begins above 0"
                             : "the next number has to be a larger one");
    double value = low;
    for (int32_t i = 0; value < high * (1 - 1e-9); i++) {
        CLEAVE_TRY(add(r, r->is_whole && times ? round(value) : value));
        value = times ? low * pow(by, i + 1) : low + by * (i + 1);
    }
    return add(r, high);
}

static cleave_status read_item(reading *r, const char **at) {
    double low, high, by = 2;
    bool times = true;
    skip_blanks(at);
    if (!scan_number(at, &low))
        return fail(r, "a number is missing, such as in 8,16 or 8..512");
    CLEAVE_TRY(read_unit(r, at));
    if (strncmp(*at, "..", 2) != 0)
        return add(r, low);
    *at += 2;
    skip_blanks(at);
    if (!scan_number(at, &high))
        return fail(r, "the end of a range is missing, such as in 8..512");
    if (**at == 'x' || **at == '+') {
        times = *(*at)++ == 'x';
        if (!scan_number(at, &by))
            return fail(r, "a number is missing behind x or +, such as in 8..512x4");
    }
    CLEAVE_TRY(read_unit(r, at));
    return add_range(r, low, high, times, by);
}

static cleave_status read_numbers(reading *r) {
    const char *at = r->values;
    for (;;) {
        CLEAVE_TRY(read_item(r, &at));
        if (*at == '\0')
            break;
        if (*at++ != ',')
            return fail(r, "values have commas between them");
    }
    cleave_sort_doubles(r->numbers.items, r->numbers.n);
    int32_t n = 1;
    for (int32_t i = 1; i < r->numbers.n; i++)
        if (r->numbers.items[i] > r->numbers.items[n - 1])
            r->numbers.items[n++] = r->numbers.items[i];
    r->numbers.n = n;
    return CLEAVE_OK;
}

/* ---- axes ------------------------------------------------------------------------------------ */

static cleave_status make_room(const reading *r, int32_t n, sweep_axis *axis) {
    axis->n = n;
    axis->numbers = CLEAVE_ARENA_ARRAY(r->arena, double, n);
    axis->texts = CLEAVE_ARENA_ARRAY(r->arena, const char *, n);
    axis->labels = CLEAVE_ARENA_ARRAY(r->arena, const char *, n);
    axis->unit = cleave_arena_string(r->arena, r->unit);
    return axis->numbers == NULL || axis->texts == NULL || axis->labels == NULL ||
                   axis->unit == NULL
               ? cleave_fail_memory(r->error, "reading --vary")
               : CLEAVE_OK;
}

static cleave_status take_numbers(const reading *r, sweep_axis *axis) {
    CLEAVE_TRY(make_room(r, r->numbers.n, axis));
    for (int32_t i = 0; i < axis->n; i++) {
        axis->numbers[i] = r->numbers.items[i];
        axis->labels[i] = cleave_arena_printf(r->arena, "%.12g", axis->numbers[i]);
        axis->texts[i] = cleave_arena_printf(r->arena, "%.12g%s%s", axis->numbers[i],
                                             axis->unit[0] != '\0' ? " " : "", axis->unit);
        if (axis->labels[i] == NULL || axis->texts[i] == NULL)
            return cleave_fail_memory(r->error, "reading --vary");
    }
    return CLEAVE_OK;
}

static cleave_status take_words(const reading *r, sweep_axis *axis) {
    int32_t n = 1;
    for (const char *at = r->values; *at != '\0'; at++)
        n += *at == ',';
    if (n > SWEEP_MOST_VALUES)
        return fail(r, "there are more than 1024 values");
    CLEAVE_TRY(make_room(r, n, axis));
    const char *at = r->values;
    for (int32_t i = 0; i < n; i++, at += strcspn(at, ","), at += *at == ',') {
        size_t length = strcspn(at, ",");
        if (length == 0)
            return fail(r, "a value is empty");
        axis->numbers[i] = i;
        axis->texts[i] = axis->labels[i] = cleave_arena_string_n(r->arena, at, length);
        if (axis->texts[i] == NULL)
            return cleave_fail_memory(r->error, "reading --vary");
        for (int32_t j = 0; j < i; j++)
            if (strcmp(axis->texts[i], axis->texts[j]) == 0)
                return fail(r, "a value is there twice");
    }
    return CLEAVE_OK;
}

static const option_row *find_option(const option_table *options, const char *name) {
    for (int i = 0; i < options->n_rows; i++)
        if (strcmp(options->rows[i].name + 2, name) == 0)
            return &options->rows[i];
    return NULL;
}

static bool carries(const option_row *option) {
    for (int i = 0; option != NULL && carrying[i] != NULL; i++)
        if (strcmp(option->name, carrying[i]) == 0)
            return true;
    return option == NULL;
}

static cleave_status take_name(const char *text, const option_table *options,
                               const cleave_json *machine, reading *r, sweep_axis *axis) {
    const char *equals = strchr(text, '=');
    bool is_quantity;
    if (equals == NULL || equals == text)
        return cleave_fail(r->error, CLEAVE_BAD_INPUT,
                           "--vary %.128s: write it as NAME=VALUES, such as devices=8..512", text);
    axis->name = r->name = cleave_arena_string_n(r->arena, text, (size_t)(equals - text));
    r->values = equals + 1;
    if (axis->name == NULL)
        return cleave_fail_memory(r->error, "reading --vary");
    axis->option = find_option(options, axis->name);
    axis->carries = carries(axis->option);
    axis->is_words = axis->option != NULL && axis->option->kind == OPTION_TEXT;
    r->is_whole = axis->option != NULL && axis->option->kind == OPTION_INTEGER;
    if (axis->option == NULL &&
        cleave_machine_figure_find(machine, axis->name, &is_quantity, r->error) != CLEAVE_OK) {
        cleave_error_prefix(r->error, "--vary");
        return CLEAVE_BAD_INPUT;
    }
    return CLEAVE_OK;
}

cleave_status sweep_axis_parse(const char *text, const option_table *options,
                               const cleave_json *machine, cleave_arena *arena, sweep_axis *axis,
                               cleave_error *error) {
    reading r = {.arena = arena, .error = error};
    sweep_axis made = {0};
    CLEAVE_TRY(take_name(text, options, machine, &r, &made));
    cleave_status status = made.is_words ? take_words(&r, &made) : read_numbers(&r);
    if (status == CLEAVE_OK && !made.is_words)
        status = take_numbers(&r, &made);
    CLEAVE_LIST_FREE(&r.numbers);
    if (status == CLEAVE_OK)
        *axis = made;
    return status;
}

void sweep_axis_put(const sweep_axis *axis, int32_t at, const char *key, cleave_json_writer *w) {
    double value = axis->numbers[at];
    cleave_json_key(w, key);
    if (axis->is_words)
        cleave_json_put_string(w, axis->texts[at]);
    else if (value == floor(value) && value < 0x1p53)
        cleave_json_put_integer(w, (int64_t)value);
    else
        cleave_json_put_number(w, value);
}

const char *sweep_axis_heading(const sweep_axis *axis, cleave_arena *arena) {
    const char *made = axis->unit[0] != '\0'
                           ? cleave_arena_printf(arena, "%s [%s]", axis->name, axis->unit)
                           : axis->name;
    return made != NULL ? made : axis->name;
}
