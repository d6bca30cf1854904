#include "search/pipeline/group.h"

#include "costmodel/byte_price.h"
#include "graph/model/micro_batch.h"
#include "search/price/view.h"
#include "search/problem/baselines.h"
#include "search/problem/space.h"
#include "search/solve/model.h"

#include <math.h>
#include <string.h>

/* Values of an operator, from which all pairs are priced; entries of a table of an elimination; and
   layouts known by name whose splits are values besides. */
enum { MOST_VALUES = 12, MOST_GIVEN = CLEAVE_MOST_GROUP_FAMILIES - 1 };
static const int64_t most_entries = INT64_C(1) << 20;

/* How much of what happens once a step, mostly the synchronisation of parameters, is not hidden. */
static const double exposed_once = 0.5;
/* What is gathered and reduced in a micro-batch is hidden behind so much of its work, but for a
   share. */
static const double hides = 0.8, never_hidden = 0.1;
/* What a byte costs, as shares of the time that a group takes over the bytes that it has. */
static const double multipliers[] = {0,      1. / 64, 1. / 32, 1. / 16, 1. / 8, 1. / 4,
                                     1. / 2, 1,       2,       4,       8,      32};
enum { N_MULTIPLIERS = sizeof multipliers / sizeof multipliers[0] };

/* Of less than this share of the memory nothing leaner is asked for. */
static const double lean_enough = 0.4;

/* Costs of two operators in two modes each. */
typedef struct doubled {
    const int64_t *cost, *loose;
    int32_t n_a, n_b;
    const int64_t *made;
    struct doubled *next;
} doubled;

typedef struct making {
    const cleave_group_problem *of;
    int32_t n_devices, micro_batches, in_flight;
    bool is_free;
    cleave_arena *arena, *scratch;
    cleave_model small;
    cleave_machine machine;
    cleave_problem problem;
    cleave_node_costs *costs;
    cleave_candidates candidates;
    int32_t ***devices; /* [n_lists][n] of candidates that some plan has; null: none yet */
    cleave_additive_model model;
    bool *may_keep, *may_redo; /* [n_operators] modes */
    double *forward;           /* [n_operators] share of its work */
    double *more;              /* [n_operators] gradients of what it writes that are added up, of
                                  all of it: one less than there are readers */
    int32_t n_given;
    cleave_layout given[MOST_GIVEN];
    int32_t *only;       /* [n_operators] the value that an operator has; -1: any */
    int32_t *n_values;   /* [n_operators] in both modes */
    double multiplier;   /* picoseconds a byte */
    double exposed;      /* share of what is gathered and reduced that is not hidden */
    double *most_beside; /* [n_operators] of the last plan, were all sharded that can be */
    doubled *tables;
    cleave_group_family *family; /* that is being made */
    cleave_error *error;
} making;

static cleave_status short_of_memory(const making *m) {
    return cleave_fail_memory(m->error, "splitting operators over a group of devices");
}

/* ---- the small problem ----------------------------------------------------------------------- */

