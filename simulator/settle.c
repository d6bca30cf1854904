/* A lane's items are sorted by time, and mostly one begins where the other ends: a device is busy
   in few intervals, so how long others are busy during a work is found by one walk over its
   device's work and their intervals.  Only work of main lanes is looked at; it lies side by side,
   in places, which are those of the problem's work. */
#include "simulator/settle.h"

#include "graph/work.h"

#include <string.h>

struct cleave_settling {
    const cleave_program *program;
    const cleave_machine *machine;
    cleave_poll_profile profile; /* its lanes are the places; times still missing */
    /* [places] */
    const int32_t *items; /* of the program, and of the problem */
    int64_t *priced;      /* duration while all others of the node are busy */
    int64_t *quiet;       /* and while all are idle */
    float *alone;         /* share of the former that the latter is */
    int64_t *overlap;     /* picoseconds, scratch */
    int32_t *changed;     /* [n_changed] places whose durations are no longer those priced */
    int32_t n_changed;
    /* Device d is busy in intervals busy_start[d] .. busy_start[d + 1] - 1. */
    int32_t *busy_start;              /* [n_devices + 1] */
    int64_t *busy_begin, *busy_until; /* as many as places at most */
};

/* ---- What does not depend on times ----------------------------------------------------------- */

/* Of an item, with a poll after each. */
static int32_t count_pieces(const cleave_program *program, int32_t id) {
    const cleave_item *item = &program->items[id];
    const cleave_update *update;
    int32_t pieces = 1;
    switch ((cleave_item_kind)item->kind) {
    case CLEAVE_ITEM_COMPUTE:
        pieces = program->computes[item->subject].pieces;
        break;
    case CLEAVE_ITEM_UPDATE:
        update = &program->updates[item->subject];
        pieces = cleave_work_pieces_of_bytes(
            cleave_work_bytes_of_update(program->buffers[update->parameter].bytes,
                                        (update->state[0] >= 0) + (update->state[1] >= 0)));
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
    bool any_failed = false;
#define TAKE(member, type, count)                                                                  \
    any_failed |= (member = CLEAVE_ARENA_ARRAY(arena, type, (count))) == NULL
    TAKE(profile->begin, int64_t, n_places);
    TAKE(profile->end, int64_t, n_places);
    TAKE(profile->pieces, int32_t, n_places);
    TAKE(profile->source, int32_t, n_messages);
    TAKE(profile->destination, int32_t, n_messages);
    TAKE(profile->source_until, int32_t, n_messages);
    TAKE(profile->destination_until, int32_t, n_messages);
    TAKE(profile->sending, double, n_messages);
    TAKE(profile->receiving, double, n_messages);
    TAKE(s->priced, int64_t, n_places);
    TAKE(s->quiet, int64_t, n_places);
    TAKE(s->alone, float, n_places);
    TAKE(s->overlap, int64_t, n_places);
    TAKE(s->changed, int32_t, n_places);
    TAKE(s->busy_start, int32_t, n_devices + 1);
    TAKE(s->busy_begin, int64_t, n_places);
    TAKE(s->busy_until, int64_t, n_places);
#undef TAKE
    profile->lane_start = problem->work_start;
    s->items = problem->work_items;
    return !any_failed;
}

static bool is_message_wait(uint8_t kind) {
    return kind == CLEAVE_ENGINE_WAIT_ARRIVAL || kind == CLEAVE_ENGINE_WAIT_RELEASE;
}

/* The work of a device from place `n` of the profile on waits for a message. */
static void set_until(cleave_settling *s, int32_t message, int32_t device, int32_t n) {
    const cleave_message *of = &s->program->messages[message];
    *(of->source == device ? &s->profile.source_until[message]
                           : &s->profile.destination_until[message]) = n;
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
            if (item->kind == CLEAVE_ENGINE_SYNC)
                other = set_until_sync(s, problem, d, other, item->subject, n);
            if (n < problem->work_start[d + 1])
                n += problem->work_items[n] == item->item;
        }
        set_until_sync(s, problem, d, other, INT32_MAX, n);
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
        s->profile.source[m] = message->source;
        s->profile.destination[m] = message->destination;
        s->profile.sending[m] = polls_of(&protocol->sending, large, bytes);
        s->profile.receiving[m] = polls_of(&protocol->receiving, large, bytes);
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
    float *alone = CLEAVE_ARENA_ARRAY(arena, float, problem->n_items);
    if (alone == NULL)
        return cleave_fail_memory(error, "preparing to simulate");
    CLEAVE_TRY(cleave_cost_alone(s->program, cache, alone, error));
    for (int32_t i = 0; i < problem->work_start[s->program->n_devices]; i++) {
        s->priced[i] = problem->duration[s->items[i]];
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
        problem->n_collectives > 0)
        return CLEAVE_OK;
    cleave_settling *made = CLEAVE_ARENA_ARRAY(arena, cleave_settling, 1);
    if (made == NULL)
        return cleave_fail_memory(error, "preparing to simulate");
    made->program = program;
    made->machine = cleave_cost_cache_machine(cache);
    if (!allocate(made, problem, arena))
        return cleave_fail_memory(error, "preparing to simulate");
    find_waits(made, problem);
    find_polls(made, cache);
    CLEAVE_TRY(find_durations(made, problem, cache, arena, error));
    *settling = made;
    return CLEAVE_OK;
}

