/* Which candidates become values: those of given layouts, the operator in one piece, and the ones
   that cost least by themselves, as far as that is known without boxes: compute, and two thirds of
   an all-reduce's bytes over the slowest link that it would cross. */
#include "base/order.h"
#include "search/solve/internal.h"

#include <string.h>

typedef struct ranked {
    int32_t candidate;
    bool must, whole_machine;
    double seconds;
} ranked;

static int by_rank(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    CLEAVE_ORDER_BY(y->must, x->must);
    CLEAVE_ORDER_BY(x->seconds, y->seconds);
    return CLEAVE_ORDER(x->candidate, y->candidate);
}

/* Elements of a parameter that the first part reads, and by how many parts they are summed. */
static double summed_elements(const cleave_model *model, const cleave_nest *nest,
                              const cleave_operand *operand, const cleave_candidate *c) {
    const cleave_tensor *tensor = &model->tensors[operand->tensor];
    double elements = 1, shared = 1;
    bool maps[CLEAVE_MAX_AXES] = {false};
    for (int d = 0; d < tensor->rank; d++) {
        double degree = 1;
        for (int t = 0; t < operand->map[d].n_terms; t++) {
            int axis = nest->operator_axis[operand->map[d].terms[t].axis];
            if (axis < 0)
                continue;
            maps[axis] = true;
            degree *= c->degree[axis];
        }
        elements *= (double)tensor->shape[d] / degree;
    }
    for (int a = 0; a < CLEAVE_MAX_AXES; a++)
        shared *= maps[a] || c->degree[a] < 1 ? 1 : c->degree[a];
    return shared > 1 ? elements : 0;
}

static double summed_bytes(const cleave_model *model, const cleave_operator *op,
                           const cleave_candidate *c) {
    double elements = 0;
    for (int32_t k = 0; k < op->n_nests; k++) {
        const cleave_nest *nest = &model->nests[op->nests[k]];
        if (nest->derivation != CLEAVE_DERIVE_OPERATOR || !cleave_model_trains(model))
            continue;
        for (int i = 0; i < nest->n_inputs; i++) {
            int32_t tensor = cleave_tensor_base(model, nest->inputs[i].tensor);
            if (model->tensors[tensor].kind == CLEAVE_TENSOR_PARAMETER &&
                (nest->gradient_inputs & (1u << i)))
                elements += summed_elements(model, nest, &nest->inputs[i], c);
        }
    }
    return 4 * elements;
}

/* Partial results of the first part.  Of operators with parameters they are not counted: splits
   that have them save memory and synchronisation, while attention among queries always does what
   it would do among keys. */
static double partial_bytes(const cleave_model *model, const cleave_operator *op,
                            const cleave_candidate *c) {
    double elements = 0;
    for (int32_t k = 0; k < op->n_nests; k++) {
        const cleave_nest *nest = &model->nests[op->nests[k]];
        for (int i = 0; i < nest->n_inputs; i++)
            if (cleave_tensor_sees_parameter(model, nest->inputs[i].tensor))
                return 0;
        if (nest->derivation == CLEAVE_DERIVE_OPERATOR && nest->combiner != CLEAVE_COMBINE_NONE)
            elements += summed_elements(model, nest, &nest->output, c);
    }
    return 4 * elements;
}

/* Seconds a byte takes between neighbours of a candidate's block, the slowest link of the ways. */
static double seconds_per_byte(const cleave_machine *machine, const cleave_candidate *c) {
    int32_t links[CLEAVE_MAX_ROUTE];
    double slowest = 0;
    for (int32_t p = 1; p < c->n_parts; p++) {
        if (c->offsets[p] >= machine->n_devices || c->offsets[p - 1] >= machine->n_devices)
            continue;
        int32_t n = cleave_machine_route(machine, c->offsets[p - 1], c->offsets[p], links);
        for (int32_t l = 0; l < n; l++) {
            double seconds = 1 / machine->links[links[l]].bytes_per_second;
            slowest = seconds > slowest ? seconds : slowest;
        }
    }
    return slowest;
}

