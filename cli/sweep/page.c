/* The page of a sweep: curves along each axis of numbers, what the knees are, and all points, each
   with a link to its layout. */
#include "page/page.h"
#include "cli/sweep/knee.h"
#include "cli/sweep/report.h"
#include "page/chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct drawing {
    const sweep *of;
    cleave_arena *arena;
    cleave_markup page;
} drawing;

/* ---- curves ---------------------------------------------------------------------------------- */

typedef struct figure {
    const char *title, *name; /* of the chart, and of its values */
    int unit;
    bool is_rate;
    double (*value)(const sweep *of, int32_t point);
} figure;

static double step(const sweep *of, int32_t p) { return of->records[p].step_seconds; }
static double memory(const sweep *of, int32_t p) { return (double)of->records[p].peak_bytes; }
static double per_device(const sweep *of, int32_t p) {
    return sweep_throughput(of, p) / of->plan.points[p].n_devices;
}
static double days(const sweep *of, int32_t p) { return sweep_days(of, p, of->question.samples); }
static double cost(const sweep *of, int32_t p) { return sweep_cost(of, p, of->question.samples); }
static double cost_of_million(const sweep *of, int32_t p) { return sweep_cost(of, p, 1e6); }

static const figure figures[] = {
    {"Time of a step", "step", CLEAVE_UNIT_SECONDS, false, step},
    {"Samples a second, all devices", "samples a second", CLEAVE_UNIT_PLAIN, true,
     sweep_throughput},
    {"Samples a second, of a device", "samples a second", CLEAVE_UNIT_PLAIN, true, per_device},
    {"Memory of the fullest device", "memory", CLEAVE_UNIT_BYTES, false, memory},
    {"Days for all samples", "days", CLEAVE_UNIT_PLAIN, false, days},
    {"Cost of all samples", "cost", CLEAVE_UNIT_PLAIN, false, cost},
    {"Cost of a million samples", "cost", CLEAVE_UNIT_PLAIN, false, cost_of_million},
};
enum { N_FIGURES = sizeof figures / sizeof figures[0] };

static bool is_asked(const sweep *of, const figure *f) {
    bool counts = of->question.samples > 0, pays = of->question.price_per_device_hour > 0;
    return f->value == days              ? counts
           : f->value == cost            ? counts && pays
           : f->value == cost_of_million ? pays && !counts
                                         : true;
}

/* Factors are read off a logarithmic axis, differences off a linear one. */
static int base_of(double least, double most) {
    int exponent;
    if (least <= 0 || most < 8 * least)
        return 0;
    return frexp(least, &exponent) == 0.5 && frexp(most, &exponent) == 0.5 ? 2 : 10;
}

/* Of the values of a figure; throughput, that more of it is as much better, is linear. */
static int base_of_figure(const sweep *of, const figure *f) {
    double least = INFINITY, most = 0;
    for (int32_t p = 0; p < of->plan.n_points; p++)
        if (of->records[p].why == NULL) {
            least = fmin(least, f->value(of, p));
            most = fmax(most, f->value(of, p));
        }
    return f->is_rate || base_of(least, most) == 0 ? 0 : 10;
}

/* The other axes' values; a plain number says what it is of. */
static void name_curve(const sweep_plan *plan, const sweep_point *point, int32_t but_axis,
                       char *text, size_t bytes) {
    size_t used = 0;
    text[0] = '\0';
    for (int32_t a = 0; a < plan->n_axes && used < bytes; a++) {
        const sweep_axis *axis = &plan->axes[a];
        bool says_itself = axis->is_words || axis->unit[0] != '\0';
        if (a != but_axis)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s%s%s", used > 0 ? ", " : "",
                                     says_itself ? "" : axis->name, says_itself ? "" : " ",
                                     axis->texts[point->at[a]]);
    }
}

/* Through `first`, along an axis.  A click leads to the layout of a point. */
static bool make_curve(drawing *d, const figure *f, int32_t axis, int32_t first,
                       cleave_chart_curve *curve) {
    const sweep_plan *plan = &d->of->plan;
    const sweep_axis *along = &plan->axes[axis];
    char name[256];
    cleave_chart_point *points = CLEAVE_ARENA_ARRAY(d->arena, cleave_chart_point, along->n);
    name_curve(plan, &plan->points[first], axis, name, sizeof name);
    *curve = (cleave_chart_curve){
        .name = cleave_arena_string(d->arena, name), .n = along->n, .points = points};
    if (points == NULL || curve->name == NULL)
        return false;
    for (int32_t i = 0; i < along->n; i++) {
        int32_t p = first + i * sweep_plan_stride(plan, axis);
        bool fits = d->of->records[p].why == NULL;
        points[i] = (cleave_chart_point){.x = along->numbers[i], .y = NAN};
        if (!fits)
            continue;
        points[i].y = f->value(d->of, p);
        points[i].target = cleave_arena_printf(d->arena, "plans/%s", plan->points[p].name);
        if (points[i].target == NULL)
            return false;
    }
    return true;
}

static bool draw(drawing *d, const figure *f, int32_t axis) {
    const sweep_plan *plan = &d->of->plan;
    const sweep_axis *along = &plan->axes[axis];
    int32_t n = 0;
    cleave_chart_curve *curves =
        CLEAVE_ARENA_ARRAY(d->arena, cleave_chart_curve, plan->n_points / along->n);
    const char *heading = sweep_axis_heading(along, d->arena);
    if (curves == NULL)
        return false;
    for (int32_t p = 0; p < plan->n_points; p++)
        if (plan->points[p].at[axis] == 0 && !make_curve(d, f, axis, p, &curves[n++]))
            return false;
    const cleave_chart chart = {
        .title = f->title,
        .x = {heading, CLEAVE_UNIT_PLAIN, base_of(along->numbers[0], along->numbers[along->n - 1])},
        .y = {f->name, f->unit, base_of_figure(d->of, f)},
        .n_curves = n,
        .curves = curves};
    cleave_chart_put(&d->page, &chart);
    return true;
}

