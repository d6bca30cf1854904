/* Every fast kernel against the reference, over random nests and random parts of them, every pass.

   Each is cut into a random number of pieces.  Some gradients are added to what is there.

   Operands that the model says backward does not read are withheld, results are poisoned before
   the call, and the workspace has a fence behind it. */
#include "../support/draws.h"
#include "../support/ok.h"
#include "../support/random_call.h"
#include "../support/random_nest.h"
#include "base/bf16.h"
#include "exec/kernels/contraction.h"
#include "exec/kernels/kernel_tile.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>

enum { FENCE_BYTES = 256, FENCE = 0x5a };

/* Calls, by the name of their kernel, or of what it did there. */
typedef struct tally {
    int n_calls, n;
    struct {
        const char *what;
        int n_calls;
    } counts[16];
} tally;

static int *count_of(tally *seen, const char *what) {
    int i = 0;
    while (i < seen->n && strcmp(seen->counts[i].what, what) != 0)
        i++;
    if (i == seen->n)
        seen->counts[seen->n++].what = what;
    return &seen->counts[i].n_calls;
}

/* Largest difference, relative to the largest value there is. */
static double difference(const float *a, const float *b, int64_t n) {
    double worst = 0, largest = 1e-3;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (isinf(a[i]) && isinf(b[i]) && a[i] * b[i] > 0)
            continue;
        worst = isnan(d) ? HUGE_VAL : fmax(worst, d);
        largest = fmax(largest, isinf(a[i]) ? 0.0 : fabs((double)a[i]));
    }
    return worst / largest;
}

static void poison(float *a, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        a[i] = NAN;
}

/* What a result is before the call: poison, or what is added to. */
static void prepare(float *a, int64_t n, bool added_to) {
    poison(a, n);
    for (int64_t i = 0; i < n && added_to; i++)
        a[i] = (float)(i % 7) / 4;
}

static cleave_status count_poll(void *context, cleave_error *error) {
    (void)error;
    ++*(int *)context;
    return CLEAVE_OK;
}

/* The kernels, of which `row` is taken wherever it can do a call at all; null: the fastest. */
typedef struct subject {
    cleave_kernels *kernels;
    const cleave_kernel_row *row;
} subject;

static int64_t workspace_of(const subject *of, const cleave_kernel_call *call) {
    return of->row != NULL ? of->row->workspace(of->kernels, call)
                           : cleave_kernel_call_workspace(of->kernels, call);
}

static cleave_status run(const subject *of, const cleave_kernel_call *call, cleave_error *error) {
    return of->row != NULL ? of->row->run(of->kernels, call, error)
                           : cleave_kernel_run(of->kernels, call, error);
}

