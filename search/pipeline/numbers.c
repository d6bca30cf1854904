/* Which numbers of groups and of micro-batches plans are made of.

   First with the splits of baselines, of all numbers of groups and of micro-batches that may be the
   best: those come first whose work alone, shared out evenly and with the least bubble that any
   kind leaves, takes least, and where that is above what the best plan is expected to take, it is
   so for all that come after it.  Then with free splits, which take longer to find, of the few that
   are expected to be the best so. */
#include "search/pipeline/foresight.h"
#include "search/pipeline/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* So many get free splits besides the best one of each number of groups; or, where no baseline has
   room, so many. */
enum { MOST_NEIGHBOURS = 4, MOST_IN_VAIN = 16 };
/* Of all shapes. */
enum { MOST_LOOKS = 8 };

static int by_least(const void *a, const void *b) {
    const pipeline_numbers *x = a, *y = b;
    if (x->least_seconds < y->least_seconds || x->least_seconds > y->least_seconds)
        return x->least_seconds < y->least_seconds ? -1 : 1;
    return x->n_groups != y->n_groups ? x->n_groups - y->n_groups
                                      : x->micro_batches - y->micro_batches;
}

bool pipeline_wants_groups(const pipeline_finder *f, int32_t n_groups) {
    int32_t wish = f->options->wish.stages;
    return f->pricer->machine->n_devices % n_groups == 0 && (wish == 0 || wish % n_groups == 0);
}

static cleave_status list_cuts(pipeline_finder *f) {
    const cleave_model *model = f->pricer->model;
    int32_t n_devices = f->pricer->machine->n_devices, m[PIPELINE_MOST_CUTS];
    int32_t n = pipeline_list_micro_batches(f, PIPELINE_MOST_CUTS, m);
    for (int32_t g = 1; g <= n_devices && g <= model->n_operators; g++) {
        if (!pipeline_wants_groups(f, g))
            continue;
        int32_t neighbours = pipeline_neighbours(f, g);
        for (int32_t i = 0; i < n && neighbours > 0; i++) {
            int64_t n_parts = (int64_t)model->n_operators * pipeline_window(f, n_devices / g);
            bool only_updates = !pipeline_is_lowered(f, n_parts, m[i], CLEAVE_SHARDED_WEIGHT);
            if (only_updates && (f->options->wish.zero - 1 > CLEAVE_SHARDED_UPDATE ||
                                 !pipeline_is_lowered(f, n_parts, m[i], CLEAVE_SHARDED_UPDATE)))
                continue;
            double bubble =
                f->pricer->is_stream ? 0 : pipeline_least_bubble(g, m[i]) * (g - 1) / m[i];
            const pipeline_numbers cut = {.n_groups = g,
                                          .micro_batches = m[i],
                                          .neighbours = neighbours,
                                          .least_seconds = f->all_work / n_devices * (1 + bubble),
                                          .expected_seconds = INFINITY,
                                          .known_seconds = INFINITY,
                                          .only_updates = only_updates};
            if (!CLEAVE_LIST_PUSH(&f->numbers, cut))
                return cleave_fail_memory(f->error, "searching");
        }
    }
    if (f->numbers.n > 0)
        qsort(f->numbers.items, (size_t)f->numbers.n, sizeof *f->numbers.items, by_least);
    return CLEAVE_OK;
}

/* Those that are as good by no plan keep their order. */
static int by_expected(const void *a, const void *b) {
    const pipeline_numbers *x = a, *y = b;
    if (x->expected_seconds < y->expected_seconds || x->expected_seconds > y->expected_seconds)
        return x->expected_seconds < y->expected_seconds ? -1 : 1;
    return by_least(a, b);
}

/* What is expected to take so much longer than the best even as people run it, no free splits make
   the best. */
static cleave_status free_cut(pipeline_finder *f, const cleave_group_problem *problem,
                              pipeline_numbers *cut) {
    bool is_behind = !f->is_small && isfinite(cut->expected_seconds) &&
                     cut->expected_seconds > pipeline_most_seconds(f);
    if (cut->is_free || is_behind || pipeline_is_over(f))
        return CLEAVE_OK;
    cut->is_free = true;
    pipeline_progress(f, -1, "splitting operators within stages");
    return pipeline_plan_numbers(f, problem, true, cut);
}

/* The best of all, or none of that many groups has come before it. */
static bool leads_its_groups(const pipeline_finder *f, int32_t i) {
    for (int32_t k = 0; k < i; k++)
        if (f->numbers.items[k].n_groups == f->numbers.items[i].n_groups)
            return false;
    return true;
}

