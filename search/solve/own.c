/* What an operator costs by itself: the computes of its busiest device, the update of the
   parameters that it is the first to read, the synchronisation of their gradients, what moves
   between its own nests, and loading data. */
#include "costmodel/byte_price.h"
#include "graph/program/work.h"
#include "search/solve/internal.h"

#include "base/random.h"
#include "graph/model/precision.h"

#include <math.h>

static const cleave_sharding *sharding_of(const cleave_port *port, int32_t value) {
    return &port->distinct[port->of_value[value]];
}

/* Bytes of the largest shard, as far as it is there. */
static double largest_bytes(const cleave_sharding *s) {
    double most = 0;
    for (int32_t i = 0; i < s->n_shards; i++)
        most = fmax(most, (double)cleave_box_size(s->rank, &s->shards[i].box));
    return most * s->density * (double)s->element_bytes;
}

static double slowest_bytes(const cleave_machine *machine, const char *family, double bytes) {
    double seconds = 0;
    for (int32_t k = 0; k < machine->n_kinds; k++) {
        cleave_byte_price price = cleave_byte_price_of(&machine->kinds[k], family);
        seconds = fmax(seconds, cleave_byte_price_seconds(&price, 1, bytes));
    }
    return seconds;
}

/* A parameter, by the operator that reads it first. */
static cleave_status price_parameter(additive_making *m, const cleave_port_set *set, int32_t value,
                                     additive_own *own, cleave_error *error) {
    const cleave_sharding *read = sharding_of(set->read, value);
    double bytes = largest_bytes(read), states = m->options->optimizer_states;
    if (set->give == NULL) {
        own->bytes[value] += (int64_t)bytes;
        return CLEAVE_OK;
    }
    int64_t sync;
    double update = cleave_work_bytes_of_update((int64_t)bytes, m->options->optimizer_states);
    bool has_master = cleave_has_master(&m->model->tensors[set->tensor]);
    own->bytes[value] += (int64_t)(bytes * (2 + states + (has_master ? 0.5 : 0)));
    int64_t once = cleave_picoseconds(slowest_bytes(m->machine, "update", update));
    CLEAVE_TRY(cleave_resharding_cost(m->resharder, sharding_of(set->give, value), read,
                                      CLEAVE_RESHARD_RESULTS, &sync, error));
    once += (int64_t)((double)sync * m->options->exposed_sync);
    own->once[value] += once;
    own->cost[value] += once;
    return CLEAVE_OK;
}

/* A tensor that the operator writes. */
static cleave_status price_written(additive_making *m, const cleave_port_set *set, int32_t value,
                                   additive_own *own, cleave_error *error) {
    const cleave_sharding *write = sharding_of(set->write, value);
    int64_t cost = 0;
    int64_t bytes = (int64_t)largest_bytes(write);
    if (m->kept[set->tensor]) {
        own->bytes[value] += bytes;
        own->kept[value] += bytes;
    } else if (m->first_read[set->tensor] < m->first_read[set->tensor + 1]) {
        own->loose[value] += bytes;
    }
    if (set->read != NULL || set->tensor == m->model->loss)
        CLEAVE_TRY(cleave_resharding_cost(m->resharder, write,
                                          set->read != NULL ? sharding_of(set->read, value) : write,
                                          CLEAVE_RESHARD_RESULTS, &cost, error));
    own->cost[value] += cost;
    if (set->give != NULL) {
        CLEAVE_TRY(cleave_resharding_cost(m->resharder, sharding_of(set->give, value), write,
                                          CLEAVE_RESHARD_RESULTS, &cost, error));
        own->cost[value] += cost;
    }
    return CLEAVE_OK;
}

static cleave_status price_value(additive_making *m, int32_t op, int32_t value, additive_own *own,
                                 cleave_error *error) {
    const cleave_candidate_list *list = &m->candidates->lists[m->candidates->list_of[op]];
    own->cost[value] = list->items[additive_values_of(m, op)->candidate[value]].picoseconds;
    for (int32_t i = 0; i < m->ports[op].n; i++) {
        const cleave_port_set *set = &m->ports[op].items[i];
        bool first = m->first_reader[set->tensor] == op;
        switch (m->model->tensors[set->tensor].kind) {
        case CLEAVE_TENSOR_ACTIVATION:
            if (set->write != NULL)
                CLEAVE_TRY(price_written(m, set, value, own, error));
            break;
        case CLEAVE_TENSOR_PARAMETER:
            if (first)
                CLEAVE_TRY(price_parameter(m, set, value, own, error));
            break;
        case CLEAVE_TENSOR_DATA: {
            double bytes = largest_bytes(sharding_of(set->read, value));
            own->bytes[value] += (int64_t)bytes;
            own->cost[value] += cleave_picoseconds(slowest_bytes(m->machine, "load", 2 * bytes));
            break;
        }
        case CLEAVE_TENSOR_BUFFER:
        case CLEAVE_TENSOR_CONSTANT:
            if (first)
                own->bytes[value] += (int64_t)largest_bytes(sharding_of(set->read, value));
        }
    }
    return CLEAVE_OK;
}

/* Equal for operators that cost the same: ports, and which tensors they are the first to read. */
static uint64_t key_of(const additive_making *m, int32_t op) {
    uint64_t key = m->ports[op].key;
    for (int32_t i = 0; i < m->ports[op].n; i++) {
        int32_t tensor = m->ports[op].items[i].tensor;
        key = cleave_hash_join(key, (uint64_t)m->model->tensors[tensor].kind);
        key = cleave_hash_join(key, m->first_reader[tensor] == op);
        key = cleave_hash_join(key, tensor == m->model->loss);
        key = cleave_hash_join(key, m->kept[tensor]);
        key = cleave_hash_join(key, m->first_read[tensor] < m->first_read[tensor + 1]);
    }
    return key;
}

cleave_status additive_price_own(additive_making *m, int32_t op, cleave_error *error) {
    additive_own *own = &m->own[op];
    int32_t n = additive_values_of(m, op)->n, list = m->candidates->list_of[op];
    own->key = key_of(m, op);
    for (int32_t other = op - 1, tries = 0; other >= 0 && tries < 256; other--, tries++)
        if (m->own[other].key == own->key && m->candidates->list_of[other] == list) {
            *own = m->own[other];
            return CLEAVE_OK;
        }
    own->cost = CLEAVE_ARENA_ARRAY(m->arena, int64_t, n);
    own->bytes = CLEAVE_ARENA_ARRAY(m->arena, int64_t, n);
    own->once = CLEAVE_ARENA_ARRAY(m->arena, int64_t, n);
    own->kept = CLEAVE_ARENA_ARRAY(m->arena, int64_t, n);
    own->loose = CLEAVE_ARENA_ARRAY(m->arena, int64_t, n);
    if (own->cost == NULL || own->bytes == NULL || own->once == NULL || own->kept == NULL ||
        own->loose == NULL)
        return cleave_fail_memory(error, "pricing operators");
    for (int32_t v = 0; v < n; v++)
        CLEAVE_TRY(price_value(m, op, v, own, error));
    return CLEAVE_OK;
}
