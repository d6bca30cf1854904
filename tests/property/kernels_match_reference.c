/* Every fast kernel against the reference, over random nests and random parts of them, every pass;
   and the reference's own gradients against finite differences of its forward.

   Each is cut into a random number of pieces.  Some gradients are added to what is there.

   Operands that the model says backward does not read are withheld, results are poisoned before
   the call, and the workspace has a fence behind it. */
#include "../support/random_call.h"
#include "../support/random_nest.h"
#include "base/bf16.h"
#include "exec/kernels/contraction.h"
#include "exec/kernels/kernel_tile.h"

#include <criterion/criterion.h>
#include <math.h>

enum { FENCE_BYTES = 256, FENCE = 0x5a };

typedef struct tally {
    int calls, polled, product, winograd, depthwise, im2col, convolution, pool, gather, tape, lines,
        packed, reference, added;
} tally;

static void count_choice(tally *seen, const char *name) {
    seen->calls++;
    seen->product += strcmp(name, "product") == 0;
    seen->winograd += strcmp(name, "winograd") == 0;
    seen->depthwise += strcmp(name, "depthwise") == 0;
    seen->im2col += strcmp(name, "im2col") == 0;
    seen->convolution += strcmp(name, "convolution") == 0;
    seen->pool += strcmp(name, "pool") == 0;
    seen->gather += strcmp(name, "gather") == 0;
    seen->tape += strcmp(name, "tape") == 0;
    seen->reference += strcmp(name, "reference") == 0;
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
    cleave_error error = {{0}};
    const cleave_nest *nest = made->nest;
    cleave_kernel_call call = random_call_of_pass(made, pass);
    call.accumulated = accumulated;
    if (of->row != NULL && workspace_of(of, &call) == 0)
        return 0;
    cleave_tile_plan plan;
    seen->lines += cleave_tile_plan_make(&call, &plan) && plan.channels.fits;
    contraction apart;
    int wanted = pass == CLEAVE_PASS_FORWARD ? -1 : pass == CLEAVE_PASS_WEIGHT_GRADIENT ? 1 : 0;
    seen->packed += nest->kind == CLEAVE_NEST_PRODUCT &&
                    contraction_take_apart(&call, wanted, 1, &apart) && apart.packed >= 0;
    count_choice(seen, of->row != NULL ? of->row->name : cleave_kernel_choice(of->kernels, &call));
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
    cr_assert(cleave_kernel_run_reference(&call, &error) == CLEAVE_OK, "%s", error.message);
    for (int r = 0; r < n_results; r++) {
        int64_t size = one_nest_bytes(&call, operands[r], results[r]);
        expected[r] = one_nest_memory(size);
        memcpy(expected[r], results[r]->data, (size_t)size);
        prepare(results[r]->data, size / 4, added_to[r]);
    }
    polls = 0;
    cr_assert(run(of, &call, &error) == CLEAVE_OK, "%s", error.message);
    bool two_products = gradients == 3; /* each has the pieces */
    cr_expect(polls <= (pieces - 1) * (two_products ? 2 : 1), "%d polls of %d pieces", polls,
              pieces);
    seen->polled += polls > 0;
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

static tally compare_many_by(const cleave_kernel_row *row, random_nest_maker *make, uint64_t n) {
    cleave_error error = {{0}};
    subject of = {.row = row};
    cr_assert(cleave_kernels_create(&of.kernels, &error) == CLEAVE_OK, "%s", error.message);
    tally seen = {0};
    for (uint64_t seed = 0; seed < n; seed++) {
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
                seen.added += accumulated != 0;
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

static tally compare_many(random_nest_maker *make, uint64_t n) {
    return compare_many_by(NULL, make, n);
}

/* The fast kernel must have been the one compared, but for shapes that it may leave. */
#define EXPECT_SHARE(seen, kernel, percent)                                                        \
    cr_expect((seen).kernel * 100 >= (percent) * (seen).calls,                                     \
              "only %d of %d calls were of " #kernel, (seen).kernel, (seen).calls)

/* 32 x 32 points of the output are enough for the gradient of the weights to be cut by samples; 5
   of them in 2 and in 3 pieces are of unequal length. */
static const cleave_nest *cut_convolution(one_nest *one, cleave_random *random,
                                          cleave_error *error) {
    one_nest_convolution shape = {.spatial = 2,
                                  .batch = 5,
                                  .groups = 1,
                                  .c = draw(random, 1, 5),
                                  .k = draw(random, 1, 18),
                                  .in = {32, 32},
                                  .window = {3, 3},
                                  .stride = {1, 1},
                                  .dilation = {1, 1},
                                  .pad_lo = {1, 1},
                                  .pad_hi = {1, 1}};
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
    one_nest_convolution shape = {.spatial = 2,
                                  .batch = 4,
                                  .groups = 1,
                                  .c = 2,
                                  .k = 2,
                                  .in = {175, 180},
                                  .window = {3, 3},
                                  .stride = {1, 1},
                                  .dilation = {1, 1},
                                  .pad_lo = {1, 1},
                                  .pad_hi = {1, 1}};
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
    one_nest_convolution shape = {.spatial = 2,
                                  .batch = 3,
                                  .groups = 1,
                                  .c = 40,
                                  .k = draw(random, 1, 4),
                                  .in = {98, 98},
                                  .window = {3, 3},
                                  .stride = {2, 2},
                                  .dilation = {1, 1},
                                  .pad_lo = {1, 1}};
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

Test(kernels, cut_convolutions_match_the_reference) {
    tally seen = compare_many(cut_convolution, 6);
    EXPECT_SHARE(seen, convolution, 90);
    EXPECT_SHARE(seen, polled, 40);
}

Test(kernels, filtering_matches_the_reference) {
    tally seen = compare_many_by(&cleave_winograd_kernel, filtering, 60);
    cr_expect(seen.winograd >= 200, "only %d calls", seen.winograd);
    EXPECT_SHARE(seen, polled, 60);
}

Test(kernels, filtering_in_blocks_matches_the_reference) {
    tally seen = compare_many_by(&cleave_winograd_kernel, many_tiles, 1);
    cr_expect(seen.winograd >= 3, "only %d calls", seen.winograd);
}

static const char *choice_under(one_nest_convolution shape, bool row_major_weights,
                                cleave_pass pass) {
    cleave_error error = {{0}};
    one_nest one;
    cleave_kernels *kernels = NULL;
    cr_assert(cleave_kernels_create(&kernels, &error) == CLEAVE_OK, "%s", error.message);
    const cleave_nest *nest = one_nest_make_convolution(&one, &shape, row_major_weights, &error);
    cr_assert(nest != NULL, "%s", error.message);
    cleave_part part = cleave_part_whole(nest, 0);
    cleave_kernel_call call;
    cleave_kernel_call_describe(&one.model, nest, pass, &part, &call);
    const char *choice = cleave_kernel_choice(kernels, &call);
    cleave_arena_free(&one.arena);
    cleave_kernels_destroy(kernels);
    return choice;
}

static const char *choice_of(one_nest_convolution shape, cleave_pass pass) {
    return choice_under(shape, true, pass);
}

static one_nest_convolution square(int64_t groups, int64_t channels, int64_t window,
                                   int64_t stride) {
    return (one_nest_convolution){.spatial = 2,
                                  .batch = 8,
                                  .groups = groups,
                                  .c = channels,
                                  .k = channels,
                                  .in = {28, 28},
                                  .window = {window, window},
                                  .stride = {stride, stride},
                                  .dilation = {1, 1},
                                  .pad_lo = {1, 1},
                                  .pad_hi = {1, 1}};
}

Test(kernels, filtering_is_chosen_where_it_saves) {
    const cleave_pass forward = CLEAVE_PASS_FORWARD;
    cr_expect_str_eq(choice_of(square(1, 128, 3, 1), forward), "winograd");
    cr_expect_str_eq(choice_of(square(1, 128, 5, 1), forward), "winograd");
    cr_expect_str_eq(choice_of(square(1, 128, 3, 2), forward), "convolution"); /* strides */
    cr_expect_str_eq(choice_of(square(1, 128, 7, 1), forward), "convolution"); /* no scheme */
    /* moving tiles takes longer */
    cr_expect_str_eq(choice_of(square(1, 8, 3, 1), forward), "convolution");
}

Test(kernels, depthwise_gradients_match_the_reference) {
    tally seen = compare_many_by(&cleave_depthwise_kernel, depthwise, 100);
    cr_expect(seen.depthwise >= 200, "only %d calls", seen.depthwise);
    EXPECT_SHARE(seen, polled, 5);
}

Test(kernels, gradients_of_wide_depthwise_windows_are_not_the_librarys) {
    const cleave_pass gradient = CLEAVE_PASS_WEIGHT_GRADIENT;
    cr_expect_str_eq(choice_of(square(40, 1, 5, 2), gradient), "depthwise");
    cr_expect_str_eq(choice_of(square(40, 1, 3, 2), gradient), "convolution");
    cr_expect_str_eq(choice_of(square(8, 1, 5, 2), gradient), "convolution");  /* few channels */
    cr_expect_str_eq(choice_of(square(40, 2, 5, 2), gradient), "convolution"); /* groups of two */
    cr_expect_str_eq(choice_of(square(40, 1, 5, 2), CLEAVE_PASS_FORWARD), "convolution");
}

Test(kernels, windows_brought_together_match_the_reference) {
    tally seen = compare_many_by(&cleave_im2col_kernel, stepping, 100);
    cr_expect(seen.im2col >= 300, "only %d calls", seen.im2col);
}

Test(kernels, windows_brought_together_in_turns_match_the_reference) {
    tally seen = compare_many_by(&cleave_im2col_kernel, stepping_far, 4);
    cr_expect(seen.im2col >= 6, "only %d calls", seen.im2col);
    cr_expect(seen.polled > 0);
}

Test(kernels, windows_of_single_points_match_the_reference) {
    tally seen = compare_many(random_single_points, 15);
    EXPECT_SHARE(seen, im2col, 40); /* parts of few channels are the library's */
    EXPECT_SHARE(seen, polled, 10);
}

Test(kernels, windows_of_single_points_are_products_where_these_are_quicker) {
    one_nest_convolution all = square(1, 128, 1, 1);
    all.pad_lo[0] = all.pad_lo[1] = all.pad_hi[0] = all.pad_hi[1] = 0;
    one_nest_convolution few = all, stepping = all, narrow = all;
    few.in[0] = few.in[1] = 7; /* 8 x 49 points */
    stepping.stride[0] = stepping.stride[1] = 2;
    narrow.c = 32;
    cr_expect_str_eq(choice_of(all, CLEAVE_PASS_FORWARD), "convolution");
    for (cleave_pass pass = CLEAVE_PASS_FORWARD; pass < CLEAVE_PASS_UPDATE; pass++) {
        if (pass != CLEAVE_PASS_FORWARD)
            cr_expect_str_eq(choice_of(all, pass), "im2col");
        cr_expect_str_eq(choice_of(few, pass), "im2col");
        cr_expect_str_eq(choice_of(stepping, pass), "im2col");
        cr_expect_str_eq(choice_of(narrow, pass), "convolution");
        cr_expect_str_eq(choice_of(square(128, 1, 1, 2), pass), "convolution"); /* groups */
    }
}

Test(kernels, larger_windows_are_products_at_steps_and_over_few_points) {
    one_nest_convolution few = square(1, 128, 3, 1);
    few.in[0] = few.in[1] = 5; /* 8 x 25 points */
    for (cleave_pass pass = CLEAVE_PASS_FORWARD; pass < CLEAVE_PASS_UPDATE; pass++) {
        bool weights = pass == CLEAVE_PASS_WEIGHT_GRADIENT;
        cr_expect_str_eq(choice_under(square(1, 128, 3, 2), false, pass),
                         weights ? "im2col" : "convolution");
        cr_expect_str_eq(choice_under(square(1, 128, 3, 1), false, pass), "winograd");
        if (weights)
            cr_expect_str_eq(choice_under(few, false, pass), "im2col");
        else
            cr_expect_str_neq(choice_under(few, false, pass), "im2col");
        cr_expect_str_neq(choice_under(few, true, pass), "im2col"); /* weights are no matrix */
    }
}

Test(kernels, cut_products_match_the_reference) {
    tally seen = compare_many(wide_product, 12);
    EXPECT_SHARE(seen, product, 95);
    EXPECT_SHARE(seen, polled, 40);
}

Test(kernels, products_between_orders_match_the_reference) {
    tally seen = compare_many(turned_product, 12);
    EXPECT_SHARE(seen, product, 95);
    EXPECT_SHARE(seen, packed, 25); /* parts of few columns are not */
}

Test(kernels, products_match_the_reference) {
    tally seen = compare_many(random_product, 150);
    EXPECT_SHARE(seen, product, 95);
}

Test(kernels, products_between_each_other_match_the_reference) {
    tally seen = compare_many(random_interleaved_product, 80);
    EXPECT_SHARE(seen, product, 95);
}

Test(kernels, convolutions_match_the_reference) {
    tally seen = compare_many(random_convolution, 120);
    EXPECT_SHARE(seen, convolution, 60);
    cr_expect(seen.reference * 100 <= 15 * seen.calls, "%d of %d calls fell to the reference",
              seen.reference, seen.calls);
}

Test(kernels, pools_match_the_reference) {
    tally seen = compare_many(random_pool, 150);
    EXPECT_SHARE(seen, pool, 95);
    EXPECT_SHARE(seen, polled, 50);
}

Test(kernels, look_ups_match_the_reference) {
    tally seen = compare_many(random_gather, 300);
    EXPECT_SHARE(seen, gather, 100);
    EXPECT_SHARE(seen, polled, 35);
}

Test(kernels, selections_match_the_reference) {
    tally seen = compare_many(random_selection, 100);
    EXPECT_SHARE(seen, gather, 90);
    EXPECT_SHARE(seen, added, 30);
}

Test(kernels, pointwise_tapes_match_the_reference) {
    tally seen = compare_many(random_pointwise, 400);
    EXPECT_SHARE(seen, tape, 100);
}

Test(kernels, tapes_between_each_other_match_the_reference) {
    tally seen = compare_many(random_interleaving, 120);
    EXPECT_SHARE(seen, tape, 100);
}

Test(kernels, reductions_match_the_reference) {
    tally seen = compare_many(random_reduce, 300);
    EXPECT_SHARE(seen, tape, 100);
}

Test(kernels, moments_match_the_reference) {
    tally seen = compare_many(random_moments, 150);
    EXPECT_SHARE(seen, tape, 100);
}

Test(kernels, rows_of_channels_match_the_reference) {
    tally seen = compare_many(random_lines, 300);
    EXPECT_SHARE(seen, tape, 100);
    EXPECT_SHARE(seen, added, 30);
    EXPECT_SHARE(seen, lines, 50); /* parts of few channels are not */
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
 * rounded. */
static void compare_halves(random_call *made, cleave_pass pass, tally *seen) {
    cleave_error error = {{0}};
    cleave_kernel_call call = random_call_of_pass(made, pass);
    cleave_tile_plan plan;
    if (!cleave_tile_plan_make(&call, &plan) || !plan.channels.fits)
        return;
    seen->lines++;
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
}

Test(kernels, rows_of_channels_in_bf16_are_those_of_f32_rounded) {
    tally seen = {0};
    for (uint64_t seed = 0; seed < 60; seed++) {
        cleave_error error = {{0}};
        cleave_random random = {.key = seed};
        one_nest one;
        const cleave_nest *nest = random_lines(&one, &random, &error);
        random_call made;
        random_call_make(&one.model, nest, &random, true, &made);
        compare_halves(&made, CLEAVE_PASS_FORWARD, &seen);
        compare_halves(&made, CLEAVE_PASS_INPUT_GRADIENT, &seen);
        random_call_free(&made);
        cleave_arena_free(&one.arena);
    }
    cr_expect_gt(seen.lines, 100);
}

/* ---- finite differences -------------------------------------------------------------------- */

/* sum of output gradient x output, after inputs moved by `by` along the directions; `size` gets the
   sum of the magnitudes, of which rounding the outputs to floats loses a part. */
static double weighted_output(const random_call *made, float *const *directions, double by,
                              double *size) {
    cleave_error error = {{0}};
    const cleave_nest *nest = made->nest;
    cleave_kernel_call call = made->call;
    call.pass = CLEAVE_PASS_FORWARD;
    float *moved[CLEAVE_MAX_INPUTS] = {NULL};
    for (int i = 0; i < nest->n_inputs; i++) {
        if (directions[i] == NULL)
            continue;
        int64_t bytes = one_nest_bytes(&call, &nest->inputs[i], &call.inputs[i]);
        moved[i] = one_nest_memory(bytes);
        for (int64_t j = 0; j < bytes / 4; j++)
            moved[i][j] =
                (float)((double)((float *)call.inputs[i].data)[j] + by * (double)directions[i][j]);
        call.inputs[i].data = moved[i];
    }
    int64_t bytes = one_nest_bytes(&call, &nest->output, &call.output);
    float *output = one_nest_memory(bytes);
    call.output.data = output;
    cr_assert(cleave_kernel_run_reference(&call, &error) == CLEAVE_OK, "%s", error.message);
    double sum = 0;
    *size = 0;
    for (int64_t j = 0; j < bytes / 4; j++) {
        double term = (double)((float *)call.output_gradient.data)[j] * (double)output[j];
        sum += term;
        *size += fabs(term);
    }
    for (int i = 0; i < nest->n_inputs; i++)
        free(moved[i]);
    free(output);
    return sum;
}

/* sum over inputs of gradient x direction, by the reference. */
static double predicted_change(random_call *made, float *const *directions, double *scale) {
    cleave_error error = {{0}};
    double sum = 0;
    *scale = 0;
    for (cleave_pass pass = CLEAVE_PASS_INPUT_GRADIENT; pass < CLEAVE_PASS_UPDATE; pass++) {
        uint32_t gradients = cleave_nest_pass_inputs(made->model, made->nest, pass);
        if (gradients == 0)
            continue;
        cleave_kernel_call call = random_call_of_pass(made, pass);
        cr_assert(cleave_kernel_run_reference(&call, &error) == CLEAVE_OK, "%s", error.message);
        for (int i = 0; i < made->nest->n_inputs; i++) {
            if (!(gradients >> i & 1))
                continue;
            int64_t n = one_nest_bytes(&call, &made->nest->inputs[i], &call.inputs[i]) / 4;
            for (int64_t j = 0; j < n; j++) {
                double change =
                    (double)((float *)call.input_gradients[i].data)[j] * (double)directions[i][j];
                sum += change;
                *scale += fabs(change);
            }
        }
    }
    return sum;
}

/* Inputs lie on grids so that no kink is near: odd multiples of 1/128 for input 0 (all different
   under a maximum), even ones for the others; h is below half a step of the grid. */
static void check_gradient(const char *what, random_nest_maker *make, uint64_t n) {
    const double h = 1.0 / 1024;
    for (uint64_t seed = 0; seed < n; seed++) {
        cleave_error error = {{0}};
        cleave_random random = {.key = seed};
        one_nest one;
        const cleave_nest *nest = make(&one, &random, &error);
        cr_assert(nest != NULL, "%s", error.message);
        random_call made;
        random_call_make(&one.model, nest, &random, seed % 2 == 0, &made);
        random_call_on_grid(&made, &random);
        float *directions[CLEAVE_MAX_INPUTS] = {NULL};
        uint32_t gradients = cleave_nest_pass_inputs(&one.model, nest, CLEAVE_PASS_INPUT_GRADIENT) |
                             cleave_nest_pass_inputs(&one.model, nest, CLEAVE_PASS_WEIGHT_GRADIENT);
        for (int i = 0; i < nest->n_inputs; i++) {
            int64_t bytes = one_nest_bytes(&made.call, &nest->inputs[i], &made.call.inputs[i]);
            if (!(gradients >> i & 1))
                continue;
            directions[i] = one_nest_memory(bytes);
            for (int64_t j = 0; j < bytes / 4; j++)
                directions[i][j] = (float)(2 * cleave_random_next_uniform(&random) - 1);
        }
        random_call_finish(&made);
        double scale, size, predicted = predicted_change(&made, directions, &scale);
        double above = weighted_output(&made, directions, h, &size);
        double below = weighted_output(&made, directions, -h, &size);
        double measured = (above - below) / (2 * h), rounding = size * 0x1p-24 / h;
        cr_expect(fabs(measured - predicted) <= 2e-3 * scale + rounding + 1e-3,
                  "%s, seed %llu: gradient gives %g, differences %g", what,
                  (unsigned long long)seed, predicted, measured);
        for (int i = 0; i < nest->n_inputs; i++)
            free(directions[i]);
        random_call_free(&made);
        cleave_arena_free(&one.arena);
    }
}

Test(reference, gradients_equal_finite_differences) {
    check_gradient("product", random_product, 40);
    check_gradient("convolution", random_convolution, 30);
    check_gradient("pool", random_pool, 40);
    check_gradient("pointwise", random_smooth_pointwise, 150);
    check_gradient("reduce", random_smooth_reduce, 80);
    check_gradient("gather", random_gather, 80);
    check_gradient("moments", random_moments, 40);
    check_gradient("lines", random_smooth_lines, 20);
    check_gradient("interleaved product", random_interleaved_product, 20);
    check_gradient("interleaving", random_interleaving, 40);
}