/* Of as many groups, with the next smaller or larger number of micro-batches, and without free
   splits yet; null: there is none. */
static pipeline_numbers *neighbour(const pipeline_finder *f, const pipeline_numbers *of,
                                   bool larger) {
    pipeline_numbers *best = NULL;
    for (int32_t i = 0; i < f->n_looked_at; i++) {
        pipeline_numbers *cut = &f->numbers.items[i];
        bool beyond = larger ? cut->micro_batches > of->micro_batches
                             : cut->micro_batches < of->micro_batches;
        if (cut->n_groups == of->n_groups && beyond &&
            (best == NULL || (cut->micro_batches < best->micro_batches) == larger))
            best = cut;
    }
    return best == NULL || best->is_free || best->stays_behind ? NULL : best;
}

/* Would free splits that make it as much quicker as they made the one beside it leave it behind the
   best? */
static bool stays_behind(const pipeline_finder *f, const pipeline_numbers *beside,
                         const pipeline_numbers *of) {
    double quicker =
        isfinite(beside->known_seconds) ? beside->expected_seconds / beside->known_seconds : 1;
    return !f->is_small && isfinite(of->known_seconds) &&
           of->known_seconds * quicker >
               pipeline_in_doubt * fmin(pipeline_best_known(f), pipeline_best_expected(f, 0));
}

/* From the best that has free splits on. */
static cleave_status free_neighbours(pipeline_finder *f, const cleave_group_problem *problem) {
    for (int32_t tries = 0; tries < MOST_NEIGHBOURS;) {
        pipeline_numbers *best = NULL, *next = NULL;
        for (int32_t i = 0; i < f->n_looked_at; i++) {
            pipeline_numbers *cut = &f->numbers.items[i], *fewer = neighbour(f, cut, false);
            pipeline_numbers *more = fewer != NULL ? fewer : neighbour(f, cut, true);
            if ((cut->is_free || cut->stays_behind) && more != NULL &&
                isfinite(cut->expected_seconds) &&
                (best == NULL || cut->expected_seconds < best->expected_seconds)) {
                best = cut;
                next = more;
            }
        }
        if (best == NULL)
            break;
        next->stays_behind = stays_behind(f, best, next);
        if (!next->stays_behind) {
            CLEAVE_TRY(free_cut(f, problem, next));
            next->stays_behind = !next->is_free;
            tries += next->is_free;
        }
    }
    return CLEAVE_OK;
}

/* What free splits are expected to take is what they have come out to take, or may by what was
   learnt from others; of baselines' that tells nothing of free ones. */
static double expect_cut(const pipeline_finder *f, const pipeline_numbers *cut) {
    double expected = (double)INFINITY;
    for (int32_t i = 0; i < f->planned.n; i++) {
        const pipeline_candidate *of = &f->planned.items[i];
        if (of->n_groups == cut->n_groups && of->micro_batches == cut->micro_batches)
            expected = fmin(expected, pipeline_expect(f, of));
    }
    return expected;
}

/* Plans what was left out for an expectation that has been refuted since. */
static cleave_status look_again(pipeline_finder *f, const cleave_group_problem *problem,
                                pipeline_numbers *cut) {
    if (cut->is_free)
        cut->expected_seconds = expect_cut(f, cut);
    cut->stays_behind = false;
    CLEAVE_TRY(pipeline_plan_numbers(f, problem, false, cut));
    return cut->is_free ? pipeline_plan_numbers(f, problem, true, cut) : CLEAVE_OK;
}

static cleave_group_problem problem_of(const pipeline_finder *f) {
    return (cleave_group_problem){.model = f->pricer->model,
                                  .few = f->few,
                                  .machine = f->pricer->machine,
                                  .costs = f->few_costs,
                                  .constraints = f->options->constraints,
                                  .optimizer_states = f->pricer->lower.optimizer_states,
                                  .recompute = f->options->wish.recompute,
                                  .sharded = f->options->wish.zero - 1,
                                  .folds = f->options->only_folds,
                                  .is_stream = f->pricer->is_stream,
                                  .memory_bytes = pipeline_memory(f)};
}

bool pipeline_shards_more_than_updates(const pipeline_finder *f, const pipeline_candidate *of) {
    const int32_t *few = of->plan->group->stands_for;
    bool more = false;
    for (int32_t op = 0; op < f->pricer->model->n_operators && !more; op++)
        more = cleave_joint_plan_of(of->plan, op)->sharded[few[op]] > CLEAVE_SHARDED_UPDATE;
    return more;
}

