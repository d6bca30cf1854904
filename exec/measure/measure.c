/* Repeats of a kernel in the surroundings of a step (exec/measure/surroundings.h), which are not
 * timed. */
#include "exec/measure/measure.h"

#include "base/order.h"
#include "base/progress.h"
#include "exec/data/initial.h"
#include "exec/kernels/convert.h"
#include "exec/kernels/share.h"
#include "exec/measure/surroundings.h"
#include "exec/world/memory.h"
#include "graph/model/filled.h"
#include "graph/model/gather.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST_REPEATS = 3, MOST_REPEATS = 101 };

/* What is quick gets its fewest repeats whatever the budget: one alone may be anything. */
static const double few_repeats_seconds = 0.02;

typedef cleave_status subject(void *context, cleave_error *error);

/* `before`: what runs right before each repeat, so that its instructions are near; null: nothing.
 */
static cleave_status time_repeats(subject *run, void *context, void *before,
                                  const cleave_surroundings *of, double budget,
                                  cleave_measurement *result, cleave_error *error) {
    cleave_other_memory other;
    double seconds[MOST_REPEATS];
    int n = 0;
    CLEAVE_TRY(cleave_other_memory_create(&other, of, error));
    /* The first walk finds its pages. */
    cleave_status status = cleave_surroundings_set(of, &other, error);
    if (status == CLEAVE_OK)
        status = run(context, error);
    double started = cleave_clock_seconds(), spent = 0;
    while (status == CLEAVE_OK && n < MOST_REPEATS &&
           (n == 0 || spent < budget ||
            (n < FEWEST_REPEATS && (spent < 2 * budget || spent < few_repeats_seconds)))) {
        if ((status = cleave_surroundings_set(of, &other, error)) != CLEAVE_OK ||
            (before != NULL && (status = run(before, error)) != CLEAVE_OK))
            break;
        double begun = cleave_clock_seconds();
        status = run(context, error);
        double ended = cleave_clock_seconds();
        seconds[n++] = ended - begun;
        spent = ended - started;
    }
    free(other.memory);
    if (status != CLEAVE_OK)
        return status;
    double median = cleave_median(seconds, n);
    result->seconds = median;
    result->least_seconds = seconds[0];
    result->spread = median > 0 ? (seconds[(3 * n) / 4] - seconds[n / 4]) / median : 0;
    result->repeats = n;
    return CLEAVE_OK;
}

/* ---- kernels --------------------------------------------------------------------------------- */

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

cleave_status cleave_kernel_measure(cleave_kernels *kernels, const cleave_model *model,
                                    const cleave_nest *nest, cleave_pass pass,
                                    const cleave_part *part, const cleave_reuse *reuse,
                                    double seconds_budget, cleave_measurement *result,
                                    cleave_error *error) {
    kernel_subject of = {.kernels = kernels};
    cleave_kernel_call_describe(model, nest, pass, part, &of.call);
    int64_t workspace = cleave_kernel_workspace(kernels, model, nest, pass, part);
    of.call.workspace_bytes = workspace;
    of.call.cut = cleave_kernel_find_cut(kernels, &of.call);
    cleave_status status = CLEAVE_OK;
    bool in_place = reuse == NULL || reuse->in_place >= 0.5;
    if ((of.call.workspace = own(&of, workspace)) == NULL || !fill_call(&of, in_place))
        status = cleave_fail_memory(error, "measuring kernels");
    cleave_measurement measured = {.workspace_bytes = workspace};
    if (status == CLEAVE_OK) {
        cleave_reuse far = far_from_all(pass);
        cleave_surroundings around = surroundings_of(&of, reuse != NULL ? reuse : &far);
        status = time_repeats(run_kernel, &of, NULL, &around, seconds_budget, &measured, error);
    }
    if (status == CLEAVE_OK)
        *result = measured;
    for (int i = 0; i < of.n_owned; i++)
        free(of.owned[i]);
    return status;
}

/* ---- data movement and updates ------------------------------------------------------------- */

