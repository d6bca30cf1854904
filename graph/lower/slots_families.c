/* The families of a model's tensors: what views, assignments and attention join. */
#include "graph/lower/slots_internal.h"

static int32_t root_of(int32_t *parent, int32_t tensor) {
    while (parent[tensor] != tensor)
        tensor = parent[tensor] = parent[parent[tensor]];
    return tensor;
}

static void join(int32_t *parent, int32_t a, int32_t b) {
    int32_t x = root_of(parent, a), y = root_of(parent, b);
    parent[x > y ? x : y] = x > y ? y : x;
}

bool lower_find_families(const cleave_model *model, cleave_arena *arena, lower_schedule *s) {
    size_t n = (size_t)model->n_tensors;
    int32_t *parent = CLEAVE_ARENA_ARRAY(arena, int32_t, n);
    s->family_of = CLEAVE_ARENA_ARRAY(arena, int32_t, n);
    s->first_member = CLEAVE_ARENA_ARRAY(arena, int32_t, n + 2);
    s->members = CLEAVE_ARENA_ARRAY(arena, int32_t, n);
    if (parent == NULL || s->family_of == NULL || s->first_member == NULL || s->members == NULL)
        return false;
    for (int32_t t = 0; t < model->n_tensors; t++)
        parent[t] = t;
    for (int32_t t = 0; t < model->n_tensors; t++)
        for (int32_t i = 0; i < model->tensors[t].view.n_sources; i++)
            join(parent, t, model->tensors[t].view.sources[i]);
    for (int32_t a = 0; a < model->n_assignments; a++)
        join(parent, model->assignments[a].target, model->assignments[a].source);
    for (int32_t i = 0; i < model->n_nests; i++)
        join(parent, model->nests[i].output.tensor, cleave_nest_combined(&model->nests[i])->tensor);
    for (int32_t t = 0; t < model->n_tensors; t++) { /* a root is the least of its family */
        int32_t root = root_of(parent, t);
        s->family_of[t] = root == t ? s->n_families++ : s->family_of[root];
        if (model->tensors[t].view.kind == CLEAVE_VIEW_NONE)
            s->first_member[s->family_of[t] + 1]++;
    }
    for (int32_t f = 0; f < s->n_families; f++)
        s->first_member[f + 1] += s->first_member[f];
    int32_t *next = CLEAVE_ARENA_ARRAY(arena, int32_t, s->n_families);
    if (next == NULL)
        return false;
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (model->tensors[t].view.kind == CLEAVE_VIEW_NONE) {
            int32_t f = s->family_of[t];
            s->members[s->first_member[f] + next[f]++] = t;
        }
    return true;
}
