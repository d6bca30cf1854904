/* Variables, their own costs and their pairs. */
#include "search/solve/model.h"

#include "base/order.h"
#include "search/solve/pairs.h"
#include "search/solve/readings.h"

#include <string.h>

/* ---- what is known of tensors before any price ----------------------------------------------- */

static void mark_kept(additive_making *m, int32_t tensor) {
    const cleave_tensor *of = &m->model->tensors[tensor];
    m->kept[tensor] = true;
    for (int32_t s = 0; s < of->view.n_sources; s++)
        mark_kept(m, of->view.sources[s]);
}

static bool scan_tensors(additive_making *m) {
    const cleave_model *model = m->model;
    m->kept = CLEAVE_ARENA_ARRAY(&m->scratch, bool, model->n_tensors);
    m->first_reader = CLEAVE_ARENA_ARRAY(&m->scratch, int32_t, model->n_tensors);
    if (m->kept == NULL || m->first_reader == NULL)
        return false;
    memset(m->first_reader, -1, (size_t)model->n_tensors * sizeof *m->first_reader);
    for (int32_t n = 0; n < model->n_nests && cleave_model_trains(model); n++) {
        const cleave_nest *nest = &model->nests[n];
        if (nest->kept_output || nest->kept_combined)
            mark_kept(m, nest->output.tensor);
        for (int i = 0; i < nest->n_inputs; i++)
            if (nest->kept_inputs & (1u << i))
                mark_kept(m, nest->inputs[i].tensor);
    }
    return true;
}

static cleave_status make_ports(additive_making *m, cleave_error *error) {
    m->ports = CLEAVE_ARENA_ARRAY(&m->scratch, cleave_operator_ports, m->model->n_operators);
    if (m->ports == NULL)
        return cleave_fail_memory(error, "making the additive model");
    for (int32_t op = 0; op < m->model->n_operators; op++) {
        const additive_values *values = additive_values_of(m, op);
        CLEAVE_TRY(cleave_ports_of(m->maker, op, m->candidates->list_of[op], values->n,
                                   values->splits, &m->ports[op], error));
        for (int32_t i = 0; i < m->ports[op].n; i++) {
            const cleave_port_set *set = &m->ports[op].items[i];
            if (set->read != NULL && m->first_reader[set->tensor] < 0)
                m->first_reader[set->tensor] = op;
        }
    }
    return CLEAVE_OK;
}

const cleave_port_set *additive_find_set(const cleave_operator_ports *ports, int32_t tensor) {
    int32_t at = 0;
    CLEAVE_BISECT(at, ports->n, middle, ports->items[middle].tensor < tensor);
    return at < ports->n && ports->items[at].tensor == tensor ? &ports->items[at] : NULL;
}

/* Does an operator read of a tensor what others may read, too? */
static bool reads_from_outside(const cleave_port_set *set) {
    return set->read != NULL && set->write == NULL;
}

/* Who reads each tensor. */
static bool list_readers(additive_making *m) {
    int32_t n = m->model->n_tensors;
    m->first_read = CLEAVE_ARENA_ARRAY(&m->scratch, int32_t, n + 2);
    for (int32_t op = 0; op < m->model->n_operators && m->first_read != NULL; op++)
        for (int32_t i = 0; i < m->ports[op].n; i++)
            m->first_read[m->ports[op].items[i].tensor + 2] +=
                reads_from_outside(&m->ports[op].items[i]);
    for (int32_t t = 0; t < n && m->first_read != NULL; t++)
        m->first_read[t + 2] += m->first_read[t + 1];
    m->reads = m->first_read == NULL
                   ? NULL
                   : CLEAVE_ARENA_ARRAY(&m->scratch, int32_t, m->first_read[n + 1]);
    for (int32_t op = 0; op < m->model->n_operators && m->reads != NULL; op++)
        for (int32_t i = 0; i < m->ports[op].n; i++)
            if (reads_from_outside(&m->ports[op].items[i]))
                m->reads[m->first_read[m->ports[op].items[i].tensor + 1]++] = op;
    return m->reads != NULL;
}

/* Operators that read the same of a tensor. */
static int32_t count_alike(const additive_making *m, const cleave_port_set *set) {
    int32_t n = 0;
    for (int32_t i = m->first_read[set->tensor]; i < m->first_read[set->tensor + 1]; i++) {
        const cleave_port_set *other = additive_find_set(&m->ports[m->reads[i]], set->tensor);
        n += other->read == set->read && other->give == set->give;
    }
    return n;
}

cleave_status additive_know_values(additive_making *m, cleave_error *error) {
    CLEAVE_TRY(make_ports(m, error));
    m->own = CLEAVE_ARENA_ARRAY(&m->scratch, additive_own, m->model->n_operators);
    if (m->own == NULL || !list_readers(m))
        return cleave_fail_memory(error, "making the additive model");
    for (int32_t op = 0; op < m->model->n_operators; op++)
        CLEAVE_TRY(additive_price_own(m, op, error));
    return CLEAVE_OK;
}

