/* A lane's items are sorted by time, so what two devices do at the same time is found by one walk
   over both.  Only work of main lanes is looked at; it lies side by side, in places. */
#include "simulator/settle.h"

#include "graph/work.h"

#include <string.h>

struct cleave_settling {
    const cleave_program *program;
    const cleave_machine *machine;
    cleave_poll_profile profile; /* its lanes are the places; times still missing */
    /* [places] */
    int32_t *items;   /* of the program, and of the problem */
    int64_t *priced;  /* duration while all others of the node are busy */
    float *alone;     /* share of it where they are idle */
    int64_t *overlap; /* picoseconds, scratch */
    bool is_applied;  /* to the problem before: its durations are no longer those priced */
};

/* ---- What does not depend on times ----------------------------------------------------------- */

static bool has_work(const cleave_engine_problem *problem, int32_t item) {
    return problem->kind[item] == CLEAVE_ENGINE_WORK && problem->duration[item] > 0;
}

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
        pieces = cleave_work_pieces_of_bytes((double)program->copies[item->subject].bytes);
        break;
    default:
        break;
    }
    return pieces > 1 ? pieces : 1;
}

static bool allocate(cleave_settling *s, const cleave_engine_problem *problem,
                     cleave_arena *arena) {
    size_t n_devices = (size_t)s->program->n_devices, n_items = (size_t)problem->n_items;
    size_t n_messages = (size_t)s->program->n_messages;
    cleave_poll_profile *profile = &s->profile;
    profile->lane_start = CLEAVE_ARENA_ARRAY(arena, int32_t, n_devices + 1);
    profile->begin = CLEAVE_ARENA_ARRAY(arena, int64_t, n_items);
    profile->end = CLEAVE_ARENA_ARRAY(arena, int64_t, n_items);
    profile->pieces = CLEAVE_ARENA_ARRAY(arena, int32_t, n_items);
    profile->source = CLEAVE_ARENA_ARRAY(arena, int32_t, n_messages);
    profile->destination = CLEAVE_ARENA_ARRAY(arena, int32_t, n_messages);
    profile->source_until = CLEAVE_ARENA_ARRAY(arena, int32_t, n_messages);
    profile->destination_until = CLEAVE_ARENA_ARRAY(arena, int32_t, n_messages);
    profile->sending = CLEAVE_ARENA_ARRAY(arena, double, n_messages);
    profile->receiving = CLEAVE_ARENA_ARRAY(arena, double, n_messages);
    s->items = CLEAVE_ARENA_ARRAY(arena, int32_t, n_items);
    s->priced = CLEAVE_ARENA_ARRAY(arena, int64_t, n_items);
    s->alone = CLEAVE_ARENA_ARRAY(arena, float, n_items);
    s->overlap = CLEAVE_ARENA_ARRAY(arena, int64_t, n_items);
    return profile->lane_start != NULL && profile->begin != NULL && profile->end != NULL &&
           profile->pieces != NULL && profile->source != NULL && profile->destination != NULL &&
           profile->source_until != NULL && profile->destination_until != NULL &&
           profile->sending != NULL && profile->receiving != NULL && s->items != NULL &&
           s->priced != NULL && s->alone != NULL && s->overlap != NULL;
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

static void find_lanes(cleave_settling *s, const cleave_engine_problem *problem) {
    int32_t n = 0;
    for (int32_t d = 0; d < s->program->n_devices; d++) {
        int32_t queue = d * CLEAVE_N_LANES + CLEAVE_LANE_MAIN;
        int32_t other = problem->queue_start[d * CLEAVE_N_LANES + CLEAVE_LANE_COMMUNICATION];
        for (int32_t q = problem->queue_start[queue]; q < problem->queue_start[queue + 1]; q++) {
            const cleave_queued_item *item = &problem->queue_items[q];
            if (is_message_wait(item->kind))
                set_until(s, item->subject, d, n);
            if (item->kind == CLEAVE_ENGINE_SYNC)
                other = set_until_sync(s, problem, d, other, item->subject, n);
            if (!has_work(problem, item->item))
                continue;
            s->items[n] = item->item;
            s->priced[n] = problem->duration[item->item];
            s->profile.pieces[n++] = count_pieces(s->program, item->item);
        }
        set_until_sync(s, problem, d, other, INT32_MAX, n);
        s->profile.lane_start[d + 1] = n;
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

/* The shares of all items are brought to their places by way of `overlap`, which has room and is
   not in use yet. */
static cleave_status find_alone(cleave_settling *s, cleave_cost_cache *cache, cleave_error *error) {
    float *of_item = (float *)(void *)s->overlap;
    CLEAVE_TRY(cleave_cost_alone(s->program, cache, of_item, error));
    for (int32_t i = 0; i < s->profile.lane_start[s->program->n_devices]; i++)
        s->alone[i] = of_item[s->items[i]];
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
    find_lanes(made, problem);
    find_polls(made, cache);
    CLEAVE_TRY(find_alone(made, cache, error));
    *settling = made;
    return CLEAVE_OK;
}

/* ---- What does ------------------------------------------------------------------------------- */

/* Adds to the overlap of each work of two devices how long both work meanwhile.  Which of two ends
   first is anybody's guess, so there is no branch on it. */
static void add_overlaps(cleave_settling *s, int32_t device, int32_t other) {
    const int64_t *begin = s->profile.begin, *end = s->profile.end;
    int64_t *overlap = s->overlap;
    int32_t i = s->profile.lane_start[device], last_i = s->profile.lane_start[device + 1];
    int32_t j = s->profile.lane_start[other], last_j = s->profile.lane_start[other + 1];
    while (i < last_i && j < last_j) {
        int64_t from = begin[i] > begin[j] ? begin[i] : begin[j];
        int64_t until = end[i] < end[j] ? end[i] : end[j];
        int64_t both = until > from ? until - from : 0;
        int32_t is_over = end[i] <= end[j];
        overlap[i] += both;
        overlap[j] += both;
        i += is_over;
        j += 1 - is_over;
    }
}

/* Between the price alone and that with all others busy, by the share of the time in which the
   others of the node work. */
static void settle_lane(const cleave_settling *s, int32_t device, int32_t n_others,
                        int64_t *duration) {
    const cleave_poll_profile *p = &s->profile;
    int32_t last = p->lane_start[device + 1];
    for (int32_t i = p->lane_start[device]; i < last; i++) {
        double span = (double)(p->end[i] - p->begin[i]) * n_others;
        double share = (double)s->overlap[i] / span; /* from 0 to 1: work takes some time */
        double alone = (double)s->alone[i];
        duration[s->items[i]] =
            (int64_t)((double)s->priced[i] * (alone + (1 - alone) * share) + 0.5);
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
            if (other > d) /* those before it have met it */
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
    int32_t n_places = profile->lane_start[settling->program->n_devices];
    problem->polls = NULL;
    for (int32_t i = 0; i < n_places && settling->is_applied; i++)
        problem->duration[settling->items[i]] = settling->priced[i];
    settling->is_applied = true;
    CLEAVE_TRY(cleave_simulate_run(problem, rule, workspace, timeline, error));
    for (int32_t i = 0; i < n_places; i++) {
        profile->begin[i] = timeline->start[settling->items[i]];
        profile->end[i] = timeline->end[settling->items[i]];
    }
    settle_kernels(settling, problem);
    problem->polls = fits(settling, timeline->step) ? profile : NULL;
    return CLEAVE_OK;
}
