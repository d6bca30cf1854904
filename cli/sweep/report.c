/* A sweep as a table for people, and as comma-separated values. */
#include "cli/sweep/report.h"

#include "base/file.h"
#include "cli/sweep/knee.h"
#include "cli/table.h"

#include <stdio.h>
#include <string.h>

void sweep_describe_schedule(const sweep_record *record, char *text, size_t bytes) {
    int used = 0;
    snprintf(text, bytes, "-");
    if (record->micro_batches > 1)
        used = snprintf(text, bytes, "%lld micro-batches", (long long)record->micro_batches);
    if (record->stages > 1)
        used += snprintf(text + used, bytes - (size_t)used, "%s%lld stages", used > 0 ? ", " : "",
                         (long long)record->stages);
    if (record->recomputed_operators > 0)
        snprintf(text + used, bytes - (size_t)used, "%srecomputing", used > 0 ? ", " : "");
}

/* ---- for people ------------------------------------------------------------------------------ */

static void add_heading(const sweep *of, table *t) {
    for (int32_t a = 0; a < of->plan.n_axes; a++)
        table_text(t, sweep_axis_heading(&of->plan.axes[a], t->arena));
    table_text(t, "step");
    table_text(t, "samples/s");
    table_text(t, "per device");
    table_text(t, "memory");
    if (of->question.samples > 0)
        table_text(t, "days");
    if (of->question.price_per_device_hour > 0)
        table_text(t, of->question.samples > 0 ? "cost" : "per million");
    table_text(t, "links");
    table_text(t, "schedule");
}

static void add_point(const sweep *of, int32_t p, table *t) {
    const sweep_point *point = &of->plan.points[p];
    const sweep_record *record = &of->records[p];
    double samples = of->question.samples, rate = sweep_throughput(of, p);
    char schedule[128];
    for (int32_t a = 0; a < of->plan.n_axes; a++)
        table_text(t, of->plan.axes[a].labels[point->at[a]]);
    if (record->why != NULL) {
        table_text(t, "does not fit");
        for (int i = of->plan.n_axes + 1; i < t->n_columns; i++)
            table_text(t, "-");
        return;
    }
    sweep_describe_schedule(record, schedule, sizeof schedule);
    table_quantity(t, record->step_seconds, CLEAVE_UNIT_SECONDS);
    table_format(t, "%.5g", rate);
    table_format(t, "%.4g", rate / point->n_devices);
    table_quantity(t, (double)record->peak_bytes, CLEAVE_UNIT_BYTES);
    if (samples > 0)
        table_format(t, "%.4g", sweep_days(of, p, samples));
    if (of->question.price_per_device_hour > 0)
        table_format(t, "%.4g", sweep_cost(of, p, samples > 0 ? samples : 1e6));
    table_format(t, "%.0f %%", 100 * record->links);
    table_text(t, schedule);
}

void sweep_print_text(const sweep *of, cleave_arena *arena) {
    char align[TABLE_MAX_COLUMNS + 1] = "rrrrrrrrrrrr", text[512];
    table t = {.arena = arena, .n_columns = of->plan.n_axes + 6, .align = align};
    t.n_columns += (of->question.samples > 0) + (of->question.price_per_device_hour > 0);
    align[t.n_columns - 1] = 'l';
    add_heading(of, &t);
    for (int32_t p = 0; p < of->plan.n_points; p++)
        add_point(of, p, &t);
    table_print(&t, stdout);
    printf("Memory is of the fullest device; links are the share of the step that is theirs.\n");
    for (sweep_knee knee = {.axis = -1}; sweep_knee_next(of, &knee);) {
        sweep_knee_describe(of, &knee, text, sizeof text);
        printf("%s\n", text);
    }
}

/* ---- comma-separated values ------------------------------------------------------------------ */

static void put_field(FILE *stream, const char *text) {
    const char *quote = text[strcspn(text, ",\"\r\n")] == '\0' ? "" : "\"";
    fputs(quote, stream);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            fputc('"', stream);
        fputc(*text, stream);
    }
    fputs(quote, stream);
}

static void put_cell(FILE *stream, const char *text) {
    put_field(stream, text);
    fputc(',', stream);
}

static void write_heading(const sweep *of, FILE *stream, cleave_arena *arena) {
    for (int32_t a = 0; a < of->plan.n_axes; a++)
        put_cell(stream, sweep_axis_heading(&of->plan.axes[a], arena));
    fputs("n_devices,global_batch,step_seconds,samples_per_second,samples_per_second_per_device,"
          "peak_bytes,bytes_sent,links,lower_bound_seconds,",
          stream);
    if (of->question.price_per_device_hour > 0)
        fputs("cost_per_million_samples,", stream);
    if (of->question.samples > 0)
        fputs("days,", stream);
    if (of->question.samples > 0 && of->question.price_per_device_hour > 0)
        fputs("cost,", stream);
    fputs("found_by,micro_batches_found,stages_found,recomputed_operators,layout,why\n", stream);
}

static void write_figures(const sweep *of, int32_t p, FILE *stream) {
    const sweep_record *record = &of->records[p];
    double rate = sweep_throughput(of, p);
    fprintf(stream, "%lld,%.12g,%.12g,%.12g,%lld,", (long long)record->batch, record->step_seconds,
            rate, rate / of->plan.points[p].n_devices, (long long)record->peak_bytes);
    if (record->bytes_sent >= 0)
        fprintf(stream, "%lld", (long long)record->bytes_sent);
    fprintf(stream, ",%.6g,%.12g,", record->links, record->lower_bound_seconds);
    if (of->question.price_per_device_hour > 0)
        fprintf(stream, "%.8g,", sweep_cost(of, p, 1e6));
    if (of->question.samples > 0)
        fprintf(stream, "%.8g,", sweep_days(of, p, of->question.samples));
    if (of->question.samples > 0 && of->question.price_per_device_hour > 0)
        fprintf(stream, "%.8g,", sweep_cost(of, p, of->question.samples));
    put_cell(stream, record->method);
    fprintf(stream, "%lld,%lld,%lld,plans/", (long long)record->micro_batches,
            (long long)record->stages, (long long)record->recomputed_operators);
    put_cell(stream, of->plan.points[p].name);
    fputc('\n', stream);
}

static void write_row(const sweep *of, int32_t p, FILE *stream) {
    const sweep_point *point = &of->plan.points[p];
    const sweep_question *asked = &of->question;
    for (int32_t a = 0; a < of->plan.n_axes; a++)
        put_cell(stream, of->plan.axes[a].labels[point->at[a]]);
    fprintf(stream, "%d,", point->n_devices);
    if (of->records[p].why == NULL) {
        write_figures(of, p, stream);
        return;
    }
    int empty = 13 + (asked->price_per_device_hour > 0) + (asked->samples > 0) +
                (asked->samples > 0 && asked->price_per_device_hour > 0);
    for (int i = 0; i < empty; i++)
        fputc(',', stream);
    put_field(stream, of->records[p].why);
    fputc('\n', stream);
}

cleave_status sweep_write_csv(const sweep *of, const char *path, cleave_arena *arena,
                              cleave_error *error) {
    cleave_file_writer writer;
    CLEAVE_TRY(cleave_file_writer_open(&writer, path, error));
    write_heading(of, writer.stream, arena);
    for (int32_t p = 0; p < of->plan.n_points; p++)
        write_row(of, p, writer.stream);
    return cleave_file_writer_commit(&writer, error);
}
