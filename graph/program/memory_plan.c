/* Best fit over the free ranges, in the order in which buffers come to life: quick, and often no
   larger than what lives at once, which no plan can be below.  What the communication lane alone
   uses would add up there until the main lane waits for it, so it is also tried in pools; and where
   much is lost still, the device is planned again by size.  The smallest plan counts. */
#include "graph/program/memory_plan.h"

#include "base/checked.h"
#include "graph/program/free_ranges.h"
#include "graph/program/memory_by_size.h"
#include "graph/program/memory_events.h"

#include <stdlib.h>

/* What the communication lane alone uses, as long as there is some all the time, lies in a pool:
   one piece of memory, with places by the order of the lane. */
typedef struct pool {
    int64_t bytes, offset;
    int32_t n_left; /* lives that have not ended */
} pool;

typedef struct planner {
    const cleave_lives *lives;
    int64_t *offset;  /* [lives] */
    int64_t *unasked; /* the same where nobody asks for them; else null */
    cleave_free_ranges free;
    int64_t most;    /* bytes that live at once, as the smallest plan counts them */
    int64_t top;     /* of the smallest plan so far */
    int64_t enough;  /* a plan that is no larger will do; -1: the smallest is wanted */
    bool only_fits;  /* and one that is larger will not, however small */
    int64_t *pooled; /* [lives] offsets with pools; within theirs, at first */
    pool *pools;     /* [lives] */
    int32_t *pool_of;
    /* [lives], to plan by size: */
    cleave_span *spans;
    int32_t *span_of, *lists; /* [CLEAVE_LISTED_OF_SPAN * lives] */
} planner;

/* Devices with more lives are not planned again: it takes the square of their number.  A little
   that is lost is left. */
enum { MOST_PLANNED_AGAIN = 8192, LOSS_THAT_COUNTS = 32 /* of what lives: the 32nd part */ };

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- by time --------------------------------------------------------------------------------- */

static void plan_by_time(planner *plan, cleave_event_list events) {
    int64_t live = 0;
    plan->most = 0;
    cleave_free_ranges_clear(&plan->free);
    for (int32_t e = 0; e < events.n; e++) {
        const cleave_life_event *of = &events.items[e];
        if (of->bytes == 0)
            continue;
        if (cleave_event_begins(of))
            plan->offset[of->life] = cleave_free_ranges_take(&plan->free, of->bytes);
        else
            cleave_free_ranges_give(&plan->free, plan->offset[cleave_event_life(of)], of->bytes);
        live += cleave_event_begins(of) ? of->bytes : -of->bytes;
        plan->most = larger(plan->most, live);
    }
    plan->top = plan->free.top;
}

/* ---- with pools ------------------------------------------------------------------------------ */

/* Which pool each life of the lane is in. */
static void find_pools(planner *plan, cleave_event_list events) {
    int32_t n_pools = 0, n_open = 0;
    for (int32_t e = 0; e < events.n; e++) {
        const cleave_life_event *of = &events.items[e];
        int32_t life = cleave_event_life(of);
        if (!plan->lives->items[life].lane_only)
            continue;
        if (!cleave_event_begins(of)) {
            n_open--;
            continue;
        }
        if (n_open++ == 0)
            plan->pools[n_pools++] = (pool){.offset = -1};
        plan->pool_of[life] = n_pools - 1;
        plan->pools[n_pools - 1].n_left++;
    }
}

/* The lives of one pool come before those of the next in the lane, too. */
static void fill_pools(planner *plan, cleave_event_list lane) {
    int32_t now = -1;
    for (int32_t e = 0; e < lane.n; e++) {
        const cleave_life_event *of = &lane.items[e];
        int32_t life = cleave_event_life(of);
        if (plan->pool_of[life] != now)
            cleave_free_ranges_clear(&plan->free);
        now = plan->pool_of[life];
        if (of->bytes == 0)
            continue;
        if (cleave_event_begins(of))
            plan->pooled[life] = cleave_free_ranges_take(&plan->free, of->bytes);
        else
            cleave_free_ranges_give(&plan->free, plan->pooled[life], of->bytes);
        plan->pools[now].bytes = larger(plan->pools[now].bytes, plan->free.top);
    }
}

/* Memory of a pool is taken with its first life and given back with its last; returns by how much
   more lives. */
static int64_t go_on_in_pool(planner *plan, const cleave_life_event *of) {
    pool *in = &plan->pools[plan->pool_of[cleave_event_life(of)]];
    if (!cleave_event_begins(of)) {
        if (--in->n_left > 0 || in->bytes == 0)
            return 0;
        cleave_free_ranges_give(&plan->free, in->offset, in->bytes);
        return -in->bytes;
    }
    int64_t more = in->offset < 0 ? in->bytes : 0;
    if (in->offset < 0)
        in->offset = in->bytes > 0 ? cleave_free_ranges_take(&plan->free, in->bytes) : 0;
    plan->pooled[of->life] += in->offset;
    return more;
}

