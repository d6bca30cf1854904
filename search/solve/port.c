#include "search/solve/port.h"

#include "base/list.h"
#include "base/order.h"
#include "base/random.h"
#include "graph/model/part.h"
#include "graph/model/view.h"

#include <stdlib.h>
#include <string.h>

enum { PORT_ROWS = 4096, PULL_ROWS = 1024 };

typedef enum port_sort { PORT_WRITE, PORT_READ, PORT_GIVE } port_sort;

/* An operand of a nest of the operator. */
typedef struct use {
    int32_t nest;
    const cleave_operand *operand;
} use;

/* What a port is made of: uses of one base tensor. */
typedef struct spec {
    int32_t tensor;
    port_sort sort;
    int32_t first_use, n_uses;
    uint64_t key;
    cleave_port *port; /* null until it is there */
    uint64_t *hashes;  /* [n_values] of what devices have, while the port is made */
} spec;

typedef struct known_port {
    cleave_port port;
    struct known_port *next;
} known_port;

/* A box of a view, pulled back to a base tensor: the bounding box of its pieces there. */
typedef struct pulled {
    int32_t tensor, base; /* base + 1; 0: empty row */
    cleave_box box, bounds;
    int64_t n_elements;
} pulled;

struct cleave_port_maker {
    const cleave_model *model;
    int32_t n_devices;
    cleave_arena arena, scratch, trial;
    known_port **rows;           /* [PORT_ROWS] */
    cleave_parts *parts;         /* [n_nests] of the operator at hand */
    cleave_shard_entry *entries; /* [n_devices] */
    pulled *pulls;               /* [PULL_ROWS] direct-mapped */
    CLEAVE_LIST(use) uses;
    CLEAVE_LIST(spec) specs;
    cleave_piece_list pieces;
};

cleave_status cleave_port_maker_create(const cleave_model *model, int32_t n_devices,
                                       cleave_port_maker **maker, cleave_error *error) {
    cleave_port_maker *m = calloc(1, sizeof *m);
    if (m == NULL)
        return cleave_fail_memory(error, "sharding tensors");
    m->model = model;
    m->n_devices = n_devices;
    m->rows = CLEAVE_ARENA_ARRAY(&m->arena, known_port *, PORT_ROWS);
    m->parts = CLEAVE_ARENA_ARRAY(&m->arena, cleave_parts, model->n_nests);
    m->entries = CLEAVE_ARENA_ARRAY(&m->arena, cleave_shard_entry, n_devices);
    m->pulls = CLEAVE_ARENA_ARRAY(&m->arena, pulled, PULL_ROWS);
    if (m->rows == NULL || m->parts == NULL || m->entries == NULL || m->pulls == NULL) {
        cleave_port_maker_destroy(m);
        return cleave_fail_memory(error, "sharding tensors");
    }
    *maker = m;
    return CLEAVE_OK;
}

void cleave_port_maker_destroy(cleave_port_maker *maker) {
    if (maker == NULL)
        return;
    CLEAVE_LIST_FREE(&maker->uses);
    CLEAVE_LIST_FREE(&maker->specs);
    CLEAVE_LIST_FREE(&maker->pieces);
    cleave_arena_free(&maker->arena);
    cleave_arena_free(&maker->scratch);
    cleave_arena_free(&maker->trial);
    free(maker);
}

/* ---- which tensors --------------------------------------------------------------------------- */

/* How a tensor is seen through views, all but its name. */
static uint64_t hash_view(const cleave_model *model, int32_t tensor, int32_t base) {
    const cleave_tensor *of = &model->tensors[tensor];
    uint64_t hash = cleave_hash_join((uint64_t)of->view.kind, tensor == base);
    for (int d = 0; d < of->rank; d++) {
        hash = cleave_hash_join(hash, (uint64_t)of->shape[d]);
        hash = cleave_hash_join(hash, (uint64_t)of->order[d]);
        if (of->view.kind == CLEAVE_VIEW_TRANSPOSE)
            hash = cleave_hash_join(hash, (uint64_t)of->view.permutation[d]);
        if (of->view.kind == CLEAVE_VIEW_SLICE || of->view.kind == CLEAVE_VIEW_PAD)
            hash = cleave_hash_join(cleave_hash_join(hash, (uint64_t)of->view.begin[d]),
                                    (uint64_t)of->view.step[d]);
    }
    if (of->view.kind == CLEAVE_VIEW_CONCAT)
        hash = cleave_hash_join(hash, (uint64_t)of->view.axis);
    for (int32_t s = 0; s < of->view.n_sources; s++)
        hash = cleave_hash_join(hash, hash_view(model, of->view.sources[s], base));
    return hash;
}

