/* Pulls the ids of every look-up back to the data that they are views of. */
#include "exec/data/id_range.h"

#include "graph/model/gather.h"
#include "graph/model/view.h"

#include <string.h>

/* Everything in the box lies below `extent`. */
static void bound_box(const cleave_tensor *tensor, const cleave_box *box, int64_t extent,
                      int64_t *above) {
    int64_t size = cleave_box_size(tensor->rank, box);
    for (int64_t i = 0; i < size; i++) {
        int64_t at = 0, rest = i, stride = 1;
        for (int d = tensor->rank - 1; d >= 0; d--) {
            int64_t n = box->hi[d] - box->lo[d];
            at += (box->lo[d] + rest % n) * stride;
            rest /= n;
            stride *= tensor->shape[d];
        }
        if (above[at] > extent)
            above[at] = extent;
    }
}

static cleave_box whole_box(const cleave_tensor *tensor) {
    cleave_box box = {0};
    memcpy(box.hi, tensor->shape, sizeof box.hi);
    return box;
}

static cleave_status bound_by_tables(const cleave_model *model, int32_t tensor, int64_t *above,
                                     bool *found, cleave_error *error) {
    cleave_piece_list pieces = {0};
    cleave_status status = CLEAVE_OK;
    for (int32_t n = 0; n < model->n_nests && status == CLEAVE_OK; n++) {
        const cleave_nest *nest = &model->nests[n];
        if (nest->kind != CLEAVE_NEST_GATHER)
            continue;
        int32_t ids = nest->inputs[0].tensor;
        cleave_box box = whole_box(&model->tensors[ids]);
        pieces.n = 0;
        status = cleave_view_pull(model, ids, &box, &pieces, error);
        for (int32_t p = 0; p < pieces.n && status == CLEAVE_OK; p++)
            if (pieces.items[p].tensor == tensor) {
                bound_box(&model->tensors[tensor], &pieces.items[p].box,
                          nest->axes[cleave_gather_axis(nest)].extent, above);
                *found = true;
            }
    }
    CLEAVE_LIST_FREE(&pieces);
    return status;
}

cleave_status cleave_id_range_find(const cleave_model *model, int32_t tensor, cleave_arena *arena,
                                   cleave_id_range *range, cleave_error *error) {
    const cleave_tensor *of = &model->tensors[tensor];
    cleave_id_range result = {.n = cleave_tensor_size(of)};
    int64_t *above = CLEAVE_ARENA_ARRAY(arena, int64_t, result.n);
    if (above == NULL)
        return cleave_fail_memory(error, "checking data");
    for (int64_t i = 0; i < result.n; i++)
        above[i] = INT64_MAX;
    CLEAVE_TRY(bound_by_tables(model, tensor, above, &result.from_end, error));
    if (!result.from_end && of->below > 0) {
        cleave_box box = whole_box(of);
        bound_box(of, &box, of->below, above);
    }
    result.above = above;
    *range = result;
    return CLEAVE_OK;
}

cleave_status cleave_id_range_check(const cleave_id_range *range, int64_t also, const char *path,
                                    const char *name, int64_t first, int64_t n,
                                    const int64_t *values, cleave_error *error) {
    for (int64_t i = 0; i < n; i++) {
        int64_t above = range->above[(first + i) % range->n];
        bool is_id = above < INT64_MAX;
        int64_t most = is_id ? above - 1 : CLEAVE_MOST_EXACT_INTEGER;
        int64_t least = !is_id ? -CLEAVE_MOST_EXACT_INTEGER : range->from_end ? -above : 0;
        if ((values[i] < least || values[i] > most) && (also == 0 || values[i] != also))
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "%s: element %lld of %s is %lld, not in %lld..%lld%s", path,
                               (long long)(first + i), name, (long long)values[i], (long long)least,
                               (long long)most, is_id ? "" : ", where f32 holds every integer");
    }
    return CLEAVE_OK;
}
