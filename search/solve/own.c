/* What an operator costs by itself: the computes of its busiest device, the update of the
   parameters that it is the first to read, the synchronisation of their gradients, what moves
   between its own nests, and loading data. */
#include "costmodel/byte_price.h"
#include "costmodel/cost.h"
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

int64_t additive_bytes_of(const cleave_sharding *s) { return (int64_t)largest_bytes(s); }

static void add_cost(additive_own *own, int32_t value, int64_t picoseconds) {
    own->cost[value] = cleave_picoseconds_sum(own->cost[value], picoseconds);
}

static double slowest_bytes(const cleave_machine *machine, const char *family, double bytes) {
    double seconds = 0;
    for (int32_t k = 0; k < machine->n_kinds; k++) {
        cleave_byte_price price = cleave_byte_price_of(&machine->kinds[k], family);
        seconds = fmax(seconds, cleave_byte_price_seconds(&price, 1, bytes));
    }
    return seconds;
}

/* How many devices have each element at least. */
static double count_sharers(const cleave_sharding *s) {
    int32_t least = s->n_shards > 0 ? s->shards[0].n_members : 1;
    for (int32_t i = 1; i < s->n_shards; i++)
        least = s->shards[i].n_members < least ? s->shards[i].n_members : least;
    return least;
}

/* Is a parameter updated as soon as its gradient is whole (graph/lower/update.c)?  Where every
   device reads something of it that no other one does. */
static bool is_early(const additive_making *m, const cleave_sharding *read) {
    return !m->options->keeps_gradients && m->model->squares == 0 &&
           read->n_shards == m->machine->n_devices && !read->overlaps;
}

static void add_chores(const cleave_state_chores *from, cleave_state_chores *to) {
    to->unpacking += from->unpacking;
    to->packing += from->packing;
    to->adding += from->adding;
    to->bucketing += from->bucketing;
}

/* Of `bytes` of exact values, which take `update` and `sync` picoseconds where all have all. */
static void add_state(const additive_making *m, const cleave_port_set *set,
                      const cleave_sharding *read, double update, double sync,
                      cleave_additive_state *state) {
    const cleave_tensor *tensor = &m->model->tensors[set->tensor];
    double bytes = largest_bytes(read), n = count_sharers(read), half = sync / 2;
    double stored = (double)cleave_stored_bytes(tensor) / (double)read->element_bytes;
    double weight = bytes * stored, gradient = bytes;
    double states = bytes * (m->options->optimizer_states + cleave_has_master(tensor));
    bool passes = is_early(m, read);
    for (int s = 0; s < CLEAVE_N_SHARDED; s++) {
        cleave_sharded sharded =
            n > 1 ? cleave_sharded_as(tensor, (cleave_sharded)s) : CLEAVE_SHARDED_NOTHING;
        bool updates = sharded >= CLEAVE_SHARDED_UPDATE, reduces = sharded > CLEAVE_SHARDED_UPDATE;
        bool gathers = sharded >= CLEAVE_SHARDED_WEIGHT;
        state[s].bytes +=
            (int64_t)(states / (updates ? n : 1) + (passes ? 0 : gradient / (reduces ? n : 1)) +
                      weight / (gathers ? n : 1));
        state[s].once += (int64_t)(update / (updates ? n : 1) + (reduces   ? 0
                                                                 : updates ? half
                                                                           : sync));
        state[s].behind += updates && !gathers ? (int64_t)(half * stored) : 0;
        state[s].reducing += reduces ? (int64_t)half : 0;
        state[s].gathering += gathers ? (int64_t)(half * stored) : 0;
        state[s].passing += (int64_t)((reduces || passes ? gradient : 0) + (gathers ? weight : 0));
    }
}

/* A parameter, by the operator that reads it first. */
static cleave_status price_parameter(additive_making *m, int32_t op, const cleave_port_set *set,
                                     int32_t value, additive_own *own, cleave_error *error) {
    const cleave_sharding *read = sharding_of(set->read, value);
    double bytes = largest_bytes(read);
    cleave_additive_state added[CLEAVE_N_SHARDED] = {{0}},
                          *state = &own->state[value * CLEAVE_N_SHARDED];
    int64_t sync;
    if (set->give == NULL) {
        own->bytes[value] += (int64_t)bytes;
        return CLEAVE_OK;
    }
    double update = cleave_work_bytes_of_update((int64_t)bytes, m->options->optimizer_states);
    cleave_resharder_of(m->resharder, &m->together, set->tensor);
    CLEAVE_TRY(cleave_resharding_cost(m->resharder, sharding_of(set->give, value), read,
                                      CLEAVE_RESHARD_RESULTS, &sync, error));
    cleave_resharder_of(m->resharder, NULL, -1);
    add_state(m, set, read, (double)cleave_picoseconds(slowest_bytes(m->machine, "update", update)),
              (double)sync * m->options->exposed_sync, added);
    for (int s = 0; s < CLEAVE_N_SHARDED; s++)
        added[s].chores = cleave_state_chores_of(
            m->machine, m->model, op, set->tensor, (cleave_sharded)s,
            bytes / (double)read->element_bytes, sync > 0 ? count_sharers(read) : 1);
    own->bytes[value] += added[CLEAVE_SHARDED_NOTHING].bytes;
    int64_t once =
        added[CLEAVE_SHARDED_NOTHING].once + added[CLEAVE_SHARDED_NOTHING].chores.bucketing;
    own->once[value] += once;
    add_cost(own, value, once);
    for (int s = 0; s < CLEAVE_N_SHARDED; s++) {
        state[s].bytes += added[s].bytes;
        state[s].once += added[s].once;
        state[s].behind += added[s].behind;
        state[s].gathering += added[s].gathering;
        state[s].reducing += added[s].reducing;
        state[s].passing += added[s].passing;
        add_chores(&added[s].chores, &state[s].chores);
    }
    return CLEAVE_OK;
}

