/* By how much polls make messages late. */
#include "simulator/step/polls.h"

#include "base/order.h"

#include <stddef.h>

/* The first run of a device that ends after a time, or where its runs end; searched from run `near`
   on. */
static int32_t find_run(const cleave_work_times *times, int32_t device, int32_t near,
                        int64_t time) {
    const cleave_work_run *runs = times->runs;
    int32_t low = times->run_start[device], high = times->run_start[device + 1], step = 1;
    if (near < high && runs[near].end <= time) {
        low = near + 1;
        for (; low + step <= high && runs[low + step - 1].end <= time; step *= 2)
            low += step;
        high = low + step <= high ? low + step - 1 : high;
    } else {
        high = near;
        for (; high - step >= low && runs[high - step].end > time; step *= 2)
            high -= step;
        low = high - step >= low ? high - step + 1 : low;
    }
    CLEAVE_BISECT(low, high, middle, runs[middle].end <= time);
    return low;
}

/* How long a device takes from a time until so many pieces of its work are done; less where it
   comes to a wait before, since then it polls all the time. */
static inline int64_t wait_for_polls(const cleave_poll_profile *profile, const cleave_end_polls *of,
                                     int64_t time) {
    const cleave_work_times *times = &profile->times;
    int64_t now = time;
    double polls = of->polls;
    if (polls <= 0)
        return 0;
    int32_t run = find_run(times, of->device, times->run_of[of->near], time);
    if (times->run_first[run] >= of->until || times->runs[run].begin > time)
        return 0;
    int32_t i = cleave_work_at(times, run, time);
    for (; times->run_first[run] < of->until && times->runs[run].begin <= now; run++) {
        for (; i < times->run_first[run + 1]; i++) {
            int64_t begin = cleave_work_begin(times, run, i), end = cleave_work_end(times, run, i);
            double piece = (double)(end - begin) / profile->pieces[i];
            double left = (double)(end - now) / piece;
            if (polls <= left)
                return now + (int64_t)(polls * piece) - time;
            polls -= left;
            now = end;
        }
    }
    return now - time;
}

int64_t cleave_poll_delay(const cleave_poll_profile *profile, int32_t message, int64_t posted) {
    const cleave_end_polls *ends = &profile->ends[2 * (size_t)message];
    int64_t sending = wait_for_polls(profile, &ends[0], posted);
    int64_t receiving = wait_for_polls(profile, &ends[1], posted);
    return sending > receiving ? sending : receiving;
}