/* Runs one pass twice and returns the worst difference of any result. */
static double compare_pass(const subject *of, random_call *made, cleave_pass pass, int32_t pieces,
                           uint32_t accumulated, tally *seen) {
    const cleave_nest *nest = made->nest;
    cleave_kernel_call call = random_call_of_pass(made, pass);
    call.accumulated = accumulated;
    if (of->row != NULL && workspace_of(of, &call) == 0)
        return 0;
    cleave_tile_plan plan;
    *count_of(seen, "lines") += cleave_tile_plan_make(&call, &plan) && plan.channels.fits;
    contraction apart;
    int wanted = pass == CLEAVE_PASS_FORWARD ? -1 : pass == CLEAVE_PASS_WEIGHT_GRADIENT ? 1 : 0;
    *count_of(seen, "packed") += nest->kind == CLEAVE_NEST_PRODUCT &&
                                 contraction_take_apart(&call, wanted, 1, &apart) &&
                                 apart.packed >= 0;
    const char *kernel = of->row != NULL ? of->row->name : cleave_kernel_choice(of->kernels, &call);
    ++*count_of(seen, kernel);
    *count_of(seen, "fast") += strcmp(kernel, "reference") != 0;
    seen->n_calls++;
    int polls = 0;
    call.pieces = pieces;
    call.poll = count_poll;
    call.poll_context = &polls;
    int64_t bytes = workspace_of(of, &call);
    char *workspace = one_nest_memory(bytes + FENCE_BYTES);
    poison((float *)workspace, bytes / 4);
    memset(workspace + bytes, FENCE, FENCE_BYTES);
    call.workspace = workspace;
    call.workspace_bytes = bytes;

    cleave_array *results[CLEAVE_MAX_INPUTS];
    const cleave_operand *operands[CLEAVE_MAX_INPUTS];
    bool added_to[CLEAVE_MAX_INPUTS] = {false};
    float *expected[CLEAVE_MAX_INPUTS];
    int n_results = 0;
    if (pass == CLEAVE_PASS_FORWARD) {
        operands[n_results] = &nest->output;
        results[n_results++] = &call.output;
    }
    uint32_t gradients = cleave_nest_pass_inputs(made->model, nest, pass);
    for (int i = 0; i < nest->n_inputs; i++)
        if (gradients >> i & 1) {
            operands[n_results] = &nest->inputs[i];
            added_to[n_results] = (accumulated >> i & 1) != 0;
            results[n_results++] = &call.input_gradients[i];
        }
    for (int r = 0; r < n_results; r++)
        prepare(results[r]->data, one_nest_bytes(&call, operands[r], results[r]) / 4, added_to[r]);
    OK(cleave_kernel_run_reference, &call);
    for (int r = 0; r < n_results; r++) {
        int64_t size = one_nest_bytes(&call, operands[r], results[r]);
        expected[r] = one_nest_memory(size);
        memcpy(expected[r], results[r]->data, (size_t)size);
        prepare(results[r]->data, size / 4, added_to[r]);
    }
    polls = 0;
    OK(run, of, &call);
    bool two_products = gradients == 3; /* each has the pieces */
    cr_expect(polls <= (pieces - 1) * (two_products ? 2 : 1), "%d polls of %d pieces", polls,
              pieces);
    *count_of(seen, "polled") += polls > 0;
    double worst = 0;
    for (int r = 0; r < n_results; r++) {
        worst = fmax(worst, difference(expected[r], results[r]->data,
                                       one_nest_bytes(&call, operands[r], results[r]) / 4));
        free(expected[r]);
    }
    for (int i = 0; i < FENCE_BYTES; i++)
        cr_assert(workspace[bytes + i] == FENCE, "the kernel wrote beyond its workspace");
    free(workspace);
    return worst;
}

/* Programs have such passes add to gradients. */
static bool adds(const cleave_nest *nest, cleave_pass pass) {
    return pass != CLEAVE_PASS_FORWARD && nest->kind != CLEAVE_NEST_CONVOLUTION &&
           nest->kind != CLEAVE_NEST_POOL;
}

static tally compare_many(const cleave_kernel_row *row, random_nest_maker *make, uint64_t n) {
    cleave_error error = {{0}};
    subject of = {.row = row};
    OK(cleave_kernels_create, &of.kernels);
    tally seen = {0};
    for (uint64_t seed = seed_from(0); seed < seed_end((int)n); seed++) {
        cleave_random random = {.key = seed};
        one_nest one;
        const cleave_nest *nest = make(&one, &random, &error);
        cr_assert(nest != NULL, "seed %llu: %s", (unsigned long long)seed, error.message);
        for (int p = 0; p < 3; p++) {
            random_call made;
            random_call_make(&one.model, nest, &random, p == 0, &made);
            for (cleave_pass pass = CLEAVE_PASS_FORWARD; pass < CLEAVE_PASS_UPDATE; pass++) {
                if (pass != CLEAVE_PASS_FORWARD &&
                    cleave_nest_pass_inputs(&one.model, nest, pass) == 0)
                    continue;
                int32_t pieces = (int32_t)draw(&random, 1, 9);
                uint32_t accumulated =
                    row == NULL && adds(nest, pass) ? (uint32_t)draw(&random, 0, 7) : 0;
                *count_of(&seen, "added") += accumulated != 0;
                double worst = compare_pass(&of, &made, pass, pieces, accumulated, &seen);
                cr_expect(worst < 1e-4, "seed %llu, part %d, %s: %g off", (unsigned long long)seed,
                          p, cleave_pass_names[pass], worst);
            }
            random_call_free(&made);
        }
        cleave_arena_free(&one.arena);
    }
    cleave_kernels_destroy(of.kernels);
    return seen;
}

