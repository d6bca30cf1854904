/* What fraction of the core the kernels reach: GFLOP/s of convolutions and products of AlexNet and
   ResNet against an FMA loop of the same run, GB/s of tapes against a plain copy, and elementary
   functions against those of the C library; rates are of the fastest repeat, times of the median.
     usage: bench_kernels [SECONDS_PER_CASE [PART_OF_A_NAME]]
   0.3 seconds each.  Of each kernel: its pass, the algorithm that was chosen, the median with half
   the range of the middle half of repeats, the least; the rate; and the memory that it works in. */
#include "../support/one_nest.h"
#include "arguments.h"
#include "base/progress.h"
#include "exec/kernels/vector_math.h"
#include "exec/measure/measure.h"
#include "row.h"

#include <math.h>
#include <stdio.h>

static double seconds_per_case = 0.3;
static const char *only = ""; /* cases whose name has this */
static char left_out[4096];   /* names of the others, as far as there is room */
static bool found;

static bool is_wanted(const char *name) {
    size_t used = strlen(left_out);
    bool wanted = strstr(name, only) != NULL;
    found = found || wanted;
    if (!wanted && strstr(left_out, name) == NULL)
        snprintf(left_out + used, sizeof left_out - used, "%s%s", used > 0 ? "; " : "", name);
    return wanted;
}

static void report(cleave_kernels *kernels, const one_nest *one, const cleave_nest *nest,
                   const char *name, cleave_pass pass, double flops, double bytes, double peak,
                   double copy) {
    cleave_error error = {{0}};
    cleave_measurement m;
    cleave_part part = cleave_part_whole(nest, 0);
    cleave_kernel_call call;
    if (!is_wanted(name))
        return;
    cleave_kernel_call_describe(&one->model, nest, pass, &part, &call);
    if (cleave_kernel_measure(kernels, &call, NULL, seconds_per_case, &m, &error) != CLEAVE_OK) {
        printf("%-34s %-16s %s\n", name, cleave_pass_names[pass], error.message);
        return;
    }
    printf("%-34s %-15s %-11s %9.3f ms +-%3.0f%%, least %9.3f", name, cleave_pass_names[pass],
           cleave_kernel_choice(kernels, &call), m.seconds * 1e3, m.spread * 100,
           m.least_seconds * 1e3);
    if (flops > 0)
        printf(" %7.1f GFLOP/s %3.0f%% of peak", flops / m.least_seconds / 1e9,
               100 * flops / m.least_seconds / 1e9 / peak);
    if (bytes > 0)
        printf(" %6.2f GB/s %4.0f%% of a copy", bytes / m.least_seconds / 1e9,
               100 * bytes / m.least_seconds / copy);
    printf(" workspace %.1f MB\n", (double)m.workspace_bytes / 1e6);
}

typedef struct convolution_case {
    const char *name;
    one_nest_convolution shape;
} convolution_case;

#define SQUARE(n, channels, filters, size, filter, step, pad)                                      \
    {                                                                                              \
        .spatial = 2, .batch = n, .groups = 1, .c = channels, .k = filters, .in = {size, size},    \
        .window = {filter, filter}, .stride = {step, step}, .dilation = {1, 1},                    \
        .pad_lo = {pad, pad}, .pad_hi = {                                                          \
            pad,                                                                                   \
            pad                                                                                    \
        }                                                                                          \
    }

#define DEPTHWISE(n, channels, size, filter, step)                                                 \
    {                                                                                              \
        .spatial = 2, .batch = n, .groups = channels, .c = 1, .k = 1, .in = {size, size},          \
        .window = {filter, filter}, .stride = {step, step}, .dilation = {1, 1},                    \
        .pad_lo = {(filter) / 2, (filter) / 2}, .pad_hi = {                                        \
            (filter) / 2,                                                                          \
            (filter) / 2                                                                           \
        }                                                                                          \
    }

