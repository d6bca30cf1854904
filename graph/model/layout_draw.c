#include "graph/model/layout_draw.h"

#include <string.h>

/* Where they are open. */
enum { MOST_STAGES = 4 };

/* Stages begin at distinct operators. */
static bool cut_operators(int32_t n_operators, cleave_random *random, cleave_schedule *schedule) {
    for (int32_t s = 1; s < schedule->n_stages; s++) {
        int32_t before = schedule->first_operator[s - 1];
        int32_t room = n_operators - (schedule->n_stages - s) - before;
        if (room < 1)
            return false;
        schedule->first_operator[s] = before + 1 + (int32_t)cleave_random_below(random, room);
    }
    return true;
}

/* The first operator of a stage is on all devices of its group, so that stages that have the group
   in common have the same. */
static cleave_status draw_splits(const cleave_model *model, int32_t stage, int32_t n_groups,
                                 cleave_random *random, cleave_arena *arena,
                                 cleave_layout *layout) {
    const cleave_schedule *schedule = &layout->schedule;
    int32_t g = stage % n_groups, first = layout->n_devices * g / n_groups;
    int32_t n = layout->n_devices * (g + 1) / n_groups - first;
    int32_t end =
        stage + 1 < schedule->n_stages ? schedule->first_operator[stage + 1] : model->n_operators;
    int32_t *devices = CLEAVE_ARENA_ARRAY(arena, int32_t, n);
    for (int32_t op = schedule->first_operator[stage]; op < end; op++) {
        cleave_split split = {.replicas = n, .n_parts = n, .devices = devices};
        if (op == schedule->first_operator[stage] || cleave_random_below(random, 8) == 0)
            for (int32_t d = 0; d < n; d++)
                devices[d] = d;
        else
            cleave_split_random(&model->operators[op], n, random, &split);
        for (int32_t p = 0; p < split.n_parts; p++)
            devices[p] += first;
        CLEAVE_TRY(
            cleave_layout_set(layout, op, split.replicas, split.degree, devices, arena, NULL));
    }
    return CLEAVE_OK;
}

static bool is_open(const cleave_schedule_draw *of) {
    return of->micro_batches == 0 && of->stages == 0 && of->virtual_stages == 0 && of->kind < 0;
}

/* How many stages, on how many groups of devices; false: there are none of that kind. */
static bool draw_stages(const cleave_schedule_draw *of, int32_t n_devices, cleave_random *random,
                        cleave_schedule *schedule, int32_t *n_groups) {
    static const cleave_schedule_kind kinds[] = {CLEAVE_SCHEDULE_1F1B, CLEAVE_SCHEDULE_GPIPE,
                                                 CLEAVE_SCHEDULE_ZB_H1, CLEAVE_SCHEDULE_INTERLEAVED,
                                                 CLEAVE_SCHEDULE_ZB_INTERLEAVED};
    cleave_schedule_kind drawn = kinds[cleave_random_below(random, 5)];
    int32_t groups = 1 + (int32_t)cleave_random_below(random, 3);
    schedule->kind = of->kind < 0 ? drawn : (cleave_schedule_kind)of->kind;
    bool virtual = cleave_schedule_kind_goes_round(schedule->kind);
    int32_t each = !virtual ? 1 : of->virtual_stages > 0 ? of->virtual_stages : 2;
    if (of->stages > 0 && of->stages % each != 0)
        return false;
    groups = of->stages > 0 ? of->stages / each : groups < n_devices ? groups : n_devices;
    schedule->n_stages = groups * each;
    *n_groups = groups;
    return groups <= n_devices && (of->virtual_stages == 0 || of->virtual_stages == each) &&
           (!is_open(of) || schedule->n_stages <= MOST_STAGES);
}

/* As many as drawn, or, where nothing else is asked for, fewer. */
static bool draw_micro_batches(const cleave_model *model, const cleave_schedule_draw *of,
                               cleave_random *random, cleave_layout *layout) {
    int32_t *m = &layout->schedule.micro_batches;
    *m = 1 + (int32_t)cleave_random_below(random, of->most_micro_batches);
    *m = of->micro_batches > 0 ? of->micro_batches : *m;
    while (of->micro_batches == 0 && *m > 1 &&
           cleave_layout_check(model, layout, NULL) != CLEAVE_OK)
        --*m;
    return cleave_layout_check(model, layout, NULL) == CLEAVE_OK;
}

static bool draw(const cleave_model *model, const cleave_schedule_draw *of, cleave_random *random,
                 cleave_arena *arena, cleave_layout *layout) {
    cleave_schedule *schedule = &layout->schedule;
    int32_t n_groups;
    *schedule = (cleave_schedule){0};
    if (!draw_stages(of, layout->n_devices, random, schedule, &n_groups))
        return false;
    schedule->first_operator = CLEAVE_ARENA_ARRAY(arena, int32_t, schedule->n_stages);
    if (schedule->first_operator == NULL || !cut_operators(model->n_operators, random, schedule))
        return false;
    for (int32_t s = 0; s < schedule->n_stages; s++)
        if (draw_splits(model, s, n_groups, random, arena, layout) != CLEAVE_OK)
            return false;
    return draw_micro_batches(model, of, random, layout) &&
           (!is_open(of) || schedule->micro_batches > 1 || schedule->n_stages > 1);
}

/* Some operators, or all that may be. */
static void draw_recomputation(const cleave_model *model, cleave_random *random,
                               cleave_layout *layout) {
    bool all = cleave_random_below(random, 3) == 0;
    for (int32_t op = 0; op < model->n_operators; op++) {
        layout->recompute[op] = all || cleave_random_below(random, 2) == 0;
        if (layout->recompute[op] && cleave_layout_check(model, layout, NULL) != CLEAVE_OK)
            layout->recompute[op] = false;
    }
}

/* Of each parameter no, some or all state; or all of all. */
static void draw_sharding(const cleave_model *model, cleave_random *random, cleave_layout *layout) {
    bool all = cleave_random_below(random, 3) == 0;
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (model->tensors[t].kind == CLEAVE_TENSOR_PARAMETER && cleave_model_trains(model))
            layout->sharded[t] = all ? CLEAVE_SHARDED_WEIGHT
                                     : (uint8_t)cleave_random_below(random, CLEAVE_N_SHARDED);
}

bool cleave_layout_draw_schedule(const cleave_model *model, const cleave_schedule_draw *of,
                                 uint64_t seed, cleave_arena *arena, cleave_layout *layout) {
    cleave_layout drawn;
    cleave_random random = {.key = cleave_hash_join(seed, cleave_hash_string("schedule"))};
    if (cleave_layout_copy(layout, model, arena, &drawn, NULL) != CLEAVE_OK)
        return false;
    bool recomputes = cleave_random_below(&random, 2) == 0;
    bool shards = cleave_random_below(&random, 2) == 0;
    bool has_schedule = (cleave_random_below(&random, 4) > 0 || !is_open(of)) &&
                        draw(model, of, &random, arena, &drawn);
    if (!has_schedule && !is_open(of))
        return false;
    if (has_schedule)
        *layout = drawn;
    if (recomputes)
        draw_recomputation(model, &random, layout);
    if (shards)
        draw_sharding(model, &random, layout);
    return !cleave_layout_is_plain(layout) || !is_open(of);
}
