/* Plans of a group: the values of its operators, and the choices that are least at growing prices
   of a byte. */
#include "search/pipeline/group.h"

#include "costmodel/machine_fold.h"
#include "graph/model/micro_batch.h"
#include "search/pipeline/foresight.h"
#include "search/pipeline/group_internal.h"
#include "search/problem/baselines.h"
#include "search/problem/space.h"

#include <math.h>
#include <string.h>

/* Values of an operator, from which all pairs are priced. */
enum { MOST_VALUES = 12 };
/* Entries of a table of an elimination. */
static const int64_t most_entries = INT64_C(1) << 20;

/* What happens once a step, mostly the synchronisation of parameters, is hidden behind the backward
   of one micro-batch; as long as it is not known how long that takes, so much is not. */
static const double exposed_unknown = 0.5;
/* What a byte costs, as shares of the time that a group takes over the bytes that it has. */
static const double multipliers[] = {0,      1. / 64, 1. / 32, 1. / 16, 1. / 8, 1. / 4,
                                     1. / 2, 1,       2,       4,       8,      32};
enum { N_MULTIPLIERS = sizeof multipliers / sizeof multipliers[0] };

/* Of less than this share of the memory nothing leaner is asked for. */
static const double lean_enough = 0.4;

cleave_status group_short_of_memory(const group_making *m) {
    return cleave_fail_memory(m->error, "splitting operators over a group of devices");
}

/* ---- the small problem ----------------------------------------------------------------------- */

static cleave_status make_small(group_making *m) {
    cleave_micro_batches micro;
    m->machine = *m->of->machine;
    m->machine.arena = m->scratch;
    CLEAVE_TRY(cleave_machine_build(&m->machine, m->n_devices, m->error));
    m->small = m->of->few->model;
    if (m->micro_batches == 1)
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_micro_batches_find(&m->of->few->model, m->micro_batches, m->scratch, &micro,
                                         m->error));
    return cleave_micro_batches_model(&m->of->few->model, &micro, m->scratch, &m->small, m->error);
}

/* May products be shared by so many neighbours, so that all nodes of the group do alike? */
static bool may_share(const group_making *m, int32_t tensor) {
    int32_t largest = cleave_window_largest(m->of->machine);
    return !m->of->folds || m->n_devices <= m->of->machine->devices_per_node ||
           (largest > 0 && largest % tensor == 0);
}

/* Data parallel, and megatron of every degree: so no plan costs more than what people run. */
static cleave_status list_given(group_making *m) {
    const cleave_schedule plain = {.micro_batches = 1, .n_stages = 1};
    bool applies;
    CLEAVE_TRY(cleave_baseline_layout(&m->small, &m->machine, "data-parallel", 0, m->scratch,
                                      &m->given[m->n_given++], &applies, m->error));
    for (int32_t t = 2; t <= m->n_devices && m->n_given < GROUP_MOST_GIVEN; t++) {
        const cleave_baseline_shape shape = {.schedule = &plain, .n_groups = 1, .tensor = t};
        if (m->n_devices % t != 0 || !may_share(m, t))
            continue;
        CLEAVE_TRY(cleave_baseline_in_stages(&m->small, &m->machine, "megatron", &shape, m->scratch,
                                             &m->given[m->n_given], &applies, m->error));
        m->n_given += applies;
    }
    return CLEAVE_OK;
}

/* Without any candidates, with room for those of the given layouts. */
static cleave_status list_none(group_making *m) {
    CLEAVE_TRY(cleave_candidates_begin(&m->problem, m->scratch, &m->candidates, m->error));
    for (int32_t l = 0; l < m->candidates.n_lists; l++) {
        int32_t n = 0;
        for (int32_t op = 0; op < m->small.n_operators; op++)
            n += m->candidates.list_of[op] == l;
        m->candidates.lists[l].items =
            CLEAVE_ARENA_ARRAY(m->scratch, cleave_candidate, n * m->n_given);
        if (m->candidates.lists[l].items == NULL)
            return group_short_of_memory(m);
    }
    return CLEAVE_OK;
}

