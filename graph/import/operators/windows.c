/* Reading windows from attributes.  A Pad of zeros before a convolution or an average pool
   becomes part of their padding. */
#include "graph/import/operators/windows.h"

#include <string.h>

const char *const cleave_spatial_names[CLEAVE_MOST_SPATIAL][CLEAVE_MOST_SPATIAL] = {
    {"w"}, {"h", "w"}, {"d", "h", "w"}};
const char *const cleave_window_names[CLEAVE_MOST_SPATIAL][CLEAVE_MOST_SPATIAL] = {
    {"s"}, {"r", "s"}, {"q", "r", "s"}};

static int64_t window_extent(const cleave_windows *win, int d) {
    return (win->kernel[d] - 1) * win->dilation[d] + 1;
}

static cleave_status read_padding(cleave_importer *im, cleave_windows *win) {
    const char *mode;
    int64_t pads[2 * CLEAVE_MOST_SPATIAL];
    CLEAVE_TRY(cleave_import_string(im, "auto_pad", "NOTSET", &mode));
    bool upper = strcmp(mode, "SAME_UPPER") == 0, lower = strcmp(mode, "SAME_LOWER") == 0;
    if (!upper && !lower && strcmp(mode, "NOTSET") != 0 && strcmp(mode, "VALID") != 0)
        return cleave_import_fail(im,
                                  "attribute auto_pad is %s, supported are NOTSET, VALID, "
                                  "SAME_UPPER and SAME_LOWER",
                                  mode);
    CLEAVE_TRY(cleave_import_integers(im, "pads", 2 * win->n, 0, CLEAVE_MOST_WINDOW, 0, pads));
    for (int d = 0; d < win->n; d++) {
        bool given = strcmp(mode, "NOTSET") == 0;
        win->before[d] = given ? pads[d] : 0;
        win->after[d] = given ? pads[win->n + d] : 0;
        if (!upper && !lower)
            continue;
        int64_t out = (win->in[d] + win->stride[d] - 1) / win->stride[d];
        int64_t total = (out - 1) * win->stride[d] + window_extent(win, d) - win->in[d];
        total = total < 0 ? 0 : total;
        win->before[d] = upper ? total / 2 : total - total / 2;
        win->after[d] = total - win->before[d];
    }
    return CLEAVE_OK;
}

cleave_status cleave_windows_read(cleave_importer *im, const cleave_tensor *input, bool ceil_mode,
                                  cleave_windows *win) {
    CLEAVE_TRY(
        cleave_import_integers(im, "strides", win->n, 1, CLEAVE_MOST_WINDOW, 1, win->stride));
    CLEAVE_TRY(
        cleave_import_integers(im, "dilations", win->n, 1, CLEAVE_MOST_WINDOW, 1, win->dilation));
    for (int d = 0; d < win->n; d++) {
        win->in[d] = input->shape[2 + d];
        if (window_extent(win, d) > CLEAVE_MOST_WINDOW)
            return cleave_import_fail(im, "a window of %lld is too long",
                                      (long long)window_extent(win, d));
    }
    CLEAVE_TRY(read_padding(im, win));
    for (int d = 0; d < win->n; d++) {
        int64_t padded = win->in[d] + win->before[d] + win->after[d];
        int64_t room = padded - window_extent(win, d);
        if (room < 0)
            return cleave_import_fail(im,
                                      "a window of %lld does not fit the %lld positions of "
                                      "dimension %d with its padding",
                                      (long long)window_extent(win, d), (long long)padded, 2 + d);
        win->out[d] = room / win->stride[d] + 1;
        /* A window more where some are left over, unless it would begin in the padding behind. */
        if (ceil_mode && room % win->stride[d] != 0 &&
            win->out[d] * win->stride[d] < win->in[d] + win->before[d])
            win->out[d]++;
    }
    return CLEAVE_OK;
}

void cleave_windows_take_padding(const cleave_importer *im, cleave_windows *win, int32_t *tensor) {
    const cleave_tensor *padded = &im->tensors.items[*tensor].tensor;
    const cleave_view *view = &padded->view;
    if (view->kind != CLEAVE_VIEW_PAD || view->fill != 0)
        return;
    const cleave_tensor *source = &im->tensors.items[view->sources[0]].tensor;
    for (int d = 0; d < 2; d++)
        if (source->shape[d] != padded->shape[d])
            return;
    for (int d = 0; d < win->n; d++) {
        win->zeros_before[d] = view->begin[2 + d];
        win->zeros_after[d] = padded->shape[2 + d] - view->begin[2 + d] - source->shape[2 + d];
        win->in[d] = source->shape[2 + d];
    }
    *tensor = view->sources[0];
}

void cleave_windows_map(cleave_operand *operand, const cleave_windows *win, int d, int position,
                        int place) {
    cleave_map_offset(operand, 2 + d, -(win->before[d] + win->zeros_before[d]));
    cleave_map_term(operand, 2 + d, position, win->stride[d]);
    cleave_map_term(operand, 2 + d, place, win->dilation[d]);
}

cleave_status cleave_windows_rank(cleave_importer *im, const cleave_tensor *input,
                                  cleave_windows *win) {
    win->n = input->rank - 2;
    if (win->n < 1 || win->n > CLEAVE_MOST_SPATIAL)
        return cleave_import_fail(im, "input %s has rank %d, supported are 3 to 5",
                                  im->node->inputs[0], input->rank);
    return CLEAVE_OK;
}
