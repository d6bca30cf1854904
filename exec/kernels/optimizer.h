/* Optimizers, as PyTorch defines them, on flat arrays: torch.optim.SGD (momentum, weight decay; no
   dampening, not Nesterov's), torch.optim.Adam and torch.optim.AdamW.  A row of one table each. */
#ifndef CLEAVE_EXEC_KERNELS_OPTIMIZER_H
#define CLEAVE_EXEC_KERNELS_OPTIMIZER_H

#include "base/error.h"
#include "exec/kernels/rate_schedule.h"

#include <stddef.h>

typedef enum cleave_optimizer_kind {
    CLEAVE_OPTIMIZER_SGD,
    CLEAVE_OPTIMIZER_ADAM,
    CLEAVE_OPTIMIZER_ADAMW, /* Adam whose decay acts on the parameters and not by the gradients */
    CLEAVE_N_OPTIMIZERS
} cleave_optimizer_kind;

typedef struct cleave_optimizer {
    cleave_optimizer_kind kind;
    double learning_rate, weight_decay;
    double momentum;              /* of SGD */
    double beta1, beta2, epsilon; /* of Adam and AdamW */
    cleave_rate_schedule schedule;
    double clip_norm; /* gradients of a larger norm, all together, are scaled to it; 0: never */
} cleave_optimizer;

/* PyTorch's defaults: the learning rate 0.01 of SGD, 0.001 of the others; the decay 0.01 of AdamW,
   0 of the others; the rate is constant. */
cleave_optimizer cleave_optimizer_default(cleave_optimizer_kind kind);
/* The same of a name, such as "adamw"; BAD_INPUT for another one. */
cleave_status cleave_optimizer_find(const char *name, cleave_optimizer *optimizer,
                                    cleave_error *error);

/* A number that an optimizer is told, beside its schedule: for what writes them down and compares.
 */
typedef struct cleave_optimizer_figure {
    const char *key, *words; /* "learning_rate", "learning rate" */
    size_t offset;           /* of a double of cleave_optimizer */
    unsigned kinds;          /* of which it means something, as bits */
} cleave_optimizer_figure;

enum { CLEAVE_N_OPTIMIZER_FIGURES = 7 };
extern const cleave_optimizer_figure cleave_optimizer_figures[CLEAVE_N_OPTIMIZER_FIGURES];

/* Its value; null where it means nothing to this optimizer. */
double *cleave_optimizer_figure_of(cleave_optimizer *optimizer,
                                   const cleave_optimizer_figure *figure);

const char *cleave_optimizer_name(const cleave_optimizer *optimizer);

/* Values of state per parameter: 0 (SGD without momentum), 1 or 2. */
int cleave_optimizer_states(const cleave_optimizer *optimizer);

/* What gradients are multiplied with whose squares have this sum, as
   torch.nn.utils.clip_grad_norm_ does it: clip_norm / (norm + 1e-6), but 1 at most. */
float cleave_optimizer_clip(const cleave_optimizer *optimizer, float squares);

/* When an update is, and what it makes of gradients before all else. */
typedef struct cleave_update_step {
    int64_t step; /* from 1, over the whole training */
    float scale;  /* of gradients: 1, or as they are clipped */
} cleave_update_step;

/* One update of n parameters in place.  States start at zero; the ones that the optimizer has not
   are null. */
void cleave_optimizer_update(const cleave_optimizer *optimizer, const cleave_update_step *at,
                             int64_t n, float *parameter, const float *gradient,
                             float *const states[2]);

#endif
