/* Reuse distances (Mattson et al., 1970: the depth in a stack of what was used last).  Memory is
   cut into blocks.  Every touch of a block is a moment, and a moment is marked while it is the last
   one of its block: then the marks after a block's last moment are the blocks that were touched
   since. A tree of partial sums (Fenwick, 1994) counts them. */
#include "graph/program/reuse.h"

#include "graph/program/item_buffers.h"

enum { LEAST_BLOCK_BYTES = 1 << 12, MOST_BLOCKS = 1 << 14, N_STEPS = 2 };

typedef struct tracker {
    const cleave_program *program;
    int32_t device;
    int64_t block_bytes;
    int64_t *last; /* [n_blocks] moment of the last touch; 0: none yet */
    int64_t n_moments, now;
    int32_t *marks; /* [n_moments + 1] partial sums; null while moments are counted */
} tracker;

/* Blocks. */
typedef struct range {
    int64_t first, end;
} range;

/* Those of some bytes of a buffer. */
static range blocks_of(const tracker *t, int32_t buffer, int64_t offset, int64_t bytes) {
    int64_t at = t->program->buffers[buffer].offset + offset;
    return bytes > 0 ? (range){at / t->block_bytes, (at + bytes - 1) / t->block_bytes + 1}
                     : (range){0, 0};
}

static range blocks_of_all(const tracker *t, int32_t buffer) {
    return blocks_of(t, buffer, 0, t->program->buffers[buffer].bytes);
}

static void mark(tracker *t, int64_t moment, int32_t amount) {
    for (; moment <= t->n_moments; moment += moment & -moment)
        t->marks[moment] += amount;
}

static int64_t marks_until(const tracker *t, int64_t moment) {
    int64_t sum = 0;
    for (; moment > 0; moment -= moment & -moment)
        sum += t->marks[moment];
    return sum;
}

/* Without marks, only counts. */
static void touch(tracker *t, range blocks) {
    if (t->marks == NULL) {
        t->n_moments += blocks.end - blocks.first;
        return;
    }
    for (int64_t b = blocks.first; b < blocks.end; b++) {
        if (t->last[b] > 0)
            mark(t, t->last[b], -1);
        t->last[b] = ++t->now;
        mark(t, t->now, 1);
    }
}

static void touch_buffer(void *context, int32_t buffer) {
    if (buffer >= 0)
        touch(context, blocks_of_all(context, buffer));
}

/* One side of a piece: what lies between its first and its last element. */
static void touch_piece(tracker *t, const cleave_copy_piece *piece, cleave_type type,
                        int32_t buffer, int64_t offset, const int64_t *stride) {
    int64_t bytes = cleave_type_bytes(type), span = 1;
    for (int d = 0; d < piece->rank; d++)
        span += (piece->extent[d] - 1) * stride[d];
    if (buffer >= 0)
        touch(t, blocks_of(t, buffer, offset * bytes, span * bytes));
}

static void touch_copy(tracker *t, const cleave_copy *copy) {
    for (int32_t p = copy->first_piece; p < copy->first_piece + copy->n_pieces; p++) {
        const cleave_copy_piece *piece = &t->program->copy_pieces[p];
        touch_piece(t, piece, piece->source_type, piece->source, piece->source_offset,
                    piece->source_stride);
        touch_piece(t, piece, piece->type, piece->destination, piece->destination_offset,
                    piece->destination_stride);
    }
}

static void touch_message(tracker *t, const cleave_message *message, bool sends) {
    touch(t, sends ? blocks_of(t, message->source_buffer, message->source_offset, message->bytes)
                   : blocks_of(t, message->destination_buffer, message->destination_offset,
                               message->bytes));
}

/* Of other memory: blocks that were touched one after the other have on average half of each other
   in between. */
static int64_t reuse_of(const tracker *t, int32_t buffer) {
    if (buffer < 0)
        return 0;
    range blocks = blocks_of_all(t, buffer);
    int64_t n = blocks.end - blocks.first, all = marks_until(t, t->n_moments), sum = 0;
    for (int64_t b = blocks.first; b < blocks.end; b++)
        sum += all - marks_until(t, t->last[b]);
    int64_t others = n > 0 ? sum / n - (n - 1) / 2 : 0;
    return others > 0 ? others * t->block_bytes : 0;
}

