/* What cutting costs: every long kernel of one device of a model, whole and in its pieces in turn,
   by the fastest of their repeats in processor time, which neighbours on the machine disturb less.
     usage: bench_pieces [MODEL.onnx [BATCH [REPEATS [PART OF A NAME]]]]
   AlexNet with batch 32, 5 repeats.  Of each kernel: milliseconds as a whole; how many pieces ran
   of those that were asked for; milliseconds in pieces, and the difference; the algorithm. */
#include "arguments.h"
#include "exec/kernels/kernel.h"
#include "exec/world/memory.h"
#include "graph/import/import.h"
#include "row.h"

#include <string.h>

static char *memory; /* of all arrays of a call, one after the other */
static const int64_t memory_bytes = (int64_t)3 << 30;

static void *take(int64_t bytes, int64_t *used) {
    void *at = memory + *used;
    *used += (bytes + 127) / 64 * 64;
    return *used <= memory_bytes ? at : NULL;
}

static bool give_array(const cleave_kernel_call *call, const cleave_operand *operand,
                       cleave_array *array, int64_t *used) {
    const cleave_tensor *tensor = &call->model->tensors[operand->tensor];
    int64_t n = cleave_box_size(tensor->rank, &array->box);
    array->data = take(n * cleave_type_bytes(tensor->type), used);
    for (int64_t i = 0; array->data != NULL && tensor->type == CLEAVE_F32 && i < n; i++)
        ((float *)array->data)[i] = 0.1f + (float)(i * 7919 % 1000) * 1e-3f;
    if (array->data != NULL && tensor->type == CLEAVE_I64)
        memset(array->data, 0, (size_t)n * 8);
    return array->data != NULL;
}

static bool give_arrays(cleave_kernels *kernels, cleave_kernel_call *call) {
    int64_t used = 0;
    const cleave_nest *nest = call->nest;
    bool given = true;
    for (int i = 0; i < nest->n_inputs && given; i++)
        given = give_array(call, &nest->inputs[i], &call->inputs[i], &used) &&
                give_array(call, &nest->inputs[i], &call->input_gradients[i], &used);
    given = given && give_array(call, &nest->output, &call->output, &used) &&
            give_array(call, &nest->output, &call->output_gradient, &used) &&
            give_array(call, &nest->output, &call->combined, &used);
    call->workspace_bytes =
        cleave_kernel_workspace(kernels, call->model, nest, call->pass, &call->part);
    call->workspace = take(call->workspace_bytes, &used);
    return given && call->workspace != NULL;
}

static cleave_status count_poll(void *context, cleave_error *error) {
    (void)error;
    ++*(int *)context;
    return CLEAVE_OK;
}

static double time_run(cleave_kernels *kernels, const cleave_kernel_call *call) {
    cleave_error error = {{0}};
    double start = bench_processor_seconds();
    if (cleave_kernel_run(kernels, call, &error) != CLEAVE_OK)
        printf("%s\n", error.message);
    return bench_processor_seconds() - start;
}

static void bench(cleave_kernels *kernels, const cleave_model *model, const cleave_nest *nest,
                  cleave_pass pass, int repeats, double sums[2]) {
    cleave_kernel_call call;
    cleave_part part = cleave_part_whole(nest, 0);
    cleave_kernel_call_describe(model, nest, pass, &part, &call);
    int32_t pieces = call.pieces;
    if (pieces < 2 || !give_arrays(kernels, &call))
        return;
    int polls = 0;
    double least[2] = {1e9, 1e9};
    call.poll = count_poll;
    call.poll_context = &polls;
    for (int r = 0; r <= 2 * repeats + 1; r++) { /* one of each to warm up */
        call.pieces = r % 2 == 0 ? 1 : pieces;
        polls = 0;
        double seconds = time_run(kernels, &call);
        if (r > 1 && seconds < least[r % 2])
            least[r % 2] = seconds;
    }
    sums[0] += least[0];
    sums[1] += least[1];
    char what[64];
    snprintf(what, sizeof what, "%.26s %.12s", nest->name, cleave_pass_names[pass]);
    bench_row(what, cleave_kernel_choice(kernels, &call),
              "%8.2f ms, %3d of %3d pieces: %8.2f ms %+5.1f%%", least[0] * 1e3, polls + 1, pieces,
              least[1] * 1e3, 100 * (least[1] / least[0] - 1));
}

int main(int argc, char **argv) {
    bench_arguments a = bench_begin(argc, argv);
    const char *given = bench_take(&a),
               *path = given != NULL ? given : CLEAVE_SOURCE_DIR "/configs/models/alexnet.onnx";
    int64_t batch = bench_take_integer(&a, "BATCH", 1, 1 << 30, 32);
    int repeats = (int)bench_take_integer(&a, "REPEATS", 1, 1000, 5);
    cleave_arena arena = {0};
    cleave_model model;
    cleave_error error = {{0}};
    cleave_kernels *kernels = NULL;
    memory = cleave_memory_allocate((size_t)memory_bytes);
    cleave_status status = cleave_model_import_as(
        &(cleave_import_request){.file = path, .batch = batch, .with_loss = true}, &arena, &model,
        &error);
    if (memory == NULL || status != CLEAVE_OK ||
        cleave_kernels_create(&kernels, &error) != CLEAVE_OK) {
        fprintf(stderr, "bench_pieces: %s\n", error.message);
        return status != CLEAVE_OK ? (int)status : 1;
    }
    const char *only = bench_take_name(&a, "PART OF A NAME", true, &model.nests[0].name,
                                       sizeof model.nests[0], (size_t)model.n_nests);
    bench_end(&a);
    double sums[2] = {0, 0};
    for (int32_t n = 0; n < model.n_nests; n++)
        for (cleave_pass pass = CLEAVE_PASS_FORWARD; pass <= CLEAVE_PASS_WEIGHT_GRADIENT; pass++)
            if ((only == NULL || strstr(model.nests[n].name, only) != NULL) &&
                (pass == CLEAVE_PASS_FORWARD ||
                 cleave_nest_pass_inputs(&model, &model.nests[n], pass) != 0))
                bench(kernels, &model, &model.nests[n], pass, repeats, sums);
    bench_row("all of them", "", "%8.2f ms whole, %.2f ms in pieces %+5.1f%%", sums[0] * 1e3,
              sums[1] * 1e3, 100 * (sums[1] / sums[0] - 1));
    cleave_kernels_destroy(kernels);
    cleave_arena_free(&arena);
    free(memory);
    return 0;
}