static bool folds(const cleave_candidate *c, int axis, int32_t n_devices, int32_t n_nodes) {
    int32_t outer = axis < 0 ? c->replicas : c->degree[axis];
    for (int a = 0; a < axis; a++)
        outer = c->degree[a] > 1 ? 0 : outer;
    for (int32_t p = 0; p < c->n_parts; p++)
        outer = c->offsets[p] == p ? outer : 0;
    return c->n_parts == n_devices && outer > 0 && outer % n_nodes == 0 &&
           (axis < 0 || c->replicas == 1);
}

/* Those that are alike in all nodes of the group, so that one tells of all (graph/model/fold.h). */
static void keep_folding(group_making *m) {
    int32_t n = m->n_devices, of_node = m->machine.devices_per_node;
    for (int32_t l = 0; l < m->candidates.n_lists && cleave_machine_may_fold(&m->machine, NULL);
         l++) {
        cleave_candidate_list *list = &m->candidates.lists[l];
        int32_t kept = 0;
        int outer = cleave_outer_axis(&m->small.operators[list->op]);
        for (int32_t i = 0; i < list->n; i++)
            if (folds(&list->items[i], outer, n, n / of_node))
                list->items[kept++] = list->items[i];
        list->n = kept;
    }
}

/* The small problem, what its operators cost, and the layouts that are known by name. */
static cleave_status begin(group_making *m) {
    const cleave_constraints *constraints;
    CLEAVE_TRY(make_small(m));
    CLEAVE_TRY(list_given(m));
    CLEAVE_TRY(cleave_constraints_in_stage(m->of->constraints, m->n_devices, m->of->model,
                                           m->of->few->stands_for, m->scratch, &constraints,
                                           m->error));
    CLEAVE_TRY(cleave_problem_create(&m->small, &m->machine, constraints, m->scratch, &m->problem,
                                     m->error));
    m->times = CLEAVE_ARENA_ARRAY(m->scratch, int32_t, m->small.n_operators);
    for (int32_t op = 0; op < m->of->model->n_operators && m->times != NULL; op++)
        m->times[m->of->few->stands_for[op]]++;
    if (m->times == NULL)
        return group_short_of_memory(m);
    m->costs = m->of->costs;
    return m->costs != NULL
               ? cleave_node_costs_take(m->costs, &m->small, m->micro_batches, m->error)
               : cleave_node_costs_create(&m->small, &m->machine, &m->costs, m->error);
}

static int32_t count_groups(const group_making *m) {
    return m->of->n_groups > 0 ? m->of->n_groups : m->of->machine->n_devices / m->n_devices;
}

/* No stage is quicker than its share of the work of all, in each micro-batch; nor is what others do
   before and behind. */
static cleave_status find_least(group_making *m, const cleave_layout *given, double *least) {
    int32_t n_groups = count_groups(m);
    double work = 0, times = m->micro_batches;
    if (!m->of->is_stream)
        times += pipeline_least_bubble(n_groups, m->micro_batches) * (n_groups - 1);
    for (int32_t op = 0; op < m->small.n_operators; op++) {
        cleave_node_cost cost;
        CLEAVE_TRY(cleave_node_cost_of(m->costs, op, &given->splits[op], &cost, NULL, m->error));
        work += (double)cost.largest * 1e-12 * m->times[op];
    }
    *least = times * work / n_groups;
    return CLEAVE_OK;
}

/* Without all of its splits a baseline is none. */
static bool is_allowed(const group_making *m, const cleave_layout *given) {
    bool is = true;
    for (int32_t op = 0; op < m->small.n_operators && is; op++)
        is = cleave_constraints_allow(m->problem.constraints, &m->small, op, &given->splits[op]);
    return is;
}

/* Those that the group does not have, and that may take no longer than asked by their work alone.
 */
