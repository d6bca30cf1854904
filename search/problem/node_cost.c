/* Prices come from the function that prices programs, so that a bound made of them holds to the
   picosecond. */
#include "search/problem/node_cost.h"

#include "base/list.h"
#include "base/random.h"

#include <stdlib.h>

struct cleave_node_costs {
    const cleave_model *model;
    const cleave_machine *machine;
    cleave_arena arena, scratch;          /* scratch is reset by every call */
    cleave_parts *parts;                  /* [n_nests] of the operator at hand */
    uint32_t *padded_axes;                /* [n_nests] cleave_nest_padded_axes */
    CLEAVE_LIST(cleave_compute) computes; /* that differ, of the operator at hand */
    cleave_cost_cache *cache;
};

cleave_status cleave_node_costs_create(const cleave_model *model, const cleave_machine *machine,
                                       cleave_node_costs **costs, cleave_error *error) {
    cleave_node_costs *result = calloc(1, sizeof *result);
    if (result == NULL)
        return cleave_fail_memory(error, "pricing operators");
    result->model = model;
    result->machine = machine;
    result->parts = CLEAVE_ARENA_ARRAY(&result->arena, cleave_parts, model->n_nests);
    result->padded_axes = CLEAVE_ARENA_ARRAY(&result->arena, uint32_t, model->n_nests);
    bool made = result->parts != NULL && result->padded_axes != NULL;
    cleave_status status = made ? cleave_cost_cache_create(model, machine, &result->cache, error)
                                : cleave_fail_memory(error, "pricing operators");
    if (status != CLEAVE_OK) {
        cleave_node_costs_destroy(result);
        return status;
    }
    for (int32_t n = 0; n < model->n_nests; n++)
        result->padded_axes[n] = cleave_nest_padded_axes(model, &model->nests[n]);
    *costs = result;
    return CLEAVE_OK;
}

void cleave_node_costs_destroy(cleave_node_costs *costs) {
    if (costs == NULL)
        return;
    cleave_arena_free(&costs->arena);
    cleave_arena_free(&costs->scratch);
    CLEAVE_LIST_FREE(&costs->computes);
    if (costs->cache != NULL)
        cleave_cost_cache_destroy(costs->cache);
    free(costs);
}

static bool has_pass(const cleave_model *model, const cleave_nest *nest, int pass) {
    if (pass == CLEAVE_PASS_FORWARD)
        return true;
    return cleave_model_trains(model) &&
           cleave_nest_pass_inputs(model, nest, (cleave_pass)pass) != 0;
}

/* Pieces of work that are priced together, and the part that each is of. */
typedef struct batch {
    int32_t n;
    int32_t *compute_of;     /* [n] among the computes that differ */
    int32_t *device, *place; /* [n] */
    int32_t n_buckets;       /* a power of two, more than a nest has parts */
    int32_t *bucket;         /* [n_buckets] the first pass of a part that differs; -1: none */
} batch;

static bool make_batch(cleave_arena *scratch, const cleave_operator *op, const cleave_parts *parts,
                       batch *b) {
    int32_t most = 0, longest = 0;
    for (int32_t i = 0; i < op->n_nests; i++) {
        int32_t n = parts[op->nests[i]].n;
        most += n * CLEAVE_N_COMPUTE_PASSES;
        longest = n > longest ? n : longest;
    }
    int32_t n_buckets = 2;
    while (n_buckets < 2 * longest)
        n_buckets *= 2;
    *b = (batch){.compute_of = CLEAVE_ARENA_ARRAY(scratch, int32_t, most),
                 .device = CLEAVE_ARENA_ARRAY(scratch, int32_t, most),
                 .place = CLEAVE_ARENA_ARRAY(scratch, int32_t, most),
                 .n_buckets = n_buckets,
                 .bucket = CLEAVE_ARENA_ARRAY(scratch, int32_t, n_buckets)};
    return b->compute_of != NULL && b->device != NULL && b->place != NULL && b->bucket != NULL;
}

