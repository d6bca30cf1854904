#include "exec/kernels/team.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

/* How one part went. */
typedef struct outcome {
    cleave_status status;
    cleave_error error;
} outcome;

struct cleave_team {
    int32_t n, n_started; /* threads with the caller; of the others those that run */
    pthread_t *threads;   /* [n - 1] */
    outcome *outcomes;    /* [n] */
    pthread_mutex_t mutex;
    pthread_cond_t begun, ended;
    atomic_uint round; /* counts up when there is work; */
    atomic_int left;   /* threads that are not through with it */
    bool working, ends;
    int32_t n_parts;
    cleave_team_body *body;
    void *context;
};

typedef struct member {
    cleave_team *team;
    int32_t thread;
} member;

/* Awake for some ten microseconds, about what it takes to wake up, and letting others run. */
enum { LOOKS = 64, PAUSES = 32 };

static void pause_a_little(void) {
    for (int i = 0; i < PAUSES; i++) {
#if defined(__SSE2__)
        _mm_pause();
#else
        atomic_signal_fence(memory_order_seq_cst);
#endif
    }
    sched_yield();
}

static void await_round(cleave_team *team, unsigned before) {
    for (int i = 0; i < LOOKS; i++) {
        if (atomic_load_explicit(&team->round, memory_order_acquire) != before)
            return;
        pause_a_little();
    }
    pthread_mutex_lock(&team->mutex);
    while (atomic_load_explicit(&team->round, memory_order_acquire) == before)
        pthread_cond_wait(&team->begun, &team->mutex);
    pthread_mutex_unlock(&team->mutex);
}

static void await_others(cleave_team *team) {
    for (int i = 0; i < LOOKS; i++) {
        if (atomic_load_explicit(&team->left, memory_order_acquire) == 0)
            return;
        pause_a_little();
    }
    pthread_mutex_lock(&team->mutex);
    while (atomic_load_explicit(&team->left, memory_order_acquire) > 0)
        pthread_cond_wait(&team->ended, &team->mutex);
    pthread_mutex_unlock(&team->mutex);
}

static void begin_round(cleave_team *team) {
    atomic_store_explicit(&team->left, team->n_started, memory_order_relaxed);
    pthread_mutex_lock(&team->mutex);
    atomic_fetch_add_explicit(&team->round, 1, memory_order_release);
    pthread_cond_broadcast(&team->begun);
    pthread_mutex_unlock(&team->mutex);
}

static void end_round(cleave_team *team) {
    if (atomic_fetch_sub_explicit(&team->left, 1, memory_order_acq_rel) > 1)
        return;
    pthread_mutex_lock(&team->mutex);
    pthread_cond_signal(&team->ended);
    pthread_mutex_unlock(&team->mutex);
}

static void do_part(cleave_team *team, int32_t part, int32_t thread) {
    outcome *of = &team->outcomes[part];
    of->status = team->body(team->context, part, thread, &of->error);
}

static void *serve(void *argument) {
    const member self = *(member *)argument;
    cleave_team *team = self.team;
    free(argument);
    for (unsigned round = 0;;) {
        await_round(team, round++);
        bool ends = team->ends;
        if (!ends && self.thread < team->n_parts)
            do_part(team, self.thread, self.thread);
        end_round(team);
        if (ends)
            return NULL;
    }
}

/* Signals are for the thread that was there before. */
static cleave_status start_thread(cleave_team *team, int32_t thread, cleave_error *error) {
    sigset_t all, before;
    member *self = malloc(sizeof *self);
    if (self == NULL)
        return cleave_fail_memory(error, "starting threads");
    *self = (member){team, thread};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&team->threads[thread - 1], NULL, serve, self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed == 0)
        return CLEAVE_OK;
    free(self);
    return cleave_fail(error, CLEAVE_FAILED, "thread %d of %d of a device can't be started", thread,
                       team->n);
}

cleave_status cleave_team_create(int32_t n, cleave_team **team, cleave_error *error) {
    cleave_team *made = calloc(1, sizeof *made);
    if (made == NULL)
        return cleave_fail_memory(error, "starting threads");
    made->n = n;
    made->threads = calloc((size_t)n - 1, sizeof *made->threads);
    made->outcomes = calloc((size_t)n, sizeof *made->outcomes);
    pthread_mutex_init(&made->mutex, NULL);
    pthread_cond_init(&made->begun, NULL);
    pthread_cond_init(&made->ended, NULL);
    cleave_status status = made->threads == NULL || made->outcomes == NULL
                               ? cleave_fail_memory(error, "starting threads")
                               : CLEAVE_OK;
    for (int32_t i = 1; i < n && status == CLEAVE_OK; i++) {
        status = start_thread(made, i, error);
        made->n_started += status == CLEAVE_OK;
    }
    if (status == CLEAVE_OK)
        *team = made;
    else
        cleave_team_destroy(made);
    return status;
}

void cleave_team_destroy(cleave_team *team) {
    if (team == NULL)
        return;
    team->ends = true;
    begin_round(team);
    for (int32_t i = 0; i < team->n_started; i++)
        pthread_join(team->threads[i], NULL);
    pthread_cond_destroy(&team->begun);
    pthread_cond_destroy(&team->ended);
    pthread_mutex_destroy(&team->mutex);
    free(team->threads);
    free(team->outcomes);
    free(team);
}

int32_t cleave_team_size(const cleave_team *team) { return team != NULL ? team->n : 1; }

static cleave_status run_in_turn(int32_t n, cleave_team_body *body, void *context,
                                 cleave_error *error) {
    for (int32_t i = 0; i < n; i++)
        CLEAVE_TRY(body(context, i, 0, error));
    return CLEAVE_OK;
}

cleave_status cleave_team_run(cleave_team *team, int32_t n, cleave_team_body *body, void *context,
                              cleave_error *error) {
    if (n <= 1 || team->working)
        return run_in_turn(n, body, context, error);
    team->working = true;
    team->n_parts = n;
    team->body = body;
    team->context = context;
    begin_round(team);
    do_part(team, 0, 0);
    await_others(team);
    team->working = false;
    for (int32_t i = 0; i < n; i++)
        if (team->outcomes[i].status != CLEAVE_OK) {
            *error = team->outcomes[i].error;
            return team->outcomes[i].status;
        }
    return CLEAVE_OK;
}
