#include "search/improve/parallel.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

enum { MOST_THREADS = 256 };

typedef struct shared {
    const cleave_parallel *parallel;
    atomic_int next, n_ended; /* task; threads beside the calling one that have ended */
    atomic_bool failed;
    pthread_mutex_t mutex; /* of what follows */
    int32_t failed_task;
    cleave_status status;
    cleave_error error;
} shared;

typedef struct worker {
    shared *shared;
    int32_t number;
    pthread_t thread;
} worker;

static void fail(shared *s, int32_t task, cleave_status status, const cleave_error *error) {
    pthread_mutex_lock(&s->mutex);
    if (s->status == CLEAVE_OK || task < s->failed_task) {
        s->failed_task = task;
        s->status = status;
        s->error = *error;
    }
    pthread_mutex_unlock(&s->mutex);
    atomic_store(&s->failed, true);
}

static void work(shared *s, int32_t number) {
    while (!atomic_load(&s->failed)) {
        int32_t task = atomic_fetch_add(&s->next, 1);
        if (task >= s->parallel->n_tasks)
            return;
        cleave_error error = {""};
        cleave_status status = s->parallel->task(s->parallel->context, number, task, &error);
        if (status != CLEAVE_OK)
            fail(s, task, status, &error);
    }
}

static void *run_thread(void *argument) {
    worker *w = argument;
    work(w->shared, w->number);
    atomic_fetch_add(&w->shared->n_ended, 1);
    return NULL;
}

static int32_t start(shared *s, worker *workers, int32_t n) {
    sigset_t all, before;
    int32_t started = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; started < n; started++) {
        workers[started] = (worker){.shared = s, .number = started + 1};
        if (pthread_create(&workers[started].thread, NULL, run_thread, &workers[started]) != 0)
            break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

cleave_status cleave_parallel_run(const cleave_parallel *parallel, cleave_error *error) {
    shared s = {.parallel = parallel, .mutex = PTHREAD_MUTEX_INITIALIZER};
    worker workers[MOST_THREADS];
    int32_t wanted =
        parallel->n_threads < parallel->n_tasks ? parallel->n_threads : parallel->n_tasks;
    int32_t n = start(&s, workers, wanted > MOST_THREADS ? MOST_THREADS : wanted - 1);
    work(&s, 0);
    const struct timespec pause = {.tv_nsec = 5000000};
    while (parallel->wait != NULL && atomic_load(&s.n_ended) < n) {
        parallel->wait(parallel->context);
        nanosleep(&pause, NULL);
    }
    for (int32_t i = 0; i < n; i++)
        pthread_join(workers[i].thread, NULL);
    if (s.status != CLEAVE_OK && error != NULL)
        *error = s.error;
    return s.status;
}
