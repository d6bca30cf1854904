/* Keys that go round (graph/model/ring.h): from the part that has a block to the next part of the
   queries, in the communication lane, while the block is worked on.  So two blocks of keys, and two
   of values, are all that a device has beside its own.

   In backward keys go the same way once more, and the gradient of a block goes with it: behind its
   turn each part adds what it gave, while the next one is at work already on what the block alone
   gives.  Whoever is the last contributes the sum to the gradient of the tensor.  So sums go in the
   order of turns. */
#include "graph/lower/events.h"

#include "graph/model/ring.h"

#include <string.h>

/* The part that has in the next turn the block that part p now has. */
static int32_t next_part(const lowering *state, const cleave_nest *nest, int32_t p) {
    const lower_builder *builder = &state->base;
    const cleave_operator *op = &builder->model->operators[nest->op];
    const int32_t *degree = builder->layout->splits[nest->op].degree;
    int rows = nest->operator_axis[nest->attention->rows];
    int32_t stride = 1;
    for (int a = rows + 1; a < op->n_axes; a++)
        stride *= degree[a];
    bool is_last = p / stride % degree[rows] == degree[rows] - 1;
    return is_last ? p - (degree[rows] - 1) * stride : p + stride;
}

/* The same event of the next turn; -1: this was the last. */
static int32_t next_event(const lowering *state, const lower_event *event) {
    const lower_schedule *schedule = state->schedule;
    const cleave_nest *nest = &state->base.model->nests[event->nest];
    int32_t n = event->nest + 1, pass = schedule->slots[event->slot].pass;
    if (nest->turn + 1 == nest->n_turns)
        return -1;
    if (event->kind == LOWER_WRITE_GRADIENT)
        return schedule->write_gradient[n][event->input];
    if (pass != CLEAVE_PASS_FORWARD)
        return schedule->read_back[n][pass - 1][event->input];
    return (event->again ? schedule->read_again : schedule->read)[n][event->input];
}

/* What goes from one device to another in the communication lane. */
typedef struct hop {
    int32_t source, from, destination, to; /* devices and buffers */
    lower_run run;
} hop;

/* All devices at once; returns how far the lane has come then on each. */
static int32_t *pass_on(lowering *state, int32_t tensor, int32_t n, hop *hops) {
    lower_builder *builder = &state->base;
    int32_t *after = LOWER_ARRAY(builder, int32_t, builder->n_devices);
    for (int32_t i = 0; i < n; i++)
        after[hops[i].source] = after[hops[i].destination] = 1;
    for (int32_t d = 0; d < builder->n_devices; d++)
        if (after[d] > 0)
            lower_sync(builder, lower_mark(builder, d, CLEAVE_LANE_MAIN));
    for (int32_t i = 0; i < n; i++)
        hops[i].run =
            lower_post(builder, &(cleave_message){.source = hops[i].source,
                                                  .destination = hops[i].destination,
                                                  .lane = CLEAVE_LANE_COMMUNICATION,
                                                  .bytes = builder->buffers.items[hops[i].to].bytes,
                                                  .source_buffer = hops[i].from,
                                                  .destination_buffer = hops[i].to,
                                                  .tensor = tensor});
    for (int32_t i = 0; i < n; i++) {
        lower_wait_at_receiver(builder, hops[i].run);
        lower_wait_at_sender(builder, hops[i].run);
    }
    for (int32_t d = 0; d < builder->n_devices; d++)
        after[d] = after[d] > 0 ? lower_mark(builder, d, CLEAVE_LANE_COMMUNICATION) : -1;
    return after;
}

/* What came, and what was sent to bring it, is the main lane's from here on. */
static void await_passing(lowering *state, const lower_passing *passing) {
    for (int32_t d = 0; d < state->base.n_devices && passing->after != NULL; d++)
        if (passing->after[d] >= 0)
            lower_sync(&state->base, passing->after[d]);
}

/* ---- keys and values ------------------------------------------------------------------------- */

static void pass_keys(lowering *state, const lower_event *event, int32_t next) {
    lower_builder *builder = &state->base;
    const lower_schedule *schedule = state->schedule;
    const cleave_nest *nest = &builder->model->nests[event->nest];
    const cleave_parts *parts = &builder->parts[event->nest];
    hop *hops = LOWER_ARRAY(builder, hop, parts->n);
    int32_t n = 0;
    for (int32_t p = 0; p < parts->n; p++) {
        int32_t to = next_part(state, nest, p), operand = lower_row(state, next)[to];
        if (operand < 0)
            continue;
        int32_t has = lower_row(state, (int32_t)(event - schedule->events))[p];
        hops[n++] = (hop){.source = parts->items[p].device,
                          .from = state->operands.items[has].buffer,
                          .destination = state->operands.items[operand].device,
                          .to = state->operands.items[operand].buffer};
    }
    if (n > 0)
        state->passing[schedule->events[next].ring].after = pass_on(state, event->tensor, n, hops);
}

