#include "graph/lower_finish.h"
#include "graph/lower_slots.h"

#include "graph/lower_finish.h"
#include "graph/lower_slots.h"

#include "graph/lower_finish.h"
#include "graph/lower_slots.h"

#include <stdlib.h>
#include <string.h>

bool lower_runs_backward(const lowering *state, const cleave_nest *nest) {
    return state->base.options->training && nest->differentiable;
}

int32_t *lower_operand_row(const lowering *state, int32_t nest, int32_t part) {
    return &state->operand_of[(size_t)(state->first_part[nest] + part) * (CLEAVE_MAX_INPUTS + 1)];
}

static void plan_operands(lowering *state) {
    lower_builder *builder = &state->base;
    const cleave_model *model = builder->model;
    int32_t rows = 0;
    state->first_part = LOWER_ARRAY(builder, int32_t, model->n_nests);
    for (int32_t n = 0; n < model->n_nests; n++) {
        state->first_part[n] = rows;
        rows += builder->parts[n].n;
    }
    state->operand_of = LOWER_ARRAY(builder, int32_t, (size_t)rows * (CLEAVE_MAX_INPUTS + 1));
    state->gradient_of = LOWER_ARRAY(builder, int32_t, (size_t)rows * (CLEAVE_MAX_INPUTS + 1));
    for (int32_t n = 0; n < model->n_nests; n++) {
        const cleave_nest *nest = &model->nests[n];
        for (int32_t p = 0; p < builder->parts[n].n; p++) {
            const cleave_part *part = &builder->parts[n].items[p];
            int32_t *row = lower_operand_row(state, n, p);
            for (int i = 0; i <= CLEAVE_MAX_INPUTS; i++)
                row[i] = -1;
            cleave_box box;
            for (int i = 0; i < nest->n_inputs && !part->empty; i++) {
                cleave_part_box(model, part, &nest->inputs[i], &box);
                row[i] = lower_operand_need(state, nest->inputs[i].tensor, part->device, &box);
            }
            if (part->empty || !lower_runs_backward(state, nest) || !nest->kept_combined)
                continue;
            cleave_part_box(model, part, &nest->output, &box);
            row[CLEAVE_MAX_INPUTS] =
                lower_operand_need(state, nest->output.tensor, part->device, &box);
        }
    }
}

static int32_t first_device(const lowering *state, int32_t nest) {
    for (int32_t p = 0; p < state->base.parts[nest].n; p++)
        if (!state->base.parts[nest].items[p].empty)
            return state->base.parts[nest].items[p].device;
    return 0;
}

static int32_t base_writer(const cleave_model *model, int32_t tensor) {
    while (model->tensors[tensor].view.kind != CLEAVE_VIEW_NONE)
        tensor = model->tensors[tensor].view.sources[0];
    return model->writer[tensor];
}

static void plan_lower_final_needs(lowering *state, lower_final_needs *needs) {
    lower_builder *builder = &state->base;
    const cleave_model *model = builder->model;
    needs->assignment_operands =
        LOWER_ARRAY(builder, int32_t, (size_t)model->n_assignments * (size_t)builder->n_devices);
    for (int32_t a = 0; a < model->n_assignments; a++)
        for (int32_t d = 0; d < builder->n_devices; d++) {
            lower_holder *holder =
                lower_holder_find(&state->tensors[model->assignments[a].target], d);
            cleave_box box = holder != NULL ? holder->box : (cleave_box){{0}, {0}};
            needs->assignment_operands[a * builder->n_devices + d] =
                holder == NULL ? -1
                               : lower_operand_need(state, model->assignments[a].source, d, &box);
        }
    needs->loss_operand = -1;
    if (builder->options->training) {
        cleave_box scalar = {{0}, {0}};
        int32_t device = first_device(state, model->writer[model->loss]);
        needs->loss_operand = lower_operand_need(state, model->loss, device, &scalar);
    }
    needs->output_operands = LOWER_ARRAY(builder, int32_t, model->n_outputs);
    for (int32_t o = 0; o < model->n_outputs && !builder->options->training; o++) {
        const cleave_tensor *tensor = &model->tensors[model->outputs[o]];
        int32_t writer = base_writer(model, model->outputs[o]);
        cleave_box all = cleave_box_of_shape(tensor->rank, tensor->shape);
        needs->output_operands[o] = lower_operand_need(
            state, model->outputs[o], writer >= 0 ? first_device(state, writer) : 0, &all);
    }
}

void lower_begin_slot(lowering *state, int32_t nest, int32_t tensor, cleave_pass pass) {
    LOWER_PUSH(&state->base, &state->base.slots,
               (cleave_slot){.nest = nest, .tensor = tensor, .pass = pass});
    state->base.slot = state->base.slots.n - 1;
}

