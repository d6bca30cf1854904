/* The update loops: all memory-bound, one pass over their arrays. */
#include "exec/kernels/optimizer.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

cleave_optimizer cleave_optimizer_default(cleave_optimizer_kind kind) {
    return (cleave_optimizer){.kind = kind,
                              .learning_rate = kind == CLEAVE_OPTIMIZER_ADAM ? 0.001 : 0.01,
                              .beta1 = 0.9,
                              .beta2 = 0.999,
                              .epsilon = 1e-8};
}

cleave_status cleave_optimizer_find(const char *name, cleave_optimizer *optimizer,
                                    cleave_error *error) {
    bool is_adam = strcmp(name, "adam") == 0;
    if (!is_adam && strcmp(name, "sgd") != 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "optimizer \"%.64s\" is neither \"sgd\" nor \"adam\"", name);
    *optimizer = cleave_optimizer_default(is_adam ? CLEAVE_OPTIMIZER_ADAM : CLEAVE_OPTIMIZER_SGD);
    return CLEAVE_OK;
}

const char *cleave_optimizer_name(const cleave_optimizer *optimizer) {
    return optimizer->kind == CLEAVE_OPTIMIZER_ADAM ? "adam" : "sgd";
}

int cleave_optimizer_states(const cleave_optimizer *optimizer) {
    if (optimizer->kind == CLEAVE_OPTIMIZER_ADAM)
        return 2;
    return optimizer->momentum != 0 ? 1 : 0;
}

/* v <- momentum v + g, p <- p - lr v, with g including the decay; v starts at zero, which makes the
   first v equal g as PyTorch has it. */
static void update_sgd(const cleave_optimizer *optimizer, int64_t n, float *restrict parameter,
                       const float *restrict gradient, float *restrict velocity) {
    float rate = (float)optimizer->learning_rate, decay = (float)optimizer->weight_decay,
          momentum = (float)optimizer->momentum;
    if (velocity == NULL) {
        for (int64_t i = 0; i < n; i++)
            parameter[i] -= rate * (gradient[i] + decay * parameter[i]);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        float v = momentum * velocity[i] + (gradient[i] + decay * parameter[i]);
        velocity[i] = v;
        parameter[i] -= rate * v;
    }
}

/* m and v are moving means of g and g^2, corrected for their start at zero. */
static void update_adam(const cleave_optimizer *optimizer, int64_t step, int64_t n,
                        float *restrict parameter, const float *restrict gradient,
                        float *restrict mean, float *restrict square) {
    double correction1 = 1 - pow(optimizer->beta1, (double)step);
    double correction2 = 1 - pow(optimizer->beta2, (double)step);
    float beta1 = (float)optimizer->beta1, beta2 = (float)optimizer->beta2,
          rest1 = (float)(1 - optimizer->beta1), rest2 = (float)(1 - optimizer->beta2),
          rate = (float)(optimizer->learning_rate / correction1),
          scale = (float)(1 / sqrt(correction2)), epsilon = (float)optimizer->epsilon,
          decay = (float)optimizer->weight_decay;
    for (int64_t i = 0; i < n; i++) {
        float g = gradient[i] + decay * parameter[i];
        float m = beta1 * mean[i] + rest1 * g;
        float v = beta2 * square[i] + rest2 * g * g;
        mean[i] = m;
        square[i] = v;
        parameter[i] -= rate * m / (sqrtf(v) * scale + epsilon);
    }
}

void cleave_optimizer_update(const cleave_optimizer *optimizer, int64_t step, int64_t n,
                             float *parameter, const float *gradient, float *state0,
                             float *state1) {
    if (optimizer->kind == CLEAVE_OPTIMIZER_ADAM)
        update_adam(optimizer, step, n, parameter, gradient, state0, state1);
    else
        update_sgd(optimizer, n, parameter, gradient, state0);
}
