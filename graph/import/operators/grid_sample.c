/* GridSample: elements of an image at places that another tensor says, between its pixels.

   y[n, c, u, v] = sum over i, j of x[n, c, i, j] W(i, grid[n, u, v, 1]) W(j, grid[n, u, v, 0]),
   where W is not 0 for the two pixels that are next to a place, or for the nearest.  Outside of the
   image no pixel is next to it, so zeros are what is there; for its border places are clipped. */
#include "graph/import/internal.h"

#include <string.h>

typedef struct sampling {
    int32_t x, grid;
    bool is_nearest, clips, aligns; /* aligns: -1 and 1 are the outer pixels' centres, else edges */
    int64_t shape[CLEAVE_MAX_RANK]; /* of the output */
} sampling;

enum { RANK = 4, N_SPATIAL = 2 };

/* ---- attributes and shapes ------------------------------------------------------------------- */

static cleave_status read_how(cleave_importer *im, sampling *s) {
    const char *mode, *padding;
    int64_t aligns;
    CLEAVE_TRY(cleave_import_string(im, "mode", "bilinear", &mode));
    CLEAVE_TRY(cleave_import_string(im, "padding_mode", "zeros", &padding));
    CLEAVE_TRY(cleave_import_integer(im, "align_corners", 0, &aligns));
    s->is_nearest = strcmp(mode, "nearest") == 0;
    s->clips = strcmp(padding, "border") == 0;
    s->aligns = aligns != 0;
    if (!s->is_nearest && strcmp(mode, "bilinear") != 0 && strcmp(mode, "linear") != 0)
        return cleave_import_fail(im, "attribute mode is %s, which is not supported", mode);
    if (!s->clips && strcmp(padding, "zeros") != 0)
        return cleave_import_fail(im, "attribute padding_mode is %s, which is not supported",
                                  padding);
    return CLEAVE_OK;
}

static cleave_status read_tensors(cleave_importer *im, sampling *s) {
    CLEAVE_TRY(cleave_import_tensor(im, 0, &s->x));
    CLEAVE_TRY(cleave_import_tensor(im, 1, &s->grid));
    const cleave_tensor *x = &im->tensors.items[s->x].tensor;
    const cleave_tensor *grid = &im->tensors.items[s->grid].tensor;
    if (x->rank != RANK || grid->rank != RANK)
        return cleave_import_fail(im, "its image has rank %d and its grid %d, supported is %d",
                                  x->rank, grid->rank, RANK);
    if (grid->shape[0] != x->shape[0] || grid->shape[RANK - 1] != N_SPATIAL)
        return cleave_import_fail(im,
                                  "its grid has %lld samples of %lld places, its image %lld of %d",
                                  (long long)grid->shape[0], (long long)grid->shape[RANK - 1],
                                  (long long)x->shape[0], N_SPATIAL);
    s->shape[0] = x->shape[0];
    s->shape[1] = x->shape[1];
    s->shape[2] = grid->shape[1];
    s->shape[3] = grid->shape[2];
    return CLEAVE_OK;
}

/* ---- the nest -------------------------------------------------------------------------------- */

/* The place in pixels of what is -1 to 1. */
static int emit_place(cleave_nest *nest, const sampling *s, int from, int64_t extent) {
    const double last = (double)(extent - 1);
    int place = cleave_nest_emit(nest, CLEAVE_OP_SCALE, from, 0,
                                 (s->aligns ? last : (double)extent) / 2, last / 2);
    return s->clips ? cleave_nest_emit(nest, CLEAVE_OP_CLIP, place, 0, 0, last) : place;
}

/* What the pixel of the axis counts: 1 - t of the last one that is not behind the place, which is t
   behind it, and t of the next.  Written so, and not by distances, the gradient of a place that is
   a pixel's is to the next pixel, as frameworks have it. */
