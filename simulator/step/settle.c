/* A lane's items are sorted by time, and mostly one begins where the other ends: a device is busy
   in few intervals.  Most work has all others busy all the time, and then it takes what it was
   priced at: so one walk over a device's work and the pauses of another finds the work that does
   not, and nothing is done about the rest.  Only work of main lanes is looked at; it lies side by
   side, in places, which are those of the problem's work. */
#include "simulator/step/settle.h"

#include "graph/program/work.h"
#include "simulator/scan/scan_rule.h"

#include <stdlib.h>
#include <string.h>

struct cleave_settling {
    const cleave_program *program;
    const cleave_machine *machine;
    cleave_poll_profile profile;
    cleave_work_times by_runs;  /* of the scan */
    cleave_work_times by_items; /* of events, which slow any work: each is a run of its own */
    cleave_work_run *spare;     /* as many as either has: those of the next pass, while the last */
    int64_t *spare_sum;         /* one's are read; and its sums of durations */
    /* [places] */
    const int32_t *items; /* of the program, and of the problem */
    int64_t *priced;      /* duration while all others of the node are busy */
    int64_t *quiet;       /* and while all are idle */
    float *alone;         /* share of the former that the latter is */
    /* Work whose duration is no longer that priced; a place is in it twice at most. */
    int32_t *changed; /* [n_changed] places */
    int32_t *n_quiet; /* [runs] how many others of the node pause all through a run */
    int64_t *idle;    /* picoseconds for which the rest pause during a work, their sum; else 0 */
    int32_t *partly;  /* [n_partly] places where it is not 0 */
    int32_t n_changed, n_partly;
    /* Device d is busy in intervals busy_start[d] and on, the last of which never comes. */
    int32_t *busy_start;              /* [n_devices] */
    int64_t *busy_begin, *busy_until; /* as many as places and devices at most */
};

/* ---- What does not depend on times ----------------------------------------------------------- */

/* Of an item, with a poll after each. */
static int32_t count_pieces(const cleave_program *program, int32_t id) {
    const cleave_item *item = &program->items[id];
    int32_t pieces = 1;
    switch ((cleave_item_kind)item->kind) {
    case CLEAVE_ITEM_COMPUTE:
        pieces = program->computes[item->subject].pieces;
        break;
    case CLEAVE_ITEM_UPDATE:
        pieces = cleave_work_pieces_of_bytes(
            cleave_update_bytes(program, &program->updates[item->subject]));
        break;
    case CLEAVE_ITEM_COPY:
        pieces = cleave_work_pieces_of_copy(program->copies[item->subject].bytes);
        break;
    default:
        break;
    }
    return pieces > 1 ? pieces : 1;
}

static bool allocate(cleave_settling *s, const cleave_engine_problem *problem,
                     cleave_arena *arena) {
    size_t n_devices = (size_t)s->program->n_devices;
    size_t n_messages = (size_t)s->program->n_messages;
    size_t n_places = (size_t)problem->work_start[n_devices];
    cleave_poll_profile *profile = &s->profile;
    cleave_work_run *runs;
    int64_t *sum;
    int32_t *place;
    bool any_failed = false;
#define TAKE(member, type, count)                                                                  \
    any_failed |= (member = CLEAVE_ARENA_ARRAY(arena, type, (count))) == NULL
    TAKE(sum, int64_t, n_places + 1);
    TAKE(runs, cleave_work_run, n_places);
    TAKE(s->spare, cleave_work_run, n_places);
    TAKE(s->spare_sum, int64_t, n_places + 1);
    TAKE(place, int32_t, n_places + 1);
    TAKE(profile->pieces, int32_t, n_places);
    TAKE(profile->ends, cleave_end_polls, 2 * n_messages);
    TAKE(s->priced, int64_t, n_places);
    TAKE(s->quiet, int64_t, n_places);
    TAKE(s->alone, float, n_places);
    TAKE(s->idle, int64_t, n_places);
    TAKE(s->partly, int32_t, n_places);
    TAKE(s->n_quiet, int32_t, n_places);
    TAKE(s->changed, int32_t, 2 * n_places);
    TAKE(s->busy_start, int32_t, n_devices);
    TAKE(s->busy_begin, int64_t, n_places + n_devices);
    TAKE(s->busy_until, int64_t, n_places + n_devices);
#undef TAKE
    s->items = problem->work_items;
    if (any_failed)
        return false;
    for (size_t i = 0; i <= n_places; i++)
        place[i] = (int32_t)i;
    s->by_runs =
        (cleave_work_times){problem->run_start, problem->run_first, problem->run_of, sum, runs};
    s->by_items = (cleave_work_times){problem->work_start, place, place, sum, runs};
    s->profile.times = s->by_runs;
    return true;
}