static cleave_status make_small(making *m) {
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
static bool may_share(const making *m, int32_t tensor) {
    int32_t largest = cleave_window_largest(m->of->machine);
    return !m->of->folds || m->n_devices <= m->of->machine->devices_per_node ||
           (largest > 0 && largest % tensor == 0);
}

/* Data parallel, and megatron of every degree: so no plan costs more than what people run. */
static cleave_status list_given(making *m) {
    const cleave_schedule plain = {.micro_batches = 1, .n_stages = 1};
    bool applies;
    CLEAVE_TRY(cleave_baseline_layout(&m->small, &m->machine, "data-parallel", 0, m->scratch,
                                      &m->given[m->n_given++], &applies, m->error));
    for (int32_t t = 2; t <= m->n_devices && m->n_given < MOST_GIVEN; t++) {
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
static cleave_status list_none(making *m) {
    CLEAVE_TRY(cleave_candidates_begin(&m->problem, m->scratch, &m->candidates, m->error));
    for (int32_t l = 0; l < m->candidates.n_lists; l++) {
        int32_t n = 0;
        for (int32_t op = 0; op < m->small.n_operators; op++)
            n += m->candidates.list_of[op] == l;
        m->candidates.lists[l].items =
            CLEAVE_ARENA_ARRAY(m->scratch, cleave_candidate, n * m->n_given);
        if (m->candidates.lists[l].items == NULL)
            return short_of_memory(m);
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
static void keep_folding(making *m) {
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

static cleave_status make_additive(making *m) {
    const cleave_layout *given[MOST_GIVEN];
    const cleave_constraints *constraints;
    CLEAVE_TRY(list_given(m));
    for (int32_t g = 0; g < m->n_given; g++)
        given[g] = &m->given[g];
    CLEAVE_TRY(cleave_constraints_in_stage(m->of->constraints, m->n_devices, m->of->model,
                                           m->of->few->stands_for, m->scratch, &constraints,
                                           m->error));
    CLEAVE_TRY(cleave_problem_create(&m->small, &m->machine, constraints, m->scratch, &m->problem,
                                     m->error));
    CLEAVE_TRY(cleave_node_costs_create(&m->small, &m->machine, &m->costs, m->error));
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
                                             .most_values = MOST_VALUES,
                                             .exposed_sync = 1,
                                             .given = given,
                                             .n_given = m->n_given};
    return cleave_additive_model_create(&m->small, &m->machine, &m->candidates, &options,
                                        m->scratch, &m->model, m->error);
}

/* ---- modes ----------------------------------------------------------------------------------- */

/* Of the quickest parts; what has no backward is not done again for it. */
static double forward_share(const cleave_candidate_list *list) {
    double forward = 0, all = 0;
    for (int32_t i = 0; i < list->n_least; i++) {
        double time = list->least[i] == INT64_MAX ? 0 : (double)list->least[i];
        all += time;
        forward += i % CLEAVE_N_COMPUTE_PASSES == CLEAVE_PASS_FORWARD ? time : 0;
    }
    return all > 0 ? forward / all : 0;
}

static cleave_status choose_modes(making *m) {
    int32_t n = m->small.n_operators;
    int asked = cleave_model_trains(&m->small) ? m->of->recompute : (int)CLEAVE_RECOMPUTE_NONE;
    cleave_layout marks = {.n_operators = n};
    m->may_keep = CLEAVE_ARENA_ARRAY(m->scratch, bool, n);
    m->may_redo = CLEAVE_ARENA_ARRAY(m->scratch, bool, n);
    m->forward = CLEAVE_ARENA_ARRAY(m->scratch, double, n);
    m->n_values = CLEAVE_ARENA_ARRAY(m->scratch, int32_t, n);
    m->only = CLEAVE_ARENA_ARRAY(m->scratch, int32_t, n);
    m->most_beside = CLEAVE_ARENA_ARRAY(m->scratch, double, n);
    m->devices = CLEAVE_ARENA_ARRAY(m->scratch, int32_t **, m->candidates.n_lists);
    if (m->only == NULL || m->most_beside == NULL || m->devices == NULL || m->may_keep == NULL ||
        m->may_redo == NULL || m->forward == NULL || m->n_values == NULL)
        return short_of_memory(m);
    marks.recompute = m->may_redo;
    if (asked < 0)
        cleave_recompute_may(&m->small, m->may_redo);
    else
        CLEAVE_TRY(cleave_recompute_mark(&m->small, (cleave_recompute)asked, &marks, m->error));
    for (int32_t op = 0; op < n; op++) {
        m->may_keep[op] = asked < 0 || !m->may_redo[op];
        m->forward[op] = forward_share(&m->candidates.lists[m->candidates.list_of[op]]);
    }
    return CLEAVE_OK;
}

/* Which value, and in which mode, a value of both is. */
static int32_t value_of(const making *m, int32_t op, int32_t x, bool *again) {
    int32_t n = m->only[op] >= 0 ? 1 : m->model.additive.n_values[op];
    *again = x >= n || !m->may_keep[op];
    return m->only[op] >= 0 ? m->only[op] : x % n;
}

static void count_reader(const cleave_model *model, int32_t tensor, int32_t *n_readers) {
    const cleave_tensor *of = &model->tensors[tensor];
    n_readers[tensor] += of->view.kind == CLEAVE_VIEW_NONE && of->needs_gradient;
    for (int32_t s = 0; s < of->view.n_sources; s++)
        count_reader(model, of->view.sources[s], n_readers);
}

static cleave_status count_sums(making *m) {
    const cleave_model *model = &m->small;
    int32_t *n_readers = CLEAVE_ARENA_ARRAY(m->scratch, int32_t, model->n_tensors);
    double *size = CLEAVE_ARENA_ARRAY(m->scratch, double, model->n_operators);
    m->more = CLEAVE_ARENA_ARRAY(m->scratch, double, model->n_operators);
    if (n_readers == NULL || size == NULL || m->more == NULL)
        return short_of_memory(m);
    for (int32_t n = 0; n < model->n_nests && cleave_model_trains(model); n++)
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            count_reader(model, model->nests[n].inputs[i].tensor, n_readers);
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (model->writer[t] >= 0) {
            int32_t op = model->nests[model->writer[t]].op;
            double elements = (double)cleave_tensor_size(&model->tensors[t]);
            size[op] += elements;
            m->more[op] += n_readers[t] > 1 ? (n_readers[t] - 1) * elements : 0;
        }
    for (int32_t op = 0; op < model->n_operators; op++)
        m->more[op] = size[op] > 0 ? m->more[op] / size[op] : 0;
    return CLEAVE_OK;
}

/* What weighs more than this is never the answer, and adds up without overflow. */
static const int64_t most_cost = INT64_C(1) << 48;

static int64_t clamp(double cost) { return cost < (double)most_cost ? (int64_t)cost : most_cost; }

/* ---- costs ----------------------------------------------------------------------------------- */

static int64_t time_of(const making *m, int32_t op, int32_t v, bool again) {
    const cleave_candidate_list *list = &m->candidates.lists[m->candidates.list_of[op]];
    int64_t compute = list->items[m->model.candidates[op][v]].picoseconds;
    int64_t own = m->model.additive.cost[op][v] - m->model.once[op][v];
    double wrote = (double)(m->model.kept[op][v] + m->model.loose[op][v]);
    if (m->more[op] > 0) { /* each sum reads two and writes one */
        cleave_byte_price price = cleave_sum_price_of(&m->machine.kinds[0]);
        own += cleave_picoseconds(cleave_byte_price_seconds(&price, 1, 3 * m->more[op] * wrote));
    }
    return own + (again ? (int64_t)((double)compute * m->forward[op]) : 0);
}

static const cleave_additive_state *states_of(const making *m, int32_t op, int32_t v) {
    return &m->model.state[op][v * CLEAVE_N_SHARDED];
}

/* Weights are gathered forward, once more where that is done again, and backward. */
static double beside(const cleave_additive_state *state, bool again) {
    return (double)(state->gathering * (again ? 3 : 2) + state->reducing);
}

static double weigh_state(const making *m, const cleave_additive_state *state, bool again) {
    return exposed_once * (double)state->once / m->micro_batches +
           m->exposed * beside(state, again) + m->multiplier * (double)state->bytes;
}

/* What of the state is sharded is no matter of other operators. */
static cleave_sharded choose_sharded(const making *m, int32_t op, int32_t v, bool again) {
    const cleave_additive_state *states = states_of(m, op, v);
    int best = m->of->sharded >= 0 ? m->of->sharded : 0;
    for (int s = best + 1; s < CLEAVE_N_SHARDED && m->of->sharded < 0; s++)
        if (weigh_state(m, &states[s], again) < weigh_state(m, &states[best], again))
            best = s;
    return (cleave_sharded)best;
}

/* That of no parameter. */
static double stays(const making *m, int32_t op, int32_t v) {
    return (double)(m->model.memory.weight[op][v] - m->model.kept[op][v] -
                    states_of(m, op, v)[CLEAVE_SHARDED_NOTHING].bytes);
}

static const int64_t *own_costs(const making *m, int32_t op) {
    int64_t *cost = CLEAVE_ARENA_ARRAY(m->scratch, int64_t, m->n_values[op]);
    for (int32_t x = 0; x < m->n_values[op] && cost != NULL; x++) {
        bool again;
        int32_t v = value_of(m, op, x, &again);
        const cleave_additive_state *state = &states_of(m, op, v)[choose_sharded(m, op, v, again)];
        double kept = again ? 0 : (double)m->model.kept[op][v] * m->in_flight;
        cost[x] = clamp((double)time_of(m, op, v, again) + weigh_state(m, state, again) +
                        m->multiplier * (stays(m, op, v) + kept));
    }
    return cost;
}

/* What one that is recomputed writes goes on once more, as it went before; what it reads has to be
   kept for it. */
static int64_t pair_cost(const making *m, const cleave_additive_pair *pair, int32_t x, int32_t y,
                         double multiplier) {
    bool again_a, again_b;
    int32_t a = value_of(m, pair->a, x, &again_a), b = value_of(m, pair->b, y, &again_b);
    int64_t cost = pair->cost[(int64_t)a * m->model.additive.n_values[pair->b] + b];
    cost += again_a ? cost / 2 : 0;
    if (again_b && !again_a)
        cost += clamp(multiplier * (double)m->model.loose[pair->a][a] * m->in_flight);
    return clamp((double)cost);
}

/* Made once for all pairs that are alike. */
static const int64_t *pair_costs(making *m, const cleave_additive_pair *pair) {
    int32_t n_a = m->n_values[pair->a], n_b = m->n_values[pair->b];
    const int64_t *loose = m->model.loose[pair->a];
    for (const doubled *d = m->tables; d != NULL; d = d->next)
        if (d->cost == pair->cost && d->loose == loose && d->n_a == n_a && d->n_b == n_b)
            return d->made;
    doubled *table = CLEAVE_ARENA_ARRAY(m->scratch, doubled, 1);
    int64_t *made = cleave_arena_alloc(m->scratch, (size_t)n_a, (size_t)n_b * sizeof *made);
    if (table == NULL || made == NULL)
        return NULL;
    for (int32_t x = 0; x < n_a; x++)
        for (int32_t y = 0; y < n_b; y++)
            made[(int64_t)x * n_b + y] = pair_cost(m, pair, x, y, m->multiplier);
    *table = (doubled){pair->cost, loose, n_a, n_b, made, m->tables};
    m->tables = table;
    return made;
}

static cleave_status make_costs(making *m, cleave_additive *costs) {
    const cleave_additive *from = &m->model.additive;
    const int64_t **cost = CLEAVE_ARENA_ARRAY(m->scratch, const int64_t *, from->n_variables);
    cleave_additive_pair *pairs =
        CLEAVE_ARENA_ARRAY(m->scratch, cleave_additive_pair, from->n_pairs + 1);
    bool made = cost != NULL && pairs != NULL;
    m->tables = NULL;
    for (int32_t op = 0; op < from->n_variables && made; op++) {
        cost[op] = own_costs(m, op);
        made = cost[op] != NULL;
    }
    for (int32_t p = 0; p < from->n_pairs && made; p++) {
        pairs[p] = from->pairs[p];
        pairs[p].cost = pair_costs(m, &from->pairs[p]);
        made = pairs[p].cost != NULL;
    }
    *costs = (cleave_additive){.n_variables = from->n_variables,
                               .n_values = m->n_values,
                               .cost = cost,
                               .n_pairs = from->n_pairs,
                               .pairs = pairs};
    return made ? CLEAVE_OK : short_of_memory(m);
}

/* ---- plans ----------------------------------------------------------------------------------- */

static bool make_room(cleave_arena *arena, int32_t n, cleave_group_plan *plan) {
    *plan = (cleave_group_plan){.splits = CLEAVE_ARENA_ARRAY(arena, cleave_split, n),
                                .again = CLEAVE_ARENA_ARRAY(arena, bool, n),
                                .sharded = CLEAVE_ARENA_ARRAY(arena, uint8_t, n),
                                .beside = CLEAVE_ARENA_ARRAY(arena, int64_t, n),
                                .passing = CLEAVE_ARENA_ARRAY(arena, int64_t, n),
                                .time = CLEAVE_ARENA_ARRAY(arena, int64_t, n),
                                .once = CLEAVE_ARENA_ARRAY(arena, int64_t, n),
                                .kept = CLEAVE_ARENA_ARRAY(arena, int64_t, n),
                                .second = CLEAVE_ARENA_ARRAY(arena, int64_t, n),
                                .wrote = CLEAVE_ARENA_ARRAY(arena, int64_t, n),
                                .stays = CLEAVE_ARENA_ARRAY(arena, int64_t, n)};
    return plan->splits != NULL && plan->again != NULL && plan->sharded != NULL &&
           plan->beside != NULL && plan->passing != NULL && plan->time != NULL &&
           plan->once != NULL && plan->kept != NULL && plan->second != NULL &&
           plan->wrote != NULL && plan->stays != NULL;
}

/* Operators and plans that have a candidate in common share its devices. */
static bool place(making *m, int32_t op, int32_t v, cleave_split *split) {
    int32_t l = m->candidates.list_of[op], of = m->model.candidates[op][v];
    const cleave_candidate *c = &m->candidates.lists[l].items[of];
    if (m->devices[l] == NULL)
        m->devices[l] = CLEAVE_ARENA_ARRAY(m->scratch, int32_t *, m->candidates.lists[l].n);
    if (m->devices[l] == NULL)
        return false;
    int32_t **devices = &m->devices[l][of];
    if (*devices == NULL)
        *devices = CLEAVE_ARENA_ARRAY(m->arena, int32_t, c->n_parts);
    if (*devices == NULL)
        return false;
    split->devices = *devices;
    cleave_candidate_place(c, 0, split);
    return true;
}

/* All operators as those that stand for them. */
static cleave_status expand(making *m, const cleave_group_plan *few, cleave_group_plan *plan) {
    int32_t n = m->of->model->n_operators;
    if (!make_room(m->arena, n, plan))
        return short_of_memory(m);
    for (int32_t op = 0; op < n; op++) {
        int32_t of = m->of->few->stands_for[op];
        plan->splits[op] = few->splits[of];
        plan->again[op] = few->again[of];
        plan->sharded[op] = few->sharded[of];
        plan->beside[op] = few->beside[of];
        plan->passing[op] = few->passing[of];
        plan->time[op] = few->time[of];
        plan->once[op] = few->once[of];
        plan->kept[op] = few->kept[of];
        plan->second[op] = few->second[of];
        plan->wrote[op] = few->wrote[of];
        plan->stays[op] = few->stays[of];
    }
    return CLEAVE_OK;
}

/* What two operators exchange is counted with the one that reads. */
static cleave_status take_plan(making *m, const int32_t *choice, cleave_group_plan *plan) {
    const cleave_additive_model *model = &m->model;
    bool *needed = CLEAVE_ARENA_ARRAY(m->scratch, bool, m->small.n_operators);
    cleave_group_plan few, *whole = plan;
    if (needed == NULL || !make_room(m->scratch, m->small.n_operators, &few))
        return short_of_memory(m);
    plan = &few;
    for (int32_t op = 0; op < m->small.n_operators; op++) {
        int32_t v = value_of(m, op, choice[op], &plan->again[op]);
        if (!place(m, op, v, &plan->splits[op]))
            return short_of_memory(m);
        plan->time[op] = time_of(m, op, v, plan->again[op]);
        plan->sharded[op] = (uint8_t)choose_sharded(m, op, v, plan->again[op]);
        const cleave_additive_state *state = &states_of(m, op, v)[plan->sharded[op]];
        m->most_beside[op] = beside(&states_of(m, op, v)[CLEAVE_SHARDED_WEIGHT], plan->again[op]);
        plan->beside[op] = (int64_t)beside(state, plan->again[op]);
        plan->once[op] = state->once;
        plan->passing[op] = state->passing;
        plan->stays[op] = (int64_t)stays(m, op, v) + state->bytes;
        plan->kept[op] = plan->again[op] ? 0 : model->kept[op][v];
        plan->second[op] = plan->again[op] ? model->kept[op][v] : 0;
        plan->wrote[op] = model->kept[op][v] + model->loose[op][v];
    }
    for (int32_t p = 0; p < model->additive.n_pairs; p++) {
        const cleave_additive_pair *pair = &model->additive.pairs[p];
        plan->time[pair->b] += pair_cost(m, pair, choice[pair->a], choice[pair->b], 0);
        needed[pair->a] = needed[pair->a] || (plan->again[pair->b] && !plan->again[pair->a]);
    }
    for (int32_t op = 0; op < m->small.n_operators; op++) {
        bool again;
        int32_t v = value_of(m, op, choice[op], &again);
        plan->kept[op] += needed[op] ? model->loose[op][v] : 0;
    }
    return expand(m, &few, whole);
}

static bool same_plan(const cleave_model *model, const cleave_group_plan *a,
                      const cleave_group_plan *b) {
    size_t n = (size_t)model->n_operators;
    return memcmp(a->time, b->time, n * sizeof *a->time) == 0 &&
           memcmp(a->kept, b->kept, n * sizeof *a->kept) == 0 &&
           memcmp(a->stays, b->stays, n * sizeof *a->stays) == 0 &&
           memcmp(a->sharded, b->sharded, n * sizeof *a->sharded) == 0 &&
           memcmp(a->again, b->again, n * sizeof *a->again) == 0;
}

static cleave_status add_plan(making *m) {
    cleave_additive costs;
    cleave_additive_solution solution;
    cleave_group_family *family = m->family;
    CLEAVE_TRY(make_costs(m, &costs));
    CLEAVE_TRY(cleave_additive_eliminate(&costs, most_entries, m->scratch, &solution, m->error));
    cleave_group_plan *plan = &family->plans[family->n_plans];
    CLEAVE_TRY(take_plan(m, solution.value, plan));
    if (family->n_plans == 0 || !same_plan(m->of->model, plan, plan - 1))
        family->n_plans++;
    return CLEAVE_OK;
}

/* Limits an operator to the split of a layout, if that is among its values. */
static bool limit_to(making *m, const cleave_layout *layout, int32_t op) {
    const cleave_candidate_list *list = &m->candidates.lists[m->candidates.list_of[op]];
    for (int32_t v = 0; v < m->model.additive.n_values[op]; v++)
        if (cleave_candidate_find_start(&list->items[m->model.candidates[op][v]],
                                        &layout->splits[op]) == 0) {
            m->only[op] = v;
            return true;
        }
    return false;
}

/* Of free splits, where `layout` is null.  Without all of its splits a baseline is none. */
static cleave_status add_family(making *m, const cleave_layout *layout, cleave_group *group) {
    double time = 0, bytes = (double)m->model.memory.most;
    int32_t n_groups = m->of->machine->n_devices / m->n_devices;
    m->family = &group->families[group->n_families];
    for (int32_t op = 0; op < m->small.n_operators; op++) {
        m->only[op] = -1;
        if (layout != NULL && !limit_to(m, layout, op))
            return CLEAVE_OK;
        m->n_values[op] = (layout != NULL ? 1 : m->model.additive.n_values[op]) *
                          ((int)m->may_keep[op] + (int)m->may_redo[op]);
    }
    bool is_lean = false;
    m->exposed = 1;
    for (int i = 0; i < N_MULTIPLIERS && !is_lean; i++) {
        m->multiplier = multipliers[i] * time / (bytes * n_groups);
        CLEAVE_TRY(add_plan(m));
        const cleave_group_plan *plan = &m->family->plans[m->family->n_plans - 1];
        double needed = 0, most_beside = 0;
        for (int32_t op = 0; op < m->of->model->n_operators; op++) {
            time += i == 0 ? (double)plan->time[op] : 0;
            most_beside += m->most_beside[m->of->few->stands_for[op]];
            needed += (double)plan->stays[op] + (double)plan->kept[op] * m->in_flight;
        }
        if (i == 0 && most_beside > 0)
            m->exposed = fmax(never_hidden, 1 - hides * time / most_beside);
        is_lean = needed < lean_enough * bytes * n_groups;
    }
    group->n_families++;
    return CLEAVE_OK;
}

static cleave_status make(making *m, cleave_group *group) {
    CLEAVE_TRY(make_small(m));
    CLEAVE_TRY(make_additive(m));
    CLEAVE_TRY(choose_modes(m));
    CLEAVE_TRY(count_sums(m));
    if (m->is_free)
        return add_family(m, NULL, group);
    for (int32_t g = 0; g < m->n_given; g++)
        CLEAVE_TRY(add_family(m, &m->given[g], group));
    return CLEAVE_OK;
}

cleave_status cleave_group_create(const cleave_group_problem *problem, int32_t n_devices,
                                  int32_t micro_batches, int32_t in_flight, bool is_free,
                                  cleave_arena *arena, cleave_group *group, cleave_error *error) {
    cleave_arena scratch = {0};
    cleave_group made = {.n_devices = n_devices, .micro_batches = micro_batches};
    making m = {.of = problem,
                .n_devices = n_devices,
                .micro_batches = micro_batches,
                .in_flight = in_flight,
                .is_free = is_free,
                .arena = arena,
                .scratch = &scratch,
                .error = error};
    cleave_status status = make(&m, &made);
    cleave_node_costs_destroy(m.costs);
    cleave_arena_free(&scratch);
    CLEAVE_TRY(status);
    *group = made;
    return CLEAVE_OK;
}
