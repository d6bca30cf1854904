#include "graph/lower/turns.h"

#include "base/order.h"

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

/* ---- ends of lives --------------------------------------------------------------------------- */

static bool is_in_block(const lower_assembly *assembly, int32_t item, int32_t block) {
    const int32_t *begins = assembly->told.begins.items;
    return begins[block] <= item &&
           (block + 1 == assembly->told.begins.n || item < begins[block + 1]);
}

void lower_turns_note_use(lower_assembly *assembly, int32_t buffer, int32_t item) {
    if (!tells(assembly) || assembly->told.owners.items[buffer] != 1)
        return;
    if (assembly->told.block_end == NULL) {
        size_t n = (size_t)assembly->buffers.n;
        assembly->told.block_end = LOWER_ARRAY(assembly->builder, int32_t, n);
        memset(assembly->told.block_end, -1, n * sizeof *assembly->told.block_end);
    }
    int32_t *first = &assembly->told.block_end[buffer];
    for (int32_t e = *first; e >= 0; e = assembly->told.block_ends.items[e].next) {
        lower_block_end *end = &assembly->told.block_ends.items[e];
        if (is_in_block(assembly, item, end->block)) {
            end->item = item > end->item ? item : end->item;
            return;
        }
    }
    int32_t block =
        cleave_last_not_above(assembly->told.begins.items, assembly->told.begins.n, item);
    LOWER_PUSH_TO(assembly, told.block_ends, (lower_block_end){block, item, *first});
    *first = assembly->told.block_ends.n - 1;
}

static void list_turns(lower_assembly *assembly) {
    int32_t n_blocks = assembly->told.windows.n, n_turns = assembly->told.turns.n;
    int32_t *first = LOWER_ARRAY(assembly->builder, int32_t, n_blocks + 2);
    int32_t *turns = LOWER_ARRAY(assembly->builder, int32_t, n_turns);
    for (int32_t t = 0; t < n_turns; t++)
        first[assembly->told.turns.items[t].block + 2]++;
    for (int32_t b = 0; b < n_blocks; b++)
        first[b + 2] += first[b + 1];
    for (int32_t t = 0; t < n_turns; t++)
        turns[first[assembly->told.turns.items[t].block + 1]++] = t;
    assembly->told.first_turn = first;
    assembly->told.turns_of = turns;
}

/* Most buffers ask what the one before them asked: of a block, with which other one it was
   compared, and what came of it. */
typedef struct comparison {
    int32_t other; /* -1: none */
    bool overtakes;
} comparison;

/* Does a block come behind another one in any micro-batch in between? */
static bool overtakes(const lower_assembly *assembly, comparison *known, int32_t block,
                      int32_t other) {
    if (known[block].other == other)
        return known[block].overtakes;
    const int32_t *first = assembly->told.first_turn;
    const int32_t *turns = &assembly->told.turns_of[first[block]],
                  *others = &assembly->told.turns_of[first[other]];
    int32_t n = first[block + 1] - first[block], n_others = first[other + 1] - first[other];
    bool behind = false;
    for (int32_t i = 0; i < n && i < n_others && !behind; i++)
        behind = turns[i] > others[i];
    known[block] = (comparison){other, behind};
    return behind;
}

/* But the last one in the order of the program. */
static void keep_ends(lower_assembly *assembly, comparison *known, int32_t first) {
    const lower_block_end *ends = assembly->told.block_ends.items;
    int32_t last = first;
    for (int32_t e = first; e >= 0; e = ends[e].next)
        last = ends[e].item > ends[last].item ? e : last;
    for (int32_t e = first; e >= 0; e = ends[e].next)
        if (e != last && overtakes(assembly, known, ends[e].block, ends[last].block))
            LOWER_PUSH_TO(assembly, told.ends, ends[e].item);
}

void lower_turns_rename_buffers(lower_assembly *assembly, const int32_t *renamed) {
    if (!tells(assembly))
        return;
    int32_t n = 0, n_blocks = assembly->told.windows.n;
    comparison *known = LOWER_ARRAY(assembly->builder, comparison, n_blocks);
    for (int32_t b = 0; b < n_blocks; b++)
        known[b].other = -1;
    list_turns(assembly);
    for (int32_t b = 0; b < assembly->told.owners.n; b++) {
        if (renamed[b] < 0)
            continue;
        assembly->told.owners.items[n++] = assembly->told.owners.items[b];
        LOWER_PUSH_TO(assembly, told.first_ends, assembly->told.ends.n);
        if (assembly->told.block_end != NULL && assembly->told.block_end[b] >= 0)
            keep_ends(assembly, known, assembly->told.block_end[b]);
    }
    LOWER_PUSH_TO(assembly, told.first_ends, assembly->told.ends.n);
    assembly->told.owners.n = n;
}

/* ---------------------------------------------------------------------------------------------- */

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
    turns->first_turn =
        copied(builder, assembly->told.first_turn, turns->n_blocks + 1, sizeof *turns->first_turn);
    turns->turns_of =
        copied(builder, assembly->told.turns_of, turns->n_turns, sizeof *turns->turns_of);
    turns->owner = COPIED(builder, assembly->told.owners);
    turns->first_end = COPIED(builder, assembly->told.first_ends);
    turns->ends = COPIED(builder, assembly->told.ends);
}

void lower_turns_free(lower_assembly *assembly) {
    CLEAVE_LIST_FREE(&assembly->told.begins);
    CLEAVE_LIST_FREE(&assembly->told.windows);
    CLEAVE_LIST_FREE(&assembly->told.turns);
    CLEAVE_LIST_FREE(&assembly->told.owners);
    CLEAVE_LIST_FREE(&assembly->told.block_ends);
    CLEAVE_LIST_FREE(&assembly->told.first_ends);
    CLEAVE_LIST_FREE(&assembly->told.ends);
}