bool additive_backward_reads(const additive_making *m, int32_t op, int32_t tensor) {
    const cleave_model *model = m->model;
    bool reads = false;
    for (int32_t k = 0; k < model->operators[op].n_nests && cleave_model_trains(model); k++) {
        const cleave_nest *nest = &model->nests[model->operators[op].nests[k]];
        reads =
            reads || (nest->output.tensor == tensor && (nest->kept_output || nest->kept_combined));
        for (int i = 0; i < nest->n_inputs && !reads; i++)
            reads = (nest->kept_inputs & (1u << i)) != 0 &&
                    cleave_tensor_sees(model, nest->inputs[i].tensor, tensor);
    }
    return reads;
}

/* A tensor that the operator writes. */
static cleave_status price_written(additive_making *m, int32_t op, const cleave_port_set *set,
                                   int32_t value, additive_own *own, cleave_error *error) {
    const cleave_sharding *write = sharding_of(set->write, value);
    int64_t cost = 0;
    int64_t bytes = (int64_t)largest_bytes(write);
    if (m->kept[set->tensor]) {
        own->bytes[value] += bytes;
        own->kept[value] += bytes;
    }
    if (m->kept[set->tensor] || m->first_read[set->tensor] < m->first_read[set->tensor + 1])
        own->wrote[value] += bytes;
    if (additive_backward_reads(m, op, set->tensor))
        own->own[value] += bytes;
    if (set->read != NULL || set->tensor == m->model->loss)
        CLEAVE_TRY(cleave_resharding_cost(m->resharder, write,
                                          set->read != NULL ? sharding_of(set->read, value) : write,
                                          CLEAVE_RESHARD_RESULTS, &cost, error));
    add_cost(own, value, cost);
    if (set->give != NULL) {
        CLEAVE_TRY(cleave_resharding_cost(m->resharder, sharding_of(set->give, value), write,
                                          CLEAVE_RESHARD_RESULTS, &cost, error));
        add_cost(own, value, cost);
    }
    return CLEAVE_OK;
}

static cleave_status price_value(additive_making *m, int32_t op, int32_t value, additive_own *own,
                                 cleave_error *error) {
    const cleave_candidate_list *list = &m->candidates->lists[m->candidates->list_of[op]];
    add_cost(own, value, list->items[additive_values_of(m, op)->candidate[value]].picoseconds);
    for (int32_t i = 0; i < m->ports[op].n; i++) {
        const cleave_port_set *set = &m->ports[op].items[i];
        bool first = m->first_reader[set->tensor] == op;
        switch (m->model->tensors[set->tensor].kind) {
        case CLEAVE_TENSOR_ACTIVATION:
            if (set->write != NULL)
                CLEAVE_TRY(price_written(m, op, set, value, own, error));
            break;
        case CLEAVE_TENSOR_PARAMETER:
            if (first)
                CLEAVE_TRY(price_parameter(m, op, set, value, own, error));
            else if (set->give != NULL)
                add_state(m, set, sharding_of(set->read, value), 0, 0,
                          &own->tied[value * CLEAVE_N_SHARDED]);
            break;
        case CLEAVE_TENSOR_DATA: {
            double bytes = largest_bytes(sharding_of(set->read, value));
            own->bytes[value] += (int64_t)bytes;
            add_cost(own, value, cleave_picoseconds(slowest_bytes(m->machine, "load", 2 * bytes)));
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
    own->own = CLEAVE_ARENA_ARRAY(m->arena, int64_t, n);
    own->wrote = CLEAVE_ARENA_ARRAY(m->arena, int64_t, n);
    own->state = CLEAVE_ARENA_ARRAY(m->arena, cleave_additive_state, n * CLEAVE_N_SHARDED);
    own->tied = CLEAVE_ARENA_ARRAY(m->arena, cleave_additive_state, n * CLEAVE_N_SHARDED);
    if (own->cost == NULL || own->bytes == NULL || own->once == NULL || own->kept == NULL ||
        own->own == NULL || own->wrote == NULL || own->state == NULL || own->tied == NULL)
        return cleave_fail_memory(error, "pricing operators");
    for (int32_t v = 0; v < n; v++)
        CLEAVE_TRY(price_value(m, op, v, own, error));
    return CLEAVE_OK;
}
