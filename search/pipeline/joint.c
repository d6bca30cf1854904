#include "search/pipeline/joint.h"

#include "search/pipeline/stages.h"

#include <math.h>
#include <string.h>

/* Cuts are looked at anew so often at most. */
enum { MOST_CUTS = 4 };

/* Of a micro-batch its backward, which hides what parameters take once, and the gradients of
   weights in it; what hides what is gathered and reduced in it; and what never is hidden. */
static const double backward_share = 0.6, weights_share = 0.3, hides = 0.8, never_hidden = 0.1;

typedef struct planning {
    const cleave_group *group;
    const cleave_group_family *family;
    const cleave_joint_shape *shape;
    int32_t n_operators, n_stages;
    int64_t *work, *sends; /* [n_operators] of a micro-batch */
    int32_t *joined;       /* [n_operators] of a cut behind it: see find_joined */
    int64_t *hops;         /* [n_operators] that a group waits for others, of a cut behind it */
    int32_t *stage_of;     /* [n_operators] */
    const int32_t *tied;   /* [n_operators] the first that reads a parameter that it reads; or it */
    double over;           /* bytes that groups lack for their leanest plans */
    cleave_joint_plan now;
} planning;

static int32_t group_of(const planning *p, int32_t stage) { return stage % p->shape->n_groups; }

/* Micro-batches that a stage keeps at most: of virtual stages a group's share. */
static double in_flight(const planning *p, int32_t stage) {
    int32_t m = p->group->micro_batches, n = p->shape->n_groups, v = p->shape->n_virtual;
    int32_t g = group_of(p, stage), most = n - g;
    if (p->shape->is_forward)
        return 1;
    if (p->shape->kind == CLEAVE_SCHEDULE_GPIPE)
        return m;
    if (v > 1) {
        int32_t chunks = 2 * (n - g - 1) + (v - 1) * n + 1;
        return (chunks < m * v ? chunks : m * v) / (double)v;
    }
    return most < m ? most : m;
}

/* Gradients of weights are put off by as many blocks as there are groups before, and then come
   behind all of a backward, in the course of which what they read takes the place of what was kept;
   but where a group has several stages, of another one than what is kept most of. */
static double bytes_of(const planning *p, int32_t op, int32_t plan) {
    const cleave_group_plan *of = &p->family->plans[plan];
    int32_t stage = p->stage_of[op], g = group_of(p, stage), m = p->group->micro_batches;
    int32_t few = p->group->stands_for[op];
    double kept = (double)of->kept[few], bytes = (double)of->stays[few], n = in_flight(p, stage);
    if (op - of->back[few] < p->now.first_operator[stage])
        kept += (double)of->across[few];
    if (cleave_schedule_kind_parts_weights(p->shape->kind)) {
        int32_t v = p->shape->n_virtual, late = g + 1 < m * v ? g + 1 : m * v; /* blocks */
        bytes += (double)of->late[few] * late / v;
        n -= v == 1;
    }
    if (group_of(p, p->stage_of[p->tied[op]]) != g)
        bytes += (double)of->tied[few];
    return bytes + kept * n;
}

/* The operators of a stage are [first, end). */
static int32_t end_of(const planning *p, int32_t stage) {
    return stage + 1 < p->n_stages ? p->now.first_operator[stage + 1] : p->n_operators;
}

/* What the operators of a group take with one plan.  The gradients of what an operator writes and
   of what it reads are there at once. */
static double bytes_with(planning *p, int32_t g, int32_t plan) {
    double sum = 0, passing = 0;
    for (int32_t s = g; s < p->n_stages; s += p->shape->n_groups)
        for (int32_t op = p->now.first_operator[s]; op < end_of(p, s); op++) {
            int32_t few = p->group->stands_for[op];
            p->now.plan_of[op] = (uint8_t)plan;
            sum += bytes_of(p, op, plan);
            passing = fmax(passing, 2 * (double)(p->family->plans[plan].wrote[few] +
                                                 p->family->plans[plan].passing[few]));
        }
    return sum + passing;
}

