#include "search/solve/pairs.h"

#include "base/random.h"
#include "costmodel/cost.h"

#include <string.h>

/* ---- tables ---------------------------------------------------------------------------------- */

static additive_table *find_table(const additive_pairs *p, uint64_t key) {
    for (additive_table *at = p->rows[key % ADDITIVE_TABLE_ROWS]; at != NULL; at = at->next)
        if (at->key == key)
            return at;
    return NULL;
}

/* Spreads the costs of pairs of shardings, [a's distinct][b's distinct], to pairs of values. */
static cleave_status keep_table(additive_pairs *p, uint64_t key, const cleave_port *a,
                                const cleave_port *b, const int64_t *distinct,
                                const additive_table **table, cleave_error *error) {
    cleave_arena *arena = p->making->arena;
    additive_table *made = CLEAVE_ARENA_ARRAY(&p->making->scratch, additive_table, 1);
    int64_t *cost =
        cleave_arena_alloc(arena, (size_t)a->n_values, (size_t)b->n_values * sizeof *cost);
    if (made == NULL || cost == NULL)
        return cleave_fail_memory(error, "pricing pairs of operators");
    *made = (additive_table){.key = key, .cost = cost, .is_zero = true};
    for (int32_t x = 0; x < a->n_values; x++)
        for (int32_t y = 0; y < b->n_values; y++) {
            int64_t at = (int64_t)a->of_value[x] * b->n_distinct + b->of_value[y];
            cost[(int64_t)x * b->n_values + y] = distinct[at];
            made->is_zero = made->is_zero && distinct[at] == 0;
        }
    made->next = p->rows[key % ADDITIVE_TABLE_ROWS];
    p->rows[key % ADDITIVE_TABLE_ROWS] = made;
    *table = made;
    return CLEAVE_OK;
}

/* Where a reader gives its gradient otherwise than it reads, the two are different shardings of one
   value; then pairs are told apart by value. */
typedef struct side {
    const cleave_port *port; /* tells the values apart */
    const cleave_port *read, *give;
    int32_t *value_of; /* [n_distinct of port] some value */
} side;

static bool make_side(const cleave_port_set *set, cleave_arena *arena, side *s) {
    *s = (side){.port = set->read, .read = set->read, .give = set->give};
    if (set->give != NULL && set->give != set->read) {
        cleave_port *both = CLEAVE_ARENA_ARRAY(arena, cleave_port, 1);
        int32_t *of_value = CLEAVE_ARENA_ARRAY(arena, int32_t, set->read->n_values);
        if (both == NULL || of_value == NULL)
            return false;
        *both = (cleave_port){.n_values = set->read->n_values,
                              .n_distinct = set->read->n_values,
                              .of_value = of_value};
        for (int32_t v = 0; v < both->n_values; v++)
            of_value[v] = v;
        s->port = both;
    }
    s->value_of = CLEAVE_ARENA_ARRAY(arena, int32_t, s->port->n_distinct);
    for (int32_t v = 0; v < s->port->n_values && s->value_of != NULL; v++)
        s->value_of[s->port->of_value[v]] = v;
    return s->value_of != NULL;
}

static const cleave_sharding *sharding_of(const cleave_port *port, int32_t value) {
    return &port->distinct[port->of_value[value]];
}

static cleave_status price_transfers(additive_pairs *p, const cleave_port *write, const side *s,
                                     int64_t *distinct, cleave_error *error) {
    cleave_resharder *r = p->making->resharder;
    for (int32_t i = 0; i < write->n_distinct; i++)
        for (int32_t j = 0; j < s->port->n_distinct; j++) {
            int64_t forward, backward = 0;
            CLEAVE_TRY(cleave_resharding_cost(r, &write->distinct[i],
                                              sharding_of(s->read, s->value_of[j]),
                                              CLEAVE_RESHARD_RESULTS, &forward, error));
            if (s->give != NULL)
                CLEAVE_TRY(cleave_resharding_cost(r, sharding_of(s->give, s->value_of[j]),
                                                  &write->distinct[i], CLEAVE_RESHARD_RESULTS,
                                                  &backward, error));
            distinct[(int64_t)i * s->port->n_distinct + j] =
                cleave_picoseconds_sum(forward, backward);
        }
    return CLEAVE_OK;
}

static cleave_status price_transfer(additive_pairs *p, const cleave_port_set *writer,
                                    const cleave_port_set *reader, int32_t n_alike,
                                    const additive_table **table, cleave_error *error) {
    uint64_t key = cleave_hash_join(writer->write->key, reader->read->key);
    key = cleave_hash_join(key, reader->give != NULL ? reader->give->key : 0);
    key = cleave_hash_join(key, (uint64_t)n_alike);
    *table = find_table(p, key);
    if (*table != NULL)
        return CLEAVE_OK;
    cleave_arena *scratch = &p->making->scratch;
    side s;
    if (!make_side(reader, scratch, &s))
        return cleave_fail_memory(error, "pricing pairs of operators");
    int64_t *distinct = cleave_arena_alloc(scratch, (size_t)writer->write->n_distinct,
                                           (size_t)s.port->n_distinct * sizeof *distinct);
    if (distinct == NULL)
        return cleave_fail_memory(error, "pricing pairs of operators");
    CLEAVE_TRY(price_transfers(p, writer->write, &s, distinct, error));
    for (int64_t i = 0; i < (int64_t)writer->write->n_distinct * s.port->n_distinct; i++)
        distinct[i] /= n_alike;
    return keep_table(p, key, writer->write, s.port, distinct, table, error);
}

/* The second one's gradient goes to where the first one's is, and the sum of both comes back: as
   much as if the second one read what the first one has. */
