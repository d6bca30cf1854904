/* Where the axes of an operator lie in its tensors as a framework shows them. */
#include "graph/export/frame.h"

#include "base/list.h"

#include <string.h>

/* ---- through views ---- */

/* The dimension of one shape that begins where dimension d of another does, both of the same
   elements in row-major order, and is cut into `parts` blocks of the same elements. */
static int regroup(const int64_t *shape, int d, int other_rank, const int64_t *other,
                   int32_t parts) {
    int64_t before = 1, met = 1;
    for (int i = 0; i < d; i++)
        before *= shape[i];
    for (int i = 0; i < other_rank; i++) {
        if (met == before && other[i] == shape[d])
            return i;
        if (met == before && other[i] > 1)
            return other[i] % parts == 0 && shape[d] % parts == 0 ? i : CLEAVE_FRAME_STRIDED;
        met *= other[i];
    }
    return CLEAVE_FRAME_STRIDED;
}

static int locate_in_source(const cleave_model *model, const cleave_tensor *tensor, int d,
                            int32_t parts) {
    const cleave_view *view = &tensor->view;
    const cleave_tensor *source = &model->tensors[view->sources[0]];
    if (view->kind == CLEAVE_VIEW_RESHAPE)
        return regroup(tensor->shape, d, source->rank, source->shape, parts);
    if (view->kind == CLEAVE_VIEW_TRANSPOSE)
        return view->permutation[d];
    return tensor->shape[d] == source->shape[d] ? d : CLEAVE_FRAME_STRIDED;
}

int cleave_frame_locate(const cleave_model *model, int32_t tensor, int dimension, int32_t parts,
                        int32_t base) {
    const cleave_tensor *at = &model->tensors[tensor];
    if (at->view.kind == CLEAVE_VIEW_NONE) {
        bool refined = at->file_rank > 0 && dimension >= 0;
        return tensor != base ? CLEAVE_FRAME_APART
               : refined      ? regroup(at->shape, dimension, at->file_rank, at->file_shape, parts)
                              : dimension;
    }
    int d = dimension >= 0 ? locate_in_source(model, at, dimension, parts) : dimension;
    for (int32_t i = 0; i < at->view.n_sources; i++) {
        int found = cleave_frame_locate(model, at->view.sources[i], d, parts, base);
        if (found != CLEAVE_FRAME_APART)
            return found;
    }
    return CLEAVE_FRAME_APART;
}

/* ---- operands ---- */

/* The axis of the operator that axis i of a nest is; -1: none. */
static int operator_axis_of(const cleave_model *model, const cleave_nest *nest, int i) {
    while (nest->derivation == CLEAVE_DERIVE_OWNERS) {
        const cleave_nest *owner = &model->nests[nest->owners_of];
        const cleave_dimension_map *map = &owner->output.map[i];
        if (i >= model->tensors[owner->output.tensor].rank || map->n_terms != 1)
            return -1;
        i = map->terms[0].axis;
        nest = owner;
    }
    return nest->operator_axis[i];
}

static bool has_axis(const cleave_model *model, const cleave_nest *nest,
                     const cleave_dimension_map *map, int axis) {
    for (int t = 0; t < map->n_terms; t++)
        if (operator_axis_of(model, nest, map->terms[t].axis) == axis)
            return true;
    return false;
}

int cleave_frame_dimension(const cleave_model *model, const cleave_nest *nest,
                           const cleave_operand *operand, int axis) {
    const cleave_tensor *tensor = &model->tensors[operand->tensor];
    for (int d = 0; d < tensor->rank; d++) {
        const cleave_dimension_map *map = &operand->map[d];
        if (!has_axis(model, nest, map, axis))
            continue;
        bool plain = map->n_terms == 1 && map->terms[0].stride == 1 && map->offset == 0 &&
                     nest->axes[map->terms[0].axis].extent == tensor->shape[d];
        return plain ? d : CLEAVE_FRAME_STRIDED;
    }
    return CLEAVE_FRAME_APART;
}

