/* Resize and Upsample, dimension by dimension.

   Where the elements taken lie a whole step apart it is a slice.  Where each is repeated a whole
   number of times it is a copy into [.., h, s, w, s], which is the output.  Everything else is a
   product with a constant matrix [out, in] of weights. */
#include "graph/import/internal.h"
#include "graph/import/operators/interpolation.h"

#include <math.h>
#include <string.h>

enum { MOST_WEIGHTS = 1 << 26 };

typedef enum step { STEP_NONE, STEP_SLICE, STEP_REPEAT, STEP_MATRIX } step;

typedef struct resizing {
    cleave_interpolation how;
    int rank;
    cleave_resampling along[CLEAVE_MAX_RANK];
    step step[CLEAVE_MAX_RANK];
    int32_t input, op; /* input: as far as it has come */
    int last_matrix;   /* dimension; -1: none */
    bool repeats;
} resizing;

/* ---- attributes ------------------------------------------------------------------------------ */

typedef struct word {
    const char *text;
    int value;
} word;

static cleave_status read_word(cleave_importer *im, const char *attribute, const char *otherwise,
                               const word *words, int *value) {
    const char *text;
    CLEAVE_TRY(cleave_import_string(im, attribute, otherwise, &text));
    for (int i = 0; words[i].text != NULL; i++)
        if (strcmp(words[i].text, text) == 0) {
            *value = words[i].value;
            return CLEAVE_OK;
        }
    return cleave_import_fail(im, "attribute %s is %s, which is not supported", attribute, text);
}

static cleave_status refuse_unless(cleave_importer *im, const char *attribute, int64_t otherwise,
                                   int64_t supported) {
    int64_t value;
    CLEAVE_TRY(cleave_import_integer(im, attribute, otherwise, &value));
    return value == supported
               ? CLEAVE_OK
               : cleave_import_fail(im, "attribute %s is %lld, supported is %lld", attribute,
                                    (long long)value, (long long)supported);
}

static cleave_status read_how(cleave_importer *im, cleave_interpolation *how) {
    static const word modes[] = {{"nearest", CLEAVE_INTERPOLATE_NEAREST},
                                 {"linear", CLEAVE_INTERPOLATE_LINEAR},
                                 {"bilinear", CLEAVE_INTERPOLATE_LINEAR},
                                 {"cubic", CLEAVE_INTERPOLATE_CUBIC},
                                 {NULL, 0}};
    static const word coordinates[] = {
        {"half_pixel", CLEAVE_COORDINATES_HALF_PIXEL},
        {"half_pixel_symmetric", CLEAVE_COORDINATES_HALF_PIXEL_SYMMETRIC},
        {"pytorch_half_pixel", CLEAVE_COORDINATES_PYTORCH_HALF_PIXEL},
        {"align_corners", CLEAVE_COORDINATES_ALIGN_CORNERS},
        {"asymmetric", CLEAVE_COORDINATES_ASYMMETRIC},
        {"tf_half_pixel_for_nn", CLEAVE_COORDINATES_TF_HALF_PIXEL_FOR_NN},
        {NULL, 0}};
    static const word roundings[] = {{"round_prefer_floor", CLEAVE_ROUND_PREFER_FLOOR},
                                     {"round_prefer_ceil", CLEAVE_ROUND_PREFER_CEIL},
                                     {"floor", CLEAVE_ROUND_FLOOR},
                                     {"ceil", CLEAVE_ROUND_CEIL},
                                     {NULL, 0}};
    bool early = im->graph.opset < 11; /* no choice of coordinates and rounding */
    int mode = 0, from = 0, rounding = 0;
    int64_t exclude;
    CLEAVE_TRY(read_word(im, "mode", "nearest", modes, &mode));
    CLEAVE_TRY(read_word(im, "coordinate_transformation_mode", early ? "asymmetric" : "half_pixel",
                         coordinates, &from));
    CLEAVE_TRY(read_word(im, "nearest_mode", early ? "floor" : "round_prefer_floor", roundings,
                         &rounding));
    CLEAVE_TRY(cleave_import_number(im, "cubic_coeff_a", -0.75, &how->cubic_a));
    CLEAVE_TRY(cleave_import_integer(im, "exclude_outside", 0, &exclude));
    CLEAVE_TRY(refuse_unless(im, "antialias", 0, 0));
    how->mode = (cleave_interpolation_mode)mode;
    how->coordinates = (cleave_coordinates)from;
    how->rounding = (cleave_rounding)rounding;
    how->exclude_outside = exclude != 0;
    return CLEAVE_OK;
}

