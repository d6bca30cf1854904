/* Convolutions, pools, resampling. */
#include "generators.h"

#include <string.h>

enum { MOST_SPATIAL = 3 };

typedef struct windows {
    int n; /* spatial dimensions */
    int64_t kernel[MOST_SPATIAL], stride[MOST_SPATIAL], dilation[MOST_SPATIAL],
        pads[2 * MOST_SPATIAL];
    bool has_pads;
    const char *mode; /* of automatic padding; null: pads */
} windows;

/* Windows that fit an image; draws the image's spatial extents too. */
static windows draw_windows(drawn_model *m, bool dilates, drawn_shape *image) {
    static const char *const modes[] = {"SAME_UPPER", "SAME_LOWER", "VALID"};
    windows win = {.n = (int)draw_between(m, 1, 10) <= 7 ? 2 : (int)draw_between(m, 1, 3)};
    image->rank = 2 + win.n;
    image->extent[0] = draw_between(m, 1, 3);
    win.has_pads = draw_chance(m, 0.6);
    if (draw_chance(m, 0.25))
        win.mode = modes[draw_between(m, 0, 2)];
    for (int d = 0; d < win.n; d++) {
        win.kernel[d] = draw_between(m, 1, 3);
        win.stride[d] = draw_between(m, 1, win.n < 3 ? 3 : 2);
        win.dilation[d] = dilates && draw_chance(m, 0.3) ? 2 : 1;
        int64_t window = (win.kernel[d] - 1) * win.dilation[d] + 1;
        /* Padding below the window's extent: each window meets an element. */
        int64_t most = win.kernel[d] - 1 < 2 ? win.kernel[d] - 1 : 2;
        for (int side = 0; side < 2; side++)
            win.pads[side * win.n + d] =
                win.has_pads && win.mode == NULL ? draw_between(m, 0, most) : 0;
        image->extent[2 + d] = window + draw_between(m, 0, win.n < 3 ? 4 : 2);
    }
    return win;
}

static void set_windows(drawn_model *m, const windows *win, bool dilates) {
    if (win->mode != NULL)
        set_text(m, "auto_pad", win->mode);
    else if (win->has_pads)
        set_integers(m, "pads", 2 * win->n, win->pads);
    set_integers(m, "strides", win->n, win->stride);
    if (dilates)
        set_integers(m, "dilations", win->n, win->dilation);
}

static void conv(drawn_model *m, const char *type) {
    drawn_shape image, weight;
    windows win = draw_windows(m, true, &image);
    int64_t groups = draw_chance(m, 0.4) ? draw_between(m, 2, 3) : 1, c = draw_between(m, 1, 3),
            k = groups * draw_between(m, 1, 3);
    if (draw_chance(m, 0.2)) { /* depthwise */
        groups = draw_between(m, 2, 4);
        c = 1;
        k = groups * draw_between(m, 1, 2);
    }
    image.extent[1] = groups * c;
    weight = shape_of(2 + win.n, (int64_t[]){k, c, win.kernel[0], win.kernel[1], win.kernel[2]});
    const char *x = draw_operand(m, image, DRAWN_ANY), *w = draw_operand(m, weight, DRAWN_ANY);
    const char *b = draw_chance(m, 0.6) ? draw_operand(m, shape_of(1, &k), DRAWN_ANY) : "";
    set_windows(m, &win, true);
    if (groups > 1 || draw_chance(m, 0.3))
        set_integer(m, "group", groups);
    if (draw_chance(m, 0.7))
        set_integers(m, "kernel_shape", win.n, win.kernel);
    put_output(m, put_node(m, type, "%s %s%s%s", x, w, b[0] != '\0' ? " " : "", b));
}

static void conv_transpose(drawn_model *m, const char *type) {
    drawn_shape image, weight;
    windows win = draw_windows(m, false, &image);
    int64_t groups = draw_chance(m, 0.3) ? 2 : 1, c = groups * draw_between(m, 1, 2),
            k = draw_between(m, 1, 2), extra[MOST_SPATIAL];
    win.mode = NULL;
    for (int d = 0; d < win.n; d++) {
        image.extent[2 + d] = draw_between(m, 2, 4);
        extra[d] = draw_between(m, 0, win.stride[d] - 1);
    }
    image.extent[1] = c;
    weight = shape_of(2 + win.n, (int64_t[]){c, k, win.kernel[0], win.kernel[1], win.kernel[2]});
    const char *x = draw_operand(m, image, DRAWN_ANY), *w = draw_operand(m, weight, DRAWN_ANY);
    int64_t outputs = groups * k;
    const char *b = draw_chance(m, 0.6) ? draw_operand(m, shape_of(1, &outputs), DRAWN_ANY) : "";
    set_windows(m, &win, false);
    if (groups > 1)
        set_integer(m, "group", groups);
    if (draw_chance(m, 0.4))
        set_integers(m, "output_padding", win.n, extra);
    put_output(m, put_node(m, type, "%s %s%s%s", x, w, b[0] != '\0' ? " " : "", b));
}

