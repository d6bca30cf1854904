/* What the scan does at each item, derived of a whole step before any time is known: its steps, and
   the runs of work between them. */
#include "base/order.h"
#include "simulator/scan/engine_scan.h"
#include "simulator/scan/scan_rule.h"

typedef struct step_finder {
    cleave_engine_problem *problem;
    int32_t *next;            /* [n_devices] end of the work that was met */
    int32_t *run;             /* [n_devices] of it, where what no step has yet begins */
    int32_t *posted, *joined; /* [n_messages], [n_collectives] so far */
    int32_t *poster;          /* [n_messages] device of the first post */
} step_finder;

static bool is_work_of_main(const cleave_engine_problem *problem, int32_t item) {
    return problem->step.kind[item] == CLEAVE_PRICED_WORK && problem->step.duration[item] > 0 &&
           problem->step.queue[item] % 2 == 0;
}

/* Lists the work of main lanes by devices. */
static cleave_status list_work(step_finder *f, cleave_arena *arena, int32_t *n_work,
                               cleave_error *error) {
    cleave_engine_problem *problem = f->problem;
    size_t n_devices = (size_t)problem->n_queues / 2;
    problem->work_start = CLEAVE_ARENA_ARRAY(arena, int32_t, n_devices + 2);
    f->next = CLEAVE_ARENA_ARRAY(arena, int32_t, n_devices);
    f->run = CLEAVE_ARENA_ARRAY(arena, int32_t, n_devices);
    if (problem->work_start == NULL || f->next == NULL || f->run == NULL)
        return cleave_fail_memory(error, "sorting items for the scan");
    for (int32_t i = 0; i < problem->step.n_items; i++)
        problem->work_start[problem->step.queue[i] / 2 + 2] += is_work_of_main(problem, i);
    for (size_t d = 0; d < n_devices; d++) {
        problem->work_start[d + 2] += problem->work_start[d + 1];
        f->run[d] = f->next[d] = problem->work_start[d + 1];
    }
    *n_work = problem->work_start[n_devices + 1];
    problem->work_items = CLEAVE_ARENA_ARRAY(arena, int32_t, *n_work);
    if (problem->work_items == NULL)
        return cleave_fail_memory(error, "sorting items for the scan");
    for (int32_t i = 0; i < problem->step.n_items; i++)
        if (is_work_of_main(problem, i))
            problem->work_items[problem->work_start[problem->step.queue[i] / 2 + 1]++] = i;
    return CLEAVE_OK;
}

/* Ends a device's run of work here; returns the place that it began at, -1 where there is none. */
static int32_t end_run(step_finder *f, int32_t device) {
    int32_t first = f->run[device];
    if (first == f->next[device])
        return -1;
    f->problem->run_of[first] = 1; /* counted later */
    f->run[device] = f->next[device];
    return first;
}

static cleave_scan_kind scan_kind(step_finder *f, int32_t item) {
    cleave_engine_problem *problem = f->problem;
    int32_t subject = problem->step.subject[item];
    bool is_stuck = false;
    if (problem->step.kind[item] == CLEAVE_PRICED_POST && f->posted[subject] == 0)
        f->poster[subject] = problem->step.queue[item] / 2;
    switch ((cleave_priced_kind)problem->step.kind[item]) {
    case CLEAVE_PRICED_WORK:
        return CLEAVE_SCAN_WORK;
    case CLEAVE_PRICED_POST:
        return cleave_scan_kind_of_post(f->posted[subject]++);
    case CLEAVE_PRICED_JOIN:
        return cleave_scan_kind_of_join(f->joined[subject]++,
                                        problem->step.collective_joins[subject]);
    case CLEAVE_PRICED_WAIT_ARRIVAL:
    case CLEAVE_PRICED_WAIT_RELEASE:
        is_stuck = f->posted[subject] < 2;
        break;
    case CLEAVE_PRICED_AWAIT:
        is_stuck = f->joined[subject] < problem->step.collective_joins[subject];
        break;
    case CLEAVE_PRICED_SYNC:
        return is_work_of_main(problem, subject) ? CLEAVE_SCAN_WAIT_WORK : CLEAVE_SCAN_WAIT;
    default:
        break;
    }
    if (is_stuck && problem->stuck < 0)
        problem->stuck = item;
    return CLEAVE_SCAN_WAIT;
}

/* The place of a main lane's work. */
static int32_t find_place(const cleave_engine_problem *problem, int32_t item) {
    int32_t device = problem->step.queue[item] / 2;
    int32_t at = problem->work_start[device];
    CLEAVE_BISECT(at, problem->work_start[device + 1] - 1, middle,
                  problem->work_items[middle] < item);
    return at;
}

/* What is charged for a message depends on how far the main lanes of both its ends have come. */
static void catch_up(step_finder *f, int32_t item) {
    cleave_engine_problem *problem = f->problem;
    int32_t subject = problem->step.subject[item];
    if (problem->step.kind[item] != CLEAVE_PRICED_POST ||
        !cleave_priced_ends_work(&problem->step, subject) || f->posted[subject] != 1)
        return;
    int32_t device = f->poster[subject];
    int32_t work = device == problem->step.queue[item] / 2 ? -1 : end_run(f, device);
    if (work >= 0)
        problem->steps[problem->n_steps++] = (cleave_scan_step){.work = work,
                                                                .item = item,
                                                                .queue = 2 * device,
                                                                .subject = subject,
                                                                .kind = CLEAVE_SCAN_CATCH_UP};
}