static bool has_figures(const sweep *of) {
    for (int32_t p = 0; p < of->plan.n_points; p++)
        if (of->records[p].why == NULL)
            return true;
    return false;
}

static bool draw_axis(drawing *d, int32_t axis) {
    char id[16], title[128], text[512];
    snprintf(id, sizeof id, "axis%d", axis);
    snprintf(title, sizeof title, "Along %s", d->of->plan.axes[axis].name);
    cleave_page_begin_section(&d->page, id, title);
    for (int f = 0; f < N_FIGURES; f++)
        if (is_asked(d->of, &figures[f]) && !draw(d, &figures[f], axis))
            return false;
    for (sweep_knee knee = {.axis = -1}; sweep_knee_next(d->of, &knee);)
        if (knee.axis == axis) {
            sweep_knee_describe(d->of, &knee, text, sizeof text);
            cleave_page_put_note(&d->page, text);
        }
    cleave_page_put_note(
        &d->page, "A knee is where the square of the samples a second over what is varied is "
                  "largest: beyond it, more of that brings less than half of its share.");
    cleave_page_end_section(&d->page);
    return true;
}

/* ---- points ---------------------------------------------------------------------------------- */

static void put_heading(drawing *d) {
    static const char *const heads[] = {"step",  "samples/s", "per device", "memory",
                                        "links", "schedule",  "layout"};
    cleave_markup_put(&d->page, "<div class=\"scroll\"><table>\n<thead><tr>");
    for (int32_t a = 0; a < d->of->plan.n_axes; a++)
        cleave_markup_put(&d->page, "<th class=\"number\">%s</th>",
                          sweep_axis_heading(&d->of->plan.axes[a], d->arena));
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        cleave_markup_put(&d->page, "<th%s>%s</th>", "", heads[i]);
    cleave_markup_put(&d->page, "</tr></thead>\n<tbody>\n");
}

static void put_point(drawing *d, int32_t p) {
    const sweep_plan *plan = &d->of->plan;
    const sweep_point *point = &plan->points[p];
    const sweep_record *record = &d->of->records[p];
    const char *machine = plan->machines[point->machine].name;
    char step_text[64], memory_text[64], schedule[128];
    cleave_markup_put(&d->page, "<tr id=\"point%d\">", p);
    for (int32_t a = 0; a < plan->n_axes; a++)
        cleave_markup_put(&d->page, "<td class=\"number\">%s</td>",
                          plan->axes[a].labels[point->at[a]]);
    if (record->why != NULL) {
        cleave_markup_put(&d->page, "<td colspan=\"7\">%s</td></tr>\n", record->why);
        return;
    }
    cleave_unit_format(record->step_seconds, CLEAVE_UNIT_SECONDS, step_text, sizeof step_text);
    cleave_unit_format((double)record->peak_bytes, CLEAVE_UNIT_BYTES, memory_text,
                       sizeof memory_text);
    sweep_describe_schedule(record, schedule, sizeof schedule);
    cleave_markup_put(&d->page,
                      "<td class=\"number\">%s</td><td class=\"number\">%g</td>"
                      "<td class=\"number\">%g</td><td class=\"number\">%s</td>"
                      "<td class=\"number\">%d %%</td><td>%s</td><td><a href=\"plans/%s\">%s</a>",
                      step_text, sweep_throughput(d->of, p), per_device(d->of, p), memory_text,
                      (int)(100 * record->links + 0.5), schedule, point->name, record->method);
    if (machine != NULL)
        cleave_markup_put(&d->page, " <a href=\"plans/%s\">machine</a>", machine);
    cleave_markup_put(&d->page, "</td></tr>\n");
}

static void put_points(drawing *d) {
    cleave_page_begin_section(&d->page, "points", "All points");
    put_heading(d);
    for (int32_t p = 0; p < d->of->plan.n_points; p++)
        put_point(d, p);
    cleave_markup_put(&d->page, "</tbody></table></div>\n");
    cleave_page_put_note(&d->page,
                         "Memory is of the fullest device; links are the share of the "
                         "step that is theirs.  Layouts, and machines with other figures, "
                         "are files that cleave simulate and cleave explain take.");
    cleave_page_end_section(&d->page);
}

cleave_status sweep_write_page(const sweep *of, const char *path, cleave_arena *arena,
                               cleave_error *error) {
    drawing d = {.of = of, .arena = arena};
    char about[512];
    const search_request *request = of->plan.request;
    snprintf(about, sizeof about, "cleave sweep of %s on %s: %d points", request->common.model,
             request->common.machine, of->plan.n_points);
    cleave_page_begin(&d.page, "What if", about);
    bool made = true;
    for (int32_t a = 0; a < of->plan.n_axes && made && has_figures(of); a++)
        if (!of->plan.axes[a].is_words && of->plan.axes[a].n > 1)
            made = draw_axis(&d, a);
    put_points(&d);
    cleave_page_end(&d.page);
    if (made)
        return cleave_markup_write(&d.page, path, error);
    cleave_markup_free(&d.page);
    return cleave_fail_memory(error, "drawing a page");
}
