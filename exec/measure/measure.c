/* A kernel, on operands of its own. */
#include "exec/measure/measure.h"

#include "exec/data/initial.h"
#include "exec/kernels/convert.h"
#include "exec/measure/repeats.h"
#include "exec/world/memory.h"
#include "graph/model/filled.h"
#include "graph/model/gather.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ARRAYS = 2 * CLEAVE_MAX_INPUTS + 4 };

typedef struct kernel_subject {
    cleave_kernels *kernels;
    cleave_kernel_call call;
    int n_owned;
    void *owned[MOST_ARRAYS + 1]; /* regions of memory, */
    char *free_memory;            /* and what is left of the last one */
    size_t free_bytes;
    void *values; /* of an input that is written over, else null */
} kernel_subject;

/* Arrays lie one after the other in one region, on large pages, as they do in the arena of a rank:
   on small pages of their own they would be up to half slower.  What is never touched of a region
   takes no memory. */
static void *own(kernel_subject *of, int64_t bytes) {
    static const size_t region = (size_t)64 << 20;
    size_t rounded = ((size_t)bytes + 127) / 64 * 64;
    if (of->free_bytes < rounded) {
        of->free_bytes = rounded > region ? rounded : region;
        of->free_memory = cleave_memory_allocate(of->free_bytes);
        if (of->free_memory == NULL)
            return NULL;
        of->owned[of->n_owned++] = of->free_memory;
    }
    char *memory = of->free_memory;
    of->free_memory += rounded;
    of->free_bytes -= rounded;
    return memset(memory, 0, rounded);
}

/* Some instructions mind values below zero. */
static bool takes_any_sign(const cleave_nest *nest) {
    for (int i = 0; i < nest->n_instructions; i++)
        switch (nest->tape[i].opcode) {
        case CLEAVE_OP_DIV:
        case CLEAVE_OP_POW:
        case CLEAVE_OP_LOG:
        case CLEAVE_OP_SQRT:
        case CLEAVE_OP_RSQRT:
        case CLEAVE_OP_RECIPROCAL:
            return false;
        default:
            break;
        }
    return true;
}

/* Ids of a look-up lie anywhere in the whole table, as in a run; other integers below what their
   tensor says. */
static bool fill_ids(kernel_subject *of, const cleave_operand *operand, cleave_array *array,
                     int64_t n, uint64_t key) {
    const cleave_nest *nest = of->call.nest;
    const cleave_tensor *tensor = &of->call.model->tensors[operand->tensor];
    bool looks_up = nest->kind == CLEAVE_NEST_GATHER && operand == &nest->inputs[0];
    if (!looks_up && tensor->type != CLEAVE_I64)
        return false;
    int64_t below = looks_up ? nest->axes[cleave_gather_axis(nest)].extent : tensor->below;
    for (int64_t i = 0; i < n; i++) {
        int64_t id = cleave_initial_id(key, i, below);
        if (tensor->type == CLEAVE_I64)
            ((int64_t *)array->data)[i] = id;
        else
            cleave_element_put(array->type, array->data, i, (float)id);
    }
    return true;
}

/* Constants have their values: what masks hide is not done. */
static bool fill_constant(const cleave_tensor *tensor, cleave_array *array) {
    if (tensor->kind != CLEAVE_TENSOR_CONSTANT || tensor->view.kind != CLEAVE_VIEW_NONE ||
        tensor->type != CLEAVE_F32)
        return false;
    int64_t index[CLEAVE_MAX_RANK] = {0};
    for (int d = 0; d < tensor->rank; d++)
        index[d] = array->box.lo[d];
    for (int d = 0; d >= 0;) {
        int64_t from = 0, to = 0;
        for (int e = 0; e < tensor->rank; e++) {
            from = from * tensor->shape[e] + index[e];
            to += (index[e] - array->box.lo[e]) * array->strides[e];
        }
        ((float *)array->data)[to] = ((const float *)tensor->value)[from];
        for (d = tensor->rank - 1; d >= 0 && ++index[d] == array->box.hi[d]; d--)
            index[d] = array->box.lo[d];
    }
    return true;
}

