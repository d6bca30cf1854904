/* Plans of groups of devices of several kinds.

   A group lies within one kind; each kind is in groups of as many devices, and groups of a kind
   follow each other along the pipeline: so an arrangement says which kinds are used, in which order
   and in how many groups each.  One more is all devices in one group, as if they were of the kind
   that is slowest.  What a group makes of a share of the model is known by the plans of its kind
   (search/pipeline/group.h): in so much time it has done so much, and it has room for so much.  So
   the least time in which all groups together have done and kept all of it tells at once, for any
   arrangement, number of micro-batches, kind of schedule and splits of baselines, what it may come
   to.  In the order of these, operators are cut into stages by the joint plan, as long as one may
   be the best; and of the best arrangements splits are free. */
#include "costmodel/machine_kind.h"
#include "search/pipeline/foresight.h"
#include "search/pipeline/internal.h"

#include <math.h>
#include <stdlib.h>

/* Kinds of devices; arrangements of them; shapes that are planned; and arrangements, in so many
   micro-batches each, that get free splits. */
enum { MOST_POOLS = 3, MOST_ARRANGEMENTS = 256, MOST_SHAPES = 256, MOST_FREE = 4 };
/* Halvings, until the least time is known to a thousandth or so. */
enum { HALVINGS = 14 };

/* Devices of one kind, or all as the slowest. */
typedef struct pool {
    cleave_machine machine;
    int32_t n_devices, *devices;
    int64_t memory_bytes;
    double seconds; /* of the whole batch on one of them */
} pool;

/* What a family's plan takes in all, and keeps. */
typedef struct plan_sums {
    double time, stays, kept;
} plan_sums;

typedef struct pool_group {
    int32_t pool, n_devices, micro_batches;
    bool is_free;
    cleave_group *group;                        /* null: the batch can't be cut so */
    plan_sums (*sums)[CLEAVE_MOST_GROUP_PLANS]; /* [n_families] */
} pool_group;

/* Groups of one pool that follow each other. */
typedef struct run {
    int32_t pool, n_groups;
} run;

typedef struct arrangement {
    int32_t n_runs, n_groups;
    run runs[MOST_POOLS];
    double *slowness; /* [n_groups] see cleave_joint_place */
    double work;      /* seconds of all work, each device at its own pace */
} arrangement;

typedef struct shape_of {
    int32_t arrangement, micro_batches, n_virtual, family[MOST_POOLS];
    cleave_schedule_kind kind;
    bool only_updates;
    double seconds; /* that it may come to */
} shape_of;

typedef struct mixing {
    pipeline_finder *f;
    cleave_few_blocks few;
    int32_t n_pools, n_kinds; /* with that of all devices; without */
    pool pools[MOST_POOLS + 1];
    int32_t n_arrangements;
    arrangement arrangements[MOST_ARRANGEMENTS];
    CLEAVE_LIST(pool_group) groups;
    CLEAVE_LIST(shape_of) shapes;
    /* Picoseconds of the whole batch over the slowest link, wherever it is cut. */
    double least_sent;
} mixing;

static cleave_status short_of_memory(const mixing *x) {
    return cleave_fail_memory(x->f->error, "searching");
}

/* ---- devices --------------------------------------------------------------------------------- */

static double work_of(const pipeline_finder *f, int32_t kind) {
    double sum = 0;
    for (int32_t op = 0; op < f->pricer->model->n_operators; op++)
        sum +=
            (double)f->kind_work[(size_t)kind * (size_t)f->pricer->model->n_operators + (size_t)op];
    return sum * 1e-12;
}

static int64_t memory_of(const pipeline_finder *f, int32_t kind) {
    const cleave_machine *machine = f->pricer->machine;
    int64_t limit = f->pricer->memory_limit_bytes;
    int32_t d = 0;
    while (machine->device_kind[d] != kind)
        d++;
    return (limit > 0 ? limit : machine->kinds[kind].memory_bytes) -
           cleave_machine_runtime_bytes(machine, d, 0);
}