static int64_t go_on(planner *plan, const cleave_life_event *of) {
    if (plan->lives->items[cleave_event_life(of)].lane_only)
        return go_on_in_pool(plan, of);
    if (of->bytes == 0)
        return 0;
    if (cleave_event_begins(of))
        plan->pooled[of->life] = cleave_free_ranges_take(&plan->free, of->bytes);
    else
        cleave_free_ranges_give(&plan->free, plan->pooled[cleave_event_life(of)], of->bytes);
    return cleave_event_begins(of) ? of->bytes : -of->bytes;
}

/* Takes the place of the plan by time if it is smaller. */
static void plan_with_pools(planner *plan, cleave_event_list events, cleave_event_list lane) {
    int64_t live = 0, most = 0;
    for (int32_t e = 0; e < lane.n; e++)
        plan->pooled[cleave_event_life(&lane.items[e])] = 0;
    find_pools(plan, events);
    fill_pools(plan, lane);
    cleave_free_ranges_clear(&plan->free);
    for (int32_t e = 0; e < events.n; e++) {
        live += go_on(plan, &events.items[e]);
        most = larger(most, live);
    }
    plan->most = smaller(plan->most, most);
    if (plan->free.top >= plan->top)
        return;
    plan->top = plan->free.top;
    for (int32_t e = 0; e < events.n; e++)
        if (cleave_event_begins(&events.items[e]) && events.items[e].bytes > 0)
            plan->offset[events.items[e].life] = plan->pooled[events.items[e].life];
}

/* ---- by size --------------------------------------------------------------------------------- */

/* The lives of a device from event to event; returns their number. */
static int32_t list_spans(planner *plan, cleave_event_list events) {
    int32_t n = 0;
    for (int32_t e = 0; e < events.n; e++) {
        const cleave_life_event *of = &events.items[e];
        if (of->bytes == 0)
            continue;
        if (!cleave_event_begins(of)) {
            plan->spans[plan->span_of[cleave_event_life(of)]].end = e;
            continue;
        }
        const cleave_life *life = &plan->lives->items[of->life];
        plan->spans[n] = (cleave_span){.bytes = of->bytes,
                                       .life = of->life,
                                       .begin = e,
                                       .end = events.n,
                                       .lane_begin = life->lane_first,
                                       .lane_end = life->lane_last,
                                       .lane_only = life->lane_only};
        plan->span_of[of->life] = n++;
    }
    return n;
}

/* Takes the place of the plans before it if it is smaller. */
static void plan_by_size(planner *plan, cleave_event_list events) {
    int32_t n = list_spans(plan, events);
    int64_t limit = plan->only_fits ? plan->enough + 1 : plan->top, top;
    if (!cleave_place_by_size(plan->spans, n, limit, plan->lists, &top))
        return;
    for (int32_t i = 0; i < n; i++)
        plan->offset[plan->spans[i].life] = plan->spans[i].offset;
    plan->top = top;
}

/* The events of one device in order; of the lane, by its order. */
static void plan_device(planner *plan, cleave_event_list events, cleave_event_list lane) {
    plan_by_time(plan, events);
    if (lane.n > 0 && plan->top > plan->enough)
        plan_with_pools(plan, events, lane);
    if (plan->top > plan->enough && plan->top - plan->most > plan->most / LOSS_THAT_COUNTS &&
        events.n <= 2 * MOST_PLANNED_AGAIN)
        plan_by_size(plan, events);
}

/* ---- all devices ----------------------------------------------------------------------------- */

/* Both orders of the lives; of the lane's, where it has some of its own. */
typedef struct ordered {
    cleave_life_events main, lane;
    bool has_lane;
} ordered;

static cleave_event_list lane_of(const ordered *by, int32_t d) {
    return by->has_lane ? cleave_life_events_of(&by->lane, d) : (cleave_event_list){NULL, 0};
}

static bool same_events(const ordered *by, cleave_event_list x, cleave_event_list y) {
    if (x.n != y.n)
        return false;
    for (int32_t e = 0; e < x.n; e++)
        if (cleave_event_begins(&x.items[e]) != cleave_event_begins(&y.items[e]) ||
            x.items[e].bytes != y.items[e].bytes ||
            by->main.begin[cleave_event_life(&x.items[e])] !=
                by->main.begin[cleave_event_life(&y.items[e])])
            return false;
    return true;
}

/* Devices mostly do the same: is this one like the one before it, event by event? */
static bool is_as_before(const ordered *by, int32_t d) {
    return d > 0 &&
           same_events(by, cleave_life_events_of(&by->main, d),
                       cleave_life_events_of(&by->main, d - 1)) &&
           same_events(by, lane_of(by, d), lane_of(by, d - 1));
}

