/* How alike kernels are.  Those of one family differ by more than flops and bytes tell: by windows,
   by rows and columns, by what takes them in a library.  So a fit is off by much the same at
   kernels that are alike, and one that was not timed takes what its fit says, times how far that is
   off at timed ones, which count the more the more alike they are.

   All that is known of a kernel is its key (graph/program/work.h): extents of axes, and what else
   there is to say, its form.  Two are as far apart as their extents are together, in powers of two,
   and further where their forms differ. */
#ifndef CLEAVE_COSTMODEL_LIKENESS_H
#define CLEAVE_COSTMODEL_LIKENESS_H

#include "base/arena.h"
#include "base/error.h"
#include "graph/model/model.h" /* CLEAVE_MAX_AXES */

/* A key that was read. */
typedef struct cleave_likeness {
    uint64_t kin;                   /* by the names of axes: those of others are not alike at all */
    uint64_t form;                  /* by maps, orders and tape, but for padding and pieces */
    int n_axes;                     /* 0: the key is of no nest, and nothing is like it */
    float extents[CLEAVE_MAX_AXES]; /* powers of two */
} cleave_likeness;

cleave_likeness cleave_likeness_read(const char *key);

/* A timed kernel of a family. */
typedef struct cleave_likened {
    cleave_likeness of;
    double off; /* logarithm of what it takes over what the family's fit says */
} cleave_likened;

/* What the seconds of a fit are to be multiplied by, as n kernels of the family tell; 1 where none
   is alike. */
double cleave_likeness_correction(const cleave_likened *kernels, int32_t n,
                                  const cleave_likeness *of);

#endif