void lower_ring_read(lowering *state, const lower_event *event) {
    lower_builder *builder = &state->base;
    int32_t e = (int32_t)(event - state->schedule->events), next = next_event(state, event);
    cleave_when when = lower_value_when(builder, event->tensor);
    lower_do(builder, when);
    if (event->ring >= 0)
        await_passing(state, &state->passing[event->ring]);
    for (int32_t p = 0; p < builder->parts[event->nest].n; p++) {
        int32_t operand = lower_row(state, e)[p];
        if (operand < 0)
            continue;
        lower_operand_arrive(state, operand);
        lower_binding(state, e)[p] = state->operands.items[operand].buffer;
    }
    lower_do(builder, when);
    if (next >= 0)
        pass_keys(state, event, next);
}

/* ---- their gradients ------------------------------------------------------------------------- */

static void add_received(lowering *state, const lower_event *event, int32_t own, int32_t received) {
    lower_builder *builder = &state->base;
    lower_region to = lower_region_of(builder, own), from = lower_region_of(builder, received);
    lower_copy_begin(builder);
    lower_copy_add(builder, event->tensor, CLEAVE_COPY_SUM, &to.box, &to, &from, 0);
    lower_copy_end(builder, builder->buffers.items[own].device, CLEAVE_LANE_MAIN);
}

/* A buffer with the elements of another one, as partial sums are sent. */
static int32_t like(lowering *state, int32_t buffer, int32_t device) {
    lower_builder *builder = &state->base;
    const cleave_buffer of = builder->buffers.items[buffer];
    return lower_buffer_of_type(builder, CLEAVE_BUFFER_MESSAGE, device, of.tensor,
                                cleave_reduce_type(builder->model, of.tensor, of.type), &of.box);
}

/* Where a sum lies as it is sent. */
static int32_t pack(lowering *state, const lower_event *event, int32_t own) {
    lower_builder *builder = &state->base;
    int32_t device = builder->buffers.items[own].device;
    if (cleave_reduce_type(builder->model, event->tensor, lower_type_of(builder, own)) ==
        lower_type_of(builder, own))
        return own;
    int32_t packed = like(state, own, device);
    lower_region to = lower_region_of(builder, packed), from = lower_region_of(builder, own);
    lower_copy_begin(builder);
    lower_copy_add(builder, event->tensor, CLEAVE_COPY_ASSIGN, &to.box, &to, &from, 0);
    lower_copy_end(builder, device, CLEAVE_LANE_MAIN);
    return packed;
}

static void pass_sums(lowering *state, const lower_event *event, int32_t next,
                      const int32_t *sums) {
    lower_builder *builder = &state->base;
    const cleave_nest *nest = &builder->model->nests[event->nest];
    const cleave_parts *parts = &builder->parts[event->nest];
    lower_passing *passing = &state->passing[state->schedule->events[next].ring];
    hop *hops = LOWER_ARRAY(builder, hop, parts->n);
    int32_t n = 0;
    passing->received = LOWER_ARRAY(builder, int32_t, parts->n);
    for (int32_t p = 0; p < parts->n; p++) {
        int32_t to = next_part(state, nest, p);
        if (sums[p] < 0 || builder->parts[event->nest + 1].items[to].empty)
            continue;
        int32_t device = parts->items[to].device;
        passing->received[to] = like(state, sums[p], device);
        hops[n++] = (hop){.source = parts->items[p].device,
                          .from = pack(state, event, sums[p]),
                          .destination = device,
                          .to = passing->received[to]};
    }
    if (n > 0)
        passing->after = pass_on(state, event->tensor, n, hops);
}

void lower_ring_gradient(lowering *state, const lower_event *event) {
    lower_builder *builder = &state->base;
    const cleave_nest *nest = &builder->model->nests[event->nest];
    const cleave_parts *parts = &builder->parts[event->nest];
    const int32_t *own = lower_binding(state, (int32_t)(event - state->schedule->events));
    int32_t next = next_event(state, event);
    cleave_when when = lower_goes_on(builder, event->nest)
                           ? CLEAVE_WHEN_EVERY
                           : cleave_when_gradient(lower_value_when(builder, nest->output.tensor));
    lower_do(builder, when);
    if (event->ring >= 0)
        await_passing(state, &state->passing[event->ring]);
    for (int32_t p = 0; p < parts->n && event->ring >= 0; p++)
        if (!parts->items[p].empty)
            add_received(state, event, own[p], state->passing[event->ring].received[p]);
    for (int32_t p = 0; p < parts->n; p++)
        if (!parts->items[p].empty && cleave_ring_ends(nest, &parts->items[p]))
            lower_contribute_gradient(state, event, p, own[p], false);
    lower_do(builder, when);
    if (next >= 0)
        pass_sums(state, event, next, own);
}