/* Windows of 3 x 3 on an image of one group. */
static one_nest_convolution image(int64_t batch, int64_t c, int64_t k, int64_t height,
                                  int64_t width) {
    return (one_nest_convolution){.spatial = 2,
                                  .batch = batch,
                                  .groups = 1,
                                  .c = c,
                                  .k = k,
                                  .in = {height, width},
                                  .window = {3, 3},
                                  .stride = {1, 1},
                                  .dilation = {1, 1},
                                  .pad_lo = {1, 1},
                                  .pad_hi = {1, 1}};
}

/* 32 x 32 points of the output are enough for the gradient of the weights to be cut by samples; 5
   of them in 2 and in 3 pieces are of unequal length. */
static const cleave_nest *cut_convolution(one_nest *one, cleave_random *random,
                                          cleave_error *error) {
    int64_t c = draw(random, 1, 5), k = draw(random, 1, 18);
    one_nest_convolution shape = image(5, c, k, 32, 32);
    return one_nest_make_convolution(one, &shape, chance(random, 50), error);
}

/* What minimal filtering can do, also where it saves nothing: tiles that reach beyond the result,
   blocks of unequal length, channels that fill no vector. */
static const cleave_nest *filtering(one_nest *one, cleave_random *random, cleave_error *error) {
    int64_t window = chance(random, 50) ? 3 : 5;
    one_nest_convolution shape = {.spatial = 2,
                                  .batch = draw(random, 1, 3),
                                  .groups = 1,
                                  .c = draw(random, 1, 20),
                                  .k = draw(random, 1, 20)};
    for (int s = 0; s < 2; s++) {
        shape.in[s] = draw(random, window, 12);
        shape.window[s] = window;
        shape.stride[s] = shape.dilation[s] = 1;
        shape.pad_lo[s] = draw(random, 0, window - 1);
        shape.pad_hi[s] = draw(random, 0, window - 1);
    }
    return one_nest_make_convolution(one, &shape, chance(random, 50), error);
}

/* 7,920 tiles of 6 x 6 points, which are two blocks. */
static const cleave_nest *many_tiles(one_nest *one, cleave_random *random, cleave_error *error) {
    one_nest_convolution shape = image(4, 2, 2, 175, 180);
    return one_nest_make_convolution(one, &shape, chance(random, 50), error);
}

/* Wide windows over channels that fill no block or several, some over so many points that these are
   several bands, of samples or of rows. */
static const cleave_nest *depthwise(one_nest *one, cleave_random *random, cleave_error *error) {
    one_nest_convolution shape = {.spatial = (int)draw(random, 1, 2),
                                  .batch = draw(random, 1, 9),
                                  .groups = draw(random, 16, 50),
                                  .c = 1,
                                  .k = 1,
                                  .splits_groups = chance(random, 20)};
    bool large = chance(random, 50);
    for (int s = 0; s < shape.spatial; s++) {
        bool across = s == shape.spatial - 1;
        shape.window[s] = across ? (int64_t[]){4, 5, 7}[draw(random, 0, 2)] : draw(random, 1, 7);
        shape.in[s] = draw(random, 1, 9) + (large ? 50 : shape.window[s] - 1);
        shape.stride[s] = draw(random, 1, 3);
        shape.dilation[s] = 1;
        shape.pad_lo[s] = draw(random, 0, shape.window[s] - 1);
        shape.pad_hi[s] = draw(random, 0, shape.window[s] - 1);
    }
    return one_nest_make_convolution(one, &shape, chance(random, 50), error);
}

/* Windows, of one point mostly, that step over some in one dimension at least.  A large one has too
   many points for all samples at once. */
