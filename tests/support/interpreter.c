/* A program in one process, with hostile timing. */
#include "interpreter.h"

#include "base/random.h"
#include "exec/data/initial.h"
#include "exec/kernels/convert.h"
#include "exec/kernels/copy.h"

#include <stdlib.h>
#include <string.h>

typedef enum message_state { UNPOSTED, SENT, RECEIVED, BOTH, DELIVERED } message_state;

typedef struct machine_state {
    const cleave_program *program;
    const interpreter_options *options;
    cleave_random timing;
    char **memory;   /* [n_devices] */
    int32_t *lanes;  /* [n_devices x lanes][n_items]: item ids */
    int32_t **items; /* [n_devices x lanes] */
    int32_t *n_items, *position;
    bool *done;
    message_state *messages;
    int64_t step;
    int64_t *bytes_between;
    cleave_error *error;
} machine_state;

static void *buffer_data(const machine_state *state, int32_t buffer) {
    const cleave_buffer *of = &state->program->buffers[buffer];
    return state->memory[of->device] + of->offset;
}

static void deliver(machine_state *state, int32_t m) {
    const cleave_message *message = &state->program->messages[m];
    memcpy((char *)buffer_data(state, message->destination_buffer) + message->destination_offset,
           (char *)buffer_data(state, message->source_buffer) + message->source_offset,
           (size_t)message->bytes);
    state->bytes_between[message->source * state->program->n_devices + message->destination] +=
        message->bytes;
    state->messages[m] = DELIVERED;
}

static cleave_array array_of(const machine_state *state, const cleave_compute *compute,
                             const cleave_operand *operand, int32_t buffer) {
    cleave_array array = {0};
    cleave_part_box(state->program->model, &compute->part, operand, &array.box);
    cleave_tensor_strides(&state->program->model->tensors[operand->tensor], &array.box,
                          array.strides);
    array.data = buffer >= 0 ? buffer_data(state, buffer) : NULL;
    array.type = buffer >= 0 ? state->program->buffers[buffer].type : CLEAVE_F32;
    return array;
}

static cleave_status compute(machine_state *state, const cleave_compute *item) {
    const cleave_nest *nest = &state->program->model->nests[item->nest];
    cleave_kernel_call call = {.model = state->program->model,
                               .nest = nest,
                               .pass = item->pass,
                               .part = item->part,
                               .accumulated = item->accumulated,
                               .seed = state->options->seed,
                               .step = state->step};
    for (int i = 0; i < nest->n_inputs; i++) {
        call.inputs[i] = array_of(state, item, &nest->inputs[i], item->inputs[i]);
        call.input_gradients[i] = array_of(state, item, &nest->inputs[i], item->input_gradients[i]);
    }
    call.output = array_of(state, item, &nest->output, item->output);
    call.combined = array_of(state, item, cleave_nest_combined(nest), item->combined);
    call.output_gradient = array_of(state, item, &nest->output, item->output_gradient);
    if (item->workspace >= 0) {
        call.workspace = buffer_data(state, item->workspace);
        call.workspace_bytes = state->program->buffers[item->workspace].bytes;
    }
    return state->options->kernels != NULL
               ? cleave_kernel_run(state->options->kernels, &call, state->error)
               : cleave_kernel_run_reference(&call, state->error);
}

/* Copies the box out of a row-major whole tensor. */
static void copy_box(const cleave_tensor *tensor, const cleave_box *box, const void *whole,
                     void *dense) {
    int64_t strides[CLEAVE_MAX_RANK], index[CLEAVE_MAX_RANK] = {0},
                                      size = cleave_box_size(tensor->rank, box);
    size_t element = (size_t)cleave_type_bytes(tensor->type);
    cleave_tensor_strides(tensor, box, strides);
    for (int64_t i = 0; i < size; i++) {
        int64_t from = 0, to = 0;
        for (int d = 0; d < tensor->rank; d++) {
            from = from * tensor->shape[d] + box->lo[d] + index[d];
            to += index[d] * strides[d];
        }
        memcpy((char *)dense + (size_t)to * element, (const char *)whole + (size_t)from * element,
               element);
        for (int d = tensor->rank - 1; d >= 0 && ++index[d] == box->hi[d] - box->lo[d]; d--)
            index[d] = 0;
    }
}