static bool is_parameter(const cleave_model *model, int32_t tensor) {
    return model->tensors[cleave_tensor_base(model, tensor)].kind == CLEAVE_TENSOR_PARAMETER;
}

/* The first input of a nest that is a parameter, or is none; -1: there is no such. */
static int find_input(const cleave_model *model, const cleave_nest *nest, bool parameter) {
    for (int i = 0; i < nest->n_inputs; i++)
        if (is_parameter(model, nest->inputs[i].tensor) == parameter)
            return i;
    return -1;
}

/* Do parts of the operator that differ in this axis give partial sums of its output? */
static bool adds_up(const cleave_model *model, const cleave_operator *op, int axis) {
    const cleave_nest *main = &model->nests[op->main_nest];
    bool sums = main->combiner == CLEAVE_COMBINE_SUM &&
                (main->kind == CLEAVE_NEST_PRODUCT || main->kind == CLEAVE_NEST_CONVOLUTION ||
                 main->kind == CLEAVE_NEST_GATHER);
    return sums && cleave_frame_dimension(model, main, &main->output, axis) == CLEAVE_FRAME_APART;
}

/* ---- the frame of an operator ---- */

static bool is_linear(const cleave_model *model, const cleave_nest *main) {
    return main->kind == CLEAVE_NEST_PRODUCT && main->n_inputs == 2 &&
           find_input(model, main, true) >= 0 && find_input(model, main, false) >= 0;
}

static void add_row(cleave_frame *frame, int8_t axis, int64_t extent, int8_t dimension) {
    frame->input[axis] = frame->output[axis] = dimension;
    frame->input_shape[dimension] = frame->output_shape[dimension] = extent;
}

/* A linear module's input is rows x what is summed, its output rows x columns: the rows a dimension
   each, summed axes and columns all of theirs one, however the nest tells them apart. */
static void frame_linear(const cleave_model *model, const cleave_operator *op,
                         cleave_frame *frame) {
    const cleave_nest *main = &model->nests[op->main_nest];
    const cleave_operand *x = &main->inputs[find_input(model, main, false)];
    const cleave_operand *w = &main->inputs[find_input(model, main, true)];
    int8_t n_rows = 0, summed[CLEAVE_MAX_AXES], columns[CLEAVE_MAX_AXES];
    int n_summed = 0, n_columns = 0;
    for (int8_t a = 0; a < op->n_axes; a++) {
        bool in_x = cleave_frame_dimension(model, main, x, a) != CLEAVE_FRAME_APART;
        bool in_w = cleave_frame_dimension(model, main, w, a) != CLEAVE_FRAME_APART;
        bool in_y = cleave_frame_dimension(model, main, &main->output, a) != CLEAVE_FRAME_APART;
        if (in_x && in_w && in_y)
            frame->cannot[a] = "every sample has weights of its own";
        else if (in_x && in_y)
            add_row(frame, a, op->axes[a].extent, n_rows++);
        else if (in_w && in_y)
            columns[n_columns++] = a;
        else if (in_w && in_x)
            summed[n_summed++] = a;
    }
    frame->rank = frame->input_rank = (int8_t)(n_rows + 1);
    frame->input_shape[n_rows] = frame->output_shape[n_rows] = 1;
    for (int i = 0; i < n_summed; i++) {
        frame->input[summed[i]] = i == 0 ? n_rows : CLEAVE_FRAME_STRIDED;
        frame->even[summed[i]] = n_summed > 1;
        frame->input_shape[n_rows] *= op->axes[summed[i]].extent;
    }
    for (int i = 0; i < n_columns; i++) {
        frame->output[columns[i]] = i == 0 ? n_rows : CLEAVE_FRAME_STRIDED;
        frame->even[columns[i]] = n_columns > 1;
        frame->output_shape[n_rows] *= op->axes[columns[i]].extent;
    }
}