/* Dimensions that scales and sizes are of: `n` of them. */
static cleave_status read_axes(cleave_importer *im, int rank, int *n, int *axes) {
    int64_t list[2 * CLEAVE_MAX_RANK];
    CLEAVE_TRY(cleave_import_list(im, "axes", im->node->n_inputs, n, list));
    if (*n < 0) {
        *n = rank;
        for (int d = 0; d < rank; d++)
            axes[d] = d;
        return CLEAVE_OK;
    }
    if (*n > rank)
        return cleave_import_fail(im, "attribute axes has %d values for %d dimensions", *n, rank);
    for (int i = 0; i < *n; i++)
        CLEAVE_TRY(cleave_import_axis(im, list[i], rank, &axes[i]));
    return CLEAVE_OK;
}

/* A list that is there and not empty. */
static bool has_list(cleave_importer *im, int i) {
    const cleave_onnx_tensor *list = cleave_import_constant(im, i);
    return cleave_import_has_input(im, i) && (list == NULL || list->n > 0);
}

static cleave_status read_scales(cleave_importer *im, int i, int n, const int *axes, resizing *r) {
    const cleave_onnx_attribute *attribute = cleave_import_attribute(im, "scales");
    const cleave_onnx_tensor *list = cleave_import_constant(im, i);
    const float *scales = attribute != NULL ? attribute->numbers
                          : list != NULL    ? list->floats
                                            : NULL;
    int64_t length = attribute != NULL ? attribute->n : list != NULL ? list->n : -1;
    if (scales == NULL || length != n)
        return cleave_import_fail(im, "its scales have to be %d constant floats", n);
    for (int k = 0; k < n; k++) {
        cleave_resampling *along = &r->along[axes[k]];
        float out = floorf((float)along->in * scales[k]); /* as ONNX infers shapes */
        if (!(out >= 1 && out < (float)INT32_MAX))
            return cleave_import_fail(im, "a scale of %g for %lld positions is not supported",
                                      (double)scales[k], (long long)along->in);
        along->out = (int64_t)out;
        along->scale = (double)scales[k];
    }
    return CLEAVE_OK;
}

/* Sizes; or, where the proportions are kept, the largest or smallest scale that they give. */
static cleave_status read_sizes(cleave_importer *im, int i, int n, const int *axes, resizing *r) {
    static const word policies[] = {
        {"stretch", 0}, {"not_larger", 1}, {"not_smaller", 2}, {NULL, 0}};
    int64_t sizes[2 * CLEAVE_MAX_RANK];
    int length, policy = 0;
    double common = 0;
    CLEAVE_TRY(read_word(im, "keep_aspect_ratio_policy", "stretch", policies, &policy));
    CLEAVE_TRY(cleave_import_list(im, "sizes", i, &length, sizes));
    if (length != n)
        return cleave_import_fail(im, "it has %d sizes, %d are needed", length, n);
    for (int k = 0; k < n; k++) {
        cleave_resampling *along = &r->along[axes[k]];
        if (sizes[k] < 1 || sizes[k] > INT32_MAX)
            return cleave_import_fail(im, "a size of %lld is not supported", (long long)sizes[k]);
        along->out = sizes[k];
        along->scale = (double)sizes[k] / (double)along->in;
        bool better = policy == 1 ? along->scale < common : along->scale > common;
        common = k == 0 || better ? along->scale : common;
    }
    for (int k = 0; k < n && policy != 0; k++) {
        cleave_resampling *along = &r->along[axes[k]];
        along->scale = common;
        along->out = (int64_t)floor(common * (double)along->in + 0.5);
    }
    return CLEAVE_OK;
}

static cleave_status read_resizing(cleave_importer *im, resizing *r) {
    CLEAVE_TRY(read_how(im, &r->how));
    CLEAVE_TRY(cleave_import_tensor(im, 0, &r->input));
    cleave_tensor from = im->tensors.items[r->input].tensor;
    int n, axes[CLEAVE_MAX_RANK];
    r->rank = from.rank;
    for (int d = 0; d < r->rank; d++)
        r->along[d] = (cleave_resampling){from.shape[d], from.shape[d], 1};
    CLEAVE_TRY(read_axes(im, r->rank, &n, axes));
    bool early = im->graph.opset < 11;
    int scales = early ? 1 : 2;
    if (!early && has_list(im, 3))
        return read_sizes(im, 3, n, axes, r);
    return read_scales(im, scales, n, axes, r);
}

/* ---- what a dimension needs ------------------------------------------------------------------ */

