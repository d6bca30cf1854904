#include "exec/kernels/widen.h"

#include "exec/kernels/convert.h"

enum { MOST_OPERANDS = 2 * CLEAVE_MAX_INPUTS + 3 };

/* An operand that is widened; where it is in both calls. */
typedef struct widened {
    const cleave_array *array;
    cleave_array *wide;
    int64_t n;
    bool reads, writes;
} widened;

typedef struct widening {
    int n;
    widened items[MOST_OPERANDS];
} widening;

static void add(widening *w, const cleave_kernel_call *call, const cleave_operand *operand,
                const cleave_array *array, cleave_array *wide, bool reads, bool writes) {
    if (array->type == CLEAVE_BF16 && (reads || writes))
        w->items[w->n++] =
            (widened){array, wide, cleave_kernel_array_size(call, operand, array), reads, writes};
}

/* The operands of bf16 that the pass uses. */
static widening list(const cleave_kernel_call *call, cleave_kernel_call *wide) {
    const cleave_nest *nest = call->nest;
    bool forward = call->pass == CLEAVE_PASS_FORWARD;
    uint32_t gradients = forward ? 0 : cleave_kernel_gradients(call);
    widening w = {.n = 0};
    for (int i = 0; i < nest->n_inputs; i++) {
        uint32_t bit = UINT32_C(1) << i;
        add(&w, call, &nest->inputs[i], &call->inputs[i], &wide->inputs[i],
            forward || (nest->kept_inputs & bit) != 0, false);
        add(&w, call, &nest->inputs[i], &call->input_gradients[i], &wide->input_gradients[i],
            (call->accumulated & bit) != 0, (gradients & bit) != 0);
    }
    add(&w, call, &nest->output, &call->output, &wide->output, !forward && nest->kept_output,
        forward);
    add(&w, call, &nest->output, &call->combined, &wide->combined, nest->kept_combined, false);
    add(&w, call, &nest->output, &call->output_gradient, &wide->output_gradient, !forward, false);
    return w;
}

bool cleave_kernel_widen(const cleave_kernel_call *call, cleave_kernel_call *wide) {
    *wide = *call;
    widening w = list(call, wide);
    for (int i = 0; i < w.n; i++)
        w.items[i].wide->type = CLEAVE_F32;
    wide->widened = w.n > 0;
    return w.n > 0;
}

static int64_t bytes_of(const widened *item) {
    return (item->n * (int64_t)sizeof(float) + 63) / 64 * 64;
}

int64_t cleave_kernel_widened_bytes(const cleave_kernel_call *call) {
    cleave_kernel_call wide = *call;
    widening w = list(call, &wide);
    int64_t bytes = 0;
    for (int i = 0; i < w.n; i++)
        bytes += bytes_of(&w.items[i]);
    return bytes;
}

cleave_status cleave_kernel_run_widened(cleave_kernels *kernels, const cleave_kernel_row *row,
                                        const cleave_kernel_call *call, cleave_error *error) {
    cleave_kernel_call wide;
    cleave_kernel_widen(call, &wide);
    widening w = list(call, &wide);
    char *at = call->workspace;
    for (int i = 0; i < w.n; i++) {
        const widened *item = &w.items[i];
        item->wide->data = item->array->data != NULL ? at : NULL;
        at += bytes_of(item);
        if (item->reads && item->array->data != NULL)
            cleave_convert(CLEAVE_BF16, item->array->data, CLEAVE_F32, item->wide->data, item->n);
    }
    wide.workspace = at;
    wide.workspace_bytes = call->workspace_bytes - (at - (char *)call->workspace);
    CLEAVE_TRY(row->run(kernels, &wide, error));
    for (int i = 0; i < w.n; i++)
        if (w.items[i].writes && w.items[i].array->data != NULL)
            cleave_convert(CLEAVE_F32, w.items[i].wide->data, CLEAVE_BF16, w.items[i].array->data,
                           w.items[i].n);
    return CLEAVE_OK;
}
