/* Which elements a resized position is made of, along one dimension. */
#ifndef CLEAVE_GRAPH_IMPORT_INTERPOLATION_H
#define CLEAVE_GRAPH_IMPORT_INTERPOLATION_H

#include <stdbool.h>
#include <stdint.h>

typedef enum cleave_interpolation_mode {
    CLEAVE_INTERPOLATE_NEAREST,
    CLEAVE_INTERPOLATE_LINEAR,
    CLEAVE_INTERPOLATE_CUBIC
} cleave_interpolation_mode;

/* Where a position of the output lies in the input; ONNX's coordinate_transformation_mode. */
typedef enum cleave_coordinates {
    CLEAVE_COORDINATES_HALF_PIXEL,
    CLEAVE_COORDINATES_HALF_PIXEL_SYMMETRIC,
    CLEAVE_COORDINATES_PYTORCH_HALF_PIXEL,
    CLEAVE_COORDINATES_ALIGN_CORNERS,
    CLEAVE_COORDINATES_ASYMMETRIC,
    CLEAVE_COORDINATES_TF_HALF_PIXEL_FOR_NN
} cleave_coordinates;

typedef enum cleave_rounding {
    CLEAVE_ROUND_PREFER_FLOOR, /* halves down */
    CLEAVE_ROUND_PREFER_CEIL,
    CLEAVE_ROUND_FLOOR,
    CLEAVE_ROUND_CEIL
} cleave_rounding;

typedef struct cleave_interpolation {
    cleave_interpolation_mode mode;
    cleave_coordinates coordinates;
    cleave_rounding rounding; /* of nearest */
    double cubic_a;
    bool exclude_outside; /* elements beyond the ends have no weight; else the ends are repeated */
} cleave_interpolation;

/* One dimension; scale: length of the output over that of the input, not always out / in. */
typedef struct cleave_resampling {
    int64_t in, out;
    double scale;
} cleave_resampling;

/* The element of the input that position o takes, where the mode is nearest. */
int64_t cleave_interpolation_nearest(const cleave_interpolation *how,
                                     const cleave_resampling *along, int64_t o);
/* Weights of all elements of the input at position o. */
void cleave_interpolation_weights(const cleave_interpolation *how, const cleave_resampling *along,
                                  int64_t o, float *weights /* [in] */);

#endif
