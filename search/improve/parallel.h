/* Tasks that have nothing to do with each other, over some threads. */
#ifndef CLEAVE_SEARCH_IMPROVE_PARALLEL_H
#define CLEAVE_SEARCH_IMPROVE_PARALLEL_H

#include "base/error.h"

#include <stdint.h>

typedef struct cleave_parallel {
    int32_t n_threads; /* 1 or more, the calling thread among them */
    int32_t n_tasks;
    /* Workers are numbered from 0, the calling thread.  A task is done by one worker, a worker does
       one task at a time; which one does which differs from run to run. */
    cleave_status (*task)(void *context, int32_t worker, int32_t task, cleave_error *error);
    /* May be null: called by the calling thread now and then while it waits for the others. */
    void (*wait)(void *context);
    void *context;
} cleave_parallel;

/* Starts tasks in their order and waits for all.  After a failure no more are started; of several
   failures that of the first task is returned.  Signals are left to the calling thread.  Where no
   thread can be made, fewer do it. */
cleave_status cleave_parallel_run(const cleave_parallel *parallel, cleave_error *error);

#endif
