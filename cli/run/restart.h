/* `run --restart N`: a run that fails at run time starts again from its last checkpoint, where
   hosts are gone on those that are left. */
#ifndef CLEAVE_CLI_RUN_RESTART_H
#define CLEAVE_CLI_RUN_RESTART_H

#include "cli/run/fewer.h"
#include "costmodel/machine.h"

typedef struct restart {
    int64_t most;                  /* times to start again */
    const char *checkpoint;        /* folder; null where `most` is 0 */
    double patience_seconds;       /* ranks that give no sign for so long are ended; 0: never */
    const cleave_hosts *hosts;     /* none: all ranks are on this machine */
    const cleave_machine *machine; /* that hosts have to agree with; null: none was given */
    const fewer_search *search;    /* for what is left of it */
    bool quiet;
} restart;

/* Runs `arguments` as ranks until that ends well, or with what would come again (bad input), or was
   asked to end by a signal, or failed once more than `most` times.  Says on stderr why it starts
   again.  Before each time all hosts are asked whether they are there: others take the place of
   those that are not; where these are too few, the first time fails, and from then on the run is
   under a layout that is searched for the rest. */
cleave_status restart_ranks(const restart *how, int32_t n_ranks, char *const *arguments,
                            cleave_error *error);

#endif
