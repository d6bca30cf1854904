/* One simulated step with all that reports look at: when each item happens, and what the prices
   rest on. */
#ifndef CLEAVE_SIMULATOR_STEP_SIMULATED_STEP_H
#define CLEAVE_SIMULATOR_STEP_SIMULATED_STEP_H

#include "simulator/report/price_shares.h"
#include "simulator/step/simulate.h"

/* The basis of every item's price ([n_items], in the arena) and the shares of the step. */
typedef struct cleave_price_report {
    cleave_price_basis *basis;
    cleave_price_shares shares;
} cleave_price_report;

/* One step by the scan. */
typedef struct cleave_simulated_step {
    cleave_engine_problem problem;
    cleave_engine_workspace *workspace; /* as the run left it */
    cleave_turned turned;               /* the items that the step goes through */
    cleave_timeline timeline;           /* by their numbers; arrivals are of programs with all
                                           items only */
    cleave_price_report prices;
} cleave_simulated_step;

/* Of a program with all its items, or of a few micro-batches that tell of all by `turns`
   (simulator/step/few.h); null: the former. */
cleave_status cleave_simulated_step_make(const cleave_program *program, const cleave_turns *turns,
                                         cleave_cost_cache *cache, cleave_arena *arena,
                                         cleave_simulated_step *step, cleave_error *error);

/* Its first part, and its second, which may be done again: what is simulated, and the timeline. */
cleave_status cleave_simulated_step_begin(const cleave_program *program, const cleave_turns *turns,
                                          cleave_cost_cache *cache, cleave_arena *arena,
                                          cleave_simulated_step *step, cleave_error *error);
cleave_status cleave_simulated_step_run_turns(const cleave_program *program,
                                              const cleave_turns *turns,
                                              cleave_simulated_step *step, cleave_error *error);
/* And its third, once there is a timeline, of either engine: what that rests on. */
cleave_status cleave_simulated_step_report(const cleave_program *program, cleave_cost_cache *cache,
                                           cleave_arena *arena, cleave_simulated_step *step,
                                           cleave_error *error);

#endif