static const cleave_nest *stepping(one_nest *one, cleave_random *random, cleave_error *error) {
    one_nest_convolution shape = {.spatial = (int)draw(random, 1, 3),
                                  .batch = draw(random, 1, 4),
                                  .groups = 1,
                                  .c = draw(random, 1, 40),
                                  .k = draw(random, 1, 40)};
    bool point = chance(random, 60);
    for (int s = 0; s < shape.spatial; s++) {
        shape.window[s] = point ? 1 : draw(random, 1, 3);
        shape.dilation[s] = chance(random, 25) ? 2 : 1;
        int64_t reach = (shape.window[s] - 1) * shape.dilation[s];
        shape.pad_lo[s] = draw(random, 0, reach);
        shape.pad_hi[s] = draw(random, 0, reach);
        shape.in[s] = draw(random, reach + 1, 9);
        shape.stride[s] = s == 0 ? draw(random, 2, 3) : draw(random, 1, 3);
    }
    return one_nest_make_convolution(one, &shape, chance(random, 50), error);
}

/* 49 x 49 points of 9 x 40 numbers are 0.8 Mi of 1 Mi numbers: a sample at a time. */
static const cleave_nest *stepping_far(one_nest *one, cleave_random *random, cleave_error *error) {
    one_nest_convolution shape = image(3, 40, draw(random, 1, 4), 98, 98);
    for (int s = 0; s < 2; s++) {
        shape.stride[s] = 2;
        shape.pad_hi[s] = 0;
    }
    return one_nest_make_convolution(one, &shape, chance(random, 50), error);
}

static const cleave_nest *wide_product(one_nest *one, cleave_random *random, cleave_error *error) {
    one_nest_start(one, CLEAVE_NEST_PRODUCT, CLEAVE_COMBINE_SUM);
    int n = one_nest_axis(one, draw(random, 1, 300)),
        k = one_nest_axis(one, draw(random, 300, 600)),
        c = one_nest_axis(one, draw(random, 20, 40));
    int64_t extents[] = {one->nest.axes[n].extent, one->nest.axes[k].extent,
                         one->nest.axes[c].extent};
    int32_t x = one_nest_activation(one, 2, (int64_t[]){extents[0], extents[2]}, NULL);
    int32_t w = one_nest_tensor(one, CLEAVE_TENSOR_PARAMETER, CLEAVE_F32, 2,
                                (int64_t[]){extents[1], extents[2]}, NULL);
    int32_t y = one_nest_tensor(one, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, 2,
                                (int64_t[]){extents[0], extents[1]}, NULL);
    *one_nest_input(one, x) =
        (cleave_operand){.tensor = x, .map = {one_nest_along(n), one_nest_along(c)}};
    *one_nest_input(one, w) =
        (cleave_operand){.tensor = w, .map = {one_nest_along(k), one_nest_along(c)}};
    one->nest.output = (cleave_operand){.tensor = y, .map = {one_nest_along(n), one_nest_along(k)}};
    one_nest_do(one, CLEAVE_OP_MUL, 0, 1, 0, 0);
    return one_nest_finish(one, error);
}

/* Steps by samples before, samples by steps behind, as in recurrences. */
static const cleave_nest *turned_product(one_nest *one, cleave_random *random,
                                         cleave_error *error) {
    one_nest_start(one, CLEAVE_NEST_PRODUCT, CLEAVE_COMBINE_SUM);
    const int64_t extents[] = {draw(random, 2, 6), draw(random, 2, 6), draw(random, 1030, 1100),
                               draw(random, 1, 9)};
    enum { SAMPLE, STEP, TO, FROM };
    for (int a = 0; a < 4; a++)
        one_nest_axis(one, extents[a]);
    int32_t x = one_nest_activation(
        one, 3, (int64_t[]){extents[STEP], extents[SAMPLE], extents[FROM]}, NULL);
    int32_t w = one_nest_tensor(one, CLEAVE_TENSOR_PARAMETER, CLEAVE_F32, 2,
                                (int64_t[]){extents[TO], extents[FROM]}, NULL);
    int32_t y = one_nest_tensor(one, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, 3,
                                (int64_t[]){extents[SAMPLE], extents[STEP], extents[TO]}, NULL);
    *one_nest_input(one, x) = (cleave_operand){
        .tensor = x, .map = {one_nest_along(STEP), one_nest_along(SAMPLE), one_nest_along(FROM)}};
    *one_nest_input(one, w) =
        (cleave_operand){.tensor = w, .map = {one_nest_along(TO), one_nest_along(FROM)}};
    one->nest.output = (cleave_operand){
        .tensor = y, .map = {one_nest_along(SAMPLE), one_nest_along(STEP), one_nest_along(TO)}};
    one_nest_do(one, CLEAVE_OP_MUL, 0, 1, 0, 0);
    return one_nest_finish(one, error);
}

