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