static void load(machine_state *state, int32_t buffer) {
    const cleave_buffer *of = &state->program->buffers[buffer];
    const cleave_tensor *tensor = &state->program->model->tensors[of->tensor];
    const void *datum = state->options->datum != NULL
                            ? state->options->datum(state->options->context, tensor->name)
                            : NULL;
    if (datum != NULL)
        copy_box(tensor, &of->box, datum, buffer_data(state, buffer));
    else
        cleave_initial_fill_data(tensor, state->options->seed, 0, &of->box,
                                 buffer_data(state, buffer));
}

static bool coin(machine_state *state) { return cleave_random_below(&state->timing, 2) == 0; }

static bool is_ready(machine_state *state, const cleave_item *item) {
    if (item->kind == CLEAVE_ITEM_SYNC)
        return state->done[item->subject];
    return item->kind != CLEAVE_ITEM_WAIT || state->messages[item->subject] >= BOTH;
}

static cleave_status run_item(machine_state *state, int32_t id) {
    const cleave_program *program = state->program;
    const cleave_item *item = &program->items[id];
    state->done[id] = true;
    switch ((cleave_item_kind)item->kind) {
    case CLEAVE_ITEM_COMPUTE:
        return compute(state, &program->computes[item->subject]);
    case CLEAVE_ITEM_LOAD:
        load(state, program->loads[item->subject].buffer);
        break;
    case CLEAVE_ITEM_UPDATE: {
        const cleave_update *update = &program->updates[item->subject];
        float *slots[2] = {NULL, NULL}, *exact = buffer_data(state, update->parameter);
        int64_t n = program->buffers[update->gradient].bytes / 4;
        exact = update->master >= 0 ? buffer_data(state, update->master) : exact + update->first;
        for (int s = 0; s < 2; s++)
            if (update->state[s] >= 0)
                slots[s] = buffer_data(state, update->state[s]);
        cleave_update_step at = {.step = state->step + 1, .scale = 1};
        if (update->squares >= 0)
            at.scale = cleave_optimizer_clip(&state->options->optimizer,
                                             *(const float *)buffer_data(state, update->squares));
        cleave_optimizer_update(&state->options->optimizer, &at, n, exact,
                                buffer_data(state, update->gradient), slots);
        if (update->master >= 0)
            cleave_convert(CLEAVE_F32, exact, CLEAVE_BF16,
                           (uint16_t *)buffer_data(state, update->parameter) + update->first, n);
        break;
    }
    case CLEAVE_ITEM_COPY: {
        const cleave_copy *copy = &program->copies[item->subject];
        for (int32_t p = copy->first_piece; p < copy->first_piece + copy->n_pieces; p++) {
            const cleave_copy_piece *piece = &program->copy_pieces[p];
            cleave_copy_piece_run(piece, buffer_data(state, piece->destination),
                                  piece->source >= 0 ? buffer_data(state, piece->source) : NULL);
        }
        break;
    }
    case CLEAVE_ITEM_SEND:
    case CLEAVE_ITEM_RECEIVE: {
        message_state *message = &state->messages[item->subject];
        message_state mine = item->kind == CLEAVE_ITEM_SEND ? SENT : RECEIVED;
        *message = *message == UNPOSTED ? mine : BOTH;
        if (*message == BOTH && coin(state)) /* as early as may be; else as late */
            deliver(state, item->subject);
        break;
    }
    case CLEAVE_ITEM_WAIT:
        if (state->messages[item->subject] == BOTH)
            deliver(state, item->subject);
        break;
    case CLEAVE_ITEM_SYNC:
        break;
    case CLEAVE_ITEM_JOIN:
    case CLEAVE_ITEM_AWAIT:
        return cleave_fail(state->error, CLEAVE_FAILED, "symbolic collective");
    }
    return CLEAVE_OK;
}

static cleave_status run_step(machine_state *state) {
    const cleave_program *program = state->program;
    int32_t n_lanes = program->n_devices * CLEAVE_N_LANES;
    memset(state->done, 0, (size_t)program->n_items * sizeof *state->done);
    memset(state->position, 0, (size_t)n_lanes * sizeof *state->position);
    memset(state->bytes_between, 0,
           (size_t)program->n_devices * (size_t)program->n_devices * sizeof *state->bytes_between);
    for (int32_t m = 0; m < program->n_messages; m++)
        state->messages[m] = UNPOSTED;
    for (int32_t left = program->n_items; left > 0;) {
        bool moved = false;
        int32_t first = (int32_t)cleave_random_below(&state->timing, n_lanes);
        for (int32_t i = 0; i < n_lanes; i++) {
            int32_t lane = (first + i) % n_lanes;
            if (state->position[lane] >= state->n_items[lane])
                continue;
            int32_t id = state->items[lane][state->position[lane]];
            if (!is_ready(state, &program->items[id]))
                continue;
            CLEAVE_TRY(run_item(state, id));
            state->position[lane]++;
            left--;
            moved = true;
            break;
        }
        if (!moved)
            return cleave_fail(state->error, CLEAVE_FAILED, "deadlock with %d items left", left);
    }
    for (int32_t m = 0; m < program->n_messages; m++)
        if (state->messages[m] != DELIVERED)
            return cleave_fail(state->error, CLEAVE_FAILED, "message %d was never delivered", m);
    return CLEAVE_OK;
}

