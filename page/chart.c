/* A frame of two axes, the curves in it, and their names at the right end of each, kept apart. */
#include "page/chart.h"

#include "page/assets.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

enum { WIDTH = 720, HEIGHT = 380, LEFT = 68, RIGHT = 556, TOP = 16, BOTTOM = 330, LINE = 17 };

/* ---- the frame ---- */

typedef struct frame {
    cleave_axis x, y;
} frame;

static bool is_there(const cleave_chart_point *p, const cleave_chart *chart) {
    return isfinite(p->x) && isfinite(p->y) && (chart->x.base == 0 || p->x > 0) &&
           (chart->y.base == 0 || p->y > 0);
}

static frame make_frame(const cleave_chart *chart) {
    double least[2] = {DBL_MAX, DBL_MAX}, most[2] = {-DBL_MAX, -DBL_MAX};
    for (int32_t c = 0; c < chart->n_curves; c++)
        for (int32_t i = 0; i < chart->curves[c].n; i++) {
            const cleave_chart_point *p = &chart->curves[c].points[i];
            if (!is_there(p, chart))
                continue;
            least[0] = fmin(least[0], p->x);
            most[0] = fmax(most[0], p->x);
            least[1] = fmin(least[1], p->y);
            most[1] = fmax(most[1], p->y);
        }
    for (int i = 0; i < 2; i++)
        if (least[i] > most[i]) { /* nothing to draw */
            least[i] = 1;
            most[i] = 2;
        }
    frame f = {cleave_axis_make(least[0], most[0], chart->x.unit, chart->x.base),
               cleave_axis_make(least[1], most[1], chart->y.unit, chart->y.base)};
    f.x.from = LEFT;
    f.x.to = RIGHT;
    f.y.from = BOTTOM;
    f.y.to = TOP;
    return f;
}

static void put_axis_name(cleave_markup *to, const cleave_chart_axis *of, const cleave_axis *axis,
                          bool is_upright) {
    cleave_markup_put(to,
                      "<text class=\"name\" text-anchor=\"middle\" transform=\"translate(%d %d) "
                      "rotate(%d)\">%s%s%s</text>\n",
                      is_upright ? 15 : (LEFT + RIGHT) / 2,
                      is_upright ? (TOP + BOTTOM) / 2 : HEIGHT - 10, is_upright ? -90 : 0, of->name,
                      axis->unit[0] != '\0' ? ", " : "", axis->unit);
}

static void put_frame(cleave_markup *to, const cleave_chart *chart, const frame *f) {
    char text[32];
    for (int i = 0; i < f->x.n_ticks; i++) {
        double at = cleave_axis_place(&f->x, f->x.ticks[i]);
        cleave_axis_format(&f->x, f->x.ticks[i], text, sizeof text);
        cleave_markup_put(to,
                          "<path class=\"grid\" d=\"M%.1f %dV%d\"/><text x=\"%.1f\" y=\"%d\" "
                          "text-anchor=\"middle\">%s</text>\n",
                          at, (int)TOP, (int)BOTTOM, at, (int)BOTTOM + LINE, text);
    }
    for (int i = 0; i < f->y.n_ticks; i++) {
        double at = cleave_axis_place(&f->y, f->y.ticks[i]);
        cleave_axis_format(&f->y, f->y.ticks[i], text, sizeof text);
        cleave_markup_put(to,
                          "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" "
                          "text-anchor=\"end\">%s</text>\n",
                          (int)LEFT, at, (int)RIGHT, (int)LEFT - 6, at + 4, text);
    }
    cleave_markup_put(to, "<path class=\"axis\" d=\"M%d %dV%dH%d\"/>\n", (int)LEFT, (int)TOP,
                      (int)BOTTOM, (int)RIGHT);
    put_axis_name(to, &chart->x, &f->x, false);
    put_axis_name(to, &chart->y, &f->y, true);
}

/* ---- the curves ---- */

/* Marks are told apart without colour: a path around 0 each. */
static const char *const marks[CLEAVE_CHART_MOST_CURVES] = {
    "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0",
    "M-3.2-3.2h6.4v6.4h-6.4z",
    "M0-4.2L4 3.2H-4z",
    "M0-4.4L4.4 0L0 4.4L-4.4 0z",
    "M0 4.2L4-3.2H-4z",
    "M-4-1.4h2.6v-2.6h2.8v2.6h2.6v2.8h-2.6v2.6h-2.8v-2.6h-2.6z",
    "M-4.2 0L-1.4-1.4L0-4.2L1.4-1.4L4.2 0L1.4 1.4L0 4.2L-1.4 1.4z",
    "M-3.8-2h7.6v4h-7.6z"};

static void put_line(cleave_markup *to, const cleave_chart *chart, int32_t c, const frame *f) {
    const cleave_chart_curve *curve = &chart->curves[c];
    bool is_open = false;
    cleave_markup_put(to, "<path class=\"curve c%d\" d=\"", c % CLEAVE_CHART_MOST_CURVES);
    for (int32_t i = 0; i < curve->n; i++) {
        const cleave_chart_point *p = &curve->points[i];
        bool there = is_there(p, chart);
        if (there && !curve->is_dotted)
            cleave_markup_put(to, is_open ? "L%.1f %.1f" : "M%.1f %.1f",
                              cleave_axis_place(&f->x, p->x), cleave_axis_place(&f->y, p->y));
        is_open = there;
    }
    cleave_markup_put(to, "\"/>\n");
}

