/* A lane's items are sorted by time, so what two devices do at the same time is found by one walk
   over both. */
#include "simulator/settle.h"

#include "graph/work.h"
#include "simulator/link.h"

#include <math.h>

/* The work of a device's main lane, one item after the other. */
typedef struct busy_lane {
    int32_t n;
    const int32_t *items; /* [n] */
} busy_lane;

typedef struct settling {
    const cleave_program *program;
    const cleave_machine *machine;
    const cleave_timeline *timeline;
    cleave_engine_problem *problem;
    busy_lane *lanes; /* [n_devices] */
} settling;

static bool has_work(const cleave_engine_problem *problem, int32_t item) {
    return problem->kind[item] == CLEAVE_ENGINE_WORK && problem->duration[item] > 0;
}

static cleave_status find_lanes(settling *s, cleave_arena *scratch, cleave_error *error) {
    const cleave_engine_problem *problem = s->problem;
    int32_t n_devices = problem->n_queues / CLEAVE_N_LANES;
    int32_t *items = CLEAVE_ARENA_ARRAY(scratch, int32_t, problem->n_items), used = 0;
    s->lanes = CLEAVE_ARENA_ARRAY(scratch, busy_lane, n_devices);
    if (items == NULL || s->lanes == NULL)
        return cleave_fail_memory(error, "simulating");
    for (int32_t d = 0; d < n_devices; d++) {
        int32_t queue = d * CLEAVE_N_LANES + CLEAVE_LANE_MAIN;
        s->lanes[d].items = items + used;
        for (int32_t q = problem->queue_start[queue]; q < problem->queue_start[queue + 1]; q++)
            if (has_work(problem, problem->queue_items[q].item))
                items[used + s->lanes[d].n++] = problem->queue_items[q].item;
        used += s->lanes[d].n;
    }
    return CLEAVE_OK;
}

/* ---- Kernels --------------------------------------------------------------------------------- */

/* Adds to `overlap` of every item of one lane how long the other one works meanwhile. */
static void add_overlaps(const settling *s, const busy_lane *of, const busy_lane *other,
                         int64_t *overlap) {
    const int64_t *start = s->timeline->start, *end = s->timeline->end;
    for (int32_t i = 0, first = 0; i < of->n; i++) {
        int32_t item = of->items[i];
        while (first < other->n && end[other->items[first]] <= start[item])
            first++;
        for (int32_t j = first; j < other->n && start[other->items[j]] < end[item]; j++) {
            int64_t from = cleave_later(start[item], start[other->items[j]]);
            int64_t until = end[item] < end[other->items[j]] ? end[item] : end[other->items[j]];
            overlap[item] += until > from ? until - from : 0;
        }
    }
}

/* Between the price alone and that with all others busy, by the share of the time in which the
   others of the node work. */
