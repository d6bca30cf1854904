/* What attention takes on one core, forward and backward, in turns: without stored scores, by the
   nests that it stands for, and by PyTorch's scaled_dot_product_attention on one thread, where a
   Python with torch is named; all in processor time, which neighbours on the machine disturb less.
     usage: bench_attention [HEADS [TOKENS [WIDTH [ROUNDS [PYTHON]]]]]
   GPT-2's 12 heads of 1024 tokens and a width of 64, causal; 5 rounds.  Per round: milliseconds of
   each, and of the others over ours; at last the medians of these ratios. */
#include "graph/model/attention.h"
#include "../support/config_request.h"
#include "arguments.h"
#include "exec/kernels/kernel.h"
#include "graph/import/import.h"
#include "graph/model/precision.h"
#include "row.h"

#include <unistd.h>

enum { MOST_NESTS = 12, MOST_ROUNDS = 100 };

static const char script[] =
    "import sys, time, torch\n"
    "import torch.nn.functional as f\n"
    "torch.set_num_threads(1)\n"
    "h, t, d = map(int, sys.argv[1:])\n"
    "def made(): return torch.randn(1, t, h, d).transpose(1, 2).requires_grad_()\n"
    "q, k, v = made(), made(), made()\n"
    "g = torch.randn(1, t, h, d).transpose(1, 2)\n"
    "for line in sys.stdin:\n"
    "    q.grad = k.grad = v.grad = None\n"
    "    a = time.process_time()\n"
    "    f.scaled_dot_product_attention(q, k, v, is_causal=True).backward(g)\n"
    "    print(time.process_time() - a, flush=True)\n";

typedef struct calls {
    int n;
    cleave_kernel_call of[3 * MOST_NESTS];
} calls;

static void give(const cleave_kernel_call *call, const cleave_operand *operand,
                 cleave_array *array) {
    const cleave_tensor *tensor = &call->model->tensors[operand->tensor];
    int64_t n = cleave_box_size(tensor->rank, &array->box);
    array->data = calloc((size_t)n + 16, (size_t)cleave_stored_bytes(tensor));
    if (array->data == NULL)
        exit(1);
    if (tensor->kind == CLEAVE_TENSOR_CONSTANT) /* whole, in row-major order: a mask */
        memcpy(array->data, tensor->value, (size_t)n * sizeof(float));
    bool is_float = tensor->kind != CLEAVE_TENSOR_CONSTANT && tensor->stored == CLEAVE_F32;
    for (int64_t i = 0; is_float && i < n; i++)
        ((float *)array->data)[i] = (float)(i * 7919 % 1009) * 1e-3f - 0.5f;
}

static void add_call(cleave_kernels *kernels, const cleave_model *model, const cleave_nest *nest,
                     cleave_pass pass, calls *to) {
    cleave_kernel_call *call = &to->of[to->n++];
    cleave_part part = cleave_part_whole(nest, 0);
    cleave_kernel_call_describe(model, nest, pass, &part, call);
    for (int i = 0; i < nest->n_inputs; i++) {
        give(call, &nest->inputs[i], &call->inputs[i]);
        give(call, &nest->inputs[i], &call->input_gradients[i]);
    }
    give(call, &nest->output, &call->output);
    give(call, &nest->output, &call->output_gradient);
    give(call, cleave_nest_combined(nest), &call->combined);
    call->workspace_bytes = cleave_kernel_call_workspace(kernels, call);
    call->workspace = aligned_alloc(64, (size_t)(call->workspace_bytes + 127) / 64 * 64);
}

/* The passes of the nests of the only operator that is attention. */
static calls calls_of(cleave_kernels *kernels, const cleave_model *model) {
    calls made = {.n = 0};
    for (int32_t n = 0; n < model->n_nests; n++) {
        const cleave_nest *nest = &model->nests[n];
        if (strcmp(model->operators[nest->op].type, "Attention") != 0)
            continue;
        for (cleave_pass pass = CLEAVE_PASS_FORWARD; pass <= CLEAVE_PASS_WEIGHT_GRADIENT; pass++)
            if (pass == CLEAVE_PASS_FORWARD || cleave_nest_pass_inputs(model, nest, pass) != 0)
                add_call(kernels, model, nest, pass, &made);
    }
    return made;
}

/* In the one nest backward reads what forward has written. */
static void join_passes(calls *of) {
    if (of->n != 2)
        return;
    memcpy(of->of[1].inputs, of->of[0].inputs, sizeof of->of[0].inputs);
    of->of[1].output = of->of[0].output;
    of->of[1].combined = of->of[0].combined;
}