/* With positions at nearest elements: begin + by x o, or o / times, or neither. */
static step nearest_step(const resizing *r, int d, cleave_view *slice) {
    const cleave_resampling *along = &r->along[d];
    int64_t first = cleave_interpolation_nearest(&r->how, along, 0);
    int64_t by = along->out > 1 ? cleave_interpolation_nearest(&r->how, along, 1) - first : 1;
    int64_t times = along->out % along->in == 0 ? along->out / along->in : 0;
    bool slices = by >= 1, repeats = times > 1;
    for (int64_t o = 0; o < along->out && (slices || repeats); o++) {
        int64_t at = cleave_interpolation_nearest(&r->how, along, o);
        slices = slices && at == first + by * o;
        repeats = repeats && at == o / times;
    }
    if (repeats)
        return STEP_REPEAT;
    if (!slices)
        return STEP_MATRIX;
    slice->begin[d] = first;
    slice->step[d] = by;
    return first == 0 && by == 1 && along->out == along->in ? STEP_NONE : STEP_SLICE;
}

/* Chooses the steps, and does the slices. */
static cleave_status plan(cleave_importer *im, resizing *r) {
    cleave_view slice = {.kind = CLEAVE_VIEW_SLICE, .n_sources = 1, .sources = &r->input};
    cleave_tensor from = im->tensors.items[r->input].tensor;
    bool slices = false, first_is_last = true;
    r->last_matrix = -1;
    for (int d = 0; d < r->rank; d++) {
        cleave_resampling *along = &r->along[d];
        bool same = along->out == along->in && along->scale >= 1 && along->scale <= 1;
        slice.step[d] = 1;
        r->step[d] = same                                        ? STEP_NONE
                     : r->how.mode == CLEAVE_INTERPOLATE_NEAREST ? nearest_step(r, d, &slice)
                                                                 : STEP_MATRIX;
        if (im->graph.opset < 11 && r->step[d] == STEP_MATRIX &&
            r->how.mode == CLEAVE_INTERPOLATE_NEAREST && along->out < along->in)
            return cleave_import_fail(im,
                                      "before operator set 11 it is not defined which of %lld "
                                      "elements the nearest %lld are",
                                      (long long)along->in, (long long)along->out);
        if (r->step[d] == STEP_SLICE) {
            slices = true;
            from.shape[d] = along->out;
        }
        if (r->step[d] == STEP_MATRIX) {
            r->last_matrix = d;
            if (along->in > MOST_WEIGHTS / along->out)
                return cleave_import_fail(im,
                                          "%lld x %lld weights of dimension %d, at most %d are "
                                          "supported",
                                          (long long)along->out, (long long)along->in, d,
                                          MOST_WEIGHTS);
        }
        r->repeats = r->repeats || r->step[d] == STEP_REPEAT;
        first_is_last = first_is_last && r->step[d] <= STEP_SLICE;
    }
    if (!slices)
        return CLEAVE_OK;
    const char *name = first_is_last
                           ? im->node->outputs[0]
                           : cleave_arena_printf(im->arena, "%s.sliced", im->node->outputs[0]);
    if (name == NULL)
        return cleave_import_no_memory(im);
    return cleave_import_new_view(im, name, slice, r->rank, from.shape, &r->input);
}

/* ---- nests ----------------------------------------------------------------------------------- */

/* Axes are the positions of the output; of what is repeated, those of the input. */
static cleave_status open_resize(cleave_importer *im, resizing *r) {
    CLEAVE_TRY(cleave_import_new_operator(im, true, &r->op));
    for (int d = 0; d < r->rank; d++)
        if (cleave_import_add_axis(im, r->op, im->tensors.items[r->input].axes[d],
                                   r->step[d] == STEP_REPEAT ? r->along[d].in : r->along[d].out,
                                   false) < 0)
            return cleave_import_no_memory(im);
    return CLEAVE_OK;
}

/* What a nest writes: the node's output if it is the last one. */
static cleave_status new_result(cleave_importer *im, const resizing *r, const int64_t *shape,
                                bool last, int d, int32_t *tensor) {
    const char *suffix = last ? "" : cleave_arena_printf(im->arena, ".along%d", d);
    if (suffix == NULL)
        return cleave_import_no_memory(im);
    return cleave_import_new_tensor(im,
                                    (cleave_new_tensor){last ? im->node->outputs[0] : NULL, r->op,
                                                        suffix, r->rank, shape, r->input},
                                    tensor);
}

static cleave_status add_weights(cleave_importer *im, const resizing *r, int d, int32_t *tensor) {
    const cleave_resampling *along = &r->along[d];
    CLEAVE_TRY(cleave_import_spend(im, along->out, along->in));
    float *weights = CLEAVE_ARENA_ARRAY(im->arena, float, along->out * along->in);
    const char *suffix = cleave_arena_printf(im->arena, ".weights%d", d);
    if (weights == NULL || suffix == NULL)
        return cleave_import_no_memory(im);
    for (int64_t o = 0; o < along->out; o++)
        cleave_interpolation_weights(&r->how, along, o, weights + o * along->in);
    int64_t shape[] = {along->out, along->in};
    return cleave_import_constant_tensor(im, (cleave_new_tensor){NULL, r->op, suffix, 2, shape, -1},
                                         weights, tensor);
}