/* An attention's operands are samples x heads x rows x width. */
static void frame_attention(const cleave_operator *op, cleave_frame *frame) {
    for (int8_t a = 0; a < op->n_axes; a++) {
        bool sample = strcmp(op->axes[a].name, "n") == 0, head = strcmp(op->axes[a].name, "h") == 0;
        frame->input[a] = frame->output[a] = sample ? 0 : head ? 1 : CLEAVE_FRAME_APART;
        if (!sample && !head)
            frame->cannot[a] = "attention is cut by samples and heads alone";
        frame->even[a] = head;
    }
}

/* Logits are samples x classes, and where there is more between, it is flattened before the loss.
 */
static void frame_loss(const cleave_operator *op, cleave_frame *frame) {
    for (int8_t a = 0; a < op->n_axes; a++) {
        frame->input[a] = a;
        if (a > 0 && a + 1 < op->n_axes)
            frame->cannot[a] = "rows of logits are flattened before the loss";
    }
}

static int8_t put_shape(const cleave_model *model, int32_t tensor, int64_t *shape) {
    memcpy(shape, model->tensors[tensor].shape, sizeof model->tensors[tensor].shape);
    return (int8_t)model->tensors[tensor].rank;
}

static void frame_any(const cleave_model *model, const cleave_operator *op, cleave_frame *frame) {
    const cleave_nest *main = &model->nests[op->main_nest];
    int x = find_input(model, main, false);
    bool flat =
        strcmp(op->type, "Dropout") == 0; /* behind a flatten, of which the nest knows nothing */
    if (!flat && x >= 0)
        frame->input_rank = put_shape(model, main->inputs[x].tensor, frame->input_shape);
    if (!flat)
        frame->rank = put_shape(model, main->output.tensor, frame->output_shape);
    bool grouped = false;
    for (int a = 0; a < op->n_axes; a++)
        grouped = grouped ||
                  (main->kind == CLEAVE_NEST_CONVOLUTION && strcmp(op->axes[a].name, "g") == 0);
    for (int a = 0; a < op->n_axes; a++) {
        int in =
            x >= 0 ? cleave_frame_dimension(model, main, &main->inputs[x], a) : CLEAVE_FRAME_APART;
        int out = cleave_frame_dimension(model, main, &main->output, a);
        bool beyond = flat && op->n_axes > 3 && a > 1;
        frame->input[a] = (int8_t)(beyond ? CLEAVE_FRAME_STRIDED : in);
        frame->output[a] = (int8_t)(beyond ? CLEAVE_FRAME_STRIDED : out);
        frame->even[a] = flat && op->n_axes > 3 && a == 1;
        if (grouped && in != 0)
            frame->cannot[a] = "the module knows its groups";
    }
}

/* What else combines over an axis than the main nest, whose parts add up: moments, maxima. */
static void find_combined(const cleave_model *model, const cleave_operator *op,
                          cleave_frame *frame) {
    bool is_batch_norm = strcmp(op->type, "BatchNormalization") == 0;
    for (int a = 0; a < op->n_axes; a++)
        for (int32_t k = 0; k < op->n_nests && frame->cannot[a] == NULL && !is_batch_norm; k++) {
            const cleave_nest *nest = &model->nests[op->nests[k]];
            bool sums = op->nests[k] == op->main_nest && frame->sums[a];
            bool there = false;
            for (int i = 0; i < nest->n_axes; i++)
                there = there || operator_axis_of(model, nest, i) == a;
            if (there && !sums && nest->combiner != CLEAVE_COMBINE_NONE &&
                cleave_frame_dimension(model, nest, &nest->output, a) == CLEAVE_FRAME_APART)
                frame->cannot[a] = "the module looks at all of it at once";
        }
}

static void find_strided(const cleave_operator *op, cleave_frame *frame) {
    for (int a = 0; a < op->n_axes; a++)
        if (frame->cannot[a] == NULL &&
            (frame->input[a] == CLEAVE_FRAME_STRIDED || frame->output[a] == CLEAVE_FRAME_STRIDED))
            frame->cannot[a] = "its blocks are no blocks of a dimension that the module sees, or "
                               "need a halo";
}

