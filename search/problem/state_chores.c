/* The least of chores.  Let one nest alone read a parameter that is trained, by a map that takes
   each element once from the axes that the operand has, and let the blocks of its other axes be K.
   Then each element has a gradient under K keys, on devices of their own, since a device has one
   part of an operator at most.  Whatever of the state is sharded, they come together by one
   movement, in which all these devices take part; and each packs all that it gives, or, where
   gradients are not sharded, puts that into a bucket, once a step or more often.  Parts give boxes
   that have every element of theirs, so under one key they give the whole tensor, or more.  As the
   price of a chore is a launch plus so much a byte, pieces together take no less than the whole.
   Replicas, and blocks of axes of other nests, only add. */
#include "search/problem/state_chores.h"

#include "graph/model/precision.h"

static cleave_state_chores price(const cleave_copy_price *price, const cleave_model *model,
                                 int32_t parameter, cleave_sharded sharded, double elements,
                                 double n_sharers, bool is_product) {
    const cleave_tensor *of = &model->tensors[parameter];
    cleave_type exact = cleave_exact_type(of);
    double stored = (double)cleave_stored_bytes(of), gradient = (double)cleave_type_bytes(exact);
    double sent = (double)cleave_type_bytes(cleave_reduce_type(model, parameter, exact));
    bool reduces = n_sharers > 1 && sharded >= CLEAVE_SHARDED_GRADIENT;
    double sum = 3 * elements * gradient / (reduces ? n_sharers : 1);
    const cleave_copy unpack = {.chore = CLEAVE_CHORE_UNPACK,
                                .chore_bytes = (int64_t)(2 * elements * stored)},
                      pack = {.chore = CLEAVE_CHORE_PACK,
                              .chore_bytes = (int64_t)(elements * (stored + sent))},
                      bucket = {.chore = CLEAVE_CHORE_BUCKET, .chore_bytes = pack.chore_bytes},
                      add = {.chore = CLEAVE_CHORE_ACCUMULATE,
                             .chore_bytes = (int64_t)(elements * gradient)};
    cleave_state_chores made = {0};
    if (n_sharers > 1 && sharded >= CLEAVE_SHARDED_WEIGHT)
        made.unpacking = cleave_cost_chore(price, &unpack);
    if (reduces)
        made.packing = cleave_cost_chore(price, &pack);
    else if (n_sharers > 1)
        made.bucketing = cleave_cost_chore(price, &bucket);
    made.adding = is_product && !reduces
                      ? cleave_cost_chore(price, &add)
                      : cleave_picoseconds(cleave_byte_price_seconds(&price->sum, 1, sum));
    return made;
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Is what an operator gives for a parameter that of a product? */
static bool multiplies(const cleave_model *model, int32_t op, int32_t parameter) {
    for (int32_t k = 0; k < model->operators[op].n_nests; k++) {
        const cleave_nest *nest = &model->nests[model->operators[op].nests[k]];
        for (int i = 0; i < nest->n_inputs && nest->kind == CLEAVE_NEST_PRODUCT; i++)
            if (cleave_tensor_sees(model, nest->inputs[i].tensor, parameter))
                return true;
    }
    return false;
}

cleave_state_chores cleave_state_chores_of(const cleave_machine *machine, const cleave_model *model,
                                           int32_t op, int32_t parameter, cleave_sharded sharded,
                                           double elements, double n_sharers) {
    bool is_product = multiplies(model, op, parameter);
    cleave_state_chores slowest = {0};
    sharded = cleave_sharded_as(&model->tensors[parameter], sharded);
    for (int32_t k = 0; k < machine->n_kinds; k++) {
        const cleave_copy_price of = cleave_copy_price_of(&machine->kinds[k]);
        cleave_state_chores made =
            price(&of, model, parameter, sharded, elements, n_sharers, is_product);
        slowest.unpacking = larger(slowest.unpacking, made.unpacking);
        slowest.packing = larger(slowest.packing, made.packing);
        slowest.adding = larger(slowest.adding, made.adding);
        slowest.bucketing = larger(slowest.bucketing, made.bucketing);
    }
    return slowest;
}

double cleave_state_chores_each(const cleave_state_chores *chores, int32_t micro_batches,
                                bool again) {
    return (double)chores->unpacking * (again ? 3 : 2) + (double)chores->packing +
           (double)chores->adding * (micro_batches - 1) / micro_batches;
}

/* ---- the least of them ----------------------------------------------------------------------- */

/* Prices round; launches of two picoseconds or more make up for that. */
static int64_t least_of_kind(const cleave_device_kind *kind, const cleave_model *model,
                             int32_t parameter) {
    const cleave_copy_price of = cleave_copy_price_of(kind);
    double elements = (double)cleave_tensor_size(&model->tensors[parameter]);
    cleave_state_chores sharded =
        price(&of, model, parameter, CLEAVE_SHARDED_GRADIENT, elements, 2, true);
    cleave_state_chores whole =
        price(&of, model, parameter, CLEAVE_SHARDED_NOTHING, elements, 2, true);
    if (of.dense.launch_seconds < 2e-12)
        return 0;
    return sharded.packing < whole.bucketing ? sharded.packing : whole.bucketing;
}

static int64_t least_of_kinds(const cleave_machine *machine, const cleave_model *model,
                              int32_t parameter) {
    int64_t least = INT64_MAX;
    for (int32_t k = 0; k < machine->n_kinds; k++) {
        int64_t of = least_of_kind(&machine->kinds[k], model, parameter);
        least = of < least ? of : least;
    }
    return least;
}

/* Does every element come once from the axes that a dimension has?  (Of two terms at most.) */
static bool is_filled(const cleave_nest *nest, const cleave_dimension_map *map, int64_t extent) {
    int64_t number = 1, last = map->offset;
    bool steps = extent == 1;
    for (int t = 0; t < map->n_terms; t++) {
        int64_t of_axis = nest->axes[map->terms[t].axis].extent;
        number *= of_axis;
        last += map->terms[t].stride * (of_axis - 1);
        steps = steps || map->terms[t].stride == 1;
    }
    return map->offset == 0 && steps && number == extent && last == extent - 1;
}

/* And no axis is in two dimensions, or two of one axis of the operator.  (Parts of attention may
   have nothing to do.) */
static bool takes_each_once(const cleave_model *model, const cleave_nest *nest, int input) {
    const cleave_operand *operand = &nest->inputs[input];
    const cleave_tensor *tensor = &model->tensors[operand->tensor];
    int times[CLEAVE_MAX_AXES] = {0};
    uint64_t of_operator = 0;
    bool once = nest->derivation == CLEAVE_DERIVE_OPERATOR && nest->attention == NULL;
    for (int i = 0; i < nest->n_axes && once; i++) {
        int a = nest->operator_axis[i];
        once = a < 0 || (of_operator >> a & 1) == 0;
        of_operator |= a < 0 ? 0 : UINT64_C(1) << a;
    }
    for (int d = 0; d < tensor->rank && once; d++) {
        once = is_filled(nest, &operand->map[d], tensor->shape[d]);
        for (int t = 0; t < operand->map[d].n_terms && once; t++)
            once = times[operand->map[d].terms[t].axis]++ == 0;
    }
    return once;
}

/* Does a nest give a gradient of a parameter that is no view? */
static bool gives_own(const cleave_model *model, const cleave_nest *nest, int input) {
    const cleave_tensor *of = &model->tensors[nest->inputs[input].tensor];
    uint32_t gives = cleave_nest_pass_inputs(model, nest, CLEAVE_PASS_INPUT_GRADIENT) |
                     cleave_nest_pass_inputs(model, nest, CLEAVE_PASS_WEIGHT_GRADIENT);
    return nest->differentiable && of->kind == CLEAVE_TENSOR_PARAMETER && of->needs_gradient &&
           of->view.kind == CLEAVE_VIEW_NONE && (gives >> input & 1) != 0 &&
           takes_each_once(model, nest, input);
}

static void count_reader(const cleave_model *model, int32_t tensor, int32_t *n_readers) {
    n_readers[tensor]++;
    for (int32_t s = 0; s < model->tensors[tensor].view.n_sources; s++)
        count_reader(model, model->tensors[tensor].view.sources[s], n_readers);
}

cleave_status cleave_least_chores_find(const cleave_model *model, const cleave_machine *machine,
                                       cleave_arena *arena, cleave_least_chores *chores,
                                       cleave_error *error) {
    int32_t *n_readers = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    int64_t(*each)[CLEAVE_MAX_INPUTS] =
        cleave_arena_alloc(arena, (size_t)model->n_nests, sizeof *each);
    if (n_readers == NULL || each == NULL)
        return cleave_fail_memory(error, "pricing operators");
    for (int32_t n = 0; n < model->n_nests; n++)
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            count_reader(model, model->nests[n].inputs[i].tensor, n_readers);
    for (int32_t n = 0; n < model->n_nests && cleave_model_trains(model); n++)
        for (int i = 0; i < model->nests[n].n_inputs; i++) {
            int32_t t = model->nests[n].inputs[i].tensor;
            if (n_readers[t] == 1 && gives_own(model, &model->nests[n], i))
                each[n][i] = least_of_kinds(machine, model, t);
        }
    chores->each = each;
    return CLEAVE_OK;
}

/* Blocks, none of them empty, of the axes that the operand lacks. */
static int64_t count_keys(const cleave_nest *nest, int input, int rank, const cleave_split *split) {
    int64_t keys = 1;
    for (int i = 0; i < nest->n_axes; i++) {
        int a = nest->operator_axis[i];
        if (a >= 0 && !cleave_operand_maps_axis(&nest->inputs[input], rank, i))
            keys *=
                split->degree[a] < nest->axes[i].extent ? split->degree[a] : nest->axes[i].extent;
    }
    return keys;
}

int64_t cleave_least_chores_of(const cleave_model *model, const cleave_least_chores *chores,
                               int32_t op, const cleave_split *split) {
    const cleave_operator *of = &model->operators[op];
    int64_t sum = 0;
    for (int32_t k = 0; k < of->n_nests; k++) {
        const cleave_nest *nest = &model->nests[of->nests[k]];
        for (int i = 0; i < nest->n_inputs; i++) {
            int64_t each = chores->each[of->nests[k]][i];
            int64_t keys =
                each == 0 ? 1
                          : count_keys(nest, i, model->tensors[nest->inputs[i].tensor].rank, split);
            sum += keys > 1 ? keys * each : 0;
        }
    }
    return sum;
}
