/* The table of kernels, fastest first, and the choice among them.  What none of them fits is left
   to the reference. */
#include "exec/kernels/kernel_table.h"

#include "exec/kernels/blas.h"
#include "exec/kernels/copy.h"
#include "exec/kernels/kernel_operands.h"
#include "exec/kernels/widen.h"
#include "graph/model/precision.h"
#include "graph/program/work.h"

#include <stdlib.h>
#include <string.h>
#ifdef __SSE__
#include <immintrin.h>
#endif

static const cleave_kernel_row *const table[] = {
    &cleave_product_kernel,   &cleave_im2col_kernel,      &cleave_winograd_kernel,
    &cleave_depthwise_kernel, &cleave_convolution_kernel, &cleave_pool_kernel,
    &cleave_gather_kernel,    &cleave_attention_kernel,   &cleave_tile_kernel};
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

/* On the thread that it is for: flushing to zero and OpenMP's number of threads are of threads.
   OpenBLAS without threads of its own may be in one call at a time, so parts are multiplied by
   oneDNN. */
static cleave_status create_share(void *context, int32_t part, int32_t thread,
                                  cleave_error *error) {
    cleave_kernels **share = &((cleave_kernels *)context)->shares[part];
    (void)thread;
    CLEAVE_TRY(cleave_kernels_create(share, error));
    (*share)->small_products_by_blas = (*share)->large_products_by_blas = false;
    return CLEAVE_OK;
}

cleave_status cleave_kernels_create_threads(int32_t n_threads, cleave_kernels **kernels,
                                            cleave_error *error) {
    cleave_kernels *made = NULL;
    CLEAVE_TRY(cleave_kernels_create(&made, error));
    if (n_threads > 1) {
        made->shares = calloc((size_t)n_threads, sizeof *made->shares);
        cleave_status status = made->shares == NULL
                                   ? cleave_fail_memory(error, "starting the kernels")
                                   : cleave_team_create(n_threads, &made->team, error);
        if (status == CLEAVE_OK)
            status = cleave_team_run(made->team, n_threads, create_share, made, error);
        if (status != CLEAVE_OK) {
            cleave_kernels_destroy(made);
            return status;
        }
    }
    *kernels = made;
    return CLEAVE_OK;
}

cleave_team *cleave_kernels_team(const cleave_kernels *kernels) { return kernels->team; }