typedef struct vector_subject {
    cleave_team *team;
    float *memory; /* arrays of n, the first of each `stride` after the last one's */
    int n_arrays;
    int64_t n, stride;
    cleave_copy_piece piece;
    const cleave_optimizer *optimizer;
} vector_subject;

static cleave_status run_copy(void *context, cleave_error *error) {
    (void)error;
    vector_subject *of = context;
    cleave_share_copy(of->team, &of->piece, of->memory, of->memory + of->stride);
    return CLEAVE_OK;
}

static void update_range(void *context, int64_t from, int64_t to) {
    const vector_subject *of = context;
    int states = cleave_optimizer_states(of->optimizer);
    float *const state[2] = {states > 0 ? of->memory + 2 * of->stride + from : NULL,
                             states > 1 ? of->memory + 3 * of->stride + from : NULL};
    const cleave_update_step at = {.step = 1, .scale = 1};
    cleave_optimizer_update(of->optimizer, &at, to - from, of->memory + from,
                            of->memory + of->stride + from, state);
}

static cleave_status run_update(void *context, cleave_error *error) {
    (void)error;
    vector_subject *of = context;
    cleave_share_range(of->team, 0, of->n, update_range, of);
    return CLEAVE_OK;
}

/* Arrays begin at lines of the cache, as in an arena, and at different places of their pages: a
   read a little after a write to the same place of another page waits for it, which makes copies of
   some sizes take many times as long. */
static int64_t stride_of(int64_t n) {
    enum { PAGE_FLOATS = 1024, APART_FLOATS = 272 };
    return (n + PAGE_FLOATS - 1) / PAGE_FLOATS * PAGE_FLOATS + APART_FLOATS;
}

enum { MOST_VECTORS = 4, FEW_FLOATS = 32 };

/* The same of a few floats: a step copies every 100 us or so, and updates all parameters in a row,
   so that instructions lie in a cache.  Without that the least copy took 2 to 3 us, in place of the
   0.3 that it takes in a step. */
static vector_subject few_of(const vector_subject *of, float *memory) {
    vector_subject few = *of;
    few.memory = memory;
    few.stride = FEW_FLOATS;
    few.n = FEW_FLOATS;
    for (int d = 0; d < of->piece.rank; d++)
        few.piece.extent[d] = of->piece.extent[d] < 3 ? of->piece.extent[d] : 3;
    few.piece.destination_stride[0] = few.piece.source_stride[0] = 4;
    few.piece.destination_stride[1] = few.piece.source_stride[1] = 1;
    return few;
}

/* What writes the second array touches so many times as much. */
enum { TOUCHED_TIMES = 4 };

/* What is copied to, mostly a buffer of messages, lies where something else was a little before: by
   addresses so many times the bytes that are copied, but no more than so many, before what it is
   copied from was written (docs/internals/measured.md). */
enum { TENANT_TIMES = 64, MOST_TENANT_BYTES = 1 << 20 };

/* Was the second array just written, and the first one a little before, or its place touched? */
typedef enum recency { NONE_RECENT, SECOND_RECENT, BOTH_RECENT } recency;

static cleave_status measure_vectors(vector_subject *of, subject *run, recency recent,
                                     int64_t touched_bytes, double budget,
                                     cleave_measurement *result, cleave_error *error) {
    of->stride = of->n < INT64_MAX / 64 ? stride_of(of->n) : 0;
    of->memory =
        of->stride > 0
            ? cleave_memory_allocate((size_t)of->n_arrays * (size_t)of->stride * sizeof(float))
            : NULL;
    if (of->memory == NULL)
        return cleave_fail_memory(error, "measuring copies");
    for (int64_t i = 0; i < of->n_arrays * of->stride; i++)
        of->memory[i] = 0.5f;
    cleave_measurement measured = {0};
    size_t bytes = (size_t)of->n * sizeof *of->memory;
    size_t between = TOUCHED_TIMES * bytes;
    if (recent == SECOND_RECENT)
        between += TENANT_TIMES * bytes < MOST_TENANT_BYTES ? TENANT_TIMES * bytes
                                                            : (size_t)MOST_TENANT_BYTES;
    size_t all = touched_bytes < 0 ? SIZE_MAX : (size_t)touched_bytes;
    cleave_surroundings around = {0};
    cleave_surroundings_add(&around, (cleave_used_memory){.touched_since = all});
    if (recent != NONE_RECENT) {
        cleave_surroundings_add(
            &around, (cleave_used_memory){.memory = of->memory,
                                          .bytes = bytes,
                                          .touched_since = between < all ? between : all});
        cleave_surroundings_add(
            &around, (cleave_used_memory){.memory = of->memory + of->stride, .bytes = bytes});
    }
    float few_memory[MOST_VECTORS * FEW_FLOATS] = {0};
    vector_subject few = few_of(of, few_memory);
    cleave_status status = time_repeats(run, of, &few, &around, budget, &measured, error);
    free(of->memory);
    if (status == CLEAVE_OK)
        *result = measured;
    return status;
}

