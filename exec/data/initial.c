/* Counter-based values for any box of a tensor. */
#include "exec/data/initial.h"

#include <math.h>

static uint64_t data_key(uint64_t seed, int64_t step, const char *name) {
    return cleave_hash_join(cleave_hash_join(seed, (uint64_t)step),
                            cleave_hash_join(cleave_hash_string("data"), cleave_hash_string(name)));
}

static uint64_t parameter_key(uint64_t seed, const char *name) {
    return cleave_hash_join(
        seed, cleave_hash_join(cleave_hash_string("parameter"), cleave_hash_string(name)));
}

/* Box and Muller's transform of two uniforms; 1 - u is in (0, 1]. */
float cleave_initial_normal(uint64_t key, int64_t index) {
    double u = cleave_random_uniform(key, 2 * (uint64_t)index);
    double v = cleave_random_uniform(key, 2 * (uint64_t)index + 1);
    return (float)(sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v));
}

int64_t cleave_initial_id(uint64_t key, int64_t index, int64_t below) {
    if (below < 1)
        return 0;
    uint64_t word = cleave_hash_join(key, (uint64_t)index);
    return (int64_t)(((unsigned __int128)word * (unsigned __int128)below) >> 64);
}

typedef enum source { FROM_VALUE, FROM_UNIFORM, FROM_CONSTANT, FROM_NORMAL, FROM_IDS } source;

typedef struct filler {
    const cleave_tensor *tensor;
    source from;
    uint64_t key;
    double bound;
} filler;

static float float_at(const filler *fill, int64_t index) {
    switch (fill->from) {
    case FROM_VALUE:
        return ((const float *)fill->tensor->value)[index];
    case FROM_UNIFORM:
        return (float)(fill->bound * (2 * cleave_random_uniform(fill->key, (uint64_t)index) - 1));
    case FROM_NORMAL:
        return cleave_initial_normal(fill->key, index);
    default:
        return fill->tensor->initial_value;
    }
}

static int64_t integer_at(const filler *fill, int64_t index) {
    switch (fill->from) {
    case FROM_VALUE:
        return ((const int64_t *)fill->tensor->value)[index];
    case FROM_IDS:
        return cleave_initial_id(fill->key, index, fill->tensor->below);
    default:
        return (int64_t)fill->tensor->initial_value;
    }
}

/* Walks the box in memory order, and keeps the logical index of the element it is at. */
static void fill_box(const filler *fill, const cleave_box *box, void *data) {
    const cleave_tensor *tensor = fill->tensor;
    int rank = tensor->rank;
    int64_t logical[CLEAVE_MAX_RANK], at[CLEAVE_MAX_RANK];
    int64_t stride = 1, index = 0;
    for (int d = rank - 1; d >= 0; d--) {
        logical[d] = stride;
        stride *= tensor->shape[d];
        at[d] = box->lo[d];
        index += logical[d] * at[d];
    }
    int64_t n = cleave_box_size(rank, box);
    for (int64_t i = 0; i < n; i++) {
        if (tensor->type == CLEAVE_I64)
            ((int64_t *)data)[i] = integer_at(fill, index);
        else
            ((float *)data)[i] = float_at(fill, index);
        for (int o = rank - 1; o >= 0; o--) {
            int d = tensor->order[o];
            index += logical[d];
            if (++at[d] < box->hi[d])
                break;
            index -= logical[d] * (box->hi[d] - box->lo[d]);
            at[d] = box->lo[d];
        }
    }
}

void cleave_initial_fill(const cleave_tensor *tensor, uint64_t seed, const cleave_box *box,
                         void *data) {
    filler fill = {.tensor = tensor, .from = FROM_CONSTANT};
    if (tensor->value != NULL) {
        fill.from = FROM_VALUE;
    } else if (tensor->kind == CLEAVE_TENSOR_PARAMETER && tensor->fan_in > 0) {
        fill.from = FROM_UNIFORM;
        fill.key = parameter_key(seed, tensor->name);
        fill.bound = 1 / sqrt((double)tensor->fan_in);
    }
    fill_box(&fill, box, data);
}

void cleave_initial_fill_data(const cleave_tensor *tensor, uint64_t seed, int64_t step,
                              const cleave_box *box, void *data) {
    filler fill = {.tensor = tensor,
                   .from = tensor->value != NULL        ? FROM_VALUE
                           : tensor->type == CLEAVE_I64 ? FROM_IDS
                           : tensor->initial_value != 0 ? FROM_CONSTANT
                                                        : FROM_NORMAL,
                   .key = data_key(seed, step, tensor->name)};
    fill_box(&fill, box, data);
}