static void add_step(step_finder *f, int32_t item) {
    cleave_engine_problem *problem = f->problem;
    catch_up(f, item);
    cleave_scan_step *step = &problem->steps[problem->n_steps++];
    *step = (cleave_scan_step){.work = end_run(f, problem->step.queue[item] / 2),
                               .item = item,
                               .queue = problem->step.queue[item],
                               .subject = problem->step.subject[item],
                               .kind = (uint8_t)scan_kind(f, item),
                               .source = problem->step.kind[item]};
    if (step->kind == CLEAVE_SCAN_WAIT_WORK)
        step->subject = find_place(problem, step->subject);
    if (step->kind == CLEAVE_SCAN_LAST_POST && problem->n_steps > 1 &&
        step[-1].kind == CLEAVE_SCAN_POST && step[-1].subject == step->subject &&
        (step[-1].queue & 1) == (step->queue & 1))
        step[-1].kind = CLEAVE_SCAN_POSTS;
}

/* Before an item; behind the last one for n_items. */
static void cut(step_finder *f, int32_t item, int32_t *next_cut) {
    cleave_engine_problem *problem = f->problem;
    for (; *next_cut < problem->n_cuts && problem->cuts[*next_cut] == item; ++*next_cut) {
        for (int32_t d = 0; d < problem->n_queues / 2; d++) {
            int32_t work = end_run(f, d);
            if (work >= 0)
                problem->steps[problem->n_steps++] =
                    (cleave_scan_step){.work = work,
                                       .item = problem->work_items[work],
                                       .queue = 2 * d,
                                       .subject = -1,
                                       .kind = CLEAVE_SCAN_CATCH_UP};
        }
        problem->cut_steps[*next_cut] = problem->n_steps;
    }
}

/* Numbers the runs, which so far are known by the places that they begin at. */
static cleave_status number_runs(cleave_engine_problem *problem, int32_t n_work,
                                 cleave_arena *arena, cleave_error *error) {
    int32_t n_devices = problem->n_queues / 2, n_runs = 0;
    for (int32_t i = 0; i < n_work; i++)
        n_runs += problem->run_of[i];
    problem->run_start = CLEAVE_ARENA_ARRAY(arena, int32_t, (size_t)n_devices + 1);
    problem->run_first = CLEAVE_ARENA_ARRAY(arena, int32_t, (size_t)n_runs + 1);
    if (problem->run_start == NULL || problem->run_first == NULL)
        return cleave_fail_memory(error, "sorting items for the scan");
    problem->run_first[n_runs] = n_work;
    problem->run_of[n_work] = n_runs;
    n_runs = 0;
    for (int32_t i = 0; i < n_work; i++) {
        if (problem->run_of[i] != 0)
            problem->run_first[n_runs++] = i;
        problem->run_of[i] = n_runs - 1;
    }
    for (int32_t d = 0; d <= n_devices; d++)
        problem->run_start[d] = problem->run_of[problem->work_start[d]];
    for (int32_t s = 0; s < problem->n_steps; s++)
        if (problem->steps[s].work >= 0)
            problem->steps[s].work = problem->run_of[problem->steps[s].work];
    for (int32_t d = 0; d < n_devices; d++)
        if (problem->rest[d] >= 0)
            problem->rest[d] = problem->run_of[problem->rest[d]];
    return CLEAVE_OK;
}

cleave_status cleave_scan_find_steps(cleave_engine_problem *problem, cleave_arena *arena,
                                     cleave_error *error) {
    int32_t n_work = 0;
    step_finder f = {.problem = problem,
                     .posted = CLEAVE_ARENA_ARRAY(arena, int32_t, problem->step.n_messages),
                     .poster = CLEAVE_ARENA_ARRAY(arena, int32_t, problem->step.n_messages),
                     .joined = CLEAVE_ARENA_ARRAY(arena, int32_t, problem->step.n_collectives)};
    CLEAVE_TRY(list_work(&f, arena, &n_work, error));
    int64_t n_steps = (int64_t)problem->step.n_items - n_work;
    n_steps += problem->step.ends != NULL ? problem->step.n_messages : 0;
    n_steps += problem->n_cuts > 0 ? n_work : 0;
    problem->steps = CLEAVE_ARENA_ARRAY(arena, cleave_scan_step, n_steps);
    problem->cut_steps = CLEAVE_ARENA_ARRAY(arena, int32_t, problem->n_cuts);
    problem->run_of = CLEAVE_ARENA_ARRAY(arena, int32_t, (size_t)n_work + 1);
    problem->rest = CLEAVE_ARENA_ARRAY(arena, int32_t, problem->n_queues / 2);
    if (f.posted == NULL || f.poster == NULL || f.joined == NULL || problem->steps == NULL ||
        problem->cut_steps == NULL || problem->run_of == NULL || problem->rest == NULL)
        return cleave_fail_memory(error, "sorting items for the scan");
    problem->n_steps = 0;
    problem->stuck = -1;
    int32_t next_cut = 0;
    for (int32_t i = 0; i < problem->step.n_items; i++) {
        cut(&f, i, &next_cut);
        if (is_work_of_main(problem, i))
            f.next[problem->step.queue[i] / 2]++;
        else
            add_step(&f, i);
    }
    cut(&f, problem->step.n_items, &next_cut);
    for (int32_t d = 0; d < problem->n_queues / 2; d++)
        problem->rest[d] = end_run(&f, d);
    return number_runs(problem, n_work, arena, error);
}
