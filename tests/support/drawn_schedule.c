#include "drawn_schedule.h"

#include <string.h>

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

static bool draw(const cleave_model *model, int32_t most, cleave_random *random,
                 cleave_arena *arena, cleave_layout *layout) {
    static const cleave_schedule_kind kinds[] = {CLEAVE_SCHEDULE_1F1B, CLEAVE_SCHEDULE_GPIPE,
                                                 CLEAVE_SCHEDULE_ZB_H1,
                                                 CLEAVE_SCHEDULE_INTERLEAVED};
    cleave_schedule *schedule = &layout->schedule;
    int32_t stages[MOST_STAGES] = {0};
    *schedule =
        (cleave_schedule){.kind = kinds[cleave_random_below(random, 4)], .first_operator = stages};
    int32_t n_groups = 1 + (int32_t)cleave_random_below(random, 3);
    n_groups = n_groups < layout->n_devices ? n_groups : layout->n_devices;
    bool virtual = schedule->kind == CLEAVE_SCHEDULE_INTERLEAVED;
    schedule->n_stages = virtual ? 2 * n_groups : n_groups;
    if (schedule->n_stages > MOST_STAGES || !cut_operators(model->n_operators, random, schedule))
        return false;
    for (int32_t s = 0; s < schedule->n_stages; s++)
        if (draw_splits(model, s, n_groups, random, arena, layout) != CLEAVE_OK)
            return false;
    schedule->micro_batches = 1 + (int32_t)cleave_random_below(random, most);
    while (schedule->micro_batches > 1 && cleave_layout_check(model, layout, NULL) != CLEAVE_OK)
        schedule->micro_batches--;
    cleave_schedule kept;
    if ((schedule->micro_batches == 1 && schedule->n_stages == 1) ||
        cleave_layout_check(model, layout, NULL) != CLEAVE_OK ||
        cleave_schedule_copy(schedule, arena, &kept, NULL) != CLEAVE_OK)
        return false;
    *schedule = kept;
    return true;
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

bool draw_schedule(const cleave_model *model, uint64_t seed, int32_t most, cleave_arena *arena,
                   cleave_layout *layout) {
    cleave_layout drawn;
    cleave_random random = {.key = cleave_hash_join(seed, cleave_hash_string("schedule"))};
    if (cleave_layout_copy(layout, model, arena, &drawn, NULL) != CLEAVE_OK)
        return false;
    bool recomputes = cleave_random_below(&random, 2) == 0;
    bool shards = cleave_random_below(&random, 2) == 0;
    if (cleave_random_below(&random, 4) > 0 && draw(model, most, &random, arena, &drawn))
        *layout = drawn;
    if (recomputes)
        draw_recomputation(model, &random, layout);
    if (shards)
        draw_sharding(model, &random, layout);
    return !cleave_layout_is_plain(layout);
}