static const convolution_case convolutions[] = {
    {"alexnet conv1 n32 3>64 224 11/4", SQUARE(32, 3, 64, 224, 11, 4, 2)},
    {"alexnet conv2 n32 64>192 27 5", SQUARE(32, 64, 192, 27, 5, 1, 2)},
    {"alexnet conv3 n32 192>384 13 3", SQUARE(32, 192, 384, 13, 3, 1, 1)},
    {"alexnet conv5 n32 256>256 13 3", SQUARE(32, 256, 256, 13, 3, 1, 1)},
    {"resnet stem n8 3>64 224 7/2", SQUARE(8, 3, 64, 224, 7, 2, 3)},
    {"resnet n8 64>64 56 1", SQUARE(8, 64, 64, 56, 1, 1, 0)},
    {"resnet n8 64>64 56 3", SQUARE(8, 64, 64, 56, 3, 1, 1)},
    {"resnet n8 256>512 56 1/2", SQUARE(8, 256, 512, 56, 1, 2, 0)},
    {"resnet n8 128>128 56 3/2", SQUARE(8, 128, 128, 56, 3, 2, 1)},
    {"resnet n8 256>256 14 3", SQUARE(8, 256, 256, 14, 3, 1, 1)},
    {"resnet n8 512>2048 7 1", SQUARE(8, 512, 2048, 7, 1, 1, 0)},
    {"depthwise n8 32 64 3", DEPTHWISE(8, 32, 64, 3, 1)},
    {"depthwise n8 96 64 3/2", DEPTHWISE(8, 96, 64, 3, 2)},
    {"depthwise n8 144 32 3", DEPTHWISE(8, 144, 32, 3, 1)},
    {"depthwise n8 144 32 5/2", DEPTHWISE(8, 144, 32, 5, 2)},
    {"depthwise n8 240 16 5", DEPTHWISE(8, 240, 16, 5, 1)},
    {"depthwise n8 240 16 3/2", DEPTHWISE(8, 240, 16, 3, 2)},
    {"depthwise n8 384 8 3", DEPTHWISE(8, 384, 8, 3, 1)},
    {"depthwise n8 480 8 5", DEPTHWISE(8, 480, 8, 5, 1)},
    {"depthwise n8 672 8 5/2", DEPTHWISE(8, 672, 8, 5, 2)},
    {"depthwise n8 1152 4 5", DEPTHWISE(8, 1152, 4, 5, 1)},
    {"depthwise n8 1152 4 3", DEPTHWISE(8, 1152, 4, 3, 1)},
};

static void bench_convolutions(cleave_kernels *kernels, double peak) {
    for (size_t i = 0; i < sizeof convolutions / sizeof convolutions[0]; i++) {
        one_nest one;
        cleave_error error = {{0}};
        const cleave_nest *nest =
            one_nest_make_convolution(&one, &convolutions[i].shape, true, &error);
        double flops = 2;
        for (int a = 0; nest != NULL && a < nest->n_axes; a++)
            flops *= (double)nest->axes[a].extent;
        for (cleave_pass pass = 0; nest != NULL && pass < CLEAVE_PASS_UPDATE; pass++)
            report(kernels, &one, nest, convolutions[i].name, pass, flops, 0, peak, 0);
        cleave_arena_free(&one.arena);
    }
}

/* y[n, k] = x[n, c] w[k, c]; with height and width, c stands for channels of a flattened tensor
   that lies channels last. */
static const cleave_nest *make_dense(one_nest *one, int64_t n, int64_t k, int64_t c, int64_t h,
                                     int64_t w) {
    cleave_error error = {{0}};
    static const int last[] = {0, 2, 3, 1};
    one_nest_start(one, CLEAVE_NEST_PRODUCT, CLEAVE_COMBINE_SUM);
    int an = one_nest_axis(one, n), ak = one_nest_axis(one, k), ac = one_nest_axis(one, c),
        ah = one_nest_axis(one, h), aw = one_nest_axis(one, w);
    int64_t x_shape[] = {n, c, h, w}, w_shape[] = {k, c, h, w}, y_shape[] = {n, k};
    cleave_operand x = {.tensor = one_nest_activation(one, 4, x_shape, last)}, v = {0};
    v.tensor = one_nest_tensor(one, CLEAVE_TENSOR_PARAMETER, CLEAVE_F32, 4, w_shape, last);
    cleave_operand *y = &one->nest.output;
    y->tensor = one_nest_tensor(one, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, 2, y_shape, NULL);
    x.map[0] = y->map[0] = one_nest_along(an);
    v.map[0] = y->map[1] = one_nest_along(ak);
    x.map[1] = v.map[1] = one_nest_along(ac);
    x.map[2] = v.map[2] = one_nest_along(ah);
    x.map[3] = v.map[3] = one_nest_along(aw);
    *one_nest_input(one, x.tensor) = x;
    *one_nest_input(one, v.tensor) = v;
    one_nest_do(one, CLEAVE_OP_MUL, 0, 1, 0, 0);
    return one_nest_finish(one, &error);
}

