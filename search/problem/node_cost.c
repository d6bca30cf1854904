/* Prices come from the function that prices programs, so that a bound made of them holds to the
   picosecond. */
#include "search/problem/node_cost.h"

#include "base/list.h"

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
} batch;

static bool make_batch(cleave_arena *scratch, const cleave_operator *op, const cleave_parts *parts,
                       batch *b) {
    int32_t most = 0;
    for (int32_t i = 0; i < op->n_nests; i++)
        most += parts[op->nests[i]].n * CLEAVE_N_COMPUTE_PASSES;
    *b = (batch){.compute_of = CLEAVE_ARENA_ARRAY(scratch, int32_t, most),
                 .device = CLEAVE_ARENA_ARRAY(scratch, int32_t, most),
                 .place = CLEAVE_ARENA_ARRAY(scratch, int32_t, most)};
    return b->compute_of != NULL && b->device != NULL && b->place != NULL;
}

/* Adds one pass of one nest.  Parts mostly do equal work, neighbours first. */
static bool add_pass(cleave_node_costs *costs, int32_t nest, cleave_pass pass, int32_t place,
                     const cleave_parts *parts, batch *b) {
    const cleave_nest *of = &costs->model->nests[nest];
    int32_t first = costs->computes.n;
    for (int32_t p = 0; p < parts->n; p++) {
        const cleave_part *part = &parts->items[p];
        if (part->empty)
            continue;
        int32_t like = costs->computes.n - 1;
        while (like >= first && !cleave_parts_work_alike(of, costs->padded_axes[nest], part,
                                                         &costs->computes.items[like].part))
            like--;
        if (like < first) {
            like = costs->computes.n;
            if (!CLEAVE_LIST_PUSH(&costs->computes,
                                  (cleave_compute){.nest = nest, .pass = pass, .part = *part}))
                return false;
        }
        b->compute_of[b->n] = like;
        b->device[b->n] = part->device;
        b->place[b->n++] = place;
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

/* What owners of an output cut among them differs along axes that the output lacks, since those
   have it in common, and along those that decide where it lies, where that matters. */
static bool find_unlike_of_owners(const cleave_node_costs *costs, int32_t n,
                                  const cleave_split *split, bool *unlike) {
    const cleave_nest *owner = &costs->model->nests[costs->model->nests[n].owners_of];
    int rank = costs->model->tensors[owner->output.tensor].rank;
    if (owner->derivation != CLEAVE_DERIVE_OPERATOR)
        return false;
    for (int a = 0; a < owner->n_axes; a++) {
        uint32_t dimensions = dimensions_of(&owner->output, rank, a);
        if (degree_of(owner, a, split) > 1 &&
            (dimensions == 0 || (dimensions & costs->padded_axes[n]) != 0))
            unlike[owner->operator_axis[a]] = true;
    }
    return true;
}

/* The axes of an operator along which parts may differ, as far as can be told from the axes alone:
   those of unequal blocks, or where it matters where they lie.  False where more may make them
   differ. */
static bool find_unlike(const cleave_node_costs *costs, int32_t op, const cleave_split *split,
                        bool *unlike) {
    const cleave_operator *of = &costs->model->operators[op];
    for (int32_t k = 0; k < of->n_nests; k++) {
        int32_t n = of->nests[k];
        const cleave_nest *nest = &costs->model->nests[n];
        bool derived = nest->derivation != CLEAVE_DERIVE_OPERATOR;
        if (derived && !find_unlike_of_owners(costs, n, split, unlike))
            return false;
        for (int a = 0; a < nest->n_axes && !derived; a++) {
            int32_t degree = degree_of(nest, a, split);
            if (degree > 1 &&
                (nest->axes[a].extent % degree != 0 || (costs->padded_axes[n] >> a & 1) != 0))
                unlike[nest->operator_axis[a]] = true;
        }
    }
    return true;
}

/* So many parts, the first ones, does what all others do the same as: what lies outside of the
   outermost axis along which they differ repeats them. */
static int32_t count_unlike(const cleave_node_costs *costs, int32_t op, const cleave_split *split) {
    bool unlike[CLEAVE_MAX_AXES] = {false};
    int32_t n = 1;
    int outermost = 0, n_axes = costs->model->operators[op].n_axes;
    if (!find_unlike(costs, op, split, unlike))
        return split->n_parts;
    while (outermost < n_axes && !unlike[outermost])
        outermost++;
    for (int a = outermost; a < n_axes; a++)
        n *= split->degree[a];
    return split->n_parts % n == 0 ? n : split->n_parts; /* of a window, which cuts through axes */
}

static cleave_status derive_parts(cleave_node_costs *costs, int32_t op, const cleave_split *split,
                                  cleave_error *error) {
    cleave_split there = *split;
    there.devices = CLEAVE_ARENA_ARRAY(&costs->scratch, int32_t, split->n_parts);
    if (there.devices == NULL)
        return cleave_fail_memory(error, "pricing operators");
    /* On devices 0, 1, ..., so that times can be added up per part. */
    for (int32_t p = 0; p < split->n_parts; p++)
        there.devices[p] = p;
    return cleave_parts_derive_operator(costs->model, op, &there, NULL, &costs->scratch,
                                        costs->parts, error);
}

cleave_status cleave_node_cost_of(cleave_node_costs *costs, int32_t op, const cleave_split *whole,
                                  cleave_node_cost *cost, int64_t *least, cleave_error *error) {
    const cleave_operator *of = &costs->model->operators[op];
    cleave_split some = *whole, *split = &some; /* those that all others are like */
    some.n_parts = count_unlike(costs, op, whole);
    batch b;
    int64_t *prices = NULL;
    cleave_arena_reset(&costs->scratch);
    costs->computes.n = 0;
    CLEAVE_TRY(derive_parts(costs, op, split, error));
    int64_t *busy = CLEAVE_ARENA_ARRAY(&costs->scratch, int64_t, split->n_parts);
    if (busy == NULL || !make_batch(&costs->scratch, of, costs->parts, &b))
        return cleave_fail_memory(error, "pricing operators");
    for (int32_t i = 0; i < of->n_nests; i++)
        for (int pass = 0; pass < CLEAVE_N_COMPUTE_PASSES; pass++)
            if (has_pass(costs->model, &costs->model->nests[of->nests[i]], pass) &&
                !add_pass(costs, of->nests[i], (cleave_pass)pass,
                          i * CLEAVE_N_COMPUTE_PASSES + pass, &costs->parts[of->nests[i]], &b))
                return cleave_fail_memory(error, "pricing operators");
    CLEAVE_TRY(price_computes(costs, &prices, error));
    cleave_node_cost result = {0};
    for (int32_t i = 0; i < b.n; i++) {
        int64_t price = prices[b.compute_of[i]];
        result.total += price;
        busy[b.device[i]] += price;
        if (least != NULL && price < least[b.place[i]])
            least[b.place[i]] = price;
    }
    for (int32_t p = 0; p < split->n_parts; p++)
        result.largest = busy[p] > result.largest ? busy[p] : result.largest;
    result.total *= whole->n_parts / split->n_parts;
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
