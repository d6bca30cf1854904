/* The step over the memory limit, from a sweep that varies that: what memory is worth.  Of its
   points those on as many devices as the layout has; what else it varies makes a curve each. */
#include "cli/report/panels.h"

#include "page/chart.h"

#include <stdio.h>
#include <string.h>

static const char axis_name[] = "memory-limit";

typedef struct limits {
    int32_t n_devices;
    double unit_bytes; /* of the axis */
    int32_t n_points;  /* of the sweep */
    int32_t n_curves;
    cleave_chart_curve curves[CLEAVE_CHART_MOST_CURVES];
    cleave_chart_point *points[CLEAVE_CHART_MOST_CURVES]; /* [n_points] */
} limits;

static cleave_status find_unit(const cleave_json_cursor *root, limits *l, cleave_error *error) {
    cleave_json_cursor vary;
    CLEAVE_TRY(cleave_json_get(root, "vary", &vary, error));
    for (int32_t i = 0; i < cleave_json_count(&vary); i++) {
        cleave_json_cursor axis = cleave_json_element(&vary, i);
        const char *name, *unit;
        char one[64];
        CLEAVE_TRY(cleave_json_get_string(&axis, "name", &name, error));
        CLEAVE_TRY(cleave_json_get_string(&axis, "unit", &unit, error));
        snprintf(one, sizeof one, "1 %.40s", unit[0] != '\0' ? unit : "B");
        if (strcmp(name, axis_name) == 0)
            return cleave_unit_parse(one, CLEAVE_UNIT_BYTES, &l->unit_bytes, error);
    }
    return cleave_json_fail(&vary, error, "the sweep does not vary %s", axis_name);
}

/* Of a point all that is varied but the limit: "optimizer adam". */
static cleave_status name_curve(const cleave_json_cursor *at, char *name, size_t bytes,
                                cleave_error *error) {
    size_t used = 0;
    snprintf(name, bytes, "best layout");
    for (int32_t i = 0; i < cleave_json_count(at) && used < bytes; i++) {
        const char *key, *text;
        cleave_json_cursor value = cleave_json_member(at, i, &key);
        double number;
        if (strcmp(key, axis_name) == 0 || strcmp(key, "devices") == 0)
            continue;
        used += (size_t)snprintf(name + used, bytes - used, "%s%s ", used > 0 ? ", " : "", key);
        if (cleave_json_type_of(&value) == CLEAVE_JSON_STRING) {
            CLEAVE_TRY(cleave_json_string(&value, &text, error));
            used += (size_t)snprintf(name + used, used < bytes ? bytes - used : 0, "%s", text);
        } else {
            CLEAVE_TRY(cleave_json_number(&value, &number, error));
            used += (size_t)snprintf(name + used, used < bytes ? bytes - used : 0, "%g", number);
        }
    }
    return CLEAVE_OK;
}

static cleave_status find_curve(limits *l, const cleave_json_cursor *at, cleave_arena *arena,
                                int32_t *curve, cleave_error *error) {
    char name[128];
    int32_t c = 0;
    CLEAVE_TRY(name_curve(at, name, sizeof name, error));
    while (c < l->n_curves && strcmp(l->curves[c].name, name) != 0)
        c++;
    if (c == CLEAVE_CHART_MOST_CURVES - 1) /* one is of the layout */
        return cleave_json_fail(at, error, "it would be more than %d curves", c);
    if (c == l->n_curves) {
        l->points[c] = CLEAVE_ARENA_ARRAY(arena, cleave_chart_point, l->n_points);
        l->curves[c] =
            (cleave_chart_curve){.name = cleave_arena_string(arena, name), .points = l->points[c]};
        if (l->points[c] == NULL || l->curves[c].name == NULL)
            return cleave_fail_memory(error, "reading a sweep");
        l->n_curves++;
    }
    *curve = c;
    return CLEAVE_OK;
}

/* Points come by their limit, ascending, as the sweep's axis is. */
static cleave_status add_point(limits *l, const cleave_json_cursor *point, cleave_arena *arena,
                               cleave_error *error) {
    cleave_json_cursor at, member;
    int64_t n_devices;
    int32_t c = 0;
    double limit, seconds;
    CLEAVE_TRY(cleave_json_get_integer(point, "n_devices", 1, INT32_MAX, &n_devices, error));
    if (n_devices != l->n_devices || !cleave_json_find(point, "step_seconds", &member))
        return CLEAVE_OK; /* not searched yet, or nothing fits */
    CLEAVE_TRY(cleave_json_number(&member, &seconds, error));
    CLEAVE_TRY(cleave_json_get(point, "at", &at, error));
    CLEAVE_TRY(cleave_json_get_number(&at, axis_name, &limit, error));
    CLEAVE_TRY(find_curve(l, &at, arena, &c, error));
    l->points[c][l->curves[c].n++] = (cleave_chart_point){.x = limit * l->unit_bytes, .y = seconds};
    return CLEAVE_OK;
}

static cleave_status read_sweep(const char *path, limits *l, cleave_arena *arena,
                                cleave_error *error) {
    cleave_json *document;
    cleave_json_cursor points;
    CLEAVE_TRY(cleave_json_read(path, &document, error));
    cleave_json_cursor root = cleave_json_root(document);
    cleave_status status = find_unit(&root, l, error);
    if (status == CLEAVE_OK)
        status = cleave_json_get(&root, "points", &points, error);
    if (status == CLEAVE_OK)
        status = cleave_json_expect_array(&points, error);
    l->n_points = status == CLEAVE_OK ? cleave_json_count(&points) : 0;
    for (int32_t i = 0; i < l->n_points && status == CLEAVE_OK; i++) {
        cleave_json_cursor point = cleave_json_element(&points, i);
        status = add_point(l, &point, arena, error);
    }
    if (status == CLEAVE_OK && l->n_curves == 0)
        status = cleave_json_fail(&root, error, "no point of it is on %d devices and fits",
                                  l->n_devices);
    cleave_json_free(document);
    return status;
}

cleave_status report_put_limits(cleave_markup *page, const report *of, cleave_error *error) {
    limits l = {.n_devices = of->step->layout->n_devices};
    if (of->sweep == NULL)
        return CLEAVE_OK;
    CLEAVE_TRY(read_sweep(of->sweep, &l, of->arena, error));
    const cleave_chart_point own = {.x = (double)of->step->path.peak_bytes,
                                    .y = 1e-12 * (double)of->step->path.step};
    l.curves[l.n_curves++] =
        (cleave_chart_curve){.name = "this layout", .n = 1, .points = &own, .is_dotted = true};
    const cleave_chart chart = {.title =
                                    "Step of the best layout over the memory limit of a device",
                                .x = {"memory limit", CLEAVE_UNIT_BYTES, 0},
                                .y = {"step", CLEAVE_UNIT_SECONDS, 0},
                                .n_curves = l.n_curves,
                                .curves = l.curves};
    cleave_page_begin_section(page, "limits", "What memory is worth");
    cleave_chart_put(page, &chart);
    cleave_page_put_note(page, "Each point is a search of its own, by `cleave sweep`; this layout "
                               "stands at the memory that it takes.");
    cleave_page_end_section(page);
    return CLEAVE_OK;
}
