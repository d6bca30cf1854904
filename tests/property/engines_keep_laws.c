/* Of random programs: no engine breaks what a timeline has to keep, both agree where the order does
   not matter, and what they say of the main lane and of the critical path adds up. */
#include "../support/draws.h"
#include "../support/engine_case.h"
#include "../support/ok.h"

#include "base/random.h"
#include "simulator/report/critical_path.h"
#include "simulator/scan/scan_rule.h"

#include <string.h>

/* A random program in a legal global order.  With own_links every message has a link of its own,
   with ends_work both its ends work on it. */
static engine_case *random_case(uint64_t seed, bool own_links, bool two_lanes, bool ends_work) {
    cleave_random random = {.key = seed};
    int32_t n_devices = (int32_t)(2 + cleave_random_below(&random, 4)), n_messages = 40;
    engine_case *c = engine_case_create(n_devices, own_links ? n_messages : 4);
    for (int32_t l = 0; l < c->problem.n_links; l++)
        c->link_latency[l] = cleave_random_below(&random, 50);
    int32_t last_of_lane[16];
    memset(last_of_lane, -1, sizeof last_of_lane);
    for (int32_t k = 0; k < n_messages; k++) {
        int32_t from = (int32_t)cleave_random_below(&random, n_devices);
        int32_t to = (from + 1 + (int32_t)cleave_random_below(&random, n_devices - 1)) % n_devices;
        int32_t lane = two_lanes ? (int32_t)cleave_random_below(&random, 2) : 0;
        int32_t a = 2 * from + lane, z = 2 * to + lane;
        int32_t second = !own_links && cleave_random_below(&random, 2) ? k % 4 : -1;
        int32_t m =
            message(c, own_links ? k : (k + 1) % 4, second, 1 + cleave_random_below(&random, 300));
        if (ends_work)
            ends(c, m, cleave_random_below(&random, 300), from, to);
        if (ends_work && cleave_random_below(&random, 2))
            c->ends[m].agreement = cleave_random_below(&random, 300);
        item(c, a, W, -1, cleave_random_below(&random, 200));
        item(c, z, P, m, cleave_random_below(&random, 20));
        item(c, z, W, -1, cleave_random_below(&random, 200));
        int32_t work = item(c, z, W, -1, cleave_random_below(&random, 50));
        last_of_lane[a] = item(c, a, P, m, cleave_random_below(&random, 20));
        if (two_lanes && last_of_lane[z ^ 1] >= 0)
            item(c, z, S, last_of_lane[z ^ 1], 0);
        if (cleave_random_below(&random, 2))
            item(c, a, R, m, 0);
        int32_t wait = item(c, z, A, m, 0);
        last_of_lane[z] = cleave_random_below(&random, 3) == 0 ? work : wait;
    }
    finish(c);
    return c;
}

/* What must hold of any timeline: lanes in order, nothing before what it waits for, no work faster
   than its duration, no transfer faster than its links. */
static void expect_dependencies_hold(const engine_case *c) {
    const cleave_engine_problem *p = &c->problem;
    const cleave_timeline *t = &c->timeline;
    int64_t free[32] = {0}, ready[ROOM] = {0}, step = 0;
    for (int32_t i = 0; i < p->step.n_items; i++) {
        cr_expect_geq(t->start[i], free[p->step.queue[i]]);
        cr_expect_geq(t->end[i], t->start[i] + p->step.duration[i]);
        free[p->step.queue[i]] = t->end[i];
        step = t->end[i] > step ? t->end[i] : step;
        int32_t s = p->step.subject[i];
        if (p->step.kind[i] == P && t->end[i] > ready[s])
            ready[s] = t->end[i];
        if (p->step.kind[i] == A)
            cr_expect_geq(t->end[i], t->arrival[s]);
        if (p->step.kind[i] == S)
            cr_expect_geq(t->end[i], t->end[s]);
    }
    for (int32_t m = 0; m < p->step.n_messages; m++) {
        int32_t first = p->step.hop_start[m];
        int64_t begin = ready[m] + (p->step.ends != NULL ? p->step.ends[m].agreement : 0);
        cr_expect_geq(cleave_engine_hop_begin(c->workspace)[first], begin);
        cr_expect_geq(t->arrival[m], begin + p->step.hop_serialization[first] +
                                         p->link_latency[p->step.hop_link[first]]);
        for (int e = 0; p->step.ends != NULL && p->step.ends[m].work > 0 && e < 2; e++) {
            int64_t worked = c->workspace->end_begin[2 * m + e];
            cr_expect_geq(worked, cleave_engine_hop_begin(c->workspace)[first]);
            cr_expect_geq(t->arrival[m], worked + p->step.ends[m].work);
        }
    }
    cr_expect_geq(t->step, step);
}

