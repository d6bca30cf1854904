/* Optimizers, as PyTorch defines them, on flat arrays: torch.optim.SGD (momentum, weight decay; no
   dampening, not Nesterov's) and torch.optim.Adam. */
#ifndef CLEAVE_EXEC_KERNELS_OPTIMIZER_H
#define CLEAVE_EXEC_KERNELS_OPTIMIZER_H

#include "base/error.h"

#include <stdint.h>

typedef enum cleave_optimizer_kind {
    CLEAVE_OPTIMIZER_SGD,
    CLEAVE_OPTIMIZER_ADAM
} cleave_optimizer_kind;

typedef struct cleave_optimizer {
    cleave_optimizer_kind kind;
    double learning_rate, weight_decay;
    double momentum;              /* of SGD */
    double beta1, beta2, epsilon; /* of Adam */
} cleave_optimizer;

/* PyTorch's defaults, with the learning rate that belongs to the kind (0.01, 0.001). */
cleave_optimizer cleave_optimizer_default(cleave_optimizer_kind kind);
/* The same of "sgd" or "adam"; BAD_INPUT for another name. */
cleave_status cleave_optimizer_find(const char *name, cleave_optimizer *optimizer,
                                    cleave_error *error);

const char *cleave_optimizer_name(const cleave_optimizer *optimizer);

/* Values of state per parameter: 0 (SGD without momentum), 1 or 2. */
int cleave_optimizer_states(const cleave_optimizer *optimizer);

/* One update of n parameters in place.  `step` counts from 1.  States start at zero; the ones that
   the optimizer has not are null. */
void cleave_optimizer_update(const cleave_optimizer *optimizer, int64_t step, int64_t n,
                             float *parameter, const float *gradient, float *state0, float *state1);

#endif
