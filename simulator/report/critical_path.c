/* The path is walked from the item that ends last, back to what let each item start: the item
   before it in its lane, or, where it waited, the item that ended the wait.  Each of these stands
   earlier in the global order, so the walk ends.

   What the communication lane took from the main lane is, by events, inside of main items; the scan
   charges some of it between two of them.  Either way the latest items of that lane have it. */
#include "simulator/report/critical_path.h"

#include "base/list.h"
#include "base/order.h"

#include <stdlib.h>
#include <string.h>

/* Lists by subject: those of subject s are items[first[s]] .. items[first[s + 1] - 1], ascending.
 */
typedef struct makers {
    int32_t *first, *items;
} makers;

typedef struct walk {
    const cleave_engine_problem *problem;
    const cleave_turned *turned;
    const cleave_timeline *timeline; /* by number */
    int32_t *previous;               /* [n_items] in its lane and block; -1: the first */
    int32_t *last;                   /* [n_blocks][n_queues] of each lane in a block; -1: none */
    makers posts, joins;             /* of messages, of collectives */
    int32_t *lane_first, *lane;      /* [n_queues / 2 + 1]; numbers of the items of each device's
                                        communication lane, ascending */
    CLEAVE_LIST(cleave_critical_segment) segments;
} walk;

static const cleave_turned_item none = {.number = -1, .turn = -1, .item = -1};

/* ---- what stands where ----------------------------------------------------------------------- */

static bool list_makers(const cleave_priced_fragment *step, cleave_priced_kind kind, int32_t n,
                        cleave_arena *scratch, makers *list) {
    list->first = CLEAVE_ARENA_ARRAY(scratch, int32_t, (size_t)n + 2);
    if (list->first == NULL)
        return false;
    /* Counts two places on, so that filling in leaves the firsts in their own places. */
    for (int32_t i = 0; i < step->n_items; i++)
        if (step->kind[i] == kind)
            list->first[step->subject[i] + 2]++;
    for (int32_t s = 0; s < n; s++)
        list->first[s + 2] += list->first[s + 1];
    list->items = CLEAVE_ARENA_ARRAY(scratch, int32_t, list->first[n + 1]);
    for (int32_t i = 0; i < step->n_items && list->items != NULL; i++)
        if (step->kind[i] == kind)
            list->items[list->first[step->subject[i] + 1]++] = i;
    return list->items != NULL;
}

static void find_previous(const walk *w) {
    const cleave_turned *turned = w->turned;
    const int32_t *queue = w->problem->step.queue;
    for (int32_t b = 0; b < turned->n_blocks; b++) {
        int32_t *last = &w->last[(size_t)b * (size_t)w->problem->n_queues];
        for (int32_t i = turned->first_item[b]; i < turned->first_item[b + 1]; i++) {
            w->previous[i] = last[queue[i]];
            last[queue[i]] = i;
        }
    }
}

static bool communicates(const walk *w, int32_t item) {
    return w->problem->step.queue[item] % 2 == CLEAVE_LANE_COMMUNICATION;
}

static void count_lanes(walk *w) {
    const cleave_turned *turned = w->turned;
    for (int32_t b = 0; b < turned->n_blocks; b++)
        for (int32_t i = turned->first_item[b]; i < turned->first_item[b + 1]; i++)
            if (communicates(w, i))
                w->lane_first[w->problem->step.queue[i] / 2 + 2] += cleave_turned_times(turned, b);
    for (int32_t d = 0; d < w->problem->n_queues / 2; d++)
        w->lane_first[d + 2] += w->lane_first[d + 1];
}

/* Most blocks have nothing of those lanes. */
static bool list_lanes(walk *w, cleave_arena *scratch) {
    const cleave_turned *turned = w->turned;
    int32_t n_devices = w->problem->n_queues / 2;
    bool *has = CLEAVE_ARENA_ARRAY(scratch, bool, turned->n_blocks);
    w->lane_first = CLEAVE_ARENA_ARRAY(scratch, int32_t, (size_t)n_devices + 2);
    if (has == NULL || w->lane_first == NULL)
        return false;
    count_lanes(w);
    w->lane = CLEAVE_ARENA_ARRAY(scratch, int32_t, w->lane_first[n_devices + 1]);
    if (w->lane == NULL)
        return false;
    for (int32_t b = 0; b < turned->n_blocks; b++)
        for (int32_t i = turned->first_item[b]; i < turned->first_item[b + 1] && !has[b]; i++)
            has[b] = communicates(w, i);
    for (int32_t t = 0; t < turned->n_turns; t++) {
        int32_t b = turned->turns[t].block, first = turned->first_item[b];
        for (int32_t i = first; i < turned->first_item[b + 1] && has[b]; i++)
            if (communicates(w, i))
                w->lane[w->lane_first[w->problem->step.queue[i] / 2 + 1]++] =
                    turned->begin[t] + i - first;
    }
    return true;
}

