/* Which steps are kept: those nearest to the median of all steps so far.  The median moves less and
   less as steps come in, so what is near it at the end has been near it before; with no more steps
   than records the choice is exact. */
#include "exec/step_records.h"

#include <math.h>
#include <string.h>

static int32_t n_own_items(const cleave_rank *rank) {
    int32_t n = 0;
    for (int lane = 0; lane < CLEAVE_N_LANES; lane++)
        n += rank->n_lane_items[lane];
    return n;
}

cleave_status cleave_step_records_create(cleave_step_records *records, const cleave_rank *rank,
                                         int64_t n_steps, cleave_arena *arena,
                                         cleave_error *error) {
    *records = (cleave_step_records){.n_steps = n_steps,
                                     .sorted = CLEAVE_ARENA_ARRAY(arena, double, n_steps)};
    bool fits = records->sorted != NULL;
    for (int r = 0; r < CLEAVE_MAX_STEP_RECORDS && r < n_steps; r++) {
        records->times[r] = CLEAVE_ARENA_ARRAY(arena, int64_t, 2 * (size_t)n_own_items(rank));
        fits &= records->times[r] != NULL;
    }
    return fits ? CLEAVE_OK : cleave_fail_memory(error, "preparing to record steps");
}

/* Own items lie in the order of the lanes, the main lane first. */
static void store(const cleave_rank *rank, int64_t *times) {
    for (int lane = 0; lane < CLEAVE_N_LANES; lane++)
        for (int32_t i = 0; i < rank->n_lane_items[lane]; i++) {
            *times++ = rank->start[rank->lane_items[lane][i]];
            *times++ = rank->end[rank->lane_items[lane][i]];
        }
}

static double insert_sorted(cleave_step_records *records, double seconds) {
    int64_t at = records->n_sorted++;
    for (; at > 0 && records->sorted[at - 1] > seconds; at--)
        records->sorted[at] = records->sorted[at - 1];
    records->sorted[at] = seconds;
    int64_t n = records->n_sorted;
    return (records->sorted[(n - 1) / 2] + records->sorted[n / 2]) / 2;
}

void cleave_step_records_offer(cleave_step_records *records, const cleave_rank *rank, int64_t step,
                               double seconds) {
    if (step == 0 && records->n_steps > 1)
        return;
    double median = insert_sorted(records, seconds);
    int32_t at = records->n;
    if (at < CLEAVE_MAX_STEP_RECORDS) {
        records->n++;
    } else {
        at = 0;
        for (int32_t r = 1; r < records->n; r++)
            if (fabs(records->seconds[r] - median) > fabs(records->seconds[at] - median))
                at = r;
        if (fabs(seconds - median) > fabs(records->seconds[at] - median))
            return;
    }
    records->seconds[at] = seconds;
    records->started[at] = rank->step_started;
    store(rank, records->times[at]);
}

double cleave_step_records_restore(const cleave_step_records *records, cleave_rank *rank,
                                   double seconds) {
    int32_t best = 0;
    for (int32_t r = 1; r < records->n; r++)
        if (fabs(records->seconds[r] - seconds) < fabs(records->seconds[best] - seconds))
            best = r;
    const int64_t *times = records->times[best];
    for (int lane = 0; lane < CLEAVE_N_LANES; lane++)
        for (int32_t i = 0; i < rank->n_lane_items[lane]; i++) {
            rank->start[rank->lane_items[lane][i]] = *times++;
            rank->end[rank->lane_items[lane][i]] = *times++;
        }
    return records->started[best];
}

/* Of the k-th own item. */
static int64_t median_duration(const cleave_step_records *records, int32_t k) {
    int64_t sorted[CLEAVE_MAX_STEP_RECORDS];
    for (int32_t r = 0; r < records->n; r++) {
        int64_t duration = records->times[r][2 * k + 1] - records->times[r][2 * k];
        int32_t at = r;
        for (; at > 0 && sorted[at - 1] > duration; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = duration;
    }
    return (sorted[(records->n - 1) / 2] + sorted[records->n / 2]) / 2;
}

void cleave_step_records_durations(const cleave_step_records *records, const cleave_rank *rank,
                                   int64_t *duration) {
    int32_t k = 0;
    memset(duration, -1, (size_t)rank->program->n_items * sizeof *duration);
    for (int lane = 0; lane < CLEAVE_N_LANES; lane++)
        for (int32_t i = 0; i < rank->n_lane_items[lane]; i++)
            duration[rank->lane_items[lane][i]] = median_duration(records, k++);
}