static cleave_status choose_families(group_making *m, cleave_group *group) {
    group->n_families = 0;
    group->least_seconds = 0;
    for (int32_t g = 0; g < m->n_given; g++) {
        double least = 0;
        m->family_of[g] = NULL;
        if (!is_allowed(m, &m->given[g]))
            continue;
        cleave_group_family *family = &group->families[group->n_families++];
        if (family->n_plans > 0)
            continue;
        if (m->of->most_seconds > 0)
            CLEAVE_TRY(find_least(m, &m->given[g], &least));
        if (least <= m->of->most_seconds) {
            m->family_of[g] = family;
            m->n_chosen++;
        } else if (group->least_seconds <= 0 || least < group->least_seconds) {
            group->least_seconds = least;
        }
    }
    return CLEAVE_OK;
}

/* Where splits are not free, those of the chosen layouts alone are values. */
static cleave_status make_additive(group_making *m) {
    const cleave_layout *given[GROUP_MOST_GIVEN], *valued[GROUP_MOST_GIVEN];
    int32_t n_valued = 0;
    for (int32_t g = 0; g < m->n_given; g++) {
        given[g] = &m->given[g];
        if (m->is_free || m->family_of[g] != NULL)
            valued[n_valued++] = given[g];
    }
    CLEAVE_TRY(m->is_free ? cleave_candidates_list(&m->problem, m->costs, m->n_given, m->scratch,
                                                   &m->candidates, m->error)
                          : list_none(m));
    if (m->is_free && m->of->folds)
        keep_folding(m);
    CLEAVE_TRY(cleave_candidates_add(&m->problem, m->costs, given, m->n_given, m->scratch,
                                     &m->candidates, m->error));
    for (int32_t l = 0; l < m->candidates.n_lists; l++)
        if (m->candidates.lists[l].n == 0)
            return cleave_fail(m->error, CLEAVE_NO_LAYOUT, "nothing splits operator \"%s\" so",
                               m->small.operators[m->candidates.lists[l].op].name);
    const cleave_additive_options options = {.optimizer_states = m->of->optimizer_states,
                                             .memory_limit_bytes = m->of->memory_bytes,
                                             .most_values = m->is_free ? MOST_VALUES : 1,
                                             .keeps_gradients =
                                                 m->micro_batches > 1 || count_groups(m) > 1,
                                             .exposed_sync = 1,
                                             .given = valued,
                                             .n_given = n_valued,
                                             .lists_readings = true};
    return cleave_additive_model_create(&m->small, &m->machine, &m->candidates, &options,
                                        m->scratch, &m->model, m->error);
}

/* ---- families of plans ---------------------------------------------------------------------- */

static bool same_plan(const cleave_model *model, const cleave_group_plan *a,
                      const cleave_group_plan *b) {
    size_t n = (size_t)model->n_operators;
    return memcmp(a->time, b->time, n * sizeof *a->time) == 0 &&
           memcmp(a->kept, b->kept, n * sizeof *a->kept) == 0 &&
           memcmp(a->stays, b->stays, n * sizeof *a->stays) == 0 &&
           memcmp(a->sharded, b->sharded, n * sizeof *a->sharded) == 0 &&
           memcmp(a->again, b->again, n * sizeof *a->again) == 0;
}

static cleave_status add_plan(group_making *m) {
    cleave_additive costs;
    cleave_additive_solution solution;
    cleave_group_family *family = m->family;
    CLEAVE_TRY(group_make_costs(m, &costs));
    CLEAVE_TRY(cleave_additive_eliminate(&costs, most_entries, m->scratch, &solution, m->error));
    cleave_group_plan *plan = &family->plans[family->n_plans];
    CLEAVE_TRY(group_take_plan(m, solution.value, plan));
    if (family->n_plans == 0 || !same_plan(&m->small, plan, plan - 1))
        family->n_plans++;
    return CLEAVE_OK;
}

