/* What a shape may come to: the least time in which all of its groups together have done the work
   of a micro-batch and kept what it keeps, wherever operators are cut. */
#include "search/pipeline/mixed_internal.h"

/* Halvings, until the least time is known to a thousandth or so. */
enum { HALVINGS = 14 };

typedef struct outlook {
    const mixing *x;
    const arrangement *a;
    const shape_of *shape;
    const pool_group *groups[MOST_POOLS]; /* of its runs */
    cleave_joint_shape joint;
} outlook;

static double sends_behind(const outlook *o, int32_t g) {
    return o->x->least_sent / o->shape->micro_batches * o->a->slowness[g];
}

/* See the joint plan: what goes on while a message comes. */
static double hides_inputs(const outlook *o) {
    bool parts = cleave_schedule_kind_parts_weights(o->shape->kind);
    return (o->joint.is_forward ? 1
            : parts             ? pipeline_weights_share
                                : pipeline_backward_share) /
           o->shape->n_virtual;
}

/* Of so much time a group works, and waits for a message for what such a share of its work does not
   hide of it. */
static double works_in(double time, double sends, double hidden) {
    return sends <= hidden * time ? time : hidden < 1 ? fmax(0, (time - sends) / (1 - hidden)) : 0;
}

/* What a group has done of the model in so much time, in the way in which that is most of all that
   it has room for. */
static double share_done(const outlook *o, int32_t r, int32_t g, double time) {
    const pool_group *of = o->groups[r];
    int32_t family = o->shape->family[r];
    double room = (double)o->x->pools[of->pool].memory_bytes, most = 0;
    double in_flight = cleave_joint_in_flight(&o->joint, o->shape->micro_batches, g), works = time;
    if (g + 1 < o->a->n_groups && !o->joint.is_forward)
        works -= time - works_in(time, sends_behind(o, g),
                                 (1 - pipeline_backward_share) / o->shape->n_virtual);
    if (g > 0)
        works -= time - works_in(time, sends_behind(o, g - 1), hides_inputs(o));
    for (int32_t p = 0; p < of->group->families[family].n_plans; p++) {
        const plan_sums *sums = &of->sums[family][p];
        most = fmax(most, fmin(works / sums->time, room / (sums->stays + sums->kept * in_flight)));
    }
    return fmax(0, fmin(most, 1));
}

static bool is_done_in(const outlook *o, double time) {
    double done = 0;
    for (int32_t r = 0, g = 0; r < o->a->n_runs && done < 1; r++)
        for (int32_t i = 0; i < o->a->runs[r].n_groups && done < 1; i++, g++)
            done += share_done(o, r, g, time);
    return done >= 1 - 1e-9;
}

/* Picoseconds of a micro-batch; infinite: there is no room. */
static double least_pace(const outlook *o) {
    double least = 0, most = 0;
    for (int32_t r = 0; r < o->a->n_runs; r++)
        for (int32_t p = 0; p < o->groups[r]->group->families[o->shape->family[r]].n_plans; p++)
            most = fmax(most, o->groups[r]->sums[o->shape->family[r]][p].time);
    for (int32_t g = 0; g < o->a->n_groups; g++)
        most = fmax(most, 4 * sends_behind(o, g));
    if (!is_done_in(o, most))
        return INFINITY;
    for (int i = 0; i < HALVINGS; i++) {
        double middle = least + (most - least) / 2;
        if (is_done_in(o, middle))
            most = middle;
        else
            least = middle;
    }
    return most;
}

static double foresee(const outlook *o) {
    const shape_of *shape = o->shape;
    int32_t n = o->a->n_groups;
    double m = shape->micro_batches, pace = least_pace(o), path = 0;
    double turns = shape->n_virtual * (cleave_schedule_kind_parts_weights(shape->kind) ? 3.0 : 1.0);
    double bubble = o->joint.is_stream ? 0 : (n - 1) * pace / turns, waits = 0, slowest = pace;
    double busy =
        pace * (cleave_schedule_kind_parts_weights(shape->kind) ? 1 - pipeline_weights_share : 1);
    for (int32_t s = n * shape->n_virtual - 2; s >= 0; s--) {
        double sends = o->x->least_sent / m * o->a->slowness[s % n];
        double in_flight = cleave_joint_in_flight(&o->joint, shape->micro_batches, s % n);
        path += (o->joint.is_forward ? 1 : 2) * sends;
        waits += 2 * sends;
        slowest = fmax(slowest, sends);
        if (s < n && in_flight < m && !o->joint.is_forward)
            slowest = fmax(slowest, ((n * shape->n_virtual - s) * busy / shape->n_virtual + waits) /
                                        in_flight);
    }
    return (m * slowest + (o->joint.is_stream ? 0 : bubble + path)) * 1e-12;
}

