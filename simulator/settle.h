/* What devices do to each other, as far as calibration has found it: a kernel is quicker while the
   other devices of its node are idle, and a message waits for the polls of ends that compute.  Both
   depend on what happens at the same time, and so on a simulation: a first pass says what does, the
   prices follow, and a second pass is the result.  Estimates of a search do without. */
#ifndef CLEAVE_SIMULATOR_SETTLE_H
#define CLEAVE_SIMULATOR_SETTLE_H

#include "simulator/simulate.h"

/* Runs the problem that was prepared from the program by a rule, and puts into it the durations and
   delays that follow: running it again gives the step.  Leaves it as it is, without a run, where
   the machine has no such figures, and for folds and collectives in closed form, whose devices are
   not all there.  What the problem gets lives in the arena.  Linear in the items, for each device
   of a node, and in the polls that messages wait for. */
cleave_status cleave_simulate_settle(const cleave_program *program, cleave_cost_cache *cache,
                                     cleave_rule rule, cleave_arena *arena,
                                     cleave_engine_problem *problem,
                                     cleave_engine_workspace *workspace, cleave_timeline *timeline,
                                     cleave_error *error);

#endif