/* ---- variables ------------------------------------------------------------------------------- */

/* One for every operator, with its own costs. */
static cleave_status make_variables(const additive_making *m, cleave_additive_model *made,
                                    cleave_error *error) {
    int32_t n = m->model->n_operators;
    int32_t *n_values = CLEAVE_ARENA_ARRAY(m->arena, int32_t, n);
    const int64_t **cost = CLEAVE_ARENA_ARRAY(m->arena, const int64_t *, n);
    const int64_t **bytes = CLEAVE_ARENA_ARRAY(m->arena, const int64_t *, n);
    made->candidates = CLEAVE_ARENA_ARRAY(m->arena, const int32_t *, n);
    made->once = CLEAVE_ARENA_ARRAY(m->arena, const int64_t *, n);
    made->kept = CLEAVE_ARENA_ARRAY(m->arena, const int64_t *, n);
    made->own = CLEAVE_ARENA_ARRAY(m->arena, const int64_t *, n);
    made->wrote = CLEAVE_ARENA_ARRAY(m->arena, const int64_t *, n);
    made->state = CLEAVE_ARENA_ARRAY(m->arena, const cleave_additive_state *, n);
    made->tied = CLEAVE_ARENA_ARRAY(m->arena, const cleave_additive_state *, n);
    if (n_values == NULL || cost == NULL || bytes == NULL || made->candidates == NULL ||
        made->once == NULL || made->kept == NULL || made->own == NULL || made->wrote == NULL ||
        made->state == NULL || made->tied == NULL)
        return cleave_fail_memory(error, "making the additive model");
    for (int32_t op = 0; op < n; op++) {
        n_values[op] = additive_values_of(m, op)->n;
        made->candidates[op] = additive_values_of(m, op)->candidate;
        cost[op] = m->own[op].cost;
        bytes[op] = m->own[op].bytes;
        made->once[op] = m->own[op].once;
        made->kept[op] = m->own[op].kept;
        made->own[op] = m->own[op].own;
        made->wrote[op] = m->own[op].wrote;
        made->state[op] = m->own[op].state;
        made->tied[op] = m->own[op].tied;
    }
    made->additive = (cleave_additive){.n_variables = n, .n_values = n_values, .cost = cost};
    made->memory.weight = bytes;
    return CLEAVE_OK;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

/* What one operator reads that another one writes, or gives a gradient of besides another one. */
static cleave_status meet_sources(const additive_making *m, int32_t op, int32_t *last_reader,
                                  additive_meeting_function *meet, void *context,
                                  cleave_error *error) {
    for (int32_t i = 0; i < m->ports[op].n; i++) {
        const cleave_port_set *set = &m->ports[op].items[i];
        int32_t nest = m->model->writer[set->tensor];
        additive_encounter met = {.first = -1, .second = op, .of_second = set};
        if (nest >= 0 && reads_from_outside(set)) {
            met.first = m->model->nests[nest].op;
            met.n_alike = count_alike(m, set);
        } else if (m->model->tensors[set->tensor].kind == CLEAVE_TENSOR_PARAMETER &&
                   set->give != NULL) {
            met.first = last_reader[set->tensor];
            last_reader[set->tensor] = op;
        }
        if (met.first < 0)
            continue;
        met.of_first = additive_find_set(&m->ports[met.first], set->tensor);
        CLEAVE_TRY(meet(context, &met, error));
    }
    return CLEAVE_OK;
}

cleave_status additive_for_each_encounter(additive_making *m, additive_meeting_function *meet,
                                          void *context, cleave_error *error) {
    int32_t *last_reader = CLEAVE_ARENA_ARRAY(&m->scratch, int32_t, m->model->n_tensors);
    if (last_reader == NULL)
        return cleave_fail_memory(error, "making the additive model");
    memset(last_reader, -1, (size_t)m->model->n_tensors * sizeof *last_reader);
    for (int32_t op = 0; op < m->model->n_operators; op++)
        CLEAVE_TRY(meet_sources(m, op, last_reader, meet, context, error));
    return CLEAVE_OK;
}

static cleave_status meet_one(void *context, const additive_encounter *met, cleave_error *error) {
    additive_pairs *pairs = context;
    const additive_table *table;
    CLEAVE_TRY(additive_price_encounter(pairs, met, &table, error));
    return additive_meet(pairs, met->first, met->second, table, error);
}

static cleave_status meet_all(additive_pairs *p, const cleave_additive_model *made,
                              cleave_error *error) {
    additive_making *m = p->making;
    p->first = CLEAVE_ARENA_ARRAY(&m->scratch, int32_t, made->additive.n_variables);
    if (p->first == NULL)
        return cleave_fail_memory(error, "making the additive model");
    memset(p->first, -1, (size_t)made->additive.n_variables * sizeof *p->first);
    return additive_for_each_encounter(m, meet_one, p, error);
}

static cleave_status copy_pairs(const additive_pairs *p, cleave_additive_model *made,
                                cleave_error *error) {
    cleave_additive_pair *pairs =
        CLEAVE_ARENA_ARRAY(p->making->arena, cleave_additive_pair, p->meetings.n);
    if (pairs == NULL)
        return cleave_fail_memory(error, "making the additive model");
    for (int32_t i = 0; i < p->meetings.n; i++)
        pairs[i] = p->meetings.items[i].pair;
    made->additive.n_pairs = p->meetings.n;
    made->additive.pairs = pairs;
    return CLEAVE_OK;
}

static cleave_status make_pairs(additive_making *m, cleave_additive_model *made,
                                cleave_error *error) {
    additive_pairs *p = CLEAVE_ARENA_ARRAY(&m->scratch, additive_pairs, 1);
    if (p == NULL)
        return cleave_fail_memory(error, "making the additive model");
    *p = (additive_pairs){.making = m, .n_values = made->additive.n_values};
    cleave_status status = meet_all(p, made, error);
    if (status == CLEAVE_OK)
        status = copy_pairs(p, made, error);
    CLEAVE_LIST_FREE(&p->meetings);
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void set_limit(const additive_making *m, cleave_additive_model *made) {
    made->memory.most = m->options->memory_limit_bytes;
    for (int32_t d = 0; d < m->machine->n_devices && m->options->memory_limit_bytes == 0; d++) {
        int64_t bytes = m->machine->kinds[m->machine->device_kind[d]].memory_bytes -
                        cleave_machine_runtime_bytes(m->machine, d, 0);
        if (d == 0 || bytes < made->memory.most)
            made->memory.most = bytes;
    }
}

static cleave_status make(additive_making *m, cleave_additive_model *made, cleave_error *error) {
    CLEAVE_TRY(cleave_choose_collectives(m->machine, false, &m->scratch, &m->rules, error));
    CLEAVE_TRY(cleave_resharder_create(m->machine, &m->rules, &m->resharder, error));
    CLEAVE_TRY(cleave_sent_together_create(m->model, m->machine, &m->scratch, &m->together, error));
    CLEAVE_TRY(cleave_port_maker_create(m->model, m->machine->n_devices, &m->maker, error));
    if (!scan_tensors(m))
        return cleave_fail_memory(error, "making the additive model");
    CLEAVE_TRY(m->options->around != NULL ? additive_choose_around(m, error)
                                          : additive_choose_values(m, error));
    CLEAVE_TRY(additive_know_values(m, error));
    CLEAVE_TRY(make_variables(m, made, error));
    CLEAVE_TRY(make_pairs(m, made, error));
    if (m->options->lists_readings)
        CLEAVE_TRY(additive_list_readings(m, made, error));
    set_limit(m, made);
    return CLEAVE_OK;
}

cleave_status cleave_additive_model_create(const cleave_model *model, const cleave_machine *machine,
                                           const cleave_candidates *candidates,
                                           const cleave_additive_options *options,
                                           cleave_arena *arena, cleave_additive_model *made,
                                           cleave_error *error) {
    additive_making m = {.model = model,
                         .machine = machine,
                         .candidates = candidates,
                         .options = options,
                         .arena = arena};
    cleave_additive_model result = {0};
    cleave_status status = make(&m, &result, error);
    cleave_resharder_destroy(m.resharder);
    cleave_port_maker_destroy(m.maker);
    cleave_arena_free(&m.scratch);
    if (status == CLEAVE_OK)
        *made = result;
    return status;
}

cleave_status cleave_additive_model_layout(const cleave_additive_model *made,
                                           const cleave_model *model, const cleave_machine *machine,
                                           const cleave_candidates *candidates,
                                           const int32_t *value, cleave_arena *arena,
                                           cleave_layout *layout, cleave_error *error) {
    cleave_layout result;
    CLEAVE_TRY(cleave_layout_create(model, machine->n_devices, arena, &result, error));
    for (int32_t op = 0; op < model->n_operators; op++) {
        const cleave_candidate_list *list = &candidates->lists[candidates->list_of[op]];
        const cleave_candidate *c = &list->items[made->candidates[op][value[op]]];
        int32_t *devices = CLEAVE_ARENA_ARRAY(arena, int32_t, c->n_parts);
        if (devices == NULL)
            return cleave_fail_memory(error, "making a layout");
        cleave_split split = {.devices = devices};
        cleave_candidate_place(c, 0, &split);
        CLEAVE_TRY(
            cleave_layout_set(&result, op, split.replicas, split.degree, devices, arena, error));
    }
    *layout = result;
    return CLEAVE_OK;
}