static void bench_products(cleave_kernels *kernels, double peak) {
    static const struct {
        const char *name;
        int64_t n, k, c, h, w;
    } cases[] = {{"alexnet fc6 n32 256x6x6>4096", 32, 4096, 256, 6, 6},
                 {"alexnet fc7 n32 4096>4096", 32, 4096, 4096, 1, 1},
                 {"mlp n256 1024>1024", 256, 1024, 1024, 1, 1},
                 {"bert n128 768>3072", 128, 3072, 768, 1, 1},
                 {"lstm cell n8 2048>4x2048", 8, 8192, 2048, 1, 1},
                 {"square 2048", 2048, 2048, 2048, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        one_nest one;
        const cleave_nest *nest =
            make_dense(&one, cases[i].n, cases[i].k, cases[i].c, cases[i].h, cases[i].w);
        double flops = 2.0 * (double)(cases[i].n * cases[i].k) *
                       (double)(cases[i].c * cases[i].h * cases[i].w);
        for (cleave_pass pass = 0; nest != NULL && pass < CLEAVE_PASS_UPDATE; pass++)
            report(kernels, &one, nest, cases[i].name, pass, flops, 0, peak, 0);
        cleave_arena_free(&one.arena);
    }
}

/* ---- tapes, on [n, c, h, w], channels last --------------------------------------------------- */

static cleave_operand full_operand(one_nest *one, bool output, const int64_t *shape) {
    const int *last = one_nest_channels_last(4);
    cleave_operand operand = {.tensor = output ? one_nest_tensor(one, CLEAVE_TENSOR_ACTIVATION,
                                                                 CLEAVE_F32, 4, shape, last)
                                               : one_nest_activation(one, 4, shape, last)};
    for (int d = 0; d < 4; d++)
        operand.map[d] = one_nest_along(d);
    return operand;
}

static void start_image(one_nest *one, cleave_nest_kind kind, cleave_combiner combiner,
                        const int64_t *shape) {
    one_nest_start(one, kind, combiner);
    for (int d = 0; d < 4; d++)
        one_nest_axis(one, shape[d]);
}

static void add_full(one_nest *one, const int64_t *shape) {
    cleave_operand x = full_operand(one, false, shape);
    *one_nest_input(one, x.tensor) = x;
}

static void add_channel_vector(one_nest *one, int64_t channels) {
    cleave_operand x = {
        .tensor = one_nest_tensor(one, CLEAVE_TENSOR_PARAMETER, CLEAVE_F32, 1, &channels, NULL),
        .map = {one_nest_along(1)}};
    *one_nest_input(one, x.tensor) = x;
}

/* A slice of a [3, c] record, which here is a parameter. */
static void add_record_slice(one_nest *one, int64_t channels, int slice) {
    int64_t shape[] = {3, channels};
    cleave_operand x = {
        .tensor = one_nest_tensor(one, CLEAVE_TENSOR_PARAMETER, CLEAVE_F32, 2, shape, NULL),
        .map = {one_nest_fixed(slice), one_nest_along(1)}};
    *one_nest_input(one, x.tensor) = x;
}

typedef void make_tape(one_nest *one, const int64_t *shape);

static void make_relu(one_nest *one, const int64_t *shape) {
    add_full(one, shape);
    one_nest_do(one, CLEAVE_OP_RELU, 0, 0, 0, 0);
}
static void make_bias_relu(one_nest *one, const int64_t *shape) {
    add_full(one, shape);
    add_channel_vector(one, shape[1]);
    one_nest_do(one, CLEAVE_OP_RELU, one_nest_do(one, CLEAVE_OP_ADD, 0, 1, 0, 0), 0, 0, 0);
}
static void make_add(one_nest *one, const int64_t *shape) {
    add_full(one, shape);
    add_full(one, shape);
    one_nest_do(one, CLEAVE_OP_ADD, 0, 1, 0, 0);
}
/* (x - mean) / sqrt(M2 / n + eps) x gamma + beta */
static void make_normalize(one_nest *one, const int64_t *shape) {
    add_full(one, shape);
    add_record_slice(one, shape[1], 1);
    add_record_slice(one, shape[1], 2);
    add_channel_vector(one, shape[1]);
    add_channel_vector(one, shape[1]);
    int centred = one_nest_do(one, CLEAVE_OP_SUB, 0, 1, 0, 0);
    int variance = one_nest_do(one, CLEAVE_OP_SCALE, 2, 0, 1e-3, 1e-5);
    int inverse = one_nest_do(one, CLEAVE_OP_RSQRT, variance, 0, 0, 0);
    int factor = one_nest_do(one, CLEAVE_OP_MUL, inverse, 3, 0, 0);
    int scaled = one_nest_do(one, CLEAVE_OP_MUL, centred, factor, 0, 0);
    one_nest_do(one, CLEAVE_OP_ADD, scaled, 4, 0, 0);
}
static void make_dropout(one_nest *one, const int64_t *shape) {
    add_full(one, shape);
    one_nest_do(one, CLEAVE_OP_DROPOUT, 0, 0, 0.5, 0);
}

static void bench_tapes(cleave_kernels *kernels, double copy) {
    static const struct {
        const char *name;
        make_tape *make;
        int forward, backward; /* full arrays read and written */
    } cases[] = {{"relu", make_relu, 2, 3},
                 {"bias and relu", make_bias_relu, 2, 3},
                 {"residual add", make_add, 3, 3},
                 {"batch norm application", make_normalize, 2, 3},
                 {"dropout", make_dropout, 2, 2}};
    static const int64_t shapes[][4] = {{8, 64, 112, 112}, {8, 512, 28, 28}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int s = 0; s < 2; s++) {
            one_nest one;
            cleave_error error = {{0}};
            char name[64];
            start_image(&one, CLEAVE_NEST_POINTWISE, CLEAVE_COMBINE_NONE, shapes[s]);
            cases[i].make(&one, shapes[s]);
            one.nest.output = full_operand(&one, true, shapes[s]);
            const cleave_nest *nest = one_nest_finish(&one, &error);
            double array =
                4.0 * (double)(shapes[s][0] * shapes[s][1]) * (double)(shapes[s][2] * shapes[s][3]);
            snprintf(name, sizeof name, "%s, %d channels", cases[i].name, (int)shapes[s][1]);
            if (nest == NULL)
                printf("%s: %s\n", name, error.message);
            for (int pass = 0; nest != NULL && pass < 2; pass++)
                report(kernels, &one, nest, name, (cleave_pass)pass, 0,
                       array * (pass == 0 ? cases[i].forward : cases[i].backward), 0, copy);
            cleave_arena_free(&one.arena);
        }
}

static void bench_moments(cleave_kernels *kernels, double copy) {
    static const int64_t shape[] = {8, 64, 112, 112}, record[] = {3, 64};
    one_nest one;
    cleave_error error = {{0}};
    start_image(&one, CLEAVE_NEST_MOMENTS, CLEAVE_COMBINE_MOMENTS, shape);
    int q = one_nest_axis(&one, 3);
    add_full(&one, shape);
    one_nest_do(&one, CLEAVE_OP_COPY, 0, 0, 0, 0);
    one.nest.output = (cleave_operand){
        .tensor = one_nest_tensor(&one, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, 2, record, NULL),
        .map = {one_nest_along(q), one_nest_along(1)}};
    const cleave_nest *nest = one_nest_finish(&one, &error);
    double array = 4.0 * 8 * 64 * 112 * 112;
    for (int pass = 0; nest != NULL && pass < 2; pass++)
        report(kernels, &one, nest, "moments, 64 channels", (cleave_pass)pass, 0,
               array * (pass + 1), 0, copy);
    cleave_arena_free(&one.arena);
}

static void bench_pool(cleave_kernels *kernels, cleave_combiner combiner, double copy) {
    static const int64_t x_shape[] = {32, 64, 55, 55}, y_shape[] = {32, 64, 27, 27};
    const int *last = one_nest_channels_last(4);
    one_nest one;
    cleave_error error = {{0}};
    start_image(&one, CLEAVE_NEST_POOL, combiner, y_shape);
    int r = one_nest_axis(&one, 3), s = one_nest_axis(&one, 3);
    cleave_operand x = {.tensor = one_nest_activation(&one, 4, x_shape, last),
                        .map = {one_nest_along(0), one_nest_along(1),
                                one_nest_window(0, 2, 2, r, 1), one_nest_window(0, 3, 2, s, 1)}};
    *one_nest_input(&one, x.tensor) = x;
    one.nest.output = full_operand(&one, true, y_shape);
    one_nest_do(&one, CLEAVE_OP_COPY, 0, 0, 0, 0);
    const cleave_nest *nest = one_nest_finish(&one, &error);
    double in = 4.0 * 32 * 64 * 55 * 55, out = 4.0 * 32 * 64 * 27 * 27;
    for (int pass = 0; nest != NULL && pass < 2; pass++)
        report(kernels, &one, nest,
               combiner == CLEAVE_COMBINE_MAX ? "max pool 3/2" : "average pool 3/2",
               (cleave_pass)pass, 0,
               pass == 0                        ? in + out
               : combiner == CLEAVE_COMBINE_MAX ? 2 * in + out
                                                : in + out,
               0, copy);
    cleave_arena_free(&one.arena);
}

/* ---- elementary functions, on a tile of 4096 values of -4 to 4 --------------------------------
 */

enum { TILE = 4096 };

#define BY_LIBRARY(name, expression)                                                               \
    static void library_##name(int n, const float *x, float *y) {                                  \
        for (int i = 0; i < n; i++)                                                                \
            y[i] = expression;                                                                     \
    }