Test(engine, both_engines_respect_dependencies_of_random_programs) {
    for (uint64_t seed = seed_from(0); seed < seed_end(200); seed++) {
        engine_case *c = random_case(seed, seed % 2, seed % 3 != 0, seed % 4 < 2);
        events(c);
        expect_dependencies_hold(c);
        scan(c);
        expect_dependencies_hold(c);
        engine_case_destroy(c);
    }
}

Test(engine, engines_agree_where_no_link_is_shared) {
    for (uint64_t seed = seed_from(0); seed < seed_end(200); seed++) {
        engine_case *c = random_case(seed, true, false, false);
        int64_t by_events = events(c);
        int64_t *start = malloc((size_t)c->problem.step.n_items * sizeof *start);
        cr_assert_not_null(start);
        memcpy(start, c->timeline.start, (size_t)c->problem.step.n_items * sizeof *start);
        cr_expect_eq(scan(c), by_events, "seed %llu", (unsigned long long)seed);
        cr_expect_eq(
            memcmp(start, c->timeline.start, (size_t)c->problem.step.n_items * sizeof *start), 0);
        free(start);
        engine_case_destroy(c);
    }
}

/* How long the device of a main item works on messages within it. */
static int64_t worked_within(const engine_case *c, int32_t i) {
    const cleave_engine_problem *p = &c->problem;
    const cleave_timeline *t = &c->timeline;
    int64_t sum = 0;
    for (int32_t m = 0; m < p->step.n_messages && p->step.kind[i] != P; m++)
        for (int e = 0; e < 2; e++) {
            int64_t begin = c->workspace->end_begin[2 * m + e];
            int64_t end = begin + p->step.ends[m].work;
            if ((e == 0 ? p->step.ends[m].source : p->step.ends[m].destination) !=
                p->step.queue[i] / 2)
                continue;
            begin = begin > t->start[i] ? begin : t->start[i];
            end = end < t->end[i] ? end : t->end[i];
            sum += end > begin ? end - begin : 0;
        }
    return sum;
}

/* Work is conserved: a main item ends as late as its own work and all that the communication lane,
   and the device for messages, did within it say, to the picosecond. */
Test(engine, time_taken_from_the_main_lane_is_exact_by_events) {
    for (uint64_t seed = seed_from(0); seed < seed_end(100); seed++) {
        engine_case *c = random_case(seed, true, true, true);
        events(c);
        const cleave_engine_problem *p = &c->problem;
        const cleave_timeline *t = &c->timeline;
        for (int32_t i = 0; i < p->step.n_items; i++) {
            if (p->step.queue[i] % 2 != 0 || p->step.duration[i] == 0)
                continue;
            int64_t taken = worked_within(c, i);
            for (int32_t k = 0; k < p->step.n_items; k++)
                if (p->step.queue[k] == p->step.queue[i] + 1 && p->step.duration[k] > 0) {
                    int64_t lo = t->start[k] > t->start[i] ? t->start[k] : t->start[i];
                    int64_t hi = t->end[k] < t->end[i] ? t->end[k] : t->end[i];
                    taken += hi > lo ? hi - lo : 0;
                }
            cr_expect_eq(t->end[i] - t->start[i], p->step.duration[i] + taken, "seed %llu item %d",
                         (unsigned long long)seed, i);
        }
        engine_case_destroy(c);
    }
}

