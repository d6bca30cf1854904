/* Kernels on small examples whose results are worked out by hand. */
#include "../../support/ok.h"
#include "../../support/one_nest.h"
#include "exec/measure/measure.h"

#include <criterion/criterion.h>
#include <math.h>

static cleave_kernels *make_kernels(void) {
    cleave_kernels *kernels = NULL;
    OK(cleave_kernels_create, &kernels);
    return kernels;
}

/* Runs with a workspace of the kernel's own size. */
static void run(cleave_kernels *kernels, cleave_kernel_call *call) {
    int64_t bytes =
        cleave_kernel_workspace(kernels, call->model, call->nest, call->pass, &call->part);
    void *workspace = one_nest_memory(bytes);
    call->workspace = workspace;
    call->workspace_bytes = bytes;
    OK(cleave_kernel_run, kernels, call);
    free(workspace);
}

static cleave_kernel_call whole_call(const one_nest *one, const cleave_nest *nest,
                                     cleave_pass pass) {
    cleave_kernel_call call;
    cleave_part part = cleave_part_whole(nest, 0);
    cleave_kernel_call_describe(&one->model, nest, pass, &part, &call);
    return call;
}

static void expect_floats(const float *got, const float *expected, int n) {
    for (int i = 0; i < n; i++)
        cr_expect(fabs((double)got[i] - (double)expected[i]) < 1e-5, "element %d: %g for %g", i,
                  (double)got[i], (double)expected[i]);
}

/* max(x) over a window of 2, stride 1, of 3 values per image in one channel. */
static const cleave_nest *make_max_pool(one_nest *one) {
    cleave_error error = {{0}};
    one_nest_start(one, CLEAVE_NEST_POOL, CLEAVE_COMBINE_MAX);
    int n = one_nest_axis(one, 1), c = one_nest_axis(one, 1), h = one_nest_axis(one, 2),
        r = one_nest_axis(one, 2);
    int64_t x_shape[] = {1, 1, 3}, y_shape[] = {1, 1, 2};
    cleave_operand x = {
        .tensor = one_nest_activation(one, 3, x_shape, one_nest_channels_last(3)),
        .map = {one_nest_along(n), one_nest_along(c), one_nest_window(0, h, 1, r, 1)}};
    *one_nest_input(one, x.tensor) = x;
    one->nest.output =
        (cleave_operand){.tensor = one_nest_tensor(one, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, 3,
                                                   y_shape, one_nest_channels_last(3)),
                         .map = {one_nest_along(n), one_nest_along(c), one_nest_along(h)}};
    one_nest_do(one, CLEAVE_OP_COPY, 0, 0, 0, 0);
    const cleave_nest *nest = one_nest_finish(one, &error);
    cr_assert(nest != NULL, "%s", error.message);
    return nest;
}

Test(kernels, ties_of_a_max_pool_go_to_the_first_of_the_window) {
    one_nest one;
    const cleave_nest *nest = make_max_pool(&one);
    cleave_kernels *kernels = make_kernels();
    float x[3] = {5, 5, 5}, dy[2] = {1, 10}, dx[3] = {-1, -1, -1};
    cleave_kernel_call call = whole_call(&one, nest, CLEAVE_PASS_INPUT_GRADIENT);
    call.inputs[0].data = x;
    call.output_gradient.data = dy;
    call.input_gradients[0].data = dx;
    run(kernels, &call);
    expect_floats(dx, (float[]){1, 10, 0}, 3);
    cleave_kernels_destroy(kernels);
    cleave_arena_free(&one.arena);
}

/* {count, mean, M2} of n values. */
static const cleave_nest *make_moments(one_nest *one, int64_t n) {
    cleave_error error = {{0}};
    const int64_t y_shape[] = {3};
    one_nest_start(one, CLEAVE_NEST_MOMENTS, CLEAVE_COMBINE_MOMENTS);
    int axis = one_nest_axis(one, n), record = one_nest_axis(one, 3);
    cleave_operand x = {.tensor = one_nest_activation(one, 1, &n, NULL),
                        .map = {one_nest_along(axis)}};
    *one_nest_input(one, x.tensor) = x;
    one->nest.output = (cleave_operand){
        .tensor = one_nest_tensor(one, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, 1, y_shape, NULL),
        .map = {one_nest_along(record)}};
    one_nest_do(one, CLEAVE_OP_COPY, 0, 0, 0, 0);
    const cleave_nest *nest = one_nest_finish(one, &error);
    cr_assert(nest != NULL, "%s", error.message);
    return nest;
}

/* Mean 3 and M2 14 of {1, 2, 6}; d x = d mean / 3 + 2 (x - 3) d M2, here with d mean = 6 and
   d M2 = 0.5: 2 + (x - 3) = 0, 1, 5. */
