#include "graph/program/eager.h"

#include "graph/model/precision.h"
#include "graph/program/one_kernel.h"

#include <string.h>

/* Operators that are spelled out. */
static const struct {
    const char *type;
    bool exact; /* in f32 in between */
} spelled_out[] = {{"RMSNormalization", true}, {"RotaryEmbedding", false}};

/* x, and x with its halves exchanged, each times a table, and added: rotary positions, which may be
   behind the product that makes x. */
static bool turns_halves(const cleave_model *model, const cleave_nest *nest) {
    return nest->kind == CLEAVE_NEST_POINTWISE && nest->n_inputs >= 4 &&
           nest->n_instructions >= 3 && nest->inputs[0].tensor != nest->inputs[1].tensor &&
           cleave_tensor_base(model, nest->inputs[0].tensor) ==
               cleave_tensor_base(model, nest->inputs[1].tensor) &&
           nest->tape[0].opcode == CLEAVE_OP_MUL && nest->tape[1].opcode == CLEAVE_OP_MUL &&
           nest->tape[nest->n_instructions - 1].opcode == CLEAVE_OP_ADD;
}

bool cleave_nest_turns(const cleave_model *model, const cleave_nest *nest) {
    return strcmp(model->operators[nest->op].type, "RotaryEmbedding") == 0 ||
           turns_halves(model, nest);
}

static int find_spelled_out(const cleave_model *model, const cleave_nest *nest) {
    const char *type =
        cleave_nest_turns(model, nest) ? "RotaryEmbedding" : model->operators[nest->op].type;
    int n = (int)(sizeof spelled_out / sizeof *spelled_out);
    for (int i = 0; i < n; i++)
        if (strcmp(type, spelled_out[i].type) == 0)
            return i;
    return -1;
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
        size[k] = (double)cleave_part_size(model, part, &nest->inputs[k]);
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
    double result = (double)cleave_part_size(model, part, &nest->output);
    if (turns_halves(model, nest)) { /* a half changes its sign, and both are put together */
        add_kernel(&made, result * number);
        add_kernel(&made, 2 * result * number);
    }
    if (nest->combiner != CLEAVE_COMBINE_NONE)
        add_kernel(&made, (written + result) * number);
    else if (exact && cleave_type_is_short(stored))
        add_kernel(&made, result * (number + (double)cleave_type_bytes(stored)));
    return made;
}

/* As complex numbers: they are converted before, multiplied, and converted after; back likewise,
   since the table has no gradient. */
static cleave_framework_kernels turn_complex(const cleave_model *model, const cleave_nest *nest,
                                             const cleave_part *part) {
    double size = (double)cleave_part_size(model, part, &nest->output);
    double exact = (double)cleave_type_bytes(CLEAVE_F32);
    cleave_type stored = model->tensors[nest->output.tensor].stored;
    cleave_framework_kernels made = {1, 2 * exact * size};
    for (int way = 0; way < 2 && cleave_type_is_short(stored); way++)
        add_kernel(&made, size * (exact + (double)cleave_type_bytes(stored)));
    return made;
}

/* ---- losses and masks ------------------------------------------------------------------------ */

bool cleave_nest_is_of_loss(const cleave_model *model, const cleave_nest *nest) {
    return strcmp(model->operators[nest->op].type, "SoftmaxCrossEntropy") == 0;
}

/* The first of the nests of a loss that reads the logits stands for all, or backward the first that
   gives their gradient. */
static bool stands_for_loss(const cleave_model *model, const cleave_nest *nest, cleave_pass pass) {
    const cleave_operator *op = &model->operators[nest->op];
    bool backward = pass != CLEAVE_PASS_FORWARD;
    int32_t logits = model->nests[op->nests[0]].inputs[0].tensor;
    for (int32_t i = 0; i < op->n_nests; i++) {
        const cleave_nest *of = &model->nests[op->nests[backward ? op->n_nests - 1 - i : i]];
        bool gives = !backward || (cleave_nest_pass_inputs(model, of, pass) & 1) != 0;
        if (of->inputs[0].tensor == logits && gives)
            return of == nest;
    }
    return false;
}

