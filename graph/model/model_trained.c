/* Does training change anything?  A loss behind an operator without a gradient, such as ArgMax,
   leaves all parameters as they are. */
#include "graph/model/model_internal.h"

static bool sees_any(const cleave_model *model, int32_t id, const bool *marked) {
    const cleave_view *view = &model->tensors[id].view;
    for (int32_t i = 0; view->kind != CLEAVE_VIEW_NONE && i < view->n_sources; i++)
        if (sees_any(model, view->sources[i], marked))
            return true;
    return marked[id];
}

/* The last nest that a gradient of the loss comes to while what it reads, of which some depends on
   a parameter, gets none; -1 where there is none.  Both arrays: [n_tensors], false. */
static int32_t find_stop(const cleave_model *model, bool *useful, bool *depends) {
    int32_t stop = -1;
    cleave_model_find_useful(model, useful);
    for (int32_t t = 0; t < model->n_tensors; t++)
        depends[t] = model->tensors[t].kind == CLEAVE_TENSOR_PARAMETER;
    for (int32_t n = 0; n < model->n_nests; n++) {
        const cleave_nest *nest = &model->nests[n];
        for (int i = 0; i < nest->n_inputs; i++) {
            int32_t input = nest->inputs[i].tensor;
            if (!sees_any(model, input, depends))
                continue;
            depends[nest->output.tensor] = true;
            if (useful[nest->output.tensor] && !useful[input])
                stop = n;
        }
    }
    return stop;
}

cleave_status cleave_model_check_trained(const cleave_model *model, cleave_error *error) {
    bool any = false;
    for (int32_t t = 0; t < model->n_tensors; t++) {
        if (model->tensors[t].needs_gradient && model->tensors[t].kind == CLEAVE_TENSOR_PARAMETER)
            return CLEAVE_OK;
        any = any || model->tensors[t].kind == CLEAVE_TENSOR_PARAMETER;
    }
    if (!any || model->loss < 0)
        return CLEAVE_OK;
    cleave_arena scratch = {0};
    bool *useful = CLEAVE_ARENA_ARRAY(&scratch, bool, model->n_tensors);
    bool *depends = CLEAVE_ARENA_ARRAY(&scratch, bool, model->n_tensors);
    bool enough = useful != NULL && depends != NULL;
    int32_t stop = enough ? find_stop(model, useful, depends) : -1;
    cleave_arena_free(&scratch);
    if (!enough)
        return cleave_fail_memory(error, "looking for gradients");
    if (stop < 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: nothing can be trained: the loss depends on no parameter",
                           model->file);
    const cleave_operator *op = &model->operators[model->nests[stop].op];
    return cleave_fail(
        error, CLEAVE_BAD_INPUT,
        "%s: nothing can be trained: no parameter gets a gradient of the loss, since "
        "none passes through %s (%s) or what is fused with it; a model is trained on its first "
        "output, which "
        "has to be a loss or logits",
        model->file, op->name, op->type);
}