/* As many of the last operators as there is room for are as in the plan before. */
static void mix(planning *p, int32_t g, int32_t plan, double most, double *bytes) {
    for (int32_t s = p->n_stages - p->shape->n_groups + g; s >= 0; s -= p->shape->n_groups)
        for (int32_t op = end_of(p, s) - 1; op >= p->now.first_operator[s]; op--) {
            double with = *bytes + bytes_of(p, op, plan - 1) - bytes_of(p, op, plan);
            if (with > most)
                return;
            p->now.plan_of[op] = (uint8_t)(plan - 1);
            *bytes = with;
        }
}

/* Sums over the operators of a group, picoseconds: of a micro-batch, and of what it does not hide
   of what happens once. */
static void add_times(const planning *p, int32_t g, double *time, double *left) {
    double beside = 0, once = 0, behind = 0;
    *time = 0;
    for (int32_t s = g; s < p->n_stages; s += p->shape->n_groups)
        for (int32_t op = p->now.first_operator[s]; op < end_of(p, s); op++) {
            const cleave_group_plan *plan = &p->family->plans[p->now.plan_of[op]];
            int32_t few = p->group->stands_for[op];
            *time += (double)plan->time[few];
            beside += (double)plan->beside[few];
            once += (double)plan->once[few];
            behind += (double)plan->behind[few];
        }
    *time += fmax(beside - hides * *time, never_hidden * beside);
    *left = behind + fmax(once - backward_share * *time, never_hidden * once);
}

/* What a group takes by itself, picoseconds. */
static double time_alone(const planning *p, int32_t g) {
    double time, left;
    add_times(p, g, &time, &left);
    return p->group->micro_batches * time + left;
}

/* The first plan that a group has room for, and as much as there is room for of the one before; or,
   where that is quicker, as a whole, or one behind it: one before takes less time for a
   micro-batch, but for that more may be left behind the last one. */
static bool choose_for(planning *p, int32_t g, double *bytes) {
    double most = (double)p->shape->most_bytes, quickest = INFINITY;
    int32_t first = 0, best = 0;
    while (first < p->family->n_plans && (*bytes = bytes_with(p, g, first)) > most)
        first++;
    if (first == p->family->n_plans)
        return false;
    for (int32_t i = first; i < p->family->n_plans; i++) {
        if (i > first)
            *bytes = bytes_with(p, g, i);
        double time = time_alone(p, g);
        if (time >= quickest || *bytes > most)
            break;
        quickest = time;
        best = i;
    }
    *bytes = bytes_with(p, g, first);
    if (first > 0)
        mix(p, g, first, most, bytes);
    if (time_alone(p, g) > quickest)
        *bytes = bytes_with(p, g, best);
    return true;
}

/* What goes on from group to group does so at the end of a block and before the next one begins,
   there and back, and both groups wait for it; and a group that gives a part of a gradient waits
   until the other part is there. */
static double wait_for_others(const planning *p, int32_t g) {
    double waits = 0;
    for (int32_t s = g; s < p->n_stages && !p->shape->is_forward; s += p->shape->n_groups) {
        if (s + 1 < p->n_stages)
            waits += (double)p->sends[end_of(p, s) - 1];
        if (s > 0)
            waits += (double)(p->hops[end_of(p, s - 1) - 1] - p->sends[end_of(p, s - 1) - 1]);
    }
    return waits;
}

/* Where gradients of weights are blocks by themselves, which wait for nobody, messages go on
   meanwhile. */
static double left_of_waits(const planning *p, double time, double waits) {
    if (!cleave_schedule_kind_parts_weights(p->shape->kind))
        return waits;
    return fmax(waits - hides * weights_share * time, never_hidden * waits);
}

/* The bubble of a kind is that of 1F1B, by so many. */
static double turns_of(const cleave_joint_shape *shape) {
    return shape->n_virtual * (cleave_schedule_kind_parts_weights(shape->kind) ? 3.0 : 1.0);
}