/* Of each run in turn the splits by which the whole may come to least, as long as that helps. */
static void choose_families(outlook *o, shape_of *shape) {
    o->shape = shape;
    shape->seconds = foresee(o);
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t r = 0; r < o->a->n_runs; r++)
            for (int32_t i = 0; i < o->groups[r]->group->n_families; i++) {
                int32_t before = shape->family[r];
                shape->family[r] = i;
                double seconds = foresee(o);
                if (seconds < shape->seconds) {
                    shape->seconds = seconds;
                    moved = true;
                } else {
                    shape->family[r] = before;
                }
            }
    }
}

cleave_status mixed_find_groups(mixing *x, const shape_of *shape, bool is_free,
                                const pool_group **groups, bool *fit) {
    const arrangement *a = &x->arrangements[shape->arrangement];
    int32_t at[MOST_POOLS];
    for (int32_t r = 0; r < a->n_runs; r++)
        CLEAVE_TRY(mixed_find_group(x, &a->runs[r], shape->micro_batches, is_free,
                                    shape->only_updates, &at[r]));
    *fit = true;
    for (int32_t r = 0; r < a->n_runs; r++) {
        groups[r] = &x->groups.items[at[r]];
        *fit = *fit && groups[r]->group != NULL && groups[r]->group->n_families > 0;
    }
    return CLEAVE_OK;
}

static bool is_asked_for(const mixing *x, const shape_of *shape) {
    const cleave_schedule_wish *wish = &x->f->options->wish;
    int32_t n_groups = x->arrangements[shape->arrangement].n_groups;
    return (wish->kind < 0 || wish->kind == (int)shape->kind) &&
           pipeline_is_wanted(wish->virtual_stages, shape->n_virtual) &&
           pipeline_is_wanted(wish->stages, n_groups * shape->n_virtual) &&
           n_groups * shape->n_virtual <= x->f->pricer->model->n_operators;
}

static cleave_status add_shape(mixing *x, outlook *o, shape_of shape) {
    const pipeline_finder *f = x->f;
    if (!is_asked_for(x, &shape))
        return CLEAVE_OK;
    o->joint = (cleave_joint_shape){.n_groups = o->a->n_groups,
                                    .n_virtual = shape.n_virtual,
                                    .kind = shape.kind,
                                    .is_forward = !cleave_model_trains(f->pricer->model),
                                    .is_stream = f->pricer->is_stream};
    choose_families(o, &shape);
    if (!isfinite(shape.seconds))
        return CLEAVE_OK;
    return CLEAVE_LIST_PUSH(&x->shapes, shape) ? CLEAVE_OK : short_of_memory(x);
}

static cleave_status add_shapes(mixing *x, shape_of shape) {
    outlook o = {.x = x, .a = &x->arrangements[shape.arrangement]};
    pipeline_turns turns[PIPELINE_MOST_TURNS];
    int n = pipeline_list_turns(x->f, o.a->n_groups, shape.micro_batches, turns);
    bool fit;
    CLEAVE_TRY(mixed_find_groups(x, &shape, false, o.groups, &fit));
    for (int i = 0; i < n && fit; i++) {
        shape.kind = turns[i].kind;
        shape.n_virtual = turns[i].n_virtual;
        CLEAVE_TRY(add_shape(x, &o, shape));
    }
    return CLEAVE_OK;
}

cleave_status mixed_list_shapes(mixing *x) {
    pipeline_finder *f = x->f;
    int32_t m[PIPELINE_MOST_CUTS], n = pipeline_list_micro_batches(f, PIPELINE_MOST_CUTS, m);
    for (int32_t i = 0; i < x->n_arrangements * n && !pipeline_is_over(f); i++) {
        shape_of shape = {.arrangement = i / n, .micro_batches = m[i % n]};
        const arrangement *a = &x->arrangements[shape.arrangement];
        int64_t largest = 0;
        for (int32_t r = 0; r < a->n_runs; r++)
            largest = mixed_group_size(x, &a->runs[r]) > largest ? mixed_group_size(x, &a->runs[r])
                                                                 : largest;
        int64_t n_parts = largest * f->pricer->model->n_operators;
        shape.only_updates =
            !pipeline_is_lowered(f, n_parts, shape.micro_batches, CLEAVE_SHARDED_WEIGHT);
        bool is_lowered =
            !shape.only_updates ||
            (f->options->wish.zero - 1 <= CLEAVE_SHARDED_UPDATE &&
             pipeline_is_lowered(f, n_parts, shape.micro_batches, CLEAVE_SHARDED_UPDATE));
        double bubble = f->pricer->is_stream
                            ? 0
                            : pipeline_least_bubble * (a->n_groups - 1) / shape.micro_batches;
        if (is_lowered && a->work * (1 + bubble) < pipeline_best_known(x->f))
            CLEAVE_TRY(add_shapes(x, shape));
    }
    return CLEAVE_OK;
}
