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
    double *time, *sends; /* [n_operators], of which there is at least one a stage: see foresee */
} outlook;

static double sends_behind(const outlook *o, int32_t g) {
    return o->x->least_sent / o->shape->micro_batches * o->a->slowness[g];
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
    double in_flight = pipeline_in_flight(&o->joint, o->shape->micro_batches, g), works = time;
    if (g + 1 < o->a->n_groups && !o->joint.is_forward)
        works -= time - works_in(time, sends_behind(o, g), pipeline_hides_gradients(&o->joint));
    if (g > 0)
        works -= time - works_in(time, sends_behind(o, g - 1), pipeline_hides_inputs(&o->joint));
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

/* As if all groups were as fast as the whole. */
static double foresee(const outlook *o) {
    double pace = least_pace(o);
    if (!isfinite(pace))
        return INFINITY;
    for (int32_t g = 0; g < o->a->n_groups; g++)
        o->time[g] = pace;
    for (int32_t s = 0; s < o->a->n_groups * o->shape->n_virtual; s++)
        o->sends[s] = sends_behind(o, s % o->a->n_groups);
    const pipeline_step step = {.shape = &o->joint,
                                .micro_batches = o->shape->micro_batches,
                                .time = o->time,
                                .pace = pace,
                                .sends = o->sends};
    return pipeline_foresee(&step);
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
    const arrangement *a = &x->arrangements.items[shape->arrangement];
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
    int32_t n_groups = x->arrangements.items[shape->arrangement].n_groups;
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

static cleave_status add_shapes(mixing *x, outlook *o, shape_of shape) {
    pipeline_turns turns[PIPELINE_MOST_TURNS];
    int n = pipeline_list_turns(x->f, o->a->n_groups, shape.micro_batches, turns);
    bool fit;
    CLEAVE_TRY(mixed_find_groups(x, &shape, false, o->groups, &fit));
    for (int i = 0; i < n && fit; i++) {
        shape.kind = turns[i].kind;
        shape.n_virtual = turns[i].n_virtual;
        CLEAVE_TRY(add_shape(x, o, shape));
    }
    return CLEAVE_OK;
}

cleave_status mixed_list_shapes(mixing *x) {
    pipeline_finder *f = x->f;
    int32_t m[PIPELINE_MOST_CUTS], n = pipeline_list_micro_batches(f, PIPELINE_MOST_CUTS, m);
    int32_t n_operators = f->pricer->model->n_operators;
    outlook o = {.x = x,
                 .time = CLEAVE_ARENA_ARRAY(&f->work, double, n_operators),
                 .sends = CLEAVE_ARENA_ARRAY(&f->work, double, n_operators)};
    if (o.time == NULL || o.sends == NULL)
        return short_of_memory(x);
    for (int32_t i = 0; i < x->arrangements.n * n && !pipeline_is_over(f); i++) {
        shape_of shape = {.arrangement = i / n, .micro_batches = m[i % n]};
        const arrangement *a = o.a = &x->arrangements.items[shape.arrangement];
        int64_t largest = 0;
        for (int32_t r = 0; r < a->n_runs; r++)
            largest = mixed_group_size(x, &a->runs[r]) > largest ? mixed_group_size(x, &a->runs[r])
                                                                 : largest;
        int64_t n_parts = largest * n_operators;
        shape.only_updates =
            !pipeline_is_lowered(f, n_parts, shape.micro_batches, CLEAVE_SHARDED_WEIGHT);
        bool is_lowered =
            !shape.only_updates ||
            (f->options->wish.zero - 1 <= CLEAVE_SHARDED_UPDATE &&
             pipeline_is_lowered(f, n_parts, shape.micro_batches, CLEAVE_SHARDED_UPDATE));
        double bubble = f->pricer->is_stream
                            ? 0
                            : pipeline_least_bubble(a->n_groups, shape.micro_batches) *
                                  (a->n_groups - 1) / shape.micro_batches;
        if (is_lowered && a->work * (1 + bubble) < pipeline_best_known(x->f))
            CLEAVE_TRY(add_shapes(x, &o, shape));
    }
    return CLEAVE_OK;
}