static void fill(const machine_state *state, const cleave_buffer *buffer, void *data,
                 cleave_arena *arena) {
    const cleave_tensor *tensor = &state->program->model->tensors[buffer->tensor];
    int64_t n = cleave_box_size(tensor->rank, &buffer->box);
    bool half = buffer->type == CLEAVE_BF16;
    void *exact = half ? CLEAVE_ARENA_ARRAY(arena, float, n) : data;
    cleave_initial_fill(tensor, state->options->seed, &buffer->box, exact);
    if (half)
        cleave_convert(CLEAVE_F32, exact, CLEAVE_BF16, data, n);
}

static cleave_status prepare(machine_state *state, cleave_arena *arena) {
    const cleave_program *program = state->program;
    int32_t n_lanes = program->n_devices * CLEAVE_N_LANES;
    state->memory = CLEAVE_ARENA_ARRAY(arena, char *, program->n_devices);
    state->items = CLEAVE_ARENA_ARRAY(arena, int32_t *, n_lanes);
    state->n_items = CLEAVE_ARENA_ARRAY(arena, int32_t, n_lanes);
    state->position = CLEAVE_ARENA_ARRAY(arena, int32_t, n_lanes);
    state->done = CLEAVE_ARENA_ARRAY(arena, bool, program->n_items);
    state->messages = CLEAVE_ARENA_ARRAY(arena, message_state, program->n_messages);
    state->bytes_between =
        CLEAVE_ARENA_ARRAY(arena, int64_t, program->n_devices * program->n_devices);
    for (int32_t l = 0; l < n_lanes; l++)
        state->items[l] = CLEAVE_ARENA_ARRAY(arena, int32_t, program->n_items);
    for (int32_t i = 0; i < program->n_items; i++) {
        int32_t lane = program->items[i].device * CLEAVE_N_LANES + program->items[i].lane;
        state->items[lane][state->n_items[lane]++] = i;
    }
    for (int32_t d = 0; d < program->n_devices; d++) {
        size_t bytes = (size_t)program->peak_bytes[d] + 64;
        state->memory[d] = cleave_arena_alloc(arena, bytes, 1);
        memset(state->memory[d], 0xff, bytes); /* not a number, wherever it is read */
    }
    for (int32_t b = 0; b < program->n_buffers; b++) {
        const cleave_buffer *buffer = &program->buffers[b];
        if (!buffer->persistent)
            continue;
        if (buffer->kind == CLEAVE_BUFFER_DATA)
            continue;
        if (buffer->kind == CLEAVE_BUFFER_STATE)
            memset(buffer_data(state, b), 0, (size_t)buffer->bytes);
        else
            fill(state, buffer, buffer_data(state, b), arena);
    }
    return CLEAVE_OK;
}

/* A tensor as it starts, row-major. */
static float *initial_values(const machine_state *state, const cleave_tensor *tensor,
                             cleave_arena *arena) {
    cleave_tensor row_major = *tensor;
    cleave_box all = cleave_box_of_shape(tensor->rank, tensor->shape);
    float *values = CLEAVE_ARENA_ARRAY(arena, float, cleave_tensor_size(tensor));
    for (int d = 0; d < tensor->rank; d++)
        row_major.order[d] = d;
    cleave_initial_fill(&row_major, state->options->seed, &all, values);
    return values;
}

/* Everything that is held, checked to agree where several devices hold it; what no device uses is
   as it was. */
