/* A joint plan from its shape: what its parts work on, and how they follow each other. */
#include "search/pipeline/joint_internal.h"

#include "search/pipeline/stages.h"

static bool make_room(planning *p, cleave_arena *scratch, cleave_arena *arena,
                      cleave_joint_plan *plan) {
    int32_t n = p->n_operators;
    p->work = cleave_arena_alloc(scratch, (size_t)p->n_kinds, (size_t)n * sizeof *p->work);
    p->row_of = CLEAVE_ARENA_ARRAY(scratch, int32_t, p->n_stages);
    p->group_of = CLEAVE_ARENA_ARRAY(scratch, int32_t, p->n_stages);
    p->time_of = CLEAVE_ARENA_ARRAY(scratch, double, p->shape->n_groups);
    p->sent_behind = CLEAVE_ARENA_ARRAY(scratch, double, p->n_stages);
    if (p->shape->places != NULL)
        p->hops_of =
            cleave_arena_alloc(scratch, (size_t)p->shape->n_groups, (size_t)n * sizeof *p->hops_of);
    if (p->shape->places != NULL)
        p->sends_of = cleave_arena_alloc(scratch, (size_t)p->shape->n_groups,
                                         (size_t)n * sizeof *p->sends_of);
    p->sends = CLEAVE_ARENA_ARRAY(scratch, int64_t, n);
    p->waits = CLEAVE_ARENA_ARRAY(scratch, int64_t, n);
    p->hops = CLEAVE_ARENA_ARRAY(scratch, int64_t, n);
    p->stage_of = CLEAVE_ARENA_ARRAY(scratch, int32_t, n);
    p->now.first_operator = CLEAVE_ARENA_ARRAY(scratch, int32_t, p->n_stages);
    p->now.plan_of = CLEAVE_ARENA_ARRAY(scratch, uint8_t, n);
    p->now.bytes = CLEAVE_ARENA_ARRAY(scratch, int64_t, p->shape->n_groups);
    plan->first_operator = CLEAVE_ARENA_ARRAY(arena, int32_t, p->n_stages);
    plan->plan_of = CLEAVE_ARENA_ARRAY(arena, uint8_t, n);
    plan->bytes = CLEAVE_ARENA_ARRAY(arena, int64_t, p->shape->n_groups);
    return p->work != NULL && p->row_of != NULL && p->group_of != NULL && p->time_of != NULL &&
           p->sent_behind != NULL &&
           (p->shape->places == NULL || (p->hops_of != NULL && p->sends_of != NULL)) &&
           p->sends != NULL && p->waits != NULL && p->hops != NULL && p->stage_of != NULL &&
           p->now.first_operator != NULL && p->now.plan_of != NULL && p->now.bytes != NULL &&
           plan->first_operator != NULL && plan->plan_of != NULL && plan->bytes != NULL;
}

/* Of groups that are alike all are one place. */
static bool find_places(planning *p, cleave_arena *scratch) {
    const cleave_joint_shape *shape = p->shape;
    cleave_joint_place *places = CLEAVE_ARENA_ARRAY(scratch, cleave_joint_place, shape->n_groups);
    p->n_kinds = 1;
    for (int32_t g = 0; g < shape->n_groups && places != NULL; g++) {
        places[g] = shape->places != NULL
                        ? shape->places[g]
                        : (cleave_joint_place){
                              .group = p->group, .family = shape->family, .room = 1, .slowness = 1};
        p->n_kinds = places[g].kind >= p->n_kinds ? places[g].kind + 1 : p->n_kinds;
    }
    p->places = places;
    return places != NULL;
}

/* As fast as can be. */
static void weigh_first(planning *p) {
    for (int32_t s = 0; s < p->n_stages; s++) {
        p->group_of[s] = joint_group_of(p, s);
        p->row_of[s] = p->places[p->group_of[s]].kind;
    }
    for (int32_t g = 0; g < p->shape->n_groups; g++) {
        int64_t *work = p->work + (size_t)p->places[g].kind * (size_t)p->n_operators;
        const cleave_group_plan *quickest = &joint_family_of(p, g)->plans[0];
        for (int32_t op = 0; op < p->n_operators && (g == 0 || p->places[g].kind > 0); op++)
            work[op] = quickest->time[p->group->stands_for[op]];
    }
    for (int32_t op = 0; op < p->n_operators; op++)
        p->sends[op] = p->shape->sends[op] / p->group->micro_batches;
}

/* Gradients of weights are put off as far as may be; where nothing has room so, not at all, and
   then by as much as helps. */
static cleave_status put_off(planning *p, cleave_joint_plan *plan, bool *fits,
                             cleave_arena *scratch, cleave_error *error) {
    bool parts = cleave_schedule_kind_parts_weights(p->shape->kind) && !p->shape->is_forward;
    weigh_first(p);
    *fits = false;
    CLEAVE_TRY(joint_cut(p, plan, fits, scratch, error));
    bool helps = parts && !*fits;
    for (p->now.sooner = p->shape->n_groups - 1; p->now.sooner > 0 && helps; p->now.sooner /= 2) {
        double before = *fits ? plan->seconds : (double)INFINITY;
        weigh_first(p);
        CLEAVE_TRY(joint_cut(p, plan, fits, scratch, error));
        helps = *fits && plan->seconds < before;
    }
    return CLEAVE_OK;
}

cleave_status cleave_joint_plan_make(const cleave_model *model, const cleave_group *group,
                                     const cleave_joint_shape *shape, cleave_arena *arena,
                                     cleave_joint_plan *plan, bool *fits, cleave_error *error) {
    cleave_arena scratch = {0};
    cleave_joint_plan made = {0};
    planning p = {
        .group = group,
        .shape = shape,
        .n_operators = model->n_operators,
        .n_stages = shape->n_groups * shape->n_virtual,
        .now = {.group = group,
                .family = &group->families[shape->family],
                .n_groups = shape->n_groups,
                .n_virtual = shape->n_virtual,
                .neighbours = shape->neighbours > 0 ? shape->neighbours : group->n_devices,
                .kind = shape->kind,
                .places = shape->places}};
    cleave_status status = find_places(&p, &scratch) && make_room(&p, &scratch, arena, &made) &&
                                   joint_tie(&p, model, &scratch)
                               ? put_off(&p, &made, fits, &scratch, error)
                               : cleave_fail_memory(error, "planning stages");
    cleave_arena_free(&scratch);
    if (status == CLEAVE_OK)
        *plan = made;
    return status;
}