/* Of rows that are mostly empty the first ones are filled, as many as in the mean. */
static void empty_rows(const kernel_subject *of, const cleave_operand *operand, cleave_array *array,
                       int64_t n) {
    const cleave_kernel_call *call = &of->call;
    const cleave_tensor *tensor = &call->model->tensors[operand->tensor];
    int axis = cleave_nest_filled_axis(call->model, call->nest);
    for (int d = 0; d < tensor->rank && axis >= 0; d++) {
        if (operand->map[d].n_terms != 1 || operand->map[d].terms[0].axis != axis)
            continue;
        int64_t extent = array->box.hi[d] - array->box.lo[d];
        double filled = (double)extent * cleave_filled_share(call->model, call->nest, &call->part);
        for (int64_t i = 0; i < n; i++)
            if ((double)(i / array->strides[d] % extent) >= filled)
                cleave_element_put(array->type, array->data, i, 0);
    }
}

/* Floats in (-1, 1) as in a network, where branches of the libraries depend on signs; in (0.1, 1.1)
   where the tape minds.  No special values, no denormals. */
static bool fill_array(kernel_subject *of, const cleave_operand *operand, cleave_array *array,
                       uint64_t key) {
    const cleave_tensor *tensor = &of->call.model->tensors[operand->tensor];
    int64_t n = cleave_box_size(tensor->rank, &array->box);
    array->data = own(of, n * cleave_type_bytes(array->type));
    if (array->data == NULL)
        return false;
    if (fill_ids(of, operand, array, n, key) || fill_constant(tensor, array))
        return true;
    /* A short hash that vectorises: there may be a hundred million values, and their signs must not
       make a pattern that a branch predictor learns. */
    bool any_sign = takes_any_sign(of->call.nest);
    float scale = any_sign ? 0x1p-23f : 0x1p-24f, least = any_sign ? -1.0f : 0.1f;
    for (int64_t i = 0; i < n; i++) {
        uint32_t x = ((uint32_t)i + (uint32_t)key) * UINT32_C(0x9e3779b1);
        x = (x ^ (x >> 15)) * UINT32_C(0x85ebca77);
        x = (x ^ (x >> 13)) * UINT32_C(0xc2b2ae3d);
        cleave_element_put(array->type, array->data, i, least + (float)(x >> 8) * scale);
    }
    empty_rows(of, operand, array, n);
    return true;
}

/* A nest that writes over its input has its output near already.  The input's values are kept, to
   be written again before each repeat. */
static bool fill_in_place(kernel_subject *of) {
    cleave_kernel_call *call = &of->call;
    const cleave_operand *input = &call->nest->inputs[0];
    const cleave_tensor *tensor = &call->model->tensors[input->tensor];
    int64_t bytes = cleave_box_size(tensor->rank, &call->inputs[0].box) *
                    cleave_type_bytes(call->inputs[0].type);
    call->output.data = call->inputs[0].data;
    of->values = own(of, bytes);
    if (of->values != NULL)
        memcpy(of->values, call->inputs[0].data, (size_t)bytes);
    return of->values != NULL;
}

/* What the pass uses: see kept_inputs and its kin in graph/model/model.h. */
static bool fill_call(kernel_subject *of, bool in_place) {
    cleave_kernel_call *call = &of->call;
    const cleave_nest *nest = call->nest;
    bool forward = call->pass == CLEAVE_PASS_FORWARD, filled = true;
    uint32_t gradients = cleave_nest_pass_inputs(call->model, nest, call->pass);
    for (int i = 0; i < nest->n_inputs && filled; i++) {
        if (forward || (nest->kept_inputs >> i & 1))
            filled = fill_array(of, &nest->inputs[i], &call->inputs[i], (uint64_t)i);
        if (filled && (gradients >> i & 1))
            filled = fill_array(of, &nest->inputs[i], &call->input_gradients[i], 0);
    }
    if (filled && forward && nest->in_place && in_place)
        return fill_in_place(of);
    if (filled && (forward || nest->kept_output))
        filled = fill_array(of, &nest->output, &call->output, 17);
    if (filled && !forward)
        filled = fill_array(of, &nest->output, &call->output_gradient, 18);
    if (filled && (forward ? nest->attention != NULL : nest->kept_combined))
        filled = fill_array(of, cleave_nest_combined(nest), &call->combined, 19);
    return filled;
}