/* Of all calls at least so many per cent are to be of what is meant: the fast kernel must have been
   the one compared, but for shapes that it may leave. */
typedef struct comparison {
    const char *name;
    random_nest_maker *make;
    uint64_t n_nests;
    struct {
        const char *what;
        int percent;
    } shares[3];
    const cleave_kernel_row *row; /* null: the fastest */
    int least_calls;
} comparison;

static const comparison comparisons[] = {
    {"cut convolutions", cut_convolution, 6, .shares = {{"convolution", 90}, {"polled", 40}}},
    {"filtering", filtering, 60, .shares = {{"polled", 60}}, .row = &cleave_winograd_kernel,
     .least_calls = 200},
    {"filtering in blocks", many_tiles, 1, .shares = {{"winograd", 100}},
     .row = &cleave_winograd_kernel, .least_calls = 3},
    {"gradients of depthwise windows", depthwise, 100, .shares = {{"polled", 5}},
     .row = &cleave_depthwise_kernel, .least_calls = 200},
    {"windows brought together", stepping, 100, .shares = {{"im2col", 100}},
     .row = &cleave_im2col_kernel, .least_calls = 300},
    {"windows brought together in turns", stepping_far, 4, .shares = {{"polled", 1}},
     .row = &cleave_im2col_kernel, .least_calls = 6},
    /* parts of few channels are the library's */
    {"windows of single points", random_single_points, 15,
     .shares = {{"im2col", 40}, {"polled", 10}}},
    {"cut products", wide_product, 12, .shares = {{"product", 95}, {"polled", 40}}},
    /* parts of few columns are not packed */
    {"products between orders", turned_product, 12, .shares = {{"product", 95}, {"packed", 25}}},
    {"products", random_product, 150, .shares = {{"product", 95}}},
    {"products between each other", random_interleaved_product, 80, .shares = {{"product", 95}}},
    {"convolutions", random_convolution, 120, .shares = {{"convolution", 60}, {"fast", 85}}},
    {"pools", random_pool, 150, .shares = {{"pool", 95}, {"polled", 50}}},
    {"look-ups", random_gather, 300, .shares = {{"gather", 100}, {"polled", 35}}},
    {"selections", random_selection, 100, .shares = {{"gather", 90}, {"added", 30}}},
    {"pointwise tapes", random_pointwise, 400, .shares = {{"tape", 100}}},
    {"tapes between each other", random_interleaving, 120, .shares = {{"tape", 100}}},
    {"reductions", random_reduce, 300, .shares = {{"tape", 100}}},
    {"moments", random_moments, 150, .shares = {{"tape", 100}}},
    /* parts of few channels are no lines */
    {"rows of channels", random_lines, 300,
     .shares = {{"tape", 100}, {"added", 30}, {"lines", 50}}},
};
enum { N_COMPARISONS = sizeof comparisons / sizeof *comparisons };

ParameterizedTestParameters(kernels, match_the_reference) {
    static int indices[N_COMPARISONS];
    for (int i = 0; i < N_COMPARISONS; i++)
        indices[i] = i;
    return cr_make_param_array(int, indices, N_COMPARISONS);
}

