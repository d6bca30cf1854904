/* A joint plan as a layout. */
#include "search/pipeline/joint.h"

#include "search/problem/group_split.h"

/* Which group reads a parameter: 1 + it; SEVERAL. */
enum { SEVERAL = -1 };

static void note_group(const cleave_model *model, int32_t tensor, int32_t group, int32_t *of) {
    for (int32_t s = 0; s < model->tensors[tensor].view.n_sources; s++)
        note_group(model, model->tensors[tensor].view.sources[s], group, of);
    of[tensor] = of[tensor] == 0 || of[tensor] == 1 + group ? 1 + group : SEVERAL;
}

static void shard_under(const cleave_model *model, int32_t tensor, cleave_sharded sharded,
                        const int32_t *read_by, cleave_layout *layout) {
    const cleave_tensor *of = &model->tensors[tensor];
    for (int32_t s = 0; s < of->view.n_sources; s++)
        shard_under(model, of->view.sources[s], sharded, read_by, layout);
    if (of->kind != CLEAVE_TENSOR_PARAMETER || of->view.kind != CLEAVE_VIEW_NONE)
        return;
    if (read_by[tensor] == SEVERAL && sharded > CLEAVE_SHARDED_UPDATE)
        sharded = CLEAVE_SHARDED_UPDATE;
    layout->sharded[tensor] =
        (uint8_t)(of->needs_gradient ? cleave_sharded_as(of, sharded) : CLEAVE_SHARDED_NOTHING);
}

static int32_t group_of(const cleave_joint_plan *plan, int32_t op) {
    const cleave_schedule schedule = {.n_stages = plan->n_groups * plan->n_virtual,
                                      .first_operator = plan->first_operator};
    return cleave_schedule_stage_of(&schedule, op) % plan->n_groups;
}

const cleave_group_plan *cleave_joint_plan_of(const cleave_joint_plan *plan, int32_t op) {
    const cleave_group_family *family = plan->family;
    if (plan->places != NULL) {
        const cleave_joint_place *place = &plan->places[group_of(plan, op)];
        family = &place->group->families[place->family];
    }
    return &family->plans[plan->plan_of[op]];
}

/* As the first that reads a parameter has it.  Of what several groups read (tied tables) gradients
   arise in each of them apart, which does not fold. */
static cleave_status shard(const cleave_model *model, const cleave_joint_plan *plan,
                           cleave_arena *arena, cleave_layout *layout, cleave_error *error) {
    int32_t *read_by = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    if (read_by == NULL)
        return cleave_fail_memory(error, "making a layout");
    for (int32_t n = 0; n < model->n_nests && plan->group->folds; n++)
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            note_group(model, model->nests[n].inputs[i].tensor, group_of(plan, model->nests[n].op),
                       read_by);
    for (int32_t n = model->n_nests - 1; n >= 0; n--) {
        int32_t op = model->nests[n].op;
        const cleave_group_plan *of = cleave_joint_plan_of(plan, op);
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            shard_under(model, model->nests[n].inputs[i].tensor,
                        (cleave_sharded)of->sharded[plan->group->stands_for[op]], read_by, layout);
    }
    return CLEAVE_OK;
}

cleave_status cleave_joint_plan_layout(const cleave_model *model, const cleave_joint_plan *plan,
                                       int32_t n_devices, cleave_arena *arena,
                                       cleave_layout *layout, cleave_error *error) {
    cleave_layout made;
    int32_t n_stages = plan->n_groups * plan->n_virtual;
    const cleave_schedule schedule = {.micro_batches = plan->group->micro_batches,
                                      .n_stages = n_stages,
                                      .kind = plan->kind,
                                      .sooner = plan->sooner,
                                      .first_operator = plan->first_operator};
    CLEAVE_TRY(cleave_layout_create(model, n_devices, arena, &made, error));
    CLEAVE_TRY(cleave_schedule_copy(&schedule, arena, &made.schedule, error));
    CLEAVE_TRY(shard(model, plan, arena, &made, error));
    for (int32_t op = 0; op < model->n_operators; op++) {
        const cleave_group_plan *of = cleave_joint_plan_of(plan, op);
        int32_t few = plan->group->stands_for[op], g = group_of(plan, op);
        const cleave_split *split = &of->splits[few];
        int32_t *devices = CLEAVE_ARENA_ARRAY(arena, int32_t, split->n_parts);
        if (devices == NULL)
            return cleave_fail_memory(error, "making a layout");
        for (int32_t d = 0; d < split->n_parts; d++)
            devices[d] =
                plan->places != NULL
                    ? plan->places[g].devices[split->devices[d]]
                    : cleave_group_device(split->devices[d], g, plan->n_groups, plan->neighbours);
        CLEAVE_TRY(
            cleave_layout_set(&made, op, split->replicas, split->degree, devices, arena, error));
        made.recompute[op] = of->again[few];
    }
    *layout = made;
    return CLEAVE_OK;
}
