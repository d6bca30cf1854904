#include "page/axis.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WANTED_TICKS = 6 };

/* The unit that suits the largest value, as base/units.h has it for people. */
static void choose_unit(cleave_axis *axis, int unit) {
    char text[64];
    axis->factor = 1;
    axis->unit[0] = '\0';
    if (unit == CLEAVE_UNIT_PLAIN)
        return;
    cleave_unit_format(axis->most, (cleave_unit)unit, text, sizeof text);
    const char *space = strchr(text, ' ');
    char one[64];
    snprintf(axis->unit, sizeof axis->unit, "%s", space != NULL ? space + 1 : "");
    snprintf(one, sizeof one, "1 %s", axis->unit);
    if (cleave_unit_parse(one, (cleave_unit)unit, &axis->factor, NULL) != CLEAVE_OK)
        axis->factor = 1;
}

/* 1, 2 or 5 by a power of 10, so that there are about so many steps. */
static double nice_step(double span) {
    double step = pow(10, floor(log10(span / WANTED_TICKS)));
    double ratio = span / WANTED_TICKS / step;
    return step * (ratio < 1.5 ? 1 : ratio < 3.5 ? 2 : ratio < 7.5 ? 5 : 10);
}

static void make_linear(cleave_axis *axis) {
    double least = axis->least / axis->factor, most = axis->most / axis->factor;
    if (least > 0 && least < most / 2)
        least = 0;
    if (!(most > least))
        most = least + (least > 0 ? least : 1);
    double step = nice_step(most - least);
    least = step * floor(least / step + 1e-9);
    most = step * ceil(most / step - 1e-9);
    axis->least = least * axis->factor;
    axis->most = most * axis->factor;
    for (int i = 0; i < CLEAVE_AXIS_MOST_TICKS && least + i * step < most + step / 2; i++)
        axis->ticks[axis->n_ticks++] = (least + i * step) * axis->factor;
}

/* Every tick of a decade, or only its first where there are many decades. */
static void make_decades(cleave_axis *axis) {
    static const double within[] = {1, 2, 5};
    double least = axis->least / axis->factor, most = axis->most / axis->factor;
    int n = log10(most / least) > 5 ? 1 : 3;
    int last = (int)ceil(log10(most)) + 1;
    for (int decade = (int)floor(log10(least)); decade <= last; decade++)
        for (int i = 0; i < n && axis->n_ticks < CLEAVE_AXIS_MOST_TICKS; i++) {
            double tick = pow(10, decade) * within[i];
            if (tick >= least * (1 - 1e-9) && tick <= most * (1 + 1e-9))
                axis->ticks[axis->n_ticks++] = tick * axis->factor;
        }
}

static void make_powers(cleave_axis *axis) {
    double least = axis->least / axis->factor, most = axis->most / axis->factor;
    int first = (int)ceil(log2(least) - 1e-9), last = (int)floor(log2(most) + 1e-9);
    int stride = 1 + (last - first) / 12;
    for (int power = first; power <= last; power += stride)
        axis->ticks[axis->n_ticks++] = exp2(power) * axis->factor;
}

cleave_axis cleave_axis_make(double least, double most, int unit, int base) {
    cleave_axis axis = {.least = least, .most = most, .is_logarithmic = base > 0 && least > 0};
    choose_unit(&axis, unit);
    if (!axis.is_logarithmic) {
        make_linear(&axis);
        return axis;
    }
    if (!(most > least * 1.5)) { /* values that are about equal stand in the middle */
        axis.least = least / 1.5;
        axis.most = most * 1.5;
    }
    if (base == 2)
        make_powers(&axis);
    else
        make_decades(&axis);
    return axis;
}

double cleave_axis_place(const cleave_axis *axis, double value) {
    double share = axis->is_logarithmic ? log(value / axis->least) / log(axis->most / axis->least)
                                        : (value - axis->least) / (axis->most - axis->least);
    return axis->from + share * (axis->to - axis->from);
}

void cleave_axis_format(const cleave_axis *axis, double tick, char *text, size_t bytes) {
    double value = tick / axis->factor;
    snprintf(text, bytes, "%.6g", fabs(value) < 1e-9 ? 0 : value);
}
