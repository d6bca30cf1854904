/* The one file that knows stb_image, the decoder.  It is handed files whole, in memory, so that it
   opens none itself. */
#include "exec/data/image.h"

#include <stb_image.h>
#include <stdlib.h>

cleave_status cleave_image_decode(const uint8_t *file, size_t bytes, const char *path, int channels,
                                  cleave_image *image, cleave_error *error) {
    int width, height, there;
    if (bytes > (size_t)CLEAVE_MOST_IMAGE_BYTES)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: %zu bytes are too many for an image", path,
                           bytes);
    if (!stbi_info_from_memory(file, (int)bytes, &width, &height, &there))
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: no image that can be read: %s", path,
                           stbi_failure_reason());
    if (width < 1 || height < 1 || (int64_t)width * height > CLEAVE_MOST_IMAGE_PIXELS)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: an image of %d x %d is too large", path,
                           width, height);
    uint8_t *pixels = stbi_load_from_memory(file, (int)bytes, &width, &height, &there, channels);
    if (pixels == NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: no image that can be read: %s", path,
                           stbi_failure_reason());
    *image = (cleave_image){width, height, channels, pixels};
    return CLEAVE_OK;
}

void cleave_image_free(cleave_image *image) {
    stbi_image_free(image->pixels);
    image->pixels = NULL;
}
