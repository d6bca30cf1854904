/* The model of one micro-batch: what is shared out over the samples, an m-th of it each. */
#include "graph/model/micro_batch.h"

#include <string.h>

static void *copy(cleave_arena *arena, const void *items, int32_t n, size_t size) {
    void *made = cleave_arena_alloc(arena, (size_t)n + 1, size);
    if (made != NULL && n > 0)
        memcpy(made, items, (size_t)n * size);
    return made;
}

/* Of an operator whose nests share out several axes, each is cut once. */
static void cut_nest(const cleave_model *model, const cleave_micro_batches *micro, int32_t n,
                     cleave_model *of_one) {
    int axis = micro->sharing.nest_axis[n];
    if (axis < 0)
        return;
    cleave_nest *nest = &of_one->nests[n];
    nest->axes[axis].extent /= micro->n;
    int a = nest->derivation == CLEAVE_DERIVE_OPERATOR ? nest->operator_axis[axis] : -1;
    if (a >= 0)
        of_one->operators[nest->op].axes[a].extent =
            model->operators[nest->op].axes[a].extent / micro->n;
}

cleave_status cleave_micro_batches_model(const cleave_model *model,
                                         const cleave_micro_batches *micro, cleave_arena *arena,
                                         cleave_model *of_one, cleave_error *error) {
    cleave_model made = *model;
    made.batch /= micro->n;
    made.tensors = copy(arena, model->tensors, model->n_tensors, sizeof *model->tensors);
    made.nests = copy(arena, model->nests, model->n_nests, sizeof *model->nests);
    made.operators = copy(arena, model->operators, model->n_operators, sizeof *model->operators);
    if (made.tensors == NULL || made.nests == NULL || made.operators == NULL)
        return cleave_fail_memory(error, "cutting the batch into micro-batches");
    for (int32_t t = 0; t < model->n_tensors; t++) {
        cleave_tensor *tensor = &made.tensors[t];
        if (micro->sharing.tensor_dimension[t] < 0)
            continue;
        tensor->shape[micro->sharing.tensor_dimension[t]] /= micro->n;
        tensor->file_rank = tensor->rank;
        memcpy(tensor->file_shape, tensor->shape, sizeof tensor->file_shape);
    }
    for (int32_t n = 0; n < model->n_nests; n++)
        cut_nest(model, micro, n, &made);
    *of_one = made;
    return CLEAVE_OK;
}