static double run(cleave_kernels *kernels, const calls *of) {
    cleave_error error = {{0}};
    double start = bench_processor_seconds();
    for (int i = 0; i < of->n; i++)
        if (cleave_kernel_run(kernels, &of->of[i], &error) != CLEAVE_OK)
            printf("%s\n", error.message);
    return bench_processor_seconds() - start;
}

/* A Python that answers each line with the seconds of one run; false: it has no torch. */
typedef struct other {
    FILE *to, *from;
} other;

static bool begin_other(const char *python, const char *arguments, other *made) {
    char command[4096], path[] = "/tmp/bench_attention_XXXXXX", answers[64];
    int file = mkstemp(path);
    if (file < 0 || write(file, script, sizeof script - 1) != (ssize_t)sizeof script - 1)
        return false;
    close(file);
    snprintf(answers, sizeof answers, "%s.answers", path);
    snprintf(command, sizeof command, "%s -c 'import torch' 2>/dev/null && mkfifo %s", python,
             answers);
    if (system(command) != 0)
        return false;
    snprintf(command, sizeof command, "%s %s %s > %s; rm -f %s %s", python, path, arguments,
             answers, path, answers);
    made->to = popen(command, "w");
    made->from = fopen(answers, "r");
    return made->to != NULL && made->from != NULL;
}

static double run_other(const other *of) {
    double seconds = 0;
    fprintf(of->to, "\n");
    fflush(of->to);
    return fscanf(of->from, "%lf", &seconds) == 1 ? seconds : 0;
}

static cleave_status import(int64_t heads, int64_t tokens, int64_t width, cleave_arena *arena,
                            cleave_model *model, cleave_error *error) {
    char config[512];
    snprintf(
        config, sizeof config,
        "{\"model_type\": \"gpt2\", \"vocab_size\": 16, \"n_positions\": %lld, \"n_embd\": %lld,"
        "\"n_layer\": 1, \"n_head\": %lld, \"attn_pdrop\": 0.0}",
        (long long)tokens, (long long)(heads * width), (long long)heads);
    const cleave_import_request request = config_request(config, 1, tokens);
    return cleave_model_import_as(&request, arena, model, error);
}

int main(int argc, char **argv) {
    bench_arguments a = bench_begin(argc, argv);
    int64_t heads = bench_take_integer(&a, "HEADS", 1, 1024, 12);
    int64_t tokens = bench_take_integer(&a, "TOKENS", 1, 1 << 14, 1024);
    int64_t width = bench_take_integer(&a, "WIDTH", 1, 1024, 64);
    int rounds = (int)bench_take_integer(&a, "ROUNDS", 1, MOST_ROUNDS, 5);
    const char *python = bench_take(&a);
    bench_end(&a);
    cleave_arena arena = {0};
    cleave_model stored, fused;
    cleave_error error = {{0}};
    cleave_kernels *kernels = NULL;
    if (import(heads, tokens, width, &arena, &stored, &error) != CLEAVE_OK ||
        cleave_model_fuse_attention(&stored, NULL, &arena, &fused, &error) != CLEAVE_OK ||
        cleave_kernels_create(&kernels, &error) != CLEAVE_OK) {
        fprintf(stderr, "bench_attention: %s\n", error.message);
        return 1;
    }
    calls one = calls_of(kernels, &fused), five = calls_of(kernels, &stored);
    join_passes(&one);
    char arguments[96];
    other torch = {NULL, NULL};
    snprintf(arguments, sizeof arguments, "%lld %lld %lld", (long long)heads, (long long)tokens,
             (long long)width);
    bool has_torch = python != NULL && begin_other(python, arguments, &torch);
    double of_five[MOST_ROUNDS], of_torch[MOST_ROUNDS];
    for (int r = -1; r < rounds; r++) { /* one of each to warm up */
        double ours = run(kernels, &one), nests = run(kernels, &five);
        double theirs = has_torch ? run_other(&torch) : 0;
        if (r < 0)
            continue;
        of_five[r] = nests / ours;
        of_torch[r] = theirs / ours;
        printf("%8.2f ms, nests %8.2f ms %5.2f", ours * 1e3, nests * 1e3, of_five[r]);
        printf(has_torch ? ", torch %8.2f ms %5.2f\n" : "\n", theirs * 1e3, of_torch[r]);
    }
    printf("nests take %.2f times as long", cleave_median(of_five, rounds));
    printf(has_torch ? ", torch %.2f\n" : "; no Python with torch was named\n",
           cleave_median(of_torch, rounds));
    if (has_torch)
        pclose(torch.to);
    cleave_kernels_destroy(kernels);
    cleave_arena_free(&arena);
    return 0;
}
