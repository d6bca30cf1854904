/* What a predicted step time is made of, and what it rests on: how much of it on measured kernels,
   on predictions from measured neighbours, and on data sheets; and how far the first two may be
   off. */
#ifndef CLEAVE_SIMULATOR_REPORT_PRICE_SHARES_H
#define CLEAVE_SIMULATOR_REPORT_PRICE_SHARES_H

#include "costmodel/cost.h"
#include "simulator/step/engine.h"
#include "simulator/step/turned.h"

/* Of what sort an item is: computes by their nest, and what waits for a collective by its kind. */
typedef enum cleave_step_part {
    CLEAVE_PART_PRODUCTS, /* and convolutions */
    CLEAVE_PART_ATTENTION,
    CLEAVE_PART_OTHER_KERNELS, /* element by element, sums, look-ups: bound by memory */
    CLEAVE_PART_UPDATES,
    CLEAVE_PART_COPIES, /* data from outside, too */
    CLEAVE_PART_ALL_REDUCE,
    CLEAVE_PART_REDUCE_SCATTER,
    CLEAVE_PART_ALL_GATHER,
    CLEAVE_PART_ALL_TO_ALL,
    CLEAVE_PART_MESSAGES, /* from device to device: collectives in their steps, too */
    CLEAVE_N_STEP_PARTS
} cleave_step_part;
extern const char *const cleave_step_part_names[CLEAVE_N_STEP_PARTS]; /* "products", ... */

/* Counted along the critical path, whose items add up to the step. */
typedef struct cleave_price_shares {
    double share[CLEAVE_N_PROVENANCES]; /* of the step; they add up to 1 */
    double part[CLEAVE_N_STEP_PARTS];   /* likewise; computes whose slot is not known are other
                                           kernels */
    double idle;  /* of the step, on average over devices: nothing runs in the main lane */
    double links; /* of the step, within the shares: transfers, and the processors' time
                     of posting them */
    double predicted_spread;    /* relative spread of the predicted prices, mean by their time; 0
                                   where there are none */
    double step_spread_seconds; /* typical error of the step that follows from the spreads; -1 where
                                   more than a twentieth of the step rests on data sheets, or more
                                   than a quarter on links: nobody knows their spread */
} cleave_price_shares;

/* Of a timeline that either engine gave for the problem, by the numbers of `turned`, which both
   were made of the program; with the basis of every item's price, [n_items], of `n_sources`
   sources.

   Predictions from one source (the fit of a family) are wrong together, those of different sources
   independently; a measured kernel differs from run to run, every item by itself.  So with t the
   time of an item and r its spread, the spread of the step is the root of the sum, over fits, of
   (sum of t r)^2 and, over measured items, of (t r)^2.  Links have no spread. */
cleave_status cleave_price_shares_find(const cleave_program *program,
                                       const cleave_engine_problem *problem,
                                       const cleave_turned *turned, const cleave_timeline *timeline,
                                       const cleave_price_basis *basis, int32_t n_sources,
                                       cleave_price_shares *shares, cleave_error *error);

#endif
