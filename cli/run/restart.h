/* `run --restart N`: a run that fails at run time starts again from its last checkpoint. */
#ifndef CLEAVE_CLI_RUN_RESTART_H
#define CLEAVE_CLI_RUN_RESTART_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct restart {
    int64_t most;            /* times to start again */
    const char *checkpoint;  /* folder; null where `most` is 0 */
    double patience_seconds; /* ranks that give no sign for so long are ended; 0: never */
    bool quiet;
} restart;

/* Runs `arguments` as ranks until that ends well, or with what would come again (bad input), or was
   asked to end by a signal, or failed once more than `most` times.  Says on stderr why it starts
   again. */
cleave_status restart_ranks(const restart *how, int32_t n_ranks, char *const *arguments,
                            cleave_error *error);

#endif