/* Limits an operator to the split of a layout. */
static void limit_to(group_making *m, const cleave_layout *layout, int32_t op) {
    const cleave_candidate_list *list = &m->candidates.lists[m->candidates.list_of[op]];
    for (int32_t v = 0; v < m->model.additive.n_values[op]; v++)
        if (cleave_candidate_find_start(&list->items[m->model.candidates[op][v]],
                                        &layout->splits[op]) == 0)
            m->only[op] = v;
}

/* Of free splits, where `layout` is null. */
static cleave_status add_family(group_making *m, const cleave_layout *layout,
                                cleave_group_family *family) {
    double time = 0, bytes = (double)m->model.memory.most;
    int32_t n_groups = count_groups(m);
    m->family = family;
    for (int32_t op = 0; op < m->small.n_operators; op++) {
        m->only[op] = -1;
        if (layout != NULL)
            limit_to(m, layout, op);
        m->n_values[op] = (layout != NULL ? 1 : m->model.additive.n_values[op]) *
                          ((int)m->may_keep[op] + (int)m->may_redo[op]);
    }
    bool is_lean = false;
    m->exposed = 1;
    m->exposed_once = exposed_unknown;
    for (int i = 0; i < N_MULTIPLIERS && !is_lean; i++) {
        m->multiplier = multipliers[i] * time / (bytes * n_groups);
        CLEAVE_TRY(add_plan(m));
        const cleave_group_plan *plan = &m->family->plans[m->family->n_plans - 1];
        double needed = 0, most_beside = 0, most_once = 0;
        for (int32_t o = 0; o < m->of->model->n_operators; o++) {
            int32_t op = m->of->few->stands_for[o];
            time += i == 0 ? (double)plan->time[op] : 0;
            most_beside += m->most_beside[op];
            most_once += m->most_once[op];
            needed += (double)plan->stays[op] + (double)plan->kept[op] * m->in_flight;
        }
        if (i == 0 && most_beside > 0)
            m->exposed = fmax(pipeline_never_hidden, 1 - pipeline_hides * time / most_beside);
        if (i == 0 && most_once > 0)
            m->exposed_once =
                fmax(pipeline_never_hidden, 1 - pipeline_backward_share * time / most_once);
        is_lean = needed < lean_enough * bytes * n_groups;
    }
    return CLEAVE_OK;
}

static cleave_status make(group_making *m, cleave_group *group) {
    CLEAVE_TRY(begin(m));
    if (!m->is_free)
        CLEAVE_TRY(choose_families(m, group));
    if (!m->is_free && m->n_chosen == 0)
        return CLEAVE_OK;
    CLEAVE_TRY(make_additive(m));
    CLEAVE_TRY(group_choose_modes(m));
    CLEAVE_TRY(group_count_sums(m));
    if (m->is_free)
        return add_family(m, NULL, &group->families[group->n_families++]);
    for (int32_t g = 0; g < m->n_given; g++)
        if (m->family_of[g] != NULL)
            CLEAVE_TRY(add_family(m, &m->given[g], m->family_of[g]));
    return CLEAVE_OK;
}

cleave_status cleave_group_create(const cleave_group_problem *problem, int32_t n_devices,
                                  int32_t micro_batches, int32_t in_flight, bool is_free,
                                  cleave_arena *arena, cleave_group *group, cleave_error *error) {
    cleave_arena scratch = {0};
    cleave_group made = *group;
    group_making m = {.of = problem,
                      .n_devices = n_devices,
                      .micro_batches = micro_batches,
                      .in_flight = in_flight,
                      .is_free = is_free,
                      .arena = arena,
                      .scratch = &scratch,
                      .error = error};
    made.n_devices = n_devices;
    made.micro_batches = micro_batches;
    made.folds = problem->folds;
    made.stands_for = problem->few->stands_for;
    cleave_status status = make(&m, &made);
    if (m.costs != problem->costs)
        cleave_node_costs_destroy(m.costs);
    cleave_arena_free(&scratch);
    CLEAVE_TRY(status);
    *group = made;
    return CLEAVE_OK;
}