/* By the scan some of it lies between items, and after the last one. */
Test(engine, critical_paths_of_both_engines_add_up_to_the_step) {
    int32_t n_after = 0;
    for (uint64_t seed = seed_from(0); seed < seed_end(400); seed++) {
        engine_case *c = random_case(seed, seed % 2, seed % 3 != 0, seed % 4 < 2);
        for (int rule = 0; rule < 2; rule++) {
            int64_t step = rule ? scan(c) : events(c), sum = 0, own = 0, last = 0;
            cleave_critical_path path;
            cleave_turned turned;
            OK(cleave_turned_make, c->problem.step.n_items, NULL, &c->arena, &turned);
            OK(cleave_critical_path_find, &c->problem, &turned, &c->timeline, &c->arena, &path);
            for (int32_t i = 0; i < path.n; i++) {
                sum += path.segments[i].picoseconds;
                own += c->problem.step.kind[path.segments[i].item] == W ? 1 : 0;
            }
            cr_expect_eq(sum, step, "seed %llu, rule %d: %lld of %lld", (unsigned long long)seed,
                         rule, (long long)sum, (long long)step);
            cr_expect_gt(own, 0);
            for (int32_t i = 0; i < c->problem.step.n_items; i++)
                last = c->timeline.end[i] > last ? c->timeline.end[i] : last;
            n_after += last < step;
        }
        engine_case_destroy(c);
    }
    cr_expect_gt(n_after, 0, "no step ends after its last item");
}

Test(engine, a_second_run_gives_the_same_times) {
    engine_case *c = random_case(7, false, true, true);
    int64_t first = events(c);
    scan(c);
    cr_expect_eq(events(c), first);
    int64_t by_scan = scan(c);
    cr_expect_eq(scan(c), by_scan);
    engine_case_destroy(c);
}

static cleave_work_times make_times(engine_case *c) {
    const cleave_engine_problem *p = &c->problem;
    int32_t n_places = p->work_start[p->n_queues / 2], n_runs = p->run_of[n_places];
    int64_t *sum = CLEAVE_ARENA_ARRAY(&c->arena, int64_t, (size_t)n_places + 1);
    cleave_work_run *runs = CLEAVE_ARENA_ARRAY(&c->arena, cleave_work_run, n_runs);
    cr_assert(sum != NULL && runs != NULL);
    for (int32_t i = 0; i < n_places; i++)
        sum[i + 1] = sum[i] + p->step.duration[p->work_items[i]];
    return (cleave_work_times){p->run_start, p->run_first, p->run_of, sum, runs};
}

/* Where the scan says for runs of work what it says for items; returns how many are longer. */
static int32_t expect_same_work(const engine_case *c, const cleave_work_times *times) {
    const cleave_engine_problem *p = &c->problem;
    int32_t n_longer = 0;
    for (int32_t r = 0; r < p->run_start[p->n_queues / 2]; r++) {
        const cleave_work_run *run = &times->runs[r];
        int32_t first = times->run_first[r], last = times->run_first[r + 1] - 1;
        cr_expect_eq(run->begin, c->timeline.start[p->work_items[first]]);
        cr_expect_eq(run->end, c->timeline.end[p->work_items[last]]);
        for (int32_t i = first; i <= last; i++) {
            int64_t begin = c->timeline.start[p->work_items[i]];
            int64_t end = c->timeline.end[p->work_items[i]];
            cr_expect_eq(cleave_work_begin(times, r, i), begin);
            cr_expect_eq(cleave_work_end(times, r, i), end);
            cr_expect_eq(cleave_work_at(times, r, begin), i);
            cr_expect_eq(cleave_work_at(times, r, end - 1), i);
        }
        n_longer += run->before != run->after;
    }
    return n_longer;
}

Test(engine, runs_of_work_have_the_times_of_their_items) {
    int32_t n_longer = 0, n_synced = 0;
    for (uint64_t seed = seed_from(0); seed < seed_end(200); seed++) {
        engine_case *c = random_case(seed, seed % 2, seed % 3 != 0, seed % 4 < 2);
        const cleave_engine_problem *p = &c->problem;
        cleave_work_times times = make_times(c);
        cleave_timeline of_steps;
        OK(cleave_engine_timeline_create, p, &c->arena, &of_steps);
        OK(cleave_engine_scan_runs, p, c->workspace, &times, &of_steps);
        cr_expect_eq(scan(c), of_steps.step);
        n_longer += expect_same_work(c, &times);
        for (int32_t s = 0; s < p->n_steps; s++) {
            int32_t i = p->steps[s].item;
            n_synced += p->steps[s].kind == CLEAVE_SCAN_WAIT_WORK;
            cr_expect_eq(of_steps.end[i], c->timeline.end[i], "seed %d, item %d", (int)seed, i);
        }
        cr_expect_eq(memcmp(of_steps.arrival, c->timeline.arrival,
                            (size_t)p->step.n_messages * sizeof *of_steps.arrival),
                     0);
        engine_case_destroy(c);
    }
    cr_expect_gt(n_longer, 100);
    cr_expect_gt(n_synced, 100);
}
