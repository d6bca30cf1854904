/* Nests as JSON: axes with their local extents, operands with shapes and maps, the tape by names of
   its functions. */
#include "cli/calibrate/nests.h"

#include "graph/model/attention.h"
#include "graph/model/precision.h"
#include "graph/program/operator_work.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const combiner_names[] = {"none", "sum", "max", "moments", "statistics"};

/* "4h+r": what the index moves with; "" where it is fixed. */
static void put_index(cleave_json_writer *w, const cleave_nest *nest,
                      const cleave_dimension_map *map) {
    char text[128];
    size_t n = 0;
    text[0] = '\0';
    for (int i = 0; i < map->n_terms && n < sizeof text; i++) {
        const char *plus = i > 0 ? "+" : "", *axis = nest->axes[map->terms[i].axis].name;
        n += (size_t)(map->terms[i].stride == 1
                          ? snprintf(text + n, sizeof text - n, "%s%s", plus, axis)
                          : snprintf(text + n, sizeof text - n, "%s%" PRId64 "%s", plus,
                                     map->terms[i].stride, axis));
    }
    cleave_json_put_string(w, text);
}

/* Extents of what is read, and how far windows stick out at either end. */
static void put_boxes(cleave_json_writer *w, const cleave_model *model,
                      const cleave_operand *operand, const cleave_part *part) {
    const cleave_tensor *tensor = &model->tensors[operand->tensor];
    cleave_box raw, box;
    bool sticks_out = false;
    cleave_part_raw_box(part, operand, tensor->rank, &raw);
    cleave_part_box(model, part, operand, &box);
    cleave_json_open_array(w, "shape", true);
    for (int d = 0; d < tensor->rank; d++) {
        cleave_json_put_integer(w, box.hi[d] - box.lo[d]);
        sticks_out = sticks_out || box.lo[d] > raw.lo[d] || raw.hi[d] > box.hi[d];
    }
    cleave_json_end_array(w);
    if (!sticks_out)
        return;
    cleave_json_open_array(w, "outside", true);
    for (int d = 0; d < tensor->rank; d++) {
        cleave_json_begin_array(w, true);
        cleave_json_put_integer(w, box.lo[d] - raw.lo[d]);
        cleave_json_put_integer(w, raw.hi[d] - box.hi[d]);
        cleave_json_end_array(w);
    }
    cleave_json_end_array(w);
}

static void put_operand(cleave_json_writer *w, const cleave_model *model, const cleave_nest *nest,
                        const cleave_operand *operand, const cleave_part *part) {
    const cleave_tensor *tensor = &model->tensors[operand->tensor];
    cleave_json_begin_object(w, true);
    cleave_json_set_integer(w, "tensor", operand->tensor);
    cleave_json_set_string(w, "dtype", cleave_precision_name(tensor->stored));
    cleave_json_set_truth(w, "parameter", cleave_tensor_sees_parameter(model, operand->tensor));
    put_boxes(w, model, operand, part);
    cleave_json_open_array(w, "index", true);
    for (int d = 0; d < tensor->rank; d++)
        put_index(w, nest, &operand->map[d]);
    cleave_json_end_array(w);
    cleave_json_open_array(w, "order", true);
    for (int d = 0; d < tensor->rank; d++)
        cleave_json_put_integer(w, tensor->order[d]);
    cleave_json_end_array(w);
    cleave_json_end_object(w);
}

static void put_tape(cleave_json_writer *w, const cleave_nest *nest) {
    cleave_json_open_array(w, "tape", true);
    for (int i = 0; i < nest->n_instructions; i++) {
        const cleave_instruction *it = &nest->tape[i];
        cleave_json_begin_array(w, true);
        cleave_json_put_string(w, cleave_opcode_name(it->opcode));
        cleave_json_put_integer(w, it->a);
        cleave_json_put_integer(w, it->b);
        cleave_json_put_number(w, it->p);
        cleave_json_put_number(w, it->q);
        cleave_json_end_array(w);
    }
    cleave_json_end_array(w);
}

/* Inputs that have a gradient, of either pass. */
static void put_gradients(cleave_json_writer *w, const cleave_model *model,
                          const cleave_nest *nest) {
    uint32_t bits = cleave_nest_pass_inputs(model, nest, CLEAVE_PASS_INPUT_GRADIENT) |
                    cleave_nest_pass_inputs(model, nest, CLEAVE_PASS_WEIGHT_GRADIENT);
    cleave_json_open_array(w, "gradients", true);
    for (int i = 0; i < nest->n_inputs; i++)
        if ((bits >> i & 1) != 0)
            cleave_json_put_integer(w, i);
    cleave_json_end_array(w);
}

static void put_attention(cleave_json_writer *w, const cleave_nest *nest, const cleave_part *part) {
    const cleave_attention *of = nest->attention;
    const struct {
        const char *key;
        int axis;
    } axes[] = {{"rows", of->rows},
                {"keys", of->keys},
                {"width", of->width},
                {"value_width", of->value_width}};
    cleave_json_open_object(w, "attention", true);
    for (int i = 0; i < 4; i++)
        cleave_json_set_string(w, axes[i].key, nest->axes[axes[i].axis].name);
    cleave_json_set_number(w, "seen", cleave_attention_seen_share(of, part->lo, part->hi));
    cleave_json_end_object(w);
}

/* Axes of which others have the rest: what is one call of the whole may have to meet theirs. */
static void put_cut(cleave_json_writer *w, const cleave_nest *nest, const cleave_part *part) {
    cleave_json_open_array(w, "cut", true);
    for (int a = 0; a < nest->n_axes; a++)
        if (cleave_part_extent(part, a) < nest->axes[a].extent)
            cleave_json_put_string(w, nest->axes[a].name);
    cleave_json_end_array(w);
}

static void put_nest(cleave_json_writer *w, const cleave_model *model, const cleave_nest *nest,
                     const cleave_part *part) {
    cleave_json_begin_object(w, false);
    cleave_json_set_string(w, "kind", cleave_nest_kind_names[nest->kind]);
    cleave_json_open_object(w, "axes", true);
    for (int a = 0; a < nest->n_axes; a++)
        cleave_json_set_integer(w, nest->axes[a].name, cleave_part_extent(part, a));
    cleave_json_end_object(w);
    put_cut(w, nest, part);
    cleave_json_open_array(w, "inputs", false);
    for (int i = 0; i < nest->n_inputs; i++)
        put_operand(w, model, nest, &nest->inputs[i], part);
    cleave_json_end_array(w);
    cleave_json_key(w, "output");
    put_operand(w, model, nest, &nest->output, part);
    cleave_json_set_string(w, "combiner", combiner_names[nest->combiner]);
    put_tape(w, nest);
    put_gradients(w, model, nest);
    if (nest->attention != NULL)
        put_attention(w, nest, part);
    cleave_json_end_object(w);
}

void calibrate_put_nests(cleave_json_writer *w, const cleave_model *model, const cleave_nest *lead,
                         const cleave_part *part) {
    const cleave_operator *op = &model->operators[lead->op];
    cleave_json_key(w, "lead");
    for (int32_t i = 0; i < op->n_nests; i++)
        if (&model->nests[op->nests[i]] == lead)
            cleave_json_put_integer(w, i);
    cleave_json_open_array(w, "nests", false);
    for (int32_t i = 0; i < op->n_nests; i++) {
        const cleave_nest *nest = &model->nests[op->nests[i]];
        cleave_part own = cleave_operator_part(model, lead, part, nest);
        put_nest(w, model, nest, &own);
    }
    cleave_json_end_array(w);
}
