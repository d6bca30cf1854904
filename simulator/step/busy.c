#include "simulator/step/busy.h"

/* At the first of its two posts. */
static void add_hops(const cleave_engine_problem *problem, int32_t message, int64_t times,
                     cleave_busy *busy) {
    const cleave_priced_fragment *step = &problem->step;
    for (int32_t h = step->hop_start[message]; h < step->hop_start[message + 1]; h++)
        busy->link[step->hop_link[h]] += step->hop_serialization[h] * times;
}

static void add_item(const cleave_engine_problem *problem, int32_t item, int64_t times,
                     bool *is_posted, cleave_busy *busy) {
    const cleave_priced_item of = cleave_priced_item_of(&problem->step, item);
    busy->device[of.queue / 2] += of.duration * times;
    if (of.queue % 2 == CLEAVE_LANE_MAIN)
        busy->main_lanes += of.duration * times;
    if (of.kind != CLEAVE_PRICED_POST)
        return;
    if (!is_posted[of.subject])
        add_hops(problem, of.subject, times, busy);
    is_posted[of.subject] = true;
}

cleave_status cleave_busy_find(const cleave_engine_problem *problem, const cleave_turned *turned,
                               cleave_arena *arena, cleave_busy *busy, cleave_error *error) {
    cleave_busy made = {.n_devices = problem->n_queues / 2, .n_links = problem->n_links};
    bool *is_posted = CLEAVE_ARENA_ARRAY(arena, bool, problem->step.n_messages);
    made.device = CLEAVE_ARENA_ARRAY(arena, int64_t, made.n_devices);
    made.link = CLEAVE_ARENA_ARRAY(arena, int64_t, made.n_links);
    if (is_posted == NULL || made.device == NULL || made.link == NULL)
        return cleave_fail_memory(error, "adding up times");
    for (int32_t b = 0; b < turned->n_blocks; b++)
        for (int32_t i = turned->first_item[b]; i < turned->first_item[b + 1]; i++)
            add_item(problem, i, cleave_turned_times(turned, b), is_posted, &made);
    *busy = made;
    return CLEAVE_OK;
}
