/* Pictures onto the size that a model wants: one dimension after the other. */
#include "exec/data/image.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* What one place of a line takes of the places of the line before it was resized. */
typedef struct taps {
    int64_t first, n;
    float *weight; /* [n], of sum 1 */
} taps;

/* One dimension: `to` places of what `from` ones become when resized by `scale` (from over to). */
static void find_taps(int64_t from, int64_t to, double scale, int64_t i, taps *t) {
    int64_t resized = (int64_t)floor((double)from / scale + 0.5);
    int64_t cut = resized > to ? (resized - to) / 2 : 0;
    double reach = scale > 1 ? scale : 1, sum = 0;
    double middle =
        ((double)(i + cut) + 0.5) * (double)from / (double)(resized > to ? resized : to);
    int64_t first = (int64_t)floor(middle - reach + 0.5),
            end = (int64_t)floor(middle + reach + 0.5);
    first = first < 0 ? 0 : first > from - 1 ? from - 1 : first;
    end = end > from ? from : end < first + 1 ? first + 1 : end;
    t->first = first;
    t->n = end - first;
    for (int64_t k = 0; k < t->n; k++) {
        double away = fabs(((double)(first + k) + 0.5 - middle) / reach);
        t->weight[k] = away < 1 ? (float)(1 - away) : 0;
        sum += (double)t->weight[k];
    }
    for (int64_t k = 0; k < t->n; k++)
        t->weight[k] = sum > 0 ? t->weight[k] / (float)sum : k == 0;
}

static float normalised(float value, int channels, int channel) {
    static const float mean[3] = {0.485f, 0.456f, 0.406f}, deviation[3] = {0.229f, 0.224f, 0.225f};
    float m = channels == 3 ? mean[channel] : 0.5f, d = channels == 3 ? deviation[channel] : 0.5f;
    return (value / 255.0f - m) / d;
}

/* Every line of the picture to the new width: [height][width][channels]. */
static void fit_lines(const cleave_image *image, double scale, int64_t width, taps *t,
                      float *lines) {
    const int64_t channels = image->channels;
    for (int64_t x = 0; x < width; x++) {
        find_taps(image->width, width, scale, x, t);
        for (int64_t y = 0; y < image->height; y++)
            for (int64_t c = 0; c < channels; c++) {
                const uint8_t *from = image->pixels + (y * image->width + t->first) * channels + c;
                float sum = 0;
                for (int64_t k = 0; k < t->n; k++)
                    sum += t->weight[k] * (float)from[k * channels];
                lines[(y * width + x) * channels + c] = sum;
            }
    }
}

static void fit_columns(const cleave_image *image, double scale, const int64_t size[2], taps *t,
                        const float *lines, float *values) {
    const int64_t channels = image->channels, height = size[0], width = size[1];
    for (int64_t y = 0; y < height; y++) {
        find_taps(image->height, height, scale, y, t);
        for (int64_t x = 0; x < width; x++)
            for (int64_t c = 0; c < channels; c++) {
                const float *from = lines + (t->first * width + x) * channels + c;
                float sum = 0;
                for (int64_t k = 0; k < t->n; k++)
                    sum += t->weight[k] * from[k * width * channels];
                values[(c * height + y) * width + x] = normalised(sum, image->channels, (int)c);
            }
    }
}

cleave_status cleave_image_fit(const cleave_image *image, int64_t height, int64_t width,
                               float *values, cleave_error *error) {
    const double across = (double)image->width / (double)width,
                 down = (double)image->height / (double)height;
    const double scale = across < down ? across : down;
    const int64_t longest = image->width > image->height ? image->width : image->height;
    const int64_t size[2] = {height, width};
    taps t = {.weight = malloc((size_t)longest * sizeof(float))};
    float *lines = malloc((size_t)(image->height * width * image->channels) * sizeof *lines);
    bool has_room = t.weight != NULL && lines != NULL;
    if (has_room) {
        fit_lines(image, scale, width, &t, lines);
        fit_columns(image, scale, size, &t, lines, values);
    }
    free(t.weight);
    free(lines);
    return has_room ? CLEAVE_OK : cleave_fail_memory(error, "resizing an image");
}
