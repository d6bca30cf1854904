/* A stretch of turns that repeat, without going through all of them: turns.h says why that may be.

   The times x of a period's beginning are the clocks of the devices that do something in it, the
   links that it uses, and what is on its way from block to block.  When a device has last waited,
   or a link was last idle, is no part of them, since no later time of the stretch asks for it; what
   comes behind it may.  It is that of the last period, which is gone through, if the device has
   waited in that.  If it waits neither in the periods before those that are left out nor in the one
   behind them, it does not in between: what it waits for is convex, and its clock is not. */
#include "simulator/scan/turns_internal.h"

#include <string.h>

enum { MOST_CYCLE = 24, N_HISTORY = 2 * MOST_CYCLE + 1, MOST_TRIES = 12 };

/* What is on its way at the beginning of the stretch's first period. */
typedef struct live {
    int32_t crossing, micro_batch;
} live;

typedef struct steady {
    turns_run *run;
    const turns_stretch *stretch;
    int32_t n_devices, n_links, n_live, n_times;
    int32_t *devices, *links; /* that the period uses */
    live *live;
    int64_t *history[N_HISTORY]; /* [n_times] of period p at p % N_HISTORY */
    int64_t *waited[N_HISTORY];  /* [n_devices + n_links] busy_from, and until, of idle links */
    int64_t *times, *waits, *by; /* of a try; how much later all times are after a cycle */
    cleave_scan_device *device_copies;
    cleave_scan_link *link_copies;
    cleave_scan_idle *idle_copies;
    int64_t *store_copy;
    int32_t done, since; /* periods; and of these, the history goes back to */
} steady;

/* ---- what a period uses ---------------------------------------------------------------------- */

/* Adds the number to a list that has it not yet. */
static void note(bool *seen, int32_t *list, int32_t *n, int32_t number) {
    if (!seen[number])
        list[(*n)++] = number;
    seen[number] = true;
}

static void note_links(steady *s, bool *seen, const cleave_scan_step *step) {
    const cleave_priced_fragment *of = &s->run->of->problem->step;
    const int32_t *links = of->hop_link, *start = of->hop_start;
    if (step->source == CLEAVE_PRICED_JOIN) {
        links = of->collective_links;
        start = of->collective_link_start;
    } else if (step->source != CLEAVE_PRICED_POST) {
        return;
    }
    for (int32_t l = start[step->subject]; l < start[step->subject + 1]; l++)
        note(seen, s->links, &s->n_links, links[l]);
}

/* Is there nothing but sums and the later of two times in the period? */
static bool find_used(steady *s, bool *device_seen, bool *link_seen) {
    const cleave_engine_problem *problem = s->run->of->problem;
    const cleave_turn *turns = &s->run->of->turns->turns[s->stretch->first];
    bool convex = problem->polls == NULL;
    for (int32_t m = 0; m < problem->step.n_messages && convex; m++)
        convex = !cleave_priced_ends_work(&problem->step, m);
    for (int32_t t = 0; t < s->stretch->length && convex; t++) {
        const int32_t *range = &problem->cut_steps[turns[t].block];
        for (int32_t i = range[0]; i < range[1]; i++) {
            const cleave_scan_step *step = &problem->steps[i];
            convex = convex && (step->queue & 1) == 0;
            note(device_seen, s->devices, &s->n_devices, step->queue / 2);
            if (step->kind != CLEAVE_SCAN_CATCH_UP)
                note_links(s, link_seen, step);
        }
    }
    for (int32_t d = 0; d < s->n_devices && convex; d++)
        convex = s->run->scan.devices[s->devices[d]].pending == 0;
    for (int32_t l = 0; l < s->n_links && convex; l++) {
        const cleave_scan_link *link = &s->run->scan.w->links[s->links[l]];
        convex = link->free[0] == link->free[1];
    }
    return convex;
}

/* The first micro-batches, in between, of which a crossing is not yet there, and not yet read by
   all, where the stretch begins; false where the period does one more of either than of the other.
 */
