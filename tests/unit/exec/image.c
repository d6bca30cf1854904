/* Pictures as Pillow decodes and resizes them, and folders of them. */
#include "exec/data/image.h"
#include "../../support/ok.h"

#include "exec/data/image_folder.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static size_t read_file(const char *name, uint8_t *file, size_t most) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", CLEAVE_SOURCE_DIR, name);
    FILE *stream = fopen(path, "rb");
    cr_assert(stream != NULL, "%s", path);
    size_t n = fread(file, 1, most, stream);
    fclose(stream);
    return n;
}

/* Back to 0..255. */
static double level(const float *values, int64_t size, int64_t y, int64_t x, int c) {
    static const double mean[] = {0.485, 0.456, 0.406}, deviation[] = {0.229, 0.224, 0.225};
    return 255 * ((double)values[(c * size + y) * size + x] * deviation[c] + mean[c]);
}

/* Of tests/data/images/ramps.jpg, 40 x 24: red runs across, green down.  Figures by Pillow 12.0:
   Image.resize((round(40 / s), round(24 / s)), BILINEAR), s = 24 / size, and the middle cut out. */
Test(image, pictures_are_resized_and_cropped_as_pillow_does) {
    static const struct {
        int64_t size;
        int corners[4]
                   [2]; /* red and green at (y, x) = (0, 0), (0, last), (last, 0), (last, last) */
    } cases[] = {{12, {{64, 35}, {176, 35}, {63, 194}, {176, 195}}},
                 {6, {{69, 44}, {171, 44}, {68, 185}, {170, 186}}},
                 {32, {{57, 31}, {177, 30}, {58, 199}, {177, 200}}}};
    uint8_t file[2000];
    size_t n = read_file("tests/data/images/ramps.jpg", file, sizeof file);
    cleave_image image;
    OK(cleave_image_decode, file, n, "ramps.jpg", 3, &image);
    cr_assert(image.width == 40 && image.height == 24);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t size = cases[i].size;
        float values[3 * 32 * 32];
        OK(cleave_image_fit, &image, size, size, values);
        for (int k = 0; k < 4; k++)
            for (int c = 0; c < 2; c++) {
                double got = level(values, size, k / 2 * (size - 1), k % 2 * (size - 1), c);
                cr_assert(fabs(got - cases[i].corners[k][c]) < 2.5, "%lld, corner %d: %g, not %d",
                          (long long)size, k, got, cases[i].corners[k][c]);
            }
    }
    cleave_image_free(&image);
}

Test(image, one_of_the_right_size_stays_as_it_is) {
    uint8_t pixels[2 * 2] = {0, 255, 51, 102};
    const cleave_image image = {2, 2, 1, pixels};
    float values[4];
    OK(cleave_image_fit, &image, 2, 2, values);
    /* (v / 255 - 0.5) / 0.5 */
    const double wanted[] = {-1, 1, -0.6, -0.2};
    for (int i = 0; i < 4; i++)
        cr_assert_float_eq((double)values[i], wanted[i], 1e-6);
}

Test(image, what_is_cut_is_refused_by_name) {
    uint8_t file[2000];
    size_t n = read_file("tests/fuzz/corpus/image/waves.png", file, sizeof file);
    for (size_t cut = 0; cut < n - 12; cut += 7) { /* the last chunk has nothing in it */
        cleave_error error = {{0}};
        cleave_image image;
        cleave_status status = cleave_image_decode(file, cut, "waves.png", 3, &image, &error);
        cr_assert_eq(status, CLEAVE_BAD_INPUT, "cut to %zu of %zu bytes", cut, n);
        cr_assert(strstr(error.message, "waves.png: no image that can be read: ") != NULL, "%s",
                  error.message);
    }
}

static void make_file(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    mkdir(path, 0777);
    *slash = '/';
    FILE *stream = fopen(path, "wb");
    fputs("x", stream);
    fclose(stream);
}

Test(image, classes_are_numbered_by_the_sorted_names_of_their_folders) {
    char folder[] = "/tmp/cleave_images_XXXXXX", path[64], command[96];
    cleave_arena arena = {0};
    cleave_image_folder listed;
    cleave_error error = {{0}};
    cr_assert(mkdtemp(folder) != NULL);
    cr_assert_eq(cleave_image_folder_list(folder, &arena, &listed, &error), CLEAVE_BAD_INPUT);
    const char *const files[] = {"dog/2.png",       "dog/1.JPG",  "cat/9.jpeg", "cat/notes.txt",
                                 "cat/.hidden.png", "beside.png", ".git/a.png"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        make_file(folder, files[i]);
    OK(cleave_image_folder_list, folder, &arena, &listed);
    cr_assert(listed.n == 3 && listed.n_classes == 2);
    const char *const names[] = {"9.jpeg", "1.JPG", "2.png"};
    for (int i = 0; i < 3; i++) {
        cr_assert_str_eq(listed.pictures[i].name, names[i]);
        cr_assert_eq(listed.pictures[i].class, i > 0);
    }
    snprintf(path, sizeof path, "%s/empty", folder);
    mkdir(path, 0777);
    cr_assert_eq(cleave_image_folder_list(folder, &arena, &listed, &error), CLEAVE_BAD_INPUT);
    cr_assert(strstr(error.message, "empty: a class without an image") != NULL, "%s",
              error.message);
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_assert_eq(system(command), 0);
    cleave_arena_free(&arena);
}
