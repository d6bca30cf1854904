/* Pad: a view where the padding is constant, else the elements that it repeats.  Negative amounts
   cut off. */
#include "graph/import/operators/movement.h"

#include <string.h>

/* Amounts before ([0, rank)) and after ([rank, 2 rank)) every dimension. */
static cleave_status pad_amounts(cleave_importer *im, int rank, const int64_t *shape,
                                 int64_t *pads) {
    const int64_t most = INT64_C(1) << 40;
    int64_t list[2 * CLEAVE_MAX_RANK], axes[2 * CLEAVE_MAX_RANK];
    int n, n_axes = -1;
    CLEAVE_TRY(cleave_import_list(im, "pads", 1, &n, list));
    if (cleave_import_has_input(im, 3))
        CLEAVE_TRY(cleave_import_list(im, "axes", 3, &n_axes, axes));
    int along = n_axes >= 0 ? n_axes : rank;
    if (n != 2 * along)
        return cleave_import_fail(im, "attribute pads has %d values, %d are needed", n, 2 * along);
    for (int i = 0; i < 2 * rank; i++)
        pads[i] = 0;
    for (int i = 0; i < along; i++) {
        int axis = i;
        if (n_axes >= 0)
            CLEAVE_TRY(cleave_import_axis(im, axes[i], rank, &axis));
        int64_t before = list[i], after = list[along + i];
        if (before < -most || before > most || after < -most || after > most ||
            shape[axis] + before + after < 1)
            return cleave_import_fail(im, "pads %lld and %lld do not fit dimension %d of %lld",
                                      (long long)before, (long long)after, axis,
                                      (long long)shape[axis]);
        pads[axis] = before;
        pads[rank + axis] = after;
    }
    return CLEAVE_OK;
}

/* Cuts off what is negative. */
static cleave_status cut(cleave_importer *im, int rank, int64_t *pads, int32_t *source) {
    for (int d = 0; d < rank; d++) {
        int64_t before = pads[d] < 0 ? -pads[d] : 0;
        int64_t after = pads[rank + d] < 0 ? -pads[rank + d] : 0;
        int64_t extent = im->tensors.items[*source].tensor.shape[d] - before - after;
        const char *name = cleave_arena_printf(im->arena, "%s.cut", im->node->outputs[0]);
        if (before + after == 0)
            continue;
        if (name == NULL)
            return cleave_import_no_memory(im);
        if (extent < 1)
            return cleave_import_fail(im, "cuts all of dimension %d off", d);
        CLEAVE_TRY(cleave_import_range(im, name, *source, d, before, extent, source));
        pads[d] += before;
        pads[rank + d] += after;
    }
    return CLEAVE_OK;
}

static cleave_status pad_constant(cleave_importer *im, int32_t source, int64_t *pads) {
    double fill;
    int32_t result;
    CLEAVE_TRY(cleave_import_number(im, "value", 0, &fill));
    CLEAVE_TRY(cleave_import_scalar(im, 2, fill, &fill));
    int rank = im->tensors.items[source].tensor.rank;
    CLEAVE_TRY(cut(im, rank, pads, &source));
    CLEAVE_TRY(cleave_import_settle_padding(im, &source, (float)fill));
    cleave_tensor from = im->tensors.items[source].tensor;
    for (int d = 0; d < rank; d++)
        from.shape[d] += pads[d] + pads[rank + d];
    CLEAVE_TRY(cleave_import_pad_to(im, im->node->outputs[0], source, pads, from.shape, (float)fill,
                                    &result));
    cleave_import_set_output(im, 0, result, false);
    return CLEAVE_OK;
}

typedef enum mode { MODE_CONSTANT, MODE_REFLECT, MODE_EDGE, MODE_WRAP, N_MODES } mode;
static const char *const mode_names[N_MODES] = {"constant", "reflect", "edge", "wrap"};

/* What element stands at position p, which may lie outside. */
static int64_t element_at(mode how, int64_t p, int64_t extent) {
    int64_t period = 2 * extent - 2;
    switch (how) {
    case MODE_REFLECT:
        p = extent == 1 ? 0 : (p % period + period) % period;
        return p < extent ? p : period - p;
    case MODE_EDGE:
        return p < 0 ? 0 : p >= extent ? extent - 1 : p;
    default:
        return (p % extent + extent) % extent;
    }
}

static cleave_status pad_repeating(cleave_importer *im, mode how, int32_t source,
                                   const int64_t *pads) {
    int32_t from = source;
    int rank = im->tensors.items[source].tensor.rank;
    for (int d = 0; d < rank; d++) {
        int64_t extent = im->tensors.items[source].tensor.shape[d];
        int64_t n = extent + pads[d] + pads[rank + d];
        if (pads[d] == 0 && pads[rank + d] == 0)
            continue;
        CLEAVE_TRY(cleave_import_spend(im, n, 1));
        int64_t *ids = n <= INT64_C(1) << 24 ? CLEAVE_ARENA_ARRAY(&im->scratch, int64_t, n) : NULL;
        if (ids == NULL)
            return cleave_import_fail(im, "dimension %d becomes too long, %lld", d, (long long)n);
        for (int64_t i = 0; i < n; i++)
            ids[i] = element_at(how, i - pads[d], extent);
        CLEAVE_TRY(cleave_import_take(im, source, d, n, ids, &source));
    }
    cleave_tensor padded = im->tensors.items[source].tensor;
    return cleave_import_deliver(im, source, rank, padded.shape, from);
}

cleave_status cleave_import_pad(cleave_importer *im) {
    const char *name;
    int32_t source;
    int how = 0;
    int64_t pads[2 * CLEAVE_MAX_RANK];
    CLEAVE_TRY(cleave_import_string(im, "mode", "constant", &name));
    while (how < N_MODES && strcmp(name, mode_names[how]) != 0)
        how++;
    if (how == N_MODES)
        return cleave_import_fail(
            im, "attribute mode is %s, supported are constant, reflect, edge and wrap", name);
    CLEAVE_TRY(cleave_import_value_tensor(im, cleave_import_input(im, 0), &source));
    cleave_tensor from = im->tensors.items[source].tensor;
    CLEAVE_TRY(pad_amounts(im, from.rank, from.shape, pads));
    bool pads_any = false;
    for (int i = 0; i < 2 * from.rank; i++)
        pads_any = pads_any || pads[i] != 0;
    if (!pads_any)
        return cleave_import_identity(im);
    return how == MODE_CONSTANT ? pad_constant(im, source, pads)
                                : pad_repeating(im, (mode)how, source, pads);
}