Test(kernels, moments_and_their_gradient_by_hand) {
    one_nest one;
    const cleave_nest *nest = make_moments(&one, 3);
    cleave_kernels *kernels = make_kernels();
    float values[3] = {1, 2, 6}, record[3] = {0}, gradient[3] = {99, 6, 0.5f}, dx[3];
    cleave_kernel_call call = whole_call(&one, nest, CLEAVE_PASS_FORWARD);
    call.inputs[0].data = values;
    call.output.data = record;
    run(kernels, &call);
    expect_floats(record, (float[]){3, 3, 14}, 3);
    call = whole_call(&one, nest, CLEAVE_PASS_INPUT_GRADIENT);
    call.inputs[0].data = values;
    call.combined.data = record;
    call.output_gradient.data = gradient;
    call.input_gradients[0].data = dx;
    run(kernels, &call);
    expect_floats(dx, (float[]){0, 1, 5}, 3);
    cleave_kernels_destroy(kernels);
    cleave_arena_free(&one.arena);
}

/* 1-d, one channel, weights {1, 10, 100}, x = {1, 2, 3}, padding 1: 0 x 1 + 1 x 10 + 2 x 100 = 210,
   1 + 20 + 300 = 321, 2 + 30 + 0 = 32. */
static const one_nest_convolution small_convolution = {.spatial = 1,
                                                       .batch = 1,
                                                       .groups = 1,
                                                       .c = 1,
                                                       .k = 1,
                                                       .in = {3},
                                                       .window = {3},
                                                       .stride = {1},
                                                       .dilation = {1},
                                                       .pad_lo = {1},
                                                       .pad_hi = {1}};

Test(kernels, a_convolution_pads_with_nothing) {
    one_nest one;
    cleave_error error = {{0}};
    const cleave_nest *nest = one_nest_make_convolution(&one, &small_convolution, true, &error);
    cr_assert(nest != NULL, "%s", error.message);
    cleave_kernels *kernels = make_kernels();
    float x[3] = {1, 2, 3}, w[3] = {1, 10, 100}, y[3];
    cleave_kernel_call call = whole_call(&one, nest, CLEAVE_PASS_FORWARD);
    call.inputs[0].data = x;
    call.inputs[1].data = w;
    call.output.data = y;
    run(kernels, &call);
    expect_floats(y, (float[]){210, 321, 32}, 3);
    cleave_kernels_destroy(kernels);
    cleave_arena_free(&one.arena);
}

/* With windows far apart and much padding, the first output's window lies wholly in the padding. */
Test(kernels, a_part_that_reads_only_padding_gives_zero) {
    one_nest one;
    cleave_error error = {{0}};
    one_nest_convolution wide = small_convolution;
    wide.pad_lo[0] = 4;
    const cleave_nest *nest = one_nest_make_convolution(&one, &wide, true, &error);
    cr_assert(nest != NULL, "%s", error.message);
    cleave_kernels *kernels = make_kernels();
    float x[3] = {1, 2, 3}, w[3] = {1, 10, 100}, y[1] = {-1}, dw[3] = {-1, -1, -1}, dy[1] = {7};
    cleave_kernel_call call;
    cleave_part part = cleave_part_whole(nest, 0);
    part.hi[2] = 1; /* axes n k h c r: the first position of h */
    cleave_kernel_call_describe(&one.model, nest, CLEAVE_PASS_FORWARD, &part, &call);
    call.inputs[0].data = x;
    call.inputs[1].data = w;
    call.output.data = y;
    run(kernels, &call);
    expect_floats(y, (float[]){0}, 1);
    call.pass = CLEAVE_PASS_WEIGHT_GRADIENT;
    call.output_gradient.data = dy;
    call.input_gradients[1].data = dw;
    run(kernels, &call);
    expect_floats(dw, (float[]){0, 0, 0}, 3);
    cleave_kernels_destroy(kernels);
    cleave_arena_free(&one.arena);
}

static const cleave_nest *make_relu(one_nest *one, int64_t n) {
    cleave_error error = {{0}};
    one_nest_start(one, CLEAVE_NEST_POINTWISE, CLEAVE_COMBINE_NONE);
    int axis = one_nest_axis(one, n);
    cleave_operand x = {.tensor = one_nest_activation(one, 1, &n, NULL),
                        .map = {one_nest_along(axis)}};
    *one_nest_input(one, x.tensor) = x;
    one->nest.output = (cleave_operand){
        .tensor = one_nest_tensor(one, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, 1, &n, NULL),
        .map = {one_nest_along(axis)}};
    one_nest_do(one, CLEAVE_OP_RELU, 0, 0, 0, 0);
    const cleave_nest *nest = one_nest_finish(one, &error);
    cr_assert(nest != NULL, "%s", error.message);
    return nest;
}

