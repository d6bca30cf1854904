#include "search/problem/few_blocks.h"

/* The third is in between. */
enum { KEPT_BLOCKS = 4, MIDDLE_BLOCK = 2 };

static int32_t place_of(const cleave_blocks *blocks, int32_t op) {
    int32_t left_out = (blocks->n - KEPT_BLOCKS) * blocks->period, at = op - blocks->first;
    int32_t block = at / blocks->period;
    if (at < 0 || block <= MIDDLE_BLOCK)
        return op;
    return block < blocks->n - 1
               ? blocks->first + MIDDLE_BLOCK * blocks->period + at % blocks->period
               : op - left_out;
}

cleave_status cleave_few_blocks_make(const cleave_model *model, const cleave_blocks *blocks,
                                     cleave_arena *arena, cleave_few_blocks *few,
                                     cleave_error *error) {
    cleave_few_blocks made = {.model = *model,
                              .stands_for = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_operators)};
    int32_t *ignored = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_operators);
    cleave_status status = CLEAVE_NO_LAYOUT;
    if (made.stands_for == NULL || ignored == NULL)
        return cleave_fail_memory(error, "shortening a model");
    if (blocks->n > KEPT_BLOCKS)
        status =
            cleave_blocks_shorten(model, blocks, KEPT_BLOCKS, arena, &made.model, ignored, error);
    if (status != CLEAVE_OK && status != CLEAVE_NO_LAYOUT)
        return status;
    for (int32_t op = 0; op < model->n_operators; op++)
        made.stands_for[op] = status == CLEAVE_OK ? place_of(blocks, op) : op;
    *few = made;
    return CLEAVE_OK;
}
