/* Elements of an axis in another order, some of them perhaps never, some more than once.

   What comes in a few ascending runs is slices one after the other, and costs nothing; what jumps
   about is looked up by constant ids. */
#include "graph/import/operators/movement.h"

#include <string.h>

enum { MOST_RUNS = 16 };

/* Length and step of the ascending run that starts at ids[0]. */
static int64_t run_of(int64_t n, const int64_t *ids, int64_t *step) {
    int64_t length = 1;
    *step = n > 1 && ids[1] > ids[0] ? ids[1] - ids[0] : 1;
    while (length < n && ids[length] == ids[0] + length * *step)
        length++;
    return length;
}

static int64_t count_runs(int64_t n, const int64_t *ids) {
    int64_t runs = 0, step;
    for (int64_t at = 0; at < n; at += run_of(n - at, ids + at, &step))
        runs++;
    return runs;
}

static cleave_status take_runs(cleave_importer *im, int32_t source, int axis, int64_t n,
                               const int64_t *ids, int32_t *result) {
    int32_t parts[MOST_RUNS];
    int n_parts = 0;
    for (int64_t at = 0, length; at < n; at += length) {
        int64_t step;
        length = run_of(n - at, ids + at, &step);
        const char *name =
            cleave_arena_printf(im->arena, "%s.part%d", im->node->outputs[0], n_parts);
        if (name == NULL)
            return cleave_import_no_memory(im);
        CLEAVE_TRY(cleave_import_slice_axis(im, name, source, axis, ids[at], step, length,
                                            &parts[n_parts++]));
    }
    const char *name = cleave_arena_printf(im->arena, "%s.taken", im->node->outputs[0]);
    if (name == NULL)
        return cleave_import_no_memory(im);
    return cleave_import_join(im, name, n_parts, parts, axis, result);
}

static cleave_status ids_tensor(cleave_importer *im, int64_t n, const int64_t *ids,
                                int32_t *tensor) {
    const char *name = cleave_arena_printf(im->arena, "%s.ids", im->node->outputs[0]);
    CLEAVE_TRY(cleave_import_spend(im, n, 1));
    int64_t *kept = CLEAVE_ARENA_ARRAY(im->arena, int64_t, n);
    if (name == NULL || kept == NULL)
        return cleave_import_no_memory(im);
    memcpy(kept, ids, (size_t)n * sizeof *kept);
    return cleave_import_constant_ids(im, name, 1, &n, kept, tensor);
}

cleave_status cleave_import_constant_ids(cleave_importer *im, const char *name, int rank,
                                         const int64_t *shape, const int64_t *ids,
                                         int32_t *tensor) {
    CLEAVE_TRY(
        cleave_import_new_tensor(im, (cleave_new_tensor){name, -1, "", rank, shape, -1}, tensor));
    cleave_tensor *made = &im->tensors.items[*tensor].tensor;
    made->kind = CLEAVE_TENSOR_CONSTANT;
    made->type = CLEAVE_I64;
    made->value = ids;
    return CLEAVE_OK;
}

cleave_status cleave_import_take(cleave_importer *im, int32_t source, int axis, int64_t n,
                                 const int64_t *ids, int32_t *result) {
    int32_t tensor;
    if (n == 0)
        return cleave_import_fail(im, "selects no element, which is not supported");
    if (count_runs(n, ids) <= MOST_RUNS)
        return take_runs(im, source, axis, n, ids, result);
    CLEAVE_TRY(ids_tensor(im, n, ids, &tensor));
    return cleave_import_look_up_axis(im, NULL, tensor, source, axis, result);
}

cleave_status cleave_import_check_ids(cleave_importer *im, int i, int64_t extent) {
    const cleave_onnx_tensor *ids = cleave_import_constant(im, i);
    for (int64_t k = 0; ids != NULL && ids->integers != NULL && k < ids->n; k++)
        if (ids->integers[k] < -extent || ids->integers[k] >= extent)
            return cleave_import_fail(im, "index %lld is outside the %lld elements of its axis",
                                      (long long)ids->integers[k], (long long)extent);
    return CLEAVE_OK;
}

cleave_status cleave_import_deliver(cleave_importer *im, int32_t tensor, int rank,
                                    const int64_t *shape, int32_t from) {
    int32_t result;
    const char *name = im->node->outputs[0];
    bool shared = cleave_import_is_shared(im, 0);
    CLEAVE_TRY(cleave_import_reshape(im, name, tensor, rank, shape, &result));
    const cleave_draft_tensor *made = &im->tensors.items[tensor];
    bool is_new = made->op >= 0 ? im->operators.items[made->op].main == im->node
                                : made->tensor.view.kind != CLEAVE_VIEW_NONE;
    if (result == tensor && tensor != from && is_new)
        im->tensors.items[tensor].tensor.name = name;
    cleave_import_set_output(im, 0, result, shared);
    return CLEAVE_OK;
}
