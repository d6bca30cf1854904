#include "search/improve/auto.h"

#include "search/improve/budget.h"
#include "search/improve/in_steps.h"
#include "search/improve/parallel.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>

enum {
    N_LANES = 2,
    N_ANNEALING = 4,
    SEEDS_OF_ROUND = 1000,
    PROPOSALS_PER_OPERATOR = 2,
    CHAINS_IN_STEPS = 2
};
/* Chains in steps are few and begin hot, at so large a share of the step: at what the least
   differences are, ties mostly, a chain stays where it is. */
static const double hottest_in_steps = 0.01;
/* On more devices a start that is gone on with has to get so many wholes. */
static const double least_wholes_of_start = 2;
/* Starts that are so many times as slow as the best are not gone on with. */
static const double hopeless = 1.5;
/* How often a thread puts down where it is, and the file is written. */
static const double keep_seconds = 1, save_seconds = 5;

/* What a thread has to itself. */
typedef struct auto_worker {
    cleave_chain chain;
    cleave_arena arena;
} auto_worker;

typedef struct auto_run {
    const cleave_improvement *with;
    cleave_improve_start *given; /* [n_given] */
    int32_t n_given;
    cleave_structure structure;
    cleave_refine refine;         /* without a pricer */
    cleave_additive_model around; /* in steps: of changes of the best start */
    auto_state state;
    int32_t n_starts;
    auto_entry starts[AUTO_MAX_POOL]; /* best first */
    auto_worker *workers;             /* [n_threads] */
    auto_budget budget;
    pthread_mutex_t mutex; /* of what follows, while threads run */
    auto_state kept;       /* what is written down */
    double saved_seconds;
    cleave_status save_status;
    cleave_error save_error;
    atomic_bool stop;
    atomic_llong proposals, best_step; /* best_step: 0 where nothing fits yet */
} auto_run;

/* A task as one worker sees it. */
typedef struct work_of {
    auto_run *run;
    int32_t worker;
    int32_t task;
    int64_t seen; /* proposals of the task that are counted in the run's */
    double kept_seconds;
} work_of;

/* ---- rounds ---------------------------------------------------------------------------------- */

static uint64_t seed_of(const auto_run *run, int32_t task) {
    uint64_t key = cleave_hash_join(run->with->seed, cleave_hash_string("auto"));
    return cleave_hash_join(key, (uint64_t)run->state.round * SEEDS_OF_ROUND + (uint64_t)task);
}

static cleave_status add_task(auto_run *run, const auto_entry *start,
                              const cleave_refine_limits *limits, bool anneals,
                              cleave_error *error) {
    auto_state *a = &run->state;
    const cleave_improvement *with = run->with;
    cleave_refine_state fresh;
    cleave_arena scratch = {0};
    cleave_status status =
        cleave_refine_state_create(with->model, &start->choices, limits, &scratch, &fresh, error);
    if (status == CLEAVE_OK) {
        fresh.anneals = anneals;
        fresh.random.key = seed_of(run, a->n_tasks);
        if (!start->is_near)
            fresh.best_price = start->price;
        cleave_refine_state_copy(with->model, &fresh, &a->tasks[a->n_tasks++]);
    }
    cleave_arena_free(&scratch);
    return status;
}

static bool is_hopeless(const auto_entry *entry, const auto_entry *best) {
    if (best->price.excess_bytes > 0 || entry->price.excess_bytes > 0)
        return best->price.excess_bytes == 0;
    return (double)entry->price.step > hopeless * (double)best->price.step;
}

static void add_start(auto_run *run, const cleave_layout *layout, const cleave_price *price,
                      auto_entry *room) {
    const cleave_improvement *with = run->with;
    room->is_near = !cleave_choices_of(with->model, with->candidates, layout, &room->choices);
    room->price = *price;
    auto_pool_add(with->model, room, &run->n_starts, run->starts);
}

