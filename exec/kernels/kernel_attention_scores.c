/* What becomes of a block of scores point by point: scales, masks, biases, caps, dropout.  Members
   of the nest are run on the block by the tape kernel, as calls of their own whose scores are the
   block and whose masks are the part's. */
#include "exec/kernels/kernel_attention.h"
#include "exec/kernels/kernel_tile.h"

static float *carve_tile(char *base, int64_t *used) {
    return cleave_kernel_carve(base, used, CLEAVE_ATTENTION_TILE * (int64_t)sizeof(float));
}

/* The block, as an array of a tensor of scores' shape. */
static void lay_block(const attention_run *run, int member, const cleave_operand *operand,
                      float *data, cleave_array *array) {
    const cleave_attention *of = run->of;
    const attention_block *block = &run->block;
    array->data = data;
    for (int d = 0; d < run->call->model->tensors[operand->tensor].rank; d++) {
        const cleave_dimension_map *map = &operand->map[d];
        int axis = map->n_terms > 0 ? of->axis[member][map->terms[0].axis] : -1;
        bool rows = axis == of->rows, keys = axis == of->keys;
        array->box.lo[d] = axis < 0 ? 0 : rows ? block->row : keys ? block->key : run->at[axis];
        array->box.hi[d] = array->box.lo[d] + (rows ? block->n_rows : keys ? block->n_keys : 1);
        array->strides[d] = rows ? block->n_keys : keys ? 1 : 0;
    }
}

/* The gradient of a mask under the block alone: dense, rows and then keys. */
static void lay_gradient(const attention_run *run, int member, const cleave_operand *operand,
                         float *data, cleave_array *array) {
    lay_block(run, member, operand, data, array);
    int rank = run->call->model->tensors[operand->tensor].rank;
    int64_t n_keys = 1;
    for (int d = 0; d < rank; d++)
        if (array->strides[d] == 1)
            n_keys *= array->box.hi[d] - array->box.lo[d];
    for (int d = 0; d < rank; d++)
        if (array->strides[d] != 1)
            array->strides[d] = array->box.hi[d] - array->box.lo[d] > 1 ? n_keys : 0;
}

static void set_part(const attention_run *run, int member, const cleave_nest *nest,
                     cleave_part *part) {
    const cleave_attention *of = run->of;
    const attention_block *block = &run->block;
    *part = (cleave_part){.device = 0};
    for (int a = 0; a < nest->n_axes; a++) {
        int axis = of->axis[member][a];
        bool rows = axis == of->rows, keys = axis == of->keys;
        part->lo[a] = rows ? block->row : keys ? block->key : run->at[axis];
        part->hi[a] = part->lo[a] + (rows ? block->n_rows : keys ? block->n_keys : 1);
    }
}

/* A call of a pointwise nest that stands at a member's place; `read` is the score that it reads. */
static void describe(const attention_run *run, int member, const cleave_nest *nest,
                     cleave_pass pass, cleave_kernel_call *call) {
    *call = (cleave_kernel_call){.model = run->call->model,
                                 .nest = nest,
                                 .pass = pass,
                                 .seed = run->call->seed,
                                 .step = run->call->step,
                                 .pieces = 1,
                                 .workspace = run->workspace,
                                 .workspace_bytes = run->workspace_bytes};
    set_part(run, member, nest, &call->part);
}

static void describe_member(const attention_run *run, int i, cleave_pass pass, float *read,
                            float *written, cleave_kernel_call *call) {
    const cleave_nest *nest = &run->of->members[i];
    describe(run, i, nest, pass, call);
    for (int k = 0; k < nest->n_inputs; k++)
        if (run->of->input[i][k] < 0)
            lay_block(run, i, &nest->inputs[k], read, &call->inputs[k]);
        else
            call->inputs[k] = run->call->inputs[run->of->input[i][k]];
    lay_block(run, i, &nest->output, written, &call->output);
    call->output_gradient = call->output;
}

static void describe_tail(const attention_run *run, cleave_pass pass, float *read, float *written,
                          cleave_kernel_call *call) {
    const cleave_nest *nest = &run->of->tail;
    describe(run, run->of->weights, nest, pass, call);
    lay_block(run, run->of->weights, &nest->inputs[0], read, &call->inputs[0]);
    lay_block(run, run->of->weights, &nest->output, written, &call->output);
    call->output_gradient = call->output;
    call->input_gradients[0] = call->inputs[0];
}

static cleave_status run_tape(const attention_run *run, const cleave_kernel_call *call,
                              cleave_error *error) {
    return cleave_tile_kernel.run(run->kernels, call, error);
}

cleave_status attention_make_scores(attention_run *run, cleave_error *error) {
    for (int i = 1; i <= run->of->n_pointwise; i++) {
        cleave_kernel_call call;
        describe_member(run, i, CLEAVE_PASS_FORWARD, run->scores[i - 1], run->scores[i], &call);
        CLEAVE_TRY(run_tape(run, &call, error));
    }
    return CLEAVE_OK;
}

cleave_status attention_make_weights(attention_run *run, cleave_error *error) {
    cleave_kernel_call call;
    if (run->of->tail.n_instructions == 0)
        return CLEAVE_OK;
    describe_tail(run, CLEAVE_PASS_FORWARD, run->exponentials, run->weights, &call);
    return run_tape(run, &call, error);
}

static void exchange(attention_run *run) {
    float *gradient = run->gradient;
    run->gradient = run->spare;
    run->spare = gradient;
}

