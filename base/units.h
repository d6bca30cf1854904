/* Quantities with units, in files and for people: "25 GB/s", "12 GiB", "8 us", "2.8 TFLOP/s". */
#ifndef CLEAVE_BASE_UNITS_H
#define CLEAVE_BASE_UNITS_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

typedef enum cleave_unit {
    CLEAVE_UNIT_BYTES,            /* B kB MB GB TB, KiB MiB GiB TiB */
    CLEAVE_UNIT_SECONDS,          /* ps ns us ms s min h */
    CLEAVE_UNIT_BYTES_PER_SECOND, /* B/s ... TB/s, and bit/s ... Tbit/s, which are divided by 8 */
    CLEAVE_UNIT_FLOPS,            /* FLOP/s ... PFLOP/s */
    CLEAVE_UNIT_HERTZ             /* Hz ... GHz */
} cleave_unit;

/* Parses a number, an optional space and a unit; a finite value of 0 or more.  BAD_INPUT names the
 * text. */
cleave_status cleave_unit_parse(const char *text, cleave_unit unit, double *value,
                                cleave_error *error);

/* Writes a value for a person, three or four significant digits, in the unit that suits its size.
 */
void cleave_unit_format(double value, cleave_unit unit, char *text, size_t bytes);

/* Writes a value so that parsing it gives the same double back, in the plain unit of its kind. */
void cleave_unit_format_exact(double value, cleave_unit unit, char *text, size_t bytes);

#endif