static double foresee(const planning *p) {
    double all = 0, slowest = 0, left = 0, path = 0, pace = 0;
    for (int32_t g = 0; g < p->shape->n_groups; g++) {
        double time, of_group;
        add_times(p, g, &time, &of_group);
        all += time;
        slowest = fmax(slowest, time);
        pace = fmax(pace, time + left_of_waits(p, time, wait_for_others(p, g)));
        left = fmax(left, of_group);
    }
    for (int32_t s = 0; s + 1 < p->n_stages; s++) {
        double sends = (double)p->sends[end_of(p, s) - 1] / (p->shape->is_forward ? 2 : 1);
        path += sends;
        pace = fmax(pace, sends);
    }
    if (p->shape->is_stream) /* the next batch fills what this one leaves */
        return p->group->micro_batches * pace * 1e-12;
    double bubble = (all - slowest) / turns_of(p->shape);
    return (p->group->micro_batches * pace + bubble + path + left) * 1e-12;
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

/* The slowest group takes no less than groups do on average, and that no less than one with as much
   of everything as they have on average. */
double cleave_joint_least_seconds(const cleave_model *model, const cleave_group *group,
                                  const cleave_joint_shape *shape) {
    const cleave_group_family *family = &group->families[shape->family];
    double time = 0, beside = 0, left = 0, n = shape->n_groups, m = group->micro_batches;
    for (int32_t op = 0; op < model->n_operators; op++) {
        const least_times least = least_of(family, group->stands_for[op]);
        time += least.time / n;
        beside += least.beside / n;
        left += (least.behind + never_hidden * least.once) / n;
    }
    time += fmax(beside - hides * time, never_hidden * beside);
    if (shape->is_stream)
        return m * time * 1e-12;
    return (time * (m + (n - 1) / turns_of(shape)) + left) * 1e-12;
}

/* Fills groups, cut as they are. */
static bool choose(planning *p) {
    for (int32_t op = 0, stage = 0; op < p->n_operators; op++) {
        stage += stage + 1 < p->n_stages && p->now.first_operator[stage + 1] <= op;
        p->stage_of[op] = stage;
    }
    p->now.bytes = 0;
    p->over = 0;
    for (int32_t g = 0; g < p->shape->n_groups; g++) {
        double bytes = 0;
        if (!choose_for(p, g, &bytes))
            p->over += bytes - (double)p->shape->most_bytes;
        p->now.bytes = (int64_t)bytes > p->now.bytes ? (int64_t)bytes : p->now.bytes;
    }
    p->now.seconds = foresee(p);
    return p->over <= 0;
}

static void keep(const planning *p, cleave_joint_plan *plan) {
    size_t n = (size_t)p->n_operators, n_stages = (size_t)p->n_stages;
    int32_t *first_operator = plan->first_operator;
    uint8_t *plan_of = plan->plan_of;
    memcpy(first_operator, p->now.first_operator, n_stages * sizeof *first_operator);
    memcpy(plan_of, p->now.plan_of, n * sizeof *plan_of);
    *plan = p->now;
    plan->first_operator = first_operator;
    plan->plan_of = plan_of;
}

/* Where a tensor is read on both sides of a cut, so are parts of its gradient, which come together
   when the first reader has given its own: behind the backward of all from there to the cut. */
static void count_hops(planning *p) {
    double all = 0, behind, most;
    for (int32_t op = 0; op < p->n_operators; op++)
        all += (double)p->work[op];
    most = backward_share * all / p->n_stages;
    for (int32_t op = 0; op < p->n_operators; op++) {
        behind = 0;
        for (int32_t i = op; i >= p->joined[op] && behind < most && !p->shape->is_forward; i--)
            behind += backward_share * (double)p->work[i];
        p->hops[op] = 2 * p->sends[op] + (int64_t)fmin(behind, most);
    }
}

/* First by what operators take as fast as can be, where nothing has room by what they keep, else by
   what they take as they have come out. */
static cleave_status plan_all(planning *p, cleave_joint_plan *plan, bool *fits,
                              cleave_error *error) {
    *fits = false;
    count_hops(p);
    for (int i = 0; i < MOST_CUTS; i++) {
        const cleave_stage_work work = {.work = p->work, .sends = p->hops};
        CLEAVE_TRY(
            cleave_stages_cut(p->n_operators, &work, p->n_stages, p->now.first_operator, error));
        bool has_room = choose(p),
             is_better = has_room && (!*fits || p->now.seconds < plan->seconds);
        if (is_better)
            keep(p, plan);
        if (i > 0 && !is_better)
            break;
        *fits = *fits || has_room;
        for (int32_t op = 0; op < p->n_operators; op++)
            p->work[op] = has_room
                              ? p->family->plans[p->now.plan_of[op]].time[p->group->stands_for[op]]
                              : (int64_t)bytes_of(p, op, p->family->n_plans - 1);
    }
    return CLEAVE_OK;
}

/* Gives a stage's first operator to the one before, or takes that one's last; undoes it where that
   does not help. */
static bool move_cut(planning *p, int32_t stage, int32_t step, double *over, double *seconds) {
    int32_t *first = p->now.first_operator, end = end_of(p, stage);
    if (first[stage] + step <= first[stage - 1] || first[stage] + step >= end)
        return false;
    first[stage] += step;
    choose(p);
    bool helps = p->over < *over || (p->over <= 0 && *over <= 0 && p->now.seconds < *seconds);
    if (helps) {
        *over = p->over;
        *seconds = p->now.seconds;
    } else {
        first[stage] -= step;
    }
    return helps;
}

static void try_cuts(planning *p, cleave_joint_plan *plan, bool *fits) {
    if (*fits)
        memcpy(p->now.first_operator, plan->first_operator,
               (size_t)p->n_stages * sizeof *plan->first_operator);
    choose(p);
    double over = p->over, seconds = p->now.seconds;
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t stage = 1; stage < p->n_stages; stage++)
            moved = move_cut(p, stage, -1, &over, &seconds) ||
                    move_cut(p, stage, 1, &over, &seconds) || moved;
    }
    *fits = choose(p);
    if (*fits)
        keep(p, plan);
}

