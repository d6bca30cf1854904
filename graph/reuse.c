/* A clock of bytes runs through the items of a device, and every page of its arena knows when it
   was touched last.  After one step, the second one is what all others are like. */
#include "graph/reuse.h"

#include "graph/item_buffers.h"

enum { PAGE = 4096, N_PASSES = 3 };

typedef struct page_clock {
    const cleave_program *program;
    cleave_item_records records;
    int64_t *touched; /* [pages of the arena] when */
    int64_t now;
    int32_t last_marked; /* buffer */
} page_clock;

static int64_t first_page(const cleave_buffer *buffer) { return buffer->offset / PAGE; }

static int64_t end_page(const cleave_buffer *buffer) {
    return (buffer->offset + buffer->bytes + PAGE - 1) / PAGE;
}

/* The mean over the pages of a buffer. */
static int64_t time_since(const page_clock *clock, int32_t id) {
    if (id < 0 || clock->program->buffers[id].bytes == 0)
        return 0;
    const cleave_buffer *buffer = &clock->program->buffers[id];
    int64_t first = first_page(buffer), n = end_page(buffer) - first;
    double sum = 0;
    for (int64_t p = first; p < first + n; p++)
        sum += (double)(clock->now - clock->touched[p]);
    return (int64_t)(sum / (double)n);
}

static void mark(void *context, int32_t id) {
    page_clock *clock = context;
    if (id < 0 || id == clock->last_marked) /* pieces of a copy mostly have the same buffers */
        return;
    const cleave_buffer *buffer = &clock->program->buffers[id];
    for (int64_t p = first_page(buffer); p < end_page(buffer); p++)
        clock->touched[p] = clock->now;
    clock->last_marked = id;
}

static void pass_time(void *context, int32_t id) {
    page_clock *clock = context;
    clock->now += id >= 0 ? clock->program->buffers[id].bytes : 0;
}

static void touch(page_clock *clock, const cleave_item *item) {
    bool is_copy = item->kind == CLEAVE_ITEM_COPY;
    if (item->kind == CLEAVE_ITEM_SEND || item->kind == CLEAVE_ITEM_RECEIVE)
        return; /* bytes move until the wait */
    if (is_copy)
        clock->now += clock->program->copies[item->subject].bytes;
    else
        cleave_item_visit_buffers(&clock->records, item, pass_time, clock);
    clock->last_marked = -1;
    cleave_item_visit_buffers(&clock->records, item, mark, clock);
}

static void look(const page_clock *clock, int64_t step, const cleave_compute *compute,
                 cleave_reuse *reuse) {
    reuse->step = step;
    for (int i = 0; i < CLEAVE_MAX_INPUTS; i++) {
        reuse->inputs[i] = time_since(clock, compute->inputs[i]);
        reuse->input_gradients[i] = time_since(clock, compute->input_gradients[i]);
    }
    reuse->output = time_since(clock, compute->output);
    reuse->output_gradient = time_since(clock, compute->output_gradient);
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
                        .touched = CLEAVE_ARENA_ARRAY(&scratch, int64_t, step / PAGE + 2)};
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
            if (item->kind == CLEAVE_ITEM_COMPUTE) {
                const cleave_compute *compute = &program->computes[item->subject];
                look(&clock, step, compute, &made[N_PASSES * compute->nest + (int)compute->pass]);
            }
            touch(&clock, item);
        }
    cleave_arena_free(&scratch);
    *reuse = made;
    return CLEAVE_OK;
}
