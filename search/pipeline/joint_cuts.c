/* Where a joint plan cuts operators into stages: anew as long as what they then take helps, by room
   where groups are not alike, and operator by operator. */
#include "search/pipeline/joint_internal.h"

#include "search/pipeline/stages.h"

#include <string.h>

/* Cuts are looked at anew so often at most. */
enum { MOST_CUTS = 4 };

static void keep(const planning *p, cleave_joint_plan *plan) {
    size_t n = (size_t)p->n_operators, n_stages = (size_t)p->n_stages;
    int32_t *first_operator = plan->first_operator;
    uint8_t *plan_of = plan->plan_of;
    int64_t *bytes = plan->bytes;
    memcpy(first_operator, p->now.first_operator, n_stages * sizeof *first_operator);
    memcpy(plan_of, p->now.plan_of, n * sizeof *plan_of);
    memcpy(bytes, p->now.bytes, (size_t)p->shape->n_groups * sizeof *bytes);
    *plan = p->now;
    plan->first_operator = first_operator;
    plan->plan_of = plan_of;
    plan->bytes = bytes;
}

static void keep_better(const planning *p, bool has_room, cleave_joint_plan *plan, bool *fits) {
    if (has_room && (!*fits || p->now.seconds < plan->seconds)) {
        keep(p, plan);
        *fits = true;
    }
}

/* A message goes there, and its gradient back. */
static void count_hops(planning *p) {
    const int ways = p->shape->is_forward ? 1 : 2;
    pipeline_count_waits(p->n_operators, p->n_stages, p->shape->joined, p->work, p->waits);
    for (int32_t op = 0; op < p->n_operators; op++)
        p->hops[op] = p->waits[op] + ways * p->sends[op];
    /* Shared by the micro-batches that are under way: see foresight.c. */
    for (int32_t g = 0; g < p->shape->n_groups && p->hops_of != NULL; g++)
        for (int32_t op = 0; op < p->n_operators; op++) {
            size_t at = (size_t)g * (size_t)p->n_operators + (size_t)op;
            double sends = p->places[g].slowness * (double)p->sends[op];
            double hop = (double)p->waits[op] + ways * sends;
            p->hops_of[at] =
                (int64_t)(hop / pipeline_in_flight(p->shape, p->group->micro_batches, g));
            p->sends_of[at] = (int64_t)sends;
        }
}

/* What operators take, on each kind of places, as they have come out, or as the leanest that has
   come out there; or, where nothing has room, by the share of it that they keep. */
static void weigh_anew(planning *p, bool has_room) {
    for (int32_t g = 0, n = p->n_operators; g < p->shape->n_groups; g++) {
        const cleave_group_family *family = joint_family_of(p, g);
        int64_t *work = p->work + (size_t)p->places[g].kind * (size_t)n;
        int32_t leanest = 0;
        if (g > 0 && p->places[g].kind == p->places[g - 1].kind)
            continue;
        for (int32_t op = 0; op < n; op++)
            if (p->row_of[p->stage_of[op]] == p->places[g].kind && p->now.plan_of[op] > leanest)
                leanest = p->now.plan_of[op];
        for (int32_t op = 0; op < n; op++) {
            bool is_there = p->row_of[p->stage_of[op]] == p->places[g].kind;
            int32_t plan = is_there ? p->now.plan_of[op] : leanest;
            work[op] = has_room ? family->plans[plan].time[p->group->stands_for[op]]
                                : (int64_t)(joint_bytes_on(p, family, op, family->n_plans - 1) /
                                            p->places[g].room);
        }
    }
}

/* First by what operators take as fast as can be, where nothing has room by what they keep, else by
   what they take as they have come out. */
static cleave_status plan_all(planning *p, cleave_joint_plan *plan, bool *fits,
                              cleave_error *error) {
    double least = INFINITY;
    count_hops(p);
    for (int i = 0; i < MOST_CUTS; i++) {
        bool alike = p->hops_of == NULL;
        const cleave_stage_work work = {.work = p->work,
                                        .row_of = p->n_kinds > 1 ? p->row_of : NULL,
                                        .sends = alike ? p->hops : p->hops_of,
                                        .send_row_of = alike ? NULL : p->group_of};
        CLEAVE_TRY(
            cleave_stages_cut(p->n_operators, &work, p->n_stages, p->now.first_operator, error));
        bool has_room = joint_fill(p), is_better = has_room && p->now.seconds < least;
        keep_better(p, has_room, plan, fits);
        if (i > 0 && !is_better)
            break;
        least = is_better ? p->now.seconds : least;
        weigh_anew(p, has_room);
    }
    return CLEAVE_OK;
}