static bool is_message_wait(uint8_t kind) {
    return kind == CLEAVE_PRICED_WAIT_ARRIVAL || kind == CLEAVE_PRICED_WAIT_RELEASE;
}

/* The work of a device from place `n` of the profile on waits for a message. */
static void set_until(cleave_settling *s, int32_t message, int32_t device, int32_t n) {
    bool is_source = s->program->messages[message].source == device;
    s->profile.ends[2 * (size_t)message + !is_source].until = n;
}

/* What the communication lane waits for before and at item `until` of its own, which the main lane
   waits for; `q` is as far as that was done before. */
static int32_t set_until_sync(cleave_settling *s, const cleave_engine_problem *problem,
                              int32_t device, int32_t q, int32_t until, int32_t n) {
    int32_t last = problem->queue_start[device * CLEAVE_N_LANES + CLEAVE_LANE_COMMUNICATION + 1];
    for (; q < last && problem->queue_items[q].item <= until; q++)
        if (is_message_wait(problem->queue_items[q].kind))
            set_until(s, problem->queue_items[q].subject, device, n);
    return q;
}

/* Work from which on messages are waited for. */
static void find_waits(cleave_settling *s, const cleave_engine_problem *problem) {
    for (int32_t d = 0; d < s->program->n_devices; d++) {
        int32_t queue = d * CLEAVE_N_LANES + CLEAVE_LANE_MAIN, n = problem->work_start[d];
        int32_t other = problem->queue_start[d * CLEAVE_N_LANES + CLEAVE_LANE_COMMUNICATION];
        for (int32_t q = problem->queue_start[queue]; q < problem->queue_start[queue + 1]; q++) {
            const cleave_queued_item *item = &problem->queue_items[q];
            if (is_message_wait(item->kind))
                set_until(s, item->subject, d, n);
            if (item->kind == CLEAVE_PRICED_SYNC)
                other = set_until_sync(s, problem, d, other, item->subject, n);
            if (n < problem->work_start[d + 1])
                n += problem->work_items[n] == item->item;
        }
        set_until_sync(s, problem, d, other, INT32_MAX, n);
    }
}

/* How far the ends of messages have come, in the order of the program, when both have posted. */
static void find_near(cleave_settling *s, const cleave_engine_problem *problem, int32_t *next) {
    memcpy(next, problem->work_start, (size_t)s->program->n_devices * sizeof *next);
    for (int32_t i = 0; i < problem->n_steps; i++) {
        const cleave_scan_step *step = &problem->steps[i];
        if (step->work >= 0)
            next[step->queue / 2] = problem->run_first[step->work + 1];
        if (step->kind != CLEAVE_SCAN_LAST_POST)
            continue;
        cleave_end_polls *ends = &s->profile.ends[2 * (size_t)step->subject];
        ends[0].near = next[s->program->messages[step->subject].source];
        ends[1].near = next[s->program->messages[step->subject].destination];
    }
}

static double polls_of(const cleave_polls *polls, bool large, double bytes) {
    return large ? polls->large + polls->per_byte * bytes : polls->small;
}

