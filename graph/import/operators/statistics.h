/* Mean and variance over some axes of an operator, as a nest, and what normalises by them: shared
   by all normalisations.

   The record of a nest of moments is [3, kept axes]: count, mean, M2 (sum of squared deviations).
   Any axis may be split: parts' records are merged. */
#ifndef CLEAVE_GRAPH_IMPORT_STATISTICS_H
#define CLEAVE_GRAPH_IMPORT_STATISTICS_H

#include "graph/import/internal.h"

typedef struct cleave_statistics {
    int32_t op;
    cleave_operand input; /* mapped to the operator's axes */
    unsigned reduced;     /* bits of the axes that are averaged over */
    int64_t count;        /* of the elements of one average */
    int32_t record;       /* tensor beside op */
} cleave_statistics;

enum { CLEAVE_STATISTIC_MEAN = 1, CLEAVE_STATISTIC_M2 = 2 };

/* Adds the nest of moments; op, input and reduced are set, the rest is filled in. */
cleave_status cleave_statistics_add(cleave_importer *im, cleave_statistics *statistics);
/* Adds a row of the record as an input of a nest that has all axes of the operator. */
int cleave_statistics_input(const cleave_importer *im, const cleave_statistics *statistics,
                            cleave_nest *nest, int row);
/* Emits (x - mean) / sqrt(p x variance + epsilon), of registers, x the first; returns the register.
 */
int cleave_statistics_emit(cleave_nest *nest, int mean, int variance, double p, double epsilon);
#endif