/* Gives a stage's first operator to the one before, or takes that one's last; undoes it where that
   does not help. */
static bool move_cut(planning *p, int32_t stage, int32_t step, double *over, double *seconds) {
    int32_t *first = p->now.first_operator, end = joint_end_of(p, stage);
    if (first[stage] + step <= first[stage - 1] || first[stage] + step >= end)
        return false;
    first[stage] += step;
    joint_fill(p);
    bool helps = p->over < *over || (p->over <= 0 && *over <= 0 && p->now.seconds < *seconds);
    if (helps) {
        *over = p->over;
        *seconds = p->now.seconds;
    } else {
        first[stage] -= step;
    }
    return helps;
}

/* Each way to do all operators, summed up from the first on. */
static bool sum_ways(const planning *p, int32_t g, cleave_arena *scratch, cleave_stage_ways *ways) {
    const cleave_group_family *family = joint_family_of(p, g);
    size_t row = (size_t)p->n_operators + 1, n_plans = (size_t)family->n_plans;
    double *time = cleave_arena_alloc(scratch, n_plans, row * sizeof *time);
    double *stays = cleave_arena_alloc(scratch, n_plans, row * sizeof *stays);
    double *kept = cleave_arena_alloc(scratch, n_plans, row * sizeof *kept);
    if (time == NULL || stays == NULL || kept == NULL)
        return false;
    for (size_t i = 0; i < n_plans; i++)
        for (int32_t op = 0; op < p->n_operators; op++) {
            const cleave_group_plan *plan = &family->plans[i];
            int32_t few = p->group->stands_for[op];
            size_t at = i * row + (size_t)op;
            time[at + 1] = time[at] + (double)plan->time[few];
            stays[at + 1] = stays[at] + (double)plan->stays[few];
            kept[at + 1] = kept[at] + (double)plan->kept[few];
        }
    *ways =
        (cleave_stage_ways){.n_ways = family->n_plans, .time = time, .stays = stays, .kept = kept};
    return true;
}

/* Of places that are not alike room is no more even than speed, so they are also cut by both. */
static cleave_status plan_in_room(planning *p, cleave_joint_plan *plan, bool *fits,
                                  cleave_arena *scratch, cleave_error *error) {
    cleave_stage_ways *of = CLEAVE_ARENA_ARRAY(scratch, cleave_stage_ways, p->n_stages);
    cleave_stage_ways *kinds = CLEAVE_ARENA_ARRAY(scratch, cleave_stage_ways, p->n_kinds);
    bool ready = of != NULL && kinds != NULL;
    for (int32_t s = 0; s < p->n_stages && ready; s++) {
        int32_t g = joint_group_of(p, s);
        cleave_stage_ways *kind = &kinds[p->places[g].kind];
        ready = kind->n_ways > 0 || sum_ways(p, g, scratch, kind);
        of[s] = *kind;
        of[s].in_flight = pipeline_in_flight(p->shape, p->group->micro_batches, g);
        of[s].most_bytes = joint_room_of(p, g) / p->shape->n_virtual;
        of[s].sends = p->sends_of + (size_t)g * (size_t)p->n_operators;
        of[s].sent = s > 0 ? of[s - 1].sends : of[s].sends;
        of[s].hides = pipeline_hides_gradients(p->shape) * p->shape->n_virtual;
        of[s].hides_sent = pipeline_hides_inputs(p->shape) * p->shape->n_virtual;
    }
    if (!ready)
        return cleave_fail_memory(error, "planning stages");
    if (cleave_stages_cut_in_room(p->n_operators, of, p->n_stages, p->now.first_operator))
        keep_better(p, joint_fill(p), plan, fits);
    return CLEAVE_OK;
}

static void try_cuts(planning *p, cleave_joint_plan *plan, bool *fits) {
    if (*fits)
        memcpy(p->now.first_operator, plan->first_operator,
               (size_t)p->n_stages * sizeof *plan->first_operator);
    joint_fill(p);
    double over = p->over, seconds = p->now.seconds;
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t stage = 1; stage < p->n_stages; stage++)
            moved = move_cut(p, stage, -1, &over, &seconds) ||
                    move_cut(p, stage, 1, &over, &seconds) || moved;
    }
    keep_better(p, joint_fill(p), plan, fits);
}

cleave_status joint_cut(planning *p, cleave_joint_plan *plan, bool *fits, cleave_arena *scratch,
                        cleave_error *error) {
    CLEAVE_TRY(plan_all(p, plan, fits, error));
    if (p->shape->places != NULL)
        CLEAVE_TRY(plan_in_room(p, plan, fits, scratch, error));
    if (p->shape->tries_cuts)
        try_cuts(p, plan, fits);
    return CLEAVE_OK;
}
