#include "simulator/scan/period.h"

#include "simulator/scan/engine_scan.h"

/* Steps that are simulated: by half of them a pipeline of as many stages is full, and the mean is
   that of the other half; and so many that move on alike in a row are taken for all. */
enum { MOST_STEPS = 128, ALIKE = 8 };

/* Both lanes of a device begin a step together. */
static void begin_step(const cleave_scan *scan) {
    for (int32_t d = 0; d < scan->problem->n_queues / 2; d++) {
        cleave_scan_device *device = &scan->devices[d];
        device->clock[0] = device->clock[1] = cleave_later(device->clock[0], device->clock[1]);
    }
}

cleave_status cleave_scan_period(const cleave_engine_problem *problem,
                                 cleave_engine_workspace *workspace, cleave_timeline *timeline,
                                 int64_t *period, cleave_error *error) {
    cleave_scan scan;
    int64_t end[MOST_STEPS + 1] = {0};
    int32_t n_alike = 0, n = 0;
    CLEAVE_TRY(cleave_scan_begin(problem, workspace->scan, timeline, &scan, error));
    while (n < MOST_STEPS && n_alike < ALIKE) {
        begin_step(&scan);
        cleave_scan_run(&scan, 0, problem->n_steps);
        end[++n] = cleave_scan_end(&scan);
        bool is_alike = n > 1 && end[n] - end[n - 1] == end[n - 1] - end[n - 2];
        n_alike = is_alike ? n_alike + 1 : 0;
    }
    *period = n_alike == ALIKE ? end[n] - end[n - 1] : (end[n] - end[n / 2]) / (n - n / 2);
    return CLEAVE_OK;
}
