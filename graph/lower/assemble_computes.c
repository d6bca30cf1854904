/* The computes of nests: what each part reads and writes, and with how much workspace. */
#include "graph/lower/assemble_internal.h"

#include "graph/lower/events.h"
#include "graph/lower/turns.h"
#include "graph/program/work.h"

static bool adds(const lower_assembly *assembly, int32_t event, int32_t p, int32_t window) {
    int32_t row = assembly->rows.items[assembly->first_row[event] + p];
    return row == LOWER_ADDS || (row == LOWER_CARRIES && window > 0);
}

/* When a pass of a nest runs. */
static cleave_when when_of(const lower_builder *builder, int32_t n, uint8_t pass) {
    if (builder->micro == NULL || lower_goes_on(builder, n))
        return CLEAVE_WHEN_EVERY;
    cleave_when value = lower_value_when(builder, builder->model->nests[n].output.tensor);
    return pass == CLEAVE_PASS_FORWARD ? value : cleave_when_gradient(value);
}

/* A compute without operands, with its workspace. */
static cleave_compute new_compute(lower_assembly *assembly, int32_t n, int32_t p, cleave_pass pass,
                                  int32_t window) {
    const lower_builder *builder = assembly->builder;
    cleave_compute compute = {.nest = n,
                              .pass = pass,
                              .part = builder->parts[n].items[p],
                              .output = -1,
                              .combined = -1,
                              .output_gradient = -1,
                              .workspace = -1};
    lower_instance_part(assembly, n, window, &compute.part);
    compute.pieces =
        cleave_work_pieces(builder->model, &builder->model->nests[n], pass, &compute.part);
    for (int i = 0; i < CLEAVE_MAX_INPUTS; i++)
        compute.inputs[i] = compute.input_gradients[i] = -1;
    if (builder->options->workspace == NULL)
        return compute;
    int64_t bytes = builder->options->workspace(builder->options->workspace_context, builder->model,
                                                &builder->model->nests[n], pass, &compute.part);
    if (bytes <= 0)
        return compute;
    compute.workspace = assembly->buffers.n;
    LOWER_PUSH_TO(assembly, buffers,
                  (cleave_buffer){.kind = CLEAVE_BUFFER_WORKSPACE,
                                  .device = compute.part.device,
                                  .tensor = -1,
                                  .bytes = bytes,
                                  .first = INT32_MAX,
                                  .last = -1,
                                  .storage = compute.workspace});
    LOWER_PUSH_TO(assembly, sent, false);
    bool every = when_of(builder, n, (uint8_t)pass) == CLEAVE_WHEN_EVERY;
    lower_turns_note_buffer(assembly, every ? window : CLEAVE_WINDOW_NONE);
    return compute;
}

int32_t *lower_count_readers(lower_builder *builder) {
    const cleave_model *model = builder->model;
    int32_t *readers = LOWER_ARRAY(builder, int32_t, model->n_tensors);
    cleave_model_count_readers(model, readers);
    for (int32_t n = 0; n < model->n_nests; n++)
        if (model->nests[n].kept_combined || model->nests[n].kept_output)
            readers[model->nests[n].output.tensor]++;
    return readers;
}

/* The event by which forward reads an input; where it comes again, as it then is there. */
static int32_t reading(const lower_schedule *schedule, int32_t n, int i, bool again) {
    return again && schedule->read_again[n][i] >= 0 ? schedule->read_again[n][i]
                                                    : schedule->read[n][i];
}

/* The same of a backward pass: by itself, or as the first of them read it, or as it was there. */
static int32_t reading_back(const lower_schedule *schedule, int32_t n, int i, cleave_pass pass) {
    for (; pass >= CLEAVE_PASS_INPUT_GRADIENT; pass--)
        if (schedule->read_back[n][pass - 1][i] >= 0)
            return schedule->read_back[n][pass - 1][i];
    return reading(schedule, n, i, true);
}