/* The best of what is given. */
static cleave_status choose_starts(auto_run *run, cleave_error *error) {
    const cleave_improvement *with = run->with;
    auto_entry room = {0};
    run->n_starts = 0;
    CLEAVE_TRY(cleave_choices_create(with->model, with->arena, &room.choices, error));
    for (int32_t i = 0; i < AUTO_MAX_POOL; i++)
        CLEAVE_TRY(cleave_choices_create(with->model, with->arena, &run->starts[i].choices, error));
    for (int32_t g = 0; g < run->n_given; g++) {
        const cleave_improve_start *given = &run->given[g];
        if (!run->budget.in_steps || given->has_full)
            add_start(run, given->layout, run->budget.in_steps ? &given->full : &given->price,
                      &room);
    }
    while (run->n_starts > 1 && is_hopeless(&run->starts[run->n_starts - 1], &run->starts[0]))
        run->n_starts--;
    return CLEAVE_OK;
}

/* In steps, from the best: changes of neighbours at once take many proposals until one improves
   anything, so descents take turns at them. */
static cleave_status begin_lanes(auto_run *run, const auto_entry *from, cleave_error *error) {
    cleave_refine_limits limits = auto_budget_share(&run->budget, &run->state, N_LANES);
    limits.singles = limits.pairs = true;
    limits.n_lanes = N_LANES;
    for (limits.lane = 0; limits.lane < N_LANES; limits.lane++)
        CLEAVE_TRY(add_task(run, from, &limits, false, error));
    return CLEAVE_OK;
}

static cleave_status begin_first(auto_run *run, cleave_error *error) {
    int32_t n = run->n_starts;
    if (run->budget.in_steps)
        return begin_lanes(run, &run->starts[0], error);
    cleave_refine_limits limits = auto_budget_share(&run->budget, &run->state, n);
    double least = least_wholes_of_start * (double)run->budget.whole_work;
    while (n > 1 && limits.work > 0 && (double)limits.work < least &&
           run->with->machine->n_devices > CLEAVE_FEW_DEVICES)
        limits = auto_budget_share(&run->budget, &run->state, --n);
    for (int32_t i = 0; i < n; i++)
        CLEAVE_TRY(add_task(run, &run->starts[i], &limits, false, error));
    return CLEAVE_OK;
}

/* Would annealing make enough proposals to come to anything?  By what they have come to so far. */
static bool is_worth_annealing(const auto_run *run, const cleave_refine_limits *limits) {
    const auto_state *a = &run->state;
    if (limits->work <= 0 || a->work <= 0)
        return true;
    double each = (double)a->work / (double)(a->proposals > 0 ? a->proposals : 1);
    return (double)limits->work > each * PROPOSALS_PER_OPERATOR * run->with->model->n_operators;
}

/* Three chains from the best and one from the second; in steps, all from the best. */
static cleave_status begin_annealing(auto_run *run, cleave_error *error) {
    auto_state *a = &run->state;
    int32_t n = run->budget.in_steps ? CHAINS_IN_STEPS : N_ANNEALING;
    cleave_refine_limits limits = auto_budget_share(&run->budget, &run->state, n);
    if (!is_worth_annealing(run, &limits))
        return CLEAVE_OK;
    limits.pairs = run->budget.in_steps;
    for (int32_t i = 0; i < n; i++) {
        const auto_entry *from =
            &a->pool[i == n - 1 && a->n_pool > 1 && !run->budget.in_steps ? 1 : 0];
        CLEAVE_TRY(add_task(run, from, &limits, true, error));
    }
    return CLEAVE_OK;
}

static cleave_status begin_last(auto_run *run, cleave_error *error) {
    auto_state *a = &run->state;
    cleave_refine_limits limits = auto_budget_share(&run->budget, &run->state, 1);
    if (run->with->time_seconds <= 0 && run->with->proposals <= 0)
        limits.whole_sweeps =
            run->with->machine->n_devices <= CLEAVE_FEW_DEVICES && !run->with->polishes;
    if (a->pool[0].is_local_optimum)
        return CLEAVE_OK;
    limits.singles = limits.pairs = run->budget.in_steps;
    return add_task(run, &a->pool[0], &limits, false, error);
}

