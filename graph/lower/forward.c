/* Forward: operands arrive where nests read them, and what nests write begins to move. */
#include "graph/lower/events.h"
#include "graph/lower/outputs.h"

#include "graph/model/ring.h"

static void add_row(lowering *state, int32_t operand) {
    LOWER_PUSH(&state->base, &state->rows, operand);
    LOWER_PUSH(&state->base, &state->bindings, -1);
}

static int32_t *first_row_of(const lowering *state, const lower_event *event) {
    const lower_schedule *schedule = state->schedule;
    return &state->first_row[event - (schedule->events + schedule->first_event[state->family])];
}

/* The boxes that the parts of a nest read (or, of the combined output, wrote): all parts, or those
   alone that have some of the keys of attention. */
static void plan_operand(lowering *state, const cleave_operand *of, const lower_event *event,
                         bool of_split_keys) {
    const lower_builder *builder = &state->base;
    int32_t n = event->nest, again_in = event->again ? state->schedule->stage_of[n] : -1;
    for (int32_t p = 0; p < builder->parts[n].n; p++) {
        const cleave_part *part = &builder->parts[n].items[p];
        int32_t operand = -1;
        bool needs = !part->empty;
        if (needs && of_split_keys)
            needs = cleave_attention_splits_keys(&builder->model->nests[n], part);
        if (needs) {
            cleave_box box;
            cleave_part_box(builder->model, part, of, &box);
            state->part = p;
            lower_begin_stretch(state, true, 0);
            operand = event->ring >= 0 ? lower_operand_passed(state, of->tensor, part->device, &box)
                                       : lower_operand_need(state, of->tensor, part->device, &box,
                                                            again_in, event->visit);
        }
        add_row(state, operand);
    }
}

static void plan_loss(lowering *state) {
    const lower_builder *builder = &state->base;
    const cleave_box scalar = {{0}, {0}};
    const cleave_parts *parts = &builder->parts[builder->model->writer[builder->model->loss]];
    for (int32_t p = 0; p < parts->n; p++)
        add_row(state, parts->items[p].empty
                           ? -1
                           : lower_operand_need(state, builder->model->loss, parts->items[p].device,
                                                &scalar, -1, -1));
}

/* What each part keeps of an output. */
static void plan_output(lowering *state, int32_t output) {
    const lower_builder *builder = &state->base;
    for (int32_t p = 0; p < lower_output_n_parts(builder, output); p++) {
        cleave_output piece;
        add_row(state, lower_output_piece(builder, output, p, &piece)
                           ? lower_operand_need(state, builder->model->outputs[output],
                                                piece.device, &piece.box, -1, -1)
                           : -1);
    }
}

/* Those that hold the target need the source; all holders are known by then. */
static void plan_assignment(lowering *state, int32_t a) {
    const cleave_assignment *assignment = &state->base.model->assignments[a];
    const lower_tensor *target = &state->tensors[assignment->target];
    for (int32_t h = 0; h < target->holders.n; h++) {
        cleave_box box = target->holders.items[h].box;
        add_row(state, lower_operand_need(state, assignment->source,
                                          target->holders.items[h].device, &box, -1, -1));
    }
}

/* Before it gives an output of some of the keys, a part reads what its share of it is. */
static void plan_write(lowering *state, const lower_event *event) {
    const cleave_nest *nest = &state->base.model->nests[event->nest];
    if (nest->attention != NULL && event->input < 0 && nest->n_turns == 0) {
        plan_operand(state, &nest->statistics, event, true);
        return;
    }
    for (int32_t p = 0; p < state->base.parts[event->nest].n; p++)
        add_row(state, -1);
}