BY_LIBRARY(exp, expf(x[i]))
BY_LIBRARY(log, logf(x[i]))
BY_LIBRARY(log1p, log1pf(x[i]))
BY_LIBRARY(tanh, tanhf(x[i]))
BY_LIBRARY(sigmoid, 1.0f / (1.0f + expf(-x[i])))
BY_LIBRARY(erf, erff(x[i]))

typedef void array_function(int n, const float *x, float *y);

/* Seconds for one element, of the fastest of some repeats. */
static double seconds_per_element(array_function *function, const float *x, float *y) {
    double least = 1, end = cleave_clock_seconds() + seconds_per_case / 2;
    for (;;) {
        double start = cleave_clock_seconds();
        function(TILE, x, y);
        double now = cleave_clock_seconds();
        least = now - start < least ? now - start : least;
        if (now > end)
            return least / TILE;
    }
}

static void bench_functions(void) {
    static const struct {
        const char *name;
        array_function *vector, *library;
        bool positive; /* arguments */
    } cases[] = {{"exp", cleave_vector_exp, library_exp, false},
                 {"log", cleave_vector_log, library_log, true},
                 {"log1p", cleave_vector_log1p, library_log1p, true},
                 {"tanh", cleave_vector_tanh, library_tanh, false},
                 {"sigmoid", cleave_vector_sigmoid, library_sigmoid, false},
                 {"erf", cleave_vector_erf, library_erf, false}};
    static float x[TILE], y[TILE];
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        if (!is_wanted(cases[c].name))
            continue;
        for (int i = 0; i < TILE; i++)
            x[i] = (float)(i * 1237 % TILE) * (8.0f / TILE) - (cases[c].positive ? -0.001f : 4.0f);
        double vector = seconds_per_element(cases[c].vector, x, y),
               library = seconds_per_element(cases[c].library, x, y);
        printf("%-34s %7.3f ns an element, C library %7.3f ns, %5.1f times\n", cases[c].name,
               vector * 1e9, library * 1e9, library / vector);
    }
}

