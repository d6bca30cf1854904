/* Updates of parameters, share by share, and assignments to buffers.

   A gradient is of no use once its parameter is updated.  So where all of it is there as soon as
   the last pass has given its part, the update follows at once, and gradients need not all live at
   a time.  Not so where it comes from other devices: there the main lane would wait for messages in
   the middle of backward, which go on beside it until the end.  Nor where some devices have none of
   the parameter: what others do in backward may wait for those that have, and an update would be
   time that they wait, while at the end each device has its own to do. */
#include "graph/lower/events.h"

void lower_demand_uses(lowering *state, movement *move, const lower_holder *holder,
                       const lower_region *region) {
    int rank = state->base.model->tensors[move->tensor].rank;
    for (int32_t u = holder->first_use; u >= 0; u = state->uses.items[u].next)
        LOWER_PUSH(
            &state->base, &move->demands,
            (move_demand){.operand = -1,
                          .device = holder->device,
                          .at = lower_region_within(rank, region, &state->uses.items[u].box)});
}

/* After a sharded update every holder gets what it uses. */
static void gather_shares(lowering *state, int32_t tensor) {
    lower_builder *builder = &state->base;
    lower_tensor *of = &state->tensors[tensor];
    lower_contribute_shares(state, &of->forward);
    for (int32_t h = 0; h < of->holders.n; h++) {
        const lower_holder *holder = &of->holders.items[h];
        lower_region region = lower_region_of(builder, holder->buffer);
        lower_demand_uses(state, &of->forward, holder, &region);
    }
    move_all(builder, &of->forward);
}

static int32_t lasting_buffer(lower_builder *builder, cleave_buffer_kind kind, int32_t device,
                              int32_t tensor, const lower_share *share) {
    const cleave_tensor *of = &builder->model->tensors[tensor];
    int32_t buffer =
        lower_buffer_of_type(builder, kind, device, tensor, cleave_exact_type(of), &share->at.box);
    lower_pad_share(builder, share, buffer);
    builder->buffers.items[buffer].persistent = true;
    return buffer;
}

lower_region lower_whole_gradient(lowering *state, int32_t tensor, int32_t i) {
    lower_tensor *of = &state->tensors[tensor];
    const lower_share *share = &of->shares.items[i];
    int32_t n_reduced = 0, n_others = 0;
    lower_count_reduced(state, tensor, &n_reduced, &n_others);
    if (state->schedule->joins_late[tensor] && n_reduced == 0 && !of->backward.begun)
        lower_begin_gradient(state, tensor);
    lower_do(&state->base, CLEAVE_WHEN_LAST);
    if (n_reduced > 0)
        return lower_sum_of_visits(state, tensor, i);
    if (of->main_after[share->holder] >= 0)
        lower_sync(&state->base, of->main_after[share->holder]);
    return of->backward.demands.items[share->first_demand].at;
}

static bool is_early(const lowering *state, int32_t tensor) {
    const lower_tensor *of = &state->tensors[tensor];
    return state->schedule->early_in[tensor] >= 0 && of->sharded == CLEAVE_SHARDED_NOTHING &&
           of->backward.lane == CLEAVE_LANE_MAIN && of->holders.n == state->base.n_devices;
}

void lower_update(lowering *state, const lower_event *event) {
    lower_builder *builder = &state->base;
    int32_t tensor = event->tensor;
    lower_tensor *of = &state->tensors[tensor];
    if (is_early(state, tensor) != (event->kind == LOWER_UPDATE_EARLY))
        return;
    for (int32_t i = 0; i < of->shares.n; i++) {
        lower_share *share = &of->shares.items[i];
        int32_t device = of->holders.items[share->holder].device;
        bool has_master = cleave_has_master(&builder->model->tensors[tensor]);
        share->master =
            has_master ? lasting_buffer(builder, CLEAVE_BUFFER_PARAMETER, device, tensor, share)
                       : -1;
        int32_t gradient =
            share->gradient >= 0 ? share->gradient : lower_whole_gradient(state, tensor, i).buffer;
        lower_do(builder, CLEAVE_WHEN_LAST);
        cleave_update update = {.tensor = tensor,
                                .parameter = share->at.buffer,
                                .first = share->at.offset,
                                .gradient = gradient,
                                .master = share->master,
                                .squares = builder->model->squares > 0 ? LOWER_SQUARES : -1,
                                .state = {-1, -1}};
        for (int k = 0; k < builder->options->optimizer_states; k++)
            update.state[k] = lasting_buffer(builder, CLEAVE_BUFFER_STATE, device, tensor, share);
        LOWER_PUSH(builder, &builder->updates, update);
        lower_item(builder, device, CLEAVE_LANE_MAIN, CLEAVE_ITEM_UPDATE, builder->updates.n - 1);
    }
    if (of->sharded && of->sharded < CLEAVE_SHARDED_WEIGHT)
        gather_shares(state, tensor);
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

static void list_held(lowering *state, int32_t tensor) {
    lower_builder *builder = &state->base;
    const lower_tensor *of = &state->tensors[tensor];
    for (int32_t i = 0; i < of->shares.n && of->sharded; i++) {
        const lower_share *share = &of->shares.items[i];
        LOWER_PUSH(builder, &builder->held,
                   (cleave_held){tensor, of->holders.items[share->holder].device,
                                 share->master >= 0 ? share->master : share->at.buffer,
                                 share->at.box});
    }
    for (int32_t h = 0; h < of->holders.n && !of->sharded; h++) {
        const lower_holder *holder = &of->holders.items[h];
        int32_t master = h < of->shares.n ? of->shares.items[h].master : -1; /* one share each */
        for (int32_t u = holder->first_use; u >= 0; u = state->uses.items[u].next)
            LOWER_PUSH(builder, &builder->held,
                       (cleave_held){tensor, holder->device, master >= 0 ? master : holder->buffer,
                                     state->uses.items[u].box});
    }
}

/* What each device keeps right of parameters and buffers: its shares where the update is sharded,
   else what it uses. */
void lower_list_held(lowering *state) {
    const lower_schedule *schedule = state->schedule;
    for (int32_t m = schedule->first_member[state->family];
         m < schedule->first_member[state->family + 1]; m++)
        list_held(state, schedule->members[m]);
}
