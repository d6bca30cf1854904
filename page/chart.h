/* A chart of curves, as SVG: in a page, or as a file of its own for papers and documents. */
#ifndef CLEAVE_PAGE_CHART_H
#define CLEAVE_PAGE_CHART_H

#include "page/axis.h"
#include "page/markup.h"

typedef struct cleave_chart_point {
    double x, y;        /* y: NaN where there is none; the curve then has a gap */
    const char *label;  /* what is said of it where it is pointed at; null: its values */
    const char *target; /* "#plan-3": where a click on it leads; null: nowhere */
} cleave_chart_point;

typedef struct cleave_chart_curve {
    const char *name;
    int32_t n;
    const cleave_chart_point *points; /* [n] by x */
    bool is_dotted;                   /* of points alone: what was measured beside a curve */
} cleave_chart_curve;

typedef struct cleave_chart_axis {
    const char *name; /* "devices" */
    int unit;         /* a cleave_unit, or CLEAVE_UNIT_PLAIN */
    int base;         /* 0: linear; 2 or 10: logarithmic */
} cleave_chart_axis;

enum { CLEAVE_CHART_MOST_CURVES = 8 };

typedef struct cleave_chart {
    const char *title; /* for who can't see it, and the heading of a file */
    cleave_chart_axis x, y;
    int32_t n_curves;
    const cleave_chart_curve *curves; /* [n_curves] the first MOST have a colour, a dash and a mark
                                         of their own, and their names beside them */
} cleave_chart;

/* A figure with its caption, for a page. */
void cleave_chart_put(cleave_markup *to, const cleave_chart *chart);
/* A file of SVG with its own style. */
cleave_status cleave_chart_write(const char *path, const cleave_chart *chart, cleave_error *error);

#endif
