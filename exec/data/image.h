/* Pictures: out of JPEG and PNG files, and onto the size that a model wants. */
#ifndef CLEAVE_EXEC_DATA_IMAGE_H
#define CLEAVE_EXEC_DATA_IMAGE_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Larger ones are refused before they are decoded: pixels, and bytes of the file. */
#define CLEAVE_MOST_IMAGE_PIXELS (INT64_C(1) << 26)
#define CLEAVE_MOST_IMAGE_BYTES (INT64_C(1) << 28)

typedef struct cleave_image {
    int64_t width, height;
    int channels;    /* 1: grey, 3: red, green, blue */
    uint8_t *pixels; /* [height][width][channels]; to be freed */
} cleave_image;

/* Decodes a file that was read, of `path` in errors, into 1 or 3 channels: colours become grey by
   their luminance, what is transparent opaque.  BAD_INPUT with the decoder's reason. */
cleave_status cleave_image_decode(const uint8_t *file, size_t bytes, const char *path, int channels,
                                  cleave_image *image, cleave_error *error);
void cleave_image_free(cleave_image *image);

/* The middle of the picture, as large as fits: it is resized so that it just covers height x width,
   its proportions kept, and what hangs over is cut off alike on both sides.  Resized by triangles
   as wide as the larger of a pixel before and after (bilinear, and smooth where it shrinks); one of
   just that size stays as it is.

   A value v in 0..255 becomes (v / 255 - mean) / deviation, of three channels by ImageNet's means
   0.485, 0.456, 0.406 and deviations 0.229, 0.224, 0.225, of one by 0.5 and 0.5.  `values` is
   [channels][height][width].  FAILED when memory is short. */
cleave_status cleave_image_fit(const cleave_image *image, int64_t height, int64_t width,
                               float *values, cleave_error *error);

#endif
