/* The records of a sweep, and their file. */
#include "cli/sweep/record.h"

#include "cli/sweep/knee.h"

#include <stdio.h>
#include <string.h>

enum { FILE_VERSION = 1 };

/* ---- what follows from records --------------------------------------------------------------- */

double sweep_throughput(const sweep *of, int32_t point) {
    const sweep_record *record = &of->records[point];
    return record->is_done && record->why == NULL ? (double)record->batch / record->step_seconds
                                                  : 0;
}

double sweep_days(const sweep *of, int32_t point, double samples) {
    return samples / sweep_throughput(of, point) / 86400;
}

double sweep_cost(const sweep *of, int32_t point, double samples) {
    return sweep_days(of, point, samples) * 24 * of->plan.points[point].n_devices *
           of->question.price_per_device_hour;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* What decides what comes of the points. */
static void put_facts(const sweep *of, cleave_json_writer *w) {
    const sweep_plan *plan = &of->plan;
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", CLEAVE_VERSION_MAJOR, CLEAVE_VERSION_MINOR,
             CLEAVE_VERSION_PATCH);
    cleave_json_set_integer(w, "cleave_sweep", FILE_VERSION);
    cleave_json_set_string(w, "version", version);
    cleave_json_set_string(w, "model_hash", of->model_hash);
    cleave_json_set_string(w, "machine_hash", plan->machine_hash);
    cleave_json_open_array(w, "options", true);
    for (int i = 0; i < plan->n_options; i++)
        cleave_json_put_string(w, plan->options[i]);
    cleave_json_end_array(w);
    cleave_json_open_array(w, "vary", false);
    for (int32_t a = 0; a < plan->n_axes; a++) {
        cleave_json_begin_object(w, true);
        cleave_json_set_string(w, "name", plan->axes[a].name);
        cleave_json_set_string(w, "unit", plan->axes[a].unit);
        cleave_json_open_array(w, "values", true);
        for (int32_t i = 0; i < plan->axes[a].n; i++)
            cleave_json_put_string(w, plan->axes[a].labels[i]);
        cleave_json_end_array(w);
        cleave_json_end_object(w);
    }
    cleave_json_end_array(w);
}

static void put_record(const sweep *of, int32_t p, cleave_json_writer *w) {
    const sweep_record *record = &of->records[p];
    cleave_json_set_string(w, "method", record->method);
    cleave_json_set_integer(w, "batch", record->batch);
    cleave_json_set_number(w, "step_seconds", record->step_seconds);
    cleave_json_set_integer(w, "peak_bytes", record->peak_bytes);
    cleave_json_set_integer(w, "bytes_sent", record->bytes_sent);
    cleave_json_set_number(w, "links", record->links);
    cleave_json_set_number(w, "lower_bound_seconds", record->lower_bound_seconds);
    cleave_json_set_integer(w, "micro_batches", record->micro_batches);
    cleave_json_set_integer(w, "stages", record->stages);
    cleave_json_set_integer(w, "recomputed_operators", record->recomputed_operators);
    double rate = sweep_throughput(of, p), n = of->plan.points[p].n_devices;
    cleave_json_set_number(w, "samples_per_second", rate);
    cleave_json_set_number(w, "samples_per_second_per_device", rate / n);
    if (of->question.price_per_device_hour > 0)
        cleave_json_set_number(w, "cost_per_million_samples", sweep_cost(of, p, 1e6));
    if (of->question.samples > 0)
        cleave_json_set_number(w, "days", sweep_days(of, p, of->question.samples));
    if (of->question.samples > 0 && of->question.price_per_device_hour > 0)
        cleave_json_set_number(w, "cost", sweep_cost(of, p, of->question.samples));
    char layout[256];
    snprintf(layout, sizeof layout, "plans/%s", of->plan.points[p].name);
    cleave_json_set_string(w, "layout", layout);
}

