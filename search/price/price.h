/* What a layout costs: lowered, planned and simulated, or estimated where that gives the same. */
#ifndef CLEAVE_SEARCH_PRICE_PRICE_H
#define CLEAVE_SEARCH_PRICE_PRICE_H

#include "graph/program/framework_memory.h"
#include "simulator/report/price_shares.h"
#include "simulator/step/estimate.h"

typedef struct cleave_price {
    int64_t step;         /* picoseconds; not set where the layout does not fit */
    int64_t peak_bytes;   /* largest over devices, with the runtime's constant */
    int64_t excess_bytes; /* over the limit, of the device with the most; 0: it fits */
    double over; /* where an estimate does not fit: cleave_estimate_over of all devices and their
                    limits, which may be 0 nevertheless */
    int64_t bytes_sent; /* per step, all devices; closed forms as if their blocks were equal. Only
                           of what is simulated */
} cleave_price;

/* Prices one layout after the other; its arenas and prices of kernels are kept from one to the
   next.  Not shared between threads. */
typedef struct cleave_pricer {
    const cleave_model *model;
    const cleave_machine *machine;
    cleave_lower_options lower;
    int64_t memory_limit_bytes; /* 0: that of each device's kind */
    cleave_cost_cache *cache;
    bool is_stream;                 /* a step is what a batch takes where others follow it
                                       (simulator/scan/period.h), not the time from its begin to
                                       its end */
    struct cleave_repeats *repeats; /* how blocks repeat (search/price/repeat.h), by which deep
                                       models are priced from a few of them; may be null */
    bool lowers_all;                /* see cleave_pricer_lower_all */
    cleave_arena arena;
    int64_t least_peak_bytes; /* of all layouts whose memory was planned */
    int64_t n_priced;
    int64_t n_devices_planned; /* of all proposals whose memory was planned, in whatever way */
} cleave_pricer;

/* For a machine's memory, or a limit per device (0: none); the optimizer keeps so many values per
   parameter. */
cleave_status cleave_pricer_create(const cleave_model *model, const cleave_machine *machine,
                                   int optimizer_states, int64_t memory_limit_bytes,
                                   cleave_pricer *pricer, cleave_error *error);
void cleave_pricer_destroy(cleave_pricer *pricer);

/* From now on, where the grounds of a price are asked for, its program is lowered to the last
   micro-batch, however large: of one that is, it is known what a framework allocates. */
void cleave_pricer_lower_all(cleave_pricer *pricer);

/* What of a layout is lowered: the price is the same, to the bit.  Only closed forms are the same
   in all windows, so collectives in their steps have all devices lowered. */
typedef enum cleave_price_view {
    CLEAVE_VIEW_ALL,    /* all devices */
    CLEAVE_VIEW_FOLDED, /* the first window where the layout folds, else all devices */
    CLEAVE_VIEW_WINDOW  /* the first window; NO_LAYOUT, saying why, where it does not fold */
} cleave_price_view;

/* How it is known whether a layout fits the memory. */
typedef enum cleave_price_memory {
    CLEAVE_MEMORY_PLANNED,
    CLEAVE_MEMORY_IN_DOUBT /* an estimate, where no window is lowered, may say so, too: peak_bytes
                              is then about what it needs, and of collectives in closed form nothing
                              is known to be sent */
} cleave_price_memory;

/* What a price rests on, and which of the layout's rules for collectives they run by. */
typedef struct cleave_price_grounds {
    bool known; /* the layout fits the memory */
    cleave_price_shares shares;
    cleave_framework_memory framework; /* 0: not known, of blocks or micro-batches that stand for
                                          others */
    bool *used_rules;                  /* [rules of the layout], room given */
} cleave_price_grounds;

/* What is to be priced. */
typedef struct cleave_price_subject {
    const cleave_layout *layout;
    bool in_steps; /* collectives, as `simulate` and `run` have them; else each is one item, as it
                      is on a machine that knows what they take */
    cleave_price_view view;
    cleave_price_memory memory;
    cleave_estimate *estimate;     /* null: none.  It has come to the layout by changes, in the same
                                      form; its memory is planned where it leaves that in doubt */
    cleave_price_grounds *grounds; /* null: not asked for; not of estimates */
    int64_t *over; /* [n_devices of the machine] bytes over the limit of each device whose memory
                      was planned, below 0 what is left; others are not set. Null: not asked for */
} cleave_price_subject;

/* What makes a proposal worth having its memory planned. */
typedef struct cleave_price_bar {
    int64_t below;     /* its step is below this, picoseconds */
    double below_over; /* and so is `over`, or it is 0 */
    bool step_decides; /* where the step is not below, nobody asks for the memory, */
    bool only_whether; /* nor how long it is: the price may have any that is not below */
} cleave_price_bar;

/* The price of a layout, by scan.  Where there is a bar (it may be null) and an estimate that is
   not below it leaves in doubt whether it fits, or nobody asks for that, memory is not planned: the
   layout then counts as over the limit, by more than any.  Programs with collectives in their steps
   are large: who prices others afterwards frees the pricer's arena. */
cleave_status cleave_pricer_price(cleave_pricer *pricer, const cleave_price_subject *subject,
                                  const cleave_price_bar *bar, cleave_price *price,
                                  cleave_error *error);

/* Would this share of the parameters, with their gradients and the optimizer's states, take half of
   the memory of a device or more?  Where not, nobody need shard them to fit. */
bool cleave_pricer_state_is_large(const cleave_pricer *pricer, double share);

/* An estimate that begins with `layout`, for proposals. */
cleave_status cleave_pricer_estimate(cleave_pricer *pricer, const cleave_layout *layout,
                                     bool in_steps, cleave_estimate **estimate,
                                     cleave_error *error);

/* Raises peak and excess of a price to those of a program's devices, and notes the least peak. */
void cleave_pricer_weigh(cleave_pricer *pricer, const cleave_program *program, cleave_price *price);

/* Is a layout of that price, in closed form, so far behind the other that it can't come out better
   in full? */
bool cleave_price_is_far_behind(const cleave_price *price, const cleave_price *best);
/* Picoseconds of steps beyond which layouts that fit are; the best fits. */
double cleave_price_far_behind(const cleave_price *best);

/* Fits, or comes nearer to fitting, or is quicker. */
bool cleave_price_better(const cleave_price *a, const cleave_price *b);
/* The same of prices of proposals, which know how far all devices are from fitting. */
bool cleave_price_nearer(const cleave_price *a, const cleave_price *b);

#endif
