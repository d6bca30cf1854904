/* Backward slots, in reverse order of the nests.  A part that read a box of a tensor contributes to
   the gradient over that box; a part that wrote one reads the gradient over it. */
#include "graph/lower_slots.h"

#include <string.h>

/* Adds what one part gives to the gradient of an input, through views, to the base tensors'
 * movements. */
static void contribute_gradient(lowering *state, int32_t n, int32_t p, int i, int32_t buffer) {
    lower_builder *builder = &state->base;
    const lower_operand *operand = &state->operands.items[lower_operand_row(state, n, p)[i]];
    const cleave_part *part = &builder->parts[n].items[p];
    for (int32_t q = 0; q < operand->n_pieces; q++) {
        const cleave_piece *piece = &state->pieces.items[operand->first_piece + q].piece;
        if (!builder->model->tensors[piece->tensor].needs_gradient)
            continue;
        lower_region region = {.buffer = buffer, .box = piece->box, .offset = piece->offset};
        memcpy(region.stride, piece->stride, sizeof region.stride);
        int64_t key = ((((int64_t)n * CLEAVE_MAX_INPUTS + i) << 18 | q) << 20) | part->key;
        LOWER_PUSH(
            builder, &state->tensors[piece->tensor].backward.contributions,
            (move_contribution){
                .key = key, .device = part->device, .at = region, .may_take = operand->whole});
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

/* ---- accumulating: a weight that many nests read, such as the cells of a recurrence ---------- */

/* Do two nests read the same pieces on the same devices, part by part?  Then what they give to the
   gradient may be summed where it arises, replicas included. */
static bool read_alike(const lowering *state, int32_t n, int i, lower_accumulator like) {
    const cleave_parts *a = &state->base.parts[n], *b = &state->base.parts[like.nest];
    if (a->n != b->n)
        return false;
    for (int32_t p = 0; p < a->n; p++) {
        const cleave_part *x = &a->items[p], *y = &b->items[p];
        if (x->empty != y->empty || x->device != y->device || x->key != y->key ||
            lower_operand_row(state, n, p)[i] != lower_operand_row(state, like.nest, p)[like.input])
            return false;
    }
    return true;
}

/* The gradient that this pass can add to: `nest` is -1 where there is none, and from now on this
   one is there for others.  Only products can add at no cost. */
static lower_accumulator find_accumulator(lowering *state, int32_t n, int i, cleave_pass pass) {
    const cleave_nest *nest = &state->base.model->nests[n];
    lower_tensor *of = &state->tensors[nest->inputs[i].tensor];
    if (pass != CLEAVE_PASS_WEIGHT_GRADIENT || nest->kind != CLEAVE_NEST_PRODUCT)
        return (lower_accumulator){-1, -1};
    for (int32_t a = 0; a < of->accumulators.n; a++)
        if (read_alike(state, n, i, of->accumulators.items[a]))
            return of->accumulators.items[a];
    LOWER_PUSH(&state->base, &of->accumulators, (lower_accumulator){n, i});
    return (lower_accumulator){-1, -1};
}

static int32_t *gradient_row(const lowering *state, int32_t n, int32_t p) {
    return &state->gradient_of[(size_t)(state->first_part[n] + p) * (CLEAVE_MAX_INPUTS + 1)];
}

static void backward_compute(lowering *state, int32_t n, int32_t p, cleave_pass pass,
                             uint32_t gradients, const lower_accumulator *accumulators,
                             int32_t output, int32_t output_gradient) {
    lower_builder *builder = &state->base;
    const cleave_nest *nest = &builder->model->nests[n];
    const int32_t *row = lower_operand_row(state, n, p);
    cleave_compute compute = lower_new_compute(state, n, p, pass);
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
        if (accumulators[i].nest >= 0) {
            compute.input_gradients[i] =
                gradient_row(state, accumulators[i].nest, p)[accumulators[i].input];
            compute.accumulated |= 1u << i;
            continue;
        }
        compute.input_gradients[i] =
            lower_buffer(builder,
                         pass == CLEAVE_PASS_WEIGHT_GRADIENT ? CLEAVE_BUFFER_GRADIENT
                                                             : CLEAVE_BUFFER_ACTIVATION_GRADIENT,
                         operand->device, operand->tensor, &operand->box);
        gradient_row(state, n, p)[i] = compute.input_gradients[i];
        contribute_gradient(state, n, p, i, compute.input_gradients[i]);
    }
    lower_add_compute(state, compute);
}

void lower_backward_slots(lowering *state, int32_t n, const int32_t *outputs) {
    lower_builder *builder = &state->base;
    const cleave_nest *nest = &builder->model->nests[n];
    movement *move = &state->tensors[nest->output.tensor].backward;
    bool arrived = false;
    for (cleave_pass pass = CLEAVE_PASS_INPUT_GRADIENT; pass <= CLEAVE_PASS_WEIGHT_GRADIENT;
         pass++) {
        uint32_t gradients = cleave_nest_pass_inputs(builder->model, nest, pass);
        if (gradients == 0)
            continue;
        lower_begin_slot(state, n, -1, pass);
        if (!arrived)
            arrive_output_gradient(state, n);
        arrived = true;
        int32_t demand = 0;
        lower_accumulator accumulators[CLEAVE_MAX_INPUTS];
        for (int i = 0; i < nest->n_inputs; i++)
            if (gradients & (1u << i))
                accumulators[i] = find_accumulator(state, n, i, pass);
        for (int32_t p = 0; p < builder->parts[n].n; p++)
            if (!builder->parts[n].items[p].empty)
                backward_compute(state, n, p, pass, gradients, accumulators,
                                 outputs[state->first_part[n] + p],
                                 move->demands.items[demand++].at.buffer);
        for (int i = 0; i < nest->n_inputs; i++)
            if (gradients & (1u << i))
                each_base(state, nest->inputs[i].tensor, one_pass_less);
    }
}

void lower_count_backward_passes(lowering *state) {
    const cleave_model *model = state->base.model;
    for (int32_t n = 0; n < model->n_nests; n++)
        for (cleave_pass pass = CLEAVE_PASS_INPUT_GRADIENT;
             lower_runs_backward(state, &model->nests[n]) && pass <= CLEAVE_PASS_WEIGHT_GRADIENT;
             pass++) {
            uint32_t gradients = cleave_nest_pass_inputs(model, &model->nests[n], pass);
            for (int i = 0; i < model->nests[n].n_inputs; i++)
                if (gradients & (1u << i))
                    each_base(state, model->nests[n].inputs[i].tensor, count_pending);
        }
}