static void plan_event(lowering *state, const lower_event *event) {
    const cleave_model *model = state->base.model;
    *first_row_of(state, event) = state->rows.n;
    switch (event->kind) {
    case LOWER_READ:
        plan_operand(state, &model->nests[event->nest].inputs[event->input], event, false);
        break;
    case LOWER_READ_COMBINED:
        if (event->input < 0)
            plan_operand(state, cleave_nest_combined(&model->nests[event->nest]), event, false);
        else
            plan_operand(state, &model->nests[event->nest].output, event, true);
        break;
    case LOWER_READ_LOSS:
        plan_loss(state);
        break;
    case LOWER_READ_OUTPUT:
        plan_output(state, event->input);
        break;
    case LOWER_ASSIGN:
        plan_assignment(state, event->input);
        break;
    case LOWER_WRITE:
        plan_write(state, event);
        break;
    case LOWER_READ_GRADIENT:
    case LOWER_WRITE_GRADIENT:
        for (int32_t p = 0; p < state->base.parts[event->nest].n; p++)
            add_row(state, -1);
        break;
    case LOWER_GATHER:
    case LOWER_REDUCE:
    case LOWER_SETTLE:
    case LOWER_SET_OUT:
    case LOWER_NORM_BEGIN:
    case LOWER_NORM_ADD:
    case LOWER_NORM_END:
    case LOWER_UPDATE_EARLY:
    case LOWER_UPDATE:
        break;
    }
}

void lower_plan_needs(lowering *state) {
    const lower_schedule *schedule = state->schedule;
    int32_t first = schedule->first_event[state->family],
            end = schedule->first_event[state->family + 1];
    state->first_row = LOWER_ARRAY(&state->base, int32_t, end - first);
    for (int32_t i = 0; i < state->n_events; i++) {
        state->event = &schedule->events[lower_nth_event(state, i)];
        plan_event(state, state->event);
    }
    lower_operand_place_holders(state);
}

/* What several devices combine stands ahead of what arrives at each of them: else an operand of
   several tensors would have it behind some of them at the first device, and ahead of all at the
   others, so that no window of a fold was like another. */
static void read_all(lowering *state, int32_t e, int32_t n) {
    for (int32_t p = 0; p < n; p++) {
        state->part = p;
        if (lower_row(state, e)[p] >= 0)
            lower_operand_combine(state, lower_row(state, e)[p]);
    }
    for (int32_t p = 0; p < n; p++) {
        int32_t operand = lower_row(state, e)[p];
        state->part = n + p;
        if (operand < 0)
            continue;
        lower_operand_arrive(state, operand);
        lower_binding(state, e)[p] = state->operands.items[operand].buffer;
    }
}

void lower_read(lowering *state, const lower_event *event) {
    int32_t e = (int32_t)(event - state->schedule->events);
    if (event->kind == LOWER_READ &&
        cleave_ring_passes(&state->base.model->nests[event->nest], event->input)) {
        lower_ring_read(state, event);
        return;
    }
    read_all(state, e, state->base.parts[event->nest].n);
}

/* ---- an output of some of the keys ---- */

/* From one element of a dimension of the output to the next, of a row's statistics. */
static int64_t row_stride(const lower_builder *builder, const cleave_nest *nest, int d,
                          const lower_region *statistics) {
    const cleave_dimension_map *map = &nest->output.map[d];
    for (int e = 0; e < builder->model->tensors[nest->statistics.tensor].rank; e++) {
        const cleave_dimension_map *row = &nest->statistics.map[e];
        if (map->n_terms > 0 && row->n_terms > 0 && map->terms[0].axis == row->terms[0].axis)
            return statistics->stride[e];
    }
    return 0;
}

static void scale_rows(lower_builder *builder, const cleave_nest *nest, const lower_region *output,
                       const lower_region *share) {
    const cleave_tensor *tensor = &builder->model->tensors[nest->output.tensor];
    cleave_copy_piece piece = {.mode = CLEAVE_COPY_SCALE,
                               .type = lower_type_of(builder, output->buffer),
                               .source_type = CLEAVE_STATISTICS,
                               .destination = output->buffer,
                               .source = share->buffer,
                               .rank = tensor->rank};
    for (int i = 0; i < tensor->rank; i++) {
        int d = tensor->order[i];
        piece.extent[i] = output->box.hi[d] - output->box.lo[d];
        piece.destination_stride[i] = output->stride[d];
        piece.source_stride[i] = row_stride(builder, nest, d, share);
    }
    lower_copy_add_sum(builder, &piece,
                       2 * cleave_box_size(tensor->rank, &output->box) *
                           cleave_type_bytes(piece.type));
}

