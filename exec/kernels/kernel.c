/* The table of kernels, fastest first, and the choice among them.  What none of them fits is left
   to the reference. */
#include "exec/kernels/kernel_table.h"

#include "exec/kernels/blas.h"
#include "exec/kernels/widen.h"
#include "graph/model/precision.h"
#include "graph/program/work.h"

#include <stdlib.h>
#include <string.h>
#ifdef __SSE__
#include <immintrin.h>
#endif

static const cleave_kernel_row *const table[] = {
    &cleave_product_kernel, &cleave_winograd_kernel, &cleave_convolution_kernel,
    &cleave_pool_kernel,    &cleave_gather_kernel,   &cleave_attention_kernel,
    &cleave_tile_kernel};
enum { N_ROWS = sizeof table / sizeof table[0] };

cleave_status cleave_kernels_create(cleave_kernels **kernels, cleave_error *error) {
    cleave_kernels *made = calloc(1, sizeof *made);
    if (made == NULL)
        return cleave_fail_memory(error, "starting the kernels");
    cleave_status status = cleave_onednn_create(&made->onednn, error);
    if (status != CLEAVE_OK) {
        free(made);
        return status;
    }
    made->small_products_by_blas = cleave_blas_knows_processor();
    made->large_products_by_blas = !cleave_blas_has_wide_vectors();
    made->multiplies_bf16 = cleave_onednn_multiplies_bf16();
#ifdef __SSE__
    _mm_setcsr(_mm_getcsr() | 0x8040); /* flush to zero, denormals are zero */
#endif
    *kernels = made;
    return CLEAVE_OK;
}

void cleave_kernels_destroy(cleave_kernels *kernels) {
    if (kernels == NULL)
        return;
    cleave_onednn_destroy(kernels->onednn);
    free(kernels);
}

static void describe_array(const cleave_model *model, const cleave_part *part,
                           const cleave_operand *operand, cleave_array *array) {
    array->type = model->tensors[operand->tensor].stored;
    cleave_part_box(model, part, operand, &array->box);
    cleave_tensor_strides(&model->tensors[operand->tensor], &array->box, array->strides);
}

void cleave_kernel_call_describe(const cleave_model *model, const cleave_nest *nest,
                                 cleave_pass pass, const cleave_part *part,
                                 cleave_kernel_call *call) {
    *call = (cleave_kernel_call){.model = model, .nest = nest, .pass = pass, .part = *part};
    call->pieces = cleave_work_pieces(model, nest, pass, part);
    for (int i = 0; i < nest->n_inputs; i++) {
        describe_array(model, part, &nest->inputs[i], &call->inputs[i]);
        call->input_gradients[i] = call->inputs[i];
        call->input_gradients[i].type = cleave_gradient_type(model, nest, part, i);
    }
    describe_array(model, part, &nest->output, &call->output);
    call->output_gradient = call->output;
    describe_array(model, part, cleave_nest_combined(nest), &call->combined);
    if (pass == CLEAVE_PASS_FORWARD)
        call->output.type = cleave_output_type(model, nest, part);
}

/* A row, and whether it is given the call with its operands widened. */
typedef struct choice {
    const cleave_kernel_row *row; /* null: the reference */
    bool widens;
} choice;

static choice choose(cleave_kernels *kernels, const cleave_kernel_call *call) {
    cleave_kernel_call wide;
    bool widens = cleave_kernel_widen(call, &wide);
    for (int i = 0; i < N_ROWS; i++) {
        if (!(table[i]->kinds >> call->nest->kind & 1) || !(table[i]->passes >> call->pass & 1) ||
            (call->accumulated != 0 && !table[i]->accumulates))
            continue;
        if ((!widens || table[i]->takes_bf16) && table[i]->fits(kernels, call))
            return (choice){table[i], false};
        if (widens && table[i]->fits(kernels, &wide))
            return (choice){table[i], true};
    }
    return (choice){NULL, false};
}

static int64_t workspace_of(cleave_kernels *kernels, choice taken, const cleave_kernel_call *call) {
    cleave_kernel_call wide;
    if (taken.row == NULL)
        return 0;
    if (taken.widens)
        cleave_kernel_widen(call, &wide);
    int64_t bytes = taken.row->workspace == NULL
                        ? 0
                        : taken.row->workspace(kernels, taken.widens ? &wide : call);
    return taken.widens ? bytes + cleave_kernel_widened_bytes(call) : bytes;
}

