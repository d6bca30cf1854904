/* Of today's terms those are left that say nothing of slots of the whole batch:

   Work.  A nest that walks over the samples runs once for every micro-batch, at an m-th of its
   extents, in all its passes; any other runs once.  What is recomputed runs more often, and a
   kernel that adds to its output is no quicker than one that does not.  So the main lanes of all
   devices together are busy for at least the sum over operators of m times, or once, the least that
   all parts of any of their splits take of one micro-batch, chores that come once in a step shared
   out among them, and beside that updates, and sums of gradients, of which there are as many bytes
   in pieces (search/bound/work.c).  However this is shared out over devices, stages or not, one of
   them has an n-th of it.

   Paths.  Some micro-batch goes through all that it has to go through, forward; and backward.  The
   two may not follow each other: the gradient of a sum over the batch is known before the sum, so
   backward waits for those forwards alone whose values it reads.

   Where steps follow each other, what a device is busy with in each bounds by how much the end of
   one is behind that of the one before; a path does not.

   What messages and their links say holds for the whole batch at once only, and bubbles are none
   where there is one stage: neither is claimed. */
#include "search/bound/micro_batches.h"

#include "graph/model/micro_batch.h"
#include "search/bound/internal.h"
#include "search/problem/baselines.h"
#include "search/problem/few_blocks.h"

#include <stdlib.h>
#include <string.h>

typedef struct bounding {
    const cleave_problem *of;
    const cleave_micro_bound_options *options;
    cleave_arena arena;
    cleave_micro_batches micro;
    cleave_model small;
    cleave_problem problem; /* of the small model */
    cleave_node_costs *costs;
    cleave_candidates candidates;
    cleave_few_blocks few;    /* of the small model */
    cleave_candidates of_few; /* the same lists, by its operators */
    cleave_error *error;
} bounding;

/* Blocks that repeat are split alike by the rule of a baseline, so it is asked for a few. */
static cleave_status make_few(bounding *b) {
    CLEAVE_TRY(cleave_few_blocks_make(&b->small, &b->problem.blocks, &b->arena, &b->few, b->error));
    int32_t *list_of = CLEAVE_ARENA_ARRAY(&b->arena, int32_t, b->few.model.n_operators);
    if (list_of == NULL)
        return cleave_fail_memory(b->error, "bounding the step");
    for (int32_t op = 0; op < b->small.n_operators; op++)
        list_of[b->few.stands_for[op]] = b->candidates.list_of[op];
    b->of_few = b->candidates;
    b->of_few.list_of = list_of;
    return CLEAVE_OK;
}

/* Replicas only add work, so it is bounded without. */
static cleave_status add_splits(bounding *b, cleave_layout *of_few) {
    for (int32_t op = 0; op < of_few->n_operators; op++) {
        of_few->splits[op].n_parts /= of_few->splits[op].replicas;
        of_few->splits[op].replicas = 1;
    }
    return cleave_candidates_add_ways(b->costs, of_few, &b->arena, &b->of_few, b->error);
}

/* On a group of so many devices. */
static cleave_status add_baselines(bounding *b, int32_t n_devices) {
    const cleave_schedule plain = {.micro_batches = 1, .n_stages = 1};
    cleave_machine machine = *b->of->machine;
    machine.arena = &b->arena;
    CLEAVE_TRY(cleave_machine_build(&machine, n_devices, b->error));
    for (int32_t t = 1; t <= n_devices; t++) {
        const cleave_baseline_shape shape = {.schedule = &plain, .n_groups = 1, .tensor = t};
        cleave_layout layout;
        bool applies;
        if (n_devices % t != 0)
            continue;
        CLEAVE_TRY(cleave_baseline_in_stages(&b->few.model, &machine,
                                             t == 1 ? "data-parallel" : "megatron", &shape,
                                             &b->arena, &layout, &applies, b->error));
        if (applies)
            CLEAVE_TRY(add_splits(b, &layout));
    }
    return CLEAVE_OK;
}

static cleave_status make_small(bounding *b) {
    b->small = *b->of->model;
    if (b->options->micro_batches > 1) { /* a model that can't be cut has stages even so */
        CLEAVE_TRY(cleave_micro_batches_find(b->of->model, b->options->micro_batches, &b->arena,
                                             &b->micro, b->error));
        CLEAVE_TRY(
            cleave_micro_batches_model(b->of->model, &b->micro, &b->arena, &b->small, b->error));
    }
    CLEAVE_TRY(cleave_problem_create(&b->small, b->of->machine, b->of->constraints, &b->arena,
                                     &b->problem, b->error));
    if (b->costs == NULL)
        CLEAVE_TRY(cleave_node_costs_create(&b->small, b->of->machine, &b->costs, b->error));
    return cleave_node_costs_take(b->costs, &b->small, b->options->micro_batches, b->error);
}

/* `known`: see cleave_candidates_list_ways. */
static cleave_status list_splits(bounding *b, const int64_t *known) {
    int32_t n_devices = b->of->machine->n_devices;
    CLEAVE_TRY(cleave_candidates_list_ways(&b->problem, b->costs, known, &b->arena, &b->candidates,
                                           b->error));
    CLEAVE_TRY(make_few(b));
    for (int32_t n = 1; n <= n_devices; n++)
        if (n_devices % n == 0)
            CLEAVE_TRY(add_baselines(b, n));
    for (int32_t l = 0; l < b->options->n_layouts; l++)
        CLEAVE_TRY(cleave_candidates_add_ways(b->costs, b->options->layouts[l], &b->arena,
                                              &b->candidates, b->error));
    return CLEAVE_OK;
}