/* The bucket of parts that work like one; empty where it is the first of them. */
static int32_t *find_bucket(const cleave_node_costs *costs, int32_t nest, const cleave_part *part,
                            const batch *b) {
    const cleave_nest *of = &costs->model->nests[nest];
    uint64_t hash = 0;
    for (int a = 0; a < of->n_axes; a++) {
        hash = cleave_hash_join(hash, (uint64_t)(part->hi[a] - part->lo[a]));
        if ((costs->padded_axes[nest] >> a & 1) != 0)
            hash = cleave_hash_join(hash, (uint64_t)part->lo[a]);
    }
    int32_t at = (int32_t)(hash & (uint64_t)(b->n_buckets - 1));
    while (b->bucket[at] >= 0 &&
           !cleave_parts_work_alike(of, costs->padded_axes[nest], part,
                                    &costs->computes.items[b->bucket[at]].part))
        at = (at + 1) & (b->n_buckets - 1);
    return &b->bucket[at];
}

/* Adds the passes of a nest, [CLEAVE_N_COMPUTE_PASSES]; the first place is that of its forward. */
static bool add_nest(cleave_node_costs *costs, int32_t nest, const bool *passes, int32_t place,
                     batch *b) {
    const cleave_parts *parts = &costs->parts[nest];
    for (int32_t i = 0; i < b->n_buckets; i++)
        b->bucket[i] = -1;
    for (int32_t p = 0; p < parts->n; p++) {
        const cleave_part *part = &parts->items[p];
        if (part->empty)
            continue;
        int32_t *bucket = find_bucket(costs, nest, part, b);
        bool is_new = *bucket < 0;
        int32_t compute = is_new ? costs->computes.n : *bucket;
        *bucket = compute;
        for (int pass = 0; pass < CLEAVE_N_COMPUTE_PASSES; pass++) {
            if (!passes[pass])
                continue;
            if (is_new &&
                !CLEAVE_LIST_PUSH(
                    &costs->computes,
                    (cleave_compute){.nest = nest, .pass = (cleave_pass)pass, .part = *part}))
                return false;
            b->compute_of[b->n] = compute++;
            b->device[b->n] = part->device;
            b->place[b->n++] = place + pass;
        }
    }
    return true;
}

/* The least price of each compute over the kinds of devices, [computes] picoseconds, by the
   function that prices programs. */
static cleave_status price_computes(cleave_node_costs *costs, int64_t **prices,
                                    cleave_error *error) {
    int32_t n = costs->computes.n;
    cleave_item *items = CLEAVE_ARENA_ARRAY(&costs->scratch, cleave_item, n);
    int64_t *least = CLEAVE_ARENA_ARRAY(&costs->scratch, int64_t, n);
    int64_t *of_kind = CLEAVE_ARENA_ARRAY(&costs->scratch, int64_t, n);
    if (items == NULL || least == NULL || of_kind == NULL)
        return cleave_fail_memory(error, "pricing operators");
    cleave_program program = {.model = costs->model,
                              .n_devices = costs->machine->n_devices,
                              .n_items = n,
                              .items = items,
                              .n_computes = n,
                              .computes = costs->computes.items};
    bool first = true;
    for (int32_t k = 0; k < costs->machine->n_kinds; k++) {
        int32_t device = 0;
        while (device < program.n_devices && costs->machine->device_kind[device] != k)
            device++;
        if (device == program.n_devices)
            continue;
        for (int32_t i = 0; i < n; i++) {
            items[i] = (cleave_item){.kind = CLEAVE_ITEM_COMPUTE, .device = device, .subject = i};
            costs->computes.items[i].part.device = device;
        }
        CLEAVE_TRY(cleave_cost_items(&program, costs->cache, of_kind, error));
        for (int32_t i = 0; i < n; i++)
            if (first || of_kind[i] < least[i])
                least[i] = of_kind[i];
        first = false;
    }
    *prices = least;
    return CLEAVE_OK;
}

static int32_t degree_of(const cleave_nest *nest, int axis, const cleave_split *split) {
    return nest->operator_axis[axis] < 0 ? 1 : split->degree[nest->operator_axis[axis]];
}

/* Of an output of so many dimensions those that a part's block along an axis decides, bit by bit.
 */
static uint32_t dimensions_of(const cleave_operand *output, int rank, int axis) {
    uint32_t dimensions = 0;
    for (int d = 0; d < rank; d++)
        for (int t = 0; t < output->map[d].n_terms; t++)
            if (output->map[d].terms[t].axis == axis)
                dimensions |= UINT32_C(1) << d;
    return dimensions;
}