static cleave_status begin_round(auto_run *run, cleave_error *error) {
    run->state.n_tasks = 0;
    switch (run->state.round % AUTO_N_ROUNDS) {
    case 0: /* descents have nothing new to give */
        return run->state.round == 0 ? begin_first(run, error) : CLEAVE_OK;
    case 1:
        return begin_annealing(run, error);
    default:
        return begin_last(run, error);
    }
}

static void end_round(auto_run *run) {
    auto_state *a = &run->state;
    for (int32_t i = 0; i < a->n_tasks; i++) {
        const cleave_refine_state *task = &a->tasks[i];
        const auto_entry entry = {task->best, task->best_price, task->is_local_optimum, false};
        if (task->best_price.excess_bytes < INT64_MAX)
            auto_pool_add(run->with->model, &entry, &a->n_pool, a->pool);
        a->proposals += task->proposals;
        a->accepted += task->accepted;
        a->work += task->work;
    }
    a->n_tasks = 0;
    a->round++;
}

/* ---- a round, by threads --------------------------------------------------------------------- */

static void show(auto_run *run) {
    const cleave_improvement *with = run->with;
    if (cleave_improvement_interrupted(with))
        atomic_store(&run->stop, true);
    if (with->progress->quiet)
        return;
    char best[32] = "none fits yet", note[96];
    double elapsed = cleave_clock_seconds() - with->started_seconds;
    long long proposals = atomic_load(&run->proposals), step = atomic_load(&run->best_step);
    if (step > 0)
        cleave_unit_format((double)step * 1e-12, CLEAVE_UNIT_SECONDS, best, sizeof best);
    snprintf(note, sizeof note, "best %s, %lld proposals, %.0f/s", best, proposals,
             elapsed > 0 ? (double)proposals / elapsed : 0);
    double share = -1;
    if (with->time_seconds > 0)
        share = fmin(elapsed / with->time_seconds, 1);
    else if (with->proposals > 0)
        share = fmin((double)proposals / (double)with->proposals, 1);
    cleave_progress_update(with->progress, share, note);
}

static void wait_for_others(void *context) { show(context); }

/* What can be gone on with, apart from what threads are at. */
static void snapshot(auto_run *run) {
    const cleave_model *model = run->with->model;
    auto_state *kept = &run->kept;
    const auto_state *a = &run->state;
    kept->round = a->round;
    kept->n_tasks = a->n_tasks;
    kept->proposals = a->proposals;
    kept->accepted = a->accepted;
    kept->work = a->work;
    kept->n_pool = a->n_pool;
    for (int32_t i = 0; i < a->n_pool; i++) {
        kept->pool[i].price = a->pool[i].price;
        kept->pool[i].is_local_optimum = a->pool[i].is_local_optimum;
        cleave_choices_copy(model, &a->pool[i].choices, &kept->pool[i].choices);
    }
    for (int32_t i = 0; i < a->n_tasks; i++)
        cleave_refine_state_copy(model, &a->tasks[i], &kept->tasks[i]);
}

static cleave_status save(auto_run *run, cleave_error *error) {
    if (run->with->resume_file == NULL)
        return CLEAVE_OK;
    run->saved_seconds = cleave_clock_seconds();
    return auto_state_write(run->with, &run->kept, error);
}

/* Now and then a thread puts down where it is, and writes down where all are. */
static void keep_now_and_then(work_of *w, const cleave_refine_state *state) {
    auto_run *run = w->run;
    double now = cleave_clock_seconds();
    if (run->with->resume_file == NULL || now - w->kept_seconds < keep_seconds)
        return;
    w->kept_seconds = now;
    pthread_mutex_lock(&run->mutex);
    cleave_refine_state_copy(run->with->model, state, &run->kept.tasks[w->task]);
    if (run->save_status == CLEAVE_OK && now - run->saved_seconds > save_seconds)
        run->save_status = save(run, &run->save_error);
    pthread_mutex_unlock(&run->mutex);
}

