/* Is a nest over rows of channels? */
#include "exec/kernels/kernel_tile_channels.h"

enum { LEAST_COLUMNS = 16 };

static bool is_matrix(const cleave_tile_plan *plan, int stream) {
    return plan->stride[stream][0] >= plan->extent[1] && plan->stride[stream][1] == 1;
}

/* Registers that vary along the columns of a matrix, a stream, alone; of inputs that a pass does
   not read, too. */
static uint64_t find_by_column(const cleave_kernel_call *call, const cleave_tile_plan *plan,
                               int matrix) {
    const cleave_nest *nest = call->nest;
    uint64_t found = 0;
    for (int i = 0; i < nest->n_inputs; i++) {
        cleave_reach reach = cleave_kernel_reach(call, &nest->inputs[i], &call->inputs[i]);
        bool same = true;
        for (int a = 0; a < nest->n_axes; a++)
            same = same && (reach.stride[a] == 0 || cleave_part_extent(&call->part, a) == 1 ||
                            plan->reach[matrix].stride[a] < plan->extent[1]);
        found |= same ? cleave_register_bit(i) : 0;
    }
    return cleave_tile_by_column(nest, plan, found);
}

static bool is_line(cleave_opcode opcode) {
    return opcode == CLEAVE_OP_COPY || opcode == CLEAVE_OP_NEG || opcode == CLEAVE_OP_SCALE ||
           opcode == CLEAVE_OP_ADD || opcode == CLEAVE_OP_SUB || opcode == CLEAVE_OP_MUL;
}

/* The operand that varies by column; -1: it has none. */
static int other_operand(const cleave_instruction *at, int chain) {
    return cleave_opcode_operands(at->opcode) < 2 ? -1 : at->a == chain ? at->b : at->a;
}

/* What varies otherwise than by column is one chain of links, from the matrix to the value. */
static bool find_links(const cleave_nest *nest, uint64_t by_column,
                       cleave_tile_channels_plan *found) {
    int chain = found->matrix;
    for (int i = 0; i < nest->n_instructions; i++) {
        const cleave_instruction *at = &nest->tape[i];
        if (by_column & cleave_register_bit(nest->n_inputs + i))
            continue;
        if ((at->opcode == CLEAVE_OP_RELU || at->opcode == CLEAVE_OP_CLIP) && at->a == chain &&
            i == nest->n_instructions - 1) {
            found->bound = at;
            return true;
        }
        int other = other_operand(at, chain);
        if (!is_line(at->opcode) || (at->a != chain && (other < 0 || at->b != chain)) ||
            (other >= 0 && !(by_column & cleave_register_bit(other))))
            return false;
        if (at->opcode == CLEAVE_OP_SUB && chain == found->matrix && at->a == chain) {
            found->centre = other;
        } else
            found->link[found->n_links++] = (cleave_tile_link){i, other};
        chain = nest->n_inputs + i;
    }
    return chain == nest->n_inputs + nest->n_instructions - 1;
}

static bool find_matrix(const cleave_kernel_call *call, const cleave_tile_plan *plan,
                        uint64_t by_column, cleave_tile_channels_plan *found) {
    int n = 0;
    for (int i = 0; i < call->nest->n_inputs; i++) {
        if (by_column & cleave_register_bit(i))
            continue;
        found->matrix = i;
        n++;
    }
    if (n != 1)
        return false;
    int value = plan->input[found->matrix], gradient = plan->gradient[found->matrix];
    return call->model->tensors[call->nest->inputs[found->matrix].tensor].type == CLEAVE_F32 &&
           (value < 0 || is_matrix(plan, value)) &&
           (gradient < 0 || (is_matrix(plan, gradient) && !plan->summed[found->matrix]));
}

/* The value itself, whose statistics are taken. */
static bool copies(const cleave_nest *nest, const cleave_tile_channels_plan *found) {
    bool same = found->centre < 0 && found->bound == NULL;
    for (int k = 0; k < found->n_links; k++)
        same = same && nest->tape[found->link[k].instruction].opcode == CLEAVE_OP_COPY;
    return same;
}

void tile_channels_plan(const cleave_kernel_call *call, cleave_tile_plan *plan) {
    const cleave_nest *nest = call->nest;
    cleave_tile_channels_plan found = {.matrix = -1, .centre = -1};
    bool moments = plan->combiner == CLEAVE_COMBINE_MOMENTS;
    int matrix = moments ? plan->input[0] : plan->seed >= 0 ? plan->seed : plan->output;
    if (plan->n_loops != 2 || plan->extent[1] < LEAST_COLUMNS || plan->extent[0] < 2 ||
        (plan->combiner != CLEAVE_COMBINE_NONE && !moments) || matrix < 0 ||
        !is_matrix(plan, matrix))
        return;
    uint64_t by_column = find_by_column(call, plan, matrix);
    /* What is computed by column must be what the walk of tiles takes to be so. */
    uint64_t computed = by_column & (plan->tape.values | plan->tape.adjoints);
    if (!find_matrix(call, plan, by_column, &found) || !find_links(nest, by_column, &found) ||
        (computed & ~plan->by_column) != 0)
        return;
    found.fits = found.bound != NULL || !plan->tape.from_output;
    if (moments) {
        int record = plan->record[0] >= 0 ? plan->record[0] : plan->output;
        found.fits = copies(nest, &found) && cleave_tile_is_by_column(plan, record) &&
                     plan->stride[record][1] == 1;
    }
    plan->channels = found;
}