static bool find_ages(const steady *s, int32_t *made, int32_t *read) {
    const cleave_turns *turns = s->run->of->turns;
    const turns_crossings *crossings = &s->run->crossings;
    int32_t *before = CLEAVE_ARENA_ARRAY(s->run->arena, int32_t, turns->n_blocks);
    int32_t *within = CLEAVE_ARENA_ARRAY(s->run->arena, int32_t, turns->n_blocks);
    bool alike = before != NULL && within != NULL;
    for (int32_t t = 0; t < s->stretch->first && alike; t++)
        before[turns->turns[t].block]++;
    for (int32_t t = 0; t < s->stretch->length && alike; t++)
        within[turns->turns[s->stretch->first + t].block]++;
    for (int32_t c = 0; c < crossings->n && alike; c++)
        made[c] = read[c] = 1 + before[crossings->items[c].maker]; /* the first is not in between */
    for (int32_t b = 0; b < turns->n_blocks && alike; b++)
        for (int32_t i = crossings->first_read[b]; i < crossings->first_read[b + 1]; i++) {
            int32_t c = crossings->read[i];
            read[c] = read[c] < 1 + before[b] ? read[c] : 1 + before[b];
            alike = alike && within[b] == within[crossings->items[c].maker];
        }
    for (int32_t c = 0; c < crossings->n && alike; c++)
        if (within[crossings->items[c].maker] == 0) /* nothing moves it */
            read[c] = made[c];
    return alike;
}

static bool find_live(steady *s) {
    const turns_crossings *crossings = &s->run->crossings;
    int32_t *made = CLEAVE_ARENA_ARRAY(s->run->arena, int32_t, crossings->n);
    int32_t *read = CLEAVE_ARENA_ARRAY(s->run->arena, int32_t, crossings->n);
    int64_t most = 0;
    if (made == NULL || read == NULL || !find_ages(s, made, read))
        return false;
    for (int32_t c = 0; c < crossings->n; c++)
        most += made[c] - read[c];
    s->live = CLEAVE_ARENA_ARRAY(s->run->arena, live, most);
    for (int32_t c = 0; c < crossings->n && s->live != NULL; c++)
        for (int32_t u = read[c]; u < made[c]; u++)
            s->live[s->n_live++] = (live){c, u};
    return s->live != NULL;
}

static bool begin(steady *s) {
    cleave_arena *arena = s->run->arena;
    const cleave_engine_problem *problem = s->run->of->problem;
    size_t n_devices = (size_t)problem->n_queues / 2, n_links = (size_t)problem->n_links;
    bool *device_seen = CLEAVE_ARENA_ARRAY(arena, bool, n_devices);
    bool *link_seen = CLEAVE_ARENA_ARRAY(arena, bool, n_links);
    s->devices = CLEAVE_ARENA_ARRAY(arena, int32_t, n_devices);
    s->links = CLEAVE_ARENA_ARRAY(arena, int32_t, n_links);
    if (device_seen == NULL || link_seen == NULL || s->devices == NULL || s->links == NULL ||
        !find_used(s, device_seen, link_seen) || !find_live(s))
        return false;
    s->n_times = s->n_devices + s->n_links + 2 * s->n_live;
    s->times = CLEAVE_ARENA_ARRAY(arena, int64_t, s->n_times);
    s->by = CLEAVE_ARENA_ARRAY(arena, int64_t, s->n_times);
    s->waits = CLEAVE_ARENA_ARRAY(arena, int64_t, n_devices + n_links);
    s->device_copies = CLEAVE_ARENA_ARRAY(arena, cleave_scan_device, n_devices);
    s->link_copies = CLEAVE_ARENA_ARRAY(arena, cleave_scan_link, n_links);
    s->idle_copies = CLEAVE_ARENA_ARRAY(arena, cleave_scan_idle, n_links);
    s->store_copy =
        CLEAVE_ARENA_ARRAY(arena, int64_t, 2 * (size_t)s->run->crossings.n * (size_t)s->run->ring);
    bool ready = s->times != NULL && s->by != NULL && s->waits != NULL &&
                 s->device_copies != NULL && s->link_copies != NULL && s->idle_copies != NULL &&
                 s->store_copy != NULL;
    for (int h = 0; h < N_HISTORY && ready; h++) {
        s->history[h] = CLEAVE_ARENA_ARRAY(arena, int64_t, s->n_times);
        s->waited[h] = CLEAVE_ARENA_ARRAY(arena, int64_t, n_devices + n_links);
        ready = s->history[h] != NULL && s->waited[h] != NULL;
    }
    return ready;
}