/* 1 + the first operator that reads what has a gradient and is no parameter. */
static void note_reader(const cleave_model *model, int32_t tensor, int32_t op, int32_t *first) {
    const cleave_tensor *of = &model->tensors[tensor];
    for (int32_t s = 0; s < of->view.n_sources; s++)
        note_reader(model, of->view.sources[s], op, first);
    if (model->writer[tensor] >= 0 && of->needs_gradient && first[tensor] == 0)
        first[tensor] = 1 + op;
}

/* `first_reader` [n_tensors] is 0, or 1 + the operator. */
static void tie(const cleave_model *model, int32_t tensor, int32_t op, int32_t *first_reader,
                int32_t *tied) {
    const cleave_tensor *of = &model->tensors[tensor];
    for (int32_t s = 0; s < of->view.n_sources; s++)
        tie(model, of->view.sources[s], op, first_reader, tied);
    if (of->kind != CLEAVE_TENSOR_PARAMETER)
        return;
    if (first_reader[tensor] == 0)
        first_reader[tensor] = 1 + op;
    if (first_reader[tensor] - 1 < tied[op])
        tied[op] = first_reader[tensor] - 1;
}

static bool tie_all(planning *p, const cleave_model *model, cleave_arena *scratch) {
    int32_t *first_reader = CLEAVE_ARENA_ARRAY(scratch, int32_t, model->n_tensors);
    int32_t *tied = CLEAVE_ARENA_ARRAY(scratch, int32_t, model->n_operators);
    for (int32_t op = 0; op < model->n_operators && tied != NULL; op++)
        tied[op] = op;
    for (int32_t n = 0; n < model->n_nests && first_reader != NULL && tied != NULL; n++)
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            tie(model, model->nests[n].inputs[i].tensor, model->nests[n].op, first_reader, tied);
    p->tied = tied;
    return first_reader != NULL && tied != NULL;
}