/* y[.., o, ..] = sum over i of x[.., i, ..] weights[o, i] */
static cleave_status add_matrix(cleave_importer *im, resizing *r, int d) {
    cleave_tensor from = im->tensors.items[r->input].tensor;
    int64_t extent = from.shape[d];
    bool last = d == r->last_matrix && !r->repeats;
    int32_t weights, output, id;
    cleave_nest nest = {.kind = CLEAVE_NEST_PRODUCT, .op = r->op, .combiner = CLEAVE_COMBINE_SUM};
    from.shape[d] = r->along[d].out;
    CLEAVE_TRY(add_weights(im, r, d, &weights));
    CLEAVE_TRY(new_result(im, r, from.shape, last, d, &output));
    const cleave_draft_operator *op = &im->operators.items[r->op];
    for (int e = 0; e < r->rank; e++) {
        /* A dimension that is still to be resized is not cut yet. */
        bool has = from.shape[e] == op->axes[e].extent && (e <= d || r->step[e] != STEP_MATRIX);
        cleave_nest_add_axis(&nest, op->axes[e].name, from.shape[e], !has, has ? e : -1);
    }
    int summed = cleave_nest_add_axis(&nest, "i", extent, true, -1);
    cleave_nest_add_whole_input(&nest, r->input, r->rank);
    cleave_map_axis(&nest.inputs[0], d, summed);
    int w = cleave_nest_add_input(&nest, weights);
    cleave_map_axis(&nest.inputs[w], 0, d);
    cleave_map_axis(&nest.inputs[w], 1, summed);
    nest.output = cleave_whole_operand(output, r->rank);
    cleave_nest_emit(&nest, CLEAVE_OP_MUL, 0, w, 0, 0);
    const char *suffix = last ? "" : cleave_arena_printf(im->arena, ".along%d", d);
    if (suffix == NULL)
        return cleave_import_no_memory(im);
    r->input = output;
    CLEAVE_TRY(cleave_import_add_nest(im, &nest, suffix, &id));
    im->operators.items[r->op].main_nest = id;
    return CLEAVE_OK;
}

/* y[.., s h + p, ..] = x[.., h, ..] */
static cleave_status add_repetition(cleave_importer *im, resizing *r) {
    int64_t shape[CLEAVE_MAX_RANK];
    int32_t output;
    for (int d = 0; d < r->rank; d++)
        shape[d] = r->along[d].out;
    CLEAVE_TRY(new_result(im, r, shape, true, 0, &output));
    cleave_nest nest = {.kind = CLEAVE_NEST_POINTWISE, .op = r->op};
    cleave_nest_take_axes(&nest, &im->operators.items[r->op]);
    cleave_nest_add_whole_input(&nest, r->input, r->rank);
    nest.output = cleave_whole_operand(output, r->rank);
    for (int d = 0; d < r->rank; d++) {
        if (r->step[d] != STEP_REPEAT)
            continue;
        int64_t times = r->along[d].out / r->along[d].in;
        const char *name = cleave_arena_printf(im->arena, "%s_repeat", nest.axes[d].name);
        if (name == NULL || nest.n_axes == CLEAVE_MAX_AXES)
            return cleave_import_no_memory(im);
        cleave_map_offset(&nest.output, d, 0);
        cleave_map_term(&nest.output, d, d, times);
        cleave_map_term(&nest.output, d, cleave_nest_add_axis(&nest, name, times, true, -1), 1);
    }
    cleave_nest_emit(&nest, CLEAVE_OP_COPY, 0, 0, 0, 0);
    r->input = output;
    return cleave_import_add_nest(im, &nest, "", &im->operators.items[r->op].main_nest);
}

cleave_status cleave_import_resize(cleave_importer *im) {
    resizing r = {0};
    bool shared = cleave_import_is_shared(im, 0);
    CLEAVE_TRY(read_resizing(im, &r));
    CLEAVE_TRY(plan(im, &r));
    if (r.last_matrix >= 0 || r.repeats) {
        shared = false;
        CLEAVE_TRY(open_resize(im, &r));
        for (int d = 0; d < r.rank; d++)
            if (r.step[d] == STEP_MATRIX)
                CLEAVE_TRY(add_matrix(im, &r, d));
        if (r.repeats)
            CLEAVE_TRY(add_repetition(im, &r));
        im->operators.items[r.op].output = r.input;
    }
    cleave_import_set_output(im, 0, r.input, shared);
    return CLEAVE_OK;
}
