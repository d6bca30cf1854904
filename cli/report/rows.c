/* Which devices a timeline shows. */
#include "base/order.h"
#include "cli/report/spans.h"

#include <stdlib.h>

/* Devices of one sort. */
typedef struct sort {
    int64_t busy[CLEAVE_N_LANES]; /* picoseconds */
    int32_t n_items;
    int32_t first, count;
    bool is_wanted;
} sort;

static bool is_same(const sort *a, const sort *b) {
    return a->busy[0] == b->busy[0] && a->busy[1] == b->busy[1] && a->n_items == b->n_items;
}

static void add_up(const report_step *step, sort *devices) {
    const cleave_priced_fragment *priced = &step->of.simulated.problem.step;
    for (int32_t i = 0; i < priced->n_items; i++) {
        sort *of = &devices[priced->queue[i] / 2];
        of->busy[priced->queue[i] % 2] += priced->duration[i];
        of->n_items++;
    }
}

/* Gathers equal ones in place, in the order of their first; those of `wanted` first. */
static int32_t gather(sort *devices, int32_t n, const int32_t *wanted, int n_wanted) {
    int32_t n_sorts = 0;
    for (int32_t d = 0; d < n; d++) {
        sort of = devices[d];
        int32_t k = 0;
        while (k < n_sorts && !is_same(&devices[k], &of))
            k++;
        if (k == n_sorts) {
            devices[n_sorts] = of;
            devices[n_sorts].first = d;
            devices[n_sorts++].count = 0;
        }
        devices[k].count++;
        for (int w = 0; w < n_wanted; w++)
            if (wanted[w] == d && !devices[k].is_wanted) {
                devices[k].is_wanted = true;
                devices[k].first = d;
            }
    }
    return n_sorts;
}

static int by_count(const void *a, const void *b) {
    const sort *x = a, *y = b;
    CLEAVE_ORDER_BY(y->is_wanted, x->is_wanted);
    CLEAVE_ORDER_BY(y->count, x->count);
    return CLEAVE_ORDER(x->first, y->first);
}

static int by_first(const void *a, const void *b) {
    const sort *x = a, *y = b;
    return CLEAVE_ORDER(x->first, y->first);
}

cleave_status report_rows_choose(const report_step *step, report_rows *rows, cleave_error *error) {
    const int32_t wanted[] = {step->path.fullest_device, step->path.busiest_device};
    int32_t n = step->of.priced.program.n_devices;
    sort *devices = calloc((size_t)n, sizeof *devices);
    if (devices == NULL)
        return cleave_fail_memory(error, "choosing devices to show");
    add_up(step, devices);
    bool shows_all = n <= REPORT_MOST_ROWS && step->measured.start != NULL;
    for (int32_t d = 0; d < n && shows_all; d++)
        devices[d].n_items = d; /* what was measured is not alike */
    *rows = (report_rows){.n_sorts = gather(devices, n, wanted, 2)};
    CLEAVE_SORT(devices, rows->n_sorts, by_count);
    rows->n = rows->n_sorts < REPORT_MOST_ROWS ? rows->n_sorts : REPORT_MOST_ROWS;
    CLEAVE_SORT(devices, rows->n, by_first);
    for (int32_t r = 0; r < rows->n; r++) {
        rows->device[r] = devices[r].first;
        rows->alike[r] = devices[r].count;
    }
    free(devices);
    return CLEAVE_OK;
}