/* ---- parameters ---- */

typedef CLEAVE_LIST(cleave_frame_parameter) parameter_list;

static void add_dimensions(const cleave_model *model, const cleave_nest *nest,
                           const cleave_operand *operand, int n_axes,
                           cleave_frame_parameter *parameter) {
    for (int a = 0; a < n_axes; a++) {
        int d = cleave_frame_dimension(model, nest, operand, a);
        if (d >= 0)
            d = cleave_frame_locate(model, operand->tensor, d, 1, parameter->tensor);
        if (d != CLEAVE_FRAME_APART)
            parameter->dimension[a] = (int8_t)d;
    }
}

static bool add_parameter(const cleave_model *model, const cleave_operator *op,
                          const cleave_nest *nest, const cleave_operand *operand,
                          parameter_list *list) {
    int32_t base = cleave_tensor_base(model, operand->tensor), at = 0;
    if (model->tensors[base].kind != CLEAVE_TENSOR_PARAMETER)
        return true;
    while (at < list->n && list->items[at].tensor != base)
        at++;
    if (at == list->n) {
        cleave_frame_parameter fresh = {.tensor = base};
        memset(fresh.dimension, CLEAVE_FRAME_APART, sizeof fresh.dimension);
        if (!CLEAVE_LIST_PUSH(list, fresh))
            return false;
    }
    cleave_frame_parameter *parameter = &list->items[at];
    parameter->of_main = parameter->of_main || nest == &model->nests[op->main_nest];
    add_dimensions(model, nest, operand, op->n_axes, parameter);
    return true;
}

static cleave_status find_parameters(const cleave_model *model, const cleave_operator *op,
                                     cleave_arena *arena, cleave_frame *frame,
                                     cleave_error *error) {
    parameter_list list = {0};
    bool fits = true;
    for (int32_t k = 0; k < op->n_nests; k++) {
        const cleave_nest *nest = &model->nests[op->nests[k]];
        for (int i = 0; i < nest->n_inputs && fits; i++)
            fits = add_parameter(model, op, nest, &nest->inputs[i], &list);
    }
    frame->n_parameters = list.n;
    frame->parameters = CLEAVE_ARENA_ARRAY(arena, cleave_frame_parameter, list.n);
    fits = fits && frame->parameters != NULL;
    if (fits && list.n > 0)
        memcpy(frame->parameters, list.items, (size_t)list.n * sizeof *list.items);
    CLEAVE_LIST_FREE(&list);
    return fits ? CLEAVE_OK : cleave_fail_memory(error, "exporting a layout");
}

cleave_status cleave_frame_find(const cleave_model *model, int32_t id, cleave_arena *arena,
                                cleave_frame *frame, cleave_error *error) {
    const cleave_operator *op = &model->operators[id];
    cleave_frame found = {.n_parameters = 0};
    memset(found.input, CLEAVE_FRAME_APART, sizeof found.input);
    memset(found.output, CLEAVE_FRAME_APART, sizeof found.output);
    for (int a = 0; a < op->n_axes; a++)
        found.sums[a] = adds_up(model, op, a);
    if (strcmp(op->type, "Attention") == 0) {
        frame_attention(op, &found);
    } else if (strcmp(op->name, "@loss") == 0) {
        frame_loss(op, &found);
    } else {
        /* A transposed convolution whose windows do not overlap is a product, but no such module.
         */
        bool linear = is_linear(model, &model->nests[op->main_nest]) &&
                      strcmp(op->type, "ConvTranspose") != 0;
        (linear ? frame_linear : frame_any)(model, op, &found);
        find_combined(model, op, &found);
        find_strided(op, &found);
    }
    CLEAVE_TRY(find_parameters(model, op, arena, &found, error));
    *frame = found;
    return CLEAVE_OK;
}
