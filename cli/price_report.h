/* What a predicted step rests on, said to people and in JSON. */
#ifndef CLEAVE_CLI_PRICE_REPORT_H
#define CLEAVE_CLI_PRICE_REPORT_H

#include "base/json.h"
#include "simulator/step/simulated_step.h"

/* "91 % measured, 9 % predicted (±6 %), 0 % data sheet; links are 12 % of the step" */
void price_report_format(const cleave_price_shares *shares, char *text, size_t bytes);
/* "412 ms" or, where the spread is known, "412 ms ± 9 ms" */
void price_report_format_step(double seconds, const cleave_price_shares *shares, char *text,
                              size_t bytes);

/* "price_shares": {..} and "step_spread_seconds": members of an open object. */
void price_report_put(cleave_json_writer *writer, const cleave_price_shares *shares);

#endif
