/* The norm of all gradients, where they are clipped.

   Each device adds up the squares of what it has of whole gradients, in the order of updates, and
   what several have by so many parts each; then the devices' sums move as any partial result does.
   So tied weights, shares and replicas count once, all devices clip by the same number, and no
   sum depends on timing.  What a parameter gives lies in another family than the sum: which buffer
   it is, the assembly says, when all families are there. */
#include "graph/lower/events.h"

static const cleave_box scalar = {{0}, {0}};

static lower_region new_sum(lowering *state, int32_t device, int32_t tensor) {
    lower_builder *builder = &state->base;
    return lower_region_of(
        builder, lower_buffer(builder, CLEAVE_BUFFER_ACTIVATION, device, tensor, &scalar));
}

void lower_norm_begin(lowering *state, const lower_event *event) {
    lower_builder *builder = &state->base;
    movement *move = &state->tensors[event->tensor].forward;
    lower_do(builder, CLEAVE_WHEN_LAST);
    for (int32_t d = 0; d < builder->n_devices; d++) {
        const lower_region sum = new_sum(state, d, event->tensor);
        lower_copy_begin(builder);
        lower_copy_add(builder, event->tensor, CLEAVE_COPY_FILL, &scalar, &sum, NULL, 0);
        lower_copy_end(builder, d, CLEAVE_LANE_MAIN);
        move_contribution *added = move_contribute(builder, move, d, d);
        added->at = sum;
        added->every_window = builder->fold != NULL;
    }
}

void lower_norm_add(lowering *state, const lower_event *event) {
    lower_builder *builder = &state->base;
    lower_tensor *of = &state->tensors[event->tensor];
    lower_count_updated(state, event->tensor);
    for (int32_t i = 0; i < of->shares.n; i++) {
        lower_share *share = &of->shares.items[i];
        const lower_region gradient = lower_whole_gradient(state, event->tensor, i);
        share->gradient = gradient.buffer;
        lower_copy_begin(builder);
        for (int32_t c = share->first_counted; c >= 0; c = state->counted.items[c].next)
            lower_copy_add_squares(builder, event->tensor, &state->counted.items[c].box, &gradient,
                                   1 / (float)state->counted.items[c].n_devices);
        lower_copy_end(builder, of->holders.items[share->holder].device, CLEAVE_LANE_MAIN);
    }
}

void lower_norm_end(lowering *state, const lower_event *event) {
    lower_builder *builder = &state->base;
    movement *move = &state->tensors[event->tensor].forward;
    lower_do(builder, CLEAVE_WHEN_LAST);
    for (int32_t d = 0; d < builder->n_devices; d++) {
        const lower_region sum = new_sum(state, d, event->tensor);
        *move_demand_of(builder, move, d, -1, false) = sum;
    }
    move_all(builder, move);
}
