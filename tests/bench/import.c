/* How long it takes to import each model that ships: the median of some repetitions.
     usage: bench_import [REPETITIONS] */
#include "graph/import.h"
#include "row.h"

#include <glob.h>
#include <string.h>

enum { MOST_REPETITIONS = 101 };

static cleave_status measure(const char *path, int repetitions, cleave_error *error) {
    double seconds[MOST_REPETITIONS];
    char what[128];
    int32_t n_operators = 0, n_nests = 0;
    for (int r = 0; r < repetitions; r++) {
        cleave_arena arena = {0};
        cleave_model model;
        double start = cleave_clock_seconds();
        cleave_status status = cleave_model_import(path, 64, true, &arena, &model, error);
        seconds[r] = cleave_clock_seconds() - start;
        if (status == CLEAVE_OK) {
            n_operators = model.n_operators;
            n_nests = model.n_nests;
        }
        cleave_arena_free(&arena);
        CLEAVE_TRY(status);
    }
    const char *name = strrchr(path, '/');
    snprintf(what, sizeof what, "importing %s", name != NULL ? name + 1 : path);
    bench_row(what, "", "%.1f ms, %d operators, %d nests", 1e3 * bench_median(seconds, repetitions),
              n_operators, n_nests);
    return CLEAVE_OK;
}

int main(int argc, char **argv) {
    int repetitions = argc > 1 ? atoi(argv[1]) : 5;
    glob_t models;
    if (repetitions < 1 || repetitions > MOST_REPETITIONS ||
        glob(CLEAVE_SOURCE_DIR "/configs/models/*.onnx", 0, NULL, &models) != 0) {
        fprintf(stderr,
                "bench_import: repetitions are 1 to %d, models in " CLEAVE_SOURCE_DIR
                "/configs/models\n",
                MOST_REPETITIONS);
        return 2;
    }
    int code = 0;
    for (size_t i = 0; i < models.gl_pathc && code == 0; i++) {
        cleave_error error = {""};
        if (measure(models.gl_pathv[i], repetitions, &error) != CLEAVE_OK) {
            fprintf(stderr, "bench_import: %s\n", error.message);
            code = 1;
        }
    }
    globfree(&models);
    return code;
}