/* ---- times ----------------------------------------------------------------------------------- */

static int64_t *history(const steady *s, int32_t period) { return s->history[period % N_HISTORY]; }
static int64_t *waited(const steady *s, int32_t period) { return s->waited[period % N_HISTORY]; }

/* Before period `at`. */
static void gather(const steady *s, int32_t at, int64_t *times, int64_t *waits) {
    const cleave_scan *scan = &s->run->scan;
    for (int32_t d = 0; d < s->n_devices; d++) {
        *times++ = scan->devices[s->devices[d]].clock[0];
        waits[d] = scan->devices[s->devices[d]].busy_from;
    }
    for (int32_t l = 0; l < s->n_links; l++) {
        *times++ = scan->w->links[s->links[l]].free[0];
        waits[s->n_devices + l] = scan->w->idle != NULL ? scan->w->idle[s->links[l]].until : 0;
    }
    for (int32_t i = 0; i < s->n_live; i++) {
        const int64_t *stored = turns_stored(s->run, s->live[i].crossing,
                                             s->live[i].micro_batch + at * s->stretch->shift);
        *times++ = stored[0];
        *times++ = stored[1];
    }
}

/* As if `n` cycles more had been done than the history has, before period `at`. */
static void scatter(const steady *s, int32_t at, int64_t n) {
    const int64_t *times = history(s, s->done), *by = s->by;
    const cleave_scan *scan = &s->run->scan;
    int32_t next = 0;
    for (int32_t d = 0; d < s->n_devices; d++, next++) {
        cleave_scan_device *device = &scan->devices[s->devices[d]];
        device->clock[0] = device->main_end = times[next] + n * by[next];
    }
    for (int32_t l = 0; l < s->n_links; l++, next++) {
        cleave_scan_link *link = &scan->w->links[s->links[l]];
        link->free[0] = link->free[1] = times[next] + n * by[next];
    }
    for (int32_t i = 0; i < s->n_live; i++, next += 2) {
        int64_t *stored = turns_stored(s->run, s->live[i].crossing,
                                       s->live[i].micro_batch + at * s->stretch->shift);
        stored[0] = times[next] + n * by[next];
        stored[1] = times[next + 1] + n * by[next + 1];
    }
}

/* Everything that a try changes: there, or back. */
static void keep(const steady *s, bool back) {
    const cleave_scan *scan = &s->run->scan;
    size_t n_devices = (size_t)s->run->of->problem->n_queues / 2;
    size_t n_links = (size_t)s->run->of->problem->n_links;
    size_t n_stored = 2 * (size_t)s->run->crossings.n * (size_t)s->run->ring;
#define MOVE(kept, now, n)                                                                         \
    memcpy(back ? (void *)(now) : (void *)(kept),                                                  \
           back ? (const void *)(kept) : (const void *)(now), (n) * sizeof *(now))
    MOVE(s->device_copies, scan->devices, n_devices);
    MOVE(s->link_copies, scan->w->links, n_links);
    MOVE(s->idle_copies, scan->w->idle_room, n_links);
    if (n_stored > 0)
        MOVE(s->store_copy, s->run->store, n_stored);
#undef MOVE
}

static void take_periods(const steady *s, int32_t from, int32_t n) {
    int32_t first = s->stretch->first + from * s->stretch->length;
    for (int32_t t = first; t < first + n * s->stretch->length; t++)
        turns_take(s->run, t);
}

