/* A model on a machine with what searches stand on: costs, candidates and a pricer; and what tests
   of a search's promises compare.  A failure fails the test by the trial's name. */
#ifndef CLEAVE_TESTS_SUPPORT_TRIAL_H
#define CLEAVE_TESTS_SUPPORT_TRIAL_H

#include "search/price/price.h"
#include "search/problem/candidates.h"

enum { TRIAL_MOST_GIVEN = 8 };

typedef struct trial {
    cleave_arena arena, scratch;
    cleave_error error;
    cleave_model model;
    cleave_machine machine;
    const cleave_layout *given[TRIAL_MOST_GIVEN]; /* [n_given] whose splits are candidates */
    int32_t n_given;
    cleave_node_costs *costs;
    cleave_candidates candidates;
    cleave_pricer pricer;
    cleave_problem problem;
    cleave_collective_rules rules;
    cleave_random random;
    char name[200];
    /* Not looked at by what is below. */
    cleave_layout start, layout;
    double bound, bound_in_steps; /* seconds */
    double closest;               /* of a bound to a step, as a share of it */
    double closest_alone, closest_bytes;
    int64_t optimum, whole; /* picoseconds; layouts of the whole space */
} trial;

/* Before the trial begins: its model, one made by hand or a file below the source tree, and its
   machine, one of configs/machines. */
void trial_hand_model(trial *t, int which);
void trial_import(trial *t, const char *path, int64_t batch);
void trial_read_machine(trial *t, const char *name, int32_t n_devices);

/* Costs, candidates and pricer; with memory for anything. */
void trial_begin(trial *t, int optimizer_states);
/* Of whatever it has. */
void trial_end(trial *t);

/* For calls that fill the trial's error. */
void trial_ok(const trial *t, cleave_status status);

#endif