/* `made` false: devices of some kind are no machine by themselves, or there are too many kinds. */
static cleave_status make_pools(mixing *x, bool *made) {
    pipeline_finder *f = x->f;
    const cleave_machine *machine = f->pricer->machine;
    pool all = {.n_devices = machine->n_devices, .memory_bytes = INT64_MAX};
    *made = f->n_used_kinds <= MOST_POOLS;
    for (int32_t k = 0; k < machine->n_kinds && *made; k++) {
        pool *of = &x->pools[x->n_kinds];
        if (f->n_of_kind[k] == 0)
            continue;
        *of = (pool){.n_devices = f->n_of_kind[k],
                     .devices = CLEAVE_ARENA_ARRAY(&f->work, int32_t, f->n_of_kind[k]),
                     .memory_bytes = memory_of(f, k),
                     .seconds = work_of(f, k)};
        if (of->devices == NULL)
            return short_of_memory(x);
        CLEAVE_TRY(cleave_machine_of_kind(machine, k, &f->work, &of->machine, of->devices, made,
                                          f->error));
        if (of->memory_bytes < all.memory_bytes)
            all.memory_bytes = of->memory_bytes;
        if (of->seconds > all.seconds) {
            all.seconds = of->seconds;
            CLEAVE_TRY(cleave_machine_as_kind(machine, k, &f->work, &all.machine, f->error));
        }
        x->n_kinds++;
    }
    all.devices = CLEAVE_ARENA_ARRAY(&f->work, int32_t, all.n_devices);
    for (int32_t d = 0; d < all.n_devices && all.devices != NULL; d++)
        all.devices[d] = d;
    x->pools[x->n_kinds] = all;
    x->n_pools = x->n_kinds + 1;
    return all.devices != NULL ? CLEAVE_OK : short_of_memory(x);
}

/* ---- arrangements ---------------------------------------------------------------------------- */

static int32_t group_size(const mixing *x, const run *of) {
    return x->pools[of->pool].n_devices / of->n_groups;
}

/* The devices of a group, and how many. */
static const int32_t *devices_of(const mixing *x, const arrangement *a, int32_t g, int32_t *n) {
    const run *of = a->runs;
    for (; g >= of->n_groups; of++)
        g -= of->n_groups;
    *n = group_size(x, of);
    return x->pools[of->pool].devices + g * *n;
}

/* What one group sends to another, each device its share to those that are as far along, takes so
   many times what it would over the slowest link of all, in one. */
static double slowness_between(const mixing *x, const arrangement *a, int32_t from, int32_t to,
                               double *load) {
    const cleave_machine *machine = x->f->pricer->machine;
    int32_t n, m, links[CLEAVE_MAX_ROUTE];
    const int32_t *senders = devices_of(x, a, from, &n), *readers = devices_of(x, a, to, &m);
    int32_t pairs = n > m ? n : m;
    double most = 0;
    memset(load, 0, (size_t)machine->n_links * sizeof *load);
    for (int32_t i = 0; i < pairs; i++) {
        int32_t sender = senders[(int64_t)i * n / pairs], reader = readers[(int64_t)i * m / pairs];
        int32_t hops = sender == reader ? 0 : cleave_machine_route(machine, sender, reader, links);
        for (int32_t l = 0; l < hops; l++) {
            load[links[l]] += 1.0 / pairs;
            most = fmax(most,
                        load[links[l]] * x->f->slowest / machine->links[links[l]].bytes_per_second);
        }
    }
    return most;
}

static cleave_status find_slowness(mixing *x, arrangement *a) {
    cleave_arena scratch = {0};
    double *load = CLEAVE_ARENA_ARRAY(&scratch, double, x->f->pricer->machine->n_links);
    a->slowness = CLEAVE_ARENA_ARRAY(&x->f->work, double, a->n_groups);
    bool ready = load != NULL && a->slowness != NULL;
    for (int32_t g = 0; g < a->n_groups && ready; g++)
        a->slowness[g] = slowness_between(x, a, g, (g + 1) % a->n_groups, load);
    cleave_arena_free(&scratch);
    return ready ? CLEAVE_OK : short_of_memory(x);
}

static cleave_status add_arrangement(mixing *x, const run *runs, int32_t n_runs) {
    int32_t wish = x->f->options->wish.stages;
    arrangement a = {.n_runs = n_runs};
    double pace = 0;
    for (int32_t r = 0; r < n_runs; r++) {
        a.runs[r] = runs[r];
        a.n_groups += runs[r].n_groups;
        pace += x->pools[runs[r].pool].n_devices / x->pools[runs[r].pool].seconds;
    }
    if (x->n_arrangements == MOST_ARRANGEMENTS || (wish > 0 && wish % a.n_groups != 0) ||
        a.n_groups > x->f->pricer->model->n_operators)
        return CLEAVE_OK;
    a.work = 1 / pace;
    CLEAVE_TRY(find_slowness(x, &a));
    x->arrangements[x->n_arrangements++] = a;
    return CLEAVE_OK;
}