/* Operators that are alike differ in what they read of dimensions without axes. */
static uint64_t hash_use(const cleave_model *model, const cleave_operator *op, const use *u,
                         int32_t base) {
    const cleave_tensor *of = &model->tensors[u->operand->tensor];
    const cleave_nest *nest = &model->nests[u->nest];
    int32_t place = 0;
    while (op->nests[place] != u->nest)
        place++;
    int64_t operand = u->operand == &nest->output ? -1 : u->operand - nest->inputs;
    uint64_t hash = cleave_hash_join((uint64_t)place, (uint64_t)operand);
    for (int d = 0; d < of->rank; d++)
        if (u->operand->map[d].n_terms == 0)
            hash = cleave_hash_join(hash, (uint64_t)u->operand->map[d].offset);
    return cleave_hash_join(hash, hash_view(model, u->operand->tensor, base));
}

static bool add_spec(cleave_port_maker *m, int32_t tensor, port_sort sort, const use *u) {
    if (m->specs.n > 0) {
        spec *last = &m->specs.items[m->specs.n - 1];
        if (last->tensor == tensor && last->sort == sort) {
            last->n_uses++;
            return CLEAVE_LIST_PUSH(&m->uses, *u);
        }
    }
    const spec made = {.tensor = tensor, .sort = sort, .first_use = m->uses.n, .n_uses = 1};
    return CLEAVE_LIST_PUSH(&m->specs, made) && CLEAVE_LIST_PUSH(&m->uses, *u);
}

/* A base tensor that a use reaches. */
typedef struct reach {
    int32_t tensor;
    port_sort sort;
    int32_t order; /* of the uses */
    use of;
} reach;

static int by_tensor(const void *a, const void *b) {
    const reach *x = a, *y = b;
    CLEAVE_ORDER_BY(x->tensor, y->tensor);
    CLEAVE_ORDER_BY(x->sort, y->sort);
    return CLEAVE_ORDER(x->order, y->order);
}

typedef struct reaches {
    const cleave_model *model;
    CLEAVE_LIST(reach) list;
    bool failed;
} reaches;

static void add_reach(reaches *r, int32_t tensor, const use *u, port_sort sort) {
    const cleave_tensor *of = &r->model->tensors[tensor];
    for (int32_t s = 0; s < of->view.n_sources; s++)
        add_reach(r, of->view.sources[s], u, sort);
    if (of->view.n_sources > 0 || (sort == PORT_GIVE && !of->needs_gradient))
        return;
    const reach made = {tensor, sort, r->list.n, *u};
    r->failed = r->failed || !CLEAVE_LIST_PUSH(&r->list, made);
}

static void reach_nest(reaches *r, int32_t n) {
    const cleave_nest *nest = &r->model->nests[n];
    const use output = {.nest = n, .operand = &nest->output};
    add_reach(r, nest->output.tensor, &output, PORT_WRITE);
    if (nest->kept_combined) /* of attention: where its keys are split */
        add_reach(r, nest->output.tensor, &output, PORT_READ);
    for (int i = 0; i < nest->n_inputs; i++) {
        const use input = {.nest = n, .operand = &nest->inputs[i]};
        add_reach(r, nest->inputs[i].tensor, &input, PORT_READ);
        if (cleave_model_trains(r->model) && (nest->gradient_inputs & (1u << i)))
            add_reach(r, nest->inputs[i].tensor, &input, PORT_GIVE);
    }
}

static bool list_specs(cleave_port_maker *m, int32_t op, int32_t alike) {
    const cleave_operator *of = &m->model->operators[op];
    reaches r = {.model = m->model};
    m->specs.n = m->uses.n = 0;
    for (int32_t k = 0; k < of->n_nests; k++)
        reach_nest(&r, of->nests[k]);
    bool listed = !r.failed;
    CLEAVE_SORT(r.list.items, r.list.n, by_tensor);
    for (int32_t i = 0; i < r.list.n && listed; i++)
        listed = add_spec(m, r.list.items[i].tensor, r.list.items[i].sort, &r.list.items[i].of);
    CLEAVE_LIST_FREE(&r.list);
    for (int32_t i = 0; i < m->specs.n; i++) {
        spec *s = &m->specs.items[i];
        s->key = cleave_hash64((uint64_t)alike);
        for (int32_t u = 0; u < s->n_uses; u++)
            s->key = cleave_hash_join(
                s->key, hash_use(m->model, of, &m->uses.items[s->first_use + u], s->tensor));
    }
    return listed;
}

/* ---- what devices have of them --------------------------------------------------------------- */

