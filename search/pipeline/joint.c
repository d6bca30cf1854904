#include "search/pipeline/joint.h"

#include "search/pipeline/foresight.h"
#include "search/pipeline/stages.h"

#include <math.h>
#include <string.h>

/* Cuts are looked at anew so often at most. */
enum { MOST_CUTS = 4 };

typedef struct planning {
    const cleave_group *group; /* any of them, where only what all have in common is asked for */
    const cleave_joint_place *places; /* [n_groups] */
    const cleave_joint_shape *shape;
    int32_t n_operators, n_stages, n_kinds; /* of places */
    int64_t *work;                          /* [n_kinds][n_operators] of a micro-batch */
    int64_t *sends;                         /* [n_operators] of a micro-batch */
    int32_t *joined;                        /* [n_operators] of a cut behind it: see find_joined */
    int64_t *hops;     /* [n_operators] that a group waits for others, of a cut behind it */
    int64_t *hops_of;  /* [n_groups][n_operators] the same of one group, as a share of what is
                          under way; null: of all alike */
    int64_t *sends_of; /* [n_groups][n_operators] */
    int32_t *row_of, *group_of; /* [n_stages] kind and group */
    double *time_of;            /* [n_groups] of a micro-batch, as they are cut */
    int32_t *stage_of;          /* [n_operators] */
    const int32_t *tied; /* [n_operators] the first that reads a parameter that it reads; or it */
    double over;         /* bytes that groups lack for their leanest plans */
    cleave_joint_plan now;
} planning;

static int32_t group_of(const planning *p, int32_t stage) { return stage % p->shape->n_groups; }

static const cleave_group_family *family_of(const planning *p, int32_t g) {
    return &p->places[g].group->families[p->places[g].family];
}