/* How parts differ along an axis of an operator. */
typedef enum unlike {
    UNLIKE_NOT,
    UNLIKE_IN_SIZE, /* the first ones are longer by one than the others */
    UNLIKE_EACH
} unlike;

static void note(unlike *axis, unlike found) { *axis = found > *axis ? found : *axis; }

/* What owners of an output cut among them differs along axes that the output lacks, since those
   have it in common, and along those that decide where it lies, where that matters. */
static bool find_unlike_of_owners(const cleave_node_costs *costs, int32_t n,
                                  const cleave_split *split, unlike *axes) {
    const cleave_nest *owner = &costs->model->nests[costs->model->nests[n].owners_of];
    int rank = costs->model->tensors[owner->output.tensor].rank;
    if (owner->derivation != CLEAVE_DERIVE_OPERATOR)
        return false;
    for (int a = 0; a < owner->n_axes; a++) {
        uint32_t dimensions = dimensions_of(&owner->output, rank, a);
        if (degree_of(owner, a, split) > 1 &&
            (dimensions == 0 || (dimensions & costs->padded_axes[n]) != 0))
            note(&axes[owner->operator_axis[a]], UNLIKE_EACH);
    }
    return true;
}

/* How parts may differ along the axes of an operator, as far as can be told from the axes alone: by
   unequal blocks, or where it matters where they lie.  False where more may make them differ. */
static bool find_unlike(const cleave_node_costs *costs, int32_t op, const cleave_split *split,
                        unlike *axes) {
    const cleave_operator *of = &costs->model->operators[op];
    for (int32_t k = 0; k < of->n_nests; k++) {
        int32_t n = of->nests[k];
        const cleave_nest *nest = &costs->model->nests[n];
        bool derived = nest->derivation != CLEAVE_DERIVE_OPERATOR;
        if (derived && !find_unlike_of_owners(costs, n, split, axes))
            return false;
        for (int a = 0; a < nest->n_axes && !derived; a++) {
            int32_t degree = degree_of(nest, a, split);
            if (degree > 1 && (costs->padded_axes[n] >> a & 1) != 0)
                note(&axes[nest->operator_axis[a]], UNLIKE_EACH);
            else if (degree > 1 && nest->axes[a].extent % degree != 0)
                note(&axes[nest->operator_axis[a]], UNLIKE_IN_SIZE);
        }
    }
    return true;
}

/* Parts of a split of which each does as much as some others do. */
typedef struct cells {
    int32_t n;
    int32_t *numbers, *like; /* [n] ascending; so many do the same, it among them */
    int32_t n_times;         /* and so often all of that comes again */
} cells;

/* Blocks of an axis that are looked at, and how many are like each. */
typedef struct blocks {
    int32_t n, block[2], like[2]; /* of two; else all, each by itself */
} blocks;

static blocks blocks_of(unlike axis, int64_t extent, int32_t degree) {
    int32_t longer = (int32_t)(extent % degree);
    if (axis == UNLIKE_NOT)
        return (blocks){1, {0}, {degree}};
    if (axis == UNLIKE_IN_SIZE)
        return (blocks){2, {0, longer}, {longer, degree - longer}};
    return (blocks){.n = degree};
}

/* Makes of each cell one for each block of a further axis, innermost. */
static bool refine(cells *c, unlike axis, int64_t extent, int32_t degree, cleave_arena *scratch) {
    const blocks b = blocks_of(axis, extent, degree);
    cells made = {.numbers = CLEAVE_ARENA_ARRAY(scratch, int32_t, (int64_t)c->n * b.n),
                  .like = CLEAVE_ARENA_ARRAY(scratch, int32_t, (int64_t)c->n * b.n)};
    if (made.numbers == NULL || made.like == NULL)
        return false;
    for (int32_t i = 0; i < c->n; i++)
        for (int32_t k = 0; k < b.n; k++) {
            bool each = axis == UNLIKE_EACH;
            made.numbers[made.n] = c->numbers[i] * degree + (each ? k : b.block[k]);
            made.like[made.n++] = c->like[i] * (each ? 1 : b.like[k]);
        }
    *c = made;
    return true;
}

/* The cells that all others are like.  What lies outside of the outermost axis along which parts
   differ repeats what is within.  False where memory is short. */