/* ---- leaving periods out --------------------------------------------------------------------- */

/* Have all times moved in the last `cycle` periods as in those before? */
static bool moves_alike(const steady *s, int32_t cycle) {
    const int64_t *x = history(s, s->done - 2 * cycle), *y = history(s, s->done - cycle);
    const int64_t *z = history(s, s->done);
    for (int32_t i = 0; i < s->n_times; i++)
        if (z[i] - y[i] != y[i] - x[i])
            return false;
    return true;
}

/* Goes through a cycle as it would be if `n` were left out before it: how much later than it should
   be the latest is, 0 where the n may be left out; -1 where that is not known. */
static int64_t try_leaving(steady *s, int32_t cycle, int64_t n) {
    const int64_t *now = history(s, s->done);
    int32_t at = s->done + (int32_t)n * cycle;
    int64_t most = 0;
    scatter(s, at, n);
    take_periods(s, at, cycle);
    gather(s, at + cycle, s->times, s->waits);
    for (int32_t i = 0; i < s->n_times; i++)
        most = cleave_later(most, s->times[i] - (now[i] + (n + 1) * s->by[i]));
    for (int32_t w = 0; w < s->n_devices + s->n_links && most == 0; w++) {
        int64_t before = waited(s, s->done - cycle)[w], after = waited(s, s->done)[w];
        if (after != before && s->waits[w] == after)
            return -1;
    }
    return most;
}

/* The largest number, below n, that may do. */
static int64_t fewer(steady *s, int32_t cycle, int64_t n, int64_t late, bool *found) {
    *found = false;
    if (late < 0)
        return n / 2;
    keep(s, true);
    int64_t less = try_leaving(s, cycle, n - 1);
    *found = less == 0;
    if (*found || less < 0 || late <= less)
        return *found ? n - 1 : n / 2;
    return n - 1 - (late - 1) / (late - less);
}

/* Leaves out as many cycles as may be, and goes through the one behind them; false where none may.
 */
static bool leave_out(steady *s, int32_t cycle) {
    int64_t n = (s->stretch->count - s->done) / cycle - 1;
    bool found = false;
    for (int32_t i = 0; i < s->n_times; i++)
        s->by[i] = history(s, s->done)[i] - history(s, s->done - cycle)[i];
    keep(s, false);
    for (int tries = 0; tries < MOST_TRIES && n > 0 && !found; tries++) {
        int64_t late = try_leaving(s, cycle, n);
        found = late == 0;
        if (!found)
            n = fewer(s, cycle, n, late, &found);
        if (!found)
            keep(s, true);
    }
    if (found)
        s->done += (int32_t)n * cycle + cycle;
    return found;
}

/* A try costs some periods: after one in vain the next waits, longer each time. */
cleave_status turns_take_stretch(turns_run *run, const turns_stretch *stretch,
                                 cleave_error *error) {
    steady s = {.run = run, .stretch = stretch};
    int32_t rest = 1, next_try = 0;
    (void)error;
    if (!begin(&s)) {
        take_periods(&s, 0, stretch->count);
        return CLEAVE_OK;
    }
    gather(&s, 0, history(&s, 0), waited(&s, 0));
    while (s.done < stretch->count) {
        bool left = false;
        take_periods(&s, s.done++, 1);
        gather(&s, s.done, history(&s, s.done), waited(&s, s.done));
        for (int32_t c = 1; c <= MOST_CYCLE && 2 * c <= s.done - s.since && s.done >= next_try; c++)
            if ((stretch->count - s.done) / c > 1 && moves_alike(&s, c)) {
                left = leave_out(&s, c);
                next_try = left ? 0 : s.done + rest;
                rest = left ? 1 : 2 * rest;
                break;
            }
        if (left) {
            s.since = s.done;
            gather(&s, s.done, history(&s, s.done), waited(&s, s.done));
        }
    }
    return CLEAVE_OK;
}
