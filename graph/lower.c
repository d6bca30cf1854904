/* Lowering: forward slots in the order of the nests, backward slots in reverse, then updates. Every
   tensor moves by the one rule of lower_move.h: forward when its nest has run, its gradient when
   the last of its readers has run backward, a parameter's gradient beside the compute, in the
   communication lane. */
#include "graph/lower.h"

#include "graph/lower_finish.h"
#include "graph/lower_operand.h"

#include <stdlib.h>
#include <string.h>

static bool nest_runs_backward(const lowering *state, const cleave_nest *nest) {
    return state->base.options->training && nest->differentiable;
}

static int32_t *operand_row(const lowering *state, int32_t nest, int32_t part) {
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
    for (int32_t n = 0; n < model->n_nests; n++) {
        const cleave_nest *nest = &model->nests[n];
        for (int32_t p = 0; p < builder->parts[n].n; p++) {
            const cleave_part *part = &builder->parts[n].items[p];
            int32_t *row = operand_row(state, n, p);
            for (int i = 0; i <= CLEAVE_MAX_INPUTS; i++)
                row[i] = -1;
            cleave_box box;
            for (int i = 0; i < nest->n_inputs && !part->empty; i++) {
                cleave_part_box(model, part, &nest->inputs[i], &box);
                row[i] = lower_operand_need(state, nest->inputs[i].tensor, part->device, &box);
            }
            if (part->empty || !nest_runs_backward(state, nest) || !nest->kept_combined)
                continue;
            cleave_part_box(model, part, &nest->output, &box);
            row[CLEAVE_MAX_INPUTS] =
                lower_operand_need(state, nest->output.tensor, part->device, &box);
        }
    }
}

/* Buffers that are assigned, outputs of a forward program and the loss are needed too. */
typedef struct final_needs {
    int32_t *assignment_operands; /* [n_assignments][n_devices], -1: the device does not hold the
                                     target */
    int32_t *output_operands;     /* [n_outputs] */
    int32_t loss_operand;
} final_needs;

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