static cleave_status settle_kernels(settling *s, cleave_cost_cache *cache, cleave_arena *scratch,
                                    cleave_error *error) {
    cleave_engine_problem *problem = s->problem;
    float *alone = CLEAVE_ARENA_ARRAY(scratch, float, problem->n_items);
    int64_t *overlap = CLEAVE_ARENA_ARRAY(scratch, int64_t, problem->n_items);
    if (alone == NULL || overlap == NULL)
        return cleave_fail_memory(error, "simulating");
    CLEAVE_TRY(cleave_cost_alone(s->program, cache, alone, error));
    for (int32_t d = 0; d < s->program->n_devices; d++) {
        int32_t n_others = 0;
        for (int32_t other = 0; other < s->program->n_devices; other++)
            if (other != d && cleave_machine_same_node(s->machine, d, other)) {
                n_others++;
                add_overlaps(s, &s->lanes[d], &s->lanes[other], overlap);
            }
        for (int32_t i = 0; i < s->lanes[d].n && n_others > 0; i++) {
            int32_t item = s->lanes[d].items[i];
            double span = (double)(s->timeline->end[item] - s->timeline->start[item]) * n_others;
            double share = span > 0 ? fmin(1, (double)overlap[item] / span) : 1;
            double factor = (double)alone[item] + (1 - (double)alone[item]) * share;
            problem->duration[item] = (int64_t)((double)problem->duration[item] * factor + 0.5);
        }
    }
    return CLEAVE_OK;
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* Of an item, with a poll after each. */
static int32_t count_pieces(const cleave_program *program, int32_t id) {
    const cleave_item *item = &program->items[id];
    const cleave_update *update;
    switch ((cleave_item_kind)item->kind) {
    case CLEAVE_ITEM_COMPUTE:
        return program->computes[item->subject].pieces;
    case CLEAVE_ITEM_UPDATE:
        update = &program->updates[item->subject];
        return cleave_work_pieces_of_bytes(
            cleave_work_bytes_of_update(program->buffers[update->parameter].bytes,
                                        (update->state[0] >= 0) + (update->state[1] >= 0)));
    case CLEAVE_ITEM_COPY:
        return cleave_work_pieces_of_bytes((double)program->copies[item->subject].bytes);
    default:
        return 1;
    }
}

static double polls_of(const cleave_protocol *protocol, double bytes) {
    bool large = protocol->large_from_bytes > 0 && bytes >= protocol->large_from_bytes;
    return large ? protocol->large_polls + protocol->polls_per_byte * bytes : protocol->small_polls;
}

/* When devices work, and what messages wait for. */
static cleave_status make_profile(const settling *s, cleave_cost_cache *cache, cleave_arena *arena,
                                  const cleave_poll_profile **profile, cleave_error *error) {
    const cleave_program *program = s->program;
    int32_t n_devices = program->n_devices, n_messages = program->n_messages, n = 0;
    cleave_poll_profile *made = CLEAVE_ARENA_ARRAY(arena, cleave_poll_profile, 1);
    if (made == NULL)
        return cleave_fail_memory(error, "simulating");
    for (int32_t d = 0; d < n_devices; d++)
        n += s->lanes[d].n;
    made->lane_start = CLEAVE_ARENA_ARRAY(arena, int32_t, (size_t)n_devices + 1);
    made->begin = CLEAVE_ARENA_ARRAY(arena, int64_t, n);
    made->end = CLEAVE_ARENA_ARRAY(arena, int64_t, n);
    made->pieces = CLEAVE_ARENA_ARRAY(arena, int32_t, n);
    made->source = CLEAVE_ARENA_ARRAY(arena, int32_t, n_messages);
    made->destination = CLEAVE_ARENA_ARRAY(arena, int32_t, n_messages);
    made->polls = CLEAVE_ARENA_ARRAY(arena, double, n_messages);
    if (made->lane_start == NULL || made->begin == NULL || made->end == NULL ||
        made->pieces == NULL || made->source == NULL || made->destination == NULL ||
        made->polls == NULL)
        return cleave_fail_memory(error, "simulating");
    for (int32_t d = 0, at = 0; d < n_devices; d++) {
        for (int32_t i = 0; i < s->lanes[d].n; i++, at++) {
            int32_t item = s->lanes[d].items[i], pieces = count_pieces(program, item);
            made->begin[at] = s->timeline->start[item];
            made->end[at] = s->timeline->end[item];
            made->pieces[at] = pieces > 1 ? pieces : 1;
        }
        made->lane_start[d + 1] = at;
    }
    for (int32_t m = 0; m < n_messages; m++) {
        const cleave_message *message = &program->messages[m];
        made->source[m] = message->source;
        made->destination[m] = message->destination;
        made->polls[m] =
            polls_of(cleave_cost_route(cache, message->source, message->destination)->protocol,
                     (double)message->bytes);
    }
    *profile = made;
    return CLEAVE_OK;
}

/* ---- Both ------------------------------------------------------------------------------------ */

static bool is_all_there(const cleave_program *program, const cleave_engine_problem *problem) {
    return program->n_windows < 2 && problem->n_collectives == 0;
}

/* Each message is late by no more than a step, so all times stay far from what an integer holds. */
static bool fits(const settling *s) {
    return s->timeline->step < INT64_MAX / 8 / ((int64_t)s->program->n_messages + 1);
}

static cleave_status settle(settling *s, cleave_cost_cache *cache, cleave_arena *arena,
                            cleave_arena *scratch, cleave_error *error) {
    cleave_engine_problem *problem = s->problem;
    const cleave_poll_profile *profile = NULL;
    CLEAVE_TRY(find_lanes(s, scratch, error));
    if (fits(s))
        CLEAVE_TRY(make_profile(s, cache, arena, &profile, error));
    CLEAVE_TRY(settle_kernels(s, cache, scratch, error));
    problem->polls = profile;
    for (int32_t q = 0; q < problem->n_items; q++)
        problem->queue_items[q].duration = problem->duration[problem->queue_items[q].item];
    return CLEAVE_OK;
}

cleave_status cleave_simulate_settle(const cleave_program *program, cleave_cost_cache *cache,
                                     cleave_rule rule, cleave_arena *arena,
                                     cleave_engine_problem *problem,
                                     cleave_engine_workspace *workspace, cleave_timeline *timeline,
                                     cleave_error *error) {
    cleave_arena scratch = {0};
    settling s = {.program = program,
                  .machine = cleave_cost_cache_machine(cache),
                  .timeline = timeline,
                  .problem = problem};
    if (!cleave_cost_knows_neighbours(cache) || !is_all_there(program, problem))
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_simulate_run(problem, rule, workspace, timeline, error));
    cleave_status status = settle(&s, cache, arena, &scratch, error);
    cleave_arena_free(&scratch);
    return status;
}
