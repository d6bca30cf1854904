/* Expand and Tile: elements more than once. */
#include "graph/import/operators/movement.h"

#include <string.h>

/* A dimension of 1 becomes any; a copy, which what follows may join.  `original`: input 0. */
static cleave_status expand(cleave_importer *im, int32_t source, int rank, const int64_t *shape,
                            int32_t original) {
    cleave_tensor from = im->tensors.items[source].tensor;
    cleave_nest nest;
    bool grows = false;
    for (int d = 0; d < rank; d++)
        grows = grows || shape[d] != (d < rank - from.rank ? 1 : from.shape[d - rank + from.rank]);
    if (!grows)
        return cleave_import_deliver(im, source, rank, shape, original);
    CLEAVE_TRY(cleave_import_begin_pointwise(im, im->node->outputs[0], rank, shape, source, &nest));
    cleave_nest_add_input(&nest, source);
    cleave_map_broadcast(&nest.inputs[0], &from, rank, shape);
    cleave_nest_emit(&nest, CLEAVE_OP_COPY, 0, 0, 0, 0);
    CLEAVE_TRY(cleave_import_end_pointwise(im, &nest));
    cleave_import_set_output(im, 0, nest.output.tensor, false);
    return CLEAVE_OK;
}

cleave_status cleave_import_expand(cleave_importer *im) {
    int64_t list[2 * CLEAVE_MAX_RANK], shape[2 * CLEAVE_MAX_RANK];
    int32_t source;
    int n;
    CLEAVE_TRY(cleave_import_list(im, "shape", 1, &n, list));
    CLEAVE_TRY(cleave_import_tensor(im, 0, &source));
    cleave_tensor from = im->tensors.items[source].tensor;
    int rank = n > from.rank ? n : from.rank;
    for (int d = 0; d < rank; d++) {
        int64_t have = d < rank - from.rank ? 1 : from.shape[d - rank + from.rank];
        int64_t want = d < rank - n ? 1 : list[d - rank + n];
        if (have != 1 && want != 1 && have != want)
            return cleave_import_fail(im, "dimension %d of %lld can't be expanded to %lld", d,
                                      (long long)have, (long long)want);
        shape[d] = want == 1 ? have : want;
    }
    return expand(im, source, rank, shape, source);
}

/* Dimensions of 1 are expanded; the others are taken several times. */
cleave_status cleave_import_tile(cleave_importer *im) {
    int64_t repeats[2 * CLEAVE_MAX_RANK], shape[CLEAVE_MAX_RANK] = {0};
    int32_t source, original;
    int n;
    CLEAVE_TRY(cleave_import_list(im, "repeats", 1, &n, repeats));
    CLEAVE_TRY(cleave_import_tensor(im, 0, &source));
    original = source;
    int rank = im->tensors.items[source].tensor.rank;
    if (n != rank)
        return cleave_import_fail(im, "has %d repeats for %d dimensions", n, rank);
    for (int d = 0; d < rank; d++) {
        int64_t extent = im->tensors.items[source].tensor.shape[d];
        if (repeats[d] < 1 || repeats[d] > INT64_C(1) << 24 ||
            extent > (INT64_C(1) << 24) / repeats[d])
            return cleave_import_fail(im, "dimension %d of %lld can't be repeated %lld times", d,
                                      (long long)extent, (long long)repeats[d]);
        int64_t length = shape[d] = extent * repeats[d];
        if (repeats[d] == 1 || extent == 1)
            continue;
        CLEAVE_TRY(cleave_import_spend(im, length, 1));
        int64_t *ids = CLEAVE_ARENA_ARRAY(&im->scratch, int64_t, length);
        if (ids == NULL)
            return cleave_import_no_memory(im);
        for (int64_t i = 0; i < length; i++)
            ids[i] = i % extent;
        CLEAVE_TRY(cleave_import_take(im, source, d, length, ids, &source));
    }
    return expand(im, source, rank, shape, original);
}
