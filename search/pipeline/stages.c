#include "search/pipeline/stages.h"

#include <stdlib.h>

/* ---- what goes from stage to stage ----------------------------------------------------------- */

/* The last operator that reads a base tensor, through views. */
static void note_reader(const cleave_model *model, int32_t tensor, int32_t op, int32_t *last) {
    const cleave_tensor *of = &model->tensors[tensor];
    if (of->view.kind == CLEAVE_VIEW_NONE && op > last[tensor])
        last[tensor] = op;
    for (int32_t s = 0; s < of->view.n_sources; s++)
        note_reader(model, of->view.sources[s], op, last);
}

cleave_status cleave_stage_bytes(const cleave_model *model, cleave_arena *arena, int64_t **bytes,
                                 cleave_error *error) {
    int64_t *found = CLEAVE_ARENA_ARRAY(arena, int64_t, model->n_operators);
    int32_t *last = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    if (found == NULL || last == NULL)
        return cleave_fail_memory(error, "cutting a model into stages");
    for (int32_t n = 0; n < model->n_nests; n++)
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            note_reader(model, model->nests[n].inputs[i].tensor, model->nests[n].op, last);
    for (int32_t t = 0; t < model->n_tensors; t++) {
        if (model->writer[t] < 0)
            continue;
        int64_t size =
            cleave_tensor_size(&model->tensors[t]) * cleave_type_bytes(model->tensors[t].type);
        for (int32_t op = model->nests[model->writer[t]].op; op < last[t]; op++)
            found[op] += size;
    }
    *bytes = found;
    return CLEAVE_OK;
}

/* ---- cuts ------------------------------------------------------------------------------------ */

/* How far the stage that begins with `first` comes in so much time; `first`: not at all.  Of all
   ends that do the farthest: what comes behind has the least to do then. */
static int32_t reach(int32_t n, const int64_t *work, const int64_t *sends, int32_t first,
                     int64_t most) {
    int64_t sum = 0;
    int32_t end = first;
    for (int32_t op = first; op < n; op++) {
        sum += work[op];
        if (sum > most)
            break;
        if (op == n - 1 || sum + sends[op] <= most)
            end = op + 1;
    }
    return end;
}

/* Do so many stages do, each in so much time?  Every stage has an operator, so the last ones may
   have to be short. */
static bool cut(int32_t n, const int64_t *work, const int64_t *sends, int32_t n_stages,
                int64_t most, int32_t *first) {
    int32_t at = 0;
    for (int32_t s = 0; s < n_stages; s++) {
        first[s] = at;
        int32_t end = reach(n, work, sends, at, most), rest = n_stages - 1 - s;
        if (end == at)
            return false;
        if (n - end < rest) { /* leave one for each of those behind */
            end = n - rest;
            if (end <= at)
                return false;
        }
        at = end;
    }
    return at == n;
}

cleave_status cleave_stages_cut(int32_t n_operators, const int64_t *work, const int64_t *sends,
                                int32_t n_stages, int32_t *first_operator, cleave_error *error) {
    int64_t low = 0, high = 0;
    int32_t *tried = malloc(((size_t)n_stages + 1) * sizeof *tried);
    if (tried == NULL)
        return cleave_fail_memory(error, "cutting a model into stages");
    for (int32_t op = 0; op < n_operators; op++)
        high += work[op] + sends[op];
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (cut(n_operators, work, sends, n_stages, middle, tried))
            high = middle;
        else
            low = middle + 1;
    }
    cut(n_operators, work, sends, n_stages, high, first_operator);
    free(tried);
    return CLEAVE_OK;
}