static void plan_final_needs(lowering *state, final_needs *needs) {
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

static void begin_slot(lowering *state, int32_t nest, int32_t tensor, cleave_pass pass) {
    LOWER_PUSH(&state->base, &state->base.slots,
               (cleave_slot){.nest = nest, .tensor = tensor, .pass = pass});
    state->base.slot = state->base.slots.n - 1;
}

static cleave_compute new_compute(lowering *state, int32_t n, int32_t p, cleave_pass pass) {
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

static void add_compute(lowering *state, cleave_compute compute) {
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
    begin_slot(state, n, -1, CLEAVE_PASS_FORWARD);
    for (int32_t p = 0; p < parts->n; p++)
        for (int i = 0; i < nest->n_inputs && !parts->items[p].empty; i++)
            lower_operand_arrive(state, operand_row(state, n, p)[i]);
    movement *move = &state->tensors[nest->output.tensor].forward;
    for (int32_t p = 0; p < parts->n; p++) {
        const cleave_part *part = &parts->items[p];
        if (part->empty)
            continue;
        cleave_compute compute = new_compute(state, n, p, CLEAVE_PASS_FORWARD);
        for (int i = 0; i < nest->n_inputs; i++)
            compute.inputs[i] = state->operands.items[operand_row(state, n, p)[i]].buffer;
        cleave_box box;
        cleave_part_box(builder->model, part, &nest->output, &box);
        compute.output = lower_buffer(builder, CLEAVE_BUFFER_ACTIVATION, part->device,
                                      nest->output.tensor, &box);
        if (nest->in_place && readers[nest->inputs[0].tensor] == 1 &&
            !builder->sent[compute.inputs[0]])
            builder->buffers.items[compute.output].storage =
                builder->buffers.items[compute.inputs[0]].storage;
        outputs[state->first_part[n] + p] = compute.output;
        add_compute(state, compute);
        LOWER_PUSH(builder, &move->contributions,
                   (move_contribution){.key = part->key,
                                       .device = part->device,
                                       .at = lower_region_of(builder, compute.output),
                                       .may_take = true});
    }
    lower_operand_prepare(state, nest->output.tensor);
    move_begin(builder, move);
}

/* Adds what one part gives to the gradient of an input, through views, to the base tensors'
 * movements. */
static void contribute_gradient(lowering *state, int32_t n, int32_t p, int i, int32_t buffer) {
    lower_builder *builder = &state->base;
    const lower_operand *operand = &state->operands.items[operand_row(state, n, p)[i]];
    const cleave_part *part = &builder->parts[n].items[p];
    for (int32_t q = 0; q < operand->n_pieces; q++) {
        const cleave_piece *piece = &state->pieces.items[operand->first_piece + q].piece;
        if (!builder->model->tensors[piece->tensor].needs_gradient)
            continue;
        lower_region region = {.buffer = buffer, .box = piece->box, .offset = piece->offset};
        memcpy(region.stride, piece->stride, sizeof region.stride);
        int64_t key = ((((int64_t)n * CLEAVE_MAX_INPUTS + i) << 18 | q) << 20) | part->key;
        LOWER_PUSH(builder, &state->tensors[piece->tensor].backward.contributions,
                   (move_contribution){.key = key,
                                       .device = part->device,
                                       .at = region,
                                       .may_take = operand->n_pieces == 1});
    }
}

/* Calls `visit` for every base tensor under a tensor that needs a gradient. */
static void each_base(lowering *state, int32_t tensor, void (*visit)(lowering *, int32_t)) {
    const cleave_tensor *of = &state->base.model->tensors[tensor];
    if (!of->needs_gradient)
        return;
    if (of->view.kind == CLEAVE_VIEW_NONE)
        visit(state, tensor);
    for (int32_t s = 0; s < of->view.n_sources; s++)
        each_base(state, of->view.sources[s], visit);
}

static void count_pending(lowering *state, int32_t tensor) { state->tensors[tensor].pending++; }

/* The demands of a parameter's gradient: what each device holds, or its shard. */
static void demand_parameter_gradient(lowering *state, int32_t tensor) {
    lower_builder *builder = &state->base;
    lower_tensor *of = &state->tensors[tensor];
    int rank = builder->model->tensors[tensor].rank;
    for (int32_t h = 0; h < of->holders.n; h++) {
        const lower_holder *holder = &of->holders.items[h];
        const cleave_box *box = of->shards != NULL ? &of->shards[h].box : &holder->box;
        if (cleave_box_is_empty(rank, box))
            continue;
        int32_t buffer = lower_buffer(builder, CLEAVE_BUFFER_GRADIENT, holder->device, tensor, box);
        lower_region region = lower_region_of(builder, buffer);
        of->first_demand[h] = of->backward.demands.n;
        bool one = of->shards != NULL || (state->uses.items[holder->first_use].next < 0);
        if (one) {
            LOWER_PUSH(
                builder, &of->backward.demands,
                (move_demand){
                    .operand = -1, .device = holder->device, .at = region, .may_move = true});
            continue;
        }
        lower_copy_begin(builder); /* elements that nobody on this device uses */
        lower_copy_add(builder, tensor, CLEAVE_COPY_FILL, box, &region, NULL, 0);
        lower_copy_end(builder, holder->device, CLEAVE_LANE_MAIN);
        for (int32_t u = holder->first_use; u >= 0; u = state->uses.items[u].next)
            LOWER_PUSH(
                builder, &of->backward.demands,
                (move_demand){.operand = -1,
                              .device = holder->device,
                              .at = lower_region_within(rank, &region, &state->uses.items[u].box)});
    }
}

static void demand_activation_gradient(lowering *state, int32_t tensor) {
    lower_builder *builder = &state->base;
    int32_t n = builder->model->writer[tensor];
    for (int32_t p = 0; p < builder->parts[n].n; p++) {
        const cleave_part *part = &builder->parts[n].items[p];
        if (part->empty)
            continue;
        cleave_box box;
        cleave_part_box(builder->model, part, &builder->model->nests[n].output, &box);
        int32_t buffer =
            lower_buffer(builder, CLEAVE_BUFFER_ACTIVATION_GRADIENT, part->device, tensor, &box);
        LOWER_PUSH(builder, &state->tensors[tensor].backward.demands,
                   (move_demand){.operand = -1,
                                 .device = part->device,
                                 .at = lower_region_of(builder, buffer),
                                 .may_move = true});
    }
}

static void begin_gradient(lowering *state, int32_t tensor) {
    lower_builder *builder = &state->base;
    lower_tensor *of = &state->tensors[tensor];
    if (builder->model->tensors[tensor].kind != CLEAVE_TENSOR_PARAMETER) {
        demand_activation_gradient(state, tensor);
        move_begin(builder, &of->backward);
        return;
    }
    demand_parameter_gradient(state, tensor);
    of->backward.lane = CLEAVE_LANE_COMMUNICATION;
    move_all(builder, &of->backward);
    of->main_after = LOWER_ARRAY(builder, int32_t, builder->n_devices);
    for (int32_t d = 0; d < builder->n_devices; d++)
        of->main_after[d] = builder->lane_tail[d * CLEAVE_N_LANES + CLEAVE_LANE_COMMUNICATION];
    LOWER_PUSH(builder, &state->updated, tensor);
}

static void one_pass_less(lowering *state, int32_t tensor) {
    if (--state->tensors[tensor].pending == 0)
        begin_gradient(state, tensor);
}

/* The gradient of the nest's output, on every part. */
static void arrive_output_gradient(lowering *state, int32_t n) {
    lower_builder *builder = &state->base;
    int32_t tensor = builder->model->nests[n].output.tensor;
    movement *move = &state->tensors[tensor].backward;
    if (tensor == builder->model->loss) { /* the seed of backward */
        demand_activation_gradient(state, tensor);
        for (int32_t i = 0; i < move->demands.n; i++) {
            lower_copy_begin(builder);
            lower_copy_add(builder, tensor, CLEAVE_COPY_FILL, &move->demands.items[i].at.box,
                           &move->demands.items[i].at, NULL, 1);
            lower_copy_end(builder, move->demands.items[i].device, CLEAVE_LANE_MAIN);
        }
        return;
    }
    if (!move->begun)
        begin_gradient(state, tensor); /* nobody reads it: zero */
    for (int32_t i = 0; i < move->demands.n; i++)
        move_arrive(builder, move, i);
}

/* Inputs that a pass reads: a product needs, for each gradient, the other factors. */
static uint32_t inputs_read(const cleave_nest *nest, uint32_t gradients) {
    if (nest->kind != CLEAVE_NEST_PRODUCT && nest->kind != CLEAVE_NEST_CONVOLUTION)
        return nest->kept_inputs;
    uint32_t read = 0;
    for (int i = 0; i < nest->n_inputs; i++)
        if (gradients & (1u << i))
            read |= ~(1u << i);
    return read & nest->kept_inputs;
}

static void backward_compute(lowering *state, int32_t n, int32_t p, cleave_pass pass,
                             uint32_t gradients, int32_t output, int32_t output_gradient) {
    lower_builder *builder = &state->base;
    const cleave_nest *nest = &builder->model->nests[n];
    const int32_t *row = operand_row(state, n, p);
    cleave_compute compute = new_compute(state, n, p, pass);
    compute.output = nest->kept_output ? output : -1;
    compute.output_gradient = output_gradient;
    if (nest->kept_combined) {
        lower_operand_arrive(state, row[CLEAVE_MAX_INPUTS]);
        compute.combined = state->operands.items[row[CLEAVE_MAX_INPUTS]].buffer;
    }
    uint32_t read = inputs_read(nest, gradients);
    for (int i = 0; i < nest->n_inputs; i++) {
        const lower_operand *operand = &state->operands.items[row[i]];
        if (read & (1u << i))
            compute.inputs[i] = operand->buffer;
        if (!(gradients & (1u << i)))
            continue;
        compute.input_gradients[i] =
            lower_buffer(builder,
                         pass == CLEAVE_PASS_WEIGHT_GRADIENT ? CLEAVE_BUFFER_GRADIENT
                                                             : CLEAVE_BUFFER_ACTIVATION_GRADIENT,
                         operand->device, operand->tensor, &operand->box);
        contribute_gradient(state, n, p, i, compute.input_gradients[i]);
    }
    add_compute(state, compute);
}

static void backward_slots(lowering *state, int32_t n, const int32_t *outputs) {
    lower_builder *builder = &state->base;
    const cleave_nest *nest = &builder->model->nests[n];
    movement *move = &state->tensors[nest->output.tensor].backward;
    bool arrived = false;
    for (cleave_pass pass = CLEAVE_PASS_INPUT_GRADIENT; pass <= CLEAVE_PASS_WEIGHT_GRADIENT;
         pass++) {
        uint32_t gradients = cleave_nest_pass_inputs(builder->model, nest, pass);
        if (gradients == 0)
            continue;
        begin_slot(state, n, -1, pass);
        if (!arrived)
            arrive_output_gradient(state, n);
        arrived = true;
        int32_t demand = 0;
        for (int32_t p = 0; p < builder->parts[n].n; p++)
            if (!builder->parts[n].items[p].empty)
                backward_compute(state, n, p, pass, gradients, outputs[state->first_part[n] + p],
                                 move->demands.items[demand++].at.buffer);
        for (int i = 0; i < nest->n_inputs; i++)
            if (gradients & (1u << i))
                each_base(state, nest->inputs[i].tensor, one_pass_less);
    }
}

static void count_backward_passes(lowering *state) {
    const cleave_model *model = state->base.model;
    for (int32_t n = 0; n < model->n_nests; n++)
        for (cleave_pass pass = CLEAVE_PASS_INPUT_GRADIENT;
             nest_runs_backward(state, &model->nests[n]) && pass <= CLEAVE_PASS_WEIGHT_GRADIENT;
             pass++) {
            uint32_t gradients = cleave_nest_pass_inputs(model, &model->nests[n], pass);
            for (int i = 0; i < model->nests[n].n_inputs; i++)
                if (gradients & (1u << i))
                    each_base(state, model->nests[n].inputs[i].tensor, count_pending);
        }
}

/* Sharded update: the holders cut the parameter into balanced blocks along its outermost long
 * dimension. */
static void plan_shards(lowering *state, int32_t tensor) {
    lower_builder *builder = &state->base;
    const cleave_tensor *parameter = &builder->model->tensors[tensor];
    lower_tensor *of = &state->tensors[tensor];
    of->first_demand = LOWER_ARRAY(builder, int32_t, of->holders.n);
    if (!builder->layout->sharded[tensor] || of->holders.n < 2 || parameter->rank == 0)
        return;
    of->shards = LOWER_ARRAY(builder, lower_region, of->holders.n);
    int longest = parameter->order[0];
    for (int i = 1; i < parameter->rank; i++)
        if (parameter->shape[parameter->order[i]] > parameter->shape[longest])
            longest = parameter->order[i];
    for (int32_t h = 0; h < of->holders.n; h++) {
        cleave_box box = cleave_box_of_shape(parameter->rank, parameter->shape);
        box.lo[longest] = cleave_block_start(parameter->shape[longest], of->holders.n, h);
        box.hi[longest] = cleave_block_start(parameter->shape[longest], of->holders.n, h + 1);
        of->shards[h].box = box;
        if (cleave_box_is_empty(parameter->rank, &box))
            continue;
        int32_t buffer = lower_buffer(builder, CLEAVE_BUFFER_PARAMETER, of->holders.items[h].device,
                                      tensor, &box);
        builder->buffers.items[buffer].persistent = true;
        of->shards[h] = lower_region_of(builder, buffer);
    }
}

/* After a sharded update every holder gets what it uses. */
static void gather_shards(lowering *state, int32_t tensor) {
    lower_builder *builder = &state->base;
    lower_tensor *of = &state->tensors[tensor];
    int rank = builder->model->tensors[tensor].rank;
    for (int32_t h = 0; h < of->holders.n; h++) {
        const lower_holder *holder = &of->holders.items[h];
        if (!cleave_box_is_empty(rank, &of->shards[h].box))
            LOWER_PUSH(
                builder, &of->forward.contributions,
                (move_contribution){.key = h, .device = holder->device, .at = of->shards[h]});
        lower_region region = lower_region_of(builder, holder->buffer);
        for (int32_t u = holder->first_use; u >= 0; u = state->uses.items[u].next)
            LOWER_PUSH(
                builder, &of->forward.demands,
                (move_demand){.operand = -1,
                              .device = holder->device,
                              .at = lower_region_within(rank, &region, &state->uses.items[u].box)});
    }
    move_all(builder, &of->forward);
}

static void update_slot(lowering *state, int32_t tensor) {
    lower_builder *builder = &state->base;
    lower_tensor *of = &state->tensors[tensor];
    int rank = builder->model->tensors[tensor].rank;
    begin_slot(state, -1, tensor, CLEAVE_PASS_UPDATE);
    for (int32_t h = 0; h < of->holders.n; h++) {
        const lower_holder *holder = &of->holders.items[h];
        const cleave_box box = of->shards != NULL ? of->shards[h].box : holder->box;
        if (cleave_box_is_empty(rank, &box))
            continue;
        lower_sync(builder, holder->device, CLEAVE_LANE_MAIN, of->main_after[holder->device]);
        cleave_update update = {
            .tensor = tensor,
            .parameter = of->shards != NULL ? of->shards[h].buffer : holder->buffer,
            .gradient = of->backward.demands.items[of->first_demand[h]].at.buffer,
            .state = {-1, -1}};
        for (int s = 0; s < builder->options->optimizer_states; s++) {
            update.state[s] =
                lower_buffer(builder, CLEAVE_BUFFER_STATE, holder->device, tensor, &box);
            builder->buffers.items[update.state[s]].persistent = true;
        }
        LOWER_PUSH(builder, &builder->updates, update);
        lower_item(builder, holder->device, CLEAVE_LANE_MAIN, CLEAVE_ITEM_UPDATE,
                   builder->updates.n - 1);
    }
    if (of->shards != NULL)
        gather_shards(state, tensor);
}

static void assign_buffers(lowering *state, const final_needs *needs) {
    lower_builder *builder = &state->base;
    const cleave_model *model = builder->model;
    for (int32_t a = 0; a < model->n_assignments; a++)
        for (int32_t d = 0; d < builder->n_devices; d++) {
            int32_t id = needs->assignment_operands[a * builder->n_devices + d];
            if (id < 0)
                continue;
            lower_operand_arrive(state, id);
            const lower_operand *operand = &state->operands.items[id];
            int32_t target = model->assignments[a].target;
            const lower_holder *holder = lower_holder_find(&state->tensors[target], d);
            lower_region to = lower_region_of(builder, holder->buffer), from = to;
            from.buffer = operand->buffer;
            cleave_tensor_strides(&model->tensors[operand->tensor], &operand->box, from.stride);
            lower_copy_begin(builder);
            lower_copy_add(builder, target, CLEAVE_COPY_ASSIGN, &holder->box, &to, &from, 0);
            lower_copy_end(builder, d, CLEAVE_LANE_MAIN);
        }
}

/* What each device keeps right of parameters and buffers: shards where there are some, else what it
 * uses. */
static void list_held(lowering *state) {
    lower_builder *builder = &state->base;
    for (int32_t t = 0; t < builder->model->n_tensors; t++) {
        const lower_tensor *of = &state->tensors[t];
        for (int32_t h = 0; h < of->holders.n; h++) {
            const lower_holder *holder = &of->holders.items[h];
            if (of->shards != NULL) {
                if (!cleave_box_is_empty(builder->model->tensors[t].rank, &of->shards[h].box))
                    LOWER_PUSH(
                        builder, &builder->held,
                        (cleave_held){t, holder->device, of->shards[h].buffer, of->shards[h].box});
                continue;
            }
            for (int32_t u = holder->first_use; u >= 0; u = state->uses.items[u].next)
                LOWER_PUSH(
                    builder, &builder->held,
                    (cleave_held){t, holder->device, holder->buffer, state->uses.items[u].box});
        }
    }
}

static void lower_everything(lowering *state, cleave_program *program) {
    lower_builder *builder = &state->base;
    const cleave_model *model = builder->model;
    const bool training = builder->options->training;
    final_needs needs;
    for (int32_t t = 0; t < model->n_tensors; t++) {
        lower_tensor *of = &state->tensors[t];
        int32_t writer = model->writer[t];
        of->forward.tensor = of->backward.tensor = t;
        of->forward.combiner = writer >= 0 ? model->nests[writer].combiner : CLEAVE_COMBINE_NONE;
        of->backward.combiner = CLEAVE_COMBINE_SUM;
        of->backward.zero_where_unwritten = true;
    }
    plan_operands(state);
    plan_final_needs(state, &needs);
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
                plan_shards(state, t);
        count_backward_passes(state);
        for (int32_t n = model->n_nests - 1; n >= 0; n--)
            if (nest_runs_backward(state, &model->nests[n]))
                backward_slots(state, n, outputs);
        for (int32_t i = 0; i < state->updated.n; i++)
            update_slot(state, state->updated.items[i]);
        assign_buffers(state, &needs);
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
    list_held(state);
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
