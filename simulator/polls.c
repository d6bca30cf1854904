/* By how much polls make messages late. */
#include "simulator/polls.h"

/* The first work of a device, before place `until`, that ends after a time; `until`: there is none.
   It mostly lies close before that place, if anywhere, so the search begins there. */
static int32_t find_running(const cleave_poll_profile *profile, int32_t device, int32_t until,
                            int64_t time) {
    const int64_t *end = profile->end;
    int32_t first = profile->lane_start[device], high = until - 1, step = 1;
    if (high < first || end[high] <= time)
        return until;
    for (; high - step >= first && end[high - step] > time; step *= 2)
        high -= step;
    int32_t low = high - step >= first ? high - step + 1 : first;
    while (low < high) { /* the work at `high` ends after it */
        int32_t middle = low + (high - low) / 2;
        if (end[middle] > time)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* How long a device takes from a time until so many pieces of its work are done; less where it
   comes to a wait before, since then it polls all the time.  Only work before `until` counts. */
static int64_t wait_for_polls(const cleave_poll_profile *profile, int32_t device, int32_t until,
                              int64_t time, double polls) {
    int64_t now = time;
    if (polls <= 0)
        return 0;
    for (int32_t i = find_running(profile, device, until, time);
         i < until && profile->begin[i] <= now; i++) {
        double piece = (double)(profile->end[i] - profile->begin[i]) / profile->pieces[i];
        double left = (double)(profile->end[i] - now) / piece;
        if (polls <= left)
            return now + (int64_t)(polls * piece) - time;
        polls -= left;
        now = profile->end[i];
    }
    return now - time;
}

int64_t cleave_poll_delay(const cleave_poll_profile *profile, int32_t message, int64_t posted) {
    int64_t sending =
        wait_for_polls(profile, profile->source[message], profile->source_until[message], posted,
                       profile->sending[message]);
    int64_t receiving =
        wait_for_polls(profile, profile->destination[message], profile->destination_until[message],
                       posted, profile->receiving[message]);
    return sending > receiving ? sending : receiving;
}
