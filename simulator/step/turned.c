#include "simulator/step/turned.h"

#include "base/order.h"

static bool list_turns(cleave_turned *of, cleave_arena *arena) {
    int32_t *next = CLEAVE_ARENA_ARRAY(arena, int32_t, (size_t)of->n_blocks + 2);
    of->turn_of = CLEAVE_ARENA_ARRAY(arena, int32_t, of->n_turns);
    of->begin = CLEAVE_ARENA_ARRAY(arena, int32_t, (size_t)of->n_turns + 1);
    if (next == NULL || of->turn_of == NULL || of->begin == NULL)
        return false;
    /* Counts two places on, so that filling in leaves the firsts in their own places. */
    for (int32_t t = 0; t < of->n_turns; t++)
        next[of->turns[t].block + 2]++;
    for (int32_t b = 0; b < of->n_blocks; b++)
        next[b + 2] += next[b + 1];
    for (int32_t t = 0; t < of->n_turns; t++)
        of->turn_of[next[of->turns[t].block + 1]++] = t;
    of->first_turn = next;
    return true;
}

static cleave_status number_items(cleave_turned *of, cleave_error *error) {
    int64_t n = 0;
    for (int32_t t = 0; t < of->n_turns; t++) {
        const int32_t *first = &of->first_item[of->turns[t].block];
        of->begin[t] = (int32_t)n;
        n += first[1] - first[0];
        if (n > INT32_MAX)
            return cleave_fail(error, CLEAVE_FAILED, "the program has more than 2^31 items");
    }
    of->begin[of->n_turns] = of->n_items = (int32_t)n;
    return CLEAVE_OK;
}

cleave_status cleave_turned_make(int32_t n_items, const cleave_turns *turns, cleave_arena *arena,
                                 cleave_turned *turned, cleave_error *error) {
    cleave_turned made = {.n_blocks = 1, .n_turns = 1};
    int32_t *whole = CLEAVE_ARENA_ARRAY(arena, int32_t, 2);
    cleave_turn *once = CLEAVE_ARENA_ARRAY(arena, cleave_turn, 1);
    if (whole == NULL || once == NULL)
        return cleave_fail_memory(error, "numbering items");
    whole[1] = n_items;
    made.first_item = whole;
    made.turns = once;
    if (turns != NULL) {
        made.n_blocks = turns->n_blocks;
        made.n_turns = turns->n_turns;
        made.first_item = turns->first_item;
        made.turns = turns->turns;
    }
    if (!list_turns(&made, arena))
        return cleave_fail_memory(error, "numbering items");
    CLEAVE_TRY(number_items(&made, error));
    *turned = made;
    return CLEAVE_OK;
}

static cleave_turned_item item_of(const cleave_turned *turned, int32_t turn, int32_t item) {
    int32_t first = turned->first_item[turned->turns[turn].block];
    return (cleave_turned_item){
        .number = turned->begin[turn] + item - first, .turn = turn, .item = item};
}

cleave_turned_item cleave_turned_at(const cleave_turned *turned, int32_t number) {
    int32_t turn = cleave_last_not_above(turned->begin, turned->n_turns, number);
    int32_t first = turned->first_item[turned->turns[turn].block];
    return (cleave_turned_item){
        .number = number, .turn = turn, .item = first + number - turned->begin[turn]};
}

/* A block takes its micro-batches in order, without a gap. */
cleave_turned_item cleave_turned_refers_to(const cleave_turned *turned, int32_t turn,
                                           int32_t item) {
    int32_t block = cleave_last_not_above(turned->first_item, turned->n_blocks, item);
    const int32_t *turns = &turned->turn_of[turned->first_turn[block]];
    int32_t later = 0;
    if (cleave_turned_times(turned, block) > 1)
        later = turned->turns[turn].micro_batch - turned->turns[turns[0]].micro_batch;
    return item_of(turned, turns[later], item);
}
