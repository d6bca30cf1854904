/* The update loops: all memory-bound, one pass over their arrays. */
#include "exec/kernels/optimizer.h"

#include <math.h>
#include <string.h>

typedef void update_function(const cleave_optimizer *optimizer, const cleave_update_step *at,
                             int64_t n, float *restrict parameter, const float *restrict gradient,
                             float *restrict state0, float *restrict state1);

/* v <- momentum v + g, p <- p - lr v, with g including the decay; v starts at zero, which makes the
   first v equal g as PyTorch has it. */
static void update_sgd(const cleave_optimizer *optimizer, const cleave_update_step *at, int64_t n,
                       float *restrict parameter, const float *restrict gradient,
                       float *restrict velocity, float *none) {
    (void)none;
    float rate = (float)cleave_rate_at(&optimizer->schedule, optimizer->learning_rate, at->step),
          decay = (float)optimizer->weight_decay, momentum = (float)optimizer->momentum,
          scale = at->scale;
    if (velocity == NULL) {
        for (int64_t i = 0; i < n; i++)
            parameter[i] -= rate * (scale * gradient[i] + decay * parameter[i]);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        float v = momentum * velocity[i] + (scale * gradient[i] + decay * parameter[i]);
        velocity[i] = v;
        parameter[i] -= rate * v;
    }
}

/* m and v are moving means of g and g^2, corrected for their start at zero.  The decay joins the
   gradient; of AdamW it shrinks the parameter before the step.  (Both at 0 are exact.) */
static void update_adam(const cleave_optimizer *optimizer, const cleave_update_step *at, int64_t n,
                        float *restrict parameter, const float *restrict gradient,
                        float *restrict mean, float *restrict square) {
    double correction1 = 1 - pow(optimizer->beta1, (double)at->step);
    double correction2 = 1 - pow(optimizer->beta2, (double)at->step);
    double now = cleave_rate_at(&optimizer->schedule, optimizer->learning_rate, at->step);
    bool apart = optimizer->kind == CLEAVE_OPTIMIZER_ADAMW;
    float beta1 = (float)optimizer->beta1, beta2 = (float)optimizer->beta2,
          rest1 = (float)(1 - optimizer->beta1), rest2 = (float)(1 - optimizer->beta2),
          rate = (float)(now / correction1), root = (float)(1 / sqrt(correction2)),
          scale = at->scale, epsilon = (float)optimizer->epsilon,
          decay = apart ? 0 : (float)optimizer->weight_decay,
          kept = apart ? (float)(1 - now * optimizer->weight_decay) : 1;
    for (int64_t i = 0; i < n; i++) {
        float g = scale * gradient[i] + decay * parameter[i];
        float m = beta1 * mean[i] + rest1 * g;
        float v = beta2 * square[i] + rest2 * g * g;
        mean[i] = m;
        square[i] = v;
        parameter[i] = kept * parameter[i] - rate * m / (sqrtf(v) * root + epsilon);
    }
}

/* ---- the table --------------------------------------------------------------------------------
 */

static const struct optimizer_row {
    const char *name;
    double learning_rate, weight_decay;
    int states; /* without momentum */
    update_function *update;
} rows[CLEAVE_N_OPTIMIZERS] = {
    [CLEAVE_OPTIMIZER_SGD] = {"sgd", 0.01, 0, 0, update_sgd},
    [CLEAVE_OPTIMIZER_ADAM] = {"adam", 0.001, 0, 2, update_adam},
    [CLEAVE_OPTIMIZER_ADAMW] = {"adamw", 0.001, 0.01, 2, update_adam},
};

cleave_optimizer cleave_optimizer_default(cleave_optimizer_kind kind) {
    return (cleave_optimizer){.kind = kind,
                              .learning_rate = rows[kind].learning_rate,
                              .weight_decay = rows[kind].weight_decay,
                              .beta1 = 0.9,
                              .beta2 = 0.999,
                              .epsilon = 1e-8};
}

cleave_status cleave_optimizer_find(const char *name, cleave_optimizer *optimizer,
                                    cleave_error *error) {
    for (cleave_optimizer_kind kind = 0; kind < CLEAVE_N_OPTIMIZERS; kind++)
        if (strcmp(name, rows[kind].name) == 0) {
            *optimizer = cleave_optimizer_default(kind);
            return CLEAVE_OK;
        }
    return cleave_fail(error, CLEAVE_BAD_INPUT,
                       "optimizer \"%.64s\" is not known: sgd, adam and adamw are", name);
}

enum {
    SGD = 1u << CLEAVE_OPTIMIZER_SGD,
    ALL = (1u << CLEAVE_N_OPTIMIZERS) - 1,
    ADAMS = ALL & ~SGD
};

const cleave_optimizer_figure cleave_optimizer_figures[CLEAVE_N_OPTIMIZER_FIGURES] = {
    {"learning_rate", "learning rate", offsetof(cleave_optimizer, learning_rate), ALL},
    {"weight_decay", "weight decay", offsetof(cleave_optimizer, weight_decay), ALL},
    {"momentum", "momentum", offsetof(cleave_optimizer, momentum), SGD},
    {"beta1", "beta1", offsetof(cleave_optimizer, beta1), ADAMS},
    {"beta2", "beta2", offsetof(cleave_optimizer, beta2), ADAMS},
    {"epsilon", "epsilon", offsetof(cleave_optimizer, epsilon), ADAMS},
    {"clip_norm", "clipping norm", offsetof(cleave_optimizer, clip_norm), ALL},
};

double *cleave_optimizer_figure_of(cleave_optimizer *optimizer,
                                   const cleave_optimizer_figure *figure) {
    return (figure->kinds >> optimizer->kind & 1) != 0
               ? (double *)(void *)((char *)optimizer + figure->offset)
               : NULL;
}

const char *cleave_optimizer_name(const cleave_optimizer *optimizer) {
    return rows[optimizer->kind].name;
}

int cleave_optimizer_states(const cleave_optimizer *optimizer) {
    return optimizer->kind == CLEAVE_OPTIMIZER_SGD && optimizer->momentum != 0
               ? 1
               : rows[optimizer->kind].states;
}

float cleave_optimizer_clip(const cleave_optimizer *optimizer, float squares) {
    double scale = optimizer->clip_norm / (sqrt((double)squares) + 1e-6);
    return optimizer->clip_norm > 0 && !(scale >= 1) ? (float)scale : 1;
}

void cleave_optimizer_update(const cleave_optimizer *optimizer, const cleave_update_step *at,
                             int64_t n, float *parameter, const float *gradient,
                             float *const states[2]) {
    rows[optimizer->kind].update(optimizer, at, n, parameter, gradient, states[0], states[1]);
}
