/* Plans of a shape: devices of a group, micro-batches, and all kinds of schedule. */
#include "search/pipeline/foresight.h"
#include "search/pipeline/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What is counted is a little less than the memory that a plan needs in the end: messages, and
   gradients on their way. */
static const double share_counted = 0.9;
/* Of memory that is left so much is planned for. */
static const double most_used = 0.9;
/* Free splits make plans so much quicker at most. */
static const double far_behind = 1.2;
/* Stages of a group that are looked at where none are asked for. */
static const int32_t most_virtual = 8;

bool pipeline_may_plan(const pipeline_finder *f) {
    const cleave_constraints *constraints = f->options->constraints;
    return f->options->baseline == NULL && f->options->wish.tensor == 0 &&
           !cleave_schedule_wish_is_megatron(&f->options->wish) && f->batch > 0 &&
           (constraints == NULL || constraints->n_fixed == 0);
}

int64_t pipeline_memory(const pipeline_finder *f) {
    const cleave_machine *machine = f->pricer->machine;
    int64_t limit = f->pricer->memory_limit_bytes;
    for (int32_t k = 0; k < machine->n_kinds && f->pricer->memory_limit_bytes <= 0; k++)
        if (f->n_of_kind[k] > 0 && machine->kinds[k].memory_bytes > limit)
            limit = machine->kinds[k].memory_bytes;
    return limit - cleave_machine_runtime_bytes(machine, 0, 0);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* From stage to stage: between groups of a node as quick as any link, else over the card of each
   node; both ways at once.  Places say how much quicker than the slowest. */
static cleave_status sends_of(const pipeline_finder *f, const pipeline_candidate *of,
                              cleave_arena *arena, const int64_t **sends) {
    const cleave_machine *machine = f->pricer->machine;
    int32_t n = machine->n_devices / of->n_groups, of_node = machine->devices_per_node;
    double ways = of->places != NULL            ? 1
                  : of_node > 0 && n >= of_node ? n / (double)of_node
                  : f->slowest > 0              ? f->quickest / f->slowest
                                                : 1;
    int64_t *made = CLEAVE_ARENA_ARRAY(arena, int64_t, f->pricer->model->n_operators);
    for (int32_t op = 0; op < f->pricer->model->n_operators && made != NULL; op++)
        made[op] = (int64_t)((double)f->sends[op] / 2 / ways);
    *sends = made;
    return made != NULL ? CLEAVE_OK : cleave_fail_memory(f->error, "searching");
}

static cleave_status shape_of(const pipeline_finder *f, const pipeline_candidate *of,
                              cleave_arena *scratch, cleave_joint_shape *shape) {
    *shape = (cleave_joint_shape){.n_groups = of->n_groups,
                                  .n_virtual = of->n_virtual,
                                  .kind = of->kind,
                                  .is_forward = !cleave_model_trains(f->pricer->model),
                                  .is_stream = f->pricer->is_stream,
                                  .family = of->family < 0 || of->places != NULL ? 0 : of->family,
                                  .neighbours = of->neighbours,
                                  .joined = f->joined,
                                  .tries_cuts = f->is_small || of->places != NULL,
                                  .places = of->places};
    return sends_of(f, of, scratch, &shape->sends);
}

/* `most_of`: of each group, or null; see the shape. */
static cleave_status make_plan(pipeline_finder *f, const cleave_group *group, int64_t most_bytes,
                               const int64_t *most_of, pipeline_candidate *of, bool *fits) {
    cleave_joint_plan *made = CLEAVE_ARENA_ARRAY(&f->work, cleave_joint_plan, 1);
    cleave_joint_shape shape;
    cleave_arena scratch = {0};
    if (made == NULL)
        return cleave_fail_memory(f->error, "searching");
    cleave_status status = shape_of(f, of, &scratch, &shape);
    shape.most_bytes = most_bytes;
    shape.most_of = most_of;
    if (status == CLEAVE_OK)
        status =
            cleave_joint_plan_make(f->pricer->model, group, &shape, &f->work, made, fits, f->error);
    cleave_arena_free(&scratch);
    CLEAVE_TRY(status);
    of->plan = made;
    of->least_seconds = made->seconds;
    return CLEAVE_OK;
}

/* The group that a device of the machine is in; -1: none. */
static int32_t group_on(const cleave_joint_plan *plan, int32_t device) {
    int32_t n_used = plan->group->n_devices * plan->n_groups;
    if (plan->places == NULL)
        return device < n_used ? device / plan->neighbours % plan->n_groups : -1;
    for (int32_t g = 0; g < plan->n_groups; g++)
        for (int32_t d = 0; d < plan->places[g].group->n_devices; d++)
            if (plan->places[g].devices[d] == device)
                return g;
    return -1;
}

/* How much each group may have by what is counted, as it has turned out to be over, or to have
   left. */
static bool learn_room(const pipeline_finder *f, const cleave_joint_plan *plan, int64_t *most_of) {
    int64_t *over = most_of;
    bool has_room = true;
    for (int32_t g = 0; g < plan->n_groups; g++)
        over[g] = INT64_MIN;
    for (int32_t d = 0; d < f->pricer->machine->n_devices; d++) {
        int32_t g = f->over[d] > INT64_MIN ? group_on(plan, d) : -1;
        if (g >= 0 && f->over[d] > over[g])
            over[g] = f->over[d];
    }
    for (int32_t g = 0; g < plan->n_groups; g++) {
        int64_t more = over[g] == INT64_MIN ? 0
                       : over[g] > 0        ? -over[g]
                                            : (int64_t)(most_used * (double)-over[g]);
        most_of[g] = plan->bytes[g] + more;
        has_room = has_room && most_of[g] > 0;
    }
    return has_room;
}

cleave_status pipeline_plan_again(pipeline_finder *f, pipeline_candidate *of, bool *fits) {
    pipeline_candidate again = *of;
    int64_t *most_of = CLEAVE_ARENA_ARRAY(&f->work, int64_t, of->n_groups);
    if (most_of == NULL)
        return cleave_fail_memory(f->error, "searching");
    *fits = false;
    again.tries++;
    if (learn_room(f, of->plan, most_of))
        CLEAVE_TRY(make_plan(f, of->plan->group, 0, most_of, &again, fits));
    if (*fits)
        *of = again;
    return CLEAVE_OK;
}

/* The whole batch at once in one stage, with nothing recomputed, gathered or reduced on the way, is
   searched for elsewhere. */
static bool is_plain(const pipeline_finder *f, const pipeline_candidate *of) {
    bool is_more = of->n_groups > 1 || of->n_virtual > 1 || of->micro_batches > 1;
    for (int32_t op = 0; op < f->pricer->model->n_operators && !is_more; op++) {
        const cleave_group_plan *plan = cleave_joint_plan_of(of->plan, op);
        int32_t few = of->plan->group->stands_for[op];
        is_more = plan->again[few] || plan->sharded[few] > CLEAVE_SHARDED_UPDATE;
    }
    return !is_more;
}

/* As when a shape is planned again with updates sharded alone, of which that was the best. */
static bool is_there(const pipeline_finder *f, const pipeline_candidate *of) {
    bool found = false;
    for (int32_t i = 0; i < f->planned.n && !found; i++) {
        const pipeline_candidate *other = &f->planned.items[i];
        found = other->n_groups == of->n_groups && other->n_virtual == of->n_virtual &&
                other->micro_batches == of->micro_batches && other->kind == of->kind &&
                other->family == of->family && other->neighbours == of->neighbours &&
                other->arrangement == of->arrangement &&
                other->plan->seconds == of->plan->seconds &&
                memcmp(other->plan->bytes, of->plan->bytes,
                       (size_t)of->n_groups * sizeof *of->plan->bytes) == 0;
    }
    return found;
}

static cleave_status add_plan(pipeline_finder *f, const pipeline_candidate *of, bool fits) {
    if (!fits || is_plain(f, of) || is_there(f, of))
        return CLEAVE_OK;
    return CLEAVE_LIST_PUSH(&f->planned, *of) ? CLEAVE_OK
                                              : cleave_fail_memory(f->error, "searching");
}

cleave_status pipeline_plan_twice(pipeline_finder *f, const cleave_group *group,
                                  pipeline_candidate of) {
    bool fits;
    CLEAVE_TRY(make_plan(f, group, (int64_t)(share_counted * (double)pipeline_memory(f)), NULL, &of,
                         &fits));
    CLEAVE_TRY(add_plan(f, &of, fits));
    if (!f->is_small)
        return CLEAVE_OK;
    double before = fits ? of.least_seconds : (double)INFINITY;
    CLEAVE_TRY(make_plan(f, group, pipeline_memory(f), NULL, &of, &fits));
    return add_plan(f, &of, fits && of.least_seconds < before);
}

double pipeline_best_expected(const pipeline_finder *f, int32_t from) {
    double best = INFINITY;
    for (int32_t i = from; i < f->planned.n; i++)
        if (!f->planned.items[i].is_done)
            best = fmin(best, pipeline_expect(f, &f->planned.items[i]));
    return best;
}

double pipeline_best_known(const pipeline_finder *f) {
    const cleave_price *best = pipeline_best(f);
    return best != NULL && best->excess_bytes == 0 ? (double)best->step * 1e-12 : (double)INFINITY;
}

double pipeline_most_seconds(const pipeline_finder *f) {
    return f->is_small ? 0
                       : far_behind * fmin(pipeline_best_known(f), pipeline_best_expected(f, 0));
}

/* Does a shape leave the best so far behind, however it is planned? */
static cleave_status is_left_behind(const pipeline_finder *f, const cleave_group *group,
                                    const pipeline_candidate *of, pipeline_numbers *cut,
                                    bool *is_behind) {
    double least = 0, most = pipeline_most_seconds(f);
    cleave_joint_shape shape;
    cleave_arena scratch = {0};
    cleave_status status = shape_of(f, of, &scratch, &shape);
    if (status == CLEAVE_OK)
        status = cleave_joint_least_seconds(f->pricer->model, group, &shape, &least, f->error);
    cleave_arena_free(&scratch);
    *is_behind = most > 0 && least > most;
    if (*is_behind)
        cut->expected_seconds = fmin(cut->expected_seconds, least);
    return status;
}

static bool is_planned(const pipeline_finder *f, const cleave_group *group,
                       const pipeline_candidate *of) {
    for (int32_t i = 0; i < f->planned.n; i++) {
        const pipeline_candidate *other = &f->planned.items[i];
        if (other->plan->group == group && other->family == of->family && other->kind == of->kind &&
            other->n_virtual == of->n_virtual)
            return true;
    }
    return false;
}

static cleave_status add_shape(pipeline_finder *f, const cleave_group *group, pipeline_numbers *cut,
                               pipeline_candidate of) {
    const cleave_schedule_wish *wish = &f->options->wish;
    if (pipeline_least_seconds(f, &of) > pipeline_best_expected(f, 0) * pipeline_in_doubt)
        return CLEAVE_OK;
    if ((wish->kind >= 0 && wish->kind != (int)of.kind) ||
        !pipeline_is_wanted(wish->virtual_stages, of.n_virtual) ||
        !pipeline_is_wanted(wish->stages, of.n_groups * of.n_virtual) ||
        of.n_groups * of.n_virtual > f->pricer->model->n_operators || is_planned(f, group, &of))
        return CLEAVE_OK;
    bool is_behind;
    CLEAVE_TRY(is_left_behind(f, group, &of, cut, &is_behind));
    return is_behind ? CLEAVE_OK : pipeline_plan_twice(f, group, of);
}

/* gpipe keeps more than 1f1b and is no quicker, so it is for who asks for it.  Kinds that differ in
   backward alone are one where there is none. */
int pipeline_list_turns(const pipeline_finder *f, int32_t n_groups, int32_t micro_batches,
                        pipeline_turns turns[PIPELINE_MOST_TURNS]) {
    bool is_asked = f->options->wish.kind >= 0, trains = cleave_model_trains(f->pricer->model);
    int n = 0;
    turns[n++] = (pipeline_turns){CLEAVE_SCHEDULE_1F1B, 1};
    if (is_asked || (n_groups > 1 && trains))
        turns[n++] = (pipeline_turns){CLEAVE_SCHEDULE_ZB_H1, 1};
    if (is_asked)
        turns[n++] = (pipeline_turns){CLEAVE_SCHEDULE_GPIPE, 1};
    bool goes_round = n_groups > 1 && micro_batches % n_groups == 0 && !f->pricer->is_stream;
    int32_t asked = f->options->wish.virtual_stages, most = asked > 0 ? asked : most_virtual;
    for (int32_t n_virtual = asked > 0 ? asked : 2;
         n_virtual > 1 && n_virtual <= most && goes_round; n_virtual *= 2) {
        turns[n++] = (pipeline_turns){CLEAVE_SCHEDULE_INTERLEAVED, n_virtual};
        if (is_asked || trains)
            turns[n++] = (pipeline_turns){CLEAVE_SCHEDULE_ZB_INTERLEAVED, n_virtual};
    }
    return n;
}

static cleave_status add_shapes(pipeline_finder *f, const cleave_group *group,
                                pipeline_numbers *cut, int32_t family) {
    pipeline_turns turns[PIPELINE_MOST_TURNS];
    int n = pipeline_list_turns(f, cut->n_groups, group->micro_batches, turns);
    for (int i = 0; i < n; i++) {
        const pipeline_candidate of = {.n_groups = cut->n_groups,
                                       .neighbours = cut->neighbours,
                                       .n_virtual = turns[i].n_virtual,
                                       .kind = turns[i].kind,
                                       .micro_batches = group->micro_batches,
                                       .family = family};
        CLEAVE_TRY(add_shape(f, group, cut, of));
    }
    return CLEAVE_OK;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Made once, and again where families were too slow by their work alone and are no longer.  What
   can't be cut so has no plans. */
static cleave_status make_group(pipeline_finder *f, const cleave_group_problem *problem,
                                const pipeline_numbers *cut, bool is_free, cleave_group **made) {
    cleave_error why = {""};
    int32_t n_devices = f->pricer->machine->n_devices;
    int32_t in_flight = cut->n_groups < cut->micro_batches ? cut->n_groups : cut->micro_batches;
    double least = *made != NULL ? (*made)->least_seconds : 0;
    if (*made != NULL && (least <= 0 || least > problem->most_seconds))
        return CLEAVE_OK;
    cleave_group *group = *made != NULL ? *made : CLEAVE_ARENA_ARRAY(&f->work, cleave_group, 1);
    if (group == NULL)
        return cleave_fail_memory(f->error, "searching");
    cleave_status status =
        cleave_group_create(problem, n_devices / cut->n_groups, cut->micro_batches, in_flight,
                            is_free, &f->work, group, &why);
    if (status == CLEAVE_BAD_INPUT || status == CLEAVE_NO_LAYOUT) {
        memcpy(f->found->why_none, why.message, sizeof why.message);
        return CLEAVE_OK;
    }
    if (status != CLEAVE_OK && f->error != NULL)
        *f->error = why;
    CLEAVE_TRY(status);
    *made = group;
    return CLEAVE_OK;
}

static cleave_status add_group(pipeline_finder *f, const cleave_group_problem *problem,
                               bool is_free, bool is_whole, pipeline_numbers *cut) {
    cleave_group **made = &cut->groups[is_free][is_whole];
    CLEAVE_TRY(make_group(f, problem, cut, is_free, made));
    if (*made == NULL)
        return CLEAVE_OK;
    if ((*made)->least_seconds > 0)
        cut->expected_seconds = fmin(cut->expected_seconds, (*made)->least_seconds);
    for (int32_t family = 0; family < (*made)->n_families; family++)
        if ((*made)->families[family].n_plans > 0)
            CLEAVE_TRY(add_shapes(f, *made, cut, is_free ? PIPELINE_FREE : family));
    return CLEAVE_OK;
}

/* Of little, what shares of state save may be less than what has to be there to gather them, so
   that plans without any are looked at, too. */
cleave_status pipeline_plan_numbers(pipeline_finder *f, const cleave_group_problem *problem,
                                    bool is_free, pipeline_numbers *cut) {
    int32_t before = f->planned.n;
    cleave_group_problem open = *problem, whole = *problem;
    open.only_updates = cut->only_updates;
    open.most_seconds = whole.most_seconds = pipeline_most_seconds(f);
    whole.sharded = CLEAVE_SHARDED_NOTHING;
    CLEAVE_TRY(add_group(f, &open, is_free, false, cut));
    if (f->is_small && problem->sharded < 0)
        CLEAVE_TRY(add_group(f, &whole, is_free, true, cut));
    cut->expected_seconds = fmin(cut->expected_seconds, pipeline_best_expected(f, before));
    cut->known_seconds = cut->is_free ? cut->known_seconds : cut->expected_seconds;
    return CLEAVE_OK;
}