static int emit_weight(cleave_nest *nest, const sampling *s, int place, int axis) {
    int pixel = cleave_nest_emit(nest, CLEAVE_OP_INDEX, axis, 0, 0, 0);
    if (s->is_nearest) {
        place = cleave_nest_emit(nest, CLEAVE_OP_ROUND, place, 0, 0, 0);
        return cleave_nest_emit(nest, CLEAVE_OP_EQUAL, pixel, place, 0, 0);
    }
    int last = cleave_nest_emit(nest, CLEAVE_OP_FLOOR, place, 0, 0, 0);
    int behind = cleave_nest_emit(nest, CLEAVE_OP_SUB, place, last, 0, 0);
    int is_last = cleave_nest_emit(nest, CLEAVE_OP_EQUAL, pixel, last, 0, 0);
    int next = cleave_nest_emit(nest, CLEAVE_OP_SCALE, last, 0, 1, 1);
    int is_next = cleave_nest_emit(nest, CLEAVE_OP_EQUAL, pixel, next, 0, 0);
    int before = cleave_nest_emit(nest, CLEAVE_OP_SCALE, behind, 0, -1, 1);
    int of_last = cleave_nest_emit(nest, CLEAVE_OP_MUL, before, is_last, 0, 0);
    int of_next = cleave_nest_emit(nest, CLEAVE_OP_MUL, behind, is_next, 0, 0);
    return cleave_nest_emit(nest, CLEAVE_OP_ADD, of_last, of_next, 0, 0);
}

/* Component `c` of the grid as an input: [n, u, v] are the nest's axes 0, 2 and 3. */
static int add_component(cleave_nest *nest, const sampling *s, int c) {
    int input = cleave_nest_add_input(nest, s->grid);
    cleave_map_axis(&nest->inputs[input], 0, 0);
    cleave_map_axis(&nest->inputs[input], 1, 2);
    cleave_map_axis(&nest->inputs[input], 2, 3);
    cleave_map_offset(&nest->inputs[input], 3, c);
    return input;
}

static void fill_nest(cleave_nest *nest, const sampling *s, const cleave_tensor *x) {
    static const char *const names[N_SPATIAL] = {"i", "j"};
    int summed[N_SPATIAL], components[N_SPATIAL], value = cleave_nest_add_input(nest, s->x);
    for (int k = 0; k < N_SPATIAL; k++) {
        summed[k] = cleave_nest_add_axis(nest, names[k], x->shape[2 + k], true, -1);
        components[k] = add_component(nest, s, N_SPATIAL - 1 - k);
    }
    for (int d = 0; d < RANK; d++)
        cleave_map_axis(&nest->inputs[value], d, d < 2 ? d : summed[d - 2]);
    for (int k = 0; k < N_SPATIAL; k++) {
        int place = emit_place(nest, s, components[k], x->shape[2 + k]);
        int weight = emit_weight(nest, s, place, summed[k]);
        value = cleave_nest_emit(nest, CLEAVE_OP_MUL, value, weight, 0, 0);
    }
}

cleave_status cleave_import_grid_sample(cleave_importer *im) {
    sampling s = {0};
    int32_t op, output;
    CLEAVE_TRY(read_how(im, &s));
    CLEAVE_TRY(read_tensors(im, &s));
    CLEAVE_TRY(cleave_import_new_operator(im, true, &op));
    for (int d = 0; d < RANK; d++)
        if (cleave_import_add_axis(im, op, im->tensors.items[s.x].axes[d], s.shape[d], false) < 0)
            return cleave_import_no_memory(im);
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){im->node->outputs[0], op, "", RANK, s.shape, s.x}, &output));
    cleave_nest nest = {.kind = CLEAVE_NEST_REDUCE, .op = op, .combiner = CLEAVE_COMBINE_SUM};
    cleave_nest_take_axes(&nest, &im->operators.items[op]);
    nest.output = cleave_whole_operand(output, RANK);
    fill_nest(&nest, &s, &im->tensors.items[s.x].tensor);
    CLEAVE_TRY(cleave_import_add_nest(im, &nest, "", &im->operators.items[op].main_nest));
    im->operators.items[op].output = output;
    cleave_import_set_output(im, 0, output, false);
    return CLEAVE_OK;
}