/* Are all nests of an operator done once for every micro-batch? */
static bool is_windowed(const bounding *b, int32_t op) {
    const cleave_operator *of = &b->small.operators[op];
    if (b->options->micro_batches == 1)
        return true;
    for (int32_t k = 0; k < of->n_nests; k++)
        if (b->micro.sharing.nest_axis[of->nests[k]] < 0)
            return false;
    return true;
}

/* How often an operator is done. */
static int32_t times_of(const bounding *b, int32_t op) {
    return is_windowed(b, op) ? b->options->micro_batches : 1;
}

static cleave_status bound_work(bounding *b, const int64_t *known, double *bound) {
    int64_t other;
    double work = 0;
    CLEAVE_TRY(list_splits(b, known));
    CLEAVE_TRY(bound_other_work(b->of->model, b->of->machine, b->options->optimizer_states,
                                b->options->forms == CLEAVE_BOUND_STEPS, &other, b->error));
    for (int32_t op = 0; op < b->small.n_operators; op++) {
        double least = (double)b->candidates.lists[b->candidates.list_of[op]].least_total;
        work += least * times_of(b, op);
    }
    *bound = (work + (double)other) / b->of->machine->n_devices * (1 - 1e-12); /* sums round */
    return CLEAVE_OK;
}

/* The longest path of quickest parts, of forward passes alone, or of the others. */
static cleave_status bound_path(bounding *b, bool forward, double *bound) {
    const cleave_model *model = &b->small;
    int64_t path = 0, *time = CLEAVE_ARENA_ARRAY(&b->arena, int64_t,
                                                 model->n_nests * CLEAVE_N_COMPUTE_PASSES);
    if (time == NULL)
        return cleave_fail_memory(b->error, "bounding the step");
    for (int32_t op = 0; op < model->n_operators; op++) {
        const cleave_candidate_list *list = &b->candidates.lists[b->candidates.list_of[op]];
        for (int32_t i = 0; i < list->n_least; i++) {
            int pass = i % CLEAVE_N_COMPUTE_PASSES;
            int32_t nest = model->operators[op].nests[i / CLEAVE_N_COMPUTE_PASSES];
            if ((pass == CLEAVE_PASS_FORWARD) == forward && list->least[i] < INT64_MAX)
                time[nest * CLEAVE_N_COMPUTE_PASSES + pass] = list->least[i];
        }
    }
    CLEAVE_TRY(bound_longest_path(model, time, &path, b->error));
    *bound = (double)path;
    return CLEAVE_OK;
}

static cleave_status bound_paths(bounding *b, double *bound) {
    double forward, backward;
    CLEAVE_TRY(bound_path(b, true, &forward));
    CLEAVE_TRY(bound_path(b, false, &backward));
    *bound = forward > backward ? forward : backward;
    return CLEAVE_OK;
}

/* A way that is as long as one in fewer micro-batches is known, so where operators are taken to
   need no more than in others, hardly any has to be priced, and that is mostly enough. */
static cleave_status bound_by_others(bounding *b, int64_t *known, double *work) {
    const int64_t *least = b->options->least;
    for (int32_t op = 0; op < b->small.n_operators; op++)
        known[op] = least[op] < INT64_MAX ? (least[op] - 1) / times_of(b, op) + 1 : INT64_MAX;
    return bound_work(b, known, work);
}

static void note_least(bounding *b) {
    int64_t *least = b->options->least;
    for (int32_t op = 0; op < b->small.n_operators; op++) {
        int64_t all = b->candidates.lists[b->candidates.list_of[op]].least_total * times_of(b, op);
        least[op] = all < least[op] ? all : least[op];
    }
}

/* Of some splits a path is no shorter than of all, so where it is below the work of all, that is
   so, too. */
static cleave_status bound_all(bounding *b, double *seconds) {
    double work, path = 0;
    CLEAVE_TRY(make_small(b));
    int64_t *known = CLEAVE_ARENA_ARRAY(&b->arena, int64_t, b->small.n_operators);
    if (known == NULL)
        return cleave_fail_memory(b->error, "bounding the step");
    if (b->options->least != NULL && b->options->enough_seconds > 0) {
        CLEAVE_TRY(bound_by_others(b, known, &work));
        *seconds = work * 1e-12;
        if (*seconds >= b->options->enough_seconds)
            return CLEAVE_OK;
    }
    for (int32_t op = 0; op < b->small.n_operators; op++)
        known[op] = INT64_MAX;
    CLEAVE_TRY(bound_work(b, known, &work));
    if (b->options->least != NULL)
        note_least(b);
    if (!b->options->work_alone)
        CLEAVE_TRY(bound_paths(b, &path));
    if (path > work) {
        CLEAVE_TRY(list_splits(b, NULL));
        CLEAVE_TRY(bound_paths(b, &path));
    }
    *seconds = (work > path ? work : path) * 1e-12;
    return CLEAVE_OK;
}

cleave_status cleave_lower_bound_in_micro_batches(const cleave_problem *problem,
                                                  const cleave_micro_bound_options *options,
                                                  double *seconds, cleave_error *error) {
    bounding b = {.of = problem, .options = options, .costs = options->costs, .error = error};
    double found = 0;
    cleave_status status = bound_all(&b, &found);
    if (b.costs != options->costs)
        cleave_node_costs_destroy(b.costs);
    cleave_arena_free(&b.arena);
    if (status == CLEAVE_OK)
        *seconds = found;
    return status;
}