/* Of each cut the first operator that reads what is read behind the cut, too, and gives a part of
   its gradient; or the one behind the cut, where there is none. */
static bool find_joined(planning *p, const cleave_model *model, cleave_arena *scratch) {
    int32_t *last = CLEAVE_ARENA_ARRAY(scratch, int32_t, model->n_tensors);
    int32_t *first = CLEAVE_ARENA_ARRAY(scratch, int32_t, model->n_tensors);
    p->joined = CLEAVE_ARENA_ARRAY(scratch, int32_t, p->n_operators);
    if (last == NULL || first == NULL || p->joined == NULL)
        return false;
    cleave_model_last_readers(model, last);
    for (int32_t n = 0; n < model->n_nests; n++)
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            note_reader(model, model->nests[n].inputs[i].tensor, model->nests[n].op, first);
    for (int32_t op = 0; op < p->n_operators; op++)
        p->joined[op] = op + 1;
    for (int32_t t = 0; t < model->n_tensors; t++)
        for (int32_t op = first[t] - 1; op >= 0 && op < last[t]; op++)
            p->joined[op] = first[t] - 1 < p->joined[op] ? first[t] - 1 : p->joined[op];
    return true;
}

static bool make_room(planning *p, cleave_arena *scratch, cleave_arena *arena,
                      cleave_joint_plan *plan) {
    int32_t n = p->n_operators;
    p->work = CLEAVE_ARENA_ARRAY(scratch, int64_t, n);
    p->sends = CLEAVE_ARENA_ARRAY(scratch, int64_t, n);
    p->hops = CLEAVE_ARENA_ARRAY(scratch, int64_t, n);
    p->stage_of = CLEAVE_ARENA_ARRAY(scratch, int32_t, n);
    p->now.first_operator = CLEAVE_ARENA_ARRAY(scratch, int32_t, p->n_stages);
    p->now.plan_of = CLEAVE_ARENA_ARRAY(scratch, uint8_t, n);
    plan->first_operator = CLEAVE_ARENA_ARRAY(arena, int32_t, p->n_stages);
    plan->plan_of = CLEAVE_ARENA_ARRAY(arena, uint8_t, n);
    return p->work != NULL && p->sends != NULL && p->hops != NULL && p->stage_of != NULL &&
           p->now.first_operator != NULL && p->now.plan_of != NULL &&
           plan->first_operator != NULL && plan->plan_of != NULL;
}

cleave_status cleave_joint_plan_make(const cleave_model *model, const cleave_group *group,
                                     const cleave_joint_shape *shape, cleave_arena *arena,
                                     cleave_joint_plan *plan, bool *fits, cleave_error *error) {
    cleave_arena scratch = {0};
    cleave_joint_plan made = {0};
    const cleave_group_family *family = &group->families[shape->family];
    planning p = {
        .group = group,
        .family = family,
        .shape = shape,
        .n_operators = model->n_operators,
        .n_stages = shape->n_groups * shape->n_virtual,
        .now = {.group = group,
                .family = family,
                .n_groups = shape->n_groups,
                .n_virtual = shape->n_virtual,
                .neighbours = shape->neighbours > 0 ? shape->neighbours : group->n_devices,
                .kind = shape->kind}};
    cleave_status status = make_room(&p, &scratch, arena, &made) && tie_all(&p, model, &scratch) &&
                                   find_joined(&p, model, &scratch)
                               ? CLEAVE_OK
                               : cleave_fail_memory(error, "planning stages");
    for (int32_t op = 0; op < model->n_operators && status == CLEAVE_OK; op++) {
        p.work[op] = family->plans[0].time[group->stands_for[op]];
        p.sends[op] = shape->sends[op] / group->micro_batches;
    }
    if (status == CLEAVE_OK)
        status = plan_all(&p, &made, fits, error);
    if (status == CLEAVE_OK && shape->tries_cuts)
        try_cuts(&p, &made, fits);
    cleave_arena_free(&scratch);
    if (status == CLEAVE_OK)
        *plan = made;
    return status;
}

