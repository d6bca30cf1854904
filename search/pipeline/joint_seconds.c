/* What the step of a joint plan is foreseen to take, by what its groups do and wait for. */
#include "search/pipeline/joint_internal.h"

#include "base/order.h"
#include "search/pipeline/stages.h"

#include <stdlib.h>

/* What gathers and reduces of an operator's parameters take that its group waits for: each goes on
   beside what is done since the last operator that has such, and gradients are there in backward
   alone. */
static double exposed_of(const cleave_group_plan *plan, int32_t few, double since) {
    double share = plan->sharded[few] > CLEAVE_SHARDED_GRADIENT ? 1 : pipeline_backward_share;
    return pipeline_left_of((double)plan->beside[few], pipeline_hides * share * since);
}

void joint_add_times(const planning *p, int32_t g, double *time, double *left) {
    const cleave_group_family *family = joint_family_of(p, g);
    double exposed = 0, once = 0, behind = 0;
    *time = 0;
    for (int32_t s = g; s < p->n_stages; s += p->shape->n_groups) {
        double since = INFINITY; /* the first one's go on beside another block */
        for (int32_t op = p->now.first_operator[s]; op < joint_end_of(p, s); op++) {
            const cleave_group_plan *plan = &family->plans[p->now.plan_of[op]];
            int32_t few = p->group->stands_for[op];
            if (plan->beside[few] > 0) {
                exposed += exposed_of(plan, few, since);
                since = 0;
            }
            since += (double)plan->time[few];
            *time += (double)plan->time[few];
            once += (double)plan->once[few];
            behind += (double)plan->behind[few];
        }
    }
    *time += exposed;
    *left = behind + pipeline_left_of(once, pipeline_backward_share * *time);
}

/* What goes on from group to group does so at the end of a block and before the next one begins,
   there and back, and both groups wait for it; and a group that gives a part of a gradient waits
   until the other part is there. */
static double wait_for_others(const planning *p, int32_t g) {
    double waits = 0;
    for (int32_t s = g; s < p->n_stages && !p->shape->is_forward; s += p->shape->n_groups) {
        if (s + 1 < p->n_stages)
            waits += p->sent_behind[s];
        if (s > 0) {
            int32_t last = p->now.first_operator[s] - 1;
            waits += (double)p->waits[last] + p->sent_behind[s - 1];
        }
    }
    return waits;
}

/* Where gradients of weights are blocks by themselves, which wait for nobody, messages go on
   meanwhile. */
static double left_of_waits(const cleave_joint_shape *shape, double time, double waits) {
    if (!cleave_schedule_kind_parts_weights(shape->kind))
        return waits;
    return pipeline_left_of(waits, pipeline_hides * pipeline_weights_share * time);
}

static double waits_of_place(const planning *p, int32_t g) {
    double waits = 0, time = p->time_of[g];
    for (int32_t s = g; s < p->n_stages; s += p->shape->n_groups) {
        if (s + 1 < p->n_stages && !p->shape->is_forward)
            waits +=
                cleave_stage_waits(time, p->sent_behind[s], pipeline_hides_gradients(p->shape));
        if (s > 0)
            waits +=
                cleave_stage_waits(time, p->sent_behind[s - 1], pipeline_hides_inputs(p->shape));
    }
    return waits;
}

double joint_foresee(planning *p) {
    pipeline_step step = {.shape = p->shape,
                          .micro_batches = p->group->micro_batches,
                          .sooner = p->now.sooner,
                          .is_alike = p->shape->places == NULL,
                          .time = p->time_of,
                          .sends = p->sent_behind};
    for (int32_t s = 0; s < p->n_stages; s++)
        p->sent_behind[s] =
            (double)p->sends[joint_end_of(p, s) - 1] * p->places[joint_group_of(p, s)].slowness;
    for (int32_t g = 0; g < p->shape->n_groups; g++) {
        double time, left;
        joint_add_times(p, g, &time, &left);
        p->time_of[g] = time;
        step.left = fmax(step.left, left);
        step.pace = fmax(
            step.pace, time + (step.is_alike ? left_of_waits(p->shape, time, wait_for_others(p, g))
                                             : waits_of_place(p, g)));
    }
    return pipeline_foresee(&step);
}

/* Picoseconds of an operator, of each the least that any plan has. */
typedef struct least_times {
    double time, beside, once, behind;
} least_times;

static least_times least_of(const cleave_group_family *family, int32_t few) {
    least_times least = {INFINITY, INFINITY, INFINITY, INFINITY};
    for (int32_t i = 0; i < family->n_plans; i++) {
        const cleave_group_plan *plan = &family->plans[i];
        least.time = fmin(least.time, (double)plan->time[few]);
        least.beside = fmin(least.beside, (double)plan->beside[few]);
        least.once = fmin(least.once, (double)plan->once[few]);
        least.behind = fmin(least.behind, (double)plan->behind[few]);
    }
    return least;
}

/* What all groups together wait for each other in a micro-batch, cut where that is least. */
static cleave_status least_waits(int32_t n_operators, const cleave_group *group,
                                 const cleave_joint_shape *shape, cleave_arena *scratch,
                                 double *waits, cleave_error *error) {
    const cleave_group_plan *quickest = &group->families[shape->family].plans[0];
    int32_t n_stages = shape->n_groups * shape->n_virtual;
    int64_t *work = CLEAVE_ARENA_ARRAY(scratch, int64_t, n_operators);
    int64_t *joins = CLEAVE_ARENA_ARRAY(scratch, int64_t, n_operators);
    double *behind = CLEAVE_ARENA_ARRAY(scratch, double, n_operators);
    if (work == NULL || joins == NULL || behind == NULL)
        return cleave_fail_memory(error, "planning stages");
    for (int32_t op = 0; op < n_operators; op++)
        work[op] = quickest->time[group->stands_for[op]];
    pipeline_count_waits(n_operators, n_stages, shape->joined, work, joins);
    for (int32_t op = 0; op < n_operators; op++)
        behind[op] = (double)joins[op] + 2 * (double)(shape->sends[op] / group->micro_batches);
    qsort(behind, (size_t)n_operators - 1, sizeof *behind, cleave_order_doubles);
    *waits = 0;
    for (int32_t s = 0; s + 1 < n_stages && !shape->is_forward; s++)
        *waits += behind[s];
    return CLEAVE_OK;
}

/* The slowest group takes no less than groups do on average, and that no less than one with as much
   of everything as they have on average. */
cleave_status cleave_joint_least_seconds(const cleave_model *model, const cleave_group *group,
                                         const cleave_joint_shape *shape, double *seconds,
                                         cleave_error *error) {
    const cleave_group_family *family = &group->families[shape->family];
    double time = 0, beside = 0, left = 0, waits = 0, n = shape->n_groups, m = group->micro_batches;
    cleave_arena scratch = {0};
    cleave_status status = least_waits(model->n_operators, group, shape, &scratch, &waits, error);
    cleave_arena_free(&scratch);
    CLEAVE_TRY(status);
    for (int32_t op = 0; op < model->n_operators; op++) {
        const least_times least = least_of(family, group->stands_for[op]);
        time += least.time / n;
        beside += least.beside / n;
        left += (least.behind + pipeline_never_hidden * least.once) / n;
    }
    time += pipeline_left_of(beside, pipeline_hides * time);
    double pace = time + left_of_waits(shape, time, waits / n);
    double bubble = (n * time - pace) / pipeline_turns_of(shape, 0);
    *seconds = (m * pace + (shape->is_stream ? 0 : bubble + left)) * 1e-12;
    return CLEAVE_OK;
}