static cleave_status collect(machine_state *state, cleave_arena *arena, float **values) {
    const cleave_program *program = state->program;
    bool **seen = CLEAVE_ARENA_ARRAY(arena, bool *, program->model->n_tensors);
    for (int32_t t = 0; t < program->model->n_tensors; t++) {
        const cleave_tensor *tensor = &program->model->tensors[t];
        if (tensor->kind != CLEAVE_TENSOR_PARAMETER && tensor->kind != CLEAVE_TENSOR_BUFFER)
            continue;
        values[t] = initial_values(state, tensor, arena);
        seen[t] = CLEAVE_ARENA_ARRAY(arena, bool, cleave_tensor_size(tensor));
    }
    for (int32_t h = 0; h < program->n_held; h++) {
        const cleave_held *held = &program->held[h];
        const cleave_tensor *tensor = &program->model->tensors[held->tensor];
        const cleave_buffer *buffer = &program->buffers[held->buffer];
        int64_t strides[CLEAVE_MAX_RANK], index[CLEAVE_MAX_RANK];
        cleave_tensor_strides(tensor, &buffer->box, strides);
        int64_t n = cleave_box_size(tensor->rank, &held->box);
        memcpy(index, held->box.lo, sizeof index);
        for (int64_t i = 0; i < n; i++) {
            int64_t to = 0, from = 0;
            for (int d = 0; d < tensor->rank; d++) {
                to = to * tensor->shape[d] + index[d];
                from += (index[d] - buffer->box.lo[d]) * strides[d];
            }
            float value = ((const float *)buffer_data(state, held->buffer))[from];
            float *at = &values[held->tensor][to];
            if (seen[held->tensor][to] && memcmp(at, &value, sizeof value) != 0)
                return cleave_fail(state->error, CLEAVE_FAILED, "copies of %s differ: %g and %g",
                                   tensor->name, (double)*at, (double)value);
            *at = value;
            seen[held->tensor][to] = true;
            for (int d = tensor->rank - 1; d >= 0 && ++index[d] == held->box.hi[d]; d--)
                index[d] = held->box.lo[d];
        }
    }
    return CLEAVE_OK;
}

static void collect_outputs(machine_state *state, cleave_arena *arena, float **outputs) {
    const cleave_program *program = state->program;
    const cleave_model *model = program->model;
    for (int32_t o = 0; o < model->n_outputs && !program->training; o++)
        outputs[o] = CLEAVE_ARENA_ARRAY(arena, float,
                                        cleave_tensor_size(&model->tensors[model->outputs[o]]));
    for (int32_t o = 0; o < program->n_outputs; o++) {
        const cleave_output *piece = &program->outputs[o];
        const cleave_tensor *tensor = &model->tensors[model->outputs[piece->output]];
        int64_t strides[CLEAVE_MAX_RANK], index[CLEAVE_MAX_RANK] = {0},
                                          n = cleave_box_size(tensor->rank, &piece->box);
        cleave_tensor_strides(tensor, &piece->box, strides);
        for (int d = 0; d < tensor->rank; d++)
            index[d] = piece->box.lo[d];
        const cleave_buffer *buffer = &program->buffers[piece->buffer];
        const void *data = state->memory[piece->device] + buffer->offset;
        cleave_type type = buffer->type == CLEAVE_BF16 ? CLEAVE_BF16 : CLEAVE_F32;
        for (int64_t i = 0; i < n; i++) {
            int64_t from = 0, to = 0;
            for (int d = 0; d < tensor->rank; d++) {
                from += (index[d] - piece->box.lo[d]) * strides[d];
                to = to * tensor->shape[d] + index[d];
            }
            outputs[piece->output][to] = cleave_element_get(type, data, from);
            for (int d = tensor->rank - 1; d >= 0 && ++index[d] == piece->box.hi[d]; d--)
                index[d] = piece->box.lo[d];
        }
    }
}

cleave_status interpreter_run(const cleave_program *program, const interpreter_options *options,
                              cleave_arena *arena, interpreter_result *result,
                              cleave_error *error) {
    machine_state state = {.program = program,
                           .options = options,
                           .error = error,
                           .timing = {.key = cleave_hash64(options->timing_seed)}};
    CLEAVE_TRY(prepare(&state, arena));
    for (state.step = 0; state.step < options->steps; state.step++) {
        CLEAVE_TRY(run_step(&state));
        if (program->loss_buffer >= 0 && state.step < 16)
            result->loss[state.step] =
                (double)*(float *)(void *)(state.memory[program->loss_device] +
                                           program->buffers[program->loss_buffer].offset);
        if (state.step < 16)
            result->squares[state.step] =
                program->squares_buffer < 0
                    ? 0
                    : (double)*(float *)(void *)(state.memory[0] +
                                                 program->buffers[program->squares_buffer].offset);
    }
    result->values = CLEAVE_ARENA_ARRAY(arena, float *, program->model->n_tensors);
    result->outputs = CLEAVE_ARENA_ARRAY(arena, float *, program->model->n_outputs);
    result->bytes_between = state.bytes_between;
    collect_outputs(&state, arena, result->outputs);
    return collect(&state, arena, result->values);
}
