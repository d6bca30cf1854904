/* Optimizers against PyTorch's formulas, worked out by hand. */
#include "exec/kernels/optimizer.h"
#include "../../support/ok.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stddef.h>

#define STEP(n) (&(const cleave_update_step){.step = (n), .scale = 1})
#define STATES(a, b) ((float *const[2]){(a), (b)})

static void expect_near(double actual, double expected) {
    cr_expect(fabs(actual - expected) <= 1e-6 * fmax(1, fabs(expected)), "%.9g instead of %.9g",
              actual, expected);
}

Test(optimizer, plain_sgd_has_no_state_and_steps_down_the_gradient) {
    cleave_optimizer sgd = cleave_optimizer_default(CLEAVE_OPTIMIZER_SGD);
    sgd.learning_rate = 0.1;
    float p[2] = {1, -2}, g[2] = {0.5f, 4};
    cr_expect(cleave_optimizer_states(&sgd) == 0);
    cleave_optimizer_update(&sgd, STEP(1), 2, p, g, STATES(NULL, NULL));
    expect_near((double)p[0], 0.95); /* 1 - 0.1 x 0.5 */
    expect_near((double)p[1], -2.4); /* -2 - 0.1 x 4 */
}

Test(optimizer, momentum_starts_at_the_first_gradient_and_decay_joins_it) {
    cleave_optimizer sgd = cleave_optimizer_default(CLEAVE_OPTIMIZER_SGD);
    sgd.learning_rate = 0.1;
    sgd.momentum = 0.9;
    sgd.weight_decay = 0.5;
    float p[1] = {2}, g[1] = {1}, v[1] = {0};
    cr_expect(cleave_optimizer_states(&sgd) == 1);
    /* g' = 1 + 0.5 x 2 = 2; v = 2; p = 2 - 0.2 = 1.8 */
    cleave_optimizer_update(&sgd, STEP(1), 1, p, g, STATES(v, NULL));
    expect_near((double)v[0], 2);
    expect_near((double)p[0], 1.8);
    /* g' = 1 + 0.5 x 1.8 = 1.9; v = 0.9 x 2 + 1.9 = 3.7; p = 1.8 - 0.37 = 1.43 */
    cleave_optimizer_update(&sgd, STEP(2), 1, p, g, STATES(v, NULL));
    expect_near((double)v[0], 3.7);
    expect_near((double)p[0], 1.43);
}

Test(optimizer, adam_corrects_its_means_for_their_start) {
    cleave_optimizer adam = cleave_optimizer_default(CLEAVE_OPTIMIZER_ADAM);
    float p[1] = {1}, g[1] = {2}, m[1] = {0}, v[1] = {0};
    cr_expect(cleave_optimizer_states(&adam) == 2);
    /* m = 0.1 x 2 = 0.2, v = 0.001 x 4 = 0.004; corrected 2 and 4; p = 1 - 0.001 x 2 / 2 = 0.999 */
    cleave_optimizer_update(&adam, STEP(1), 1, p, g, STATES(m, v));
    expect_near((double)m[0], 0.2);
    expect_near((double)v[0], 0.004);
    expect_near((double)p[0], 0.999);
    /* g = -1: m = 0.18 - 0.1 = 0.08, v = 0.003996 + 0.001 = 0.004996;
       corrected by 1 - 0.81 = 0.19 and 1 - 0.998001 = 0.001999: 0.421052632 and 2.49924962;
       p = 0.999 - 0.001 x 0.421052632 / (1.58090152 + 1e-8) = 0.998733663 */
    g[0] = -1;
    cleave_optimizer_update(&adam, STEP(2), 1, p, g, STATES(m, v));
    expect_near((double)m[0], 0.08);
    expect_near((double)p[0], 0.998733663);
}

Test(optimizer, adamw_shrinks_parameters_by_the_rate_and_keeps_decay_out_of_its_means) {
    cleave_optimizer adamw = cleave_optimizer_default(CLEAVE_OPTIMIZER_ADAMW);
    float p[1] = {1}, g[1] = {2}, m[1] = {0}, v[1] = {0};
    cr_expect(cleave_optimizer_states(&adamw) == 2);
    expect_near(adamw.weight_decay, 0.01);
    adamw.weight_decay = 0.5;
    adamw.learning_rate = 0.1;
    /* m = 0.2, v = 0.004 as without decay; p = 1 x (1 - 0.1 x 0.5) - 0.1 x 2 / 2 = 0.85 */
    cleave_optimizer_update(&adamw, STEP(1), 1, p, g, STATES(m, v));
    expect_near((double)m[0], 0.2);
    expect_near((double)v[0], 0.004);
    expect_near((double)p[0], 0.85);
    /* g = -1: the second step of adam above is 0.421052632 / 1.58090152 = 0.266337038 rates;
       p = 0.85 x 0.95 - 0.0266337038 = 0.7808662962 */
    g[0] = -1;
    cleave_optimizer_update(&adamw, STEP(2), 1, p, g, STATES(m, v));
    expect_near((double)p[0], 0.7808662962);
}

Test(optimizer, an_update_takes_the_rate_of_its_step) {
    cleave_optimizer sgd = cleave_optimizer_default(CLEAVE_OPTIMIZER_SGD);
    sgd.learning_rate = 0.4;
    sgd.schedule = (cleave_rate_schedule){.warmup = 4};
    float p[1] = {1}, g[1] = {1};
    cleave_optimizer_update(&sgd, STEP(1), 1, p, g, STATES(NULL, NULL)); /* 0.4 / 4 */
    expect_near((double)p[0], 0.9);
    cleave_optimizer_update(&sgd, STEP(5), 1, p, g, STATES(NULL, NULL));
    expect_near((double)p[0], 0.5);
}

Test(optimizer, names_are_those_of_the_table) {
    static const char *const names[] = {"sgd", "adam", "adamw"};
    cleave_optimizer found;
    cleave_error error;
    for (int i = 0; i < 3; i++) {
        OK(cleave_optimizer_find, names[i], &found);
        cr_expect_str_eq(cleave_optimizer_name(&found), names[i]);
    }
    cr_expect_eq(cleave_optimizer_find("adamax", &found, &error), CLEAVE_BAD_INPUT);
}

/* Of norm 5 to 2: by 2 / (5 + 1e-6); to 6: not at all. */
Test(optimizer, gradients_are_clipped_to_a_norm_but_never_stretched) {
    cleave_optimizer sgd = cleave_optimizer_default(CLEAVE_OPTIMIZER_SGD);
    cr_expect(cleave_optimizer_clip(&sgd, 25) == 1.0f);
    sgd.clip_norm = 2;
    sgd.learning_rate = 1;
    expect_near((double)cleave_optimizer_clip(&sgd, 25), 0.4);
    const cleave_update_step at = {.step = 1, .scale = cleave_optimizer_clip(&sgd, 25)};
    float p[2] = {0, 0}, g[2] = {3, 4};
    cleave_optimizer_update(&sgd, &at, 2, p, g, STATES(NULL, NULL));
    expect_near((double)p[0], -1.2);
    expect_near((double)p[1], -1.6);
    sgd.clip_norm = 6;
    cr_expect(cleave_optimizer_clip(&sgd, 25) == 1.0f);
    cr_expect(isnan(cleave_optimizer_clip(&sgd, NAN)));
}
