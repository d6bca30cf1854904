/* Fuzzes the way of a picture from its file to values: what is accepted has its size, and its
   values are numbers. */
#include "exec/data/image.h"
#include "fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int64_t sizes[][2] = {{1, 1}, {5, 3}, {16, 16}};
    for (int channels = 1; channels <= 3; channels += 2) {
        cleave_error error = {""};
        cleave_image image = {0};
        cleave_status status =
            cleave_image_decode(data, size, "fuzz.png", channels, &image, &error);
        if ((status == CLEAVE_OK) != (error.message[0] == '\0') ||
            strchr(error.message, '\n') != NULL)
            abort();
        if (status == CLEAVE_OK && image.width * image.height > 1 << 20) {
            cleave_image_free(&image); /* right, but slow */
            continue;
        }
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes && status == CLEAVE_OK; s++) {
            float values[3 * 16 * 16];
            if (cleave_image_fit(&image, sizes[s][0], sizes[s][1], values, &error) != CLEAVE_OK)
                abort();
            for (int64_t i = 0; i < channels * sizes[s][0] * sizes[s][1]; i++)
                if (!isfinite(values[i]) || fabsf(values[i]) > 3)
                    abort();
        }
        if (status == CLEAVE_OK)
            cleave_image_free(&image);
    }
    return 0;
}
