/* What devices do to each other, as far as calibration has found it: a kernel is quicker while the
   other devices of its node are idle, and a message waits for the polls of ends that compute.  Both
   depend on what happens at the same time, and so on a simulation: a first pass says what does, the
   prices follow, and so on for a few passes, of which the last is the result.  Estimates of a
   search do without. */
#ifndef CLEAVE_SIMULATOR_STEP_SETTLE_H
#define CLEAVE_SIMULATOR_STEP_SETTLE_H

#include "simulator/step/simulate.h"

/* All that does not depend on times, of a prepared problem; null where the machine has no such
   figures, and for folds and collectives in closed form, whose devices are not all there.  Lives in
   the arena. */
typedef struct cleave_settling cleave_settling;
cleave_status cleave_settling_create(const cleave_program *program, cleave_cost_cache *cache,
                                     const cleave_engine_problem *problem, cleave_arena *arena,
                                     cleave_settling **settling, cleave_error *error);

/* Takes out of the problem what settling has put into it: prices are those of all at work, and no
   message is late. */
void cleave_settling_begin(cleave_settling *settling, cleave_engine_problem *problem);

/* Runs the problem by a rule as it is, and puts into it the durations and polls that follow.  By
   the scan linear in the steps for each device of a node, and in the items whose durations change;
   by events in all items.  `timeline` has the step of that run; its times mean nothing. */
cleave_status cleave_settling_pass(cleave_settling *settling, cleave_rule rule,
                                   cleave_engine_problem *problem,
                                   cleave_engine_workspace *workspace, cleave_timeline *timeline,
                                   cleave_error *error);

/* Begins, and makes passes until the step changes by little, since what is late makes all that
   follows late, which then meets other work: running the problem once more gives the step, and the
   timeline.  Of null it does nothing, without a run.  Nothing of what an earlier call has put into
   the problem counts, so it may be called again and again. */
cleave_status cleave_settling_apply(cleave_settling *settling, cleave_rule rule,
                                    cleave_engine_problem *problem,
                                    cleave_engine_workspace *workspace, cleave_timeline *timeline,
                                    cleave_error *error);

#endif