/* The bounding box, in the base tensor, of what a box of a view shows of it. */
static cleave_status pull(cleave_port_maker *m, int32_t tensor, int32_t base, const cleave_box *box,
                          pulled **found, cleave_error *error) {
    int rank = m->model->tensors[tensor].rank, base_rank = m->model->tensors[base].rank;
    uint64_t hash = cleave_hash_join((uint64_t)tensor, (uint64_t)base);
    for (int d = 0; d < rank; d++)
        hash = cleave_hash_join(hash, (uint64_t)box->lo[d] << 32 ^ (uint64_t)box->hi[d]);
    pulled *at = *found = &m->pulls[hash % PULL_ROWS];
    if (at->base == base + 1 && at->tensor == tensor && cleave_box_equal(rank, &at->box, box))
        return CLEAVE_OK;
    *at = (pulled){.tensor = tensor, .base = base + 1, .box = *box};
    m->pieces.n = 0;
    CLEAVE_TRY(cleave_view_pull(m->model, tensor, box, &m->pieces, error));
    for (int32_t i = 0; i < m->pieces.n; i++) {
        const cleave_piece *piece = &m->pieces.items[i];
        if (piece->tensor != base)
            continue;
        for (int d = 0; d < base_rank; d++) {
            int64_t lo = piece->box.lo[d], hi = piece->box.hi[d];
            if (at->n_elements == 0 || lo < at->bounds.lo[d])
                at->bounds.lo[d] = lo;
            if (at->n_elements == 0 || hi > at->bounds.hi[d])
                at->bounds.hi[d] = hi;
        }
        at->n_elements += cleave_box_size(base_rank, &piece->box);
    }
    return CLEAVE_OK;
}

/* One more box for a device: the bounding box of all.  What is read twice counts once. */
static void join(int rank, cleave_shard_entry *entry, const cleave_box *box, int64_t n_elements,
                 uint64_t key) {
    entry->key = cleave_hash_join(entry->key, key);
    if (entry->n_elements == 0) {
        entry->box = *box;
        entry->n_elements = n_elements;
        return;
    }
    if (cleave_box_contains(rank, &entry->box, box))
        return;
    bool around = cleave_box_contains(rank, box, &entry->box);
    for (int d = 0; d < rank; d++) {
        entry->box.lo[d] = box->lo[d] < entry->box.lo[d] ? box->lo[d] : entry->box.lo[d];
        entry->box.hi[d] = box->hi[d] > entry->box.hi[d] ? box->hi[d] : entry->box.hi[d];
    }
    int64_t size = cleave_box_size(rank, &entry->box);
    int64_t sum = around ? n_elements : entry->n_elements + n_elements;
    entry->n_elements = sum < size ? sum : size;
}

static cleave_status fill_entries(cleave_port_maker *m, const spec *s, cleave_error *error) {
    int rank = m->model->tensors[s->tensor].rank;
    for (int32_t d = 0; d < m->n_devices; d++) { /* without elements there is no box */
        m->entries[d].n_elements = 0;
        m->entries[d].key = 0;
    }
    for (int32_t u = 0; u < s->n_uses; u++) {
        const use *of = &m->uses.items[s->first_use + u];
        const cleave_parts *parts = &m->parts[of->nest];
        for (int32_t p = 0; p < parts->n; p++) {
            const cleave_part *part = &parts->items[p];
            if (part->empty)
                continue;
            cleave_box box;
            cleave_part_box(m->model, part, of->operand, &box);
            if (of->operand->tensor == s->tensor) {
                if (!cleave_box_is_empty(rank, &box))
                    join(rank, &m->entries[part->device], &box, cleave_box_size(rank, &box),
                         cleave_hash_join((uint64_t)u, (uint64_t)part->key));
                continue;
            }
            pulled *found;
            CLEAVE_TRY(pull(m, of->operand->tensor, s->tensor, &box, &found, error));
            if (found->n_elements > 0)
                join(rank, &m->entries[part->device], &found->bounds, found->n_elements,
                     cleave_hash_join((uint64_t)u, (uint64_t)part->key));
        }
    }
    return CLEAVE_OK;
}

/* ---- ports ----------------------------------------------------------------------------------- */

static cleave_port *find_port(const cleave_port_maker *m, uint64_t key) {
    for (known_port *at = m->rows[key % PORT_ROWS]; at != NULL; at = at->next)
        if (at->port.key == key)
            return &at->port;
    return NULL;
}

static cleave_port *add_port(cleave_port_maker *m, uint64_t key, int32_t n_values) {
    known_port *made = CLEAVE_ARENA_ARRAY(&m->arena, known_port, 1);
    if (made == NULL)
        return NULL;
    made->port.key = key;
    made->port.n_values = n_values;
    made->port.distinct = CLEAVE_ARENA_ARRAY(&m->arena, cleave_sharding, n_values);
    made->port.of_value = CLEAVE_ARENA_ARRAY(&m->arena, int32_t, n_values);
    if (made->port.distinct == NULL || made->port.of_value == NULL)
        return NULL;
    made->next = m->rows[key % PORT_ROWS];
    m->rows[key % PORT_ROWS] = made;
    return &made->port;
}

