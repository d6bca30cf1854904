#include "search/improve/budget.h"

#include <math.h>

/* Shares of what is left that a round may spend; the last one gets all. */
static const double share_of_round[] = {0.3, 0.6, 1}, share_in_steps[] = {0.65, 0.85, 1};
/* What a search without limits spends, in times of what it takes to lower the whole model once, or
   in bytes of fragments where that is more: on SOME_DEVICES or fewer, and on more as much
   less as the square of their number is larger, since there the rest of a search takes longer.  On
   few devices whole sweeps of single changes follow, until none improves anything: here, or in
   steps (search/improve/polish.c). On more there are too many changes for that, and it gives a
   sweep up when so many of its most promising moves, on 64 devices, have failed one after the
   other; in steps, where of changes of neighbours at once few improve anything, after more of them.
 */
static const int64_t most_wholes = 8, least_work = INT64_C(1) << 28;
enum { SOME_DEVICES = 16, PATIENCE_ON_MANY = 100, PATIENCE_IN_STEPS = 200 };
/* On more than few devices layouts whose fragments in closed form are no more bytes than this are
   refined in steps: where few operators share the links of many devices, closed forms are furthest
   off.  So many bytes of fragments are spent there, and on many devices no more than so many by the
   square of their number. */
static const int64_t most_bytes_in_steps = INT64_C(1) << 21, work_in_steps = INT64_C(1) << 30,
                     work_by_square = INT64_C(1) << 39;

/* Of a search without limits. */
static int64_t work_of_all(const auto_budget *budget) {
    int64_t most = most_wholes * budget->whole_work;
    int64_t least = least_work, n_devices = budget->with->machine->n_devices;
    if (budget->in_steps) {
        least = work_by_square / (n_devices * n_devices);
        return least < work_in_steps ? least : work_in_steps;
    }
    if (n_devices > SOME_DEVICES)
        least = least * SOME_DEVICES / n_devices * SOME_DEVICES / n_devices;
    return most > least ? most : least;
}

static int64_t patience(const auto_budget *budget) {
    const cleave_improvement *with = budget->with;
    bool limited = with->proposals > 0 || with->time_seconds > 0;
    if (budget->in_steps)
        return PATIENCE_IN_STEPS;
    return limited || with->machine->n_devices <= CLEAVE_FEW_DEVICES
               ? 100 + 3 * (int64_t)with->model->n_operators
               : 1 + PATIENCE_ON_MANY * 64 / with->machine->n_devices;
}

/* Of what is left, for the round that the state is in. */
static double share_of(const auto_budget *budget, const auto_state *a) {
    return (budget->in_steps ? share_in_steps : share_of_round)[a->round % AUTO_N_ROUNDS];
}

cleave_refine_limits auto_budget_share(const auto_budget *budget, const auto_state *a, int32_t n) {
    const cleave_improvement *with = budget->with;
    double share = share_of(budget, a);
    cleave_refine_limits limits = {0};
    if (with->proposals > 0) {
        int64_t left = with->proposals - a->proposals;
        limits.proposals = (int64_t)ceil(share * (double)left) / n;
        if (limits.proposals < 1)
            limits.proposals = -1;
    } else if (with->time_seconds > 0) {
        int32_t waves = (n + with->n_threads - 1) / with->n_threads;
        limits.seconds = share * cleave_improvement_seconds_left(with) / waves;
    } else {
        int64_t most = work_of_all(budget);
        int64_t left = most > a->work ? most - a->work : 0;
        limits.work = (int64_t)(share * (double)left) / n + 1;
    }
    limits.patience = patience(budget);
    return limits;
}

bool auto_budget_allows_steps(const auto_budget *budget) {
    return budget->with->machine->n_devices > CLEAVE_FEW_DEVICES &&
           budget->whole_work <= most_bytes_in_steps;
}

void auto_budget_resume(const auto_budget *budget, auto_state *a) {
    const cleave_improvement *with = budget->with;
    int32_t n = 0;
    for (int32_t i = 0; i < a->n_tasks; i++)
        n += a->tasks[i].phase != CLEAVE_REFINE_DONE;
    for (int32_t i = 0; i < a->n_tasks && with->time_seconds > 0; i++)
        a->tasks[i].limits.seconds = share_of(budget, a) * cleave_improvement_seconds_left(with) *
                                     with->n_threads / (n + with->n_threads - 1);
}
