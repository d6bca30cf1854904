/* What people recompute. */
#ifndef CLEAVE_SEARCH_PIPELINE_RECOMPUTE_H
#define CLEAVE_SEARCH_PIPELINE_RECOMPUTE_H

#include "graph/model/layout.h"

typedef enum cleave_recompute {
    CLEAVE_RECOMPUTE_NONE,
    CLEAVE_RECOMPUTE_SELECTIVE, /* products of two activations and what goes from one to the next,
                                   as attention (Korthikanti et al. 2022): much to keep, little to
                                   do */
    CLEAVE_RECOMPUTE_ALTERNATE, /* as full, but attention and, from one operator that is kept to the
                                   next, the first product, the third, ... are kept (torchtitan's
                                   selective checkpoints) */
    CLEAVE_RECOMPUTE_FULL, /* all but the operators whose output alone goes on to all that follows:
                              of a residual network, blocks keep their inputs (Chen et al. 2016) */
    CLEAVE_N_RECOMPUTES
} cleave_recompute;
extern const char *const cleave_recompute_names[CLEAVE_N_RECOMPUTES]; /* "none", ... */

/* Which operators may be recomputed, [n_operators]: those without running statistics. */
void cleave_recompute_may(const cleave_model *model, bool *may);

/* Marks the operators of a layout, but those with running statistics.  FAILED when memory is
   short. */
cleave_status cleave_recompute_mark(const cleave_model *model, cleave_recompute what,
                                    cleave_layout *layout, cleave_error *error);

#endif