static void put_point(const sweep *of, int32_t p, cleave_json_writer *w) {
    const sweep_plan *plan = &of->plan;
    const sweep_point *point = &plan->points[p];
    const char *machine = plan->machines[point->machine].name;
    cleave_json_begin_object(w, false);
    cleave_json_open_object(w, "at", true);
    for (int32_t a = 0; a < plan->n_axes; a++)
        sweep_axis_put(&plan->axes[a], point->at[a], plan->axes[a].name, w);
    cleave_json_end_object(w);
    cleave_json_set_integer(w, "n_devices", point->n_devices);
    cleave_json_set_truth(w, "done", of->records[p].is_done);
    if (machine != NULL) {
        char path[256];
        snprintf(path, sizeof path, "plans/%s", machine);
        cleave_json_set_string(w, "machine", path);
    }
    if (of->records[p].is_done && of->records[p].why != NULL)
        cleave_json_set_string(w, "why", of->records[p].why);
    else if (of->records[p].is_done)
        put_record(of, p, w);
    cleave_json_end_object(w);
}

void sweep_put(const sweep *of, cleave_json_writer *w) {
    cleave_json_begin_object(w, false);
    put_facts(of, w);
    cleave_json_set_string(w, "model", of->plan.request->common.model);
    cleave_json_set_string(w, "machine", of->plan.request->common.machine);
    cleave_json_open_array(w, "points", false);
    for (int32_t p = 0; p < of->plan.n_points; p++)
        put_point(of, p, w);
    cleave_json_end_array(w);
    cleave_json_open_array(w, "knees", false);
    sweep_knees_put(of, w);
    cleave_json_end_array(w);
    cleave_json_end_object(w);
}

/* ---- reading --------------------------------------------------------------------------------- */

static cleave_status get_count(const cleave_json_cursor *at, const char *key, int64_t least,
                               int64_t *value, cleave_error *error) {
    return cleave_json_get_integer(at, key, least, INT64_MAX, value, error);
}

static cleave_status get_text(const cleave_json_cursor *at, const char *key, cleave_arena *arena,
                              const char **text, cleave_error *error) {
    CLEAVE_TRY(cleave_json_get_string(at, key, text, error));
    *text = cleave_arena_string(arena, *text);
    return *text != NULL ? CLEAVE_OK : cleave_fail_memory(error, "reading a sweep");
}

/* What sweep.json keeps of a point, by the names that `search --json` has for it. */
static cleave_status get_record(const cleave_json_cursor *at, cleave_arena *arena,
                                sweep_record *record, cleave_error *error) {
    CLEAVE_TRY(get_text(at, "method", arena, &record->method, error));
    CLEAVE_TRY(get_count(at, "batch", 0, &record->batch, error));
    CLEAVE_TRY(cleave_json_get_amount(at, "step_seconds", false, &record->step_seconds, error));
    CLEAVE_TRY(get_count(at, "peak_bytes", 0, &record->peak_bytes, error));
    CLEAVE_TRY(get_count(at, "bytes_sent", -1, &record->bytes_sent, error));
    CLEAVE_TRY(cleave_json_get_amount(at, "lower_bound_seconds", false,
                                      &record->lower_bound_seconds, error));
    CLEAVE_TRY(get_count(at, "micro_batches", 1, &record->micro_batches, error));
    CLEAVE_TRY(get_count(at, "stages", 1, &record->stages, error));
    return get_count(at, "recomputed_operators", 0, &record->recomputed_operators, error);
}

cleave_status sweep_record_take(const cleave_json *searched, cleave_arena *arena,
                                sweep_record *record, cleave_error *error) {
    cleave_json_cursor root = cleave_json_root(searched), shares;
    sweep_record made = {.is_done = true};
    CLEAVE_TRY(get_record(&root, arena, &made, error));
    CLEAVE_TRY(cleave_json_get(&root, "price_shares", &shares, error));
    CLEAVE_TRY(cleave_json_get_amount(&shares, "links", false, &made.links, error));
    *record = made;
    return CLEAVE_OK;
}

