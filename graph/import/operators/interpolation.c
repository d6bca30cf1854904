/* Coordinates and weights of resizing, after ONNX's definition of Resize. */
#include "graph/import/operators/interpolation.h"

#include <math.h>

/* (o + shift) / scale; exactly, where the scale is the quotient of the lengths. */
static double unscale(const cleave_resampling *along, double o) {
    double quotient = (double)along->out / (double)along->in;
    bool exact = along->scale >= quotient && along->scale <= quotient;
    return exact ? o * (double)along->in / (double)along->out : o / along->scale;
}

static double source_position(const cleave_interpolation *how, const cleave_resampling *along,
                              int64_t o) {
    double at = (double)o, in = (double)along->in, length = along->scale * in;
    switch (how->coordinates) {
    case CLEAVE_COORDINATES_HALF_PIXEL:
        break;
    case CLEAVE_COORDINATES_HALF_PIXEL_SYMMETRIC:
        return in / 2 * (1 - (double)along->out / length) + unscale(along, at + 0.5) - 0.5;
    case CLEAVE_COORDINATES_PYTORCH_HALF_PIXEL:
        if (along->out == 1)
            return 0;
        break;
    case CLEAVE_COORDINATES_ALIGN_CORNERS:
        return along->out == 1 ? 0 : at * (in - 1) / (length - 1);
    case CLEAVE_COORDINATES_ASYMMETRIC:
        return unscale(along, at);
    case CLEAVE_COORDINATES_TF_HALF_PIXEL_FOR_NN:
        return unscale(along, at + 0.5);
    }
    return unscale(along, at + 0.5) - 0.5;
}

static int64_t clamp(double index, int64_t n) {
    return index < 0 ? 0 : index > (double)(n - 1) ? n - 1 : (int64_t)index;
}

int64_t cleave_interpolation_nearest(const cleave_interpolation *how,
                                     const cleave_resampling *along, int64_t o) {
    double at = source_position(how, along, o);
    switch (how->rounding) {
    case CLEAVE_ROUND_PREFER_FLOOR:
        return clamp(ceil(at - 0.5), along->in);
    case CLEAVE_ROUND_PREFER_CEIL:
        return clamp(floor(at + 0.5), along->in);
    case CLEAVE_ROUND_FLOOR:
        return clamp(floor(at), along->in);
    case CLEAVE_ROUND_CEIL:
        break;
    }
    return clamp(ceil(at), along->in);
}

/* Weight of an element at a distance of the position. */
static double kernel_weight(const cleave_interpolation *how, double distance) {
    double t = fabs(distance), a = how->cubic_a;
    if (how->mode == CLEAVE_INTERPOLATE_LINEAR)
        return t < 1 ? 1 - t : 0;
    if (t <= 1)
        return ((a + 2) * t - (a + 3)) * t * t + 1;
    return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}

void cleave_interpolation_weights(const cleave_interpolation *how, const cleave_resampling *along,
                                  int64_t o, float *weights) {
    for (int64_t i = 0; i < along->in; i++)
        weights[i] = 0;
    if (how->mode == CLEAVE_INTERPOLATE_NEAREST) {
        weights[cleave_interpolation_nearest(how, along, o)] = 1;
        return;
    }
    double at = source_position(how, along, o), low = floor(at), sum = 0, weight[4];
    for (int k = 0; k < 4; k++) {
        double index = low - 1 + k;
        bool outside = index < 0 || index >= (double)along->in;
        weight[k] = how->exclude_outside && outside ? 0 : kernel_weight(how, at - index);
        sum += weight[k];
    }
    for (int k = 0; k < 4; k++)
        if (weight[k] > 0 || weight[k] < 0)
            weights[clamp(low - 1 + k, along->in)] +=
                (float)(how->exclude_outside ? weight[k] / sum : weight[k]);
}
