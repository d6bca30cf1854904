#include "exec/dropped.h"

int64_t cleave_dropped_count(const cleave_rank *rank, const cleave_item *item) {
    const cleave_program *program = rank->program;
    if (item->kind != CLEAVE_ITEM_COMPUTE || program->slots[item->slot].generation > 0)
        return 0;
    const cleave_compute *compute = &program->computes[item->subject];
    if (compute->pass != CLEAVE_PASS_FORWARD || compute->part.replica > 0 || compute->output < 0)
        return 0;
    const cleave_buffer *rows = &program->buffers[compute->output];
    int64_t none = program->model->tensors[rows->tensor].dropped_from, n = 0;
    if (none == 0 || rows->type != CLEAVE_F32)
        return 0;
    const float *row = cleave_rank_buffer(rank, compute->output);
    for (int64_t i = 0; i < rows->bytes / (int64_t)sizeof *row; i++)
        n += row[i] >= (float)none;
    return n;
}

int64_t cleave_dropped_most(const cleave_model *model) {
    int64_t n = 0;
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (model->tensors[t].dropped_from > 0)
            n += cleave_tensor_size(&model->tensors[t]);
    return n;
}
