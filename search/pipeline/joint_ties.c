/* What a cut parts: operators that read one parameter, and those that read one tensor and each give
   a part of its gradient. */
#include "search/pipeline/joint_internal.h"

/* 1 + the first operator that reads what has a gradient and is no parameter. */
static void note_reader(const cleave_model *model, int32_t tensor, int32_t op, int32_t *first) {
    const cleave_tensor *of = &model->tensors[tensor];
    for (int32_t s = 0; s < of->view.n_sources; s++)
        note_reader(model, of->view.sources[s], op, first);
    if (model->writer[tensor] >= 0 && of->needs_gradient && first[tensor] == 0)
        first[tensor] = 1 + op;
}

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

/* Of each cut the first operator that reads what is read behind the cut, too, and gives a part of
   its gradient; or the one behind the cut, where there is none. */
bool joint_find_joined(planning *p, const cleave_model *model, cleave_arena *scratch) {
    int32_t *last = CLEAVE_ARENA_ARRAY(scratch, int32_t, model->n_tensors);
    int32_t *first = CLEAVE_ARENA_ARRAY(scratch, int32_t, model->n_tensors);
    p->joined = CLEAVE_ARENA_ARRAY(scratch, int32_t, p->n_operators);
    if (last == NULL || first == NULL || p->joined == NULL)
        return false;
    cleave_model_last_readers(model, last);
    for (int32_t n = 0; n < model->n_nests; n++)
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            note_reader(model, model->nests[n].inputs[i].tensor, model->nests[n].op, first);
    for (int32_t op = 0; op < p->n_operators; op++)
        p->joined[op] = op + 1;
    for (int32_t t = 0; t < model->n_tensors; t++)
        for (int32_t op = first[t] - 1; op >= 0 && op < last[t]; op++)
            p->joined[op] = first[t] - 1 < p->joined[op] ? first[t] - 1 : p->joined[op];
    return true;
}
