/* When the work of main lanes happens, by runs: work of a device that nothing comes between, so
   that one begins where the other ends.  Sums of durations are known before any time is, so a run
   needs no more than how far they are moved; it takes the same time whether it is short or long.

   Work is numbered by places: that of a device side by side, in order. */
#ifndef CLEAVE_SIMULATOR_STEP_WORK_TIMES_H
#define CLEAVE_SIMULATOR_STEP_WORK_TIMES_H

#include <stdint.h>

/* All picoseconds.  One work at most is longer than its duration: communication has taken the
   processor from it. */
typedef struct cleave_work_run {
    int64_t begin, end;
    int64_t before, after; /* what sums are moved by, up to the longer work and behind it */
    int32_t longer;        /* its place; means nothing where both are equal */
} cleave_work_run;

typedef struct cleave_work_times {
    const int32_t *run_start; /* [n_devices + 1] runs of device d: run_start[d] and on */
    const int32_t *run_first; /* [n_runs + 1] places of run r: run_first[r] and on; 1 or more */
    const int32_t *run_of;    /* [n_places + 1] the run of a place; n_runs behind the last one */
    const int64_t *sum;       /* [n_places + 1] durations of all places before */
    cleave_work_run *runs;    /* [n_runs] */
} cleave_work_times;

static inline int64_t cleave_work_begin(const cleave_work_times *times, int32_t run,
                                        int32_t place) {
    const cleave_work_run *of = &times->runs[run];
    return times->sum[place] + (place > of->longer ? of->after : of->before);
}

static inline int64_t cleave_work_end(const cleave_work_times *times, int32_t run, int32_t place) {
    const cleave_work_run *of = &times->runs[run];
    return times->sum[place + 1] + (place >= of->longer ? of->after : of->before);
}

/* The first of the places first .. end - 1 with more than `amount` up to its end, where that is so
   of the last one. */
static inline int32_t cleave_work_find(const int64_t *sum, int32_t first, int32_t end,
                                       int64_t amount) {
    int32_t n = end - first;
    while (n > 1) {
        int32_t half = n / 2;
        first += sum[first + half] <= amount ? half : 0;
        n -= half;
    }
    return first;
}

/* The first place of a run that ends after a time, before the run's own end. */
static inline int32_t cleave_work_at(const cleave_work_times *times, int32_t run, int64_t time) {
    const cleave_work_run *of = &times->runs[run];
    int32_t first = times->run_first[run], end = times->run_first[run + 1];
    int64_t by = of->after;
    if (of->before != of->after && times->sum[of->longer + 1] + of->after <= time) {
        first = of->longer + 1;
    } else if (of->before != of->after) {
        if (times->sum[of->longer] + of->before <= time)
            return of->longer;
        end = of->longer;
        by = of->before;
    }
    return cleave_work_find(times->sum, first, end, time - by);
}

#endif