static void find_polls(cleave_settling *s, cleave_cost_cache *cache) {
    for (int32_t m = 0; m < s->program->n_messages; m++) {
        const cleave_message *message = &s->program->messages[m];
        const cleave_protocol *protocol =
            cleave_cost_route(cache, message->source, message->destination)->protocol;
        double bytes = (double)message->bytes;
        bool large = protocol->large_from_bytes > 0 && bytes >= protocol->large_from_bytes;
        cleave_end_polls *ends = &s->profile.ends[2 * (size_t)m];
        ends[0].device = message->source;
        ends[1].device = message->destination;
        ends[0].polls = polls_of(&protocol->sending, large, bytes);
        ends[1].polls = polls_of(&protocol->receiving, large, bytes);
    }
}

/* A duration between that alone and that with all others busy, by the share of the time in which
   the others of the node work. */
static int64_t duration_of(const cleave_settling *s, int32_t place, double share) {
    double alone = (double)s->alone[place];
    return (int64_t)((double)s->priced[place] * (alone + (1 - alone) * share) + 0.5);
}

static cleave_status find_durations(cleave_settling *s, const cleave_engine_problem *problem,
                                    cleave_cost_cache *cache, cleave_arena *arena,
                                    cleave_error *error) {
    float *alone = CLEAVE_ARENA_ARRAY(arena, float, problem->step.n_items);
    if (alone == NULL)
        return cleave_fail_memory(error, "preparing to simulate");
    CLEAVE_TRY(cleave_cost_alone(s->program, cache, alone, error));
    for (int32_t i = 0; i < problem->work_start[s->program->n_devices]; i++) {
        s->priced[i] = problem->step.duration[s->items[i]];
        s->alone[i] = alone[s->items[i]];
        s->quiet[i] = duration_of(s, i, 0);
        s->profile.pieces[i] = count_pieces(s->program, s->items[i]);
    }
    return CLEAVE_OK;
}

cleave_status cleave_settling_create(const cleave_program *program, cleave_cost_cache *cache,
                                     const cleave_engine_problem *problem, cleave_arena *arena,
                                     cleave_settling **settling, cleave_error *error) {
    *settling = NULL;
    if (!cleave_cost_knows_neighbours(cache) || program->n_windows > 1 ||
        problem->step.n_collectives > 0)
        return CLEAVE_OK;
    cleave_settling *made = CLEAVE_ARENA_ARRAY(arena, cleave_settling, 1);
    if (made == NULL)
        return cleave_fail_memory(error, "preparing to simulate");
    made->program = program;
    made->machine = cleave_cost_cache_machine(cache);
    if (!allocate(made, problem, arena))
        return cleave_fail_memory(error, "preparing to simulate");
    find_waits(made, problem);
    find_near(made, problem, made->busy_start);
    find_polls(made, cache);
    CLEAVE_TRY(find_durations(made, problem, cache, arena, error));
    *settling = made;
    return CLEAVE_OK;
}

/* ---- What does ------------------------------------------------------------------------------- */

/* Times of work from a timeline. */
static void copy_times(const cleave_settling *s, const cleave_timeline *timeline,
                       const cleave_work_times *times) {
    for (int32_t i = 0; i < times->run_start[s->program->n_devices]; i++) {
        int64_t begin = timeline->start[s->items[i]], end = timeline->end[s->items[i]];
        times->runs[i] = (cleave_work_run){.begin = begin,
                                           .end = end,
                                           .before = begin - times->sum[i],
                                           .after = end - times->sum[i + 1],
                                           .longer = i};
    }
}