/* A device that is as the one before it has everything in the same places. */
static void copy_offsets(cleave_event_list to, cleave_event_list from, int64_t *offset) {
    for (int32_t e = 0; e < to.n; e++)
        if (cleave_event_begins(&to.items[e]))
            offset[to.items[e].life] = offset[from.items[e].life];
}

static bool order(const cleave_lives *lives, ordered *by) {
    *by = (ordered){.has_lane = false};
    for (int32_t l = 0; l < lives->n && !by->has_lane; l++)
        by->has_lane = lives->items[l].lane_only;
    return cleave_life_events_create(lives, CLEAVE_LIVES_BY_MAIN_LANE, &by->main) &&
           (!by->has_lane || cleave_life_events_create(lives, CLEAVE_LIVES_BY_LANE, &by->lane));
}

static cleave_status check_total(const cleave_lives *lives, cleave_error *error) {
    int64_t total = 0;
    for (int32_t l = 0; l < lives->n; l++)
        if (!cleave_int64_add(total, cleave_buffer_aligned(lives->items[l].bytes), &total))
            return cleave_fail(error, CLEAVE_FAILED,
                               "the program needs more than 2^63 bytes of memory");
    return lives->n <= INT32_MAX / 2
               ? CLEAVE_OK
               : cleave_fail(error, CLEAVE_FAILED, "the program has more than 2^30 buffers");
}

static void free_planning(planner *plan) {
    cleave_free_ranges_free(&plan->free);
    free(plan->unasked);
    free(plan->pooled);
    free(plan->pools);
    free(plan->pool_of);
    free(plan->spans);
    free(plan->span_of);
    free(plan->lists);
}

static bool begin_planning(const cleave_lives *lives, int64_t *offset, planner *plan) {
    size_t n = (size_t)lives->n + 1;
    *plan = (planner){.lives = lives,
                      .offset = offset,
                      .enough = -1,
                      .pooled = malloc(n * sizeof *plan->pooled),
                      .pools = malloc(n * sizeof *plan->pools),
                      .pool_of = malloc(n * sizeof *plan->pool_of),
                      .spans = malloc(n * sizeof *plan->spans),
                      .span_of = malloc(n * sizeof *plan->span_of),
                      .lists = malloc(n * CLEAVE_LISTED_OF_SPAN * sizeof *plan->lists)};
    return cleave_free_ranges_create(&plan->free, lives->n) && plan->pooled != NULL &&
           plan->pools != NULL && plan->pool_of != NULL && plan->spans != NULL &&
           plan->span_of != NULL && plan->lists != NULL;
}

/* `offset` null: nobody asks for the places. */
static bool begin(const cleave_lives *lives, int64_t *offset, ordered *by, planner *plan) {
    bool orders = order(lives, by), plans = begin_planning(lives, offset, plan);
    if (offset == NULL)
        plan->offset = plan->unasked = malloc(((size_t)lives->n + 1) * sizeof *plan->offset);
    return orders && plans && plan->offset != NULL;
}

static cleave_status end(bool ready, ordered *by, planner *plan, cleave_error *error) {
    cleave_life_events_free(&by->main);
    cleave_life_events_free(&by->lane);
    free_planning(plan);
    return ready ? CLEAVE_OK : cleave_fail_memory(error, "planning memory");
}

/* Devices that are alike need the same, but of one that has to do with less than the one before it
   more ways may have to be tried. */
static void plan_next(planner *plan, const ordered *by, int32_t d) {
    cleave_event_list events = cleave_life_events_of(&by->main, d);
    if (!is_as_before(by, d) || (plan->top > plan->enough && plan->enough >= 0))
        plan_device(plan, events, lane_of(by, d));
    else
        copy_offsets(events, cleave_life_events_of(&by->main, d - 1), plan->offset);
}

cleave_status cleave_memory_plan_lives(const cleave_lives *lives, const int64_t *enough,
                                       int64_t *offset, int64_t *peak_bytes, cleave_error *error) {
    CLEAVE_TRY(check_total(lives, error));
    ordered by;
    planner plan;
    bool ready = begin(lives, offset, &by, &plan);
    for (int32_t d = 0; d < lives->n_devices && ready; d++) {
        plan.enough = enough != NULL ? enough[d] : -1;
        plan_next(&plan, &by, d);
        peak_bytes[d] = plan.top;
    }
    return end(ready, &by, &plan, error);
}

/* ---- sizes alone ----------------------------------------------------------------------------- */