/* ---- as a layout ----------------------------------------------------------------------------- */

/* Which group reads a parameter: 1 + it; SEVERAL. */
enum { SEVERAL = -1 };

static void note_group(const cleave_model *model, int32_t tensor, int32_t group, int32_t *of) {
    for (int32_t s = 0; s < model->tensors[tensor].view.n_sources; s++)
        note_group(model, model->tensors[tensor].view.sources[s], group, of);
    of[tensor] = of[tensor] == 0 || of[tensor] == 1 + group ? 1 + group : SEVERAL;
}

static void shard_under(const cleave_model *model, int32_t tensor, cleave_sharded sharded,
                        const int32_t *group_of, cleave_layout *layout) {
    const cleave_tensor *of = &model->tensors[tensor];
    for (int32_t s = 0; s < of->view.n_sources; s++)
        shard_under(model, of->view.sources[s], sharded, group_of, layout);
    if (of->kind != CLEAVE_TENSOR_PARAMETER || of->view.kind != CLEAVE_VIEW_NONE)
        return;
    if (group_of[tensor] == SEVERAL && sharded > CLEAVE_SHARDED_UPDATE)
        sharded = CLEAVE_SHARDED_UPDATE;
    layout->sharded[tensor] =
        (uint8_t)(of->needs_gradient ? cleave_sharded_as(of, sharded) : CLEAVE_SHARDED_NOTHING);
}

/* As the first that reads a parameter has it.  Of what several groups read (tied tables) gradients
   arise in each of them apart, which does not fold. */
static cleave_status shard(const cleave_model *model, const cleave_joint_plan *plan,
                           cleave_arena *arena, cleave_layout *layout, cleave_error *error) {
    int32_t *group_of = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    if (group_of == NULL)
        return cleave_fail_memory(error, "making a layout");
    for (int32_t n = 0; n < model->n_nests && plan->group->folds; n++) {
        int32_t stage = cleave_schedule_stage_of(&layout->schedule, model->nests[n].op);
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            note_group(model, model->nests[n].inputs[i].tensor, stage % plan->n_groups, group_of);
    }
    for (int32_t n = model->n_nests - 1; n >= 0; n--) {
        int32_t op = model->nests[n].op;
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            shard_under(model, model->nests[n].inputs[i].tensor,
                        plan->family->plans[plan->plan_of[op]].sharded[plan->group->stands_for[op]],
                        group_of, layout);
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
                                      .first_operator = plan->first_operator};
    CLEAVE_TRY(cleave_layout_create(model, n_devices, arena, &made, error));
    CLEAVE_TRY(cleave_schedule_copy(&schedule, arena, &made.schedule, error));
    CLEAVE_TRY(shard(model, plan, arena, &made, error));
    for (int32_t op = 0; op < model->n_operators; op++) {
        const cleave_group_plan *of = &plan->family->plans[plan->plan_of[op]];
        int32_t few = plan->group->stands_for[op];
        const cleave_split *split = &of->splits[few];
        int32_t g = cleave_schedule_stage_of(&schedule, op) % plan->n_groups;
        int32_t *devices = CLEAVE_ARENA_ARRAY(arena, int32_t, split->n_parts);
        if (devices == NULL)
            return cleave_fail_memory(error, "making a layout");
        for (int32_t d = 0, run = plan->neighbours; d < split->n_parts; d++)
            devices[d] =
                (split->devices[d] / run * plan->n_groups + g) * run + split->devices[d] % run;
        CLEAVE_TRY(
            cleave_layout_set(&made, op, split->replicas, split->degree, devices, arena, error));
        made.recompute[op] = of->again[few];
    }
    *layout = made;
    return CLEAVE_OK;
}