/* Runs the problem as it is now, and takes when devices work by that. */
static cleave_status simulate(cleave_settling *s, cleave_rule rule,
                              const cleave_engine_problem *problem,
                              cleave_engine_workspace *workspace, cleave_timeline *timeline,
                              cleave_error *error) {
    cleave_work_times times = rule == CLEAVE_RULE_SCAN ? s->by_runs : s->by_items;
    times.runs = s->spare;
    times.sum = s->spare_sum;
    for (int32_t i = 0; i < problem->work_start[s->program->n_devices]; i++)
        s->spare_sum[i + 1] = s->spare_sum[i] + problem->step.duration[s->items[i]];
    if (rule == CLEAVE_RULE_SCAN) {
        CLEAVE_TRY(cleave_engine_scan_runs(problem, workspace, &times, timeline, error));
    } else {
        CLEAVE_TRY(cleave_engine_run_events(problem, workspace, timeline, error));
        copy_times(s, timeline, &times);
    }
    s->spare = s->profile.times.runs;
    s->spare_sum = (int64_t *)s->profile.times.sum;
    s->profile.times = times;
    return CLEAVE_OK;
}

/* When devices are busy: runs that follow one another without a pause, and then for ever nothing.
 */
static void find_busy(cleave_settling *s) {
    const cleave_work_times *times = &s->profile.times;
    int32_t n_busy = 0, n_devices = s->program->n_devices;
    for (int32_t d = 0; d < n_devices; d++) {
        int64_t before = -1;
        s->busy_start[d] = n_busy;
        for (int32_t r = times->run_start[d]; r < times->run_start[d + 1]; r++) {
            s->busy_begin[n_busy] = times->runs[r].begin;
            n_busy += times->runs[r].begin != before;
            s->busy_until[n_busy - 1] = before = times->runs[r].end;
        }
        s->busy_begin[n_busy] = s->busy_until[n_busy] = INT64_MAX;
        n_busy++;
    }
}

/* Adds a pause of another device to the work of a run during it. */
static void add_pause(cleave_settling *s, int32_t run, int64_t from, int64_t until) {
    const cleave_work_times *times = &s->profile.times;
    int32_t i =
        times->runs[run].begin >= from ? times->run_first[run] : cleave_work_at(times, run, from);
    for (; i < times->run_first[run + 1]; i++) {
        int64_t begin = cleave_work_begin(times, run, i), end = cleave_work_end(times, run, i);
        if (begin >= until)
            return;
        if (s->idle[i] == 0)
            s->changed[s->n_changed++] = s->partly[s->n_partly++] = i;
        s->idle[i] += (end < until ? end : until) - cleave_later(begin, from);
    }
}

/* Adds all pauses of another device during a run, of which `busy` ends the first. */
static void add_pauses(cleave_settling *s, int32_t run, int32_t other, int32_t busy) {
    const cleave_work_run *of = &s->profile.times.runs[run];
    int64_t from = busy == s->busy_start[other] ? 0 : s->busy_until[busy - 1];
    for (; from < of->end; from = s->busy_until[busy++])
        if (s->busy_begin[busy] > of->begin)
            add_pause(s, run, from, s->busy_begin[busy]);
}

/* Lists all work of a run as changed. */
static void change_run(cleave_settling *s, int32_t run) {
    const cleave_work_times *times = &s->profile.times;
    int32_t *changed = s->changed, n = s->n_changed;
    for (int32_t i = times->run_first[run]; i < times->run_first[run + 1]; i++)
        changed[n++] = i;
    s->n_changed = n;
}

/* Compares the work of a device with when another one is busy. */
static void compare(cleave_settling *s, int32_t device, int32_t other) {
    const cleave_work_run *runs = s->profile.times.runs;
    const int64_t *busy_begin = s->busy_begin, *busy_until = s->busy_until;
    int32_t busy = s->busy_start[other], last = s->profile.times.run_start[device + 1];
    for (int32_t r = s->profile.times.run_start[device]; r < last; r++) {
        int64_t begin = runs[r].begin, end = runs[r].end;
        while (busy_until[busy] <= begin)
            busy++;
        if (busy_begin[busy] <= begin && end <= busy_until[busy])
            continue;
        if (busy_begin[busy] < end)
            add_pauses(s, r, other, busy);
        else if (s->n_quiet[r]++ == 0)
            change_run(s, r);
    }
}

