/* What a predicted step rests on, said to people and in JSON. */
#ifndef CLEAVE_CLI_PRICE_REPORT_H
#define CLEAVE_CLI_PRICE_REPORT_H

#include "base/json.h"
#include "simulator/price_shares.h"

/* The basis of every item's price ([n_items], in the arena) and the shares of the step. */
typedef struct price_report {
    cleave_price_basis *basis;
    cleave_price_shares shares;
} price_report;

/* `timeline` is what an engine gave for the problem, which was made of the program. */
cleave_status price_report_make(const cleave_program *program, cleave_cost_cache *cache,
                                const cleave_engine_problem *problem,
                                const cleave_timeline *timeline, cleave_arena *arena,
                                price_report *report, cleave_error *error);

/* One step by the scan. */
typedef struct simulated_step {
    cleave_engine_problem problem;
    cleave_engine_workspace *workspace; /* as the run left it */
    cleave_timeline timeline;
    price_report prices;
} simulated_step;
cleave_status simulated_step_make(const cleave_program *program, cleave_cost_cache *cache,
                                  cleave_arena *arena, simulated_step *step, cleave_error *error);

/* "91 % measured, 9 % predicted (±6 %), 0 % data sheet; links are 12 % of the step" */
void price_report_format(const cleave_price_shares *shares, char *text, size_t bytes);
/* "412 ms" or, where the spread is known, "412 ms ± 9 ms" */
void price_report_format_step(double seconds, const cleave_price_shares *shares, char *text,
                              size_t bytes);

/* "price_shares": {..} and "step_spread_seconds": members of an open object. */
void price_report_put(cleave_json_writer *writer, const cleave_price_shares *shares);

#endif