void cleave_kernels_destroy(cleave_kernels *kernels) {
    if (kernels == NULL)
        return;
    for (int32_t i = 0; kernels->team != NULL && i < cleave_team_size(kernels->team); i++)
        cleave_kernels_destroy(kernels->shares[i]);
    cleave_team_destroy(kernels->team);
    free(kernels->shares);
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

static bool fits_without(cleave_kernels *kernels, const cleave_kernel_row *row,
                         const cleave_kernel_call *call, unsigned without) {
    cleave_kernel_call adapted;
    if (without == 0)
        return row->fits(kernels, call);
    cleave_kernel_adapt(call, without, &adapted);
    return row->fits(kernels, &adapted);
}

/* Of each row: the call as it is, with its gaps closed, and widened, too. */
cleave_kernel_taken cleave_kernel_take(cleave_kernels *kernels, const cleave_kernel_call *call) {
    unsigned met = cleave_kernel_obstacles(call), gaps = met & CLEAVE_GAPS,
             halves = met & CLEAVE_HALVES;
    for (int i = 0; i < N_ROWS; i++) {
        const cleave_kernel_row *row = table[i];
        if (!(row->kinds >> call->nest->kind & 1) || !(row->passes >> call->pass & 1) ||
            (call->accumulated != 0 && !row->accumulates))
            continue;
        bool knows = halves == 0 || row->takes_bf16;
        if (knows && (gaps == 0 || row->takes_gaps) && row->fits(kernels, call))
            return (cleave_kernel_taken){row, 0};
        if (knows && gaps != 0 && fits_without(kernels, row, call, gaps))
            return (cleave_kernel_taken){row, gaps};
        if (halves != 0 && fits_without(kernels, row, call, met))
            return (cleave_kernel_taken){row, met};
    }
    return (cleave_kernel_taken){NULL, 0};
}

static int64_t workspace_of(cleave_kernels *kernels, cleave_kernel_taken taken,
                            const cleave_kernel_call *call) {
    cleave_kernel_call adapted;
    if (taken.row == NULL)
        return 0;
    if (taken.without != 0)
        cleave_kernel_adapt(call, taken.without, &adapted);
    int64_t bytes = taken.row->workspace == NULL
                        ? 0
                        : taken.row->workspace(kernels, taken.without != 0 ? &adapted : call);
    return taken.without != 0 ? bytes + cleave_kernel_adapted_bytes(call, taken.without) : bytes;
}

const char *cleave_kernel_choice(cleave_kernels *kernels, const cleave_kernel_call *call) {
    const cleave_kernel_row *row = cleave_kernel_take(kernels, call).row;
    return row != NULL ? row->name : "reference";
}

/* By the calling thread alone. */
static cleave_status run_alone(cleave_kernels *kernels, const cleave_kernel_call *call,
                               cleave_error *error) {
    cleave_kernel_taken taken = cleave_kernel_take(kernels, call);
    if (taken.row == NULL)
        return cleave_kernel_run_reference(call, error);
    int64_t needed = workspace_of(kernels, taken, call);
    if (needed > call->workspace_bytes)
        return cleave_fail(error, CLEAVE_FAILED,
                           "the %s kernel of nest %s needs %lld bytes of workspace and has %lld",
                           taken.row->name, call->nest->name, (long long)needed,
                           (long long)call->workspace_bytes);
    return taken.without != 0
               ? cleave_kernel_run_adapted(kernels, taken.row, call, taken.without, error)
               : taken.row->run(kernels, call, error);
}

typedef struct shared_call {
    cleave_kernels *kernels;
    const cleave_kernel_call *call;
} shared_call;

static cleave_status run_part(void *context, int32_t i, int32_t thread, cleave_error *error) {
    const shared_call *of = context;
    cleave_kernel_call part;
    cleave_kernel_cut_part(of->call, i, &part);
    part.workspace_bytes = of->call->workspace_bytes / of->call->cut.n / 64 * 64;
    if (of->call->workspace != NULL)
        part.workspace = (char *)of->call->workspace + i * part.workspace_bytes;
    return run_alone(of->kernels->shares[thread], &part, error);
}

/* The call with its cut. */
static cleave_kernel_call with_cut(cleave_kernels *kernels, const cleave_kernel_call *call) {
    cleave_kernel_call cut = *call;
    if (cut.cut.n == 0)
        cut.cut = cleave_kernel_find_cut(kernels, call);
    return cut;
}

cleave_status cleave_kernel_run(cleave_kernels *kernels, const cleave_kernel_call *call,
                                cleave_error *error) {
    if (kernels->team == NULL)
        return run_alone(kernels, call, error);
    const cleave_kernel_call cut = with_cut(kernels, call);
    shared_call shared = {kernels, &cut};
    return cut.cut.n == 1 ? run_alone(kernels, call, error)
                          : cleave_team_run(kernels->team, cut.cut.n, run_part, &shared, error);
}

int64_t cleave_kernel_workspace(void *kernels, const cleave_model *model, const cleave_nest *nest,
                                cleave_pass pass, const cleave_part *part) {
    cleave_kernel_call call;
    cleave_kernel_call_describe(model, nest, pass, part, &call);
    return cleave_kernel_call_workspace(kernels, &call);
}

/* Every part has as much as the one that needs most. */
int64_t cleave_kernel_call_workspace(cleave_kernels *kernels, const cleave_kernel_call *call) {
    const cleave_kernel_call cut = with_cut(kernels, call);
    cleave_kernel_call part;
    if (cut.cut.n == 1)
        return workspace_of(kernels, cleave_kernel_take(kernels, call), call);
    int64_t most = 0;
    for (int32_t i = 0; i < cut.cut.n; i++) {
        cleave_kernel_cut_part(&cut, i, &part);
        cleave_kernels *of = kernels->shares[i];
        int64_t bytes = workspace_of(of, cleave_kernel_take(of, &part), &part);
        most = bytes > most ? bytes : most;
    }
    return (most + 63) / 64 * 64 * cut.cut.n;
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
    if (cleave_kernel_is_dense(call, operand, array)) {
        int64_t n = cleave_kernel_array_size(call, operand, array);
        memset(array->data, 0, (size_t)(n * cleave_type_bytes(array->type)));
        return;
    }
    cleave_copy_piece piece = {.mode = CLEAVE_COPY_FILL,
                               .type = array->type,
                               .rank = call->model->tensors[operand->tensor].rank};
    for (int d = 0; d < piece.rank; d++) {
        piece.extent[d] = array->box.hi[d] - array->box.lo[d];
        piece.destination_stride[d] = array->strides[d];
    }
    cleave_copy_piece_run(&piece, array->data, NULL);
}
