/* The path is walked from the item that ends last, back to what let each item start: the item
   before it in its lane, or, where it waited, the item that ended the wait.  Each of these stands
   earlier in the global order, so the walk ends.

   What the communication lane took from the main lane is, by events, inside of main items; the scan
   charges some of it between two of them.  Either way the latest items of that lane have it. */
#include "simulator/report/critical_path.h"

#include "base/list.h"

#include <stdlib.h>
#include <string.h>

typedef struct walk {
    const cleave_engine_problem *problem;
    const cleave_timeline *timeline;
    int32_t *previous;  /* [n_items] in its lane; -1: the first */
    int32_t *last_post; /* [n_messages] the item that made the message ready */
    int32_t *last_join; /* [n_collectives] */
    CLEAVE_LIST(cleave_critical_segment) segments;
} walk;

static void keep_later(const walk *w, int32_t *kept, int32_t item) {
    if (*kept < 0 || w->timeline->end[item] > w->timeline->end[*kept])
        *kept = item;
}

static cleave_status prepare(walk *w, cleave_arena *scratch, cleave_error *error) {
    const cleave_engine_problem *problem = w->problem;
    w->previous = CLEAVE_ARENA_ARRAY(scratch, int32_t, problem->step.n_items);
    w->last_post = CLEAVE_ARENA_ARRAY(scratch, int32_t, problem->step.n_messages);
    w->last_join = CLEAVE_ARENA_ARRAY(scratch, int32_t, problem->step.n_collectives);
    int32_t *last = CLEAVE_ARENA_ARRAY(scratch, int32_t, problem->n_queues);
    if (w->previous == NULL || w->last_post == NULL || w->last_join == NULL || last == NULL)
        return cleave_fail_memory(error, "walking the critical path");
    memset(w->last_post, -1, (size_t)problem->step.n_messages * sizeof *w->last_post);
    memset(w->last_join, -1, (size_t)problem->step.n_collectives * sizeof *w->last_join);
    memset(last, -1, (size_t)problem->n_queues * sizeof *last);
    for (int32_t i = 0; i < problem->step.n_items; i++) {
        w->previous[i] = last[problem->step.queue[i]];
        last[problem->step.queue[i]] = i;
        if (problem->step.kind[i] == CLEAVE_PRICED_POST)
            keep_later(w, &w->last_post[problem->step.subject[i]], i);
        else if (problem->step.kind[i] == CLEAVE_PRICED_JOIN)
            keep_later(w, &w->last_join[problem->step.subject[i]], i);
    }
    return CLEAVE_OK;
}

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

static bool push(walk *w, int32_t item, int64_t picoseconds) {
    cleave_critical_segment segment = {item, picoseconds};
    return picoseconds <= 0 || CLEAVE_LIST_PUSH(&w->segments, segment);
}

/* The items of the communication lane that took `charged` from the main item until `until`: the
   last ones that began before it.  By events they are those that overlap it.  The scan may charge
   more than that: the rest stands as the main item's own. */
static bool push_interruptions(walk *w, int32_t item, int64_t until, int64_t charged) {
    const cleave_engine_problem *problem = w->problem;
    const int64_t *start = w->timeline->start, *end = w->timeline->end;
    int32_t lane = problem->step.queue[item] | 1;
    int32_t first = problem->queue_start[lane], low = first, high = problem->queue_start[lane + 1];
    while (low < high) { /* the first that starts no earlier */
        int32_t middle = low + (high - low) / 2;
        if (start[problem->queue_items[middle].item] < until)
            low = middle + 1;
        else
            high = middle;
    }
    for (int32_t q = low - 1; q >= first && charged > 0; q--) {
        int32_t other = problem->queue_items[q].item;
        int64_t took = earlier(end[other], until) - start[other];
        if (problem->step.duration[other] == 0)
            continue;
        took = earlier(took, charged);
        charged -= took;
        if (!push(w, other, took))
            return false;
    }
    return push(w, item, charged);
}

/* What ended a wait that took time. */
static int32_t waited_for(const walk *w, int32_t item) {
    int32_t subject = w->problem->step.subject[item];
    switch ((cleave_priced_kind)w->problem->step.kind[item]) {
    case CLEAVE_PRICED_WAIT_ARRIVAL:
    case CLEAVE_PRICED_WAIT_RELEASE:
        return w->last_post[subject];
    case CLEAVE_PRICED_AWAIT:
        return w->last_join[subject];
    default:
        return subject; /* SYNC */
    }
}

static bool walk_back(walk *w, int32_t item) {
    const cleave_timeline *t = w->timeline;
    while (item >= 0) {
        int64_t taken = t->end[item] - t->start[item], work = w->problem->step.duration[item];
        if (cleave_priced_waits(w->problem->step.kind[item]) && taken > 0) {
            int32_t cause = waited_for(w, item);
            if (!push(w, item, t->end[item] - t->end[cause]))
                return false;
            item = cause;
            continue;
        }
        int32_t before = w->previous[item];
        int64_t idle = t->start[item] - (before >= 0 ? t->end[before] : 0);
        if (!push(w, item, work) || !push_interruptions(w, item, t->end[item], taken - work) ||
            !push_interruptions(w, item, t->start[item], idle))
            return false;
        item = before;
    }
    return true;
}

/* When the scan has charged a device's main lane with all that it does (scan_rule.h): later than
   its last item ends where items of the other lane come after that one in the global order. */
static int64_t end_of_main(const walk *w, int32_t device, int32_t last) {
    const cleave_engine_problem *problem = w->problem;
    const int64_t *start = w->timeline->start, *end = w->timeline->end;
    int64_t busy_from = 0, clock = end[last];
    int32_t q = problem->queue_start[2 * device + 1], stop = problem->queue_start[2 * device + 2];
    for (int32_t i = last; i >= 0 && busy_from == 0; i = w->previous[i])
        if (cleave_priced_waits(problem->step.kind[i]) && end[i] > start[i])
            busy_from = end[i];
    for (; q < stop; q++) {
        int32_t other = problem->queue_items[q].item;
        int64_t from = start[other] > busy_from ? start[other] : busy_from;
        if (other > last && start[other] < clock && end[other] > from &&
            problem->step.duration[other] > 0)
            clock += end[other] - from;
    }
    return clock;
}

/* The item that the path starts from; what was charged after it is on the path already. */
static bool begin(walk *w, int32_t *last) {
    const cleave_engine_problem *problem = w->problem;
    int64_t step = w->timeline->step;
    *last = -1;
    for (int32_t i = 0; i < problem->step.n_items; i++)
        keep_later(w, last, i);
    if (*last < 0 || w->timeline->end[*last] == step)
        return true;
    for (int32_t d = 0; d < problem->n_queues / 2; d++) {
        int32_t end = problem->queue_start[2 * d + 1];
        if (end == problem->queue_start[2 * d])
            continue;
        int32_t item = problem->queue_items[end - 1].item;
        if (end_of_main(w, d, item) == step) {
            *last = item;
            break;
        }
    }
    return push_interruptions(w, *last, step, step - w->timeline->end[*last]);
}

cleave_status cleave_critical_path_find(const cleave_engine_problem *problem,
                                        const cleave_timeline *timeline, cleave_arena *arena,
                                        cleave_critical_path *path, cleave_error *error) {
    walk w = {.problem = problem, .timeline = timeline};
    cleave_arena scratch = {0};
    cleave_status status = prepare(&w, &scratch, error);
    int32_t last;
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
