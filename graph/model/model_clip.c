/* The norm of all gradients as a tensor of the model, so that lowering moves it as any other. */
#include "graph/model/model.h"

#include <string.h>

cleave_status cleave_model_clip(cleave_model *model, cleave_error *error) {
    int32_t n = model->n_tensors;
    if (model->squares > 0 || !cleave_model_trains(model))
        return CLEAVE_OK;
    cleave_tensor *tensors = CLEAVE_ARENA_ARRAY(model->arena, cleave_tensor, (size_t)n + 1);
    int32_t *writer = CLEAVE_ARENA_ARRAY(model->arena, int32_t, (size_t)n + 1);
    if (tensors == NULL || writer == NULL)
        return cleave_fail_memory(error, "clipping gradients");
    memcpy(tensors, model->tensors, (size_t)n * sizeof *tensors);
    memcpy(writer, model->writer, (size_t)n * sizeof *writer);
    tensors[n] = (cleave_tensor){.name = "@gradient_squares",
                                 .kind = CLEAVE_TENSOR_ACTIVATION,
                                 .type = CLEAVE_F32,
                                 .stored = CLEAVE_F32};
    writer[n] = -1;
    model->tensors = tensors;
    model->writer = writer;
    model->squares = ++model->n_tensors;
    return CLEAVE_OK;
}
