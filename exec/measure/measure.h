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

/* Times one pass of a nest over one part, on operands of its own with plausible values, each as
   far as `reuse` says; null: in no cache, but for what the item before has just written.  Takes
   about `seconds_budget`, and at least one run to warm up (compiled primitives, pages) and one
   timed.  FAILED when memory is short or the kernel fails. */
cleave_status cleave_kernel_measure(cleave_kernels *kernels, const cleave_model *model,
                                    const cleave_nest *nest, cleave_pass pass,
                                    const cleave_part *part, const cleave_reuse *reuse,
                                    double seconds_budget, cleave_measurement *result,
                                    cleave_error *error);

/* The same by a team's threads, null: by one, for a contiguous copy of `bytes` read (and as many
   written) in one of its modes, where a step touches `touched_bytes`, negative: more than any cache
   holds; */
cleave_status cleave_copy_measure(cleave_team *team, cleave_copy_mode mode, int64_t bytes,
                                  int64_t touched_bytes, double seconds_budget,
                                  cleave_measurement *result, cleave_error *error);
/* the same packed from rows of `row_bytes`, each `apart` rows after the last one's start, */
cleave_status cleave_rows_measure(cleave_team *team, int64_t bytes, int64_t row_bytes,
                                  int64_t apart, int64_t touched_bytes, double seconds_budget,
                                  cleave_measurement *result, cleave_error *error);
/* and for the update of a parameter of `bytes`. */
cleave_status cleave_update_measure(cleave_team *team, const cleave_optimizer *optimizer,
                                    int64_t bytes, int64_t touched_bytes, double seconds_budget,
                                    cleave_measurement *result, cleave_error *error);
/* By one thread, filling `bytes` of data from a datum in memory in row-major order, into
 * channels-last order. */
cleave_status cleave_load_measure(int64_t bytes, int64_t touched_bytes, double seconds_budget,
                                  cleave_measurement *result, cleave_error *error);

#endif
