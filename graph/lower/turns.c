#include "graph/lower/turns.h"

#include <string.h>

static bool tells(const lower_assembly *assembly) { return assembly->builder->turns != NULL; }

void lower_turns_begin(lower_assembly *assembly) {
    const cleave_schedule *schedule = &assembly->builder->layout->schedule;
    if (tells(assembly))
        assembly->told.block_of = LOWER_ARRAY(assembly->builder, int32_t,
                                              (2 + 2 * CLEAVE_N_BLOCK_KINDS * schedule->n_stages) *
                                                  CLEAVE_FEW_MICRO_BATCHES);
}

int32_t lower_turns_window(const lower_assembly *assembly, int32_t micro_batch) {
    int32_t n = assembly->builder->layout->schedule.micro_batches;
    if (!tells(assembly) || micro_batch == 0)
        return micro_batch;
    return micro_batch + 1 < n ? 1 : CLEAVE_FEW_MICRO_BATCHES - 1;
}

bool lower_turns_take(lower_assembly *assembly, int32_t list, int32_t micro_batch) {
    if (!tells(assembly))
        return true;
    bool updates = list == LOWER_TURN_OF_UPDATES;
    int32_t window = lower_turns_window(assembly, micro_batch);
    int32_t *block = &assembly->told.block_of[(list + 2) * CLEAVE_FEW_MICRO_BATCHES + window];
    bool is_new = *block == 0;
    if (is_new) {
        LOWER_PUSH_TO(assembly, told.begins, assembly->items.n);
        LOWER_PUSH_TO(assembly, told.windows, (uint8_t)(updates ? CLEAVE_WINDOW_NONE : window));
        *block = assembly->told.begins.n;
    }
    LOWER_PUSH_TO(assembly, told.turns, (cleave_turn){*block - 1, micro_batch});
    return is_new;
}

void lower_turns_note_buffer(lower_assembly *assembly, int32_t owner) {
    if (tells(assembly))
        LOWER_PUSH_TO(assembly, told.owners, (uint8_t)owner);
}

void lower_turns_rename_buffers(lower_assembly *assembly, const int32_t *renamed) {
    int32_t n = 0;
    for (int32_t b = 0; b < assembly->told.owners.n; b++)
        if (renamed[b] >= 0)
            assembly->told.owners.items[n++] = assembly->told.owners.items[b];
    assembly->told.owners.n = n;
}

static void *copied(lower_builder *builder, const void *items, int32_t n, size_t size) {
    void *copy = lower_array(builder, (size_t)n, size);
    if (n > 0)
        memcpy(copy, items, (size_t)n * size);
    return copy;
}
#define COPIED(builder, list) copied((builder), (list).items, (list).n, sizeof *(list).items)

void lower_turns_finish(lower_assembly *assembly) {
    cleave_turns *turns = assembly->builder->turns;
    if (turns == NULL)
        return;
    LOWER_PUSH_TO(assembly, told.begins, assembly->items.n);
    *turns = (cleave_turns){.micro_batches = assembly->builder->layout->schedule.micro_batches,
                            .n_blocks = assembly->told.windows.n,
                            .n_turns = assembly->told.turns.n};
    lower_builder *builder = assembly->builder;
    turns->first_item = COPIED(builder, assembly->told.begins);
    turns->window = COPIED(builder, assembly->told.windows);
    turns->turns = COPIED(builder, assembly->told.turns);
    turns->owner = COPIED(builder, assembly->told.owners);
}

void lower_turns_free(lower_assembly *assembly) {
    CLEAVE_LIST_FREE(&assembly->told.begins);
    CLEAVE_LIST_FREE(&assembly->told.windows);
    CLEAVE_LIST_FREE(&assembly->told.turns);
    CLEAVE_LIST_FREE(&assembly->told.owners);
}
