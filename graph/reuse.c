/* Every page of a device's arena knows at which item it was touched last, and what was touched
   since then are the pages with a later one, each counted once: the distance in a stack of pages
   that moves the one in use to the top, as a cache does.  After one step, the second one is what
   all others are like. */
#include "graph/reuse.h"

#include "graph/item_buffers.h"

enum { LEAST_PAGE = 4096, MOST_PAGES = 1 << 14, N_PASSES = 3 };

typedef struct page_clock {
    const cleave_program *program;
    cleave_item_records records;
    int64_t page; /* bytes */
    int64_t n_pages;
    int64_t *touched;    /* [n_pages] when */
    int64_t now;         /* items */
    int32_t last_marked; /* buffer */
} page_clock;

/* Bytes touched since the middle of a buffer was. */
static int64_t bytes_since(const page_clock *clock, int32_t id) {
    if (id < 0 || clock->program->buffers[id].bytes == 0)
        return 0;
    const cleave_buffer *buffer = &clock->program->buffers[id];
    int64_t at = clock->touched[(buffer->offset + buffer->bytes / 2) / clock->page], n = 0;
    for (int64_t p = 0; p < clock->n_pages; p++)
        n += clock->touched[p] > at;
    return n * clock->page;
}

static void mark(void *context, int32_t id) {
    page_clock *clock = context;
    if (id < 0 || id == clock->last_marked) /* pieces of a copy mostly have the same buffers */
        return;
    const cleave_buffer *buffer = &clock->program->buffers[id];
    for (int64_t p = buffer->offset / clock->page; p * clock->page < buffer->offset + buffer->bytes;
         p++)
        clock->touched[p] = clock->now;
    clock->last_marked = id;
}

static void touch(page_clock *clock, const cleave_item *item) {
    if (item->kind == CLEAVE_ITEM_SEND || item->kind == CLEAVE_ITEM_RECEIVE)
        return; /* bytes move until the wait */
    clock->now++;
    clock->last_marked = -1;
    cleave_item_visit_buffers(&clock->records, item, mark, clock);
}

static void look(const page_clock *clock, int64_t step, const cleave_compute *compute,
                 cleave_reuse *reuse) {
    reuse->step = step;
    for (int i = 0; i < CLEAVE_MAX_INPUTS; i++) {
        reuse->inputs[i] = bytes_since(clock, compute->inputs[i]);
        reuse->input_gradients[i] = bytes_since(clock, compute->input_gradients[i]);
    }
    reuse->output = bytes_since(clock, compute->output);
    reuse->output_gradient = bytes_since(clock, compute->output_gradient);
}

cleave_status cleave_program_reuse(const cleave_program *program, int32_t device,
                                   cleave_arena *arena, cleave_reuse **reuse, cleave_error *error) {
    cleave_arena scratch = {0};
    int64_t step = program->peak_bytes[device];
    size_t n = (size_t)program->model->n_nests * N_PASSES;
    cleave_reuse *made = CLEAVE_ARENA_ARRAY(arena, cleave_reuse, n);
    page_clock clock = {.program = program,
                        .records = {program->computes, program->updates, program->loads,
                                    program->copies, program->copy_pieces, program->messages},
                        .page = LEAST_PAGE};
    while (step / clock.page >= MOST_PAGES)
        clock.page *= 2;
    clock.n_pages = step / clock.page + 1;
    clock.touched = CLEAVE_ARENA_ARRAY(&scratch, int64_t, clock.n_pages);
    if (made == NULL || clock.touched == NULL) {
        cleave_arena_free(&scratch);
        return cleave_fail_memory(error, "looking at the use of memory");
    }
    for (size_t i = 0; i < n; i++)
        made[i].step = -1;
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < program->n_items; i++) {
            const cleave_item *item = &program->items[i];
            if (item->device != device)
                continue;
            if (pass == 1 && item->kind == CLEAVE_ITEM_COMPUTE) {
                const cleave_compute *compute = &program->computes[item->subject];
                look(&clock, step, compute, &made[N_PASSES * compute->nest + (int)compute->pass]);
            }
            touch(&clock, item);
        }
    cleave_arena_free(&scratch);
    *reuse = made;
    return CLEAVE_OK;
}
