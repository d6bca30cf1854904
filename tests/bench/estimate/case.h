/* One case of bench_estimate: a model on some devices, and where a walk among its layouts is. */
#ifndef CLEAVE_TESTS_BENCH_ESTIMATE_CASE_H
#define CLEAVE_TESTS_BENCH_ESTIMATE_CASE_H

#include "search/problem/candidates.h"
#include "simulator/step/estimate_checks.h"
#include "simulator/step/simulate.h"
#include "tests/bench/estimate/folds.h"

enum { MAX_SAMPLES = 1000 };

typedef enum walk_kind { NEAR, RANDOM, FOLDS, N_WALKS } walk_kind;

/* How many times longer than with the delta simulation: see tests/bench/estimate.c. */
typedef struct comparisons {
    double full, events, whole;
} comparisons;

/* Data of one case; memory is its arenas' and is given back with it. */
typedef struct bench_case {
    const char *name, *machine_name;
    int32_t n_devices;
    cleave_arena arena, scratch;
    cleave_model model;
    cleave_machine machine;
    cleave_candidates candidates;
    cleave_layout layout; /* splits have room for all devices */
    cleave_split tried;
    cleave_lower_options options;
    cleave_cost_cache *cache;
    cleave_node_costs *costs;
    cleave_estimate *estimate;
    cleave_random random;
    int64_t step;
    double beta;
    /* Of the walk, processor seconds: */
    double fragments, delta, rest;
    int64_t n_proposals, n_timed, n_accepted, n_checked, n_wrong;
    double scan_ratios[MAX_SAMPLES], runs[MAX_SAMPLES];
    int n_samples;
    comparisons compared;
    double forms_sum;
    walk_kind walk;
    fold_walk folds;
} bench_case;

/* Reads the case whose name, machine, devices and walk are set, and begins its estimate; end it in
   any case. */
cleave_status begin_case(bench_case *c, cleave_error *error);
void end_case(bench_case *c);

/* The layout from scratch; `lowering`, with pricing, and `running` are processor seconds, or null
   where nobody wants to know. */
cleave_status from_scratch(bench_case *c, cleave_rule rule, int64_t *step, double *lowering,
                           double *running, cleave_error *error);

#endif
