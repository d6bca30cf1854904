/* Operators that read one parameter. */
#include "search/pipeline/joint_internal.h"

/* `first_reader` [n_tensors] is 0, or 1 + the operator. */
static void tie(const cleave_model *model, int32_t tensor, int32_t op, int32_t *first_reader,
                int32_t *tied) {
    const cleave_tensor *of = &model->tensors[tensor];
    for (int32_t s = 0; s < of->view.n_sources; s++)
        tie(model, of->view.sources[s], op, first_reader, tied);
    if (of->kind != CLEAVE_TENSOR_PARAMETER)
        return;
    if (first_reader[tensor] == 0)
        first_reader[tensor] = 1 + op;
    if (first_reader[tensor] - 1 < tied[op])
        tied[op] = first_reader[tensor] - 1;
}

bool joint_tie(planning *p, const cleave_model *model, cleave_arena *scratch) {
    int32_t *first_reader = CLEAVE_ARENA_ARRAY(scratch, int32_t, model->n_tensors);
    int32_t *tied = CLEAVE_ARENA_ARRAY(scratch, int32_t, model->n_operators);
    for (int32_t op = 0; op < model->n_operators && tied != NULL; op++)
        tied[op] = op;
    for (int32_t n = 0; n < model->n_nests && first_reader != NULL && tied != NULL; n++)
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            tie(model, model->nests[n].inputs[i].tensor, model->nests[n].op, first_reader, tied);
    p->tied = tied;
    return first_reader != NULL && tied != NULL;
}