cleave_compute lower_new_compute(lowering *state, int32_t n, int32_t p, cleave_pass pass) {
    lower_builder *builder = &state->base;
    cleave_compute compute = {.nest = n,
                              .pass = pass,
                              .part = builder->parts[n].items[p],
                              .output = -1,
                              .combined = -1,
                              .output_gradient = -1,
                              .workspace = -1};
    for (int i = 0; i < CLEAVE_MAX_INPUTS; i++)
        compute.inputs[i] = compute.input_gradients[i] = -1;
    if (builder->options->workspace != NULL) {
        int64_t bytes =
            builder->options->workspace(builder->options->workspace_context, builder->model,
                                        &builder->model->nests[n], pass, &compute.part);
        if (bytes > 0)
            compute.workspace =
                lower_buffer_bytes(builder, CLEAVE_BUFFER_WORKSPACE, compute.part.device, bytes);
    }
    return compute;
}

void lower_add_compute(lowering *state, cleave_compute compute) {
    LOWER_PUSH(&state->base, &state->base.computes, compute);
    lower_item(&state->base, compute.part.device, CLEAVE_LANE_MAIN, CLEAVE_ITEM_COMPUTE,
               state->base.computes.n - 1);
}

/* Does nobody but this nest ever read the tensor?  Then its memory may be written over. */
static int32_t *count_readers(lowering *state) {
    const cleave_model *model = state->base.model;
    int32_t *readers = LOWER_ARRAY(&state->base, int32_t, model->n_tensors);
    for (int32_t n = 0; n < model->n_nests; n++) {
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            readers[model->nests[n].inputs[i].tensor]++;
        if (model->nests[n].kept_combined || model->nests[n].kept_output)
            readers[model->nests[n].output.tensor]++;
    }
    for (int32_t t = 0; t < model->n_tensors; t++)
        for (int32_t s = 0; s < model->tensors[t].view.n_sources; s++)
            readers[model->tensors[t].view.sources[s]]++;
    for (int32_t o = 0; o < model->n_outputs; o++)
        readers[model->outputs[o]]++;
    for (int32_t a = 0; a < model->n_assignments; a++)
        readers[model->assignments[a].source]++;
    return readers;
}

static void forward_slot(lowering *state, int32_t n, const int32_t *readers, int32_t *outputs) {
    lower_builder *builder = &state->base;
    const cleave_nest *nest = &builder->model->nests[n];
    const cleave_parts *parts = &builder->parts[n];
    lower_begin_slot(state, n, -1, CLEAVE_PASS_FORWARD);
    for (int32_t p = 0; p < parts->n; p++)
        for (int i = 0; i < nest->n_inputs && !parts->items[p].empty; i++)
            lower_operand_arrive(state, lower_operand_row(state, n, p)[i]);
    movement *move = &state->tensors[nest->output.tensor].forward;
    for (int32_t p = 0; p < parts->n; p++) {
        const cleave_part *part = &parts->items[p];
        if (part->empty)
            continue;
        cleave_compute compute = lower_new_compute(state, n, p, CLEAVE_PASS_FORWARD);
        for (int i = 0; i < nest->n_inputs; i++)
            compute.inputs[i] = state->operands.items[lower_operand_row(state, n, p)[i]].buffer;
        cleave_box box;
        cleave_part_box(builder->model, part, &nest->output, &box);
        compute.output = lower_buffer(builder, CLEAVE_BUFFER_ACTIVATION, part->device,
                                      nest->output.tensor, &box);
        if (nest->in_place && readers[nest->inputs[0].tensor] == 1 &&
            !builder->sent[compute.inputs[0]])
            builder->buffers.items[compute.output].storage =
                builder->buffers.items[compute.inputs[0]].storage;
        outputs[state->first_part[n] + p] = compute.output;
        lower_add_compute(state, compute);
        LOWER_PUSH(builder, &move->contributions,
                   (move_contribution){.key = part->key,
                                       .device = part->device,
                                       .at = lower_region_of(builder, compute.output),
                                       .may_take = true});
    }
    lower_operand_prepare(state, nest->output.tensor);
    move_begin(builder, move);
}

