/* The end of a step: updates of parameters, by their holders or by shards, and assignments to
 * buffers. */
#include "graph/lower/events.h"

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

void lower_plan_shards(lowering *state) {
    const lower_schedule *schedule = state->schedule;
    for (int32_t m = schedule->first_member[state->family];
         m < schedule->first_member[state->family + 1]; m++)
        if (state->base.model->tensors[schedule->members[m]].kind == CLEAVE_TENSOR_PARAMETER)
            plan_shards(state, schedule->members[m]);
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

void lower_update(lowering *state, const lower_event *event) {
    lower_builder *builder = &state->base;
    int32_t tensor = event->tensor;
    lower_tensor *of = &state->tensors[tensor];
    int rank = builder->model->tensors[tensor].rank;
    if (state->schedule->joins_late[tensor])
        lower_begin_gradient(state, tensor);
    lower_do(builder, CLEAVE_WHEN_LAST);
    for (int32_t h = 0; h < of->holders.n; h++) {
        const lower_holder *holder = &of->holders.items[h];
        const cleave_box box = of->shards != NULL ? of->shards[h].box : holder->box;
        if (cleave_box_is_empty(rank, &box))
            continue;
        if (of->main_after[h] >= 0)
            lower_sync(builder, of->main_after[h]);
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

void lower_assign(lowering *state, const lower_event *event) {
    lower_builder *builder = &state->base;
    const cleave_model *model = builder->model;
    int32_t target = model->assignments[event->input].target;
    const lower_tensor *of = &state->tensors[target];
    for (int32_t h = 0; h < of->holders.n; h++) {
        const lower_holder *holder = &of->holders.items[h];
        int32_t id = lower_row(state, (int32_t)(event - state->schedule->events))[h];
        lower_operand_arrive(state, id);
        lower_do(builder, CLEAVE_WHEN_LAST);
        const lower_operand *operand = &state->operands.items[id];
        lower_region to = lower_region_of(builder, holder->buffer), from = to;
        from.buffer = operand->buffer;
        cleave_tensor_strides(&model->tensors[operand->tensor], &operand->box, from.stride);
        lower_copy_begin(builder);
        lower_copy_add(builder, target, CLEAVE_COPY_ASSIGN, &holder->box, &to, &from, 0);
        lower_copy_end(builder, holder->device, CLEAVE_LANE_MAIN);
    }
}

/* What each device keeps right of parameters and buffers: shards where there are some, else what it
 * uses. */
void lower_list_held(lowering *state) {
    lower_builder *builder = &state->base;
    const lower_schedule *schedule = state->schedule;
    for (int32_t m = schedule->first_member[state->family];
         m < schedule->first_member[state->family + 1]; m++) {
        int32_t t = schedule->members[m];
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
