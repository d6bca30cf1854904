#include "graph/program/eager.h"

#include "graph/model/precision.h"
#include "graph/program/one_kernel.h"

#include <string.h>

/* Operators that are spelled out. */
static const struct {
    const char *type;
    bool exact; /* in f32 in between */
} spelled_out[] = {{"RMSNormalization", true}, {"RotaryEmbedding", false}};

static int find_spelled_out(const cleave_model *model, const cleave_nest *nest) {
    int n = (int)(sizeof spelled_out / sizeof *spelled_out);
    for (int i = 0; i < n; i++)
        if (strcmp(model->operators[nest->op].type, spelled_out[i].type) == 0)
            return i;
    return -1;
}

static double size_of(const cleave_model *model, const cleave_operand *operand,
                      const cleave_part *part) {
    cleave_box box;
    cleave_part_box(model, part, operand, &box);
    return (double)cleave_box_size(model->tensors[operand->tensor].rank, &box);
}

static void add_kernel(cleave_framework_kernels *of, double bytes) {
    of->n++;
    of->bytes += bytes;
}

/* Is this the first of its operator's nests that reads a tensor of short numbers? */
static bool converts(const cleave_model *model, const cleave_nest *nest, int32_t tensor) {
    const cleave_operator *op = &model->operators[nest->op];
    if (!cleave_type_is_short(model->tensors[tensor].stored) ||
        cleave_tensor_sees_parameter(model, tensor))
        return false;
    for (int32_t i = 0; i < op->n_nests && &model->nests[op->nests[i]] != nest; i++)
        for (int k = 0; k < model->nests[op->nests[i]].n_inputs; k++)
            if (model->nests[op->nests[i]].inputs[k].tensor == tensor)
                return false;
    return true;
}

/* Forward; a register that is read twice by one function is read once. */
static cleave_framework_kernels spell_out(const cleave_model *model, const cleave_nest *nest,
                                          const cleave_part *part, bool exact) {
    double size[CLEAVE_MAX_INPUTS + CLEAVE_MAX_TAPE] = {0}, written = 0;
    cleave_type stored = model->tensors[nest->output.tensor].stored;
    double number = (double)cleave_type_bytes(exact ? CLEAVE_F32 : stored);
    cleave_framework_kernels made = {0};
    for (int k = 0; k < nest->n_inputs; k++) {
        size[k] = size_of(model, &nest->inputs[k], part);
        if (exact && converts(model, nest, nest->inputs[k].tensor))
            add_kernel(&made, size[k] * (number + (double)cleave_stored_bytes(
                                                      &model->tensors[nest->inputs[k].tensor])));
    }
    for (int i = 0; i < nest->n_instructions; i++) {
        const cleave_instruction *it = &nest->tape[i];
        int operands = cleave_opcode_operands(it->opcode);
        double a = operands >= 1 ? size[it->a] : 0;
        double b = operands >= 2 && it->b != it->a ? size[it->b] : 0;
        written = a > b ? a : b;
        size[nest->n_inputs + i] = written;
        add_kernel(&made, (a + b + written) * number);
    }
    double result = size_of(model, &nest->output, part);
    if (nest->combiner != CLEAVE_COMBINE_NONE)
        add_kernel(&made, (written + result) * number);
    else if (exact && cleave_type_is_short(stored))
        add_kernel(&made, result * (number + (double)cleave_type_bytes(stored)));
    return made;
}

bool cleave_kernels_spelled_out(const cleave_model *model, const cleave_nest *nest,
                                cleave_pass pass, const cleave_part *part,
                                cleave_framework_kernels *made) {
    int found = pass == CLEAVE_PASS_WEIGHT_GRADIENT ? -1 : find_spelled_out(model, nest);
    if (found < 0)
        return false;
    *made = spell_out(model, nest, part, spelled_out[found].exact);
    int times = pass == CLEAVE_PASS_FORWARD ? 1 : 2;
    made->n *= times;
    made->bytes *= times;
    return true;
}

cleave_additions cleave_additions_of(const cleave_model *model, const cleave_nest *nest,
                                     cleave_pass pass, const cleave_part *part, int input) {
    cleave_kernel_share compiled = cleave_kernel_share_of(model, nest, pass, part, false),
                        eager = cleave_kernel_share_of(model, nest, pass, part, true);
    return (cleave_additions){(compiled.gradients >> input & 1) != 0,
                              (eager.gradients >> input & 1) != 0 ||
                                  find_spelled_out(model, nest) >= 0};
}