/* Scales it by the share that its statistics, which the event before wrote, have in those of all.
 */
static void weigh(lowering *state, const lower_event *event, int32_t p) {
    lower_builder *builder = &state->base;
    const lower_schedule *schedule = state->schedule;
    const cleave_nest *nest = &builder->model->nests[event->nest];
    int32_t e = (int32_t)(event - schedule->events), operand = lower_row(state, e)[p];
    int32_t tensor = nest->statistics.tensor, device = builder->parts[event->nest].items[p].device;
    if (operand < 0)
        return;
    lower_operand_arrive(state, operand);
    int32_t wrote =
        (event->again ? schedule->write_statistics_again : schedule->write_statistics)[event->nest];
    lower_region own = lower_region_of(builder, lower_binding(state, wrote)[p]),
                 all = lower_region_of(builder, state->operands.items[operand].buffer),
                 output = lower_region_of(builder, lower_binding(state, e)[p]);
    lower_region share =
        lower_region_of(builder, lower_buffer_of_type(builder, CLEAVE_BUFFER_MESSAGE, device,
                                                      tensor, CLEAVE_STATISTICS, &own.box));
    lower_do(builder, lower_value_when(builder, tensor));
    lower_copy_begin(builder);
    lower_copy_add(builder, tensor, CLEAVE_COPY_ASSIGN, &own.box, &share, &own, 0);
    lower_copy_add(builder, tensor, CLEAVE_COPY_SHARE, &own.box, &share, &all, 0);
    scale_rows(builder, nest, &output, &share);
    lower_copy_end(builder, device, CLEAVE_LANE_MAIN);
}

/* Is what a part writes there looked at again, once it has moved? */
static bool serves_later(const cleave_nest *nest, const lower_event *event,
                         const cleave_part *part) {
    return event->input == 0 && nest->n_turns == 0 && cleave_attention_splits_keys(nest, part);
}

void lower_write(lowering *state, const lower_event *event) {
    lower_builder *builder = &state->base;
    const cleave_nest *nest = &builder->model->nests[event->nest];
    const cleave_operand *output = lower_written(nest, event);
    const cleave_parts *parts = &builder->parts[event->nest];
    int32_t *binding = lower_binding(state, (int32_t)(event - state->schedule->events));
    movement *move = event->again ? &state->tensors[output->tensor].again
                                  : &state->tensors[output->tensor].forward;
    cleave_when when = lower_value_when(builder, output->tensor);
    bool adds_up = lower_goes_on(builder, event->nest) && when != CLEAVE_WHEN_EVERY;
    for (int32_t p = 0; p < parts->n; p++) {
        const cleave_part *part = &parts->items[p];
        if (part->empty)
            continue;
        cleave_box box;
        cleave_part_box(builder->model, part, output, &box);
        binding[p] =
            lower_buffer_of_type(builder, CLEAVE_BUFFER_ACTIVATION, part->device, output->tensor,
                                 event->input < 0 ? cleave_output_type(builder->model, nest, part)
                                                  : builder->model->tensors[output->tensor].stored,
                                 &box);
        move_contribution *added = move_contribute(builder, move, part->key, part->device);
        lower_set_region(builder, binding[p], &added->at);
        added->may_take = !serves_later(nest, event, part);
        added->every_window = lower_in_every_window(builder, event->nest);
        if (adds_up)
            move_carry(builder, move, CLEAVE_BUFFER_ACTIVATION, added);
    }
    for (int32_t p = 0; p < parts->n && event->input < 0 && nest->attention != NULL; p++)
        weigh(state, event, p);
    lower_operand_prepare(state, move);
    lower_do(builder, adds_up ? CLEAVE_WHEN_LAST : when);
    move_begin(builder, move);
}

void lower_read_final(lowering *state, const lower_event *event) {
    int32_t e = (int32_t)(event - state->schedule->events);
    int32_t n = event->kind == LOWER_READ_LOSS
                    ? state->base.parts[state->base.model->writer[event->tensor]].n
                    : lower_output_n_parts(&state->base, event->input);
    read_all(state, e, n);
}
