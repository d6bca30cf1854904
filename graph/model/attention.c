/* Puts one nest in the place of those of each operator that is attention. */
#include "graph/model/attention.h"

#include "graph/model/attention_find.h"
#include "graph/model/ring.h"

#include <string.h>

/* Of each operator its nests by their new ids. */
static void list_nests(const cleave_model *model, const cleave_nest *const *made, const int32_t *id,
                       cleave_operator *operators, int32_t *lists) {
    int32_t n = 0;
    for (int32_t op = 0; op < model->n_operators; op++) {
        const cleave_operator *was = &model->operators[op];
        operators[op].main_nest = id[was->main_nest];
        operators[op].nests = &lists[n];
        operators[op].n_nests = made[op] != NULL ? 1 : was->n_nests;
        for (int32_t k = 0; k < operators[op].n_nests; k++)
            lists[n++] = made[op] != NULL ? id[was->main_nest] : id[was->nests[k]];
    }
}

/* The nests of the model, with one in place of each operator's that has one, where its last was. */
static bool put_in_place(cleave_model *model, const cleave_nest *const *made) {
    int32_t *id = CLEAVE_ARENA_ARRAY(model->arena, int32_t, model->n_nests), n = 0;
    cleave_nest *nests = CLEAVE_ARENA_ARRAY(model->arena, cleave_nest, model->n_nests);
    cleave_operator *operators =
        CLEAVE_ARENA_ARRAY(model->arena, cleave_operator, model->n_operators);
    int32_t *lists = CLEAVE_ARENA_ARRAY(model->arena, int32_t, model->n_nests);
    cleave_tensor *tensors = CLEAVE_ARENA_ARRAY(model->arena, cleave_tensor, model->n_tensors);
    int32_t *writer = CLEAVE_ARENA_ARRAY(model->arena, int32_t, model->n_tensors);
    if (id == NULL || nests == NULL || operators == NULL || lists == NULL || tensors == NULL ||
        writer == NULL)
        return false;
    memcpy(tensors, model->tensors, (size_t)model->n_tensors * sizeof *tensors);
    memcpy(operators, model->operators, (size_t)model->n_operators * sizeof *operators);
    for (int32_t t = 0; t < model->n_tensors; t++)
        writer[t] = -1;
    for (int32_t i = 0; i < model->n_nests; i++) {
        const cleave_nest *one = made[model->nests[i].op];
        id[i] = n;
        if (one != NULL && i == model->operators[one->op].main_nest) {
            tensors[model->nests[i].output.tensor].needs_gradient = one->differentiable;
        } else if (one != NULL) { /* of its tensors none but what the one nest writes is left */
            tensors[model->nests[i].output.tensor].needs_gradient = false;
            tensors[model->nests[i].output.tensor].real = false;
            tensors[model->nests[i].output.tensor].stored = CLEAVE_F32;
        }
        if (one != NULL && i != model->operators[one->op].main_nest)
            continue;
        nests[n] = one != NULL ? *one : model->nests[i];
        writer[nests[n].output.tensor] = n;
        if (one != NULL) {
            writer[one->statistics.tensor] = n;
            tensors[one->statistics.tensor].stored = CLEAVE_STATISTICS;
        }
        if (nests[n].derivation == CLEAVE_DERIVE_OWNERS)
            nests[n].owners_of = id[nests[n].owners_of];
        n++;
    }
    list_nests(model, made, id, operators, lists);
    model->nests = nests;
    model->n_nests = n;
    model->operators = operators;
    model->tensors = tensors;
    model->writer = writer;
    return true;
}

static cleave_status fuse_all(cleave_model *model, cleave_error *error) {
    int32_t *readers = CLEAVE_ARENA_ARRAY(model->arena, int32_t, model->n_tensors);
    const cleave_nest **made =
        CLEAVE_ARENA_ARRAY(model->arena, const cleave_nest *, model->n_operators);
    bool enough = readers != NULL && made != NULL, any = false;
    if (enough)
        cleave_model_count_readers(model, readers);
    if (enough && model->loss >= 0)
        readers[model->loss]++;
    for (int32_t op = 0; op < model->n_operators && enough; op++) {
        if (model->operators[op].n_nests < 5)
            continue;
        cleave_nest *nest = CLEAVE_ARENA_ARRAY(model->arena, cleave_nest, 1);
        bool found = false;
        enough = nest != NULL && cleave_attention_find(model, op, readers, made, nest, &found);
        if (enough && found) {
            made[op] = nest;
            any = true;
        }
    }
    if (!enough || (any && !put_in_place(model, made)))
        return cleave_fail_memory(error, "making one nest of attention's");
    return any ? cleave_model_check(model, error) : CLEAVE_OK;
}

cleave_status cleave_model_fuse_attention(const cleave_model *model, const cleave_layout *layout,
                                          cleave_arena *arena, cleave_model *fused,
                                          cleave_error *error) {
    cleave_model made = *model;
    made.arena = arena;
    if (!(layout != NULL ? layout->stores_scores : model->stores_scores))
        CLEAVE_TRY(fuse_all(&made, error));
    if (layout != NULL)
        CLEAVE_TRY(cleave_model_take_turns(&made, layout, error));
    *fused = made;
    return CLEAVE_OK;
}