static cleave_status run_kernel(void *context, cleave_error *error) {
    kernel_subject *of = context;
    return cleave_kernel_run(of->kernels, &of->call, error);
}

/* In no cache, but for what the item before has written. */
static cleave_reuse far_from_all(cleave_pass pass) {
    cleave_reuse far;
    for (int i = 0; i < CLEAVE_N_REUSES; i++)
        far.bytes[i] = INT64_MAX;
    far.bytes[pass == CLEAVE_PASS_FORWARD ? CLEAVE_REUSE_INPUT : CLEAVE_REUSE_OUTPUT_GRADIENT] = 0;
    return far;
}

static void surround_with(cleave_surroundings *of, const kernel_subject *with,
                          const cleave_array *array, const cleave_operand *operand,
                          int64_t touched_since) {
    const cleave_tensor *tensor = &with->call.model->tensors[operand->tensor];
    int64_t bytes = cleave_box_size(tensor->rank, &array->box) * cleave_type_bytes(array->type);
    bool written_over = with->values != NULL && array == &with->call.inputs[0];
    if (array->data != NULL && bytes > 0)
        cleave_surroundings_add(of,
                                (cleave_used_memory){.memory = array->data,
                                                     .bytes = (size_t)bytes,
                                                     .touched_since = (size_t)touched_since,
                                                     .values = written_over ? with->values : NULL});
}

static cleave_surroundings surroundings_of(const kernel_subject *with, const cleave_reuse *reuse) {
    const cleave_kernel_call *call = &with->call;
    const cleave_nest *nest = call->nest;
    const int64_t *bytes = reuse->bytes;
    cleave_surroundings of = {0};
    for (int i = 0; i < nest->n_inputs; i++) {
        const cleave_operand *input = &nest->inputs[i];
        surround_with(&of, with, &call->inputs[i], input, bytes[CLEAVE_REUSE_INPUT + i]);
        surround_with(&of, with, &call->input_gradients[i], input,
                      bytes[CLEAVE_REUSE_INPUT_GRADIENT + i]);
    }
    if (call->output.data != call->inputs[0].data)
        surround_with(&of, with, &call->output, &nest->output, bytes[CLEAVE_REUSE_OUTPUT]);
    surround_with(&of, with, &call->combined, cleave_nest_combined(nest),
                  bytes[CLEAVE_REUSE_COMBINED]);
    surround_with(&of, with, &call->output_gradient, &nest->output,
                  bytes[CLEAVE_REUSE_OUTPUT_GRADIENT]);
    return of;
}

cleave_status cleave_kernel_measure(cleave_kernels *kernels, const cleave_kernel_call *call,
                                    const cleave_reuse *reuse, double seconds_budget,
                                    cleave_measurement *result, cleave_error *error) {
    kernel_subject of = {.kernels = kernels, .call = *call};
    int64_t workspace = cleave_kernel_call_workspace(kernels, call);
    of.call.workspace_bytes = workspace;
    of.call.cut = cleave_kernel_find_cut(kernels, &of.call);
    cleave_status status = CLEAVE_OK;
    bool in_place = reuse == NULL || reuse->in_place >= 0.5;
    if ((of.call.workspace = own(&of, workspace)) == NULL || !fill_call(&of, in_place))
        status = cleave_fail_memory(error, "measuring kernels");
    cleave_measurement measured = {.workspace_bytes = workspace};
    if (status == CLEAVE_OK) {
        cleave_reuse far = far_from_all(call->pass);
        cleave_surroundings around = surroundings_of(&of, reuse != NULL ? reuse : &far);
        status = cleave_measure_repeats(run_kernel, &of, NULL, &around, seconds_budget, &measured,
                                        error);
    }
    if (status == CLEAVE_OK)
        *result = measured;
    for (int i = 0; i < of.n_owned; i++)
        free(of.owned[i]);
    return status;
}
