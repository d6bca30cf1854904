/* The reference's own gradients against finite differences of its forward. */
#include "../support/draws.h"
#include "../support/ok.h"
#include "../support/random_call.h"
#include "../support/random_nest.h"

#include <criterion/criterion.h>
#include <math.h>

/* sum of output gradient x output, after inputs moved by `by` along the directions; `size` gets the
   sum of the magnitudes, of which rounding the outputs to floats loses a part. */
static double weighted_output(const random_call *made, float *const *directions, double by,
                              double *size) {
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
    OK(cleave_kernel_run_reference, &call);
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
    double sum = 0;
    *scale = 0;
    for (cleave_pass pass = CLEAVE_PASS_INPUT_GRADIENT; pass < CLEAVE_PASS_UPDATE; pass++) {
        uint32_t gradients = cleave_nest_pass_inputs(made->model, made->nest, pass);
        if (gradients == 0)
            continue;
        cleave_kernel_call call = random_call_of_pass(made, pass);
        OK(cleave_kernel_run_reference, &call);
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
    for (uint64_t seed = seed_from(0); seed < seed_end((int)n); seed++) {
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