static void after_proposal(void *context, const cleave_refine_state *state) {
    work_of *w = context;
    auto_run *run = w->run;
    atomic_fetch_add(&run->proposals, state->proposals - w->seen);
    w->seen = state->proposals;
    long long step = state->best_price.step, best = atomic_load(&run->best_step);
    while (state->best_price.excess_bytes == 0 && (best == 0 || step < best) &&
           !atomic_compare_exchange_weak(&run->best_step, &best, step))
        ;
    keep_now_and_then(w, state);
    if (w->worker == 0)
        show(run);
}

static cleave_status run_task(void *context, int32_t worker, int32_t task, cleave_error *error) {
    auto_run *run = context;
    work_of w = {.run = run,
                 .worker = worker,
                 .task = task,
                 .seen = run->state.tasks[task].proposals,
                 .kept_seconds = cleave_clock_seconds()};
    cleave_refine refine = run->refine;
    refine.pricer = &run->with->pricers[worker];
    refine.chain = &run->workers[worker].chain;
    refine.arena = &run->workers[worker].arena;
    refine.after = after_proposal;
    refine.context = &w;
    if (atomic_load(&run->stop))
        return CLEAVE_OK;
    return cleave_refine_run(&refine, &run->state.tasks[task], error);
}

static bool is_over(const auto_run *run) {
    const cleave_improvement *with = run->with;
    if (atomic_load(&run->stop) || cleave_improvement_interrupted(with))
        return true;
    if (with->proposals > 0 && run->state.proposals >= with->proposals)
        return true;
    if (with->time_seconds > 0) /* more rounds as long as they are worth beginning */
        return cleave_improvement_seconds_left(with) < 0.02 * with->time_seconds;
    return run->state.round >= AUTO_N_ROUNDS;
}

static cleave_status run_round(auto_run *run, cleave_error *error) {
    const cleave_parallel parallel = {.n_threads = run->with->n_threads,
                                      .n_tasks = run->state.n_tasks,
                                      .task = run_task,
                                      .wait = wait_for_others,
                                      .context = run};
    snapshot(run);
    CLEAVE_TRY(cleave_parallel_run(&parallel, error));
    if (run->save_status != CLEAVE_OK && error != NULL)
        *error = run->save_error;
    return run->save_status;
}

/* `goes_on`: the state is one that was read, in the middle of a round. */
static cleave_status run_rounds(auto_run *run, bool goes_on, cleave_error *error) {
    while (!is_over(run)) {
        if (!goes_on)
            CLEAVE_TRY(begin_round(run, error));
        goes_on = false;
        CLEAVE_TRY(run_round(run, error));
        if (atomic_load(&run->stop)) {
            snapshot(run);
            CLEAVE_TRY(save(run, error));
        }
        end_round(run);
    }
    if (atomic_load(&run->stop))
        return CLEAVE_OK;
    snapshot(run);
    return save(run, error);
}

/* ---- the method ------------------------------------------------------------------------------ */

/* The chain of the calling thread, at the best start, shows how much work a whole layout is. */
static cleave_status begin_first_chain(auto_run *run, cleave_error *error) {
    const cleave_improvement *with = run->with;
    auto_worker *w = &run->workers[0];
    const auto_entry *best = &run->starts[0];
    const cleave_chain_start start = {&best->choices, best->is_near ? NULL : &best->price};
    const cleave_chain_frame frame = {
        .candidates = with->candidates, .like = run->refine.like, .in_steps = run->refine.in_steps};
    CLEAVE_TRY(cleave_chain_begin(&with->pricers[0], &frame, &start, &w->arena, &w->chain, error));
    run->budget.whole_work = cleave_estimate_count(w->chain.estimate).bytes;
    run->refine.whole_work = run->budget.whole_work;
    return CLEAVE_OK;
}