double cleave_joint_in_flight(const cleave_joint_shape *shape, int32_t micro_batches,
                              int32_t group) {
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

/* Gradients of weights are put off by as many blocks as there are groups before, and then come
   behind all of a backward, in the course of which what they read takes the place of what was kept;
   but where a group has several stages, of another one than what is kept most of. */
static double bytes_on(const planning *p, const cleave_group_family *family, int32_t op,
                       int32_t plan) {
    const cleave_group_plan *of = &family->plans[plan];
    int32_t stage = p->stage_of[op], g = group_of(p, stage), m = p->group->micro_batches;
    int32_t few = p->group->stands_for[op];
    double kept = (double)of->kept[few], bytes = (double)of->stays[few],
           n = cleave_joint_in_flight(p->shape, m, g);
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

static double bytes_of(const planning *p, int32_t op, int32_t plan) {
    return bytes_on(p, family_of(p, group_of(p, p->stage_of[op])), op, plan);
}

/* The operators of a stage are [first, end). */
static int32_t end_of(const planning *p, int32_t stage) {
    return stage + 1 < p->n_stages ? p->now.first_operator[stage + 1] : p->n_operators;
}

/* What the operators of a group take with one plan.  The gradients of what an operator writes and
   of what it reads are there at once. */
static double bytes_with(planning *p, int32_t g, int32_t plan) {
    const cleave_group_family *family = family_of(p, g);
    double sum = 0, passing = 0;
    for (int32_t s = g; s < p->n_stages; s += p->shape->n_groups)
        for (int32_t op = p->now.first_operator[s]; op < end_of(p, s); op++) {
            int32_t few = p->group->stands_for[op];
            p->now.plan_of[op] = (uint8_t)plan;
            sum += bytes_on(p, family, op, plan);
            passing = fmax(passing, 2 * (double)(family->plans[plan].wrote[few] +
                                                 family->plans[plan].passing[few]));
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
    const cleave_group_family *family = family_of(p, g);
    double beside = 0, once = 0, behind = 0;
    *time = 0;
    for (int32_t s = g; s < p->n_stages; s += p->shape->n_groups)
        for (int32_t op = p->now.first_operator[s]; op < end_of(p, s); op++) {
            const cleave_group_plan *plan = &family->plans[p->now.plan_of[op]];
            int32_t few = p->group->stands_for[op];
            *time += (double)plan->time[few];
            beside += (double)plan->beside[few];
            once += (double)plan->once[few];
            behind += (double)plan->behind[few];
        }
    *time += fmax(beside - pipeline_hides * *time, pipeline_never_hidden * beside);
    *left = behind + fmax(once - pipeline_backward_share * *time, pipeline_never_hidden * once);
}

/* What a group takes by itself, picoseconds. */
static double time_alone(const planning *p, int32_t g) {
    double time, left;
    add_times(p, g, &time, &left);
    return p->group->micro_batches * time + left;
}

static double room_of(const planning *p, int32_t g) {
    return (double)p->shape->most_bytes * p->places[g].room;
}

/* The first plan that a group has room for, and as much as there is room for of the one before; or,
   where that is quicker, as a whole, or one behind it: one before takes less time for a
   micro-batch, but for that more may be left behind the last one. */
static bool choose_for(planning *p, int32_t g, double *bytes) {
    double most = room_of(p, g), quickest = INFINITY;
    int32_t first = 0, best = 0, n_plans = family_of(p, g)->n_plans;
    while (first < n_plans && (*bytes = bytes_with(p, g, first)) > most)
        first++;
    if (first == n_plans)
        return false;
    for (int32_t i = first; i < n_plans; i++) {
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

static double sends_behind(const planning *p, int32_t stage) {
    return (double)p->sends[end_of(p, stage) - 1] * p->places[group_of(p, stage)].slowness;
}

/* What goes on from group to group does so at the end of a block and before the next one begins,
   there and back, and both groups wait for it; and a group that gives a part of a gradient waits
   until the other part is there. */
static double wait_for_others(const planning *p, int32_t g) {
    double waits = 0;
    for (int32_t s = g; s < p->n_stages && !p->shape->is_forward; s += p->shape->n_groups) {
        if (s + 1 < p->n_stages)
            waits += sends_behind(p, s);
        if (s > 0)
            waits += (double)(p->hops[end_of(p, s - 1) - 1] - 2 * p->sends[end_of(p, s - 1) - 1]) +
                     sends_behind(p, s - 1);
    }
    return waits;
}

/* Where gradients of weights are blocks by themselves, which wait for nobody, messages go on
   meanwhile. */
static double left_of_waits(const planning *p, double time, double waits) {
    if (!cleave_schedule_kind_parts_weights(p->shape->kind))
        return waits;
    return fmax(waits - pipeline_hides * pipeline_weights_share * time,
                pipeline_never_hidden * waits);
}

/* The bubble of a kind is that of 1F1B, by so many. */
static double turns_of(const cleave_joint_shape *shape) {
    return shape->n_virtual * (cleave_schedule_kind_parts_weights(shape->kind) ? 3.0 : 1.0);
}

/* Of a group's time in a micro-batch what goes by from where it posts a receive, a block before the
   one that reads it, until that begins: a forward before a backward; before a forward a backward,
   or the gradients of weights. */
static double hides_gradients(const planning *p) {
    return (1 - pipeline_backward_share) / p->shape->n_virtual;
}
static double hides_inputs(const planning *p) {
    bool parts = cleave_schedule_kind_parts_weights(p->shape->kind);
    return (p->shape->is_forward ? 1
            : parts              ? pipeline_weights_share
                                 : pipeline_backward_share) /
           p->shape->n_virtual;
}

static double waits_of_place(const planning *p, int32_t g) {
    double waits = 0, time = p->time_of[g];
    for (int32_t s = g; s < p->n_stages; s += p->shape->n_groups) {
        if (s + 1 < p->n_stages && !p->shape->is_forward)
            waits += cleave_stage_waits(time, sends_behind(p, s), hides_gradients(p));
        if (s > 0)
            waits += cleave_stage_waits(time, sends_behind(p, s - 1), hides_inputs(p));
    }
    return waits;
}

/* Where groups are not alike one that is quicker has time to wait.  But no more micro-batches are
   under way from a group to the end and back than it keeps: so it takes one up no sooner than one
   of so many has gone all the way.  Gradients of weights that are put off are no part of it. */
static double pace_of_rounds(const planning *p, const double *time) {
    const cleave_joint_shape *shape = p->shape;
    double share = cleave_schedule_kind_parts_weights(shape->kind) ? 1 - pipeline_weights_share : 1;
    double round = 0, pace = 0;
    for (int32_t s = p->n_stages - 1; s >= 0; s--) {
        double n = cleave_joint_in_flight(shape, p->group->micro_batches, group_of(p, s));
        round += share * time[group_of(p, s)] / shape->n_virtual;
        round += s + 1 < p->n_stages ? 2 * sends_behind(p, s) : 0;
        if (s < shape->n_groups && n < p->group->micro_batches && !shape->is_forward)
            pace = fmax(pace, round / n);
    }
    return pace;
}

static double foresee(const planning *p) {
    double all = 0, slowest = 0, left = 0, path = 0, pace = 0;
    bool alike = p->shape->places == NULL;
    for (int32_t g = 0; g < p->shape->n_groups; g++) {
        double time, of_group;
        add_times(p, g, &time, &of_group);
        all += time;
        slowest = fmax(slowest, time);
        pace = fmax(pace, alike ? time + left_of_waits(p, time, wait_for_others(p, g)) : time);
        left = fmax(left, of_group);
        p->time_of[g] = time;
    }
    for (int32_t g = 0; g < p->shape->n_groups && !alike; g++)
        pace = fmax(pace, p->time_of[g] + waits_of_place(p, g));
    pace = alike ? pace : fmax(pace, pace_of_rounds(p, p->time_of));
    for (int32_t s = 0; s + 1 < p->n_stages; s++) {
        double sends = sends_behind(p, s) / (p->shape->is_forward ? 2 : 1);
        path += alike || p->shape->is_forward ? sends : 2 * sends;
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
        left += (least.behind + pipeline_never_hidden * least.once) / n;
    }
    time += fmax(beside - pipeline_hides * time, pipeline_never_hidden * beside);
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
            p->over += bytes - room_of(p, g);
        bytes /= p->places[g].room;
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
    most = pipeline_backward_share * all / p->n_stages;
    for (int32_t op = 0; op < p->n_operators; op++) {
        behind = 0;
        for (int32_t i = op; i >= p->joined[op] && behind < most && !p->shape->is_forward; i--)
            behind += pipeline_backward_share * (double)p->work[i];
        p->hops[op] = 2 * p->sends[op] + (int64_t)fmin(behind, most);
    }
    /* Shared by the micro-batches that are under way: see pace_of_rounds. */
    for (int32_t g = 0; g < p->shape->n_groups && p->hops_of != NULL; g++)
        for (int32_t op = 0; op < p->n_operators; op++) {
            size_t at = (size_t)g * (size_t)p->n_operators + (size_t)op;
            double sends = p->places[g].slowness * (double)p->sends[op];
            double hop = (double)(p->hops[op] - 2 * p->sends[op]) + 2 * sends;
            p->hops_of[at] =
                (int64_t)(hop / cleave_joint_in_flight(p->shape, p->group->micro_batches, g));
            p->sends_of[at] = (int64_t)sends;
        }
}

/* What operators take, on each kind of places, as they have come out, or as the leanest that has
   come out there; or, where nothing has room, by the share of it that they keep. */
static void weigh_anew(planning *p, bool has_room) {
    for (int32_t g = 0, n = p->n_operators; g < p->shape->n_groups; g++) {
        const cleave_group_family *family = family_of(p, g);
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
            work[op] =
                has_room
                    ? family->plans[plan].time[p->group->stands_for[op]]
                    : (int64_t)(bytes_on(p, family, op, family->n_plans - 1) / p->places[g].room);
        }
    }
}

/* First by what operators take as fast as can be, where nothing has room by what they keep, else by
   what they take as they have come out. */
static cleave_status plan_all(planning *p, cleave_joint_plan *plan, bool *fits,
                              cleave_error *error) {
    *fits = false;
    count_hops(p);
    for (int i = 0; i < MOST_CUTS; i++) {
        bool alike = p->hops_of == NULL;
        const cleave_stage_work work = {.work = p->work,
                                        .row_of = p->n_kinds > 1 ? p->row_of : NULL,
                                        .sends = alike ? p->hops : p->hops_of,
                                        .send_row_of = alike ? NULL : p->group_of};
        CLEAVE_TRY(
            cleave_stages_cut(p->n_operators, &work, p->n_stages, p->now.first_operator, error));
        bool has_room = choose(p),
             is_better = has_room && (!*fits || p->now.seconds < plan->seconds);
        if (is_better)
            keep(p, plan);
        if (i > 0 && !is_better)
            break;
        *fits = *fits || has_room;
        weigh_anew(p, has_room);
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

/* Each way to do all operators, summed up from the first on. */
static bool sum_ways(const planning *p, int32_t g, cleave_arena *scratch, cleave_stage_ways *ways) {
    const cleave_group_family *family = family_of(p, g);
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
        int32_t g = group_of(p, s);
        cleave_stage_ways *kind = &kinds[p->places[g].kind];
        ready = kind->n_ways > 0 || sum_ways(p, g, scratch, kind);
        of[s] = *kind;
        of[s].in_flight = cleave_joint_in_flight(p->shape, p->group->micro_batches, g);
        of[s].most_bytes = room_of(p, g) / p->shape->n_virtual;
        of[s].sends = p->sends_of + (size_t)g * (size_t)p->n_operators;
        of[s].sent = s > 0 ? of[s - 1].sends : of[s].sends;
        of[s].hides = hides_gradients(p) * p->shape->n_virtual;
        of[s].hides_sent = hides_inputs(p) * p->shape->n_virtual;
    }
    if (!ready)
        return cleave_fail_memory(error, "planning stages");
    if (cleave_stages_cut_in_room(p->n_operators, of, p->n_stages, p->now.first_operator) &&
        choose(p) && (!*fits || p->now.seconds < plan->seconds)) {
        keep(p, plan);
        *fits = true;
    }
    return CLEAVE_OK;
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
    p->work = cleave_arena_alloc(scratch, (size_t)p->n_kinds, (size_t)n * sizeof *p->work);
    p->row_of = CLEAVE_ARENA_ARRAY(scratch, int32_t, p->n_stages);
    p->group_of = CLEAVE_ARENA_ARRAY(scratch, int32_t, p->n_stages);
    p->time_of = CLEAVE_ARENA_ARRAY(scratch, double, p->shape->n_groups);
    if (p->shape->places != NULL)
        p->hops_of =
            cleave_arena_alloc(scratch, (size_t)p->shape->n_groups, (size_t)n * sizeof *p->hops_of);
    if (p->shape->places != NULL)
        p->sends_of = cleave_arena_alloc(scratch, (size_t)p->shape->n_groups,
                                         (size_t)n * sizeof *p->sends_of);
    p->sends = CLEAVE_ARENA_ARRAY(scratch, int64_t, n);
    p->hops = CLEAVE_ARENA_ARRAY(scratch, int64_t, n);
    p->stage_of = CLEAVE_ARENA_ARRAY(scratch, int32_t, n);
    p->now.first_operator = CLEAVE_ARENA_ARRAY(scratch, int32_t, p->n_stages);
    p->now.plan_of = CLEAVE_ARENA_ARRAY(scratch, uint8_t, n);
    plan->first_operator = CLEAVE_ARENA_ARRAY(arena, int32_t, p->n_stages);
    plan->plan_of = CLEAVE_ARENA_ARRAY(arena, uint8_t, n);
    return p->work != NULL && p->row_of != NULL && p->group_of != NULL && p->time_of != NULL &&
           (p->shape->places == NULL || (p->hops_of != NULL && p->sends_of != NULL)) &&
           p->sends != NULL && p->hops != NULL && p->stage_of != NULL &&
           p->now.first_operator != NULL && p->now.plan_of != NULL &&
           plan->first_operator != NULL && plan->plan_of != NULL;
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
        p->group_of[s] = group_of(p, s);
        p->row_of[s] = p->places[p->group_of[s]].kind;
    }
    for (int32_t g = 0; g < p->shape->n_groups; g++) {
        int64_t *work = p->work + (size_t)p->places[g].kind * (size_t)p->n_operators;
        const cleave_group_plan *quickest = &family_of(p, g)->plans[0];
        for (int32_t op = 0; op < p->n_operators && (g == 0 || p->places[g].kind > 0); op++)
            work[op] = quickest->time[p->group->stands_for[op]];
    }
    for (int32_t op = 0; op < p->n_operators; op++)
        p->sends[op] = p->shape->sends[op] / p->group->micro_batches;
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
                                   tie_all(&p, model, &scratch) && find_joined(&p, model, &scratch)
                               ? CLEAVE_OK
                               : cleave_fail_memory(error, "planning stages");
    if (status == CLEAVE_OK) {
        weigh_first(&p);
        status = plan_all(&p, &made, fits, error);
    }
    if (status == CLEAVE_OK && shape->places != NULL)
        status = plan_in_room(&p, &made, fits, &scratch, error);
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

const cleave_group_plan *cleave_joint_plan_of(const cleave_joint_plan *plan, int32_t op,
                                              int32_t group) {
    const cleave_group_family *family = plan->family;
    if (plan->places != NULL)
        family = &plan->places[group].group->families[plan->places[group].family];
    return &family->plans[plan->plan_of[op]];
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
        int32_t g = cleave_schedule_stage_of(&layout->schedule, op) % plan->n_groups;
        const cleave_group_plan *of = cleave_joint_plan_of(plan, op, g);
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            shard_under(model, model->nests[n].inputs[i].tensor,
                        (cleave_sharded)of->sharded[plan->group->stands_for[op]], group_of, layout);
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
        int32_t g = cleave_schedule_stage_of(&schedule, op) % plan->n_groups;
        const cleave_group_plan *of = cleave_joint_plan_of(plan, op, g);
        int32_t few = plan->group->stands_for[op];
        const cleave_split *split = &of->splits[few];
        int32_t *devices = CLEAVE_ARENA_ARRAY(arena, int32_t, split->n_parts);
        if (devices == NULL)
            return cleave_fail_memory(error, "making a layout");
        for (int32_t d = 0, run = plan->neighbours; d < split->n_parts; d++)
            devices[d] = plan->places != NULL
                             ? plan->places[g].devices[split->devices[d]]
                             : (split->devices[d] / run * plan->n_groups + g) * run +
                                   split->devices[d] % run;
        CLEAVE_TRY(
            cleave_layout_set(&made, op, split->replicas, split->degree, devices, arena, error));
        made.recompute[op] = of->again[few];
    }
    *layout = made;
    return CLEAVE_OK;
}