static cleave_framework_kernels count_loss(const cleave_model *model, const cleave_nest *nest,
                                           cleave_pass pass, const cleave_part *part,
                                           const cleave_loss_kernels *loss) {
    if (!stands_for_loss(model, nest, pass))
        return (cleave_framework_kernels){0};
    const cleave_tensor *logits = &model->tensors[nest->inputs[0].tensor];
    const cleave_chore_kernels *of = pass == CLEAVE_PASS_FORWARD ? &loss->forward : &loss->backward;
    double size = (double)cleave_part_size(model, part, &nest->inputs[0]);
    int64_t each = loss->exact ? cleave_type_bytes(CLEAVE_F32) : cleave_stored_bytes(logits);
    cleave_framework_kernels made = {of->n, of->passes * size * (double)each};
    if (loss->exact && cleave_type_is_short(logits->stored))
        add_kernel(&made, size * (double)(each + cleave_stored_bytes(logits)));
    return made;
}

bool cleave_nest_masks_by_place(const cleave_nest *nest) {
    bool asks = false;
    for (int i = 0; i < nest->n_instructions; i++)
        asks = asks || nest->tape[i].opcode == CLEAVE_OP_INDEX;
    return asks && nest->kind == CLEAVE_NEST_POINTWISE;
}

static cleave_framework_kernels count_mask(const cleave_model *model, const cleave_nest *nest,
                                           const cleave_part *part) {
    const cleave_tensor *scores = &model->tensors[nest->inputs[0].tensor];
    double bytes = (double)cleave_part_size(model, part, &nest->inputs[0]) *
                   (double)cleave_stored_bytes(scores);
    return (cleave_framework_kernels){5, 10 * bytes};
}

bool cleave_nest_gives_softmax(const cleave_nest *nest) {
    return nest->kind == CLEAVE_NEST_POINTWISE && nest->n_instructions >= 3 &&
           nest->tape[0].opcode == CLEAVE_OP_SUB && nest->tape[1].opcode == CLEAVE_OP_EXP &&
           nest->tape[2].opcode == CLEAVE_OP_DIV;
}

static double bytes_of_output(const cleave_model *model, const cleave_nest *nest,
                              const cleave_part *part) {
    return (double)cleave_part_size(model, part, &nest->output) *
           (double)cleave_stored_bytes(&model->tensors[nest->output.tensor]);
}

bool cleave_kernels_spelled_out(const cleave_model *model, const cleave_nest *nest,
                                cleave_pass pass, const cleave_part *part,
                                const cleave_framework_row *framework,
                                cleave_framework_kernels *made) {
    if (pass == CLEAVE_PASS_WEIGHT_GRADIENT)
        return false;
    int found = framework->spells_out ? find_spelled_out(model, nest) : -1;
    if (framework->turns_complex && cleave_nest_turns(model, nest)) {
        *made = turn_complex(model, nest, part);
    } else if (found >= 0) {
        *made = spell_out(model, nest, part, spelled_out[found].exact);
        int times = pass == CLEAVE_PASS_FORWARD ? 1 : 2;
        made->n *= times;
        made->bytes *= times;
    } else if (framework->loss.apart && cleave_nest_is_of_loss(model, nest)) {
        *made = count_loss(model, nest, pass, part, &framework->loss);
    } else if (framework->fills_masks && pass != CLEAVE_PASS_FORWARD &&
               cleave_nest_masks_by_place(nest)) {
        *made = count_mask(model, nest, part);
    } else if (framework->is_eager && pass != CLEAVE_PASS_FORWARD &&
               cleave_nest_gives_softmax(nest)) {
        *made = (cleave_framework_kernels){2, 6 * bytes_of_output(model, nest, part)};
    } else {
        return false;
    }
    return true;
}

cleave_additions cleave_additions_of(const cleave_model *model, const cleave_nest *nest,
                                     cleave_pass pass, const cleave_part *part, int input) {
    if (cleave_nest_is_of_loss(model, nest)) /* what is taken off the share of a target */
        return (cleave_additions){false, false};
    cleave_kernel_share compiled = cleave_kernel_share_of(model, nest, pass, part, false),
                        eager = cleave_kernel_share_of(model, nest, pass, part, true);
    return (cleave_additions){(compiled.gradients >> input & 1) != 0,
                              (eager.gradients >> input & 1) != 0 ||
                                  find_spelled_out(model, nest) >= 0};
}
