/* What a layout costs: lowered, planned and simulated. */
#ifndef CLEAVE_SEARCH_PRICE_PRICE_H
#define CLEAVE_SEARCH_PRICE_PRICE_H

#include "search/search.h"
#include "simulator/report/price_shares.h"
#include "simulator/step/estimate.h"

typedef struct cleave_price {
    int64_t step;         /* picoseconds; not set where the layout does not fit */
    int64_t peak_bytes;   /* largest over devices, with the runtime's constant */
    int64_t excess_bytes; /* over the limit, of the device with the most; 0: it fits */
    double over; /* where a proposal does not fit: cleave_estimate_over of all devices and their
                    limits, which may be 0 nevertheless */
    int64_t bytes_sent; /* expanded only, and only where it fits */
} cleave_price;

/* Prices one layout after the other; its arenas and prices of kernels are kept from one to the
   next.  Not shared between threads. */
typedef struct cleave_pricer {
    const cleave_model *model;
    const cleave_machine *machine;
    cleave_lower_options lower;
    int64_t memory_limit_bytes; /* 0: that of each device's kind */
    bool in_steps; /* estimates and their proposals have collectives in their steps; else, as
                      created, in closed form */
    cleave_cost_cache *cache;
    struct cleave_repeats *repeats; /* by which cleave_price_folded prices deep models from a few
                                       blocks (search/price/repeat.h); may be null */
    cleave_arena arena;
    int64_t least_peak_bytes; /* of all layouts priced */
    int64_t n_priced;
    int64_t n_devices_planned; /* of all proposals whose memory was planned, in whatever way */
} cleave_pricer;

cleave_status cleave_pricer_create(const cleave_model *model, const cleave_machine *machine,
                                   const cleave_search_options *options, cleave_pricer *pricer,
                                   cleave_error *error);
void cleave_pricer_destroy(cleave_pricer *pricer);

/* Raises peak and excess of a price to those of a program's devices, and notes the least peak. */
void cleave_pricer_weigh(cleave_pricer *pricer, const cleave_program *program, cleave_price *price);

/* Simulates by scan, with collectives as one item each; or (`expanded`) in their steps, as
   `simulate` and `run` do.  Expanded programs are large: who prices others afterwards frees the
   pricer's arena. */
cleave_status cleave_price_layout(cleave_pricer *pricer, const cleave_layout *layout, bool expanded,
                                  cleave_price *price, cleave_error *error);

/* What a price with collectives in their steps rests on, and which of the layout's rules for
   collectives they run by. */
typedef struct cleave_price_grounds {
    bool known; /* the layout fits the memory */
    cleave_price_shares shares;
    bool *used_rules; /* [rules of the layout], room given */
} cleave_price_grounds;

/* The same with collectives in their steps, and its grounds. */
cleave_status cleave_price_with_grounds(cleave_pricer *pricer, const cleave_layout *layout,
                                        cleave_price *price, cleave_price_grounds *grounds,
                                        cleave_error *error);

/* An estimate that begins with `layout`, for cleave_price_proposal. */
cleave_status cleave_pricer_estimate(cleave_pricer *pricer, const cleave_layout *layout,
                                     cleave_estimate **estimate, cleave_error *error);

/* The same price as cleave_price_layout gives (expanded where `in_steps`), of the layout that the
   estimate has come to by changes, and which is `layout`.  `peak_bytes` is not set where it fits
   even if no memory were ever given back; else its memory is planned: of one window of it where it
   folds, else in whole slots (cleave_estimate_plan) and, where that does not surely fit, by
   lowering it. */
cleave_status cleave_price_proposal(cleave_pricer *pricer, cleave_estimate *estimate,
                                    const cleave_layout *layout, cleave_price *price,
                                    cleave_error *error);

/* The price of what the estimate has come to if it surely fits, without lowering anything; else
   `fits` is false and nothing else known.  `peak_bytes` is about what it needs. */
cleave_status cleave_price_if_it_fits(cleave_pricer *pricer, cleave_estimate *estimate, bool *fits,
                                      cleave_price *price, cleave_error *error);

/* What makes a proposal worth having its memory planned. */
typedef struct cleave_price_bar {
    int64_t below;     /* its step is below this, picoseconds */
    double below_over; /* and so is `over`, or it is 0 */
} cleave_price_bar;

/* The same, but where it is doubtful whether the layout fits, and it is not below the bar, its
   memory is not planned: it then counts as over the limit, by more than any. */
cleave_status cleave_price_proposal_below(cleave_pricer *pricer, cleave_estimate *estimate,
                                          const cleave_layout *layout, cleave_price_bar bar,
                                          cleave_price *price, cleave_error *error);

/* Of two prices of proposals: fits, or comes nearer to fitting, or is quicker. */
bool cleave_price_nearer(const cleave_price *a, const cleave_price *b);

#endif