static bool is_given(const additive_making *m, int32_t list, const cleave_candidate *c) {
    for (int32_t op = 0; op < m->model->n_operators && m->options->n_given > 0; op++) {
        if (m->candidates->list_of[op] != list)
            continue;
        for (int32_t g = 0; g < m->options->n_given; g++) {
            const cleave_split *split = &m->options->given[g]->splits[op];
            bool same = split->n_parts == c->n_parts && split->replicas == c->replicas &&
                        memcmp(split->degree, c->degree, sizeof c->degree) == 0;
            for (int32_t p = 0; p < c->n_parts && same; p++)
                same = split->devices[p] == c->offsets[p];
            if (same)
                return true;
        }
    }
    return false;
}

/* Half of what is left goes to splits over all devices, the other half to the best of all. */
static int32_t select_values(ranked *all, int32_t n, int32_t most, int32_t *candidate) {
    int32_t chosen = 0;
    CLEAVE_SORT(all, n, by_rank);
    for (int pass = 0; pass < 3; pass++) {
        int32_t room = pass == 1 ? (most - chosen) / 2 : most - chosen;
        for (int32_t i = 0; i < n && (room > 0 || pass == 0); i++) {
            if (all[i].candidate < 0 || (pass == 0 && !all[i].must) ||
                (pass == 1 && !all[i].whole_machine))
                continue;
            candidate[chosen++] = all[i].candidate;
            all[i].candidate = -1;
            room--;
        }
    }
    cleave_sort_int32(candidate, chosen);
    return chosen;
}

bool additive_place_values(additive_making *m, int32_t l, additive_values *values) {
    const cleave_candidate_list *list = &m->candidates->lists[l];
    values->splits = CLEAVE_ARENA_ARRAY(m->arena, cleave_split, values->n);
    for (int32_t v = 0; v < values->n && values->splits != NULL; v++) {
        const cleave_candidate *c = &list->items[values->candidate[v]];
        values->splits[v].devices = CLEAVE_ARENA_ARRAY(m->arena, int32_t, c->n_parts);
        if (values->splits[v].devices == NULL)
            return false;
        cleave_candidate_place(c, 0, &values->splits[v]);
        for (int a = 0; a < m->model->operators[list->op].n_axes; a++)
            if (values->splits[v].degree[a] < 1)
                values->splits[v].degree[a] = 1;
    }
    return values->splits != NULL;
}

static bool choose(additive_making *m, int32_t l) {
    const cleave_candidate_list *list = &m->candidates->lists[l];
    const cleave_operator *op = &m->model->operators[list->op];
    additive_values *values = &m->values[l];
    ranked *all = CLEAVE_ARENA_ARRAY(&m->scratch, ranked, list->n);
    values->candidate = CLEAVE_ARENA_ARRAY(m->arena, int32_t, list->n);
    if (all == NULL || values->candidate == NULL)
        return false;
    for (int32_t i = 0; i < list->n; i++) {
        const cleave_candidate *c = &list->items[i];
        double sync = 2 * partial_bytes(m->model, op, c);
        if (m->options->exposed_sync > 0)
            sync += 2 * m->options->exposed_sync * summed_bytes(m->model, op, c);
        all[i] = (ranked){.candidate = i,
                          .must = c->n_parts == 1 || is_given(m, l, c),
                          .whole_machine = c->n_parts == m->machine->n_devices,
                          .seconds = (double)c->picoseconds * 1e-12};
        if (sync > 0)
            all[i].seconds += sync * seconds_per_byte(m->machine, c);
    }
    int32_t most = m->options->most_values > 0 ? m->options->most_values : list->n;
    if (m->options->around != NULL && op->n_later > 0)
        most *= 2; /* keys go with any of the other axes, and leave these their room */
    values->n = select_values(all, list->n, most, values->candidate);
    return additive_place_values(m, l, values);
}

cleave_status additive_choose_values(additive_making *m, cleave_error *error) {
    m->values = CLEAVE_ARENA_ARRAY(&m->scratch, additive_values, m->candidates->n_lists);
    bool chosen = m->values != NULL;
    for (int32_t l = 0; l < m->candidates->n_lists && chosen; l++)
        chosen = choose(m, l);
    return chosen ? CLEAVE_OK : cleave_fail_memory(error, "choosing the values of operators");
}