/* From now on all prices of starts, and of what refinements come to, are in steps. */
static cleave_status go_to_steps(auto_run *run, cleave_error *error) {
    const cleave_improvement *with = run->with;
    CLEAVE_TRY(
        improve_price_in_steps(with, run->given, run->n_given, &run->starts[0].price, error));
    run->budget.in_steps = run->refine.in_steps = true;
    run->refine.hottest = hottest_in_steps;
    cleave_chain_end(&run->workers[0].chain);
    CLEAVE_TRY(choose_starts(run, error));
    CLEAVE_TRY(
        improve_look_around(with, &run->starts[0].choices, run->refine.like, &run->around, error));
    if (with->additive != NULL)
        run->refine.source.additive = &run->around;
    return begin_first_chain(run, error);
}

static cleave_status begin(auto_run *run, cleave_error *error) {
    const cleave_improvement *with = run->with;
    CLEAVE_TRY(cleave_structure_create(with->model, with->candidates, with->constraints,
                                       with->arena, &run->structure, error));
    CLEAVE_TRY(auto_state_create(with->model, with->arena, &run->state, error));
    CLEAVE_TRY(auto_state_create(with->model, with->arena, &run->kept, error));
    run->refine = (cleave_refine){.source = {.model = with->model,
                                             .candidates = with->candidates,
                                             .structure = &run->structure,
                                             .optimizer_states = with->optimizer_states,
                                             .additive = with->additive},
                                  .like = run->given[0].layout,
                                  .stop = &run->stop};
    run->workers = CLEAVE_ARENA_ARRAY(with->arena, auto_worker, with->n_threads);
    if (run->workers == NULL)
        return cleave_fail_memory(error, "searching");
    CLEAVE_TRY(choose_starts(run, error));
    CLEAVE_TRY(begin_first_chain(run, error));
    return auto_budget_allows_steps(&run->budget) ? go_to_steps(run, error) : CLEAVE_OK;
}

static void end(auto_run *run) {
    const cleave_improvement *with = run->with;
    for (int32_t i = 0; i < with->n_threads && run->workers != NULL; i++) {
        auto_worker *w = &run->workers[i];
        cleave_chain_end(&w->chain);
        cleave_arena_free(&w->arena);
    }
}

static cleave_status give(const auto_run *run, cleave_improved *improved, cleave_error *error) {
    const cleave_improvement *with = run->with;
    const auto_state *a = &run->state;
    *improved = (cleave_improved){.n = a->n_pool,
                                  .in_steps = run->budget.in_steps,
                                  .proposals = a->proposals,
                                  .accepted = a->accepted,
                                  .whole_work = run->budget.whole_work};
    for (int32_t i = 0; i < a->n_pool; i++) {
        improved->items[i].price = a->pool[i].price;
        improved->items[i].is_local_optimum = a->pool[i].is_local_optimum;
        CLEAVE_TRY(cleave_choices_layout(with->model, with->candidates, &a->pool[i].choices,
                                         run->refine.like, with->arena, &improved->items[i].layout,
                                         error));
    }
    return CLEAVE_OK;
}

cleave_status cleave_improve(const cleave_improvement *with, cleave_improve_start *starts,
                             int32_t n_starts, cleave_improved *improved, cleave_error *error) {
    auto_run run = {.with = with,
                    .given = starts,
                    .n_given = n_starts,
                    .budget.with = with,
                    .mutex = PTHREAD_MUTEX_INITIALIZER};
    bool found = false;
    cleave_status status = begin(&run, error);
    if (status == CLEAVE_OK)
        status = auto_state_read(with, &run.state, &found, error);
    if (status == CLEAVE_OK && found)
        auto_budget_resume(&run.budget, &run.state);
    if (status == CLEAVE_OK)
        status = run_rounds(&run, found && run.state.n_tasks > 0, error);
    if (status == CLEAVE_OK)
        status = give(&run, improved, error);
    end(&run);
    return status;
}