static void pool(drawn_model *m, const char *type) {
    bool maximum = type[0] == 'M', average = type[0] == 'A';
    drawn_shape image;
    bool dilates = maximum && m->opset >= 10;
    windows win = draw_windows(m, dilates, &image);
    image.extent[1] = draw_between(m, 1, 4);
    const char *x = draw_operand(m, image, maximum ? DRAWN_DISTINCT : DRAWN_ANY);
    set_windows(m, &win, dilates);
    set_integers(m, "kernel_shape", win.n, win.kernel);
    if (m->opset >= 10 && win.mode == NULL && !win.has_pads && draw_chance(m, 0.4))
        set_integer(m, "ceil_mode", 1);
    if (average && draw_chance(m, 0.5))
        set_integer(m, "count_include_pad", draw_between(m, 0, 1));
    put_output(m, put_node(m, type, "%s", x));
}

static void global_pool(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 3, 5);
    bool maximum = strstr(type, "Max") != NULL;
    put_output(
        m, put_node(m, type, "%s", draw_operand(m, shape, maximum ? DRAWN_DISTINCT : DRAWN_ANY)));
}

/* ---- resampling ------------------------------------------------------------------------------ */

/* Last of operator set 9. */
static void upsample(drawn_model *m, const char *type) {
    m->opset = 9;
    drawn_shape shape = draw_shape(m, 4, 4);
    const char *x = draw_operand(m, shape, DRAWN_ANY);
    float scales[4] = {1, 1, (float)draw_between(m, 1, 3), (float)draw_between(m, 1, 3)};
    if (draw_chance(m, 0.7))
        set_text(m, "mode", "nearest");
    put_output(m, put_node(m, type, "%s %s", x, put_floats(m, 4, scales)));
}

static void resize(drawn_model *m, const char *type) {
    static const char *const places[] = {"half_pixel", "asymmetric", "align_corners",
                                         "pytorch_half_pixel"};
    static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                            "ceil"};
    drawn_shape shape = draw_shape(m, 4, 4);
    for (int d = 2; d < 4; d++)
        shape.extent[d] = draw_between(m, 2, 4);
    const char *x = draw_operand(m, shape, DRAWN_ANY);
    bool linear = draw_chance(m, 0.5), by_size = draw_chance(m, 0.4);
    int64_t sizes[4] = {shape.extent[0], shape.extent[1], draw_between(m, 2, 7),
                        draw_between(m, 2, 7)};
    float scales[4] = {1, 1, draw_chance(m, 0.5) ? 2.0f : 1.5f, draw_chance(m, 0.5) ? 3.0f : 0.5f};
    const char *list = by_size ? put_list(m, 4, sizes) : put_floats(m, 4, scales);
    set_text(m, "mode", linear ? "linear" : "nearest");
    if (m->opset >= 11) {
        set_text(m, "coordinate_transformation_mode", places[draw_between(m, 0, 3)]);
        if (!linear && draw_chance(m, 0.6))
            set_text(m, "nearest_mode", roundings[draw_between(m, 0, 3)]);
    }
    put_output(m, by_size ? put_node(m, type, "%s - - %s", x, list)
                          : put_node(m, type, "%s - %s", x, list));
}

const generator window_generators[] = {{"AveragePool", 7, pool, true},
                                       {"Conv", 7, conv, true},
                                       {"ConvTranspose", 7, conv_transpose, true},
                                       {"GlobalAveragePool", 7, global_pool, true},
                                       {"GlobalLpPool", 7, global_pool, true},
                                       {"GlobalMaxPool", 7, global_pool, false},
                                       {"LpPool", 7, pool, true},
                                       {"MaxPool", 8, pool, false},
                                       {"Resize", 11, resize, true},
                                       {"Upsample", 9, upsample, false},
                                       {0}};
