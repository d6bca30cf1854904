/* Which plan each group takes: the quickest that it has room for, or a mixture of two. */
#include "search/pipeline/joint_internal.h"

/* Gradients of weights are put off by as many blocks as their schedule says, and then come behind
   all of a backward, in the course of which what they read takes the place of what was kept;
   but where a group has several stages, of another one than what is kept most of. */
double joint_bytes_on(const planning *p, const cleave_group_family *family, int32_t op,
                      int32_t plan) {
    const cleave_group_plan *of = &family->plans[plan];
    int32_t stage = p->stage_of[op], g = joint_group_of(p, stage), m = p->group->micro_batches;
    int32_t few = p->group->stands_for[op];
    double kept = (double)of->kept[few], bytes = (double)of->stays[few],
           n = pipeline_in_flight(p->shape, m, g);
    if (op - of->back[few] < p->now.first_operator[stage])
        kept += (double)of->across[few];
    if (cleave_schedule_kind_parts_weights(p->shape->kind)) {
        int32_t v = p->shape->n_virtual, late = 1 + cleave_schedule_delay(g, p->now.sooner);
        late = late < m * v ? late : m * v; /* blocks */
        bytes += (double)of->late[few] * late / v;
        n -= v == 1;
    }
    if (joint_group_of(p, p->stage_of[p->tied[op]]) != g)
        bytes += (double)of->tied[few];
    return bytes + kept * n;
}

static double bytes_of(const planning *p, int32_t op, int32_t plan) {
    return joint_bytes_on(p, joint_family_of(p, joint_group_of(p, p->stage_of[op])), op, plan);
}

/* What the operators of a group take with one plan.  The gradients of what an operator writes and
   of what it reads are there at once. */
static double bytes_with(planning *p, int32_t g, int32_t plan) {
    const cleave_group_family *family = joint_family_of(p, g);
    double sum = 0, passing = 0;
    for (int32_t s = g; s < p->n_stages; s += p->shape->n_groups)
        for (int32_t op = p->now.first_operator[s]; op < joint_end_of(p, s); op++) {
            int32_t few = p->group->stands_for[op];
            p->now.plan_of[op] = (uint8_t)plan;
            sum += joint_bytes_on(p, family, op, plan);
            passing = fmax(passing, 2 * (double)(family->plans[plan].wrote[few] +
                                                 family->plans[plan].passing[few]));
        }
    return sum + passing;
}

/* As many of the last operators as there is room for are as in the plan before. */
static void mix(planning *p, int32_t g, int32_t plan, double most, double *bytes) {
    for (int32_t s = p->n_stages - p->shape->n_groups + g; s >= 0; s -= p->shape->n_groups)
        for (int32_t op = joint_end_of(p, s) - 1; op >= p->now.first_operator[s]; op--) {
            double with = *bytes + bytes_of(p, op, plan - 1) - bytes_of(p, op, plan);
            if (with > most)
                return;
            p->now.plan_of[op] = (uint8_t)(plan - 1);
            *bytes = with;
        }
}

/* What a group takes by itself, picoseconds. */
static double time_alone(const planning *p, int32_t g) {
    double time, left;
    joint_add_times(p, g, &time, &left);
    return p->group->micro_batches * time + left;
}

/* The first plan that a group has room for, and as much as there is room for of the one before; or,
   where that is quicker, as a whole, or one behind it: one before takes less time for a
   micro-batch, but for that more may be left behind the last one. */
static bool choose_for(planning *p, int32_t g, double *bytes) {
    double most = joint_room_of(p, g), quickest = INFINITY;
    int32_t first = 0, best = 0, n_plans = joint_family_of(p, g)->n_plans;
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

/* Fills groups, cut as they are. */
bool joint_fill(planning *p) {
    for (int32_t op = 0, stage = 0; op < p->n_operators; op++) {
        stage += stage + 1 < p->n_stages && p->now.first_operator[stage + 1] <= op;
        p->stage_of[op] = stage;
    }
    p->over = 0;
    for (int32_t g = 0; g < p->shape->n_groups; g++) {
        double bytes = 0;
        if (!choose_for(p, g, &bytes))
            p->over += bytes - joint_room_of(p, g);
        p->now.bytes[g] = (int64_t)bytes;
    }
    p->now.seconds = joint_foresee(p);
    return p->over <= 0;
}
