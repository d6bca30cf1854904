/* Minimal filtering: convolutions by fewer multiplications.

   A tile of `out` x `out` results of a window of `window` x `window` is a product of polynomials in
   two variables.  Evaluated at `points` = out + window - 1 points along each of them, infinity
   included, it is one multiplication per point instead of out^2 window^2:

       Y = A^T [ (G w G^T) . (B^T x B) ] A

   with x the points x points inputs under the tile, and . the multiplication point by point. Summed
   over channels this is one matrix product per point.  All maps are linear, so the gradients are
   their transposes, around products as small:

       weights:  dw = G^T [ sum over tiles of (A dY A^T) . (B^T x B) ] G

   S. Winograd, Arithmetic Complexity of Computations (1980); A. Lavin and S. Gray, Fast Algorithms
   for Convolutional Neural Networks (2016).  Rounding errors grow with the points: with 4 points
   along each variable results are about as far off as those of a plain sum, with 6 several times as
   far. */
#ifndef CLEAVE_EXEC_KERNELS_WINOGRAD_H
#define CLEAVE_EXEC_KERNELS_WINOGRAD_H

#include <stdint.h>

enum { CLEAVE_WINOGRAD_MOST = 6, CLEAVE_WINOGRAD_LANES = 8 };

/* A small matrix between vectors of a tile. */
typedef struct cleave_small_matrix {
    int rows, columns;
    float at[CLEAVE_WINOGRAD_MOST][CLEAVE_WINOGRAD_MOST];
} cleave_small_matrix;

typedef struct cleave_winograd_scheme {
    int out, window, points;
    cleave_small_matrix input;  /* B^T [points][points] */
    cleave_small_matrix weight; /* G [points][window] */
    cleave_small_matrix output; /* A^T [out][points] */
} cleave_winograd_scheme;

enum { CLEAVE_N_WINOGRAD_SCHEMES = 3 };
extern const cleave_winograd_scheme cleave_winograd_schemes[CLEAVE_N_WINOGRAD_SCHEMES];

/* Positions of an image under a tile, channels from there on; null: outside of the image. */
typedef struct cleave_winograd_patch {
    float *at[CLEAVE_WINOGRAD_MOST][CLEAVE_WINOGRAD_MOST];
} cleave_winograd_patch;

/* Transformed values lie `point` floats apart, point by point; up to seven floats behind the last
   channel are read and written as well.

   B^T x B of a patch of points x points, */
void cleave_winograd_read_inputs(const cleave_winograd_scheme *scheme,
                                 const cleave_winograd_patch *patch, int64_t channels, float *into,
                                 int64_t point);
/* A dY A^T of a patch of out x out, */
void cleave_winograd_read_gradients(const cleave_winograd_scheme *scheme,
                                    const cleave_winograd_patch *patch, int64_t channels,
                                    float *into, int64_t point);
/* and A^T m A into a patch of out x out. */
void cleave_winograd_write_results(const cleave_winograd_scheme *scheme, const float *m,
                                   int64_t point, int64_t channels,
                                   const cleave_winograd_patch *patch);

/* A window of weights for several channels: strides in floats. */
typedef struct cleave_winograd_weights {
    float *first;
    int64_t channels, channel, row, column;
} cleave_winograd_weights;

/* G w G^T, and G^T du G. */
void cleave_winograd_read_weights(const cleave_winograd_scheme *scheme,
                                  const cleave_winograd_weights *w, float *into, int64_t point);
void cleave_winograd_write_weights(const cleave_winograd_scheme *scheme, const float *du,
                                   int64_t point, const cleave_winograd_weights *w);

#endif