Test(kernels, a_relu_runs_in_place_and_back_from_its_output_alone) {
    one_nest one;
    const cleave_nest *nest = make_relu(&one, 4);
    cr_assert(nest->in_place && nest->kept_output && nest->kept_inputs == 0);
    cleave_kernels *kernels = make_kernels();
    float x[4] = {-1, 2, 0, 3}, dy[4] = {1, 2, 3, 4}, dx[4];
    cleave_kernel_call call = whole_call(&one, nest, CLEAVE_PASS_FORWARD);
    call.inputs[0].data = call.output.data = x;
    run(kernels, &call);
    expect_floats(x, (float[]){0, 2, 0, 3}, 4);
    call = whole_call(&one, nest, CLEAVE_PASS_INPUT_GRADIENT);
    call.output.data = x;
    call.output_gradient.data = dy;
    call.input_gradients[0].data = dx;
    run(kernels, &call);
    expect_floats(dx, (float[]){0, 2, 0, 4}, 4);
    cleave_kernels_destroy(kernels);
    cleave_arena_free(&one.arena);
}

/* The mean of 10^6 + {0, 1, 2, ...} over 2^16 values: a sum of squares in floats would lose it. */
Test(kernels, moments_of_large_offsets_keep_their_digits) {
    one_nest one;
    const int64_t n = 1 << 16;
    const cleave_nest *nest = make_moments(&one, n);
    cleave_kernels *kernels = make_kernels();
    float *values = one_nest_memory(n * 4), record[3];
    for (int64_t i = 0; i < n; i++)
        values[i] = 1e6f + (float)(i % 2); /* mean 10^6 + 1/2, M2 n / 4 */
    cleave_kernel_call call = whole_call(&one, nest, CLEAVE_PASS_FORWARD);
    call.inputs[0].data = values;
    call.output.data = record;
    run(kernels, &call);
    cr_expect(fabs((double)record[1] - 1000000.5) < 1e-3, "mean %.9g", (double)record[1]);
    cr_expect(fabs((double)record[2] - 16384) < 1e-2, "M2 %.9g", (double)record[2]);
    free(values);
    cleave_kernels_destroy(kernels);
    cleave_arena_free(&one.arena);
}

Test(kernels, a_workspace_too_small_is_refused) {
    one_nest one;
    const cleave_nest *nest = make_relu(&one, 4);
    cleave_kernels *kernels = make_kernels();
    cleave_error error = {{0}};
    float x[4] = {0};
    cleave_kernel_call call = whole_call(&one, nest, CLEAVE_PASS_FORWARD);
    call.inputs[0].data = call.output.data = x;
    cr_expect(cleave_kernel_run(kernels, &call, &error) == CLEAVE_FAILED);
    cr_expect(strstr(error.message, nest->name) != NULL, "%s", error.message);
    cleave_kernels_destroy(kernels);
    cleave_arena_free(&one.arena);
}

Test(measure, a_longer_kernel_takes_longer) {
    cleave_kernels *kernels = make_kernels();
    cleave_measurement small = {0}, large = {0}, copy = {0};
    one_nest one, other;
    const cleave_nest *nest = make_relu(&one, 1 << 10), *big = make_relu(&other, 1 << 22);
    cleave_part part = cleave_part_whole(nest, 0), big_part = cleave_part_whole(big, 0);
    const cleave_measured_bytes bytes = {
        .bytes = 1 << 20, .touched_bytes = -1, .seconds_budget = 0.02};
    cleave_kernel_call call;
    cleave_kernel_call_describe(&one.model, nest, CLEAVE_PASS_FORWARD, &part, &call);
    OK(cleave_kernel_measure, kernels, &call, NULL, 0.05, &small);
    cleave_kernel_call_describe(&other.model, big, CLEAVE_PASS_FORWARD, &big_part, &call);
    OK(cleave_kernel_measure, kernels, &call, NULL, 0.05, &large);
    OK(cleave_copy_measure, &bytes, CLEAVE_COPY_SUM, &copy);
    cr_expect(small.repeats >= 1 && small.seconds > 0 && small.spread >= 0 && copy.seconds > 0);
    /* 4096 times the work: ten times is beyond any noise */
    cr_expect(large.seconds > 10 * small.seconds, "%g and %g", small.seconds, large.seconds);
    cleave_kernels_destroy(kernels);
    cleave_arena_free(&one.arena);
    cleave_arena_free(&other.arena);
}