/* The durations of work during which others paused, of which `n_others` might have. */
static void settle_work(cleave_settling *s, int32_t n_others, int32_t first_changed,
                        int64_t *duration) {
    const cleave_work_times *times = &s->profile.times;
    for (int32_t c = first_changed; c < s->n_changed; c++) {
        int32_t i = s->changed[c], run = times->run_of[i];
        if (s->n_quiet[run] == n_others) {
            duration[s->items[i]] = s->quiet[i];
            continue;
        }
        int64_t span = cleave_work_end(times, run, i) - cleave_work_begin(times, run, i);
        int64_t overlap = span * (n_others - s->n_quiet[run]) - s->idle[i];
        duration[s->items[i]] =
            overlap == 0 ? s->quiet[i]
                         : duration_of(s, i, (double)overlap / (double)(span * n_others));
    }
    for (int32_t p = 0; p < s->n_partly; p++)
        s->idle[s->partly[p]] = 0;
    s->n_partly = 0;
}

static void settle_kernels(cleave_settling *s, cleave_engine_problem *problem) {
    int32_t n_devices = s->program->n_devices;
    memset(s->n_quiet, 0, (size_t)s->profile.times.run_start[n_devices] * sizeof *s->n_quiet);
    for (int32_t d = 0; d < n_devices; d++) {
        int32_t n_others = 0, n_changed = s->n_changed;
        for (int32_t other = 0; other < n_devices; other++) {
            if (other == d || !cleave_machine_same_node(s->machine, d, other))
                continue;
            n_others++;
            compare(s, d, other);
        }
        settle_work(s, n_others, n_changed, problem->step.duration);
    }
}

/* Each message is late by no more than a step, so all times stay far from what an integer holds. */
static bool fits(const cleave_settling *s, int64_t step) {
    return step < INT64_MAX / 8 / ((int64_t)s->program->n_messages + 1);
}

/* Durations as they were priced. */
static void forget(cleave_settling *s, cleave_engine_problem *problem) {
    for (int32_t i = 0; i < s->n_changed; i++)
        problem->step.duration[s->items[s->changed[i]]] = s->priced[s->changed[i]];
    s->n_changed = 0;
}

void cleave_settling_begin(cleave_settling *settling, cleave_engine_problem *problem) {
    problem->polls = NULL;
    forget(settling, problem);
}

cleave_status cleave_settling_pass(cleave_settling *settling, cleave_rule rule,
                                   cleave_engine_problem *problem,
                                   cleave_engine_workspace *workspace, cleave_timeline *timeline,
                                   cleave_error *error) {
    CLEAVE_TRY(simulate(settling, rule, problem, workspace, timeline, error));
    forget(settling, problem);
    find_busy(settling);
    settle_kernels(settling, problem);
    problem->polls = fits(settling, timeline->step) ? &settling->profile : NULL;
    return CLEAVE_OK;
}

/* Passes at most, and the fraction of a step by which it may still change. */
enum { MOST_PASSES = 6, SAME_FRACTION = 500 };

cleave_status cleave_settling_apply(cleave_settling *settling, cleave_rule rule,
                                    cleave_engine_problem *problem,
                                    cleave_engine_workspace *workspace, cleave_timeline *timeline,
                                    cleave_error *error) {
    bool has_settled = settling == NULL;
    int64_t before = -1;
    if (settling != NULL)
        cleave_settling_begin(settling, problem);
    for (int pass = 0; pass < MOST_PASSES && !has_settled; pass++) {
        CLEAVE_TRY(cleave_settling_pass(settling, rule, problem, workspace, timeline, error));
        has_settled =
            before >= 0 && llabs(timeline->step - before) <= timeline->step / SAME_FRACTION;
        before = timeline->step;
    }
    return CLEAVE_OK;
}