static void format_value(double value, int unit, char *text, size_t bytes) {
    if (unit == CLEAVE_UNIT_PLAIN)
        snprintf(text, bytes, "%.6g", value);
    else
        cleave_unit_format(value, (cleave_unit)unit, text, bytes);
}

static void put_points(cleave_markup *to, const cleave_chart *chart, int32_t c, const frame *f) {
    const cleave_chart_curve *curve = &chart->curves[c];
    for (int32_t i = 0; i < curve->n; i++) {
        const cleave_chart_point *p = &curve->points[i];
        char x[64], y[64];
        if (!is_there(p, chart))
            continue;
        format_value(p->x, chart->x.unit, x, sizeof x);
        format_value(p->y, chart->y.unit, y, sizeof y);
        if (p->target != NULL)
            cleave_markup_put(to, "<a href=\"%s\">", p->target);
        cleave_markup_put(to, "<g class=\"mark c%d\" transform=\"translate(%.1f %.1f)\"><title>",
                          c % CLEAVE_CHART_MOST_CURVES, cleave_axis_place(&f->x, p->x),
                          cleave_axis_place(&f->y, p->y));
        if (p->label != NULL)
            cleave_markup_put(to, "%s", p->label);
        else
            cleave_markup_put(to, "%s: %s %s, %s %s", curve->name, chart->x.name, x, chart->y.name,
                              y);
        cleave_markup_put(to, "</title><path d=\"%s\"/></g>", marks[c % CLEAVE_CHART_MOST_CURVES]);
        cleave_markup_put(to, p->target != NULL ? "</a>\n" : "\n");
    }
}

/* ---- their names ---- */

typedef struct tag {
    int32_t curve;
    double at; /* where it ends, and then where its name stands */
} tag;

static int32_t list_tags(const cleave_chart *chart, const frame *f, tag *tags) {
    int32_t n = 0;
    for (int32_t c = 0; c < chart->n_curves && c < CLEAVE_CHART_MOST_CURVES; c++)
        for (int32_t i = chart->curves[c].n - 1; i >= 0; i--)
            if (is_there(&chart->curves[c].points[i], chart)) {
                tag made = {c, cleave_axis_place(&f->y, chart->curves[c].points[i].y)};
                int32_t place = n++;
                for (; place > 0 && tags[place - 1].at > made.at; place--)
                    tags[place] = tags[place - 1];
                tags[place] = made;
                break;
            }
    return n;
}

/* From above a line apart each, then from below as far as they went out of the frame. */
static void keep_apart(tag *tags, int32_t n) {
    for (int32_t i = 1; i < n; i++)
        tags[i].at = fmax(tags[i].at, tags[i - 1].at + LINE);
    double below = BOTTOM;
    for (int32_t i = n - 1; i >= 0; i--) {
        tags[i].at = fmin(tags[i].at, below);
        below = tags[i].at - LINE;
    }
}

static void put_names(cleave_markup *to, const cleave_chart *chart, const frame *f) {
    tag tags[CLEAVE_CHART_MOST_CURVES];
    int32_t n = list_tags(chart, f, tags);
    if (chart->n_curves < 2)
        return;
    keep_apart(tags, n);
    for (int32_t i = 0; i < n; i++) {
        int32_t c = tags[i].curve;
        cleave_markup_put(to,
                          "<path class=\"curve c%d\" d=\"M%d %.1fh20\"/><g class=\"mark c%d\" "
                          "transform=\"translate(%d %.1f)\"><path d=\"%s\"/></g><text x=\"%d\" "
                          "y=\"%.1f\">%s</text>\n",
                          c, (int)RIGHT + 10, tags[i].at, c, (int)RIGHT + 20, tags[i].at, marks[c],
                          (int)RIGHT + 36, tags[i].at + 4, chart->curves[c].name);
    }
}

/* ---- all of it ---- */

static void put_drawing(cleave_markup *to, const cleave_chart *chart) {
    frame f = make_frame(chart);
    put_frame(to, chart, &f);
    for (int32_t c = 0; c < chart->n_curves; c++)
        put_line(to, chart, c, &f);
    for (int32_t c = 0; c < chart->n_curves; c++)
        put_points(to, chart, c, &f);
    put_names(to, chart, &f);
}

void cleave_chart_put(cleave_markup *to, const cleave_chart *chart) {
    cleave_markup_put(
        to,
        "<figure class=\"wide\"><svg class=\"drawing\" viewBox=\"0 0 %d %d\" role=\"img\" "
        "aria-label=\"%s\">\n",
        (int)WIDTH, (int)HEIGHT, chart->title);
    put_drawing(to, chart);
    cleave_markup_put(to, "</svg><figcaption>%s</figcaption></figure>\n", chart->title);
}

cleave_status cleave_chart_write(const char *path, const cleave_chart *chart, cleave_error *error) {
    cleave_markup file = {0};
    cleave_markup_put(
        &file,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"drawing\" viewBox=\"0 -28 %d "
        "%d\" role=\"img\">\n<title>%s</title>\n<style>",
        (int)WIDTH, (int)HEIGHT + 28, chart->title);
    cleave_markup_put_asset(&file, cleave_asset_figure.text);
    cleave_markup_put(&file,
                      "</style>\n<rect class=\"paper\" y=\"-28\" width=\"%d\" height=\"%d\"/>\n"
                      "<text class=\"heading\" x=\"%d\" y=\"-8\">%s</text>\n",
                      (int)WIDTH, (int)HEIGHT + 28, (int)LEFT, chart->title);
    put_drawing(&file, chart);
    cleave_markup_put(&file, "</svg>\n");
    return cleave_markup_write(&file, path, error);
}
