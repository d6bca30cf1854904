/* Products of a described device (costmodel/array.h) against kernels measured on two GPUs.
     usage: bench_array FOLDER
   FOLDER has simumax_kernel_efficiency.csv: columns system, op, shape and measured_efficiency; of
   a100_pcie and b200_bf16_ceperm the products (matmul, b=1) count.  One number is fitted to every
   other kernel of a device, what large products sustain, and the rest are held against it: the
   median and the mean error, and the 90th percentile, beside those of one efficiency for all; then
   those alone whose smallest extent is below 1024. */
#include "costmodel/array.h"
#include "arguments.h"
#include "base/csv.h"
#include "base/file.h"
#include "base/list.h"
#include "base/order.h"

typedef struct kernel {
    double m, n, k, measured;
} kernel;

typedef struct device {
    const char *system;
    cleave_array array; /* of data sheets: cores, multipliers of each, boost clock, chip, memory */
} device;

static const device devices[] = {
    {"a100_pcie", {108, 32, 32, 1.41e9, 192 * 1024, 1.935e12, 1}},
    {"b200_bf16_ceperm", {148, 64, 64, 1.855e9, 484 * 1024, 8e12, 1}},
};

static double at_share(double *values, int32_t n, double share) {
    cleave_sort_doubles(values, n);
    return values[(int32_t)(share * (n - 1))];
}

static int32_t find_column(const bench_arguments *a, const cleave_csv_row *heading,
                           const char *name) {
    for (int32_t c = 0; c < heading->n; c++)
        if (strcmp(heading->fields[c].text, name) == 0)
            return c;
    bench_refuse(a, "there is no column \"%s\"", name);
}

/* The products of a device, [*n] in the arena. */
static kernel *read_kernels(const bench_arguments *a, const char *text, size_t bytes,
                            const char *system, cleave_arena *arena, int32_t *n) {
    cleave_csv csv = cleave_csv_begin(text, bytes, "kernels");
    cleave_csv_row row;
    cleave_error error = {""};
    if (cleave_csv_next(&csv, arena, &row, &error) != CLEAVE_OK || row.n == 0)
        bench_refuse(a, "no table: %s", error.message);
    int32_t of_system = find_column(a, &row, "system"), of_op = find_column(a, &row, "op"),
            of_shape = find_column(a, &row, "shape"),
            of_measured = find_column(a, &row, "measured_efficiency");
    CLEAVE_LIST(kernel) kernels = {0};
    while (cleave_csv_next(&csv, arena, &row, &error) == CLEAVE_OK && row.n > of_measured) {
        kernel one = {.measured = strtod(row.fields[of_measured].text, NULL)};
        if (strcmp(row.fields[of_system].text, system) == 0 &&
            strcmp(row.fields[of_op].text, "matmul") == 0 &&
            sscanf(row.fields[of_shape].text, "b=1, m=%lf, k=%lf, n=%lf", &one.m, &one.k, &one.n) ==
                3 &&
            !CLEAVE_LIST_PUSH(&kernels, one))
            bench_refuse(a, "out of memory");
    }
    *n = kernels.n;
    kernel *made = CLEAVE_ARENA_ARRAY(arena, kernel, kernels.n);
    if (made == NULL || kernels.n < 4)
        bench_refuse(a, "%s: %d products are too few", system, kernels.n);
    memcpy(made, kernels.items, (size_t)kernels.n * sizeof *made);
    CLEAVE_LIST_FREE(&kernels);
    return made;
}

static double smallest(const kernel *of) { return fmin(of->m, fmin(of->n, of->k)); }

/* Prints the errors of the odd kernels whose smallest extent is below some size. */
static void print_errors(const kernel *kernels, const double *scaled, int32_t n, double below,
                         double *room) {
    int32_t n_held = 0;
    double sum = 0;
    for (int32_t i = 1; i < n; i += 2)
        if (smallest(&kernels[i]) < below)
            sum += room[n_held++] = fabs(scaled[i] / kernels[i].measured - 1);
    if (n_held > 0)
        printf(
            "    errors of %3d %-10s  median %5.1f %%, mean %5.1f %%, 90th percentile %5.1f %%\n",
            n_held, isinf(below) ? "" : "small ones", 100 * at_share(room, n_held, 0.5),
            100 * sum / n_held, 100 * at_share(room, n_held, 0.9));
}

/* Scales what is predicted by the median of the even kernels and holds the odd ones against it. */
static void hold(const char *name, const kernel *kernels, double *predicted, int32_t n,
                 double *room) {
    int32_t n_fitted = 0;
    for (int32_t i = 0; i < n; i += 2)
        room[n_fitted++] = kernels[i].measured / predicted[i];
    double factor = at_share(room, n_fitted, 0.5);
    for (int32_t i = 0; i < n; i++)
        predicted[i] *= factor;
    printf("  %s, %.3f sustained\n", name, factor);
    print_errors(kernels, predicted, n, INFINITY, room);
    print_errors(kernels, predicted, n, 1024, room);
}

int main(int argc, char **argv) {
    bench_arguments a = bench_begin(argc, argv);
    const char *folder = a.words[0];
    char path[1024], *text;
    size_t bytes;
    cleave_arena arena = {0};
    cleave_error error = {""};
    if (folder == NULL || a.words[1] != NULL)
        bench_refuse(&a, "one folder is wanted");
    snprintf(path, sizeof path, "%s/simumax_kernel_efficiency.csv", folder);
    if (cleave_file_read(path, &arena, &text, &bytes, &error) != CLEAVE_OK)
        bench_refuse(&a, "%s", error.message);
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
        int32_t n;
        kernel *kernels = read_kernels(&a, text, bytes, devices[d].system, &arena, &n);
        double *flat = CLEAVE_ARENA_ARRAY(&arena, double, n);
        double *by_array = CLEAVE_ARENA_ARRAY(&arena, double, n);
        double *room = CLEAVE_ARENA_ARRAY(&arena, double, n);
        if (flat == NULL || by_array == NULL || room == NULL)
            bench_refuse(&a, "out of memory");
        for (int32_t i = 0; i < n; i++) {
            flat[i] = 1;
            by_array[i] =
                cleave_array_share(&devices[d].array, kernels[i].m, kernels[i].n, kernels[i].k);
        }
        printf("%s, %d products\n", devices[d].system, n);
        hold("by its array", kernels, by_array, n, room);
        hold("one efficiency for all", kernels, flat, n, room);
    }
    cleave_arena_free(&arena);
    return 0;
}
