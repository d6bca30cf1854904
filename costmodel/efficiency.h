/* What share of a peak kernels reach, by their size: a small table, of one point where all sizes
   are alike.  What has no table of its own takes that of its nearest kin. */
#ifndef CLEAVE_COSTMODEL_EFFICIENCY_H
#define CLEAVE_COSTMODEL_EFFICIENCY_H

#include "graph/program/work.h"

typedef enum cleave_efficiency_of {
    CLEAVE_EFFICIENCY_PRODUCT,      /* by work.smallest, whatever has no other */
    CLEAVE_EFFICIENCY_BF16_PRODUCT, /* of bf16, fp16 and fp8 */
    CLEAVE_EFFICIENCY_BF16_WEIGHTS, /* gradients of weights, which are added to sums in f32 */
    CLEAVE_EFFICIENCY_BF16_GROUPED, /* of both, where each of several has a weight of its own */
    CLEAVE_EFFICIENCY_BF16_GROUPED_WEIGHTS,
    CLEAVE_EFFICIENCY_ATTENTION, /* by flops; forward, in the precision that is multiplied */
    CLEAVE_EFFICIENCY_ATTENTION_BACKWARD,
    CLEAVE_EFFICIENCY_MEMORY, /* by bytes */
    CLEAVE_EFFICIENCY_LOSS,   /* of the memory, by losses over classes; by bytes */
    CLEAVE_N_EFFICIENCIES
} cleave_efficiency_of;

/* As machine files have them; ends in null. */
extern const char *const cleave_efficiency_names[CLEAVE_N_EFFICIENCIES + 1];

enum { CLEAVE_MOST_EFFICIENCY_POINTS = 16 };

/* Linear between the logarithms of sizes, and as the nearest outside. */
typedef struct cleave_efficiency {
    int n;                                       /* 0: there is no table */
    double size[CLEAVE_MOST_EFFICIENCY_POINTS];  /* ascending, above 0 */
    double share[CLEAVE_MOST_EFFICIENCY_POINTS]; /* in (0, 1] */
} cleave_efficiency;

/* One share for all sizes. */
static inline cleave_efficiency cleave_efficiency_flat(double share) {
    return (cleave_efficiency){.n = 1, .size = {1}, .share = {share}};
}

/* Of tables by what they are of, those of a kind of device; 1 where neither it nor its kin has one.
 */
double cleave_efficiency_find(const cleave_efficiency *tables, cleave_efficiency_of of,
                              double size);
/* Of the largest kernels. */
double cleave_efficiency_most(const cleave_efficiency *tables, cleave_efficiency_of of);
/* Of the flops of some work, and of the bytes that it reads and writes. */
double cleave_efficiency_of_work(const cleave_efficiency *tables, const cleave_work *work);
double cleave_efficiency_of_bytes(const cleave_efficiency *tables, const cleave_work *work,
                                  double bytes);
/* The most that these are of work of that sort, whatever its size. */
double cleave_efficiency_bound_of_work(const cleave_efficiency *tables, const cleave_work *work);
double cleave_efficiency_bound_of_bytes(const cleave_efficiency *tables, const cleave_work *work);

#endif
