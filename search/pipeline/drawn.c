/* Layouts of what is asked for, else drawn by chance: what a search is held against. */
#include "graph/model/axis_sort.h"
#include "graph/model/layout_draw.h"
#include "graph/model/micro_batch.h"
#include "search/pipeline/pipeline.h"
#include "search/problem/baselines.h"

/* So many are drawn until one is legal; and micro-batches that are open are no more than so many.
 */
enum { MOST_DRAWN = 500, MOST_MICRO_BATCHES = 16 };

static cleave_status check_wish(const cleave_schedule_wish *wish, cleave_error *error) {
    if (wish->tensor == 0 && !cleave_schedule_wish_is_megatron(wish) && wish->layers == NULL)
        return CLEAVE_OK;
    return cleave_fail(error, CLEAVE_BAD_INPUT,
                       "method random draws splits and stages: tensor, context, expert and layers "
                       "are of megatron");
}

/* What people name takes the place of what was drawn. */
static cleave_status take_names(const cleave_model *model, const cleave_schedule_wish *wish,
                                cleave_layout *layout, cleave_error *error) {
    if (wish->recompute >= 0)
        CLEAVE_TRY(cleave_recompute_mark(model, (cleave_recompute)wish->recompute, layout, error));
    if (wish->zero > 0)
        cleave_layout_shard(model, (cleave_sharded)(wish->zero - 1), layout);
    return CLEAVE_OK;
}

/* What no layout can have is refused as everywhere. */
static cleave_status begin(const cleave_model *model, const cleave_schedule_wish *wish,
                           cleave_arena *scratch, cleave_schedule_draw *of, cleave_error *error) {
    cleave_axis_sorts sorts;
    cleave_micro_batches cut;
    CLEAVE_TRY(check_wish(wish, error));
    CLEAVE_TRY(cleave_axis_sorts_find(model, scratch, &sorts, error));
    if (wish->micro_batches > 1)
        CLEAVE_TRY(cleave_micro_batches_find(model, wish->micro_batches, scratch, &cut, error));
    int64_t most = sorts.batch < MOST_MICRO_BATCHES ? sorts.batch : MOST_MICRO_BATCHES;
    *of = (cleave_schedule_draw){.most_micro_batches = most > 1 ? (int32_t)most : 1,
                                 .micro_batches = wish->micro_batches,
                                 .stages = wish->stages,
                                 .virtual_stages = wish->virtual_stages,
                                 .kind = wish->kind};
    return CLEAVE_OK;
}

cleave_status cleave_pipeline_draw(const cleave_model *model, int32_t n_devices,
                                   const cleave_schedule_wish *wish, uint64_t seed,
                                   cleave_arena *arena, cleave_layout *layout,
                                   cleave_error *error) {
    cleave_arena scratch = {0};
    cleave_schedule_draw of;
    cleave_status status = begin(model, wish, &scratch, &of, error);
    bool found = false;
    for (uint64_t i = 0; i < MOST_DRAWN && status == CLEAVE_OK && !found; i++) {
        cleave_layout drawn;
        uint64_t key = cleave_hash_join(seed, i);
        cleave_arena_reset(&scratch);
        status = cleave_layout_random(model, n_devices, key, &scratch, &drawn, error);
        found =
            status == CLEAVE_OK && cleave_layout_draw_schedule(model, &of, key, &scratch, &drawn);
        if (found)
            status = take_names(model, wish, &drawn, error);
        found =
            found && status == CLEAVE_OK && cleave_layout_check(model, &drawn, NULL) == CLEAVE_OK;
        if (found)
            status = cleave_layout_keep(&drawn, model, arena, layout, error);
    }
    cleave_arena_free(&scratch);
    if (status == CLEAVE_OK && !found)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "none of %d layouts that were drawn is legal with the stages and "
                           "micro-batches that are asked for",
                           (int)MOST_DRAWN);
    return status;
}
