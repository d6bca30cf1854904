#include "exec/kernels/widen.h"

#include "exec/kernels/convert.h"
#include "exec/kernels/copy.h"
#include "exec/kernels/kernel_operands.h"

static unsigned obstacles_of(const cleave_kernel_call *call, const cleave_kernel_operand *of) {
    const cleave_array *array = cleave_kernel_array_of(call, of);
    return (array->type == CLEAVE_BF16 ? CLEAVE_HALVES : 0) |
           (cleave_kernel_is_dense(call, of->operand, array) ? 0 : CLEAVE_GAPS);
}

unsigned cleave_kernel_obstacles(const cleave_kernel_call *call) {
    cleave_kernel_operand list[CLEAVE_MOST_KERNEL_OPERANDS];
    unsigned found = 0;
    for (int n = cleave_kernel_operands(call, list), i = 0; i < n; i++)
        found |= obstacles_of(call, &list[i]);
    return found;
}

/* The operands that are made anew, in both calls. */
static int adapt(const cleave_kernel_call *call, unsigned without, cleave_kernel_call *adapted,
                 cleave_kernel_operand *list) {
    int n = cleave_kernel_operands(call, list), n_made = 0;
    *adapted = *call;
    for (int i = 0; i < n; i++) {
        if ((obstacles_of(call, &list[i]) & without) == 0)
            continue;
        cleave_array *array = cleave_kernel_array(adapted, &list[i]);
        if ((without & CLEAVE_HALVES) && array->type == CLEAVE_BF16) {
            array->type = CLEAVE_F32;
            adapted->widened = true;
        }
        cleave_tensor_strides(&call->model->tensors[list[i].operand->tensor], &array->box,
                              array->strides);
        list[n_made++] = list[i];
    }
    return n_made;
}

void cleave_kernel_adapt(const cleave_kernel_call *call, unsigned without,
                         cleave_kernel_call *adapted) {
    cleave_kernel_operand list[CLEAVE_MOST_KERNEL_OPERANDS];
    adapt(call, without, adapted, list);
}

static int64_t bytes_of(const cleave_kernel_call *adapted, const cleave_kernel_operand *of) {
    const cleave_array *array = cleave_kernel_array_of(adapted, of);
    int64_t n = cleave_kernel_array_size(adapted, of->operand, array);
    return (n * cleave_type_bytes(array->type) + 63) / 64 * 64;
}

int64_t cleave_kernel_adapted_bytes(const cleave_kernel_call *call, unsigned without) {
    cleave_kernel_operand list[CLEAVE_MOST_KERNEL_OPERANDS];
    cleave_kernel_call adapted;
    int64_t bytes = 0;
    for (int n = adapt(call, without, &adapted, list), i = 0; i < n; i++)
        bytes += bytes_of(&adapted, &list[i]);
    return bytes;
}

static void move(const cleave_kernel_call *call, const cleave_operand *operand,
                 const cleave_array *from, const cleave_array *to) {
    int rank = call->model->tensors[operand->tensor].rank;
    if (cleave_kernel_is_dense(call, operand, from) && cleave_kernel_is_dense(call, operand, to)) {
        cleave_convert(from->type, from->data, to->type, to->data,
                       cleave_kernel_array_size(call, operand, from));
        return;
    }
    cleave_copy_piece piece = {
        .mode = CLEAVE_COPY_ASSIGN, .type = to->type, .source_type = from->type, .rank = rank};
    for (int d = 0; d < rank; d++) {
        piece.extent[d] = from->box.hi[d] - from->box.lo[d];
        piece.destination_stride[d] = to->strides[d];
        piece.source_stride[d] = from->strides[d];
    }
    cleave_copy_piece_run(&piece, to->data, from->data);
}

cleave_status cleave_kernel_run_adapted(cleave_kernels *kernels, const cleave_kernel_row *row,
                                        const cleave_kernel_call *call, unsigned without,
                                        cleave_error *error) {
    cleave_kernel_operand list[CLEAVE_MOST_KERNEL_OPERANDS];
    cleave_kernel_call adapted;
    int n = adapt(call, without, &adapted, list);
    char *at = call->workspace;
    for (int i = 0; i < n; i++) {
        const cleave_array *array = cleave_kernel_array_of(call, &list[i]);
        cleave_array *made = cleave_kernel_array(&adapted, &list[i]);
        made->data = array->data != NULL ? at : NULL;
        at += bytes_of(&adapted, &list[i]);
        if (list[i].reads && array->data != NULL)
            move(call, list[i].operand, array, made);
    }
    adapted.workspace = at;
    adapted.workspace_bytes = call->workspace_bytes - (at - (char *)call->workspace);
    CLEAVE_TRY(row->run(kernels, &adapted, error));
    for (int i = 0; i < n; i++)
        if (list[i].writes && cleave_kernel_array_of(call, &list[i])->data != NULL)
            move(call, list[i].operand, cleave_kernel_array_of(&adapted, &list[i]),
                 cleave_kernel_array_of(call, &list[i]));
    return CLEAVE_OK;
}
