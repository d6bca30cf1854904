/* Work that is told by its bytes. */
#include "cli/calibrate/bytes.h"

#include "costmodel/byte_price.h"

#include <string.h>

enum { COPY, SUM, LOAD, UPDATE, ROWS, N_FAMILIES };

static const struct {
    const char *name;
    int64_t least_bytes, most_bytes, times, least_row, most_row; /* rows are 4 times as long */
} families[N_FAMILIES] = {
    [COPY] = {"copy", 1 << 6, 1 << 26, 16, 0, 0},
    [SUM] = {"sum", 1 << 6, 1 << 26, 16, 0, 0},
    [LOAD] = {"load", 1 << 6, 1 << 26, 16, 0, 0},
    [UPDATE] = {"update", 1 << 6, 1 << 26, 16, 0, 0},
    [ROWS] = {"copy rows", 1 << 10, 1 << 22, 16, 1 << 4, CLEAVE_LONG_ROW_BYTES}};

/* The sizes of a family from the largest on; which one is measured when. */
enum { N_ROUNDS = 6 };
static const int size_of_round[N_ROUNDS] = {0, 2, 4, 1, 3, 5};

/* The size of a family that is so many times smaller than the largest; 0: there is none. */
static int64_t size_below(int family, int down) {
    int64_t bytes = families[family].most_bytes;
    for (int i = 0; i < down; i++)
        bytes /= families[family].times;
    return bytes >= families[family].least_bytes ? bytes : 0;
}

static void add_family(calibrate_byte_works *works, int family, int down) {
    int64_t bytes = size_below(family, down), row = families[family].least_row;
    while (bytes > 0 && row <= families[family].most_row && row <= bytes) {
        works->items[works->n++] = (calibrate_byte_work){
            .family = family,
            .bytes = bytes,
            .row_bytes = row,
            .stands_for_memory = family == COPY && down == 0,
        };
        row = row > 0 ? row << 2 : 1;
    }
}

void calibrate_byte_works_list(calibrate_byte_works *works) {
    *works = (calibrate_byte_works){0};
    for (int round = 0; round < N_ROUNDS; round++) {
        for (int f = 0; f < N_FAMILIES; f++)
            add_family(works, f, size_of_round[round]);
        if (round == 0)
            works->n_first = works->n;
    }
}

void calibrate_byte_work_describe(const calibrate_byte_work *of, cleave_work *work) {
    double moved = of->family == UPDATE ? cleave_work_bytes_of_update(of->bytes, 0)
                                        : (of->family == SUM ? 3 : 2) * (double)of->bytes;
    if (of->family == ROWS)
        cleave_work_describe_rows(moved, (double)(of->bytes / of->row_bytes), work);
    else
        cleave_work_describe_bytes(families[of->family].name, moved, work);
}

bool calibrate_is_byte_family(const char *family) {
    for (int f = 0; f < N_FAMILIES; f++)
        if (strcmp(families[f].name, family) == 0)
            return true;
    return false;
}

cleave_status calibrate_byte_work_measure(const calibrate_byte_work *of, int32_t n_devices,
                                          cleave_measured_bytes in, cleave_measurement *result,
                                          cleave_error *error) {
    const cleave_optimizer optimizer = cleave_optimizer_default(CLEAVE_OPTIMIZER_SGD);
    in.bytes = of->bytes;
    switch (of->family) {
    case LOAD:
        return cleave_load_measure(&in, result, error);
    case UPDATE:
        return cleave_update_measure(&in, &optimizer, result, error);
    case ROWS:
        return cleave_rows_measure(&in, of->row_bytes, n_devices, result, error);
    default:
        return cleave_copy_measure(&in, of->family == SUM ? CLEAVE_COPY_SUM : CLEAVE_COPY_ASSIGN,
                                   result, error);
    }
}