static int64_t floats_of(int64_t bytes) { return bytes > 12 ? bytes / 4 : 3; }

cleave_status cleave_copy_measure(cleave_team *team, cleave_copy_mode mode, int64_t bytes,
                                  int64_t touched_bytes, double seconds_budget,
                                  cleave_measurement *result, cleave_error *error) {
    int64_t n = floats_of(bytes) / 3 * 3; /* whole records of moments */
    vector_subject of = {.team = team, .n_arrays = 2, .n = n};
    of.piece = (cleave_copy_piece){.mode = mode,
                                   .type = CLEAVE_F32,
                                   .rank = 2,
                                   .extent = {3, n / 3},
                                   .destination_stride = {n / 3, 1},
                                   .source_stride = {n / 3, 1}};
    /* What is copied to lies where something else was.  What is added to was written by the pass
       before the one that wrote what is added. */
    recency recent = mode == CLEAVE_COPY_ASSIGN ? SECOND_RECENT : BOTH_RECENT;
    return measure_vectors(&of, run_copy, recent, touched_bytes, seconds_budget, result, error);
}

cleave_status cleave_rows_measure(cleave_team *team, int64_t bytes, int64_t row_bytes,
                                  int64_t apart, int64_t touched_bytes, double seconds_budget,
                                  cleave_measurement *result, cleave_error *error) {
    int64_t row = row_bytes / 4, n_rows = bytes / row_bytes;
    vector_subject of = {
        .team = team, .n_arrays = 2, .n = n_rows * row * apart}; /* as far as the source reaches */
    of.piece = (cleave_copy_piece){.mode = CLEAVE_COPY_ASSIGN,
                                   .type = CLEAVE_F32,
                                   .rank = 2,
                                   .extent = {n_rows, row},
                                   .destination_stride = {row, 1},
                                   .source_stride = {row * apart, 1}};
    return measure_vectors(&of, run_copy, SECOND_RECENT, touched_bytes, seconds_budget, result,
                           error);
}

cleave_status cleave_update_measure(cleave_team *team, const cleave_optimizer *optimizer,
                                    int64_t bytes, int64_t touched_bytes, double seconds_budget,
                                    cleave_measurement *result, cleave_error *error) {
    vector_subject of = {.team = team,
                         .n_arrays = 2 + cleave_optimizer_states(optimizer),
                         .n = floats_of(bytes),
                         .optimizer = optimizer};
    return measure_vectors(&of, run_update, NONE_RECENT, touched_bytes, seconds_budget, result,
                           error);
}

cleave_status cleave_load_measure(int64_t bytes, int64_t touched_bytes, double seconds_budget,
                                  cleave_measurement *result, cleave_error *error) {
    int64_t pixels = floats_of(bytes) / 3;
    vector_subject of = {.n_arrays = 2, .n = 3 * pixels};
    of.piece = (cleave_copy_piece){.mode = CLEAVE_COPY_ASSIGN,
                                   .type = CLEAVE_F32,
                                   .rank = 2,
                                   .extent = {3, pixels},
                                   .destination_stride = {1, 3},
                                   .source_stride = {pixels, 1}};
    return measure_vectors(&of, run_copy, NONE_RECENT, touched_bytes, seconds_budget, result,
                           error);
}