static cleave_status prepare(walk *w, cleave_arena *scratch, cleave_error *error) {
    const cleave_engine_problem *problem = w->problem;
    size_t n_last = (size_t)w->turned->n_blocks * (size_t)problem->n_queues;
    w->previous = CLEAVE_ARENA_ARRAY(scratch, int32_t, problem->step.n_items);
    w->last = CLEAVE_ARENA_ARRAY(scratch, int32_t, n_last);
    if (w->previous == NULL || w->last == NULL ||
        !list_makers(&problem->step, CLEAVE_PRICED_POST, problem->step.n_messages, scratch,
                     &w->posts) ||
        !list_makers(&problem->step, CLEAVE_PRICED_JOIN, problem->step.n_collectives, scratch,
                     &w->joins) ||
        !list_lanes(w, scratch))
        return cleave_fail_memory(error, "walking the critical path");
    memset(w->last, -1, n_last * sizeof *w->last);
    find_previous(w);
    return CLEAVE_OK;
}

/* The last item of a lane in the turns before one. */
static cleave_turned_item last_before(const walk *w, int32_t turn, int32_t queue) {
    const cleave_turned *turned = w->turned;
    for (int32_t t = turn - 1; t >= 0; t--) {
        int32_t b = turned->turns[t].block;
        int32_t item = w->last[(size_t)b * (size_t)w->problem->n_queues + (size_t)queue];
        if (item >= 0)
            return (cleave_turned_item){
                .number = turned->begin[t] + item - turned->first_item[b], .turn = t, .item = item};
    }
    return none;
}

static cleave_turned_item previous_of(const walk *w, cleave_turned_item of) {
    int32_t before = w->previous[of.item];
    return before < 0 ? last_before(w, of.turn, w->problem->step.queue[of.item])
                      : (cleave_turned_item){.number = of.number - (of.item - before),
                                             .turn = of.turn,
                                             .item = before};
}

/* The one of a subject's makers that ended last; of several the first. */
static cleave_turned_item latest_of(const walk *w, const makers *list, int32_t subject,
                                    int32_t turn) {
    cleave_turned_item kept = none;
    for (int32_t i = list->first[subject]; i < list->first[subject + 1]; i++) {
        cleave_turned_item maker = cleave_turned_refers_to(w->turned, turn, list->items[i]);
        if (kept.number < 0 || w->timeline->end[maker.number] > w->timeline->end[kept.number])
            kept = maker;
    }
    return kept;
}

/* What ended a wait that took time. */
static cleave_turned_item waited_for(const walk *w, cleave_turned_item of) {
    int32_t subject = w->problem->step.subject[of.item];
    switch ((cleave_priced_kind)w->problem->step.kind[of.item]) {
    case CLEAVE_PRICED_WAIT_ARRIVAL:
    case CLEAVE_PRICED_WAIT_RELEASE:
        return latest_of(w, &w->posts, subject, of.turn);
    case CLEAVE_PRICED_AWAIT:
        return latest_of(w, &w->joins, subject, of.turn);
    default: /* SYNC */
        return cleave_turned_refers_to(w->turned, of.turn, subject);
    }
}

/* ---- the walk -------------------------------------------------------------------------------- */

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

static bool push(walk *w, int32_t item, int64_t picoseconds) {
    cleave_critical_segment segment = {item, picoseconds};
    return picoseconds <= 0 || CLEAVE_LIST_PUSH(&w->segments, segment);
}

/* The items of the communication lane that took `charged` from the main item until `until`: the
   last ones that began before it.  By events they are those that overlap it.  The scan may charge
   more than that: the rest stands as the main item's own. */