/* A nest that may write over its first input does not where others still read that. */
static bool is_in_place(const tracker *t, const cleave_compute *compute) {
    const cleave_buffer *buffers = t->program->buffers;
    int32_t input = compute->inputs[0], output = compute->output;
    return compute->pass == CLEAVE_PASS_FORWARD && input >= 0 && output >= 0 &&
           buffers[input].offset == buffers[output].offset;
}

static void find_reuse(const tracker *t, const cleave_compute *compute, cleave_reuse *reuse) {
    reuse->in_place = is_in_place(t, compute);
    for (int i = 0; i < CLEAVE_MAX_INPUTS; i++) {
        reuse->bytes[CLEAVE_REUSE_INPUT + i] = reuse_of(t, compute->inputs[i]);
        reuse->bytes[CLEAVE_REUSE_INPUT_GRADIENT + i] = reuse_of(t, compute->input_gradients[i]);
    }
    reuse->bytes[CLEAVE_REUSE_OUTPUT] = reuse_of(t, compute->output);
    reuse->bytes[CLEAVE_REUSE_COMBINED] = reuse_of(t, compute->combined);
    reuse->bytes[CLEAVE_REUSE_OUTPUT_GRADIENT] = reuse_of(t, compute->output_gradient);
}

static void touch_item(tracker *t, const cleave_item_records *records, const cleave_item *item) {
    switch ((cleave_item_kind)item->kind) {
    case CLEAVE_ITEM_COPY:
        touch_copy(t, &records->copies[item->subject]);
        break;
    case CLEAVE_ITEM_SEND:
    case CLEAVE_ITEM_RECEIVE:
        touch_message(t, &records->messages[item->subject], item->kind == CLEAVE_ITEM_SEND);
        break;
    case CLEAVE_ITEM_WAIT:
        break;
    default:
        cleave_item_visit_buffers(records, item, touch_buffer, t);
    }
}

/* A step of the device; with `reuses` null nothing is found. */
static void go_through(tracker *t, cleave_reuse *reuses) {
    const cleave_program *program = t->program;
    const cleave_item_records records = {.computes = program->computes,
                                         .updates = program->updates,
                                         .loads = program->loads,
                                         .copies = program->copies,
                                         .copy_pieces = program->copy_pieces,
                                         .messages = program->messages};
    for (int32_t i = 0; i < program->n_items; i++) {
        const cleave_item *item = &program->items[i];
        if (item->device != t->device)
            continue;
        if (reuses != NULL && item->kind == CLEAVE_ITEM_COMPUTE)
            find_reuse(t, &program->computes[item->subject], &reuses[item->subject]);
        touch_item(t, &records, item);
    }
}

static cleave_status track(const cleave_program *program, int32_t device, cleave_reuse *reuses,
                           cleave_error *error) {
    tracker t = {.program = program, .device = device};
    cleave_arena scratch = {0};
    int64_t bytes = program->peak_bytes[device];
    t.block_bytes =
        bytes / MOST_BLOCKS > LEAST_BLOCK_BYTES ? bytes / MOST_BLOCKS : LEAST_BLOCK_BYTES;
    go_through(&t, NULL);
    t.n_moments *= N_STEPS;
    t.last = CLEAVE_ARENA_ARRAY(&scratch, int64_t, bytes / t.block_bytes + 1);
    t.marks = CLEAVE_ARENA_ARRAY(&scratch, int32_t, t.n_moments + 1);
    if (t.last == NULL || t.marks == NULL) {
        cleave_arena_free(&scratch);
        return cleave_fail_memory(error, "finding how far apart memory is used");
    }
    for (int step = 0; step < N_STEPS; step++)
        go_through(&t, step == N_STEPS - 1 ? reuses : NULL);
    cleave_arena_free(&scratch);
    return CLEAVE_OK;
}

cleave_status cleave_reuse_find(const cleave_program *program, cleave_arena *arena,
                                cleave_reuse **reuses, cleave_error *error) {
    *reuses = CLEAVE_ARENA_ARRAY(arena, cleave_reuse, program->n_computes);
    if (*reuses == NULL)
        return cleave_fail_memory(error, "finding how far apart memory is used");
    for (int32_t d = 0; d < program->n_devices; d++)
        CLEAVE_TRY(track(program, d, *reuses, error));
    return CLEAVE_OK;
}