cleave_status pipeline_shard_updates_alone(pipeline_finder *f, pipeline_candidate too_large) {
    const cleave_group_problem problem = problem_of(f);
    for (int32_t i = 0; i < f->planned.n; i++) {
        pipeline_candidate *of = &f->planned.items[i];
        if (of->n_groups == too_large.n_groups && of->arrangement == too_large.arrangement &&
            of->micro_batches == too_large.micro_batches && !of->is_done &&
            pipeline_shards_more_than_updates(f, of)) {
            of->is_done = true;
            of->least_seconds = (double)INFINITY;
        }
    }
    for (int32_t i = 0; i < f->n_looked_at; i++) {
        pipeline_numbers *cut = &f->numbers.items[i];
        if (cut->n_groups != too_large.n_groups || cut->only_updates ||
            cut->micro_batches != too_large.micro_batches ||
            problem.sharded > CLEAVE_SHARDED_UPDATE)
            continue;
        cut->only_updates = true;
        memset(cut->groups, 0, sizeof cut->groups);
        CLEAVE_TRY(look_again(f, &problem, cut));
    }
    return CLEAVE_OK;
}

static cleave_status add_cuts(pipeline_finder *f, const cleave_group_problem *problem) {
    pipeline_numbers *cuts = f->numbers.items;
    for (int32_t i = 0; i < f->n_looked_at && !pipeline_is_over(f); i++)
        CLEAVE_TRY(look_again(f, problem, &cuts[i]));
    for (; f->n_looked_at < f->numbers.n && !pipeline_is_over(f); f->n_looked_at++) {
        double least = cuts[f->n_looked_at].least_seconds;
        if (least > pipeline_best_known(f) ||
            least > pipeline_best_expected(f, 0) * pipeline_in_doubt)
            break;
        pipeline_progress(f, (double)f->n_looked_at / f->numbers.n, "planning stages");
        CLEAVE_TRY(pipeline_plan_numbers(f, problem, false, &cuts[f->n_looked_at]));
    }
    bool in_vain = f->planned.n == 0;
    qsort(cuts, (size_t)f->n_looked_at, sizeof *cuts, by_expected);
    for (int32_t i = 0; i < f->n_looked_at; i++)
        if (f->is_small || (in_vain ? i < MOST_IN_VAIN : leads_its_groups(f, i)))
            CLEAVE_TRY(free_cut(f, problem, &cuts[i]));
    return free_neighbours(f, problem);
}

static cleave_status begin(pipeline_finder *f) {
    cleave_few_blocks *few = CLEAVE_ARENA_ARRAY(&f->work, cleave_few_blocks, 1);
    if (few == NULL)
        return cleave_fail_memory(f->error, "searching");
    CLEAVE_TRY(cleave_few_blocks_make(f->pricer->model, &f->options->problem->blocks, &f->work, few,
                                      f->error));
    f->few = few;
    CLEAVE_TRY(cleave_node_costs_create(&few->model, f->pricer->machine, &f->few_costs, f->error));
    return list_cuts(f);
}

/* What is expected of one plan keeps others from being made.  Where the best has come out to take
   much more than that, they are looked at again, for that may keep out no more than it does. */
cleave_status pipeline_plan_shapes(pipeline_finder *f) {
    CLEAVE_TRY(begin(f));
    const cleave_group_problem problem = problem_of(f);
    bool is_refuted = f->numbers.n > 0;
    for (int look = 1; is_refuted && !pipeline_is_over(f); look++) {
        CLEAVE_TRY(add_cuts(f, &problem));
        double most =
            pipeline_in_doubt * fmin(pipeline_best_known(f), pipeline_best_expected(f, 0));
        CLEAVE_TRY(pipeline_try_planned(f));
        is_refuted =
            look < MOST_LOOKS && fmin(pipeline_best_known(f), pipeline_best_expected(f, 0)) > most;
    }
    return CLEAVE_OK;
}

cleave_status pipeline_plan_doubtful(pipeline_finder *f, double most) {
    const cleave_group_problem problem = problem_of(f);
    for (int32_t i = 0; i < f->n_looked_at && !pipeline_is_over(f); i++) {
        pipeline_numbers *cut = &f->numbers.items[i];
        if (cut->is_free || expect_cut(f, cut) > most)
            continue;
        cut->is_free = true;
        CLEAVE_TRY(pipeline_plan_numbers(f, &problem, true, cut));
    }
    return CLEAVE_OK;
}