static cleave_status price_shares(additive_pairs *p, const cleave_port *first,
                                  const cleave_port_set *second, int64_t *distinct,
                                  cleave_error *error) {
    cleave_resharder *r = p->making->resharder;
    double exposed = p->making->options->exposed_sync;
    for (int32_t i = 0; i < first->n_distinct; i++)
        for (int32_t j = 0; j < second->give->n_distinct; j++) {
            const cleave_sharding *a = &first->distinct[i], *b = &second->give->distinct[j];
            int64_t there = 0, back = 0;
            if (!cleave_sharding_equal(a, b)) {
                CLEAVE_TRY(cleave_resharding_cost(r, b, a, CLEAVE_RESHARD_RESULTS, &there, error));
                CLEAVE_TRY(cleave_resharding_cost(r, a, b, CLEAVE_RESHARD_VALUES, &back, error));
            }
            distinct[(int64_t)i * second->give->n_distinct + j] =
                (int64_t)((double)cleave_picoseconds_sum(there, back) * exposed);
        }
    return CLEAVE_OK;
}

static cleave_status price_shared(additive_pairs *p, const cleave_port_set *first,
                                  const cleave_port_set *second, const additive_table **table,
                                  cleave_error *error) {
    uint64_t key = cleave_hash_join(~first->give->key, second->give->key);
    *table = find_table(p, key);
    if (*table != NULL)
        return CLEAVE_OK;
    int64_t *distinct = cleave_arena_alloc(&p->making->scratch, (size_t)first->give->n_distinct,
                                           (size_t)second->give->n_distinct * sizeof *distinct);
    if (distinct == NULL)
        return cleave_fail_memory(error, "pricing pairs of operators");
    CLEAVE_TRY(price_shares(p, first->give, second, distinct, error));
    return keep_table(p, key, first->give, second->give, distinct, table, error);
}

cleave_status additive_price_encounter(additive_pairs *p, const additive_encounter *met,
                                       const additive_table **table, cleave_error *error) {
    return met->n_alike > 0
               ? price_transfer(p, met->of_first, met->of_second, met->n_alike, table, error)
               : price_shared(p, met->of_first, met->of_second, table, error);
}

/* ---- meetings -------------------------------------------------------------------------------- */

static const int64_t *transpose(additive_pairs *p, const int64_t *cost, int32_t n_a, int32_t n_b) {
    int64_t *made = cleave_arena_alloc(p->making->arena, (size_t)n_a, (size_t)n_b * sizeof *made);
    for (int32_t x = 0; x < n_a && made != NULL; x++)
        for (int32_t y = 0; y < n_b; y++)
            made[(int64_t)y * n_a + x] = cost[(int64_t)x * n_b + y];
    return made;
}

/* The transposed table is made once, too. */
static const int64_t *transposed(additive_pairs *p, const additive_table *table, int32_t n_a,
                                 int32_t n_b) {
    uint64_t key = cleave_hash_join(table->key, UINT64_C(0x7452616e73706f73));
    additive_table *known = find_table(p, key);
    if (known != NULL)
        return known->cost;
    known = CLEAVE_ARENA_ARRAY(&p->making->scratch, additive_table, 1);
    const int64_t *cost = transpose(p, table->cost, n_a, n_b);
    if (known == NULL || cost == NULL)
        return NULL;
    *known = (additive_table){.key = key, .cost = cost, .next = p->rows[key % ADDITIVE_TABLE_ROWS]};
    p->rows[key % ADDITIVE_TABLE_ROWS] = known;
    return cost;
}

static additive_meeting *find_meeting(additive_pairs *p, int32_t a, int32_t b) {
    for (int32_t i = p->first[a]; i >= 0; i = p->meetings.items[i].next)
        if (p->meetings.items[i].pair.b == b)
            return &p->meetings.items[i];
    return NULL;
}

static bool add_to(additive_pairs *p, additive_meeting *meeting, const int64_t *cost) {
    int64_t n = (int64_t)p->n_values[meeting->pair.a] * p->n_values[meeting->pair.b];
    if (!meeting->owned) {
        int64_t *sum = CLEAVE_ARENA_ARRAY(p->making->arena, int64_t, n);
        if (sum == NULL)
            return false;
        memcpy(sum, meeting->pair.cost, (size_t)n * sizeof *sum);
        meeting->pair.cost = sum;
        meeting->owned = true;
    }
    int64_t *sum = (int64_t *)(uintptr_t)meeting->pair.cost; /* it is our own */
    for (int64_t i = 0; i < n; i++)
        sum[i] = cleave_picoseconds_sum(sum[i], cost[i]);
    return true;
}

cleave_status additive_meet(additive_pairs *p, int32_t a, int32_t b, const additive_table *table,
                            cleave_error *error) {
    int32_t n_a = p->n_values[a], n_b = p->n_values[b];
    const int64_t *cost = table->cost;
    if (table->is_zero)
        return CLEAVE_OK;
    if (a > b) {
        cost = transposed(p, table, n_a, n_b);
        int32_t swap = a;
        a = b;
        b = swap;
    }
    additive_meeting *meeting = find_meeting(p, a, b);
    bool met = cost != NULL;
    if (met && meeting != NULL) {
        met = add_to(p, meeting, cost);
    } else if (met) {
        const additive_meeting made = {.pair = {.a = a, .b = b, .cost = cost}, .next = p->first[a]};
        met = CLEAVE_LIST_PUSH(&p->meetings, made);
        p->first[a] = p->meetings.n - 1;
    }
    return met ? CLEAVE_OK : cleave_fail_memory(error, "pricing pairs of operators");
}