static bool push_interruptions(walk *w, int32_t item, int64_t until, int64_t charged) {
    const int64_t *start = w->timeline->start, *end = w->timeline->end;
    int32_t device = w->problem->step.queue[item] / 2;
    int32_t first = w->lane_first[device], later = first;
    CLEAVE_BISECT(later, w->lane_first[device + 1], middle, start[w->lane[middle]] < until);
    for (int32_t q = later - 1; q >= first && charged > 0; q--) {
        int32_t number = w->lane[q], other = cleave_turned_at(w->turned, number).item;
        int64_t took = earlier(end[number], until) - start[number];
        if (w->problem->step.duration[other] == 0)
            continue;
        took = earlier(took, charged);
        charged -= took;
        if (!push(w, other, took))
            return false;
    }
    return push(w, item, charged);
}

static bool walk_back(walk *w, cleave_turned_item at) {
    const int64_t *start = w->timeline->start, *end = w->timeline->end;
    while (at.number >= 0) {
        int32_t item = at.item;
        int64_t taken = end[at.number] - start[at.number], work = w->problem->step.duration[item];
        if (cleave_priced_waits(w->problem->step.kind[item]) && taken > 0) {
            cleave_turned_item cause = waited_for(w, at);
            if (!push(w, item, end[at.number] - end[cause.number]))
                return false;
            at = cause;
            continue;
        }
        cleave_turned_item before = previous_of(w, at);
        int64_t idle = start[at.number] - (before.number >= 0 ? end[before.number] : 0);
        if (!push(w, item, work) || !push_interruptions(w, item, end[at.number], taken - work) ||
            !push_interruptions(w, item, start[at.number], idle))
            return false;
        at = before;
    }
    return true;
}

/* When the scan has charged a device's main lane with all that it does (scan_rule.h): later than
   its last item ends where items of the other lane come after that one in the global order. */
static int64_t end_of_main(const walk *w, int32_t device, cleave_turned_item last) {
    const cleave_engine_problem *problem = w->problem;
    const int64_t *start = w->timeline->start, *end = w->timeline->end;
    int64_t busy_from = 0, clock = end[last.number];
    for (cleave_turned_item i = last; i.number >= 0 && busy_from == 0; i = previous_of(w, i))
        if (cleave_priced_waits(problem->step.kind[i.item]) && end[i.number] > start[i.number])
            busy_from = end[i.number];
    for (int32_t q = w->lane_first[device]; q < w->lane_first[device + 1]; q++) {
        int32_t number = w->lane[q], other = cleave_turned_at(w->turned, number).item;
        int64_t from = start[number] > busy_from ? start[number] : busy_from;
        if (number > last.number && start[number] < clock && end[number] > from &&
            problem->step.duration[other] > 0)
            clock += end[number] - from;
    }
    return clock;
}

/* The item that the path starts from; what was charged after it is on the path already. */
static bool begin(walk *w, cleave_turned_item *last) {
    const int64_t *end = w->timeline->end;
    int64_t step = w->timeline->step;
    int32_t latest = -1;
    for (int32_t i = 0; i < w->turned->n_items; i++)
        if (latest < 0 || end[i] > end[latest])
            latest = i;
    *last = latest >= 0 ? cleave_turned_at(w->turned, latest) : none;
    if (latest < 0 || end[latest] == step)
        return true;
    for (int32_t d = 0; d < w->problem->n_queues / 2; d++) {
        cleave_turned_item of_main = last_before(w, w->turned->n_turns, 2 * d);
        if (of_main.number >= 0 && end_of_main(w, d, of_main) == step) {
            *last = of_main;
            break;
        }
    }
    return push_interruptions(w, last->item, step, step - end[last->number]);
}

cleave_status cleave_critical_path_find(const cleave_engine_problem *problem,
                                        const cleave_turned *turned,
                                        const cleave_timeline *timeline, cleave_arena *arena,
                                        cleave_critical_path *path, cleave_error *error) {
    walk w = {.problem = problem, .turned = turned, .timeline = timeline};
    cleave_arena scratch = {0};
    cleave_status status = prepare(&w, &scratch, error);
    cleave_turned_item last;
    if (status == CLEAVE_OK) {
        bool fits = begin(&w, &last) && walk_back(&w, last);
        cleave_critical_segment *segments =
            fits ? CLEAVE_ARENA_ARRAY(arena, cleave_critical_segment, w.segments.n) : NULL;
        if (segments == NULL) {
            status = cleave_fail_memory(error, "walking the critical path");
        } else {
            if (w.segments.n > 0)
                memcpy(segments, w.segments.items, (size_t)w.segments.n * sizeof *segments);
            *path = (cleave_critical_path){w.segments.n, segments};
        }
    }
    CLEAVE_LIST_FREE(&w.segments);
    cleave_arena_free(&scratch);
    return status;
}
