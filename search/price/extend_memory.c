/* Buffers of the middle block come again with it: those of an item of it by their first use, what
   persists, and what is there from the beginning, by its tensor.  The k-th buffer of a block is the
   counterpart of the k-th of the next one. */
#include "graph/program/memory_plan.h"
#include "search/price/extend_internal.h"

#include <string.h>

typedef struct memory {
    extender *e;
    int32_t *block; /* [n_buffers] that it belongs to; -1: none */
    int32_t *next;  /* [n_buffers] of the middle block's: the counterpart in the block after */
    int32_t *before;
    cleave_lives lives; /* extended: of buffers with memory of their own */
    cleave_life *items;
} memory;

static int32_t block_of(const extender *e, const cleave_buffer *buffer) {
    int32_t by_item = buffer->first > 0 && !buffer->persistent ? e->block[buffer->first] : -1;
    return by_item >= 0 || buffer->tensor < 0 ? by_item : e->by->block_of_tensor[buffer->tensor];
}

/* Pairs the buffers of a block with those of the next one, in order. */
static bool pair(const memory *m, int32_t block, int32_t next_block, int32_t *counterpart) {
    int32_t n = m->e->by->program->n_buffers, other = 0;
    for (int32_t b = 0; b < n; b++) {
        if (m->block[b] != block)
            continue;
        while (other < n && m->block[other] != next_block)
            other++;
        if (other == n)
            return false;
        counterpart[b] = other++;
    }
    while (other < n && m->block[other] != next_block)
        other++;
    return other == n;
}

static bool same_buffer(const cleave_program *program, int32_t a, int32_t b) {
    const cleave_buffer *x = &program->buffers[a], *y = &program->buffers[b];
    return x->kind == y->kind && x->device == y->device && x->bytes == y->bytes &&
           x->padding == y->padding && x->persistent == y->persistent &&
           x->lane_only == y->lane_only && (x->storage == a) == (y->storage == b);
}

/* The ends of a life. */
enum { FIRST, LAST, LANE_FIRST, LANE_LAST, N_ENDS };
typedef struct life {
    extend_reference ends[N_ENDS];
} life;

static int32_t end_of(const cleave_program *program, int32_t b, int end) {
    const cleave_life of = cleave_buffer_life(&program->buffers[b]);
    return end == FIRST        ? of.first
           : end == LAST       ? of.last
           : end == LANE_FIRST ? of.lane_first
                               : of.lane_last;
}

static bool find_life(const memory *m, int32_t b, life *of) {
    const cleave_program *program = m->e->by->program;
    const cleave_buffer *buffer = &program->buffers[b];
    int n_ends = buffer->persistent ? 0 : buffer->lane_only ? N_ENDS : LANE_FIRST;
    for (int end = 0; end < n_ends; end++) {
        extend_target target = {.item = end_of(program, b, end)};
        if (m->block[b] == m->e->by->middle) {
            target.next = end_of(program, m->next[b], end);
            target.before = end_of(program, m->before[b], end);
        }
        if (!extend_refer(m->e, m->block[b], target, &of->ends[end]))
            return false;
    }
    return true;
}

static int32_t position(const extender *e, const extend_reference *reference, int32_t copy) {
    int32_t of_copy, item = extend_resolve(e, reference, copy, &of_copy);
    return extend_place(e, item, of_copy);
}

static bool add_copies(memory *m, int32_t b) {
    extender *e = m->e;
    const cleave_program *from = e->by->program;
    bool repeats = m->block[b] == e->by->middle;
    life of;
    if (repeats && (!same_buffer(from, b, m->next[b]) || !same_buffer(from, b, m->before[b])))
        return false;
    if (!find_life(m, b, &of))
        return false;
    for (int32_t copy = 0; copy < (repeats ? e->by->more + 1 : 1); copy++) {
        cleave_life *made = &m->items[m->lives.n++];
        bool persists = from->buffers[b].persistent, lane_only = from->buffers[b].lane_only;
        made->device = from->buffers[b].device;
        made->bytes = from->buffers[b].bytes + from->buffers[b].padding;
        made->first = persists ? 0 : position(e, &of.ends[FIRST], copy);
        made->last = persists ? e->n_items - 1 : position(e, &of.ends[LAST], copy);
        made->lane_only = lane_only;
        made->lane_first = lane_only ? position(e, &of.ends[LANE_FIRST], copy) : 0;
        made->lane_last = lane_only ? position(e, &of.ends[LANE_LAST], copy) : 0;
    }
    return true;
}

static cleave_status find_blocks(memory *m, bool *alike, int32_t *n_roots, int32_t *n_buffers) {
    extender *e = m->e;
    const cleave_program *from = e->by->program;
    int32_t middle = e->by->middle, roots = 0, roots_of_middle = 0, of_middle = 0;
    m->block = CLEAVE_ARENA_ARRAY(e->arena, int32_t, from->n_buffers);
    m->next = CLEAVE_ARENA_ARRAY(e->arena, int32_t, from->n_buffers);
    m->before = CLEAVE_ARENA_ARRAY(e->arena, int32_t, from->n_buffers);
    if (m->block == NULL || m->next == NULL || m->before == NULL)
        return cleave_fail_memory(e->error, "repeating blocks");
    for (int32_t b = 0; b < from->n_buffers; b++) {
        m->block[b] = block_of(e, &from->buffers[b]);
        bool is_root = from->buffers[b].storage == b, repeats = m->block[b] == middle;
        roots += is_root;
        of_middle += repeats;
        roots_of_middle += is_root && repeats;
    }
    *alike = pair(m, middle, middle + 1, m->next) && pair(m, middle, middle - 1, m->before);
    return extend_count(e, roots, roots_of_middle, n_roots) &&
                   extend_count(e, from->n_buffers, of_middle, n_buffers)
               ? CLEAVE_OK
               : cleave_fail(e->error, CLEAVE_FAILED, "the program has more than 2^31 buffers");
}

cleave_status extend_buffers(extender *e, bool *alike) {
    memory m = {.e = e};
    int32_t n_roots, n_buffers;
    CLEAVE_TRY(find_blocks(&m, alike, &n_roots, &n_buffers));
    if (!*alike)
        return CLEAVE_OK;
    int64_t *offset = CLEAVE_ARENA_ARRAY(e->arena, int64_t, n_roots);
    m.items = CLEAVE_ARENA_ARRAY(e->arena, cleave_life, n_roots);
    e->program->peak_bytes = CLEAVE_ARENA_ARRAY(e->arena, int64_t, e->program->n_devices);
    if (m.items == NULL || offset == NULL || e->program->peak_bytes == NULL)
        return cleave_fail_memory(e->error, "repeating blocks");
    m.lives =
        (cleave_lives){.n_devices = e->program->n_devices, .n_items = e->n_items, .items = m.items};
    for (int32_t b = 0; b < e->by->program->n_buffers && *alike; b++)
        if (e->by->program->buffers[b].storage == b)
            *alike = add_copies(&m, b);
    if (!*alike)
        return CLEAVE_OK;
    e->program->n_buffers = n_buffers;
    return cleave_memory_plan_lives(&m.lives, NULL, offset, e->program->peak_bytes, e->error);
}