/* ---- What does ------------------------------------------------------------------------------- */

/* Takes the times of a device's work from the timeline, and when it is busy. */
static int32_t find_busy(cleave_settling *s, const cleave_timeline *timeline, int32_t device,
                         int32_t n_busy) {
    const cleave_poll_profile *p = &s->profile;
    int64_t before = -1; /* where it was busy last */
    s->busy_start[device] = n_busy;
    for (int32_t i = p->lane_start[device]; i < p->lane_start[device + 1]; i++) {
        int64_t begin = timeline->start[s->items[i]], end = timeline->end[s->items[i]];
        p->begin[i] = begin;
        p->end[i] = end;
        if (begin != before)
            s->busy_begin[n_busy++] = begin;
        s->busy_until[n_busy - 1] = before = end;
    }
    return n_busy;
}

/* Adds to the overlap of each work of a device how long another one is busy meanwhile. */
static void add_overlaps(cleave_settling *s, int32_t device, int32_t other) {
    const cleave_poll_profile *p = &s->profile;
    const int64_t *busy_begin = s->busy_begin, *busy_until = s->busy_until;
    int32_t b = s->busy_start[other], last = s->busy_start[other + 1];
    for (int32_t i = p->lane_start[device]; i < p->lane_start[device + 1]; i++) {
        int64_t begin = p->begin[i], end = p->end[i];
        while (b < last && busy_until[b] <= begin)
            b++;
        for (int32_t during = b; during < last && busy_begin[during] < end; during++) {
            int64_t from = busy_begin[during] > begin ? busy_begin[during] : begin;
            int64_t until = busy_until[during] < end ? busy_until[during] : end;
            s->overlap[i] += until - from;
        }
    }
}

/* Most work has all others busy all the time, or all idle: there is nothing to work out. */
static void settle_lane(cleave_settling *s, int32_t device, int32_t n_others, int64_t *duration) {
    const cleave_poll_profile *p = &s->profile;
    for (int32_t i = p->lane_start[device]; i < p->lane_start[device + 1]; i++) {
        int64_t overlap = s->overlap[i], span = (p->end[i] - p->begin[i]) * n_others;
        if (overlap == span)
            continue;
        s->changed[s->n_changed++] = i;
        duration[s->items[i]] =
            overlap == 0 ? s->quiet[i] : duration_of(s, i, (double)overlap / (double)span);
    }
}

static void settle_kernels(cleave_settling *s, cleave_engine_problem *problem) {
    const cleave_poll_profile *p = &s->profile;
    int32_t n_devices = s->program->n_devices;
    memset(s->overlap, 0, (size_t)p->lane_start[n_devices] * sizeof *s->overlap);
    for (int32_t d = 0; d < n_devices; d++) {
        int32_t n_others = 0;
        for (int32_t other = 0; other < n_devices; other++) {
            if (other == d || !cleave_machine_same_node(s->machine, d, other))
                continue;
            n_others++;
            add_overlaps(s, d, other);
        }
        if (n_others > 0)
            settle_lane(s, d, n_others, problem->duration);
    }
}

/* Each message is late by no more than a step, so all times stay far from what an integer holds. */
static bool fits(const cleave_settling *s, int64_t step) {
    return step < INT64_MAX / 8 / ((int64_t)s->program->n_messages + 1);
}

cleave_status cleave_settling_apply(cleave_settling *settling, cleave_rule rule,
                                    cleave_engine_problem *problem,
                                    cleave_engine_workspace *workspace, cleave_timeline *timeline,
                                    cleave_error *error) {
    if (settling == NULL)
        return CLEAVE_OK;
    cleave_poll_profile *profile = &settling->profile;
    problem->polls = NULL;
    for (int32_t i = 0; i < settling->n_changed; i++)
        problem->duration[settling->items[settling->changed[i]]] =
            settling->priced[settling->changed[i]];
    settling->n_changed = 0;
    CLEAVE_TRY(cleave_simulate_run(problem, rule, workspace, timeline, error));
    int32_t n_busy = 0, n_devices = settling->program->n_devices;
    for (int32_t d = 0; d < n_devices; d++)
        n_busy = find_busy(settling, timeline, d, n_busy);
    settling->busy_start[n_devices] = n_busy;
    settle_kernels(settling, problem);
    problem->polls = fits(settling, timeline->step) ? profile : NULL;
    return CLEAVE_OK;
}