/* All that begin as these do. */
static cleave_status add_runs(mixing *x, run *runs, int32_t n_runs) {
    if (n_runs > 0)
        CLEAVE_TRY(add_arrangement(x, runs, n_runs));
    for (int32_t k = 0; k < x->n_kinds && n_runs < MOST_POOLS; k++) {
        bool is_there = false;
        for (int32_t r = 0; r < n_runs; r++)
            is_there = is_there || runs[r].pool == k;
        for (int32_t g = 1; g <= x->pools[k].n_devices && !is_there; g++)
            if (x->pools[k].n_devices % g == 0) {
                runs[n_runs] = (run){k, g};
                CLEAVE_TRY(add_runs(x, runs, n_runs + 1));
            }
    }
    return CLEAVE_OK;
}

/* ---- plans of groups ------------------------------------------------------------------------- */

static cleave_status sum_plans(mixing *x, pool_group *of) {
    const cleave_group *group = of->group;
    of->sums = cleave_arena_alloc(&x->f->work, (size_t)group->n_families, sizeof *of->sums);
    if (of->sums == NULL)
        return short_of_memory(x);
    for (int32_t i = 0; i < group->n_families; i++)
        for (int32_t p = 0; p < group->families[i].n_plans; p++) {
            const cleave_group_plan *plan = &group->families[i].plans[p];
            plan_sums *sums = &of->sums[i][p];
            double beside = 0;
            for (int32_t op = 0; op < x->f->pricer->model->n_operators; op++) {
                int32_t few = group->stands_for[op];
                sums->time += (double)plan->time[few];
                sums->stays += (double)plan->stays[few];
                sums->kept += (double)plan->kept[few];
                beside += (double)plan->beside[few];
            }
            sums->time +=
                fmax(beside - pipeline_hides * sums->time, pipeline_never_hidden * beside);
        }
    return CLEAVE_OK;
}

/* Made once, whatever pipeline it is in: as if all were of such groups. */
static cleave_status make_group(mixing *x, pool_group *of, bool only_updates) {
    pipeline_finder *f = x->f;
    const pool *devices = &x->pools[of->pool];
    cleave_error why = {""};
    int32_t n_groups = (f->pricer->machine->n_devices + of->n_devices - 1) / of->n_devices;
    int32_t in_flight = n_groups < of->micro_batches ? n_groups : of->micro_batches;
    const cleave_group_problem problem = {.model = f->pricer->model,
                                          .few = &x->few,
                                          .machine = &devices->machine,
                                          .constraints = f->options->constraints,
                                          .optimizer_states = f->pricer->lower.optimizer_states,
                                          .recompute = f->options->wish.recompute,
                                          .sharded = f->options->wish.zero - 1,
                                          .only_updates = only_updates,
                                          .n_groups = n_groups,
                                          .memory_bytes = devices->memory_bytes};
    cleave_group *group = CLEAVE_ARENA_ARRAY(&f->work, cleave_group, 1);
    if (group == NULL)
        return short_of_memory(x);
    cleave_status status = cleave_group_create(&problem, of->n_devices, of->micro_batches,
                                               in_flight, of->is_free, &f->work, group, &why);
    if (status == CLEAVE_BAD_INPUT || status == CLEAVE_NO_LAYOUT) {
        memcpy(f->found->why_none, why.message, sizeof why.message);
        return CLEAVE_OK;
    }
    if (status != CLEAVE_OK && f->error != NULL)
        *f->error = why;
    CLEAVE_TRY(status);
    of->group = group;
    return sum_plans(x, of);
}

static cleave_status find_group(mixing *x, const run *of, int32_t micro_batches, bool is_free,
                                bool only_updates, int32_t *found) {
    pool_group made = {.pool = of->pool,
                       .n_devices = group_size(x, of),
                       .micro_batches = micro_batches,
                       .is_free = is_free};
    for (int32_t i = 0; i < x->groups.n; i++) {
        const pool_group *known = &x->groups.items[i];
        if (known->pool == made.pool && known->n_devices == made.n_devices &&
            known->micro_batches == micro_batches && known->is_free == is_free) {
            *found = i;
            return CLEAVE_OK;
        }
    }
    CLEAVE_TRY(make_group(x, &made, only_updates));
    *found = x->groups.n;
    return CLEAVE_LIST_PUSH(&x->groups, made) ? CLEAVE_OK : short_of_memory(x);
}