static void put(cleave_planned_device *digest, uint64_t value) {
    digest->a = (digest->a ^ value) * UINT64_C(0x9ddfea08eb382d69);
    digest->a ^= digest->a >> 32;
    digest->b = (digest->b + value) * UINT64_C(0xbf58476d1ce4e5b9);
    digest->b ^= digest->b >> 29;
}

/* What same_events compares. */
static void put_events(cleave_planned_device *digest, const ordered *by, cleave_event_list of) {
    put(digest, (uint64_t)of.n);
    for (int32_t e = 0; e < of.n; e++) {
        put(digest, (uint64_t)of.items[e].bytes);
        put(digest, (uint64_t)by->main.begin[cleave_event_life(&of.items[e])] << 1 |
                        (uint64_t)cleave_event_begins(&of.items[e]));
    }
}

/* Among those that are known; null: it is not, or only that it needs no more than a size that is
   more than enough. */
static const cleave_planned_device *find_planned(const cleave_planned_devices *known,
                                                 const cleave_planned_device *of, int64_t enough) {
    for (int32_t i = 0; i < known->n; i++) {
        const cleave_planned_device *at = &known->items[i];
        if (at->a == of->a && at->b == of->b && (at->is_least || at->bytes <= enough))
            return at;
    }
    return NULL;
}

static bool plan_size(planner *plan, const ordered *by, int32_t d, int64_t enough,
                      cleave_planned_devices *known, int64_t *bytes) {
    cleave_event_list events = cleave_life_events_of(&by->main, d), lane = lane_of(by, d);
    cleave_planned_device of = {.a = 1, .b = 1};
    put_events(&of, by, events);
    put_events(&of, by, lane);
    const cleave_planned_device *found = find_planned(known, &of, enough);
    if (found != NULL) {
        *bytes = found->bytes;
        return true;
    }
    plan->enough = enough;
    plan_device(plan, events, lane);
    of.bytes = *bytes = plan->top;
    of.is_least = plan->top > enough;
    return CLEAVE_LIST_PUSH(known, of);
}

cleave_status cleave_memory_plan_sizes(const cleave_lives *lives, const int64_t *enough,
                                       cleave_planned_devices *known, int64_t *peak_bytes,
                                       cleave_error *error) {
    CLEAVE_TRY(check_total(lives, error));
    ordered by;
    planner plan;
    bool ready = begin(lives, NULL, &by, &plan);
    for (int32_t d = 0; d < lives->n_devices && ready; d++)
        ready = plan_size(&plan, &by, d, enough[d], known, &peak_bytes[d]);
    return end(ready, &by, &plan, error);
}

/* ---- does it fit? ---------------------------------------------------------------------------- */

static bool all_fit(planner *plan, const ordered *by, const int64_t *room) {
    bool fit = true;
    for (int32_t d = 0; d < plan->lives->n_devices && fit; d++) {
        plan->enough = room[d];
        plan->only_fits = true;
        fit = room[d] >= 0;
        if (fit)
            plan_next(plan, by, d);
        fit = fit && plan->top <= room[d];
    }
    return fit;
}

cleave_status cleave_memory_lives_fit(const cleave_lives *lives, const int64_t *room, bool *fit,
                                      cleave_error *error) {
    CLEAVE_TRY(check_total(lives, error));
    ordered by;
    planner plan;
    bool ready = begin(lives, NULL, &by, &plan);
    if (ready)
        *fit = all_fit(&plan, &by, room);
    return end(ready, &by, &plan, error);
}

cleave_status cleave_memory_plan(cleave_program *program, const int64_t *enough,
                                 cleave_arena *arena, cleave_error *error) {
    int32_t n = program->n_buffers;
    cleave_life *items = malloc(((size_t)n + 1) * sizeof *items);
    int64_t *offset = calloc((size_t)n + 1, sizeof *offset);
    int32_t *life_of = malloc(((size_t)n + 1) * sizeof *life_of); /* of what lies in itself */
    cleave_lives lives = {.n_devices = program->n_devices, .n_items = program->n_items};
    lives.items = items;
    program->peak_bytes = CLEAVE_ARENA_ARRAY(arena, int64_t, program->n_devices);
    bool ready = items != NULL && offset != NULL && life_of != NULL && program->peak_bytes != NULL;
    for (int32_t b = 0; b < n && ready; b++) {
        const cleave_buffer *of = &program->buffers[b];
        life_of[b] = lives.n;
        if (of->storage == b)
            items[lives.n++] = cleave_buffer_life(of);
    }
    cleave_status status =
        ready ? cleave_memory_plan_lives(&lives, enough, offset, program->peak_bytes, error)
              : cleave_fail_memory(error, "planning memory");
    for (int32_t b = 0; b < n && status == CLEAVE_OK; b++)
        program->buffers[b].offset = offset[life_of[program->buffers[b].storage]];
    free(life_of);
    free(items);
    free(offset);
    return status;
}