int main(int argc, char **argv) {
    cleave_error error = {{0}};
    cleave_kernels *kernels = NULL;
    cleave_measurement copy;
    bench_arguments a = bench_begin(argc, argv);
    seconds_per_case = bench_take_number(&a, "SECONDS_PER_CASE", 0, 1e6, seconds_per_case);
    only = *a.words != NULL ? bench_take(&a) : "";
    bench_end(&a);
    const cleave_measured_bytes bytes = {
        .bytes = 25 << 20, .touched_bytes = -1, .seconds_budget = 2 * seconds_per_case};
    if (cleave_kernels_create(&kernels, &error) != CLEAVE_OK ||
        cleave_copy_measure(&bytes, CLEAVE_COPY_ASSIGN, &copy, &error) != CLEAVE_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    double peak = bench_peak_gflops(), bytes_per_second = 2.0 * (25 << 20) / copy.least_seconds;
    printf("%s\npeak of this core %.1f GFLOP/s, copy %.2f GB/s (read and written)\n",
           cleave_kernels_version(), peak, bytes_per_second / 1e9);
    bench_functions();
    bench_tapes(kernels, bytes_per_second);
    bench_moments(kernels, bytes_per_second);
    bench_pool(kernels, CLEAVE_COMBINE_MAX, bytes_per_second);
    bench_pool(kernels, CLEAVE_COMBINE_SUM, bytes_per_second);
    bench_products(kernels, peak);
    bench_convolutions(kernels, peak);
    cleave_kernels_destroy(kernels);
    if (!found)
        bench_refuse(&a, "PART_OF_A_NAME %s: in none of %s", only, left_out);
    return 0;
}