/* ---- what a shape may come to ---------------------------------------------------------------- */

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

static cleave_status find_groups(mixing *x, const shape_of *shape, bool is_free,
                                 const pool_group **groups, bool *fit) {
    const arrangement *a = &x->arrangements[shape->arrangement];
    int32_t at[MOST_POOLS];
    for (int32_t r = 0; r < a->n_runs; r++)
        CLEAVE_TRY(
            find_group(x, &a->runs[r], shape->micro_batches, is_free, shape->only_updates, &at[r]));
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
    CLEAVE_TRY(find_groups(x, &shape, false, o.groups, &fit));
    for (int i = 0; i < n && fit; i++) {
        shape.kind = turns[i].kind;
        shape.n_virtual = turns[i].n_virtual;
        CLEAVE_TRY(add_shape(x, &o, shape));
    }
    return CLEAVE_OK;
}

static cleave_status list_shapes(mixing *x) {
    pipeline_finder *f = x->f;
    int32_t m[PIPELINE_MOST_CUTS], n = pipeline_list_micro_batches(f, PIPELINE_MOST_CUTS, m);
    for (int32_t i = 0; i < x->n_arrangements * n && !pipeline_is_over(f); i++) {
        shape_of shape = {.arrangement = i / n, .micro_batches = m[i % n]};
        const arrangement *a = &x->arrangements[shape.arrangement];
        int64_t largest = 0;
        for (int32_t r = 0; r < a->n_runs; r++)
            largest = group_size(x, &a->runs[r]) > largest ? group_size(x, &a->runs[r]) : largest;
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

/* ---- plans ----------------------------------------------------------------------------------- */

static int by_seconds(const void *a, const void *b) {
    const shape_of *x = a, *y = b;
    if (x->seconds < y->seconds || x->seconds > y->seconds)
        return x->seconds < y->seconds ? -1 : 1;
    if (x->arrangement != y->arrangement)
        return x->arrangement - y->arrangement;
    if (x->micro_batches != y->micro_batches)
        return x->micro_batches - y->micro_batches;
    return x->n_virtual != y->n_virtual ? x->n_virtual - y->n_virtual : (int)x->kind - (int)y->kind;
}

static cleave_status make_places(mixing *x, const shape_of *shape, const pool_group *const *groups,
                                 cleave_joint_place **made) {
    const arrangement *a = &x->arrangements[shape->arrangement];
    cleave_joint_place *places = CLEAVE_ARENA_ARRAY(&x->f->work, cleave_joint_place, a->n_groups);
    if (places == NULL)
        return short_of_memory(x);
    for (int32_t r = 0, g = 0; r < a->n_runs; r++)
        for (int32_t i = 0; i < a->runs[r].n_groups; i++, g++) {
            int32_t n;
            places[g] =
                (cleave_joint_place){.group = groups[r]->group,
                                     .family = groups[r]->is_free ? 0 : shape->family[r],
                                     .kind = r,
                                     .devices = devices_of(x, a, g, &n),
                                     .room = (double)x->pools[a->runs[r].pool].memory_bytes /
                                             (double)pipeline_memory(x->f),
                                     .slowness = a->slowness[g]};
        }
    *made = places;
    return CLEAVE_OK;
}

/* Splits by their families, as one number. */
static int32_t name_families(const arrangement *a, const shape_of *shape) {
    int32_t name = 0;
    for (int32_t r = 0; r < a->n_runs; r++)
        name = name * CLEAVE_MOST_GROUP_FAMILIES + shape->family[r];
    return name;
}

static cleave_status plan_shape(mixing *x, const shape_of *shape, bool is_free) {
    const arrangement *a = &x->arrangements[shape->arrangement];
    const pool_group *groups[MOST_POOLS];
    cleave_joint_place *places = NULL;
    bool fit;
    CLEAVE_TRY(find_groups(x, shape, is_free, groups, &fit));
    if (!fit)
        return CLEAVE_OK;
    CLEAVE_TRY(make_places(x, shape, groups, &places));
    const pipeline_candidate of = {.n_groups = a->n_groups,
                                   .n_virtual = shape->n_virtual,
                                   .micro_batches = shape->micro_batches,
                                   .kind = shape->kind,
                                   .family = is_free ? PIPELINE_FREE : name_families(a, shape),
                                   .places = places,
                                   .arrangement = 1 + shape->arrangement};
    return pipeline_plan_twice(x->f, groups[0]->group, of);
}

static double best_planned(const mixing *x) {
    double best = INFINITY;
    for (int32_t i = 0; i < x->f->planned.n; i++)
        best = fmin(best, x->f->planned.items[i].least_seconds);
    return best;
}

static cleave_status plan_shapes(mixing *x) {
    int32_t most = x->f->is_small ? x->shapes.n : MOST_SHAPES;
    for (int32_t i = 0; i < x->shapes.n && i < most && !pipeline_is_over(x->f); i++) {
        const shape_of *shape = &x->shapes.items[i];
        if (!x->f->is_small && (shape->seconds > best_planned(x) * pipeline_in_doubt ||
                                shape->seconds > pipeline_best_known(x->f)))
            break;
        pipeline_progress(x->f, (double)i / x->shapes.n, "planning stages");
        CLEAVE_TRY(plan_shape(x, shape, false));
    }
    return CLEAVE_OK;
}

/* Of an arrangement in so many micro-batches, all kinds. */
static cleave_status free_like(mixing *x, int32_t of, int32_t micro_batches) {
    for (int32_t i = 0; i < x->shapes.n; i++) {
        const shape_of *shape = &x->shapes.items[i];
        if (shape->arrangement == of && shape->micro_batches == micro_batches)
            CLEAVE_TRY(plan_shape(x, shape, true));
    }
    return CLEAVE_OK;
}

static bool has_free(const pipeline_finder *f, const pipeline_candidate *of) {
    for (int32_t i = 0; i < f->planned.n; i++)
        if (f->planned.items[i].family == PIPELINE_FREE &&
            f->planned.items[i].arrangement == of->arrangement &&
            f->planned.items[i].micro_batches == of->micro_batches)
            return true;
    return false;
}

/* From the best on. */
static cleave_status free_best(mixing *x) {
    pipeline_finder *f = x->f;
    int32_t most = f->is_small ? f->planned.n : MOST_FREE;
    for (int32_t tries = 0; tries < most && !pipeline_is_over(f); tries++) {
        int32_t best = -1;
        for (int32_t i = 0; i < f->planned.n; i++) {
            const pipeline_candidate *of = &f->planned.items[i];
            if (of->family != PIPELINE_FREE && !has_free(f, of) &&
                (best < 0 || of->least_seconds < f->planned.items[best].least_seconds))
                best = i;
        }
        if (best < 0)
            break;
        int32_t before = f->planned.n;
        pipeline_progress(f, -1, "splitting operators within stages");
        CLEAVE_TRY(free_like(x, f->planned.items[best].arrangement - 1,
                             f->planned.items[best].micro_batches));
        if (f->planned.n == before)
            break;
    }
    return CLEAVE_OK;
}

static cleave_status mix(mixing *x) {
    pipeline_finder *f = x->f;
    run runs[MOST_POOLS];
    bool made;
    CLEAVE_TRY(make_pools(x, &made));
    if (!made)
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_few_blocks_make(f->pricer->model, &f->options->problem->blocks, &f->work,
                                      &x->few, f->error));
    CLEAVE_TRY(add_runs(x, runs, 0));
    runs[0] = (run){x->n_kinds, 1};
    CLEAVE_TRY(add_arrangement(x, runs, 1));
    x->least_sent = (double)f->sends[0] / 2;
    for (int32_t op = 0; op + 1 < f->pricer->model->n_operators; op++)
        x->least_sent = fmin(x->least_sent, (double)f->sends[op] / 2);
    CLEAVE_TRY(list_shapes(x));
    if (x->shapes.n > 0)
        qsort(x->shapes.items, (size_t)x->shapes.n, sizeof *x->shapes.items, by_seconds);
    CLEAVE_TRY(plan_shapes(x));
    return free_best(x);
}

/* Groups of several kinds neither fold nor are alike on a mesh. */
cleave_status pipeline_plan_mixed(pipeline_finder *f) {
    if (f->options->only_folds || cleave_constraints_have_target(f->options->constraints))
        return CLEAVE_OK;
    mixing *x = CLEAVE_ARENA_ARRAY(&f->work, mixing, 1);
    if (x == NULL)
        return cleave_fail_memory(f->error, "searching");
    x->f = f;
    cleave_status status = mix(x);
    CLEAVE_LIST_FREE(&x->groups);
    CLEAVE_LIST_FREE(&x->shapes);
    return status == CLEAVE_OK ? pipeline_try_planned(f) : status;
}
