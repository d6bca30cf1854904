#include "exec/kernels/kernel_operands.h"

static void add(const cleave_kernel_call *call, const cleave_operand *operand,
                const cleave_array *array, bool reads, bool writes, cleave_kernel_operand *list,
                int *n) {
    if (reads || writes)
        list[(*n)++] = (cleave_kernel_operand){
            operand, (size_t)((const char *)array - (const char *)call), reads, writes};
}

int cleave_kernel_operands(const cleave_kernel_call *call, cleave_kernel_operand *list) {
    const cleave_nest *nest = call->nest;
    bool forward = call->pass == CLEAVE_PASS_FORWARD, turns = nest->turn > 0;
    uint32_t gradients = forward ? 0 : cleave_kernel_gradients(call);
    int n = 0;
    for (int i = 0; i < nest->n_inputs; i++) {
        uint32_t bit = UINT32_C(1) << i;
        add(call, &nest->inputs[i], &call->inputs[i], forward || (nest->kept_inputs & bit) != 0,
            false, list, &n);
        add(call, &nest->inputs[i], &call->input_gradients[i], (call->accumulated & bit) != 0,
            (gradients & bit) != 0, list, &n);
    }
    add(call, &nest->output, &call->output, forward ? turns : nest->kept_output, forward, list, &n);
    bool statistics = forward && nest->attention != NULL;
    add(call, cleave_nest_combined(nest), &call->combined,
        forward ? statistics && turns : nest->kept_combined, statistics, list, &n);
    add(call, &nest->output, &call->output_gradient, !forward, false, list, &n);
    return n;
}

bool cleave_kernel_is_dense(const cleave_kernel_call *call, const cleave_operand *operand,
                            const cleave_array *array) {
    const cleave_tensor *tensor = &call->model->tensors[operand->tensor];
    int64_t dense[CLEAVE_MAX_RANK];
    cleave_tensor_strides(tensor, &array->box, dense);
    for (int d = 0; d < tensor->rank; d++)
        if (array->box.hi[d] - array->box.lo[d] > 1 && array->strides[d] != dense[d])
            return false;
    return true;
}