cleave_status attention_unmake_weights(attention_run *run, cleave_error *error) {
    cleave_kernel_call call;
    if (run->of->tail.n_instructions == 0)
        return CLEAVE_OK;
    describe_tail(run, CLEAVE_PASS_INPUT_GRADIENT, run->exponentials, run->gradient, &call);
    call.input_gradients[0].data = run->spare;
    CLEAVE_TRY(run_tape(run, &call, error));
    exchange(run);
    return CLEAVE_OK;
}

/* Adds the gradient of a mask under the block to that of the part. */
static void add_gradient(const attention_run *run, const cleave_operand *operand,
                         const cleave_array *from, const cleave_array *to) {
    int rank = run->call->model->tensors[operand->tensor].rank, d = rank - 1;
    int64_t index[CLEAVE_MAX_RANK], at = 0, source = 0;
    for (int e = 0; e < rank; e++) {
        index[e] = from->box.lo[e];
        at += (index[e] - to->box.lo[e]) * to->strides[e];
    }
    do {
        ((float *)to->data)[at] += ((const float *)from->data)[source];
        for (d = rank - 1; d >= 0; d--) {
            at += to->strides[d];
            source += from->strides[d];
            if (++index[d] < from->box.hi[d])
                break;
            int64_t extent = from->box.hi[d] - from->box.lo[d];
            at -= extent * to->strides[d];
            source -= extent * from->strides[d];
            index[d] = from->box.lo[d];
        }
    } while (d >= 0);
}

static cleave_status unmake_member(attention_run *run, int i, cleave_error *error) {
    const cleave_nest *nest = &run->of->members[i];
    cleave_kernel_call call;
    describe_member(run, i, CLEAVE_PASS_INPUT_GRADIENT, run->scores[i - 1], run->scores[i], &call);
    call.output_gradient.data = run->gradient;
    int64_t used = 0;
    for (int k = 0; k < nest->n_inputs; k++) {
        int of = run->of->input[i][k];
        if (of < 0)
            lay_block(run, i, &nest->inputs[k], run->spare, &call.input_gradients[k]);
        else if (nest->gradient_inputs >> k & 1) {
            lay_gradient(run, i, &nest->inputs[k], run->of_input + used, &call.input_gradients[k]);
            used += CLEAVE_ATTENTION_TILE;
        }
    }
    CLEAVE_TRY(run_tape(run, &call, error));
    for (int k = 0; k < nest->n_inputs; k++)
        if (run->of->input[i][k] >= 0 && (nest->gradient_inputs >> k & 1))
            add_gradient(run, &nest->inputs[k], &call.input_gradients[k],
                         &run->call->input_gradients[run->of->input[i][k]]);
    exchange(run);
    return CLEAVE_OK;
}

cleave_status attention_unmake_scores(attention_run *run, cleave_error *error) {
    for (int i = run->of->n_pointwise; i >= 1; i--)
        CLEAVE_TRY(unmake_member(run, i, error));
    return CLEAVE_OK;
}

/* Must scores before member i stay, when it has read them? */
static bool stays(const attention_run *run, int i) {
    const cleave_nest *nest = &run->of->members[i];
    bool kept = i > 1 && run->of->members[i - 1].kept_output;
    for (int k = 0; k < nest->n_inputs; k++)
        kept = kept || (run->of->input[i][k] < 0 && (nest->kept_inputs >> k & 1));
    return run->backward && kept;
}

/* The most that the tape kernel needs for a nest on a block: rows of tiles for values, adjoints and
   streams, and sums of gradients. */
static int64_t count_workspace(const cleave_nest *nest) {
    int64_t row = CLEAVE_MAX_TILE * (int64_t)sizeof(float);
    int64_t registers = nest->n_inputs + nest->n_instructions;
    int64_t streams = registers + nest->n_inputs + 2;
    return (2 * registers + 2 * streams) * row +
           (nest->n_inputs + 1) * (int64_t)sizeof(double) * CLEAVE_ATTENTION_TILE +
           registers * 12 * CLEAVE_ATTENTION_TILE / CLEAVE_ATTENTION_ROWS;
}

static int64_t find_workspace(const cleave_attention *of) {
    int64_t most = of->tail.n_instructions > 0 ? count_workspace(&of->tail) : 0;
    for (int i = 1; i <= of->n_pointwise; i++) {
        int64_t bytes = count_workspace(&of->members[i]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

int64_t attention_lay_out_tiles(attention_run *run, char *base) {
    const cleave_attention *of = run->of;
    int64_t used = 0;
    run->scores[0] = carve_tile(base, &used);
    int most_inputs = 0;
    for (int i = 1; i <= of->n_pointwise; i++) {
        int n = 0;
        run->scores[i] = stays(run, i) ? carve_tile(base, &used) : run->scores[i - 1];
        for (int k = 0; k < of->members[i].n_inputs; k++)
            n += of->input[i][k] >= 0 && (of->members[i].gradient_inputs >> k & 1);
        most_inputs = n > most_inputs ? n : most_inputs;
    }
    run->exponentials = run->scores[of->n_pointwise];
    if (of->n_pointwise > 0 && of->members[of->n_pointwise].kept_output && run->backward)
        run->exponentials = carve_tile(base, &used);
    run->weights = run->exponentials;
    if (of->tail.n_instructions > 0 && run->backward)
        run->weights = carve_tile(base, &used);
    if (run->backward) {
        run->gradient = carve_tile(base, &used);
        run->spare = carve_tile(base, &used);
        run->of_input = cleave_kernel_carve(
            base, &used, most_inputs * CLEAVE_ATTENTION_TILE * (int64_t)sizeof(float));
    }
    run->workspace_bytes = find_workspace(of);
    run->workspace = cleave_kernel_carve(base, &used, run->workspace_bytes);
    return used;
}
