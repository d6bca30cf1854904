/* Calls cut for threads, along every axis that they can be cut along, against the same calls by one
   thread: random nests of every kind, random parts of them, every pass.

   What no sum is in comes out in the same bytes; sums within rounding, since a product of other
   extents may be summed in another order.  Whether threads do the parts at once or the caller in
   turn, as between two pieces of another call, the bytes are the same. */
#include "../support/draws.h"
#include "../support/ok.h"
#include "../support/random_call.h"
#include "../support/random_nest.h"
#include "exec/kernels/convert.h"
#include "exec/kernels/kernel_operands.h"

#include <criterion/criterion.h>
#include <math.h>

enum { THREADS = 3, FENCE_BYTES = 256, FENCE = 0x5a };

typedef enum how { TO_THE_BIT, WITHIN_ROUNDING, IN_BF16 } how;

typedef struct subject {
    cleave_kernels *one, *many;
    int n_cuts;
} subject;

typedef struct results {
    int n;
    cleave_array *arrays[CLEAVE_MAX_INPUTS + 1];
    const cleave_operand *operands[CLEAVE_MAX_INPUTS + 1];
} results;

static results results_of(cleave_kernel_call *call) {
    const cleave_nest *nest = call->nest;
    results r = {.n = 0};
    if (call->pass == CLEAVE_PASS_FORWARD) {
        r.operands[r.n] = &nest->output;
        r.arrays[r.n++] = &call->output;
        return r;
    }
    for (int i = 0; i < nest->n_inputs; i++)
        if (cleave_nest_pass_inputs(call->model, nest, call->pass) >> i & 1) {
            r.operands[r.n] = &nest->inputs[i];
            r.arrays[r.n++] = &call->input_gradients[i];
        }
    return r;
}

static int64_t count(const cleave_kernel_call *call, const cleave_operand *operand,
                     const cleave_array *array) {
    return one_nest_bytes(call, operand, array) / cleave_type_bytes(array->type);
}

typedef struct run_within {
    cleave_kernels *kernels;
    const cleave_kernel_call *call;
} run_within;

static cleave_status run_in_turn(void *context, int32_t part, int32_t thread, cleave_error *error) {
    const run_within *of = context;
    (void)thread;
    return part == 0 ? cleave_kernel_run(of->kernels, of->call, error) : CLEAVE_OK;
}

/* Runs the call over poison and copies its results, all of them one behind the other. */
static float *run(cleave_kernels *kernels, cleave_kernel_call call, bool in_turn, int64_t *n) {
    cleave_error error = {{0}};
    results r = results_of(&call);
    int64_t bytes = cleave_kernel_call_workspace(kernels, &call);
    char *workspace = one_nest_memory(bytes + FENCE_BYTES);
    memset(workspace + bytes, FENCE, FENCE_BYTES);
    call.workspace = workspace;
    call.workspace_bytes = bytes;
    *n = 0;
    for (int i = 0; i < r.n; i++) {
        int64_t size = count(&call, r.operands[i], r.arrays[i]);
        for (int64_t j = 0; j < size; j++)
            cleave_element_put(r.arrays[i]->type, r.arrays[i]->data, j, NAN);
        *n += size;
    }
    run_within within = {kernels, &call};
    cleave_status status =
        in_turn ? cleave_team_run(cleave_kernels_team(kernels), 2, run_in_turn, &within, &error)
                : cleave_kernel_run(kernels, &call, &error);
    cr_assert(status == CLEAVE_OK, "%s", error.message);
    for (int i = 0; i < FENCE_BYTES; i++)
        cr_assert(workspace[bytes + i] == FENCE, "the kernel wrote beyond its workspace");
    free(workspace);
    float *all = one_nest_memory(*n * 4), *at = all;
    for (int i = 0; i < r.n; i++) {
        int64_t size = count(&call, r.operands[i], r.arrays[i]);
        for (int64_t j = 0; j < size; j++)
            *at++ = cleave_element_get(r.arrays[i]->type, r.arrays[i]->data, j);
    }
    return all;
}

