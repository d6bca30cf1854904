/* Where not-a-numbers come from. */
#include "exec/training/watch.h"

#include "base/bf16.h"
#include "base/progress.h"

#include <math.h>

static bool buffer_has_nan(const cleave_rank *rank, int32_t id) {
    if (id < 0)
        return false;
    const cleave_buffer *buffer = &rank->program->buffers[id];
    const void *data = cleave_rank_buffer(rank, id);
    bool found = false;
    if (buffer->type == CLEAVE_F32)
        for (int64_t i = 0; i < buffer->bytes / 4; i++)
            found |= isnan(((const float *)data)[i]) != 0;
    if (buffer->type == CLEAVE_BF16)
        for (int64_t i = 0; i < buffer->bytes / 2; i++)
            found |= isnan(cleave_bf16_widen(((const uint16_t *)data)[i])) != 0;
    return found;
}

static bool compute_gives_nan(const cleave_rank *rank, const cleave_compute *compute) {
    if (compute->pass == CLEAVE_PASS_FORWARD)
        return buffer_has_nan(rank, compute->output);
    for (int i = 0; i < CLEAVE_MAX_INPUTS; i++)
        if (buffer_has_nan(rank, compute->input_gradients[i]))
            return true;
    return false;
}

/* Does what the item wrote on this rank hold a NaN? */
static bool finds_nan(const cleave_rank *rank, const cleave_item *item) {
    const cleave_program *program = rank->program;
    const cleave_update *update;
    switch ((cleave_item_kind)item->kind) {
    case CLEAVE_ITEM_COMPUTE:
        return compute_gives_nan(rank, &program->computes[item->subject]);
    case CLEAVE_ITEM_LOAD:
        return buffer_has_nan(rank, program->loads[item->subject].buffer);
    case CLEAVE_ITEM_UPDATE:
        update = &program->updates[item->subject];
        return buffer_has_nan(rank, update->master >= 0 ? update->master : update->parameter);
    default:
        return false;
    }
}

/* Who wrote the first one. */
static cleave_status fail_at(const cleave_program *program, int64_t step, int64_t loss_step,
                             int32_t id, cleave_error *error) {
    const cleave_item *item = &program->items[id];
    const cleave_model *model = program->model;
    const char *pass = "update", *name = "";
    if (item->kind == CLEAVE_ITEM_COMPUTE) {
        const cleave_compute *compute = &program->computes[item->subject];
        name = model->operators[model->nests[compute->nest].op].name;
        pass = cleave_pass_names[compute->pass];
    } else if (item->kind == CLEAVE_ITEM_UPDATE) {
        name = model->tensors[program->updates[item->subject].tensor].name;
    } else {
        name = model->tensors[program->buffers[program->loads[item->subject].buffer].tensor].name;
        pass = "the data";
    }
    return cleave_fail(error, CLEAVE_BAD_INPUT,
                       "the loss of step %lld is not a number: the first one appears in step %lld, "
                       "%s of %s",
                       (long long)loss_step + 1, (long long)step + 1, pass, name);
}

cleave_status cleave_watch_again(cleave_values *values, cleave_rank *rank, int64_t from,
                                 int64_t last, cleave_error *error) {
    CLEAVE_TRY(cleave_values_fill(values, rank, error));
    rank->load_context = values;
    rank->finds_nan = finds_nan;
    cleave_progress progress;
    cleave_progress_begin(&progress, "looking for the first that is not a number",
                          rank->options->quiet || rank->device != 0);
    for (int64_t step = from; step <= last; step++) {
        CLEAVE_TRY(cleave_rank_step(rank, step, error));
        double first = rank->nan_item >= 0 ? -(double)rank->nan_item : -HUGE_VAL;
        CLEAVE_TRY(cleave_world_meet(rank->world, &first, 1, "at the end of a step", error));
        cleave_progress_update(&progress, (double)(step + 1 - from) / (double)(last + 1 - from),
                               NULL);
        if (first > -HUGE_VAL)
            return fail_at(rank->program, step, last, (int32_t)-first, error);
    }
    cleave_progress_end(&progress);
    return cleave_fail(error, CLEAVE_BAD_INPUT, "the loss of step %lld is not a number",
                       (long long)last + 1);
}
