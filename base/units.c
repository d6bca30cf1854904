/* Quantities with units.  One table holds every unit with its factor to the plain unit of its
   kind; parsing looks a name up, formatting takes the largest unit that the value reaches among
   those meant for people. */
#include "base/units.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct unit_row {
    cleave_unit unit;
    const char *name;
    double factor;
    bool display; /* used by cleave_unit_format; within a kind these ascend, the smallest first */
} unit_row;

static const unit_row rows[] = {
    {CLEAVE_UNIT_BYTES, "B", 1, true},
    {CLEAVE_UNIT_BYTES, "KiB", 0x1p10, true},
    {CLEAVE_UNIT_BYTES, "MiB", 0x1p20, true},
    {CLEAVE_UNIT_BYTES, "GiB", 0x1p30, true},
    {CLEAVE_UNIT_BYTES, "TiB", 0x1p40, true},
    {CLEAVE_UNIT_BYTES, "kB", 1e3, false},
    {CLEAVE_UNIT_BYTES, "MB", 1e6, false},
    {CLEAVE_UNIT_BYTES, "GB", 1e9, false},
    {CLEAVE_UNIT_BYTES, "TB", 1e12, false},
    {CLEAVE_UNIT_SECONDS, "ps", 1e-12, true},
    {CLEAVE_UNIT_SECONDS, "ns", 1e-9, true},
    {CLEAVE_UNIT_SECONDS, "us", 1e-6, true},
    {CLEAVE_UNIT_SECONDS, "ms", 1e-3, true},
    {CLEAVE_UNIT_SECONDS, "s", 1, true},
    {CLEAVE_UNIT_SECONDS, "min", 60, false},
    {CLEAVE_UNIT_SECONDS, "h", 3600, false},
    {CLEAVE_UNIT_BYTES_PER_SECOND, "B/s", 1, true},
    {CLEAVE_UNIT_BYTES_PER_SECOND, "kB/s", 1e3, true},
    {CLEAVE_UNIT_BYTES_PER_SECOND, "MB/s", 1e6, true},
    {CLEAVE_UNIT_BYTES_PER_SECOND, "GB/s", 1e9, true},
    {CLEAVE_UNIT_BYTES_PER_SECOND, "TB/s", 1e12, true},
    {CLEAVE_UNIT_BYTES_PER_SECOND, "KiB/s", 0x1p10, false},
    {CLEAVE_UNIT_BYTES_PER_SECOND, "MiB/s", 0x1p20, false},
    {CLEAVE_UNIT_BYTES_PER_SECOND, "GiB/s", 0x1p30, false},
    {CLEAVE_UNIT_BYTES_PER_SECOND, "bit/s", 1.0 / 8, false},
    {CLEAVE_UNIT_BYTES_PER_SECOND, "kbit/s", 1e3 / 8, false},
    {CLEAVE_UNIT_BYTES_PER_SECOND, "Mbit/s", 1e6 / 8, false},
    {CLEAVE_UNIT_BYTES_PER_SECOND, "Gbit/s", 1e9 / 8, false},
    {CLEAVE_UNIT_BYTES_PER_SECOND, "Tbit/s", 1e12 / 8, false},
    {CLEAVE_UNIT_FLOPS, "FLOP/s", 1, true},
    {CLEAVE_UNIT_FLOPS, "kFLOP/s", 1e3, true},
    {CLEAVE_UNIT_FLOPS, "MFLOP/s", 1e6, true},
    {CLEAVE_UNIT_FLOPS, "GFLOP/s", 1e9, true},
    {CLEAVE_UNIT_FLOPS, "TFLOP/s", 1e12, true},
    {CLEAVE_UNIT_FLOPS, "PFLOP/s", 1e15, true},
    {CLEAVE_UNIT_HERTZ, "Hz", 1, true},
    {CLEAVE_UNIT_HERTZ, "kHz", 1e3, true},
    {CLEAVE_UNIT_HERTZ, "MHz", 1e6, true},
    {CLEAVE_UNIT_HERTZ, "GHz", 1e9, true},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

static const char *const plain_names[] = {"B", "s", "B/s", "FLOP/s", "Hz"};
static const char *const examples[] = {"16 GiB", "5 us", "25 GB/s", "2.8 TFLOP/s", "1.4 GHz"};

static const unit_row *find_row(cleave_unit unit, const char *name) {
    for (int i = 0; i < N_ROWS; i++)
        if (rows[i].unit == unit && strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

static size_t digits(const char *text) { return strspn(text, "0123456789"); }

/* Length of a plain decimal number at the start of `text`; 0 when there is none.  strtod alone
   would also take "inf", "nan" and hexadecimal. */
static size_t number_length(const char *text) {
    size_t whole = digits(text), n = whole, fraction = 0;
    if (text[n] == '.') {
        fraction = digits(text + n + 1);
        n += 1 + fraction;
    }
    if (whole + fraction == 0)
        return 0;
    if (text[n] == 'e' || text[n] == 'E') {
        size_t sign = text[n + 1] == '+' || text[n + 1] == '-' ? 1 : 0;
        size_t exponent = digits(text + n + 1 + sign);
        if (exponent > 0)
            n += 1 + sign + exponent;
    }
    return n;
}

cleave_status cleave_unit_parse(const char *text, cleave_unit unit, double *value,
                                cleave_error *error) {
    if (text[0] == '-' && number_length(text + 1) > 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "\"%.64s\" is negative", text);
    size_t length = number_length(text);
    if (length == 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "\"%.64s\" is not a number with a unit, such as \"%s\"", text,
                           examples[unit]);
    const char *name = text + length;
    if (*name == ' ')
        name++;
    const unit_row *row = find_row(unit, name);
    if (row == NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "\"%.64s\" has %s; write it such as \"%s\"",
                           text, *name == '\0' ? "no unit" : "a unit that does not belong here",
                           examples[unit]);
    double number = strtod(text, NULL) * row->factor;
    if (!isfinite(number))
        return cleave_fail(error, CLEAVE_BAD_INPUT, "\"%.64s\" is too large", text);
    *value = number;
    return CLEAVE_OK;
}

void cleave_unit_format(double value, cleave_unit unit, char *text, size_t bytes) {
    const unit_row *best = NULL;
    for (int i = 0; i < N_ROWS; i++)
        if (rows[i].unit == unit && rows[i].display &&
            (best == NULL || fabs(value) >= rows[i].factor))
            best = &rows[i];
    /* Zero has no size to choose a unit by. */
    if (!isfinite(value) || value == 0)
        snprintf(text, bytes, "%g %s", value, plain_names[unit]);
    else {
        double scaled = value / best->factor;
        bool integral = best->factor == 1 && unit == CLEAVE_UNIT_BYTES;
        int decimals = integral || fabs(scaled) >= 99.95 ? 0 : fabs(scaled) >= 9.995 ? 1 : 2;
        snprintf(text, bytes, "%.*f %s", decimals, scaled, best->name);
    }
}

void cleave_unit_format_exact(double value, cleave_unit unit, char *text, size_t bytes) {
    char number[40];
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(number, sizeof number, "%.*g", precision, value);
        if (strtod(number, NULL) == value)
            break;
    }
    snprintf(text, bytes, "%s %s", number, plain_names[unit]);
}