static bool near(const float *a, const float *b, int64_t n, double most) {
    double largest = 1e-3;
    for (int64_t i = 0; i < n; i++)
        largest = isinf(a[i]) ? largest : fmax(largest, fabs((double)a[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= most * largest) &&
            !(isinf(a[i]) && isinf(b[i]) && a[i] * b[i] > 0))
            return false;
    return true;
}

/* Gives the operands of f32 that the call uses in bf16. */
static int halve(cleave_kernel_call *call, void **memory) {
    cleave_kernel_operand list[CLEAVE_MOST_KERNEL_OPERANDS];
    int n = cleave_kernel_operands(call, list), n_made = 0;
    for (int i = 0; i < n; i++) {
        cleave_array *array = cleave_kernel_array(call, &list[i]);
        int64_t elements = one_nest_bytes(call, list[i].operand, array) / 4;
        if (array->type != CLEAVE_F32 || array->data == NULL)
            continue;
        uint16_t *halves = one_nest_memory(2 * elements);
        cleave_convert(CLEAVE_F32, array->data, CLEAVE_BF16, halves, elements);
        array->data = memory[n_made++] = halves;
        array->type = CLEAVE_BF16;
    }
    return n_made;
}

static void compare_pass(subject *of, random_call *made, cleave_pass pass, how compare,
                         uint64_t seed) {
    cleave_kernel_call call = random_call_of_pass(made, pass);
    void *halves[CLEAVE_MOST_KERNEL_OPERANDS];
    int n_halves = compare == IN_BF16 ? halve(&call, halves) : 0;
    call.pieces = 1 + (int32_t)(seed % 4);
    int64_t n;
    float *expected = run(of->one, call, false, &n);
    for (int axis = 0; axis < call.nest->n_axes; axis++) {
        if (!(cleave_kernel_cut_along(of->many, &call, axis, &call.cut) > 0))
            continue;
        of->n_cuts++;
        float *got = run(of->many, call, false, &n), *again = run(of->many, call, true, &n);
        size_t bytes = (size_t)n * 4;
        bool same = compare == TO_THE_BIT
                        ? memcmp(expected, got, bytes) == 0
                        : near(expected, got, n, compare == IN_BF16 ? 0x1p-7 : 1e-5);
        cr_expect(same, "seed %llu, %s, axis %s of nest %s in %d parts: other results",
                  (unsigned long long)seed, cleave_pass_names[pass], call.nest->axes[axis].name,
                  call.nest->name, call.cut.n);
        cr_expect(memcmp(got, again, bytes) == 0, "seed %llu, %s, axis %s: other bytes in turn",
                  (unsigned long long)seed, cleave_pass_names[pass], call.nest->axes[axis].name);
        free(got);
        free(again);
    }
    free(expected);
    for (int i = 0; i < n_halves; i++)
        free(halves[i]);
}

static void compare_many(random_nest_maker *make, uint64_t n, how compare, int least_cuts) {
    cleave_error error = {{0}};
    subject of = {.n_cuts = 0};
    OK(cleave_kernels_create, &of.one);
    OK(cleave_kernels_create_threads, THREADS, &of.many);
    for (uint64_t seed = seed_from(0); seed < seed_end((int)n); seed++) {
        cleave_random random = {.key = seed};
        one_nest one;
        const cleave_nest *nest = make(&one, &random, &error);
        cr_assert(nest != NULL, "seed %llu: %s", (unsigned long long)seed, error.message);
        for (int p = 0; p < 2; p++) {
            random_call made;
            random_call_make(&one.model, nest, &random, p == 0, &made);
            for (cleave_pass pass = CLEAVE_PASS_FORWARD; pass < CLEAVE_PASS_UPDATE; pass++)
                if (pass == CLEAVE_PASS_FORWARD ||
                    cleave_nest_pass_inputs(&one.model, nest, pass) != 0)
                    compare_pass(&of, &made, pass, compare, seed);
            random_call_free(&made);
        }
        cleave_arena_free(&one.arena);
    }
    cr_expect(of.n_cuts >= least_cuts, "only %d cuts", of.n_cuts);
    cleave_kernels_destroy(of.one);
    cleave_kernels_destroy(of.many);
}

Test(threads, products) { compare_many(random_product, 60, WITHIN_ROUNDING, 100); }
Test(threads, products_between_each_other) {
    compare_many(random_interleaved_product, 40, WITHIN_ROUNDING, 50);
}
Test(threads, products_of_bf16) { compare_many(random_product, 60, IN_BF16, 100); }
Test(threads, convolutions) { compare_many(random_convolution, 50, WITHIN_ROUNDING, 100); }
Test(threads, windows_of_single_points) {
    compare_many(random_single_points, 15, WITHIN_ROUNDING, 30);
}
Test(threads, convolutions_of_bf16) { compare_many(random_convolution, 30, IN_BF16, 60); }
Test(threads, pools) { compare_many(random_pool, 60, TO_THE_BIT, 100); }
Test(threads, look_ups) { compare_many(random_gather, 100, TO_THE_BIT, 100); }
Test(threads, pointwise_tapes) { compare_many(random_pointwise, 100, WITHIN_ROUNDING, 100); }
Test(threads, tapes_between_each_other) {
    compare_many(random_interleaving, 60, WITHIN_ROUNDING, 50);
}
Test(threads, reductions) { compare_many(random_reduce, 100, WITHIN_ROUNDING, 50); }
Test(threads, moments) { compare_many(random_moments, 80, WITHIN_ROUNDING, 50); }
Test(threads, rows_of_channels) { compare_many(random_lines, 100, WITHIN_ROUNDING, 100); }
Test(threads, rows_of_channels_of_bf16) { compare_many(random_lines, 40, IN_BF16, 40); }