static cleave_status get_point(const cleave_json_cursor *at, cleave_arena *arena,
                               sweep_record *record, cleave_error *error) {
    cleave_json_cursor member;
    sweep_record made = {0};
    CLEAVE_TRY(cleave_json_expect_object(at, error));
    CLEAVE_TRY(cleave_json_get_truth(at, "done", &made.is_done, error));
    if (!made.is_done)
        return CLEAVE_OK;
    if (cleave_json_find(at, "why", &member)) {
        CLEAVE_TRY(get_text(at, "why", arena, &made.why, error));
    } else {
        CLEAVE_TRY(get_record(at, arena, &made, error));
        CLEAVE_TRY(cleave_json_get_amount(at, "links", false, &made.links, error));
        if (made.step_seconds <= 0)
            return cleave_json_fail(at, error, "a step takes more than no time");
    }
    *record = made;
    return CLEAVE_OK;
}

/* Two values as texts are the same, or not. */
static bool same(const cleave_json_cursor *a, const cleave_json_cursor *b) {
    cleave_json_type type = cleave_json_type_of(a);
    const char *x, *y, *key;
    double p, q;
    if (type != cleave_json_type_of(b) || cleave_json_count(a) != cleave_json_count(b))
        return false;
    if (type == CLEAVE_JSON_STRING)
        return cleave_json_string(a, &x, NULL) == CLEAVE_OK &&
               cleave_json_string(b, &y, NULL) == CLEAVE_OK && strcmp(x, y) == 0;
    for (int32_t i = 0; i < cleave_json_count(a); i++) {
        cleave_json_cursor of_a, of_b;
        if (type == CLEAVE_JSON_ARRAY) {
            of_a = cleave_json_element(a, i);
            of_b = cleave_json_element(b, i);
        } else {
            of_a = cleave_json_member(a, i, &key);
            if (!cleave_json_find(b, key, &of_b))
                return false;
        }
        if (!same(&of_a, &of_b))
            return false;
    }
    return cleave_json_number(a, &p, NULL) != CLEAVE_OK ||
           (cleave_json_number(b, &q, NULL) == CLEAVE_OK && p == q);
}

/* Are the facts in the file those of this sweep?  They are compared as they would be written. */
static cleave_status check_facts(const sweep *of, const cleave_json_cursor *root,
                                 cleave_error *error) {
    cleave_json_writer w = {0};
    cleave_json *document = NULL;
    cleave_json_begin_object(&w, false);
    put_facts(of, &w);
    cleave_json_end_object(&w);
    cleave_status status = w.failed ? cleave_fail_memory(error, "reading a sweep")
                                    : cleave_json_parse(w.text, w.n, "sweep", &document, error);
    cleave_json_writer_free(&w);
    CLEAVE_TRY(status);
    cleave_json_cursor mine = cleave_json_root(document), theirs;
    for (int32_t i = 0; i < cleave_json_count(&mine) && status == CLEAVE_OK; i++) {
        const char *key;
        cleave_json_cursor fact = cleave_json_member(&mine, i, &key);
        status = cleave_json_get(root, key, &theirs, error);
        if (status == CLEAVE_OK && !same(&fact, &theirs))
            status = cleave_json_fail(&theirs, error, "is of another sweep");
    }
    cleave_json_free(document);
    return status;
}

static cleave_status get_all(const cleave_json_cursor *root, cleave_arena *arena, sweep *of,
                             cleave_error *error) {
    cleave_json_cursor points;
    CLEAVE_TRY(cleave_json_expect_object(root, error));
    CLEAVE_TRY(check_facts(of, root, error));
    CLEAVE_TRY(cleave_json_get_array(root, "points", &points, error));
    if (cleave_json_count(&points) != of->plan.n_points)
        return cleave_json_fail(&points, error, "%d points, not %d", cleave_json_count(&points),
                                of->plan.n_points);
    for (int32_t p = 0; p < of->plan.n_points; p++) {
        cleave_json_cursor point = cleave_json_element(&points, p);
        CLEAVE_TRY(get_point(&point, arena, &of->records[p], error));
    }
    return CLEAVE_OK;
}

cleave_status sweep_parse(const char *text, size_t bytes, const char *name, cleave_arena *arena,
                          sweep *of, cleave_error *error) {
    cleave_json *document;
    CLEAVE_TRY(cleave_json_parse(text, bytes, name, &document, error));
    cleave_json_cursor root = cleave_json_root(document);
    cleave_status status = get_all(&root, arena, of, error);
    cleave_json_free(document);
    return status;
}
