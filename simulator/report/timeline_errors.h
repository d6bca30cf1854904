/* The difference of two timelines of one program, measured and predicted: which prices are wrong.
 */
#ifndef CLEAVE_SIMULATOR_REPORT_TIMELINE_ERRORS_H
#define CLEAVE_SIMULATOR_REPORT_TIMELINE_ERRORS_H

#include "costmodel/cost.h"
#include "graph/program/timeline.h"

enum { CLEAVE_N_LARGEST_ERRORS = 10 };

/* What a device does with its time.  One processor serves both lanes, so on every device the rows
   add up to the step. */
typedef enum cleave_time_row {
    CLEAVE_TIME_COMPUTE_MEASURED, /* computes whose price is a measured kernel */
    CLEAVE_TIME_COMPUTE_PREDICTED,
    CLEAVE_TIME_COMPUTE_DATA_SHEET,
    CLEAVE_TIME_UPDATE,
    CLEAVE_TIME_LOAD,
    CLEAVE_TIME_COPY,
    CLEAVE_TIME_POST, /* sends and receives: the processors' time of messages.  In a run a part of
                         it falls into waits, where MPI moves bytes as it is asked whether they came
                       */
    CLEAVE_TIME_WAITING, /* the rest of the step */
    CLEAVE_N_TIME_ROWS
} cleave_time_row;

/* "compute, measured prices", ... */
extern const char *const cleave_time_row_names[CLEAVE_N_TIME_ROWS];

typedef struct cleave_time_total {
    int32_t n;                   /* items; of waiting 0 */
    int64_t predicted, measured; /* picoseconds, over all devices */
} cleave_time_total;

typedef struct cleave_item_error {
    int32_t item; /* of a message its wait at the receiver */
    bool is_message;
    int64_t predicted, measured; /* durations, picoseconds */
} cleave_item_error;

typedef struct cleave_timeline_errors {
    cleave_time_total totals[CLEAVE_N_TIME_ROWS];
    int32_t n_largest;
    cleave_item_error
        largest[CLEAVE_N_LARGEST_ERRORS]; /* by |measured - predicted|, then by item */
    int32_t n_messages_compared;
} cleave_timeline_errors;

/* What is compared, of one program. */
typedef struct cleave_timeline_pair {
    const cleave_program *program;
    const int64_t *price;            /* [n_items] picoseconds */
    const cleave_price_basis *basis; /* [n_items] of the prices */
    const cleave_timeline *predicted;
    const cleave_timeline *measured; /* without arrivals; items of unknown time (-1) are left out */
    const int64_t *typical_duration; /* [n_items] measured, of several steps, picoseconds; null:
                                        those of `measured` */
} cleave_timeline_pair;

/* Computes, updates, loads and copies are compared by the work that they are: the price, and not
   the predicted span, which is longer where the communication lane took the processor (in a run
   nothing interrupts an item), with the typical duration.

   Messages are compared by their transfer: from when both ends have posted until the receiver sees
   that it has arrived.  A run shows that only where the receiver waited for it; a message that came
   while its receiver was busy is left out. */
void cleave_timeline_compare(const cleave_timeline_pair *pair, cleave_timeline_errors *errors);

#endif
