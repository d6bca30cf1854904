/* Draws a figure of a document: the rows of a table, "curve,x,y", from standard input, as SVG.
   Along x there are devices or the like, by powers of 2; y begins near 0, or, with --log, is
   logarithmic.
     usage: bench_figure TITLE NAME_OF_X NAME_OF_Y OUT.svg [--log] < TABLE.csv */
#include "base/csv.h"
#include "page/chart.h"
#include "tests/bench/arguments.h"

enum { MOST_POINTS = 256 };

typedef struct figure {
    cleave_chart chart;
    cleave_chart_curve curves[CLEAVE_CHART_MOST_CURVES];
    cleave_chart_point points[CLEAVE_CHART_MOST_CURVES][MOST_POINTS];
} figure;

/* Everything that is on standard input. */
static char *read_input(size_t *bytes) {
    char *text = NULL;
    FILE *to = open_memstream(&text, bytes);
    for (int c = to != NULL ? getchar() : EOF; c != EOF; c = getchar())
        putc(c, to);
    if (to != NULL)
        fclose(to);
    return text;
}

static int32_t find_curve(const bench_arguments *a, figure *f, const char *name) {
    int32_t c = 0;
    while (c < f->chart.n_curves && strcmp(f->curves[c].name, name) != 0)
        c++;
    if (c == CLEAVE_CHART_MOST_CURVES)
        bench_refuse(a, "%s: more than %d curves", name, c);
    if (c == f->chart.n_curves)
        f->curves[f->chart.n_curves++] = (cleave_chart_curve){.name = name, .points = f->points[c]};
    return c;
}

static double number(const bench_arguments *a, const cleave_csv_field *field) {
    char *end;
    double value = strtod(field->text, &end);
    if (end == field->text || *end != '\0')
        bench_refuse(a, "line %d: \"%s\" is no number", field->line, field->text);
    return value;
}

static void take_row(const bench_arguments *a, figure *f, const cleave_csv_row *row) {
    if (row->n != 3)
        bench_refuse(a, "line %d: not three fields", row->fields[0].line);
    cleave_chart_curve *curve = &f->curves[find_curve(a, f, row->fields[0].text)];
    if (curve->n == MOST_POINTS)
        bench_refuse(a, "%s: more than %d points", curve->name, (int)MOST_POINTS);
    f->points[curve - f->curves][curve->n++] =
        (cleave_chart_point){.x = number(a, &row->fields[1]), .y = number(a, &row->fields[2])};
}

int main(int argc, char **argv) {
    static figure f;
    cleave_error error = {""};
    cleave_arena arena = {0};
    cleave_csv_row row;
    size_t bytes = 0;
    bench_arguments a = bench_begin(argc, argv);
    const char *words[4];
    for (int i = 0; i < 4; i++)
        if ((words[i] = bench_take(&a)) == NULL)
            bench_refuse(&a, "a title, the names of both axes and a file are wanted");
    f.chart =
        (cleave_chart){.title = words[0],
                       .x = {words[1], CLEAVE_UNIT_PLAIN, 2},
                       .y = {words[2], CLEAVE_UNIT_PLAIN, bench_take_flag(&a, "--log") ? 10 : 0},
                       .curves = f.curves};
    bench_end(&a);
    char *text = read_input(&bytes);
    cleave_csv csv = cleave_csv_begin(text, bytes, "standard input");
    cleave_status status = cleave_csv_next(&csv, &arena, &row, &error);
    for (; status == CLEAVE_OK && row.n > 0; status = cleave_csv_next(&csv, &arena, &row, &error))
        take_row(&a, &f, &row);
    if (status == CLEAVE_OK)
        status = cleave_chart_write(words[3], &f.chart, &error);
    if (status != CLEAVE_OK)
        fprintf(stderr, "%s\n", error.message);
    cleave_arena_free(&arena);
    free(text);
    return (int)status;
}