static void lower_everything(lowering *state, cleave_program *program) {
    lower_builder *builder = &state->base;
    const cleave_model *model = builder->model;
    const bool training = builder->options->training;
    lower_final_needs needs;
    for (int32_t t = 0; t < model->n_tensors; t++) {
        lower_tensor *of = &state->tensors[t];
        int32_t writer = model->writer[t];
        of->forward.tensor = of->backward.tensor = t;
        of->forward.combiner = writer >= 0 ? model->nests[writer].combiner : CLEAVE_COMBINE_NONE;
        of->backward.combiner = CLEAVE_COMBINE_SUM;
        of->backward.zero_where_unwritten = true;
    }
    plan_operands(state);
    plan_lower_final_needs(state, &needs);
    lower_operand_place_holders(state);
    int32_t rows = model->n_nests == 0 ? 0
                                       : state->first_part[model->n_nests - 1] +
                                             builder->parts[model->n_nests - 1].n;
    int32_t *outputs = LOWER_ARRAY(builder, int32_t, rows);
    const int32_t *readers = count_readers(state);
    for (int32_t n = 0; n < model->n_nests; n++)
        forward_slot(state, n, readers, outputs);
    if (training)
        lower_operand_arrive(state, needs.loss_operand);
    for (int32_t o = 0; o < model->n_outputs && !training; o++)
        lower_operand_arrive(state, needs.output_operands[o]);
    if (training) {
        for (int32_t t = 0; t < model->n_tensors; t++)
            if (model->tensors[t].kind == CLEAVE_TENSOR_PARAMETER)
                lower_plan_shards(state, t);
        lower_count_backward_passes(state);
        for (int32_t n = model->n_nests - 1; n >= 0; n--)
            if (lower_runs_backward(state, &model->nests[n]))
                lower_backward_slots(state, n, outputs);
        for (int32_t i = 0; i < state->updated.n; i++)
            lower_update_slot(state, state->updated.items[i]);
        lower_assign_buffers(state, &needs);
    }
    program->loss_buffer = training ? state->operands.items[needs.loss_operand].buffer : -1;
    program->loss_device = training ? state->operands.items[needs.loss_operand].device : -1;
    program->n_outputs = training ? 0 : model->n_outputs;
    program->output_buffers = LOWER_ARRAY(builder, int32_t, program->n_outputs);
    program->output_devices = LOWER_ARRAY(builder, int32_t, program->n_outputs);
    for (int32_t o = 0; o < program->n_outputs; o++) {
        program->output_buffers[o] = state->operands.items[needs.output_operands[o]].buffer;
        program->output_devices[o] = state->operands.items[needs.output_operands[o]].device;
    }
    lower_list_held(state);
    lower_finish(builder, program);
}

static void release(lowering *state) {
    lower_builder *builder = &state->base;
    CLEAVE_LIST_FREE(&builder->items);
    CLEAVE_LIST_FREE(&builder->slots);
    CLEAVE_LIST_FREE(&builder->buffers);
    CLEAVE_LIST_FREE(&builder->computes);
    CLEAVE_LIST_FREE(&builder->updates);
    CLEAVE_LIST_FREE(&builder->loads);
    CLEAVE_LIST_FREE(&builder->copies);
    CLEAVE_LIST_FREE(&builder->copy_pieces);
    CLEAVE_LIST_FREE(&builder->messages);
    CLEAVE_LIST_FREE(&builder->collectives);
    CLEAVE_LIST_FREE(&builder->held);
    CLEAVE_LIST_FREE(&builder->touches);
    free(builder->sent);
    CLEAVE_LIST_FREE(&state->operands);
    CLEAVE_LIST_FREE(&state->pieces);
    CLEAVE_LIST_FREE(&state->uses);
    CLEAVE_LIST_FREE(&state->updated);
    for (int32_t t = 0; state->tensors != NULL && t < builder->model->n_tensors; t++) {
        movement_free(&state->tensors[t].forward);
        movement_free(&state->tensors[t].backward);
        CLEAVE_LIST_FREE(&state->tensors[t].holders);
        CLEAVE_LIST_FREE(&state->tensors[t].accumulators);
    }
}

/* Failures inside unwind to here. */
static cleave_status lower_guarded(lowering *state, cleave_program *program) {
    lower_builder *builder = &state->base;
    if (setjmp(builder->unwind) != 0)
        return builder->status;
    size_t lanes = (size_t)builder->n_devices * CLEAVE_N_LANES;
    state->tensors = LOWER_ARRAY(builder, lower_tensor, builder->model->n_tensors);
    builder->lane_tail = LOWER_ARRAY(builder, int32_t, lanes);
    builder->lane_seen = LOWER_ARRAY(builder, int32_t, lanes);
    memset(builder->lane_tail, -1, lanes * sizeof(int32_t));
    memset(builder->lane_seen, -1, lanes * sizeof(int32_t));
    lower_everything(state, program);
    return CLEAVE_OK;
}

cleave_status cleave_lower(const cleave_model *model, const cleave_layout *layout,
                           const cleave_lower_options *options, cleave_arena *arena,
                           cleave_program *program, cleave_error *error) {
    if (options->training && model->loss < 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: the model has no loss, so it can't be trained", model->file);
    cleave_program result = {
        .model = model, .n_devices = layout->n_devices, .training = options->training};
    cleave_parts *parts;
    CLEAVE_TRY(cleave_parts_derive(model, layout, arena, &parts, error));
    result.parts = parts;
    lowering *state = cleave_arena_alloc(arena, 1, sizeof *state);
    if (state == NULL)
        return cleave_fail_memory(error, "lowering");
    state->base = (lower_builder){.model = model,
                                  .layout = layout,
                                  .options = options,
                                  .arena = arena,
                                  .error = error,
                                  .parts = parts,
                                  .n_devices = layout->n_devices};
    cleave_status status = lower_guarded(state, &result);
    release(state);
    CLEAVE_TRY(status);
    CLEAVE_TRY(cleave_memory_plan(&result, arena, error));
    *program = result;
    return CLEAVE_OK;
}
