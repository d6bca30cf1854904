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
#include "search/pipeline/mixed_internal.h"

#include <stdlib.h>

/* Shapes that are planned, and arrangements, in so many micro-batches, that get free splits. */
enum { MOST_SHAPES = 256, MOST_FREE = 4 };

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
    const arrangement *a = &x->arrangements.items[shape->arrangement];
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
                                     .devices = mixed_devices_of(x, a, g, &n),
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
    const arrangement *a = &x->arrangements.items[shape->arrangement];
    const pool_group *groups[MOST_POOLS];
    cleave_joint_place *places = NULL;
    bool fit;
    CLEAVE_TRY(mixed_find_groups(x, shape, is_free, groups, &fit));
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
    bool made;
    CLEAVE_TRY(mixed_make_pools(x, &made));
    if (!made)
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_few_blocks_make(f->pricer->model, &f->options->problem->blocks, &f->work,
                                      &x->few, f->error));
    CLEAVE_TRY(mixed_list_arrangements(x));
    x->least_sent = (double)f->sends[0] / 2;
    for (int32_t op = 0; op + 1 < f->pricer->model->n_operators; op++)
        x->least_sent = fmin(x->least_sent, (double)f->sends[op] / 2);
    CLEAVE_TRY(mixed_list_shapes(x));
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
    CLEAVE_LIST_FREE(&x->arrangements);
    CLEAVE_LIST_FREE(&x->groups);
    CLEAVE_LIST_FREE(&x->shapes);
    return status == CLEAVE_OK ? pipeline_try_planned(f) : status;
}