ParameterizedTest(int *index, kernels, match_the_reference) {
    const comparison *of = &comparisons[*index];
    tally seen = compare_many(of->row, of->make, of->n_nests);
    cr_assert(seen.n_calls > 0 && seen.n_calls >= of->least_calls, "%s: only %d calls", of->name,
              seen.n_calls);
    for (int i = 0; i < 3 && of->shares[i].what != NULL; i++) {
        int n = *count_of(&seen, of->shares[i].what);
        cr_expect(n * 100 >= of->shares[i].percent * seen.n_calls,
                  "%s: only %d of %d calls were %s", of->name, n, seen.n_calls, of->shares[i].what);
    }
}

/* Rounds the floats of an array to what bf16 has, and returns them as bf16. */
static uint16_t *halve(float *values, int64_t n) {
    uint16_t *halves = one_nest_memory(n * 2);
    for (int64_t i = 0; i < n; i++) {
        halves[i] = cleave_bf16_round(values[i]);
        values[i] = cleave_bf16_widen(halves[i]);
    }
    return halves;
}

/* One pass over the same values, as floats and as bf16: the matrix' results must be equal once
   rounded.  False where they are no lines. */
static bool compare_halves(random_call *made, cleave_pass pass) {
    cleave_error error = {{0}};
    cleave_kernel_call call = random_call_of_pass(made, pass);
    cleave_tile_plan plan;
    if (!cleave_tile_plan_make(&call, &plan) || !plan.channels.fits)
        return false;
    bool forward = pass == CLEAVE_PASS_FORWARD;
    int matrix = plan.channels.matrix;
    cleave_kernel_call halved = call;
    cleave_array *const read[] = {&halved.inputs[matrix],
                                  forward ? &halved.inputs[matrix] : &halved.output_gradient,
                                  plan.tape.from_output ? &halved.output : &halved.inputs[matrix]};
    int64_t n = one_nest_bytes(&call, &call.nest->output, &call.output) / 4;
    uint16_t *halves[3] = {NULL}; /* what stands twice among those read is rounded once */
    for (int i = 0; i < 3; i++)
        if (read[i]->type == CLEAVE_F32 && read[i]->data != NULL) {
            read[i]->data = halves[i] = halve(read[i]->data, n);
            read[i]->type = CLEAVE_BF16;
        }
    cleave_array *result = forward ? &halved.output : &halved.input_gradients[matrix];
    const float *expected = forward ? call.output.data : call.input_gradients[matrix].data;
    result->data = one_nest_memory(n * 2);
    result->type = CLEAVE_BF16;
    call.workspace_bytes = cleave_tile_kernel.workspace(NULL, &call);
    call.workspace = halved.workspace = one_nest_memory(call.workspace_bytes);
    cr_assert(cleave_tile_kernel.run(NULL, &call, &error) == CLEAVE_OK, "%s", error.message);
    cr_assert(cleave_tile_kernel.run(NULL, &halved, &error) == CLEAVE_OK, "%s", error.message);
    bool has_result = forward || plan.gradient[matrix] >= 0;
    for (int64_t i = 0; has_result && i < n; i++)
        cr_assert_eq(((uint16_t *)result->data)[i], cleave_bf16_round(expected[i]));
    free(call.workspace);
    free(result->data);
    for (int i = 0; i < 3; i++)
        free(halves[i]);
    return true;
}

Test(kernels, rows_of_channels_in_bf16_are_those_of_f32_rounded) {
    int n_compared = 0;
    for (uint64_t seed = seed_from(0); seed < seed_end(60); seed++) {
        cleave_error error = {{0}};
        cleave_random random = {.key = seed};
        one_nest one;
        const cleave_nest *nest = random_lines(&one, &random, &error);
        random_call made;
        random_call_make(&one.model, nest, &random, true, &made);
        n_compared += compare_halves(&made, CLEAVE_PASS_FORWARD);
        n_compared += compare_halves(&made, CLEAVE_PASS_INPUT_GRADIENT);
        random_call_free(&made);
        cleave_arena_free(&one.arena);
    }
    cr_expect_gt(n_compared, 100);
}
