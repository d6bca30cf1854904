#include "search/pipeline/foresight.h"

double pipeline_in_flight(const cleave_joint_shape *shape, int32_t micro_batches, int32_t group) {
    int32_t m = micro_batches, n = shape->n_groups, v = shape->n_virtual;
    int32_t g = group, most = n - g;
    if (shape->is_forward)
        return 1;
    if (shape->kind == CLEAVE_SCHEDULE_GPIPE)
        return m;
    if (v > 1) {
        int32_t chunks = 2 * (n - g - 1) + (v - 1) * n + 1;
        return (chunks < m * v ? chunks : m * v) / (double)v;
    }
    return most < m ? most : m;
}

double pipeline_turns_of(const cleave_joint_shape *shape, int32_t sooner) {
    if (!cleave_schedule_kind_parts_weights(shape->kind))
        return shape->n_virtual;
    return shape->n_virtual * 3 / (1 + (sooner > 0 ? sooner / (shape->n_groups - 1.0) : 0));
}

double pipeline_hides_gradients(const cleave_joint_shape *shape) {
    return (1 - pipeline_backward_share) / shape->n_virtual;
}

double pipeline_hides_inputs(const cleave_joint_shape *shape) {
    bool parts = cleave_schedule_kind_parts_weights(shape->kind);
    return (shape->is_forward ? 1
            : parts           ? pipeline_weights_share
                              : pipeline_backward_share) /
           shape->n_virtual;
}

/* Where groups are not alike one that is quicker has time to wait.  But no more micro-batches are
   under way from a group to the end and back than it keeps: so it takes one up no sooner than one
   of so many has gone all the way.  Gradients of weights that are put off are no part of it. */
static double pace_of_rounds(const pipeline_step *step) {
    const cleave_joint_shape *shape = step->shape;
    int32_t n_groups = shape->n_groups, n_stages = n_groups * shape->n_virtual;
    double share = cleave_schedule_kind_parts_weights(shape->kind) ? 1 - pipeline_weights_share : 1;
    double round = 0, pace = 0;
    for (int32_t s = n_stages - 1; s >= 0; s--) {
        double n = pipeline_in_flight(shape, step->micro_batches, s % n_groups);
        round += share * step->time[s % n_groups] / shape->n_virtual;
        round += s + 1 < n_stages ? 2 * step->sends[s] : 0;
        if (s < n_groups && n < step->micro_batches && !shape->is_forward)
            pace = fmax(pace, round / n);
    }
    return pace;
}

double pipeline_foresee(const pipeline_step *step) {
    const cleave_joint_shape *shape = step->shape;
    double all = 0, slowest = 0, path = 0, m = step->micro_batches;
    double pace = step->is_alike ? step->pace : fmax(step->pace, pace_of_rounds(step));
    for (int32_t g = 0; g < shape->n_groups; g++) {
        all += step->time[g];
        slowest = fmax(slowest, step->time[g]);
    }
    for (int32_t s = 0; s + 1 < shape->n_groups * shape->n_virtual; s++) {
        path += (step->is_alike || shape->is_forward ? 1 : 2) * step->sends[s];
        pace = fmax(pace, step->sends[s]);
    }
    if (shape->is_stream) /* the next batch fills what this one leaves */
        return m * pace * 1e-12;
    double bubble = (all - slowest) / pipeline_turns_of(shape, step->sooner);
    return (m * pace + bubble + path + step->left) * 1e-12;
}

void pipeline_count_waits(int32_t n_operators, int32_t n_stages, const int32_t *joined,
                          const int64_t *work, int64_t *waits) {
    double all = 0, most, least;
    for (int32_t op = 0; op < n_operators; op++)
        all += (double)work[op];
    most = pipeline_backward_share * all / n_stages;
    least = (1 - pipeline_backward_share) * all / n_stages;
    for (int32_t op = 0; op < n_operators; op++) {
        double behind = joined != NULL && joined[op] <= op ? least : 0;
        for (int32_t i = op; joined != NULL && i >= joined[op] && behind < most; i--)
            behind += pipeline_backward_share * (double)work[i];
        waits[op] = (int64_t)fmin(behind, most);
    }
}
