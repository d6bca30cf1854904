/* What each value of an operator costs in each of its modes, kept or recomputed: time, and memory
   at the price of a byte. */
#include "search/pipeline/group_internal.h"

#include "costmodel/byte_price.h"
#include "costmodel/cost.h"
#include "graph/program/eager.h"

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

cleave_status group_choose_modes(group_making *m) {
    int32_t n = m->small.n_operators;
    int asked = cleave_model_trains(&m->small) ? m->of->recompute : (int)CLEAVE_RECOMPUTE_NONE;
    cleave_layout marks = {.n_operators = n};
    m->may_keep = CLEAVE_ARENA_ARRAY(m->scratch, bool, n);
    m->may_redo = CLEAVE_ARENA_ARRAY(m->scratch, bool, n);
    m->forward = CLEAVE_ARENA_ARRAY(m->scratch, double, n);
    m->n_values = CLEAVE_ARENA_ARRAY(m->scratch, int32_t, n);
    m->only = CLEAVE_ARENA_ARRAY(m->scratch, int32_t, n);
    m->most_beside = CLEAVE_ARENA_ARRAY(m->scratch, double, n);
    m->most_once = CLEAVE_ARENA_ARRAY(m->scratch, double, n);
    m->devices = CLEAVE_ARENA_ARRAY(m->scratch, int32_t **, m->candidates.n_lists);
    if (m->only == NULL || m->most_beside == NULL || m->most_once == NULL || m->devices == NULL ||
        m->may_keep == NULL || m->may_redo == NULL || m->forward == NULL || m->n_values == NULL)
        return group_short_of_memory(m);
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

int32_t group_value_of(const group_making *m, int32_t op, int32_t x, bool *again) {
    int32_t n = m->only[op] >= 0 ? 1 : m->model.additive.n_values[op];
    *again = x >= n || !m->may_keep[op];
    return m->only[op] >= 0 ? m->only[op] : x % n;
}

/* Elements of gradients of one tensor and the views of it that come behind the first. */
typedef struct group_sums {
    bool is_given; /* by a reader behind */
    double more, added;
} group_sums;

/* What an input of a nest gives for it.  Passes add where they can; so do the kernels of a
   framework, but for what is added on the chip. */
static void count_reader(const group_making *m, const cleave_nest *nest, int input, int32_t tensor,
                         group_sums *sums) {
    const cleave_model *model = &m->small;
    const cleave_tensor *of = &model->tensors[tensor];
    for (int32_t s = 0; s < of->view.n_sources; s++)
        count_reader(m, nest, input, of->view.sources[s], sums);
    if (of->view.kind != CLEAVE_VIEW_NONE || !of->needs_gradient)
        return;
    group_sums *sum = &sums[tensor];
    double elements = (double)cleave_tensor_size(of);
    const cleave_part whole = cleave_part_whole(nest, 0);
    cleave_additions additions =
        cleave_additions_of(model, nest, CLEAVE_PASS_INPUT_GRADIENT, &whole, input);
    bool is_eager = cleave_frameworks[m->machine.kinds[0].framework].is_eager;
    if (sum->is_given && !cleave_nest_adds(model, nest, input, CLEAVE_PASS_INPUT_GRADIENT))
        sum->more += elements;
    else if (sum->is_given && (is_eager ? additions.eager : additions.compiled))
        sum->added += elements;
    sum->is_given = true;
}

cleave_status group_count_sums(group_making *m) {
    const cleave_model *model = &m->small;
    group_sums *sums = CLEAVE_ARENA_ARRAY(m->scratch, group_sums, model->n_tensors);
    double *size = CLEAVE_ARENA_ARRAY(m->scratch, double, model->n_operators);
    m->more = CLEAVE_ARENA_ARRAY(m->scratch, double, model->n_operators);
    m->added = CLEAVE_ARENA_ARRAY(m->scratch, double, model->n_operators);
    if (sums == NULL || size == NULL || m->more == NULL || m->added == NULL)
        return group_short_of_memory(m);
    for (int32_t n = model->n_nests - 1; n >= 0 && cleave_model_trains(model); n--)
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            count_reader(m, &model->nests[n], i, model->nests[n].inputs[i].tensor, sums);
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (model->writer[t] >= 0) {
            int32_t op = model->nests[model->writer[t]].op;
            size[op] += (double)cleave_tensor_size(&model->tensors[t]);
            m->more[op] += sums[t].more;
            m->added[op] += sums[t].added;
        }
    for (int32_t op = 0; op < model->n_operators; op++) {
        m->more[op] = size[op] > 0 ? m->more[op] / size[op] : 0;
        m->added[op] = size[op] > 0 ? m->added[op] / size[op] : 0;
    }
    return CLEAVE_OK;
}

/* Solvers cut what is never the answer (search/solve/additive.h); it has to be a number. */
static int64_t clamp(double cost) { return cost < 0x1p61 ? (int64_t)cost : INT64_C(1) << 61; }

/* ---- costs ----------------------------------------------------------------------------------- */

int64_t group_time_of(const group_making *m, int32_t op, int32_t v, bool again) {
    const cleave_candidate_list *list = &m->candidates.lists[m->candidates.list_of[op]];
    int64_t compute = list->items[m->model.candidates[op][v]].picoseconds;
    int64_t own = m->model.additive.cost[op][v] - m->model.once[op][v];
    double wrote = (double)m->model.wrote[op][v];
    if (m->more[op] > 0) { /* each sum reads two and writes one */
        cleave_byte_price price = cleave_sum_price_of(&m->machine.kinds[0]);
        own += cleave_picoseconds(cleave_byte_price_seconds(&price, 1, 3 * m->more[op] * wrote));
    }
    if (m->added[op] > 0) {
        const cleave_copy_price price = cleave_copy_price_of(&m->machine.kinds[0]);
        const cleave_copy add = {.chore = CLEAVE_CHORE_ADD,
                                 .chore_bytes = (int64_t)(m->added[op] * wrote),
                                 .additions = {true, true}};
        own += cleave_cost_chore(&price, &add);
    }
    return own + (again ? (int64_t)((double)compute * m->forward[op]) : 0);
}

const cleave_additive_state *group_states_of(const group_making *m, int32_t op, int32_t v) {
    return &m->model.state[op][v * CLEAVE_N_SHARDED];
}

double group_beside(const cleave_additive_state *state, bool again) {
    return (double)(state->gathering * (again ? 3 : 2) + state->reducing);
}

static double weigh_state(const group_making *m, const cleave_additive_state *state, bool again) {
    double once =
        m->exposed_once * (double)state->once + (double)(state->behind + state->chores.bucketing);
    return once / m->micro_batches + m->exposed * group_beside(state, again) +
           cleave_state_chores_each(&state->chores, m->micro_batches, again) +
           m->multiplier * (double)state->bytes;
}

cleave_sharded group_most_sharded(const group_making *m) {
    return m->of->only_updates ? CLEAVE_SHARDED_UPDATE : CLEAVE_SHARDED_WEIGHT;
}

cleave_sharded group_choose_sharded(const group_making *m, int32_t op, int32_t v, bool again) {
    const cleave_additive_state *states = group_states_of(m, op, v);
    int best = m->of->sharded >= 0 ? m->of->sharded : 0;
    for (int s = best + 1; s <= (int)group_most_sharded(m) && m->of->sharded < 0; s++)
        if (weigh_state(m, &states[s], again) < weigh_state(m, &states[best], again))
            best = s;
    return (cleave_sharded)best;
}

double group_stays(const group_making *m, int32_t op, int32_t v) {
    return (double)(m->model.memory.weight[op][v] - m->model.kept[op][v] -
                    group_states_of(m, op, v)[CLEAVE_SHARDED_NOTHING].bytes);
}

static const int64_t *own_costs(const group_making *m, int32_t op) {
    int64_t *cost = CLEAVE_ARENA_ARRAY(m->scratch, int64_t, m->n_values[op]);
    for (int32_t x = 0; x < m->n_values[op] && cost != NULL; x++) {
        bool again;
        int32_t v = group_value_of(m, op, x, &again);
        const cleave_additive_state *state =
            &group_states_of(m, op, v)[group_choose_sharded(m, op, v, again)];
        double kept = again ? 0 : (double)m->model.own[op][v] * m->in_flight;
        cost[x] = clamp((double)group_time_of(m, op, v, again) + weigh_state(m, state, again) +
                        m->multiplier * (group_stays(m, op, v) + kept));
    }
    return cost;
}

/* What one that is recomputed writes goes on once more, as it went before. */
int64_t group_pair_cost(const group_making *m, const cleave_additive_pair *pair, int32_t x,
                        int32_t y) {
    bool again_a, again_b;
    int32_t a = group_value_of(m, pair->a, x, &again_a),
            b = group_value_of(m, pair->b, y, &again_b);
    int64_t cost = pair->cost[(int64_t)a * m->model.additive.n_values[pair->b] + b];
    return clamp((double)(cost + (again_a ? cost / 2 : 0)));
}

int64_t group_place_of(const group_making *m, const cleave_additive_reading *reading, int32_t x,
                       int32_t y) {
    bool again;
    int32_t b = group_value_of(m, reading->reader, y, &again);
    return (int64_t)group_value_of(m, reading->writer, x, &again) *
               m->model.additive.n_values[reading->reader] +
           b;
}

/* What is recomputed comes again; what is read for that has to be kept. */
int64_t group_held(const group_making *m, const cleave_additive_reading *reading, int32_t x,
                   int32_t y) {
    bool again_a, again_b;
    int64_t at = group_place_of(m, reading, x, y);
    group_value_of(m, reading->writer, x, &again_a);
    group_value_of(m, reading->reader, y, &again_b);
    return again_a ? 0 : (again_b ? reading->read : reading->kept)[at];
}

/* Costs of two operators in two modes each. */
typedef struct group_doubled {
    const int64_t *cost, *read; /* of a pair; of a reading */
    int32_t n_a, n_b;
    const int64_t *made;
    struct group_doubled *next;
} group_doubled;

/* Of what is alike made once; `reading` null: of the pair. */
static const int64_t *pair_costs(group_making *m, const cleave_additive_pair *pair,
                                 const cleave_additive_reading *reading) {
    int32_t n_a = m->n_values[pair->a], n_b = m->n_values[pair->b];
    const int64_t *cost = reading != NULL ? reading->kept : pair->cost;
    const int64_t *read = reading != NULL ? reading->read : NULL;
    for (const group_doubled *d = m->tables; d != NULL; d = d->next)
        if (d->cost == cost && d->read == read && d->n_a == n_a && d->n_b == n_b)
            return d->made;
    group_doubled *table = CLEAVE_ARENA_ARRAY(m->scratch, group_doubled, 1);
    int64_t *made = cleave_arena_alloc(m->scratch, (size_t)n_a, (size_t)n_b * sizeof *made);
    if (table == NULL || made == NULL)
        return NULL;
    for (int32_t x = 0; x < n_a; x++)
        for (int32_t y = 0; y < n_b; y++)
            made[(int64_t)x * n_b + y] =
                reading != NULL
                    ? clamp(m->multiplier * (double)group_held(m, reading, x, y) * m->in_flight)
                    : group_pair_cost(m, pair, x, y);
    *table = (group_doubled){cost, read, n_a, n_b, made, m->tables};
    m->tables = table;
    return made;
}

cleave_status group_make_costs(group_making *m, cleave_additive *costs) {
    const cleave_additive *from = &m->model.additive;
    int32_t n_readings = m->multiplier > 0 ? m->model.n_readings : 0;
    const int64_t **cost = CLEAVE_ARENA_ARRAY(m->scratch, const int64_t *, from->n_variables);
    cleave_additive_pair *pairs =
        CLEAVE_ARENA_ARRAY(m->scratch, cleave_additive_pair, from->n_pairs + n_readings + 1);
    int32_t n_pairs = from->n_pairs;
    bool made = cost != NULL && pairs != NULL;
    m->tables = NULL;
    for (int32_t op = 0; op < from->n_variables && made; op++) {
        cost[op] = own_costs(m, op);
        made = cost[op] != NULL;
    }
    for (int32_t p = 0; p < from->n_pairs && made; p++) {
        pairs[p] = from->pairs[p];
        pairs[p].cost = pair_costs(m, &from->pairs[p], NULL);
        made = pairs[p].cost != NULL;
    }
    for (int32_t i = 0; i < n_readings && made; i++) {
        const cleave_additive_reading *reading = &m->model.readings[i];
        cleave_additive_pair *pair = &pairs[n_pairs++];
        *pair = (cleave_additive_pair){.a = reading->writer, .b = reading->reader};
        pair->cost = pair_costs(m, pair, reading);
        made = pair->cost != NULL;
    }
    *costs = (cleave_additive){.n_variables = from->n_variables,
                               .n_values = m->n_values,
                               .cost = cost,
                               .n_pairs = n_pairs,
                               .pairs = pairs};
    return made ? CLEAVE_OK : group_short_of_memory(m);
}
