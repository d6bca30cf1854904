/* How long kernels take: the median of repeats with operands as far from the processor as in a
   training step, where much else is touched between two uses of them. */
#ifndef CLEAVE_EXEC_MEASURE_MEASURE_H
#define CLEAVE_EXEC_MEASURE_MEASURE_H

#include "exec/kernels/kernel.h"
#include "exec/kernels/optimizer.h"
#include "graph/program/program.h"
#include "graph/program/reuse.h"

typedef struct cleave_measurement {
    double seconds;          /* median */
    double least_seconds;    /* of the fastest repeat */
    double spread;           /* (third quartile - first) / median; 0 of a single repeat */
    int repeats;             /* 1 or more */
    int64_t workspace_bytes; /* of a kernel */
} cleave_measurement;

/* Times a call as it is described, on operands of its own with plausible values, each as far as
   `reuse` says; null: in no cache, but for what the item before has just written.  Takes about
   `seconds_budget`, and at least one run to warm up (compiled primitives, pages) and one timed.
   FAILED when memory is short or the kernel fails. */
cleave_status cleave_kernel_measure(cleave_kernels *kernels, const cleave_kernel_call *call,
                                    const cleave_reuse *reuse, double seconds_budget,
                                    cleave_measurement *result, cleave_error *error);

/* What is timed of work by bytes. */
typedef struct cleave_measured_bytes {
    cleave_team *team; /* whose threads do it; null: one */
    int64_t bytes;
    int64_t touched_bytes; /* that a step touches; negative: more than any cache holds */
    double seconds_budget;
} cleave_measured_bytes;

/* The same for a contiguous copy of the bytes read (and as many written) in one of its modes, */
cleave_status cleave_copy_measure(const cleave_measured_bytes *of, cleave_copy_mode mode,
                                  cleave_measurement *result, cleave_error *error);
/* packed from rows of `row_bytes`, each `apart` rows after the last one's start, */
cleave_status cleave_rows_measure(const cleave_measured_bytes *of, int64_t row_bytes, int64_t apart,
                                  cleave_measurement *result, cleave_error *error);
/* for the update of a parameter of these bytes, */
cleave_status cleave_update_measure(const cleave_measured_bytes *of,
                                    const cleave_optimizer *optimizer, cleave_measurement *result,
                                    cleave_error *error);
/* and, by one thread, for filling them with data from a datum in memory in row-major order, into
   channels-last order. */
cleave_status cleave_load_measure(const cleave_measured_bytes *of, cleave_measurement *result,
                                  cleave_error *error);

#endif