const char *cleave_kernel_choice(cleave_kernels *kernels, const cleave_kernel_call *call) {
    const cleave_kernel_row *row = choose(kernels, call).row;
    return row != NULL ? row->name : "reference";
}

cleave_status cleave_kernel_run(cleave_kernels *kernels, const cleave_kernel_call *call,
                                cleave_error *error) {
    choice taken = choose(kernels, call);
    if (taken.row == NULL)
        return cleave_kernel_run_reference(call, error);
    int64_t needed = workspace_of(kernels, taken, call);
    if (needed > call->workspace_bytes)
        return cleave_fail(error, CLEAVE_FAILED,
                           "the %s kernel of nest %s needs %lld bytes of workspace and has %lld",
                           taken.row->name, call->nest->name, (long long)needed,
                           (long long)call->workspace_bytes);
    return taken.widens ? cleave_kernel_run_widened(kernels, taken.row, call, error)
                        : taken.row->run(kernels, call, error);
}

int64_t cleave_kernel_workspace(void *kernels, const cleave_model *model, const cleave_nest *nest,
                                cleave_pass pass, const cleave_part *part) {
    cleave_kernel_call call;
    cleave_kernel_call_describe(model, nest, pass, part, &call);
    return cleave_kernel_call_workspace(kernels, &call);
}

int64_t cleave_kernel_call_workspace(cleave_kernels *kernels, const cleave_kernel_call *call) {
    return workspace_of(kernels, choose(kernels, call), call);
}

cleave_status cleave_kernel_poll_now(const cleave_kernel_call *call, cleave_error *error) {
    return call->poll != NULL ? call->poll(call->poll_context, error) : CLEAVE_OK;
}

cleave_kernel_pace cleave_kernel_pace_start(const cleave_kernel_call *call, int64_t steps) {
    cleave_kernel_pace pace = {.call = call, .steps = steps, .pieces = 1};
    if (call->pieces > 1)
        pace.pieces = call->pieces < steps ? call->pieces : steps > 1 ? (int32_t)steps : 1;
    pace.next = cleave_block_start(steps, pace.pieces, 1);
    return pace;
}

cleave_status cleave_kernel_pace_piece(cleave_kernel_pace *pace, cleave_error *error) {
    if (++pace->piece >= pace->pieces) {
        pace->next = INT64_MAX;
        return CLEAVE_OK;
    }
    pace->next = cleave_block_start(pace->steps, pace->pieces, pace->piece + 1);
    return cleave_kernel_poll_now(pace->call, error);
}

const char *cleave_kernels_version(void) { return cleave_blas_version(); }

cleave_reach cleave_kernel_reach(const cleave_kernel_call *call, const cleave_operand *operand,
                                 const cleave_array *array) {
    const cleave_tensor *tensor = &call->model->tensors[operand->tensor];
    cleave_reach reach = {.inside = true};
    int record_axis = cleave_kernel_record_axis(call->nest);
    for (int d = 0; d < tensor->rank; d++) {
        const cleave_dimension_map *map = &operand->map[d];
        int64_t lo = map->offset, last = map->offset;
        for (int t = 0; t < map->n_terms; t++) {
            int axis = map->terms[t].axis;
            lo += map->terms[t].stride * call->part.lo[axis];
            last += map->terms[t].stride * (call->part.hi[axis] - 1);
            if (axis != record_axis)
                reach.stride[axis] += map->terms[t].stride * array->strides[d];
        }
        reach.base += (lo - array->box.lo[d]) * array->strides[d];
        reach.inside = reach.inside && lo >= 0 && last < tensor->shape[d];
    }
    return reach;
}

int64_t cleave_kernel_array_size(const cleave_kernel_call *call, const cleave_operand *operand,
                                 const cleave_array *array) {
    return cleave_box_size(call->model->tensors[operand->tensor].rank, &array->box);
}

uint32_t cleave_kernel_gradients(const cleave_kernel_call *call) {
    return cleave_nest_pass_inputs(call->model, call->nest, call->pass);
}

int cleave_kernel_record_axis(const cleave_nest *nest) {
    bool has = nest->combiner == CLEAVE_COMBINE_MOMENTS && nest->output.map[0].n_terms > 0;
    return has ? nest->output.map[0].terms[0].axis : -1;
}

void cleave_kernel_zero(const cleave_kernel_call *call, const cleave_operand *operand,
                        const cleave_array *array) {
    memset(
        array->data, 0,
        (size_t)(cleave_kernel_array_size(call, operand, array) * cleave_type_bytes(array->type)));
}