static bool choose_cells(cleave_node_costs *costs, int32_t op, const cleave_split *split,
                         cells *chosen) {
    const cleave_operator *of = &costs->model->operators[op];
    unlike axes[CLEAVE_MAX_AXES] = {UNLIKE_NOT};
    int32_t n = 1, first = 0, alone = 1;
    int outermost = 0;
    bool known = find_unlike(costs, op, split, axes);
    while (outermost < of->n_axes && axes[outermost] == UNLIKE_NOT)
        outermost++;
    for (int a = outermost; a < of->n_axes; a++)
        n *= split->degree[a];
    cells c = {.n = 1, .numbers = &first, .like = &alone};
    if (!known || split->n_parts % n != 0) { /* of a window, which cuts through axes */
        if (!refine(&c, UNLIKE_EACH, 0, split->n_parts, &costs->scratch))
            return false;
        n = split->n_parts;
    } else {
        for (int a = outermost; a < of->n_axes; a++)
            if (!refine(&c, axes[a], of->axes[a].extent, split->degree[a], &costs->scratch))
                return false;
    }
    c.n_times = split->n_parts / n;
    *chosen = c;
    return true;
}

static cleave_status derive_parts(cleave_node_costs *costs, int32_t op, const cleave_split *split,
                                  const cells *of, cleave_error *error) {
    cleave_split some = *split;
    some.n_parts = of->n;
    some.devices = CLEAVE_ARENA_ARRAY(&costs->scratch, int32_t, of->n);
    if (some.devices == NULL)
        return cleave_fail_memory(error, "pricing operators");
    /* On devices 0, 1, ..., so that times can be added up per part. */
    for (int32_t c = 0; c < of->n; c++)
        some.devices[c] = c;
    return cleave_parts_derive_cells(costs->model, op, &some, of->numbers, &costs->scratch,
                                     costs->parts, error);
}

cleave_status cleave_node_cost_of(cleave_node_costs *costs, int32_t op, const cleave_split *split,
                                  cleave_node_cost *cost, int64_t *least, cleave_error *error) {
    const cleave_operator *of = &costs->model->operators[op];
    batch b;
    cells some;
    int64_t *prices = NULL;
    cleave_arena_reset(&costs->scratch);
    costs->computes.n = 0;
    if (!choose_cells(costs, op, split, &some))
        return cleave_fail_memory(error, "pricing operators");
    CLEAVE_TRY(derive_parts(costs, op, split, &some, error));
    int64_t *busy = CLEAVE_ARENA_ARRAY(&costs->scratch, int64_t, some.n);
    if (busy == NULL || !make_batch(&costs->scratch, of, costs->parts, &b))
        return cleave_fail_memory(error, "pricing operators");
    for (int32_t i = 0; i < of->n_nests; i++) {
        const cleave_nest *nest = &costs->model->nests[of->nests[i]];
        bool passes[CLEAVE_N_COMPUTE_PASSES];
        for (int pass = 0; pass < CLEAVE_N_COMPUTE_PASSES; pass++)
            passes[pass] = has_pass(costs->model, nest, pass);
        if (!add_nest(costs, of->nests[i], passes, i * CLEAVE_N_COMPUTE_PASSES, &b))
            return cleave_fail_memory(error, "pricing operators");
    }
    CLEAVE_TRY(price_computes(costs, &prices, error));
    cleave_node_cost result = {0};
    for (int32_t i = 0; i < b.n; i++) {
        int64_t price = prices[b.compute_of[i]];
        result.total += price * some.like[b.device[i]];
        busy[b.device[i]] += price;
        if (least != NULL && price < least[b.place[i]])
            least[b.place[i]] = price;
    }
    for (int32_t c = 0; c < some.n; c++)
        result.largest = busy[c] > result.largest ? busy[c] : result.largest;
    result.total *= some.n_times;
    *cost = result;
    return CLEAVE_OK;
}

cleave_status cleave_node_cost_whole(cleave_node_costs *costs, int32_t op, cleave_node_cost *cost,
                                     cleave_error *error) {
    int32_t device = 0;
    cleave_split whole = {.replicas = 1, .n_parts = 1, .devices = &device};
    for (int a = 0; a < CLEAVE_MAX_AXES; a++)
        whole.degree[a] = 1;
    return cleave_node_cost_of(costs, op, &whole, cost, NULL, error);
}