/* The output that backward reads: what the parts have together, where it comes for this one, else
   what this one wrote. */
static int32_t kept_output(const lower_assembly *assembly, int32_t n, int32_t p, int32_t window) {
    const lower_schedule *schedule = assembly->schedule;
    int32_t wrote = schedule->write_again[n] >= 0 ? schedule->write_again[n] : schedule->write[n];
    int32_t come = lower_bound_in(assembly, schedule->read_output[n], p, window);
    return come >= 0 ? come : lower_bound_in(assembly, wrote, p, window);
}

/* Does forward write over its first input?  Not over what other micro-batches read, too, nor what
   it reads again. */
static bool is_in_place(const lower_assembly *assembly, int32_t n, int32_t p, bool again,
                        const int32_t *readers) {
    const lower_schedule *schedule = assembly->schedule;
    const cleave_nest *nest = &assembly->builder->model->nests[n];
    int32_t input = nest->in_place ? lower_bound(assembly, reading(schedule, n, 0, again), p) : -1;
    if (!again && input >= 0 && input == lower_bound(assembly, schedule->read_again[n][0], p))
        return false;
    return input >= 0 && readers[nest->inputs[0].tensor] == 1 && !assembly->sent.items[input] &&
           (!lower_goes_on(assembly->builder, n) || !assembly->is_shared[input]);
}

cleave_compute lower_forward_compute(lower_assembly *assembly, int32_t n, int32_t p, int32_t window,
                                     bool again, const int32_t *readers) {
    const cleave_nest *nest = &assembly->builder->model->nests[n];
    const lower_schedule *schedule = assembly->schedule;
    cleave_compute compute = new_compute(assembly, n, p, CLEAVE_PASS_FORWARD, window);
    for (int i = 0; i < nest->n_inputs; i++)
        compute.inputs[i] = lower_bound_in(assembly, reading(schedule, n, i, again), p, window);
    int32_t lead = n - nest->turn; /* all turns write what the first is said to have written */
    compute.output = lower_bound_in(
        assembly, again ? schedule->write_again[lead] : schedule->write[lead], p, window);
    compute.combined = lower_bound_in(
        assembly, again ? schedule->write_statistics_again[lead] : schedule->write_statistics[lead],
        p, window);
    if (is_in_place(assembly, n, p, again, readers))
        assembly->buffers.items[compute.output].storage =
            assembly->buffers.items[compute.inputs[0]].storage;
    return compute;
}

cleave_compute lower_backward_compute(lower_assembly *assembly, int32_t n, int32_t p,
                                      int32_t window, cleave_pass pass) {
    const cleave_model *model = assembly->builder->model;
    const cleave_nest *nest = &model->nests[n];
    const lower_schedule *schedule = assembly->schedule;
    uint32_t gradients = cleave_nest_pass_inputs(model, nest, pass);
    uint32_t read = lower_inputs_read(nest, gradients);
    cleave_compute compute = new_compute(assembly, n, p, pass, window);
    int32_t lead = n - nest->turn;
    if (nest->kept_output)
        compute.output = kept_output(assembly, lead, p, window);
    compute.output_gradient = lower_bound_in(assembly, schedule->read_gradient[lead], p, window);
    if (nest->kept_combined)
        compute.combined = lower_bound_in(assembly, schedule->read_combined[lead], p, window);
    for (int i = 0; i < nest->n_inputs; i++) {
        if (read & (1u << i))
            compute.inputs[i] =
                lower_bound_in(assembly, reading_back(schedule, n, i, pass), p, window);
        if (!(gradients & (1u << i)))
            continue;
        bool of_all = i == 0 && nest->n_turns > 0; /* turns add up the gradient of queries */
        int32_t event = schedule->write_gradient[of_all ? lead : n][i];
        compute.input_gradients[i] = lower_bound_in(assembly, event, p, window);
        if (adds(assembly, event, p, window) || (of_all && nest->turn > 0))
            compute.accumulated |= 1u << i;
    }
    return compute;
}