static uint64_t hash_entries(const cleave_port_maker *m, int rank) {
    uint64_t hash = 0;
    for (int32_t d = 0; d < m->n_devices; d++) {
        const cleave_shard_entry *entry = &m->entries[d];
        uint64_t own = entry->key ^ (uint64_t)entry->n_elements * 0x9e3779b97f4a7c15u;
        for (int i = 0; i < rank && entry->n_elements > 0; i++)
            own = (own ^ (uint64_t)entry->box.lo[i] * 0x9e3779b97f4a7c15u ^
                   (uint64_t)entry->box.hi[i]) *
                  0xbf58476d1ce4e5b9u;
        hash = cleave_hash_join(hash, own);
    }
    return hash;
}

/* The sharding of one value.  Most are known already: those are not made again, or get no memory.
 */
static cleave_status add_value(cleave_port_maker *m, const spec *s, int32_t value,
                               cleave_error *error) {
    const cleave_tensor *tensor = &m->model->tensors[s->tensor];
    cleave_sharding made;
    CLEAVE_TRY(fill_entries(m, s, error));
    s->hashes[value] = hash_entries(m, tensor->rank);
    for (int32_t v = 0; v < value; v++)
        if (s->hashes[v] == s->hashes[value]) {
            s->port->of_value[value] = s->port->of_value[v];
            return CLEAVE_OK;
        }
    cleave_arena_reset(&m->trial);
    CLEAVE_TRY(cleave_sharding_create(tensor, m->n_devices, m->entries, &m->trial, &made, error));
    int32_t i = 0;
    while (i < s->port->n_distinct && !cleave_sharding_equal(&s->port->distinct[i], &made))
        i++;
    if (i == s->port->n_distinct &&
        !cleave_sharding_copy(&made, &m->arena, &s->port->distinct[s->port->n_distinct++]))
        return cleave_fail_memory(error, "sharding tensors");
    s->port->of_value[value] = i;
    return CLEAVE_OK;
}

static cleave_status make_ports(cleave_port_maker *m, int32_t op, const bool *is_new,
                                int32_t n_values, const cleave_split *splits, cleave_error *error) {
    for (int32_t v = 0; v < n_values; v++) {
        cleave_arena_reset(&m->scratch);
        CLEAVE_TRY(cleave_parts_derive_operator(m->model, op, &splits[v], NULL, &m->scratch,
                                                m->parts, error));
        for (int32_t i = 0; i < m->specs.n; i++)
            if (is_new[i])
                CLEAVE_TRY(add_value(m, &m->specs.items[i], v, error));
    }
    return CLEAVE_OK;
}

static cleave_status gather_sets(cleave_port_maker *m, cleave_operator_ports *ports,
                                 cleave_error *error) {
    cleave_operator_ports result = {.items =
                                        CLEAVE_ARENA_ARRAY(&m->arena, cleave_port_set, m->specs.n)};
    if (result.items == NULL)
        return cleave_fail_memory(error, "sharding tensors");
    for (int32_t i = 0; i < m->specs.n; i++) {
        const spec *s = &m->specs.items[i];
        if (result.n == 0 || result.items[result.n - 1].tensor != s->tensor)
            result.items[result.n++].tensor = s->tensor;
        cleave_port_set *set = &result.items[result.n - 1];
        if (s->sort == PORT_WRITE)
            set->write = s->port;
        else if (s->sort == PORT_READ)
            set->read = s->port;
        else
            set->give = s->port;
        result.key = cleave_hash_join(result.key, cleave_hash_join(s->key, (uint64_t)s->sort));
    }
    *ports = result;
    return CLEAVE_OK;
}

cleave_status cleave_ports_of(cleave_port_maker *m, int32_t op, int32_t alike, int32_t n_values,
                              const cleave_split *splits, cleave_operator_ports *ports,
                              cleave_error *error) {
    if (!list_specs(m, op, alike))
        return cleave_fail_memory(error, "sharding tensors");
    bool *is_new = calloc((size_t)m->specs.n + 1, sizeof *is_new);
    bool made = is_new != NULL, any = false;
    for (int32_t i = 0; i < m->specs.n && made; i++) {
        spec *s = &m->specs.items[i];
        s->port = find_port(m, s->key);
        if (s->port != NULL)
            continue;
        s->port = add_port(m, s->key, n_values);
        s->hashes = CLEAVE_ARENA_ARRAY(&m->arena, uint64_t, n_values);
        made = s->port != NULL && s->hashes != NULL;
        is_new[i] = any = true;
    }
    cleave_status status = made ? CLEAVE_OK : cleave_fail_memory(error, "sharding tensors");
    if (made && any)
        status = make_ports(m, op, is_new, n_values, splits, error);
    free(is_new);
    if (status == CLEAVE_OK)
        status = gather_sets(m, ports, error);
    return status;
}
