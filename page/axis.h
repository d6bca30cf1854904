/* An axis of a drawing: from values to places, and the ticks that a reader wants. */
#ifndef CLEAVE_PAGE_AXIS_H
#define CLEAVE_PAGE_AXIS_H

#include "base/units.h"

#include <stdbool.h>
#include <stdint.h>

enum { CLEAVE_AXIS_MOST_TICKS = 24 };

typedef struct cleave_axis {
    double least, most; /* values; of a logarithmic one above 0 */
    double from, to;    /* places of these */
    bool is_logarithmic;
    int n_ticks;
    double ticks[CLEAVE_AXIS_MOST_TICKS]; /* ascending values, within least to most */
    double factor;                        /* of the unit that the ticks are said in */
    char unit[16];                        /* its name; "" of plain numbers */
} cleave_axis;

enum { CLEAVE_UNIT_PLAIN = -1 };

/* An axis over values, widened to ticks: a linear one begins at 0, unless that would leave half of
   it empty.  `unit` is a cleave_unit, or PLAIN.  Of a logarithmic one the ticks are powers of 2
   (`base` 2) or 1, 2 and 5 by powers of 10 (`base` 10); `base` 0 is linear. */
cleave_axis cleave_axis_make(double least, double most, int unit, int base);
double cleave_axis_place(const cleave_axis *axis, double value);
/* A tick as it is written, without the unit. */
void cleave_axis_format(const cleave_axis *axis, double tick, char *text, size_t bytes);

#endif
